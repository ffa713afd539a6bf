//! Kills the loader at some batch; everything that it had acknowledged must be present.
//!
//! Promises: P1, P2, P3.

mod common;

use std::{
    io::{BufRead, BufReader, Read, Write},
    process::{Command, Stdio},
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

/// The loader waits for more input when it is interrupted; the rows that it has are committed.
#[test]
fn an_interrupted_load_commits_its_batch_and_says_how_to_continue() {
    for signal in ["-INT", "-TERM"] {
        let place = Place::new();
        let ledger = place.write("ledger", "");
        let mut loader = Command::new(assert_cmd::cargo::cargo_bin("frond"))
            .args(["load", &place.store(), "t", "--format", "csv", "--key", "id:int"])
            .args(["--batch", "2", "--ack", &ledger])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = loader.stdin.take().expect("a pipe");
        input.write_all(b"id\n1\n2\n3\n4\n5\n").expect("it reads");
        while std::fs::read_to_string(&ledger).expect("readable").lines().count() < 2 {
            std::thread::yield_now();
        }
        let pid = loader.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("it runs").success());
        let mut errors = BufReader::new(loader.stderr.take().expect("a pipe"));
        let mut line = String::new();
        errors.read_line(&mut line).expect("text");
        assert_eq!(line, "frond: stopping; press Ctrl-C again to stop immediately\n");
        input.write_all(b"6\n7\n").expect("it reads on");
        drop(input);
        line.clear();
        errors.read_to_string(&mut line).expect("text");
        assert_eq!(line, "frond: interrupted: 6 rows loaded; continue with --skip 6\n");
        assert_eq!(loader.wait().expect("a child").code(), Some(130));
        assert_eq!(place.ok(&["scan", "STORE", "t", "--count"]), "6\n");
    }
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
