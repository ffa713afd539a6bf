//! Merge operators of the application: a store never opens without those that its rows wait for,
//! whatever happened to it; and what operands grow to stays bounded.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use frond::{
    Batch, Db, Durability, Error, Options, Result, Snapshot, Tree,
    check::CheckMode,
    internals::io::{Env, Workers},
    operator::{self, MergeOperator},
};
use frond_testkit::{
    Dice,
    disk::{CrashOptions, SimVfs, crash_states},
};

const NUMBER: u8 = 70;

/// Keeps the last bytes that it was given, up to a limit.
struct Tail(&'static str, usize);

impl MergeOperator for Tail {
    fn name(&self) -> &str {
        self.0
    }

    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        let all = [base.unwrap_or_default(), operand].concat();
        all[all.len().saturating_sub(self.1)..].to_vec()
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        self.merge(Some(older), newer)
    }
}

fn with(options: Options, name: &'static str) -> Options {
    options.operator(NUMBER, Arc::new(Tail(name, 4)))
}

fn merge(db: &Db, tree: &Tree, key: &[u8], operand: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.merge(tree, key, NUMBER, operand)?;
    db.commit(&mut batch).map(drop)
}

/// The tree and the operator that a refusal names, and the name that it found registered.
fn refused(opened: Result<Db>) -> (String, u8, String, String) {
    match opened {
        Err(Error::OperatorNeeded { tree, operator, name, found }) => (tree, operator, name, found),
        other => panic!("not refused for its operators: {other:?}"),
    }
}

/// A store does not open without the operators that its trees use. Rule: I17.
#[test]
fn a_store_does_not_open_without_the_operators_of_its_trees() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), with(crate::common::options(), "tail")).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    db.create_tree("plain", Default::default()).unwrap();
    db.close().unwrap();
    drop((tree, db));
    // An operator that is registered but not used is not required.
    let db = Db::open(dir.path(), crate::common::options()).unwrap();
    let tree = db.open_tree("t").unwrap();
    assert!(matches!(merge(&db, &tree, b"k", b"x"), Err(Error::MissingOperator(NUMBER))));
    db.close().unwrap();
    drop((tree, db));

    let db = Db::open(dir.path(), with(crate::common::options(), "tail")).unwrap();
    let tree = db.open_tree("t").unwrap();
    merge(&db, &tree, b"k", b"abc").unwrap();
    db.close().unwrap();
    drop((tree, db));
    let needed = |found: &str| ("t".into(), NUMBER, "tail".into(), found.into());
    for read_only in [false, true] {
        let options = || crate::common::options().read_only(read_only);
        assert_eq!(refused(Db::open(dir.path(), options())), needed("none"));
        let other = with(options(), "head");
        assert_eq!(refused(Db::open(dir.path(), other)), needed("\"head\""));
    }
    // Repeated refusals take no more space.
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let before = files();
    refused(Db::open(dir.path(), crate::common::options()));
    assert_eq!(files(), before);

    let db = Db::open(dir.path(), with(crate::common::options(), "tail")).unwrap();
    let tree = db.open_tree("t").unwrap();
    merge(&db, &tree, b"k", b"de").unwrap();
    assert_eq!(tree.get(b"k").unwrap().unwrap(), b"bcde");
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    // The requirement lasts as long as the tree, under its current name.
    db.rename_tree("t", "u").unwrap();
    db.clone_tree("u", "v").unwrap();
    db.drop_tree("u").unwrap();
    db.close().unwrap();
    drop((tree, db));
    assert_eq!(refused(Db::open(dir.path(), crate::common::options())).0, "v");
    let db = Db::open(dir.path(), with(crate::common::options(), "tail")).unwrap();
    assert_eq!(db.open_tree("v").unwrap().get(b"k").unwrap().unwrap(), b"bcde");
    db.create_snapshot("then").unwrap();
    db.drop_tree("v").unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), crate::common::options()).unwrap();
    let then: Snapshot = db.open_snapshot("then").unwrap();
    assert!(matches!(then.open_tree("v"), Err(Error::OperatorNeeded { .. })));
    then.open_tree("plain").unwrap();
}

