//! Helpers that run embedded workloads in tests.

use std::path::Path;

use super::{TARGETS, Workload, find, run_workload, target};
use crate::lab::cell_spec::CellSpec;
use crate::lab::metric;
use crate::lab::params::Params;
use crate::lab::results::{CellResult, State, StepResult};
use crate::lab::size::{Durability, Face, Size};

/// A cell with default parameters.
pub fn spec(workload: &str, target: &str, size: Size, dir: &Path) -> CellSpec {
    CellSpec {
        workload: workload.to_owned(),
        changes: Vec::new(),
        face: Face::Embedded,
        target: target.to_owned(),
        size,
        class: "host".to_owned(),
        limits: None,
        disk: None,
        durability: Durability::Relaxed,
        seed: 42,
        memory: None,
        dir: dir.to_owned(),
        with_rest: false,
        with_crash: false,
        plugin: None,
    }
}

/// Constructs a workload at tiny, with these parameters.
pub fn make(name: &str, changes: &[(&str, &str)]) -> Box<dyn Workload> {
    let changes: Vec<_> = changes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let entry = find(name).expect("a workload of the registry");
    let params = Params::new(name, entry.params, Size::Tiny, &changes).expect("its parameters");
    (entry.make)(&params, 42).expect("parameters that are right")
}

/// The targets that a test must cover: all of them, except for TidesDB without its feature.
///
/// # Panics
/// The library of a target was missing when the lab was built.
pub fn all_targets() -> Vec<&'static str> {
    let is_asked = |store: &&str| *store != "tidesdb" || cfg!(feature = "tidesdb");
    let targets: Vec<&str> = TARGETS.into_iter().filter(is_asked).collect();
    for store in &targets {
        target(store).unwrap_or_else(|failure| panic!("{failure}"));
    }
    targets
}

/// Runs a workload at tiny on every target. Checks that nothing fails, all verifications pass, and
/// the facts are equal on all targets. `visit` gets each result.
pub fn on_all(name: &str, changes: &[(&str, &str)], visit: impl Fn(&str, &CellResult)) {
    let mut facts = Vec::new();
    for store in all_targets() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = spec(name, store, Size::Tiny, dir.path());
        let result = run_workload(make(name, changes).as_mut(), &spec, false);
        let result = result.unwrap_or_else(|failure| panic!("{name} on {store}: {failure}"));
        assert_eq!(result.state, State::Done, "{name} on {store}: {:?}", result.failure);
        for step in &result.steps {
            for metric in step.metrics.keys() {
                assert!(metric::find(metric).is_some(), "{store}: {metric} is no metric");
            }
            assert!(!step.latencies.is_empty(), "{store}: {} has no latencies", step.name);
        }
        if store != "null" {
            assert!(result.verified.len() > 1 && result.verified.iter().all(|one| one.passed));
            assert!(result.metrics["disk_b_row"] > 0.0, "{name} on {store}");
            facts.push((store, result.facts.clone()));
        }
        visit(store, &result);
    }
    let (_, first) = &facts[0];
    assert!(!first.is_empty() && facts.iter().all(|(_, other)| other == first), "{facts:?}");
}

/// Finds a step of a result by name.
pub fn step_of<'r>(result: &'r CellResult, name: &str) -> &'r StepResult {
    let found = result.steps.iter().find(|step| step.name == name);
    found.unwrap_or_else(|| panic!("no step {name}"))
}
