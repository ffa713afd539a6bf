//! Numbers from the counters of trees: hidden row ids, auto-increment (Rule: I35).
//!
//! The counters are in the catalog's memory (`catalog/counters.rs`); here is what the log is told of them: each commit to a
//! tree says how far its counters are, unless one before said so.
//!
//! Threads: all.

use std::ops::Range;

use crate::{Error, Result, TreeId, sync::Ordering, types::COUNTERS};

use super::{Shared, Tree};

impl Tree {
    /// Takes `count` numbers from one of the tree's counters, 0 to 3, for rows of this tree; the first of them is at least
    /// `least`. Counters begin at 1. A number is not handed out again, whatever becomes of the transaction. After a restart
    /// or a crash none is that a commit can have used: what was taken before the last durable commit to the tree, or, once
    /// something was applied to it, before a checkpoint or close, stays taken. No lock is taken, and nothing is written.
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
    /// `InvalidArgument` if there is no such counter, or fewer numbers are left; `NoSuchTree`; `ReadOnly`.
    pub fn reserve(&self, counter: usize, least: u64, count: u64) -> Result<Range<u64>> {
        self.entry.check()?;
        self.shared.check_writable()?;
        has_counter(counter)?;
        if !self.shared.has_counters.load(Ordering::Relaxed) {
            // Who commits what has such a number has got it from here, and sees this.
            self.shared.has_counters.store(true, Ordering::SeqCst);
        }
        let reserved = self.reserve_unlogged(counter, least, count)?;
        // A tree that takes the place of this one goes on from what it finds once this one is said to be gone.
        self.entry.check()?;
        Ok(reserved)
    }

    /// The same where no log is told of it.
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

    /// The number that a counter would give next.
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

impl Shared {
    /// Lists what the record of a commit to these trees has to say of counters.
    pub(super) fn list_counters(
        &self,
        trees: impl Iterator<Item = TreeId>,
        counters: &mut Vec<(TreeId, u8, u64)>,
    ) {
        counters.clear();
        if !self.has_counters.load(Ordering::SeqCst) {
            return;
        }
        for tree in trees {
            if let Some(entry) = self.catalog.by_id(tree) {
                counters.extend(entry.counters.unlogged().map(|(at, next)| (tree, at, next)));
            }
        }
    }

    /// A record that says so has its place in the log.
    pub(super) fn counters_are_logged(&self, counters: &[(TreeId, u8, u64)]) {
        for &(tree, counter, next) in counters {
            let entry = self.catalog.by_id(tree);
            entry.inspect(|entry| entry.counters.are_logged(counter, next));
        }
    }
}
