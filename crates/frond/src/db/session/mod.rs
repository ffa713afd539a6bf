//! Transactions: several calls that take effect as one change, isolated from others. This module
//! has the calls of a session; the mechanism (lock table, gate, write sets) is in module `txn`.
//!
//! Writes are private until the commit ([`TxnWrites`](crate::txn::TxnWrites)) and lock their rows
//! when they are made ([`LockTable`](crate::txn::lock_table::LockTable)). Reads see a snapshot,
//! overlaid with the transaction's own writes. The commit is that of a batch whose locks are
//! already held.
//!
//! | file | what it does |
//! |---|---|
//! | `options.rs` | isolation levels and lock waits |
//! | `read.rs` | plain and locking reads of one row |
//! | `read_as.rs` | reads with all options |
//! | `read_many.rs` | reads of many rows in one call |
//! | `estimate.rs` | estimates of a range's size |
//! | `count.rs` | counts of a range's rows |
//! | `write.rs` | put, insert, delete, merge |
//! | `autonomous.rs` | puts that are commits of their own |
//! | `delete_range.rs` | deletes of all rows in a range |
//! | `queued.rs` | queue entries for index builds |
//! | `row.rs` | rows with all their index entries |
//! | `new_row/mod.rs` | new rows inserted in one step, if nothing conflicts |
//! | `tree_lock.rs` | locks on whole trees |
//! | `locking_scan/mod.rs` | scans that lock rows and gaps |
//! | `cursor/mod.rs` | scans over committed rows and own writes |
//! | `write_buffer/` | uncommitted writes, in memory and spilled, without locks and snapshots |
//! | `temporary/` | temporary trees of a session |
//! | `spill.rs` | spills of a transaction: their locks, their commit |
//! | `end.rs` | commit, rollback |
//! | `savepoint.rs` | savepoints: partial rollback |
//! | `statement.rs` | statements of a server |
//! | `control.rs` | what a server observes and controls of a transaction |
//! | `interrupt.rs` | cancellation from another thread |
//! | `live_txns.rs` | lists holders of locks and of snapshots |
//! | `lock_report.rs` | lists held locks |
//! | `pool.rs` | memory of ended transactions, for new ones |
//! | `prepare.rs` | prepare, the first of two phases |
//! | `prepared/` | prepared transactions, by name, until they are decided (XA) |
//! | `transact.rs` | a closure in a transaction, retried on conflict |
//!
//! Invariants
//! 1. A row is written only under its lock. A transaction at `Snapshot` that has a snapshot writes
//!    a row only if no other transaction has committed the row since that snapshot (Rule: I27),
//!    which is checked under the lock, after every wait.
//! 2. Reads on which a transaction bases a decision, that is, locking reads and an insert's check,
//!    see the latest version under the row's lock (Rule: I3).
//! 3. Locks are released, and the gate is opened, once the commit is visible or the rollback is
//!    done.
//!
//! Threads: a transaction is used by one thread at a time; concurrent calls wait for each other,
//! and for the end of a row call.

// The documentation shows the calls of a type in the order of modules: first the most used.
mod transact;

mod read;
mod write;

mod cursor;
mod delete_range;
mod end;

mod autonomous;
#[cfg(all(test, not(shuttle)))]
mod conflicts;
mod control;
mod count;
mod estimate;
mod interrupt;
mod live_txns;
mod lock_report;
mod locking_scan;
mod new_row;
mod options;
#[cfg(all(test, not(shuttle)))]
mod pieces;
mod pool;
mod prepare;
pub(super) mod prepared;
#[cfg(all(test, not(shuttle)))]
mod put_again;
mod queued;
mod read_as;
mod read_many;
mod row;
mod savepoint;
mod spill;
mod statement;
mod temporary;
#[cfg(all(test, not(shuttle)))]
mod timeouts;
mod tree_lock;
mod write_buffer;

use std::{cell::OnceCell, time::Duration};

use crate::{
    Error, Result, TreeId,
    catalog::TreeEntry,
    db::{Db, Tree, striped_handle::StripedHandle},
    error::LockHolder,
    key_range::check_key,
    pipeline::Paced,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    txn::lock_table::{
        Deadlock, LockError, LockSet, LockStats, LockWait, Owner, Reason, RowMode, TableMode, Taken,
    },
    version::SnapshotState,
};

