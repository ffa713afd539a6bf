//! Arrivals: when the requests of a client are due, immediately in a closed loop, by a schedule in
//! an open one.
//!
//! Threads: `Arrivals` is shared by all clients of a step, a `Pace` belongs to one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::measure::Meter;

/// Schedule of an open loop: requests become due at a fixed rate, and any free client serves them.
#[derive(Debug)]
pub struct Arrivals {
    start: Instant,
    interval_s: f64,
    next: AtomicU64,
    served: AtomicU64,
}

impl Arrivals {
    /// Starts a schedule of this many requests per second.
    pub fn new(per_second: f64) -> Self {
        let interval_s = 1.0 / per_second.max(1e-9);
        let (next, served) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), interval_s, next, served }
    }

    /// Number of requests that became due within `seconds` and before the deadline, and were not
    /// served. Their latency is in no histogram.
    pub fn unserved(&self, seconds: f64, deadline: Option<Instant>) -> u64 {
        let most = deadline.map(|end| end.saturating_duration_since(self.start).as_secs_f64());
        let time = most.map_or(seconds, |most| most.min(seconds));
        ((time / self.interval_s).ceil() as u64).saturating_sub(self.served.load(Ordering::Relaxed))
    }

    /// Assigns the next request to the caller; returns when it is due.
    fn take(&self) -> Instant {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.start + Duration::from_secs_f64(number as f64 * self.interval_s)
    }

    /// Assigns the next request to the caller and waits until it is due; returns that time, or
    /// `None` if the step ends first.
    fn wait(&self, meter: &Meter) -> Option<Instant> {
        let due = self.take();
        while let Some(early) = due.checked_duration_since(Instant::now()) {
            if meter.is_over() {
                return None;
            }
            std::thread::sleep(early.min(Duration::from_millis(50)));
        }
        Some(due)
    }

    /// Records that the caller has served a request.
    fn note_served(&self) {
        self.served.fetch_add(1, Ordering::Relaxed);
    }
}

/// When a client starts its next request.
#[derive(Debug)]
pub enum Pace<'m> {
    /// As soon as the last request has ended.
    Closed,
    /// At a rate of the client's own; with the time when the current request was due.
    Own(Arrivals, Instant),
    /// At the common rate of all clients of the step; with the time when the current request was
    /// due.
    Shared(&'m Arrivals, Instant),
}

impl Pace<'_> {
    /// Waits until the next request is due. Returns false once the step has to end. `is_served`
    /// says whether the last request was served, and is reset.
    #[inline]
    pub fn wait(&mut self, is_served: &mut bool, meter: &Meter) -> bool {
        let (arrivals, next): (&Arrivals, _) = match self {
            Self::Closed => return !meter.is_stopped(),
            Self::Own(arrivals, due) => (arrivals, due),
            Self::Shared(arrivals, due) => (arrivals, due),
        };
        if std::mem::take(is_served) {
            arrivals.note_served();
        }
        let Some(due) = arrivals.wait(meter) else { return false };
        *next = due;
        !meter.is_stopped()
    }

    /// When the current request was due; `None` in a closed loop.
    #[inline]
    pub fn due(&self) -> Option<Instant> {
        match self {
            Self::Closed => None,
            Self::Own(_, due) | Self::Shared(_, due) => Some(*due),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_were_due_and_not_served_are_counted() {
        let arrivals = Arrivals::new(100.0);
        assert_eq!(arrivals.unserved(0.0, None), 0);
        assert_eq!(arrivals.unserved(0.095, None), 10); // due at 0, 10, … 90 ms
        let deadline = arrivals.start + Duration::from_millis(45);
        assert_eq!(arrivals.unserved(0.095, Some(deadline)), 5);
        assert_eq!(arrivals.take(), arrivals.start);
        arrivals.served.fetch_add(7, Ordering::Relaxed);
        assert_eq!(arrivals.unserved(0.095, None), 3);
        arrivals.served.fetch_add(7, Ordering::Relaxed);
        assert_eq!(arrivals.unserved(0.095, None), 0);
    }
}
