//! Pages of the published studies: their charts, drawn from the values measured here, and a table
//! of the published figures.
//!
//! A page has a part for each size, durability, machine and seed with which the study was run. The
//! sizes nearest to the published one come first.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::comparable::{Comparable, Conditions, Degree};
use super::counters::{self, QUANTITIES};
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
    /// Storage class with disk and limits; empty for the host's disk.
    pub storage: String,
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
        own.sort_by_key(|group| {
            let changes = group.key.variant.split_whitespace().count();
            (group.key.setup.is_unrested, changes, &group.key)
        });
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
        let rows = found(study, &conditions, own).iter().map(Found::row).collect();
        parts.push(Part { title, note, rows, figures });
    }
    let sentence = match by_part.is_empty() {
        true => format!("Not run yet here: lab run {suite} --size standard"),
        false => {
            let first = by_part.values().next().map_or(&[][..], Vec::as_slice);
            summary(study, &found(study, &conditions, first))
        }
    };
    let tiny = match tiny {
        0 => String::new(),
        n => {
            format!("{} of size tiny, which tests the lab itself, not shown.", count(n, "workload"))
        }
    };
    if parts.is_empty() {
        let title = "Published figures".to_owned();
        let rows = found(study, &conditions, &[]).iter().map(Found::row).collect();
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

/// A published figure on a storage class.
struct Found<'s> {
    figure: &'s Published,
    storage: String,
    here: Here,
    comparable: Comparable,
}

/// The storage class of figures that name none.
const HOST: &str = "host";

/// The storage classes of these groups, the host's disk first.
fn classes<'g>(groups: &[&'g Group<'_>]) -> Vec<&'g str> {
    let others: BTreeSet<&str> = groups.iter().map(|group| group.key.class.as_str()).collect();
    std::iter::once(HOST).chain(others.into_iter().filter(|class| *class != HOST)).collect()
}

/// The groups of a storage class.
fn of_class<'g, 'a>(groups: &[&'g Group<'a>], class: &str) -> Vec<&'g Group<'a>> {
    groups.iter().copied().filter(|group| group.key.class == class).collect()
}

/// The figures of a study, each with its value on the storage class that it names. One that names
/// none has its value on the host's disk, and on each other class on which it was measured.
fn found<'s>(
    study: &'s Study,
    conditions: &Conditions<'_>,
    groups: &[&Group<'_>],
) -> Vec<Found<'s>> {
    let mut all = Vec::new();
    for figure in &study.figures {
        let own = figure.class().map_or_else(|| classes(groups), |class| vec![class]);
        for (at, class) in own.into_iter().enumerate() {
            let groups = of_class(groups, class);
            let here = figure.here(&groups);
            if at > 0 && !matches!(here, Here::Value(_) | Here::TooShort) {
                continue;
            }
            let comparable = figure.comparable(conditions, &groups);
            let storage = figure.storage(&groups).unwrap_or_else(|| class.to_owned());
            all.push(Found { figure, storage, here, comparable });
        }
    }
    all
}

impl Found<'_> {
    fn has_value(&self) -> bool {
        matches!(self.here, Here::Value(_))
    }

    fn row(&self) -> Row {
        let Self { figure, storage, here, comparable } = self;
        // For a figure that was not run, nothing speaks against a comparison yet.
        let is_open = *here == Here::NotRun && comparable.degree == Degree::Yes;
        Row {
            what: figure.what.clone(),
            target: figure.target.clone(),
            own_target: figure.own_target().unwrap_or_default().to_owned(),
            storage: if storage == HOST { String::new() } else { storage.clone() },
            published: figure.published(),
            here: figure.show(here),
            comparable: if is_open { "–".to_owned() } else { comparable.text() },
        }
    }
}

