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
type AfterList = Box<dyn FnOnce() + Send>;

/// A file system that passes each opened file through a function, and runs a function once, after
/// the next listing of a directory.
pub struct HookedVfs {
    below: Arc<dyn Vfs>,
    on_open: OnOpen,
    after_list: Mutex<Option<AfterList>>,
}

impl HookedVfs {
    /// Hooks that do nothing.
    pub fn new(below: Arc<dyn Vfs>) -> Self {
        Self { below, on_open: Box::new(|file| file), after_list: Mutex::default() }
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

/// Ranges of bytes in which any access, in any file, fails with EIO.
#[derive(Clone, Debug, Default)]
pub struct BadRanges {
    /// Reads that touch this range fail.
    pub reads: Arc<Mutex<Option<Range<u64>>>>,
    /// Writes with `write_at` that touch this range fail.
    pub writes: Arc<Mutex<Option<Range<u64>>>>,
}

impl BadRanges {
    /// A file system over `below` in which these ranges are bad.
    pub fn over(&self, below: Arc<dyn Vfs>) -> HookedVfs {
        let bad = self.clone();
        HookedVfs::new(below).on_open(move |file| Arc::new(BadFile(file, bad.clone())))
    }

    fn strike(bad: &Mutex<Option<Range<u64>>>, offset: u64, bytes: u64) -> io::Result<()> {
        match &*bad.lock().unwrap() {
            Some(bad) if bad.start < offset + bytes && offset < bad.end => {
                Err(io::Error::from_raw_os_error(5))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Debug)]
struct BadFile(Arc<dyn File>, BadRanges);

impl File for BadFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        BadRanges::strike(&self.1.reads, offset, buf.len() as u64)?;
        self.0.read_at(buf, offset)
    }
    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        BadRanges::strike(&self.1.reads, offset, bufs.iter().map(|buf| buf.len() as u64).sum())?;
        self.0.read_vectored_at(bufs, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        BadRanges::strike(&self.1.writes, offset, buf.len() as u64)?;
        self.0.write_at(buf, offset)
    }
    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.0.write_vectored_at(bufs, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.allocate(offset, bytes)
    }
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.0.punch(offset, bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }
    fn is_direct(&self) -> bool {
        self.0.is_direct()
    }
    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        self.0.try_lock(kind)
    }
    fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }
}
