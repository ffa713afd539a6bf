//! The colour, symbol and dash of each target in charts, which are the same on all pages.
//!
//! Colours are by family (Frond green, InnoDB blue to violet, RocksDB and MyRocks vermilion). They
//! are those of Okabe and Ito's palette, darkened so that they can be seen on white and on dark.
//! Builds of Frond that are named by commit differ more, so that versions can be told apart.

use std::collections::BTreeMap;

use serde::Serialize;

/// The colour, symbol and dash with which a target is drawn.
#[derive(Clone, Copy, Serialize, PartialEq, Debug)]
pub struct Look {
    pub color: &'static str,
    pub symbol: &'static str,
    pub dash: &'static str,
}

const fn look(color: &'static str, symbol: &'static str, dash: &'static str) -> Look {
    Look { color, symbol, dash }
}

/// The looks of known targets, in the order of charts.
const TARGETS: &[(&str, Look)] = &[
    ("frond", look("#079873", "circle", "solid")),
    ("frond-fast", look("#4f9a1c", "circle", "dashed")),
    ("frond-small", look("#00868b", "circle", "dotted")),
    ("innodb", look("#1a78c2", "rect", "solid")),
    ("innodb-compact", look("#4c6fd8", "circle", "dotted")),
    ("innodb-8k", look("#6a70e0", "rect", "dashed")),
    ("innodb-4k", look("#9a5fd0", "rect", "dotted")),
    ("innodb-2k", look("#b857b8", "triangle", "dotted")),
    ("innodb-lz4", look("#5b7fa6", "triangle", "dashed")),
    ("innodb-cb", look("#3d8fb0", "triangle", "solid")),
    ("myrocks", look("#d55e00", "diamond", "solid")),
    ("rocksdb", look("#d55e00", "diamond", "solid")),
    ("sqlite", look("#c4578f", "rect", "dashed")),
    ("lmdb", look("#b07a12", "triangle", "solid")),
    ("tidesdb", look("#7c7d12", "triangle", "dashed")),
    ("blackhole", look("#808080", "pin", "dotted")),
    ("null", look("#808080", "pin", "dotted")),
];

/// Colours of Frond builds that are named by commit, and of unknown targets below.
const BUILDS: &[&str] = &["#5c7444", "#3850f8", "#b05044", "#9814f8", "#f81498", "#f82014"];
const OTHERS: &[&str] = &["#b5656b", "#8b7a5e", "#a06f9f", "#6f8a8f"];

/// The look of a target that is the only one unknown here.
pub fn look_of(target: &str) -> Look {
    look_at(target, 0)
}

/// The looks of these targets, without repeats and sorted. Unknown ones get different colours until
/// these run out, and then different symbols.
pub fn looks<'a>(targets: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, Look> {
    let (mut builds, mut others) = (0, 0);
    let look = |target: &'a str| {
        let taken = if is_frond(target) { &mut builds } else { &mut others };
        let look = look_at(target, *taken);
        *taken += usize::from(!is_known(target));
        (target, look)
    };
    targets.into_iter().map(look).collect()
}

fn is_known(target: &str) -> bool {
    TARGETS.iter().any(|(name, _)| *name == target)
}

/// The look of a target that comes after `earlier` unknown ones of its kind.
fn look_at(target: &str, earlier: usize) -> Look {
    if let Some((_, look)) = TARGETS.iter().find(|(name, _)| *name == target) {
        return *look;
    }
    let colors = if is_frond(target) { BUILDS } else { OTHERS };
    let symbols = ["circle", "rect", "triangle", "diamond"];
    let symbol = symbols[earlier / colors.len() % symbols.len()];
    look(colors[earlier % colors.len()], symbol, "dashed")
}

/// Whether a target is Frond, with any settings and of any build.
pub fn is_frond(target: &str) -> bool {
    target == "frond" || target.starts_with("frond-") || target.starts_with("frond@")
}

/// Whether a target stores nothing, and so shows the cost of the lab itself.
pub fn is_null(target: &str) -> bool {
    target == "blackhole" || target == "null"
}

/// Sort key of a target in charts and matrices.
pub fn order(target: &str) -> (usize, &str) {
    let place = TARGETS.iter().position(|(name, _)| *name == target);
    let unknown = if is_frond(target) { 2 } else { TARGETS.len() };
    (place.unwrap_or(unknown), target)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance of a colour as defined by WCAG 2.
    fn luminance(color: &str) -> f64 {
        let part = |at: usize| {
            let value = u8::from_str_radix(&color[at..at + 2], 16).unwrap_or(0);
            let c = f64::from(value) / 255.0;
            if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5)
    }

    #[test]
    fn colors_have_contrast_on_light_and_dark() {
        let all = TARGETS.iter().map(|(_, look)| look.color).chain(BUILDS.iter().copied());
        for color in all.chain(OTHERS.iter().copied()) {
            let own = luminance(color);
            let on_white = 1.05 / (own + 0.05);
            let on_dark = (own + 0.05) / (luminance("#15181c") + 0.05);
            assert!(on_white >= 3.0 && on_dark >= 3.0, "{color}: {on_white:.2}, {on_dark:.2}");
        }
    }

    #[test]
    fn targets_of_one_face_have_distinct_colors() {
        let sql: Vec<_> =
            TARGETS.iter().filter(|(name, _)| *name != "rocksdb" && *name != "null").collect();
        for (at, (name, look)) in sql.iter().enumerate() {
            assert!(sql[..at].iter().all(|(_, other)| other.color != look.color), "{name}");
        }
        assert!(is_frond("frond@1a2b3c4") && !is_frond("frondeur"));
        let builds =
            ["frond", "frond@1a2b3c4", "frond@3404a9c", "innodb", "mysql://x", "mysql://y"];
        let looks = looks(builds);
        let colors: std::collections::BTreeSet<&str> =
            looks.values().map(|look| look.color).collect();
        assert_eq!(colors.len(), builds.len(), "{looks:?}");
        assert_eq!(looks["frond"], look_of("frond"));
        assert!(order("frond@1a2b3c4") < order("innodb") && order("zeta") > order("null"));
    }
}
