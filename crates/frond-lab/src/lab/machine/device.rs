//! Finds the block device of a directory, and reads what the kernel reports about both.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::measure::{DeviceNumber, IoCount};
use crate::targets::{Failure, Result};

/// The file system that holds a directory.
#[derive(Clone, Debug)]
pub struct Volume {
    /// The directory, absolute.
    pub dir: PathBuf,
    /// Where the file system is mounted.
    pub mount_point: PathBuf,
    /// Type of the file system: `ext4`, `tmpfs`.
    pub file_system: String,
    /// Mount options, sorted.
    pub options: String,
    /// The size, bytes.
    pub size_b: u64,
    /// Space that an unprivileged user may still allocate, bytes.
    pub free_b: u64,
    /// The whole disk that holds it; `None` for tmpfs, overlays and network file systems.
    pub disk: Option<Disk>,
}

/// A whole disk, not a partition.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Device number.
    pub number: DeviceNumber,
    /// Name of the device: `sda`, not `sda1`.
    pub name: String,
    /// Model as the device reports it, or else the driver according to the device's name.
    pub model: String,
    /// The size, bytes.
    pub size_b: u64,
    /// Whether the kernel considers it a rotating disk. Virtual disks often claim to be one.
    pub rotational: bool,
    /// `write back` if it has a volatile cache, which a flush empties; `write through` if not.
    pub write_cache: String,
    /// I/O scheduler in use.
    pub scheduler: String,
    /// Smallest unit of an I/O, bytes.
    pub logical_block_b: u64,
    /// Smallest unit that it writes without a read-modify-write, bytes.
    pub physical_block_b: u64,
    /// The file that a loop device is attached to.
    pub backing: Option<PathBuf>,
}

/// Counters of a whole disk since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskCount {
    /// Bytes and I/Os.
    pub io: IoCount,
    /// Flushes of its cache.
    pub flushes: u64,
    /// Time during which I/O was in progress, milliseconds.
    pub busy_ms: u64,
}

impl Volume {
    /// Finds the volume of `dir`, which must exist.
    pub fn of(dir: &Path) -> Result<Self> {
        let fail = |error: &dyn std::fmt::Display| Failure(format!("{}: {error}", dir.display()));
        let dir = fs::canonicalize(dir).map_err(|error| fail(&error))?;
        let number = fs::metadata(&dir).map_err(|error| fail(&error))?.dev();
        let mounts = procfs::process::Process::myself().and_then(|process| process.mountinfo());
        let mounts = mounts.map_err(|error| fail(&error))?;
        // If several file systems are mounted at one place, the last one hides the others.
        let above = mounts.into_iter().filter(|mount| dir.starts_with(&mount.mount_point));
        let mount = above.max_by_key(|mount| mount.mount_point.as_os_str().len());
        let mount = mount.ok_or_else(|| fail(&"it is on no mounted file system"))?;
        let space = rustix::fs::statvfs(&dir).map_err(|error| fail(&error))?;
        let mut options: Vec<String> = Vec::new();
        for (name, value) in mount.mount_options.into_iter().chain(mount.super_options) {
            options.push(value.map_or(name.clone(), |value| format!("{name}={value}")));
        }
        options.sort();
        options.dedup();
        let own = DeviceNumber { major: libc::major(number), minor: libc::minor(number) };
        let source = mount.mount_source.map(PathBuf::from);
        Ok(Self {
            disk: Disk::of(own).or_else(|| Disk::of(number_of_file(&source?)?)),
            dir,
            mount_point: mount.mount_point,
            file_system: mount.fs_type,
            options: options.join(","),
            size_b: space.f_blocks * space.f_frsize,
            free_b: space.f_bavail * space.f_frsize,
        })
    }

    /// The disk; the failure says why there is none.
    pub fn disk(&self) -> Result<&Disk> {
        self.disk.as_ref().ok_or_else(|| {
            let (dir, kind) = (self.dir.display(), &self.file_system);
            Failure(format!("{dir} is on {kind}, which has no block device of its own"))
        })
    }
}

/// Device number of a special file. A file system over several devices (btrfs) has an anonymous
/// device number, and names one of its devices as the source of the mount.
fn number_of_file(path: &Path) -> Option<DeviceNumber> {
    let number = fs::metadata(path).ok()?.rdev();
    Some(DeviceNumber { major: libc::major(number), minor: libc::minor(number) })
}

impl Disk {
    /// Finds the whole disk of a disk or partition; `None` if the number is not that of a block
    /// device.
    pub fn of(number: DeviceNumber) -> Option<Self> {
        Self::below(Path::new("/sys/dev/block"), number)
    }

