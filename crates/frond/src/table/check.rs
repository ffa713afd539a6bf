//! Checking that rows and entries match: every entry has its row, and every row its entries.
//!
//! Both directions are checked as of one moment, concurrently with writers. Cost: all rows and
//! entries are read, and for each of them its counterpart is looked up.
//!
//! Threads: any.

use crate::{Error, Result, Snapshot, Tree, sync::Arc};

use super::{entry::Entry, open::Table, spec::IndexSpec, state::IndexState, write::extract};

/// Number of findings that a report lists; further ones are counted.
const NAMED_MAX: usize = 100;

/// The result of [`Table::check`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TableReport {
    /// Number of rows checked.
    pub rows: u64,
    /// Number of entries checked, by index.
    pub entries: Vec<(String, u64)>,
    /// The first hundred findings.
    pub findings: Vec<TableFinding>,
    /// Total number of findings.
    pub count: u64,
}

/// A row or entry that is out of step.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TableFinding {
    /// The index.
    pub index: String,
    /// The key of the row, as far as it can be read.
    pub row: Vec<u8>,
    /// What is wrong, in words.
    pub what: &'static str,
}

impl TableReport {
    /// True if everything is in step.
    pub fn is_clean(&self) -> bool {
        self.count == 0
    }

    fn find(&mut self, spec: &IndexSpec, row: &[u8], what: &'static str) {
        self.count += 1;
        if self.findings.len() < NAMED_MAX {
            self.findings.push(TableFinding { index: spec.name.clone(), row: row.to_vec(), what });
        }
    }
}

impl Table {
    /// Checks, as of now, that all indexes have exactly the entries that the rows require. To
    /// repair an index, drop it and build it again.
    ///
    /// It checks what is committed when it is called, takes no lock and does not wait: cursors,
    /// snapshots and transactions of this and other threads may be open, rows and whole trees may
    /// be locked, and others may write, build indexes and change columns meanwhile. Writes that are
    /// not committed yet are not checked, not even those of the caller.
    ///
    /// # Errors
    /// `NoSuchTree` if the table was dropped; I/O errors and damage of what had to be read.
    pub fn check(&self) -> Result<TableReport> {
        let snapshot = self.db.snapshot();
        // Read after the snapshot is taken: indexes that are dropped from now on can still be read
        // in the snapshot, and indexes built since then cannot. The definition is not kept: a build
        // waits for calls that use one.
        let (known, mut indexes) = {
            let definition = self.state.definition();
            (definition.rows.clone(), definition.indexes.clone())
        };
        let known = &known;
        let mut failed = Ok(());
        indexes.retain(|index| match snapshot.get(&index.tree, &[]) {
            Ok(_) => true,
            // It had been dropped by the time of the snapshot, but the definition did not show that
            // yet.
            Err(Error::NoSuchTree(_)) if snapshot.get(known, &[]).is_ok() => false,
            Err(Error::DefinitionChanged(_)) => false,
            Err(error) => {
                failed = Err(error);
                false
            }
        });
        failed?;
        let mut report = TableReport::default();
        let mut rows = snapshot.scan(known, ..)?;
        let (mut extracted, mut at, mut value) = (Vec::new(), Vec::new(), Vec::new());
        while let Some((key, row)) = rows.next()? {
            report.rows += 1;
            for index in &indexes {
                match extract(known, &index.spec, key, Some(row), &mut extracted) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(_) => {
                        report.find(&index.spec, key, "the index's function fails for the row");
                        continue;
                    }
                }
                at.clear();
                value.clear();
                index.form().write_key(&extracted, key, &mut at);
                index.form().write_value(key, row, &mut value);
                match snapshot.get(&index.tree, &at)? {
                    None => report.find(&index.spec, key, "the row has no entry"),
                    Some(found) if found != value && !is_row(index, known, (&at, &found), row)? => {
                        report.find(
                            &index.spec,
                            key,
                            "the row's entry is another's, or an old one",
                        );
                    }
                    Some(_) => {}
                }
            }
        }
        for index in &indexes {
            let count = self.check_entries((&snapshot, known), index, &mut report)?;
            report.entries.push((index.spec.name.clone(), count));
        }
        Ok(report)
    }

    fn check_entries(
        &self,
        (snapshot, known): (&Snapshot, &Tree),
        index: &Arc<IndexState>,
        report: &mut TableReport,
    ) -> Result<u64> {
        let (mut count, mut extracted) = (0, Vec::new());
        let mut entries = snapshot.scan(&index.tree, ..)?;
        while let Some((at, value)) = entries.next()? {
            count += 1;
            let Ok(entry) = index.form().read(at, value) else {
                report.find(&index.spec, &[], "an entry cannot be read");
                continue;
            };
            let row = snapshot.get(known, entry.key)?;
            match extract(known, &index.spec, entry.key, row.as_deref(), &mut extracted) {
                Ok(true) if extracted == *entry.extracted => {}
                Ok(_) => report.find(&index.spec, entry.key, "the entry is no row's"),
                // It was found with the rows.
                Err(_) => {}
            }
        }
        Ok(count)
    }
}

/// Whether a clustering entry contains the row, perhaps in a form from before columns changed.
fn is_row(
    index: &IndexState,
    known: &Tree,
    (at, value): (&[u8], &[u8]),
    row: &[u8],
) -> Result<bool> {
    match index.form().read(at, value) {
        Ok(Entry { row: Some(found), .. }) => Ok(*known.as_newest_version(found)? == *row),
        _ => Ok(false),
    }
}
