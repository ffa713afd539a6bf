//! Concurrent transactions on tables: what a transaction sees of what it writes over newer rows,
//! how long its calls wait and what they leave locked, and which waits for which when a table is
//! dropped.

use frond::Duplicate;
use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use frond::internals::io::{Clock, Env};

use super::*;

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// A table with all indexes.
fn indexed(rows: &[(&str, &str)]) -> (tempfile::TempDir, Db, Table) {
    let (dir, db, table) = people(rows);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    (dir, db, table)
}

/// The tree of an index, used to lock its entries alone.
fn tree_of(db: &Db, table: &Table, index: &str) -> frond::Tree {
    let found = table.indexes().into_iter().find(|info| info.name == index).unwrap();
    db.open_tree(&found.tree).unwrap()
}

/// A transaction that writes a row's current value, which another has written since, counts as
/// having written it, and sees it.
#[test]
fn writing_the_current_value_counts_as_an_own_write() {
    let (_dir, db, table) = indexed(&[("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2")]);
    let txn = begin(&db, Isolation::RepeatableRead);
    assert_eq!(table.get(&txn, b"1").unwrap().as_deref(), Some(&b"a@b,Oslo,1"[..]));
    put_all(&db, &table, &[("1", "x@y,Rome,7")]);
    assert!(table.put(&txn, b"2", b"c@d,Oslo,2").unwrap());
    assert!(txn.control().writes() == 0, "unchanged rows are not written");
    assert_eq!(table.get(&txn, b"1").unwrap().as_deref(), Some(&b"a@b,Oslo,1"[..]));
    assert!(table.put(&txn, b"1", b"x@y,Rome,7").unwrap());
    assert_eq!(table.get(&txn, b"1").unwrap().as_deref(), Some(&b"x@y,Rome,7"[..]));
    let own = |extracted: &str| (extracted.into(), "1".into(), "x@y,Rome,7".into());
    let other = |extracted: &str| (extracted.into(), "2".into(), "c@d,Oslo,2".into());
    assert_eq!(by(&table, &txn, "mail"), [other("c@d"), own("x@y")]);
    assert_eq!(by(&table, &txn, "mail and row"), [other("c@d"), own("x@y")]);
    assert_eq!(by(&table, &txn, "city"), [other("Oslo"), own("Rome")]);
    assert_eq!(by(&table, &txn, "number"), [other("2"), own("7")]);
    for mails in ["mail", "mail and row"].map(|name| table.index(name).unwrap()) {
        assert_eq!(mails.get(&txn, b"a@b").unwrap(), None);
        assert_eq!(mails.get(&txn, b"x@y").unwrap().unwrap().0, b"1");
    }
    // A row that its snapshot does not show can be written, too.
    let young = db.table(TableSpec::new("young")).unwrap();
    put_all(&db, &young, &[("1", "there")]);
    assert!(young.put(&txn, b"1", b"there").unwrap());
    assert!(matches!(young.get(&txn, b"1"), Err(Error::DefinitionChanged(_))));
    txn.commit().unwrap();
    // In a statement at READ COMMITTED reads by row see the newest, too.
    let txn = begin(&db, Isolation::ReadCommitted);
    txn.statement().begin().unwrap();
    assert!(table.get(&txn, b"2").unwrap().is_some());
    put_all(&db, &table, &[("2", "new,Bonn,2")]);
    assert_eq!(table.get(&txn, b"2").unwrap().as_deref(), Some(&b"c@d,Oslo,2"[..]));
    assert!(table.update(&txn, b"2", b"new,Bonn,2").unwrap());
    assert_eq!(table.get(&txn, b"2").unwrap().as_deref(), Some(&b"new,Bonn,2"[..]));
    txn.commit().unwrap();
    assert_consistent(&db, &table);
}

/// A clock that moves only as the test sets it.
#[derive(Debug, Default)]
struct Told(AtomicU64);

