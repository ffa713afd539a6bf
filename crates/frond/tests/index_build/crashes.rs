//! Tests of a build with a crash at every call: its indexes are there completely, with what was
//! acknowledged, or not at all.

use super::*;
use frond::internals::io::Env;
use frond_testkit::{
    DbEngine,
    campaign::start_occupied,
    disk::{CrashOptions, DiskState, Note, SimVfs, crash_states},
    effort,
};

/// The steps, one commit each.
struct Story<'a> {
    vfs: &'a SimVfs,
    db: &'a Db,
    base: &'a Tree,
    states: Vec<Rows>,
}

impl Story<'_> {
    /// Alternates between transactions and batches.
    fn put(&mut self, key: &str, row: &str) {
        let floor = self.states.len() as u64 - 1;
        self.vfs.set_note(Note { issued: floor + 1, floor_power: floor, floor_kill: floor });
        if floor.is_multiple_of(2) {
            put(self.base, key, row);
        } else {
            self.db.transact(|txn| txn.put(self.base, key.as_bytes(), row.as_bytes())).unwrap();
        }
        let mut rows = self.states.last().unwrap().clone();
        rows.insert(key.into(), row.into());
        self.states.push(rows);
        let floor = floor + 1;
        self.vfs.set_note(Note { issued: floor, floor_power: floor, floor_kill: floor });
    }
}

/// True if the indexes are there; if not, asserts that they can be built.
fn must_be_one_of(engine: &DbEngine, env: Env, states: &[Rows]) -> bool {
    let db = engine.store(env);
    let base = db.open_tree("people").unwrap();
    let found = rows(&base);
    assert!(states.contains(&found), "{found:?} is none of {states:?}");
    let is_built = names(&db).len() > 1;
    if !is_built {
        build_all(&db, &base).unwrap();
    }
    assert_consistent(&db);
    db.close().unwrap();
    is_built
}

/// Asserts that existing indexes are in step with the rows.
fn must_open_on_a_full_disk(engine: &DbEngine, disk: &DiskState, states: &[Rows]) {
    let vfs = start_occupied(disk, true).unwrap();
    let db = engine.store(vfs.env(8));
    let found = rows(&db.open_tree("people").unwrap());
    assert!(states.contains(&found), "with nothing free {found:?} is none of {states:?}");
    if db.open_tree(NAMES).is_ok() {
        assert_indexes_consistent(&db);
    }
    vfs.halt();
}

/// Promises: P1, P4, P5, P7. Rules: I24, I34.
#[test]
fn a_crashed_build_leaves_all_indexes_or_none() {
    let (mut points, mut tried, mut built) = (0, 0, 0);
    for seed in effort::seeds(1) {
        let engine = DbEngine::tiny(Durability::Sync);
        let vfs = SimVfs::new();
        let db = engine.store(vfs.env(seed));
        let base = db.create_tree("people", Default::default()).unwrap();
        let mut first = Batch::new();
        for n in 0..30 {
            let (key, row) = (format!("key {n}"), format!("{n},{}", n % 4));
            first.put(&base, key.as_bytes(), row.as_bytes()).unwrap();
        }
        db.commit(&mut first).unwrap();
        vfs.record();
        vfs.set_note(Note { issued: 0, floor_power: 0, floor_kill: 0 });
        let mut story = Story { vfs: &vfs, db: &db, base: &base, states: vec![rows(&base)] };
        let mut build = db.build_indexes(&base, &indexes()).unwrap();
        story.put("key 3", ",Oslo");
        feed_base(&mut build, &base).unwrap();
        story.put("key 4", "3,Oslo");
        story.put("key 5", "4,Oslo");
        assert_eq!(feed_round(&mut build).unwrap(), 2);
        story.put("key 6", "5,Oslo");
        assert_eq!(feed_round(&mut build).unwrap(), 1);
        build.lock(SECOND).unwrap();
        assert_eq!(feed_round(&mut build).unwrap(), 0);
        build.publish(|_| {}).unwrap();
        let states = story.states;
        assert_consistent(&db);
        db.close().unwrap();
        assert_eq!(vfs.violations(), Vec::<String>::new());
        for point in vfs.recorded() {
            points += 1;
            let options = CrashOptions::short().with_seed(seed ^ point.change_number);
            for state in crash_states(&point.disk, &options) {
                tried += 1;
                let possible =
                    &states[point.note.floor_power as usize..=point.note.issued as usize];
                let what = format!("seed {seed}, before {}: {}", point.call, state.what);
                let run = || {
                    must_open_on_a_full_disk(&engine, &state.disk, possible);
                    must_be_one_of(
                        &engine,
                        SimVfs::start(state.disk.clone()).env(seed ^ 7),
                        possible,
                    )
                };
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)) {
                    Ok(is_built) => built += u64::from(is_built),
                    Err(panic) => {
                        eprintln!("{what}");
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }
    assert!(0 < built && built < tried);
    println!("{points} points, {tried} crashes, {built} with the indexes");
}
