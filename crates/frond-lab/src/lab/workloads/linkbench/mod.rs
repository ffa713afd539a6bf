//! `linkbench`: a social graph in three tables, and the requests of its applications, as published
//! in 2013.
//!
//! It follows upstream's source where that differs from its configuration (see choice.rs). At the
//! end the count of each node and type must be the number of its visible links.

mod choice;
mod embedded;
mod load;
mod requests;
mod statements;

use std::sync::Mutex;

use super::pace::{self, RATE, Rate};
use super::{Entry, Workload, refuse_without_rows};
use crate::lab::params::{Param, Params};
use crate::lab::results::StepResult;
use crate::lab::sql::{Bench, Worker, text_of};
use crate::lab::step::Step;
use crate::measure;
use crate::targets::{Failure, Result};
use choice::{Choices, Requester};
use load::Load;
use requests::Store;
use statements::Statements;

pub use embedded::EMBEDDED;

const PARAMS: &[Param] = &[
    Param::sized("ids", ["2_000", "129_000", "1_000_000", "10_000_000"], "nodes of the graph"),
    Param::sized(
        "loaders",
        ["4", "4", "4", "10"],
        "clients of the load, plus one that loads nodes",
    ),
    Param::sized("requesters", ["4", "16", "16", "100"], "clients of the requests"),
    Param::sized("seconds", ["1", "3", "300", "3600"], "duration of the requests, seconds"),
    Param::sized(
        "warm_up",
        ["0", "0.5", "60", "600"],
        "maximum warm-up before the requests, seconds",
    ),
    RATE,
    Param::fixed("partitions", "16", "partitions of the link table, 0 for none"),
    Param::fixed(
        "strict_config",
        "no",
        "writes as in LinkBench's configuration, not as in its source",
    ),
    Param::fixed("ratio", "9.6", "data to cache"),
    Param::sized("time_limit", ["60", "40", "900", "0"], "seconds, 0 for none"),
];

pub const ENTRY: Entry = Entry {
    name: "linkbench",
    about: "a social graph: links, their counts and nodes, in LinkBench's mix of requests",
    headline: ("requests", "add_link_10s"),
    params: PARAMS,
    make: |params, seed| Ok(Box::new(LinkBench::new(params, seed)?)),
};

/// Type of all nodes.
const NODE_TYPE: u32 = 2048;
/// Bytes per id in plain InnoDB after the load, measured at 200,000 ids (1,206), with as many links
/// per id as a million ids have, and at 129,000 ids without partitions (1,260). Each partition of
/// some megabytes reserves another 9 MB, which hold no data to be cached.
const INNODB_ID_BYTES: u64 = 1_250;
/// Bytes of a node: 24, and 211 of data on average. The next line is what plain InnoDB needs for
/// it.
pub const NODE_BYTES: u64 = 235;
pub const INNODB_NODE_BYTES: u64 = 290;

/// Loads only nodes, and returns their number.
///
/// # Errors
/// The server reports an error.
pub fn load_nodes(bench: &mut Bench, ids: u64, seed: u64) -> Result<u64> {
    bench.create(NODES, "")?;
    let choices = Choices::new(seed, ids, false);
    let load = Load::new(seed, ids, &choices);
    bench.step(&Step::load("load", ids, NODE_BYTES), |worker| {
        load.load_nodes(&mut Statements::new(worker, &load))
    })?;
    Ok(load.loaded().nodes)
}

const NODES: &str = "nodetable(id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT, type INT UNSIGNED NOT NULL, \
     version BIGINT UNSIGNED NOT NULL, time INT UNSIGNED NOT NULL, data MEDIUMTEXT NOT NULL, PRIMARY KEY(id))";

struct LinkBench {
    seed: u64,
    ids: u64,
    loaders: u64,
    requesters: u64,
    seconds: f64,
    warm_up: f64,
    rate: Rate,
    partitions: u64,
    strict: bool,
}

