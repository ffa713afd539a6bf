//! The generator of the insert benchmark's rows.
//!
//! Invariants
//! 1. All columns are uniform and independent of each other. `data` consists of letters `a` and
//!    then random base64 text, which is a quarter to three eighths of it.
//!
//! The published script takes the random text from a buffer of 4 MiB, in which a codec with a long
//! window finds repeats; here it is always new. Its dates come from the clock; here 20,000 rows
//! have the same second, so that the data are reproducible.

use crate::lab::sql::InsertText;
use crate::lab::time;
use crate::random::{Purpose, Random};

/// Number of rows with the same second.
const ROWS_PER_SECOND: u64 = 20_000;
/// Time of the first rows: 2011-06-01, in ms since 1970.
const EPOCH_MILLIS: u64 = 1_306_886_400_000;
/// Random share of `data`: the share of random text in the published script, times the share of
/// that text that is really random there.
const RANDOM_PART: f64 = 0.75 * 0.5;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Values of `cashregisterid` are below this.
pub const REGISTERS: u64 = 1_000;
/// Values of `productid` are below this.
pub const PRODUCTS: u64 = 10_000;
/// Values of `customerid` are below this.
const CUSTOMERS: u64 = 100_000;
/// Values of `price` are below this.
pub const PRICES: u64 = 500;

/// Bytes of a row: 8 + 8 + 4 × 4 + 15.
pub const ROW_BYTES: u64 = 47;

/// A generator of one table's rows.
pub struct Rows {
    random: Random,
    made: u64,
    second: (u64, String),
    data: String,
}

impl Rows {
    /// Makes the generator for the table with this number.
    pub fn new(seed: u64, table: u64) -> Self {
        let random = Random::stream(seed, "insertbench", table, 0, Purpose::Data);
        Self { random, made: 0, second: (u64::MAX, String::new()), data: String::new() }
    }

    /// Appends this many rows to a statement. All of them get the same time.
    pub fn append(&mut self, statement: &mut InsertText, rows: u64) {
        let second = self.made / ROWS_PER_SECOND;
        if self.second.0 != second {
            self.second = (second, time::date_time(EPOCH_MILLIS + 1_000 * second));
        }
        for _ in 0..rows {
            let random = &mut self.random;
            let (register, product) = (random.below(REGISTERS), random.below(PRODUCTS));
            let (customer, price) = (random.below(CUSTOMERS), random.below(PRICES));
            write_data(random, &mut self.data);
            let row = statement.row().simple(&self.second.1).plain(register).plain(customer);
            row.plain(product).plain(price).simple(&self.data);
        }
        self.made += rows;
    }
}

fn write_data(random: &mut Random, out: &mut String) {
    let length = random.between(10, 20) as usize;
    let fresh = (length as f64 * RANDOM_PART) as usize;
    out.clear();
    out.extend(std::iter::repeat_n('a', length - fresh));
    for _ in 0..fresh {
        out.push(char::from(BASE64[random.below(64) as usize]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_uniform_columns_and_random_text_at_the_end() {
        let (mut rows, mut statement) = (Rows::new(42, 0), InsertText::new(""));
        rows.append(&mut statement, 20_000);
        statement.close("");
        let text = statement.text().to_owned();
        let (mut sums, mut lengths) = ([0.0; 4], [0u32; 21]);
        for row in text.trim_matches(['(', ')']).split("),(") {
            let columns: Vec<&str> = row.split(',').collect();
            assert_eq!(columns[0], "'2011-06-01 00:00:00'");
            for (at, sum) in sums.iter_mut().enumerate() {
                *sum += columns[1 + at].parse::<f64>().expect("a number");
            }
            let data = columns[5].trim_matches('\'');
            lengths[data.len()] += 1;
            let fresh = data.len() * 3 / 8;
            assert!(data[..data.len() - fresh].bytes().all(|letter| letter == b'a'), "{data}");
        }
        let below = [REGISTERS, CUSTOMERS, PRODUCTS, PRICES];
        for (sum, below) in sums.iter().zip(below) {
            let mean = sum / 20_000.0 / below as f64;
            assert!((0.49..0.51).contains(&mean), "{mean} of {below}");
        }
        assert!(lengths[10..].iter().all(|n| (1_600..2_050).contains(n)), "{lengths:?}");
        rows.append(&mut statement, 1);
        statement.close("");
        assert!(statement.text().starts_with("('2011-06-01 00:00:01',"));
    }
}
