//! `lab run`: plans the cells of a run, puts them in order, and runs them one after the other.
//!
//! Invariants
//! 1. Targets are interleaved: A B C, B C A, C A B, so that a machine that slows down affects all
//!    of them alike.
//! 2. A finished cell is in the database before the next one starts.
//! 3. A directory is emptied only if a run created it, which its marker file shows.
//! 4. Two labs never use the same directory: its marker file is locked for the duration of a run.
//! 5. Deterministic results are equal on all targets; otherwise the run fails.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use super::cell_spec::{CellSpec, URL, without_passwords};
use super::embedded::{ClientCosts, NULL, NullTargetPeaks, OF_CLIENTS, PEAK};
use super::machine::{
    self, Volume,
    virtual_disk::{self, Kind},
};
use super::progress::Progress;
use super::results::{CellKey, CellResult, Database, RunHead, State, UNCHECKED};
use super::setup::{NO_REST, REST};
use super::size::{Durability, Face, Size};
use super::suggest::unknown;
use super::target::SqlTarget;
use super::version::{self, Versions};
use super::{embedded, sql, storage, target, time, workloads};
use crate::measure;
use crate::size::Bytes;
use crate::targets::{Failure, Result};

/// Interval at which the run checks for an interrupt while a cell runs.
const LOOK: Duration = Duration::from_millis(100);

/// Idle time before each further cell of a long run, for the work that the last one has left to the
/// kernel and the disk.
const PAUSE: Duration = Duration::from_secs(20);

/// Weight of a cell without a time limit in the estimate of the time left: an hour.
const UNLIMITED_S: u64 = 3600;

/// Name of the file that marks a directory as created by a run (Invariant 3).
const MARKER: &str = ".frond-lab";

/// A workload with its parameters and the targets to run it on.
#[derive(Clone, Debug)]
pub struct Item {
    /// Workload.
    pub workload: String,
    /// How the workload uses its targets.
    pub face: Face,
    /// Parameter changes (`--set`), as name and value.
    pub changes: Vec<(String, String)>,
    /// Targets.
    pub targets: Vec<String>,
}

/// A parsed `lab run` command.
#[derive(Clone, Debug)]
pub struct Request {
    /// Name of the suite or workload.
    pub suite: String,
    /// The workloads to run.
    pub items: Vec<Item>,
    /// Size.
    pub size: Size,
    /// Storage class.
    pub class: String,
    /// Kind of the private disk that each cell gets; `None` runs cells on the host's disk.
    pub disk: Option<Kind>,
    /// Durability.
    pub durability: Durability,
    /// How often each cell is run.
    pub repeat: u32,
    /// Seed of the generators.
    pub seed: u64,
    /// Memory of each target in bytes; overrides what the workload's ratio gives.
    pub memory: Option<u64>,
    /// Whether the run may write to a server that the lab did not start.
    pub yes_write: bool,
    /// Whether to run only the cells that an unfinished run lacks.
    pub resume: bool,
    /// Whether to wait for background work after writes.
    pub with_rest: bool,
    /// Directory in which the stores are created.
    pub dir: PathBuf,
    /// The command line as typed.
    pub command: String,
}

impl Request {
    /// Hash of everything that a resumed run must share with the run that it continues: the
    /// request, this program and the plugin.
    pub fn identity(&self) -> String {
        let file = |path: Option<PathBuf>| {
            let found = fs::metadata(path?).ok()?;
            Some((found.len(), found.modified().ok()))
        };
        let built = (file(std::env::current_exe().ok()), file(super::sql::process::built_plugin()));
        let asked = (&self.items, self.size, &self.class, self.durability, self.repeat, self.seed);
        let disk = self.disk;
        let text = format!("{asked:?} {disk:?} {:?} {} {built:?}", self.memory, self.with_rest);
        format!("{:016x}", xxhash_rust::xxh3::xxh3_64(text.as_bytes()))
    }
}

/// A cell of the plan.
#[derive(Clone, Debug)]
struct Planned {
    key: CellKey,
    spec: CellSpec,
}

/// Formats the `--set` changes as the cell's variant.
fn variant(changes: &[(String, String)]) -> String {
    let mut parts: Vec<String> = changes.iter().map(|(n, v)| format!("{n}={v}")).collect();
    parts.sort();
    parts.join(" ")
}

