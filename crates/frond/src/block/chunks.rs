//! Decoded chunks: the output of the codecs for the columns of a block. They are decoded where the
//! block is checked, and passed to its next reader, which then need not decode them again.
//!
//! Invariants
//! 1. All chunks were decoded from one block, by columns of its directory; they are used to read
//!    that block and no other ([`Position::enter`](super::Position::enter),
//!    [`clear`](Chunks::clear)).

/// Decoded bytes by column of the directory; empty where nothing was decoded.
#[derive(Clone, Debug, Default)]
pub struct Chunks(Vec<Vec<u8>>);

impl Chunks {
    /// What is known of column `at`: to be read, or filled by the code that decodes it.
    #[inline]
    pub(super) fn of(&mut self, at: usize) -> &mut Vec<u8> {
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Vec::new);
        }
        &mut self.0[at]
    }

    /// Removes all chunks, but keeps the memory.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }

    /// True if no column was decoded.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }
}
