//! Charts of the counters that engines report: over time, and by kind of index.
//!
//! Engines count the same quantity under different names. A chart shows an engine only if it counts
//! the quantity.

use super::bars::title;
use super::curves::{POINTS_MAX, lower_first, mean, rates, thin, typical};
use super::figure::{Axis, Bar, Chart, Figure, Line, Part, Table};
use super::group::{Group, Target};
use super::number::human;
use super::palette;
use super::query::{Cell, Results};
use super::sentence::{Entry, list, ranking};
use crate::lab::metric::Better;
use crate::lab::statistics::Spread;
use crate::targets::Result;

/// A counter: its source and its name, in which `*` is any text.
type Name = (&'static str, &'static str);

/// An engine's counters of a quantity, which are added up. In MariaDB, InnoDB is there for the
/// server's own tables even if another engine has the table: its counters count only if those of no
/// other engine are there.
struct Names {
    embedded: &'static [Name],
    frond: &'static [Name],
    rocksdb: &'static [Name],
    innodb: &'static [Name],
}

/// A quantity that changes over time.
pub struct Quantity {
    title: &'static str,
    axis: &'static str,
    unit: &'static str,
    /// Whether its value is drawn, and not its growth per second.
    is_level: bool,
    names: Names,
    /// Counters that are subtracted.
    minus: &'static [Name],
}

/// Minimum number of points of a curve: fewer say no more than their mean.
const POINTS_MIN: usize = 5;
const STATUS: &str = "global_status";
const STORE: &str = "engine";

/// The quantities that tell most of what an engine does in the course of a step.
pub const QUANTITIES: &[Quantity] = &[
    Quantity {
        title: "Cache misses over time",
        axis: "pages or blocks read that were not in the cache, per second",
        unit: "1/s",
        is_level: false,
        names: Names {
            embedded: &[(STORE, "cache_misses")],
            frond: &[(STATUS, "Frond_cache_misses")],
            rocksdb: &[(STATUS, "Rocksdb_block_cache_miss")],
            innodb: &[(STATUS, "Innodb_buffer_pool_reads")],
        },
        minus: &[],
    },
    Quantity {
        title: "Changes in memory over time",
        axis: "bytes changed in memory and not yet written to the files of the data",
        unit: "B",
        is_level: true,
        names: Names {
            embedded: &[
                (STORE, "memtables_bytes"),
                (STORE, "runs_unwritten_bytes_now"),
                (STORE, "memtables_b"),
            ],
            frond: &[(STATUS, "Frond_memtables_bytes"), (STATUS, "Frond_runs_unwritten_bytes")],
            rocksdb: &[(STATUS, "Rocksdb_memtable_unflushed")],
            innodb: &[(STATUS, "Innodb_buffer_pool_bytes_dirty")],
        },
        minus: &[],
    },
    Quantity {
        title: "Log written over time",
        axis: "bytes written to the log per second",
        unit: "B",
        is_level: false,
        names: Names {
            embedded: &[(STORE, "log_written_bytes"), (STORE, "wal_written_b_all")],
            frond: &[(STATUS, "Frond_log_written_bytes")],
            rocksdb: &[(STATUS, "Rocksdb_wal_bytes")],
            innodb: &[(STATUS, "Innodb_os_log_written")],
        },
        minus: &[],
    },
    Quantity {
        title: "Compressions over time",
        axis: "pages or blocks compressed per second",
        unit: "1/s",
        is_level: false,
        names: Names {
            embedded: &[],
            frond: &[("frond_cmp", "*.compress_ops")],
            rocksdb: &[],
            innodb: &[("innodb_cmp", "*.compress_ops")],
        },
        minus: &[],
    },
    Quantity {
        title: "Failed compressions over time",
        axis: "pages per second that did not become small enough",
        unit: "1/s",
        is_level: false,
        names: Names {
            embedded: &[],
            frond: &[],
            rocksdb: &[],
            innodb: &[("innodb_cmp", "*.compress_ops")],
        },
        minus: &[("innodb_cmp", "*.compress_ops_ok")],
    },
];

