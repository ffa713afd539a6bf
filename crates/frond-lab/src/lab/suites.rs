//! Suites: several workloads on their targets, each a section of `lab/suites.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::run::Item;
use super::size::{Durability, Face};
use super::suggest::unknown;
use crate::targets::{Failure, Result};

const TEXT: &str = include_str!("../../lab/suites.toml");

/// A suite.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// What it is, in one sentence.
    pub about: String,
    /// As it was published; `safe` if nothing is said.
    pub durability: Option<Durability>,
    /// Its parts, in their order.
    pub run: Vec<Part>,
}

/// A workload of a suite.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Workload.
    pub workload: String,
    /// How they are used.
    #[serde(default = "sql")]
    pub face: Face,
    /// Targets.
    pub targets: Vec<String>,
    /// Parameters that are not at their defaults.
    #[serde(default)]
    pub set: BTreeMap<String, String>,
}

impl Part {
    /// Its targets without those that are features of this program of their own and were left out when it was built.
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

/// All suites by name.
///
/// # Errors
/// The file is wrong, which a test shows.
pub fn all() -> Result<BTreeMap<String, Suite>> {
    toml::from_str(TEXT).map_err(|error| Failure(format!("suites.toml: {error}")))
}

/// Durability that a suite is run at unless another is asked for.
pub fn durability(name: &str) -> Option<Durability> {
    all().ok()?.get(name)?.durability
}

/// What belongs to the suite of this name; `None` if there is no such suite. With `targets` they are run in place of the
/// suite's.
///
/// # Errors
/// The file is wrong.
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
    unknown("workload or suite", name, &names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::params::Params;
    use crate::lab::size::Size;
    use crate::lab::{embedded, target, workloads};

    #[test]
    fn suites_name_workloads_targets_and_parameters_that_exist() {
        let all = all().unwrap_or_else(|failure| panic!("{failure}"));
        for (name, suite) in all {
            assert!(!suite.run.is_empty(), "{name}");
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
