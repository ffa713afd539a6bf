//! Tests of faults: the n-th call fails, the device returns wrong data, the disk is full
//! (docs/safety.md §4.2).

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use frond::{
    Db, Durability, Error, Options, Tree, TreeOptions,
    check::CheckMode,
    internals::io::{Clock, Env, Workers},
};
use frond_testkit::{
    DbEngine, Dice,
    campaign::{
        CachedPlan, CachedReport, FaultPlan, FilledPlan, FilledReport, FullReport, OccupiedPlan,
        OccupiedReport, empty_in_one_batch, fail_each_call, fill_and_reopen, fill_the_disk,
        forget_the_cache, hold, occupied_engine, open_occupied, with_growing_values,
    },
    disk::{Fault, FaultKind, SimVfs, When},
    effort,
    ops::{Op, Swarm, generate, parse_script},
};

fn script(seed: u64, length: usize) -> Vec<Op> {
    generate(seed, &DbEngine::with_long_values(Swarm::random(seed, length)).without_restarts())
}

/// EIO, short transfers and three kinds of failing syncs at every call, during the run and during
/// the recovery after it: each gives an error, never a wrong answer, and nothing is written after
/// it. Promise: P6, P11, P12.
#[test]
fn every_failing_call_is_an_error() {
    for seed in effort::seeds(1) {
        let engine = DbEngine::random(seed);
        let report = hold("faults", seed, &script(seed, 6), |script| {
            fail_each_call(&engine, script, seed, &FaultPlan::default())
        });
        println!("seed {seed}: {report}");
        assert_eq!(report.percent_tried(), 100, "a call never failed");
        assert!(report.struck > 100 && report.reported > 50);
    }
}

/// A sync fails and leaves its pages clean in the page cache. After a kill the store opens on them;
/// the rows that it returns then survive a power failure, with space for a checkpoint or without.
/// Promise: P6.
#[test]
fn page_cache_contents_are_synced_before_they_are_served() {
    for is_full in [false, true] {
        let mut told = CachedReport::default();
        for seed in effort::seeds(6) {
            let level = [Durability::Sync, Durability::Os, Durability::Lazy][seed as usize % 3];
            let (engine, plan) =
                (DbEngine::tiny(level), CachedPlan { is_full, ..CachedPlan::default() });
            let report = hold("cached", seed, &script(seed, 20), |script| {
                forget_the_cache(&engine, script, seed, &plan)
            });
            told.add(&report);
        }
        println!("full: {is_full}: {told}");
        assert!(told.served > 20, "{told}");
        assert!(!is_full || told.cramped > 20, "{told}");
    }
}

/// Failing calls while transactions are open: each transaction is there completely or not at all,
/// and one that got an error is over. Promise: P2, P11, P12.
#[test]
fn every_failing_call_during_transactions_is_an_error() {
    let script = "create t0 unique\n\
        commit default: put t0 k1 v1*9; put t0 k5 v2*400\n\
        begin 0 snapshot sync\n\
        begin 1 serializable default\n\
        txn 0 put t0 k3 v3*900\n\
        txn 1 get t0 k1\n\
        txn 0 savepoint 0\n\
        txn 0 delete t0 k5\n\
        checkpoint\n\
        txn 1 insert t0 k2 v4*700\n\
        txn 0 back 0\n\
        txn 0 scan t0 k0 k9 9\n\
        txn 0 commit\n\
        step 9\n\
        txn 1 append t0 p4 v5*9\n\
        txn 1 commit";
    let script = parse_script(script).unwrap();
    let engine = DbEngine::tiny(Durability::Os);
    let plan = FaultPlan { kinds: vec![FaultKind::Eio], stride: 2, crashes: 1 };
    let report =
        hold("transactions", 1, &script, |script| fail_each_call(&engine, script, 1, &plan));
    println!("{report}");
    assert!(report.struck > 50 && report.reported > 20, "{report}");
}

