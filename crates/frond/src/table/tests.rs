//! Late calls, and concurrent changes during a build: the planted bugs of this module, each caught
//! by the test that claims it. Further tests are in `tests/tables/`, over the public API.

use std::{ops::ControlFlow, sync::mpsc};

use super::*;
use crate::{
    Db, Duplicate, Durability, Error, Isolation, Options, Txn, TxnOptions,
    sync::{Mutex, thread},
};

/// A field of a row, which is a mail address and a name, separated by a comma.
fn part(row: &[u8], number: usize) -> &[u8] {
    row.split(|byte| *byte == b',').nth(number).unwrap_or_default()
}

fn index(name: &str, number: usize) -> IndexSpec {
    let extract = move |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(part(row, number));
        Ok(!out.is_empty())
    };
    IndexSpec::new(name, extract).unique()
}

fn mail() -> IndexSpec {
    index("mail", 0)
}

struct Store {
    db: Db,
    table: Table,
    _dir: tempfile::TempDir,
}

/// A table with an index by name.
fn store(rows: &[(&str, &str)]) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(16 << 20).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let table = db.table(TableSpec::new("people").index(index("name", 1))).unwrap();
    let store = Store { db, table, _dir: dir };
    rows.iter().for_each(|(key, row)| store.put(key, row));
    store
}

impl Store {
    fn begin(&self) -> Txn {
        let isolation = Isolation::RepeatableRead;
        self.db.begin(TxnOptions::new().isolation(isolation)).unwrap()
    }

    fn put(&self, key: &str, row: &str) {
        let put = |txn: &Txn| self.table.put(txn, key.as_bytes(), row.as_bytes());
        self.db.transact(put).unwrap();
    }

    fn until_waiting(&self) {
        while self.db.lock_waits().is_empty() {
            thread::yield_now();
        }
    }

    fn assert_consistent(&self) {
        let report = self.table.check().unwrap();
        assert!(report.is_clean(), "{report:?}");
    }
}

/// A call that waits for the table while an index is published uses the definition that it finds
/// then, not the one it came with.
#[test]
fn the_definition_is_read_under_the_row_lock() {
    let store = store(&[("1", "a@b,"), ("2", "c@d,")]);
    let (has_table, table_is_had) = mpsc::channel();
    let (goes_on, may_go_on) = mpsc::channel();
    let ends = Mutex::new(Some((has_table, may_go_on)));
    // The late row is seen only while the build holds the table.
    let extract = move |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(part(row, 0));
        if out == b"late@d"
            && let Some((has_table, may_go_on)) = ends.lock().unwrap().take()
        {
            has_table.send(()).unwrap();
            may_go_on.recv().unwrap();
        }
        Ok(true)
    };
    thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            let watch = |progress| {
                if matches!(progress, BuildProgress::CatchingUp { round: 1, .. }) {
                    store.put("2", "late@d,");
                }
                ControlFlow::Continue(())
            };
            let mail = IndexSpec::new("mail", extract).unique();
            store.table.build_index_with(mail, watch).unwrap();
        });
        table_is_had.recv().unwrap();
        scope.spawn(move || {
            store.until_waiting();
            goes_on.send(()).unwrap();
        });
        store.put("1", "e@f,");
    });
    store.assert_consistent();
}

