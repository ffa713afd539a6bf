//! Decides whether a value measured here may be compared with a published one, from the conditions
//! of the study and of the run.
//!
//! Which conditions count depends on the metric: a size depends only on the data; a rate also
//! depends on cache, durability and machine. A ratio to another target of the same run remains
//! comparable under conditions that rule out comparing a plain value.

use super::group::{Group, Target};
use super::number::human;
use super::query::Cell;
use super::size;

/// The conditions under which a study was run.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'s> {
    /// Size of the data divided by size of the cache.
    pub ratio: Option<f64>,
    /// Size of the cache in bytes.
    pub memory_b: Option<f64>,
    /// Durability of its commits.
    pub durability: Option<&'s str>,
    /// The machine, in a phrase.
    pub machine: &'s str,
}

/// The properties of a published figure on which its comparability depends.
#[derive(Clone, Copy, Debug)]
pub struct Figure<'f> {
    /// The metric that it is computed from here.
    pub metric: &'f str,
    /// Whether it relates two values of the same run.
    pub is_relative: bool,
    /// Why it is not comparable, or only as a ratio, at any size: because of the source, or of what
    /// stock servers can do.
    pub fixed: Option<&'f str>,
}

/// To what degree two values are comparable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Degree {
    Yes,
    RatioOnly,
    No,
}

/// To what degree a value is comparable, and the reasons that limit it.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparable {
    pub degree: Degree,
    pub reasons: Vec<String>,
}

/// Metrics that depend only on the data and the engine's formats.
const OF_DATA: &[&str] = &[
    "space_amp",
    "data_length_b",
    "index_length_b",
    "saving_pct",
    "compress_ops",
    "compress_ops_ok",
    "compress_failed_pct",
];
/// Relative difference up to which a data-to-cache ratio, or a memory size, counts as the published
/// one.
const RATIO_TOLERANCE: f64 = 0.1;

impl Comparable {
    /// Starts with full comparability, limited only by a fixed reason: `no: …` or `ratio only: …`.
    pub fn fixed(said: Option<&str>) -> Self {
        let mut made = Self { degree: Degree::Yes, reasons: Vec::new() };
        match said.and_then(|said| said.split_once(": ")) {
            Some(("no", why)) => made.note(Degree::No, why.to_owned()),
            Some((_, why)) => made.note(Degree::RatioOnly, why.to_owned()),
            None => {}
        }
        made
    }

    fn note(&mut self, degree: Degree, why: String) {
        self.degree = self.degree.max(degree);
        if !self.reasons.contains(&why) {
            self.reasons.push(why);
        }
    }

    /// `yes`, or the degree and the reasons.
    pub fn text(&self) -> String {
        let degree = match self.degree {
            Degree::Yes => return "yes".to_owned(),
            Degree::RatioOnly => "ratio only",
            Degree::No => "no",
        };
        format!("{degree}: {}", self.reasons.join("; "))
    }
}

