//! The plan of a bench: one workload, or `sizes` (a series of data sets), each against every
//! target.
//!
//! Invariants
//! 1. The null target always runs first for each workload: its CPU is the cost of the workload
//!    itself.
//! 2. The plan depends only on the options, so a child finds its part of the plan by index.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use crate::bench::Args;
use crate::targets::{Failure, Result, TargetName};
use crate::workloads::{Name, packages};

/// Default number of rows.
const ROWS: u64 = 1_000_000;
/// Data sets of `sizes` and their default rows, chosen so that all of them together take minutes.
/// The packages number only tens of thousands.
const SETS: [(Name, u64); 5] = [
    (Name::Sbtest, 1_000_000),
    (Name::Iibench, 2_500_000),
    (Name::Weblog, 1_000_000),
    (Name::Linktable, 2_000_000),
    (Name::Packages, 1_000_000),
];

/// What to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A workload.
    One(Name),
    /// Every data set into every store, to compare their sizes on disk after they have settled.
    Sizes,
}

impl ValueEnum for What {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<What>> = LazyLock::new(|| {
            let names = Name::value_variants().iter().map(|&name| What::One(name));
            names.chain([What::Sizes]).collect()
        });
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::One(name) => name.to_possible_value(),
            Self::Sizes => Some(PossibleValue::new("sizes").help(
                "Load sbtest, iibench, weblog, linktable and packages; compare bytes a row on disk",
            )),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("", PossibleValue::get_name))
    }
}

/// A data set of `sizes`, optionally with its own number of rows: `iibench`, `iibench=10000000`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Set {
    name: Name,
    rows: Option<u64>,
}

impl FromStr for Set {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (name, rows) = match text.split_once('=') {
            Some((name, rows)) => (name, Some(rows)),
            None => (text, None),
        };
        let known = SETS.iter().map(|(known, _)| *known);
        let name = known.into_iter().find(|&known| What::One(known).to_string() == name);
        let name = name.ok_or_else(|| {
            let names: Vec<String> =
                SETS.iter().map(|(known, _)| What::One(*known).to_string()).collect();
            format!("unknown data set `{text}` ({})", names.join(", "))
        })?;
        let rows = rows.map(|rows| match rows.parse() {
            Ok(rows) if rows > 0 => Ok(rows),
            _ => Err(format!("`{rows}` is no number of rows")),
        });
        Ok(Self { name, rows: rows.transpose()? })
    }
}

/// A run of one workload against one target.
#[derive(Clone, Debug)]
pub struct Job {
    /// The workload.
    pub workload: Name,
    /// Rows to load.
    pub rows: u64,
    /// The target to run against.
    pub target: TargetName,
    /// Directory of its store.
    pub dir: PathBuf,
}

/// Returns all jobs in the order in which they run.
pub fn plan(args: &Args) -> Vec<Job> {
    let of = |workload, rows, dir: PathBuf| {
        let job = move |target: TargetName| {
            let dir = dir.join(target.to_string());
            Job { workload, rows, target, dir }
        };
        targets(args).into_iter().map(job)
    };
    match args.workload {
        What::One(name) => of(name, args.rows.unwrap_or(ROWS), args.dir.clone()).collect(),
        What::Sizes => {
            let all = SETS.iter().map(|&(name, rows)| (name, args.rows.unwrap_or(rows)));
            let chosen = |(name, rows)| {
                if args.sets.is_empty() {
                    return Some((name, rows));
                }
                let set = args.sets.iter().find(|set| set.name == name)?;
                Some((name, set.rows.unwrap_or(rows)))
            };
            let dir = |name| args.dir.join(What::One(name).to_string());
            all.filter_map(chosen).flat_map(|(name, rows)| of(name, rows, dir(name))).collect()
        }
    }
}

/// Returns the targets in order: null first (Invariant 1), RocksDB once for each write buffer.
fn targets(args: &Args) -> Vec<TargetName> {
    let mut targets = vec![TargetName::Null];
    for &target in args.targets.iter().filter(|&&target| target != TargetName::Null) {
        match target {
            TargetName::RocksDb(None) if !args.rocksdb_write_buffer.is_empty() => {
                let buffers = args.rocksdb_write_buffer.iter();
                targets.extend(buffers.map(|&share| TargetName::RocksDb(Some(share))));
            }
            target => targets.push(target),
        }
    }
    targets
}

/// Path of the list of packages: the one in the options, or the file to which the bench dumps the
/// packages that apt knows.
pub fn packages_file(args: &Args) -> PathBuf {
    // A name that no file of a user is likely to have.
    args.packages.clone().unwrap_or_else(|| args.dir.join(".frond-bench-packages"))
}

/// Provides the list of packages if `plan` needs it. Without a list, `sizes` leaves this data set
/// out, and the returned sentence tells the user why.
pub fn fetch_packages(args: &Args, plan: &[Job]) -> Result<Option<String>> {
    let (needed, file) =
        (plan.iter().any(|job| job.workload == Name::Packages), packages_file(args));
    // An unreadable list is reported now and not after the other data sets have run.
    let there = match args.packages {
        _ if !needed => true,
        Some(_) => packages::Packages::read(&file).map(|list| list.len() > 0)?,
        None => packages::dump(&file)?,
    };
    if there {
        return Ok(None);
    }
    let why = "no list of packages: apt-cache knows none; give one with --packages FILE";
    match args.workload {
        What::Sizes => Ok(Some(format!("packages are left out: {why}"))),
        What::One(_) => Err(Failure(why.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn planned(words: &str) -> Vec<(String, u64, PathBuf)> {
        let command = Command::parse_from(["bench"].into_iter().chain(words.split(' ')));
        let job = |job: Job| (What::One(job.workload).to_string(), job.rows, job.dir);
        plan(&command.args).into_iter().map(job).collect()
    }

    fn expected(jobs: &[(&str, u64, &str)]) -> Vec<(String, u64, PathBuf)> {
        jobs.iter().map(|&(name, rows, dir)| (name.to_owned(), rows, dir.into())).collect()
    }

    #[test]
    fn a_workload_runs_against_the_null_target_first() {
        let jobs = planned("iibench --targets sqlite,frond,null --dir d");
        let rows = ROWS;
        let all = [
            ("iibench", rows, "d/null"),
            ("iibench", rows, "d/sqlite"),
            ("iibench", rows, "d/frond"),
        ];
        assert_eq!(jobs, expected(&all));
    }

    #[test]
    fn each_set_has_its_own_row_count() {
        let jobs = planned("sizes --sets linktable,iibench=10000000 --rows 7 --dir d");
        let all = [
            ("iibench", 10_000_000, "d/iibench/null"),
            ("iibench", 10_000_000, "d/iibench/frond"),
            ("linktable", 7, "d/linktable/null"),
            ("linktable", 7, "d/linktable/frond"),
        ];
        assert_eq!(jobs, expected(&all));
        assert_eq!(planned("sizes").len(), 2 * SETS.len());
        for wrong in ["iibench=", "iibench=0", "fillseq", "", "iibench=1e6"] {
            assert!(wrong.parse::<Set>().is_err(), "{wrong}");
        }
    }
}