/// How many figures have a value here, and the figure that is most comparable, in words.
fn summary(study: &Study, found: &[Found<'_>]) -> String {
    let with_value = || found.iter().filter(|found| found.has_value());
    let is_measured =
        |figure: &&Published| with_value().any(|found| std::ptr::eq(found.figure, *figure));
    let mut text = format!(
        "{} of {} published figures have a value here.",
        study.figures.iter().filter(is_measured).count(),
        study.figures.len()
    );
    // The figure with the highest degree of comparability, the first if there are several.
    let best = with_value().min_by_key(|found| found.comparable.degree);
    if let Some((found, target)) = best.and_then(|found| Some((found, found.figure.own_target()?)))
    {
        let (figure, row) = (found.figure, found.row());
        let storage = match row.storage.as_str() {
            "" => String::new(),
            storage => format!(", {storage}"),
        };
        text.push_str(&format!(
            " {}: {} published for {}, {} here for {target}{storage} (comparable: {}).",
            first_upper(&figure.what),
            row.published,
            figure.target,
            row.here,
            found.comparable.text()
        ));
    }
    text
}

fn first_upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Bar charts of the figures that share a picture, published and here.
fn compared(study: &Study, groups: &[&Group<'_>]) -> Vec<Figure> {
    let mut names: Vec<&str> =
        study.figures.iter().filter_map(|figure| figure.picture.as_deref()).collect();
    names.dedup();
    let mut figures = Vec::new();
    for class in classes(groups) {
        let of_class = of_class(groups, class);
        for mut figure in names.iter().filter_map(|name| compared_in(study, &of_class, name)) {
            if class != HOST {
                figure.title = format!("{} (class {class})", figure.title);
            }
            figures.push(figure);
        }
    }
    figures
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
                    figures.extend(counters::by_index(results, group, step)?);
                }
            }
            Picture::Minutes => {
                for (step, quantity) in
                    steps.iter().flat_map(|step| QUANTITIES.iter().map(move |q| (step, q)))
                {
                    figures.extend(counters::over_time(results, group, step, quantity)?);
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
            Picture::Requests => figures.extend(bars::written_and_read(group, "requests")),
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
        let of = [group.key.variant.clone(), group.storage()];
        let of: Vec<String> = of.into_iter().filter(|text| !text.is_empty()).collect();
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
            let cell = lab.cell("sql", "rowformats", variant, "innodb-compact", 1);
            cell.metric("load", "seconds", seconds);
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
    fn figures_measured_on_a_storage_class_have_rows_and_charts_marked_with_it() -> Result<()> {
        let mut lab = Lab::new();
        for (uid, class, disk) in [("a", "host", 50.0), ("b", "hdd", 40.0), ("c", "sata", 30.0)] {
            lab.run(uid, "iibench-2011", "standard", "hist-unsafe");
            lab.change_run(&format!("class='{class}'"));
            if class == "hdd" {
                lab.environment("disk", "virtual");
            }
            lab.cell("sql", "iibench", "", "innodb", 1).metric("", "disk_b", 100.0);
            if class != "sata" {
                lab.cell("sql", "iibench", "", "frond", 1).metric("", "disk_b", disk);
            }
        }
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "iibench-2011").expect("its page");
        let [part] = page.parts.as_slice() else { panic!("{page:?}") };
        let rows: Vec<_> = part.rows[..3]
            .iter()
            .map(|row| (&*row.own_target, &*row.storage, &*row.here))
            .collect();
        assert_eq!(
            rows,
            [
                ("frond", "", "50 %"),
                ("frond", "hdd on a virtual disk", "60 %"),
                ("innodb-4k", "", "not run"),
            ]
        );
        let titles: Vec<&str> = part.figures.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(titles[..2], ["Saved against InnoDB", "Saved against InnoDB (class hdd)"]);
        assert!(titles.contains(&"Size on disk (hdd on a virtual disk)"), "{titles:?}");
        assert!(page.sentence.starts_with("1 of 10 published figures"), "{}", page.sentence);
        let out = lab.out();
        let options = crate::lab::report::Options {
            out: out.clone(),
            run: Vec::new(),
            chart: None,
            workload: String::new(),
        };
        crate::lab::report::report(&lab.database, &options)?;
        let text = std::fs::read_to_string(out.join(page.file_name())).expect("its page");
        assert!(text.contains("here frond; class hdd on a virtual disk"), "{text}");
        Ok(())
    }

    #[test]
    fn rows_that_name_a_class_are_of_that_class_alone() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "linkbench-2015", "standard", "safe");
        lab.change_run("class='sata-2015'");
        let cell = lab.cell("sql", "linkbench", "", "innodb", 1);
        cell.metric("requests", "add_link_10s", 500.0);
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "linkbench-2015").expect("its page");
        let of = |what: &str| -> Vec<(&str, &str)> {
            let rows = page.parts[0].rows.iter();
            let own = rows.filter(|row| row.what == what && row.own_target == "innodb");
            own.map(|row| (&*row.storage, &*row.here)).collect()
        };
        assert_eq!(of("ADD_LINK per 10 s, SATA"), [("sata-2015", "500")]);
        assert_eq!(of("ADD_LINK per 10 s, NVMe"), [("", "not run")]);
        Ok(())
    }

    #[test]
    fn bytes_written_and_read_per_request_are_two_charts() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "linkbench-2015", "standard", "safe");
        for target in ["innodb", "frond"] {
            let cell = lab.cell("sql", "linkbench", "", target, 1);
            let values = [("wr_b_op", 2048.0), ("rd_b_op", 9.0), ("rd_io_op", 0.5)];
            cell.metrics("requests", &values).metric("requests", "fsync_op", 1.0);
        }
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "linkbench-2015").expect("its page");
        let figures = &page.parts[0].figures;
        let [.., written, read] = figures.as_slice() else { panic!("{figures:?}") };
        assert_eq!(written.title, "Bytes written per operation: requests");
        assert_eq!(read.title, "Bytes read per operation: requests");
        assert_eq!(written.table.head, ["target", "written", "min–max", "÷ innodb", "syncs"]);
        assert_eq!(read.table.head, ["target", "read", "min–max", "÷ innodb", "reads"]);
        assert!(written.chart.contains("2048") && !written.chart.contains("9.0"));
        Ok(())
    }

    #[test]
    fn times_per_page_that_are_too_short_have_no_bar() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "zip-levels-2016", "standard", "safe");
        for (target, us, short) in
            [("innodb-8k", 77.0, 1.0), ("innodb-4k", 55.0, 0.0), ("frond", 33.0, 0.0)]
        {
            let cell = lab.cell("sql", "zip", "", target, 1);
            cell.metrics("read", &[("uncompress_us_page", us), ("uncompress_too_short", short)]);
            cell.metric("rebuild", "compress_ops", 100.0);
        }
        let pages = pages(&lab)?;
        let page = pages.iter().find(|page| page.suite == "zip-levels-2016").expect("its page");
        let figures = &page.parts[0].figures;
        let of = |title: &str| figures.iter().find(|figure| figure.title == title).expect(title);
        let times = of("Time to uncompress a page: read");
        assert!(!times.chart.contains("77.0") && times.chart.contains("55.0"), "{}", times.chart);
        assert!(times.chart.contains(r#""label":"too short""#), "{}", times.chart);
        let rows: Vec<&str> = times.table.rows.iter().map(|row| row[1].as_str()).collect();
        assert_eq!(rows, ["33 µs", "too short", "55 µs"]);
        assert!(times.sentence.contains("No time per page of innodb-8k:"), "{}", times.sentence);
        assert!(times.sentence.contains("Best: frond 33 µs; last: innodb-4k 55 µs."));
        let row = page.parts[0].rows.iter().find(|row| {
            row.what == "µs per page uncompressed in the full read" && row.own_target == "innodb-8k"
        });
        assert_eq!(row.map(|row| row.here.as_str()), Some("too short"));
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
