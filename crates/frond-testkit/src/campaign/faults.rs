//! Failing calls (docs/safety.md §4.2; P10–P12): the n-th call fails, either alone or with all
//! calls after it, for n = 0, 1, 2, … until the script runs without a failure. Afterwards the store
//! is opened again on what is left.

use std::fmt;

use super::guarded;
use crate::{
    disk::{CrashOptions, Fault, FaultKind, SimVfs, SyncFailure, When, crash_states},
    drive::{Engine, Errors, Failure, Opened, Run, fail, find_step},
    model::{Everything, Model},
    ops::Op,
};

/// The faults to inject.
#[derive(Clone, Debug)]
pub struct FaultPlan {
    /// Kinds of faults.
    pub kinds: Vec<FaultKind>,
    /// Distance between the calls that fail; 1: every call.
    pub stride: u64,
    /// Number of random crash states tried after each run.
    pub crashes: usize,
}

impl Default for FaultPlan {
    fn default() -> Self {
        let syncs = [SyncFailure::CacheKeepsNew, SyncFailure::CacheReverts, SyncFailure::ErrorOnce];
        let mut kinds = vec![FaultKind::Eio, FaultKind::Short];
        kinds.extend(syncs.map(FaultKind::Sync));
        Self { kinds, stride: 1, crashes: 2 }
    }
}

impl FaultPlan {
    /// Damage that the device does not report: lost, misdirected and torn writes, stale reads,
    /// flipped bits. The calls succeed; no wrong row may result.
    pub fn silent() -> Self {
        let kinds = vec![
            FaultKind::LostWrite,
            FaultKind::Misdirect(4096),
            FaultKind::Misdirect(-65_536),
            FaultKind::TornWrite,
            FaultKind::StaleRead,
            FaultKind::FlipRead(12_345),
        ];
        Self { kinds, stride: 1, crashes: 0 }
    }

    fn is_silent(&self) -> bool {
        self.kinds
            .iter()
            .all(|kind| !matches!(kind, FaultKind::Eio | FaultKind::Short | FaultKind::Sync(_)))
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultReport {
    /// Calls that the runs make when nothing fails, for each kind of fault.
    pub calls: u64,
    /// Of these, the number that were made to fail in turn.
    pub tried: u64,
    /// Runs.
    pub runs: u64,
    /// Runs in which the fault occurred.
    pub struck: u64,
    /// Runs in which the engine reported an error.
    pub reported: u64,
    /// Reopenings after a failure.
    pub reopened: u64,
}

impl fmt::Display for FaultReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { calls, tried, runs, struck, reported, reopened } = self;
        write!(
            f,
            "calls failed in turn / calls made: {tried}/{calls} = {} %; {runs} runs, {struck} struck, \
             {reported} with errors, {reopened} reopened",
            self.percent_tried()
        )
    }
}

impl FaultReport {
    /// Share of calls that were made to fail, in percent, rounded down.
    pub fn percent_tried(&self) -> u64 {
        (self.tried * 100).checked_div(self.calls).unwrap_or(0)
    }
}

/// Fails each call of the script in turn.
pub fn fail_each_call<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &FaultPlan,
) -> Result<FaultReport, Failure> {
    let mut report = FaultReport::default();
    for &kind in &plan.kinds {
        for sticky in [false, true] {
            if sticky && plan.is_silent() {
                continue; // a device that lies all the time cannot be told from an older one
            }
            let mut n = 0;
            loop {
                let fault = Fault { when: When::Call(n), kind, sticky };
                let place =
                    format!("{kind:?} at call {n}{}", if sticky { " and after" } else { "" });
                let passed = guarded(|| one_run(engine, script, seed, plan, fault, &mut report))
                    .map_err(|failure| failure.during(place))?;
                if let Some(calls) = passed {
                    report.calls += calls;
                    break;
                }
                report.tried += 1;
                n += plan.stride;
            }
        }
    }
    if !plan.is_silent() {
        let place = "a fault inside recovery";
        fail_recovery(engine, script, seed, plan, &mut report)
            .map_err(|failure| failure.during(place))?;
    }
    Ok(report)
}

