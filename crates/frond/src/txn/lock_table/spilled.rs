//! Row locks of transactions whose writes have been spilled: the spilled writes are the locks
//! (Rule: I47).
//!
//! A transaction that writes millions of rows would need as many places in the table. Instead it
//! answers for the rows whose entries lie in its sorted runs, and their locks leave the table. A
//! transaction that locks a row first acquires it from the table and then asks the listed
//! transactions; if one of them has the row, the locker waits until that transaction ends. For
//! this, each listed transaction holds one more lock, which stands for the transaction itself.
//!
//! Invariants
//! 1. A transaction is listed before one of its locks leaves the table, and until its commit is
//!    visible or its rollback done; a row is in its filter before the row's lock leaves the table;
//!    and the list is consulted after the table. So for a row that the transaction holds, one of
//!    the two is found.
//! 2. A listed transaction never requests one of its own rows again: so it does not wait for
//!    another transaction that has acquired such a row from the table and waits for the listed one.
//!
//! Threads: all. While no transaction is listed, a row costs one more load; otherwise a read lock,
//! and some cache lines for each.
//! Lock order: no other lock is taken under that of the list.

use std::{collections::HashSet, fmt};

use super::{
    LockTable,
    lock_error::{LockError, LockOn, Request, WaitPolicy},
    lock_set::LockSet,
    mode::Mode,
    rows::{NOTED, granting, parts},
    shard::{LockHash, Taken},
};
use crate::{
    TreeId,
    sync::{Arc, AtomicU64, AtomicUsize, Ordering, RwLock},
};

/// The tree number for locks that stand for transactions themselves; no such tree exists.
pub(super) const OWNERS: TreeId = TreeId(u32::MAX);

/// Determines which rows a transaction has written that are not in memory.
pub trait HoldsRows: Send + Sync + fmt::Debug {
    /// Whether the transaction has written the row; `None` if that cannot be determined. Others
    /// then wait for the transaction as if it had, and the transaction itself requests the row from
    /// the table.
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool>;
}

/// A listed transaction that answers for rows.
#[derive(Clone, Debug)]
struct Holder {
    /// The id, which is never reused.
    id: u64,
    /// The lock with which others wait for its end.
    end: LockHash,
    rows: Arc<dyn HoldsRows>,
    /// The hashes of the rows for which it answers; `None` if they are unknown.
    filter: Option<Filter>,
}

/// A Bloom filter over the rows of a transaction: asking each of a few hundred transactions about
/// each row that is locked would cost more than everything else. Its parts double in length.
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
/// Bits of a part per row that it has room for: about 1 % false positives.
const ROW_BITS: usize = 16;
/// Rows that the first part has room for. Few in tests, so that there are several parts.
const ROWS_MIN: usize = if cfg!(any(test, shuttle)) { 32 } else { 1 << 10 };
/// Rows of the longest part, 2 MiB. A transaction whose rows exceed all of its parts is asked about
/// any row.
const ROWS_MAX: usize = 1 << 20;

impl Part {
    fn for_rows(rows: usize) -> Self {
        let words = (rows * ROW_BITS / 64).next_multiple_of(LINE_WORDS);
        Self { words: (0..words).map(|_| AtomicU64::new(0)).collect(), rows: AtomicUsize::new(0) }
    }

    fn has_room_for(&self, rows: usize) -> bool {
        (self.rows.load(Ordering::Relaxed) + rows) * ROW_BITS <= self.words.len() * 64
    }

    /// Word and mask of each of the two bits. Every part uses the same hash.
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
            // Relaxed: the row's lock leaves the table after this, under the mutex of a shard that
            // the asking thread has held.
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

    /// A part with room for `rows` more; `None` if the transaction is to be asked about any row.
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

/// The locks that leave the table for a transaction that answers for them.
#[derive(Clone, Copy, Debug)]
pub enum Leaving<'h> {
    /// Rows with these hashes.
    Rows(&'h HashSet<u128>),
    /// No lock: the transaction has none in the table. Which rows it answers for is unknown until
    /// it is asked.
    Unknown,
}

/// All listed transactions; usually there are none.
#[derive(Debug, Default)]
pub(super) struct Spilled {
    count: AtomicUsize,
    holders: RwLock<Vec<Holder>>,
}

impl Spilled {
    #[inline]
    pub fn any(&self) -> bool {
        // Pairs with the store in `list`: the shard's mutex, under which the row was acquired, lies
        // between.
        self.count.load(Ordering::Acquire) > 0
    }

