//! Runs of transposed blocks compared with runs of the same rows as they are.

use std::collections::BTreeMap;

use super::{
    super::{footer::Footer, *},
    *,
};
use crate::{
    cache::{BlockSource, FramePool, NoCache},
    io::{MemoryVfs, OpenMode, RealClock, Vfs},
    page::{FEATURE_TRANSPOSED_BLOCKS, Identity, PageKind, StoreFile},
    sync::Arc,
    types::{Lineage, StoreId, VersionNumber},
};

type Rows = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;

fn pool() -> Arc<FramePool> {
    FramePool::new(64 << 20)
}

fn noise(row: u32) -> [u8; 8] {
    xxhash_rust::xxh3::xxh3_64(&row.to_le_bytes()).to_be_bytes()
}

/// An index entry: a number that ascends unevenly, eight bytes of which a few differ, and a short
/// value.
fn row(row: u32) -> (Vec<u8>, (Tag, Vec<u8>)) {
    let number = row * 8 + u32::from(noise(row)[0] % 8);
    let key = [&number.to_be_bytes()[..], &u64::from(noise(row)[1]).to_be_bytes()].concat();
    (key, (Tag::PUT, vec![1, 0, 0, noise(row)[2] % 4, 9, 9]))
}

fn rows(numbers: std::ops::Range<u32>) -> Rows {
    numbers.map(row).collect()
}

fn options(codec: Codec) -> RunOptions {
    RunOptions { codec, ..RunOptions::default() }
}

fn build(rows: &Rows, codec: Codec) -> Arc<Run> {
    let mut builder = RunBuilder::new(pool(), options(codec));
    for (key, (tag, payload)) in rows {
        builder.push(key, *tag, payload).unwrap();
    }
    builder.finish().unwrap().unwrap()
}

/// The run as it is read from a file, and the version that the file requires.
fn written(run: &Arc<Run>) -> (Arc<Run>, u64) {
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open("s".as_ref(), mode).unwrap();
    let file = StoreFile::new(file, "s", StoreId([7; 16]));
    let link = run.write(&file, 4096, VersionNumber(1), Lineage(1)).unwrap();
    (Run::open(file.clone(), link, pool()).unwrap(), file.features())
}

fn transposed(run: &Run) -> usize {
    run.blocks().entries().iter().filter(|entry| entry.packing.is_transposed).count()
}

fn forward(mut cursor: RunCursor) -> Rows {
    let mut rows = Rows::new();
    while let Some(entry) = cursor.entry() {
        rows.insert(entry.key.to_vec(), (entry.tag, entry.payload.to_vec()));
        cursor.advance().unwrap();
    }
    rows
}

/// Queries a run in every way and compares the answers with its rows.
fn assert_answers(run: &Arc<Run>, rows: &Rows) {
    let source: Arc<dyn BlockSource> = Arc::new(NoCache(pool()));
    for (key, (tag, payload)) in rows.iter().step_by(7) {
        let found = run.get(key, key_hash(key), &*source).unwrap().unwrap();
        assert_eq!((found.tag, found.payload()), (*tag, &payload[..]));
        let beside = [&key[..], &[0]].concat();
        assert!(run.get(&beside, key_hash(&beside), &*source).unwrap().is_none());
    }
    for start in [RunCursor::bulk(run.clone()), RunCursor::new(run.clone(), source.clone())] {
        let mut cursor = start;
        cursor.seek_first().unwrap();
        assert_eq!(&forward(cursor), rows);
    }
    let mut cursor = RunCursor::new(run.clone(), source.clone());
    cursor.seek_last().unwrap();
    for (key, (_, payload)) in rows.iter().rev() {
        let entry = cursor.entry().unwrap();
        assert_eq!((entry.key, entry.payload), (&key[..], &payload[..]));
        cursor.retreat().unwrap();
    }
    assert!(cursor.entry().is_none());
    for (key, _) in rows.iter().step_by(rows.len() / 5) {
        let mut cursor = RunCursor::new(run.clone(), source.clone());
        cursor.seek(&[&key[..], &[0]].concat()).unwrap();
        let next = rows.range([&key[..], &[0]].concat()..).next();
        assert_eq!(cursor.entry().map(|entry| entry.key), next.map(|(key, _)| &key[..]));
        cursor.seek_before(key).unwrap();
        let before = rows.range(..key.clone()).next_back();
        assert_eq!(cursor.entry().map(|entry| entry.key), before.map(|(key, _)| &key[..]));
    }
}

