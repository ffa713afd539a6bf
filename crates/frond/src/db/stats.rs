//! Statistics: counters and sizes of the engine, as named numbers with units.

use std::{cmp::Reverse, time::Duration};

use crate::{
    SizeClass, TreeId,
    catalog::CATALOG_TREE,
    db::Shared,
    io::SlowOperation,
    latency::LatencyStats,
    run::{DecodeStats, EncodeStats, Work},
    sync::Ordering,
    tree::Damaged,
};

/// Defines [`Stats`]: the counters listed, and what is not a single number.
macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Counters since the store was opened, and current sizes. Names end in their unit.
        #[derive(Clone, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Why the store has stopped, if it has.
            pub failed: Option<String>,
            /// Damaged ranges of trees: background work met an unreadable page there.
            /// `frond check` reads all pages.
            pub damaged: Vec<DamagedRange>,
            /// What the store is waiting for: operations on its files that have taken ten seconds
            /// or more. Nothing fails because of them.
            pub slow: Vec<SlowOperation>,
            /// Latencies of commits, from the call to its return. Of commits that wait for no disk,
            /// about one in sixteen is timed.
            pub commits: LatencyStats,
            /// How long commits waited for a sync of the log, counting only those that waited.
            pub sync_waits: LatencyStats,
            /// How long calls waited for locks, counting only those that waited.
            pub lock_waits: LatencyStats,
        }

        impl Stats {
            fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)+].into_iter()
            }
        }
    };
}

