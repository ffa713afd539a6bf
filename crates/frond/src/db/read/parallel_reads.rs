//! Parallel reads for one call: blocks that many keys need and that are not in memory are read by
//! the store's reader threads, so that the device has several requests at a time.
//!
//! Invariants
//! 1. What the reader threads read enters the block cache checked, as for any reader. Their errors
//!    are dropped; the caller gets them when it reads the rows.
//! 2. A reader holds the version that the call reads while it reads, and no longer.
//! 3. The caller does not wait for a read that no thread has started: it does that read itself.
//!
//! Threads: the caller's, and the reader threads.

use crate::{
    TreeId,
    pipeline::Engine,
    run::BULK_BYTES,
    sync::{Arc, Condvar, Mutex, Weak},
    tree::{Lacking, TreeContext},
    version::Version,
};

/// Most reads that one call has in flight; with more, no thread would be free to start them sooner.
const TOGETHER_MAX: usize = 64;

struct Read {
    lacking: Lacking,
    key: Box<[u8]>,
    version: Weak<Version>,
    stage: Mutex<Stage>,
    ended: Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    Begun,
    Ended,
}

/// Reads the blocks of leaves that these keys need, if there are several to read. The keys ascend.
pub(in crate::db) fn load_leaf_blocks(
    engine: &Engine,
    version: &Arc<Version>,
    tree: TreeId,
    keys: &[&[u8]],
) {
    let Some(root) = version.roots.get(&tree).filter(|_| keys.len() > 1) else { return };
    let mut lacking = root.lacking(&engine.cx, keys);
    if lacking.len() < 2 {
        return;
    }
    lacking.truncate(TOGETHER_MAX);
    let mut reads = Vec::with_capacity(lacking.len());
    for lacking in lacking {
        // Without a thread, or memory for what it reads, the caller reads the blocks one by one.
        let Some(memory) = engine.readers.memory(BULK_BYTES as u64) else { break };
        let read = Arc::new(Read {
            key: keys[lacking.key].into(),
            lacking,
            version: Arc::downgrade(version),
            stage: Mutex::new(Stage::Waiting),
            ended: Condvar::new(),
        });
        reads.push(read.clone());
        let cx = engine.cx.clone();
        engine.readers.spawn(Box::new(move || {
            read.begin(&cx);
            drop(memory);
        }));
    }
    for read in &reads {
        read.begin(&engine.cx);
        read.wait();
    }
}

impl Read {
    /// Reads the block, unless a thread has started to.
    fn begin(&self, cx: &TreeContext) {
        {
            let mut stage = self.stage.lock().unwrap();
            if *stage != Stage::Waiting {
                return;
            }
            *stage = Stage::Begun;
        }
        let _ending = Ending(self);
        // A version that is gone has no readers.
        let Some(_version) = self.version.upgrade() else { return };
        // Errors are dropped (invariant 1).
        let Ok(run) = self.lacking.leaf.open(cx) else { return };
        let block = self.lacking.block.unwrap_or_else(|| run.block_for(&self.key));
        let wanted = run.wanted(block..block + 1, &*cx.cache);
        run.load_together(wanted, &*cx.cache, |_, _, _| ());
    }

    fn wait(&self) {
        let mut stage = self.stage.lock().unwrap();
        while *stage != Stage::Ended {
            stage = self.ended.wait(stage).unwrap();
        }
    }
}

/// Marks a read as ended when dropped, also during a panic.
struct Ending<'a>(&'a Read);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.stage.lock().unwrap() = Stage::Ended;
        self.0.ended.notify_all();
    }
}
