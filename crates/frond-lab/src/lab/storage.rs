//! The storage of a run's cells: the host's disk, limited by control groups, or a private disk
//! (`--disk`).
//!
//! The process of the run creates a new disk for each cell and removes it afterwards. So the CPU
//! that serving the disk takes is counted neither for the engine nor for the client.
//!
//! The limits of a class with `calibrate_ratio` are found before its first run, by short runs of
//! LinkBench on plain InnoDB. They are stored in the environment of that run, where later runs
//! under the same conditions find them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cell_spec::CellSpec;
use super::machine::class::{self, Class};
use super::machine::doctor::{self, State as Found};
use super::machine::virtual_disk::{Kind, Options, PROCESS_IOS_MAX};
use super::machine::{self, IoLimits, Limits, VirtualDisk};
use super::results::{CellResult, Database};
use super::run::Request;
use super::size::{Face, Size};
use crate::measure;
use crate::size::Bytes;
use crate::targets::{Failure, Result};

/// Duration of each job of fio before a run.
const FIO_JOB: Duration = Duration::from_secs(1);
/// Size of the disk on which fio measures a class.
const FIO_DISK: Bytes = Bytes::mebi(512);
/// Names of the environment entries with the result of a calibration, and with its conditions.
pub const CALIBRATED: &str = "calibrated";
const CALIBRATED_FOR: &str = "calibrated for";

/// A name and its value.
type Pair = (String, String);

/// Refuses a class or disk that this machine cannot provide, before anything is created.
///
/// # Errors
/// The class is unknown or too fast for the disk, or the disk cannot be created here.
pub fn check(request: &Request) -> Result<()> {
    let class = class::find(&request.class)?;
    let Some(kind) = request.disk else { return Ok(()) };
    let said = doctor::virtual_disk(kind);
    if said.state != Found::Good {
        return Err(Failure(format!("--disk {kind}: {}. {}", said.found, said.consequence)));
    }
    let io = match class.calibrate_ratio {
        Some(_) => base_of(&class, Some(kind)),
        None => class.io(),
    };
    Options::of(&class.with(io), FIO_DISK, kind).map(drop)
}

/// The limits from which a calibration starts: those of the class, scaled down to what the disk can
/// reach.
fn base_of(class: &Class, disk: Option<Kind>) -> IoLimits {
    let io = class.io();
    let most = io.read_ios_s.max(io.write_ios_s).unwrap_or(1);
    match disk {
        Some(Kind::Process) if most > PROCESS_IOS_MAX => {
            io.scaled(PROCESS_IOS_MAX as f64 / most as f64)
        }
        _ => io,
    }
}

/// Measures the class of a run under the conditions of its cells; returns entries for the run's
/// environment.
///
/// # Errors
/// The device is slower than the class, or the disk cannot be created.
pub fn admit(request: &Request, limits: Option<&Calibration>) -> Result<Vec<Pair>> {
    let mut class = class::find(&request.class)?;
    if let Some(found) = limits {
        class = class.with(found.limits);
    }
    let admitted = match request.disk {
        None => class::admit(&class, &request.dir, FIO_JOB),
        Some(kind) => {
            let admitted = class::admit_disk(&class, &request.dir, FIO_DISK, kind, FIO_JOB);
            admitted.and_then(|(disk, admission)| disk.close().map(|()| admission))
        }
    };
    let admission = match admitted {
        Err(failure) if class.io().is_none() && request.disk.is_none() => {
            return Ok(vec![("fio".to_owned(), format!("not measured: {failure}"))]);
        }
        admitted => admitted?,
    };
    let host =
        admission.host.pairs().into_iter().map(|(name, value)| (format!("host {name}"), value));
    let mut pairs: Vec<Pair> = host.chain(admission.measured.pairs()).collect();
    let throttled = match class.io().is_none() {
        true => "nothing: the class has no limits".to_owned(),
        false => admission.throttled.to_string(),
    };
    pairs.push(("throttled".to_owned(), throttled));
    if let Some(kind) = request.disk {
        pairs.push(("disk".to_owned(), kind.to_string()));
    }
    pairs.extend(limits.map(|found| found.pairs(request)).transpose()?.into_iter().flatten());
    Ok(pairs)
}

/// Runs a cell on the storage that it asks for. `run` gets its specification; on a private disk,
/// with the directory changed to one on that disk.
///
/// # Errors
/// The disk cannot be created or removed; errors of `run`.
pub fn run(
    spec: &CellSpec,
    run: impl FnOnce(&CellSpec) -> Result<CellResult>,
) -> Result<CellResult> {
    let Some(kind) = spec.disk else { return run(spec) };
    let size = Bytes(spec.space_bytes()?);
    let options = Options::of(&spec.storage_class()?, size, kind)?;
    let disk = VirtualDisk::create(spec.dir.parent().unwrap_or(Path::new(".")), &options)?;
    let dir = disk.path().join("cell");
    fs::create_dir(&dir)?;
    let mut result = run(&CellSpec { dir, ..spec.clone() })?;
    if kind == Kind::Process {
        result.metrics.insert("disk_cpu_s".to_owned(), disk.cpu_s());
    }
    disk.close()?;
    Ok(result)
}

