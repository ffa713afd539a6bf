//! Tests of successive leaves of one tree: what is learned from them, and into which leaves their
//! blocks can be carried.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::*;
use crate::{
    block::BLOCK_RAW_BYTES_TARGET,
    cache::{FramePool, NoCache},
    coding::put_bytes,
    io::{MemoryVfs, OpenMode, Vfs},
    layout::{End, Hint, Part},
    message::Tag,
    page::{FEATURE_ALPHABETS, FEATURE_COLUMNAR_RUNS, FEATURE_TEMPLATES, StoreFile},
    run::{ReadBuf, Run, RunBuilder, RunCursor, RunOptions, key_hash},
    types::{Lineage, StoreId, VersionNumber},
};

const ROWS: u64 = 6000;

fn schema() -> Arc<RowSchema> {
    let key = Layout::new(vec![Part::Fixed(8, Hint::Integer)]);
    let value = Layout::new(vec![Part::Var(End::Prefixed), Part::Var(End::Prefixed)]);
    RowSchema::of(Some(&key), Some(&value), None, None).expect("it has layouts")
}

fn builder(schema: &Arc<RowSchema>, base: Option<&Run>) -> RunBuilder {
    let (codec, filter_bits) = (Codec::Zstd1, None);
    let options = RunOptions { codec, filter_bits, block_bytes: BLOCK_RAW_BYTES_TARGET };
    RunBuilder::columnar(FramePool::new(32 << 20), options, schema, base.map(Run::format))
}

/// The set of three hundred places that rows use.
type Places = u64;
const NORTH: Places = 1;
const SOUTH: Places = 2;

/// One of three hundred places of a dozen or two letters, and a number in text.
fn value(row: u64, places: Places) -> Vec<u8> {
    let number = xxh3_64_with_seed(&row.to_le_bytes(), 0);
    let name = xxh3_64_with_seed(&(number % 300).to_le_bytes(), places);
    let letter = |at| b'a' + (xxh3_64_with_seed(&[at], name) % 26) as u8;
    let place: Vec<u8> = (0..12 + (name % 12) as u8).map(letter).collect();
    let mut value = Vec::new();
    put_bytes(&mut value, &place);
    put_bytes(&mut value, (number >> 50).to_string().as_bytes());
    value
}

fn leaf(schema: &Arc<RowSchema>, base: Option<&Run>, first: u64, places: Places) -> Arc<Run> {
    let mut builder = builder(schema, base);
    for row in first..first + ROWS {
        builder.push(&row.to_be_bytes(), Tag::PUT, &value(row, places)).unwrap();
    }
    builder.finish().unwrap().expect("it has rows")
}

fn opened(run: &Run) -> Arc<Run> {
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open("s".as_ref(), mode).unwrap();
    let file = StoreFile::new(file, "s", StoreId([7; 16]));
    let link = run.write(&file, 4096, VersionNumber(1), Lineage(1)).unwrap();
    let has_templates = models(run).iter().flatten().any(|model| model.has_templates());
    let templates = if has_templates { FEATURE_TEMPLATES } else { 0 };
    let has_alphabet = models(run).iter().flatten().any(|model| model.has_alphabet());
    let alphabets = if has_alphabet { FEATURE_ALPHABETS } else { 0 };
    assert_eq!(file.features(), FEATURE_COLUMNAR_RUNS | templates | alphabets);
    Run::open(file, link, FramePool::new(32 << 20)).unwrap()
}

fn assert_rows(run: &Arc<Run>, first: u64, places: Places) {
    let mut cursor = RunCursor::bulk(run.clone()).checking();
    cursor.seek_first().unwrap();
    for row in first..first + run.entries() {
        let entry = cursor.entry().expect("as many rows as were pushed");
        assert_eq!((entry.key, entry.payload), (&row.to_be_bytes()[..], &value(row, places)[..]));
        cursor.advance().unwrap();
    }
    let source = NoCache(FramePool::new(32 << 20));
    for row in (first..first + run.entries()).step_by(331) {
        let key = row.to_be_bytes();
        let found = run.get(&key, key_hash(&key), &source).unwrap().expect("it is there");
        assert_eq!(found.payload(), value(row, places));
    }
}

fn models(run: &Run) -> &[Option<Arc<StringModel>>] {
    match run.format() {
        Format::Columnar(format) => format.models(),
        Format::Row => &[],
    }
}

