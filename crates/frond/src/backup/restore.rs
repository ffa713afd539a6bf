//! Restoring: the newest version of a chain of backups is walked from its root, and each page is
//! taken from the newest backup that has it.
//!
//! Every page is verified against its parent before it is written, so the result is the store as it
//! was, or an error. This holds even if a backup is damaged, or does not belong to the others
//! although its name suggests so.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    error::{Error, Result},
    io::Env,
    page::{Link, StoreFile},
    store::{Store, Superblock},
    sync::Arc,
};

use super::{
    BackupId, BackupInfo, closed_slot,
    increment::Increment,
    target::Target,
    walk::{Copied, Pages, Put, Walk},
};

/// Makes a store from a full backup: a directory made by [`Db::backup`](crate::Db::backup), or of a
/// store that was closed cleanly. The backup is not changed. Reads and verifies every page that it
/// writes. [`Backup`] also restores increments.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path();
/// # let db = frond::Db::open(dir.join("store"), frond::Options::new())?;
/// db.backup(dir.join("copy"))?;
/// frond::backup::restore(dir.join("copy"), dir.join("again"))?;
/// # db.close()
/// # }
/// ```
///
/// # Errors
/// As [`Backup::restore`].
pub fn restore(backup: impl AsRef<Path>, target: impl AsRef<Path>) -> Result<BackupInfo> {
    Backup::new(backup).restore(target)
}

/// Reads and verifies everything that [`restore`] would write, and writes nothing.
///
/// # Errors
/// As [`Backup::verify`].
pub fn verify(backup: impl AsRef<Path>) -> Result<BackupInfo> {
    Backup::new(backup).verify()
}

/// A full backup and its increments, to be restored or verified.
///
/// ```
/// # fn main() -> frond::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let dir = dir.path();
/// # let db = frond::Db::open(dir.join("store"), frond::Options::new())?;
/// use frond::backup::Backup;
///
/// let sunday = db.backup(dir.join("sunday"))?;
/// let monday = db.backup_since(&sunday.id, dir.join("monday"))?;
/// db.backup_since(&monday.id, dir.join("tuesday"))?;
///
/// let backup = Backup::new(dir.join("sunday"));
/// let backup = backup.increment(dir.join("monday")).increment(dir.join("tuesday"));
/// backup.verify()?;
/// backup.restore(dir.join("again"))?;
/// # db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Backup {
    full: PathBuf,
    increments: Vec<PathBuf>,
    env: Env,
}

impl fmt::Debug for Backup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { full, increments, .. } = self;
        f.debug_struct("Backup").field("full", full).field("increments", increments).finish()
    }
}

impl Backup {
    /// A full backup: a directory made by [`Db::backup`](crate::Db::backup), or of a store that was
    /// closed cleanly.
    pub fn new(full: impl AsRef<Path>) -> Self {
        Self { full: full.as_ref().to_owned(), increments: Vec::new(), env: Env::real() }
    }

    /// Adds an increment, a file made by [`Db::backup_since`](crate::Db::backup_since). Increments
    /// are added oldest first.
    pub fn increment(self, file: impl AsRef<Path>) -> Self {
        self.increments([file])
    }

    /// Adds several increments, oldest first.
    pub fn increments(mut self, files: impl IntoIterator<Item = impl AsRef<Path>>) -> Self {
        self.increments.extend(files.into_iter().map(|file| file.as_ref().to_owned()));
        self
    }

    /// Replaces files, clock, randomness and threads.
    #[doc(hidden)]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Makes a store in the directory `target`, which must not exist. The backup is not changed.
    /// Reads and verifies every page that it writes.
    ///
    /// # Errors
    /// `WrongBase` if an increment does not continue what comes before it; `InvalidArgument` if the
    /// target exists, or if the full backup is a store that was not closed; damage of a backup; I/O
    /// errors. After an error there is no `target`, unless only the sync of its parent directory or
    /// the release of the backup failed.
    pub fn restore(&self, target: impl AsRef<Path>) -> Result<BackupInfo> {
        let chain = Chain::open(self)?;
        let copied = Target::make(&self.env, target.as_ref(), &chain.superblock, |target| {
            chain.walk(&mut |_, link, at, bytes| target.put(link, at, bytes))
        })?;
        chain.close(copied)
    }

    /// Reads and verifies everything that [`restore`](Self::restore) would write, and writes
    /// nothing.
    ///
    /// # Errors
    /// As [`restore`](Self::restore), except those of the target.
    pub fn verify(&self) -> Result<BackupInfo> {
        let chain = Chain::open(self)?;
        let copied = chain.walk(&mut |_, _, _, _| Ok(()))?;
        chain.close(copied)
    }
}

/// A full backup with its increments, and the version to which they lead.
struct Chain {
    /// The full backup, locked.
    store: Arc<Store>,
    overlay: Overlay,
    superblock: Superblock,
}

impl Chain {
    fn open(Backup { full, increments, env }: &Backup) -> Result<Self> {
        let (base, store) = closed_slot(full, env)?;
        let mut overlay = Overlay { base: store.file().clone(), increments: Vec::new() };
        let mut superblock = base.alone();
        for path in increments {
            let increment = Increment::open(env, path)?;
            let id = BackupId::of_slot(&superblock);
            if increment.base != id {
                let (file, wanted) = (path.clone(), increment.base.to_string());
                return Err(Error::WrongBase { file, wanted, found: id.to_string() });
            }
            superblock = increment.superblock;
            overlay.increments.push(increment);
        }
        Ok(Self { store, overlay, superblock })
    }

    fn walk(&self, put: &mut Put<'_>) -> Result<Copied> {
        Walk::new(&self.overlay, None, put).version(&self.superblock)
    }

    fn close(self, copied: Copied) -> Result<BackupInfo> {
        self.store.release()?;
        Ok(BackupInfo::new(&self.superblock, copied))
    }
}

/// Increments, oldest first, on top of a full backup.
struct Overlay {
    base: Arc<StoreFile>,
    increments: Vec<Increment>,
}

impl Pages for Overlay {
    fn locate(&self, link: &Link, what: &'static str) -> Result<(&StoreFile, u64)> {
        for increment in self.increments.iter().rev() {
            if let Some(offset) = increment.find(link) {
                return Ok((&increment.file, offset));
            }
        }
        self.base.locate(link, what)
    }
}
