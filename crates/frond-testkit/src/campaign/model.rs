//! Runs scripts against the model, and one script under different options. One seed in ten checks
//! the store after each step.

use super::{check_crashed_disk, guarded};
use crate::{
    disk::SimVfs,
    drive::{Engine, Errors, Failure, Met, Run, fail},
    model::Model,
    ops::Op,
};

/// One seed in this many checks the store after each operation.
const LOOKED_AT: u64 = 10;

/// Runs a script and compares every answer; ends with a check and restarts. Returns how many
/// commits the crashes of the script lost, so that a test can assert that they lost some now and
/// then.
pub fn model_run<E: Engine>(engine: &E, script: &[Op], seed: u64) -> Result<u64, Failure> {
    model_run_met(engine, script, seed).map(|(lost, _)| lost)
}

/// Runs a script, like [`model_run`], and also returns what happened to its transactions.
pub fn model_run_met<E: Engine>(
    engine: &E,
    script: &[Op],
    seed: u64,
) -> Result<(u64, Met), Failure> {
    guarded(|| {
        let vfs = SimVfs::new();
        let mut run = Run::start(engine, vfs, seed, Model::new(), Errors::Fail)?;
        match seed.is_multiple_of(LOOKED_AT) {
            true => look_at_each_step(engine, &mut run, script, seed)?,
            false => run.script(script)?,
        }
        run.finish()?;
        match run.vfs().violations().first() {
            None => Ok((run.lost, run.met)),
            Some(violation) => fail(violation.clone()),
        }
    })
}

/// Runs a script. After each operation the running store is checked in full; and what a process
/// that is killed now would leave is opened on a copy of the disk, compared and checked in full.
fn look_at_each_step<E: Engine>(
    engine: &E,
    run: &mut Run<'_, E>,
    script: &[Op],
    seed: u64,
) -> Result<(), Failure> {
    for (index, op) in script.iter().enumerate() {
        let during = |failure: Failure| failure.during(format!("operation {index}: {op:.80}"));
        run.go(op).map_err(during)?;
        run.check().map_err(during)?;
        let killed = run.vfs().disk().after_kill();
        check_crashed_disk(engine, run, killed, run.note().floor_kill, seed).map_err(during)?;
    }
    Ok(())
}

/// Runs a script twice; both runs must make the same calls, since only then does a seed replay a
/// failure.
pub fn same_answers<E: Engine>(engine: &E, script: &[Op], seed: u64) -> Result<u64, Failure> {
    guarded(|| {
        let mut traces = Vec::new();
        for _ in 0..2 {
            let vfs = SimVfs::new();
            let mut run = Run::start(engine, vfs, seed, Model::new(), Errors::Fail)?;
            run.script(script)?;
            run.close()?;
            traces.push((run.vfs().trace(), run.vfs().calls()));
        }
        match traces[0] == traces[1] {
            true => Ok(traces[0].0),
            false => fail(format!("one seed, two traces (hash, calls): {traces:?}")),
        }
    })
}
