//! Addition and subtraction of big-endian numbers of any length, modulo the next power of 256.

/// Length of a word of a number.
const WORD: usize = size_of::<u64>();

/// Adds `addend`, which has the same length, to `number`.
pub fn add(number: &mut [u8], addend: &[u8]) {
    let mut carry = false;
    let (head, words) = number.as_rchunks_mut::<WORD>();
    let (addend_head, addend_words) = addend.as_rchunks::<WORD>();
    for (word, addend) in words.iter_mut().zip(addend_words).rev() {
        let (sum, over) = u64::from_be_bytes(*word).overflowing_add(u64::from_be_bytes(*addend));
        let (sum, again) = sum.overflowing_add(carry.into());
        carry = over | again;
        *word = sum.to_be_bytes();
    }
    for (byte, addend) in head.iter_mut().zip(addend_head).rev() {
        let sum = u16::from(*byte) + u16::from(*addend) + u16::from(carry);
        (*byte, carry) = (sum as u8, sum > 0xff);
    }
}

/// Appends `number` minus `before`, which has the same length.
pub fn put_difference(number: &[u8], before: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(number);
    let mut borrow = false;
    let (head, words) = out.get_mut(start..).unwrap_or_default().as_rchunks_mut::<WORD>();
    let (before_head, before_words) = before.as_rchunks::<WORD>();
    for (word, before) in words.iter_mut().zip(before_words).rev() {
        let (rest, under) = u64::from_be_bytes(*word).overflowing_sub(u64::from_be_bytes(*before));
        let (rest, again) = rest.overflowing_sub(borrow.into());
        borrow = under | again;
        *word = rest.to_be_bytes();
    }
    for (byte, before) in head.iter_mut().zip(before_head).rev() {
        let (rest, under) = byte.overflowing_sub(*before);
        let (rest, again) = rest.overflowing_sub(borrow.into());
        (*byte, borrow) = (rest, under | again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_with_carries_round_trip() {
        let patterns: [&[u8]; 6] =
            [&[0], &[0xff], &[0, 0xff], &[0x80, 0, 1], &[1, 2, 3, 4, 5], &[0xff, 0xff, 0xfe]];
        for len in 0..40 {
            let numbers: Vec<Vec<u8>> = patterns
                .iter()
                .map(|pattern| pattern.iter().copied().cycle().take(len).collect())
                .collect();
            for before in &numbers {
                for number in &numbers {
                    let mut difference = Vec::new();
                    put_difference(number, before, &mut difference);
                    let mut sum = before.clone();
                    add(&mut sum, &difference);
                    assert_eq!(&sum, number, "{before:?}");
                }
            }
        }
        let mut out = vec![7];
        put_difference(&[1, 0, 0, 0, 0, 0, 0, 0, 0], &[0, 0xff, 0, 0, 0, 0, 0, 0, 1], &mut out);
        assert_eq!(out, [7, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }
}
