//! `frond bench`: runs a workload against several targets, each in a process of its own, and
//! reports.
//!
//! Invariants
//! 1. The parts of the plan (`plan.rs`) run in order, each in a process of its own.
//! 2. A directory is emptied only if an earlier bench made it, as its marker file shows.
//! 3. All targets that finished have the same checksum of the logical rows; otherwise the run
//!    fails.

use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::ValueEnum;

use crate::child::{self, Order};
use crate::machine;
use crate::parent;
use crate::plan::{Job, Set, What, fetch_packages, packages_file, plan};
use crate::report;
use crate::results::{Conditions, Final, Row, subtract_generator};
use crate::size::Bytes;
use crate::targets::{Durability, Failure, Result, Share, TargetName, available};
use crate::workloads::{Name, Phase, Profile, Rest, Shape, Spec};

/// Options of `frond bench`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Workload to run
    #[arg(value_enum)]
    pub workload: What,
    /// Rows to load (default: a million; in sizes, what suits each data set)
    #[arg(long)]
    pub rows: Option<u64>,
    /// Data sets of `sizes`: sbtest, iibench, weblog, linktable, packages; iibench=10000000 sets
    /// the number of rows
    #[arg(long, value_delimiter = ',', value_name = "A,B=ROWS")]
    pub sets: Vec<Set>,
    /// File with control paragraphs of packages (default: the output of `apt-cache dumpavail`)
    #[arg(long, value_name = "FILE")]
    pub packages: Option<PathBuf>,
    /// Total memory of each store, e.g. 70MB or 256MiB
    #[arg(long, default_value = "256MiB", value_name = "SIZE")]
    pub memory: Bytes,
    /// Stores to run against: frond, rocksdb, sqlite, lmdb, null
    #[arg(long, value_delimiter = ',', default_value = "frond", value_name = "A,B")]
    pub targets: Vec<TargetName>,
    /// When a commit is acknowledged
    #[arg(long, value_enum, default_value_t = Durability::Lazy)]
    pub durability: Durability,
    /// Directory in which stores are created, each in DIR/TARGET
    #[arg(long, default_value = "frond-bench", value_name = "DIR")]
    pub dir: PathBuf,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Do not wait for background work after writes (at most 60 s plus 1 s per million rows; in
    /// sizes and txn until it ends)
    #[arg(long)]
    pub no_quiesce: bool,
    /// Stop a target after this many seconds and report how far it got
    #[arg(long, value_name = "SECONDS")]
    pub time_limit: Option<u64>,
    /// Seed of the generators
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Key and value sizes of workloads with plain keys and values
    #[arg(long, value_enum, default_value_t = Shape::Script)]
    pub shape: Shape,
    /// Reader threads
    #[arg(long, default_value_t = 1)]
    pub threads: u64,
    /// Maximum duration of a step that reads or overwrites (default: 60), and duration of each
    /// step of txn (default: 5), in seconds
    #[arg(long)]
    pub seconds: Option<u64>,
    /// How long txn holds a snapshot while rows are put, in seconds (default: four times --seconds)
    #[arg(long, value_name = "SECONDS")]
    pub held: Option<u64>,
    /// Numbers of clients of txn, one step each
    #[arg(long, value_delimiter = ',', default_value = "1,2,16,64", value_name = "N,M")]
    pub clients: Vec<u64>,
    /// Steps of txn
    #[arg(long, value_enum, value_delimiter = ',', value_name = "A,B",
          default_values_t = Phase::value_variants().to_vec())]
    pub phases: Vec<Phase>,
    /// Queries per second during the load of iibench-query; 0 means no limit
    #[arg(long, default_value_t = 10.0)]
    pub query_rate: f64,
    /// How repetitive the web log is
    #[arg(long, value_enum, default_value_t = Profile::Typical)]
    pub profile: Profile,
    /// Write buffers to try with RocksDB, each as a separate target, e.g. m/3,m/6,16MB
    #[arg(long, value_delimiter = ',', value_name = "SIZE")]
    pub rocksdb_write_buffer: Vec<Share>,
    /// Run a full compaction at the end, where a store has one, and report the size after it
    /// (always in sizes)
    #[arg(long)]
    pub compact: bool,
    /// Do not read everything back at the end
    #[arg(long)]
    pub no_verify: bool,
    /// Run one target in this process (internal)
    #[arg(long, hide = true, value_name = "INDEX")]
    pub as_child: Option<usize>,
    /// Resident bytes of the null target
    #[arg(long, hide = true, default_value_t = 0)]
    pub base_rss: u64,
}

