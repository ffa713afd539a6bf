//! Tests of the pages of small databases: what they must say, and that no content of a database can
//! break them.

use std::path::{Path, PathBuf};

use super::testing::Lab;
use super::{Options, report, sample};
use crate::targets::Result;

fn pages(lab: &Lab, run: &[&str]) -> Result<PathBuf> {
    let run = run.iter().map(|uid| (*uid).to_owned()).collect();
    report(&lab.database, &options(lab.out(), run))
}

fn options(out: PathBuf, run: Vec<String>) -> Options {
    Options { out, run, chart: None, workload: String::new() }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All pages of a folder: name and text.
fn all(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).expect("the folder of pages");
    let names =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let html = names.filter(|name| name.ends_with(".html"));
    html.map(|name| (name.clone(), read(&folder.join(name)))).collect()
}

/// The JSON of each chart of a page.
fn charts(page: &str) -> Vec<serde_json::Value> {
    page.split("data-for=\"")
        .skip(1)
        .filter_map(|rest| rest.split_once('>')?.1.split_once("</script>"))
        .map(|(json, _)| serde_json::from_str(json).expect("JSON of a chart"))
        .collect()
}

#[test]
fn an_empty_database_has_pages_that_say_so() -> Result<()> {
    let lab = Lab::new();
    let first = read(&pages(&lab, &[])?);
    assert!(first.contains("Nothing was run yet."), "{first}");
    assert!(!first.contains("<table"), "{first}");
    assert!(read(&lab.out().join("settings.html")).contains("0 runs"));
    Ok(())
}

#[test]
fn an_unknown_run_is_refused_and_known_runs_are_listed() {
    let mut lab = Lab::new();
    lab.run("5a3f90c1", "iibench", "tiny", "safe");
    let said = pages(&lab, &["5a3f90c2"]).err().map(|failure| failure.0);
    assert!(said.is_some_and(|said| said.contains("5a3f90c2") && said.contains("5a3f90c1")));
    assert!(!lab.out().exists());
}

#[test]
fn the_matrix_has_ratios_and_says_what_is_significant() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "iibench", "standard", "safe");
    for repeat in 1..=3 {
        let noise = repeat as f64;
        lab.cell("sql", "iibench", "", "innodb", repeat).metric(
            "load",
            "exit_velocity",
            100.0 + noise,
        );
        lab.cell("sql", "iibench", "", "frond", repeat).metric(
            "load",
            "exit_velocity",
            300.0 + noise,
        );
        lab.cell("sql", "iibench", "", "myrocks", repeat).metric(
            "load",
            "exit_velocity",
            50.0 + noise * 20.0,
        );
    }
    lab.cell("sql", "iibench", "", "innodb-8k", 1).metric("load", "exit_velocity", 40.0);
    lab.cell("sql", "iibench", "", "innodb-4k", 1).state("failed", Some("disk <full>"), None);
    let first = read(&pages(&lab, &[])?);
    assert!(
        first.contains("In 1 SQL experiment, Frond does better than InnoDB in 1 and worse in 0."),
        "{first}"
    );
    assert!(
        first
            .contains(r#"<td class="better" title="significantly better; 302&#x2f;s, 3 repeats">"#),
        "{first}"
    );
    assert!(first.contains("2.96×"), "{first}");
    assert!(first.contains("not significant: may be chance") && first.contains("noisy"), "{first}");
    assert!(first.contains("not significant: fewer than three repeats"), "{first}");
    assert!(first.contains("disk &lt;full&gt;") && !first.contains("disk <full>"), "{first}");
    assert!(first.contains("Nowhere against its base"), "{first}");
    Ok(())
}

#[test]
fn without_the_base_nothing_is_said_of_it() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "dbbench", "standard", "safe");
    lab.cell("embedded", "dbbench", "", "frond", 1).metric("fillseq", "ops_s", 9.0);
    let first = read(&pages(&lab, &[])?);
    let said = "In 1 embedded experiment, there is no value of RocksDB to compare Frond with.";
    assert!(first.contains(said), "{first}");
    assert!(!first.contains("loses most") && !first.contains("Ratio to"), "{first}");
    lab.cell("embedded", "dbbench", "", "rocksdb", 1).state("failed", Some("full"), None);
    let first = read(&pages(&lab, &[])?);
    assert!(first.contains(said) && !first.contains("Nowhere"), "{first}");
    Ok(())
}

