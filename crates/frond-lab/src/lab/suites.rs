//! Suites: sets of workloads with their targets. Each is a section of `lab/suites.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::machine::virtual_disk::Kind;
use super::run::Item;
use super::size::{Durability, Face};
use super::suggest::unknown;
use crate::targets::{Failure, Result};

const TEXT: &str = include_str!("../../lab/suites.toml");

/// A named set of workloads to run together.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Description in one sentence.
    pub about: String,
    /// Durability of the published study; `safe` if not set.
    pub durability: Option<Durability>,
    /// Storage class; `host`, the disk as it is, if not set.
    pub class: Option<String>,
    /// What throttles the disk: without it, the buffered writes and the journal of a class with
    /// limits are not throttled under control groups of version 1.
    pub disk: Option<Kind>,
    /// Suites whose parts run before those of this one.
    #[serde(default)]
    pub include: Vec<String>,
    /// The parts of the suite, in order.
    #[serde(default)]
    pub run: Vec<Part>,
}

/// A workload of a suite, with its targets and parameters.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Workload.
    pub workload: String,
    /// How the targets are accessed.
    #[serde(default = "sql")]
    pub face: Face,
    /// Targets.
    pub targets: Vec<String>,
    /// Parameters that are not at their defaults.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

impl Part {
    /// The targets without those that are optional features of this program and were not built in.
    fn built(&self) -> Vec<String> {
        let is_built = |target: &&String| {
            cfg!(feature = "tidesdb") || self.face == Face::Sql || *target != "tidesdb"
        };
        self.targets.iter().filter(is_built).cloned().collect()
    }
}

fn sql() -> Face {
    Face::Sql
}

/// All suites by name, each with the parts of the suites that it includes.
///
/// # Errors
/// The file is invalid, which a test would detect.
pub fn all() -> Result<BTreeMap<String, Suite>> {
    resolved(TEXT)
}

fn resolved(text: &str) -> Result<BTreeMap<String, Suite>> {
    let wrong = |why: &dyn std::fmt::Display| Failure(format!("suites.toml: {why}"));
    let given: BTreeMap<String, Suite> = toml::from_str(text).map_err(|error| wrong(&error))?;
    let mut all = given.clone();
    for (name, suite) in &mut all {
        let mut parts = Vec::new();
        for other in &suite.include {
            match given.get(other) {
                Some(other) if other.include.is_empty() => parts.extend(other.run.iter().cloned()),
                Some(_) => {
                    return Err(wrong(&format!("{name} includes {other}, which includes others")));
                }
                None => {
                    return Err(wrong(&format!("{name} includes {other}, which does not exist")));
                }
            }
        }
        parts.append(&mut suite.run);
        // Parts that several included suites share run once.
        for part in parts {
            if !suite.run.contains(&part) {
                suite.run.push(part);
            }
        }
    }
    Ok(all)
}

/// Finds a suite by name.
pub fn find(name: &str) -> Option<Suite> {
    all().ok()?.remove(name)
}

/// The parts of the suite `name` to run; `None` if there is no such suite. `targets` overrides the
/// targets of the suite.
///
/// # Errors
/// The file is invalid.
pub fn items(name: &str, targets: Option<&[String]>) -> Result<Option<Vec<Item>>> {
    let all = all()?;
    let Some(suite) = all.get(name) else { return Ok(None) };
    let item = |part: &Part| Item {
        workload: part.workload.clone(),
        face: part.face,
        changes: part.set.iter().map(|(n, v)| (n.clone(), v.clone())).collect(),
        targets: targets.map_or_else(|| part.built(), <[String]>::to_vec),
    };
    Ok(Some(suite.run.iter().map(item).collect()))
}

