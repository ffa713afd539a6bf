//! `frond check`: checks everything that must hold in a closed store. Writes nothing.

use std::{io::Write, path::PathBuf};

use frond::{CheckMode, io::Env};

use crate::{
    common::output,
    fail::{Fail, Result},
};

/// Check a store for damage
///
/// The exit code is 0 if there is none, 1 if there is, 2 if the check could not run; the store must
/// not be open. Reads the whole store once; with --quick, only the log and a few pages.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Check only superblocks, log, catalog and totals
    #[arg(long)]
    quick: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: Args) -> Result {
    let mode = if args.quick { CheckMode::Quick } else { CheckMode::Full };
    let report = frond::check(&args.dir, mode, Env::real())?;
    let mut out = output();
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else {
        writeln!(out, "{report}")?;
    }
    out.flush()?;
    if report.is_clean() {
        return Ok(());
    }
    let found = report.findings.len() as u64 + report.more;
    Err(Fail::Negative(format!("{} is damaged ({found} findings)", args.dir.display())))
}
