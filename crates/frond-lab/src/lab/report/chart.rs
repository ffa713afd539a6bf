//! A stand-alone SVG chart for a README: speed against size of the targets of a workload, both
//! relative to the base.
//!
//! Invariants
//! 1. Both axes start at zero, so that distances show differences.
//! 2. The picture contains its background and its colours for light and dark mode: a page that
//!    embeds it has no style for it.

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use super::group::{Group, Target};
use super::headline::Headline;
use super::number::{human, ratio};
use super::palette;
use super::query::Results;
use super::sentence::count;
use super::size;
use crate::lab::statistics::Spread;
use crate::targets::{Failure, Result};

const TEMPLATE: &str = include_str!("../../../lab/report/chart.svg");
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 460.0;
/// Space at both sides of the text above and below the picture.
const MARGIN: f64 = 16.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 620.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 360.0;
/// Height of a line of text.
const LINE: f64 = 19.0;
/// Width of a letter in a name, and in the text after it: enough for the fonts of all systems.
const LETTER: (f64, f64) = (9.6, 7.4);

/// A target, relative to the base.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    color: &'static str,
    size: f64,
    speed: f64,
    /// Minimum and maximum speed over the repeats.
    range: (f64, f64),
}

/// A target's point and label in the picture.
#[derive(Serialize, Debug)]
struct Point {
    name: String,
    color: &'static str,
    x: f64,
    y: f64,
    low: f64,
    high: f64,
    text_x: f64,
    text_y: f64,
    anchor: &'static str,
    text: String,
}

#[derive(Serialize, Debug)]
struct Tick {
    at: f64,
    text: String,
}

/// Draws the chart of this workload from one run: one in SQL if there is any, of these one of the
/// largest size, and of these the newest.
///
/// # Errors
/// No run has the base and another target, each with a size and a rate.
pub fn svg(results: &Results<'_>, groups: &[Group<'_>], workload: &str) -> Result<String> {
    let fits = |group: &&Group<'_>| group.key.workload == workload && group.is_charted();
    let rank = |group: &Group<'_>| {
        let size =
            ["quick", "standard", "published"].iter().position(|size| *size == group.key.size);
        let began = group.base().map(|base| base.run.began.clone());
        (group.key.face == "sql", size, began)
    };
    let mut of_workload: Vec<&Group<'_>> = groups.iter().filter(fits).collect();
    of_workload.sort_by_key(|group| std::cmp::Reverse(rank(group)));
    let found = of_workload.into_iter().find_map(|group| Some((group, drawn(group)?)));
    let (group, drawn) = found.ok_or_else(|| {
        Failure(format!(
            "no chart of {workload}: no run larger than tiny has the rate and size of the base (innodb; embedded: rocksdb) and of another target"
        ))
    })?;
    render(results, group, &drawn)
}

/// What is drawn of a group.
struct Drawn {
    /// The step whose rate is shown.
    step: String,
    /// The step after which sizes were measured; empty for the end.
    size_step: String,
    /// The targets that store rows.
    places: Vec<Place>,
}

/// Chooses what is drawn of a group.
fn drawn(group: &Group<'_>) -> Option<Drawn> {
    let headline = Headline::of(group)?;
    let step = headline.steps.into_iter().find(|step| group.has(step, "ops_s"))?;
    let sizes = size::place(group)?;
    let base = group.base()?;
    let per_row = |target: &Target<'_>| sizes.per_row(target).or_else(|| sizes.of(target));
    let (base_size, base_speed) = (per_row(base)?, base.median(&step, "ops_s")?);
    let places: Vec<Place> = group
        .targets
        .iter()
        .filter(|target| !palette::is_null(target.name))
        .filter_map(|target| {
            let Spread { median, min, max, .. } = target.sample(&step, "ops_s").spread()?;
            let place = Place {
                name: target.name.to_owned(),
                color: target.look.color,
                size: per_row(target)? / base_size,
                speed: median / base_speed,
                range: (min / base_speed, max / base_speed),
            };
            [place.size, place.speed, place.range.0, place.range.1]
                .iter()
                .all(|value| value.is_finite() && *value >= 0.0)
                .then_some(place)
        })
        .collect();
    (places.len() > 1).then_some(Drawn { step, size_step: sizes.step, places })
}

