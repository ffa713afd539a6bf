//! Decisions whose sync fails: the store has stopped, and the decision may be there or not,
//! whichever call made it.

use frond_testkit::disk::{DiskState, Fault, FaultKind, SyncFailure, When};

use super::*;

fn open_sim(vfs: &SimVfs) -> Db {
    let options = Options::new().cache_size(16 << 20).durability(Durability::Sync);
    Db::open("/store", options.env(vfs.env(0))).unwrap()
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Call {
    Commit,
    Prepare,
    CommitPrepared,
    RollBackPrepared,
    CommitBatch,
}

/// What is found of it: whether `x` is prepared, and the row that it writes.
type Found = (bool, Option<String>);

fn find(db: &Db) -> Found {
    let tree = db.open_tree("t").unwrap();
    let found = (db.prepared().iter().any(|one| one.xid == xid("x")), get(&tree, b"k"));
    assert_eq!(is_locked(db, &tree, b"k"), found.0);
    is_clean(db);
    found
}

fn find_on(disk: DiskState) -> Found {
    let db = open_sim(&SimVfs::start(disk));
    let found = find(&db);
    db.close().unwrap();
    found
}

/// A decision is durable as far as the disk has it, which only an opening can tell; until then
/// nothing is reported. Promises: P2, P12.
#[test]
fn a_decision_during_a_failing_sync_is_settled_by_the_next_open() {
    for call in [
        Call::Commit,
        Call::Prepare,
        Call::CommitPrepared,
        Call::RollBackPrepared,
        Call::CommitBatch,
    ] {
        let vfs = SimVfs::new();
        let db = open_sim(&vfs);
        let tree = db.create_tree("t", Default::default()).unwrap();
        tree.put(b"k", b"before").unwrap();
        let txn = begin(&db, Isolation::ReadCommitted);
        let mut batch = Batch::new();
        batch.put(&tree, b"k", b"after").unwrap();
        if call != Call::CommitBatch {
            txn.put(&tree, b"k", b"after").unwrap();
        }
        let before = find_before(call);
        let fails = || {
            let failure = FaultKind::Sync(SyncFailure::ErrorOnce);
            vfs.plan(Fault::from_then_on(When::Call(vfs.calls()), failure));
        };
        let told = match call {
            Call::Commit => {
                fails();
                txn.commit().unwrap_err()
            }
            Call::CommitBatch => {
                drop(txn);
                fails();
                db.commit(&mut batch).unwrap_err()
            }
            Call::Prepare => {
                fails();
                txn.prepare(&xid("x")).unwrap_err()
            }
            Call::CommitPrepared | Call::RollBackPrepared => {
                let prepared = txn.prepare(&xid("x")).unwrap();
                fails();
                match call {
                    Call::CommitPrepared => prepared.commit().unwrap_err(),
                    _ => prepared.rollback().unwrap_err(),
                }
            }
        };
        assert!(matches!(told, Error::OutcomeUnknown(_)), "{call:?}: {told}");
        // Calls after it report that the store has stopped.
        let behind = [tree.put(b"other", b"").map(drop), db.checkpoint()];
        assert!(behind.iter().all(|told| matches!(told, Err(Error::Failed(_)))), "{behind:?}");
        let disk = vfs.disk();
        drop((tree, batch, db));
        let after = match call {
            Call::Commit | Call::CommitBatch | Call::CommitPrepared => {
                (false, Some("after".into()))
            }
            Call::Prepare => (true, Some("before".into())),
            Call::RollBackPrepared => (false, Some("before".into())),
        };
        assert_eq!(find_on(disk.after_kill()), after, "{call:?}: the kernel has it");
        let lost = disk.after_power_loss(|_, _, _| {});
        assert_eq!(find_on(lost), before, "{call:?}: the disk has it not");
    }
}

/// The state before the call.
fn find_before(call: Call) -> Found {
    (matches!(call, Call::CommitPrepared | Call::RollBackPrepared), Some("before".into()))
}
