//! A private disk for an experiment (`--disk`): ext4 on a loop device over a file. All its I/O is
//! throttled, including the write-back of the page cache and the file system's journal.
//!
//! ```text
//!  Process (rates and latencies, at most 20,000 I/Os per second):
//!      data/ (ext4) ─► loop device ─► fuse/disk.img ─► image
//!  Kernel (rates only, by the root group of cgroup version 1):
//!      data/ (ext4) ─► loop device ─► image
//! ```
//!
//! Invariants
//! 1. The image is preallocated and accessed with direct I/O, so the host's page cache hides
//!    nothing.
//! 2. A dropped disk leaves no mount, loop device, limit or file behind. `remove_stale` cleans up
//!    after a process that was killed; the directory of a disk has the process in its name.
//! 3. All I/O of the loop device belongs to the experiment, so the counters of the device are the
//!    experiment's device bytes.
//!
//! A process that is killed by a signal runs no `drop`. So the lab catches the signals that can be
//! caught and exits normally; after the others, the next run cleans up. Serving the disk takes CPU
//! of this machine, which is reported (`cpu_s`); on two cores it competes with the engine.

mod attach;
mod bucket;
mod fuse;
mod stale;

pub use attach::limits_in_root;
pub use stale::remove_stale;

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::class::{Class, Throttled};
use super::device::{Disk, DiskCount, Volume};
use crate::measure::{IoLimits, Limits, Owner};
use crate::size::Bytes;
use crate::targets::{Failure, Result};
use attach::{Loop, run, word};
use bucket::Throttle;

const PREFIX: &str = "frond-lab-disk-";
/// I/Os per second that a disk served by this process can reach.
pub const PROCESS_IOS_MAX: u64 = 20_000;

/// What throttles the disk.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub enum Kind {
    /// Served by the lab (FUSE): rates, latency and flush; at most 20,000 I/Os per second
    #[value(name = "virtual")]
    #[serde(alias = "virtual")]
    Process,
    /// Limited by the kernel: rates only, at any speed and for little CPU; needs the root group of
    /// cgroup version 1
    #[value(name = "loop")]
    #[serde(alias = "loop")]
    Kernel,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Process => "virtual",
            Self::Kernel => "loop",
        })
    }
}

/// Size, rates and latencies of a disk.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the image; ext4 takes some of it.
    pub size: Bytes,
    /// Maximum rates.
    pub io: IoLimits,
    /// Minimum duration of a read or write.
    pub latency: Duration,
    /// Duration of a flush, which then does not sync the host's file. If `None`, a flush syncs the
    /// host's file and takes as long as that.
    pub flush: Option<Duration>,
    /// What throttles the disk.
    pub kind: Kind,
}

impl Options {
    /// Options of a disk with the limits of a class.
    pub fn of(class: &Class, size: Bytes, kind: Kind) -> Result<Self> {
        let micros = |micros: Option<u64>| micros.map(Duration::from_micros);
        let options = match kind {
            Kind::Process => Self {
                size,
                io: class.io(),
                latency: micros(class.latency_us).unwrap_or_default(),
                flush: micros(class.sync_us.or(class.latency_us)),
                kind,
            },
            Kind::Kernel => {
                Self { size, io: class.io(), latency: Duration::ZERO, flush: None, kind }
            }
        };
        options.check().map_err(|failure| Failure(format!("class {}: {failure}", class.name)))?;
        Ok(options)
    }

    /// Refuses a disk that cannot be provided.
    fn check(&self) -> Result<()> {
        let fail = |text: String| Err(Failure(text));
        if self.size < Bytes::mebi(32) {
            return fail(format!("a disk of {} is too small for ext4: 32 MiB at least", self.size));
        }
        if self.kind == Kind::Kernel {
            return match (self.latency.is_zero(), self.flush) {
                (true, None) => Ok(()),
                _ => fail("limits of the kernel have no latency".to_owned()),
            };
        }
        for (ios, what) in [(self.io.read_ios_s, "reads"), (self.io.write_ios_s, "writes")] {
            if ios.is_none_or(|ios| ios > PROCESS_IOS_MAX) {
                let wanted = ios.map_or("any number of".to_owned(), |ios| ios.to_string());
                return fail(format!(
                    "{wanted} {what} per second are wanted; a disk that a process serves reaches {PROCESS_IOS_MAX}"
                ));
            }
        }
        Ok(())
    }
}

/// A mounted private disk.
#[derive(Debug)]
pub struct VirtualDisk {
    /// Directory of the disk, with `image`, `fuse` and `data`.
    dir: PathBuf,
    options: Options,
    session: Option<fuser::BackgroundSession>,
    served: Option<Arc<fuse::Served>>,
    attached: Option<Loop>,
    is_limited: bool,
}

impl VirtualDisk {
    /// Creates and mounts a disk below `dir`, which must have the space. Needs root.
    pub fn create(dir: &Path, options: &Options) -> Result<Self> {
        options.check()?;
        let volume = Volume::of(dir)?;
        // An eighth must stay free, or the host's file system becomes slow.
        if volume.free_b < options.size.0 + options.size.0 / 8 {
            let (free, size) = (Bytes(volume.free_b), options.size);
            return Err(Failure(format!(
                "{}: {free} free, a disk of {size} wanted",
                dir.display()
            )));
        }
        let own = volume.dir.join(Owner::own().name(PREFIX));
        fs::create_dir(&own).map_err(|error| Failure(format!("{}: {error}", own.display())))?;
        let mut disk = Self {
            dir: own,
            options: options.clone(),
            session: None,
            served: None,
            attached: None,
            is_limited: false,
        };
        // On failure, drop removes what was created.
        disk.build(volume.disk.as_ref().map_or(512, |disk| disk.logical_block_b))?;
        Ok(disk)
    }

