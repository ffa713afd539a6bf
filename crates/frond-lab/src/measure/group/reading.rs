//! The counts of a control group, and how its count of I/O compares with that of /proc.

use std::fs;
use std::path::Path;

use super::limits::DeviceNumber;
use super::place::Version;
use crate::measure::process::Usage;

/// Memory of a group, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryCount {
    /// Charged now, page cache included.
    pub now: u64,
    /// Largest charge since the group was made or since `reset_memory_peak`. Absent on version 2
    /// before Linux 5.19.
    pub peak: Option<u64>,
    /// The part that is anonymous memory.
    pub anonymous: u64,
    /// The part that is page cache.
    pub file: u64,
}

/// I/O of a group on one device since the group was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IoCount {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Read I/Os.
    pub reads: u64,
    /// Write I/Os.
    pub writes: u64,
}

impl IoCount {
    /// Returns what was added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }
}

/// Which writes a group's I/O count contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoScope {
    /// All writes, write-back of the page cache included.
    All,
    /// What the group's own threads submit: reads, direct writes, and what their `fsync` writes.
    /// The kernel's background write-back and the file system's journal are not included.
    Submitted,
}

/// CPU time of a group since it was made, seconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CpuCount {
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
}

/// All counts of a group. `None` if there is no controller for it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reading {
    /// Memory.
    pub memory: Option<MemoryCount>,
    /// I/O of the group's device.
    pub io: Option<IoCount>,
    /// CPU.
    pub cpu: Option<CpuCount>,
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the number after `name` and a space at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut rest = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    rest.next()?.trim().parse().ok()
}

pub(super) fn memory(dir: &Path, version: Version) -> Option<MemoryCount> {
    let [now, peak, anonymous, file] = match version {
        Version::V1 => ["memory.usage_in_bytes", "memory.max_usage_in_bytes", "rss", "cache"],
        Version::V2 => ["memory.current", "memory.peak", "anon", "file"],
    };
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    Some(MemoryCount {
        now: number(&dir.join(now))?,
        peak: number(&dir.join(peak)),
        anonymous: field(&stat, anonymous).unwrap_or(0),
        file: field(&stat, file).unwrap_or(0),
    })
}

pub(super) fn io(dir: &Path, version: Version, device: DeviceNumber) -> Option<IoCount> {
    let text = |name: &str| fs::read_to_string(dir.join(name)).ok();
    match version {
        Version::V1 => {
            let bytes = text("blkio.throttle.io_service_bytes")?;
            Some(io_v1(&bytes, &text("blkio.throttle.io_serviced")?, device))
        }
        Version::V2 => Some(io_v2(&text("io.stat")?, device)),
    }
}

/// Parses lines `7:0 Read 4096`. A device that was not used has no line.
fn io_v1(bytes: &str, serviced: &str, device: DeviceNumber) -> IoCount {
    let of = |text: &str, what: &str| field(text, &format!("{device} {what}")).unwrap_or(0);
    IoCount {
        read_bytes: of(bytes, "Read"),
        written_bytes: of(bytes, "Write"),
        reads: of(serviced, "Read"),
        writes: of(serviced, "Write"),
    }
}

/// Parses lines `254:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0`.
fn io_v2(stat: &str, device: DeviceNumber) -> IoCount {
    let device = device.to_string();
    let line = stat.lines().find_map(|line| line.strip_prefix(&device)?.strip_prefix(' '));
    let of = |name: &str| {
        let mut words = line.unwrap_or("").split(' ').filter_map(|word| word.split_once('='));
        words.find(|(found, _)| *found == name).and_then(|(_, value)| value.parse().ok())
    };
    IoCount {
        read_bytes: of("rbytes").unwrap_or(0),
        written_bytes: of("wbytes").unwrap_or(0),
        reads: of("rios").unwrap_or(0),
        writes: of("wios").unwrap_or(0),
    }
}

