//! The data set `sbtest`: the table of sysbench's OLTP tests with its index on `k`.
//!
//! Invariants
//! 1. `c` is ten groups of eleven random digits and `pad` five, joined by '-', both with the space
//!    that pads them to CHAR(120) and CHAR(60): 365 and 182 bits of information.
//! 2. `k` is uniform over the ids, independent of the row's own id.

use super::Source;
use crate::random::{Purpose, Random};
use crate::schema::{Column, Index, Table, Type, Value};
use crate::targets::Result;

/// Number of groups of digits in `c` and in `pad`.
pub const GROUPS: [u32; 2] = [10, 5];
/// Number of digits in a group.
const DIGITS: u32 = 11;

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub id: i32,
    pub k: i32,
    pub c: String,
    pub pad: String,
}

/// Generator of the rows.
pub struct Sbtest {
    random: Random,
    rows: u64,
    last: i32,
}

impl Sbtest {
    /// Creates a generator for a table of `rows` rows.
    pub fn new(seed: u64, rows: u64) -> Self {
        let random = Random::stream(seed, "sbtest", 0, 0, Purpose::Data);
        Self { random, rows, last: 0 }
    }
}

/// Writes the random digits of `c` or `pad`, without the space that pads a CHAR.
pub fn write_digits(random: &mut Random, groups: u32, out: &mut String) {
    out.clear();
    for group in 0..groups {
        if group > 0 {
            out.push('-');
        }
        let mut digits = random.below(10_u64.pow(DIGITS));
        let mut place = 10_u64.pow(DIGITS - 1);
        while place > 0 {
            out.push(char::from(b'0' + (digits / place) as u8));
            digits %= place;
            place /= 10;
        }
    }
}

impl Source for Sbtest {
    type Record = Record;
    type Columns<'a> = [Value<'a>; 4];
    const NAME: &'static str = "sbtest";
    // sysbench's loader sends statements of at most 512 KiB of text, at 205 bytes per row.
    const ROWS_PER_COMMIT: u64 = 2_500;
    const INNODB_ROW_BYTES: u64 = 242;

    fn table() -> Table {
        Table {
            base: 0,
            name: "sbtest1",
            columns: vec![
                Column::new("id", Type::I32),
                Column::new("k", Type::I32),
                Column::new("c", Type::Text),
                Column::new("pad", Type::Text),
            ],
            primary: vec![0],
            indexes: vec![Index { name: "k_1", columns: vec![1] }],
        }
    }

    fn next(&mut self, record: &mut Record) -> bool {
        self.last += 1;
        record.id = self.last;
        record.k = self.random.below(self.rows) as i32 + 1;
        for (groups, text) in GROUPS.into_iter().zip([&mut record.c, &mut record.pad]) {
            write_digits(&mut self.random, groups, text);
            text.push(' ');
        }
        true
    }

    /// Returns the random bytes of a row: log2(10) bits for each digit of `c` and `pad`, and those
    /// of `k`, which is any of the ids.
    fn yardstick(_seed: u64, rows: u64) -> Result<Option<(&'static str, f64)>> {
        let digits = f64::from(GROUPS.iter().sum::<u32>() * DIGITS);
        let bits = digits * 10_f64.log2() + (rows as f64).log2();
        Ok(Some(("random_b_row", bits / 8.0)))
    }

    fn columns<'a>(&'a self, record: &'a Record) -> [Value<'a>; 4] {
        [
            Value::I32(record.id),
            Value::I32(record.k),
            Value::Text(&record.c),
            Value::Text(&record.pad),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::testing::{packed, zlib_ratio};

    #[test]
    fn rows_match_those_of_sysbench() {
        const ROWS: u64 = 20_000;
        let mut sbtest = Sbtest::new(42, ROWS);
        let (mut record, mut digits, mut sum_k) = (Record::default(), [0u32; 10], 0.0);
        for id in 1..=ROWS as i32 {
            assert!(sbtest.next(&mut record));
            assert_eq!((record.id, record.c.len(), record.pad.len()), (id, 120, 60));
            assert!((1..=ROWS as i32).contains(&record.k));
            sum_k += f64::from(record.k);
            for (text, groups) in [(&record.c, 10), (&record.pad, 5)] {
                let text = text.strip_suffix(' ').expect("filled up with a space");
                assert!(text.split('-').all(|group| group.len() == 11));
                assert_eq!(text.split('-').count(), groups);
                let bytes = text.bytes().filter(u8::is_ascii_digit);
                bytes.for_each(|byte| digits[usize::from(byte - b'0')] += 1);
            }
        }
        let tenth = ROWS as u32 * 165 / 10;
        assert!(digits.iter().all(|n| n.abs_diff(tenth) < tenth / 50), "{digits:?}");
        let mean = sum_k / (ROWS as f64).powi(2);
        assert!((0.49..0.51).contains(&mean), "k is {mean} of the ids on average");
    }

    #[test]
    fn random_bytes_of_a_row_are_counted_from_its_digits() {
        let mut sbtest = Sbtest::new(7, 1 << 20);
        let mut record = Record::default();
        assert!(sbtest.next(&mut record));
        let digits =
            record.c.chars().chain(record.pad.chars()).filter(char::is_ascii_digit).count();
        let random = Sbtest::yardstick(7, 1 << 20).expect("it cannot fail");
        let (metric, bytes) = random.expect("its rows are known");
        // An id below 2^20 has 20 bits.
        assert!((bytes - (digits as f64 * 0.41524 + 2.5)).abs() < 0.01, "{bytes}");
        assert_eq!((metric, digits), ("random_b_row", 165));
    }

    #[test]
    fn rows_compress_as_the_reference_does() {
        let bytes = packed(Sbtest::new(42, 10_000), 10_000);
        assert_eq!(bytes.len() / 10_000, 190);
        for (block, reference) in [(16 << 10, 1.81), (64 << 10, 1.87)] {
            let ratio = zlib_ratio(&bytes, block);
            assert!((ratio / reference - 1.0).abs() < 0.05, "{ratio} for {reference} at {block}");
        }
    }
}
