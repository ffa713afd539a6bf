//! The table of `sizes`: the space that the same rows take in each store.
//!
//! Invariants
//! 1. The size of a store is the allocated bytes of its whole directory, divided by the rows
//!    loaded.
//! 2. Each data set is one block of lines, Frond's first if it ran.

use std::fmt::Write;

use super::table::{aligned, figure, head, notes, verdict};
use crate::goals::{against, of};
use crate::results::{Conditions, Final, PartSize, Row, Yardstick, is_target};
use crate::targets::TargetName;

const HEADS: [&str; 12] = [
    "data set",
    "target",
    "rows",
    "raw B",
    "loaded",
    "flushed",
    "settled",
    "x settled",
    "x frond",
    "goal",
    "rows/s",
    "CPU us",
];

const LEGEND: &str = "\
Bytes a row on disk, all of the store with its indexes: as the last commit left it (loaded), at once after a
checkpoint that the bench asks for (flushed; x settled: so many times the last), and at rest, compacted where
a store can be (InnoDB's tables are not made anew), and closed (settled; x frond: so many times what Frond
takes). raw: keys and values as they were given. CPU: of a row, until the store was at rest.
goal: what Frond may take at most, and RocksDB and InnoDB in pages of 4 KiB have to take at least in times of that.
";

/// Formats the table of all data sets, the goals, and the failures of targets.
pub fn sizes(conditions: &Conditions, outcomes: &[(TargetName, Final)], rows: &[Row]) -> String {
    let mut sets: Vec<&str> = Vec::new();
    for row in rows {
        if !sets.contains(&row.step.as_str()) {
            sets.push(&row.step);
        }
    }
    let (mut files, mut yardsticks, mut parts) = (String::new(), String::new(), Vec::new());
    let mut lines = vec![HEADS.map(str::to_owned).to_vec()];
    for set in sets {
        let mut rows: Vec<&Row> = rows.iter().filter(|row| row.step == set).collect();
        rows.sort_by_key(|row| row.target != "frond");
        let frond = rows.first().filter(|row| row.target == "frond").and_then(|row| row.disk_b_row);
        lines.extend(rows.iter().map(|row| line(row, frond)));
        rows.iter().for_each(|row| files.push_str(&kinds_of_files(row)));
        yardsticks.push_str(&yardstick(&rows));
        parts.extend(rows.iter().flat_map(|row| &row.parts));
    }
    let mut out = head(conditions);
    out.push_str(&aligned(&lines));
    let _ = writeln!(out, "{LEGEND}");
    if !files.is_empty() {
        let _ = writeln!(out, "Of the settled bytes a row:\n{files}");
    }
    if !yardsticks.is_empty() {
        let _ = writeln!(out, "{yardsticks}");
    }
    if !parts.is_empty() {
        let _ = writeln!(out, "{PARTS}\n{}", columns(&parts));
    }
    out + &notes(outcomes, rows)
}

const PARTS: &str = "Of Frond's leaves, bytes a row by column, and what encoding saves of them:";

/// Formats a line for each column of the tables and indexes.
fn columns(parts: &[&PartSize]) -> String {
    let heads = ["of", "column", "raw", "encoded", "saved"].map(str::to_owned).to_vec();
    let line = |part: &&PartSize| {
        let raw = if part.raw_b_row > 0.0 { format!("{:.2}", part.raw_b_row) } else { "-".into() };
        let saved = part.saved().map_or("-".to_owned(), |saved| format!("{:.1} %", 100.0 * saved));
        vec![part.keyspace.clone(), part.part.clone(), raw, format!("{:.2}", part.b_row), saved]
    };
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(parts.iter().map(line)).collect();
    let encodings = std::iter::once("as").chain(parts.iter().map(|part| part.encoding.as_str()));
    let table = aligned(&lines);
    let lines = table.lines().zip(encodings).map(|(line, encoding)| format!("{line}  {encoding}"));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn line(row: &Row, frond: Option<f64>) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), bytes);
    let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let per_row = |bytes: Option<u64>| Some(bytes? as f64 / row.ops.max(1) as f64);
    let is_frond = row.target == "frond";
    let times = row.disk_b_row.zip(frond.filter(|_| !is_frond)).map(|(theirs, ours)| theirs / ours);
    let goal = match is_frond {
        true => of(&row.step, "load", "disk_b_row").zip(row.disk_b_row).map(|(goal, bytes)| {
            format!("<= {:.0} B {}", goal.bound(), verdict(goal.is_met(bytes)))
        }),
        false => against("rocksdb", &row.step, "load", "disk_b_row")
            .filter(|_| is_target(&row.target, "rocksdb"))
            .map(|goal| {
                // The goal bounds Frond's part of the rival's size.
                let verdict = times.map(|times| verdict(goal.is_met(1.0 / times)));
                let text =
                    format!(">= {:.1} x {}", 1.0 / goal.bound(), verdict.unwrap_or_default());
                text.trim_end().to_owned()
            }),
    };
    let rows = match row.finished {
        true => row.ops.to_string(),
        false => format!("{} ({} %)", row.ops, row.percent_done()),
    };
    vec![
        row.step.clone(),
        row.target.clone(),
        rows,
        optional(row.raw_b_row),
        optional(per_row(row.disk_load_b)),
        optional(per_row(row.disk_flushed_b)),
        optional(row.disk_b_row),
        ratio(row.disk_flushed_over_end),
        ratio(times),
        goal.unwrap_or("-".to_owned()),
        figure(row.ops_s),
        row.cpu_us_op_quiesced.or(row.cpu_us_op).map_or("-".to_owned(), figure),
    ]
}

