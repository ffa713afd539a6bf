//! What a newer Frond wrote is called so: by the check, by who opens the store and by who reads the row, and it is
//! no damage that something would be restored for.

use super::*;
use crate::{Batch, Db, Error, Options};

/// A version that is not known yet, where a run's tail has its own.
fn newer(tail: &mut [u8]) {
    tail[4] = 9;
}

fn open(forge: &Forge) -> crate::Result<Db> {
    Db::open(DIR, Options::new().cache_size(16 << 20).env(forge.env.clone()))
}

fn is_newer(error: &Error) -> bool {
    matches!(error, Error::TooNew { what, .. } if what == "run version 9")
}

/// Promise: P22.
#[test]
fn a_newer_run_is_told_as_such_and_the_rest_is_served() {
    let lie = || Lie { leaf_tail: Some(newer), ..Lie::default() };
    names("newer", lie());
    assert!(!check_lie(&lie()).names("malformed"));
    let (forge, _) = forge_store(&lie());
    let db = open(&forge).unwrap();
    let tree = db.open_tree("t").unwrap();
    assert!(is_newer(&tree.get(b"a").unwrap_err()));
    assert_eq!(tree.get(b"i").unwrap().as_deref(), Some(&b"i"[..]));
    let mut cursor = tree.scan(..).unwrap();
    assert!(is_newer(&cursor.next().unwrap_err()));
    // Commits go on, and what is for that leaf waits above it.
    let mut batch = Batch::new();
    batch.put(&tree, b"aa", b"new").unwrap();
    batch.put(&tree, b"ii", b"new").unwrap();
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    assert_eq!(tree.get(b"ii").unwrap().as_deref(), Some(&b"new"[..]));
    db.close().unwrap();
}

/// Promise: P22.
#[test]
fn a_store_whose_catalog_is_newer_is_not_opened() {
    let lie = || Lie { catalog_tail: Some(newer), ..Lie::default() };
    let (forge, _) = forge_store(&lie());
    assert!(is_newer(&open(&forge).unwrap_err()));
    assert!(check_lie(&lie()).names("newer"));
}
