//! Tests of every kind on data of all sorts: values are restored, bounds equal those of a linear
//! search, lengths are as announced, and arbitrary bytes do no harm.

use proptest::prelude::*;

use super::{
    traits::{IntPlan, Scratch, Values},
    *,
};
use crate::block::encoding::PAD_BYTES;

const KINDS: [IntKind; 9] = [
    IntKind::Constant,
    IntKind::BitPacked,
    IntKind::Linear,
    IntKind::SingleOutlier,
    IntKind::Pfor,
    IntKind::Dictionary,
    IntKind::Rle,
    IntKind::Delta,
    IntKind::Scaled,
];

/// A column followed by bytes that do not belong to it.
pub fn padded(column: &[u8]) -> Vec<u8> {
    [column, &[0xa5; PAD_BYTES]].concat()
}

/// Invariant 1 of the module: reads everything in every way, and compares.
fn round_trips(values: &[u64], column: &[u8], chosen: Chosen) {
    assert_eq!(column.len(), chosen.bytes, "{chosen:?}");
    let bytes = padded(column);
    let ints = Ints::parse(&bytes, values.len()).expect("parsed");
    ints.check().expect("checked");
    assert_eq!((ints.kind(), ints.bytes_used()), (chosen.kind, chosen.bytes));
    for (row, value) in values.iter().enumerate() {
        assert_eq!(ints.get(row), *value, "row {row} of {chosen:?}");
        assert_eq!(Ints::read(&bytes, values.len(), row), Ok(*value));
    }
    let firsts = [0, 1, 7, 31, 32, 33, values.len() / 2, values.len()];
    for first in firsts.into_iter().filter(|&first| first <= values.len()) {
        for len in [1, 8, 40, values.len()] {
            let mut out = vec![7; len.min(values.len() - first)];
            ints.decode(first, &mut out);
            assert_eq!(out, values[first..first + out.len()], "from {first} of {chosen:?}");
        }
    }
    // Bounds are guaranteed where the column ascends.
    let mut from = 0;
    for part in values.chunk_by(|a, b| a <= b).take(20) {
        // All of it, and a range as a search leaves it.
        let some = part.len() / 3..part.len() - part.len() / 4;
        bounds_are_found(&ints, from, part);
        bounds_are_found(&ints, from + some.start, &part[some]);
        from += part.len();
    }
}

/// Searches values of `part`, which ascends and starts at row `from`, and their neighbours.
fn bounds_are_found(ints: &Ints<'_>, from: usize, part: &[u64]) {
    let (Some(&first), Some(&last)) = (part.first(), part.last()) else { return };
    let (rows, kind) = (from..from + part.len(), ints.kind());
    let edges = [0, u64::MAX, first, part[part.len() / 2], last];
    let beside = edges.into_iter().flat_map(|v| [v, v.wrapping_add(1), v.wrapping_sub(1)]);
    for value in beside.chain(part.iter().copied().step_by(part.len().div_ceil(50))) {
        let low = from + part.partition_point(|v| *v < value);
        let high = from + part.partition_point(|v| *v <= value);
        assert_eq!(ints.lower_bound(rows.clone(), value), low, "{value} in {kind:?}");
        assert_eq!(ints.equal_range(rows.clone(), value), low..high, "{value} in {kind:?}");
    }
}

/// Encodes in every kind that can hold the values; the chosen kind is the shortest of them.
pub fn check_all(values: &[u64]) -> Chosen {
    let mut encoder = IntEncoder::new();
    let mut column = vec![0xee];
    let best = encoder.encode(values, &mut column);
    assert_eq!(encoder.measure(values), best);
    round_trips(values, &column[1..], best);
    column.clear();
    let direct = encoder.encode_direct(values, &mut column);
    round_trips(values, &column, direct);
    assert!(!matches!(direct.kind, IntKind::Rle | IntKind::Delta));
    for kind in KINDS {
        column.clear();
        let chosen = encoder.encode_as(kind, None, values, &mut column);
        round_trips(values, &column, chosen);
        // Steps must save a tenth; differences are tried only where values ascend.
        let saves = if kind == IntKind::Scaled { best.bytes / 10 } else { 0 };
        if kind != IntKind::Delta || values.is_sorted() {
            assert!(chosen.bytes + saves >= best.bytes, "{chosen:?} is shorter than {best:?}");
        }
        // Encodes as for the next block of the column.
        column.clear();
        let again = encoder.encode_as(kind, chosen.numbers, values, &mut column);
        assert!(chosen.kind != kind || again == chosen, "{again:?} {chosen:?}");
    }
    best
}