/// Result of a calibration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The limits.
    pub limits: IoLimits,
    /// Rate of plain InnoDB with these limits, divided by its unthrottled rate.
    pub ratio: f64,
    /// Number of runs that the search took.
    pub probes: usize,
}

impl Calibration {
    /// Environment entries by which later runs find the result.
    fn pairs(&self, request: &Request) -> Result<[Pair; 2]> {
        let found = (CALIBRATED.to_owned(), serde_json::to_string(self)?);
        Ok([found, (CALIBRATED_FOR.to_owned(), conditions(request))])
    }
}

/// The conditions on which calibrated limits depend in addition to machine, class and size.
fn conditions(request: &Request) -> String {
    let disk = request.disk.map_or("control groups".to_owned(), |kind| format!("disk {kind}"));
    let memory = request.memory.map_or(String::new(), |memory| format!(", memory {memory}"));
    format!("{disk}, durability {}{memory}", request.durability)
}

/// Calibrated limits for a class that needs them, from an earlier run or from a search now; `None`
/// for other classes. `run` runs one cell.
///
/// # Errors
/// No limits give the wanted ratio; errors of the runs.
pub fn calibrated(
    request: &Request,
    database: &Database,
    mut run: impl FnMut(&CellSpec) -> Result<CellResult>,
) -> Result<Option<Calibration>> {
    let class = class::find(&request.class)?;
    let Some(ratio) = class.calibrate_ratio else { return Ok(None) };
    let size = request.size.min(Size::Standard);
    let machine = machine::machine(&request.dir)?;
    let known = database.environment_of(
        (&machine, &request.class, &request.size.to_string()),
        (CALIBRATED_FOR, &conditions(request)),
        CALIBRATED,
    )?;
    if let Some(known) = known {
        let found: Calibration = serde_json::from_str(&known)?;
        eprintln!("limits of {}: {} (of an earlier run)", class.name, found.limits);
        return Ok(Some(found));
    }
    if request.disk.is_none() {
        eprintln!("{}: without --disk, direct I/O only is throttled", class.name);
    }
    let base = Limits { io: base_of(&class, request.disk), ..Limits::default() };
    let mut probe = |limits: Limits| {
        let spec = probe_of(request, size, limits.io);
        let rate = add_links(&run(&spec)?)?;
        let what =
            if limits.io.is_none() { "without limits".to_owned() } else { limits.io.to_string() };
        eprintln!("calibration of {}: {rate:.1} ADD_LINK per second, {what}", class.name);
        match measure::is_interrupted() {
            true => Err(Failure("interrupted while limits were searched".to_owned())),
            false => Ok(rate),
        }
    };
    let found = class::calibrate(&base, ratio, &mut probe)?;
    let found = Calibration { limits: found.limits.io, ratio: found.ratio, probes: found.probes };
    eprintln!(
        "limits of {}: {}; plain InnoDB has {:.3} of its rate with them, {ratio} is wanted",
        class.name, found.limits, found.ratio
    );
    Ok(Some(found))
}

/// The cell of a short run of LinkBench on plain InnoDB; without limits, on the host's disk as it
/// is.
fn probe_of(request: &Request, size: Size, limits: IoLimits) -> CellSpec {
    let seconds = match size {
        Size::Tiny => "2",
        Size::Quick => "5",
        Size::Standard | Size::Published => "60",
    };
    let changes = [("seconds", seconds), ("warm_up", "0")];
    let is_free = limits.is_none();
    CellSpec {
        workload: "linkbench".to_owned(),
        changes: changes.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        face: Face::Sql,
        target: "innodb".to_owned(),
        size,
        class: if is_free { "host".to_owned() } else { request.class.clone() },
        limits: Some(limits).filter(|_| !is_free),
        disk: request.disk.filter(|_| !is_free),
        durability: request.durability,
        seed: request.seed,
        memory: request.memory,
        dir: request.dir.join("cell"),
        with_rest: false,
        with_crash: false,
        plugin: None,
    }
}

