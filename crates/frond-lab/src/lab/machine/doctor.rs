//! `lab doctor`: what this machine can and cannot measure, and what each gap means.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use super::packages::{PACKAGES, apt_get};
use super::virtual_disk::{Kind, limits_in_root};
use super::{device, fingerprint, perf, probe};
use crate::lab::stdout::print;
use crate::measure::{Controller, Group, Limits, Version, place};
use crate::size::Bytes;
use crate::targets::{Failure, Result};

/// Options of `lab doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory in which experiments would keep their data
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub dir: PathBuf,
}

/// How far a capability is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Fully available.
    Good,
    /// Available with a restriction, which the consequence states.
    Limited,
    /// Not available.
    Missing,
    /// Not available, and nothing can run without it.
    Fatal,
}

/// One line of the doctor's table.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Name of the capability.
    pub what: &'static str,
    /// How far it is available.
    pub state: State,
    /// What was found.
    pub found: String,
    /// Consequence for experiments; empty if there is none.
    pub consequence: String,
    /// The missing package that would provide it.
    pub package: Option<&'static str>,
}

fn finding(
    what: &'static str,
    state: State,
    found: impl Into<String>,
    consequence: &str,
) -> Finding {
    let (found, consequence) = (found.into(), consequence.to_owned());
    Finding { what, state, found, consequence, package: None }
}

/// Examines the machine for experiments in `dir`.
pub fn examine(dir: &Path) -> Vec<Finding> {
    let mut all = vec![machine()];
    all.extend(directory(dir));
    all.extend([memory(), load(), cgroup(Controller::Memory), cgroup(Controller::Io)]);
    let throttled = throttle(dir);
    let disks = [tried_disk(Kind::Process, dir), tried_disk(Kind::Kernel, dir)];
    let calibrated = calibration(&disks, &throttled);
    all.extend([cgroup(Controller::Cpu), throttled, counters()]);
    all.extend(disks);
    all.push(calibrated);
    all.extend([versions(), embedded()]);
    all.extend(packages());
    all
}

fn machine() -> Finding {
    let found = format!(
        "{}, {}, Linux {}",
        crate::machine::cpu(),
        Bytes(crate::machine::memory_bytes()),
        crate::machine::kernel()
    );
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if cores < 2 {
        return finding("machine", State::Limited, found, "Client and server share one core.");
    }
    finding("machine", State::Good, found, "")
}

fn directory(dir: &Path) -> Vec<Finding> {
    let volume = match device::Volume::of(dir) {
        Ok(volume) => volume,
        Err(failure) => {
            return vec![finding("directory", State::Fatal, failure.0, "No data can be kept.")];
        }
    };
    let mut all = Vec::new();
    let free = format!("{} of {} free", Bytes(volume.free_b), Bytes(volume.size_b));
    all.push(match volume.free_b {
        b if b < 2 << 30 => {
            finding("space", State::Fatal, free, "Even the size `quick` needs 2 GiB of free space.")
        }
        b if b < 20 << 30 || b < volume.size_b / 4 => finding(
            "space",
            State::Limited,
            free,
            "Full disks are slower: a quarter should be free. The size `published` needs 20 GiB.",
        ),
        _ => finding("space", State::Good, free, ""),
    });
    all.push(match &volume.disk {
        Some(disk) => {
            let found = format!(
                "{} ({}), {}, {}, {}, scheduler {}, {}",
                disk.name,
                disk.number,
                disk.model,
                Bytes(disk.size_b),
                volume.file_system,
                disk.scheduler,
                disk.write_cache
            );
            finding("device", State::Good, found, "")
        }
        None => {
            let why = "Device bytes are not counted, and no storage class can be applied.";
            finding("device", State::Missing, format!("none ({})", volume.file_system), why)
        }
    });
    all.push(match probe::latency(dir) {
        Ok(latency) => honesty(latency),
        Err(failure) => {
            let why = "Engines that need direct I/O cannot run in this directory.";
            finding("latency", State::Missing, failure.0, why)
        }
    });
    all
}

