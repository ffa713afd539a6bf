//! String columns, by kind of string: their size, and the cost per row of encoding, reading one
//! row, reading all and searching. Also the column's share, by its bytes, of the budget of a row of
//! its kind of table for encoding and scanning.

use std::{hint::black_box, time::Instant};

use frond::internals::block::{
    BLOCK_RAW_BYTES_MAX, Codec,
    encoding::{
        PAD_BYTES,
        string::{Purpose, StrEncoder, StrKind, StringModel, StringPlan, Strings, Strs, train},
    },
};

/// Numbers without a pattern.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 24) % end
    }
}

/// The budget of a row of a kind of table: its bytes, and the nanoseconds to encode and scan it.
#[derive(Clone, Copy)]
struct Table {
    bytes: f64,
    encode: f64,
    scan: f64,
}

const DIGITS: Table = Table { bytes: 190.0, encode: 250.0, scan: 160.0 };
const LOG: Table = Table { bytes: 254.0, encode: 900.0, scan: 230.0 };
const TEXT: Table = Table { bytes: 440.0, encode: 1500.0, scan: 550.0 };

/// One column of a leaf, by blocks.
struct Data {
    name: &'static str,
    table: Table,
    key: bool,
    blocks: Vec<Strings>,
}

const BLOCKS: usize = 32;

fn data(
    name: &'static str,
    table: Table,
    rows: usize,
    mut row: impl FnMut(&mut Noise) -> String,
) -> Data {
    let mut noise = Noise(5);
    let mut block = || {
        let strings: Vec<String> = (0..rows).map(|_| row(&mut noise)).collect();
        strings.iter().map(|string| string.as_bytes()).collect()
    };
    Data { name, table, key: false, blocks: (0..BLOCKS).map(|_| block()).collect() }
}

/// Makes a key column of the data, sorted across the blocks of the leaf.
fn key(mut data: Data) -> Data {
    let mut strings: Vec<Vec<u8>> =
        data.blocks.iter().flat_map(|block| block.iter().map(<[u8]>::to_vec)).collect();
    strings.sort();
    let blocks = strings.chunks(strings.len() / BLOCKS);
    data.blocks = blocks.map(|block| block.iter().map(Vec::as_slice).collect()).collect();
    data.key = true;
    data
}

fn digits(noise: &mut Noise, groups: usize) -> String {
    let groups = (0..groups).map(|_| format!("{:011}", noise.below(100_000_000_000)));
    groups.collect::<Vec<_>>().join("-")
}

fn guid(noise: &mut Noise) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        noise.below(1 << 32),
        noise.below(1 << 16),
        noise.below(1 << 12),
        0x8000 + noise.below(1 << 14),
        noise.below(1 << 40)
    )
}

const WORDS: &str = "library the for of and shared development files documentation a with to is package \
    contains runtime GNU Python module tool data fast simple support interface headers Perl client \
    server extension format image font text command line utility common dummy plugin transitional \
    Haskell debugging symbols static audio video network";

fn word(noise: &mut Noise) -> &'static str {
    // The first ones more often, as with words.
    let at = noise.below(48) * noise.below(48) / 48;
    WORDS.split(' ').nth(at as usize).unwrap_or_default()
}

fn sentence(noise: &mut Noise) -> String {
    (0..4 + noise.below(6)).map(|_| word(noise)).collect::<Vec<_>>().join(" ")
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
        word(noise),
        noise.below(5000),
        noise.below(1 << 40),
    )
}

fn path(noise: &mut Noise) -> String {
    let number = noise.below(1 << 20);
    format!("/var/lib/frond/tables/t{:05}/part-{number:09}.{}", number / 900, word(noise))
}

fn state(noise: &mut Noise) -> String {
    ["open", "closed", "waiting for parts", "refused", "on its way"][noise.below(5) as usize]
        .to_owned()
}

fn host(noise: &mut Noise) -> String {
    format!("host-{:03}.{}.example.org", noise.below(400), ["fra", "nyc"][noise.below(2) as usize])
}

/// Prints the table.
pub fn print() {
    println!(
        "\n{:<12} {:>15} {:>6} {:>6} {:>6} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6} {:>9}",
        "strings",
        "kind",
        "codec",
        "raw B",
        "B",
        "encode",
        "share",
        "decode",
        "share",
        "get",
        "search",
        "train us"
    );
    let values = [
        data("c char(119)", DIGITS, 170, |noise| digits(noise, 10)),
        data("pad char(59)", DIGITS, 170, |noise| digits(noise, 5)),
        data("guid", LOG, 130, guid),
        data("host", LOG, 130, host),
        data("parameters", LOG, 130, parameters),
        data("sentence", TEXT, 75, sentence),
    ];
    for data in &values {
        for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
            measure(data, codec, None);
        }
    }
    // Leaves have models for these; before the first is trained, blocks have words and shapes of
    // their own.
    let states = data("state", LOG, 130, state);
    for (data, kind) in
        [(&states, StrKind::Dictionary), (&values[0], StrKind::Shape), (&values[2], StrKind::Shape)]
    {
        measure(data, Codec::Raw, Some(kind));
    }
    let keys =
        [data("path", LOG, 500, path), data("guid", LOG, 500, guid), data("host", LOG, 500, host)];
    for data in keys.map(key) {
        measure(&data, Codec::Raw, None);
        for kind in [StrKind::Raw, StrKind::Prefix] {
            measure(&data, Codec::Raw, Some(kind));
        }
    }
}