impl Names {
    /// The names for the engine of a cell, which its counters show.
    fn of(&self, results: &Results<'_>, cell: i64, step: &str) -> Result<&'static [Name]> {
        let engines: [(Name, &'static [Name]); 3] = [
            ((STORE, "*"), self.embedded),
            ((STATUS, "Frond_*"), self.frond),
            ((STATUS, "Rocksdb_*"), self.rocksdb),
        ];
        for (any, names) in engines {
            if !results.counter(cell, step, &[any])?.is_empty() {
                return Ok(names);
            }
        }
        Ok(self.innodb)
    }
}

impl Quantity {
    /// The points of a cell, as (seconds, value). Empty if the engine does not count the quantity.
    fn points(&self, results: &Results<'_>, cell: &Cell, step: &str) -> Result<Vec<[f64; 2]>> {
        let names = self.names.of(results, cell.id, step)?;
        let mut values = results.counter(cell.id, step, names)?;
        let minus = results.counter(cell.id, step, self.minus)?;
        // Both have a value for each sample.
        for (value, minus) in values.iter_mut().zip(minus) {
            value.1 -= minus.1;
        }
        Ok(match self.is_level {
            true => thin(values.into_iter().map(|(t, value)| [t, value]).collect()),
            false => rates(&values, false, POINTS_MAX),
        })
    }
}

/// A chart of a quantity over time, in the repeat of each target that is nearest to the median.
/// `None` if no target has enough points, or none that is not 0.
///
/// # Errors
/// The database cannot be read.
pub fn over_time(
    results: &Results<'_>,
    group: &Group<'_>,
    step: &str,
    quantity: &Quantity,
) -> Result<Option<Figure>> {
    let mut table = Table::new(&["target", "mean", "least", "most", "last"]);
    let (mut lines, mut entries) = (Vec::new(), Vec::new());
    for target in group.targets.iter().filter(|target| !palette::is_null(target.name)) {
        let Some(cell) = typical(target, step) else { continue };
        let points = quantity.points(results, cell, step)?;
        let values: Vec<f64> = points.iter().map(|point| point[1]).collect();
        let Some(spread) = Spread::of(&values).filter(|_| values.len() >= POINTS_MIN) else {
            continue;
        };
        let last = values.last().copied().unwrap_or_default();
        let shown = [mean(&points), spread.min, spread.max, last];
        let mut row = vec![target.name.to_owned()];
        row.extend(shown.map(|value| human(value, quantity.unit)));
        table.rows.push(row);
        entries.push(Entry { target: target.name, value: mean(&points) });
        lines.push(Line::of(target.name, target.look, points));
    }
    if lines.iter().flat_map(|line| &line.points).all(|point| point[1] == 0.0) {
        return Ok(None);
    }
    let ranked = ranking(&entries, quantity.unit, Better::Neither, group.base_name());
    let sentence = format!("Mean of {}: {}", quantity.axis, lower_first(&ranked));
    let y = Axis::linear(quantity.axis, quantity.unit);
    let chart = Chart::Lines { x: Axis::linear("seconds", "s"), y, lines };
    Ok(Some(Figure::new(&title(quantity.title, step), &chart, sentence, table)))
}

/// What Frond counts for primary and for secondary indexes: column head, unit, and the part of the
/// counter's name between codec and kind of index.
const BY_INDEX: [(&str, &str, &str); 5] = [
    ("compressed", "", "compressed"),
    ("small enough", "", "compressed_ok"),
    ("seconds", "s", "compressed_seconds"),
    ("uncompressed", "", "decompressed"),
    ("seconds of it", "s", "decompressed_seconds"),
];

/// A chart of the blocks compressed, of primary and of secondary indexes, with a table of all
/// counters that are kept for each of them. `None` if no target keeps them.
///
/// # Errors
/// The database cannot be read.
pub fn by_index(results: &Results<'_>, group: &Group<'_>, step: &str) -> Result<Option<Figure>> {
    let mut table = Table::new(&["target"]);
    for kind in ["primary", "secondary"] {
        table.head.extend(BY_INDEX.map(|(head, ..)| format!("{kind}: {head}")));
    }
    let (mut bars, mut entries, mut without) = (Vec::new(), Vec::new(), Vec::new());
    for target in group.targets.iter().filter(|target| !palette::is_null(target.name)) {
        let mut row = vec![target.name.to_owned()];
        let mut parts = Vec::new();
        for kind in ["primary", "secondary"] {
            for (_, unit, what) in BY_INDEX {
                let name = format!("Frond_zip_*_{what}_{kind}");
                let grown = growth(results, target, step, (STATUS, &name))?;
                row.push(grown.map_or("–".to_owned(), |value| human(value, unit)));
                if what == "compressed" {
                    let (value, is_pale) = (grown.unwrap_or_default(), kind == "secondary");
                    parts.push(Part { name: kind.to_owned(), value, is_pale, repeats: Vec::new() });
                }
            }
        }
        let sum: f64 = parts.iter().map(|part| part.value).sum();
        if sum == 0.0 {
            without.push(target.name);
            continue;
        }
        table.rows.push(row);
        entries.push(Entry { target: target.name, value: sum });
        let (name, label, look) = (target.name.to_owned(), human(sum, ""), target.look);
        bars.push(Bar { name, label, look, parts });
    }
    if bars.is_empty() {
        return Ok(None);
    }
    let mut sentence = ranking(&entries, "", Better::Neither, group.base_name());
    if !without.is_empty() {
        sentence.push_str(&format!(
            " Not counted by kind of index, or nothing compressed: {}.",
            list(&without)
        ));
    }
    let chart = Chart::Bars { x: Axis::linear("", ""), bars, limit: None, is_stacked: true };
    let title = title("Blocks compressed, by kind of index", step);
    Ok(Some(Figure::new(&title, &chart, sentence, table)))
}

/// The median over the repeats of a counter's growth in a step. `None` if it is not there.
fn growth(
    results: &Results<'_>,
    target: &Target<'_>,
    step: &str,
    name: (&str, &str),
) -> Result<Option<f64>> {
    let mut grown = Vec::new();
    for cell in &target.cells {
        let values = results.counter(cell.id, step, &[name])?;
        grown.extend(values.first().zip(values.last()).map(|(first, last)| last.1 - first.1));
    }
    Ok(Spread::of(&grown).map(|spread| spread.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::testing::Lab;

    fn figure(lab: &Lab, title: &str) -> Result<Option<Figure>> {
        let results = Results::read(&lab.database, &[])?;
        let groups = Group::all(&results);
        let quantity = QUANTITIES.iter().find(|quantity| quantity.title == title);
        over_time(&results, &groups[0], "load", quantity.expect("a quantity"))
    }

    fn lines(figure: &Figure) -> serde_json::Value {
        let chart: serde_json::Value = serde_json::from_str(&figure.chart).expect("JSON");
        chart["lines"].clone()
    }

    #[test]
    fn counters_are_drawn_under_the_names_of_each_engine() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "rowformats", "standard", "safe");
        for (target, name) in
            [("innodb", "Innodb_buffer_pool_reads"), ("frond", "Frond_cache_misses")]
        {
            let cell = lab.cell("sql", "rowformats", "", target, 1);
            for t in [0.0, 10.0, 20.0, 30.0, 40.0, 50.0] {
                cell.counter("load", t, "global_status", "Uptime", t + 5.0);
            }
            // Unchanged between 10 and 20 s, and 0 at the start.
            cell.counter("load", 10.0, "global_status", name, 100.0);
            cell.counter("load", 30.0, "global_status", name, 400.0);
            if target == "frond" {
                // The server's own tables.
                cell.counter("load", 0.0, "global_status", "Innodb_buffer_pool_reads", 7000.0);
            }
        }
        let figure = figure(&lab, "Cache misses over time")?.expect("a chart");
        let lines = lines(&figure);
        for (at, target) in ["frond", "innodb"].into_iter().enumerate() {
            let points = serde_json::json!([
                [10.0, 10.0],
                [20.0, 0.0],
                [30.0, 30.0],
                [40.0, 0.0],
                [50.0, 0.0]
            ]);
            assert_eq!((&lines[at]["name"], &lines[at]["points"]), (&target.into(), &points));
        }
        assert_eq!(figure.table.rows[0], ["frond", "8/s", "0/s", "30/s", "0/s"]);
        assert!(figure.sentence.contains("frond and innodb: 8/s each"), "{}", figure.sentence);
        assert!(super::tests::figure(&lab, "Log written over time")?.is_none());
        Ok(())
    }

    #[test]
    fn levels_are_drawn_as_they_are_and_failures_as_a_difference() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "rowformats", "standard", "safe");
        let cell = lab.cell("sql", "rowformats", "", "innodb-4k", 1);
        for (t, dirty) in [(0.0, 50.0), (10.0, 90.0), (20.0, 20.0), (30.0, 40.0), (40.0, 60.0)] {
            cell.counter("load", t, "global_status", "Innodb_buffer_pool_bytes_dirty", dirty);
            cell.counter("load", t, "innodb_cmp", "4096 B.compress_ops", t * 10.0);
            cell.counter("load", t, "innodb_cmp", "4096 B.compress_ops_ok", t * 9.0);
        }
        let dirty = figure(&lab, "Changes in memory over time")?.expect("a chart");
        let points = [[0.0, 50.0], [10.0, 90.0], [20.0, 20.0], [30.0, 40.0], [40.0, 60.0]];
        assert_eq!(lines(&dirty)[0]["points"], serde_json::json!(points));
        assert!(figure(&lab, "Failed compressions over time")?.is_none(), "only four intervals");
        // The repeat with a rate is the typical one.
        let cell = lab.cell("sql", "rowformats", "", "innodb-4k", 2);
        cell.metric("load", "ops_s", 5.0);
        for (t, all, good) in [(0.0, 0.0, 0.0), (10.0, 100.0, 90.0), (20.0, 300.0, 270.0)] {
            cell.counter("load", t, "innodb_cmp", "4096 B.compress_ops", all);
            cell.counter("load", t, "innodb_cmp", "4096 B.compress_ops_ok", good);
        }
        for (t, all) in [(30.0, 350.0), (40.0, 360.0), (50.0, 370.0)] {
            cell.counter("load", t, "innodb_cmp", "4096 B.compress_ops", all);
        }
        let failed = figure(&lab, "Failed compressions over time")?.expect("a chart");
        let points = [[10.0, 1.0], [20.0, 2.0], [30.0, 5.0], [40.0, 1.0], [50.0, 1.0]];
        assert_eq!(lines(&failed)[0]["points"], serde_json::json!(points));
        Ok(())
    }

