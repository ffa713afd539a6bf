//! Figures of published studies (published.toml), and the values measured here that correspond to
//! them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::comparable::{self, Comparable, Conditions};
use super::group::{Group, Target};
use super::matrix::TOO_SHORT;
use super::number::human;
use super::size;
use crate::lab::metric;
use crate::size::Bytes;
use crate::targets::{Failure, Result};

const TEXT: &str = include_str!("../../../lab/published.toml");

/// A published study.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Study {
    pub title: String,
    pub about: String,
    pub source: String,
    /// The study's machine, on which rates depend, in a phrase.
    machine: String,
    /// Durability of the study's commits, by the lab's name.
    durability: Option<String>,
    /// Size of the study's data divided by size of its cache.
    ratio: Option<f64>,
    /// Size of the study's cache.
    memory: Option<String>,
    /// The workloads from which the pictures are drawn.
    pub workloads: Vec<String>,
    pub pictures: Vec<Picture>,
    #[serde(rename = "figure")]
    pub figures: Vec<Published>,
}

/// A kind of chart that a study contains.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Picture {
    /// Bars of sizes.
    Size,
    /// Bars of exit velocities.
    Exit,
    /// Rate over rows.
    Rate,
    /// Bars of rates of the load.
    Load,
    /// Bars of durations of the load.
    Seconds,
    /// Rate over clients.
    Sweep,
    /// ADD_LINK per 10 s, over operations done.
    AddLink,
    /// Bars of bytes read and written per request.
    Requests,
    /// Bars of µs per page compressed.
    Compress,
    /// CPU over time, and bars of CPU per operation.
    Cpu,
    /// Stacked bars of the lengths that SHOW TABLE STATUS reports.
    Lengths,
    /// Bars of pages compressed, and tables of all compression counters.
    Counters,
    /// The engines' counters over time.
    Minutes,
}

/// A published figure.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Published {
    pub what: String,
    pub target: String,
    value: Option<f64>,
    to: Option<f64>,
    text: Option<String>,
    unit: String,
    here: Option<Term>,
    over: Option<Change>,
    #[serde(default)]
    form: Form,
    #[serde(default = "one")]
    scale: f64,
    pub picture: Option<String>,
    /// Why the values are not comparable, or only as a ratio, at any size.
    comparable: Option<String>,
    /// Ratio of data to cache, if it differs from that of the study.
    ratio: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// How the value here is computed from one or two values of the database.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
#[serde(rename_all = "lowercase")]
enum Form {
    #[default]
    Value,
    Ratio,
    Factor,
    Saving,
    Reciprocal,
}

/// A value of the database.
#[derive(Deserialize, Clone, Debug)]
#[serde(deny_unknown_fields)]
struct Term {
    workload: String,
    class: Option<String>,
    variant: Option<String>,
    target: String,
    step: Option<String>,
    metric: String,
    unless: Option<String>,
}

/// What distinguishes the second value from the first.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Change {
    target: Option<String>,
    step: Option<String>,
    metric: Option<String>,
}

/// The value measured here, or why there is none.
#[derive(Clone, PartialEq, Debug)]
pub enum Here {
    /// Nothing in the lab corresponds to the figure.
    Nothing,
    /// The workload was not run, or did not give the value.
    NotRun,
    /// The measured time is too short for the resolution of the clock.
    TooShort,
    /// A value was measured.
    Value(f64),
}

/// All studies, by suite.
///
/// # Errors
/// published.toml is wrong; a test checks that it is not.
pub fn all() -> Result<BTreeMap<String, Study>> {
    toml::from_str(TEXT).map_err(|error| Failure(format!("published.toml: {error}")))
}

impl Study {
    /// The conditions under which the study's figures were measured.
    ///
    /// # Errors
    /// `memory` is not a size.
    pub fn conditions(&self) -> Result<Conditions<'_>> {
        let memory = self.memory.as_deref().map(str::parse::<Bytes>).transpose();
        let memory = memory.map_err(|error| Failure(format!("published.toml: {error}")))?;
        Ok(Conditions {
            ratio: self.ratio,
            memory_b: memory.map(|bytes| bytes.0 as f64),
            durability: self.durability.as_deref(),
            machine: &self.machine,
        })
    }
}

