//! Restoring: the newest version of a chain of backups is walked from its root, taking each page
//! from the newest backup that has it.
//!
//! Every page is verified against its parent before it is written, so the result is the store as it
//! was, or an error. This holds even if a backup is damaged, or does not belong to the others
//! although its name suggests so.

use std::path::Path;

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

/// Makes a store from a full backup and increments, oldest first. The full backup is a directory
/// made by [`Db::backup`](crate::Db::backup), or of a store that was closed cleanly; it is not
/// changed. Reads and verifies every page that it writes.
///
/// # Errors
/// `WrongBase` if an increment does not continue what comes before it; `InvalidArgument` if the
/// target exists, or if the full backup is a store that was not closed; damage of a backup; I/O
/// errors. After an error there is no `target`.
pub fn restore<P: AsRef<Path>>(
    full: impl AsRef<Path>,
    increments: &[P],
    target: impl AsRef<Path>,
    env: Env,
) -> Result<BackupInfo> {
    let chain = Chain::open(full.as_ref(), increments, &env)?;
    let copied = Target::make(&env, target.as_ref(), &chain.superblock, |target| {
        chain.walk(&mut |_, link, at, bytes| target.put(link, at, bytes))
    })?;
    chain.close(copied)
}

/// Reads and verifies everything that [`restore`] would write, and writes nothing.
///
/// # Errors
/// As [`restore`].
pub fn verify<P: AsRef<Path>>(
    full: impl AsRef<Path>,
    increments: &[P],
    env: Env,
) -> Result<BackupInfo> {
    let chain = Chain::open(full.as_ref(), increments, &env)?;
    let copied = chain.walk(&mut |_, _, _, _| Ok(()))?;
    chain.close(copied)
}

/// A full backup with its increments, and the version to which they lead.
struct Chain {
    /// The full backup, locked.
    store: Arc<Store>,
    overlay: Overlay,
    superblock: Superblock,
}

impl Chain {
    fn open<P: AsRef<Path>>(full: &Path, increments: &[P], env: &Env) -> Result<Self> {
        let (base, store) = closed_slot(full, env)?;
        let mut overlay = Overlay { base: store.file().clone(), increments: Vec::new() };
        let mut superblock = base.alone();
        for path in increments {
            let increment = Increment::open(env, path.as_ref())?;
            let id = BackupId::of_slot(&superblock);
            if increment.base != id {
                let (file, wanted) = (path.as_ref().to_owned(), increment.base.to_string());
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
