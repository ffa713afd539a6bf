//! The place of damage in a file, as shown in errors.

use std::{fmt, path::PathBuf};

/// A place in a file where damage was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The damaged file.
    pub file: PathBuf,
    /// Byte offset in it.
    pub offset: u64,
    /// Length of what was read there, bytes.
    pub bytes: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} bytes at offset {}", self.file.display(), self.bytes, self.offset)
    }
}
