//! Open stores: the log of one that is written, and checkpointed, beside a check; and what its trees have in memory.

use std::collections::HashMap;

use super::*;
use crate::{
    Batch, CheckMode, Db, Durability, Limits, Options, Shape, Tuning,
    tree::{Root, TreeContext},
};

fn open(env: Env, shape: Option<Shape>) -> Db {
    let tuning = Tuning {
        segment_bytes: Some(16 << 10),
        group_bytes: Some(8 << 10),
        limits: Some(Limits { memtable_bytes: 8 << 10, ..Limits::for_cache(8 << 20) }),
        shape,
    };
    let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy).tuning(tuning);
    Db::open(DIR, options.env(env)).unwrap()
}

/// Checkpoints end between the look at the slots and that at the log, and what the slots of before need of it has gone: that is
/// no damage, for what the slots of now need is there.
#[test]
fn a_log_that_moves_on_beside_a_check_is_no_damage() {
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
    // Asked for as if nothing had gone meanwhile, the same is a damaged log.
    let late = LiveLog::before_slots(engine);
    let mut report = CheckReport::new(CheckMode::Full);
    late.check(engine, &good_slots(&slots), &mut report);
    assert!(!report.is_clean(), "what was needed then is there still: this shows nothing");
    drop(held);
    db.close().unwrap();
}

/// All descriptors of the runs below a node, and how many nodes link each.
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

/// Rule: I31. Read from the file, too, where each of the nodes that link a run says where it is.
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
        // So one count tells when the last reference goes.
        assert!(found.values().all(|(run, count)| run.refs() == *count));
        drop(version);
        drop(tree);
        db.close().unwrap();
    }
}
