//! `tpcc`: the five transactions of TPC-C, an implementation of our own of the standard's mix.
//!
//! There are no terminals, and neither keying nor thinking: the result is new orders per minute (NOPM), not tpmC. The
//! texts are random letters of the standard's lengths. In the end the consistency conditions of clause 3.3.2 must hold.

mod draw;
mod load;
mod random;
mod schema;
mod transactions;

use std::sync::Mutex;

use self::random::{Constants, Scale};
use super::pace::{self, RATE, Rate};
use super::{Entry, Workload, refuse_without_rows};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Connect, Session, Step, Worker};
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};
use load::Load;
use transactions::Transactions;

pub const ENTRY: Entry = Entry {
    name: "tpcc",
    about: "TPC-C's five transactions without think times: orders, payments, deliveries",
    headline: ("requests", "nopm"),
    params: &[
        Param::sized("warehouses", ["2", "2", "10", "40"], "warehouses"),
        Param::sized(
            "items",
            ["500", "50_000", "100_000", "100_000"],
            "items, 100,000 in the standard",
        ),
        Param::sized(
            "customers",
            ["30", "1_650", "3_000", "3_000"],
            "of a district, 3,000 in the standard",
        ),
        Param::sized("clients", ["4", "8", "8", "16"], "clients of the transactions"),
        Param::sized("seconds", ["1", "3", "300", "1800"], "duration of the transactions"),
        Param::sized("warm_up", ["0", "0.5", "60", "600"], "longest warm-up before them, seconds"),
        RATE,
        Param::fixed("loaders", "4", "clients of the load"),
        Param::fixed("ratio", "10", "data to cache"),
        Param::sized("time_limit", ["60", "40", "1200", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Tpcc::new(params, seed)?)),
};

/// Bytes of plain InnoDB after the load: per item, per item of a warehouse, and per customer with its orders. Their sum
/// for a warehouse, 163 MB with the items, was measured.
const INNODB_BYTES: [u64; 3] = [110, 440, 3_600];
/// Bytes of a loaded row on average.
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
            "tpcc: warehouses from 1, items from 100 to 100000, customers from 10 to 3000, clients and loaders from 1 to \
             512, seconds from 1"
                .to_owned(),
        ))
    }

    fn load(&self, bench: &mut Bench) -> Result<()> {
        for definition in schema::TABLES {
            bench.create(definition, "")?;
        }
        let load = Load::new(self.seed, self.scale, self.constants);
        let mut step = Step::load("load", Load::planned(&self.scale), ROW_BYTES);
        step.clients = self.loaders;
        let made = bench.step(&step, |worker| load.run(worker))?;
        let rows = made.metrics.get("ops").copied().unwrap_or(0.0) as u64;
        bench.loaded((rows, 0))?;
        let scale = &self.scale;
        let districts = scale.warehouses * random::DISTRICTS;
        let customers = districts * scale.customers;
        for (table, rows) in [
            ("item", Some(scale.items)),
            ("warehouse", Some(scale.warehouses)),
            ("district", Some(districts)),
            ("customer", Some(customers)),
            ("history", Some(customers)),
            ("orders", Some(customers)),
            ("new_orders", Some(districts * (scale.customers * 3 / 10))),
            ("order_line", None),
            ("stock", Some(scale.warehouses * scale.items)),
        ] {
            bench.verify(table, rows, true)?;
        }
        Ok(())
    }

    fn request(&self, bench: &mut Bench) -> Result<()> {
        let mut step = Step::timed("requests", self.seconds, self.warm_up, self.clients);
        step.writes = true;
        step.series = &["new_order"];
        // What a client has drawn goes on after the warm-up.
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
        pace::run(bench, &step, self.rate, |bench, step| {
            let prepare = |_, session: &mut Session, _: Connect<'_>| Transactions::new(session);
            let made = bench.step_prepared(step, prepare, transact, &[])?;
            let orders = made.latencies.get("new_order").map_or(0, |latencies| latencies.count);
            if let Some(seconds) = made.metrics.get("seconds").copied() {
                made.metrics.insert("nopm".to_owned(), orders as f64 * 60.0 / seconds.max(1e-9));
            }
            Ok(())
        })
    }

    /// Rows in the end, and their bytes.
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

impl Workload for Tpcc {
    fn innodb_bytes(&self) -> u64 {
        let Scale { warehouses, items, customers } = self.scale;
        let [item, stock, customer] = INNODB_BYTES;
        items * item + warehouses * (items * stock + random::DISTRICTS * customers * customer)
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
        if bench.is_over() {
            return Ok((0, 0));
        }
        verify(bench)?;
        self.live(bench)
    }
}

