//! An index built concurrently with writers, and changes of columns, with a crash at every call: a
//! change is there as a whole or not at all, and nothing is left of an incomplete one.

use frond::internals::io::Env;
use frond_testkit::{
    DbEngine,
    disk::{CrashOptions, Note, SimVfs, crash_states},
    effort,
};

use super::*;

/// A run of the test, step by step: each step is a commit, some from within the build.
struct Story<'a> {
    vfs: &'a SimVfs,
    db: &'a Db,
    table: &'a Table,
    states: Vec<Rows>,
}

impl Story<'_> {
    fn put(&mut self, key: &str, row: &str) {
        let floor = self.states.len() as u64 - 1;
        self.vfs.set_note(Note { issued: floor + 1, floor_power: floor, floor_kill: floor });
        put_all(self.db, self.table, &[(key, row)]);
        let mut rows = self.states.last().unwrap().clone();
        rows.insert(key.into(), row.into());
        self.states.push(rows);
        let floor = floor + 1;
        self.vfs.set_note(Note { issued: floor, floor_power: floor, floor_kill: floor });
    }
}

/// Checks that the table, with its index or without, is in one of these states; returns whether the
/// index is built.
fn must_be_one_of(engine: &DbEngine, env: Env, index: &IndexSpec, states: &[Rows]) -> bool {
    let db = engine.store(env);
    let (table, is_built) = match db.table(TableSpec::new("people")) {
        Err(Error::TableMismatch { .. }) => (db.table(spec([index.clone()])).unwrap(), true),
        table => (table.unwrap(), false),
    };
    assert_eq!(trees(&db).len(), 1 + usize::from(is_built), "{:?}", trees(&db));
    assert_consistent(&db, &table);
    let mut rows = Rows::new();
    let mut cursor = table.rows().scan(..).unwrap();
    while let Some((key, row)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), row.to_vec());
    }
    assert!(states.contains(&rows), "{rows:?} is none of {states:?}");
    // The table works, and an index can be built.
    if !is_built {
        table.build_index(index.clone()).unwrap();
    }
    put_all(&db, &table, &[("key 3", "again@x,Bonn,1")]);
    assert_consistent(&db, &table);
    drop(cursor);
    db.close().unwrap();
    is_built
}

/// Promises: P1, P4, P7. Rule: I34.
#[test]
fn a_crashed_build_leaves_an_index_or_none() {
    let (mut points, mut tried, mut built) = (0, 0, 0);
    for seed in effort::seeds(1) {
        for index in [mail(), number()] {
            let engine = DbEngine::tiny(Durability::Sync);
            let vfs = SimVfs::new();
            let db = engine.store(vfs.env(seed));
            let table = db.table(TableSpec::new("people")).unwrap();
            let mut rows = Rows::new();
            for n in 0..30 {
                let (key, row) = (format!("key {n}"), format!("{n}@x,Oslo,{}", n % 4));
                rows.insert(key.into(), row.into());
            }
            db.transact(|txn| rows.iter().try_for_each(|(key, row)| table.insert(txn, key, row)))
                .unwrap();
            vfs.record();
            vfs.set_note(Note { issued: 0, floor_power: 0, floor_kill: 0 });
            let mut story = Story { vfs: &vfs, db: &db, table: &table, states: vec![rows] };
            let watch = |progress| {
                match progress {
                    BuildProgress::Loading { .. } => {
                        story.put("key 3", ",Oslo,2");
                        story.put("key 4", "3@x,Oslo,0");
                    }
                    BuildProgress::CatchingUp { round: 1, .. } => story.put("key 99", "4@x,,7"),
                    _ => {}
                }
                ControlFlow::Continue(())
            };
            table.build_index_with(index.clone(), watch).unwrap();
            story.put("key 5", "x@x,Bonn,1");
            let states = story.states;
            assert_consistent(&db, &table);
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
                    let env = SimVfs::start(state.disk).env(seed ^ 7);
                    let run = || must_be_one_of(&engine, env, &index, possible);
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
    }
    assert!(0 < built && built < tried);
    println!("{points} points, {tried} crashes, {built} with the index");
}

/// The number of columns that the table has after a crash, and its rows as bytes of the current
/// version.
fn rows_now(table: &Table) -> (usize, Rows) {
    let mut rows = Rows::new();
    let mut cursor = table.rows().scan(..).unwrap();
    while let Some((key, row)) = cursor.next().unwrap() {
        rows.insert(key.to_vec(), row.to_vec());
    }
    (table.columns().unwrap().len(), rows)
}

/// The log has rows of both versions, and the change between them. Promises: P1, P4, P7. Rule: I49.
#[test]
fn a_crashed_column_change_took_effect_or_not() {
    let number = Part::Fixed(1, Hint::Integer);
    let (mut tried, mut changed) = (0, 0);
    for seed in effort::seeds(1) {
        let engine = DbEngine::tiny(Durability::Sync);
        let vfs = SimVfs::new();
        let db = engine.store(vfs.env(seed));
        let columns = vec![Column::new("a", number)];
        let mut table = db.table(TableSpec::new("people").columns(columns)).unwrap();
        let write = |table: &Table, keys: std::ops::Range<u8>, version: u8| {
            let row = |key: u8| [vec![0, version], vec![key; 1 + usize::from(version)]].concat();
            db.transact(|txn| {
                keys.clone().try_for_each(|key| table.put(txn, [key], row(key)).map(drop))
            })
            .unwrap();
        };
        write(&table, 0..40, 0);
        vfs.record();
        let mut states = vec![rows_now(&table)];
        let issue = |issued: usize, known: usize| {
            let known = known as u64;
            vfs.set_note(Note { issued: issued as u64, floor_power: known, floor_kill: known });
        };
        for step in 0..6u8 {
            issue(states.len(), states.len() - 1);
            match step {
                1 | 4 => {
                    let column = Column::new(&format!("b{step}"), number);
                    let add = ColumnChange::Add { column, default: vec![200], at: Some(0) };
                    table = table.change_columns(&[add], vec![]).unwrap();
                }
                2 => {
                    db.checkpoint().unwrap();
                    write(&table, 30..45, 1);
                }
                _ => write(&table, step..60, table.rows().layout_version().unwrap() as u8),
            }
            states.push(rows_now(&table));
            issue(states.len() - 1, states.len() - 1);
        }
        drop(table);
        db.close().unwrap();
        assert_eq!(vfs.violations(), Vec::<String>::new());
        for point in vfs.recorded() {
            let options = CrashOptions::short().with_seed(seed ^ point.change_number);
            for state in crash_states(&point.disk, &options) {
                tried += 1;
                let db = engine.store(SimVfs::start(state.disk).env(seed ^ 7));
                let table = db.table(TableSpec::new("people")).unwrap();
                let found = rows_now(&table);
                changed += usize::from(found.0 > 1);
                let possible =
                    &states[point.note.floor_power as usize..=point.note.issued as usize];
                let what = format!("seed {seed}, before {}: {}", point.call, state.what);
                assert!(possible.contains(&found), "{what}: {} columns", found.0);
            }
        }
    }
    assert!(0 < changed && changed < tried);
    println!("{tried} crashes, {changed} with a column more");
}
