//! `frond completions` and `frond man`: files for shells and for `man`, generated from the
//! definition of the command.

use std::{io::Write, path::PathBuf};

use clap::Command;
use clap_complete::Shell;

use crate::{
    common::output,
    fail::{Result, error},
};

/// Print shell completions
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond completions bash > ~/.local/share/bash-completion/completions/frond
  frond completions zsh > ~/.zfunc/_frond
  frond completions fish > ~/.config/fish/completions/frond.fish")]
pub struct CompletionsArgs {
    /// Shell to complete for
    #[arg(value_enum)]
    shell: Shell,
}

/// Write manual pages to a directory
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  frond man /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Directory to write to; it is created if it does not exist
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Runs `frond completions`.
pub fn completions(args: CompletionsArgs, mut command: Command) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "frond", &mut script);
    let mut out = output();
    out.write_all(&script)?;
    Ok(out.flush()?)
}

/// Runs `frond man`.
pub fn man(args: ManArgs, command: Command) -> Result {
    let written = std::fs::create_dir_all(&args.dir)
        .and_then(|()| clap_mangen::generate_to(command, &args.dir));
    match written {
        Ok(()) => Ok(()),
        Err(why) => error(format!("cannot write {}: {why}", args.dir.display())),
    }
}
