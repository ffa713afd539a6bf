//! `iibench`: inserts in the order of the primary key and in random order of three secondary
//! indexes, as published in 2011.
//!
//! There is one client, each transaction is one INSERT of a thousand rows, and the indexes exist
//! before the first row. Another client may query through each index meanwhile.

mod embedded;
mod queries;

use std::sync::Mutex;

use super::{Entry, Workload};
use crate::data::Source;
use crate::data::iibench::{Purchases, ROWS_PER_COMMIT};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Concurrent, InsertText, Worker};
use crate::lab::step::{Step, measured};
use crate::schema::Value;
use crate::targets::{Failure, Result};

pub use embedded::EMBEDDED;
use queries::{QUERIES, Queries};

const PARAMS: &[Param] = &[
    Param::sized("rows", ["20_000", "800_000", "2_500_000", "25_000_000"], "rows"),
    Param::fixed("rows_per_commit", "1000", "rows per INSERT"),
    Param::fixed("indexes", "3", "secondary indexes, 0 to 3"),
    QUERIES,
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

/// Bytes of a row's columns: 4 + 8 + 4 + 4 + 4 + 4.
const ROW_BYTES: u64 = 28;
const INNODB_ROW_BYTES: u64 = <Purchases as Source>::INNODB_ROW_BYTES;

/// Start of each statement.
const HEAD: &str =
    "INSERT INTO purchases_index(dateandtime,cashregisterid,customerid,productid,price) VALUES";

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
    seed: u64,
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
        let queries = Queries::new(params)?;
        Ok(Self { rows, per_commit, indexes, queries, seed })
    }

    /// The load as published: a thousand rows per statement, three indexes, no queries.
    pub fn plain(rows: u64, seed: u64) -> Self {
        let (per_commit, indexes) = (ROWS_PER_COMMIT, KEYS.len());
        Self { rows, per_commit, indexes, queries: Queries::None, seed }
    }

    /// Makes all statements of the load.
    ///
    /// # Errors
    /// Errors of `take`.
    pub fn statements(&self, mut take: impl FnMut(&str) -> Result<()>) -> Result<()> {
        let (mut purchases, mut statement) =
            (Purchases::new(self.seed, true), InsertText::new(HEAD));
        let (mut left, mut moment) = (self.rows, (0, String::new()));
        while left > 0 {
            let n = left.min(self.per_commit);
            (0..n).for_each(|_| append(&mut statement, &purchases.next_row(), &mut moment));
            statement.close("");
            take(statement.text())?;
            left -= n;
        }
        Ok(())
    }
}

impl Workload for Iibench {
    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        let mut definition = "purchases_index(transactionid INT NOT NULL AUTO_INCREMENT, dateandtime DATETIME, \
            cashregisterid INT NOT NULL, customerid INT NOT NULL, productid INT NOT NULL, price FLOAT NOT NULL, \
            PRIMARY KEY (transactionid)"
            .to_owned();
        for index in &KEYS[..self.indexes] {
            definition += ", ";
            definition += index;
        }
        bench.create(&(definition + ")"), "")?;
        let is_shared = self.queries == Queries::Unthrottled;
        let step = Step { is_shared, ..Step::load("load", self.rows, ROW_BYTES) };
        let (rows, per_commit) = (self.rows, self.per_commit);
        let inserted = Mutex::new(0);
        let purchases = Mutex::new(Purchases::new(self.seed, true));
        let insert = |worker: &mut Worker<'_>| {
            let mut purchases = purchases.lock().unwrap_or_else(|e| e.into_inner());
            let mut statement = InsertText::new(HEAD);
            let (mut left, mut moment) = (rows, (0, String::new()));
            while left > 0 && worker.go_on() {
                let n = left.min(per_commit);
                for _ in 0..n {
                    append(&mut statement, &purchases.next_row(), &mut moment);
                }
                left -= n;
                let n = worker.insert("commit", &mut statement)?;
                *inserted.lock().unwrap_or_else(|e| e.into_inner()) += n;
            }
            Ok(())
        };
        let this = &*self;
        let query = |worker: &mut Worker<'_>| queries::ask(worker, this);
        let concurrent: &[Concurrent<'_>] =
            if this.queries == Queries::None { &[] } else { &[&query] };
        measured::add_queries(bench.step_concurrent(&step, insert, concurrent)?);
        let inserted = inserted.into_inner().unwrap_or_default();
        bench.loaded((inserted, inserted * ROW_BYTES))?;
        bench.verify("purchases_index", Some(inserted), true)?;
        Ok((inserted, inserted * ROW_BYTES))
    }
}

/// Appends a row. `moment` caches the last time and its text.
fn append(statement: &mut InsertText, row: &[Value<'_>; 6], moment: &mut (u64, String)) {
    let [
        _,
        Value::Millis(millis),
        Value::I32(register),
        Value::I32(customer),
        Value::I32(product),
        Value::F32(price),
    ] = *row
    else {
        unreachable!("the generator's columns are these");
    };
    if moment.0 != millis {
        *moment = (millis, crate::lab::time::date_time(millis));
    }
    statement.row().simple(&moment.1).plain(register).plain(customer).plain(product).float(price);
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
}
