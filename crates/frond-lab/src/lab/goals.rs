//! Goals: bounds for metrics, from `lab/goals.toml`, and whether a run has met them.
//!
//! Invariants
//! 1. A goal is judged only if the run measured every value that it needs, the target's and the
//!    rival's, under the conditions that the goal names.
//! 2. A value is compared with the best that any of an embedded rival's settings reached in the
//!    same run: no single setting has to be best at everything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::Deserialize;

use super::exchange::short;
use super::results::{CellParameter, Measured, RunInfo};
use super::statistics::Spread;

const TEXT: &str = include_str!("../../lab/goals.toml");

static ALL: LazyLock<Vec<Goal>> = LazyLock::new(|| parse(TEXT).unwrap_or_default());

/// A bound for what Frond measures, or for its ratio to what a rival measures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Goal {
    /// What is bounded, in words.
    what: String,
    workload: String,
    face: String,
    /// Name of the step, or its first letters and `*`; empty for metrics of the whole cell.
    step: String,
    /// Durabilities that the goal applies to; all if empty.
    #[serde(default)]
    durability: Vec<String>,
    /// Parameters of the workload and the values that they must have.
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    /// Smallest and largest size of the data, relative to the memory, that the goal applies to.
    ratio: Option<[f64; 2]>,
    metric: String,
    /// The target that has to reach the goal.
    #[serde(default = "frond")]
    target: String,
    /// The rival, if it is the ratio that is bounded.
    rival: Option<String>,
    at_least: Option<f64>,
    at_most: Option<f64>,
}

fn frond() -> String {
    "frond".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Goals {
    goal: Vec<Goal>,
}

fn parse(text: &str) -> Result<Vec<Goal>, toml::de::Error> {
    toml::from_str::<Goals>(text).map(|goals| goals.goal)
}

/// All goals, in the order of the file.
fn all() -> &'static [Goal] {
    &ALL
}

impl Goal {
    /// Whether the goal is of the step with this name.
    fn is_of(&self, step: &str) -> bool {
        match self.step.strip_suffix('*') {
            Some(begin) => step.starts_with(begin),
            None => self.step == step,
        }
    }

    /// Whether the goal applies to cells with these parameters. The lab records the size of the
    /// data, relative to the memory, as `(ratio in force)`.
    fn is_for(&self, parameters: &BTreeMap<&str, &str>) -> bool {
        let value = |name: &str| parameters.get(name).copied();
        let ratio = || value("(ratio in force)")?.parse::<f64>().ok();
        let is_wanted = |(name, wanted): (&String, &String)| value(name) == Some(wanted.as_str());
        self.parameters.iter().all(is_wanted)
            && self.ratio.is_none_or(|[least, most]| {
                ratio().is_some_and(|ratio| (least..=most).contains(&ratio))
            })
    }

    /// The bound.
    fn bound(&self) -> f64 {
        self.at_least.or(self.at_most).unwrap_or(f64::NAN)
    }

    /// Whether more is better.
    fn is_floor(&self) -> bool {
        self.at_least.is_some()
    }

    /// Whether a value, or the ratio to the rival's, reaches the bound.
    fn is_met(&self, reached: f64) -> bool {
        if self.is_floor() { reached >= self.bound() } else { reached <= self.bound() }
    }

    /// Compares Frond's value with the bound, and says whether it is met: `200 = 0.50 x 400 of
    /// blackhole, wanted >= 0.5 x: met`. `rival` is the rival's name and value; `shown` formats
    /// values.
    fn verdict(
        &self,
        own: f64,
        rival: Option<(&str, f64)>,
        shown: impl Fn(f64) -> String,
    ) -> (String, bool) {
        let (reached, ratio, times) = match rival {
            Some((name, theirs)) => {
                let reached = own / theirs;
                (reached, format!(" = {reached:.2} x {} of {name}", shown(theirs)), " x")
            }
            None => (own, String::new(), ""),
        };
        let sign = if self.is_floor() { ">=" } else { "<=" };
        let is_met = self.is_met(reached);
        let verdict = if is_met { "met" } else { "not met" };
        let (own, bound) = (shown(own), self.bound());
        (format!("{own}{ratio}, wanted {sign} {bound}{times}: {verdict}"), is_met)
    }
}

