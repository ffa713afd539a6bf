//! Columnar blocks, table by table: their size, and the cost of building, checking, finding a row,
//! seeking and scanning, with the budgets of the design.

use std::{hint::black_box, sync::Arc, time::Instant};

use frond::{
    feed::Tag,
    internals::block::{
        Chunks, Codec, Pushed,
        columnar::{
            ColumnSelection, ColumnarBlock, ColumnarBuilder, ColumnarRows, Columns, Plans, check,
            find_selected,
        },
    },
    layout::{End, Hint, Layout, Part},
};

use crate::judge::judge;

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 24) % end
    }

    fn int(&mut self, end: u64) -> [u8; 4] {
        (self.below(end) as u32).to_be_bytes()
    }

    fn price(&mut self) -> [u8; 4] {
        let cents = (500 * self.below(100) + self.below(100_000)) / 100;
        (((cents as f32) / 100.0).to_bits() ^ 1 << 31).to_be_bytes()
    }
}

/// Nanoseconds that a row may take to be encoded and scanned, and to be found.
struct Budget(f64, f64, f64);

const NARROW: Budget = Budget(30.0, 30.0, 300.0);
const LOG: Budget = Budget(900.0, 230.0, 500.0);

struct Table {
    name: &'static str,
    budget: Budget,
    key: Vec<Part>,
    value: Vec<Part>,
    rows: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The best of many rounds, in ns per operation; `REPEAT` in the environment sets their number.
fn measure(pieces: usize, mut work: impl FnMut()) -> f64 {
    let repeat = std::env::var("REPEAT").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    let mut best = f64::MAX;
    for _ in 0..repeat {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / pieces as f64);
    }
    best
}

