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
//! Invariants
//! 1. Entries are numbered as they come. Only the last one is taken back, and then everything is as it
//!    was before it (Rule: I44).
//! 2. A key has one place in the index, from its first entry on.
//!
//! Threads: one. Cost: 12 bytes an entry, and about 10 a key.

use hashbrown::{HashTable, hash_table};

/// A key's place in the index.
#[derive(Clone, Copy, Debug)]
struct Place {
    hash: u32,
    first: u32,
}

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

/// Entries by key.
#[derive(Debug, Default)]
pub(super) struct Chains {
    index: HashTable<Place>,
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
    pub fn push(&mut self, hash: u64, rows: i8, is_same: impl Fn(u32) -> bool) -> bool {
        let (hash, slot) = (short(hash), self.links.len() as u32);
        let is_place = |place: &Place| place.hash == hash && is_same(place.first);
        let found = self.index.entry(spread(hash), is_place, |place| spread(place.hash));
        let (to, is_first) = match found {
            hash_table::Entry::Occupied(place) => {
                let newest = &mut self.links[place.get().first as usize].to;
                (std::mem::replace(newest, slot), false)
            }
            hash_table::Entry::Vacant(place) => {
                place.insert(Place { hash, first: slot });
                (slot, true)
            }
        };
        self.links.push(Link { to, hash, rows, is_first });
        is_first
    }

    /// The first entry of a key.
    #[inline]
    pub fn first(&self, hash: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = short(hash);
        let is_place = |place: &Place| place.hash == hash && is_same(place.first);
        self.index.find(spread(hash), is_place).map(|place| place.first)
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

    /// Takes the last entry back.
    pub fn pop(&mut self, is_same: impl Fn(u32) -> bool) -> Option<Undone> {
        let Link { to, hash, rows, is_first } = self.links.pop()?;
        let slot = self.links.len() as u32;
        let undone = Undone { was_first: is_first, rows };
        if plant!("txn: a rollback keeps the index") {
            return Some(undone);
        }
        let is_place = |place: &Place| {
            place.hash == hash && if is_first { place.first == slot } else { is_same(place.first) }
        };
        if let Ok(place) = self.index.find_entry(spread(hash), is_place) {
            match is_first {
                true => drop(place.remove()),
                false => self.links[place.get().first as usize].to = to,
            }
        }
        Some(undone)
    }

    /// Forgets all entries and keeps at most `bytes_max` of memory. What a table of many places costs
    /// to empty, a set of few entries does not pay.
    pub fn clear(&mut self, bytes_max: usize) {
        if self.index.capacity() / 16 <= self.links.len() {
            self.index.clear();
        } else {
            for slot in (0..self.links.len() as u32).rev() {
                let Link { hash, is_first, .. } = self.links[slot as usize];
                let is_place = |place: &Place| place.first == slot;
                if is_first && let Ok(place) = self.index.find_entry(spread(hash), is_place) {
                    place.remove();
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
        self.index.allocation_size() + self.links.capacity() * size_of::<Link>()
    }
}

/// 32 bits of a hash tell keys apart well enough before they are compared.
#[inline]
fn short(hash: u64) -> u32 {
    (hash >> 32) as u32 ^ hash as u32
}

/// The table looks at both ends of 64 bits: an odd factor brings all of 32 into both.
#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
