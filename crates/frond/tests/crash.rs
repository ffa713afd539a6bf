//! Crashes at every call, in every state in which a disk can be left, and again during the recovery
//! (docs/safety.md §4.2). Prints crash points used ÷ calls made, and fails below 100 %.

use frond::Durability;
use frond_testkit::{
    DbEngine,
    campaign::{CrashPlan, CrashReport, crash_everywhere, hold, model_run_met},
    disk::CrashOptions,
    drive::Met,
    effort,
    ops::{Op, Swarm, generate, parse_script},
};

fn crash(name: &str, engine: &DbEngine, script: &[Op], seed: u64, plan: &CrashPlan) -> CrashReport {
    hold(name, seed, script, |script| crash_everywhere(engine, script, seed, plan))
}

fn demand(name: &str, report: &CrashReport) {
    println!("{name}: {report}");
    assert_eq!(report.percent_used(), 100, "a call was no crash point");
    assert!(report.lossy > 0, "no crash ever took anything");
}

/// Most crash bugs need three operations or fewer, so short scripts come first, with many states.
/// Promise: P1–P8.
#[test]
fn short_scripts_survive_crashes_everywhere() {
    let states = CrashOptions { tears_per_write: 8, random_subsets: 8, ..CrashOptions::default() };
    let plan = CrashPlan { states, nested_one_in: 0, ..CrashPlan::default() };
    let mut total = CrashReport::default();
    for seed in effort::seeds(8) {
        let engine = DbEngine::random(seed);
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 6)).without_restarts();
        total.add(&crash("short", &engine, &generate(seed, &swarm), seed, &plan));
    }
    demand("short scripts", &total);
}

/// Commits, checkpoints, a clean restart, and more commits, with tiny segments and memtables.
/// Promise: P1–P8.
#[test]
fn longer_scripts_survive_crashes_everywhere() {
    let states = CrashOptions {
        tears_per_write: 2,
        random_subsets: 2,
        class_states_max: 8,
        ..CrashOptions::default()
    };
    let plan = CrashPlan { states, nested_one_in: 0, ..CrashPlan::default() };
    let mut total = CrashReport::default();
    for seed in effort::seeds(4) {
        let engine = DbEngine::random(seed);
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 25)).without_restarts();
        let mut script = generate(seed, &swarm);
        script.push(Op::Reopen);
        script.extend(generate(seed + 1000, &Swarm { length: 8, ..swarm }));
        total.add(&crash("longer", &engine, &script, seed, &plan));
    }
    demand("longer scripts", &total);
}

/// A store that is closed and opened repeatedly, with little in between: this exercises the end and
/// start of the log. Promise: P1–P8.
#[test]
fn closing_and_opening_survive_crashes_everywhere() {
    let states = CrashOptions { tears_per_write: 2, random_subsets: 4, ..CrashOptions::default() };
    let plan = CrashPlan { states, nested_one_in: 0, ..CrashPlan::default() };
    let mut total = CrashReport::default();
    for seed in effort::seeds(3) {
        let engine = DbEngine::random(seed);
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 3)).without_restarts();
        let mut script = Vec::new();
        for round in 0..4 {
            script.extend(generate(seed + 1000 * round, &swarm));
            script.push(Op::Reopen);
        }
        total.add(&crash("closing", &engine, &script, seed, &plan));
    }
    demand("closing", &total);
}

/// A commit that has its place in the order, and work of the store before the commit is made.
const IN_ORDER: &str = "
    decide 3 rollback
    begin 3 committed default
    txn 3 put t0 k9000 v1*5
    txn 3 prepare 3
    txn 3 order
    checkpoint
    txn 3 commit
";

/// Batches and several concurrent transactions, some partly rolled back, some prepared. After a
/// crash, everything acknowledged is there completely. What was being committed, prepared or
/// decided is there completely or not at all, and nothing else is there. Prepared transactions have
/// their rows, and can be decided. Promise: P1–P4.
#[test]
fn transactions_survive_crashes_everywhere() {
    let states = CrashOptions {
        tears_per_write: 1,
        random_subsets: 1,
        class_states_max: 4,
        ..CrashOptions::default()
    };
    let plan = CrashPlan { states, nested_one_in: 0, ..CrashPlan::default() };
    let (mut total, mut met) = (CrashReport::default(), Met::default());
    for seed in effort::seeds(4) {
        let engine = DbEngine::random(seed);
        let mut swarm = DbEngine::with_long_values(Swarm::everything(120)).with_transactions(seed);
        // Few other operations, because each of their calls is tried, too.
        (swarm.bulk, swarm.clone, swarm.named, swarm.held, swarm.read) = (0, 0, 0, 0, 0);
        (swarm.catalog, swarm.commit) = (1, 10);
        swarm.rows = if seed % 2 == 0 { 0 } else { 20 };
        let swarm = swarm.without_restarts();
        let mut script = generate(seed, &swarm);
        script.extend(parse_script(IN_ORDER).unwrap());
        script.push(Op::Reopen);
        script.extend(generate(seed + 1000, &Swarm { length: 30, ..swarm }));
        met.add(model_run_met(&engine, &script, seed).unwrap_or_default().1);
        total.add(&crash("transactions", &engine, &script, seed, &plan));
    }
    demand("transactions", &total);
    println!("{met:?}");
    assert!(met.commits > 5 && met.busy > 20, "{met:?}");
    assert!(met.rows > 0 && met.ordered > 0, "{met:?}");
    assert!(met.prepared > 0 && met.decided > 0 && total.outlived > 0, "{met:?}");
}

/// A crash in recovery, a crash in the recovery from that, and once more. Promise: P5, P6.
#[test]
fn recovery_survives_crashes_in_recovery() {
    let plan =
        CrashPlan { states: CrashOptions::short(), nested_one_in: 120, ..CrashPlan::default() };
    let mut total = CrashReport::default();
    for (seed, level) in effort::seeds(3).zip([Durability::Sync, Durability::Os, Durability::Lazy])
    {
        let engine = DbEngine::tiny(level);
        let swarm = DbEngine::with_long_values(Swarm::everything(12)).without_restarts();
        total.add(&crash("nested", &engine, &generate(seed, &swarm), seed, &plan));
    }
    demand("nested", &total);
    assert!(total.nested > 0);
}
