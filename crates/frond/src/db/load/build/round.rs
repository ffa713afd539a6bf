//! One round of an index build: the rows that differ between two snapshots, found by the keys in
//! the build's queues.
//!
//! A round reads all existing queues concurrently, as of its snapshot, because a transaction may
//! have put a key into any of them. A queue is read by every round until its last user has ended;
//! rows that are the same at both moments are skipped.
//!
//! Invariants
//! 1. In a unique index, a round adds entries only after all removals: a new entry whose key is
//!    still there then belongs to another row of the same moment. So if any index is unique, the
//!    round reads its queues twice.
//! 2. For each row, entries are removed before others are added.
//!
//! Threads: the build's. Memory: a batch, and a row of each queue.

use std::collections::BTreeSet;

use crate::{
    Batch, Duplicate, Durability, Error, Result, Tree,
    catalog::ChangeQueue,
    db::{Cursor, Db, ExclusiveWait, Snapshot},
    key_range::check_key,
    sync::{Arc, Ordering},
};

use super::{Building, IndexBuild, misuse};

/// Bytes of a commit of the build: small compared to a memtable.
const BATCH_BYTES: usize = 256 << 10;
/// Rows up to which a round counts as short. The limit grows with each round, so that a build
/// finishes whatever the writers do.
const SHORT_ROWS: u64 = 1000;
/// How often that limit is doubled at most: writers wait a few tenths of a second while such a
/// round is read.
const SHORT_DOUBLED_MAX: u32 = 6;
/// Rows between two checks for cancellation.
const ROWS_A_LOOK: u64 = 64;

/// A queue of a build.
#[derive(Debug)]
pub(super) struct Queue {
    pub tree: Tree,
    pub queue: Arc<ChangeQueue>,
    /// No writer can put a key into the queue any more.
    pub is_closed: bool,
}

impl Queue {
    /// True once no call holds a reference to it that writers took before they switched.
    pub fn is_unused(&mut self) -> bool {
        // Pairs with the release of the last reference: the locks of the transaction that held it
        // can be found then.
        Arc::get_mut(&mut self.queue).is_some()
    }
}

/// A row that differs between two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowChanged<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The row as it was, which is what the indexes have; `None` if it did not exist.
    pub old: Option<&'a [u8]>,
    /// The row as it is, which is what the indexes should have; `None` if it does not exist.
    pub new: Option<&'a [u8]>,
}

/// Which entries of changes a pass processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    Both,
    Going,
    Coming,
}

/// A running round.
#[derive(Debug)]
pub(super) struct Round {
    /// The state that the indexes will have.
    to: Snapshot,
    cursors: Vec<QueueCursor>,
    pass: Pass,
    looked: u64,
    /// The row returned last, and its entries to add.
    row: Row,
    comes: Vec<Entry>,
}

#[derive(Debug, Default)]
struct Row {
    key: Vec<u8>,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    is_out: bool,
}

#[derive(Debug)]
struct Entry {
    index: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The entry existed, with another value.
    stays: bool,
}

/// Keys of a queue as of a round's snapshot.
#[derive(Debug)]
struct QueueCursor {
    cursor: Cursor,
    next: Option<Vec<u8>>,
}

impl QueueCursor {
    fn advance(&mut self) -> Result<()> {
        self.next = self.cursor.next()?.map(|(key, _)| key.to_vec());
        Ok(())
    }
}

impl Round {
    /// Moves to the least key of all queues; false if there is none.
    fn next_key(&mut self) -> Result<bool> {
        let Some(least) = self.cursors.iter().filter_map(|cursor| cursor.next.as_deref()).min()
        else {
            return Ok(false);
        };
        self.row.key.clear();
        self.row.key.extend_from_slice(least);
        for cursor in &mut self.cursors {
            if cursor.next.as_ref() == Some(&self.row.key) {
                cursor.advance()?;
            }
        }
        Ok(true)
    }

    fn read_again(&mut self) -> Result<()> {
        for cursor in &mut self.cursors {
            cursor.cursor.seek_first();
            cursor.advance()?;
        }
        Ok(())
    }
}

