//! `iibench-2011`: rows in primary-key order, three secondary indexes in random order.
//!
//! Invariants
//! 1. `price` follows `customerid`, so two of the indexes have almost the same order.
//! 2. Time is virtual: one second per 20,000 rows, one value per commit, starting at 2011-06-01. In
//!    SQL it is a DATETIME with whole seconds.
//!
//! Comparable with Tokutek's published figures: one client, 1000 rows per commit, indexes created
//! before the first row.

use std::time::{Duration, Instant};

use super::{Bench, Spec, Volume, Workload};
use crate::measure::Meter;
use crate::random::{Purpose, Random};
use crate::schema::{Checksum, Column, EncodedRow, Index, Table, Type, Value};
use crate::targets::{Begin, Clients, Connection, Result, Span, Target};

/// Rows per commit in the published runs.
pub const ROWS_PER_COMMIT: u64 = 1000;
/// 2011-06-01 00:00:00 UTC in milliseconds.
const START_MILLIS: u64 = 1_306_886_400_000;
const ROWS_PER_VIRTUAL_SECOND: u64 = 20_000;
/// Bytes of a row: 4 + 8 + 4 + 4 + 4 + 4.
const ROW_BYTES: u64 = 28;
/// Bytes of the index entries with the primary key: 12 + 16 + 20.
const INDEX_BYTES: u64 = 48;

