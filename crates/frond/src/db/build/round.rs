//! One round of a build: rows that differ between two snapshots, found by the keys in its queues.
//!
//! A round reads all queues there are, as of its snapshot, side by side: a transaction may have put a key into any of them. What
//! a queue has is read by as many rounds as have to wait for its last user, and rows that are the same at both moments are passed
//! by.
//!
//! Invariants
//! 1. In a unique index, entries of a round come only once all have gone that go: what comes then to a key that is there is
//!    another row's, at one moment. So where an index is unique, the round reads its queues twice.
//! 2. Of one row, entries go before others come.
//!
//! Threads: the build's. Memory: a batch, and a row of each queue.

use std::collections::BTreeSet;

use crate::{
    Batch, Durability, Error, Result, Tree,
    catalog::ChangeQueue,
    sync::{Arc, Ordering},
};

use super::{
    super::{Cursor, Db, Snapshot, WaitAlone, batch::check_key},
    Building, IndexBuild, misuse,
};

/// A commit of the build: small beside what a memtable takes.
const BATCH_BYTES: usize = 256 << 10;
/// A round of so many rows is short. Each round more are, so that a build comes to its end beside any writers.
const SHORT_ROWS: u64 = 1000;
/// At most so many times as many, doubled: writers wait while they are brought in, some tenths of a second.
const SHORT_DOUBLED_MAX: u32 = 6;
/// Rows between two looks whether to go on.
const ROWS_A_LOOK: u64 = 64;

/// A queue of a build.
#[derive(Debug)]
pub(super) struct Queue {
    pub tree: Tree,
    pub queue: Arc<ChangeQueue>,
    /// Nobody can put into it any more.
    pub is_closed: bool,
}

impl Queue {
    /// True once no call has it that its writers have turned from.
    pub fn is_unused(&mut self) -> bool {
        // Pairs with the release of the last call that had it: what its transaction has locked is to be found.
        Arc::get_mut(&mut self.queue).is_some()
    }
}

/// A row that differs between two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowChanged<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// What the indexes have of it: the row as it was; `None` if it was not there.
    pub old: Option<&'a [u8]>,
    /// What they are to have: the row as it is; `None` if it is not there.
    pub new: Option<&'a [u8]>,
}

/// What is done with the entries of changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    Both,
    Going,
    Coming,
}

/// A round on its way.
#[derive(Debug)]
pub(super) struct Round {
    /// What the indexes will have.
    to: Snapshot,
    cursors: Vec<QueueCursor>,
    pass: Pass,
    looked: u64,
    /// The row handed out last, and the entries of it that come.
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
    /// It was there, with another value.
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
    /// The next key that any queue has.
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
    /// The next row that is not yet in the indexes as it is: [`change`](Self::change) takes its entries. `None` at the end of a round: the
    /// indexes are then what they would be at one moment, and the next call begins another round. A round may hand a row out twice;
    /// say the same of it again.
    ///
    /// # Errors
    /// `DuplicateKey`: at that moment two rows had the same in an index, `tree`, that is unique. `InvalidArgument` if somebody has deleted
    /// a range of rows from the tree meanwhile: nobody knows which. `NoSuchTree` if the tree itself is gone. I/O errors and damage, those of
    /// commits. After these the build is over; after `Interrupted` it is not, unless that came while the base was finished.
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

    /// Of the row that [`next_change`](Self::next_change) has handed out: the key of the entry that it had in an index, if it had one, and
    /// key and value of that which it is to have, if it is to have one. Say nothing of an entry that stays as it is. A row may have several
    /// in one index.
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
        let round = round.ok_or_else(|| misuse("there is no row whose entries these could be"))?;
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

    /// After a round: true if it was short, and the next one will be, so that it is time to [lock](Self::lock) the tree. Beside writers who leave
    /// no time for that, longer rounds are short, too, from the second on.
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

    /// The moment that the round on its way brings the indexes to.
    pub(crate) fn looked_at(&self) -> Option<Snapshot> {
        self.round.as_ref().map(|round| round.to.clone())
    }

    /// Rounds that have come to their end, and the rows of the last.
    pub(crate) fn rounds(&self) -> (u32, u64) {
        (self.rounds, self.changes)
    }

    /// To the next row; false at the end of a round.
    fn step(&mut self) -> Result<bool> {
        if self.round.is_none() {
            self.begin_round()?;
        }
        loop {
            self.put_what_comes()?;
            let Self { round: Some(round), has: Some(has), base, heed, .. } = &mut *self else {
                return Err(Error::Closed);
            };
            if round.looked % ROWS_A_LOOK == 0 {
                heed.must_go_on()?;
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
            *old = has.get(base, key)?;
            *new = round.to.get(base, key)?;
            if old != new {
                *is_out = true;
                if round.pass != Pass::Coming {
                    self.changes += 1;
                    self.heed.progress.note_change();
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

    /// Writers turn to another queue.
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
            match self.db.lock_tree(&old.tree, WaitAlone::Not) {
                // Whoever comes to it now, a batch that waited for a row, finds that the tree has another, and begins again.
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

    /// The entries of the last row that come.
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
                    return Err(Error::DuplicateKey { tree: name.clone(), key });
                }
            }
            batch.put(tree, &key, &value)?;
        }
        match batch.bytes() < BATCH_BYTES {
            true => Ok(()),
            false => self.commit_entries(),
        }
    }

    /// The commit that publishes the indexes is synced, and these stand before it in the log.
    fn commit_entries(&mut self) -> Result<()> {
        self.fresh = BTreeSet::new();
        let Self { db, batch, .. } = self;
        commit(db, batch)
    }

    /// What went is gone; then what comes. False if that was all.
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
        self.heed.progress.note_round();
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

/// True if more than so many keys wait.
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
