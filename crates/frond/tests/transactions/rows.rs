//! Rows with all their entries in one call: what conflicts, what stays locked, and that nothing is
//! half done.

use frond::Duplicate;
use frond::ReadOptions;
use std::collections::BTreeMap;

use frond::transaction::{RowChange, RowConflict, RowEntry};
use frond_testkit::{Dice, effort};

use super::*;

/// A table: rows by id, a unique index by name, a non-unique index by group.
struct Table {
    db: Db,
    rows: Tree,
    names: Tree,
    groups: Tree,
    _dir: tempfile::TempDir,
}

fn table() -> Table {
    let store = store(false);
    let tree =
        |name: &str, unique| store.db.create_tree(name, TreeOptions::new().unique(unique)).unwrap();
    let (rows, names, groups) = (tree("rows", true), tree("names", true), tree("groups", false));
    Table { rows, names, groups, db: store.db.clone(), _dir: store._dir }
}

type Row = (u8, u8);

/// The entries of a row: (id) -> name, group; (name) -> id; (group, id) -> nothing.
fn keys(id: u8, (name, group): Row) -> [(Vec<u8>, Vec<u8>); 3] {
    [(vec![id], vec![name, group]), (vec![name], vec![id]), (vec![group, id], vec![])]
}

impl Table {
    fn begin(&self) -> Txn {
        let options = TxnOptions::new()
            .isolation(Isolation::RepeatableRead)
            .lock_timeout(Some(Duration::from_millis(20)));
        self.db.begin(options).unwrap()
    }

    fn trees(&self) -> [(&Tree, bool); 3] {
        [(&self.rows, true), (&self.names, true), (&self.groups, false)]
    }

    fn insert(
        &self,
        txn: &Txn,
        id: u8,
        row: Row,
        lock: RowLock,
    ) -> frond::Result<Option<RowConflict>> {
        let keys = keys(id, row);
        let entries: Vec<_> = self
            .trees()
            .into_iter()
            .zip(&keys)
            .map(|((tree, unique), (key, value))| RowEntry {
                tree,
                key,
                value,
                unique,
                absent: false,
            })
            .collect();
        txn.row_writer().insert(&entries, lock)
    }

    fn update(&self, txn: &Txn, id: u8, from: Row, to: Row) -> frond::Result<Option<RowConflict>> {
        let (old, new) = (keys(id, from), keys(id, to));
        let changes: Vec<_> = self
            .trees()
            .into_iter()
            .zip(old.iter().zip(&new))
            .map(|((tree, unique), (old, new))| RowChange {
                tree,
                old: Some(&old.0),
                new: Some((&new.0, &new.1)),
                unique,
            })
            .collect();
        txn.row_writer().update(&changes, RowLock::Exclusive)
    }

    fn delete(&self, txn: &Txn, id: u8, row: Row) {
        let keys = keys(id, row);
        let entries: Vec<(&Tree, &[u8])> = self
            .trees()
            .into_iter()
            .zip(&keys)
            .map(|((tree, _), (key, _))| (tree, &key[..]))
            .collect();
        txn.row_writer().delete(&entries).unwrap();
    }

    /// All rows, read by every index.
    fn found(&self) -> BTreeMap<u8, Row> {
        let all = |tree: &Tree| {
            let mut found = Vec::new();
            let mut cursor = tree.scan(..).unwrap();
            while let Some((key, value)) = cursor.next().unwrap() {
                found.push((key.to_vec(), value.to_vec()));
            }
            found
        };
        let rows: BTreeMap<u8, Row> = all(&self.rows)
            .into_iter()
            .map(|(key, value)| (key[0], (value[0], value[1])))
            .collect();
        let mut expected = [Vec::new(), Vec::new()];
        for (&id, &row) in &rows {
            let [_, name, group] = keys(id, row);
            expected[0].push(name);
            expected[1].push(group);
        }
        expected.iter_mut().for_each(|entries| entries.sort());
        assert_eq!([all(&self.names), all(&self.groups)], expected, "indexes are in step");
        rows
    }
}

