//! Statistics of repeats: their median and spread, and whether two sets of them differ. Used by
//! `lab compare` and the report.
//!
//! Invariants
//! 1. A sample holds only finite numbers; other values count as not measured.
//! 2. A difference is significant if both sides have at least three repeats, Welch's t-test on the
//!    logarithms gives p ≤ 0.05, and the difference is at least the metric's magnitude.
//!    The medians and the means of the logarithms must agree on its direction.
//! 3. Zero has no logarithm and no ratio. A value that is 0 in all repeats of one side and in none
//!    of the other is a gain or loss without a ratio.
//! 4. A ratio is that of the medians, as a reader computes it from the values that are shown. Its
//!    range is that of the repeats, which always includes it.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::metric::{Better, Metric};

/// Median and range of the repeats of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

/// Spread, relative to the median, above which the median is not to be trusted.
const NOISY: f64 = 0.15;
/// Minimum number of repeats on each side for a difference to be significant.
const REPEATS_MIN: usize = 3;
/// Maximum probability that a significant difference is due to chance.
const P_MAX: f64 = 0.05;

impl Spread {
    /// Computes the spread of the finite values; `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        };
        Some(Self { median, min, max, count: sorted.len() })
    }

    /// Whether the spread is too large for the median to be trusted.
    pub fn is_noisy(&self) -> bool {
        self.count > 1 && (self.max - self.min) > NOISY * self.median.abs()
    }
}

/// The values of one metric over the repeats of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// (repeat, value), in the order of repeats.
    values: Vec<(i64, f64)>,
}

impl Sample {
    /// A sample of the values that are finite.
    pub fn new(values: impl IntoIterator<Item = (i64, f64)>) -> Self {
        let mut values: Vec<_> =
            values.into_iter().filter(|(_, value)| value.is_finite()).collect();
        values.sort_by_key(|(repeat, _)| *repeat);
        Self { values }
    }

    /// Number of repeats.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The values in the order of repeats.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().map(|(_, value)| *value)
    }

    fn of(&self, repeat: i64) -> Option<f64> {
        self.values.iter().find(|(own, _)| *own == repeat).map(|(_, value)| *value)
    }

    /// Median, smallest and largest value; `None` if nothing was measured.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(&self.values().collect::<Vec<f64>>())
    }

    /// The median; `None` if nothing was measured.
    pub fn median(&self) -> Option<f64> {
        self.spread().map(|spread| spread.median)
    }

    /// The repeat whose value is nearest to the median.
    pub fn typical_repeat(&self) -> Option<i64> {
        let median = self.median()?;
        let distance = |value: f64| (value - median).abs();
        let nearest = |a: &&(i64, f64), b: &&(i64, f64)| distance(a.1).total_cmp(&distance(b.1));
        self.values.iter().min_by(nearest).map(|(repeat, _)| *repeat)
    }
}

/// Outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Significantly better than the base.
    Better,
    /// Significantly worse.
    Worse,
    /// Significant, but the metric has no better or worse.
    Differs,
    /// Not significant, for this reason.
    Insignificant(&'static str),
}

/// Reason why one or two repeats allow no verdict.
pub const FEW: &str = "fewer than three repeats";

/// Comparison of a value with that of a base.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// Ratio of the medians: 0 if the value is 0, infinite if the base's is 0.
    pub of_medians: f64,
    /// Smallest ratio of a repeat.
    pub low: f64,
    /// Largest ratio of a repeat.
    pub high: f64,
    /// Number of repeats compared.
    pub repeats: usize,
    /// Whether either side is noisy.
    pub is_noisy: bool,
    /// The verdict.
    pub verdict: Verdict,
}

impl Ratio {
    /// Whether one side is 0, so that there is no proper ratio (Invariant 3).
    pub fn has_zero(&self) -> bool {
        !(self.of_medians > 0.0 && self.of_medians.is_finite())
    }

    /// The ratio, inverted where necessary so that above 1 is better.
    pub fn gain(&self, better: Better) -> f64 {
        if better == Better::Lower { 1.0 / self.of_medians } else { self.of_medians }
    }
}

