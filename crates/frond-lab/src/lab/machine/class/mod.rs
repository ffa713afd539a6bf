//! Storage classes: the device that an experiment should run on, and how far this machine can
//! provide it.
//!
//! Invariants
//! 1. A class is enforced by the kernel or by a virtual disk. The code of an engine is never slowed
//!    down.
//! 2. Limits can only slow a device down: a class that is faster than the device, as fio measures
//!    it, is refused.
//! 3. Every cell states which I/O escapes the limits (`Throttled`), and what is not emulated
//!    (`remarks`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::device::{Disk, Volume};
use super::fio::{self, Fio};
use super::virtual_disk::{Kind, Options, VirtualDisk};
use crate::lab::suggest::unknown;
use crate::measure::{Group, IoCount, IoLimits, IoScope, Limits, Reading};
use crate::size::Bytes;
use crate::targets::{Failure, Result};

const FILE: &str = include_str!("../../../../lab/classes.toml");

/// A class of storage devices, with its rates and latencies.
#[derive(Clone, PartialEq, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    /// The device that the class emulates.
    pub model: String,
    read_bytes_s: Option<u64>,
    write_bytes_s: Option<u64>,
    read_ios_s: Option<u64>,
    write_ios_s: Option<u64>,
    /// Duration of an I/O on that device, µs. Only a virtual disk can emulate it.
    pub latency_us: Option<u64>,
    /// Duration of a flush on that device, µs. Only a virtual disk can emulate it.
    pub sync_us: Option<u64>,
    /// If set, the limits are those under which plain InnoDB falls to this fraction of its rate
    /// (`calibrate`).
    pub calibrate_ratio: Option<f64>,
    #[serde(default)]
    remarks: Vec<String>,
}

/// How much of a cell's I/O is throttled.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Throttled {
    /// All I/O.
    #[default]
    All,
    /// Only what the engine's own threads submit; the rest escapes, for this reason.
    DirectOnly(String),
    /// Nothing, for this reason.
    Nothing(String),
}

impl Throttled {
    /// The value of the setting `throttle` of a cell. Charts of throttled storage use it to leave
    /// cells out.
    pub fn mark(&self) -> &'static str {
        match self {
            Self::All => "full",
            Self::DirectOnly(_) => "partial",
            Self::Nothing(_) => "none",
        }
    }
}

/// How a process is limited and counted.
#[derive(Debug, Default)]
pub struct Confined {
    /// The control group, if one could be made.
    pub group: Option<Group>,
    /// The private disk that its files are on, which counts all of their I/O.
    pub disk: Option<Disk>,
    /// What is throttled.
    pub throttled: Throttled,
    /// What is not limited or counted, and why.
    pub remarks: Vec<String>,
}

impl Confined {
    /// Reads the counters of the control group. On a private disk, I/O is counted by the disk
    /// instead, which sees all of it.
    pub fn counts(&self) -> Option<Reading> {
        let reading = self.group.as_ref().map(Group::read);
        match self.disk.as_ref().and_then(Disk::count) {
            Some(of_disk) => Some(Reading { io: Some(of_disk.io), ..reading.unwrap_or_default() }),
            None => reading,
        }
    }

    /// Reads the count of I/O alone.
    pub fn io(&self) -> Option<IoCount> {
        let of_disk = self.disk.as_ref().and_then(Disk::count).map(|count| count.io);
        of_disk.or_else(|| self.group.as_ref()?.io())
    }

    /// Starts a new peak of the group's memory.
    pub fn reset_memory_peak(&self) {
        self.group.as_ref().map(Group::reset_memory_peak);
    }

