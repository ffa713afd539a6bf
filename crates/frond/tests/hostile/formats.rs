//! Single encodings, corrupted and read by themselves: integer and string columns, models, and the
//! formats of runs.

use frond::internals::block::{
    Codec, ColumnarFormat, Format, MODELS_MEMORY_MAX,
    encoding::{
        Float, IntEncoder, Ints, PAD_BYTES,
        string::{Purpose, StrEncoder, StringModel, Strings, Strs, train},
    },
};
use frond_testkit::Dice;

use crate::{
    corrupt,
    counting::peak_of,
    samples::{Course, Text, number, text},
};

const SOME: usize = 64 << 10;
const PAD: [u8; PAD_BYTES] = [0xa5; PAD_BYTES];

/// Integer columns of all courses, corrupted `corruptions` times.
pub fn integers(dice: &mut Dice, corruptions: usize) {
    let rows = 1 + dice.below(200);
    let course = Course::random(dice);
    let mut values: Vec<u64> = (0..rows).map(|row| number(dice, course, row, row * 40)).collect();
    if dice.chance(1, 2) {
        values.sort_unstable();
    }
    let mut column = Vec::new();
    if dice.chance(1, 4) {
        let bits = values.iter().map(|value| (*value as f64 / 100.0).to_bits() ^ 1 << 63);
        values = bits.collect();
        IntEncoder::new().encode_floats(Float::Double, &values, &mut column);
    } else {
        IntEncoder::new().encode(&values, &mut column);
    }
    for _ in 0..corruptions {
        let mut damaged = column.clone();
        (0..1 + dice.below(3)).for_each(|_| corrupt::bytes(dice, &mut damaged));
        damaged.extend(PAD);
        let rows = *dice.pick(&[rows, rows, rows, rows / 2, rows + 1, 65_535]) as usize;
        let ((), peak) = peak_of(|| read_integers(&damaged, rows, &values));
        assert!(peak < 8 * rows + SOME, "{peak} bytes of memory for {rows} integers");
    }
}

fn read_integers(column: &[u8], rows: usize, values: &[u64]) {
    for row in [0, rows / 2, rows, usize::MAX] {
        let _ = Ints::read(column, rows, row);
    }
    let Ok(ints) = Ints::parse(column, rows) else { return };
    assert!(ints.bytes_used() <= column.len());
    let sound = ints.check().is_ok();
    let mut all = vec![0; rows];
    ints.decode(0, &mut all);
    let mut piece = [0; 40];
    for first in [0, 1, rows / 2, rows.saturating_sub(20), rows + 7, usize::MAX] {
        ints.decode(first, &mut piece);
        if sound && first < rows {
            let count = (rows - first).min(piece.len());
            assert_eq!(piece[..count], all[first..first + count], "from row {first}");
        }
    }
    let last = rows.saturating_sub(1);
    for row in [0, 1, rows / 3, last, rows, usize::MAX] {
        let value = ints.get(row);
        assert!(
            !sound
                || row >= rows
                || value == all[row] && Ints::read(column, rows, row) == Ok(value)
        );
    }
    let ascends = sound && all.is_sorted();
    for value in values.iter().step_by(1 + values.len() / 6).copied().chain([
        0,
        u64::MAX,
        all.get(rows / 2).copied().unwrap_or(7),
    ]) {
        for range in [0..rows, rows / 2..rows, rows..rows, 0..usize::MAX] {
            let bound = ints.lower_bound(range.clone(), value);
            let equal = ints.equal_range(range.clone(), value);
            assert!(bound <= rows.max(range.start) && equal.end <= rows.max(range.start));
            if ascends && range.end <= rows {
                let first = range.start + all[range.clone()].partition_point(|at| *at < value);
                let end = range.start + all[range.clone()].partition_point(|at| *at <= value);
                assert_eq!((bound, equal.len()), (first, end - first), "{:?}", ints.kind());
            }
        }
    }
}

