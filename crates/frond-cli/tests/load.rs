//! `frond load`, and what other commands show of the result.

mod common;

use common::Place;

const PACKAGES: &str = "\
Package: zsh
Version: 5.9
Section: shells
Description: shell with lots of features
 It is large.

Package: bash
Version: 5.2
Section: shells

Package: acl
Version: 2.3
";

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn control_paragraphs_become_rows_and_an_index() {
    let place = Place::new();
    let file = place.write("packages.control", PACKAGES);
    let out = place.ok(&["load", "STORE", "pkgs", &file, "--key", "Package", "--index", "Section"]);
    assert!(out.starts_with("3 rows (168 B) into \"pkgs\" with 1 index"), "{out}");
    assert_eq!(
        place.ok(&["get", "STORE", "pkgs", "zsh"]),
        "Package: zsh\nVersion: 5.9\nSection: shells\nDescription: shell with lots of features\n It \
         is large.\n"
    );
    assert_eq!(
        lines(&place.ok(&["scan", "STORE", "pkgs", "--columns", "Package,Version"])),
        ["acl\t2.3", "bash\t5.2", "zsh\t5.9"]
    );
    assert_eq!(
        lines(&place.ok(&["scan", "STORE", "pkgs.by_Section"])),
        ["\\N\tacl", "shells\tbash", "shells\tzsh"]
    );
    assert_eq!(
        place.ok(&["scan", "STORE", "pkgs.by_Section", "--prefix", "shells", "--count"]),
        "2\n"
    );
    assert_eq!(
        place.ok(&["scan", "STORE", "pkgs", "--reverse", "--limit", "1", "--columns", "Package"]),
        "zsh\n"
    );
    assert_eq!(place.ok(&["scan", "STORE", "pkgs", "--from", "b", "--to", "z", "--count"]), "1\n");
}

#[test]
fn fields_that_first_appear_late_are_kept() {
    let place = Place::new();
    let text = "{\"id\":1,\"a\":\"x\"}\n{\"id\":2,\"b\":\"late\"}\n";
    let file = place.write("rows.jsonl", text);
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int", "--batch", "1"]);
    assert_eq!(place.ok(&["get", "STORE", "t", "2"]), "id: 2\nb: late\n");
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t"])), ["1\tx", "2\t\\N\tb: late"]);
}

#[test]
fn integers_sort_numerically() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n10,a\n-3,b\n9,c\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int"]);
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t"])), ["-3\tb", "9\tc", "10\ta"]);
    let file = place.write("t2.csv", "id,v\n11,a\nten,b\n");
    assert_eq!(
        place.fails(2, &["load", "STORE", "t", &file]),
        "line 3: column \"id\" has \"ten\", which is not a 64-bit integer; nothing was loaded"
    );
}

#[test]
fn rows_without_a_key_are_numbered() {
    let place = Place::new();
    let csv = b"a,b\nx,1\nx,1\n";
    for _ in 0..2 {
        let answer = place.frond_reading(&["load", "STORE", "t", "--format", "csv"], csv);
        assert_eq!(answer.code, 0, "{answer:?}");
    }
    assert_eq!(
        lines(&place.ok(&["scan", "STORE", "t"])),
        ["0\tx\t1", "1\tx\t1", "2\tx\t1", "3\tx\t1"]
    );
}

#[test]
fn malformed_first_batch_creates_nothing() {
    let place = Place::new();
    for (name, text, says) in [
        ("a.csv", "a,b\n1,2\n1,2,3\n", "line 3: the record has 3 fields instead of 2"),
        ("b.csv", "a,b\n1,\"2\n", "line 2: a quoted field is never closed"),
        (
            "c.jsonl",
            "{\"a\":1}\n{\"a\"\n",
            "line 2: not a JSON object: EOF while parsing an object at column 0",
        ),
        ("d.control", "A: 1\nB\n", "line 2: expected a field (Name: value) or a continuation line"),
    ] {
        let file = place.write(name, text);
        let message = place.fails(2, &["load", "STORE", "t", &file]);
        assert!(message.starts_with(says.split(" at column").next().expect("words")), "{message}");
        assert!(message.ends_with("; nothing was loaded"), "{message}");
        assert!(!place.path("store").exists());
    }
}