/// Lost, misdirected and torn writes, stale reads and flipped bits: no wrong row. Promise: P8, P9.
#[test]
fn a_lying_device_yields_no_wrong_row() {
    for seed in effort::seeds(4) {
        let engine = DbEngine::random(seed);
        let report = hold("silent", seed, &script(seed, 20), |script| {
            fail_each_call(&engine, script, seed, &FaultPlan::silent())
        });
        println!("seed {seed}: {report}");
    }
}

/// Disks of every size: statements are refused, reads continue, and once there is space service
/// resumes without a restart. Promise: P13.
#[test]
fn a_full_disk_refuses_and_recovers() {
    let mut refused = 0;
    for seed in effort::seeds(12) {
        let engine = DbEngine::random(seed);
        let report: FullReport = hold("full", seed, &script(seed, 60), |script| {
            fill_the_disk(&engine, script, seed, 64 << 10)
        });
        refused += report.refused;
    }
    println!("{refused} statements refused");
    assert!(refused > 0);
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

/// An incompressible value.
fn value(number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number);
    (0..1000).map(|_| dice.bits() as u8).collect()
}

/// Puts rows from `next` on until one is refused because the disk is full.
fn put_until_full(tree: &Tree, next: &mut u64) {
    for _ in 0..100_000 {
        match tree.put(&key(*next), &value(*next)) {
            Ok(_) => *next += 1,
            Err(Error::Full(why)) => {
                // One sentence, with units.
                let says = why.starts_with("the commit needs ") && why.contains(" MB are free: ");
                assert!(says || why.starts_with("no space for "), "{why}");
                return;
            }
            Err(other) => panic!("a full disk says: {other}"),
        }
    }
    panic!("the disk never fills");
}

fn assert_rows(tree: &Tree, numbers: std::ops::Range<u64>) {
    for number in numbers {
        assert_eq!(tree.get(&key(number)).unwrap(), Some(value(number)), "row {number}");
    }
}

/// Another program fills the disk after commits were admitted: their applies and checkpoints find
/// no space. With threads, as in production. Promise: P13. Rule: I24.
#[test]
fn a_disk_filled_after_commits_does_not_stop_the_store_permanently() {
    // On a busy machine the background may write while the rows are put, and then has room.
    assert!((0..10).any(|_| is_filled_after_commits()), "there is room for a checkpoint");
}