stats! {
    /// Seqno of the last commit that readers see.
    seqno_visible,
    /// Seqno of the last commit that is in the trees; later ones are only in memtables and the log.
    seqno_applied,
    /// Number of the current version of the trees; it rises with each change of them, and skips
    /// many numbers each time the store is opened for writing.
    publish,
    /// Memory of the memtable that takes new commits.
    memtable_active_bytes,
    /// Memory of all memtables, at most about a quarter of the budget.
    memtables_bytes,
    /// Full memtables that wait to be applied to the trees: 1 under load; commits are slowed
    /// down when the next one fills as well.
    memtables_frozen,
    /// What the next checkpoint will write.
    runs_unwritten_bytes,
    /// Frames of 16 KiB in use: memtables, unwritten pages, reads in progress.
    frames_used,
    /// Maximum number of frames.
    frames_limit,
    /// Memory that frames and cached blocks have obtained from the system.
    memory_mapped_bytes,
    /// Memory of frames and cached blocks that is in use.
    memory_taken_bytes,
    /// Metadata of trees, runs and extents. It is never evicted, and leaves that much less for
    /// blocks.
    memory_known_bytes,
    /// Memory of the footers of runs.
    run_footers_bytes,
    /// Footers of runs that were evicted to make room.
    run_footers_closed,
    /// Batches in which memtables were applied to trees.
    apply_batches,
    /// Entries that applies encoded.
    apply_entries_encoded,
    /// Times that buffered changes were merged into a leaf.
    leaf_flushes,
    /// Entries encoded by merges into leaves.
    leaf_entries_encoded,
    /// Blocks that merges into leaves reused without encoding them again.
    leaf_blocks_carried,
    /// Blocks encoded in leaves.
    leaf_blocks_encoded,
    /// Bytes of rows in the blocks encoded in leaves, before encoding.
    leaf_encoded_from_bytes,
    /// Bytes of the blocks encoded in leaves, once encoded.
    leaf_encoded_bytes,
    /// Time spent encoding blocks in leaves, nanoseconds.
    leaf_encode_nanos,
    /// Chunks (the bytes of a string column, or a whole row block) compressed with LZ4 or zstd.
    leaf_chunks_coded,
    /// Chunks stored raw because compression saved too little; it is then not tried again for a
    /// while.
    leaf_chunks_raw,
    /// String models (dictionaries, symbol tables) that were trained.
    leaf_trainings,
    /// Time spent training string models, nanoseconds.
    leaf_training_nanos,
    /// Blocks encoded in runs that are buffered in nodes.
    buffer_blocks_encoded,
    /// Bytes of entries in the blocks encoded in buffered runs, before encoding.
    buffer_encoded_from_bytes,
    /// Bytes of the blocks encoded in buffered runs, once encoded.
    buffer_encoded_bytes,
    /// Time spent encoding blocks in buffered runs, nanoseconds.
    buffer_encode_nanos,
    /// Chunks decompressed for reads and merges.
    chunks_decoded,
    /// Bytes of decompressed chunks.
    chunks_decoded_bytes,
    /// Time spent decompressing chunks, nanoseconds.
    chunks_decode_nanos,
    /// Leaves written by appends in key order, without a merge.
    leaves_appended,
    /// Rows of bulk loads.
    load_rows,
    /// Leaves of the loaded trees.
    load_leaves_written,
    /// Bytes that bulk loads sorted on disk.
    load_spilled_bytes,
    /// Memory that bulk loads use now.
    load_memory_bytes,
    /// Memory of uncommitted writes, counting transactions from 64 KiB on.
    uncommitted_bytes,
    /// Times that a node's buffer was pushed down to its children.
    node_pushes,
    /// Nodes split.
    node_splits,
    /// Merges of runs within a node's buffer.
    run_merges,
    /// Entries written by merges of runs within buffers.
    run_merge_entries,
    /// Long values written.
    blobs_written,
    /// Size on disk of the long values written.
    blob_bytes_written,
    /// Buffers emptied while the store was idle.
    drains,
    /// Checkpoints made.
    checkpoints,
    /// Pages written by checkpoints.
    checkpoint_pages_written,
    /// Bytes written by checkpoints.
    checkpoint_bytes_written,
    /// Transactions, snapshots and cursors that hold a snapshot;
    /// [`Db::transactions`](crate::Db::transactions) lists their owners.
    snapshots,
    /// How long the oldest snapshot has been held, in milliseconds; 0 if there is none.
    snapshot_oldest_millis,
    /// The commit number of the snapshot held longest.
    snapshot_oldest_seqno,
    /// Pages that only snapshots still need; they are freed when the snapshots are released.
    snapshot_kept_bytes,
    /// Memtables that only snapshots need.
    snapshot_memtable_bytes,
    /// Memtables of snapshots that were moved to disk.
    snapshot_spills,
    /// Size on disk of the memtables of snapshots that were moved there.
    snapshot_spilled_bytes,
    /// Size of the log that recovery would need, or that the change feed keeps.
    log_kept_bytes,
    /// Bytes written to the log.
    log_written_bytes,
    /// Writes to the log; each holds one commit or more.
    log_groups,
    /// Syncs of the log.
    log_syncs,
    /// Blocks found in the cache.
    cache_hits,
    /// Blocks not found in the cache.
    cache_misses,
    /// Size of the cached blocks.
    cache_bytes,
    /// Reads of blocks from the store's file.
    device_reads,
    /// Bytes read from the store's file for blocks.
    device_read_bytes,
    /// Parts of the file that were read ahead of scans.
    pieces_read_ahead,
    /// Memory of what is read ahead now.
    read_ahead_held_bytes,
    /// Reads of the store's file, of any kind.
    store_reads,
    /// Bytes read from the store's file, for any purpose.
    store_read_bytes,
    /// Writes to the store's file.
    store_writes,
    /// Bytes written to the store's file.
    store_written_bytes,
    /// Syncs of the store's file.
    store_syncs,
    /// Live data in the store's file.
    space_live_bytes,
    /// Dead pages that slots, snapshots or readers still need.
    space_kept_bytes,
    /// Data spilled for snapshots, being loaded, or long values that no tree contains yet.
    space_temporary_bytes,
    /// Space in the file that will be used again.
    space_free_bytes,
    /// Where the used part of the file ends.
    space_end_bytes,
    /// Trees in the catalog.
    trees,
    /// Unreadable pages that background work has met, normally 0: see
    /// [`damaged`](Self::damaged).
    pages_damaged,
    /// 1 while pages of dropped trees are being freed, a part of them with each checkpoint.
    trees_ending,
    /// 1 while an apply or a checkpoint waits for disk space.
    disk_full,
    /// Reads, writes and syncs that took ten seconds or more, normally 0: see
    /// [`slow`](Self::slow).
    slow_operations,
    /// Rows and trees locked now.
    locks,
    /// Ranges locked now.
    lock_ranges,
    /// Memory of row and tree locks, without queues and ranges.
    locks_bytes,
    /// Waits for locks that ended with `LockTimeout`.
    lock_timeouts,
    /// Waits for locks that ended with `Deadlock`.
    deadlocks,
    /// Waits for locks that were interrupted.
    lock_interrupts,
    /// Commits, and transactions before their first lock, that were delayed because background
    /// work could not keep up or the log was long.
    writers_slowed,
    /// Sum of the delays of writers, in nanoseconds.
    writers_slowed_nanos,
    /// Rows that locking scans looked up a second time because of a concurrent commit to their
    /// tree.
    locked_rows_looked_again,
}

