//! Backup: a copy of one version of a store, made while commits continue; and increments of what
//! changed since.
//!
//! A **full backup** is a directory that opens as a store. An **increment** is one file with the
//! pages born since another backup. A [`Backup`] is a full backup with its increments.
//!
//! ```text
//! checkpoint → hold the newest slot's version → copy its pages, each verified → slots → log
//!   → rename
//! ```
//!
//! Invariants
//! 1. A backup contains the store as of one commit, and contains every commit that had returned
//!    before the call (Promise: P26).
//! 2. No page is copied that was not verified against the link that leads to it (Promise: P9).
//! 3. A target appears under its name whole and durable, or not at all; neither a backup nor a
//!    restore ever writes to existing files.
//! 4. An increment is accepted only on top of the version from which it was made.
//! 5. Commits, applies and checkpoints continue concurrently; pages of the copied version are kept
//!    until the copy ends (Rule: I18).
//! 6. Memory: one run, or a piece of a blob, and some bytes for each extent of the version.
//!
//! Threads: the caller's. Bytes: docs/format.md, "Increment".

mod increment;
mod restore;
mod target;
#[cfg(test)]
mod tests;
mod walk;

pub use crate::types::{StoreId, VersionNumber};
pub use restore::{Backup, restore, verify};

use std::{fmt, path::Path, time::Duration};

use crate::{
    Db, Error, Result, Seqno,
    db::Shared,
    io::Env,
    page::Link,
    store::{self, Held, SlotState, Superblock},
};

use increment::{Increment, IncrementWriter};
use target::Target;
use walk::{Copied, Walk};

/// Identifies the version of a store that a backup contains; the next increment starts from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BackupId {
    /// The store.
    pub store: StoreId,
    /// The version.
    pub version: VersionNumber,
    /// Checksum of its root directory, to distinguish two stores with a common origin.
    pub roots: u64,
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "version {} ({:016x}) of store {}", self.version, self.roots, self.store)
    }
}

/// The result of a backup or a restore.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BackupInfo {
    /// What it contains: pass it to [`Db::backup_since`].
    pub id: BackupId,
    /// The last commit in it.
    pub seqno: Seqno,
    /// Number of pages copied.
    pub pages: u64,
    /// Total length of these pages.
    pub bytes: u64,
}

impl BackupInfo {
    fn new(superblock: &Superblock, copied: Copied) -> Self {
        let Copied { pages, bytes } = copied;
        Self { id: BackupId::of_slot(superblock), seqno: superblock.applied, pages, bytes }
    }
}

impl BackupId {
    fn of_slot(superblock: &Superblock) -> Self {
        Self {
            store: superblock.store,
            version: superblock.publish,
            roots: superblock.roots.map_or(0, |link| link.hash),
        }
    }

    /// The id of the backup at this path: the directory of a full backup, or the file of an
    /// increment.
    ///
    /// # Errors
    /// `InvalidArgument` if the directory was opened for writing since: it is then a store of its
    /// own. `NotAStore`, damage, I/O errors.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        Self::read_in(&Env::real(), path)
    }

    /// Reads the id through the file system of `env`.
    #[doc(hidden)]
    pub fn read_in(env: &Env, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if !holds_store(path, env) {
            if env.vfs.list(path).is_ok() {
                let why = "is a directory without a store: neither a full backup nor an increment";
                return Err(Error::not_a_store(path, why));
            }
            return Ok(Increment::open(env, path)?.id());
        }
        let (superblock, store) = closed_slot(path, env)?;
        store.release()?;
        if !superblock.is_alone() {
            let path = path.display();
            let why =
                format!("{path} is no backup (any more): it was written to since it was made");
            return Err(Error::InvalidArgument(why));
        }
        Ok(Self::of_slot(&superblock))
    }
}

fn holds_store(path: &Path, env: &Env) -> bool {
    // An error means that the path is no directory.
    env.vfs.exists(&path.join(store::STORE_FILE)).unwrap_or(false)
}

/// The newest slot of a closed store, and the store, locked.
fn closed_slot(dir: &Path, env: &Env) -> Result<(Superblock, crate::sync::Arc<store::Store>)> {
    let store = store::examine(env, dir)?;
    let slots = store.examine_slots();
    let good = slots.iter().filter_map(|slot| match slot {
        SlotState::Good(superblock) => Some(**superblock),
        _ => None,
    });
    match good.max_by_key(|superblock| superblock.sequence) {
        Some(newest) if newest.clean.is_some() => Ok((newest, store)),
        _ => {
            store.release()?;
            let dir = dir.display();
            Err(Error::InvalidArgument(format!(
                "{dir} was not closed cleanly: open it, so that its log is applied, and close it"
            )))
        }
    }
}

