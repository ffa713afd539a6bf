//! `frond bench`: starts the program `frond-bench`.
//!
//! It is a program of its own because it is linked with the stores that Frond is compared with.

use std::{
    ffi::OsString, io::ErrorKind, os::unix::process::CommandExt, path::PathBuf, process::Command,
};

use crate::fail::{self, Result};

/// Run a workload on Frond and other stores, and compare
///
/// Starts the program frond-bench, which must be in the directory of frond or in
/// PATH. `frond bench --help` lists its options.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    disable_help_flag = true,
    after_help = "\
Examples:
  frond bench iibench --targets frond,rocksdb,sqlite
  frond bench sizes --targets frond,sqlite"
)]
pub struct Args {
    /// Workload and options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    words: Vec<OsString>,
}

const PROGRAM: &str = "frond-bench";

/// Runs `frond bench`. Returns only if the program cannot be started.
pub fn run(args: Args) -> Result {
    let installed = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    let installed = installed.ok().filter(|path| path.is_file());
    let program = installed.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let failed = Command::new(&program).args(args.words).exec();
    match failed.kind() {
        ErrorKind::NotFound => fail::error(
            "the program frond-bench is neither in the directory of frond nor in PATH; in a checkout, \
             build it with `cargo build --release -p frond-lab --features lab`",
        ),
        _ => fail::error(format!("{}: {failed}", program.display())),
    }
}