fn measure(data: &Data, codec: Codec, kind: Option<StrKind>) {
    let mut encoder = StrEncoder::new();
    let rows = data.blocks.iter().map(Strings::len).sum::<usize>();
    let raw = data.blocks.iter().map(|block| block.bytes().len()).sum::<usize>();
    let begin = Instant::now();
    let sample: Vec<Strings> = data.blocks.iter().step_by(8).cloned().collect();
    let trained = train(&mut encoder, &sample, Purpose { key: data.key, codec, model_rows: rows });
    let train_micros = begin.elapsed().as_micros();
    let plan = kind.map_or(trained.plan, |kind| StringPlan { kind, codec });
    let model = trained.model.as_ref();
    let mut columns: Vec<Vec<u8>> = vec![Vec::new(); data.blocks.len()];
    let encode = per_row(rows, || {
        for (strings, column) in data.blocks.iter().zip(&mut columns) {
            column.clear();
            let written = encoder.encode(strings, model, plan, column);
            assert!(kind.is_none_or(|kind| kind == written.kind), "{}", data.name);
        }
    });
    let model_bytes = model.filter(|_| plan.kind.needs_model()).map_or(0, |m| m.as_bytes().len());
    let bytes = columns.iter().map(Vec::len).sum::<usize>() + model_bytes;
    columns.iter_mut().for_each(|column| column.extend([0; PAD_BYTES]));
    let [decode, get, search] = read(data, &columns, model, rows);
    let raw = raw as f64 / rows as f64;
    let share = raw / data.table.bytes;
    println!(
        "{:<12} {:>15} {:>6} {raw:>6.1} {:>6.1} {encode:>7.1} {:>7.1} {decode:>7.1} {:>7.1} \
         {get:>6.1} {:>6} {train_micros:>9}",
        format!("{}{}", data.name, if data.key { " key" } else { "" }),
        format!("{:?}", plan.kind),
        format!("{:?}", plan.codec),
        bytes as f64 / rows as f64,
        data.table.encode * share,
        data.table.scan * share,
        if data.key { format!("{search:.1}") } else { String::new() },
    );
}

/// Nanoseconds to decode all rows, to get one row of any block, as a lookup does, and to search
/// one.
fn read(data: &Data, columns: &[Vec<u8>], model: Option<&StringModel>, rows: usize) -> [f64; 3] {
    let (mut chunk, mut one, mut all) = (Vec::new(), Vec::new(), Strings::new());
    let decode = per_row(rows, || {
        for (strings, column) in data.blocks.iter().zip(columns) {
            all.clear();
            let strs = Strs::parse(column, strings.len(), model, BLOCK_RAW_BYTES_MAX, &mut chunk)
                .expect("just written");
            strs.decode_all(&mut all).expect("just written");
            black_box(&all);
        }
    });
    let mut noise = Noise(9);
    let mut anywhere = || {
        let block = noise.below(columns.len() as u64) as usize;
        let strings = &data.blocks[block];
        (&columns[block], strings, noise.below(strings.len() as u64) as usize)
    };
    let get = per_row(rows, || {
        for _ in 0..rows {
            let (column, strings, row) = anywhere();
            one.clear();
            let strs = Strs::parse(column, strings.len(), model, BLOCK_RAW_BYTES_MAX, &mut chunk)
                .expect("just written");
            strs.get(row, &mut one).expect("just written");
            black_box(&one);
        }
    });
    if !data.key {
        return [decode, get, 0.0];
    }
    let search = per_row(rows, || {
        for _ in 0..rows {
            let (column, strings, row) = anywhere();
            let key = strings.get(row);
            let strs = Strs::parse(column, strings.len(), model, BLOCK_RAW_BYTES_MAX, &mut chunk)
                .expect("just written");
            black_box(strs.lower_bound(0..strings.len(), key).expect("just written"));
        }
    });
    [decode, get, search]
}

/// Nanoseconds per row: the best of several rounds.
fn per_row(rows: usize, mut work: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let begin = Instant::now();
        work();
        best = best.min(begin.elapsed().as_nanos() as f64 / rows as f64);
    }
    best
}
