//! Verifies that embedded stores stay within their memory limit.
//!
//! A store shares its process with the clients. The memory of the clients is measured with the null
//! target: the peak of a cell's process minus that of the null target's process is the store's own.

use std::collections::BTreeMap;

use super::generator::NULL;
use crate::lab::results::{CellKey, CellResult};

/// Metric with the peak of a step.
pub const PEAK: &str = "rss_peak_b";

/// Memory that any store may use in addition to the memory of the run: log buffers, tables of open
/// files, allocator overhead. The same as for SQL targets.
const OVERHEAD_B: u64 = 128 << 20;

/// Peak memory of the null target's process, by workload and variant.
#[derive(Debug, Default)]
pub struct NullTargetPeaks(BTreeMap<(String, String), u64>);

impl NullTargetPeaks {
    /// Records the peak of a step on the null target.
    pub fn note(&mut self, workload: &str, variant: &str, peak: u64) {
        let of = self.0.entry((workload.to_owned(), variant.to_owned())).or_default();
        *of = peak.max(*of);
    }

    /// For a cell of the null target, records its peak. For other cells, verifies that their peak
    /// is above that by at most the memory of the run plus an overhead: a quarter of that memory,
    /// or `OVERHEAD_B` if that is more.
    pub fn apply(&mut self, key: &CellKey, result: &mut CellResult) {
        let peaks = result.steps.iter().filter_map(|step| step.metrics.get(PEAK));
        let peak = peaks.copied().fold(0.0, f64::max) as u64;
        if key.face != "embedded" || peak == 0 {
            return;
        }
        if key.target == NULL {
            return self.note(&key.workload, &key.variant, peak);
        }
        let of = (key.workload.clone(), key.variant.clone());
        let Some(clients) = self.0.get(&of).copied() else { return };
        let memory = result.memory_b;
        let allowed = memory + OVERHEAD_B.max(memory / 4);
        let own = peak.saturating_sub(clients);
        let detail = format!(
            "{} MiB more than the null target, with {} MiB of memory; {} MiB are allowed",
            own >> 20,
            memory >> 20,
            allowed >> 20
        );
        result.verify("memory is within its limit", own <= allowed, detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::{State, StepResult};

    #[test]
    fn a_store_with_more_memory_than_the_others_fails() {
        let mut peaks = NullTargetPeaks::default();
        let mut apply = |target: &str, workload: &str, memory: u64, peak: u64| {
            let key = CellKey {
                workload: workload.to_owned(),
                variant: String::new(),
                face: "embedded".to_owned(),
                target: target.to_owned(),
                repeat: 1,
            };
            let metrics = [(PEAK.to_owned(), (peak << 20) as f64)].into();
            let steps = vec![StepResult { metrics, ..StepResult::default() }];
            let mut result = CellResult { steps, memory_b: memory << 20, ..CellResult::default() };
            peaks.apply(&key, &mut result);
            (result.state, result.verified.len())
        };
        assert_eq!(apply("frond", "ycsb", 16, 999), (State::Done, 0), "nothing is known yet");
        assert_eq!(apply("null", "ycsb", 16, 30), (State::Done, 0));
        assert_eq!(apply("frond", "ycsb", 16, 30 + 16 + 128), (State::Done, 1));
        assert_eq!(apply("frond", "ycsb", 16, 30 + 16 + 129), (State::Failed, 1));
        assert_eq!(apply("frond", "ycsb", 1024, 30 + 1024 + 256), (State::Done, 1));
        assert_eq!(apply("frond", "tpcc", 16, 999), (State::Done, 0));
    }
}
