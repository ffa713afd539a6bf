//! `lab compare A B`: compares two runs, or two targets, metric by metric.
//!
//! Invariants
//! 1. Runs on different machines, or of different size, class, disk, calibrated limits, durability,
//!    seed or memory, or of which one did not wait for background work, are compared only on
//!    request, and then each line says so.
//! 2. A difference that is not significant is never called better or worse, nor one of runs under
//!    different conditions or of size tiny, which tests the lab itself.
//! 3. Targets that only one side has are named.
//! 4. A value that was measured for too short a time to be exact is left out.

use std::collections::{BTreeMap, BTreeSet};

use super::exchange::short;
use super::metric;
use super::results::{Database, Measured, RunInfo};
use super::setup::Setup;
use super::size::Size;
use super::statistics::{self, FEW, Ratio, Sample, Verdict};
use crate::targets::{Failure, Result};

/// One side of the comparison: a run (`RUN`), or one target of a run (`RUN:TARGET`).
struct Side {
    run: RunInfo,
    setup: Setup,
    target: Option<String>,
    values: Vec<Measured>,
}

impl Side {
    fn find(database: &Database, name: &str) -> Result<Self> {
        let (run, target) = match name.split_once(':') {
            Some((run, target)) => (run, Some(target.to_owned())),
            None => (name, None),
        };
        let run = database.find_run(run)?;
        let environment = database.environment(run.id)?;
        let setup = Setup::new(|name| environment.get(name).map(String::as_str), &run.command);
        let mut values = database.measured(run.id)?;
        remove_inexact(&mut values);
        if let Some(target) = &target {
            values.retain(|one| one.target == *target);
            if values.is_empty() {
                return Err(Failure(format!("run {} has no results of {target}", run.uid)));
            }
        }
        Ok(Self { run, setup, target, values })
    }
}

impl Side {
    /// The side as it was named: `RUN`, or `RUN:TARGET`.
    fn name(&self) -> String {
        match &self.target {
            Some(target) => format!("{}:{target}", self.run.uid),
            None => self.run.uid.clone(),
        }
    }

    /// The targets with values.
    fn targets(&self) -> BTreeSet<&str> {
        self.values.iter().map(|one| one.target.as_str()).collect()
    }
}

/// Removes the values that were measured for too short a time (Invariant 4).
fn remove_inexact(values: &mut Vec<Measured>) {
    let place = |one: &Measured, metric: &str| {
        let Measured { workload, variant, face, target, step, .. } = one.clone();
        (workload, variant, face, target, one.repeat, step, metric.to_owned())
    };
    let set: BTreeSet<_> =
        values.iter().filter(|one| one.value == 1.0).map(|one| place(one, &one.metric)).collect();
    values.retain(|one| {
        let flag = metric::find(&one.metric).and_then(|metric| metric.unless);
        flag.is_none_or(|flag| !set.contains(&place(one, flag)))
    });
}

/// The repeats of each cell: by workload, variant, face, and the target unless both sides name one.
fn repeats(side: &Side, by_target: bool) -> BTreeMap<[&str; 4], BTreeSet<u32>> {
    let mut all: BTreeMap<[&str; 4], BTreeSet<u32>> = BTreeMap::new();
    for one in &side.values {
        let target = if by_target { one.target.as_str() } else { "" };
        let cell = [&one.workload, &one.variant, &one.face, target];
        all.entry(cell).or_default().insert(one.repeat);
    }
    all
}

/// Identifies a value on both sides: workload, variant, face, target, step, metric. The target is
/// empty where the two sides name one each.
type Key = (String, String, String, String, String, String);

fn keyed(side: &Side, by_target: bool) -> BTreeMap<Key, Sample> {
    let mut all: BTreeMap<Key, Vec<(i64, f64)>> = BTreeMap::new();
    for one in &side.values {
        let target = if by_target { one.target.clone() } else { String::new() };
        let key = (
            one.workload.clone(),
            one.variant.clone(),
            one.face.clone(),
            target,
            one.step.clone(),
            one.metric.clone(),
        );
        all.entry(key).or_default().push((i64::from(one.repeat), one.value));
    }
    all.into_iter().map(|(key, values)| (key, Sample::new(values))).collect()
}

