//! CPU cost of a workload's clients, measured on the null target.

use std::collections::BTreeMap;

use crate::lab::results::{CellKey, CellResult};

/// Name of the null target.
pub const NULL: &str = "null";
/// Metrics that include the CPU of the clients.
const WITH_CLIENTS: [&str; 3] = ["cpu_us_op", "cpu_fg_us_op", "cpu_us_op_rested"];
/// CPU of the clients' threads. On the null target, all of it is the clients' own work.
pub const OF_CLIENTS: &str = "cpu_fg_us_op";
/// Metric that shows what was subtracted.
const SHOWN: &str = "client_cpu_us_op";

/// CPU of the clients in µs per operation, by workload, variant and step.
#[derive(Debug, Default)]
pub struct ClientCosts(BTreeMap<(String, String, String), f64>);

impl ClientCosts {
    /// Records what a step cost on the null target.
    pub fn note(&mut self, workload: &str, variant: &str, step: &str, us: f64) {
        self.0.insert((workload.to_owned(), variant.to_owned(), step.to_owned()), us);
    }

    /// For a cell of the null target, records what its steps cost. For other cells, subtracts that
    /// cost, and shows it as a metric. If the null target cost more than the clients of a cell, the
    /// cost is unknown, and nothing is subtracted.
    pub fn apply(&mut self, key: &CellKey, result: &mut CellResult) {
        if key.face != "embedded" {
            return;
        }
        for step in &mut result.steps {
            let metrics = &mut step.metrics;
            if key.target == NULL {
                if let Some(us) = metrics.get(OF_CLIENTS).copied() {
                    self.note(&key.workload, &key.variant, &step.name, us);
                    metrics.insert(SHOWN.to_owned(), us);
                }
                continue;
            }
            let of = (key.workload.clone(), key.variant.clone(), step.name.clone());
            let Some(us) = self.0.get(&of).copied() else { continue };
            if metrics.get(OF_CLIENTS).is_some_and(|of_clients| *of_clients < us) {
                continue;
            }
            for name in WITH_CLIENTS {
                if let Some(value) = metrics.get_mut(name) {
                    *value = (*value - us).max(0.0);
                }
            }
            metrics.insert(SHOWN.to_owned(), us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::StepResult;

    fn cell(cpu: f64) -> CellResult {
        let metrics = [("cpu_us_op", cpu + 2.0), (OF_CLIENTS, cpu), ("cpu_bg_us_op", 2.0)];
        let metrics = metrics.map(|(name, value)| (name.to_owned(), value)).into();
        let step = StepResult { name: "load".to_owned(), metrics, ..StepResult::default() };
        CellResult { steps: vec![step], ..CellResult::default() }
    }

    #[test]
    fn client_cost_is_subtracted_and_shown() {
        let key = |target: &str, workload: &str, face: &str| CellKey {
            workload: workload.to_owned(),
            variant: String::new(),
            face: face.to_owned(),
            target: target.to_owned(),
            repeat: 1,
        };
        let mut costs = ClientCosts::default();
        let mut apply = |target, workload, face, cpu| {
            let mut result = cell(cpu);
            costs.apply(&key(target, workload, face), &mut result);
            result.steps.remove(0).metrics
        };
        assert_eq!(apply("null", "ycsb", "embedded", 1.5)[SHOWN], 1.5);
        let frond = apply("frond", "ycsb", "embedded", 5.0);
        assert_eq!((frond["cpu_us_op"], frond[OF_CLIENTS], frond[SHOWN]), (5.5, 3.5, 1.5));
        assert_eq!(frond["cpu_bg_us_op"], 2.0);
        let cheaper = apply("frond", "ycsb", "embedded", 1.0);
        assert_eq!((cheaper["cpu_us_op"], cheaper.get(SHOWN)), (3.0, None));
        for (workload, face) in [("tpcc", "embedded"), ("ycsb", "sql")] {
            let other = apply("frond", workload, face, 5.0);
            assert_eq!((other["cpu_us_op"], other.get(SHOWN)), (7.0, None));
        }
    }
}