fn prefixed(out: &mut Vec<u8>, text: &str) {
    assert!(text.len() < 128);
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn tables() -> Vec<Table> {
    let noise = &mut Noise(5);
    let int = |width| Part::Fixed(width, Hint::Integer);
    let micros = Part::Fixed(8, Hint::Microseconds);
    let float = Part::Fixed(4, Hint::Float);
    let text = Part::Var(End::Prefixed);
    let mut tables = Vec::new();
    let mut table =
        |name, budget, key: Vec<Part>, value: Vec<Part>, mut rows: Vec<(Vec<u8>, Vec<u8>)>| {
            rows.sort();
            rows.dedup_by(|a, b| a.0 == b.0);
            tables.push(Table { name, budget, key, value, rows });
        };
    let purchase = |noise: &mut Noise, id: u32| {
        let value = [[0x98, 0x3f, 0xb2, 0xc1].as_slice(), &noise.int(1000), &noise.int(100_000)];
        let more = [noise.int(10_000), noise.price()].concat();
        ((70_000_000 + id).to_be_bytes().to_vec(), [&[0x19], &value.concat()[..], &more].concat())
    };
    let rows = (0..1300).map(|id| purchase(noise, id)).collect();
    let value = vec![int(5), int(4), int(4), int(4), float];
    table("purchases", NARROW, vec![int(4)], value, rows);
    let entry = |noise: &mut Noise| {
        let key = [[0, 0, 2, noise.below(2) as u8], noise.price(), noise.int(100_000)].concat();
        ([&key[..], &noise.int(100_000_000)].concat(), vec![])
    };
    let rows = (0..2000).map(|_| entry(noise)).collect();
    let key = vec![int(4), float, int(4), int(4)];
    table("register, price, customer", NARROW, key, vec![Part::Var(End::Rest)], rows);
    let mut begin = 1_790_000_000_000_000u64;
    let mut entry = |noise: &mut Noise, id: u64| {
        begin += noise.below(2_000_000);
        let name = format!("instance-{:03}\0\u{1}", 40 + id / 700);
        let id = 9_000_000_000 + id * 200 + noise.below(200);
        ([name.as_bytes(), &begin.to_be_bytes(), &id.to_be_bytes()].concat(), vec![])
    };
    let rows = (0..1100).map(|id| entry(noise, id)).collect();
    let key = vec![Part::Var(End::Escaped), micros, int(8)];
    table("instance, begin, id", NARROW, key, vec![Part::Var(End::Rest)], rows);
    let line = |noise: &mut Noise, id: u64| {
        let mut value = (1_790_000_000_000_000 + id * 900).to_be_bytes().to_vec();
        value.extend_from_slice(&noise.int(400));
        prefixed(&mut value, &format!("user{}", noise.below(60)));
        let (number, from) = (noise.below(1 << 30), noise.below(28) + 1);
        let state = ["open", "closed", "waiting"][noise.below(3) as usize];
        let text =
            format!("@id=N'{number}',@from='2026-07-{from:02}',@state=N'{state}',@rows={id}");
        prefixed(&mut value, &text);
        ((5_000_000 + id).to_be_bytes().to_vec(), value)
    };
    let rows = (0..300).map(|id| line(noise, id)).collect();
    table("log", LOG, vec![int(8)], vec![micros, int(4), text, text], rows);
    let noise = &mut Noise(8);
    let task = |id: u64| {
        let begin = 1_790_000_000_000_000 + noise.below(86_400_000_000);
        let end = begin + 200 + noise.below(5000) * (1 + 40 * u64::from(noise.below(20) == 0));
        let value = [begin.to_be_bytes(), end.to_be_bytes()].concat();
        ((9_000_000_000 + id).to_be_bytes().to_vec(), [&value[..], &noise.int(400)].concat())
    };
    let rows = (0..1100).map(task).collect();
    let value = vec![micros, micros, int(4)];
    table("task: begin, end", NARROW, vec![int(8)], value, rows);
    let noise = &mut Noise(9);
    let entry = |id: u32| {
        let second = 1_790_000_000_000 + noise.below(200) * 1000;
        let key = [&noise.price()[..], &second.to_be_bytes(), &noise.int(100_000)].concat();
        ([&key[..], &(70_000_000 + id).to_be_bytes()].concat(), vec![])
    };
    let rows = (0..1600).map(entry).collect();
    let key = vec![float, int(8), int(4), int(4)];
    table("price, second, customer", NARROW, key, vec![Part::Var(End::Rest)], rows);
    let noise = &mut Noise(10);
    let entry = |id: u64| {
        let duration = 800 + noise.below(20);
        let end = 1_790_000_000_000_000 + noise.below(86_400_000_000);
        let key = [duration, end, end - duration, 9_000_000_000 + id].map(u64::to_be_bytes);
        (key.concat(), vec![])
    };
    let rows = (0..1000).map(entry).collect();
    let key = vec![int(8), micros, micros, int(8)];
    table("duration, end, begin", NARROW, key, vec![Part::Var(End::Rest)], rows);
    tables
}

/// Prints the table.
pub fn print() {
    println!(
        "{:<28}{:>6}{:>7}{:>7}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "ns a row",
        "rows",
        "raw",
        "block",
        "budget",
        "build",
        "budget",
        "scan",
        "check",
        "budget",
        "find",
        "seek"
    );
    for Table { name, budget, key, value, rows } in tables() {
        let columns = Arc::new(Columns::new(&Layout::new(key), &Layout::new(value)));
        let mut builder = ColumnarBuilder::new(columns.clone(), Codec::Raw, Plans::new(&columns));
        let mut build = || {
            builder.clear();
            for (key, value) in black_box(&rows) {
                assert_eq!(builder.push(key, Tag::PUT, value, 1 << 20), Pushed::Done);
            }
            builder.finish(&[]).to_vec()
        };
        let block = build();
        let encode = measure(rows.len(), || drop(black_box(build())));
        let parse = || ColumnarBlock::parse(black_box(&block), &columns, &[]).expect("a block");
        let checked = measure(rows.len(), || check(&parse()).expect("a whole block"));
        let mut at = ColumnarRows::default();
        let scan = measure(rows.len(), || {
            let columnar = parse();
            at.first(&columnar).expect("a row");
            let mut bytes = 0;
            loop {
                bytes += black_box(at.key()).len() + black_box(at.payload()).len();
                if !at.next(&columnar).expect("a row") {
                    break;
                }
            }
            assert_eq!(bytes, columnar.raw_bytes());
        });
        let mut noise = Noise(3);
        let picks: Vec<&[u8]> = (0..rows.len())
            .map(|_| rows[noise.below(rows.len() as u64) as usize].0.as_slice())
            .collect();
        let mut payload = Vec::new();
        let found = measure(picks.len(), || {
            for key in &picks {
                let found = find_selected(
                    &parse(),
                    key,
                    &ColumnSelection::All,
                    &mut Chunks::default(),
                    &mut payload,
                );
                assert!(found.expect("a search").is_some());
            }
        });
        let sought = measure(picks.len(), || {
            for key in &picks {
                assert!(at.seek(&parse(), key).expect("a search"));
            }
        });
        let per_row = |bytes: usize| bytes as f64 / rows.len() as f64;
        let raw_bytes = per_row(parse().raw_bytes());
        let Budget(to_encode, to_scan, to_find) = budget;
        println!(
            "{name:<28}{:>6}{raw_bytes:>7.1}{:>7.2}{to_encode:>9.0}{encode:>8.1}{to_scan:>8.0}{scan:>8.1}\
             {checked:>8.1}{to_find:>8.0}{found:>8.0}{sought:>8.0}",
            rows.len(),
            per_row(block.len()),
        );
        judge(format!("{name}, built, ns a row"), encode, to_encode);
        judge(format!("{name}, scanned, ns a row"), scan, to_scan);
        judge(format!("{name}, found, ns a row"), found, to_find);
    }
}
