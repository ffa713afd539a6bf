//! A crash at every call that changes something, in every way; then open, compare, check, write,
//! close, open, compare (docs/safety.md §4.2). Crashes during recovery are nested.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use frond::{IfLocked, Isolation, RowLock};

use super::guarded;
use crate::{
    disk::{CrashOptions, CrashState, DiskState, Note, Point, SimVfs, crash_states},
    drive::{Engine, Errors, Failure, Opened, Run, fail, find_step},
    model::Model,
    ops::{Key, Locking, Op, TxnOp, Value, Write},
};

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct CrashPlan {
    /// Crash states at each point.
    pub states: CrashOptions,
    /// One distinct state in this many is crashed again during its recovery; 0: none.
    pub nested_one_in: u64,
    /// Depth of nested crashes.
    pub nested_depth: u32,
    /// Threads.
    pub threads: usize,
}

impl Default for CrashPlan {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        Self { states: CrashOptions::default(), nested_one_in: 40, nested_depth: 3, threads }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct CrashReport {
    /// Calls that change something.
    pub changes: u64,
    /// Of these, the number that were crash points.
    pub points_used: u64,
    /// States that crashes could leave.
    pub states: u64,
    /// Distinct states, each opened, compared, checked, written and opened again.
    pub distinct: u64,
    /// Of these, states reached by crashing during a recovery.
    pub nested: u64,
    /// States in which an unacknowledged commit was gone: proof that the crashes lose something.
    pub lossy: u64,
    /// Transactions that were found prepared, and were then committed or rolled back.
    pub outlived: u64,
    /// Time taken.
    pub elapsed: Duration,
}

impl CrashReport {
    /// Adds another report.
    pub fn add(&mut self, other: &CrashReport) {
        self.changes += other.changes;
        self.points_used += other.points_used;
        self.states += other.states;
        self.distinct += other.distinct;
        self.nested += other.nested;
        self.lossy += other.lossy;
        self.outlived += other.outlived;
        self.elapsed += other.elapsed;
    }

    /// Share of calls used as crash points, in percent, rounded down.
    pub fn percent_used(&self) -> u64 {
        (self.points_used * 100).checked_div(self.changes).unwrap_or(0)
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per_second = self.distinct as f64 / self.elapsed.as_secs_f64().max(1e-9);
        write!(
            f,
            "crash points used / calls made: {}/{} = {} %; {} states, {} distinct ({} inside recovery, {} lossy), {} decided behind a crash, {per_second:.0} distinct/s",
            self.points_used,
            self.changes,
            self.percent_used(),
            self.states,
            self.distinct,
            self.nested,
            self.lossy,
            self.outlived,
        )
    }
}

struct Campaign<'a, E: Engine> {
    engine: &'a E,
    model: &'a Model,
    plan: &'a CrashPlan,
    seed: u64,
    /// Maps the digest of a disk, and whether it was killed, to the digest of the rows found on
    /// opening it.
    known: Mutex<HashMap<(u64, bool), u64>>,
    states: AtomicU64,
    nested: AtomicU64,
    lossy: AtomicU64,
    outlived: AtomicU64,
}

/// Runs the script once, recording the disk at every call, then tries all crashes.
pub fn crash_everywhere<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &CrashPlan,
) -> Result<CrashReport, Failure> {
    let start = Instant::now();
    let vfs = SimVfs::new();
    vfs.record();
    let run = guarded(|| {
        let mut run = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Fail)?;
        run.script(script)?;
        run.compare()?;
        run.close()?;
        Ok(run)
    })?;
    if let Some(violation) = vfs.violations().first() {
        return fail(violation.clone());
    }
    let points = vfs.recorded();
    let campaign = Campaign {
        engine,
        model: run.model(),
        plan,
        seed,
        known: Mutex::default(),
        states: AtomicU64::new(0),
        nested: AtomicU64::new(0),
        lossy: AtomicU64::new(0),
        outlived: AtomicU64::new(0),
    };
    let used = campaign.try_points(&points)?;
    let distinct = campaign.known().len() as u64;
    Ok(CrashReport {
        changes: vfs.changes(),
        points_used: used.saturating_sub(1), // the last point is the end, not a call
        states: campaign.states.into_inner(),
        distinct,
        nested: campaign.nested.into_inner(),
        lossy: campaign.lossy.into_inner(),
        outlived: campaign.outlived.into_inner(),
        elapsed: start.elapsed(),
    })
}

