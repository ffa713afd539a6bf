//! Index builds from entries that the program computes, concurrently with writers that do not know
//! of them, through the public API.

mod crashes;
mod interrupts;
mod writers;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use frond::{
    Batch, Db, Duplicate, Durability, Error, Isolation, Options, RowLock, Tree, TreeOptions, Txn,
    TxnOptions,
    load::IndexBuild,
    lock::TreeLock,
    transaction::{RowEntry, Xid},
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const SECOND: Duration = Duration::from_secs(1);
const NAMES: &str = "by name";
const CITIES: &str = "by city";

/// A part of a row, which is a name, possibly empty, and a city, separated by a comma.
fn part(row: &[u8], number: usize) -> &[u8] {
    row.split(|byte| *byte == b',').nth(number).unwrap_or_default()
}

/// The entry of a row in the unique index by name, or in that by city.
fn entry(index: usize, key: &[u8], row: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    match index {
        0 if part(row, 0).is_empty() => None,
        0 => Some((part(row, 0).to_vec(), key.to_vec())),
        _ => Some(([part(row, 1), b"\0", key].concat(), Vec::new())),
    }
}

fn indexes() -> [(&'static str, TreeOptions); 2] {
    let attributes = |text: &[u8]| TreeOptions::new().attributes(text.to_vec());
    [(NAMES, attributes(b"names").unique(true)), (CITIES, attributes(b"cities"))]
}

fn open(dir: &Path) -> Db {
    let options = Options::new().cache_size(32 << 20).durability(Durability::Lazy);
    Db::open(dir.join("store"), options).unwrap()
}

fn people(rows: &[(&str, &str)]) -> (tempfile::TempDir, Db, Tree) {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let base = db.create_tree("people", Default::default()).unwrap();
    rows.iter().for_each(|(key, row)| put(&base, key, row));
    (dir, db, base)
}

/// Puts a row with a batch.
fn put(base: &Tree, key: &str, row: &str) {
    base.put(key.as_bytes(), row.as_bytes()).unwrap();
}

fn begin(db: &Db) -> Txn {
    let isolation = Isolation::RepeatableRead;
    db.begin(TxnOptions::new().isolation(isolation)).unwrap()
}

/// Names of all trees; trees of running builds are listed as "of a build".
fn names(db: &Db) -> Vec<String> {
    let mut names: Vec<String> = db.trees().into_iter().map(|tree| tree.name).collect();
    let all = db.stats().trees as usize;
    names.resize(all, "of a build".into());
    names
}

fn rows(tree: &Tree) -> Rows {
    let (mut rows, mut cursor) = (Rows::new(), tree.scan(..).unwrap());
    while let Some((key, row)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), row.to_vec());
    }
    rows
}

/// Adds the entries of the base, from the snapshot.
fn feed_base(build: &mut IndexBuild, base: &Tree) -> frond::Result<()> {
    let snapshot = build.snapshot(SECOND)?;
    let mut rows = snapshot.scan(base, ..)?;
    while let Some((key, row)) = rows.next()? {
        for index in 0..2 {
            if let Some((key, value)) = entry(index, key, row) {
                build.add(index, &key, &value)?;
            }
        }
    }
    build.end_base()
}

/// Runs one round; returns its number of rows.
fn feed_round(build: &mut IndexBuild) -> frond::Result<usize> {
    let mut changed = BTreeSet::new();
    while let Some(row) = build.next_change()? {
        assert!(row.old != row.new);
        changed.insert(row.key.to_vec());
        let (key, old, new) =
            (row.key.to_vec(), row.old.map(<[u8]>::to_vec), row.new.map(<[u8]>::to_vec));
        for index in 0..2 {
            let was = old.as_deref().and_then(|row| entry(index, &key, row));
            let is = new.as_deref().and_then(|row| entry(index, &key, row));
            if was != is {
                let was = was.as_ref().map(|(key, _)| &key[..]);
                build.change(index, was, is.as_ref().map(|(key, value)| (&key[..], &value[..])))?;
            }
        }
    }
    Ok(changed.len())
}

/// Runs all remaining rounds.
fn feed_rest(build: &mut IndexBuild) -> frond::Result<()> {
    loop {
        feed_round(build)?;
        if build.is_locked() {
            return Ok(());
        }
        if build.is_near()? {
            match build.lock(Duration::from_millis(20)) {
                Err(Error::LockTimeout { .. }) => {}
                locked => locked?,
            }
        }
    }
}

fn build_all(db: &Db, base: &Tree) -> frond::Result<Vec<Tree>> {
    let mut build = db.build_indexes(base, &indexes())?;
    feed_base(&mut build, base)?;
    feed_rest(&mut build)?;
    build.publish(|_| {})
}

