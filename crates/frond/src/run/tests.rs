//! Tests of whole runs: built, written, opened, read, merged, damaged.

use std::{collections::BTreeMap, path::Path};

use super::*;
use crate::{
    block::{Chunks, Codec},
    cache::{BlockCache, BlockSource, FramePool, NoCache},
    error::Error,
    io::{MemoryVfs, OpenMode, Vfs},
    page::{Link, StoreFile},
    sync::Arc,
    types::{Lineage, StoreId, VersionNumber},
};

type Rows = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;

fn pool() -> Arc<FramePool> {
    FramePool::new(64 << 20)
}

fn file() -> Arc<StoreFile> {
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open(Path::new("store.frond"), mode).unwrap();
    StoreFile::new(file, "store.frond", StoreId([7; 16]))
}

fn rows(count: usize, step: usize) -> Rows {
    let row = |i: usize| {
        let key = format!("customer {:07} {:05}", i * step, i * 37 % 101).into_bytes();
        let tag = [Tag::PUT, Tag::PUT_FRESH, Tag::DELETE][i % 3];
        let payload = if tag == Tag::DELETE { vec![] } else { format!("row {i}").into_bytes() };
        (key, (tag, payload))
    };
    (0..count).map(row).collect()
}

fn build(rows: &Rows, options: RunOptions) -> Arc<Run> {
    let mut builder = RunBuilder::new(pool(), options);
    for (key, (tag, payload)) in rows {
        builder.push(key, *tag, payload).unwrap();
    }
    builder.finish().unwrap().unwrap()
}

fn write(run: &Run, file: &Arc<StoreFile>, offset: u64) -> Link {
    run.write(file, offset, VersionNumber(5), Lineage(2)).unwrap()
}

fn all_options() -> impl Iterator<Item = RunOptions> {
    let codecs = [Codec::Raw, Codec::Lz4, Codec::Zstd1, Codec::Zstd3];
    codecs.into_iter().flat_map(|codec| {
        [(None, 16 << 10), (Some(10), 300)].map(|(filter_bits, block_bytes)| RunOptions {
            codec,
            filter_bits,
            block_bytes,
        })
    })
}

/// Key, tag and payload.
type Row = (Vec<u8>, Tag, Vec<u8>);

fn walk(mut cursor: RunCursor) -> Result<Vec<Row>> {
    let mut seen = Vec::new();
    cursor.seek_first()?;
    while let Some(entry) = cursor.entry() {
        seen.push((entry.key.to_vec(), entry.tag, entry.payload.to_vec()));
        cursor.advance()?;
    }
    Ok(seen)
}

fn expected(rows: &Rows) -> Vec<Row> {
    rows.iter().map(|(key, (tag, payload))| (key.clone(), *tag, payload.clone())).collect()
}

/// Reads everything in every way and compares.
fn assert_holds(run: &Arc<Run>, rows: &Rows, source: &Arc<dyn BlockSource>) {
    let wanted = expected(rows);
    assert_eq!(walk(RunCursor::bulk(run.clone())).unwrap(), wanted);
    assert_eq!(walk(RunCursor::new(run.clone(), source.clone())).unwrap(), wanted);
    assert_eq!(run.entries(), rows.len() as u64);
    assert_eq!(run.first_key(), wanted.first().map(|row| row.0.as_slice()));
    assert_eq!(run.last_key(), wanted.last().map(|row| row.0.as_slice()));
    for (key, tag, payload) in wanted.iter().step_by(7) {
        let found = run.get(key, key_hash(key), &**source).unwrap().unwrap();
        assert_eq!((found.tag, found.payload()), (*tag, payload.as_slice()));
        let absent = [key.as_slice(), b"x"].concat();
        assert!(run.get(&absent, key_hash(&absent), &**source).unwrap().is_none());
    }
}

#[test]
fn a_run_reads_the_same_in_memory_written_and_reopened() {
    let rows = rows(3000, 3);
    for options in all_options() {
        let run = build(&rows, options);
        let cache: Arc<dyn BlockSource> = BlockCache::new(pool(), 1 << 20);
        assert_holds(&run, &rows, &cache);
        let file = file();
        let link = write(&run, &file, 8192);
        assert_eq!(link.bytes, run.extent_bytes());
        let pinned = run.block(0, &*cache, &mut Chunks::default()).unwrap();
        let before = pinned.to_vec();
        run.set_written(file.clone(), link);
        assert_eq!(*pinned, *before, "a pinned block outlives the switch");
        assert_holds(&run, &rows, &cache);
        let opened = Run::open(file, link, pool()).unwrap();
        let cache: Arc<dyn BlockSource> = BlockCache::new(pool(), 1 << 20);
        assert_holds(&opened, &rows, &cache);
        assert_eq!(opened.counts(), run.counts());
        assert_eq!(opened.counts().deletes, 1000);
    }
}

