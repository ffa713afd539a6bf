//! The rows of `txn`, and the record of what each must hold.
//!
//! Invariants
//! 1. A row's value is its state and 92 bytes that depend on the row's number and the version. So a
//!    client that reads a row knows its state, and whether its bytes are right.
//! 2. The client that changes a row records its state before the commit and while it holds the
//!    row's lock. So whenever no client holds the lock, the store holds what is recorded.
//!
//! Threads: all.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::Random;
use crate::schema::Checksum;

/// Bytes of a key.
pub const KEY_BYTES: usize = 8;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
const STATE_BYTES: usize = 8;

/// The state of a row: its payload's version, and a number that transactions increment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Version of the payload.
    pub version: u16,
    /// Number that transactions count with.
    pub number: u32,
}

/// Bit that is set in the word of a row that is present.
const PRESENT: u64 = 1 << 63;

impl State {
    fn word(self) -> u64 {
        PRESENT | u64::from(self.version) << 32 | u64::from(self.number)
    }

    fn of_word(word: u64) -> Option<Self> {
        let state = Self { version: (word >> 32) as u16, number: word as u32 };
        (word == state.word()).then_some(state)
    }
}

/// Returns the key of a row.
pub fn key(row: u64) -> [u8; KEY_BYTES] {
    row.to_be_bytes()
}

/// Writes a row's value (Invariant 1). Its payload is repeated, so that it compresses to about
/// half, as db_bench's values do.
pub fn write_value(row: u64, state: State, value: &mut Vec<u8>) {
    value.resize(VALUE_BYTES, 0);
    let (head, payload) = value.split_at_mut(STATE_BYTES);
    head.copy_from_slice(&state.word().to_be_bytes());
    let (first, second) = payload.split_at_mut(payload.len() / 2);
    Random::new(row.wrapping_mul(1 << 16) | u64::from(state.version)).fill(first);
    second.copy_from_slice(first);
}

/// Returns the state that a value contains.
pub fn state_of(value: &[u8]) -> Option<State> {
    let (head, _) = value.split_at_checked(STATE_BYTES)?;
    State::of_word(u64::from_be_bytes(head.try_into().ok()?))
}

/// The states of all loaded rows, and the number of added rows.
pub struct Rows {
    states: Vec<AtomicU64>,
    added: AtomicU64,
}

/// State of rows that clients add.
pub const ADDED: State = State { version: 1, number: 0 };
/// State of rows when they are loaded.
pub const LOADED: State = State { version: 0, number: 1 };

impl Rows {
    /// Creates the record of `count` rows that are absent so far.
    pub fn new(count: u64) -> Self {
        Self { states: (0..count).map(|_| AtomicU64::new(0)).collect(), added: AtomicU64::new(0) }
    }

    /// Number of loaded rows.
    pub fn loaded(&self) -> u64 {
        self.states.len() as u64
    }

    /// Returns what a row must be; `None` if it must be absent.
    pub fn state(&self, row: u64) -> Option<State> {
        State::of_word(self.states.get(row as usize)?.load(Ordering::Relaxed))
    }

    /// Records what a row becomes (Invariant 2).
    pub fn set(&self, row: u64, state: Option<State>) {
        if let Some(word) = self.states.get(row as usize) {
            word.store(state.map_or(0, State::word), Ordering::Relaxed);
        }
    }

    /// Returns the number of a new row, which no other client gets.
    pub fn add(&self) -> u64 {
        self.loaded() + self.added.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the checksum of the rows that must be present.
    pub fn sum(&self) -> Checksum {
        let (mut sum, mut value) = (Checksum::default(), Vec::new());
        let loaded = (0..self.loaded()).filter_map(|row| Some((row, self.state(row)?)));
        let added = self.loaded()..self.loaded() + self.added.load(Ordering::Relaxed);
        for (row, state) in loaded.chain(added.map(|row| (row, ADDED))) {
            write_value(row, state, &mut value);
            sum.add(&key(row), &value);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_records_the_state_it_was_written_with() {
        let mut value = Vec::new();
        for state in [LOADED, ADDED, State { version: u16::MAX, number: u32::MAX }] {
            write_value(7, state, &mut value);
            assert_eq!((value.len(), state_of(&value)), (VALUE_BYTES, Some(state)));
        }
        assert_eq!(state_of(&[]), None);
        assert_eq!(state_of(&[0; VALUE_BYTES]), None, "no row is all zeros");
    }

    #[test]
    fn the_row_sum_covers_loaded_and_added_rows() {
        let rows = Rows::new(3);
        (0..3).for_each(|row| rows.set(row, Some(LOADED)));
        let all = rows.sum();
        rows.set(1, None);
        assert_eq!((all.rows, rows.sum().rows), (3, 2));
        assert_eq!((rows.add(), rows.add()), (3, 4));
        assert_eq!(rows.sum().rows, 4);
        rows.set(1, Some(LOADED));
        assert_ne!(rows.sum(), all);
    }
}
