//! Rows of transactions whose writes have left memory: those writes are their locks (Rule: I47).
//!
//! A transaction of millions of rows would need as many places of the table. Instead it answers for the rows whose
//! entries lie in its sorted runs, and their locks leave the table. Who locks a row asks such transactions, once the
//! row is had from the table; who finds the row with one of them waits for its end: each of them holds one lock more,
//! which stands for itself.
//!
//! Invariants
//! 1. A transaction is listed before a lock of it leaves the table, and until its commit is visible or its rollback
//!    done, and a row is in its filter before its lock leaves the table; a row is asked for here behind the table. So of a row
//!    that it holds, one of the two is found.
//! 2. It asks for none of its own rows again: who has taken one from the table and waits for it, it does not wait for.
//!
//! Threads: all. While nobody is listed, a row costs one load more; while some are, a read lock, and some cache lines for each.
//! Rank: the list is locked below nothing.

use std::{collections::HashSet, fmt};

use super::{
    LockTable,
    denied::{Denied, LockOn, Patience, Request},
    lock_set::LockSet,
    mode::Mode,
    rows::{NOTED, granting, parts},
    shard::{LockHash, Taken},
};
use crate::{
    TreeId,
    sync::{Arc, AtomicU64, AtomicUsize, Ordering, RwLock},
};

/// The tree in whose name locks stand that are transactions' own: none.
pub(super) const OWNERS: TreeId = TreeId(u32::MAX);

/// Says which rows a transaction has written that are not in memory.
pub trait HoldsRows: Send + Sync + fmt::Debug {
    /// Whether it has; nothing if that cannot be found out. Others wait for who may have a row, and who may have it himself
    /// asks the table.
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool>;
}

/// A transaction that answers for rows.
#[derive(Clone, Debug)]
struct Holder {
    /// Its id, which no other transaction has, or had.
    id: u64,
    /// The lock by which others wait for its end.
    end: LockHash,
    rows: Arc<dyn HoldsRows>,
    /// What these rows hash to; none if nobody knows.
    filter: Option<Filter>,
}

/// Rows of a transaction as a Bloom filter: to ask each of some hundred transactions about each row that is locked would cost
/// more than all the rest. Its parts double in length.
#[derive(Clone, Default, Debug)]
struct Filter(Vec<Arc<Part>>);

#[derive(Debug)]
struct Part {
    /// Lines of [`LINE_WORDS`] words. A row sets two bits of one line.
    words: Box<[AtomicU64]>,
    rows: AtomicUsize,
}

/// Words in a cache line.
const LINE_WORDS: usize = 8;
/// Bits of a part for each row that it has room for: one row in a hundred is asked for in vain.
const ROW_BITS: usize = 16;
/// Rows that the first part has room for. In tests so few that there are several parts.
const ROWS_MIN: usize = if cfg!(any(test, shuttle)) { 32 } else { 1 << 10 };
/// Rows of the longest part, 2 MiB. A transaction with more than all of its parts have room for is asked about any row.
const ROWS_MAX: usize = 1 << 20;

impl Part {
    fn for_rows(rows: usize) -> Self {
        let words = (rows * ROW_BITS / 64).next_multiple_of(LINE_WORDS);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), rows: AtomicUsize::new(0) }
    }

    fn has_room_for(&self, rows: usize) -> bool {
        (self.rows.load(Ordering::Relaxed) + rows) * ROW_BITS <= self.words.len() * 64
    }

    /// Word and mask of each of the two bits. The hash is as good in any of its parts.
    fn bits(&self, hash: u128) -> [(usize, u64); 2] {
        let line = (hash >> 64) as usize % (self.words.len() / LINE_WORDS) * LINE_WORDS;
        let bit = |part: u128| {
            let bit = part as usize % (LINE_WORDS * 64);
            (line + bit / 64, 1 << (bit % 64))
        };
        [bit(hash), bit(hash >> 16)]
    }

    fn add(&self, hashes: &HashSet<u128>) {
        self.rows.fetch_add(hashes.len(), Ordering::Relaxed);
        for (word, mask) in hashes.iter().flat_map(|hash| self.bits(*hash)) {
            // Relaxed: the row's lock leaves the table behind this, under the mutex of a shard that who asks has had.
            self.words[word].fetch_or(mask, Ordering::Relaxed);
        }
    }

    fn may_have(&self, hash: u128) -> bool {
        let is_set =
            |(word, mask): (usize, u64)| self.words[word].load(Ordering::Relaxed) & mask != 0;
        self.bits(hash).into_iter().all(is_set)
    }
}

