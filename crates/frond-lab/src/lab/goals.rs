//! Compares what a run measured with Frond's goals, which are in `lab/goals.toml`.
//!
//! Invariants
//! 1. A goal is judged only if the run measured every value that it needs, Frond's and the rival's.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde::Deserialize;

use super::exchange::short;
use super::results::{Measured, RunInfo};
use super::statistics::Spread;
use crate::targets::{Failure, Result};

const TEXT: &str = include_str!("../../lab/goals.toml");
/// The target that has to reach the goals.
const TARGET: &str = "frond";

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Goal {
    what: String,
    workload: String,
    face: String,
    /// Name of the step; empty for metrics of the whole cell.
    step: String,
    /// Durabilities that the goal applies to; all if empty.
    #[serde(default)]
    durability: Vec<String>,
    metric: String,
    rival: Option<String>,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Goals {
    goal: Vec<Goal>,
}

fn all() -> Result<Vec<Goal>> {
    let goals: Goals =
        toml::from_str(TEXT).map_err(|error| Failure(format!("goals.toml: {error}")))?;
    Ok(goals.goal)
}

impl Goal {
    /// Median of the goal's metric over the repeats of a target in this variant.
    fn of(&self, measured: &[Measured], variant: &str, target: &str) -> Option<f64> {
        let values = measured.iter().filter(|one| {
            one.workload == self.workload
                && one.variant == variant
                && one.face == self.face
                && one.step == self.step
                && one.metric == self.metric
                && one.target == target
        });
        let values: Vec<f64> = values.map(|one| one.value).collect();
        Spread::of(&values).map(|spread| spread.median)
    }

    /// Formats the goal with its verdict; `None` if a value was not measured.
    fn line(&self, measured: &[Measured], variant: &str) -> Option<String> {
        let own = self.of(measured, variant, TARGET)?;
        let mut line = format!("goal    {}: {}", self.what, short(own));
        let mut reached = own;
        if let Some(rival) = &self.rival {
            let theirs = self.of(measured, variant, rival).filter(|value| *value > 0.0)?;
            reached = own / theirs;
            let _ = write!(line, " = {reached:.2} x {} of {rival}", short(theirs));
        }
        let times = if self.rival.is_some() { " x" } else { "" };
        let (sign, bar, is_met) = match (self.at_least, self.at_most) {
            (Some(bar), _) => (">=", bar, reached >= bar),
            (None, Some(bar)) => ("<=", bar, reached <= bar),
            (None, None) => return None,
        };
        let verdict = if is_met { "met" } else { "not met" };
        let _ = write!(line, ", wanted {sign} {bar}{times}: {verdict}");
        Some(line)
    }
}

/// Formats the goals that a run measured, one line each, with their verdicts.
///
/// # Errors
/// The file is invalid, which a test would detect.
pub fn lines(run: &RunInfo, measured: &[Measured]) -> Result<String> {
    let mut out = String::new();
    for goal in all()? {
        if !goal.durability.is_empty() && !goal.durability.contains(&run.durability) {
            continue;
        }
        let variants: BTreeSet<&str> = measured.iter().map(|one| one.variant.as_str()).collect();
        for line in variants.into_iter().filter_map(|variant| goal.line(measured, variant)) {
            out += &line;
            out.push('\n');
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::metric;
    use crate::lab::size::Face;
    use crate::lab::{embedded, workloads};

    #[test]
    fn goals_are_of_workloads_and_metrics_that_exist() {
        for goal in all().unwrap_or_else(|failure| panic!("{failure}")) {
            assert!(metric::find(&goal.metric).is_some(), "{goal:?}");
            let is_known = match goal.face == Face::Sql.to_string() {
                true => workloads::find(&goal.workload).is_ok(),
                false => embedded::find(&goal.workload).is_ok(),
            };
            assert!(is_known && goal.at_least.is_some() != goal.at_most.is_some(), "{goal:?}");
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
        let text = lines(&run("lazy"), &measured).expect("a right file");
        let expected = [
            "goal    rows/s at the end: 200 = 0.50 x 400 of blackhole, wanted >= 0.5 x: met",
            "goal    rows/s at the end: 200 = 33.33 x 6.00 of innodb-4k, wanted >= 33.4 x: not met",
            "goal    bytes a row on disk: 25.0, wanted <= 30: met",
            "goal    bytes a row on disk: 25.0 = 0.51 x 49.0 of innodb-4k, wanted <= 0.5 x: not met",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let text = lines(&run("safe"), &measured).expect("a right file");
        let expected =
            "goal    rows/s at the end: 200 = 33.33 x 6.00 of innodb-4k, wanted >= 10 x: met";
        assert_eq!(text.lines().collect::<Vec<_>>(), [expected]);
        assert_eq!(lines(&run("lazy"), &measured[..1]).expect("a right file"), "");
        // Values measured with other parameters belong to another experiment.
        let mut other = measured.clone();
        other[0].variant = "rows=7".to_owned();
        let text = lines(&run("lazy"), &other).expect("a right file");
        assert!(!text.contains("blackhole"), "{text}");
    }
}
