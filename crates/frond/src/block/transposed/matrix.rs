//! Transposing a byte matrix in squares of eight by eight.

/// The side of the squares that are transposed in registers.
const SIDE: usize = 8;

/// Writes the columns of `from`, which is `rows` rows of equal length, to `out`.
pub fn transpose(from: &[u8], rows: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(from.len(), 0);
    transpose_into(from, rows, out);
}

/// Transposes as [`transpose`] does, into a slice of the same length.
pub fn transpose_into(from: &[u8], rows: usize, out: &mut [u8]) {
    let Some(columns) = from.len().checked_div(rows) else { return };
    debug_assert_eq!((rows * columns, out.len()), (from.len(), from.len()));
    if rows < SIDE || columns < SIDE {
        return narrow(from, rows, columns, out);
    }
    // The last squares end with the matrix, so they overlap their predecessors.
    let starts = |len: usize| (0..len - SIDE).step_by(SIDE).chain([len - SIDE]);
    for row in starts(rows) {
        for column in starts(columns) {
            let mut square = [0; SIDE];
            for (line, at) in square.iter_mut().zip((row * columns + column..).step_by(columns)) {
                *line = from[at..at + SIDE].try_into().map_or(0, u64::from_le_bytes);
            }
            turn(&mut square);
            for (line, at) in square.iter().zip((column * rows + row..).step_by(rows)) {
                out[at..at + SIDE].copy_from_slice(&line.to_le_bytes());
            }
        }
    }
}

/// Transposes a matrix with a side that is too short for a square.
fn narrow(from: &[u8], rows: usize, columns: usize, out: &mut [u8]) {
    if rows < columns {
        for (row, line) in from.chunks_exact(columns.max(1)).enumerate() {
            for (&byte, to) in line.iter().zip(out[row..].iter_mut().step_by(rows)) {
                *to = byte;
            }
        }
    } else {
        for (column, line) in out.chunks_exact_mut(rows).enumerate() {
            for (to, &byte) in line.iter_mut().zip(from[column..].iter().step_by(columns)) {
                *to = byte;
            }
        }
    }
}

/// Transposes eight lines of eight bytes: halves, quarters and bytes are exchanged with those of
/// the lines four, two and one further down.
#[inline]
fn turn(lines: &mut [u64; SIDE]) {
    exchange::<4>(lines, 0x0000_0000_ffff_ffff);
    exchange::<2>(lines, 0x0000_ffff_0000_ffff);
    exchange::<1>(lines, 0x00ff_00ff_00ff_00ff);
}

#[inline]
fn exchange<const APART: usize>(lines: &mut [u64; SIDE], low: u64) {
    for line in (0..SIDE).filter(|line| line & APART == 0) {
        let (a, b) = (lines[line], lines[line + APART]);
        lines[line] = a & low | (b & low) << (8 * APART);
        lines[line + APART] = (a >> (8 * APART)) & low | b & !low;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_matrix_shape_is_transposed_and_restored() {
        let bytes: Vec<u8> =
            (0..40 * 40u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let (mut turned, mut back) = (Vec::new(), Vec::new());
        for rows in 1..40 {
            for columns in 0..40 {
                let from = &bytes[..rows * columns];
                transpose(from, rows, &mut turned);
                for row in 0..rows {
                    for column in 0..columns {
                        let (is, was) = (turned[column * rows + row], from[row * columns + column]);
                        assert_eq!(is, was, "{row}, {column} of {rows} by {columns}");
                    }
                }
                transpose(&turned, columns, &mut back);
                assert_eq!(back, if columns == 0 { &[] } else { from });
            }
        }
    }
}