/// Work done on the runs of one tree since the store was opened. Reads of pages that a clone shares
/// with its parent count for the parent.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeStats {
    /// Name of the tree; empty for the catalog and for a dropped tree.
    pub tree: String,
    /// Number of the tree.
    pub id: TreeId,
    /// Size class of its leaves.
    pub size_class: SizeClass,
    /// Encoding leaves.
    pub leaves: EncodeStats,
    /// Encoding runs that wait in nodes.
    pub buffers: EncodeStats,
    /// Decompression of chunks of leaves; runs in nodes use no general codec.
    pub decoded: DecodeStats,
}

/// A range of keys below an unreadable page. New writes to the range wait in buffers above the
/// page; the rest of the store works as usual. A read that needs the page returns its error. The
/// page is read again from time to time, and once that succeeds the range is complete and no longer
/// listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRange {
    /// Name of the tree; empty for the catalog.
    pub tree: String,
    /// First key of the range; `None`: it starts at the beginning of the tree.
    pub from: Option<Vec<u8>>,
    /// End of the range, exclusive; `None`: it extends to the end of the tree.
    pub to: Option<Vec<u8>>,
    /// Byte offset in the store file at which reading failed.
    pub offset: u64,
    /// The error, with its code.
    pub why: String,
}

impl Stats {
    /// All numbers with their names, in a fixed order, as for a monitoring system: the counters,
    /// and of each latency its count, sum, median, percentiles and maximum.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counters()
            .chain(numbers(COMMIT_NAMES, &self.commits))
            .chain(numbers(SYNC_WAIT_NAMES, &self.sync_waits))
            .chain(numbers(LOCK_WAIT_NAMES, &self.lock_waits))
    }

    /// The number that [`iter`](Self::iter) lists under this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(own, _)| *own == name).map(|(_, value)| value)
    }

    pub(crate) fn collect(shared: &Shared) -> Self {
        let engine = &shared.engine;
        let version = engine.versions.hold();
        let counters = &engine.cx.counters;
        let count = |counter: &crate::sync::AtomicU64| counter.load(Ordering::Relaxed);
        let log = engine.log.as_ref().map(|log| log.stats()).unwrap_or_default();
        let cache = engine.cx.cache.stats();
        let store = engine.store.stats();
        let space = engine.store.space().stats();
        let damaged: Vec<_> =
            engine.cx.damage.list().into_iter().map(|one| range_of(shared, one)).collect();
        let slow = shared.lifecycle.watch.look();
        let work = shared.catalog.work.all();
        let (leaves, buffers, decoded) = (work.leaves(), work.buffers(), work.decoded());
        let locks = shared.locking.table.stats();
        let (commits, sync_waits, lock_waits) = (
            shared.commits.timings.commits.times(),
            shared.commits.timings.syncs.times(),
            locks.lasted,
        );
        let snapshots = engine.snapshots.live(engine.env.clock.now());
        let oldest = snapshots.iter().max_by_key(|one| (one.lasts, Reverse(one.at)));
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let kept_for_snapshots = engine.store.space().kept_for(&engine.snapshots.pinned_versions());
        let failed = engine.health.why();
        Self {
            seqno_visible: engine.sequencer.visible().0,
            seqno_applied: version.applied.0,
            publish: version.publish.0,
            memtable_active_bytes: version.active.table.bytes() as u64,
            memtables_bytes: engine.versions.memtables_bytes(),
            memtables_frozen: version.frozen.len() as u64,
            runs_unwritten_bytes: engine.unwritten_bytes(),
            frames_used: engine.cx.pool.frames_used() as u64,
            frames_limit: engine.cx.pool.frames_limit() as u64,
            memory_mapped_bytes: engine.cx.pool.mapped_bytes() as u64,
            memory_taken_bytes: engine.cx.pool.taken_bytes() as u64,
            memory_known_bytes: engine.known_bytes(),
            run_footers_bytes: count(&engine.cx.resident),
            run_footers_closed: count(&engine.cx.descriptors.closed),
            apply_batches: count(&counters.batches),
            apply_entries_encoded: count(&counters.entries_encoded),
            leaf_flushes: count(&counters.leaf_flushes),
            leaf_entries_encoded: count(&counters.leaf_entries_encoded),
            leaf_blocks_carried: count(&counters.blocks_carried),
            leaf_blocks_encoded: leaves.blocks,
            leaf_encoded_from_bytes: leaves.from_bytes,
            leaf_encoded_bytes: leaves.bytes,
            leaf_encode_nanos: leaves.nanos,
            leaf_chunks_coded: leaves.chunks_coded,
            leaf_chunks_raw: leaves.chunks_raw,
            leaf_trainings: leaves.trainings,
            leaf_training_nanos: leaves.training_nanos,
            buffer_blocks_encoded: buffers.blocks,
            buffer_encoded_from_bytes: buffers.from_bytes,
            buffer_encoded_bytes: buffers.bytes,
            buffer_encode_nanos: buffers.nanos,
            chunks_decoded: decoded.chunks,
            chunks_decoded_bytes: decoded.bytes,
            chunks_decode_nanos: decoded.nanos,
            leaves_appended: count(&counters.leaves_appended),
            load_rows: count(&engine.loads.rows),
            load_leaves_written: count(&counters.leaves_loaded),
            load_spilled_bytes: count(&engine.loads.spilled_bytes),
            load_memory_bytes: engine.loads.memory_bytes(),
            uncommitted_bytes: engine.writes_memory.bytes(),
            node_pushes: count(&counters.pushes),
            node_splits: count(&counters.node_splits),
            run_merges: count(&counters.run_merges),
            run_merge_entries: count(&counters.run_merge_entries),
            blobs_written: count(&counters.blobs_written),
            blob_bytes_written: count(&counters.blob_bytes_written),
            drains: count(&counters.drains),
            checkpoints: count(&engine.checkpoint.count),
            checkpoint_pages_written: count(&engine.checkpoint.pages_written),
            checkpoint_bytes_written: count(&engine.checkpoint.bytes_written),
            snapshots: engine.snapshots.holders(),
            snapshot_oldest_millis: oldest.map_or(0, |one| millis(one.lasts)),
            snapshot_oldest_seqno: oldest.map_or(0, |one| one.at.0),
            snapshot_kept_bytes: kept_for_snapshots,
            snapshot_memtable_bytes: engine.snapshots.pinned_memtable_bytes(),
            snapshot_spills: count(&engine.spill.count),
            snapshot_spilled_bytes: count(&engine.spill.bytes_written),
            log_kept_bytes: engine.log_kept_bytes(),
            log_written_bytes: log.written_bytes,
            log_groups: log.groups,
            log_syncs: log.syncs,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_bytes: cache.resident_bytes,
            device_reads: cache.device_reads,
            device_read_bytes: cache.device_read_bytes,
            pieces_read_ahead: count(&counters.pieces_ahead),
            read_ahead_held_bytes: engine.readers.held_bytes(),
            store_reads: store.io.reads,
            store_read_bytes: store.io.read_bytes,
            store_writes: store.io.writes,
            store_written_bytes: store.io.write_bytes,
            store_syncs: store.io.syncs,
            space_live_bytes: space.live,
            space_kept_bytes: space.kept,
            space_temporary_bytes: space.temporary,
            space_free_bytes: space.free,
            space_end_bytes: space.end,
            trees: shared.catalog.trees().len() as u64,
            pages_damaged: damaged.len() as u64,
            trees_ending: u64::from(engine.store.is_ending()),
            disk_full: u64::from(engine.waits_for_room()),
            slow_operations: shared.lifecycle.watch.slow(),
            locks: locks.locks as u64,
            lock_ranges: locks.ranges as u64,
            locks_bytes: locks.bytes as u64,
            lock_timeouts: locks.timeouts,
            deadlocks: locks.deadlocks,
            lock_interrupts: locks.interrupts,
            writers_slowed: count(&engine.admission.slowed.count),
            writers_slowed_nanos: count(&engine.admission.slowed.nanos),
            locked_rows_looked_again: shared.engine.sequencer.last_commits.looked_again(),
            failed,
            damaged,
            slow,
            commits,
            sync_waits,
            lock_waits,
        }
    }
}

