//! Decides at which step the sizes of targets are compared: after a load, if all targets have the
//! same rows then. If they never have, sizes per row are compared.
//!
//! A step that writes for a fixed time leaves more rows on a faster target, and a load that was
//! stopped at the time limit leaves fewer on a slower one. The number of rows is known: it is
//! `disk_b` ÷ `disk_b_row`.

use super::group::{Group, Target};
use super::headline::threads;

/// Size metrics, whose values are only compared at the place that this module chooses.
pub const METRICS: &[&str] = &["disk_b", "disk_b_row"];
/// Relative difference up to which numbers of rows count as the same: InnoDB's purge and a last
/// batch say nothing about how densely an engine stores rows.
const SAME: f64 = 1e-3;

/// The step and the metric by which the sizes of targets are compared.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub step: String,
    pub metric: &'static str,
}

impl Place {
    /// Whether all targets had the same rows after the step.
    pub fn has_same_rows(&self) -> bool {
        self.metric == "disk_b"
    }

    /// The size of a target in this step and metric.
    pub fn of(&self, target: &Target<'_>) -> Option<f64> {
        target.median(&self.step, self.metric)
    }

    /// The size per row of a target in this step, whatever the metric is.
    pub fn per_row(&self, target: &Target<'_>) -> Option<f64> {
        target.median(&self.step, "disk_b_row")
    }

    /// When the sizes were measured, in a phrase.
    pub fn what(&self) -> String {
        let after = match self.step.as_str() {
            "" => "at the end".to_owned(),
            step => format!("after {step}"),
        };
        match self.has_same_rows() {
            true => format!("{after}, the same rows on all targets"),
            false => format!("{after}, per row: targets have different numbers of rows"),
        }
    }
}

/// The step and metric by which the sizes of a group are compared. `None` if no size was measured.
pub fn place(group: &Group<'_>) -> Option<Place> {
    let place = |step: String, metric| Place { step, metric };
    let steps = group.steps();
    let measured = |step: &&String| METRICS.iter().any(|name| group.has(step, name));
    // The last load first, then the state at the end.
    let is_load = |step: &&String| !step.is_empty() && threads(step).is_none();
    let loads = steps.iter().rev().filter(is_load);
    let all = || loads.clone().chain(steps.iter().filter(|step| step.is_empty())).filter(measured);
    if let Some(step) = all().find(|step| has_same_rows(group, step)) {
        return Some(place(step.clone(), "disk_b"));
    }
    let per_row = all().find(|step| group.has(step, "disk_b_row"));
    per_row.map(|step| place(step.clone(), "disk_b_row"))
}

/// Whether all targets with a size had the same rows after this step.
fn has_same_rows(group: &Group<'_>, step: &str) -> bool {
    let (mut rows, mut any): (Vec<f64>, bool) = (Vec::new(), false);
    for cell in group.targets.iter().flat_map(|target| &target.cells) {
        match (cell.metric(step, "disk_b"), cell.metric(step, "disk_b_row")) {
            // The step knows that its rows differ from those of other targets, and reports only the
            // size per row.
            (None, Some(_)) => return false,
            (Some(size), Some(row)) if row > 0.0 => rows.push(size / row),
            (size, _) => any |= size.is_some(),
        }
    }
    let (least, most) =
        (rows.iter().copied().reduce(f64::min), rows.iter().copied().reduce(f64::max));
    match least.zip(most) {
        Some((least, most)) => most - least <= SAME * most,
        None => any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::query::Results;
    use crate::lab::report::testing::Lab;
    use crate::targets::Result;

    fn found(lab: &Lab) -> Result<Option<Place>> {
        let results = Results::read(&lab.database, &[])?;
        Ok(place(&Group::all(&results)[0]))
    }

    #[test]
    fn sizes_are_taken_after_the_load_if_later_steps_leave_different_rows() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "ycsb", "standard", "safe");
        for (target, load, end, rows) in
            [("innodb", 100.0, 130.0, 13.0), ("frond", 40.0, 90.0, 30.0)]
        {
            lab.cell("sql", "ycsb", "", target, 1)
                .metrics("load", &[("disk_b", load), ("disk_b_row", load / 10.0)])
                .metrics("", &[("disk_b", end), ("disk_b_row", end / rows)]);
        }
        let place = found(&lab)?.expect("a size");
        assert_eq!((place.step.as_str(), place.metric), ("load", "disk_b"));
        assert_eq!(place.what(), "after load, the same rows on all targets");
        Ok(())
    }

    #[test]
    fn different_rows_are_compared_per_row() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "iibench", "standard", "safe");
        // Stopped at the time limit, after seven rows of ten.
        lab.cell("sql", "iibench", "", "innodb", 1)
            .metrics("", &[("disk_b", 70.0), ("disk_b_row", 10.0)]);
        lab.cell("sql", "iibench", "", "frond", 1)
            .metrics("", &[("disk_b", 40.0), ("disk_b_row", 4.0)]);
        assert_eq!(found(&lab)?.map(|place| place.metric), Some("disk_b_row"));
        // A target that has only a size per row.
        let mut lab = Lab::new();
        lab.run("r", "iibench", "standard", "safe");
        lab.cell("sql", "iibench", "", "innodb", 1).metrics("load", &[("disk_b_row", 10.0)]);
        lab.cell("sql", "iibench", "", "frond", 1)
            .metrics("load", &[("disk_b", 40.0), ("disk_b_row", 4.0)]);
        assert_eq!(found(&lab)?.map(|place| place.metric), Some("disk_b_row"));
        Ok(())
    }

    #[test]
    fn unmeasured_sizes_are_omitted() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "iibench", "standard", "safe");
        lab.cell("sql", "iibench", "", "innodb", 1).metric("load", "ops_s", 1.0);
        assert_eq!(found(&lab)?, None);
        Ok(())
    }
}
