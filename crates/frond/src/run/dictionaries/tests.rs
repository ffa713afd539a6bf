//! Tests of dictionaries over successive leaves of one tree: which leaves have one, and that they
//! read like leaves without.

use std::collections::BTreeMap;

use super::*;
use crate::{
    cache::{FramePool, NoCache},
    io::{MemoryVfs, OpenMode, RealClock, Vfs},
    layout::DecodeError,
    message::Tag,
    page::{FEATURE_DICTIONARIES, Identity, PageKind, StoreFile},
    run::{
        ReadBuf, Run, RunBuilder, RunCursor, RunOptions, Work, WorkByTree, footer::Footer, key_hash,
    },
    types::{Lineage, StoreId, VersionNumber},
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const ROWS: u32 = 8000;

fn random(number: u64, seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&number.to_le_bytes(), seed)
}

/// One of four hundred names of some eighty letters, with two numbers.
fn text(row: u32, era: u64) -> Vec<u8> {
    let dice = random(row.into(), era);
    let call = dice % 400;
    let letter = |at| (b'a' + (random(call * 100 + at, era) % 26) as u8) as char;
    let name: String = (0..80).map(letter).collect();
    format!("{name} @id={} @at={}", dice >> 40, dice >> 20 & 0xffff).into_bytes()
}

/// Keys of several lengths, so that rows are not transposed.
fn rows(numbers: std::ops::Range<u32>, era: u64) -> Rows {
    numbers
        .map(|row| (format!("{row:08}{}", "+".repeat(row as usize % 3)).into(), text(row, era)))
        .collect()
}

fn noise(numbers: std::ops::Range<u32>) -> Rows {
    let bytes = |row: u32| (0..12).flat_map(|at| random(at, row.into()).to_le_bytes()).collect();
    numbers.map(|row| (row.to_be_bytes().into(), bytes(row))).collect()
}

fn work() -> Arc<Work> {
    WorkByTree::new(Arc::new(RealClock::new())).of(Lineage(1))
}

fn pool() -> Arc<FramePool> {
    FramePool::new(64 << 20)
}

fn builder(work: Option<&Arc<Work>>, base: Option<&Run>) -> RunBuilder {
    let options = RunOptions { codec: Codec::Zstd3, ..RunOptions::default() };
    let builder = RunBuilder::row_blocks(pool(), options, base);
    match work {
        Some(work) => builder.counted(work.clone()),
        None => builder,
    }
}

fn leaf(work: Option<&Arc<Work>>, rows: &Rows) -> Arc<Run> {
    let mut builder = builder(work, None);
    for (key, value) in rows {
        builder.push(key, Tag::PUT, value).unwrap();
    }
    builder.finish().unwrap().unwrap()
}

/// The leaf as it is read from a file, and the version that the file requires.
fn opened(run: &Run, work: Option<&Arc<Work>>) -> (Arc<Run>, u64) {
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open("s".as_ref(), mode).unwrap();
    let file = StoreFile::new(file, "s", StoreId([7; 16]));
    let link = run.write(&file, 4096, VersionNumber(1), Lineage(1)).unwrap();
    let run = Run::open_counted(file.clone(), link, pool(), work.cloned()).unwrap();
    (run, file.features())
}

fn under(run: &Run) -> usize {
    run.blocks().entries().iter().filter(|entry| entry.packing.has_dictionary).count()
}

fn all_rows(run: &Arc<Run>) -> Rows {
    let mut cursor = RunCursor::bulk(run.clone());
    cursor.seek_first().unwrap();
    let mut rows = Rows::new();
    while let Some(entry) = cursor.entry() {
        rows.insert(entry.key.to_vec(), entry.payload.to_vec());
        cursor.advance().unwrap();
    }
    rows
}

fn assert_answers(run: &Arc<Run>, rows: &Rows) {
    assert_eq!(&all_rows(run), rows);
    for (key, value) in rows.iter().step_by(97) {
        let found = run.get(key, key_hash(key), &NoCache(pool())).unwrap().unwrap();
        assert_eq!(found.payload(), &value[..]);
    }
    assert_eq!(run.last_key(), rows.keys().next_back().map(Vec::as_slice));
}

