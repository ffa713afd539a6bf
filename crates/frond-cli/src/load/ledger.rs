//! The ledger: the batches that have been acknowledged, one line for each.
//!
//! | column | meaning |
//! |---|---|
//! | 1 | `acknowledged` |
//! | 2 | rows of this batch |
//! | 3 | records of the input up to the end of this batch, with those that `--skip` has skipped |
//!
//! Invariant: a line is written, whole and by one call, after the commit has returned. A process
//! that is killed leaves at most the first part of a line, which is not counted, and which the next
//! load removes. Its last batch may have been committed without a line: the load that continues
//! after it leaves a gap in column 3.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::Path,
};

use crate::fail::{Fail, Result, error};

/// A ledger being written.
pub struct Ledger<'p> {
    path: &'p Path,
    file: File,
}

impl<'p> Ledger<'p> {
    /// Opens the file for appending.
    pub fn append_to(path: &'p Path) -> Result<Self> {
        let open = || {
            let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
            let mut text = Vec::new();
            file.read_to_end(&mut text)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if whole < text.len() {
                file.set_len(whole as u64)?;
            }
            Ok::<_, std::io::Error>(Self { path, file })
        };
        open().map_err(|why| cannot_write(path, &why))
    }

    /// Writes the line of a batch.
    pub fn acknowledge(&mut self, rows: u64, all: u64) -> Result {
        let line = format!("acknowledged\t{rows}\t{all}\n");
        self.file.write_all(line.as_bytes()).map_err(|why| cannot_write(self.path, &why))
    }
}

fn cannot_write(path: &Path, why: &std::io::Error) -> Fail {
    Fail::Error(format!("cannot write {}: {why}", path.display()))
}

/// What a ledger says.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Acknowledged {
    /// Number of batches.
    pub batches: u64,
    /// Number of rows in them.
    pub rows: u64,
    /// Records of the input up to the end of the last batch.
    pub records: u64,
}

/// Reads a ledger.
pub fn read(path: &Path) -> Result<Acknowledged> {
    let text = std::fs::read_to_string(path)
        .map_err(|why| Fail::Error(format!("cannot read {}: {why}", path.display())))?;
    let mut read = Acknowledged::default();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else { break };
        let mut columns = line.split('\t');
        let number = |column: Option<&str>| column.and_then(|text| text.parse::<u64>().ok());
        let known = columns.next() == Some("acknowledged");
        match (known, number(columns.next()), number(columns.next())) {
            (true, Some(rows), Some(records)) if records >= read.records.saturating_add(rows) => {
                read.batches += 1;
                read.rows += rows;
                read.records = records;
            }
            _ => {
                return error(format!(
                    "{}: line {} is not a line of a ledger",
                    path.display(),
                    at + 1
                ));
            }
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ledger");
        let mut ledger = Ledger::append_to(&path).expect("writable");
        ledger.acknowledge(1000, 1000).expect("written");
        ledger.acknowledge(500, 1500).expect("written");
        ledger.file.write_all(b"acknowledged\t1000\t2").expect("written");
        let whole = Acknowledged { batches: 2, rows: 1500, records: 1500 };
        assert_eq!(read(&path).expect("a ledger"), whole);
        // A load that continues, after a batch that was committed and not acknowledged.
        let mut ledger = Ledger::append_to(&path).expect("writable");
        ledger.acknowledge(1000, 3500).expect("written");
        let more = Acknowledged { batches: 3, rows: 2500, records: 3500 };
        assert_eq!(read(&path).expect("a ledger"), more);
        for wrong in ["acknowledged\t1000\t2000\n", "acknowledged\tx\t9000\n", "\n"] {
            let text = std::fs::read_to_string(&path).expect("text");
            std::fs::write(&path, format!("{text}{wrong}")).expect("written");
            assert!(read(&path).is_err(), "{wrong}");
            std::fs::write(&path, text).expect("written");
        }
    }
}
