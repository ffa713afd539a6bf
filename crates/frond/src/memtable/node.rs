//! One node of the memtable's tree: sorted slots, and the version word by which readers detect that
//! what they read was consistent.
//!
//! | node | bytes |
//! |---|---|
//! | head (lock, count, skip, fences, …) | 64 |
//! | heads: 8 key bytes after `skip`, big-endian, zero-padded | 8 × slots |
//! | keys: address of a record that has the key | 4 × slots |
//! | children: address of a node; inner nodes only | 4 × slots |
//!
//! A leaf's slot is a key's first record, from which its versions hang. An inner node's slot `i` is
//! the child for keys from `keys[i]` on; `keys[0]` and `heads[0]` are not used, since the low fence
//! takes their place.
//!
//! Invariants
//! 1. Slots, count, skip and fences change only under the lock. Readers take the version
//!    ([`OptimisticLock::begin`]), read, and trust what they read only after
//!    [`OptimisticLock::validate`].
//! 2. Whatever a reader sees before it validates is safe to follow: a slot's address is empty or
//!    names an object that was placed before (arena invariant 2), and the count never exceeds the
//!    slots.
//! 3. Every key of a node, and every key that a descent leads to it, lies in [low, high) and shares
//!    its first `skip` bytes with both fences. Without both fences `skip` is 0.
//! 4. Heads ascend, equal heads are ordered by the whole key.
//! 5. Level and slots of a node never change.
//!
//! Optimistic lock coupling as in Leis et al., "The ART of practical synchronization"; fences of
//! the seqlock as in Boehm, "Can seqlocks get along with programming language memory models?".
//! Threads: all.

use std::{cmp, slice};

use super::arena::{Arena, At, AtomicAt, RecordHead, Writer, placed};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence, hint, thread};

/// Slots of a node. The model checker gets small ones, so that a few keys split it.
pub(super) const SLOTS: usize = if cfg!(shuttle) { 4 } else { 64 };
/// Slots of a tree's first leaf: where there are thousands of trees, most hold a few keys.
pub(super) const SLOTS_SMALL: usize = if cfg!(shuttle) { 2 } else { 8 };
/// A longer common prefix is adopted only when the heads differ in fewer than this many of their
/// bits: recomputing heads reads every record of the node.
const HEAD_BITS_WANTED: u32 = 32;
const SPINS_BEFORE_YIELD: u32 = 64;
/// The number of slots that are scanned one by one; for more, binary search is used.
const NEAR_SLOTS: usize = 8;

placed! {
    /// A version word: odd while locked.
    OptimisticLock {
        word: AtomicU64,
    }
}

impl OptimisticLock {
    fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Waits until the lock is free and returns the version to validate against.
    #[inline]
    pub(super) fn begin(&self) -> u64 {
        // Acquire pairs with the Release of `unlock`: the reader sees what was written before that
        // version.
        let version = self.word.load(Ordering::Acquire);
        if version & 1 == 0 { version } else { self.begin_after_waiting() }
    }

