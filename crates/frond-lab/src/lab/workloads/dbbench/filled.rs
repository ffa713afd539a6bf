//! A table of db_bench: what it must contain, and the commits that change it.
//!
//! Invariants
//! 1. What a table must contain follows from one byte for each number: the version of its value.
//! 2. A version is recorded when the commit of its put or delete has been acknowledged.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::data::shape::Shape;
use crate::lab::embedded::Worker;
use crate::random::Random;
use crate::schema::{Checksum, Table};
use crate::targets::{Begin, Direction, Result};

/// Version of a key that is absent.
pub const ABSENT: u8 = 0;

/// A table and what it must contain (Invariant 1).
pub struct Filled<'t> {
    pub table: &'t Table,
    /// Version of the value of each number, or [`ABSENT`].
    versions: Vec<AtomicU8>,
    /// Whether every target has the same entries.
    pub is_fixed: bool,
}

impl<'t> Filled<'t> {
    /// A table without entries.
    pub fn new(table: &'t Table, rows: u64) -> Self {
        let versions = (0..rows).map(|_| AtomicU8::new(ABSENT)).collect();
        Self { table, versions, is_fixed: true }
    }

    /// The version of a number.
    pub fn version(&self, number: u64) -> u8 {
        let version = self.versions.get(number as usize);
        version.map_or(ABSENT, |version| version.load(Ordering::Relaxed))
    }

    /// Records the version of a number (Invariant 2).
    pub fn set(&self, number: u64, version: u8) {
        self.versions[number as usize].store(version, Ordering::Relaxed);
    }

    /// Draws a number whose key exists. There must be one.
    pub fn existing(&self, random: &mut Random) -> u64 {
        loop {
            let number = random.below(self.versions.len() as u64);
            if self.version(number) != ABSENT {
                return number;
            }
        }
    }

    /// Number of existing keys from this number on, counted up to `most`.
    pub fn existing_from(&self, number: u64, direction: Direction, most: usize) -> usize {
        let (below, above) = (0..=number, number..self.versions.len() as u64);
        let exists = |number: &u64| self.version(*number) != ABSENT;
        match direction {
            Direction::Forward => above.filter(exists).take(most).count(),
            Direction::Reverse => below.rev().filter(exists).take(most).count(),
        }
    }

    /// Number of existing keys.
    pub fn rows(&self) -> u64 {
        let exists = |version: &&AtomicU8| version.load(Ordering::Relaxed) != ABSENT;
        self.versions.iter().filter(exists).count() as u64
    }

    /// The checksum that the entries must have.
    pub fn expected(&self, shape: Shape) -> Checksum {
        let (mut sum, mut key, mut value) = (Checksum::default(), Vec::new(), Vec::new());
        for number in 0..self.versions.len() as u64 {
            let version = self.version(number);
            if version != ABSENT {
                shape.key(number, &mut key);
                shape.value(number, version, &mut value);
                sum.add(&key, &value);
            }
        }
        sum
    }
}

/// Puts and deletes of one commit, generated before its clock starts.
pub struct Changes {
    shape: Shape,
    /// Numbers and their versions; [`ABSENT`] deletes a key.
    numbers: Vec<(u64, u8)>,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Changes {
    /// No changes yet.
    pub fn new(shape: Shape) -> Self {
        Self { shape, numbers: Vec::new(), entries: Vec::new() }
    }

    /// Adds the put of this version of a number, or its delete.
    pub fn push(&mut self, number: u64, version: u8) {
        let at = self.numbers.len();
        if at == self.entries.len() {
            self.entries.push(Default::default());
        }
        let (key, value) = &mut self.entries[at];
        self.shape.key(number, key);
        if version != ABSENT {
            self.shape.value(number, version, value);
        }
        self.numbers.push((number, version));
    }

    /// Commits the changes as one request of this kind, and records their versions.
    ///
    /// # Errors
    /// Errors of the store.
    pub fn send(
        &mut self,
        worker: &mut Worker<'_>,
        kind: &'static str,
        filled: &Filled<'_>,
    ) -> Result<()> {
        let Self { numbers, entries, .. } = self;
        let mut is_done = false;
        worker.request(kind, numbers.len() as u64, |connection| {
            connection.begin(Begin::Batch)?;
            for ((_, version), (key, value)) in numbers.iter().zip(&*entries) {
                match *version {
                    ABSENT => connection.delete(filled.table.base, key)?,
                    _ => connection.put(filled.table.base, key, value)?,
                }
            }
            connection.commit()?;
            is_done = true;
            Ok(())
        })?;
        for (number, version) in numbers.drain(..).filter(|_| is_done) {
            filled.set(number, version);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_and_a_stale_entry_change_the_expected_sum() {
        let table = Table::raw("fillseq", 20);
        let filled = Filled::new(&table, 100);
        (0..100).for_each(|number| filled.set(number, 1));
        let all = filled.expected(Shape::Script);
        assert_eq!((all.rows, all.bytes), (100, 100 * 420));
        filled.set(7, 2);
        assert_ne!(filled.expected(Shape::Script), all);
        filled.set(7, ABSENT);
        assert_eq!((filled.rows(), filled.expected(Shape::Script).rows), (99, 99));
    }

    #[test]
    fn existing_keys_are_counted_in_either_direction() {
        let table = Table::raw("fillseq", 20);
        let filled = Filled::new(&table, 20);
        (5..15).for_each(|number| filled.set(number, 1));
        let count = |number, direction| filled.existing_from(number, direction, 10);
        assert_eq!((count(0, Direction::Forward), count(12, Direction::Forward)), (10, 3));
        assert_eq!((count(19, Direction::Reverse), count(6, Direction::Reverse)), (10, 2));
        assert_eq!((count(15, Direction::Forward), count(4, Direction::Reverse)), (0, 0));
    }
}
