//! The space checked against a naive model: whatever may still be read is always whole on disk.
//!
//! The model keeps sets of pages by value: the newest version's, each pinned version's, each
//! clone's, each slot's. Every page written fills its extent with bytes of its own, so that a place
//! reused too early shows as a page that no longer verifies.

use std::collections::BTreeMap;

use proptest::{prelude::*, sample::Index};

use super::basics::{dir, env};
use crate::{
    io::{ALIGN, Env, OpenMode},
    store::*,
    types::{Lineage, Lsn, Seqno, TreeId, VersionNumber},
};

#[derive(Clone, Debug)]
enum Step {
    Write { lineage: u32, class: u8, pages: u8 },
    Kill(Index),
    Pin,
    Unpin(Index),
    Clone(u32),
    CloneOfClone(Index),
    DropClone(Index),
    Checkpoint,
    Spill { pages: u8, adopt: bool, in_log: bool },
    Trim,
    GiveBack(bool),
    Crash { newest_slot_lost: bool, map_lost: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1u32..4, 0u8..3, 1u8..40)
            .prop_map(|(lineage, class, pages)| Step::Write { lineage, class, pages }),
        8 => any::<Index>().prop_map(Step::Kill),
        2 => Just(Step::Pin),
        2 => any::<Index>().prop_map(Step::Unpin),
        1 => (1u32..4).prop_map(Step::Clone),
        1 => any::<Index>().prop_map(Step::CloneOfClone),
        1 => any::<Index>().prop_map(Step::DropClone),
        3 => Just(Step::Checkpoint),
        2 => (1u8..40, any::<bool>(), any::<bool>())
            .prop_map(|(pages, adopt, in_log)| Step::Spill { pages, adopt, in_log }),
        1 => Just(Step::Trim),
        1 => any::<bool>().prop_map(Step::GiveBack),
        1 => (any::<bool>(), any::<bool>())
            .prop_map(|(newest_slot_lost, map_lost)| Step::Crash { newest_slot_lost, map_lost }),
    ]
}

#[derive(Clone, Debug)]
struct ModelClone {
    lineage: Lineage,
    at: VersionNumber,
    pages: Vec<Link>,
}

/// A version: the pages of its trees, and its clones.
#[derive(Clone, Debug, Default)]
struct Version {
    publish: VersionNumber,
    live: Vec<Link>,
    clones: Vec<ModelClone>,
}

impl Version {
    fn pages(&self) -> impl Iterator<Item = &Link> {
        self.live.iter().chain(self.clones.iter().flat_map(|clone| &clone.pages))
    }
}

struct Model {
    env: Env,
    options: StoreOptions,
    store: Option<Store>,
    now: Version,
    pinned: Vec<Version>,
    newest: Version,
    older: Option<Version>,
    /// Extents that the log names, with the position of the record.
    log: Vec<(Link, Lsn)>,
    lsn: u64,
    slot_log_from: [u64; 2],
}

fn content(link_like: (u64, u64)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&link_like.0.to_le_bytes());
    bytes[8..].copy_from_slice(&link_like.1.to_le_bytes());
    bytes
}

const KINDS: [(PageKind, Class); 3] =
    [(PageKind::Node, Class::Node), (PageKind::Run, Class::Run), (PageKind::Blob, Class::Blob)];

/// The kind of a page is encoded in its lineage's low byte in this model: lineage = tree × 16 +
/// class.
fn kind_of(link: &Link) -> (PageKind, Class) {
    KINDS[(link.lineage.0 % 16) as usize]
}