/// The targets in their order for this repeat. The null target comes first, because its cost is
/// subtracted from that of the others.
fn turn(item: &Item, repeat: u32) -> Vec<&str> {
    let is_null = |target: &str| item.face == Face::Embedded && target == NULL;
    let others = item.targets.iter().map(String::as_str).filter(|target| !is_null(target));
    let mut targets: Vec<&str> = others.collect();
    if !targets.is_empty() {
        let first = repeat as usize % targets.len();
        targets.rotate_left(first);
    }
    if item.face == Face::Embedded && !item.targets.is_empty() {
        targets.insert(0, NULL);
    }
    targets
}

/// Lists the cells of the run in execution order (Invariant 1).
fn plan(request: &Request) -> Result<Vec<Planned>> {
    let mut cells = Vec::new();
    for item in &request.items {
        for repeat in 0..request.repeat {
            for target in turn(item, repeat) {
                let spec = CellSpec {
                    workload: item.workload.clone(),
                    changes: item.changes.clone(),
                    face: item.face,
                    target: target.to_owned(),
                    size: request.size,
                    class: request.class.clone(),
                    limits: None,
                    disk: request.disk,
                    durability: request.durability,
                    seed: request.seed,
                    memory: request.memory,
                    dir: request.dir.join("cell"),
                    with_rest: request.with_rest,
                    with_crash: repeat == 0 && item.face == Face::Sql && !target.starts_with(URL),
                    plugin: None,
                };
                let key = CellKey {
                    workload: item.workload.clone(),
                    variant: variant(&item.changes),
                    face: item.face.to_string(),
                    target: without_passwords(target),
                    repeat: repeat + 1,
                };
                cells.push(Planned { key, spec });
            }
        }
    }
    Ok(cells)
}

/// Reports every error that can be detected before the first cell starts.
fn check(request: &Request, cells: &[Planned]) -> Result<()> {
    let is_started = |spec: &CellSpec| spec.face == Face::Sql && !spec.target.starts_with(URL);
    if cells.iter().any(|cell| is_started(&cell.spec)) {
        super::sql::process::installed()?;
    }
    storage::check(request)?;
    check_space(&request.dir, cells)?;
    for Planned { spec, .. } in cells {
        let params = spec.params()?;
        if spec.face == Face::Embedded {
            embedded::check(spec)?;
            continue;
        }
        (workloads::find(&spec.workload)?.make)(&params, spec.seed)?;
        if spec.target.starts_with(URL) {
            if !request.yes_write {
                return Err(Failure(format!(
                    "{}: the database `lab` of this server would be dropped and written to; pass --yes-write if that is wanted",
                    without_passwords(&spec.target)
                )));
            }
            if request.class != "host" || request.disk.is_some() {
                return Err(Failure(format!(
                    "{}: --class and --disk limit only servers that the lab starts",
                    without_passwords(&spec.target)
                )));
            }
            let asked = spec.target();
            asked.map_err(|failure| {
                Failure(format!("{}: {failure}", without_passwords(&spec.target)))
            })?;
            continue;
        }
        let target = spec.target()?;
        if version::split(&spec.target).is_none() {
            target.plugins()?; // plugins of other commits are built next
        }
        target.allocator()?;
        target.options(spec.memory()?, spec.durability)?;
    }
    Ok(())
}

/// Fails if the file system of `dir` is too full for the largest cell.
fn check_space(dir: &Path, cells: &[Planned]) -> Result<()> {
    let mut wanted = 0;
    for Planned { spec, .. } in cells.iter().filter(|cell| !cell.spec.target.starts_with(URL)) {
        wanted = wanted.max(spec.space_bytes()?);
    }
    let absolute = std::path::absolute(dir)?;
    let exists = absolute.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let free = Volume::of(exists)?.free_b;
    match free >= wanted {
        true => Ok(()),
        false => Err(Failure(format!(
            "{}: {} free, and the largest cell may need {}; choose another --dir or a smaller --size",
            dir.display(),
            Bytes(free),
            Bytes(wanted)
        ))),
    }
}

