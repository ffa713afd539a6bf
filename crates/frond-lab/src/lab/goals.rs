//! Compares what a run measured with Frond's goals, which are in `lab/goals.toml`.
//!
//! Invariants
//! 1. A goal is judged only if the run measured every value that it needs, Frond's and the rival's.

use std::collections::BTreeSet;

use super::exchange::short;
use super::results::{Measured, RunInfo};
use super::statistics::Spread;
use crate::goals::{Goal, TARGET, all};

/// Median of the goal's metric over the repeats of a target in this variant.
fn median(goal: &Goal, measured: &[Measured], variant: &str, target: &str) -> Option<f64> {
    let values = measured.iter().filter(|one| {
        one.workload == goal.workload
            && one.variant == variant
            && one.face == goal.face
            && goal.is_of(&one.step)
            && one.metric == goal.metric
            && one.target == target
    });
    let values: Vec<f64> = values.map(|one| one.value).collect();
    Spread::of(&values).map(|spread| spread.median)
}

/// Formats the goal with its verdict; `None` if a value was not measured.
fn line(goal: &Goal, measured: &[Measured], variant: &str) -> Option<String> {
    let own = median(goal, measured, variant, TARGET)?;
    let rival = match &goal.rival {
        None => None,
        Some(name) => {
            let theirs = median(goal, measured, variant, name).filter(|value| *value > 0.0)?;
            Some((name.as_str(), theirs))
        }
    };
    let (verdict, _) = goal.verdict(own, rival, short);
    // Goals of several tests of db_bench read alike.
    let step =
        if goal.workload == "dbbench" { format!(" in {}", goal.step) } else { String::new() };
    Some(format!("goal    {}{step}: {verdict}", goal.what))
}

/// Formats the goals that a run measured, one line each, with their verdicts.
pub fn lines(run: &RunInfo, measured: &[Measured]) -> String {
    let mut out = String::new();
    for goal in all() {
        if !goal.durability.is_empty() && !goal.durability.contains(&run.durability) {
            continue;
        }
        let variants: BTreeSet<&str> = measured.iter().map(|one| one.variant.as_str()).collect();
        for line in variants.into_iter().filter_map(|variant| line(goal, measured, variant)) {
            out += &line;
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;
    use crate::lab::metric;
    use crate::lab::size::Face;
    use crate::lab::{embedded, workloads};
    use crate::workloads::Name;

    #[test]
    fn goals_are_of_workloads_and_metrics_that_exist() {
        for goal in all() {
            let is_known = match goal.face == Face::Sql.to_string() {
                true => workloads::find(&goal.workload).is_ok(),
                false => embedded::find(&goal.workload).is_ok(),
            };
            // The others are judged by `frond bench`, which has its own names.
            let is_own = Name::from_str(&goal.workload, false).is_ok();
            assert!(is_known || is_own, "{goal:?}");
            assert!(!is_known || metric::find(&goal.metric).is_some(), "{goal:?}");
            if is_known && goal.face == Face::Embedded.to_string() && goal.workload == "dbbench" {
                let steps = embedded::find("dbbench").map(|entry| entry.params[0].defaults[0]);
                assert!(steps.is_ok_and(|steps| steps.split(',').any(|step| step == goal.step)));
            }
        }
    }

    #[test]
    fn goals_are_met_at_their_factor_and_unmeasured_ones_are_omitted() {
        let one = |target: &str, step: &str, metric: &str, value| Measured {
            workload: "iibench".to_owned(),
            variant: String::new(),
            face: "sql".to_owned(),
            target: target.to_owned(),
            repeat: 1,
            step: step.to_owned(),
            metric: metric.to_owned(),
            value,
            memory_b: 0,
        };
        let measured = [
            one("blackhole", "load", "exit_velocity", 400.0),
            one("frond", "load", "exit_velocity", 200.0),
            one("innodb-4k", "load", "exit_velocity", 6.0),
            one("frond", "", "disk_b_row", 25.0),
            one("innodb-4k", "", "disk_b_row", 49.0),
        ];
        let run = |durability: &str| RunInfo {
            id: 1,
            uid: "u".to_owned(),
            suite: "iibench".to_owned(),
            size: "quick".to_owned(),
            class: "host".to_owned(),
            durability: durability.to_owned(),
            seed: 42,
            command: String::new(),
            began: String::new(),
            ended: None,
            machine: String::new(),
        };
        let text = lines(&run("lazy"), &measured);
        let expected = [
            "goal    rows/s at the end: 200 = 0.50 x 400 of blackhole, wanted >= 0.5 x: met",
            "goal    rows/s at the end: 200 = 33.33 x 6.00 of innodb-4k, wanted >= 33.4 x: not met",
            "goal    bytes a row on disk: 25.0, wanted <= 30: met",
            "goal    bytes a row on disk: 25.0 = 0.51 x 49.0 of innodb-4k, wanted <= 0.5 x: not met",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let text = lines(&run("safe"), &measured);
        let expected =
            "goal    rows/s at the end: 200 = 33.33 x 6.00 of innodb-4k, wanted >= 10 x: met";
        assert_eq!(text.lines().collect::<Vec<_>>(), [expected]);
        assert_eq!(lines(&run("lazy"), &measured[..1]), "");
        // Values measured with other parameters belong to another experiment.
        let mut other = measured.clone();
        other[0].variant = "rows=7".to_owned();
        let text = lines(&run("lazy"), &other);
        assert!(!text.contains("blackhole"), "{text}");
    }
}
