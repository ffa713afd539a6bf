//! Worn-down trees (P9, P10; rule I1): nodes lose their last child wherever they can. Everything
//! that is written afterwards can be read, immediately and after a crash at any moment.

use std::fmt;

use frond::{Durability, SizeClass, internals::Shape};

use super::{check_crashed_disk, guarded};
use crate::{
    DbEngine, Dice,
    disk::{CrashOptions, SimVfs, crash_states},
    drive::{Errors, Failure, Run},
    model::Model,
    ops::Op,
};

/// Counts of what happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeReport {
    /// Operations.
    pub operations: u64,
    /// Maximum number of levels of nodes above leaves.
    pub levels: u64,
    /// How often an upper node had a single child after an operation.
    pub single: u64,
    /// How often placeholder leaves, or nodes without rows, held a range.
    pub placeholder: u64,
    /// Drain steps that moved something.
    pub drains: u64,
    /// Crashes tried on a copy of the disk: opened, compared, checked.
    pub looks: u64,
}

impl EdgeReport {
    /// Adds another report.
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.levels = self.levels.max(other.levels);
        self.single += other.single;
        self.placeholder += other.placeholder;
        self.drains += other.drains;
        self.looks += other.looks;
    }
}

impl fmt::Display for EdgeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operations, levels, single, placeholder, drains, looks } = self;
        write!(
            f,
            "{operations} operations, up to {levels} levels of nodes, {single} times an upper node with a single child, {placeholder} \
             times ranges without rows, {drains} steps of draining, {looks} crashes tried aside"
        )
    }
}

/// An engine whose trees are several levels deep after some dozen rows.
pub fn edge_engine(seed: u64) -> DbEngine {
    let dice = &mut Dice::new(seed ^ 0xed6e);
    let level = *dice.pick(&[Durability::Sync, Durability::Os, Durability::Lazy]);
    let mut engine = DbEngine::tiny(level);
    engine.size_class = *dice.pick(&[SizeClass::Fast, SizeClass::Small]);
    engine.tuning.shape = Some(Shape {
        leaf_bytes: *dice.pick(&[200, 400, 800]),
        fanout_max: *dice.pick(&[2, 3, 4, 6]),
        push_bytes: *dice.pick(&[0, 200, 600]),
        block_bytes: 128,
        run_bytes: *dice.pick(&[400, 1 << 10, 4 << 10]),
        blob_bytes: *dice.pick(&[30, 250, 1000]),
        blob_piece_bytes: 512,
        tiers_max: *dice.pick(&[2, 4]),
        tiers_max_bottom: *dice.pick(&[1, 3]),
    });
    if let Some(limits) = &mut engine.tuning.limits {
        limits.memtable_bytes = *dice.pick(&[1 << 10, 8 << 10, 64 << 10]);
    }
    engine
}

/// Runs a script of [`worn_edges`](crate::ops::worn_edges). In between, compares and checks the
/// running store, and opens what a crash would leave of it: after each operation in one seed of
/// ten, otherwise now and then.
pub fn wear_edges(engine: &DbEngine, script: &[Op], seed: u64) -> Result<EdgeReport, Failure> {
    guarded(|| {
        let mut report = EdgeReport::default();
        let mut dice = Dice::new(seed ^ 0x100c);
        let mut run = Run::start(engine, SimVfs::new(), seed, Model::new(), Errors::Fail)?;
        for (index, op) in script.iter().enumerate() {
            let during = |failure: Failure| failure.during(format!("operation {index}: {op:.80}"));
            let every = seed.is_multiple_of(10);
            let looks = every || dice.chance(1, 12);
            let restarted = matches!(op, Op::Reopen | Op::Crash(_) | Op::Kill);
            let before = run.store()?.db().stats().drains;
            run.go(op).map_err(during)?;
            report.operations += 1;
            if !restarted {
                let after = run.store()?.db().stats().drains;
                report.drains += after.saturating_sub(before);
            }
            if every || restarted || dice.chance(1, 12) {
                measure(&mut run, &mut report).map_err(during)?;
                run.compare().and_then(|()| run.check()).map_err(during)?;
            }
            if looks {
                report.looks += 1;
                look(engine, &run, seed ^ index as u64).map_err(during)?;
            }
        }
        run.finish()?;
        Ok(report)
    })
}

fn measure(run: &mut Run<'_, DbEngine>, report: &mut EdgeReport) -> Result<(), Failure> {
    let shape = run.store()?.db().open_tree("t0")?.shape()?;
    let upper = shape.levels.iter().skip(1).filter(|level| level.level >= 2);
    report.levels = report.levels.max(shape.levels.len().saturating_sub(1) as u64);
    report.single += upper.filter(|level| level.children_min == 1).count() as u64;
    report.placeholder += u64::from(shape.levels.iter().any(|level| level.placeholder > 0));
    Ok(())
}

/// Opens a copy of the disk as a crash at this moment may leave it: the rows must be legal, and
/// everything must be readable.
fn look(engine: &DbEngine, run: &Run<'_, DbEngine>, seed: u64) -> Result<(), Failure> {
    let options = CrashOptions::random(1).with_seed(seed);
    let Some(state) = crash_states(&run.vfs().disk(), &options).pop() else { return Ok(()) };
    let during = |failure: Failure| failure.during(format!("a crash: {}", state.what));
    check_crashed_disk(engine, run, state.disk, run.note().floor_power, seed).map_err(during)
}
