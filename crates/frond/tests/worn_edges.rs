//! Trees that are worn down from their edges: nodes with a single child lose it, and what is
//! written afterwards can be read, also after a crash at any moment (P9, P10; rule I1).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use frond::{
    Batch, Db, Durability, Options, Tree, TreeOptions,
    check::CheckMode,
    internals::{Shape, Tuning, io::Env},
};
use frond_testkit::{
    Dice,
    campaign::{
        CrashPlan, CrashReport, EdgeReport, crash_everywhere, edge_engine, hold, wear_edges,
    },
    disk::{CrashOptions, SimVfs},
    effort,
    ops::{Op, Wear, worn_edges},
};

/// Rows are put and deleted at both edges and in between, in trees of three or more levels of
/// nodes, in which an upper node often has a single child; buffers are drained at any moment, and
/// the store is opened as a crash leaves it. Promise: P9, P10. Rule: I1.
#[test]
fn heavily_deleted_trees_are_readable_after_any_crash() {
    let mut total = EdgeReport::default();
    for seed in effort::seeds(12) {
        let engine = edge_engine(seed);
        let script = worn_edges(seed, &Wear { length: 200, rows_max: 120, restarts: true });
        total.add(&hold("edges", seed, &script, |script| wear_edges(&engine, script, seed)));
    }
    println!("{total}");
    assert!(total.levels >= 3 && total.single > 100 && total.placeholder > 20, "{total}");
    assert!(total.drains > 500 && total.looks > 300, "{total}");
}

/// Worn-down trees with a crash before every call that changes the disk. Promise: P1–P8.
#[test]
fn heavily_deleted_trees_survive_crashes_everywhere() {
    let states = CrashOptions {
        tears_per_write: 1,
        random_subsets: 1,
        class_states_max: 4,
        ..CrashOptions::default()
    };
    let plan = CrashPlan { states, nested_one_in: 0, ..CrashPlan::default() };
    let mut total = CrashReport::default();
    for seed in effort::seeds(2) {
        let engine = edge_engine(seed);
        let mut script = worn_edges(seed, &Wear { length: 24, rows_max: 60, restarts: false });
        script.extend([Op::Drain(200), Op::Checkpoint]);
        total.add(&hold("edges", seed, &script, |script| {
            crash_everywhere(&engine, script, seed, &plan)
        }));
    }
    println!("{total}");
    assert_eq!(total.percent_used(), 100, "a call was no crash point");
}

/// A node page is encoded wrongly: the checkpoint that would have written it fails before anything
/// names the page, the store stops, and after a restart everything is there. Promise: P1, P12.
#[cfg(feature = "planted-bugs")]
#[test]
fn a_checkpoint_that_would_write_an_unreadable_node_loses_nothing() {
    use frond::{Error, internals::plant};
    let vfs = SimVfs::new();
    let engine = edge_engine(0);
    let db = engine.store(vfs.env(1));
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    for row in 0..200 {
        tree.put(&key(row), &[7; 40]).unwrap();
    }
    plant::arm(Some("tree: a node is encoded a level too high"));
    let refused = db.checkpoint();
    assert!(matches!(refused, Err(Error::Unreadable(..) | Error::Failed(_))), "{refused:?}");
    assert!(db.stats().failed.is_some_and(|why| why.contains("FRD-3205")));
    assert!(tree.put(b"more", b"1").is_err(), "nothing is acknowledged any more");
    plant::arm(None);
    drop((tree, db));
    let db = engine.store(vfs.env(2));
    let rows = rows_of(&db.open_tree("t").unwrap());
    assert_eq!(rows, 200);
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
}

/// The proportions of a store: its shape, the length of its rows, and its cache.
struct Sizes {
    shape: Shape,
    row_bytes: usize,
    cache_bytes: u64,
}

/// The rows of one appended batch, which makes one leaf.
const ROWS_A_LEAF: u64 = 8;

fn key(row: u64) -> [u8; 8] {
    row.to_be_bytes()
}

fn append(db: &Db, tree: &Tree, row_bytes: usize, from: u64) -> u64 {
    let (mut batch, mut dice) = (Batch::new(), Dice::new(from));
    for row in from..from + ROWS_A_LEAF {
        let value: Vec<u8> =
            (0..row_bytes.div_ceil(8)).flat_map(|_| dice.bits().to_le_bytes()).collect();
        batch.put(tree, &key(row), &value).unwrap();
    }
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    from + ROWS_A_LEAF
}

fn rows_of(tree: &Tree) -> u64 {
    let (mut cursor, mut rows) = (tree.scan(..).unwrap(), 0);
    while let Some((found, _)) = cursor.next().unwrap() {
        assert_eq!(found, key(rows), "rows from the first on");
        rows += 1;
    }
    rows
}

