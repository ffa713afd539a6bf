//! The bar and scatter charts of a group: size, CPU, device bytes, memory, compression counters,
//! and size against speed.

use super::figure::{Axis, Bar, Chart, Figure, Limit, Part, Point, Table};
use super::group::{Group, Target};
use super::headline::{Headline, name_of};
use super::matrix::TOO_SHORT;
use super::number::{human, ratio};
use super::palette;
use super::sentence::{Entry, list, ranking};
use super::size;
use crate::lab::metric::{self, Better, Metric};
use crate::lab::statistics::Sample;

/// A bar chart of one metric of a step, with one bar per target. `None` if no target has the
/// metric.
pub fn of_metric(group: &Group<'_>, step: &str, name: &str, title: &str) -> Option<Figure> {
    let metric = metric::find(name)?;
    of_parts(group, step, title, &[metric])
}

/// The size chart: total size if there is a step after which all targets have the same rows,
/// otherwise size per row.
pub fn size(group: &Group<'_>) -> Option<Figure> {
    let place = size::place(group)?;
    let title = if place.has_same_rows() { "Size on disk" } else { "Size on disk per row" };
    let mut figure = of_metric(group, &place.step, place.metric, title)?;
    figure.sentence = format!("{} Measured {}.", figure.sentence, place.what());
    for (name, head) in [
        ("disk_b_row", "per row"),
        ("space_amp", "per byte of rows"),
        ("disk_load_b", "before rest"),
        ("disk_peak_b", "at its peak"),
    ] {
        let Some(metric) = metric::find(name) else { continue };
        if name == place.metric {
            continue;
        }
        add_column(&mut figure.table, group, head, metric.unit, |target| {
            target.median(&place.step, name)
        });
    }
    for (name, head) in [("disk_end_b", "in the end"), ("disk_b", "in the end")] {
        if !place.step.is_empty() && group.has("", name) {
            add_column(&mut figure.table, group, head, "B", |target| target.median("", name));
            break;
        }
    }
    Some(figure)
}

/// Stacked bars of the length of a table and of its indexes, as SHOW TABLE STATUS reports them.
pub fn lengths(group: &Group<'_>) -> Option<Figure> {
    let step = group.step_of("data_length_b")?;
    let parts: Vec<&Metric> =
        ["data_length_b", "index_length_b"].into_iter().filter_map(metric::find).collect();
    of_parts(group, &step, &title("SHOW TABLE STATUS: data and index", &step), &parts)
}

/// A chart of the pages that the engine compressed. Its table has all compression counters, such as
/// how many pages became small enough and how many did not.
pub fn counters(group: &Group<'_>, step: &str) -> Option<Figure> {
    let mut figure = of_metric(group, step, "compress_ops", &title("Pages compressed", step))
        .filter(|_| group.targets.iter().any(|t| t.median(step, "compress_ops") > Some(0.0)))?;
    for (name, head, is_rate) in [
        ("compress_ops_ok", "small enough", false),
        ("compress_failed_pct", "failed", false),
        ("compress_s", "seconds", false),
        ("compress_in_b", "bytes before", false),
        ("compress_out_b", "bytes after", false),
        ("compress_us_page", "per 16 KiB", false),
        ("compress_us_page", "per second", true),
        ("uncompress_ops", "uncompressed", false),
        ("uncompress_s", "seconds of it", false),
        ("uncompress_us_page", "per 16 KiB of it", false),
        ("uncompress_us_page", "per second of it", true),
        ("saving_pct", "saved", false),
    ] {
        let Some(metric) = metric::find(name) else { continue };
        add_texts(&mut figure.table, group, head, |target| match is_rate {
            true => value_or_too_short(target, step, metric, |us| human(1e6 / us, "1/s")),
            false => value_or_too_short(target, step, metric, |value| human(value, metric.unit)),
        });
    }
    figure.sentence.push_str(&too_short(group, step, &["compress_us_page", "uncompress_us_page"]));
    Some(figure)
}

/// Names the targets whose times per page are too short for the server's whole seconds; empty if
/// there are none.
fn too_short(group: &Group<'_>, step: &str, names: &[&str]) -> String {
    let is_short = |target: &&Target<'_>| names.iter().any(|n| target.is_too_short(step, n));
    let short: Vec<&str> = group.targets.iter().filter(is_short).map(|t| t.name).collect();
    match short.is_empty() {
        true => String::new(),
        false => format!(
            " No time per page of {}: the server counts whole seconds, and counted less than 100.",
            list(&short)
        ),
    }
}

