//! The guarded store file: I/O is counted, and after the first write or sync that fails the file is
//! permanently closed to writing.
//!
//! Invariants
//! 1. After a failed write, sync, resize or allocation no further one reaches the file (Promise:
//!    P12); reads continue (P11: a failed read stops nothing).
//! 2. A file opened read-only is never changed (P21), nor is any file by a forked child (P18).
//!
//! Threads: all.

use std::{fmt, io, path::Path};

use crate::{
    error::{Error, Result},
    io::{File, LockKind},
    sync::{Arc, AtomicBool, AtomicU64, Mutex, OnceLock, Ordering, RwLock},
};

/// Counts of I/O on the store file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoCounts {
    /// Read calls.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Syncs.
    pub syncs: u64,
}

/// A function that is called with the reason of a failure. It must not block.
pub type FailureHook = Box<dyn Fn(&str) + Send + Sync>;

/// The guarded file.
pub(super) struct Guard {
    file: Arc<dyn File>,
    /// The open file that holds the store's lock: `file`, unless this process created the store.
    locked: Arc<dyn File>,
    read_only: bool,
    pid: u32,
    /// Set after the reason is stored. Release in `stop`, Acquire in `check`.
    is_stopped: AtomicBool,
    /// None if the store was closed.
    reason: Mutex<Option<String>>,
    /// Held for reading during each change of the file, so that none is in progress when the lock
    /// on the store is released.
    changes: RwLock<()>,
    /// Called with the reason when a write or sync has failed.
    on_failure: OnceLock<FailureHook>,
    len: AtomicU64,
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    write_bytes: AtomicU64,
    syncs: AtomicU64,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Guard {
    /// Guards a file that holds the store's lock.
    pub fn new(file: Arc<dyn File>, read_only: bool) -> io::Result<Arc<Self>> {
        Self::locked_by(file.clone(), file, read_only)
    }

    /// Guards a file that was also opened as `locked`, which holds the lock.
    pub fn locked_by(
        file: Arc<dyn File>,
        locked: Arc<dyn File>,
        read_only: bool,
    ) -> io::Result<Arc<Self>> {
        let len = file.len()?;
        Ok(Arc::new(Self {
            file,
            locked,
            read_only,
            pid: std::process::id(),
            is_stopped: AtomicBool::new(false),
            reason: Mutex::new(None),
            changes: RwLock::new(()),
            on_failure: OnceLock::new(),
            len: AtomicU64::new(len),
            reads: AtomicU64::new(0),
            read_bytes: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            write_bytes: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
        }))
    }

    /// Registers the function that is called with the reason when a write or sync has failed. It
    /// must be registered at most once.
    pub fn on_failure(&self, hook: FailureHook) {
        let first = self.on_failure.set(hook);
        assert!(first.is_ok(), "a failure has one hook");
    }

    /// Stops all writing, waits until changes in progress have ended, and releases the lock on the
    /// store. From then on another process may own it.
    pub fn release(&self) -> io::Result<()> {
        let _none = self.changes.write().unwrap();
        self.is_stopped.store(true, Ordering::Release);
        self.unlock()
    }

    /// Stops all writing. The first reason is kept.
    fn stop(&self, why: &str) {
        let mut reason = self.reason.lock().unwrap();
        if reason.is_none() {
            *reason = Some(why.to_owned());
        }
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Stops all writing after a failure, and reports it, so that nothing is acknowledged that
    /// another file has taken (P12).
    pub fn fail(&self, why: &str) {
        self.stop(why);
        if let Some(hook) = self.on_failure.get()
            && !plant!("store: a failed write stops only the file")
        {
            hook(why);
        }
    }

    /// `Failed` with the first reason if writing has stopped, `Closed` if the store was released.
    pub fn check(&self) -> Result<()> {
        if !self.is_stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.reason.lock().unwrap().clone().map_or(Error::Closed, Error::Failed))
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub fn counts(&self) -> IoCounts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        IoCounts {
            reads: load(&self.reads),
            read_bytes: load(&self.read_bytes),
            writes: load(&self.writes),
            write_bytes: load(&self.write_bytes),
            syncs: load(&self.syncs),
        }
    }

    fn guarded<T>(&self, what: &str, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.read_only {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "opened read-only"));
        }
        if self.pid != std::process::id() {
            let why = format!("the store belongs to process {}, of which this is a fork", self.pid);
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let _change = self.changes.read().unwrap();
        if let Err(error) = self.check() {
            return Err(io::Error::other(error.to_string()));
        }
        act().inspect_err(|error| {
            if !plant!("store: a failed write does not close the file") {
                self.fail(&format!("{what} of the store file failed: {error}"));
            }
        })
    }

    fn wrote(&self, offset: u64, bytes: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.write_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.len.fetch_max(offset + bytes as u64, Ordering::Relaxed);
    }

    fn count_read(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // If this fails, the lock ends with the file.
        let _ = self.unlock();
    }
}

impl File for Guard {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.count_read(buf.len());
        self.file.read_at(buf, offset)
    }

    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        self.count_read(bufs.iter().map(|buf| buf.len()).sum());
        self.file.read_vectored_at(bufs, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.guarded("a write", || self.file.write_at(buf, offset))?;
        self.wrote(offset, buf.len());
        Ok(())
    }

    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.guarded("a write", || self.file.write_vectored_at(bufs, offset))?;
        self.wrote(offset, bufs.iter().map(|buf| buf.len()).sum());
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Relaxed))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.guarded("a resize", || self.file.set_len(bytes))?;
        self.len.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Allocates disk space. A full disk here does not stop writing: nothing was acknowledged yet
    /// (P13).
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let full = |error: &io::Error| {
            let kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
            kinds.contains(&error.kind()) || error.kind() == io::ErrorKind::FileTooLarge
        };
        let done = self.guarded("an allocation", || match self.file.allocate(offset, bytes) {
            Err(error) if full(&error) => Ok(Err(error)),
            other => other.map(Ok),
        })?;
        done?;
        self.len.fetch_max(offset + bytes, Ordering::Relaxed);
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.guarded("punching", || self.file.punch(offset, bytes))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.guarded("a sync", || self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.guarded("a sync", || self.file.sync_all())
    }

    fn evict(&self) {
        self.file.evict();
    }

    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        self.file.is_at(path)
    }

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        self.locked.try_lock(kind)
    }

    /// Releases the lock, except in a fork's copy: the lock belongs to its parent.
    fn unlock(&self) -> io::Result<()> {
        if std::process::id() == self.pid { self.locked.unlock() } else { Ok(()) }
    }
}
