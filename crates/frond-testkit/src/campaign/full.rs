//! Disks that are too small, of every size (P13): statements are refused and reads continue; when
//! space is free again, statements succeed without a restart.

use std::fmt;

use super::guarded;
use crate::{
    disk::SimVfs,
    drive::{Engine, Errors, Failure, Run},
    model::Model,
    ops::Op,
};

/// What was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullReport {
    /// Sizes of the disk.
    pub sizes: u64,
    /// Statements that were refused.
    pub refused: u64,
}

impl fmt::Display for FullReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sizes of the disk, {} statements refused", self.sizes, self.refused)
    }
}

/// Runs the script on disks that have `step_bytes`, twice that, … of space left after the store was
/// created, until nothing is refused any more.
pub fn fill_the_disk<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
    step_bytes: u64,
) -> Result<FullReport, Failure> {
    let mut report = FullReport::default();
    loop {
        let spare = report.sizes * step_bytes;
        let refused = guarded(|| one_size(engine, script, seed, spare))
            .map_err(|failure| failure.during(format!("{spare} bytes to spare")))?;
        report.sizes += 1;
        report.refused += refused;
        if refused == 0 {
            return Ok(report);
        }
    }
}

fn one_size<E: Engine>(engine: &E, script: &[Op], seed: u64, spare: u64) -> Result<u64, Failure> {
    let vfs = SimVfs::new();
    let mut run = Run::start(engine, vfs.clone(), seed, Model::new(), Errors::OnlyFull)?;
    vfs.set_capacity(Some(vfs.allocated_bytes() + spare));
    run.script(script)?;
    run.compare().map_err(|failure| failure.during("reading while full"))?;
    let refused = run.errors_met;
    vfs.set_capacity(None);
    // Background work that found the disk full tries again after a second.
    run.go(&Op::Advance(1500))?;
    run.go(&Op::Create { tree: "after".into(), unique: false })?;
    run.go(&Op::Checkpoint)?;
    if run.errors_met > refused {
        return crate::drive::fail("refused although the space is back");
    }
    run.finish()?;
    Ok(refused)
}