#[test]
fn a_field_without_a_value_says_why() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "sysbench", "standard", "safe");
    for target in ["innodb", "frond", "innodb-8k"] {
        let cell = lab.cell("sql", "sysbench", "", target, 1);
        cell.metric("select", "ops_s", 5.0);
        match target {
            "innodb" => drop(cell.metric("", "recovery_s", 1.0)),
            "innodb-8k" => drop(cell.state("stopped", None, None)),
            _ => {}
        }
    }
    for repeat in 2..=3 {
        lab.cell("sql", "sysbench", "", "innodb", repeat).metric("select", "ops_s", 5.0);
    }
    lab.run("other", "iibench", "standard", "safe");
    lab.cell("sql", "iibench", "", "myrocks", 1).metric("load", "exit_velocity", 5.0);
    let first = read(&pages(&lab, &[])?);
    assert!(first.contains(">not run<"), "myrocks has no sysbench: {first}");
    let page = all(&lab.out()).into_iter().find(|(name, _)| name.contains("sql-sysbench"));
    let page = page.map(|(_, text)| text).unwrap_or_default();
    assert!(page.contains(">not measured<"), "Frond has no recovery: {page}");
    assert!(page.contains(">not measured: stopped at the time limit<"), "{page}");
    assert!(page.contains("the base, measured in 1 of 3 repeats"), "{page}");
    Ok(())
}

#[test]
fn the_worst_significant_loss_comes_first() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "sysbench", "standard", "safe");
    for repeat in 1..=3 {
        for (target, select, write, disk) in
            [("innodb", 100.0, 100.0, 100.0), ("frond", 80.0, 300.0, 500.0)]
        {
            let cell = lab.cell("sql", "sysbench", "", target, repeat);
            let noise = 1.0 + repeat as f64 / 1000.0;
            cell.metric("select", "ops_s", select * noise).metric("write", "ops_s", write * noise);
            cell.metric("", "disk_b", disk);
            // A hundred times worse, but measured in one repeat only.
            if repeat == 1 {
                cell.metric("select", "p99_us", if target == "frond" { 900.0 } else { 9.0 });
            }
        }
    }
    let first = read(&pages(&lab, &[])?);
    let losses = first.split("loses most").nth(1).unwrap_or_default();
    let places = ["5.00×", "0.80×"].map(|ratio| losses.find(ratio));
    assert!(places[0].is_some() && places[0] < places[1], "{losses}");
    assert!(
        losses.contains("size on disk") && losses.contains("operations&#x2f;s, select"),
        "{losses}"
    );
    Ok(())
}

#[test]
fn cells_of_different_memory_or_seed_share_no_chart() -> Result<()> {
    let mut lab = Lab::new();
    for (uid, seed, memory) in [("a", 42, 1000), ("b", 43, 1000), ("c", 43, 2000)] {
        lab.run(uid, "ycsb", "standard", "safe");
        lab.change_run(&format!("seed={seed}"));
        lab.cell("sql", "ycsb", "", "innodb", 1).memory(memory).metric("", "disk_b", 5.0);
        lab.cell("sql", "ycsb", "", "frond", 1).memory(memory).metric("", "disk_b", 5.0);
        // This cell failed before its memory was known, and belongs to the others of its run.
        lab.cell("sql", "ycsb", "", "myrocks", 1).memory(0).state("failed", Some("gone"), None);
    }
    let first = read(&pages(&lab, &[])?);
    for conditions in ["1,000 B, seed 42", "1,000 B, seed 43", "1.95 KiB, seed 43"] {
        assert!(
            first.contains(&format!("standard, host, safe, {conditions}; 3 targets")),
            "{first}"
        );
    }
    for (name, page) in all(&lab.out()).iter().filter(|(name, _)| name.starts_with("workload")) {
        let bars: Vec<_> =
            charts(page).iter().map(|chart| chart["bars"].as_array().map(Vec::len)).collect();
        assert_eq!(bars, [Some(2)], "{name}");
    }
    Ok(())
}

#[test]
fn cells_of_different_disk_limits_or_rest_share_no_chart() -> Result<()> {
    let mut lab = Lab::new();
    for (uid, name, value) in [
        ("a", "cores", "2"),
        ("b", "disk", "virtual"),
        ("c", "rest", "no"),
        ("d", "calibrated", "9 I/Os"),
    ] {
        lab.run(uid, "ycsb", "standard", "safe");
        lab.change_run("class='hdd'");
        lab.environment(name, value);
        for target in ["innodb", "frond"] {
            lab.cell("sql", "ycsb", "", target, 1).metric("", "disk_b", 5.0);
        }
    }
    let first = read(&pages(&lab, &[])?);
    for storage in ["hdd", "hdd on a virtual disk", "hdd, without rest", "hdd (9 I&#x2f;Os)"] {
        let said = format!("standard, {storage}, safe, 205 MiB, seed 42; 2 targets");
        assert!(first.contains(&said), "{said}: {first}");
    }
    for (name, page) in all(&lab.out()).iter().filter(|(name, _)| name.starts_with("workload")) {
        assert_eq!(charts(page).len(), 1, "{name}");
    }
    Ok(())
}