/// Creates the directory of a run, or reuses one that an earlier run created, and locks it
/// (Invariants 3 and 4).
fn take(dir: &Path) -> Result<fs::File> {
    let marker = dir.join(MARKER);
    if dir.exists() && !dir.is_dir() {
        return Err(Failure(format!("{} is not a directory; choose another --dir", dir.display())));
    }
    let absolute = std::path::absolute(dir)?;
    let mut above = absolute.ancestors().skip(1);
    if let Some(other) = above.find(|other| other.join(MARKER).exists()) {
        return Err(Failure(format!(
            "{} is inside {}, whose contents runs of the lab delete; choose another --dir",
            dir.display(),
            other.display()
        )));
    }
    let is_foreign = dir.exists() && !marker.exists() && fs::read_dir(dir)?.next().is_some();
    if is_foreign {
        return Err(Failure(format!(
            "{} is not empty and no run of the lab made it; choose another --dir",
            dir.display()
        )));
    }
    fs::create_dir_all(dir)?;
    let mut options = fs::File::options();
    // A link would let a run write to a file elsewhere.
    let options = options.create(true).append(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let opened = options.open(&marker);
    let mut file = opened.map_err(|error| Failure(format!("{}: {error}", marker.display())))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            return Err(Failure(format!(
                "{}: another lab is running there; choose another --dir",
                dir.display()
            )));
        }
        Err(fs::TryLockError::Error(error)) => return Err(error.into()),
    }
    if file.metadata()?.len() == 0 {
        file.write_all(b"Made by `lab run`, which removes what is in it.\n")?;
    }
    Ok(file)
}

/// Creates an empty directory for a cell.
fn make_room(dir: &Path) -> Result<()> {
    let cell = dir.join("cell");
    if cell.exists() {
        fs::remove_dir_all(&cell)?;
    }
    Ok(fs::create_dir(&cell)?)
}

/// Reads the output of a cell's process until it ends; returns the cell's result.
fn read_cell(output: ChildStdout, progress: &Progress) -> Result<Option<CellResult>> {
    let mut result = None;
    for line in BufReader::new(output).lines() {
        let line = line?;
        match line.split_once(' ') {
            Some(("progress", words)) => progress.step(words),
            Some(("cell", json)) => result = Some(serde_json::from_str::<CellResult>(json)?),
            _ => {}
        }
    }
    Ok(result)
}

/// Runs a cell in a separate process.
fn run_cell(spec: &CellSpec, progress: &Progress) -> Result<CellResult> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("cell")
        .envs(match spec.face {
            Face::Sql => Vec::new(),
            Face::Embedded => embedded::environment(spec)?,
        })
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(serde_json::to_string(spec)?.as_bytes())?;
    }
    let output = child.stdout.take().ok_or_else(|| Failure("no output of a cell".to_owned()))?;
    let (cell, is_over) = (Pid::from_child(&child), AtomicBool::new(false));
    let result = std::thread::scope(|scope| {
        // Ctrl-C in a terminal reaches both processes, but `kill` reaches only this one, which must
        // pass the signal on. A separate thread watches for it, since the cell may print nothing
        // for long.
        let watching = scope.spawn(|| {
            while !measure::is_interrupted() && !is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(LOOK);
            }
            if !is_over.load(Ordering::Relaxed) {
                let _ = kill_process(cell, Signal::INT); // it may have ended
            }
        });
        let result = read_cell(output, progress);
        is_over.store(true, Ordering::Relaxed);
        watching.thread().unpark();
        result
    })?;
    let status = child.wait()?;
    remove_stale();
    Ok(result.unwrap_or_else(|| CellResult {
        state: State::Failed,
        failure: Some(ending_of(status)),
        began: time::now(),
        ..CellResult::default()
    }))
}

/// Removes what killed cells, of this run or another, have left outside of the directory of runs.
fn remove_stale() {
    measure::Group::remove_stale();
    sql::remove_stale();
}

/// Describes how the process of a cell ended, if it printed no result.
fn ending_of(status: ExitStatus) -> String {
    let mut text = format!("its process ended with {status} and without a result");
    if status.signal() == Some(Signal::KILL.as_raw()) {
        text += "; the kernel kills a process that exceeds the memory limit of its control group";
    }
    text
}

/// Deterministic results by cell and name, each with the first target that reported it.
#[derive(Default)]
struct Facts(BTreeMap<(CellKey, String), (String, String)>);

impl Facts {
    /// The first target that reported this fact, and its value; records this target's if it is the
    /// first.
    fn first(&mut self, key: &CellKey, name: &str, value: &str) -> &(String, String) {
        // One entry for all targets and repeats.
        let cells = CellKey { target: String::new(), repeat: 0, ..key.clone() };
        let found = self.0.entry((cells, name.to_owned()));
        found.or_insert_with(|| (key.target.clone(), value.to_owned()))
    }

