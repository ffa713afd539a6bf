//! The program `lab`, which runs experiments and reports their results (docs/lab.md).

use std::process::ExitCode;

fn main() -> ExitCode {
    frond_lab::lab::main()
}
