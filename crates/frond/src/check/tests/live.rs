//! Open stores: the log of a store that is written and checkpointed during a check; and what its
//! trees have in memory.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use super::*;
use crate::{
    Batch, Db, Durability, Options, Tree,
    check::CheckMode,
    db::Tuning,
    io::{HookedVfs, Vfs},
    pipeline::Limits,
    tree::{Root, Shape, TreeContext},
};

fn put_rows(tree: &Tree, rows: u32) {
    for row in 0..rows {
        tree.put(&row.to_be_bytes(), &[row as u8; 500]).unwrap();
    }
}

fn assert_clean(db: &Db) {
    let report = db.check(CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{report}");
}

/// The log continues in segments that the directory listing did not show. Finding: `log`.
#[test]
fn a_log_continued_in_a_new_segment_during_a_check_is_no_damage() {
    let files = Arc::new(HookedVfs::new(Arc::new(MemoryVfs::new())));
    let db = Arc::new(open(Env { vfs: files.clone(), ..env() }, None));
    let tree = db.create_tree("t", Default::default()).unwrap();
    db.checkpoint().unwrap();
    put_rows(&tree, 30);
    let needed = db.shared.engine.store.log_needed_from();
    let writing = db.clone();
    files.after_next_list(move || {
        put_rows(&tree, 300);
        writing.shared.engine.log().sync_through_now().unwrap();
    });
    assert_clean(&db);
    assert!(!files.is_waiting(), "nothing has happened");
    assert_eq!(db.shared.engine.store.log_needed_from(), needed, "no checkpoint has ended");
}

/// Segments that no slot needs are removed between the directory listing and their opening.
/// Finding: `log`.
#[test]
fn segments_removed_during_a_check_are_no_damage() {
    let files = Arc::new(HookedVfs::new(Arc::new(MemoryVfs::new())));
    let options = Options::new().keep_log(1 << 20);
    let db = Arc::new(open_with(options, Env { vfs: files.clone(), ..env() }, None));
    let tree = db.create_tree("t", Default::default()).unwrap();
    for _ in 0..3 {
        put_rows(&tree, 100);
        db.checkpoint().unwrap();
    }
    let segments = || {
        let names = files.list(db.shared.engine.store.dir()).unwrap();
        names.iter().filter(|name| name.to_string_lossy().starts_with("log-0")).count()
    };
    let (before, trimming) = (segments(), db.clone());
    files.after_next_list(move || {
        let engine = &trimming.shared.engine;
        engine.log().trim(engine.store.log_needed_from()).unwrap();
    });
    assert_clean(&db);
    assert!(segments() < before, "none has gone");
}

/// All of these concurrently, at random.
#[test]
fn checks_concurrent_with_writes_and_checkpoints_find_nothing() {
    let db = open(env(), None);
    let tree = db.create_tree("t", Default::default()).unwrap();
    let until = Instant::now() + Duration::from_secs(2);
    let repeat = |work: &dyn Fn()| {
        while Instant::now() < until {
            work();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| repeat(&|| put_rows(&tree, 60)));
        scope.spawn(|| repeat(&|| db.checkpoint().unwrap()));
        scope.spawn(|| {
            repeat(&|| {
                db.step().unwrap();
            });
        });
        repeat(&|| assert_clean(&db));
    });
    db.close().unwrap();
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "check: a log that moved on is damage" => a_log_trimmed_during_a_check_is_no_damage,
        "check: a log that grows has an end" =>
            a_log_continued_in_a_new_segment_during_a_check_is_no_damage,
    };
    crate::plant::assert_claims_hold("check", claims);
}

fn open(env: Env, shape: Option<Shape>) -> Db {
    open_with(Options::new(), env, shape)
}

fn open_with(options: Options, env: Env, shape: Option<Shape>) -> Db {
    let tuning = Tuning {
        segment_bytes: Some(16 << 10),
        group_bytes: Some(8 << 10),
        limits: Some(Limits { memtable_bytes: 8 << 10, ..Limits::for_cache(8 << 20) }),
        shape,
    };
    let options = options.cache_size(8 << 20).durability(Durability::Lazy).tuning(tuning);
    Db::open(DIR, options.env(env)).unwrap()
}

