//! Reads that are started together: blocks that many keys need and that are not in memory come by the store's
//! reader threads, so that the device has several to do at a time.
//!
//! Invariants
//! 1. What they bring comes into the block cache checked, as for any reader. Their errors are met again by
//!    the caller, which then reads the rows.
//! 2. A reader holds the version that the call reads while it reads, and not longer than that.
//! 3. Nobody waits for a read that no thread has begun: the caller does that itself.
//!
//! Threads: the caller's, and those of the readers.

use crate::{
    TreeId,
    pipeline::Engine,
    run::BULK_BYTES,
    sync::{Arc, Condvar, Mutex, Weak},
    tree::{Lacking, TreeContext},
    version::Version,
};

/// Reads that one call has under way: twice as many as there are readers would find nobody to begin them sooner.
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

/// Brings the blocks of leaves that these keys, which ascend, need, if there are several to read.
pub(super) fn bring_together(
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
        // Without a thread, or memory for what it brings, the caller reads as it goes.
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
    /// Reads the block, if nobody has begun to.
    fn begin(&self, cx: &TreeContext) {
        {
            let mut stage = self.stage.lock().unwrap();
            if *stage != Stage::Waiting {
                return;
            }
            *stage = Stage::Begun;
        }
        let _ending = Ending(self);
        // Nobody reads a version any more that is gone.
        let Some(_version) = self.version.upgrade() else { return };
        // Invariant 1.
        let Ok(run) = self.lacking.leaf.open(cx) else { return };
        let block = self.lacking.block.unwrap_or_else(|| run.block_for(&self.key));
        let wanted = run.wanted(block..block + 1, &*cx.cache);
        run.bring(wanted, &*cx.cache, |_, _, _| ());
    }

    fn wait(&self) {
        let mut stage = self.stage.lock().unwrap();
        while *stage != Stage::Ended {
            stage = self.ended.wait(stage).unwrap();
        }
    }
}

/// Says that a read has ended, whatever became of it.
struct Ending<'a>(&'a Read);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        *self.0.stage.lock().unwrap() = Stage::Ended;
        self.0.ended.notify_all();
    }
}
