//! `frond check` and `frond inspect`.

mod common;

use std::os::unix::fs::FileExt;

use common::Place;

#[test]
fn a_clean_store_passes_the_check_and_inspect_shows_its_shape() {
    let place = Place::loaded(20_000);
    assert!(place.ok(&["check", "STORE"]).starts_with("clean: 3 trees (one is the catalog), "));
    let quick = place.ok(&["check", "STORE", "--quick"]);
    assert!(quick.starts_with("the quick check found no damage; it read no rows: "), "{quick}");
    let json: serde_json::Value =
        serde_json::from_str(&place.ok(&["check", "STORE", "--json"])).expect("JSON");
    assert_eq!(json["clean"], true);
    let shape = place.ok(&["inspect", "STORE"]);
    assert!(shape.starts_with("tree \"t\"\n") && shape.contains("  leaves "), "{shape}");
    assert!(place.fails(2, &["inspect", "STORE", "u"]).contains("no tree \"u\""));
}

/// Promise: P9.
#[test]
fn damage_is_exit_code_one() {
    let place = Place::loaded(20_000);
    let store = std::fs::OpenOptions::new()
        .write(true)
        .open(place.path("store/store.frond"))
        .expect("a store");
    // Wherever the leaves of this store start, this hits one of them.
    let bytes = store.metadata().expect("a file").len();
    for at in (192 << 10..bytes).step_by(4096) {
        store.write_at(b"damage", at + 100).expect("written");
    }
    let answer = place.frond(&["check", "STORE"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.out.contains("DAMAGED:") && answer.err.contains(" is damaged ("), "{answer:?}");
    assert!(!answer.err.contains("(1 findings)"), "{answer:?}");
}

#[test]
fn check_refuses_a_path_without_a_store() {
    let place = Place::new();
    assert_eq!(place.frond(&["check", "STORE"]).code, 2);
    assert!(!place.path("store").exists());
}

/// Promise: P10.
#[test]
fn a_damaged_slot_gives_a_warning_and_loses_nothing() {
    let place = Place::loaded(2000);
    let store = std::fs::OpenOptions::new().write(true).open(place.path("store/store.frond"));
    store.expect("a store").write_at(b"damage", 64).expect("written");
    for words in [&["get", "STORE", "t", "1999"][..], &["stats", "STORE"]] {
        let answer = place.frond(words);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(answer.err.starts_with("frond: warning: FRD-2105 "), "{answer:?}");
        assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    }
}
