//! A session: MariaDB's command-line client as a process, statements into it, rows out of it.
//!
//! Invariants
//! 1. After each statement a line is asked for that no row is: what comes before it is the answer.
//!
//! Threads: one.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::targets::{Failure, Result};

/// Asked for after each statement. Two fields, the second with a byte that rows have escaped.
const MARK: &str = "SELECT 'end of', 'answer\\0'";
const MARK_LINE: &[u8] = b"end of\tanswer\\0";

/// A connection.
pub struct Client {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Client {
    /// Connects to the server behind this socket.
    pub fn connect(socket: &Path, database: &str) -> Result<Self> {
        let mut process = Command::new("mariadb")
            .arg("--no-defaults")
            .arg(format!("--socket={}", socket.display()))
            .args(["--user=root", "--batch", "--skip-column-names", "--unbuffered", "--quick"])
            .args(["--binary-mode", "--max-allowed-packet=1G", "--default-character-set=utf8mb4"])
            .args((!database.is_empty()).then_some(database))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .map_err(|error| Failure(format!("mariadb: {error}")))?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let output = output.ok_or_else(|| Failure("mariadb: no output".to_owned()))?;
        let mut client = Self {
            process,
            input,
            output: BufReader::with_capacity(1 << 20, output),
            line: Vec::new(),
        };
        client.run("SET NAMES utf8mb4")?;
        Ok(client)
    }

    /// Runs a statement that gives no rows.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        self.query(sql, &mut |_| true)
    }

    /// Runs a statement; `visit` sees each row as the client prints it, and ends it with false: the rest of the
    /// rows is passed over.
    pub fn query(&mut self, sql: &str, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let input = self.input.as_mut().ok_or_else(ended)?;
        let sent = input
            .write_all(sql.as_bytes())
            .and_then(|()| input.write_all(format!(";\n{MARK};\n").as_bytes()))
            .and_then(|()| input.flush());
        sent.map_err(|_| ended())?;
        let mut wanted = true;
        loop {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                return Err(ended());
            }
            let row = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if row == MARK_LINE {
                return Ok(());
            }
            wanted = wanted && visit(row);
        }
    }
}

impl Client {
    /// Runs a statement after which there may be no server to ask anything.
    pub fn run_last(mut self, sql: &str) -> Result<()> {
        let input = self.input.as_mut().ok_or_else(ended)?;
        input.write_all(format!("{sql};\n").as_bytes()).map_err(|_| ended())
    }
}

/// It says why on standard error, and ends at the first statement that fails.
fn ended() -> Failure {
    Failure("innodb: the client ended; its error stands above".to_owned())
}

impl Drop for Client {
    fn drop(&mut self) {
        self.input = None; // the end of its input ends it
        let _ = self.process.wait(); // nothing is to be done about how it ended
    }
}