/// Rule: I51.
#[test]
fn estimates_are_nearly_exact_if_blocks_are_in_memory() {
    let rows = rows(3000, 3);
    let keys: Vec<&Vec<u8>> = rows.keys().collect();
    let ranges = [(0, 1), (5, 6), (17, 1900), (2998, 3000), (0, 3000), (1000, 1010)];
    for options in all_options() {
        let run = build(&rows, options);
        let file = file();
        let run = Run::open(file.clone(), write(&run, &file, 8192), pool()).unwrap();
        let cache: Arc<dyn BlockSource> = BlockCache::new(pool(), 8 << 20);
        let estimate = |from: usize, to: usize| {
            let to = keys.get(to).map(|key| key.as_slice());
            run.held_between(Some(keys[from].as_slice()), to).0
        };
        let cold = ranges.map(|(from, to)| estimate(from, to));
        assert!(cold.iter().all(|&rows| rows > 0 && rows <= 3000));
        // A block gets a slot when it is asked for a second time.
        for _ in 0..2 {
            walk(RunCursor::new(run.clone(), cache.clone())).unwrap();
        }
        for (from, to) in ranges {
            let values = rows.values().take(to).skip(from).filter(|(tag, _)| *tag != Tag::DELETE);
            let (values, said) = (values.count() as u64, estimate(from, to));
            // In blocks at the ends of the range, deletes are estimated by their share of the
            // block.
            assert!(values.max(1).abs_diff(said) <= 2, "{from}..{to}: {said} of {values}");
        }
    }
}

/// Collects the first 700 entries of a walk.
#[derive(Default)]
struct Walked(Vec<(Vec<u8>, Tag, Vec<u8>)>);

impl TakesEntries for Walked {
    fn take(&mut self, entry: Entry<'_>, is_whole: bool) -> Result<bool> {
        assert!(is_whole);
        self.0.push((entry.key.to_vec(), entry.tag, entry.payload.to_vec()));
        Ok(self.0.len() < 700)
    }
}

#[test]
fn bounds_cut_a_cursor_on_both_sides() {
    let rows = rows(1000, 3);
    let run = build(&rows, RunOptions { block_bytes: 500, ..RunOptions::default() });
    let keys: Vec<&Vec<u8>> = rows.keys().collect();
    let source: Arc<dyn BlockSource> = Arc::new(NoCache(pool()));
    for (from, to) in [(0, 1000), (0, 0), (5, 6), (17, 900), (400, 400), (999, 1000), (30, 20)] {
        let lo = keys[from].as_slice();
        let hi = keys.get(to).map(|key| key.as_slice());
        let wanted: Vec<_> =
            expected(&rows).into_iter().skip(from).take(to.saturating_sub(from)).collect();
        let cursor = RunCursor::new(run.clone(), source.clone()).range(Some(lo), hi);
        assert_eq!(walk(cursor).unwrap(), wanted, "{from}..{to}");
        let mut cursor = RunCursor::new(run.clone(), source.clone()).range(Some(lo), hi);
        cursor.seek_first().unwrap();
        let mut walked = Walked::default();
        cursor.walk(&mut walked).unwrap();
        assert_eq!(walked.0, wanted[..wanted.len().min(700)], "{from}..{to}");
        let mut bulk = RunCursor::bulk(run.clone()).range(Some(lo), hi);
        bulk.seek(b"").unwrap();
        assert_eq!(bulk.entry().map(|e| e.key.to_vec()), wanted.first().map(|row| row.0.clone()));
        let estimate = run.held_between(Some(lo), hi).0;
        assert!(estimate > 0 || wanted.is_empty());
    }
    assert_eq!(run.bytes_between(Some(b"d"), None), 0);
    assert_eq!(run.bytes_between(None, Some(b"a")), 0);
    assert_eq!(run.bytes_between(None, None), run.data_bytes());
}

