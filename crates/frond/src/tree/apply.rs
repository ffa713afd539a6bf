//! Apply: puts a batch into a tree, that is, makes a new root from a root and a batch.
//!
//! 1. A batch for an empty or one-leaf tree is merged with the leaf; if that results in more than
//!    one leaf, they get a root node.
//! 2. A batch wholly above the tree's maximum becomes leaves at the right edge and touches no old
//!    leaf: keys that only grow are written once.
//! 3. Any other batch becomes runs at the front of the root's buffer, cut at the pivots where a
//!    child's slice is large enough to go down by itself, and the root is rebalanced (`settle.rs`).
//!
//! A page that cannot be read blocks only the work that needs it (`damage.rs`); if the root itself
//! cannot be read, the batch waits in a node above it.
//!
//! Invariants
//! 1. Published nodes and runs are never changed; the job works on copies and seals them.
//! 2. The job counts every run reference that it adds or removes, and records every node that it
//!    replaced, so that births and deaths can be recorded with the publish (Rule: I21).
//! 3. Nothing newer is ever below anything older of the same key (Rule: I1): the maximum of step 2
//!    is an upper bound over leaves and everything pending.
//!
//! Threads: one job per tree at a time (Rule: I8); jobs of different trees run concurrently. Cost:
//! each entry is encoded once here, and once more for each merge on its way down. Idea: Bender et
//! al., "An Introduction to Bε-trees and Write-Optimization", 2015; handing down references before
//! bytes: Conway et al., "SplinterDB", 2020.

use crate::{
    block::BLOCK_RAW_BYTES_MAX,
    error::{Error, Result},
    message::{Kind, Tag},
    run::{EntrySource, Folded, Run, RunBuilder},
    sync::{Arc, AtomicU64, OnceLock, Ordering},
    types::{Sums, VersionNumber},
};

use super::{
    context::{Effects, TreeContext, TreeTraits},
    cut::SliceWriter,
    damage::PageRef,
    node::{Bound, Child, Node, NodeRef, Root, RunHandle, RunSlice, Tier},
    page::LEVEL_MAX,
    piece::{Piece, Pieces},
};

/// Longest value that stays in a run when there is no space for a blob: half of the largest block,
/// and at most 512 times the longest value that is stored inline anyway. Both are 32 MiB.
const INLINE_BYTES_MAX: usize = BLOCK_RAW_BYTES_MAX / 2;
const INLINE_TIMES_MAX: usize = 512;

/// One tree's root and what belongs to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeRoot {
    pub root: Root,
    /// An upper bound of the tree's keys (the key itself may have been deleted). `None` means
    /// unknown: any key may be present, unless the root is empty.
    pub max_key: Option<Vec<u8>>,
    /// Number of rows, if every commit that was applied knew by how much it changed that. For an
    /// empty root see [`rows`](Self::rows).
    pub counted: Option<u64>,
    /// For a root that is a node: its entries and bytes as they were estimated when the loaded
    /// version was written.
    pub stored: Option<(u64, u64)>,
    /// For a root that is a node: the sums of what it holds, once they are known (`sums.rs`).
    pub sums: OnceLock<Box<Sums>>,
}

/// The input of an apply: entries ascending, one message per key, with older messages already
/// folded in.
pub(crate) struct Batch<'a> {
    /// Its range deletes are older than all its entries (Rule: I26).
    pub source: Box<dyn EntrySource + 'a>,
    /// Least and greatest key touched, including range deletes.
    pub min_key: Vec<u8>,
    pub max_key: Vec<u8>,
    /// Approximate bytes of keys and payloads.
    pub bytes: u64,
}

impl Batch<'_> {
    fn has_range_deletes(&self) -> bool {
        self.source.has_range_deletes()
    }
}

