//! Latencies of the last second: clients keep counts of their requests by latency, and each second
//! the sampler computes the difference from its previous reading.
//!
//! Invariants
//! 1. Each client has counts of its own, which no other thread writes. So counting a request is a
//!    load and a store, and clients do not slow each other down.
//! 2. Counts only grow; those of a client that has ended are used again by a later one. So memory
//!    is bounded by the largest number of concurrent clients.
//!
//! Threads: `Recent` is shared, a `Window` belongs to the sampler.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Buckets per doubling of the latency, as a power of two: a bucket is at most 1/16 of its values
/// wide, so its middle is within 3.2 % of them.
const FINE_BITS: u32 = 4;
/// Latencies of 2^42 ns (73 minutes) and more are in the last bucket.
const BITS: u32 = 42;
const BUCKETS: usize = ((BITS - FINE_BITS + 1) << FINE_BITS) as usize;

/// Returns the bucket of a latency.
#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << BITS) - 1);
    let shift = (63 - (ns | 1).leading_zeros()).saturating_sub(FINE_BITS);
    ((u64::from(shift) << FINE_BITS) + (ns >> shift)) as usize
}

/// Returns the middle of a bucket, ns.
fn middle(bucket: usize) -> f64 {
    let (fine, bucket) = (1 << FINE_BITS, bucket as u64);
    let shift = (bucket >> FINE_BITS).saturating_sub(1);
    let low = (bucket - shift * fine) << shift;
    low as f64 + ((1u64 << shift) - 1) as f64 / 2.0
}

/// Requests of one client by latency. The numbers wrap around; only differences count.
#[derive(Debug)]
pub struct Counts(Box<[AtomicU32]>);

impl Counts {
    /// Counts a request with this latency.
    #[inline]
    pub fn count(&self, ns: u64) {
        // Relaxed: one thread writes, and the sampler needs no order between buckets.
        let count = &self.0[bucket(ns)];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// The counts of all clients of a step.
#[derive(Debug, Default)]
pub struct Recent {
    /// All counts, and those among them that no client uses.
    counts: Mutex<(Vec<Arc<Counts>>, Vec<Arc<Counts>>)>,
}

impl Recent {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Vec<Arc<Counts>>, Vec<Arc<Counts>>)> {
        self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns counts for a client.
    pub fn join(&self) -> Arc<Counts> {
        let (all, free) = &mut *self.lock();
        free.pop().unwrap_or_else(|| {
            let made = Arc::new(Counts((0..BUCKETS).map(|_| AtomicU32::new(0)).collect()));
            all.push(Arc::clone(&made));
            made
        })
    }

    /// Makes the counts of a client that has ended available to a later one.
    pub fn leave(&self, counts: Arc<Counts>) {
        self.lock().1.push(counts);
    }
}

/// The sums of all clients' counts at the end of the last second.
#[derive(Debug)]
pub struct Window(Vec<u32>);

impl Window {
    /// Starts before the first request.
    pub fn new() -> Self {
        Self(vec![0; BUCKETS])
    }

    /// Returns a quantile of the latencies since the last call, µs; `None` if there was no request.
    pub fn quantile_us(&mut self, recent: &Recent, quantile: f64) -> Option<f64> {
        let mut now = vec![0u32; BUCKETS];
        for counts in &recent.lock().0 {
            for (sum, count) in now.iter_mut().zip(counts.0.iter()) {
                *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
            }
        }
        let before = std::mem::replace(&mut self.0, now);
        let new = self.0.iter().zip(&before).map(|(now, before)| now.wrapping_sub(*before));
        let new: Vec<u64> = new.map(u64::from).collect();
        let rank = (new.iter().sum::<u64>() as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        let found = new.iter().position(|count| {
            seen += count;
            *count > 0 && seen >= rank
        });
        found.map(|bucket| middle(bucket) / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_latency_is_near_the_middle_of_its_bucket() {
        let mut last = 0;
        for ns in (0..BITS).flat_map(|bits| [1u64 << bits, (1 << bits) * 3 / 2, (2 << bits) - 1]) {
            let found = bucket(ns);
            assert!(found >= last && found < BUCKETS, "{ns}: {found} after {last}");
            let error = (middle(found) / ns as f64 - 1.0).abs();
            assert!(error <= 0.032, "{ns} is in the bucket of {}", middle(found));
            last = found;
        }
        assert_eq!((bucket(0), bucket(u64::MAX)), (0, BUCKETS - 1));
    }

    #[test]
    fn quantiles_are_those_of_the_last_second_over_all_clients() {
        let (recent, mut window) = (Recent::default(), Window::new());
        assert_eq!(window.quantile_us(&recent, 0.99), None);
        let (one, other) = (recent.join(), recent.join());
        (0..99).for_each(|_| one.count(1_000));
        other.count(1_000_000);
        let us = |found: Option<f64>| found.expect("there were requests").round();
        assert_eq!(us(window.quantile_us(&recent, 0.99)), 1.0);
        other.count(1_000_000);
        assert!((us(window.quantile_us(&recent, 0.99)) / 1_000.0 - 1.0).abs() < 0.04);
        recent.leave(other);
        recent.join().count(16); // it continues the counts of the one that has ended
        assert_eq!(window.quantile_us(&recent, 0.5), Some(0.016));
        assert_eq!(recent.lock().0.len(), 2);
        assert_eq!(window.quantile_us(&recent, 0.5), None, "nothing since");
    }
}
