//! Holds, each of which keeps a blob's extent allocated while something in memory may still return
//! its reference.

use crate::{
    store::{Extent, Store},
    sync::{Arc, AtomicBool, Ordering},
};

/// Keeps the extent of one blob while it exists: batches, memtables and tree jobs have one for each
/// blob whose reference they contain.
#[derive(Debug)]
pub struct BlobHold {
    store: Arc<Store>,
    extent: Extent,
    synced: AtomicBool,
}

impl BlobHold {
    /// Holds an allocated extent: one that was just allocated, or one that the log names.
    pub fn new(store: &Arc<Store>, extent: Extent) -> Arc<Self> {
        store.space().hold(extent.offset);
        Arc::new(Self { store: store.clone(), extent, synced: AtomicBool::new(false) })
    }

    /// Holds an extent that an old log record names, if a blob is still there: see
    /// [`hold_written`](crate::store::Space::hold_written).
    pub fn if_written(store: &Arc<Store>, extent: Extent) -> Option<Arc<Self>> {
        let held = store.space().hold_written(extent);
        held.then(|| Arc::new(Self { store: store.clone(), extent, synced: AtomicBool::new(true) }))
    }

    /// The extent.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// True once a sync that started after the blob was written has ended.
    pub fn is_synced(&self) -> bool {
        // Relaxed, as in `set_synced`: nothing but the flag itself is read after it.
        self.synced.load(Ordering::Relaxed)
    }

    /// Records that a sync that started after the blob was written has ended.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }
}

impl Drop for BlobHold {
    fn drop(&mut self) {
        self.store.space().release_hold(self.extent.offset);
    }
}
