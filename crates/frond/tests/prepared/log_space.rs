//! Space for the commits of what was prepared before the store was opened: on a disk that is full
//! by then, and with less memory than before.

use frond::Seqno;
use frond_testkit::disk::DiskState;

use super::*;

const MANY: u32 = 600;
const LARGE: u32 = 5;

fn options(vfs: &SimVfs, cache_bytes: u64) -> Options {
    Options::new().cache_size(cache_bytes).durability(Durability::Lazy).env(vfs.env(0))
}

/// A store in which more is prepared than a short segment has space for, and than the buffers of a
/// small cache hold; with records of many pieces.
fn with_many_prepared(vfs: &SimVfs) -> Db {
    // Enough memory that all of it stays there.
    let db = Db::open("/store", options(vfs, 256 << 20)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    db.create_tree("others", Default::default()).unwrap();
    for number in 0..MANY {
        let txn = begin(&db, Isolation::ReadCommitted);
        txn.put(&tree, &number.to_be_bytes(), b"row").unwrap();
        let name = xid(&format!("small {number:-<200}"));
        txn.prepare_with(&name, Durability::Lazy).unwrap().detach();
    }
    for number in 0..LARGE {
        let txn = begin(&db, Isolation::ReadCommitted);
        for row in 0..90u8 {
            txn.put(&tree, &[number as u8, row], &[7; 32 << 10]).unwrap();
        }
        let name = xid(&format!("large {number:-<240}"));
        txn.prepare_with(&name, Durability::Sync).unwrap().detach();
    }
    db
}

/// The disk of such a store that was closed, or killed.
fn left_behind(is_closed: bool) -> DiskState {
    let vfs = SimVfs::new();
    let db = with_many_prepared(&vfs);
    if is_closed {
        db.close().unwrap();
        return vfs.disk();
    }
    let disk = vfs.disk().after_kill();
    drop(db);
    disk
}

fn has_all(db: &Db) {
    let tree = db.open_tree("t").unwrap();
    assert_eq!(tree.row_count().unwrap().rows, u64::from(MANY + LARGE * 90));
    is_idle(db);
}

/// Commits of what was prepared before the opening make no call to the disk. Rule: I41.
#[test]
fn committing_a_recovered_transaction_makes_no_disk_call() {
    for (is_closed, cache_bytes) in [(true, 64 << 20), (false, 64 << 20), (false, 4 << 20)] {
        let vfs = SimVfs::start(left_behind(is_closed));
        let db = Db::open("/store", options(&vfs, cache_bytes)).unwrap();
        assert_eq!(db.warnings(), [""; 0]);
        vfs.set_capacity(Some(vfs.allocated_bytes()));
        let changes = vfs.changes();
        let mut ordered = Vec::new();
        for info in db.take_recovered() {
            let mut one = db.attach_prepared(&info.xid).unwrap();
            let seqno = one.commit_ordered().unwrap();
            assert!(ordered.last().is_none_or(|(last, _): &(Seqno, _)| seqno > *last));
            ordered.push((seqno, one));
        }
        assert_eq!((ordered.len(), vfs.changes()), ((MANY + LARGE) as usize, changes));
        vfs.set_capacity(None);
        for (seqno, one) in ordered {
            assert_eq!(one.commit().unwrap(), seqno);
        }
        has_all(&db);
        db.close().unwrap();
    }
}

/// A store opens on a full disk, with a warning. Other commits are refused until there is space,
/// and from then on the commits of what is prepared have space of their own. Rule: I41.
#[test]
fn commits_wait_until_recovered_transactions_have_log_space() {
    let disk = left_behind(true);
    let (mut were_short, mut were_refused) = (0, 0);
    for room in (0..).step_by(1 << 20) {
        let vfs = SimVfs::start(disk.clone());
        vfs.set_capacity(Some(vfs.allocated_bytes() + room));
        let db = Db::open("/store", options(&vfs, 64 << 20))
            .unwrap_or_else(|error| panic!("{room}: {error}"));
        let Some(warning) = db.warnings().first() else { break };
        assert!(warning.starts_with("FRD-1303"), "{warning}");
        were_short += 1;
        let tree = db.open_tree("others").unwrap();
        for _ in 0..2 {
            let refused = tree.put(b"other", b"");
            assert!(matches!(refused, Err(Error::Full(_))), "{room}: {refused:?}");
        }
        let mut names: Vec<_> = db.take_recovered().into_iter().map(|info| info.xid).collect();
        // Decide as many as there is space for; each is in a group of its own.
        while let Some(name) = names.last() {
            let mut one = db.attach_prepared(name).unwrap();
            match one.commit_ordered() {
                Ok(_) => assert!(one.commit_with(Durability::Sync).is_ok()),
                Err(Error::Full(_)) => {
                    assert!(matches!(tree.put(b"other", b""), Err(Error::Full(_))), "{room}");
                    were_refused += 1;
                    break;
                }
                Err(error) => panic!("{room}: {error}"),
            }
            names.pop();
        }
        // Without any free space the log of a closed store has space for two.
        let decided = (MANY + LARGE) as usize - names.len();
        assert!(decided > if room == 0 { 1 } else { 100 }, "{room}: {decided} were decided");
        let mut ordered = Vec::new();
        vfs.set_capacity(None);
        tree.put(b"other", b"").unwrap();
        vfs.set_capacity(Some(vfs.allocated_bytes()));
        let changes = vfs.changes();
        for name in &names {
            let mut one = db.attach_prepared(name).unwrap();
            one.commit_ordered().unwrap();
            ordered.push(one);
        }
        assert_eq!(vfs.changes(), changes, "{room}");
        vfs.set_capacity(None);
        ordered.into_iter().for_each(|one| assert!(one.commit().is_ok()));
        drop(tree);
        has_all(&db);
        db.close().unwrap();
    }
    assert!(were_short > 0 && were_refused > 0, "{were_short} {were_refused}");
}
