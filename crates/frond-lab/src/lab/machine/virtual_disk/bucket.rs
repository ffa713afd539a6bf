//! Computes when a request of the virtual disk may complete. Pure code: the caller reads the clock.
//!
//! For each rate, `paid` is the time up to which the device's capacity is used. A request moves
//! `paid` forward by its share of the capacity, and completes at the new time. An idle device saves
//! up at most `CREDIT`, so that there are no bursts.

use std::time::Duration;

use crate::measure::IoLimits;

/// Time since an arbitrary start.
pub type Time = Duration;

/// Idle time that later requests may make up for. A sleeping thread wakes up to 0.1 ms late;
/// without credit, a disk with one request at a time would lose that with every request.
const CREDIT: Time = Duration::from_millis(1);

/// A token bucket for one rate.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Units per second; `None` is no limit.
    rate: Option<u64>,
    paid: Time,
}

impl Bucket {
    /// A bucket of `rate` units per second.
    pub fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), paid: Time::ZERO }
    }

    /// Takes `amount` units for a request that arrives `now`; returns when it completes.
    pub fn take(&mut self, now: Time, amount: u64) -> Time {
        let Some(rate) = self.rate else { return now };
        // Whole nanoseconds, rounded up: the rate is never exceeded.
        let cost = (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(rate));
        let cost = Duration::from_nanos(u64::try_from(cost).unwrap_or(u64::MAX));
        self.paid = self.paid.max(now.saturating_sub(CREDIT)).saturating_add(cost);
        self.paid.max(now)
    }
}

/// A request to the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Request {
    /// Reads this many bytes.
    Read(u64),
    /// Writes this many bytes.
    Write(u64),
    /// Empties the disk's cache.
    Flush,
}

/// All rates and latencies of a disk.
#[derive(Clone, Debug)]
pub struct Throttle {
    read_bytes: Bucket,
    read_ios: Bucket,
    write_bytes: Bucket,
    write_ios: Bucket,
    latency: Duration,
    flush: Duration,
}

impl Throttle {
    /// A disk with these limits. A read or write takes at least `latency`; a flush takes `flush`.
    pub fn new(io: &IoLimits, latency: Duration, flush: Duration) -> Self {
        Self {
            read_bytes: Bucket::new(io.read_bytes_s),
            read_ios: Bucket::new(io.read_ios_s),
            write_bytes: Bucket::new(io.write_bytes_s),
            write_ios: Bucket::new(io.write_ios_s),
            latency,
            flush,
        }
    }

    /// Returns when a request that arrives `now` completes. A flush completes after all writes that
    /// arrived before it.
    pub fn take(&mut self, now: Time, request: Request) -> Time {
        let (rated, latency) = match request {
            Request::Read(bytes) => {
                (self.read_bytes.take(now, bytes).max(self.read_ios.take(now, 1)), self.latency)
            }
            Request::Write(bytes) => {
                (self.write_bytes.take(now, bytes).max(self.write_ios.take(now, 1)), self.latency)
            }
            Request::Flush => {
                let writes = self.write_bytes.paid.max(self.write_ios.paid).max(now);
                (writes, writes - now + self.flush)
            }
        };
        rated.max(now + latency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Time = Duration::from_secs(1);

    /// Number of requests that complete by `until`, with `depth` at a time.
    fn served(throttle: &mut Throttle, request: Request, depth: usize, until: Time) -> u64 {
        let mut workers = vec![Time::ZERO; depth];
        let mut count = 0;
        loop {
            let next = workers.iter_mut().min().unwrap();
            *next = throttle.take(*next, request);
            if *next > until {
                return count;
            }
            count += 1;
        }
    }

    #[test]
    fn as_many_requests_are_served_as_the_rate_allows_and_no_more() {
        let io = IoLimits { read_ios_s: Some(150), ..IoLimits::default() };
        for depth in [1, 2, 32] {
            let mut disk = Throttle::new(&io, Duration::ZERO, Duration::ZERO);
            let count = served(&mut disk, Request::Read(4096), depth, 10 * SECOND);
            assert!((1498..=1500).contains(&count), "{count} at depth {depth}");
        }
    }

    #[test]
    fn large_requests_are_bounded_by_bytes_and_small_ones_by_their_number() {
        let io = IoLimits {
            write_bytes_s: Some(100 << 20),
            write_ios_s: Some(1000),
            ..IoLimits::default()
        };
        let disk = || Throttle::new(&io, Duration::ZERO, Duration::ZERO);
        let large = served(&mut disk(), Request::Write(1 << 20), 4, SECOND);
        assert!((99..=100).contains(&large), "{large}");
        let small = served(&mut disk(), Request::Write(4096), 4, SECOND);
        assert!((999..=1000).contains(&small), "{small}");
        // Reads have a separate budget, here without limit.
        assert_eq!(disk().take(SECOND, Request::Read(1 << 30)), SECOND);
    }

    #[test]
    fn concurrent_requests_share_the_latency_but_not_the_rate() {
        let latency = Duration::from_millis(8);
        let io = IoLimits { read_ios_s: Some(1000), ..IoLimits::default() };
        let mut disk = Throttle::new(&io, latency, Duration::ZERO);
        assert_eq!(served(&mut disk, Request::Read(4096), 1, SECOND), 125);
        let mut disk = Throttle::new(&io, latency, Duration::ZERO);
        let parallel = served(&mut disk, Request::Read(4096), 32, SECOND);
        assert!((998..=1000).contains(&parallel), "{parallel}");
    }

    #[test]
    fn idle_time_is_not_saved_up() {
        let mut bucket = Bucket::new(Some(1000));
        bucket.take(Time::ZERO, 1);
        // After ten idle seconds, requests that arrive together are served at the rate, except for
        // the credit of one request.
        let ends: Vec<Time> = (0..10).map(|_| bucket.take(10 * SECOND, 1)).collect();
        assert_eq!(ends[0], 10 * SECOND);
        assert_eq!(ends[9], 10 * SECOND + Duration::from_millis(9));
    }

    #[test]
    fn a_flush_takes_as_long_as_earlier_writes_plus_its_own_latency() {
        let io = IoLimits { write_ios_s: Some(100), ..IoLimits::default() };
        let flush = Duration::from_millis(5);
        let mut disk = Throttle::new(&io, Duration::ZERO, flush);
        assert_eq!(disk.take(SECOND, Request::Flush), SECOND + flush);
        let mut end = SECOND;
        for _ in 0..3 {
            end = disk.take(SECOND, Request::Write(4096));
        }
        assert_eq!(disk.take(SECOND, Request::Flush), end + flush);
    }

    #[test]
    fn excessive_amounts_saturate_and_do_not_wrap() {
        let mut bucket = Bucket::new(Some(0));
        assert!(bucket.take(SECOND, u64::MAX) > SECOND);
        assert!(bucket.take(SECOND, u64::MAX) > SECOND);
        assert_eq!(Bucket::new(None).take(SECOND, u64::MAX), SECOND);
    }
}
