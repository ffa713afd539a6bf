//! Pages of the published studies: their charts, drawn from the values measured here, and a table
//! of the published figures.
//!
//! A page has a part for each size, durability, machine and seed with which the study was run. The
//! sizes nearest to the published one come first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::comparable::{Conditions, Degree};
use super::figure::{Axis, Bar, Chart, Figure, Part as BarPart, Table, number};
use super::group::Group;
use super::headline::detailed;
use super::published::{self, Here, Picture, Published, Study};
use super::query::Results;
use super::sentence::count;
use super::{bars, curves, palette};
use crate::targets::Result;

/// The page of a study.
#[derive(Serialize, Debug)]
pub struct Page {
    pub suite: String,
    pub title: String,
    pub about: String,
    pub source: String,
    pub sentence: String,
    /// A sentence on runs of size tiny, which are not shown. Empty if there are none.
    pub tiny: String,
    pub parts: Vec<Part>,
}

/// What was measured at one size and durability, on one machine and with one seed.
#[derive(Serialize, Debug)]
pub struct Part {
    pub title: String,
    /// A sentence on targets that the charts leave out. Empty if there are none.
    pub note: String,
    pub rows: Vec<Row>,
    pub figures: Vec<Figure>,
}

/// A published figure, and the corresponding value here.
#[derive(Serialize, Debug)]
pub struct Row {
    pub what: String,
    pub target: String,
    pub own_target: String,
    pub published: String,
    pub here: String,
    pub comparable: String,
}

impl Page {
    /// The file name of the page.
    pub fn file_name(&self) -> String {
        format!("study-{}.html", self.suite)
    }
}

/// Builds the pages of all studies.
///
/// # Errors
/// The database cannot be read.
pub fn all(results: &Results<'_>, groups: &[(Group<'_>, String)]) -> Result<Vec<Page>> {
    published::all()?.iter().map(|(suite, study)| page(results, groups, suite, study)).collect()
}

