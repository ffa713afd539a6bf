//! The failure of a run.

use std::fmt;

use frond::Error;

/// A broken promise: what, and where.
#[derive(Clone, Debug)]
pub struct Failure(pub String);

impl Failure {
    /// Prepends where it happened.
    pub fn during(self, place: impl fmt::Display) -> Self {
        Self(format!("{place}: {}", self.0))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

/// Fails with this message.
pub fn fail<T>(what: impl Into<String>) -> Result<T, Failure> {
    Err(Failure(what.into()))
}