/// Consistency conditions of clause 3.3.2: each query counts what violates one.
const CONDITIONS: [(&str, &str); 8] = [
    (
        "3.3.2.1: a warehouse's sum is that of its districts",
        "SELECT COUNT(*) FROM warehouse LEFT JOIN (SELECT d_w_id,SUM(d_ytd) s FROM district GROUP BY d_w_id) d \
         ON d_w_id=w_id WHERE NOT w_ytd<=>s",
    ),
    (
        "3.3.2.2: a district's next order follows its last one",
        "SELECT COUNT(*) FROM district LEFT JOIN (SELECT o_w_id,o_d_id,MAX(o_id) m FROM orders GROUP BY o_w_id,o_d_id) o \
         ON o_w_id=d_w_id AND o_d_id=d_id LEFT JOIN (SELECT no_w_id,no_d_id,MAX(no_o_id) m FROM new_orders \
         GROUP BY no_w_id,no_d_id) n ON no_w_id=d_w_id AND no_d_id=d_id \
         WHERE NOT d_next_o_id-1<=>o.m OR n.m<>o.m",
    ),
    (
        "3.3.2.3: new orders of a district have no gaps",
        "SELECT COUNT(*) FROM (SELECT 1 FROM new_orders GROUP BY no_w_id,no_d_id \
         HAVING MAX(no_o_id)-MIN(no_o_id)+1<>COUNT(*)) x",
    ),
    (
        "3.3.2.4: a district's orders have as many lines as they say",
        "SELECT COUNT(*) FROM (SELECT o_w_id w,o_d_id d,SUM(o_ol_cnt) s FROM orders GROUP BY o_w_id,o_d_id) o \
         LEFT JOIN (SELECT ol_w_id,ol_d_id,COUNT(*) n FROM order_line GROUP BY ol_w_id,ol_d_id) l \
         ON ol_w_id=w AND ol_d_id=d WHERE NOT s<=>n",
    ),
    (
        "3.3.2.5: an order is new if and only if it has no carrier",
        "SELECT COUNT(*) FROM orders LEFT JOIN new_orders ON no_w_id=o_w_id AND no_d_id=o_d_id AND no_o_id=o_id \
         WHERE (o_carrier_id IS NULL)<>(no_o_id IS NOT NULL)",
    ),
    (
        "3.3.2.6: each order has as many lines as it says",
        "SELECT COUNT(*) FROM orders LEFT JOIN (SELECT ol_w_id,ol_d_id,ol_o_id,COUNT(*) n FROM order_line \
         GROUP BY ol_w_id,ol_d_id,ol_o_id) l ON ol_w_id=o_w_id AND ol_d_id=o_d_id AND ol_o_id=o_id \
         WHERE NOT o_ol_cnt<=>n",
    ),
    (
        "3.3.2.8: a warehouse's sum is that of its history",
        "SELECT COUNT(*) FROM warehouse LEFT JOIN (SELECT h_w_id,SUM(h_amount) s FROM history GROUP BY h_w_id) h \
         ON h_w_id=w_id WHERE NOT w_ytd<=>s",
    ),
    (
        "3.3.2.9: a district's sum is that of its history",
        "SELECT COUNT(*) FROM district LEFT JOIN (SELECT h_w_id,h_d_id,SUM(h_amount) s FROM history \
         GROUP BY h_w_id,h_d_id) h ON h_w_id=d_w_id AND h_d_id=d_id WHERE NOT d_ytd<=>s",
    ),
];

fn verify(bench: &mut Bench) -> Result<()> {
    for (name, sql) in CONDITIONS {
        let count = bench.admin().value(sql)?;
        bench.result.verify(name, count == "0", format!("{count} violate it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{must_fail, on_both, step};
    use super::*;
    use crate::lab::results::State;

    #[test]
    fn sql_conditions_hold_and_each_notices_its_violation() {
        on_both("tpcc", &[], |bench| {
            let made = step(bench, "requests");
            assert!(made.metrics["nopm"] > 0.0 && made.latencies.contains_key("payment"));
            for (harm, condition) in [
                ("UPDATE warehouse SET w_ytd=w_ytd+1 WHERE w_id=1", "3.3.2.1"),
                ("UPDATE district SET d_next_o_id=d_next_o_id+1 LIMIT 1", "3.3.2.2"),
                (
                    "DELETE FROM new_orders WHERE no_d_id=1 AND no_w_id=1 AND no_o_id=\
                  (SELECT m FROM (SELECT MAX(no_o_id)-1 m FROM new_orders WHERE no_d_id=1 AND no_w_id=1) x)",
                    "3.3.2.3",
                ),
                ("DELETE FROM order_line LIMIT 1", "3.3.2.4"),
                (
                    "UPDATE orders SET o_carrier_id=NULL WHERE o_carrier_id IS NOT NULL LIMIT 1",
                    "3.3.2.5",
                ),
                ("DELETE FROM order_line LIMIT 1", "3.3.2.6"),
                ("DELETE FROM history LIMIT 1", "3.3.2.8"),
                ("DELETE FROM history LIMIT 1", "3.3.2.9"),
            ] {
                bench.result.verified.clear();
                bench.result.state = State::Done;
                must_fail(bench, harm, verify);
                let found =
                    bench.result.verified.iter().find(|found| found.name.starts_with(condition));
                assert!(found.is_some_and(|found| !found.passed), "{harm}: {condition} holds");
            }
        });
    }
}
