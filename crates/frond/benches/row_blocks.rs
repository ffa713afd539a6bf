//! Benchmark of rows of trees without layouts, as leaves store them: bytes per row and ns per row,
//! by form and codec.
//!
//! Rows resemble those of the lab's tables and their indexes, with keys and values of one length,
//! except for links, whose data differ in length. `FILE=PATH` reads rows from a file instead: u32
//! length of key and of value, key, value. `cargo bench --bench row_blocks`.

use std::{hint::black_box, sync::Arc, time::Instant};

use frond::{
    feed::Tag,
    internals::{
        Lineage,
        block::{BLOCK_RAW_BYTES_TARGET, BlockBuilder, Codec, Packing, Pushed, Taken},
        cache::FramePool,
        io::RealClock,
        run::{RunBuilder, RunCursor, RunOptions, WorkByTree},
    },
};

const ROWS: u64 = 100_000;

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn be(number: u64) -> [u8; 4] {
    (number as u32).to_be_bytes()
}

fn digits(state: &mut u64, groups: usize) -> String {
    let group = |_| format!("{:011}", next(state) % 100_000_000_000);
    (0..groups).map(group).collect::<Vec<_>>().join("-")
}

fn sorted(row: impl FnMut(u64) -> (Vec<u8>, Vec<u8>)) -> Rows {
    let mut rows: Rows = (0..ROWS).map(row).collect();
    rows.sort();
    rows.dedup_by(|a, b| a.0 == b.0);
    rows
}

/// sbtest: a number, its `k`, and two texts of random digits.
fn sbtest(s: &mut u64) -> Rows {
    sorted(|id| {
        let k = be(next(s) % ROWS);
        (be(id).into(), [&k, digits(s, 10).as_bytes(), digits(s, 5).as_bytes()].concat())
    })
}

/// Its index: `k`, row number.
fn sbtest_k(s: &mut u64) -> Rows {
    sorted(|id| ([be(next(s) % ROWS), be(id)].concat(), Vec::new()))
}

/// iiBench: a number, date, register, customer, product, price.
fn purchases(s: &mut u64) -> Rows {
    sorted(|id| {
        let date = (1_300_000_000 + id / 1000).to_be_bytes();
        let value = [be(next(s) % 1000), be(next(s) % 100_000), be(next(s) % 10_000)].concat();
        (be(id).into(), [&date, &value[..], &(1.0 + id as f32 / 7.0).to_be_bytes()].concat())
    })
}

/// One of its indexes: price, customer, row number.
fn purchases_index(s: &mut u64) -> Rows {
    sorted(|id| {
        let (price, customer) = (next(s) % 20 * 100, next(s) % 100_000);
        ([be(price), be(customer), be(id)].concat(), Vec::new())
    })
}

/// linktable: id1, type, id2; data of 1 to 16 bytes, and a time.
fn links(s: &mut u64) -> Rows {
    sorted(|id| {
        let key = [(id / 7).to_be_bytes(), 123u64.to_be_bytes(), (next(s) >> 20).to_be_bytes()];
        let data = digits(s, 2)[..1 + next(s) as usize % 16].to_owned();
        let value = [data.as_bytes(), &(1_400_000_000 + next(s) % 10_000).to_be_bytes()];
        (key.concat(), value.concat())
    })
}

/// Incompressible rows.
fn noise(s: &mut u64) -> Rows {
    let words = |s: &mut u64, n| (0..n).flat_map(|_| next(s).to_be_bytes()).collect::<Vec<_>>();
    sorted(|_| (words(s, 2), words(s, 8)))
}

fn file(path: &str) -> Rows {
    let bytes = std::fs::read(path).unwrap();
    let (mut rows, mut left) = (Rows::new(), &bytes[..]);
    let take = |n: usize, left: &mut &[u8]| {
        let (taken, rest) = left.split_at(n);
        *left = rest;
        taken.to_vec()
    };
    while !left.is_empty() {
        let mut length = || u32::from_le_bytes(take(4, &mut left).try_into().unwrap()) as usize;
        let (key, value) = (length(), length());
        rows.push((take(key, &mut left), take(value, &mut left)));
    }
    rows
}

/// The best of several rounds, in ns per row; `REPEAT` in the environment sets their number.
fn measure(rows: usize, mut work: impl FnMut()) -> f64 {
    let repeat = std::env::var("REPEAT").ok().and_then(|n| n.parse().ok()).unwrap_or(5);
    let times = (0..repeat).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_nanos() as f64 / rows as f64
    });
    times.fold(f64::MAX, f64::min)
}

