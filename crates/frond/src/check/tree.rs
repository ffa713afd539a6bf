//! Checking trees, page by page: a page must be what its parent says, and its keys must lie in the
//! range that the path to it leaves.
//!
//! One walk serves both trees on disk and trees in memory; the caller decides where nodes come
//! from.
//!
//! Invariants
//! 1. A page that cannot be used is a finding, and its siblings are still visited.
//! 2. The walk descends only to lower levels: it ends, whatever the bytes are.
//! 3. Memory: the path, and one small record per extent reached.
//!
//! Threads: one.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::PathBuf,
};

use crate::{
    blob::BlobRef,
    cancel::CancelToken,
    error::Error,
    page::{Link, PageKind},
    progress::Progress,
    run::Run,
    sync::Arc,
    tree::{
        Child, Measured, Node, NodeRef, Root, RunHandle, RunSlice, TreeContext, TreeRoot, clip,
        sums_below,
    },
    types::{Lineage, VersionNumber},
};

use super::{
    blobs::{Blobs, ReadBlobs},
    report::{CheckMode, CheckReport, Finding, damage, from_error},
    run::{Scanned, scan},
};

/// Number of runs kept open: slices of one run are in neighbouring nodes.
const OPEN_RUNS: usize = 64;

/// A page that a tree reaches.
#[derive(Clone, Debug)]
pub(super) struct Reached {
    pub link: Link,
    pub kind: PageKind,
    /// References from nodes of its own lineage (Rule: I21).
    pub refs: u32,
    /// Set if only trees that inherited it reach it: the oldest version in which one of them keeps
    /// it, since its own lineage may have released it (Rule: I19).
    pub inherited_at: Option<VersionNumber>,
    pub tree: Arc<str>,
}

/// Pages by offset.
pub(super) type Pages = BTreeMap<u64, Reached>;

/// The runs whose entries were read, with the results, and the blobs that were read.
#[derive(Debug, Default)]
pub(super) struct ScannedRuns {
    runs: HashMap<(u64, u64), Scanned>,
    pub blobs: ReadBlobs,
    pub cancel: CancelToken,
    pub progress: Progress,
    /// The check was cancelled: what it has found so far is of no use.
    pub has_stopped: bool,
}

impl ScannedRuns {
    /// True once the check was cancelled.
    fn is_cancelled(&mut self) -> bool {
        self.has_stopped = self.has_stopped || self.cancel.check_cancelled().is_err();
        self.has_stopped
    }
}

/// The tree that is walked.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    pub name: Arc<str>,
    /// The lineage in which it writes, if known.
    pub lineage: Option<Lineage>,
    /// Other lineages whose pages it may link.
    pub inherits: Vec<(Lineage, VersionNumber)>,
    /// The level that its root must have, if known.
    pub level: Option<u8>,
}

/// The range [lo, hi) that its path leaves to a page.
type Range<'k> = (Option<&'k [u8]>, Option<&'k [u8]>);

/// How a page was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    /// For the first time.
    First,
    /// Earlier in this walk.
    Again,
    /// In the walk of a newer version: everything below it is the same.
    Known,
}

/// A walk over the trees of one version.
pub(super) struct Walk<'a> {
    pub cx: &'a TreeContext,
    pub mode: CheckMode,
    pub report: &'a mut CheckReport,
    pub scanned: &'a mut ScannedRuns,
    /// The pages of a newer version.
    pub known: Option<&'a Pages>,
    pub reached: Pages,
    pub blobs: Blobs,
    /// Something could not be read, so not all pages were reached.
    pub is_cut: bool,
    open: VecDeque<((u64, u64), Arc<Run>)>,
}

impl<'a> Walk<'a> {
    pub fn new(
        cx: &'a TreeContext,
        mode: CheckMode,
        report: &'a mut CheckReport,
        scanned: &'a mut ScannedRuns,
        known: Option<&'a Pages>,
    ) -> Self {
        Self {
            cx,
            mode,
            report,
            scanned,
            known,
            reached: Pages::new(),
            blobs: Blobs::new(),
            is_cut: false,
            open: VecDeque::new(),
        }
    }

    /// Walks a tree; in quick mode only its root.
    pub fn tree(&mut self, scope: &Scope, root: &TreeRoot) {
        let max = root.max_key.as_deref();
        match &root.root {
            Root::Empty => {}
            Root::Leaf(leaf) => self.leaf(scope, leaf, (None, None), max),
            Root::Node(node) => self.node(scope, node, scope.level, (None, None), max),
        }
    }