#[test]
fn the_page_of_a_workload_lists_open_loops_and_the_cost_of_a_virtual_disk() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "sysbench", "standard", "safe");
    let cell = lab.cell("sql", "sysbench", "", "innodb", 1);
    cell.metrics("select open", &[("busy", 3.0), ("unserved", 4.0), ("queries_s", 5.0)]);
    cell.metric("", "disk_cpu_s", 6.0);
    let first = read(&pages(&lab, &[])?);
    let said = [
        "mean number of clients with a request in progress",
        "requests that were due but not served within the step",
        "queries per second while rows are inserted",
        "CPU that the lab uses to serve a virtual disk",
    ];
    let pages = all(&lab.out());
    let (_, page) = pages.iter().find(|(name, _)| name.starts_with("workload")).expect("its page");
    for said in said {
        assert!(page.contains(said) && !first.contains(said), "{said}: {page}");
    }
    Ok(())
}

#[test]
fn tiny_runs_are_listed_but_never_charted_or_compared() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("t", "ycsb", "tiny", "safe");
    for repeat in 1..=3 {
        for (target, rate) in [("innodb", 100.0), ("frond", 1.0)] {
            let rate = rate + repeat as f64 / 100.0;
            lab.cell("sql", "ycsb", "", target, repeat).metric("A", "ops_s", rate);
        }
    }
    let first = read(&pages(&lab, &[])?);
    assert!(first.contains("Nothing can be compared yet."), "{first}");
    assert!(
        first.contains("1 experiment of size tiny, which tests the lab itself, is in no chart")
    );
    assert!(!first.contains("0.01") && !first.contains("class=\"matrix\""), "{first}");
    let pages = all(&lab.out());
    let page = pages.iter().find(|(name, _)| name.starts_with("workload")).expect("its page");
    assert!(charts(&page.1).is_empty());
    assert!(page.1.contains("Size tiny tests the lab itself") && page.1.contains("100&#x2f;s"));
    assert!(!page.1.contains("0.01"), "{}", page.1);
    Ok(())
}

#[test]
fn partially_throttled_runs_are_marked_but_not_charted_or_compared() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "ycsb", "standard", "safe");
    lab.change_run("class='hdd'");
    for repeat in 1..=3 {
        for (target, throttle) in
            [("innodb", "full"), ("frond", "partial  (version 1)"), ("myrocks", "none")]
        {
            let cell = lab.cell("sql", "ycsb", "", target, repeat);
            cell.metric("A", "ops_s", 100.0 + repeat as f64).setting("throttle", throttle);
            cell.metric("A", "cpu_us_op", 5.0);
        }
    }
    let first = read(&pages(&lab, &[])?);
    assert!(first.contains("throttled only in part: neither charted nor compared"), "{first}");
    let pages = all(&lab.out());
    let (_, page) = pages.iter().find(|(name, _)| name.starts_with("workload")).expect("its page");
    let charts = charts(page);
    assert!(!charts.is_empty());
    for chart in charts.iter().map(ToString::to_string) {
        assert!(!chart.contains("frond") && chart.contains("myrocks"), "{chart}");
    }
    let table = page.split("Throttled only in part").nth(1).unwrap_or_default();
    assert!(table.contains("102&#x2f;s"), "{page}");
    Ok(())
}

#[test]
fn sizes_are_drawn_after_the_load_with_those_of_the_end_in_the_table() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "ycsb", "standard", "safe");
    for (target, load, end, rows) in
        [("innodb", 1000.0, 1300.0, 13.0), ("frond", 400.0, 900.0, 30.0)]
    {
        lab.cell("sql", "ycsb", "", target, 1)
            .metrics("load", &[("disk_b", load), ("disk_b_row", load / 10.0), ("ops_s", 5.0)])
            .metrics("", &[("disk_end_b", end), ("disk_b_row", end / rows)]);
    }
    let first = read(&pages(&lab, &[])?);
    assert!(first.contains("Its tables take 0.40× of InnoDB&#x27;s space."), "{first}");
    let pages = all(&lab.out());
    let (_, page) = pages.iter().find(|(name, _)| name.starts_with("workload")).expect("its page");
    let charts = charts(page);
    let bars = charts.iter().find(|chart| chart["x"]["name"] == "size on disk").expect("sizes");
    assert_eq!(bars["bars"][0]["parts"][0]["value"], 400.0);
    assert!(page.contains("Measured after load, the same rows on all targets."), "{page}");
    assert!(page.contains("in the end"), "{page}");
    Ok(())
}

