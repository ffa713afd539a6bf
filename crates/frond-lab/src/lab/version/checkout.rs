//! The git checkout that this lab was built from, and its commits.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::targets::{Failure, Result};

/// A commit of the checkout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// Full hash.
    pub hash: String,
    /// First seven digits of the hash, or as many as make it unique.
    pub short: String,
}

/// A git checkout of Frond.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// Root directory of the checkout.
    pub root: PathBuf,
}

impl Checkout {
    /// Finds the checkout with the sources of this lab.
    ///
    /// # Errors
    /// The sources are not in a git checkout.
    pub fn own() -> Result<Self> {
        Self::of(Path::new(env!("CARGO_MANIFEST_DIR")))
    }

    /// Finds the checkout that contains a directory.
    pub(super) fn of(dir: &Path) -> Result<Self> {
        let root = git(dir, &["rev-parse", "--show-toplevel"]).map_err(|failure| {
            Failure(format!("versions by commit need a git checkout of Frond: {failure}"))
        })?;
        Ok(Self { root: PathBuf::from(root) })
    }

    /// Directory where commits are built and kept.
    pub fn cache(&self) -> PathBuf {
        self.root.join("target/lab-versions")
    }

    /// Directory where `make mariadb-plugin` unpacks the server's source.
    pub(super) fn mariadb(&self) -> PathBuf {
        self.root.join("target/mariadb")
    }

    /// Whether the server's source is there.
    pub fn has_server_source(&self) -> bool {
        self.mariadb().join("source").exists()
    }

    /// Resolves a revision to a commit.
    ///
    /// # Errors
    /// The revision does not exist.
    pub fn resolve(&self, revision: &str) -> Result<Commit> {
        let unknown = || {
            let root = self.root.display();
            Failure(format!("there is no revision `{revision}` in {root}; `git log` lists them"))
        };
        let wanted = format!("{revision}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted];
        let hash = git(&self.root, &words).map_err(|_| unknown())?;
        let short = git(&self.root, &["rev-parse", "--short=7", &hash])?;
        Ok(Commit { hash, short })
    }
}

/// Runs git in a directory and returns its standard output.
pub fn git(dir: &Path, words: &[&str]) -> Result<String> {
    let output = Command::new("git").arg("-C").arg(dir).args(words).output();
    let output = output.map_err(|error| Failure(format!("git: {error}: `apt-get install git`")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(Failure(format!("git: {}", String::from_utf8_lossy(&output.stderr).trim())))
}