fn identity(run: &Run) -> Identity {
    Identity {
        store: StoreId([7; 16]),
        kind: PageKind::Run,
        offset: 4096,
        bytes: run.extent_bytes(),
        birth: VersionNumber(1),
        lineage: Lineage(1),
    }
}

/// The first leaf trains a dictionary, the leaves after it take fewer bytes, and all can be read.
#[test]
fn leaves_after_the_first_are_under_its_dictionary() {
    let work = work();
    for number in 0..3 {
        let rows = rows(number * ROWS..(number + 1) * ROWS, 1);
        let (with, without) = (leaf(Some(&work), &rows), leaf(None, &rows));
        assert_eq!((under(&without), opened(&without, None).1), (0, 0));
        assert_answers(&with, &rows);
        let (read, features) = opened(&with, None);
        assert_answers(&read, &rows);
        if number == 0 {
            assert_eq!((under(&with), features, with.dictionary()), (0, 0, None));
            continue;
        }
        assert_eq!((under(&with), features), (with.block_count(), FEATURE_DICTIONARIES));
        let (bytes, plainly) = (with.extent_bytes(), without.extent_bytes());
        println!("{bytes} bytes for {plainly}");
        assert!(u64::from(bytes) * 100 < u64::from(plainly) * 85, "{bytes} of {plainly}");
        // Open runs of a tree share its dictionary; a dictionary that nothing else holds counts as
        // the run's own.
        let (shared, _) = opened(&with, Some(&work));
        assert!(Arc::ptr_eq(shared.dictionary().unwrap(), with.dictionary().unwrap()));
        assert_answers(&shared, &rows);
        let more = read.resident_bytes() - shared.resident_bytes();
        assert_eq!(more, read.dictionary().unwrap().memory_bytes());
    }
    assert_eq!(work.leaves().trainings, 1);
}

/// Sizes of texts whose names are together twice as long as the dictionary: 64 bytes a row without
/// it. The figures may fall with a newer zstd.
#[test]
fn sizes_of_texts() {
    let work = work();
    let leaves: Vec<_> = (0..4)
        .map(|number| leaf(Some(&work), &rows(number * ROWS..(number + 1) * ROWS, 1)))
        .collect();
    let bytes: u32 = leaves[1..].iter().map(|leaf| leaf.extent_bytes()).sum();
    let bytes = f64::from(bytes) / f64::from(3 * ROWS);
    println!("{bytes:.2} bytes a row");
    assert!(bytes < 46.0, "{bytes:.2} bytes a row");
}

/// A tree that was just opened continues with the dictionary of its leaves.
#[test]
fn a_reopened_tree_continues_with_the_dictionary_of_its_leaves() {
    let work = work();
    leaf(Some(&work), &rows(0..ROWS, 1));
    let old = leaf(Some(&work), &rows(ROWS..2 * ROWS, 1));
    let later = self::work();
    let (read, _) = opened(&old, Some(&later));
    let rows = rows(2 * ROWS..3 * ROWS, 1);
    let new = leaf(Some(&later), &rows);
    assert_eq!(new.dictionary(), read.dictionary());
    assert_answers(&new, &rows);
    assert_eq!(later.leaves().trainings, 0);
}

