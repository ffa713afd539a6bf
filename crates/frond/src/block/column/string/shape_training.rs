//! Finding the shape of strings: at each position the narrowest class that nearly all of them have.

use super::{
    shape::{ANY, CONSTANT, DIGIT, HEX_LOWER, HEX_UPPER, RUN_MAX, Run, SHAPE_BYTES_MAX},
    strings::Strings,
};
use crate::coding::put_varint;

/// Strings that are looked at.
const STRINGS_MAX: usize = 1024;

/// What strings of one length have at a position.
#[derive(Clone, Copy, Default)]
struct Position {
    /// What more than half of them have, if there is such a byte (Boyer and Moore: a vote for it
    /// cannot be outvoted).
    byte: u8,
    votes: u32,
    /// How many have it.
    same: u32,
    /// How many have a byte of the classes `DIGIT` to `HEX_UPPER`, 16 bits each.
    sorts: u64,
}

/// The classes of a byte, 1 for each in its 16 bits.
static SORTS: [u64; 256] = {
    let mut sorts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let digit = (byte as u8).is_ascii_digit() as u64;
        let lower = digit | matches!(byte as u8, b'a'..=b'f') as u64;
        let upper = digit | matches!(byte as u8, b'A'..=b'F') as u64;
        sorts[byte] = digit | lower << 16 | upper << 32;
        byte += 1;
    }
    sorts
};

impl Position {
    /// The narrowest class that at least `enough` strings have here.
    fn class(&self, enough: u32) -> u8 {
        if self.same >= enough {
            return CONSTANT;
        }
        let has = |class: &u8| (self.sorts >> (16 * (class - DIGIT))) as u16 as u32 >= enough;
        [DIGIT, HEX_LOWER, HEX_UPPER].into_iter().find(has).unwrap_or(ANY)
    }
}

/// The shape that most of `strings` have: the narrowest class at each position that leaves out at most
/// one string in 64. `None` if most have not even one length.
pub(super) fn shape_of(strings: &Strings) -> Option<Vec<u8>> {
    let mut lengths: Vec<usize> = strings.iter().map(<[u8]>::len).collect();
    let middle = lengths.len() / 2;
    if lengths.is_empty() {
        return None;
    }
    // More than half of them have the middle one's length, or no length has so many.
    let length = *lengths.select_nth_unstable(middle).1;
    if length == 0 || length > SHAPE_BYTES_MAX {
        return None;
    }
    let alike = strings.iter().filter(|string| string.len() == length);
    let count = alike.clone().count();
    if count * 2 <= strings.len() {
        return None;
    }
    // A thousand tell what all are like, and fit the counts.
    let alike = alike.step_by(count.div_ceil(STRINGS_MAX));
    let count = alike.clone().count();
    let mut positions = vec![Position::default(); length];
    for string in alike.clone() {
        for (position, &byte) in positions.iter_mut().zip(string) {
            position.sorts += SORTS[usize::from(byte)];
            if position.byte == byte {
                position.votes += 1;
            } else if position.votes == 0 {
                (position.byte, position.votes) = (byte, 1);
            } else {
                position.votes -= 1;
            }
        }
    }
    for string in alike {
        for (position, &byte) in positions.iter_mut().zip(string) {
            position.same += u32::from(position.byte == byte);
        }
    }
    let enough = (count - count / 64) as u32;
    let classes: Vec<u8> = positions.iter().map(|position| position.class(enough)).collect();
    Some(put_shape(&positions, &classes))
}

fn put_shape(positions: &[Position], classes: &[u8]) -> Vec<u8> {
    let (mut runs, mut bits) = (Vec::new(), 0);
    let mut at = 0;
    while let Some(&class) = classes.get(at) {
        let count = classes[at..].iter().take_while(|of| **of == class).count().min(RUN_MAX);
        runs.extend([class, count as u8]);
        if class == CONSTANT {
            runs.extend(positions[at..at + count].iter().map(|position| position.byte));
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
