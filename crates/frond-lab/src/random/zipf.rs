//! Two samplers of the Zipf distribution, because published loads use both.
//!
//! Invariants
//! 1. Rank r (from 0) of n is drawn with probability (r+1)^−θ / ζ(n): exactly by the rejection
//!    sampler, and approximately, as described by its authors, by Gray's.
//!
//! Ideas: Gray et al., "Quickly generating billion-record synthetic databases", SIGMOD 1994;
//! Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", ACM TOMACS 1996.

use super::Random;

/// Gray's sampler for θ < 1: one draw, no loop. Ranks 0 and 1 are exact, the rest approximate.
#[derive(Clone, Debug)]
pub struct GrayZipf {
    n: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
    half_power: f64,
}

impl GrayZipf {
    /// Prepares drawing ranks in [0, n) with exponent `theta` in (0, 1). Costs O(n) once.
    pub fn new(n: u64, theta: f64) -> Self {
        let zeta = zeta(n, theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta_two(theta) / zeta);
        Self { n: n as f64, alpha: 1.0 / (1.0 - theta), zeta, eta, half_power: 0.5f64.powf(theta) }
    }

    /// Draws a rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + self.half_power {
            return 1;
        }
        let rank = self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n as u64 - 1)
    }
}

/// Returns Σ i^−θ over the first `n` positive integers.
pub fn zeta(n: u64, theta: f64) -> f64 {
    (1..=n).map(|i| (i as f64).powf(-theta)).sum()
}

fn zeta_two(theta: f64) -> f64 {
    1.0 + 0.5f64.powf(theta)
}

/// Rejection–inversion sampler: exact for any θ ≥ 0, O(1) setup, about 1.1 draws per rank.
#[derive(Clone, Debug)]
pub struct RejectionZipf {
    n: f64,
    theta: f64,
    h_first: f64,
    h_last: f64,
    skip: f64,
}

impl RejectionZipf {
    /// Prepares drawing ranks in [0, n) with exponent `theta`.
    pub fn new(n: u64, theta: f64) -> Self {
        let mut zipf = Self { n: n as f64, theta, h_first: 0.0, h_last: 0.0, skip: 0.0 };
        zipf.h_first = zipf.integral(1.5) - 1.0;
        zipf.h_last = zipf.integral(zipf.n + 0.5);
        zipf.skip = 2.0 - zipf.integral_inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.h_last + random.unit() * (self.h_first - self.h_last);
            let x = self.integral_inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.skip || u >= self.integral(k + 0.5) - self.density(k) {
                return k as u64 - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    /// Returns ∫ x^−θ, zero at 1; written so that θ = 1 is not a special case.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.theta) * log) * log
    }

    fn integral_inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        (log1p_over(t) * y).exp()
    }
}

/// Returns (eˣ − 1) / x, by its series near 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// Returns ln(1 + x) / x, by its series near 0.
fn log1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws a million ranks and compares the first hundred with their exact probabilities, each
    /// within 5 standard deviations plus `slack` of the exact value.
    fn check(n: u64, theta: f64, slack: f64, mut draw: impl FnMut(&mut Random) -> u64) {
        const DRAWS: u32 = 1_000_000;
        let mut random = Random::new(11);
        let mut counts = [0u32; 100];
        for _ in 0..DRAWS {
            let rank = draw(&mut random);
            assert!(rank < n);
            if let Some(count) = counts.get_mut(rank as usize) {
                *count += 1;
            }
        }
        let total = zeta(n, theta);
        for (rank, count) in counts.iter().enumerate().take(n as usize) {
            let exact = (rank as f64 + 1.0).powf(-theta) / total;
            let expected = exact * f64::from(DRAWS);
            let room = 5.0 * (expected * (1.0 - exact)).sqrt() + slack * expected + 1.0;
            assert!(
                (f64::from(*count) - expected).abs() < room,
                "n={n} theta={theta} rank={rank}: {count} drawn, {expected:.1} expected"
            );
        }
    }

    #[test]
    fn rejection_sampler_matches_exact_probabilities() {
        for (n, theta) in [(400, 1.05), (24, 0.8), (200_000, 0.9), (5_000, 1.0), (1_000, 0.0)] {
            let zipf = RejectionZipf::new(n, theta);
            check(n, theta, 0.0, |random| zipf.draw(random));
        }
    }

    #[test]
    fn gray_sampler_matches_exact_probabilities_to_its_approximation() {
        for (n, theta) in [(100_000, 0.99), (10_000, 0.9)] {
            let zipf = GrayZipf::new(n, theta);
            // The tail formula overstates ranks 2.. by up to a fifth; ranks 0 and 1 are exact.
            check(n, theta, 0.25, |random| zipf.draw(random));
        }
    }
}
