//! Scans that lock rows which they had read before: they see a commit to their tree, and commits to
//! other trees cost nothing (Rule: I46).

use frond::{ReadOptions, internals::Tuning, transaction::Xid};
use frond_testkit::DbEngine;

use super::*;

const ROWS: u8 = 40;

/// A tree of rows 0 to 39, and another tree.
struct Two {
    db: Db,
    tree: Tree,
    other: Tree,
    dir: tempfile::TempDir,
}

/// Makes the store; with `is_small`, a transaction's writes are soon spilled.
fn two(is_flushed: bool, is_small: bool) -> Two {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir, is_small);
    let (tree, other) = (create(&db, "t"), create(&db, "other"));
    for row in 0..ROWS {
        tree.put(&[row], b"old").unwrap();
    }
    if is_flushed {
        db.checkpoint().unwrap();
    }
    Two { db, tree, other, dir }
}

fn open(dir: &tempfile::TempDir, is_small: bool) -> Db {
    let tuning = match is_small {
        true => DbEngine::tiny(Durability::Lazy).tuning,
        false => Tuning::default(),
    };
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy).tuning(tuning);
    Db::open(dir.path().join("store"), options).unwrap()
}

fn create(db: &Db, name: &str) -> Tree {
    db.create_tree(name, TreeOptions::default()).unwrap()
}

impl Two {
    fn begin(&self, isolation: Isolation) -> Txn {
        self.db.begin(TxnOptions::new().isolation(isolation)).unwrap()
    }

    fn looked_again(&self) -> u64 {
        self.db.stats().locked_rows_looked_again
    }
}

fn scan<'t>(txn: &'t Txn, tree: &Tree) -> TxnCursor<'t> {
    txn.scan_with(tree, .., &ReadOptions::new().lock(RowLock::Exclusive)).unwrap()
}

/// The remaining rows of a scan, in its direction.
fn rest(cursor: &mut TxnCursor<'_>, forward: bool) -> Vec<(u8, String)> {
    let mut rows = Vec::new();
    while let Some((key, value)) = if forward { cursor.next() } else { cursor.prev() }.unwrap() {
        rows.push((key[0], text(value)));
    }
    rows
}

#[test]
fn commits_to_other_trees_cause_no_second_lookup() {
    for isolation in [LEVELS[0], LEVELS[1], LEVELS[2], Isolation::Serializable] {
        for is_flushed in [false, true] {
            let two = two(is_flushed, false);
            let Two { db, tree, other, .. } = &two;
            let txn = two.begin(isolation);
            let mut cursor = scan(&txn, tree);
            for row in 0..ROWS {
                let found = cursor.next().unwrap().map(|(key, _)| key.to_vec());
                assert_eq!(found, Some(vec![row]));
                other.put(&[row], b"a batch").unwrap();
                db.transact(|txn| txn.put(other, &[row, 0], b"a transaction")).unwrap();
            }
            assert!(cursor.next().unwrap().is_none());
            drop(cursor);
            txn.commit().unwrap();
            assert_eq!(two.looked_again(), 0, "{isolation:?}");
        }
    }
}

/// The way in which another writer changes the rows that a scan is about to lock.
#[derive(Clone, Copy, PartialEq, Debug)]
enum By {
    Batch,
    Transaction,
    /// A transaction whose writes were spilled.
    Large,
    Prepared,
    /// A transaction prepared before the store was opened.
    Recovered,
}

