//! The log that recovery would have to replay stays bounded while the store runs (P5, I13).

use frond::{Db, Error, Options};
use frond_testkit::{campaign::bound_the_log, effort};

#[test]
fn a_hot_row_does_not_prolong_recovery() {
    for seed in effort::seeds(2) {
        bound_the_log(seed).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// A thread that panics drops the last handle without closing the store: its background threads
/// end, and with them the lock on the store. Promise: P16.
#[test]
fn a_store_whose_user_panicked_can_be_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, Options::new()).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    tree.put(b"key", b"value").unwrap();
    let user = std::thread::spawn(move || {
        let _both = (tree, db);
        panic!("on purpose");
    });
    assert!(user.join().is_err());
    let began = std::time::Instant::now();
    let db = loop {
        match Db::open(&path, Options::new()) {
            Err(Error::Locked { .. }) if began.elapsed().as_secs() < 60 => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            opened => break opened.unwrap(),
        }
    };
    let found = db.open_tree("t").unwrap().get(b"key").unwrap();
    assert_eq!(found.as_deref(), Some(&b"value"[..]));
    db.close().unwrap();
}
