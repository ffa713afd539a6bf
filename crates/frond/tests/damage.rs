//! Tests of pages that become unreadable in a running store: only operations that need them fail,
//! with an error that says where (P10, P11, I38).

use std::{path::Path, time::Duration};

use frond::{Batch, Db, Durability, ErrorKind, Options, TreeOptions, operator};
use frond_testkit::{
    DbEngine,
    campaign::{
        Decay, HealPlan, HealReport, break_newest_version, break_pages, heal_everywhere, hold,
        store_pages,
    },
    disk::SimVfs,
    effort,
    ops::{Op, Swarm, generate},
};

const STORE: &str = "/store";
const FILE: &str = "/store/store.frond";

fn options(vfs: &SimVfs) -> Options {
    let DbEngine { tuning, cache_bytes, level, .. } = DbEngine::tiny(Durability::Lazy);
    Options::new().cache_size(cache_bytes).durability(level).tuning(tuning).env(vfs.env(7))
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Runs background work until there is none.
fn work(db: &Db) {
    while db.step().unwrap() || db.drain_step().unwrap() {}
}

/// Promise: P9, P10. Rule: I38.
#[test]
fn a_flipped_bit_loses_only_its_own_key_range() {
    for seed in effort::seeds(2) {
        let pages = 60 * effort::factor() as usize;
        let report =
            break_pages(seed, Decay::Bit, pages).unwrap_or_else(|bad| panic!("{seed}: {bad}"));
        println!("seed {seed}: {report}");
        assert!(report.marked > 5 && report.took_few > 5 && report.refused < report.pages / 4);
    }
}

/// Sectors that are unreadable for a while: messages that waited are then pushed down, and nothing
/// is lost. Promise: P11. Rule: I38.
#[test]
fn a_bad_sector_that_heals_leaves_no_trace() {
    for seed in effort::seeds(2) {
        let pages = 40 * effort::factor() as usize;
        let report =
            break_pages(seed, Decay::Sector, pages).unwrap_or_else(|bad| panic!("{seed}: {bad}"));
        println!("seed {seed}: {report}");
        assert!(report.marked > 5 && report.took_few > 5 && report.refused < report.pages / 4);
    }
}

/// The newest slot, or what it links, is damaged while the store is closed: it opens from the older
/// slot and its log, reports that, and has all rows. Promise: P10.
#[test]
fn a_damaged_newest_version_loses_no_rows() {
    let mut fell_back = 0;
    for seed in effort::seeds(2) {
        let report = break_newest_version(seed).unwrap_or_else(|bad| panic!("{seed}: {bad}"));
        println!("seed {seed}: {report}");
        fell_back += report.fell_back;
    }
    assert!(fell_back >= 4, "slots, root directories and maps");
}

/// A place that is unreadable at one opening, whatever that opening does until it crashes, and
/// readable at the next. Promises: P5, P10, P11.
#[test]
fn a_sector_unreadable_during_one_open_loses_no_rows() {
    let mut total = HealReport::default();
    for seed in effort::seeds(4) {
        let swarm = DbEngine::with_long_values(Swarm::random(seed, 40)).without_restarts();
        let mut script = generate(seed, &swarm);
        script.push(Op::Reopen);
        script.extend(generate(seed + 1000, &swarm));
        // Every other store is so small that most of it is rewritten all the time.
        let engine = match seed % 2 {
            0 => DbEngine::tiny(Durability::Os),
            _ => DbEngine::random(seed),
        };
        let plan = HealPlan::default();
        let report =
            hold("heal", seed, &script, |script| heal_everywhere(&engine, script, seed, &plan));
        println!("seed {seed}: {report}");
        total.add(&report);
    }
    println!("{total}");
    assert!(total.fell_back >= total.places / 4, "slots and what they link: {total}");
    assert!(total.twice > 100, "{total}");
}

/// A damaged long value with which later messages of its memtable merge: only its own key is lost.
#[test]
fn a_damaged_long_value_loses_only_its_own_key() {
    let vfs = SimVfs::new();
    let db = Db::open(STORE, options(&vfs)).unwrap();
    let tree = db.create_tree("a", TreeOptions::default()).unwrap();
    db.checkpoint().unwrap();
    let before = store_pages(&vfs.disk());
    let long: Vec<u8> = (0..20_000u32).map(|n| ((n * 7919) >> 3) as u8).collect();
    tree.put(b"long", &long).unwrap();
    let blob = store_pages(&vfs.disk()).into_iter().find(|page| !before.contains(page)).unwrap();
    // Restarted, so that nothing of it is in memory; replay brings the commit back.
    for at in [blob, blob + 4096, blob + 8192] {
        vfs.flip(Path::new(FILE), at + 100);
    }
    for n in 0..40 {
        tree.put(&key(n), &key(n)).unwrap();
        let mut batch = Batch::new();
        batch.merge(&tree, b"long", operator::APPEND, b"+").unwrap();
        batch.merge(&tree, &key(n), operator::APPEND, b"+").unwrap();
        db.commit(&mut batch).unwrap();
    }
    db.checkpoint().unwrap();
    work(&db);
    let right = |db: &Db| {
        let tree = db.open_tree("a").unwrap();
        assert_eq!(tree.get(b"long").unwrap_err().kind(), ErrorKind::Restore);
        for n in 0..40 {
            assert_eq!(tree.get(&key(n)).unwrap(), Some([&key(n)[..], b"+"].concat()));
        }
    };
    right(&db);
    assert_eq!(db.stats().failed, None);
    db.close().unwrap();
    let again = Db::open(STORE, options(&vfs)).unwrap();
    right(&again);
    // The remedy: put another value.
    again.open_tree("a").unwrap().put(b"long", b"short").unwrap();
    vfs.advance(Duration::from_secs(3));
    again.checkpoint().unwrap();
    work(&again);
    assert_eq!(again.open_tree("a").unwrap().get(b"long").unwrap().as_deref(), Some(&b"short"[..]));
    again.close().unwrap();
}