/// A target's value of a metric as text, or that it was measured for too short a time.
fn value_or_too_short(
    target: &Target<'_>,
    step: &str,
    metric: &Metric,
    text: impl Fn(f64) -> String,
) -> Option<String> {
    let value = target.median(step, metric.name).map(text);
    value.or_else(|| target.is_too_short(step, metric.name).then(|| TOO_SHORT.to_owned()))
}

/// Charts of the time to compress a page and to uncompress one.
pub fn times_of_pages(group: &Group<'_>, step: &str) -> Vec<Figure> {
    let times = [
        ("compress_us_page", "Time to compress a page"),
        ("uncompress_us_page", "Time to uncompress a page"),
    ];
    let chart = |(name, text)| {
        let mut figure = of_metric(group, step, name, &title(text, step))?;
        figure.sentence.push_str(&too_short(group, step, &[name]));
        Some(figure)
    };
    times.into_iter().filter_map(chart).collect()
}

/// CPU per operation as stacked bars: of a server's user and kernel mode; of an embedded store's
/// client threads, without the clients' own work, and other threads. One bar for the sum if only
/// that was measured.
pub fn cpu(group: &Group<'_>, step: &str) -> Option<Figure> {
    let is_embedded = group.key.face == "embedded";
    let names = match is_embedded {
        true => ["cpu_fg_us_op", "cpu_bg_us_op"],
        false => ["cpu_user_us_op", "cpu_sys_us_op"],
    };
    let parts: Vec<&Metric> = names.into_iter().filter_map(metric::find).collect();
    let title = title("CPU of the engine per operation", step);
    let has_parts = parts.iter().all(|metric| group.has(step, metric.name));
    let mut figure = if has_parts {
        of_parts(group, step, &title, &parts)?
    } else {
        of_metric(group, step, "cpu_us_op", &title)?
    };
    let is_unknown = |target: &&Target<'_>| {
        target.median(step, "cpu_us_op").is_some()
            && target.sample(step, "client_cpu_us_op").len() < target.cells.len()
    };
    let unknown: Vec<&str> =
        group.targets.iter().filter(is_unknown).map(|target| target.name).collect();
    if is_embedded && !unknown.is_empty() {
        figure.sentence.push_str(&format!(
            " Included is the clients' own work on {}: only a run with the null target measures it.",
            list(&unknown)
        ));
    }
    for (name, head) in
        [("cpu_us_op_rested", "with rest"), ("client_cpu_us_op", "client"), ("ctx_op", "switches")]
    {
        let unit = metric::find(name).map_or("", |metric| metric.unit);
        add_column(&mut figure.table, group, head, unit, |target| target.median(step, name));
    }
    Some(figure)
}

/// Bytes written to the device per operation, and bytes read from it, in a chart each.
pub fn written_and_read(group: &Group<'_>, step: &str) -> Vec<Figure> {
    let charts: [(&str, &str, &[&str]); 2] = [
        ("wr_b_op", "Bytes written per operation", &["wr_b_op_rested", "wr_io_op", "fsync_op"]),
        ("rd_b_op", "Bytes read per operation", &["rd_io_op"]),
    ];
    let chart = |(name, text, others): (&str, &str, &[&str])| {
        let mut figure = of_metric(group, step, name, &title(text, step))?;
        for (name, head) in OF_DEVICE.iter().filter(|(name, _)| others.contains(name)) {
            let unit = metric::find(name).map_or("", |metric| metric.unit);
            add_column(&mut figure.table, group, head, unit, |target| target.median(step, name));
        }
        Some(figure)
    };
    charts.into_iter().filter_map(chart).collect()
}

/// Further metrics of device I/O, with their column heads.
const OF_DEVICE: [(&str, &str); 5] = [
    ("wr_b_op_rested", "written with rest"),
    ("write_amp", "written per byte changed"),
    ("wr_io_op", "writes"),
    ("rd_io_op", "reads"),
    ("fsync_op", "syncs"),
];

