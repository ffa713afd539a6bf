//! The program `frond-bench`, which the command `frond bench` starts.

use std::process::ExitCode;

fn main() -> ExitCode {
    frond_lab::lab::bench::main()
}
