//! String columns, kind by kind: how short, and what encoding, reading one row, reading all and
//! searching take.

use std::{hint::black_box, time::Instant};

use frond::block::{
    Codec,
    column::{
        PAD_BYTES,
        string::{Purpose, StrEncoder, StrKind, Strings, Strs, train},
    },
};

/// Numbers without pattern.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 24) % end
    }
}

/// One column of a leaf: its blocks, each about 32 KiB of rows.
struct Data {
    name: &'static str,
    key: bool,
    blocks: Vec<Strings>,
}

fn data(
    name: &'static str,
    key: bool,
    rows: usize,
    mut row: impl FnMut(&mut Noise) -> String,
) -> Data {
    let mut noise = Noise(5);
    let block = |noise: &mut Noise, row: &mut dyn FnMut(&mut Noise) -> String| {
        let mut strings: Vec<String> = (0..rows).map(|_| row(noise)).collect();
        if key {
            strings.sort();
        }
        strings.iter().map(|string| string.as_bytes()).collect()
    };
    Data { name, key, blocks: (0..32).map(|_| block(&mut noise, &mut row)).collect() }
}

fn digits(noise: &mut Noise, groups: usize) -> String {
    let groups = (0..groups).map(|_| format!("{:011}", noise.below(100_000_000_000)));
    groups.collect::<Vec<_>>().join("-")
}

const WORDS: [&str; 48] = [
    "library",
    "the",
    "for",
    "of",
    "and",
    "shared",
    "development",
    "files",
    "documentation",
    "a",
    "with",
    "to",
    "is",
    "package",
    "contains",
    "runtime",
    "GNU",
    "Python",
    "module",
    "tool",
    "data",
    "fast",
    "simple",
    "support",
    "interface",
    "headers",
    "Perl",
    "client",
    "server",
    "extension",
    "format",
    "image",
    "font",
    "text",
    "command",
    "line",
    "utility",
    "common",
    "dummy",
    "plugin",
    "transitional",
    "Haskell",
    "debugging",
    "symbols",
    "static",
    "audio",
    "video",
    "network",
];

fn sentence(noise: &mut Noise) -> String {
    let count = 4 + noise.below(6);
    // Low numbers more often, as words are.
    let mut word = || WORDS[(noise.below(48) * noise.below(48) / 48) as usize];
    (0..count).map(|_| word()).collect::<Vec<_>>().join(" ")
}

fn parameters(noise: &mut Noise) -> String {
    format!(
        "@id=N'{}',@from='2026-{:02}-{:02}T{:02}:{:02}:{:02}',@state=N'{}',@rows={},@user={:x}",
        noise.below(1 << 30),
        1 + noise.below(12),
        1 + noise.below(28),
        noise.below(24),
        noise.below(60),
        noise.below(60),
        WORDS[noise.below(20) as usize],
        noise.below(5000),
        noise.below(1 << 40),
    )
}

/// Prints the table.
pub fn print() {
    println!(
        "\n{:<12}{:>16}{:>7}{:>8}{:>8}  {:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}",
        "strings",
        "kind",
        "codec",
        "B raw",
        "B",
        "encode",
        "MB/s",
        "get",
        "decode",
        "MB/s",
        "search",
        "train us"
    );
    let mut number = 0;
    let mut name = |noise: &mut Noise| {
        number += 1 + noise.below(40);
        format!(
            "/var/lib/frond/tables/t{:05}/{}/part-{number:09}.data",
            number / 900,
            WORDS[(number / 300 % 48) as usize]
        )
    };
    let all = [
        data("c char(119)", false, 170, |noise| digits(noise, 10)),
        data("pad char(59)", false, 170, |noise| digits(noise, 5)),
        data("guid", false, 500, |noise| {
            format!(
                "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                noise.below(1 << 32),
                noise.below(1 << 16),
                noise.below(4096),
                0x8000 + noise.below(1 << 14),
                noise.below(1 << 40)
            )
        }),
        data("host", false, 130, |noise| {
            format!("host-{:03}.dc{}.example.org", noise.below(400), noise.below(3))
        }),
        data("parameters", false, 130, parameters),
        data("sentence", false, 75, sentence),
        data("path key", true, 500, &mut name),
        data("guid key", true, 500, |noise| {
            format!("{:016x}", noise.below(1 << 40) << 20 | noise.below(1 << 20))
        }),
        data("host key", true, 500, |noise| format!("host-{:03}.example.org", noise.below(40))),
    ];
    for data in &all {
        for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
            if data.key && codec != Codec::Raw {
                continue;
            }
            measure(data, codec, None);
        }
        if data.key {
            measure(data, Codec::Raw, Some(StrKind::Prefix));
            measure(data, Codec::Raw, Some(StrKind::Raw));
        }
    }
}

