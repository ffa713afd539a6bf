//! Cells that may be compared: one workload with one variant, size, storage class, durability, memory, seed and machine,
//! on one face.
//!
//! Invariants
//! 1. SQL and embedded targets are never in one group.
//! 2. Of each target only the cells of its newest run count: an older build's do not.
//! 3. Cells of a storage class that limits only a part of their I/O are kept apart: no value of theirs is charted or
//!    compared.
//! 4. Size `tiny` tests the lab itself: nothing of it is charted or compared.

use std::collections::{BTreeMap, BTreeSet};

use super::natural::Natural;
use super::number::human;
use super::palette;
use super::query::{Cell, Results, Run};
use crate::lab::metric::{self, Metric};
use crate::lab::statistics::{Ratio, Sample, Verdict, compare};

/// What the cells of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `sql` sorts after `embedded`; pages list it first.
    pub face: String,
    pub workload: String,
    pub variant: String,
    pub size: String,
    pub class: String,
    pub durability: String,
    pub machine: String,
    /// What each target was given, bytes.
    pub memory_b: u64,
    pub seed: i64,
}

/// The cells of a target in a group.
pub struct Target<'a> {
    pub name: &'a str,
    pub run: &'a Run,
    /// Done or stopped.
    pub cells: Vec<&'a Cell>,
    pub failed: Vec<&'a Cell>,
    /// Throttled only in part (Invariant 3).
    pub partial: Vec<&'a Cell>,
}

impl Target<'_> {
    /// A metric of a step over the repeats.
    pub fn sample(&self, step: &str, name: &str) -> Sample {
        Sample::new(
            self.cells.iter().filter_map(|cell| Some((cell.repeat, cell.metric(step, name)?))),
        )
    }

    /// Its median.
    pub fn median(&self, step: &str, name: &str) -> Option<f64> {
        self.sample(step, name).median()
    }

    /// Cells that were stopped at their time limit.
    pub fn stopped(&self) -> usize {
        self.cells.iter().filter(|cell| cell.state == "stopped").count()
    }
}

/// Cells that may be compared.
pub struct Group<'a> {
    pub key: Key,
    pub targets: Vec<Target<'a>>,
}

impl<'a> Group<'a> {
    /// All groups: those of SQL first.
    pub fn all(results: &'a Results<'_>) -> Vec<Self> {
        let mut by_key: BTreeMap<Key, Vec<(&'a Run, &'a Cell)>> = BTreeMap::new();
        for cell in &results.cells {
            let Some(run) = results.run(cell) else { continue };
            let memory_b = memory_of(results, cell) as u64;
            let key = Key {
                memory_b,
                seed: run.seed,
                face: cell.face.clone(),
                workload: cell.workload.clone(),
                variant: cell.variant.clone(),
                size: run.size.clone(),
                class: run.class.clone(),
                durability: run.durability.clone(),
                machine: run.machine.clone(),
            };
            by_key.entry(key).or_default().push((run, cell));
        }
        let mut groups: Vec<Self> =
            by_key.into_iter().map(|(key, cells)| Self::new(key, &cells)).collect();
        groups.sort_by(|a, b| {
            let place = |group: &Self| (group.key.face != "sql", place(&group.key.workload));
            place(a).cmp(&place(b)).then_with(|| a.key.cmp(&b.key))
        });
        groups
    }

    /// Cells come newest run first (query.rs).
    fn new(key: Key, cells: &[(&'a Run, &'a Cell)]) -> Self {
        let mut targets: Vec<Target<'a>> = Vec::new();
        for (run, cell) in cells {
            let at = targets.iter().position(|target| target.name == cell.target);
            let at = at.unwrap_or_else(|| {
                let (cells, failed, partial) = (Vec::new(), Vec::new(), Vec::new());
                targets.push(Target { name: &cell.target, run, cells, failed, partial });
                targets.len() - 1
            });
            let target = &mut targets[at];
            if target.run.id == run.id {
                let kind = match cell.is_usable() {
                    true if cell.is_throttled_in_part() => &mut target.partial,
                    true => &mut target.cells,
                    false => &mut target.failed,
                };
                kind.push(cell);
            }
        }
        targets.sort_by(|a, b| palette::order(a.name).cmp(&palette::order(b.name)));
        Self { key, targets }
    }

