//! The PFOR column (patched frame of reference): codes only as wide as most values need, and a list
//! of the others.
//!
//! Durations, sizes and counts have a long tail: without the few largest values all others fit into
//! a fraction of the bits. The code of all ones marks the row as an *exception*; the rows of the
//! exceptions are in a sorted list, followed by the distance of each value from the base.
//!
//! ```text
//! pfor = 65 | width of a code u8 | width of an excess u8 | length of base u8 | exceptions u16
//!         | base | codes | rows of the exceptions | their excesses
//! ```
//! A row in the list takes as many bits as the last row of the column needs.

use super::super::{
    super::BadBlock,
    bits::{Codes, mask_of, pack, packed_bytes, width_of},
};
use super::{
    IntKind,
    head::{cut_unsigned, put_low, row_width, unsigned_bytes},
    tag,
    traits::{IntColumn, IntPlan, Scratch, Values},
};

const HEAD_BYTES: usize = 6;

/// A PFOR column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Pfor<'a> {
    base: u64,
    codes: Codes<'a>,
    exceptions: usize,
    excess_width: u32,
    row_width: u32,
    /// The two lists of exceptions: most reads need neither.
    lists: &'a [u8],
}

/// The exceptions of a column.
#[derive(Clone, Copy, Debug)]
struct Exceptions<'a> {
    count: usize,
    rows: Codes<'a>,
    excesses: Codes<'a>,
}

impl<'a> IntColumn<'a> for Pfor<'a> {
    const KIND: IntKind = IntKind::Pfor;

    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let patched = Self::open(rest, rows)?;
        patched.cut_lists(rest)?;
        Some(patched)
    }

    // Reads the header, up to the exceptions, which may be incomplete.
    #[inline]
    fn open(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, width, excess_width, base_bytes, low, high, ..] = **rest else { return None };
        *rest = rest.get(HEAD_BYTES..)?;
        let base = cut_unsigned(rest, base_bytes.into())?;
        let codes = Codes::cut(rest, width.into(), rows)?;
        let exceptions = usize::from(u16::from_le_bytes([low, high]));
        let (excess_width, row_width) = (excess_width.into(), row_width(rows));
        Some(Self { base, codes, exceptions, excess_width, row_width, lists: rest })
    }

    // Checks that the exceptions' rows ascend, and are the rows whose code is all ones.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        if self.codes.width() == 0 {
            return Err(BadBlock("a PFOR column has no codes"));
        }
        let exceptions = self.exceptions();
        let mut exception = 0;
        for row in 0..rows {
            if self.codes.get(row) == self.codes.mask() {
                let listed = exception < exceptions.count;
                if !listed || exceptions.rows.get(exception) != row as u64 {
                    return Err(BadBlock("a PFOR column lacks an exception"));
                }
                exception += 1;
            }
        }
        match exception == exceptions.count {
            true => Ok(()),
            false => Err(BadBlock("an exception of a PFOR column has no code")),
        }
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        let code = self.codes.get(row);
        let above = if code == self.codes.mask() { self.excess(row) } else { code };
        self.base.wrapping_add(above)
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        self.codes.decode(first, out);
        let Exceptions { count, rows, excesses } = self.exceptions();
        for exception in rows.lower_bound(0..count, first as u64)..count {
            let row = rows.get(exception) as usize;
            let Some(above) = out.get_mut(row.wrapping_sub(first)) else { break };
            *above = excesses.get(exception);
        }
        out.iter_mut().for_each(|value| *value = value.wrapping_add(self.base));
    }
}

impl<'a> Pfor<'a> {
    fn cut_lists(&self, rest: &mut &'a [u8]) -> Option<Exceptions<'a>> {
        let rows = Codes::cut(rest, self.row_width, self.exceptions)?;
        let excesses = Codes::cut(rest, self.excess_width, self.exceptions)?;
        Some(Exceptions { count: self.exceptions, rows, excesses })
    }

    /// The exceptions; none if they are incomplete.
    #[inline]
    fn exceptions(&self) -> Exceptions<'a> {
        let none = Exceptions { count: 0, rows: Codes::default(), excesses: Codes::default() };
        self.cut_lists(&mut { self.lists }).unwrap_or(none)
    }

