//! A control group for one engine process: its limits of memory and I/O, and what it used.
//!
//! The memory limit includes the page cache, so that it also bounds stores that rely on it.
//!
//! Invariants
//! 1. A requested limit is in force, or no group is created: the error says what is missing. There
//!    is no fallback to limits inside an engine.
//! 2. A controller that is only needed for counting may be missing; its count is then `None`, and
//!    `missing` says why.
//! 3. A group is removed when it is dropped. `remove_stale` removes the groups of lab processes
//!    that were killed.
//!
//! On version 1, limits of I/O apply to what the group's own threads submit: reads, direct writes,
//! and what `fsync` writes. Background write-back and the file system's journal run in the root
//! group and are not limited.

mod limits;
mod owner;
mod place;
mod reading;

pub use limits::{DeviceNumber, IoLimits, Limits};
pub use owner::Owner;
pub use place::{Controller, Place, Version, place};
pub use reading::{
    Agreement, CpuCount, IoCount, IoScope, MemoryCount, Reading, crosscheck, crosscheck_io,
};

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::targets::Failure;

const PREFIX: &str = "frond-lab-";

/// Why a control group, or a part of it, cannot be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The kernel or the container has no such controller.
    NoController(Controller),
    /// A group with the controller cannot be made.
    NoGroup {
        /// The controller.
        controller: Controller,
        /// The last place where it was tried.
        parent: PathBuf,
        /// The kernel's error.
        error: String,
    },
    /// The kernel does not accept a setting.
    Setting {
        /// The file.
        file: PathBuf,
        /// What was written to it.
        value: String,
        /// The kernel's error.
        error: String,
    },
    /// I/O limits without a device.
    NoDevice,
    /// The process cannot be moved into the group.
    Process {
        /// The number.
        pid: u32,
        /// The kernel's error.
        error: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoController(controller) => {
                write!(f, "no control group has a controller for {controller:?} here")
            }
            Self::NoGroup { controller, parent, error } => write!(
                f,
                "no control group with a controller for {controller:?} can be made below {}: {error}",
                parent.display()
            ),
            Self::Setting { file, value, error } => {
                write!(f, "{} does not accept `{value}`: {error}", file.display())
            }
            Self::NoDevice => f.write_str("limits of I/O need a block device"),
            Self::Process { pid, error } => {
                write!(f, "process {pid} cannot be moved into the control group: {error}")
            }
        }
    }
}

impl Refusal {
    /// The missing controller, if that is the reason.
    pub fn controller(&self) -> Option<Controller> {
        match self {
            Self::NoController(controller) | Self::NoGroup { controller, .. } => Some(*controller),
            Self::Setting { .. } | Self::NoDevice | Self::Process { .. } => None,
        }
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.to_string())
    }
}

/// The group's directory in one hierarchy.
#[derive(Debug)]
struct Member {
    dir: PathBuf,
    /// The parent group, which takes the processes when this one is removed.
    parent: PathBuf,
    version: Version,
    controllers: Vec<Controller>,
}

/// A control group, with a directory in each hierarchy that it needs.
#[derive(Debug)]
pub struct Group {
    members: Vec<Member>,
    device: Option<DeviceNumber>,
    missing: Vec<Refusal>,
}

fn set(file: PathBuf, value: String) -> Result<(), Refusal> {
    let written = fs::write(&file, &value);
    written.map_err(|error| Refusal::Setting { file, value, error: error.to_string() })
}

impl Group {
    /// Makes a group and moves the process `pid` into it, with all its threads. Memory that the
    /// process already has stays charged where it is; to start a process in a group, use `create`
    /// and `prefix`.
    pub fn enter(pid: u32, limits: &Limits) -> Result<Self, Refusal> {
        let group = Self::create(limits)?;
        group.add(pid)?;
        Ok(group)
    }

    /// Makes a group without processes.
    pub fn create(limits: &Limits) -> Result<Self, Refusal> {
        Self::create_with(limits, place)
    }

