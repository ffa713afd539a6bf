//! Planted bugs: one-line defects that a test build can switch on, to prove that the tests see them.
//!
//! `if plant!("wal: acknowledge before the sync") { … }` is the constant `false` unless the cargo
//! feature `planted-bugs` is on; then it asks whether the running test armed that bug. A test that
//! has never failed is not trusted: `tests/planted.rs` arms each bug of [`BUGS`] in turn and demands
//! that a campaign notices.
//!
//! Invariants
//! 1. A name that is planted stands in [`BUGS`], and each name of [`BUGS`] is planted somewhere
//!    (`tests/planted.rs` reads the sources).
//! 2. Without the feature nothing is compiled in: the macro is a constant.
//!
//! Threads: arming is per thread, so that tests may run side by side; it reaches the engine when its
//! workers are manual. A process of real threads is armed as a whole by the variable `FROND_PLANT`.

/// True if this bug is armed. The constant `false` in every normal build.
#[allow(unused_macros)] // until the first room plants one
macro_rules! plant {
    ($name:literal) => {
        $crate::plant::armed($name)
    };
}
#[allow(unused_imports)] // until the first room plants one
pub(crate) use plant;

/// A bug that can be armed.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// "room: what goes wrong".
    pub name: &'static str,
    /// Where it is planted.
    pub place: &'static str,
    /// The campaign that claims to catch it.
    pub caught_by: &'static str,
}

const fn bug(name: &'static str, place: &'static str, caught_by: &'static str) -> Bug {
    Bug { name, place, caught_by }
}

/// All planted bugs.
pub const BUGS: &[Bug] = &[
    bug("wal: acknowledge before the sync", "Log::wait, level sync", "crash"),
    bug("wal: skip the sync", "the leader's fdatasync", "crash"),
    bug(
        "wal: sample the covered position after the sync",
        "the leader, `durable` after sync",
        "crash",
    ),
    bug("wal: no directory sync for a new segment", "creating a segment", "crash"),
    bug("wal: no salt", "segment header, group seed", "crash"),
    bug("wal: chain not checked", "recover, predecessor checksum", "crash"),
    bug("wal: stop silently at damage", "recover, witness search", "corruption"),
    bug("wal: read error is the end of the log", "recover, EIO", "faults"),
    bug("wal: append behind the torn tail", "Log::resume", "crash"),
    bug("wal: retry a failed sync", "the leader, after an error", "faults"),
    bug("wal: a failed write does not poison", "the leader, pwrite error", "faults"),
    bug("wal: trim one segment early", "Log::trim", "crash"),
    bug("wal: a record exists without its last fragment", "recover, fragments", "crash"),
    bug("store: superblock before the pages are synced", "publish_slot, first sync", "crash"),
    bug("store: slot not synced", "publish_slot, second sync", "crash"),
    bug("store: always the same slot", "publish_slot, parity", "crash"),
    bug("store: reuse extents one checkpoint early", "Space release", "crash"),
    bug("store: identity not mixed in", "page_hash", "corruption"),
    bug("store: checksum not verified", "read_page", "corruption"),
    bug("store: parent hash not compared", "reading through a Link", "corruption"),
    bug("store: a freed extent is kept", "Space::free", "check"),
    bug("store: slot of higher sequence ignored", "open, choice of slot", "crash"),
    bug("run: block checksum not verified", "decoding a block from disk", "corruption"),
    bug("run: filter says no to a key it has", "may_contain", "model"),
    bug("run: merge takes the older of two", "MergeCursor tie", "model"),
    bug("run: fresh bit survives an absorbed delete", "fold", "model"),
    bug("run: range delete does not hide older puts", "fold, range deletes", "model"),
    bug("memtable: newest version by arrival", "insert into a version chain", "model"),
    bug("memtable: range delete hides newer puts", "get, covering range", "model"),
    bug("tree: pivot off by one", "choosing the child of a key", "model"),
    bug("tree: drop a message at a split", "leaf or node split", "model"),
    bug("tree: flush a newer run past an older one", "apply, large part straight down", "model"),
    bug("tree: tombstone dropped above older data", "merge in an inner node", "model"),
    bug("pipeline: checkpoint without syncing the log", "checkpoint, log sync through F", "crash"),
    bug("pipeline: log position before the boundary is dropped", "checkpoint, log_from", "crash"),
    bug("pipeline: replay what a tree already holds", "recovery, F", "crash"),
    bug("pipeline: snapshot not pinned", "collecting versions", "model"),
    bug("blob: record before the blob is synced", "Engine::sync_blobs", "crash"),
    bug("blob: recovery does not claim what the log names", "open, first pass", "crash"),
    bug("blob: the log does not keep what it names", "commit, keep_blobs", "crash"),
    bug("blob: the memtable does not hold what it hands out", "commit, keep_blobs", "model"),
    bug("blob: runs that list a blob are not counted", "checkpoint, count_blobs", "model"),
    bug("blob: the last run does not let go of its blobs", "checkpoint, count_blobs", "model"),
    bug("db: insert does not look into the tree", "unique check of insert", "model"),
    bug("db: recovery ends without a checkpoint", "open after a crash", "crash"),
    bug("db: clean mark set although work failed", "close after an error", "faults"),
    bug("db: rename forgets the old name", "rename_tree", "model"),
];

/// Never: this build has no planted bugs.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn armed(_name: &str) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
pub use on::{arm, armed, met};

#[cfg(feature = "planted-bugs")]
mod on {
    use std::cell::Cell;

    use super::BUGS;
    use crate::sync::OnceLock;

    thread_local! {
        static ARMED: Cell<Option<&'static str>> = const { Cell::new(None) };
        static MET: Cell<u64> = const { Cell::new(0) };
    }
    static ARMED_PROCESS: OnceLock<Option<String>> = OnceLock::new();

    /// Arms one bug in this thread, or none.
    pub fn arm(name: Option<&'static str>) {
        ARMED.set(name);
        MET.set(0);
    }

    /// How often this thread has come by the bug it armed.
    pub fn met() -> u64 {
        MET.get()
    }

    /// True if this bug is armed in this thread or this process.
    pub fn armed(name: &str) -> bool {
        assert!(BUGS.iter().any(|bug| bug.name == name), "planted, but not in BUGS: {name}");
        let process = ARMED_PROCESS.get_or_init(|| std::env::var("FROND_PLANT").ok());
        let hit = ARMED.get() == Some(name) || process.as_deref() == Some(name);
        if hit {
            MET.set(MET.get() + 1);
        }
        hit
    }
}
