//! Counts the sync calls of a process with strace. Neither the flushes of a disk that others also
//! use, nor the engine's own counters prove that a commit was synced.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

/// System calls that sync a file.
const SYNCS: [&str; 5] = ["fsync", "fdatasync", "sync_file_range", "syncfs", "msync"];
/// System calls that write, and sync if the file was opened with O_DSYNC (TidesDB, and LMDB's meta
/// pages).
const WRITES: [&str; 5] = ["write", "writev", "pwrite64", "pwritev", "pwritev2"];

/// A process whose sync calls are being counted.
pub struct Traced {
    strace: Child,
    /// Pid of the process.
    process: u32,
    /// Standard error of strace. It stays open: strace would end if the pipe were closed.
    said: BufReader<ChildStderr>,
    output: PathBuf,
}

impl Traced {
    /// Attaches to all threads of a process; `None` if strace is not installed or not permitted.
    pub fn attach(process: u32, dir: &Path) -> Option<Self> {
        let output = dir.join("syncs");
        let calls = format!("trace={},{}", SYNCS.join(","), WRITES.join(","));
        let mut strace = Command::new("strace")
            .args(["-f", "-s", "0", "-e", &calls, "-e", "signal=none", "-o"])
            .arg(&output)
            .args(["-p", &process.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let said = BufReader::new(strace.stderr.take()?);
        let mut traced = Self { strace, process, said, output };
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
        let syncs = text.lines().filter(|line| {
            let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
            let Some((name, values)) = call.split_once('(') else { return false };
            let file = values.split([',', ')']).next().and_then(|file| file.parse().ok());
            SYNCS.contains(&name)
                || (WRITES.contains(&name) && file.is_some_and(|file| self.syncs_writes(file)))
        });
        Some(syncs.count() as u64)
    }

    /// Whether the process has a file open under this number with O_DSYNC.
    fn syncs_writes(&self, file: u32) -> bool {
        let path = format!("/proc/{}/fdinfo/{file}", self.process);
        let text = fs::read_to_string(path).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        flags.is_some_and(|flags| flags & libc::O_DSYNC != 0)
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
    fn writes_count_if_the_file_was_opened_to_sync_them() {
        use std::os::unix::fs::OpenOptionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let open = |name: &str, flags: i32| {
            let path = dir.path().join(name);
            let file = fs::File::options().write(true).create(true).custom_flags(flags).open(path);
            file.expect("a file")
        };
        let (mut synced, mut other) = (open("synced", libc::O_DSYNC), open("other", 0));
        let traced = Traced::attach(std::process::id(), dir.path()).expect("strace is installed");
        for _ in 0..3 {
            synced.write_all(b"x").expect("written");
            other.write_all(b"x").expect("written");
        }
        // Other tests of this process may sync as well.
        assert!(traced.count().is_some_and(|count| count >= 3));
    }

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