    fn create_with(
        limits: &Limits,
        place: impl Fn(Controller) -> Option<Place>,
    ) -> Result<Self, Refusal> {
        if limits.device.is_none() && !limits.io.is_none() {
            return Err(Refusal::NoDevice);
        }
        let name = Owner::own().name(PREFIX);
        let mut group = Self { members: Vec::new(), device: limits.device, missing: Vec::new() };
        for controller in Controller::ALL {
            let needed = match controller {
                Controller::Memory => limits.memory.is_some(),
                Controller::Io => !limits.io.is_none(),
                Controller::Cpu => false,
            };
            if controller == Controller::Io && limits.device.is_none() {
                continue;
            }
            let made = place(controller).ok_or(Refusal::NoController(controller));
            match made.and_then(|place| group.join(controller, &place, &name)) {
                Ok(()) => {}
                Err(refusal) if needed => return Err(refusal),
                Err(refusal) => group.missing.push(refusal),
            }
        }
        if limits.io.is_none() {
            group.start_counting_io();
        }
        group.limit(limits)?;
        Ok(group)
    }

    /// Makes a directory with `controller` in the hierarchy of `place`, or shares the one already
    /// made there.
    fn join(&mut self, controller: Controller, place: &Place, name: &str) -> Result<(), Refusal> {
        let mut refusal = Refusal::NoController(controller);
        for parent in &place.parents {
            let dir = parent.join(name);
            if let Some(member) = self.members.iter_mut().find(|member| member.dir == dir)
                && has(&dir, controller, place.version)
            {
                member.controllers.push(controller);
                return Ok(());
            }
            match make(&dir, parent, controller, place.version) {
                Ok(()) => {
                    let (version, parent) = (place.version, parent.clone());
                    let controllers = vec![controller];
                    self.members.push(Member { dir, parent, version, controllers });
                    return Ok(());
                }
                Err(error) => {
                    let parent = parent.clone();
                    refusal = Refusal::NoGroup { controller, parent, error };
                }
            }
        }
        Err(refusal)
    }

    /// Makes Linux count the group's I/O. On version 1, it counts that of a disk only after some
    /// group's limit has been set for it (since 6.10); "no limit" is enough. Where that is refused,
    /// I/O is not counted.
    fn start_counting_io(&mut self) {
        let io = Controller::Io;
        let is_first = self.member(io).is_some_and(|member| member.version == Version::V1);
        if is_first && let Err(refusal) = self.limit_io(&IoLimits::default()) {
            for member in &mut self.members {
                member.controllers.retain(|controller| *controller != io);
            }
            self.missing.push(refusal);
        }
    }

    fn limit(&self, limits: &Limits) -> Result<(), Refusal> {
        if let (Some(bytes), Some(member)) = (limits.memory, self.member(Controller::Memory)) {
            set(member.dir.join(memory_file(member.version)), bytes.to_string())?;
        }
        if limits.io.is_none() { Ok(()) } else { self.limit_io(&limits.io) }
    }

    /// Replaces the limits of I/O. What `io` does not limit becomes unlimited.
    pub fn limit_io(&self, io: &IoLimits) -> Result<(), Refusal> {
        let Some(device) = self.device else {
            return if io.is_none() { Ok(()) } else { Err(Refusal::NoDevice) };
        };
        match self.member(Controller::Io) {
            Some(member) => limit_io_of(&member.dir, member.version, device, io),
            None if io.is_none() => Ok(()),
            None => Err(Refusal::NoController(Controller::Io)),
        }
    }

    /// Moves a process into the group, with all its threads.
    pub fn add(&self, pid: u32) -> Result<(), Refusal> {
        for member in &self.members {
            let moved = fs::write(member.dir.join("cgroup.procs"), pid.to_string());
            moved.map_err(|error| Refusal::Process { pid, error: error.to_string() })?;
        }
        Ok(())
    }

    /// Returns words to put before a command, so that it is in the group from its first
    /// instruction.
    pub fn prefix(&self) -> Vec<String> {
        let script = "while [ \"$1\" != -- ]; do echo $$ > \"$1\" || exit 126; shift; done; shift; exec \"$@\"";
        let mut words = ["sh", "-c", script, "sh"].map(str::to_owned).to_vec();
        let files = self.members.iter().map(|member| member.dir.join("cgroup.procs"));
        words.extend(files.map(|file| file.to_string_lossy().into_owned()));
        words.push("--".to_owned());
        words
    }