    /// Settings that describe the storage of a cell.
    pub fn settings(&self, class: &Class, disk: Option<Kind>) -> Vec<(String, String)> {
        let mut remarks = class.remarks(disk == Some(Kind::Process));
        let mut settings = Vec::new();
        if !class.io().is_none() {
            settings.push(("throttle", self.throttled.mark().to_owned()));
            settings.push(("(limits)", class.io().to_string()));
            remarks.push(self.throttled.to_string());
        }
        remarks.extend(self.remarks.iter().cloned());
        if let Some(kind) = disk {
            settings.push(("(disk)", kind.to_string()));
        }
        if !remarks.is_empty() {
            settings.push(("(storage)", remarks.join("; ")));
        }
        settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl fmt::Display for Throttled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all I/O is throttled"),
            Self::DirectOnly(why) => write!(f, "only direct I/O is throttled: {why}"),
            Self::Nothing(why) => write!(f, "not throttled: {why}"),
        }
    }
}

/// All classes, sorted by name.
pub fn all() -> Result<Vec<Class>> {
    parse(FILE)
}

fn parse(text: &str) -> Result<Vec<Class>> {
    let classes: BTreeMap<String, Class> =
        toml::from_str(text).map_err(|error| Failure(format!("classes.toml: {error}")))?;
    Ok(classes.into_iter().map(|(name, class)| Class { name, ..class }).collect())
}

/// Finds a class by name. The failure lists the nearest names.
pub fn find(name: &str) -> Result<Class> {
    let classes = all()?;
    let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
    let found = classes.iter().find(|class| class.name == name).cloned();
    found.ok_or_else(|| unknown("storage class", name, &names))
}

impl Class {
    /// The limits of the class.
    pub fn io(&self) -> IoLimits {
        IoLimits {
            read_bytes_s: self.read_bytes_s,
            write_bytes_s: self.write_bytes_s,
            read_ios_s: self.read_ios_s,
            write_ios_s: self.write_ios_s,
        }
    }

    /// A copy of the class with other limits, such as those that a calibration found.
    pub fn with(&self, io: IoLimits) -> Self {
        Self {
            read_bytes_s: io.read_bytes_s,
            write_bytes_s: io.write_bytes_s,
            read_ios_s: io.read_ios_s,
            write_ios_s: io.write_ios_s,
            ..self.clone()
        }
    }

    /// Notes on the class for readers of the results.
    pub fn remarks(&self, latency_emulated: bool) -> Vec<String> {
        let mut remarks = self.remarks.clone();
        if let (Some(latency), false) = (self.latency_us, latency_emulated) {
            remarks.push(format!("latency not emulated (the device's: {latency} µs)"));
        }
        remarks
    }

    /// Limits for the control group of an experiment with its data in `dir`. Fails if the class has
    /// limits and the directory has no block device.
    pub fn limits(&self, dir: &Path, memory: Option<u64>) -> Result<Limits> {
        let volume = Volume::of(dir)?;
        let io = self.io();
        let device = if io.is_none() { volume.disk.as_ref() } else { Some(volume.disk()?) };
        Ok(Limits { memory, device: device.map(|disk| disk.number), io })
    }

    /// Puts a process with its data in `dir` into a control group with the limits of the class, or
    /// into one that only counts if the class has none. On a private disk, which enforces the
    /// limits itself and counts I/O, that group has no I/O controller. With `memory`, the group may
    /// use that many bytes, page cache included; if that cannot be enforced here, the remarks say
    /// so.
    ///
    /// # Errors
    /// The class has limits, and a group with them cannot be created.
    pub fn confine(
        &self,
        pid: u32,
        dir: &Path,
        disk: Option<Kind>,
        memory: Option<u64>,
    ) -> Result<Confined> {
        let (limits, own) = match disk {
            Some(_) => (Limits { memory, ..Limits::default() }, Volume::of(dir)?.disk),
            None => (self.limits(dir, memory)?, None),
        };
        match Group::enter(pid, &limits) {
            Ok(group) => {
                let remarks = group.missing().iter().map(ToString::to_string).collect();
                let throttled = match disk {
                    Some(_) => Throttled::All,
                    None => self.throttled(&group),
                };
                Ok(Confined { group: Some(group), disk: own, throttled, remarks })
            }
            // Without a limit of memory, the group can still limit or count I/O.
            Err(refusal) if memory.is_some() => {
                let mut confined = self.confine(pid, dir, disk, None)?;
                confined.remarks.push(format!("page cache not limited: {refusal}"));
                Ok(confined)
            }
            Err(refusal) if limits.io.is_none() => Ok(Confined {
                disk: own,
                remarks: vec![refusal.to_string()],
                ..Confined::default()
            }),
            Err(refusal) => Err(Failure(format!("storage class {}: {refusal}", self.name))),
        }
    }

