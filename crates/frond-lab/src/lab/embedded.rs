//! The embedded face: stores in the process of the cell, by the workloads of `frond bench`.
//!
//! A workload here is one of `crate::workloads`, with the parameters that it has in the lab.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde_json::Value;

use super::cell::Order;
use super::machine::class::Confined;
use super::metric;
use super::params::{Param, Params};
use super::results::{CellResult, State, StepResult};
use super::size::Durability;
use super::suggest::unknown;
use super::version;
use crate::child;
use crate::results::{Final, Row};
use crate::size::Bytes;
use crate::targets::{self, Failure, Result, TargetName};
use crate::workloads::{Name, Profile, Rest, Shape, Spec};

/// A line of the registry.
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Step and metric that the matrix shows; no step: that of the workload's name.
    pub headline: (&'static str, &'static str),
    /// Its parameters.
    pub params: &'static [Param],
    /// Bytes of a row in plain InnoDB: the memory of the run is rows by this by the ratio.
    row_bytes: u64,
}

const SECONDS: Param = Param::sized("seconds", ["1", "4", "60", "600"], "seconds of a timed step");
const THREADS: Param = Param::fixed("threads", "1", "clients that read");
const TEN: Param = Param::fixed("ratio", "10", "data to cache");
const LIMIT: Param = Param::sized("time_limit", ["60", "12", "600", "0"], "seconds, 0 for none");

/// All workloads.
pub const ALL: &[Entry] = &[
    Entry {
        name: "iibench",
        about: "inserts in primary-key order with three random secondary indexes (iiBench of 2011)",
        headline: ("iibench", "exit_velocity"),
        params: &[
            Param::sized("rows", ["20_000", "800_000", "2_500_000", "25_000_000"], "rows"),
            Param::fixed("ratio", "1.75", "data to cache"),
            LIMIT,
        ],
        row_bytes: 140,
    },
    Entry {
        name: "weblog",
        about: "a performance log of database calls, seven days of it, three indexes",
        headline: ("weblog", "ops_s"),
        params: &[
            Param::sized("rows", ["7_000", "250_000", "4_900_000", "70_000_000"], "rows"),
            Param::fixed("profile", "typical", "how repetitive it is: typical, chatty, polling"),
            TEN,
            LIMIT,
        ],
        row_bytes: 410,
    },
    Entry {
        name: "dbbench",
        about: "db_bench: plain keys and values; one test a cell (--set test=readrandom)",
        headline: ("", "ops_s"),
        params: &[
            Param::fixed(
                "test",
                "fillrandom",
                "fillseq, fillrandom, overwrite, readrandom, readmissing, readseq, readreverse, seekrandom, readwhilewriting",
            ),
            Param::sized("rows", ["10_000", "500_000", "4_000_000", "4_000_000"], "rows"),
            Param::fixed(
                "shape",
                "script",
                "script: 20-byte keys, 400-byte values; classic: 16 and 100",
            ),
            THREADS,
            SECONDS,
            TEN,
            LIMIT,
        ],
        row_bytes: 425,
    },
    Entry {
        name: "queue",
        about: "put at the right, delete at the left, read the first",
        headline: ("queue", "ops_s"),
        params: &[
            Param::sized("rows", ["10_000", "400_000", "4_000_000", "4_000_000"], "rows"),
            TEN,
            LIMIT,
        ],
        row_bytes: 425,
    },
];

/// The workload of this name.
///
/// # Errors
/// There is none: the nearest are listed.
pub fn find(name: &str) -> Result<&'static Entry> {
    let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    let found = ALL.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| unknown("embedded workload", name, &names))
}

/// Names of the targets.
pub const TARGETS: [&str; 5] = ["frond", "rocksdb", "sqlite", "lmdb", "null"];

/// The target of this name, if it is built in.
///
/// # Errors
/// It is unknown, or its library was missing when the lab was built.
pub fn target(name: &str) -> Result<TargetName> {
    let base = match version::split(name) {
        None => name,
        Some(("frond", _)) => "frond",
        Some((base, _)) => {
            return Err(Failure(format!("embedded target {base} has no versions: only frond has")));
        }
    };
    if !TARGETS.contains(&base) {
        return Err(unknown("embedded target", base, &TARGETS));
    }
    let target = base.parse::<TargetName>().map_err(Failure)?;
    targets::available(target)?;
    Ok(target)
}

/// Variables that the process of a cell is started with.
///
/// # Errors
/// The target is unknown.
pub fn environment(order: &Order) -> Result<Vec<(&'static str, String)>> {
    targets::environment(target(&order.target)?)
}