pub use control::TxnControl;
pub use cursor::TxnCursor;
pub use interrupt::Interrupter;
use options::Meeting;
pub use options::{IfLocked, Isolation, RowLock, TxnOptions};
use pool::Spare;
pub(super) use pool::TxnPool;
pub(super) use prepared::PreparedTable;
pub use prepared::{PreparedInfo, PreparedTxn};
pub use read_as::{ReadOptions, RowRead, Sees};
pub use read_many::ManyRows;
pub(crate) use row::RowCall;
use row::RowCalls;
pub use row::{RowChange, RowConflict, RowEntry, RowWriter};
pub use savepoint::Savepoint;
pub(super) use spill::rows_beyond_memory;
pub use statement::Statement;
use temporary::TemporaryUse;
pub use temporary::{TemporaryCursor, TemporaryEntry, TemporaryTree};
pub use tree_lock::TreeLock;
use write_buffer::{BufferState, WriteBuffer};

/// A transaction.
///
/// Ends with [`commit`](Self::commit) or [`rollback`](Self::rollback); dropping it rolls it back,
/// and so does [`Db::close`], after which its calls fail with [`Error::Closed`]. A call that fails
/// leaves the transaction as it was before the call, with the locks that it had.
/// [`Error::Deadlock`] and [`Error::Conflict`] end it at once, as does an error that prevents a
/// large one from being spilled ([`Error::Full`], an I/O error): it is rolled back, and its other
/// calls fail with [`Error::TxnEnded`].
///
/// The calls that only a SQL engine or another server needs are behind
/// [`statement`](Self::statement), [`row_writer`](Self::row_writer) and [`control`](Self::control).
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
/// let accounts = db.create_tree("accounts", Default::default())?;
/// accounts.put(b"ada", &100u64.to_be_bytes())?;
/// accounts.put(b"bob", &0u64.to_be_bytes())?;
///
/// let txn = db.begin(Default::default())?;
/// for (name, change) in [(b"ada", -30i64), (b"bob", 30)] {
///     let value = txn.get_for_update(&accounts, name)?.expect("an account");
///     let balance = u64::from_be_bytes(value.try_into().expect("eight bytes"));
///     let balance = balance.checked_add_signed(change).expect("enough");
///     txn.put(&accounts, name, &balance.to_be_bytes())?;
/// }
/// txn.commit()?;
/// assert_eq!(accounts.get(b"bob")?, Some(30u64.to_be_bytes().to_vec()));
/// # db.close()
/// # }
/// ```
#[must_use = "a transaction that is dropped is rolled back: keep it, and call `commit`"]
pub struct Txn {
    shared: Arc<StripedHandle>,
    options: TxnOptions,
    buffer: WriteBuffer,
    state: Mutex<State>,
    /// Signalled when row calls have ended and another thread waits for that.
    row_calls_over: Condvar,
}

short_debug!(Txn, "Txn", |txn| txn.id());

/// The state, which one call at a time uses.
#[derive(Debug, Default)]
struct State {
    /// Set from the first lock on; the gate is closed while it is set.
    locks: Option<LockSet>,
    /// Set from the first plain read on, at the levels that keep a snapshot; at `ReadCommitted`
    /// until the end of the statement.
    snapshot: Option<Arc<SnapshotState>>,
    /// Trees that list the transaction as a writer.
    entered: Vec<Arc<TreeEntry>>,
    is_over: bool,
    /// The error that ended it before its program did, except for deadlocks and conflicts.
    ended_by: Option<Box<Error>>,
    /// How long a call waits for locks, all of them together; `None` means no limit.
    lock_timeout: Option<Duration>,
    /// Whether it was paced before its first lock.
    is_paced: bool,
    /// The owner that interrupts reach while it has no locks, set by [`TxnControl::interrupter`].
    owner: Option<Arc<Owner>>,
    /// The result of the last locking read.
    seen: Seen,
    /// Whether a write may have locked a row without writing it: it found that the row exists,
    /// failed, or was undone with its call.
    locks_unwritten: bool,
    /// How much it has written, and where it may roll back to.
    buffer: BufferState,
    row_calls: RowCalls,
    /// Temporary trees that it has written.
    temporary: Vec<TemporaryUse>,
    /// Memory of earlier transactions, for reuse.
    spare: Spare,
}

