//! `frond check`: checks a closed store for damage. Writes nothing.

use std::{io::Write, path::PathBuf};

use frond::check::CheckMode;

use crate::{
    common::{count_of, output},
    fail::{Fail, Result},
    interrupt,
};

/// Check a store for damage
///
/// Reads the whole store once; with --quick, only the log and a few pages. No
/// program may have the store open for writing; it may be open read-only. The
/// exit code is 0 if no damage was found, 1 if damage was found, and 2 if the
/// check could not run.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond check shop.db
  frond check shop.db --quick --json"
)]
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

/// Runs `frond check`.
pub fn run(args: Args) -> Result {
    let mode = if args.quick { CheckMode::Quick } else { CheckMode::Full };
    interrupt::exit_on_signal(
        "interrupted; the check did not finish, so the state of the store is unknown",
    )?;
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
