//! Campaigns: whole families of runs, each with a report that says how much was tried.
//!
//! | campaign | claim |
//! |---|---|
//! | [`model_run`], [`same_answers`] | answers are the model's, whatever the options (P2, P3, P25) |
//! | [`crash_everywhere`] | at every call, whatever a crash leaves opens in a legal state (P1–P8) |
//! | [`fail_each_call`] | if the n-th call fails, that is an error, never a wrong answer (P10–P12) |
//! | [`forget_the_cache`] | rows that a store returns after a failed sync are also there after a
//! power failure (P6) |
//! | [`fill_the_disk`] | a full disk refuses writes, reads continue, and free space is enough to
//! resume (P13) |
//! | [`fill_and_reopen`] | a disk that the store has filled is opened with nothing free, and emptied by deletes (P5, P13) |
//! | [`empty_in_one_batch`] | a batch that deletes most rows of a full disk leaves a store that can checkpoint (P13) |
//! | [`open_occupied`] | whatever was done before others took the disk, a store opens with nothing free (P5, P13) |
//! | [`heal_everywhere`] | a sector that fails only during one opening loses nothing, whatever crashes follow (P5, P10, P11) |
//! | [`reach_bound`], [`reach_all_bounds`] | whatever has reached its maximum, more is refused before it is acknowledged (P1, P5, P9) |
//! | [`fill_the_map`] | a store as large as its space map can list behaves as on a full disk (P13) |
//! | [`wear_edges`] | worn-down trees can be read, whatever is left of their nodes (P9, P10) |
//! | [`sweep_damage`] | damage anywhere is an error or harmless, never a wrong row (P9, P19, P20) |
//!
//! Every campaign is a function of engine, script and seed alone.

mod cached;
mod crash;
mod edges;
mod emptied;
mod faults;
mod filled;
mod full;
mod heal;
mod limits;
mod log;
mod model;
mod occupied;
mod pages;
mod sweep;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use cached::{CachedPlan, CachedReport, forget_the_cache};
pub use crash::{CrashPlan, CrashReport, crash_everywhere};
pub use edges::{EdgeReport, edge_engine, wear_edges};
pub use emptied::empty_in_one_batch;
pub use faults::{FaultPlan, FaultReport, fail_each_call};
pub use filled::{FilledPlan, FilledReport, fill_and_reopen};
pub use full::{FullReport, fill_the_disk};
pub use heal::{HealPlan, HealReport, heal_everywhere};
pub use limits::{LimitReport, fill_the_map, reach_all_bounds, reach_bound, tunable};
pub use log::bound_the_log;
pub use model::{model_run, model_run_met, same_answers};
pub use occupied::{
    OccupiedPlan, OccupiedReport, occupied_engine, open_occupied, start_occupied,
    with_growing_values,
};
pub use pages::{Decay, DecayReport, break_newest_version, break_pages, store_pages};
pub use sweep::{Damage, SweepPlan, SweepReport, closed_store, sweep_damage};

use crate::{
    disk::{DiskState, SimVfs},
    drive::{Engine, Failure, Opened, Run, fail, find_step},
    ops::{Op, script_text, shrink},
};

/// Runs a part of a campaign; a panic of the engine is a failure like any other (P20).
fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            fail(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

/// Opens a disk that a crash of this run has left. It must be in a legal state, of step `floor` or
/// a later one, and everything must be readable.
fn check_crashed_disk<E: Engine>(
    engine: &E,
    run: &Run<'_, E>,
    disk: DiskState,
    floor: u64,
    seed: u64,
) -> Result<(), Failure> {
    let vfs = SimVfs::start(disk);
    let mut store = Opened::open(engine, &vfs.env(seed))?;
    let found = store.read_everything()?;
    find_step(run.model(), &found, floor, run.note().issued)?;
    store.check().map_err(|damage| Failure(format!("check finds damage: {damage}")))
}

/// Runs a campaign on a script. If it fails, shrinks the script and panics with it, ready to be
/// kept in `tests/seeds/`.
pub fn hold<T>(
    name: &str,
    seed: u64,
    script: &[Op],
    campaign: impl Fn(&[Op]) -> Result<T, Failure>,
) -> T {
    let failure = match campaign(script) {
        Ok(report) => return report,
        Err(failure) => failure,
    };
    let small = shrink(script, SHRINK_ATTEMPTS, |script| campaign(script).is_err());
    let last = campaign(&small).err().unwrap_or_else(|| failure.clone());
    panic!(
        "{name}, seed {seed}: {failure}\n--- smallest script found ({} of {} operations): {last}\n{}---",
        small.len(),
        script.len(),
        script_text(&small)
    );
}

const SHRINK_ATTEMPTS: usize = 150;