fn any_width() -> impl Strategy<Value = u64> {
    (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
}

/// Values of all sorts, as columns have them.
fn any_values() -> impl Strategy<Value = Vec<u64>> {
    let many = 0..300usize;
    let steps = || (any_width(), prop::collection::vec(any_width(), 0..300usize), 1u32..64);
    prop_oneof![
        prop::collection::vec(any::<u64>(), many.clone()),
        prop::collection::vec(any_width(), many.clone()),
        // Values within a few bits above a base.
        (any::<u64>(), 0u32..64, prop::collection::vec(any::<u64>(), many.clone())).prop_map(
            |(base, shift, values)| {
                values.into_iter().map(|v| base.wrapping_add(v >> shift)).collect()
            }
        ),
        // Ascending by steps of many sizes, wrapping around the end of the numbers.
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
        // Ascending, without wrapping around.
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
        // Ascending, and sometimes starting again.
        (any_width(), prop::collection::vec((0u64..500, prop::bool::weighted(0.03)), 0..300usize))
            .prop_map(|(start, steps)| {
                let mut at = start;
                let from = |(step, falls): (u64, bool)| {
                    at = if falls { start.wrapping_add(step) } else { at.wrapping_add(step) };
                    at
                };
                steps.into_iter().map(from).collect()
            }),
        // Near a line, ascending or descending.
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
        // One value among others far from it.
        (
            any::<u64>(),
            any_width(),
            prop::collection::vec((0u64..5000, any::<bool>()), 0..200usize)
        )
            .prop_map(|(lone, base, rows)| {
                let value = |(v, is_lone)| if is_lone { lone } else { base.wrapping_add(v) };
                rows.into_iter().map(value).collect()
            }),
        // A few to many equal steps above the least, with and without other values in between.
        (any_width(), any_width(), 0u32..64, prop::collection::vec(any::<u64>(), many.clone()))
            .prop_map(|(least, step, shift, numbers)| {
                let value =
                    |number: u64| least.saturating_add(step.saturating_mul(number >> shift));
                numbers.into_iter().map(value).collect()
            }),
        (1u64..5000, 1u32..40, prop::collection::vec(any::<u64>(), many.clone())).prop_map(
            |(step, bits, numbers)| {
                numbers
                    .into_iter()
                    .map(|number| u64::MAX - (number >> (64 - bits)) * step)
                    .collect()
            }
        ),
        // Small, with a few that are not.
        prop::collection::vec((0u64..30, prop::bool::weighted(0.03), any_width()), many)
            .prop_map(|rows| rows.into_iter().map(|(v, far, w)| if far { w } else { v }).collect()),
    ]
}

proptest! {
    #[test]
    fn any_values_round_trip_and_are_found(values in any_values()) {
        check_all(&values);
    }

    #[test]
    fn sorted_values_round_trip_and_are_found(mut values in any_values()) {
        values.sort_unstable();
        check_all(&values);
    }
}

/// The form of any number in docs/format.md, "Tuple keys".
pub fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn ordered_single(number: f32) -> u64 {
    let bits = number.to_bits();
    (if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }).into()
}

/// Floats as columns have them: decimals, whole numbers, and floats that are no decimals.
fn any_floats() -> impl Strategy<Value = Vec<f64>> {
    let special = prop::sample::select(vec![
        0.0,
        -0.0,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        0.1 + 0.2,
        2251799813685247.0,
        2251799813685248.0,
        1e300,
    ]);
    (0i32..17, -1i64 << 40..1 << 40, 0u32..40, 0.0f64..0.4).prop_flat_map(
        move |(exponent, base, shift, often)| {
            let decimal = any::<i64>()
                .prop_map(move |n| (base + ((n >> 24) >> shift)) as f64 / 10f64.powi(exponent));
            let rows = (decimal, special.clone(), prop::bool::weighted(often), any::<f64>());
            let value = rows.prop_map(|(n, special, is_special, other)| match is_special {
                false => n,
                true if n.to_bits() & 1 == 0 => special,
                true => other,
            });
            prop::collection::vec(value, 0..200)
        },
    )
}