    /// Fails the cell if one of its facts differs from that of an earlier cell (Invariant 5). Skips
    /// cells that did not finish, which end in different states, and the target `null`, which keeps
    /// no data.
    fn compare(&mut self, key: &CellKey, result: &mut CellResult) {
        if result.state != State::Done || key.target == "null" {
            return;
        }
        for (name, value) in result.facts.clone() {
            let (other, theirs) = self.first(key, &name, &value);
            if *theirs != value {
                let (what, detail) = (
                    format!("{name}: as on {other}"),
                    format!("{value} here, {theirs} on {other}"),
                );
                result.verify(&what, false, detail);
            }
        }
    }
}

/// The pause before this cell, unless it is the first one. Short runs have none: it would take
/// longer than their steps.
fn pause_before(spec: &CellSpec) -> Duration {
    if spec.size >= Size::Standard && spec.with_rest { PAUSE } else { Duration::ZERO }
}

/// Sleeps until the time is over, or until Ctrl-C.
fn sleep(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end && !measure::is_interrupted() {
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
    }
}

/// The longest time that these cells can take; `None` if one has no limit.
fn longest(cells: &[Planned]) -> Result<Option<Duration>> {
    let mut all = Duration::ZERO;
    for (position, Planned { spec, .. }) in cells.iter().enumerate() {
        let Some(seconds) = spec.seconds()? else { return Ok(None) };
        let pause = if position > 0 { pause_before(spec) } else { Duration::ZERO };
        all += Duration::from_secs(seconds) + pause;
    }
    Ok(Some(all))
}

/// Describes the number of cells and the time that they take.
fn extent(cells: &[Planned]) -> Result<String> {
    let time = match longest(cells)? {
        Some(time) => format!("about {} min at most", time.as_secs().div_ceil(60)),
        None => "some without a time limit".to_owned(),
    };
    Ok(format!("{} cells, {time}", cells.len()))
}

/// Describes what `run` would do, with one line per cell (`--dry-run`).
///
/// # Errors
/// The request is invalid.
pub fn describe(request: &Request) -> Result<String> {
    let (request, _) = with_versions(request)?;
    let cells = plan(&request)?;
    check(&request, &cells)?;
    let mut out = String::new();
    for Planned { key, spec } in &cells {
        let time = spec.seconds()?.map_or("no limit".to_owned(), |seconds| format!("{seconds} s"));
        out += &format!(
            "{:8} {:12} {:14} repeat {}  {:>8}  memory {} MiB  {}\n",
            key.face,
            key.workload,
            key.target,
            key.repeat,
            time,
            spec.memory()? >> 20,
            key.variant
        );
    }
    out += &format!(
        "{}, class {}, durability {}\n",
        extent(&cells)?,
        request.class,
        request.durability
    );
    Ok(out)
}

/// The request, with the full names of the commits that its targets name.
///
/// # Errors
/// There is no such commit.
fn with_versions(request: &Request) -> Result<(Request, Versions)> {
    let (mut request, mut versions) = (request.clone(), Versions::default());
    for item in &mut request.items {
        item.targets = versions.resolve(&item.targets)?;
    }
    Ok((request, versions))
}