/// A unique value that one row gives up is taken by another in the same round, whichever is looked
/// at first; and a transaction continues to write in a later queue.
#[test]
fn rows_exchange_unique_values_during_an_index_build() {
    let store = store(&[("1", "a@b,"), ("2", "c@d,"), ("3", "e@f,")]);
    let (mut open, mut waits) = (None, 0);
    let watch = |progress| {
        match progress {
            BuildProgress::Loading { .. } => {
                let txn = store.begin();
                for (key, row) in [("1", "c@d,"), ("2", "e@f,"), ("3", "a@b,")] {
                    store.table.put(&txn, key.as_bytes(), row.as_bytes()).unwrap();
                }
                txn.commit().unwrap();
                let txn = store.begin();
                store.table.put(&txn, b"4", b"g@h,").unwrap();
                open = Some(txn);
            }
            BuildProgress::Waiting => {
                waits += 1;
                if waits == 2 {
                    // In its old queue, no round has seen it; in the next one, some have.
                    open.take().map(|txn| txn.commit().unwrap());
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    };
    store.table.build_index_with(mail(), watch).unwrap();
    store.assert_consistent();
    for (mail, key) in [(&b"a@b"[..], b"3"), (b"c@d", b"1"), (b"e@f", b"2"), (b"g@h", b"4")] {
        let found = store.table.index("mail").unwrap().get(&store.begin(), mail).unwrap();
        assert_eq!(found.unwrap().0, key);
    }
}

/// A row takes the value of another whose change is in a later queue.
#[test]
fn a_row_takes_a_value_released_in_a_later_queue() {
    let store = store(&[("1", "a@b,"), ("2", ",Bob")]);
    thread::scope(|scope| {
        let (mut late, mut holds) = (None, None);
        let watch = |progress| {
            match progress {
                BuildProgress::Loading { .. } => {
                    let txn = store.begin();
                    store.table.put(&txn, b"3", b",Ada").unwrap();
                    holds = Some(txn);
                    // It has the definition with the first queue, and waits for the name.
                    let store = &store;
                    late = Some(scope.spawn(move || store.put("2", "a@b,Ada")));
                    store.until_waiting();
                }
                BuildProgress::Waiting if holds.is_some() => {
                    store.put("1", "c@d,");
                    holds.take().unwrap().rollback();
                    late.take().unwrap().join().unwrap();
                }
                _ => {}
            }
            ControlFlow::Continue(())
        };
        store.table.build_index_with(mail(), watch).unwrap();
    });
    store.assert_consistent();
    let (key, _) = store.table.index("mail").unwrap().get(&store.begin(), b"a@b").unwrap().unwrap();
    assert_eq!(key, b"2");
}

/// Rule: I34.
#[test]
fn an_index_build_waits_for_earlier_writers() {
    let store = store(&[("1", "a@b,")]);
    let txn = store.begin();
    store.table.put(&txn, b"1", b"c@d,").unwrap();
    let mut open = Some(txn);
    let watch = |progress| {
        // A build that never waits completes without it.
        if progress == BuildProgress::Waiting
            && let Some(txn) = open.take()
        {
            txn.commit().unwrap();
        }
        if matches!(progress, BuildProgress::CatchingUp { .. }) {
            open.take().map(|txn| txn.commit().unwrap());
        }
        ControlFlow::Continue(())
    };
    store.table.build_index_with(mail(), watch).unwrap();
    store.assert_consistent();
}

/// Rule: I43.
#[test]
fn an_index_is_usable_only_from_its_publication() {
    let store = store(&[("1", "a@b,")]);
    let reader = store.begin();
    let mut seen = None;
    let watch = |progress| {
        if matches!(progress, BuildProgress::CatchingUp { .. }) {
            // The index's tree exists, but not all of its entries.
            seen = store.table.get(&reader, b"1").unwrap();
            store.put("2", "c@d,");
        }
        ControlFlow::Continue(())
    };
    store.table.build_index_with(mail(), watch).unwrap();
    assert_eq!(seen.as_deref(), Some(&b"a@b,"[..]));
    let found = store.table.index("mail").unwrap().get(&reader, b"c@d");
    assert!(matches!(found, Err(Error::DefinitionChanged(_))), "{found:?}");
}

#[test]
fn trees_of_tables_are_not_written_directly() {
    let store = store(&[("1", "a@b,Ada")]);
    for tree in store.db.trees() {
        let tree = store.db.open_tree(&tree.name).unwrap();
        let refused = tree.put(b"2", b"c@d,Bob");
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
    store.assert_consistent();
}

/// A function of the program that panics ends only its own call.
#[test]
fn a_panicking_index_build_leaves_nothing() {
    let store = store(&[("1", "a@b,"), ("2", "a@b,")]);
    let bad = IndexSpec::new("bad", |_, _, _| panic!("as the test wants it"));
    let built =
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| store.table.build_index(bad)));
    assert!(built.is_err());
    assert_eq!(store.db.trees().len(), 2);
    let refused = store.table.build_index(mail());
    assert!(
        matches!(refused, Err(Error::DuplicateKey(Duplicate::InIndexBuild { .. }))),
        "{refused:?}"
    );
    store.put("2", "c@d,");
    store.table.build_index(mail()).unwrap();
    store.assert_consistent();
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "table: a call goes by the definition it came with" =>
            the_definition_is_read_under_the_row_lock,
        "db: of a build's round, entries come before all have gone" =>
            rows_exchange_unique_values_during_an_index_build,
        "db: a build drops queues that are still written" =>
            rows_exchange_unique_values_during_an_index_build,
        "db: writers of before a build are not waited for" =>
            an_index_build_waits_for_earlier_writers,
        "db: an index begins with its load" => an_index_is_usable_only_from_its_publication,
        "db: trees of tables are written directly" => trees_of_tables_are_not_written_directly,
    };
    crate::plant::assert_claims_hold("table", claims);
}
