//! `iibench`: inserts in the order of the primary key and in random order of three secondary
//! indexes, as published in 2011.
//!
//! There is one client, each transaction is one INSERT of a thousand rows, and the indexes exist
//! before the first row. Another client may query through each index meanwhile. Rows may have
//! strings in addition.

mod charfields;
mod embedded;
mod queries;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::pace::{self, Paced, RATE, Rate};
use super::{Entry, Workload};
use crate::data::Source;
use crate::data::iibench::{Purchases, ROWS_PER_COMMIT};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Concurrent, InsertText, Worker};
use crate::lab::step::{Step, measured};
use crate::schema::Value;
use crate::targets::{Failure, Result};

use charfields::{Charfields, NAMES, Texts};
pub use embedded::EMBEDDED;
use queries::{QUERIES, Queries};

const PARAMS: &[Param] = &[
    Param::sized("rows", ["20_000", "800_000", "2_500_000", "25_000_000"], "rows"),
    Param::fixed("rows_per_commit", "1000", "rows per INSERT"),
    Param::fixed("indexes", "3", "secondary indexes, 0 to 3"),
    QUERIES,
    RATE,
    charfields::NUMBER,
    charfields::BYTES,
    charfields::RANDOM,
    Param::fixed("ratio", "1.75", "data to cache"),
    Param::sized("time_limit", ["60", "12", "600", "0"], "seconds, 0 for none"),
];

pub const ENTRY: Entry = Entry {
    name: "iibench",
    about: "inserts in primary-key order with three random secondary indexes (iiBench of 2011)",
    headline: ("load", "exit_velocity"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Iibench::new(params, seed)?)),
};

/// Bytes of a row's columns without strings: 4 + 8 + 4 + 4 + 4 + 4.
const ROW_BYTES: u64 = 28;
/// Bytes of such a row in plain InnoDB.
const INNODB_ROW_BYTES: u64 = <Purchases as Source>::INNODB_ROW_BYTES;
/// InnoDB fills pages to 15/16 in the order of the primary key.
const INNODB_FILL: f64 = 15.0 / 16.0;
/// With a rate that is a part of the target's own, the last of this many parts of the rows are
/// inserted in an open loop.
const OPEN_OF: u64 = 5;

const KEYS: [&str; 3] = [
    "KEY marketsegment(price,customerid)",
    "KEY registersegment(cashregisterid,price,customerid)",
    "KEY pdc(price,dateandtime,customerid)",
];

pub struct Iibench {
    rows: u64,
    per_commit: u64,
    indexes: usize,
    queries: Queries,
    rate: Rate,
    charfields: Charfields,
    seed: u64,
}

/// Appends rows to statements.
struct Writer {
    purchases: Purchases,
    texts: Texts,
    /// The last time and its text.
    moment: (u64, String),
}

impl Iibench {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, per_commit) = (params.number("rows")?, params.number("rows_per_commit")?);
        let indexes = params.number("indexes")? as usize;
        if rows == 0 || per_commit == 0 || indexes > KEYS.len() || rows > i32::MAX as u64 {
            return Err(Failure(
                "iibench: allowed are rows from 1 to 2147483647, rows_per_commit from 1, indexes from 0 to 3".to_owned(),
            ));
        }
        let (queries, rate) = (Queries::new(params)?, Rate::new(params)?);
        let charfields = Charfields::new(params)?;
        Ok(Self { rows, per_commit, indexes, queries, rate, charfields, seed })
    }

    /// The load as published: a thousand rows per statement, three indexes, no queries.
    pub fn plain(rows: u64, seed: u64) -> Self {
        let (per_commit, indexes) = (ROWS_PER_COMMIT, KEYS.len());
        let (queries, rate, charfields) = (Queries::None, Rate::Closed, Charfields::NONE);
        Self { rows, per_commit, indexes, queries, rate, charfields, seed }
    }

    /// Bytes of a row's columns.
    fn row_bytes(&self) -> u64 {
        ROW_BYTES + self.charfields.row_bytes()
    }

    /// Bytes of all rows in plain InnoDB.
    fn in_innodb(&self) -> u64 {
        let texts = self.charfields.row_bytes() as f64 / INNODB_FILL;
        self.rows * (INNODB_ROW_BYTES + texts as u64)
    }

    /// Runs the load at its rate, by calling `once` with each step, its number of rows, and the
    /// number of rows before it.
    fn paced<B: Paced>(
        &self,
        bench: &mut B,
        mut once: impl FnMut(&mut B, &Step<'_>, u64, u64) -> Result<()>,
    ) -> Result<()> {
        let open = if matches!(self.rate, Rate::Part(_)) { self.rows / OPEN_OF } else { 0 };
        let is_shared = self.queries == Queries::Unthrottled;
        let step = Step { is_shared, ..Step::load("load", self.rows, self.row_bytes()) };
        let mut before = 0;
        pace::run_batches(bench, &step, self.rate, self.per_commit, |bench, step| {
            let rows = if before == 0 { self.rows - open } else { open };
            let step = Step { planned: Some(rows), ..step.clone() };
            once(bench, &step, rows, before)?;
            before += rows;
            Ok(())
        })
    }

    /// Start of each statement.
    fn head(&self) -> String {
        let texts: String =
            NAMES[..self.charfields.number].iter().map(|name| format!(",{name}")).collect();
        format!(
            "INSERT INTO purchases_index(dateandtime,cashregisterid,customerid,productid,price{texts}) VALUES"
        )
    }

    /// Makes all statements of the load.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn statements(&self, mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let (mut writer, mut statement) = (Writer::new(self), InsertText::new(&self.head()));
        let mut left = self.rows;
        while left > 0 {
            let n = left.min(self.per_commit);
            (0..n).for_each(|_| writer.append(&mut statement));
            statement.close("");
            take(statement.text())?;
            left -= n;
        }
        Ok(())
    }
}

