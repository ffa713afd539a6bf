//! A table with an index of each kind, compared with maps.

use frond::Duplicate;
use std::collections::BTreeMap;

use frond_testkit::{DbEngine, Dice, disk::SimVfs, effort};

use super::*;

/// The expected content of an index: extracted part and key, with the row.
type Expected = BTreeMap<(Vec<u8>, Vec<u8>), Vec<u8>>;

fn row(dice: &mut Dice) -> Vec<u8> {
    // Few values, so that rows conflict; some need escapes, some go to extents of their own.
    let mail = ["", "", "a", "b\0", "b\0\0", "c", "d", "e"][dice.below(8) as usize];
    let city = ["", "Oslo", "Os", "Rome\0", "Rome"][dice.below(5) as usize];
    let bytes = if dice.chance(1, 12) { 700 } else { 0 };
    format!("{mail},{city},{},{}", dice.below(4), "x".repeat(bytes)).into_bytes()
}

fn expected(rows: &Rows, index: &str) -> Expected {
    let entries = rows.iter().filter_map(|(key, row)| {
        let extracted = match index {
            "city" => part(row, 1),
            "number" => Some(part(row, 2)).filter(|number| *number != b"0")?,
            _ => Some(part(row, 0)).filter(|mail| !mail.is_empty())?,
        };
        Some(((extracted.to_vec(), key.clone()), row.clone()))
    });
    entries.collect()
}

/// The other row that has the mail, if there is one.
fn taken(rows: &Rows, key: &[u8], row: &[u8]) -> Option<Vec<u8>> {
    let mail = part(row, 0);
    let other = rows.iter().find(|(other, row)| *other != key && part(row, 0) == mail);
    other.filter(|_| !mail.is_empty()).map(|(key, _)| key.clone())
}

fn change(table: &Table, txn: &Txn, rows: &mut Rows, dice: &mut Dice) {
    let key = vec![b"\0ab\xff"[dice.below(4) as usize]; dice.between(1, 3) as usize];
    let new = row(dice);
    let conflict = taken(rows, &key, &new);
    let mut indexes = table.indexes().into_iter().map(|index| index.name);
    let first_of_mails = indexes.find(|name| name.starts_with("mail")).unwrap();
    let must_conflict = |result: Error| match (result, conflict.clone()) {
        (Error::DuplicateKey(Duplicate::InIndex { table, index, row }), Some(other)) => {
            // The conflict with the index that was made first is named first.
            let first = first_of_mails.clone();
            assert_eq!((&table[..], index, row), ("people", first, other));
        }
        (error, conflict) => panic!("{error} instead of {conflict:?}"),
    };
    let was_there = rows.contains_key(&key);
    match dice.below(9) {
        0..=2 => match table.insert(txn, &key, &new) {
            Err(Error::DuplicateKey(Duplicate::Row { .. })) => assert!(was_there),
            Err(error) => must_conflict(error),
            Ok(()) => {
                assert_eq!((was_there, conflict), (false, None));
                rows.insert(key, new);
            }
        },
        3 | 4 => match table.put(txn, &key, &new) {
            Err(error) => must_conflict(error),
            Ok(replaced) => {
                assert_eq!((was_there, conflict), (replaced, None));
                rows.insert(key, new);
            }
        },
        5 => match table.update(txn, &key, &new) {
            Err(error) => must_conflict(error),
            Ok(false) => assert!(!was_there),
            Ok(true) => {
                assert_eq!(conflict, None);
                rows.insert(key, new);
            }
        },
        6 => {
            let other = vec![b"\0ab\xff"[dice.below(4) as usize]; 1];
            let (from, to) = (key.clone().min(other.clone()), key.max(other));
            let before = rows.len();
            rows.retain(|key, _| !(&from..&to).contains(&key));
            let deleted = table.delete_range(txn, from..to).unwrap();
            assert_eq!(deleted as usize, before - rows.len());
        }
        _ => {
            assert_eq!(table.delete(txn, &key).unwrap(), was_there);
            rows.remove(&key);
        }
    }
}

