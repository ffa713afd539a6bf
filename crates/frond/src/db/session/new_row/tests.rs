//! Tests of rows inserted in one step: gaps that others have locked in a non-unique index, pending
//! entries that locking scans reach there, and pacing before the first lock.

use std::time::Duration;

use super::*;
use crate::{
    Db, Durability, Isolation, Options, ReadOptions, RowLock, Tree, TreeOptions, TxnOptions,
    db::{RowChange, Tuning},
    io::{Env, MemoryVfs, Workers},
    pipeline::Limits,
    sync::Arc,
};

/// A tree of rows by number, and a non-unique index.
struct Table {
    db: Db,
    rows: Tree,
    groups: Tree,
}

fn table(limits: Limits) -> Table {
    let vfs = Arc::new(MemoryVfs::new());
    let env = Env { vfs, workers: Workers::Manual, ..Env::real() };
    let tuning = Tuning { limits: Some(limits), ..Tuning::default() };
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy).env(env);
    let db = Db::open("/store", options.tuning(tuning)).unwrap();
    let unique = TreeOptions::new().unique(true);
    let rows = db.create_tree("rows", unique).unwrap();
    let groups = db.create_tree("groups", Default::default()).unwrap();
    Table { db, rows, groups }
}

impl Table {
    /// A transaction that locks gaps and never waits.
    fn begin(&self) -> Txn {
        let (isolation, lock_timeout) = (Isolation::RepeatableRead, Some(Duration::ZERO));
        self.db.begin(TxnOptions::new().isolation(isolation).lock_timeout(lock_timeout)).unwrap()
    }

    /// Inserts a row, whose number the program may know to be new.
    fn insert(&self, txn: &Txn, (row, group): (u8, u8), absent: bool, lock: RowLock) -> Result<()> {
        let entry = |tree, key, unique, absent| RowEntry { tree, key, value: b"", unique, absent };
        let (key, in_group) = ([row], [group, row]);
        let entries = [
            entry(&self.rows, &key[..], true, absent),
            entry(&self.groups, &in_group[..], false, false),
        ];
        assert_eq!(txn.row_writer().insert(&entries, lock)?, None);
        Ok(())
    }

    /// Number of index entries that a locking scan finds before it reaches one that another
    /// transaction has locked.
    fn scan_groups(&self, txn: &Txn) -> Result<usize> {
        let mut scan =
            txn.scan_with(&self.groups, .., &ReadOptions::new().lock(RowLock::Shared))?;
        let mut found = 0;
        while scan.next()?.is_some() {
            found += 1;
        }
        Ok(found)
    }
}

/// Rule: I33, for the later entries of a row.
#[test]
fn a_row_waits_for_the_gap_of_an_index_that_is_not_unique() {
    for absent in [false, true] {
        let table = table(Limits::for_cache(8 << 20));
        let (scans, inserts) = (table.begin(), table.begin());
        assert_eq!(table.scan_groups(&scans).unwrap(), 0);
        let late = table.insert(&inserts, (1, 5), absent, RowLock::Exclusive);
        assert!(matches!(late, Err(Error::LockTimeout { .. })), "a phantom: {late:?}");
        assert!(inserts.is_empty(), "no entry of it was written");
        assert_eq!(table.scan_groups(&scans).unwrap(), 0);
        scans.commit().unwrap();
        table.insert(&inserts, (1, 5), absent, RowLock::Exclusive).unwrap();
        inserts.commit().unwrap();
        assert_eq!(table.scan_groups(&table.begin()).unwrap(), 1);
    }
}

/// Rule: I33, the other side: a range lock finds the pending entries in it.
#[test]
fn a_scan_waits_for_the_pending_entry_of_an_index_that_is_not_unique() {
    for absent in [false, true] {
        let table = table(Limits::for_cache(8 << 20));
        let (scans, inserts) = (table.begin(), table.begin());
        table.insert(&inserts, (1, 5), absent, RowLock::Exclusive).unwrap();
        let late = table.scan_groups(&scans);
        assert!(matches!(late, Err(Error::LockTimeout { .. })), "passed by: {late:?}");
        inserts.commit().unwrap();
        assert_eq!(table.scan_groups(&scans).unwrap(), 1);
    }
}

/// A transaction that holds rows is paced only where all must stop, so it must be paced before.
/// This includes a first lock that is taken without waiting for a holder: that of a row in one
/// step, and of a check that would share the lock.
#[test]
fn a_transaction_is_paced_before_its_first_row_lock() {
    let limits = || Limits { memtable_bytes: 64 << 10, ..Limits::for_cache(8 << 20) };
    let slowed = |table: &Table| table.db.stats().writers_slowed;
    // Puts that outrun the applies, until one is slowed; returns how many were not.
    let fill = |table: &Table, most: usize| {
        let put = |n: usize| {
            table.groups.put(&n.to_be_bytes(), &[7; 500]).unwrap();
            slowed(table) > 0
        };
        (0..most).position(put)
    };
    let count =
        fill(&table(limits()), 10_000).expect("the memtable is full, and nothing applies it");
    for (in_one_step, lock) in
        [(true, RowLock::Exclusive), (false, RowLock::Exclusive), (false, RowLock::Shared)]
    {
        let table = table(limits());
        assert_eq!(fill(&table, count), None);
        let txn = table.begin();
        match in_one_step {
            true => table.insert(&txn, (1, 5), false, lock).unwrap(),
            false => {
                let new = Some((&[1][..], &[][..]));
                let change = RowChange { tree: &table.rows, old: None, new, unique: true };
                assert_eq!(txn.row_writer().update(&[change], lock).unwrap(), None);
            }
        }
        assert_eq!(slowed(&table), 1, "in one step: {in_one_step}, {lock:?}");
        txn.commit().unwrap();
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "txn: a new row asks for the gap of its first entry" =>
            a_row_waits_for_the_gap_of_an_index_that_is_not_unique,
        "txn: a new row is not listed at indexes that are not unique" =>
            a_scan_waits_for_the_pending_entry_of_an_index_that_is_not_unique,
    };
    crate::plant::assert_claims_hold("new rows", claims);
}