fn measure(data: &Data, codec: Codec, kind: Option<StrKind>) {
    let mut encoder = StrEncoder::new();
    let rows = data.blocks.iter().map(Strings::len).sum::<usize>();
    let raw = data.blocks.iter().map(|block| block.bytes().len()).sum::<usize>();
    let sample: Vec<Strings> = data.blocks.iter().step_by(8).cloned().collect();
    let begin = Instant::now();
    let trained = train(&mut encoder, &sample, Purpose { key: data.key, codec, model_rows: rows });
    let train_micros = begin.elapsed().as_micros();
    let mut plan = trained.plan;
    if let Some(kind) = kind {
        plan.kind = kind;
    }
    let model = trained.model.as_ref();
    let mut columns: Vec<Vec<u8>> = vec![Vec::new(); data.blocks.len()];
    let encode = per_row(rows, || {
        for (strings, column) in data.blocks.iter().zip(&mut columns) {
            column.clear();
            encoder.encode(strings, model, plan, column);
        }
    });
    let bytes =
        columns.iter().map(Vec::len).sum::<usize>() + model.map_or(0, |m| m.as_bytes().len());
    columns.iter_mut().for_each(|column| column.extend([0; PAD_BYTES]));
    let mut decoded = Strings::new();
    let (mut chunk, mut one) = (Vec::new(), Vec::new());
    let decode = per_row(rows, || {
        for (strings, column) in data.blocks.iter().zip(&columns) {
            decoded.clear();
            let strs = Strs::parse(column, strings.len(), model, &mut chunk).expect("just written");
            strs.decode_all(&mut decoded).expect("just written");
            black_box(&decoded);
        }
    });
    let mut noise = Noise(9);
    // One row of a column that is parsed for it, as a lookup does.
    let get = per_row(rows, || {
        for _ in 0..rows {
            let block = noise.below(data.blocks.len() as u64) as usize;
            let (column, count) = (&columns[block], data.blocks[block].len());
            one.clear();
            let strs = Strs::parse(column, count, model, &mut chunk).expect("just written");
            strs.get(noise.below(count as u64) as usize, &mut one).expect("just written");
            black_box(&one);
        }
    });
    let search = per_row(rows, || {
        if !data.key {
            return;
        }
        for _ in 0..rows {
            let block = noise.below(data.blocks.len() as u64) as usize;
            let (column, strings) = (&columns[block], &data.blocks[block]);
            let key = strings.get(noise.below(strings.len() as u64) as usize);
            let strs = Strs::parse(column, strings.len(), model, &mut chunk).expect("just written");
            black_box(strs.lower_bound(0..strings.len(), key).expect("just written"));
        }
    });
    let megabytes = |nanos: f64| raw as f64 / rows as f64 / nanos * 1e3;
    println!(
        "{:<12}{:>16}{:>7}{:>8.1}{:>8.1}  {encode:>9.1}{:>9.0}{get:>9.1}{decode:>9.1}{:>9.0}{search:>9.1}{train_micros:>11}",
        data.name,
        format!("{:?}", plan.kind),
        format!("{:?}", plan.codec),
        raw as f64 / rows as f64,
        bytes as f64 / rows as f64,
        megabytes(encode),
        megabytes(decode),
    );
}

/// Nanoseconds a row: the best of some rounds.
fn per_row(rows: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let begin = Instant::now();
        work();
        best = best.min(begin.elapsed().as_nanos() as f64 / rows as f64);
    }
    best
}
