//! Runs the command as a user does.

#![allow(dead_code)] // each test file takes what it needs

use std::{path::PathBuf, process::Output};

use assert_cmd::Command;

/// A directory for one test, with a store that does not exist yet.
pub struct Place {
    dir: tempfile::TempDir,
}

/// The result of running the command.
#[derive(Debug)]
pub struct Answer {
    pub out: String,
    pub err: String,
    pub code: i32,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    /// Creates the directory with a store: tree `t` of so many rows, with an index of as many
    /// entries.
    pub fn loaded(rows: u32) -> Self {
        let place = Self::new();
        let rows: String = (0..rows).map(|id| format!("{id},some text of {id}\n")).collect();
        let file = place.write("t.csv", format!("id,v\n{rows}"));
        place.ok(&["load", "STORE", "t", &file, "--key", "id:int", "--index", "v"]);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Path of the store, as an argument.
    pub fn store(&self) -> String {
        self.path("store").display().to_string()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("written");
        self.path(name).display().to_string()
    }

    /// Runs `frond WORDS…`; `STORE` is replaced by the store's path.
    pub fn frond(&self, words: &[&str]) -> Answer {
        self.frond_reading(words, b"")
    }

    /// Runs `frond WORDS…` with this standard input.
    pub fn frond_reading(&self, words: &[&str], input: &[u8]) -> Answer {
        let store = self.store();
        let words = words.iter().map(|word| if *word == "STORE" { store.as_str() } else { word });
        let mut command = Command::cargo_bin("frond").expect("the command is built");
        let Output { status, stdout, stderr } =
            command.args(words).write_stdin(input).output().expect("it runs");
        Answer {
            out: String::from_utf8(stdout).expect("text"),
            err: String::from_utf8(stderr).expect("text"),
            code: status.code().expect("an exit code"),
        }
    }

    /// Runs a command that must succeed.
    pub fn ok(&self, words: &[&str]) -> String {
        let answer = self.frond(words);
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{words:?}: {answer:?}");
        answer.out
    }

    /// Runs a command that must fail with this code, and returns its one line.
    pub fn fails(&self, code: i32, words: &[&str]) -> String {
        let answer = self.frond(words);
        assert_eq!((answer.code, answer.out.as_str()), (code, ""), "{words:?}: {answer:?}");
        assert_eq!(answer.err.lines().count(), 1, "{words:?}: {answer:?}");
        answer.err.strip_prefix("frond: ").expect("the name of the command").trim_end().to_owned()
    }
}
