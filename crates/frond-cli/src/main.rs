//! The `frond` command: one file per subcommand, each with its arguments and a `run`.
//!
//! All subcommands use the public API of the library. They print results to standard output, and an
//! error as one line to standard error (`fail.rs` lists the exit codes).

mod backup;
mod bench;
mod change;
mod check;
mod columns;
mod common;
mod dump;
mod escape;
mod export;
mod fail;
mod generate;
mod get;
mod index;
mod inspect;
mod interrupt;
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

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

/// Load, query, check and back up Frond stores
#[derive(Parser)]
#[command(
    name = "frond",
    version,
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
    Index(index::Args),
    Drop(change::DropArgs),
    Trees(trees::Args),
    Export(export::Args),
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
        // The list of subcommands, on standard error.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            return ExitCode::from(2);
        }
        Err(error) if error.use_stderr() => return usage(&error).report(),
        // Help and version.
        Err(answer) => {
            let printed = answer.print().map_err(fail::Fail::from);
            return printed.map_or_else(|fail| fail.report(), |()| ExitCode::SUCCESS);
        }
    };
    let outcome = match command {
        Command::Load(args) => load::run(args),
        Command::Get(args) => get::run(args),
        Command::Scan(args) => scan::run(args),
        Command::Put(args) => change::put(args),
        Command::Delete(args) => change::delete(args),
        Command::Index(args) => index::run(args),
        Command::Drop(args) => change::drop(args),
        Command::Trees(args) => trees::run(args),
        Command::Export(args) => export::run(args),
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
    let first = std::env::args_os().nth(1).unwrap_or_default();
    let help = match Frond::command().find_subcommand(first) {
        Some(command) => format!("frond help {}", command.get_name()),
        None => "frond help".to_owned(),
    };
    fail::Fail::Error(format!("{message} (see `{help}`)"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn help_of_each_subcommand_has_an_example() {
        let command = super::Frond::command();
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let line = format!("  frond {}", command.get_name());
            assert!(help.contains(&line) || command.get_name() == "help", "{}", command.get_name());
        }
    }

    /// The subcommand of a command line, with its options, exists. Command lines in prose leave out
    /// arguments, so they are not parsed as a whole.
    fn exists(line: &str) -> Result<(), String> {
        let line = line.split(" #").next().unwrap_or_default();
        let mut command = super::Frond::command();
        command.build();
        let mut command = &command;
        for word in line.split_whitespace().skip(1) {
            if command.get_name() == "bench" {
                break; // the lab checks the options of its program
            }
            if let Some(found) = command.find_subcommand(word) {
                command = found;
            } else if command.has_subcommands() && command.get_name() != "help" {
                return Err(format!("no subcommand {word}: {line}"));
            } else if let Some(option) = word.strip_prefix("--") {
                let mut known = command.get_arguments().filter_map(|known| known.get_long());
                if !known.any(|known| known == option.split('=').next().unwrap_or_default()) {
                    return Err(format!("no option --{option}: {line}"));
                }
            }
        }
        Ok(())
    }

    /// Checks the command lines in the fenced blocks and inline code of all documents.
    /// docs/command.md also runs as a test.
    #[test]
    fn documented_commands_and_options_exist() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
        let docs = docs.filter(|path| path.extension().is_some_and(|of| of == "md"));
        let (mut checked, mut wrong) = (0, Vec::new());
        for path in docs.chain(["README.md", "CONTRIBUTING.md"].map(|name| root.join(name))) {
            let text = std::fs::read_to_string(&path).unwrap();
            let lines = text.lines().map(|line| line.trim_start_matches("$ "));
            let inline = text.split('`').skip(1).step_by(2).filter(|code| !code.contains('\n'));
            let said = lines.chain(inline).filter(|line| line.starts_with("frond "));
            // Not commands: settings of the server, and attributes of trees.
            let said =
                said.filter(|line| !line.starts_with("frond = ") && !path.ends_with("format.md"));
            for line in said {
                checked += 1;
                wrong.extend(exists(line).err().map(|why| format!("{}: {why}", path.display())));
            }
        }
        assert!(checked > 30 && wrong.is_empty(), "{checked}: {wrong:#?}");
        let command = super::Frond::command();
        for help in command.get_subcommands().filter_map(|command| command.get_after_help()) {
            let examples = help.to_string();
            let examples =
                examples.lines().map(str::trim).filter(|line| line.starts_with("frond "));
            assert_eq!(examples.map(exists).find(Result::is_err), None);
        }
    }

    #[test]
    fn clap_accepts_the_arguments_of_every_subcommand() {
        super::Frond::command().debug_assert();
    }
}
