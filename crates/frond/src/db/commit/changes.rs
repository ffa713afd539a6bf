//! Commits that change roots or branches: what such a change adds to the log record, and the
//! extents that the log then holds (Rule: I11).
//!
//! Some kinds of change (a clone, a named snapshot, a drop) add neither. They are only recorded at
//! the memtable; their rows are in the catalog.
//!
//! Threads: the committing one.

use crate::{
    blob::BlobHold,
    catalog::TreeEntry,
    db::Shared,
    store::{Extent, Store},
    sync::{Arc, Ordering},
    types::Lsn,
    version::Change,
    wal::{LogExtent, RecordBuilder},
};

/// An extent as a record names it.
pub(super) fn in_record(Extent { offset, bytes }: Extent) -> LogExtent {
    LogExtent { offset, bytes: bytes.into() }
}

impl Change {
    /// Writes to the record the pages and runs that the change adds to the store. They come before
    /// the rows of the commit, because replay must know the runs before it inserts the commit. The
    /// extents of a load come before its root, so that replay can tell to which load they belong.
    pub(super) fn write_extents(&self, record: &mut RecordBuilder) {
        match self {
            Change::Spill(spilled) => {
                spilled.iter().for_each(|(tree, piece)| record.runs(tree, piece.links()));
            }
            Change::Prepare(pages) => {
                pages.iter().for_each(|(kind, extent)| record.page(kind, in_record(extent)));
            }
            Change::Load(loaded) => {
                loaded.blobs.iter().for_each(|blob| record.extent(in_record(blob.extent())));
                loaded.pages.iter().for_each(|(kind, page)| record.page(kind, in_record(page)));
                record.root(loaded.tree, &loaded.root.to_bytes());
            }
            _ => {}
        }
    }

    /// Writes to the record the counters that a loaded tree continues. They are last in the record,
    /// because replay has then read the catalog record of the tree and knows the tree.
    pub(super) fn write_counters(&self, record: &mut RecordBuilder) {
        let Some(loaded) = self.loaded_tree() else { return };
        let counts = loaded.instead_of.map(|(_, counts)| counts).unwrap_or_default();
        for (counter, next) in (0u8..).zip(counts).filter(|(_, next)| *next > 0) {
            if !plant!("load: counters of a tree that is filled begin again") {
                record.counter(loaded.tree, counter, next);
            }
        }
    }

    /// True if its commit's record names runs, which the log must hold before another thread can
    /// read the record.
    pub(super) fn names_runs(&self) -> bool {
        matches!(self, Change::Spill(_) | Change::Prepare(_))
    }

    /// Makes the log hold what the record at `lsn` names. Called outside the sequencer's section:
    /// the change holds the extents until then.
    pub(super) fn name_in_log(&self, store: &Store, lsn: Lsn) {
        let named = match self {
            Change::Load(loaded) => {
                let blobs = loaded.blobs.iter().map(|blob| blob.extent().offset);
                let mut named = blobs.map(|offset| store.name_in_log(offset, lsn));
                loaded.pages.name_in_log(lsn).and_then(|()| named.try_for_each(|named| named))
            }
            Change::Spill(spilled) => {
                spilled.iter().try_for_each(|(_, piece)| piece.pages().name_in_log(lsn))
            }
            Change::Prepare(pages) => pages.name_in_log(lsn),
            _ => Ok(()),
        };
        named.expect("I11: an extent that is held is there");
    }
}

/// Makes the log hold the long values that the record at `lsn` names, and counts them. Called
/// inside the sequencer's section.
pub(super) fn name_blobs_in_log(shared: &Shared, blobs: &[Arc<BlobHold>], lsn: Lsn) {
    let engine = &*shared.engine;
    for blob in blobs {
        let Extent { offset, bytes } = blob.extent();
        let named = engine.store.name_in_log(offset, lsn);
        named.expect("I11: an extent that is held is there");
        engine.blob_sync.bytes_since_checkpoint.fetch_add(bytes.into(), Ordering::Relaxed);
    }
}

/// The entries of trees that the changes drop.
pub(super) fn ending_trees(shared: &Shared, changes: &[Change]) -> Vec<Arc<TreeEntry>> {
    let dropped = changes.iter().filter_map(Change::dropped_tree);
    let dropped = dropped.filter(|_| !plant!("db: the end of a tree is not marked"));
    let entries = dropped.filter_map(|tree| shared.catalog.by_id(tree));
    let is_index = |entry: &TreeEntry| entry.name().contains('/');
    let marked = |entry: &Arc<TreeEntry>| {
        !(plant!("db: the end of an index is not marked") && is_index(entry))
    };
    entries.filter(marked).collect()
}