/// Derives from the latencies of single I/Os whether caches below the kernel distort results.
fn honesty(latency: probe::Latency) -> Finding {
    let probe::Latency { read_us, sync_us } = latency;
    let found = format!("random read {read_us:.0} µs, write and fdatasync {sync_us:.0} µs");
    let read = "Reads come from a cache below this machine, so they are cheaper than on the disk that it claims to have.";
    let sync = "A sync takes no longer than a write to memory: data may not survive power loss.";
    match (read_us < 50.0, sync_us < 20.0) {
        (false, false) => finding("latency", State::Good, found, ""),
        (true, false) => finding("latency", State::Limited, found, read),
        (false, true) => finding("latency", State::Limited, found, sync),
        (true, true) => finding("latency", State::Limited, found, &format!("{read} {sync}")),
    }
}

fn memory() -> Finding {
    let (used, total) = fingerprint::swap_bytes();
    let available = fingerprint::available_bytes();
    let found = format!("{} available, swap {} of {}", Bytes(available), Bytes(used), Bytes(total));
    if available < 1 << 30 {
        let why = "Less than 1 GiB is available for an engine and its server.";
        return finding("memory", State::Limited, found, why);
    }
    if total > 0 {
        let why = "An engine over its limit would be swapped instead of stopped: turn swap off (swapoff -a).";
        return finding("memory", State::Limited, found, why);
    }
    finding("memory", State::Good, found, "")
}

fn load() -> Finding {
    let (steal, busy) = fingerprint::cpu_use();
    let load = crate::machine::load_average();
    let found = format!("load {load}, now {busy:.0} % busy, {steal:.1} % stolen");
    if steal >= 1.0 || busy >= fingerprint::BUSY_PCT {
        let why = "Rates are noisy now: trust CPU and bytes per operation, and ratios of interleaved runs.";
        return finding("load", State::Limited, found, why);
    }
    finding("load", State::Good, found, "")
}

fn cgroup(controller: Controller) -> Finding {
    let (what, without) = match controller {
        Controller::Memory => (
            "memory group",
            "Page-cache engines (SQLite, LMDB) run without a memory limit, and peak memory excludes the page cache.",
        ),
        Controller::Io => ("I/O group", "Device bytes are taken from /proc/PID/io."),
        Controller::Cpu => ("CPU group", "CPU is taken from /proc/PID/stat, in ticks of 10 ms."),
    };
    let Some(place) = place(controller) else {
        return finding(what, State::Missing, "the kernel has no such controller", without);
    };
    let version = match place.version {
        Version::V1 => "cgroup version 1",
        Version::V2 => "cgroup version 2",
    };
    let found = format!("{version}, {}", controller.name(place.version));
    let limits = Limits {
        memory: (controller == Controller::Memory).then_some(1 << 30),
        device: (controller == Controller::Io)
            .then_some(crate::measure::DeviceNumber { major: 0, minor: 0 }),
        ..Limits::default()
    };
    let made = Group::create(&limits);
    let refusal = match &made {
        Err(refusal) => Some(refusal),
        Ok(group) => {
            group.missing().iter().find(|refusal| refusal.controller() == Some(controller))
        }
    };
    if let Some(refusal) = refusal {
        return finding(what, State::Missing, format!("{found}: {refusal}"), without);
    }
    if controller == Controller::Io && place.version == Version::V1 {
        let why = "Background writes of the page cache and the file system's journal are neither limited nor counted \
                   for the engine: such cells are marked, and their bytes are taken from /proc/PID/io.";
        return finding(what, State::Limited, found, why);
    }
    finding(what, State::Good, found, "")
}

/// Tries whether direct I/O can be throttled in `dir`.
pub fn throttles(dir: &Path) -> bool {
    throttle(dir).state == State::Good
}

fn throttle(dir: &Path) -> Finding {
    const WHAT: &str = "I/O throttle";
    let without = "Storage classes other than `host` cannot be applied to this directory.";
    match probe::throttle(dir) {
        Err(failure) => finding(WHAT, State::Missing, failure.0, without),
        Ok(tried) => {
            let found = format!(
                "20 direct writes took {:.2} s under a limit of 20 per second, {:.2} s without",
                tried.limited_s, tried.free_s
            );
            if tried.works() {
                finding(WHAT, State::Good, found, "")
            } else {
                finding(WHAT, State::Missing, found, without)
            }
        }
    }
}

