//! What every kind must do, on data of every sort: values come back, bounds are those of a plain
//! search, lengths are as announced, and no bytes whatever do harm.

use proptest::prelude::*;

use super::*;
use crate::block::column::PAD_BYTES;

const KINDS: [IntKind; 3] = [IntKind::Constant, IntKind::Level, IntKind::Sloped];

/// A column with bytes after it that are not its own.
fn padded(column: &[u8]) -> Vec<u8> {
    [column, &[0xa5; PAD_BYTES]].concat()
}

/// Invariant 1 of the room: reads everything in every way, and compares.
fn comes_back(values: &[u64], column: &[u8], chosen: Chosen) {
    assert_eq!(column.len(), chosen.bytes, "{chosen:?}");
    let bytes = padded(column);
    let ints = Ints::parse(&bytes, values.len()).expect("parsed");
    ints.check().expect("checked");
    assert_eq!((ints.kind(), ints.bytes_used()), (chosen.kind, chosen.bytes));
    for (row, value) in values.iter().enumerate() {
        assert_eq!(ints.get(row), *value, "row {row} of {chosen:?}");
    }
    let firsts = [0, 1, 7, 31, 32, 33, values.len() / 2, values.len()];
    for first in firsts.into_iter().filter(|&first| first <= values.len()) {
        for len in [1, 8, 40, values.len()] {
            let mut out = vec![7; len.min(values.len() - first)];
            ints.decode(first, &mut out);
            assert_eq!(out, values[first..first + out.len()], "from {first} of {chosen:?}");
        }
    }
    // Bounds are promised where the column ascends.
    let mut from = 0;
    for part in values.chunk_by(|a, b| a <= b).take(20) {
        let rows = from..from + part.len();
        let edges = [0, u64::MAX, part[0], part[part.len() / 2], part[part.len() - 1]];
        let beside = edges.into_iter().flat_map(|v| [v, v.wrapping_add(1), v.wrapping_sub(1)]);
        for value in beside.chain(part.iter().copied().step_by(part.len().div_ceil(50))) {
            let low = from + part.partition_point(|v| *v < value);
            let high = from + part.partition_point(|v| *v <= value);
            assert_eq!(ints.lower_bound(rows.clone(), value), low, "{value} in {chosen:?}");
            assert_eq!(ints.equal_range(rows.clone(), value), low..high, "{value} in {chosen:?}");
        }
        from = rows.end;
    }
}

/// Encodes in every kind that can hold the values; the choice is the shortest of them.
fn check_all(values: &[u64]) -> Chosen {
    let mut encoder = IntEncoder::new();
    let mut column = vec![0xee];
    let best = encoder.encode(values, &mut column);
    assert_eq!(encoder.measure(values), best);
    comes_back(values, &column[1..], best);
    for kind in KINDS {
        column.clear();
        let chosen = encoder.encode_as(kind, values, &mut column);
        comes_back(values, &column, chosen);
        assert!(chosen.bytes >= best.bytes, "{chosen:?} is shorter than {best:?}");
    }
    best
}

fn any_width() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

/// Values as columns have them, of all sorts.
fn any_values() -> impl Strategy<Value = Vec<u64>> {
    let many = 0..300usize;
    let steps = || (any_width(), prop::collection::vec(any_width(), 0..300usize), 1u32..64);
    prop_oneof![
        prop::collection::vec(any::<u64>(), many.clone()),
        prop::collection::vec(any_width(), many.clone()),
        // Within some bits above a base.
        (any::<u64>(), 0u32..64, prop::collection::vec(any::<u64>(), many.clone())).prop_map(
            |(base, shift, values)| {
                values.into_iter().map(|v| base.wrapping_add(v >> shift)).collect()
            }
        ),
        // Ascending by steps of many sizes, round the end of the numbers and back.
        steps().prop_map(|(start, steps, shift)| {
            let mut at = start;
            steps
                .iter()
                .map(|s| {
                    at = at.wrapping_add(s >> shift);
                    at
                })
                .collect()
        }),
        // Ascending, never round the end.
        steps().prop_map(|(start, steps, shift)| {
            let mut at = start;
            steps
                .iter()
                .map(|s| {
                    at = at.saturating_add(s >> shift);
                    at
                })
                .collect()
        }),
        // Beside a line, upward or downward.
        (
            any::<u64>(),
            any::<i64>(),
            0u32..64,
            prop::collection::vec(any::<u64>(), many.clone()),
            40u32..64
        )
            .prop_map(|(base, slope, less, noise, shift)| {
                let line = |i: usize| (slope >> less).wrapping_mul(i as i64) as u64;
                let off = noise.iter().enumerate();
                off.map(|(i, n)| base.wrapping_add(line(i)).wrapping_add(n >> shift)).collect()
            }),
        // Few values, in runs and not.
        (
            prop::collection::vec(any_width(), 1..40),
            prop::collection::vec((any::<usize>(), 1..20usize), 0..60)
        )
            .prop_map(|(few, runs)| {
                let runs = runs.into_iter().map(|(i, len)| vec![few[i % few.len()]; len]);
                runs.collect::<Vec<_>>().concat()
            }),
        // Small, with a few that are not.
        prop::collection::vec((0u64..30, prop::bool::weighted(0.03), any_width()), many)
            .prop_map(|rows| rows.into_iter().map(|(v, far, w)| if far { w } else { v }).collect()),
    ]
}