/// Compares a value with that of a base. With `is_paired`, repeats with the same number ran next to
/// each other, so the range is that of their ratios, which is free of drift. Otherwise it is that
/// of the ratios to the base's median. `None` if either side was not measured or has a negative
/// value, or if both medians are 0.
pub fn compare(own: &Sample, base: &Sample, metric: &Metric, is_paired: bool) -> Option<Ratio> {
    let (one, other) = (own.spread()?, base.spread()?);
    if one.min < 0.0 || other.min < 0.0 {
        return None;
    }
    let repeats = own.len().min(base.len());
    let is_noisy = one.is_noisy() || other.is_noisy();
    let of_medians = match (one.median > 0.0, other.median > 0.0) {
        (false, false) => return None,
        (false, true) => 0.0,
        (true, false) => f64::INFINITY,
        (true, true) => one.median / other.median,
    };
    let of_base = |repeat| base.of(repeat).filter(|value| is_paired && *value > 0.0);
    let of_repeat = |(repeat, value): &(i64, f64)| value / of_base(*repeat).unwrap_or(other.median);
    let (mut low, mut high) = (of_medians, of_medians);
    if of_medians > 0.0 && of_medians.is_finite() {
        for ratio in own.values.iter().map(of_repeat) {
            (low, high) = (low.min(ratio), high.max(ratio));
        }
    }
    let found = Ratio { of_medians, low, high, repeats, is_noisy, verdict: Verdict::Differs };
    let verdict = match insignificant(&found, own, base, metric) {
        Some(why) => Verdict::Insignificant(why),
        None => match (metric.better, of_medians > 1.0) {
            (Better::Neither, _) => Verdict::Differs,
            (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
            _ => Verdict::Worse,
        },
    };
    Some(Ratio { verdict, ..found })
}

/// The reason why a difference is not significant, if it is not (Invariants 2 and 3).
fn insignificant(
    found: &Ratio,
    own: &Sample,
    base: &Sample,
    metric: &Metric,
) -> Option<&'static str> {
    if found.repeats < REPEATS_MIN {
        return Some(FEW);
    }
    if found.has_zero() {
        let (zeros, others) = if found.of_medians > 0.0 { (base, own) } else { (own, base) };
        if zeros.values().any(|value| value > 0.0) || others.values().any(|value| value <= 0.0) {
            return Some("0 in some repeats only");
        }
        return (others.median()? < trifle(metric)).then_some("too little to matter");
    }
    let values = |sample: &Sample| sample.values().collect::<Vec<f64>>();
    let (own, base) = (values(own), values(base));
    let is_larger = |mean: f64| Some(mean > geometric_mean(&base)?);
    let is_agreed = geometric_mean(&own).and_then(is_larger) == Some(found.of_medians > 1.0);
    if p_value(&own, &base).is_none_or(|p| p > P_MAX) || !is_agreed {
        return Some("may be chance");
    }
    let ratio = found.of_medians;
    (ratio.max(1.0 / ratio) - 1.0 < metric.magnitude).then_some("too small to matter")
}

/// Value below which a metric counts as 0 when the other side is 0, since no ratio shows how much
/// it is.
fn trifle(metric: &Metric) -> f64 {
    match metric.unit {
        // One page of 16 KiB per thousand operations.
        "B" => 16.0,
        "µs" | "s" => 1.0,
        _ => 0.0,
    }
}

/// Probability that two sets of repeats differ this much by chance, according to Welch's t-test. It
/// is applied to logarithms, since the values are rates, times and sizes, whose noise is
/// multiplicative. `None` if there are too few values, or one is not positive.
pub fn p_value(one: &[f64], other: &[f64]) -> Option<f64> {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        let is_fine =
            values.len() >= REPEATS_MIN && values.iter().all(|v| *v > 0.0 && v.is_finite());
        is_fine.then(|| values.iter().map(|value| value.ln()).collect())
    };
    let (one, other) = (logs(one)?, logs(other)?);
    let moments = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n, n)
    };
    let ((m1, v1, n1), (m2, v2, n2)) = (moments(&one), moments(&other));
    let variance = v1 + v2;
    if variance <= 0.0 {
        return Some(if m1 == m2 { 1.0 } else { 0.0 });
    }
    let t = (m1 - m2).abs() / variance.sqrt();
    let freedom = variance.powi(2) / (v1.powi(2) / (n1 - 1.0) + v2.powi(2) / (n2 - 1.0));
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(2.0 * (1.0 - distribution.cdf(t)))
}