#[test]
fn oversize_rows_get_their_own_block_and_separators_stay_short() {
    let mut rows = rows(200, 3);
    for i in [5usize, 50, 51, 199] {
        let key = rows.keys().nth(i).unwrap().clone();
        rows.insert(key, (Tag::PUT, vec![i as u8; 70_000]));
    }
    rows.insert(vec![b'z'; 64 << 10], (Tag::PUT, vec![]));
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
        let run = build(&rows, RunOptions { codec, ..RunOptions::default() });
        let cache: Arc<dyn BlockSource> = BlockCache::new(pool(), 1 << 20);
        assert_holds(&run, &rows, &cache);
        let separators = (1..run.block_count()).map(|i| run.blocks().separator(i).len());
        assert!(separators.max().unwrap() <= "customer 0000000 ".len() + 5);
        let file = file();
        let link = write(&run, &file, 4096);
        assert_holds(&Run::open(file, link, pool()).unwrap(), &rows, &cache);
    }
}

/// A leaf merge rewrites the blocks that messages touch, and carries the others.
#[test]
fn carried_blocks_read_as_if_rewritten() {
    let old_rows = rows(2000, 3);
    for (filter_bits, codec) in [(None, Codec::Zstd1), (Some(10), Codec::Lz4), (None, Codec::Raw)] {
        let options = RunOptions { codec, filter_bits, block_bytes: 1000 };
        let old = build(&old_rows, options);
        let touched = |block: usize| matches!(block % 5, 1 | 2);
        for blocks in [0..old.block_count(), 3..old.block_count() - 2, 2..9] {
            let mut wanted = Rows::new();
            let mut builder = RunBuilder::new(pool(), options);
            let mut buf = ReadBuf::new(pool());
            for block in blocks.clone() {
                let lo = old.blocks().separator(block).to_vec();
                let hi = (block + 1 < old.block_count())
                    .then(|| old.blocks().separator(block + 1).to_vec());
                let mut cursor = RunCursor::bulk(old.clone()).range(Some(&lo), hi.as_deref());
                cursor.start_at_block(block).unwrap();
                if !touched(block) {
                    let encoded = old.encoded_block(block, &mut buf).unwrap();
                    builder.carry_block(&old, block, encoded).unwrap();
                }
                while let Some(entry) = cursor.entry() {
                    let mut keys = vec![entry.key.to_vec()];
                    if touched(block) {
                        keys.push([entry.key, b"+"].concat());
                        keys.iter()
                            .for_each(|k| builder.push(k, entry.tag, entry.payload).unwrap());
                    }
                    for key in keys {
                        wanted.insert(key, (entry.tag, entry.payload.to_vec()));
                    }
                    cursor.advance().unwrap();
                }
            }
            let run = builder.finish().unwrap().unwrap();
            let source: Arc<dyn BlockSource> = Arc::new(NoCache(pool()));
            assert_holds(&run, &wanted, &source);
            let file = file();
            let link = write(&run, &file, 0);
            assert_holds(&Run::open(file, link, pool()).unwrap(), &wanted, &source);
        }
    }
}

#[test]
fn unordered_input_is_refused() {
    let old = build(&rows(100, 3), RunOptions { block_bytes: 300, ..RunOptions::default() });
    let mut builder = RunBuilder::new(pool(), RunOptions::default());
    builder.push(b"d", Tag::PUT, b"").unwrap();
    assert!(builder.push(b"d", Tag::PUT, b"").is_err());
    assert!(builder.push(b"c", Tag::PUT, b"").is_err());
    let mut buf = ReadBuf::new(pool());
    let encoded = old.encoded_block(1, &mut buf).unwrap();
    assert!(builder.carry_block(&old, 1, encoded).is_err());
}

#[test]
fn range_deletes_and_blobs_travel_with_the_run() {
    let mut builder = RunBuilder::new(pool(), RunOptions::default());
    assert!(builder.is_empty());
    builder.add_range_delete(b"b", b"d");
    builder.add_range_delete(b"c", b"e");
    let only_ranges = builder.finish().unwrap().unwrap();
    assert_eq!((only_ranges.first_key(), only_ranges.entries()), (None, 0));
    let mut builder = RunBuilder::new(pool(), RunOptions::default());
    builder.add_range_delete(b"b", b"d");
    builder.push(b"c", Tag::PUT_BLOB, &[3; 16]).unwrap();
    builder.push(b"d", Tag::PUT_BLOB, &[3; 16]).unwrap();
    let run = builder.finish().unwrap().unwrap();
    for run in [only_ranges, run] {
        let file = file();
        let link = write(&run, &file, 4096);
        let opened = Run::open(file, link, pool()).unwrap();
        assert_eq!(opened.range_deletes(), run.range_deletes());
        assert!(opened.range_deletes().covers(b"c") && !opened.range_deletes().covers(b"e"));
        assert_eq!(opened.blobs(), run.blobs());
        assert!(walk(RunCursor::bulk(opened)).is_ok());
    }
    assert!(RunBuilder::new(pool(), RunOptions::default()).finish().unwrap().is_none());
}

