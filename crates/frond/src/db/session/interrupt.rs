//! Cancelling the current work of a transaction, or other long work, from another thread (Rule:
//! I53).
//!
//! Invariants
//! 1. An interrupt is for one transaction: a late interrupt does not affect another transaction
//!    (`lock_table/owner.rs`).
//! 2. It stays until it is cleared. It ends waits and merges of spilled writes (`spill.rs`), and
//!    makes calls that read, write or continue a scan fail; calls that end a transaction or roll
//!    some of it back do not fail.
//! 3. It ends waits for locks immediately: it wakes the transaction itself and everything
//!    registered with its interrupter.
//! 4. Once the commit has its place in the log, interrupts are ignored.
//! 5. A transaction stops while the interrupter that was set on it is interrupted, unless
//!    [`TxnControl::clear_interrupt`] was called since. It does not matter whether the interrupt or
//!    the call of [`TxnControl::set_interrupter`] came first.
//!
//! Threads: an [`Interrupter`] may be used from any thread; everything else only by the
//! transaction.

use crate::{
    Error, Result,
    cancel::{CancelSource, CancelToken, Sleepers},
    sync::{Arc, AtomicBool, Mutex, Ordering},
    txn::lock_table::Owner,
};

use super::{State, Txn, TxnControl};

/// Cancels the calls of one transaction ([`TxnControl::interrupter`]), or all work that this
/// interrupter was set on: one transaction after another, cursors, bulk loads, index builds,
/// checks. May outlive them.
#[derive(Clone)]
pub struct Interrupter {
    kind: Kind,
}

short_debug!(Interrupter, "Interrupter", |interrupter| interrupter.is_interrupted());

#[derive(Clone)]
enum Kind {
    Txn { owner: Arc<Owner>, id: u64 },
    Standalone(Arc<Standalone>),
}

/// The state of an interrupter that belongs to no transaction.
#[derive(Default)]
struct Standalone {
    /// Written under the lock of `txn` (invariant 5).
    interrupted: AtomicBool,
    sleepers: Sleepers,
    /// The last transaction that it was set on. While this lock is held, the only other lock
    /// acquired is that of an owner's wait.
    txn: Mutex<Option<(Arc<Owner>, u64)>>,
}

impl CancelSource for Interrupter {
    fn is_interrupted(&self) -> bool {
        Interrupter::is_interrupted(self)
    }

    fn sleepers(&self) -> &Sleepers {
        match &self.kind {
            Kind::Txn { owner, .. } => owner.sleepers(),
            Kind::Standalone(state) => &state.sleepers,
        }
    }
}

impl Default for Interrupter {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupter {
    /// Creates an interrupter that belongs to no transaction. Set it on the work that it should
    /// stop: [`TxnControl::set_interrupter`],
    /// [`Cursor::set_interrupter`](crate::Cursor::set_interrupter),
    /// [`BulkLoad::set_interrupter`](crate::db::BulkLoad::set_interrupter),
    /// [`IndexBuild::set_interrupter`](crate::db::IndexBuild::set_interrupter),
    /// [`Db::check_cancellable`](crate::Db::check_cancellable). All but
    /// [`TxnControl::set_interrupter`] also take the interrupter of a transaction.
    pub fn new() -> Self {
        Self { kind: Kind::Standalone(Arc::default()) }
    }

    /// Ends the transaction's current call with [`Error::Interrupted`] if it waits for a lock or
    /// for space, scans rows or merges spilled writes, and likewise every later call until
    /// [`TxnControl::clear_interrupt`]. Other work that this interrupter was set on ends in the
    /// same way, until [`clear`](Self::clear). Never waits; does nothing if the transaction is
    /// over.
    pub fn interrupt(&self) {
        match &self.kind {
            Kind::Txn { owner, id } => owner.interrupt(*id),
            Kind::Standalone(state) => {
                let txn = state.txn.lock().unwrap();
                // SeqCst, as `Sleepers` requires: a sleeper sees the flag, or the sleeper is seen.
                state.interrupted.store(true, Ordering::SeqCst);
                if let Some((owner, id)) = &*txn {
                    owner.interrupt(*id);
                }
                drop(txn);
                state.sleepers.wake();
            }
        }
    }

    /// Clears an interrupter that belongs to no transaction; the transaction that it was set on
    /// goes on, too. The interrupter of a transaction is cleared only by
    /// [`TxnControl::clear_interrupt`].
    pub fn clear(&self) {
        if let Kind::Standalone(state) = &self.kind {
            let txn = state.txn.lock().unwrap();
            state.interrupted.store(false, Ordering::SeqCst);
            if let Some((owner, id)) = &*txn {
                owner.clear_interrupt_of(*id);
            }
        }
    }