impl IndexBuild {
    /// The next row whose index entries may be outdated; pass its entries to
    /// [`change`](Self::change). `None` at the end of a round: the indexes then hold the entries of
    /// one moment, and the next call starts another round. A round may return a row twice; pass the
    /// same entries again.
    ///
    /// # Errors
    /// `DuplicateKey`: at that moment two rows had the same key in `tree`, a unique index.
    /// `InvalidArgument` if a range of rows was deleted from the tree meanwhile: it is not known
    /// which rows those were. `NoSuchTree` if the tree itself was dropped. I/O errors and damage;
    /// errors of commits. After these the build has failed; after `Interrupted` it has not, unless
    /// that came while the base was finished.
    pub fn next_change(&mut self) -> Result<Option<RowChanged<'_>>> {
        self.end_base()?;
        match self.step() {
            Ok(false) => Ok(None),
            Ok(true) => {
                let row = self.round.as_ref().map(|round| &round.row);
                Ok(row.map(|Row { key, old, new, .. }| RowChanged {
                    key,
                    old: old.as_deref(),
                    new: new.as_deref(),
                }))
            }
            Err(error) => {
                if !matches!(error, Error::Interrupted) {
                    self.failed = Some(error.clone());
                }
                Err(error)
            }
        }
    }

    /// Changes an index entry of the row that [`next_change`](Self::next_change) has returned:
    /// `old` is the key of the entry that it had, if any, `new` the key and value of the entry that
    /// it should have, if any. Skip entries that do not change. A row may have several entries in
    /// one index.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such row or index; `KeyTooLong`, `ValueTooLong`.
    pub fn change(
        &mut self,
        index: usize,
        old: Option<&[u8]>,
        new: Option<(&[u8], &[u8])>,
    ) -> Result<()> {
        let tree = self.indexes.get(index).and_then(|index| index.tree.as_ref());
        let tree = tree.ok_or_else(|| misuse("there is no such index"))?;
        let round = self.round.as_mut().filter(|round| round.row.is_out);
        let round = round.ok_or_else(|| misuse("the entries belong to no row"))?;
        let stays = old.is_some() && old == new.map(|(key, _)| key);
        if let Some(old) = old.filter(|_| !stays && round.pass != Pass::Coming) {
            self.batch.delete(tree, old)?;
        }
        if let Some((key, value)) = new.filter(|_| round.pass != Pass::Going) {
            check_key(key)?;
            tree.check_value(value)?;
            let (key, value) = (key.to_vec(), value.to_vec());
            round.comes.push(Entry { index, key, value, stays });
        }
        Ok(())
    }

    /// True after a short round if the next one will be short, too, so that it is time to
    /// [lock](Self::lock) the tree. If writers keep the rounds long, the limit grows from the
    /// second round on.
    ///
    /// # Errors
    /// I/O errors and damage.
    pub fn is_near(&self) -> Result<bool> {
        if self.rounds == 0 || self.round.is_some() {
            return Ok(false);
        }
        let short = SHORT_ROWS << (self.rounds - 1).min(SHORT_DOUBLED_MAX);
        let Some(queue) = self.queues.last().filter(|_| self.changes <= short) else {
            return Ok(false);
        };
        Ok(!has_more_than(&self.db, &queue.tree, short)?)
    }

    /// The snapshot to which the running round brings the indexes.
    pub(crate) fn target_snapshot(&self) -> Option<Snapshot> {
        self.round.as_ref().map(|round| round.to.clone())
    }

    /// The number of completed rounds, and the rows of the last.
    pub(crate) fn rounds(&self) -> (u32, u64) {
        (self.rounds, self.changes)
    }

    /// Moves to the next row; false at the end of a round.
    fn step(&mut self) -> Result<bool> {
        if self.round.is_none() {
            self.begin_round()?;
        }
        loop {
            self.put_what_comes()?;
            let Self { round: Some(round), has: Some(has), base, cancel, .. } = &mut *self else {
                return Err(Error::Closed);
            };
            if round.looked % ROWS_A_LOOK == 0 {
                cancel.check_cancelled()?;
            }
            round.looked += 1;
            if !round.next_key()? {
                if !self.next_pass()? {
                    self.end_round();
                    return Ok(false);
                }
                continue;
            }
            let Row { key, old, new, is_out } = &mut round.row;
            *old = has.get(base, &*key)?;
            *new = round.to.get(base, &*key)?;
            if old != new {
                *is_out = true;
                if round.pass != Pass::Coming {
                    self.changes += 1;
                    self.progress.note_change();
                }
                return Ok(true);
            }
        }
    }

    fn begin_round(&mut self) -> Result<()> {
        self.base.check_there()?;
        if self.alone.is_none() {
            self.turn()?;
        }
        let to = self.db.snapshot();
        let missed = |queue: &Queue| queue.queue.has_missed.load(Ordering::Acquire);
        if self.queues.iter().any(missed) {
            return Err(misuse(
                "a range of rows was deleted from the tree while indexes of it were being built: begin again",
            ));
        }
        let mut cursors = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            let mut cursor = QueueCursor { cursor: to.scan(&queue.tree, ..)?, next: None };
            cursor.advance()?;
            cursors.push(cursor);
        }
        let has_unique = self.indexes.iter().any(|index| index.options.unique);
        let is_apart =
            has_unique && !plant!("db: of a build's round, entries come before all have gone");
        let pass = if is_apart { Pass::Going } else { Pass::Both };
        let (row, comes) = (Row::default(), Vec::new());
        self.changes = 0;
        self.round = Some(Round { to, cursors, pass, looked: 0, row, comes });
        Ok(())
    }

    /// Makes writers switch to another queue.
    fn turn(&mut self) -> Result<()> {
        let gone: Vec<_> = self.gone.iter().map(|queue| queue.tree.id()).collect();
        let mut ours = self.db.shared.catalog.building.lock().unwrap();
        let queue = self.db.make_queue(&mut ours, &gone)?;
        drop(ours);
        self.gone.clear();
        self.base.entry.queue.set(Some(queue.queue.clone()));
        self.db.end_batches();
        for old in self.queues.iter_mut().filter(|old| !old.is_closed) {
            if !old.is_unused() {
                continue;
            }
            match self.db.lock_tree(&old.tree, ExclusiveWait::NoWait) {
                // A batch that waited for a row and still refers to this queue finds that the tree
                // has another one, and starts over.
                Ok(_) => old.is_closed = true,
                // A later round reads it again.
                Err(Error::LockTimeout { .. } | Error::LockBusy { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.queues.push(queue);
        if plant!("db: a build drops queues that are still written") {
            let queue = self.queues.pop();
            self.queues.retain(|queue| queue.is_closed);
            self.queues.extend(queue);
        }
        Ok(())
    }

    /// Puts the entries that the last row adds.
    fn put_what_comes(&mut self) -> Result<()> {
        let Self { round: Some(round), indexes, batch, fresh, .. } = &mut *self else {
            return Ok(());
        };
        round.row.is_out = false;
        for Entry { index, key, value, stays } in round.comes.drain(..) {
            let Building { tree: Some(tree), options, name, .. } = &indexes[index] else {
                continue;
            };
            if options.unique && !stays && round.pass != Pass::Both {
                // Invariant 1.
                if tree.contains(&key)? || !fresh.insert((index, key.clone())) {
                    return Err(Error::DuplicateKey(Duplicate::InLoad { tree: name.clone(), key }));
                }
            }
            batch.put(tree, &key, &value)?;
        }
        match batch.bytes() < BATCH_BYTES {
            true => Ok(()),
            false => self.commit_entries(),
        }
    }

    /// Commits the entries collected so far. The commit is lazy, because the one that publishes the
    /// indexes is synced, and this one precedes it in the log.
    fn commit_entries(&mut self) -> Result<()> {
        self.fresh = BTreeSet::new();
        let Self { db, batch, .. } = self;
        commit(db, batch)
    }

    /// Switches from removals to additions; false if the round has no more passes.
    fn next_pass(&mut self) -> Result<bool> {
        self.commit_entries()?;
        let Some(round) = self.round.as_mut().filter(|round| round.pass == Pass::Going) else {
            return Ok(false);
        };
        round.pass = Pass::Coming;
        round.read_again()?;
        Ok(true)
    }

    fn end_round(&mut self) {
        let Some(round) = self.round.take() else { return };
        self.has = Some(round.to);
        self.rounds += 1;
        self.progress.note_round();
        let (gone, kept) =
            std::mem::take(&mut self.queues).into_iter().partition(|queue: &Queue| queue.is_closed);
        self.queues = kept;
        self.gone.extend::<Vec<Queue>>(gone);
        if let Some(alone) = &mut self.alone {
            alone.is_whole = true;
        }
    }
}

fn commit(db: &Db, batch: &mut Batch) -> Result<()> {
    db.commit_with(batch, Durability::Lazy).map(drop)
}

/// True if more than `count` keys are in the queue.
fn has_more_than(db: &Db, queue: &Tree, count: u64) -> Result<bool> {
    let snapshot = db.snapshot();
    let mut keys = snapshot.scan(queue, ..)?;
    for _ in 0..=count {
        if keys.next()?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}
