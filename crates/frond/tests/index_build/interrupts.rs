//! Cancellation and progress of long work (Rule: I53).

use super::*;
use frond::{Cursor, Interrupter, check::CheckMode, load::Progress};

/// Moves to the next row in a direction; false if there is none.
fn step(cursor: &mut Cursor, forward: bool) -> frond::Result<bool> {
    let next = if forward { cursor.next() } else { cursor.prev() };
    next.map(|row| row.is_some())
}

fn is_interrupted<T>(outcome: frond::Result<T>) {
    assert!(matches!(outcome.map(drop), Err(Error::Interrupted)));
}

#[test]
fn an_interrupt_stops_a_cursor() {
    let (_dir, db, base) = people(&[]);
    let mut batch = Batch::new();
    (0..10_000u32).for_each(|n| batch.put(&base, &n.to_be_bytes(), b"row").unwrap());
    db.commit(&mut batch).unwrap();
    let txn = begin(&db);
    for interrupter in [Interrupter::new(), txn.control().interrupter().unwrap()] {
        for forward in [true, false] {
            let mut cursor = db.snapshot().scan(&base, ..).unwrap();
            cursor.set_interrupter(&interrupter);
            let mut found = 0;
            if !forward {
                cursor.seek_last();
            }
            let outcome = loop {
                match step(&mut cursor, forward) {
                    Ok(true) => found += 1,
                    other => break other,
                }
                if found == 100 {
                    interrupter.interrupt();
                }
            };
            is_interrupted(outcome);
            assert!((100..10_000).contains(&found));
            interrupter.clear();
            txn.control().clear_interrupt();
            // It continues where it was.
            while step(&mut cursor, forward).unwrap() {
                found += 1;
            }
            assert_eq!(found, 10_000);
        }
    }
    txn.commit().unwrap();
}

#[test]
fn a_load_reports_progress_and_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let value = [7; 100];
    for at in 0..3 {
        let interrupter = Interrupter::new();
        let mut load = db.bulk_load("t", TreeOptions::default()).unwrap();
        load.set_interrupter(&interrupter);
        let progress = load.progress();
        let mut outcome = Ok(());
        for n in 0..200_000u64 {
            if at == 0 && n == 1000 {
                interrupter.interrupt();
            }
            let key = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            outcome = load.put(&key, &value);
            if outcome.is_err() {
                break;
            }
        }
        if at == 0 {
            is_interrupted(outcome);
            is_interrupted(load.put(b"k", b""));
            is_interrupted(load.finish());
            continue;
        }
        outcome.unwrap();
        let before = progress.now();
        assert!(before.rows > 199_000 && before.sorted > 0 && before.written == 0, "{before:?}");
        if at == 1 {
            interrupter.interrupt();
            is_interrupted(load.finish());
        } else {
            assert_eq!(load.finish().unwrap().rows, 200_000);
            let end = progress.now();
            assert_eq!((end.rows, end.written), (200_000, 200_000));
            assert!(end.sorted >= 200_000 && end.to_sort == end.sorted, "{end:?}");
        }
    }
    assert_eq!(names(&db), ["t"]);
}

#[test]
fn a_cancelled_build_can_be_resumed() {
    let (_dir, db, base) = people(&ROWS);
    let interrupter = Interrupter::new();
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    build.set_interrupter(&interrupter);
    interrupter.interrupt();
    is_interrupted(build.snapshot(SECOND));
    interrupter.clear();
    feed_base(&mut build, &base).unwrap();
    (0..300).for_each(|n| put(&base, &format!("row {n}"), &format!("name {n},")));
    assert!(build.next_change().unwrap().is_some());
    interrupter.interrupt();
    // A round checks for cancellation only now and then; here the call before has returned.
    is_interrupted(build.next_change());
    interrupter.clear();
    // The row that was returned has got no entries: so the build starts over.
    drop(build);
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    feed_base(&mut build, &base).unwrap();
    put(&base, "1", "ann,Bonn");
    build.set_interrupter(&interrupter);
    interrupter.interrupt();
    is_interrupted(build.next_change());
    is_interrupted(build.lock(SECOND));
    interrupter.clear();
    let progress = build.progress();
    feed_rest(&mut build).unwrap();
    let end = progress.now();
    // One of 304 rows has no name.
    assert_eq!((end.rows, end.written, end.changes), (304 + 303, 304 + 303, 1));
    assert!(end.rounds >= 2);
    build.publish(|_| {}).unwrap();
    assert_consistent(&db);
}

/// It is unknown how long a transaction with rows of the tree lasts.
#[test]
fn a_build_waiting_for_its_tree_can_be_cancelled() {
    let (_dir, db, base) = people(&ROWS);
    let interrupter = Interrupter::new();
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    build.set_interrupter(&interrupter);
    feed_base(&mut build, &base).unwrap();
    while feed_round(&mut build).unwrap() > 0 {}
    let writer = begin(&db);
    writer.put(&base, b"1", b"ann,Bonn").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while db.lock_waits().is_empty() {
                std::thread::yield_now();
            }
            interrupter.interrupt();
        });
        is_interrupted(build.lock(Duration::from_secs(3600)));
    });
    assert!(!build.is_locked() && db.lock_waits().is_empty());
    // A later transaction does not wait for the build.
    let other = begin(&db);
    other.put(&base, b"other", b"gil,Rome").unwrap();
    other.commit().unwrap();
    writer.commit().unwrap();
    interrupter.clear();
    feed_rest(&mut build).unwrap();
    build.publish(|_| {}).unwrap();
    assert_consistent(&db);
}

#[test]
fn a_check_reports_progress_and_can_be_cancelled() {
    let (_dir, db, base) = people(&[]);
    for part in 0..20u32 {
        let mut batch = Batch::new();
        for n in 0..2000u32 {
            batch.put(&base, &(n * 20 + part).to_be_bytes(), &n.to_be_bytes().repeat(40)).unwrap();
        }
        db.commit(&mut batch).unwrap();
    }
    base.put(b"long", &vec![7; 1 << 20]).unwrap();
    db.checkpoint().unwrap();
    let (interrupter, progress) = (Interrupter::new(), Progress::default());
    interrupter.interrupt();
    is_interrupted(db.check_cancellable(CheckMode::Full, &interrupter, &progress));
    assert_eq!(progress.now().checked_bytes, 0);
    interrupter.clear();
    let progress = Progress::default();
    let report = db.check_cancellable(CheckMode::Full, &interrupter, &progress).unwrap();
    assert!(report.is_clean(), "{report:?}");
    let end = progress.now();
    assert!(0 < end.checked_bytes && end.checked_bytes <= end.to_check_bytes, "{end:?}");
    // What no tree reaches is not read: pages of the space map, and free space.
    assert!(2 * end.checked_bytes > end.to_check_bytes, "{end:?}");
}
