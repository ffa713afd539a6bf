//! Charts as inline SVG: bars from zero, and lines over rows. Pure functions from figures to marks.
//!
//! Invariants
//! 1. Bars start at zero. Only lines use a logarithmic axis, and its label says so.
//! 2. An engine has the same colour everywhere and is also identified by its name or dashes, so
//!    that nothing depends on colour.

use std::fmt::Write;

use super::table::figure;

/// Width of every chart, in its own units; the page scales it.
pub(super) const WIDTH: f64 = 860.0;
/// Margins left and right of the axes.
pub(super) const LEFT: f64 = 130.0;
pub(super) const RIGHT: f64 = 90.0;

/// A bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Target.
    pub target: String,
    /// Length.
    pub value: f64,
    /// Remark after the figure.
    pub remark: String,
}

/// A line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Target.
    pub target: String,
    /// Points.
    pub points: Vec<(f64, f64)>,
}

/// Escapes text for use in markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns the engine of a target, without its settings.
fn engine(target: &str) -> &str {
    target.split('-').next().unwrap_or(target)
}

/// Returns the colour of a target; RocksDB's variants share one.
pub fn colour(target: &str) -> String {
    let engine = engine(target);
    let known = ["frond", "rocksdb", "sqlite", "lmdb"].contains(&engine);
    format!("var(--{})", if known { engine } else { "null" })
}

fn dashes(target: &str) -> &'static str {
    match engine(target) {
        "frond" => "none",
        "rocksdb" => "7 3",
        "sqlite" => "2 3",
        _ => "10 3 2 3",
    }
}

/// Draws horizontal bars from zero, one per target, with the figure at the end.
pub fn bars(unit: &str, bars: &[Bar]) -> String {
    let max = bars.iter().map(|bar| bar.value).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let height = 26.0 * bars.len() as f64 + 24.0;
    let mut svg = open(height, unit);
    for (index, bar) in bars.iter().enumerate() {
        let y = 4.0 + 26.0 * index as f64;
        let length = (WIDTH - LEFT - RIGHT - 60.0) * bar.value / max;
        let (name, fill) = (escape(&bar.target), colour(&bar.target));
        let _ = write!(
            svg,
            r#"<text x="{x}" y="{ty}" text-anchor="end">{name}</text><rect x="{LEFT}" y="{y}" width="{length:.1}" height="19" fill="{fill}"><title>{name}: {value} {unit}</title></rect><text x="{end:.1}" y="{ty}">{value}<tspan class="faint"> {remark}</tspan></text>"#,
            x = LEFT - 8.0,
            ty = y + 14.0,
            end = LEFT + length + 6.0,
            value = figure(bar.value),
            unit = escape(unit),
            remark = escape(&bar.remark),
        );
    }
    let _ = write!(
        svg,
        r#"<line class="rule" x1="{LEFT}" x2="{LEFT}" y1="0" y2="{y}"/><text class="faint" x="{LEFT}" y="{ty}">0 … {unit}</text></svg>"#,
        y = height - 20.0,
        ty = height - 6.0,
        unit = escape(unit),
    );
    svg
}

/// Opens a chart of this height.
pub(super) fn open(height: f64, label: &str) -> String {
    let label = escape(label);
    format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">"#)
}

/// Draws lines over a linear x axis and a logarithmic y axis, each named at its end.
pub fn lines(x_unit: &str, y_unit: &str, lines: &[Line]) -> String {
    const HEIGHT: f64 = 340.0;
    const BOTTOM: f64 = 44.0;
    // The unit is written above the highest figure.
    const TOP: f64 = 30.0;
    let points = || lines.iter().flat_map(|line| line.points.iter()).filter(|point| point.1 > 0.0);
    let x_max = points().map(|point| point.0).fold(0.0, f64::max).max(1e-9);
    let high = points().map(|point| point.1).fold(0.0, f64::max).max(10.0);
    let low = points().map(|point| point.1).fold(high / 10.0, f64::min).max(1e-3);
    let (low, high) = (low.log10().floor(), high.log10().ceil());
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / x_max;
    let y = |value: f64| {
        let part = (value.max(1e-3).log10() - low) / (high - low).max(1.0);
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part.clamp(0.0, 1.0)
    };
    let mut svg = open(HEIGHT, y_unit);
    let mut decade = low;
    while decade <= high {
        let (value, at) = (10f64.powf(decade), y(10f64.powf(decade)));
        let _ = write!(
            svg,
            r#"<line class="rule" x1="{LEFT}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/><text class="faint" x="{tx}" y="{ty:.1}" text-anchor="end">{value}</text>"#,
            right = WIDTH - RIGHT,
            tx = LEFT - 8.0,
            ty = at + 4.0,
            value = figure(value),
        );
        decade += 1.0;
    }
    for part in 0..=4 {
        let value = x_max * f64::from(part) / 4.0;
        let _ = write!(
            svg,
            r#"<text class="faint" x="{:.1}" y="{}" text-anchor="middle">{}</text>"#,
            x(value),
            HEIGHT - BOTTOM + 16.0,
            figure(value),
        );
    }
    for (index, line) in lines.iter().enumerate() {
        draw(&mut svg, line, index, &x, &y);
    }
    let _ = write!(
        svg,
        r#"<text class="faint" x="{LEFT}" y="{by}">{x_unit}</text><text class="faint" x="4" y="12">{y_unit}, log</text></svg>"#,
        by = HEIGHT - 8.0,
        x_unit = escape(x_unit),
        y_unit = escape(y_unit),
    );
    svg
}

fn draw(
    svg: &mut String,
    line: &Line,
    index: usize,
    x: &dyn Fn(f64) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    let path = line.points.iter().enumerate().map(|(index, &(px, py))| {
        format!("{}{:.1} {:.1}", if index == 0 { "M" } else { "L" }, x(px), y(py))
    });
    let path = path.collect::<Vec<_>>().join("");
    let Some(&(end_x, end_y)) = line.points.last() else { return };
    let name = escape(&line.target);
    let _ = write!(
        svg,
        r#"<path d="{path}" fill="none" stroke="{stroke}" stroke-width="2" stroke-dasharray="{dash}"><title>{name}</title></path><text x="{tx:.1}" y="{ty:.1}" style="fill:{stroke}">{name}</text>"#,
        stroke = colour(&line.target),
        dash = dashes(&line.target),
        tx = x(end_x) + 5.0,
        ty = y(end_y) + 4.0 + 2.0 * index as f64,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(svg: &str) -> Vec<f64> {
        let parts = svg.split("<rect ").skip(1);
        let width = |part: &str| part.split("width=\"").nth(1)?.split('"').next()?.parse().ok();
        parts.filter_map(width).collect()
    }

    #[test]
    fn bars_start_at_zero_and_keep_their_ratio() {
        let bar =
            |target: &str, value| Bar { target: target.to_owned(), value, remark: String::new() };
        let svg = bars("rows/s", &[bar("frond", 10.0), bar("rocksdb", 40.0)]);
        let lengths = lengths(&svg);
        assert!((lengths[1] / lengths[0] - 4.0).abs() < 0.01, "{lengths:?}");
        assert!(svg.contains("var(--frond)") && svg.contains("var(--rocksdb)"));
    }

    #[test]
    fn lines_survive_stalls_and_names_are_escaped() {
        let line = Line { target: "a<b".to_owned(), points: vec![(0.0, 5.0), (1.0, 0.0)] };
        let svg = lines("rows", "rows/s", &[line]);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(lines("rows", "rows/s", &[]).ends_with("</svg>"));
    }
}
