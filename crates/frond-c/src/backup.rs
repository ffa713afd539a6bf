//! Full and incremental backups: making, verifying and restoring them.

use std::ffi::c_char;

use frond::backup::{Backup, BackupId, BackupInfo, StoreId, VersionNumber};

use crate::{bytes::*, error::*, store::frond_db};

/// Identifies the version of a store that a backup contains; the next increment starts from it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_backup_id {
    /// Identifier of the store.
    pub store: [u8; 16],
    /// The version.
    pub version: u64,
    /// Checksum of its root directory, to distinguish two stores with a common origin.
    pub roots: u64,
}

/// The result of a backup or a restore.
#[repr(C)]
pub struct frond_backup_info {
    /// Identifies what the backup contains: pass it to frond_backup_since.
    pub id: frond_backup_id,
    /// The last commit in it.
    pub seqno: u64,
    /// Number of pages copied.
    pub pages: u64,
    /// Total length of these pages in bytes.
    pub bytes: u64,
}

impl From<BackupId> for frond_backup_id {
    fn from(BackupId { store, version, roots }: BackupId) -> Self {
        Self { store: store.0, version: version.0, roots }
    }
}

impl From<BackupInfo> for frond_backup_info {
    fn from(BackupInfo { id, seqno, pages, bytes }: BackupInfo) -> Self {
        Self { id: id.into(), seqno: seqno.0, pages, bytes }
    }
}

/// Copies the store to the new directory `path`, which must not exist before. The copy is itself a
/// store. Writers can continue meanwhile. `info` may be null.
#[api]
fn frond_backup(db: &frond_db, path: &str, info: Option<&mut frond_backup_info>) -> Done {
    set(info, db.0.backup(path)?.into())
}

/// Writes an increment, which contains what has changed since the backup `base`, to the new file
/// `path`. Writers can continue meanwhile. FRD-1012 if `base` is not of an earlier version of this
/// store. `info` may be null.
#[api]
fn frond_backup_since(
    db: &frond_db,
    base: &frond_backup_id,
    path: &str,
    info: Option<&mut frond_backup_info>,
) -> Done {
    let version = VersionNumber(base.version);
    let base = BackupId { store: StoreId(base.store), version, roots: base.roots };
    set(info, db.0.backup_since(&base, path)?.into())
}

/// Reads the identifier of a backup, for frond_backup_since. `path` is the directory of a full
/// backup or the file of an increment. FRD-1001 if the directory has been opened for writing since.
#[api]
fn frond_backup_read_id(path: &str, id: &mut frond_backup_id) -> Done {
    set(id, BackupId::read(path)?.into())
}

/// Reads and verifies everything that frond_restore would write, and writes nothing. `increments`
/// are the paths of `count` increments, oldest first; null if `count` is 0. `info` may be null.
#[api]
fn frond_backup_verify(
    backup: &str,
    increments: *const *const c_char,
    count: usize,
    info: Option<&mut frond_backup_info>,
) -> Done {
    set(info, chain(backup, increments, count)?.verify()?.into())
}

/// Creates a store in the new directory `target`, which must not exist before, from a full backup
/// and `count` increments, oldest first. The backup is a directory that frond_backup made, or that
/// of a store that was closed cleanly; it is not changed. Every page is verified. FRD-1012 if an
/// increment does not continue what comes before it. After an error, `target` does not exist.
/// `increments` is null if `count` is 0. `info` may be null.
#[api]
fn frond_restore(
    backup: &str,
    increments: *const *const c_char,
    count: usize,
    target: &str,
    info: Option<&mut frond_backup_info>,
) -> Done {
    set(info, chain(backup, increments, count)?.restore(target)?.into())
}

fn chain(backup: &str, increments: *const *const c_char, count: usize) -> Done<Backup> {
    // SAFETY: see `bytes.rs`.
    let increments = unsafe { list(increments, count, "increments") }?;
    // SAFETY: likewise.
    let path = |&increment: &*const c_char| unsafe { text(increment, "an increment") };
    let increments: Vec<_> = increments.iter().map(path).collect::<Done<_>>()?;
    Ok(Backup::new(backup).increments(increments))
}