#[test]
fn failing_batch_is_not_committed() {
    let place = Place::new();
    let file = place.write("t.csv", "id\n1\n2\n3\n4\n5\nbad,row\n");
    assert_eq!(
        place.fails(2, &["load", "STORE", "t", &file, "--key", "id", "--batch", "2"]),
        "line 7: the record has 2 fields instead of 1; 4 rows before it were loaded (continue with \
         --skip 4)"
    );
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "4\n");
    place.write("t.csv", "id\n1\n2\n3\n4\n5\n6\n");
    place.ok(&["load", "STORE", "t", &file, "--skip", "4"]);
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "6\n");
}

#[test]
fn a_duplicate_key_stops_the_load_at_its_line() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,a\n2,b\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id", "--index", "v"]);
    let again = place.write("again.csv", "id,v\n3,c\n2,z\n");
    assert_eq!(
        place.fails(2, &["load", "STORE", "t", &again]),
        "line 3: a row with this key already exists (use --replace to replace it); nothing was loaded"
    );
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "2\n");
    assert_eq!(place.ok(&["scan", "STORE", "t.by_v", "--count"]), "2\n");
    // A duplicate within one batch fails as well.
    let twice = place.write("twice.csv", "id,v\n7,c\n7,d\n");
    assert!(place.fails(2, &["load", "STORE", "t", &twice]).starts_with("line 3: a row with"));
}

#[test]
fn replaced_rows_leave_no_index_entries() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,a\n2,b\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id", "--index", "v"]);
    // One replaces an earlier row, then itself within the batch.
    let again = place.write("again.csv", "id,v\n2,y\n3,c\n2,z\n2,b\n1,a\n");
    place.ok(&["load", "STORE", "t", &again, "--replace"]);
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t"])), ["1\ta", "2\tb", "3\tc"]);
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t.by_v"])), ["a\t1", "b\t2", "c\t3"]);
}

/// `--bulk` creates the same trees as batches do, completely or not at all.
#[test]
fn bulk_creates_the_same_trees_as_batches() {
    let place = Place::new();
    let mut text = "id,v\n".to_owned();
    for n in 0..3000 {
        text += &format!("{},{}x\n", n * 7919 % 3000, n % 17);
    }
    let file = place.write("t.csv", &text);
    let call = ["load", "STORE", "t", &file, "--key", "id:int", "--index", "v"];
    place.ok(&call);
    let in_batches = place.ok(&["dump", "STORE"]);
    std::fs::remove_dir_all(place.path("store")).unwrap();
    let said = place.ok(&[&call[..], &["--bulk", "--memory", "4MB"]].concat());
    assert!(said.starts_with("3000 rows"), "{said}");
    assert_eq!(place.ok(&["dump", "STORE"]), in_batches);
    place.ok(&["check", "STORE"]);
    // It can be loaded into as usual.
    let more = place.write("more.csv", "id,v\n5000,x\n");
    place.ok(&["load", "STORE", "t", &more]);
    let again = place.fails(2, &[&call[..], &["--bulk"]].concat());
    assert_eq!(again, "tree \"t\" already exists; --bulk loads only new trees; nothing was loaded");
    let twice = place.write("twice.csv", "id,v\n7,c\n8,x\n7,d\n");
    let said =
        place.fails(2, &["load", "STORE", "u", &twice, "--key", "id", "--index", "v", "--bulk"]);
    assert_eq!(said, "two rows have the key 7; nothing was loaded");
    let bad = place.write("bad.csv", format!("{text}1\n"));
    let said =
        place.fails(2, &["load", "STORE", "u", &bad, "--key", "id:int", "--index", "v", "--bulk"]);
    assert_eq!(said, "line 3002: the record has 1 field instead of 2; nothing was loaded");
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t", "--count"])), ["3001"]);
    assert!(!place.ok(&["dump", "STORE"]).lines().any(|line| line.starts_with('u')));
    let ack = ["load", "STORE", "u", &file, "--bulk", "--ack", "x"];
    assert!(place.fails(2, &ack).contains("cannot be used with"));
}