fn render(
    results: &Results<'_>,
    group: &Group<'_>,
    Drawn { step, size_step, places }: &Drawn,
) -> Result<String> {
    let most = |of: fn(&Place) -> f64| places.iter().map(of).fold(1.0, f64::max) * 1.08;
    let (x_most, y_most) = (most(|place| place.size), most(|place| place.range.1));
    let x = |value: f64| round(LEFT + (RIGHT - LEFT) * value / x_most);
    let y = |value: f64| round(BOTTOM - (BOTTOM - TOP) * value / y_most);
    let ticks = |most: f64, at: &dyn Fn(f64) -> f64| -> Vec<Tick> {
        steps(most).into_iter().map(|value| Tick { at: at(value), text: tick(value) }).collect()
    };
    let is_load = group.has(step, "planned");
    let unit = if is_load { "rows per second" } else { "operations per second" };
    let base = group.base_name();
    // Of a workload with several steps, speed and size may be of different ones.
    let of_step = |what: &str, step: &str| match step {
        "" | "load" => String::new(),
        step => format!(" {what} {step}"),
    };
    // The conditions below the picture name these two.
    let (known, rest): (Vec<&str>, Vec<&str>) = group
        .key
        .variant
        .split_whitespace()
        .partition(|part| part.starts_with("rows=") || part.starts_with("time_limit="));
    let title = [&[group.key.workload.as_str()], &rest[..]].concat().join(" ");
    let title = format!("{title}: speed and size");
    let most = ((WIDTH - 2.0 * MARGIN) / LETTER.0) as usize;
    let shown_title = match title.chars().count() <= most {
        true => title.clone(),
        false => title.chars().take(most - 1).chain(['…']).collect(),
    };
    let limit = known.iter().find_map(|part| part.strip_prefix("time_limit="));
    let said =
        |place: &Place| format!("{} the speed, {} the size", ratio(place.speed), ratio(place.size));
    let sentence: Vec<String> = places
        .iter()
        .filter(|place| place.name != base)
        .map(|place| format!("{}: {}", place.name, said(place)))
        .collect();
    let sentence = format!("Against {base}: {}.", sentence.join("; "));
    let context = context! {
        width => WIDTH, height => HEIGHT, left => LEFT, right => RIGHT, top => TOP, bottom => BOTTOM,
        title => title, shown_title => shown_title, sentence => sentence,
        y_name => format!("{unit}{}, {base} = 1", of_step("in", step)),
        x_name => format!("bytes on disk per row{}, {base} = 1", of_step("after", size_step)),
        x_ticks => Serde(ticks(x_most, &x)), y_ticks => Serde(ticks(y_most, &y)),
        base_x => x(1.0), base_y => y(1.0),
        points => Serde(points(places, base, &x, &y, &said)),
        conditions => conditions(results, group, limit.filter(|limit| *limit != "0")),
    };
    let mut environment = Environment::new();
    // The extension `.xml` makes minijinja escape values.
    let rendered = environment
        .add_template("chart.xml", TEMPLATE)
        .and_then(|()| environment.get_template("chart.xml")?.render(context));
    rendered.map_err(|error| Failure(format!("the chart: {error:#}")))
}

/// Places the points and their names from top to bottom so that no two names overlap. A name is at
/// the right of its point if there is room.
fn points(
    places: &[Place],
    base: &str,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
    said: &dyn Fn(&Place) -> String,
) -> Vec<Point> {
    let mut order: Vec<&Place> = places.iter().collect();
    order.sort_by(|a, b| b.speed.total_cmp(&a.speed));
    let mut above = f64::MIN;
    let mut made = Vec::new();
    for place in order {
        let (px, py) = (x(place.size), y(place.speed));
        let letters = |text: &str| text.chars().count() as f64;
        let name = letters(&place.name) * LETTER.0;
        let mut text = if place.name == base { String::new() } else { said(place) };
        let mut width = name + letters(&text) * LETTER.1;
        let is_at_right = |width: f64| px + 13.0 + width <= WIDTH;
        let covers_another = places.iter().filter(|other| other.name != place.name).any(|other| {
            let from = if is_at_right(width) { px + 13.0 } else { px - 13.0 - width };
            let (ox, oy) = (x(other.size), y(other.speed));
            (from - 7.0..=from + width + 7.0).contains(&ox) && (oy - py).abs() < LINE
        });
        if !is_at_right(width) && px - 13.0 < width || covers_another {
            // There is no room on either side; the description has the text.
            text.clear();
            width = name;
        }
        let is_left = !is_at_right(width);
        let (text_x, anchor) = if is_left { (px - 13.0, "end") } else { (px + 13.0, "start") };
        let text_y = round((py + 5.0).max(above + LINE));
        above = text_y;
        let (low, high) = (y(place.range.0), y(place.range.1));
        let color = place.color;
        let (name, text_x) = (place.name.clone(), round(text_x));
        made.push(Point { name, color, x: px, y: py, low, high, text_x, text_y, anchor, text });
    }
    // Names that would cross the lower edge are moved up, each above the previous one.
    let mut below = BOTTOM - 4.0;
    for point in made.iter_mut().rev() {
        point.text_y = round(point.text_y.min(below));
        below = point.text_y - LINE;
    }
    made
}

