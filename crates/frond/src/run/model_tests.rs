//! Runs and merges compared with a plain map, on generated rows, block lengths, codecs and walks.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{
    block::Codec,
    cache::{BlockSource, FramePool, NoCache},
    io::{MemoryVfs, OpenMode, Vfs},
    layout::{End, Hint, Layout, Part},
    message::Message,
    page::StoreFile,
    sync::Arc,
    types::{Lineage, StoreId, VersionNumber},
};

type Rows = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;

/// Keys that share prefixes, differ only in length, and contain zeros.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        Just(b"".to_vec()),
        Just(b"\0".to_vec()),
        Just(b"customer".to_vec()),
        Just(vec![0xff; 9]),
        Just(vec![b'p'; 150]),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat())
}

fn messages() -> impl Strategy<Value = (Tag, Vec<u8>)> {
    let value = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..12),
        (0usize..400).prop_map(|len| vec![b'v'; len]),
    ];
    let operand = (1u8..=4, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(op, operand)| {
        let mut payload = Vec::new();
        put_operand(&mut payload, op, &operand);
        (Tag::MERGE, payload)
    });
    prop_oneof![
        3 => value.prop_map(|value| (Tag::PUT, value)),
        1 => Just((Tag::DELETE, vec![])),
        1 => operand,
    ]
}

fn rows(most: usize) -> impl Strategy<Value = Rows> {
    prop::collection::btree_map(keys(), messages(), 0..most)
}

/// How a run is built: its options, and the schema of columnar blocks.
#[derive(Clone, Debug)]
struct How {
    options: RunOptions,
    schema: Option<Arc<RowSchema>>,
}

/// Layouts that keys and values fit always, mostly, or hardly ever.
fn schemas() -> impl Strategy<Value = Option<Arc<RowSchema>>> {
    let rest = Part::Var(End::Rest);
    let key = prop_oneof![
        Just(vec![rest]),
        Just(vec![Part::Fixed(1, Hint::None), rest]),
        Just(vec![Part::Fixed(8, Hint::Integer)]),
        Just(vec![Part::Var(End::Escaped), rest]),
    ];
    let value = prop_oneof![
        Just(vec![rest]),
        Just(vec![Part::Fixed(2, Hint::Integer), rest]),
        Just(vec![Part::Var(End::Prefixed)]),
        Just(vec![Part::Fixed(4, Hint::Float)]),
    ];
    let schema = |(key, value)| {
        RowSchema::of(Some(&Layout::new(key)), Some(&Layout::new(value)), None, None)
    };
    prop_oneof![Just(None), (key, value).prop_map(schema)]
}

fn ways() -> impl Strategy<Value = How> {
    (options(), schemas()).prop_map(|(options, schema)| How { options, schema })
}

fn options() -> impl Strategy<Value = RunOptions> {
    let codec =
        prop_oneof![Just(Codec::Raw), Just(Codec::Lz4), Just(Codec::Zstd1), Just(Codec::Zstd3)];
    let block_bytes = prop_oneof![Just(1usize), Just(100), Just(1000), Just(16 << 10)];
    (codec, prop::option::of(Just(10)), block_bytes).prop_map(
        |(codec, filter_bits, block_bytes)| RunOptions { codec, filter_bits, block_bytes },
    )
}

fn build(rows: &Rows, ranges: &[(Vec<u8>, Vec<u8>)], how: &How) -> Option<Arc<Run>> {
    let pool = FramePool::new(8 << 20);
    let mut builder = match &how.schema {
        Some(schema) => RunBuilder::columnar(pool, how.options, schema, None),
        None => RunBuilder::new(pool, how.options),
    };
    for (key, (tag, payload)) in rows {
        builder.push(key, *tag, payload).unwrap();
    }
    for (from, to) in ranges {
        builder.add_range_delete(from, to);
    }
    builder.finish().unwrap()
}