/// Memory of the target, bytes.
///
/// # Errors
/// A parameter that is wrong.
pub fn memory(entry: &Entry, params: &Params) -> Result<u64> {
    let data = params.number("rows")? * entry.row_bytes;
    Ok((data as f64 / params.real("ratio")?.max(1e-3)) as u64)
}

fn word<T: ValueEnum>(params: &Params, name: &str) -> Result<T> {
    let text = params.text(name);
    let names: Vec<String> = T::value_variants()
        .iter()
        .filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    T::from_str(text, false).map_err(|_| unknown(&format!("value of {name}"), text, &names))
}

fn has(entry: &Entry, name: &str) -> bool {
    entry.params.iter().any(|param| param.name == name)
}

/// What a child of `frond bench` would be told.
///
/// # Errors
/// A parameter that is wrong, or a durability that embedded stores do not have.
pub fn child_order(order: &Order) -> Result<child::Order> {
    let entry = find(&order.workload)?;
    let params = order.params()?;
    let own = |name: &str, default: u64| -> Result<u64> {
        if has(entry, name) { params.number(name) } else { Ok(default) }
    };
    let workload = match has(entry, "test") {
        true => word(&params, "test")?,
        false => Name::from_str(entry.name, false).map_err(Failure)?,
    };
    let durability = match order.durability {
        Durability::Safe => targets::Durability::Sync,
        Durability::Relaxed => targets::Durability::Os,
        Durability::Lazy => targets::Durability::Lazy,
        Durability::HistUnsafe => {
            return Err(Failure("embedded stores have no durability hist-unsafe".to_owned()));
        }
    };
    let rows = params.number("rows")?;
    if rows == 0 {
        return Err(Failure(format!("{}: rows from 1", entry.name)));
    }
    Ok(child::Order {
        target: target(&order.target)?,
        version: order.plugin.clone().map(|library| targets::library::Version {
            commit: version::split(&order.target).map_or("", |(_, commit)| commit).to_owned(),
            header: version::header_of(&library),
            library,
        }),
        workload,
        spec: Spec {
            rows,
            seed: order.seed,
            shape: if has(entry, "shape") { word(&params, "shape")? } else { Shape::Script },
            threads: own("threads", 1)?.max(1),
            seconds: own("seconds", 60)?,
            held: None,
            query_rate: 10.0,
            profile: if has(entry, "profile") {
                word(&params, "profile")?
            } else {
                Profile::Typical
            },
            durability,
            one_writer: false,
            packages: Default::default(),
            clients: vec![1],
            phases: Vec::new(),
            whole_seconds: false,
        },
        memory: Bytes(order.memory()?),
        dir: order.dir.clone(),
        rest: if order.with_rest { Rest::UntilStill } else { Rest::None },
        compact: false,
        yardstick: false,
        verify: true,
        time_limit: Some(params.number("time_limit")?).filter(|seconds| *seconds > 0),
        // What this process has before the store is opened.
        base_rss: crate::measure::Subject::Own.rss_bytes(),
    })
}

/// Runs the cell.
///
/// # Errors
/// As for [`child_order`].
pub fn run(order: &Order) -> Result<CellResult> {
    let child_order = child_order(order)?;
    let class = order.storage_class()?;
    std::fs::create_dir_all(&order.dir)?;
    // This process is the store's: it is limited as a whole.
    let confined = match class.io().is_none() || order.disk.is_some() {
        true => Confined::default(),
        false => class.confine(std::process::id(), &order.dir, None)?,
    };
    let found = child::collect(&child_order);
    let mut result = converted(&found)?;
    result.settings.extend(confined.settings(&class, order.disk));
    result.memory_b = child_order.memory.0;
    Ok(result)
}

/// Names of the lab for what `frond bench` calls otherwise.
const RENAMED: [(&str, &str); 3] = [
    ("wr_b_op_quiesced", "wr_b_op_rested"),
    ("cpu_us_op_quiesced", "cpu_us_op_rested"),
    ("cpu_generator_us_op", "client_cpu_us_op"),
];
/// Metrics of the store when all steps have ended.
const OF_CELL: [&str; 4] = ["disk_b", "disk_b_row", "space_amp", "mem_peak_b"];

