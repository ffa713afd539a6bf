//! The embedded face: runs stores within the process of a cell.
//!
//! Invariants
//! 1. The cells of the null target run first: they measure what the clients of a workload cost,
//!    which is subtracted from the CPU of the other targets.
//! 2. Files of Frond pass `frond check` after each cell.

mod allowance;
mod bench;
mod generator;
mod rows;
mod syncs;
#[cfg(test)]
pub mod testing;
mod worker;

pub use allowance::{NullTargetPeaks, PEAK};
pub use bench::{Bench, Concurrent};
pub use generator::{ClientCosts, NULL, OF_CLIENTS};
pub use rows::{Batch, Rows, missing};
pub use worker::Worker;

use super::cell_spec::CellSpec;
use super::machine::Class;
use super::machine::class::Confined;
use super::params::{Param, Params};
use super::results::{CellResult, State, StepResult, UNCHECKED};
use super::size::Durability;
use super::step::measured;
use super::suggest::unknown;
use super::version;
use super::workloads::{
    bulk, dbbench, iibench, linkbench, load, queue, rowformats, sweep, sysbench, tpcc, txn, weblog,
    ycsb,
};
use crate::measure;
use crate::schema::Table;
use crate::size::Bytes;
use crate::targets::{self, Failure, Result, Setup, TargetName, library};

/// A workload written for the embedded face.
pub trait Workload {
    /// The tables of the workload.
    fn tables(&self) -> Vec<Table>;
    /// Size of the data in plain InnoDB, bytes. The memory of the run is this size divided by the
    /// ratio.
    fn innodb_bytes(&self) -> u64;
    /// Whether absent keys are looked up in random order, so that filters pay off.
    fn is_unique(&self) -> bool {
        false
    }
    /// Whether there are transactions that read what they write. Loads and batches need none.
    fn has_transactions(&self) -> bool {
        true
    }
    /// Makes what the clients need, before the memory of the store is limited.
    ///
    /// # Errors
    /// Something cannot be read.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }
    /// Runs the steps and verifies their results; returns the number of live rows at the end, and
    /// their bytes.
    ///
    /// # Errors
    /// Errors of the store.
    fn run(&mut self, bench: &mut Bench<'_>) -> Result<(u64, u64)>;
}

/// Constructs a workload from its parameters and the seed.
type Make = fn(&Params, u64) -> Result<Box<dyn Workload>>;

/// An entry of the registry of workloads.
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in one sentence.
    pub about: &'static str,
    /// Step and metric that the matrix shows. An empty step means the mean of all steps.
    pub headline: (&'static str, &'static str),
    /// Parameters of the workload.
    pub params: &'static [Param],
    /// How the workload is constructed.
    pub make: Make,
}

/// All workloads of the embedded face.
pub const ALL: &[Entry] = &[
    iibench::EMBEDDED,
    sysbench::EMBEDDED,
    sweep::EMBEDDED,
    rowformats::EMBEDDED,
    bulk::EMBEDDED,
    weblog::EMBEDDED,
    ycsb::EMBEDDED,
    linkbench::EMBEDDED,
    tpcc::EMBEDDED,
    dbbench::EMBEDDED,
    queue::EMBEDDED,
    load::EMBEDDED,
    txn::EMBEDDED,
];

/// Finds a workload by name.
///
/// # Errors
/// The name is unknown; the message lists the nearest names.
pub fn find(name: &str) -> Result<&'static Entry> {
    let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    let found = ALL.iter().find(|entry| entry.name == name);
    found.ok_or_else(|| unknown("embedded workload", name, &names))
}

/// Names of the embedded targets.
pub const TARGETS: [&str; 6] = ["frond", "rocksdb", "sqlite", "lmdb", "tidesdb", "null"];

/// Finds a target by name, and checks that it is built in.
///
/// # Errors
/// The target is unknown, or its library was missing when the lab was built.
pub fn target(name: &str) -> Result<TargetName> {
    let base = match version::split(name) {
        None => name,
        Some(("frond", _)) => "frond",
        Some((base, _)) => {
            return Err(Failure(format!("embedded target {base} has no versions: only frond has")));
        }
    };
    let target =
        base.parse::<TargetName>().map_err(|_| unknown("embedded target", base, &TARGETS))?;
    targets::available(target)?;
    Ok(target)
}

