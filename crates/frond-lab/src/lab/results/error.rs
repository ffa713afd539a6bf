//! Errors: why a file of results cannot be used. Such a file is not changed.

use std::fmt;
use std::path::PathBuf;

use crate::targets::Failure;

/// What is wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The file does not exist.
    Missing,
    /// The path is that of a directory.
    Directory,
    /// The file is a database, but not one of the lab.
    Foreign,
    /// A newer lab wrote it.
    Newer {
        /// Version of its schema.
        found: i64,
        /// The newest version that this lab knows.
        known: i64,
    },
    /// The file is no database, or its pages are damaged.
    Damaged(String),
    /// SQLite reports another error.
    Sqlite(String),
}

/// An error of a file of results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResultsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: Reason,
}

impl fmt::Display for ResultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.reason {
            Reason::Missing => f.write_str("there are no results yet; `lab run` creates them"),
            Reason::Directory => {
                f.write_str("this is a directory; --results takes a file of results")
            }
            Reason::Foreign => f.write_str(
                "this file was not written by the lab; choose another one with --results",
            ),
            Reason::Newer { found, known } => write!(
                f,
                "written by a newer lab (schema {found}, this one knows {known}); it is left as it is"
            ),
            Reason::Damaged(what) => write!(
                f,
                "the database is damaged ({what}); it is left as it is: choose another with --results"
            ),
            Reason::Sqlite(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ResultsError {}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Self {
        Self(error.to_string())
    }
}