    #[cold]
    fn begin_after_waiting(&self) -> u64 {
        let mut spins = 0;
        loop {
            let version = self.word.load(Ordering::Acquire);
            if version & 1 == 0 {
                return version;
            }
            spins += 1;
            // The holder shifts a few slots or splits a node; if that takes longer, it was
            // descheduled, perhaps in favour of this thread.
            if spins < SPINS_BEFORE_YIELD && !cfg!(shuttle) {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
    }

    /// True if nothing changed since `begin` returned `version`.
    #[inline]
    pub(super) fn validate(&self, version: u64) -> bool {
        // Pairs with the fence in `try_lock`: if any load before this fence saw a store made under
        // a later lock, the load below sees that lock's odd word or a later one.
        fence(Ordering::Acquire);
        self.word.load(Ordering::Relaxed) == version
    }

    /// Locks if nothing changed since `version`.
    #[inline]
    pub(super) fn try_lock(&self, version: u64) -> bool {
        let locked = self
            .word
            .compare_exchange(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        fence(Ordering::Release);
        locked
    }

    #[inline]
    pub(super) fn unlock(&self) {
        let version = self.word.load(Ordering::Relaxed);
        self.word.store(version + 1, Ordering::Release);
    }
}

placed! {
    /// The fixed part of a node.
    NodeHead {
        lock: OptimisticLock,
        count: AtomicU32,
        skip: AtomicU32,
        low: AtomicAt<RecordHead>,
        high: AtomicAt<RecordHead>,
        /// Slot of the last insert: used to detect ascending inserts.
        last: AtomicU32,
        level: u32,
        slots: u32,
        unused: [u32; 7],
    }
}

/// A node, ready to be read.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) at: At<NodeHead>,
    head: &'a NodeHead,
    heads: &'a [AtomicU64],
    keys: &'a [AtomicAt<RecordHead>],
    /// Empty in leaves.
    children: &'a [AtomicAt<NodeHead>],
}

const fn heads_start() -> usize {
    size_of::<NodeHead>().next_multiple_of(align_of::<AtomicU64>())
}

const fn keys_start(slots: usize) -> usize {
    (heads_start() + slots * size_of::<AtomicU64>())
        .next_multiple_of(align_of::<AtomicAt<RecordHead>>())
}

const fn children_start(slots: usize) -> usize {
    keys_start(slots) + slots * size_of::<AtomicAt<RecordHead>>()
}

const fn node_bytes(level: u32, slots: usize) -> usize {
    let children = if level == 0 { 0 } else { slots };
    children_start(slots) + children * size_of::<AtomicAt<NodeHead>>()
}

/// Bytes of a leaf that a search touches.
pub(super) const LEAF_BYTES: usize = node_bytes(0, SLOTS);

/// Places an empty node.
pub(super) fn place_node(writer: &mut Writer<'_>, level: u32, slots: usize) -> At<NodeHead> {
    debug_assert!(level == 0 || slots == SLOTS);
    let head = NodeHead {
        lock: OptimisticLock::new(),
        count: AtomicU32::new(0),
        skip: AtomicU32::new(0),
        low: AtomicAt::empty(),
        high: AtomicAt::empty(),
        last: AtomicU32::new(0),
        level,
        slots: slots as u32,
        unused: [0; 7],
    };
    let bytes = node_bytes(level, slots);
    // SAFETY: the three arrays (two in leaves) are written in full; they follow the head and each
    // other without gaps, because every part's size is a multiple of the next one's alignment (the
    // model checker's types may leave gaps; its frames are wiped on return).
    unsafe {
        writer.place_with(head, bytes, |base| {
            for slot in 0..slots {
                base.add(heads_start()).cast::<AtomicU64>().add(slot).write(AtomicU64::new(0));
                base.add(keys_start(slots))
                    .cast::<AtomicAt<RecordHead>>()
                    .add(slot)
                    .write(AtomicAt::empty());
                if level > 0 {
                    base.add(children_start(slots))
                        .cast::<AtomicAt<NodeHead>>()
                        .add(slot)
                        .write(AtomicAt::empty());
                }
            }
        })
    }
}

/// The node at an address.
#[inline]
pub(super) fn node(arena: &Arena, at: At<NodeHead>) -> Node<'_> {
    let head = arena.get(at);
    let base = arena.raw(at);
    let slots = head.slots as usize;
    // SAFETY: only `place_node` places node heads, followed by these arrays, which are initialised
    // before the address becomes known; they change only as atomics; level and slots never change
    // (5).
    unsafe {
        Node {
            at,
            head,
            heads: slice::from_raw_parts(base.add(heads_start()).cast(), slots),
            keys: slice::from_raw_parts(base.add(keys_start(slots)).cast(), slots),
            children: slice::from_raw_parts(
                base.add(children_start(slots)).cast(),
                if head.level == 0 { 0 } else { slots },
            ),
        }
    }
}

/// Eight key bytes after `skip`, as a number that orders like them.
#[inline]
fn key_head(key: &[u8], skip: usize) -> u64 {
    let rest = key.get(skip..).unwrap_or(&[]);
    match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The place of a key in a node: where it is, or where it belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Position {
    /// First slot whose key is not below the searched one.
    pub(super) slot: usize,
    /// True if that slot has the key itself.
    pub(super) found: bool,
}

impl<'a> Node<'a> {
    #[inline]
    pub(super) fn lock(&self) -> &'a OptimisticLock {
        &self.head.lock
    }

    #[inline]
    pub(super) fn level(&self) -> u32 {
        self.head.level
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        (self.head.count.load(Ordering::Relaxed) as usize).min(self.heads.len())
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count() == self.heads.len()
    }

    /// True for a tree's small first leaf.
    pub(super) fn is_small(&self) -> bool {
        self.heads.len() < SLOTS
    }

    /// Least key that belongs here; `None`: no bound.
    pub(super) fn low(&self) -> Option<At<RecordHead>> {
        self.head.low.load()
    }

    /// Least key above all keys that belong here; `None`: no bound.
    pub(super) fn high(&self) -> Option<At<RecordHead>> {
        self.head.high.load()
    }

    /// Record of a slot.
    #[inline]
    pub(super) fn key(&self, slot: usize) -> Option<At<RecordHead>> {
        self.keys.get(slot)?.load()
    }

    /// Searches a key in a leaf, or among the separators of an inner node.
    #[inline]
    pub(super) fn search(&self, arena: &Arena, key: &[u8]) -> Position {
        let first = usize::from(self.head.level > 0);
        let count = self.count();
        let wanted = key_head(key, self.head.skip.load(Ordering::Relaxed) as usize);
        let heads = self.heads;
        let (mut base, mut len) = (first, count.saturating_sub(first));
        while len > 1 {
            let half = len / 2;
            let below = heads[base + half - 1].load(Ordering::Relaxed) < wanted;
            base += std::hint::select_unpredictable(below, half, 0);
            len -= half;
        }
        if len == 1 && heads[base].load(Ordering::Relaxed) < wanted {
            base += 1;
        }
        if base < count && heads[base].load(Ordering::Relaxed) == wanted {
            return self.search_ties(arena, key, wanted, base, count);
        }
        Position { slot: base, found: false }
    }

    /// Continues a search among the slots from `low` on whose heads equal the key's.
    fn search_ties(
        &self,
        arena: &Arena,
        key: &[u8],
        wanted: u64,
        mut low: usize,
        count: usize,
    ) -> Position {
        let tied = |slot: usize| self.heads[slot].load(Ordering::Relaxed) == wanted;
        // An outermost node has no common prefix to skip, so all its heads may be equal. Ascending
        // keys are inserted at its end.
        if let Some(last) = count.checked_sub(1)
            && tied(last)
            && let Some(at) = self.key(last)
            && arena.record(at).key() < key
        {
            return Position { slot: count, found: false };
        }
        // Ties that are not yet known lie below `high`: the step doubles from the first one.
        let mut step = 1;
        while low + step < count && tied(low + step) {
            step *= 2;
        }
        let mut high = (low + step).min(count);
        while low < high {
            let middle = low.midpoint(high);
            let order = match self.key(middle) {
                _ if !tied(middle) => cmp::Ordering::Greater,
                Some(at) => arena.record(at).key().cmp(key),
                None => cmp::Ordering::Less, // torn: the caller will not validate
            };
            match order {
                cmp::Ordering::Less => low = middle + 1,
                cmp::Ordering::Equal => return Position { slot: middle, found: true },
                cmp::Ordering::Greater => high = middle,
            }
        }
        Position { slot: low, found: false }
    }

    /// The slot of an inner node whose child has the key.
    #[inline]
    pub(super) fn child_slot_for(&self, arena: &Arena, key: &[u8]) -> usize {
        let at = self.search(arena, key);
        if at.found { at.slot } else { at.slot.saturating_sub(1) }
    }

    /// Returns the slot of an inner node whose child has the key, which belongs to the given slot
    /// or a later one, probably a near one.
    #[inline]
    pub(super) fn child_slot_from(&self, arena: &Arena, key: &[u8], slot: usize) -> usize {
        let wanted = key_head(key, self.head.skip.load(Ordering::Relaxed) as usize);
        let later = self.heads.get(slot + 1..self.count()).unwrap_or(&[]);
        let mut near = later.iter().take(NEAR_SLOTS).enumerate();
        match near.find(|(_, head)| head.load(Ordering::Relaxed) >= wanted) {
            Some((passed, head)) if head.load(Ordering::Relaxed) > wanted => slot + passed,
            None if later.len() <= NEAR_SLOTS => slot + later.len(),
            _ => self.child_slot_for(arena, key),
        }
    }

    /// The slot of an inner node whose child has the greatest keys below this one.
    pub(super) fn child_slot_below(&self, arena: &Arena, key: &[u8]) -> usize {
        self.search(arena, key).slot.saturating_sub(1)
    }

    #[inline]
    pub(super) fn child(&self, slot: usize) -> Option<At<NodeHead>> {
        self.children.get(slot)?.load()
    }

    /// Inserts a record into a slot, and in an inner node also the child whose keys start with it.
    /// Under the lock; the node is not full.
    pub(super) fn insert(
        &self,
        arena: &Arena,
        slot: usize,
        record: At<RecordHead>,
        child: Option<At<NodeHead>>,
    ) {
        let count = self.count();
        debug_assert!(slot <= count && count < self.heads.len());
        let skip = self.head.skip.load(Ordering::Relaxed) as usize;
        for pair in self.heads[slot..=count].windows(2).rev() {
            pair[1].store(pair[0].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for pair in self.keys[slot..=count].windows(2).rev() {
            pair[1].store(pair[0].load());
        }
        self.heads[slot].store(key_head(arena.record(record).key(), skip), Ordering::Relaxed);
        self.keys[slot].store(Some(record));
        if child.is_some() {
            for pair in self.children[slot..=count].windows(2).rev() {
                pair[1].store(pair[0].load());
            }
            self.children[slot].store(child);
        }
        self.head.count.store(count as u32 + 1, Ordering::Relaxed);
        self.head.last.store(slot as u32, Ordering::Relaxed);
    }

    /// Turns a fresh inner node, which is not yet shared, into the root over two nodes.
    pub(super) fn become_root(
        &self,
        arena: &Arena,
        left: At<NodeHead>,
        separator: At<RecordHead>,
        right: At<NodeHead>,
    ) {
        self.children[0].store(Some(left));
        self.head.count.store(1, Ordering::Relaxed);
        self.insert(arena, 1, separator, Some(right));
    }

    /// Copies everything into a fresh, larger node that is not yet shared. Under the lock.
    pub(super) fn copy_to(&self, larger: &Node<'_>) {
        self.move_slots(0, larger);
        for (from, to) in [(&self.head.low, &larger.head.low), (&self.head.high, &larger.head.high)]
        {
            to.store(from.load());
        }
        larger.head.last.store(self.head.last.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn move_slots(&self, from: usize, to: &Node<'_>) {
        let count = self.count();
        for (place, slot) in (from..count).enumerate() {
            let head = self.heads[slot].load(Ordering::Relaxed);
            to.heads[place].store(head, Ordering::Relaxed);
            to.keys[place].store(self.keys[slot].load());
            if let Some(child) = self.child(slot) {
                to.children[place].store(Some(child));
            }
        }
        to.head.count.store((count - from) as u32, Ordering::Relaxed);
        to.head.skip.store(self.head.skip.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns where to cut a full node when the next insert goes to `slot`: in the middle, but at
    /// the slot itself when inserts ascend, so that the left node stays full.
    pub(super) fn cut_for(&self, slot: usize) -> usize {
        let count = self.count();
        let ascends = slot == self.head.last.load(Ordering::Relaxed) as usize + 1;
        let least = if self.level() == 0 { count / 2 } else { (count / 2).max(1) };
        if ascends && slot >= least {
            // An inner node keeps a child on either side.
            if self.level() == 0 { slot } else { slot.min(count - 1) }
        } else {
            count / 2
        }
    }

    /// Moves the slots from `cut` on to `right`, which is fresh and not yet shared. Under the lock.
    /// `separator` is the least key of the right half: the record of slot `cut`, or one that is
    /// about to be inserted there.
    pub(super) fn split_to(
        &self,
        arena: &Arena,
        right: &Node<'_>,
        cut: usize,
        separator: At<RecordHead>,
    ) {
        self.move_slots(cut, right);
        right.head.low.store(Some(separator));
        right.head.high.store(self.high());
        self.head.high.store(Some(separator));
        self.head.count.store(cut as u32, Ordering::Relaxed);
        let last = self.head.last.load(Ordering::Relaxed) as usize;
        if last >= cut {
            right.head.last.store((last - cut) as u32, Ordering::Relaxed);
            self.head.last.store(SLOTS as u32, Ordering::Relaxed);
        } else {
            right.head.last.store(SLOTS as u32, Ordering::Relaxed);
        }
        self.lengthen_skip(arena);
        right.lengthen_skip(arena);
    }

    /// Adopts the fences' common prefix if the heads no longer distinguish keys well. Under the
    /// lock, or before the node is shared.
    fn lengthen_skip(&self, arena: &Arena) {
        let (Some(low), Some(high)) = (self.low(), self.high()) else { return };
        let skip = self.head.skip.load(Ordering::Relaxed) as usize;
        let [low, high] = [low, high].map(|at| arena.record(at).key());
        if (key_head(low, skip) ^ key_head(high, skip)).leading_zeros() < 64 - HEAD_BITS_WANTED {
            return;
        }
        let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
        self.head.skip.store(common as u32, Ordering::Relaxed);
        for slot in 0..self.count() {
            if let Some(at) = self.key(slot) {
                let head = key_head(arena.record(at).key(), common);
                self.heads[slot].store(head, Ordering::Relaxed);
            }
        }
    }
}