/// The error for a name that is neither a workload nor a suite.
pub fn unknown_name(name: &str) -> Failure {
    let suites = all().unwrap_or_default();
    let mut names: Vec<&str> = suites.keys().map(String::as_str).collect();
    names.extend(super::workloads::ALL.iter().map(|entry| entry.name));
    names.extend(super::embedded::ALL.iter().map(|entry| entry.name));
    names.sort_unstable();
    names.dedup();
    unknown("workload or suite", name, &names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::params::Params;
    use crate::lab::size::Size;
    use crate::lab::{embedded, target, workloads};

    #[test]
    fn a_suite_includes_the_parts_of_others_once() {
        let part = |name: &str| {
            format!(
                "[[{name}.run]]\nworkload = 'iibench'\ntargets = ['innodb']\nset = {{ rows = '{name}' }}\n"
            )
        };
        let text = format!(
            "[a]\nabout = 'a'\n{}[b]\nabout = 'b'\n{}[c]\nabout = 'c'\ninclude = ['b', 'a', 'b']\n{}",
            part("a"),
            part("b"),
            part("c")
        );
        let all = resolved(&text).expect("it is right");
        let rows: Vec<&str> = all["c"].run.iter().map(|part| part.set["rows"].as_str()).collect();
        assert_eq!(rows, ["b", "a", "c"]);
        assert!(resolved(&text.replace("'a', 'b']", "'x']")).is_err_and(|f| f.0.contains("x")));
        let nested = format!("{text}[d]\nabout = 'd'\ninclude = ['c']\n");
        assert!(resolved(&nested).is_err_and(|failure| failure.0.contains("includes others")));
    }

    #[test]
    fn studies_run_with_safe_durability_and_as_published() {
        let all = all().expect("it is right");
        for (name, suite) in all.iter().filter(|(name, _)| name.contains("-20")) {
            let limited = [("-hdd", "hdd"), ("-sata", "sata-2015")];
            let limited = limited.into_iter().find(|(suffix, _)| name.ends_with(suffix));
            let suffix = limited.map_or("-safe", |(suffix, _)| suffix);
            let base = name.trim_end_matches(suffix);
            let is_safe = |suite: &Suite| suite.durability == Some(Durability::Safe);
            let safe = all.get(&format!("{base}-safe"));
            assert!(is_safe(&all[base]) || safe.is_some_and(is_safe), "{name} has no safe variant");
            assert_eq!(suite.run, all[base].run, "{name}");
            assert_eq!(suite.class.as_deref(), limited.map(|(_, class)| class), "{name}");
            assert_eq!(suite.disk, limited.map(|_| Kind::Process), "{name}: all I/O is limited");
        }
        // The suite `all` has every workload but that of the tests.
        for entry in workloads::ALL.iter().filter(|entry| entry.name != "example") {
            assert!(
                all["all"].run.iter().any(|part| part.workload == entry.name),
                "{}",
                entry.name
            );
        }
        let is_embedded =
            |part: &Part, name: &str| part.face == Face::Embedded && part.workload == name;
        for entry in embedded::ALL {
            assert!(
                all["all"].run.iter().any(|part| is_embedded(part, entry.name)),
                "{}",
                entry.name
            );
        }
    }

    #[test]
    fn studies_run_on_embedded_stores_too() {
        for (name, suite) in all().expect("it is right") {
            let faces = |face| suite.run.iter().filter(move |part| part.face == face).count();
            let is_study = name.contains("-20") && !name.starts_with("zip-levels");
            assert!(!is_study || (faces(Face::Sql) > 0 && faces(Face::Embedded) > 0), "{name}");
        }
    }

    #[test]
    fn suites_name_workloads_targets_and_parameters_that_exist() {
        let all = all().unwrap_or_else(|failure| panic!("{failure}"));
        for (name, suite) in all {
            assert!(!suite.run.is_empty(), "{name}");
            let is_workload = workloads::find(&name).is_ok() || embedded::find(&name).is_ok();
            assert!(!is_workload, "{name} is also a workload");
            let class = suite.class.as_deref().unwrap_or("host");
            assert!(crate::lab::machine::class::find(class).is_ok(), "{name}: {class}");
            for part in suite.run {
                let changes: Vec<_> = part.set.into_iter().collect();
                if part.face == Face::Embedded {
                    let entry = embedded::find(&part.workload);
                    let entry = entry.unwrap_or_else(|f| panic!("{name}: {f}"));
                    let params = Params::new(entry.name, entry.params, Size::Quick, &changes);
                    assert!(params.is_ok(), "{name}");
                    let is_known = |target: &String| embedded::TARGETS.contains(&target.as_str());
                    assert!(part.targets.iter().all(is_known), "{name}");
                    continue;
                }
                let entry =
                    workloads::find(&part.workload).unwrap_or_else(|f| panic!("{name}: {f}"));
                for size in [Size::Tiny, Size::Quick, Size::Standard, Size::Published] {
                    let params = Params::new(entry.name, entry.params, size, &changes);
                    let made = params.and_then(|params| (entry.make)(&params, 1).map(drop));
                    made.unwrap_or_else(|failure| panic!("{name}: {failure}"));
                }
                for target in part.targets {
                    assert!(target::names().contains(&target.as_str()), "{name}: {target}");
                }
            }
        }
        assert!(unknown_name("iibench-2010").0.contains("iibench-2011"));
    }
}
