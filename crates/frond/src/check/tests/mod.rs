//! For each rule, a store that violates exactly that rule, with all checksums right: the check must
//! name it. The store is written page by page, so that the violation can be placed anywhere.

mod blobs;
mod live;
mod newer;

use std::{cell::RefCell, path::Path};

use super::*;
use crate::{
    Durability, Seqno, TreeId,
    blob::{Blob, BlobOptions, BlobRef},
    cache::FramePool,
    catalog::{CounterRecord, Record, TreeRecord},
    io::{MemoryVfs, OpenMode, RealClock, RealRng, Workers},
    message::Tag,
    page::{Link, PageKind, page_hash},
    run::{Run, RunBuilder, RunOptions, forge, put_operand},
    store::{
        Checkpoint, Class, DirectoryChange, Extent, Request, RootDirectory, TreeRoot as DurableRoot,
    },
    tree::{Child, Node, NodeRef, RunHandle, RunMeta, RunSlice, Tier, encode_node},
    types::{Lineage, Lsn, VersionNumber},
    wal::{Log, LogExtent, LogOptions, LogUse, RecordBuilder, checkpoint_record, trailer},
};

const DIR: &str = "store";
const TREE: Lineage = Lineage(1);
const APPLIED: Seqno = Seqno(5);

type Row = (&'static str, Tag, Vec<u8>);

/// The violations of a test case; whatever is `None` is correct.
#[derive(Default)]
struct Lie {
    leaf: Option<fn(&mut Vec<Row>)>,
    leaf_run: Option<fn(Arc<Run>) -> Arc<Run>>,
    leaf_footer: Option<fn(&mut [u8])>,
    leaf_ranges: bool,
    leaf_meta: Option<fn(&mut RunMeta)>,
    /// A blob for a row of the first leaf; the function writes its reference.
    blob: Option<fn(&Forge) -> Vec<u8>>,
    buffer: Option<fn(&mut Vec<Row>)>,
    /// The left node of level 1.
    low: Option<fn(&mut Node)>,
    low_birth: u64,
    low_lineage: u32,
    root: Option<fn(&mut Node)>,
    root_links: Option<fn(&mut Vec<Link>)>,
    durable: Option<fn(&mut DurableRoot)>,
    catalog: Option<fn(&mut Vec<Record>)>,
    catalog_footer: Option<fn(&mut [u8])>,
    directory: Option<fn(&mut RootDirectory)>,
    /// Called before the version is published, with the links of the left node and the first leaf.
    before: Option<fn(&Forge, Link, Link)>,
    /// Called before a second version is published.
    second: Option<fn(&Forge, Link, Link)>,
    log: Option<fn(&Log)>,
    after: Option<fn(&Forge)>,
}

struct Forge {
    env: Env,
    store: Arc<Store>,
    at: VersionNumber,
    blobs: RefCell<Vec<Extent>>,
}

fn env() -> Env {
    Env {
        vfs: Arc::new(MemoryVfs::new()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng),
        workers: Workers::Manual,
    }
}

fn put(key: &'static str) -> Row {
    (key, Tag::PUT, key.as_bytes().to_vec())
}

impl Forge {
    fn new() -> Self {
        let env = env();
        let opened = store::create(&env, Path::new(DIR), Default::default()).unwrap();
        let at = opened.counts_from().next();
        Self { env, store: Arc::new(opened.store), at, blobs: RefCell::default() }
    }

    fn run(&self, rows: &[Row], lineage: Lineage, lie: impl FnOnce(Arc<Run>) -> Arc<Run>) -> Link {
        self.run_with(rows, &[], lineage, lie)
    }

    fn run_with(
        &self,
        rows: &[Row],
        ranges: &[(&str, &str)],
        lineage: Lineage,
        lie: impl FnOnce(Arc<Run>) -> Arc<Run>,
    ) -> Link {
        let options = RunOptions { filter_bits: Some(10), ..RunOptions::default() };
        let mut builder = RunBuilder::new(FramePool::new(1 << 20), options);
        for (key, tag, payload) in rows {
            builder.push(key.as_bytes(), *tag, payload).unwrap();
        }
        for (from, to) in ranges {
            builder.add_range_delete(from.as_bytes(), to.as_bytes());
        }
        let run = lie(builder.finish().unwrap().unwrap());
        let request = Request {
            class: Class::Run,
            kind: PageKind::Run,
            bytes: run.extent_bytes().into(),
            birth: self.at,
            lineage,
        };
        let extent = self.store.allocate(&request).unwrap();
        run.write(self.store.file(), extent.offset, self.at, lineage).unwrap()
    }

    /// Changes a run's footer, and gives it a right hash.
    fn change_footer(&self, link: &mut Link, change: impl FnOnce(&mut [u8])) {
        let file = self.store.file();
        let at = link.offset + u64::from(link.bytes - link.footer_bytes);
        let mut footer = vec![0; link.footer_bytes as usize];
        file.read_at(&mut footer, at).unwrap();
        change(&mut footer);
        file.write_at(&footer, at).unwrap();
        link.hash = page_hash(&link.identity(file.store, PageKind::Run), &footer);
    }

    fn handle(link: Link, rows: u64, lie: impl FnOnce(&mut RunMeta)) -> Arc<RunHandle> {
        let bytes = (link.bytes - link.footer_bytes).into();
        let mut meta = RunMeta { entries: rows, bytes, ..RunMeta::default() };
        lie(&mut meta);
        RunHandle::on_disk(link, meta, 1)
    }

    fn node(&self, node: &Node, birth: VersionNumber, lineage: Lineage) -> Link {
        let bytes = encode_node(node);
        self.store.put_page(PageKind::Node, birth, lineage, &[&bytes]).unwrap()
    }

    /// Two level-1 nodes of two leaves each under a root; each has entries in its buffer.
    fn tree(&self, lie: &Lie) -> (DurableRoot, Link, Link) {
        let mut rows = vec![put("a"), put("b")];
        lie.leaf.inspect(|change| change(&mut rows));
        rows.extend(lie.blob.map(|write| ("bb", Tag::PUT_BLOB, write(self))));
        let ranges: &[(&str, &str)] = if lie.leaf_ranges { &[("a", "c")] } else { &[] };
        let honest = |run| run;
        let mut first = self.run_with(&rows, ranges, TREE, lie.leaf_run.unwrap_or(honest));
        lie.leaf_footer.inspect(|change| self.change_footer(&mut first, change));
        let leaf = Self::handle(first, rows.len() as u64, |meta| {
            meta.range_deletes = lie.leaf_ranges;
            meta.blobs = lie.blob.is_some();
            lie.leaf_meta.inspect(|change| change(meta));
        });
        let leaf_of = |rows: &[Row]| {
            Child::Leaf(Self::handle(self.run(rows, TREE, honest), rows.len() as u64, |_| {}))
        };
        let tier_of = |rows: &[Row], lo: Option<&str>, hi: Option<&str>| {
            let run = Self::handle(self.run(rows, TREE, honest), rows.len() as u64, |_| {});
            let bound = |key: Option<&str>| key.map(|key| key.as_bytes().into());
            Tier {
                slices: vec![RunSlice { run, lo: bound(lo), hi: bound(hi), live: vec![64, 64] }],
            }
        };
        let mut waiting = vec![put("b"), ("d", Tag::DELETE, vec![])];
        lie.buffer.inspect(|change| change(&mut waiting));
        let mut low = Node {
            level: 1,
            pivots: vec![b"c"[..].into()],
            children: vec![Child::Leaf(leaf), leaf_of(&[put("d"), put("e")])],
            tiers: vec![tier_of(&waiting, None, Some("g"))],
        };
        lie.low.inspect(|change| change(&mut low));
        let high = Node {
            level: 1,
            pivots: vec![b"j"[..].into()],
            children: vec![leaf_of(&[put("h"), put("i")]), leaf_of(&[put("k"), put("l")])],
            tiers: vec![tier_of(&[put("h"), ("k", Tag::PUT_FRESH, vec![])], Some("g"), None)],
        };
        let lineage = Lineage(TREE.0 + lie.low_lineage);
        let low = self.node(&low, VersionNumber(self.at.0 + lie.low_birth), lineage);
        let mut links = vec![low, self.node(&high, self.at, TREE)];
        lie.root_links.inspect(|change| change(&mut links));
        let mut operand = Vec::new();
        put_operand(&mut operand, crate::operator::APPEND, b"x");
        let mut root = Node {
            level: 2,
            pivots: vec![b"g"[..].into()],
            children: links
                .into_iter()
                .map(|link| Child::Node(NodeRef::on_disk(link, 1)))
                .collect(),
            tiers: vec![tier_of(&[("b", Tag::MERGE, operand), put("h")], None, None)],
        };
        lie.root.inspect(|change| change(&mut root));
        let mut durable = DurableRoot {
            link: Some(self.node(&root, self.at, TREE)),
            level: root.level,
            applied: APPLIED,
            lineage: TREE,
            max_key: Some(b"l".to_vec()),
            ..DurableRoot::default()
        };
        lie.durable.inspect(|change| change(&mut durable));
        (durable, low, first)
    }

    fn catalog(&self, lie: &Lie) -> DurableRoot {
        let tree = TreeRecord { id: TreeId(1), lineage: TREE, ..TreeRecord::default() };
        let counters = CounterRecord { next_tree: TreeId(3), ..CounterRecord::default() };
        let tree = TreeRecord { name: "t".into(), ..tree };
        let mut records = vec![Record::Counters(counters), Record::Tree(tree)];
        lie.catalog.inspect(|change| change(&mut records));
        let rows: Vec<(Vec<u8>, Vec<u8>)> =
            records.iter().map(|record| (record.key(), record.encode().unwrap())).collect();
        let mut builder = RunBuilder::new(FramePool::new(1 << 20), RunOptions::default());
        for (key, value) in &rows {
            builder.push(key, Tag::PUT, value).unwrap();
        }
        let run = builder.finish().unwrap().unwrap();
        let request = Request {
            class: Class::Run,
            kind: PageKind::Run,
            bytes: run.extent_bytes().into(),
            birth: self.at,
            lineage: Lineage(0),
        };
        let extent = self.store.allocate(&request).unwrap();
        let mut link = run.write(self.store.file(), extent.offset, self.at, Lineage(0)).unwrap();
        lie.catalog_footer.inspect(|change| self.change_footer(&mut link, change));
        DurableRoot {
            link: Some(link),
            applied: APPLIED,
            entries: rows.len() as u64,
            bytes: run.data_bytes(),
            max_key: rows.last().map(|(key, _)| key.clone()),
            ..DurableRoot::default()
        }
    }

    /// A blob that `runs` runs of a lineage list in the version to be published.
    fn blob(&self, lineage: Lineage, runs: usize) -> BlobRef {
        let (blob, _hold) = Blob::write(&self.store, &[9; 5000], BlobOptions::default()).unwrap();
        self.store.adopt_blob(blob.extent(), self.at, lineage).unwrap();
        for _ in 0..runs {
            self.store.count_blob(blob.extent(), lineage, true, self.at).unwrap();
        }
        self.blobs.borrow_mut().push(blob.extent());
        blob
    }

    fn publish(&self, at: VersionNumber, roots: &RootDirectory, end: Lsn) {
        let change = DirectoryChange::whole(roots);
        let checkpoint = Checkpoint {
            publish: at,
            applied: APPLIED,
            log_from: Lsn(0),
            log_synced: end,
            clean: None,
            roots: &change,
        };
        self.store.publish(&checkpoint).unwrap();
    }
}

fn write(log: &Log, record: &[u8]) {
    let reservation = log.try_reserve(record.len(), LogUse::Rows).unwrap();
    log.fill(&reservation, &[record]);
}

fn commit(log: &Log, seqno: u64) {
    let mut builder = RecordBuilder::new();
    builder.tree(TreeId(1));
    builder.entry(b"m", Tag::PUT, b"value");
    let record = [builder.finish(), &trailer(Seqno(seqno))].concat();
    write(log, &record);
}

/// Writes a store with these violations, and checks it.
fn check_lie(lie: &Lie) -> CheckReport {
    let (forge, _) = forge_store(lie);
    super::store_in(&forge.env, DIR, CheckMode::Full).unwrap()
}

fn forge_store(lie: &Lie) -> (Forge, RootDirectory) {
    let forge = Forge::new();
    let options =
        LogOptions { segment_bytes: 16 << 10, group_bytes: 4 << 10, ..Default::default() };
    let (dir, id) = (Path::new(DIR), forge.store.id());
    let log = Log::create(forge.env.clone(), dir, id, Durability::Sync, options).unwrap();
    commit(&log, 6);
    lie.log.unwrap_or(|log| commit(log, 7))(&log);
    let end = log.close(false).unwrap();

    let (root, low, leaf) = forge.tree(lie);
    let mut roots = RootDirectory::default();
    roots.trees.insert(TreeId(0), forge.catalog(lie));
    roots.trees.insert(TreeId(1), root);
    lie.directory.inspect(|change| change(&mut roots));
    lie.before.inspect(|act| act(&forge, low, leaf));
    let at = VersionNumber(forge.at.0 + lie.low_birth);
    forge.publish(at, &roots, end);
    if let Some(act) = lie.second {
        act(&forge, low, leaf);
        forge.publish(at.next(), &roots, end);
    }
    lie.after.inspect(|act| act(&forge));
    forge.store.release().unwrap();
    (forge, roots)
}

#[track_caller]
fn names(code: &str, lie: Lie) {
    let report = check_lie(&lie);
    assert!(report.names(code), "{code} is not named: {report}");
    let others = ["checksum", "stale", "unreadable"];
    assert!(others.iter().all(|other| *other == code || !report.names(other)), "{report}");
}

#[test]
fn an_intact_store_is_clean() {
    for second in [None, Some((|_, _, _| {}) as fn(&Forge, Link, Link))] {
        let report = check_lie(&Lie { second, ..Lie::default() });
        assert!(report.findings.is_empty(), "{report}");
        assert_eq!((report.checked.nodes, report.checked.trees), (3, 2));
        assert_eq!(report.checked.log_records, 2);
    }
}

#[test]
fn malformed_nodes_are_reported() {
    let lies: [fn(&mut Node); 5] = [
        |node| node.pivots = vec![b"g"[..].into(), b"c"[..].into()],
        |node| node.tiers[0].slices[0].live.push(9),
        |node| node.tiers[0].slices[0].lo = Some(b"g"[..].into()),
        |node| {
            let slice = node.tiers[0].slices[0].clone();
            node.tiers[0].slices.push(slice);
        },
        |node| node.level = 0,
    ];
    for (index, low) in lies.into_iter().enumerate() {
        let report = check_lie(&Lie { low: Some(low), ..Lie::default() });
        assert!(report.names("malformed"), "lie {index}: {report}");
    }
}

#[test]
fn wrong_levels_births_and_lineages_are_reported() {
    names("level", Lie { root: Some(|root| root.level = 3), ..Lie::default() });
    names("level", Lie { durable: Some(|root| root.level = 1), ..Lie::default() });
    names("counts", Lie { durable: Some(|root| root.level = 0), ..Lie::default() });
    names("malformed", Lie { low_birth: 1, ..Lie::default() });
    names("lineage", Lie { low_lineage: 1, ..Lie::default() });
}

#[test]
fn keys_outside_their_range_are_reported() {
    let low: fn(&mut Node) = |low| low.pivots[0] = b"x"[..].into();
    names("pivots", Lie { low: Some(low), ..Lie::default() });
    names("leaf-range", Lie { leaf: Some(|rows| rows.push(put("c"))), ..Lie::default() });
    let widened: fn(&mut Node) = |low| low.tiers[0].slices[0].hi = None;
    let buffer: fn(&mut Vec<Row>) = |rows| rows.push(put("h"));
    let lie = Lie { low: Some(widened), buffer: Some(buffer), ..Lie::default() };
    names("part-range", lie);
    names(
        "maximum",
        Lie { durable: Some(|root| root.max_key = Some(b"k".into())), ..Lie::default() },
    );
}

#[test]
fn impossible_entries_are_reported() {
    let lies: [fn(&mut Vec<Row>); 3] = [
        |rows| rows[1] = ("b", Tag::DELETE, vec![]),
        |rows| rows[1].1 = Tag::PUT_FRESH,
        |rows| {
            rows[1].1 = Tag::MERGE;
            rows[1].2.clear();
            put_operand(&mut rows[1].2, crate::operator::ADD, b"12345678");
        },
    ];
    for leaf in lies {
        names("leaf-entry", Lie { leaf: Some(leaf), ..Lie::default() });
    }
    names("leaf-entry", Lie { leaf_ranges: true, ..Lie::default() });
    let buffers: [fn(&mut Vec<Row>); 4] = [
        |rows| rows[0] = ("b", Tag::MERGE, vec![4, 200]),
        |rows| rows[0] = ("b", Tag::MERGE, vec![]),
        |rows| rows[0] = ("b", Tag::PUT_BLOB, vec![1, 2, 3]),
        |rows| rows[0] = ("b", Tag::VERSIONS, vec![]),
    ];
    for buffer in &buffers[..2] {
        names("entry", Lie { buffer: Some(*buffer), ..Lie::default() });
    }
    names("entry", Lie { buffer: Some(buffers[3]), ..Lie::default() });
}

#[test]
fn run_metadata_is_verified_against_its_content() {
    names("filter", Lie { leaf_run: Some(forge::filter_of_nothing), ..Lie::default() });
    names("counts", Lie { leaf_run: Some(forge::miscounted), ..Lie::default() });
    names("counts", Lie { leaf_meta: Some(|meta| meta.entries += 1), ..Lie::default() });
    names("counts", Lie { leaf_meta: Some(|meta| meta.bytes += 1), ..Lie::default() });
    names("counts", Lie { leaf_meta: Some(|meta| meta.range_deletes = true), ..Lie::default() });
    let blob: fn(&mut Vec<Row>) = |rows| rows[0] = ("a", Tag::PUT_BLOB, vec![7; 16]);
    let report = check_lie(&Lie { leaf: Some(blob), ..Lie::default() });
    assert!(!report.names("blobs"), "{report}");
    let leaf_run: Option<fn(Arc<Run>) -> Arc<Run>> = Some(forge::without_blobs);
    names("blobs", Lie { leaf: Some(blob), leaf_run, ..Lie::default() });
}

#[test]
fn buffers_with_consumed_entries_are_reported() {
    names("tier", Lie { low: Some(|low| low.tiers.push(Tier::default())), ..Lie::default() });
    let low: fn(&mut Node) = |low| low.tiers[0].slices[0].live = vec![0, 0];
    names("consumed", Lie { low: Some(low), ..Lie::default() });
    let buffer: fn(&mut Vec<Row>) = |rows| drop(rows.pop());
    names("live", Lie { buffer: Some(buffer), ..Lie::default() });
}

#[test]
fn an_inconsistent_catalog_is_reported() {
    let lies: [fn(&mut Vec<Record>); 3] = [
        |records| {
            let Record::Tree(tree) = records[1].clone() else { panic!() };
            records.push(Record::Tree(TreeRecord { id: TreeId(2), ..tree }));
        },
        |records| records[0] = Record::Counters(CounterRecord::default()),
        |records| drop(records.remove(0)),
    ];
    for catalog in lies {
        names("catalog", Lie { catalog: Some(catalog), ..Lie::default() });
    }
    let report = check_lie(&Lie { catalog: Some(|records| drop(records.pop())), ..Lie::default() });
    assert!(report.names("orphan") && report.is_clean(), "a crash may leave that: {report}");
    let directory: fn(&mut RootDirectory) = |roots| {
        if let Some(root) = roots.trees.get_mut(&TreeId(0)) {
            root.entries = 0;
        }
    };
    names("counts", Lie { directory: Some(directory), ..Lie::default() });
}

/// Rules: I18, I21.
#[test]
fn a_space_map_that_contradicts_the_trees_is_reported() {
    names("owned-twice", Lie { root_links: Some(|links| links[1] = links[0]), ..Lie::default() });
    let before: fn(&Forge, Link, Link) =
        |forge, _, leaf| forge.store.die(&leaf, TREE, forge.at).unwrap();
    names("not-listed", Lie { before: Some(before), ..Lie::default() });
    let second: fn(&Forge, Link, Link) =
        |forge, low, _| forge.store.die(&low, TREE, forge.at.next()).unwrap();
    names("listed-dead", Lie { second: Some(second), ..Lie::default() });
    let before: fn(&Forge, Link, Link) =
        |forge, _, leaf| forge.store.set_run_refs(&leaf, 2).unwrap();
    names("references", Lie { before: Some(before), ..Lie::default() });
    let before: fn(&Forge, Link, Link) = |forge, _, _| {
        forge.store.put_page(PageKind::Node, forge.at, TREE, &[b"nobody's"]).unwrap();
    };
    names("leak", Lie { before: Some(before), ..Lie::default() });
}

/// Rule: I18. The newest version does not need the page, but the older slot does.
#[test]
fn an_older_slot_that_lost_a_page_is_reported() {
    let (forge, mut roots) = forge_store(&Lie::default());
    drop(forge.store);
    let opened = store::open(&forge.env, Path::new(DIR), Default::default()).unwrap();
    let (store, old) = (Arc::new(opened.store), opened.superblock);
    let dropped = roots.trees.get_mut(&TreeId(1)).unwrap().link.take().unwrap();
    roots.trees.get_mut(&TreeId(1)).unwrap().max_key = None;
    store.die(&dropped, TREE, old.publish).unwrap(); // a version too early
    let at = VersionNumber(old.publish.0 + (1 << 20));
    let forge = Forge { env: forge.env, store, at, blobs: RefCell::default() };
    forge.publish(forge.store.counts_from().next(), &roots, old.log_synced);
    forge.store.release().unwrap();
    let report = super::store_in(&forge.env, DIR, CheckMode::Full).unwrap();
    assert!(report.names("not-kept"), "{report}");
}

#[test]
fn a_page_overwritten_by_another_is_reported() {
    let after: fn(&Forge) = |forge| {
        let slots = forge.store.examine_slots();
        let newest = good_slots(&slots)[0];
        let root = forge.store.examine_roots(&newest).unwrap().0.trees[&TreeId(1)].link.unwrap();
        let extent = Extent { offset: root.offset, bytes: root.bytes };
        let birth = root.birth.next();
        forge.store.write_page(PageKind::Node, extent, birth, TREE, &[b"later"]).unwrap();
    };
    names("stale", Lie { after: Some(after), ..Lie::default() });
}

#[test]
fn a_log_with_a_gap_or_ahead_of_the_slots_is_reported() {
    names("log", Lie { log: Some(|log| commit(log, 8)), ..Lie::default() });
    names("log", Lie { log: Some(|log| commit(log, 6)), ..Lie::default() });
    names("log", Lie { log: Some(|log| write(log, &checkpoint_record(99))), ..Lie::default() });
    names("log", Lie { log: Some(|log| write(log, &[77; 40])), ..Lie::default() });
    let after: fn(&Forge) = |forge| {
        let vfs = &forge.env.vfs;
        for name in vfs.list(Path::new(DIR)).unwrap() {
            if name.to_string_lossy().starts_with("log-") {
                vfs.remove(&Path::new(DIR).join(name)).unwrap();
            }
        }
    };
    names("log", Lie { after: Some(after), ..Lie::default() });
}

/// Every byte of the slots and of pages that the newest version reaches is covered.
#[test]
fn every_flipped_byte_of_a_reached_page_is_found() {
    let blob: fn(&Forge) -> Vec<u8> = |forge| forge.blob(TREE, 1).to_disk().into();
    let (forge, _) = forge_store(&Lie { blob: Some(blob), ..Lie::default() });
    let store = store::examine(&forge.env, Path::new(DIR)).unwrap();
    let newest = good_slots(&store.examine_slots())[0];
    let listed = store.examine_space(&newest, None).unwrap();
    store.release().unwrap();
    let mode = OpenMode { write: true, ..OpenMode::default() };
    let file = forge.env.vfs.open(&Path::new(DIR).join(store::STORE_FILE), mode).unwrap();
    let mut places: Vec<(u64, u64)> = vec![(0, 4096), (64 << 10, 4096)];
    places.extend(listed.iter().map(|one| (one.extent.offset, one.extent.bytes.into())));
    assert!(places.len() > 12);
    for (start, bytes) in places {
        for at in (start..start + bytes).step_by(211) {
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 1 << (at % 8)], at).unwrap();
            let report = super::store_in(&forge.env, DIR, CheckMode::Full).unwrap();
            assert!(!report.findings.is_empty(), "byte {at} of the page at {start}");
            file.write_at(&byte, at).unwrap();
        }
    }
    assert!(super::store_in(&forge.env, DIR, CheckMode::Full).unwrap().findings.is_empty());
}

/// Damage in one tree does not hide that of another.
#[test]
fn every_tree_is_checked() {
    let report = check_lie(&Lie {
        leaf: Some(|rows| rows.push(put("c"))),
        catalog: Some(|records| records[0] = Record::Counters(CounterRecord::default())),
        before: Some(|forge, _, leaf| forge.store.set_run_refs(&leaf, 2).unwrap()),
        log: Some(|log| commit(log, 8)),
        ..Lie::default()
    });
    for code in ["leaf-range", "catalog", "references", "log"] {
        assert!(report.names(code), "{code}: {report}");
    }
}
