//! Index of a write set's entries by key: a hash index, and links from each entry to the one before
//! it.
//!
//! The index finds the *first* entry of a key, and the first entry links the newest. So a further
//! entry of a known key changes neither the index nor a view, which holds first entries, too: it
//! adds one link, and undoing it removes one.
//!
//! ```text
//! index ─► first ──────────────► newest ─► … ─► second ─► first
//! ```
//!
//! The index of a large transaction is in no CPU cache, so a lookup should touch one cache line:
//! slots of eight bytes, searched by linear probing from the hashed position to the first free one.
//! Only what came last is ever removed, so freed slots need no tombstone.
//!
//! Invariants
//! 1. Entries are numbered in order. Only the last one is removed, and then everything is as it was
//!    before it (Rule: I44).
//! 2. A key has one slot in the index, from its first entry on.
//! 3. From a key's hashed position up to its slot, all slots belong to keys that came before it: so
//!    the key that came last is in no other key's probe path, and its slot may become free.
//!
//! Threads: one. Cost: 12 bytes per entry, and 11 to 21 per key.

/// One entry.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// For a first entry, the newest of its key (itself if it is the only one); for others, the
    /// entry before.
    to: u32,
    hash: u32,
    /// Change of the row count.
    rows: i8,
    is_first: bool,
}

/// Slots of the smallest index: two cache lines.
const PLACES_MIN: usize = 16;

/// Index of first entries by hash.
#[derive(Debug, Default)]
struct Index {
    /// A power of two of slots, or none. 0 is a free slot; otherwise the hash, and the entry's
    /// number plus one.
    places: Vec<u64>,
    keys: usize,
}

impl Index {
    /// The slot of a key by its short hash, or the free slot where the search ends. There must be
    /// free slots.
    #[inline]
    fn find(&self, hash: u32, is_same: impl Fn(u32) -> bool) -> Result<usize, usize> {
        let last = self.places.len() - 1;
        // The upper bits of the product depend on all of the hash.
        let spread = u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut at = ((spread * self.places.len() as u64) >> 32) as usize;
        loop {
            let place = self.places[at];
            if place == 0 {
                return Err(at);
            }
            if (place >> 32) as u32 == hash && is_same(first_of(place)) {
                return Ok(at);
            }
            at = (at + 1) & last;
        }
    }

    /// Makes room for one more key. On growth, keys enter the larger index in their original order
    /// (Invariant 3).
    #[inline]
    fn reserve(&mut self, links: &[Link]) {
        if self.keys * 4 >= self.places.len() * 3 {
            self.grow(links);
        }
    }

    #[cold]
    fn grow(&mut self, links: &[Link]) {
        self.places = vec![0; (2 * self.places.len()).max(PLACES_MIN)];
        for (first, link) in (0..).zip(links) {
            if link.is_first
                && let Err(free) = self.find(link.hash, |_| false)
            {
                self.places[free] = place(link.hash, first);
            }
        }
    }

    /// Removes the key that came last, given by its first entry.
    fn remove(&mut self, hash: u32, first: u32) {
        if let Ok(at) = self.find(hash, |other| other == first) {
            self.places[at] = 0;
            self.keys -= 1;
        }
    }
}

fn place(hash: u32, first: u32) -> u64 {
    u64::from(hash) << 32 | (u64::from(first) + 1)
}

fn first_of(place: u64) -> u32 {
    (place as u32).wrapping_sub(1)
}

/// The entries of a write set by key.
#[derive(Debug, Default)]
pub(super) struct Chains {
    index: Index,
    links: Vec<Link>,
}

/// An entry that was undone.
pub(super) struct Undone {
    /// True if it was the only entry of its key.
    pub was_first: bool,
    pub rows: i8,
}

impl Chains {
    /// Appends an entry; true if it is the first of its key. `is_same` compares its key with that
    /// of a first entry.
    #[inline]
    pub fn push(&mut self, hash: u128, rows: i8, is_same: impl Fn(u32) -> bool) -> bool {
        let (hash, slot) = (short(hash), self.links.len() as u32);
        self.index.reserve(&self.links);
        let (to, is_first) = match self.index.find(hash, is_same) {
            Ok(at) => {
                let first = first_of(self.index.places[at]);
                let newest = &mut self.links[first as usize].to;
                (std::mem::replace(newest, slot), false)
            }
            Err(free) => {
                self.index.places[free] = place(hash, slot);
                self.index.keys += 1;
                (slot, true)
            }
        };
        self.links.push(Link { to, hash, rows, is_first });
        is_first
    }

    /// The first entry of a key.
    #[inline]
    pub fn first(&self, hash: u128, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        if self.links.is_empty() {
            return None;
        }
        self.index.find(short(hash), is_same).ok().map(|at| first_of(self.index.places[at]))
    }

    /// The newest entry of the key that has this first entry.
    #[inline]
    pub fn newest(&self, first: u32) -> u32 {
        self.links[first as usize].to
    }

    /// The previous entry of the same key.
    #[inline]
    pub fn previous(&self, slot: u32) -> Option<u32> {
        let link = self.links[slot as usize];
        (!link.is_first).then_some(link.to)
    }

    pub fn is_first(&self, slot: u32) -> bool {
        self.links[slot as usize].is_first
    }

    /// An entry's change of the row count.
    pub fn rows(&self, slot: u32) -> i8 {
        self.links[slot as usize].rows
    }

    /// Removes the last entry.
    pub fn pop(&mut self, is_same: impl Fn(u32) -> bool) -> Option<Undone> {
        let Link { to, hash, rows, is_first } = self.links.pop()?;
        let slot = self.links.len() as u32;
        let undone = Undone { was_first: is_first, rows };
        if plant!("txn: a rollback keeps the index") {
            return Some(undone);
        }
        if is_first {
            self.index.remove(hash, slot);
        } else if let Ok(at) = self.index.find(hash, is_same) {
            self.links[first_of(self.index.places[at]) as usize].to = to;
        }
        Some(undone)
    }

    /// Clears all entries and keeps at most `bytes_max` of memory. A set of few entries does not
    /// pay for clearing a large table: its slots are emptied one by one.
    pub fn clear(&mut self, bytes_max: usize) {
        if self.index.places.len() / 16 <= self.links.len() {
            self.index.places.fill(0);
            self.index.keys = 0;
        } else {
            for slot in (0..self.links.len() as u32).rev() {
                let Link { hash, is_first, .. } = self.links[slot as usize];
                if is_first {
                    self.index.remove(hash, slot);
                }
            }
        }
        self.links.clear();
        if self.bytes() > bytes_max {
            *self = Self::default();
        }
    }

    /// Memory used, bytes.
    pub fn bytes(&self) -> usize {
        self.index.places.capacity() * size_of::<u64>() + self.links.capacity() * size_of::<Link>()
    }
}

/// 32 bits of a hash: enough to distinguish keys before they are compared.
#[inline]
fn short(hash: u128) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}
