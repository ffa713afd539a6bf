//! A figure: a chart, with a sentence and a table that say the same without it.

use serde::Serialize;

use super::palette::Look;

/// A chart, a sentence and a table. The script of the page draws the chart from this data alone.
#[derive(Serialize, Debug)]
pub struct Figure {
    /// Element id, unique on its page.
    pub id: String,
    pub title: String,
    /// The chart's data as JSON that is safe in a script element.
    pub chart: String,
    pub sentence: String,
    pub table: Table,
    /// Whether it is collapsed at first.
    pub is_minor: bool,
}

impl Figure {
    /// Makes a figure of this chart, without an id yet and not collapsed.
    pub fn new(title: &str, chart: &Chart, sentence: String, table: Table) -> Self {
        let id = String::new();
        Self { id, title: title.to_owned(), chart: embed(chart), sentence, table, is_minor: false }
    }
}

/// The values of a chart as text.
#[derive(Serialize, Debug, Default)]
pub struct Table {
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes an empty table with this head.
    pub fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|text| (*text).to_owned()).collect(), rows: Vec::new() }
    }
}

/// A chart's data.
#[derive(Serialize, Debug)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Chart {
    /// Curves.
    Lines { x: Axis, y: Axis, lines: Vec<Line> },
    /// Horizontal bars from 0, one group per category. Parts of a bar are stacked, or drawn one
    /// below the other.
    Bars { x: Axis, bars: Vec<Bar>, limit: Option<Limit>, is_stacked: bool },
    /// Points with their names.
    Points { x: Axis, y: Axis, points: Vec<Point> },
}

/// An axis.
#[derive(Serialize, Debug, Default)]
pub struct Axis {
    pub name: String,
    pub unit: String,
    /// `linear`, `log` (to base 10), `log2`, or `names` (the values are positions in `names`).
    pub scale: &'static str,
    pub names: Vec<String>,
    pub min: Option<f64>,
}

impl Axis {
    /// Makes a linear axis.
    pub fn linear(name: &str, unit: &str) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), scale: "linear", ..Self::default() }
    }

    /// Makes a logarithmic axis that starts at the greatest power of ten not above the smallest
    /// positive value.
    pub fn log(name: &str, unit: &str, values: impl Iterator<Item = f64>) -> Self {
        let least = values.filter(|value| *value > 0.0 && value.is_finite()).reduce(f64::min);
        let min = least.map(|least| 10_f64.powf(least.log10().floor()));
        Self { scale: "log", min, ..Self::linear(name, unit) }
    }
}

/// A curve.
#[derive(Serialize, Debug)]
pub struct Line {
    pub name: String,
    pub look: Look,
    /// Whether it is drawn faintly: a repeat that is not the typical one, or the values of which
    /// another curve is the mean.
    pub is_faint: bool,
    pub points: Vec<[f64; 2]>,
    /// Positions at which the value was 0, which a logarithmic axis cannot show: they are marked at
    /// its lower edge.
    pub zeros: Vec<f64>,
    /// A level that is marked over a range of x.
    pub mark: Option<Mark>,
}

/// A labelled level over a range of x.
#[derive(Serialize, Debug)]
pub struct Mark {
    pub from: f64,
    pub to: f64,
    pub level: f64,
    pub text: String,
}

/// The bar or the bars of a category.
#[derive(Serialize, Debug)]
pub struct Bar {
    pub name: String,
    /// Text below the name.
    pub label: String,
    pub look: Look,
    pub parts: Vec<Part>,
}

/// A part of a bar.
#[derive(Serialize, Debug)]
pub struct Part {
    pub name: String,
    pub value: f64,
    /// Whether it is drawn pale: the second part of a stack, or a published value.
    pub is_pale: bool,
    /// Values of the repeats, drawn as dots.
    pub repeats: Vec<f64>,
}

/// A line across all bars.
#[derive(Serialize, Debug)]
pub struct Limit {
    pub value: f64,
    pub text: String,
}

/// A point with a name.
#[derive(Serialize, Debug)]
pub struct Point {
    pub name: String,
    pub look: Look,
    pub at: [f64; 2],
}

impl Line {
    /// Makes a curve with the name and look of a target.
    pub fn of(target: &str, look: Look, points: Vec<[f64; 2]>) -> Self {
        Self {
            name: target.to_owned(),
            look,
            is_faint: false,
            points,
            zeros: Vec::new(),
            mark: None,
        }
    }
}

/// JSON of a value, escaped so that it cannot end a script element or open a comment in one.
pub fn embed(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Numbers the figures of a page, so that each has an id of its own.
pub fn number(figures: &mut [Figure], prefix: &str) {
    for (at, figure) in figures.iter_mut().enumerate() {
        figure.id = format!("{prefix}{}", at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_cannot_end_its_script_element() {
        let name = "</script><!--<script>&\u{2028}\"'".to_owned();
        let json = embed(&name);
        assert!(!json.contains(['<', '>', '&', '\u{2028}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).ok(), Some(name));
        assert_eq!(embed(&[f64::NAN, f64::INFINITY, 1.0]), "[null,null,1.0]");
    }

    #[test]
    fn a_log_axis_starts_at_a_power_of_ten_and_ignores_non_positive_values() {
        let axis = Axis::log("", "", [0.0, -3.0, f64::NAN, 42.0, 7000.0].into_iter());
        assert_eq!(axis.min, Some(10.0));
        assert_eq!(Axis::log("", "", std::iter::empty()).min, None);
    }
}
