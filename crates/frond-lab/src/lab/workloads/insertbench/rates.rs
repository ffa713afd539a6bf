//! The spread of a step's rate, as the reports of the insert benchmark give it: percentiles of the
//! rates of its seconds, not of latencies.

use crate::lab::results::StepResult;

/// Shortest interval, in seconds, that has a rate. The last sample may come soon after the one
/// before it.
const INTERVAL_MIN: f64 = 0.5;
const PERCENTILES: [(&str, f64); 2] = [("ops_s_p50", 0.5), ("ops_s_p90", 0.9)];

/// Rates of the intervals between samples of the operations done so far, in ascending order.
fn rates(ops: &[(f64, f64)]) -> Vec<f64> {
    let intervals = ops.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1));
    let long = intervals.filter(|(seconds, _)| *seconds >= INTERVAL_MIN);
    let mut rates: Vec<f64> = long.map(|(seconds, done)| done / seconds).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

/// Adds the median and the 90th percentile of the rates to a step that took at least a second.
pub fn add(step: &mut StepResult) {
    let rates = rates(step.series.get("ops").map_or(&[], |ops| ops));
    let Some(last) = rates.len().checked_sub(1) else { return };
    for (name, quantile) in PERCENTILES {
        let at = (quantile * last as f64).round() as usize;
        step.metrics.insert(name.to_owned(), rates[at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_rates_of_whole_seconds() {
        // 100, 200, … 1000 operations per second, in another order, and a short last interval.
        let mut points = vec![(0.0, 0.0)];
        for (second, tens) in
            [3.0, 9.0, 1.0, 7.0, 5.0, 10.0, 2.0, 8.0, 4.0, 6.0, 11.0].iter().enumerate()
        {
            let (_, done) = points[second];
            points.push((second as f64 + 1.0, done + tens * 100.0));
        }
        points.push((11.01, 7_000.0));
        let mut step = StepResult::default();
        step.series.insert("ops".to_owned(), points);
        add(&mut step);
        assert_eq!((step.metrics["ops_s_p50"], step.metrics["ops_s_p90"]), (600.0, 1_000.0));
    }

    #[test]
    fn a_step_of_less_than_a_second_has_no_percentiles() {
        let mut step = StepResult::default();
        step.series.insert("ops".to_owned(), vec![(0.0, 0.0), (0.4, 70.0)]);
        add(&mut step);
        assert!(step.metrics.is_empty());
    }
}
