//! Random histories of real threads, at each level, at mixed levels, and across power cuts: the
//! checker finds nothing that the levels forbid (docs/safety.md §4.6). That it would find
//! violations is shown by bad histories (`frond_testkit::history`), by anomalies that levels allow,
//! and by planted bugs (`planted.rs`).

use std::sync::Arc;

use frond::{
    Db, Durability, Error, Isolation, Options, TreeOptions, Txn, TxnOptions,
    check::CheckMode,
    internals::io::{Env, Workers},
};
use frond_testkit::{
    DbEngine, Dice,
    disk::{CrashOptions, SimVfs, crash_states},
    effort,
    history::{Anomaly, Call, History, Outcome, Recorder, Workload},
};

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// Random small sizes: committed rows go through memtables, buffers and leaves while the history
/// runs, and transactions spill, many times each.
fn options(vfs: &SimVfs, durability: Durability, seed: u64) -> Options {
    let env = Env { vfs: Arc::new(vfs.clone()), workers: Workers::Threads(2), ..Env::real() };
    let DbEngine { mut tuning, cache_bytes, .. } = DbEngine::random(seed);
    tuning.shape = DbEngine::tiny(durability).tuning.shape;
    if let Some(limits) = &mut tuning.limits {
        limits.memtable_bytes = limits.memtable_bytes.min(8 << 10);
        limits.checkpoint_millis = limits.checkpoint_millis.min(300);
        if seed.is_multiple_of(2) {
            // A few rows: some of a transaction's rows are spilled, and some are not.
            limits.own_writes_bytes = 200;
        }
    }
    Options::new().cache_size(cache_bytes).durability(durability).tuning(tuning).env(env)
}

fn open(vfs: &SimVfs, durability: Durability, seed: u64) -> Db {
    Db::open("/store", options(vfs, durability, seed)).unwrap()
}

/// Work that a history caused below the memtables.
#[derive(Default, Debug)]
struct Below {
    applies: u64,
    leaf_flushes: u64,
    checkpoints: u64,
    blocks_read: u64,
}

impl Below {
    fn note(&mut self, db: &Db) {
        let stats = db.stats();
        let get = |name| stats.get(name).unwrap();
        self.applies += get("apply_batches");
        self.leaf_flushes += get("leaf_flushes");
        self.checkpoints += get("checkpoints");
        self.blocks_read += get("cache_hits") + get("cache_misses");
    }

    fn assert_enough_work(&self) {
        let Self { applies, leaf_flushes, checkpoints, blocks_read } = *self;
        assert!(applies > 10 && checkpoints > 3, "{self:?}");
        assert!(leaf_flushes > 0 && blocks_read > 100, "{self:?}");
    }
}

fn demand_nothing_forbidden(what: &str, history: &History) {
    let findings = history.check();
    let told: Vec<_> = findings.iter().take(5).map(ToString::to_string).collect();
    // The participants, with everything they did.
    let named = told.first().map_or("", |told| told.as_str()).split(" (session");
    let named = named.filter_map(|told| told.rsplit('T').next()?.parse::<usize>().ok());
    for at in named.collect::<std::collections::BTreeSet<_>>() {
        println!("T{at}: {:?}", history.txns[at]);
    }
    assert!(findings.is_empty(), "{what}: {} findings\n{}", findings.len(), told.join("\n"));
    println!("{what}: {} transactions, {} committed", history.txns.len(), history.committed());
}

fn record(levels: &[Isolation], txns: u32, seed: u64, below: &mut Below) -> History {
    let db = open(&SimVfs::new(), Durability::Lazy, seed);
    let recorder = Recorder::new();
    recorder.run(&db, &Workload::of(levels, txns, seed)).unwrap();
    let history = recorder.finish(&db).unwrap();
    assert_eq!(db.lock_stats().locks, 0);
    assert_eq!(db.lock_stats().ranges, 0);
    assert_eq!(db.prepared(), []);
    below.note(&db);
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
    history
}

/// Promise: P23.
#[test]
fn no_isolation_level_shows_an_anomaly_it_forbids() {
    for seed in effort::seeds(1) {
        for (at, level) in (0..).zip(LEVELS) {
            let below = &mut Below::default();
            let history = record(&[level], 1500, 4 * seed + at, below);
            demand_nothing_forbidden(&format!("{level:?}, seed {seed}, {below:?}"), &history);
            assert!(history.committed() > 1500, "most come through");
            below.assert_enough_work();
        }
    }
}

/// A session gets the guarantees of its level, whatever the levels of the others. Promise: P23.
#[test]
fn mixed_isolation_levels_show_no_forbidden_anomaly() {
    for seed in effort::seeds(1) {
        let below = &mut Below::default();
        let history = record(&LEVELS, 2500, seed, below);
        demand_nothing_forbidden(&format!("all levels, seed {seed}, {below:?}"), &history);
        below.assert_enough_work();
    }
}

/// Transactions that a power cut has hit.
#[derive(Default, Debug)]
struct Met {
    /// Those with an unknown outcome.
    unknown: usize,
    /// Prepared ones, which were decided after the cut.
    prepared: usize,
}