proptest! {
    #[test]
    fn any_values_come_back_and_are_found(values in any_values()) {
        check_all(&values);
    }

    #[test]
    fn sorted_values_come_back_and_are_found(mut values in any_values()) {
        values.sort_unstable();
        check_all(&values);
    }
}

#[test]
fn every_width_and_the_edges_of_every_width_come_back() {
    for width in 0..=64u32 {
        let top = u64::MAX.checked_shr(64 - width).unwrap_or(0);
        for rows in [0usize, 1, 2, 3, 5, 33, 100] {
            let values: Vec<u64> =
                (0..rows as u64).map(|i| [0, top, top / 2, i & top][i as usize % 4]).collect();
            check_all(&values);
            let high: Vec<u64> = values.iter().map(|v| u64::MAX - v).collect();
            check_all(&high);
        }
    }
}

#[test]
fn the_largest_column_comes_back() {
    let values: Vec<u64> = (0..ROWS_MAX as u64).map(|i| i * 3 + i * i % 5).collect();
    check_all(&values);
    let far: Vec<u64> = (0..ROWS_MAX as u64).map(|i| i << 48).collect();
    assert_eq!(check_all(&far).bytes, 9);
}

/// Invariant 2 of the room.
#[test]
fn any_flipped_or_cut_byte_gives_values_or_an_error() {
    let mut encoder = IntEncoder::new();
    let mut state = 1u64;
    let mut dice = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 32
    };
    let sorted: Vec<u64> = (0..200).map(|i| i * 1000 + i * i % 777).collect();
    let noise: Vec<u64> = (0..100).map(|_| dice() % 1000 + 5000).collect();
    let runs: Vec<u64> = (0..200).map(|i| i / 40 * 1_000_003).collect();
    for values in [sorted, noise, runs] {
        for kind in KINDS {
            let mut column = Vec::new();
            encoder.encode_as(kind, &values, &mut column);
            let whole = padded(&column);
            for at in 0..whole.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff, whole[at] ^ 1, whole[at] ^ 0x40, dice() as u8]
                {
                    let mut bad = whole.clone();
                    bad[at] = value;
                    use_all(&bad, values.len());
                }
                use_all(&whole[..at], values.len());
                use_all(&whole[at..], values.len());
            }
            use_all(&whole, ROWS_MAX);
            assert!(Ints::parse(&whole, ROWS_MAX + 1).is_err());
        }
    }
    for len in 0..200 {
        let noise: Vec<u8> = (0..len).map(|_| dice() as u8).collect();
        for kind in 0..=255 {
            let mut bytes = noise.clone();
            if let Some(byte) = bytes.first_mut() {
                *byte = kind;
            }
            use_all(&bytes, dice() as usize % 80);
        }
    }
}

/// Calls everything on bytes that may be anything.
fn use_all(bytes: &[u8], rows: usize) {
    let Ok(ints) = Ints::parse(bytes, rows) else { return };
    let _ = ints.check();
    assert!(ints.bytes_used() + PAD_BYTES <= bytes.len());
    for row in [0, 1, 31, 32, rows / 2, rows, rows + 1, ROWS_MAX, usize::MAX] {
        let _ = ints.get(row);
        ints.decode(row, &mut [0; 70]);
        let value = ints.get(row / 2);
        for end in [row, rows, usize::MAX] {
            assert!(ints.lower_bound(row / 2..end, value) <= end.max(row));
            let _ = ints.equal_range(0..end, value);
        }
    }
}

/// The bytes that docs/format.md shows.
#[test]
fn the_documented_columns_are_what_is_written() {
    let shown = documented("The columns of the values");
    let mut encoder = IntEncoder::new();
    for (values, shown) in [[1000, 1003, 1005, 1010], [100, 110, 121, 130]].iter().zip(shown) {
        let mut column = Vec::new();
        let chosen = encoder.encode(values, &mut column);
        assert_eq!(column, shown);
        comes_back(values, &shown, chosen);
    }
}

/// The lines of bytes that follow this text in docs/format.md, up to the next empty line.
fn documented(before: &str) -> Vec<Vec<u8>> {
    let text = include_str!("../../../../../../docs/format.md");
    let after = text.split(before).nth(1).expect("documented");
    let lines = after.lines().skip_while(|line| !line.starts_with("    "));
    let lines = lines.map_while(|line| line.strip_prefix("    "));
    let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hexadecimal");
    lines.map(|line| line[..30.min(line.len())].split_whitespace().map(byte).collect()).collect()
}
