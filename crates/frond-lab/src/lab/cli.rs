//! The command line of `lab`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use super::results::Database;
use super::run::{self, Item, Request};
use super::size::{Durability, Size};
use super::target::{self, SqlTarget};
use super::{cell, workloads};
use crate::size::Bytes;
use crate::targets::Result;

/// Experiments on storage engines: run, compared, shown.
#[derive(Parser, Debug)]
#[command(name = "lab", version)]
struct Cli {
    /// The database of results
    #[arg(long, global = true, default_value = "lab-results.sqlite", value_name = "FILE")]
    results: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a workload, or a suite of them, on targets
    Run(RunArgs),
    /// Workloads with their parameters, targets, metrics
    List,
    /// One cell, told on standard input (a run starts itself so)
    #[command(hide = true)]
    Cell,
}

#[derive(clap::Args, Debug)]
struct RunArgs {
    /// A workload of `lab list`
    name: String,
    /// Targets: names of `lab list`, files of targets, mysql:// URLs
    #[arg(long, value_delimiter = ',', default_value = "frond,innodb", value_name = "A,B")]
    targets: Vec<String>,
    /// Scale
    #[arg(long, value_enum, default_value_t = Size::Quick)]
    size: Size,
    /// When a commit is acknowledged
    #[arg(long, value_enum, default_value_t = Durability::Safe)]
    durability: Durability,
    /// How often each cell is run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Seed of the generators
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// A parameter of the workload
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    changes: Vec<(String, String)>,
    /// Memory of each target, in place of what the workload's ratio of data to cache gives
    #[arg(long, value_name = "SIZE")]
    memory: Option<Bytes>,
    /// Go on with the last such run that did not end: only what is missing
    #[arg(long)]
    resume: bool,
    /// Do not wait for background work after writes
    #[arg(long)]
    no_rest: bool,
    /// Write to a server that is not the lab's own (a mysql:// target)
    #[arg(long)]
    yes_write: bool,
    /// Where the stores are made
    #[arg(long, default_value = "lab-data", value_name = "DIR")]
    dir: PathBuf,
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not NAME=VALUE"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Runs the program.
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
        Command::List => {
            list();
            Ok(())
        }
        Command::Cell => cell::main(),
    }
}

fn run_workload(results: &Path, args: &RunArgs) -> Result<()> {
    let words = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let items = vec![Item {
        workload: workloads::find(&args.name)?.name.to_owned(),
        changes: args.changes.clone(),
        targets: run::targets(&args.targets)?,
    }];
    let request = Request {
        suite: args.name.clone(),
        items,
        size: args.size,
        class: "host".to_owned(),
        durability: args.durability,
        repeat: args.repeat,
        seed: args.seed,
        memory: args.memory.map(|bytes| bytes.0),
        yes_write: args.yes_write,
        resume: args.resume,
        with_rest: !args.no_rest,
        dir: args.dir.clone(),
        command: format!("lab {words}"),
    };
    let uid = run::run(&mut Database::open(results)?, &request)?;
    eprintln!("run {uid} is in {}", results.display());
    Ok(())
}

fn list() {
    println!("Workloads, with parameters and their defaults at tiny, quick, standard, published:");
    for entry in workloads::ALL {
        println!("  {:14} {}", entry.name, entry.about);
        for param in entry.params {
            let [first, rest @ ..] = &param.defaults;
            let all_same = rest.iter().all(|other| other == first);
            let defaults = if all_same { (*first).to_owned() } else { param.defaults.join(" | ") };
            println!("      {}={defaults}  {}", param.name, param.what);
        }
    }
    println!("SQL targets:");
    for name in target::names() {
        match SqlTarget::find(name) {
            Ok(target) => println!("  {name:14} {}", target.about),
            Err(failure) => println!("  {name:14} {failure}"),
        }
    }
    println!("Metrics:");
    for metric in super::metric::METRICS {
        println!("  {:22} {:4} {}", metric.name, metric.unit, metric.what);
    }
}
