//! Decides when a warm-up ends: once the rate is steady, or at its maximum duration.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::measure::Meter;

/// Longest interval over which a mean rate is taken.
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Number of intervals in the maximum duration of a warm-up; more if they would exceed
/// `INTERVAL_MAX`.
const INTERVALS: f64 = 6.0;
/// Number of successive means that must agree, and their largest relative difference.
const ALIKE: usize = 3;
const DIFFERENCE: f64 = 0.05;

/// Whether the last three mean rates differ by less than 5 %.
fn is_steady(rates: &[f64]) -> bool {
    let Some(from) = rates.len().checked_sub(ALIKE) else { return false };
    let last = &rates[from..];
    let least = last.iter().copied().fold(f64::INFINITY, f64::min);
    let most = last.iter().copied().fold(0.0, f64::max);
    least > 0.0 && most - least < DIFFERENCE * most
}

/// Ends the step of `meter`, a warm-up of at most `longest_s` seconds, once its rate is steady.
/// Returns when `over` is set.
pub fn watch(meter: &Meter, longest_s: f64, over: &AtomicBool) {
    let interval = Duration::try_from_secs_f64(longest_s / INTERVALS).unwrap_or(INTERVAL_MAX);
    let interval = interval.clamp(Duration::from_millis(1), INTERVAL_MAX);
    let (mut due, mut before) = (Instant::now() + interval, (Instant::now(), meter.done()));
    let mut rates = Vec::new();
    while !over.load(Ordering::Relaxed) {
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        if Instant::now() < due {
            continue;
        }
        let now = (Instant::now(), meter.done());
        rates.push((now.1 - before.1) as f64 / (now.0 - before.0).as_secs_f64().max(1e-9));
        before = now;
        due += interval;
        if is_steady(&rates) {
            meter.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_steady_when_three_successive_means_are_within_five_percent() {
        assert!(!is_steady(&[]) && !is_steady(&[7.0, 7.0]));
        assert!(is_steady(&[1.0, 100.0, 104.0, 102.0]));
        assert!(is_steady(&[100.0, 104.0, 99.0]) && !is_steady(&[100.0, 104.0, 98.0]));
        assert!(!is_steady(&[100.0, 100.0, 100.0, 90.0]));
        assert!(!is_steady(&[0.0, 0.0, 0.0]), "nothing has been done");
    }
}
