//! `frond bench`: workloads on Frond and its rivals. The code is in `frond-lab`.

use crate::fail::{Fail, Result};

/// Run a workload against Frond and other stores, and compare
#[derive(clap::Args)]
#[group(skip)] // its name would be that of the options' own
#[command(after_help = "\
Examples:
  frond bench iibench --targets frond,rocksdb,sqlite
  frond bench sizes --targets frond,sqlite")]
pub struct Args {
    #[command(flatten)]
    bench: frond_lab::bench::Args,
}

/// Runs it.
pub fn run(args: Args) -> Result {
    frond_lab::bench::run(&args.bench).map_err(|failure| Fail::Error(failure.to_string()))
}