impl LinkBench {
    fn new(params: &Params, seed: u64) -> Result<Self> {
        let number = |name| params.number(name);
        let made = Self {
            seed,
            ids: number("ids")?,
            loaders: number("loaders")?,
            requesters: number("requesters")?,
            seconds: params.real("seconds")?,
            warm_up: params.real("warm_up")?,
            rate: Rate::new(params)?,
            partitions: number("partitions")?,
            strict: params.flag("strict_config")?,
        };
        let is_right = (2_000..=1 << 40).contains(&made.ids)
            && (1..=512).contains(&made.loaders)
            && (1..=512).contains(&made.requesters)
            && made.partitions <= 1024
            && made.seconds > 0.0;
        if is_right {
            return Ok(made);
        }
        Err(Failure(
            "linkbench: allowed are ids from 2000, loaders and requesters from 1 to 512, partitions to 1024, seconds from 1"
                .to_owned(),
        ))
    }

    fn create(&self, bench: &mut Bench) -> Result<()> {
        let partitioned = format!("PARTITION BY KEY(id1) PARTITIONS {}", self.partitions);
        bench.create(
            "linktable(id1 BIGINT UNSIGNED NOT NULL DEFAULT 0, id2 BIGINT UNSIGNED NOT NULL DEFAULT 0, \
             link_type BIGINT UNSIGNED NOT NULL DEFAULT 0, visibility TINYINT NOT NULL DEFAULT 0, \
             data VARCHAR(255) NOT NULL DEFAULT '', time BIGINT UNSIGNED NOT NULL DEFAULT 0, \
             version INT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY(link_type,id1,id2), \
             KEY id1_type(id1,link_type,visibility,time,id2,version,data))",
            if self.partitions > 0 { &partitioned } else { "" },
        )?;
        bench.create(
            "counttable(id BIGINT UNSIGNED NOT NULL DEFAULT 0, link_type BIGINT UNSIGNED NOT NULL DEFAULT 0, \
             count INT UNSIGNED NOT NULL DEFAULT 0, time BIGINT UNSIGNED NOT NULL DEFAULT 0, \
             version BIGINT UNSIGNED NOT NULL DEFAULT 0, PRIMARY KEY(id,link_type))",
            "",
        )?;
        bench.create(NODES, "")
    }

    fn load(&self, bench: &mut Bench, choices: &Choices) -> Result<(u64, u64)> {
        let load = Load::new(self.seed, self.ids, choices);
        // Average bytes of a row, from 37 (links), 36 (counts) and 24 (nodes), with 13 and 211 of
        // data for links and nodes.
        let mut step = Step::load("load", load.planned(), 80);
        step.clients = self.loaders + 1;
        bench.step(&step, |worker| match worker.index {
            0 => load.load_nodes(&mut Statements::new(worker, &load)),
            _ => load.load_links(&mut Statements::new(worker, &load)),
        })?;
        let loaded = load.loaded();
        let live = (loaded.links + loaded.counts + loaded.nodes, loaded.bytes);
        bench.loaded(live)?;
        bench.verify("linktable", Some(loaded.links), true)?;
        bench.verify("counttable", Some(loaded.counts), true)?;
        bench.verify("nodetable", Some(loaded.nodes), true)?;
        bench.crash()?;
        Ok(live)
    }

    fn request(&self, bench: &mut Bench, choices: &Choices) -> Result<()> {
        let mut step = Step::timed("requests", self.seconds, self.warm_up, self.requesters);
        step.series = &["add_link"];
        step.writes = true;
        // A client's random streams continue after the warm-up.
        let requesters: Vec<_> =
            (0..self.requesters).map(|at| Mutex::new(Requester::new(self.seed, at))).collect();
        let serve = |worker: &mut Worker<'_>, mut store: Store| {
            let mut requester =
                requesters[worker.index as usize].lock().unwrap_or_else(|e| e.into_inner());
            while worker.go_on() {
                store.serve(worker, choices, &mut requester)?;
            }
            Ok(())
        };
        pace::run(bench, &step, self.rate, |bench, step| {
            let made = bench.step_prepared(
                step,
                |_, session, connect| Store::new(session, connect),
                serve,
                &[],
            )?;
            if let Some(rate) = last_tenth(made) {
                made.metrics.insert("add_link_10s".to_owned(), 10.0 * rate);
            }
            Ok(())
        })
    }
}

/// Number of ADD_LINK per second in the last tenth of a step.
fn last_tenth(step: &StepResult) -> Option<f64> {
    let points = step.series.get("add_link")?;
    let (end, done) = *points.last()?;
    let (begin, before) =
        points.iter().rev().find(|(t, _)| *t <= 0.9 * end).copied().unwrap_or_default();
    (end > begin).then(|| (done - before) / (end - begin))
}