/// The library that the cell loads if its target is Frond of another commit.
fn library_of(spec: &CellSpec) -> Option<library::Version> {
    let library = spec.plugin.clone()?;
    let (_, commit) = version::split(&spec.target)?;
    Some(library::Version {
        commit: commit.to_owned(),
        header: version::header_of(&library),
        library,
    })
}

/// Environment variables with which the process of a cell is started.
///
/// # Errors
/// The target is unknown.
pub fn environment(spec: &CellSpec) -> Result<Vec<(&'static str, String)>> {
    targets::environment(target(&spec.target)?)
}

/// Memory of the target in bytes: the size of the data divided by the ratio.
///
/// # Errors
/// A parameter is invalid.
pub fn memory(entry: &Entry, params: &Params, seed: u64) -> Result<u64> {
    let data = (entry.make)(params, seed)?.innodb_bytes();
    Ok((data as f64 / params.real("ratio")?.max(1e-3)) as u64)
}

/// The durability as embedded stores name it. `hist-unsafe` is `lazy`: protection from torn pages,
/// which it gives up in addition, is not an option of any of them.
fn class_of(durability: Durability) -> targets::Durability {
    match durability {
        Durability::Safe => targets::Durability::Sync,
        Durability::Relaxed => targets::Durability::Os,
        Durability::Lazy | Durability::HistUnsafe => targets::Durability::Lazy,
    }
}

/// Checks a cell before it runs.
///
/// # Errors
/// A parameter or the target is invalid.
pub fn check(spec: &CellSpec) -> Result<()> {
    target(&spec.target)?;
    (find(&spec.workload)?.make)(&spec.params()?, spec.seed).map(drop)
}

/// Runs a cell.
///
/// # Errors
/// As for [`check`].
pub fn run(spec: &CellSpec) -> Result<CellResult> {
    run_as(spec, true)
}

/// Runs a cell. With `is_confined`, this process is put into a control group for it.
fn run_as(spec: &CellSpec, is_confined: bool) -> Result<CellResult> {
    std::fs::create_dir_all(&spec.dir)?;
    let mut workload = (find(&spec.workload)?.make)(&spec.params()?, spec.seed)?;
    let mut result = run_workload(workload.as_mut(), spec, is_confined)?;
    result.memory_b = spec.memory()?;
    if target(&spec.target)? == TargetName::Frond && !measure::is_interrupted() {
        match frond::check::store(&spec.dir, frond::check::CheckMode::Full) {
            Ok(report) => result.verify("frond check", report.is_clean(), report.to_string()),
            // This check may not know the format of another commit.
            Err(error) if spec.plugin.is_some() => {
                let why = format!("not checked: {error}");
                result.settings.insert(UNCHECKED.to_owned(), why);
            }
            Err(error) => return Err(Failure(format!("frond check: {error}"))),
        }
    }
    Ok(result)
}

/// Puts this process, which contains the store, into a control group that counts I/O, has the
/// limits of the class, and bounds the memory of stores that rely on the page cache: those can only
/// be bounded from outside.
fn confine(spec: &CellSpec, class: &Class) -> Result<Confined> {
    let rss = measure::Subject::Own.rss_bytes();
    let memory = match target(&spec.target)?.is_buffered() {
        true => Some(spec.memory()? + rss),
        false => None,
    };
    class.confine(std::process::id(), &spec.dir, spec.disk, memory)
}

