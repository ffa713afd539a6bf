//! Checking a durable version: a superblock with everything that it links, read from the file, and
//! the space map compared with what the trees reach.
//!
//! The older slot's version is checked where it differs: its pages must still be whole and not free
//! in the newest map. As long as that holds, a damaged newest slot loses nothing (P10).

use crate::{
    cache::{BlockCache, FramePool},
    page::{Link, PageKind},
    run::Operators,
    store::{Extent, Listed, NamedSnapshot, RootDirectory, STORE_LINEAGE, Store, Superblock},
    sync::{Arc, AtomicU64},
    tree::{Descriptors, Shape, TreeContext, TreeCounters, TreeRoot},
    types::{Lineage, VersionNumber},
};
use std::collections::{BTreeMap, BTreeSet};

use super::{
    blobs::Blobs,
    catalog::{Names, names, orphans, unlisted},
    report::{CheckMode, CheckReport, Finding, damage, from_error},
    tree::{Pages, ScannedRuns, Scope, Walk},
};

/// Memory for reading runs in pieces.
const POOL_BYTES: usize = 8 << 20;

/// A version, as far as it could be read.
pub(super) struct Checked {
    pages: Pages,
    /// By offset; `None` if the map could not be read.
    listed: Option<BTreeMap<u64, Listed>>,
    publish: VersionNumber,
}

/// The pages and blobs that the trees of a version reach.
struct Walked {
    pages: Pages,
    blobs: Blobs,
    /// Something could not be read, so this is incomplete.
    is_cut: bool,
}

/// The state shared by the checks of all versions.
pub(super) struct VersionCheck<'a> {
    pub store: &'a Arc<Store>,
    pub mode: CheckMode,
    pub report: &'a mut CheckReport,
    pub scanned: &'a mut ScannedRuns,
}

/// A context that shares nothing with a running engine: everything in it was read by the check.
fn fresh_context(store: &Arc<Store>) -> TreeContext {
    let pool = FramePool::new(POOL_BYTES);
    TreeContext {
        store: store.clone(),
        cache: BlockCache::new(pool.clone(), 0),
        pool,
        operators: Arc::new(Operators::default()),
        shape: Shape::default(),
        counters: TreeCounters::default(),
        work: None,
        descriptors: Descriptors::default(),
        damage: Default::default(),
        unwritten: Arc::new(AtomicU64::new(0)),
        unwritten_max: AtomicU64::new(u64::MAX),
        resident: Arc::new(AtomicU64::new(0)),
    }
}

fn store_scope() -> Scope {
    let name = "(store)".into();
    Scope { name, lineage: Some(STORE_LINEAGE), inherits: Vec::new(), level: None }
}