#[test]
fn a_ledger_verifies_that_acknowledged_rows_exist() {
    let place = Place::new();
    let text: String = (0..25).map(|id| format!("{id},v{}\n", id % 3)).collect();
    let file = place.write("t.csv", format!("id,v\n{text}"));
    let ledger = place.path("ledger").display().to_string();
    let load = ["load", "STORE", "t", &file, "--key", "id", "--index", "v", "--batch", "10"];
    place.ok(&[&load[..], &["--ack", &ledger]].concat());
    let verify = [&load[..], &["--verify", &ledger]].concat();
    assert_eq!(
        place.ok(&verify),
        "25 rows in 3 batches were acknowledged: all are present, with 25 index entries, and none of \
         the next batch\n"
    );
    // As if the loader had been killed before it could write the last line: this is still fine.
    place.write("ledger", "acknowledged\t10\t10\nacknowledged\t10\t20\nacknow");
    assert!(place.ok(&verify).ends_with("and all 5 rows of the next batch\n"));
    // Half a batch more than acknowledged, or less than acknowledged, is not.
    place.write("ledger", "acknowledged\t10\t10\n");
    let message = place.fails(1, &verify);
    assert!(
        message.starts_with("\"t\" has 25 rows; 10 were acknowledged, and the next batch has 10"),
        "{message}"
    );
    place.write("ledger", "acknowledged\t30\t30\n");
    assert_eq!(place.fails(1, &verify), "the ledger has 30 rows, but the input has 25");
    place.write("t.csv", format!("id,v\n{}", text.replace("7,v1", "7,other")));
    place.write("ledger", "acknowledged\t10\t10\n");
    assert_eq!(
        place.fails(1, &verify),
        "line 9: the row is missing or differs (the options of the load, such as --null, must be given \
         here, too)"
    );
}

#[test]
fn invalid_calls_print_one_line_and_change_nothing() {
    let place = Place::new();
    let file = place.write("t.csv", "a,b\n1,2\n");
    let plain = place.write("t.txt", "a,b\n");
    for (words, says) in [
        (
            &["load", "STORE", "t", &file, "--key", "c"][..],
            "--key: no column \"c\"; existing columns: a, b",
        ),
        (&["load", "STORE", "t", &file, "--index", "a,a"], "--index names column \"a\" twice"),
        (
            &["load", "STORE", "t", &plain],
            "the format of the input is unknown; use --format csv, tsv, json or control",
        ),
        (
            &["load", "STORE", "t", "/no/such.csv"],
            "cannot read /no/such.csv: No such file or directory (os error 2)",
        ),
        (
            &["load", "STORE", "t", &file, "--batch", "0"],
            "invalid value '0' for '--batch <ROWS>': must be a number, 1 or more (see `frond help`)",
        ),
        (
            &["load", "STORE", "t", &file, "--durability", "maybe"],
            "invalid value 'maybe' for '--durability <LEVEL>': must be sync, os or lazy (see `frond help`)",
        ),
        (
            &["load", "STORE", "t", &file, "--memory", "lots"],
            "invalid value 'lots' for '--memory <SIZE>': \"lots\" is not a size such as 64M (see `frond help`)",
        ),
        (
            &["load", "STORE", "t", &file, "--frobnicate"],
            "unexpected argument '--frobnicate' found (see `frond help`)",
        ),
        (
            &["load"],
            "the following required arguments were not provided: <DIR> <TREE> (see `frond help`)",
        ),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate' (see `frond help`)"),
    ] {
        let message = place.fails(2, words);
        assert!(message.starts_with(says.trim_end_matches(" (see `frond help`)")), "{message}");
    }
    let entries = |place: &Place| std::fs::read_dir(place.path("store")).map_or(0, Iterator::count);
    let before = entries(&place);
    for words in [&["get", "STORE", "t", "1"][..], &["scan", "STORE", "t"], &["dump", "STORE"]] {
        assert_eq!(place.frond(words).code, 2, "{words:?}");
        assert_eq!(entries(&place), before, "{words:?} wrote something");
    }
}

