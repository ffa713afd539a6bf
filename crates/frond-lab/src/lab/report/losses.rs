//! Losses: where Frond does worse than the base, over all steps, all kinds of requests and all
//! metrics that matter.
//!
//! Invariants
//! 1. Failures come before any ratio.
//! 2. If one side is zero, there is no ratio: such losses are a list of their own, in words.
//! 3. Per workload, target and family of metrics only the worst loss is listed, because one cause
//!    shows in many values.

use serde::Serialize;

use super::group::{Group, Target};
use super::headline::name_of;
use super::number::{human, ratio};
use super::palette;
use super::size;
use crate::lab::metric::{self, Better};
use crate::lab::statistics::Verdict;

/// Number of losses that are listed of each kind.
const LISTED: usize = 3;

/// The failures and losses of a report.
#[derive(Serialize, Debug, Default)]
pub struct Losses {
    /// Targets that failed, those of Frond first.
    pub failed: Vec<Failed>,
    /// Losses without a ratio: the value of the base or of Frond is 0.
    pub zeros: Vec<Loss>,
    /// Losses with the worst ratios.
    pub ratios: Vec<Loss>,
    /// Whether any group has values of both Frond and its base.
    pub is_compared: bool,
}

/// A target with repeats that failed.
#[derive(Serialize, Debug)]
pub struct Failed {
    pub title: String,
    pub conditions: String,
    pub target: String,
    pub repeats: String,
    pub why: String,
}

/// A metric in which Frond does worse than the base.
#[derive(Serialize, Debug)]
pub struct Loss {
    pub title: String,
    pub link: String,
    pub conditions: String,
    pub what: String,
    pub target: String,
    pub base: &'static str,
    /// Empty if one side is zero.
    pub ratio: String,
    pub is_significant: bool,
    pub is_noisy: bool,
    pub values: String,
    /// Why it is not significant.
    pub why: &'static str,
    family: &'static str,
    workload: (String, String),
    gain: f64,
}

/// Family of a metric: one cause shows in all metrics of a family. `None` if losses in this metric
/// are not reported.
fn family(name: &str) -> Option<&'static str> {
    Some(match name.split('.').next()? {
        "exit_velocity" | "exit_velocity_4pct" | "add_link_10s" | "nopm" | "ops_s" | "seconds"
        | "background_s" | "gone_s" => "rate",
        // Requests that were due and not served are in no percentile.
        "p99_us" | "p999_us" | "writer_p999_us" | "unserved" => "latency",
        "cpu_us_op" | "cpu_us_op_rested" => "CPU",
        "wr_b_op" | "wr_b_op_rested" | "rd_b_op" => "device bytes",
        "disk_b" | "disk_b_row" => "size",
        "rss_peak_b" | "mem_peak_b" => "memory",
        _ => return None,
    })
}