/// Where values that are compared were measured: variant of the workload, and step.
type Place<'m> = (&'m str, &'m str);

/// The values of the goal's metric.
fn of_goal<'m>(goal: &Goal, measured: &'m [Measured]) -> impl Iterator<Item = &'m Measured> {
    measured.iter().filter(|one| {
        one.workload == goal.workload
            && one.face == goal.face
            && goal.is_of(&one.step)
            && one.metric == goal.metric
    })
}

/// Median over the repeats of a target.
fn median(goal: &Goal, measured: &[Measured], place: Place<'_>, target: &str) -> Option<f64> {
    let values = of_goal(goal, measured)
        .filter(|one| (one.variant.as_str(), one.step.as_str()) == place && one.target == target);
    let values: Vec<f64> = values.map(|one| one.value).collect();
    Spread::of(&values).map(|spread| spread.median)
}

/// The best value of a rival with any settings (Invariant 2), with the name of its target:
/// `rocksdb-m3` is an embedded `rocksdb`.
fn best<'m>(
    goal: &Goal,
    measured: &'m [Measured],
    place: Place<'_>,
    rival: &str,
) -> Option<(&'m str, f64)> {
    let is_rival = |target: &str| {
        target
            .strip_prefix(rival)
            .is_some_and(|rest| rest.is_empty() || goal.face == "embedded" && rest.starts_with('-'))
    };
    let targets: BTreeSet<&str> = of_goal(goal, measured)
        .map(|one| one.target.as_str())
        .filter(|name| is_rival(name))
        .collect();
    let values = targets.into_iter().filter_map(|name| {
        Some((name, median(goal, measured, place, name).filter(|value| *value > 0.0)?))
    });
    let sign = if goal.is_floor() { 1.0 } else { -1.0 };
    values.max_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)))
}

/// Formats the goal with its verdict; `None` if a value was not measured.
fn line(goal: &Goal, measured: &[Measured], place: Place<'_>) -> Option<String> {
    let own = median(goal, measured, place, &goal.target)?;
    let rival = match &goal.rival {
        None => None,
        Some(rival) => Some(best(goal, measured, place, rival)?),
    };
    let (verdict, _) = goal.verdict(own, rival, short);
    let (_, step) = place;
    let step = if ["", "load"].contains(&step) { String::new() } else { format!(" in {step}") };
    Some(format!("goal    {}{step}: {verdict}", goal.what))
}

