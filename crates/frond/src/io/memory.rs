//! A file system in memory, without faults: for unit tests and examples. The simulated disk with
//! faults is `frond-testkit`'s.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::{File, OpenMode, Vfs};
use crate::sync::{Arc, Mutex};

/// Files in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryVfs {
    files: Arc<Mutex<BTreeMap<PathBuf, Node>>>,
}

#[derive(Clone, Debug)]
enum Node {
    Dir,
    File(Arc<MemoryContent>),
}

#[derive(Debug, Default)]
struct MemoryContent {
    bytes: Mutex<Vec<u8>>,
    locked: Mutex<bool>,
}

#[derive(Debug)]
struct MemoryFile {
    content: Arc<MemoryContent>,
    write: bool,
    holds_lock: Mutex<bool>,
}

impl MemoryVfs {
    /// An empty file system.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut files = self.files.lock().unwrap();
        let content = match files.get(path) {
            Some(Node::Dir) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(_)) if mode.create_new => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            Some(Node::File(content)) => content.clone(),
            None if mode.create_new => {
                let content = Arc::new(MemoryContent::default());
                files.insert(path.to_owned(), Node::File(content.clone()));
                content
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(MemoryFile { content, write: mode.write, holds_lock: Mutex::new(false) }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.files.lock().unwrap().contains_key(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let files = self.files.lock().unwrap();
        if !matches!(files.get(dir), Some(Node::Dir)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let names = files.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.filter_map(|path| path.file_name().map(PathBuf::from)).collect())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        if files.contains_key(dir) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        files.insert(dir.to_owned(), Node::Dir);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.files.lock().unwrap();
        let node = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.files.lock().unwrap().remove(path);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX / 2)
    }
}

impl MemoryFile {
    fn writable(&self) -> io::Result<crate::sync::MutexGuard<'_, Vec<u8>>> {
        if !self.write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(self.content.bytes.lock().unwrap())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if *self.holds_lock.lock().unwrap() {
            *self.content.locked.lock().unwrap() = false;
        }
    }
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = self.content.bytes.lock().unwrap();
        let start = offset as usize;
        let range = bytes.get(start..start + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(range);
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.read_at(buf, at)?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut bytes = self.writable()?;
        let end = offset as usize + buf.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[offset as usize..end].copy_from_slice(buf);
        Ok(())
    }

    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut at = offset;
        for buf in bufs {
            self.write_at(buf, at)?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.bytes.lock().unwrap().len() as u64)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.writable()?.resize(bytes as usize, 0);
        Ok(())
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut content = self.writable()?;
        let end = (offset + bytes) as usize;
        if content.len() < end {
            content.resize(end, 0);
        }
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut content = self.writable()?;
        let end = content.len().min((offset + bytes) as usize);
        if let Some(range) = content.get_mut(offset as usize..end) {
            range.fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_direct(&self) -> bool {
        false
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut locked = self.content.locked.lock().unwrap();
        let free = !*locked;
        if free {
            *locked = true;
            *self.holds_lock.lock().unwrap() = true;
        }
        Ok(free)
    }

    fn unlock(&self) -> io::Result<()> {
        if std::mem::take(&mut *self.holds_lock.lock().unwrap()) {
            *self.content.locked.lock().unwrap() = false;
        }
        Ok(())
    }
}
