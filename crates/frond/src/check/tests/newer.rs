//! Data written by a newer Frond is reported as such, by the check, when opening the store and when
//! reading the row. It is not reported as damage, which would suggest restoring a backup.

use super::*;
use crate::{
    Batch, Db, Error, Options,
    block::Codec,
    coding::{put_bytes, put_varint},
    layout::Layout,
};

/// Sets an unknown version in a run's footer.
fn newer(footer: &mut [u8]) {
    footer[4] = 9;
}

/// Sets an unknown version of a string model in the footer of a run with columnar blocks. What
/// follows its format is not reached.
fn newer_model(footer: &mut [u8]) {
    let mut format = vec![1];
    let mut layout = Vec::new();
    Layout::default().encode(&mut layout);
    (0..2).for_each(|_| put_bytes(&mut format, &layout));
    // The model of column 0.
    let model = [9, 0];
    let models = [&[0, model.len() as u8][..], &model].concat();
    put_varint(&mut format, models.len() as u64);
    format.push(Codec::Raw as u8);
    put_bytes(&mut format, &models);
    let mut said = Vec::new();
    [&b"a"[..], b"b", &format].iter().for_each(|part| put_bytes(&mut said, part));
    footer[4] = 2;
    footer[64..64 + said.len()].copy_from_slice(&said);
}

fn open(forge: &Forge) -> crate::Result<Db> {
    Db::open(DIR, Options::new().cache_size(16 << 20).env(forge.env.clone()))
}

fn is_newer(error: &Error, wanted: &str) -> bool {
    matches!(error, Error::TooNew { what, .. } if what == wanted)
}

/// Promise: P22.
#[test]
fn a_run_of_a_newer_version_is_reported_and_the_rest_is_served() {
    a_leaf_is_newer_and_the_rest_is_served(newer, "run version 9");
}

/// Promise: P22. A model's version shows that it uses something that older readers do not know.
#[test]
fn a_model_of_a_newer_version_is_reported_and_the_rest_is_served() {
    a_leaf_is_newer_and_the_rest_is_served(newer_model, "string model version 9");
}

fn a_leaf_is_newer_and_the_rest_is_served(change: fn(&mut [u8]), what: &str) {
    let lie = || Lie { leaf_footer: Some(change), ..Lie::default() };
    names("newer", lie());
    assert!(!check_lie(&lie()).names("malformed"));
    let (forge, _) = forge_store(&lie());
    let db = open(&forge).unwrap();
    let is_newer = |error: &Error| is_newer(error, what);
    let tree = db.open_tree("t").unwrap();
    assert!(is_newer(&tree.get(b"a").unwrap_err()));
    assert_eq!(tree.get(b"i").unwrap().as_deref(), Some(&b"i"[..]));
    let mut cursor = tree.scan(..).unwrap();
    assert!(is_newer(&cursor.next().unwrap_err()));
    // Commits continue, and entries for that leaf wait above it.
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
    let lie = || Lie { catalog_footer: Some(newer), ..Lie::default() };
    let (forge, _) = forge_store(&lie());
    assert!(is_newer(&open(&forge).unwrap_err(), "run version 9"));
    assert!(check_lie(&lie()).names("newer"));
}
