//! The command line of `lab`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::cell_spec::MEMORY_MIN;
use super::machine::virtual_disk::Kind;
use super::params::{Param, twice};
use super::report::count;
use super::results::Database;
use super::run::{self, Item, Request};
use super::size::{Durability, Face, Size};
use super::stdout::print;
use super::target::{self, SqlTarget};
use super::{cell, compare, embedded, exchange, suites, workloads};
use crate::size::Bytes;
use crate::targets::{Failure, Result};
use crate::{machine, measure};

/// Run, compare and report experiments on storage engines.
#[derive(Parser, Debug)]
#[command(name = "lab", version)]
struct Cli {
    /// Database of results
    #[arg(long, global = true, default_value = "lab-results.sqlite", value_name = "FILE")]
    results: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a workload or a suite on one or more targets
    Run(RunArgs),
    /// List suites, workloads with their parameters, targets and metrics
    List,
    /// List the runs, or show one as tables
    Show {
        /// Run: its uid, a prefix of the uid, or `last`
        run: Option<String>,
    },
    /// Compare two runs or two targets, metric by metric
    Compare {
        /// RUN or RUN:TARGET
        a: String,
        /// RUN or RUN:TARGET
        b: String,
        /// Also compare results from different conditions; each line is marked as not comparable
        #[arg(long)]
        anyway: bool,
    },
    /// Export runs as JSON, CSV or Markdown
    Export {
        /// json: everything, for `lab import`; csv: the metrics; markdown: the tables
        #[arg(long, value_enum, default_value_t = Format::Json)]
        format: Format,
        /// Runs to export (default: all)
        runs: Vec<String>,
    },
    /// Import runs that `lab export` wrote on another machine
    Import {
        /// JSON file
        file: PathBuf,
    },
    /// Write the results as HTML pages to a folder
    Report(super::report::Options),
    /// Show what this machine can and cannot measure
    Doctor(super::machine::doctor::Args),
    /// Run one cell described by JSON on standard input (internal)
    #[command(hide = true)]
    Cell,
}

/// Format of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    Json,
    Csv,
    Markdown,
}

#[derive(clap::Args, Debug)]
struct RunArgs {
    /// Suite or workload, as listed by `lab list`
    name: String,
    /// Targets: names from `lab list`, a commit of Frond (frond@HEAD~20), target files, mysql://
    /// URLs (default: those of the suite, or frond and a rival)
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    targets: Option<Vec<String>>,
    /// How the workload accesses its targets (default: sql). For a suite: run only its parts with
    /// this access (default: all)
    #[arg(long, value_enum)]
    face: Option<Face>,
    /// Scale of the workload
    #[arg(long, value_enum, default_value_t = Size::Quick)]
    size: Size,
    /// Storage class: host is the disk as it is; hdd, sata, nvme, cloud, … limit it (default: as
    /// the suite says, or host)
    #[arg(long)]
    class: Option<String>,
    /// Give each cell a disk of its own, which also throttles buffered writes and the journal
    #[arg(long, value_enum)]
    disk: Option<Kind>,
    /// When a commit is acknowledged (default: as the suite says, or safe)
    #[arg(long, value_enum)]
    durability: Option<Durability>,
    /// Number of runs of each cell (default: 1 at tiny and quick, 3 at standard and published)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: Option<u32>,
    /// Seed of the generators
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Set a parameter of the workload; can be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    changes: Vec<(String, String)>,
    /// Memory of each target (default: the size of the data divided by the workload's ratio)
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Resume the latest unfinished run of this request: run only the missing cells
    #[arg(long)]
    resume: bool,
    /// Print what would be run and how long it takes at most, but run nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not wait for background work after writes
    #[arg(long)]
    no_rest: bool,
    /// Allow writing to a server that is not the lab's own (a mysql:// target)
    #[arg(long)]
    yes_write: bool,
    /// Directory in which stores are created
    #[arg(long, default_value = "lab-data", value_name = "DIR")]
    dir: PathBuf,
}