impl Clock for Told {
    fn now(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Duration {
        self.now()
    }

    fn sleep(&self, time: Duration) {
        thread::sleep(time.min(Duration::from_millis(1)));
    }
}

/// A call that waits for an entry and then for its row has one timeout for both waits.
#[test]
fn an_index_read_has_one_timeout_for_entry_and_row() {
    for by_scan in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Told::default());
        let env = Env { clock: clock.clone(), ..Env::real() };
        let options = Options::new().cache_size(32 << 20).durability(Durability::Lazy).env(env);
        let db = Db::open(dir.path().join("store"), options).unwrap();
        let table = db.table(spec([mail()])).unwrap();
        put_all(&db, &table, &[("1", "a@b,Oslo,1")]);
        let [entry, row] = [(); 2].map(|()| db.begin(TxnOptions::default()).unwrap());
        entry.get_for_update(&tree_of(&db, &table, "mail"), b"a@b").unwrap();
        row.get_for_update(table.rows(), b"1").unwrap();
        let until_waiting_for = |holder: &Txn| {
            while !db.lock_waits().iter().any(|wait| wait.holders.contains(&holder.control().id()))
            {
                thread::sleep(Duration::from_millis(1));
            }
        };
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                let lock_timeout = Some(Duration::from_millis(100));
                let txn = db.begin(TxnOptions::new().lock_timeout(lock_timeout)).unwrap();
                let mails = table.index("mail").unwrap();
                let outcome = match by_scan {
                    false => mails.get_for_update(&txn, b"a@b").map(drop),
                    true => {
                        let options = ReadOptions::new().lock(RowLock::Exclusive);
                        let mut scan = mails.scan_with(&txn, .., &options).unwrap();
                        scan.next().map(drop)
                    }
                };
                (outcome, clock.now())
            });
            until_waiting_for(&entry);
            clock.0.store(60, Ordering::SeqCst);
            entry.rollback();
            until_waiting_for(&row);
            clock.0.store(110, Ordering::SeqCst);
            for _ in 0..2000 {
                if waits.is_finished() {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            // A waiter that is still there is released, too late.
            clock.0.store(10_000, Ordering::SeqCst);
            let (outcome, ended) = waits.join().unwrap();
            assert!(matches!(outcome, Err(Error::LockTimeout { .. })), "{outcome:?}");
            assert_eq!(ended, Duration::from_millis(110), "by scan: {by_scan}");
        });
        row.rollback();
    }
}

/// An entry without a row is reported at every level, after it was read a second time.
#[test]
fn a_unique_lookup_reports_an_entry_without_a_row() {
    let (_dir, db, table) = indexed(&[("1", "a@b,Oslo,1")]);
    let entries = frond::internals::bypass_table(&tree_of(&db, &table, "mail"));
    entries.put(b"ghost", b"1").unwrap();
    entries.put(b"gone", b"2").unwrap();
    let mails = table.index("mail").unwrap();
    let is_told = |outcome: frond::Result<_>| {
        assert!(matches!(outcome, Err(Error::TableMismatch { .. })), "{outcome:?}");
    };
    for ghost in [b"ghost".as_slice(), b"gone"] {
        let txn = begin(&db, Isolation::ReadCommitted);
        is_told(mails.get(&txn, ghost));
        is_told(mails.get_for_update(&txn, ghost));
        // The transaction's own writes to the row change nothing.
        table.put(&txn, b"1", b"c@d,Oslo,1").unwrap();
        table.put(&txn, b"2", b"e@f,Oslo,1").unwrap();
        is_told(mails.get(&txn, ghost));
        is_told(mails.get_for_update(&txn, ghost));
        assert_eq!(mails.get(&txn, b"c@d").unwrap().unwrap().0, b"1");
        assert_eq!(mails.get(&txn, b"a@b").unwrap(), None);
    }
}

/// A check sees what is committed, whatever its thread has open and has locked.
#[test]
fn a_check_needs_no_lock_that_its_own_thread_holds() {
    let (_dir, db, table) = people(&[("1", "a,Oslo,1"), ("2", "b,Oslo,2"), ("3", "c,Oslo,3")]);
    all().into_iter().for_each(|index| table.build_index(index).unwrap());
    let check = |rows: u64| {
        let report = table.check().unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.rows, rows);
    };
    for level in [Isolation::RepeatableRead, Isolation::Serializable] {
        let txn = begin(&db, level);
        txn.lock_tree(table.rows(), TreeLock::Exclusive, IfLocked::Wait).unwrap();
        assert!(!table.put(&txn, b"4", b"d,Rome,4").unwrap());
        assert!(table.put(&txn, b"1", b"e,Rome,1").unwrap());
        assert!(table.delete(&txn, b"2").unwrap());
        let mails = table.index("mail").unwrap();
        let mut own = mails.scan_with(&txn, .., &skipping(RowLock::Exclusive)).unwrap();
        let mut of_db = mails.scan(&db, ..).unwrap();
        let mut rows = table.scan(&db, ..).unwrap();
        assert!(own.next().unwrap().is_some() && of_db.next().unwrap().is_some());
        assert!(rows.next().unwrap().is_some());
        check(3);
        let deleted = begin(&db, Isolation::ReadCommitted);
        assert!(of_db.next().unwrap().is_some());
        drop((own, of_db, rows, mails, deleted));
        txn.rollback();
        check(3);
    }
    db.transact(|txn| table.delete(txn, b"2").map(drop)).unwrap();
    check(2);
}

