//! `tpcc`: the five transactions of TPC-C in the standard's mix, as an independent implementation.
//!
//! There are no terminals, no keying times and no think times, so the result is new orders per
//! minute (NOPM), not tpmC. The texts are random letters with the lengths of the standard. At the
//! end the consistency conditions of clause 3.3.2 must hold.

mod conditions;
mod consistency;
mod draw;
mod embedded;
mod load;
mod random;
mod schema;
mod statements;
mod tables;
mod transactions;

use std::sync::Mutex;

use self::random::{Constants, Scale};
use super::pace::{self, RATE, Rate};
use super::{Entry, Workload, refuse_without_rows};
use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::sql::{Bench, Connect, Session, Worker};
use crate::lab::step::Step;
use crate::measure;
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};
use load::Load;
use statements::Statements;
use transactions::Transactions;

pub use embedded::EMBEDDED;

/// Parameters in SQL. Embedded stores have all but the first.
const PARAMS: &[Param] = &[
    Param::fixed(
        "isolation",
        "repeatable-read",
        "isolation level of the transactions: repeatable-read, read-committed",
    ),
    Param::sized("warehouses", ["2", "2", "10", "40"], "warehouses"),
    Param::sized(
        "items",
        ["500", "50_000", "100_000", "100_000"],
        "items, 100,000 in the standard",
    ),
    Param::sized(
        "customers",
        ["30", "1_650", "3_000", "3_000"],
        "customers per district, 3,000 in the standard",
    ),
    Param::sized("clients", ["4", "8", "8", "16"], "clients of the transactions"),
    Param::sized("seconds", ["1", "3", "300", "1800"], "duration of the transactions, seconds"),
    Param::sized(
        "warm_up",
        ["0", "0.5", "60", "600"],
        "maximum warm-up before the transactions, seconds",
    ),
    RATE,
    Param::fixed("loaders", "4", "clients of the load"),
    Param::fixed("ratio", "10", "data to cache"),
    Param::sized("time_limit", ["60", "40", "1200", "0"], "seconds, 0 for none"),
];

pub const ENTRY: Entry = Entry {
    name: "tpcc",
    about: "TPC-C's five transactions without think times: orders, payments, deliveries",
    headline: ("requests", "nopm"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Tpcc::in_sql(params, seed)?)),
};

/// Bytes in plain InnoDB after the load: per item, per item of a warehouse, and per customer with
/// its orders. Their sum for one warehouse with the items, 163 MB, was measured.
const INNODB_BYTES: [u64; 3] = [110, 440, 3_600];
const READ_COMMITTED: &str = "read-committed";
/// Average bytes of a loaded row.
const ROW_BYTES: u64 = 120;

struct Tpcc {
    seed: u64,
    scale: Scale,
    constants: Constants,
    clients: u64,
    seconds: f64,
    warm_up: f64,
    rate: Rate,
    loaders: u64,
    /// Whether transactions run at READ COMMITTED. Otherwise they run at the server's default.
    is_read_committed: bool,
}