/// Name of the file that marks a directory as made by a bench (Invariant 2).
const MARKER: &str = ".frond-bench";

impl Args {
    fn order(&self, job: &Job) -> Order {
        let sizes = self.workload == What::Sizes;
        let txn = self.workload == What::One(Name::Txn);
        Order {
            target: job.target,
            workload: job.workload,
            spec: Spec {
                rows: job.rows,
                seed: self.seed,
                shape: self.shape,
                threads: self.threads,
                seconds: self.seconds.unwrap_or(if txn { 5 } else { 60 }),
                held: self.held,
                query_rate: self.query_rate,
                profile: self.profile,
                durability: self.durability,
                one_writer: sizes,
                packages: packages_file(self),
                clients: self.clients.clone(),
                phases: self.phases.clone(),
            },
            memory: self.memory,
            dir: job.dir.clone(),
            rest: match (self.no_quiesce, sizes || txn) {
                (true, _) => Rest::None,
                (false, true) => Rest::UntilStill,
                (false, false) => Rest::Granted,
            },
            compact: self.compact || sizes,
            yardstick: sizes,
            verify: !self.no_verify,
            time_limit: self.time_limit,
            base_rss: self.base_rss,
        }
    }

    fn conditions(&self, plan: &[Job]) -> Conditions {
        let durability = clap::ValueEnum::to_possible_value(&self.durability);
        let build = if cfg!(debug_assertions) { "with debug assertions" } else { "release" };
        Conditions {
            workload: self.workload.to_string(),
            rows: plan.iter().map(|job| job.rows).max().unwrap_or(0),
            memory_b: self.memory.0,
            durability: durability.map(|value| value.get_name().to_owned()).unwrap_or_default(),
            seed: self.seed,
            frond: format!("{} ({build})", env!("CARGO_PKG_VERSION")),
            cpu: machine::cpu(),
            machine_memory_b: machine::memory_bytes(),
            kernel: machine::kernel(),
            file_system: machine::file_system(&self.dir),
            began_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            load_average: machine::load_average(),
            quiesce: !self.no_quiesce,
            time_limit_s: self.time_limit,
        }
    }
}

/// Runs the bench. An error is one line for the user.
pub fn run(args: &Args) -> Result<()> {
    let mut plan = plan(args);
    if let Some(index) = args.as_child {
        let job = plan.get(index).ok_or_else(|| Failure("no such child".to_owned()))?;
        return child::run(&args.order(job));
    }
    if args.rows == Some(0) {
        return Err(Failure("--rows must be at least 1".to_owned()));
    }
    plan.iter().try_for_each(|job| available(job.target))?;
    fs::create_dir_all(&args.dir)?;
    for job in &plan {
        make_room(&args.dir, &job.dir)?;
    }
    let left_out = fetch_packages(args, &plan)?;
    if left_out.is_some() {
        plan.retain(|job| job.workload != Name::Packages); // the last set: other indices stay
    }
    let mut conditions = args.conditions(&plan);
    let mut outcomes: Vec<(TargetName, Final)> = Vec::new();
    let mut base_rss = 0;
    for (index, job) in plan.iter().enumerate() {
        let show = std::io::stderr().is_terminal();
        let order = Order { base_rss, ..args.order(job) };
        let mut outcome = parent::run(index, &order, show)?;
        if args.workload == What::Sizes {
            let set = What::One(job.workload);
            outcome.failure = outcome.failure.map(|failure| format!("{set}: {failure}"));
        }
        if job.target == TargetName::Null {
            base_rss = outcome.rows.iter().filter_map(|row| row.rss_peak_b).max().unwrap_or(0);
        }
        outcomes.push((job.target, outcome));
    }
    let null = outcomes.iter().filter(|(target, _)| *target == TargetName::Null);
    if matches!(args.workload, What::Sizes | What::One(Name::Packages)) {
        // The number of rows that were actually loaded.
        let loaded = null.flat_map(|(_, outcome)| &outcome.rows).map(|row| row.ops);
        conditions.rows = loaded.sum();
    }
    let rows = finish(&mut outcomes, args.targets.contains(&TargetName::Null));
    match args.workload {
        What::One(Name::Txn) => print!("{}", report::transactions(&conditions, &outcomes, &rows)),
        What::One(_) => print!("{}", report::table(&conditions, &outcomes, &rows)),
        What::Sizes => print!("{}", report::sizes(&conditions, &outcomes, &rows)),
    }
    if let Some(left_out) = left_out {
        println!("{left_out}");
    }
    if let Some(path) = &args.json {
        write(path, &serde_json::to_string_pretty(&rows)?)?;
    }
    if let Some(path) = &args.html {
        write(path, &report::page(&conditions, &outcomes, &rows)?)?;
    }
    agree(&rows)?;
    match outcomes.iter().find_map(|(target, outcome)| Some((target, outcome.failure.as_ref()?))) {
        Some((target, failure)) => Err(Failure(format!("target {target} failed: {failure}"))),
        None => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Failure(format!("{}: {error}", path.display())))
}

