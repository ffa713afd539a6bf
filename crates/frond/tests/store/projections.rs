//! Reading parts of values gives what cutting whole values gives, wherever the rows are; and parts
//! that are not requested are not decompressed.

use crate::common;

use std::sync::Arc;

use common::options;
use frond::{
    Batch, Db, Error, Options, Projection, Tree, TreeOptions,
    layout::{End, Hint, Layout, Part},
    operator::MergeOperator,
};
use frond_testkit::{Dice, disk::SimVfs};

const NUMBER: u8 = 71;

/// Appends to a value whose last part takes all remaining bytes.
struct Append;

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        // Without a base: start from a value that fits the layout.
        let empty = [0; 4 + 1 + 16];
        [base.unwrap_or(&empty), operand].concat()
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        [older, newer].concat()
    }
}

fn layout() -> Layout {
    Layout::new(vec![
        Part::Fixed(4, Hint::Integer),
        Part::Var(End::Prefixed),
        Part::Fixed(16, Hint::None),
        Part::Var(End::Rest),
    ])
}

fn create(db: &Db) -> Tree {
    let key = Layout::new(vec![Part::Fixed(4, Hint::Integer)]);
    let options = TreeOptions::new().key_layout(key).value_layout(layout());
    db.create_tree("t", options).unwrap()
}

fn value(dice: &mut Dice, rest_max: u64) -> Vec<u8> {
    let mut value = (dice.below(1000) as u32).to_be_bytes().to_vec();
    let word = [&b"north"[..], b"south", b"", b"a longer word than those"][dice.below(4) as usize];
    value.push(word.len() as u8);
    value.extend_from_slice(word);
    value.extend((0..16).map(|_| dice.below(256) as u8));
    let rest = dice.below(rest_max + 1) as usize;
    value.extend((0..rest).map(|at| (at % 7) as u8 + b'a'));
    value
}

fn cut(whole: &[u8], wanted: &[usize]) -> Vec<u8> {
    let mut ends = Vec::new();
    assert!(layout().split(whole, &mut ends));
    let starts = [0].into_iter().chain(ends.iter().copied());
    let parts: Vec<&[u8]> = starts.zip(&ends).map(|(start, &end)| &whole[start..end]).collect();
    (0..parts.len())
        .filter(|part| wanted.contains(part))
        .flat_map(|part| parts[part].to_vec())
        .collect()
}

