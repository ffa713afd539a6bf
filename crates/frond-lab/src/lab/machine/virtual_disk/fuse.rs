//! The file `disk.img` of a virtual disk, which this process serves through FUSE, with each reply
//! delayed as the throttle says.
//!
//! A thread takes a request, performs the I/O on the backing file at once, with direct I/O, and
//! replies when the request may complete. There are at most as many requests in flight as threads.
//!
//! Threads: FUSE's own. They share the throttle's mutex, which is held for a few additions.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr,
    ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::bucket::{self, Throttle};
use crate::lab::machine::probe::Aligned;
use crate::measure::IoLimits;

/// Name of the file.
pub const IMAGE: &str = "disk.img";
/// Requests in flight: the queue depth of fio here, and of disks of 2015.
const THREADS: usize = 32;
/// Size of the largest request. Each thread has one buffer of this size.
const REQUEST_MAX: u32 = 1 << 20;
/// How long the kernel may cache attributes: they never change.
const FOREVER: Duration = Duration::from_secs(1 << 20);
const FILE: INodeNo = INodeNo(2);

/// State of a served disk: its throttle, and the CPU of its threads.
#[derive(Debug)]
pub struct Served {
    throttle: Mutex<Throttle>,
    cpu_ns: AtomicU64,
}

impl Served {
    /// Replaces the throttle.
    pub fn set(&self, throttle: Throttle) {
        *self.throttle.lock().unwrap_or_else(PoisonError::into_inner) = throttle;
    }

    fn take(&self, now: bucket::Time, request: bucket::Request) -> bucket::Time {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner).take(now, request)
    }

    /// CPU seconds used so far.
    pub fn cpu_s(&self) -> f64 {
        self.cpu_ns.load(Ordering::Relaxed) as f64 / 1e9 // Relaxed: a sum, which orders nothing
    }
}

/// The file system that FUSE calls.
struct Image {
    file: File,
    size: u64,
    /// Whether a flush syncs the backing file; otherwise it only lasts as long as the throttle
    /// says.
    syncs: bool,
    start: Instant,
    served: Arc<Served>,
}

/// The buffer of a thread, and its CPU time at the last reading.
struct Worker {
    buffer: Aligned,
    cpu_s: f64,
}

thread_local! {
    static WORKER: RefCell<Option<Worker>> = const { RefCell::new(None) };
}

impl Image {
    /// Runs `work` with this thread's buffer, returns no earlier than the throttle allows, and
    /// counts the CPU.
    fn serve(
        &self,
        request: bucket::Request,
        work: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> Option<Errno> {
        let now = self.start.elapsed();
        let end = self.served.take(now, request);
        WORKER.with_borrow_mut(|worker| {
            let worker = worker.get_or_insert_with(|| Worker {
                buffer: Aligned::new(REQUEST_MAX as usize),
                cpu_s: 0.0,
            });
            let outcome = work(&mut worker.buffer);
            // Taken before the sleep: the little CPU after it is counted with the next request.
            let cpu_s = crate::measure::thread_cpu_s();
            let used = ((cpu_s - worker.cpu_s) * 1e9) as u64;
            worker.cpu_s = cpu_s;
            self.served.cpu_ns.fetch_add(used, Ordering::Relaxed);
            let rest = end.saturating_sub(self.start.elapsed());
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
            outcome.err().map(|error| error.raw_os_error().map_or(Errno::EIO, Errno::from_i32))
        })
    }

    fn attributes(&self, ino: INodeNo) -> Option<FileAttr> {
        let (kind, perm, size) = match ino {
            INodeNo::ROOT => (FileType::Directory, 0o700, 0),
            FILE => (FileType::RegularFile, 0o600, self.size),
            _ => return None,
        };
        Some(FileAttr {
            ino,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// Whether a request lies in the file and fits the buffer. The kernel sends no others.
    fn contains(&self, offset: u64, len: usize) -> bool {
        len <= REQUEST_MAX as usize
            && offset.checked_add(len as u64).is_some_and(|end| end <= self.size)
    }
}

impl Filesystem for Image {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let unsupported =
            |what: &str| io::Error::other(format!("FUSE of this kernel has no {what}"));
        // Without it the kernel waits for each direct I/O, and the disk gets one request at a time.
        let parallel = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        parallel.map_err(|_| unsupported("asynchronous direct I/O"))?;
        config.set_max_write(REQUEST_MAX).map_err(|_| unsupported("requests of 1 MiB"))?;
        let queue = config.set_max_background(THREADS as u16 * 2);
        queue.map(drop).map_err(|_| unsupported("queue of 64"))
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Some(attributes) if parent == INodeNo::ROOT && name == IMAGE => {
                reply.entry(&FOREVER, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags | FopenFlags::FOPEN_NOFLUSH);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let len = (size as usize).min(self.size.saturating_sub(offset) as usize);
        if !self.contains(offset, len) {
            return reply.error(Errno::EINVAL);
        }
        let failure = self.serve(bucket::Request::Read(len as u64), |buffer| {
            self.file.read_exact_at(&mut buffer[..len], offset)
        });
        match failure {
            Some(error) => reply.error(error),
            // The buffer is this thread's own, and nothing else was read into it since.
            None => WORKER.with_borrow(|worker| match worker {
                Some(worker) => reply.data(&worker.buffer[..len]),
                None => reply.error(Errno::EIO),
            }),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if !self.contains(offset, data.len()) {
            return reply.error(Errno::ENOSPC);
        }
        let failure = self.serve(bucket::Request::Write(data.len() as u64), |buffer| {
            // The bytes of the request are not aligned for direct I/O.
            buffer[..data.len()].copy_from_slice(data);
            self.file.write_all_at(&buffer[..data.len()], offset)
        });
        match failure {
            Some(error) => reply.error(error),
            None => reply.written(data.len() as u32),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let sync = |_: &mut [u8]| if self.syncs { self.file.sync_data() } else { Ok(()) };
        match self.serve(bucket::Request::Flush, sync) {
            Some(error) => reply.error(error),
            None => reply.ok(),
        }
    }
}

/// Mounts a file system with the image file, opened for direct I/O, at `point`. Nothing is
/// throttled before `Served::set`.
pub fn mount(
    file: File,
    size: u64,
    syncs: bool,
    point: &Path,
) -> io::Result<(BackgroundSession, Arc<Served>)> {
    let throttle = Throttle::new(&IoLimits::default(), Duration::ZERO, Duration::ZERO);
    let served = Arc::new(Served { throttle: Mutex::new(throttle), cpu_ns: AtomicU64::new(0) });
    let image = Image { file, size, syncs, start: Instant::now(), served: Arc::clone(&served) };
    let mut config = Config::default();
    config.mount_options = vec![MountOption::FSName("frond-lab".to_owned()), MountOption::NoSuid];
    config.n_threads = Some(THREADS);
    Ok((fuser::spawn_mount(image, point, &config)?, served))
}