/// The conditions of the measurement, in two lines. `limit`: seconds after which a target was
/// stopped.
fn conditions(results: &Results<'_>, group: &Group<'_>, limit: Option<&str>) -> [String; 2] {
    let key = &group.key;
    let cells = group.targets.iter().map(|target| target.cells.len()).min().unwrap_or(0);
    let rows = group.targets.iter().flat_map(|target| &target.cells).find_map(|cell| {
        let rows = cell.parameters.iter().find(|(name, _)| name == "rows")?;
        rows.1.replace('_', "").parse::<f64>().ok()
    });
    let rows = rows.map_or(String::new(), |rows| format!("{} rows, ", human(rows, "")));
    let date = results.runs.iter().find(|run| group.targets.iter().any(|t| t.run.id == run.id));
    let date = date.map_or("", |run| run.began.split('T').next().unwrap_or_default());
    let memory = human(key.memory_b as f64, "B");
    let limit = limit.map_or(String::new(), |limit| format!(", at most {limit} s"));
    [
        format!("{rows}{memory} of memory, durability {}{limit}", key.durability),
        format!("Size {}, medians of {}, {date}", key.size, count(cells, "repeat")),
    ]
}

/// Tick values from 0: at most six, and the distance between them is 1, 2 or 5 times a power of
/// ten.
fn steps(most: f64) -> Vec<f64> {
    let least = most / 5.0;
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|n| n * power).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(most);
    (0..=6_u8).map(|n| f64::from(n) * step).take_while(|value| *value <= most).collect()
}

fn tick(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{}×", human(value, "")) }
}

