//! Counters of the work done on a tree's runs since the store was opened: the cost and result of
//! encoding, and what general codecs decoded.
//!
//! A builder counts its own blocks and adds the sums when its run ends; a reader is counted only
//! where it decodes a chunk. Work on a tree's runs is counted for that tree and for all trees
//! together.
//!
//! Invariants
//! 1. Counters only grow. Those of all trees together include trees that are gone.
//! 2. `bytes` plus `carried_bytes` is the stored size of the blocks of the finished runs.
//! 3. The hint, how blocks were best stored so far, decides only what is tried for the next blocks.
//!    Rows never depend on it, but the bytes of row-block leaves do; so these bytes depend on which
//!    run of the tree ended last, because the last `set_hint` counts.
//! 4. Times are elapsed times, not CPU times, from two clock readings per block or chunk: nothing
//!    is decided by them (P17).
//!
//! Threads: all. Cost: two clock readings per block, about twenty additions per run.

use std::{collections::HashMap, fmt};

use super::{
    dictionaries::{Dictionaries, UnderDictionary},
    row_block_writer::EncodingHint,
};
use crate::{
    block::{Codec, DecodeMeter, columnar::ChunkCounts},
    io::Clock,
    sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering, RwLock, Weak},
    types::Lineage,
};

/// Declares a struct of numbers and the counters that they are read from.
macro_rules! counters {
    ($(#[$of:meta])* $numbers:ident, $counters:ident { $($(#[$about:meta])* $name:ident,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $numbers {
            $($(#[$about])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        struct $counters {
            $($name: AtomicU64,)*
        }

        impl $numbers {
            /// All numbers, by name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        impl $counters {
            fn add(&self, numbers: &$numbers) {
                $(self.$name.fetch_add(numbers.$name, Ordering::Relaxed);)*
            }

            fn read(&self) -> $numbers {
                $numbers { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Cost and result of encoding runs.
    EncodeStats, EncodeCounters {
        /// Runs that were finished.
        runs,
        /// Blocks that were encoded.
        blocks,
        /// Rows in these blocks.
        rows,
        /// Length of these rows: keys and payloads; for row blocks, of the block before its codec.
        from_bytes,
        /// Stored bytes of the blocks.
        bytes,
        /// Time spent encoding them; for row blocks, in the codec.
        nanos,
        /// Chunks (row blocks; the bytes of a string column) in these blocks that are stored under
        /// a general codec.
        chunks_coded,
        /// Raw length of these chunks.
        chunks_coded_from_bytes,
        /// Compressed length of these chunks.
        chunks_coded_bytes,
        /// Chunks on which the codec was tried and that are stored raw, since it saved too little.
        chunks_raw,
        /// Number of times that models of strings, or a dictionary, were trained or searched for.
        trainings,
        /// Time spent on that.
        training_nanos,
        /// Blocks that were carried over unchanged from older runs.
        carried_blocks,
        /// Stored bytes of these blocks.
        carried_bytes,
    }
}

counters! {
    /// What general codecs decoded, for reads and for merges.
    DecodeStats, DecodeCounters {
        /// Chunks.
        chunks,
        /// Decoded length.
        bytes,
        /// Time spent decoding.
        nanos,
    }
}

impl EncodeStats {
    /// Adds counts of chunks.
    pub(super) fn count(&mut self, chunks: ChunkCounts) {
        self.chunks_coded += chunks.coded;
        self.chunks_coded_from_bytes += chunks.coded_from_bytes;
        self.chunks_coded_bytes += chunks.coded_bytes;
        self.chunks_raw += chunks.raw;
    }
}

/// Work done on the runs of a tree, or of all trees.
#[derive(Debug)]
pub struct Work {
    clock: Arc<dyn Clock>,
    /// Created for the first run of leaves: where there are very many trees, most are not written
    /// before the store is closed.
    leaves: OnceLock<Box<LeavesWork>>,
    /// Created for the first run of a buffer.
    buffers: OnceLock<Box<EncodeCounters>>,
    decoded: DecodeCounters,
    /// The counters of all trees, to which everything is added as well.
    all: Option<Arc<Work>>,
}

/// Work on the leaves of a tree, and what was learned from it.
#[derive(Debug, Default)]
struct LeavesWork {
    encoded: EncodeCounters,
    /// For row blocks.
    hint: Mutex<EncodingHint>,
    dictionaries: Dictionaries,
}

impl Work {
    fn new(clock: Arc<dyn Clock>, all: Option<Arc<Work>>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            leaves: OnceLock::new(),
            buffers: OnceLock::new(),
            decoded: DecodeCounters::default(),
            all,
        })
    }

    /// Work on leaves.
    pub fn leaves(&self) -> EncodeStats {
        self.leaves.get().map(|leaves| leaves.encoded.read()).unwrap_or_default()
    }

    /// Work on buffer runs.
    pub fn buffers(&self) -> EncodeStats {
        self.buffers.get().map(|buffers| buffers.read()).unwrap_or_default()
    }

    /// What was decoded.
    pub fn decoded(&self) -> DecodeStats {
        self.decoded.read()
    }

    /// Nanoseconds since some fixed moment.
    pub(super) fn now(&self) -> u64 {
        self.clock.now().as_nanos() as u64
    }

    /// Adds work on runs under this codec: buffer runs have none.
    pub(super) fn encoded(&self, codec: Codec, done: &EncodeStats) {
        let of = |work: &Work| match codec {
            Codec::Raw => work.buffers.get_or_init(Box::default).add(done),
            _ => work.own_leaves().encoded.add(done),
        };
        of(self);
        if let Some(all) = &self.all {
            of(all);
        }
    }

    /// How row blocks were best stored, as of the end of the last run of leaves.
    pub(super) fn hint(&self) -> EncodingHint {
        self.leaves.get().map(|leaves| *leaves.hint.lock().unwrap()).unwrap_or_default()
    }

    /// The dictionary state of these blocks.
    pub(super) fn dictionaries(&self) -> &Dictionaries {
        &self.own_leaves().dictionaries
    }

    fn own_leaves(&self) -> &LeavesWork {
        self.leaves.get_or_init(Box::default)
    }

    /// Called when a run of leaves that was written under this codec has ended, with its raw and
    /// stored bytes: trains a dictionary for the following runs, if training is due.
    pub(super) fn learn_dictionary(
        &self,
        codec: Codec,
        under: UnderDictionary,
        row_bytes: u64,
        bytes: u64,
    ) {
        let Some(training) = self.dictionaries().learn(under, row_bytes, bytes) else { return };
        let begun = self.now();
        self.dictionaries().learned(training.train());
        let training_nanos = self.now().saturating_sub(begun);
        self.encoded(
            codec,
            &EncodeStats { trainings: 1, training_nanos, ..EncodeStats::default() },
        );
    }

    pub(super) fn set_hint(&self, hint: EncodingHint) {
        *self.own_leaves().hint.lock().unwrap() = hint;
    }
}

impl DecodeMeter for Work {
    fn begin(&self) -> u64 {
        self.now()
    }

    fn end(&self, begun: u64, bytes: usize) {
        let nanos = self.now().saturating_sub(begun);
        let done = DecodeStats { chunks: 1, bytes: bytes as u64, nanos };
        self.decoded.add(&done);
        if let Some(all) = &self.all {
            all.decoded.add(&done);
        }
    }
}

/// Work by tree, that is, by the lineage of its pages. What a clone reads of its parent's pages
/// counts as work on the parent's runs.
pub struct WorkByTree {
    all: Arc<Work>,
    trees: RwLock<Trees>,
}

/// The counters of each tree. The catalog, loads and open runs of a tree hold references to them.
#[derive(Default)]
struct Trees {
    by_lineage: HashMap<Lineage, Weak<Work>>,
    /// Number of entries at which entries that nothing references any more are removed.
    sweep_at: usize,
}

/// The least value of `sweep_at`.
const SWEEP_MIN: usize = 64;

impl WorkByTree {
    /// Creates empty counters.
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { all: Work::new(clock, None), trees: RwLock::default() })
    }

    /// The work on all trees, including those that are gone.
    pub fn all(&self) -> &Work {
        &self.all
    }

    /// The work on one tree. The counters start from zero if nothing references the tree's previous
    /// ones.
    pub fn of(&self, lineage: Lineage) -> Arc<Work> {
        let known = |trees: &Trees| trees.by_lineage.get(&lineage).and_then(Weak::upgrade);
        if let Some(work) = known(&self.trees.read().unwrap()) {
            return work;
        }
        let mut trees = self.trees.write().unwrap();
        if let Some(work) = known(&trees) {
            return work;
        }
        if trees.by_lineage.len() >= trees.sweep_at.max(SWEEP_MIN) {
            trees.by_lineage.retain(|_, work| work.strong_count() > 0);
            trees.sweep_at = 2 * trees.by_lineage.len();
        }
        let work = Work::new(self.all.clock.clone(), Some(self.all.clone()));
        trees.by_lineage.insert(lineage, Arc::downgrade(&work));
        work
    }
}

impl fmt::Debug for WorkByTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.all.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::RealClock;

    #[test]
    fn work_counts_for_its_tree_and_in_total_and_is_freed_with_its_holders() {
        let works = WorkByTree::new(Arc::new(RealClock::new()));
        let (one, other) = (works.of(Lineage(1)), works.of(Lineage(2)));
        let done = EncodeStats { blocks: 3, bytes: 100, ..EncodeStats::default() };
        one.encoded(Codec::Zstd1, &done);
        other.encoded(Codec::Raw, &done);
        other.end(other.begin(), 40);
        assert_eq!((one.leaves(), one.buffers()), (done, EncodeStats::default()));
        assert_eq!((other.leaves(), other.buffers()), (EncodeStats::default(), done));
        assert_eq!((works.all().leaves(), works.all().buffers()), (done, done));
        assert_eq!((other.decoded().chunks, other.decoded().bytes), (1, 40));
        assert_eq!(works.all().decoded(), other.decoded());
        assert!(Arc::ptr_eq(&one, &works.of(Lineage(1))));
        drop(other);
        for lineage in 3..10_000 {
            works.of(Lineage(lineage));
            assert!(works.trees.read().unwrap().by_lineage.len() <= SWEEP_MIN);
        }
        assert_eq!((works.of(Lineage(1)).leaves().blocks, works.all().buffers().blocks), (3, 3));
        assert_eq!(works.of(Lineage(2)).buffers().blocks, 0);
    }
}