    fn list(&self, holder: Holder) {
        let mut holders = self.holders.write().unwrap();
        holders.push(holder);
        self.count.store(holders.len(), Ordering::Release);
    }

    /// Makes others wait for the end of this transaction with another lock from now on.
    fn replace_end(&self, id: u64, end: LockHash) {
        let mut holders = self.holders.write().unwrap();
        holders.iter_mut().filter(|holder| holder.id == id).for_each(|holder| holder.end = end);
    }

    fn forget(&self, id: u64) {
        let mut holders = self.holders.write().unwrap();
        holders.retain(|holder| holder.id != id);
        self.count.store(holders.len(), Ordering::Release);
    }

    /// Adds rows for which this listed transaction answers from now on.
    fn add_rows(&self, id: u64, hashes: &HashSet<u128>) {
        let mut holders = self.holders.write().unwrap();
        let own = holders.iter_mut().find(|holder| holder.id == id);
        let part = own.and_then(|own| own.part_for(hashes.len()));
        drop(holders);
        if let Some(part) = part {
            part.add(hashes);
        }
    }

    /// Other transactions that may answer for this row.
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
    /// Makes `rows` answer for the locks of this set whose writes have been spilled; these locks
    /// leave the table.
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
        self.take(locks, &own, None, WaitPolicy::NoWait)
            .expect("no thread looks for it before it is listed");
    }

    /// Reports that the set answers for fewer rows than before; may be called once. Transactions
    /// that wait for its end check again whether they still have to wait.
    pub fn answers_for_fewer(&self, locks: &mut LockSet) {
        if locks.spilled.is_none() {
            return;
        }
        let (id, new) = (locks.owner.id(), LockHash::of_owner(locks.owner.id(), false));
        self.take_own(locks, new);
        self.spilled.replace_end(id, new);
        self.release_others(locks, |name, _, _| name.tree != OWNERS || name.hash == new);
    }

    /// True if the set itself answers for the row, and so holds it. An unknown answer does not
    /// suffice: after a failed read, the transaction would take for its own a row that another
    /// transaction holds in the table, and both would continue.
    #[inline]
    pub(super) fn is_spilled_own(&self, locks: &LockSet, tree: TreeId, key: &[u8]) -> bool {
        let Some(rows) = &locks.spilled else { return false };
        let holds = rows.holds(tree, key);
        holds.unwrap_or(plant!("locks: what cannot be read is one's own"))
    }

    /// Waits for the transactions that answer for the wanted row, which was acquired from the table
    /// before.
    #[cold]
    pub(super) fn pass_spilled(
        &self,
        locks: &mut LockSet,
        wanted: &Request,
        key: &[u8],
        wait_policy: WaitPolicy,
    ) -> Result<(), LockError> {
        let tree = wanted.tree;
        loop {
            let mut others = self.spilled.others(locks.owner.id(), wanted.hash.0);
            if plant!("txn: spilled rows have no owner") {
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
                // Waits, refusals and deadlocks must be reported for the row, not for the hash of
                // the holder's own lock, and with the mode that the waiter wants.
                row: Some((wanted.hash, wanted.mode)),
            };
            let waited = self.take(locks, &end, Some(key), wait_policy);
            if let Ok((place, Taken::New)) = waited {
                self.give_back(locks, place);
            }
            waited?;
        }
    }

    /// Releases the lock in one place.
    pub(super) fn give_back(&self, locks: &mut LockSet, place: u32) {
        let (shard, at) = parts(place);
        let index = locks.held.iter().rposition(|&held| held == place).expect(NOTED);
        locks.held.remove(index);
        let number = locks.owner.number();
        self.shards[shard].0.lock().unwrap().release(at, number, granting(shard));
    }

    /// Removes a set that answered for rows from the list.
    pub(super) fn forget_spilled(&self, locks: &mut LockSet) {
        if locks.spilled.take().is_some() {
            self.spilled.forget(locks.owner.id());
        }
    }
}
