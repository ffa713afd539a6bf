//! Counts the sync calls of a process with strace. Neither the flushes of a disk that others also
//! use, nor the engine's own counters prove that a commit was synced.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// System calls that sync a file.
const CALLS: &str = "fsync,fdatasync,sync_file_range,syncfs,msync";

/// A process whose sync calls are being counted.
pub struct Traced {
    strace: Child,
    /// Standard error of strace. It stays open: strace would end if the pipe were closed.
    said: BufReader<ChildStderr>,
    output: PathBuf,
}

impl Traced {
    /// Attaches to all threads of a process; `None` if strace is not installed or not permitted.
    pub fn attach(process: u32, dir: &Path) -> Option<Self> {
        let output = dir.join("syncs");
        let mut strace = Command::new("strace")
            .args(["-f", "-e", &format!("trace={CALLS}"), "-e", "signal=none", "-o"])
            .arg(&output)
            .args(["-p", &process.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let said = BufReader::new(strace.stderr.take()?);
        let mut traced = Self { strace, said, output };
        // strace prints "Process 7 attached with 9 threads" once it has all of them, or else it
        // ends.
        let mut lines = traced.said.by_ref().lines().map_while(Result::ok);
        lines.any(|line| line.contains("attached")).then_some(traced)
    }

    /// Detaches, and returns the number of calls since `attach`.
    pub fn count(mut self) -> Option<u64> {
        kill_process(Pid::from_child(&self.strace), Signal::INT).ok()?;
        self.strace.wait().ok()?;
        let text = fs::read_to_string(&self.output).ok()?;
        // A call during which another thread makes one is printed in two lines; only the first
        // matches.
        let is_call = |line: &&str| {
            let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
            CALLS.split(',').any(|name| call.strip_prefix(name).is_some_and(|c| c.starts_with('(')))
        };
        Some(text.lines().filter(is_call).count() as u64)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // A killed tracer detaches. After `count` it has already ended.
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn sql_syncs_of_a_process_and_its_children_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let script = "read line; for n in 1 2 3; do dd if=/dev/zero of=f$n count=1 conv=fsync; done; read line";
        let mut process = Command::new("sh")
            .args(["-c", script])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("there is a shell");
        let traced = Traced::attach(process.id(), dir.path()).expect("strace is installed");
        let mut input = process.stdin.take().expect("a pipe");
        input.write_all(b"go\n").expect("it reads");
        drop(input);
        process.wait().expect("it ends");
        assert_eq!(traced.count(), Some(3));
    }
}