/// Splits `NAME=VALUE`.
///
/// # Errors
/// There is no `=`.
pub fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Runs `lab` with the arguments of the process.
pub fn main() -> ExitCode {
    match run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("lab: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    match &cli.command {
        Command::Run(args) => run_workload(&cli.results, args),
        Command::List => print(&list()),
        Command::Report(options) => {
            let database = Database::open_to_read(&cli.results)?;
            let page = super::report::report(&database, options)?;
            print(&format!("{}\n", page.display()))
        }
        Command::Cell => cell::main(),
        Command::Show { run } => show(&Database::open_to_read(&cli.results)?, run.as_deref()),
        Command::Compare { a, b, anyway } => {
            let database = Database::open_to_read(&cli.results)?;
            print(&compare::compare(&database, a, b, *anyway)?)
        }
        Command::Export { format, runs } => export(&cli.results, *format, runs),
        Command::Import { file } => {
            let name = file.display().to_string();
            let text = std::fs::read_to_string(file)
                .map_err(|error| Failure(format!("{name}: {error}")))?;
            let taken = exchange::import(&mut Database::open(&cli.results)?, &name, &text)?;
            let completed = match taken.completed {
                0 => String::new(),
                runs => format!(", {runs} completed"),
            };
            print(&format!("{}{completed}\n", count(taken.new, "new run")))
        }
        Command::Doctor(args) => super::machine::doctor::run(args),
    }
}

