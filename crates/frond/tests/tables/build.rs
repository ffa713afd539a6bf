//! Indexes built concurrently with writers: the writes are made from the callback by which the
//! build reports its progress, so that every run is identical.

use super::*;
use frond::Duplicate;

/// Writes a row from within a build; what the write may wait for can go on meanwhile.
fn put(db: &Db, table: &Table, key: &str, row: &str) {
    put_all(db, table, &[(key, row)]);
}

fn delete(db: &Db, table: &Table, key: &str) {
    db.transact(|txn| table.delete(txn, key.as_bytes()).map(drop)).unwrap();
}

/// The rows of a test's table, of which an index of each kind is to be built.
const ROWS: [(&str, &str); 4] =
    [("1", "a@b,Oslo,1"), ("2", "c@d,Oslo,2"), ("3", ",Rome,0"), ("4", "e@f,,4")];

/// Changes that are made while an index is built are in it. Rule: I34.
#[test]
fn changes_during_a_build_are_in_the_index() {
    for index in all() {
        let (_dir, db, table) = people(&ROWS);
        let mut looks = 0;
        let watch = |progress: BuildProgress| {
            looks += 1;
            match progress {
                BuildProgress::Loading { rows } => {
                    assert_eq!(rows, 4);
                    // Values swapped, moved on, inserted and deleted.
                    put(&db, &table, "1", ",Oslo,1");
                    put(&db, &table, "2", "a@b,Rome,7");
                    put(&db, &table, "1", "c@d,Paris,1");
                    delete(&db, &table, "4");
                    put(&db, &table, "5", "e@f,Oslo,0");
                    put(&db, &table, "6", "g@h,Oslo,3");
                    delete(&db, &table, "6");
                }
                BuildProgress::CatchingUp { round: 1, entries } => {
                    assert!(entries > 0);
                    put(&db, &table, "4", "g@h,Bonn,4");
                    put(&db, &table, "5", "e@f,Oslo,5");
                    delete(&db, &table, "3");
                }
                _ => {}
            }
            assert!(table.check().unwrap().is_clean(), "it has no readers yet");
            ControlFlow::Continue(())
        };
        table.build_index_with(index, watch).unwrap();
        assert!(looks >= 2);
        assert_consistent(&db, &table);
        assert_eq!(trees(&db).len(), 2, "queues are gone: {:?}", trees(&db));
        put(&db, &table, "1", ",Oslo,1");
        put(&db, &table, "9", "c@d,Oslo,2");
        assert_consistent(&db, &table);
        let info = &table.indexes()[0];
        let rows = by(&table, &begin(&db, Isolation::Snapshot), &info.name);
        assert_eq!(rows.len(), if info.unique { 4 } else { 5 }, "those with a mail, or all");
    }
}

