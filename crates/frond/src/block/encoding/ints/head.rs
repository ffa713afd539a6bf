//! Numbers in the headers of columns: as few bytes as they need, preceded by their count.

use super::super::bits::{load, mask_of, width_of};

/// Number of bytes of a value; none for 0.
pub fn unsigned_bytes(value: u64) -> u32 {
    width_of(value).div_ceil(8)
}

/// Number of bytes of a value and its sign; none for 0.
pub fn signed_bytes(value: i64) -> u32 {
    let magnitude = if value < 0 { !value } else { value } as u64;
    if value == 0 { 0 } else { (width_of(magnitude) + 1).div_ceil(8) }
}

/// Bits of the number of any of this many rows.
#[inline]
pub fn row_width(rows: usize) -> u32 {
    width_of(rows.saturating_sub(1) as u64)
}

/// Appends the low `bytes` bytes of a number.
pub fn put_low(value: u64, bytes: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(value.to_le_bytes().get(..bytes as usize).unwrap_or_default());
}

/// Cuts a number of `bytes` bytes off the front of `rest`; `None` if they are more than eight, or
/// missing. The padding of the column follows, so one load suffices.
#[inline]
pub fn cut_unsigned(rest: &mut &[u8], bytes: u32) -> Option<u64> {
    let value = load(rest, 0) & mask_of(8 * bytes);
    *rest = rest.get(bytes as usize..).filter(|_| bytes <= 8)?;
    Some(value)
}

/// Cuts a signed number of `bytes` bytes off the front of `rest`, as [`cut_unsigned`] does.
#[inline]
pub fn cut_signed(rest: &mut &[u8], bytes: u32) -> Option<i64> {
    let value = cut_unsigned(rest, bytes)?;
    let unused = u64::BITS - 8 * bytes.max(1);
    Some((value << unused) as i64 >> unused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip_in_the_fewest_bytes() {
        for (value, bytes) in
            [(0, 0), (1, 1), (255, 1), (256, 2), (u64::MAX >> 8, 7), (u64::MAX, 8)]
        {
            assert_eq!(unsigned_bytes(value), bytes);
            let mut out = Vec::new();
            put_low(value, bytes, &mut out);
            out.extend_from_slice(&[0xff; 8]);
            let mut rest = &out[..];
            assert_eq!(cut_unsigned(&mut rest, bytes), Some(value));
            assert_eq!(rest.len(), 8);
        }
        let signed = [(0, 0), (-1, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (i64::MIN, 8)];
        for (value, bytes) in signed {
            assert_eq!(signed_bytes(value), bytes);
            let mut out = Vec::new();
            put_low(value as u64, bytes, &mut out);
            out.extend_from_slice(&[0x5a; 8]);
            assert_eq!(cut_signed(&mut &out[..], bytes), Some(value));
        }
        assert_eq!(cut_unsigned(&mut &[0; 20][..], 9), None);
        assert_eq!(cut_signed(&mut &[0; 20][..], 255), None);
        assert_eq!(cut_unsigned(&mut &[0; 3][..], 4), None);
    }
}
