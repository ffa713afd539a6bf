//! Short measurements of a directory's device without fio: how long a read and a sync take, and
//! whether limits work.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::device::Volume;
use super::virtual_disk;
use crate::measure::{Group, IoLimits, Limits};
use crate::random::Random;
use crate::size::Bytes;
use crate::targets::{Failure, Result};

/// Alignment that direct I/O needs on every disk.
pub const PAGE: usize = 4096;

/// Latencies of I/Os issued one at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Latency {
    /// Median time of a direct read of 4 KiB at a random offset, µs.
    pub read_us: f64,
    /// Median time of a direct write of 4 KiB with `fdatasync`, µs.
    pub sync_us: f64,
}

/// A buffer whose first byte is aligned for direct I/O.
#[derive(Debug)]
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    /// Allocates `len` zeros.
    pub fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE);
        Self { bytes, start, len }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl std::ops::DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

/// A newly created file for direct I/O, removed when dropped. An existing file is never opened.
struct Scratch {
    file: File,
    path: std::path::PathBuf,
}

impl Scratch {
    fn new(dir: &Path) -> Result<Self> {
        let path = dir.join(crate::measure::Owner::own().name("frond-lab-probe-"));
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        let file = options.custom_flags(libc::O_DIRECT).open(&path).map_err(|error| {
            Failure(format!("{}: a file for direct I/O: {error}", path.display()))
        })?;
        Ok(Self { file, path })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // a leftover is small, and names this process
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e6)
}

/// Measures single I/Os in `dir`: 16 MiB written, 200 reads, 30 syncs.
pub fn latency(dir: &Path) -> Result<Latency> {
    const BLOCKS: u64 = 4096;
    let scratch = Scratch::new(dir)?;
    let mut chunk = Aligned::new(1 << 20);
    let mut random = Random::new(1);
    random.fill(&mut chunk); // writing zeros may cost nothing
    let chunks = BLOCKS * PAGE as u64 / chunk.len() as u64;
    for n in 0..chunks {
        scratch.file.write_all_at(&chunk, n * chunk.len() as u64)?;
    }
    scratch.file.sync_all()?;
    let mut page = Aligned::new(PAGE);
    let mut place = || random.below(BLOCKS) * PAGE as u64;
    let reads = (0..200).map(|_| {
        let (at, start) = (place(), Instant::now());
        scratch.file.read_exact_at(&mut page, at).map(|()| start.elapsed())
    });
    let read_us = median(reads.collect::<std::io::Result<_>>()?);
    let syncs = (0..30).map(|_| {
        let (at, start) = (place(), Instant::now());
        scratch.file.write_all_at(&chunk[..PAGE], at)?;
        scratch.file.sync_data().map(|()| start.elapsed())
    });
    let sync_us = median(syncs.collect::<std::io::Result<_>>()?);
    Ok(Latency { read_us, sync_us })
}

/// Outcome of trying an I/O limit.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Throttle {
    /// Seconds that the writes should take under the limit.
    pub expected_s: f64,
    /// Seconds that they took without the limit.
    pub free_s: f64,
    /// Seconds that they took under the limit.
    pub limited_s: f64,
}

impl Throttle {
    /// Whether the limit slowed the writes down.
    pub fn works(&self) -> bool {
        self.limited_s >= 0.5 * self.expected_s && self.limited_s >= 2.0 * self.free_s
    }
}

/// Tries a limit of 20 writes per second on 20 direct writes in `dir`.
pub fn throttle(dir: &Path) -> Result<Throttle> {
    const WRITES: u64 = 20;
    let volume = Volume::of(dir)?;
    let device = Some(volume.disk()?.number);
    let scratch = Scratch::new(dir)?;
    let mut seconds = [0.0; 2];
    let limited = IoLimits { write_ios_s: Some(WRITES), ..IoLimits::default() };
    for (seconds, io) in seconds.iter_mut().zip([IoLimits::default(), limited]) {
        let group = Group::create(&Limits { memory: None, device, io })?;
        if let Some(refusal) = group.missing().iter().find(|_| group.io_scope().is_none()) {
            return Err(refusal.clone().into());
        }
        let words = group.prefix();
        let start = Instant::now();
        let status = Command::new(&words[0])
            .args(&words[1..])
            .args(["dd", "if=/dev/zero", "bs=4096", "oflag=direct", "conv=notrunc"])
            .arg(format!("count={WRITES}"))
            .arg(format!("of={}", scratch.path.display()))
            .stderr(Stdio::null())
            .status()?;
        *seconds = start.elapsed().as_secs_f64();
        if !status.success() {
            return Err(Failure(format!("dd in a control group ended with {status}")));
        }
    }
    let [free_s, limited_s] = seconds;
    Ok(Throttle { expected_s: 1.0, free_s, limited_s })
}

/// Tries a disk of this kind, limited to 4 MiB per second, by writing 4 MiB through the page cache
/// and syncing them. Unlike in `throttle`, which uses direct I/O, the limit has to apply to the
/// kernel's own writes.
pub fn disk(dir: &Path, kind: virtual_disk::Kind) -> Result<Throttle> {
    const BYTES: usize = 4 << 20;
    let free = IoLimits {
        read_ios_s: Some(virtual_disk::PROCESS_IOS_MAX),
        write_ios_s: Some(virtual_disk::PROCESS_IOS_MAX),
        ..IoLimits::default()
    };
    let limited = IoLimits { write_bytes_s: Some(BYTES as u64), ..free };
    let (latency, flush) = (Duration::ZERO, None);
    let size = Bytes::mebi(64);
    let mut disk = virtual_disk::VirtualDisk::create(
        dir,
        &virtual_disk::Options { size, io: free, latency, flush, kind },
    )?;
    let mut seconds = [0.0; 2];
    for (seconds, io) in seconds.iter_mut().zip([free, limited]) {
        disk.limit(&io)?;
        let start = Instant::now();
        let file = File::create(disk.path().join("probe"))?;
        file.write_all_at(&vec![1; BYTES], 0)?;
        file.sync_all()?;
        *seconds = start.elapsed().as_secs_f64();
    }
    disk.close()?;
    let [free_s, limited_s] = seconds;
    Ok(Throttle { expected_s: 1.0, free_s, limited_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_aligned_and_has_the_requested_length() {
        for len in [0, 1, 4096, 100_000] {
            let buffer = Aligned::new(len);
            assert_eq!(buffer.len(), len);
            assert_eq!(buffer.as_ptr() as usize % PAGE, 0);
        }
    }

    #[test]
    fn a_limit_works_only_if_it_makes_the_difference() {
        let of = |free_s, limited_s| Throttle { expected_s: 1.0, free_s, limited_s }.works();
        assert!(of(0.02, 0.97));
        assert!(!of(0.02, 0.03), "it changed nothing");
        assert!(!of(0.9, 1.0), "the disk is as slow by itself");
    }

    #[test]
    fn a_probe_leaves_no_file() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        match latency(dir.path()) {
            Ok(latency) => assert!(latency.read_us > 0.0 && latency.sync_us > 0.0),
            Err(failure) => eprintln!("not tested: {failure}"),
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(latency(Path::new("/nonexistent")).is_err());
    }
}