impl Workload for Iibench {
    fn innodb_bytes(&self) -> u64 {
        self.in_innodb()
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        let mut definition = "purchases_index(transactionid INT NOT NULL AUTO_INCREMENT, dateandtime DATETIME, \
            cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL"
            .to_owned();
        for name in &NAMES[..self.charfields.number] {
            definition += &format!(", {name} VARCHAR({}) NOT NULL", self.charfields.bytes);
        }
        definition += ", PRIMARY KEY (transactionid)";
        for index in &KEYS[..self.indexes] {
            definition += ", ";
            definition += index;
        }
        bench.create(&(definition + ")"), "")?;
        let per_commit = self.per_commit;
        let (inserted, writer) = (AtomicU64::new(0), Mutex::new(Writer::new(self)));
        let (this, head) = (&*self, self.head());
        self.paced(bench, |bench, step, rows, before| {
            let insert = |worker: &mut Worker<'_>| {
                let mut writer = writer.lock().unwrap_or_else(|e| e.into_inner());
                let (mut statement, mut left) = (InsertText::new(&head), rows);
                while left > 0 && worker.go_on() {
                    let n = left.min(per_commit);
                    (0..n).for_each(|_| writer.append(&mut statement));
                    left -= n;
                    let done = worker.insert("commit", &mut statement)?;
                    inserted.fetch_add(done, Ordering::Relaxed);
                }
                Ok(())
            };
            let query = |worker: &mut Worker<'_>| queries::ask(worker, this, before);
            let concurrent: &[Concurrent<'_>] =
                if this.queries == Queries::None { &[] } else { &[&query] };
            measured::add_queries(bench.step_concurrent(step, insert, concurrent)?);
            Ok(())
        })?;
        let inserted = inserted.into_inner();
        let bytes = inserted * self.row_bytes();
        bench.loaded((inserted, bytes))?;
        bench.verify("purchases_index", Some(inserted), true)?;
        Ok((inserted, bytes))
    }
}

impl Writer {
    /// Starts at the first row.
    fn new(iibench: &Iibench) -> Self {
        let purchases = Purchases::new(iibench.seed, true);
        let texts = Texts::new(iibench.seed, iibench.charfields);
        Self { purchases, texts, moment: (0, String::new()) }
    }

    /// Appends the next row.
    fn append(&mut self, statement: &mut InsertText) {
        let Self { purchases, texts, moment } = self;
        let [
            _,
            Value::Millis(millis),
            Value::I32(register),
            Value::I32(customer),
            Value::I32(product),
            Value::F32(price),
        ] = purchases.next_row()
        else {
            unreachable!("the generator's columns are these");
        };
        if moment.0 != millis {
            *moment = (millis, crate::lab::time::date_time(millis));
        }
        let row = statement.row().simple(&moment.1).plain(register).plain(customer);
        let row = row.plain(product).float(price);
        texts.next_row().iter().fold(row, |row, text| row.simple(text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{on_both, step};

    #[test]
    fn sql_queries_run_concurrently_with_the_inserts_and_do_not_count_as_rows() {
        on_both("iibench", &[("queries", "unthrottled"), ("rows", "30000")], |bench| {
            let load = step(bench, "load");
            assert_eq!(load.metrics["ops"], 30_000.0);
            assert!(load.latencies["query"].count > 0 && load.metrics["queries_s"] > 0.0);
            assert!(!load.metrics.contains_key("cpu_us_op"), "its part of the CPU is unknown");
        });
    }

    #[test]
    fn sql_rows_with_strings_are_loaded_in_a_closed_and_then_in_an_open_loop() {
        let changes = [("charfields", "2"), ("charfield_bytes", "200"), ("rate", "70%")];
        on_both("iibench", &changes, |bench| {
            let (closed, open) = (step(bench, "load"), step(bench, "load open"));
            assert_eq!((closed.metrics["ops"], open.metrics["ops"]), (16_000.0, 4_000.0));
            let wanted = open.metrics["wanted_s"] * 1_000.0;
            assert!((wanted / closed.metrics["exit_velocity"] - 0.7).abs() < 1e-6);
            let sum = "SELECT SUM(LENGTH(charfield2)) FROM purchases_index";
            assert_eq!(bench.admin().value(sum).expect("a sum"), "4000000");
        });
    }
}
