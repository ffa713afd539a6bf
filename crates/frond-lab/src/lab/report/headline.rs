//! The headline of a workload: the one metric in which its targets are compared on the first page.
//!
//! A workload with several steps has the geometric mean of its steps, a sweep over threads its peak. Steps that only
//! prepare (`load…`) count where nothing else was measured, or where the load is the experiment.

use super::group::{Group, Target};
use super::statistics::{Ratio, Sample, compare, geometric_mean};
use crate::lab::metric::{self, Metric};

/// Workloads whose headline is not the rate of operations. The first metric that was measured counts.
const HEADLINES: &[(&str, &[&str])] = &[
    ("iibench", &["exit_velocity", "ops_s"]),
    ("weblog", &["disk_b", "ops_s"]),
    ("rowformats", &["disk_b", "ops_s"]),
    ("zip", &["disk_b", "ops_s"]),
    ("bulk", &["ops_s", "seconds"]),
    ("index", &["seconds"]),
];
/// For all others.
const RATE: &[&str] = &["ops_s", "exit_velocity", "seconds", "disk_b"];

/// How the steps make one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Combine {
    Mean,
    Peak,
}

/// A headline.
pub struct Headline {
    pub metric: &'static Metric,
    pub steps: Vec<String>,
    combine: Combine,
}

impl Headline {
    /// The headline of a group, if it has measured anything.
    pub fn of(group: &Group<'_>) -> Option<Self> {
        let known = HEADLINES.iter().find(|(workload, _)| *workload == group.key.workload);
        let wanted = known.map_or(RATE, |(_, names)| *names);
        let name = wanted.iter().chain(RATE).find(|name| group.step_of(name).is_some())?;
        let mut steps: Vec<String> =
            group.steps().into_iter().filter(|step| group.has(step, name)).collect();
        let combine = if steps.iter().any(|step| threads(step).is_some()) {
            steps.retain(|step| threads(step).is_some());
            Combine::Peak
        } else {
            // The whole cell says it already; a load prepares the others.
            let is_detail = |step: &String| !(step.is_empty() || step.starts_with("load"));
            if steps.iter().any(String::is_empty) {
                steps.truncate(1);
            } else if steps.iter().any(is_detail) {
                steps.retain(is_detail);
            }
            Combine::Mean
        };
        Some(Self { metric: metric::find(name)?, steps, combine })
    }

    /// One value per repeat, of the steps that it has in common with `other`.
    fn sample(&self, target: &Target<'_>, other: &Target<'_>) -> Sample {
        let has = |target: &Target<'_>, step: &str| target.sample(step, self.metric.name).len() > 0;
        let common: Vec<&String> =
            self.steps.iter().filter(|step| has(target, step) && has(other, step)).collect();
        Sample::new(target.cells.iter().filter_map(|cell| {
            let values: Vec<f64> =
                common.iter().filter_map(|step| cell.metric(step, self.metric.name)).collect();
            let value = match self.combine {
                Combine::Peak => values.into_iter().reduce(f64::max),
                Combine::Mean if common.len() == 1 => values.first().copied(),
                Combine::Mean if values.len() == common.len() => geometric_mean(&values),
                Combine::Mean => None,
            };
            Some((cell.repeat, value?))
        }))
    }

    /// The value of a target, over its own steps.
    pub fn value(&self, target: &Target<'_>) -> Option<f64> {
        self.sample(target, target).median()
    }

    /// A target against the base.
    pub fn ratio(&self, group: &Group<'_>, target: &Target<'_>) -> Option<Ratio> {
        let base = group.base()?;
        let (own, of_base) = (self.sample(target, base), self.sample(base, target));
        compare(&own, &of_base, self.metric, base.run.id == target.run.id)
    }

    /// What it is, in a phrase.
    pub fn what(&self) -> String {
        let name = name_of(self.metric);
        match (self.combine, self.steps.as_slice()) {
            (Combine::Peak, _) => format!("peak {name} over threads"),
            (Combine::Mean, [step]) if step.is_empty() => name.to_owned(),
            (Combine::Mean, [step]) => format!("{name}, {step}"),
            (Combine::Mean, steps) => format!("{name}, geometric mean of {} steps", steps.len()),
        }
    }
}

/// The clients of a step `threads=N`.
pub fn threads(step: &str) -> Option<u32> {
    step.strip_prefix("threads=")?.parse().ok().filter(|threads| *threads > 0)
}

/// A metric's name for a heading.
pub fn name_of(metric: &Metric) -> &'static str {
    match metric.name {
        "ops_s" => "operations/s",
        "exit_velocity" => "exit velocity",
        "exit_velocity_4pct" => "exit velocity of the last 4 %",
        "seconds" => "duration",
        "disk_b" => "size on disk",
        "cpu_us_op" => "CPU per operation",
        "cpu_us_op_rested" => "CPU per operation, rest included",
        "wr_b_op" => "bytes written per operation",
        "wr_b_op_rested" => "bytes written per operation, rest included",
        "rd_b_op" => "bytes read per operation",
        "p99_us" => "99th percentile of the latency",
        "rss_peak_b" => "peak memory",
        _ => metric.what,
    }
}