    /// What ratios are of: InnoDB, or RocksDB.
    pub fn base_name(&self) -> &'static str {
        if self.key.face == "sql" { "innodb" } else { "rocksdb" }
    }

    /// The base, if it is there.
    pub fn base(&self) -> Option<&Target<'a>> {
        self.target(self.base_name())
    }

    /// A target by its name.
    pub fn target(&self, name: &str) -> Option<&Target<'a>> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// Steps with a metric, of any target.
    pub fn steps(&self) -> Vec<String> {
        let cells = self.targets.iter().flat_map(|target| &target.cells);
        let steps: BTreeSet<&Natural> = cells.flat_map(|cell| cell.metrics.keys()).collect();
        steps.into_iter().map(|step| step.0.clone()).collect()
    }

    /// Whether any target has the metric.
    pub fn has(&self, step: &str, name: &str) -> bool {
        self.targets.iter().any(|target| !target.sample(step, name).is_empty())
    }

    /// The first step for which any target has the metric; that of the whole cell first.
    pub fn step_of(&self, name: &str) -> Option<String> {
        self.steps().into_iter().find(|step| self.has(step, name))
    }

    /// A target against the base in one metric of one step.
    pub fn ratio(&self, target: &Target<'_>, step: &str, name: &str) -> Option<Ratio> {
        let base = self.base()?;
        let metric: &Metric = metric::find(name)?;
        let (own, of_base) = (target.sample(step, name), base.sample(step, name));
        let mut ratio = self.compare(target, &own, &of_base, metric)?;
        let is_unserved = |target: &Target<'_>| {
            target.median(step, "sla_failed").is_some_and(|failed| failed > 0.0)
        };
        if name == "ops_s" && (is_unserved(target) || is_unserved(base)) {
            ratio.verdict = Verdict::Insignificant("the background rate was missed");
        }
        Some(ratio)
    }

    /// Values of a target against those of the base, which ran next to them only in the same run.
    pub fn compare(
        &self,
        target: &Target<'_>,
        own: &Sample,
        of_base: &Sample,
        metric: &Metric,
    ) -> Option<Ratio> {
        let is_same_run = self.base()?.run.id == target.run.id;
        let mut ratio = compare(own, of_base, metric, is_same_run)?;
        if !is_same_run {
            ratio.verdict = Verdict::Insignificant("not of the same run as the base");
        }
        Some(ratio)
    }

    /// Whether its values may be charted and compared (Invariant 4).
    pub fn is_charted(&self) -> bool {
        self.key.size != "tiny"
    }

    /// Targets whose storage class limited only a part of their I/O (Invariant 3).
    pub fn partial(&self) -> impl Iterator<Item = &Target<'a>> {
        self.targets.iter().filter(|target| !target.partial.is_empty())
    }

    /// Name and what it was run with, as a heading.
    pub fn title(&self) -> String {
        let key = &self.key;
        let variant =
            if key.variant.is_empty() { String::new() } else { format!(" ({})", key.variant) };
        format!("{}{variant}", key.workload)
    }

    /// Size, storage, durability, memory and seed, in a phrase.
    pub fn conditions(&self) -> String {
        let key = &self.key;
        let memory = match key.memory_b {
            0 => String::new(),
            bytes => format!(", {}", human(bytes as f64, "B")),
        };
        format!("{}, {}, {}{memory}, seed {}", key.size, key.class, key.durability, key.seed)
    }

    /// What distinguishes it from other groups of its machine, fit for a name of a file.
    pub fn slug(&self) -> String {
        let key = &self.key;
        let parts =
            [&key.face, &key.workload, &key.variant, &key.size, &key.class, &key.durability];
        let joined = parts.map(|part| part.as_str()).join("-").to_lowercase();
        let mut slug = String::new();
        for c in joined.chars() {
            let kept = if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
            if !(kept == '-' && slug.ends_with('-')) {
                slug.push(kept);
            }
        }
        slug.chars().take(100).collect::<String>().trim_matches(['-', '.']).to_owned()
    }
}

/// What the cell's target was given. A cell that failed before its server started does not know, but the others of its
/// run do.
fn memory_of(results: &Results<'_>, cell: &Cell) -> f64 {
    if cell.memory_b > 0.0 {
        return cell.memory_b;
    }
    let is_like = |other: &&Cell| {
        (other.run, &other.face, &other.workload, &other.variant)
            == (cell.run, &cell.face, &cell.workload, &cell.variant)
    };
    results.cells.iter().filter(is_like).map(|other| other.memory_b).fold(0.0, f64::max)
}

/// The order of workloads on pages: that of the studies, then of transactions, then of parts.
fn place(workload: &str) -> usize {
    const ORDER: &[&str] = &[
        "iibench",
        "insertbench",
        "weblog",
        "linkbench",
        "sysbench",
        "sweep",
        "tpcc",
        "ycsb",
        "dbbench",
        "rowformats",
        "bulk",
        "index",
        "zip",
    ];
    ORDER.iter().position(|name| *name == workload).unwrap_or(ORDER.len())
}
