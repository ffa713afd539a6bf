//! Generator of the keys and values of db_bench.
//!
//! Invariants
//! 1. A key is an 8-byte big-endian number padded with '0'. An absent key differs in its last byte,
//!    so it lies between existing keys.
//! 2. A value depends only on (key, version). Every 100 bytes of it are 50 random bytes repeated,
//!    so it compresses to half, and no value repeats another.

use crate::random::Random;

/// Sizes of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// 16-byte keys, 100-byte values: the tool's defaults.
    Classic,
    /// 20-byte keys, 400-byte values: its benchmark script.
    Script,
}

impl Shape {
    /// Bytes of a key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Classic => 16,
            Self::Script => 20,
        }
    }

    /// Bytes of a value.
    pub fn value_bytes(self) -> usize {
        match self {
            Self::Classic => 100,
            Self::Script => 400,
        }
    }

    /// Writes the key of a number (Invariant 1).
    pub fn key(self, number: u64, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&number.to_be_bytes());
        out.resize(self.key_bytes(), b'0');
    }

    /// Writes an absent key, which lies right after the key of this number (Invariant 1).
    pub fn absent_key(self, number: u64, out: &mut Vec<u8>) {
        self.key(number, out);
        if let Some(last) = out.last_mut() {
            *last = b'1';
        }
    }

    /// Writes the value of a number and version (Invariant 2). Numbers are below 2^56.
    pub fn value(self, number: u64, version: u8, out: &mut Vec<u8>) {
        let mut random = Random::new(number << 8 | u64::from(version));
        out.resize(self.value_bytes(), 0);
        for fragment in out.chunks_exact_mut(100) {
            let (first, second) = fragment.split_at_mut(50);
            random.fill(first);
            second.copy_from_slice(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_key_and_version_and_repeat_their_content() {
        for shape in [Shape::Classic, Shape::Script] {
            let make = |number, version| {
                let mut value = Vec::new();
                shape.value(number, version, &mut value);
                value
            };
            let value = make(7, 0);
            assert_eq!(value.len(), shape.value_bytes());
            assert!(value.chunks(100).all(|part| part[..50] == part[50..]));
            if shape == Shape::Script {
                assert_ne!(value[..50], value[100..150], "fragments differ from each other");
            }
            assert_eq!(value, make(7, 0));
            assert_ne!(value, make(7, 1));
            assert_ne!(value, make(8, 0));
        }
    }

    #[test]
    fn absent_keys_lie_between_existing_ones() {
        let (mut key, mut absent, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for number in [0, 1, 255, 256, 1 << 40] {
            Shape::Script.key(number, &mut key);
            Shape::Script.absent_key(number, &mut absent);
            Shape::Script.key(number + 1, &mut next);
            assert!(key < absent && absent < next && key.len() == 20);
        }
    }
}