/// Rounds to a tenth of a pixel, which is precise enough.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::report::testing::Lab;

    fn picture(lab: &Lab) -> Result<String> {
        let results = Results::read(&lab.database, &[])?;
        svg(&results, &Group::all(&results), "iibench")
    }

    fn fill(lab: &mut Lab, targets: &[(&str, f64, f64)]) {
        for repeat in 1..=3 {
            for (target, speed, row) in targets {
                let noise = 1.0 + repeat as f64 / 100.0;
                lab.cell("sql", "iibench", "", target, repeat)
                    .metrics(
                        "load",
                        &[("ops_s", speed * noise), ("exit_velocity", 1.0), ("planned", 9.0)],
                    )
                    .metrics("", &[("disk_b", row * 9.0), ("disk_b_row", *row)])
                    .parameter("rows", "800_000");
            }
        }
    }

    fn numbers(svg: &str, element: &str, name: &str) -> Vec<f64> {
        let element = format!("<{element} ");
        let of =
            |part: &str| part.split(&format!(" {name}=\"")).nth(1)?.split('"').next()?.parse().ok();
        svg.split(&element).skip(1).filter_map(|part| of(&format!(" {part}"))).collect()
    }

    #[test]
    fn chart_axes_start_at_zero_with_fast_up_and_small_left() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "iibench", "quick", "safe");
        fill(
            &mut lab,
            &[("innodb", 100.0, 200.0), ("frond", 400.0, 50.0), ("blackhole", 900.0, 1.0)],
        );
        let svg = picture(&lab)?;
        let (x, y) = (numbers(&svg, "circle", "cx"), numbers(&svg, "circle", "cy"));
        assert_eq!((x.len(), y.len()), (2, 2), "{svg}");
        assert!(((x[1] - LEFT) / (x[0] - LEFT) - 4.0).abs() < 0.02, "{x:?}");
        assert!(((BOTTOM - y[0]) / (BOTTOM - y[1]) - 4.0).abs() < 0.02, "{y:?}");
        assert!(svg.contains("frond: 4.00× the speed, 0.25× the size"), "{svg}");
        assert!(svg.contains("800,000 rows, 205 MiB of memory, durability safe"));
        assert!(svg.contains("Size quick, medians of 3 repeats, 2026-11-01"));
        assert!(svg.contains("prefers-color-scheme: dark") && !svg.contains("NaN"));
        Ok(())
    }

    #[test]
    fn the_largest_size_is_drawn_and_tiny_never_is() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("t", "iibench", "tiny", "safe");
        fill(&mut lab, &[("innodb", 100.0, 200.0), ("frond", 400.0, 50.0)]);
        let refused = picture(&lab).err().map(|failure| failure.0);
        assert!(refused.is_some_and(|said| said.contains("no chart of iibench")));
        for (size, speed) in [("standard", 300.0), ("quick", 200.0)] {
            lab.run(size, "iibench", size, "safe");
            fill(&mut lab, &[("innodb", 100.0, 200.0), ("frond", speed, 50.0)]);
        }
        assert!(picture(&lab)?.contains("frond: 3.00× the speed"));
        Ok(())
    }

    #[test]
    fn embedded_stores_are_drawn_if_there_is_no_run_in_sql() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("e", "iibench", "standard", "lazy");
        for (target, speed, row) in
            [("null", 9000.0, 1.0), ("rocksdb", 50.0, 60.0), ("frond", 200.0, 30.0)]
        {
            lab.cell("embedded", "iibench", "rows=9 time_limit=40", target, 1)
                .metrics("load", &[("ops_s", speed), ("planned", 9.0), ("disk_b_row", row)]);
        }
        let svg = picture(&lab)?;
        assert!(svg.contains("Against rocksdb: frond: 4.00× the speed, 0.50× the size."), "{svg}");
        assert!(svg.contains(">iibench: speed and size<") && svg.contains("lazy, at most 40 s"));
        lab.run("s", "iibench", "quick", "safe");
        fill(&mut lab, &[("innodb", 100.0, 200.0), ("frond", 300.0, 50.0)]);
        assert!(picture(&lab)?.contains("Against innodb"));
        Ok(())
    }

    #[test]
    fn a_long_title_is_cut_where_the_picture_ends() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("e", "dbbench", "standard", "lazy");
        let variant = "seconds=0.4 tests=point_select,read_only,read_write,update_index threads=1";
        for target in ["rocksdb", "frond"] {
            lab.cell("embedded", "dbbench", variant, target, 1)
                .metrics("fillseq", &[("ops_s", 1.0), ("disk_b_row", 2.0), ("disk_b", 9.0)]);
        }
        let results = Results::read(&lab.database, &[])?;
        let svg = svg(&results, &Group::all(&results), "dbbench")?;
        let shown = svg.split("class=\"name\"").nth(1).and_then(|rest| rest.split('<').next());
        let shown = shown.and_then(|text| text.split('>').nth(1)).unwrap_or_default();
        assert!(shown.ends_with('…') && shown.chars().count() < 65, "{shown}");
        assert!(svg.contains("threads=1: speed and size</title>"), "{svg}");
        Ok(())
    }

    #[test]
    fn steps_of_speed_and_size_are_named() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("e", "dbbench", "standard", "lazy");
        for (target, speed, row) in [("rocksdb", 50.0, 60.0), ("frond", 200.0, 30.0)] {
            lab.cell("embedded", "dbbench", "", target, 1)
                .metric("fillrandom", "ops_s", speed)
                .metrics("fillseq", &[("ops_s", 1.0), ("disk_b_row", row), ("disk_b", 9.0 * row)]);
        }
        let results = Results::read(&lab.database, &[])?;
        let svg = svg(&results, &Group::all(&results), "dbbench")?;
        assert!(svg.contains("operations per second in fillrandom, rocksdb = 1"), "{svg}");
        assert!(svg.contains("bytes on disk per row after fillseq, rocksdb = 1"), "{svg}");
        Ok(())
    }

    #[test]
    fn names_are_escaped_and_do_not_cover_each_other() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "iibench", "quick", "safe");
        fill(&mut lab, &[("innodb", 100.0, 100.0), ("<b>&", 100.1, 99.0), ("frond", 99.9, 98.0)]);
        let svg = picture(&lab)?;
        assert!(svg.contains("&lt;b&gt;&amp;") && !svg.contains("<b>"), "{svg}");
        let labels = svg.split_once("<circle").map(|(_, rest)| rest).unwrap_or_default();
        let mut y = numbers(labels, "text", "y");
        y.truncate(3);
        assert!(y.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.2), "{y:?}");
        Ok(())
    }

    /// The text of the point at the right lies at its left, where the other one is.
    #[test]
    fn text_that_would_cover_another_point_is_left_out() -> Result<()> {
        let mut lab = Lab::new();
        lab.run("r", "iibench", "quick", "safe");
        fill(
            &mut lab,
            &[("innodb", 100.0, 100.0), ("myrocks", 30.0, 200.0), ("frond", 29.0, 350.0)],
        );
        let svg = picture(&lab)?;
        assert!(svg.contains("frond: 0.29× the speed, 3.50× the size"), "the description has it");
        assert!(!svg.contains(">0.29× the speed") && svg.contains(">0.30× the speed"), "{svg}");
        Ok(())
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(steps(4.3), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(steps(1.08), [0.0, 0.5, 1.0]);
        assert_eq!(steps(30.0), [0.0, 10.0, 20.0, 30.0]);
    }
}
