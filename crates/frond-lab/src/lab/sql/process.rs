//! A MariaDB server for one cell, with its own directory and configuration, a socket and no
//! network.
//!
//! Invariants
//! 1. The server never outlives this process: the kernel kills it when this process ends
//!    (`setpriv`).
//! 2. It loads only the plugins that its configuration names, and reads no configuration files of
//!    the machine.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::session::Session;
use crate::measure::Owner;
use crate::targets::{Failure, Result};

/// Maximum time to start, and to stop.
const START_STOP_TIMEOUT: Duration = Duration::from_secs(300);

/// Interval between two checks of whether a server has started or ended.
const POLL: Duration = Duration::from_millis(10);

/// Name of the socket, below a server's own directory.
const SOCKET: &str = "socket";

/// Prefix of the name of that directory, which also names the process that made it.
const PREFIX: &str = "frond-lab-server-";

const SERVER: &str = "mariadbd";
const INSTALL: &str = "mariadb-install-db";

/// Required commands, and the packages that contain them.
const COMMANDS: [(&str, &str); 3] =
    [(SERVER, "mariadb-server"), (INSTALL, "mariadb-server"), ("setpriv", "util-linux")];

/// Directory where packages install plugins.
pub const PLUGINS: &str = "/usr/lib/mysql/plugin";

/// Environment variable with the libraries that a program loads first.
pub const PRELOAD: &str = "LD_PRELOAD";

/// A plugin to load.
pub struct Plugin {
    /// File name by which the plugin is loaded.
    pub file: String,
    /// Path of the file.
    pub path: PathBuf,
}

const FROND_PLUGIN: &str = "ha_frond.so";

/// Finds the plugin that was built in this tree: below the working directory, or in a directory
/// above this program.
pub fn built_plugin() -> Option<PathBuf> {
    let place = Path::new("mariadb/build").join(FROND_PLUGIN);
    let program = std::env::current_exe().unwrap_or_default();
    let above = program.ancestors().skip(1).map(Path::to_owned);
    let places = std::iter::once(PathBuf::from("target")).chain(above);
    let mut files = places.map(|target| target.join(&place));
    files.find(|file| file.is_file())?.canonicalize().ok()
}

/// Finds a command in PATH, or in the directories of daemons.
fn find(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    places.map(|place| place.join(command)).find(|file| file.is_file())
}

/// Checks that all required commands are installed; the failure names the missing package.
pub fn installed() -> Result<()> {
    match COMMANDS.iter().find(|(command, _)| find(command).is_none()) {
        None => Ok(()),
        Some((command, package)) => {
            Err(Failure(format!("there is no {command} here: `apt-get install {package}`")))
        }
    }
}

fn command(name: &str) -> Command {
    Command::new(find(name).unwrap_or_else(|| name.into()))
}

fn appended(log: &Path) -> Result<File> {
    Ok(File::options().create(true).append(true).open(log)?)
}

/// Starts a server with this command line of `setpriv`.
fn launch(words: &[OsString], log: &Path) -> Result<Child> {
    let mut command = command("setpriv");
    command.args(words).stdin(Stdio::null()).stdout(appended(log)?).stderr(appended(log)?);
    Ok(command.spawn()?)
}

/// Removes the directories of sockets that killed processes of this user have left.
pub fn remove_stale() {
    let own = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let is_ours = || entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == own);
        if Owner::has_ended(&entry.file_name(), PREFIX) && is_ours() {
            let _ = fs::remove_dir_all(entry.path()); // the next run finds what is still there
        }
    }
}

/// A running server.
pub struct Server {
    process: Child,
    /// Command line of the process.
    words: Vec<OsString>,
    log: PathBuf,
    data: PathBuf,
    /// Directory of the socket, whose path must be short.
    run_dir: PathBuf,
}

