//! The ledger: the batches that have been acknowledged, one line for each.
//!
//! | column | meaning |
//! |---|---|
//! | 1 | `acknowledged` |
//! | 2 | rows of this batch |
//! | 3 | rows of this and all batches before it |
//!
//! Invariant: a line is written, whole and by one call, after the commit has returned. A process
//! that is killed leaves at most the first part of a line, which is not counted.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
};

use crate::fail::{Fail, Result, error};

/// A ledger being written.
pub struct Ledger {
    file: File,
}

impl Ledger {
    /// Opens the file for appending.
    pub fn append_to(path: &Path) -> Result<Self> {
        match OpenOptions::new().create(true).append(true).open(path) {
            Ok(file) => Ok(Self { file }),
            Err(why) => error(format!("cannot write {}: {why}", path.display())),
        }
    }

    /// Writes the line of a batch.
    pub fn acknowledge(&mut self, rows: u64, all: u64) -> Result {
        let line = format!("acknowledged\t{rows}\t{all}\n");
        Ok(self.file.write_all(line.as_bytes())?)
    }
}

/// Reads a ledger: the numbers of batches and rows acknowledged.
pub fn read(path: &Path) -> Result<(u64, u64)> {
    let text = std::fs::read_to_string(path)
        .map_err(|why| Fail::Error(format!("cannot read {}: {why}", path.display())))?;
    let (mut batches, mut all) = (0, 0);
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else { break };
        let mut columns = line.split('\t');
        let number = |column: Option<&str>| column.and_then(|text| text.parse::<u64>().ok());
        let known = columns.next() == Some("acknowledged");
        match (known, number(columns.next()), number(columns.next())) {
            (true, Some(rows), Some(sum)) if all + rows == sum => {
                batches += 1;
                all = sum;
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
    Ok((batches, all))
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
        assert!(matches!(read(&path), Ok((2, 1500))));
        ledger.file.write_all(b"000\n").expect("written");
        assert!(read(&path).is_err());
    }
}