impl Holder {
    fn may_have(&self, hash: u128) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|Filter(parts)| parts.iter().any(|part| part.may_have(hash)))
    }

    /// A part with room for so many rows more; none where it is to be asked about any row.
    fn part_for(&mut self, rows: usize) -> Option<Arc<Part>> {
        let Filter(parts) = self.filter.as_mut()?;
        let last = parts.last().cloned().filter(|last| last.has_room_for(rows));
        if last.is_some() {
            return last;
        }
        let doubled = parts.last().map_or(0, |last| 2 * last.words.len() * 64 / ROW_BITS);
        let room = doubled.max(rows).max(ROWS_MIN);
        if room > ROWS_MAX {
            self.filter = None;
            return None;
        }
        parts.push(Arc::new(Part::for_rows(room)));
        parts.last().cloned()
    }
}

/// Whose locks leave the table for one that answers for them.
#[derive(Clone, Copy, Debug)]
pub enum Leaving<'h> {
    /// Rows of these hashes.
    Rows(&'h HashSet<u128>),
    /// None: it has none there. Nobody knows which rows it answers for without asking it.
    Unknown,
}

/// All of them; there are seldom any.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    count: AtomicUsize,
    holders: RwLock<Vec<Holder>>,
}

impl Spilled {
    #[inline]
    pub fn any(&self) -> bool {
        // Pairs with the store in `list`: the shard's mutex, which the row was taken under, is between.
        self.count.load(Ordering::Acquire) > 0
    }

    fn list(&self, holder: Holder) {
        let mut holders = self.holders.write().unwrap();
        holders.push(holder);
        self.count.store(holders.len(), Ordering::Release);
    }

    /// Others wait for the end of this one by another lock from here on.
    fn replace_end(&self, id: u64, end: LockHash) {
        let mut holders = self.holders.write().unwrap();
        holders.iter_mut().filter(|holder| holder.id == id).for_each(|holder| holder.end = end);
    }

    fn forget(&self, id: u64) {
        let mut holders = self.holders.write().unwrap();
        holders.retain(|holder| holder.id != id);
        self.count.store(holders.len(), Ordering::Release);
    }

    /// Rows that this transaction, which is listed, answers for from here on.
    fn add_rows(&self, id: u64, hashes: &HashSet<u128>) {
        let mut holders = self.holders.write().unwrap();
        let own = holders.iter_mut().find(|holder| holder.id == id);
        let part = own.and_then(|own| own.part_for(hashes.len()));
        drop(holders);
        if let Some(part) = part {
            part.add(hashes);
        }
    }

    /// Others that may answer for this row.
    fn others(&self, id: u64, hash: u128) -> Vec<Holder> {
        let holders = self.holders.read().unwrap();
        let others = holders.iter().filter(|holder| holder.id != id && holder.may_have(hash));
        others.cloned().collect()
    }

    /// Memory of the filters, bytes.
    pub fn bytes(&self) -> usize {
        let holders = self.holders.read().unwrap();
        let filters = holders.iter().filter_map(|holder| holder.filter.as_ref());
        filters.flat_map(|Filter(parts)| parts).map(|part| part.words.len() * 8).sum()
    }
}

