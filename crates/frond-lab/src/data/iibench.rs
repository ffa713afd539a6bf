//! Generator of the rows of `iibench-2011`: rows in primary-key order, with three secondary indexes
//! in random order.
//!
//! Invariants
//! 1. `price` follows `customerid`, so two of the indexes have almost the same order.
//! 2. Time is virtual: one second per 20,000 rows, one value per commit, starting at 2011-06-01. In
//!    SQL it is a DATETIME with whole seconds.
//!
//! Comparable with Tokutek's published figures: one client, 1000 rows per commit, indexes created
//! before the first row.

use super::Source;
use crate::random::{Purpose, Random};
use crate::schema::{Column, Index, Table, Type, Value};

/// Rows per commit in the published runs.
pub const ROWS_PER_COMMIT: u64 = 1000;
/// 2011-06-01 00:00:00 UTC in milliseconds.
const START_MILLIS: u64 = 1_306_886_400_000;
const ROWS_PER_VIRTUAL_SECOND: u64 = 20_000;

/// Returns the table `purchases_index`.
pub fn table() -> Table {
    Table {
        name: "purchases_index",
        base: 0,
        columns: vec![
            Column::new("transactionid", Type::I32),
            Column::new("dateandtime", Type::Millis),
            Column::new("cashregisterid", Type::I32),
            Column::new("customerid", Type::I32),
            Column::new("productid", Type::I32),
            Column::new("price", Type::F32),
        ],
        primary: vec![0],
        indexes: vec![
            Index { name: "marketsegment", columns: vec![5, 3] },
            Index { name: "registersegment", columns: vec![2, 5, 3] },
            Index { name: "pdc", columns: vec![5, 1, 3] },
        ],
    }
}

/// Generator of the rows.
pub struct Purchases {
    random: Random,
    next: u64,
    whole_seconds: bool,
}

impl Purchases {
    /// Creates a generator that starts at the first row.
    pub fn new(seed: u64, whole_seconds: bool) -> Self {
        let random = Random::stream(seed, "iibench", 0, 0, Purpose::Data);
        Self { random, next: 1, whole_seconds }
    }

    /// Returns the next row.
    pub fn next_row(&mut self) -> [Value<'static>; 6] {
        let id = self.next;
        self.next += 1;
        let batch_first = (id - 1) / ROWS_PER_COMMIT * ROWS_PER_COMMIT;
        let millis = START_MILLIS + batch_first * 1000 / ROWS_PER_VIRTUAL_SECOND;
        let millis = if self.whole_seconds { millis / 1000 * 1000 } else { millis };
        let random = &mut self.random;
        let register = random.below(1_000) as i32;
        let customer = random.below(100_000) as i32;
        let product = random.below(10_000) as i32;
        let price = price(random.unit(), customer);
        [
            Value::I32(id as i32),
            Value::Millis(millis),
            Value::I32(register),
            Value::I32(customer),
            Value::I32(product),
            Value::F32(price),
        ]
    }
}

impl Source for Purchases {
    type Record = Option<[Value<'static>; 6]>;
    type Columns<'a> = &'a [Value<'a>];
    const NAME: &'static str = "iibench";
    const ROWS_PER_COMMIT: u64 = ROWS_PER_COMMIT;
    // Measured at 25 M rows.
    const INNODB_ROW_BYTES: u64 = 140;

    fn table() -> Table {
        table()
    }

    fn next(&mut self, row: &mut Self::Record) -> bool {
        *row = Some(self.next_row());
        true
    }

    fn columns<'a>(&'a self, row: &'a Self::Record) -> Self::Columns<'a> {
        row.as_ref().map_or(&[], |row| &row[..])
    }
}

/// Computes the price of a row (Invariant 1).
pub fn price(unit: f64, customer: i32) -> f32 {
    ((unit * 500.0 + f64::from(customer)) / 100.0) as f32
}

/// Number of rows that a query reads.
pub const QUERY_ROWS: u64 = 10;
/// Number of rows after which queries start, or a fifth of all if that is less.
pub const QUERIES_FROM: u64 = 1_000_000;

/// Returns the keyspace and first key of a query.
pub fn question(shape: u32, rows: u64, choice: &mut Random) -> (usize, Vec<Value<'static>>) {
    let id = choice.below(rows) as i32 + 1;
    let customer = choice.below(100_000) as i32;
    let price = Value::F32(price(choice.unit(), customer));
    let millis = START_MILLIS + choice.below(rows) * 1000 / ROWS_PER_VIRTUAL_SECOND;
    let customer = Value::I32(choice.below(100_000) as i32);
    match shape {
        0 => (0, vec![Value::I32(id)]),
        1 => (3, vec![price, Value::Millis(millis), customer]),
        2 => (1, vec![price, customer]),
        _ => (2, vec![Value::I32(choice.below(1_000) as i32), price, customer]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::EncodedRow;

    #[test]
    fn rows_match_the_published_generator() {
        let mut purchases = Purchases::new(42, false);
        let mut encoded = EncodedRow::default();
        let (mut registers, mut last_millis) = ([0u32; 1000], 0);
        for id in 1..=50_000 {
            let row = purchases.next_row();
            let [
                Value::I32(transaction),
                Value::Millis(millis),
                Value::I32(register),
                Value::I32(customer),
                Value::I32(product),
                Value::F32(price),
            ] = row
            else {
                panic!("columns are out of order: {row:?}");
            };
            assert_eq!(transaction, id);
            assert!((0..100_000).contains(&customer) && (0..10_000).contains(&product));
            let base = customer as f32 / 100.0;
            assert!((base..base + 5.001).contains(&price), "{customer} {price}");
            registers[register as usize] += 1;
            assert!(millis >= last_millis);
            last_millis = millis;
            encoded.encode(&table(), &row);
            assert_eq!(encoded.key.len() + encoded.value.len(), 4 + 8 + 4 + 4 + 4 + 4);
            let entries: usize = encoded.index_keys.iter().map(Vec::len).sum();
            assert_eq!(entries, 12 + 16 + 20, "with the primary key");
        }
        assert!(registers.iter().all(|&n| (15..100).contains(&n)));
        assert_eq!(last_millis, START_MILLIS + 49_000 * 1000 / ROWS_PER_VIRTUAL_SECOND);
    }

    #[test]
    fn the_same_seed_gives_the_same_rows() {
        let draw = |seed| {
            let mut purchases = Purchases::new(seed, false);
            (0..100).map(|_| purchases.next_row()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn in_sql_only_the_times_differ() {
        let (mut given, mut whole) = (Purchases::new(7, false), Purchases::new(7, true));
        for _ in 0..30_000 {
            let (given, whole) = (given.next_row(), whole.next_row());
            let [Value::Millis(exact), Value::Millis(second)] = [given[1], whole[1]] else {
                panic!("columns are out of order: {given:?}");
            };
            assert_eq!(second, exact / 1000 * 1000);
            assert_eq!((given[0], &given[2..]), (whole[0], &whole[2..]));
        }
    }
}