fn look(table: &Table, reader: &impl Reader, rows: &Rows, dice: &mut Dice) {
    let key = vec![b"\0ab\xff"[dice.below(4) as usize]; dice.between(1, 3) as usize];
    assert_eq!(table.get(reader, &key).unwrap().as_ref(), rows.get(&key));
    let keys = [key.clone(), b"never".to_vec()];
    assert_eq!(table.get_many(reader, &keys).unwrap(), [rows.get(&key).cloned(), None]);
    let found: Rows = table.range(reader, ..).collect::<Result<_, _>>().unwrap();
    assert_eq!(found, *rows);
    for index in table.indexes() {
        let expected = expected(rows, &index.name);
        let (from, to) = (row(dice), row(dice));
        let bounds = [part(&from, 0), part(&to, 1)];
        let (from, to) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
        let by = table.index(&index.name).unwrap();
        let (mut scan, is_in): (_, Box<dyn Fn(&[u8]) -> bool>) = match dice.below(4) {
            0 => (by.scan(reader, ..).unwrap(), Box::new(|_| true)),
            1 => (by.scan(reader, from..to).unwrap(), Box::new(|at| from <= at && at < to)),
            2 => (by.scan(reader, from..=to).unwrap(), Box::new(|at| from <= at && at <= to)),
            _ => {
                use std::ops::Bound::*;
                let range = (Excluded(from), Unbounded);
                (by.scan(reader, range).unwrap(), Box::new(|at| from < at))
            }
        };
        let mut found = Vec::new();
        let is_up = dice.chance(1, 2);
        if !is_up {
            scan.seek_last();
        }
        while let Some(row) = if is_up { scan.next() } else { scan.prev() }.unwrap() {
            found.push(((row.extracted.to_vec(), row.key.to_vec()), row.row.to_vec()));
        }
        if !is_up {
            found.reverse();
        }
        let in_range = expected.iter().filter(|((at, _), _)| is_in(at));
        let in_range: Vec<_> = in_range.map(|(at, row)| (at.clone(), row.clone())).collect();
        assert_eq!(found, in_range, "{} in {from:?}, {to:?}", index.name);
        // From any position within.
        scan.seek(to);
        let next = expected.keys().find(|(at, _)| is_in(at) && &at[..] >= to);
        let found = scan.next().unwrap().map(|row| (row.extracted.to_vec(), row.key.to_vec()));
        assert_eq!(found.as_ref(), next);
        if index.unique {
            let found = by.get(reader, from).unwrap();
            let there = expected.iter().find(|((at, _), _)| &at[..] == from);
            assert_eq!(found, there.map(|((_, key), row)| (key.clone(), row.clone())));
        }
    }
}

/// Rules: I32, I48.
#[test]
fn a_table_matches_its_model() {
    for seed in effort::seeds(6) {
        let dice = &mut Dice::new(seed);
        let mut engine = DbEngine::tiny(Durability::Lazy);
        if let (Some(limits), 0) = (&mut engine.tuning.limits, seed % 2) {
            // In half of the runs transactions do not spill.
            limits.own_writes_bytes = 64 << 10;
        }
        let vfs = SimVfs::new();
        let open = |vfs: &SimVfs| engine.store(vfs.env(seed));
        let mut db = open(&vfs);
        let mut table = db.table(spec(all())).unwrap();
        let mut rows = Rows::new();
        for step in 0..150 {
            let level = *dice.pick(&[
                Isolation::ReadCommitted,
                Isolation::RepeatableRead,
                Isolation::Snapshot,
                Isolation::Serializable,
            ]);
            let txn = begin(&db, level);
            let mut own = rows.clone();
            for _ in 0..dice.below(6) {
                let (mark, before) = (txn.savepoint().unwrap(), own.clone());
                change(&table, &txn, &mut own, dice);
                if dice.chance(1, 6) {
                    txn.rollback_to(&mark).unwrap();
                    own = before;
                }
            }
            if dice.chance(1, 2) {
                look(&table, &txn, &own, dice);
            }
            if dice.chance(3, 4) {
                txn.commit().unwrap();
                rows = own;
            } else {
                drop(txn);
            }
            match dice.below(30) {
                0 => db.checkpoint().unwrap(),
                1 => {
                    drop(table);
                    db.close().unwrap();
                    db = open(&vfs);
                    table = db.table(spec(all())).unwrap();
                }
                2 => {
                    let number = dice.below(4) as usize;
                    let name = ["mail", "city", "number", "mail and row"][number];
                    table.drop_index(name).unwrap();
                    table.build_index(all()[number].clone()).unwrap();
                }
                _ => {}
            }
            if step % 10 == 0 {
                let report = table.check().unwrap();
                assert!(report.is_clean(), "seed {seed}, step {step}: {report:?}");
                assert_eq!(report.rows, rows.len() as u64);
                for (index, count) in report.entries {
                    assert_eq!(count, expected(&rows, &index).len() as u64, "{index}");
                }
            }
            match dice.below(3) {
                0 => look(&table, &begin(&db, Isolation::Snapshot), &rows, dice),
                1 => look(&table, &db.snapshot(), &rows, dice),
                _ => look(&table, &db, &rows, dice),
            }
        }
        assert_consistent(&db, &table);
    }
}
