//! Log rows in pages of 8 KB, and strings that nothing makes shorter: what both take from block to block, each column
//! written by the plan of the block before.
//!
//! The rows are calls of procedures on servers: times, a duration, six names, and parameters as text; a quarter of
//! the calls come from monitors, which call the same again and again.

use std::{fmt::Write, hint::black_box, sync::Arc, time::Instant};

use frond::{
    End, Hint, Layout, Part, Tag,
    block::{
        Codec, Pushed, TypedFormat,
        typed::{
            Columns, Models, Plans, Projection, Samples, Typed, TypedBuilder, TypedRows, find_parts,
        },
    },
};

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Numbers without pattern.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    /// One of `end`, the first ones more often, as names are.
    fn skewed(&mut self, end: u64) -> u64 {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        ((end as f64).powf(unit) as u64 - 1).min(end - 1)
    }
}

/// A kind of block by block: rows of each, and how they are cut.
struct Leaf {
    columns: Arc<Columns>,
    blocks: Vec<Rows>,
}

/// Blocks after which every column has been measured anew once: plans are those of steady work from then on.
const PERIOD: usize = 32;
/// Rounds of which each block's best counts.
const ROUNDS: usize = 25;

fn prefixed(out: &mut Vec<u8>, text: &[u8]) {
    let mut length = text.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text);
}

/// Blocks of about `block_bytes` of these rows.
fn blocks(
    count: usize,
    block_bytes: usize,
    mut row: impl FnMut() -> (Vec<u8>, Vec<u8>),
) -> Vec<Rows> {
    let mut block = || {
        let (mut rows, mut bytes) = (Rows::new(), 0);
        while bytes < block_bytes {
            let (key, value) = row();
            bytes += key.len() + value.len();
            rows.push((key, value));
        }
        rows
    };
    (0..count).map(|_| block()).collect()
}

fn text() -> Part {
    Part::Var(End::Prefixed)
}

/// A string of `bytes` random bytes a row, and a number as key.
fn incompressible(bytes: usize) -> Leaf {
    let (mut noise, mut id) = (Noise(3), 0u64);
    let columns =
        Columns::new(&Layout::new(vec![Part::Fixed(8, Hint::Integer)]), &Layout::new(vec![text()]));
    let row = || {
        id += 1;
        let string: Vec<u8> = (0..bytes).map(|_| noise.next() as u8).collect();
        let mut value = Vec::new();
        prefixed(&mut value, &string);
        (id.to_be_bytes().to_vec(), value)
    };
    Leaf { columns: Arc::new(columns), blocks: blocks(3 * PERIOD, 32 << 10, row) }
}

/// Who calls what with which parameters.
#[derive(Clone)]
struct Call {
    procedure: u64,
    instance: u64,
    server: u64,
    parameters: String,
}

const VERBS: [&str; 8] = ["Fetch", "Store", "Close", "Open", "Move", "Search", "Sum", "Check"];
const THINGS: [&str; 10] = [
    "Ticket", "Parcel", "Route", "Depot", "Driver", "Tariff", "Receipt", "Claim", "Vehicle", "Stop",
];
const ENDINGS: [&str; 5] = ["", "ByNumber", "ByDay", "List", "State"];
const SYLLABLES: [&str; 16] = [
    "ba", "tor", "mi", "len", "ku", "ras", "ne", "vol", "sa", "dim", "po", "gel", "fi", "han",
    "ze", "rut",
];

/// Parameters of a call: which ones follows from its procedure, up to seven of them more than `least`.
fn parameters(procedure: u64, session: u64, least: u64, noise: &mut Noise) -> String {
    let (mut own, mut out) = (Noise(procedure), String::new());
    let mut caller = Noise(session);
    let (user, account) = (caller.skewed(200_000), caller.skewed(20_000));
    for number in 0..least + own.below(4) + own.below(5) {
        out.push_str(if number > 0 { "," } else { "" });
        // Writing to a String cannot fail.
        let _ = match own.below(9) {
            0 | 1 => write!(out, "@DriverId={}", user + 1),
            2 => write!(out, "@AccountKey='{}'", guid(&mut Noise(account))),
            3 => write!(out, "@SessionKey='{}'", guid(&mut Noise(session))),
            4 => write!(
                out,
                "@Day='2026-{:02}-{:02} 00:00:00.000'",
                5 + noise.below(2),
                1 + noise.below(28)
            ),
            5 => write!(out, "@State={}", noise.below(6) * noise.below(2)),
            6 => {
                write!(out, "@Culture=N'{}'", ["en-US", "de-DE", "fr-FR"][noise.skewed(3) as usize])
            }
            7 => write!(out, "@Page={},@PageRows={}", noise.skewed(50), 25 << noise.below(3)),
            _ => {
                let mut word = Noise(noise.skewed(5000));
                let words: String =
                    (0..2 + word.below(3)).map(|_| SYLLABLES[word.below(16) as usize]).collect();
                write!(
                    out,
                    "@Text=N'{words}',@Amount={}.{:02}",
                    noise.skewed(900),
                    noise.below(100)
                )
            }
        };
    }
    out
}

