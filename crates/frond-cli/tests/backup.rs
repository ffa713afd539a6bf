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

/// One sentence says what is wrong with a base, and what to do; nothing is written.
#[test]
fn a_wrong_base_is_refused_with_a_plain_sentence() {
    let place = Place::loaded(100);
    let path = |name: &str| place.path(name).display().to_string();
    let (other, backup, free) = (path("other"), path("backup of other"), path("free"));
    let csv = place.write("other.csv", "id,v\n1,x\n");
    place.ok(&["load", &other, "t", &csv]);
    place.ok(&["backup", &other, &backup]);
    std::fs::create_dir(path("empty")).expect("created");
    let file = place.write("file", "no backup");
    let fails = |base: &str| {
        let error = place.fails(2, &["backup", "STORE", &free, "--base", base]);
        assert!(!place.path("free").exists());
        error
    };
    let error = fails(&backup);
    assert!(error.starts_with("FRD-1012 ") && !error.contains("free"), "{error}");
    assert!(error.contains("backup of other is not an earlier backup of "), "{error}");
    assert!(error.ends_with("or make a full one without --base"), "{error}");
    let error = fails(&path("empty"));
    let expected = "empty is a directory without a store: neither a full backup nor an increment";
    assert!(error.replace(": is a", " is a").ends_with(expected), "{error}");
    let error = fails(&file);
    assert!(error.ends_with("is neither the directory of a backup nor an increment"), "{error}");
    assert!(fails("/no/such").contains("/no/such: cannot open: No such file"));
    // What was written to since is a store of its own.
    place.ok(&["load", &backup, "t", &place.write("more.csv", "id,v\n2,x\n")]);
    assert!(fails(&backup).ends_with("it was written to since it was made"));
}

#[test]
fn the_help_of_backup_says_why_the_store_must_be_closed() {
    let help = Place::loaded(1).ok(&["backup", "--help"]);
    assert!(help.contains("must not be open elsewhere") && help.contains("checkpoint"), "{help}");
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