/// Lists the kinds of files that hold a store's bytes, largest first, without those below a
/// hundredth. Empty for a store with a single kind.
fn kinds_of_files(row: &Row) -> String {
    let Some(whole) = row.disk_b else { return String::new() };
    let mut kinds: Vec<(&String, u64)> =
        row.disk_files_b.iter().map(|(kind, bytes)| (kind, *bytes)).collect();
    kinds.retain(|(_, bytes)| bytes * 100 >= whole);
    kinds.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    if kinds.len() < 2 {
        return String::new();
    }
    let of = |(kind, of): &(&String, u64)| {
        format!("{kind} {}", bytes(*of as f64 / row.ops.max(1) as f64))
    };
    let kinds: Vec<String> = kinds.iter().map(of).collect();
    format!("  {} {}: {}\n", row.step, row.target, kinds.join(", "))
}

/// Formats what is known of the rows of a set themselves, and how the stores compare with it. The
/// first of `rows` is Frond's, if it ran.
fn yardstick(rows: &[&Row]) -> String {
    let Some((row, yardstick)) = rows.first().and_then(|row| Some((row, row.yardstick.as_ref()?)))
    else {
        return String::new();
    };
    match yardstick {
        Yardstick::Random { b_row, what } => {
            let taken = |row: &&Row| {
                let times = row.disk_b_row? / b_row;
                Some(format!("{} takes {times:.2} x that", row.target))
            };
            let taken: Vec<String> = rows.iter().filter_map(taken).collect();
            let (random, taken) = (bytes(*b_row), taken.join(", "));
            format!(
                "{}: {random} B of a row are random, and no store saves them ({what}); {taken}\n",
                row.step
            )
        }
        Yardstick::ColumnSplit { table, b_row, without } => {
            let of_table = row.parts.iter().filter(|part| part.keyspace == *table);
            let ours: f64 = of_table.map(|part| part.b_row).sum();
            let verdict = match row.target == "frond" && ours > 0.0 {
                true => format!(
                    "in Frond {} B; smaller than column-split + zlib-6: {}",
                    bytes(ours),
                    verdict(ours < *b_row)
                ),
                false => "not measured in Frond".to_owned(),
            };
            format!(
                "{}: {table} takes {} B a row as column-split + zlib-6 (no index, and without {without}), {verdict}\n",
                row.step,
                bytes(*b_row)
            )
        }
    }
}

