//! A position in a typed block: seek, row i, next, previous.
//!
//! Like [`Rows`](super::super::Rows) it does not hold the block; unlike it, the row stood on lies in the
//! position's own memory, key and payload. A jump decodes one row; going on from there decodes eight, then
//! sixty-four, then a vector, so that a read of one row pays for one. A walk that enters a block at its end
//! begins with sixty-four. If the caller says how many rows it wants, that many are decoded at once, and none
//! beyond the limit that was set.

use super::{
    super::{BadBlock, Chunks},
    columns::Projection,
    frame::Typed,
    search::place,
    vector::{Even, Vector, rows_max},
};
use crate::message::Tag;

/// How many more rows are decoded each time that a walk goes on.
const GROWTH: usize = 8;
/// Rows that are decoded at an end of a block.
const END_ROWS: usize = 64;
/// Vectors end where frames of columns do, or a frame is decoded twice.
const FRAME_ROWS: usize = 32;

/// A position in a block: on a row, before the first, or after the last.
#[derive(Clone, Debug)]
pub struct TypedRows {
    projection: Projection,
    vector: Vector,
    /// Number of the row stood on; the number of rows after the last.
    row: usize,
    /// The row that is shown: after the last still that one.
    shown: usize,
    /// Rows that were decoded last.
    reach: usize,
    /// Rows that a walk up from where it begins is to take; 1 if nobody has said.
    expected: usize,
    /// The first row of the block that no walk up wants.
    limit: usize,
}

impl Default for TypedRows {
    fn default() -> Self {
        Self::new(Projection::All)
    }
}

impl TypedRows {
    /// A position that reads these parts of values.
    pub fn new(projection: Projection) -> Self {
        Self {
            projection,
            vector: Vector::default(),
            row: usize::MAX,
            shown: usize::MAX,
            reach: 1,
            expected: 1,
            limit: usize::MAX,
        }
    }

    /// Reads these parts of values from now on; it then stands nowhere.
    pub fn project(&mut self, projection: Projection) {
        self.projection = projection;
        self.vector.leave(Chunks::default());
        (self.row, self.shown) = (usize::MAX, usize::MAX);
        (self.reach, self.expected, self.limit) = (1, 1, usize::MAX);
    }

    /// So many rows are about to be asked for, upwards from where it goes next.
    pub fn expect(&mut self, rows: usize) {
        self.expected = rows.max(1);
    }

    /// No walk up in this block wants rows from `key` on, until it is left.
    pub fn set_limit(&mut self, typed: &Typed<'_>, key: &[u8]) -> Result<(), BadBlock> {
        (self.limit, _) = place(typed, key, self.vector.chunks())?;
        Ok(())
    }

    /// Whether the next row is the first one beyond the limit.
    #[inline]
    pub fn is_before_limit(&self) -> bool {
        self.row.wrapping_add(1) == self.limit
    }

