//! Ways to corrupt bytes: anywhere, or at critical places; as bytes, or by meaning.

use frond_testkit::Dice;

/// Bytes that have a special meaning nearly everywhere: tags, widths, lengths, marks and their
/// neighbours.
const EXTREMES: [u8; 24] = [
    0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 57, 58, 63, 64, 65, 66, 72, 0x7f, 0x80, 0x81, 0xc0, 0xc1,
    0xfe, 0xff,
];

/// First bytes of columns of all kinds.
const KINDS: [u8; 19] = [64, 65, 66, 67, 68, 69, 70, 71, 72, 0, 1, 2, 3, 4, 5, 6, 15, 16, 38];

/// Bytes after a columnar block's last column.
const PAD_BYTES: usize = 8;
const HEADER_BYTES: usize = 8;
/// The flag of a directory with four bytes per column.
const WIDE: u8 = 2;

/// A columnar block taken apart.
pub struct Columns {
    head: [u8; HEADER_BYTES],
    columns: Vec<Vec<u8>>,
}

impl Columns {
    pub fn of(block: &[u8]) -> Option<Self> {
        let head = *block.first_chunk::<HEADER_BYTES>()?;
        let width = if head[1] & WIDE == 0 { 2 } else { 4 };
        let end = |at: usize| {
            let bytes = block.get(HEADER_BYTES + width * at..)?.get(..width)?;
            Some(bytes.iter().rev().fold(0, |end, &byte| end << 8 | usize::from(byte)))
        };
        // As many as lead to the last byte.
        let start = |count: usize| HEADER_BYTES + width * count;
        let count = (1..block.len() / width).find(|&count| {
            end(count - 1) == Some(block.len() - PAD_BYTES) && end(0) >= Some(start(count))
        })?;
        let mut from = start(count);
        let mut columns = Vec::new();
        for at in 0..count {
            let to = end(at)?;
            columns.push(block.get(from..to)?.to_vec());
            from = to;
        }
        Some(Self { head, columns })
    }

    pub fn join(&self) -> Vec<u8> {
        let bytes: usize = self.columns.iter().map(Vec::len).sum();
        let wide = bytes + HEADER_BYTES + 2 * self.columns.len() > usize::from(u16::MAX);
        let width = if wide { 4 } else { 2 };
        let mut block = self.head.to_vec();
        block[1] = block[1] & !WIDE | if wide { WIDE } else { 0 };
        let mut end = HEADER_BYTES + width * self.columns.len();
        for column in &self.columns {
            end += column.len();
            block.extend_from_slice(&(end as u32).to_le_bytes()[..width]);
        }
        self.columns.iter().for_each(|column| block.extend_from_slice(column));
        block.extend_from_slice(&[0; PAD_BYTES]);
        block
    }
}

/// Corrupts bytes once. Most changes hit the first dozen bytes, where lengths and kinds are.
pub fn bytes(dice: &mut Dice, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(dice.bits() as u8);
    }
    let len = bytes.len() as u64;
    let at = match dice.below(4) {
        0 | 1 => dice.below(len.min(14)),
        2 => dice.below(len),
        _ => len - 1 - dice.below(len.min(12)),
    } as usize;
    match dice.below(12) {
        0..=2 => bytes[at] ^= 1 << dice.below(8),
        3..=5 => bytes[at] = *dice.pick(&EXTREMES),
        6 => bytes[at] = bytes[at].wrapping_add(1),
        7 => bytes[at] = bytes[at].wrapping_sub(1),
        8 => {
            // A number of several bytes.
            let extreme = *dice.pick(&[0, u64::MAX, u64::MAX >> 1, 1 << 63, 0x8000_0000, 65_535]);
            let width = *dice.pick(&[2usize, 3, 4, 5, 8, 9]);
            let word = [&extreme.to_le_bytes()[..], &[1]].concat();
            bytes[at..].iter_mut().zip(&word[..width]).for_each(|(to, from)| *to = *from);
        }
        9 => {
            let from = dice.below(len) as usize;
            let count = (dice.below(16) as usize).min(bytes.len() - from.max(at));
            bytes.copy_within(from..from + count, at);
        }
        10 => {
            let cut = 1 + dice.below((len - at as u64).min(6)) as usize;
            bytes.drain(at..(at + cut).min(bytes.len()));
        }
        _ => {
            let byte = *dice.pick(&EXTREMES);
            let count = 1 + dice.below(6) as usize;
            bytes.splice(at..at, std::iter::repeat_n(byte, count));
        }
    }
}

/// Corrupts a block up to four times; `other` is another block of the same run.
pub fn block(dice: &mut Dice, block: &[u8], other: &[u8]) -> Vec<u8> {
    let mut damaged = block.to_vec();
    for _ in 0..1 + dice.below(4) {
        match Columns::of(&damaged).filter(|_| dice.chance(4, 5)) {
            Some(parts) => damaged = columns(dice, parts, other),
            None if dice.chance(1, 6) && !other.is_empty() => {
                // The start of one and the end of the other.
                let at = dice.below(damaged.len().min(other.len()) as u64) as usize;
                damaged.truncate(at);
                damaged.extend_from_slice(&other[at..]);
            }
            None => bytes(dice, &mut damaged),
        }
    }
    damaged
}

/// Corrupts a columnar block but keeps its directory consistent.
fn columns(dice: &mut Dice, mut parts: Columns, other: &[u8]) -> Vec<u8> {
    let at = dice.below(parts.columns.len() as u64) as usize;
    match dice.below(16) {
        0..=8 => bytes(dice, &mut parts.columns[at]),
        9 => parts.head[dice.below(8) as usize] = *dice.pick(&EXTREMES),
        10 => {
            // Fewer rows than the columns have, or more.
            let rows = u16::from_le_bytes([parts.head[2], parts.head[3]]);
            let rows =
                *dice.pick(&[1, rows / 2, rows.wrapping_sub(1), rows.wrapping_add(1), 65_535]);
            parts.head[2..4].copy_from_slice(&rows.to_le_bytes());
        }
        11 => {
            let long = *dice.pick(&[0, 1, 1 << 16, 1 << 26, u32::MAX]);
            parts.head[4..8].copy_from_slice(&long.to_le_bytes());
        }
        12 => {
            let with = dice.below(parts.columns.len() as u64) as usize;
            parts.columns.swap(at, with);
        }
        13 => {
            if let Some(other) = Columns::of(other) {
                parts.columns[at] = dice.pick(&other.columns).clone();
            }
        }
        14 => {
            // A column of a few bytes that claims much.
            let width = *dice.pick(&EXTREMES);
            let mut column = vec![*dice.pick(&KINDS), width];
            column.extend((0..dice.below(40)).map(|_| *dice.pick(&EXTREMES)));
            parts.columns[at] = column;
        }
        _ => {
            let mut whole = parts.join();
            let directory = HEADER_BYTES + 2 * parts.columns.len();
            let at = dice.below(directory as u64) as usize;
            whole[at] = *dice.pick(&EXTREMES);
            return whole;
        }
    }
    parts.join()
}
