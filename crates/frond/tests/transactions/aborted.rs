//! Transactions that are ended before the application ends them: closures that are retried, and
//! transactions whose temporary trees are lost.

use frond::{TemporaryTree, internals::io::Env};
use frond_testkit::{DbEngine, disk::SimVfs};

use super::*;

/// A store on a simulated disk, whose transactions spill above a number of bytes.
fn store_on(vfs: &SimVfs, own_writes_bytes: u64) -> Db {
    let mut tuning = DbEngine::tiny(Durability::Lazy).tuning;
    if let Some(limits) = &mut tuning.limits {
        limits.own_writes_bytes = own_writes_bytes;
    }
    let env = Env { clock: Env::real().clock, ..vfs.env(0) };
    let options = Options::new().cache_size(4 << 20).durability(Durability::Lazy).tuning(tuning);
    Db::open("/store", options.env(env)).unwrap()
}

fn is_full<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Full(_)))
}

/// A closure whose transaction cannot spill is not retried, whatever it makes of the error: the
/// disk would be as full the next time.
#[test]
fn a_full_disk_ends_a_closure_with_an_error() {
    for swallows in [false, true] {
        for deletes in [false, true] {
            let vfs = SimVfs::new();
            let db = store_on(&vfs, 20_000);
            let tree = db.create_tree("t", TreeOptions::default()).unwrap();
            tree.put(b"row", b"there").unwrap();
            db.checkpoint().unwrap();
            let mut runs = 0;
            let outcome = db.transact(|txn| {
                runs += 1;
                assert!(runs < 3, "run again and again");
                // The disk fills up while the transaction continues.
                vfs.set_capacity(Some(vfs.allocated_bytes()));
                txn.delete(&tree, b"row")?;
                for row in 0..40_000u32 {
                    let key = [&row.to_be_bytes()[..], &[7; 40]].concat();
                    let written = match deletes {
                        true => txn.delete(&tree, &key),
                        false => txn.put(&tree, &key, &[7; 400]),
                    };
                    match written {
                        Err(_) if swallows && txn.is_over() => return Ok(()),
                        written => written?,
                    }
                }
                unreachable!("there is no room for so much");
            });
            assert_eq!((runs, is_full(&outcome)), (1, true), "deletes: {deletes}, {outcome:?}");
            vfs.set_capacity(None);
            assert_eq!(tree.get(b"row").unwrap().as_deref(), Some(&b"there"[..]));
            db.transact(|txn| txn.delete(&tree, b"row")).unwrap();
            assert_eq!(tree.get(b"row").unwrap(), None);
            assert!(db.check(CheckMode::Full).unwrap().is_clean());
        }
    }
}

/// A closure that replaces a deadlock or conflict by a result of its own is retried all the same.
#[test]
fn a_closure_that_swallows_a_conflict_is_retried() {
    let store = store(false);
    for swallows in 0..3 {
        let mut runs = 0;
        let outcome = store.db.transact(|txn| {
            runs += 1;
            txn.get(&store.tree, b"1")?;
            if runs == 1 {
                store.tree.put(b"1", b"other").unwrap();
            }
            match txn.put(&store.tree, b"1", b"mine") {
                Err(_) if swallows == 0 => Ok(()),
                Err(_) if swallows == 1 => txn.put(&store.tree, b"2", b"mine"),
                Err(_) if swallows == 2 => Err(Error::InvalidArgument("its own".into())),
                written => written,
            }
        });
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(runs, 2);
    }
    store.is_idle();
}

/// Makes a temporary tree lose its rows: it has no space to spill to. Deletes spill without
/// checking for space.
fn lose(vfs: &SimVfs, txn: &Txn, temporary: &TemporaryTree) {
    vfs.set_capacity(Some(vfs.allocated_bytes()));
    let mut rows = 0..100_000u32;
    let failed = rows.find_map(|row| {
        let key = [&row.to_be_bytes()[..], &[7; 40]].concat();
        temporary.delete(txn, &key).err()
    });
    assert!(matches!(failed, Some(Error::Full(_))), "{failed:?}");
    assert!(matches!(temporary.get(b"1"), Err(Error::TxnEnded)));
    vfs.set_capacity(None);
}

/// After a transaction has lost a temporary tree, everything else can be rolled back as usual, and
/// its savepoints and statements go on.
#[test]
fn rollback_works_after_a_temporary_tree_was_lost() {
    for by_statement in [true, false] {
        let vfs = SimVfs::new();
        let db = store_on(&vfs, 40_000);
        let tree = db.create_tree("t", TreeOptions::default()).unwrap();
        let [lost, other] = [(); 2].map(|()| db.create_temporary(TreeOptions::default()).unwrap());
        let txn = db.begin(TxnOptions::default()).unwrap();
        txn.put(&tree, b"before", b"").unwrap();
        lost.delete(&txn, b"1").unwrap();
        other.put(&txn, b"before", b"").unwrap();
        let savepoint = txn.savepoint().unwrap();
        txn.statement().begin().unwrap();
        txn.put(&tree, b"half of a statement", b"").unwrap();
        other.put(&txn, b"half of a statement", b"").unwrap();
        lose(&vfs, &txn, &lost);
        match by_statement {
            true => txn.statement().rollback().unwrap(),
            false => txn.rollback_to(&savepoint).unwrap(),
        }
        let is_back = |txn: &Txn| {
            assert_eq!(txn.get(&tree, b"half of a statement").unwrap(), None);
            assert_eq!(other.get(b"half of a statement").unwrap(), None);
            assert!(txn.get(&tree, b"before").unwrap().is_some());
            assert!(other.get(b"before").unwrap().is_some());
        };
        is_back(&txn);
        // Later statements and savepoints go on, and only calls that use the tree get the error.
        txn.statement().begin().unwrap();
        txn.put(&tree, b"next", b"").unwrap();
        assert!(matches!(lost.put(&txn, b"1", b""), Err(Error::TxnEnded)));
        let next = txn.savepoint().unwrap();
        txn.put(&tree, b"half of a statement", b"").unwrap();
        txn.rollback_to(&next).unwrap();
        txn.release(&next).unwrap();
        txn.rollback_to(&savepoint).unwrap();
        txn.release(&savepoint).unwrap();
        is_back(&txn);
        txn.put(&tree, b"last", b"").unwrap();
        txn.commit().unwrap();
        let mut rows = Vec::new();
        let mut cursor = tree.scan(..).unwrap();
        while let Some((key, _)) = cursor.next().unwrap() {
            rows.push(text(key));
        }
        assert_eq!(rows, ["before", "last"]);
    }
}