    /// The key stood on; after the last row that one's.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.vector.key(self.shown)
    }

    /// Its tag.
    #[inline]
    pub fn tag(&self) -> Tag {
        self.vector.tag(self.shown).0
    }

    /// Its payload; of a value that is in the columns the parts that are wanted.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        self.vector.payload(self.shown)
    }

    /// Whether the payload is all there is: true for what is not in the columns.
    pub fn is_whole(&self) -> bool {
        self.projection == Projection::All || !self.vector.tag(self.shown).1
    }

    /// Shows the row stood on and those after it that are decoded and before the limit, until `take` says false: key, tag,
    /// payload, and whether that is all there is. Stands on the last one shown; false if `take` has said so.
    #[inline]
    pub fn each_decoded<E>(
        &mut self,
        mut take: impl FnMut(&[u8], Tag, &[u8], bool) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let is_whole = self.projection == Projection::All;
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

    /// The same for as many of these rows at once as have keys of one length, and values, which are in the columns: `take`
    /// gets them, and whether values are whole, and says how many it has taken, one at least, and whether it wants more; or
    /// nothing, if it wants them one by one. `None`: nothing was taken.
    #[inline]
    pub fn take_even(
        &mut self,
        take: impl FnOnce(Even<'_>, bool) -> Option<(usize, bool)>,
    ) -> Option<bool> {
        let end = self.vector.rows().end.min(self.limit);
        let even = self.vector.even(self.row, end)?;
        let (taken, goes_on) = take(even, self.projection == Projection::All)?;
        self.stand_on(self.row + taken - 1);
        Some(goes_on)
    }

    /// Whether the limit is known.
    #[inline]
    pub fn has_limit(&self) -> bool {
        self.limit != usize::MAX
    }

    /// Number of the row stood on.
    #[inline]
    pub fn row(&self) -> usize {
        self.row
    }

    /// Goes to the first row.
    pub fn first(&mut self, typed: &Typed<'_>) -> Result<(), BadBlock> {
        let wanted = if self.expected > 1 { self.expected } else { END_ROWS };
        self.reach = wanted.min(rows_max(typed));
        self.fill_up(typed, 0, self.reach)
    }

    /// Goes to the last row.
    pub fn last(&mut self, typed: &Typed<'_>) -> Result<(), BadBlock> {
        self.reach = END_ROWS.min(rows_max(typed));
        let count = self.reach.min(typed.rows());
        self.fill(typed, typed.rows() - count, count)?;
        self.stand_on(typed.rows() - 1);
        Ok(())
    }

    /// Goes to row `row`, which exists.
    pub fn row_at(&mut self, typed: &Typed<'_>, row: usize) -> Result<(), BadBlock> {
        assert!(row < typed.rows(), "row {row} of {}", typed.rows());
        self.jump(typed, row)
    }

    /// Goes to the first row whose key is not below `key`; false if there is none.
    pub fn seek(&mut self, typed: &Typed<'_>, key: &[u8]) -> Result<bool, BadBlock> {
        let (row, _) = place(typed, key, self.vector.chunks())?;
        if row >= typed.rows() {
            self.vector.clear();
            self.row = typed.rows();
            return Ok(false);
        }
        self.reach = self.expected.min(rows_max(typed));
        self.fill_up(typed, row, self.reach).map(|()| true)
    }

    /// Goes to the last row whose key is below `key`; false if there is none.
    pub fn seek_before(&mut self, typed: &Typed<'_>, key: &[u8]) -> Result<bool, BadBlock> {
        let (row, _) = place(typed, key, self.vector.chunks())?;
        match row.checked_sub(1) {
            Some(before) => self.jump(typed, before).map(|()| true),
            None => self.jump(typed, 0).map(|()| false),
        }
    }

    /// Forgets the block that it stood in: comes before any move in another one, of which codecs gave this.
    #[inline]
    pub fn leave(&mut self, known: Chunks) {
        self.vector.leave(known);
        self.limit = usize::MAX;
    }

    /// Goes to the next row, if that has been decoded; else it stays, and false says nothing.
    #[inline]
    pub fn next_decoded(&mut self) -> bool {
        self.go_if_decoded(self.row.wrapping_add(1))
    }

    /// Goes to the row before, if that has been decoded.
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

    /// Goes to the next row; false if this was the last.
    #[inline]
    pub fn next(&mut self, typed: &Typed<'_>) -> Result<bool, BadBlock> {
        let row = self.row.wrapping_add(1);
        if row >= typed.rows() {
            self.row = typed.rows();
            return Ok(false);
        }
        if self.vector.rows().contains(&row) {
            self.stand_on(row);
        } else {
            let count = self.grow(typed);
            self.fill_up(typed, row, count)?;
        }
        Ok(true)
    }

    /// Decodes about so many rows from `row` on, which exists, and stands on it.
    fn fill_up(&mut self, typed: &Typed<'_>, row: usize, count: usize) -> Result<(), BadBlock> {
        let last = typed.rows().min(self.limit.max(row + 1));
        let end = (row + count).min(last);
        let whole = end / FRAME_ROWS * FRAME_ROWS;
        let end = if count > FRAME_ROWS && whole > row && end < last { whole } else { end };
        self.fill(typed, row, end - row)?;
        self.stand_on(row);
        Ok(())
    }

    /// Goes to the row before; false if this was the first.
    #[inline]
    pub fn prev(&mut self, typed: &Typed<'_>) -> Result<bool, BadBlock> {
        let Some(row) = self.row.min(typed.rows()).checked_sub(1) else { return Ok(false) };
        if !self.vector.rows().contains(&row) {
            let first = (row + 1).saturating_sub(self.grow(typed));
            let whole = first.next_multiple_of(FRAME_ROWS);
            let first = if whole <= row { whole } else { first };
            self.fill(typed, first, row + 1 - first)?;
        }
        self.stand_on(row);
        Ok(true)
    }

    /// Goes to a row, perhaps of another block.
    fn jump(&mut self, typed: &Typed<'_>, row: usize) -> Result<(), BadBlock> {
        self.reach = 1;
        self.fill(typed, row, 1)?;
        self.stand_on(row);
        Ok(())
    }

    #[inline]
    fn stand_on(&mut self, row: usize) {
        (self.row, self.shown) = (row, row);
    }

    fn grow(&mut self, typed: &Typed<'_>) -> usize {
        self.reach = (self.reach * GROWTH).min(rows_max(typed));
        self.reach
    }

    fn fill(&mut self, typed: &Typed<'_>, first: usize, count: usize) -> Result<(), BadBlock> {
        let wanted = typed.columns().wanted(&self.projection);
        self.vector.fill(typed, first..first + count, wanted)
    }
}
