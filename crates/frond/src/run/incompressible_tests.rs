//! Tests of incompressible rows: random bytes take no more than their raw size, and the codec is
//! soon no longer tried on them.
//!
//! A key is the number of its row and random bytes; a value is random bytes, as one or as several
//! fields. The allowed size of a run is computed from raw keys and payloads, strings with their
//! lengths as given, but without the numbers: a block stores these in almost nothing, so that
//! savings there cannot hide a loss.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::{
    block::{BLOCK_RAW_BYTES_TARGET, Codec},
    cache::FramePool,
    coding::put_bytes,
    io::{ALIGN, RealClock},
    layout::{End, Hint, Layout, Part},
    sync::Arc,
    types::Lineage,
};

/// Random bytes of a key.
const KEY_NOISE_BYTES: usize = 32;
/// Bytes of a leaf: about fifty columnar blocks.
const LEAF_BYTES: usize = 3 << 19;
const LEAVES: usize = 3;

/// Rows of one kind.
struct Sort {
    name: &'static str,
    /// Layout of the values; `None` for row blocks.
    value: Option<Vec<Part>>,
    /// Fewest and most random bytes of each field.
    parts: &'static [(usize, usize)],
}

impl Sort {
    /// Columns on which the codec may be tried; a row block is one chunk.
    fn chunks_of_block(&self) -> u64 {
        self.value.as_ref().map_or(1, |parts| parts.len() as u64)
    }

    /// The overhead of a row in a row block: a tag, the length shared with the previous key, the
    /// lengths of the rest of its key and of its payload, the last byte of its number, and the
    /// restart of one in sixteen rows with a whole number.
    fn head_bytes(&self) -> usize {
        let length_bytes = if self.parts[0].0 < 128 { 1 } else { 2 };
        if self.value.is_none() { 1 + 1 + 1 + length_bytes + 1 + 1 } else { 0 }
    }
}

fn sorts() -> Vec<Sort> {
    let wide = |width| Part::Fixed(width, Hint::None);
    let text = Part::Var(End::Prefixed);
    let sort = |name, value, parts| Sort { name, value, parts };
    vec![
        sort("string, 100 B", Some(vec![text]), &[(80, 120)]),
        sort("string, 2 KB", Some(vec![text]), &[(1800, 2200)]),
        sort("two strings, 100 B", Some(vec![text, text]), &[(20, 40), (60, 80)]),
        sort("fixed, 100 B", Some(vec![wide(64), wide(36)]), &[(64, 64), (36, 36)]),
        sort("fixed, 2 KB", Some(vec![wide(1024), wide(1024)]), &[(1024, 1024), (1024, 1024)]),
        sort("row blocks, 100 B", None, &[(80, 120)]),
        sort("row blocks, 2 KB", None, &[(1800, 2200)]),
    ]
}

/// Produces any number of bytes without pattern.
struct Noise {
    seed: u64,
    drawn: u64,
}

impl Noise {
    fn next(&mut self) -> u64 {
        self.drawn += 1;
        xxh3_64_with_seed(&self.drawn.to_le_bytes(), self.seed)
    }

    fn put(&mut self, bytes: usize, out: &mut Vec<u8>) {
        let end = out.len() + bytes;
        while out.len() < end {
            out.extend_from_slice(&self.next().to_le_bytes());
        }
        out.truncate(end);
    }
}

/// Keys and values of a leaf whose rows start with number `first`, and their length without the
/// numbers.
fn rows(sort: &Sort, first: usize) -> (Vec<(Vec<u8>, Vec<u8>)>, usize) {
    let mut noise = Noise { seed: first as u64, drawn: 0 };
    let (mut rows, mut raw_bytes) = (Vec::new(), 0);
    while raw_bytes < LEAF_BYTES {
        let mut key = ((first + rows.len()) as u64).to_be_bytes().to_vec();
        noise.put(KEY_NOISE_BYTES, &mut key);
        let (mut value, mut part) = (Vec::new(), Vec::new());
        for &(fewest, most) in sort.parts {
            let bytes = fewest + noise.next() as usize % (most - fewest + 1);
            part.clear();
            noise.put(bytes, &mut part);
            match &sort.value {
                Some(parts) if parts[0] == Part::Var(End::Prefixed) => put_bytes(&mut value, &part),
                _ => value.extend_from_slice(&part),
            }
        }
        raw_bytes += KEY_NOISE_BYTES + value.len();
        rows.push((key, value));
    }
    (rows, raw_bytes)
}

