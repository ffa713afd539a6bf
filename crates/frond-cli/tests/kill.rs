//! Kills the loader at some batch; everything that it had acknowledged must be present.
//!
//! Promises: P1, P2, P3.

mod common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Child, Command, Stdio},
};

use common::Place;

const ROWS: usize = 20_000;

fn killed_after(batches: usize, durability: &str) {
    let place = Place::new();
    let rows: String = (0..ROWS)
        .map(|id| format!("{},{},text of row {id}\n", id * 7919 % ROWS, id % 100))
        .collect();
    let file = place.write("t.csv", format!("id,group,text\n{rows}"));
    let ledger = place.write("ledger", "");
    let store = place.store();
    let load = [
        "load",
        &store,
        "t",
        &file,
        "--key",
        "id:int",
        "--index",
        "group,text",
        "--batch",
        "50",
        "--durability",
        durability,
        "--memory",
        "16M",
    ];
    let mut loader = Command::new(assert_cmd::cargo::cargo_bin("frond"))
        .args(load)
        .args(["--ack", &ledger])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let acknowledged = || std::fs::read_to_string(&ledger).expect("readable").lines().count();
    while acknowledged() < batches && loader.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    loader.kill().expect("a child");
    loader.wait().expect("a child");
    let before = acknowledged();
    let out = place.ok(&[&load[..], &["--verify", &ledger]].concat());
    assert!(out.contains("acknowledged: all are present"), "{before} batches, then: {out}");
    // And the load continues where it stopped.
    let count = place.ok(&["scan", "STORE", "t", "--count"]);
    let there: usize = count.trim().parse().expect("a count");
    assert!(
        there >= before * 50 && there.is_multiple_of(50),
        "{there} rows after {before} batches"
    );
    if there < ROWS {
        place.ok(&[&load[..], &["--skip", &there.to_string()]].concat());
    }
    assert_eq!(place.ok(&["scan", "STORE", "t.by_text", "--count"]), "20000\n");
}

#[test]
fn synced_rows_survive_a_kill_early_and_late() {
    for batches in [1, 40, 150, 300] {
        killed_after(batches, "sync");
    }
}

#[test]
fn rows_handed_to_the_kernel_survive_a_kill_early_and_late() {
    for batches in [2, 20, 200, 350] {
        killed_after(batches, "os");
    }
}

/// Starts a load from standard input, in batches of two rows.
fn load_from_pipe(place: &Place, ledger: &str) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("frond"))
        .args(["load", &place.store(), "t", "--format", "csv", "--key", "id:int"])
        .args(["--batch", "2", "--ack", ledger])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn wait_for_batches(ledger: &str, batches: usize) {
    while std::fs::read_to_string(ledger).expect("readable").lines().count() < batches {
        std::thread::yield_now();
    }
}

fn send(signal: &str, to: &Child) {
    let pid = to.id().to_string();
    assert!(Command::new("kill").args([signal, &pid]).status().expect("it runs").success());
}

/// An interrupted load does not wait for more input; the rows that it has are committed.
#[test]
fn an_interrupted_load_commits_its_batch_and_says_how_to_continue() {
    for signal in ["-INT", "-TERM"] {
        let place = Place::new();
        let ledger = place.write("ledger", "");
        let mut loader = load_from_pipe(&place, &ledger);
        let mut input = loader.stdin.take().expect("a pipe");
        input.write_all(b"id\n1\n2\n3\n4\n5\n").expect("it reads");
        wait_for_batches(&ledger, 2);
        send(signal, &loader);
        let mut errors = BufReader::new(loader.stderr.take().expect("a pipe"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("text");
        assert_eq!(line, "frond: stopping; press Ctrl-C again to stop immediately\n");
        line.clear();
        errors.read_to_string(&mut line).expect("text");
        assert_eq!(line, "frond: interrupted: 5 rows loaded; continue with --skip 5\n");
        assert_eq!(loader.wait().expect("a child").code(), Some(130));
        drop(input);
        assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "5\n");
        // The ledger of a load that continues counts on.
        let file = place.write("t.csv", "id\n1\n2\n3\n4\n5\n6\n7\n");
        let load = ["load", "STORE", "t", &file, "--batch", "2"];
        place.ok(&[&load[..], &["--ack", &ledger, "--skip", "5"]].concat());
        let lines = std::fs::read_to_string(&ledger).expect("text");
        assert!(lines.ends_with("acknowledged\t1\t5\nacknowledged\t2\t7\n"), "{lines}");
        let verified = place.ok(&[&load[..], &["--verify", &ledger]].concat());
        assert!(verified.starts_with("7 rows in 4 batches were acknowledged"), "{verified}");
    }
}

/// A terminal that has closed does not keep a load from committing its batch.
#[test]
fn an_interrupted_load_ends_although_nothing_reads_its_messages() {
    let place = Place::new();
    let ledger = place.write("ledger", "");
    let mut loader = load_from_pipe(&place, &ledger);
    drop(loader.stderr.take());
    let mut input = loader.stdin.take().expect("a pipe");
    input.write_all(b"id\n1\n2\n3\n").expect("it reads");
    wait_for_batches(&ledger, 1);
    send("-INT", &loader);
    assert_eq!(loader.wait().expect("a child").code(), Some(130));
    drop(input);
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "3\n");
}