/// String columns of all kinds, in their best encoding, corrupted `corruptions` times.
pub fn strings(dice: &mut Dice, corruptions: usize) {
    let (rows, sort) = (1 + dice.below(90), Text::random(dice));
    let mut all: Vec<Vec<u8>> = (0..rows).map(|row| text(dice, sort, row)).collect();
    if dice.chance(1, 2) {
        all.sort_unstable();
    }
    let strings: Strings = all.iter().map(Vec::as_slice).collect();
    let mut encoder = StrEncoder::new();
    let codec = *dice.pick(&[Codec::Raw, Codec::Zstd1]);
    let purpose = Purpose { key: dice.chance(1, 2), codec, model_rows: 1 << 14 };
    let trained = train(&mut encoder, std::slice::from_ref(&strings), purpose);
    let mut column = Vec::new();
    encoder.encode(&strings, trained.model.as_ref(), trained.plan, &mut column);
    let bytes_max = strings.bytes().len();
    for _ in 0..corruptions {
        let mut damaged = column.clone();
        (0..1 + dice.below(3)).for_each(|_| corrupt::bytes(dice, &mut damaged));
        damaged.extend(PAD);
        let rows = *dice.pick(&[rows, rows, rows, rows / 2, rows + 1, 65_535]) as usize;
        let read = || read_strings(&damaged, rows, trained.model.as_ref(), bytes_max, &all);
        let ((), peak) = peak_of(read);
        // Chunk, strings and their end positions grow by doubling.
        let bound = 8 * (bytes_max + damaged.len()) + 16 * rows + SOME;
        assert!(peak < bound, "{peak} bytes of memory for {rows} strings of {bytes_max}: {bound}");
    }
}

fn read_strings(
    column: &[u8],
    rows: usize,
    model: Option<&StringModel>,
    bytes_max: usize,
    all: &[Vec<u8>],
) {
    let (mut chunk, mut one) = (Vec::new(), Vec::new());
    let Ok(strs) = Strs::parse(column, rows, model, bytes_max, &mut chunk) else { return };
    assert!(strs.bytes_used() <= column.len());
    let sound = strs.check().is_ok();
    let mut decoded = Strings::new();
    let whole = strs.decode_all(&mut decoded).is_ok();
    for row in [0, 1, rows / 2, rows.saturating_sub(1), rows, usize::MAX] {
        one.clear();
        let read = strs.get(row, &mut one);
        let order = strs.cmp(row, b"customer");
        assert!(!sound || read.is_ok() == (row < rows) && order.is_ok() == read.is_ok());
        if sound && whole && row < rows {
            assert_eq!(one, decoded.get(row), "{:?}", strs.kind());
            assert_eq!(order, Ok(one[..].cmp(b"customer")));
        }
    }
    let ascends = sound && whole && decoded.ascends();
    for key in
        all.iter().step_by(1 + all.len() / 4).map(Vec::as_slice).chain([&b""[..], &[0xff; 20]])
    {
        for range in [0..rows, rows / 2..rows, rows..rows] {
            let bound = strs.lower_bound(range.clone(), key);
            let equal = strs.equal_range(range.clone(), key);
            if ascends {
                let below = range.clone().filter(|&row| decoded.get(row) < key).count();
                let same = range.clone().filter(|&row| decoded.get(row) == key).count();
                assert_eq!(bound, Ok(range.start + below), "{:?}", strs.kind());
                assert_eq!(equal.map(|rows| rows.len()), Ok(same));
            }
        }
    }
    let _ = strs.lower_bound(0..rows + 1, b"");
}

/// Models and whole formats, corrupted `corruptions` times each.
pub fn models(dice: &mut Dice, format: &Format, corruptions: usize) {
    let Format::Columnar(format) = format else { return };
    let mut bytes = Vec::new();
    format.to_disk(&mut bytes);
    for model in format.models().iter().flatten() {
        for _ in 0..corruptions {
            let mut damaged = model.as_bytes().to_vec();
            (0..1 + dice.below(3)).for_each(|_| corrupt::bytes(dice, &mut damaged));
            let (read, peak) = peak_of(|| StringModel::parse(&damaged));
            // Words share prefixes with those before; their total length is bounded.
            assert!(
                peak < 8 * damaged.len() + (4 << 20),
                "{peak} bytes for a model of {}",
                damaged.len()
            );
            if let Ok(read) = read {
                assert_eq!(read.as_bytes(), damaged);
            }
        }
    }
    for _ in 0..corruptions {
        let mut damaged = bytes.clone();
        (0..1 + dice.below(3)).for_each(|_| corrupt::bytes(dice, &mut damaged));
        let (read, peak) = peak_of(|| ColumnarFormat::from_disk(&damaged));
        assert!(
            peak < 2 * MODELS_MEMORY_MAX + SOME,
            "{peak} bytes for a format of {}",
            damaged.len()
        );
        if let Ok(read) = read {
            assert!(read.memory_bytes() <= MODELS_MEMORY_MAX + (1 << 20));
            let mut again = Vec::new();
            read.to_disk(&mut again);
            assert!(ColumnarFormat::from_disk(&again).is_ok_and(|same| same == read));
        }
    }
}