/// The power fails several times while all threads are at work; the work afterwards continues the
/// same history.
fn across_power_cuts(levels: &[Isolation], seed: u64, met: &mut Met) {
    let dice = &mut Dice::new(seed);
    let (mut vfs, recorder, below) = (SimVfs::new(), Recorder::new(), &mut Below::default());
    for cut in 0..4 {
        let db = open(&vfs, Durability::Sync, seed);
        // Many prepares, so that power cuts hit some.
        let workload = Workload { prepares: 3, ..Workload::of(levels, 100_000, 10 * seed + cut) };
        let enough = recorder.len() + dice.between(100, 400) as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| recorder.run(&db, &workload));
            while recorder.len() < enough {
                std::thread::yield_now();
            }
            vfs.halt();
        });
        below.note(&db);
        drop(db);
        let options = CrashOptions::random(1).with_seed(dice.bits());
        let state = crash_states(&vfs.disk(), &options).into_iter().next_back().unwrap();
        vfs = SimVfs::start(state.disk);
        recorder.restarted();
    }
    let db = open(&vfs, Durability::Sync, seed);
    recorder.run(&db, &Workload::of(levels, 50, seed)).unwrap();
    let history = recorder.finish(&db).unwrap();
    demand_nothing_forbidden(&format!("power cuts, {levels:?}, seed {seed}, {below:?}"), &history);
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
    met.unknown += history.txns.iter().filter(|txn| txn.outcome == Outcome::Unknown).count();
    let has_seen = |txn: &frond_testkit::history::Txn| {
        history.restarts.iter().any(|restart| txn.begun < *restart && *restart < txn.ended)
    };
    met.prepared += history.txns.iter().filter(|txn| txn.prepared && has_seen(txn)).count();
}

/// All levels mixed, and each alone: if all are Serializable, no anomaly is allowed. Promise: P1,
/// P2, P3, P4, P23.
#[test]
fn histories_stay_valid_across_power_cuts() {
    let met = &mut Met::default();
    for seed in effort::seeds(2) {
        across_power_cuts(&LEVELS, seed, met);
        for (at, level) in (0..).zip(LEVELS) {
            across_power_cuts(&[level], 5 * seed + at, met);
        }
    }
    println!("power cuts have met {met:?}");
    assert!(met.unknown > 0 && met.prepared > 0);
}

/// The history of two transactions of a level that make their calls in turn.
fn two_interleaved_transactions(isolation: Isolation, has_skew: bool) -> Result<History, Error> {
    let db = open(&SimVfs::new(), Durability::Lazy, 0);
    let tree = db.create_tree("registers", TreeOptions::default())?;
    for key in [1u64, 2] {
        tree.put(&key.to_be_bytes(), &key.to_be_bytes())?;
    }
    let options =
        TxnOptions::new().isolation(isolation).lock_timeout(Some(std::time::Duration::ZERO));
    let (one, two) = (db.begin(options.clone())?, db.begin(options)?);
    let read = |txn: &Txn, key: u64| {
        let value = txn.get(&tree, &key.to_be_bytes())?.map(|value| value.try_into().unwrap());
        Ok::<_, Error>(Call::Register(key, value.map(u64::from_be_bytes), false))
    };
    let set = |txn: &Txn, key: u64, number: u64| {
        txn.put(&tree, &key.to_be_bytes(), &number.to_be_bytes()).map(|()| Call::Set(key, number))
    };
    // Both read both rows. Write skew: each sets one of them. Lost update: both set the same one.
    let other = if has_skew { 2 } else { 1 };
    let mut calls = [vec![read(&one, 1)?, read(&one, 2)?], vec![read(&two, 1)?, read(&two, 2)?]];
    calls[0].push(set(&one, other, 3)?);
    one.commit()?;
    calls[1].push(set(&two, 1, 4)?);
    two.commit()?;
    let start = vec![Call::Set(1, 1), Call::Set(2, 2)];
    let txn = |(at, calls): (u64, Vec<Call>)| frond_testkit::history::Txn {
        session: at as u32,
        isolation,
        begun: at,
        ended: if at == 0 { 0 } else { 10 + at },
        outcome: Outcome::Committed,
        prepared: false,
        calls: (0..).zip(calls).collect(),
        undone: Vec::new(),
    };
    let [first, second] = calls;
    let txns = (0..).zip([start, first, second]).map(txn).collect();
    Ok(History { txns, restarts: Vec::new() })
}

/// Positive controls from the store itself: an anomaly that a level allows occurs, and is found
/// when checked against a stricter level.
#[test]
fn anomalies_a_level_allows_are_found_by_stricter_checks() {
    let names = |history: &History, level| -> Vec<Anomaly> {
        let findings = history.as_level(level).check();
        findings.into_iter().map(|finding| finding.anomaly).collect()
    };
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let lost = two_interleaved_transactions(level, false).unwrap();
        demand_nothing_forbidden("a lost update", &lost);
        assert!(names(&lost, Isolation::Snapshot).contains(&Anomaly::P4));
    }
    let refused = two_interleaved_transactions(Isolation::Snapshot, false);
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot] {
        let skew = two_interleaved_transactions(level, true).unwrap();
        demand_nothing_forbidden("a write skew", &skew);
        assert_eq!(names(&skew, Isolation::Snapshot), []);
        assert_eq!(names(&skew, Isolation::Serializable), [Anomaly::G2]);
    }
    for has_skew in [false, true] {
        let refused = two_interleaved_transactions(Isolation::Serializable, has_skew);
        assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
    }
}