/// Asserts that each index has the entries of all rows, and no others.
fn assert_consistent(db: &Db) {
    assert_indexes_consistent(db);
    assert_eq!(names(db), [CITIES, NAMES, "people"], "queues are gone");
}

fn assert_indexes_consistent(db: &Db) {
    let base = rows(&db.open_tree("people").unwrap());
    for (index, name) in [NAMES, CITIES].into_iter().enumerate() {
        let tree = db.open_tree(name).unwrap();
        let expected: Rows = base.iter().filter_map(|(key, row)| entry(index, key, row)).collect();
        assert_eq!(rows(&tree), expected, "{name}");
        let attributes = tree.info().options.attributes;
        assert_eq!(attributes, indexes()[index].1.attributes);
    }
}

const ROWS: [(&str, &str); 4] =
    [("1", "ada,Oslo"), ("2", "bob,Oslo"), ("3", ",Rome"), ("4", "eve,")];

#[test]
fn build_phases_must_be_called_in_order() {
    let (_dir, db, base) = people(&ROWS);
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    let refused = db.build_indexes(&base, &[("other", TreeOptions::default())]);
    assert!(matches!(refused, Err(Error::LockBusy { .. })), "{refused:?}");
    let misuse = |outcome: frond::Result<()>| {
        assert!(matches!(outcome, Err(Error::InvalidArgument(_))), "{outcome:?}");
    };
    misuse(build.add(0, b"k", b""));
    misuse(build.end_base());
    misuse(build.lock(SECOND));
    feed_base(&mut build, &base).unwrap();
    misuse(build.add(0, b"k", b""));
    misuse(build.change(0, Some(b"k"), None));
    assert!(!build.is_near().unwrap());
    put(&base, "5", "dan,Rome");
    assert!(build.next_change().unwrap().is_some());
    misuse(build.change(2, Some(b"k"), None));
    misuse(build.lock(SECOND));
    feed_round(&mut build).unwrap();
    build.lock(SECOND).unwrap();
    let refused = build.publish(|_| panic!("a round is missing"));
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    assert_eq!(names(&db), ["people"]);
    let mut told = 0;
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    feed_base(&mut build, &base).unwrap();
    feed_rest(&mut build).unwrap();
    let trees = build.publish(|trees| told = trees.len()).unwrap();
    assert_eq!((told, trees.len()), (2, 2));
    assert_consistent(&db);
    let refused = db.build_indexes(&base, &indexes());
    assert!(matches!(refused, Err(Error::TreeExists(_))), "{refused:?}");
    // Programs cannot set the attributes that mark a build.
    let mark = TreeOptions::new().attributes(b"frond build\0".to_vec());
    assert!(matches!(db.create_tree("marked", mark), Err(Error::InvalidArgument(_))));
    put(&base, "6", "no build keeps a queue now,");
    assert_eq!(names(&db).len(), 3);
}

