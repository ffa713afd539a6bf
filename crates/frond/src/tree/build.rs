//! Building a tree bottom-up from ascending rows: the last step of a bulk load.
//!
//! Leaves are cut at jittered sizes and written at once, into extents that no version links yet;
//! nodes follow as soon as they have their children. Memory holds one leaf, and on each level of
//! nodes the children of at most two of them.
//!
//! Invariants
//! 1. Keys ascend strictly over all calls; messages are Puts and PutBlobs without the fresh flag,
//!    as leaves hold them.
//! 2. All pages have one birth, that of the set of pages, so that no child is younger than its
//!    parent (Rule: I20).
//! 3. A node is written with at least half its target of children, including the last node of a
//!    level.
//!
//! Threads: one. Cost: each row is encoded once, each page written once.

use crate::{
    error::Result,
    message::Tag,
    page::{Link, PageKind},
    run::{Run, RunBuilder},
    store::{HeldExtent, HeldPages, TreeRoot as DurableRoot},
    sync::{Arc, Ordering},
    types::Sums,
};

use super::{
    TreeContext, TreeTraits,
    apply::shortest_separator,
    context::{jitter, jitter_seed},
    meta::RunMeta,
    node::{Child, Node, NodeRef, RunHandle},
    page::seal_node,
};

/// Children that wait for a node, with the first key of the node's range.
#[derive(Debug, Default)]
struct Level {
    first: Box<[u8]>,
    pivots: Vec<Box<[u8]>>,
    children: Vec<Child>,
    /// Number of nodes of this level written so far.
    written: usize,
}

/// A tree being built.
#[derive(Debug)]
pub(crate) struct TreeBuilder {
    cx: Arc<TreeContext>,
    traits: TreeTraits,
    pages: HeldPages,
    leaf: RunBuilder,
    /// Encoded bytes at which the leaf being built ends.
    cut_bytes: u64,
    /// Links of all leaves, for callers that want to read them again.
    leaves: Vec<Link>,
    /// One per level, from level 1 up.
    levels: Vec<Level>,
    /// The greatest key of the leaves written so far.
    last_key: Vec<u8>,
    /// Sums over the leaves.
    sums: Sums,
}

/// A tree that is written but not linked by anything.
#[derive(Debug)]
pub(crate) struct Built {
    /// Has no boundary yet: that is known only when a version adopts it.
    pub root: DurableRoot,
    pub pages: HeldPages,
}

impl TreeBuilder {
    /// Starts a tree without rows; its pages are added to `pages`, which must hold none yet.
    pub fn new(cx: &Arc<TreeContext>, traits: TreeTraits, pages: HeldPages) -> Self {
        let mut builder = Self {
            cx: cx.clone(),
            leaf: cx.leaf_builder(&traits, None),
            traits,
            pages,
            cut_bytes: 0,
            leaves: Vec::new(),
            levels: Vec::new(),
            last_key: Vec::new(),
            sums: Sums::default(),
        };
        builder.choose_cut();
        builder
    }

    /// Chooses the size of the next leaf. Sizes differ from the start, so that leaves do not all
    /// become due at once later.
    fn choose_cut(&mut self) {
        let seed = jitter_seed(self.pages.birth(), self.leaves.len());
        self.cut_bytes = jitter(self.cx.shape.leaf_bytes, seed);
    }

