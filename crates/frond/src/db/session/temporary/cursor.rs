//! Scans of temporary trees.
//!
//! Threads: one.

use crate::{
    KeyRange, Result,
    db::{Projection, RowBuf, RowPlace, TemporaryRows, tree::bounds},
    key_range::OrEmpty,
};

use super::{
    super::write_buffer::{BufferScan, Place, Position},
    Held, TEMPORARY, TemporaryTree,
};

/// A scan over the rows of a temporary tree in a range.
#[must_use = "a cursor reads nothing until `next` or `prev` is called"]
pub struct TemporaryCursor<'t> {
    held: &'t Held,
    scan: BufferScan<'t>,
    /// The row returned last, or being built.
    key: Vec<u8>,
    value: Vec<u8>,
    /// The parts to cut out of values; `None`: values are returned whole.
    projection: Option<Projection>,
    place: Place,
}

short_debug!(TemporaryCursor<'_>, "TemporaryCursor", |cursor| cursor.held.tree.id().0);

impl TemporaryTree {
    /// A cursor over a range of keys, before its first row. It sees what was written before it, or
    /// before the current statement of the writing transaction
    /// ([`Txn::statement`](crate::Txn::statement)); rows that are deleted meanwhile are
    /// skipped.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn scan(&self, range: impl KeyRange) -> Result<TemporaryCursor<'_>> {
        self.scan_bounds(bounds(&range)?)
    }

    pub(super) fn scan_bounds(
        &self,
        range: (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<TemporaryCursor<'_>> {
        let held = &*self.held;
        let mut state = held.enter()?;
        let buffer = (&held.buffer, held.engine());
        Ok(TemporaryCursor {
            held,
            scan: BufferScan::new(buffer, &mut state.buffer, TEMPORARY, range),
            key: Vec::new(),
            value: Vec::new(),
            projection: None,
            place: Place::new(),
        })
    }

    /// The rows of a range, from both ends, as [`scan`](Self::scan) sees them. Each row is copied.
    /// Errors are items, and end the iteration. A range that ends before it begins has no rows.
    pub fn range(&self, range: impl KeyRange) -> TemporaryRows<'_> {
        TemporaryRows::new(self.scan(OrEmpty(range)))
    }
}

impl Drop for TemporaryCursor<'_> {
    fn drop(&mut self) {
        // The marks of a lost tree need not be kept.
        if let Ok(mut state) = self.held.lock() {
            state.buffer.marks.close_scan(self.scan.mark());
        }
    }
}

impl TemporaryCursor<'_> {
    /// Restricts the cursor to these parts of values, as
    /// [`Cursor::project`](crate::Cursor::project) does. Values are read whole and cut.
    ///
    /// # Errors
    /// As [`Cursor::project`](crate::Cursor::project).
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
        projection.check(self.held.tree.schema.as_ref())?;
        self.projection = Some(projection.clone());
        Ok(())
    }

    /// Restricts the cursor to another range, starting at its first row.
    ///
    /// # Errors
    /// `InvalidArgument` if the range ends before it begins.
    pub fn set_range(&mut self, range: impl KeyRange) -> Result<()> {
        self.scan.set_range(bounds(&range)?);
        self.seek_first();
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
    /// `InvalidArgument` once the writing transaction was rolled back to before the scan began;
    /// `TxnEnded` if the tree is lost; `Interrupted`; I/O errors and damage.
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

    /// Where it stands, for an iterator.
    pub(in crate::db) fn passed(&self) -> Option<RowPlace> {
        self.place.passed()
    }

    /// Reads up to `rows_max` rows, going up or down, into a buffer that is cleared first; no row
    /// means the end. Rows are in ascending order in either case: when going down, the nearest row
    /// is the last.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn read_batch(
        &mut self,
        forward: bool,
        out: &mut RowBuf,
        rows_max: usize,
    ) -> Result<usize> {
        let filled = out.fill(forward, rows_max, true, |out| {
            let row = self.go(forward)?;
            Ok(row.map(|(key, value)| out.push(key, value)).is_some())
        });
        self.place.stand_on_last(forward, out);
        filled
    }

    /// True if the cursor would still return a row with this key, which it returned in one of its
    /// last steps: see [`TxnCursor::still_gives`](crate::TxnCursor::still_gives).
    ///
    /// # Errors
    /// I/O errors and damage of spilled rows.
    pub fn still_gives(&self, key: &[u8]) -> Result<bool> {
        let Ok(state) = self.held.lock() else { return Ok(false) };
        let so_far = (state.buffer.marks.rollbacks_made, state.buffer.spills);
        drop(state);
        self.scan.still_gives(key, so_far)
    }

    fn go(&mut self, forward: bool) -> Result<Option<(&[u8], &[u8])>> {
        self.place.is_reached &= self.scan.update(&self.held.enter()?.buffer)?;
        if self.place.must_be_reached(forward) {
            self.scan.place(&self.place)?;
            self.place.is_reached = true;
        }
        let found = self.step().inspect_err(|_| self.place.is_reached = false)?;
        self.place.arrive(found.then_some(&self.key));
        Ok(found.then_some((&self.key, &self.value)))
    }

    /// Puts the next existing row into `key` and `value`; false at the end.
    fn step(&mut self) -> Result<bool> {
        while let Some(entry) = self.scan.entry() {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            let exists = self.scan.apply(false, &mut self.value)?;
            self.scan.step()?;
            if exists && !self.scan.is_gone(&self.key)? {
                let Held { tree, .. } = self.held;
                tree.to_newest_version(&mut self.value)?;
                if let Some(projection) = &self.projection {
                    projection.keep(Some(&tree.entry), &mut self.value)?;
                }
                return Ok(true);
            }
        }
        Ok(false)
    }
}