fn page(
    results: &Results<'_>,
    groups: &[(Group<'_>, String)],
    suite: &str,
    study: &Study,
) -> Result<Page> {
    let conditions = study.conditions()?;
    let mut by_part: BTreeMap<(usize, &str, &str, &str, i64), Vec<&Group<'_>>> = BTreeMap::new();
    let mut tiny = 0;
    for (group, _) in groups {
        let key = &group.key;
        if key.face != "sql" || !study.workloads.contains(&key.workload) {
            continue;
        }
        if !group.is_charted() {
            tiny += 1;
            continue;
        }
        let part = (rank(&key.size), &*key.size, &*key.durability, &*key.machine, key.seed);
        by_part.entry(part).or_default().push(group);
    }
    // A figure uses the first group that fits, which must be the one with the fewest changes.
    for own in by_part.values_mut() {
        own.sort_by_key(|group| (group.key.variant.split_whitespace().count(), &group.key));
    }
    let mut parts = Vec::new();
    for ((_, size, durability, machine, seed), own) in &by_part {
        let mut title = format!("Here: size {size}, durability {durability}, seed {seed}");
        if !machine.is_empty() {
            title.push_str(&format!(", machine {machine}"));
        }
        let mut figures = compared(study, own);
        for group in own {
            figures.extend(pictures(results, study, group, own.len() > 1)?);
        }
        number(&mut figures, &format!("p{}-", parts.len() + 1));
        let partial: BTreeSet<&str> =
            own.iter().flat_map(|group| group.partial()).map(|target| target.name).collect();
        let partial: Vec<&str> = partial.into_iter().collect();
        let note = match partial.is_empty() {
            true => String::new(),
            false => format!(
                "Not in the charts, since they were throttled only in part: {}.",
                partial.join(", ")
            ),
        };
        parts.push(Part { title, note, rows: rows(study, &conditions, own), figures });
    }
    let sentence = match by_part.is_empty() {
        true => format!("Not run yet here: lab run {suite} --size standard"),
        false => summary(study, &conditions, by_part.values().next().map_or(&[], Vec::as_slice)),
    };
    let tiny = match tiny {
        0 => String::new(),
        n => {
            format!("{} of size tiny, which tests the lab itself, not shown.", count(n, "workload"))
        }
    };
    if parts.is_empty() {
        let title = "Published figures".to_owned();
        let rows = rows(study, &conditions, &[]);
        parts.push(Part { title, note: String::new(), rows, figures: Vec::new() });
    }
    Ok(Page {
        suite: suite.to_owned(),
        title: study.title.clone(),
        about: study.about.clone(),
        source: study.source.clone(),
        sentence,
        tiny,
        parts,
    })
}

/// Position of a size: those nearest to the published one come first.
fn rank(size: &str) -> usize {
    let order = ["published", "standard", "quick", "tiny"];
    order.iter().position(|name| *name == size).unwrap_or(order.len())
}

/// How many figures have a value here, and the figure that is most comparable, in words.
fn summary(study: &Study, conditions: &Conditions<'_>, groups: &[&Group<'_>]) -> String {
    let measured =
        study.figures.iter().filter(|f| matches!(f.here(groups), Here::Value(_))).count();
    let mut text =
        format!("{} of {} published figures have a value here.", measured, study.figures.len());
    // The figure with the highest degree of comparability, the first if there are several.
    let with_value = study.figures.iter().filter(|f| matches!(f.here(groups), Here::Value(_)));
    let best = with_value.map(|figure| (figure, figure.comparable(conditions, groups)));
    let best = best.min_by_key(|(_, comparable)| comparable.degree);
    if let Some((figure, comparable)) = best
        && let Some(target) = figure.own_target()
    {
        text.push_str(&format!(
            " {}: {} published for {}, {} here for {target} (comparable: {}).",
            first_upper(&figure.what),
            figure.published(),
            figure.target,
            figure.show(&figure.here(groups)),
            comparable.text()
        ));
    }
    text
}

fn first_upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn rows(study: &Study, conditions: &Conditions<'_>, groups: &[&Group<'_>]) -> Vec<Row> {
    let row = |figure: &Published| {
        let here = figure.here(groups);
        let comparable = figure.comparable(conditions, groups);
        // For a figure that was not run, nothing speaks against a comparison yet.
        let is_open = here == Here::NotRun && comparable.degree == Degree::Yes;
        Row {
            what: figure.what.clone(),
            target: figure.target.clone(),
            own_target: figure.own_target().unwrap_or_default().to_owned(),
            published: figure.published(),
            here: figure.show(&here),
            comparable: if is_open { "–".to_owned() } else { comparable.text() },
        }
    };
    study.figures.iter().map(row).collect()
}

