//! Where sizes are compared: after a load, when all targets have the same rows; where they never have, per row.
//!
//! A step that writes for a time leaves more rows on a faster target, and a load that was cut at the time limit leaves
//! fewer on a slower one. The number of rows is known: it is `disk_b` ÷ `disk_b_row`.

use super::group::{Group, Target};
use super::headline::threads;

/// Metrics of sizes, whose values are only compared at the place that this module names.
pub const METRICS: &[&str] = &["disk_b", "disk_b_row"];
/// Rows may differ by this part: InnoDB's purge and a last batch are not the engine's density.
const SAME: f64 = 1e-3;

/// A step and the metric of it that says how large the targets are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub step: String,
    pub metric: &'static str,
}

impl Place {
    /// Whether targets had the same rows there.
    pub fn has_same_rows(&self) -> bool {
        self.metric == "disk_b"
    }

    /// The size of a target.
    pub fn of(&self, target: &Target<'_>) -> Option<f64> {
        target.median(&self.step, self.metric)
    }

    /// Bytes per row, wherever they are compared.
    pub fn per_row(&self, target: &Target<'_>) -> Option<f64> {
        target.median(&self.step, "disk_b_row")
    }

    /// What it is of, in a phrase.
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

/// Where the sizes of a group are compared. None if no size was measured.
pub fn place(group: &Group<'_>) -> Option<Place> {
    let place = |step: String, metric| Place { step, metric };
    let steps = group.steps();
    let measured = |step: &&String| METRICS.iter().any(|name| group.has(step, name));
    // The last load first; then what is left in the end.
    let is_load = |step: &&String| !step.is_empty() && threads(step).is_none();
    let loads = steps.iter().rev().filter(is_load);
    let all = || loads.clone().chain(steps.iter().filter(|step| step.is_empty())).filter(measured);
    if let Some(step) = all().find(|step| has_same_rows(group, step)) {
        return Some(place(step.clone(), "disk_b"));
    }
    let per_row = all().find(|step| group.has(step, "disk_b_row"));
    per_row.map(|step| place(step.clone(), "disk_b_row"))
}

/// Whether all targets with a size had the same rows at this step.
fn has_same_rows(group: &Group<'_>, step: &str) -> bool {
    let (mut rows, mut any): (Vec<f64>, bool) = (Vec::new(), false);
    for cell in group.targets.iter().flat_map(|target| &target.cells) {
        match (cell.metric(step, "disk_b"), cell.metric(step, "disk_b_row")) {
            // The step knows that its rows are not those of the others, and said only the size per row.
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
    fn sizes_are_those_of_the_load_if_later_steps_leave_different_rows() -> Result<()> {
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
        // Cut at the time limit: seven rows of ten.
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
    fn what_was_not_measured_has_no_place() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "iibench", "standard", "safe");
        lab.cell("sql", "iibench", "", "innodb", 1).metric("load", "ops_s", 1.0);
        assert_eq!(found(&lab)?, None);
        Ok(())
    }
}
