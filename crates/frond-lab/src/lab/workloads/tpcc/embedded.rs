//! TPC-C on embedded stores: the same rows, mix and input as in SQL, with transactions made of
//! calls to a store.
//!
//! Invariants
//! 1. Rows that a SQL statement would lock are locked before they are read: warehouse, district,
//!    stock, customer, order.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::pace;
use super::consistency;
use super::draw::{self, Customer, Drawn, Line};
use super::load::{Load, Sink};
use super::random::{DISTRICTS, write_name};
use super::tables::{
    CUSTOMER, DISTRICT, HISTORY, ITEM, NEW_ORDERS, ORDER_LINE, ORDERS, STOCK, WAREHOUSE, tables,
};
use super::{ENTRY, PARAMS, ROW_BYTES, Tpcc, count_orders};
use crate::decode;
use crate::lab::embedded::{Batch, Bench, Entry, Rows, Worker, Workload, missing};
use crate::lab::params::Param;
use crate::lab::step::Step;
use crate::random::{Purpose, Random};
use crate::schema::Table;
use crate::schema::Value::{self, I8, I16, I32, I64, Millis, Text, U64};
use crate::targets::{Attempt, Begin, Connection, Direction, Result, Span};

pub const EMBEDDED: Entry = Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: without_isolation(),
    make: |params, seed| Ok(Box::new(Tpcc::new(params, seed)?)),
};

const fn without_isolation() -> &'static [Param] {
    match PARAMS {
        [_, others @ ..] => others,
        [] => PARAMS,
    }
}

/// Number of rows per commit of the load.
const ROWS: u64 = 500;
/// Maximum length of a customer's data, in bytes.
const DATA_MAX: usize = 500;
/// Number of orders that a stock-level transaction examines.
const RECENT: i64 = 20;

/// The rows that a loader has collected, one batch per table.
struct Batches<'w, 'm, 't> {
    worker: &'w mut Worker<'m>,
    batches: Vec<Batch<'t>>,
    tables: &'t [Table],
}

impl Batches<'_, '_, '_> {
    fn send(&mut self, table: usize) -> Result<()> {
        self.worker.insert(self.tables[table].name, &mut self.batches[table]).map(drop)
    }
}

impl Sink for Batches<'_, '_, '_> {
    fn go_on(&mut self) -> bool {
        self.worker.go_on()
    }

    fn row(&mut self, table: usize, row: &[Value<'_>]) -> Result<()> {
        self.batches[table].push(row);
        if self.batches[table].len() >= ROWS { self.send(table) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        (0..self.batches.len()).try_for_each(|table| self.send(table))
    }
}

fn tiny(number: u64) -> Value<'static> {
    I8(number as i8)
}

fn small(number: u64) -> Value<'static> {
    I16(number as i16)
}

fn int(number: u64) -> Value<'static> {
    I32(number as i32)
}

/// A client's access to the tables.
struct Transactions<'t> {
    rows: Vec<Rows<'t>>,
    /// Key of the next row of `history`.
    next: &'t AtomicU64,
    now: u64,
    name: String,
}