/// Lists the conditions in which the two sides differ.
fn differences(a: &Side, b: &Side) -> Vec<String> {
    let (one, other) = (&a.run, &b.run);
    let (seed, other_seed) = (one.seed.to_string(), other.seed.to_string());
    let named = |text: &str, empty: &str| if text.is_empty() { empty } else { text }.to_owned();
    let disk = [a, b].map(|side| named(&side.setup.disk, "host"));
    let limits = [a, b].map(|side| named(&side.setup.limits, "of the class"));
    let rest = [a, b].map(|side| if side.setup.is_unrested { "no" } else { "yes" }.to_owned());
    let pairs = [
        ("machine", &one.machine, &other.machine),
        ("size", &one.size, &other.size),
        ("class", &one.class, &other.class),
        ("disk", &disk[0], &disk[1]),
        ("limits", &limits[0], &limits[1]),
        ("rest", &rest[0], &rest[1]),
        ("durability", &one.durability, &other.durability),
        ("seed", &seed, &other_seed),
    ];
    let differ = pairs.iter().filter(|(_, one, other)| one != other);
    let mut said: Vec<String> =
        differ.map(|(name, one, other)| format!("{name} {one}/{other}")).collect();
    let (memory, other_memory) = (memory(a), memory(b));
    for (workload, one) in &memory {
        if let Some(other) = other_memory.get(workload).filter(|other| *other != one) {
            said.push(format!("memory of {} {one}/{other}", workload.0));
        }
    }
    said
}

/// Memory of the targets in bytes, by workload, variant and face.
fn memory(side: &Side) -> BTreeMap<(&str, &str, &str), i64> {
    let of = side.values.iter();
    of.map(|one| ((&*one.workload, &*one.variant, &*one.face), one.memory_b)).collect()
}

/// The verdict on B compared with A, as printed. `is_partial`: some repeats lack the value.
fn said(verdict: Verdict, is_partial: bool) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::Differs => "differs",
        Verdict::Insignificant(FEW) if is_partial => "in one or two repeats only",
        Verdict::Insignificant(FEW) => "one or two repeats: nothing can be said",
        Verdict::Insignificant(_) => "",
    }
}

/// The ratio B ÷ A, as printed.
fn ratio(found: Option<&Ratio>) -> String {
    match found {
        Some(found) if !found.has_zero() => format!("{:.3}", found.of_medians),
        Some(found) if found.of_medians > 0.0 => "A is 0".to_owned(),
        Some(_) => "B is 0".to_owned(),
        None => "–".to_owned(),
    }
}

