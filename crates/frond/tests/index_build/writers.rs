//! All kinds of writers concurrently with an index build, in a fixed order, and in threads.

use super::*;
use frond_testkit::effort;
use std::sync::{
    RwLock,
    atomic::{AtomicBool, Ordering},
};

#[test]
fn an_index_build_sees_every_kind_of_write() {
    let (_dir, db, base) = people(&ROWS);
    // It wrote before the build started, so it is waited for.
    let before = begin(&db);
    before.put(&base, b"1", b"anna,Oslo").unwrap();
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    let waits = build.snapshot(Duration::ZERO);
    assert!(matches!(waits, Err(Error::LockTimeout { .. })), "{waits:?}");
    before.commit().unwrap();
    feed_base(&mut build, &base).unwrap();

    let txn = begin(&db);
    let own = RowEntry { tree: &base, key: b"5", value: b"dan,Bonn", unique: true, absent: false };
    assert_eq!(txn.row_writer().insert(&[own], RowLock::Exclusive).unwrap(), None);
    txn.put(&base, b"6", b"fay,Bonn").unwrap();
    let point = txn.savepoint().unwrap();
    txn.put(&base, b"6", b"not,so").unwrap();
    txn.delete(&base, b"2").unwrap();
    txn.rollback_to(&point).unwrap();
    txn.delete(&base, b"3").unwrap();
    txn.row_writer().put_absent(&base, b"7", b"gil,").unwrap();
    // A batch that takes locks, because there is a transaction.
    put(&base, "8", "hal,Rome");
    assert_eq!(feed_round(&mut build).unwrap(), 1);
    txn.commit().unwrap();
    // One that takes none.
    let mut batch = Batch::new();
    batch.put(&base, b"9", b"ida,Rome").unwrap();
    batch.delete(&base, b"1").unwrap();
    db.commit(&mut batch).unwrap();
    assert_eq!(feed_round(&mut build).unwrap(), 6);

    let (prepared, xid) = (begin(&db), Xid::new(b"two").unwrap());
    prepared.put(&base, b"4", b"eva,Bonn").unwrap();
    prepared.prepare(&xid).unwrap().detach();
    assert_eq!(feed_round(&mut build).unwrap(), 0);
    let waits = build.lock(Duration::from_millis(3));
    assert!(matches!(waits, Err(Error::LockTimeout { .. })), "{waits:?}");
    db.commit_prepared(&xid).unwrap();
    let gone = begin(&db);
    gone.put(&base, b"4", b"nothing,").unwrap();
    drop(gone);
    feed_rest(&mut build).unwrap();
    build.publish(|_| {}).unwrap();
    assert_consistent(&db);
    assert_eq!(rows(&base).len(), 7);
}

/// It is not known which rows a range delete removed: the build fails with that and must be started
/// anew.
#[test]
fn a_range_delete_ends_an_index_build() {
    let (_dir, db, base) = people(&ROWS);
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    feed_base(&mut build, &base).unwrap();
    let mut batch = Batch::new();
    batch.delete_range(&base, b"2"..b"4").unwrap();
    db.commit(&mut batch).unwrap();
    let refused = feed_round(&mut build);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    drop(build);
    build_all(&db, &base).unwrap();
    assert_consistent(&db);
}

/// Rule: I43.
#[test]
fn a_snapshot_older_than_an_index_gets_an_error_from_it() {
    let (_dir, db, base) = people(&ROWS);
    let snapshot = db.snapshot();
    let trees = build_all(&db, &base).unwrap();
    let refused = snapshot.get(&trees[0], b"ada");
    assert!(matches!(refused, Err(Error::DefinitionChanged(_))), "{refused:?}");
    assert!(snapshot.get(&base, b"1").unwrap().is_some());
    assert_eq!(db.snapshot().get(&trees[0], b"ada").unwrap().as_deref(), Some(&b"1"[..]));
}

/// What writers use to find the indexes: changed while the build holds the tree exclusively.
#[derive(Default)]
struct Definition {
    indexes: RwLock<Vec<Tree>>,
    is_over: AtomicBool,
}