/// Bar charts of the figures that share a picture, published and here.
fn compared(study: &Study, groups: &[&Group<'_>]) -> Vec<Figure> {
    let mut names: Vec<&str> =
        study.figures.iter().filter_map(|figure| figure.picture.as_deref()).collect();
    names.dedup();
    names.into_iter().filter_map(|name| compared_in(study, groups, name)).collect()
}

fn compared_in(study: &Study, groups: &[&Group<'_>], name: &str) -> Option<Figure> {
    let mut table = Table::new(&["target", "published", "here"]);
    let (mut all, mut said) = (Vec::new(), Vec::new());
    let is_of = |figure: &&Published| {
        figure.picture.as_deref() == Some(name) && !figure.is_throttled_in_part(groups)
    };
    for figure in study.figures.iter().filter(is_of) {
        let (Some(published), Some(target)) = (figure.value(), figure.own_target()) else {
            continue;
        };
        let here = figure.here(groups);
        let shown = figure.show(&here);
        let label = format!("{shown} ({})", figure.published());
        table.rows.push(vec![
            format!("{target} for {}", figure.target),
            figure.published(),
            shown.clone(),
        ]);
        let mut parts = vec![part("published (in brackets)", published, true)];
        if let Here::Value(value) = here {
            // A negative saving has no bar; the label shows its value.
            parts.insert(0, part("here", value.max(0.0), false));
            said.push(format!("{target} {shown} ({} {})", figure.target, figure.published()));
        }
        let name = target.to_owned();
        let look = palette::look_of(target);
        all.push((figure.unit(), Bar { name, label, look, parts }));
    }
    let unit = all.first()?.0.to_owned();
    if said.is_empty() {
        return None;
    }
    let bars = all.into_iter().map(|(_, bar)| bar).collect();
    let sentence = format!("Here, and published in brackets: {}.", said.join("; "));
    let chart = Chart::Bars { x: Axis::linear("", &unit), bars, limit: None, is_stacked: false };
    Some(Figure::new(name, &chart, sentence, table))
}

fn part(name: &str, value: f64, is_pale: bool) -> BarPart {
    BarPart { name: name.to_owned(), value, is_pale, repeats: Vec::new() }
}

/// The charts of a study for one group.
fn pictures(
    results: &Results<'_>,
    study: &Study,
    group: &Group<'_>,
    is_one_of_several: bool,
) -> Result<Vec<Figure>> {
    let steps = detailed(&group.steps());
    let mut figures = Vec::new();
    for picture in &study.pictures {
        match picture {
            Picture::Size => figures.extend(bars::size(group)),
            Picture::Lengths => figures.extend(bars::lengths(group)),
            Picture::Counters => {
                for step in &steps {
                    figures.extend(bars::counters(group, step));
                }
            }
            Picture::Exit => {
                figures.extend(bars::of_metric(group, "load", "exit_velocity", "Exit velocity"));
            }
            Picture::Load => {
                figures.extend(bars::of_metric(group, "load", "ops_s", "Rate of the load"));
            }
            Picture::Seconds => {
                figures.extend(bars::of_metric(group, "load", "seconds", "Duration of the load"));
            }
            Picture::Rate => figures.extend(curves::rate(results, group, "load")?),
            Picture::Sweep => figures.extend(curves::sweeps(group)),
            Picture::AddLink => {
                let what = "ADD_LINK per 10 s";
                figures
                    .extend(curves::per_ten_seconds(results, group, "requests", "add_link", what)?);
            }
            Picture::Requests => figures.extend(bars::bytes(group, "requests")),
            Picture::Compress => {
                figures.extend(steps.iter().flat_map(|step| bars::times_of_pages(group, step)));
            }
            Picture::Cpu => {
                for step in &steps {
                    figures.extend(curves::cpu_over_time(results, group, step)?);
                    figures.extend(bars::cpu(group, step));
                }
            }
        }
    }
    if is_one_of_several {
        let of = [group.key.variant.as_str(), group.key.class.as_str()];
        let of: Vec<&str> = of.into_iter().filter(|text| !text.is_empty()).collect();
        for figure in &mut figures {
            figure.title = format!("{} ({})", figure.title, of.join(", "));
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::named;
    use crate::lab::report::testing::Lab;

    fn pages(lab: &Lab) -> Result<Vec<Page>> {
        let results = Results::read(&lab.database, &[])?;
        all(&results, &named(Group::all(&results)))
    }

    #[test]
    fn figures_of_a_study_not_run_say_so() -> Result<()> {
        for page in pages(&Lab::new())? {
            assert!(
                page.sentence.contains(&format!("lab run {}", page.suite)),
                "{}",
                page.sentence
            );
            let [part] = page.parts.as_slice() else { panic!("{page:?}") };
            assert!(part.figures.is_empty());
            assert!(part.rows.iter().all(|row| row.here == "not run" || row.here == "–"));
            let is_open =
                |row: &Row| row.comparable != "yes" && !row.comparable.contains("instead of");
            assert!(part.rows.iter().all(is_open), "{:?}", part.rows);
        }
        Ok(())
    }

    #[test]
    fn figures_are_of_the_variant_with_the_fewest_changes() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "rowformats-2008", "standard", "safe");
        for (variant, seconds) in
            [("index=after ratio=0.4", 10.0), ("ratio=0.4", 20.0), ("ratio=4.5", 30.0)]
        {
            lab.cell("sql", "rowformats", variant, "innodb", 1).metric("load", "seconds", seconds);
        }
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "rowformats-2008").expect("its page");
        assert_eq!(page.parts[0].rows[0].here, "20 s");
        let titles: Vec<&str> = page.parts[0].figures.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(titles[0], "Duration of the load (ratio=0.4, host)");
        let comparable = &page.parts[0].rows[0].comparable;
        assert!(comparable.starts_with("no: size standard instead of published"), "{comparable}");
        assert!(comparable.contains("another machine"), "{comparable}");
        Ok(())
    }

    #[test]
    fn sizes_and_durabilities_have_separate_parts() -> Result<()> {
        let mut lab = Lab::new();
        for (size, durability, disk) in
            [("quick", "safe", 60.0), ("standard", "safe", 40.0), ("standard", "hist-unsafe", 30.0)]
        {
            lab.run(&format!("{size}{durability}"), "iibench-2011", size, durability);
            lab.cell("sql", "iibench", "", "innodb", 1).metric("", "disk_b", 100.0);
            lab.cell("sql", "iibench", "", "frond", 1).metric("", "disk_b", disk);
        }
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "iibench-2011").expect("its page");
        let saved: Vec<&str> = page.parts.iter().map(|part| part.rows[0].here.as_str()).collect();
        assert_eq!(saved, ["70 %", "60 %", "40 %"]);
        let said = "51 % published for TokuDB, 70 % here for frond (comparable: ratio only: size \
                    standard instead of published)";
        assert!(page.sentence.contains(said), "{}", page.sentence);
        let comparable: Vec<&str> =
            page.parts.iter().map(|part| part.rows[0].comparable.as_str()).collect();
        assert_eq!(comparable[0], "ratio only: size standard instead of published");
        assert_eq!(comparable[2], "no: size quick instead of published");
        let titles: Vec<&str> = page.parts[0].figures.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(titles, ["Saved against InnoDB", "Size on disk"]);
        Ok(())
    }

    #[test]
    fn tiny_and_partially_throttled_runs_are_not_drawn() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("t", "iibench-2011", "tiny", "safe");
        lab.cell("sql", "iibench", "", "innodb", 1).metric("", "disk_b", 100.0);
        let pages_of_tiny = pages(&lab)?;
        let page =
            pages_of_tiny.iter().find(|page| page.suite == "iibench-2011").expect("its page");
        assert!(page.parts.iter().all(|part| part.figures.is_empty()));
        assert_eq!(page.tiny, "1 workload of size tiny, which tests the lab itself, not shown.");

        lab.run("r", "iibench-2011", "standard", "hist-unsafe");
        for target in ["innodb", "innodb-4k", "frond"] {
            let cell = lab.cell("sql", "iibench", "", target, 1);
            cell.metrics("load", &[("exit_velocity", 10.0), ("ops_s", 10.0)]);
            if target == "frond" {
                cell.setting("throttle", "partial");
            }
        }
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "iibench-2011").expect("its page");
        let part = &page.parts[0];
        assert!(part.note.ends_with("throttled only in part: frond."), "{}", part.note);
        assert!(!part.figures.is_empty());
        for figure in &part.figures {
            assert!(!figure.chart.contains("\"frond\"") && figure.chart.contains("innodb"));
        }
        let exit =
            part.rows.iter().find(|row| row.what.starts_with("exit velocity against InnoDB 4K"));
        let exit = exit.expect("a figure");
        assert_eq!(exit.here, "1×");
        assert!(exit.comparable.contains("direct I/O only throttled"), "{}", exit.comparable);
        Ok(())
    }
}