/// Checkpoints end between the reading of the slots and that of the log, and the log that the
/// former slots need is gone: that is no damage, since what the current slots need is there.
#[test]
fn a_log_trimmed_during_a_check_is_no_damage() {
    let db = open(env(), None);
    let tree = db.create_tree("t", Default::default()).unwrap();
    let write_and_checkpoint = |rounds: u32| {
        for round in 0..rounds {
            for row in 0..60u32 {
                tree.put(&row.to_be_bytes(), &[round as u8; 500]).unwrap();
            }
            db.checkpoint().unwrap();
        }
    };
    write_and_checkpoint(3);
    let engine = &db.shared.engine;
    let live = LiveLog::before_slots(engine);
    let (slots, held) = engine.store.hold_slots();
    let needed = engine.store.log_needed_from();
    write_and_checkpoint(4);
    assert!(engine.store.log_needed_from() > needed, "it has moved on");
    let mut report = CheckReport::new(CheckMode::Full);
    live.check(engine, &good_slots(&slots), &mut report);
    assert!(report.is_clean(), "{report}");
    // Checked as if nothing had been removed meanwhile, the same is a damaged log.
    let late = LiveLog::before_slots(engine);
    let mut report = CheckReport::new(CheckMode::Full);
    late.check(engine, &good_slots(&slots), &mut report);
    assert!(!report.is_clean(), "what was needed then is there still: this shows nothing");
    drop(held);
    db.close().unwrap();
}

/// All handles of the runs below a node, and the number of nodes that link each.
fn descriptors(cx: &TreeContext, node: &NodeRef, found: &mut HashMap<u64, (Arc<RunHandle>, u32)>) {
    let node = node.load(cx).unwrap();
    for run in node.run_refs() {
        let Some(link) = run.link() else { continue };
        let (first, count) = found.entry(link.offset).or_insert_with(|| (run.clone(), 0));
        assert!(Arc::ptr_eq(first, run), "I31: two descriptors of the run at {}", link.offset);
        *count += 1;
    }
    for child in &node.children {
        if let Child::Node(child) = child {
            descriptors(cx, child, found);
        }
    }
}

/// Rule: I31. Also when each of the nodes that link a run is read from the file.
#[test]
fn a_run_has_one_descriptor_however_many_nodes_link_it() {
    let shape = Shape {
        leaf_bytes: 1 << 10,
        fanout_max: 4,
        push_bytes: 0,
        block_bytes: 256,
        run_bytes: 8 << 10,
        ..Shape::default()
    };
    let env = env();
    for is_written in [true, false] {
        let db = open(env.clone(), Some(shape));
        let tree = match is_written {
            true => db.create_tree("t", Default::default()).unwrap(),
            false => db.open_tree("t").unwrap(),
        };
        let mut batch = Batch::new();
        for row in 0..if is_written { 6000u32 } else { 0 } {
            let key = row.wrapping_mul(2_654_435_761).to_be_bytes();
            batch.put(&tree, &key, &[row as u8; 30]).unwrap();
            if row % 50 == 49 {
                db.commit(&mut batch).unwrap();
                while db.step().unwrap() {}
            }
        }
        db.checkpoint().unwrap();
        let engine = &db.shared.engine;
        let version = engine.versions.hold();
        let Root::Node(root) = &version.roots.get(&tree.id()).unwrap().root else {
            panic!("a deep tree")
        };
        let mut found = HashMap::new();
        descriptors(&engine.cx, root, &mut found);
        let shared = found.values().filter(|(_, count)| *count > 1).count();
        assert!(found.len() > 50 && shared > 0, "{shared} of {} are shared", found.len());
        // So one count shows when the last reference is dropped.
        assert!(found.values().all(|(run, count)| run.refs() == *count));
        drop(version);
        drop(tree);
        db.close().unwrap();
    }
}
