//! Collects records into batches. The row and the index entries of a record are always in the same
//! batch.
//!
//! Without `--replace`, a key that already exists makes the whole batch fail, and the error names
//! the line. With it, the index entries of the previous row are deleted in the same batch.

use std::{
    collections::HashMap,
    thread,
    time::{Duration, Instant},
};

use frond::{Batch, Db};

use crate::{
    fail::{Fail, Result},
    interrupt,
    parse::Record,
    rows::RowBuilder,
};

use super::{
    Args,
    input::{Input, nothing_loaded},
    records::Records,
    target::Target,
};

/// Maximum bytes of a batch, so that long rows do not need much memory. A single row may be longer.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// How long to wait for space while no commits are applied.
const NO_PROGRESS_MAX: Duration = Duration::from_secs(15);

/// Fills and commits batches.
pub struct Loader<'t> {
    target: &'t Target,
    batch: Batch,
    batch_rows: u64,
    batch_bytes: usize,
    batch_bytes_max: usize,
    /// Line of each row in the batch.
    lines: Vec<u64>,
    records: Records<'t>,
    /// Rows of this batch by key, for `--replace`.
    rows_by_key: Option<HashMap<Vec<u8>, Vec<u8>>>,
    /// True if the whole input could be loaded with `--bulk` instead.
    could_be_bulk: bool,
}

impl<'t> Loader<'t> {
    /// Creates a loader with an empty batch.
    pub fn new(target: &'t Target, args: &Args, input: &Input) -> Result<Self> {
        let mut loader = Self {
            target,
            batch: Batch::new(),
            batch_rows: args.batch,
            batch_bytes: 0,
            // A batch occupies memory of the store until it is applied.
            batch_bytes_max: BATCH_BYTES_MAX.min(args.store.memory as usize / 16),
            lines: Vec::new(),
            records: Records::new(&target.header, input.null_hint()),
            rows_by_key: args.replace.then(HashMap::new),
            could_be_bulk: target.is_new && args.skip == 0 && !args.replace && args.ack.is_none(),
        };
        if target.header.key.is_empty() {
            loader.records.next_number = loader.number_after_the_last()?;
        }
        Ok(loader)
    }

    fn number_after_the_last(&self) -> Result<u64> {
        let mut cursor = self.target.tree.scan(..)?;
        cursor.seek_last();
        match cursor.prev()? {
            None => Ok(0),
            Some((key, _)) => {
                let (last,): (u64,) = frond::tuple::decode(key)?;
                Ok(last.saturating_add(1))
            }
        }
    }

    /// Numbers rows from 0 again, as when they were loaded.
    pub fn count_from_zero(&mut self) {
        self.records.next_number = 0;
    }

    /// True if the batch should be committed now.
    pub fn is_full(&self) -> bool {
        self.rows() >= self.batch_rows || self.batch_bytes >= self.batch_bytes_max
    }

    /// Rows in the batch.
    pub fn rows(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Builds the key and the row of a record; nothing is added to the batch yet.
    pub fn build(&mut self, record: &Record, names: &[String]) -> Result<&RowBuilder> {
        self.records.build(record, names)
    }

    /// Adds a record to the batch.
    pub fn add(&mut self, record: &Record, names: &[String]) -> Result {
        self.build(record, names)?;
        self.add_built(record.line).map_err(|fail| match fail {
            Fail::Error(why) => Fail::Error(format!("line {}: {why}", record.line)),
            other => other,
        })
    }

    fn add_built(&mut self, line: u64) -> Result {
        let Target { tree, indexes, header, .. } = self.target;
        self.delete_old_index_entries()?;
        let built = self.records.built();
        let (key, row) = (built.key(), built.row());
        // A row number is always new: no lookup is needed.
        let numbered = header.key.is_empty();
        if let Some(rows_by_key) = &mut self.rows_by_key {
            self.batch.put(tree, key, row)?;
            rows_by_key.insert(key.to_vec(), row.to_vec());
        } else if numbered {
            self.batch.put(tree, key, row)?;
        } else {
            self.batch.insert(tree, key, row)?;
        }
        self.batch_bytes += key.len() + row.len();
        for (at, index) in indexes.iter().enumerate() {
            let index_key = self.records.index_key(at).map_err(Fail::Error)?;
            self.batch.put(index, index_key, b"")?;
            self.batch_bytes += index_key.len();
        }
        self.lines.push(line);
        Ok(())
    }

    /// Deletes the index entries of the row that the built one replaces.
    fn delete_old_index_entries(&mut self) -> Result {
        let Some(rows_by_key) = &self.rows_by_key else { return Ok(()) };
        let key = self.records.built().key();
        let old = match rows_by_key.get(key) {
            Some(row) => Some(row.clone()),
            None => self.target.tree.get(key)?,
        };
        old.map_or(Ok(()), |old| self.target.delete_entries(key, &old, &mut self.batch))
    }

    /// Commits the batch, and returns the number of its rows.
    pub fn commit(&mut self, db: &Db) -> Result<u64> {
        if self.lines.is_empty() {
            return Ok(0);
        }
        let entries_per_row = 1 + self.target.indexes.len();
        self.commit_when_there_is_space(db).map_err(|error| match error {
            frond::Error::DuplicateKey(frond::Duplicate::InBatch { entry: index, .. }) => {
                let line = self.lines.get(index / entries_per_row).copied().unwrap_or_default();
                Fail::Error(format!(
                    "line {line}: a row with this key already exists (use --replace to replace it)"
                ))
            }
            frond::Error::Full(_) if interrupt::is_requested() => nothing_loaded(),
            full @ frond::Error::Full(_) if self.could_be_bulk => {
                Fail::Error(format!("{full}; a load with --bulk into a new tree needs less space"))
            }
            other => Fail::from(other),
        })?;
        let rows = self.rows();
        self.lines.clear();
        self.batch_bytes = 0;
        if let Some(rows_by_key) = &mut self.rows_by_key {
            rows_by_key.clear();
        }
        Ok(rows)
    }

    /// Commits the batch. If the disk is full, waits and tries again while commits are being
    /// applied: more space is reserved for each of them than it takes in the end.
    fn commit_when_there_is_space(&mut self, db: &Db) -> frond::Result<()> {
        let (mut last, mut since) = (None, Instant::now());
        loop {
            let full = match db.commit(&mut self.batch) {
                Err(full @ frond::Error::Full(_)) if !interrupt::is_requested() => full,
                ended => return ended.map(drop),
            };
            let applied = Some(db.stats().seqno_applied);
            if applied != last {
                (last, since) = (applied, Instant::now());
            }
            if since.elapsed() > NO_PROGRESS_MAX {
                return Err(full);
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}