/// A root-changing job of one tree.
pub(crate) struct Job<'a> {
    pub cx: &'a TreeContext,
    pub traits: TreeTraits,
    /// The version that will link what this job makes.
    pub publish: VersionNumber,
    pub effects: Effects,
    /// Number of entries encoded so far, for pacing.
    pub progress: &'a AtomicU64,
    /// Pending bytes at which a leaf is flushed, in 1/16 of the leaf's bytes.
    pub leaf_fill_sixteenths: u64,
    /// The key range of the current node, for reports of damage.
    pub(super) bounds: (Bound, Bound),
    /// True if it may write runs before they are published. False if its effects are not recorded.
    pub writes_early: bool,
    /// True if it must not fail for lack of disk space: work that needs space waits in the root's
    /// buffer. For a replay, in which nothing can wait for space.
    pub is_frugal: bool,
    counted: u64,
}

impl<'a> Job<'a> {
    pub fn new(
        cx: &'a TreeContext,
        traits: TreeTraits,
        publish: VersionNumber,
        leaf_fill_sixteenths: u64,
        progress: &'a AtomicU64,
    ) -> Self {
        Self {
            cx,
            traits,
            publish,
            effects: Effects::default(),
            progress,
            leaf_fill_sixteenths,
            bounds: (None, None),
            writes_early: true,
            is_frugal: false,
            counted: 0,
        }
    }

