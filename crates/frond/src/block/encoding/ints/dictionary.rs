//! The dictionary integer column: up to 256 distinct values, sorted, and for each row an index into
//! them.
//!
//! States, kinds and external codes are few and far apart. The values are sorted, so indexes
//! compare as their values do.
//!
//! ```text
//! dictionary = 67 | values - 1, u8 | width of a value u8 | length of base u8
//!            | base | values above the base, ascending | places
//! ```
//! An index (place) takes as many bits as the last one needs.

use std::ops::Range;

use super::super::{
    super::BadBlock,
    bits::{Codes, pack, packed_bytes, partition, width_of},
};
use super::{
    IntKind,
    head::{cut_unsigned, put_low, unsigned_bytes},
    tag,
    traits::{IntColumn, IntPlan, Scratch, Values, equal_rows},
};

const HEAD_BYTES: usize = 4;
/// Most values of a dictionary.
const VALUES_MAX: usize = 256;
/// With this many rows or more it pays to unpack the values first.
const TABLE_ROWS_MIN: usize = 64;

/// A dictionary column, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary<'a> {
    base: u64,
    count: usize,
    values: Codes<'a>,
    places: Codes<'a>,
}

impl<'a> IntColumn<'a> for Dictionary<'a> {
    const KIND: IntKind = IntKind::Dictionary;

    #[inline]
    fn cut(rest: &mut &'a [u8], rows: usize) -> Option<Self> {
        let [_, last, width, base_bytes, ..] = **rest else { return None };
        *rest = rest.get(HEAD_BYTES..)?;
        let base = cut_unsigned(rest, base_bytes.into())?;
        let count = usize::from(last) + 1;
        Some(Self {
            base,
            count,
            values: Codes::cut(rest, width.into(), count)?,
            places: Codes::cut(rest, width_of(last.into()), rows)?,
        })
    }

    // Checks that the values ascend, and that every index has a value.
    fn check(&self, rows: usize) -> Result<(), BadBlock> {
        if (1..self.count).any(|place| self.values.get(place - 1) >= self.values.get(place)) {
            return Err(BadBlock("the dictionary of a column does not ascend"));
        }
        if self.values.get(self.count - 1) > u64::MAX - self.base {
            return Err(BadBlock("the dictionary of a column leads beyond all numbers"));
        }
        if (0..rows).any(|row| self.places.get(row) >= self.count as u64) {
            return Err(BadBlock("a row is not in its column's dictionary"));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, row: usize) -> u64 {
        self.base.wrapping_add(self.values.get(self.places.get(row) as usize))
    }

    fn decode(&self, first: usize, out: &mut [u64]) {
        self.places.decode(first, out);
        if out.len() < TABLE_ROWS_MIN {
            for value in out {
                *value = self.base.wrapping_add(self.values.get(*value as usize));
            }
            return;
        }
        let mut table = [0; VALUES_MAX];
        self.values.decode(0, table.get_mut(..self.count).unwrap_or_default());
        table.iter_mut().for_each(|value| *value = value.wrapping_add(self.base));
        for value in out {
            // An index has at most eight bits.
            *value = table[*value as usize % VALUES_MAX];
        }
    }

    fn lower_bound(&self, rows: Range<usize>, value: u64) -> usize {
        let place = self.values.lower_bound(0..self.count, value.saturating_sub(self.base));
        self.places.lower_bound(rows, place as u64)
    }

    fn equal_range(&self, rows: Range<usize>, value: u64) -> Range<usize> {
        let Some(above) = value.checked_sub(self.base) else { return rows.start..rows.start };
        let place = self.values.lower_bound(0..self.count, above);
        let first = self.places.lower_bound(rows.clone(), place as u64);
        if place == self.count || self.values.get(place) != above {
            return first..first;
        }
        equal_rows(first, rows.end, |row| self.places.get(row) == place as u64)
    }
}

/// A plan to encode values as a dictionary column.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    base: u64,
    width: u32,
    count: usize,
}

impl IntPlan for Plan {
    const KIND: IntKind = IntKind::Dictionary;

    fn below(values: &Values<'_>, bytes_max: usize, scratch: &mut Scratch) -> Option<Self> {
        let (distinct, (min, max)) = (&mut scratch.distinct, values.ends());
        let values = values.all;
        let plan = |count| Self { base: min, width: width_of(max - min), count };
        let rows = values.len();
        let count_max =
            partition(1..VALUES_MAX + 1, |count| plan(count).bytes(rows) < bytes_max) - 1;
        distinct.collect(values, count_max).then(|| plan(distinct.values.len()))
    }