/// Names of the numbers listed for latencies: count, sum, median, 99 %, 99.9 %, and longest.
type TimesNames = [&'static str; 6];

const COMMIT_NAMES: TimesNames = [
    "commits",
    "commits_nanos",
    "commit_median_nanos",
    "commit_p99_nanos",
    "commit_p999_nanos",
    "commit_longest_nanos",
];
const SYNC_WAIT_NAMES: TimesNames = [
    "sync_waits",
    "sync_waits_nanos",
    "sync_wait_median_nanos",
    "sync_wait_p99_nanos",
    "sync_wait_p999_nanos",
    "sync_wait_longest_nanos",
];
const LOCK_WAIT_NAMES: TimesNames = [
    "lock_waits",
    "lock_waits_nanos",
    "lock_wait_median_nanos",
    "lock_wait_p99_nanos",
    "lock_wait_p999_nanos",
    "lock_wait_longest_nanos",
];

fn numbers(
    names: TimesNames,
    times: &LatencyStats,
) -> impl Iterator<Item = (&'static str, u64)> + use<> {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let shares = [500, 990, 999].map(|share| nanos(times.per_mille(share)));
    let [half, most, nearly] = shares;
    let (total, longest) = (nanos(times.total()), nanos(times.longest()));
    names.into_iter().zip([times.count(), total, half, most, nearly, longest])
}

impl TreeStats {
    pub(super) fn of(tree: String, id: TreeId, size_class: SizeClass, work: &Work) -> Self {
        let (leaves, buffers, decoded) = (work.leaves(), work.buffers(), work.decoded());
        Self { tree, id, size_class, leaves, buffers, decoded }
    }

    /// Statistics of all trees, ordered by name.
    pub(crate) fn collect(shared: &Shared) -> Vec<Self> {
        let own = Self::of(String::new(), CATALOG_TREE, SizeClass::Fast, &shared.catalog.own_work);
        let trees = shared.catalog.trees();
        let of_trees =
            trees.iter().map(|tree| Self::of(tree.name(), tree.id, tree.class, &tree.work));
        [own].into_iter().chain(of_trees).collect()
    }
}

fn range_of(shared: &Shared, one: Damaged) -> DamagedRange {
    // A lineage belongs to a tree (`TreeId::lineage`); a dropped tree has no name any more.
    let tree = shared.catalog.by_id(TreeId(one.lineage.0)).map(|tree| tree.name());
    DamagedRange {
        tree: tree.unwrap_or_default(),
        from: one.from.map(Vec::from),
        to: one.to.map(Vec::from),
        offset: one.offset,
        why: one.why.to_string(),
    }
}
