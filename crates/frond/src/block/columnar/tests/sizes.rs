//! Test of the sizes of fixed blocks, so that review shows a change that makes one longer.
//!
//! Rows resemble those of the tables that the design was measured on: a narrow table, two of its
//! kinds of index, a log row with strings, and what a buffer holds of it.

use super::{
    super::{ColumnarBlock, ColumnarBuilder, Columns, Plans, check},
    rows::Noise,
};
use crate::{
    block::{Codec, Pushed},
    coding::put_bytes,
    layout::{End, Hint, Layout, Part},
    message::Tag,
    sync::Arc,
};

/// A name, the fields of key and value, and rows.
struct Table {
    name: &'static str,
    key: Vec<Part>,
    value: Vec<Part>,
    rows: Vec<(Vec<u8>, Tag, Vec<u8>)>,
}

fn int(width: u16) -> Part {
    Part::Fixed(width, Hint::Integer)
}

fn price(noise: &mut Noise) -> [u8; 4] {
    let cents = (500 * noise.below(100) + noise.below(100_000)) / 100;
    (((cents as f32) / 100.0).to_bits() ^ 1 << 31).to_be_bytes()
}

/// Keys in order, each once.
fn sorted(mut rows: Vec<(Vec<u8>, Tag, Vec<u8>)>) -> Vec<(Vec<u8>, Tag, Vec<u8>)> {
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    rows.dedup_by(|a, b| a.0 == b.0);
    rows
}

