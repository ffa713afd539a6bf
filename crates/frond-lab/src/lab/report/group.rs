//! Groups of cells that may be compared: same workload, variant, size, storage class, disk,
//! calibrated limits, durability, memory, seed and machine, the same face (SQL or embedded), and
//! with or without waiting for background work.
//!
//! Invariants
//! 1. SQL and embedded targets are never in one group.
//! 2. Of each target only the cells of its newest run count, so that those of an older build do
//!    not.
//! 3. Cells whose storage class limits only a part of their I/O are kept apart: their values are
//!    neither charted nor compared.
//! 4. Size `tiny` tests the lab itself: its values are neither charted nor compared.

use std::collections::{BTreeMap, BTreeSet};

use super::natural::Natural;
use super::number::human;
use super::palette::{self, Look};
use super::query::{Cell, Results, Run};
use crate::lab::metric::{self, Metric};
use crate::lab::setup::Setup;
use crate::lab::statistics::{Ratio, Sample, Verdict, compare};

/// The properties that all cells of a group share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// `sql` or `embedded`. `sql` sorts last, but pages list it first.
    pub face: String,
    pub workload: String,
    pub variant: String,
    pub size: String,
    pub class: String,
    pub setup: Setup,
    pub durability: String,
    pub machine: String,
    /// Memory that each target was given, in bytes.
    pub memory_b: u64,
    pub seed: i64,
}

/// The cells of a target in a group.
pub struct Target<'a> {
    pub name: &'a str,
    pub look: Look,
    pub run: &'a Run,
    /// Cells that are done or were stopped, and whose values count.
    pub cells: Vec<&'a Cell>,
    pub failed: Vec<&'a Cell>,
    /// Cells that were throttled only in part (Invariant 3).
    pub partial: Vec<&'a Cell>,
}

impl Target<'_> {
    /// The values of a metric of a step over the repeats.
    pub fn sample(&self, step: &str, name: &str) -> Sample {
        Sample::new(
            self.cells.iter().filter_map(|cell| Some((cell.repeat, cell.metric(step, name)?))),
        )
    }

    /// The median of a metric of a step over the repeats.
    pub fn median(&self, step: &str, name: &str) -> Option<f64> {
        self.sample(step, name).median()
    }

    /// Whether all its values of a metric were measured for too short a time to be exact.
    pub fn is_too_short(&self, step: &str, name: &str) -> bool {
        self.sample(step, name).is_empty()
            && self.cells.iter().any(|cell| cell.is_too_short(step, name))
    }

    /// Number of cells that were stopped at their time limit.
    pub fn stopped(&self) -> usize {
        self.cells.iter().filter(|cell| cell.state == "stopped").count()
    }
}

/// A group of cells that may be compared.
pub struct Group<'a> {
    pub key: Key,
    pub targets: Vec<Target<'a>>,
    /// Whether the results are of several machines, so that conditions must name this one.
    pub is_one_of_several_machines: bool,
}

