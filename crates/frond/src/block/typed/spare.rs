//! Memory of a vector that is gone, kept for the next one of its thread.
//!
//! A short scan decodes one vector: asking for its memory and giving it back would take as long as decoding a
//! third of its rows.
//!
//! Invariants
//! 1. A thread keeps no more than [`KEPT_BYTES_MAX`].
//!
//! Threads: each has its own.

use std::cell::Cell;

use crate::message::Tag;

/// A hundred rows of two hundred bytes. Threads are many, and this is outside of the store's memory.
const KEPT_BYTES_MAX: usize = 32 << 10;

/// What vectors keep from one set of rows to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    pub tags: Vec<(Tag, bool)>,
    pub keys: Vec<u8>,
    pub values: Vec<u8>,
    pub words: Vec<u64>,
}

thread_local! {
    static SPARE: Cell<Option<Memory>> = const { Cell::new(None) };
}

impl Memory {
    /// That of the last vector of this thread, or none.
    pub fn take() -> Self {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Leaves it to the next one.
    pub fn leave(self) {
        let words = self.tags.capacity() * size_of::<(Tag, bool)>() + self.words.capacity() * 8;
        let bytes = self.keys.capacity() + self.values.capacity() + words;
        if (1..=KEPT_BYTES_MAX).contains(&bytes) {
            // A thread that ends keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}