/// Formats the goals that a run measured, one line each, with their verdicts. `parameters` are
/// those of its cells.
pub fn lines(run: &RunInfo, measured: &[Measured], parameters: &[CellParameter]) -> String {
    let mut out = String::new();
    for goal in all() {
        if !goal.durability.is_empty() && !goal.durability.contains(&run.durability) {
            continue;
        }
        let is_for = |one: &&Measured| {
            let own = |parameter: &&CellParameter| {
                (&parameter.workload, &parameter.variant, &parameter.face, &parameter.target)
                    == (&one.workload, &one.variant, &one.face, &one.target)
            };
            let own = parameters.iter().filter(own);
            goal.is_for(&own.map(|one| (one.name.as_str(), one.value.as_str())).collect())
        };
        let places: BTreeSet<Place<'_>> = of_goal(goal, measured)
            .filter(|one| one.target == goal.target)
            .filter(is_for)
            .map(|one| (one.variant.as_str(), one.step.as_str()))
            .collect();
        for line in places.into_iter().filter_map(|place| line(goal, measured, place)) {
            out += &line;
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::metric;
    use crate::lab::size::Face;
    use crate::lab::{embedded, workloads};

    fn run(durability: &str) -> RunInfo {
        RunInfo {
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
        }
    }

    #[test]
    fn goals_are_of_workloads_and_metrics_that_exist() {
        let goals = parse(TEXT).expect("a right file");
        assert!(goals.len() > 20);
        for goal in goals {
            assert!(goal.at_least.is_some() != goal.at_most.is_some(), "{goal:?}");
            assert!(goal.bound() > 0.0 && metric::find(&goal.metric).is_some(), "{goal:?}");
            match goal.face == Face::Sql.to_string() {
                true => drop(workloads::find(&goal.workload).expect("a workload")),
                false => drop(embedded::find(&goal.workload).expect("an embedded workload")),
            }
            if goal.workload == "dbbench" {
                let steps = embedded::find("dbbench").map(|entry| entry.params[0].defaults[0]);
                assert!(steps.is_ok_and(|steps| steps.split(',').any(|step| step == goal.step)));
            }
        }
    }

    #[test]
    fn every_step_is_compared_with_the_best_setting_of_the_rival() {
        let one = |target: &str, step: &str, value| Measured {
            workload: "txn".to_owned(),
            variant: String::new(),
            face: "embedded".to_owned(),
            target: target.to_owned(),
            repeat: 1,
            step: step.to_owned(),
            metric: "ops_s".to_owned(),
            value,
            memory_b: 0,
        };
        let measured = [
            one("frond", "put-16", 150.0),
            one("rocksdb", "put-16", 60.0),
            one("rocksdb-m3", "put-16", 100.0),
            one("rocksdbx", "put-16", 1e9),
            one("frond", "put-1", 200.0),
            one("rocksdb", "put-1", 100.0),
            one("frond", "get-1", 7.0),
        ];
        let text = lines(&run("lazy"), &measured, &[]);
        let expected = [
            "goal    transactions/s in put-1: 200 = 2.00 x 100 of rocksdb, wanted >= 2 x: met",
            "goal    transactions/s in put-16: 150 = 1.50 x 100 of rocksdb-m3, wanted >= 2 x: not met",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn goals_are_judged_only_under_their_conditions() {
        let parameter = |name: &str, value: &str| CellParameter {
            workload: "dbbench".to_owned(),
            variant: String::new(),
            face: "embedded".to_owned(),
            target: "frond".to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
        };
        let one = |step: &str| Measured {
            workload: "dbbench".to_owned(),
            variant: String::new(),
            face: "embedded".to_owned(),
            target: "frond".to_owned(),
            repeat: 1,
            step: step.to_owned(),
            metric: "cpu_fg_us_op".to_owned(),
            value: 1.0,
            memory_b: 0,
        };
        let measured = [one("fillseq"), one("readrandom"), one("readseq")];
        let judged = |durability: &str, ratio: &str, shape: &str| -> Vec<bool> {
            let parameters = [parameter("(ratio in force)", ratio), parameter("shape", shape)];
            let text = lines(&run(durability), &measured, &parameters);
            ["in fillseq", "in readrandom", "in readseq"].map(|step| text.contains(step)).to_vec()
        };
        assert_eq!(judged("lazy", "0.5", "classic"), [true, true, true]);
        assert_eq!(judged("safe", "10", "classic"), [false, false, false]);
        assert_eq!(judged("safe", "0.5", "script"), [false, true, false]);
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
        let text = lines(&run("lazy"), &measured, &[]);
        let expected = [
            "goal    rows/s at the end: 200 = 0.50 x 400 of blackhole, wanted >= 0.5 x: met",
            "goal    rows/s at the end: 200 = 33.33 x 6.00 of innodb-4k, wanted >= 33.4 x: not met",
            "goal    bytes a row on disk: 25.0, wanted <= 30: met",
            "goal    bytes a row on disk: 25.0 = 0.51 x 49.0 of innodb-4k, wanted <= 0.5 x: not met",
        ];
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        let text = lines(&run("safe"), &measured, &[]);
        let expected =
            "goal    rows/s at the end: 200 = 33.33 x 6.00 of innodb-4k, wanted >= 10 x: met";
        assert_eq!(text.lines().collect::<Vec<_>>(), [expected]);
        assert_eq!(lines(&run("lazy"), &measured[..1], &[]), "");
        // Values measured with other parameters belong to another experiment.
        let mut other = measured.clone();
        other[0].variant = "rows=7".to_owned();
        let text = lines(&run("lazy"), &other, &[]);
        assert!(!text.contains("blackhole"), "{text}");
    }
}
