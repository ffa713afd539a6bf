//! Memory of a dropped vector, kept for the next vector of the same thread.
//!
//! A short scan decodes one vector: allocating and freeing its memory would take as long as
//! decoding a third of its rows.
//!
//! Invariants
//! 1. A thread keeps at most [`KEPT_BYTES_MAX`].
//!
//! Threads: each has its own.

use std::cell::Cell;

use crate::message::Tag;

/// A hundred rows of two hundred bytes. There are many threads, and this does not count as the
/// store's memory.
const KEPT_BYTES_MAX: usize = 32 << 10;

/// Buffers that vectors reuse.
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
    /// The memory of this thread's last vector, or empty buffers.
    pub fn take() -> Self {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Keeps the memory for the next vector.
    pub fn leave(self) {
        let words = self.tags.capacity() * size_of::<(Tag, bool)>() + self.words.capacity() * 8;
        let bytes = self.keys.capacity() + self.values.capacity() + words;
        if (1..=KEPT_BYTES_MAX).contains(&bytes) {
            // A thread that is ending keeps nothing.
            let _ = SPARE.try_with(|spare| spare.set(Some(self)));
        }
    }
}