fn assert_reads_back(run: &Arc<Run>, rows: &[(Vec<u8>, Vec<u8>)], name: &str) {
    let mut cursor = RunCursor::bulk(run.clone()).checking();
    cursor.seek_first().unwrap();
    for (key, value) in rows {
        let entry = cursor.entry().expect("as many rows as were pushed");
        assert!(entry.key == key && entry.payload == value, "{name}");
        cursor.advance().unwrap();
    }
    assert!(cursor.entry().is_none());
}

/// The bound: the extent, that is, blocks, index and models, is less than 1 % longer than keys
/// without their numbers and payloads; the row overhead of row blocks and rounding to pages are
/// added. And the codec is tried on the first blocks, and, once that has failed, on less than one
/// in sixteen, in all later runs of the tree.
#[test]
fn random_bytes_take_their_own_size_and_the_codec_gives_up() {
    for sort in sorts() {
        let name = sort.name;
        let work = WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(1));
        let key = vec![Part::Fixed(8, Hint::Integer), Part::Fixed(32, Hint::None)];
        let schema = sort.value.clone().and_then(|value| {
            RowSchema::of(
                Some(&Layout::new(key)),
                Some(&Layout::new(value)),
                None,
                Some(work.clone()),
            )
        });
        let mut rows_before = 0;
        for leaf in 0..LEAVES {
            let before = work.leaves();
            let pool = FramePool::new(64 << 20);
            let (codec, block_bytes) = (Codec::Zstd1, BLOCK_RAW_BYTES_TARGET);
            let options = RunOptions { codec, filter_bits: None, block_bytes };
            let builder = match &schema {
                Some(schema) => RunBuilder::columnar(pool, options, schema, None),
                None => RunBuilder::new(pool, options),
            };
            let mut builder = builder.counted(work.clone());
            let (rows, raw_bytes) = rows(&sort, rows_before);
            for (key, value) in &rows {
                builder.push(key, Tag::PUT, value).unwrap();
            }
            rows_before += rows.len();
            let run = builder.finish().unwrap().expect("it has rows");
            assert_reads_back(&run, &rows, name);

            let extent_bytes = run.extent_bytes() as usize;
            let most = raw_bytes + raw_bytes / 100 + rows.len() * sort.head_bytes();
            assert!(
                extent_bytes < most + ALIGN,
                "{name}, leaf {leaf}: {extent_bytes} bytes for {raw_bytes} raw ones, more than {most}"
            );
            assert!(extent_bytes > raw_bytes, "{name}: these bytes are not random");

            let after = work.leaves();
            let blocks = after.blocks - before.blocks;
            assert!(blocks >= 40, "{name}: {blocks} blocks say nothing");
            assert_eq!(after.chunks_coded, 0, "{name}: {after:?}");
            let tried = after.chunks_raw - before.chunks_raw;
            // As long as nothing is known, the codec is tried several times in a row.
            let first = if leaf == 0 { 4 } else { 1 };
            let most = sort.chunks_of_block() * (first + blocks / 16);
            assert!(tried <= most, "{name}, leaf {leaf}: {tried} times for {blocks} blocks");
            assert!(leaf > 0 || tried >= sort.chunks_of_block(), "{name}: never tried");
        }
        // Models are trained on the first leaf, and not again while rows take as much as before.
        assert_eq!(work.leaves().trainings, u64::from(schema.is_some()), "{name}");
    }
}
