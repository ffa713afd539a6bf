//! Planted bugs (mutation testing): one-line defects that a test build can switch on, to prove that
//! the tests catch them.
//!
//! `if plant!("wal: acknowledge before the sync") { … }` is the constant `false` unless the cargo
//! feature `planted-bugs` is on; then it is true if the running test armed that bug. A test that
//! has never failed is not trusted: each bug of [`BUGS`] names the tests that claim to catch it,
//! those of a module or a campaign, and each claim is verified (`tests/planted.rs`, and the tests
//! named `planted…` of the modules).
//!
//! Invariants
//! 1. Each planted name is in [`BUGS`], each name of [`BUGS`] is planted somewhere, and each is
//!    claimed by tests that are run to verify it (`tests/planted.rs` reads the sources).
//! 2. Without the feature nothing is compiled in: the macro is a constant.
//!
//! Threads: a bug is armed for one thread, so that tests may run in parallel. The engine sees it if
//! its workers are manual; under the model checker all threads share one arming; threads that a
//! test starts can inherit it.

/// True if this bug is armed. The constant `false` in every normal build.
macro_rules! plant {
    ($name:literal) => {
        $crate::plant::armed($name)
    };
}
/// A bug that can be armed.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// "module: what goes wrong".
    pub name: &'static str,
    /// The code where it is planted.
    pub place: &'static str,
    /// The tests that claim to catch it: a module, a campaign, or the schedules that the model
    /// checker explores of a module.
    pub caught_by: &'static str,
}

const fn bug(name: &'static str, place: &'static str, caught_by: &'static str) -> Bug {
    Bug { name, place, caught_by }
}

