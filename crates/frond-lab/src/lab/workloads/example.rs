//! The example of docs/lab.md: a workload that is one file and one line, and a metric that is one
//! line and the line that reports it. Only tests have them.

use super::{Entry, Workload};
use crate::lab::params::{Param, Params};
use crate::lab::sql::{Bench, Worker};
use crate::lab::step::Step;
use crate::random::Random;
use crate::targets::{Failure, Result};

pub const ENTRY: Entry = Entry {
    name: "example",
    about: "rows that are inserted one by one",
    headline: ("work", "odd_pct"),
    params: &[
        Param::sized("rows", ["1000", "1_200_000", "1_200_000", "10_000_000"], "rows"),
        Param::fixed("ratio", "4", "data to cache"),
        Param::sized("time_limit", ["60", "12", "600", "0"], "seconds, 0 for none"),
    ],
    make: |params, seed| Ok(Box::new(Example::new(params, seed)?)),
};

struct Example {
    rows: u64,
    seed: u64,
}

impl Example {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        match params.number("rows")? {
            0 => Err(Failure("example: rows must be at least 1".to_owned())),
            rows => Ok(Self { rows, seed }),
        }
    }

    /// A value for each row.
    fn values(&self) -> impl Iterator<Item = u64> {
        let mut random = Random::new(self.seed);
        (0..self.rows).map(move |_| random.below(1_000))
    }

    fn odd_pct(&self) -> f64 {
        let odd = self.values().filter(|value| value % 2 == 1).count();
        100.0 * odd as f64 / self.rows as f64
    }

    fn client(&self, worker: &mut Worker<'_>) -> Result<()> {
        let insert = worker.session.prepare("INSERT INTO example VALUES(?,?)")?;
        for (id, value) in (1u64..).zip(self.values()) {
            if !worker.go_on() {
                break;
            }
            worker
                .request("insert", 1, |session| session.execute(&insert, (id, value)).map(drop))?;
        }
        Ok(())
    }
}

impl Workload for Example {
    fn innodb_bytes(&self) -> u64 {
        self.rows * 60
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        bench.create("example(id BIGINT PRIMARY KEY, v INT, KEY v (v))", "")?;
        let made = bench.step(&Step::load("work", self.rows, 12), |worker| self.client(worker))?;
        made.metrics.insert("odd_pct".to_owned(), self.odd_pct());
        bench.loaded((self.rows, self.rows * 12))?;
        bench.verify("example", Some(self.rows), true)?;
        Ok((self.rows, self.rows * 12))
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::exchange::markdown;
    use crate::lab::report::{Options, report};
    use crate::lab::results::testing::{a_key, a_run};
    use crate::lab::results::{CellKey, Database};
    use crate::lab::workloads::testing::on_both;

    #[test]
    fn sql_a_workload_and_a_metric_that_are_one_addition_each_are_shown_and_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("r.sqlite");
        let mut database = Database::open(&path).expect("a new file");
        let run = database.begin_run(&a_run("aa")).expect("begun");
        drop(database);
        on_both("example", &[], |bench| {
            let mut database = Database::open(&path).expect("it is there");
            let key = CellKey { workload: "example".to_owned(), ..a_key(&bench.target.name, 1) };
            database.write_cell(run, &key, 0, &bench.result).expect("written");
        });
        let database = Database::open(&path).expect("it is there");
        let info = database.find_run("last").expect("a run");
        let shown = markdown(&database, &info).expect("shown");
        assert!(shown.contains("**example · sql · work**"), "{shown}");
        assert!(shown.contains("| target | odd_pct, % | ops_s, 1/s |"), "{shown}");

        let (out, run) = (dir.path().join("pages"), Vec::new());
        let options = Options { out: out.clone(), run, chart: None, workload: String::new() };
        report(&database, &options).expect("reported");
        let read = |name: &str| std::fs::read_to_string(out.join(name)).expect("a page");
        assert!(read("index.html").contains("example"));
        let mut pages = std::fs::read_dir(&out).expect("a folder").flatten();
        let page = pages.find(|page| page.file_name().to_string_lossy().contains("example"));
        let page = page.expect("the workload has a page").file_name();
        assert!(read(&page.to_string_lossy()).contains("rows with an odd value"));
    }
}
