//! Log rows in pages of 8 KB, and incompressible strings: the cost of both from block to block,
//! each column encoded by the plan of the previous block.
//!
//! The rows are procedure calls on servers: times, a duration, six names, and parameters as text; a
//! quarter of the calls come from monitors, which repeat the same calls.

use std::{fmt::Write, hint::black_box, sync::Arc, time::Instant};

use frond::{
    internals::block::{
        Codec, ColumnarFormat,
        columnar::{Columns, Plans},
    },
    layout::{Hint, Layout, Part},
};

use crate::{
    judge::judge,
    leaf::{Leaf, Noise, ROUNDS, blocks, prefixed, read, scan, text},
};

/// A string of `bytes` random bytes per row, and a number as key.
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
    Leaf { columns: Arc::new(columns), blocks: blocks(96, 32 << 10, row) }
}

/// A call: caller, procedure and parameters.
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

/// Parameters of a call: its procedure determines which ones, up to seven more than `least`.
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

/// A leaf of two MiB of the log, in blocks of `block_bytes`; calls have at least `least`
/// parameters.
pub fn log(least: u64, block_bytes: usize) -> Leaf {
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
        // Usually some milliseconds, sometimes seconds.
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
    Leaf { columns: Arc::new(columns), blocks: blocks((2 << 20) / block_bytes, block_bytes, row) }
}

/// `plain` is the size class without a codec. `trying` is the additional time of a block under a
/// codec that does not help; `anew`, the additional time of measuring all encodings again from time
/// to time, spread over all blocks; and `codec`, what the codec adds to that compared with the
/// class without one. `each block` is what trying would cost if nothing were remembered.
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
        let rows = leaf.rows();
        let block_rows = rows as f64 / leaf.blocks.len() as f64;
        let raw = leaf.raw_bytes();
        let nothing = ColumnarFormat::new(leaf.columns.clone(), Vec::new());
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
            println!(
                "{:<28}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>8.1}{:>8}{:>8.1}{:>8.1}{:>12.1}",
                format!("{bytes} B, {codec:?}, {} tries", written.tried),
                raw as f64 / rows as f64,
                taken as f64 / rows as f64,
                plain.known / block_rows,
                written.known / block_rows,
                (written.known - plain.known) / block_rows,
                10,
                written.measuring / block_rows,
                (written.measuring - plain.measuring) / block_rows,
                each / block_rows,
            );
            let of = |what| format!("random strings of {bytes} B under {codec:?}, {what}");
            judge(of("trying, ns a row"), (written.known - plain.known) / block_rows, 10.0);
            judge(of("% of the rows"), 100.0 * taken as f64 / raw as f64, 101.0);
        }
    }
}

/// Prints pages of the log.
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
        print_log(&log(least, 8 << 10));
    }
}

fn print_log(leaf: &Leaf) {
    print_codecs(leaf);
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
        let (plans, format, _) = leaf.trained(codec);
        let written = leaf.write(codec, &plans, &format);
        let raw = leaf.raw_bytes();
        let rows = leaf.rows();
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
            (written.known + written.measuring) * of_page,
            0.6,
            1.6,
        );
        let of = |what| format!("8 KB of log under {codec:?}, {what}");
        judge(of("encoded, us"), written.known * of_page, 29.0);
        judge(of("% of the rows"), 100.0 * taken as f64 / raw as f64, 40.0);
        judge(of("a row hot, us"), hot, 0.6);
        judge(of("a row cold, us"), cold, 1.6);
    }
}

/// The cost of general codecs for the same rows one after the other: a measure of the machine, and
/// the alternative to which a page in columns is to be compared.
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
