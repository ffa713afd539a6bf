//! An ordered view of one tree's keys in a write set (Rule: I45).
//!
//! It is made when the tree is first scanned inside its transaction, and kept up to date from then
//! on: each key enters once, with its first entry. The keys are in a list of pieces of at most
//! [`PIECE_MAX`] keys: a key is found by two binary searches, and inserted by moving half a piece.
//!
//! Invariants
//! 1. Keys ascend strictly over all pieces; no piece is empty.
//! 2. A place names the first entry of its key, which is still in the write set's arena.
//!
//! Threads: one. Cost: 16 bytes per key.

use std::cmp::Ordering;

use crate::{run::head, txn::WriteSet};

/// Keys per piece, 4 KiB. If keys are inserted at random, half a piece is moved for each; if they
/// ascend, nothing.
const PIECE_MAX: usize = 256;

/// The place of a key. Keys are compared by their heads first, then in full.
#[derive(Clone, Copy, Debug)]
struct Place {
    head: u64,
    first: u32,
}

/// A position in a view, possibly after its end. Valid until the view changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct At {
    piece: usize,
    index: usize,
}

#[derive(Debug, Default)]
pub(super) struct View {
    pieces: Vec<Vec<Place>>,
    steps: Steps,
}

/// Number of comparisons, moves and copies, for a test of the cost.
#[derive(Debug, Default)]
struct Steps {
    #[cfg(test)]
    count: std::cell::Cell<u64>,
}

impl View {
    /// A view of keys, each given by its first entry, in any order.
    pub fn new(set: &WriteSet, firsts: impl Iterator<Item = u32>) -> Self {
        let mut places: Vec<Place> =
            firsts.map(|first| Place { head: head(set.key_at(first), 0), first }).collect();
        places.sort_unstable_by(|a, b| compare(set, a, (b.head, set.key_at(b.first))));
        let view = Self {
            pieces: places.chunks(PIECE_MAX).map(<[Place]>::to_vec).collect(),
            steps: Steps::default(),
        };
        view.count(places.len());
        view
    }

    /// Adds a key that is not in the view.
    pub fn insert(&mut self, set: &WriteSet, first: u32) {
        let key = set.key_at(first);
        let place = Place { head: head(key, 0), first };
        let At { mut piece, mut index } = self.seek(set, key);
        // Append to the end of a piece rather than insert at the start of the next one.
        if index == 0 && piece > 0 {
            piece -= 1;
            index = self.pieces[piece].len();
        }
        let is_last = piece + 1 >= self.pieces.len();
        let Some(into) = self.pieces.get_mut(piece) else {
            return self.pieces.push(vec![place]);
        };
        if into.len() < PIECE_MAX {
            into.insert(index, place);
            let moved = into.len() - index;
            return self.count(moved);
        }
        if is_last && index == PIECE_MAX {
            return self.pieces.push(vec![place]);
        }
        let mut right = into.split_off(PIECE_MAX / 2);
        match index.checked_sub(PIECE_MAX / 2) {
            Some(index) => right.insert(index, place),
            None => into.insert(index, place),
        }
        self.pieces.insert(piece + 1, right);
        self.count(PIECE_MAX);
    }

    /// Removes a key.
    pub fn remove(&mut self, set: &WriteSet, first: u32) {
        let At { piece, index } = self.seek(set, set.key_at(first));
        let Some(from) = self.pieces.get_mut(piece) else { return };
        if from.get(index).is_some_and(|place| place.first == first) {
            from.remove(index);
            let moved = from.len() - index;
            if from.is_empty() {
                self.pieces.remove(piece);
            }
            self.count(moved);
        }
    }

    /// The position of the first key that is not below `key`.
    pub fn seek(&self, set: &WriteSet, key: &[u8]) -> At {
        let wanted = (head(key, 0), key);
        let is_below = |place: &Place| {
            self.count(1);
            compare(set, place, wanted) == Ordering::Less
        };
        // The last piece that starts below the key, if any.
        let after = self.pieces.partition_point(|piece| piece.first().is_some_and(is_below));
        let piece = after.saturating_sub(1);
        let index = self.pieces.get(piece).map_or(0, |piece| piece.partition_point(is_below));
        self.normalized(At { piece, index })
    }

    pub fn begin(&self) -> At {
        At { piece: 0, index: 0 }
    }

    pub fn end(&self) -> At {
        At { piece: self.pieces.len(), index: 0 }
    }

    /// The first entry of the key at a position; `None` after the end.
    pub fn first(&self, At { piece, index }: At) -> Option<u32> {
        self.count(1);
        self.pieces.get(piece)?.get(index).map(|place| place.first)
    }

    pub fn next(&self, At { piece, index }: At) -> At {
        self.normalized(At { piece, index: index + 1 })
    }

    pub fn previous(&self, At { piece, index }: At) -> Option<At> {
        if let Some(index) = index.checked_sub(1) {
            return Some(At { piece, index });
        }
        let piece = piece.checked_sub(1)?;
        Some(At { piece, index: self.pieces.get(piece)?.len() - 1 })
    }

    /// Number of keys from one position up to another, exclusive.
    pub fn keys_between(&self, from: At, to: At) -> usize {
        if to.piece < from.piece {
            return 0;
        }
        let whole = self.pieces.get(from.piece..to.piece).unwrap_or_default();
        whole.iter().map(Vec::len).sum::<usize>() + to.index.saturating_sub(from.index)
    }

    /// Memory used, bytes.
    pub fn bytes(&self) -> usize {
        let places: usize = self.pieces.iter().map(Vec::capacity).sum();
        places * size_of::<Place>() + self.pieces.capacity() * size_of::<Vec<Place>>()
    }

    /// Normalizes a position: the start of the next piece rather than the end of one.
    fn normalized(&self, at: At) -> At {
        match self.pieces.get(at.piece) {
            Some(piece) if at.index >= piece.len() => At { piece: at.piece + 1, index: 0 },
            _ => at,
        }
    }

    #[inline]
    fn count(&self, steps: usize) {
        self.steps.add(steps);
    }

    #[cfg(all(test, not(shuttle)))]
    pub fn steps(&self) -> u64 {
        self.steps.count.get()
    }
}

impl Steps {
    #[cfg(test)]
    fn add(&self, steps: usize) {
        self.count.set(self.count.get() + steps as u64);
    }

    #[cfg(not(test))]
    #[inline]
    fn add(&self, _: usize) {}
}

#[inline]
fn compare(set: &WriteSet, place: &Place, (head, key): (u64, &[u8])) -> Ordering {
    place.head.cmp(&head).then_with(|| set.key_at(place.first).cmp(key))
}