    fn below(devices: &Path, number: DeviceNumber) -> Option<Self> {
        let mut dir = fs::canonicalize(devices.join(number.to_string())).ok()?;
        if dir.join("partition").exists() {
            dir.pop();
        }
        let text = |name: &str| {
            let text = fs::read_to_string(dir.join(name)).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let count = |name: &str| text(name)?.parse::<u64>().ok();
        let name = dir.file_name()?.to_string_lossy().into_owned();
        let driver = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let vendor = text("device/vendor");
        let model = text("device/model").unwrap_or_else(|| match (driver, vendor) {
            ("loop", _) => "loop".to_owned(),
            (name, Some(_)) if name.starts_with("vd") => "virtio".to_owned(),
            (name, _) => name.to_owned(),
        });
        let scheduler = text("queue/scheduler").unwrap_or_default();
        let chosen = scheduler.split(['[', ']']).nth(1).unwrap_or(&scheduler).to_owned();
        Some(Self {
            number: text("dev")?.parse().ok()?,
            model,
            size_b: count("size")? * 512,
            rotational: count("queue/rotational") == Some(1),
            write_cache: text("queue/write_cache").unwrap_or_default(),
            scheduler: chosen,
            logical_block_b: count("queue/logical_block_size").unwrap_or(512),
            physical_block_b: count("queue/physical_block_size").unwrap_or(512),
            backing: text("loop/backing_file").map(PathBuf::from),
            name,
        })
    }

    /// The counters of the disk since boot. They include all its users: on a shared machine that is
    /// more than one experiment.
    pub fn count(&self) -> Option<DiskCount> {
        parse_stat(&fs::read_to_string(format!("/sys/dev/block/{}/stat", self.number)).ok()?)
    }
}

/// Parses `/sys/block/NAME/stat`: 17 numbers, in sectors of 512 bytes whatever the disk's sector
/// size.
fn parse_stat(text: &str) -> Option<DiskCount> {
    let mut fields = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let mut numbers = [0; 17];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = match fields.next() {
            Some(number) => number?,
            None if at >= 11 => 0, // older kernels do not count discards and flushes
            None => return None,
        };
    }
    let [reads, _, read, _, writes, _, written, _, _, busy_ms, ..] = numbers;
    Some(DiskCount {
        io: IoCount { read_bytes: read * 512, written_bytes: written * 512, reads, writes },
        flushes: numbers[15],
        busy_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_matches_what_the_kernel_reports() -> Result<()> {
        let volume = Volume::of(Path::new(env!("CARGO_MANIFEST_DIR")))?;
        assert!(volume.dir.starts_with(&volume.mount_point));
        assert!(volume.free_b > 0 && volume.free_b <= volume.size_b, "{volume:?}");
        assert!(volume.options.split(',').any(|option| option == "rw"), "{}", volume.options);
        if let Some(disk) = &volume.disk {
            assert!(disk.size_b >= volume.size_b, "{volume:?}");
            assert!(disk.count().is_some_and(|count| count.io.writes > 0), "{disk:?}");
            assert!(Path::new(&format!("/sys/block/{}", disk.name)).exists(), "{disk:?}");
        }
        Ok(())
    }

    #[test]
    fn a_volume_without_a_device_is_reported() -> Result<()> {
        let volume = Volume::of(Path::new("/proc"))?;
        assert!(volume.disk.is_none());
        let failure = volume.disk().unwrap_err();
        assert!(failure.0.contains("/proc is on proc"), "{failure}");
        assert!(Volume::of(Path::new("/nonexistent/directory")).is_err());
        Ok(())
    }

    #[test]
    fn a_partition_resolves_to_its_disk() -> std::io::Result<()> {
        let root = tempfile::tempdir()?;
        let disk = root.path().join("block/sda");
        fs::create_dir_all(disk.join("sda1"))?;
        fs::create_dir_all(disk.join("queue"))?;
        fs::create_dir_all(disk.join("device"))?;
        let at = |name: &str, text: &str| fs::write(disk.join(name), text);
        at("dev", "8:0\n")?;
        at("size", "2048\n")?;
        at("sda1/dev", "8:1\n")?;
        at("sda1/size", "1024\n")?;
        at("sda1/partition", "1\n")?;
        at("queue/scheduler", "none [mq-deadline] bfq\n")?;
        at("queue/rotational", "0\n")?;
        at("device/model", "CT960M500   \n")?;
        std::os::unix::fs::symlink(disk.join("sda1"), root.path().join("8:1"))?;
        let found = Disk::below(root.path(), DeviceNumber { major: 8, minor: 1 }).unwrap();
        assert_eq!(found.number, DeviceNumber { major: 8, minor: 0 });
        assert_eq!((found.name.as_str(), found.size_b), ("sda", 1 << 20));
        assert_eq!((found.model.as_str(), found.scheduler.as_str()), ("CT960M500", "mq-deadline"));
        assert!(Disk::below(root.path(), DeviceNumber { major: 9, minor: 9 }).is_none());
        Ok(())
    }

    #[test]
    fn counts_of_a_disk_are_in_bytes() {
        let text = "1 0 8 5 2 0 16 6 0 7 11 1 0 8 1 9 3\n";
        let io = IoCount { read_bytes: 4096, written_bytes: 8192, reads: 1, writes: 2 };
        assert_eq!(parse_stat(text), Some(DiskCount { io, flushes: 9, busy_ms: 7 }));
        assert_eq!(parse_stat("1 0 8 5 2 0 16 6 0 7 11\n").map(|count| count.flushes), Some(0));
        assert_eq!(parse_stat("1 2 3"), None);
        assert_eq!(parse_stat("a b c d e f g h i j k l"), None);
    }
}
