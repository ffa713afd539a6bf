//! Transactions: many calls that are one change, beside others.
//!
//! Writes are private until the commit ([`TxnWrites`](crate::txn::TxnWrites)) and lock their rows from the call on
//! ([`LockTable`](crate::txn::lock_table::LockTable)); reads see a snapshot, and the transaction's own writes over it.
//! The commit is that of a batch with its locks held already.
//!
//! | file | what it does |
//! |---|---|
//! | `options.rs` | levels and waits |
//! | `read.rs` | plain and locking reads of one row |
//! | `read_as.rs` | reads of rows with all that can be said of them |
//! | `estimate.rs` | about how much lies in a range |
//! | `count.rs` | how many rows a range has |
//! | `write.rs` | put, insert, delete, merge |
//! | `autonomous.rs` | a put that is a commit of its own |
//! | `delete_range.rs` | all rows of a range |
//! | `queued.rs` | word for builds of indexes |
//! | `row.rs` | a row with all its entries |
//! | `new_row.rs` | the same in one step, where nothing is in its way |
//! | `whole_tree.rs` | locks on trees as a whole |
//! | `locked_walk.rs` | rows and gaps locked as a scan meets them |
//! | `cursor.rs` | scans: what is committed, and own writes over it |
//! | `own_walk.rs` | own writes in order, in memory and beyond |
//! | `temporary.rs` | trees of a session's own, for as long as it lasts |
//! | `spill.rs` | what is too much for memory leaves it |
//! | `end.rs` | commit, rollback |
//! | `savepoint.rs` | savepoints and statements: how far it can be taken back |
//! | `interrupt.rs` | another thread asks a transaction to stop |
//! | `live.rs` | who is there: holders of locks and of snapshots |
//! | `kit.rs` | memory, from one transaction to the next |
//! | `prepare.rs` | the first of two phases |
//! | `transact.rs` | a closure, again if others were in its way |
//!
//! Invariants
//! 1. A row is written only under its lock, and, of a snapshot transaction that has read, only if nobody has
//!    committed it since (Rule: I27): looked at under the lock, after every wait.
//! 2. What a transaction reads to decide by, a locking read or an insert's check, it reads at latest under the row's
//!    lock (Rule: I3).
//! 3. Locks go when the commit is visible, or its rollback done, and with them the gate opens.
//!
//! Threads: one transaction is one thread's at a time; calls from others wait for each other, and for the end of a call of a
//! row.

mod autonomous;
#[cfg(all(test, not(shuttle)))]
mod conflicts;
mod count;
mod cursor;
mod delete_range;
mod end;
mod estimate;
mod held;
mod interrupt;
mod kit;
mod live;
mod locked_walk;
mod new_row;
mod options;
mod own_walk;
#[cfg(all(test, not(shuttle)))]
mod pieces;
mod prepare;
#[cfg(all(test, not(shuttle)))]
mod put_again;
mod queued;
mod read;
mod read_as;
mod read_many;
mod row;
mod savepoint;
mod spill;
mod temporary;
mod temporary_rows;
#[cfg(all(test, not(shuttle)))]
mod timeouts;
mod transact;
mod whole_tree;
mod write;

use std::{cell::OnceCell, time::Duration};

use crate::{
    Error, Result, Seqno, TreeId,
    catalog::TreeEntry,
    pipeline::Paced,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    tree::TreeTraits,
    txn::{
        Charge, LiveWrites, Mark,
        lock_table::{
            Deadlock, Denied, LockMark, LockSet, LockStats, LockWait, Owner, Reason, RowMode,
            TableMode, Taken,
        },
    },
    version::SnapshotState,
};

