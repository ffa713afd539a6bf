//! A simulated disk that forgets: files in memory whose every write is recorded, so that the state
//! after a power failure at any point can be constructed, with any subset of unsynced sectors on
//! the medium.
//!
//! Invariants
//! 1. What a `sync_data` covers is durable; every other written 512-byte sector is there or not, by
//!    choice. Names change with `sync_dir`, or earlier, in order.
//! 2. The n-th write, sync or directory operation can be made to fail, once. What a failed sync
//!    should have covered never reaches the medium, even if a later sync succeeds.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use crate::{
    io::{File, LockKind, OpenMode, Vfs},
    sync::{Arc, Mutex},
};

#[derive(Clone, Debug)]
pub(super) enum Op {
    Create(PathBuf, usize),
    Write(usize, u64, Vec<u8>),
    Sync(usize),
    /// A failed sync: what it should have covered is neither dirty nor on the medium.
    Forget(usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncDir,
}

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<PathBuf, usize>,
    files: Vec<Vec<u8>>,
    ops: Vec<Op>,
    fail_at: Option<usize>,
    /// Offset, in any file, of a block that cannot be read.
    unreadable: Option<u64>,
    /// Allocations fail.
    full: bool,
    /// The files whose pages were removed from the page cache, in order.
    evicted: Vec<usize>,
    /// The state that a crash has left, to which `ops` are applied.
    base_names: BTreeMap<PathBuf, usize>,
    base_files: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Inner>>);

/// Which unsynced sectors a crash leaves on the medium.
#[derive(Clone, Copy, Debug)]
pub(super) enum Survive {
    Nothing,
    Everything,
    /// Every sector and directory operation, by a coin toss.
    Coin(u64),
    /// All but the n-th pending write.
    AllBut(usize),
    /// Only the n-th pending write.
    Only(usize),
}

impl Disk {
    pub(super) fn ops(&self) -> usize {
        self.0.lock().unwrap().ops.len()
    }

    /// Makes the operation with this index fail, once.
    pub(super) fn fail_at(&self, index: usize) {
        self.0.lock().unwrap().fail_at = Some(index);
    }

    /// Makes the block at this offset of the files unreadable.
    pub(super) fn unreadable(&self, offset: u64) {
        self.0.lock().unwrap().unreadable = Some(offset);
    }

    /// The names of the files whose pages were removed from the page cache, in order.
    pub(super) fn evicted(&self) -> Vec<PathBuf> {
        let inner = self.0.lock().unwrap();
        let name = |file| inner.names.iter().find(|(_, of)| **of == file).unwrap().0.clone();
        inner.evicted.iter().map(|&file| name(file)).collect()
    }

    /// Makes allocations fail, or succeed again.
    pub(super) fn be_full(&self, full: bool) {
        self.0.lock().unwrap().full = full;
    }

    /// The disk after a power failure when `at` operations had been done.
    pub(super) fn crash(&self, at: usize, survive: Survive) -> Disk {
        let inner = self.0.lock().unwrap();
        let (mut names, mut files) = (inner.base_names.clone(), inner.base_files.clone());
        let mut pending: Vec<(usize, usize, u64, &[u8])> = Vec::new();
        let mut pending_names: Vec<&Op> = Vec::new();
        for (index, op) in inner.ops[..at].iter().enumerate() {
            match op {
                Op::Write(file, offset, bytes) => pending.push((index, *file, *offset, bytes)),
                Op::Sync(synced) => pending.retain(|&(_, file, offset, bytes)| {
                    let gone = file == *synced;
                    if gone {
                        put(&mut files[file], offset, bytes);
                    }
                    !gone
                }),
                Op::Forget(lost) => pending.retain(|&(_, file, ..)| file != *lost),
                Op::SyncDir => {
                    pending_names.drain(..).for_each(|op| rename(&mut names, op));
                }
                op => {
                    if let Op::Create(_, file) = op {
                        files.resize((*file + 1).max(files.len()), Vec::new());
                    }
                    pending_names.push(op);
                }
            }
        }
        let mut coin = 0u64;
        let mut toss = |seed: u64| {
            coin += 1;
            xxhash_rust::xxh3::xxh3_64_with_seed(&coin.to_le_bytes(), seed)
        };
        let kept = match survive {
            Survive::Nothing => 0,
            Survive::Coin(seed) => toss(seed) as usize % (pending_names.len() + 1),
            _ => pending_names.len(),
        };
        pending_names.iter().take(kept).for_each(|op| rename(&mut names, op));
        for (n, &(_, file, offset, bytes)) in pending.iter().enumerate() {
            for (sector, part) in bytes.chunks(512).enumerate() {
                let there = match survive {
                    Survive::Nothing => false,
                    Survive::Everything => true,
                    Survive::Coin(seed) => toss(seed) & 1 == 1,
                    Survive::AllBut(lost) => n != lost,
                    Survive::Only(kept) => n == kept,
                };
                if there {
                    put(&mut files[file], offset + sector as u64 * 512, part);
                }
            }
        }
        Disk::of(names, files)
    }

    /// The disk after the process was killed `at` operations in, and `pages` pages into the next
    /// one: everything written is there.
    pub(super) fn killed(&self, at: usize, pages: usize) -> Disk {
        let disk = self.crash(at, Survive::Everything);
        if let Some(Op::Write(file, offset, bytes)) = self.0.lock().unwrap().ops.get(at) {
            let end = bytes.len().min(pages * 4096);
            put(&mut disk.0.lock().unwrap().files[*file], *offset, &bytes[..end]);
        }
        disk
    }

