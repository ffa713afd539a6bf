//! A file system with hooks, for tests.

use std::{
    fmt, io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::{File, LockKind, OpenMode, Vfs};
use crate::sync::Arc;

type OnOpen = Box<dyn Fn(Arc<dyn File>) -> Arc<dyn File> + Send + Sync>;
type Once = Box<dyn FnOnce() + Send>;

/// A file system that passes each opened file through a function, and runs a function once, after
/// the next listing of a directory or before the next renaming.
pub struct HookedVfs {
    below: Arc<dyn Vfs>,
    on_open: OnOpen,
    after_list: Mutex<Option<Once>>,
    before_rename: Mutex<Option<Once>>,
}

impl HookedVfs {
    /// Hooks that do nothing.
    pub fn new(below: Arc<dyn Vfs>) -> Self {
        Self {
            below,
            on_open: Box::new(|file| file),
            after_list: Mutex::default(),
            before_rename: Mutex::default(),
        }
    }

    /// Replaces each file that is opened by the result of `hook`.
    pub fn on_open(
        mut self,
        hook: impl Fn(Arc<dyn File>) -> Arc<dyn File> + Send + Sync + 'static,
    ) -> Self {
        self.on_open = Box::new(hook);
        self
    }

    /// Runs `hook` once, after the next listing.
    pub fn after_next_list(&self, hook: impl FnOnce() + Send + 'static) {
        *self.after_list.lock().unwrap() = Some(Box::new(hook));
    }

    /// Runs `hook` once, before the next renaming.
    pub fn before_next_rename(&self, hook: impl FnOnce() + Send + 'static) {
        *self.before_rename.lock().unwrap() = Some(Box::new(hook));
    }

    /// True until the next listing, if a function runs after it.
    pub fn is_waiting(&self) -> bool {
        self.after_list.lock().unwrap().is_some()
    }
}

impl fmt::Debug for HookedVfs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookedVfs").field(&self.below).finish()
    }
}

impl Vfs for HookedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok((self.on_open)(self.below.open(path, mode)?))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.below.exists(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let names = self.below.list(dir);
        let hook = self.after_list.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        names
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.create_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let hook = self.before_rename.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        self.below.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.below.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.below.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.below.free_bytes(dir)
    }
}

/// An access to a file that a hook may wait for or refuse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads this range.
    Read(Range<u64>),
    /// Writes this range.
    Write(Range<u64>),
    /// Changes the length.
    Resize,
    /// Allocates disk space.
    Allocate,
    /// Frees disk space.
    Punch,
    /// Syncs.
    Sync,
}

type BeforeAccess = dyn Fn(Access) -> io::Result<()> + Send + Sync;

/// A file that calls a function before each access; if the function fails, the access fails with
/// its error.
pub struct HookedFile {
    below: Arc<dyn File>,
    before: Arc<BeforeAccess>,
}

impl HookedFile {
    /// Hooks the file `below`.
    pub fn new(
        below: Arc<dyn File>,
        before: impl Fn(Access) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { below, before: Arc::new(before) }
    }
}

impl fmt::Debug for HookedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HookedFile").field(&self.below).finish()
    }
}

impl File for HookedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (self.before)(Access::Read(offset..offset + buf.len() as u64))?;
        self.below.read_at(buf, offset)
    }
    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let bytes: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        (self.before)(Access::Read(offset..offset + bytes))?;
        self.below.read_vectored_at(bufs, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (self.before)(Access::Write(offset..offset + buf.len() as u64))?;
        self.below.write_at(buf, offset)
    }
    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        let bytes: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        (self.before)(Access::Write(offset..offset + bytes))?;
        self.below.write_vectored_at(bufs, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        (self.before)(Access::Resize)?;
        self.below.set_len(bytes)
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        (self.before)(Access::Allocate)?;
        self.below.allocate(offset, bytes)
    }
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        (self.before)(Access::Punch)?;
        self.below.punch(offset, bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        (self.before)(Access::Sync)?;
        self.below.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        (self.before)(Access::Sync)?;
        self.below.sync_all()
    }
    fn is_direct(&self) -> bool {
        self.below.is_direct()
    }
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.below.is_at(path)
    }
    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        self.below.try_lock(kind)
    }
    fn unlock(&self) -> io::Result<()> {
        self.below.unlock()
    }
}

/// Ranges of bytes in which reads, or writes, fail with EIO in every file.
#[derive(Clone, Debug, Default)]
pub struct BadRanges {
    /// Reads that touch this range fail.
    pub reads: Arc<Mutex<Option<Range<u64>>>>,
    /// Writes that touch this range fail.
    pub writes: Arc<Mutex<Option<Range<u64>>>>,
}

impl BadRanges {
    /// A file system over `below` in which these ranges are bad.
    pub fn over(&self, below: Arc<dyn Vfs>) -> HookedVfs {
        let bad = self.clone();
        HookedVfs::new(below).on_open(move |file| {
            let bad = bad.clone();
            Arc::new(HookedFile::new(file, move |access| bad.strike(&access)))
        })
    }

    fn strike(&self, access: &Access) -> io::Result<()> {
        let (range, bad) = match access {
            Access::Read(range) => (range, &self.reads),
            Access::Write(range) => (range, &self.writes),
            _ => return Ok(()),
        };
        match &*bad.lock().unwrap() {
            Some(bad) if bad.start < range.end && range.start < bad.end => {
                Err(io::Error::from_raw_os_error(5))
            }
            _ => Ok(()),
        }
    }
}
