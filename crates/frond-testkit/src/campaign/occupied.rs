//! A disk that other programs take (P5, P13; I24): whatever a script did, the store is killed at
//! any call and opened with nothing free, most often without the space that it had in reserve. It
//! opens in a legal state, and once there is space it works fully again.
//!
//! The replay then has to apply without free space whatever scripts do: loads, clones, named
//! snapshots, spilled and prepared transactions, and values that merges make longer than a run can
//! hold. Sizes are chosen so that these are some KiB.

use std::{fmt, path::Path};

use frond::Isolation;

use super::guarded;
use crate::{
    DbEngine, Dice,
    db_engine::DIR,
    disk::{CallKind, CrashOptions, DiskState, Fault, FaultKind, SimVfs, When, crash_states},
    drive::{Engine, Errors, Failure, Opened, Run, find_step},
    model::Model,
    ops::{Key, Op, TxnOp, Value, Write},
};

const LOG_RESERVE: &str = "log-reserve.new";
/// More allocations than an opening makes.
const ALLOCATIONS_MAX: u64 = 500;
/// A value of at most this many bytes stays inline; on a full disk, one of 512 times that stays in
/// a run.
const BLOB_BYTES: usize = 20;

/// The slot of transactions with long values that grow; no other transaction uses it.
const TXN: u8 = 99;

/// How much to try.
#[derive(Clone, Copy, Debug)]
pub struct OccupiedPlan {
    /// Number of calls at which the store is killed.
    pub calls: usize,
    /// Crash states at each of them.
    pub states: CrashOptions,
}

impl Default for OccupiedPlan {
    fn default() -> Self {
        Self { calls: 60, states: CrashOptions::random(1) }
    }
}

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct OccupiedReport {
    /// Stores opened with nothing free.
    pub opened: u64,
    /// Of these, stores without reserves.
    pub unreserved: u64,
    /// Of these, stores without space for the checkpoint that ends a recovery.
    pub cramped: u64,
}

impl OccupiedReport {
    /// Adds another report.
    pub fn add(&mut self, other: &OccupiedReport) {
        self.opened += other.opened;
        self.unreserved += other.unreserved;
        self.cramped += other.cramped;
    }
}

impl fmt::Display for OccupiedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { opened, unreserved, cramped } = self;
        write!(
            f,
            "{opened} opened with nothing free, {unreserved} without reserves, {cramped} without a checkpoint"
        )
    }
}

/// An engine with sizes at which values soon become too long for a run.
pub fn occupied_engine(mut engine: DbEngine) -> DbEngine {
    engine.tuning.shape.iter_mut().for_each(|shape| shape.blob_bytes = BLOB_BYTES);
    engine
}

/// A script with long values that grow: some rows are put again, or appended to, again and again.
pub fn with_growing_values(mut script: Vec<Op>, seed: u64) -> Vec<Op> {
    let mut dice = Dice::new(seed ^ 0x6720);
    let trees: Vec<String> = script
        .iter()
        .filter_map(|op| match op {
            Op::Create { tree, .. } | Op::Bulk { tree, .. } | Op::Clone(_, tree) => {
                Some(tree.clone())
            }
            _ => None,
        })
        .collect();
    for n in 0..script.len() as u32 / 2 {
        let at = dice.between(1, script.len() as u64) as usize;
        let tree = dice.pick(&trees).clone();
        let key = Key { class: b'p', ..Key::plain(dice.below(3) as u32) };
        let mut value = |n| Value { seed: 0x7000 + n, bytes: dice.between(2000, 14_000) as u32 };
        let put = Write::Put(tree.clone(), key, value(2 * n));
        let append = Write::Append(tree, key, value(2 * n + 1));
        let ops = match dice.below(6) {
            0 | 1 => vec![Op::Commit(None, vec![put])],
            2 | 3 => vec![Op::Commit(None, vec![append])],
            // Each write by itself is spilled, if the limit is small enough.
            _ => vec![
                Op::Begin(TXN, Isolation::ReadCommitted, None),
                Op::InTxn(TXN, TxnOp::Write(put)),
                Op::InTxn(TXN, TxnOp::Write(append)),
                Op::InTxn(TXN, TxnOp::Commit),
            ],
        };
        script.splice(at..at, ops);
    }
    script
}

