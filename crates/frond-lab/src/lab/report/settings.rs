//! The page of settings: the versions, machine, settings, parameters, verifications and failures
//! without which a number means nothing.

use serde::Serialize;

use super::group::Group;
use super::number::human;
use super::query::{Cell, Results};

/// The page of settings.
#[derive(Serialize, Debug, Default)]
pub struct Settings {
    pub runs: Vec<RunPart>,
    pub groups: Vec<GroupPart>,
    pub failures: Vec<FailurePart>,
    pub verified: usize,
    pub wrong: usize,
}

/// A run on the page of settings.
#[derive(Serialize, Debug)]
pub struct RunPart {
    pub uid: String,
    pub suite: String,
    /// Pairs of name and value.
    pub facts: Vec<(String, String)>,
    pub is_ended: bool,
}

/// A group, with the workload's parameters and what is particular to each target.
#[derive(Serialize, Debug)]
pub struct GroupPart {
    pub title: String,
    pub face: String,
    pub conditions: String,
    pub link: String,
    pub parameters: Vec<(String, String)>,
    pub targets: Vec<TargetPart>,
}

/// A target of a group.
#[derive(Serialize, Debug)]
pub struct TargetPart {
    pub name: String,
    pub version: String,
    pub run: String,
    pub memory: String,
    pub repeats: String,
    pub settings: Vec<(String, String)>,
    /// Parameters that differ from those of the group's first target.
    pub parameters: Vec<(String, String)>,
    /// Verifications: what was verified, whether it passed, and details.
    pub verifications: Vec<(String, bool, String)>,
}

/// A failed cell.
#[derive(Serialize, Debug)]
pub struct FailurePart {
    pub title: String,
    pub target: String,
    pub repeat: i64,
    pub conditions: String,
    pub why: String,
    pub log: String,
}

/// Builds the page of settings.
pub fn page(results: &Results<'_>, groups: &[(Group<'_>, String)]) -> Settings {
    let mut page = Settings::default();
    for run in &results.runs {
        let mut facts: Vec<(String, String)> = [
            ("command", run.command.clone()),
            ("size, class, durability", format!("{}, {}, {}", run.size, run.class, run.durability)),
            ("seed", run.seed.to_string()),
            ("began", run.began.clone()),
            ("ended", run.ended.clone().unwrap_or_else(|| "did not end".to_owned())),
            ("machine", run.machine.clone()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
        facts.extend(run.environment.iter().map(|(name, value)| {
            let bytes = if name.ends_with("_b") { value.parse().ok() } else { None };
            (name.clone(), bytes.map_or_else(|| value.clone(), |bytes: f64| human(bytes, "B")))
        }));
        let (uid, suite) = (run.uid.clone(), run.suite.clone());
        page.runs.push(RunPart { uid, suite, facts, is_ended: run.ended.is_some() });
    }
    for (group, link) in groups {
        page.add(group, link);
    }
    page
}

impl Settings {
    fn add(&mut self, group: &Group<'_>, link: &str) {
        let first = |target: &super::group::Target<'_>| {
            target.cells.first().or(target.failed.first()).copied().cloned().unwrap_or_default()
        };
        let parameters = group.targets.first().map(first).unwrap_or_default().parameters;
        let mut targets = Vec::new();
        for target in &group.targets {
            let cell: Cell = first(target);
            let all = target.cells.iter().chain(&target.failed);
            let verifications: Vec<(String, bool, String)> = all
                .flat_map(|cell| {
                    cell.verifications.iter().map(|(name, passed, detail)| {
                        (format!("repeat {}: {name}", cell.repeat), *passed, detail.clone())
                    })
                })
                .collect();
            self.verified += verifications.len();
            self.wrong += verifications.iter().filter(|(_, passed, _)| !passed).count();
            self.failures.extend(target.failed.iter().map(|cell| FailurePart {
                title: group.title(),
                target: target.name.to_owned(),
                repeat: cell.repeat,
                conditions: group.conditions(),
                why: cell.failure.clone().unwrap_or_else(|| "no reason was recorded".to_owned()),
                log: cell.log_tail.clone().unwrap_or_default(),
            }));
            targets.push(TargetPart {
                name: target.name.to_owned(),
                version: cell.version.clone(),
                run: target.run.uid.clone(),
                memory: human(cell.memory_b, "B"),
                repeats: format!(
                    "{} counted ({} stopped at the time limit), {} failed",
                    target.cells.len(),
                    target.stopped(),
                    target.failed.len()
                ),
                settings: cell.settings.clone(),
                parameters: cell
                    .parameters
                    .into_iter()
                    .filter(|parameter| !parameters.contains(parameter))
                    .collect(),
                verifications,
            });
        }
        self.groups.push(GroupPart {
            title: group.title(),
            face: group.key.face.clone(),
            conditions: group.conditions(),
            link: link.to_owned(),
            parameters,
            targets,
        });
    }
}
