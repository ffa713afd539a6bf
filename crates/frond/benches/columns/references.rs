//! Strings that refer to others of their row: how much that saves, and what encoding, scanning and
//! finding them costs.
//!
//! Two tables with the same rows. A column refers only to earlier ones, so the file name, which
//! repeats package and version, comes after them in one table. In the other it comes first and can
//! refer to nothing. `share`: the column's part, by its bytes, of the budget of a row of text; the
//! part `rows` of this benchmark compares whole rows, including references, with that budget.

use std::sync::Arc;

use frond::{
    internals::block::{
        Codec,
        columnar::{ColumnarBlock, Columns, Encoding, weigh},
    },
    layout::{Hint, Layout, Part},
};

use crate::leaf::{Leaf, Noise, blocks, prefixed, read, scan, text};

/// Bytes of a row of text, and the nanoseconds that it may take to be encoded and scanned.
const TEXT_BYTES: f64 = 440.0;
const TEXT_ENCODE: f64 = 1500.0;
const TEXT_SCAN: f64 = 700.0;

/// Packages: name, version and file, in this order or the file first.
fn packages(file_first: bool) -> Leaf {
    let (mut noise, mut id) = (Noise(31), 0u64);
    let row = || {
        id += 1;
        let (what, number) = (["lib", "python3-", "golang-", "r-cran-"], noise.below(1 << 24));
        let name = format!("{}{number:06x}-dev", what[noise.skewed(4) as usize]);
        let version = format!(
            "{}.{}.{}-{}",
            noise.below(9),
            noise.below(30),
            noise.below(99),
            noise.below(4)
        );
        let file = format!("pool/main/{}/{name}/{name}_{version}_all.deb", &name[..1]);
        let mut strings = [name, version, file];
        if file_first {
            strings.rotate_right(1);
        }
        let mut value = Vec::new();
        strings.iter().for_each(|string| prefixed(&mut value, string.as_bytes()));
        (id.to_be_bytes().to_vec(), value)
    };
    let key = Layout::new(vec![Part::Fixed(8, Hint::Integer)]);
    let columns = Arc::new(Columns::new(&key, &Layout::new(vec![text(); 3])));
    Leaf { columns, blocks: blocks(128, 16 << 10, row) }
}

/// Prints the table.
pub fn print() {
    println!(
        "{:<28}{:>7}{:>8}{:>8}{:>9}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "ns a row", "codec", "raw B", "B", "encode", "share", "scan", "share", "hot", "cold"
    );
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
        for (name, file_first) in [("file refers to the others", false), ("file comes first", true)]
        {
            print_leaf(name, !file_first, codec, &packages(file_first));
        }
    }
}

fn print_leaf(name: &str, references: bool, codec: Codec, leaf: &Leaf) {
    let (plans, format, _) = leaf.trained(codec);
    let written = leaf.write(codec, &plans, &format);
    let (rows, models) = (leaf.rows() as f64, format.models());
    let last = written.blocks.last().expect("a leaf has blocks");
    let mut any = false;
    weigh(&ColumnarBlock::parse(last, &leaf.columns, models).expect("a block"), |weight| {
        any |= matches!(weight.encoding, Encoding::Strings(_, _, true));
    })
    .expect("a block");
    assert_eq!(any, references, "{name} under {codec:?}");
    let model_bytes = models.iter().flatten().map(|model| model.as_bytes().len()).sum::<usize>();
    let taken = written.blocks.iter().map(Vec::len).sum::<usize>() + model_bytes;
    let block_rows = rows / leaf.blocks.len() as f64;
    let (encode, scan) =
        (written.known / block_rows, scan(leaf, &written.blocks, models) / block_rows);
    let (hot, cold) = read(leaf, &written.blocks, models);
    let raw = leaf.raw_bytes() as f64 / rows;
    let (to_encode, to_scan) = (TEXT_ENCODE * raw / TEXT_BYTES, TEXT_SCAN * raw / TEXT_BYTES);
    println!(
        "{name:<28}{:>7}{raw:>8.1}{:>8.1}{encode:>9.1}{to_encode:>8.0}{scan:>8.1}{to_scan:>8.0}{:>8.0}{:>8.0}",
        format!("{codec:?}"),
        taken as f64 / rows,
        1000.0 * hot,
        1000.0 * cold,
    );
}
