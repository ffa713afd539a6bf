//! Campaigns of bulk loads in scripts: compared with the model, with a crash at every call, on
//! disks that are too small, and read from the log alone.

use std::collections::BTreeMap;

use frond::{Db, Durability, Options, TreeOptions, check::CheckMode};
use frond_testkit::{
    DbEngine,
    campaign::{CrashPlan, CrashReport, crash_everywhere, fill_the_disk, hold, model_run},
    disk::{CrashOptions, SimVfs},
    drive::Engine,
    effort,
    ops::{Key, Op, Swarm, Value, generate},
};

/// Every number below `count` once, in scrambled order.
fn scrambled(count: u64) -> impl Iterator<Item = u64> {
    // Odd, so that it has no factor in common with a power of two.
    let around = count.next_power_of_two();
    let all = (0..around).map(move |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % around);
    all.filter(move |&number| number < count)
}

/// Scripts with a load every few operations; long ones have restarts in between.
fn script(seed: u64, length: usize) -> Vec<Op> {
    let mut swarm = DbEngine::with_long_values(Swarm::random(seed, length));
    (swarm.bulk, swarm.fill, swarm.trees, swarm.catalog) = (30, 15, 6, 10);
    let swarm = if length < 100 { swarm.without_restarts() } else { swarm };
    generate(seed, &swarm)
}

/// Some pieces, some leaves, some long values.
fn some_load(seed: u64) -> Op {
    let keys = scrambled(150 + 40 * seed).map(|number| Key::plain(number as u32));
    let value = Value { seed: seed as u32, bytes: if seed.is_multiple_of(2) { 240 } else { 300 } };
    let keys = keys.take(if seed.is_multiple_of(2) { usize::MAX } else { 9 }).collect();
    Op::Bulk { tree: "loaded".into(), unique: seed.is_multiple_of(3), value, keys }
}

fn loads(script: &[Op]) -> usize {
    script.iter().filter(|op| matches!(op, Op::Bulk { keys, .. } if !keys.is_empty())).count()
}

fn fills(script: &[Op]) -> usize {
    script.iter().filter(|op| matches!(op, Op::Fill { .. })).count()
}

/// Promise: P1, P2, P3.
#[test]
fn loaded_trees_match_the_model() {
    let (mut loaded, mut filled) = (0, 0);
    for seed in effort::seeds(40) {
        let engine = DbEngine::random(seed);
        let script = script(seed, 150);
        hold("bulk", seed, &script, |script| model_run(&engine, script, seed));
        (loaded, filled) = (loaded + loads(&script), filled + fills(&script));
    }
    println!("{loaded} loads of new trees, {filled} of trees that were there");
    assert!(filled > 0);
}

/// A crash at every call of a load, and of what follows it. Promise: P1–P8. Rule: I11.
#[test]
fn loads_survive_crashes_everywhere() {
    let plan = CrashPlan {
        states: CrashOptions { random_subsets: 1, ..CrashOptions::short() },
        nested_one_in: 200,
        nested_depth: 2,
        ..CrashPlan::default()
    };
    let (mut total, mut loaded) = (CrashReport::default(), 0);
    for seed in effort::seeds(2) {
        let engine = DbEngine::tiny([Durability::Sync, Durability::Lazy][seed as usize % 2]);
        let mut ops = vec![some_load(seed)];
        ops.extend(script(seed, 4));
        ops.push(Op::Reopen);
        ops.extend(script(seed + 1000, 3));
        loaded += loads(&ops);
        total.add(&hold("bulk", seed, &ops, |ops| crash_everywhere(&engine, ops, seed, &plan)));
    }
    println!("{loaded} loads: {total}");
    assert_eq!(total.percent_used(), 100, "a call was no crash point");
    assert!(loaded >= 4 && total.lossy > 0 && total.nested > 0);
}