#[test]
fn later_loads_must_use_the_columns_of_the_first() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,a\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id"]);
    let other = place.write("u.csv", "id,w\n2,b\n");
    assert_eq!(
        place.fails(2, &["load", "STORE", "t", &other]),
        "line 2: the tree has no column \"w\"; nothing was loaded"
    );
    assert_eq!(
        place.fails(2, &["load", "STORE", "t", &file, "--key", "v"]),
        format!(
            "tree \"t\" exists with a different key: id, not v; omit --key to add rows to it, or \
             drop it with `frond drop {} t`",
            place.store()
        )
    );
    let reordered = place.write("r.csv", "v,id\nb,2\n");
    place.ok(&["load", "STORE", "t", &reordered]);
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t"])), ["1\ta", "2\tb"]);
}

/// A load that fails with its first rows leaves no tree behind; rows that were deleted leave no
/// definition.
#[test]
fn a_tree_without_rows_can_be_defined_again() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,7\n2,x\n");
    let load = |key: &str, index: &str| {
        place.frond(&["load", "STORE", "t", &file, "--key", key, "--index", index])
    };
    let failed = load("id:int", "v:int");
    assert!(failed.err.contains("nothing was loaded"), "{failed:?}");
    assert_eq!(place.ok(&["dump", "STORE"]), "\t\t{\"trees\":0,\"entries\":0}\n");
    assert_eq!(load("id:int", "v").code, 0);
    let refused = load("id:int", "v:desc");
    assert!(refused.err.contains("indexes: v, not v:desc; omit --index"), "{refused:?}");
    place.ok(&["delete", "STORE", "t", "1"]);
    place.ok(&["delete", "STORE", "t", "2"]);
    assert_eq!(load("id", "v:desc").code, 0);
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t.by_v"])), ["x\t2", "7\t1"]);
    // Two rows of the first batch have one key.
    let twice = place.write("twice.csv", "id\n1\n1\n");
    place.fails(2, &["load", "STORE", "u", &twice, "--key", "id"]);
    assert!(!place.ok(&["dump", "STORE"]).contains("\tu\t"));
}

/// Export, load and export again give the same file, whatever bytes the values have.
#[test]
fn an_exported_file_is_loaded_as_it_was() {
    let place = Place::new();
    let bytes = b"id,v,w\n1,\xff,\\xff\n2,\"a\"\"b\nc\",\n3, x ,\"\"\n4,\\,\x01\\x\n";
    let file = place.write("t.csv", bytes);
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int", "--null", ""]);
    for (name, null) in [("out.csv", &["--null", ""][..]), ("out.tsv", &[])] {
        let out = place.path(name).display().to_string();
        place.ok(&["export", "STORE", "t", &out]);
        let load = ["load", "STORE", name, &out, "--key", "id:int"];
        place.ok(&[&load[..], null].concat());
        assert_eq!(place.ok(&["scan", "STORE", name]), place.ok(&["scan", "STORE", "t"]));
    }
    let refused = place.frond(&["export", "STORE", "t", "--format", "json"]);
    let says = "frond: \"v\" has \\xff, which is not UTF-8 and cannot be written as JSON; use \
                --format csv\n";
    assert_eq!((refused.code, refused.err.as_str()), (2, says));
    place.ok(&["delete", "STORE", "t", "1"]);
    let out = place.path("out.jsonl").display().to_string();
    place.ok(&["export", "STORE", "t", &out]);
    place.ok(&["load", "STORE", "json", &out, "--key", "id:int"]);
    let scan = |tree| place.ok(&["scan", "STORE", tree, "--format", "json"]);
    assert_eq!(scan("json"), scan("t"));
}

