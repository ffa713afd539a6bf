//! Nodes of a tree: pivots, children, and a buffer of runs that wait to be moved down.
//!
//! A `Node` is plain data: apply copies one, changes the copy and seals it; a sealed node is never
//! changed again. Nodes and versions share descriptors: one [`NodeRef`] per node page and one
//! [`RunHandle`] per run extent, each holding its content while resident and its address once
//! written.
//!
//! Invariants
//! 1. `pivots.len() + 1 == children.len()`, so a node has at least one child; pivots ascend
//!    strictly. Child `c` holds the keys in `[pivots[c-1], pivots[c])`. Only a copy that a job is
//!    changing may have no children: it cannot be sealed (`piece.rs`).
//! 2. Children of a level-1 node are leaf runs; children of higher nodes are nodes one level lower.
//! 3. Tiers are ordered newest first, and a tier is newer than everything below the node
//!    (Rule: I1). The slices of one tier are disjoint and ascend.
//! 4. `live[c]` of a slice is an upper estimate of the bytes it still holds for child `c`, and is 0
//!    if and only if nothing of it is live there: entries that were handed down no longer exist for
//!    the child.
//! 5. A slice's keys are read only inside `[lo, hi)` of the slice and of the child. The ends of the
//!    node's own range are known only to its slices: a slice that reaches beyond them is clipped.
//!
//! Threads: sealed nodes are read by all, without latches.

use arc_swap::{ArcSwapOption, Guard};

use crate::{
    cache::BlockCache,
    error::Result,
    page::{Link, PageKind},
    run::Run,
    store::{Class, HeldExtent, Request},
    sync::{Arc, AtomicBool, AtomicU32, AtomicU64, OnceLock, Ordering},
    types::{Lineage, VersionNumber},
};

use super::{TreeContext, meta::RunMeta, piece::Piece};

/// A key bound inside a node; `None` is unbounded.
pub(crate) type Bound = Option<Box<[u8]>>;

/// The root of a tree.
#[derive(Clone, Debug, Default)]
pub(crate) enum Root {
    /// No rows: nothing was ever applied, or everything is deleted.
    #[default]
    Empty,
    /// One leaf.
    Leaf(Arc<RunHandle>),
    /// A node.
    Node(Arc<NodeRef>),
}

/// A child link.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    /// A leaf run, below a level-1 node.
    Leaf(Arc<RunHandle>),
    /// A node.
    Node(Arc<NodeRef>),
}

/// The shared descriptor of one node page.
#[derive(Debug)]
pub(crate) struct NodeRef {
    /// The lineage in which it was written (Rule: I19).
    pub lineage: Lineage,
    /// The version that first linked it (Rule: I20).
    pub birth: VersionNumber,
    /// Distance from the leaves, 1 directly above them, according to the page that links it.
    pub level: u8,
    link: OnceLock<Link>,
    node: OnceLock<Arc<Node>>,
    /// True while it cannot be read (`damage.rs`).
    marked: AtomicBool,
}

/// The shared descriptor of one run extent.
#[derive(Debug)]
pub(crate) struct RunHandle {
    /// The lineage in which it was written (Rule: I19).
    pub lineage: Lineage,
    /// The version that first linked it (Rule: I20).
    pub birth: VersionNumber,
    /// What flush decisions need, without opening the run.
    pub meta: RunMeta,
    /// Length of its extent.
    pub extent_bytes: u32,
    link: OnceLock<Link>,
    /// Set while the run is open; `run_cache.rs` closes it.
    run: ArcSwapOption<Run>,
    /// True if it was used (`open`) since the clock hand last passed.
    used: AtomicBool,
    /// (node, slice) and (node, leaf) references in the newest version (Rule: I21).
    refs: AtomicU32,
    /// The references in the version that the last checkpoint fixed.
    refs_durable: AtomicU32,
    /// The counter of the bytes of unwritten runs, for a run that is unwritten.
    unwritten: Option<Arc<AtomicU64>>,
    /// The counter of the bytes of open runs' indexes and filters.
    resident: OnceLock<Arc<AtomicU64>>,
    /// True once the newest version has dropped its last reference, in this handle's life.
    has_died: AtomicBool,
    /// The cache that holds its blocks, set when it is first opened.
    cache: OnceLock<Arc<BlockCache>>,
    /// True while it cannot be read (`damage.rs`).
    marked: AtomicBool,
}

/// An open run; it stays open while this is held.
pub(crate) struct OpenRun(Guard<Option<Arc<Run>>>);

impl std::ops::Deref for OpenRun {
    type Target = Arc<Run>;