impl Db {
    /// Copies the store as it is now to a new directory, which is a store of its own: it can be
    /// opened, checked, and be the base of increments as long as it is not written to. Commits
    /// continue meanwhile; what they replace takes disk space until the copy is done. Reads every
    /// page once and verifies it. If anything fails, there is no `target` (unless only the last
    /// sync, that of its name, failed); `target.new` may be left, and is replaced by the next
    /// backup to the same target.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let dir = dir.path();
    /// # let db = frond::Db::open(dir.join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// let full = db.backup(dir.join("sunday"))?;
    /// tree.put(b"k", b"v")?;
    /// let monday = db.backup_since(&full.id, dir.join("monday"))?;
    /// assert!(monday.seqno > full.seqno);
    /// let backup = frond::backup::Backup::new(dir.join("sunday")).increment(dir.join("monday"));
    /// backup.restore(dir.join("again"))?;
    /// let again = frond::Db::open(dir.join("again"), frond::Options::new())?;
    /// assert_eq!(again.open_tree("t")?.get(b"k")?.as_deref(), Some(&b"v"[..]));
    /// # again.close()?;
    /// # drop(tree);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Locked` if another backup is being made there; `InvalidArgument` if the target exists or is
    /// within the directory of the store, or if for ten seconds there are prepared transactions
    /// with values over 64 KiB, or with spilled writes; `Full` if the checkpoint finds no
    /// room; damage of a page, which ends only the backup; I/O errors.
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<BackupInfo> {
        let shared = &self.shared;
        shared.refuse_own_directory(target.as_ref())?;
        let (superblock, held) = shared.hold_for_backup()?;
        let env = &shared.engine.env;
        let copied = Target::make(env, target.as_ref(), &superblock, |target| {
            let mut put = |_, link: &Link, at, bytes: &[u8]| target.put(link, at, bytes);
            shared.copy(&superblock, None, &mut put)
        })?;
        drop(held);
        Ok(BackupInfo::new(&superblock, copied))
    }

    /// Writes an increment: a file from which, together with the backup `base`, a [`Backup`]
    /// restores the store as it is now. Reads the pages written since `base` and the inner nodes
    /// above them; otherwise as [`backup`](Self::backup).
    ///
    /// # Errors
    /// `WrongBase` if `base` is no earlier version of this store; otherwise as
    /// [`backup`](Self::backup).
    pub fn backup_since(&self, base: &BackupId, file: impl AsRef<Path>) -> Result<BackupInfo> {
        let (shared, file) = (&self.shared, file.as_ref());
        shared.refuse_own_directory(file)?;
        let (superblock, held) = shared.hold_for_backup()?;
        let id = BackupId::of_slot(&superblock);
        if base.store != id.store || base.version >= id.version {
            let (file, wanted) = (file.to_owned(), base.to_string());
            return Err(Error::WrongBase { file, wanted, found: id.to_string() });
        }
        let env = &shared.engine.env;
        let copied = IncrementWriter::make(env, file, base, &superblock, |writer| {
            let mut put = |kind, link: &Link, at, bytes: &[u8]| writer.put(kind, link, at, bytes);
            shared.copy(&superblock, Some(base.version), &mut put)
        })?;
        drop(held);
        Ok(BackupInfo::new(&superblock, copied))
    }
}

/// How long a backup waits for prepared transactions with long values. Normally a server commits or
/// rolls back what it prepared within milliseconds.
const IN_DOUBT_WAIT: Duration = Duration::from_secs(10);
const IN_DOUBT_PAUSE: Duration = Duration::from_millis(1);

impl Shared {
    /// Refuses a target within the directory of the store, which contains only files of the store.
    fn refuse_own_directory(&self, target: &Path) -> Result<()> {
        let own = self.engine.store.dir();
        let absolute = |path| std::path::absolute(path).unwrap_or_else(|_| Path::to_owned(path));
        match absolute(target).starts_with(absolute(own)) {
            false => Ok(()),
            true => Err(Error::InvalidArgument(format!(
                "{} is within the directory of the store; back up to another directory",
                target.display()
            ))),
        }
    }

    /// Makes everything committed so far one durable version, and holds it; returns its slot in the
    /// form for a copy. The version contains no prepared transaction with a long value, since no
    /// tree lists such values yet.
    fn hold_for_backup(&self) -> Result<(Superblock, Held)> {
        if self.lifecycle.read_only {
            return Err(Error::ReadOnly);
        }
        let engine = &*self.engine;
        let until = engine.env.clock.now() + IN_DOUBT_WAIT;
        loop {
            let (through, came) = self.freeze_without_in_doubt(until)?;
            engine.health.watch(engine.apply_through(through))?;
            // A version of its own, so that each backup differs from the one before.
            engine.publish_unchanged();
            engine.run_checkpoint()?;
            let (superblock, held) = engine.store.hold_newest();
            // A later one may have been written meanwhile, with transactions prepared meanwhile.
            if superblock.applied == through || engine.in_doubt.came() == came {
                return Ok((superblock.alone(), held));
            }
        }
    }

    /// Freezes the memtable at a moment without prepared transactions that have long values or
    /// runs. Such a transaction is registered before its record has a place in the log, and removed
    /// once the record of its commit or rollback has one, so the memtable frozen here contains
    /// none. Also returns how many there have been.
    fn freeze_without_in_doubt(&self, until: Duration) -> Result<(Seqno, u64)> {
        let engine = &*self.engine;
        loop {
            engine.health.check_open()?;
            {
                let mut section = engine.enter();
                if engine.in_doubt.are_decided() {
                    let came = engine.in_doubt.came();
                    return Ok((engine.freeze_in(&mut section), came));
                }
            }
            if engine.env.clock.now() >= until {
                let why = "prepared transactions have values over 64 KiB or spilled writes, which a \
                           backup cannot contain; commit or roll them back, then start the backup again";
                return Err(Error::InvalidArgument(why.into()));
            }
            engine.env.clock.sleep(IN_DOUBT_PAUSE);
        }
    }

    fn copy(
        &self,
        superblock: &Superblock,
        since: Option<VersionNumber>,
        put: &mut walk::Put<'_>,
    ) -> Result<Copied> {
        let engine = &*self.engine;
        let mut put_while_open = |kind, link: &Link, at, bytes: &[u8]| {
            // After a close, another owner of the store may overwrite what is still to be copied.
            if engine.health.is_closing() {
                return Err(Error::Closed);
            }
            engine.health.check()?;
            put(kind, link, at, bytes)
        };
        Walk::new(&*engine.store, since, &mut put_while_open).version(superblock)
    }
}