/// A full disk fails a load and nothing else; the load's space is freed. Promise: P13.
#[test]
fn a_full_disk_ends_a_load() {
    let mut refused = 0;
    for seed in effort::seeds(4) {
        let engine = DbEngine::tiny(Durability::Lazy);
        let report = hold("bulk", seed, &script(seed, 30), |script| {
            fill_the_disk(&engine, script, seed, 64 << 10)
        });
        refused += report.refused;
    }
    assert!(refused > 0);
}

/// A load that only the log has is visible to a read-only open, which must replay it.
#[test]
fn a_read_only_open_shows_a_load_that_is_only_in_the_log() {
    let vfs = SimVfs::new();
    let env = vfs.env(1);
    let engine = DbEngine::tiny(Durability::Sync);
    let store = engine.open(&env).unwrap();
    let mut load = store.db().bulk_load("t", TreeOptions::default()).unwrap();
    let mut expected = BTreeMap::new();
    for number in scrambled(500) {
        load.put(&number.to_be_bytes(), b"loaded").unwrap();
        expected.insert(number.to_be_bytes().to_vec(), b"loaded".to_vec());
    }
    let tree = load.finish().unwrap().tree;
    for number in (0..500u64).step_by(2) {
        tree.put(&number.to_be_bytes(), b"put").unwrap();
        expected.insert(number.to_be_bytes().to_vec(), b"put".to_vec());
    }
    let after = SimVfs::start(vfs.disk().after_kill());
    let report = frond::check::store_in(&after.env(2), "/store", CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    let before = after.disk().digest();
    let options = Options::new().cache_size(4 << 20).env(after.env(3)).read_only(true);
    let db = Db::open("/store", options.tuning(engine.tuning.clone())).unwrap();
    let read = db.open_tree("t").unwrap();
    let mut cursor = read.scan(..).unwrap();
    let mut found = BTreeMap::new();
    while let Some((key, value)) = cursor.next().unwrap() {
        found.insert(key.to_vec(), value.to_vec());
    }
    assert!(found == expected);
    drop((cursor, read));
    db.close().unwrap();
    assert_eq!(after.disk().digest(), before, "not a byte was written (P21)");
}

/// Two loads with long values in one commit that only the log has when power fails: replay assigns
/// each its own values, so that dropping one tree leaves the other's alone. Rules: I11, I19, I22.
#[test]
fn replay_assigns_long_values_to_their_loads() {
    let options = |vfs: &SimVfs| {
        let DbEngine { tuning, cache_bytes, .. } = DbEngine::tiny(Durability::Sync);
        Options::new().cache_size(cache_bytes).tuning(tuning).env(vfs.env(5))
    };
    let long = |tree: u8, number: u64| vec![tree ^ number as u8; 70_000];
    let vfs = SimVfs::new();
    let db = Db::open("/store", options(&vfs)).unwrap();
    let loads = ["a", "b", "c"].map(|name| {
        let mut load = db.bulk_load(name, TreeOptions::default()).unwrap();
        // The last has no rows.
        for number in scrambled(20).filter(|_| name != "c") {
            load.put(&number.to_be_bytes(), &long(name.as_bytes()[0], number)).unwrap();
        }
        load
    });
    frond::load::BulkLoad::finish_all(loads.into()).unwrap();
    let vfs = SimVfs::start(vfs.disk());
    let db = Db::open("/store", options(&vfs)).unwrap();
    db.drop_tree("a").unwrap();
    for _ in 0..3 {
        db.checkpoint().unwrap();
        while db.step().unwrap() {}
    }
    // The space of "a" is reused.
    let other = db.create_tree("other", TreeOptions::default()).unwrap();
    for number in 0..30u64 {
        other.put(&number.to_be_bytes(), &long(0, number)).unwrap();
    }
    db.checkpoint().unwrap();
    let b = db.open_tree("b").unwrap();
    for number in 0..20u64 {
        assert_eq!(b.get(&number.to_be_bytes()).unwrap(), Some(long(b'b', number)), "{number}");
    }
    assert!(db.open_tree("c").unwrap().scan(..).unwrap().next().unwrap().is_none());
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
    db.close().unwrap();
}
