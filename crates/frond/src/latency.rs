//! Latency histograms that many threads add to concurrently.
//!
//! Each power-of-two interval of nanoseconds is divided into eight classes, so a reported time is
//! at most an eighth too long.
//!
//! Invariants
//! 1. Adding a time never waits: it does relaxed additions to one of a few stripes, each shared by
//!    some threads.
//! 2. Times that are read while others add are not from one moment, but none is lost or counted
//!    twice.
//!
//! Threads: all. Cost of a time: two additions to cache lines that few threads share, about ten
//! nanoseconds. Callers that cannot afford this and a clock reading time only a sample and give it
//! a weight ([`sample`]).

use std::{cell::Cell, fmt, time::Duration};

use crate::sync::{AtomicU64, Ordering, thread_number};

/// log2 of the number of classes between two powers of two.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;
/// log2 of the time at which the last class ends: 2^40 ns, eighteen minutes. Longer times count in
/// that class, too.
const POWERS: u32 = 40;
const CLASSES: usize = (POWERS - FINE_BITS + 1) as usize * FINE;
/// One in this many short operations is timed, on average: timing one reads the clock twice.
const SAMPLED: u32 = 16;

/// The class of a time.
fn class_of(nanos: u64) -> usize {
    let power = u64::BITS - 1 - (nanos | 1).leading_zeros();
    if power < FINE_BITS {
        return nanos as usize;
    }
    let fine = (nanos >> (power - FINE_BITS)) as usize % FINE;
    ((power - FINE_BITS + 1) as usize * FINE + fine).min(CLASSES - 1)
}

/// The longest time of a class.
fn end_of(class: usize) -> u64 {
    let next = class + 1;
    if next < 2 * FINE {
        return class as u64;
    }
    let power = next / FINE - 1;
    (((FINE + next % FINE) as u64) << power) - 1
}

/// A histogram of times.
#[derive(Debug)]
pub struct Histogram {
    stripes: Box<[Stripe]>,
    longest: AtomicU64,
}

/// The counts of some threads, on cache lines of their own.
#[repr(align(64))]
struct Stripe {
    nanos: AtomicU64,
    counts: [AtomicU64; CLASSES],
}

impl fmt::Debug for Stripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stripe").field("nanos", &self.nanos).finish_non_exhaustive()
    }
}

impl Default for Stripe {
    fn default() -> Self {
        Self { nanos: AtomicU64::new(0), counts: [const { AtomicU64::new(0) }; CLASSES] }
    }
}

impl Histogram {
    /// An empty histogram with `stripes` stripes of 2.4 KB each. One stripe is enough for times of
    /// threads that slept.
    pub fn new(stripes: usize) -> Self {
        Self {
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            longest: AtomicU64::new(0),
        }
    }

    /// Adds a time `weight` times.
    pub fn count(&self, time: Duration, weight: u64) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let stripe = &self.stripes[thread_number() % self.stripes.len()];
        stripe.counts[class_of(nanos)].fetch_add(weight, Ordering::Relaxed);
        stripe.nanos.fetch_add(nanos.saturating_mul(weight), Ordering::Relaxed);
        if nanos > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    pub fn times(&self) -> LatencyStats {
        let mut times = LatencyStats {
            counts: vec![0; CLASSES],
            total: Duration::ZERO,
            longest: self.longest.load(Ordering::Relaxed),
        };
        for Stripe { nanos, counts } in &self.stripes {
            times.total += Duration::from_nanos(nanos.load(Ordering::Relaxed));
            for (sum, count) in times.counts.iter_mut().zip(counts) {
                *sum += count.load(Ordering::Relaxed);
            }
        }
        times
    }
}

/// Latency statistics since the store was opened.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct LatencyStats {
    counts: Vec<u64>,
    total: Duration,
    longest: u64,
}

impl std::fmt::Debug for LatencyStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = f.debug_struct("LatencyStats");
        out.field("count", &self.count()).field("median", &self.per_mille(500));
        out.field("p99", &self.per_mille(990)).field("longest", &self.longest()).finish()
    }
}

impl LatencyStats {
    /// Number of operations; approximate where only a sample is timed.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Sum of all times.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The longest time measured.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// The time that `share` of a thousand operations did not exceed, at most an eighth too long:
    /// 500 gives the median. Zero if nothing was counted.
    pub fn per_mille(&self, share: u32) -> Duration {
        let wanted = (u128::from(self.count()) * u128::from(share.min(1000))).div_ceil(1000);
        let mut met = 0;
        let class = self.counts.iter().position(|&count| {
            met += u128::from(count);
            met >= wanted && met > 0
        });
        class.map_or(Duration::ZERO, |class| Duration::from_nanos(end_of(class).min(self.longest)))
    }
}

/// Decides whether to time this one of many short operations. Returns its weight, that is, how many
/// operations it stands for, or 0 if it should not be timed. The gaps between samples vary;
/// otherwise an operation that the program does at regular intervals would be timed always or
/// never.
pub fn sample() -> u64 {
    thread_local! {
        /// Operations left to skip, the weight of the next sample, and the state of the random
        /// generator.
        static GAP: Cell<(u32, u32, u32)> = const { Cell::new((0, 1, 0x9e37_79b9)) };
    }
    let (left, gap, mut random) = GAP.get();
    if left > 0 {
        GAP.set((left - 1, gap, random));
        return 0;
    }
    random ^= random << 13;
    random ^= random >> 17;
    random ^= random << 5;
    // From 1 to 31, so on average 16.
    let next = 1 + random % (2 * SAMPLED - 1);
    GAP.set((next - 1, next, random));
    u64::from(gap)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn classes_are_contiguous_and_an_eighth_wide() {
        let mut last = None;
        for class in 0..CLASSES - 1 {
            let first = last.map_or(0, |last| last + 1);
            let end = end_of(class);
            assert!(first <= end, "{class}: {first} to {end}");
            assert_eq!((class_of(first), class_of(end)), (class, class));
            assert!((end - first) * 8 <= first, "{class}: {first} to {end}");
            last = Some(end);
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_long() {
        let histogram = Histogram::new(2);
        assert_eq!(histogram.times().per_mille(500), Duration::ZERO);
        for micros in 1..=1000 {
            histogram.count(Duration::from_micros(micros), 1);
        }
        let times = histogram.times();
        assert_eq!((times.count(), times.total()), (1000, Duration::from_micros(500_500)));
        assert_eq!(times.longest(), Duration::from_millis(1));
        for share in [1, 500, 990, 999, 1000] {
            let (found, exact) = (times.per_mille(share), Duration::from_micros(share.into()));
            assert!(exact <= found && found <= exact * 9 / 8, "{share}: {found:?}");
        }
        histogram.count(Duration::MAX, 3);
        assert_eq!(histogram.times().count(), 1003);
    }

    #[test]
    fn samples_represent_all_operations() {
        let (mut timed, mut stands_for) = (0u64, 0);
        for _ in 0..16_000 {
            let weight = sample();
            timed += u64::from(weight > 0);
            stands_for += weight;
        }
        assert!((500..2000).contains(&timed), "{timed} of 16000");
        assert!(stands_for.abs_diff(16_000) < 64, "{stands_for}");
    }

    #[test]
    fn threads_that_count_at_once_lose_nothing() {
        let histogram = crate::sync::Arc::new(Histogram::new(4));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let histogram = histogram.clone();
                crate::sync::thread::spawn(move || {
                    (0..1000).for_each(|nanos| histogram.count(Duration::from_nanos(nanos), 1));
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(histogram.times().count(), 4000);
    }
}
