//! The bench without the rest of the `frond` command.

use clap::Parser;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    bench: frond_lab::bench::Args,
}

fn main() -> std::process::ExitCode {
    match frond_lab::bench::run(&Command::parse().bench) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            std::process::ExitCode::FAILURE
        }
    }
}