/// Rows without a key are numbered again; their numbers are no column.
#[test]
fn exported_rows_without_a_key_are_loaded_with_the_same_columns() {
    let place = Place::new();
    let file = place.write("t.csv", "v\nb\na\n");
    place.ok(&["load", "STORE", "t", &file]);
    let copy = place.path("copy.csv").display().to_string();
    place.ok(&["export", "STORE", "t", &copy]);
    assert_eq!(std::fs::read_to_string(&copy).expect("text"), "v\nb\na\n");
    place.ok(&["load", "STORE", "u", &copy]);
    assert_eq!(place.ok(&["scan", "STORE", "u"]), "0\tb\n1\ta\n");
    let nulls = place.write("nulls.jsonl", "{\"v\":\"\"}\n{\"v\":null}\n");
    place.ok(&["load", "STORE", "nulls", &nulls]);
    let refused = place.frond(&["export", "STORE", "nulls"]);
    assert!(refused.code == 2 && refused.err.contains("use --format json"), "{refused:?}");
    assert_eq!(place.ok(&["export", "STORE", "nulls", "--format", "json"]), "{\"v\":\"\"}\n{}\n");
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let place = Place::new();
    let file = place.write("t.csv", b"id,v\n1,a\n2,\xff\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id"]);
    let out = place.path("out.json").display().to_string();
    let files = || std::fs::read_dir(place.path("")).expect("a directory").count();
    let before = files();
    place.fails(2, &["export", "STORE", "t", &out]);
    assert_eq!(files(), before);
    place.write("out.json", "mine");
    let taken = place.fails(2, &["export", "STORE", "t", &out]);
    assert!(taken.ends_with("out.json already exists; use --overwrite to replace it"), "{taken}");
    place.fails(2, &["export", "STORE", "t", &out, "--overwrite"]);
    assert_eq!(std::fs::read_to_string(place.path("out.json")).expect("a file"), "mine");
    place.ok(&["delete", "STORE", "t", "2"]);
    place.ok(&["export", "STORE", "t", &out, "--overwrite"]);
    let rows = std::fs::read_to_string(place.path("out.json")).expect("a file");
    assert_eq!(rows, "{\"id\":\"1\",\"v\":\"a\"}\n");
    assert_eq!(files(), before + 1);
    let nowhere = place.fails(2, &["export", "STORE", "t", "/no/such/out.csv"]);
    assert!(nowhere.ends_with("the directory /no/such does not exist"), "{nowhere}");
}

#[test]
fn integers_may_have_zeros_and_a_plus() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v:x\n0004,a\n+5,b\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id:int"]);
    assert_eq!(lines(&place.ok(&["scan", "STORE", "t"])), ["4\ta", "5\tb"]);
    assert!(place.ok(&["get", "STORE", "t", "004"]).contains("v:x: a"));
    let blank = place.write("blank.csv", "id,v:x\n 6,a\n");
    let refused = place.fails(2, &["load", "STORE", "t", &blank]);
    assert!(
        refused.contains("\" 6\", which is not a 64-bit integer: write it without"),
        "{refused}"
    );
    let large = place.write("large.csv", "id,f\n1,1e400\n");
    let refused = place.fails(2, &["load", "STORE", "u", &large, "--key", "f:float"]);
    assert!(refused.contains("is not a 64-bit floating-point number"), "{refused}");
}

#[test]
fn stores_are_not_created_among_other_files() {
    let place = Place::new();
    let file = place.write("t.csv", "id\n1\n");
    std::fs::create_dir(place.path("store")).expect("created");
    place.write("store/Cargo.toml", "");
    for words in [&["load", "STORE", "t", &file][..], &["put", "STORE", "t", "k", "v", "--create"]]
    {
        let refused = place.fails(2, words);
        assert!(
            refused.contains("is not a store and contains other files: Cargo.toml;"),
            "{refused}"
        );
    }
    assert_eq!(std::fs::read_dir(place.path("store")).expect("a directory").count(), 1);
    std::fs::remove_file(place.path("store/Cargo.toml")).expect("removed");
    std::fs::create_dir(place.path("store/lost+found")).expect("created");
    place.ok(&["load", "STORE", "t", &file]);
}

