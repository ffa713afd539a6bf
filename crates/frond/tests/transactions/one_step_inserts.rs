//! Rows of which only their own entry is unique: it is checked and inserted in one step, and
//! concurrent transactions notice no difference.

use frond::ReadOptions;
use frond::transaction::{RowConflict, RowEntry};

use super::*;

/// Rows by id, and a non-unique index by group.
struct Table {
    store: Store,
    groups: Tree,
}

fn table(is_flushed: bool) -> Table {
    let store = store(is_flushed);
    let groups = store.db.create_tree("groups", Default::default()).unwrap();
    Table { store, groups }
}

impl Table {
    fn begin(&self) -> Txn {
        let lock_timeout = Some(Duration::from_millis(20));
        let isolation = Isolation::RepeatableRead;
        self.store
            .db
            .begin(TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout))
            .unwrap()
    }

    fn insert(&self, txn: &Txn, id: &str, lock: RowLock) -> frond::Result<Option<RowConflict>> {
        let group = format!("g{id}");
        let entry = |tree, key, value, unique| RowEntry { tree, key, value, unique, absent: false };
        let row = entry(&self.store.tree, id.as_bytes(), &b"new"[..], true);
        let of_group = entry(&self.groups, group.as_bytes(), &b""[..], false);
        txn.row_writer().insert(&[row, of_group], lock)
    }

    fn groups(&self) -> u64 {
        let mut count = 0;
        let mut cursor = self.groups.scan(..).unwrap();
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        count
    }
}

fn conflict() -> Option<RowConflict> {
    Some(RowConflict { index: 0, value: b"10".to_vec() })
}

/// An existing row is locked as requested, and nothing is written. Rule: I48.
#[test]
fn an_existing_row_is_locked_as_requested_and_nothing_is_written() {
    for is_flushed in [false, true] {
        let table = table(is_flushed);
        for lock in [RowLock::Shared, RowLock::Exclusive] {
            let (txn, other) = (table.begin(), table.begin());
            assert_eq!(table.insert(&txn, "1", lock).unwrap(), conflict());
            assert!(txn.control().writes() == 0, "nothing was written");
            let tree = &table.store.tree;
            let shared = other
                .get_with(
                    tree,
                    b"1",
                    &ReadOptions::new().lock(RowLock::Shared).if_locked(IfLocked::NoWait),
                )
                .map(|row| row.into_value());
            assert_eq!(shared.is_ok(), lock == RowLock::Shared, "{lock:?}: {shared:?}");
            let written = other.put(tree, b"1", b"");
            assert!(matches!(written, Err(Error::LockTimeout { .. })), "{written:?}");
        }
        table.store.is_idle();
    }
}

#[test]
fn an_insert_over_a_shared_row_conflicts_without_waiting() {
    let table = table(false);
    let holders = [table.begin(), table.begin()];
    for holder in &holders {
        holder
            .get_with(&table.store.tree, b"1", &ReadOptions::new().lock(RowLock::Shared))
            .map(|row| row.into_value())
            .unwrap();
    }
    let txn = table.begin();
    txn.set_lock_timeout(Some(Duration::ZERO));
    assert_eq!(table.insert(&txn, "1", RowLock::Shared).unwrap(), conflict());
    let refused = table.insert(&txn, "1", RowLock::Exclusive);
    assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
    drop((txn, holders));
    table.store.is_idle();
}

/// The insert waits for the row and then checks again.
#[test]
fn an_insert_waits_for_a_row_being_deleted_or_inserted() {
    let table = table(true);
    for ends_well in [true, false] {
        let holder = table.begin();
        holder.delete(&table.store.tree, b"1").unwrap();
        assert_eq!(table.insert(&holder, "5", RowLock::Shared).unwrap(), None);
        let outcomes: Vec<_> = thread::scope(|scope| {
            let waits = |id: &'static str| {
                let table = &table;
                scope.spawn(move || {
                    let txn = table.begin();
                    txn.set_lock_timeout(None);
                    let met = table.insert(&txn, id, RowLock::Shared).unwrap();
                    txn.rollback();
                    met.map(|met| text(&met.value))
                })
            };
            let waiting = [waits("1"), waits("5")];
            table.store.until_waiting(2);
            match ends_well {
                true => drop(holder.commit().unwrap()),
                false => holder.rollback(),
            }
            waiting.into_iter().map(|waiter| waiter.join().unwrap()).collect()
        });
        let expected = match ends_well {
            true => [None, Some("new".to_owned())],
            false => [Some("10".to_owned()), None],
        };
        assert_eq!(outcomes, expected, "the holder commits: {ends_well}");
        table.store.is_idle();
        // The second round starts with the rows of the first.
        let txn = table.begin();
        txn.put(&table.store.tree, b"1", b"10").unwrap();
        txn.delete(&table.store.tree, b"5").unwrap();
        txn.delete(&table.groups, b"g5").unwrap();
        txn.commit().unwrap();
    }
}

/// The trees may have what the transaction itself has deleted. Rules: I7, I51.
#[test]
fn a_deleted_row_can_be_reinserted_and_deleted_permanently() {
    for is_flushed in [false, true] {
        let table = table(is_flushed);
        let txn = table.begin();
        assert_eq!(table.insert(&txn, "7", RowLock::Shared).unwrap(), None);
        txn.commit().unwrap();
        if is_flushed {
            table.store.db.checkpoint().unwrap();
        }
        let txn = table.begin();
        let entries = [(&table.store.tree, &b"7"[..]), (&table.groups, &b"g7"[..])];
        txn.row_writer().delete(&entries).unwrap();
        assert_eq!(table.insert(&txn, "7", RowLock::Shared).unwrap(), None);
        let again = table.insert(&txn, "7", RowLock::Shared).unwrap();
        assert_eq!(again, Some(RowConflict { index: 0, value: b"new".to_vec() }), "its own");
        txn.commit().unwrap();
        assert_eq!((table.store.rows().len(), table.groups()), (3, 1));
        let txn = table.begin();
        txn.row_writer().delete(&entries).unwrap();
        txn.commit().unwrap();
        table.store.db.checkpoint().unwrap();
        assert_eq!((table.store.rows().len(), table.groups()), (2, 0));
        table.store.is_idle();
    }
}

/// A gap that another transaction has locked keeps an insert out. Rule: I33.
#[test]
fn an_insert_waits_for_a_gap_lock() {
    let table = table(false);
    let reader = table.begin();
    let mut scan =
        reader.scan_with(&table.store.tree, .., &ReadOptions::new().lock(RowLock::Shared)).unwrap();
    while scan.next().unwrap().is_some() {}
    drop(scan);
    let txn = table.begin();
    let refused = table.insert(&txn, "15", RowLock::Shared);
    assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
    assert!(txn.control().writes() == 0, "nothing was written");
    drop(reader);
    assert_eq!(table.insert(&txn, "15", RowLock::Shared).unwrap(), None);
    txn.commit().unwrap();
    assert_eq!((table.store.rows().len(), table.groups()), (3, 1));
    table.store.is_idle();
}
