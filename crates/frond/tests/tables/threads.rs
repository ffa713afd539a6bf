//! Indexes built while threads write: calls fail only because of others' locks, and at the end rows
//! and indexes are in step.

use std::sync::atomic::{AtomicBool, Ordering};

use frond_testkit::{DbEngine, Dice, effort};

use super::*;

/// The number of rows of each thread, and of the mails that it gives them: no two threads use one
/// mail, because nothing prevents duplicates before the index exists.
const ROWS: u64 = 60;

fn write(db: &Db, table: &Table, thread: u64, is_over: &AtomicBool) -> u64 {
    let dice = &mut Dice::new(thread);
    // The mail of each row.
    let mut mails = vec![0; ROWS as usize];
    let mut commits = 0;
    while !is_over.load(Ordering::Relaxed) {
        let level = *dice.pick(&[Isolation::ReadCommitted, Isolation::RepeatableRead]);
        let options = TxnOptions::new().isolation(level);
        let mut own = mails.clone();
        let done = db.transact_with(options, |txn| {
            own = mails.clone();
            for _ in 0..dice.between(1, 5) {
                let row = dice.below(ROWS);
                let key = format!("{thread} {row}").into_bytes();
                // Mails that are free: often one that was given up just before.
                let free = (1..=ROWS).filter(|mail| !own.contains(mail));
                let free: Vec<u64> = free.take(5).collect();
                let mail = if dice.chance(1, 3) { 0 } else { *dice.pick(&free) };
                own[row as usize] = mail;
                if mail == 0 && dice.chance(1, 2) {
                    table.delete(txn, &key)?;
                    continue;
                }
                let mail = if mail == 0 { String::new() } else { format!("{thread}@{mail}") };
                let new = format!("{mail},{},{}", dice.below(9), dice.below(9));
                table.put(txn, &key, new.as_bytes())?;
            }
            if dice.chance(1, 10) {
                return Err(Error::Interrupted);
            }
            Ok(())
        });
        match done {
            Ok(()) => {
                mails = own;
                commits += 1;
            }
            Err(Error::Interrupted) => {}
            Err(error) => panic!("{error}"),
        }
    }
    commits
}

/// Checks of the table meanwhile find nothing. Rule: I34.
#[test]
fn indexes_are_built_while_threads_write() {
    for seed in effort::seeds(2) {
        let dir = tempfile::tempdir().unwrap();
        let mut tuning = DbEngine::tiny(Durability::Lazy).tuning;
        if let Some(limits) = &mut tuning.limits {
            limits.own_writes_bytes = 1 << 10;
        }
        let options = Options::new().cache_size(32 << 20).durability(Durability::Lazy);
        // Tiny sizes, with transactions that spill, or the default ones.
        let options = if seed % 2 == 0 { options } else { options.tuning(tuning) };
        let db = Db::open(dir.path().join("store"), options).unwrap();
        let table = db.table(TableSpec::new("people")).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3)
                .map(|n| {
                    scope.spawn({
                        let (db, table, is_over) = (&db, &table, &is_over);
                        move || write(db, table, n, is_over)
                    })
                })
                .collect();
            let checker = scope.spawn(|| {
                let mut checks = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let report = table.check().unwrap();
                    assert!(report.is_clean(), "check {checks}: {report:?}");
                    checks += 1;
                }
                checks
            });
            while db.snapshot().get(table.rows(), b"2 7").unwrap().is_none() {
                std::thread::yield_now();
            }
            for round in 0..2 {
                for index in all() {
                    let mut caught_up = 0;
                    let watch = |progress| {
                        if let BuildProgress::CatchingUp { entries, .. } = progress {
                            caught_up += entries;
                        }
                        ControlFlow::Continue(())
                    };
                    table.build_index_with(index, watch).unwrap();
                }
                let report = table.check().unwrap();
                assert!(report.is_clean(), "round {round}: {report:?}");
                for index in table.indexes() {
                    table.drop_index(&index.name).unwrap();
                }
            }
            all().into_iter().for_each(|index| table.build_index(index).unwrap());
            is_over.store(true, Ordering::Relaxed);
            for writer in writers {
                assert!(writer.join().unwrap() > 0);
            }
            assert!(checker.join().unwrap() > 0);
        });
        let rows = by(&table, &begin(&db, Isolation::Snapshot), "city").len();
        assert_eq!(table.check().unwrap().rows, rows as u64);
        assert_eq!(trees(&db).len(), 5, "{:?}", trees(&db));
        assert_consistent(&db, &table);
    }
}
