//! Closing a store while transactions are open and calls wait for them.

use std::sync::mpsc;

use frond::ReadOptions;

use super::*;

/// Longer than any healthy machine takes to wake a thread; a call that outlasts it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

type Waiter = Box<dyn FnOnce() -> frond::Result<()> + Send>;

/// Calls that wait for a transaction that has written row `1` of the trees and locked the gap
/// before row `2`: with the default timeout, and without any.
fn waiters(db: &Db, tree: &Tree, base: &Tree) -> Vec<Waiter> {
    let unlimited = || TxnOptions::new().lock_timeout(None);
    let handles = || (db.clone(), tree.clone());
    let mut all: Vec<Waiter> = Vec::new();
    let (db, tree) = handles();
    all.push(Box::new(move || db.transact(|txn| txn.put(&tree, b"1", b"x"))));
    let (db, tree) = handles();
    all.push(Box::new(move || {
        db.transact_with(unlimited(), |txn| txn.get_for_update(&tree, b"1").map(drop))
    }));
    let (db, tree) = handles();
    all.push(Box::new(move || {
        db.transact_with(unlimited(), |txn| txn.insert(&tree, b"15", b"in the gap").map(drop))
    }));
    let (db, tree) = handles();
    all.push(Box::new(move || {
        let lock = |txn: &Txn| txn.lock_tree(&tree, TreeLock::Exclusive, IfLocked::Wait);
        db.transact_with(unlimited(), lock)
    }));
    for timeout in [Some(Duration::from_secs(3600)), None] {
        for key in ["1", "16"] {
            let (db, tree) = handles();
            all.push(Box::new(move || {
                let mut batch = Batch::new();
                batch.lock_timeout(timeout);
                batch.put(&tree, key, b"x")?;
                db.commit(&mut batch).map(drop)
            }));
        }
    }
    let (db, _) = handles();
    all.push(Box::new(move || db.drop_tree("t")));
    let (db, base) = (handles().0, base.clone());
    all.push(Box::new(move || {
        let mut build = db.build_indexes(&base, &[("index", TreeOptions::default())])?;
        build.snapshot(Duration::from_secs(3600)).map(drop)
    }));
    all
}

/// Every call that waits returns `Closed`, whenever it began to wait, and nothing of the open
/// transaction or of the calls is left.
#[test]
fn a_close_ends_all_waits() {
    for round in 0..24_u64 {
        let Store { db, tree, _dir: dir } = store(round % 2 == 0);
        let base = db.create_tree("base", TreeOptions::default()).unwrap();
        let gaps = TxnOptions::new().isolation(Isolation::RepeatableRead);
        let holder = db.begin(gaps).unwrap();
        holder.put(&tree, b"1", b"11").unwrap();
        holder.put(&base, b"1", b"11").unwrap();
        let locking = ReadOptions::new().lock(RowLock::Shared);
        let mut cursor = holder.scan_with(&tree, &b"1"[..]..&b"2"[..], &locking).unwrap();
        while cursor.next().unwrap().is_some() {}
        drop(cursor);
        let (told, outcomes) = mpsc::channel();
        let all = waiters(&db, &tree, &base);
        let count = all.len();
        for (number, waiter) in all.into_iter().enumerate() {
            let told = told.clone();
            thread::spawn(move || told.send((number, waiter())).unwrap());
        }
        if round % 3 == 0 {
            // All but the index build wait for locks.
            while db.lock_waits().len() < count - 1 {
                let early = outcomes.try_recv();
                assert!(early.is_err(), "it need not wait: {early:?}");
                thread::sleep(Duration::from_millis(1));
            }
        } else {
            thread::sleep(Duration::from_micros(round * 7919 % 4000));
        }
        db.close().unwrap();
        for _ in 0..count {
            let (number, outcome) = outcomes.recv_timeout(PATIENCE).expect("a call hangs");
            assert!(matches!(outcome, Err(Error::Closed)), "round {round}, {number}: {outcome:?}");
        }
        assert!(db.lock_waits().is_empty() && db.transactions().is_empty());
        assert!(holder.is_over());
        assert!(matches!(holder.put(&tree, b"2", b"22"), Err(Error::Closed)));

        let again = Db::open(dir.path().join("store"), Options::new()).unwrap();
        let rows: Vec<_> = ["1", "2", "15", "16"]
            .iter()
            .map(|key| again.open_tree("t").unwrap().get(key).unwrap().map(|value| text(&value)))
            .collect();
        assert_eq!(rows, [Some("10".into()), Some("20".into()), None, None]);
        assert!(matches!(holder.commit(), Err(Error::Closed)));
        again.close().unwrap();
    }
}

/// A closure that has succeeded is not run again because the store was closed meanwhile.
#[test]
fn a_closed_store_ends_a_closure_with_its_own_error() {
    let Store { db, tree, .. } = &store(false);
    let mut runs = 0;
    let outcome = db.try_transact(|txn| -> Result<(), Box<dyn std::error::Error>> {
        runs += 1;
        txn.put(tree, b"1", b"11")?;
        db.close()?;
        assert!(txn.is_over());
        Err("of the program".into())
    });
    assert_eq!((outcome.unwrap_err().to_string(), runs), ("of the program".into(), 1));
    assert!(matches!(db.transact(|_| Ok(())), Err(Error::Closed)));
}
