//! A position in a columnar block: seek, row i, next, previous.
//!
//! Like [`Rows`](super::super::Rows) it does not hold the block; unlike it, it keeps key and
//! payload of the current row in its own memory. A jump decodes one row; a walk that continues from
//! there decodes eight, then sixty-four, then a vector. So reading one row decodes only one. A walk
//! that enters a block at its end starts with sixty-four. If the caller says how many rows it
//! wants, that many are decoded at once, and none beyond the limit that was set.

use super::{
    super::{BadBlock, Chunks},
    columns::ColumnSelection,
    frame::ColumnarBlock,
    search::place,
    vector::{Even, Vector, rows_max},
};
use crate::message::Tag;

/// The factor by which the number of decoded rows grows each time that a walk continues.
const GROWTH: usize = 8;
/// Number of rows decoded at an end of a block.
const END_ROWS: usize = 64;
/// Vectors end where frames of delta columns end; otherwise a frame would be decoded twice.
const FRAME_ROWS: usize = 32;

/// A position in a block: on a row, before the first, or after the last.
#[derive(Clone, Debug)]
pub struct ColumnarRows {
    selection: ColumnSelection,
    vector: Vector,
    /// Number of the current row; the number of rows after the last.
    row: usize,
    /// The row whose key and payload are returned: past the end, still the last row.
    shown: usize,
    /// Number of rows decoded last.
    reach: usize,
    /// Number of rows that a forward walk is expected to take; 1 if it is not known.
    expected: usize,
    /// The first row of the block that no forward walk wants.
    limit: usize,
}

impl Default for ColumnarRows {
    fn default() -> Self {
        Self::new(ColumnSelection::All)
    }
}

impl ColumnarRows {
    /// Creates a position that reads these fields of values.
    pub fn new(selection: ColumnSelection) -> Self {
        Self {
            selection,
            vector: Vector::default(),
            row: usize::MAX,
            shown: usize::MAX,
            reach: 1,
            expected: 1,
            limit: usize::MAX,
        }
    }

    /// Reads only these fields of values from now on; the position is then undefined.
    pub fn project(&mut self, selection: ColumnSelection) {
        self.selection = selection;
        self.vector.leave(Chunks::default());
        (self.row, self.shown) = (usize::MAX, usize::MAX);
        (self.reach, self.expected, self.limit) = (1, 1, usize::MAX);
    }

    /// Announces that this many rows will be read, upward from where the position moves next.
    pub fn expect(&mut self, rows: usize) {
        self.expected = rows.max(1);
    }

    /// Announces that no forward walk in this block wants rows from `key` on, until the block is
    /// left.
    pub fn set_limit(&mut self, columnar: &ColumnarBlock<'_>, key: &[u8]) -> Result<(), BadBlock> {
        (self.limit, _) = place(columnar, key, self.vector.chunks())?;
        Ok(())
    }

    /// True if the next row is the first one beyond the limit.
    #[inline]
    pub fn is_before_limit(&self) -> bool {
        self.row.wrapping_add(1) == self.limit
    }