/// Compares two sides, and returns the comparison as text.
///
/// # Errors
/// A run is unknown; the conditions differ and `anyway` is false; nothing was measured on both
/// sides.
pub fn compare(database: &Database, a: &str, b: &str, anyway: bool) -> Result<String> {
    let (a, b) = (Side::find(database, a)?, Side::find(database, b)?);
    if a.target.is_some() != b.target.is_some() {
        return Err(Failure("name a target on both sides (RUN:TARGET), or on neither".to_owned()));
    }
    if a.run.id == b.run.id && a.target == b.target {
        return Err(Failure(format!("{} is compared with itself", a.name())));
    }
    let differences = differences(&a, &b);
    if !differences.is_empty() && !anyway {
        return Err(Failure(format!(
            "these runs were measured under different conditions: {}; --anyway compares them",
            differences.join(", ")
        )));
    }
    let by_target = a.target.is_none() && b.target.is_none();
    let (ones, others) = (keyed(&a, by_target), keyed(&b, by_target));
    let repeats = [repeats(&a, by_target), repeats(&b, by_target)];
    let is_one_run = a.run.id == b.run.id;
    let warning = match differences.is_empty() {
        true => String::new(),
        false => format!("  NOT COMPARABLE: {}", differences.join(", ")),
    };
    let mut out = format!("A = {}, B = {}; medians, min–max, B/A\n", a.name(), b.name());
    let is_tiny = [&a, &b].iter().any(|side| side.run.size == Size::Tiny.to_string());
    if is_tiny {
        out += "Size tiny tests the lab itself: there are no verdicts.\n";
    }
    if by_target {
        for (name, side, other) in [("A", &a, &b), ("B", &b, &a)] {
            let only: Vec<&str> = side.targets().difference(&other.targets()).copied().collect();
            if !only.is_empty() {
                out += &format!("Only in {name}: {}\n", only.join(", "));
            }
        }
    }
    let is_judged = differences.is_empty() && !is_tiny;
    let (mut title, mut lines) = (String::new(), 0);
    for (key, one) in &ones {
        let Some(other) = others.get(key) else { continue };
        let (workload, variant, face, target, step, metric) = key;
        let parts = [workload, variant, face, target, step];
        let parts: Vec<&str> =
            parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        let of_step = parts.join(" · ");
        if of_step != title {
            title = of_step;
            out += &format!("\n{title}\n");
        }
        let (Some(x), Some(y)) = (one.spread(), other.spread()) else { continue };
        let show = |spread: statistics::Spread| match spread.count {
            1 => short(spread.median),
            _ => format!("{} ({}–{})", short(spread.median), short(spread.min), short(spread.max)),
        };
        let found = metric::find(metric)
            .filter(|metric| metric.name != "disk_end_b")
            .and_then(|metric| statistics::compare(other, one, metric, is_one_run));
        let cell = [workload.as_str(), variant, face, target];
        let of_cell = repeats.iter().filter_map(|all| Some(all.get(&cell)?.len())).min();
        let is_partial = of_cell.is_some_and(|all| one.len().min(other.len()) < all);
        let verdict = found.filter(|_| is_judged);
        let verdict = verdict.map_or("", |found| said(found.verdict, is_partial));
        let noisy = if x.is_noisy() || y.is_noisy() { " noisy" } else { "" };
        out += &format!(
            "  {metric:22} {:>24} {:>24} {:>8} {verdict}{noisy}{warning}\n",
            show(x),
            show(y),
            ratio(found.as_ref()),
        );
        lines += 1;
    }
    match lines {
        0 => Err(Failure("nothing was measured in both".to_owned())),
        _ => Ok(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::results::RunHead;
    use crate::lab::results::testing::{a_cell, a_database, a_key, a_run};

    fn fill(database: &mut Database, head: &RunHead, rates: &[(&str, f64)]) {
        let run = database.begin_run(head).expect("begun");
        for (target, rate) in rates {
            for repeat in 1..=3 {
                let mut cell = a_cell();
                let rate = rate + f64::from(repeat);
                cell.steps[0].metrics.insert("ops_s".to_owned(), rate);
                database.write_cell(run, &a_key(target, repeat), 0, &cell).expect("written");
            }
        }
    }

    #[test]
    fn runs_under_different_conditions_are_refused_and_marked() {
        let (_dir, mut database) = a_database();
        fill(&mut database, &a_run("aa"), &[("innodb", 1000.0), ("frond", 3000.0)]);
        fill(&mut database, &a_run("ab"), &[("innodb", 1000.0), ("frond", 2000.0)]);
        let slow = RunHead { class: "hdd".to_owned(), ..a_run("b") };
        fill(&mut database, &slow, &[("innodb", 500.0)]);

        let same = compare(&database, "aa", "ab", false).expect("same conditions");
        let line = |text: &str, target: &str| -> String {
            let part = text.split(&format!("· {target} ·")).nth(1).unwrap_or_default();
            part.lines().find(|line| line.contains("ops_s")).unwrap_or_default().to_owned()
        };
        assert!(line(&same, "frond").contains("0.667 WORSE"), "{same}");
        assert!(!line(&same, "innodb").contains("WORSE"), "{same}");
        let targets = compare(&database, "aa:innodb", "aa:frond", false).expect("one run");
        assert!(targets.contains(" better"), "{targets}");

        let refused = compare(&database, "aa", "b", false).expect_err("another class");
        assert!(
            refused.0.contains("class host/hdd") && refused.0.contains("--anyway"),
            "{refused}"
        );
        let marked = compare(&database, "aa", "b", true).expect("it was asked for");
        let values = marked.lines().filter(|line| line.starts_with("  "));
        assert!(
            values.clone().count() > 1
                && values.clone().all(|line| line.contains("NOT COMPARABLE"))
        );
        let reseeded = RunHead { seed: 43, ..a_run("c") };
        fill(&mut database, &reseeded, &[("innodb", 1000.0)]);
        let refused = compare(&database, "aa", "c", false).expect_err("another seed");
        assert!(refused.0.contains("seed 42/43"), "{refused}");
        for (uid, entry, said) in [
            ("da", ("disk", "virtual"), "disk host/virtual"),
            ("db", ("rest", "no"), "rest yes/no"),
            ("dc", ("calibrated", "9 I/Os"), "limits of the class/9 I/Os"),
        ] {
            let mut other = a_run(uid);
            other.environment.push((entry.0.to_owned(), entry.1.to_owned()));
            fill(&mut database, &other, &[("innodb", 1000.0)]);
            let refused = compare(&database, "aa", uid, false).expect_err(said);
            assert!(refused.0.contains(&format!("conditions: {said};")), "{refused}");
        }
        database.connection.execute("UPDATE cell SET memory_b=7 WHERE run=2", []).expect("changed");
        let refused = compare(&database, "aa", "ab", false).expect_err("another memory");
        assert!(refused.0.contains("memory of iibench 67108864/7"), "{refused}");
        assert!(compare(&database, "a", "b", true).is_err_and(|f| f.0.contains("2 runs begin")));
        assert!(compare(&database, "zz", "b", true).is_err());
    }

    #[test]
    fn only_what_both_sides_measured_in_earnest_is_judged() {
        let (_dir, mut database) = a_database();
        fill(&mut database, &a_run("aa"), &[("innodb", 1000.0), ("frond", 3000.0)]);
        fill(&mut database, &a_run("ab"), &[("frond", 2000.0), ("myrocks", 1.0)]);
        let text = compare(&database, "aa", "ab", false).expect("same conditions");
        assert!(text.contains("Only in A: innodb\nOnly in B: myrocks\n"), "{text}");
        let slow = RunHead { class: "hdd".to_owned(), ..a_run("b") };
        fill(&mut database, &slow, &[("frond", 500.0)]);
        let text = compare(&database, "aa", "b", true).expect("it was asked for");
        assert!(text.contains("NOT COMPARABLE") && !text.contains("WORSE"), "{text}");
        for (uid, rate) in [("c1", 1000.0), ("c2", 500.0)] {
            let tiny = RunHead { size: "tiny".to_owned(), ..a_run(uid) };
            fill(&mut database, &tiny, &[("frond", rate)]);
        }
        let text = compare(&database, "c1", "c2", false).expect("same conditions");
        assert!(text.contains("no verdicts") && !text.contains("WORSE"), "{text}");
        for (a, b) in [("aa", "aa"), ("aa:frond", "aa:frond")] {
            let refused = compare(&database, a, b, false).expect_err("the same");
            assert!(refused.0.contains("with itself"), "{refused}");
        }
        assert!(compare(&database, "", "aa", false).is_err());
        // A value of one repeat of three; and sizes of different rows.
        for target in ["frond", "innodb"] {
            let sql = "INSERT INTO metric SELECT id, 'load', ?, 1.0 FROM cell \
                       WHERE target=? AND run=1 AND repeat<=?";
            for (name, repeats) in [("recovery_s", 1), ("disk_end_b", 3)] {
                let row = rusqlite::params![name, target, repeats];
                database.connection.execute(sql, row).expect("written");
            }
        }
        let text = compare(&database, "aa:innodb", "aa:frond", false).expect("one run");
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line("recovery_s").contains("in one or two repeats only"), "{text}");
        assert!(line("disk_end_b").trim_end().ends_with('–'), "{text}");
    }

    #[test]
    fn values_measured_for_too_short_a_time_are_left_out() {
        let (_dir, mut database) = a_database();
        for (uid, short) in [("aa", 0.0), ("ab", 1.0)] {
            let run = database.begin_run(&a_run(uid)).expect("begun");
            let mut cell = a_cell();
            let values = [("uncompress_us_page", 30.0), ("uncompress_too_short", short)];
            cell.steps[0].metrics.extend(values.map(|(name, value)| (name.to_owned(), value)));
            database.write_cell(run, &a_key("innodb", 1), 0, &cell).expect("written");
        }
        let said = |b| compare(&database, "aa", b, true).expect("compared");
        assert!(!said("ab").contains("uncompress_us_page"), "{}", said("ab"));
        let change = "UPDATE metric SET value=0 WHERE name='uncompress_too_short'";
        database.connection.execute(change, []).expect("changed");
        assert!(said("ab").contains("uncompress_us_page"), "{}", said("ab"));
    }

    #[test]
    fn a_comparison_with_zero_is_described_in_words() {
        let (_dir, mut database) = a_database();
        let run = database.begin_run(&a_run("aa")).expect("begun");
        for (target, read) in [("innodb", 0.0), ("frond", 4096.0)] {
            for repeat in 1..=3 {
                let mut cell = a_cell();
                cell.steps[0].metrics.insert("rd_b_op".to_owned(), read);
                database.write_cell(run, &a_key(target, repeat), 0, &cell).expect("written");
            }
        }
        let line = |a, b| -> String {
            let text = compare(&database, a, b, false).expect("one run");
            text.lines().find(|line| line.contains("rd_b_op")).unwrap_or_default().to_owned()
        };
        assert!(line("aa:innodb", "aa:frond").contains("A is 0 WORSE"));
        assert!(line("aa:frond", "aa:innodb").contains("B is 0 better"));
    }
}
