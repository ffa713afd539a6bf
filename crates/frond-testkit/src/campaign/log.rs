//! One hot row: commits that fill the log and not the memtable. The log that recovery may have to
//! replay stays bounded nevertheless (P5, I13), although no background threads run, and only the
//! commits themselves do background work.

use std::path::Path;

use frond::{Db, Durability, Options, internals::Limits};

use super::guarded;
use crate::{
    DbEngine,
    db_engine::DIR,
    disk::{DiskState, SimVfs},
    drive::{Failure, fail},
};

const VALUE_BYTES: u64 = 300;
const MEMTABLE_LOG_BYTES: u64 = 32 << 10;
const CHECKPOINT_LOG_BYTES: u64 = 256 << 10;
/// What a commit may add after it was admitted, plus the padding of groups.
const SLACK_BYTES: u64 = 64 << 10;

/// Segments of two openings, and those that are ready or in reserve.
const SEGMENTS_MAX: usize = 8;

/// Commits one row again and again, then kills the process and opens the store.
pub fn bound_the_log(seed: u64) -> Result<(), Failure> {
    guarded(|| {
        let vfs = SimVfs::new();
        let db = Db::open(DIR, options(&vfs, seed))?;
        let tree = db.create_tree("t", Default::default())?;
        let mut value = vec![0; VALUE_BYTES as usize];
        for round in 0..2000u64 {
            value[..8].copy_from_slice(&round.to_be_bytes());
            tree.put(b"hot", &value)?;
            let stats = db.stats();
            let number = |name| stats.get(name).unwrap_or(u64::MAX);
            let kept = number("log_kept_bytes");
            if kept > 2 * CHECKPOINT_LOG_BYTES + SLACK_BYTES {
                return fail(format!("I13: {kept} bytes of log are kept after {round} commits"));
            }
            let in_memory = number("seqno_visible") - number("seqno_applied");
            if in_memory * log_bytes(seed) > 2 * MEMTABLE_LOG_BYTES + SLACK_BYTES {
                return fail(format!("I13: memtables hold {in_memory} commits"));
            }
        }
        let again = SimVfs::start(vfs.disk().after_kill());
        let db = Db::open(DIR, options(&again, seed))?;
        let found = db.open_tree("t")?.get(b"hot")?;
        if found != Some(value) {
            return fail("the last commit is lost");
        }
        db.close()?;
        kill_after_each_opening(again.disk(), seed)
    })
}

/// Checks that a store that is killed soon after each opening does not keep more log each time.
fn kill_after_each_opening(mut disk: DiskState, seed: u64) -> Result<(), Failure> {
    for opening in 0..3 * SEGMENTS_MAX {
        let vfs = SimVfs::start(disk);
        let db = Db::open(DIR, options(&vfs, seed))?;
        db.open_tree("t")?.put(b"hot", &opening.to_be_bytes())?;
        vfs.halt();
        drop(db);
        disk = vfs.disk().after_kill();
        let is_log = |path: &Path| path.to_string_lossy().contains("/log-");
        let segments = disk.paths().iter().filter(|(path, _)| is_log(path)).count();
        if segments > SEGMENTS_MAX {
            return fail(format!("P5: {segments} segments after {opening} openings and kills"));
        }
    }
    Ok(())
}

/// Minimum log space of a commit: at level sync each has a group of its own, at level os they share
/// pages.
fn log_bytes(seed: u64) -> u64 {
    if level(seed) == Durability::Sync { 4096 } else { VALUE_BYTES }
}

fn level(seed: u64) -> Durability {
    if seed.is_multiple_of(2) { Durability::Sync } else { Durability::Os }
}

fn options(vfs: &SimVfs, seed: u64) -> Options {
    let mut engine = DbEngine::tiny(level(seed));
    engine.tuning.limits = Some(Limits {
        memtable_bytes: 64 << 20,
        memtable_log_bytes: MEMTABLE_LOG_BYTES,
        unwritten_bytes: 1 << 20,
        footers_bytes: 1 << 20,
        checkpoint_log_bytes: CHECKPOINT_LOG_BYTES,
        checkpoint_millis: u64::MAX,
        mini_run_entries: usize::MAX,
        own_writes_bytes: u64::MAX,
    });
    let DbEngine { cache_bytes, level, tuning, .. } = engine;
    Options::new().cache_size(cache_bytes).durability(level).tuning(tuning).env(vfs.env(seed))
}
