//! Real files, clock and randomness.
//!
//! Positioned I/O, in loops that transfer the full length (EINTR, short transfers). `O_DIRECT`
//! where requested and supported by the file system, otherwise buffered: see `is_direct`. Never
//! mmap: there an I/O error is a signal instead of an error.

use std::{
    ffi::CString,
    fmt, io,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use rustix::{
    fs::{self, FallocateFlags, Mode, OFlags},
    io::Errno,
    io::retry_on_intr,
};

use super::{Clock, File, LockKind, OpenMode, Rng, Vfs};
use crate::sync::{Arc, OnceLock};

/// The operating system's file systems.
#[derive(Debug, Default)]
pub struct RealVfs;

struct RealFile {
    file: std::fs::File,
    direct: bool,
}

impl fmt::Debug for RealFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RealFile").field("direct", &self.direct).finish_non_exhaustive()
    }
}

fn unexpected_eof() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file ends before the range to be read")
}

impl Vfs for RealVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        // NONBLOCK has no effect on files, but prevents waiting if the path is a pipe.
        let mut flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        flags |= if mode.write { OFlags::RDWR } else { OFlags::RDONLY };
        if mode.create_new {
            flags |= OFlags::CREATE | OFlags::EXCL;
        }
        let permissions = Mode::RUSR | Mode::WUSR;
        let mut direct = mode.direct;
        let opened = if direct {
            match fs::open(path, flags | OFlags::DIRECT, permissions) {
                // tmpfs and some overlay file systems do not support O_DIRECT.
                Err(Errno::INVAL) => {
                    direct = false;
                    // A failed O_DIRECT open may have left the new file behind.
                    let flags = flags - OFlags::EXCL;
                    fs::open(path, flags, permissions)
                }
                other => other,
            }
        } else {
            fs::open(path, flags, permissions)
        };
        let file = std::fs::File::from(opened?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(RealFile { file, direct }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match std::fs::symlink_metadata(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::read_dir(dir)?.map(|entry| Ok(PathBuf::from(entry?.file_name()))).collect()
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().mode(0o700).create(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        std::fs::File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let name = CString::new(dir.as_os_str().as_bytes())?;
        let stat = fs::statvfs(name.as_c_str())?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let rest = buf.get_mut(done..).unwrap_or_default();
            match rustix::io::pread(self.file.as_fd(), rest, offset + done as u64) {
                Ok(0) => return Err(unexpected_eof()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_vectored_at(&self, bufs: &mut [io::IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        let (mut bufs, mut offset) = (bufs, offset);
        while !bufs.is_empty() {
            let batch = bufs.len().min(IOV_MAX);
            match rustix::io::preadv(self.file.as_fd(), &mut bufs[..batch], offset) {
                Ok(0) => return Err(unexpected_eof()),
                Ok(n) => {
                    offset += n as u64;
                    io::IoSliceMut::advance_slices(&mut bufs, n);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::pwrite(self.file.as_fd(), &buf[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_vectored_at(&self, bufs: &[io::IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut owned: Vec<io::IoSlice<'_>> = bufs.to_vec();
        let (mut bufs, mut offset) = (&mut owned[..], offset);
        while !bufs.is_empty() {
            let batch = bufs.len().min(IOV_MAX);
            match rustix::io::pwritev(self.file.as_fd(), &bufs[..batch], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    offset += n as u64;
                    io::IoSlice::advance_slices(&mut bufs, n);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    fn allocate(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::empty();
        match retry_on_intr(|| fs::fallocate(self.file.as_fd(), flags, offset, bytes)) {
            // A file system without preallocation: writes there may still hit a full disk, which is
            // then a failed write (P12) instead of a refused commit (P13).
            Err(Errno::OPNOTSUPP) => self.set_len(self.len()?.max(offset + bytes)),
            other => Ok(other?),
        }
    }

    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match retry_on_intr(|| fs::fallocate(self.file.as_fd(), flags, offset, bytes)) {
            Err(Errno::OPNOTSUPP) => Ok(()),
            other => Ok(other?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn evict(&self) {
        if !self.direct {
            // No length means to the end. A failure leaves pages that the kernel can reclaim.
            _ = fs::fadvise(&self.file, 0, None, fs::Advice::DontNeed);
        }
    }

    fn is_direct(&self) -> bool {
        self.direct
    }

    fn try_lock(&self, kind: LockKind) -> io::Result<bool> {
        let locked = match kind {
            LockKind::Shared => self.file.try_lock_shared(),
            LockKind::Exclusive => self.file.try_lock(),
        };
        match locked {
            Ok(()) => Ok(true),
            Err(std::fs::TryLockError::WouldBlock) => Ok(false),
            Err(std::fs::TryLockError::Error(error)) => Err(error),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let (this, named) = (self.file.metadata()?, std::fs::metadata(path));
        match named {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            named => named.map(|named| (named.dev(), named.ino()) == (this.dev(), this.ino())),
        }
    }

    fn lock_holders(&self) -> Vec<u32> {
        let found = self.file.metadata().and_then(|about| {
            let file = (fs::major(about.dev()), fs::minor(about.dev()), about.ino());
            let mut holders = holders(&std::fs::read_to_string("/proc/locks")?, file);
            // The list names the process that took a lock; children that inherit the lock may
            // outlive it.
            holders.retain(|pid| Path::new(&format!("/proc/{pid}")).exists());
            Ok(holders)
        });
        found.unwrap_or_default()
    }
}

/// The processes that, according to `/proc/locks`, have locked the file with this device and inode
/// number, each once. Its lines are like `7: FLOCK ADVISORY READ 4711 08:01:131 0 EOF`, the device
/// in hexadecimal; those of waiting processes have an arrow after the first word.
fn holders(locks: &str, (major, minor, inode): (u32, u32, u64)) -> Vec<u32> {
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let mut found: Vec<u32> = locks
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, "FLOCK", _, _, pid, at, ..] if at == place => pid.parse().ok(),
            _ => None,
        })
        // Processes of other PID namespaces have no id in this one.
        .filter(|pid| *pid > 0)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Linux accepts at most 1024 slices per call.
const IOV_MAX: usize = 1024;

/// The system's monotonic clock.
#[derive(Debug)]
pub struct RealClock {
    start: Instant,
}

impl RealClock {
    /// A clock that starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for RealClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for RealClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall(&self) -> Duration {
        // A clock set before 1970 is useless.
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    fn sleep(&self, time: Duration) {
        crate::sync::thread::sleep(time);
    }
}

/// The operating system's randomness.
#[derive(Debug, Default)]
pub struct RealRng;

impl Rng for RealRng {
    fn next_u64(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};
        // Each RandomState is keyed from the operating system once per thread and then stepped; the
        // process id and the time distinguish forks of a process.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u128(PROCESS_START.get_or_init(Instant::now).elapsed().as_nanos());
        hasher.finish()
    }
}

static PROCESS_START: OnceLock<Instant> = OnceLock::new();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_a_lock_are_found_in_the_list_of_locks() {
        let locks = "1: FLOCK  ADVISORY  READ  4711 08:01:131 0 EOF\n\
                     1: -> FLOCK  ADVISORY  WRITE 12 08:01:131 0 EOF\n\
                     2: FLOCK  ADVISORY  READ  0 08:01:131 0 EOF\n\
                     3: POSIX  ADVISORY  WRITE 13 08:01:131 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 08:01:132 0 EOF\n\
                     5: FLOCK  ADVISORY  READ  88 08:01:131 0 EOF\n\
                     6: FLOCK  ADVISORY  READ  88 08:01:131 0 EOF\n";
        assert_eq!(holders(locks, (8, 1, 131)), [88, 4711]);
        assert_eq!(holders("anything\n", (8, 1, 131)), [0; 0]);
    }

    #[test]
    fn shared_locks_exclude_exclusive_ones() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, b"x").expect("written");
        let open = || RealVfs.open(&path, OpenMode::default()).expect("opens");
        let (one, two, three) = (open(), open(), open());
        let lock = |file: &Arc<dyn File>, kind| file.try_lock(kind).expect("a lock");
        assert!(lock(&one, LockKind::Shared) && lock(&two, LockKind::Shared));
        assert!(!lock(&three, LockKind::Exclusive));
        // What the system reports depends on the file system; it names no other process.
        let own = std::process::id();
        assert!(three.lock_holders().iter().all(|pid| *pid == own));
        one.unlock().expect("unlocked");
        two.unlock().expect("unlocked");
        assert!(lock(&three, LockKind::Exclusive) && !lock(&one, LockKind::Shared));
    }
}
