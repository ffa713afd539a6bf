//! Batches of many entries: they take their place among small ones by their commit number; they
//! stay within the memory of memtables; and what no store can take is refused before anything is
//! done.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use frond::{Batch, Db, Durability, Error, Options, Tree, check::CheckMode, operator};

/// More entries than the tiny store puts into a memtable one by one, so that they become a
/// mini-run.
const MANY: u32 = 300;

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn many(tree: &Tree, value: &[u8]) -> Batch {
    let mut batch = Batch::new();
    // Not in order, and each key twice: the batch is sorted and folded once.
    for n in (0..MANY).rev().chain(0..MANY) {
        batch.put(tree, &key(n), value).unwrap();
    }
    batch
}

fn values(tree: &Tree, reverse: bool) -> Vec<Vec<u8>> {
    let mut cursor = tree.scan(..).unwrap();
    let mut values = Vec::new();
    if reverse {
        cursor.seek_last();
    }
    loop {
        let row = if reverse { cursor.prev() } else { cursor.next() };
        let Some((_, value)) = row.unwrap() else { break };
        values.push(value.to_vec());
    }
    if reverse {
        values.reverse();
    }
    values
}

/// Of entries inserted one by one and as a whole, the later commit counts, in memory, in snapshots,
/// in the tree, and after a restart. Rule: I6.
#[test]
fn a_large_batch_is_ordered_between_earlier_and_later_small_ones() {
    let dir = tempfile::tempdir().unwrap();
    // Large enough that nothing is applied until the test asks for it.
    let mut tuning = crate::common::tiny();
    tuning.limits.as_mut().unwrap().memtable_bytes = 4 << 20;
    let options = || crate::common::options().cache_size(64 << 20).tuning(tuning.clone());
    let db = Db::open(dir.path(), options()).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    tree.put(&key(3), b"early").unwrap();
    tree.put(&key(4), b"early").unwrap();
    let before = db.snapshot();
    let mut batch = many(&tree, b"many");
    db.commit(&mut batch).unwrap();
    let between = db.snapshot();
    tree.put(&key(4), b"late").unwrap();
    tree.delete(&key(5)).unwrap();
    batch.delete_range(&tree, key(100)..key(200)).unwrap();
    for n in (6..9).chain(150..250).chain(MANY..MANY + 100) {
        batch.merge(&tree, &key(n), operator::APPEND, b"+").unwrap();
    }
    db.commit(&mut batch).unwrap();
    tree.put(&key(7), b"last").unwrap();

    let mut expected: Vec<(u32, &[u8])> = Vec::new();
    for n in 0..MANY + 100 {
        let value: &[u8] = match n {
            4 => b"late",
            7 => b"last",
            6 | 8 | 200..250 => b"many+",
            150..200 | MANY.. => b"+",
            5 | 100..150 => continue,
            _ => b"many",
        };
        expected.push((n, value));
    }
    let assert_all = |tree: &Tree| {
        for reverse in [false, true] {
            let expected: Vec<&[u8]> = expected.iter().map(|(_, value)| *value).collect();
            assert_eq!(values(tree, reverse), expected);
        }
        for n in 0..MANY + 100 {
            let value = expected.iter().find(|(own, _)| *own == n).map(|(_, value)| *value);
            assert_eq!(tree.get(&key(n)).unwrap().as_deref(), value, "{n}");
        }
    };
    let assert_snapshots = || {
        assert_eq!(before.scan(&tree, ..).unwrap().next().unwrap().unwrap().1, b"early");
        assert_eq!(before.get(&tree, &key(9)).unwrap(), None);
        for n in 0..MANY {
            assert_eq!(between.get(&tree, &key(n)).unwrap().unwrap(), b"many", "{n}");
        }
        assert_eq!(between.get(&tree, &key(MANY)).unwrap(), None);
    };
    assert_all(&tree);
    assert_snapshots();
    db.checkpoint().unwrap();
    assert_all(&tree);
    assert_snapshots();
    tree.put(b"once more", b"").unwrap();
    tree.delete(b"once more").unwrap();
    drop((before, between));
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
    drop((tree, batch, db));
    let db = Db::open(dir.path(), options()).unwrap();
    assert_all(&db.open_tree("t").unwrap());
}

/// A batch too large for the memory, or for one record of the log, is refused whole, and is
/// unchanged.
#[test]
fn a_batch_too_large_for_memory_or_log_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (cache, count, bytes, limit) in
        [(4 << 20, 400, 4000, "the memory"), (1 << 30, 17, 4 << 20, "the log")]
    {
        let options = Options::new().cache_size(cache).durability(Durability::Lazy);
        let db = Db::open(dir.path(), options).unwrap();
        let tree = db.open_tree("t").or_else(|_| db.create_tree("t", Default::default())).unwrap();
        let mut batch = Batch::new();
        for n in 0..count {
            batch.merge(&tree, &key(n), operator::APPEND, &vec![1; bytes]).unwrap();
        }
        let before = db.stats().get("seqno_visible");
        match db.commit(&mut batch) {
            Err(Error::BatchTooLarge { bytes, max, limit: what }) => {
                assert!(bytes > max && what.starts_with(limit), "{what}");
            }
            other => panic!("not refused for its length: {other:?}"),
        }
        assert_eq!(db.stats().get("seqno_visible"), before, "nothing was done");
        assert_eq!(batch.len(), count as usize, "the batch is as it was");
        assert_eq!(tree.get(&key(0)).unwrap(), None);
        batch.clear();
        batch.put(&tree, b"small", b"1").unwrap();
        db.commit(&mut batch).unwrap();
        assert!(tree.get(b"small").unwrap().is_some());
        tree.delete(b"small").unwrap();
        db.close().unwrap();
    }
}

/// However many threads commit large batches at once, memtables stay within their quarter. Rule:
/// I36.
#[test]
fn large_batches_stay_within_the_memory_of_memtables() {
    const CACHE: u64 = 8 << 20;
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(CACHE).durability(Durability::Lazy);
    let db = Db::open(dir.path(), options).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let done = AtomicBool::new(false);
    let most = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                most = most.max(db.stats().memtables_bytes);
                thread::yield_now();
            }
            most
        });
        let writers: Vec<_> = (0..4u32)
            .map(|writer| {
                let (db, tree) = (&db, &tree);
                scope.spawn(move || {
                    let mut batch = Batch::new();
                    for round in 0..8u32 {
                        for n in 0..7_000u32 {
                            let key = [n.to_be_bytes(), writer.to_be_bytes(), round.to_be_bytes()];
                            batch.put(tree, &key.concat(), &[1; 100]).unwrap();
                        }
                        db.commit(&mut batch).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    });
    // An entry takes a few more bytes in a memtable than in a batch, and frames have unused ends.
    assert!(most <= CACHE / 4 + CACHE / 16, "{most} bytes of memtables");
    assert_eq!(values(&tree, false).len(), 4 * 8 * 7_000);
    db.close().unwrap();
}