/// Returns the table `purchases_index`.
pub fn table() -> Table {
    let column = |name, kind| Column { name, kind };
    Table {
        name: "purchases_index",
        base: 0,
        columns: vec![
            column("transactionid", Type::I32),
            column("dateandtime", Type::Millis),
            column("cashregisterid", Type::I32),
            column("customerid", Type::I32),
            column("productid", Type::I32),
            column("price", Type::F32),
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

/// Computes the price of a row (Invariant 1).
pub fn price(unit: f64, customer: i32) -> f32 {
    ((unit * 500.0 + f64::from(customer)) / 100.0) as f32
}

/// The rows of one commit, generated before its clock runs.
pub struct Batch {
    rows: Vec<[Value<'static>; 6]>,
    encoded: Vec<EncodedRow>,
}

impl Batch {
    /// Creates an empty batch, to be reused.
    pub fn new() -> Self {
        let encoded = vec![EncodedRow::default(); ROWS_PER_COMMIT as usize];
        Self { rows: Vec::with_capacity(encoded.len()), encoded }
    }

    /// Generates the next `n` rows and adds them to `sums`.
    pub fn generate(
        &mut self,
        purchases: &mut Purchases,
        table: &Table,
        n: usize,
        sums: &mut [Checksum],
    ) {
        self.rows.clear();
        for encoded in self.encoded.iter_mut().take(n) {
            let row = purchases.next_row();
            encoded.encode(table, &row);
            encoded.add_to(sums);
            self.rows.push(row);
        }
    }

    /// Inserts the rows as one commit.
    pub fn insert(&self, table: &Table, connection: &mut dyn Connection) -> Result<()> {
        connection.begin(Begin::Batch)?;
        for (row, encoded) in self.rows.iter().zip(&self.encoded) {
            connection.insert_row(table, row, encoded)?;
        }
        Ok(connection.commit()?)
    }
}

/// The load, alone or with a concurrent query client.
pub struct Iibench {
    spec: Spec,
    table: Table,
    sums: Vec<Checksum>,
    queries: bool,
}

impl Iibench {
    /// Creates the workload; with `queries`, one client queries while the other inserts.
    pub fn new(spec: &Spec, queries: bool) -> Self {
        let table = table();
        let sums = vec![Checksum::default(); table.indexes.len() + 1];
        Self { spec: spec.clone(), table, sums, queries }
    }
}

/// Inserts `rows` rows, a thousand per commit. Returns how many were inserted.
fn insert(
    meter: &Meter,
    target: &dyn Target,
    (rows, clients): (u64, u64),
    (purchases, table, sums): (&mut Purchases, &Table, &mut [Checksum]),
) -> Result<u64> {
    let mut connection = target.connect(Clients::many(clients))?;
    let mut batch = Batch::new();
    let mut client = meter.client("commit");
    let mut left = rows;
    while left > 0 && client.go_on() {
        let n = left.min(ROWS_PER_COMMIT);
        batch.generate(purchases, table, n as usize, sums);
        client.time(n, || batch.insert(table, connection.as_mut()))?;
        left -= n;
    }
    Ok(rows - left)
}

/// Number of rows that a query reads.
pub const QUERY_ROWS: u64 = 10;
/// Number of rows after which queries start, or a fifth of all if that is less.
pub const QUERIES_FROM: u64 = 1_000_000;

/// Runs the four query shapes of the published mode, each reading an index from a random place on.
/// Latency counts from the scheduled start, unless there is no schedule.
fn query(meter: &Meter, target: &dyn Target, spec: &Spec, table: &Table) -> Result<u64> {
    let mut choice = Random::stream(spec.seed, "iibench", 0, 1, Purpose::Choice);
    while meter.done() < QUERIES_FROM.min(spec.rows / 5) && !meter.is_stopped() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut connection = target.connect(Clients::many(2))?;
    let mut client = meter.side_client("query");
    let pause = Duration::from_secs_f64(1.0 / spec.query_rate.max(1e-6));
    let (mut due, mut read) = (Instant::now(), 0);
    for shape in (0..4).cycle() {
        if spec.query_rate > 0.0 {
            due += pause;
            while let Some(early) = due.checked_duration_since(Instant::now()) {
                if meter.is_stopped() {
                    return Ok(read);
                }
                std::thread::sleep(early.min(Duration::from_millis(50)));
            }
        } else {
            due = Instant::now();
        }
        if meter.is_stopped() {
            break;
        }
        let (keyspace, from) = question(shape, meter.done(), &mut choice);
        let span = Span { from: &from, limit: QUERY_ROWS, ..Span::ALL };
        client.time_from(due, || {
            connection.range(table, keyspace, &span, &mut |key, value| {
                std::hint::black_box((key, value));
                read += 1;
                true
            })
        })?;
    }
    Ok(read)
}

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

impl Workload for Iibench {
    fn table(&self) -> Table {
        self.table.clone()
    }

    fn unique(&self) -> bool {
        false
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<()> {
        let (rows, table, sums) = (self.spec.rows, &self.table, &mut self.sums);
        let (spec, queries) = (&self.spec, self.queries);
        let mut purchases = Purchases::new(spec.seed, false);
        let name = if queries { "iibench-query" } else { "iibench" };
        let (mut read, clients) = (None, 1 + u64::from(queries));
        let row = bench.step(name, "row", rows, None, |meter, target| {
            std::thread::scope(|scope| {
                let asker = queries.then(|| scope.spawn(|| query(meter, target, spec, table)));
                let done = insert(meter, target, (rows, clients), (&mut purchases, table, sums));
                meter.stop_side_clients(); // before any error returns: `asker` would never end
                if let Some(asker) = asker {
                    read = Some(asker.join().expect("a panic of a client ends the run")?);
                }
                Ok(Volume { changed_bytes: done? * ROW_BYTES, ..Volume::default() })
            })
        })?;
        row.found = read;
        Ok(())
    }

    fn expected(&self) -> Vec<Checksum> {
        self.sums.clone()
    }

    fn volume(&self) -> Volume {
        let rows = self.sums.first().map_or(0, |sum| sum.rows);
        Volume {
            changed_bytes: rows * ROW_BYTES,
            live_bytes: rows * ROW_BYTES,
            live_bytes_indexed: rows * (ROW_BYTES + INDEX_BYTES),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(encoded.key.len() + encoded.value.len(), ROW_BYTES as usize);
            let entries: usize = encoded.index_keys.iter().map(Vec::len).sum();
            assert_eq!(entries, INDEX_BYTES as usize);
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
