//! What a cell's process reports when it has ended, and the database keeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a cell ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All of its steps, and what was verified was right.
    #[default]
    Done,
    /// Its time limit or Ctrl-C ended it: what it came to is kept.
    Stopped,
    /// An error, or something that was verified was wrong.
    Failed,
}

impl State {
    /// As the database has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// One point of a series.
pub type Point = (f64, f64);

/// A counter at a moment.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CounterSample {
    /// Seconds since the step began.
    pub t: f64,
    /// Statement or table that it comes from.
    pub source: String,
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
}

/// Latencies of one kind of request: HdrHistogram V2 of ns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// Requests.
    pub count: u64,
    /// Serialized histogram.
    pub data: Vec<u8>,
}

/// A step.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StepResult {
    /// Name.
    pub name: String,
    /// Metrics by name.
    pub metrics: BTreeMap<String, f64>,
    /// Series by name.
    pub series: BTreeMap<String, Vec<Point>>,
    /// Latencies by kind of request.
    pub latencies: BTreeMap<String, Latencies>,
    /// Counters of the engine.
    pub counters: Vec<CounterSample>,
}

/// Something that was verified.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verification {
    /// What.
    pub name: String,
    /// Whether it was right.
    pub passed: bool,
    /// What was found.
    pub detail: String,
}

/// A cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellResult {
    /// How it ended.
    pub state: State,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it began, ISO 8601.
    pub began: String,
    /// How long it took.
    pub seconds: f64,
    /// Memory of the target, bytes.
    pub memory_b: u64,
    /// Engine and version.
    pub version: String,
    /// Last lines of the server's log.
    pub log_tail: Option<String>,
    /// Effective parameters.
    pub parameters: BTreeMap<String, String>,
    /// Settings, each with its reason.
    pub settings: BTreeMap<String, String>,
    /// Metrics of the whole cell.
    pub metrics: BTreeMap<String, f64>,
    /// Steps in their order.
    pub steps: Vec<StepResult>,
    /// What was verified.
    pub verified: Vec<Verification>,
    /// What must be the same on all targets: name and value.
    pub facts: BTreeMap<String, String>,
}

impl CellResult {
    /// Notes what was verified; what was wrong fails the cell.
    pub fn verify(&mut self, name: &str, passed: bool, detail: String) {
        if !passed && self.state != State::Failed {
            self.state = State::Failed;
            self.failure = Some(format!("{name}: {detail}"));
        }
        // The same may be verified again after a later step.
        let again = format!("{name} (");
        let is_same = |found: &&Verification| found.name == name || found.name.starts_with(&again);
        let before = self.verified.iter().filter(is_same).count();
        let name = if before == 0 { name.to_owned() } else { format!("{name} ({})", before + 1) };
        self.verified.push(Verification { name, passed, detail });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_verified_twice_is_kept_twice() {
        let mut cell = CellResult::default();
        for (name, passed) in [("rows of t", false), ("rows of t2", true), ("rows of t", true)] {
            cell.verify(name, passed, "7 rows".to_owned());
        }
        let names: Vec<&str> = cell.verified.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["rows of t", "rows of t2", "rows of t (2)"]);
        assert_eq!(cell.state, State::Failed);
    }
}
