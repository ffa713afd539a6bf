//! `frond bench`: the embedded workloads of the lab with few options. It runs as `lab run` does,
//! and prints what `lab show` prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;

use super::cell;
use super::cli::{command_words, pair};
use super::results::Database;
use super::run::{self, Item, Request};
use super::size::{Durability, Face, Size};
use super::stdout::print;
use super::suggest::unknown;
use super::workloads::{dbbench, load};
use super::{embedded, exchange, report, suites, time};
use crate::size::Bytes;
use crate::targets::{Failure, Result};

/// The program `frond-bench`, which `frond bench` starts.
#[derive(clap::Parser)]
#[command(
    name = "frond bench",
    bin_name = "frond bench",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  frond bench iibench --targets frond,rocksdb,sqlite
  frond bench sizes --targets frond,sqlite"
)]
/// Run a workload on Frond and other stores, and compare
struct Program {
    #[command(flatten)]
    args: Args,
}

/// Runs the program `frond-bench`: a bench, or one cell of it, which it starts as a process of its
/// own.
pub fn main() -> ExitCode {
    let is_cell = std::env::args_os().skip(1).eq(["cell"]);
    let outcome = if is_cell { cell::main() } else { run(&Program::parse().args) };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("frond: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Fails if the options of a documented command are not understood.
#[cfg(test)]
pub(super) fn understand(words: &str) -> std::result::Result<(), clap::Error> {
    let words = words.split(" #").next().unwrap_or_default().split_whitespace();
    Program::try_parse_from(["frond-bench"].into_iter().chain(words)).map(drop)
}

/// Options of `frond bench`.
#[derive(clap::Args, Clone, Debug)]
struct Args {
    /// iibench, sysbench, sweep, rowformats, bulk, weblog, ycsb, linkbench, tpcc, dbbench, queue,
    /// txn; a test of dbbench (fillseq, readrandom, …); a data set (sbtest, linktable, packages);
    /// or sizes: all data sets
    workload: String,
    /// Stores: frond, rocksdb, sqlite, lmdb, tidesdb, null; rocksdb-m3 or rocksdb-16MB gives
    /// RocksDB a write buffer of a third of the memory, or of 16 MB
    #[arg(long, value_delimiter = ',', default_value = "frond", value_name = "A,B")]
    targets: Vec<String>,
    /// Scale of the workload
    #[arg(long, value_enum, default_value_t = Size::Quick)]
    size: Size,
    /// Rows to load (default: as the size says)
    #[arg(long)]
    rows: Option<String>,
    /// Data sets of sizes: sbtest, iibench, weblog, linktable, packages; iibench=10000000 sets the
    /// number of rows
    #[arg(long, value_delimiter = ',', value_name = "A,B=ROWS")]
    sets: Vec<String>,
    /// File with control paragraphs of packages (default: the output of `apt-cache dumpavail`)
    #[arg(long, value_name = "FILE")]
    packages: Option<PathBuf>,
    /// Client counts for txn; each is a step of its own
    #[arg(long, value_name = "N,M")]
    clients: Option<String>,
    /// Steps of txn to run: put, get, rmw, mix, sync, snapshot
    #[arg(long, value_name = "A,B")]
    phases: Option<String>,
    /// Duration of a step of txn, and of a test of dbbench that does not fill
    #[arg(long)]
    seconds: Option<String>,
    /// How long txn holds a snapshot while rows are put
    #[arg(long, value_name = "SECONDS")]
    held: Option<String>,
    /// Stop a target after this many seconds and report how far it got
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    time_limit: String,
    /// Set another parameter of the workload; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    changes: Vec<(String, String)>,
    /// Memory of each store, e.g. 70MB or 256MiB (default: the data divided by the workload's
    /// ratio)
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// When a commit is acknowledged
    #[arg(long, value_enum, default_value_t = Durability::Lazy)]
    durability: Durability,
    /// Number of runs on each store
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Seed of the generators
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Do not wait for background work after writes; sizes are then missing
    #[arg(long, alias = "no-quiesce")]
    no_rest: bool,
    /// Directory in which stores are created. Results are kept in DIR.sqlite
    #[arg(long, default_value = "frond-bench", value_name = "DIR")]
    dir: PathBuf,
    /// Write the results to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write pages with charts to this folder
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
    /// Write a chart of speed against size to this file
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
}

impl Args {
    /// Finds the workload that a name selects, and the parameter that the name sets.
    fn workload(&self) -> Result<(&str, Option<(&'static str, &str)>)> {
        let name = self.workload.as_str();
        let tests = dbbench::TESTS.map(|(test, _)| test);
        let mut names: Vec<&str> = embedded::ALL.iter().map(|entry| entry.name).collect();
        match name {
            "iibench-query" => Ok(("iibench", Some(("queries", "10")))),
            name if names.contains(&name) => Ok((name, None)),
            name if tests.contains(&name) => Ok(("dbbench", Some(("tests", name)))),
            name if load::SETS.contains(&name) => Ok(("load", Some(("set", name)))),
            name => {
                names.extend(tests.into_iter().chain(load::SETS).chain(["sizes"]));
                Err(unknown("workload", name, &names))
            }
        }
    }

    fn changes(&self) -> BTreeMap<String, String> {
        let packages = self.packages.as_ref().map(|file| file.display().to_string());
        let options = [
            ("rows", &self.rows),
            ("packages", &packages),
            ("clients", &self.clients),
            ("phases", &self.phases),
            ("seconds", &self.seconds),
            ("held", &self.held),
            ("time_limit", &Some(self.time_limit.clone())),
        ];
        let options =
            options.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
        options.chain(self.changes.iter().cloned()).collect()
    }

    fn items(&self) -> Result<Vec<Item>> {
        let mut items = match self.workload.as_str() {
            "sizes" => suites::items("sizes", Some(&self.targets))?.unwrap_or_default(),
            _ => {
                let (workload, of_name) = self.workload()?;
                let change = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                vec![Item {
                    workload: workload.to_owned(),
                    face: Face::Embedded,
                    changes: of_name.map(change).into_iter().collect(),
                    targets: self.targets.clone(),
                }]
            }
        };
        let sets: BTreeMap<&str, Option<&str>> = self
            .sets
            .iter()
            .map(|set| set.split_once('=').map_or((&**set, None), |(name, n)| (name, Some(n))))
            .collect();
        if let Some(name) = sets.keys().find(|name| !load::SETS.contains(name)) {
            return Err(unknown("data set", name, &load::SETS));
        }
        if self.workload != "sizes" && !sets.is_empty() {
            return Err(Failure("--sets works only with the workload sizes".to_owned()));
        }
        for item in &mut items {
            let mut changes: BTreeMap<_, _> = item.changes.drain(..).collect();
            changes.extend(self.changes());
            let set = changes.get("set").cloned().unwrap_or_default();
            if let Some(Some(rows)) = sets.get(set.as_str()) {
                changes.insert("rows".to_owned(), (*rows).to_owned());
            }
            if sets.is_empty() || sets.contains_key(set.as_str()) {
                item.changes = changes.into_iter().collect();
            }
        }
        items.retain(|item| !item.changes.is_empty());
        Ok(items)
    }
}

/// Runs the bench.
///
/// # Errors
/// An option is invalid, a cell failed, or a verification failed.
fn run(args: &Args) -> Result<()> {
    let items = args.items()?;
    items.iter().try_for_each(|item| run::check_targets(item.face, &item.targets))?;
    let request = Request {
        suite: args.workload.clone(),
        items,
        size: args.size,
        class: "host".to_owned(),
        disk: None,
        durability: args.durability,
        repeat: args.repeat,
        seed: args.seed,
        memory: args.memory.map(|bytes| bytes.0),
        yes_write: false,
        resume: false,
        with_rest: !args.no_rest,
        dir: args.dir.clone(),
        command: format!("frond {}", command_words()),
    };
    let mut results = args.dir.clone().into_os_string();
    results.push(".sqlite");
    let results = Path::new(&results);
    let began = time::now();
    let ran = run::run(results, &request);
    // A run that failed has results, too, once it has begun.
    let database = Database::open_to_read(results);
    let found = database.as_ref().ok().and_then(|database| database.find_run("last").ok());
    if let (Ok(database), Some(found)) = (&database, found.filter(|run| run.began >= began)) {
        print(&exchange::markdown(database, &found)?)?;
        print(&exchange::conditions(database, &found)?)?;
        if let Some(file) = &args.json {
            let text = exchange::export(database, &[found.id])?;
            fs::write(file, text)
                .map_err(|error| Failure(format!("{}: {error}", file.display())))?;
        }
        let drawn = |out: &Path, chart: Option<PathBuf>| {
            let (out, run, workload) =
                (out.to_owned(), vec![found.uid.clone()], args.workload.clone());
            report::report(database, &report::Options { out, run, chart, workload })
        };
        if let Some(out) = &args.html {
            print(&format!("{}\n", drawn(out, None)?.display()))?;
        }
        if let Some(file) = &args.chart {
            print(&format!("{}\n", drawn(Path::new(""), Some(file.clone()))?.display()))?;
        }
    }
    ran.map(drop)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn items(words: &str) -> Result<Vec<(String, String)>> {
        let command = Command::parse_from(["bench"].into_iter().chain(words.split(' ')));
        let text = |(name, value): &(String, String)| format!("{name}={value}");
        let items = command.args.items()?.into_iter().map(|item| {
            let changes: Vec<String> = item.changes.iter().map(text).collect();
            (item.workload, changes.join(" "))
        });
        Ok(items.collect())
    }

    #[test]
    fn names_of_workloads_tests_and_data_sets_are_understood() {
        for (words, workload, changes) in [
            ("iibench --rows 7", "iibench", "rows=7 time_limit=0"),
            ("iibench-query", "iibench", "queries=10 time_limit=0"),
            ("readrandom --set threads=2", "dbbench", "tests=readrandom threads=2 time_limit=0"),
            ("packages --packages f", "load", "packages=f set=packages time_limit=0"),
            ("txn --clients 1,2 --held 9", "txn", "clients=1,2 held=9 time_limit=0"),
        ] {
            let expected = vec![(workload.to_owned(), changes.to_owned())];
            assert_eq!(items(words).expect("known"), expected, "{words}");
        }
        assert!(items("readrandum").is_err_and(|failure| failure.0.contains("readrandom")));
    }

    #[test]
    fn each_data_set_has_its_own_number_of_rows() {
        let found = items("sizes --sets linktable,iibench=900 --rows 7").expect("known");
        let of = |set: &str, rows: u64| {
            ("load".to_owned(), format!("rows={rows} set={set} time_limit=0"))
        };
        assert_eq!(found, [of("iibench", 900), of("linktable", 7)]);
        assert_eq!(items("sizes").map(|items| items.len()).ok(), Some(load::SETS.len()));
        assert!(items("sizes --sets iibenk").is_err_and(|failure| failure.0.contains("iibench")));
        let other = items("iibench --sets iibench=9");
        assert!(other.is_err_and(|failure| failure.0.contains("only with the workload sizes")));
    }
}
