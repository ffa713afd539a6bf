//! Which entries of a write set are of one key: an index by hash, and links from each entry to the one
//! before it.
//!
//! The index knows the *first* entry of a key, and the first one the newest. So an entry more of a known
//! key changes neither the index nor a view, which knows first entries, too: it is one link, and taking it
//! back is one.
//!
//! ```text
//! index ─► first ──────────────► newest ─► … ─► second ─► first
//! ```
//!
//! The index of a large transaction is in no cache, so a look at it is one line of memory as a rule: places of eight
//! bytes, searched from where the hash says to the first that is free. Only what came last is taken back, so places
//! that were used need no mark.
//!
//! Invariants
//! 1. Entries are numbered as they come. Only the last one is taken back, and then everything is as it
//!    was before it (Rule: I44).
//! 2. A key has one place in the index, from its first entry on.
//! 3. From where its hash says up to a key's place, all places are of keys that came before it: so the key that came
//!    last is in nobody's way, and its place may become free.
//!
//! Threads: one. Cost: 12 bytes an entry, and 11 to 21 a key.

/// One entry.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// Of a first entry the newest of its key, itself if there is no other; of others the one before.
    to: u32,
    hash: u32,
    /// By how much it changes the number of rows.
    rows: i8,
    is_first: bool,
}

/// Places of the smallest index: two lines of memory.
const PLACES_MIN: usize = 16;

/// First entries by hash.
#[derive(Debug, Default)]
struct Index {
    /// A power of two of them, or none: 0 is free, else the hash, and one more than the entry's number.
    places: Vec<u64>,
    keys: usize,
}

impl Index {
    /// The place of a key, or the free one where the search for it ends, by its short hash. There are free ones.
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

    /// Makes room for a key more. Those there are enter the larger index in the order in which they came (Invariant 3).
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

    /// Forgets the key that came last, whose first entry this is.
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

/// Entries by key.
#[derive(Debug, Default)]
pub(super) struct Chains {
    index: Index,
    links: Vec<Link>,
}

/// An entry that was taken back.
pub(super) struct Undone {
    /// It was the only one of its key.
    pub was_first: bool,
    pub rows: i8,
}

impl Chains {
    /// Appends an entry; true if it is the first of its key. `is_same` compares its key with that of a
    /// first entry.
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

    /// The newest entry of the key with this first one.
    #[inline]
    pub fn newest(&self, first: u32) -> u32 {
        self.links[first as usize].to
    }

    /// The entry of the same key before this one.
    #[inline]
    pub fn previous(&self, slot: u32) -> Option<u32> {
        let link = self.links[slot as usize];
        (!link.is_first).then_some(link.to)
    }

    pub fn is_first(&self, slot: u32) -> bool {
        self.links[slot as usize].is_first
    }

    /// By how much an entry changes the number of rows.
    pub fn rows(&self, slot: u32) -> i8 {
        self.links[slot as usize].rows
    }

    /// Takes the last entry back.
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

    /// Forgets all entries and keeps at most `bytes_max` of memory. What a table of many places costs
    /// to empty, a set of few entries does not pay.
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

    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        self.index.places.capacity() * size_of::<u64>() + self.links.capacity() * size_of::<Link>()
    }
}

/// 32 bits of a hash tell keys apart well enough before they are compared.
#[inline]
fn short(hash: u128) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}
