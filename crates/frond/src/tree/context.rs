//! The context of tree jobs: memory, files and the target shape as input; effects and counters as
//! output.

use crate::{
    SizeClass,
    blob::{BLOB_PIECE_BYTES, Blob, BlobHold, BlobOptions, BlobRef},
    block::{BLOCK_RAW_BYTES_TARGET, Codec},
    cache::{BlockCache, FramePool},
    error::Result,
    page::Link,
    run::{
        BlobReader, Folder, Operators, RowSchema, Run, RunBuilder, RunOptions, Work, WorkByTree,
    },
    store::{Extent, HeldExtent, HeldPages, Store},
    sync::{Arc, AtomicU64, Ordering},
    types::{Lineage, Sums, VALUE_INLINE_BYTES_MAX, VersionNumber},
};
use std::collections::{HashMap, hash_map::Entry};

use super::{
    damage::Damage,
    node::{Node, NodeRef, RunHandle},
    run_cache::Descriptors,
};

/// Sizes that determine a tree's shape. Production uses `Shape::default`; tests use tiny ones, so
/// that a few hundred keys make a deep tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Target of a leaf's encoded bytes. 512 KiB: about 25 k index entries, 1.3 ms of merging.
    pub leaf_bytes: u64,
    /// Children a node may have before it splits.
    pub fanout_max: usize,
    /// Least bytes handed to a child node: less would rewrite more node metadata than data.
    pub push_bytes: u64,
    /// Bytes of a block before its codec.
    pub block_bytes: usize,
    /// Encoded bytes after which a buffer run is cut.
    pub run_bytes: u64,
    /// Values longer than this get a blob.
    pub blob_bytes: usize,
    /// Raw bytes of one piece of a blob.
    pub blob_piece_bytes: usize,
    /// Tiers an upper node may hold before similar ones are merged.
    pub tiers_max: usize,
    /// Tiers a level-1 node may hold: each costs a reader a filter probe, and a lower limit costs
    /// more rewriting.
    pub tiers_max_bottom: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            leaf_bytes: 512 << 10,
            fanout_max: 32,
            push_bytes: 256 << 10,
            block_bytes: BLOCK_RAW_BYTES_TARGET,
            run_bytes: 1 << 20,
            blob_bytes: VALUE_INLINE_BYTES_MAX,
            blob_piece_bytes: BLOB_PIECE_BYTES,
            tiers_max: 8,
            tiers_max_bottom: 8,
        }
    }
}

/// Counters of tree work, over all trees.
#[derive(Debug, Default)]
pub(crate) struct TreeCounters {
    pub batches: AtomicU64,
    pub entries_encoded: AtomicU64,
    pub leaf_flushes: AtomicU64,
    pub leaf_entries_encoded: AtomicU64,
    pub blocks_carried: AtomicU64,
    pub pushes: AtomicU64,
    pub blobs_written: AtomicU64,
    pub blob_bytes_written: AtomicU64,
    pub run_merges: AtomicU64,
    pub run_merge_entries: AtomicU64,
    pub leaves_appended: AtomicU64,
    pub leaves_loaded: AtomicU64,
    pub node_splits: AtomicU64,
    pub pieces_ahead: AtomicU64,
    pub drains: AtomicU64,
}

/// Everything that tree code needs from the modules below it.
#[derive(Debug)]
pub(crate) struct TreeContext {
    pub store: Arc<Store>,
    pub pool: Arc<FramePool>,
    pub cache: Arc<BlockCache>,
    pub operators: Arc<Operators>,
    pub shape: Shape,
    pub counters: TreeCounters,
    /// Counts encoding and decoding by tree; a check does not count.
    pub work: Option<Arc<WorkByTree>>,
    pub descriptors: Descriptors,
    /// Pages that jobs could not read.
    pub damage: Damage,
    /// Bytes of runs that have no address yet.
    pub unwritten: Arc<AtomicU64>,
    /// Above this many unwritten bytes, a job writes its runs as it makes them.
    pub unwritten_max: AtomicU64,
    /// Bytes of indexes and filters of open runs.
    pub resident: Arc<AtomicU64>,
}