#[test]
fn an_operator_name_must_be_storable() {
    let dir = tempfile::tempdir().unwrap();
    let long: &'static str = Box::leak("o".repeat(129).into_boxed_str());
    for bad in ["", "a\nb", long] {
        let options = Options::new().operator(NUMBER, Arc::new(Tail(bad, 4)));
        let opened = Db::open(dir.path().join("bad"), options);
        assert!(matches!(opened, Err(Error::InvalidArgument(_))), "{bad:?}");
    }
    let options = Options::new().operator(NUMBER, Arc::new(Tail(&long[1..], 4)));
    Db::open(dir.path().join("good"), options).unwrap().close().unwrap();
}

/// Wherever power fails: if a row waits for the operator, the catalog says so. Rule: I17.
#[test]
fn a_surviving_operand_has_its_operator_in_the_catalog() {
    let vfs = SimVfs::new();
    let dir = Path::new("/store");
    let options = |vfs: &SimVfs, seed| {
        let options = crate::common::options().durability(Durability::Lazy).env(vfs.env(seed));
        options.tuning(crate::common::tiny())
    };
    let db = Db::open(dir, with(options(&vfs, 1), "tail")).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    vfs.record();
    for round in 0..40u8 {
        merge(&db, &tree, &[round], b"x").unwrap();
        if round % 10 == 5 {
            db.checkpoint().unwrap();
        }
    }
    db.close().unwrap();
    let (mut with_rows, mut without) = (0, 0);
    for (step, point) in vfs.recorded().iter().enumerate() {
        let states = CrashOptions::short().with_seed(step as u64);
        for state in crash_states(&point.disk, &states) {
            let disk = SimVfs::start(state.disk.clone());
            let db = Db::open(dir, with(options(&disk, 2), "tail")).unwrap();
            let waits = db.open_tree("t").unwrap().scan(..).unwrap().next().unwrap().is_some();
            drop(db);
            let disk = SimVfs::start(state.disk);
            let opened = Db::open(dir, options(&disk, 3));
            if waits {
                refused(opened);
                with_rows += 1;
            } else {
                without += u32::from(opened.is_ok());
            }
        }
    }
    assert!(with_rows > 0 && without > 0, "{with_rows} with rows, {without} open without");
}

/// Operands over operands, of all kinds and lengths: the row is what its operands make of it, the
/// store continues, and a chain of operands without a base value stays short.
#[test]
fn chains_of_operands_are_bounded() {
    let vfs = SimVfs::new();
    let dir = Path::new("/store");
    let options = |seed| {
        let options = crate::common::options().env(vfs.env(seed)).tuning(tiny_values());
        options.operator(NUMBER, Arc::new(Tail("tail", 5000)))
    };
    let db = Db::open(dir, options(1)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let dice = &mut Dice::new(17);
    let mut expected: Vec<Vec<u8>> = vec![Vec::new(); 3];
    for round in 0..400u64 {
        let mut batch = Batch::new();
        for (row, expected) in expected.iter_mut().enumerate() {
            let operand: Vec<u8> = (0..dice.below(90)).map(|_| dice.below(256) as u8).collect();
            // One row takes both operators in turn, so that no two adjacent operands can be
            // combined.
            let own = row == 1 || row == 2 && round % 2 == 1;
            let number = if own { NUMBER } else { operator::APPEND };
            batch.merge(&tree, &[row as u8], number, &operand).unwrap();
            expected.extend_from_slice(&operand);
            let over = expected.len().saturating_sub(5000);
            expected.drain(..if own { over } else { 0 });
        }
        db.commit(&mut batch).unwrap();
        while db.step().unwrap() {}
        if round % 50 == 7 {
            for (row, expected) in expected.iter().enumerate() {
                let found = tree.get(&[row as u8]).unwrap().unwrap();
                assert!(found == *expected, "row {row}, round {round}");
            }
        }
    }
    while db.drain_step().unwrap() {}
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
    drop((tree, db));
    let db = Db::open(dir, options(2)).unwrap();
    for (row, expected) in expected.iter().enumerate() {
        assert!(db.open_tree("t").unwrap().get(&[row as u8]).unwrap().unwrap() == *expected);
    }
}

/// Values of more than 100 bytes are long ones, and a memtable holds some thousand bytes.
fn tiny_values() -> frond::internals::Tuning {
    let mut tuning = crate::common::tiny();
    let shape = tuning.shape.as_mut().unwrap();
    (shape.blob_bytes, shape.blob_piece_bytes) = (100, 512);
    tuning.limits.as_mut().unwrap().memtable_bytes = 4 << 10;
    tuning
}

/// A batch may append to one key any number of times.
#[test]
fn thousands_of_operands_of_a_batch_are_combined() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), crate::common::options()).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut batch = Batch::new();
    let mut expected = Vec::new();
    for round in 0..20_000u32 {
        batch.merge(&tree, b"log", operator::APPEND, &round.to_be_bytes()).unwrap();
        expected.extend_from_slice(&round.to_be_bytes());
    }
    db.commit(&mut batch).unwrap();
    for _ in 0..20_000u32 {
        batch.merge(&tree, b"count", operator::ADD, &1u64.to_be_bytes()).unwrap();
        db.commit(&mut batch).unwrap();
    }
    assert!(tree.get(b"log").unwrap().unwrap() == expected);
    assert_eq!(tree.get(b"count").unwrap().unwrap(), 20_000u64.to_be_bytes());
    db.close().unwrap();
}