/// All planted bugs.
pub const BUGS: &[Bug] = &[
    bug("wal: acknowledge before the sync", "Log::wait, level sync", "wal"),
    bug("wal: skip the sync", "the leader's fdatasync", "wal"),
    bug(
        "wal: sample the covered position after the sync",
        "the leader, `durable` after sync",
        "schedules of wal",
    ),
    bug("wal: an open group grows beyond its page", "Log::write_open", "wal"),
    bug("wal: no directory sync for a new segment", "creating a segment", "wal"),
    bug("wal: no salt", "segment header, group seed", "wal"),
    bug("wal: chain not checked", "recover, predecessor checksum", "wal"),
    bug("wal: stop silently at damage", "recover, witness search", "wal"),
    bug("wal: read error is the end of the log", "recover, EIO", "wal"),
    bug("wal: append after the torn tail", "Log::resume", "wal"),
    bug("wal: retry a failed sync", "the leader, after an error", "wal"),
    bug("wal: a failed write does not poison", "the leader, pwrite error", "wal"),
    bug("wal: trim one segment early", "Log::trim", "wal"),
    bug("wal: trim before the next segment is synced", "Log::trim", "wal"),
    bug("wal: spares given back leave a gap", "Log::remove_spares", "wal"),
    bug("wal: guaranteed space is given away", "Log::leaves_guaranteed, Log::kept_buffers", "wal"),
    bug("wal: bytes after the cut stay", "RecoveredTail::resume_in_place", "wal"),
    bug("wal: a recovery needs a new segment", "Log::resume", "wal"),
    bug("wal: deletes have no reserve", "LogUse::relief_if", "wal"),
    bug("wal: rows take the reserve", "Log::make_spare", "wal"),
    bug("wal: a log is not opened without its reserve", "relief::reserve_at_opening", "filled"),
    bug("wal: a lost log is a new one", "was_being_created", "scenarios"),
    bug("check: a log that moved on is damage", "LiveLog::check", "check"),
    bug("check: a log that grows has an end", "check_log", "check"),
    bug("store: a zone is encoded under another number", "encode_zone", "store"),
    bug("store: a space map's directory is encoded as a zone", "MapDirectory::encode", "store"),
    bug("store: a slot is encoded in a format to come", "Superblock::encode", "store"),
    bug("tree: the level of a node is not checked", "read_node", "tree"),
    bug("tree: a node is sealed at another level", "seal_node", "tree"),
    bug("db: a full disk fails a recovery", "recover, the checkpoint at its end", "filled"),
    bug("store: a full disk hides the reserve", "Store::find_reserve", "filled"),
    bug("pipeline: deletes do not wait for the log", "Engine::wait_for_log", "filled"),
    bug("pipeline: deletes take what is admitted", "Engine::admit_deletes", "emptied"),
    bug("wal: a record exists without its last fragment", "recover, fragments", "wal"),
    bug("store: superblock before the pages are synced", "publish, first sync", "crash"),
    bug("store: slot not synced", "publish, second sync", "crash"),
    bug("store: always the same slot", "write_slot", "crash"),
    bug("store: slot of higher sequence ignored", "open, choice of slot", "store"),
    bug("store: a slot that was passed over stays", "Store::begin_writing", "store"),
    bug(
        "store: a slot that was passed over is replaced without a sync",
        "Store::write_heir",
        "slot heals",
    ),
    bug("store: a sequence is issued twice", "Issued::heir_of", "store"),
    bug("store: an unreadable slot counts for nothing", "owner::sign", "store"),
    bug("store: reuse extents one checkpoint early", "slot_published", "store"),
    bug("store: a freed extent is kept", "Inner::free", "store"),
    bug("store: a part of a page is backed", "Ranges::insert", "store"),
    bug("store: identity not mixed in", "page_hash", "store"),
    bug("store: a dropped tree keeps its pages", "Inner::end_piece", "store"),
    bug("store: checksum not verified", "page::verify", "store"),
    bug("store: a failed write does not close the file", "Guard::guarded", "store"),
    bug("store: a failed write stops only the file", "Guard::fail", "store"),
    bug("store: the lock file is not locked", "open, lock", "store"),
    bug("store: replaced pages of the directory never die", "Store::write_directory", "store"),
    bug("store: a named pin keeps nothing", "Pins::keeper", "store"),
    bug("store: a named pin lets the pins of dropped clones go", "Pins::expire", "scenarios"),
    bug(
        "pipeline: a group of roots that changed is not written",
        "Engine::write_roots",
        "scenarios",
    ),
    bug("store: commits are admitted on a full disk", "Store::admit", "store"),
    bug("store: the root directory is written unread", "page_table::seal", "store"),
    bug("run: block checksum not verified", "decoding a block from disk", "run"),
    bug("run: a footer is written unread", "Run::write", "run"),
    bug("run: filter says no to a key it has", "Filter::may_contain", "model"),
    bug("run: merge takes the older of two", "MergeCursor::gather", "model"),
    bug("run: fresh bit survives an absorbed delete", "hides, in a fold", "run"),
    bug("run: range delete does not hide older puts", "MergeCursor::hide", "model"),
    bug("run: all runs share their cached blocks", "Run::block", "model"),
    bug(
        "memtable: the next key is looked for in the parent of the last",
        "Batch::after_last",
        "memtable",
    ),
    bug("memtable: newest version by arrival", "placing into a version chain", "memtable"),
    bug("memtable: merged levels forget older range deletes", "Level::merge", "memtable"),
    bug(
        "memtable: levels are merged by the stretches that are left",
        "TreeRanges::merge_levels",
        "memtable",
    ),
    bug("memtable: a helper adds range deletes again", "TreeRanges::add", "memtable"),
    bug("memtable: range delete hides newer puts", "Memtable::get", "model"),
    bug("txn: the first of two writes wins", "WriteSet::sort", "model"),
    bug("txn: visible before those below are inserted", "Sequencer::finish", "schedules of txn"),
    bug("txn: waiting threads do not help", "Sequencer::help", "schedules of txn"),
    bug("txn: helped before it is inserted", "Sequencer::help", "schedules of txn"),
    bug("locks: a transaction locks all that there is", "LockTable::must_have_room", "locks"),
    bug("locks: an insert passes by gaps", "LockTable::before_insert", "locks"),
    bug("locks: an owner that does not wait is in a cycle", "LockTable::must_have_time", "locks"),
    bug(
        "locks: an insert that looks is not counted",
        "LockTable::are_gaps_against",
        "schedules of locks",
    ),
    bug("locks: the killed stay in the queue", "LockTable::sleep_until", "locks"),
    bug("locks: an upgrade queues after others", "Queue::enqueue", "locks"),
    bug("locks: a release wakes no waiter", "Shard::grant_waiting", "locks"),
    bug("locks: cycles are not searched", "LockTable::end_cycles", "locks"),
    bug("locks: intents of before are not asked for", "LockTable::lock_table", "locks"),
    bug("locks: a cursor that goes back locks nothing", "LockTable::grow_down", "locks"),
    bug("locks: what cannot be read is one's own", "LockTable::is_spilled_own", "locks"),
    bug(
        "locks: a refusal is not looked at again",
        "LockTable::wait_for_lock",
        "schedules of locks",
    ),
    bug("locks: a sleeper is not announced", "LockTable::sleep", "schedules of locks"),
    bug("locks: what was newly taken stays", "LockTable::unlock_behind", "locks"),
    bug("locks: rows that left memory are in no filter", "LockTable::spill", "locks"),
    bug("locks: a wait that failed keeps the row", "LockTable::lock_unwritten", "locks"),
    bug("locks: a wait outlasts its time", "LockTable::deadline", "locks"),
    bug("locks: a cancelled sleeper is not woken", "Sleepers::wake", "schedules of locks"),
    bug("locks: a close wakes no waiter", "LockTable::close", "schedules of locks"),
    bug("txn: batches pass a closed gate", "LockGate::pass", "schedules of txn"),
    bug("txn: a commit is not noted at its trees", "Sequencer::assign", "scenarios"),
    bug("txn: the second committer wins", "Txn::must_not_conflict", "scenarios"),
    bug("txn: rows of trees have never changed", "Shared::has_changed", "scenarios"),
    bug("txn: a new row asks for the gap of its first entry", "Txn::insert_locked", "new rows"),
    bug(
        "txn: a new row is not listed at indexes that are not unique",
        "Txn::insert_locked",
        "new rows",
    ),
    bug("txn: an autonomous put passes pending writes", "Txn::put_locked", "scenarios"),
    bug("txn: a conflict is looked for before the lock", "Txn::write, Txn::look", "conflicts"),
    bug("txn: the gap after the last row is not locked", "LockingScan::step", "scenarios"),
    bug(
        "txn: a locking scan stays below the own row that it hands out",
        "LockingScan::step",
        "scenarios",
    ),
    bug("txn: a scan that is placed again meets its row again", "write_buffer::above", "scenarios"),
    bug("db: a piece begins with the row before it", "Cursor::fetch_anew", "scenarios"),
    bug("txn: a scan does not miss what has gone", "LockingScan::nothing_has_gone", "transactions"),
    bug(
        "txn: a statement starts after the writes that it must undo",
        "WriteBuffer::rollback_to_savepoint",
        "transactions",
    ),
    bug("txn: a prepare releases its write locks", "release_at_prepare", "transactions"),
    bug("txn: a prepare keeps rows that it does not write", "Txn::prepare_writes", "prepared"),
    bug("txn: a prepare forgets rows written again", "SpilledRows::holds", "prepared"),
    bug("txn: a rollback keeps the index", "Chains::pop", "txn writes"),
    bug("txn: a rollback keeps the count of rows", "TxnWrites::undo_entry", "txn writes"),
    bug("txn: a rollback keeps the view", "TreeWrites::forget", "txn writes"),
    bug("txn: a view is made and not fed", "TreeWrites::note", "txn writes"),
    bug("txn: a scan sees past its mark", "TxnWrites::messages_at", "txn writes"),
    bug("txn: a scan hands out what its statement deleted", "TxnWrites::messages_at", "txn writes"),
    bug("txn: a range delete hides what came after it", "TxnWrites::newest_range", "txn writes"),
    bug("txn: every insert is fresh", "TxnWrites::append", "txn writes"),
    bug("txn: nothing is pending in a set on its way", "TxnWrites::first_key", "txn writes"),
    bug("txn: some writers are not asked", "TreeWriters::others", "txn writes"),
    bug("tree: pivot off by one", "TreeRoot::get", "model"),
    bug(
        "tree: a range delete is not clipped where a part ends",
        "SliceWriter::cut_if_full",
        "tree",
    ),
    bug(
        "tree: a part loses the range delete that goes on in it",
        "SliceWriter::cut_if_full",
        "tree",
    ),
    bug("tree: range deletes are no bytes of a run", "RunBuilder::bytes_so_far", "tree"),
    bug("tree: drop a message at a split", "Node::split_off", "model"),
    bug("tree: flush a newer run past an older one", "Job::push_child", "model"),
    bug("tree: tombstone dropped above older data", "Job::merge_window", "model"),
    bug("tree: what was flushed waits again", "Job::put_leaves", "model"),
    bug("tree: the maximum forgets what was there", "Job::apply", "model"),
    bug("tree: no maximum is taken for no keys", "max_of", "scenarios"),
    bug("tree: damage ends the job", "Job::contained, Job::apply", "pages"),
    bug("tree: work given up leaves its effects", "Effects::rewind", "pages"),
    bug("tree: what is damaged is tried no more", "Damage::probe", "pages"),
    bug("tree: a drain passes what is stuck above it", "Job::drain_node", "pages"),
    bug("tree: a drain keeps a node whose only child has gone", "Job::drain_node", "edges"),
    bug("tree: a drain keeps a node that has handed all down", "Job::drain_buffer", "edges"),
    bug("tree: settling keeps a node without children", "Job::settle", "edges"),
    bug("tree: a node is encoded a level too high", "encode_node", "edges"),
    bug("tree: a node is written unread", "seal_node", "tree"),
    bug("version: a snapshot reads past its version", "SnapshotState::version", "model"),
    bug("version: a snapshot pins the version after its own", "Versions::with_memtable", "model"),
    bug("version: a clone keeps nothing of its parent", "Branches::clone_tree", "model"),
    bug("version: a clone of a clone forgets the first parent", "Branches::pins_of", "scenarios"),
    bug("version: a dropped clone keeps its pins", "Branches::drop_tree", "scenarios"),
    bug("version: a name keeps nothing", "Branches::add_snapshot", "scenarios"),
    bug("pipeline: a spill takes later commits, too", "Engine::spill_version", "scenarios"),
    bug("pipeline: a spill's space is given back at once", "Engine::spill_version", "scenarios"),
    bug("pipeline: a spill releases long values", "Engine::spill_version", "scenarios"),
    bug("pipeline: a drain concurrent with an apply", "Engine::drain_some", "schedules of db"),
    bug("pipeline: checkpoint without syncing the log", "checkpoint, log sync through F", "crash"),
    bug("pipeline: log position before the boundary is dropped", "checkpoint, log_from", "crash"),
    bug("pipeline: replaced nodes never die", "take_effects", "model"),
    bug(
        "pipeline: a memtable is applied before its commits are in it",
        "apply_oldest",
        "schedules of db",
    ),
    bug("pipeline: the log of a memtable has no bound", "Engine::memtable_is_full", "log"),
    bug("pipeline: commits do not wait for a shorter log", "Engine::pace", "log"),
    bug("pipeline: a full disk ends the background", "Engine::with_room", "full"),
    bug("blob: record before the blob is synced", "Engine::sync_blobs", "crash"),
    bug("blob: recovery does not claim what the log names", "open, first pass", "crash"),
    bug("blob: the memtable does not hold what it hands out", "commit, keep_blobs", "model"),
    bug("blob: runs that list a blob are not counted", "checkpoint, count_blobs", "model"),
    bug("blob: the last run does not release its blobs", "checkpoint, count_blobs", "model"),
    bug("pipeline: extents in doubt are not named", "Engine::name_in_doubt", "scenarios"),
    bug("pipeline: runs in doubt are not named", "Engine::name_in_doubt", "scenarios"),
    bug("pipeline: what is committed is named no more", "InDoubt::commit", "prepared"),
    bug("db: runs of what is prepared are not held again", "recover::hold_runs", "scenarios"),
    bug("db: a name is prepared twice", "PreparedTable::reserve", "scenarios"),
    bug("db: what is prepared is listed twice", "PreparedTable::unlisted", "scenarios"),
    bug("db: counters are not logged with their commit", "build_record", "scenarios"),
    bug("db: prepared rows are not locked again", "Shared::lock_again", "scenarios"),
    bug("db: what is prepared has not all its locks again", "recover::read", "transactions"),
    bug("db: a rollback of what is prepared is forgotten", "take_pieces_away", "their crashes"),
    bug("backup: damage is copied", "Walk::run", "scenarios"),
    bug("backup: long values are left out", "Walk::run", "scenarios"),
    bug("backup: an increment begins one version late", "Walk::passes_by", "scenarios"),
    bug("load: record before the pages are synced", "Shared::publish_loads", "crash"),
    bug("load: recovery does not claim what the log names", "open, first pass", "crash"),
    bug("load: an empty tree is not checked again under its lock", "Db::keep_empty", "scenarios"),
    bug("load: counters of a tree that is filled begin again", "build_record", "scenarios"),
    bug(
        "db: a batch does not look whether its trees are there",
        "Shared::lock_checked",
        "scenarios",
    ),
    bug("txn: what leaves memory is not cut at marks", "TxnWrites::begin_spill", "scenarios"),
    bug("txn: pieces are merged over marks", "to_merge", "pieces"),
    bug("txn: spilled writes commit without locks", "Shared::log_commit", "transactions"),
    bug("txn: record before the spilled runs are synced", "Txn::spilled_change", "their crashes"),
    bug("txn: what leaves memory forgets what it hides", "Spiller::write_piece", "put again"),
    bug("txn: merged pieces forget what they hide", "Spiller::merge_run", "put again"),
    bug("txn: spilled rows have no owner", "LockTable::pass_spilled", "scenarios"),
    bug("backup: a tree that was loaded is passed by", "Walk::tree", "backup"),
    bug("table: a call goes by the definition it came with", "Table::write", "table"),
    bug("db: of a build's round, entries come before all have gone", "begin_round", "table"),
    bug("db: a build drops queues that are still written", "IndexBuild::turn", "table"),
    bug("db: writers of before a build are not waited for", "IndexBuild::snapshot", "table"),
    bug("db: an index begins with its load", "IndexBuild::publish", "table"),
    bug("db: trees of tables are written directly", "Tree::bypasses_table", "table"),
    bug(
        "layout: a row that is mapped keeps the version that it had",
        "RowVersions::map_from",
        "layout",
    ),
    bug("layout: a row of any version fits", "Side::is_of_version", "layout"),
    bug(
        "db: batches run concurrently with changes of trees",
        "Shared::close_gate",
        "schedules of trees",
    ),
    bug(
        "db: trees are given back before their change is made",
        "TreesChange::commit",
        "schedules of trees",
    ),
    bug("db: the end of a tree is not marked", "Shared::ending_trees", "ends of trees"),
    bug("db: the end of an index is not marked", "Shared::ending_trees", "ends of trees"),
    bug("db: a get does not ask whether its tree has ended", "Tree::view", "ends of trees"),
    bug("db: a scan does not ask whether its tree has ended", "Cursor::new", "ends of trees"),
    bug("db: a count does not ask whether its tree has ended", "Tree::row_count", "ends of trees"),
    bug("db: the end of a tree that is gone is not known", "Catalog::gone", "ends of trees"),
    bug("db: each tree of a change is a commit of its own", "CatalogChange::commit", "scenarios"),
    bug("db: swapped trees are as old as they were", "CatalogChange::swap", "scenarios"),
    bug("catalog: rename forgets the old name", "Catalog::show_tree", "model"),
    bug("db: a scan believes that a Put is fresh", "MemSource::fold_current", "scenarios"),
    bug("db: insert does not look", "unique check of insert", "model"),
    bug(
        "txn: a range delete hides the check of an insert before it",
        "WriteSet::resolve_inserts",
        "model",
    ),
    bug(
        "txn: an insert after a range delete of its batch asks the store",
        "WriteSet::resolve_inserts",
        "model",
    ),
    bug("db: a batch that ends a cycle of waits fails", "Shared::lock_batch", "scenarios"),
    bug("db: merge operators in use are not written down", "Shared::record_operators", "scenarios"),
    bug("db: range deletes are not logged", "build_record", "crash"),
    bug("db: replay what a tree already holds", "replay", "crash"),
    bug("bounds: the writer does not look", "Bound::admits", "limits"),
    bug("bounds: the map is not asked before the file grows", "Inner::file_end", "limits"),
    bug("db: recovery ends without a checkpoint", "Engine::end_replay", "log"),
    bug(
        "pipeline: a replay needs room for what a long value becomes",
        "apply_commits, frugal jobs",
        "occupied",
    ),
    bug("tree: a replay settles, or fails", "Job::apply", "occupied"),
    bug("pipeline: parts of a commit change places", "apply_commits", "occupied"),
    bug("db: a replay on a full disk ends where a branch begins", "Replay::record", "occupied"),
    bug("wal: what was recovered is not rewritten", "RecoveredTail::clear_way", "cached"),
];