    /// The current key; after the last row, still that row's.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.vector.key(self.shown)
    }

    /// The current tag.
    #[inline]
    pub fn tag(&self) -> Tag {
        self.vector.tag(self.shown).0
    }

    /// The current payload; for a value in the columns, the wanted fields.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.vector.payload(self.shown)
    }

    /// True if the payload is the whole value; always true for payloads outside the columns.
    pub fn is_whole(&self) -> bool {
        self.selection == ColumnSelection::All || !self.vector.tag(self.shown).1
    }

    /// Passes the current row and those after it that are decoded and before the limit to `take`,
    /// until it returns false: key, tag, payload, and whether the payload is whole. Stops at the
    /// last row passed; returns false if `take` has.
    #[inline]
    pub fn each_decoded<E>(
        &mut self,
        mut take: impl FnMut(&[u8], Tag, &[u8], bool) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let is_whole = self.selection == ColumnSelection::All;
        let end = self.vector.rows().end.min(self.limit).max(self.row + 1);
        for row in self.row..end {
            let (key, tag, payload, in_columns) = self.vector.line(row);
            if !take(key, tag, payload, is_whole || !in_columns)? {
                self.stand_on(row);
                return Ok(false);
            }
        }
        self.stand_on(end - 1);
        Ok(true)
    }

    /// Passes several rows to `take` at once: the current row and those after it, as long as their
    /// keys have one length and their values have one length and are in the columns. Also passes
    /// whether values are whole. `take` returns how many rows it has taken, at least one, and
    /// whether to continue, or `None` to get rows one by one. Returns `None` if nothing was taken.
    #[inline]
    pub fn take_even(
        &mut self,
        take: impl FnOnce(Even<'_>, bool) -> Option<(usize, bool)>,
    ) -> Option<bool> {
        let end = self.vector.rows().end.min(self.limit);
        let even = self.vector.even(self.row, end)?;
        let (taken, goes_on) = take(even, self.selection == ColumnSelection::All)?;
        self.stand_on(self.row + taken - 1);
        Some(goes_on)
    }

    /// True if a limit is set.
    #[inline]
    pub fn has_limit(&self) -> bool {
        self.limit != usize::MAX
    }

    /// Number of the current row.
    #[inline]
    pub fn row(&self) -> usize {
        self.row
    }

    /// Moves to the first row.
    pub fn first(&mut self, columnar: &ColumnarBlock<'_>) -> Result<(), BadBlock> {
        let wanted = if self.expected > 1 { self.expected } else { END_ROWS };
        self.reach = wanted.min(rows_max(columnar));
        self.fill_up(columnar, 0, self.reach)
    }

    /// Moves to the last row.
    pub fn last(&mut self, columnar: &ColumnarBlock<'_>) -> Result<(), BadBlock> {
        self.reach = END_ROWS.min(rows_max(columnar));
        let count = self.reach.min(columnar.rows());
        self.fill(columnar, columnar.rows() - count, count)?;
        self.stand_on(columnar.rows() - 1);
        Ok(())
    }

    /// Moves to row `row`, which must exist.
    pub fn row_at(&mut self, columnar: &ColumnarBlock<'_>, row: usize) -> Result<(), BadBlock> {
        assert!(row < columnar.rows(), "row {row} of {}", columnar.rows());
        self.jump(columnar, row)
    }

    /// Moves to the first row whose key is not below `key`; false if there is none.
    pub fn seek(&mut self, columnar: &ColumnarBlock<'_>, key: &[u8]) -> Result<bool, BadBlock> {
        let (row, _) = place(columnar, key, self.vector.chunks())?;
        if row >= columnar.rows() {
            self.vector.clear();
            self.row = columnar.rows();
            return Ok(false);
        }
        self.reach = self.expected.min(rows_max(columnar));
        self.fill_up(columnar, row, self.reach).map(|()| true)
    }

    /// Moves to the last row whose key is below `key`; false if there is none.
    pub fn seek_before(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        key: &[u8],
    ) -> Result<bool, BadBlock> {
        let (row, _) = place(columnar, key, self.vector.chunks())?;
        match row.checked_sub(1) {
            Some(before) => self.jump(columnar, before).map(|()| true),
            None => self.jump(columnar, 0).map(|()| false),
        }
    }

    /// Leaves the current block: to be called before any move in another one, of which `known` is
    /// already decoded.
    #[inline]
    pub fn leave(&mut self, known: Chunks) {
        self.vector.leave(known);
        self.limit = usize::MAX;
    }

    /// Moves to the next row, if that is decoded; otherwise it stays, and false does not mean the
    /// end.
    #[inline]
    pub fn next_decoded(&mut self) -> bool {
        self.go_if_decoded(self.row.wrapping_add(1))
    }

    /// Moves to the previous row, if that is decoded.
    #[inline]
    pub fn prev_decoded(&mut self) -> bool {
        self.go_if_decoded(self.row.wrapping_sub(1))
    }

    #[inline]
    fn go_if_decoded(&mut self, row: usize) -> bool {
        let is_decoded = self.vector.rows().contains(&row);
        if is_decoded {
            self.stand_on(row);
        }
        is_decoded
    }

    /// Moves to the next row; false if this was the last.
    #[inline]
    pub fn next(&mut self, columnar: &ColumnarBlock<'_>) -> Result<bool, BadBlock> {
        let row = self.row.wrapping_add(1);
        if row >= columnar.rows() {
            self.row = columnar.rows();
            return Ok(false);
        }
        if self.vector.rows().contains(&row) {
            self.stand_on(row);
        } else {
            let count = self.grow(columnar);
            self.fill_up(columnar, row, count)?;
        }
        Ok(true)
    }

    /// Decodes about `count` rows from `row` on, which must exist, and moves to it.
    fn fill_up(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        row: usize,
        count: usize,
    ) -> Result<(), BadBlock> {
        let last = columnar.rows().min(self.limit.max(row + 1));
        let end = (row + count).min(last);
        let whole = end / FRAME_ROWS * FRAME_ROWS;
        let end = if count > FRAME_ROWS && whole > row && end < last { whole } else { end };
        self.fill(columnar, row, end - row)?;
        self.stand_on(row);
        Ok(())
    }

    /// Moves to the previous row; false if this was the first.
    #[inline]
    pub fn prev(&mut self, columnar: &ColumnarBlock<'_>) -> Result<bool, BadBlock> {
        let Some(row) = self.row.min(columnar.rows()).checked_sub(1) else { return Ok(false) };
        if !self.vector.rows().contains(&row) {
            let first = (row + 1).saturating_sub(self.grow(columnar));
            let whole = first.next_multiple_of(FRAME_ROWS);
            let first = if whole <= row { whole } else { first };
            self.fill(columnar, first, row + 1 - first)?;
        }
        self.stand_on(row);
        Ok(true)
    }

    /// Moves to a row, perhaps of another block.
    fn jump(&mut self, columnar: &ColumnarBlock<'_>, row: usize) -> Result<(), BadBlock> {
        self.reach = 1;
        self.fill(columnar, row, 1)?;
        self.stand_on(row);
        Ok(())
    }

    #[inline]
    fn stand_on(&mut self, row: usize) {
        (self.row, self.shown) = (row, row);
    }

    fn grow(&mut self, columnar: &ColumnarBlock<'_>) -> usize {
        self.reach = (self.reach * GROWTH).min(rows_max(columnar));
        self.reach
    }

    fn fill(
        &mut self,
        columnar: &ColumnarBlock<'_>,
        first: usize,
        count: usize,
    ) -> Result<(), BadBlock> {
        let wanted = columnar.columns().wanted(&self.selection);
        self.vector.fill(columnar, first..first + count, wanted)
    }
}