/// A merge carries blocks with a dictionary only into runs with the same one, and any others
/// anywhere.
#[test]
fn blocks_are_carried_into_runs_of_the_same_dictionary() {
    let (one, other) = (work(), work());
    let plain = leaf(Some(&one), &rows(0..ROWS, 1));
    leaf(Some(&other), &rows(0..ROWS, 2));
    let rows = rows(ROWS..2 * ROWS, 1);
    let (from, _) = opened(&leaf(Some(&one), &rows), None);
    assert!(under(&from) > 0);
    // Equal but not the same object: it was read from a file.
    assert!(builder(Some(&one), None).carries(&from));
    assert!(!builder(Some(&other), None).carries(&from) && !builder(None, None).carries(&from));
    assert!(builder(Some(&other), None).carries(&plain) && builder(None, None).carries(&plain));
    // The dictionary of a merge's base is used, whatever the tree has learned since.
    for work in [&one, &other] {
        let mut builder = builder(Some(work), Some(&from));
        assert!(builder.carries(&from));
        let (mut expected, mut buf) = (rows.clone(), ReadBuf::new(pool()));
        let touched = from.block_count() / 2;
        let separators =
            [touched, touched + 1].map(|block| from.blocks().separator(block).to_vec());
        for index in 0..from.block_count() {
            if index != touched {
                let encoded = from.encoded_block(index, &mut buf).unwrap();
                builder.carry_block(&from, index, encoded).unwrap();
                continue;
            }
            for key in rows.range(separators[0].clone()..separators[1].clone()).map(|(key, _)| key)
            {
                builder.push(key, Tag::PUT, b"another").unwrap();
                expected.insert(key.clone(), b"another".to_vec());
            }
        }
        let merged = builder.finish().unwrap().unwrap();
        assert_eq!(merged.dictionary(), from.dictionary());
        assert_answers(&opened(&merged, None).0, &expected);
    }
}

/// A short leaf drops the dictionary, which is longer than what it saves there.
#[test]
fn a_dictionary_not_worth_its_bytes_is_dropped() {
    let work = work();
    leaf(Some(&work), &rows(0..ROWS, 1));
    for count in [1, 10, 150, 400] {
        let rows = rows(ROWS..ROWS + count, 1);
        let before = work.leaves();
        let (short, plainly) = (leaf(Some(&work), &rows), leaf(None, &rows));
        assert_eq!((short.dictionary(), under(&short)), (None, 0), "{count}");
        assert_eq!(short.extent_bytes(), plainly.extent_bytes(), "{count}");
        assert_answers(&opened(&short, None).0, &rows);
        let after = work.leaves();
        assert_eq!(after.bytes - before.bytes, short.data_bytes());
        let raw = after.chunks_raw - before.chunks_raw;
        let coded = if raw == 0 { short.data_bytes() } else { 0 };
        assert_eq!(after.chunks_coded_bytes - before.chunks_coded_bytes, coded, "{count}");
    }
}

/// A tree that was opened again does not know what its dictionary saves: short leaves still have it
/// where it pays.
#[test]
fn a_dictionary_that_pays_is_kept_in_a_reopened_tree() {
    let work = work();
    leaf(Some(&work), &rows(0..ROWS, 1));
    let whole = leaf(Some(&work), &rows(ROWS..2 * ROWS, 1));
    let again = self::work();
    let (_opened, _) = opened(&whole, Some(&again));
    let mut kept = 0;
    for count in (400..3200).step_by(400) {
        let rows = rows(2 * ROWS..2 * ROWS + count, 1);
        let short = leaf(Some(&again), &rows);
        for other in [leaf(Some(&work), &rows), leaf(None, &rows)] {
            assert!(short.extent_bytes() <= other.extent_bytes(), "{count} rows");
        }
        assert_answers(&opened(&short, None).0, &rows);
        kept += u32::from(short.dictionary().is_some());
    }
    assert!(kept > 2, "{kept} of seven");
}

/// The result that no dictionary pays is remembered too: random bytes do not cause training again
/// and again.
#[test]
fn a_useless_dictionary_is_not_trained_again_and_again() {
    let (work, count) = (work(), 3000);
    for number in 0..40 {
        let leaf = leaf(Some(&work), &noise(number * count..(number + 1) * count));
        assert_eq!(under(&leaf), 0);
    }
    assert_eq!(work.leaves().trainings, 0);
    // These numbers compress, but have nothing in common.
    let work = self::work();
    for number in 0..20u32 {
        let value = |row: u32| [[0; 8], random(row.into(), 9).to_be_bytes()].concat();
        let numbers = number * 20_000..(number + 1) * 20_000;
        let rows = numbers.map(|row| (row.to_be_bytes().to_vec(), value(row))).collect();
        let leaf = leaf(Some(&work), &rows);
        assert!(leaf.data_bytes() < 20_000 * 12);
        assert_eq!(under(&leaf), 0);
    }
    assert_eq!(work.leaves().trainings, 1);
}