#[test]
fn a_run_of_transposed_blocks_reads_like_any_other() {
    let rows = rows(0..9000);
    for codec in [Codec::Lz4, Codec::Zstd1, Codec::Zstd3] {
        let run = build(&rows, codec);
        assert!(run.block_count() > 5);
        assert_eq!(transposed(&run), run.block_count(), "{codec:?}");
        assert_answers(&run, &rows);
        let (read, features) = written(&run);
        assert_eq!(features, FEATURE_TRANSPOSED_BLOCKS);
        assert_answers(&read, &rows);
    }
    // Without a codec nothing is transposed.
    let raw = build(&rows, Codec::Raw);
    assert_eq!((transposed(&raw), written(&raw).1), (0, 0));
}

/// Sizes of these rows: narrow ones take less than a sixth of their 18 bytes. The figures may fall
/// with a newer zstd.
#[test]
fn sizes_of_similar_rows_are_bounded() {
    let take = |rows: &Rows, codec| build(rows, codec).data_bytes() as f64 / rows.len() as f64;
    let narrow = rows(0..20_000);
    let wide: Rows = (0..5000u32)
        .map(|row| {
            let digits: String =
                (0..8).map(|at| format!("{:011}-", xxh3(row, at) % 100_000_000_000)).collect();
            let value = [&(xxh3(row, 9) as u32 % 5000).to_be_bytes()[..], digits.as_bytes()];
            (row.to_be_bytes().to_vec(), (Tag::PUT, value.concat()))
        })
        .collect();
    let sizes = [
        // 8 bits of noise, 3.7 of a difference, 2 of a value: 1.7 bytes, if zstd had a code for
        // each position.
        ("narrow, lz4", take(&narrow, Codec::Lz4), 3.1),
        ("narrow, zstd-1", take(&narrow, Codec::Zstd1), 2.5),
        ("narrow, zstd-3", take(&narrow, Codec::Zstd3), 2.5),
        // 88 digits of 3.32 bits and 12.3 bits: 38.1 bytes.
        ("wide, zstd-1", take(&wide, Codec::Zstd1), 44.0),
    ];
    for (name, bytes, most) in sizes {
        println!("{name}: {bytes:.2} bytes a row");
        assert!(bytes < most, "{name}: {bytes:.2} bytes a row");
    }
}

fn xxh3(row: u32, seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&row.to_le_bytes(), seed)
}

/// Blocks with a Delete, a Merge or a longer key among their rows are not transposed; other blocks
/// of the run are.
#[test]
fn dissimilar_rows_stay_in_row_form() {
    let mut rows = rows(0..9000);
    let keys: Vec<Vec<u8>> = rows.keys().cloned().collect();
    rows.insert(keys[4000].clone(), (Tag::DELETE, Vec::new()));
    rows.insert([&keys[7000][..], &[1]].concat(), (Tag::PUT, vec![5; 6]));
    let run = build(&rows, Codec::Zstd1);
    assert_eq!(transposed(&run), run.block_count() - 2);
    assert_answers(&written(&run).0, &rows);
    assert_eq!(run.counts().deletes, 1);
    let deleted: Rows = rows.into_keys().map(|key| (key, (Tag::DELETE, Vec::new()))).collect();
    assert_eq!(transposed(&build(&deleted, Codec::Zstd1)), 0);
}

/// A merge carries transposed blocks as bytes into runs whose footers then say so. It decodes the
/// blocks at the ends for their keys.
#[test]
fn transposed_blocks_are_carried() {
    let old = rows(0..9000);
    let (from, _) = written(&build(&old, Codec::Zstd1));
    let touched = from.block_count() / 2;
    let (low, high) = (from.blocks().separator(touched), from.blocks().separator(touched + 1));
    for filter_bits in [None, Some(10)] {
        let mut builder =
            RunBuilder::new(pool(), RunOptions { filter_bits, ..options(Codec::Zstd1) });
        let (mut buf, mut expected) = (ReadBuf::new(pool()), old.clone());
        for index in 0..from.block_count() {
            if index == touched {
                for (key, _) in old.range(low.to_vec()..high.to_vec()) {
                    builder.push(key, Tag::DELETE, &[]).unwrap();
                    expected.insert(key.clone(), (Tag::DELETE, Vec::new()));
                }
            } else {
                assert!(builder.carries(&from));
                let bytes = from.encoded_block(index, &mut buf).unwrap();
                builder.carry_block(&from, index, bytes).unwrap();
            }
        }
        let run = builder.finish().unwrap().unwrap();
        assert_eq!(transposed(&run), from.block_count() - 1);
        let (read, features) = written(&run);
        assert_eq!(features, FEATURE_TRANSPOSED_BLOCKS);
        assert_answers(&read, &expected);
        assert_eq!(read.last_key(), expected.keys().next_back().map(Vec::as_slice));
        assert!(
            read.filter().is_none() || expected.keys().all(|key| read.may_contain(key_hash(key)))
        );
    }
}

