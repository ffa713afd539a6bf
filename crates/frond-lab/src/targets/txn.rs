//! Transactions of many calls, for the stores that have them.
//!
//! Invariants
//! 1. From `begin` to `commit` or `rollback` all calls are of one transaction, which others see whole or not at all.
//! 2. A row that was read for an update, put or deleted is nobody else's to write until the transaction ends.
//! 3. A [`Stop::Conflict`] leaves a transaction that can only be rolled back.
//!
//! Threads: one each.

use super::{Durability, Failure, Result, Visit};

/// What a transaction is going to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// One call that reads: a store may do without a transaction around it.
    ReadOnce,
    /// Reads at one moment.
    Read,
    /// Reads and writes.
    Write,
}

/// Why a call of a transaction failed.
#[derive(Debug)]
pub enum Stop {
    /// Others were in its way: it is to be rolled back and done again.
    Conflict,
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Result of a call that others may be in the way of.
pub type Attempt<T> = std::result::Result<T, Stop>;

/// Who will run transactions beside each other.
#[derive(Clone, Copy, Debug)]
pub struct Clients {
    /// How many there are: memory that each has for itself is so many times less.
    pub count: u64,
    /// When their commits are acknowledged.
    pub durability: Durability,
}

/// One thread's transactions, one after the other, on the keyspace of rows.
pub trait Transactions {
    /// Begins one.
    fn begin(&mut self, what: Begin) -> Attempt<()>;
    /// Reads a value into `value` without a lock; false if the key is absent.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool>;
    /// Locks a row and reads its newest value; false if the key is absent.
    fn get_for_update(&mut self, key: &[u8], value: &mut Vec<u8>) -> Attempt<bool>;
    /// Sets a value.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Attempt<()>;
    /// Deletes a key.
    fn delete(&mut self, key: &[u8]) -> Attempt<()>;
    /// Reads the rows of `[from, to)` in order, without locks.
    fn list(&mut self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Attempt<()>;
    /// Commits it.
    fn commit(&mut self) -> Attempt<()>;
    /// Takes it back, if there is one.
    fn rollback(&mut self) -> Result<()>;
}

/// A moment of the store that stays readable until this is dropped.
pub trait HeldSnapshot {
    /// Reads a value of that moment into `value`; false if the key was absent.
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;
}