    /// Checks the sums at the root of a tree. Reads its nodes.
    pub fn sums(&mut self, scope: &Scope, root: &TreeRoot) {
        let (Some(known), Root::Node(node)) = (root.known_sums(), &root.root) else { return };
        match sums_below(self.cx, node) {
            Ok(sums) if sums == known => {}
            Ok(sums) => {
                let what = format!("the tree holds {sums:?}, its root says {known:?}");
                self.bad(scope, node.link(), "sums", what);
            }
            Err(error) => self.fail(scope, &error),
        }
    }

    /// Records that a page is reached, and checks whether another page claims its bytes.
    pub fn reach(&mut self, scope: &Scope, link: &Link, kind: PageKind, counts: bool) {
        self.meet(scope, link, kind, counts);
    }

    fn meet(&mut self, scope: &Scope, link: &Link, kind: PageKind, counts: bool) -> Met {
        let is_known = |pages: &Pages| {
            pages.get(&link.offset).is_some_and(|page| page.link == *link && page.kind == kind)
        };
        if self.known.is_some_and(is_known) {
            return Met::Known;
        }
        let is_own = scope.lineage.is_none_or(|lineage| lineage == link.lineage);
        let ancestor = scope.inherits.iter().find(|(lineage, _)| *lineage == link.lineage);
        if !is_own && ancestor.is_none() {
            self.bad(scope, Some(link), "lineage", "the page belongs to another lineage");
        }
        let inherited_at = ancestor.map(|&(_, at)| at).filter(|_| !is_own);
        let refs = u32::from(counts && is_own);
        if is_known(&self.reached) {
            if let Some(page) = self.reached.get_mut(&link.offset) {
                page.refs += refs;
                page.inherited_at =
                    page.inherited_at.zip(inherited_at).map(|(one, other)| one.min(other));
            }
            return Met::Again;
        }
        let end = link.offset.saturating_add(link.bytes.into());
        let below = self.reached.range(..end).next_back();
        let clash = below
            .filter(|(start, page)| start.saturating_add(u64::from(page.link.bytes)) > link.offset);
        if let Some((start, page)) = clash {
            let what =
                format!("its bytes belong to the page at {start} of \"{}\" as well", page.tree);
            self.bad(scope, Some(link), "owned-twice", what);
            return Met::First;
        }
        let page = Reached { link: *link, kind, refs, inherited_at, tree: scope.name.clone() };
        self.reached.insert(link.offset, page);
        Met::First
    }

    fn node(
        &mut self,
        scope: &Scope,
        node: &Arc<NodeRef>,
        level: Option<u8>,
        range: Range<'_>,
        max: Option<&[u8]>,
    ) {
        if self.scanned.is_cancelled() {
            return;
        }
        let link = node.link().copied();
        let met = link.map(|link| self.meet(scope, &link, PageKind::Node, true));
        match met {
            Some(Met::Known) => return,
            Some(Met::Again) if scope.inherits.is_empty() => {
                self.bad(scope, link.as_ref(), "owned-twice", "a node has two parents");
                return;
            }
            _ => {}
        }
        let content = match node.glance(self.cx) {
            Ok(content) => content,
            Err(error) => return self.fail(scope, &error),
        };
        self.report.checked.nodes += 1;
        self.note_read(link.as_ref());
        // A node that was never written has not been checked by the reader.
        if let Some(why) = content.flaw() {
            self.bad(scope, link.as_ref(), "malformed", format!("node page is malformed: {why}"));
            return;
        }
        if level.is_some_and(|level| level != content.level) {
            self.bad(
                scope,
                link.as_ref(),
                "level",
                "a node is not of the level below its parent's",
            );
            self.is_cut = true;
            return;
        }
        let first = content.pivots.first().map(|pivot| &**pivot);
        let last = content.pivots.last().map(|pivot| &**pivot);
        let inside = first.zip(range.0).is_none_or(|(pivot, lo)| pivot > lo)
            && last.zip(range.1).is_none_or(|(pivot, hi)| pivot < hi);
        if !inside {
            self.bad(scope, link.as_ref(), "pivots", "a pivot lies outside the node's range");
        }
        if self.mode == CheckMode::Quick {
            return;
        }
        self.slices(scope, link.as_ref(), &content, range, max);
        self.children(scope, node, &content, range, max);
    }

    fn children(
        &mut self,
        scope: &Scope,
        node: &NodeRef,
        content: &Node,
        range: Range<'_>,
        max: Option<&[u8]>,
    ) {
        for (c, child) in content.children.iter().enumerate() {
            let (lo, hi) = content.child_range(c);
            let range = (lo.or(range.0), hi.or(range.1));
            let birth = match child {
                Child::Leaf(leaf) => leaf.birth,
                Child::Node(child) => child.birth,
            };
            if birth > node.birth {
                self.bad(scope, node.link(), "birth", "it links a page that was born after it");
            }
            match child {
                Child::Leaf(leaf) => self.leaf(scope, leaf, range, max),
                Child::Node(child) => {
                    let level = content.level.checked_sub(1);
                    self.node(scope, child, level, range, max);
                }
            }
        }
    }

