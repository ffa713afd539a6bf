//! Scans of a transaction: committed rows, overlaid with its own writes.
//!
//! Two cursors are merged: one over the snapshot, and one over the transaction's own writes as they
//! were when the scan, or its statement if there was one, started (`write_buffer/scan.rs`).
//!
//! Invariant: if the [place](Place) `is_reached`, both cursors are on their first row beyond it in
//! the scan's direction.
//!
//! Threads: one. Cost: while the transaction has written nothing to the tree, that of a cursor's
//! row plus a check; otherwise also a copy of each row.

use std::{cmp::Ordering, time::Duration};

use crate::{
    Error, KeyRange, Result,
    db::{Cursor, Projection, RowPlace, Tree, TxnRows, tree::bounds},
    key_range::OrEmpty,
    message::Kind,
};

mod base;
mod batch;
use super::{
    Meeting, ReadOptions, RowRead, State, Txn,
    locking_scan::{LockingScan, Step},
    write_buffer::{BufferScan, Place, Position},
};
use base::Base;

/// A scan over the rows of one tree in a range, as a transaction sees them.
#[must_use = "a cursor reads nothing until `next` or `prev` is called"]
pub struct TxnCursor<'t> {
    txn: &'t Txn,
    base: Base<'t>,
    own: BufferScan<'t>,
    tree: Tree,
    /// The current row of `base`; `None` at its end.
    peeked: Option<Row>,
    /// Whether `base` must be moved before `peeked` is used: a locking cursor moves no further than
    /// needed.
    is_behind: bool,
    /// The row returned last, or being built.
    row: Row,
    /// Whether values are read whole, whatever else the transaction does.
    is_whole: bool,
    /// The parts to cut out of values; `None`: values are returned whole.
    projection: Option<Projection>,
    place: Place,
    /// Whether the row returned last is locked by this scan.
    is_locked: bool,
}

short_debug!(TxnCursor<'_>, "TxnCursor", |cursor| cursor.tree.name());

#[derive(Clone, Default, Debug)]
struct Row {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Txn {
    /// A cursor over a range of keys, before its first row. It sees what the transaction's level
    /// shows, and the transaction's own writes from before the scan, or from before its
    /// [statement](Self::statement); rows that the transaction deletes meanwhile are skipped.
    /// It locks nothing, except at level `Serializable`, where it locks rows shared.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let words = db.create_tree("words", Default::default())?;
    /// words.put(b"ash", b"1")?;
    /// let txn = db.begin(Default::default())?;
    /// txn.put(&words, b"birch", b"2")?;
    /// let mut cursor = txn.scan(&words, ..)?;
    /// while let Some((key, _)) = cursor.next()? {
    ///     let key = key.to_vec();
    ///     txn.delete(&words, &key)?;
    /// }
    /// drop(cursor);
    /// txn.commit()?;
    /// assert_eq!(words.get(b"ash")?, None);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan(&self, tree: &Tree, range: impl KeyRange) -> Result<TxnCursor<'_>> {
        self.scan_as(tree, bounds(&range)?, &ReadOptions::default())
    }

    /// The rows of a range, from both ends, as [`scan`](Self::scan) sees them. Each row is copied.
    /// Errors are items, and end the iteration. A range that ends before it begins has no rows.
    /// Taking rows from both ends in turn costs a search for each turn.
    pub fn range(&self, tree: &Tree, range: impl KeyRange) -> TxnRows<'_> {
        TxnRows::new(self.scan(tree, OrEmpty(range)))
    }

    /// A cursor that reads rows as requested: without locks, or locking each row as it comes to it
    /// and returning the newest version. At the levels `RepeatableRead` and `Serializable` it then
    /// also locks the gaps that it passes: other transactions cannot insert there until the
    /// transaction ends. Rows that the cursor reads ahead are not locked yet.
    /// [`ReadOptions::with_last`] has no effect here: other rows may be joined to a row that the
    /// cursor locks.
    ///
    /// # Errors
    /// As [`get_for_update`](Self::get_for_update) and [`TxnCursor::project`]; errors of locks come
    /// from the cursor's steps.
    pub fn scan_with(
        &self,
        tree: &Tree,
        range: impl KeyRange,
        options: &ReadOptions<'_>,
    ) -> Result<TxnCursor<'_>> {
        let mut cursor = self.scan_as(tree, bounds(&range)?, options)?;
        options.projection.map_or(Ok(()), |projection| cursor.set_projection(projection))?;
        Ok(cursor)
    }

    pub(super) fn scan_as(
        &self,
        tree: &Tree,
        (from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
        options: &ReadOptions<'_>,
    ) -> Result<TxnCursor<'_>> {
        let mut state = self.enter_tree(tree)?;
        if let Some(locks) = self.locking(options) {
            let walk = LockingScan::new(self, tree, (from.clone(), to.clone()), locks);
            return Ok(self.cursor(&mut state, tree, Base::Locked(Box::new(walk)), (from, to)));
        }
        let snapshot = self.snapshot_seen(&mut state, options.sees);
        let base = Cursor::new(snapshot, tree.entry.id, Some(tree), (from.clone(), to.clone()))?;
        Ok(self.cursor(&mut state, tree, Base::Seen(Box::new(base)), (from, to)))
    }

    fn cursor<'t>(
        &'t self,
        state: &mut State,
        tree: &Tree,
        base: Base<'t>,
        range: (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> TxnCursor<'t> {
        let buffer = (&self.buffer, &*self.shared.engine);
        TxnCursor {
            txn: self,
            base,
            own: BufferScan::new(buffer, &mut state.buffer, tree.entry.id, range),
            tree: tree.clone(),
            peeked: None,
            is_behind: true,
            row: Row::default(),
            is_whole: false,
            projection: None,
            place: Place::new(),
            is_locked: false,
        }
    }
}

