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

/// The place of an action in a message; nothing for actions on whole files and directories.
pub(super) fn at(action: &str, offset: u64) -> String {
    let has_offset = offset > 0 || matches!(action, "read" | "write" | "allocate" | "punch");
    if has_offset { format!(" at offset {offset}") } else { String::new() }
}