/// Runs the request and stores the results in the database `results`; returns the uid of the run.
///
/// # Errors
/// The request is invalid, a cell failed, or a verification failed.
pub fn run(results: &Path, request: &Request) -> Result<String> {
    let (request, mut versions) = with_versions(request)?;
    let request = &request;
    let mut cells = plan(request)?;
    if cells.is_empty() {
        return Err(Failure("there is nothing to run: no targets".to_owned()));
    }
    check(request, &cells)?;
    for Planned { spec, .. } in &mut cells {
        let built = versions.library(&spec.target, spec.face)?;
        spec.plugin = built.map(|built| built.library.clone());
    }
    let mut database = Database::open(results)?;
    let _lock = take(&request.dir)?;
    ctrlc::set_handler(measure::interrupt).map_err(|error| Failure(error.to_string()))?;
    remove_stale();
    for removed in virtual_disk::remove_stale(&request.dir) {
        eprintln!("removed {}, which a killed run left", removed.display());
    }
    let weight =
        |cell: &Planned| -> Result<u64> { Ok(cell.spec.seconds()?.unwrap_or(UNLIMITED_S)) };
    let progress = Progress::new(cells.iter().map(weight).collect::<Result<_>>()?);
    let on_disk = |spec: &CellSpec| {
        make_room(&request.dir)?;
        storage::run(spec, |spec| run_cell(spec, &progress))
    };
    let calibrated = storage::calibrated(request, &database, on_disk)?;
    for cell in &mut cells {
        cell.spec.limits = calibrated.as_ref().map(|found| found.limits);
    }
    let found = if request.resume { database.find_unfinished(request)? } else { None };
    if request.resume && found.is_none() {
        eprintln!("there is no unfinished run of this request to resume: a new one begins");
    }
    let (run, uid) = match found {
        Some(found) => found,
        None => {
            let mut head = head(request)?;
            let of = |name: &str| {
                let found = head.environment.iter().find(|(found, _)| found == name);
                found.map(|(_, value)| value.as_str())
            };
            let disturbance = machine::fingerprint::disturbance(of);
            if !disturbance.is_empty() {
                eprintln!("warning: {disturbance}");
            }
            head.environment.extend(storage::admit(request, calibrated.as_ref())?);
            head.environment.extend(versions.environment());
            (database.begin_run(&head)?, head.uid)
        }
    };
    database.acquire(run)?;
    let done = database.done_cells(run)?;
    eprintln!("run {uid}: {}", extent(&cells)?);
    let (mut facts, mut failures) = (Facts::default(), Vec::new());
    let (mut client_costs, mut null_target_peaks) =
        (ClientCosts::default(), NullTargetPeaks::default());
    for one in database.measured(run)? {
        if one.face != "embedded" || one.target != NULL {
            continue;
        }
        match one.metric.as_str() {
            OF_CLIENTS => client_costs.note(&one.workload, &one.variant, &one.step, one.value),
            PEAK => null_target_peaks.note(&one.workload, &one.variant, one.value as u64),
            _ => {}
        }
    }
    for (key, name, value) in database.facts(run)? {
        facts.first(&key, &name, &value); // of cells that a resumed run already has
    }
    let mut is_first = true;
    for (position, Planned { key, spec }) in cells.iter().enumerate() {
        progress.cell(position, key);
        if done.contains(key) {
            continue;
        }
        if !std::mem::replace(&mut is_first, false) {
            sleep(pause_before(spec));
        }
        if measure::is_interrupted() {
            break;
        }
        versions.check_unchanged(spec.plugin.as_deref())?;
        let mut result = on_disk(spec)?;
        result.settings.extend(versions.settings(spec.plugin.as_deref()));
        facts.compare(key, &mut result);
        client_costs.apply(key, &mut result);
        null_target_peaks.apply(key, &mut result);
        database.write_cell(run, key, position, &result)?;
        progress.ended(position, key, &result);
        if let Some(why) = result.settings.get(UNCHECKED) {
            progress.print(format!("warning: files of {}: {why}", key.target));
        }
        fs::remove_dir_all(&spec.dir)?;
        if let Some(failure) = result.failure.filter(|_| result.state == State::Failed) {
            failures.push(format!("{} on {}: {failure}", key.workload, key.target));
        }
    }
    progress.finish();
    database.release(run)?;
    if measure::is_interrupted() {
        return Err(Failure(format!("interrupted (run {uid})")));
    }
    match failures.is_empty() {
        true => {
            database.end_run(run, &time::now())?;
            Ok(uid)
        }
        // The run stays unfinished, so that `--resume` runs the failed cells again.
        false => Err(Failure(format!(
            "{} of {} cells failed (run {uid}):\n  {}",
            failures.len(),
            cells.len(),
            failures.join("\n  ")
        ))),
    }
}

fn head(request: &Request) -> Result<RunHead> {
    let mut environment = machine::fingerprint(&request.dir)?;
    environment.push(("request".to_owned(), request.identity()));
    let rest = if request.with_rest { "yes" } else { NO_REST };
    environment.push((REST.to_owned(), rest.to_owned()));
    let mut random = [0u8; 4];
    fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut random))?;
    Ok(RunHead {
        uid: random.iter().map(|byte| format!("{byte:02x}")).collect(),
        suite: request.suite.clone(),
        size: request.size.to_string(),
        class: request.class.clone(),
        durability: request.durability.to_string(),
        seed: request.seed,
        command: without_passwords(&request.command),
        began: time::now(),
        machine: machine::machine(&request.dir)?,
        environment,
    })
}