impl<E: Engine> Campaign<'_, E> {
    /// Tries all points, in parallel; reports the failure of the earliest failing point.
    fn try_points(&self, points: &[Point]) -> Result<u64, Failure> {
        let next = AtomicUsize::new(0);
        let used = AtomicU64::new(0);
        let failed: Mutex<Option<(usize, Failure)>> = Mutex::new(None);
        let work = || {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(index) else { break };
                match self.try_point(point) {
                    Ok(()) => {
                        used.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(failure) => {
                        next.store(points.len(), Ordering::Relaxed);
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        if failed.as_ref().is_none_or(|(first, _)| index < *first) {
                            *failed = Some((index, failure));
                        }
                    }
                }
            }
        };
        // With one thread, work on this thread: what is armed for this thread must stay armed.
        if self.plan.threads <= 1 {
            work();
        } else {
            std::thread::scope(|scope| {
                for _ in 0..self.plan.threads {
                    scope.spawn(work);
                }
            });
        }
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((_, failure)) => Err(failure),
            None => Ok(used.into_inner()),
        }
    }

    fn try_point(&self, point: &Point) -> Result<(), Failure> {
        let options = self.plan.states.with_seed(self.seed ^ point.change_number);
        for state in crash_states(&point.disk, &options) {
            let what = format!("crash before call {}: {}", point.call, state.what);
            self.try_state(state, &point.note, 0).map_err(|failure| failure.during(what))?;
        }
        Ok(())
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(u64, bool), u64>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_state(&self, state: CrashState, note: &Note, depth: u32) -> Result<(), Failure> {
        self.states.fetch_add(1, Ordering::Relaxed);
        let floor = if state.kill { note.floor_kill } else { note.floor_power };
        let disk_digest = state.disk.digest();
        let key = (disk_digest, state.kill && !state.disk.pending().is_empty());
        let known = self.known().get(&key).copied();
        let rows_digest = match known {
            Some(digest) if self.model.step_of(digest, floor, note.issued).is_some() => digest,
            _ => {
                let nests = depth < self.plan.nested_depth
                    && self.plan.nested_one_in > 0
                    && (depth > 0 || disk_digest.is_multiple_of(self.plan.nested_one_in));
                let (digest, recovery) = guarded(|| self.open(&state, floor, note.issued, nests))?;
                self.known().insert(key, digest);
                self.nested.fetch_add(u64::from(depth > 0), Ordering::Relaxed);
                if let Some(recovery) = recovery {
                    self.nest(&state, recovery, digest, note, depth)?;
                }
                digest
            }
        };
        let newest = self.model.step_of(rows_digest, floor, note.issued);
        if newest.is_some_and(|step| step < note.issued) {
            self.lossy.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Opens a state and requires everything of it: legal rows, clean check, durable at once (P6),
    /// writable, the same after a restart. Returns the digest of the rows, and the calls of the
    /// recovery.
    fn open(
        &self,
        state: &CrashState,
        floor: u64,
        issued: u64,
        record: bool,
    ) -> Result<(u64, Option<Vec<Point>>), Failure> {
        let vfs = SimVfs::start(state.disk.clone());
        if record {
            vfs.record();
        }
        let env = vfs.env(self.seed ^ 0xc0ffee);
        let opened = Opened::open(self.engine, &env);
        let mut store = opened.map_err(|error| Failure(format!("does not open: {error}")))?;
        let recovery = record.then(|| vfs.recorded());
        let after_open = vfs.disk();
        let found = store.read_everything()?;
        let step = find_step(self.model, &found, floor, issued)?;
        store.check().map_err(|damage| Failure(format!("check finds damage: {damage}")))?;
        let model = self.model.fork_at(step);
        let digest = model.digest_at(step);
        self.trust_the_medium(&after_open, state.kill, &model)?;
        let mut run =
            Run::adopt(self.engine, vfs.clone(), env, store, self.seed, model, Errors::Fail);
        run.script(&probe(run.model(), state.disk.digest()))
            .and_then(|()| run.finish())
            .map_err(|failure| failure.during("going on after recovery"))?;
        self.outlived.fetch_add(run.met.outlived, Ordering::Relaxed);
        match vfs.violations().first() {
            None => Ok((digest, recovery)),
            Some(violation) => fail(violation.clone()),
        }
    }

    /// P6: rows that an open store returns are durable, whatever the page cache pretended before.
    /// Always tried after a kill, where the cache may hold what the medium does not; otherwise now
    /// and then.
    fn trust_the_medium(&self, disk: &DiskState, kill: bool, model: &Model) -> Result<(), Failure> {
        if !kill && !disk.digest().is_multiple_of(8) {
            return Ok(());
        }
        let lost = disk.after_power_loss(|_, _, _| {});
        let opened = Opened::open(self.engine, &SimVfs::start(lost).env(self.seed));
        let place = "power lost right after recovery (P6)";
        let found = opened.and_then(|mut store| store.read_everything());
        let found = found.map_err(|error| Failure(error.to_string()).during(place))?;
        let step = model.step();
        find_step(model, &found, step, step).map_err(|failure| failure.during(place))?;
        Ok(())
    }

    /// Crashes during the recovery of a state. The medium decides what a recovery finds, so an
    /// interrupted one must find the same rows again (P5).
    fn nest(
        &self,
        state: &CrashState,
        recovery: Vec<Point>,
        digest: u64,
        note: &Note,
        depth: u32,
    ) -> Result<(), Failure> {
        let newest = self.model.step_of(digest, 0, note.issued).unwrap_or(note.issued);
        // After a kill the medium may still lack what the page cache had, until recovery ends.
        let start = if state.kill { note.floor_power } else { newest };
        let count = recovery.len();
        for (index, point) in recovery.into_iter().enumerate() {
            let last = index + 1 == count;
            let floor = if last { newest } else { self.oldest_alike(start) };
            let note = Note { issued: newest, floor_power: floor, floor_kill: floor };
            let options = CrashOptions::short().with_seed(self.seed ^ point.change_number);
            for inner in crash_states(&point.disk, &options) {
                let what = format!("then in recovery, before {}: {}", point.call, inner.what);
                self.try_state(inner, &note, depth + 1).map_err(|failure| failure.during(what))?;
            }
        }
        Ok(())
    }

    /// The oldest step with the same rows as this one: steps without effect cannot be
    /// distinguished.
    fn oldest_alike(&self, step: u64) -> u64 {
        let digest = self.model.digest_at(step);
        (0..=step)
            .rev()
            .take_while(|&older| self.model.digest_at(older) == digest)
            .last()
            .unwrap_or(step)
    }
}

/// Operations on a recovered store that show that it works: prepared transactions have their rows,
/// and most of them are decided; rows are put into old and new trees; background work; a
/// checkpoint.
fn probe(model: &Model, seed: u64) -> Vec<Op> {
    let mut ops = vec![Op::Begin(0, Isolation::ReadCommitted, None)];
    let locking = Locking { lock: RowLock::Shared, if_locked: IfLocked::NoWait };
    let in_doubt = model.in_doubt_rows();
    for (tree, key) in in_doubt.iter().filter_map(|(_, row)| row.clone()) {
        ops.push(Op::InTxn(0, TxnOp::Lock(tree, key, locking)));
    }
    ops.push(Op::InTxn(0, TxnOp::Rollback));
    for (number, _) in in_doubt {
        match (seed >> 8).wrapping_add(u64::from(number)) % 5 {
            0 => {}
            chance => ops.push(Op::Decide(number, chance > 2)),
        }
    }
    ops.push(Op::Create { tree: "probe".into(), unique: false });
    let mut trees = model.tree_names();
    trees.push("probe".into());
    let value = Value { seed: 4_000_000, bytes: 40 };
    let writes = trees.into_iter().map(|tree| Write::Put(tree, Key::plain(9_999), value));
    ops.push(Op::Commit(None, writes.collect()));
    if seed.is_multiple_of(3) {
        ops.push(Op::Checkpoint);
    }
    ops.push(Op::Step(20));
    ops
}
