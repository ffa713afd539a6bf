//! `sweep`: sysbench's read_write and update_index with 1, 2, 4, … 512 clients. The steps with 1
//! and 16 clients are repeated at the end, which shows how much the machine or the table has
//! changed meanwhile.

use super::pace::Rate;
use super::sysbench::embedded::Loaded;
use super::sysbench::{self, DISTRIBUTIONS, Pace, Tables, Test};
use super::{Entry, Workload, sbtest};
use crate::lab::embedded;
use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::sql::Bench;
use crate::schema::Table;
use crate::targets::Result;

pub const ENTRY: Entry = Entry {
    name: "sweep",
    about: "sysbench's read_write and update_index with 1 to 512 clients",
    headline: ("read_write threads=1", "ops_s"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Sweep::new(params, seed)?)),
};

pub const EMBEDDED: embedded::Entry = embedded::Entry {
    name: ENTRY.name,
    about: ENTRY.about,
    headline: ENTRY.headline,
    params: PARAMS,
    make: |params, seed| Ok(Box::new(Sweep::new(params, seed)?)),
};

const PARAMS: &[Param] = &[
    Param::sized("rows", ["5_000", "100_000", "2_000_000", "10_000_000"], "rows"),
    Param::sized(
        "threads",
        ["1,4,16", "1,16,128", POWERS, POWERS],
        "numbers of clients, one step each",
    ),
    Param::sized(
        "again",
        ["1", "1", "1,16", "1,16"],
        "numbers of clients of the steps that are repeated at the end",
    ),
    Param::fixed("tests", "read_write,update_index", "tests of sysbench"),
    Param::sized("seconds", ["0.1", "0.4", "30", "30"], "duration of each step, seconds"),
    Param::sized("warm_up", ["0", "0", "10", "10"], "maximum warm-up before each step, seconds"),
    Param::fixed("distribution", "uniform", "distribution of the ids, as in sysbench"),
    Param::sized("ratio", ["0.4", "0.4", "4.5", "4.5"], "data to cache"),
    Param::sized("time_limit", ["60", "12", "2400", "0"], "seconds, 0 for none"),
];

/// Numbers of clients at sizes standard and published.
pub const POWERS: &str = "1,2,4,8,16,32,64,128,256,512";

struct Sweep {
    tables: Tables,
    steps: Vec<(Vec<u64>, &'static str)>,
    tests: Vec<Test>,
    pace: Pace,
    seed: u64,
}

impl Sweep {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let (rows, threads) = (params.number("rows")?, params.numbers("threads")?);
        let again = params.numbers("again")?;
        let all: Vec<u64> = threads.iter().chain(&again).copied().collect();
        sysbench::check(rows, 1, &all)?;
        let (seconds, warm_up) = (params.real("seconds")?, params.real("warm_up")?);
        let pace = Pace { seconds, warm_up, rate: Rate::Closed, steps: all.len() as u64 };
        let distribution = params.word("distribution", &DISTRIBUTIONS)?;
        let most = all.iter().copied().max().unwrap_or(1);
        let tables = Tables::new("sbtest", 1, rows, distribution, seed).with_clients(most);
        let steps = vec![(threads, ""), (again, " again")];
        Ok(Self { tables, steps, tests: sysbench::tests(params)?, pace, seed })
    }
}

impl Workload for Sweep {
    fn innodb_bytes(&self) -> u64 {
        self.tables.innodb_bytes()
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        if !sysbench::load(bench, &self.tables, self.seed)? {
            return Ok((0, 0));
        }
        for &test in &self.tests {
            for (threads, suffix) in &self.steps {
                for &clients in threads {
                    sysbench::run(bench, &self.tables, test, clients, suffix, self.pace)?;
                    note_drift(bench.result.steps.as_mut_slice());
                }
            }
        }
        bench.rest()?;
        sysbench::verify(bench, &self.tables)
    }
}

impl embedded::Workload for Sweep {
    fn tables(&self) -> Vec<Table> {
        sbtest::embedded::tables(&self.tables.names, false)
    }

    fn innodb_bytes(&self) -> u64 {
        self.tables.innodb_bytes()
    }

    fn run(&mut self, bench: &mut embedded::Bench<'_>) -> Result<(u64, u64)> {
        let Some(loaded) = Loaded::load(bench, &self.tables, self.seed)? else {
            return Ok((0, 0));
        };
        for &test in &self.tests {
            for (threads, suffix) in &self.steps {
                for &clients in threads {
                    loaded.run(bench, test, clients, suffix, self.pace)?;
                    note_drift(bench.result.steps.as_mut_slice());
                }
            }
        }
        bench.rest()?;
        loaded.verify(bench)
    }
}

/// Records how far the rate of the last step is from that of the step that it repeats: the machine,
/// or the table, has changed meanwhile.
fn note_drift(steps: &mut [StepResult]) {
    let Some((last, before)) = steps.split_last_mut() else { return };
    let rate = |step: &StepResult| step.metrics.get("ops_s").copied().filter(|rate| *rate > 0.0);
    let first = last
        .name
        .strip_suffix(" again")
        .and_then(|name| before.iter().find(|step| step.name == name).and_then(rate));
    if let (Some(first), Some(again)) = (first, rate(last)) {
        last.metrics.insert("drift_pct".to_owned(), 100.0 * (again / first - 1.0).abs());
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::embedded::testing::{on_all, step_of};
    use crate::lab::workloads::testing::{on_both, step};

    #[test]
    fn embedded_numbers_of_clients_come_in_their_order_and_the_first_again() {
        // More clients than LMDB has readers by default.
        let changes = [("threads", "1,150"), ("tests", "read_only,update_index")];
        on_all("sweep", &changes, |target, result| {
            let names: Vec<&str> = result.steps.iter().map(|step| step.name.as_str()).collect();
            assert_eq!(names[..3], ["load", "create index", "read_only threads=1"], "{target}");
            assert_eq!(names[7..], ["update_index threads=1 again"], "{target}");
            let again = &step_of(result, "read_only threads=1 again").metrics;
            assert!(again["ops"] > 0.0 && again.contains_key("drift_pct"), "{target}");
        });
    }

    #[test]
    fn sql_numbers_of_clients_come_in_their_order_and_the_first_again() {
        on_both("sweep", &[("threads", "1,40")], |bench| {
            assert!(step(bench, "read_write threads=40").metrics.contains_key("deadlocks_s"));
            let again = &step(bench, "update_index threads=1 again").metrics;
            assert!(again["ops"] > 0.0 && again.contains_key("drift_pct"));
            assert!(!step(bench, "update_index threads=1").metrics.contains_key("drift_pct"));
        });
    }
}