fn counters() -> Finding {
    match perf::instructions() {
        Ok(()) => finding("CPU counters", State::Good, "instructions are counted", ""),
        Err(error) => finding(
            "CPU counters",
            State::Missing,
            format!("the kernel offers none to programs ({error})"),
            "Instructions per operation cannot be counted. Only CPU time is measured, which varies by a few percent.",
        ),
    }
}

fn openable(path: &str) -> std::result::Result<(), String> {
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.map(drop).map_err(|error| format!("{path}: {error}"))
}

/// Checks whether a virtual disk of this kind can be created.
pub fn virtual_disk(kind: Kind) -> Finding {
    let loops = openable("/dev/loop-control");
    match kind {
        Kind::Process => {
            let what = "--disk virtual";
            let found = loops.and_then(|()| openable("/dev/fuse")).and_then(|()| root());
            let why = "`--disk virtual` cannot be used: latency is not emulated, and only cgroup version 2 throttles \
                       buffered writes.";
            match found {
                Ok(()) => finding(what, State::Good, "FUSE and loop devices", ""),
                Err(found) => finding(what, State::Missing, found, why),
            }
        }
        Kind::Kernel => {
            let what = "--disk loop";
            let found = loops
                .and_then(|()| root())
                .and_then(|()| limits_in_root().map(drop).map_err(|failure| failure.0));
            let why = "`--disk loop` cannot be used: the kernel's root group does not throttle buffered writes.";
            match found {
                Ok(()) => finding(what, State::Good, "loop devices, limits in the root group", ""),
                Err(found) => finding(what, State::Missing, found, why),
            }
        }
    }
}

/// Checks a kind of virtual disk by creating one, writing to it and removing it.
fn tried_disk(kind: Kind, dir: &Path) -> Finding {
    let said = virtual_disk(kind);
    if said.state != State::Good {
        return said;
    }
    match probe::disk(dir, kind) {
        Err(failure) => {
            let why = "Disks of this kind cannot be used in this directory.";
            finding(said.what, State::Missing, failure.0, why)
        }
        Ok(tried) => {
            let found = format!(
                "{}: 4 MiB through the page cache took {:.2} s at 4 MiB per second, {:.2} s without a limit",
                said.found, tried.limited_s, tried.free_s
            );
            if tried.works() {
                finding(said.what, State::Good, found, "")
            } else {
                let why = "Disks of this kind do not throttle here, and must not be used.";
                finding(said.what, State::Missing, found, why)
            }
        }
    }
}

/// Checks that this process may create devices and mounts, which takes root.
fn root() -> std::result::Result<(), String> {
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err("this user is not root".to_owned()),
    }
}

/// Checks whether the limits of `sata-2015` can be calibrated, and which I/O they apply to.
fn calibration(disks: &[Finding], throttle: &Finding) -> Finding {
    const WHAT: &str = "sata-2015";
    if let Some(disk) = disks.iter().find(|disk| disk.state == State::Good) {
        return finding(
            WHAT,
            State::Good,
            format!("its limits are calibrated with {}", disk.what),
            "",
        );
    }
    match throttle.state {
        State::Good => finding(
            WHAT,
            State::Limited,
            "its limits are calibrated with control groups",
            "They apply to direct I/O only, and such cells are marked `throttle=partial`.",
        ),
        _ => {
            finding(WHAT, State::Missing, throttle.found.clone(), "The class cannot be used here.")
        }
    }
}

fn versions() -> Finding {
    const WHAT: &str = "frond@COMMIT";
    match crate::lab::version::missing() {
        Ok(missing) if missing.is_empty() => finding(WHAT, State::Good, "commits can be built", ""),
        Ok(missing) => finding(
            WHAT,
            State::Limited,
            format!("missing: {}", missing.join(", ")),
            "Commits can be embedded targets only. `make mariadb-plugin` fetches what their plugin needs.",
        ),
        Err(failure) => finding(WHAT, State::Missing, failure.0, "No commit can be a target."),
    }
}