    #[cold]
    fn excess(&self, row: usize) -> u64 {
        let Exceptions { count, rows, excesses } = self.exceptions();
        excesses.get(rows.lower_bound(0..count, row as u64))
    }
}

/// A plan to encode values as a PFOR column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    base: u64,
    width: u32,
    excess_width: u32,
    exceptions: usize,
}

impl IntPlan for Plan {
    const KIND: IntKind = IntKind::Pfor;

    fn below(values: &Values<'_>, bytes_max: usize, _: &mut Scratch) -> Option<Self> {
        let ((min, max), values) = (values.ends(), values.all);
        let rows = values.len();
        if HEAD_BYTES + packed_bytes(rows, 1) >= bytes_max {
            return None;
        }
        // A value is an exception at every width into which its distance from the base + 1 does not
        // fit: all ones have another meaning. Neighbours are counted in different arrays, so that
        // no increment waits for the one before it.
        let mut counts = [[0u32; 66]; 2];
        let width_at = |value: u64| match value.wrapping_sub(min).wrapping_add(1) {
            0 => 65,
            above => width_of(above) as usize,
        };
        let [even, odd] = &mut counts;
        for pair in values.chunks(2) {
            if let Some(&value) = pair.first() {
                even[width_at(value)] += 1;
            }
            if let Some(&value) = pair.get(1) {
                odd[width_at(value)] += 1;
            }
        }
        let excess_width = width_of(max - min);
        let (mut best, mut bytes) = (None, bytes_max);
        let count_at = |width: u32| even[width as usize] + odd[width as usize];
        let mut exceptions = count_at(excess_width + 1);
        for width in (1..excess_width).rev() {
            exceptions += count_at(width + 1);
            let plan = Self { base: min, width, excess_width, exceptions: exceptions as usize };
            if plan.bytes(rows) < bytes {
                (best, bytes) = (Some(plan), plan.bytes(rows));
            }
        }
        best
    }

    fn bytes(&self, rows: usize) -> usize {
        HEAD_BYTES
            + unsigned_bytes(self.base) as usize
            + packed_bytes(rows, self.width)
            + packed_bytes(self.exceptions, row_width(rows))
            + packed_bytes(self.exceptions, self.excess_width)
    }

    fn write(&self, values: &[u64], _: &mut Scratch, out: &mut Vec<u8>) {
        let Self { base, width, excess_width, exceptions } = *self;
        let base_bytes = unsigned_bytes(base);
        out.extend_from_slice(&[tag::PFOR, width as u8, excess_width as u8, base_bytes as u8]);
        out.extend_from_slice(&(exceptions as u16).to_le_bytes());
        put_low(base, base_bytes, out);
        let escape = mask_of(width);
        let above = values.iter().map(|value| value - base);
        pack(above.clone().map(|above| above.min(escape)), width, out);
        let excesses = above.enumerate().filter(|(_, above)| *above >= escape);
        pack(excesses.clone().map(|(row, _)| row as u64), row_width(values.len()), out);
        pack(excesses.map(|(_, above)| above), excess_width, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{contradictions_are_detected, holds},
        *,
    };

    #[test]
    fn values_with_a_tail_round_trip_and_survive_damage() {
        let value = |row: u64| if row % 17 == 3 { row << 40 } else { 5000 + row % 11 };
        holds::<Plan>(&(0..150).map(value).collect::<Vec<u64>>());
    }

    #[test]
    fn contradictions_are_found() {
        let sound = "41 03 0A 00 01 00 8D 85 9D 06 E8 03";
        contradictions_are_detected(&[
            // The exception is at another row; it has no code; there are no codes.
            (8, sound, "41 03 0A 00 01 00 8D 85 9D 05 E8 03"),
            (8, sound, "41 03 0A 00 01 00 8D 85 81 06 E8 03"),
            (1, "41 01 00 00 00 00 00", "41 00 00 00 01 00"),
        ]);
    }
}
