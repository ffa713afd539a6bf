//! The commands that inspect a store.

mod common;

use std::os::unix::fs::MetadataExt;

use common::Place;

fn loaded() -> Place {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,a\n2,b\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id", "--index", "v"]);
    place
}

#[test]
fn stats_are_printed_as_text_and_json() {
    let place = loaded();
    let json = place.ok(&["stats", "STORE", "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(stats["seqno_visible"].as_u64().is_some_and(|seqno| seqno > 0), "{json}");
    assert!(stats["files_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{json}");
    assert!(stats["failed"].is_null());
    // Holes of the files take no space.
    let about = std::fs::read_dir(place.path("store")).expect("a directory");
    let on_disk =
        about.map(|file| file.expect("a file").metadata().expect("a file").blocks() * 512);
    assert_eq!(stats["files_disk_bytes"].as_u64(), Some(on_disk.sum()), "{json}");
    let text = place.ok(&["stats", "STORE"]);
    assert!(text.lines().count() < 20, "{text}");
    for start in ["tree ", "t ", "t.by_v ", "files ", "log ", "checkpoint ", "memory "] {
        assert!(text.lines().any(|line| line.starts_with(start)), "{start}: {text}");
    }
    let counters = place.ok(&["stats", "STORE", "--counters"]);
    assert!(counters.contains("\nseqno_visible "), "{counters}");
}

#[test]
fn without_a_subcommand_all_are_listed() {
    let place = Place::new();
    let alone = place.frond(&[]);
    assert_eq!((alone.code, alone.out.as_str()), (2, ""), "{alone:?}");
    for line in ["\nCommands:\n", "\n  load ", "\n  check "] {
        assert!(alone.err.contains(line), "{line}: {alone:?}");
    }
    assert!(place.frond(&["snapshot"]).err.contains("\n  create "));
}

#[test]
fn a_full_output_is_named() {
    let place = loaded();
    for words in [&["scan", &place.store(), "t"][..], &["help", "load"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("frond"));
        let ended = command.args(words).stdout(full).output().expect("it runs");
        let says = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(says, "frond: standard output: No space left on device (os error 28)\n");
        assert_eq!(ended.status.code(), Some(2));
    }
}

/// The size of rows is estimated from some leaves of a large tree; `inspect --columns` reads all of
/// them.
#[test]
fn encoding_savings_are_reported_by_tree_and_column() {
    let place = Place::new();
    let line = |id: u64| {
        let text = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        format!("{id},{text:016x},{:016x},{}\n", text.rotate_left(32), id % 7)
    };
    let rows: String = (0..200_000).map(line).collect();
    let file = place.write("t.csv", format!("id,a,b,v\n{rows}"));
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int", "--index", "v"]);
    let stats = place.ok(&["stats", "STORE", "--counters"]);
    let of_tree = |name: &str| {
        let start = stats.find(&format!("tree \"{name}\"\n")).unwrap_or_else(|| panic!("{stats}"));
        stats[start..].split("\ntree ").next().unwrap_or_default()
    };
    let tree = of_tree("t");
    assert!(tree.contains("  200000 rows in ") && tree.contains(", saved "), "{tree}");
    let key = tree.lines().find(|line| line.starts_with("    key 0")).unwrap_or_default();
    assert!(key.contains("saved 9"), "numbers one after the other: {key}");
    assert!(of_tree("t.by_v").contains("    key 1"), "{stats}");

    let json = |words: &[&str]| -> serde_json::Value {
        serde_json::from_str(place.ok(words).lines().next().unwrap_or_default()).expect("JSON")
    };
    let stats = json(&["stats", "STORE", "--json"]);
    let trees = stats["by_tree"].as_array().expect("trees");
    let tree = trees.iter().find(|tree| tree["tree"] == "t").expect("the tree");
    let columns = &tree["columns"];
    assert_eq!((&tree["rows"], &tree["leaves"]["blocks"]), (&200_000.into(), &0.into()));
    let number = |of: &serde_json::Value| of.as_u64().expect("a number");
    assert!((1..=5).contains(&number(&columns["leaves_read"])), "{columns}");
    assert!(number(&columns["leaves"]) > 5, "{columns}");

    let whole = json(&["inspect", "STORE", "t", "--columns", "--json"]);
    let whole = &whole["columns"];
    assert_eq!((&whole["leaves_read"], &whole["rows"]), (&columns["leaves"], &200_000.into()));
    let share = |of: &serde_json::Value| {
        number(&of["saved_bytes"]) as f64 / number(&of["row_bytes"]) as f64
    };
    assert_eq!(
        number(&whole["saved_bytes"]),
        number(&whole["row_bytes"]) - number(&whole["bytes"])
    );
    assert!(
        (share(whole) - share(columns)).abs() < 0.02,
        "{} and {}",
        share(whole),
        share(columns)
    );
    let text = place.ok(&["inspect", "STORE", "t", "--columns"]);
    assert!(text.lines().filter(|line| line.contains("saved ")).count() >= 4, "{text}");
}

/// Promise: P21.
#[test]
fn read_only_commands_change_no_byte() {
    let place = loaded();
    let files = || {
        let mut files: Vec<_> = std::fs::read_dir(place.path("store"))
            .expect("a directory")
            .map(|file| file.expect("a file").path())
            .map(|path| (path.clone(), std::fs::read(path).expect("readable")))
            .collect();
        files.sort();
        files
    };
    let before = files();
    for words in [
        &["get", "STORE", "t", "1"][..],
        &["scan", "STORE", "t.by_v"],
        &["dump", "STORE"],
        &["stats", "STORE"],
        &["log", "STORE", "--entries"],
    ] {
        place.ok(words);
        assert!(files() == before, "{words:?} changed the store");
    }
}

#[test]
fn log_prints_commits_and_their_entries() {
    let place = loaded();
    let log = place.ok(&["log", "STORE", "--entries"]);
    assert!(log.lines().last().is_some_and(|line| line.contains(" records in ")), "{log}");
}

/// The comma after a value ends it, whatever the type of the next column is.
#[test]
fn bounds_and_prefixes_fit_the_types_of_their_columns() {
    let place = Place::new();
    let file = place.write(
        "t.csv",
        "c,n,t,note\nD,1,2026-01-04T23:59:59Z,a\nDE,2,2026-01-05,b\nDE,3,2026-01-05 23:59:59.9,c\n\
         DE,10,2026-01-06T00:00:00Z,\n",
    );
    let load = ["load", "STORE", "t", &file, "--null", "", "--key", "c,n:int", "--index"];
    place.ok(&[&load[..], &["t:time,note"]].concat());
    let numbers = |words: &[&str]| {
        let found = place.ok(&[&["scan", "STORE", "t", "--columns", "n"], words].concat());
        found.lines().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(numbers(&["--prefix", "D"]), "1 2 3 10");
    assert_eq!(numbers(&["--prefix", "D,"]), "1");
    assert_eq!(numbers(&["--prefix", "DE,10,"]), "10");
    assert_eq!(numbers(&["--from", "DE,"]), "2 3 10");
    assert_eq!(numbers(&["--from", "DE,3,"]), "3 10");
    assert_eq!(numbers(&["--to", "DE,"]), "1");
    assert_eq!(numbers(&["--by", "t", "--prefix", "2026-01-05"]), "2 3");
    assert_eq!(numbers(&["--by", "t", "--prefix", "2026-01-05,"]), "2");
    assert_eq!(numbers(&["--by", "t", "--prefix", "2026-01"]), "1 2 3 10");
    assert_eq!(numbers(&["--by", "t", "--prefix", "2026-01-05T23:59"]), "3");
    assert_eq!(numbers(&["--by", "note", "--prefix", "\\N"]), "10");
    for (bound, says) in [
        ("DE,1", "\"n\" is a number, which has no prefix"),
        ("DE,1,2", "the key has 2 columns (c, n:int), but 3 values were given"),
        ("\\N", "key column \"c\" cannot be null"),
        ("DE,x,", "column \"n\" has \"x\", which is not a 64-bit integer"),
    ] {
        let refused = place.fails(2, &["scan", "STORE", "t", "--prefix", bound]);
        assert!(refused.starts_with(says), "{refused}");
    }
    // Greater times first.
    place.ok(&["drop", "STORE", "t"]);
    place.ok(&[&load[..], &["t:time:desc"]].concat());
    assert_eq!(numbers(&["--by", "t", "--prefix", "2026-01-05"]), "3 2");
    // Null is written as it is printed.
    place.ok(&["put", "STORE", "t", "c=DE", "n=2", "t=\\N", "note=x"]);
    assert_eq!(numbers(&["--by", "t", "--prefix", "\\N"]), "2");
    // Numbered rows.
    place.ok(&["load", "STORE", "rows", &file]);
    assert_eq!(place.ok(&["scan", "STORE", "rows", "--prefix", "2,", "--count"]), "1\n");
    assert!(place.fails(2, &["scan", "STORE", "rows", "--prefix", "2"]).starts_with("\"row\" is"));
}

#[test]
fn a_directory_without_a_store_is_reported() {
    let place = Place::new();
    place.write("file", "x");
    let dir = place.path("").display().to_string();
    let file = place.path("file").display().to_string();
    for place_of in [dir.as_str(), file.as_str(), "/no/such/place"] {
        for command in ["stats", "dump", "log"] {
            let message = place.fails(2, &[command, place_of]);
            assert!(message.contains(place_of.trim_end_matches('/')), "{message}");
        }
    }
}

#[test]
fn store_in_use_names_its_owner() {
    let place = Place::new();
    let db = frond::Db::open(place.path("store"), frond::Options::new()).expect("a store");
    let message = place.fails(2, &["stats", "STORE"]);
    let owner = std::process::id().to_string();
    assert!(message.starts_with("FRD-3101 ") && message.contains(&owner), "{message}");
    db.close().expect("closed");
}

/// Commands that only read work next to each other, and keep those that write out.
#[test]
fn commands_that_read_share_a_store() {
    use std::io::Read;
    let place = Place::new();
    // More than a pipe holds, so that the scan is still running.
    let rows: String = (0..20_000).map(|id| format!("{id},some text\n")).collect();
    let file = place.write("t.csv", format!("id,v\n{rows}"));
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int"]);
    let mut scan = std::process::Command::new(assert_cmd::cargo::cargo_bin("frond"))
        .args(["scan", &place.store(), "t"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut output = scan.stdout.take().expect("a pipe");
    output.read_exact(&mut [0; 100]).expect("the first rows");
    assert!(place.ok(&["get", "STORE", "t", "7"]).contains("some text"));
    assert!(place.ok(&["stats", "STORE"]).contains("t"));
    place.ok(&["check", "STORE"]);
    let message = place.fails(2, &["load", "STORE", "t", &file, "--key", "id:int", "--replace"]);
    assert!(message.starts_with("FRD-3101 ") && message.contains("read-only"), "{message}");
    output.read_to_end(&mut Vec::new()).expect("the other rows");
    assert!(scan.wait().expect("it ends").success());
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int", "--replace"]);
}

#[test]
fn a_closed_pipe_ends_output_without_an_error() {
    let place = Place::new();
    let rows: String = (0..20_000).map(|id| format!("{id},some text\n")).collect();
    let file = place.write("t.csv", format!("id,v\n{rows}"));
    place.ok(&["load", "STORE", "t", &file]);
    let frond = assert_cmd::cargo::cargo_bin("frond");
    let script = format!("'{}' dump '{}' | head -n 1", frond.display(), place.store());
    let output = std::process::Command::new("bash")
        .args(["-o", "pipefail", "-c", &script])
        .output()
        .expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
}

#[test]
fn commands_read_a_named_snapshot() {
    let place = loaded();
    let then = place.ok(&["dump", "STORE"]);
    place.ok(&["snapshot", "create", "STORE", "monday"]);
    let file = place.write("more.csv", "id,v\n2,z\n3,c\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id", "--index", "v", "--replace"]);
    let now = place.ok(&["dump", "STORE"]);
    assert_ne!(now, then);
    assert_eq!(place.ok(&["dump", "STORE", "--snapshot", "monday"]), then);
    let get = place.ok(&["get", "--snapshot", "monday", "STORE", "t", "2"]);
    assert_eq!(place.ok(&["get", "STORE", "t", "2", "--snapshot", "monday"]), get);
    assert_eq!(place.fails(1, &["get", "STORE", "t", "-2"]), "no such key in \"t\"");
    assert_eq!(place.fails(1, &["get", "STORE", "t", "--", "-x"]), "no such key in \"t\"");
    assert!(get.contains('b') && !get.contains('z'), "{get}");
    assert!(place.ok(&["get", "STORE", "t", "2"]).contains('z'));
    place.fails(1, &["get", "--snapshot=monday", "STORE", "t", "3"]);
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count", "--snapshot", "monday"]), "2\n");
    let list = place.ok(&["snapshot", "list", "STORE"]);
    assert!(list.starts_with("monday\t") && list.lines().count() == 1, "{list}");
    assert!(place.fails(2, &["snapshot", "create", "STORE", "monday"]).contains("monday"));
    place.ok(&["check", "STORE"]);
    place.ok(&["snapshot", "drop", "STORE", "monday"]);
    assert!(place.fails(2, &["dump", "STORE", "--snapshot", "monday"]).contains("monday"));
    assert_eq!(place.ok(&["dump", "STORE"]), now);
}

/// The indexes of a snapshot are those that it has, whichever were added or dropped since.
#[test]
fn a_named_snapshot_keeps_its_indexes() {
    let place = Place::new();
    let file = place.write("t.csv", "id,a,b\n1,x,y\n2,z,u\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int", "--index", "a"]);
    let then = place.ok(&["dump", "STORE"]);
    place.ok(&["snapshot", "create", "STORE", "s"]);
    place.ok(&["index", "STORE", "t", "b"]);
    let at_s = |words: &[&str]| place.ok(&[words, &["--snapshot", "s"]].concat());
    assert_eq!(at_s(&["dump", "STORE"]), then);
    let loads_whole = |name: &str| {
        let dump = place.write("dump", at_s(&["dump", "STORE"]));
        let copy = place.path(name).display().to_string();
        assert_eq!(place.ok(&["load", &copy, "--dump", &dump]), "4 entries in 2 trees\n");
        place.ok(&["put", &copy, "t", "id=3", "a=c", "b=d"]);
        place.ok(&["delete", &copy, "t", "1"]);
        place.ok(&["load", &copy, "t", &file, "--key", "id:int", "--replace"]);
        assert_eq!(place.ok(&["scan", &copy, "t", "--by", "a", "--columns", "id"]), "3\n1\n2\n");
        place.ok(&["index", &copy, "t", "b"]);
        assert_eq!(place.ok(&["drop", &copy, "t"]), "dropped \"t\" and its 2 indexes\n");
        assert_eq!(place.ok(&["trees", &copy, "--json"]), "");
    };
    loads_whole("added");
    for index in ["t.by_a", "t.by_b"] {
        place.ok(&["drop", "STORE", index]);
    }
    assert_eq!(at_s(&["scan", "STORE", "t", "--by", "a", "--prefix", "z,"]), "2\tz\tu\n");
    assert_eq!(at_s(&["scan", "STORE", "t.by_a"]), "x\t1\nz\t2\n");
    assert_eq!(at_s(&["get", "STORE", "t.by_a", "x", "1"]), "a: x\nid: 1\n");
    assert_eq!(
        place.fails(2, &["scan", "STORE", "t", "--by", "b", "--snapshot", "s"]),
        "no index on \"b\"; indexed columns: a"
    );
    loads_whole("dropped");
    // A tree of the same name with other columns.
    place.ok(&["drop", "STORE", "t"]);
    let other = place.write("other.csv", "name,age\nada,36\n");
    place.ok(&["load", "STORE", "t", &other, "--key", "name"]);
    assert_eq!(at_s(&["get", "STORE", "t", "1"]), "id: 1\na: x\nb: y\n");
    assert_eq!(at_s(&["get", "STORE", "t.by_a", "x", "1"]), "a: x\nid: 1\n");
    assert_eq!(at_s(&["export", "STORE", "t"]), "id,a,b\n1,x,y\n2,z,u\n");
    loads_whole("replaced");
}

/// A tree that a program has renamed since.
#[test]
fn a_named_snapshot_keeps_the_names_of_trees() {
    let place = Place::loaded(3);
    place.ok(&["snapshot", "create", "STORE", "s"]);
    let db = frond::Db::open(place.path("store"), frond::Options::new()).expect("a store");
    db.rename_tree("t", "other").expect("renamed");
    db.rename_tree("t.by_v", "other.by_v").expect("renamed");
    db.close().expect("closed");
    let rows = place.ok(&["scan", "STORE", "t", "--by", "v", "--count", "--snapshot", "s"]);
    assert_eq!(rows, "3\n");
    let index = place.ok(&["scan", "STORE", "t.by_v", "--limit", "1", "--snapshot", "s"]);
    assert_eq!(index, "some text of 0\t0\n");
    let message = place.fails(2, &["scan", "STORE", "t", "--by", "x", "--snapshot", "s"]);
    assert_eq!(message, "no index on \"x\"; indexed columns: v");
}
