//! A disk of an experiment's own (`--disk`): a file as a loop device with ext4, on which everything is throttled, the page
//! cache's write-back and the file system's journal, too.
//!
//! ```text
//!  data/ (ext4) ─► loop device ─► fuse/disk.img ─► image       Process: rates and latencies, ≤ 20,000 I/Os per second
//!  data/ (ext4) ─► loop device ─────────────────► image       Kernel:  rates, by the root group of cgroup version 1
//! ```
//!
//! Invariants
//! 1. The image is preallocated and used with direct I/O: the host's page cache hides nothing.
//! 2. A dropped disk leaves no mount, no loop device, no limit and no file. `remove_stale` does the same for a disk whose
//!    process was killed; its directory has that process in its name.
//! 3. All I/O of the loop device is the experiment's, so the device's own counters are its device bytes.
//!
//! A signal that ends the process runs no `drop`: the lab catches them and ends by itself, or the next run cleans up.
//! The CPU that serving takes is this machine's and is reported (`cpu_s`); on two cores it competes with the engine.

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
/// What a disk that is served by this process reaches.
pub const PROCESS_IOS_MAX: u64 = 20_000;

/// Who throttles.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
pub enum Kind {
    /// Served by the lab (FUSE): rates, latency and flush; at most 20,000 I/Os per second
    #[value(name = "virtual")]
    Process,
    /// Limited by the kernel: rates only, at any speed and for little CPU; needs the root group of cgroup version 1
    #[value(name = "loop")]
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

/// What a disk is like.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of the image; ext4 takes some of it.
    pub size: Bytes,
    /// Largest rates.
    pub io: IoLimits,
    /// What a read or a write takes at least.
    pub latency: Duration,
    /// What a flush takes, instead of syncing the host's file. Without it a flush syncs the host's file, and takes as long
    /// as that.
    pub flush: Option<Duration>,
    /// Who throttles.
    pub kind: Kind,
}

impl Options {
    /// A disk of a class.
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

    /// Refuses what cannot be had.
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

/// A mounted disk.
#[derive(Debug)]
pub struct VirtualDisk {
    /// Its own directory, with `image`, `fuse` and `data`.
    dir: PathBuf,
    options: Options,
    session: Option<fuser::BackgroundSession>,
    served: Option<Arc<fuse::Served>>,
    attached: Option<Loop>,
    is_limited: bool,
}

impl VirtualDisk {
    /// Makes a disk below `dir`, which must have the space. Needs root.
    pub fn create(dir: &Path, options: &Options) -> Result<Self> {
        options.check()?;
        let volume = Volume::of(dir)?;
        // An eighth stays free, or the host's own file system becomes slow.
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
        disk.build(volume.disk.as_ref().map_or(512, |disk| disk.logical_block_b))?; // drop removes what there is
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
        // Without discard: it would punch holes into the preallocated image.
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-m", "0", "-E", lazy, &device])?;
        let data = self.dir.join("data");
        fs::create_dir(&data)?;
        run("mount", &["-t", "ext4", "-o", "nodiscard", &device, word(&data)?])?;
        // The file system was made at full speed.
        self.limit(&self.options.io.clone())
    }

    /// The directory of the mounted file system.
    pub fn path(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The loop device.
    pub fn disk(&self) -> Result<Disk> {
        let number = self.attached.as_ref().map(|attached| attached.number);
        let disk = number.and_then(Disk::of);
        disk.ok_or_else(|| Failure("the virtual disk's loop device is gone".to_owned()))
    }

    /// What the experiment read and wrote, write-back and journal included.
    pub fn count(&self) -> Result<DiskCount> {
        let count = self.disk()?.count();
        count.ok_or_else(|| Failure("the virtual disk's loop device has no counters".to_owned()))
    }

    /// Sets other rates: those that a calibration tries.
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

    /// What the group of an engine on this disk is made with. It has no I/O controller: limits of the root group apply
    /// only to processes that are in it, and the disk's own `count` is the engine's anyway.
    pub fn limits(&self, memory: Option<u64>) -> Limits {
        Limits { memory, ..Limits::default() }
    }

    /// What it is like.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// CPU of this process's threads that serve it, seconds; the kernel's own threads are not in it. A disk that the
    /// kernel throttles has none.
    pub fn cpu_s(&self) -> f64 {
        self.served.as_ref().map_or(0.0, |served| served.cpu_s())
    }

    /// What is throttled.
    pub fn throttled(&self) -> Throttled {
        Throttled::All
    }

    /// Removes the disk and all that is on it. The failure names what is left.
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
        // Unlimited first, or what is still to be written back would take as long as the class does.
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
            let _ = session.umount_and_join(); // unmounted: its threads end by themselves
        }
        let _ = fs::remove_dir_all(&self.dir); // `close` looks whether something is left
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
