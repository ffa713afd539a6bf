//! Failures of a command: one line on standard error, and an exit code.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | `check` found damage; `get` or `delete` found no such key |
//! | 2 | error: wrong arguments, or the command failed |
//! | 130 | interrupted by Ctrl-C, SIGTERM or SIGHUP |

use std::{
    fmt,
    io::{self, Write},
    process::ExitCode,
};

/// Exit code of a command that a signal has ended.
pub const INTERRUPTED: u8 = 130;

/// Why a command ended early.
#[derive(Debug)]
pub enum Fail {
    /// The command was carried out, and its answer is no: damage, or nothing found. Code 1.
    Negative(String),
    /// The command could not be carried out. Code 2.
    Error(String),
    /// A signal has ended the command early. Code [`INTERRUPTED`].
    Interrupted(String),
    /// The reader of the output has closed the pipe. This is not an error.
    ReaderGone,
}

/// `Result` of a command.
pub type Result<T = (), E = Fail> = std::result::Result<T, E>;

impl Fail {
    /// Prints the line, and returns the code.
    pub fn report(&self) -> ExitCode {
        match self {
            Fail::ReaderGone => ExitCode::SUCCESS,
            Fail::Negative(why) => {
                to_stderr(why);
                ExitCode::from(1)
            }
            Fail::Error(why) => {
                to_stderr(why);
                ExitCode::from(2)
            }
            Fail::Interrupted(why) => {
                to_stderr(why);
                ExitCode::from(INTERRUPTED)
            }
        }
    }
}

/// Prints one line to standard error. Unlike `eprintln`, it does not panic if nothing reads it.
pub fn to_stderr(message: &str) {
    let _ = writeln!(io::stderr(), "frond: {}", one_line(message));
}

/// An error with this message.
pub fn error<T>(why: impl fmt::Display) -> Result<T> {
    Err(Fail::Error(why.to_string()))
}

/// Joins the lines of a text.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl From<frond::Error> for Fail {
    fn from(error: frond::Error) -> Self {
        Fail::Error(error.to_string())
    }
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Fail::ReaderGone,
            // An error with a code of the system is one of standard output: errors of files were
            // replaced by ones that name the file and have no such code.
            _ if error.raw_os_error().is_some() => Fail::Error(format!("standard output: {error}")),
            _ => Fail::Error(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line() {
        assert_eq!(one_line("a\n\n  b\tc\n"), "a b c");
        assert!(matches!(Fail::from(io::Error::from(io::ErrorKind::BrokenPipe)), Fail::ReaderGone));
    }
}