/// Columns and indexes that change during a check are no finding and no error.
#[test]
fn a_check_concurrent_with_changes_of_the_definition_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let column = |name: &str| Column::new(name, Part::Fixed(1, Hint::None));
    // Two bytes of a row are its layout version.
    let first = || {
        let extract = |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(&row[2..3]);
            Ok(true)
        };
        vec![IndexSpec::new("first", extract).clustering()]
    };
    let spec = TableSpec::new("t").columns(vec![column("a")]);
    let table = db.table(first().into_iter().fold(spec, TableSpec::index)).unwrap();
    db.transact(|txn| (0..50u8).try_for_each(|row| table.put(txn, [row], [0, 0, row]).map(drop)))
        .unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let checker = scope.spawn(|| {
            let mut checks = 0;
            while !is_over.load(Ordering::Relaxed) {
                let report = table.check().unwrap();
                assert!(report.is_clean(), "check {checks}: {report:?}");
                assert_eq!(report.rows, 50);
                checks += 1;
            }
            checks
        });
        let mut newest = table.clone();
        for _ in 0..40 {
            let add = ColumnChange::Add { column: column("b"), default: vec![7], at: None };
            newest = newest.change_columns(&[add], first()).unwrap();
            let drop = ColumnChange::Drop("b".into());
            newest = newest.change_columns(&[drop], first()).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(checker.join().unwrap() > 0);
    });
}

/// A look-up finds rows that go back and forth concurrently, or not, and never reports damage.
#[test]
fn a_unique_lookup_concurrent_with_writers_finds_valid_rows() {
    let (_dir, db, table) = indexed(&[("1", "a@b,Oslo,1")]);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..1500 {
                let row = ["x@y,Oslo,1", "a@b,Oslo,1"][round % 2];
                put_all(&db, &table, &[("1", row)]);
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mails = table.index("mail").unwrap();
        let txn = begin(&db, Isolation::ReadCommitted);
        while !is_over.load(Ordering::Relaxed) {
            if let Some((key, row)) = mails.get(&txn, b"a@b").unwrap() {
                assert_eq!((&key[..], &row[..]), (&b"1"[..], &b"a@b,Oslo,1"[..]));
            }
        }
    });
}

/// The entry of a row that a scan skips is left unlocked, unless it was locked before.
#[test]
fn a_skipped_row_leaves_no_index_entry_locked() {
    for level in LEVELS {
        for was_locked in [false, true] {
            let (_dir, db, table) = indexed(&[("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2")]);
            let entries = tree_of(&db, &table, "mail");
            let (one, two) = (begin(&db, level), begin(&db, level));
            one.get_for_update(table.rows(), b"1").unwrap();
            if was_locked {
                two.get_for_update(&entries, b"a@b").unwrap();
            }
            let mails = table.index("mail").unwrap();
            let mut scan = mails.scan_with(&two, .., &skipping(RowLock::Exclusive)).unwrap();
            assert_eq!(scan.next().unwrap().unwrap().key, b"2");
            assert_eq!(scan.next().unwrap(), None);
            let deleted = table.delete(&one, b"1");
            match was_locked {
                false => assert!(deleted.unwrap(), "{level:?}"),
                true => assert!(matches!(deleted, Err(Error::LockTimeout { .. })), "{level:?}"),
            }
            drop(scan);
        }
    }
}

/// A scan returns again to a row that it could not lock.
#[test]
fn a_scan_returns_to_a_row_that_it_could_not_lock() {
    let rows = [("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2"), ("3", "e@f,Oslo,3")];
    let (_dir, db, table) = indexed(&rows);
    for level in LEVELS {
        for (name, forward) in [("mail", true), ("city", true), ("mail", false), ("city", false)] {
            let (one, two) = (begin(&db, level), begin(&db, level));
            one.get_for_update(table.rows(), b"2").unwrap();
            let index = table.index(name).unwrap();
            let options = ReadOptions::new().lock(RowLock::Exclusive).if_locked(IfLocked::NoWait);
            let mut scan = index.scan_with(&two, .., &options).unwrap();
            if !forward {
                scan.seek_last();
            }
            let mut step = || {
                let found = if forward { scan.next() } else { scan.prev() };
                found.map(|row| row.map(|row| text(row.key)))
            };
            let order = if forward { ["1", "2", "3"] } else { ["3", "2", "1"] };
            assert_eq!(step().unwrap().as_deref(), Some(order[0]));
            for _ in 0..2 {
                let busy = step();
                assert!(matches!(busy, Err(Error::LockBusy { .. })), "{level:?}: {busy:?}");
                // Nor does unlocking the last row keep it from coming to this one again.
                two.control().unlock_last().unwrap();
            }
            one.rollback();
            assert_eq!(step().unwrap().as_deref(), Some(order[1]));
            assert_eq!(step().unwrap().as_deref(), Some(order[2]));
            assert_eq!(step().unwrap(), None);
        }
    }
    assert_consistent(&db, &table);
}

