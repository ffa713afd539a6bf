//! The first page: a sentence, the matrices, the worst losses, and the links.

use serde::Serialize;

use super::group::Group;
use super::losses::{self, Losses};
use super::matrix::{self, FaceMatrix, Matrix, Row};
use super::number;
use super::palette;
use super::query::Results;
use super::sentence::count;
use super::size;
use crate::lab::statistics::geometric_mean;

/// The first page.
#[derive(Serialize, Debug)]
pub struct Page {
    /// How Frond compares with the base.
    pub sentence: String,
    /// What was run, and on which machine.
    pub extent: String,
    /// A sentence on the workloads of size tiny, which are in no chart and no matrix. Empty if
    /// there are none.
    pub tiny: String,
    pub matrices: Vec<FaceMatrix>,
    pub losses: Losses,
    /// Links to the pages of workloads, by face.
    pub links: Vec<(String, Vec<Link>)>,
}

/// A link to the page of a group.
#[derive(Serialize, Debug)]
pub struct Link {
    pub title: String,
    pub conditions: String,
    pub link: String,
    pub targets: String,
}

/// Builds the first page.
pub fn page(results: &Results<'_>, groups: &[(Group<'_>, String)]) -> Page {
    let matrices = matrix::all(groups);
    let links_of = |face: &str| {
        let of_face = groups.iter().filter(|(group, _)| group.key.face == face);
        let links = of_face.map(|(group, link)| Link {
            title: group.title(),
            conditions: group.conditions(),
            link: link.clone(),
            targets: count(group.targets.len(), "target"),
        });
        (face.to_owned(), links.collect())
    };
    let links = matrix::faces(groups).into_iter().map(links_of).collect();
    let parts: Vec<String> =
        matrices.iter().filter_map(|matrix| result(&matrix.workloads, groups)).collect();
    let sentence = match (groups.is_empty(), parts.is_empty()) {
        (true, _) => "Nothing was run yet.".to_owned(),
        (false, true) => "Nothing can be compared yet.".to_owned(),
        (false, false) => parts.join(" "),
    };
    let extent = if groups.is_empty() { String::new() } else { extent(results, groups) };
    let tiny = groups.iter().filter(|(group, _)| !group.is_charted()).count();
    let tiny = match tiny {
        0 => String::new(),
        n => format!(
            "{} of size tiny, which tests the lab itself, {} in no chart and no comparison.",
            count(n, "experiment"),
            if n == 1 { "is" } else { "are" }
        ),
    };
    Page { sentence, extent, tiny, matrices, losses: losses::all(groups), links }
}

/// What was run, and on which machine.
fn extent(results: &Results<'_>, groups: &[(Group<'_>, String)]) -> String {
    let mut workloads: Vec<&str> =
        groups.iter().map(|(group, _)| group.key.workload.as_str()).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let mut targets: Vec<&str> = results.cells.iter().map(|cell| cell.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    let failed = results.cells.iter().filter(|cell| !cell.is_usable()).count();
    let mut text = format!(
        "{} in {} on {}, {}",
        count(workloads.len(), "workload"),
        count(groups.len(), "experiment"),
        count(targets.len(), "target"),
        count(results.cells.len(), "cell")
    );
    if failed > 0 {
        text.push_str(&format!(", {failed} of them failed"));
    }
    let mut machines: Vec<&str> = results.runs.iter().map(|run| run.machine.as_str()).collect();
    machines.sort_unstable();
    machines.dedup();
    let fact = |name: &str| {
        let run = results.runs.first()?;
        run.environment.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    };
    match (machines.as_slice(), fact("cpu")) {
        ([_], Some(cpu)) => text.push_str(&format!(", on {cpu}")),
        ([""], None) => {}
        ([machine], None) => text.push_str(&format!(", on machine {machine}")),
        (several, _) => text.push_str(&format!(", on {} machines", several.len())),
    }
    text + "."
}

/// How Frond compares in a matrix, in words. An experiment is a workload under one set of
/// conditions: a row of the matrix. `None` if it has no column or no value there.
fn result(matrix: &Matrix, groups: &[(Group<'_>, String)]) -> Option<String> {
    let column = matrix
        .targets
        .iter()
        .position(|target| target == "frond")
        .or_else(|| matrix.targets.iter().position(|target| palette::is_frond(target)))?;
    let name = matrix.targets.get(column)?;
    let of_column = |row: &&Row| row.cells.get(column).is_some_and(|c| !c.class.is_empty());
    let own: Vec<&Row> = matrix.rows.iter().filter(of_column).collect();
    let is = |row: &Row, wanted: &str| row.cells.get(column).is_some_and(|c| c.class == wanted);
    let failed = own.iter().filter(|row| is(row, "failed")).count();
    let compared: Vec<&&Row> =
        own.iter().filter(|row| row.has_base() && !is(row, "failed")).collect();
    let face = if matrix.face == "sql" { "SQL".to_owned() } else { matrix.face.clone() };
    let (base, frond) = (shown(matrix.base), shown(name));
    let mut text = match (own.len(), compared.len()) {
        (0, _) => return None,
        (of, 0) => format!(
            "In {}, there is no value of {base} to compare {frond} with",
            count(of, &format!("{face} experiment"))
        ),
        (_, of) => {
            let count_of = |wanted| compared.iter().filter(|row| is(row, wanted)).count();
            let (better, worse) = (count_of("better"), count_of("worse"));
            let mut text = format!(
                "In {}, {frond} does better than {base} in {better} and worse in {worse}",
                count(of, &format!("{face} experiment"))
            );
            if of > better + worse {
                text.push_str(&format!("; in {} no difference is proved", of - better - worse));
            }
            text
        }
    };
    if failed > 0 {
        text.push_str(&format!("; it failed in {failed}"));
    }
    let sizes = sizes(matrix, name, groups);
    if let Some(size) = geometric_mean(&sizes) {
        text.push_str(&format!(
            ". Its tables take {} of {base}'s space{}",
            number::ratio(size),
            match sizes.len() {
                1 => String::new(),
                of => format!(" (geometric mean of {of} experiments)"),
            }
        ));
    }
    Some(text + ".")
}

/// The target's sizes relative to the base, in the groups in which both have a size.
fn sizes(matrix: &Matrix, name: &str, groups: &[(Group<'_>, String)]) -> Vec<f64> {
    let of_face = groups
        .iter()
        .map(|(group, _)| group)
        .filter(|group| group.key.face == matrix.face && group.is_charted());
    of_face
        .filter_map(|group| {
            let place = size::place(group)?;
            Some(place.of(group.target(name)?)? / place.of(group.base()?)?)
        })
        .filter(|ratio| ratio.is_finite())
        .collect()
}

/// A target's name as its authors write it.
fn shown(name: &str) -> &str {
    match name {
        "frond" => "Frond",
        "innodb" => "InnoDB",
        "rocksdb" => "RocksDB",
        other => other,
    }
}
