//! Failed syncs that leave pages clean in the page cache: reads then return bytes that the medium
//! will never have, and no later sync writes them. The process is killed and the store opened on
//! that page cache; then power fails. Everything that the open store returned must be there (P6,
//! F11).
//!
//! Files are not read with direct I/O here: a direct read returns what the medium has, so a store
//! that uses it never returns anything else. Names are durable, as with the journal of a file
//! system: only syncs of files fail.

use std::fmt;

use super::guarded;
use crate::{
    Dice,
    disk::{
        CallKind, CrashOptions, DiskState, Fault, FaultKind, SimVfs, SyncFailure, When,
        crash_states,
    },
    drive::{Engine, Errors, Failure, Opened, Run, find_step},
    model::Model,
    ops::Op,
};

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct CachedPlan {
    /// One sync in this many fails.
    pub stride: u64,
    /// What the power failure after the opening leaves, in addition to nothing of what was pending.
    pub states: CrashOptions,
    /// Number of calls of the opening at which power also fails.
    pub calls: usize,
    /// Whether nothing is free during the opening: what was recovered is then made durable without
    /// space for a checkpoint.
    pub is_full: bool,
}

impl Default for CachedPlan {
    fn default() -> Self {
        Self { stride: 1, states: CrashOptions::random(1), calls: 2, is_full: false }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachedReport {
    /// Syncs of files that failed, each in a run of its own.
    pub failed: u64,
    /// Stores opened on the page cache after such a failure.
    pub opened: u64,
    /// Of these, stores that returned rows which a power failure before the opening would have
    /// lost.
    pub served: u64,
    /// Of these, stores without space for the checkpoint that ends a recovery.
    pub cramped: u64,
    /// Stores opened after the power failure.
    pub again: u64,
}

impl CachedReport {
    /// Adds another report.
    pub fn add(&mut self, other: &CachedReport) {
        self.failed += other.failed;
        self.opened += other.opened;
        self.served += other.served;
        self.cramped += other.cramped;
        self.again += other.again;
    }
}

impl fmt::Display for CachedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { failed, opened, served, cramped, again } = self;
        write!(
            f,
            "{failed} syncs failed; {opened} stores opened on the page cache, {served} served what only it had, \
             {cramped} had no room for a checkpoint; {again} opened after a power failure"
        )
    }
}

/// Fails each sync of a file in turn, and lets power fail after the next opening.
pub fn forget_the_cache<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &CachedPlan,
) -> Result<CachedReport, Failure> {
    let mut report = CachedReport::default();
    for kind in [CallKind::SyncData, CallKind::SyncAll] {
        for n in (0..).step_by(plan.stride as usize) {
            let vfs = buffered(SimVfs::new());
            let failure = FaultKind::Sync(SyncFailure::CacheKeepsNew);
            vfs.plan(Fault::once(When::Kind(kind, n), failure));
            let place = || format!("{kind:?} {n} fails");
            let went = guarded(|| one_run(engine, script, seed, plan, &vfs, &mut report));
            went.map_err(|failure| failure.during(place()))?;
            if vfs.struck() == 0 {
                break;
            }
            report.failed += 1;
        }
    }
    Ok(report)
}

fn buffered(vfs: SimVfs) -> SimVfs {
    vfs.without_direct_io();
    vfs
}

fn one_run<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &CachedPlan,
    vfs: &SimVfs,
    report: &mut CachedReport,
) -> Result<(), Failure> {
    // A store whose creation fails has returned nothing.
    let started = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Expected);
    let Ok(mut run) = started else { return Ok(()) };
    run.script(script)?;
    if vfs.struck() == 0 {
        return Ok(());
    }
    let (note, model) = (run.note(), run.model().clone());
    vfs.halt();
    run.abandon();
    let disk = vfs.disk();
    let killed = buffered(SimVfs::start(disk.after_kill()));
    if plan.is_full {
        killed.set_capacity(Some(killed.allocated_bytes()));
        // The store may have space of its own in its files, which must be found full, too.
        (0..100).for_each(|n| {
            killed.plan(Fault::once(When::Kind(CallKind::Allocate, n), FaultKind::Enospc));
        });
    }
    killed.record();
    let mut store = Opened::open(engine, &killed.env(seed ^ 1))
        .map_err(|error| Failure(format!("does not open after the kill: {error}")))?;
    let points = killed.recorded();
    report.opened += 1;
    let found = store.read_everything()?;
    let step = find_step(&model, &found, note.floor_kill, note.issued)?;
    report.cramped += u64::from(store.lacked_room());
    let opened = killed.disk();
    killed.halt();
    drop(store);
    let step_of = |disk: DiskState, floor| -> Result<u64, Failure> {
        let env = buffered(SimVfs::start(disk)).env(seed ^ 2);
        let mut store = Opened::open(engine, &env)
            .map_err(|error| Failure(format!("does not open: {error}")))?;
        find_step(&model, &store.read_everything()?, floor, step)
    };
    let before = disk.after_power_loss(|_, _, _| {});
    let lost = step_of(before, note.floor_power.min(step))
        .map_err(|failure| failure.during("power lost instead of the kill"))?;
    report.served += u64::from(lost < step);
    let options = plan.states.with_seed(seed ^ report.opened);
    // Until the store is open, only synced commits must be there.
    let mut dice = Dice::new(seed ^ report.opened);
    for _ in 0..plan.calls {
        let point = dice.pick(&points);
        for state in crash_states(&point.disk, &options).into_iter().filter(|state| !state.kill) {
            let place = format!("power lost in the opening before {}, {}", point.call, state.what);
            let floor = note.floor_power.min(step);
            step_of(state.disk, floor).map_err(|failure| failure.during(place))?;
            report.again += 1;
        }
    }
    for state in crash_states(&opened, &options).into_iter().filter(|state| !state.kill) {
        let place = format!("power lost after the opening (P6), {}", state.what);
        step_of(state.disk, step).map_err(|failure| failure.during(place))?;
        report.again += 1;
    }
    Ok(())
}