/// ADD_LINK requests per second in a result; 0 if the load did not end in time.
fn add_links(result: &CellResult) -> Result<f64> {
    if let (super::results::State::Failed, Some(failure)) = (result.state, &result.failure) {
        return Err(Failure(format!("calibration: {failure}")));
    }
    let step = result.steps.iter().find(|step| step.name == "requests");
    let last = step.and_then(|step| step.series.get("add_link")?.last());
    Ok(last.map_or(0.0, |(seconds, done)| done / seconds.max(1e-9)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::lab::machine::Volume;
    use crate::lab::results::testing::a_run;
    use crate::lab::results::{RunHead, State, StepResult};
    use crate::lab::size::Durability;

    fn request(dir: &Path, class: &str, disk: Option<Kind>) -> Request {
        Request {
            suite: "linkbench-2015".to_owned(),
            items: Vec::new(),
            size: Size::Tiny,
            class: class.to_owned(),
            disk,
            durability: Durability::Safe,
            repeat: 1,
            seed: 42,
            memory: None,
            yes_write: false,
            resume: false,
            with_rest: true,
            dir: dir.to_owned(),
            command: String::new(),
        }
    }

    #[test]
    fn classes_that_a_disk_does_not_reach_are_refused_and_calibrated_ones_are_not() {
        for (class, kind, word) in [
            ("hdd", Kind::Process, ""),
            ("sata-2015", Kind::Process, ""),
            ("sata", Kind::Process, "reaches 20000"),
            ("host", Kind::Process, "reaches 20000"),
            ("sata", Kind::Kernel, ""),
        ] {
            let checked = check(&request(Path::new("."), class, Some(kind)));
            let said = doctor::virtual_disk(kind);
            match checked {
                Ok(()) => assert!(word.is_empty() && said.state == Found::Good, "{class} {kind}"),
                Err(failure) if said.state != Found::Good => {
                    assert!(failure.0.contains(&said.found), "{failure}");
                }
                Err(failure) => {
                    assert!(!word.is_empty() && failure.0.contains(word), "{class}: {failure}");
                }
            }
        }
        let base = base_of(&class::find("sata-2015").expect("a class"), Some(Kind::Process));
        assert_eq!((base.read_ios_s, base.write_bytes_s), (Some(20_000), Some(100_000_000)));
    }

    #[test]
    fn a_cell_runs_on_its_virtual_disk_and_leaves_no_files() {
        for kind in [Kind::Process, Kind::Kernel] {
            let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a directory");
            let request = request(scratch.path(), "cloud", Some(kind));
            let limits = class::find("cloud").expect("a class").io();
            let spec = probe_of(&request, Size::Tiny, limits);
            if let Err(failure) = check(&request) {
                eprintln!("not tested: {failure}");
                continue;
            }
            let result = run(&spec, |spec| {
                fs::write(spec.dir.join("file"), [1; 100_000])?;
                let volume = Volume::of(&spec.dir)?;
                assert_eq!(volume.file_system, "ext4");
                assert!(volume.disk()?.name.starts_with("loop"));
                Ok(CellResult::default())
            });
            let metrics = result.unwrap_or_else(|failure| panic!("{kind}: {failure}")).metrics;
            assert_eq!(metrics.contains_key("disk_cpu_s"), kind == Kind::Process, "{metrics:?}");
            assert_eq!(fs::read_dir(scratch.path()).expect("it is there").count(), 0);
        }
    }

    /// The result of InnoDB with these limits, if a request takes four reads.
    fn a_result(limits: Option<IoLimits>) -> CellResult {
        let rate =
            limits.map_or(5000.0, |io| 5000.0_f64.min(io.read_ios_s.unwrap_or(1) as f64 / 4.0));
        let mut step = StepResult { name: "requests".to_owned(), ..StepResult::default() };
        step.series.insert("add_link".to_owned(), vec![(1.0, 7.0), (10.0, 10.0 * rate)]);
        CellResult { steps: vec![step], ..CellResult::default() }
    }

    #[test]
    fn limits_are_searched_once_for_each_machine_size_and_durability() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut database = Database::open(&dir.path().join("r.sqlite")).expect("a new file");
        let mut safe = request(dir.path(), "sata-2015", Some(Kind::Process));
        let runs = Cell::new(0);
        let search = |request: &Request, database: &Database| {
            runs.set(0);
            let found = calibrated(request, database, |spec| {
                runs.set(runs.get() + 1);
                assert_eq!(spec.limits.is_none(), spec.disk.is_none(), "free on the host");
                Ok(a_result(spec.limits))
            });
            found.expect("limits").expect("the class has them")
        };
        let found = search(&safe, &database);
        assert!(
            (found.ratio / 0.217 - 1.0).abs() < 0.05 && runs.get() == found.probes,
            "{found:?}"
        );
        assert!(found.limits.read_ios_s < Some(20_000));
        let head = RunHead {
            class: safe.class.clone(),
            size: safe.size.to_string(),
            machine: machine::machine(dir.path()).expect("a machine"),
            environment: found.pairs(&safe).expect("JSON").to_vec(),
            ..a_run("aa")
        };
        database.begin_run(&head).expect("begun");
        assert_eq!((search(&safe, &database), runs.get()), (found, 0), "of the earlier run");
        safe.durability = Durability::Relaxed;
        search(&safe, &database);
        assert!(runs.get() > 1, "another durability");

        let host = request(dir.path(), "hdd", None);
        let none = calibrated(&host, &database, |_| unreachable!("it has limits of its own"));
        assert_eq!(none.expect("no search"), None);
        let failed = CellResult {
            state: State::Failed,
            failure: Some("no server".to_owned()),
            ..CellResult::default()
        };
        let refused = calibrated(&safe, &database, |_| Ok(failed.clone()));
        assert!(refused.is_err_and(|failure| failure.0.contains("no server")));
    }
}
