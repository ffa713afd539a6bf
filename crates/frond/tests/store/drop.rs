//! Dropped trees: they disappear at once, without being read, and their pages are freed in small
//! steps, whatever happens in between (I22).

use std::{path::Path, time::Duration};

use frond::{Batch, Db, Durability, Options, TreeOptions, check::CheckMode};
use frond_testkit::{
    DbEngine,
    disk::{CallKind, SimVfs},
};

const STORE: &str = "/store";
const FILE: &str = "/store/store.frond";

fn open(vfs: &SimVfs) -> Db {
    let DbEngine { tuning, cache_bytes, level, .. } = DbEngine::tiny(Durability::Sync);
    let options = Options::new().cache_size(cache_bytes).durability(level).tuning(tuning);
    Db::open(STORE, options.env(vfs.env(11))).unwrap()
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// A store with a tree of some hundred extents, with long values, and a small tree.
fn loaded(vfs: &SimVfs) -> Db {
    let db = open(vfs);
    let tree = db.create_tree("large", TreeOptions::default()).unwrap();
    let mut batch = Batch::new();
    for number in 0..4000u64 {
        let bytes = if number % 50 == 0 { 700 } else { 60 };
        let value: Vec<u8> = (0..bytes).map(|n| (number * 31 + n * 17) as u8).collect();
        batch.put(&tree, &key(number * 7919 % 4000), &value).unwrap();
        if number % 20 == 19 {
            db.commit(&mut batch).unwrap();
            db.step().unwrap();
        }
    }
    let small = db.create_tree("small", TreeOptions::default()).unwrap();
    small.put(b"k", b"v").unwrap();
    while db.step().unwrap() || db.drain_step().unwrap() {}
    db.checkpoint().unwrap();
    db
}

fn number(db: &Db, name: &str) -> u64 {
    db.stats().get(name).unwrap()
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// Crashes again and again while the pages are freed. Rule: I22.
#[test]
fn a_large_tree_is_freed_in_steps_through_crashes() {
    let mut vfs = SimVfs::new();
    let mut db = loaded(&vfs);
    let before = number(&db, "space_live_bytes");
    db.drop_tree("large").unwrap();
    db.checkpoint().unwrap();
    let mut live = number(&db, "space_live_bytes");
    assert!(live > before / 2, "one checkpoint does not release everything");
    let mut rounds = 0;
    while number(&db, "trees_ending") == 1 {
        rounds += 1;
        assert!(rounds < 500, "it never ends");
        vfs.advance(Duration::from_secs(1));
        while db.step().unwrap() {}
        let now = number(&db, "space_live_bytes");
        assert!(now < live, "a round releases something");
        live = now;
        assert_eq!(db.open_tree("small").unwrap().get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        if rounds % 7 == 3 {
            let disk = vfs.disk().after_kill();
            vfs = SimVfs::start(disk);
            db = open(&vfs);
            live = number(&db, "space_live_bytes").max(live);
        }
        if rounds % 5 == 0 {
            assert_clean(&db);
        }
    }
    assert!(rounds > 10, "{rounds} rounds");
    for _ in 0..3 {
        db.open_tree("small").unwrap().put(b"k", b"v").unwrap();
        db.checkpoint().unwrap();
    }
    let (live, kept) = (number(&db, "space_live_bytes"), number(&db, "space_kept_bytes"));
    assert!(live + kept < 64 << 10, "{live} live and {kept} kept of {before}");
    assert_clean(&db);
    db.close().unwrap();
}

/// Drops a tree of which no page can be read. Rules: I22, I38.
#[test]
fn an_unreadable_tree_can_be_dropped() {
    let vfs = SimVfs::new();
    loaded(&vfs).close().unwrap();
    let db = open(&vfs);
    let small = db.open_tree("small").unwrap();
    assert_eq!(small.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    let live = number(&db, "space_live_bytes");
    vfs.break_sectors(Path::new(FILE), 192 << 10..u64::MAX);
    let reads = vfs.calls_of(CallKind::Read);
    db.drop_tree("large").unwrap();
    assert_eq!(vfs.calls_of(CallKind::Read), reads, "a drop reads nothing");
    for round in 0..400 {
        vfs.advance(Duration::from_secs(1));
        while db.step().unwrap() {}
        db.checkpoint().unwrap();
        if number(&db, "trees_ending") == 0 && round > 3 {
            break;
        }
    }
    assert_eq!(number(&db, "trees_ending"), 0);
    assert_eq!(db.stats().failed, None);
    assert!(number(&db, "space_live_bytes") < live / 4);
    vfs.heal_sectors();
    vfs.advance(Duration::from_secs(3600));
    while db.step().unwrap() {}
    assert_clean(&db);
    db.close().unwrap();
}