/// Other texts get another dictionary, after some leaves compress worse than the old one promised.
#[test]
fn a_dictionary_is_retrained_when_the_data_changes() {
    let work = work();
    let mut number = 0;
    let mut next = |era| {
        number += 1;
        leaf(Some(&work), &rows(number * ROWS..(number + 1) * ROWS, era))
    };
    next(1);
    let first = next(1).dictionary().unwrap().clone();
    let second = (0..12).find_map(|_| {
        let leaf = next(2);
        leaf.dictionary().filter(|its| **its != first).cloned()
    });
    assert!(second.is_some());
    assert_eq!(work.leaves().trainings, 2);
    assert_eq!(next(2).dictionary(), second.as_ref());
}

/// Promise: P22, P20. The version of a footer says that there is a dictionary; without one no block
/// can use it.
#[test]
fn only_runs_of_the_right_version_have_a_dictionary() {
    let work = work();
    leaf(Some(&work), &rows(0..ROWS, 1));
    let run = leaf(Some(&work), &rows(ROWS..2 * ROWS, 1));
    let identity = identity(&run);
    let whole = run.footer.to_disk(&identity);
    assert_eq!(whole[4], 4);
    assert!(Footer::from_disk(&identity, &whole).is_ok());
    for version in [1, 2, 3, 5] {
        let mut footer = whole.clone();
        footer[4] = version;
        match Footer::from_disk(&identity, &footer).unwrap_err() {
            DecodeError::TooNew { what } if version == 5 => assert!(what.contains("version 5")),
            // Read as a run of columnar blocks, it would have a format where the dictionary is.
            flaw => assert!(version < 4, "{version}: {flaw:?}"),
        }
    }
    // The dictionary removed, everything else unchanged.
    let mut without = Footer { dictionary: None, ..run.footer.clone() };
    let footer = without.to_disk(&identity);
    let flaw = format!("{:?}", Footer::from_disk(&identity, &footer).unwrap_err());
    assert!(flaw.contains("under a dictionary in a run that has none"), "{flaw}");
    // Another dictionary in its place: an error, or bytes that are no block of these rows.
    without.dictionary = Dictionary::new(vec![b'x'; 4000]).map(Arc::new);
    let mut buf = ReadBuf::new(pool());
    let encoded = run.encoded_block(0, &mut buf).unwrap();
    let entry = run.blocks().entries()[0];
    let mut raw = vec![0; entry.raw_bytes as usize];
    let decoded = entry.packing.decode(without.dictionary.as_deref(), encoded, &mut raw);
    assert!(
        decoded.is_err() || run.check_block(0, &raw, &mut crate::block::Chunks::default()).is_err()
    );
    let missing = entry.packing.decode(None, encoded, &mut raw).unwrap_err();
    let error = run.bad_block(0, missing).to_string();
    assert!(error.contains("needs a dictionary"), "{error}");
}

/// Promise: P15. Dictionaries on disk have bounds, whatever the bytes claim.
#[test]
fn dictionaries_on_disk_have_bounds() {
    let stored = |bytes: &[u8]| Dictionary::new(bytes.to_vec()).map(|its| its.to_disk().to_vec());
    let text = text(1, 1).repeat(20);
    let whole = stored(&text).unwrap();
    assert_eq!(Dictionary::from_disk(&whole).unwrap().as_bytes(), text);
    for cut in 0..whole.len() {
        assert!(Dictionary::from_disk(&whole[..cut]).is_err(), "{cut}");
    }
    assert!(Dictionary::from_disk(&[&whole[..], &[0]].concat()).is_err());
    for (bytes, fits) in [
        (vec![7; 7], false),
        (vec![7; 8], true),
        (vec![7; 64 << 10], true),
        (vec![7; (64 << 10) + 1], false),
        (0xec30_a437_u32.to_le_bytes().repeat(4), false),
    ] {
        assert_eq!(stored(&bytes).is_some(), fits);
    }
    // A few bytes that claim to be gigabytes.
    let claims = [0xff, 0xff, 0xff, 0xff, 0x0f, 3, 2, 1, 1];
    assert!(Dictionary::from_disk(&claims).is_err());
}