use super::{Db, Tree, batch::check_key, doors::Door};
pub use cursor::TxnCursor;
pub use interrupt::Interrupter;
pub(super) use kit::Kits;
use kit::{Kit, Spare};
use options::Meeting;
pub use options::{IfLocked, Isolation, RowLock, TxnOptions};
pub use read_as::{ReadOptions, RowRead, Sees};
pub use read_many::ManyRows;
pub(crate) use row::RowCall;
pub use row::{RowChange, RowConflict, RowEntry};
pub use savepoint::Savepoint;
pub(super) use spill::rows_beyond_memory;
pub use temporary::TemporaryTree;
use temporary::TemporaryUse;
pub use temporary_rows::TemporaryEntry;
pub use whole_tree::TreeLock;

/// A transaction.
///
/// Ends with [`commit`](Self::commit) or [`rollback`](Self::rollback); dropped, it is rolled back. An error of a call
/// leaves it as it was before that call, with the locks it had; [`Error::Deadlock`] and [`Error::Conflict`] end it at
/// once, as does what keeps a large one from leaving memory ([`Error::Full`], an I/O error): all is rolled back, and its
/// other calls fail with [`Error::TxnEnded`].
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
///     txn.put(&accounts, name, &balance.checked_add_signed(change).expect("enough").to_be_bytes())?;
/// }
/// txn.commit()?;
/// assert_eq!(accounts.get(b"bob")?, Some(30u64.to_be_bytes().to_vec()));
/// # db.close()
/// # }
/// ```
#[derive(Debug)]
pub struct Txn {
    shared: Arc<Door>,
    options: TxnOptions,
    live: Arc<LiveWrites>,
    state: Mutex<State>,
    /// Calls of rows have come to their end, and another thread waits for that.
    row_calls_over: Condvar,
    /// It is what a temporary tree holds: of no other tree, without locks, over nothing (`temporary.rs`).
    private: Option<Box<TreeTraits>>,
}

/// What only one call at a time touches.
#[derive(Debug, Default)]
struct State {
    /// From the first lock on; the gate is shut while it is there.
    locks: Option<LockSet>,
    /// From the first plain read on, at the levels that keep one; at `ReadCommitted` to the statement's end.
    snapshot: Option<Arc<SnapshotState>>,
    /// Trees that list the transaction as a writer.
    entered: Vec<Arc<TreeEntry>>,
    /// In the order of their numbers.
    savepoints: Vec<(u64, Mark)>,
    savepoints_made: u64,
    /// Where the statement began that goes on, and how often writes had left memory then.
    statement: Option<(Mark, u64)>,
    /// Where the statements began that go on within it, outermost first, each with how often writes had left memory then.
    substatements: Vec<(Mark, u64)>,
    /// Savepoints that had been made when the statement began.
    made_before: u64,
    /// Number and mark of rollbacks, both ascending: of those to one mark or a lower one, the last.
    rollbacks: Vec<(u64, Mark)>,
    rollbacks_made: u64,
    is_over: bool,
    /// What ended it before its program did, if that was not others that were in its way.
    ended_by: Option<Box<Error>>,
    /// For how long a call waits for locks, all of them together; `None`: until it gets them.
    lock_timeout: Option<Duration>,
    /// It was slowed before its first lock.
    is_paced: bool,
    /// Whom interrupts reach while it has no locks, from [`Txn::interrupter`] on.
    owner: Option<Arc<Owner>>,
    /// What the last locking read found.
    seen: Seen,
    /// Something was written, if only to be taken back: else the writes need not be looked at.
    has_written: bool,
    /// A write may have locked a row and left it as it was: it found that it exists, failed, or was taken back with its call.
    locks_unwritten: bool,
    /// The writes take more memory than they should.
    is_large: bool,
    /// What they take of it.
    memory: Charge,
    /// How often they have left memory.
    spills: u64,
    /// Calls of rows that are on their way, each within the one before.
    row_calls: u32,
    /// Whose they are.
    row_caller: usize,
    /// Calls of other threads that wait for them.
    behind_row_calls: u32,
    /// What was locked when the outermost of them began.
    row_mark: Option<LockMark>,
    /// Where the scans began that are not over.
    cursor_marks: Vec<Mark>,
    /// Temporary trees that it has written.
    temporary: Vec<TemporaryUse>,
    /// Of transactions before.
    spare: Spare,
}