#[test]
fn one_chart_is_written_as_a_file() -> Result<()> {
    let mut lab = Lab::new();
    sample::fill(&mut lab);
    let path = lab.folder.path().join("chart.svg");
    let out = lab.out();
    let only = Options {
        chart: Some(path.clone()),
        workload: "iibench".to_owned(),
        ..options(out.clone(), Vec::new())
    };
    assert_eq!(report(&lab.database, &only)?, path);
    assert!(read(&path).starts_with("<svg ") && !out.exists());
    let refused = report(&lab.database, &Options { workload: "none".to_owned(), ..only });
    assert!(refused.is_err_and(|failure| failure.0.contains("no chart of none")));
    Ok(())
}

#[test]
fn faces_share_no_chart_and_no_matrix() -> Result<()> {
    let mut lab = Lab::new();
    lab.run("r", "ycsb", "standard", "safe");
    lab.cell("sql", "ycsb", "", "innodb", 1).metric("", "disk_b", 5.0);
    lab.cell("embedded", "ycsb", "", "rocksdb", 1).metric("", "disk_b", 7.0);
    let first = read(&pages(&lab, &[])?);
    assert_eq!(first.matches("workload × target").count(), 2);
    for (name, page) in all(&lab.out()).iter().filter(|(name, _)| name.starts_with("workload")) {
        let bars: Vec<_> =
            charts(page).iter().map(|chart| chart["bars"].as_array().map(Vec::len)).collect();
        assert_eq!(bars, [Some(1)], "{name}");
    }
    Ok(())
}

#[test]
fn only_the_newest_run_of_a_target_counts_and_older_runs_are_not_significant() -> Result<()> {
    let mut lab = Lab::new();
    for (uid, frond) in [("old", 100.0), ("new", 500.0)] {
        lab.run(uid, "iibench", "standard", "safe");
        for repeat in 1..=3 {
            lab.cell("sql", "iibench", "", "frond", repeat).metric("load", "ops_s", frond);
            if uid == "old" {
                lab.cell("sql", "iibench", "", "innodb", repeat).metric("load", "ops_s", 50.0);
            }
        }
    }
    let first = read(&pages(&lab, &[])?);
    assert!(
        first.contains("10.0×") && first.contains("not of the same run as the base"),
        "{first}"
    );
    let first = read(&pages(&lab, &["old"])?);
    assert!(first.contains("2.00×") && !first.contains("10.0×"), "{first}");
    Ok(())
}

#[test]
fn hostile_content_breaks_no_page() -> Result<()> {
    let mut lab = Lab::new();
    sample::hostile(&mut lab);
    pages(&lab, &[])?;
    let pages = all(&lab.out());
    assert!(pages.len() > 5, "{pages:?}");
    for (name, page) in &pages {
        assert!(!page.contains("<img") && !page.contains("49{%"), "{name}:\n{page}");
        for chart in charts(page) {
            let text = chart.to_string();
            assert!(!text.contains("null]") && !text.contains("[null"), "{name}: {text}");
        }
        let opened = page.matches("<script").count();
        assert_eq!(opened, page.matches("</script>").count(), "{name}");
    }
    Ok(())
}

#[test]
fn pages_are_self_contained_and_their_links_resolve() -> Result<()> {
    let mut lab = Lab::new();
    sample::fill(&mut lab);
    pages(&lab, &[])?;
    for (name, page) in all(&lab.out()) {
        for attribute in ["src=\"", "href=\""] {
            for link in page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                let (file, _) = link.split_once('#').unwrap_or((link, ""));
                let is_own =
                    !file.contains(':') && (file.is_empty() || lab.out().join(file).is_file());
                assert!(is_own || link == "data:,", "{name}: {link}");
            }
        }
        let ids: Vec<&str> =
            page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let mut distinct = ids.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(ids.len(), distinct.len(), "{name}: {ids:?}");
    }
    Ok(())
}

/// Writes the pages that scripts/lab-report-test.sh examines in a browser, to the folder
/// FROND_REPORT_PAGES.
#[test]
fn pages_of_the_sample_are_written_for_the_browser() -> Result<()> {
    let mut lab = Lab::new();
    sample::fill(&mut lab);
    let out = std::env::var_os("FROND_REPORT_PAGES").map_or_else(|| lab.out(), PathBuf::from);
    let chart = Some(out.with_file_name("chart.svg"));
    let first = report(&lab.database, &options(out, Vec::new()))?;
    assert!(read(&first).contains("5 of them failed"));
    let workload = "iibench".to_owned();
    report(&lab.database, &Options { chart, workload, ..options(PathBuf::new(), Vec::new()) })?;
    Ok(())
}