/// Fails each call of a recovery in turn: the script runs to its end, the machine dies, and the
/// opening that follows meets the fault. An error is legal and a wrong answer is not (P11); without
/// the fault the store then opens as if nothing had happened.
fn fail_recovery<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &FaultPlan,
    report: &mut FaultReport,
) -> Result<(), Failure> {
    let vfs = SimVfs::new();
    let mut run = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Fail)?;
    run.script(script)?;
    let (note, model) = (run.note(), run.model().clone());
    let options = CrashOptions::random(1).with_seed(seed);
    for state in crash_states(&vfs.disk(), &options) {
        for &kind in &plan.kinds {
            for sticky in [false, true] {
                for n in (0..).step_by(plan.stride as usize) {
                    let fault = Fault { when: When::Call(n), kind, sticky };
                    let place =
                        format!("{}, then {kind:?} at call {n}, sticky: {sticky}", state.what);
                    let world = SimVfs::start(state.disk.clone());
                    world.plan(fault);
                    let floor = if state.kill { note.floor_kill } else { note.floor_power };
                    let legal =
                        |found: &Everything, floor| find_step(&model, found, floor, note.issued);
                    let attempt = guarded(|| {
                        let Ok(mut store) = Opened::open(engine, &world.env(seed ^ 2)) else {
                            return Ok(());
                        };
                        match store.read_everything() {
                            Ok(found) => legal(&found, floor).map(drop),
                            Err(_) => Ok(()),
                        }
                    });
                    attempt.map_err(|failure| failure.during(&place))?;
                    report.runs += 1;
                    if world.struck() == 0 && world.calls() <= n {
                        break;
                    }
                    if world.struck() == 0 {
                        continue;
                    }
                    report.struck += 1;
                    let floor =
                        if world.sync_failed() { note.floor_power.min(floor) } else { floor };
                    let again = SimVfs::start(world.disk().after_kill());
                    let reopen = guarded(|| {
                        let mut store = Opened::open(engine, &again.env(seed ^ 3))?;
                        legal(&store.read_everything()?, floor).map(drop)
                    });
                    let after = "opened again without the fault";
                    reopen.map_err(|failure| failure.during(after).during(&place))?;
                    report.reopened += 1;
                }
            }
        }
    }
    Ok(())
}

/// Makes one run with one fault; returns how many calls it made, if it ended before the fault was
/// due.
fn one_run<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &FaultPlan,
    fault: Fault,
    report: &mut FaultReport,
) -> Result<Option<u64>, Failure> {
    report.runs += 1;
    let vfs = SimVfs::new();
    vfs.plan(fault);
    let When::Call(due) = fault.when else { return fail("a fault by call number") };
    let started = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Expected);
    let in_open = vfs.struck() > 0;
    let mut run = match started {
        Ok(run) => run,
        Err(_) => {
            report.struck += 1;
            report.reported += 1;
            vfs.mend();
            if plan.is_silent() {
                return Ok(None); // nothing was acknowledged, and what is there need not open
            }
            // A half-made store opens empty, or reports what it is.
            Run::start(engine, SimVfs::start(vfs.disk()), seed, Model::new(), Errors::Fail)
                .map_err(|error| Failure(format!("after a failed creation: {error}")))?
                .finish()?;
            return Ok(None);
        }
    };
    let went = run.script(script);
    let went = went.and_then(|()| if run.stopped() { Ok(()) } else { run.close() });
    if vfs.struck() == 0 {
        went?;
        return Ok((vfs.calls() <= due).then(|| vfs.calls()));
    }
    report.struck += 1;
    report.reported += u64::from(run.errors_met > 0);
    let (note, model) = (run.note(), run.model().clone());
    run.abandon();
    went?;
    if plan.is_silent() {
        // The fault may have stopped the store; then it is as after a kill.
        let floor = if run.stopped() { note.floor_kill } else { note.issued };
        return after_silent_damage(engine, &vfs, seed, &model, floor).map(|()| None);
    }
    let late = vfs.changes_after_failure();
    if let (false, Some(call)) = (in_open, late.first()) {
        return fail(format!("P12: changed something after a write or sync had failed: {call}"));
    }
    // The page cache may have lost bytes that the medium did not have, as in a power failure.
    let forgets = vfs.sync_failed();
    let options = CrashOptions::random(plan.crashes).with_seed(seed ^ due);
    for state in crash_states(&vfs.disk(), &options) {
        let floor = if state.kill && !forgets { note.floor_kill } else { note.floor_power };
        let again = SimVfs::start(state.disk);
        let reopen = || -> Result<(), Failure> {
            let env = again.env(seed ^ 1);
            let mut store = Opened::open(engine, &env)?;
            let found = store.read_everything()?;
            let step = find_step(&model, &found, floor, note.issued)?;
            let model = model.fork_at(step);
            Run::adopt(engine, again.clone(), env, store, seed, model, Errors::Fail).finish()
        };
        reopen().map_err(|failure| failure.during(format!("then {}", state.what)))?;
        report.reopened += 1;
    }
    Ok(None)
}

/// After silent damage the store may refuse anything, but what it returns must be right.
fn after_silent_damage<E: Engine>(
    engine: &E,
    vfs: &SimVfs,
    seed: u64,
    model: &Model,
    floor: u64,
) -> Result<(), Failure> {
    vfs.mend();
    let Ok(mut store) = Opened::open(engine, &vfs.env(seed)) else { return Ok(()) };
    let Ok(found) = store.read_everything() else { return Ok(()) };
    find_step(model, &found, floor, model.step()).map(drop)
}