/// Whether a row is there that is locked.
#[derive(Debug, Default)]
struct Seen {
    /// Tree 0 is nobody's.
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
    /// Begins a transaction. Costs nothing to others until it locks something.
    ///
    /// # Errors
    /// `Closed`, `Failed`; `ReadOnly` for one that is to write in a store opened for reading.
    pub fn begin(&self, options: TxnOptions) -> Result<Txn> {
        self.shared.engine.health.check()?;
        if !options.read_only {
            self.shared.check_writable()?;
        }
        let shared = self.doors.own();
        let Kit { live, mut state } = shared.kits.take(|| shared.next_txns(kit::NUMBERS));
        state.lock_timeout = options.lock_timeout;
        let (state, row_calls_over) = (Mutex::new(state), Condvar::new());
        Ok(Txn { shared, options, live, state, row_calls_over, private: None })
    }

    /// Calls that wait for a lock now, longest first: who, for whom, and for what, with the begin of the key.
    pub fn lock_waits(&self) -> Vec<LockWait> {
        let mut waits = self.shared.lock_table.waits();
        waits.iter_mut().for_each(|wait| wait.tree_name = self.shared.tree_name(wait.tree));
        waits
    }

    /// Locks there are, and how waits ended.
    pub fn lock_stats(&self) -> LockStats {
        self.shared.lock_table.stats()
    }

    /// The last circle of waits that was ended; its `Display` tells it in words, the begins of keys among them.
    pub fn last_deadlock(&self) -> Option<Arc<Deadlock>> {
        let mut last = Deadlock::clone(&*self.shared.lock_table.last_deadlock()?);
        for party in &mut last.parties {
            party.tree_name = self.shared.tree_name(party.tree);
        }
        Some(Arc::new(last))
    }
}

