//! The program `lab`.

use std::process::ExitCode;

fn main() -> ExitCode {
    frond_lab::lab::main()
}