/// Always false: this build has no planted bugs.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub const fn armed(_name: &str) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
pub use on::{arm, armed, met};

#[cfg(all(test, feature = "planted-bugs"))]
pub(crate) use on::assert_claims_hold;
#[cfg(all(test, not(shuttle), feature = "planted-bugs"))]
pub(crate) use on::inherit;

/// Does nothing: this build has no planted bugs.
#[cfg(all(test, not(shuttle), not(feature = "planted-bugs")))]
pub(crate) fn inherit() -> impl FnOnce() + Send {
    || {}
}

/// Bugs, each with the test that claims to catch it.
#[cfg(all(test, feature = "planted-bugs"))]
macro_rules! claims {
    ($($bug:literal => $($test:ident)::+,)+) => {
        &[$(($bug, stringify!($($test)::+), $($test)::+ as fn())),+]
    };
}

#[cfg(feature = "planted-bugs")]
mod on {
    use std::{
        cell::{Cell, RefCell},
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
    };

    use super::BUGS;

    thread_local! {
        static ARMED: Cell<Option<&'static str>> = const { Cell::new(None) };
        static MET: RefCell<Arc<AtomicU64>> = RefCell::default();
    }

    /// Arms one bug in this thread, or disarms with `None`.
    pub fn arm(name: Option<&'static str>) {
        ARMED.set(name);
        MET.take();
    }