impl Txn {
    /// The state, for a call on a tree.
    fn enter(&self, tree: &Tree, key: &[u8]) -> Result<MutexGuard<'_, State>> {
        check_key(key)?;
        self.enter_tree(tree)
    }

    /// Fails unless the tree is there, and of the transaction's store.
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

    /// Locks a row, and first says so of the tree.
    fn lock_row(
        &self,
        state: &mut State,
        (tree, key): (TreeId, &[u8]),
        mode: RowMode,
        meeting: Meeting,
    ) -> Result<Taken> {
        self.intend(state, tree, mode, meeting)?;
        let patience = state.patience(meeting);
        let locks = state.locks.as_mut().expect("there since the intent");
        let taken = self.shared.lock_table.lock_row(locks, tree, key, mode, patience);
        taken.map_err(|denied| self.denied(state, denied))
    }

    /// Says of a tree that rows of it will be locked. The first time the gate is shut.
    fn intend(
        &self,
        state: &mut State,
        tree: TreeId,
        mode: RowMode,
        meeting: Meeting,
    ) -> Result<()> {
        if self.options.read_only {
            return Err(Error::InvalidArgument("a read-only transaction locks nothing".into()));
        }
        let intent = match mode {
            RowMode::Shared => TableMode::IntentShared,
            RowMode::Exclusive | RowMode::Write => TableMode::IntentExclusive,
        };
        self.take_tree(state, tree, (intent, mode), meeting)
    }

    /// Locks a tree, or says what is meant to be done to rows of it: for reading or for writing.
    fn take_tree(
        &self,
        state: &mut State,
        tree: TreeId,
        (lock, mode): (TableMode, RowMode),
        meeting: Meeting,
    ) -> Result<()> {
        let (table, patience) = (&self.shared.lock_table, state.patience(meeting));
        if state.locks.is_none() {
            self.slow_down(state, mode, meeting.if_locked)?;
            // Batches that are on their way are nobody's locks.
            let waits_until = self.shut_gate(state, tree, state.wait(meeting))?;
            let mut locks = self.lock_set(state);
            table.begins(&locks);
            waits_until.inspect(|until| locks.wait_until(*until));
            state.locks = Some(locks);
        }
        let locks = state.locks.as_mut().expect("made above");
        let taken = table.lock_table(locks, tree, lock, patience);
        taken.map(drop).map_err(|denied| self.denied(state, denied))
    }

    /// Waits if writers are ahead of what applies their commits: before it has rows that others wait for. A commit that finds
    /// no room says so itself. A call that asks for a lock and is not to wait is not slowed either.
    fn slow_down(&self, state: &mut State, mode: RowMode, wait: IfLocked) -> Result<()> {
        if mode == RowMode::Shared || wait != IfLocked::Wait {
            return Ok(());
        }
        let may_go = || state.must_go_on();
        match self.shared.engine.pace(Paced::Deletes, &may_go) {
            Err(Error::Full(_)) => {}
            paced => paced?,
        }
        state.is_paced = true;
        Ok(())
    }

    /// The same of a call that writes, and asks for its first lock without waiting for a holder.
    fn slow_down_to_write(&self, state: &mut State) -> Result<()> {
        match state.locks {
            None if self.private.is_none() => self.slow_down(state, RowMode::Write, IfLocked::Wait),
            _ => Ok(()),
        }
    }

    /// How it is slowed as it commits.
    fn paced(&self, state: &State, deletes: bool) -> Paced {
        match (state.is_paced, deletes) {
            (true, deletes) => Paced::HoldsRows { deletes },
            (false, true) => Paced::Deletes,
            (false, false) => Paced::Free,
        }
    }

    /// Locks that are none yet, under the transaction's name.
    fn lock_set(&self, state: &mut State) -> LockSet {
        let spare = state.spare.locks.take();
        let mut locks = spare.unwrap_or_else(|| self.shared.lock_table.begin(self.id()));
        locks.renew(self.id(), self.options.tag);
        locks
    }

    /// Before its first lock: batches that need none must be done. Until when the call waits, if it had to.
    fn shut_gate(
        &self,
        state: &State,
        tree: TreeId,
        wait: Option<Duration>,
    ) -> Result<Option<Duration>> {
        let clock = &self.shared.engine.env.clock;
        // The clock is read once somebody has to be waited for.
        let until = OnceCell::new();
        let end = |time| *until.get_or_init(|| clock.now().saturating_add(time));
        let is_early = || wait.is_none_or(|time| clock.now() < end(time));
        if self.shared.gate.close(|| is_early() && !state.is_interrupted()) {
            return Ok(until.get().copied());
        }
        state.must_go_on()?;
        Err(Error::LockTimeout {
            tree: self.shared.tree_name(tree),
            what: "a row".into(),
            holder: "a batch that is being committed".into(),
            key: None,
        })
    }

    /// What a lock that was not granted comes to. On a circle of waits the transaction is over.
    fn denied(&self, state: &mut State, denied: Denied) -> Error {
        if denied.reason == Reason::Deadlock {
            self.end(state);
        }
        self.shared.lock_error(denied)
    }

    /// Fails if another has committed the row since this transaction's snapshot; then this one is over. To be
    /// called under the row's lock (Rule: I27).
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

    /// The transaction's name in reports of locks.
    pub fn id(&self) -> u64 {
        self.live.number()
    }

    /// What it sees of others.
    pub fn isolation(&self) -> Isolation {
        self.options.isolation
    }

    /// The last commit that its plain reads see, once there was one, at the levels that keep a snapshot; at `ReadCommitted`
    /// that of the statement.
    pub fn snapshot_seqno(&self) -> Option<Seqno> {
        self.state.lock().unwrap().snapshot.as_ref().map(|snapshot| snapshot.at)
    }

    /// Entries that it would commit.
    pub fn len(&self) -> usize {
        self.live.lock().len()
    }

    /// True if it would commit nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