#[test]
fn a_merge_folds_by_age_and_applies_range_deletes() {
    let operators = Operators::new();
    let folder = Folder::new(&operators);
    let source = |entries: &[(&str, Tag, &str)], ranges: &[(&str, &str)]| {
        let mut builder = RunBuilder::new(pool(), RunOptions::default());
        for (key, tag, payload) in entries {
            builder.push(key.as_bytes(), *tag, payload.as_bytes()).unwrap();
        }
        for (from, to) in ranges {
            builder.add_range_delete(from.as_bytes(), to.as_bytes());
        }
        let mut cursor = RunCursor::bulk(builder.finish().unwrap().unwrap());
        cursor.seek_first().unwrap();
        cursor
    };
    let newest =
        source(&[("a", Tag::DELETE, ""), ("c", Tag::PUT, "3c"), ("f", Tag::DELETE, "")], &[]);
    let middle = source(&[("c", Tag::PUT, "2c"), ("e", Tag::PUT, "2e")], &[("c", "e")]);
    let oldest = source(
        &[
            ("a", Tag::PUT_FRESH, "1a"),
            ("b", Tag::PUT, "1b"),
            ("c", Tag::DELETE, ""),
            ("d", Tag::PUT, "1d"),
            ("f", Tag::PUT, "1f"),
        ],
        &[("a", "z")],
    );
    let mut merge = MergeCursor::new(vec![newest, middle, oldest]);
    let mut seen = Vec::new();
    while let Some(entry) = merge.next_folded(&folder).unwrap() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        seen.push((text(entry.key), entry.tag, text(entry.payload)));
    }
    let row = |key: &str, tag, payload: &str| (key.to_owned(), tag, payload.to_owned());
    let wanted = [
        row("b", Tag::PUT, "1b"),
        row("c", Tag::PUT, "3c"),
        row("e", Tag::PUT, "2e"),
        row("f", Tag::DELETE, ""),
    ];
    assert_eq!(seen, wanted);
}

/// A long walk reads many blocks at once, in either direction; damage of a block that it has not
/// reached yet does not stop it.
#[test]
fn blocks_are_read_ahead_but_verified_one_by_one() {
    let rows = rows(20_000, 3);
    let run = build(&rows, RunOptions { block_bytes: 1000, ..RunOptions::default() });
    let file = file();
    let link = write(&run, &file, 8192);
    let blocks = run.block_count() as u64;
    let total = run.data_bytes();
    let opened = || Run::open(file.clone(), link, pool()).unwrap();
    for direction in [Direction::Forward, Direction::Backward] {
        let cache = BlockCache::new(pool(), 8 << 20);
        let mut cursor = RunCursor::new(opened(), cache.clone()).read_ahead(direction, 32 << 10);
        let mut seen = 0;
        if direction == Direction::Forward {
            cursor.seek_first().unwrap();
        } else {
            cursor.seek_last().unwrap();
        }
        while cursor.entry().is_some() {
            seen += 1;
            match direction {
                Direction::Forward => cursor.advance().unwrap(),
                Direction::Backward => cursor.retreat().unwrap(),
            }
        }
        assert_eq!(seen, rows.len());
        let stats = cache.stats();
        assert!(stats.device_reads <= total / (32 << 10) + 1, "{stats:?}");
        assert_eq!(stats.blocks, blocks, "every block once");
    }
    // A bit of block 5 flips: the walk, which read it together with block 0, gets as far as block
    // 4.
    let entry = *run.blocks().entry(5).unwrap();
    let at = link.offset + u64::from(entry.offset) + 10;
    let mut byte = [0];
    file.read_at(&mut byte, at).unwrap();
    file.write_at(&[byte[0] ^ 4], at).unwrap();
    let cache = BlockCache::new(pool(), 8 << 20);
    let mut cursor = RunCursor::new(opened(), cache).read_ahead(Direction::Forward, 32 << 10);
    cursor.seek_first().unwrap();
    let error = loop {
        match cursor.advance() {
            Ok(()) => assert!(cursor.entry().is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Checksum { place, .. } if place.offset <= at));
    assert_eq!(cursor.block_index(), 5);
}

/// Promise: P9, P20. Every byte of the extent is covered by a checksum.
#[test]
fn every_flipped_byte_is_an_error_with_its_location() {
    let rows = rows(150, 3);
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
        let options = RunOptions { codec, filter_bits: Some(10), block_bytes: 1000 };
        let run = build(&rows, options);
        let file = file();
        let link = write(&run, &file, 4096);
        let read =
            || Run::open(file.clone(), link, pool()).and_then(|run| walk(RunCursor::bulk(run)));
        assert_eq!(read().unwrap(), expected(&rows));
        for at in link.offset..link.offset + u64::from(link.bytes) {
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 1 << (at % 8)], at).unwrap();
            match read() {
                Err(Error::Checksum { place, .. }) => {
                    assert!((place.offset..place.offset + place.bytes).contains(&at));
                }
                other => panic!("byte {at}: {other:?}"),
            }
            file.write_at(&byte, at).unwrap();
        }
    }
}

