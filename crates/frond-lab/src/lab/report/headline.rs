//! The headline of a workload: the one metric by which its targets are compared on the first page.
//!
//! The registry of workloads names a step and a metric. If that was not measured, the first
//! measured one of `FALLBACKS` is used: the geometric mean of several steps, or the peak of a sweep
//! over threads. Steps that only prepare (`load…`) are used only if nothing else was measured.

use super::group::{Group, Target};
use crate::lab::metric::{self, Metric};
use crate::lab::statistics::{Ratio, Sample, geometric_mean};
use crate::lab::workloads;

/// Metrics that replace a headline that was not measured: the first of them that was measured is
/// used.
const FALLBACKS: &[&str] = &["ops_s", "exit_velocity", "seconds", "disk_b"];

/// How the values of several steps are combined into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Combine {
    Mean,
    Peak,
}

/// A metric, the steps in which it is compared, and how they are combined.
pub struct Headline {
    pub metric: &'static Metric,
    pub steps: Vec<String>,
    combine: Combine,
}

impl Headline {
    /// The headline of a group, if it has measured anything.
    pub fn of(group: &Group<'_>) -> Option<Self> {
        let registered = workloads::headline(&group.key.face, &group.key.workload);
        if let Some((step, name)) = registered.filter(|(step, name)| group.has(step, name)) {
            return Self::of_step(group, step, metric::find(name)?);
        }
        let name = FALLBACKS.iter().find(|name| group.step_of(name).is_some())?;
        let metric = metric::find(name)?;
        let mut steps: Vec<String> =
            group.steps().into_iter().filter(|step| group.has(step, name)).collect();
        if let Some(step) = steps.iter().find(|step| threads(step).is_some()) {
            return Self::of_step(group, step, metric);
        }
        // A value of the whole cell includes the steps; a load only prepares the others.
        let is_detail = |step: &String| !(step.is_empty() || step.starts_with("load"));
        if steps.first().is_some_and(String::is_empty) {
            steps.truncate(1);
        } else if steps.iter().any(is_detail) {
            steps.retain(is_detail);
        }
        Some(Self { metric, steps, combine: Combine::Mean })
    }

    /// The headline of a step. For a step of a sweep it covers the whole sweep.
    fn of_step(group: &Group<'_>, step: &str, metric: &'static Metric) -> Option<Self> {
        let sweep = threads(step).map(|threads| sweep(&group.steps(), threads.test));
        Some(match sweep.filter(|steps| steps.len() >= SWEEP_MIN) {
            Some(steps) => Self { metric, steps, combine: Combine::Peak },
            None => Self { metric, steps: vec![step.to_owned()], combine: Combine::Mean },
        })
    }

    /// One value per repeat of `target`, from the steps that it has in common with `other`.
    fn sample(&self, target: &Target<'_>, other: &Target<'_>) -> Sample {
        let has =
            |target: &Target<'_>, step: &str| !target.sample(step, self.metric.name).is_empty();
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

    /// One value per repeat of a target, from all its steps.
    pub fn values(&self, target: &Target<'_>) -> Sample {
        self.sample(target, target)
    }

    /// The median of a target over the repeats, from all its steps.
    pub fn value(&self, target: &Target<'_>) -> Option<f64> {
        self.values(target).median()
    }

    /// Ratio of a target to the base.
    pub fn ratio(&self, group: &Group<'_>, target: &Target<'_>) -> Option<Ratio> {
        let base = group.base()?;
        let (own, of_base) = (self.sample(target, base), self.sample(base, target));
        group.compare(target, &own, &of_base, self.metric)
    }

    /// What the headline measures, in a phrase.
    pub fn what(&self) -> String {
        let name = name_of(self.metric);
        let test =
            self.steps.first().and_then(|step| threads(step)).map_or("", |threads| threads.test);
        match (self.combine, self.steps.as_slice()) {
            (Combine::Peak, _) if test.is_empty() => format!("peak {name} over threads"),
            (Combine::Peak, _) => format!("peak {name} over threads, {test}"),
            (Combine::Mean, [step]) if step.is_empty() => name.to_owned(),
            (Combine::Mean, [step]) => format!("{name}, {step}"),
            (Combine::Mean, steps) => format!("{name}, geometric mean of {} steps", steps.len()),
        }
    }
}

/// Minimum number of client counts that make a sweep.
pub const SWEEP_MIN: usize = 4;

/// The steps of a test that differ in the number of clients, in the given order.
pub fn sweep(steps: &[String], test: &str) -> Vec<String> {
    let of_test = |step: &&String| threads(step).is_some_and(|threads| threads.test == test);
    steps.iter().filter(of_test).cloned().collect()
}

/// Steps that get figures and rows of their own. Of a sweep only the first and the last do, and
/// steps that are run again do not.
pub fn detailed(steps: &[String]) -> Vec<String> {
    let is_detailed = |step: &&String| {
        let Some(threads) = threads(step) else { return !step.ends_with(" again") };
        let sweep = sweep(steps, threads.test);
        sweep.len() < SWEEP_MIN || sweep.first() == Some(*step) || sweep.last() == Some(*step)
    };
    steps.iter().filter(is_detailed).cloned().collect()
}

/// A step of a sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threads<'a> {
    /// Name of the test; may be empty.
    pub test: &'a str,
    pub clients: u32,
}

/// Parses the name of a step `TEST threads=N` or `threads=N`. A step that is run again at the end
/// (`TEST threads=N again`) is not part of the sweep.
pub fn threads(step: &str) -> Option<Threads<'_>> {
    let (test, clients) = step.split_once("threads=")?;
    let clients = clients.parse().ok().filter(|clients| *clients > 0)?;
    Some(Threads { test: test.trim_end(), clients })
}

/// A metric's name for headings.
pub fn name_of(metric: &Metric) -> &'static str {
    match metric.name {
        "ops_s" => "operations/s",
        "exit_velocity" => "exit velocity",
        "exit_velocity_4pct" => "exit velocity of the last 4 %",
        "seconds" => "duration",
        "disk_b" => "size on disk",
        "cpu_us_op" => "CPU per operation",
        "cpu_us_op_rested" => "CPU per operation, background work included",
        "wr_b_op" => "bytes written per operation",
        "wr_b_op_rested" => "bytes written per operation, background work included",
        "rd_b_op" => "bytes read per operation",
        "p99_us" => "99th percentile of the latency",
        "p999_us" => "99.9th percentile of the latency",
        "disk_b_row" => "size on disk per row",
        "add_link_10s" => "ADD_LINK per 10 s",
        "mem_peak_b" => "peak memory with page cache",
        "rss_peak_b" => "peak memory",
        _ => metric.what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_steps_are_recognized_by_name() {
        let known = |step| threads(step).map(|threads| (threads.test, threads.clients));
        assert_eq!(known("threads=16"), Some(("", 16)));
        assert_eq!(known("read_write threads=512"), Some(("read_write", 512)));
        assert_eq!(known("read_write threads=1 again"), None);
        let steps: Vec<String> = [
            "load",
            "r threads=1",
            "r threads=2",
            "r threads=4",
            "r threads=8",
            "r threads=1 again",
            "u threads=1",
        ]
        .map(str::to_owned)
        .to_vec();
        assert_eq!(detailed(&steps), ["load", "r threads=1", "r threads=8", "u threads=1"]);
        assert_eq!([known("threads=0"), known("threads=99999999999"), known("load")], [None; 3]);
    }
}