/// Compares every way of reading parts with cutting whole values.
fn assert_same(db: &Db, tree: &Tree, wanted: &[usize], keys: u32) {
    let parts = tree.projection(wanted).unwrap();
    let snapshot = db.snapshot();
    let (mut part, mut whole_rows) = (Vec::new(), Vec::new());
    for key in 0..keys {
        let key = key.to_be_bytes();
        let whole = tree.get(&key).unwrap();
        for found in [
            tree.get_projected(&key, &parts, &mut part).unwrap().then(|| part.clone()),
            snapshot.get_projected(tree, &key, &parts, &mut part).unwrap().then(|| part.clone()),
        ] {
            assert_eq!(
                found,
                whole.as_deref().map(|whole| cut(whole, wanted)),
                "{key:?} {wanted:?}"
            );
        }
        assert_eq!(tree.contains(&key).unwrap(), whole.is_some());
        whole_rows.extend(whole.map(|whole| (key.to_vec(), cut(&whole, wanted))));
    }
    let mut cursor = snapshot.scan(tree, ..).unwrap().project(&parts).unwrap();
    let mut rows = Vec::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    assert!(rows == whole_rows, "forwards, {wanted:?}");
    rows.clear();
    cursor.seek_last();
    while let Some((key, value)) = cursor.prev().unwrap() {
        rows.push((key.to_vec(), value.to_vec()));
    }
    rows.reverse();
    assert!(rows == whole_rows, "backwards, {wanted:?}");
    // The first row whole, the others by parts.
    let mut cursor = snapshot.scan(tree, ..).unwrap();
    let first = cursor.next().unwrap().map(|(key, value)| (key.to_vec(), cut(value, wanted)));
    let mut cursor = cursor.project(&parts).unwrap();
    let mut batch = frond::RowBuf::new();
    let mut rows = Vec::from_iter(first);
    while cursor.read_batch(&mut batch, 100).unwrap() > 0 {
        rows.extend(batch.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    assert!(rows == whole_rows, "in batches, {wanted:?}");
}

#[test]
fn projected_parts_equal_those_of_the_whole_value() {
    const KEYS: u32 = 300;
    for seed in 1..=4 {
        let dir = tempfile::tempdir().unwrap();
        let opened = || {
            let options = options().operator(NUMBER, Arc::new(Append));
            Db::open(dir.path().join("store"), options).unwrap()
        };
        let mut dice = Dice::new(seed);
        let mut db = opened();
        let mut tree = create(&db);
        for round in 0..6 {
            for _ in 0..300 {
                let key = (dice.below(u64::from(KEYS)) as u32).to_be_bytes();
                let mut batch = Batch::new();
                match dice.below(10) {
                    0 => batch.delete(&tree, &key).unwrap(),
                    1 => batch.merge(&tree, &key, NUMBER, b"more").unwrap(),
                    _ => {
                        // One value in a hundred is long enough for an extent of its own.
                        let rest = if dice.below(100) == 0 { 100_000 } else { 40 };
                        batch.put(&tree, &key, &value(&mut dice, rest)).unwrap();
                    }
                }
                db.commit(&mut batch).unwrap();
            }
            let wanted: Vec<usize> = (0..4).filter(|_| dice.below(2) == 0).collect();
            assert_same(&db, &tree, &wanted, KEYS);
            if round % 2 == 1 {
                db.checkpoint().unwrap();
                assert_same(&db, &tree, &wanted, KEYS);
            }
            if round == 3 {
                drop(tree);
                db.close().unwrap();
                db = opened();
                tree = db.open_tree("t").unwrap();
            }
            (0..4).for_each(|part| assert_same(&db, &tree, &[part], KEYS));
        }
        drop(tree);
        db.close().unwrap();
    }
}

#[test]
fn a_value_of_another_layout_has_no_parts() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), options()).unwrap();
    let tree = create(&db);
    let plain = db.create_tree("plain", TreeOptions::default()).unwrap();
    assert!(matches!(plain.projection(&[0]), Err(Error::InvalidArgument(_))));
    assert!(matches!(tree.projection(&[4]), Err(Error::InvalidArgument(_))));
    tree.put(&[0; 4], &value(&mut Dice::new(1), 5)).unwrap();
    tree.put(&[1; 4], b"short").unwrap();
    tree.put(&[3; 4], &value(&mut Dice::new(2), 5)).unwrap();
    let other = Layout::new(vec![Part::Var(End::Prefixed), Part::Var(End::Rest)]);
    let options = TreeOptions::new().value_layout(other);
    let plain_columnar = db.create_tree("other", options).unwrap();
    let parts: Projection = tree.projection(&[1, 3]).unwrap();
    for _ in 0..2 {
        let mut value = Vec::new();
        assert!(tree.get_projected(&[0; 4], &parts, &mut value).unwrap());
        assert!(!tree.get_projected(&[2; 4], &parts, &mut value).unwrap() && value.is_empty());
        let misfit = tree.get_projected(&[1; 4], &parts, &mut value);
        assert!(matches!(misfit, Err(Error::InvalidArgument(_))));
        let mut cursor = db.snapshot().scan(&tree, ..).unwrap().project(&parts).unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().0, [0; 4]);
        for _ in 0..2 {
            assert!(matches!(cursor.next(), Err(Error::InvalidArgument(_))));
        }
        cursor.seek(&[2; 4]);
        assert_eq!(cursor.next().unwrap().unwrap().0, [3; 4]);
        cursor.seek_last();
        assert_eq!(cursor.prev().unwrap().unwrap().0, [3; 4]);
        for _ in 0..2 {
            assert!(matches!(cursor.prev(), Err(Error::InvalidArgument(_))));
        }
        let foreign = plain_columnar.get_projected(&[0; 4], &parts, &mut value);
        assert!(matches!(foreign, Err(Error::InvalidArgument(_))));
        assert!(db.snapshot().scan(&plain_columnar, ..).unwrap().project(&parts).is_err());
        assert_eq!(tree.get(&[1; 4]).unwrap().as_deref(), Some(&b"short"[..]));
        db.checkpoint().unwrap();
    }
    drop((tree, plain, plain_columnar));
    db.close().unwrap();
}

/// Keys, and values whose last part is long and is compressed by a codec.
fn texts(dice: &mut Dice, keys: impl Iterator<Item = u32>) -> Vec<(u32, Vec<u8>)> {
    let words = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit"];
    let mut row = |key| {
        let mut value = value(dice, 0);
        for _ in 0..40 {
            value.extend_from_slice(words[dice.below(8) as usize].as_bytes());
            value.push(b' ');
        }
        (key, value)
    };
    keys.map(&mut row).collect()
}

fn put(db: &Db, tree: &Tree, rows: &[(u32, Vec<u8>)]) {
    for rows in rows.chunks(500) {
        let mut batch = Batch::new();
        rows.iter().for_each(|(key, value)| batch.put(tree, &key.to_be_bytes(), value).unwrap());
        db.commit(&mut batch).unwrap();
    }
}

