//! Results of loads: the shape of a tree built bottom-up, and shares of memory.

use super::*;
use crate::{
    Db, Options, TreeOptions,
    db::Tuning,
    io::{Env, MemoryVfs, RealClock, RealRng, Workers},
    pipeline::Limits,
    tree::{Child, NodeRef, Root, Shape},
};
use std::collections::BTreeSet;

const FANOUT: usize = 8;

fn open() -> Db {
    let env = Env {
        vfs: Arc::new(MemoryVfs::new()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng),
        workers: Workers::Manual,
    };
    let shape = Shape {
        leaf_bytes: 1 << 10,
        fanout_max: FANOUT,
        block_bytes: 256,
        run_bytes: 2 << 10,
        ..Shape::default()
    };
    let limits = Limits { memtable_bytes: 8 << 10, ..Limits::for_cache(4 << 20) };
    let tuning = Tuning { shape: Some(shape), limits: Some(limits), ..Tuning::default() };
    Db::open("/store", Options::new().cache_size(4 << 20).env(env).tuning(tuning)).unwrap()
}

fn row(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn load(db: &Db, name: &str, rows: u64) {
    let mut load = db.bulk_load(name, TreeOptions::default()).unwrap();
    (0..rows).for_each(|number| load.put(&row(number), &row(!number)).unwrap());
    assert_eq!(load.finish().unwrap().rows, rows);
}

/// Collects the number of children of each node, by level, and the bytes of each leaf.
fn walk(db: &Db, node: &NodeRef, nodes: &mut Vec<(u8, usize)>, leaves: &mut Vec<u64>) {
    let content = node.load(&db.shared.engine.cx).unwrap();
    nodes.push((content.level, content.children.len()));
    for child in &content.children {
        match child {
            Child::Node(child) => walk(db, child, nodes, leaves),
            Child::Leaf(leaf) => leaves.push(leaf.meta.bytes),
        }
    }
}

/// Whatever the number of rows: no node except the root has fewer than half of the target number of
/// children, none has more than the maximum, and leaves do not all reach their limit at the same
/// time.
#[test]
fn nodes_are_well_filled_and_leaves_differ() {
    let db = open();
    for rows in [1, 30, 100, 200, 300, 500, 1000, 3000, 10_000, 20_000] {
        let name = rows.to_string();
        load(&db, &name, rows);
        let tree = db.open_tree(&name).unwrap().id();
        let version = db.shared.engine.versions.hold();
        let root = version.roots.get(&tree).expect("a root");
        let Root::Node(top) = &root.root else {
            assert!(rows <= 100, "{rows} rows are more than a leaf");
            continue;
        };
        let (mut nodes, mut leaves) = (Vec::new(), Vec::new());
        walk(&db, top, &mut nodes, &mut leaves);
        let (level, children) = nodes[0];
        assert!((2..=FANOUT).contains(&children), "the root of level {level} has {children}");
        for (level, children) in &nodes[1..] {
            // Three quarters, less 30 %, less the effect of jitter and halving.
            assert!(
                (FANOUT / 4..=FANOUT).contains(children),
                "{rows}: {children} on level {level}"
            );
        }
        if leaves.len() > 20 {
            let sizes: BTreeSet<u64> = leaves.iter().map(|bytes| bytes / 128).collect();
            assert!(sizes.len() >= 4, "{leaves:?}");
            let whole = &leaves[..leaves.len() - 1];
            assert!(whole.iter().all(|bytes| (500..1700).contains(bytes)), "{leaves:?}");
        }
        let report = db.check(crate::check::CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{rows} rows: {report}");
    }
    db.close().unwrap();
}

/// Loads share the memory for loads; each releases its share at its end.
#[test]
fn loads_share_their_memory() {
    let db = open();
    let loads = &db.shared.engine.loads;
    let begin = |name| db.bulk_load(name, TreeOptions::default()).unwrap();
    let (mut a, mut b) = (begin("a"), begin("b"));
    for number in 0..5000 {
        a.put(&row(number), b"").unwrap();
        b.put(&row(number), b"").unwrap();
    }
    assert!(loads.memory_bytes() > 0);
    let pieces = |load: &crate::db::BulkLoad| load.loader.pieces.len();
    // 5000 rows of 41 bytes in a share of 8 KiB.
    assert!(pieces(&a) > 1 && loads.spilled_bytes.load(Ordering::Relaxed) > 100_000);
    assert!(a.loader.pieces.iter().any(|piece| piece.level > 0), "pieces were merged on the way");
    drop(a);
    assert_eq!(b.finish().unwrap().rows, 5000);
    assert_eq!(loads.memory_bytes(), 0);
    assert_eq!(loads.active.load(Ordering::Relaxed), 0);
    db.close().unwrap();
}