    /// How much of the I/O of `group`, which was created with `limits`, is throttled.
    pub fn throttled(&self, group: &Group) -> Throttled {
        throttled(&self.io(), group.io_scope())
    }

    /// Refuses the class if the device, measured without limits, is slower (Invariant 2).
    pub fn check(&self, host: &Fio) -> Result<()> {
        let mut slower = Vec::new();
        let mut compare = |wanted: Option<u64>, measured: f64, what: &str| {
            // 5 % is the spread of fio itself.
            if wanted.is_some_and(|wanted| measured < 0.95 * wanted as f64) {
                let wanted = wanted.unwrap_or(0);
                slower.push(format!("{what}: {measured:.0} measured, {wanted} wanted"));
            }
        };
        compare(self.read_ios_s, host.random_read_32.ios_s, "random reads per second");
        compare(self.write_ios_s, host.random_write_32.ios_s, "random writes per second");
        compare(self.read_bytes_s, host.read.bytes_s, "bytes read per second");
        compare(self.write_bytes_s, host.write.bytes_s, "bytes written per second");
        if slower.is_empty() {
            return Ok(());
        }
        let (name, slower) = (&self.name, slower.join("; "));
        Err(Failure(format!("storage class {name} is faster than this device: {slower}")))
    }
}

fn throttled(io: &IoLimits, scope: Option<IoScope>) -> Throttled {
    match scope {
        _ if io.is_none() => Throttled::All, // there is nothing to throttle
        Some(IoScope::All) => Throttled::All,
        Some(IoScope::Submitted) => Throttled::DirectOnly(
            "with control groups of version 1, background write-back and the file system's journal escape"
                .to_owned(),
        ),
        None => Throttled::Nothing("there is no control group for I/O".to_owned()),
    }
}

/// A class as measured in a directory before a run.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The device without limits.
    pub host: Fio,
    /// The device under the class: the numbers to print. Equal to `host` if the class has no
    /// limits.
    pub measured: Fio,
    /// How much of the I/O is throttled.
    pub throttled: Throttled,
}

/// Measures the device of `dir` without limits and under the class; each job of fio runs for `job`.
/// Refuses a class that is faster than the device or cannot be applied.
pub fn admit(class: &Class, dir: &Path, job: Duration) -> Result<Admission> {
    let limits = class.limits(dir, None)?;
    let host = fio::run(dir, None, job)?;
    if limits.io.is_none() {
        let measured = host.clone();
        return Ok(Admission { host, measured, throttled: Throttled::All });
    }
    class.check(&host)?;
    let group = Group::create(&limits)?;
    let measured = fio::run(dir, Some(&group), job)?;
    let throttled = class.throttled(&group);
    Ok(Admission { host, measured, throttled })
}

/// Measures the class on a new private disk below `dir` with the limits of the class. The host's
/// device must be at least as fast as the class here too, since a virtual disk can only slow it
/// down.
pub fn admit_disk(
    class: &Class,
    dir: &Path,
    size: Bytes,
    kind: Kind,
    job: Duration,
) -> Result<(VirtualDisk, Admission)> {
    let options = Options::of(class, size, kind)?;
    let host = fio::run(dir, None, job)?;
    class.check(&host)?;
    let disk = VirtualDisk::create(dir, &options)?;
    let measured = fio::run(&disk.path(), None, job)?;
    let throttled = disk.throttled();
    Ok((disk, Admission { host, measured, throttled }))
}