    /// How often this thread, and threads that inherited from it, reached the armed bug.
    pub fn met() -> u64 {
        MET.with_borrow(|met| met.load(Ordering::Relaxed))
    }

    /// A function that arms the thread in which it is called as the current one is armed.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn inherit() -> impl FnOnce() + Send {
        let (armed, met) = (ARMED.get(), MET.with_borrow(Arc::clone));
        move || {
            ARMED.set(armed);
            MET.set(met);
        }
    }

    /// True if this bug is armed in this thread.
    pub fn armed(name: &str) -> bool {
        assert!(BUGS.iter().any(|bug| bug.name == name), "planted, but not in BUGS: {name}");
        let hit = ARMED.get() == Some(name);
        if hit {
            MET.with_borrow(|met| met.fetch_add(1, Ordering::Relaxed));
        }
        hit
    }

    /// Environment variable that names the bug a child process is to try.
    #[cfg(test)]
    const CHILD: &str = "FROND_PLANTED_BUG";

    /// How often a bug is tried under the model checker before it counts as not caught: schedules
    /// are drawn at random, and some bugs need a rare one.
    #[cfg(test)]
    const TRIES: usize = 5;

    /// What a process that runs the planted-bugs test does about one bug. Under the model checker
    /// each bug is tried in a child process: the panic of a failing schedule may unwind through a
    /// destructor that takes steps of the schedule; if another thread panics there, the process
    /// aborts.
    #[cfg(test)]
    enum Child {
        /// This process is the child that tries this bug.
        Is,
        /// This process is the child that tries another bug.
        IsNot,
        /// A child has tried it: how the test ended, and how often it reached the bug.
        Ended((Result<(), Box<dyn std::any::Any + Send>>, u64)),
        /// Try it in this process: it does not run under the model checker.
        None,
    }

    #[cfg(test)]
    fn in_child(bug: &str) -> Child {
        use std::{env, process::Command, thread};
        if let Ok(tried) = env::var(CHILD) {
            return if tried == bug { Child::Is } else { Child::IsNot };
        }
        // Each test runs in a thread that is named after it.
        let current = thread::current();
        let test = current.name().filter(|name| name.contains("::"));
        let (true, Some(test), Ok(program)) = (cfg!(shuttle), test, env::current_exe()) else {
            return Child::None;
        };
        let mut child = Command::new(program);
        child.args(["--exact", test, "--nocapture"]).env(CHILD, bug);
        let mut run = || child.output().expect("the program of this test");
        let mut output = run();
        for _ in 1..TRIES {
            if output.status.success() {
                output = run();
            }
        }
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        let met = printed.rsplit_once(&format!("{CHILD}: met ")).map(|(_, met)| met);
        let met = met.and_then(|met| met.split(' ').next()?.parse().ok());
        // A child that aborts prints no count; it must have reached the bug, since the test passes
        // without it.
        let met = met.unwrap_or(u64::from(!output.status.success()));
        let outcome = match output.status.success() {
            true => Ok(()),
            false => Err(Box::new(printed) as Box<dyn std::any::Any + Send>),
        };
        Child::Ended((outcome, met))
    }

    /// Arms each bug that `room` claims and asserts that the test which claims it fails.
    #[cfg(test)]
    pub(crate) fn assert_claims_hold(room: &str, claims: &[(&str, &str, fn())]) {
        use std::{panic, thread};
        // Failures are expected here, and no other tests run concurrently with the planted ones.
        panic::set_hook(Box::new(|_| {}));
        let mut wrong = Vec::new();
        for bug in BUGS.iter().filter(|bug| bug.caught_by == room) {
            let Some((_, name, test)) = claims.iter().find(|(claimed, ..)| *claimed == bug.name)
            else {
                wrong.push(format!("{}: no test of {room} claims it", bug.name));
                continue;
            };
            // In a thread of its own, because a failure within the model checker leaves
            // thread-local state behind.
            let run = || {
                arm(Some(bug.name));
                (panic::catch_unwind(test), met())
            };
            let in_process = || {
                let run = thread::scope(|scope| scope.spawn(run).join());
                run.expect("panics are caught")
            };
            let (outcome, met) = match in_child(bug.name) {
                Child::Is => {
                    let (outcome, met) = in_process();
                    println!("{CHILD}: met {met} times");
                    outcome.unwrap_or_else(|failure| panic::resume_unwind(failure));
                    return;
                }
                Child::IsNot => continue,
                Child::Ended(outcome) => outcome,
                Child::None => in_process(),
            };
            let caught = outcome.is_err();
            let name: String = name.split_whitespace().collect();
            println!("{:<60} {}", bug.name, if caught { &name } else { "NOT CAUGHT" });
            if !caught || met == 0 {
                let why = outcome.err().and_then(|why| why.downcast::<String>().ok());
                wrong.push(format!(
                    "{}: {name} met it {met} times, failed: {caught} {}",
                    bug.name,
                    why.unwrap_or_default()
                ));
            }
        }
        // The panic hook stays silent about this one, too.
        wrong.iter().for_each(|wrong| println!("{wrong}"));
        assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    }
}
