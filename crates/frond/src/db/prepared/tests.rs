//! What scenarios through the public API cannot time: decisions beside checkpoints, and hostile pieces.

use super::*;
use crate::{
    CheckMode, Options, Tag, TreeId,
    catalog::{PreparedPiece, Record},
    io::{Env, MemoryVfs, Workers},
    page::Link,
};

fn open(vfs: &Arc<MemoryVfs>) -> Result<Db> {
    let env = Env { vfs: vfs.clone(), workers: Workers::Manual, ..Env::real() };
    Db::open("/store", Options::new().cache_size(8 << 20).env(env))
}

fn xid() -> Xid {
    Xid::new(b"x").unwrap()
}

/// A store with a long value that is prepared, in the trees through its boundary.
fn prepared_and_applied(vfs: &Arc<MemoryVfs>) -> Db {
    let db = open(vfs).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let txn = db.begin(Default::default()).unwrap();
    txn.put(&tree, b"long", &[7; 100_000]).unwrap();
    txn.prepare(&xid()).unwrap().detach();
    db.shared.engine.freeze();
    while db.shared.engine.apply_oldest().unwrap() {}
    db
}

/// The process is gone, and nothing was closed.
fn kill(db: Db) {
    db.shared.engine.health.fail("it was killed");
    drop(db);
}

/// The decision is behind the boundary of both slots, which need not name what is decided. Rules: I10, I11.
#[test]
fn a_decision_behind_the_boundary_of_both_slots() {
    for is_committed in [false, true] {
        let vfs = Arc::new(MemoryVfs::new());
        let db = prepared_and_applied(&vfs);
        match is_committed {
            true => drop(db.commit_prepared(&xid()).unwrap()),
            false => db.rollback_prepared(&xid()).unwrap(),
        }
        for _ in 0..3 {
            db.shared.engine.publish_unchanged();
            db.shared.engine.run_checkpoint().unwrap();
        }
        kill(db);
        let db = open(&vfs).unwrap();
        assert!(db.prepared().is_empty());
        let found = db.open_tree("t").unwrap().get(b"long").unwrap();
        assert_eq!(found, is_committed.then(|| vec![7; 100_000]));
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
    }
}

/// Nobody decides: each slot's own checkpoint has named it, or a record that it needs did. Rule: I12.
#[test]
fn no_decision_through_many_slots() {
    let vfs = Arc::new(MemoryVfs::new());
    let mut db = prepared_and_applied(&vfs);
    for round in 0..6 {
        if round % 2 == 0 {
            db.open_tree("t").unwrap().put(&[round], &[1; 70_000]).unwrap();
            db.checkpoint().unwrap();
        }
        db.shared.engine.publish_unchanged();
        db.shared.engine.run_checkpoint().unwrap();
        kill(db);
        db = open(&vfs).unwrap();
        assert_eq!(db.prepared().len(), 1, "round {round}");
    }
    db.commit_prepared(&xid()).unwrap();
    let found = db.open_tree("t").unwrap().get(b"long").unwrap();
    assert_eq!(found, Some(vec![7; 100_000]));
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
}

/// Promise: P20. Pieces that no prepare writes, under right checksums.
#[test]
fn hostile_pieces_are_refused() {
    let with = |body: &[u8], has_runs| content(Seqno(1), None, (body, has_runs));
    let content = |body: &[u8]| with(body, false);
    // A run where nothing is, or where the catalog's own leaf may be.
    let run_at = |tree, offset| {
        let mut record = RecordBuilder::new();
        let link = Link { offset, bytes: 4096, ..Link::default() };
        record.runs(tree, [link].into_iter());
        with(record.finish(), true)
    };
    let mut record = RecordBuilder::new();
    record.tree(CATALOG_TREE);
    record.entry(b"key", Tag::PUT, b"value");
    let catalog = content(record.finish());
    let piece = |number, count, content: &[u8]| {
        let (xid, content) = (xid(), content.to_vec());
        PreparedPiece { xid, number, count, content, carried: Default::default() }
    };
    let bad = [
        ("the catalog", piece(0, 1, &catalog)),
        ("no content", piece(0, 1, b"")),
        ("an unknown version", piece(0, 1, &[9, 0, 0])),
        ("a piece is missing", piece(0, 2, &catalog)),
        ("no body", piece(0, 1, &content(b"\xff\xff"))),
        ("a run that is not there", piece(0, 1, &run_at(TreeId(1), 1 << 30))),
        ("a run in no place", piece(0, 1, &run_at(TreeId(1), 4097))),
        ("a run over others", piece(0, 1, &run_at(TreeId(1), 32 << 10))),
        ("runs of the catalog", piece(0, 1, &run_at(CATALOG_TREE, 1 << 30))),
    ];
    for (what, piece) in bad {
        let vfs = Arc::new(MemoryVfs::new());
        let db = open(&vfs).unwrap();
        let record = Record::Prepared(piece);
        let (key, value) = (record.key(), record.encode().unwrap());
        let mut insertion = Insertion { trees: vec![CATALOG_TREE], ..Insertion::default() };
        insertion.writes.push(CATALOG_TREE, &key, Tag::PUT, &[&value], false);
        let level = Durability::Sync;
        let put = db.shared.commit_insertion(&Arc::new(insertion), &[], level, &[], ());
        put.unwrap();
        kill(db);
        let refused = open(&vfs).map(drop).unwrap_err();
        let is_typed = matches!(refused, Error::Malformed { .. } | Error::TooNew { .. });
        assert!(is_typed, "{what}: {refused}");
    }
}