fn blocks(rows: &Rows) -> Vec<Vec<u8>> {
    let (mut blocks, mut builder) = (Vec::new(), BlockBuilder::new());
    for (key, value) in rows {
        if builder.push(key, Tag::PUT, value, BLOCK_RAW_BYTES_TARGET) == Pushed::Full {
            blocks.push(builder.finish().to_vec());
            builder.clear();
            assert_eq!(builder.push(key, Tag::PUT, value, BLOCK_RAW_BYTES_TARGET), Pushed::Done);
        }
    }
    blocks.push(builder.finish().to_vec());
    blocks
}

/// Bytes per row, and ns per row to encode and to decode.
fn one_way(
    rows: usize,
    blocks: &[Vec<u8>],
    mut encode: impl FnMut(&[u8], &mut Vec<u8>) -> Packing,
) -> (f64, f64, f64) {
    let mut stored = vec![(Packing::RAW, Vec::new()); blocks.len()];
    let encoding = measure(rows, || {
        for (block, (packing, out)) in blocks.iter().zip(&mut stored) {
            *packing = encode(block, out);
        }
    });
    let mut out = vec![0; BLOCK_RAW_BYTES_TARGET + (64 << 10)];
    let mut bytes = 0;
    let decoding = measure(rows, || {
        bytes = 0;
        for (block, (packing, encoded)) in blocks.iter().zip(&stored) {
            let encoded = if packing.is_raw() { block } else { encoded };
            packing.decode(None, encoded, &mut out[..block.len()]).unwrap();
            bytes += encoded.len();
        }
        black_box(&out);
    });
    (bytes as f64 / rows as f64, encoding, decoding)
}

/// Bytes per row of leaves of a tree that chooses the form itself, and ns to build and to scan
/// them.
fn leaves(rows: &Rows, codec: Codec) -> (f64, f64, f64) {
    let options = RunOptions { codec, ..RunOptions::default() };
    let work = WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(1));
    let pool = FramePool::new(1 << 30);
    let mut runs = Vec::new();
    let building = measure(rows.len(), || {
        runs.clear();
        let leaf = || RunBuilder::new(pool.clone(), options).counted(work.clone());
        let mut builder = leaf();
        for (key, value) in rows {
            builder.push(key, Tag::PUT, value).unwrap();
            if builder.bytes_so_far() > 1 << 20 {
                runs.extend(std::mem::replace(&mut builder, leaf()).finish().unwrap());
            }
        }
        runs.extend(builder.finish().unwrap());
    });
    let walking = measure(rows.len(), || {
        for run in &runs {
            let mut cursor = RunCursor::bulk(run.clone());
            cursor.seek_first().unwrap();
            while let Some(entry) = cursor.entry() {
                black_box(entry.payload);
                cursor.advance().unwrap();
            }
        }
    });
    let bytes: u64 = runs.iter().map(|run| run.data_bytes()).sum();
    (bytes as f64 / rows.len() as f64, building, walking)
}

fn show(name: &str, rows: &Rows) {
    let blocks = blocks(rows);
    let raw: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
    println!("{name}: {:.1} bytes a row", raw as f64 / rows.len() as f64);
    for (name, codec) in [("lz4", Codec::Lz4), ("zstd-1", Codec::Zstd1), ("zstd-3", Codec::Zstd3)] {
        let line = |what: &str, (bytes, encode, decode): (f64, f64, f64)| {
            println!("  {name:<8}{what:<34}{bytes:8.2} B{encode:8.1} ns{decode:8.1} ns");
        };
        line("as they are: encode, decode", {
            one_way(rows.len(), &blocks, |block, out| codec.encode(block, out).into())
        });
        for summed in [false, true] {
            let mut taken = Taken::default();
            let mut summed_to = None;
            let ways = one_way(rows.len(), &blocks, |block, out| {
                if !taken.take(block) {
                    return codec.encode(block, out).into();
                }
                let best = *summed_to.get_or_insert_with(|| taken.best_summed());
                match taken.form(if summed { best } else { 0 }) {
                    Some(form) => {
                        let codec = codec.encode(form, out);
                        Packing { codec, is_transposed: codec != Codec::Raw, has_dictionary: false }
                    }
                    None => codec.encode(block, out).into(),
                }
            });
            match summed_to.filter(|_| summed) {
                Some(to) => line(&format!("transposed, sums to {to}"), ways),
                None => line("transposed", ways),
            }
        }
        line("leaves: build, walk", leaves(rows, codec));
    }
}

fn main() {
    if let Ok(paths) = std::env::var("FILE") {
        paths.split(',').for_each(|path| show(path, &file(path)));
        return;
    }
    let mut state = 1;
    show("sbtest", &sbtest(&mut state));
    show("sbtest, index", &sbtest_k(&mut state));
    show("purchases", &purchases(&mut state));
    show("purchases, index", &purchases_index(&mut state));
    show("links", &links(&mut state));
    show("noise", &noise(&mut state));
}