/// Whether a certain locked row exists.
#[derive(Debug, Default)]
struct Seen {
    /// Tree 0 means no row.
    tree: TreeId,
    key: Vec<u8>,
    is_there: bool,
}

impl Seen {
    fn note(&mut self, tree: TreeId, key: &[u8], is_there: bool) {
        (self.tree, self.is_there) = (tree, is_there);
        self.key.clear();
        self.key.extend_from_slice(key);
    }

    fn forget(&mut self) {
        self.tree = TreeId(0);
    }
}

impl Db {
    /// Calls that currently wait for a lock, longest first: the waiter, the holder, and the lock,
    /// with the start of the key.
    pub fn lock_waits(&self) -> Vec<LockWait> {
        let mut waits = self.shared.locking.table.waits();
        waits.iter_mut().for_each(|wait| wait.tree_name = self.shared.tree_name(wait.tree));
        waits
    }

    /// Number of locks, and counts of how waits ended.
    pub fn lock_stats(&self) -> LockStats {
        self.shared.locking.table.stats()
    }

    /// The last deadlock cycle that was resolved; its `Display` describes it in words, with the
    /// starts of keys.
    pub fn last_deadlock(&self) -> Option<Arc<Deadlock>> {
        let mut last = Deadlock::clone(&*self.shared.locking.table.last_deadlock()?);
        for party in &mut last.parties {
            party.tree_name = self.shared.tree_name(party.tree);
        }
        Some(Arc::new(last))
    }
}

