//! Writing rows with all their index entries.
//!
//! 1. The row is locked and read at the latest version.
//! 2. The definition is read ([`TableState`](super::state::TableState), invariant 1), and the
//!    program's functions compute the row's old and new entries. What does not change is not
//!    written.
//! 3. One call of the transaction checks the unique entries and writes everything, or nothing
//!    (Rule: I48).
//!
//! Indexes that are being built are not handled here: writers of the tree of rows add the changed
//! keys to the build's queue (`db/load/build/`).
//!
//! Threads: as the transaction.

use std::{ops::Range, time::Duration};

use crate::{
    Duplicate, Error, Result, RowLock, Tree, Txn,
    db::{RowChange, RowConflict},
    sync::Arc,
};

use super::{
    open::Table,
    spec::IndexSpec,
    state::{Definition, IndexState},
};

/// Milliseconds for which a call waits for a committed change of columns to become known to it.
pub(super) const RETRIES_MAX: u32 = 5000;

/// A locked row.
struct Locked {
    /// The latest version.
    old: Option<Vec<u8>>,
    /// Held until everything is written: a change of the definition waits for that.
    definition: Arc<Definition>,
}

/// The change of one entry, as places in the bytes of a [`Plan`].
#[derive(Debug)]
struct Planned {
    /// Number of the index in the definition.
    index: usize,
    old: Option<Range<usize>>,
    new: Option<(Range<usize>, Range<usize>)>,
}

/// All entries that change.
#[derive(Debug, Default)]
struct Plan {
    bytes: Vec<u8>,
    entries: Vec<Planned>,
    /// The bytes extracted from the old and from the new row.
    extracted: [Vec<u8>; 2],
    /// Unchanged entries are written, too.
    rewrites: bool,
}

impl Table {
    /// Inserts a row that must not exist.
    ///
    /// # Errors
    /// `DuplicateKey` if the key exists, or if another row has the same bytes in a unique
    /// index: it names the index and that row, whose entry is locked for this transaction;
    /// `IndexFunction` if an index's function fails for the row. Nothing was written in these
    /// cases. As [`Txn::put`].
    pub fn insert(&self, txn: &Txn, key: impl AsRef<[u8]>, row: impl AsRef<[u8]>) -> Result<()> {
        let (key, row) = (key.as_ref(), row.as_ref());
        txn.in_row_call(|| {
            let locked = self.lock(txn, key)?;
            match locked.old {
                Some(_) => Err(Error::DuplicateKey(Duplicate::Row {
                    tree: self.name(),
                    key: key.to_vec(),
                })),
                None => self.write(txn, key, &locked, Some(row)),
            }
        })
    }

    /// Inserts a row, or replaces the existing one; true if there was one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), except that the key may exist.
    pub fn put(&self, txn: &Txn, key: impl AsRef<[u8]>, row: impl AsRef<[u8]>) -> Result<bool> {
        let (key, row) = (key.as_ref(), row.as_ref());
        txn.in_row_call(|| {
            loop {
                let locked = self.lock(txn, key)?;
                match self.write(txn, key, &locked, Some(row)) {
                    // Another transaction inserted the row while this one waited for a gap: replace
                    // that row.
                    Err(Error::DuplicateKey(Duplicate::Row { .. })) if locked.old.is_none() => {}
                    written => return written.map(|()| locked.old.is_some()),
                }
            }
        })
    }

