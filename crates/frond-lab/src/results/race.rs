//! What Frond is to reach in SQL, beside the engines of the same run: the published experiment.
//!
//! Invariants
//! 1. What neither or only one of them has measured is not judged.

use super::Row;

/// A bar, and what came of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// What is measured, in words.
    pub what: &'static str,
    /// Frond's figure.
    pub measured: f64,
    /// The engine that it is held against, and its figure; `None` where the bar is a figure.
    pub rival: Option<(&'static str, f64)>,
    /// Whether the bar is a least figure, or a largest one.
    pub more_is_better: bool,
    /// The bar: a figure, or times the rival's.
    pub bar: f64,
}

impl Bar {
    /// What is held against the bar: the figure, or times the rival's.
    pub fn reached(&self) -> f64 {
        self.rival.map_or(self.measured, |(_, rival)| self.measured / rival.max(f64::MIN_POSITIVE))
    }

    /// Whether it is reached.
    pub fn is_met(&self) -> bool {
        match self.more_is_better {
            true => self.reached() >= self.bar,
            false => self.reached() <= self.bar,
        }
    }
}

type Column = fn(&Row) -> Option<f64>;

const EXIT: (&str, Column) = ("rows/s at the end", |row| row.exit_velocity);
const SIZE: (&str, Column) = ("bytes a row on disk", |row| row.disk_b_row);
const EVEN: (&str, Column) = ("worst second over the mean", |row| row.worst_over_mean);
const CPU: (&str, Column) = ("CPU us a row, all of the server", |row| row.cpu_us_op);

/// Figure, the engine it is held against, whether more is better, the bar.
type Entry = ((&'static str, Column), Option<&'static str>, bool, f64);

const RELAXED: [Entry; 7] = [
    (EXIT, Some("sql:blackhole"), true, 0.5),
    // TokuDB's figure against the same.
    (EXIT, Some("sql:innodb-4k"), true, 33.4),
    (EXIT, Some("sql:myrocks"), true, 5.0),
    (SIZE, None, false, 30.0),
    (SIZE, Some("sql:innodb-4k"), false, 0.5),
    (EVEN, None, true, 0.8),
    (CPU, None, false, 6.0),
];

const DURABLE: [Entry; 1] = [(EXIT, Some("sql:innodb-4k"), true, 10.0)];

/// The bars of a run of iiBench at this durability.
pub fn bars(rows: &[Row], durability: &str) -> Vec<Bar> {
    let of = |target: &str| rows.iter().find(|row| row.target == target && row.step == "iibench");
    let Some(frond) = of("sql:frond") else { return Vec::new() };
    let entries: &[Entry] = if durability == "sync" { &DURABLE } else { &RELAXED };
    let bar = |&((what, column), rival, more_is_better, bar): &Entry| {
        let measured = column(frond)?;
        let rival = match rival {
            Some(target) => Some((target, column(of(target)?)?)),
            None => None,
        };
        Some(Bar { what, measured, rival, more_is_better, bar })
    };
    entries.iter().filter_map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(target: &str, exit: f64, bytes: Option<f64>) -> Row {
        Row {
            target: target.to_owned(),
            step: "iibench".to_owned(),
            exit_velocity: Some(exit),
            disk_b_row: bytes,
            ..Row::default()
        }
    }

    #[test]
    fn bars_are_met_from_their_factor_on() {
        let rows = [
            row("sql:blackhole", 400.0, None),
            row("sql:frond", 200.0, Some(25.0)),
            row("sql:innodb-4k", 6.0, Some(49.0)),
        ];
        let verdicts = |durability| {
            let bars = bars(&rows, durability);
            bars.iter().map(|bar| (bar.what, bar.rival, bar.is_met())).collect::<Vec<_>>()
        };
        let expected = [
            (EXIT.0, Some(("sql:blackhole", 400.0)), true),
            (EXIT.0, Some(("sql:innodb-4k", 6.0)), false), // 33.3 times
            (SIZE.0, None, true),
            (SIZE.0, Some(("sql:innodb-4k", 49.0)), false), // 0.51 times
        ];
        assert_eq!(verdicts("lazy"), expected);
        assert_eq!(verdicts("sync"), [(EXIT.0, Some(("sql:innodb-4k", 6.0)), true)]);
        assert_eq!(bars(&rows[..1], "lazy"), []);
    }
}
