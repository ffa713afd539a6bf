//! The record of a commit: everything that recovery needs to repeat it.
//!
//! Threads: the committing one. Bytes: docs/format.md, "Log".

use crate::{
    blob::BlobHold, pipeline::CommitPayload, sync::Arc, version::Change, wal::RecordBuilder,
};

use super::changes::{in_record, trees_beyond_memory};

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