fn floats_round_trip(float: Float, values: &[u64]) -> Chosen {
    let mut encoder = IntEncoder::new();
    let (mut column, mut plain) = (Vec::new(), Vec::new());
    let chosen = encoder.encode_floats(float, values, &mut column);
    round_trips(values, &column, chosen);
    let without = encoder.encode(values, &mut plain);
    assert!(chosen.bytes <= without.bytes, "{chosen:?} {without:?}");
    column.clear();
    let kept = encoder.encode_floats_as(IntKind::Decimal, None, float, values, &mut column);
    round_trips(values, &column, kept);
    assert!(kept.bytes >= chosen.bytes, "{kept:?} {chosen:?}");
    // With whole numbers in any kind, and in the one that was chosen.
    for numbers in KINDS.into_iter().map(Some).chain([kept.numbers]) {
        column.clear();
        let again = encoder.encode_floats_as(IntKind::Decimal, numbers, float, values, &mut column);
        round_trips(values, &column, again);
        assert!(numbers != kept.numbers || again == kept, "{again:?} {kept:?}");
    }
    chosen
}

proptest! {
    #[test]
    fn any_floats_round_trip_and_are_found(floats in any_floats(), sorted: bool) {
        let mut doubles: Vec<u64> = floats.iter().map(|n| ordered(*n)).collect();
        let mut singles: Vec<u64> = floats.iter().map(|n| ordered_single(*n as f32)).collect();
        // Numbers that no field of four bytes holds.
        let mut neither = doubles.clone();
        if sorted {
            doubles.sort_unstable();
            singles.sort_unstable();
            neither.sort_unstable();
        }
        floats_round_trip(Float::Double, &doubles);
        floats_round_trip(Float::Single, &singles);
        floats_round_trip(Float::Single, &neither);
    }
}

#[test]
fn values_at_the_edges_of_every_width_round_trip() {
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
fn the_largest_column_round_trips() {
    let values: Vec<u64> = (0..ROWS_MAX as u64).map(|i| i * 3 + i * i % 5).collect();
    check_all(&values);
    let far: Vec<u64> = (0..ROWS_MAX as u64).map(|i| i << 48).collect();
    assert_eq!(check_all(&far).bytes, 9);
}

/// Reads the column with every byte changed or cut off, and with several changed at random.
fn survives_damage(column: &[u8], rows: usize, dice: &mut impl FnMut() -> u64) {
    let whole = padded(column);
    for at in 0..whole.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, whole[at] ^ 1, whole[at] ^ 0x40, dice() as u8] {
            let mut bad = whole.clone();
            bad[at] = value;
            use_all(&bad, rows);
        }
        use_all(&whole[..at], rows);
        use_all(&whole[at..], rows);
    }
    for _ in 0..100 {
        let mut bad = whole.clone();
        for _ in 0..1 + dice() % 4 {
            // Headers are in front, and lists have theirs after the codes.
            let at = (dice() as usize % whole.len()).min(dice() as usize % whole.len());
            bad[at] =
                if dice().is_multiple_of(3) { bad[at] ^ 1 << (dice() % 8) } else { dice() as u8 };
        }
        use_all(&bad, [rows, dice() as usize % 300][dice() as usize % 2]);
    }
    use_all(&whole, ROWS_MAX);
    assert!(Ints::parse(&whole, ROWS_MAX + 1).is_err());
}

fn dice() -> impl FnMut() -> u64 {
    let mut state = 1u64;
    move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state >> 32
    }
}

/// Checks an encoding through its traits: values that it can hold are restored, and damaged bytes
/// do no harm.
pub fn holds<P: IntPlan>(values: &[u64]) {
    let (mut scratch, mut column) = (Scratch::default(), Vec::new());
    let plan = P::below(&Values::of(values), usize::MAX, &mut scratch).expect("it can hold them");
    assert!(P::below(&Values::of(values), plan.bytes(values.len()), &mut scratch).is_none());
    P::below(&Values::of(values), usize::MAX, &mut scratch);
    plan.write(values, &mut scratch, &mut column);
    let bytes = plan.bytes(values.len());
    round_trips(values, &column, Chosen { kind: plan.kind(), numbers: None, bytes });
    survives_damage(&column, values.len(), &mut dice());
}

