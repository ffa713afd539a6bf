//! Standard output.

use std::io::{self, Write};

use crate::targets::{Failure, Result};

/// Writes to standard output. It is no error if the reader has closed it, as `head` does.
///
/// # Errors
/// Nothing can be written, for example because a disk is full.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}
