//! The program behind `frond bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    frond_lab::lab::bench::main()
}
