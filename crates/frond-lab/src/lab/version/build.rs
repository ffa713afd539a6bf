//! Builds a commit in a separate worktree below `target/lab-versions`, which is kept for later
//! runs.
//!
//! If two labs need the same commit, the second waits for the lock of the first, and then finds the
//! library. Cargo's intermediate files are removed after the build. The `KEPT` most recently used
//! commits are kept.

use std::fs::{self, File, TryLockError};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use indicatif::{ProgressBar, ProgressStyle};

use super::checkout::{Checkout, Commit, git};
use crate::lab::sql::process::log_tail;
use crate::targets::{Failure, Result};

/// File name of the MariaDB plugin.
pub const PLUGIN: &str = "ha_frond.so";
/// File name of the library with the C API.
pub const LIBRARY: &str = "libfrond.so";
/// Number of commits that are kept, about 300 MB each.
pub const KEPT: usize = 8;
/// Directory of the libraries in a commit's worktree.
const LIBRARIES: &str = "target/lab";
/// Directories of cargo that only another build of the same commit would use.
const LEFTOVERS: [&str; 4] = ["deps", "build", ".fingerprint", "incremental"];

/// A library built from a commit.
#[derive(Debug)]
pub struct Built {
    /// The commit.
    pub commit: Commit,
    /// Path of the library.
    pub library: PathBuf,
    /// Hash of the library's bytes.
    pub hash: String,
    /// Holds the shared lock on the commit while this lab runs.
    _used: File,
}

/// Path of the header that belongs to a library, in the worktree where it was built.
pub fn header_of(library: &Path) -> PathBuf {
    let tree = library.ancestors().nth(3).unwrap_or(library); // TREE/target/lab/libfrond.so
    tree.join("crates/frond-c/include/frond.h")
}

/// Hash of a file's bytes.
///
/// # Errors
/// The file cannot be read.
pub fn hash_of(file: &Path) -> Result<String> {
    Ok(format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&fs::read(file)?)))
}

impl Checkout {
    /// Returns the library `file` of a commit, which is built if necessary.
    ///
    /// # Errors
    /// Something needed for the build is missing, or the build failed; the message has its last
    /// lines.
    pub fn build(&self, commit: &Commit, file: &'static str) -> Result<Built> {
        let cache = self.cache();
        fs::create_dir_all(&cache)?;
        let used = File::create(cache.join(format!("{}.used", commit.hash)))?;
        used.lock_shared()?;
        let tree = cache.join(&commit.hash);
        let library = tree.join(LIBRARIES).join(file);
        if !library.is_file() {
            let building = File::create(cache.join(format!("{}.building", commit.hash)))?;
            if let Err(TryLockError::WouldBlock) = building.try_lock() {
                eprintln!("waiting for another lab, which builds commit {}", commit.short);
                building.lock()?;
            }
            if !library.is_file() {
                self.make(commit, &tree, file)?;
            }
        }
        File::open(&library)?.set_modified(SystemTime::now())?; // marks the latest use
        self.remove_oldest(KEPT);
        let hash = hash_of(&library)?;
        Ok(Built { commit: commit.clone(), library, hash, _used: used })
    }