fn tables() -> Vec<Table> {
    let mut noise = Noise(11);
    let mut purchases = Vec::new();
    for id in 0..1300u32 {
        let mut value = 0x19_8a3f_b2c1u64.to_be_bytes()[3..].to_vec();
        value.extend_from_slice(&(noise.below(1000) as u32).to_be_bytes());
        value.extend_from_slice(&(noise.below(100_000) as u32).to_be_bytes());
        value.extend_from_slice(&(noise.below(10_000) as u32).to_be_bytes());
        value.extend_from_slice(&price(&mut noise));
        purchases.push(((70_000_000 + id).to_be_bytes().to_vec(), Tag::PUT, value));
    }
    let mut register = Vec::new();
    for _ in 0..2000 {
        let mut key = (500 + noise.below(2) as u32).to_be_bytes().to_vec();
        key.extend_from_slice(&price(&mut noise));
        key.extend_from_slice(&(noise.below(100_000) as u32).to_be_bytes());
        key.extend_from_slice(&(noise.below(100_000_000) as u32).to_be_bytes());
        register.push((key, Tag::PUT, vec![]));
    }
    let (mut instance, mut log, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut begin = 1_790_000_000_000_000u64;
    for id in 0..1100u64 {
        begin += noise.below(2_000_000);
        let mut key = format!("instance-{:03}", 40 + id / 700).into_bytes();
        key.extend_from_slice(&[0, 1]);
        key.extend_from_slice(&begin.to_be_bytes());
        key.extend_from_slice(&(9_000_000_000 + id * 200 + noise.below(200)).to_be_bytes());
        instance.push((key, Tag::PUT, vec![]));
        if id < 120 {
            let mut value = begin.to_be_bytes().to_vec();
            value.extend_from_slice(&(noise.below(400) as u32).to_be_bytes());
            put_bytes(&mut value, format!("user{}", noise.below(60)).as_bytes());
            put_bytes(&mut value, format!("@id=N'{}',@n={id}", noise.below(1 << 30)).as_bytes());
            let key = (5_000_000 + id).to_be_bytes().to_vec();
            log.push((key.clone(), Tag::PUT, value.clone()));
            buffer.push(match noise.below(5) {
                0 => (key, Tag::DELETE, vec![]),
                1 => (key, Tag::MERGE, vec![1, 4, 1, 0, 0, 0]),
                _ => (key, Tag::PUT_FRESH, value),
            });
        }
    }
    let (mut tasks, mut noise) = (Vec::new(), Noise(12));
    for id in 0..700u64 {
        let begin = 1_790_000_000_000_000 + noise.below(86_400_000_000);
        let end = begin + 200 + noise.below(5000) * (1 + 40 * u64::from(noise.below(20) == 0));
        let mut value = [begin.to_be_bytes(), end.to_be_bytes()].concat();
        value.extend_from_slice(&(noise.below(400) as u32).to_be_bytes());
        tasks.push(((9_000_000_000 + id).to_be_bytes().to_vec(), Tag::PUT, value));
    }
    let (mut by_price, mut by_duration) = (Vec::new(), Vec::new());
    for id in 0..1300u64 {
        let second = 1_790_000_000_000 + noise.below(200) * 1000;
        let key = [&price(&mut noise)[..], &second.to_be_bytes()].concat();
        by_price.push((
            [&key[..], &(70_000_000 + id as u32).to_be_bytes()].concat(),
            Tag::PUT,
            vec![],
        ));
        let duration = 800 + noise.below(20);
        let end = 1_790_000_000_000_000 + noise.below(86_400_000_000);
        let key = [duration, end, end - duration, 9_000_000_000 + id].map(u64::to_be_bytes);
        by_duration.push((key.concat(), Tag::PUT, vec![]));
    }
    let (mut by_time, mut noise) = (Vec::new(), Noise(14));
    for _ in 0..1300 {
        let milli = noise.below(100_000) * 50;
        let id = 20 * milli as u32 + noise.below(1000) as u32;
        let key = [&price(&mut noise)[..], &(1_790_000_000_000 + milli).to_be_bytes()].concat();
        by_time.push(([&key[..], &id.to_be_bytes()].concat(), Tag::PUT, vec![]));
    }
    let (mut files, mut noise) = (Vec::new(), Noise(13));
    for _ in 0..200 {
        let (name, version) = (noise.below(1 << 44), noise.below(1 << 14));
        let (name, version) =
            (format!("lib{name:x}"), format!("{}.{}", version >> 7, version & 127));
        let key = [name.as_bytes(), &[0, 1], version.as_bytes(), &[0, 1]].concat();
        let mut value = (noise.below(1 << 20) as u32).to_be_bytes().to_vec();
        put_bytes(&mut value, format!("pool/{name}/{name}_{version}_all.deb").as_bytes());
        files.push((key, Tag::PUT, value));
    }
    let micros = Part::Fixed(8, Hint::Microseconds);
    let prefixed = Part::Var(End::Prefixed);
    let float = Part::Fixed(4, Hint::Float);
    let purchase = vec![int(5), int(4), int(4), int(4), float];
    let entry = vec![micros, int(4), prefixed, prefixed];
    let rest = vec![Part::Var(End::Rest)];
    let instance_key = vec![Part::Var(End::Escaped), micros, int(8)];
    let register_key = vec![int(4), float, int(4), int(4)];
    let table = |name, key, value, rows| Table { name, key, value, rows: sorted(rows) };
    vec![
        table("purchases", vec![int(4)], purchase, purchases),
        table("register, price, customer", register_key, rest.clone(), register),
        table("instance, begin", instance_key, rest.clone(), instance),
        table("task, begin, end", vec![int(8)], vec![micros, micros, int(4)], tasks),
        table("price, second", vec![float, int(8), int(4)], rest.clone(), by_price),
        table("price, second, id", vec![float, int(8), int(4)], rest.clone(), by_time),
        table("duration, end, begin", vec![int(8), micros, micros, int(8)], rest, by_duration),
        table("file of its name", vec![Part::Var(End::Escaped); 2], vec![int(4), prefixed], files),
        table("log", vec![int(8)], entry.clone(), log),
        table("log, buffered", vec![int(8)], entry, buffer),
    ]
}

#[test]
fn encoded_sizes_of_fixed_blocks_are_stable() {
    let mut text = String::new();
    for Table { name, key, value, rows } in tables() {
        let columns = Arc::new(Columns::new(&Layout::new(key), &Layout::new(value)));
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
        for (key, tag, payload) in &rows {
            assert_eq!(builder.push(key, *tag, payload, 64 << 10), Pushed::Done, "{name}");
        }
        let raw_bytes = builder.raw_bytes();
        let block = builder.finish(&[]).to_vec();
        check(&ColumnarBlock::parse(&block, &columns, &[]).unwrap()).unwrap();
        text += &format!("{name}, {}: {raw_bytes} in {}\n", rows.len(), block.len());
    }
    assert_eq!(text, SIZES, "these are now:\n{text}");
}

const SIZES: &str = "\
purchases, 1300: 32500 in 8514
register, price, customer, 2000: 32000 in 11893
instance, begin, 1100: 33000 in 4106
task, begin, end, 700: 19600 in 5367
price, second, 1300: 20800 in 3672
price, second, id, 1300: 20800 in 5104
duration, end, begin, 1300: 41600 in 7417
file of its name, 200: 14673 in 3290
log, 120: 5994 in 2866
log, buffered, 120: 4115 in 2326
";

/// A builder that has seen other rows writes a block hardly longer than one that has not: plans are
/// dropped when they miss.
#[test]
fn plans_adapt_to_the_rows() {
    type Value = fn(&mut Noise, u64) -> (u64, String);
    let sorts: [Value; 5] = [
        |_, row| (row * 3, format!("{:09}-{:04}", row * 77_777, row % 50)),
        |noise, _| (noise.below(1 << 50), String::from_utf8(noise.bytes(9)).unwrap_or_default()),
        |_, _| (7, "the same".to_owned()),
        |noise, row| (row / 100, ["red", "green", "blue"][noise.below(3) as usize].to_owned()),
        |noise, row| {
            (row + noise.below(1 << 40) * u64::from(row % 40 == 0), format!("row-{row:07}"))
        },
    ];
    let key = Layout::new(vec![int(4)]);
    let value = Layout::new(vec![int(8), Part::Var(End::Prefixed)]);
    let columns = Arc::new(Columns::new(&key, &value));
    let new = || ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
    let mut kept = new();
    let mut noise = Noise(2);
    for (number, sort) in sorts.iter().cycle().take(12).enumerate() {
        let mut fresh = new();
        for row in 0..700u64 {
            let (word, string) = sort(&mut noise, row);
            let mut payload = word.to_be_bytes().to_vec();
            put_bytes(&mut payload, string.as_bytes());
            for builder in [&mut fresh, &mut kept] {
                let key = (row as u32).to_be_bytes();
                assert_eq!(builder.push(&key, Tag::PUT, &payload, 1 << 20), Pushed::Done);
            }
        }
        // Columns are measured again after a number of blocks: the same kind is repeated until that
        // has happened.
        for _ in 0..512 {
            kept.finish(&[]);
        }
        let (kept_bytes, fresh_bytes) = (kept.finish(&[]).len(), fresh.finish(&[]).len());
        assert!(
            kept_bytes <= fresh_bytes + fresh_bytes / 10 + 16,
            "block {number}: {kept_bytes} bytes, {fresh_bytes} by a new plan"
        );
        kept.clear();
    }
}