impl<'a> Group<'a> {
    /// All groups of these results, those of SQL first.
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
                setup: run.setup.clone(),
                durability: run.durability.clone(),
                machine: run.machine.clone(),
            };
            by_key.entry(key).or_default().push((run, cell));
        }
        let names: BTreeSet<&str> = results.cells.iter().map(|cell| cell.target.as_str()).collect();
        let looks = palette::looks(names);
        let mut groups: Vec<Self> =
            by_key.into_iter().map(|(key, cells)| Self::new(key, &cells, &looks)).collect();
        let machines: BTreeSet<String> =
            groups.iter().map(|group| group.key.machine.clone()).collect();
        for group in &mut groups {
            group.is_one_of_several_machines = machines.len() > 1;
        }
        groups.sort_by(|a, b| {
            let place = |group: &Self| (group.key.face != "sql", place(&group.key.workload));
            place(a).cmp(&place(b)).then_with(|| a.key.cmp(&b.key))
        });
        groups
    }

    /// Makes a group of cells that are sorted newest run first (query.rs).
    fn new(key: Key, cells: &[(&'a Run, &'a Cell)], looks: &BTreeMap<&str, Look>) -> Self {
        let mut targets: Vec<Target<'a>> = Vec::new();
        for (run, cell) in cells {
            let at = targets.iter().position(|target| target.name == cell.target);
            let at = at.unwrap_or_else(|| {
                let (cells, failed, partial) = (Vec::new(), Vec::new(), Vec::new());
                let name = cell.target.as_str();
                let look = looks.get(name).copied().unwrap_or_else(|| palette::look_of(name));
                targets.push(Target { name, look, run, cells, failed, partial });
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
        Self { key, targets, is_one_of_several_machines: false }
    }

    /// Name of the target that the others are compared with: InnoDB, or RocksDB.
    pub fn base_name(&self) -> &'static str {
        if self.key.face == "sql" { "innodb" } else { "rocksdb" }
    }

    /// The target that the others are compared with, if it is in the group.
    pub fn base(&self) -> Option<&Target<'a>> {
        self.target(self.base_name())
    }

    /// A target by its name.
    pub fn target(&self, name: &str) -> Option<&Target<'a>> {
        self.targets.iter().find(|target| target.name == name)
    }

    /// Steps in which any target has a metric.
    pub fn steps(&self) -> Vec<String> {
        let cells = self.targets.iter().flat_map(|target| &target.cells);
        let steps: BTreeSet<&Natural> = cells.flat_map(|cell| cell.metrics.keys()).collect();
        steps.into_iter().map(|step| step.0.clone()).collect()
    }

    /// Whether any target has the metric in this step.
    pub fn has(&self, step: &str, name: &str) -> bool {
        self.targets.iter().any(|target| !target.sample(step, name).is_empty())
    }

    /// The first step in which any target has the metric. The step of the whole cell (the empty
    /// name) comes first.
    pub fn step_of(&self, name: &str) -> Option<String> {
        self.steps().into_iter().find(|step| self.has(step, name))
    }

    /// Ratio of a target to the base in one metric of one step.
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

    /// Ratio of a target's values to those of the base. It can be significant only if both are of
    /// the same run, in which they were measured side by side.
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

    /// Whether the group's values may be charted and compared (Invariant 4).
    pub fn is_charted(&self) -> bool {
        self.key.size != "tiny"
    }

    /// Targets whose storage class limited only a part of their I/O (Invariant 3).
    pub fn partial(&self) -> impl Iterator<Item = &Target<'a>> {
        self.targets.iter().filter(|target| !target.partial.is_empty())
    }

    /// Workload and variant, as a heading.
    pub fn title(&self) -> String {
        let key = &self.key;
        let variant =
            if key.variant.is_empty() { String::new() } else { format!(" ({})", key.variant) };
        format!("{}{variant}", key.workload)
    }

    /// Storage class with disk and limits, and whether the cells did not rest, in a phrase.
    pub fn storage(&self) -> String {
        self.key.setup.describe(&self.key.class)
    }

    /// Size, storage, durability, memory, seed and, if there are several, machine, in a phrase.
    pub fn conditions(&self) -> String {
        let key = &self.key;
        let memory = match key.memory_b {
            0 => String::new(),
            bytes => format!(", {}", human(bytes as f64, "B")),
        };
        let machine = match self.is_one_of_several_machines {
            true => format!(", machine {}", key.machine),
            false => String::new(),
        };
        let Key { size, durability, seed, .. } = key;
        format!("{size}, {}, {durability}{memory}, seed {seed}{machine}", self.storage())
    }

    /// Part of a file name that distinguishes the group from most others of its machine. Memory,
    /// seed, disk and limits are not in it.
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

/// Memory that the cell's target was given. A cell that failed before its server started has no
/// record of it; then the other cells of its run supply it.
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

/// Position of a workload on the pages: first those of the studies, then transactions, then single
/// aspects.
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
        "queue",
        "rowformats",
        "bulk",
        "index",
        "zip",
    ];
    ORDER.iter().position(|name| *name == workload).unwrap_or(ORDER.len())
}
