//! Random histories of real threads, of every level and of all at once, and across power cuts: the checker finds in
//! them nothing that their levels forbid (RELIABILITY §4.6). That it would is shown by bad histories
//! (`frond_testkit::history`), by what the levels let happen, and by planted bugs (`planted.rs`).

use std::sync::Arc;

use frond::{
    CheckMode, Db, Durability, Error, Isolation, Options, TreeOptions, Txn, TxnOptions,
    io::{Env, Workers},
};
use frond_testkit::{
    Dice,
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

fn options(vfs: &SimVfs, durability: Durability) -> Options {
    let env = Env { vfs: Arc::new(vfs.clone()), workers: Workers::Threads(2), ..Env::real() };
    Options::new().cache_size(16 << 20).durability(durability).env(env)
}

fn open(vfs: &SimVfs, durability: Durability) -> Db {
    Db::open("/store", options(vfs, durability)).unwrap()
}

fn demand_nothing_forbidden(what: &str, history: &History) {
    let findings = history.check();
    let told: Vec<_> = findings.iter().take(5).map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{what}: {} findings\n{}", findings.len(), told.join("\n"));
    println!("{what}: {} transactions, {} committed", history.txns.len(), history.committed());
}

fn record(levels: &[Isolation], txns: u32, seed: u64) -> History {
    let db = open(&SimVfs::new(), Durability::Lazy);
    let recorder = Recorder::new();
    recorder.run(&db, &Workload::of(levels, txns, seed)).unwrap();
    let history = recorder.finish(&db).unwrap();
    assert_eq!(db.lock_stats().locks, 0);
    db.close().unwrap();
    history
}

/// Promise: P23.
#[test]
fn no_level_shows_what_it_forbids() {
    for seed in effort::seeds(1) {
        for level in LEVELS {
            let history = record(&[level], 1500, seed);
            demand_nothing_forbidden(&format!("{level:?}, seed {seed}"), &history);
            assert!(history.committed() > 1500, "most come through");
        }
    }
}

/// Who asks for more gets it, whatever the others ask for. Promise: P23.
#[test]
fn levels_beside_each_other_show_nothing_that_is_forbidden() {
    for seed in effort::seeds(1) {
        let history = record(&LEVELS, 2500, seed);
        demand_nothing_forbidden(&format!("all levels, seed {seed}"), &history);
    }
}

/// The power fails while all are at work; what goes on afterwards is one history with what was before.
/// Promise: P1, P2, P3, P23.
#[test]
fn histories_go_on_across_power_cuts() {
    let mut unknown = 0;
    for seed in effort::seeds(3) {
        let dice = &mut Dice::new(seed);
        let (mut vfs, recorder) = (SimVfs::new(), Recorder::new());
        for cut in 0..4 {
            let db = open(&vfs, Durability::Sync);
            let workload = Workload::of(&LEVELS, 100_000, 10 * seed + cut);
            let enough = recorder.len() + dice.between(50, 400) as usize;
            std::thread::scope(|scope| {
                scope.spawn(|| recorder.run(&db, &workload));
                while recorder.len() < enough {
                    std::thread::yield_now();
                }
                vfs.halt();
            });
            drop(db);
            let options = CrashOptions::random(1).with_seed(dice.bits());
            let state = crash_states(&vfs.disk(), &options).into_iter().next_back().unwrap();
            vfs = SimVfs::start(state.disk);
            recorder.restarted();
        }
        let db = open(&vfs, Durability::Sync);
        recorder.run(&db, &Workload::of(&LEVELS, 50, seed)).unwrap();
        let history = recorder.finish(&db).unwrap();
        demand_nothing_forbidden(&format!("power cuts, seed {seed}"), &history);
        unknown += history.txns.iter().filter(|txn| txn.outcome == Outcome::Unknown).count();
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
        db.close().unwrap();
    }
    println!("{unknown} commits met a power cut");
    assert!(unknown > 0);
}

/// What two transactions of a level did in turn, a call of the one and a call of the other.
fn two_in_turn(isolation: Isolation, has_skew: bool) -> Result<History, Error> {
    let db = open(&SimVfs::new(), Durability::Lazy);
    let tree = db.create_tree("registers", TreeOptions::default())?;
    for key in [1u64, 2] {
        tree.put(&key.to_be_bytes(), &key.to_be_bytes())?;
    }
    let options = TxnOptions {
        isolation,
        lock_timeout: Some(std::time::Duration::ZERO),
        ..Default::default()
    };
    let (one, two) = (db.begin(options.clone())?, db.begin(options)?);
    let read = |txn: &Txn, key: u64| {
        let value = txn.get(&tree, &key.to_be_bytes())?.map(|value| value.try_into().unwrap());
        Ok::<_, Error>(Call::Register(key, value.map(u64::from_be_bytes), false))
    };
    let set = |txn: &Txn, key: u64, number: u64| {
        txn.put(&tree, &key.to_be_bytes(), &number.to_be_bytes()).map(|()| Call::Set(key, number))
    };
    // Both read both. A skew: each sets one of them. A lost update: both set the same.
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
        calls: (0..).zip(calls).collect(),
        undone: Vec::new(),
    };
    let [first, second] = calls;
    let txns = (0..).zip([start, first, second]).map(txn).collect();
    Ok(History { txns, restarts: Vec::new() })
}

/// Positive controls from the store itself: what a level lets happen is there, and is found as soon as it is asked for.
#[test]
fn what_levels_let_happen_is_found_where_it_is_forbidden() {
    let names = |history: &History, level| -> Vec<Anomaly> {
        let findings = history.as_level(level).check();
        findings.into_iter().map(|finding| finding.anomaly).collect()
    };
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let lost = two_in_turn(level, false).unwrap();
        demand_nothing_forbidden("a lost update", &lost);
        assert!(names(&lost, Isolation::Snapshot).contains(&Anomaly::P4));
    }
    let refused = two_in_turn(Isolation::Snapshot, false);
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    for level in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Snapshot] {
        let skew = two_in_turn(level, true).unwrap();
        demand_nothing_forbidden("a write skew", &skew);
        assert_eq!(names(&skew, Isolation::Snapshot), []);
        assert_eq!(names(&skew, Isolation::Serializable), [Anomaly::G2]);
    }
    for has_skew in [false, true] {
        let refused = two_in_turn(Isolation::Serializable, has_skew);
        assert!(matches!(refused, Err(Error::LockTimeout { .. })), "{refused:?}");
    }
}