fn embedded() -> Finding {
    let rivals = [
        ("rocksdb", cfg!(has_rocksdb)),
        ("sqlite", cfg!(has_sqlite3)),
        ("lmdb", cfg!(has_lmdb)),
        ("tidesdb", cfg!(feature = "tidesdb")),
    ];
    let list = |built: bool| {
        let names = rivals.iter().filter(|(_, has)| *has == built).map(|(name, _)| *name);
        names.collect::<Vec<_>>().join(", ")
    };
    if rivals.iter().all(|(_, built)| *built) {
        return finding("embedded rivals", State::Good, format!("{} are built in", list(true)), "");
    }
    let why = "They are left out: `make lab-build` installs their libraries and builds them in.";
    finding("embedded rivals", State::Limited, format!("{} not built in", list(false)), why)
}

fn packages() -> Vec<Finding> {
    let find = |package: &'static super::packages::Package| match package.version() {
        Some(version) => finding(package.name, State::Good, version, ""),
        None => Finding {
            package: Some(package.name),
            ..finding(
                package.name,
                State::Missing,
                "not installed",
                &format!("Without it, {}.", package.without),
            )
        },
    };
    PACKAGES.iter().map(find).collect()
}

/// Formats the findings as a table, followed by the command that installs the missing packages.
pub fn table(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.what.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Good => "yes",
            State::Limited => "partly",
            State::Missing => "no",
            State::Fatal => "STOP",
        };
        let _ = writeln!(text, "{:width$}  {state:6}  {}", finding.what, finding.found);
        if !finding.consequence.is_empty() {
            let _ = writeln!(text, "{:width$}          {}", "", finding.consequence);
        }
    }
    let missing: Vec<&str> = findings.iter().filter_map(|finding| finding.package).collect();
    if !missing.is_empty() {
        let _ = writeln!(text, "\nTo install what is missing: {}", apt_get(&missing));
    }
    text
}

/// Prints the findings. Fails only if nothing can be run.
pub fn run(args: &Args) -> Result<()> {
    let findings = examine(&args.dir);
    print(&table(&findings))?;
    match findings.iter().find(|finding| finding.state == State::Fatal) {
        Some(fatal) => Err(Failure(format!("nothing can be run: {}", fatal.found))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_has_a_consequence_and_every_package_its_command() {
        let findings = examine(Path::new(env!("CARGO_MANIFEST_DIR")));
        for finding in &findings {
            assert!(!finding.found.is_empty(), "{finding:?}");
            assert!(
                finding.state == State::Good || finding.consequence.ends_with('.'),
                "{finding:?}"
            );
        }
        let text = table(&findings);
        for package in PACKAGES {
            assert!(text.contains(package.name), "{text}");
        }
        for name in findings.iter().filter_map(|finding| finding.package) {
            assert!(text.lines().last().is_some_and(|line| line.contains(name)), "{text}");
        }
    }

    #[test]
    fn doctor_reports_which_cgroups_work() {
        let limits = Limits { memory: Some(1 << 30), ..Limits::default() };
        let said = cgroup(Controller::Memory).state;
        assert_eq!(said == State::Good, Group::create(&limits).is_ok());
        if cgroup(Controller::Cpu).state == State::Good {
            let group = Group::create(&Limits::default()).unwrap();
            assert!(group.read().cpu.is_some());
        }
    }

    #[test]
    fn a_read_or_a_sync_that_is_too_fast_is_pointed_out() {
        let of = |read_us, sync_us| honesty(probe::Latency { read_us, sync_us });
        assert_eq!(of(120.0, 900.0).state, State::Good);
        assert!(of(20.0, 900.0).consequence.contains("cache"));
        assert!(of(120.0, 3.0).consequence.contains("power loss"));
    }

    #[test]
    fn only_an_unusable_directory_is_fatal() {
        let findings = directory(Path::new("/nonexistent/directory"));
        assert_eq!(findings[0].state, State::Fatal);
        let args = Args { dir: PathBuf::from("/nonexistent/directory") };
        assert!(run(&args).is_err());
        let none = finding("CPU counters", State::Missing, "not supported", "They are missing.");
        assert!(table(&[none]).contains("no      not supported\n"));
    }
}