/// Promise: P22, P20. The version of a footer says that blocks may be transposed; otherwise the bit
/// is unknown.
#[test]
fn only_runs_of_the_right_version_have_transposed_blocks() {
    let run = build(&rows(0..3000), Codec::Zstd1);
    let identity = Identity {
        store: StoreId([7; 16]),
        kind: PageKind::Run,
        offset: 4096,
        bytes: run.extent_bytes(),
        birth: VersionNumber(1),
        lineage: Lineage(1),
    };
    let mut footer = run.footer.to_disk(&identity);
    assert_eq!(footer[4], 3);
    assert!(Footer::from_disk(&identity, &footer).is_ok());
    // Read as a run of columnar blocks, it has no format that can be read.
    for (version, why) in [(1, "transposed"), (2, "run format"), (5, "version")] {
        footer[4] = version;
        let flaw = format!("{:?}", Footer::from_disk(&identity, &footer).unwrap_err());
        assert!(flaw.contains(why), "{version}: {flaw}");
    }
    assert_eq!(build(&rows(0..3000), Codec::Raw).footer.to_disk(&identity)[4], 1);
}

/// All forms are tried on one block in [`CHOSEN_ONE_IN`], in whichever run that block is.
#[test]
fn the_chosen_form_is_kept_from_run_to_run() {
    let work = WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(1));
    let mut blocks = 0;
    for leaf in 0..4u32 {
        let mut builder = RunBuilder::new(pool(), options(Codec::Zstd1)).counted(work.clone());
        for (key, (tag, payload)) in &rows(leaf * 9000..(leaf + 1) * 9000) {
            builder.push(key, *tag, payload).unwrap();
        }
        blocks += builder.finish().unwrap().unwrap().block_count() as u32;
        let hint = work.hint();
        assert_eq!((hint.blocks, hint.in_vain), (blocks, 0));
        assert!(matches!(hint.form, Form::Transposed(3..=4)), "{hint:?}");
    }
    assert!(blocks > CHOSEN_ONE_IN);
    // Each tree has its own hint, and rows of texts have another one.
    let other = WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(2));
    let mut builder = RunBuilder::new(pool(), options(Codec::Zstd1)).counted(other.clone());
    for row in 0..3000usize {
        let text = ["fern ", "leaf ", "light "].map(|word| word.repeat(1 + row % 3)).concat();
        let key = format!("{row:05}{}", "+".repeat(row % 2));
        builder.push(key.as_bytes(), Tag::PUT, text.as_bytes()).unwrap();
    }
    builder.finish().unwrap();
    assert_eq!((work.hint().blocks, other.hint().blocks > 0), (blocks, true));
    assert_eq!(other.hint().form, Form::Unknown, "there was nothing to choose");
}

/// Rows that had no common shape for some blocks are rarely examined, and regular rows are noticed
/// again.
#[test]
fn dissimilar_rows_are_rarely_examined_for_transposing() {
    let work = WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(1));
    let leaf = |rows: &Rows| {
        let mut builder = RunBuilder::new(pool(), options(Codec::Zstd1)).counted(work.clone());
        for (key, (tag, payload)) in rows {
            builder.push(key, *tag, payload).unwrap();
        }
        builder.finish().unwrap().unwrap()
    };
    let mut mixed = rows(0..9000);
    // A longer key in every block, far from its first row.
    let longer: Vec<Vec<u8>> = mixed.keys().skip(300).step_by(300).cloned().collect();
    mixed.extend(longer.into_iter().map(|key| ([&key[..], &[1]].concat(), (Tag::PUT, vec![5]))));
    let run = leaf(&mixed);
    assert_eq!(transposed(&run), 0);
    assert_eq!(work.hint().unlike as usize, run.block_count());
    assert!(run.block_count() as u32 > IN_VAIN_MAX);
    let run = leaf(&rows(0..30_000));
    let rows_before = run.block_count() - transposed(&run);
    assert!(rows_before < TRIED_ONE_IN as usize, "{rows_before} of {}", run.block_count());
    assert!(work.hint().unlike == 0 && transposed(&run) > 0);
    assert!((0..200).filter(|&unlike| is_tried_after(unlike)).count() < 20);
}
