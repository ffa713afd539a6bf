//! The command line of `lab`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Metrics, one a line
    Metrics,
    /// What this machine can and cannot measure
    Doctor(super::machine::doctor::Args),
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
        Command::Metrics => {
            super::metric::METRICS
                .iter()
                .for_each(|m| println!("{:20} {:4} {}", m.name, m.unit, m.what));
            Ok(())
        }
        Command::Doctor(args) => super::machine::doctor::run(args),
    }
}
