//! Random numbers for the workloads: xoshiro256++ seeded by SplitMix64, one stream per purpose.
//!
//! Invariants
//! 1. A stream depends only on (seed, workload, table, client, purpose): the data are the same for
//!    every target, thread count and machine.
//! 2. Data bytes and the choice of operations come from different streams.
//!
//! Threads: a stream belongs to one thread. Ideas: Blackman and Vigna, "Scrambled linear
//! pseudorandom number generators", 2021; Steele, Lea and Flood, "Fast splittable pseudorandom
//! number generators", 2014 (SplitMix64).

mod shuffle;
mod zipf;

pub use shuffle::Shuffle;
pub use zipf::{GrayZipf, RejectionZipf, zeta};

/// What a stream's numbers are for (Invariant 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Bytes and column values.
    Data = 1,
    /// Which operation comes next, and on which key.
    Choice = 2,
    /// Fixed populations drawn before the first row.
    Population = 3,
}

/// The SplitMix64 generator, which turns related seeds into unrelated ones.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Returns the generator with this state.
    pub fn new(state: u64) -> Self {
        Self(state)
    }

    /// Returns the next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// The xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// Returns a generator whose state SplitMix64 derives from `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mix = SplitMix::new(seed);
        Self([mix.next(), mix.next(), mix.next(), mix.next()])
    }

    /// Returns the stream of (seed, workload, table, client, purpose).
    pub fn stream(seed: u64, workload: &str, table: u64, client: u64, purpose: Purpose) -> Self {
        let workload = xxhash_rust::xxh3::xxh3_64(workload.as_bytes());
        let mut mixed = seed;
        for part in [workload, table, client, purpose as u64] {
            mixed = SplitMix::new(mixed ^ part).next();
        }
        Self::new(mixed)
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Draws a number uniformly from [0, n); 0 if n is 0. The bias is below 2⁻³² for the
    /// populations used here.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// Draws a number uniformly from [low, high].
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// Draws a number uniformly from [0, 1), with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws from the standard normal distribution (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Draws from the exponential distribution with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Draws an index with these weights.
    pub fn weighted(&mut self, weights: &[u32]) -> usize {
        let total: u32 = weights.iter().sum();
        let mut point = self.below(u64::from(total)) as u32;
        for (index, weight) in weights.iter().enumerate() {
            if point < *weight {
                return index;
            }
            point -= weight;
        }
        weights.len() - 1
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_published_sequence() {
        // First outputs for state 1234567, as printed with the reference implementation.
        let mut mix = SplitMix::new(1_234_567);
        assert_eq!(mix.next(), 6_457_827_717_110_365_317);
        assert_eq!(mix.next(), 3_203_168_211_198_807_973);
        assert_eq!(mix.next(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn xoshiro_gives_the_published_sequence() {
        // State 1, 2, 3, 4, as in the reference test vectors.
        let mut random = Random([1, 2, 3, 4]);
        let first: Vec<u64> = (0..4).map(|_| random.next()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn streams_of_different_purpose_or_client_differ_and_repeat() {
        let draw = |client, purpose| Random::stream(42, "iibench", 0, client, purpose).next();
        assert_eq!(draw(0, Purpose::Data), draw(0, Purpose::Data));
        assert_ne!(draw(0, Purpose::Data), draw(0, Purpose::Choice));
        assert_ne!(draw(0, Purpose::Data), draw(1, Purpose::Data));
        assert_ne!(
            Random::stream(42, "a", 0, 0, Purpose::Data).next(),
            Random::stream(43, "a", 0, 0, Purpose::Data).next()
        );
    }

    #[test]
    fn uniform_draws_fill_their_range_evenly() {
        let mut random = Random::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&n| (9_500..10_500).contains(&n)), "{counts:?}");
        let mean = (0..100_000).map(|_| random.exponential(25.0)).sum::<f64>() / 100_000.0;
        assert!((24.5..25.5).contains(&mean), "{mean}");
        let square = (0..100_000).map(|_| random.normal().powi(2)).sum::<f64>() / 100_000.0;
        assert!((0.97..1.03).contains(&square), "{square}");
    }
}
