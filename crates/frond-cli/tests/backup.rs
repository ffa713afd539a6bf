//! A backup is a store; a restored backup equals the original.

mod common;

use common::Place;

#[test]
fn backup_and_restore_give_the_same_entries() {
    let place = Place::loaded(5000);
    let (copy, back) = (place.path("copy"), place.path("back"));
    let (copy, back) = (copy.display().to_string(), back.display().to_string());
    place.ok(&["backup", "STORE", &copy]);
    let restored = place.ok(&["restore", &copy, &back]);
    assert!(restored.contains(" pages, ") && restored.contains(" restored to "), "{restored}");
    for store in [&copy, &back] {
        place.ok(&["check", store]);
    }
    let before = place.ok(&["dump", "STORE"]);
    assert_eq!(place.ok(&["dump", &copy]), before);
    assert_eq!(place.ok(&["dump", &back]), before);
    // It is an independent store, and can be written to.
    let more = place.write("more.csv", "id,v\n9999999,x\n");
    place.ok(&["load", &back, "t", &more]);
    assert_eq!(place.ok(&["scan", &back, "t", "--count"]), "5001\n");
    assert_eq!(place.ok(&["dump", "STORE"]), before);
}

#[test]
fn failed_backups_overwrite_nothing_and_leave_nothing() {
    let place = Place::loaded(5000);
    let taken = place.write("taken", "x");
    let free = place.path("free").display().to_string();
    assert!(place.fails(2, &["backup", "STORE", &taken]).ends_with("taken already exists"));
    assert!(place.fails(2, &["backup", &taken, &free]).contains("taken"));
    assert!(place.fails(2, &["restore", "/no/such", &free]).contains("/no/such"));
    let db = frond::Db::open(place.path("store"), frond::Options::new()).expect("a store");
    assert!(place.fails(2, &["backup", "STORE", &free]).starts_with("FRD-3101 "));
    drop(db);
    assert!(!place.path("free").exists() && !place.path("free.new").exists());
}

#[test]
fn increments_bring_a_backup_up_to_date() {
    let place = Place::loaded(5000);
    let path = |name: &str| place.path(name).display().to_string();
    let (full, back) = (path("full"), path("back"));
    let increments = [path("monday"), path("tuesday")];
    place.ok(&["backup", "STORE", &full]);
    let mut base = &full;
    for (day, increment) in increments.iter().enumerate() {
        let more = place.write("more.csv", format!("id,v\n{},of day {day}\n", 100_000 + day));
        place.ok(&["load", "STORE", "t", &more]);
        place.ok(&["backup", "STORE", increment, "--base", base]);
        base = increment;
    }
    let [monday, tuesday] = &increments;
    let wrong = place.fails(2, &["restore", &full, &back, "--increment", tuesday]);
    assert!(wrong.starts_with("FRD-1012 "), "{wrong}");
    let taken = place.fails(2, &["backup", "STORE", monday, "--base", &full]);
    assert!(taken.ends_with("monday already exists"), "{taken}");
    let both = ["--increment", monday, "--increment", tuesday];
    let verified = place.ok(&[&["restore", &full, "--dry-run"], &both[..]].concat());
    assert!(verified.contains(" verified: everything through commit "), "{verified}");
    assert!(!place.path("back").exists());
    place.ok(&[&["restore", &full, &back], &both[..]].concat());
    assert_eq!(place.ok(&["dump", &back]), place.ok(&["dump", "STORE"]));
    place.ok(&["check", &back]);
}