#[test]
fn indexes_are_added_to_loaded_trees() {
    let place = Place::loaded(3000);
    assert_eq!(place.ok(&["drop", "STORE", "t.by_v"]), "dropped \"t.by_v\"\n");
    assert_eq!(
        place.ok(&["index", "STORE", "t", "v,id:int:desc"]),
        "3000 rows indexed in \"t.by_v\", \"t.by_id\"\n"
    );
    let last = ["scan", "STORE", "t", "--by", "id", "--limit", "1", "--columns", "id"];
    assert_eq!(place.ok(&last), "2999\n");
    place.ok(&["put", "STORE", "t", "id=3000", "v=zzz"]);
    assert_eq!(place.ok(&last), "3000\n");
    assert_eq!(place.ok(&["scan", "STORE", "t", "--by", "v", "--prefix", "zzz", "--count"]), "1\n");
    let fresh = Place::loaded(3000);
    fresh.ok(&["index", "STORE", "t", "id:int:desc"]);
    fresh.ok(&["put", "STORE", "t", "id=3000", "v=zzz"]);
    assert_eq!(place.ok(&["dump", "STORE", "t.by_v"]), fresh.ok(&["dump", "STORE", "t.by_v"]));
    assert!(place.fails(2, &["index", "STORE", "t", "w"]).contains("no column \"w\""));
    assert!(place.fails(2, &["index", "STORE", "t.by_v", "v"]).contains("was not created by"));
    place.ok(&["check", "STORE"]);
}

#[test]
fn non_text_bytes_are_loaded_and_shown_escaped() {
    let place = Place::new();
    let file = place.write("t.csv", b"id,v\nk\xff,\x00\xfe\\\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id"]);
    assert_eq!(place.ok(&["scan", "STORE", "t"]), "k\\xff\t\\x00\\xfe\\\\\n");
    assert_eq!(
        lines(&place.ok(&["dump", "STORE", "t"]))[1],
        "t\tk\\xff\\x00\\x01\t\\x01\\x03\\x00\\xfe\\\\"
    );
}

#[test]
fn get_reports_missing_keys_trees_and_columns() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,a\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id"]);
    assert_eq!(place.fails(1, &["get", "STORE", "t", "2"]), "no such key in \"t\"");
    assert_eq!(place.fails(2, &["get", "STORE", "u", "2"]), "no tree \"u\"; existing trees: t");
    assert_eq!(
        place.fails(2, &["get", "STORE", "t", "2", "3"]),
        "the key has 1 column (id), but 2 values were given"
    );
    assert_eq!(
        place.fails(2, &["scan", "STORE", "t", "--columns", "w"]),
        "no column \"w\"; existing columns: id, v"
    );
}

/// A dump that was cut off, or put together from two, is refused as a whole.
#[test]
fn an_incomplete_dump_loads_nothing() {
    let place = Place::loaded(3);
    let copy = place.path("copy").display().to_string();
    let dump = place.ok(&["dump", "STORE"]);
    for end in 0..dump.len() {
        let cut = place.write("cut", &dump[..end]);
        place.fails(2, &["load", &copy, "--dump", &cut]);
    }
    let lines: Vec<&str> = dump.lines().collect();
    for gone in 0..lines.len() {
        let others = lines.iter().enumerate().filter(|(at, _)| *at != gone);
        let text: String = others.map(|(_, line)| format!("{line}\n")).collect();
        let file = place.write("less", &text);
        place.fails(2, &["load", &copy, "--dump", &file]);
    }
    let twice = place.write("twice", format!("{dump}{dump}"));
    assert!(place.fails(2, &["load", &copy, "--dump", &twice]).contains("has ended before"));
    let whole = place.write("whole", &dump);
    place.ok(&["load", &copy, "--dump", &whole]);
    assert_eq!(place.ok(&["dump", &copy]), dump);
}

