//! Goals relative to RocksDB: Frond's figures compared with RocksDB's from the same run.
//!
//! Invariants
//! 1. Each figure is compared with the best that any of RocksDB's settings reached in the same run,
//!    column by column: no single setting has to be best at everything.
//! 2. A column that is not measured for both is not judged.

use serde::{Deserialize, Serialize};

use super::Row;

/// A goal and its result.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Goal {
    /// Column that is compared.
    pub column: String,
    /// What is compared, in words.
    pub what: String,
    /// Required ratio of Frond's figure to the rival's: at least `factor` if more is better, else
    /// at most.
    pub more_is_better: bool,
    pub factor: f64,
    /// Frond's figure.
    pub measured: f64,
    /// The rival's best figure.
    pub rival_measured: f64,
    /// The setting of the rival that reached it, and how far it got if it was stopped.
    pub rival: String,
}

impl Goal {
    /// Returns the ratio of Frond's figure to the rival's.
    pub fn times(&self) -> f64 {
        self.measured / self.rival_measured.max(f64::MIN_POSITIVE)
    }

    /// Whether the goal is met.
    pub fn is_met(&self) -> bool {
        match self.more_is_better {
            true => self.times() >= self.factor,
            false => self.times() <= self.factor,
        }
    }

    /// Formats the goal: `>= 3`, `<= 0.33`.
    pub fn wanted(&self) -> String {
        format!("{} {}", if self.more_is_better { ">=" } else { "<=" }, times(self.factor))
    }
}