/// Result of a calibration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Calibrated {
    /// The limits.
    pub limits: Limits,
    /// Factor by which the limits of the base were multiplied.
    pub factor: f64,
    /// The rate measured with these limits, divided by the unthrottled rate.
    pub ratio: f64,
    /// Number of runs of the probe.
    pub probes: usize,
}

/// Relative deviation from the wanted ratio at which a calibration succeeds.
const CALIBRATION_TOLERANCE: f64 = 0.05;
/// The search starts at factor 1 and moves by this step until the wanted ratio lies between two
/// factors…
const CALIBRATION_STEP: f64 = 4.0;
/// …or until it made this many steps: 4^8 takes 80,000 I/Os per second down to 1.
const CALIBRATION_STEPS: usize = 8;
/// Number of bisections after that: the last interval is then 4^(1/64) wide, 2 %, which is less
/// than the noise.
const CALIBRATION_HALVINGS: usize = 6;

/// Finds the factor of `base` at which the rate that `probe` measures falls to `target_ratio` of
/// the unthrottled rate.
///
/// The probe runs once without I/O limits, then under limits, 15 times at most. The search assumes
/// that more I/O gives a higher rate. Noise may violate that; the result is then the nearest of all
/// measured ratios.
pub fn calibrate(
    base: &Limits,
    target_ratio: f64,
    probe: &mut dyn FnMut(Limits) -> Result<f64>,
) -> Result<Calibrated> {
    if !(target_ratio > 0.0 && target_ratio < 1.0) || base.io.is_none() {
        return Err(Failure(format!("limits cannot be calibrated for a ratio of {target_ratio}")));
    }
    let free = probe(Limits { io: IoLimits::default(), ..*base })?;
    if free.is_nan() || free <= 0.0 {
        return Err(Failure(format!("the unthrottled rate is {free}: nothing to calibrate by")));
    }
    let mut best: Option<Calibrated> = None;
    let mut probes = 1;
    let mut ratio_at = |factor: f64, best: &mut Option<Calibrated>| -> Result<f64> {
        let limits = base.scaled(factor);
        let ratio = probe(limits)? / free;
        probes += 1;
        let distance = |ratio: f64| (ratio / target_ratio).ln().abs();
        let found = Calibrated { limits, factor, ratio, probes };
        match best {
            Some(best) if distance(best.ratio) <= distance(ratio) => best.probes = probes,
            _ => *best = Some(found),
        }
        Ok(ratio)
    };
    let near = |ratio: f64| (ratio / target_ratio - 1.0).abs() <= CALIBRATION_TOLERANCE;
    let first = ratio_at(1.0, &mut best)?;
    let too_fast = first > target_ratio;
    let step = if too_fast { 1.0 / CALIBRATION_STEP } else { CALIBRATION_STEP };
    let (mut inside, mut outside, mut ratio) = (1.0, 1.0, first);
    for _ in 0..CALIBRATION_STEPS {
        if near(ratio) || (ratio > target_ratio) != too_fast {
            break;
        }
        (inside, outside) = (outside, outside * step);
        ratio = ratio_at(outside, &mut best)?;
    }
    if !near(ratio) && (ratio > target_ratio) == too_fast {
        let side = if too_fast { "above" } else { "below" };
        return Err(Failure(format!(
            "no limits were found: with those of the class times {outside} the rate is {ratio:.3} of the unthrottled \
             one, still {side} {target_ratio}"
        )));
    }
    for _ in 0..CALIBRATION_HALVINGS {
        if near(ratio) {
            break;
        }
        let middle = f64::sqrt(inside * outside);
        ratio = ratio_at(middle, &mut best)?;
        *(if (ratio > target_ratio) == too_fast { &mut inside } else { &mut outside }) = middle;
    }
    best.ok_or_else(|| Failure("no limits were tried".to_owned()))
}

#[cfg(test)]
mod tests;
