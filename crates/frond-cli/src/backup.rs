//! `frond backup` and `frond restore`: full backups, increments, and stores restored from them.
//!
//! The command needs exclusive access to the store; a program that has it open makes the same
//! backups, while it continues, with `Db::backup` and `Db::backup_since`.

use std::path::PathBuf;

use frond::backup::{Backup, BackupId, BackupInfo};

use crate::{
    common::{StoreArgs, grouped, parent_must_exist, say, size},
    fail::Result,
};

/// Copy a store, or what changed in it since an earlier backup
///
/// Without --base, TARGET becomes a directory that is a store itself. With --base, TARGET becomes a
/// file with the changes since that backup. Every page is verified while it is copied.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond backup shop.db /backup/monday
  frond backup shop.db /backup/tuesday.inc --base /backup/monday")]
pub struct BackupArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Directory to create; with --base, file to create
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Earlier backup to start from: a full backup or an increment
    #[arg(long, value_name = "BACKUP")]
    base: Option<PathBuf>,
}

/// Create a store from a backup and its increments
///
/// Every page is verified while it is copied. A damaged backup, or increments that do not belong
/// together, are not restored.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond restore /backup/monday shop.db --increment /backup/tuesday.inc
  frond restore /backup/monday --dry-run")]
pub struct RestoreArgs {
    /// Directory of the full backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Directory to create
    #[arg(value_name = "TARGET", required_unless_present = "dry_run")]
    target: Option<PathBuf>,
    /// Read and verify everything that would be restored, but write nothing
    #[arg(long, conflicts_with = "target")]
    dry_run: bool,
    /// Increment to apply; repeat for each, in the order in which they were made
    #[arg(long = "increment", value_name = "FILE")]
    increments: Vec<PathBuf>,
}

/// Runs `frond backup`.
pub fn backup(args: BackupArgs) -> Result {
    parent_must_exist(&args.target)?;
    let base = args.base.map(BackupId::read).transpose()?;
    let db = args.store.open_to_write()?;
    let info = match &base {
        None => db.backup(&args.target)?,
        Some(base) => db.backup_since(base, &args.target)?,
    };
    db.close()?;
    report(&info, &format!("copied to {}", args.target.display()))
}

/// Runs `frond restore`.
pub fn restore(args: RestoreArgs) -> Result {
    let backup = Backup::new(&args.backup).increments(&args.increments);
    match &args.target {
        None => report(&backup.verify()?, "verified"),
        Some(target) => {
            parent_must_exist(target)?;
            report(&backup.restore(target)?, &format!("restored to {}", target.display()))
        }
    }
}

fn report(info: &BackupInfo, what: &str) -> Result {
    let (pages, commit) = (grouped(info.pages), grouped(info.seqno.0));
    let bytes = size(info.bytes);
    say(&format!("{pages} pages, {bytes}, {what}: everything through commit {commit}"))
}