    /// Returns the controllers that could not be used (Invariant 2).
    pub fn missing(&self) -> &[Refusal] {
        &self.missing
    }

    fn member(&self, controller: Controller) -> Option<&Member> {
        self.members.iter().find(|member| member.controllers.contains(&controller))
    }

    /// Reads the counts.
    pub fn read(&self) -> Reading {
        let of = |controller| self.member(controller).map(|m| (m.dir.as_path(), m.version));
        Reading {
            memory: of(Controller::Memory).and_then(|(dir, v)| reading::memory(dir, v)),
            io: self.io(),
            cpu: of(Controller::Cpu).and_then(|(dir, v)| reading::cpu(dir, v)),
        }
    }

    /// Reads the count of I/O alone.
    pub fn io(&self) -> Option<IoCount> {
        let (member, device) = self.member(Controller::Io).zip(self.device)?;
        reading::io(&member.dir, member.version, device)
    }

    /// Returns the files in which the kernel counts what the group uses.
    pub fn count_files(&self) -> Vec<PathBuf> {
        const V1: &[&str] = &[
            "cpuacct.usage_user",
            "cpuacct.usage_sys",
            "memory.stat",
            "memory.max_usage_in_bytes",
            "blkio.throttle.io_service_bytes",
            "blkio.throttle.io_serviced",
        ];
        const V2: &[&str] = &[
            "cpu.stat",
            "io.stat",
            "memory.stat",
            "memory.peak",
            "cpu.pressure",
            "io.pressure",
            "memory.pressure",
        ];
        let of = |member: &Member| {
            let names = if member.version == Version::V1 { V1 } else { V2 };
            names.iter().map(|name| member.dir.join(name)).collect::<Vec<_>>()
        };
        self.members.iter().flat_map(of).filter(|file| file.is_file()).collect()
    }

    /// Which writes the count of I/O contains; `None` if I/O is not counted.
    pub fn io_scope(&self) -> Option<IoScope> {
        let member = self.member(Controller::Io)?;
        // The group that dirtied a page is charged for its write-back only if one group has both
        // controllers.
        let both = member.controllers.contains(&Controller::Memory);
        Some(if member.version == Version::V2 && both { IoScope::All } else { IoScope::Submitted })
    }

    /// Returns the largest memory charge, page cache included, bytes.
    pub fn memory_peak(&self) -> Option<u64> {
        self.read().memory?.peak
    }

    /// Starts a new peak of memory. False if the kernel cannot (version 2 before Linux 6.12).
    pub fn reset_memory_peak(&self) -> bool {
        let Some(member) = self.member(Controller::Memory) else { return false };
        let file = match member.version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        fs::write(member.dir.join(file), "0").is_ok()
    }

    /// Returns the memory limit in force, as the kernel rounded it.
    pub fn memory_limit(&self) -> Option<u64> {
        let member = self.member(Controller::Memory)?;
        let text = fs::read_to_string(member.dir.join(memory_file(member.version))).ok()?;
        text.trim().parse().ok()
    }

    /// Returns the limits of I/O in force.
    pub fn io_limits(&self) -> IoLimits {
        let Some((member, device)) = self.member(Controller::Io).zip(self.device) else {
            return IoLimits::default();
        };
        io_limits_of(&member.dir, member.version, device)
    }

    /// Removes the groups of lab processes that have ended, wherever in the hierarchies they are: a
    /// lab that was killed may have run in another session's group. Returns what was removed; a
    /// group that still has processes stays.
    pub fn remove_stale() -> Vec<PathBuf> {
        let mut tops: Vec<PathBuf> =
            Controller::ALL.into_iter().filter_map(place).map(|place| place.top).collect();
        tops.dedup(); // version 2 has one hierarchy for all controllers
        let mut removed = Vec::new();
        tops.iter().for_each(|top| remove_stale_below(top, GROUPS_DEEP, &mut removed));
        removed
    }
}

/// How deep to look for groups. Sessions and containers nest less.
const GROUPS_DEEP: usize = 8;

fn remove_stale_below(parent: &Path, deep: usize, removed: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let name = entry.file_name();
        match name.to_str().and_then(|name| Owner::of(name, PREFIX)) {
            Some(owner) if owner.lives() => {}
            Some(_) if remove(&entry.path()) => removed.push(entry.path()),
            _ if deep > 0 => remove_stale_below(&entry.path(), deep - 1, removed),
            _ => {}
        }
    }
}

