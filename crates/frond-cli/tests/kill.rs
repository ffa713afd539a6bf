//! Kills the loader at some batch; everything that it had acknowledged must be present.
//!
//! Promises: P1, P2, P3.

mod common;

use std::process::{Command, Stdio};

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
    assert!(out.contains("acknowledged: all are there"), "{before} batches, then: {out}");
    // And the load continues where it stopped.
    let there: usize = place
        .ok(&["scan", "STORE", "t", "--count"])
        .trim()
        .replace(',', "")
        .parse()
        .expect("a count");
    assert!(
        there >= before * 50 && there.is_multiple_of(50),
        "{there} rows after {before} batches"
    );
    if there < ROWS {
        place.ok(&[&load[..], &["--skip", &there.to_string()]].concat());
    }
    assert_eq!(place.ok(&["scan", "STORE", "t.by_text", "--count"]), "20,000\n");
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