fn written(run: Arc<Run>) -> Arc<Run> {
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open("s".as_ref(), mode).unwrap();
    let file = StoreFile::new(file, "s", StoreId([7; 16]));
    let link = run.write(&file, 4096, VersionNumber(1), Lineage(1)).unwrap();
    Run::open(file, link, FramePool::new(8 << 20)).unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    First,
    Last,
    Seek(Vec<u8>),
    SeekBefore(Vec<u8>),
    Next,
    Prev,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::First),
        1 => Just(Step::Last),
        2 => keys().prop_map(Step::Seek),
        2 => keys().prop_map(Step::SeekBefore),
        5 => Just(Step::Next),
        5 => Just(Step::Prev),
    ];
    prop::collection::vec(step, 0..60)
}

/// The index of the key on which a cursor over `rows` stands after `step`, if it stood on `at`
/// before.
fn model_step(rows: &[&Vec<u8>], at: Option<usize>, step: &Step) -> Option<usize> {
    let at_least = |key: &Vec<u8>| rows.partition_point(|row| *row < key);
    let next = match step {
        Step::First => Some(0),
        Step::Last => rows.len().checked_sub(1),
        Step::Seek(key) => Some(at_least(key)),
        Step::SeekBefore(key) => at_least(key).checked_sub(1),
        Step::Next => at.map(|at| at + 1),
        Step::Prev => at.and_then(|at| at.checked_sub(1)),
    };
    next.filter(|&next| next < rows.len())
}

