//! Tests of the harness on a toy store: a correct one passes every campaign, and each bug is found
//! by the campaign that claims to find it.

mod toy;

use frond::Durability;
use frond_testkit::{
    campaign::*,
    disk::SimVfs,
    drive::{Engine, Errors, Failure, Run},
    model::Model,
    ops::{Op, Swarm, generate, parse_script, script_text, shrink},
};
use toy::{Bug, Toy};

fn right(level: Durability) -> Toy {
    Toy { level, bug: None }
}

fn wrong(level: Durability, bug: Bug) -> Toy {
    Toy { level, bug: Some(bug) }
}

const LEVELS: [Durability; 3] = [Durability::Sync, Durability::Os, Durability::Lazy];

fn script(seed: u64, length: usize) -> Vec<Op> {
    generate(seed, &Swarm::random(seed, length).without_restarts())
}

fn crash<E: Engine>(engine: &E, seeds: u64, nested: u64) -> Result<CrashReport, Failure> {
    let mut total = CrashReport::default();
    let plan = CrashPlan { nested_one_in: nested, ..CrashPlan::default() };
    for seed in 0..seeds {
        let mut ops = script(seed, 25);
        ops.push(Op::Reopen);
        ops.extend(script(seed + 1000, 10));
        total.add(&crash_everywhere(engine, &ops, seed, &plan)?);
    }
    Ok(total)
}

#[test]
fn a_correct_store_survives_crashes_everywhere() {
    for level in LEVELS {
        let report = crash(&right(level), 6, 10).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{level:?}: {report}");
        assert_eq!(report.percent_used(), 100);
        assert!(report.nested > 0);
        assert!(report.lossy > 0, "no crash ever took anything");
    }
}

#[test]
fn a_correct_store_matches_the_model_through_restarts() {
    let mut lost = 0;
    for seed in 0..40 {
        let level = LEVELS[seed as usize % 3];
        let ops = generate(seed, &Swarm::random(seed, 150));
        lost += hold("model", seed, &ops, |ops| model_run(&right(level), ops, seed));
    }
    assert!(lost > 0, "no crash of any script ever took anything");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let ops = generate(5, &Swarm::everything(100));
    let first = same_answers(&right(Durability::Sync), &ops, 5).unwrap();
    let again = same_answers(&right(Durability::Sync), &ops, 5).unwrap();
    assert_eq!(first, again);
}

#[test]
fn a_correct_store_reports_every_failing_call() {
    let ops = script(1, 20);
    for level in LEVELS {
        let report = fail_each_call(&right(level), &ops, 1, &FaultPlan::default());
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        println!("{level:?}: {report}");
        assert!(report.struck > 100 && report.reported > 50, "{report}");
    }
}

#[test]
fn a_correct_store_survives_a_full_disk() {
    let ops: Vec<Op> = script(4, 60).into_iter().filter(|op| *op != Op::Checkpoint).collect();
    let report = fill_the_disk(&right(Durability::Sync), &ops, 4, 4096);
    let report = report.unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    assert!(report.refused > 0);
}

const PLAN: SweepPlan = SweepPlan {
    bits: 300,
    every_bit_of_first: 16,
    zeroed: 20,
    swapped: 10,
    stale: 10,
    cut: 20,
    untouched: true,
};

fn sweep(engine: &Toy) -> Result<SweepReport, Failure> {
    let vfs = SimVfs::new();
    let mut run = Run::start(engine, vfs.clone(), 3, Model::new(), Errors::Fail)?;
    run.script(&script(3, 30))?;
    run.reopen()?;
    let older = vfs.disk();
    run.script(&script(9, 30))?;
    run.close()?;
    sweep_damage(engine, &vfs.disk(), &older, run.model(), 3, &PLAN)
}

#[test]
fn a_correct_store_refuses_damage() {
    let report = sweep(&right(Durability::Sync)).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{report}");
    assert!(report.refused > 300, "{report}");
}

#[test]
fn every_bug_is_caught_by_its_campaign() {
    use Bug::*;
    let sync = Durability::Sync;
    let by_crash = [
        (AckBeforeSync, sync),
        (NoDirectorySync, sync),
        (NoParentSync, sync),
        (NoChecksum, Durability::Os),
        (AppendBehindTail, sync),
        (CheckpointNotSynced, sync),
        (OldLogRemovedFirst, sync),
        (TrustPageCache, Durability::Os),
        (TimerForgotten, Durability::Lazy),
        (BatchInTwoRecords, sync),
    ];
    for (bug, level) in by_crash {
        let failure = crash(&wrong(level, bug), 6, 10).expect_err(&format!("{bug:?} not caught"));
        println!("{bug:?}: {failure}\n");
    }
    for bug in [RetrySync, IgnoreWriteError] {
        let ops = script(1, 20);
        let caught = fail_each_call(&wrong(sync, bug), &ops, 1, &FaultPlan::default());
        println!("{bug:?}: {}\n", caught.expect_err(&format!("{bug:?} not caught")));
    }
    let ops = parse_script("create t0\ncommit sync: put t0 k1 v1*9").unwrap();
    let caught = fail_each_call(&wrong(sync, ReadErrorIsEnd), &ops, 1, &FaultPlan::default());
    println!("{ReadErrorIsEnd:?}: {}\n", caught.expect_err("ReadErrorIsEnd not caught"));
    println!("{}\n", sweep(&wrong(sync, DamageIsEmpty)).expect_err("DamageIsEmpty not caught"));
    let caught = fill_the_disk(&wrong(sync, FullStopsForEver), &script(4, 60), 4, 4096);
    println!("{}\n", caught.expect_err("FullStopsForEver not caught"));
    let toy = wrong(sync, SnapshotSeesLater);
    let ops = (0..20).map(|seed| generate(seed, &Swarm::everything(150)));
    assert!(ops.into_iter().any(|ops| model_run(&toy, &ops, 1).is_err()));
}

#[test]
fn a_failure_is_shrunk_to_a_short_script() {
    let toy = wrong(Durability::Sync, Bug::AckBeforeSync);
    let plan = CrashPlan { nested_one_in: 0, ..CrashPlan::default() };
    let ops = script(2, 40);
    let small = shrink(&ops, 150, |ops| crash_everywhere(&toy, ops, 2, &plan).is_err());
    let text = script_text(&small);
    assert!(small.len() <= 3, "{text}");
    assert!(crash_everywhere(&toy, &parse_script(&text).unwrap(), 2, &plan).is_err());
}