/// Promise: P9. The right bytes in the wrong place, or under another identity, do not verify.
#[test]
fn a_run_other_than_the_linked_one_is_refused() {
    let run = build(&rows(500, 3), RunOptions::default());
    let file = file();
    let link = write(&run, &file, 4096);
    let elsewhere = u64::from(link.bytes) + 8192;
    let mut bytes = vec![0; link.bytes as usize];
    file.read_at(&mut bytes, link.offset).unwrap();
    file.write_at(&bytes, elsewhere).unwrap();
    let open = |link| Run::open(file.clone(), link, pool()).map(drop);
    assert!(open(link).is_ok());
    let bad = [
        Link { offset: elsewhere, ..link },
        Link { birth: VersionNumber(6), ..link },
        Link { lineage: Lineage(3), ..link },
        Link { hash: link.hash + 1, ..link },
        Link { bytes: link.bytes - 4096, ..link },
        Link { footer_bytes: link.footer_bytes - 1, ..link },
        Link { footer_bytes: 0, ..link },
        Link { footer_bytes: u32::MAX, ..link },
        Link { offset: u64::MAX - 4095, ..link },
        Link { offset: 4097, ..link },
    ];
    for link in bad {
        assert!(open(link).is_err(), "{link:?}");
    }
}

/// A run that could not be opened is an error, and is not written.
#[test]
fn an_unreadable_run_is_never_written() {
    let file = file();
    let run = forge::with_a_row_too_many(build(&rows(300, 1), RunOptions::default()));
    match run.write(&file, 8192, VersionNumber(5), Lineage(2)) {
        Err(Error::Unreadable(what, why)) => {
            assert_eq!(
                (what, &*why),
                ("the footer of a run", "its footer: its counts do not agree with its index")
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(file.file.len().unwrap(), 0);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "run: block checksum not verified" => every_flipped_byte_is_an_error_with_its_location,
        "run: a footer is written unread" => an_unreadable_run_is_never_written,
        "run: fresh bit survives an absorbed delete" =>
            super::fold::tests::a_fresh_put_annihilates_with_its_delete_and_only_then,
    };
    crate::plant::assert_claims_hold("run", claims);
}

/// Rule: I31. A point read takes no count, neither in the frames of an unwritten run nor in the
/// cache.
#[test]
fn a_point_read_takes_no_reference_counts() {
    let rows = rows(300, 3);
    let (key, _) = rows.iter().nth(7).unwrap();
    let cache: Arc<dyn BlockSource> = BlockCache::new(pool(), 1 << 20);
    let look = |run: &Run| run.get(key, key_hash(key), &*cache).unwrap().unwrap();
    let run = build(&rows, RunOptions::default());
    let counts = |run: &Run| Arc::strong_count(&run.data.load_full());
    let before = counts(&run);
    let seen = look(&run);
    assert_eq!(counts(&run), before);
    let file = file();
    let link = write(&run, &file, 8192);
    run.set_written(file.clone(), link);
    assert_eq!(seen.payload(), rows[key].1, "a reader is not waited for, and sees what was there");
    drop(seen);
    // The first use loads it, the second puts it into its slot.
    (0..2).for_each(|_| drop(look(&run)));
    let slots = run.slots.get().unwrap();
    let before = slots.counts(run.block_for(key));
    let seen = look(&run);
    assert_eq!((slots.counts(run.block_for(key)), before), (before, 2));
    assert_eq!(seen.payload(), rows[key].1);
}
