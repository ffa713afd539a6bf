//! Pins the encoded sizes of a fixed set of columns, so that a review shows if one grows.
//!
//! They resemble columns of the data sets for which the encodings were chosen: blocks of some
//! hundred to two thousand rows of index entries and narrow rows.

use super::{Float, IntEncoder, tests::ordered};

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 24) % end
    }

    /// Mostly small, with a long tail.
    fn tail(&mut self) -> u64 {
        let small = self.below(200);
        (0..10).take_while(|_| self.below(3) == 0).fold(small, |n, _| n * 4 + 100)
    }
}

type Column = (&'static str, usize, fn(u64, &mut Noise, u64) -> u64);

/// A name, a number of rows, and a value computed from the row, noise and the previous value.
const COLUMNS: [Column; 18] = [
    ("same day", 1000, |_, _, _| 20_231_011),
    ("id", 1000, |row, _, _| 73_000_000 + row),
    ("time of events", 1000, |row, noise, _| 1_700_000_000_000_000 + row * 20 + noise.below(20)),
    ("random id of 10 M", 1000, |_, noise, _| noise.below(10_000_000)),
    ("key of an index", 2000, |_, noise, before| before.max(5_000_000) + noise.below(6)),
    ("key with gaps", 2000, |row, noise, before| {
        before + noise.below(4) + if row % 100 < 9 { noise.below(5000) } else { 0 }
    }),
    ("price, leading", 2000, |_, noise, before| {
        before.max(400) + if noise.below(150) == 0 { 1 } else { 0 }
    }),
    ("customer within price", 2000, |row, noise, before| {
        if row % 150 == 0 { noise.below(700) } else { before + noise.below(1300) }
    }),
    ("register", 1300, |_, noise, _| noise.below(1000)),
    ("duration", 130, |_, noise, _| noise.tail()),
    ("rows sent", 1000, |_, noise, _| noise.tail() / 150),
    ("state", 1000, |_, noise, _| [0, 1, 17, 4_000_000_000][noise.below(4) as usize]),
    ("end, often unknown", 1000, |row, noise, _| match noise.below(4) {
        0 => 0,
        _ => 1_700_000_000_000_000 + row * 1000 + noise.below(100_000),
    }),
    ("hash", 130, |_, noise, _| noise.below(1 << 40) << 24 | noise.below(1 << 24)),
    ("time by the second", 1300, |_, noise, _| {
        1_700_000_000_000_000 + noise.below(200) * 1_000_000
    }),
    ("time by the second, ascending", 1300, |row, noise, before| {
        before.max(1_700_000_000_000_000) + noise.below(2 + row % 7) * 1_000_000
    }),
    ("amount in hundreds, tail", 1000, |_, noise, _| noise.tail() * 100),
    ("id by 10", 1000, |_, noise, _| noise.below(1_000_000) * 10 + 3),
];

#[test]
fn encoded_sizes_of_fixed_columns_are_stable() {
    let mut encoder = IntEncoder::new();
    let (mut text, mut out) = (String::new(), Vec::new());
    for (name, rows, value) in COLUMNS {
        let (mut noise, mut before) = (Noise(7), 0);
        let values: Vec<u64> = (0..rows as u64)
            .map(|row| {
                before = value(row, &mut noise, before);
                before
            })
            .collect();
        let chosen = encoder.encode(&values, &mut out);
        text += &format!("{name}, {rows}: {:?} {}\n", chosen.kind, chosen.bytes);
    }
    let mut noise = Noise(9);
    let floats: Vec<u64> =
        (0..1000).map(|_| ordered((noise.below(100_000) / 3 + 500) as f64 / 100.0)).collect();
    let chosen = encoder.encode_floats(Float::Double, &floats, &mut out);
    text += &format!("price, float, 1000: {:?} {}\n", chosen.kind, chosen.bytes);
    assert_eq!(text, SIZES, "these are now:\n{text}");
}

const SIZES: &str = "\
same day, 1000: Constant 6
id, 1000: Linear 7
time of events, 1000: Linear 637
random id of 10 M, 1000: BitPacked 3004
key of an index, 2000: Delta 794
key with gaps, 2000: Delta 1570
price, leading, 2000: Rle 29
customer within price, 2000: Delta 2844
register, 1300: BitPacked 1627
duration, 130: Pfor 209
rows sent, 1000: Pfor 661
state, 1000: Dictionary 270
end, often unknown, 1000: SingleOutlier 2635
hash, 130: BitPacked 1050
time by the second, 1300: Scaled 1314
time by the second, ascending, 1300: Scaled 532
amount in hundreds, tail, 1000: Scaled 1624
id by 10, 1000: Scaled 2507
price, float, 1000: Decimal 1940
";