impl Drop for TxnCursor<'_> {
    fn drop(&mut self) {
        let mut state = self.txn.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.buffer.marks.close_scan(self.own.mark());
    }
}

impl TxnCursor<'_> {
    /// Restricts the cursor to these parts of values, as [`Cursor::project`] does. Rows that are
    /// read under locks, or in a tree to which the transaction has written, are read whole and cut.
    ///
    /// # Errors
    /// As [`Cursor::project`].
    pub fn project(mut self, projection: &Projection) -> Result<Self> {
        self.set_projection(projection)?;
        Ok(self)
    }

    /// Restricts the cursor to these parts of values, like [`project`](Self::project), without
    /// moving it.
    ///
    /// # Errors
    /// As [`project`](Self::project).
    pub fn set_projection(&mut self, projection: &Projection) -> Result<()> {
        projection.check(self.tree.schema.as_ref())?;
        // The scan never sees own writes that it does not see now.
        let is_untouched = self.txn.buffer.changes(self.tree.entry.id) == 0;
        self.place.is_reached = false;
        match &mut self.base {
            // If `base` projects already, it continues to do so: the scan does not see later own
            // writes.
            Base::Seen(base) if (is_untouched || base.has_parts()) && !self.is_whole => {
                base.set_projection(projection)?;
                self.projection = None;
            }
            // Own operands must be folded into whole values.
            _ => (self.projection, self.is_whole) = (Some(projection.clone()), true),
        }
        Ok(())
    }

    /// Moves just below `key`: `next` then returns the first row not below it.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        self.place.seek(key.as_ref());
    }

    /// Moves below the first row.
    pub fn seek_first(&mut self) {
        self.place.stand(Position::Low);
    }

    /// Moves above the last row.
    pub fn seek_last(&mut self) {
        self.place.stand(Position::High);
    }

    /// The next row up, or `None` at the end of the range.
    ///
    /// # Errors
    /// `TxnEnded`; `InvalidArgument` once the transaction was rolled back to before the scan began;
    /// I/O errors and damage.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends, an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.go(true)
    }

    /// The next row down, or `None` at the start of the range. On a new cursor, call
    /// [`seek_last`](Self::seek_last) first.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.go(false)
    }

    /// The cursor's place, for an iterator.
    pub(in crate::db) fn passed(&self) -> Option<RowPlace> {
        self.place.passed()
    }

    /// A cursor over the committed rows of the same range that the scan sees; `None` if it locks.
    pub(crate) fn committed(&self) -> Option<Cursor> {
        match &self.base {
            Base::Seen(base) => Some(base.again()),
            Base::Locked(_) => None,
        }
    }

    /// True if the current row is locked. False if the scan locks nothing, or if it met another
    /// transaction's lock and read the last committed version
    /// ([`SemiConsistent`](crate::IfLocked::SemiConsistent)).
    pub fn is_locked(&self) -> bool {
        self.is_locked
    }

    /// Locks the row that the cursor returned last, as the scan locks rows, and reads it again at
    /// the latest version; `None` if it has been deleted. Waits for its holder as long as `wait`
    /// says, or else as the scan's or the transaction's options say. The cursor stays where it is.
    ///
    /// # Errors
    /// As [`Txn::get_with`]; `InvalidArgument` if the scan locks nothing, or has returned no row
    /// since it was positioned.
    pub fn relock(&mut self, wait: Option<Duration>) -> Result<Option<(&[u8], &[u8])>> {
        let Base::Locked(walk) = &self.base else {
            let why = "a scan that locks nothing locks nothing again";
            return Err(Error::InvalidArgument(why.into()));
        };
        if !self.place.has_given {
            let why = "the cursor has given no row since it was placed";
            return Err(Error::InvalidArgument(why.into()));
        }
        let (mode, meeting) = walk.lock();
        let meeting = Meeting { wait: wait.or(meeting.wait), ..meeting.that_waits() };
        let mut row = RowRead { value: std::mem::take(&mut self.row.value), ..Default::default() };
        let read = self.txn.read_again(&self.tree, &self.place.key, (mode, meeting), &mut row);
        self.row.value = row.value;
        read?;
        self.is_locked = true;
        self.row.key.clone_from(&self.place.key);
        let found = self.cut(row.exists)?;
        Ok(found.then_some((&self.row.key, &self.row.value)))
    }

    /// True if the cursor would still return a row with this key, which it returned in one of its
    /// last steps: for a program that fetches rows ahead and uses them later. False once the
    /// transaction has deleted the row, has ended, or has rolled back to a savepoint since the last
    /// step: skipped rows may exist again then, and the scan must be repositioned. A row that the
    /// transaction has changed since the scan started is returned as it was. Costs one check while
    /// nothing was written to the tree since the last step, otherwise a look-up of the key in the
    /// own writes.
    ///
    /// # Errors
    /// I/O errors and damage of spilled writes.
    pub fn still_gives(&self, key: &[u8]) -> Result<bool> {
        let Ok(state) = self.txn.stay() else { return Ok(false) };
        let so_far = (state.buffer.marks.rollbacks_made, state.buffer.spills);
        drop(state);
        self.own.still_gives(key, so_far)
    }

    /// Starts a step: follows what happened to the transaction since the last one.
    fn begin_step(&mut self) -> Result<()> {
        let mut state = self.txn.go_on()?;
        state.begin_call();
        let locks = matches!(self.base, Base::Locked(_));
        if let Some(locks) = state.locks.as_mut().filter(|_| locks) {
            // What it returns next need not be what was locked last.
            locks.keep_last();
        }
        self.place.is_reached &= self.own.update(&state.buffer)?;
        self.is_locked = false;
        Ok(())
    }

    fn go(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        self.begin_step()?;
        if self.place.must_be_reached(forward) {
            self.reach_place()?;
        }
        // A failure before there is a row leaves the position unchanged.
        let found = self.step().and_then(|found| self.cut(found));
        let found = found.inspect_err(|_| self.place.is_reached = false)?;
        self.place.arrive(found.then_some(&self.row.key));
        Ok(found.then_some((&self.row.key, &self.row.value)))
    }

    /// Cuts the row that was found down to the requested parts.
    fn cut(&mut self, found: bool) -> Result<bool> {
        if found && let Some(projection) = &self.projection {
            projection.keep(Some(&self.tree.entry), &mut self.row.value)?;
        }
        Ok(found)
    }

    /// Moves both cursors to their first row beyond the place.
    fn reach_place(&mut self) -> Result<()> {
        self.base.place(&self.place);
        self.own.place(&self.place)?;
        (self.is_behind, self.place.is_reached) = (true, true);
        Ok(())
    }

    /// Moves the cursor over committed rows by one row. A locking cursor moves no further than the
    /// current own entry; then it must be moved again.
    fn peek(&mut self) -> Result<()> {
        let own = self.own.entry();
        match self.base.step(self.place.forward, own.as_ref().map(|own| own.key))? {
            Step::End => {
                self.peeked = None;
                self.is_behind = false;
            }
            Step::Beyond => self.peeked = None,
            Step::Row(key, value) => {
                let row = self.peeked.get_or_insert_default();
                row.key.clear();
                row.key.extend_from_slice(key);
                row.value.clear();
                row.value.extend_from_slice(value);
                self.is_behind = false;
            }
        }
        Ok(())
    }

    /// Puts the next existing row into `row`; false at the end.
    fn step(&mut self) -> Result<bool> {
        loop {
            if self.is_behind {
                self.peek()?;
            }
            let order = match (&self.peeked, self.own.entry()) {
                (None, None) => return Ok(false),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(base), Some(own)) => match self.place.forward {
                    true => base.key.as_slice().cmp(own.key),
                    false => own.key.cmp(&base.key),
                },
            };
            let mut exists = false;
            if order != Ordering::Greater
                && let Some(base) = &mut self.peeked
            {
                let ranges = self.own.range_deletes();
                exists = !ranges.is_some_and(|ranges| ranges.covers(&base.key));
                std::mem::swap(&mut self.row, base);
                self.is_locked = matches!(&self.base, Base::Locked(walk) if walk.is_locked());
            }
            if order != Ordering::Less {
                // The transaction has locked what it has written.
                self.is_locked = matches!(self.base, Base::Locked(_));
                exists = self.take_own(exists)?;
                self.own.step()?;
            }
            self.is_behind |= order != Ordering::Greater;
            if exists && !self.own.is_gone(&self.row.key)? {
                return Ok(true);
            }
        }
    }

    /// Applies the current own entry to `row`, which holds the committed row of that key if it
    /// `exists`. Returns whether there is a row then.
    fn take_own(&mut self, mut exists: bool) -> Result<bool> {
        let Some(own) = self.own.entry() else { return Ok(exists) };
        let Row { key, value } = &mut self.row;
        key.clear();
        key.extend_from_slice(own.key);
        let is_operand = matches!(own.tag.kind(), Kind::Merge | Kind::Versions);
        if is_operand && matches!(self.base, Base::Seen(_)) {
            exists = self.txn.under_operands(exists, &self.tree, key, value)?;
        }
        if !self.own.apply(exists, value)? {
            return Ok(false);
        }
        self.tree.to_newest_version(value)?;
        Ok(true)
    }
}