fn guid(noise: &mut Noise) -> String {
    let (high, low) = (noise.next(), noise.next());
    format!(
        "{:08X}-{:04X}-4{:03X}-{:04X}-{:012X}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xfff,
        0x8000 | low >> 50,
        low & 0xffff_ffff_ffff
    )
}

/// A leaf of two MiB of the log, in blocks of 8 KB; calls have so many parameters at least.
fn log(least: u64) -> Leaf {
    let int = |width| Part::Fixed(width, Hint::Integer);
    let micros = Part::Fixed(8, Hint::Microseconds);
    let value = vec![micros, int(4), text(), text(), text(), text(), int(4), int(4), text()];
    let columns = Columns::new(&Layout::new(vec![micros, int(8)]), &Layout::new(value));
    let noise = &mut Noise(11);
    let mut sessions: Vec<u64> = (0..3000).map(|_| noise.next()).collect();
    let call = |session: u64, noise: &mut Noise| {
        let procedure = noise.skewed(400);
        let instance = Noise(procedure).below(24) + noise.skewed(8);
        let parameters = parameters(procedure, session, least, noise);
        Call { procedure, instance: instance % 24, server: session % 60, parameters }
    };
    let monitors: Vec<Call> = (0..200).map(|monitor| call(monitor, noise)).collect();
    let (mut begin, mut id) = (1_790_000_000_000_000u64, 7_000_000u64);
    let row = || {
        let Call { procedure, instance, server, parameters } = if noise.below(4) == 0 {
            monitors[noise.skewed(200) as usize].clone()
        } else {
            let at = noise.below(3000) as usize;
            if noise.below(15) == 0 {
                sessions[at] = noise.next();
            }
            call(sessions[at], noise)
        };
        begin += noise.below(5000);
        id += 1;
        // Mostly some milliseconds, and now and then seconds.
        let millis = 1 + noise.skewed(60) * if noise.below(200) == 0 { 100 } else { 1 };
        let mut value = (begin + 1000 * millis).to_be_bytes().to_vec();
        value.extend_from_slice(&(millis as u32).to_be_bytes());
        prefixed(&mut value, format!("DEPOT{:02}\\I{}", instance / 3, instance % 3).as_bytes());
        let (verb, rest) = (procedure % 8, procedure / 8);
        let name = [VERBS[verb as usize], THINGS[rest as usize % 10], ENDINGS[rest as usize / 10]];
        prefixed(&mut value, format!("dbo.{}", name.concat()).as_bytes());
        prefixed(&mut value, format!("app-{}-{:02}", server / 20, server % 20).as_bytes());
        prefixed(
            &mut value,
            ["svc_web", "svc_batch", "svc_mobile"][server as usize % 3].as_bytes(),
        );
        value.extend_from_slice(&(noise.skewed(100) as u32).to_be_bytes());
        value.extend_from_slice(&[0x80, 0, 0, 0]);
        prefixed(&mut value, parameters.as_bytes());
        ([begin.to_be_bytes(), id.to_be_bytes()].concat(), value)
    };
    Leaf { columns: Arc::new(columns), blocks: blocks(256, 8 << 10, row) }
}

fn row_bytes(rows: &Rows) -> usize {
    rows.iter().map(|(key, value)| key.len() + value.len()).sum()
}

impl Leaf {
    /// What a leaf like this one teaches the next: plans, and models of strings.
    fn trained(&self, codec: Codec) -> (Plans, TypedFormat) {
        let mut builder = TypedBuilder::new(self.columns.clone(), codec, Plans::new(&self.columns));
        let mut samples = Some(Samples::new(&self.columns));
        for (number, rows) in self.blocks.iter().enumerate() {
            *builder.samples() = samples.take_if(|_| number % 4 == 0);
            build(&mut builder, rows, &[]);
            if let Some(kept) = builder.samples().take() {
                samples = Some(kept);
            }
        }
        let mut plans = builder.plans().clone();
        let mut models = vec![None; self.columns.count()];
        let rows = self.blocks.iter().map(Vec::len).sum();
        for (number, trained) in samples.expect("they were put back").train(codec, rows) {
            plans.set(number, &trained);
            models[number] = trained.model.map(Arc::new);
        }
        (plans, TypedFormat::new(self.columns.clone(), models))
    }