/// Geometric mean; `None` without values, or if one is not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let is_positive =
        !values.is_empty() && values.iter().all(|value| *value > 0.0 && value.is_finite());
    is_positive
        .then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::metric::find;

    fn sample(values: &[f64]) -> Sample {
        Sample::new((1..).zip(values.iter().copied()))
    }

    fn against(own: &[f64], base: &[f64], name: &str) -> Option<Ratio> {
        compare(&sample(own), &sample(base), find(name)?, true)
    }

    fn verdict(own: &[f64], base: &[f64], name: &str) -> Option<Verdict> {
        against(own, base, name).map(|ratio| ratio.verdict)
    }

    fn why(own: &[f64], base: &[f64], name: &str) -> &'static str {
        match verdict(own, base, name) {
            Some(Verdict::Insignificant(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn medians_and_noise() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[f64::NAN]), None);
        let spread = Spread::of(&[3.0, 1.0, 2.0]).expect("three values");
        assert_eq!((spread.median, spread.min, spread.max, spread.count), (2.0, 1.0, 3.0, 3));
        assert!(spread.is_noisy());
        assert_eq!(Spread::of(&[1.0, 2.0]).map(|spread| spread.median), Some(1.5));
        assert!(!Spread::of(&[100.0, 101.0]).is_some_and(|spread| spread.is_noisy()));
        assert!(!Spread::of(&[100.0]).is_some_and(|spread| spread.is_noisy()));
        let odd = sample(&[3.0, f64::NAN, 1.0, f64::INFINITY, 2.0]);
        assert_eq!((odd.median(), odd.len(), odd.typical_repeat()), (Some(2.0), 3, Some(5)));
        assert_eq!(sample(&[]).median(), None);
    }

    #[test]
    fn the_test_is_welchs() {
        // With equal variances it equals Student's test: t = 3, four degrees of freedom, p =
        // 0.0399.
        let exp = |values: [f64; 3]| values.map(f64::exp);
        let (one, other) = (exp([1.0, 2.0, 3.0]), exp([1.0, 2.0, 3.0].map(|v| v + 6f64.sqrt())));
        let p = p_value(&one, &other).expect("three repeats each");
        assert!((p - 0.0399).abs() < 0.0002, "{p}");
        assert_eq!(p_value(&[1.0, 2.0], &other), None);
        assert_eq!(p_value(&[0.0, 2.0, 3.0], &other), None);
    }

    #[test]
    fn clear_differences_are_significant_in_the_direction_of_the_metric() {
        let (fast, slow) = ([200.0, 210.0, 205.0], [100.0, 101.0, 99.0]);
        assert_eq!(verdict(&fast, &slow, "ops_s"), Some(Verdict::Better));
        assert_eq!(verdict(&slow, &fast, "ops_s"), Some(Verdict::Worse));
        assert_eq!(verdict(&fast, &slow, "disk_b"), Some(Verdict::Worse));
        assert_eq!(verdict(&fast, &slow, "ops"), Some(Verdict::Differs));
        let ratio = against(&fast, &slow, "ops_s");
        assert!(
            ratio.is_some_and(|r| (2.0..2.1).contains(&r.of_medians) && r.low == 2.0),
            "{ratio:?}"
        );
    }

    #[test]
    fn ratios_are_of_the_medians_with_the_range_of_pairs_in_one_run() {
        let (own, base) = (sample(&[10.0, 20.0, 40.0]), sample(&[5.0, 10.0, 20.0]));
        let ops = find("ops_s").expect("a metric");
        let paired = compare(&own, &base, ops, true).expect("both measured");
        assert_eq!((paired.low, paired.of_medians, paired.high), (2.0, 2.0, 2.0));
        let alone = compare(&own, &base, ops, false).expect("both measured");
        assert_eq!((alone.low, alone.of_medians, alone.high), (1.0, 2.0, 4.0));
        assert!(paired.is_noisy);
        // The median of the pairs' ratios would be 0.1, although the values say 1.
        let (own, base) = (sample(&[1.0, 10.0, 100.0]), sample(&[10.0, 100.0, 1.0]));
        let crossed = compare(&own, &base, ops, true).expect("both measured");
        assert_eq!((crossed.low, crossed.of_medians, crossed.high), (0.1, 1.0, 100.0));
    }

    #[test]
    fn a_direction_on_which_median_and_mean_disagree_is_not_significant() {
        // The own values are larger on average, but their median is smaller.
        let own = [99.0, 99.0, 99.0, 99.0, 99.0, 400.0, 400.0, 400.0, 400.0];
        assert!(p_value(&own, &[100.0; 9]).is_some_and(|p| p <= P_MAX));
        assert!(why(&own, &[100.0; 9], "seconds").contains("chance"));
    }

    #[test]
    fn chance_small_differences_and_few_repeats_are_not_significant() {
        assert_eq!(why(&[200.0, 210.0], &[100.0, 101.0], "ops_s"), FEW);
        assert!(why(&[100.0, 150.0, 220.0], &[90.0, 140.0, 210.0], "ops_s").contains("chance"));
        assert!(why(&[103.0, 103.1, 103.2], &[100.0, 100.1, 99.9], "ops_s").contains("small"));
        // Equal sizes in all repeats; then sizes that differ in all, by 1 % and by 10 %.
        assert!(why(&[7.0; 3], &[7.0; 3], "disk_b").contains("chance"));
        assert!(why(&[101.0; 3], &[100.0; 3], "disk_b").contains("small"));
        assert_eq!(verdict(&[110.0; 3], &[100.0; 3], "disk_b"), Some(Verdict::Worse));
        // A difference equal to the magnitude is enough.
        assert_eq!(verdict(&[128.75; 3], &[125.0; 3], "cpu_us_op"), Some(Verdict::Worse));
    }

    #[test]
    fn a_comparison_with_zero_is_a_separate_kind_of_loss_or_gain() {
        let (none, some) = ([0.0; 3], [4096.0, 4000.0, 4100.0]);
        let loss = against(&some, &none, "rd_b_op").expect("compared");
        assert!(
            loss.has_zero() && loss.verdict == Verdict::Worse && loss.gain(Better::Lower) == 0.0
        );
        let gain = against(&none, &some, "rd_b_op").expect("compared");
        assert!(gain.has_zero() && gain.verdict == Verdict::Better);
        assert_eq!(verdict(&none, &some, "ops_s"), Some(Verdict::Worse), "it stands still");
        assert_eq!(against(&none, &none, "rd_b_op"), None);
        assert!(why(&[2.0, 3.0, 4.0], &none, "rd_b_op").contains("too little"));
        assert!(why(&some, &[0.0, 0.0, 9.0], "rd_b_op").contains("some repeats"));
        assert_eq!(why(&some[..2], &none, "rd_b_op"), FEW);
        // With medians above zero there is a ratio, but a repeat of zero makes it uncertain.
        let mixed = against(&[0.0, 8.0, 8.0], &[4.0; 3], "rd_b_op").expect("compared");
        assert!(!mixed.has_zero() && mixed.of_medians == 2.0);
        assert!(why(&[0.0, 8.0, 8.0], &[4.0; 3], "rd_b_op").contains("chance"));
    }

    #[test]
    fn negative_or_missing_values_give_no_ratio() {
        assert_eq!(against(&[1.0; 3], &[-1.0, 1.0, 1.0], "ops_s"), None);
        assert_eq!(against(&[], &[1.0], "ops_s"), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert!(geometric_mean(&[2.0, 8.0]).is_some_and(|mean| (mean - 4.0).abs() < 1e-12));
    }
}
