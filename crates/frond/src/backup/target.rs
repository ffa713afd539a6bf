//! Making a store directory: pages, slots, log, and only then its name.
//!
//! Invariants
//! 1. Order: pages → sync → slots → sync → log → sync of the directory → rename → sync of the
//!    parent. So a directory with this name is a whole store, even after a crash.
//! 2. Only files that a backup makes are ever removed, from a directory that no process has locked.
//!
//! Threads: one owner.

use std::path::{Path, PathBuf};

use crate::{
    error::{Error, Result},
    io::Env,
    page::{Link, StoreFile},
    store::{STORE_FILE, Superblock, lock_unfinished, write_slots},
    sync::Arc,
    wal,
};

/// A directory that becomes a store.
pub(super) struct Target<'a> {
    env: &'a Env,
    dir: PathBuf,
    /// The directory under its temporary name.
    unfinished: PathBuf,
    file: Arc<StoreFile>,
}

impl<'a> Target<'a> {
    /// Makes the store of `superblock` in `dir`; `fill` puts its pages.
    pub fn make<T>(
        env: &'a Env,
        dir: &Path,
        superblock: &Superblock,
        fill: impl FnOnce(&Target<'_>) -> Result<T>,
    ) -> Result<T> {
        let target = Self::begin(env, dir, superblock)?;
        let made = fill(&target).and_then(|filled| {
            target.finish(superblock)?;
            Ok(filled)
        });
        made.inspect_err(|_| target.discard())
    }

    fn begin(env: &'a Env, dir: &Path, superblock: &Superblock) -> Result<Self> {
        refuse_existing(env, dir)?;
        let unfinished = with_suffix(dir, ".new");
        match env.vfs.create_dir(&unfinished) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.map_err(|error| Error::io(&unfinished, "create", 0, error))?,
        }
        refuse_foreign(env, &unfinished)?;
        let path = unfinished.join(STORE_FILE);
        // Each maker of this directory locks this file before it changes anything there.
        let Some(file) = lock_unfinished(env, &path, true)? else {
            let owner = "another backup or restore to the same target".into();
            return Err(Error::Locked { dir: unfinished, owner });
        };
        let file = StoreFile::new(file, path, superblock.store);
        let target = Self { env, dir: dir.to_owned(), unfinished, file };
        target.clear().inspect_err(|_| target.discard())?;
        let sized = target.file.file.set_len(superblock.totals.file_bytes);
        sized.map_err(|e| target.failed("resize", e)).inspect_err(|_| target.discard())?;
        Ok(target)
    }

    /// Writes bytes of a page, from byte `at` of its extent on, at their place in the store.
    pub fn put(&self, link: &Link, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, link.offset + at)
    }

    fn finish(&self, superblock: &Superblock) -> Result<()> {
        let Self { env, dir, unfinished, file } = self;
        file.file.sync_all().map_err(|e| self.failed("sync", e))?;
        write_slots(file, superblock)?;
        file.file.sync_all().map_err(|e| self.failed("sync", e))?;
        wal::begin(env, unfinished, superblock.store, superblock.log_from)?;
        let sync = |dir: &Path| env.vfs.sync_dir(dir).map_err(|e| Error::io(dir, "sync", 0, e));
        sync(unfinished)?;
        refuse_existing(env, dir)?;
        env.vfs.rename(unfinished, dir).map_err(|e| Error::io(dir, "rename", 0, e))?;
        sync(parent(dir))?;
        // Only now: a process that waits for the temporary name must not get these files.
        file.file.unlock().map_err(|e| self.failed("unlock", e))
    }

    /// Removes what an earlier attempt left; the store file only loses its content.
    fn clear(&self) -> Result<()> {
        self.file.file.set_len(0).map_err(|e| self.failed("resize", e))?;
        let Self { env, unfinished, .. } = self;
        let failed = |action| move |error| Error::io(unfinished, action, 0, error);
        let names = env.vfs.list(unfinished).map_err(failed("list"))?;
        let others = names.iter().filter(|name| *name != Path::new(STORE_FILE));
        others.filter(|name| is_ours(name)).try_for_each(|name| {
            env.vfs.remove(&unfinished.join(name)).map_err(failed("remove from"))
        })
    }

    fn failed(&self, action: &'static str, error: std::io::Error) -> Error {
        Error::io(self.file.path(), action, 0, error)
    }

    /// Removes the unfinished files after an error. Failures are ignored, since the caller reports
    /// the first error; the next attempt removes what is left.
    fn discard(&self) {
        let names = self.env.vfs.list(&self.unfinished).unwrap_or_default();
        for name in names.iter().filter(|name| is_ours(name)) {
            match self.env.vfs.remove(&self.unfinished.join(name)) {
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// Fails if the directory contains anything that no backup makes.
fn refuse_foreign(env: &Env, dir: &Path) -> Result<()> {
    let names = env.vfs.list(dir).map_err(|error| Error::io(dir, "list", 0, error))?;
    match names.iter().find(|name| !is_ours(name)) {
        None => Ok(()),
        Some(other) => Err(Error::InvalidArgument(format!(
            "{0} contains {1}, which is not part of a backup; remove {0}, or choose another target",
            dir.display(),
            other.display()
        ))),
    }
}

fn is_ours(name: &Path) -> bool {
    let name = name.to_string_lossy();
    name == STORE_FILE
        || name.starts_with("log-") && (name.ends_with(".frond") || name.ends_with(".new"))
}

/// Fails if the path exists: existing files are never written to.
pub(super) fn refuse_existing(env: &Env, path: &Path) -> Result<()> {
    match env.vfs.exists(path) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Error::InvalidArgument(format!("{} already exists", path.display()))),
        Err(error) => Err(Error::io(path, "look up", 0, error)),
    }
}

/// The path with a suffix after its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    path.with_file_name(name)
}

/// The directory that contains a path.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
