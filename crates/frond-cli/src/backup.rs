//! `frond backup` and `frond restore`: full backups, increments, and stores restored from them.
//!
//! The command needs exclusive access to the store: a backup is a copy of a checkpoint, which
//! writes to the store. A program that has the store open can make the same backups with
//! `Db::backup` and `Db::backup_since`.

use std::path::{Path, PathBuf};

use frond::{
    Error,
    backup::{Backup, BackupId, BackupInfo},
};

use crate::{
    common::{StoreArgs, grouped, parent_must_exist, say, size},
    fail::{Fail, Result},
};

/// Back up a store, in full or incrementally
///
/// Without --base, creates the directory TARGET, which is itself a store. With
/// --base, creates the file TARGET with the changes since that backup. Every page
/// is verified while it is copied.
///
/// The store must not be open elsewhere, not even for reading: a backup begins
/// with a checkpoint, which writes to the store. A program that has the store
/// open can make the same backups with Db::backup, without closing it.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond backup shop.db /backup/monday
  frond backup shop.db /backup/tuesday.inc --base /backup/monday"
)]
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
/// Every page is verified while it is copied. If the backup is damaged, or the
/// increments do not follow one another, nothing is restored.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond restore /backup/monday shop.db --increment /backup/tuesday.inc
  frond restore /backup/monday --dry-run"
)]
pub struct RestoreArgs {
    /// Directory of the full backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Directory to create
    #[arg(value_name = "TARGET", required_unless_present = "dry_run")]
    target: Option<PathBuf>,
    /// Verify everything that would be restored, but write nothing
    #[arg(long, conflicts_with = "target")]
    dry_run: bool,
    /// Increment to apply; repeat the option for each, oldest first
    #[arg(long = "increment", value_name = "FILE")]
    increments: Vec<PathBuf>,
}

/// Runs `frond backup`.
pub fn backup(args: BackupArgs) -> Result {
    parent_must_exist(&args.target)?;
    let base = args.base.as_ref().map(BackupId::read).transpose()?;
    let db = args.store.open_to_write()?;
    let info = match (&base, &args.base) {
        (Some(id), Some(path)) => {
            let made = db.backup_since(id, &args.target);
            made.map_err(|error| of_base(error, path, &args.store.dir))?
        }
        _ => db.backup(&args.target)?,
    };
    db.close()?;
    report(&info, &format!("copied to {}", args.target.display()))
}

/// The error for a wrong base, with the base that the user has named. The library's own message
/// names the target, and advises how to restore.
fn of_base(error: Error, base: &Path, store: &Path) -> Fail {
    let Error::WrongBase { wanted, found, .. } = &error else { return error.into() };
    Fail::Error(format!(
        "FRD-{} {} is not an earlier backup of {}: it is {wanted}, and the store is at {found}; name a backup of this store, or make a full one without --base",
        error.code(),
        base.display(),
        store.display(),
    ))
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