    #[inline]
    fn deref(&self) -> &Arc<Run> {
        self.0.as_ref().expect("made of an open run")
    }
}

/// A run slice: one run, or a stretch of one, waiting in a node's buffer.
#[derive(Clone, Debug)]
pub(crate) struct RunSlice {
    pub run: Arc<RunHandle>,
    /// First key that counts; set when the slice was handed down from a parent.
    pub lo: Bound,
    /// First key that does not count any more.
    pub hi: Bound,
    /// Live bytes for each child of the node (invariant 4).
    pub live: Vec<u32>,
}

/// Parts of one age.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tier {
    pub slices: Vec<RunSlice>,
}

/// An inner node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Distance from the leaves, 1 directly above them.
    pub level: u8,
    pub pivots: Vec<Box<[u8]>>,
    pub children: Vec<Child>,
    /// Newest first.
    pub tiers: Vec<Tier>,
}

impl NodeRef {
    /// Creates the descriptor of a sealed node that has no address yet.
    pub fn new(piece: Piece, lineage: Lineage, birth: VersionNumber) -> Arc<Self> {
        let node = piece.into_node();
        debug_assert_eq!(node.flaw(), None, "node.rs invariants 1 to 4");
        let level = node.level;
        let resident = OnceLock::new();
        let _ = resident.set(Arc::new(node));
        let marked = AtomicBool::new(false);
        Arc::new(Self { lineage, birth, level, link: OnceLock::new(), node: resident, marked })
    }

    /// Creates the descriptor of a node on disk.
    pub fn on_disk(link: Link, level: u8) -> Arc<Self> {
        let address = OnceLock::new();
        let (lineage, birth) = (link.lineage, link.birth);
        let _ = address.set(link);
        let marked = AtomicBool::new(false);
        Arc::new(Self { lineage, birth, level, link: address, node: OnceLock::new(), marked })
    }

    /// True while jobs skip it.
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Relaxed)
    }

    /// Called only by `damage.rs`.
    pub fn set_marked(&self, marked: bool) {
        self.marked.store(marked, Ordering::Relaxed);
    }

    /// Returns the node, reading and verifying it if it is not resident. At most one page read.
    pub fn load(&self, cx: &TreeContext) -> Result<&Arc<Node>> {
        if let Some(node) = self.node.get() {
            return Ok(node);
        }
        let link = self.link.get().expect("a node is resident or has an address");
        let node = super::page::read_node(cx, link, self.level)?;
        Ok(self.node.get_or_init(|| node))
    }

    /// Returns the node without making it resident: for callers that visit it only once.
    pub fn glance(&self, cx: &TreeContext) -> Result<Arc<Node>> {
        match (self.node.get(), self.link.get()) {
            (Some(node), _) => Ok(node.clone()),
            (None, link) => {
                let link = link.expect("a node is resident or has an address");
                super::page::read_node(cx, link, self.level)
            }
        }
    }

    /// The node, if it is in memory.
    pub fn resident(&self) -> Option<&Arc<Node>> {
        self.node.get()
    }

    /// The address, once written.
    pub fn link(&self) -> Option<&Link> {
        self.link.get()
    }

    /// Records the address; called only by the checkpoint, once.
    pub fn set_link(&self, link: Link) {
        assert!(self.link.set(link).is_ok(), "a node page is written once");
    }
}

impl RunHandle {
    /// Creates the descriptor of a run that has no address yet. Its bytes count in `cx.unwritten`
    /// until it has one, or is dropped.
    pub fn new(
        run: Arc<Run>,
        lineage: Lineage,
        birth: VersionNumber,
        cx: &TreeContext,
    ) -> Arc<Self> {
        let unwritten = &cx.unwritten;
        let meta = RunMeta::of(&run);
        unwritten.fetch_add(u64::from(run.extent_bytes()), Ordering::Relaxed);
        let extent = run.extent_bytes();
        let handle = Self::blank((lineage, birth), meta, extent, Some(unwritten.clone()), 0);
        handle.count_resident(cx, &run);
        handle.run.store(Some(run));
        Arc::new(handle)
    }

    /// Creates a placeholder leaf: it has no entries and no extent, and stands for a range that
    /// must not move to a neighbour yet.
    pub fn placeholder(lineage: Lineage, birth: VersionNumber) -> Arc<Self> {
        Arc::new(Self::blank((lineage, birth), RunMeta::default(), 0, None, 0))
    }

