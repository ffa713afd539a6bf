//! A permutation of the numbers below n that needs no memory: rows in random order, each exactly
//! once.
//!
//! Invariants
//! 1. Every number below n is the image of exactly one number below n.
//!
//! A Feistel network permutes the numbers of an even number of bits. A result that is not below n
//! goes through the network again until it is (cycle walking). Since the network is a permutation,
//! this ends, after fewer than four rounds on average.

use super::SplitMix;

/// Rounds of the network: four rounds turn a pseudorandom function into a pseudorandom permutation
/// (Luby and Rackoff, 1988).
const ROUNDS: usize = 4;

/// A pseudorandom permutation of the numbers below n.
#[derive(Clone, Debug)]
pub struct Shuffle {
    n: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Shuffle {
    /// Returns the permutation of the numbers below `n` that belongs to this seed.
    pub fn new(seed: u64, n: u64) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        let mut mix = SplitMix::new(seed);
        Self { n, half_bits: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| mix.next()) }
    }

    /// Returns the image of a number below n.
    pub fn of(&self, number: u64) -> u64 {
        debug_assert!(number < self.n);
        let mut at = self.network(number);
        while at >= self.n {
            at = self.network(at);
        }
        at
    }

    fn network(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            let mixed = SplitMix::new(right ^ key).next() & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_returns_every_number_once() {
        for n in [1, 2, 3, 10, 255, 256, 257, 65_537] {
            let shuffle = Shuffle::new(n, n);
            let mut all: Vec<u64> = (0..n).map(|number| shuffle.of(number)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n), "{n}");
        }
    }

    #[test]
    fn neighbours_are_scattered_evenly() {
        const N: u64 = 1_000_000;
        let shuffle = Shuffle::new(1, N);
        let mut tenths = [0u32; 10];
        (0..10_000).for_each(|number| tenths[(shuffle.of(number) * 10 / N) as usize] += 1);
        assert!(tenths.iter().all(|n| (850..1150).contains(n)), "{tenths:?}");
        let is_near = |n: &u64| shuffle.of(*n).abs_diff(shuffle.of(n + 1)) < N / 1_000;
        assert!((0..10_000).filter(is_near).count() < 60);
        assert_ne!(Shuffle::new(2, N).of(5), shuffle.of(5));
    }
}
