//! Integer columns, kind by kind: bits per value, and ns per value to encode, decode, read one and
//! search, with the budgets of the design.

use std::{hint::black_box, time::Instant};

use frond::internals::block::encoding::{Float, IntEncoder, IntKind, Ints, PAD_BYTES};

use crate::judge::judge;

/// Rows in a block of narrow rows: 32 KiB of 16 bytes each.
const ROWS: usize = 2048;

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The best of many rounds, in ns per operation; `REPEAT` in the environment sets their number.
fn measure(pieces: usize, mut work: impl FnMut()) -> f64 {
    let repeat = std::env::var("REPEAT").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let mut best = f64::MAX;
    for _ in 0..repeat {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / pieces as f64);
    }
    best
}

/// Columns of all sorts, and the kind that each should get.
fn columns() -> Vec<(&'static str, IntKind, Vec<u64>)> {
    let mut state = 1;
    let mut dice = move |below: u64| next(&mut state) % below;
    let rows = |value: &mut dyn FnMut(u64) -> u64| (0..ROWS as u64).map(value).collect();
    let mut at = 0;
    let mut far = 0;
    vec![
        ("one value", IntKind::Constant, rows(&mut |_| 1_700_000_000)),
        ("customer, 10 bits", IntKind::BitPacked, rows(&mut |_| 5000 + dice(1000))),
        ("register, 23 bits", IntKind::BitPacked, rows(&mut |_| dice(1 << 23))),
        ("hash, 62 bits", IntKind::BitPacked, rows(&mut |_| dice(1 << 62))),
        ("ids with steps of 3", IntKind::Linear, rows(&mut |row| 1 << 40 | (row * 3))),
        ("times, 5 bits off", IntKind::Linear, rows(&mut |row| 1 << 50 | (row * 1777 + dice(30)))),
        (
            "times, some unknown",
            IntKind::SingleOutlier,
            rows(&mut |_| if dice(5) == 0 { 0 } else { 1_700_000_000 + dice(100_000) }),
        ),
        (
            "durations with a tail",
            IntKind::Pfor,
            rows(&mut |_| dice(400) + if dice(40) == 0 { dice(1 << 30) } else { 0 }),
        ),
        (
            "times by the second",
            IntKind::Scaled,
            rows(&mut |_| 1_700_000_000_000_000 + dice(200) * 1_000_000),
        ),
        ("40 states, 30 bits", IntKind::Dictionary, rows(&mut |_| dice(40) * 26_000_000 + 17)),
        ("runs of about 100", IntKind::Rle, {
            rows(&mut |_| {
                at += if dice(100) == 0 { dice(1 << 20) } else { 0 };
                at
            })
        }),
        (
            "prices, 2 digits",
            IntKind::Decimal,
            rows(&mut |_| ((dice(50_000) + 100) as f64 / 100.0).to_bits() | 1 << 63),
        ),
        ("sorted, steps up to 15", IntKind::Delta, {
            rows(&mut |_| {
                far += dice(16);
                far
            })
        }),
    ]
}

/// Prints the table; a command-line word that occurs in names of columns selects them.
pub fn print() {
    println!(
        "{:<24}{:>11}{:>7}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "ns a value",
        "kind",
        "bits",
        "encode",
        "as kind",
        "decode",
        "+parse",
        "read",
        "get",
        "search"
    );
    println!(
        "{:<42}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "budget", "4-5", "1-3", "0.8-1.3", "+5", "+5", "2-3, 20", "40, 50"
    );
    let mut state = 7;
    let picks: Vec<usize> = (0..ROWS).map(|_| next(&mut state) as usize % ROWS).collect();
    let mut words = std::env::args().skip(1);
    let is_in_some =
        |word: &String| columns().iter().any(|(name, ..)| name.contains(word.as_str()));
    let wanted = words.find(is_in_some).unwrap_or_default();
    for (name, kind, values) in columns() {
        if !name.contains(&wanted) {
            continue;
        }
        let mut encoder = IntEncoder::new();
        let mut bytes = Vec::new();
        let encode = |encoder: &mut IntEncoder, bytes: &mut Vec<u8>| match kind {
            IntKind::Decimal => encoder.encode_floats(Float::Double, black_box(&values), bytes),
            _ => encoder.encode(black_box(&values), bytes),
        };
        let chosen = encode(&mut encoder, &mut bytes);
        assert_eq!(chosen.kind, kind, "{name}");
        let encode = measure(ROWS, || {
            bytes.clear();
            black_box(encode(&mut encoder, &mut bytes));
        });
        let encode_as = measure(ROWS, || {
            bytes.clear();
            let values = black_box(&values);
            black_box(encoder.encode_floats_as(kind, None, Float::Double, values, &mut bytes));
        });
        bytes.extend_from_slice(&[0; PAD_BYTES]);
        let ints = Ints::parse(&bytes, ROWS).expect("an integer column");
        let mut out = vec![0; 1024];
        let decode = measure(ROWS, || {
            for first in (0..ROWS).step_by(out.len()) {
                black_box(&ints).decode(first, &mut out);
                black_box(&out);
            }
        });
        let parse_get = measure(ROWS, || {
            let mut sum = 0u64;
            for pick in &picks {
                let ints = Ints::parse(black_box(&bytes[..]), ROWS).expect("an integer column");
                sum = sum.wrapping_add(ints.get(*pick));
            }
            black_box(sum);
        });
        let read = measure(ROWS, || {
            let mut sum = 0u64;
            for pick in &picks {
                let value = Ints::read(black_box(&bytes[..]), ROWS, *pick);
                sum = sum.wrapping_add(value.expect("an integer column"));
            }
            black_box(sum);
        });
        let get = measure(ROWS, || {
            let mut sum = 0u64;
            for pick in &picks {
                sum = sum.wrapping_add(ints.get(*pick));
            }
            black_box(sum);
        });
        let search = values.is_sorted().then(|| {
            measure(ROWS, || {
                let mut sum = 0;
                for pick in &picks {
                    sum += ints.lower_bound(0..ROWS, black_box(values[*pick]));
                }
                black_box(sum);
            })
        });
        // Floats are converted to whole numbers first, which takes some more time.
        let more = if kind == IntKind::Decimal { 5.0 } else { 0.0 };
        judge(format!("{name}, encoded as its kind, ns a value"), encode_as, 5.0 + more);
        judge(format!("{name}, decoded, ns a value"), decode, 1.3 + more);
        let bits = chosen.bytes as f64 * 8.0 / ROWS as f64;
        let search = search.map_or(String::new(), |ns| format!("{ns:9.1}"));
        println!(
            "{name:<24}{:>11}{bits:>7.2}{encode:>9.2}{encode_as:>9.2}{decode:>9.2}{parse_get:>9.2}{read:>9.2}{get:>9.2}{search}",
            format!("{kind:?}")
        );
    }
}