/// Fills the cache with rows that are not read again, so that blocks are kept in their stored form
/// from then on.
fn fill_cache(db: &Db, cache_bytes: u64) {
    let tree = db.create_tree("others", TreeOptions::default()).unwrap();
    let mut dice = Dice::new(9);
    for row in 0..cache_bytes / 4096 {
        let value: Vec<u8> = (0..512).flat_map(|_| dice.below(u64::MAX).to_le_bytes()).collect();
        tree.put(&row.to_be_bytes(), &value).unwrap();
    }
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    let mut cursor = db.snapshot().scan(&tree, ..).unwrap();
    while cursor.next().unwrap().is_some() {}
}

#[test]
fn unprojected_strings_are_not_decompressed() {
    // Nothing is drained in the background, which would decode, too.
    let options = Options::new().cache_size(32 << 20).env(SimVfs::new().env(1));
    let db = Db::open("/store", options).unwrap();
    fill_cache(&db, 48 << 20);
    let tree = create(&db);
    put(&db, &tree, &texts(&mut Dice::new(3), 0..6000));
    db.checkpoint().unwrap();
    let decoded = || db.stats().chunks_decoded;
    // A block that comes from the device is checked as a whole, once.
    let mut cursor = db.snapshot().scan(&tree, ..).unwrap();
    while cursor.next().unwrap().is_some() {}
    let read = |part: usize| {
        let (parts, before) = (tree.projection(&[part]).unwrap(), decoded());
        let mut value = Vec::new();
        assert!(tree.get_projected(&77u32.to_be_bytes(), &parts, &mut value).unwrap());
        let mut cursor = db.snapshot().scan(&tree, ..).unwrap().project(&parts).unwrap();
        let mut rows = 0;
        while cursor.next().unwrap().is_some() {
            rows += 1;
        }
        assert_eq!(rows, 6000);
        decoded() - before
    };
    let (number, text) = (read(0), read(3));
    assert_eq!(number, 0, "chunks decoded for a number");
    assert!(text > 20, "{text} chunks decoded for all texts");
    let before = decoded();
    assert!(tree.contains(&5u32.to_be_bytes()).unwrap());
    assert_eq!(decoded(), before, "chunks decoded for a key");
    drop(tree);
    db.close().unwrap();
}

/// Newer rows in memory and in buffers, and deletes of all kinds: leaves still decode no other
/// column.
#[test]
fn unprojected_strings_are_not_decompressed_when_merging_sources() {
    const KEYS: u32 = 24_000;
    // Nothing is drained unless the test asks for it.
    let options = Options::new().cache_size(64 << 20).env(SimVfs::new().env(1));
    let options = options.operator(NUMBER, Arc::new(Append));
    let db = Db::open("/store", options).unwrap();
    fill_cache(&db, 96 << 20);
    let tree = create(&db);
    let mut dice = Dice::new(5);
    put(&db, &tree, &texts(&mut dice, 0..KEYS));
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    let decoded = || db.stats().chunks_decoded;
    let read = |part: usize| {
        let (parts, before) = (tree.projection(&[part]).unwrap(), decoded());
        let mut cursor = db.snapshot().scan(&tree, ..).unwrap().project(&parts).unwrap();
        while cursor.next().unwrap().is_some() {}
        cursor.seek_last();
        while cursor.prev().unwrap().is_some() {}
        decoded() - before
    };
    let all = {
        // A block that comes from the device is checked as a whole, once.
        read(0);
        read(3)
    };
    assert!(all > 150, "{all} chunks decoded for all texts");
    for is_buffered in [false, true] {
        put(&db, &tree, &texts(&mut dice, (0..KEYS).step_by(50)));
        let mut batch = Batch::new();
        for key in (7..KEYS).step_by(200) {
            batch.delete(&tree, &key.to_be_bytes()).unwrap();
        }
        batch.delete_range(&tree, 3000u32.to_be_bytes()..3020u32.to_be_bytes()).unwrap();
        db.commit(&mut batch).unwrap();
        if is_buffered {
            db.checkpoint().unwrap();
            let levels = db.open_tree("t").unwrap().shape().unwrap().levels;
            assert!(levels.iter().any(|level| level.parts > 0), "nothing is buffered: {levels:?}");
        }
        assert_eq!(read(0), 0, "chunks decoded for a number, {is_buffered}");
        assert!(read(3) > 150);
        assert_same(&db, &tree, &[0, 2], KEYS);
    }
    // A row to which an operand is folded is read whole, and so is the rest of its piece.
    let mut batch = Batch::new();
    batch.merge(&tree, &5000u32.to_be_bytes(), NUMBER, b"more").unwrap();
    batch.merge(&tree, &5020u32.to_be_bytes(), NUMBER, b"more").unwrap();
    db.commit(&mut batch).unwrap();
    let folded = read(0);
    assert!((1..all / 2).contains(&folded), "{folded} chunks decoded, {all} for all texts");
    assert_same(&db, &tree, &[0, 3], KEYS);
    drop(tree);
    db.close().unwrap();
}