#[test]
fn the_second_leaf_has_models_and_is_smaller() {
    let schema = schema();
    // As in a load: the next builder exists before the last one ends.
    let mut next = builder(&schema, None);
    let first = leaf(&schema, None, 0, NORTH);
    assert!(models(&first).is_empty(), "nothing was known");
    for row in ROWS..2 * ROWS {
        next.push(&row.to_be_bytes(), Tag::PUT, &value(row, NORTH)).unwrap();
    }
    let second = next.finish().unwrap().unwrap();
    assert!(models(&second).iter().flatten().count() > 0, "strings have models");
    assert!(
        second.data_bytes() * 10 < first.data_bytes() * 9,
        "{} bytes, then {}",
        first.data_bytes(),
        second.data_bytes()
    );
    let third = leaf(&schema, None, 2 * ROWS, NORTH);
    assert!(models(&third) == models(&second), "as long as they serve, they stay");
    for (run, first) in [(first, 0), (second, ROWS), (third, 2 * ROWS)] {
        assert_rows(&run, first, NORTH);
        assert_rows(&opened(&run), first, NORTH);
        assert!(models(&opened(&run)) == models(&run), "written and read");
    }
}

/// Strings are not copied when no training is due.
#[test]
fn samples_are_kept_only_when_training_may_be_due() {
    let schema = schema();
    assert!(!schema.wants_samples(Codec::Raw), "buffer runs have no models");
    let kept = (0..TRAINING_LEAVES as u64 + 2).map(|number| {
        let wanted = schema.wants_samples(Codec::Zstd1);
        leaf(&schema, None, number * ROWS, NORTH);
        wanted
    });
    let kept: Vec<bool> = kept.collect();
    assert_eq!(kept, [true, false, false, false, false, false, false, false, true, true]);
}

#[test]
fn models_are_retrained_when_the_rows_change() {
    let schema = schema();
    let trained = [0, 1, 2].map(|number| leaf(&schema, None, number * ROWS, NORTH));
    let old = models(&trained[2]).to_vec();
    let mut last = None;
    for number in 3..20 {
        let run = leaf(&schema, None, number * ROWS, SOUTH);
        assert_rows(&run, number * ROWS, SOUTH);
        last = Some(run);
    }
    assert!(models(&last.unwrap()) != old, "rows have changed, and take more");
}

#[test]
fn blocks_are_carried_only_into_runs_with_their_models() {
    let schema = schema();
    let plain = leaf(&schema, None, 0, NORTH);
    let modelled = leaf(&schema, None, ROWS, NORTH);
    let carry = |from: &Arc<Run>, to: &mut RunBuilder| {
        let mut buf = ReadBuf::new(FramePool::new(32 << 20));
        for index in 0..from.block_count() {
            let encoded = from.encoded_block(index, &mut buf).unwrap().to_vec();
            to.carry_block(from, index, &encoded).unwrap();
        }
    };
    // Blocks without models can be carried anywhere; the first run with models gives them to the
    // whole.
    let mut both = builder(&schema, Some(&plain));
    assert!(both.carries(&plain) && both.carries(&modelled));
    carry(&plain, &mut both);
    carry(&modelled, &mut both);
    let both = both.finish().unwrap().unwrap();
    assert!(models(&both) == models(&modelled));
    assert_rows(&opened(&both), 0, NORTH);
    // A tree that was just opened adopts the models that it meets first, and no others.
    let other = self::schema();
    let mut beginning = builder(&other, Some(&opened(&modelled)));
    assert!(beginning.carries(&modelled));
    assert!(builder(&other, None).carries(&modelled), "they were taken up");
    let third = self::schema();
    assert!(!builder(&third, None).carries(&modelled), "without its models");
    leaf(&third, None, 0, SOUTH);
    assert!(!builder(&third, None).carries(&modelled), "with other models");
    assert!(!RunBuilder::new(FramePool::new(1 << 20), RunOptions::default()).carries(&plain));
}

#[test]
fn a_run_of_tiny_rows_ends_by_row_count() {
    let layout = Layout::new(vec![Part::Fixed(8, Hint::Integer)]);
    let schema = RowSchema::of(Some(&layout), Some(&layout), None, None).unwrap();
    let mut builder = builder(&schema, None);
    let mut rows = 0u64;
    while builder.bytes_so_far() < 512 << 10 {
        builder.push(&rows.to_be_bytes(), Tag::PUT, &[7; 8]).unwrap();
        rows += 1;
    }
    assert!(rows < 1 << 20, "{rows} rows in one run");
    let run = builder.finish().unwrap().unwrap();
    assert!(run.data_bytes() < 64 << 10, "{} bytes are not next to nothing", run.data_bytes());
}
