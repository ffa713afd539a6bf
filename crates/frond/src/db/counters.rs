//! Numbers from the counters of trees: hidden row ids, auto-increment (Rule: I35).
//!
//! The counters are in the catalog's memory (`catalog/counters.rs`). Each commit to a tree logs new
//! values of its counters, unless an earlier one did (`commit/mod.rs`).
//!
//! Threads: all.

use std::ops::Range;

use crate::{Error, Result, db::Tree, sync::Ordering, types::COUNTERS};

impl Tree {
    /// Takes `count` numbers from one of the tree's counters, 0 to 3, for rows of this tree; the
    /// first number is at least `least`. Counters start at 1. No number is returned twice, whether
    /// the transaction commits or not. After a restart or a crash, no number is returned that a
    /// commit can have used: numbers stay taken if they were taken before the last durable commit
    /// to the tree or, once something was applied to the tree, before a checkpoint or close. Takes
    /// no lock and writes nothing.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let rows = db.create_tree("rows", Default::default())?;
    /// let mut ids = rows.reserve(0, 1, 3)?;
    /// db.transact(|txn| {
    ///     ids.clone().try_for_each(|id| txn.insert(&rows, &id.to_be_bytes(), b"a row"))
    /// })?;
    /// assert_eq!(rows.reserve(0, 1, 1)?, 4..5);
    /// assert_eq!(rows.reserve(0, 1000, 1)?, 1000..1001);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such counter, or too few numbers are left; `NoSuchTree`;
    /// `ReadOnly`.
    pub fn reserve(&self, counter: usize, least: u64, count: u64) -> Result<Range<u64>> {
        self.entry.check()?;
        self.shared.check_writable()?;
        has_counter(counter)?;
        if !self.shared.commits.has_counters.load(Ordering::Relaxed) {
            // A commit that uses such a number got it from here, so it sees the flag set.
            self.shared.commits.has_counters.store(true, Ordering::SeqCst);
        }
        let reserved = self.reserve_unlogged(counter, least, count)?;
        // A tree that replaces this one continues from the values that it finds once this one is
        // marked as gone.
        self.entry.check()?;
        Ok(reserved)
    }

    /// Takes numbers, like [`reserve`](Self::reserve), for a tree that is not logged.
    pub(super) fn reserve_unlogged(
        &self,
        counter: usize,
        least: u64,
        count: u64,
    ) -> Result<Range<u64>> {
        has_counter(counter)?;
        let reserved = self.entry.counters.reserve(counter, least, count);
        reserved.ok_or_else(|| {
            let tree = self.name();
            let why = format!("counter {counter} of tree \"{tree}\" has not so many numbers left");
            Error::InvalidArgument(why)
        })
    }

    /// The next number of a counter, without taking it.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such counter; `NoSuchTree`.
    pub fn next_number(&self, counter: usize) -> Result<u64> {
        self.entry.check()?;
        has_counter(counter)?;
        Ok(self.entry.counters.next(counter))
    }
}

fn has_counter(counter: usize) -> Result<()> {
    match counter < COUNTERS {
        true => Ok(()),
        false => Err(Error::InvalidArgument(format!("a tree has {COUNTERS} counters"))),
    }
}
