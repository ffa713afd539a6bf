//! Size and speed in one chart: a point per target, both axes from zero; up and left is better.
//!
//! Invariants
//! 1. As in all charts, an engine has the same colour everywhere, and its name is next to its
//!    point.
//! 2. Names of close points are placed below each other.

use std::fmt::Write;

use super::svg::{LEFT, RIGHT, WIDTH, colour, escape, open};
use super::table::figure;

const HEIGHT: f64 = 320.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 44.0;
/// Height of a line of text.
const LINE: f64 = 15.0;

/// A target's point.
#[derive(Clone, Debug)]
pub struct Point {
    /// Target.
    pub target: String,
    /// Horizontal position.
    pub x: f64,
    /// Vertical position.
    pub y: f64,
    /// Remark after the figures.
    pub remark: String,
}

/// Draws the chart.
pub fn scatter(x_unit: &str, y_unit: &str, points: &[Point]) -> String {
    let max = |of: fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max).max(1e-9) * 1.05;
    let (x_max, y_max) = (max(|point| point.x), max(|point| point.y));
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / x_max;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / y_max;
    let mut svg = open(HEIGHT, &format!("{y_unit} over {x_unit}"));
    for part in 0..=4 {
        let share = f64::from(part) / 4.0;
        let (across, up) = (x_max * share, y_max * share);
        let _ = write!(
            svg,
            r#"<line class="rule" x1="{LEFT}" x2="{right}" y1="{at:.1}" y2="{at:.1}"/><text class="faint" x="{tx}" y="{ty:.1}" text-anchor="end">{up}</text><text class="faint" x="{ax:.1}" y="{by}" text-anchor="middle">{across}</text>"#,
            right = WIDTH - RIGHT,
            at = y(up),
            tx = LEFT - 8.0,
            ty = y(up) + 4.0,
            ax = x(across),
            by = HEIGHT - BOTTOM + 16.0,
            up = figure(up),
            across = figure(across),
        );
    }
    let mut order: Vec<&Point> = points.iter().collect();
    order.sort_by(|a, b| b.y.total_cmp(&a.y));
    let mut above = f64::MIN;
    for point in order {
        let (px, py) = (x(point.x), y(point.y));
        // Do not overlap the previous name (Invariant 2).
        let text_y = (py + 4.0).max(above + LINE);
        above = text_y;
        // A name that would leave the chart is placed on the other side.
        let (text_x, anchor) =
            if px > WIDTH * 0.6 { (px - 10.0, "end") } else { (px + 10.0, "start") };
        let _ = write!(
            svg,
            r#"<circle cx="{px:.1}" cy="{py:.1}" r="6" fill="{fill}"/><text x="{text_x:.1}" y="{text_y:.1}" text-anchor="{anchor}">{name}<tspan class="faint"> {across}, {up} {remark}</tspan></text>"#,
            fill = colour(&point.target),
            name = escape(&point.target),
            across = figure(point.x),
            up = figure(point.y),
            remark = escape(&point.remark),
        );
    }
    let _ = write!(
        svg,
        r#"<text class="faint" x="{LEFT}" y="{by}">{x_unit}</text><text class="faint" x="4" y="12">{y_unit}</text></svg>"#,
        by = HEIGHT - 8.0,
        x_unit = escape(x_unit),
        y_unit = escape(y_unit),
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(target: &str, x: f64, y: f64) -> Point {
        Point { target: target.to_owned(), x, y, remark: String::new() }
    }

    fn attributes(svg: &str, element: &str, name: &str) -> Vec<f64> {
        let element = format!("<{element} ");
        let parts = svg.split(&element).skip(1);
        let of =
            |part: &str| part.split(&format!("{name}=\"")).nth(1)?.split('"').next()?.parse().ok();
        parts.filter_map(of).collect()
    }

    #[test]
    fn scatter_axes_start_at_zero_with_small_left_and_fast_up() {
        let svg =
            scatter("bytes", "rows/s", &[point("frond", 50.0, 400.0), point("b", 100.0, 100.0)]);
        let (x, y) = (attributes(&svg, "circle", "cx"), attributes(&svg, "circle", "cy"));
        assert!(((x[1] - LEFT) / (x[0] - LEFT) - 2.0).abs() < 0.01, "{x:?}");
        let floor = HEIGHT - BOTTOM;
        assert!(((floor - y[0]) / (floor - y[1]) - 4.0).abs() < 0.01, "{y:?}");
        assert!(svg.contains("var(--frond)"));
    }

    #[test]
    fn labels_of_close_points_do_not_overlap() {
        let points = [point("a<", 10.0, 10.0), point("b", 10.0, 10.01), point("c", 10.0, 9.99)];
        let svg = scatter("bytes", "rows/s", &points);
        let circles = svg.split_once("<circle").map(|(_, rest)| rest).unwrap_or_default();
        let mut names = attributes(circles, "text", "y");
        names.truncate(3);
        assert!(names.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.2), "{names:?}");
        assert!(svg.contains("a&lt;") && !svg.contains("NaN"));
        assert!(scatter("x", "y", &[]).ends_with("</svg>"));
    }
}
