//! Loads into empty trees with a crash at every call: all trees of a load are filled, or none is
//! changed.

use frond::{Durability, TreeId};
use frond_testkit::{
    DbEngine,
    disk::{CrashOptions, Note, SimVfs, crash_states},
};

use super::*;

type All = BTreeMap<String, (TreeId, [u64; 2], Rows)>;

fn everything(db: &Db) -> All {
    let trees = db.trees().into_iter().map(|info| {
        let tree = db.open_tree(&info.name).unwrap();
        let next = [0, 1].map(|counter| tree.next_number(counter).unwrap());
        (info.name, (info.id, next, rows_at(&db.snapshot(), &tree)))
    });
    trees.collect()
}

/// A table, its index, and a new tree, filled in one commit with a crash at every call: either all
/// of it is there or nothing, and everything that existed before is unchanged. Promises: P1, P2,
/// P4, P7. Rules: I11, I35.
#[test]
fn a_crashed_load_has_filled_all_trees_or_none() {
    let (mut points, mut tried, mut between) = (0, 0, 0);
    for seed in effort::seeds(4) {
        let engine = DbEngine::tiny(Durability::Sync);
        let vfs = SimVfs::new();
        let db = engine.store(vfs.env(seed));
        let trees = ["table", "index"].map(|name| create(&db, name));
        for (tree, count) in trees.iter().zip([60, 0]) {
            put_and_delete_rows(&db, tree, count.max(2));
            tree.reserve(0, 1, 70 + u64::from(count)).unwrap();
            // So that the log records it.
            tree.put(b"k", b"").unwrap();
            tree.delete(b"k").unwrap();
        }
        if seed % 2 == 1 {
            db.checkpoint().unwrap();
        }
        vfs.record();
        let mut states = vec![everything(&db)];
        let note = |issued: u64, floor: u64| {
            vfs.set_note(Note { issued, floor_power: floor, floor_kill: floor });
        };
        note(1, 0);
        let mut loads: Vec<BulkLoad> =
            trees.iter().map(|tree| db.bulk_load_into(tree).unwrap()).collect();
        loads.push(db.bulk_load("new", TreeOptions::default()).unwrap());
        for (load, count) in loads.iter_mut().zip([150, 40, 30]) {
            put(load, count, b"a row of a load");
        }
        loads[0].put(b"long", &[7; 70_000]).unwrap();
        drop(trees);
        BulkLoad::finish_all(loads).unwrap();
        states.push(everything(&db));
        note(2, 1);
        let table = db.open_tree("table").unwrap();
        table.put(b"later", b"").unwrap();
        states.push(everything(&db));
        note(2, 2);
        for _ in 0..seed {
            db.step().unwrap();
        }
        drop(table);
        db.close().unwrap();
        assert_eq!(vfs.violations(), Vec::<String>::new());
        assert_eq!(states[1]["table"].1[0], states[0]["table"].1[0], "it goes on counting");
        for point in vfs.recorded() {
            points += 1;
            let options = CrashOptions::short().with_seed(seed ^ point.change_number);
            for state in crash_states(&point.disk, &options) {
                tried += 1;
                let what = format!("seed {seed}, before {}: {}", point.call, state.what);
                let db = engine.store(SimVfs::start(state.disk).env(seed ^ 7));
                let found = everything(&db);
                let possible = point.note.floor_power as usize..=point.note.issued as usize;
                let done = possible.clone().find(|at| states[*at] == found);
                let Some(done) = done else {
                    let found: Vec<_> = found
                        .iter()
                        .map(|(name, (id, next, rows))| (name, id.0, next, rows.len()))
                        .collect();
                    panic!("{what}: {found:?} is none of {possible:?}");
                };
                between += usize::from(possible.count() > 1 && done == point.note.issued as usize);
                if done == 0 {
                    // The load must be possible again.
                    let tree = db.open_tree("table").unwrap();
                    load_into(&db, &tree, 20, b"again").unwrap();
                    assert_eq!(rows_of(&db, "table").len(), 20, "{what}");
                }
                let report = db.check(CheckMode::Full).unwrap();
                assert!(report.is_clean(), "{what}: {report}");
                db.close().unwrap();
            }
        }
    }
    assert!(between > 0);
    println!(
        "{points} points, {tried} crashes, {between} of them found a load that was not acknowledged"
    );
}
