//! Tests of Frond against the model: every answer of long random scripts, under many sizes of
//! everything, with crashes, kills and clean restarts in between (docs/safety.md §4.3).

use frond::Durability;
use frond_testkit::{
    DbEngine,
    campaign::{hold, model_run, model_run_met, same_answers},
    drive::Met,
    effort,
    ops::{Swarm, generate, parse_script},
};

/// Promise: P1, P2, P3, P25.
#[test]
fn the_store_matches_the_model_for_all_sizes_and_restarts() {
    let (mut runs, mut operations, mut lost) = (0, 0, 0);
    for seed in effort::seeds(150) {
        let engine = DbEngine::random(seed);
        let script = generate(seed, &DbEngine::with_long_values(Swarm::random(seed, 250)));
        lost += hold("model", seed, &script, |script| model_run(&engine, script, seed));
        runs += 1;
        operations += script.len();
    }
    println!("{runs} scripts, {operations} operations, {lost} commits taken by crashes");
    assert!(lost > 0, "no crash of any script ever took anything");
}

/// One list of operations under many configurations: all give the model's answers, so they agree
/// with each other. Promise: P2.
#[test]
fn one_script_gives_one_result_in_many_configurations() {
    for seed in effort::seeds(4) {
        let script = generate(seed, &DbEngine::with_long_values(Swarm::everything(400)));
        for variant in 0..12 {
            let engine = DbEngine::random(variant * 1000 + seed);
            hold("metamorphic", seed, &script, |script| model_run(&engine, script, variant));
        }
    }
}

/// Batches of hundreds of rows: trees of several levels, many segments, many checkpoints.
#[test]
fn large_scripts_make_deep_trees() {
    for seed in effort::seeds(6) {
        let mut swarm = DbEngine::with_long_values(Swarm::everything(400));
        (swarm.keys, swarm.batch_entries_max, swarm.commit) = (3000, 150, 80);
        (swarm.trees, swarm.drain) = (2, 8);
        let script = generate(seed, &swarm);
        let engine = DbEngine::tiny(Durability::Lazy);
        hold("deep", seed, &script, |script| model_run(&engine, script, seed));
    }
}

/// Several concurrent transactions of all levels, some of them prepared, and batches: what each
/// call reads, which one blocks which, which one conflicts, and what the store holds in the end,
/// also after crashes. Promise: P1, P2, P4, P23, P25.
#[test]
fn transactions_match_the_model_for_all_sizes_and_restarts() {
    let (mut operations, mut lost, mut met) = (0, 0, Met::default());
    for seed in effort::seeds(200) {
        let engine = DbEngine::random(seed);
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 300)).with_transactions(seed);
        let script = generate(seed, &swarm);
        let run =
            hold("transactions", seed, &script, |script| model_run_met(&engine, script, seed));
        (lost, operations) = (lost + run.0, operations + script.len());
        met.add(run.1);
    }
    println!("{operations} operations, {lost} commits taken by crashes, {met:?}");
    assert!(lost > 0, "no crash of any script ever took anything");
    let Met { commits, busy, conflicts, waits, prepared, decided, outlived, undone, .. } = met;
    let Met { rows, taken, ordered, .. } = met;
    let counts = [commits, busy, conflicts, waits, prepared, decided, outlived, undone];
    assert!(counts.iter().all(|count| *count > 0), "{met:?}");
    assert!(rows > 100 && taken > 10 && ordered > 10, "{met:?}");
}

/// A seed replays a run exactly: the calls and their bytes are equal.
#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in effort::seeds(10) {
        let engine = DbEngine::random(seed);
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 150));
        let script = generate(seed, &swarm);
        same_answers(&engine, &script, seed)
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    }
}

/// Scripts with which a campaign once failed, kept for good.
#[test]
fn scripts_that_once_failed_pass() {
    replay("tests/seeds");
}

fn replay(folder: &str) {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let Ok(files) = std::fs::read_dir(seeds) else { return };
    for path in files.map(|file| file.unwrap().path()) {
        if path.extension().is_none_or(|extension| extension != "seed") {
            continue;
        }
        let script = parse_script(&std::fs::read_to_string(&path).unwrap());
        let script = script.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        for seed in 0..24 {
            let engine =
                if seed == 0 { DbEngine::tiny(Durability::Sync) } else { DbEngine::random(seed) };
            model_run(&engine, &script, seed)
                .unwrap_or_else(|failure| panic!("{}: {failure}", path.display()));
        }
    }
}