impl VersionCheck<'_> {
    /// Checks the version of the newest good slot; `None` if its root directory cannot be read.
    pub fn newest(
        &mut self,
        superblock: &Superblock,
        older: Option<&Superblock>,
    ) -> Option<Checked> {
        let (roots, directory) = self.roots(superblock)?;
        let cx = fresh_context(self.store);
        let names = self.names(&cx, &roots);
        orphans(&names, &roots, self.report);
        unlisted(&names, &roots, self.report);
        let walked = self.walk(&cx, superblock, (&roots, &directory), &names, None);
        let listed = self.space(superblock, older);
        if self.mode == CheckMode::Full
            && let Some(listed) = &listed
        {
            // What dropped trees leave behind is freed over time (Rule: I22).
            let known = roots.trees.values().map(|root| root.lineage).collect();
            self.compare(&walked, listed, &known);
        }
        let checked = Checked { pages: walked.pages, listed, publish: superblock.publish };
        if self.mode == CheckMode::Full {
            for snapshot in &roots.snapshots {
                self.snapshot(&cx, superblock, snapshot, &checked);
            }
        }
        Some(checked)
    }

    /// Checks the version of the other good slot, in addition to the newest one.
    pub fn older(&mut self, superblock: &Superblock, newest: &Checked) {
        let Some((roots, directory)) = self.roots(superblock) else { return };
        let cx = fresh_context(self.store);
        let names = self.names(&cx, &roots);
        let trees = self.report.checked.trees;
        let Walked { mut pages, blobs, .. } =
            self.walk(&cx, superblock, (&roots, &directory), &names, Some(&newest.pages));
        self.report.checked.trees = trees;
        for (offset, listed) in self.space(superblock, None).unwrap_or_default() {
            if listed.kind == PageKind::Map && listed.death.is_none() {
                let link = Link {
                    offset,
                    bytes: listed.extent.bytes,
                    birth: listed.birth,
                    lineage: listed.lineage,
                    ..Link::default()
                };
                let tree = store_scope().name;
                pages.entry(offset).or_insert(super::tree::Reached {
                    link,
                    kind: PageKind::Map,
                    refs: 1,
                    inherited_at: None,
                    tree,
                });
            }
        }
        let holder = (superblock.publish, "the older superblock slot");
        self.kept(&pages, newest, holder);
        self.kept_blobs(&blobs, newest, holder);
    }

    /// Checks a named snapshot: pages that no tree reaches any more must be kept for it.
    fn snapshot(
        &mut self,
        cx: &TreeContext,
        superblock: &Superblock,
        snapshot: &NamedSnapshot,
        newest: &Checked,
    ) {
        let (trees, directory) = match self.store.snapshot_directory(superblock, snapshot) {
            Ok(found) => found,
            Err(error) => return self.report.add(from_error(&error)),
        };
        let roots = RootDirectory { trees: (*trees).clone(), snapshots: Vec::new() };
        // Its own catalog, which has trees that were dropped since.
        let names = &self.names(cx, &roots);
        let bare = Superblock { roots: None, map: None, applied: snapshot.seqno, ..*superblock };
        let walked = self.walk(cx, &bare, (&roots, &directory), names, Some(&newest.pages));
        let holder = (snapshot.publish, "a named snapshot");
        self.kept(&walked.pages, newest, holder);
        self.kept_blobs(&walked.blobs, newest, holder);
    }

    /// The root directory of a slot, and its pages except for the head.
    fn roots(&mut self, superblock: &Superblock) -> Option<(RootDirectory, Vec<Link>)> {
        let roots = self.store.examine_roots(superblock);
        roots.map_err(|error| self.report.add(from_error(&error))).ok()
    }

    fn names(&mut self, cx: &TreeContext, roots: &RootDirectory) -> Names {
        let catalog = roots.trees.get(&crate::catalog::CATALOG_TREE);
        let root = catalog.map(|durable| TreeRoot::load(cx, durable.clone()));
        names(cx, root.as_ref(), self.report)
    }

    fn walk(
        &mut self,
        cx: &TreeContext,
        superblock: &Superblock,
        (roots, directory): (&RootDirectory, &[Link]),
        names: &Names,
        known: Option<&Pages>,
    ) -> Walked {
        let path = self.store.file().path().to_owned();
        let mut walk = Walk::new(cx, self.mode, self.report, self.scanned, known);
        let store = store_scope();
        for (link, kind) in
            [(superblock.roots, PageKind::Directory), (superblock.map, PageKind::Map)]
        {
            if let Some(link) = link {
                walk.reach(&store, &link, kind, true);
            }
        }
        for link in directory {
            walk.reach(&store, link, PageKind::Directory, true);
        }
        for (&tree, durable) in &roots.trees {
            walk.report.checked.trees += 1;
            let level = durable.link.map(|_| durable.level);
            let scope = Scope { inherits: durable.inherits.clone(), level, ..names.scope(tree) };
            let mut bad = |code, what: &str| {
                let tree = Some(scope.name.to_string());
                let file = path.clone();
                walk.report.add(Finding { tree, file, ..damage(code, what) });
            };
            if durable.applied != superblock.applied {
                bad("boundary", "its root holds other commits than the superblock says");
            }
            if durable.link.is_some_and(|link| link.birth > superblock.publish) {
                bad("birth", "its root was born after the version");
            }
            if durable.link.is_some() && durable.level == 0 && durable.entries == 0 {
                bad("counts", "its root is a leaf without entries");
            }
            let root = TreeRoot::load(cx, durable.clone());
            walk.tree(&scope, &root);
            if walk.mode == CheckMode::Full && known.is_none() && !walk.is_cut {
                walk.sums(&scope, &root);
            }
        }
        Walked { pages: walk.reached, blobs: walk.blobs, is_cut: walk.is_cut }
    }

    fn space(
        &mut self,
        superblock: &Superblock,
        older: Option<&Superblock>,
    ) -> Option<BTreeMap<u64, Listed>> {
        match self.store.examine_space(superblock, older) {
            Ok(listed) => {
                self.report.checked.extents += listed.len() as u64;
                Some(listed.into_iter().map(|one| (one.extent.offset, one)).collect())
            }
            Err(error) => {
                self.report.add(from_error(&error));
                None
            }
        }
    }

    /// Checks that every reached page is listed as what it is, and alive; and that every extent
    /// listed as alive is reached.
    fn compare(
        &mut self,
        walked: &Walked,
        listed: &BTreeMap<u64, Listed>,
        known: &BTreeSet<Lineage>,
    ) {
        let Walked { pages, blobs, is_cut } = walked;
        for page in pages.values() {
            let link = &page.link;
            let Some(record) = listed.get(&link.offset) else {
                self.bad(
                    page.link,
                    &page.tree,
                    "not-listed",
                    "its bytes are free in the space map",
                );
                continue;
            };
            let same = record.kind == page.kind
                && record.extent.bytes == link.bytes
                && record.birth == link.birth
                && record.lineage == link.lineage;
            if !same {
                self.bad(*link, &page.tree, "listed-as", "the space map lists another page there");
            } else if !record.is_kept_for(page.inherited_at) {
                self.bad(*link, &page.tree, "listed-dead", "it is dead in the space map");
            } else if page.kind == PageKind::Run
                && page.inherited_at.is_none()
                && record.refs != page.refs
                && !*is_cut
            {
                let what = format!(
                    "a run has {} references, and the space map says {}",
                    page.refs, record.refs
                );
                self.bad(*link, &page.tree, "references", what);
            }
        }
        for (offset, tree, problem) in blobs.against(listed, *is_cut) {
            let bytes = listed.get(&offset).map_or(0, |record| record.extent.bytes);
            let link = Link { offset, bytes, ..Link::default() };
            self.bad(link, &tree, problem.0, problem.1);
        }
        for (offset, record) in listed {
            let is_ending = record.lineage != STORE_LINEAGE && !known.contains(&record.lineage);
            let is_kept = record.death.is_some() || is_ending || record.kind == PageKind::Map;
            if !is_kept && !is_cut && !pages.contains_key(offset) && !blobs.has(*offset) {
                let link = Link { offset: *offset, bytes: record.extent.bytes, ..Link::default() };
                let what = format!("nothing links this {:?} page, and it is not free", record.kind);
                self.bad(link, "(store)", "leak", what);
            }
        }
    }

    /// Checks that pages reached only by an older holder are not free in the newest map.
    fn kept(&mut self, pages: &Pages, newest: &Checked, (at, holder): (VersionNumber, &str)) {
        let Some(listed) = &newest.listed else { return };
        debug_assert!(at <= newest.publish, "holders are of the past");
        for page in pages.values() {
            let kept = listed.get(&page.link.offset).is_some_and(|record| {
                record.kind == page.kind
                    && record.birth == page.link.birth
                    && record.lineage == page.link.lineage
                    && record.is_kept_for(Some(page.inherited_at.unwrap_or(at)))
            });
            if !kept {
                let what = format!("{holder} needs a page that is not kept");
                self.bad(page.link, &page.tree, "not-kept", what);
            }
        }
    }

    /// Checks that blobs reached only by an older holder are not free in the newest map.
    fn kept_blobs(&mut self, blobs: &Blobs, newest: &Checked, (at, holder): (VersionNumber, &str)) {
        let Some(listed) = &newest.listed else { return };
        for (extent, tree) in blobs.lost_to(listed, at) {
            let link = Link { offset: extent.offset, bytes: extent.bytes, ..Link::default() };
            self.bad(link, &tree, "not-kept", format!("{holder} needs a blob that is not kept"));
        }
    }

    /// Checks that opening can claim what the log names: nothing else may be there (Rule: I11).
    pub fn named_in_log(&mut self, named: &[(PageKind, Extent)], newest: &Checked) {
        let Some(listed) = &newest.listed else { return };
        for (kind, extent) in named {
            let below = listed.range(..extent.end()).next_back();
            let clash = below.filter(|(_, record)| record.extent.end() > extent.offset);
            let is_itself = |record: &Listed| record.extent == *extent && record.kind == *kind;
            if clash.is_some_and(|(_, record)| !is_itself(record)) {
                let link = Link { offset: extent.offset, bytes: extent.bytes, ..Link::default() };
                let what = "the log names an extent that another page occupies";
                self.bad(link, "(store)", "log", what);
            }
        }
    }

    fn bad(&mut self, link: Link, tree: &str, code: &'static str, what: impl Into<String>) {
        self.report.add(Finding {
            file: self.store.file().path().to_owned(),
            offset: link.offset,
            bytes: link.bytes.into(),
            tree: Some(tree.to_owned()),
            ..damage(code, what)
        });
    }
}