/// Checks an encoding that contains a column of another one: values are restored, and damaged bytes
/// do no harm.
pub fn contains(kind: IntKind, values: &[u64]) {
    let mut column = Vec::new();
    let float = Float::Double;
    let chosen = IntEncoder::new().encode_floats_as(kind, None, float, values, &mut column);
    assert_eq!(chosen.kind, kind);
    round_trips(values, &column, chosen);
    survives_damage(&column, values.len(), &mut dice());
}

fn checked(column: &str, rows: usize) -> Result<Result<(), BadBlock>, BadBlock> {
    let byte = |hex| u8::from_str_radix(hex, 16).expect("hexadecimal");
    let bytes = padded(&column.split_whitespace().map(byte).collect::<Vec<u8>>());
    Ints::parse(&bytes, rows).map(|ints| ints.check())
}

/// Columns that fit into their bytes but contradict themselves, each next to a valid one.
pub fn contradictions_are_detected<S: AsRef<str>>(columns: &[(usize, S, S)]) {
    for (rows, sound, wrong) in columns {
        let (sound, wrong) = (sound.as_ref(), wrong.as_ref());
        assert_eq!(checked(sound, *rows), Ok(Ok(())), "{sound}");
        assert!(matches!(checked(wrong, *rows), Ok(Err(_))), "{wrong}");
    }
}

/// Columns of one row that are refused before they are read.
pub fn are_refused(columns: &[&str]) {
    for wrong in columns {
        assert!(checked(wrong, 1).is_err(), "{wrong}");
    }
}

#[test]
fn unknown_kinds_are_refused() {
    are_refused(&["47 00 00", "49 00 00", "C1 00 00"]);
}