    /// Replaces a row; false if there is none.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn update(&self, txn: &Txn, key: impl AsRef<[u8]>, row: impl AsRef<[u8]>) -> Result<bool> {
        let (key, row) = (key.as_ref(), row.as_ref());
        txn.in_row_call(|| {
            let locked = self.lock(txn, key)?;
            if locked.old.is_none() {
                return Ok(false);
            }
            self.write(txn, key, &locked, Some(row)).map(|()| true)
        })
    }

    /// Deletes a row; false if there is none.
    ///
    /// # Errors
    /// As [`Txn::delete`], and `IndexFunction`.
    #[doc(alias = "remove")]
    pub fn delete(&self, txn: &Txn, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        txn.in_row_call(|| {
            let locked = self.lock(txn, key)?;
            if locked.old.is_none() {
                return Ok(false);
            }
            self.write(txn, key, &locked, None).map(|()| true)
        })
    }

    /// Performs step 1, and reads the definition.
    fn lock(&self, txn: &Txn, key: &[u8]) -> Result<Locked> {
        let too_early = plant!("table: a call goes by the definition it came with");
        let early = too_early.then(|| self.state.definition());
        let mut old = txn.get_for_update_as_it_is(&self.state.rows, key)?;
        // The row was written by this definition or an earlier one, so the functions know its
        // version.
        let mut definition = early.unwrap_or_else(|| self.state.definition());
        if let Some(old) = &mut old {
            let mut retries = 0;
            // Exception: a run merge may have mapped the row to the version of a change that is in
            // progress.
            while let Err(error) = definition.rows.to_newest_version(old) {
                retries += 1;
                if retries > RETRIES_MAX || !matches!(error, Error::DefinitionChanged(_)) {
                    return Err(error);
                }
                self.db.pause(Duration::from_millis(1))?;
                definition = self.state.definition();
            }
        }
        Ok(Locked { old, definition })
    }

    /// Performs steps 2 and 3 for a locked row.
    fn write(&self, txn: &Txn, key: &[u8], locked: &Locked, new: Option<&[u8]>) -> Result<()> {
        let Locked { old, definition } = locked;
        let old = old.as_deref();
        let new = new.map(|row| definition.rows.as_newest_version(row)).transpose()?;
        let new = new.as_deref();
        // Unchanged data is not written, unless plain reads may see an older row or entry.
        let rewrites = txn.stands_over_older() && txn.control().snapshot_seqno().is_some();
        if old == new && (!rewrites || shows(txn, &definition.rows, key, old)?) {
            return Ok(());
        }
        let rows = &self.state.rows;
        let mut plan = Plan { rewrites, ..Plan::default() };
        for (at, index) in definition.indexes.iter().enumerate() {
            plan.add(&definition.rows, (at, index), key, (old, new))?;
        }
        let row = RowChange {
            tree: rows,
            old: old.map(|_| key),
            new: new.map(|row| (key, row)),
            unique: old.is_none(),
        };
        let mut changes = Vec::with_capacity(1 + plan.entries.len());
        changes.push(row);
        changes.extend(plan.entries.iter().map(|entry| plan.change(entry, definition)));
        // The row was looked up under its lock; it is checked again only if the lock was released
        // for a wait.
        let new = if old.is_none() { changes.len() } else { 0 };
        match txn.change_row(&changes, RowLock::Exclusive, (1, new))? {
            None => Ok(()),
            Some(conflict) => Err(self.conflict(&plan, definition, (key, &conflict))),
        }
    }

    fn conflict(
        &self,
        plan: &Plan,
        definition: &Definition,
        (key, conflict): (&[u8], &RowConflict),
    ) -> Error {
        let planned = conflict.index.checked_sub(1).and_then(|at| plan.entries.get(at));
        let index = planned.and_then(|planned| definition.indexes.get(planned.index));
        let table = self.name();
        let Some(index) = index else {
            return Error::DuplicateKey(Duplicate::Row { tree: table, key: key.to_vec() });
        };
        match index.form().read(&[], &conflict.value) {
            Ok(entry) => Error::DuplicateKey(Duplicate::InIndex {
                table,
                index: index.spec.name.clone(),
                row: entry.key.to_vec(),
            }),
            Err(flaw) => self.state.rows.malformed(flaw),
        }
    }
}

/// True if plain reads show exactly this row; false if they show nothing of its tree.
fn shows(txn: &Txn, rows: &Tree, key: &[u8], row: Option<&[u8]>) -> Result<bool> {
    match txn.get(rows, key) {
        Err(Error::DefinitionChanged(_)) => Ok(false),
        shown => Ok(shown?.as_deref() == row),
    }
}

/// Extracts what an index orders a row of the table with these `rows` by, into a cleared buffer;
/// false if the row has no entry.
pub(super) fn extract(
    rows: &Tree,
    spec: &IndexSpec,
    key: &[u8],
    row: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<bool> {
    out.clear();
    let Some(row) = row else { return Ok(false) };
    (spec.extract)(key, row, out).map_err(|error| Error::IndexFunction {
        table: rows.name(),
        index: spec.name.clone(),
        row: key.to_vec(),
        source: error.into(),
    })
}

impl Plan {
    fn add(
        &mut self,
        rows: &Tree,
        (at, index): (usize, &Arc<IndexState>),
        key: &[u8],
        (old, new): (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<()> {
        let (spec, form) = (&index.spec, index.form());
        let [before, after] = &mut self.extracted;
        let was = extract(rows, spec, key, old, before)?;
        let is = extract(rows, spec, key, new, after)?;
        // A clustering entry contains the row, which does change.
        let stays = was && is && before == after;
        if (stays && !form.clustering && !self.rewrites) || !(was || is) {
            return Ok(());
        }
        let bytes = &mut self.bytes;
        let place = |bytes: &mut Vec<u8>, write: &dyn Fn(&mut Vec<u8>)| {
            let from = bytes.len();
            write(bytes);
            from..bytes.len()
        };
        let old = was.then(|| place(bytes, &|out| form.write_key(before, key, out)));
        let new = new.filter(|_| is).map(|row| {
            let at = place(bytes, &|out| form.write_key(after, key, out));
            (at, place(bytes, &|out| form.write_value(key, row, out)))
        });
        self.entries.push(Planned { index: at, old, new });
        Ok(())
    }

    fn change<'a>(&'a self, planned: &Planned, definition: &'a Definition) -> RowChange<'a> {
        let index = &definition.indexes[planned.index];
        let (tree, unique) = (&index.tree, index.spec.unique);
        let bytes = |range: &Range<usize>| &self.bytes[range.clone()];
        RowChange {
            tree,
            old: planned.old.as_ref().map(bytes),
            new: planned.new.as_ref().map(|(key, value)| (bytes(key), bytes(value))),
            unique,
        }
    }
}
