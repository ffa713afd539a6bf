//! The rows of `txn`, and what each must hold.
//!
//! Invariants
//! 1. A row's value is its state and 92 bytes that follow from number and version: who has read a row knows its state,
//!    and whether its bytes are right.
//! 2. A state is noted by the client that changes the row, before the commit and while it has the row's lock: so at
//!    any moment at which nobody has the lock, the store holds what is noted.
//!
//! Threads: all.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::random::Random;
use crate::schema::Checksum;

/// Of a key.
pub const KEY_BYTES: usize = 8;
/// Of a value.
pub const VALUE_BYTES: usize = 100;
const STATE_BYTES: usize = 8;

/// What a row is: its payload's version, and a number that transactions count in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Of the payload.
    pub version: u16,
    /// What is counted.
    pub number: u32,
}

/// A row that is there has this bit in its word.
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

/// The key of a row.
pub fn key(row: u64) -> [u8; KEY_BYTES] {
    row.to_be_bytes()
}

/// Writes a row's value (Invariant 1). Its payload is said twice: it compresses to about a half, as values of db_bench do.
pub fn write_value(row: u64, state: State, value: &mut Vec<u8>) {
    value.resize(VALUE_BYTES, 0);
    let (head, payload) = value.split_at_mut(STATE_BYTES);
    head.copy_from_slice(&state.word().to_be_bytes());
    let (first, second) = payload.split_at_mut(payload.len() / 2);
    Random::new(row.wrapping_mul(1 << 16) | u64::from(state.version)).fill(first);
    second.copy_from_slice(first);
}

/// The state that a value tells.
pub fn state_of(value: &[u8]) -> Option<State> {
    let (head, _) = value.split_at_checked(STATE_BYTES)?;
    State::of_word(u64::from_be_bytes(head.try_into().ok()?))
}

/// The states of all rows that were loaded, and how many were added.
pub struct Rows {
    states: Vec<AtomicU64>,
    added: AtomicU64,
}

/// What rows that clients add are made with.
pub const ADDED: State = State { version: 1, number: 0 };
/// What rows are loaded with.
pub const LOADED: State = State { version: 0, number: 1 };

impl Rows {
    /// So many that are not there yet.
    pub fn new(count: u64) -> Self {
        Self { states: (0..count).map(|_| AtomicU64::new(0)).collect(), added: AtomicU64::new(0) }
    }

    /// Rows that are loaded.
    pub fn loaded(&self) -> u64 {
        self.states.len() as u64
    }

    /// What a row must be; `None` if it must not be there.
    pub fn state(&self, row: u64) -> Option<State> {
        State::of_word(self.states.get(row as usize)?.load(Ordering::Relaxed))
    }

    /// Notes what a row becomes (Invariant 2).
    pub fn set(&self, row: u64, state: Option<State>) {
        if let Some(word) = self.states.get(row as usize) {
            word.store(state.map_or(0, State::word), Ordering::Relaxed);
        }
    }

    /// The number of a row more, which nobody else gets.
    pub fn add(&self) -> u64 {
        self.loaded() + self.added.fetch_add(1, Ordering::Relaxed)
    }

    /// Rows that must be there, and their sum.
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
    fn a_value_tells_the_state_it_was_written_with() {
        let mut value = Vec::new();
        for state in [LOADED, ADDED, State { version: u16::MAX, number: u32::MAX }] {
            write_value(7, state, &mut value);
            assert_eq!((value.len(), state_of(&value)), (VALUE_BYTES, Some(state)));
        }
        assert_eq!(state_of(&[]), None);
        assert_eq!(state_of(&[0; VALUE_BYTES]), None, "no row is all zeros");
    }

    #[test]
    fn rows_are_those_noted_and_those_added() {
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
