//! Strings side by side in memory: the input of encoders and the output of decoders.

/// A list of byte strings in one buffer. Reusable: [`clear`](Strings::clear) keeps the memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Strings {
    bytes: Vec<u8>,
    /// End of each string.
    ends: Vec<u32>,
}

impl Strings {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all strings, one after the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// End of each string in [`bytes`](Strings::bytes).
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Appends a string.
    ///
    /// # Panics
    /// If there are then more than 4 GiB: blocks end long before.
    #[inline]
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.end();
    }

    /// Appends the string that `write` appends to the bytes.
    #[inline]
    pub fn push_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.bytes.len();
        let written = write(&mut self.bytes);
        match written {
            Ok(()) => self.end(),
            Err(_) => self.bytes.truncate(before),
        }
        written
    }

    /// Appends `count` strings of `bytes` bytes each, which `write` writes over zeros.
    pub fn push_alike<E>(
        &mut self,
        count: usize,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let before = self.bytes.len();
        self.bytes.resize(before + count * bytes, 0);
        let written = write(&mut self.bytes[before..]);
        match written {
            Ok(()) => {
                let all =
                    u32::try_from(self.bytes.len()).expect("a block's strings are below 4 GiB");
                let end = |index: usize| all - ((count - 1 - index) * bytes) as u32;
                self.ends.extend((0..count).map(end));
            }
            Err(_) => self.bytes.truncate(before),
        }
        written
    }

    #[inline]
    fn end(&mut self) {
        self.ends.push(u32::try_from(self.bytes.len()).expect("a block's strings are below 4 GiB"));
    }

    /// String `index`; empty if there is none.
    #[inline]
    pub fn get(&self, index: usize) -> &[u8] {
        let start =
            index.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |&at| at);
        self.ends.get(index).map_or(&[], |&end| &self.bytes[start as usize..end as usize])
    }

    /// All strings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// True if no string is below its predecessor.
    pub fn ascends(&self) -> bool {
        (1..self.len()).all(|index| self.get(index - 1) <= self.get(index))
    }

    /// Removes the strings, but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Appends all strings of `other`.
    pub fn extend(&mut self, other: &Strings) {
        other.iter().for_each(|string| self.push(string));
    }
}

impl<'a> FromIterator<&'a [u8]> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(strings: I) -> Self {
        let mut all = Strings::new();
        strings.into_iter().for_each(|string| all.push(string));
        all
    }
}

/// Compares two short strings for equality: a call to a comparison function costs more.
#[inline]
pub fn equal_short(a: &[u8], b: &[u8]) -> bool {
    let ((eights, rest), (others, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let ends = match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        // The last eight bytes, some of which were compared already.
        (Some(a), Some(b)) => a == b,
        _ => rest == b,
    };
    a.len() == b.len() && ends && eights.iter().eq(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_strings_are_equal_if_all_bytes_are() {
        let a: Vec<u8> = (0..40).collect();
        for len in 0..a.len() {
            assert!(equal_short(&a[..len], &a.clone()[..len]));
            for other in 0..a.len() {
                assert_eq!(equal_short(&a[..len], &a[..other]), len == other);
            }
            for at in 0..len {
                let mut b = a.clone();
                b[at] ^= 1;
                assert!(!equal_short(&a[..len], &b[..len]), "byte {at} of {len}");
            }
        }
    }
}