    fn of(names: BTreeMap<PathBuf, usize>, files: Vec<Vec<u8>>) -> Disk {
        Disk(Arc::new(Mutex::new(Inner {
            base_names: names.clone(),
            base_files: files.clone(),
            names,
            files,
            ops: Vec::new(),
            fail_at: None,
            unreadable: None,
            evicted: Vec::new(),
            full: false,
        })))
    }

    /// A copy of the disk on which everything is durable as it is now, to be damaged.
    pub(super) fn settled(&self) -> Disk {
        self.crash(self.ops(), Survive::Everything)
    }

    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.0.lock().unwrap().names.keys().cloned().collect()
    }

    /// Lets a test change the bytes of a file.
    pub(super) fn edit<T>(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut inner = self.0.lock().unwrap();
        let file = inner.names[path];
        change(&mut inner.files[file])
    }

    pub(super) fn unlink(&self, path: &Path) {
        self.0.lock().unwrap().names.remove(path);
    }

    fn step(inner: &mut Inner, op: Op) -> io::Result<()> {
        let fails = inner.fail_at == Some(inner.ops.len());
        if fails {
            inner.fail_at = None;
            if let Op::Sync(file) = op {
                inner.ops.push(Op::Forget(file));
            }
            return Err(io::Error::other("the disk was told to fail"));
        }
        inner.ops.push(op);
        Ok(())
    }
}

fn put(file: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let (start, end) = (offset as usize, offset as usize + bytes.len());
    if file.len() < end {
        file.resize(end, 0);
    }
    file[start..end].copy_from_slice(bytes);
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, op: &Op) {
    match op {
        Op::Create(path, file) => drop(names.insert(path.clone(), *file)),
        Op::Rename(from, to) => {
            let file = names.remove(from).expect("renames are in order");
            names.insert(to.clone(), file);
        }
        Op::Remove(path) => drop(names.remove(path)),
        _ => {}
    }
}

impl Vfs for Disk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let mut inner = self.0.lock().unwrap();
        let file = match inner.names.get(path) {
            Some(_) if mode.create_new => return Err(io::ErrorKind::AlreadyExists.into()),
            Some(&file) => file,
            None if mode.create_new => {
                let file = inner.files.len();
                Disk::step(&mut inner, Op::Create(path.to_owned(), file))?;
                inner.files.push(Vec::new());
                inner.names.insert(path.to_owned(), file);
                file
            }
            None => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(Arc::new(DiskFile { disk: self.clone(), file, write: mode.write }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.0.lock().unwrap().names.contains_key(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let inner = self.0.lock().unwrap();
        let inside = inner.names.keys().filter(|path| path.parent() == Some(dir));
        let names: BTreeSet<_> = inside.filter_map(|path| path.file_name()).collect();
        Ok(names.into_iter().map(PathBuf::from).collect())
    }

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        let op = Op::Rename(from.to_owned(), to.to_owned());
        Disk::step(&mut inner, op.clone())?;
        rename(&mut inner.names, &op);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut inner = self.0.lock().unwrap();
        Disk::step(&mut inner, Op::Remove(path.to_owned()))?;
        inner.names.remove(path);
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Disk::step(&mut self.0.lock().unwrap(), Op::SyncDir)
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }
}

#[derive(Debug)]
struct DiskFile {
    disk: Disk,
    file: usize,
    write: bool,
}

impl File for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let inner = self.disk.0.lock().unwrap();
        let end = offset + buf.len() as u64;
        if inner.unreadable.is_some_and(|bad| offset <= bad && bad < end) {
            return Err(io::Error::other("the medium cannot be read"));
        }
        let start = offset as usize;
        let bytes = inner.files[self.file].get(start..start + buf.len());
        buf.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
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
        self.write_vectored_at(&[io::IoSlice::new(buf)], offset)
    }

    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        assert!(self.write && offset.is_multiple_of(4096), "log writes are aligned");
        let bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        assert!(bytes.len().is_multiple_of(4096), "log writes are padded");
        let mut inner = self.disk.0.lock().unwrap();
        Disk::step(&mut inner, Op::Write(self.file, offset, bytes.clone()))?;
        put(&mut inner.files[self.file], offset, &bytes);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.0.lock().unwrap().files[self.file].len() as u64)
    }

    /// Only grows; as durable as a write of the last block would be.
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        let len = self.len()?;
        assert!(bytes >= len, "the log never cuts a file");
        if bytes > len { self.write_at(&[0; 4096], bytes - 4096) } else { Ok(()) }
    }

    fn allocate(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        match self.disk.0.lock().unwrap().full {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }

    /// Recorded as a write of zeros, which is what reads then return.
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let end = (offset + bytes).min(self.len()?);
        self.write_at(&vec![0; end.saturating_sub(offset) as usize], offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Disk::step(&mut self.disk.0.lock().unwrap(), Op::Sync(self.file))
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn evict(&self) {
        let mut inner = self.disk.0.lock().unwrap();
        let last = inner.ops.iter().rev().find_map(|op| match op {
            Op::Write(file, ..) if *file == self.file => Some(false),
            Op::Sync(file) if *file == self.file => Some(true),
            _ => None,
        });
        assert_eq!(last, Some(true), "only clean pages can be evicted");
        inner.evicted.push(self.file);
    }

    fn is_direct(&self) -> bool {
        true
    }

    fn try_lock(&self, _kind: LockKind) -> io::Result<bool> {
        Ok(true)
    }

    fn unlock(&self) -> io::Result<()> {
        Ok(())
    }
}
