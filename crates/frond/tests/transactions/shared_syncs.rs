//! Group commit: concurrent commits at `Sync` share syncs, and what was acknowledged is on the disk
//! all the same.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Mutex,
};

use frond::internals::io::{Env, File, LockKind, OpenMode, Vfs};
use frond_testkit::disk::{CrashOptions, DiskState, SimVfs, crash_states};

use super::*;

const COMMITTERS: u64 = 16;
const COMMITS: u64 = 25;

/// The sync time of a flash drive without a capacitor; taking a place in the log costs some
/// hundredths of it.
const SYNC: Duration = Duration::from_millis(4);

/// A simulated disk whose syncs of the log take time.
#[derive(Clone, Debug)]
struct SlowDisk {
    disk: SimVfs,
    syncs: Arc<AtomicU64>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn File>,
    /// The counter of syncs, if this file is part of the log.
    syncs: Option<Arc<AtomicU64>>,
}

impl File for SlowFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }
    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        self.file.read_vectored_at(bufs, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(buf, offset)
    }
    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        self.file.write_vectored_at(bufs, offset)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }
    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.file.allocate(offset, bytes)
    }
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.file.punch(offset, bytes)
    }
    fn sync_data(&self) -> io::Result<()> {
        if let Some(syncs) = &self.syncs {
            syncs.fetch_add(1, Ordering::Relaxed);
            thread::sleep(SYNC);
        }
        self.file.sync_data()
    }
    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }
    fn is_direct(&self) -> bool {
        self.file.is_direct()
    }
    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        self.file.try_lock(kind)
    }
    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}

impl Vfs for SlowDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let syncs = name.starts_with("log-").then(|| self.syncs.clone());
        Ok(Arc::new(SlowFile { file: self.disk.open(path, mode)?, syncs }))
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        self.disk.list(dir)
    }
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
}

fn options(env: Env) -> Options {
    Options::new().cache_size(16 << 20).durability(Durability::Sync).env(env)
}

fn row(committer: u64, commit: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&committer.to_be_bytes());
    key[8..].copy_from_slice(&commit.to_be_bytes());
    key
}

/// The acknowledged rows, and then what a power failure would leave.
type Moment = (Vec<[u8; 16]>, DiskState);

/// Sixteen committers share syncs. Promise: P1.
#[test]
fn sixteen_committers_share_their_syncs() {
    let disk = SimVfs::new();
    let vfs = SlowDisk { disk: disk.clone(), syncs: Arc::default() };
    let syncs = vfs.syncs.clone();
    let db = Db::open("/store", options(Env { vfs: Arc::new(vfs), ..Env::real() })).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let (acknowledged, moments) = (Mutex::new(Vec::new()), Mutex::new(Vec::<Moment>::new()));
    let before = syncs.load(Ordering::Relaxed);
    let commit = |committer: u64, number: u64| {
        let key = row(committer, number);
        // Every other committer uses batches.
        if committer.is_multiple_of(2) {
            tree.put(&key, b"row").unwrap();
        } else {
            let txn = db.begin(TxnOptions::default()).unwrap();
            txn.put(&tree, &key, b"row").unwrap();
            txn.commit().unwrap();
        }
        let mut all = acknowledged.lock().unwrap();
        all.push(key);
        if committer == number % COMMITTERS {
            moments.lock().unwrap().push((all.clone(), disk.disk()));
        }
    };
    thread::scope(|scope| {
        for committer in 0..COMMITTERS {
            let commit = &commit;
            scope.spawn(move || (0..COMMITS).for_each(|number| commit(committer, number)));
        }
    });
    let (commits, syncs) = (COMMITTERS * COMMITS, syncs.load(Ordering::Relaxed) - before);
    println!("{commits} commits by {COMMITTERS}, {syncs} syncs");
    assert!(syncs >= COMMITS, "each of a committer's waits for one");
    assert!(syncs * 4 <= commits, "{syncs} syncs of {commits} commits");
    drop(tree);
    db.close().unwrap();
    for (acknowledged, disk) in moments.into_inner().unwrap() {
        let mut states = crash_states(&disk, &CrashOptions::random(0)).into_iter();
        let state = states.find(|state| !state.kill).unwrap();
        assert_eq!(state.what, "nothing pending survives");
        let db = Db::open("/store", options(SimVfs::start(state.disk).env(0))).unwrap();
        let tree = db.open_tree("t").unwrap();
        for key in &acknowledged {
            assert!(tree.get(key).unwrap().is_some(), "{key:?}, of {}", acknowledged.len());
        }
    }
}