/// What a job did to pages, for the version module to record with the publish.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Node pages of the old root that the new one does not link.
    pub dead_nodes: Vec<Arc<NodeRef>>,
    /// Changes of run references, in the order in which they were made. A run whose count ends at
    /// zero is dead.
    pub run_refs: Vec<(Arc<RunHandle>, i64)>,
    /// Blobs that the job wrote. Held until the publish has adopted those that its runs list.
    pub blobs: Vec<Arc<BlobHold>>,
    /// Trees that start with pages written beforehand.
    pub begun: Vec<Begun>,
    /// Runs that the job wrote itself, each in an extent that the checkpoint adopts if the run is
    /// linked.
    pub early: Vec<(Arc<RunHandle>, HeldExtent)>,
    /// The change of the tree's sums.
    pub sums: Sums,
}

/// A tree that starts with pages already in their places.
#[derive(Debug)]
pub(crate) struct Begun {
    /// Temporary until the checkpoint adopts them.
    pub pages: Arc<HeldPages>,
    /// The blobs that its leaves list, each in one of them.
    pub blobs: Vec<Extent>,
}

/// A position in [`Effects`], to rewind to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectsMark {
    dead_nodes: usize,
    run_refs: usize,
    blobs: usize,
    early: usize,
    sums: Sums,
}

/// Properties of a tree that its jobs use.
#[derive(Clone, Debug)]
pub(crate) struct TreeTraits {
    pub lineage: Lineage,
    pub class: SizeClass,
    /// True if leaves carry filters: keys are unique and not append-only.
    pub leaf_filters: bool,
    /// The schema of its runs, for columnar blocks; `None` for row blocks.
    pub schema: Option<Arc<RowSchema>>,
}

impl Effects {
    /// Counts one reference more (+1) or less (−1) to `run`.
    pub fn count(&mut self, run: &Arc<RunHandle>, delta: i64) {
        if run.is_placeholder() {
            // A placeholder has no extent, so nothing to free; and each read of a node page creates
            // a new descriptor.
            return;
        }
        self.run_refs.push((run.clone(), delta));
    }

    /// Records that the new root has this node, and the old one did not.
    pub fn link_node(&mut self, node: &Node) {
        node.run_refs().for_each(|run| self.count(run, 1));
        self.sums = self.sums.plus(node.sums());
    }

    /// Records that the new root does not have this node of the old one, whose page is dead.
    pub fn unlink_node(&mut self, node: &Arc<NodeRef>, content: &Node) {
        self.dead_nodes.push(node.clone());
        content.run_refs().for_each(|run| self.count(run, -1));
        self.sums = self.sums.minus(content.sums());
    }

    /// Records that the new root is this leaf.
    pub fn link_root(&mut self, leaf: &Arc<RunHandle>) {
        self.count(leaf, 1);
        self.sums = self.sums.plus(leaf.sums());
    }

    /// Records that the old root was this leaf.
    pub fn unlink_root(&mut self, leaf: &Arc<RunHandle>) {
        self.count(leaf, -1);
        self.sums = self.sums.minus(leaf.sums());
    }

    /// The current position, for [`rewind`](Self::rewind).
    pub fn mark(&self) -> EffectsMark {
        EffectsMark {
            dead_nodes: self.dead_nodes.len(),
            run_refs: self.run_refs.len(),
            blobs: self.blobs.len(),
            early: self.early.len(),
            sums: self.sums,
        }
    }

    /// Undoes everything recorded after the mark: the work was abandoned.
    pub fn rewind(&mut self, mark: EffectsMark) {
        if plant!("tree: work given up leaves its effects") {
            return;
        }
        self.dead_nodes.truncate(mark.dead_nodes);
        self.run_refs.truncate(mark.run_refs);
        self.blobs.truncate(mark.blobs);
        self.early.truncate(mark.early);
        self.sums = mark.sums;
    }

    /// Sums the changes of each run, so that each run appears once.
    pub fn sum_up(&mut self) {
        // Keyed by address: the handles in the list keep addresses from being reused.
        let mut places: HashMap<usize, usize> = HashMap::with_capacity(self.run_refs.len());
        let mut sums: Vec<(Arc<RunHandle>, i64)> = Vec::new();
        for (run, delta) in self.run_refs.drain(..) {
            match places.entry(Arc::as_ptr(&run) as usize) {
                Entry::Occupied(place) => sums[*place.get()].1 += delta,
                Entry::Vacant(place) => {
                    place.insert(sums.len());
                    sums.push((run, delta));
                }
            }
        }
        self.run_refs = sums;
    }
}

