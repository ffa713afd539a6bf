//! Cursors of every kind turn around in the same way: a cursor stands on the row that it returned
//! last, before the first row, after the last, or where it was moved to.

use frond::{Db, IndexSpec, Isolation, Options, RowBuf, Table, TableSpec, TreeOptions, TxnOptions};
use frond_testkit::Dice;

/// What the kinds of cursors have in common.
trait Walks {
    fn step(&mut self, forward: bool) -> Option<u32>;
    fn seek(&mut self, key: u32);
    fn ends(&mut self, last: bool);
}

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(key[key.len() - 4..].try_into().unwrap())
}

macro_rules! walks {
    ($($cursor:ty: $row:ident => $key:expr),+) => {$(
        impl Walks for $cursor {
            fn step(&mut self, forward: bool) -> Option<u32> {
                let found = if forward { self.next() } else { self.prev() };
                found.unwrap().map(|$row| number($key))
            }
            fn seek(&mut self, key: u32) {
                <$cursor>::seek(self, &key.to_be_bytes());
            }
            fn ends(&mut self, last: bool) {
                if last { self.seek_last() } else { self.seek_first() }
            }
        }
    )+};
}

walks!(
    frond::Cursor: row => row.0,
    frond::TxnCursor<'_>: row => row.0,
    frond::TemporaryCursor<'_>: row => row.0,
    frond::IndexScan<'_>: row => row.key
);

/// Where a cursor stands, twice the key: even numbers are rows, and odd ones lie between rows.
fn model_step(at: &mut i64, forward: bool, keys: &[u32]) -> Option<u32> {
    let mut places = keys.iter().map(|&key| i64::from(key) * 2);
    let found =
        if forward { places.find(|place| place > at) } else { places.rfind(|place| place < at) };
    *at = found.unwrap_or(if forward { i64::MAX } else { i64::MIN });
    found.map(|place| (place / 2) as u32)
}

/// Compares random steps with the model.
fn walk(name: &str, cursor: &mut dyn Walks, keys: &[u32], seed: u64) {
    let (mut dice, mut at) = (Dice::new(seed), i64::MIN);
    let (mut forward, mut log) = (true, Vec::new());
    for _ in 0..600 {
        match dice.below(40) {
            0 => {
                let key = dice.below(u64::from(*keys.last().unwrap()) + 3) as u32;
                log.push(format!("seek {key}"));
                cursor.seek(key);
                at = i64::from(key) * 2 - 1;
            }
            1 => {
                let last = dice.below(2) == 1;
                log.push(format!("seek to an end, the last: {last}"));
                cursor.ends(last);
                at = if last { i64::MAX } else { i64::MIN };
            }
            2..10 => forward = !forward,
            _ => {}
        }
        log.push(format!("step {}", if forward { "up" } else { "down" }));
        let expected = model_step(&mut at, forward, keys);
        let recent = &log[log.len().saturating_sub(8)..];
        assert_eq!(cursor.step(forward), expected, "{name}, seed {seed}: {recent:?}");
    }
}

/// By the whole row.
fn index() -> IndexSpec {
    IndexSpec::new("i", |_, row, out| {
        out.extend_from_slice(row);
        Ok(true)
    })
}

#[test]
fn all_cursors_turn_around_on_the_row_where_they_stand() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new()).unwrap();
    let spec = TableSpec::new("t").index(index());
    let table: Table = db.table(spec).unwrap();
    let tree = db.tree("plain", TreeOptions::new()).unwrap();
    let temporary = db.create_temporary(TreeOptions::new()).unwrap();
    let owner = db.begin(TxnOptions::new()).unwrap();
    // In a tree after a checkpoint, in a memtable, and in both.
    for all in [5u32, 70, 700] {
        let keys: Vec<u32> = (0..all).map(|row| row * 3 + 1).collect();
        for (at, &key) in keys.iter().enumerate() {
            let bytes = key.to_be_bytes();
            tree.put(&bytes, b"value").unwrap();
            db.transact(|txn| table.put(txn, &bytes, &bytes)).unwrap();
            temporary.put(&owner, bytes, b"value").unwrap();
            if all == 700 && at == 300 {
                db.checkpoint().unwrap();
            }
        }
        let snapshot = db.snapshot();
        for seed in 0..8 {
            walk("tree", &mut tree.scan(..).unwrap(), &keys, seed);
            walk("snapshot", &mut snapshot.scan(&tree, ..).unwrap(), &keys, seed);
            walk("temporary", &mut temporary.scan(..).unwrap(), &keys, seed);
            let index = table.index("i").unwrap();
            walk("index", &mut index.scan(&db, ..).unwrap(), &keys, seed);
            walk("index, snapshot", &mut index.scan(&snapshot, ..).unwrap(), &keys, seed);
            for level in [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable] {
                let txn = db.begin(TxnOptions::new().isolation(level)).unwrap();
                walk("transaction", &mut txn.scan(&tree, ..).unwrap(), &keys, seed);
                walk("index, transaction", &mut index.scan(&txn, ..).unwrap(), &keys, seed);
            }
        }
    }
    db.close().unwrap();
}

/// A batch leaves the cursor on its last row, and a projection does not move it.
#[test]
fn a_cursor_turns_around_after_a_batch_and_a_projection() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new()).unwrap();
    let layout =
        frond::layout::Layout::new(vec![frond::layout::Part::Fixed(4, frond::layout::Hint::None)]);
    let tree = db.tree("t", TreeOptions::new().value_layout(layout)).unwrap();
    for key in 0..100u32 {
        tree.put(key.to_be_bytes(), key.to_be_bytes()).unwrap();
    }
    let (mut cursor, mut rows) = (tree.scan(..).unwrap(), RowBuf::new());
    for batch in [1, 7, 16, 20] {
        let read = cursor.read_batch(&mut rows, batch).unwrap();
        let last = number(rows.get(read - 1).unwrap().0);
        assert_eq!(cursor.step(false), last.checked_sub(1));
        assert_eq!(cursor.step(true), Some(if last == 0 { 0 } else { last }));
        cursor.set_projection(&tree.projection(&[0]).unwrap()).unwrap();
        assert_eq!(cursor.step(true), Some(last + 1));
        cursor.set_projection(&tree.projection(&[0]).unwrap()).unwrap();
        assert_eq!(cursor.step(false), Some(last));
    }
    db.close().unwrap();
}