impl Model {
    fn new(allocate_from: u64) -> Self {
        let env = env();
        let options = StoreOptions { allocate_from, ..StoreOptions::default() };
        let store = create(&env, dir(), options).unwrap().store;
        let now = Version { publish: store.counts_from(), ..Version::default() };
        Self {
            env,
            options,
            store: Some(store),
            now,
            pinned: vec![],
            newest: Version::default(),
            older: Some(Version::default()),
            log: vec![],
            lsn: 1,
            slot_log_from: [0; 2],
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn next(&mut self) -> VersionNumber {
        self.now.publish = self.now.publish.next();
        self.now.publish
    }

    fn write_at(&self, extent: Extent, birth: VersionNumber, lineage: Lineage) -> Link {
        let kind = KINDS[(lineage.0 % 16) as usize].0;
        let payload = content((extent.offset, birth.0));
        self.store().write_page(kind, extent, birth, lineage, &[&payload]).unwrap()
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Write { lineage, class, pages } => {
                let birth = self.next();
                let lineage = Lineage(lineage * 16 + u32::from(*class));
                let (kind, class) = KINDS[usize::from(*class)];
                let bytes = u64::from(*pages) * ALIGN as u64;
                let request = Request { class, kind, bytes, birth, lineage };
                let extent = self.store().allocate(&request).unwrap();
                let link = self.write_at(extent, birth, lineage);
                self.now.live.push(link);
            }
            Step::Kill(pick) if !self.now.live.is_empty() => {
                let at = self.next();
                let link = self.now.live.swap_remove(pick.index(self.now.live.len()));
                self.store().die(&link, link.lineage, at).unwrap();
                assert!(self.store().die(&link, link.lineage, at).is_err(), "it died already");
            }
            Step::Pin => {
                self.store().space().pin_version(self.now.publish);
                self.pinned.push(self.now.clone());
            }
            Step::Unpin(pick) if !self.pinned.is_empty() => {
                let version = self.pinned.swap_remove(pick.index(self.pinned.len()));
                self.store().space().unpin_version(version.publish);
            }
            Step::Clone(tree) => self.clone_tree(*tree),
            Step::CloneOfClone(pick) if !self.now.clones.is_empty() => {
                let from = self.next();
                let clone = self.now.clones[pick.index(self.now.clones.len())].clone();
                self.store().space().pin_lineage(clone.lineage, clone.at, from);
                self.now.clones.push(clone);
            }
            Step::DropClone(pick) if !self.now.clones.is_empty() => {
                let until = self.next();
                let clone = self.now.clones.swap_remove(pick.index(self.now.clones.len()));
                assert!(self.store().space().unpin_lineage(clone.lineage, clone.at, until));
            }
            Step::Checkpoint => self.checkpoint(),
            Step::Spill { pages, adopt, in_log } => self.spill(*pages, *adopt, *in_log),
            Step::Trim => self.trim(),
            Step::GiveBack(all) => {
                self.store().give_back(if *all { 0 } else { 200 << 10 }).unwrap();
            }
            Step::Crash { newest_slot_lost, map_lost } => self.crash(*newest_slot_lost, *map_lost),
            _ => {}
        }
    }

    /// Clones the runs of a tree. In this model lineages are per tree and class, and cloning one is
    /// enough.
    fn clone_tree(&mut self, tree: u32) {
        let at = self.now.publish;
        let lineage = Lineage(tree * 16 + 1);
        self.store().space().pin_version(at); // as the job that clones does
        let from = self.next();
        self.store().space().pin_lineage(lineage, at, from);
        self.store().space().unpin_version(at);
        let pages = self.now.live.iter().filter(|link| link.lineage == lineage);
        let pages = pages.copied().collect();
        self.now.clones.push(ModelClone { lineage, at, pages });
    }

    fn spill(&mut self, pages: u8, adopt: bool, in_log: bool) {
        let birth = self.next();
        let lineage = Lineage(16 + 1);
        let request = Request {
            class: Class::Run,
            kind: PageKind::Run,
            bytes: u64::from(pages) * ALIGN as u64,
            birth,
            lineage,
        };
        let extent = self.store().allocate_temporary(&request).unwrap();
        let link = self.write_at(extent, birth, lineage);
        if in_log {
            self.lsn += 1;
            self.store().name_in_log(extent.offset, Lsn(self.lsn)).unwrap();
            self.log.push((link, Lsn(self.lsn)));
        }
        if adopt {
            self.store().adopt(extent.offset, birth, lineage).unwrap();
            self.now.live.push(link);
        } else {
            self.store().abandon(extent.offset).unwrap();
            assert!(self.store().abandon(extent.offset).is_err());
        }
    }

    fn checkpoint(&mut self) {
        let publish = self.next();
        self.lsn += 1;
        let trees =
            self.now.live.iter().zip(0u32..).map(|(&link, id)| {
                (TreeId(id), TreeRoot { link: Some(link), ..TreeRoot::default() })
            });
        let roots = RootDirectory { trees: trees.collect(), snapshots: vec![] };
        self.store().space().pin_version(publish);
        let superblock = self
            .store()
            .publish(&Checkpoint {
                publish,
                applied: Seqno(publish.0),
                log_from: Lsn(self.lsn),
                log_synced: Lsn(self.lsn),
                clean: None,
                roots: &DirectoryChange::whole(&roots),
            })
            .unwrap();
        self.store().space().unpin_version(publish);
        let live: u64 = self.now.live.iter().map(|link| u64::from(link.bytes)).sum();
        assert!(superblock.totals.live > live, "all live pages are counted");
        self.older = Some(std::mem::replace(&mut self.newest, self.now.clone()));
        self.slot_log_from = [self.lsn, self.slot_log_from[0]];
    }

    fn trim(&mut self) {
        let from = self.store().log_needed_from();
        assert_eq!(from.0, self.slot_log_from.into_iter().min().unwrap());
        self.store().space().log_trimmed(from);
        self.log.retain(|(_, lsn)| *lsn >= from);
    }

    fn crash(&mut self, newest_slot_lost: bool, map_lost: bool) {
        let superblock = self.store().newest();
        let expected_log = self.store().log_needed_from();
        self.store = None;
        let falls_back = newest_slot_lost && self.older.is_some();
        let is_shared =
            self.older.as_ref().is_some_and(|older| older.publish == self.newest.publish);
        if falls_back {
            let target = match superblock.map {
                // After a fallback both slots link the same map until the next checkpoint.
                Some(map) if map_lost && !is_shared => map.offset + 100,
                _ => (superblock.sequence % 2) * (64 << 10) + 700,
            };
            self.flip(target);
        }
        let opened = open(&self.env, dir(), self.options).unwrap();
        assert_eq!(opened.warnings.is_empty(), !falls_back, "{:?}", opened.warnings);
        if falls_back {
            // From now on both slots show it.
            self.newest = self.older.clone().unwrap();
            self.slot_log_from = [self.slot_log_from[1]; 2];
        }
        assert_eq!(opened.superblock.publish, self.newest.publish);
        assert_eq!(opened.roots.trees.len(), self.newest.live.len());
        assert!(opened.store.log_needed_from() <= expected_log.max(Lsn(self.slot_log_from[0])));
        self.store = Some(opened.store);
        self.pinned.clear();
        self.now = self.newest.clone();
        self.now.publish = self.store().counts_from();
        // What no slot needs of the log counts as trimmed.
        let needed = self.store().log_needed_from();
        self.log.retain(|(_, lsn)| *lsn >= needed);
        // Recovery marks what the log names, then replays. Here nothing is adopted again, so what
        // only the log names is abandoned by its owner and kept for the log.
        for (link, lsn) in self.log.clone() {
            let extent = Extent { offset: link.offset, bytes: link.bytes };
            self.store().claim(extent, Class::Run, PageKind::Run, lsn).unwrap();
        }
        for (link, _) in self.log.clone() {
            drop(self.store().abandon(link.offset)); // refused for those the map knows
        }
    }

    fn flip(&self, offset: u64) {
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let file = self.env.vfs.open(&dir().join(STORE_FILE), mode).unwrap();
        let mut byte = [0];
        file.read_at(&mut byte, offset).unwrap();
        file.write_at(&[byte[0] ^ 4], offset).unwrap();
    }

    /// Checks that everything that may still be read is whole, and that the sums add up.
    fn check(&self) {
        let versions = [&self.now, &self.newest].into_iter().chain(&self.pinned).chain(&self.older);
        let mut used = BTreeMap::new();
        let log = self.log.iter().map(|(link, _)| link);
        for link in versions.flat_map(Version::pages).chain(log) {
            if used.insert(link.offset, link.bytes).is_none() {
                let page = self.store().read_page(link, kind_of(link).0, "a model page");
                assert_eq!(page.unwrap()[..], content((link.offset, link.birth.0)));
            }
        }
        let mut end = DATA_START;
        for (&offset, &bytes) in &used {
            assert!(offset >= end, "pages in use overlap");
            end = offset + u64::from(bytes);
        }
        let stats = self.store().stats().space;
        let used: u64 = used.values().map(|&bytes| u64::from(bytes)).sum();
        assert!(stats.live + stats.kept + stats.temporary >= used, "{stats:?}");
        assert_eq!(stats.live + stats.kept + stats.temporary + stats.free + DATA_START, stats.end);
    }

    /// Releases everything and checkpoints until only the store's own pages are left.
    fn finish(mut self) {
        for version in std::mem::take(&mut self.pinned) {
            self.store().space().unpin_version(version.publish);
        }
        while !self.now.clones.is_empty() {
            self.run(&Step::DropClone(Index::default()));
        }
        while !self.now.live.is_empty() {
            self.run(&Step::Kill(Index::default()));
        }
        for _ in 0..4 {
            self.checkpoint();
            self.trim();
        }
        let stats = self.store().stats().space;
        assert!(stats.live + stats.kept <= 64 << 10 && stats.temporary == 0, "a leak: {stats:?}");
        // Two slots' root directories, map directories and at most two generations of one zone
        // page.
        assert!(stats.extents <= 16, "a leak: {stats:?}");
        self.crash(false, false);
        let after = self.store().stats().space;
        assert!(after.live + after.kept <= stats.live + stats.kept, "{stats:?} then {after:?}");
    }
}

trait Pick {
    fn default() -> Self;
}

impl Pick for Index {
    fn default() -> Self {
        use proptest::{strategy::ValueTree, test_runner::TestRunner};
        any::<Index>().new_tree(&mut TestRunner::deterministic()).unwrap().current()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Rules: I11, I18, I19, I23. Promises: P5, P10.
    #[test]
    fn space_that_may_be_read_is_never_reallocated(
        steps in proptest::collection::vec(step(), 1..120),
        allocate_from in prop_oneof![Just(0u64), Just((1 << 32) - (300 << 10)), Just((1 << 41) + 1)],
    ) {
        let mut model = Model::new(allocate_from);
        for step in &steps {
            model.run(step);
            model.check();
        }
        model.finish();
    }
}