/// Rule: I34.
#[test]
fn duplicate_index_keys_are_refused() {
    // In the base.
    let (_dir, db, base) = people(&ROWS);
    put(&base, "5", "bob,Bonn");
    match build_all(&db, &base) {
        Err(Error::DuplicateKey(Duplicate::InLoad { tree, key })) => {
            assert_eq!((&*tree, &key[..]), (NAMES, &b"bob"[..]))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(names(&db), ["people"]);
    put(&base, "5", ",Bonn");
    // In a round: with a row of the base, with one of the previous round, with one of the same
    // round.
    for (first, second) in [("bob", "x"), ("x", "y"), ("z", "z")] {
        let mut build = db.build_indexes(&base, &indexes()).unwrap();
        feed_base(&mut build, &base).unwrap();
        put(&base, "6", &format!("{first},"));
        if second == "z" {
            put(&base, "7", "z,");
        }
        let outcome = feed_round(&mut build).and_then(|_| {
            put(&base, "7", "x,");
            feed_round(&mut build)
        });
        match outcome {
            Err(Error::DuplicateKey(Duplicate::InLoad { tree, key })) => {
                let twice = if first == "z" { "z" } else { first };
                assert_eq!((&*tree, &key[..]), (NAMES, twice.as_bytes()));
            }
            other => panic!("{first}: {other:?}"),
        }
        assert!(build.next_change().is_err() && build.lock(SECOND).is_err(), "it is over");
        drop(build);
        assert_eq!(names(&db), ["people"]);
        put(&base, "6", ",");
        put(&base, "7", ",");
    }
    build_all(&db, &base).unwrap();
    assert_consistent(&db);
}

/// A row can take a key that another row gives up: new entries are checked only after all removals.
#[test]
fn rows_may_exchange_unique_values_during_a_build() {
    let (_dir, db, base) = people(&ROWS);
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    feed_base(&mut build, &base).unwrap();
    for names in [["bob", "ada"], ["ada", "bob"], ["", "ada"], ["bob", ""]] {
        let mut batch = Batch::new();
        for (key, name) in ["1", "2"].into_iter().zip(names) {
            batch.put(&base, key.as_bytes(), format!("{name},Oslo").as_bytes()).unwrap();
        }
        db.commit(&mut batch).unwrap();
        assert_eq!(feed_round(&mut build).unwrap(), 2);
    }
    assert_eq!(feed_round(&mut build).unwrap(), 0, "what is the same at both moments is passed by");
    build.lock(SECOND).unwrap();
    feed_round(&mut build).unwrap();
    build.publish(|_| {}).unwrap();
    assert_consistent(&db);
}

#[test]
fn an_abandoned_build_leaves_nothing() {
    let (dir, db, base) = people(&ROWS);
    for at in 0..5 {
        let mut build = db.build_indexes(&base, &indexes()).unwrap();
        put(&base, "5", &format!("dan,{at}"));
        if at > 0 {
            feed_base(&mut build, &base).unwrap();
            put(&base, "6", &format!("dora,{at}"));
        }
        if at > 1 {
            assert!(build.next_change().unwrap().is_some());
        }
        if at > 2 {
            feed_round(&mut build).unwrap();
        }
        if at > 3 {
            build.lock(SECOND).unwrap();
        }
        drop(build);
        assert_eq!(names(&db), ["people"], "at {at}");
        put(&base, "5", "dan,free");
    }
    // A queue into which a transaction has put keys stays, over a restart, too.
    let build = db.build_indexes(&base, &indexes()).unwrap();
    let (txn, xid) = (begin(&db), Xid::new(b"late").unwrap());
    txn.put(&base, b"9", b"zoe,Oslo").unwrap();
    drop(build);
    assert_eq!(names(&db).len(), 2, "{:?}", names(&db));
    txn.put(&base, b"8", b"yan,Oslo").unwrap();
    txn.prepare(&xid).unwrap().detach();
    drop(base);
    db.close().unwrap();
    drop(db);
    let db = open(dir.path());
    assert_eq!(names(&db).len(), 2, "{:?}", names(&db));
    let base = db.open_tree("people").unwrap();
    let mut build = db.build_indexes(&base, &indexes()).unwrap();
    let waits = build.snapshot(Duration::from_millis(3));
    assert!(matches!(waits, Err(Error::LockTimeout { .. })), "{waits:?}");
    db.commit_prepared(&xid).unwrap();
    feed_base(&mut build, &base).unwrap();
    feed_rest(&mut build).unwrap();
    build.publish(|_| {}).unwrap();
    assert_eq!(names(&db).len(), 4, "{:?}", names(&db));
    db.close().unwrap();
    drop((base, db));
    let db = open(dir.path());
    assert_consistent(&db);
}

#[test]
fn a_dropped_tree_gets_no_indexes() {
    for is_late in [false, true] {
        let (_dir, db, base) = people(&[("1", "ada,oslo")]);
        let mut build = db.build_indexes(&base, &indexes()).unwrap();
        feed_base(&mut build, &base).unwrap();
        // Trees of the build cannot be dropped.
        for tree in db.trees().into_iter().filter(|tree| tree.name != "people") {
            let refused = db.drop_tree(&tree.name);
            assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
        }
        if is_late {
            feed_round(&mut build).unwrap();
        }
        let mut change = db.change_trees();
        change.truncate("people");
        change.commit().unwrap();
        let met = if is_late { build.lock(SECOND) } else { feed_round(&mut build).map(drop) };
        assert!(matches!(met, Err(Error::NoSuchTree(_))), "{met:?}");
        drop(build);
        assert_eq!(names(&db), ["people"]);
    }
}

#[test]
fn a_tree_has_one_build_at_a_time() {
    let (_dir, db, base) = people(&[("1", "ada,oslo")]);
    let builds: Vec<_> = std::thread::scope(|scope| {
        let begin = |name: &'static str| {
            let (db, base) = (db.clone(), base.clone());
            move || db.build_indexes(&base, &[(name, TreeOptions::default())])
        };
        let both = [scope.spawn(begin("one")), scope.spawn(begin("other"))];
        both.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(builds.iter().filter(|build| build.is_ok()).count(), 1, "{builds:?}");
}