impl Txn {
    /// Locks the state for a call on a key of a tree.
    fn enter(&self, tree: &Tree, key: &[u8]) -> Result<MutexGuard<'_, State>> {
        check_key(key)?;
        self.enter_tree(tree)
    }

    /// Fails unless the tree exists and belongs to the transaction's store.
    fn check_tree(&self, tree: &Tree) -> Result<()> {
        tree.entry.check()?;
        if !Arc::ptr_eq(&tree.shared, &self.shared) {
            let why = format!("tree \"{}\" is of another store than the transaction", tree.name());
            return Err(Error::InvalidArgument(why));
        }
        Ok(())
    }

    fn enter_tree(&self, tree: &Tree) -> Result<MutexGuard<'_, State>> {
        self.check_tree(tree)?;
        self.shared.engine.health.check()?;
        let mut state = self.go_on()?;
        state.begin_call();
        Ok(state)
    }

    /// Locks a row, after taking the intent on its tree.
    fn lock_row(
        &self,
        state: &mut State,
        (tree, key): (TreeId, &[u8]),
        mode: RowMode,
        meeting: Meeting,
    ) -> Result<Taken> {
        self.intend(state, tree, mode, meeting)?;
        let wait_policy = state.wait_policy(meeting);
        let locks = state.locks.as_mut().expect("there since the intent");
        let taken = self.shared.locking.table.lock_row(locks, tree, key, mode, wait_policy);
        taken.map_err(|denied| self.denied(state, denied))
    }

    /// Takes the intent on a tree to lock rows of it. The first intent closes the gate.
    fn intend(
        &self,
        state: &mut State,
        tree: TreeId,
        mode: RowMode,
        meeting: Meeting,
    ) -> Result<()> {
        if self.options.read_only {
            return Err(Error::InvalidArgument(
                "a read-only transaction cannot lock rows or trees".into(),
            ));
        }
        let intent = match mode {
            RowMode::Shared => TableMode::IntentShared,
            RowMode::Exclusive | RowMode::Write => TableMode::IntentExclusive,
        };
        self.take_tree(state, tree, (intent, mode), meeting)
    }

    /// Locks a tree, or takes an intent on it, for reading or for writing.
    fn take_tree(
        &self,
        state: &mut State,
        tree: TreeId,
        (lock, mode): (TableMode, RowMode),
        meeting: Meeting,
    ) -> Result<()> {
        let (table, wait_policy) = (&self.shared.locking.table, state.wait_policy(meeting));
        if state.locks.is_none() {
            self.slow_down(state, mode, meeting.if_locked)?;
            // Batches that have passed the gate hold no locks, so they must be waited for.
            let waits_until = self.shut_gate(state, tree, state.wait(meeting))?;
            let mut locks = self.lock_set(state);
            table.begins(&locks);
            waits_until.inspect(|until| locks.wait_until(*until));
            state.locks = Some(locks);
        }
        let locks = state.locks.as_mut().expect("made above");
        let taken = table.lock_table(locks, tree, lock, wait_policy);
        taken.map(drop).map_err(|denied| self.denied(state, denied))
    }

    /// Paces the transaction before it holds rows that others wait for. A full disk is not an error
    /// here, because the commit reports that itself. Calls that lock without waiting are not paced.
    fn slow_down(&self, state: &mut State, mode: RowMode, wait: IfLocked) -> Result<()> {
        if mode == RowMode::Shared || wait != IfLocked::Wait {
            return Ok(());
        }
        let may_go = || state.check_interrupted();
        match self.shared.engine.pace(Paced::Deletes, &may_go) {
            Err(Error::Full(_)) => {}
            paced => paced?,
        }
        state.is_paced = true;
        Ok(())
    }

    /// Paces a call that writes and takes its first lock without waiting for a holder.
    fn slow_down_to_write(&self, state: &mut State) -> Result<()> {
        match state.locks {
            None => self.slow_down(state, RowMode::Write, IfLocked::Wait),
            Some(_) => Ok(()),
        }
    }

    /// How the transaction is paced when it commits.
    fn paced(&self, state: &State, deletes: bool) -> Paced {
        match (state.is_paced, deletes) {
            (true, deletes) => Paced::HoldsRows { deletes },
            (false, true) => Paced::Deletes,
            (false, false) => Paced::Free,
        }
    }

    /// An empty lock set owned by this transaction.
    fn lock_set(&self, state: &mut State) -> LockSet {
        let spare = state.spare.locks.take();
        let mut locks = spare.unwrap_or_else(|| self.shared.locking.table.begin(self.id()));
        locks.renew(self.id(), self.options.tag);
        locks
    }

    /// Closes the gate before the first lock, which waits for batches that took no locks. Returns
    /// the end of the call's wait time if it had to wait.
    fn shut_gate(
        &self,
        state: &State,
        tree: TreeId,
        wait: Option<Duration>,
    ) -> Result<Option<Duration>> {
        let clock = &self.shared.engine.env.clock;
        // The clock is read only if there is something to wait for.
        let until = OnceCell::new();
        let end = |time| *until.get_or_init(|| clock.now().saturating_add(time));
        let is_early = || wait.is_none_or(|time| clock.now() < end(time));
        if self.shared.locking.gate.close(|| is_early() && !state.is_interrupted()) {
            return Ok(until.get().copied());
        }
        state.check_interrupted()?;
        Err(Error::LockTimeout {
            tree: self.shared.tree_name(tree),
            what: "a row".into(),
            holder: LockHolder::Other("a batch that is being committed"),
            key: None,
        })
    }

    /// The error for a lock that was not granted. After a deadlock the transaction is over.
    fn denied(&self, state: &mut State, denied: LockError) -> Error {
        if denied.reason == Reason::Deadlock {
            self.end(state);
        }
        self.shared.lock_error(denied)
    }

    /// Fails, and ends the transaction, if another one has committed the row since its snapshot.
    /// Must be called under the row's lock (Rule: I27).
    fn must_not_conflict(&self, state: &mut State, tree: &Tree, key: &[u8]) -> Result<()> {
        if self.options.isolation != Isolation::Snapshot {
            return Ok(());
        }
        let Some(snapshot) = &state.snapshot else { return Ok(()) };
        if !self.shared.has_changed(snapshot, tree, key)?
            || plant!("txn: the second committer wins")
        {
            return Ok(());
        }
        self.end(state);
        Err(Error::Conflict { tree: tree.name(), key: key.to_vec() })
    }

    pub(crate) fn id(&self) -> u64 {
        self.buffer.live.number()
    }

    /// Number of entries that it would commit.
    pub(crate) fn len(&self) -> usize {
        self.buffer.live.lock().len()
    }

    /// True if it would commit nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