/// Bytes read and written on the device per operation.
pub fn bytes(group: &Group<'_>, step: &str) -> Option<Figure> {
    let names = ["wr_b_op", "rd_b_op"];
    let parts: Vec<&Metric> =
        names.into_iter().filter(|name| group.has(step, name)).filter_map(metric::find).collect();
    let mut figure = of_parts(group, step, &title("Device bytes per operation", step), &parts)?;
    for (name, head) in OF_DEVICE {
        let unit = metric::find(name).map_or("", |metric| metric.unit);
        add_column(&mut figure.table, group, head, unit, |target| target.median(step, name));
    }
    Some(figure)
}

/// Peak memory, with a line for the memory that the targets were given.
pub fn memory(group: &Group<'_>) -> Option<Figure> {
    let step = group.step_of("rss_peak_b")?;
    let metric = metric::find("rss_peak_b")?;
    let given = group.targets.iter().flat_map(|target| &target.cells).map(|cell| cell.memory_b);
    let given = given.filter(|bytes| *bytes > 0.0).reduce(f64::max);
    let limit = given.map(|value| Limit { value, text: format!("given {}", human(value, "B")) });
    let mut figure = build(group, &step, "Peak memory of the engine's process", &[metric], limit)?;
    add_column(&mut figure.table, group, "charged to its group", "B", |target| {
        target.median(&step, "mem_peak_b")
    });
    if group.has(&step, "mem_peak_b") {
        figure.sentence.push_str(
            " Charged to its control group is what it touched first, page cache included: pages \
             that another process read before are resident, but not charged.",
        );
    }
    add_column(&mut figure.table, group, "given", "B", |target| {
        target.cells.first().map(|cell| cell.memory_b)
    });
    Some(figure)
}