/// Judges how comparable a figure is that was measured in this group on these targets.
pub fn judge(
    study: &Conditions<'_>,
    figure: &Figure<'_>,
    group: &Group<'_>,
    targets: &[&Target<'_>],
) -> Comparable {
    let mut found = Comparable::fixed(figure.fixed);
    let key = &group.key;
    let is_size = size::METRICS.contains(&figure.metric);
    let is_of_data = is_size || OF_DATA.contains(&figure.metric);
    let usual = if figure.is_relative { Degree::RatioOnly } else { Degree::No };
    match key.size.as_str() {
        "published" => {}
        // In small stores fixed costs matter.
        size => {
            let degree = if size == "standard" { usual } else { Degree::No };
            found.note(degree, format!("size {size} instead of published"));
        }
    }
    let cells: Vec<&Cell> = targets
        .iter()
        .flat_map(|target| target.cells.iter().chain(&target.partial))
        .copied()
        .collect();
    if let Some(part) = cells.iter().copied().filter_map(done).reduce(f64::min) {
        let degree = if is_of_data { usual } else { Degree::No };
        let part = human(100.0 * part, "%");
        found.note(degree, format!("stopped at the time limit with {part} of the rows"));
    }
    if is_of_data {
        return found;
    }
    let in_force = cells.iter().find_map(|cell| parameter(cell, "(ratio in force)"));
    if let Some((here, there)) = in_force.zip(study.ratio)
        && (here / there - 1.0).abs() > RATIO_TOLERANCE
    {
        found.note(
            Degree::No,
            format!(
                "data:cache ratio in force {} instead of {}",
                human(here, ""),
                human(there, "")
            ),
        );
    }
    if let Some(there) = study.memory_b.filter(|_| !figure.is_relative) {
        let here = key.memory_b as f64;
        if here > 0.0 && (here / there - 1.0).abs() > RATIO_TOLERANCE {
            found.note(
                usual,
                format!("memory {} instead of {}", human(here, "B"), human(there, "B")),
            );
        }
    }
    if let Some(there) = study.durability.filter(|there| *there != key.durability) {
        found.note(usual, format!("durability {} instead of {there}", key.durability));
    }
    if cells.iter().any(|cell| cell.is_throttled_in_part()) {
        found.note(Degree::No, "direct I/O only throttled".to_owned());
    }
    if !study.machine.is_empty() {
        found.note(usual, format!("another machine ({})", study.machine));
    }
    found
}

/// The share of its rows that a stopped cell has loaded.
fn done(cell: &Cell) -> Option<f64> {
    if cell.state != "stopped" {
        return None;
    }
    let parts = cell.metrics.values().filter_map(|metrics| {
        Some(metrics.get("ops")? / metrics.get("planned").filter(|planned| **planned > 0.0)?)
    });
    parts.reduce(f64::min).filter(|part| *part < 1.0)
}

fn parameter(cell: &Cell, name: &str) -> Option<f64> {
    let value = cell.parameters.iter().find(|(own, _)| own == name)?.1.parse().ok();
    value.filter(|value: &f64| *value > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::query::Results;
    use crate::lab::report::testing::{Filling, Lab};
    use crate::targets::Result;

    const STUDY: Conditions<'_> = Conditions {
        ratio: Some(9.6),
        memory_b: Some(2147483648.0),
        durability: Some("safe"),
        machine: "two disks",
    };

    /// The verdict on a figure that was measured under these conditions.
    fn said(
        (size, durability): (&str, &str),
        fill: impl Fn(&Filling<'_>),
        (metric, is_relative, fixed): (&str, bool, Option<&str>),
    ) -> Result<String> {
        let mut lab = Lab::new();
        lab.run("r", "linkbench-2015", size, durability);
        fill(&lab.cell("sql", "linkbench", "", "frond", 1));
        let results = Results::read(&lab.database, &[])?;
        let groups = Group::all(&results);
        let targets: Vec<&Target<'_>> = groups[0].targets.iter().collect();
        Ok(judge(&STUDY, &Figure { metric, is_relative, fixed }, &groups[0], &targets).text())
    }

    #[test]
    fn sizes_depend_on_the_data_alone() -> Result<()> {
        let fine = |_: &Filling<'_>| {};
        assert_eq!(said(("published", "relaxed"), fine, ("disk_b", true, None))?, "yes");
        assert_eq!(
            said(("standard", "safe"), fine, ("disk_b", true, None))?,
            "ratio only: size standard instead of published"
        );
        assert_eq!(
            said(("quick", "safe"), fine, ("disk_b", true, Some("ratio only: private data")))?,
            "no: private data; size quick instead of published"
        );
        assert_eq!(
            said(
                ("published", "safe"),
                fine,
                ("data_length_b", false, Some("no: strings unknown"))
            )?,
            "no: strings unknown"
        );
        Ok(())
    }

    #[test]
    fn rates_depend_on_cache_durability_and_machine() -> Result<()> {
        let ratio = |value: &'static str| {
            move |cell: &Filling<'_>| {
                cell.parameter("(ratio in force)", value);
            }
        };
        let rate = ("ops_s", true, None);
        assert_eq!(
            said(("published", "safe"), ratio("9.5"), rate)?,
            "ratio only: another machine (two disks)"
        );
        assert_eq!(
            said(("published", "relaxed"), ratio("4.1"), rate)?,
            "no: data:cache ratio in force 4.1 instead of 9.6; durability relaxed instead of safe; another machine (two disks)"
        );
        // The cell of the test has 205 MiB of memory.
        let plain = said(("published", "safe"), ratio("9.5"), ("ops_s", false, None))?;
        assert_eq!(plain, "no: memory 205 MiB instead of 2 GiB; another machine (two disks)");
        let partial = |cell: &Filling<'_>| {
            cell.setting("throttle", "partial  (control groups of version 1)");
        };
        let partial = said(("published", "safe"), partial, rate)?;
        assert_eq!(partial, "no: direct I/O only throttled; another machine (two disks)");
        Ok(())
    }

    #[test]
    fn a_stopped_load_reports_its_progress() -> Result<()> {
        let cut = |cell: &Filling<'_>| {
            cell.metrics("load", &[("ops", 370.0), ("planned", 1000.0)]);
            cell.state("stopped", None, None);
        };
        let text = said(("published", "safe"), cut, ("disk_b", true, None))?;
        assert_eq!(text, "ratio only: stopped at the time limit with 37 % of the rows");
        Ok(())
    }
}