impl Server {
    /// Creates a data directory below `dir`, and starts a server on it with these options and
    /// plugins, and with this library as its allocator.
    pub fn start(
        dir: &Path,
        options: &[(impl AsRef<str>, String)],
        plugins: &[Plugin],
        allocator: Option<&Path>,
    ) -> Result<Self> {
        let dir = dir.canonicalize()?;
        let data = dir.join("data");
        let log = dir.join("server.log");
        // A private directory for temporary tables: a starting server deletes those of all servers
        // that share the directory.
        let tmp = dir.join("tmp");
        fs::create_dir_all(&tmp)?;
        let tmpdir = format!("--tmpdir={}", tmp.display());
        // mariadbd refuses to run as root unless told to.
        let user = (fs::metadata("/proc/self")?.uid() == 0).then_some("--user=root");
        let made = command(INSTALL)
            .arg("--no-defaults")
            .arg(format!("--datadir={}", data.display()))
            .arg(&tmpdir)
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(user)
            .stdin(Stdio::null())
            .stdout(appended(&log)?)
            .stderr(appended(&log)?)
            .status()?;
        if !made.success() {
            let errors = errors_in(&log);
            return Err(Failure(format!(
                "{INSTALL} ended with {made}; see {}{errors}",
                log.display()
            )));
        }
        let run_dir = std::env::temp_dir().join(Owner::own().name(PREFIX));
        DirBuilder::new().mode(0o700).create(&run_dir)?;
        // A server loads plugins from one directory only.
        let mut load = Vec::new();
        for Plugin { file, path } in plugins {
            std::os::unix::fs::symlink(path, run_dir.join(file))?;
            load.push(format!("--plugin-load-add={file}"));
        }
        if !load.is_empty() {
            load.push(format!("--plugin-dir={}", run_dir.display()));
        }
        let mut words: Vec<OsString> = ["--pdeathsig", "KILL", "--"].map(OsString::from).into();
        if let Some(library) = allocator {
            let preload = OsString::from(format!("{PRELOAD}={}", library.display()));
            words.extend([OsString::from("env"), preload]);
        }
        words.push(find(SERVER).unwrap_or_else(|| SERVER.into()).into());
        words.extend(
            [
                "--no-defaults".to_owned(),
                format!("--datadir={}", data.display()),
                tmpdir,
                format!("--socket={}", run_dir.join(SOCKET).display()),
                format!("--pid-file={}", run_dir.join("pid").display()),
            ]
            .map(OsString::from),
        );
        let fixed = ["--skip-networking", "--skip-log-bin", "--max-allowed-packet=1G"];
        words.extend(fixed.into_iter().chain(user).map(OsString::from));
        words.extend(load.into_iter().map(OsString::from));
        let options = options.iter().map(|(name, value)| format!("--{}={value}", name.as_ref()));
        words.extend(options.map(OsString::from));
        let process = launch(&words, &log)?;
        let mut server = Self { process, words, log, data, run_dir };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// Waits until the server accepts connections. The file of its socket is not enough: it appears
    /// before the server listens, and a connection in between is refused.
    ///
    /// # Errors
    /// It does not start; the message has the last errors in its log.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        let begin = Instant::now();
        while UnixStream::connect(self.socket()).is_err() {
            let log = self.log.display();
            if let Some(status) = self.process.try_wait()? {
                let errors = errors_in(&self.log);
                return Err(Failure(format!("{SERVER} ended with {status}; see {log}{errors}")));
            }
            if begin.elapsed() > START_STOP_TIMEOUT {
                return Err(Failure(format!("{SERVER} does not start; see {log}")));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Kills the server with SIGKILL.
    ///
    /// # Errors
    /// It cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        self.process.kill()?;
        self.process.wait()?;
        let _ = fs::remove_file(self.socket()); // a server that was killed early has none
        Ok(())
    }

    /// Starts a killed server again on the same directory. It then has another pid.
    ///
    /// # Errors
    /// The command cannot be started.
    pub fn restart(&mut self) -> Result<()> {
        self.process = launch(&self.words, &self.log)?;
        Ok(())
    }

    /// Path of the socket.
    pub fn socket(&self) -> PathBuf {
        self.run_dir.join(SOCKET)
    }

    /// Pid of the server.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The data directory.
    pub fn data_dir(&self) -> &Path {
        &self.data
    }

    /// Shuts the server down cleanly, so that it writes out what is in memory.
    pub fn stop(mut self) -> Result<()> {
        Session::connect(&self.socket(), "")?.run("SHUTDOWN")?;
        match self.wait()? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Failure(format!("{SERVER} ended with {status}"))),
            None => Err(Failure(format!("{SERVER} does not end"))),
        }
    }

    fn wait(&mut self) -> Result<Option<ExitStatus>> {
        let begin = Instant::now();
        while begin.elapsed() < START_STOP_TIMEOUT {
            if let Some(status) = self.process.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(POLL);
        }
        Ok(None)
    }
}

/// The last lines of a log file.
pub fn log_tail(log: &Path, lines: usize) -> String {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The last error lines of a log file, formatted to follow a sentence.
fn errors_in(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
    let last = errors.iter().rev().take(3).rev();
    last.map(|line| format!("\n  {line}")).collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(Some(_))) {
            let _ = self.process.kill(); // it may have ended by itself meanwhile
            let _ = self.process.wait();
        }
        let _ = fs::remove_dir_all(&self.run_dir); // a leftover directory in /tmp does no harm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_ended_processes_are_removed() -> std::io::Result<()> {
        let at = |name: &str| std::env::temp_dir().join(name);
        let own = at(&Owner::own().name(PREFIX));
        let ended = at(&format!("{PREFIX}{}.1.0", u32::MAX));
        let foreign = at(&format!("{PREFIX}notes-{}", std::process::id()));
        for dir in [&own, &ended, &foreign] {
            fs::create_dir_all(dir.join("inside"))?;
        }
        remove_stale();
        assert!(!ended.exists());
        assert!(own.exists() && foreign.exists());
        fs::remove_dir_all(own)?;
        fs::remove_dir_all(foreign)
    }
}
