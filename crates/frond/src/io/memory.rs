//! A file system in memory, without faults, for unit tests and examples. The simulated disk with
//! faults is in `frond-testkit`.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    path::{Path, PathBuf},
};

use super::{File, LockKind, OpenMode, SimulatedLock, Vfs};
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
    bytes: Mutex<Sparse>,
    lock: Mutex<SimulatedLock>,
}

/// Sparse bytes: only pages that were written take memory, so that tests can go beyond 2^32.
#[derive(Debug, Default)]
struct Sparse {
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    len: u64,
}

const PAGE: usize = 4096;

impl Sparse {
    /// Calls `act` with each page's number, and the range within the page and within the whole.
    fn pieces(offset: u64, bytes: u64, mut act: impl FnMut(u64, Range<usize>, Range<usize>)) {
        let mut done = 0;
        while done < bytes {
            let at = (offset + done) % PAGE as u64;
            let piece = (PAGE as u64 - at).min(bytes - done);
            let (at, from, to) = (at as usize, done as usize, (done + piece) as usize);
            act((offset + done) / PAGE as u64, at..at + piece as usize, from..to);
            done += piece;
        }
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64).filter(|&end| end <= self.len);
        end.ok_or(io::ErrorKind::UnexpectedEof)?;
        Self::pieces(offset, buf.len() as u64, |page, inside, whole| match self.pages.get(&page) {
            Some(page) => buf[whole].copy_from_slice(&page[inside]),
            None => buf[whole].fill(0),
        });
        Ok(())
    }

    fn write(&mut self, buf: &[u8], offset: u64) {
        Self::pieces(offset, buf.len() as u64, |page, inside, whole| {
            let page = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE]));
            page[inside].copy_from_slice(&buf[whole]);
        });
        self.len = self.len.max(offset + buf.len() as u64);
    }

    fn zero(&mut self, offset: u64, end: u64) {
        let end = end.min(self.len);
        let first = offset.div_ceil(PAGE as u64);
        let last = end / PAGE as u64;
        if first < last {
            let mut after = self.pages.split_off(&first);
            self.pages.append(&mut after.split_off(&last));
        }
        for (from, to) in
            [(offset, end.min(first * PAGE as u64)), (offset.max(last * PAGE as u64), end)]
        {
            Self::pieces(from, to.saturating_sub(from), |page, inside, _| {
                if let Some(page) = self.pages.get_mut(&page) {
                    page[inside].fill(0);
                }
            });
        }
    }

    fn set_len(&mut self, bytes: u64) {
        self.zero(bytes, self.len);
        self.len = bytes;
    }
}

#[derive(Debug)]
struct MemoryFile {
    content: Arc<MemoryContent>,
    write: bool,
    holds_lock: Mutex<Option<LockKind>>,
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
        Ok(Arc::new(MemoryFile { content, write: mode.write, holds_lock: Mutex::new(None) }))
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
        if !files.contains_key(from) {
            return Err(io::ErrorKind::NotFound.into());
        }
        // The content of a directory moves with it.
        let moved = |path: &PathBuf| path.strip_prefix(from).ok().map(|rest| to.join(rest));
        let paths: Vec<_> =
            files.keys().filter_map(|path| Some((path.clone(), moved(path)?))).collect();
        for (old, new) in paths {
            // `join` with nothing leaves a slash after the name of a file.
            let new = if old == from { to.to_owned() } else { new };
            if let Some(node) = files.remove(&old) {
                files.insert(new, node);
            }
        }
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
    fn writable(&self) -> io::Result<crate::sync::MutexGuard<'_, Sparse>> {
        if !self.write {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(self.content.bytes.lock().unwrap())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        if let Some(kind) = self.holds_lock.lock().unwrap().take() {
            self.content.lock.lock().unwrap().release(kind);
        }
    }
}

impl File for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.content.bytes.lock().unwrap().read(buf, offset)
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
        self.writable()?.write(buf, offset);
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
        Ok(self.content.bytes.lock().unwrap().len)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.writable()?.set_len(bytes);
        Ok(())
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mut content = self.writable()?;
        content.len = content.len.max(offset + bytes);
        Ok(())
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.writable()?.zero(offset, offset + bytes);
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

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        let is_taken = self.content.lock.lock().unwrap().try_take(kind);
        if is_taken {
            *self.holds_lock.lock().unwrap() = Some(kind);
        }
        Ok(is_taken)
    }

    fn unlock(&self) -> io::Result<()> {
        if let Some(kind) = self.holds_lock.lock().unwrap().take() {
            self.content.lock.lock().unwrap().release(kind);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_bytes_read_back_and_holes_are_zeros() {
        let mut sparse = Sparse::default();
        sparse.write(&[7; 10_000], (1 << 40) + 5);
        let mut buf = [1; 10_010];
        sparse.read(&mut buf[..10_005], 1 << 40).unwrap();
        assert_eq!((&buf[..5], &buf[5..10_005]), (&[0; 5][..], &[7; 10_000][..]));
        assert!(sparse.read(&mut buf, 1 << 40).is_err(), "past the end");
        sparse.zero((1 << 40) + 100, (1 << 40) + 9000);
        sparse.read(&mut buf[..10_005], 1 << 40).unwrap();
        let kept = buf[..10_005].iter().filter(|&&byte| byte == 7).count();
        assert_eq!(kept, 95 + 1005);
        sparse.set_len((1 << 40) + 6);
        sparse.set_len((1 << 40) + 8);
        sparse.read(&mut buf[..8], 1 << 40).unwrap();
        assert_eq!(&buf[..8], [0, 0, 0, 0, 0, 7, 0, 0], "what was cut off does not come back");
    }
}
