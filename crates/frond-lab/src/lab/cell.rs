//! `lab cell`: runs one cell in a separate process. It reads the cell's specification as JSON from
//! standard input, and writes `progress STEP OPS SECONDS PLANNED` lines and a final `cell JSON`
//! line to standard output.
//!
//! Invariants
//! 1. Errors are reported in the result: the process fails only if it cannot deliver a result.
//! 2. SIGINT, SIGTERM and SIGHUP end the running step: the result then holds what was measured so
//!    far.

use std::io::Read;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cell_spec::{CellSpec, URL};
use super::results::{CellResult, State};
use super::size::{Face, Size};
use super::sql::{Bench, Conditions, Place};
use super::{embedded, time, workloads};
use crate::measure;
use crate::targets::{Failure, Result};

/// Interval between two samples of counters.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
const SAMPLE_EVERY_PUBLISHED: Duration = Duration::from_secs(60);

/// Runs the cell whose specification is on standard input.
///
/// # Errors
/// The specification is unreadable.
pub fn main() -> Result<()> {
    // If the run is killed, the kernel kills its cell too, and likewise the cell's server.
    let with_parent = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    with_parent.map_err(|error| Failure(error.to_string()))?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let spec: CellSpec = serde_json::from_str(&text)?;
    ctrlc::set_handler(measure::interrupt).map_err(|error| Failure(error.to_string()))?;
    let (begin, began) = (Instant::now(), time::now());
    let outcome = match spec.face {
        Face::Sql => run(&spec),
        Face::Embedded => embedded::run(&spec),
    };
    let mut result = outcome.unwrap_or_else(|failure| CellResult {
        state: State::Failed,
        failure: Some(failure.0),
        ..CellResult::default()
    });
    if measure::is_interrupted() && result.state != State::Failed {
        result.state = State::Stopped;
        result.failure = Some("interrupted".to_owned());
    }
    if let Ok(params) = spec.params() {
        result.parameters.extend(params.iter().map(|(n, v)| (n.to_owned(), v.to_owned())));
    }
    if let Ok(ratio) = spec.effective_ratio() {
        result.parameters.insert("(ratio in force)".to_owned(), format!("{ratio:.2}"));
    }
    result.began = began;
    result.seconds = begin.elapsed().as_secs_f64();
    println!("cell {}", serde_json::to_string(&result)?);
    Ok(())
}

fn run(spec: &CellSpec) -> Result<CellResult> {
    let entry = workloads::find(&spec.workload)?;
    let params = spec.params()?;
    let mut workload = (entry.make)(&params, spec.seed)?;
    let (target, memory) = (spec.target()?, spec.memory()?);
    let limit = Some(params.number("time_limit")?).filter(|seconds| *seconds > 0);
    let place = match spec.target.starts_with(URL) {
        true => Place::Url(spec.target.clone()),
        false => Place::Own(spec.dir.clone()),
    };
    let class = spec.storage_class()?;
    let conditions = Conditions {
        memory,
        durability: spec.durability,
        class: &class,
        disk: spec.disk,
        time_limit: limit,
        with_rest: spec.with_rest,
        sample_every: match spec.size {
            Size::Published => SAMPLE_EVERY_PUBLISHED,
            _ => SAMPLE_EVERY,
        },
        with_crash: spec.with_crash,
    };
    let mut bench = Bench::start(&place, &target, &conditions)?;
    match workload.run(&mut bench) {
        Ok(live) => bench.finish(live),
        Err(failure) => {
            // Keep what was measured before the failure.
            let log_tail = bench.log_tail();
            let found = std::mem::take(&mut bench.result);
            // A statement that Ctrl-C ended is not a failure.
            let is_stopped = measure::is_interrupted() && found.state != State::Failed;
            let (state, failure) =
                if is_stopped { (State::Stopped, None) } else { (State::Failed, Some(failure.0)) };
            Ok(CellResult { state, failure, log_tail, ..found })
        }
    }
}