pub(super) fn cpu(dir: &Path, version: Version) -> Option<CpuCount> {
    match version {
        Version::V1 => Some(CpuCount {
            user_s: number(&dir.join("cpuacct.usage_user"))? as f64 / 1e9,
            system_s: number(&dir.join("cpuacct.usage_sys"))? as f64 / 1e9,
        }),
        Version::V2 => {
            let stat = fs::read_to_string(dir.join("cpu.stat")).ok()?;
            Some(CpuCount {
                user_s: field(&stat, "user_usec")? as f64 / 1e6,
                system_s: field(&stat, "system_usec")? as f64 / 1e6,
            })
        }
    }
}

/// How a count of the group compares with that of /proc for the same process and time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Agreement {
    /// Within 5 % or 1 MiB.
    Agrees,
    /// The group counts less, by this fraction of /proc's count: I/O was done for the process in
    /// another group, or has not been done yet.
    GroupLess(f64),
    /// The group counts more, by this multiple of /proc's count: file system metadata, or
    /// read-ahead for others.
    GroupMore(f64),
}

/// Compares bytes counted by the group with `write_bytes` or `read_bytes` of /proc/PID/io.
///
/// /proc counts a buffered write when a page is dirtied, not when it is written, so the counts
/// differ if the page cache is used. They must agree for engines with direct I/O; there a
/// difference means that one of the counts is wrong.
pub fn crosscheck(group_bytes: u64, process_bytes: u64) -> Agreement {
    const SLACK: u64 = 1 << 20;
    let difference = group_bytes.abs_diff(process_bytes);
    if difference <= SLACK || difference as f64 <= 0.05 * process_bytes as f64 {
        return Agreement::Agrees;
    }
    let ratio = group_bytes as f64 / process_bytes.max(1) as f64;
    if ratio < 1.0 { Agreement::GroupLess(ratio) } else { Agreement::GroupMore(ratio) }
}

/// Compares (bytes read, bytes written) of the group with those of /proc.
pub fn crosscheck_io(group: &IoCount, process: &Usage) -> (Agreement, Agreement) {
    (
        crosscheck(group.read_bytes, process.read_bytes),
        crosscheck(group.written_bytes, process.write_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceNumber = DeviceNumber { major: 7, minor: 1 };

    #[test]
    fn counts_are_those_of_the_requested_device() {
        let bytes = "7:11 Read 5\n7:1 Read 4096\n7:1 Write 8192\n7:1 Total 12288\nTotal 12288\n";
        let ios = "7:1 Read 1\n7:1 Write 2\nTotal 3\n";
        let expected = IoCount { read_bytes: 4096, written_bytes: 8192, reads: 1, writes: 2 };
        assert_eq!(io_v1(bytes, ios, DEVICE), expected);
        let stat = "7:11 rbytes=5\n7:1 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n";
        assert_eq!(io_v2(stat, DEVICE), expected);
        assert_eq!(io_v2("", DEVICE), IoCount::default());
        assert_eq!(io_v1("garbage", "7:1 Read x", DEVICE), IoCount::default());
    }

    #[test]
    fn files_of_both_versions_are_read() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str, text: &str| fs::write(dir.path().join(name), text);
        at("memory.current", "500\n")?;
        at("memory.stat", "anon 100\nfile 300\nfile_mapped 7\n")?;
        at("cpu.stat", "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\n")?;
        let count = MemoryCount { now: 500, peak: None, anonymous: 100, file: 300 };
        assert_eq!(memory(dir.path(), Version::V2), Some(count));
        assert_eq!(cpu(dir.path(), Version::V2), Some(CpuCount { user_s: 2.0, system_s: 1.0 }));
        assert_eq!(memory(dir.path(), Version::V1), None);
        assert_eq!(cpu(dir.path(), Version::V1), None);
        Ok(())
    }

    #[test]
    fn differing_counts_are_distinguished_from_agreeing_ones() {
        assert_eq!(crosscheck(1000, 0), Agreement::Agrees);
        assert_eq!(crosscheck(104 << 20, 100 << 20), Agreement::Agrees);
        assert_eq!(crosscheck(50 << 20, 100 << 20), Agreement::GroupLess(0.5));
        assert_eq!(crosscheck(150 << 20, 100 << 20), Agreement::GroupMore(1.5));
    }
}