/// The arguments of this process, for people; the shell's quotes are missing.
pub fn command_words() -> String {
    let words = std::env::args_os().skip(1);
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn run_workload(results: &Path, args: &RunArgs) -> Result<()> {
    let words = command_words();
    let suite = suites::find(&args.name);
    let items = items(args)?;
    check_memory(args.memory)?;
    let request = Request {
        suite: args.name.clone(),
        items,
        size: args.size,
        class: args
            .class
            .clone()
            .or_else(|| suite.as_ref()?.class.clone())
            .unwrap_or_else(|| "host".to_owned()),
        // A suite's disk belongs to its class.
        disk: args.disk.or_else(|| suite.as_ref().filter(|_| args.class.is_none())?.disk),
        durability: args
            .durability
            .or_else(|| suite.as_ref()?.durability)
            .unwrap_or(Durability::Safe),
        repeat: args.repeat.unwrap_or(if args.size >= Size::Standard { 3 } else { 1 }),
        seed: args.seed,
        memory: args.memory.map(|bytes| bytes.0),
        yes_write: args.yes_write,
        resume: args.resume,
        with_rest: !args.no_rest,
        dir: args.dir.clone(),
        command: format!("lab {words}"),
    };
    if args.dry_run {
        return print(&run::describe(&request)?);
    }
    let uid = run::run(results, &request).map_err(|failure| match measure::is_interrupted() {
        true => Failure(format!("{failure}; `lab run … --resume` continues it")),
        false => failure,
    })?;
    eprintln!("run {uid} is in {}", results.display());
    Ok(())
}

/// What the arguments ask to run.
///
/// # Errors
/// An unknown name, a parameter or target given twice, or parameters for a suite.
fn items(args: &RunArgs) -> Result<Vec<Item>> {
    let face = args.face.unwrap_or(Face::Sql);
    let names: Vec<&String> = args.changes.iter().map(|(name, _)| name).collect();
    if let Some(name) = twice(&names) {
        return Err(Failure(format!("--set {name} was given twice")));
    }
    if let Some(name) = twice(args.targets.as_deref().unwrap_or_default()) {
        return Err(Failure(format!("target {name} was given twice: --repeat runs it again")));
    }
    let Some(mut items) = suites::items(&args.name, args.targets.as_deref())? else {
        if !has_workload(face, &args.name) {
            let other = if face == Face::Sql { Face::Embedded } else { Face::Sql };
            return Err(match has_workload(other, &args.name) {
                true => Failure(format!("{} runs with --face {other} only", args.name)),
                false => suites::unknown_name(&args.name),
            });
        }
        if let Some(targets) = &args.targets {
            run::check_targets(face, targets)?;
        }
        return Ok(vec![Item {
            workload: args.name.clone(),
            face,
            changes: args.changes.clone(),
            targets: args.targets.clone().unwrap_or_else(|| default_targets(face)),
        }]);
    };
    if !args.changes.is_empty() {
        return Err(Failure(
            "--set is for one workload: a suite has its own parameters".to_owned(),
        ));
    }
    items.retain(|item| args.face.is_none_or(|face| item.face == face));
    if items.is_empty() {
        return Err(Failure(format!("suite {} has no part with --face {face}", args.name)));
    }
    if let Some(targets) = &args.targets {
        let has_both = items.iter().any(|item| item.face != items[0].face);
        for item in &items {
            run::check_targets(item.face, targets).map_err(|failure| match has_both {
                true => Failure(format!("{failure} ({} has both faces: choose --face)", args.name)),
                false => failure,
            })?;
        }
    }
    Ok(items)
}

/// Refuses memory that no target can be given.
fn check_memory(memory: Option<Bytes>) -> Result<()> {
    let Some(memory) = memory else { return Ok(()) };
    if memory.0 < MEMORY_MIN {
        return Err(Failure(
            "--memory: at least 16 MiB, the minimum of frond_cache_size".to_owned(),
        ));
    }
    let total = machine::memory_bytes();
    if memory.0 > total {
        return Err(Failure(format!("--memory: this machine has {} MiB", total >> 20)));
    }
    Ok(())
}

fn has_workload(face: Face, name: &str) -> bool {
    match face {
        Face::Sql => workloads::ALL.iter().any(|entry| entry.name == name),
        Face::Embedded => embedded::ALL.iter().any(|entry| entry.name == name),
    }
}

fn default_targets(face: Face) -> Vec<String> {
    let names = match face {
        Face::Sql => ["innodb", "frond"],
        Face::Embedded => ["rocksdb", "frond"],
    };
    names.map(str::to_owned).to_vec()
}

fn show(database: &Database, run: Option<&str>) -> Result<()> {
    let mut out = String::new();
    match run {
        Some(run) => {
            let run = database.find_run(run)?;
            out += &exchange::markdown(database, &run)?;
            out += &exchange::conditions(database, &run)?;
        }
        None => {
            for run in database.runs()? {
                let ended = run.ended.as_deref().unwrap_or("not ended");
                out += &format!(
                    "{}  {}  {:14} {:9} {:6} {:8} {}\n",
                    run.uid, run.began, run.suite, run.size, run.class, run.durability, ended
                );
            }
        }
    }
    print(&out)
}

fn export(results: &Path, format: Format, names: &[String]) -> Result<()> {
    let database = Database::open_to_read(results)?;
    let runs = match names.is_empty() {
        true => database.runs()?,
        false => {
            let mut runs = Vec::new();
            for name in names {
                let run = database.find_run(name)?;
                if !runs.contains(&run) {
                    runs.push(run);
                }
            }
            runs
        }
    };
    let ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    match format {
        Format::Json => print(&(exchange::export(&database, &ids)? + "\n")),
        Format::Csv => print(&exchange::csv(&database, &ids)?),
        Format::Markdown => {
            let tables = runs.iter().map(|run| Ok(exchange::markdown(&database, run)? + "\n"));
            print(&tables.collect::<Result<String>>()?)
        }
    }
}

/// The tables of `lab list`.
fn list() -> String {
    let mut out = "Suites:\n".to_owned();
    for (name, suite) in suites::all().unwrap_or_default() {
        out += &format!("  {name:18} {}\n", suite.about);
    }
    out += "Workloads in SQL, with parameters and their defaults at tiny, quick, standard, \
            published:\n";
    for entry in workloads::ALL {
        out += &of_workload(entry.name, entry.about, entry.params);
    }
    out += "Embedded workloads (--face embedded):\n";
    for entry in embedded::ALL {
        out += &of_workload(entry.name, entry.about, entry.params);
    }
    out += &format!("Embedded targets: {}\nSQL targets:\n", embedded::TARGETS.join(", "));
    for name in target::names() {
        out += &match SqlTarget::find(name) {
            Ok(target) => format!("  {name:14} {}\n", target.about),
            Err(failure) => format!("  {name:14} {failure}\n"),
        };
    }
    out += "Metrics:\n";
    for metric in super::metric::METRICS {
        out += &format!("  {:22} {:4} {}\n", metric.name, metric.unit, metric.what);
    }
    out
}

fn of_workload(name: &str, about: &str, params: &[Param]) -> String {
    let mut out = format!("  {name:14} {about}\n");
    for param in params {
        let [first, rest @ ..] = &param.defaults;
        let all_same = rest.iter().all(|other| other == first);
        let defaults = if all_same { (*first).to_owned() } else { param.defaults.join(" | ") };
        out += &format!("      {}={defaults}  {}\n", param.name, param.what);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Command lines in documents are understood, and name suites and workloads that exist.
    #[test]
    fn documented_command_lines_are_understood() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut understood = 0;
        for name in ["lab.md", "mariadb.md", "benchmarks.md"] {
            let text = std::fs::read_to_string(docs.join(name)).expect(name);
            let text = text.replace("\\\n", " ").replace("target/release/lab ", "lab ");
            let fenced = text.split("```").skip(1).step_by(2).flat_map(str::lines);
            for line in fenced.filter(|line| line.starts_with("lab ")) {
                let words = line.split(" #").next().unwrap_or_default().split_whitespace();
                let cli = Cli::try_parse_from(words);
                let cli = cli.unwrap_or_else(|error| panic!("{name}: {line}: {error}"));
                if let Command::Run(RunArgs { name, face, .. }) = cli.command {
                    let face = face.unwrap_or(Face::Sql);
                    assert!(suites::find(&name).is_some() || has_workload(face, &name), "{line}");
                }
                understood += 1;
            }
            let inline = text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n'));
            let lines = text.lines().map(str::trim).chain(inline);
            let benches = lines.filter_map(|line| line.strip_prefix("frond bench "));
            // An option alone is no command.
            for line in benches.filter(|line| !line.starts_with("--")) {
                super::super::bench::understand(line)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
        }
        assert!(understood > 10, "{understood}");
    }

    fn items_of(line: &str) -> Result<Vec<Item>> {
        let cli = Cli::try_parse_from(["lab", "run"].into_iter().chain(line.split(' ')));
        match cli.expect("it is understood").command {
            Command::Run(args) => items(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_face_selects_parts_of_a_suite() {
        let faces = |line: &str| -> Vec<Face> {
            items_of(line).expect(line).into_iter().map(|item| item.face).collect()
        };
        let all = faces("overview");
        assert!(all.contains(&Face::Sql) && all.contains(&Face::Embedded));
        let embedded = faces("overview --face embedded");
        assert!(!embedded.is_empty() && embedded.iter().all(|face| *face == Face::Embedded));
        assert_eq!(faces("tpcc"), [Face::Sql]);
        assert_eq!(faces("tpcc --face embedded --set warehouses=1"), [Face::Embedded]);
        let failure = items_of("dbbench").expect_err("it is embedded only");
        assert_eq!(failure.0, "dbbench runs with --face embedded only");
        let failure = items_of("iibench-2011 --targets innodb,frond").expect_err("of one face");
        assert!(failure.0.ends_with("(iibench-2011 has both faces: choose --face)"), "{failure}");
        assert!(items_of("iibench-2011 --targets innodb,frond --face sql").is_ok());
        let failure = items_of("threads --face embedded").expect_err("it has SQL only");
        assert!(failure.0.contains("threads") && failure.0.contains("embedded"), "{failure}");
    }

    #[test]
    fn nothing_is_given_twice() {
        for line in ["iibench --set rows=10 --set rows=20", "iibench --targets frond,innodb,frond"]
        {
            let failure = items_of(line).expect_err(line);
            assert!(failure.0.contains("twice"), "{failure}");
        }
        assert!(items_of("iibench --set rows=10 --set poll=0 --targets frond,innodb").is_ok());
    }

    #[test]
    fn memory_is_at_least_the_minimum_and_at_most_that_of_the_machine() {
        for (size, is_right) in
            [("0", false), ("1MB", false), ("16MiB", true), ("9999999GiB", false)]
        {
            let memory = Some(size.parse().expect(size));
            assert_eq!(check_memory(memory).is_ok(), is_right, "{size}");
        }
        assert!(check_memory(None).is_ok());
    }
}
