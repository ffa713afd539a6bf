//! Attaches a file as a disk, through loop device, file system and mount, and removes each of them
//! again.
//!
//! Uses programs of Debian's util-linux and e2fsprogs. They run in their own process group, so that
//! Ctrl-C does not stop one half-way.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::measure::{
    Controller, DeviceNumber, IoLimits, Version, io_limits_of, limit_io_of, place,
};
use crate::targets::{Failure, Result};

/// Runs a program and returns its standard output.
pub fn run(program: &str, words: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).process_group(0);
    let output = command.output().map_err(|error| Failure(format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure(format!("{program} {}: {}", words.join(" "), said.trim())))
}

/// A path as an argument for a program.
pub fn word(path: &Path) -> Result<&str> {
    let text = path.to_str();
    text.ok_or_else(|| Failure(format!("{}: its name is not in UTF-8", path.display())))
}

/// A loop device that is attached to a file.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Path of the device, such as `/dev/loop0`.
    pub device: PathBuf,
    /// Device number.
    pub number: DeviceNumber,
}

impl Loop {
    /// Attaches the file with direct I/O. Without it, the page cache would hold everything twice
    /// and hide the disk.
    pub fn attach(file: &Path, sector_b: u64) -> Result<Self> {
        let sector = format!("--sector-size={sector_b}");
        let words = ["--find", "--show", "--direct-io=on", &sector, word(file)?];
        let device = PathBuf::from(run("losetup", &words)?);
        let name = device.file_name().map(|name| name.to_string_lossy().into_owned());
        let dir = PathBuf::from(format!("/sys/block/{}", name.unwrap_or_default()));
        let text = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
        let number = text("dev").parse();
        let attached = number.map_err(Failure).and_then(|number| {
            if text("loop/dio").trim() != "1" {
                let file = file.display();
                return Err(Failure(format!("{file}: its loop device cannot use direct I/O")));
            }
            Ok(Self { device: device.clone(), number })
        });
        attached.inspect_err(|_| detach(&device))
    }

    /// Whether the device still has a file.
    fn is_attached(device: &Path) -> bool {
        let name = device.file_name().map(|name| name.to_string_lossy().into_owned());
        let backing = format!("/sys/block/{}/loop/backing_file", name.unwrap_or_default());
        Path::new(&backing).exists()
    }
}

/// Detaches a loop device, and waits up to 5 s until it has released its file.
pub fn detach(device: &Path) {
    // Fails if it is not attached.
    let _ = word(device).map(|word| run("losetup", &["--detach", word]));
    for _ in 0..500 {
        if !Loop::is_attached(device) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Unmounts the topmost file system at `point`. A file system that stays busy for 2 s
/// is unmounted lazily: it disappears from sight, and ends with its last user.
pub fn unmount(point: &Path) {
    let Ok(point) = word(point) else { return };
    for _ in 0..20 {
        if !is_mounted(Path::new(point)) || run("umount", &[point]).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = run("umount", &["--lazy", point]); // the last resort; its failure changes nothing
}

/// Mount points at or below `dir`, the deepest first.
pub fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let mut points: Vec<PathBuf> = mount_points();
    points.retain(|point| point.starts_with(dir));
    points.sort_by_key(|point| std::cmp::Reverse(point.components().count()));
    points
}

/// All mount points.
pub fn mount_points() -> Vec<PathBuf> {
    let mounts = procfs::process::Process::myself().and_then(|process| process.mountinfo());
    mounts.map_or_else(|_| Vec::new(), |all| all.into_iter().map(|m| m.mount_point).collect())
}

fn is_mounted(point: &Path) -> bool {
    mount_points().iter().any(|mounted| mounted == point)
}

/// Loop devices and their files.
pub fn loops() -> Vec<(PathBuf, PathBuf)> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).ok()?;
        // The kernel appends this if the name or mount of the file is gone.
        let backing = backing.trim().trim_end_matches(" (deleted)");
        Some((Path::new("/dev").join(entry.file_name()), PathBuf::from(backing)))
    };
    blocks.filter_map(of).collect()
}

/// Directory of the root control group, if limits in it apply to this process and to the kernel's
/// own threads, which perform background write-back and the journal.
pub fn limits_in_root() -> Result<PathBuf> {
    let place = place(Controller::Io);
    let place = place.ok_or_else(|| Failure("there is no control group for I/O".to_owned()))?;
    if place.version != Version::V1 {
        let why = "the root group has no limits in version 2 of control groups";
        return Err(Failure(why.to_owned()));
    }
    // Each group of version 1 has its own budget: in another group this process would escape the
    // limits.
    if place.parents != [place.top.clone()] {
        let own = place.parents.first().unwrap_or(&place.top).display();
        let why = format!("this process is in the I/O group {own} and not in the root group");
        return Err(Failure(why));
    }
    Ok(place.top)
}

/// Sets the limits of a device in the root group.
pub fn limit_in_root(number: DeviceNumber, io: &IoLimits) -> Result<()> {
    Ok(limit_io_of(&limits_in_root()?, Version::V1, number, io)?)
}

/// Reads the limits of a device in the root group.
pub fn limits_of_root(number: DeviceNumber) -> Result<IoLimits> {
    Ok(io_limits_of(&limits_in_root()?, Version::V1, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_contains_the_programs_error_output() {
        assert_eq!(run("echo", &["a", "b"]).unwrap(), "a b");
        let failure = run("ls", &["/nonexistent"]).unwrap_err().0;
        assert!(failure.starts_with("ls /nonexistent: ") && failure.contains("No such file"));
        assert!(run("no-such-program", &[]).unwrap_err().0.starts_with("no-such-program: "));
    }

    #[test]
    fn mounts_below_a_directory_come_deepest_first() {
        let below = mounts_below(Path::new("/"));
        assert!(below.contains(&PathBuf::from("/proc")));
        assert_eq!(below.last(), Some(&PathBuf::from("/")));
        assert!(is_mounted(Path::new("/proc")) && !is_mounted(Path::new("/proc/self")));
    }
}