/// Writes random changes to rows of one writer, whose keys and names no other writer has.
fn write(db: &Db, base: &Tree, own: u64, definition: &Definition) {
    let mut seed = own.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    // Some more after the publication.
    let mut left = 200;
    while left > 0 {
        if definition.is_over.load(Ordering::Acquire) {
            left -= 1;
        }
        let isolation = [Isolation::ReadCommitted, Isolation::RepeatableRead][random(2) as usize];
        let txn = db.begin(TxnOptions::new().isolation(isolation)).unwrap();
        txn.lock_tree(base, TreeLock::IntentExclusive, frond::IfLocked::Wait).unwrap();
        let indexes = definition.indexes.read().unwrap().clone();
        for _ in 0..=random(4) {
            let key = format!("{own} {}", random(40)).into_bytes();
            let old = txn.get_for_update(base, &key).unwrap();
            let new = format!("{own} {},{}", random(1 << 40), random(5)).into_bytes();
            let new = Some(new).filter(|_| random(4) > 0);
            match &new {
                Some(row) => txn.put(base, &key, row).unwrap(),
                None => txn.delete(base, &key).unwrap(),
            }
            for (number, tree) in indexes.iter().enumerate() {
                let was = old.as_deref().and_then(|row| entry(number, &key, row));
                was.iter().for_each(|(key, _)| txn.delete(tree, key).unwrap());
                let is = new.as_deref().and_then(|row| entry(number, &key, row));
                is.iter().for_each(|(key, value)| txn.put(tree, key, value).unwrap());
            }
        }
        // Batches, while no index need be maintained: the transaction's intent keeps the build from
        // publishing one.
        if indexes.is_empty() {
            let key = format!("{own} batch {}", random(40)).into_bytes();
            let row = format!("{own} batch {},x", random(1 << 40));
            base.put(&key, row.as_bytes()).unwrap();
        }
        if random(8) > 0 {
            txn.commit().unwrap();
        }
    }
}

#[test]
fn indexes_are_built_while_threads_write() {
    for seed in effort::seeds(2) {
        let (_dir, db, base) = people(&[]);
        for n in 0..2000 {
            put(&base, &format!("row {n}"), &format!("name {n},{}", n % 7));
        }
        let (definition, batches) = (Definition::default(), Definition::default());
        std::thread::scope(|scope| {
            for own in 0..3 {
                let (db, base, definition) = (&db, &base, &definition);
                scope.spawn(move || write(db, base, 3 * seed + own, definition));
            }
            // Only batches, which lock only if others do; finished before the publication.
            let (base, batches) = (&base, &batches);
            let alone = scope.spawn(move || {
                let mut n = 0u64;
                while !batches.is_over.load(Ordering::Acquire) {
                    n += 1;
                    put(base, &format!("alone {}", n % 50), &format!("alone {n},y"));
                }
            });
            let mut build = db.build_indexes(base, &indexes()).unwrap();
            feed_base(&mut build, base).unwrap();
            for _ in 0..3 {
                feed_round(&mut build).unwrap();
            }
            batches.is_over.store(true, Ordering::Release);
            alone.join().unwrap();
            feed_rest(&mut build).unwrap();
            let then = |trees: &[Tree]| *definition.indexes.write().unwrap() = trees.to_vec();
            build.publish(then).unwrap();
            definition.is_over.store(true, Ordering::Release);
        });
        assert_consistent(&db);
    }
}

/// A follower is notified of an index once it is published, and of nothing that the build has made
/// before; its name is not visible before.
#[test]
fn a_follower_is_notified_of_an_index_once_published() {
    let (dir, db, base) = people(&[("1", "anna,bern"), ("2", "bert,basel")]);
    let from = db.snapshot().seqno().next();
    let mut feed = db.changes(from).unwrap();
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    feed_base(&mut build, &base).unwrap();
    put(&base, "3", "carl,chur");
    let txn = begin(&db);
    txn.put(&base, b"4", b"dora,davos").unwrap();
    txn.commit().unwrap();
    feed_rest(&mut build).unwrap();
    assert!(names(&db).len() > 2, "the build has some");
    assert_eq!((db.trees().len(), db.snapshot().trees().unwrap().len()), (1, 1));
    assert!(matches!(db.open_tree(NAMES), Err(Error::NoSuchTree(_))), "it is not published");
    let mut late = db.changes(from).unwrap();
    build.publish(|_| {}).unwrap();
    let tell = |feed: &mut frond::feed::ChangeFeed| {
        let mut told = Vec::new();
        while told.len() < 4 {
            let mut commit = feed.next(Duration::from_secs(5)).unwrap().expect("it is durable");
            while let Some(change) = commit.next().unwrap() {
                told.push(match change {
                    frond::feed::Change::Put { tree, key, .. } => {
                        format!("{} {}", tree.name.unwrap(), String::from_utf8_lossy(key))
                    }
                    frond::feed::Change::TreeDefined { info, is_loaded, .. } => {
                        format!("{} {is_loaded}", info.name)
                    }
                    other => panic!("{other:?}"),
                });
            }
        }
        told
    };
    let expected = ["people 3", "people 4", "by name true", "by city true"].map(String::from);
    let all = tell(&mut feed);
    assert_eq!(all[..2], expected[..2]);
    assert_eq!(all[2..].iter().collect::<BTreeSet<_>>(), expected[2..].iter().collect());
    assert_eq!(tell(&mut late), all);
    drop((feed, late, base));
    db.close().unwrap();
    assert_eq!(rows(&open(dir.path()).open_tree(NAMES).unwrap()).len(), 4);
}