    fn bytes(&self, rows: usize) -> usize {
        HEAD_BYTES
            + unsigned_bytes(self.base) as usize
            + packed_bytes(self.count, self.width)
            + packed_bytes(rows, width_of(self.count as u64 - 1))
    }

    fn write(&self, values: &[u64], Scratch { distinct, .. }: &mut Scratch, out: &mut Vec<u8>) {
        let Self { base, width, count } = *self;
        let base_bytes = unsigned_bytes(base);
        out.extend_from_slice(&[tag::DICTIONARY, (count - 1) as u8, width as u8, base_bytes as u8]);
        put_low(base, base_bytes, out);
        distinct.sort();
        pack(distinct.sorted.iter().map(|(value, _)| value - base), width, out);
        let places = values.iter().map(|&value| distinct.place(value));
        pack(places, width_of(count as u64 - 1), out);
    }
}

/// Slots of the hash table: at most half of them are used.
const SLOTS: usize = 2 * VALUES_MAX;

/// The distinct values of a column, if they are few.
#[derive(Debug)]
pub struct Distinct {
    /// In order of first occurrence.
    values: Vec<u64>,
    /// Sorted, with each value's index in `values`.
    sorted: Vec<(u64, u16)>,
    /// Rank in the sorted order, by index in `values`.
    places: Vec<u16>,
    /// 1 + index in `values`; 0 in a free slot.
    slots: [u16; SLOTS],
}

impl Default for Distinct {
    fn default() -> Self {
        Self { values: Vec::new(), sorted: Vec::new(), places: Vec::new(), slots: [0; SLOTS] }
    }
}

impl Distinct {
    /// Collects the values; false if there are more than `count_max`.
    fn collect(&mut self, values: &[u64], count_max: usize) -> bool {
        self.values.clear();
        self.slots.fill(0);
        // Equal values often follow each other.
        let mut last = None;
        for &value in values {
            if last == Some(value) {
                continue;
            }
            last = Some(value);
            let (slot, number) = self.find(value);
            if number.is_none() {
                if self.values.len() == count_max {
                    return false;
                }
                self.values.push(value);
                if let Some(slot) = self.slots.get_mut(slot) {
                    *slot = self.values.len() as u16;
                }
            }
        }
        !self.values.is_empty()
    }

    /// The slot of a value, and its index if it has one.
    #[inline]
    fn find(&self, value: u64) -> (usize, Option<usize>) {
        let mut slot = (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - 9)) as usize;
        loop {
            match usize::from(self.slots[slot % SLOTS]) {
                0 => return (slot % SLOTS, None),
                number if self.values.get(number - 1) == Some(&value) => {
                    return (slot % SLOTS, Some(number - 1));
                }
                _ => slot += 1,
            }
        }
    }

    fn sort(&mut self) {
        self.sorted.clear();
        self.sorted.extend(self.values.iter().zip(0..).map(|(&value, number)| (value, number)));
        self.sorted.sort_unstable();
        self.places.clear();
        self.places.resize(self.values.len(), 0);
        for (place, (_, number)) in (0..).zip(&self.sorted) {
            if let Some(of_number) = self.places.get_mut(usize::from(*number)) {
                *of_number = place;
            }
        }
    }

    /// A value's rank, after [`sort`](Distinct::sort).
    #[inline]
    fn place(&self, value: u64) -> u64 {
        let (_, number) = self.find(value);
        number.and_then(|number| self.places.get(number)).copied().unwrap_or(0).into()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{contradictions_are_detected, holds},
        *,
    };

    #[test]
    fn few_values_round_trip_and_survive_damage() {
        let value = |row: u64| [0, 1, 17, 4_000_000_000, 1 << 63][row as usize * 7 % 5];
        holds::<Plan>(&(0..130).map(value).collect::<Vec<u64>>());
    }

    #[test]
    fn contradictions_are_found() {
        contradictions_are_detected(&[
            // Equal words; an index beyond them.
            (2, "43 01 08 00 01 02 01", "43 01 08 00 01 01 01"),
            (2, "43 02 08 00 01 02 03 01", "43 02 08 00 01 02 03 03"),
            // A word beyond 2^64, which a search would not find.
            (
                2,
                "43 01 08 08 FE FF FF FF FF FF FF FF 00 01 02",
                "43 01 08 08 FE FF FF FF FF FF FF FF 00 02 02",
            ),
        ]);
    }
}