    /// Creates the descriptor of a run on disk with `refs` references in the newest version.
    pub fn on_disk(link: Link, meta: RunMeta, refs: u32) -> Arc<Self> {
        let handle = Self::blank((link.lineage, link.birth), meta, link.bytes, None, refs);
        let _ = handle.link.set(link);
        Arc::new(handle)
    }

    fn blank(
        (lineage, birth): (Lineage, VersionNumber),
        meta: RunMeta,
        extent_bytes: u32,
        unwritten: Option<Arc<AtomicU64>>,
        refs: u32,
    ) -> Self {
        Self {
            lineage,
            birth,
            meta,
            extent_bytes,
            link: OnceLock::new(),
            run: ArcSwapOption::empty(),
            used: AtomicBool::new(true),
            refs: AtomicU32::new(refs),
            refs_durable: AtomicU32::new(refs),
            unwritten,
            resident: OnceLock::new(),
            has_died: AtomicBool::new(false),
            cache: OnceLock::new(),
            marked: AtomicBool::new(false),
        }
    }

    /// True while jobs skip what needs it.
    pub fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Relaxed)
    }

    /// Called only by `damage.rs`.
    pub fn set_marked(&self, marked: bool) {
        self.marked.store(marked, Ordering::Relaxed);
    }

    /// Returns the run for a caller that reads all of it once. A closed run stays closed: a caller
    /// that reads all runs of a piece would otherwise have all their filters in memory, which it
    /// does not use.
    pub fn open_once(&self, cx: &TreeContext) -> Result<Arc<Run>> {
        match self.run.load().as_ref() {
            Some(run) => Ok(run.clone()),
            None => cx.open_run(self.link.get().expect("a run is resident or has an address")),
        }
    }

    fn count_resident(&self, cx: &TreeContext, run: &Run) {
        self.cache.get_or_init(|| cx.cache.clone());
        let resident = self.resident.get_or_init(|| cx.resident.clone());
        resident.fetch_add(run.resident_bytes() as u64, Ordering::Relaxed);
    }

    fn uncount_resident(&self, run: &Run) {
        if let Some(resident) = self.resident.get() {
            resident.fetch_sub(run.resident_bytes() as u64, Ordering::Relaxed);
        }
    }

    /// True for a placeholder leaf ([`RunHandle::placeholder`]): there is nothing to open, read or
    /// write.
    pub fn is_placeholder(&self) -> bool {
        self.meta.entries == 0 && !self.meta.range_deletes
    }

    /// Opens the run, reading and verifying its footer if it was closed. At most one read.
    pub fn open(&self, cx: &TreeContext) -> Result<OpenRun> {
        let open = self.run.load();
        // Written only on a change: readers share this cache line.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        if open.is_some() {
            return Ok(OpenRun(open));
        }
        let link = self.link.get().expect("a run is resident or has an address");
        let run = cx.open_run(link)?;
        // Counted before any thread can close it.
        self.count_resident(cx, &run);
        let before = self.run.compare_and_swap(&None::<Arc<Run>>, Some(run.clone()));
        if before.is_none() {
            cx.opened_footer();
            return Ok(OpenRun(Guard::from_inner(Some(run))));
        }
        // Another thread was faster.
        self.uncount_resident(&run);
        Ok(OpenRun(before))
    }

    /// Closes the run if it can be opened again and was not used since the last call. Returns true
    /// if this closed it. Called only by `run_cache.rs`.
    pub fn close_unused(&self) -> bool {
        if self.link.get().is_none() || self.used.swap(false, Ordering::Relaxed) {
            return false;
        }
        let run = self.run.swap(None);
        run.inspect(|run| self.uncount_resident(run)).is_some()
    }

    /// Returns the run without keeping its footer resident: for callers that visit it only once.
    pub fn glance(&self, cx: &TreeContext) -> Result<Arc<Run>> {
        match (self.run.load_full(), self.link.get()) {
            (Some(run), _) => Ok(run),
            (None, link) => cx.open_run(link.expect("a run is resident or has an address")),
        }
    }

    /// The run, if its footer is in memory.
    pub fn resident(&self) -> Option<Arc<Run>> {
        self.run.load_full()
    }

    /// The address, once written.
    pub fn link(&self) -> Option<&Link> {
        self.link.get()
    }

    /// Records the address, once.
    pub fn set_link(&self, link: Link) {
        assert!(self.link.set(link).is_ok(), "a run is written once");
        if let (Some(unwritten), Some(run)) = (&self.unwritten, &*self.run.load()) {
            unwritten.fetch_sub(u64::from(run.extent_bytes()), Ordering::Relaxed);
        }
    }

    /// Writes a run that exists only in memory before a version links it, into an extent that
    /// belongs to it only while the returned value is held. Its footer stays open until the run is
    /// linked: the job that made it reads it.
    pub fn write_early(self: &Arc<Self>, cx: &TreeContext) -> Result<HeldExtent> {
        let run = self.resident().expect("a run without an address is in memory");
        let bytes = u64::from(run.extent_bytes());
        let (birth, lineage) = (self.birth, self.lineage);
        let request = Request { class: Class::Run, kind: PageKind::Run, bytes, birth, lineage };
        let held = HeldExtent::allocate_reserved(&cx.store, &request)?;
        let file = cx.store.file();
        let link = run.write(file, held.extent().offset, birth, lineage)?;
        run.set_written(file.clone(), link);
        self.set_link(link);
        Ok(held)
    }

    /// Changes the number of references in the newest version and returns the result. Called only
    /// by the tree's one root-changing job (Rule: I8).
    pub fn add_refs(&self, delta: i64) -> u32 {
        let old = i64::from(self.refs.load(Ordering::Relaxed));
        let new = u32::try_from(old + delta).expect("references are counted, never below zero");
        self.refs.store(new, Ordering::Relaxed);
        if new == 0 {
            self.has_died.store(true, Ordering::Relaxed);
        }
        new
    }

    /// References in the newest version.
    pub fn refs(&self) -> u32 {
        self.refs.load(Ordering::Relaxed)
    }

    /// Changes the number of references in the version that a checkpoint writes; called only by the
    /// checkpoint.
    pub fn add_refs_durable(&self, delta: i64) -> u32 {
        let old = i64::from(self.refs_durable.load(Ordering::Relaxed));
        let new = u32::try_from(old + delta).expect("references are counted, never below zero");
        self.refs_durable.store(new, Ordering::Relaxed);
        new
    }

    /// References in the version that the last checkpoint fixed.
    pub fn refs_durable(&self) -> u32 {
        self.refs_durable.load(Ordering::Relaxed)
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        let Some(run) = self.run.swap(None) else { return };
        self.uncount_resident(&run);
        if let (None, Some(unwritten)) = (self.link.get(), &self.unwritten) {
            unwritten.fetch_sub(u64::from(run.extent_bytes()), Ordering::Relaxed);
        }
        // No reader will request the blocks of a run that the newest version has dropped and that
        // no other version holds.
        let has_died = self.has_died.load(Ordering::Relaxed);
        if let Some(cache) = self.cache.get().filter(|_| has_died) {
            run.forget_blocks(cache);
        }
    }
}