/// A build waits for a transaction that had written the table before the build was registered: none
/// of its writes are queued.
#[test]
fn an_index_build_waits_for_earlier_writers() {
    for is_prepared in [false, true] {
        let (_dir, db, table) = people(&ROWS);
        let txn = begin(&db, Isolation::RepeatableRead);
        table.put(&txn, b"1", b"x@y,Oslo,1").unwrap();
        table.delete(&txn, b"2").unwrap();
        let xid = Xid::new(b"late").unwrap();
        let mut before = Some(txn);
        if is_prepared {
            before.take().unwrap().prepare(&xid).unwrap().detach();
        }
        let (mut waits, mut loaded) = (0, false);
        let watch = |progress| {
            match progress {
                BuildProgress::Waiting => {
                    waits += 1;
                    // Other writers are not blocked meanwhile.
                    put(&db, &table, "7", &format!("c@d,Oslo,{waits}"));
                    if waits == 5 {
                        match before.take() {
                            Some(txn) => drop(txn.commit().unwrap()),
                            None => drop(db.commit_prepared(&xid).unwrap()),
                        }
                    }
                }
                BuildProgress::Loading { .. } => {
                    assert!(waits >= 5, "it has waited");
                    loaded = true;
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        table.build_index_with(mail(), watch).unwrap();
        assert!(loaded);
        assert_consistent(&db, &table);
        let mails = by(&table, &begin(&db, Isolation::Snapshot), "mail");
        let keys: Vec<_> = mails.iter().map(|(mail, key, _)| (&mail[..], &key[..])).collect();
        assert_eq!(keys, [("c@d", "7"), ("e@f", "4"), ("x@y", "1")]);
    }
}

/// A transaction that has changes in a queue keeps the round from ending, and continues in the next
/// queue.
#[test]
fn a_transaction_may_write_to_several_build_queues() {
    let (_dir, db, table) = people(&ROWS);
    let (mut open, mut waits) = (None, 0);
    let watch = |progress| {
        match progress {
            BuildProgress::Loading { .. } => {
                let txn = begin(&db, Isolation::Snapshot);
                table.put(&txn, b"1", b"1@1,Oslo,1").unwrap();
                open = Some(txn);
            }
            BuildProgress::Waiting => {
                waits += 1;
                if let Some(txn) = &open {
                    table.put(txn, b"1", format!("{waits}@1,Oslo,1").as_bytes()).unwrap();
                    table.put(txn, b"2", b",Oslo,1").unwrap();
                }
                if waits == 3 {
                    open.take().unwrap().commit().unwrap();
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    table.build_index_with(mail(), watch).unwrap();
    assert!(waits >= 3);
    assert_consistent(&db, &table);
    let mails = by(&table, &begin(&db, Isolation::Snapshot), "mail");
    let found: Vec<_> = mails.iter().map(|(mail, ..)| &mail[..]).collect();
    assert_eq!(found, ["3@1", "e@f"]);
}

#[test]
fn duplicate_index_keys_are_reported_with_their_rows() {
    // A duplicate among the rows; the build succeeds once it is corrected.
    for index in [mail(), mail_and_row()] {
        let (_dir, db, table) = people(&ROWS);
        put(&db, &table, "5", "c@d,Bonn,1");
        match table.build_index(index.clone()) {
            Err(Error::DuplicateKey(Duplicate::InIndexBuild { rows, .. })) => {
                assert_eq!(rows, [b"2", b"5"])
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(trees(&db), ["people"]);
        put(&db, &table, "2", ",Bonn,1");
        table.build_index(index).unwrap();
        assert_consistent(&db, &table);
    }
    // A duplicate among the concurrent changes, in the first or second round.
    for index in [mail(), mail_and_row()] {
        for late in [0, 1] {
            let (_dir, db, table) = people(&ROWS);
            let watch = |progress| {
                match progress {
                    BuildProgress::Loading { .. } => {
                        put(&db, &table, "5", "g@h,Bonn,1");
                        if late == 0 {
                            put(&db, &table, "6", "g@h,Bonn,2");
                        }
                    }
                    BuildProgress::CatchingUp { round: 1, .. } => {
                        put(&db, &table, "7", "e@f,Bonn,1");
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            };
            match table.build_index_with(index.clone(), watch) {
                Err(Error::DuplicateKey(Duplicate::InIndexBuild { rows, .. })) if late == 0 => {
                    assert_eq!(rows, [b"5", b"6"]);
                }
                Err(Error::DuplicateKey(Duplicate::InIndexBuild { rows, .. })) => {
                    assert_eq!(rows, [b"4", b"7"])
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(trees(&db), ["people"]);
            put(&db, &table, "8", "a@b,Bonn,1");
            assert_consistent(&db, &table);
        }
    }
}

#[test]
fn an_abandoned_build_leaves_nothing() {
    let (dir, db, table) = people(&ROWS);
    for at in 0..3 {
        let watch = |progress| {
            put(&db, &table, "1", "a@b,Rome,1");
            put(&db, &table, "1", ",Oslo,1");
            let here = match progress {
                BuildProgress::Loading { .. } => 0,
                BuildProgress::CatchingUp { .. } => 1,
                _ => 2,
            };
            if here == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        if at == 2 {
            // The build waits for this transaction.
            let txn = begin(&db, Isolation::Snapshot);
            table.put(&txn, b"4", b"").unwrap();
            let given_up = table.build_index_with(mail(), watch);
            assert!(matches!(given_up, Err(Error::Interrupted)), "{given_up:?}");
            table.put(&txn, b"4", b"e@f,,4").unwrap();
            txn.commit().unwrap();
        } else {
            let given_up = table.build_index_with(mail(), watch);
            assert!(matches!(given_up, Err(Error::Interrupted)), "{given_up:?}");
        }
        assert_eq!(trees(&db), ["people"], "at {at}");
        assert_eq!(table.indexes(), []);
        assert_consistent(&db, &table);
    }
    // A transaction that has changes in the queue is not disturbed; the next build clears the queue
    // away.
    let mut open = None;
    let watch = |_| {
        let txn = begin(&db, Isolation::Snapshot);
        table.put(&txn, b"9", b"x@y,Oslo,1").unwrap();
        open = Some(txn);
        ControlFlow::Break(())
    };
    assert!(matches!(table.build_index_with(mail(), watch), Err(Error::Interrupted)));
    assert_eq!(trees(&db).len(), 2, "{:?}", trees(&db));
    let txn = open.unwrap();
    table.put(&txn, b"9", b"z@y,Oslo,1").unwrap();
    let xid = Xid::new(b"late").unwrap();
    txn.prepare(&xid).unwrap().detach();
    drop(table);
    db.close().unwrap();
    drop(db);
    let db = open_again(dir.path());
    let table = db.table(TableSpec::new("people")).unwrap();
    assert_eq!(trees(&db).len(), 2, "{:?}", trees(&db));
    db.commit_prepared(&xid).unwrap();
    table.build_index(mail()).unwrap();
    assert_eq!(trees(&db).len(), 2, "{:?}", trees(&db));
    assert_consistent(&db, &table);
    let txn = begin(&db, Isolation::Snapshot);
    assert_eq!(table.index("mail").unwrap().get(&txn, b"z@y").unwrap().unwrap().0, b"9");
}

fn open_again(dir: &Path) -> Db {
    open(dir)
}

/// A transaction that has read the table before the index existed gets an error from the index.
/// Rule: I43.
#[test]
fn a_reader_older_than_an_index_gets_an_error_from_it() {
    for index in [mail(), city(), number()] {
        let (_dir, db, table) = people(&ROWS);
        let reader = || {
            let txn = begin(&db, Isolation::RepeatableRead);
            assert!(table.get(&txn, b"1").unwrap().is_some());
            txn
        };
        let mut readers = vec![reader()];
        let watch = |_| {
            readers.push(reader());
            put(&db, &table, "1", &format!("a@b,Oslo,{}", readers.len()));
            ControlFlow::Continue(())
        };
        table.build_index_with(index, watch).unwrap();
        assert!(readers.len() > 2);
        let name = table.indexes()[0].name.clone();
        let built = table.index(&name).unwrap();
        for txn in readers {
            let refused = built.scan(&txn, ..).map(drop);
            assert!(matches!(refused, Err(Error::DefinitionChanged(_))), "{refused:?}");
            if name == "mail" {
                let refused = built.get(&txn, b"a@b");
                assert!(matches!(refused, Err(Error::DefinitionChanged(_))), "{refused:?}");
            }
            // It still sees its snapshot of the table, and it may write.
            assert!(table.get(&txn, b"1").unwrap().is_some());
            table.put(&txn, b"1", b"a@b,Bonn,1").unwrap();
            txn.commit().unwrap();
        }
        assert!(by(&table, &reader(), &name).len() >= 3);
        assert_consistent(&db, &table);
    }
}

#[test]
fn a_table_has_one_build_at_a_time() {
    let (_dir, db, table) = people(&ROWS);
    let other = db.table(TableSpec::new("people")).unwrap();
    let watch = |_| {
        let refused = other.build_index(city());
        assert!(matches!(refused, Err(Error::LockBusy { .. })), "{refused:?}");
        let refused = db.drop_table("people");
        assert!(matches!(refused, Err(Error::LockBusy { .. })), "{refused:?}");
        ControlFlow::Continue(())
    };
    table.build_index_with(mail(), watch).unwrap();
    let twice = table.build_index(mail());
    assert!(matches!(twice, Err(Error::InvalidArgument(_))), "{twice:?}");
    // The other handle maintains the index, too.
    put(&db, &other, "5", "x@y,,");
    let refused = db.transact(|txn| other.insert(txn, b"6", b"x@y,,"));
    assert!(
        matches!(refused, Err(Error::DuplicateKey(Duplicate::InIndex { row, .. })) if row == b"5")
    );
    assert_consistent(&db, &table);
}
