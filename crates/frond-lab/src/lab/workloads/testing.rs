//! Helpers of tests that run a workload on real servers.

use super::{Workload, find};
use crate::lab::machine::class;
use crate::lab::params::Params;
use crate::lab::results::{State, StepResult};
use crate::lab::size::{Durability, Size};
use crate::lab::sql::{Bench, Conditions, Place};
use crate::lab::target::SqlTarget;
use crate::targets::Result;
use std::time::Duration;

const MEMORY: u64 = 64 << 20;

fn make(name: &str, changes: &[(&str, &str)]) -> Box<dyn Workload> {
    let changes: Vec<_> = changes.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let entry = find(name).expect("a workload of the registry");
    let params = Params::new(name, entry.params, Size::Tiny, &changes).expect("its parameters");
    (entry.make)(&params, 42).expect("parameters that are right")
}

/// Starts a server for a test.
pub fn start(place: &Place, target: &SqlTarget) -> Result<Bench> {
    let class = class::find("host")?;
    let conditions = Conditions {
        memory: MEMORY,
        durability: Durability::Relaxed,
        class: &class,
        disk: None,
        time_limit: None,
        with_rest: false,
        sample_every: Duration::from_secs(10),
        with_crash: false,
    };
    Bench::start(place, target, &conditions)
}

/// Runs a workload at size tiny on InnoDB and on FROND. Checks that nothing fails, that the facts
/// are the same on both, and that all verifications pass. Calls `visit` for each target after its
/// run.
pub fn on_both(name: &str, changes: &[(&str, &str)], visit: impl Fn(&mut Bench)) {
    let mut facts = Vec::new();
    for target in ["innodb", "frond"] {
        let dir = tempfile::tempdir().expect("a directory");
        let target = SqlTarget::find(target).expect("a target of ours");
        let place = Place::Own(dir.path().to_owned());
        let mut bench = start(&place, &target).expect("started");
        let ran = make(name, changes).run(&mut bench);
        let live = ran.unwrap_or_else(|failure| panic!("{name} on {}: {failure}", target.name));
        let found = &bench.result;
        assert_eq!(found.state, State::Done, "{name} on {}: {:?}", target.name, found.failure);
        assert!(live.0 > 0 && live.1 > 0, "{live:?}");
        assert!(found.verified.len() > 1 && found.verified.iter().all(|found| found.passed));
        for step in &found.steps {
            for metric in step.metrics.keys() {
                assert!(crate::lab::metric::find(metric).is_some(), "{metric} has no line");
            }
        }
        facts.push(found.facts.clone());
        visit(&mut bench);
    }
    assert_eq!(facts[0], facts[1], "{name}: not the same rows");
}

/// Returns the step with this name.
pub fn step<'b>(bench: &'b Bench, name: &str) -> &'b StepResult {
    let found = bench.result.steps.iter().find(|step| step.name == name);
    found.unwrap_or_else(|| panic!("no step {name}"))
}

/// Damages the rows with a statement, and checks that the workload's verification detects it.
pub fn must_fail(bench: &mut Bench, harm: &str, verify: impl Fn(&mut Bench) -> Result<()>) {
    let harmed = bench.admin().run(harm).expect("a statement that is right");
    assert!(harmed > 0, "{harm}: nothing was harmed");
    verify(bench).expect("verification runs");
    assert_eq!(bench.result.state, State::Failed, "{harm}: not found");
}
