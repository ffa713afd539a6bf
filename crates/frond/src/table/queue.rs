//! Changes that waited for a build are brought into its index.
//!
//! A queue has, for each entry that a row got or lost, what became of it last. Nobody writes the queue any more.
//!
//! In a unique index, two rows may have the same for a while: a row that came is in this queue, and that another has
//! gone from there only in the next, because the call that wrote it was late. So whether two rows are in each other's way
//! is asked of the rows, at one moment behind the queue: if both are there and have the same, that is an error; one that
//! is not is forgotten, and whatever it becomes is in a later queue.
//!
//! Threads: the build's. Memory: one batch, and some candidates.

use crate::{Batch, Db, Durability, Error, Result, Tree, sync::Arc};

use super::{
    entry::{Queued, read_long_key},
    open::Table,
    state::IndexState,
    write::extract,
};

/// A commit of the build: small beside what a memtable takes.
const BATCH_BYTES: usize = 256 << 10;
/// Rows that may have the same before the table is asked which do.
const CANDIDATES_MAX: usize = 16;

/// True if more than so many entries wait.
pub(super) fn has_more_than(db: &Db, queue: &Tree, count: u64) -> Result<bool> {
    let snapshot = db.snapshot();
    let mut entries = snapshot.scan(queue, ..)?;
    for _ in 0..=count {
        if entries.next()?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Brings a queue into an index; returns how much it had.
pub(super) fn apply(table: &Table, index: &Arc<IndexState>, queue: &Tree) -> Result<u64> {
    let mut applying = Applying { table, index, batch: Batch::new(), group: None };
    let snapshot = table.db.snapshot();
    let mut entries = snapshot.scan(queue, ..)?;
    let mut count = 0;
    while let Some((at, value)) = entries.next()? {
        count += 1;
        let change = index.form().read_queued(value).map_err(|flaw| queue.malformed(flaw))?;
        if index.spec.unique {
            applying.add_unique(at, change)?;
        } else {
            applying.add_plain(at, change)?;
        }
    }
    applying.end_group()?;
    applying.commit()?;
    Ok(count)
}

struct Applying<'a> {
    table: &'a Table,
    index: &'a IndexState,
    batch: Batch,
    /// Of a unique index: the rows that may have the same.
    group: Option<Group>,
}

#[derive(Debug)]
struct Group {
    extracted: Vec<u8>,
    /// The index's entry is not what it is to be.
    has_changed: bool,
    /// Keys, and of a clustering index rows.
    candidates: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Applying<'_> {
    fn add_plain(&mut self, at: &[u8], change: Queued<'_>) -> Result<()> {
        match change {
            Queued::Deleted => self.batch.delete(&self.index.tree, at)?,
            Queued::Put { row } => self.batch.put(&self.index.tree, at, row.unwrap_or_default())?,
        }
        self.commit_if_full()
    }

    fn add_unique(&mut self, at: &[u8], change: Queued<'_>) -> Result<()> {
        let (extracted, key) = read_long_key(at).map_err(|flaw| self.index.tree.malformed(flaw))?;
        if self.group.as_ref().is_none_or(|group| group.extracted != extracted) {
            self.end_group()?;
            self.group = Some(self.begin_group(extracted)?);
        }
        let Some(group) = &mut self.group else { return Ok(()) };
        let before = group.candidates.len();
        group.candidates.retain(|(other, _)| other != key);
        group.has_changed |= group.candidates.len() < before;
        if let Queued::Put { row } = change {
            group.candidates.push((key.to_vec(), row.unwrap_or_default().to_vec()));
            group.has_changed = true;
        }
        if group.candidates.len() > CANDIDATES_MAX {
            self.choose()?;
        }
        Ok(())
    }

    /// Whoever has it in the index is the first candidate. What waits in the batch is of other groups.
    fn begin_group(&self, extracted: Vec<u8>) -> Result<Group> {
        let mut candidates = Vec::new();
        if let Some(value) = self.index.tree.get(&extracted)? {
            let entry = self.index.form().read(&extracted, &value);
            let entry = entry.map_err(|flaw| self.index.tree.malformed(flaw))?;
            candidates.push((entry.key.to_vec(), entry.row.unwrap_or_default().to_vec()));
        }
        Ok(Group { extracted, has_changed: false, candidates })
    }

    /// Forgets candidates whose rows do not have it now.
    fn choose(&mut self) -> Result<()> {
        let Some(group) = &mut self.group else { return Ok(()) };
        let (spec, rows) = (&self.index.spec, &self.table.rows);
        let (snapshot, mut now) = (self.table.db.snapshot(), Vec::new());
        let mut kept = Vec::new();
        for (key, row) in group.candidates.drain(..) {
            let value = snapshot.get(rows, &key)?;
            if extract(spec, &key, value.as_deref(), &mut now) && now == group.extracted
                || plant!("table: who has it in the index has it for ever")
            {
                kept.push((key, row));
            }
        }
        if kept.len() > 1 {
            let (table, index) = (self.table.name(), spec.name.clone());
            let rows = kept.into_iter().take(2).map(|(key, _)| key).collect();
            return Err(Error::IndexDuplicates { table, index, rows });
        }
        group.candidates = kept;
        group.has_changed = true;
        Ok(())
    }

    fn end_group(&mut self) -> Result<()> {
        if self.group.as_ref().is_some_and(|group| group.candidates.len() > 1) {
            self.choose()?;
        }
        let Some(group) = self.group.take().filter(|group| group.has_changed) else {
            return Ok(());
        };
        let tree = &self.index.tree;
        match group.candidates.first() {
            None => self.batch.delete(tree, &group.extracted)?,
            Some((key, row)) => {
                let mut value = Vec::new();
                self.index.form().write_value(key, row, &mut value);
                self.batch.put(tree, &group.extracted, &value)?;
            }
        }
        self.commit_if_full()
    }

    fn commit_if_full(&mut self) -> Result<()> {
        if self.batch.bytes() < BATCH_BYTES { Ok(()) } else { self.commit() }
    }

    /// The commit that publishes the index is synced, and these stand before it in the log.
    fn commit(&mut self) -> Result<()> {
        self.table.db.commit_with(&mut self.batch, Durability::Lazy).map(drop)
    }
}