impl Published {
    /// To what degree the value here may be compared with the published one, and why not fully.
    pub fn comparable(&self, study: &Conditions<'_>, groups: &[&Group<'_>]) -> Comparable {
        let fixed = self.comparable.as_deref();
        let Some((term, group, targets)) = self.measured(groups) else {
            return Comparable::fixed(fixed);
        };
        let is_part = ["space_amp", "saving_pct", "compress_failed_pct"].contains(&&*term.metric);
        let figure = comparable::Figure {
            metric: &term.metric,
            is_relative: self.over.is_some() || is_part,
            fixed,
        };
        let study = Conditions { ratio: self.ratio.or(study.ratio), ..*study };
        comparable::judge(&study, &figure, group, &targets)
    }

    /// Whether one of its targets was throttled only in part, so that the figure may be in no
    /// chart.
    pub fn is_throttled_in_part(&self, groups: &[&Group<'_>]) -> bool {
        let targets = self.measured(groups).map_or(Vec::new(), |(_, _, targets)| targets);
        targets.iter().any(|target| !target.partial.is_empty())
    }

    /// The term, group and targets from which the value here is computed.
    fn measured<'g, 'a>(
        &self,
        groups: &[&'g Group<'a>],
    ) -> Option<(&Term, &'g Group<'a>, Vec<&'g Target<'a>>)> {
        let term = self.here.as_ref()?;
        let group = groups.iter().find(|group| term.is_of(group))?;
        let other = self.over.as_ref().and_then(|change| change.target.as_deref());
        let names = std::iter::once(term.target.as_str()).chain(other);
        Some((term, group, names.filter_map(|name| group.target(name)).collect()))
    }

    /// The published value or range, as text.
    pub fn published(&self) -> String {
        match (&self.text, self.value, self.to) {
            (Some(text), _, _) => text.clone(),
            (None, Some(from), Some(to)) => {
                format!("{}–{}", human(from, ""), human(to, &self.unit))
            }
            (None, Some(value), None) => human(value, &self.unit),
            (None, None, _) => "–".to_owned(),
        }
    }

    /// The published value, if it is a single number.
    pub fn value(&self) -> Option<f64> {
        self.value.filter(|_| self.to.is_none())
    }

    /// The target here that corresponds to the published one.
    pub fn own_target(&self) -> Option<&str> {
        self.here.as_ref().map(|term| term.target.as_str())
    }

    /// A value measured here as text, with the unit of the figure.
    pub fn show(&self, here: &Here) -> String {
        match here {
            Here::Nothing => "–".to_owned(),
            Here::NotRun => "not run".to_owned(),
            Here::TooShort => TOO_SHORT.to_owned(),
            Here::Value(value) => human(*value, &self.unit),
        }
    }

    /// The storage class that the figure is of, if it is of one only.
    pub fn class(&self) -> Option<&str> {
        self.here.as_ref()?.class.as_deref()
    }

    /// The storage on which the value here was measured: class, disk and limits.
    pub fn storage(&self, groups: &[&Group<'_>]) -> Option<String> {
        self.measured(groups).map(|(_, group, _)| group.storage())
    }

    /// The unit of the figure.
    pub fn unit(&self) -> &str {
        &self.unit
    }

    /// Computes the corresponding value from the medians over the repeats in these groups.
    pub fn here(&self, groups: &[&Group<'_>]) -> Here {
        let Some(term) = &self.here else { return Here::Nothing };
        let group = groups.iter().find(|group| term.is_of(group));
        if group.is_some_and(|group| term.is_too_short(group)) {
            return Here::TooShort;
        }
        let Some(value) = group.and_then(|group| term.value(group)) else { return Here::NotRun };
        let over = self.over.as_ref().map(|change| term.changed(change));
        let of_over = over.zip(group).and_then(|(term, group)| term.value(group));
        // Bytes per row only make sense relative to another target.
        let is_per_row = |group: &&&Group<'_>| {
            term.metric == "disk_b"
                && size::place(group).is_some_and(|place| !place.has_same_rows())
        };
        if self.form == Form::Value && group.as_ref().is_some_and(is_per_row) {
            return Here::Nothing;
        }
        let made = match (self.form, of_over) {
            (Form::Value, _) => Some(value * self.scale),
            (Form::Reciprocal, _) => Some(self.scale / value),
            (Form::Ratio, Some(other)) => Some(value / other),
            (Form::Factor, Some(other)) => Some(other / value),
            (Form::Saving, Some(other)) => Some(100.0 * (1.0 - value / other)),
            (Form::Ratio | Form::Factor | Form::Saving, None) => None,
        };
        made.filter(|made| made.is_finite()).map_or(Here::NotRun, Here::Value)
    }
}

impl Term {
    fn changed(&self, change: &Change) -> Self {
        let mut term = self.clone();
        if let Some(target) = &change.target {
            term.target.clone_from(target);
        }
        if change.step.is_some() {
            term.step.clone_from(&change.step);
        }
        if let Some(metric) = &change.metric {
            term.metric.clone_from(metric);
        }
        term
    }

    fn is_of(&self, group: &Group<'_>) -> bool {
        let key = &group.key;
        key.face == "sql"
            && key.workload == self.workload
            && self.class.as_ref().is_none_or(|class| key.class == *class)
            && self.variant.as_ref().is_none_or(|variant| key.variant.contains(variant))
    }

    fn of(&self, group: &Group<'_>, metric: &str) -> Option<f64> {
        let target = group.target(&self.target)?;
        // Values of a target that was throttled only in part are in the table, which says so, but
        // in no chart.
        let partial = target.partial.first().filter(|_| target.cells.is_empty());
        let median = |step: &str| match partial {
            Some(cell) => cell.metric(step, metric),
            None => target.median(step, metric),
        };
        if metric == "disk_b" && self.step.is_none() && partial.is_none() {
            return size::place(group)?.of(target);
        }
        match &self.step {
            Some(step) => median(step),
            None => {
                let steps = group.steps();
                let steps = steps.iter().map(String::as_str).chain([""]);
                steps.filter_map(median).next()
            }
        }
    }

    fn value(&self, group: &Group<'_>) -> Option<f64> {
        self.of(group, &self.metric)
    }

    /// Whether the value was measured for too short a time to be exact.
    fn is_too_short(&self, group: &Group<'_>) -> bool {
        let is_set = |flag: &str| self.of(group, flag).is_some_and(|flag| flag > 0.0);
        match self.unless.as_deref() {
            Some(flag) => is_set(flag),
            // Without such values, `of` finds none.
            None => {
                let flag = metric::find(&self.metric).and_then(|metric| metric.unless);
                self.value(group).is_none() && flag.is_some_and(is_set)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::testing::Lab;
    use crate::lab::report::{Group, Results};

    #[test]
    fn every_published_figure_states_its_comparability() -> Result<()> {
        let all = all()?;
        assert_eq!(
            all.keys().map(String::as_str).collect::<Vec<_>>(),
            ["iibench-2011", "linkbench-2015", "rowformats-2008", "weblog-2011", "zip-levels-2016"]
        );
        for study in all.values() {
            study.conditions()?;
        }
        for figure in all.values().flat_map(|study| &study.figures) {
            let said = figure.comparable.as_deref();
            let is_reasoned =
                |said: &str| said.starts_with("ratio only: ") || said.starts_with("no: ");
            assert!(said.is_none_or(is_reasoned), "{}: {said:?}", figure.what);
            assert!(figure.here.is_some() || said.is_some(), "{}", figure.what);
            assert!(figure.value.is_some() != figure.text.is_some(), "{}", figure.what);
            let needs_two = matches!(figure.form, Form::Ratio | Form::Factor | Form::Saving);
            assert_eq!(needs_two, figure.over.is_some(), "{}", figure.what);
        }
        Ok(())
    }

    #[test]
    fn published_figures_name_workloads_targets_and_metrics_that_exist() -> Result<()> {
        let targets = crate::lab::target::names();
        for figure in all()?.values().flat_map(|study| &study.figures) {
            let Some(term) = &figure.here else { continue };
            let over = figure.over.as_ref().map(|change| term.changed(change));
            for term in std::iter::once(term).chain(&over) {
                crate::lab::workloads::find(&term.workload)?;
                assert!(targets.contains(&term.target.as_str()), "{}", term.target);
                for name in std::iter::once(&term.metric).chain(&term.unless) {
                    assert!(metric::find(name).is_some(), "{name}");
                }
                if let Some(class) = &term.class {
                    crate::lab::machine::class::find(class)?;
                }
            }
        }
        Ok(())
    }

    #[test]
    fn values_here_are_computed_as_the_study_did() -> Result<()> {
        let figure = |text: &str| -> Published {
            toml::from_str(&format!("what=''\ntarget=''\nunit='%'\nvalue=1\n{text}"))
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let mut lab = Lab::new();
        lab.run("r", "zip", "standard", "safe");
        for (repeat, size) in [(1, 40.0), (2, 45.0), (3, 90.0)] {
            lab.cell("sql", "zip", "levels=1", "frond", repeat).metric("load", "disk_b", size);
        }
        lab.cell("sql", "zip", "levels=1", "innodb", 1)
            .metric("load", "disk_b", 90.0)
            .metrics("a", &[("compress_s", 3.0), ("compress_too_short", 1.0), ("zero", 0.0)])
            .metrics("a", &[("compress_us_page", 5.0), ("uncompress_us_page", 4.0)])
            .metrics("b", &[("uncompress_us_page", 3.0), ("uncompress_too_short", 1.0)]);
        let results = Results::read(&lab.database, &[])?;
        let groups = Group::all(&results);
        let groups: Vec<&Group<'_>> = groups.iter().collect();
        let here = |target: &str, rest: &str| {
            let term = format!("here={{workload='zip',target='{target}',{rest}");
            figure(&term).here(&groups)
        };
        let over = "over={target='innodb'}";
        let disk = "metric='disk_b'}";
        assert_eq!(here("frond", &format!("{disk}\nscale=2")), Here::Value(90.0));
        assert_eq!(here("frond", &format!("{disk}\n{over}\nform='ratio'")), Here::Value(0.5));
        assert_eq!(here("frond", &format!("{disk}\n{over}\nform='factor'")), Here::Value(2.0));
        assert_eq!(here("frond", &format!("{disk}\n{over}\nform='saving'")), Here::Value(50.0));
        assert_eq!(
            here("frond", &format!("{disk}\nform='reciprocal'\nscale=90")),
            Here::Value(2.0)
        );
        assert_eq!(here("myrocks", disk), Here::NotRun);
        assert_eq!(here("frond", &format!("class='sata',{disk}")), Here::NotRun);
        assert_eq!(here("frond", &format!("class='host',{disk}\nscale=2")), Here::Value(90.0));
        assert_eq!(here("frond", &format!("variant='levels=9',{disk}")), Here::NotRun);
        assert_eq!(here("frond", &format!("step='b',{disk}")), Here::NotRun);
        let unless = "metric='compress_s',unless='compress_too_short'}";
        assert_eq!(here("innodb", unless), Here::TooShort);
        let per_page = |step: &str, metric: &str| {
            here("innodb", &format!("step='{step}',metric='{metric}'}}"))
        };
        assert_eq!(per_page("a", "compress_us_page"), Here::TooShort);
        assert_eq!(per_page("a", "uncompress_us_page"), Here::Value(4.0));
        assert_eq!(per_page("b", "uncompress_us_page"), Here::TooShort);
        assert_eq!(per_page("b", "compress_us_page"), Here::NotRun);
        assert_eq!(here("innodb", "metric='zero'}\nform='reciprocal'"), Here::NotRun);
        assert_eq!(figure("").here(&groups), Here::Nothing);
        Ok(())
    }
}