fn converted(found: &Final) -> Result<CellResult> {
    let mut result = CellResult { version: found.version.clone(), ..CellResult::default() };
    result.settings.extend(found.settings.iter().cloned());
    let all_planned = found.rows.iter().all(|row| row.ops >= row.ops_planned);
    for row in &found.rows {
        let step = step(row)?;
        for name in OF_CELL {
            if let Some(value) = step.metrics.get(name) {
                result.metrics.insert(name.to_owned(), *value);
            }
        }
        result.steps.push(step);
        // A step that ended by the clock has changed other rows on each target.
        if let Some(crc) = row.rows_crc.as_ref().filter(|_| all_planned) {
            result.facts.insert(format!("rows of {}", row.step), crc.clone());
        }
        if let Some(verified) = &row.verified {
            let detail = format!(
                "{} of {} keyspaces, {} entries",
                verified.keyspaces, verified.of, verified.entries
            );
            result.verify(
                &format!("keyspaces after {}", row.step),
                verified.keyspaces == verified.of,
                detail,
            );
        }
        for (kind, n) in row.errors.iter().filter(|(kind, _)| *kind != "verification") {
            result.verify(&format!("errors in {}", row.step), false, format!("{n} times {kind}"));
        }
        if !row.finished && result.state == State::Done {
            result.state = State::Stopped;
        }
    }
    if let Some(failure) = &found.failure {
        result.state = State::Failed;
        result.failure = Some(failure.clone());
    }
    Ok(result)
}

/// A row's figures by the names of the lab's metrics.
fn step(row: &Row) -> Result<StepResult> {
    let Value::Object(fields) = serde_json::to_value(row)? else {
        return Err(Failure("a row of results is no object".to_owned()));
    };
    let mut metrics = BTreeMap::new();
    for (name, value) in &fields {
        let renamed = RENAMED
            .iter()
            .find(|(theirs, _)| theirs == name)
            .map_or(name.as_str(), |(_, ours)| ours);
        if let (Some(metric), Some(value)) = (metric::find(renamed), value.as_f64()) {
            metrics.insert(metric.name.to_owned(), value);
        }
    }
    metrics.insert("planned".to_owned(), row.ops_planned as f64);
    // Percentiles of the request that the step is about: they are named `REQUEST_p99_us`.
    for (name, value) in &row.latencies {
        let metric =
            metric::METRICS.iter().find(|metric| name.ends_with(&format!("_{}", metric.name)));
        let is_main = !name.starts_with("query_");
        if let Some(metric) = metric.filter(|_| is_main) {
            metrics.entry(metric.name.to_owned()).or_insert(*value);
        }
    }
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for sample in &row.series {
        for (name, value) in [
            ("ops", sample.mark.ops as f64),
            ("rss_b", sample.rss_b as f64),
            ("cpu_s", sample.cpu_s),
            ("written_b", sample.write_b as f64),
            ("read_b", sample.read_b as f64),
        ] {
            series.entry(name.to_owned()).or_default().push((sample.mark.seconds, value));
        }
    }
    series.entry("ops".to_owned()).or_default().push((row.seconds, row.ops as f64));
    Ok(StepResult { name: row.step.clone(), metrics, series, ..StepResult::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::size::{Face, Size};

    fn order(workload: &str, target: &str, size: Size, dir: &std::path::Path) -> Order {
        Order {
            workload: workload.to_owned(),
            changes: Vec::new(),
            face: Face::Embedded,
            target: target.to_owned(),
            size,
            class: "host".to_owned(),
            limits: None,
            disk: None,
            durability: Durability::Relaxed,
            seed: 42,
            memory: None,
            dir: dir.to_owned(),
            with_rest: false,
            plugin: None,
        }
    }

    #[test]
    fn every_workload_is_one_of_the_bench_at_every_size() {
        for entry in ALL {
            assert!(metric::find(entry.headline.1).is_some(), "{}", entry.name);
            for size in [Size::Tiny, Size::Quick, Size::Standard, Size::Published] {
                let made = child_order(&order(entry.name, "null", size, "d".as_ref()));
                let made = made.unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
                assert!(made.spec.rows > 0 && made.memory.0 >= 32 << 20);
            }
        }
        assert!(child_order(&order("iibench", "rockdb", Size::Tiny, "d".as_ref())).is_err());
    }

    #[test]
    fn a_cell_has_the_metrics_and_the_verification_of_the_bench() {
        let dir = tempfile::tempdir().expect("a directory");
        let result =
            run(&order("iibench", "frond", Size::Tiny, &dir.path().join("s"))).expect("it runs");
        assert_eq!((result.state, &result.failure), (State::Done, &None));
        assert_eq!(result.verified.len(), 1, "{:?}", result.verified);
        let step = &result.steps[0];
        for name in ["ops_s", "cpu_us_op", "wr_b_op", "p99_us", "rss_peak_b", "planned"] {
            assert!(step.metrics.contains_key(name), "{name} of {:?}", step.metrics.keys());
        }
        assert_eq!(step.metrics["ops"], 20_000.0);
        assert!(result.metrics["disk_b"] > 0.0 && result.facts.len() == 1);
    }
}