impl Transactions<'_> {
    /// Runs one transaction, in its home warehouse and district.
    fn run(
        &mut self,
        connection: &mut dyn Connection,
        home: u64,
        district: u64,
        drawn: &Drawn,
    ) -> Attempt<()> {
        let is_read = matches!(drawn, Drawn::OrderStatus { .. } | Drawn::StockLevel { .. });
        connection.begin(if is_read { Begin::Read } else { Begin::Write })?;
        let commits = match drawn {
            Drawn::NewOrder { customer, lines, .. } => {
                self.new_order(connection, (home, district), *customer, lines)?
            }
            Drawn::Payment { customer, of, amount } => {
                self.payment(connection, (home, district), *of, *customer, *amount as i64)?;
                true
            }
            Drawn::OrderStatus { customer } => {
                self.order_status(connection, (home, district), *customer)?;
                true
            }
            Drawn::Delivery { carrier } => {
                for district in 1..=DISTRICTS {
                    self.deliver(connection, (home, district), *carrier)?;
                }
                true
            }
            Drawn::StockLevel { threshold } => {
                self.stock_level(connection, (home, district), *threshold as i64)?;
                true
            }
        };
        if commits { connection.commit() } else { Ok(connection.rollback()?) }
    }

    /// Reads a row that must exist.
    fn read(
        &mut self,
        connection: &mut dyn Connection,
        table: usize,
        key: &[Value<'_>],
    ) -> Attempt<Vec<Value<'_>>> {
        let rows = &mut self.rows[table];
        if !rows.read(connection, key)? {
            return Err(missing(rows.table).into());
        }
        Ok(rows.columns()?)
    }

    /// Locks and reads a row that must exist.
    fn lock(
        &mut self,
        connection: &mut dyn Connection,
        table: usize,
        key: &[Value<'_>],
    ) -> Attempt<Vec<Value<'_>>> {
        let rows = &mut self.rows[table];
        if !rows.lock(connection, key)? {
            return Err(missing(rows.table).into());
        }
        Ok(rows.columns()?)
    }

    /// Enters a new order (clause 2.4.2). Returns false if an item does not exist.
    fn new_order(
        &mut self,
        connection: &mut dyn Connection,
        (home, district): (u64, u64),
        customer: u64,
        lines: &[Line],
    ) -> Attempt<bool> {
        self.read(connection, WAREHOUSE, &[small(home)])?;
        self.read(connection, CUSTOMER, &[small(home), tiny(district), int(customer)])?;
        let row = self.lock(connection, DISTRICT, &[small(home), tiny(district)])?;
        let order = row[10].integer() as u64;
        self.rows[DISTRICT].update(connection, &[(10, int(order + 1))])?;
        let is_local = lines.iter().all(|line| line.supply == home);
        let key = [int(order), tiny(district), small(home)];
        let (now, count) = (Millis(self.now), tiny(lines.len() as u64));
        let rest = [int(customer), now, tiny(0), count, tiny(u64::from(is_local))];
        self.rows[ORDERS].insert(connection, &[&key[..], &rest].concat())?;
        self.rows[NEW_ORDERS].insert(connection, &key)?;
        for (at, line) in (1u64..).zip(lines) {
            if !self.rows[ITEM].read(connection, &[int(line.item)])? {
                return Ok(false);
            }
            let price = self.rows[ITEM].columns()?[3].integer();
            let row = self.lock(connection, STOCK, &[small(line.supply), int(line.item)])?;
            let quantity = row[2].integer() - line.quantity as i64;
            let quantity = if quantity >= 10 { quantity } else { quantity + 91 };
            let (sold, orders, remote) = (row[13].integer(), row[14].integer(), row[15].integer());
            let info = row[2 + district as usize].text().to_owned();
            let changes = [
                (2, I16(quantity as i16)),
                (13, I32((sold + line.quantity as i64) as i32)),
                (14, I16((orders + 1) as i16)),
                (15, I16((remote + i64::from(line.supply != home)) as i16)),
            ];
            self.rows[STOCK].update(connection, &changes)?;
            let cost = I64(price * line.quantity as i64);
            let what = [tiny(at), int(line.item), small(line.supply), Millis(0)];
            let rest = [tiny(line.quantity), cost, Text(&info)];
            self.rows[ORDER_LINE].insert(connection, &[&key[..], &what, &rest].concat())?;
        }
        Ok(true)
    }

    /// Finds the id of a customer. Of several with the same last name it is the middle one by first
    /// name.
    fn find(
        &mut self,
        connection: &mut dyn Connection,
        (warehouse, district): (u64, u64),
        customer: Customer,
    ) -> Attempt<u64> {
        let number = match customer {
            Customer::Id(id) => return Ok(id),
            Customer::Name(number) => number,
        };
        write_name(number, &mut self.name);
        let table = self.rows[CUSTOMER].table;
        let equal = [small(warehouse), tiny(district), Text(&self.name)];
        let mut ids = Vec::new();
        connection.range(table, 1, &Span::of(&equal), &mut |key, _| {
            // The entry is warehouse, district, last name and first name, then the primary key.
            ids.extend(decode::key(table, 1, key).map(|columns| columns[6].integer() as u64));
            true
        })?;
        let middle = ids.get(ids.len().div_ceil(2).saturating_sub(1));
        Ok(*middle.ok_or_else(|| missing(table))?)
    }

    /// Enters a payment (clause 2.5.2).
    fn payment(
        &mut self,
        connection: &mut dyn Connection,
        (home, district): (u64, u64),
        of: (u64, u64),
        customer: Customer,
        paid: i64,
    ) -> Attempt<()> {
        let row = self.lock(connection, WAREHOUSE, &[small(home)])?;
        let (sum, name) = (row[8].integer() + paid, row[1].text().to_owned());
        self.rows[WAREHOUSE].update(connection, &[(8, I64(sum))])?;
        let row = self.lock(connection, DISTRICT, &[small(home), tiny(district)])?;
        let (sum, of_district) = (row[9].integer() + paid, row[2].text().to_owned());
        self.rows[DISTRICT].update(connection, &[(9, I64(sum))])?;
        let id = self.find(connection, of, customer)?;
        let row = self.lock(connection, CUSTOMER, &[small(of.0), tiny(of.1), int(id)])?;
        let (balance, all) = (row[16].integer() - paid, row[17].integer() + paid);
        let count = I16((row[18].integer() + 1) as i16);
        let mut data = String::new();
        if row[13].text() == "BC" {
            let sum = format!("{}.{:02}", paid / 100, paid % 100);
            data = format!("{id} {} {} {district} {home} {sum}{}", of.1, of.0, row[20].text());
            data.truncate(DATA_MAX); // it is ASCII
        }
        let changes = [(16, I64(balance)), (17, I64(all)), (18, count), (20, Text(&data))];
        let changes = if data.is_empty() { &changes[..3] } else { &changes[..] };
        self.rows[CUSTOMER].update(connection, changes)?;
        let number = U64(self.next.fetch_add(1, Ordering::Relaxed));
        let names = format!("{name}    {of_district}");
        let row = [
            number,
            int(id),
            tiny(of.1),
            small(of.0),
            tiny(district),
            small(home),
            Millis(self.now),
            I64(paid),
            Text(&names),
        ];
        self.rows[HISTORY].insert(connection, &row)
    }

    /// Reads the status of a customer's last order (clause 2.6.2).
    fn order_status(
        &mut self,
        connection: &mut dyn Connection,
        (home, district): (u64, u64),
        customer: Customer,
    ) -> Attempt<()> {
        let id = self.find(connection, (home, district), customer)?;
        self.read(connection, CUSTOMER, &[small(home), tiny(district), int(id)])?;
        let table = self.rows[ORDERS].table;
        let equal = [small(home), tiny(district), int(id)];
        let last = Span { direction: Direction::Reverse, limit: 1, ..Span::of(&equal) };
        let mut order = None;
        connection.range(table, 1, &last, &mut |key, _| {
            order = decode::key(table, 1, key).map(|columns| columns[3].integer() as u64);
            true
        })?;
        if let Some(order) = order {
            let key = [small(home), tiny(district), int(order)];
            self.read(connection, ORDERS, &key)?;
            let lines = self.rows[ORDER_LINE].table;
            connection.range(lines, 0, &Span::of(&key), &mut |key, value| {
                std::hint::black_box((key, value));
                true
            })?;
        }
        Ok(())
    }

    /// Delivers the oldest new order of one district (clause 2.7.4). A district without one is
    /// skipped.
    fn deliver(
        &mut self,
        connection: &mut dyn Connection,
        (home, district): (u64, u64),
        carrier: u64,
    ) -> Attempt<()> {
        let table = self.rows[NEW_ORDERS].table;
        let equal = [small(home), tiny(district)];
        // Another delivery may have taken the oldest one between the scan and the lock; then the
        // next one is tried.
        let (mut order, mut from) = (None, 0);
        while order.is_none() {
            let mut oldest = None;
            let first = [int(from)];
            let span = Span { from: &first, limit: 1, ..Span::of(&equal) };
            connection.range(table, 0, &span, &mut |key, _| {
                oldest = decode::key(table, 0, key).map(|columns| columns[2].integer() as u64);
                true
            })?;
            let Some(oldest) = oldest else { return Ok(()) };
            let key = [small(home), tiny(district), int(oldest)];
            if self.rows[NEW_ORDERS].lock(connection, &key)? {
                self.rows[NEW_ORDERS].delete(connection)?;
                order = Some(oldest);
            }
            from = oldest + 1;
        }
        let order = order.unwrap_or_default();
        let key = [small(home), tiny(district), int(order)];
        let customer = self.lock(connection, ORDERS, &key)?[3].integer() as u64;
        self.rows[ORDERS].update(connection, &[(5, tiny(carrier))])?;
        let lines = self.rows[ORDER_LINE].table;
        let (mut numbers, mut sum) = (Vec::new(), 0);
        connection.range(lines, 0, &Span::of(&key), &mut |key, value| {
            if let Some(row) = decode::row(lines, key, value) {
                numbers.push(row[3].integer() as u64);
                sum += row[8].integer();
            }
            true
        })?;
        if numbers.is_empty() {
            return Err(missing(lines).into());
        }
        for number in numbers {
            self.lock(connection, ORDER_LINE, &[key[0], key[1], key[2], tiny(number)])?;
            self.rows[ORDER_LINE].update(connection, &[(6, Millis(self.now))])?;
        }
        let key = [small(home), tiny(district), int(customer)];
        let row = self.lock(connection, CUSTOMER, &key)?;
        let (balance, count) = (row[16].integer() + sum, row[19].integer() + 1);
        let changes = [(16, I64(balance)), (19, I16(count as i16))];
        self.rows[CUSTOMER].update(connection, &changes)
    }

    /// Counts the scarce items of the last orders (clause 2.8.2).
    fn stock_level(
        &mut self,
        connection: &mut dyn Connection,
        (home, district): (u64, u64),
        threshold: i64,
    ) -> Attempt<()> {
        let row = self.read(connection, DISTRICT, &[small(home), tiny(district)])?;
        let next = row[10].integer();
        let lines = self.rows[ORDER_LINE].table;
        let equal = [small(home), tiny(district)];
        let (from, to) = ([I32((next - RECENT) as i32)], [I32((next - 1) as i32)]);
        let span = Span { from: &from, to: &to, ..Span::of(&equal) };
        let mut items = Vec::new();
        connection.range(lines, 0, &span, &mut |key, value| {
            items.extend(decode::row(lines, key, value).map(|row| row[4].integer()));
            true
        })?;
        items.sort_unstable();
        items.dedup();
        let mut scarce = 0;
        for item in items {
            let row = self.read(connection, STOCK, &[small(home), I32(item as i32)])?;
            scarce += u64::from(row[2].integer() < threshold);
        }
        std::hint::black_box(scarce);
        Ok(())
    }
}

