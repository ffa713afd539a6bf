//! A transaction as a closure, done again when others were in its way.

use std::time::Duration;

use crate::Result;

use super::{super::Db, Txn, TxnOptions};

/// Before the second try, and most before any: those who met should not meet again at once.
const PAUSE_FIRST: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(20);

impl Db {
    /// Runs `work` in a transaction and commits. If a `Deadlock` or `Conflict` ends that, whatever the closure makes of the
    /// error, it is run again in a new one, until it comes through: it should do nothing outside that may not be done
    /// twice. Any other error rolls it back and is returned; so is what else has ended the transaction, such as a disk
    /// that is full.
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
    /// What `work` returns, and those of [`Txn::commit`].
    pub fn transact<T>(&self, work: impl FnMut(&Txn) -> Result<T>) -> Result<T> {
        self.transact_with(TxnOptions::default(), work)
    }

    /// The same with options.
    ///
    /// # Errors
    /// As [`transact`](Self::transact).
    pub fn transact_with<T>(
        &self,
        options: TxnOptions,
        mut work: impl FnMut(&Txn) -> Result<T>,
    ) -> Result<T> {
        let mut pause = PAUSE_FIRST;
        loop {
            let txn = self.begin(options.clone())?;
            match work(&txn) {
                Ok(done) if !txn.is_over() => {
                    txn.commit()?;
                    return Ok(done);
                }
                Err(error) if !txn.is_over() => return Err(error),
                // Whatever the closure made of what ended it.
                _ => {
                    if let Some(reason) = txn.ended_by() {
                        return Err(reason);
                    }
                    // Others were in its way.
                }
            }
            drop(txn);
            self.shared.engine.env.clock.sleep(pause);
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}
