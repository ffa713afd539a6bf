//! A position in a block of either encoding: what run cursors move.
//!
//! It does not hold the block, so that a cursor can keep the position and the pinned block side by
//! side: every call takes the bytes, and the format by which they are read. In a row block the
//! payload is a range of these bytes; in a columnar block key and payload are in the position's own
//! memory.

use super::{
    BadBlock, Chunks,
    columnar::{ColumnSelection, ColumnarRows, Even},
    format::Format,
    row::{Rows, Shape},
};
use crate::message::Tag;

/// A position in a block: on a row, before the first, or after the last.
#[derive(Clone, Debug)]
pub struct Position(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Row {
        rows: Rows,
        shape: Shape,
    },
    /// Boxed: cursors of runs of row blocks need not be as large.
    Columnar(Box<ColumnarRows>),
}

/// Cannot happen: a position is created for the format of its run.
const FOREIGN: BadBlock = BadBlock("a block of another format");

impl Position {
    /// Creates a position in blocks of this format, in none of them yet.
    pub fn new(format: &Format) -> Self {
        Self(match format {
            Format::Row => Kind::Row { rows: Rows::default(), shape: Shape::default() },
            Format::Columnar(_) => {
                Kind::Columnar(Box::new(ColumnarRows::new(ColumnSelection::All)))
            }
        })
    }

    /// Reads only these fields of values from now on, where they are in columns, in blocks of the
    /// format that the position was created for. To be called before it enters a block.
    pub fn project(&mut self, selection: &ColumnSelection, format: &Format) {
        if let (Kind::Columnar(rows), Format::Columnar(format)) = (&mut self.0, format) {
            rows.project(format.columns().selection(selection).clone());
        }
    }

    /// Announces that this many rows are about to be asked for, upward from where it moves next.
    pub fn expect(&mut self, count: usize) {
        if let Kind::Columnar(rows) = &mut self.0 {
            rows.expect(count);
        }
    }

    /// Announces that no forward walk in this block wants rows from `key` on. To be called after
    /// [`enter`](Self::enter).
    pub fn set_limit(&mut self, block: &[u8], format: &Format, key: &[u8]) -> Result<(), BadBlock> {
        match (&mut self.0, format) {
            (Kind::Row { .. }, _) => Ok(()),
            (Kind::Columnar(rows), Format::Columnar(format)) => {
                rows.set_limit(&format.block(block)?, key)
            }
            (Kind::Columnar(_), Format::Row) => Err(FOREIGN),
        }
    }

    /// True if the next row of this block is known to be beyond the limit.
    #[inline]
    pub fn is_before_limit(&self) -> bool {
        match &self.0 {
            Kind::Row { .. } => false,
            Kind::Columnar(rows) => rows.is_before_limit(),
        }
    }

    /// True if rows beyond the limit are known by their number, and need not be compared.
    #[inline]
    pub fn has_limit(&self) -> bool {
        match &self.0 {
            Kind::Row { .. } => false,
            Kind::Columnar(rows) => rows.has_limit(),
        }
    }

    /// Passes the current row, and those after it that are already decoded, to `take` until it
    /// returns false: key, tag, payload, and whether the payload is the whole value. Stops at the
    /// last row passed; returns false if `take` has.
    #[inline]
    pub fn each_decoded<E>(
        &mut self,
        block: &[u8],
        mut take: impl FnMut(&[u8], Tag, &[u8], bool) -> Result<bool, E>,
    ) -> Result<bool, E> {
        match &mut self.0 {
            Kind::Row { rows, .. } => take(rows.key(), rows.tag(), rows.payload(block), true),
            Kind::Columnar(rows) => rows.each_decoded(take),
        }
    }

