//! The workloads: each is one file (or folder) and one line of the registry. Those of SQL are
//! registered here; those of embedded stores, which may share a folder with them, in
//! `embedded/mod.rs`.

pub mod bulk;
mod clients;
mod compressed;
pub mod dbbench;
#[cfg(test)]
mod example;
pub mod iibench;
mod index;
mod insertbench;
pub mod linkbench;
pub mod load;
mod pace;
pub mod queue;
pub mod rowformats;
mod sbtest;
pub mod sweep;
pub mod sysbench;
#[cfg(test)]
pub mod testing;
pub mod tpcc;
pub mod txn;
pub mod weblog;
pub mod ycsb;
mod zip;

use super::embedded;
use super::params::{Param, Params};
use super::sql::Bench;
use super::suggest::unknown;
use crate::targets::{Failure, Result};

/// A workload that is ready to run.
pub trait Workload {
    /// Bytes that plain InnoDB needs for the workload's data. The memory of the run is this divided
    /// by the parameter `ratio`.
    fn innodb_bytes(&self) -> u64;

    /// Runs the steps and verifies the rows that they left. Returns the number of live rows at the
    /// end, and their logical bytes.
    ///
    /// # Errors
    /// The server or a client reports an error.
    fn run(&mut self, bench: &mut Bench) -> Result<(u64, u64)>;
}

/// Makes a workload from its parameters and the seed.
type Make = fn(&Params, u64) -> Result<Box<dyn Workload>>;

/// A line of the registry.
pub struct Entry {
    /// Name on the command line.
    pub name: &'static str,
    /// Description, in one sentence.
    pub about: &'static str,
    /// Step and metric that the report's matrix shows.
    pub headline: (&'static str, &'static str),
    /// The parameters. Every workload has `ratio` (data to cache, as published) and `time_limit`
    /// (in seconds, 0 for none).
    pub params: &'static [Param],
    /// Makes the workload.
    pub make: Make,
}

/// All workloads.
pub const ALL: &[Entry] = &[
    iibench::ENTRY,
    insertbench::ENTRY,
    sysbench::ENTRY,
    sweep::ENTRY,
    linkbench::ENTRY,
    weblog::ENTRY,
    ycsb::ENTRY,
    tpcc::ENTRY,
    rowformats::ENTRY,
    bulk::ENTRY,
    index::ENTRY,
    zip::ENTRY,
    clients::ENTRY,
    #[cfg(test)]
    example::ENTRY,
];

/// Returns the workload with this name.
///
/// # Errors
/// There is none; the message lists the most similar names.
pub fn find(name: &str) -> Result<&'static Entry> {
    let names: Vec<&str> = ALL.iter().map(|entry| entry.name).collect();
    ALL.iter().find(|entry| entry.name == name).ok_or_else(|| unknown("workload", name, &names))
}

/// Step and metric that the matrix shows for a workload of a face.
pub fn headline(face: &str, workload: &str) -> Option<(&'static str, &'static str)> {
    match face {
        "sql" => ALL.iter().find(|entry| entry.name == workload).map(|entry| entry.headline),
        _ => {
            let found = embedded::ALL.iter().find(|entry| entry.name == workload);
            found.map(|entry| entry.headline)
        }
    }
}

/// Refuses targets that keep no rows, for a workload that reads what it has written.
///
/// # Errors
/// The target keeps no rows.
pub fn refuse_without_rows(bench: &Bench, workload: &str) -> Result<()> {
    match bench.keeps_rows() {
        true => Ok(()),
        false => Err(Failure(format!(
            "{workload} reads what it has written, and {} keeps no rows",
            bench.target.name
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::metric;
    use crate::lab::size::Size;

    /// The table in docs/lab.md names the faces of every workload.
    #[test]
    fn documented_faces_are_those_of_the_registries() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab.md");
        let text = std::fs::read_to_string(docs).expect("docs/lab.md");
        let section = text.split("\n## Workloads\n").nth(1).expect("a section on workloads");
        let section = section.split("\n## ").next().unwrap_or_default();
        let mut documented = Vec::new();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            for name in cells[1].split('`').skip(1).step_by(2) {
                let faces = [cells[2], cells[3]].map(|cell| !cell.starts_with("no"));
                let in_sql = ALL.iter().any(|entry| entry.name == name);
                let is_embedded = embedded::ALL.iter().any(|entry| entry.name == name);
                assert_eq!(faces, [in_sql, is_embedded], "{name}");
                documented.push(name);
            }
        }
        let names = ALL.iter().map(|entry| entry.name).filter(|name| *name != "example");
        for name in names.chain(embedded::ALL.iter().map(|entry| entry.name)) {
            assert!(documented.contains(&name), "{name} is not documented");
        }
    }

    #[test]
    fn every_workload_can_be_made_at_every_size() {
        for entry in ALL {
            assert!(metric::find(entry.headline.1).is_some(), "{}", entry.name);
            for size in [Size::Tiny, Size::Quick, Size::Standard, Size::Published] {
                let params = Params::new(entry.name, entry.params, size, &[]);
                let params = params.unwrap_or_else(|failure| panic!("{failure}"));
                let made = (entry.make)(&params, 42);
                let made =
                    made.unwrap_or_else(|failure| panic!("{} at {size}: {failure}", entry.name));
                assert!(made.innodb_bytes() > 0 && params.real("ratio").is_ok(), "{}", entry.name);
                assert!(params.number("time_limit").is_ok(), "{}", entry.name);
            }
        }
    }
}
