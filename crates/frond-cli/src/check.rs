//! `frond check`: checks everything that must hold in a closed store. Writes nothing.

use std::{io::Write, path::PathBuf};

use frond::check::CheckMode;

use crate::{
    common::{count_of, output},
    fail::{Fail, Result},
};

/// Check a store for damage
///
/// The exit code is 0 if there is none, 1 if there is, 2 if the check could not run; the store must
/// not be open. Reads the whole store once; with --quick, only the log and a few pages.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond check shop.db
  frond check shop.db --quick --json")]
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
    let report = frond::check::store(&args.dir, mode)?;
    let mut out = output();
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else if args.quick && report.is_clean() {
        let report = report.to_string();
        let report = report.strip_prefix("clean: ").unwrap_or(&report);
        writeln!(out, "the quick check found no damage; it read no rows: {report}")?;
    } else {
        writeln!(out, "{report}")?;
    }
    out.flush()?;
    if report.is_clean() {
        return Ok(());
    }
    let found = report.findings.len() as u64 + report.more;
    let found = count_of(found, "finding");
    Err(Fail::Negative(format!("{} is damaged ({found})", args.dir.display())))
}
