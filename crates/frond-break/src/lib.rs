//! Shared code of the programs in `src/bin`. Each of them uses Frond as any program does, through
//! its public API, and checks the content of the store against its own record of it. `make break`
//! builds them in release mode and runs all of them.
//!
//! Exit codes: 0 if everything was correct, 1 if not, 77 if the machine does not permit the program
//! to run.
//!
//! Environment: `FROND_SEED` (0) chooses what the program does, although threads and kills make
//! every run different; `FROND_BREAK_SECONDS` (10) is about how long it runs; `FROND_BREAK_DIR`
//! (the system's directory for temporary files) is where its stores are. A program that fails keeps
//! its directory.

#![deny(missing_docs)]

mod dice;

use std::{
    env, fmt, fs,
    path::{Path, PathBuf},
    process,
    time::{Duration, Instant},
};

pub use dice::Dice;

/// Exit code of a program that the machine does not permit to run.
pub const SKIPPED: i32 = 77;

/// One run of a program.
#[derive(Debug)]
pub struct Run {
    name: &'static str,
    /// Chooses what the program does.
    pub seed: u64,
    until: Instant,
    dir: PathBuf,
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

impl Run {
    /// Starts a run in an empty directory.
    pub fn begin(name: &'static str) -> Self {
        let (seed, seconds) = (number("FROND_SEED", 0), number("FROND_BREAK_SECONDS", 10));
        let base = env::var_os("FROND_BREAK_DIR").map_or_else(env::temp_dir, PathBuf::from);
        let dir = base.join(format!("frond-break-{name}-{}", process::id()));
        let run = Self { name, seed, until: Instant::now() + Duration::from_secs(seconds), dir };
        run.must(fs::create_dir_all(&run.dir), "create the directory");
        run
    }

    /// Whether there is time left.
    pub fn goes_on(&self) -> bool {
        Instant::now() < self.until
    }

    /// Time left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The directory of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A random generator of this run, a different one for each number.
    pub fn dice(&self, number: u64) -> Dice {
        Dice::new(self.seed, number)
    }

    /// Returns the value, or ends the run with a failure.
    pub fn must<T, E: fmt::Display>(&self, result: Result<T, E>, what: &str) -> T {
        result.unwrap_or_else(|error| self.fails(format_args!("{what}: {error}")))
    }

    /// Prints what is wrong and ends the program with code 1. The directory stays.
    pub fn fails(&self, what: impl fmt::Display) -> ! {
        println!("{}: FAILED (seed {}, see {}): {what}", self.name, self.seed, self.dir.display());
        process::exit(1)
    }

    /// Prints why the program cannot run here, and ends it with [`SKIPPED`].
    pub fn skips(&self, why: impl fmt::Display) -> ! {
        println!("{}: skipped: {why}", self.name);
        let _ = fs::remove_dir_all(&self.dir);
        process::exit(SKIPPED)
    }

    /// Prints what was done and ends the program with code 0.
    pub fn ends(&self, what: impl fmt::Display) -> ! {
        println!("{}: all as it must be: {what}", self.name);
        let _ = fs::remove_dir_all(&self.dir);
        process::exit(0)
    }
}

/// A key or value, shortened for messages.
pub fn short(bytes: &[u8]) -> String {
    match bytes.len() {
        0..=48 => bytes.escape_ascii().to_string(),
        length => format!("{}… ({length} bytes)", bytes[..32].escape_ascii()),
    }
}