    fn build(&mut self, sector_b: u64) -> Result<()> {
        let image = self.dir.join("image");
        let mut open = OpenOptions::new();
        open.read(true).write(true).create_new(true).mode(0o600).custom_flags(libc::O_DIRECT);
        let file = open.open(&image).map_err(|error| Failure(format!("image: {error}")))?;
        let size = self.options.size.0 / (1 << 20) * (1 << 20);
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, size)
            .map_err(|error| Failure(format!("{} of space: {error}", Bytes(size))))?;
        let backing = match self.options.kind {
            Kind::Kernel => image,
            Kind::Process => {
                let point = self.dir.join("fuse");
                fs::create_dir(&point)?;
                let syncs = self.options.flush.is_none();
                let mounted = fuse::mount(file, size, syncs, &point);
                let (session, served) =
                    mounted.map_err(|error| Failure(format!("FUSE: {error}")))?;
                (self.session, self.served) = (Some(session), Some(served));
                point.join(fuse::IMAGE)
            }
        };
        let attached = Loop::attach(&backing, sector_b)?;
        let device = word(&attached.device)?.to_owned();
        self.attached = Some(attached);
        // No discards: they would punch holes into the preallocated image.
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-m", "0", "-E", lazy, &device])?;
        let data = self.dir.join("data");
        fs::create_dir(&data)?;
        run("mount", &["-t", "ext4", "-o", "nodiscard", &device, word(&data)?])?;
        // The file system was created at full speed; the limits apply from here on.
        self.limit(&self.options.io.clone())
    }

    /// Directory of the mounted file system.
    pub fn path(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The loop device.
    pub fn disk(&self) -> Result<Disk> {
        let number = self.attached.as_ref().map(|attached| attached.number);
        let disk = number.and_then(Disk::of);
        disk.ok_or_else(|| Failure("the virtual disk's loop device is gone".to_owned()))
    }

    /// What the experiment read and wrote, including write-back and journal.
    pub fn count(&self) -> Result<DiskCount> {
        let count = self.disk()?.count();
        count.ok_or_else(|| Failure("the virtual disk's loop device has no counters".to_owned()))
    }

    /// Changes the rates, for example during a calibration.
    pub fn limit(&mut self, io: &IoLimits) -> Result<()> {
        let options = Options { io: *io, ..self.options.clone() };
        options.check()?;
        match &self.served {
            Some(served) => {
                let flush = options.flush.unwrap_or(Duration::ZERO);
                served.set(Throttle::new(io, options.latency, flush));
            }
            None => {
                let number = self.disk()?.number;
                self.is_limited = true;
                attach::limit_in_root(number, io)?;
            }
        }
        self.options = options;
        Ok(())
    }

    /// The rates in force.
    pub fn io(&self) -> Result<IoLimits> {
        match self.options.kind {
            Kind::Process => Ok(self.options.io),
            Kind::Kernel => attach::limits_of_root(self.disk()?.number),
        }
    }

    /// Limits for the control group of an engine on this disk. They use no I/O controller, for two
    /// reasons: limits of the root group apply only to processes in that group, and `count` of the
    /// disk counts only the engine's I/O anyway.
    pub fn limits(&self, memory: Option<u64>) -> Limits {
        Limits { memory, ..Limits::default() }
    }

    /// The options in force.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// CPU seconds of this process's threads that serve the disk, without the kernel's own threads.
    /// 0 for a disk that the kernel throttles.
    pub fn cpu_s(&self) -> f64 {
        self.served.as_ref().map_or(0.0, |served| served.cpu_s())
    }

    /// What is throttled.
    pub fn throttled(&self) -> Throttled {
        Throttled::All
    }

    /// Removes the disk and everything on it. The failure names what is left.
    pub fn close(mut self) -> Result<()> {
        self.remove();
        let dir = std::mem::take(&mut self.dir);
        if dir.exists() || attach::loops().iter().any(|(_, file)| file.starts_with(&dir)) {
            return Err(Failure(format!(
                "{} could not be removed: something uses it",
                dir.display()
            )));
        }
        Ok(())
    }

    fn remove(&mut self) {
        // Lift the limits first, or the remaining write-back would run at the speed of the class.
        if let Some(served) = &self.served {
            served.set(Throttle::new(&IoLimits::default(), Duration::ZERO, Duration::ZERO));
        }
        if let (Some(attached), true) = (&self.attached, self.is_limited) {
            let _ = attach::limit_in_root(attached.number, &IoLimits::default());
        }
        attach::unmount(&self.dir.join("data"));
        if let Some(attached) = self.attached.take() {
            attach::detach(&attached.device);
        }
        if let Some(session) = self.session.take() {
            attach::unmount(&self.dir.join("fuse"));
            let _ = session.umount_and_join(); // its threads end by themselves once it is unmounted
        }
        let _ = fs::remove_dir_all(&self.dir); // `close` checks whether something is left
    }
}

impl Drop for VirtualDisk {
    fn drop(&mut self) {
        if !self.dir.as_os_str().is_empty() {
            self.remove();
        }
    }
}

#[cfg(test)]
mod tests;
