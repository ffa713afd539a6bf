//! The first page: a sentence, the matrices, the worst losses, and the links.

use serde::Serialize;

use super::group::Group;
use super::matrix::{self, FaceMatrix, Loss, Matrix};
use super::palette;
use super::query::Results;
use super::sentence::count;

/// The first page.
#[derive(Serialize, Debug)]
pub struct Page {
    pub sentence: String,
    pub matrices: Vec<FaceMatrix>,
    pub losses: Vec<Loss>,
    /// Name and link of the pages of workloads, by face.
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

/// The first page.
pub fn page(results: &Results<'_>, groups: &[(Group<'_>, String)]) -> Page {
    let matrices = matrix::all(groups);
    let links = matrices
        .iter()
        .map(|matrix| {
            let of_face =
                groups.iter().filter(|(group, _)| group.key.face == matrix.workloads.face);
            let links = of_face.map(|(group, link)| Link {
                title: group.title(),
                conditions: group.conditions(),
                link: link.clone(),
                targets: count(group.targets.len(), "target"),
            });
            (matrix.workloads.face.clone(), links.collect())
        })
        .collect();
    let sentence = sentence(results, groups, &matrices);
    Page { sentence, matrices, losses: matrix::losses(groups), links }
}

/// What was run, on what, and how it came out.
fn sentence(
    results: &Results<'_>,
    groups: &[(Group<'_>, String)],
    matrices: &[FaceMatrix],
) -> String {
    if groups.is_empty() {
        return "Nothing was run yet.".to_owned();
    }
    let mut workloads: Vec<&str> =
        groups.iter().map(|(group, _)| group.key.workload.as_str()).collect();
    workloads.sort_unstable();
    workloads.dedup();
    let mut targets: Vec<&str> = results.cells.iter().map(|cell| cell.target.as_str()).collect();
    targets.sort_unstable();
    targets.dedup();
    let failed = results.cells.iter().filter(|cell| !cell.is_usable()).count();
    let mut text = format!(
        "{} on {}, {}",
        count(workloads.len(), "workload"),
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
    let parts: Vec<String> =
        matrices.iter().filter_map(|matrix| result(&matrix.workloads)).collect();
    if parts.is_empty() { format!("{text}.") } else { format!("{text}: {}.", parts.join("; ")) }
}

/// How Frond did in a matrix.
fn result(matrix: &Matrix) -> Option<String> {
    let column = matrix
        .targets
        .iter()
        .position(|target| target == "frond")
        .or_else(|| matrix.targets.iter().position(|target| palette::is_frond(target)))?;
    let name = matrix.targets.get(column)?;
    let class = |wanted: &str| {
        matrix
            .rows
            .iter()
            .filter(|row| row.cells.get(column).is_some_and(|c| c.class == wanted))
            .count()
    };
    let (better, worse, failed) = (class("better"), class("worse"), class("failed"));
    let rows = matrix.rows.len() - class("");
    let mut text = format!(
        "{name} is significantly better than {} in {better} and worse in {worse} of {} ({})",
        matrix.base,
        count(rows, "workload"),
        matrix.face
    );
    if failed > 0 {
        text.push_str(&format!(", and failed in {failed}"));
    }
    Some(text)
}