    /// Writes all blocks, one after the other.
    fn write(&self, codec: Codec, plans: &Plans, format: &TypedFormat) -> Written {
        let mut nanos = vec![f64::MAX; self.blocks.len()];
        let (mut blocks, mut tried) = (Vec::new(), 0);
        for _ in 0..ROUNDS {
            (blocks, tried) = (Vec::new(), 0);
            let mut builder = TypedBuilder::new(self.columns.clone(), codec, plans.clone());
            for (number, (rows, best)) in self.blocks.iter().zip(&mut nanos).enumerate() {
                let begin = Instant::now();
                let block = build(&mut builder, black_box(rows), format.models());
                *best = best.min(begin.elapsed().as_nanos() as f64);
                blocks.push(block.to_vec());
                let chunks = builder.take_chunks();
                tried += if number < PERIOD { 0 } else { chunks.raw };
            }
        }
        // The first blocks make memory warm and plans steady.
        let mut steady = nanos.split_off(PERIOD);
        let mean = steady.iter().sum::<f64>() / steady.len() as f64;
        steady.sort_by(f64::total_cmp);
        Written { blocks, tried, known: steady[steady.len() / 2], mean }
    }
}

/// Blocks, and ns that one takes.
struct Written {
    blocks: Vec<Vec<u8>>,
    /// Times that the codec was tried in vain.
    tried: u64,
    /// Most blocks: by their plans.
    known: f64,
    /// All, those included at which columns are measured anew.
    mean: f64,
}

fn build<'a>(builder: &'a mut TypedBuilder, rows: &Rows, models: &Models) -> &'a [u8] {
    builder.clear();
    for (key, value) in rows {
        assert_eq!(builder.push(key, Tag::PUT, value, 1 << 20), Pushed::Done);
    }
    builder.finish(models)
}

/// `plain` is the class without codec. `trying` is what a block takes more under a codec that was in vain; `anew`,
/// what measuring all ways again now and then adds, spread over all blocks, and `codec`, what of this it adds to that
/// of the class without. `each block` is what trying would take if nothing were remembered.
pub fn print_trying() {
    println!(
        "{:<28}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}",
        "random strings, ns a row",
        "raw B",
        "B",
        "plain",
        "known",
        "trying",
        "budget",
        "anew",
        "codec",
        "each block"
    );
    for bytes in [100, 400, 2000] {
        let leaf = incompressible(bytes);
        let rows: usize = leaf.blocks.iter().map(Vec::len).sum();
        let block_rows = rows as f64 / leaf.blocks.len() as f64;
        let raw: usize = leaf.blocks.iter().map(row_bytes).sum();
        let nothing = TypedFormat::new(leaf.columns.clone(), Vec::new());
        let plans = Plans::new(&leaf.columns);
        let plain = leaf.write(Codec::Raw, &plans, &nothing);
        for codec in [Codec::Lz4, Codec::Zstd1, Codec::Zstd3] {
            let written = leaf.write(codec, &plans, &nothing);
            let (mut out, mut each) = (Vec::new(), f64::MAX);
            for block in &written.blocks {
                let begin = Instant::now();
                assert_eq!(codec.encode(black_box(block), &mut out), Codec::Raw);
                each = each.min(begin.elapsed().as_nanos() as f64);
            }
            let taken: usize = written.blocks.iter().map(Vec::len).sum();
            let anew = written.mean - written.known;
            println!(
                "{:<28}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>8}{:>8.1}{:>8.1}{:>12.1}",
                format!("{bytes} B, {codec:?}, {} tries", written.tried),
                raw as f64 / rows as f64,
                taken as f64 / rows as f64,
                plain.known / block_rows,
                written.known / block_rows,
                (written.known - plain.known) / block_rows,
                10,
                anew / block_rows,
                (anew - plain.mean + plain.known) / block_rows,
                each / block_rows,
            );
        }
    }
}

/// Pages of the log.
pub fn print_logs() {
    println!(
        "{:<12}{:>7}{:>8}{:>8}{:>9}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "8 KB of log",
        "rows",
        "raw B",
        "B",
        "saved %",
        "budget",
        "us",
        "budget",
        "all us",
        "hot us",
        "budget",
        "cold us",
        "budget",
        "scan us"
    );
    for least in [0, 3] {
        print_log(&log(least));
    }
}

fn print_log(leaf: &Leaf) {
    print_codecs(leaf);
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
        let (plans, format) = leaf.trained(codec);
        let written = leaf.write(codec, &plans, &format);
        let raw: usize = leaf.blocks.iter().map(row_bytes).sum();
        let rows: usize = leaf.blocks.iter().map(Vec::len).sum();
        let models = format.models().iter().flatten().map(|model| model.as_bytes().len());
        let taken = written.blocks.iter().map(Vec::len).sum::<usize>() + models.sum::<usize>();
        let of_page = 8192.0 * written.blocks.len() as f64 / raw as f64 / 1000.0;
        let (hot, cold) = read(leaf, &written.blocks, format.models());
        let scan = scan(leaf, &written.blocks, format.models()) * of_page;
        println!(
            "{:<12}{:>7.1}{:>8.1}{:>8.1}{:>9.1}{:>9}{:>8.1}{:>8}{:>8.1}{hot:>8.2}{:>8}{cold:>8.2}{:>8}{scan:>8.1}",
            format!("{codec:?}"),
            rows as f64 / written.blocks.len() as f64,
            raw as f64 / rows as f64,
            taken as f64 / rows as f64,
            100.0 - 100.0 * taken as f64 / raw as f64,
            "> 60",
            written.known * of_page,
            29,
            written.mean * of_page,
            0.6,
            1.6,
        );
    }
}