    fn make(&self, commit: &Commit, tree: &Path, file: &str) -> Result<()> {
        let Commit { hash, short } = commit;
        let lacks = |what: &str| Failure(format!("commit {short} has no {what}"));
        let word = |path: PathBuf| path.display().to_string();
        let mariadb = self.mariadb();
        if file == PLUGIN && !self.has_server_source() {
            return Err(Failure(format!(
                "the plugin of commit {short} needs the server's source in {}: `make mariadb-plugin` fetches it",
                mariadb.display()
            )));
        }
        if !tree.join("Cargo.toml").is_file() {
            // Forced, because git still knows a worktree whose directory was deleted.
            let words = ["worktree", "add", "--force", "--detach", &word(tree.to_owned()), hash];
            git(&self.root, &words)?;
        }
        if !tree.join("crates/frond-c").exists() {
            return Err(lacks("C API (crates/frond-c)"));
        }
        let plugin = tree.join("plugin/mariadb");
        if file == PLUGIN && !plugin.exists() {
            return Err(lacks("MariaDB plugin (plugin/mariadb)"));
        }
        let (target, libraries) = (tree.join("target"), tree.join(LIBRARIES));
        let release = target.join("release");
        fs::create_dir_all(&libraries)?;
        let steps = Steps::new(short, target.join("lab-build.log"));
        if !libraries.join(LIBRARY).is_file() {
            let words = ["build", "--release", "--locked", "-p", "frond-c"];
            let mut cargo = Command::new("cargo");
            cargo.current_dir(tree).args(words).env("CARGO_TARGET_DIR", &target);
            steps.run(&mut cargo)?;
            put(&release.join("libfrond_c.so"), &libraries.join(LIBRARY))?;
            for leftover in LEFTOVERS {
                let _ = fs::remove_dir_all(release.join(leftover)); // a failure only wastes space
            }
        }
        if file == PLUGIN {
            let build = target.join("plugin");
            let mut cmake = Command::new("cmake");
            cmake.args(["-G", "Ninja", "-S", &word(plugin), "-B", &word(build.clone())]);
            // The server's source is unpacked once for all commits.
            cmake.arg(format!("-DMARIADB_SOURCE={}", word(mariadb.join("source"))));
            cmake.arg(format!("-DMARIADB_GENERATED={}", word(mariadb.join("generated"))));
            steps.run(&mut cmake)?;
            steps.run(Command::new("ninja").args(["-C", &word(build.clone())]))?;
            put(&build.join(PLUGIN), &libraries.join(PLUGIN))?;
        }
        steps.ended(&self.cache());
        Ok(())
    }

    /// Removes all commits except the `kept` most recently used ones and those in use.
    pub(super) fn remove_oldest(&self, kept: usize) {
        let cache = self.cache();
        let used = |tree: &Path| {
            let files = fs::read_dir(tree.join(LIBRARIES)).into_iter().flatten().flatten();
            files.filter_map(|file| file.metadata().ok()?.modified().ok()).max()
        };
        let trees = fs::read_dir(&cache).into_iter().flatten().flatten();
        let trees = trees.map(|entry| entry.path()).filter(|path| path.is_dir());
        let mut trees: Vec<_> = trees.map(|tree| (used(&tree), tree)).collect();
        trees.sort();
        for (_, tree) in trees.iter().rev().skip(kept) {
            let Ok(used) = File::create(tree.with_extension("used")) else { continue };
            if used.try_lock().is_ok() {
                let path = tree.display().to_string();
                if git(&self.root, &["worktree", "remove", "--force", &path]).is_err() {
                    let _ = fs::remove_dir_all(tree); // git does not know it
                }
            }
        }
    }
}

/// Copies a file so that it appears under the new name only when complete.
fn put(from: &Path, to: &Path) -> Result<()> {
    let part = to.with_extension("part");
    fs::copy(from, &part).map_err(|error| Failure(format!("{}: {error}", from.display())))?;
    Ok(fs::rename(&part, to)?)
}

/// Runs the commands of a build one after the other, with their output in a log file.
struct Steps {
    short: String,
    log: PathBuf,
    bar: ProgressBar,
    begin: Instant,
}

impl Steps {
    fn new(short: &str, log: PathBuf) -> Self {
        let bar = match std::io::stderr().is_terminal() {
            true => ProgressBar::new_spinner(),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{spinner} [{elapsed}] {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        eprintln!("building Frond of commit {short}");
        Self { short: short.to_owned(), log, bar, begin: Instant::now() }
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        let program = command.get_program().to_string_lossy().into_owned();
        let output = File::options().create(true).append(true).open(&self.log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| Failure(format!("{program}: {error}")))?;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            self.bar.set_message(format!("{}: {}", self.short, log_tail(&self.log, 1).trim()));
            self.bar.tick();
            std::thread::sleep(Duration::from_millis(100));
        };
        if status.success() {
            return Ok(());
        }
        self.bar.finish_and_clear();
        let tail = log_tail(&self.log, 20);
        Err(Failure(format!(
            "commit {} cannot be built: {program} ended with {status}; last lines of {}:\n{tail}",
            self.short,
            self.log.display()
        )))
    }

    fn ended(&self, cache: &Path) {
        self.bar.finish_and_clear();
        eprintln!(
            "built commit {} in {:.0} s; the last {KEPT} commits stay in {}, which may be deleted",
            self.short,
            self.begin.elapsed().as_secs_f64(),
            cache.display()
        );
    }
}
