//! What codecs gave of the columns of a block: made where the block is checked, and handed to whoever reads it next,
//! who need not decode it again.
//!
//! Invariants
//! 1. What is here was decoded of one block, by columns of its directory; that block is read with it and no other
//!    ([`Position::enter`](super::Position::enter), [`clear`](Chunks::clear)).

/// By column of the directory. Empty where nothing was decoded.
#[derive(Clone, Debug, Default)]
pub struct Chunks(Vec<Vec<u8>>);

impl Chunks {
    /// What is known of column `at`: to be read, or filled by who decodes it.
    #[inline]
    pub(super) fn of(&mut self, at: usize) -> &mut Vec<u8> {
        if self.0.len() <= at {
            self.0.resize_with(at + 1, Vec::new);
        }
        &mut self.0[at]
    }

    /// Forgets the block, and keeps the memory.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }

    /// True if no column was decoded.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }
}