fn memory_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.limit_in_bytes",
        Version::V2 => "memory.max",
    }
}

/// Whether the group in `dir` has the controller.
fn has(dir: &Path, controller: Controller, version: Version) -> bool {
    let file = match (controller, version) {
        (Controller::Memory, version) => memory_file(version),
        (Controller::Io, Version::V1) => "blkio.throttle.io_service_bytes",
        (Controller::Io, Version::V2) => "io.max",
        (Controller::Cpu, Version::V1) => "cpuacct.usage",
        (Controller::Cpu, Version::V2) => "cpu.stat", // counted without the controller
    };
    dir.join(file).exists()
}

/// Creates the group `dir` with `controller`; if that fails, nothing of it remains.
fn make(dir: &Path, parent: &Path, controller: Controller, version: Version) -> Result<(), String> {
    if version == Version::V2 && controller != Controller::Cpu {
        // The controller stays enabled for later groups; it costs nothing where no group uses it.
        let enabled = fs::read_to_string(parent.join("cgroup.subtree_control"));
        let enabled = enabled.map_err(|error| error.to_string())?;
        let name = controller.name(version);
        if !enabled.split_whitespace().any(|word| word == name) {
            fs::write(parent.join("cgroup.subtree_control"), format!("+{name}"))
                .map_err(|error| format!("+{name}: {error}"))?;
        }
    }
    let made = match fs::create_dir(dir) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error.to_string()),
    };
    if has(dir, controller, version) {
        return Ok(());
    }
    if made {
        let _ = fs::remove_dir(dir); // just made, and nothing is inside
    }
    Err("it comes without the controller".to_owned())
}

/// Sets the limits of a device in the group `dir`.
pub fn limit_io_of(
    dir: &Path,
    version: Version,
    device: DeviceNumber,
    io: &IoLimits,
) -> Result<(), Refusal> {
    match version {
        Version::V1 => io.parts().into_iter().try_for_each(|(limit, file, _)| {
            set(dir.join(file), format!("{device} {}", limit.unwrap_or(0))) // 0 is none
        }),
        Version::V2 => {
            let text = |n: Option<u64>| n.map_or("max".to_owned(), |n| n.to_string());
            let words = io.parts().map(|(limit, _, key)| format!("{key}={}", text(limit)));
            set(dir.join("io.max"), format!("{device} {}", words.join(" ")))
        }
    }
}

/// Reads the limits of a device in the group `dir`.
pub fn io_limits_of(dir: &Path, version: Version, device: DeviceNumber) -> IoLimits {
    let line_of = |file: &str| {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        let device = format!("{device} ");
        text.lines().find_map(|line| line.strip_prefix(&device).map(str::to_owned))
    };
    let found = IoLimits::default().parts().map(|(_, file, key)| match version {
        Version::V1 => line_of(file)?.trim().parse().ok(),
        Version::V2 => {
            let line = line_of("io.max")?;
            let value = line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
            value?.parse().ok() // `max` means no limit and does not parse
        }
    });
    let [read_bytes_s, write_bytes_s, read_ios_s, write_ios_s] = found;
    IoLimits { read_bytes_s, write_bytes_s, read_ios_s, write_ios_s }
}

/// Removes a group. A group whose last process has just ended may be busy for some milliseconds.
fn remove(dir: &Path) -> bool {
    for _ in 0..50 {
        match fs::remove_dir(dir) {
            Ok(()) => return true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return false,
            Err(_) if has_processes(dir) => return false,
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    false
}

fn has_processes(dir: &Path) -> bool {
    fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty())
}

impl Drop for Group {
    fn drop(&mut self) {
        for member in &self.members {
            let processes = fs::read_to_string(member.dir.join("cgroup.procs")).unwrap_or_default();
            for pid in processes.lines() {
                // A process that has ended meanwhile cannot be moved.
                let _ = fs::write(member.parent.join("cgroup.procs"), pid);
            }
            remove(&member.dir); // if it cannot be removed now, `remove_stale` does it later
        }
    }
}

#[cfg(test)]
mod tests;