/// Invariant 2 of the module.
#[test]
fn any_flipped_or_cut_byte_gives_values_or_an_error() {
    let mut encoder = IntEncoder::new();
    let mut dice = dice();
    let sorted: Vec<u64> = (0..200).map(|i| i * 1000 + i * i % 777).collect();
    let noise: Vec<u64> = (0..100).map(|_| dice() % 1000 + 5000).collect();
    let runs: Vec<u64> = (0..200).map(|i| i / 40 * 1_000_003).collect();
    let prices = (0..150).map(|row| if row % 9 == 4 { 0 } else { ordered(row as f64 / 100.0) });
    let prices: Vec<u64> = prices.collect();
    let restarts: Vec<u64> = (0..200).map(|i| i % 60 * 1000 + i % 7).collect();
    let nulls: Vec<u64> = (0..100).map(|i| if i % 3 == 0 { 0 } else { 1 << 40 | i }).collect();
    let steps: Vec<u64> = (0..120).map(|i| (1 << 50) + i * i % 4001 * 1000).collect();
    for values in [sorted, noise, runs, prices, restarts, nulls, steps] {
        for kind in KINDS.into_iter().chain([IntKind::Decimal]) {
            let mut column = Vec::new();
            encoder.encode_floats_as(kind, None, Float::Double, &values, &mut column);
            survives_damage(&column, values.len(), &mut dice);
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

#[test]
fn decimals_are_detected_among_nulls_and_other_values() {
    let price = |row: u64| (row * 7919 % 50_000) as f64 / 100.0;
    let prices: Vec<u64> = (0..1000).map(|row| ordered(price(row))).collect();
    let chosen = floats_round_trip(Float::Double, &prices);
    assert_eq!(
        chosen,
        Chosen { kind: IntKind::Decimal, numbers: Some(IntKind::BitPacked), bytes: 5 + 2 + 2000 }
    );
    let singles: Vec<u64> = (0..1000).map(|row| ordered_single(price(row) as f32)).collect();
    assert_eq!(floats_round_trip(Float::Single, &singles), chosen);
    // The placeholder of a null is zero bytes.
    let nulls: Vec<u64> = prices
        .iter()
        .enumerate()
        .map(|(row, price)| if row % 3 == 0 { 0 } else { *price })
        .collect();
    let chosen = floats_round_trip(Float::Double, &nulls);
    assert_eq!(chosen.kind, IntKind::Decimal);
    assert!(chosen.bytes < 2450, "{chosen:?}");
    let noise: Vec<u64> = (1..1000u64).map(|row| ordered((row as f64).sqrt())).collect();
    assert_ne!(floats_round_trip(Float::Double, &noise).kind, IntKind::Decimal);
}

/// Values that repeat across frames, next to ones that do not, in every kind: finding the end of
/// equal rows is a different problem from finding their start.
#[test]
fn long_repetitions_are_found_whole() {
    for lengths in [[31, 1, 32, 33], [64, 2, 95, 1], [5, 200, 1, 1], [32, 32, 32, 32]] {
        let of = |(word, &rows): (usize, &usize)| vec![word as u64 * 3 + 7; rows];
        check_all(&lengths.iter().enumerate().flat_map(of).collect::<Vec<u64>>());
    }
}

/// Calls everything on arbitrary bytes.
fn use_all(bytes: &[u8], rows: usize) {
    let Ok(ints) = Ints::parse(bytes, rows) else { return };
    let _ = ints.check();
    assert_eq!(Ints::read(bytes, rows, rows / 3), Ok(ints.get(rows / 3)));
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
fn the_documented_columns_match_the_written_bytes() {
    let mut shown = documented("One column of each kind");
    let steps: Vec<u64> = (0..34).map(|row| row * 2 + row % 2).collect();
    let hours: Vec<u64> = [2, 0, 3, 1].map(|number| 1000 + number * 3600).to_vec();
    let plain: [(IntKind, &[u64]); 8] = [
        (IntKind::BitPacked, &[1000, 1003, 1005, 1010]),
        (IntKind::Linear, &[100, 110, 121, 130]),
        (IntKind::Pfor, &[5, 1, 6, 2, 0, 3, 1000, 4]),
        (IntKind::SingleOutlier, &[1000, 0, 1002, 1005, 0]),
        (IntKind::Rle, &[9, 9, 9, 9, 9, 12, 12, 12]),
        (IntKind::Dictionary, &[300, 70000, 7, 7, 300, 7, 70000, 300]),
        (IntKind::Delta, &steps),
        (IntKind::Scaled, &hours),
    ];
    let mut encoder = IntEncoder::new();
    let mut column = Vec::new();
    for ((kind, values), shown) in plain.iter().zip(shown.drain(..8)) {
        column.clear();
        let chosen = encoder.encode_as(*kind, None, values, &mut column);
        assert_eq!((chosen.kind, hex(&column)), (*kind, hex(&shown)));
        round_trips(values, &shown, chosen);
    }
    let floats = [12.34, 0.5, f64::NAN, -0.25].map(ordered);
    column.clear();
    let kind = IntKind::Decimal;
    let chosen = encoder.encode_floats_as(kind, None, Float::Double, &floats, &mut column);
    assert_eq!((chosen.kind, hex(&column)), (IntKind::Decimal, hex(&shown[0])));
    round_trips(&floats, &shown[0], chosen);
    assert_eq!(shown.len(), 1);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X} ")).collect()
}

/// The bytes of the columns that follow this text in docs/format.md: a name, and all hexadecimal
/// bytes up to the next name or empty line.
fn documented(before: &str) -> Vec<Vec<u8>> {
    let text = include_str!("../../../../../../docs/format.md");
    let after = text.split(before).nth(1).expect("documented");
    let lines = after.lines().skip_while(|line| !line.starts_with("    "));
    let mut columns: Vec<Vec<u8>> = Vec::new();
    for line in lines.map_while(|line| line.strip_prefix("    ")) {
        let (name, bytes) = line.split_at(12.min(line.len()));
        if !name.trim().is_empty() {
            columns.push(Vec::new());
        }
        let byte = |hex: &str| u8::from_str_radix(hex, 16).expect("hexadecimal");
        columns.last_mut().expect("a name").extend(bytes.split_whitespace().map(byte));
    }
    columns
}
