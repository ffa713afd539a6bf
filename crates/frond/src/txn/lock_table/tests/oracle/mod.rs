//! Random histories on few keys, each owner in a thread, held against the definition (`model.rs`, `gaps.rs`).
//!
//! One call is made at a time. Behind each, the definition says who is granted and who waits, and whom for;
//! who is ended is the table's choice, and must lie on a cycle that is there. Nothing is asserted about time,
//! but that a wait ends by the simulated clock when the definition says so.
//!
//! `game.rs` makes calls and compares what they come to; `steps.rs` throws what is called.

mod beyond;
mod game;
mod gaps;
mod model;
mod steps;

use std::ops::Bound;

use super::*;
use game::Game;

/// What a history is about.
#[derive(Clone, Copy, Debug)]
struct Rules {
    owners: usize,
    keys: u64,
    /// Writes of owners leave memory.
    spills: bool,
    steps: usize,
}

/// Few enough that they meet all the time.
const FEW: Rules = Rules { owners: 5, keys: 3, spills: false, steps: 150 };

/// A key's bytes. Numbers ascend as the bytes do; the first is the least key there is.
fn bytes(key: u8) -> Vec<u8> {
    match key.checked_sub(1) {
        None => Vec::new(),
        Some(behind) if behind % 2 == 0 => vec![behind / 2],
        Some(behind) => vec![behind / 2, 0],
    }
}

/// A bound in a table's terms.
fn bound(bound: Bound<u8>) -> Bound<Vec<u8>> {
    bound.map(bytes)
}

/// Plays so many histories, times `FROND_EFFORT`; what their waits came to.
fn play(rules: Rules, histories: u64) -> LockStats {
    let effort: u64 =
        std::env::var("FROND_EFFORT").ok().and_then(|effort| effort.parse().ok()).unwrap_or(1);
    let mut ended = LockStats::default();
    for seed in 1..=histories * effort {
        let stats = Game::new(rules, seed).play();
        ended.waits += stats.waits;
        ended.deadlocks += stats.deadlocks;
        ended.timeouts += stats.timeouts;
        ended.interrupts += stats.interrupts;
    }
    println!("{ended:?}");
    ended
}

#[test]
fn random_histories_are_as_the_definition_says() {
    let ended = play(FEW, 60);
    assert!(ended.deadlocks > 0 && ended.timeouts > 0 && ended.interrupts > 0);
}

/// Rule: I47.
#[test]
fn rows_beyond_memory_are_held_as_before() {
    let ended = play(Rules { spills: true, ..FEW }, 60);
    assert!(ended.deadlocks > 0 && ended.timeouts > 0 && ended.interrupts > 0);
}

#[test]
fn keys_ascend_as_their_numbers() {
    assert!((0..99).all(|key| bytes(key) < bytes(key + 1)));
}
