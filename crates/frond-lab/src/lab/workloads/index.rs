//! `index`: CREATE INDEX on sysbench's rows, first on a table that is otherwise unused, then while
//! a writer updates 500 rows per second. Measures the writer's latencies and longest wait, and the
//! size of the index compared with one that was built by inserts.

use super::compressed::{self, put};
use super::sbtest::{self, INNODB_ROW_BYTES, Load, ROW_BYTES};
use super::{Entry, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Concurrent, Worker};
use crate::lab::step::Step;
use crate::random::{Purpose, Random};
use crate::targets::{Failure, Result};

pub const ENTRY: Entry = Entry {
    name: "index",
    about: "CREATE INDEX, offline and with a concurrent writer, and its size against an index built by inserts",
    headline: ("online", "seconds"),
    params: &[
        Param::sized("rows", ["5_000", "312_000", "2_000_000", "10_000_000"], "rows"),
        Param::fixed("rate", "500", "rows that the writer changes per second"),
        Param::fixed("ratio", "4.5", "data to cache"),
        Param::sized("time_limit", ["60", "40", "1200", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Index::new(params, seed)?)),
};

struct Index {
    rows: u64,
    rate: f64,
    seed: u64,
}

impl Index {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, rate) = (params.number("rows")?, params.real("rate")?);
        if !(1..=i32::MAX as u64).contains(&rows) || rate <= 0.0 {
            return Err(Failure("index: rows and rate must be at least 1".to_owned()));
        }
        Ok(Self { rows, rate, seed })
    }

    /// Creates the index while a writer updates rows.
    fn online(&self, bench: &mut Bench) -> Result<()> {
        let write = |worker: &mut Worker<'_>| {
            let update = worker.session.prepare("UPDATE sbtest1 SET k=k+1 WHERE id=?")?;
            let mut random = Random::stream(self.seed, "index", 0, 0, Purpose::Choice);
            worker.set_rate(self.rate);
            while worker.go_on() {
                let id = random.below(self.rows) + 1;
                worker.request("write", 1, |session| session.execute(&update, (id,)).map(drop))?;
            }
            Ok(())
        };
        let step = Step { name: "online", ..Step::load("", self.rows, 0) };
        let create = |worker: &mut Worker<'_>| {
            worker.request("create_index", self.rows, |session| {
                session.run("CREATE INDEX k ON sbtest1(k)").map(drop)
            })
        };
        let made = bench.step_concurrent(&step, create, &[&write as Concurrent<'_>])?;
        if let Some(latencies) = made.latencies.get("write") {
            let found = latencies.histogram()?;
            put(bench, "writer_p999_us", found.value_at_quantile(0.999) as f64 / 1e3);
            put(bench, "writer_max_us", found.max() as f64 / 1e3);
        }
        Ok(())
    }
}

impl Workload for Index {
    fn innodb_bytes(&self) -> u64 {
        self.rows * INNODB_ROW_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        // First an index that is built by inserts, with which those built in bulk are compared.
        bench.create(&sbtest::definition("inserted", Some("k")), "")?;
        let inserted = Load::new("by inserts", "inserted", self.rows, self.seed).run(bench)?;
        bench.loaded((inserted, inserted * ROW_BYTES))?;
        compressed::note_lengths(bench, "inserted")?;
        bench.admin().run("DROP TABLE inserted")?;
        bench.create(&sbtest::definition("sbtest1", None), "")?;
        let loaded = Load::new("load", "sbtest1", self.rows, self.seed).run(bench)?;
        bench.loaded((loaded, loaded * ROW_BYTES))?;
        if bench.is_over() {
            return Ok((loaded, loaded * ROW_BYTES));
        }
        let offline = "ALTER TABLE sbtest1 ADD INDEX k (k), LOCK=EXCLUSIVE";
        sbtest::create_index(bench, "offline", self.rows, offline)?;
        bench.loaded((loaded, loaded * ROW_BYTES))?;
        compressed::note_lengths(bench, "sbtest1")?;
        bench.verify("sbtest1", Some(loaded), true)?;
        bench.crash()?;
        if !bench.is_over() {
            bench.admin().run("DROP INDEX k ON sbtest1")?;
            self.online(bench)?;
            compressed::note_lengths(bench, "sbtest1")?;
        }
        bench.rest()?;
        bench.verify("sbtest1", Some(loaded), false)?;
        Ok((loaded, loaded * ROW_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::workloads::testing::{on_both, step};

    #[test]
    fn sql_a_writer_continues_while_an_index_is_created() {
        on_both("index", &[("rows", "20000"), ("rate", "2000")], |bench| {
            assert!(step(bench, "online").metrics["writer_max_us"] > 0.0);
            assert!(step(bench, "offline").metrics["index_length_b"] > 0.0);
        });
    }
}
