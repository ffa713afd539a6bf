//! Training of shapes: finds, at each position, the narrowest class that nearly all strings have.

use super::{
    shape::{ANY, CONSTANT, DIGIT, HEX_LOWER, HEX_UPPER, RUN_MAX, Run, SHAPE_BYTES_MAX},
    strings::Strings,
};
use crate::coding::put_varint;

/// Number of strings examined.
const STRINGS_MAX: usize = 1024;

/// Statistics of strings of one length at each position. Stored as arrays, so that many positions
/// of a string are processed at a time.
struct Positions {
    /// The byte that more than half of the strings have, if there is one (Boyer and Moore: a vote
    /// for it cannot be outvoted).
    bytes: Vec<u8>,
    votes: Vec<u16>,
    /// How many strings have that byte.
    same: Vec<u16>,
    /// How many have a byte of the classes `DIGIT` to `HEX_UPPER`.
    digits: Vec<u16>,
    lower: Vec<u16>,
    upper: Vec<u16>,
}

impl Positions {
    fn new(length: usize) -> Self {
        let counts = || vec![0u16; length];
        Self {
            bytes: vec![0; length],
            votes: counts(),
            same: counts(),
            digits: counts(),
            lower: counts(),
            upper: counts(),
        }
    }

    fn vote(&mut self, string: &[u8]) {
        for ((byte, votes), &new) in self.bytes.iter_mut().zip(&mut self.votes).zip(string) {
            let (is_same, is_open) = (*byte == new, *votes == 0);
            *byte = if is_open { new } else { *byte };
            // Counts one vote up or down.
            *votes = if is_same | is_open { *votes + 1 } else { votes.wrapping_sub(1) };
        }
    }

    fn sort(&mut self, string: &[u8]) {
        let counts = self.digits.iter_mut().zip(&mut self.lower).zip(&mut self.upper);
        for (((digits, lower), upper), &byte) in counts.zip(string) {
            let digit = u16::from(byte.wrapping_sub(b'0') < 10);
            *digits += digit;
            *lower += digit | u16::from(byte.wrapping_sub(b'a') < 6);
            *upper += digit | u16::from(byte.wrapping_sub(b'A') < 6);
        }
    }

    fn compare(&mut self, string: &[u8]) {
        for ((same, byte), new) in self.same.iter_mut().zip(&self.bytes).zip(string) {
            *same += u16::from(byte == new);
        }
    }

    /// The narrowest class at each position that at least `enough` strings have there.
    fn classes(&self, enough: usize) -> Vec<u8> {
        let has = |counts: &[u16], at: usize| usize::from(counts[at]) >= enough;
        let class = |at: usize| match () {
            () if has(&self.same, at) => CONSTANT,
            () if has(&self.digits, at) => DIGIT,
            () if has(&self.lower, at) => HEX_LOWER,
            () if has(&self.upper, at) => HEX_UPPER,
            () => ANY,
        };
        (0..self.bytes.len()).map(class).collect()
    }
}

/// The shape that most of `strings` have: the narrowest class at each position that excludes at
/// most one string in 64. `None` if most do not even have one length.
pub(super) fn shape_of(strings: &Strings) -> Option<Vec<u8>> {
    let mut lengths: Vec<usize> = strings.iter().map(<[u8]>::len).collect();
    let middle = lengths.len() / 2;
    if lengths.is_empty() {
        return None;
    }
    // If more than half have one length, it is the median.
    let length = *lengths.select_nth_unstable(middle).1;
    if length == 0 || length > SHAPE_BYTES_MAX {
        return None;
    }
    let alike = strings.iter().filter(|string| string.len() == length);
    let count = alike.clone().count();
    if count * 2 <= strings.len() {
        return None;
    }
    // A thousand are representative, and fit the counters.
    let alike = alike.step_by(count.div_ceil(STRINGS_MAX));
    let count = alike.clone().count();
    let mut positions = Positions::new(length);
    for string in alike.clone() {
        positions.vote(string);
        positions.sort(string);
    }
    alike.for_each(|string| positions.compare(string));
    let classes = positions.classes(count - count / 64);
    Some(put_shape(&positions.bytes, &classes))
}

fn put_shape(bytes: &[u8], classes: &[u8]) -> Vec<u8> {
    let (mut runs, mut bits) = (Vec::new(), 0);
    let mut at = 0;
    while let Some(&class) = classes.get(at) {
        let count = classes[at..].iter().take_while(|of| **of == class).count().min(RUN_MAX);
        runs.extend([class, count as u8]);
        if class == CONSTANT {
            runs.extend(&bytes[at..at + count]);
        }
        bits += Run { class, count, constant: &[] }.bits();
        at += count;
    }
    let mut shape = Vec::new();
    put_varint(&mut shape, classes.len() as u64);
    put_varint(&mut shape, bits as u64);
    put_varint(&mut shape, runs.len() as u64);
    shape.extend(runs);
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The class of each position by its definition, from counts of all bytes.
    fn counted(strings: &[Vec<u8>]) -> Vec<u8> {
        let enough = strings.len() - strings.len() / 64;
        let at_least = |at: usize, has: &dyn Fn(u8) -> bool| {
            strings.iter().filter(|string| has(string[at])).count() >= enough
        };
        let class = |at: usize| {
            if (0..=255).any(|byte| at_least(at, &|other| other == byte)) {
                CONSTANT
            } else if at_least(at, &|byte| byte.is_ascii_digit()) {
                DIGIT
            } else if at_least(at, &|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
                HEX_LOWER
            } else if at_least(at, &|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'F')) {
                HEX_UPPER
            } else {
                ANY
            }
        };
        (0..strings[0].len()).map(class).collect()
    }

    #[test]
    fn classes_are_those_common_to_nearly_all_strings() {
        let mut state = 1u64;
        let mut next = |end: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % end
        };
        let alphabets: [&[u8]; 5] =
            [b"-", b"0123456789", b"0123456789abcdef", b"0123456789ABCDEF", b"xyz\xff\0"];
        let mut met = [false; 256];
        for _ in 0..60 {
            let (count, length) = (1 + next(1000), 1 + next(150));
            let kinds: Vec<usize> = (0..length).map(|_| next(5)).collect();
            let strings: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let byte = |kind: &usize| {
                        // Some strings deviate.
                        let from = alphabets[if next(70) == 0 { next(5) } else { *kind }];
                        from[next(from.len())]
                    };
                    kinds.iter().map(byte).collect()
                })
                .collect();
            let mut held = Strings::new();
            strings.iter().for_each(|string| held.push(string));
            let mut positions = Positions::new(length);
            for string in held.iter() {
                positions.vote(string);
                positions.sort(string);
            }
            held.iter().for_each(|string| positions.compare(string));
            let expected = counted(&strings);
            assert_eq!(positions.classes(count - count / 64), expected);
            for (at, class) in expected.iter().enumerate().filter(|(_, class)| **class == CONSTANT)
            {
                let same = strings.iter().filter(|string| string[at] == positions.bytes[at]);
                assert!(same.count() >= count - count / 64, "{class}");
            }
            expected.iter().for_each(|class| met[usize::from(*class)] = true);
        }
        assert!(
            [CONSTANT, DIGIT, HEX_LOWER, HEX_UPPER, ANY]
                .iter()
                .all(|class| met[usize::from(*class)])
        );
    }
}