/// Collects the losses in these groups.
pub fn all(groups: &[(Group<'_>, String)]) -> Losses {
    let mut found = Losses { failed: failed(groups), ..Losses::default() };
    let mut losses: Vec<Loss> = Vec::new();
    for (group, link) in groups.iter().filter(|(group, _)| group.is_charted()) {
        let is_default = |target: &Target<'_>| target.name == "frond";
        let has_default = group.targets.iter().any(is_default);
        let fronds = group.targets.iter().filter(|t| palette::is_frond(t.name));
        let is_measured = |target: &Target<'_>| !target.cells.is_empty();
        for target in fronds.filter(|target| !has_default || is_default(target)) {
            found.is_compared |= is_measured(target) && group.base().is_some_and(is_measured);
            losses.extend(of_target(group, link, target));
        }
    }
    losses.sort_by(|a, b| b.is_significant.cmp(&a.is_significant).then(a.gain.total_cmp(&b.gain)));
    for loss in losses {
        let is_zero = loss.ratio.is_empty();
        let list = if is_zero { &mut found.zeros } else { &mut found.ratios };
        let is_like = |other: &Loss| {
            (&other.workload, &other.target, other.family)
                == (&loss.workload, &loss.target, loss.family)
        };
        if list.len() < LISTED && !list.iter().any(is_like) {
            list.push(loss);
        }
    }
    found
}

/// Targets with failed cells, of any size, those of Frond first.
fn failed(groups: &[(Group<'_>, String)]) -> Vec<Failed> {
    let targets =
        groups.iter().flat_map(|(group, _)| group.targets.iter().map(move |t| (group, t)));
    let mut failed: Vec<Failed> = targets
        .filter_map(|(group, target)| {
            let first = target.failed.first()?;
            let all = target.failed.len() + target.cells.len() + target.partial.len();
            let why = first.failure.clone();
            Some(Failed {
                title: group.title(),
                conditions: group.conditions(),
                target: target.name.to_owned(),
                repeats: format!("{} of {all}", target.failed.len()),
                why: why.unwrap_or_else(|| "no reason was recorded".to_owned()),
            })
        })
        .collect();
    failed.sort_by_key(|failed| !palette::is_frond(&failed.target));
    failed
}

/// All losses of a target, in all steps.
fn of_target(group: &Group<'_>, link: &str, target: &Target<'_>) -> Vec<Loss> {
    let mut losses = Vec::new();
    let size = size::place(group);
    for step in group.steps().into_iter().filter(|step| !step.ends_with(" again")) {
        let mut names: Vec<&String> = target
            .cells
            .iter()
            .filter_map(|cell| cell.metrics.get(&super::natural::Natural::new(&step)))
            .flat_map(|metrics| metrics.keys())
            .collect();
        names.sort_unstable();
        names.dedup();
        let is_there = |name: &str| names.iter().any(|own| *own == name);
        for name in names.iter().map(|name| name.as_str()) {
            let is_size_elsewhere = size::METRICS.contains(&name)
                && size.as_ref().is_none_or(|place| place.step != step || place.metric != name);
            // The rate and the duration say the same. A value that includes the background work
            // after the step includes the value without it.
            let is_said = (name == "seconds" && is_there("ops_s"))
                || (["cpu_us_op", "wr_b_op"].contains(&name)
                    && is_there(&format!("{name}_rested")));
            if !is_size_elsewhere && !is_said {
                losses.extend(loss(group, link, target, &step, name));
            }
        }
    }
    losses
}

fn loss(
    group: &Group<'_>,
    link: &str,
    target: &Target<'_>,
    step: &str,
    name: &str,
) -> Option<Loss> {
    let (family, metric) = (family(name)?, metric::find(name)?);
    let against = group.ratio(target, step, name)?;
    let gain = against.gain(metric.better);
    if metric.better == Better::Neither || gain >= 1.0 {
        return None;
    }
    let show = |target: &Target<'_>| target.median(step, name).map(|v| human(v, metric.unit));
    let (own, base) = (show(target)?, show(group.base()?)?);
    let kind = name.split_once('.').map_or(String::new(), |(_, kind)| format!(" of {kind}"));
    let what = format!("{}{kind}", name_of(metric));
    let (ratio, values) = match against.has_zero() {
        true if against.of_medians > 0.0 => {
            (String::new(), format!("{own}; {} none", group.base_name()))
        }
        true => (String::new(), format!("none; {} {base}", group.base_name())),
        false => (ratio(against.of_medians), format!("{own} against {base}")),
    };
    Some(Loss {
        title: group.title(),
        link: link.to_owned(),
        conditions: group.conditions(),
        what: if step.is_empty() { what } else { format!("{what}, {step}") },
        target: target.name.to_owned(),
        base: group.base_name(),
        ratio,
        is_significant: against.verdict == Verdict::Worse,
        is_noisy: against.is_noisy,
        values,
        why: match against.verdict {
            Verdict::Insignificant(why) => why,
            _ => "",
        },
        family,
        workload: (group.key.face.clone(), group.key.workload.clone()),
        gain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::named;
    use crate::lab::report::query::Results;
    use crate::lab::report::testing::Lab;
    use crate::targets::Result;

    /// The losses of three repeats of Frond and InnoDB with these values: step, metric, value of
    /// Frond, value of InnoDB.
    fn losses(workload: &str, size: &str, values: &[(&str, &str, f64, f64)]) -> Result<Losses> {
        let mut lab = Lab::new();
        lab.run("r", workload, size, "safe");
        for repeat in 1..=3 {
            let noise = 1.0 + repeat as f64 / 1000.0;
            for is_frond in [true, false] {
                let target = if is_frond { "frond" } else { "innodb" };
                let cell = lab.cell("sql", workload, "", target, repeat);
                for (step, name, frond, innodb) in values {
                    let value = if is_frond { *frond } else { *innodb };
                    cell.metric(step, name, value * noise);
                }
            }
        }
        let results = Results::read(&lab.database, &[])?;
        Ok(all(&named(Group::all(&results))))
    }

    fn said(losses: &[Loss]) -> Vec<String> {
        losses.iter().map(|loss| format!("{} {}", loss.ratio, loss.what)).collect()
    }

    #[test]
    fn one_line_of_each_family_over_all_kinds_of_requests() -> Result<()> {
        let found = losses(
            "linkbench",
            "standard",
            &[
                ("requests", "ops_s", 50.0, 100.0),
                ("load", "ops_s", 90.0, 100.0),
                ("requests", "p99_us", 100.0, 100.0),
                // A rare kind of request.
                ("requests", "p99_us.MULTIGET_LINK", 700.0, 100.0),
                ("requests", "p999_us.MULTIGET_LINK", 600.0, 100.0),
                ("requests", "rss_peak_b", 300.0, 100.0),
                ("requests", "cpu_us_op", 110.0, 100.0),
                ("requests", "p50_us", 9000.0, 1.0),
            ],
        )?;
        assert_eq!(
            said(&found.ratios),
            [
                "7.00× 99th percentile of the latency of MULTIGET_LINK, requests",
                "3.00× peak memory, requests",
                "0.50× operations/s, requests"
            ]
        );
        assert!(found.ratios.iter().all(|loss| loss.is_significant));
        assert!(found.zeros.is_empty() && found.failed.is_empty());
        Ok(())
    }

    #[test]
    fn comparisons_with_zero_are_listed_separately() -> Result<()> {
        let found = losses(
            "ycsb",
            "standard",
            &[
                ("A", "rd_b_op", 4096.0, 0.0),
                ("B", "rd_b_op", 0.0, 4096.0),
                ("C", "ops_s", 0.0, 100.0),
                ("A", "ops_s", 90.0, 100.0),
            ],
        )?;
        let zeros: Vec<(&str, &str)> =
            found.zeros.iter().map(|loss| (loss.what.as_str(), loss.values.as_str())).collect();
        assert_eq!(
            zeros,
            [
                ("bytes read per operation, A", "4.01 KiB; innodb none"),
                ("operations/s, C", "none; innodb 100/s"),
            ]
        );
        assert_eq!(said(&found.ratios), ["0.90× operations/s, A"]);
        Ok(())
    }

    #[test]
    fn sizes_of_different_rows_and_tiny_runs_are_no_losses() -> Result<()> {
        // Three times the rows, with 0.4 times the bytes per row.
        let values = [
            ("", "disk_b", 120.0, 100.0),
            ("", "disk_b_row", 4.0, 10.0),
            ("load", "cpu_us_op", 9.0, 1.0),
            ("load", "cpu_us_op_rested", 8.0, 1.0),
        ];
        let found = losses("iibench", "standard", &values)?;
        assert_eq!(
            said(&found.ratios),
            ["8.00× CPU per operation, background work included, load"]
        );
        assert!(losses("iibench", "tiny", &values)?.ratios.is_empty());
        Ok(())
    }

    #[test]
    fn failures_are_listed_with_frond_first() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "sysbench", "tiny", "safe");
        lab.cell("sql", "sysbench", "", "innodb", 1).state("failed", Some("disk full"), None);
        lab.cell("sql", "sysbench", "", "frond", 1).metric("load", "ops_s", 1.0);
        lab.cell("sql", "sysbench", "", "frond", 2).state("failed", Some("a wrong row"), None);
        let results = Results::read(&lab.database, &[])?;
        let found = all(&named(Group::all(&results)));
        let failed: Vec<_> = found
            .failed
            .iter()
            .map(|f| (f.target.as_str(), f.repeats.as_str(), f.why.as_str()))
            .collect();
        assert_eq!(failed, [("frond", "1 of 2", "a wrong row"), ("innodb", "1 of 1", "disk full")]);
        Ok(())
    }
}
