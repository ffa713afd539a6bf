//! Short stories about what the campaigns do not do, for the planted bugs that only these show.

use std::sync::Arc;

use frond::{Batch, Db, Error, Options, operator::MergeOperator};
use frond_testkit::{DbEngine, disk::SimVfs};

/// All of them. Panics where one does not end as it must.
pub fn all(seed: u64) {
    operators_are_demanded(seed);
}

/// Takes the newer operand.
struct Newest;

impl MergeOperator for Newest {
    fn name(&self) -> &str {
        "newest"
    }
    fn merge(&self, _: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        operand.to_vec()
    }
    fn combine(&self, _: &[u8], newer: &[u8]) -> Vec<u8> {
        newer.to_vec()
    }
}

fn options(vfs: &SimVfs, seed: u64) -> Options {
    let engine = DbEngine::tiny(frond::Durability::Sync);
    Options::new().cache_size(engine.cache_bytes).tuning(engine.tuning).env(vfs.env(seed))
}

/// Rule: I17
fn operators_are_demanded(seed: u64) {
    let vfs = SimVfs::new();
    let with = options(&vfs, seed).operator(64, Arc::new(Newest)).unwrap();
    let db = Db::open("/store", with).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let mut batch = Batch::new();
    batch.merge(&tree, b"k", 64, b"v").unwrap();
    db.commit(&mut batch).unwrap();
    db.close().unwrap();
    drop((tree, db));
    let without = Db::open("/store", options(&vfs, seed)).map(drop);
    assert!(matches!(without, Err(Error::OperatorNeeded { .. })), "opened: {without:?}");
}