    /// True if it was interrupted and not cleared since.
    pub fn is_interrupted(&self) -> bool {
        match &self.kind {
            Kind::Txn { owner, id } => owner.was_interrupted(*id),
            Kind::Standalone(state) => state.interrupted.load(Ordering::SeqCst),
        }
    }

    /// The interrupter of a transaction.
    pub(super) fn of(owner: Arc<Owner>, id: u64) -> Self {
        Self { kind: Kind::Txn { owner, id } }
    }

    /// Makes this interrupter cancel the work that carries `cancel`.
    pub(crate) fn set_on(&self, cancel: &mut CancelToken) {
        cancel.set(self.clone());
    }

    /// Returns `Interrupted` if it was interrupted.
    pub(crate) fn check_interrupted(&self) -> Result<()> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }
}

impl TxnControl<'_> {
    /// Returns the transaction's interrupter, with which another thread can cancel its calls. Call
    /// this before calls that may wait.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// # let tree = db.create_tree("t", Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// let interrupter = txn.control().interrupter()?;
    /// std::thread::spawn(move || interrupter.interrupt()).join().unwrap();
    /// assert!(matches!(txn.put(&tree, b"k", b""), Err(frond::Error::Interrupted)));
    /// txn.control().clear_interrupt();
    /// txn.put(&tree, b"k", b"")?;
    /// txn.commit()?;
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `TxnEnded`.
    pub fn interrupter(&self) -> Result<Interrupter> {
        let owner = self.txn.own_owner(&mut *self.txn.stay()?);
        Ok(Interrupter::of(owner, self.txn.id()))
    }

    /// Makes an interrupter that belongs to no transaction stop this one, from now on until the
    /// transaction ends. It is meant for a session, which calls this for each of its transactions
    /// in turn; the interrupter stops only the last of them. If the interrupter was interrupted
    /// before and not cleared since, the transaction is interrupted at once. Setting a session's
    /// interrupter takes about ten nanoseconds, whereas an interrupter for each transaction has to
    /// be created and made known to other threads.
    ///
    /// # Errors
    /// `InvalidArgument` for the interrupter of a transaction; `TxnEnded`.
    pub fn set_interrupter(&self, interrupter: &Interrupter) -> Result<()> {
        let Kind::Standalone(state) = &interrupter.kind else {
            let why = "an interrupter of a transaction cannot be set on another one";
            return Err(Error::InvalidArgument(why.into()));
        };
        let owner = self.txn.own_owner(&mut *self.txn.stay()?);
        let mut txn = state.txn.lock().unwrap();
        if state.interrupted.load(Ordering::SeqCst) {
            owner.interrupt(self.txn.id());
        }
        *txn = Some((owner, self.txn.id()));
        Ok(())
    }

    /// Clears the interrupt once the statement has ended. Later interrupts count again.
    pub fn clear_interrupt(&self) {
        let state = self.txn.state.lock().unwrap();
        state.known().inspect(|owner| owner.clear_interrupt());
    }

    /// True if the transaction was interrupted. For loops of the program's own.
    pub fn is_interrupted(&self) -> bool {
        self.txn.state.lock().unwrap().is_interrupted()
    }
}

impl Txn {
    /// The lock owner through which interrupters reach the transaction; created if there is none.
    fn own_owner(&self, state: &mut State) -> Arc<Owner> {
        let owner = match (&state.locks, &state.owner) {
            (Some(locks), _) => locks.owner().clone(),
            (None, Some(owner)) => owner.clone(),
            (None, None) => {
                let locks = self.lock_set(state);
                let owner = locks.owner().clone();
                state.spare.locks = Some(locks);
                owner
            }
        };
        state.owner = Some(owner.clone());
        state.cancel_in_temporary();
        owner
    }
}

impl State {
    /// The lock owner through which interrupters reach the transaction, if there is one.
    pub(super) fn known(&self) -> Option<&Arc<Owner>> {
        let of_locks = self.locks.as_ref().map(|locks| locks.owner());
        of_locks.or(self.owner.as_ref())
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.known().is_some_and(|owner| owner.is_interrupted())
    }

    /// Returns `Interrupted` if the transaction was interrupted.
    pub(super) fn check_interrupted(&self) -> Result<()> {
        if self.is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
    }
}