/// Carries blocks of a run into another, whatever the schema of the two is; `None` if they cannot
/// be carried.
fn carried(from: &Arc<Run>, how: &How, skip: usize) -> Option<Arc<Run>> {
    let pool = FramePool::new(8 << 20);
    let mut buf = ReadBuf::new(pool.clone());
    let mut builder = match &how.schema {
        Some(schema) => RunBuilder::columnar(pool, how.options, schema, Some(from.format())),
        None => RunBuilder::new(pool, how.options),
    };
    if !builder.carries(from) {
        return None;
    }
    for index in skip..from.block_count() {
        let encoded = from.encoded_block(index, &mut buf).unwrap();
        builder.carry_block(from, index, encoded).unwrap();
    }
    builder.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_cursor_walks_like_a_map(
        rows in rows(80),
        how in ways(),
        range in (prop::option::of(keys()), prop::option::of(keys())),
        steps in steps(),
        on_disk: bool,
        bulk: bool,
    ) {
        let Some(run) = build(&rows, &[], &how) else { return Ok(()) };
        let run = if on_disk { written(run) } else { run };
        let source: Arc<dyn BlockSource> = Arc::new(NoCache(FramePool::new(8 << 20)));
        let cursor = match bulk {
            true => RunCursor::bulk(run.clone()),
            false => RunCursor::new(run.clone(), source.clone()),
        };
        let (lo, hi) = (range.0.as_deref(), range.1.as_deref());
        let mut cursor = cursor.range(lo, hi);
        let inside = |key: &[u8]| lo.is_none_or(|lo| key >= lo) && hi.is_none_or(|hi| key < hi);
        let wanted: Vec<&Vec<u8>> = rows.keys().filter(|key| inside(key)).collect();
        let mut at = None;
        for step in &steps {
            match step {
                Step::First => cursor.seek_first(),
                Step::Last => cursor.seek_last(),
                Step::Seek(key) => cursor.seek(key),
                Step::SeekBefore(key) => cursor.seek_before(key),
                Step::Next => cursor.advance(),
                Step::Prev => cursor.retreat(),
            }
            .unwrap();
            at = model_step(&wanted, at, step);
            let stands = cursor.entry().map(|entry| (entry.key, entry.tag, entry.payload));
            let should = at.map(|at| {
                let (tag, payload) = &rows[wanted[at]];
                (wanted[at].as_slice(), *tag, payload.as_slice())
            });
            prop_assert_eq!(stands, should, "after {:?}", step);
        }
        for (key, (tag, payload)) in &rows {
            let found = run.get(key, key_hash(key), &*source).unwrap().unwrap();
            prop_assert_eq!((found.tag, found.payload()), (*tag, payload.as_slice()));
        }
        for step in &steps {
            if let Step::Seek(key) | Step::SeekBefore(key) = step {
                let found = run.get(key, key_hash(key), &*source).unwrap();
                prop_assert_eq!(found.is_some(), rows.contains_key(key));
            }
        }
        prop_assert!(wanted.is_empty() || run.held_between(lo, hi).0 > 0);
        prop_assert!(wanted.is_empty() || run.bytes_between(lo, hi) > 0);
    }

    #[test]
    fn carried_blocks_give_the_same_rows(
        rows in rows(80),
        how in ways(),
        other in ways(),
        skip in 0usize..3,
        same: bool,
    ) {
        let Some(run) = build(&rows, &[], &how) else { return Ok(()) };
        let to = if same { How { schema: how.schema.clone(), ..other } } else { other };
        let Some(copy) = carried(&run, &to, skip) else {
            prop_assert!(!same || skip >= run.block_count());
            return Ok(());
        };
        let walk = |run: &Arc<Run>| {
            let mut cursor = RunCursor::bulk(written(run.clone())).checking();
            let mut seen = Vec::new();
            cursor.seek_first().unwrap();
            while let Some(entry) = cursor.entry() {
                seen.push((entry.key.to_vec(), entry.tag, entry.payload.to_vec()));
                cursor.advance().unwrap();
            }
            seen
        };
        let (all, some) = (walk(&run), walk(&copy));
        prop_assert_eq!(&all[all.len() - some.len()..], &some[..]);
        let skipped = run.blocks().entries().iter().take(skip).map(|entry| entry.rows as usize);
        prop_assert_eq!(all.len() - some.len(), skipped.sum::<usize>());
    }

    #[test]
    fn a_merge_folds_like_overlaid_maps(
        layers in prop::collection::vec(
            (rows(30), prop::collection::vec((keys(), keys()), 0..3), ways()),
            0..9,
        ),
        backward: bool,
        seek in prop::option::of(keys()),
        with_ranges: bool,
    ) {
        let operators = Operators::new();
        let folder = Folder::new(&operators);
        // Newest last here, so that each layer is applied over the earlier ones.
        let mut model = Rows::new();
        let mut cursors = Vec::new();
        for (rows, ranges, how) in &layers {
            let ranges: &[_] = if with_ranges { ranges } else { &[] };
            model.retain(|key, _| !ranges.iter().any(|(from, to)| from <= key && key < to));
            for (key, newer) in rows {
                let folded = model.remove(key).map(|older| {
                    let mut out = Vec::new();
                    let [a, b] = [newer, &older].map(|(tag, p)| Message::new(*tag, p));
                    match folder.fold(a, b, &mut out).unwrap() {
                        Folded::Newer(tag) => Some((tag, newer.1.clone())),
                        Folded::Made(tag) => Some((tag, out)),
                        Folded::Nothing => None,
                    }
                });
                if let Some(result) = folded.unwrap_or_else(|| Some(newer.clone())) {
                    model.insert(key.clone(), result);
                }
            }
            let Some(run) = build(rows, ranges, how) else { continue };
            let mut cursor = RunCursor::bulk(run);
            if backward { cursor.seek_last() } else { cursor.seek_first() }.unwrap();
            cursors.insert(0, cursor);
        }
        let mut merge =
            if backward { MergeCursor::backward(cursors) } else { MergeCursor::new(cursors) };
        let mut wanted: Vec<_> = model.into_iter().map(|(key, (tag, p))| (key, tag, p)).collect();
        if backward {
            wanted.reverse();
        }
        if let Some(seek) = seek {
            merge.next_folded(&folder).unwrap();
            merge.seek(&seek).unwrap();
            wanted.retain(|row| if backward { row.0 < seek } else { row.0 >= seek });
        }
        let mut seen = Vec::new();
        while let Some(entry) = merge.next_folded(&folder).unwrap() {
            seen.push((entry.key.to_vec(), entry.tag, entry.payload.to_vec()));
        }
        prop_assert_eq!(seen, wanted);
    }

    /// Promise: P20. Arbitrary bytes with right checksums yield rows or an error.
    #[test]
    fn hostile_blocks_never_panic(
        rows in rows(40),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut builder = crate::block::BlockBuilder::new();
        for (key, (tag, payload)) in &rows {
            let _ = builder.push(key, *tag, payload, 60_000);
        }
        let mut bytes = builder.finish().to_vec();
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 8);
        if let Ok(shape) = crate::block::Shape::parse(&bytes) {
            let whole = crate::block::check(&bytes, &shape).is_ok();
            let mut cursor = crate::block::Rows::default();
            let mut seen = 0;
            if cursor.first(&bytes, &shape).is_ok() {
                seen = 1;
                while let Ok(true) = cursor.next(&bytes, &shape) {
                    seen += 1;
                }
            }
            prop_assert!(!whole || seen == shape.rows());
            if cursor.last(&bytes, &shape).is_ok() {
                while let Ok(true) = cursor.prev(&bytes, &shape) {}
            }
            for key in rows.keys() {
                let _ = crate::block::find(&bytes, &shape, key);
                let _ = cursor.seek(&bytes, &shape, key);
                let _ = cursor.seek_before(&bytes, &shape, key);
            }
        }
    }

    /// Promise: P20. Footers with a right hash and any content yield rows or an error.
    #[test]
    fn hostile_footers_never_panic(
        rows in rows(40),
        how in ways(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        use crate::page::{Link, PageKind, page_hash};
        let Some(run) = build(&rows, &[(b"a".to_vec(), b"b".to_vec())], &how) else {
            return Ok(());
        };
        let mode = OpenMode { write: true, create_new: true, direct: true };
        let file = MemoryVfs::new().open("s".as_ref(), mode).unwrap();
        let file = StoreFile::new(file, "s", StoreId([7; 16]));
        let link = run.write(&file, 0, VersionNumber(1), Lineage(1)).unwrap();
        let mut footer = vec![0; link.footer_bytes as usize];
        let footer_at = u64::from(link.bytes - link.footer_bytes);
        file.read_at(&mut footer, footer_at).unwrap();
        let meant = footer.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        for (at, value) in hits {
            footer[at.index(meant)] = value;
        }
        file.write_at(&footer, footer_at).unwrap();
        let identity = link.identity(file.store, PageKind::Run);
        let link = Link { hash: page_hash(&identity, &footer), ..link };
        if let Ok(run) = Run::open(file, link, FramePool::new(8 << 20)) {
            // Unchecked, as merges read: rows or an error.
            let mut unchecked = RunCursor::bulk(run.clone());
            let mut sought = unchecked.seek_first();
            while sought.is_ok() && unchecked.entry().is_some() {
                sought = unchecked.advance();
            }
            // Checking is what guarantees the order within a columnar block.
            let mut cursor = RunCursor::bulk(run.clone()).checking();
            let mut last = None;
            let mut sought = cursor.seek_first();
            while let (Ok(()), Some(entry)) = (&sought, cursor.entry()) {
                prop_assert!(last.as_deref().is_none_or(|last: &[u8]| last < entry.key));
                last = Some(entry.key.to_vec());
                sought = cursor.advance();
            }
            let source = NoCache(FramePool::new(8 << 20));
            for key in rows.keys() {
                let _ = run.get(key, key_hash(key), &source);
                let _ = run.held_between(Some(key), None).0;
            }
        }
    }
}