/// Empties `store`, after checking that a bench made it (Invariant 2).
fn make_room(dir: &Path, store: &Path) -> Result<()> {
    let marker = dir.join(MARKER);
    if store.exists() && !marker.exists() && fs::read_dir(store)?.next().is_some() {
        return Err(Failure(format!(
            "{} is not empty and no bench made it; choose another --dir",
            store.display()
        )));
    }
    if store.exists() {
        fs::remove_dir_all(store)?;
    }
    fs::write(
        marker,
        "Directories beside this file were made by `frond bench`, which may remove them.\n",
    )?;
    Ok(())
}

/// Subtracts the generator's CPU and returns all rows in run order, with Frond's goals.
fn finish(outcomes: &mut [(TargetName, Final)], with_null: bool) -> Vec<Row> {
    let null = outcomes.iter().filter(|(target, _)| *target == TargetName::Null);
    let null: Vec<Row> = null.flat_map(|(_, outcome)| outcome.rows.clone()).collect();
    let mut rows: Vec<Row> = Vec::new();
    for (target, outcome) in outcomes {
        if *target != TargetName::Null {
            subtract_generator(&mut outcome.rows, &null);
        }
        for row in &mut outcome.rows {
            if *target != TargetName::Null {
                let of_step = null.iter().find(|null| null.step == row.step);
                row.yardstick = of_step.and_then(|null| null.yardstick.clone());
            }
        }
        if *target != TargetName::Null || with_null {
            rows.extend(outcome.rows.iter().cloned());
        }
    }
    let goals: Vec<_> =
        rows.iter().map(|row| crate::results::goals(row, &rows, report::figure)).collect();
    let of_frond = rows.iter_mut().zip(goals).filter(|(row, _)| row.target == crate::goals::TARGET);
    of_frond.for_each(|(row, goals)| row.goals = goals);
    rows
}

/// Checks that no row has errors and that all targets stored the same rows (Invariant 3).
fn agree(rows: &[Row]) -> Result<()> {
    if let Some(row) = rows.iter().find(|row| !row.errors.is_empty()) {
        return Err(Failure(format!(
            "target {}: errors in {}: {:?}",
            row.target, row.step, row.errors
        )));
    }
    let finished = |row: &&Row| row.finished && row.rows_crc.is_some();
    for row in rows.iter().filter(finished) {
        let differs = |other: &&Row| other.step == row.step && other.rows_crc != row.rows_crc;
        if let Some(other) = rows.iter().filter(finished).find(differs) {
            return Err(Failure(format!(
                "{} and {} were given different rows in {} ({:?}, {:?})",
                row.target, other.target, row.step, row.rows_crc, other.rows_crc
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_directory_is_not_emptied() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let store = dir.path().join("rocksdb");
        fs::create_dir(&store)?;
        fs::write(store.join("precious"), "x")?;
        assert!(make_room(dir.path(), &store).is_err());
        assert!(store.join("precious").exists());
        fs::write(dir.path().join(MARKER), "")?;
        assert!(make_room(dir.path(), &store).is_ok());
        assert!(!store.exists());
        Ok(())
    }

    #[test]
    fn different_rows_fail_the_run() {
        let row = |target: &str, crc: &str| Row {
            target: target.to_owned(),
            finished: true,
            rows_crc: Some(crc.to_owned()),
            ..Row::default()
        };
        assert!(agree(&[row("a", "1"), row("b", "1")]).is_ok());
        assert!(agree(&[row("a", "1"), row("b", "2")]).is_err());
        let other_step = |row: Row| Row { step: "other".to_owned(), ..row };
        let both = |crc| {
            [row("a", "1"), other_step(row("a", "3")), row("b", "1"), other_step(row("b", crc))]
        };
        assert!(
            agree(&both("3")).is_ok() && agree(&both("4")).is_err(),
            "steps have their own rows"
        );
        let stopped = Row { finished: false, ..row("b", "2") };
        assert!(agree(&[row("a", "1"), stopped]).is_ok(), "a stopped target has fewer rows");
    }
}