/// A scatter chart of size against speed: a target that is small and fast is at the upper left.
pub fn size_against_speed(group: &Group<'_>) -> Option<Figure> {
    let place = size::place(group)?;
    let headline = Headline::of(group)?;
    let (speed_metric, value): (&Metric, Box<dyn Fn(&Target<'_>) -> Option<f64>>) =
        if headline.metric.better == Better::Higher {
            (headline.metric, Box::new(|target| headline.value(target)))
        } else {
            let step = group.steps().into_iter().find(|step| group.has(step, "ops_s"))?;
            (metric::find("ops_s")?, Box::new(move |target| target.median(&step, "ops_s")))
        };
    let size_name = if place.has_same_rows() { "size on disk" } else { "size on disk per row" };
    let mut table = Table::new(&["target", size_name, name_of(speed_metric)]);
    let mut points = Vec::new();
    for target in group.targets.iter().filter(|target| !palette::is_null(target.name)) {
        let Some((size, speed)) = place.of(target).zip(value(target)) else { continue };
        if size <= 0.0 || speed <= 0.0 {
            continue;
        }
        table.rows.push(vec![
            target.name.to_owned(),
            human(size, "B"),
            human(speed, speed_metric.unit),
        ]);
        points.push(Point { name: target.name.to_owned(), look: target.look, at: [size, speed] });
    }
    if points.len() < 2 {
        return None;
    }
    let is_beaten = |own: &Point| {
        points
            .iter()
            .any(|other| other.at[0] <= own.at[0] && other.at[1] >= own.at[1] && other.at != own.at)
    };
    let best: Vec<&str> =
        points.iter().filter(|own| !is_beaten(own)).map(|point| point.name.as_str()).collect();
    let sentence = format!("No other target is both smaller and faster than {}.", list(&best));
    let (x, y) =
        (Axis::linear(size_name, "B"), Axis::linear(name_of(speed_metric), speed_metric.unit));
    let chart = Chart::Points { x, y, points };
    Some(Figure::new("Size against speed", &chart, sentence, table))
}

/// A chart title, followed by the step if there is one.
pub fn title(text: &str, step: &str) -> String {
    if step.is_empty() { text.to_owned() } else { format!("{text}: {step}") }
}

fn of_parts(group: &Group<'_>, step: &str, title: &str, parts: &[&Metric]) -> Option<Figure> {
    build(group, step, title, parts, None)
}

fn build(
    group: &Group<'_>,
    step: &str,
    title: &str,
    parts: &[&Metric],
    limit: Option<Limit>,
) -> Option<Figure> {
    let first = parts.first()?;
    let mut table = Table::new(&["target"]);
    table.head.extend(parts.iter().map(|metric| short(metric).to_owned()));
    table.head.push("min–max".to_owned());
    table.head.push(format!("÷ {}", group.base_name()));
    let total = |target: &Target<'_>| {
        let values: Vec<f64> =
            parts.iter().filter_map(|metric| target.median(step, metric.name)).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>())
    };
    let of_base = group.base().and_then(total);
    let (mut bars, mut entries) = (Vec::new(), Vec::new());
    for target in &group.targets {
        if parts.iter().any(|metric| target.is_too_short(step, metric.name)) {
            let mut row = vec![target.name.to_owned()];
            row.extend(parts.iter().map(|_| TOO_SHORT.to_owned()));
            row.extend(["–"; 2].map(str::to_owned));
            table.rows.push(row);
            let (name, label) = (target.name.to_owned(), TOO_SHORT.to_owned());
            bars.push(Bar { name, label, look: target.look, parts: Vec::new() });
            continue;
        }
        // Bars start at 0, so a negative value has none.
        let Some(sum) = total(target).filter(|sum| *sum >= 0.0) else { continue };
        entries.push(Entry { target: target.name, value: sum });
        let samples: Vec<_> = parts.iter().map(|metric| target.sample(step, metric.name)).collect();
        let mut row = vec![target.name.to_owned()];
        let shown = |value: Option<f64>| value.map_or("–".to_owned(), |v| human(v, first.unit));
        row.extend(samples.iter().map(|sample| shown(sample.median())));
        let sums = Sample::new(target.cells.iter().filter_map(|cell| {
            let parts: Option<f64> =
                parts.iter().map(|metric| cell.metric(step, metric.name)).sum();
            Some((cell.repeat, parts?))
        }));
        let range =
            sums.spread().filter(|spread| spread.count > 1).map_or("–".to_owned(), |spread| {
                format!("{}–{}", shown(Some(spread.min)), shown(Some(spread.max)))
            });
        row.push(range);
        let of = of_base.filter(|base| *base > 0.0).map(|base| ratio(sum / base));
        row.push(of.unwrap_or_else(|| "–".to_owned()));
        table.rows.push(row);
        bars.push(Bar {
            name: target.name.to_owned(),
            label: human(sum, first.unit),
            look: target.look,
            parts: parts
                .iter()
                .zip(&samples)
                .map(|(metric, sample)| Part {
                    name: short(metric).to_owned(),
                    value: sample.median().unwrap_or(0.0).max(0.0),
                    is_pale: metric.name != first.name,
                    repeats: if parts.len() == 1 { sample.values().collect() } else { Vec::new() },
                })
                .collect(),
        });
    }
    // If all bars are 0, the chart would be empty.
    if entries.iter().all(|entry| entry.value == 0.0) {
        return None;
    }
    let sentence = ranking(&entries, first.unit, first.better, group.base_name());
    let x = Axis::linear(if parts.len() == 1 { name_of(first) } else { "" }, first.unit);
    let chart = Chart::Bars { x, bars, limit, is_stacked: parts.len() > 1 };
    Some(Figure::new(title, &chart, sentence, table))
}

/// Short name of a metric, for a column head or a part of a bar.
fn short(metric: &Metric) -> &'static str {
    match metric.name {
        "cpu_user_us_op" => "user",
        "cpu_sys_us_op" => "kernel",
        "cpu_fg_us_op" => "client threads",
        "cpu_bg_us_op" => "other threads",
        "wr_b_op" => "written",
        "rd_b_op" => "read",
        "data_length_b" => "data",
        "index_length_b" => "index",
        _ => "median",
    }
}

/// Appends a column to a table if any target has a value for it.
fn add_column(
    table: &mut Table,
    group: &Group<'_>,
    head: &str,
    unit: &str,
    value: impl Fn(&Target<'_>) -> Option<f64>,
) {
    add_texts(table, group, head, |target| value(target).map(|value| human(value, unit)));
}

/// Appends a column of texts to a table if any target has one.
fn add_texts(
    table: &mut Table,
    group: &Group<'_>,
    head: &str,
    text: impl Fn(&Target<'_>) -> Option<String>,
) {
    let of_row = |row: &Vec<String>| text(group.target(row.first()?)?);
    let texts: Vec<Option<String>> = table.rows.iter().map(of_row).collect();
    if texts.iter().any(Option::is_some) {
        table.head.push(head.to_owned());
        for (row, text) in table.rows.iter_mut().zip(texts) {
            row.push(text.unwrap_or_else(|| "–".to_owned()));
        }
    }
}