/// Threads of one transaction that write one row leave no entry behind, and none undoes what
/// another has written.
#[test]
fn threads_of_one_transaction_keep_rows_and_index_entries_consistent() {
    let (_dir, db, table) = indexed(&[("1", "a@b,Oslo,1"), ("taken", "taken,Oslo,9")]);
    let rows = db.create_tree("rows", TreeOptions::default()).unwrap();
    for round in 0..3 {
        let txn = begin(&db, Isolation::ReadCommitted);
        let start = Barrier::new(3);
        thread::scope(|scope| {
            for thread in 0..2 {
                let (txn, table, start) = (&txn, &table, &start);
                scope.spawn(move || {
                    start.wait();
                    for turn in 0..150 {
                        let row = format!("m{thread}{turn},city {},{turn}", turn % 3);
                        assert!(table.put(txn, b"1", row.as_bytes()).unwrap());
                        let refused = table.put(txn, b"1", b"taken,Rome,1");
                        assert!(
                            matches!(refused, Err(Error::DuplicateKey(Duplicate::InIndex { .. }))),
                            "{refused:?}"
                        );
                    }
                });
            }
            // Concurrent writes of the transaction that do not belong to a call for a row.
            start.wait();
            for turn in 0..300u32 {
                txn.put(&rows, &turn.to_be_bytes(), &[round]).unwrap();
            }
        });
        txn.commit().unwrap();
        let report = table.check().unwrap();
        assert!(report.is_clean(), "{report:?}");
        for turn in 0..300u32 {
            assert_eq!(rows.get(&turn.to_be_bytes()).unwrap(), Some(vec![round]));
        }
    }
    assert_consistent(&db, &table);
}

/// A drop of a table waits for transactions that have locked its rows; other tables can be opened
/// meanwhile.
#[test]
fn a_waiting_drop_does_not_block_opening_other_tables() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let table = db.table(spec([mail(), city()])).unwrap();
    put_all(&db, &table, &[("1", "a@b,Oslo,1")]);
    for drops_all in [false, true] {
        let txn = db.begin(TxnOptions::default()).unwrap();
        table.put(&txn, b"1", format!("{drops_all},Rome,1").as_bytes()).unwrap();
        let prepared = txn.prepare(&Xid::new(b"x").unwrap()).unwrap();
        thread::scope(|scope| {
            let drops = scope.spawn(|| match drops_all {
                false => table.drop_index("mail"),
                true => db.drop_table("people"),
            });
            while db.lock_waits().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            let name = format!("others {drops_all}");
            let others = db.table(TableSpec::new(&name)).unwrap();
            put_all(&db, &others, &[("1", "row")]);
            assert_eq!(db.lock_waits().len(), 1, "the drop waits on");
            prepared.commit().unwrap();
            drops.join().unwrap().unwrap();
        });
        match drops_all {
            false => assert_consistent(&db, &table),
            true => assert!(matches!(db.drop_table("people"), Err(Error::NoSuchTree(_)))),
        }
    }
}

/// A table that several threads open, make and drop exists or not, and is one table for all of
/// them.
#[test]
fn threads_create_open_and_drop_one_table() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let start = Barrier::new(3);
    thread::scope(|scope| {
        for thread in 0..3u8 {
            let (db, start) = (&db, &start);
            scope.spawn(move || {
                start.wait();
                for _ in 0..40 {
                    let table = db.table(spec([mail(), city()])).unwrap();
                    let written = db.transact(|txn| table.put(txn, [thread], b"m,Oslo,1"));
                    // All threads use one mail.
                    match written {
                        Ok(_)
                        | Err(
                            Error::DuplicateKey(Duplicate::InIndex { .. }) | Error::NoSuchTree(_),
                        ) => {}
                        Err(other) => panic!("{other}"),
                    }
                    drop(table);
                    match db.drop_table("people") {
                        Ok(()) | Err(Error::NoSuchTree(_) | Error::LockBusy { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            });
        }
    });
    let table = db.table(spec([mail(), city()])).unwrap();
    assert_consistent(&db, &table);
}
