// SPDX-License-Identifier: MIT OR Apache-2.0
//! Restoring: the newest version of a chain of backups, walked from its root, each page taken from the
//! newest backup that has it.
//!
//! Every page is verified against its parent before it is written, so that the result is the store as
//! it was, or an error: also if a backup is damaged, or does not belong to the others in a way that
//! its name does not show.

use std::path::Path;

use crate::{
    error::{Error, Result},
    io::Env,
    page::{Link, StoreFile},
    sync::Arc,
};

use super::{
    BackupId, BackupInfo, closed_slot,
    increment::Increment,
    target::Target,
    walk::{Fetched, Pages, Walk},
};

/// Makes a store out of a full backup and increments, oldest first. The full backup is a directory
/// made by [`Db::backup`](crate::Db::backup), or of a store that was cleanly closed; nothing of it is
/// changed. Reads and verifies every page that it writes.
///
/// # Errors
/// `WrongBase` if an increment does not continue what comes before it; `InvalidArgument` if there is
/// something of the target's name, or if the full backup is a store that was not closed; damage of a
/// backup; I/O errors. There is no `target` then.
pub fn restore<P: AsRef<Path>>(
    full: impl AsRef<Path>,
    increments: &[P],
    target: impl AsRef<Path>,
    env: Env,
) -> Result<BackupInfo> {
    let (base, store) = closed_slot(full.as_ref(), &env)?;
    let mut overlay = Overlay { base: store.file().clone(), increments: Vec::new() };
    let mut superblock = base.alone();
    for path in increments {
        let increment = Increment::open(&env, path.as_ref())?;
        let id = BackupId::of_slot(&superblock);
        if increment.base != id {
            let (file, wanted) = (path.as_ref().to_owned(), increment.base.to_string());
            return Err(Error::WrongBase { file, wanted, found: id.to_string() });
        }
        superblock = increment.superblock;
        overlay.increments.push(increment);
    }
    let copied = Target::make(&env, target.as_ref(), &superblock, |target| {
        let mut put = |_, link: &Link, bytes: &[u8]| target.put(link, bytes);
        Walk::new(&overlay, None, &mut put).version(&superblock)
    })?;
    store.release()?;
    Ok(BackupInfo::new(&superblock, copied))
}

/// Increments, oldest first, over a full backup.
struct Overlay {
    base: Arc<StoreFile>,
    increments: Vec<Increment>,
}

impl Pages for Overlay {
    fn fetch(&self, link: &Link, what: &'static str) -> Result<Fetched<'_>> {
        for increment in self.increments.iter().rev() {
            if let Some(offset) = increment.find(link) {
                let bytes = increment.read(link, offset, what)?;
                return Ok(Fetched { file: &increment.file, offset, bytes });
            }
        }
        self.base.fetch(link, what)
    }
}