/// Appends leaf by leaf until the tree has a third level of nodes, of which the rightmost is a
/// chain of single children down to one leaf; deletes the rows of that leaf; and drains, as an idle
/// store does.
fn lose_the_right_edge(sizes: &Sizes, dir: &std::path::Path, env: &Env) {
    let open = || {
        let options = Options::new().cache_size(sizes.cache_bytes).durability(Durability::Lazy);
        let tuning = Tuning { shape: Some(sizes.shape), ..Tuning::default() };
        Db::open(dir, options.env(env.clone()).tuning(tuning)).unwrap()
    };
    let db = open();
    let tree = db.create_tree("t", TreeOptions::default()).unwrap();
    let mut rows = 0;
    let full = (sizes.shape.fanout_max * sizes.shape.fanout_max) as u64;
    let is_single = || {
        let levels = db.open_tree("t").unwrap().shape().unwrap().levels;
        levels.len() == 4 && levels[1].children_min == 1 && levels[2].children_min == 1
    };
    while rows < full * ROWS_A_LEAF || !is_single() {
        assert!(rows < full * 2 * ROWS_A_LEAF, "{:?}", db.open_tree("t").unwrap().shape().unwrap());
        rows = append(&db, &tree, sizes.row_bytes, rows);
    }
    let leaves = db.open_tree("t").unwrap().shape().unwrap().levels[3];
    println!("{} leaves of {} bytes together", leaves.nodes, leaves.bytes);
    assert!(leaves.bytes >= full * sizes.shape.leaf_bytes * 7 / 8, "{leaves:?}");

    let left = rows - ROWS_A_LEAF;
    let mut batch = Batch::new();
    (left..rows).for_each(|row| batch.delete(&tree, &key(row)).unwrap());
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    let drained = catch_unwind(AssertUnwindSafe(|| while db.drain_step().unwrap() {}));
    if let Err(panic) = drained {
        // Its locks are poisoned: closing it would hide the panic.
        std::mem::forget((tree, db));
        resume_unwind(panic);
    }
    db.checkpoint().unwrap();
    let verdict = db.check(CheckMode::Full).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
    // Rows appended now are attached where the edge was.
    let rows = append(&db, &tree, sizes.row_bytes, left);
    assert_eq!(rows_of(&tree), rows);
    db.close().unwrap();
    drop((tree, db));
    let db = open();
    assert_eq!(rows_of(&db.open_tree("t").unwrap()), rows);
    let verdict = db.check(CheckMode::Full).unwrap();
    assert!(verdict.is_clean(), "{verdict}");
    db.close().unwrap();
}

/// With the planted bug the run must fail: at these sizes a node pushes everything down and loses
/// its only child.
#[cfg(feature = "planted-bugs")]
fn assert_meets_a_node_without_children(run: impl FnOnce()) {
    use frond::internals::plant;
    plant::arm(Some("tree: a drain keeps a node that has handed all down"));
    let failed = catch_unwind(AssertUnwindSafe(run)).is_err();
    let met = plant::met();
    plant::arm(None);
    assert!(failed && met > 0, "failed: {failed}, met {met} times");
}

#[cfg(not(feature = "planted-bugs"))]
fn assert_meets_a_node_without_children(_run: impl FnOnce()) {}

/// The proportions of the default sizes, scaled down by 256: fanout and code path are those of the
/// default.
#[test]
fn a_drain_at_the_right_edge_leaves_a_readable_tree() {
    let whole = Shape::default();
    let shape = Shape {
        leaf_bytes: whole.leaf_bytes / 256,
        push_bytes: whole.push_bytes / 256,
        block_bytes: whole.block_bytes / 256,
        run_bytes: whole.run_bytes / 256,
        ..whole
    };
    let sizes = Sizes { shape, row_bytes: 240, cache_bytes: 8 << 20 };
    let run = || lose_the_right_edge(&sizes, "/store".as_ref(), &SimVfs::new().env(1));
    assert_meets_a_node_without_children(run);
    run();
}

/// The default sizes themselves: a tree of more than 512 MiB, on real files.
#[test]
#[ignore = "needs some gibibytes of disk: `scripts/torture.sh large`"]
fn a_drain_at_the_right_edge_at_default_sizes_leaves_a_readable_tree() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = Sizes { shape: Shape::default(), row_bytes: 60 << 10, cache_bytes: 256 << 20 };
    let run = |name: &str| lose_the_right_edge(&sizes, &dir.path().join(name), &Env::real());
    assert_meets_a_node_without_children(|| run("planted"));
    run("store");
}