impl Tpcc {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let number = |name| params.number(name);
        let scale = Scale {
            warehouses: number("warehouses")?,
            items: number("items")?,
            customers: number("customers")?,
        };
        let made = Self {
            seed,
            scale,
            constants: Constants::new(seed),
            clients: number("clients")?,
            seconds: params.real("seconds")?,
            warm_up: params.real("warm_up")?,
            rate: Rate::new(params)?,
            loaders: number("loaders")?,
            is_read_committed: false,
        };
        let is_right = (1..=10_000).contains(&scale.warehouses)
            && (100..=100_000).contains(&scale.items)
            && (10..=3_000).contains(&scale.customers)
            && (1..=512).contains(&made.clients)
            && (1..=512).contains(&made.loaders)
            && made.seconds > 0.0;
        if is_right {
            return Ok(made);
        }
        Err(Failure(
            "tpcc: allowed are warehouses from 1, items from 100 to 100000, customers from 10 to 3000, clients and loaders from 1 to \
             512, seconds from 1"
                .to_owned(),
        ))
    }

    fn in_sql(params: &Params, seed: u64) -> Result<Self> {
        let level = params.word("isolation", &["repeatable-read", READ_COMMITTED])?;
        Ok(Self { is_read_committed: level == READ_COMMITTED, ..Self::new(params, seed)? })
    }

    fn data_bytes(&self) -> u64 {
        let Scale { warehouses, items, customers } = self.scale;
        let [item, stock, customer] = INNODB_BYTES;
        items * item + warehouses * (items * stock + random::DISTRICTS * customers * customer)
    }

    /// Tables with the number of rows that the load leaves, if that is known in advance.
    fn loaded(&self) -> [(&'static str, Option<u64>); 9] {
        let scale = &self.scale;
        let districts = scale.warehouses * random::DISTRICTS;
        let customers = districts * scale.customers;
        [
            ("item", Some(scale.items)),
            ("warehouse", Some(scale.warehouses)),
            ("district", Some(districts)),
            ("customer", Some(customers)),
            ("history", Some(customers)),
            ("orders", Some(customers)),
            ("new_orders", Some(districts * (scale.customers * 3 / 10))),
            ("order_line", None),
            ("stock", Some(scale.warehouses * scale.items)),
        ]
    }

    fn load(&self, bench: &mut Bench) -> Result<()> {
        for definition in schema::TABLES {
            bench.create(definition, "")?;
        }
        let load = Load::new(self.seed, self.scale, self.constants);
        let mut step = Step::load("load", Load::planned(&self.scale), ROW_BYTES);
        step.clients = self.loaders;
        let made = bench.step(&step, |worker| load.run(&mut Statements::new(worker)))?;
        let rows = made.metrics.get("ops").copied().unwrap_or(0.0) as u64;
        bench.loaded((rows, 0))?;
        for (table, rows) in self.loaded() {
            bench.verify(table, rows, true)?;
        }
        bench.crash()
    }

    fn request(&self, bench: &mut Bench) -> Result<()> {
        let mut step = Step::timed("requests", self.seconds, self.warm_up, self.clients);
        step.writes = true;
        step.series = &["new_order"];
        // A client's random streams continue after the warm-up.
        let stream = |client| Random::stream(self.seed, "tpcc", 2, client, Purpose::Choice);
        let streams: Vec<_> = (0..self.clients).map(|client| Mutex::new(stream(client))).collect();
        let (scale, constants) = (&self.scale, &self.constants);
        let transact = |worker: &mut Worker<'_>, mut transactions: Transactions| {
            let mut random =
                streams[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            while worker.go_on() {
                let (home, district, drawn) = draw::draw(&mut random, scale, constants);
                worker.request(drawn.name(), 1, |session| {
                    transactions.run(session, home, district, &drawn)
                })?;
            }
            Ok(())
        };
        let level = Mutex::new(None);
        pace::run(bench, &step, self.rate, |bench, step| {
            let prepare = |_, session: &mut Session, _: Connect<'_>| {
                if self.is_read_committed {
                    session.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")?;
                }
                let found = session.value("SELECT @@tx_isolation")?;
                *level.lock().unwrap_or_else(|e| e.into_inner()) = Some(found);
                Transactions::new(session)
            };
            count_orders(bench.step_prepared(step, prepare, transact, &[])?);
            Ok(())
        })?;
        let level = level.into_inner().unwrap_or_else(|e| e.into_inner());
        bench.result.facts.extend(level.map(|level| ("isolation level".to_owned(), level)));
        Ok(())
    }

    /// Number of rows at the end, and their bytes.
    fn live(&self, bench: &mut Bench) -> Result<(u64, u64)> {
        let (mut rows, mut bytes) = (0, 0);
        for (table, width) in schema::ROW_BYTES {
            let count = bench.admin().value(&format!("SELECT COUNT(*) FROM {table}"))?;
            let count: u64 = count.parse().unwrap_or(0);
            rows += count;
            bytes += count * width;
        }
        Ok((rows, bytes))
    }
}

/// Adds the metric `nopm`, new orders per minute, to a step.
fn count_orders(made: &mut StepResult) {
    let orders = made.latencies.get("new_order").map_or(0, |latencies| latencies.count);
    let seconds = made.metrics.get("seconds").copied().unwrap_or(0.0).max(1e-9);
    made.metrics.insert("nopm".to_owned(), orders as f64 * 60.0 / seconds);
}

impl Workload for Tpcc {
    fn innodb_bytes(&self) -> u64 {
        self.data_bytes()
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        refuse_without_rows(bench, "tpcc")?;
        self.load(bench)?;
        if bench.is_over() {
            return Ok((0, 0));
        }
        self.request(bench)?;
        bench.rest()?;
        for (table, _) in schema::ROW_BYTES {
            bench.verify(table, None, false)?;
        }
        if measure::is_interrupted() {
            return Ok((0, 0));
        }
        conditions::verify(bench)?;
        self.live(bench)
    }
}