/// Runs a workload on a store of its own. With `is_confined`, this process is put into a control
/// group for it.
fn run_workload(
    workload: &mut dyn Workload,
    spec: &CellSpec,
    is_confined: bool,
) -> Result<CellResult> {
    let (name, memory, class) = (target(&spec.target)?, spec.memory()?, spec.storage_class()?);
    workload.prepare()?;
    let confined = match is_confined {
        true => confine(spec, &class)?,
        false => Confined::default(),
    };
    let mut tables = workload.tables();
    Table::number(&mut tables);
    let setup = Setup {
        dir: spec.dir.clone(),
        memory: Bytes(memory),
        write_buffer: match name {
            TargetName::RocksDb(share) => share.map(|share| share.of(Bytes(memory))),
            _ => None,
        },
        durability: class_of(spec.durability),
        tables: tables.clone(),
        unique: workload.is_unique(),
        transactions: workload.has_transactions(),
    };
    let store = targets::open(name, library_of(spec).as_ref(), &setup)?;
    let seconds = Some(spec.params()?.number("time_limit")?).filter(|seconds| *seconds > 0);
    let dir = spec.dir.clone();
    let mut bench = Bench::new(store.as_ref(), &tables, &confined, dir, seconds, spec.with_rest);
    let outcome = workload.run(&mut bench);
    let (size_name, is_compacted) = (bench.size_name(), bench.is_compacted);
    let mut result = bench.into_result();
    result.version = store.version();
    result.settings.extend(store.settings());
    result.settings.extend(confined.settings(&class, spec.disk));
    let keeps_rows = store.keeps_rows();
    let closed = store.close();
    let live = match outcome.and_then(|live| closed.map(|()| live)) {
        Ok(live) => live,
        Err(failure) => {
            // Keep what was measured before the failure.
            (result.state, result.failure) = (State::Failed, Some(failure.0));
            return Ok(result);
        }
    };
    if keeps_rows && !measure::is_interrupted() {
        let space = measure::Space::whole(&spec.dir);
        measured::size(&mut result.metrics, size_name, &space, live);
        // If a cell ends with a load, the size after the load is that of the closed store, too.
        let is_load = |step: &&mut StepResult| is_compacted || step.metrics.contains_key(size_name);
        if let Some(step) = result.steps.last_mut().filter(is_load) {
            measured::size(&mut step.metrics, size_name, &space, live);
        }
    }
    if keeps_rows
        && !measure::is_interrupted()
        && let Err(failure) = syncs::verify(spec, &confined, &mut result)
    {
        (result.state, result.failure) = (State::Failed, Some(failure.0));
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::testing::spec;
    use super::*;
    use crate::lab::cell_spec::MEMORY_MIN;
    use crate::lab::metric;
    use crate::lab::size::Size;

    #[test]
    fn every_workload_can_be_made_at_every_size() {
        for entry in ALL {
            assert!(metric::find(entry.headline.1).is_some(), "{}", entry.name);
            for size in [Size::Tiny, Size::Quick, Size::Standard, Size::Published] {
                let spec = spec(entry.name, "null", size, "d".as_ref());
                check(&spec).unwrap_or_else(|failure| panic!("{}: {failure}", entry.name));
                assert!(spec.memory().is_ok_and(|memory| memory >= MEMORY_MIN), "{}", entry.name);
            }
        }
        assert!(check(&spec("iibench", "rockdb", Size::Tiny, "d".as_ref())).is_err());
        assert_eq!(target("rocksdb-m3").is_ok(), target("rocksdb").is_ok(), "a write buffer");
        assert!(target("rocksdb-m").is_err() && target("rocksdb-3 parsecs").is_err());
    }

    #[test]
    fn studies_of_2011_run_as_lazy() {
        let spec = spec("iibench", "frond", Size::Tiny, "d".as_ref());
        let spec = CellSpec { durability: Durability::HistUnsafe, ..spec };
        assert!(check(&spec).is_ok());
        assert_eq!(class_of(spec.durability), targets::Durability::Lazy);
    }

    #[test]
    fn a_load_is_followed_by_an_idle_phase_and_a_rate_by_an_open_loop() {
        let dir = tempfile::tempdir().expect("a directory");
        let changes = [
            ("mixes", "A"),
            ("threads", "2"),
            ("seconds", "0.5"),
            ("warm_up", "0.3"),
            ("rate", "70%"),
        ];
        let mut workload = testing::make("ycsb", &changes);
        let spec = spec("ycsb", "frond", Size::Tiny, dir.path());
        let spec = CellSpec { with_rest: true, ..spec };
        let result = run_workload(workload.as_mut(), &spec, false).expect("it runs");
        assert_eq!((result.state, &result.failure), (State::Done, &None));
        let metrics = |name: &str| &testing::step_of(&result, name).metrics;
        let load = metrics("load");
        // All targets have the same rows after the load, but not at the end.
        assert!(load["disk_b"] > 0.0 && load["wr_b_op_rested"] >= load["wr_b_op"]);
        assert!(result.metrics["disk_end_b"] > 0.0 && !result.metrics.contains_key("disk_b"));
        let (closed, open) = (metrics("A threads=2"), metrics("A threads=2 open"));
        assert!(closed["warm_up_s"] > 0.0 && !closed.contains_key("unserved"));
        assert!((open["wanted_s"] / closed["ops_s"] - 0.7).abs() < 1e-6);
        assert!(open.contains_key("unserved"));
        // Remaining background work is charged to the last step that wrote.
        assert!(open.contains_key("rest_s") && !closed.contains_key("rest_s"));
    }

    #[test]
    fn own_workloads_run_on_the_library_of_another_commit() {
        // The worktree of a commit, with the library that cargo built for the tests.
        let tree = tempfile::tempdir().expect("a directory");
        let (libraries, include) =
            (tree.path().join("target/lab"), tree.path().join("crates/frond-c/include"));
        std::fs::create_dir_all(&libraries).expect("made");
        std::fs::create_dir_all(&include).expect("made");
        let built = std::env::current_exe().expect("a program").with_file_name("libfrond_c.so");
        let library = libraries.join("libfrond.so");
        std::os::unix::fs::symlink(built, &library).expect("linked");
        let header =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../frond-c/include/frond.h");
        std::os::unix::fs::symlink(header, include.join("frond.h")).expect("linked");
        let ycsb = [("mixes", "A"), ("threads", "2"), ("seconds", "0.3"), ("warm_up", "0")];
        for (name, changes) in [("ycsb", &ycsb[..]), ("tpcc", &[]), ("linkbench", &[])] {
            let changes: Vec<_> =
                changes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            let spec = CellSpec {
                changes,
                plugin: Some(library.clone()),
                ..spec(name, "frond@1a2b3c4", Size::Tiny, &tree.path().join(name))
            };
            let result = run_as(&spec, false).expect("it runs");
            assert_eq!((result.state, &result.failure), (State::Done, &None), "{name}");
            assert!(result.version.ends_with("of commit 1a2b3c4"), "{name}: {}", result.version);
            assert!(result.verified.iter().any(|found| found.name == "frond check"), "{name}");
            assert!(result.verified.len() > 2, "{name}: {:?}", result.verified);
            let wrong: Vec<_> = result.verified.iter().filter(|found| !found.passed).collect();
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
        }
        assert!(target("rocksdb@1a2b3c4").is_err_and(|refused| refused.0.contains("versions")));
    }

    #[test]
    fn a_cell_has_the_metrics_and_the_verification_of_the_bench() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = spec("iibench", "frond", Size::Tiny, &dir.path().join("s"));
        let spec = CellSpec { with_rest: true, ..spec };
        let result = run_as(&spec, false).expect("it runs");
        assert_eq!((result.state, &result.failure), (State::Done, &None));
        let names: Vec<&str> = result.verified.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names[..2], ["purchases_index by PRIMARY", "rows of purchases_index"]);
        assert_eq!(names[2], "purchases_index as inserted");
        assert_eq!((names.len(), names[6]), (7, "frond check"), "{names:?}");
        let step = &result.steps[0];
        for name in [
            "ops_s",
            "exit_velocity",
            "cpu_us_op",
            "cpu_fg_us_op",
            "wr_b_op",
            "p95_us",
            "rss_peak_b",
        ] {
            assert!(step.metrics.contains_key(name), "{name} of {:?}", step.metrics.keys());
        }
        let latencies = step.latencies["commit"].histogram().expect("a histogram");
        assert_eq!((latencies.len(), step.metrics["ops"]), (20, 20_000.0));
        // The 99th percentile of twenty commits would be the longest.
        assert!(
            !step.metrics.contains_key("p99_us") && !step.metrics.contains_key("cpu_sys_us_op")
        );
        let sizes = [&result.metrics, &step.metrics].map(|metrics| metrics["disk_b_row"]);
        assert_eq!(sizes[0], sizes[1], "both are those of the closed store");
        assert!(step.counters.iter().any(|counter| counter.name == "syncs"));
        assert!(result.metrics["disk_b"] > 0.0 && result.facts.len() == 1);
    }
}