/// A dump that names an index without having it is refused; a tree that is dumped alone does not
/// name its indexes.
#[test]
fn a_dump_without_an_index_loads_nothing() {
    let place = Place::loaded(3);
    let copy = place.path("copy").display().to_string();
    let dump = place.ok(&["dump", "STORE"]);
    let kept = dump.lines().filter(|line| !line.contains("t.by_v\t") && !line.starts_with("\t\t"));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    let less = place.write("less", format!("{kept}\t\t{{\"trees\":1,\"entries\":3}}\n"));
    assert_eq!(
        place.fails(2, &["load", &copy, "--dump", &less]),
        "the dump has tree \"t\" without its index \"t.by_v\"; nothing was loaded"
    );
    assert_eq!(place.ok(&["trees", &copy, "--json"]), "");
    let alone = place.write("alone", place.ok(&["dump", "STORE", "t"]));
    place.ok(&["load", &copy, "--dump", &alone]);
    place.ok(&["put", &copy, "t", "id=9", "v=new"]);
    place.ok(&["index", &copy, "t", "v"]);
    assert_eq!(place.ok(&["scan", &copy, "t", "--by", "v", "--count"]), "4\n");
}

/// Another program may have dropped an index.
#[test]
fn a_tree_with_a_missing_index_can_be_dropped() {
    let place = Place::loaded(3);
    place.ok(&["index", "STORE", "t", "id"]);
    let without_an_index = || {
        let db = frond::Db::open(place.path("store"), frond::Options::new()).expect("a store");
        db.drop_tree("t.by_v").expect("dropped");
        db.close().expect("closed");
    };
    without_an_index();
    assert_eq!(place.ok(&["drop", "STORE", "t"]), "dropped \"t\" and its index\n");
    assert_eq!(place.ok(&["trees", "STORE", "--json"]), "");
    // Without rows, it can be defined again.
    let file = place.write("t.csv", "id,v\n1,x\n");
    place.ok(&["load", "STORE", "t", &file, "--key", "id", "--index", "v"]);
    place.ok(&["delete", "STORE", "t", "1"]);
    without_an_index();
    place.ok(&["load", "STORE", "t", &file, "--key", "id"]);
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "1\n");
}

#[test]
fn dump_is_sorted_by_tree_and_key() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n2,b\n1,a\n");
    place.ok(&["load", "STORE", "z", &file, "--key", "id", "--index", "v"]);
    place.ok(&["load", "STORE", "a", &file, "--key", "id"]);
    let dump = place.ok(&["dump", "STORE"]);
    let words: Vec<(&str, &str)> = dump
        .lines()
        .filter(|line| !line.starts_with('\t')) // describes a tree
        .map(|line| {
            let mut words = line.split('\t');
            (words.next().expect("a tree"), words.next().expect("a key"))
        })
        .collect();
    assert_eq!(words.len(), 6);
    assert!(words.is_sorted());
}

/// Text cannot give `load` a field that is no column, nor a line without any text.
#[test]
fn exported_text_is_refused_if_it_could_not_be_loaded() {
    let place = Place::new();
    let more = place.write("more.jsonl", "{\"id\":1,\"b\":\"x\"}\n{\"id\":2,\"late\":\"y\"}\n");
    place.ok(&["load", "STORE", "more", &more, "--key", "id:int", "--batch", "1"]);
    let empty = place.write("empty.jsonl", "{\"v\":\"\"}\n");
    place.ok(&["load", "STORE", "empty", &empty]);
    for tree in ["more", "empty"] {
        let refused = place.frond(&["export", "STORE", tree, "--format", "text"]);
        assert!(refused.code == 2 && refused.err.ends_with("use --format json\n"), "{refused:?}");
    }
    assert_eq!(lines(&place.ok(&["scan", "STORE", "more"])), ["1\tx", "2\t\\N\tlate: y"]);
    let null = place.write("null.jsonl", "{\"v\":null}\n");
    place.ok(&["load", "STORE", "null", &null]);
    let text = place.path("null.tsv").display().to_string();
    place.ok(&["export", "STORE", "null", &text]);
    place.ok(&["load", "STORE", "copy", &text]);
    let json = ["export", "STORE", "copy", "--format", "json"];
    assert_eq!(place.ok(&json), "{}\n");
}