/// What general codecs take for the same rows laid end to end: a measure of the machine, and the choice that a
/// page in columns is to be held against.
fn print_codecs(leaf: &Leaf) {
    for codec in [Codec::Lz4, Codec::Zstd1, Codec::Zstd3] {
        let (mut encode, mut decode) = (Vec::new(), Vec::new());
        let (mut raw, mut taken) = (0, 0);
        let (mut page, mut packed, mut unpacked) = (Vec::new(), Vec::new(), Vec::new());
        for rows in &leaf.blocks {
            page.clear();
            rows.iter().for_each(|(key, value)| page.extend([&key[..], value].concat()));
            let (mut best_encode, mut best_decode) = (f64::MAX, f64::MAX);
            for _ in 0..ROUNDS {
                packed.clear();
                let begin = Instant::now();
                let used = codec.encode(black_box(&page), &mut packed);
                best_encode = best_encode.min(begin.elapsed().as_nanos() as f64);
                unpacked.resize(page.len(), 0);
                let begin = Instant::now();
                let decoded = used.decode(black_box(&packed), &mut unpacked);
                best_decode = best_decode.min(begin.elapsed().as_nanos() as f64);
                decoded.expect("what was just encoded");
            }
            raw += page.len();
            taken += packed.len();
            encode.push(best_encode * 8.192 / page.len() as f64);
            decode.push(best_decode * 8.192 / page.len() as f64);
        }
        let median = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        println!(
            "{codec:?} of the rows end to end: {:.1} % saved, {:.1} us encoded, {:.1} us decoded",
            100.0 - 100.0 * taken as f64 / raw as f64,
            median(&mut encode),
            median(&mut decode),
        );
    }
}

/// Microseconds to find a row by its key and take it out of its block: of one that was just read, and of any of
/// more blocks than caches of a core hold.
fn read(leaf: &Leaf, blocks: &[Vec<u8>], models: &Models) -> (f64, f64) {
    const COLD_BYTES: usize = 256 << 20;
    const READS: usize = 20_000;
    let (mut noise, mut payload) = (Noise(5), Vec::new());
    let mut one = |block: &[u8], key: &[u8]| {
        let typed = Typed::parse(black_box(block), &leaf.columns, models).expect("a block");
        let found = find_parts(&typed, black_box(key), &Projection::All, &mut payload);
        assert!(found.expect("a search").is_some());
        black_box(&payload);
    };
    let mut hot = f64::MAX;
    for (rows, block) in leaf.blocks.iter().zip(blocks).take(PERIOD) {
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            rows.iter().for_each(|(key, _)| one(block, key));
            hot = hot.min(begin.elapsed().as_nanos() as f64 / rows.len() as f64);
        }
    }
    let leaf_bytes = blocks.iter().map(Vec::len).sum::<usize>();
    let copies: Vec<Vec<Vec<u8>>> = (0..COLD_BYTES / leaf_bytes).map(|_| blocks.to_vec()).collect();
    let mut cold = f64::MAX;
    for _ in 0..3 {
        let mut pick = |end: usize| noise.below(end as u64) as usize;
        let picks: Vec<(&[u8], Vec<u8>)> = (0..READS)
            .map(|_| {
                let (copy, number) = (pick(copies.len()), pick(blocks.len()));
                let rows = &leaf.blocks[number];
                (copies[copy][number].as_slice(), rows[pick(rows.len())].0.clone())
            })
            .collect();
        let begin = Instant::now();
        picks.iter().for_each(|(block, key)| one(block, key));
        cold = cold.min(begin.elapsed().as_nanos() as f64 / READS as f64);
    }
    (hot / 1000.0, cold / 1000.0)
}

/// Nanoseconds to walk over all rows of a block, of one that was just read.
fn scan(leaf: &Leaf, blocks: &[Vec<u8>], models: &Models) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for block in blocks {
            let typed = Typed::parse(black_box(block), &leaf.columns, models).expect("a block");
            let mut rows = TypedRows::new(Projection::All);
            rows.first(&typed).expect("a row");
            while rows.next(&typed).expect("a row") {
                black_box(rows.payload());
            }
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / blocks.len() as f64);
    }
    best
}
