//! Beginning a transaction; and transactions as closures, retried after a deadlock or conflict.

use std::time::Duration;

use crate::{
    Error, Result,
    db::Db,
    sync::{Condvar, Mutex},
};

use super::{
    Txn, TxnOptions, WriteBuffer,
    pool::{self, PooledTxn},
};

/// Pauses before the second attempt, and the longest before any: transactions that conflicted
/// should not meet again at once.
const PAUSE_FIRST: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl Db {
    /// Begins a transaction. Costs others nothing until it locks something.
    ///
    /// # Errors
    /// `Closed`, `Failed`; `ReadOnly` for a transaction that may write, in a store opened
    /// read-only.
    #[doc(alias("begin_write", "begin_read", "transaction"))]
    pub fn begin(&self, options: TxnOptions) -> Result<Txn> {
        self.shared.engine.health.check()?;
        if !options.read_only {
            self.shared.check_writable()?;
        }
        let shared = self.handles.own();
        let PooledTxn { live, mut state } =
            shared.sessions.pool.take(|| shared.next_txns(pool::NUMBERS));
        state.lock_timeout = options.lock_timeout;
        let buffer = WriteBuffer { live, bytes_max: shared.engine.limits.own_writes_bytes };
        let (state, row_calls_over) = (Mutex::new(state), Condvar::new());
        Ok(Txn { shared, options, buffer, state, row_calls_over })
    }

    /// Runs `work` in a transaction and commits. If a `Deadlock` or `Conflict` ends the
    /// transaction, whatever the closure does with the error, the closure is run again in a new
    /// one, until it succeeds; so it should have no other side effects that must not be repeated.
    /// Any other error rolls back and is returned; so is any other cause that ended the
    /// transaction, such as a full disk.
    ///
    /// All that belongs to the transaction goes through `txn`. A write in the closure that bypasses
    /// `txn`, such as [`Tree::put`](crate::Tree::put), is another commit: no rollback undoes it,
    /// and for a row that the transaction has locked it waits for its own thread, until
    /// `LockTimeout`.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let counters = db.create_tree("counters", Default::default())?;
    /// let next = db.transact(|txn| {
    ///     let last = txn.get(&counters, b"order")?.map_or(0, |value| value[0]);
    ///     txn.put(&counters, b"order", &[last + 1])?;
    ///     Ok(last + 1)
    /// })?;
    /// assert_eq!(next, 1);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// Errors returned by `work`, and those of [`Txn::commit`].
    #[doc(alias = "compare_and_swap")]
    pub fn transact<T>(&self, work: impl FnMut(&Txn) -> Result<T>) -> Result<T> {
        self.transact_with(TxnOptions::default(), work)
    }

    /// Runs a closure in a transaction, like [`transact`](Self::transact), with options.
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn transact_with<T>(
        &self,
        options: TxnOptions,
        work: impl FnMut(&Txn) -> Result<T>,
    ) -> Result<T> {
        self.try_transact_with(options, work)
    }

    /// Runs a closure in a transaction, like [`transact`](Self::transact), with errors of the
    /// program's own: any error rolls back, unless a `Deadlock` or `Conflict` has ended the
    /// transaction, which is then run again. If `?` follows the call, the closure must name its
    /// type of error (otherwise the compiler reports E0283):
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// # let counters = db.tree("counters", Default::default())?;
    /// let next = db.try_transact(|txn| -> Result<u64, Box<dyn std::error::Error>> {
    ///     let last = txn.get_for_update(&counters, "order")?.unwrap_or(b"0".to_vec());
    ///     let next = String::from_utf8(last)?.parse::<u64>()? + 1;
    ///     txn.put(&counters, "order", next.to_string())?;
    ///     Ok(next)
    /// })?;
    /// assert_eq!(next, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An enum distinguishes the program's errors from Frond's:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new()).unwrap();
    /// #[derive(Debug)]
    /// enum Failure {
    ///     NoMoney,
    ///     Store(frond::Error),
    /// }
    ///
    /// impl From<frond::Error> for Failure {
    ///     fn from(error: frond::Error) -> Self {
    ///         Failure::Store(error)
    ///     }
    /// }
    ///
    /// let accounts = db.tree("accounts", Default::default()).unwrap();
    /// let paid = db.try_transact(|txn| {
    ///     let ada = txn.get_for_update(&accounts, b"ada")?.ok_or(Failure::NoMoney)?;
    ///     txn.put(&accounts, b"bob", &ada)?;
    ///     Ok(txn.delete(&accounts, b"ada")?)
    /// });
    /// assert!(matches!(paid, Err(Failure::NoMoney)));
    /// ```
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn try_transact<T, E: From<Error>>(
        &self,
        work: impl FnMut(&Txn) -> Result<T, E>,
    ) -> Result<T, E> {
        self.try_transact_with(TxnOptions::default(), work)
    }

    /// Runs a closure in a transaction, like [`try_transact`](Self::try_transact), with options.
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn try_transact_with<T, E: From<Error>>(
        &self,
        options: TxnOptions,
        mut work: impl FnMut(&Txn) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut pause = PAUSE_FIRST;
        loop {
            let txn = self.begin(options.clone())?;
            match work(&txn) {
                Ok(done) if !txn.has_ended() => {
                    txn.commit()?;
                    return Ok(done);
                }
                Err(error) if !txn.has_ended() => return Err(error),
                // The transaction has ended, whatever the closure did with the error.
                _ => {
                    if let Some(reason) = txn.ended_by() {
                        return Err(reason.into());
                    }
                    // A deadlock or conflict: retry.
                }
            }
            drop(txn);
            self.shared.engine.env.clock.sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}