impl Tpcc {
    fn load_tables(&self, bench: &mut Bench<'_>) -> Result<()> {
        let load = Load::new(self.seed, self.scale, self.constants);
        let mut step = Step::load("load", Load::planned(&self.scale), ROW_BYTES);
        step.clients = self.loaders;
        let tables = bench.tables();
        let made = bench.step(&step, |worker| {
            let batches = tables.iter().map(Batch::new).collect();
            load.run(&mut Batches { worker, batches, tables })
        })?;
        let rows = made.metrics.get("ops").copied().unwrap_or(0.0) as u64;
        bench.loaded((rows, 0))?;
        for (name, rows) in self.loaded() {
            bench.verify(bench.table(name)?, rows, true)?;
        }
        Ok(())
    }

    fn transact(&self, bench: &mut Bench<'_>) -> Result<()> {
        let mut step = Step::timed("requests", self.seconds, self.warm_up, self.clients);
        step.writes = true;
        step.series = &["new_order"];
        // A client's random streams continue after the warm-up.
        let stream = |client| Random::stream(self.seed, "tpcc", 2, client, Purpose::Choice);
        let streams: Vec<_> = (0..self.clients).map(|client| Mutex::new(stream(client))).collect();
        let (scale, constants, tables) = (&self.scale, &self.constants, bench.tables());
        let next = AtomicU64::new(scale.warehouses * DISTRICTS * scale.customers + 1);
        let transact = |worker: &mut Worker<'_>| {
            let mut random =
                streams[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            let mut transactions = Transactions {
                rows: tables.iter().map(Rows::new).collect(),
                next: &next,
                now: super::load::DATE_MILLIS,
                name: String::new(),
            };
            while worker.go_on() {
                let (home, district, drawn) = draw::draw(&mut random, scale, constants);
                worker.request(drawn.name(), 1, |connection| {
                    transactions.now = crate::lab::time::millis();
                    transactions.run(connection, home, district, &drawn)
                })?;
            }
            Ok(())
        };
        pace::run(bench, &step, self.rate, |bench, step| {
            count_orders(bench.step(step, transact)?);
            Ok(())
        })
    }
}

impl Workload for Tpcc {
    fn tables(&self) -> Vec<Table> {
        tables()
    }

    fn innodb_bytes(&self) -> u64 {
        self.data_bytes()
    }

    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)> {
        self.load_tables(bench)?;
        if !bench.is_over() {
            self.transact(bench)?;
            bench.rest()?;
        }
        let (mut rows, mut bytes) = (0, 0);
        for table in bench.tables() {
            let live = bench.verify(table, None, false)?;
            rows += live.0;
            bytes += live.1;
        }
        consistency::verify(bench)?;
        Ok((rows, bytes))
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};

    #[test]
    fn embedded_conditions_hold_on_all_stores() {
        on_all("tpcc", &[], |target, result| {
            let step = step_of(result, "requests");
            assert!(step.metrics["nopm"] > 0.0, "{target}");
            for kind in ["new_order", "payment", "order_status", "delivery", "stock_level"] {
                assert!(step.latencies.contains_key(kind), "{target}: {kind}");
            }
            let conditions = result.verified.iter().filter(|one| one.name.starts_with("3.3.2"));
            assert_eq!(conditions.count(), if target == "null" { 0 } else { 12 });
        });
    }
}
