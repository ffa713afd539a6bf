//! `lab compare A B`: compares two runs, or two targets, metric by metric.
//!
//! Invariants
//! 1. Runs on different machines, or of different size, class, durability, seed or memory are
//!    compared only on request, and then each line says so.
//! 2. A difference that is not significant is never called better or worse.

use std::collections::BTreeMap;

use super::exchange::short;
use super::metric;
use super::results::{Database, Measured, RunInfo};
use super::statistics::{self, FEW, Ratio, Sample, Verdict};
use crate::targets::{Failure, Result};

/// One side of the comparison: a run (`RUN`), or one target of a run (`RUN:TARGET`).
struct Side {
    run: RunInfo,
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
        let mut values = database.measured(run.id)?;
        if let Some(target) = &target {
            values.retain(|one| one.target == *target);
            if values.is_empty() {
                return Err(Failure(format!("run {} has no results of {target}", run.uid)));
            }
        }
        Ok(Self { run, target, values })
    }
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
    let pairs = [
        ("machine", &one.machine, &other.machine),
        ("size", &one.size, &other.size),
        ("class", &one.class, &other.class),
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

/// The verdict on B compared with A, as printed.
fn said(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "WORSE",
        Verdict::Differs => "differs",
        Verdict::Insignificant(FEW) => "one or two repeats: nothing can be said",
        Verdict::Insignificant(_) => "",
    }
}

/// The ratio B ÷ A, as printed.
fn ratio(found: Option<&Ratio>) -> String {
    match found {
        Some(found) if !found.has_zero() => format!("{:.3}", found.median),
        Some(found) if found.median > 0.0 => "A is 0".to_owned(),
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
    let differences = differences(&a, &b);
    if !differences.is_empty() && !anyway {
        return Err(Failure(format!(
            "these runs were measured under different conditions: {}; --anyway compares them",
            differences.join(", ")
        )));
    }
    let by_target = a.target.is_none() && b.target.is_none();
    let (ones, others) = (keyed(&a, by_target), keyed(&b, by_target));
    let is_one_run = a.run.id == b.run.id;
    let warning = match differences.is_empty() {
        true => String::new(),
        false => format!("  NOT COMPARABLE: {}", differences.join(", ")),
    };
    let name = |side: &Side| match &side.target {
        Some(target) => format!("{}:{target}", side.run.uid),
        None => side.run.uid.clone(),
    };
    let mut out = format!("A = {}, B = {}; medians, min–max, B/A\n", name(&a), name(&b));
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
            .and_then(|metric| statistics::compare(other, one, metric, is_one_run));
        let verdict = found.map_or("", |found| said(found.verdict));
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
        database.connection.execute("UPDATE cell SET memory_b=7 WHERE run=2", []).expect("changed");
        let refused = compare(&database, "aa", "ab", false).expect_err("another memory");
        assert!(refused.0.contains("memory of iibench 67108864/7"), "{refused}");
        assert!(compare(&database, "a", "b", true).is_err_and(|f| f.0.contains("2 runs begin")));
        assert!(compare(&database, "zz", "b", true).is_err());
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
