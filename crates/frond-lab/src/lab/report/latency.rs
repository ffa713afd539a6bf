//! Latencies of a group: percentiles of a step per target, and per kind of operation.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::bars::title;
use super::figure::{Axis, Chart, Figure, Line, Table};
use super::group::Group;
use super::number::human;
use super::query::Results;
use super::sentence::{Entry, ranking};
use crate::lab::metric::Better;
use crate::lab::statistics::Spread;
use crate::lab::step::measured::TAIL;
use crate::targets::Result;

/// The percentiles: metric, and name on the axis.
const PERCENTILES: [(&str, &str); 5] = [
    ("p50_us", "50 %"),
    ("p95_us", "95 %"),
    ("p99_us", "99 %"),
    ("p999_us", "99.9 %"),
    ("max_us", "max"),
];

/// A chart of the latency percentiles of a step.
pub fn percentiles(group: &Group<'_>, step: &str) -> Option<Figure> {
    let mut table = Table::new(&["target"]);
    table.head.extend(PERCENTILES.iter().map(|(_, name)| (*name).to_owned()));
    let (mut lines, mut entries) = (Vec::new(), Vec::new());
    for target in &group.targets {
        let values =
            PERCENTILES.map(|(name, _)| target.median(step, name).filter(|value| *value > 0.0));
        let points: Vec<[f64; 2]> =
            (0_u8..).zip(values).filter_map(|(at, value)| Some([f64::from(at), value?])).collect();
        if points.is_empty() {
            continue;
        }
        let mut row = vec![target.name.to_owned()];
        row.extend(values.map(|value| value.map_or("–".to_owned(), |value| human(value, "µs"))));
        table.rows.push(row);
        entries.extend(values[2].map(|value| Entry { target: target.name, value }));
        lines.push(Line::of(target.name, target.look, points));
    }
    if lines.is_empty() {
        return None;
    }
    let ranked = ranking(&entries, "µs", Better::Lower, group.base_name());
    let sentence = if ranked.is_empty() { ranked } else { format!("99th percentile. {ranked}") };
    let values = lines.iter().flat_map(|line| &line.points).map(|point| point[1]);
    let y = Axis::log("latency", "µs", values);
    let names = PERCENTILES.map(|(_, name)| name.to_owned()).to_vec();
    let x = Axis { scale: "names", names, ..Axis::linear("share of requests not slower", "") };
    let chart = Chart::Lines { x, y, lines };
    Some(Figure::new(&title("Latency", step), &chart, sentence, table))
}

/// A table of the latencies of each operation: medians over the repeats.
///
/// # Errors
/// The database cannot be read.
pub fn operations(results: &Results<'_>, group: &Group<'_>, step: &str) -> Result<Option<Table>> {
    let head = ["operation", "target", "requests", "50 %", "95 %", "99 %", "99.9 %", "max"];
    let mut table = Table::new(&head);
    // By operation, and position of the target.
    let mut found: BTreeMap<(String, usize), Vec<Histogram<u64>>> = BTreeMap::new();
    for (at, target) in group.targets.iter().enumerate() {
        for cell in &target.cells {
            for (operation, histogram) in results.histograms(cell.id, step)? {
                if !histogram.is_empty() {
                    found.entry((operation, at)).or_default().push(histogram);
                }
            }
        }
    }
    for ((operation, at), repeats) in found {
        let median = |of: &dyn Fn(&Histogram<u64>) -> u64| {
            let values: Vec<f64> = repeats.iter().map(|one| of(one) as f64).collect();
            Spread::of(&values).map_or(0.0, |spread| spread.median)
        };
        let at_quantile = |quantile| median(&|one| one.value_at_quantile(quantile));
        let us = |ns: f64| human(ns / 1e3, "µs");
        let requests = median(&|one| one.len());
        let mut row = vec![operation, group.targets[at].name.to_owned(), human(requests, "")];
        row.push(us(at_quantile(0.5)));
        row.extend(TAIL.map(|tail| match requests >= tail.requests_min() as f64 {
            true => us(at_quantile(tail.quantile)),
            false => "–".to_owned(),
        }));
        row.push(us(median(&|one| one.max())));
        table.rows.push(row);
    }
    Ok((!table.rows.is_empty()).then_some(table))
}