impl Workload for LinkBench {
    fn innodb_bytes(&self) -> u64 {
        self.ids * INNODB_ID_BYTES
    }

    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)> {
        refuse_without_rows(bench, "linkbench")?;
        let choices = Choices::new(self.seed, self.ids, self.strict);
        self.create(bench)?;
        let loaded = self.load(bench, &choices)?;
        if bench.is_over() {
            return Ok(loaded);
        }
        self.request(bench, &choices)?;
        bench.rest()?;
        verify(bench)?;
        live(bench, loaded)
    }
}

/// Verifies all tables, and that each count is the number of visible links.
fn verify(bench: &mut Bench) -> Result<()> {
    for table in ["linktable", "counttable", "nodetable"] {
        bench.verify(table, None, false)?;
    }
    if measure::is_interrupted() {
        return Ok(());
    }
    let mut both = Vec::new();
    for sql in [
        "SELECT COUNT(*),COALESCE(SUM(CRC32(CONCAT_WS(',',id,link_type,count))),0) FROM counttable WHERE count>0",
        "SELECT COUNT(*),COALESCE(SUM(CRC32(CONCAT_WS(',',id1,link_type,n))),0) FROM (SELECT id1,link_type,COUNT(*) n \
         FROM linktable FORCE INDEX(PRIMARY) WHERE visibility=1 GROUP BY link_type,id1) visible",
    ] {
        bench.admin().rows(sql, |row| both.push((text_of(row, 0), text_of(row, 1))))?;
    }
    let said = |(rows, sum): &(Option<String>, Option<String>)| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        format!("{} nodes and types with sum {}", text(rows), text(sum))
    };
    let detail = format!("counts: {}; visible links: {}", said(&both[0]), said(&both[1]));
    bench.result.verify("counts of visible links", both[0] == both[1], detail);
    Ok(())
}

/// Rows and bytes at the end; those of the load if there is no time left to query them.
fn live(bench: &mut Bench, loaded: (u64, u64)) -> Result<(u64, u64)> {
    if bench.is_over() {
        return Ok(loaded);
    }
    let (mut rows, mut bytes) = (0, 0);
    for sql in [
        "SELECT COUNT(*),COALESCE(SUM(37+LENGTH(data)),0) FROM linktable",
        "SELECT COUNT(*),36*COUNT(*) FROM counttable",
        "SELECT COUNT(*),COALESCE(SUM(24+LENGTH(data)),0) FROM nodetable",
    ] {
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).unwrap_or(0u64);
        bench.admin().rows(sql, |row| {
            rows += number(text_of(row, 0));
            bytes += number(text_of(row, 1));
        })?;
    }
    Ok((rows, bytes))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, on_both};
    use super::*;

    #[test]
    fn the_last_tenth_is_of_the_time() {
        let mut step = StepResult::default();
        let points = (1..=10).map(|t| (f64::from(t), f64::from(t * t))).collect();
        step.series.insert("add_link".to_owned(), points);
        assert_eq!(last_tenth(&step), Some(19.0));
        assert_eq!(last_tenth(&StepResult::default()), None);
    }

    #[test]
    fn sql_counts_match_visible_links_and_a_lost_count_fails() {
        on_both("linkbench", &[], |bench| {
            let step = testing::step(bench, "requests");
            assert!(step.metrics["add_link_10s"] > 0.0);
            assert!(step.latencies.contains_key("get_links_list"), "{:?}", step.latencies.keys());
            assert!(step.series["add_link"].last().is_some_and(|(_, done)| *done > 0.0));
            testing::must_fail(bench, "DELETE FROM counttable WHERE count>0 LIMIT 1", verify);
        });
    }

    #[test]
    fn sql_an_open_loop_keeps_to_its_rate_without_partitions() {
        let changes = [("rate", "50"), ("partitions", "0"), ("strict_config", "yes")];
        on_both("linkbench", &changes, |bench| {
            let step = testing::step(bench, "requests");
            assert!(step.metrics["ops"] <= 52.0, "{:?}", step.metrics);
            assert!(step.metrics.contains_key("busy"), "{:?}", step.metrics);
            assert!(step.metrics.contains_key("unserved"), "{:?}", step.metrics);
            // The rows that a request changes are not known.
            assert!(!step.metrics.contains_key("write_amp"), "{:?}", step.metrics);
        });
    }
}