    fn leaf(&mut self, scope: &Scope, leaf: &Arc<RunHandle>, range: Range<'_>, max: Option<&[u8]>) {
        if leaf.is_placeholder() {
            return;
        }
        let Some((run, scanned)) = self.run(scope, leaf, max) else { return };
        let place = run.link();
        let inside = run.first_key().zip(range.0).is_none_or(|(key, lo)| key >= lo)
            && run.last_key().zip(range.1).is_none_or(|(key, hi)| key < hi);
        if !inside {
            self.bad(scope, place.as_ref(), "leaf-range", "a leaf has keys outside its range");
        }
        if let Some(why) = scanned.not_a_leaf {
            self.bad(scope, place.as_ref(), "leaf-entry", format!("a leaf is no leaf: {why}"));
        }
    }

    /// Checks the run slices in a node's buffer: invariants 3 to 5 of `tree/node/mod.rs`.
    fn slices(
        &mut self,
        scope: &Scope,
        place: Option<&Link>,
        node: &Node,
        range: Range<'_>,
        max: Option<&[u8]>,
    ) {
        for (age, tier) in node.tiers.iter().enumerate() {
            if tier.slices.is_empty() {
                self.bad(scope, place, "tier", format!("tier {age} has no slices"));
            }
            for slice in &tier.slices {
                if slice.live.iter().all(|&bytes| bytes == 0) {
                    self.bad(scope, place, "consumed", "a slice of which nothing is live");
                }
                if let Some((run, _)) = self.run(scope, &slice.run, max) {
                    if reaches_beyond(slice, &run, range) {
                        let what = "a slice has keys beyond the range of its node";
                        self.bad(scope, place, "part-range", what);
                    }
                    self.live_counts(scope, place, node, slice, &run);
                }
            }
        }
    }

    /// Checks that a run slice holds something wherever it counts live bytes. The converse cannot
    /// be checked: what it holds may have been handed down already.
    fn live_counts(
        &mut self,
        scope: &Scope,
        place: Option<&Link>,
        node: &Node,
        slice: &RunSlice,
        run: &Run,
    ) {
        for (c, _) in slice.live.iter().enumerate().filter(|&(_, &bytes)| bytes > 0) {
            let bounds = (slice.lo.as_deref(), slice.hi.as_deref());
            let (lo, hi) = clip(bounds, node.child_range(c));
            if !has_any(run, lo, hi) {
                let what = format!("a slice is live for child {c}, and has nothing there");
                self.bad(scope, place, "live", what);
            }
        }
    }

    /// Opens a run and checks it by itself; reads its entries the first time.
    fn run(
        &mut self,
        scope: &Scope,
        handle: &Arc<RunHandle>,
        max: Option<&[u8]>,
    ) -> Option<(Arc<Run>, Scanned)> {
        let link = handle.link().copied();
        let lists_anew = link.is_some_and(|link| self.meet_run(scope, &link));
        let run = match self.open(handle) {
            Ok(run) => run,
            Err(error) => {
                self.fail(scope, &error);
                return None;
            }
        };
        let meta = &handle.meta;
        let agrees = meta.entries == run.entries()
            && meta.bytes == run.data_bytes()
            && (meta.range_deletes != run.range_deletes().is_empty())
            && (meta.blobs != run.blobs().is_empty())
            && meta.measured.is_none_or(|measured| measured == Measured::of(&run));
        if !agrees {
            self.bad(scope, link.as_ref(), "counts", "a run has not what its link says");
        }
        let ends = run.range_deletes().iter().map(|(_, to)| to);
        if ends.chain(run.last_key()).any(|key| max.is_some_and(|max| key > max)) {
            self.bad(scope, link.as_ref(), "maximum", "a run has keys above the tree's greatest");
        }
        if self.mode == CheckMode::Quick {
            return Some((run, Scanned::default()));
        }
        if lists_anew {
            self.list_blobs(scope, handle, &run);
        }
        let key = run_key(handle);
        if let Some(scanned) = self.scanned.runs.get(&key) {
            return Some((run, *scanned));
        }
        if self.scanned.is_cancelled() {
            return None;
        }
        let mut found = Vec::new();
        let scanned = scan(&run, &mut self.report.checked, &mut |finding| found.push(finding));
        let file = self.cx.store.file();
        for listed in run.blobs() {
            let before = self.report.checked.blobs;
            let read = self.scanned.blobs.read(file, &listed.reference, &mut self.report.checked);
            found.extend(read.err());
            if before < self.report.checked.blobs
                && let Some(blob) = BlobRef::from_disk(&listed.reference)
            {
                self.scanned.progress.note_checked(blob.extent().bytes.into());
            }
            if self.scanned.is_cancelled() {
                return None;
            }
        }
        self.note_read(link.as_ref());
        for finding in found {
            self.add(scope, link.as_ref(), finding);
        }
        self.scanned.runs.insert(key, scanned);
        Some((run, scanned))
    }