impl LockTable {
    /// From here on `rows` answers for the locks of this set whose writes have left memory; they leave the table.
    pub fn spill(&self, locks: &mut LockSet, rows: Arc<dyn HoldsRows>, leaving: Leaving<'_>) {
        let id = locks.owner.id();
        if locks.spilled.is_none() {
            let end = LockHash::of_owner(id, true);
            self.take_own(locks, end);
            let filter = matches!(leaving, Leaving::Rows(_)).then(Filter::default);
            self.spilled.list(Holder { id, end, rows: rows.clone(), filter });
            locks.spilled = Some(rows);
        }
        let Leaving::Rows(hashes) = leaving else { return };
        if !plant!("locks: rows that left memory are in no filter") {
            self.spilled.add_rows(id, hashes);
        }
        self.release_others(locks, |name, _, writes| {
            !writes || name.is_table || !hashes.contains(&name.hash.0)
        });
    }

    /// Takes the lock that stands for the set's owner.
    fn take_own(&self, locks: &mut LockSet, hash: LockHash) {
        let own = Request {
            on: LockOn::Row,
            tree: OWNERS,
            hash,
            mode: Mode::Exclusive,
            writes: false,
            row: None,
        };
        self.take(locks, &own, None, Patience::NoWait)
            .expect("nobody asks for it before it is listed");
    }

    /// The set answers for fewer rows than before, once: who waits for its end looks again whether he has to.
    pub fn answers_for_fewer(&self, locks: &mut LockSet) {
        if locks.spilled.is_none() {
            return;
        }
        let (id, new) = (locks.owner.id(), LockHash::of_owner(locks.owner.id(), false));
        self.take_own(locks, new);
        self.spilled.replace_end(id, new);
        self.release_others(locks, |name, _, _| name.tree != OWNERS || name.hash == new);
    }

    /// True if the set answers for the row itself: it has it. What it cannot find out is not enough: where a read had failed,
    /// it took a row to be its own that another held in the table, and both went on.
    #[inline]
    pub(super) fn is_spilled_own(&self, locks: &LockSet, tree: TreeId, key: &[u8]) -> bool {
        let Some(rows) = &locks.spilled else { return false };
        let holds = rows.holds(tree, key);
        holds.unwrap_or(plant!("locks: what cannot be read is one's own"))
    }

    /// Waits for those who answer for the row that was wanted. It was had from the table before.
    #[cold]
    pub(super) fn pass_spilled(
        &self,
        locks: &mut LockSet,
        wanted: &Request,
        key: &[u8],
        patience: Patience,
    ) -> Result<(), Denied> {
        let tree = wanted.tree;
        loop {
            let mut others = self.spilled.others(locks.owner.id(), wanted.hash.0);
            if plant!("txn: rows that left memory are nobody's") {
                others.clear();
            }
            let may_hold = |holder: &Holder| holder.rows.holds(tree, key) != Some(false);
            let Some(holder) = others.into_iter().find(may_hold) else { return Ok(()) };
            let end = Request {
                on: LockOn::Row,
                tree,
                hash: holder.end,
                mode: Mode::Shared,
                writes: false,
                // A wait, a refusal and a deadlock are of the row, which was known by its key alone: they named the hash of
                // the holder's own lock, and a writer's wait was called a shared one.
                row: Some((wanted.hash, wanted.mode)),
            };
            let waited = self.take(locks, &end, Some(key), patience);
            if let Ok((place, Taken::New)) = waited {
                self.give_back(locks, place);
            }
            waited?;
        }
    }

    /// Gives the lock of one place back.
    pub(super) fn give_back(&self, locks: &mut LockSet, place: u32) {
        let (shard, at) = parts(place);
        let index = locks.held.iter().rposition(|&held| held == place).expect(NOTED);
        locks.held.remove(index);
        let number = locks.owner.number();
        self.shards[shard].0.lock().unwrap().release(at, number, granting(shard));
    }

    /// The end of a set that answered for rows.
    pub(super) fn forget_spilled(&self, locks: &mut LockSet) {
        if locks.spilled.take().is_some() {
            self.spilled.forget(locks.owner.id());
        }
    }
}