/// Checks that each of these targets exists.
///
/// # Errors
/// A name is unknown; the message lists the nearest names.
pub fn check_targets(face: Face, names: &[String]) -> Result<()> {
    for name in names {
        if face == Face::Embedded {
            embedded::target(name)?;
            continue;
        }
        let base = match version::split(name) {
            None => name.as_str(),
            Some((base, _)) if SqlTarget::find(base)?.is_frond() => base,
            Some((base, _)) => {
                return Err(Failure(format!(
                    "target {name}: only Frond has versions by commit, and {base} is none of its targets"
                )));
            }
        };
        let is_given = name.starts_with(URL) || name.ends_with(".toml");
        if !is_given && !target::names().contains(&base) {
            return Err(unknown("target", base, &target::names()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(items: Vec<Item>, size: Size, repeat: u32) -> Request {
        Request {
            suite: "iibench".to_owned(),
            items,
            size,
            class: "host".to_owned(),
            disk: None,
            durability: Durability::Safe,
            repeat,
            seed: 42,
            memory: None,
            yes_write: false,
            resume: false,
            with_rest: true,
            dir: PathBuf::from("d"),
            command: String::new(),
        }
    }

    #[test]
    fn make_lab_takes_twelve_minutes_at_most() {
        let items =
            crate::lab::suites::items("overview", None).expect("read").expect("it is there");
        let request = request(items, Size::Quick, 1);
        let cells = plan(&request).expect("a plan");
        // fio takes some seconds before the first cell.
        let longest = longest(&cells).expect("parameters that are right").expect("limits");
        assert!(
            longest < Duration::from_secs(700),
            "{longest:?}: {}",
            extent(&cells).expect("said")
        );
        let text = describe(&request).expect("described");
        assert_eq!(text.lines().count(), cells.len() + 1, "{text}");
    }

    #[test]
    fn only_long_runs_pause_between_cells() {
        let item = |targets: &[&str]| Item {
            workload: "iibench".to_owned(),
            face: Face::Sql,
            changes: vec![("time_limit".to_owned(), "100".to_owned())],
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        };
        let longest = |size: Size, with_rest: bool, targets: &[&str]| {
            let request = Request { with_rest, ..request(vec![item(targets)], size, 1) };
            longest(&plan(&request).expect("a plan")).expect("right").expect("a limit")
        };
        let one = longest(Size::Standard, true, &["innodb"]);
        assert_eq!(longest(Size::Quick, true, &["innodb", "frond"]), 2 * one);
        assert_eq!(longest(Size::Standard, false, &["innodb", "frond"]), 2 * one);
        assert_eq!(longest(Size::Standard, true, &["innodb", "frond"]), 2 * one + PAUSE);
    }

    #[test]
    fn targets_are_interleaved_and_repeated_as_requested() {
        let item = Item {
            workload: "iibench".to_owned(),
            face: Face::Sql,
            changes: Vec::new(),
            targets: ["a", "b", "c"].map(str::to_owned).to_vec(),
        };
        let request = request(vec![item], Size::Tiny, 3);
        let order: String =
            plan(&request).expect("a plan").iter().map(|cell| cell.key.target.as_str()).collect();
        assert_eq!(order, "abcbcacab");
        let mut embedded = request.clone();
        embedded.items[0].face = Face::Embedded;
        embedded.items[0].targets = ["a", "null", "b"].map(str::to_owned).to_vec();
        let cells = plan(&embedded).expect("a plan");
        let order: Vec<&str> = cells.iter().map(|cell| cell.key.target.as_str()).collect();
        assert_eq!(order, ["null", "a", "b", "null", "b", "a", "null", "a", "b"]);
        let other = Request { memory: Some(1 << 30), ..request.clone() };
        assert_ne!(request.identity(), other.identity());
    }

    #[test]
    fn facts_that_differ_fail_the_later_cell() {
        let key = |target: &str| CellKey {
            workload: "iibench".to_owned(),
            variant: String::new(),
            face: "sql".to_owned(),
            target: target.to_owned(),
            repeat: 1,
        };
        let cell = |value: &str| CellResult {
            facts: [("t by PRIMARY".to_owned(), value.to_owned())].into(),
            ..CellResult::default()
        };
        let mut facts = Facts::default();
        let states = [("innodb", "7 rows"), ("frond", "7 rows"), ("myrocks", "6 rows")].map(
            |(target, value)| {
                let mut result = cell(value);
                facts.compare(&key(target), &mut result);
                result.state
            },
        );
        assert_eq!(states, [State::Done, State::Done, State::Failed]);
    }
}
