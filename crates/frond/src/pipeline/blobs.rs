//! Syncing blobs before the commits that name them are in the log.
//!
//! Invariant: no record that names a blob can reach the disk before the blob is there, at any level of
//! durability: the kernel may write the log whenever it likes.
//!
//! Threads: committers. A sync serves all whose blobs were written when it began.

use crate::{
    Result,
    blob::BlobHold,
    sync::{Arc, AtomicU64, Mutex, Ordering},
};

use super::Engine;

/// Syncs asked for and done.
#[derive(Debug, Default)]
pub(crate) struct BlobSync {
    asked: AtomicU64,
    /// Every request up to this one is served. Held during the sync.
    served: Mutex<u64>,
}

impl Engine {
    /// Makes blobs durable; all of them are written.
    pub fn sync_blobs(&self, blobs: &[Arc<BlobHold>]) -> Result<()> {
        if blobs.iter().all(|blob| blob.is_synced()) {
            return Ok(());
        }
        let request = self.blob_sync.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.blob_sync.served.lock().unwrap();
        if *served < request {
            // Whoever asked by now has written before asking.
            let asked = self.blob_sync.asked.load(Ordering::SeqCst);
            if !plant!("blob: record before the blob is synced") {
                self.health.watch(self.store.sync())?;
            }
            *served = asked;
        }
        drop(served);
        blobs.iter().for_each(|blob| blob.set_synced());
        Ok(())
    }
}