/// False if the background wrote too early for this test.
fn is_filled_after_commits() -> bool {
    let vfs = SimVfs::new();
    let env = Env { vfs: Arc::new(vfs.clone()), workers: Workers::Threads(2), ..Env::real() };
    // Enough memory for a memtable larger than the reserve of a small store.
    let options = Options::new().cache_size(256 << 20).durability(Durability::Lazy).env(env);
    let db = Db::open("/store", options).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let gone = db.create_tree("gone", TreeOptions::default()).unwrap();
    for number in 0..2000 {
        gone.put(&key(number), &value(number)).unwrap();
    }
    db.checkpoint().unwrap();
    // The log is as short as possible; its next segments have space, and nothing else. Deletes
    // check the disk before that.
    gone.delete(&key(0)).unwrap();
    tree.put(&key(0), &value(0)).unwrap();
    vfs.set_capacity(Some(vfs.allocated_bytes() + (18 << 20)));
    let mut next = 0;
    while next < 12_000 && tree.put(&key(next), &value(next)).is_ok() {
        next += 1;
    }
    assert!(next > 8000, "the disk was asked too soon for this test: {next} rows");
    match db.checkpoint() {
        Ok(()) => return false,
        done => assert!(matches!(done, Err(Error::Full(_))), "{done:?}"),
    }
    let begun = Instant::now();
    while db.stats().disk_full != 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the background finds room");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(db.stats().failed, None);
    assert_rows(&tree, 0..next);
    // Deletes and drops, which free space, continue.
    tree.delete(&key(0)).unwrap();
    db.drop_tree("gone").unwrap();
    vfs.set_capacity(Some(vfs.allocated_bytes() + (64 << 20)));
    let begun = Instant::now();
    while let Err(error) = tree.put(&key(next), &value(next)) {
        assert!(matches!(error, Error::Full(_)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(60), "no service although there is room");
        std::thread::sleep(Duration::from_millis(50));
    }
    db.checkpoint().unwrap();
    assert_rows(&tree, 1..next + 1);
    assert_eq!(tree.get(&key(0)).unwrap(), None);
    db.close().unwrap();
    assert!(db.stats().failed.is_none());
    true
}

/// The batch's record is longer than the space that the log reserves for deletes: it is written in
/// parts, with checkpoints between them. What it takes of the disk is not missing when the rows
/// before it are applied, even if the background has done nothing yet. Promise: P13. Rule: I24.
#[test]
fn deletes_longer_than_the_log_reserve_need_no_free_disk_space() {
    for workers in [Workers::Threads(2), Workers::Manual] {
        for written in [0, 1000, 5000] {
            empty_in_one_batch(workers, written)
                .unwrap_or_else(|failure| panic!("{workers:?}, {written} written: {failure}"));
        }
    }
}

/// A store fills its disk by itself and crashes; it opens with nothing free, and deletes empty it.
/// Promises: P5, P13. Rule: I24.
#[test]
fn a_store_that_filled_its_disk_opens_and_can_be_emptied_by_deletes() {
    let mut total = FilledReport::default();
    for seed in effort::seeds(4) {
        let report = fill_and_reopen(seed, &FilledPlan::default())
            .unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        println!("seed {seed}: {report}");
        total.add(&report);
    }
    println!("{total}");
    assert!(total.deletes > 1000 && total.emptied > 4 && total.twice > 20, "{total}");
    assert!(total.unreserved > 20 && total.cramped > 0, "{total}");
}

/// Whatever a store did, and whenever it was killed, it opens even if others have taken all free
/// space since, including its reserves. Promises: P5, P13. Rule: I24.
#[test]
fn a_store_of_any_history_opens_on_a_disk_filled_by_others() {
    let mut total = OccupiedReport::default();
    for seed in effort::seeds(8) {
        let level = [Durability::Sync, Durability::Os][seed as usize % 2];
        let engine = occupied_engine(DbEngine::tiny(level));
        let script = with_growing_values(script(seed, 40), seed);
        let report = hold("occupied", seed, &script, |script| {
            open_occupied(&engine, script, seed, &OccupiedPlan::default())
        });
        println!("seed {seed}: {report}");
        total.add(&report);
    }
    println!("{total}");
    assert!(total.unreserved > 300 && total.cramped > 200, "{total}");
}

/// A clone and a load whose commits cannot be applied, because an earlier value grows and finds no
/// space: they fail with a full disk, and nothing of them is there, now or later. Promise: P13.
#[test]
fn a_clone_or_load_that_cannot_apply_on_a_full_disk_is_undone() {
    let vfs = SimVfs::new();
    let options =
        || Options::new().cache_size(256 << 20).durability(Durability::Lazy).env(vfs.env(3));
    let db = Db::open("/store", options()).unwrap();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    // So long that it must be a long value, which the append below rewrites.
    let long: Vec<u8> = (0..35_000).flat_map(value).collect();
    tree.put(b"long", &long).unwrap();
    db.checkpoint().unwrap();
    let mut load = db.bulk_load("loaded", TreeOptions::default()).unwrap();
    load.put(b"row", b"").unwrap();
    load.put(b"longer", &value(1).repeat(100)).unwrap();
    // The load has one page left to write, and commits are admitted against the free space.
    vfs.set_capacity(Some(vfs.allocated_bytes() + (24 << 20)));
    let mut batch = frond::Batch::new();
    batch.merge(&tree, b"long", frond::operator::APPEND, b"+").unwrap();
    db.commit(&mut batch).unwrap();
    for outcome in [db.clone_tree("t", "copy").map(drop), load.finish().map(drop)] {
        assert!(matches!(outcome, Err(Error::Full(_))), "{outcome:?}");
    }
    for name in ["copy", "loaded"] {
        assert!(matches!(db.open_tree(name), Err(Error::NoSuchTree(_))));
    }
    assert_eq!(db.stats().failed, None);
    // Their names are free.
    db.create_tree("copy", TreeOptions::default()).unwrap().put(b"k", b"v").unwrap();
    vfs.set_capacity(None);
    db.checkpoint().unwrap();
    let copy = db.clone_tree("t", "loaded").unwrap();
    assert_eq!(copy.get(b"long").unwrap().unwrap().len(), long.len() + 1);
    drop((tree, copy));
    db.close().unwrap();
    drop(db);
    let db = Db::open("/store", options()).unwrap();
    let names: Vec<_> = db.trees().into_iter().map(|tree| tree.name).collect();
    assert_eq!(names, ["copy", "loaded", "t"]);
    assert_eq!(db.open_tree("copy").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(db.open_tree("loaded").unwrap().get(b"long").unwrap().unwrap().last(), Some(&b'+'));
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report:?}");
    db.close().unwrap();
}

/// A replay into a clone, after a merge that makes a value longer than inline values may be: a
/// store that is open read-only rewrites none. Promises: P5, P13.
#[test]
fn a_value_that_grew_before_a_clone_is_read_only_read() {
    let engine = DbEngine::tiny(Durability::Os);
    let vfs = SimVfs::new();
    let db = engine.store(vfs.env(3));
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    // The second one is longer than a run may hold on a full disk.
    for (key, times) in [("long", 1), ("longer", 200)] {
        tree.put(key.as_bytes(), &value(1).repeat(times)).unwrap();
        db.checkpoint().unwrap();
        let mut batch = frond::Batch::new();
        batch.merge(&tree, key.as_bytes(), frond::operator::APPEND, b"+").unwrap();
        db.commit(&mut batch).unwrap();
    }
    db.clone_tree("t", "copy").unwrap();
    let vfs = SimVfs::start(vfs.disk().after_kill());
    let options = Options::new().cache_size(engine.cache_bytes).tuning(engine.tuning.clone());
    let db = Db::open("/store", options.read_only(true).env(vfs.env(4))).unwrap();
    for name in ["t", "copy"] {
        let tree = db.open_tree(name).unwrap();
        for (key, times) in [("long", 1), ("longer", 200)] {
            let found = tree.get(key.as_bytes()).unwrap().unwrap();
            assert_eq!(found, [&value(1).repeat(times)[..], b"+"].concat(), "{name}: {key}");
        }
    }
}

/// A file system that does not report its free space: commits use what the store has backed and are
/// then refused; everything else continues, and so do commits once it reports again. Promise: P13.
#[test]
fn a_store_recovers_when_free_space_was_unknown() {
    let vfs = SimVfs::new();
    let options = || DbEngine::tiny(Durability::Lazy);
    let open = || {
        let DbEngine { tuning, cache_bytes, level, .. } = options();
        let options = Options::new().cache_size(cache_bytes).durability(level).tuning(tuning);
        Db::open("/store", options.env(vfs.env(3))).unwrap()
    };
    let db = open();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    db.create_tree("gone", TreeOptions::default()).unwrap().put(b"k", b"v").unwrap();
    vfs.hide_free_bytes(true);
    let mut next = 0;
    put_until_full(&tree, &mut next);
    db.checkpoint().unwrap();
    tree.delete(&key(0)).unwrap();
    db.drop_tree("gone").unwrap();
    while db.step().unwrap() {}
    db.checkpoint().unwrap();
    assert_rows(&tree, 1..next);
    db.close().unwrap();
    let db = open();
    let tree = db.open_tree("t").unwrap();
    assert_rows(&tree, 1..next);
    vfs.hide_free_bytes(false);
    tree.put(&key(next), &value(next)).unwrap();
    assert_eq!(db.stats().failed, None);
    db.close().unwrap();
}

/// A clock that stalls, leaps by hours, and returns a different year at every reading.
#[derive(Debug, Default)]
struct WildClock(AtomicU64);

impl Clock for WildClock {
    fn now(&self) -> Duration {
        // Monotonic is all that it guarantees.
        let looks = self.0.fetch_add(1, Ordering::Relaxed);
        Duration::from_secs(looks / 50 * 7200)
    }

    fn wall(&self) -> Duration {
        let looks = self.0.fetch_add(1, Ordering::Relaxed);
        Duration::from_secs(looks.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30)
    }

    fn sleep(&self, _: Duration) {}
}

/// Equal commits with a wrong clock and with a right one, with restarts and crashes between
/// them, end in the same rows and seqnos. Promises: P14, P17.
#[test]
fn the_clock_never_affects_stored_rows() {
    let run = |clock: Option<Arc<dyn Clock>>| {
        let mut vfs = SimVfs::new();
        let options = |vfs: &SimVfs| {
            let DbEngine { tuning, cache_bytes, level, .. } = DbEngine::tiny(Durability::Sync);
            let mut env = vfs.env(3);
            env.clock = clock.clone().unwrap_or(env.clock);
            Options::new().cache_size(cache_bytes).durability(level).tuning(tuning).env(env)
        };
        let (mut rows, mut slow) = (Vec::new(), 0);
        for round in 0..4 {
            let db = Db::open("/store", options(&vfs)).unwrap();
            let tree = db.open_tree("t").or_else(|_| db.create_tree("t", Default::default()));
            let tree = tree.unwrap();
            for number in 0..600 {
                tree.put(&key(number * 7 % 500), &value(number + round)[..100]).unwrap();
                if number % 100 == 50 {
                    db.create_snapshot(&format!("{round} {number}")).unwrap();
                    while db.step().unwrap() {}
                }
            }
            let mut cursor = tree.scan(..).unwrap();
            rows.clear();
            while let Some((key, value)) = cursor.next().unwrap() {
                rows.push((key.to_vec(), value.to_vec()));
            }
            let snapshots: Vec<_> =
                db.snapshots().into_iter().map(|one| (one.name, one.seqno)).collect();
            assert_eq!(snapshots.len(), 6 * (round as usize + 1));
            drop(cursor);
            slow += db.stats().slow_operations;
            if round % 2 == 0 {
                db.close().unwrap();
            } else {
                // A crash: everything was acknowledged as synced.
                let disk = vfs.disk();
                vfs.halt();
                vfs = SimVfs::start(disk);
            }
        }
        let db = Db::open("/store", options(&vfs)).unwrap();
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
        let seqno = db.snapshot().seqno();
        db.close().unwrap();
        (rows, seqno, slow)
    };
    let (wild, calm) = (run(Some(Arc::new(WildClock::default()))), run(None));
    assert_eq!((&wild.0, wild.1), (&calm.0, calm.1));
    // By the wild clock some operations took hours, which is its only effect (P14).
    assert!(wild.2 > 0 && calm.2 == 0, "{} and {} slow operations", wild.2, calm.2);
}

/// A store that is dropped instead of closed reports on standard error that it could not be closed.
/// A process of its own does it, whose standard error can be read.
#[test]
fn a_store_dropped_on_a_failing_disk_says_so() {
    const CHILD: &str = "FROND_TEST_DROPS";
    if std::env::var_os(CHILD).is_some() {
        let vfs = SimVfs::new();
        let options = Options::new().durability(Durability::Lazy).env(vfs.env(1));
        let db = Db::open("/store", options).unwrap();
        db.tree("t", TreeOptions::new()).unwrap().put("k", "v").unwrap();
        vfs.plan(Fault::from_then_on(When::Call(vfs.calls()), FaultKind::Eio));
        return;
    }
    let name = "a_store_dropped_on_a_failing_disk_says_so";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(
        said.contains("/store was dropped without Db::close") && said.contains("FRD-"),
        "{said}"
    );
}
