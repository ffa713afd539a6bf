//! `insertbench`: the insert benchmark of Mark Callaghan's reports. It inserts rows without and
//! with secondary indexes, then queries them while rows are inserted and deleted at a fixed rate.
//! Its schema is not that of `iibench`.

mod rates;
mod rows;
mod tables;

use std::sync::atomic::Ordering;

use mysql::Value;

pub use self::rows::ROW_BYTES;
use self::rows::{PRICES, PRODUCTS, REGISTERS};
use self::tables::Table;
use super::compressed::{self, put};
use super::pace::{self, RATE, Rate};
use super::{Entry, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Concurrent, SqlResult, Worker};
use crate::lab::step::Step;
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};

pub const ENTRY: Entry = Entry {
    name: "insertbench",
    about: "the insert benchmark: loads, then queries concurrently with inserts and deletes at a fixed rate",
    headline: ("l.i1", "ops_s"),
    params: &[
        Param::sized(
            "x",
            ["2_000", "50_000", "1_000_000", "10_000_000"],
            "rows of step l.i0, for each table",
        ),
        Param::sized("y", ["1_000", "20_000", "1_600_000", "16_000_000"], "rows of step l.i1"),
        Param::sized("z", ["100", "500", "400_000", "4_000_000"], "rows of step l.i2"),
        Param::sized("clients", ["1", "1", "1", "8"], "number of clients, each with its own table"),
        Param::fixed(
            "delete_per_insert",
            "yes",
            "delete as many rows as are inserted, from l.i1 on",
        ),
        Param::sized(
            "rates",
            ["100", "100,500,1000", "100,500,1000", "100,500,1000"],
            "rows inserted per second during queries",
        ),
        Param::sized(
            "seconds",
            ["0.3", "0.5", "30", "1800"],
            "duration of each step with queries, seconds",
        ),
        Param::sized(
            "warm_up",
            ["0", "0", "10", "600"],
            "maximum warm-up before these steps, seconds",
        ),
        RATE,
        Param::fixed("ratio", "0.2", "data to cache: 0.2, and 6.4 with x=5000000 y=80000 z=20000"),
        Param::sized("time_limit", ["60", "12", "1200", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(InsertBench::new(params, seed)?)),
};

/// Bytes per row in plain InnoDB, with its entries in the three indexes.
pub const INNODB_ROW_BYTES: u64 = 160;
/// Rows per commit in l.i0; in l.i1 and the steps with queries; in l.i2.
const COMMITS: [u64; 3] = [100, 50, 5];
/// Rows that are inserted before the indexes are created.
const ROWS_BEFORE_INDEX: u64 = 100;
/// Number of ids in a point query.
const POINTS: usize = 10;
/// Share of the wanted background rate that a step must reach. A step below it is marked
/// `sla_failed`.
const SLA: f64 = 0.95;

/// Names and columns of the indexes.
const INDEXES: [(&str, &str); 3] = [
    ("marketsegment", "(productid, customerid, price)"),
    ("registersegment", "(cashregisterid, customerid, price)"),
    ("pdc", "(price, dateandtime, customerid)"),
];

struct InsertBench {
    rows: [u64; 3],
    tables: Vec<Table>,
    deletes: bool,
    rates: Vec<u64>,
    seconds: f64,
    warm_up: f64,
    rate: Rate,
    seed: u64,
}

impl InsertBench {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let rows = [params.number("x")?, params.number("y")?, params.number("z")?];
        let (clients, rates) = (params.number("clients")?, params.numbers("rates")?);
        let is_right =
            rows.iter().all(|n| (1..1 << 40).contains(n)) && (1..=128).contains(&clients);
        if !is_right || rates.iter().any(|rate| !(1..1_000_000).contains(rate)) {
            let what = "x, y, z and rates from 1, clients from 1 to 128";
            return Err(Failure(format!("insertbench: {what}")));
        }
        let tables = (0..clients).map(|number| Table::new(number, seed)).collect();
        let deletes = params.flag("delete_per_insert")?;
        let (seconds, warm_up) = (params.real("seconds")?, params.real("warm_up")?);
        let rate = Rate::new(params)?;
        Ok(Self { rows, tables, deletes, rates, seconds, warm_up, rate, seed })
    }

    fn create(&self, bench: &mut Bench) -> Result<()> {
        for table in &self.tables {
            let definition = format!(
                "{}(transactionid BIGINT NOT NULL AUTO_INCREMENT, dateandtime DATETIME, cashregisterid INT NOT NULL, \
                 customerid INT NOT NULL, productid INT NOT NULL, price INT NOT NULL, data VARCHAR(4000), \
                 PRIMARY KEY (transactionid))",
                table.name
            );
            bench.create(&definition, "")?;
        }
        Ok(())
    }

    /// Runs a load step of all clients. From l.i1 on, a second client of each table deletes as many
    /// rows.
    fn load(&self, bench: &mut Bench, name: &str, at: usize) -> Result<()> {
        if bench.is_over() {
            return Ok(());
        }
        let (rows, per_commit) = (self.rows[at], COMMITS[at]);
        let deletes = self.deletes && at > 0 && bench.keeps_rows();
        self.tables.iter().for_each(|table| table.begin(deletes));
        let clients = self.tables.len() as u64;
        let step = Step { clients, ..Step::load(name, rows * clients, 0) };
        let deleters: Vec<_> = self.tables[..if deletes { self.tables.len() } else { 0 }]
            .iter()
            .map(|table| move |worker: &mut Worker<'_>| table.delete(worker, per_commit))
            .collect();
        let concurrent: Vec<Concurrent<'_>> =
            deleters.iter().map(|body| body as Concurrent<'_>).collect();
        let insert = |worker: &mut Worker<'_>| {
            self.tables[worker.index as usize].insert(worker, "commit", rows, per_commit)
        };
        rates::add(bench.step_concurrent(&step, insert, &concurrent)?);
        if at == 0 {
            return bench.rest(); // the size that counts is that with indexes
        }
        let live = self.tables.iter().map(Table::live).sum();
        bench.loaded((live, live * ROW_BYTES))
    }

    /// Inserts a few more rows, then creates the indexes of each table: all with one statement, but
    /// one by one on MyRocks.
    fn index(&self, bench: &mut Bench) -> Result<()> {
        if bench.is_over() {
            return Ok(());
        }
        let adds = INDEXES.map(|(name, columns)| format!("ADD INDEX {name} {columns}"));
        let is_single = bench.target.engine.eq_ignore_ascii_case("ROCKSDB");
        let alters = if is_single { adds.to_vec() } else { vec![adds.join(", ")] };
        let clients = self.tables.len() as u64;
        self.tables.iter().for_each(|table| table.begin(false));
        let rows = self.rows[0] + ROWS_BEFORE_INDEX;
        let step = Step { clients, ..Step::load("l.x", rows * clients, 0) };
        bench.step(&step, |worker| {
            let table = &self.tables[worker.index as usize];
            table.insert(worker, "commit", ROWS_BEFORE_INDEX, ROWS_BEFORE_INDEX)?;
            worker.request("alter", self.rows[0], |session| {
                for alter in &alters {
                    session.run(&format!("ALTER TABLE {} {alter}", table.name))?;
                }
                Ok(())
            })
        })?;
        let live = self.tables.iter().map(Table::live).sum();
        bench.loaded((live, live * ROW_BYTES))
    }

    /// Verifies that the tables have as many rows as were inserted and not deleted, and that their
    /// indexes agree with them.
    fn verify(&self, bench: &mut Bench) -> Result<()> {
        let mut tables = self.tables.iter();
        tables.try_for_each(|table| bench.verify(&table.name, Some(table.live()), false))
    }

    /// Runs queries of one kind, unthrottled, concurrently with inserts and deletes at a rate.
    fn queries(&self, bench: &mut Bench, is_range: bool, rate: u64) -> Result<()> {
        if bench.is_over() {
            return Ok(());
        }
        let per_commit = COMMITS[1];
        let deletes = self.deletes && bench.keeps_rows();
        let mut concurrent: Vec<Box<dyn Fn(&mut Worker<'_>) -> Result<()> + Sync + '_>> =
            Vec::new();
        let pace = rate as f64 / per_commit as f64;
        for table in &self.tables {
            // Inserter and deleter run at the same rate, so the inserter need not wait for the
            // deleter.
            table.begin(false);
            concurrent.push(Box::new(move |worker| {
                worker.set_rate(pace);
                table.insert(worker, "insert", u64::MAX, per_commit)
            }));
            if deletes {
                concurrent.push(Box::new(move |worker| {
                    worker.set_rate(pace);
                    table.delete(worker, per_commit)
                }));
            }
        }
        let concurrent: Vec<Concurrent<'_>> =
            concurrent.iter().map(|body| &**body as Concurrent<'_>).collect();
        let clients = self.tables.len() as u64;
        let name = format!("{}{rate}", if is_range { "qr" } else { "qp" });
        let step = Step::timed(&name, self.seconds, self.warm_up, clients);
        pace::run(bench, &step, self.rate, |bench, step| {
            self.ask(bench, step, is_range, rate, &concurrent)
        })
    }

    /// Runs one step of queries.
    fn ask(
        &self,
        bench: &mut Bench,
        step: &Step<'_>,
        is_range: bool,
        rate: u64,
        concurrent: &[Concurrent<'_>],
    ) -> Result<()> {
        let number = rate * 2 + u64::from(is_range);
        let made = bench.step_prepared(
            step,
            |index, session, _| {
                let table = &self.tables[index as usize];
                let texts = if is_range { ranges(&table.name) } else { vec![points(&table.name)] };
                let all: SqlResult<Vec<_>> =
                    texts.iter().map(|text| session.prepare(text)).collect();
                Ok(all?)
            },
            |worker, statements| {
                let table = &self.tables[worker.index as usize];
                let client = number * 1_000 + worker.index;
                let mut random =
                    Random::stream(self.seed, "insertbench", 0, client, Purpose::Choice);
                let kind = if is_range { "range" } else { "point" };
                while worker.go_on() {
                    let shape = random.below(statements.len() as u64) as usize;
                    let values = match is_range {
                        true => vec![Value::UInt(random.below(RANGES[shape]))],
                        false => {
                            let min = table.min.load(Ordering::Relaxed);
                            let max = table.inserted.load(Ordering::Relaxed).max(min);
                            (0..POINTS).map(|_| Value::UInt(random.between(min, max))).collect()
                        }
                    };
                    worker.request(kind, 1, |session| {
                        session.skim(&statements[shape], values.clone()).map(drop)
                    })?;
                }
                Ok(())
            },
            concurrent,
        )?;
        rates::add(made);
        let Some(seconds) = made.metrics.get("seconds").copied() else { return Ok(()) };
        let commits = made.latencies.get("insert").map_or(0, |latencies| latencies.count);
        let found = (commits * COMMITS[1]) as f64 / seconds.max(1e-9);
        put(bench, "background_s", found);
        let is_failed = found < SLA * (rate * self.tables.len() as u64) as f64;
        put(bench, "sla_failed", f64::from(u8::from(is_failed)));
        Ok(())
    }
}

/// Loads a single table with its indexes, and returns its number of rows.
///
/// # Errors
/// The server reports an error.
pub fn load_one(bench: &mut Bench, rows: u64, seed: u64) -> Result<u64> {
    let tables = vec![Table::new(0, seed)];
    let rows = [rows - ROWS_BEFORE_INDEX, 1, 1];
    let one = InsertBench {
        rows,
        tables,
        deletes: false,
        rates: Vec::new(),
        seconds: 0.0,
        warm_up: 0.0,
        rate: Rate::Closed,
        seed,
    };
    one.create(bench)?;
    one.load(bench, "load", 0)?;
    one.index(bench)?;
    Ok(one.tables[0].live())
}

/// Upper bounds (exclusive) of the first values of the three range queries.
const RANGES: [u64; 3] = [PRICES, PRODUCTS, REGISTERS];

fn ranges(table: &str) -> Vec<String> {
    [
        ("price,dateandtime,customerid", "pdc", "price>=?"),
        ("productid,customerid,price", "marketsegment", "productid>=?"),
        ("cashregisterid,customerid,price", "registersegment", "cashregisterid>?"),
    ]
    .iter()
    .map(|(columns, index, from)| {
        format!("SELECT {columns} FROM {table} FORCE INDEX ({index}) WHERE {from} ORDER BY {columns} LIMIT 10")
    })
    .collect()
}

fn points(table: &str) -> String {
    let list = ["?"; POINTS].join(",");
    format!("SELECT transactionid,productid,data FROM {table} WHERE transactionid IN ({list})")
}

impl Workload for InsertBench {
    fn innodb_bytes(&self) -> u64 {
        let [x, y, z] = self.rows;
        let rows = if self.deletes { x } else { x + y + z };
        rows * self.tables.len() as u64 * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        self.create(bench)?;
        self.load(bench, "l.i0", 0)?;
        self.index(bench)?;
        compressed::note_lengths(bench, &self.tables[0].name)?;
        if !bench.is_over() {
            for table in &self.tables {
                bench.verify(&table.name, Some(table.live()), true)?;
            }
        }
        bench.crash()?;
        for (at, name) in [(1, "l.i1"), (2, "l.i2")] {
            self.load(bench, name, at)?;
            if !bench.is_over() {
                self.verify(bench)?;
            }
        }
        if bench.keeps_rows() && !bench.is_over() {
            for table in &self.tables {
                bench.admin().run(&format!("ANALYZE TABLE {}", table.name))?;
            }
        }
        bench.rest()?;
        for &rate in &self.rates {
            self.queries(bench, true, rate)?;
            self.queries(bench, false, rate)?;
        }
        self.verify(bench)?;
        let live = self.tables.iter().map(Table::live).sum();
        Ok((live, live * ROW_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::workloads::testing::{must_fail, on_both, step};

    #[test]
    fn sql_rows_stay_as_many_as_were_loaded_and_a_lost_row_fails() {
        on_both("insertbench", &[("clients", "2"), ("seconds", "2.5")], |bench| {
            let count = |bench: &mut crate::lab::sql::Bench| -> u64 {
                let rows = bench.admin().value("SELECT COUNT(*) FROM pi2").expect("a count");
                rows.parse().expect("a number")
            };
            let rows = count(bench);
            // In each step, at most eight statements of fifty rows remain to be deleted.
            assert!((2_100..2_100 + 4 * 8 * 50).contains(&rows), "{rows}");
            assert_eq!(step(bench, "l.i1").metrics["ops"], 2_000.0);
            let point = &step(bench, "qp100").metrics;
            assert!(point["ops_s_p50"] > 0.0 && point["ops_s_p90"] >= point["ops_s_p50"]);
            assert!(step(bench, "qp100").metrics["background_s"] > 0.0);
            let lost = "DELETE FROM pi2 ORDER BY transactionid DESC LIMIT 1";
            must_fail(bench, lost, |bench| bench.verify("pi2", Some(rows), false));
        });
    }
}
