//! The record of a commit: everything that recovery needs to repeat it. Also the memory in which
//! records are built.
//!
//! A record buffer per thread needs no lock, but a server has hundreds of threads, and each would
//! keep its longest record for ever. So a thread keeps only a short buffer; the store keeps a few
//! long ones, which all threads share.
//!
//! Threads: all; a record is built by the committing one. Rank: the lock of the spare buffers is
//! held only for a push or a pop, and no lock is taken under it. Bytes: docs/format.md, "Log".

use crate::{
    TreeId,
    blob::BlobHold,
    db::Shared,
    pipeline::CommitPayload,
    sync::{Arc, Mutex, Ordering},
    version::Change,
    wal::RecordBuilder,
};

use super::{changes::in_record, trees_beyond_memory};

/// Largest buffer that a thread keeps: enough for the records of most transactions.
const KEPT_BYTES: usize = 16 << 10;
/// Number of long buffers that the store keeps: as many as commits build concurrently on a busy
/// machine.
const SPARE_MAX: usize = 4;

thread_local! {
    static KEPT: std::cell::RefCell<RecordBuilder> = std::cell::RefCell::default();
}

/// Long record buffers that are not in use.
#[derive(Debug)]
pub(crate) struct Records {
    spare: Mutex<Vec<RecordBuilder>>,
    /// Largest buffer that is kept, bytes.
    spare_bytes: usize,
}

impl Records {
    /// Buffers for a store with this memory; they keep at most a sixty-fourth of it.
    pub fn new(cache_bytes: u64) -> Self {
        Self { spare: Mutex::default(), spare_bytes: cache_bytes as usize / 64 / SPARE_MAX }
    }

    /// A buffer for a record of about `bytes` bytes. It may contain an older record, which building
    /// a new one clears.
    pub fn take(&self, bytes: usize) -> RecordBuilder {
        let spare = (bytes > KEPT_BYTES).then(|| self.spare.lock().unwrap().pop()).flatten();
        spare.unwrap_or_else(|| KEPT.take())
    }

    /// Returns a buffer for reuse.
    pub fn give(&self, record: RecordBuilder) {
        if record.capacity() <= KEPT_BYTES {
            KEPT.set(record);
        } else if record.capacity() <= self.spare_bytes {
            let mut spare = self.spare.lock().unwrap();
            if spare.len() < SPARE_MAX {
                spare.push(record);
            }
        }
    }
}

/// Writes the record of a commit. The extents that it names come first, the counters of loaded
/// trees last: see `changes.rs`.
pub(in crate::db) fn write_record(
    record: &mut RecordBuilder,
    payload: &CommitPayload,
    blobs: &[Arc<BlobHold>],
    changes: &[Change],
) {
    record.clear();
    changes.iter().for_each(|change| change.write_extents(record));
    blobs.iter().for_each(|blob| record.extent(in_record(blob.extent())));
    for &(tree, counter, next) in &payload.counters {
        if !plant!("db: counters are not logged with their commit") {
            record.counter(tree, counter, next);
        }
    }
    for &tree in &payload.trees {
        record.tree(tree);
        if let Some(more) = payload.rows_of(tree) {
            record.rows(more);
        }
        for (from, to) in payload.writes.ranges(tree) {
            if !plant!("db: range deletes are not logged") {
                record.delete_range(from, to);
            }
        }
        for entry in payload.writes.entries(tree) {
            record.entry(entry.key, entry.tag, entry.payload);
        }
    }
    for tree in trees_beyond_memory(payload, changes) {
        if let Some(more) = payload.rows_of(tree) {
            record.tree(tree);
            record.rows(more);
        }
    }
    changes.iter().for_each(|change| change.write_counters(record));
}

impl Shared {
    /// Lists the counter values that the record of a commit to these trees must log.
    pub(in crate::db) fn list_counters(
        &self,
        trees: impl Iterator<Item = TreeId>,
        counters: &mut Vec<(TreeId, u8, u64)>,
    ) {
        counters.clear();
        if !self.commits.has_counters.load(Ordering::SeqCst) {
            return;
        }
        for tree in trees {
            if let Some(entry) = self.catalog.by_id(tree) {
                counters.extend(entry.counters.unlogged().map(|(at, next)| (tree, at, next)));
            }
        }
    }

    /// Notes that a record with these values has its place in the log.
    pub(super) fn counters_are_logged(&self, counters: &[(TreeId, u8, u64)]) {
        for &(tree, counter, next) in counters {
            let entry = self.catalog.by_id(tree);
            entry.inspect(|entry| entry.counters.are_logged(counter, next));
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn record(bytes: usize) -> RecordBuilder {
        let mut record = RecordBuilder::new();
        record.tree(crate::TreeId(1));
        record.entry(b"key", crate::message::Tag::PUT, &vec![0; bytes]);
        record
    }

    #[test]
    fn a_thread_caches_a_short_record_and_the_store_a_few_long_ones() {
        let records = Records::new(64 << 20);
        records.give(record(100));
        assert!((100..KEPT_BYTES).contains(&records.take(10).capacity()), "the thread's own");
        assert_eq!(records.take(10).capacity(), 0, "it is taken");
        (0..10).for_each(|_| records.give(record(100_000)));
        assert_eq!(records.take(10).capacity(), 0, "a short record does not take a long one");
        let long = || records.take(100_000).capacity() >= 100_000;
        assert_eq!((0..10).filter(|_| long()).count(), SPARE_MAX);
        records.give(record(1 << 20));
        assert!(!long(), "longer than a share of the memory");
    }
}
