//! The result of a cell, as its process reports it and the database stores it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a cell ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All steps ran, and all verifications passed.
    #[default]
    Done,
    /// The time limit or Ctrl-C ended the cell; the results so far are kept.
    Stopped,
    /// An error occurred, or a verification failed.
    Failed,
}

impl State {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Done, Self::Stopped, Self::Failed];

    /// Name of the state in the database.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// Name of the setting that says why Frond's files were not checked.
pub const UNCHECKED: &str = "(frond check)";

/// A point of a series: seconds since the step started, and the value then.
pub type Point = (f64, f64);

/// The value of a counter at one point in time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CounterSample {
    /// Seconds since the step started.
    pub t: f64,
    /// Statement or table that reported it.
    pub source: String,
    /// Name.
    pub name: String,
    /// Value.
    pub value: f64,
}

/// Latencies of one kind of request, as an HdrHistogram V2 in ns.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// Number of requests.
    pub count: u64,
    /// Serialized histogram.
    pub data: Vec<u8>,
}

/// Results of a step.
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

/// Outcome of a verification.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verification {
    /// What was verified.
    pub name: String,
    /// Whether it passed.
    pub passed: bool,
    /// What was found.
    pub detail: String,
}

/// Results of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellResult {
    /// How it ended.
    pub state: State,
    /// Why it failed.
    pub failure: Option<String>,
    /// When it started, ISO 8601.
    pub began: String,
    /// Duration in seconds.
    pub seconds: f64,
    /// Memory of the target, bytes.
    pub memory_b: u64,
    /// Engine and version.
    pub version: String,
    /// Last lines of the server's log.
    pub log_tail: Option<String>,
    /// Parameters in force.
    pub parameters: BTreeMap<String, String>,
    /// Settings, each with its reason.
    pub settings: BTreeMap<String, String>,
    /// Metrics of the whole cell.
    pub metrics: BTreeMap<String, f64>,
    /// Steps in order.
    pub steps: Vec<StepResult>,
    /// Verifications.
    pub verified: Vec<Verification>,
    /// Facts, which must be equal on all targets, by name.
    pub facts: BTreeMap<String, String>,
}

impl CellResult {
    /// Records a verification. A failed one fails the cell.
    pub fn verify(&mut self, name: &str, passed: bool, detail: String) {
        if !passed && self.state != State::Failed {
            self.state = State::Failed;
            self.failure = Some(format!("{name}: {detail}"));
        }
        // A check may run again after a later step.
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
    fn repeated_verifications_are_all_kept() {
        let mut cell = CellResult::default();
        for (name, passed) in [("rows of t", false), ("rows of t2", true), ("rows of t", true)] {
            cell.verify(name, passed, "7 rows".to_owned());
        }
        let names: Vec<&str> = cell.verified.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["rows of t", "rows of t2", "rows of t (2)"]);
        assert_eq!(cell.state, State::Failed);
    }
}