/// A run of which less than half is live is rewritten (Rule: I21). See
/// docs/design/005-leaf-flushes-and-tiers.md.
const SPARSE_DIVISOR: u64 = 2;

impl RunSlice {
    /// Bytes live for all children.
    pub fn live_bytes(&self) -> u64 {
        self.live.iter().map(|&bytes| u64::from(bytes)).sum()
    }

    /// True if little of its run was live in the last version: here and, assuming that all
    /// references hold as much of it, elsewhere. A run that cannot be read is left alone, and so is
    /// one of another lineage: its extent would stay anyway (Rule: I19).
    pub fn is_sparse(&self, lineage: Lineage) -> bool {
        let live = self.live_bytes() * u64::from(self.run.refs().max(1));
        live * SPARSE_DIVISOR < self.run.meta.bytes
            && self.run.lineage == lineage
            && !self.run.is_marked()
    }
}

impl Tier {
    /// Bytes live in all slices.
    pub fn live_bytes(&self) -> u64 {
        self.slices.iter().map(RunSlice::live_bytes).sum()
    }

    /// The slice that covers `key`, if any.
    pub fn slice_for(&self, key: &[u8]) -> Option<&RunSlice> {
        // First slice whose lower bound is above the key; the one before it may cover the key.
        let after =
            self.slices.partition_point(|slice| slice.lo.as_deref().is_none_or(|lo| lo <= key));
        let slice = self.slices.get(after.checked_sub(1)?)?;
        slice.hi.as_deref().is_none_or(|hi| key < hi).then_some(slice)
    }
}

impl Node {
    /// The index of the child that holds `key`.
    pub fn child_for(&self, key: &[u8]) -> usize {
        self.pivots.partition_point(|pivot| &**pivot <= key)
    }

    /// The key range of child `c`, as bounds; the outermost ends are unbounded.
    pub fn child_range(&self, c: usize) -> (Option<&[u8]>, Option<&[u8]>) {
        let lo = c.checked_sub(1).and_then(|i| self.pivots.get(i));
        (lo.map(|key| &**key), self.pivots.get(c).map(|key| &**key))
    }