/// The first conflict is named and locked as requested. Rule: I48.
#[test]
fn the_first_conflict_is_reported_and_locked_as_requested() {
    let table = table();
    let txn = table.begin();
    assert_eq!(table.insert(&txn, 1, (10, 5), RowLock::Exclusive).unwrap(), None);
    assert_eq!(table.insert(&txn, 2, (20, 5), RowLock::Exclusive).unwrap(), None);
    // The transaction's own rows conflict, too.
    let own = table.insert(&txn, 1, (20, 5), RowLock::Exclusive).unwrap();
    assert_eq!(own, Some(RowConflict { index: 0, value: vec![10, 5] }));
    txn.commit().unwrap();
    for lock in [RowLock::Shared, RowLock::Exclusive] {
        let (txn, other) = (table.begin(), table.begin());
        let conflict = table.insert(&txn, 3, (20, 6), lock).unwrap();
        assert_eq!(conflict, Some(RowConflict { index: 1, value: vec![2] }));
        assert!(txn.control().writes() == 0, "nothing was written");
        let shared = other
            .get_with(
                &table.names,
                &[20],
                &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        assert_eq!(shared.is_ok(), lock == RowLock::Shared, "{lock:?}: {shared:?}");
        let written = other.put(&table.names, &[20], b"");
        assert!(matches!(written, Err(Error::LockTimeout { .. })), "{written:?}");
        // Id 3 was checked before, and stays locked by this transaction.
        assert!(matches!(other.put(&table.rows, &[3], b""), Err(Error::LockTimeout { .. })));
        // Goes on like ON DUPLICATE KEY UPDATE.
        drop(other);
        assert_eq!(table.update(&txn, 2, (20, 5), (20, 7)).unwrap(), None);
        assert_eq!(table.update(&txn, 2, (20, 7), (20, 5)).unwrap(), None);
        txn.commit().unwrap();
    }
    assert_eq!(table.found(), BTreeMap::from([(1, (10, 5)), (2, (20, 5))]));
}

/// k = k + 1 from the top, and a swap through a free key.
#[test]
fn unique_keys_can_be_shifted_within_a_transaction() {
    let table = table();
    let txn = table.begin();
    for id in 0..20 {
        assert_eq!(table.insert(&txn, id, (100 + id, 1), RowLock::Exclusive).unwrap(), None);
    }
    txn.commit().unwrap();
    let txn = table.begin();
    let conflict = table.update(&txn, 0, (100, 1), (101, 1)).unwrap();
    assert_eq!(conflict, Some(RowConflict { index: 1, value: vec![1] }));
    for id in (0..20).rev() {
        assert_eq!(table.update(&txn, id, (100 + id, 1), (101 + id, 1)).unwrap(), None, "{id}");
    }
    assert_eq!(table.update(&txn, 0, (101, 1), (9, 1)).unwrap(), None);
    assert_eq!(table.update(&txn, 1, (102, 1), (101, 1)).unwrap(), None);
    assert_eq!(table.update(&txn, 0, (9, 1), (102, 1)).unwrap(), None);
    txn.commit().unwrap();
    let mut expected: BTreeMap<u8, Row> = (0..20).map(|id| (id, (101 + id, 1))).collect();
    expected.insert(0, (102, 1));
    expected.insert(1, (101, 1));
    assert_eq!(table.found(), expected);
}

/// A call that fails at its last entry has done nothing, and neither has a refused call.
#[test]
fn a_row_call_takes_effect_completely_or_not_at_all() {
    let table = table();
    let holder = table.begin();
    holder.put(&table.groups, &[5, 1], b"").unwrap();
    let txn = table.begin();
    txn.put(&table.rows, &[200], b"xx").unwrap();
    let failed = table.insert(&txn, 1, (10, 5), RowLock::Exclusive);
    assert!(matches!(failed, Err(Error::LockTimeout { .. })), "{failed:?}");
    assert_eq!(txn.control().writes(), 1);
    assert_eq!(txn.get(&table.rows, &[1]).unwrap(), None);
    drop(holder);
    assert_eq!(table.insert(&txn, 1, (10, 5), RowLock::Exclusive).unwrap(), None);
    assert_eq!(table.insert(&txn, 2, (10, 6), RowLock::Exclusive).unwrap().unwrap().index, 1);
    assert_eq!(txn.control().writes(), 4);
    txn.delete(&table.rows, &[200]).unwrap();
    txn.commit().unwrap();
    assert_eq!(table.found(), BTreeMap::from([(1, (10, 5))]));
}

/// Random calls and savepoints, compared with a map.
#[test]
fn rows_match_the_model() {
    for seed in effort::seeds(20) {
        let dice = &mut Dice::new(seed);
        let table = table();
        let mut committed: BTreeMap<u8, Row> = BTreeMap::new();
        for _ in 0..30 {
            let (txn, mut own) = (table.begin(), committed.clone());
            let mut kept = None;
            for _ in 0..dice.between(1, 12) {
                let (id, row) = (dice.below(12) as u8, (dice.below(14) as u8, dice.below(3) as u8));
                let taken = own.iter().find(|(other, (name, _))| **other != id && *name == row.0);
                let taken = taken.map(|(other, _)| RowConflict { index: 1, value: vec![*other] });
                match (dice.below(8), own.get(&id).copied()) {
                    (0..=2, there) => {
                        let done = table.insert(&txn, id, row, RowLock::Exclusive).unwrap();
                        let there = there.map(|(name, group)| vec![name, group]);
                        let expected = there.map(|value| RowConflict { index: 0, value }).or(taken);
                        assert_eq!(done, expected, "seed {seed}");
                        if done.is_none() {
                            own.insert(id, row);
                        }
                    }
                    (3..=5, Some(from)) => {
                        let done = table.update(&txn, id, from, row).unwrap();
                        assert_eq!(done, taken, "seed {seed}");
                        if done.is_none() {
                            own.insert(id, row);
                        }
                    }
                    (6, Some(from)) => {
                        table.delete(&txn, id, from);
                        own.remove(&id);
                    }
                    (7, _) if kept.is_none() => {
                        kept = Some((txn.savepoint().unwrap(), own.clone()))
                    }
                    (7, _) => {
                        let (savepoint, then) = kept.take().unwrap();
                        txn.rollback_to(&savepoint).unwrap();
                        own = then;
                    }
                    _ => {}
                }
            }
            if dice.chance(3, 4) {
                txn.commit().unwrap();
                committed = own;
            }
            assert_eq!(table.found(), committed, "seed {seed}");
            if dice.chance(1, 10) {
                table.db.checkpoint().unwrap();
            }
        }
    }
}

/// Entries of one tree: one key twice, a chain of keys, and locks of reads next to those of writes.
#[test]
fn a_row_may_have_several_entries_in_one_tree() {
    let table = table();
    let (txn, other) = (table.begin(), table.begin());
    let entry =
        |value| RowEntry { tree: &table.names, key: &[1], value, unique: true, absent: false };
    let twice = txn.row_writer().insert(&[entry(b"1"), entry(b"2")], RowLock::Exclusive).unwrap();
    assert_eq!(twice, Some(RowConflict { index: 1, value: b"1".to_vec() }));
    assert!(txn.control().writes() == 0);
    for key in [1, 2] {
        txn.put(&table.names, &[key], &[key]).unwrap();
    }
    let change = |old: &'static [u8], new: &'static [u8]| RowChange {
        tree: &table.names,
        old: Some(old),
        new: Some((new, b"x")),
        unique: true,
    };
    let chain = [change(&[1], &[2]), change(&[2], &[3])];
    assert_eq!(txn.row_writer().update(&chain, RowLock::Exclusive).unwrap(), None);
    let found = [1, 2, 3].map(|key| txn.get(&table.names, &[key]).unwrap().is_some());
    assert_eq!(found, [false, true, true]);
    // A write is not a read: its lock stays.
    txn.get_for_update(&table.rows, &[9]).unwrap();
    txn.insert(&table.rows, &[8], b"").unwrap();
    txn.control().unlock_last().unwrap();
    let busy = |key: u8| {
        let met = other
            .get_with(
                &table.rows,
                &[key],
                &ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait),
            )
            .map(|row| row.into_value());
        matches!(met, Err(Error::LockBusy { .. }))
    };
    assert!(busy(8) && busy(9));
    txn.get_for_update(&table.rows, &[7]).unwrap();
    assert!(busy(7));
    txn.control().unlock_last().unwrap();
    assert!(!busy(7));
}

