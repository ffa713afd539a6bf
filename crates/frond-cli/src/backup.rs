//! `frond backup` and `frond restore`: full backups, increments, and stores made out of them.
//!
//! The command needs the store to itself; a program that has it open makes the same backups, while it
//! goes on, by `Db::backup` and `Db::backup_since`.

use std::path::PathBuf;

use frond::{BackupId, BackupInfo, io::Env};

use crate::{
    common::{StoreArgs, grouped, say, size},
    fail::Result,
};

/// Copy a store, or what changed in it since an earlier backup
///
/// Without --base: TARGET becomes a directory that is a store itself. With --base: TARGET becomes a
/// file with what changed since that backup. Every page is verified as it is copied.
#[derive(clap::Args)]
pub struct BackupArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Directory, or with --base file, to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// The backup to begin at: a full one, or an increment
    #[arg(long, value_name = "BACKUP")]
    base: Option<PathBuf>,
}

/// Make a store out of a backup and its increments
///
/// Every page is verified as it is copied; a backup that is damaged, or increments that do not belong
/// together, are not restored.
#[derive(clap::Args)]
pub struct RestoreArgs {
    /// Directory of the full backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Directory to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// An increment; once for each, in the order in which they were made
    #[arg(long = "increment", value_name = "FILE")]
    increments: Vec<PathBuf>,
}

/// Runs `frond backup`.
pub fn backup(args: BackupArgs) -> Result {
    let base = args.base.map(|path| BackupId::read(path, &Env::real())).transpose()?;
    let db = args.store.open_to_write()?;
    let info = match &base {
        None => db.backup(&args.target)?,
        Some(base) => db.backup_since(base, &args.target)?,
    };
    db.close()?;
    report(&info, "copied to", &args.target)
}

/// Runs `frond restore`.
pub fn restore(args: RestoreArgs) -> Result {
    let info = frond::restore(&args.backup, &args.increments, &args.target, Env::real())?;
    report(&info, "restored to", &args.target)
}

fn report(info: &BackupInfo, what: &str, target: &std::path::Path) -> Result {
    let (pages, commit) = (grouped(info.pages), grouped(info.seqno.0));
    let (bytes, target) = (size(info.bytes), target.display());
    say(&format!("{pages} pages, {bytes}, {what} {target}: everything through commit {commit}"))
}
