//! The distributions from which sysbench's tests choose row ids.
//!
//! Except with `uniform` and `zipfian-scrambled`, ids that are drawn often are close to each other
//! and share pages, which flatters every cache. `zipfian-scrambled` is an addition of the lab that
//! scatters them.

use crate::random::{Random, RejectionZipf, Shuffle};

/// Names of the distributions.
pub const NAMES: [&str; 6] =
    ["uniform", "gaussian", "pareto", "zipfian", "special", "zipfian-scrambled"];

/// Number of uniform random numbers whose mean is a draw of `gaussian`.
const SUMMANDS: u32 = 12;
/// Share of the ids that `special` draws often, and the share of draws that they get.
const SPECIAL: (f64, f64) = (0.01, 0.75);
/// Parameter of `pareto`: 80 % of the draws hit a fifth of the ids.
const PARETO_H: f64 = 0.2;
/// Exponent of `zipfian`.
const ZIPF_THETA: f64 = 0.8;

/// A distribution over the numbers from 0 to `n` (exclusive).
#[derive(Clone, Debug)]
pub struct Ids {
    n: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Uniform,
    Gaussian,
    Pareto(f64),
    Zipfian(RejectionZipf),
    Special { from: u64, width: u64 },
    Scrambled(RejectionZipf, Shuffle),
}

impl Ids {
    /// Makes the distribution with this name, which is one of `NAMES`, over `n` numbers.
    pub fn new(name: &str, n: u64) -> Self {
        let n = n.max(1);
        let kind = match name {
            "gaussian" => Kind::Gaussian,
            "pareto" => Kind::Pareto(PARETO_H.ln() / (1.0 - PARETO_H).ln()),
            "zipfian" => Kind::Zipfian(RejectionZipf::new(n, ZIPF_THETA)),
            "special" => {
                let width = ((n as f64 * SPECIAL.0) as u64).max(1);
                Kind::Special { from: (n - width) / 2, width }
            }
            "zipfian-scrambled" => {
                Kind::Scrambled(RejectionZipf::new(n, ZIPF_THETA), Shuffle::new(n, n))
            }
            _ => Kind::Uniform,
        };
        Self { n, kind }
    }

    /// Draws a number.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let part = |unit: f64| ((self.n as f64 * unit) as u64).min(self.n - 1);
        match &self.kind {
            Kind::Uniform => random.below(self.n),
            Kind::Gaussian => part(mean(random)),
            Kind::Pareto(power) => part(random.unit().powf(*power)),
            Kind::Zipfian(zipf) => zipf.draw(random),
            Kind::Special { from, width } => match random.chance(SPECIAL.1) {
                true => from + random.below(*width),
                false => part(mean(random)),
            },
            Kind::Scrambled(zipf, shuffle) => shuffle.of(zipf.draw(random)),
        }
    }
}

fn mean(random: &mut Random) -> f64 {
    (0..SUMMANDS).map(|_| random.unit()).sum::<f64>() / f64::from(SUMMANDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 400_000;

    /// Compares the share of draws below several limits with the exact probability.
    fn check(name: &str, below: impl Fn(f64) -> f64) {
        const N: u64 = 100_000;
        let (ids, mut random) = (Ids::new(name, N), Random::new(5));
        let mut drawn: Vec<u64> = (0..DRAWS).map(|_| ids.draw(&mut random)).collect();
        drawn.sort_unstable();
        assert!(drawn[DRAWS as usize - 1] < N);
        for part in [0.0001, 0.01, 0.1, 0.3, 0.49, 0.5, 0.502, 0.51, 0.7, 0.9, 0.999, 1.0] {
            let limit = (part * N as f64) as u64;
            let exact = below(limit as f64 / N as f64);
            let found = drawn.partition_point(|id| *id < limit) as f64;
            let expected = exact * f64::from(DRAWS);
            let room = 5.0 * (expected * (1.0 - exact)).max(0.0).sqrt() + 1.0;
            assert!((found - expected).abs() < room, "{name} {part}: {found}, {expected:.0} exact");
        }
    }

    /// Probability that the mean of twelve uniform numbers is below `x` (Irwin and Hall).
    fn mean_below(x: f64) -> f64 {
        let (n, mut sum, mut choose, mut factorial) = (f64::from(SUMMANDS), 0.0, 1.0, 1.0);
        (1..=SUMMANDS).for_each(|i| factorial *= f64::from(i));
        if x > 0.5 {
            return 1.0 - mean_below(1.0 - x); // the sum is inexact for larger x
        }
        for k in 0..=(n * x) as u32 {
            let k = f64::from(k);
            let sign = if (k as u32).is_multiple_of(2) { 1.0 } else { -1.0 };
            sum += sign * choose * (n * x - k).powf(n);
            choose *= (n - k) / (k + 1.0);
        }
        sum / factorial
    }

    #[test]
    fn draws_have_their_exact_probabilities() {
        check("uniform", |x| x);
        check("gaussian", mean_below);
        let power = PARETO_H.ln() / (1.0 - PARETO_H).ln();
        check("pareto", |x| x.powf(1.0 / power));
        check("special", |x| {
            let window = ((x - 0.495) / 0.01).clamp(0.0, 1.0);
            0.75 * window + 0.25 * mean_below(x)
        });
        let weight = |ranks: u64| (1..=ranks).map(|r| (r as f64).powf(-ZIPF_THETA)).sum::<f64>();
        let all = weight(100_000);
        check("zipfian", |x| weight((x * 100_000.0).round() as u64) / all);
    }

    #[test]
    fn scrambled_ids_are_drawn_as_often_as_their_ranks_but_are_not_neighbours() {
        const N: u64 = 10_000;
        let (ids, mut random) = (Ids::new("zipfian-scrambled", N), Random::new(5));
        let mut counts = vec![0u32; N as usize];
        (0..DRAWS).for_each(|_| counts[ids.draw(&mut random) as usize] += 1);
        let mut hottest: Vec<usize> = (0..N as usize).collect();
        hottest.sort_by_key(|id| std::cmp::Reverse(counts[*id]));
        let all: f64 = (1..=N).map(|rank| (rank as f64).powf(-ZIPF_THETA)).sum();
        let expected = f64::from(DRAWS) / all;
        let most = f64::from(counts[hottest[0]]);
        assert!((most - expected).abs() < 5.0 * expected.sqrt(), "{most}, {expected:.0} exact");
        let neighbours = (0..20).filter(|at| hottest[*at].abs_diff(hottest[at + 1]) < 10).count();
        assert!(neighbours < 3, "{:?}", &hottest[..20]);
    }
}
