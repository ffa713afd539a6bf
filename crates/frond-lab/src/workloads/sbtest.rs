//! `sbtest`: the table of sysbench's OLTP tests with its index on `k` (WORKLOADS §2).
//!
//! Invariants
//! 1. `c` is ten groups of eleven random digits and `pad` five, joined by '-', both with the space that
//!    CHAR(120) and CHAR(60) are filled up with: 365 and 182 bits of information.
//! 2. `k` is uniform over the ids, independent of the row's own.

use super::load::Source;
use crate::random::{Purpose, Random};
use crate::schema::{Column, Index, Table, Type, Value};

/// A row.
#[derive(Clone, Debug, Default)]
pub struct Record {
    id: i32,
    k: i32,
    c: String,
    pad: String,
}

/// Generator of the rows.
pub struct Sbtest {
    random: Random,
    rows: u64,
    last: i32,
}

impl Sbtest {
    /// A table that is to have `rows` rows.
    pub fn new(seed: u64, rows: u64) -> Self {
        let random = Random::stream(seed, "sbtest", 0, 0, Purpose::Data);
        Self { random, rows, last: 0 }
    }

    fn write_digits(&mut self, groups: u32, out: &mut String) {
        out.clear();
        for group in 0..groups {
            if group > 0 {
                out.push('-');
            }
            let mut digits = self.random.below(100_000_000_000); // 11 digits
            let mut place = 10_000_000_000;
            while place > 0 {
                out.push(char::from(b'0' + (digits / place) as u8));
                digits %= place;
                place /= 10;
            }
        }
        out.push(' ');
    }
}

impl Source for Sbtest {
    type Record = Record;
    type Columns<'a> = [Value<'a>; 4];
    const STEP: &'static str = "sbtest";
    // Its loader sends statements of at most 512 KiB of text, 205 bytes a row.
    const ROWS_PER_COMMIT: usize = 2_500;

    fn table() -> Table {
        let column = |name, kind| Column { name, kind };
        Table {
            name: "sbtest1",
            columns: vec![
                column("id", Type::I32),
                column("k", Type::I32),
                column("c", Type::Text),
                column("pad", Type::Text),
            ],
            primary: vec![0],
            indexes: vec![Index { name: "k_1", columns: vec![1] }],
        }
    }

    fn next(&mut self, record: &mut Record) -> bool {
        self.last += 1;
        record.id = self.last;
        record.k = self.random.below(self.rows) as i32 + 1;
        self.write_digits(10, &mut record.c);
        self.write_digits(5, &mut record.pad);
        true
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
    use crate::workloads::testing::{packed, zlib_ratio};

    #[test]
    fn rows_are_as_sysbench_makes_them() {
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
    fn rows_compress_as_the_reference_does() {
        let bytes = packed(Sbtest::new(42, 10_000), 10_000);
        assert_eq!(bytes.len() / 10_000, 190);
        for (block, reference) in [(16 << 10, 1.81), (64 << 10, 1.87)] {
            let ratio = zlib_ratio(&bytes, block);
            assert!((ratio / reference - 1.0).abs() < 0.05, "{ratio} for {reference} at {block}");
        }
    }
}