/// A load that waits for its first rows has nothing to commit; `--bulk` and `--dump` load all or
/// nothing.
#[test]
fn an_interrupted_load_says_what_was_loaded() {
    let place = Place::loaded(3);
    let dump = place.ok(&["dump", "STORE"]);
    let half = &dump[..dump.len() / 2];
    let copy = place.path("copy").display().to_string();
    let csv = ["load", &copy, "t", "--format", "csv"];
    let nothing = "interrupted; nothing was loaded";
    for (words, text, what) in [
        (&csv[..], "id\n", nothing),
        (&[&csv[..], &["--bulk"]].concat(), "id\n1\n", nothing),
        (&["load", &copy, "--dump", "-"], half, nothing),
        (&csv[..], "id\n1\n", "interrupted: 1 row loaded; continue with --skip 1"),
    ] {
        let mut loader = Command::new(assert_cmd::cargo::cargo_bin("frond"))
            .args(words)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = loader.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("it reads");
        // A signal that comes before it is caught ends the command without a word.
        std::thread::sleep(std::time::Duration::from_millis(500));
        send("-INT", &loader);
        let ended = loader.wait_with_output().expect("a child");
        let says = String::from_utf8_lossy(&ended.stderr);
        assert!(says.ends_with(&format!("\nfrond: {what}\n")), "{words:?}: {says}");
        assert_eq!(ended.status.code(), Some(130));
        drop(input);
    }
}

/// Opening a FIFO waits for a program that writes to it; one signal is enough to end that, too.
#[test]
fn an_interrupted_load_does_not_wait_for_a_writer() {
    let place = Place::new();
    let fifo = place.path("fifo").display().to_string();
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("it runs").success());
    let load = |file: &str| {
        Command::new(assert_cmd::cargo::cargo_bin("frond"))
            .args(["load", &place.store(), "t", file, "--format", "csv"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts")
    };
    let loader = load(&fifo);
    std::thread::sleep(std::time::Duration::from_millis(500));
    send("-INT", &loader);
    let ended = loader.wait_with_output().expect("a child");
    let says = String::from_utf8_lossy(&ended.stderr);
    assert!(says.ends_with("\nfrond: interrupted; nothing was loaded\n"), "{says}");
    assert_eq!(ended.status.code(), Some(130));
    // With a writer, it is read to its end.
    let loader = load(&fifo);
    std::fs::write(&fifo, "id\n1\n2\n").expect("it is read");
    assert!(loader.wait_with_output().expect("a child").status.success());
    assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "2\n");
}

/// An export that is interrupted leaves no file, and one that ends leaves a complete one.
#[test]
fn an_interrupted_export_leaves_no_file() {
    let place = Place::loaded(20_000);
    let (out, unfinished) = (place.path("out.csv"), place.path("out.csv.unfinished"));
    let mut export = Command::new(assert_cmd::cargo::cargo_bin("frond"))
        .args(["export", &place.store(), "t", &out.display().to_string()])
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    while !unfinished.exists() && export.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    let _ = Command::new("kill").args(["-INT", &export.id().to_string()]).status();
    let code = export.wait().expect("a child").code();
    assert!(!unfinished.exists());
    match code {
        Some(130) => assert!(!out.exists()),
        Some(0) => assert_eq!(std::fs::read_to_string(&out).expect("text").lines().count(), 20_001),
        other => panic!("exit code {other:?}"),
    }
}
