//! Values derived from the time series of a step: rates per interval, stalls, the exit velocity.

use serde::{Deserialize, Serialize};

/// The operations done at a point in time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// Operations done so far.
    pub ops: u64,
    /// Seconds since the step started.
    pub seconds: f64,
}

/// Returns the rate of each interval between successive marks, operations per second.
pub fn rates(marks: &[Mark]) -> Vec<f64> {
    let rate = |pair: &[Mark]| {
        let seconds = pair[1].seconds - pair[0].seconds;
        (pair[1].ops - pair[0].ops) as f64 / seconds.max(1e-9)
    };
    marks.windows(2).map(rate).collect()
}

/// Returns the mean rate over the last `count` operations, from marks at growing operation counts.
pub fn exit_velocity(marks: &[Mark], count: u64) -> Option<f64> {
    let last = marks.last()?;
    if count == 0 || last.ops < count {
        return None;
    }
    let begin = seconds_at(marks, last.ops - count)?;
    Some(count as f64 / (last.seconds - begin).max(1e-9))
}

/// Returns when `ops` operations were done, interpolated between marks.
pub fn seconds_at(marks: &[Mark], ops: u64) -> Option<f64> {
    let after = marks.partition_point(|mark| mark.ops < ops);
    let high = marks.get(after)?;
    let Some(low) = after.checked_sub(1).and_then(|before| marks.get(before)) else {
        return Some(high.seconds * ops as f64 / high.ops.max(1) as f64);
    };
    let part = (ops - low.ops) as f64 / (high.ops - low.ops).max(1) as f64;
    Some(low.seconds + part * (high.seconds - low.seconds))
}

/// How even a series of interval rates is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Evenness {
    /// Slowest interval ÷ mean.
    pub worst_over_mean: f64,
    /// Standard deviation ÷ mean.
    pub cv: f64,
    /// Intervals below a tenth of the mean.
    pub stalled: u64,
    /// Longest sequence of such intervals.
    pub stalled_longest: u64,
}

/// Computes the evenness of `rates`; `None` with fewer than two intervals.
pub fn evenness(rates: &[f64]) -> Option<Evenness> {
    if rates.len() < 2 {
        return None;
    }
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / n;
    let worst = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let (mut stalled, mut longest, mut current) = (0, 0, 0);
    for rate in rates {
        current = if *rate < 0.1 * mean { current + 1 } else { 0 };
        stalled += u64::from(current > 0);
        longest = longest.max(current);
    }
    let mean = mean.max(1e-9);
    Some(Evenness {
        worst_over_mean: worst / mean,
        cv: variance.sqrt() / mean,
        stalled,
        stalled_longest: longest,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(ops: u64, seconds: f64) -> Mark {
        Mark { ops, seconds }
    }

    #[test]
    fn exit_velocity_is_the_rate_of_the_last_operations() {
        let marks = [mark(100, 1.0), mark(200, 2.0), mark(300, 4.0)];
        assert_eq!(exit_velocity(&marks, 100), Some(50.0));
        assert_eq!(exit_velocity(&marks, 200), Some(200.0 / 3.0));
        assert_eq!(exit_velocity(&marks, 150), Some(150.0 / 2.5));
        assert_eq!(exit_velocity(&marks, 300), Some(75.0));
        assert_eq!(exit_velocity(&marks, 301), None);
        assert_eq!(seconds_at(&marks, 50), Some(0.5));
    }

    #[test]
    fn stalls_and_variation_are_measured() {
        let rates = [100.0, 100.0, 1.0, 2.0, 100.0, 3.0];
        let even = evenness(&rates).expect("six intervals");
        assert_eq!((even.stalled, even.stalled_longest), (3, 2));
        assert!(even.worst_over_mean < 0.03 && even.cv > 0.9, "{even:?}");
        assert_eq!(
            evenness(&[5.0, 5.0]).map(|even| (even.worst_over_mean, even.cv)),
            Some((1.0, 0.0))
        );
        assert_eq!(evenness(&[5.0]), None);
    }
}