    /// Counts a page as read; one that was never written is not in the file.
    fn note_read(&self, link: Option<&Link>) {
        self.scanned.progress.note_checked(link.map_or(0, |link| link.bytes.into()));
    }

    /// Records that a run is reached. Returns true if its blobs are to be recorded: the first time,
    /// and when the tree that wrote it also links it, after one that inherited it.
    fn meet_run(&mut self, scope: &Scope, link: &Link) -> bool {
        let counts = |pages: &Pages| pages.get(&link.offset).is_some_and(|page| page.refs > 0);
        let counted = counts(&self.reached);
        match self.meet(scope, link, PageKind::Run, true) {
            Met::First => true,
            Met::Again => counts(&self.reached) && !counted,
            Met::Known => false,
        }
    }

    fn list_blobs(&mut self, scope: &Scope, handle: &RunHandle, run: &Run) {
        let is_own = scope.lineage.is_none_or(|lineage| lineage == handle.lineage);
        let counts = Some(handle.lineage).filter(|_| is_own);
        for listed in run.blobs() {
            let noted = self.blobs.note(&listed.reference, &scope.name, counts, &scope.inherits);
            if let Err(why) = noted {
                self.bad(scope, handle.link(), "blobs", why);
            }
        }
    }

    fn open(&mut self, handle: &Arc<RunHandle>) -> crate::Result<Arc<Run>> {
        let key = run_key(handle);
        if let Some((_, run)) = self.open.iter().find(|(other, _)| *other == key) {
            return Ok(run.clone());
        }
        let run = handle.glance(self.cx)?;
        if self.open.len() == OPEN_RUNS {
            self.open.pop_front();
        }
        self.open.push_back((key, run.clone()));
        Ok(run)
    }

    fn fail(&mut self, scope: &Scope, error: &Error) {
        self.is_cut = true;
        let finding = from_error(error);
        self.add(scope, None, finding);
    }

    fn bad(
        &mut self,
        scope: &Scope,
        place: Option<&Link>,
        code: &'static str,
        what: impl Into<String>,
    ) {
        self.add(scope, place, damage(code, what));
    }

    fn add(&mut self, scope: &Scope, place: Option<&Link>, mut finding: Finding) {
        finding.tree = Some(scope.name.to_string());
        if finding.file == PathBuf::new() {
            finding.file = self.cx.store.file().path().to_owned();
        }
        if let Some(link) = place
            && finding.offset == 0
        {
            (finding.offset, finding.bytes) = (link.offset, link.bytes.into());
        }
        self.report.add(finding);
    }
}

/// Whether a slice violates invariant 5 of `tree/node/mod.rs`.
fn reaches_beyond(slice: &RunSlice, run: &Run, range: Range<'_>) -> bool {
    let is_live = |bytes: Option<&u32>| bytes.is_some_and(|&bytes| bytes > 0);
    let below = range.0.filter(|_| is_live(slice.live.first()));
    let above = range.1.filter(|_| is_live(slice.live.last()));
    below.is_some_and(|lo| has_any(run, slice.lo.as_deref(), Some(lo)))
        || above.is_some_and(|hi| has_any(run, Some(hi), slice.hi.as_deref()))
}

/// True if a run may have entries or deletes in [lo, hi).
fn has_any(run: &Run, lo: Option<&[u8]>, hi: Option<&[u8]>) -> bool {
    let is_empty = lo.zip(hi).is_some_and(|(lo, hi)| lo >= hi);
    !is_empty && (run.bytes_between(lo, hi) > 0 || run.range_deletes().meets(lo, hi))
}

/// Identifies a run: by place and hash once it is written. Unwritten runs stay alive while they are
/// walked, so their address identifies them.
fn run_key(handle: &Arc<RunHandle>) -> (u64, u64) {
    match handle.link() {
        Some(link) => (link.offset, link.hash),
        None => (u64::MAX, Arc::as_ptr(handle) as usize as u64),
    }
}
