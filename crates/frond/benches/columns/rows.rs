//! Rows of four kinds of tables, as leaves of the default size class store them: the cost per row
//! of encoding, planning, scanning and finding, with the budgets of the design.
//!
//! Rows are found in blocks as a cache with room keeps them, without codecs; `packed` is finding
//! one in the block as it is on disk. `plan`: measuring columns again from time to time. `models`:
//! training them, if that is done as often as possible, every eighth leaf. It is done when a leaf
//! takes a tenth more than earlier ones: `frond bench sizes` compares the resulting cost in a load
//! with the same budget. `leaf ms`: a leaf of a MiB, scanned and written again.

use std::sync::Arc;

use frond::{
    internals::block::{
        Chunks, Codec,
        columnar::{ColumnarBlock, Columns, unpack},
    },
    layout::{Hint, Layout, Part},
};

use crate::{
    judge::judge,
    leaf::{Leaf, Noise, blocks, prefixed, read, scan, text},
    logs,
};

/// The codec of the default size class, and the length of its blocks.
const CODEC: Codec = Codec::Zstd1;
const BLOCK_BYTES: usize = 16 << 10;
const LEAF_BYTES: usize = 2 << 20;
/// The least number of leaves that models serve.
const LEAVES: f64 = 8.0;

/// Budgets of a row in nanoseconds.
struct Budget {
    encode: f64,
    plan: f64,
    scan: f64,
    hot: f64,
    cold: f64,
}

fn leaf(key: Vec<Part>, value: Vec<Part>, row: impl FnMut() -> (Vec<u8>, Vec<u8>)) -> Leaf {
    let columns = Columns::new(&Layout::new(key), &Layout::new(value));
    let blocks = blocks(LEAF_BYTES / BLOCK_BYTES, BLOCK_BYTES, row);
    Leaf { columns: Arc::new(columns), blocks }
}

fn int(width: u16) -> Part {
    Part::Fixed(width, Hint::Integer)
}

/// Rows of 25 bytes: purchases, in order of their numbers.
fn narrow() -> Leaf {
    let (mut noise, mut id) = (Noise(21), 70_000_000u32);
    let value = vec![int(5), int(4), int(4), int(4), Part::Fixed(4, Hint::Float)];
    leaf(vec![int(4)], value, || {
        id += 1;
        let mut value = (0x19_983f_b2c1_u64 + u64::from(id / 50_000)).to_be_bytes()[3..].to_vec();
        let customer = noise.below(100_000) as u32;
        for number in [noise.below(1000) as u32, customer, noise.below(10_000) as u32] {
            value.extend_from_slice(&number.to_be_bytes());
        }
        let cents = 500 * noise.below(100) as u32 + customer;
        let price = (cents as f32 / 100.0).round() / 100.0;
        value.extend_from_slice(&(price.to_bits() ^ 1 << 31).to_be_bytes());
        (id.to_be_bytes().to_vec(), value)
    })
}

/// Rows of 190 bytes, 165 of them random digits.
fn digits() -> Leaf {
    let (mut noise, mut id) = (Noise(22), 0u32);
    let groups = |noise: &mut Noise, count| {
        let groups = (0..count).map(|_| format!("{:011}", noise.below(100_000_000_000)));
        groups.collect::<Vec<_>>().join("-")
    };
    leaf(vec![int(4)], vec![int(4), text(), text()], || {
        id += 1;
        let mut value = (noise.below(10_000_000) as u32).to_be_bytes().to_vec();
        prefixed(&mut value, groups(&mut noise, 10).as_bytes());
        prefixed(&mut value, groups(&mut noise, 5).as_bytes());
        (id.to_be_bytes().to_vec(), value)
    })
}

const WORDS: &str = "library the for of and shared development files documentation a with to is package \
    contains runtime GNU Python module tool data fast simple support interface headers Perl client \
    server extension format image font text command line utility common dummy plugin transitional \
    Haskell debugging symbols static audio video network";

fn words(noise: &mut Noise, count: u64) -> String {
    let words: Vec<&str> = WORDS.split(' ').collect();
    let of = |_| words[noise.skewed(words.len() as u64) as usize];
    (0..count).map(of).collect::<Vec<_>>().join(" ")
}