/// Formats a factor with at most two decimals, without trailing zeros.
pub fn times(factor: f64) -> String {
    format!("{factor:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

type Column = fn(&Row) -> Option<f64>;

/// Step, column, how to read it, whether more is better, factor, description.
const GOALS: [(&str, &str, Column, bool, f64, &str); 5] = [
    ("iibench", "exit_velocity", |row| row.exit_velocity, true, 3.0, "rows/s at the end"),
    // CPU and bytes include the background work that is left when the last row is in.
    ("iibench", "cpu_us_op", cpu, false, 1.0 / 3.0, "CPU of the engine a row, all of it"),
    ("iibench", "wr_b_op", written, false, 0.8, "bytes written a row"),
    ("readrandom", "ops_s", |row| Some(row.ops_s), true, 1.3, "gets/s, for data of 3 x the memory"),
    ("readseq", "ops_s", |row| Some(row.ops_s), true, 2.0, "rows/s of a scan"),
];

fn cpu(row: &Row) -> Option<f64> {
    row.cpu_us_op_quiesced.or(row.cpu_us_op)
}

fn written(row: &Row) -> Option<f64> {
    row.wr_b_op_quiesced.or(row.wr_b_op)
}

/// Returns the ratio of a store's rows, in raw bytes, to its memory.
fn data_over_memory(row: &Row, memory_b: u64) -> Option<f64> {
    let rows = row.disk_b? as f64 / row.disk_b_row?;
    (memory_b > 0).then(|| row.raw_b_row.map(|raw| raw * rows / memory_b as f64))?
}

/// Returns the goals that apply to `frond`, a row of Frond, compared with `rows`, all rows of the
/// same run with a memory of `memory_b`.
pub fn goals(frond: &Row, rows: &[Row], memory_b: u64) -> Vec<Goal> {
    let of_step = GOALS.iter().filter(|(step, ..)| *step == frond.step);
    of_step
        .filter_map(|&(step, name, column, more_is_better, factor, what)| {
            let measured = column(frond).filter(|measured| *measured > 0.0)?;
            let rivals = rows.iter().filter(|row| row.step == step && is_rocksdb(&row.target));
            let figures = rivals.filter_map(|row| Some((row, column(row)?)));
            let figures = figures.filter(|(_, figure)| *figure > 0.0);
            let better =
                |a: f64, b: f64| if more_is_better { a.total_cmp(&b) } else { b.total_cmp(&a) };
            let (best, rival_measured) = figures.max_by(|a, b| better(a.1, b.1))?;
            let rival = match best.finished {
                true => best.target.clone(),
                false => format!("{}, stopped at {} %", best.target, best.percent_done()),
            };
            let column = name.to_owned();
            let what = match data_over_memory(frond, memory_b).filter(|_| what.contains("memory")) {
                Some(times) => format!("{what}; here {times:.1} x"),
                None => what.to_owned(),
            };
            Some(Goal { column, what, more_is_better, factor, measured, rival_measured, rival })
        })
        .collect()
}

/// Whether a target is RocksDB, with any settings.
pub fn is_rocksdb(target: &str) -> bool {
    target == "rocksdb" || target.starts_with("rocksdb-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, step: &str) -> Row {
        Row { target: target.to_owned(), step: step.to_owned(), finished: true, ..Row::default() }
    }

    fn iibench(target: &str, exit: f64, cpu: f64, written: f64) -> Row {
        Row {
            exit_velocity: Some(exit),
            cpu_us_op: Some(cpu),
            wr_b_op: Some(written),
            ..row(target, "iibench")
        }
    }

    fn verdicts(goals: &[Goal]) -> Vec<(&str, &str, bool)> {
        let verdict = |goal: &'_ Goal| goal.is_met();
        goals.iter().map(|goal| (&*goal.column, &*goal.rival, verdict(goal))).collect()
    }

    #[test]
    fn each_column_is_compared_with_the_best_rival() {
        let frond = iibench("frond", 300.0, 3.0, 81.0);
        let rows = [
            iibench("rocksdb-m3", 100.0, 12.0, 101.0),
            frond.clone(),
            iibench("rocksdb-m6", 90.0, 8.9, 100.0),
            iibench("sqlite", 1e6, 0.1, 1.0),
            Row { exit_velocity: Some(1e6), ..row("rocksdb", "other") },
        ];
        let goals = goals(&frond, &rows, 0);
        let expected = [
            ("exit_velocity", "rocksdb-m3", true), // 3.00 times
            ("cpu_us_op", "rocksdb-m6", false),    // more than a third
            ("wr_b_op", "rocksdb-m6", false),      // 0.81
        ];
        assert_eq!(verdicts(&goals), expected);
        assert_eq!((goals[0].times(), goals[0].wanted()), (3.0, ">= 3".to_owned()));
        assert_eq!((goals[1].wanted(), goals[2].wanted()), ("<= 0.33".into(), "<= 0.8".into()));
    }

    #[test]
    fn a_goal_is_met_at_its_factor() {
        let with = |ops_s, target: &str, step: &str| Row { ops_s, ..row(target, step) };
        for (step, factor) in [("readrandom", 1.3), ("readseq", 2.0)] {
            for (times, is_met) in [(factor, true), (factor - 0.01, false)] {
                let frond = with(1000.0 * times, "frond", step);
                let goals = goals(&frond, &[with(1000.0, "rocksdb", step), frond.clone()], 0);
                assert_eq!(verdicts(&goals), [("ops_s", "rocksdb", is_met)], "{step}");
            }
        }
        let frond = iibench("frond", 299.0, 4.0, 80.0);
        let goals = goals(&frond, &[iibench("rocksdb", 100.0, 12.0, 100.0)], 0);
        assert_eq!(goals.iter().map(Goal::is_met).collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn goals_use_quiesced_costs_if_measured() {
        let paid = |row: Row, cpu, written| Row {
            cpu_us_op_quiesced: Some(cpu),
            wr_b_op_quiesced: Some(written),
            ..row
        };
        let frond = paid(iibench("frond", 1.0, 1.0, 1.0), 5.0, 90.0);
        let goals = goals(&frond, &[paid(iibench("rocksdb", 1.0, 1.0, 1.0), 10.0, 100.0)], 0);
        let figures = goals[1..].iter().map(|goal| (goal.measured, goal.rival_measured));
        assert_eq!(figures.collect::<Vec<_>>(), [(5.0, 10.0), (90.0, 100.0)]);
    }

    #[test]
    fn goals_state_the_data_to_memory_ratio() {
        let read = |target: &str| Row {
            ops_s: 1.0,
            raw_b_row: Some(400.0),
            disk_b: Some(1_000_000),
            disk_b_row: Some(200.0),
            ..row(target, "readrandom")
        };
        let what = |memory| goals(&read("frond"), &[read("rocksdb")], memory).remove(0).what;
        assert!(what(800_000).ends_with("3 x the memory; here 2.5 x"), "{}", what(800_000));
        assert!(what(0).ends_with("3 x the memory"), "{}", what(0));
    }

    #[test]
    fn columns_not_measured_on_both_sides_are_not_judged() {
        let frond = Row { cpu_us_op: None, ..iibench("frond", 3.0, 1.0, 1.0) };
        assert_eq!(goals(&frond, &[frond.clone(), iibench("sqlite", 1.0, 1.0, 1.0)], 0), []);
        let stopped =
            Row { ops: 42, ops_planned: 100, finished: false, ..row("rocksdb", "iibench") };
        let rival = Row { exit_velocity: Some(1.0), ..stopped };
        assert_eq!(
            verdicts(&goals(&frond, &[rival], 0)),
            [("exit_velocity", "rocksdb, stopped at 42 %", true)]
        );
    }
}