/// Inserts of an existing row share its lock: none waits. Rule: I48.
#[test]
fn refused_inserts_share_the_lock_of_the_existing_row() {
    let table = table();
    let txn = table.begin();
    assert_eq!(table.insert(&txn, 1, (1, 1), RowLock::Shared).unwrap(), None);
    txn.commit().unwrap();
    let all: Vec<Txn> = (0..3).map(|_| table.begin()).collect();
    for txn in &all {
        let met = table.insert(txn, 1, (2, 2), RowLock::Shared).unwrap();
        assert_eq!(met.map(|met| met.index), Some(0));
    }
}

/// A locking read that finds nothing keeps its key from being inserted, and no other key: nothing
/// else could make its result untrue (design note 032).
#[test]
fn a_locking_read_of_an_absent_key_blocks_only_its_insertion() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        for is_flushed in [false, true] {
            let store = store(is_flushed);
            let Store { db, tree, .. } = &store;
            let now = |isolation| {
                let lock_timeout = Some(Duration::ZERO);
                db.begin(TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout)).unwrap()
            };
            let (reader, other) = (now(isolation), now(Isolation::ReadCommitted));
            assert_eq!(
                reader
                    .get_with(tree, b"15", &ReadOptions::new().lock(RowLock::Shared))
                    .map(|row| row.into_value())
                    .unwrap(),
                None
            );
            let refused = other.insert(tree, b"15", b"");
            assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
            for beside in [&b"14"[..], b"15\0", b"16"] {
                other.insert(tree, beside, b"").unwrap();
            }
            other.commit().unwrap();
            assert_eq!(
                reader
                    .get_with(tree, b"15", &ReadOptions::new().lock(RowLock::Shared))
                    .map(|row| row.into_value())
                    .unwrap(),
                None
            );
            thread::scope(|scope| {
                let batch = scope.spawn(|| {
                    let mut batch = Batch::new();
                    batch.insert(tree, b"15", b"late").unwrap();
                    db.commit(&mut batch)
                });
                store.until_waiting(1);
                // The transaction that locked the key then inserts it.
                reader.insert(tree, b"15", b"first").unwrap();
                reader.commit().unwrap();
                let late = batch.join().unwrap();
                assert!(
                    matches!(late, Err(Error::DuplicateKey(Duplicate::InBatch { .. }))),
                    "{late:?}"
                );
            });
            store.is_idle();
        }
    }
}