/// Only an index of the tree is left over from an interrupted load.
#[test]
fn a_tree_with_the_name_of_an_index_is_not_dropped() {
    let place = Place::new();
    let file = place.write("t.csv", "id,v\n1,a\n");
    place.ok(&["put", "STORE", "t.by_v", "k", "v", "--create"]);
    place.ok(&["delete", "STORE", "t.by_v", "k"]);
    for more in [&[][..], &["--bulk"]] {
        let load = ["load", "STORE", "t", &file, "--key", "id:int", "--index", "v"];
        let says = place.fails(2, &[&load[..], more].concat());
        assert!(says.contains("\"t.by_v\" exists and is not an index of \"t\""), "{says}");
    }
    assert_eq!(place.ok(&["scan", "STORE", "t.by_v", "--count"]), "0\n");
}

#[test]
fn put_with_wrong_arguments_creates_nothing() {
    let place = Place::new();
    let says = "pass a key and a value: \"t\" has no columns";
    assert_eq!(place.fails(2, &["put", "STORE", "t", "only", "--create"]), says);
    assert!(!place.path("store").exists());
    place.ok(&["put", "STORE", "other", "k", "v", "--create"]);
    assert_eq!(place.fails(2, &["put", "STORE", "t", "a", "\\xg", "--create"]).lines().count(), 1);
    let none = place.fails(2, &["scan", "STORE", "t"]);
    assert!(none.contains("no tree \"t\""), "{none}");
}

/// The number of rows in the message is that of the rows that this load has loaded.
#[test]
fn rows_that_were_skipped_are_not_counted_as_loaded() {
    let place = Place::new();
    let file = place.write("t.csv", "id\n1\n2\n3\nbad,row\n");
    let load = ["load", "STORE", "t", &file, "--key", "id", "--batch", "1", "--skip"];
    let says = place.fails(2, &[&load[..], &["2"]].concat());
    assert!(says.ends_with("; 1 row before it was loaded (continue with --skip 3)"), "{says}");
    let says = place.fails(2, &[&load[..], &["3"]].concat());
    assert!(says.ends_with("; nothing was loaded"), "{says}");
}

/// A hint about CSV does not help with other formats; and both ways of loading name the line.
#[test]
fn a_value_of_the_wrong_type_in_an_indexed_column_is_reported_with_its_line() {
    let place = Place::new();
    for (name, text, hint) in [
        ("t.csv", "id,n\n1,\n", "; use --null '' to load empty CSV fields as null"),
        ("t.tsv", "id\tn\n1\t\n", ""),
    ] {
        let file = place.write(name, text);
        let load = ["load", "STORE", "t", &file, "--key", "id:int", "--index", "n:int"];
        for more in [&[][..], &["--bulk"]] {
            assert_eq!(
                place.fails(2, &[&load[..], more].concat()),
                format!(
                    "line 2: column \"n\" has \"\", which is not a 64-bit integer{hint}; nothing was \
                     loaded"
                )
            );
        }
    }
}

#[test]
fn columns_named_twice_and_types_given_twice_are_refused() {
    let place = Place::new();
    let file = place.write("t.csv", "1,2\n");
    let says = place.fails(2, &["load", "STORE", "t", &file, "--columns", "a,b,a"]);
    assert_eq!(says, "--columns: \"a\" occurs twice");
    for (key, wrong) in [("a:int:time", "has two types"), ("a:desc:desc", "has :desc twice")] {
        let says = place.fails(2, &["load", "STORE", "t", &file, "--columns", "a,b", "--key", key]);
        assert!(says.contains(wrong), "{says}");
    }
    place.ok(&["load", "STORE", "t", &file, "--columns", "a,b", "--key", "a:desc:int"]);
}