/// Once the first row is locked, one of the rows after it is changed, one deleted and one inserted.
#[test]
fn a_scan_sees_commits_to_rows_it_had_read_ahead() {
    let xid = Xid::new(b"x").unwrap();
    let write = |txn: &Txn, tree: &Tree| {
        txn.put(tree, &[2], b"new")?;
        txn.delete(tree, &[3])?;
        txn.put(tree, &[4, 0], b"between")
    };
    for by in [By::Batch, By::Transaction, By::Large, By::Prepared, By::Recovered] {
        for (is_flushed, forward) in [(false, true), (true, true), (true, false)] {
            let mut two = two(is_flushed, by == By::Large);
            if by == By::Recovered {
                let txn = two.begin(Isolation::ReadCommitted);
                write(&txn, &two.tree).unwrap();
                txn.prepare(&xid).unwrap().detach();
                let Two { db, tree, other, dir } = two;
                drop((tree, other, db));
                let db = open(&dir, false);
                let trees = ["t", "other"].map(|name| db.open_tree(name).unwrap());
                let [tree, other] = trees;
                two = Two { db, tree, other, dir };
            }
            let Two { db, tree, other, .. } = &two;
            let txn = two.begin(Isolation::ReadCommitted);
            let mut cursor = txn
                .scan_with(tree, &[0][..]..&[6][..], &ReadOptions::new().lock(RowLock::Exclusive))
                .unwrap();
            let first = match forward {
                true => cursor.next(),
                false => {
                    cursor.seek_last();
                    cursor.prev()
                }
            };
            assert_eq!(first.unwrap().unwrap().0, [if forward { 0 } else { 5 }]);
            other.put(b"elsewhere", b"").unwrap();
            assert_eq!(two.looked_again(), 0);
            match by {
                By::Batch => {
                    let mut batch = Batch::new();
                    batch.put(tree, &[2], b"new").unwrap();
                    batch.delete(tree, &[3]).unwrap();
                    batch.put(tree, &[4, 0], b"between").unwrap();
                    db.commit(&mut batch).unwrap();
                }
                By::Transaction => db.transact(|txn| write(txn, tree)).unwrap(),
                By::Large => {
                    let large = two.begin(Isolation::ReadCommitted);
                    write(&large, tree).unwrap();
                    for row in 50..200 {
                        large.put(tree, &[row], b"a row of a large transaction").unwrap();
                    }
                    large.commit().unwrap();
                }
                By::Prepared => {
                    let prepared = two.begin(Isolation::ReadCommitted);
                    write(&prepared, tree).unwrap();
                    prepared.prepare(&xid).unwrap().commit().unwrap();
                }
                By::Recovered => db.commit_prepared(&xid).map(drop).unwrap(),
            }
            let old = |row: u8| (row, "old".to_owned());
            let between = (4, "between".to_owned());
            let mut seen = vec![old(1), (2, "new".to_owned()), old(4), between];
            match forward {
                true => seen.push(old(5)),
                false => seen.insert(0, old(0)),
            }
            if !forward {
                seen.reverse();
            }
            assert_eq!(rest(&mut cursor, forward), seen, "{by:?} {is_flushed} {forward}");
            assert_eq!(two.looked_again(), 1, "the next rows are read as of behind the commit");
            drop(cursor);
            txn.commit().unwrap();
            assert_eq!(db.lock_stats().locks, 0);
        }
    }
}

/// A scan that has read rows waits for its first lock while others have locked the whole tree: it
/// sees what they have done, whether they have changed rows or dropped the tree.
#[test]
fn a_scan_sees_changes_made_before_its_first_lock() {
    for drops in [false, true] {
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            let two = two(true, false);
            let Two { db, tree, .. } = &two;
            let holder = two.begin(isolation);
            holder.lock_tree(tree, TreeLock::Exclusive, IfLocked::Wait).unwrap();
            let until_waiting = |count| {
                while db.lock_waits().len() < count {
                    thread::sleep(Duration::from_millis(1));
                }
            };
            thread::scope(|scope| {
                let before = scope.spawn(|| match drops {
                    true => db.drop_tree("t").unwrap(),
                    false => {
                        let mut batch = Batch::new();
                        batch.delete_range(tree, [0]..[ROWS - 1]).unwrap();
                        db.commit(&mut batch).map(drop).unwrap();
                    }
                });
                until_waiting(1);
                let scans = scope.spawn(|| {
                    let txn = two.begin(isolation);
                    let mut cursor = scan(&txn, tree);
                    cursor.next().map(|row| row.map(|(key, _)| key.to_vec()))
                });
                until_waiting(2);
                holder.rollback();
                before.join().unwrap();
                let first = scans.join().unwrap();
                match drops {
                    true => assert!(matches!(first, Err(Error::NoSuchTree(_))), "{first:?}"),
                    false => assert_eq!(first.unwrap(), Some(vec![ROWS - 1])),
                }
            });
        }
    }
}
