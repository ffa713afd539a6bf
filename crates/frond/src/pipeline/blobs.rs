//! Syncs blobs before the log can name them.
//!
//! Invariant: no record that names a blob reaches the disk before the blob does, whatever the
//! commit's durability level, because the kernel may write the log at any time.
//!
//! Threads: committers. One sync serves all commits whose blobs were written when it started.

use crate::{
    Result,
    blob::BlobHold,
    sync::{Arc, AtomicU64, Mutex, Ordering},
};

use super::Engine;

/// Sync requests made and served.
#[derive(Debug, Default)]
pub(crate) struct BlobSync {
    asked: AtomicU64,
    /// All requests up to this one are served. Locked during the sync.
    served: Mutex<u64>,
    /// Bytes of blobs committed since the last checkpoint started. The space of the values that
    /// they replace is free only after two more checkpoints.
    pub bytes_since_checkpoint: AtomicU64,
}

impl Engine {
    /// Makes blobs durable that have already been written.
    pub fn sync_blobs(&self, blobs: &[Arc<BlobHold>]) -> Result<()> {
        if blobs.iter().all(|blob| blob.is_synced()) {
            return Ok(());
        }
        let request = self.blob_sync.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let mut served = self.blob_sync.served.lock().unwrap();
        if *served < request {
            // All requests made so far are of blobs that are already written.
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