/// Rows of some 440 bytes: descriptions of packages, with sentences, lists, an address, a file name
/// that repeats other fields, and a checksum.
fn texts() -> Leaf {
    let (mut noise, mut id) = (Noise(23), 0u64);
    let mut value = vec![text(); 11];
    value.extend([int(4), int(4)]);
    leaf(vec![int(8)], value, || {
        id += 1;
        let name = format!("{}-{}{}", words(&mut noise, 1), words(&mut noise, 1), id);
        let version = format!("{}.{}.{}-1", noise.below(9), noise.below(30), noise.below(12));
        let section = words(&mut noise, 1);
        let depends = (0..2 + noise.below(7))
            .map(|_| {
                format!("{} (>= {}.{})", words(&mut noise, 1), noise.below(4), noise.below(40))
            })
            .collect::<Vec<_>>();
        let maintainer = format!("{0} Maintainers <{0}@lists.example.org>", words(&mut noise, 1));
        let sum: String = (0..4).map(|_| format!("{:016x}", noise.next())).collect();
        let long = 6 + noise.below(12);
        let strings = [
            version.clone(),
            section.clone(),
            ["all", "amd64"][noise.below(2) as usize].to_owned(),
            ["optional", "extra", "required"][noise.skewed(3) as usize].to_owned(),
            maintainer,
            depends.join(", "),
            words(&mut noise, long),
            format!("https://www.example.org/{section}/{name}"),
            format!("pool/main/{}/{name}/{name}_{version}_all.deb", &name[..1]),
            sum,
        ];
        let mut value = Vec::new();
        prefixed(&mut value, name.as_bytes());
        strings.iter().for_each(|string| prefixed(&mut value, string.as_bytes()));
        for below in [1 << 22, 1 << 14] {
            value.extend_from_slice(&(noise.below(below) as u32).to_be_bytes());
        }
        (id.to_be_bytes().to_vec(), value)
    })
}

/// Prints the table; names of kinds on the command line select them.
pub fn print() {
    println!(
        "{:<14}{:>8}{:>8}{:>9}{:>8}{:>7}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>9}",
        "ns a row",
        "raw B",
        "B",
        "encode",
        "budget",
        "plan",
        "budget",
        "models",
        "scan",
        "budget",
        "hot",
        "budget",
        "cold",
        "budget",
        "packed",
        "leaf ms"
    );
    let narrow_budget = Budget { encode: 30.0, plan: 3.0, scan: 30.0, hot: 300.0, cold: 1200.0 };
    let digits_budget = Budget { encode: 250.0, plan: 20.0, scan: 160.0, hot: 400.0, cold: 1400.0 };
    // Its parameters are encoded by templates; without them a scan may take 230 ns.
    let log_budget = Budget { encode: 900.0, plan: 200.0, scan: 500.0, hot: 500.0, cold: 1600.0 };
    let text_budget =
        Budget { encode: 1500.0, plan: 500.0, scan: 700.0, hot: 1000.0, cold: 2700.0 };
    let log: fn() -> Leaf = || logs::log(3, BLOCK_BYTES);
    let sorts = [
        ("narrow", narrow as fn() -> Leaf, narrow_budget),
        ("digits", digits, digits_budget),
        ("log", log, log_budget),
        ("text", texts, text_budget),
    ];
    let words: Vec<String> = std::env::args().collect();
    let is_named = |name: &str| words.iter().any(|word| word == name);
    let all = !sorts.iter().any(|(name, ..)| is_named(name));
    for (name, leaf, budget) in sorts.iter().filter(|(name, ..)| all || is_named(name)) {
        print_sort(name, &leaf(), budget);
    }
}

fn print_sort(name: &str, leaf: &Leaf, budget: &Budget) {
    let (plans, format, training) = leaf.trained(CODEC);
    let written = leaf.write(CODEC, &plans, &format);
    let (rows, models) = (leaf.rows() as f64, format.models());
    let block_rows = rows / leaf.blocks.len() as f64;
    let encode = written.known / block_rows;
    // Measuring columns again is spread over all blocks, and training models over all rows that
    // they serve.
    let plan = written.measuring / block_rows;
    let models_made = training / rows / LEAVES;
    let scanned = scan(leaf, &written.blocks, models) / block_rows;
    let unpacked: Vec<Vec<u8>> = written
        .blocks
        .iter()
        .map(|block| {
            let (mut out, columnar) =
                (Vec::new(), ColumnarBlock::parse(block, &leaf.columns, models));
            let has_codec = unpack(&columnar.expect("a block"), &mut Chunks::default(), &mut out)
                .expect("a block");
            if has_codec { out } else { block.clone() }
        })
        .collect();
    let (hot, cold) = read(leaf, &unpacked, models);
    let (hot, cold) = (1000.0 * hot, 1000.0 * cold);
    let packed = 1000.0 * read(leaf, &written.blocks, models).0;
    let model_bytes = models.iter().flatten().map(|model| model.as_bytes().len()).sum::<usize>();
    let taken = written.blocks.iter().map(Vec::len).sum::<usize>() + model_bytes;
    let of_mebibyte = (1 << 20) as f64 * rows / leaf.raw_bytes() as f64 / 1e6;
    println!(
        "{name:<14}{:>8.1}{:>8.1}{encode:>9.1}{:>8}{plan:>7.1}{:>8}{models_made:>8.1}{scanned:>8.1}{:>8}\
         {hot:>8.0}{:>8}{cold:>8.0}{:>8}{packed:>8.0}{:>9.2}",
        leaf.raw_bytes() as f64 / rows,
        taken as f64 / rows,
        budget.encode,
        budget.plan,
        budget.scan,
        budget.hot,
        budget.cold,
        (scanned + encode) * of_mebibyte,
    );
    let of = |what| format!("{name} rows, {what}, ns a row");
    judge(of("encoded"), encode, budget.encode);
    judge(of("planned"), plan, budget.plan);
    judge(of("scanned"), scanned, budget.scan);
    judge(of("found hot"), hot, budget.hot);
    judge(of("found cold"), cold, budget.cold);
}