    /// Bytes that wait for child `c`.
    pub fn pending_bytes(&self, c: usize) -> u64 {
        let slices = self.tiers.iter().flat_map(|tier| &tier.slices);
        slices.map(|slice| u64::from(slice.live.get(c).copied().unwrap_or(0))).sum()
    }

    /// Bytes that wait for each child.
    pub fn pending_by_child(&self) -> Vec<u64> {
        let mut pending = vec![0u64; self.children.len()];
        for slice in self.tiers.iter().flat_map(|tier| &tier.slices) {
            for (sum, &bytes) in pending.iter_mut().zip(&slice.live) {
                *sum += u64::from(bytes);
            }
        }
        pending
    }

    /// Every run reference of this node: slices and leaves.
    pub fn run_refs(&self) -> impl Iterator<Item = &Arc<RunHandle>> {
        let slices = self.tiers.iter().flat_map(|tier| &tier.slices).map(|slice| &slice.run);
        let leaves = self.children.iter().filter_map(|child| match child {
            Child::Leaf(run) => Some(run),
            Child::Node(_) => None,
        });
        slices.chain(leaves)
    }

    /// Drops slices that have nothing live, and tiers without slices.
    pub fn drop_consumed(&mut self) {
        for tier in &mut self.tiers {
            tier.slices.retain(|slice| slice.live.iter().any(|&bytes| bytes > 0));
        }
        self.tiers.retain(|tier| !tier.slices.is_empty());
    }

    /// Replaces child `c` by `children`, separated by `pivots`; nothing may wait for `c`.
    /// `children` may be empty only if `c` is the only child: then the node cannot be sealed any
    /// more.
    pub fn replace_child(&mut self, c: usize, children: Vec<Child>, pivots: Vec<Box<[u8]>>) {
        debug_assert_eq!(self.pending_bytes(c), 0, "all that waits moves first (Rule: I1)");
        let count = children.len();
        assert!(if count > 0 { count == pivots.len() + 1 } else { self.children.len() == 1 });
        for slice in self.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
            slice.live.splice(c..=c, std::iter::repeat_n(0, count));
        }
        self.children.splice(c..=c, children);
        self.pivots.splice(c..c, pivots);
    }

    /// Removes child `c + 1`; child `c` takes over its range. Nothing may wait for either: an entry
    /// consumed for one of them would become live again under the other.
    pub fn absorb_right(&mut self, c: usize) {
        debug_assert_eq!(self.pending_bytes(c) + self.pending_bytes(c + 1), 0);
        for slice in self.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
            slice.live.remove(c + 1);
        }
        self.children.remove(c + 1);
        self.pivots.remove(c);
    }

    /// True if there is nothing below this node and nothing waits in it, as far as memory shows.
    pub fn is_placeholder(&self) -> bool {
        self.tiers.is_empty()
            && self.children.iter().all(|child| match child {
                Child::Leaf(run) => run.is_placeholder(),
                Child::Node(node) => node.resident().is_some_and(|node| node.is_placeholder()),
            })
    }

    /// Describes the first of invariants 1 to 4 that does not hold, if any.
    pub fn flaw(&self) -> Option<&'static str> {
        let slices = || self.tiers.iter().flat_map(|tier| &tier.slices);
        let one_pivot_less = self.pivots.len() + 1 == self.children.len();
        let ascend = self.pivots.windows(2).all(|pair| pair[0] < pair[1]);
        let one_level_lower = self.children.iter().all(|child| match child {
            Child::Leaf(_) => self.level == 1,
            Child::Node(child) => u16::from(child.level) + 1 == u16::from(self.level),
        });
        let one_live_a_child = slices().all(|slice| slice.live.len() == self.children.len());
        let not_empty = slices().all(|slice| match (&slice.lo, &slice.hi) {
            (Some(lo), Some(hi)) => lo < hi,
            _ => true,
        });
        let disjoint = self.tiers.iter().all(|tier| {
            tier.slices.windows(2).all(|pair| match (&pair[0].hi, &pair[1].lo) {
                (Some(hi), Some(lo)) => hi <= lo,
                _ => false,
            })
        });
        let rules = [
            (!self.children.is_empty(), "it has no children"),
            (one_pivot_less, "its children are not one more than its pivots"),
            (ascend, "its pivots do not ascend"),
            (one_level_lower, "its children are not of the level below its own"),
            (one_live_a_child, "a slice has not one live count for each child"),
            (not_empty, "the range of a slice is empty"),
            (disjoint, "the slices of a tier overlap or do not ascend"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, why)| why)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