impl SizeClass {
    /// The codec of leaves and blobs of this class, where compression pays.
    pub(crate) fn codec(self) -> Codec {
        match self {
            SizeClass::Fast => Codec::Lz4,
            SizeClass::Default => Codec::Zstd1,
            SizeClass::Small => Codec::Zstd3,
        }
    }
}

impl BlobReader for TreeContext {
    fn read_blob(&self, reference: &[u8]) -> Result<Vec<u8>> {
        let mut value = Vec::new();
        self.open_blob(reference)?.read(&mut value)?;
        Ok(value)
    }
}

impl TreeContext {
    /// Opens the blob that a PutBlob's payload names.
    pub fn open_blob(&self, reference: &[u8]) -> Result<Blob> {
        let reference = BlobRef::read(self.store.file(), reference)?;
        Blob::open(self.store.file(), reference, &self.cache)
    }

    /// Writes a value into a blob of its own, for a commit or in the background.
    pub fn write_blob(
        &self,
        value: &[u8],
        class: SizeClass,
        is_background: bool,
    ) -> Result<(BlobRef, Arc<BlobHold>)> {
        let piece_bytes = self.shape.blob_piece_bytes;
        let options = BlobOptions { codec: class.codec(), piece_bytes, is_background };
        let (reference, hold) = Blob::write(&self.store, value, options)?;
        self.counters.blobs_written.fetch_add(1, Ordering::Relaxed);
        let bytes = hold.extent().bytes.into();
        self.counters.blob_bytes_written.fetch_add(bytes, Ordering::Relaxed);
        Ok((reference, hold))
    }

    /// A folder with the store's operators, which reads blobs where a Merge needs the value.
    pub fn folder(&self) -> Folder<'_> {
        Folder::with_blobs(&self.operators, self)
    }

    /// Creates an empty leaf of such a tree, which may carry blocks of `base`.
    pub fn leaf_builder(&self, traits: &TreeTraits, base: Option<&Run>) -> RunBuilder {
        let codec = traits.class.codec();
        let filter_bits = traits.leaf_filters.then_some(10);
        let options = RunOptions { codec, filter_bits, block_bytes: self.shape.block_bytes };
        self.run_builder(traits, options, base).keeps_warm(&self.cache)
    }

    /// Creates an empty run of such a tree for a node's buffer.
    pub fn buffer_builder(&self, traits: &TreeTraits) -> RunBuilder {
        let (codec, filter_bits) = (Codec::Raw, Some(14));
        let options = RunOptions { codec, filter_bits, block_bytes: self.shape.block_bytes };
        self.run_builder(traits, options, None)
    }

    fn run_builder(
        &self,
        traits: &TreeTraits,
        options: RunOptions,
        base: Option<&Run>,
    ) -> RunBuilder {
        let pool = self.pool.clone();
        let builder = match &traits.schema {
            Some(schema) => RunBuilder::columnar(pool, options, schema, base.map(Run::format)),
            None => RunBuilder::row_blocks(pool, options, base),
        };
        match self.work_of(traits.lineage) {
            Some(work) => builder.counted(work),
            None => builder,
        }
    }

    /// Opens a run on disk: one verified read of its footer.
    pub fn open_run(&self, link: &Link) -> Result<Arc<Run>> {
        let work = self.work_of(link.lineage);
        Run::open_counted(self.store.file().clone(), *link, self.pool.clone(), work)
    }

    /// The counters of work on the runs of a lineage.
    fn work_of(&self, lineage: Lineage) -> Option<Arc<Work>> {
        self.work.as_ref().map(|work| work.of(lineage))
    }
}

/// Returns a number in [70 %, 130 %] of `base`, determined by `seed`: thresholds that are equal
/// everywhere become due everywhere at once.
pub(crate) fn jitter(base: u64, seed: u64) -> u64 {
    let hash = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) >> 40; // 24 bits
    base * 7 / 10 + (base * 6 / 10) * hash / (1 << 24)
}

/// A seed for `jitter` from a page's birth and a position.
pub(crate) fn jitter_seed(birth: VersionNumber, position: usize) -> u64 {
    birth.0.wrapping_mul(31).wrapping_add(position as u64)
}
