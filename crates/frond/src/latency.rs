//! How long things took: histograms that many threads count into at once.
//!
//! A time falls into one of eight classes between a power of two of nanoseconds and the next, so that what is said of
//! it is at most an eighth too much.
//!
//! Invariants
//! 1. Who counts waits for nobody: relaxed additions, to counts of which each thread shares one of a few stripes.
//! 2. What is read while others count is of no one moment, but no time is lost or counted twice.
//!
//! Threads: all. Cost of a time: two additions to lines that few threads share, some ten nanoseconds. What would not
//! bear that, and the reading of a clock, counts some of its times and says for how many each stands.

use std::{cell::Cell, fmt, time::Duration};

use crate::sync::{AtomicU64, Ordering, thread_number};

/// Classes between two powers of two.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;
/// Times from here on are of the last class: 2^40 ns, eighteen minutes.
const POWERS: u32 = 40;
const CLASSES: usize = (POWERS - FINE_BITS + 1) as usize * FINE;
/// On average one of so many short things is timed: a clock is read twice for it.
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

/// Times are counted here.
#[derive(Debug)]
pub struct Histogram {
    stripes: Box<[Stripe]>,
    longest: AtomicU64,
}

/// The counts of some threads, on lines of their own.
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
    /// An empty one with so many stripes, of 2.4 KB each: one is enough where the times are of threads that slept.
    pub fn new(stripes: usize) -> Self {
        Self {
            stripes: (0..stripes).map(|_| Stripe::default()).collect(),
            longest: AtomicU64::new(0),
        }
    }

    /// Counts a time that stands for `weight` like it.
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
    pub fn times(&self) -> Times {
        let mut times = Times {
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

/// How long things took since the store was opened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Times {
    counts: Vec<u64>,
    total: Duration,
    longest: u64,
}

impl Times {
    /// How many there were; of what is timed by samples, about.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The longest that was timed.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest)
    }

    /// The time that so many of a thousand did not exceed, at most an eighth too long: 500 asks for the median. Zero if
    /// there were none.
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

/// Of things too short to be timed each: whether this one is, and for how many it stands; 0 if it is not. Gaps are of
/// different lengths, or what a program does every so often would be timed always or never.
pub fn sample() -> u64 {
    thread_local! {
        /// How many are passed by before the next, how many that one stands for, and what gaps are drawn from.
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
    fn classes_follow_each_other_and_are_an_eighth_wide() {
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
    fn shares_are_at_most_an_eighth_too_long() {
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
    fn samples_stand_for_all() {
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