/// An operator like [`Tail`] that panics once a flag is set.
struct Explosive(Arc<AtomicBool>);

impl MergeOperator for Explosive {
    fn name(&self) -> &str {
        "tail"
    }

    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        assert!(!self.0.load(Ordering::Relaxed), "this operator panics");
        Tail("tail", 4).merge(base, operand)
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        self.merge(Some(older), newer)
    }
}

/// An operator that panics during a background merge: the store stops, reports it to all callers,
/// is not closed cleanly, and has every acknowledged commit when it is opened again. Promises: P1,
/// P16.
#[test]
fn a_background_panic_stops_the_store_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let panics = Arc::new(AtomicBool::new(false));
    let env = Env { workers: Workers::Threads(2), ..Env::real() };
    let options = crate::common::options().durability(Durability::Sync).env(env);
    let explosive = options.operator(NUMBER, Arc::new(Explosive(panics.clone())));
    let db = Db::open(dir.path(), explosive).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    tree.put(b"k", b"old").unwrap();
    db.checkpoint().unwrap();
    panics.store(true, Ordering::Relaxed);
    let mut acknowledged = 0_u32;
    let stopped = loop {
        // Each soon goes into a memtable of its own, so that one is merged with another's.
        let done = merge(&db, &tree, b"k", &acknowledged.to_be_bytes())
            .and_then(|()| tree.put(&acknowledged.to_be_bytes(), &[7; 500]));
        match done {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
        assert!(acknowledged < 1_000_000, "no writer notices that the background is gone");
    };
    assert!(matches!(stopped, Error::Failed(_) | Error::OutcomeUnknown(_)), "{stopped}");
    assert!(db.stats().failed.is_some_and(|why| why.contains("panic")));
    assert!(matches!(tree.get(b"k"), Err(Error::Failed(_))));
    db.close().unwrap();
    drop((tree, db));

    let db = Db::open(dir.path(), with(crate::common::options(), "tail")).unwrap();
    let tree = db.open_tree("t").unwrap();
    for number in 0..acknowledged {
        assert!(tree.get(&number.to_be_bytes()).unwrap().is_some(), "{number} of {acknowledged}");
    }
    let last = tree.get(b"k").unwrap().unwrap();
    let last = u32::from_be_bytes(last.try_into().unwrap());
    assert!(last + 1 >= acknowledged, "{last} of {acknowledged}");
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
}