    #[test]
    fn counters_of_primary_and_secondary_indexes_are_kept_apart() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "zip", "standard", "safe");
        let cell = lab.cell("sql", "zip", "", "frond", 1);
        for (name, first, last) in [
            ("zstd1_compressed_primary", 10.0, 110.0),
            ("lz4_compressed_primary", 0.0, 40.0),
            ("zstd1_compressed_ok_primary", 10.0, 100.0),
            ("zstd1_compressed_secondary", 1.0, 8.0),
            ("zstd1_decompressed_secondary", 5.0, 6.0),
        ] {
            let name = format!("Frond_zip_{name}");
            cell.counter("rebuild", 0.0, "global_status", &name, first);
            cell.counter("rebuild", 9.0, "global_status", &name, last);
        }
        lab.cell("sql", "zip", "", "innodb-8k", 1).metric("rebuild", "compress_ops", 9.0);
        let results = Results::read(&lab.database, &[])?;
        let group = &Group::all(&results)[0];
        let figure = by_index(&results, group, "rebuild")?.expect("a chart");
        let row = ["frond", "140", "90", "–", "–", "–", "7", "–", "–", "1", "–"];
        assert_eq!(figure.table.rows, [row]);
        assert!(figure.sentence.ends_with("compressed: innodb-8k."), "{}", figure.sentence);
        assert!(by_index(&results, group, "read")?.is_none());
        Ok(())
    }
}