    /// Passes many rows to `take` at once, where they lie side by side: see
    /// [`ColumnarRows::take_even`].
    #[inline]
    pub fn take_even(
        &mut self,
        take: impl FnOnce(Even<'_>, bool) -> Option<(usize, bool)>,
    ) -> Option<bool> {
        match &mut self.0 {
            Kind::Row { .. } => None,
            Kind::Columnar(rows) => rows.take_even(take),
        }
    }

    /// True if the current payload is the whole value, and not only the wanted fields.
    #[inline]
    pub fn is_whole(&self) -> bool {
        match &self.0 {
            Kind::Row { .. } => true,
            Kind::Columnar(rows) => rows.is_whole(),
        }
    }

    /// Number of the current row.
    pub fn row(&self) -> usize {
        match &self.0 {
            Kind::Row { rows, .. } => rows.row(),
            Kind::Columnar(rows) => rows.row(),
        }
    }

    /// Moves to row `row`, which must exist, of a columnar block.
    pub fn row_at(&mut self, block: &[u8], format: &Format, row: usize) -> Result<(), BadBlock> {
        match (&mut self.0, format) {
            (Kind::Row { .. }, _) => Ok(()),
            (Kind::Columnar(rows), Format::Columnar(format)) => {
                rows.row_at(&format.block(block)?, row)
            }
            (Kind::Columnar(_), Format::Row) => Err(FOREIGN),
        }
    }

    /// Enters a block; to be called before any move in it. `known` is what was decoded of it
    /// before, if anything.
    #[inline]
    pub fn enter(&mut self, block: &[u8], known: Chunks) -> Result<(), BadBlock> {
        match &mut self.0 {
            Kind::Row { shape, .. } => *shape = Shape::parse(block)?,
            Kind::Columnar(rows) => rows.leave(known),
        }
        Ok(())
    }

    /// The current key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match &self.0 {
            Kind::Row { rows, .. } => rows.key(),
            Kind::Columnar(rows) => rows.key(),
        }
    }

    /// The current tag.
    #[inline]
    pub fn tag(&self) -> Tag {
        match &self.0 {
            Kind::Row { rows, .. } => rows.tag(),
            Kind::Columnar(rows) => rows.tag(),
        }
    }

    /// The current payload.
    #[inline]
    pub fn payload<'a>(&'a self, block: &'a [u8]) -> &'a [u8] {
        match &self.0 {
            Kind::Row { rows, .. } => rows.payload(block),
            Kind::Columnar(rows) => rows.payload(),
        }
    }

    /// Moves to the first row.
    pub fn first(&mut self, block: &[u8], format: &Format) -> Result<(), BadBlock> {
        match (&mut self.0, format) {
            (Kind::Row { rows, shape }, _) => rows.first(block, shape),
            (Kind::Columnar(rows), Format::Columnar(format)) => rows.first(&format.block(block)?),
            (Kind::Columnar(_), Format::Row) => Err(FOREIGN),
        }
    }

    /// Moves to the last row.
    pub fn last(&mut self, block: &[u8], format: &Format) -> Result<(), BadBlock> {
        match (&mut self.0, format) {
            (Kind::Row { rows, shape }, _) => rows.last(block, shape),
            (Kind::Columnar(rows), Format::Columnar(format)) => rows.last(&format.block(block)?),
            (Kind::Columnar(_), Format::Row) => Err(FOREIGN),
        }
    }

    /// Moves to the first row whose key is not below `key`; false if there is none.
    pub fn seek(&mut self, block: &[u8], format: &Format, key: &[u8]) -> Result<bool, BadBlock> {
        match (&mut self.0, format) {
            (Kind::Row { rows, shape }, _) => rows.seek(block, shape, key),
            (Kind::Columnar(rows), Format::Columnar(format)) => {
                rows.seek(&format.block(block)?, key)
            }
            (Kind::Columnar(_), Format::Row) => Err(FOREIGN),
        }
    }

    /// Moves to the last row whose key is below `key`; false if there is none.
    pub fn seek_before(
        &mut self,
        block: &[u8],
        format: &Format,
        key: &[u8],
    ) -> Result<bool, BadBlock> {
        match (&mut self.0, format) {
            (Kind::Row { rows, shape }, _) => rows.seek_before(block, shape, key),
            (Kind::Columnar(rows), Format::Columnar(format)) => {
                rows.seek_before(&format.block(block)?, key)
            }
            (Kind::Columnar(_), Format::Row) => Err(FOREIGN),
        }
    }

    /// Moves to the next row; false if this was the last.
    #[inline]
    pub fn next(&mut self, block: &[u8], format: &Format) -> Result<bool, BadBlock> {
        match &mut self.0 {
            Kind::Row { rows, shape } => rows.next(block, shape),
            Kind::Columnar(rows) => {
                if rows.next_decoded() {
                    return Ok(true);
                }
                let Format::Columnar(format) = format else { return Err(FOREIGN) };
                rows.next(&format.block(block)?)
            }
        }
    }

    /// Moves to the previous row; false if this was the first.
    #[inline]
    pub fn prev(&mut self, block: &[u8], format: &Format) -> Result<bool, BadBlock> {
        match &mut self.0 {
            Kind::Row { rows, shape } => rows.prev(block, shape),
            Kind::Columnar(rows) => {
                if rows.prev_decoded() {
                    return Ok(true);
                }
                let Format::Columnar(format) = format else { return Err(FOREIGN) };
                rows.prev(&format.block(block)?)
            }
        }
    }
}