/// Runs a script with all the space it wants, and opens what crashes leave of it where there is
/// none.
pub fn open_occupied<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    plan: &OccupiedPlan,
) -> Result<OccupiedReport, Failure> {
    let mut report = OccupiedReport::default();
    let mut dice = Dice::new(seed ^ 0x0cc0);
    let vfs = SimVfs::new();
    let mut run = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::Fail)?;
    vfs.record();
    guarded(|| run.script(script))?;
    let (points, model) = (vfs.recorded(), run.model().clone());
    vfs.halt();
    run.abandon();
    if points.is_empty() {
        return Ok(report);
    }
    for _ in 0..plan.calls {
        let point = dice.pick(&points);
        let options = plan.states.with_seed(seed ^ point.change_number);
        for state in crash_states(&point.disk, &options) {
            let floor = if state.kill { point.note.floor_kill } else { point.note.floor_power };
            let is_unreserved = dice.chance(3, 4);
            let place = || {
                format!(
                    "crash before {}: {}, without reserves: {is_unreserved}",
                    point.call, state.what
                )
            };
            let bounds = (floor, point.note.issued);
            let opened = guarded(|| {
                reopen(engine, &state.disk, &model, bounds, is_unreserved, seed, &mut report)
            });
            opened.map_err(|failure| failure.during(place()))?;
        }
    }
    Ok(report)
}

/// Starts a machine whose disk has nothing free; with `is_unreserved`, neither has the store.
pub fn start_occupied(disk: &DiskState, is_unreserved: bool) -> frond::Result<SimVfs> {
    let vfs = SimVfs::start(disk.clone());
    if is_unreserved {
        let (dir, reserve) = (Path::new(DIR), Path::new(DIR).join(LOG_RESERVE));
        let gone = match frond::internals::io::Vfs::exists(&vfs, &reserve) {
            Ok(true) => frond::internals::io::Vfs::remove(&vfs, &reserve)
                .and_then(|()| frond::internals::io::Vfs::sync_dir(&vfs, dir)),
            found => found.map(drop),
        };
        gone.map_err(|error| frond::Error::io(&reserve, "remove", 0, error))?;
        for call in 0..ALLOCATIONS_MAX {
            vfs.plan(Fault::once(When::Kind(CallKind::Allocate, call), FaultKind::Enospc));
        }
    }
    vfs.set_capacity(Some(vfs.allocated_bytes()));
    Ok(vfs)
}

fn reopen<E: Engine>(
    engine: &E,
    disk: &DiskState,
    model: &Model,
    (floor, issued): (u64, u64),
    is_unreserved: bool,
    seed: u64,
    report: &mut OccupiedReport,
) -> Result<(), Failure> {
    let vfs = start_occupied(disk, is_unreserved)?;
    let mut store = Opened::open(engine, &vfs.env(seed ^ 1))
        .map_err(|error| Failure(format!("does not open with nothing free: {error}")))?;
    report.opened += 1;
    report.unreserved += u64::from(is_unreserved);
    report.cramped += u64::from(store.lacked_room());
    let found = store.read_everything()?;
    let step = find_step(model, &found, floor, issued)?;
    store.check().map_err(|damage| Failure(format!("check finds damage: {damage}")))?;
    vfs.halt();
    drop(store);
    // Killed again; and now there is space.
    let vfs = SimVfs::start(vfs.disk().after_kill());
    let mut store = Opened::open(engine, &vfs.env(seed ^ 2))
        .map_err(|error| Failure(format!("does not open with room again: {error}")))?;
    let found = store.read_everything()?;
    find_step(model, &found, step, step).map_err(|failure| failure.during("with room again"))?;
    store.check().map_err(|damage| Failure(format!("check finds damage at last: {damage}")))?;
    vfs.halt();
    Ok(())
}