    /// Adds a row above all previous ones.
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8]) -> Result<()> {
        if self.leaf.bytes_so_far() as u64 >= self.cut_bytes {
            self.end_leaf()?;
        }
        self.leaf.push(key, tag, payload)
    }

    fn end_leaf(&mut self) -> Result<()> {
        let next = self.cx.leaf_builder(&self.traits, None);
        let Some(run) = std::mem::replace(&mut self.leaf, next).finish()? else { return Ok(()) };
        let link = self.write_run(&run)?;
        self.leaves.push(link);
        self.choose_cut();
        let first = run.first_key().unwrap_or_default();
        let separator = match self.levels.is_empty() {
            true => Box::default(),
            false => shortest_separator(&self.last_key, first).into(),
        };
        self.last_key.clear();
        self.last_key.extend_from_slice(run.last_key().unwrap_or_default());
        let leaf = RunHandle::on_disk(link, RunMeta::of(&run), 1);
        self.sums = self.sums.plus(leaf.sums());
        self.add(1, separator, Child::Leaf(leaf))
    }

    fn write_run(&mut self, run: &Run) -> Result<Link> {
        let extent = self.pages.allocate(PageKind::Run, run.extent_bytes().into())?;
        let (birth, lineage) = (self.pages.birth(), self.pages.lineage());
        let link = run.write(self.cx.store.file(), extent.offset, birth, lineage)?;
        self.cx.counters.leaves_loaded.fetch_add(1, Ordering::Relaxed);
        Ok(link)
    }

    fn write_node(&mut self, node: &Node) -> Result<Child> {
        let payload = seal_node(node, self.pages.birth())?;
        let bytes = crate::store::page_bytes(payload.len());
        let extent = self.pages.allocate(PageKind::Node, bytes)?;
        let (birth, lineage) = (self.pages.birth(), self.pages.lineage());
        let store = &self.cx.store;
        let link = store.write_page(PageKind::Node, extent, birth, lineage, &[&payload])?;
        Ok(Child::Node(NodeRef::on_disk(link, node.level)))
    }

    /// The target number of children of the `count`-th node of this level: three quarters of the
    /// maximum, jittered.
    fn aim(&self, level: usize, count: usize) -> usize {
        let max = self.cx.shape.fanout_max;
        let seed = jitter_seed(self.pages.birth(), level << 32 | count);
        (jitter(max as u64 * 3 / 4, seed) as usize).clamp(2, max)
    }

    /// Adds a child below the last node of `level`; `separator` is the first key of its range.
    fn add(&mut self, level: usize, separator: Box<[u8]>, child: Child) -> Result<()> {
        if self.levels.len() < level {
            self.levels.push(Level { first: separator, children: vec![child], ..Level::default() });
            return Ok(());
        }
        let written = self.levels[level - 1].written;
        let aim = self.aim(level, written);
        let open = &mut self.levels[level - 1];
        open.pivots.push(separator);
        open.children.push(child);
        // A node is cut only once enough children remain for the next node.
        if open.children.len() < 2 * aim { Ok(()) } else { self.cut(level, aim) }
    }

    /// Writes the first `count` waiting children of a level as a node.
    fn cut(&mut self, level: usize, count: usize) -> Result<()> {
        let open = &mut self.levels[level - 1];
        let rest = open.children.split_off(count);
        let mut pivots = open.pivots.split_off(count - 1);
        let between = if rest.is_empty() { Box::default() } else { pivots.remove(0) };
        let written = open.written + 1;
        let next = Level { first: between, pivots, children: rest, written };
        let Level { first, pivots, children, .. } = std::mem::replace(open, next);
        let node = Node { level: level as u8, pivots, children, tiers: Vec::new() };
        let child = self.write_node(&node)?;
        self.add(level + 1, first, child)
    }

    /// Finishes the tree.
    pub fn finish(mut self) -> Result<Built> {
        self.end_leaf()?;
        let mut root = DurableRoot { lineage: self.pages.lineage(), ..DurableRoot::default() };
        let mut level = 1;
        while let Some(open) = self.levels.get(level - 1) {
            let count = open.children.len();
            if level == self.levels.len()
                && let [top] = &open.children[..]
            {
                match top {
                    Child::Leaf(leaf) => {
                        root.link = leaf.link().copied();
                        root.leaf_has_blobs = leaf.meta.blobs;
                        (root.entries, root.bytes) = (leaf.meta.entries, leaf.meta.bytes);
                    }
                    Child::Node(node) => {
                        root.link = node.link().copied();
                        root.level = level as u8 - 1;
                    }
                }
                break;
            }
            if count > self.cx.shape.fanout_max {
                self.cut(level, count / 2)?;
                self.cut(level, count - count / 2)?;
            } else {
                self.cut(level, count)?;
            }
            level += 1;
        }
        root.sums = root.link.map(|_| self.sums);
        root.max_key = root.link.map(|_| std::mem::take(&mut self.last_key));
        Ok(Built { root, pages: self.pages })
    }

    /// Writes the last leaf and returns all leaves as they are, without the nodes above them: for
    /// rows that turned out not to ascend.
    pub fn into_leaves(mut self) -> Result<Vec<(Link, HeldExtent)>> {
        self.end_leaf()?;
        Ok(self.leaves.into_iter().zip(self.pages.into_runs()).collect())
    }
}
