//! The `frond` command: one file per subcommand, each with its arguments and a `run`.
//!
//! Everything goes through the public API of the library. Output is on standard output; an error is
//! one line on standard error (`fail.rs` lists the exit codes).

mod backup;
mod bench;
mod change;
mod check;
mod columns;
mod common;
mod dump;
mod escape;
mod fail;
mod generate;
mod get;
mod inspect;
mod lines;
mod load;
mod log;
mod parse;
mod rows;
mod scan;
mod show;
mod snapshot;
mod stats;
mod trees;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// Load, inspect, check and back up a Frond store.
#[derive(Parser)]
#[command(
    name = "frond",
    version,
    max_term_width = 100,
    after_help = "\
Examples:
  frond load shop.db orders orders.csv --key id:int --index country
  frond scan shop.db orders --by country --prefix DE
  frond stats shop.db"
)]
struct Frond {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(load::Args),
    Get(get::Args),
    Scan(scan::Args),
    Put(change::PutArgs),
    Delete(change::DeleteArgs),
    Drop(change::DropArgs),
    Trees(trees::Args),
    Export(scan::ExportArgs),
    Dump(dump::Args),
    Stats(stats::Args),
    Check(check::Args),
    Inspect(inspect::Args),
    Log(log::Args),
    Snapshot(snapshot::Args),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Bench(bench::Args),
    Completions(generate::CompletionsArgs),
    Man(generate::ManArgs),
}

fn main() -> ExitCode {
    let command = match Frond::try_parse() {
        Ok(frond) => frond.command,
        Err(error) if error.use_stderr() => return usage(&error).report(),
        // Help and version.
        Err(answer) => return if answer.print().is_ok() { 0 } else { 2 }.into(),
    };
    let outcome = match command {
        Command::Load(args) => load::run(args),
        Command::Get(args) => get::run(args),
        Command::Scan(args) => scan::run(args),
        Command::Put(args) => change::put(args),
        Command::Delete(args) => change::delete(args),
        Command::Drop(args) => change::drop(args),
        Command::Trees(args) => trees::run(args),
        Command::Export(args) => scan::export(args),
        Command::Dump(args) => dump::run(args),
        Command::Stats(args) => stats::run(args),
        Command::Check(args) => check::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Log(args) => log::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Backup(args) => backup::backup(args),
        Command::Restore(args) => backup::restore(args),
        Command::Bench(args) => bench::run(args),
        Command::Completions(args) => generate::completions(args, Frond::command()),
        Command::Man(args) => generate::man(args, Frond::command()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(fail) => fail.report(),
    }
}

/// The parser's message without the usage text.
fn usage(error: &clap::Error) -> fail::Fail {
    let text = error.to_string();
    let message = text.split("\n\nUsage:").next().unwrap_or(&text);
    let message = message.split("\n\nFor more information").next().unwrap_or(message);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let message = message.replace("\n\n  tip: ", "; tip: ");
    fail::Fail::Error(format!("{message} (see `frond help`)"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// Each command shows how it is used.
    #[test]
    fn help_of_each_subcommand_has_an_example() {
        let command = super::Frond::command();
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let line = format!("  frond {}", command.get_name());
            assert!(help.contains(&line) || command.get_name() == "help", "{}", command.get_name());
        }
    }

    #[test]
    fn clap_accepts_the_arguments_of_every_subcommand() {
        super::Frond::command().debug_assert();
    }
}
