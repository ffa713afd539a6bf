//! The few strings of a column that its dictionary or shape cannot represent: their rows,
//! ascending, and the strings.
//!
//! ```text
//! exceptions  count | rows: integers | strings, concatenated          (nothing after a count of 0)
//! ```

use super::{
    super::{IntEncoder, Ints},
    raw::{self, Concatenated, take_ints},
    strings::Strings,
    traits::StringColumn,
};
use crate::{
    block::BadBlock,
    coding::{Reader, put_varint},
};

/// Collects exceptions while a column is encoded.
#[derive(Debug, Default)]
pub(super) struct ExceptionList {
    rows: Vec<u64>,
    strings: Strings,
}

impl ExceptionList {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn clear(&mut self) {
        self.rows.clear();
        self.strings.clear();
    }

    /// Adds the string of a row, which must be above all rows so far.
    pub fn push(&mut self, row: usize, string: &[u8]) {
        self.rows.push(row as u64);
        self.strings.push(string);
    }

    pub fn put(&self, ints: &mut IntEncoder, values: &mut Vec<u64>, out: &mut Vec<u8>) {
        put_varint(out, self.rows.len() as u64);
        if !self.rows.is_empty() {
            ints.encode(&self.rows, out);
            raw::put_part(&self.strings, ints, values, out);
        }
    }
}

/// Finds exceptions by row.
#[derive(Clone, Debug, Default)]
pub(super) struct Exceptions<'a>(Option<(Ints<'a>, Concatenated<'a>)>);

impl<'a> Exceptions<'a> {
    #[inline]
    pub fn parse(reader: &mut Reader<'a>, rows: usize) -> Result<Self, BadBlock> {
        let count = reader.varint().ok_or(BadBlock("a string column ends early"))?;
        if count == 0 {
            return Ok(Self(None));
        }
        let count = usize::try_from(count)
            .ok()
            .filter(|&count| count <= rows)
            .ok_or(BadBlock("a string column has more exceptions than rows"))?;
        let at = take_ints(reader, count)?;
        Ok(Self(Some((at, Concatenated::parse(reader, count)?))))
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The string of `row`, if it is an exception.
    #[inline]
    pub fn find(&self, row: usize) -> Result<Option<&'a [u8]>, BadBlock> {
        let Some((rows, strings)) = &self.0 else { return Ok(None) };
        let index = rows.lower_bound(0..strings.rows(), row as u64);
        if index == strings.rows() || rows.get(index) != row as u64 {
            return Ok(None);
        }
        strings.string(index).map(Some)
    }

    /// Checks that the rows ascend below `rows`, and calls `each` with them.
    pub fn check(&self, rows: usize, mut each: impl FnMut(usize)) -> Result<(), BadBlock> {
        let Some((at, strings)) = &self.0 else { return Ok(()) };
        at.check()?;
        strings.check(usize::MAX)?;
        let mut least = 0;
        for index in 0..strings.rows() {
            let row = at.get(index);
            if row < least || row >= rows as u64 {
                return Err(BadBlock("the exceptions of a string column do not ascend"));
            }
            each(row as usize);
            least = row + 1;
        }
        Ok(())
    }
}
