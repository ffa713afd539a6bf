//! Frond's goals, as data: `lab/goals.toml`. `lab show` and `frond bench` compare what they have
//! measured with them.

use std::sync::LazyLock;

use serde::Deserialize;

const TEXT: &str = include_str!("../lab/goals.toml");
/// The target that has to reach the goals.
pub const TARGET: &str = "frond";

static ALL: LazyLock<Vec<Goal>> = LazyLock::new(|| parse(TEXT).unwrap_or_default());

/// A bound for what Frond measures, or for its ratio to what a rival measures.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// What is bounded, in words.
    pub what: String,
    pub workload: String,
    pub face: String,
    /// Name of the step, or its first letters and `*`; empty for metrics of the whole cell.
    pub step: String,
    /// Durabilities that the goal applies to; all if empty.
    #[serde(default)]
    pub durability: Vec<String>,
    pub metric: String,
    /// The rival, if it is the ratio that is bounded.
    pub rival: Option<String>,
    at_least: Option<f64>,
    at_most: Option<f64>,
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
pub fn all() -> &'static [Goal] {
    &ALL
}

fn find(
    rival: Option<&str>,
    (workload, step): (&str, &str),
    metric: &str,
) -> Option<&'static Goal> {
    all().iter().find(|goal| {
        goal.face == "embedded"
            && goal.rival.as_deref() == rival
            && goal.workload == workload
            && goal.is_of(step)
            && goal.metric == metric
    })
}

/// Finds a goal of embedded stores that is not relative to a rival.
pub fn of(workload: &str, step: &str, metric: &str) -> Option<&'static Goal> {
    find(None, (workload, step), metric)
}

/// Finds a goal of embedded stores that is relative to this rival.
pub fn against(rival: &str, workload: &str, step: &str, metric: &str) -> Option<&'static Goal> {
    find(Some(rival), (workload, step), metric)
}

impl Goal {
    /// Whether the goal is of the step with this name.
    pub fn is_of(&self, step: &str) -> bool {
        match self.step.strip_suffix('*') {
            Some(begin) => step.starts_with(begin),
            None => self.step == step,
        }
    }

    /// The bound.
    pub fn bound(&self) -> f64 {
        self.at_least.or(self.at_most).unwrap_or(f64::NAN)
    }

    /// Whether more is better.
    pub fn is_floor(&self) -> bool {
        self.at_least.is_some()
    }

    /// Whether a value, or the ratio to the rival's, reaches the bound.
    pub fn is_met(&self, reached: f64) -> bool {
        if self.is_floor() { reached >= self.bound() } else { reached <= self.bound() }
    }

    /// Compares Frond's value with the bound, and says whether it is met: `200 = 0.50 x 400 of
    /// blackhole, wanted >= 0.5 x: met`. `rival` is the rival's name and value; `shown` formats
    /// values.
    pub fn verdict(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_right_and_every_goal_has_one_bound() {
        let goals = parse(TEXT).expect("a right file");
        assert!(goals.len() > 20);
        for goal in goals {
            assert!(goal.at_least.is_some() != goal.at_most.is_some(), "{goal:?}");
            assert!(goal.bound() > 0.0 && ["sql", "embedded"].contains(&goal.face.as_str()));
        }
    }

    #[test]
    fn bounds_are_inclusive_and_names_of_steps_may_be_open() {
        let puts = against("rocksdb", "txn", "put-16", "ops_s").expect("a goal of each number");
        assert!(puts.is_met(2.0) && !puts.is_met(1.99) && !puts.is_of("get-16"));
        let shown = |value: f64| value.to_string();
        let (text, is_met) = puts.verdict(150.0, Some(("rocksdb-m3", 100.0)), shown);
        assert_eq!(
            (&*text, is_met),
            ("150 = 1.50 x 100 of rocksdb-m3, wanted >= 2 x: not met", false)
        );
        let size = of("linktable", "load", "disk_b_row").expect("a goal");
        assert!(size.is_met(18.0) && !size.is_met(18.1));
        assert_eq!(size.verdict(17.0, None, shown).0, "17, wanted <= 18: met");
        assert!(of("linktable", "load", "nonsense").is_none());
    }
}
