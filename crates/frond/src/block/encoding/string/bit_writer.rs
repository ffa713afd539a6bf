//! Writing numbers of a few bits each, one after the other.

/// Most bits that one call may put.
pub(super) const PUT_BITS_MAX: usize = 56;

/// Writes bits one after the other, low bits first.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    /// Longer than what was written, so that words are written whole.
    bytes: Vec<u8>,
    end: usize,
    /// Bits that are not written yet, fewer than eight.
    word: u64,
    used: usize,
}

impl BitWriter {
    /// Appends the low `count` bits of `value`, which must have no others; at most
    /// [`PUT_BITS_MAX`].
    #[inline]
    pub fn put(&mut self, value: u64, count: usize) {
        debug_assert!(count <= PUT_BITS_MAX && value >> count == 0);
        self.word |= value << self.used;
        self.used += count;
        if self.bytes.len() < self.end + 8 {
            self.bytes.resize((self.end + 8).next_power_of_two().max(1024), 0);
        }
        self.bytes[self.end..self.end + 8].copy_from_slice(&self.word.to_le_bytes());
        let whole = self.used / 8;
        self.end += whole;
        self.word >>= 8 * whole;
        self.used %= 8;
    }

    /// The current position, to return to.
    #[inline]
    pub fn mark(&self) -> (usize, u64, usize) {
        (self.end, self.word, self.used)
    }

    /// Removes what was put since the mark.
    #[inline]
    pub fn reset(&mut self, mark: (usize, u64, usize)) {
        (self.end, self.word, self.used) = mark;
    }

    /// Number of bits.
    pub fn bits(&self) -> usize {
        8 * self.end + self.used
    }

    /// Appends everything to `out` and starts again.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if self.used > 0 {
            self.put(0, 8 - self.used);
        }
        out.extend_from_slice(&self.bytes[..self.end]);
        self.reset((0, 0, 0));
    }
}