/// Formats bytes of a row, to a tenth.
fn bytes(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::goals;

    fn row(target: &str, step: &str, disk: u64) -> Row {
        let mut row = Row {
            target: target.to_owned(),
            step: step.to_owned(),
            ops: 1_000,
            finished: true,
            disk_load_b: Some(disk * 2),
            disk_flushed_b: Some(disk * 3 / 2),
            disk_b: Some(disk),
            disk_b_row: Some(disk as f64 / 1e3),
            disk_flushed_over_end: Some(1.5),
            raw_b_row: Some(76.0),
            ..Row::default()
        };
        row.goals = goals(&row, &[], figure);
        row
    }

    #[test]
    fn each_set_shows_its_stores_against_frond_and_the_goals() {
        let rows = [
            row("rocksdb", "iibench", 40_000),
            row("frond", "iibench", 20_000),
            row("frond", "packages", 200_000),
            row("sqlite", "packages", 500_000),
        ];
        let text = sizes(&Conditions::default(), &[], &rows);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> = text.lines().skip(2).map(words).collect();
        let of = |index: usize| lines[index].join(" ");
        assert_eq!(of(0), "iibench frond 1000 76.0 40.0 30.0 20.0 1.50 - <= 26 B met 0.00 -");
        assert_eq!(of(1), "iibench rocksdb 1000 76.0 80.0 60.0 40.0 1.50 2.00 >= 1.3 x met 0.00 -");
        assert!(of(2).contains("<= 135 B not met"), "{}", of(2));
        assert!(of(2).starts_with("packages frond") && of(3).contains(" 500.0 1.50 2.50 - "));
        assert!(text.contains("goal    packages disk_b_row: 200, wanted <= 135: not met"));
        assert!(
            text.contains("goal    iibench flushed_over_rested: 1.50, wanted <= 1.15: not met")
        );
    }

    #[test]
    fn files_other_than_the_data_are_shown() {
        let mut frond = row("frond", "packages", 200_000);
        let kinds = [("store.frond", 150_000), ("log.frond", 48_500), ("lock", 1_500)];
        frond.disk_files_b = kinds.map(|(kind, bytes)| (kind.to_owned(), bytes)).into();
        let mut sqlite = row("sqlite", "packages", 200_000);
        sqlite.disk_files_b = [("store.sqlite".to_owned(), 200_000)].into();
        let text = sizes(&Conditions::default(), &[], &[frond, sqlite]);
        assert!(text.contains("\n  packages frond: store.frond 150.0, log.frond 48.5\n"), "{text}");
        assert!(!text.contains("store.sqlite"), "all of it is in one");
    }

    #[test]
    fn a_rival_that_is_hardly_larger_misses_the_goal() {
        let text = sizes(
            &Conditions::default(),
            &[],
            &[row("frond", "linktable", 100), row("rocksdb-m6", "linktable", 119)],
        );
        assert!(text.contains(" >= 1.2 x not met "), "{text}");
    }

    #[test]
    fn space_after_a_load_is_judged_for_every_set() {
        for set in ["sbtest", "iibench", "weblog", "linktable", "packages"] {
            for (times, verdict) in [(1.15, "met"), (1.16, "not met")] {
                let mut row =
                    Row { disk_flushed_over_end: Some(times), ..row("frond", set, 1_000) };
                row.goals = goals(&row, &[], figure);
                let text = sizes(&Conditions::default(), &[], &[row]);
                let line = format!(
                    "\ngoal    {set} flushed_over_rested: {times:.2}, wanted <= 1.15: {verdict} ("
                );
                assert!(text.contains(&line), "{line} in {text}");
            }
        }
    }

    #[test]
    fn stores_are_compared_with_the_random_bytes_of_rows() {
        let yardstick = Yardstick::Random { b_row: 71.0, what: "165 digits".to_owned() };
        let rows = [("sqlite", 142_000), ("frond", 76_680)].map(|(target, bytes)| Row {
            yardstick: Some(yardstick.clone()),
            ..row(target, "sbtest", bytes)
        });
        let text = sizes(&Conditions::default(), &[], &rows);
        let line = "\nsbtest: 71.0 B of a row are random, and no store saves them (165 digits); \
                    frond takes 1.08 x that, sqlite takes 2.00 x that\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn the_table_is_compared_with_its_columns_under_zlib() {
        let part = |keyspace: &str, b_row| PartSize {
            keyspace: keyspace.to_owned(),
            part: "c".to_owned(),
            raw_b_row: 0.0,
            b_row,
            encoding: String::new(),
        };
        let line = |b_row, target| {
            let (table, without) = ("perf_log".to_owned(), "log_id".to_owned());
            let row = Row {
                yardstick: Some(Yardstick::ColumnSplit { table, b_row, without }),
                parts: vec![part("perf_log", 14.0), part("perf_log", 10.0), part("ix_proc", 4.0)],
                ..row(target, "weblog", 1_000)
            };
            let text = sizes(&Conditions::default(), &[], &[row]);
            let line = text.lines().find(|line| line.starts_with("weblog: ")).map(str::to_owned);
            line.unwrap_or(text)
        };
        let begin = "weblog: perf_log takes 24.1 B a row as column-split + zlib-6 (no index, and without log_id), ";
        assert_eq!(
            line(24.1, "frond"),
            format!("{begin}in Frond 24.0 B; smaller than column-split + zlib-6: met")
        );
        assert!(
            line(24.0, "frond").ends_with("24.0 B; smaller than column-split + zlib-6: not met")
        );
        assert_eq!(line(24.1, "sqlite"), format!("{begin}not measured in Frond"));
    }

    #[test]
    fn columns_are_listed_with_their_savings() {
        let part = |part: &str, raw_b_row, b_row, encoding: &str| PartSize {
            keyspace: "linktable".to_owned(),
            part: part.to_owned(),
            raw_b_row,
            b_row,
            encoding: encoding.to_owned(),
        };
        let parts = vec![
            part("id1", 8.0, 0.5, "packed"),
            part("data", 10.0, 11.0, "raw and another"),
            part("(models, headers, index)", 0.0, 0.2, ""),
        ];
        let row = Row { parts, ..row("frond", "linktable", 100) };
        let text = sizes(&Conditions::default(), &[], &[row]);
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> =
            text.lines().skip_while(|line| *line != PARTS).skip(1).map(words).collect();
        assert_eq!(lines[0], "of column raw encoded saved as");
        assert_eq!(lines[1], "linktable id1 8.00 0.50 93.8 % packed");
        assert_eq!(lines[2], "linktable data 10.00 11.00 - raw and another");
        assert_eq!(lines[3], "linktable (models, headers, index) - 0.20 -");
    }

    #[test]
    fn sets_without_frond_have_no_ratio_to_it() {
        let text = sizes(&Conditions::default(), &[], &[row("sqlite", "sbtest", 1)]);
        let line = text.lines().nth(2).unwrap_or_default();
        assert!(line.contains(" 1.50        -"), "{line}");
    }
}
