//! A file system with hooks, for tests.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use super::{File, OpenMode, Vfs};
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