    /// Applies the batch that `batches` returns each time it is called; `None` changes nothing. The
    /// old root stays valid; on an error nothing of the new one is linked.
    ///
    /// An error that concerns a page means that the batch itself cannot be folded: a long value in
    /// it cannot be read.
    pub fn apply<'b>(
        &mut self,
        old: &TreeRoot,
        batches: &dyn Fn() -> Result<Option<Batch<'b>>>,
    ) -> Result<TreeRoot> {
        let before = self.effects.sums;
        let mut root = self.apply_uncounted(old, batches)?;
        root.count_sums(old, self.effects.sums.minus(before));
        Ok(root)
    }

    fn apply_uncounted<'b>(
        &mut self,
        old: &TreeRoot,
        batches: &dyn Fn() -> Result<Option<Batch<'b>>>,
    ) -> Result<TreeRoot> {
        let Some(batch) = batches()? else { return Ok(old.clone()) };
        self.cx.counters.batches.fetch_add(1, Ordering::Relaxed);
        let before = self.effects.mark();
        let mut done = match self.has_memory_to_settle() {
            true => self.apply_to(old, batch),
            false => self.apply_unsettled(old, batch),
        };
        if self.is_frugal
            && done.as_ref().is_err_and(Error::is_no_space)
            && !plant!("tree: a replay settles, or fails")
        {
            self.effects.rewind(before);
            let Some(batch) = batches()? else { return Ok(old.clone()) };
            done = self.apply_unsettled(old, batch);
        }
        let error = match done {
            Err(error) if error.concerns_a_page() && !plant!("tree: damage ends the job") => error,
            done => return done,
        };
        self.effects.rewind(before);
        let above = self.node_above(&old.root);
        let (Some((page, top)), Some(batch)) = (above, batches()?) else { return Err(error) };
        let above = TreeRoot { root: Root::Node(top), ..old.clone() };
        let root = match self.is_frugal {
            true => self.apply_unsettled(&above, batch)?,
            false => self.apply_to(&above, batch)?,
        };
        // It was not the batch that failed.
        self.blame(&[page], (None, None), &error);
        Ok(root)
    }

    /// A node, not yet written, above a root that cannot be read; it takes what waits for the root.
    fn node_above(&mut self, root: &Root) -> Option<(PageRef, Arc<NodeRef>)> {
        let (page, child, level) = match root {
            Root::Empty => return None,
            Root::Leaf(leaf) => (PageRef::Run(leaf.clone()), Child::Leaf(leaf.clone()), 0),
            Root::Node(node) => {
                (PageRef::Node(node.clone()), Child::Node(node.clone()), node.level)
            }
        };
        if level >= LEVEL_MAX {
            return None;
        }
        if let Root::Leaf(leaf) = root {
            // The node's reference replaces the root's.
            self.effects.unlink_root(leaf);
        }
        Some((page, self.seal(Piece::above(child))))
    }

    /// False for a frugal job while unwritten runs use all the memory they may: on a full disk they
    /// stay in memory, and rebalancing creates more of them than the batch has.
    fn has_memory_to_settle(&self) -> bool {
        let max = self.cx.unwritten_max.load(Ordering::Relaxed);
        !self.is_frugal || self.cx.unwritten.load(Ordering::Relaxed) <= max
    }

    /// Puts a batch into the root's buffer, and does nothing else. It needs no disk space, except
    /// for values that are longer than a run can hold.
    fn apply_unsettled(&mut self, old: &TreeRoot, batch: Batch<'_>) -> Result<TreeRoot> {
        let mut top = match &old.root {
            Root::Node(node) => self.reopen(node)?,
            Root::Leaf(leaf) => {
                self.effects.unlink_root(leaf);
                Piece::above(Child::Leaf(leaf.clone())).into_node()
            }
            Root::Empty => Piece::above(Child::Leaf(self.empty_leaf())).into_node(),
        };
        let max_key = max_of(old, &batch);
        let tier = self.build_tier(&top, batch)?;
        if !tier.slices.is_empty() {
            top.tiers.insert(0, tier);
        }
        let root = self.root_of(Pieces::of(top));
        Ok(TreeRoot { root, max_key, ..old.clone() })
    }

    fn apply_to(&mut self, old: &TreeRoot, batch: Batch<'_>) -> Result<TreeRoot> {
        let appends = match (&old.root, &old.max_key) {
            (Root::Empty, _) => true,
            (_, None) => false,
            (_, Some(max_key)) => batch.min_key > *max_key,
        };
        let max_key = max_of(old, &batch);
        let root = match &old.root {
            Root::Empty => self.apply_to_leaf(None, batch)?,
            Root::Leaf(leaf) => self.apply_to_leaf(Some(leaf), batch)?,
            Root::Node(node)
                if appends
                    && !batch.has_range_deletes()
                    && self.fills_leaf(&batch)
                    && self.right_edge_is_readable(node)? =>
            {
                let leaves = self.build_leaves(batch.source)?;
                let top = self.reopen(node)?;
                let nodes = self.append_leaves(top, leaves)?;
                self.root_of(nodes)
            }
            Root::Node(node) => {
                let mut top = self.reopen(node)?;
                self.rewrite_sparse(&mut top)?;
                let tier = self.build_tier(&top, batch)?;
                if !tier.slices.is_empty() {
                    top.tiers.insert(0, tier);
                }
                let nodes = self.settle(top)?;
                self.root_of(nodes)
            }
        };
        Ok(TreeRoot { root, max_key, ..old.clone() })
    }

    /// True if leaves can be appended at the right edge: every node on it is then in memory.
    fn right_edge_is_readable(&mut self, root: &Arc<NodeRef>) -> Result<bool> {
        let mut content = root.load(self.cx)?.clone();
        while let Some(Child::Node(last)) = content.children.last().cloned() {
            if last.is_marked() {
                return Ok(false);
            }
            let from = content.pivots.last().map(|pivot| &**pivot);
            let page = [PageRef::Node(last.clone())];
            let Some(next) =
                self.contained(&page, (from, None), |job| last.load(job.cx).cloned())?
            else {
                return Ok(false);
            };
            content = next;
        }
        Ok(true)
    }

    /// True if the batch makes at least a quarter of a leaf; a smaller batch would leave tiny
    /// leaves.
    fn fills_leaf(&self, batch: &Batch<'_>) -> bool {
        batch.bytes / 2 >= self.cx.shape.leaf_bytes / 4
    }

    fn apply_to_leaf(&mut self, leaf: Option<&Arc<RunHandle>>, batch: Batch<'_>) -> Result<Root> {
        let leaves = self.merge_batch(batch, leaf)?;
        if let Some(leaf) = leaf {
            self.effects.unlink_root(leaf);
        }
        let node = self.node_over(leaves);
        let nodes = self.split(node);
        Ok(self.root_of(nodes))
    }

    /// Creates a level-1 node over fresh leaves; it has no children if there are none.
    fn node_over(&mut self, leaves: Vec<Arc<RunHandle>>) -> Node {
        let pivots = self.pivots_between(&leaves);
        let children = leaves.into_iter().map(Child::Leaf).collect();
        Node { level: 1, pivots, children, tiers: Vec::new() }
    }

    /// The shortest keys that separate neighbouring fresh leaves.
    pub(super) fn pivots_between(&self, leaves: &[Arc<RunHandle>]) -> Vec<Box<[u8]>> {
        let pairs = leaves.windows(2);
        pairs
            .map(|pair| {
                let (last, first) = (pair[0].resident(), pair[1].resident());
                let last = last.as_ref().and_then(|run| run.last_key());
                let first = first.as_ref().and_then(|run| run.first_key());
                let (last, first) = last.zip(first).expect("fresh leaves are in memory");
                shortest_separator(last, first).into()
            })
            .collect()
    }

    /// Opens a sealed node for changes: its page is recorded as dead, and its run references are
    /// given up until the changed copy is sealed.
    pub(super) fn reopen(&mut self, node: &Arc<NodeRef>) -> Result<Node> {
        let content = node.load(self.cx)?;
        self.effects.unlink_node(node, content);
        Ok(Node::clone(content))
    }

    /// Seals a changed node.
    pub(super) fn seal(&mut self, mut piece: Piece) -> Arc<NodeRef> {
        piece.drop_consumed();
        self.effects.link_node(&piece);
        NodeRef::new(piece, self.traits.lineage, self.publish)
    }

    /// Seals siblings of one level into a root, adding levels until one node is left.
    pub(super) fn root_of(&mut self, mut nodes: Pieces) -> Root {
        loop {
            if nodes.len() < 2 {
                let top = nodes.into_iter().next();
                return top.map_or(Root::Empty, |(_, top)| self.collapse(top));
            }
            let mut level = 1;
            let mut pivots = Vec::new();
            let mut children = Vec::new();
            for (first_key, node) in nodes {
                level = node.level + 1;
                if !children.is_empty() {
                    pivots.push(first_key);
                }
                children.push(Child::Node(self.seal(node)));
            }
            nodes = self.split(Node { level, pivots, children, tiers: Vec::new() });
        }
    }

    /// Reduces a root: a node with one child and no buffer becomes that child; a leaf without
    /// entries becomes the empty root.
    fn collapse(&mut self, mut top: Piece) -> Root {
        top.drop_consumed();
        match top.only_child().cloned() {
            Some(Child::Leaf(run)) if run.is_placeholder() => Root::Empty,
            Some(Child::Leaf(run)) => {
                self.effects.link_root(&run);
                Root::Leaf(run)
            }
            Some(Child::Node(child)) => Root::Node(child),
            None => Root::Node(self.seal(top)),
        }
    }

    /// Appends leaves, all above the tree's maximum, at the right edge below `node`. Returns the
    /// node, and new siblings to its right.
    fn append_leaves(&mut self, mut node: Node, leaves: Vec<Arc<RunHandle>>) -> Result<Pieces> {
        if let Some(Child::Node(last)) = node.children.last().cloned() {
            let child = self.reopen(&last)?;
            let pieces = self.append_leaves(child, leaves)?;
            // The first piece replaces the last child, and takes over what waits for it.
            node.children.pop();
            for (n, (first_key, piece)) in pieces.into_iter().enumerate() {
                if n > 0 {
                    node.pivots.push(first_key);
                }
                node.children.push(Child::Node(self.seal(piece)));
            }
        } else {
            self.cx.counters.leaves_appended.fetch_add(leaves.len() as u64, Ordering::Relaxed);
            // The maximum is an upper bound below the first new key, so the key itself separates.
            let first = leaves.first().and_then(|leaf| leaf.resident());
            let first_key = first.as_ref().and_then(|run| run.first_key()).map(Box::from);
            node.pivots.extend(first_key.filter(|_| !node.children.is_empty()));
            node.pivots.extend(self.pivots_between(&leaves));
            node.children.extend(leaves.into_iter().map(Child::Leaf));
        }
        for slice in node.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
            slice.live.resize(node.children.len(), 0);
        }
        Ok(self.split_right(node))
    }

    /// Writes a batch as the slices of a new tier of `top`.
    pub(super) fn build_tier(&mut self, top: &Node, batch: Batch<'_>) -> Result<Tier> {
        let mut source = batch.source;
        let ranges = source.range_deletes().cloned().unwrap_or_default();
        let mut slices = SliceWriter::new(self, top, &ranges, (None, None)).cut_at_children();
        while let Some(entry) = source.entry() {
            slices.push(self, entry.key, entry.tag, entry.payload)?;
            self.tick(1);
            source.advance()?;
        }
        slices.finish(self)
    }

    /// A slice of `run` for `node`, clipped to [lo, hi), with its live bytes; `None` if nothing of
    /// it lies in the node's children.
    pub(super) fn slice_of(
        &self,
        node: &Node,
        run: Arc<RunHandle>,
        lo: Option<Box<[u8]>>,
        hi: Option<Box<[u8]>>,
    ) -> Result<Option<RunSlice>> {
        let opened = run.open(self.cx)?.clone();
        let mut live = Vec::with_capacity(node.children.len());
        for c in 0..node.children.len() {
            let (from, to) = clip((lo.as_deref(), hi.as_deref()), node.child_range(c));
            live.push(self.live_between(&opened, from, to)?);
        }
        let any = live.iter().any(|&bytes| bytes > 0);
        Ok(any.then_some(RunSlice { run, lo, hi, live }))
    }

    /// Bytes of `run` in [lo, hi): 0 exactly if there is nothing, range deletes included.
    fn live_between(&self, run: &Run, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<u32> {
        if let (Some(lo), Some(hi)) = (lo, hi)
            && lo >= hi
        {
            return Ok(0);
        }
        let bytes = run.bytes_between(lo, hi) + run.range_deletes().bytes_between(lo, hi);
        Ok(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// Builds leaves from entries alone.
    fn build_leaves(
        &mut self,
        mut entries: Box<dyn EntrySource + '_>,
    ) -> Result<Vec<Arc<RunHandle>>> {
        let mut leaves = Vec::new();
        let mut builder = self.leaf_builder(None);
        let folder = self.cx.folder();
        let mut made = Vec::new();
        while let Some(entry) = entries.entry() {
            if builder.bytes_so_far() as u64 >= self.cx.shape.leaf_bytes {
                let full = std::mem::replace(&mut builder, self.leaf_builder(None));
                leaves.extend(full.finish()?.map(|run| self.handle(run)));
            }
            // A Delete above the maximum deletes nothing; a Merge finds no base.
            match folder.for_leaf(entry.message(), &mut made)? {
                Folded::Newer(tag) => self.push(&mut builder, entry.key, tag, entry.payload)?,
                Folded::Made(tag) => self.push(&mut builder, entry.key, tag, &made)?,
                Folded::Nothing => {}
            }
            self.tick(1);
            entries.advance()?;
        }
        leaves.extend(builder.finish()?.map(|run| self.handle(run)));
        Ok(leaves)
    }

    /// Appends an entry to a run. A value that folding made too long for a run goes into a blob. On
    /// a full disk it stays in the run, if that can hold it, until a later job finds space: an
    /// apply must not fail while deletes wait in it (Rule: I24).
    pub(super) fn push(
        &mut self,
        builder: &mut RunBuilder,
        key: &[u8],
        tag: Tag,
        payload: &[u8],
    ) -> Result<()> {
        if payload.len() <= self.cx.shape.blob_bytes || tag.kind() != Kind::Put {
            return builder.push(key, tag, payload);
        }
        match self.cx.write_blob(payload, self.traits.class, true) {
            Ok((reference, hold)) => {
                self.effects.blobs.push(hold);
                builder.push(key, tag.of_blob(), &reference.to_disk())
            }
            Err(error) if error.is_no_space() && payload.len() <= self.inline_bytes_max() => {
                builder.push(key, tag, payload)
            }
            Err(error) => Err(error),
        }
    }

    fn inline_bytes_max(&self) -> usize {
        self.cx.shape.blob_bytes.saturating_mul(INLINE_TIMES_MAX).min(INLINE_BYTES_MAX)
    }

    pub(super) fn buffer_builder(&self) -> RunBuilder {
        self.cx.buffer_builder(&self.traits)
    }

    pub(super) fn leaf_builder(&self, base: Option<&Run>) -> RunBuilder {
        self.cx.leaf_builder(&self.traits, base)
    }

    pub(super) fn handle(&mut self, run: Arc<Run>) -> Arc<RunHandle> {
        let handle = RunHandle::new(run, self.traits.lineage, self.publish, self.cx);
        let max = self.cx.unwritten_max.load(Ordering::Relaxed);
        if self.writes_early && self.cx.unwritten.load(Ordering::Relaxed) > max {
            // If this write fails, the checkpoint writes the run, or reports the error.
            let held = handle.write_early(self.cx).ok();
            self.effects.early.extend(held.map(|held| (handle.clone(), held)));
        }
        handle
    }

    /// Counts encoded entries; the pacer sees them in steps.
    pub(super) fn tick(&mut self, entries: u64) {
        self.counted += entries;
        if self.counted >= 256 {
            self.flush_ticks();
        }
    }

    /// Adds all counted entries to the shared counters.
    pub fn flush_ticks(&mut self) {
        self.progress.fetch_add(self.counted, Ordering::Relaxed);
        self.cx.counters.entries_encoded.fetch_add(self.counted, Ordering::Relaxed);
        self.counted = 0;
    }
}

/// An upper bound of the keys of a tree and a batch; `None` if it is not known.
fn max_of(old: &TreeRoot, batch: &Batch<'_>) -> Option<Vec<u8>> {
    let greatest = match (&old.root, &old.max_key) {
        (Root::Empty, _) => &batch.max_key,
        (_, None) if plant!("tree: no maximum is taken for no keys") => &batch.max_key,
        (_, None) => return None,
        (_, Some(_)) if plant!("tree: the maximum forgets what was there") => &batch.max_key,
        (_, Some(max_key)) => max_key.max(&batch.max_key),
    };
    Some(greatest.clone())
}

/// The intersection of two ranges.
pub(crate) fn clip<'k>(
    a: (Option<&'k [u8]>, Option<&'k [u8]>),
    b: (Option<&'k [u8]>, Option<&'k [u8]>),
) -> (Option<&'k [u8]>, Option<&'k [u8]>) {
    let lo = match (a.0, b.0) {
        (Some(x), Some(y)) => Some(x.max(y)),
        (x, y) => x.or(y),
    };
    let hi = match (a.1, b.1) {
        (Some(x), Some(y)) => Some(x.min(y)),
        (x, y) => x.or(y),
    };
    (lo, hi)
}

/// A shortest key above `last` and not above `first`.
pub(super) fn shortest_separator<'k>(last: &[u8], first: &'k [u8]) -> &'k [u8] {
    let common = last.iter().zip(first).take_while(|(a, b)| a == b).count();
    first.get(..common + 1).unwrap_or(first)
}
