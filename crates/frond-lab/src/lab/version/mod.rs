//! Versions: Frond of another commit as a target, such as `frond@REVISION` or
//! `frond-small@REVISION`.
//!
//! Invariants
//! 1. A revision is resolved to a commit when the run is planned. Names, results and `--resume` use
//!    the commit.
//! 2. A cell runs exactly the library that was built from its commit, or it does not run.
//! 3. A library in use by a running lab is never removed: that lab holds a shared lock on its
//!    commit.

mod build;
mod checkout;

use std::collections::BTreeMap;
use std::path::Path;

use super::size::Face;
use crate::targets::{Failure, Result};
pub use build::{Built, hash_of, header_of};
pub use checkout::{Checkout, Commit};

/// Splits the name of a target into base and revision. URLs and target files have no revision.
pub fn split(target: &str) -> Option<(&str, &str)> {
    let is_given = target.contains("://") || target.ends_with(".toml");
    target.split_once('@').filter(|_| !is_given)
}

/// The commits of a run, and the libraries built from them.
#[derive(Default)]
pub struct Versions {
    checkout: Option<Checkout>,
    commits: BTreeMap<String, Commit>,
    built: BTreeMap<(String, &'static str), Built>,
}

impl Versions {
    /// Resolves the revisions in target names to commits. Two revisions of one commit become one
    /// target.
    ///
    /// # Errors
    /// A revision does not exist.
    pub fn resolve(&mut self, targets: &[String]) -> Result<Vec<String>> {
        let mut resolved: Vec<String> = Vec::new();
        for target in targets {
            let name = match split(target) {
                None => target.clone(),
                Some((base, revision)) => {
                    let commit = self.checkout()?.resolve(revision)?;
                    let name = format!("{base}@{}", commit.short);
                    self.commits.insert(commit.short.clone(), commit);
                    name
                }
            };
            if !resolved.contains(&name) {
                resolved.push(name);
            }
        }
        Ok(resolved)
    }

    /// The library of a target for a face; builds it if necessary. `None` for a target without a
    /// revision.
    ///
    /// # Errors
    /// The commit cannot be built; the message has the last lines of the build's output.
    pub fn library(&mut self, target: &str, face: Face) -> Result<Option<&Built>> {
        let Some((_, short)) = split(target) else { return Ok(None) };
        let file = match face {
            Face::Sql => build::PLUGIN,
            Face::Embedded => build::LIBRARY,
        };
        let key = (short.to_owned(), file);
        if !self.built.contains_key(&key) {
            let commit = self.commits.get(short).cloned();
            let commit = commit.ok_or_else(|| Failure(format!("{target} was not resolved")))?;
            let built = self.checkout()?.build(&commit, file)?;
            self.built.insert(key.clone(), built);
        }
        Ok(self.built.get(&key))
    }

    /// Checks that the library of a cell is still the one that was built from its commit (Invariant
    /// 2): a run may take days.
    ///
    /// # Errors
    /// The file has changed.
    pub fn check_unchanged(&self, library: Option<&Path>) -> Result<()> {
        let built = self.built.values().find(|built| Some(built.library.as_path()) == library);
        match built {
            Some(built) if hash_of(&built.library)? != built.hash => {
                Err(Failure(format!("{} has changed since it was built", built.library.display())))
            }
            _ => Ok(()),
        }
    }

    /// Settings that describe the library of a cell, if it is that of another commit.
    pub fn settings(&self, library: Option<&Path>) -> Vec<(String, String)> {
        let built = self.built.values().find(|built| Some(built.library.as_path()) == library);
        built.map_or_else(Vec::new, |built| {
            let file = format!("{} with hash {}", built.library.display(), built.hash);
            let pairs = [("(commit)", built.commit.hash.clone()), ("(library)", file)];
            pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
        })
    }

    /// Commits and hashes of libraries, for the environment of the run.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = self.built.iter().flat_map(|((short, file), built)| {
            [
                (format!("frond@{short}"), built.commit.hash.clone()),
                (format!("frond@{short} {file}"), built.hash.clone()),
            ]
        });
        BTreeMap::from_iter(pairs).into_iter().collect()
    }

    fn checkout(&mut self) -> Result<&Checkout> {
        if self.checkout.is_none() {
            self.checkout = Some(Checkout::own()?);
        }
        self.checkout.as_ref().ok_or_else(|| Failure("there is no checkout".to_owned()))
    }
}

/// Lists what is missing to build the plugin of a commit.
///
/// # Errors
/// Commits cannot be built at all, not even as embedded targets.
pub fn missing() -> Result<Vec<&'static str>> {
    let checkout = Checkout::own()?;
    let runs = |program: &str| {
        let mut command = std::process::Command::new(program);
        command.arg("--version").output().is_ok_and(|output| output.status.success())
    };
    if !runs("cargo") {
        return Err(Failure("there is no cargo".to_owned()));
    }
    let mut missing: Vec<&str> =
        ["cmake", "ninja"].into_iter().filter(|name| !runs(name)).collect();
    if !checkout.has_server_source() {
        missing.push("source of the server");
    }
    Ok(missing)
}

#[cfg(test)]
mod tests;
