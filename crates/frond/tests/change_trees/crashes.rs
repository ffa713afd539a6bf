//! Changes of several trees with a crash at every call: each is made completely or not at all; and
//! repeating a server's log of them gives the result of a run without a crash.

use frond::Durability;
use frond_testkit::{
    DbEngine,
    disk::{CrashOptions, Note, SimVfs, crash_states},
    effort,
};

use super::*;

type All = BTreeMap<String, (TreeId, Vec<u8>, Rows)>;

fn everything(db: &Db) -> All {
    let trees = db.trees().into_iter().map(|info| {
        let rows = rows_at(&db.snapshot(), &db.open_tree(&info.name).unwrap());
        (info.name, (info.id, info.options.attributes, rows))
    });
    trees.collect()
}

fn fill(db: &Db, name: &str, rows: u32) {
    let tree = db.open_tree(name).unwrap();
    let mut batch = frond::Batch::new();
    // Version 0 of the layout, if there is one.
    let value = if name == "laid" { &[0, 0, 7][..] } else { name.as_bytes() };
    (0..rows).for_each(|row| batch.put(&tree, &row.to_be_bytes(), value).unwrap());
    db.commit(&mut batch).unwrap();
}

/// One entry of a server's log: a change of several trees.
fn entry(db: &Db, number: usize, ids: &[TreeId]) -> frond::schema::TreesChange {
    let id = |tree: usize| ids[tree];
    let mut change = db.change_trees();
    change.repeatable();
    match number {
        // Six trees: a rebuilt table of three trees replaces the old one.
        0 => {
            for (tree, name) in ["t", "t.1", "t.2"].into_iter().enumerate() {
                let (new, to) = (format!("{name} new"), format!("{name} old"));
                change.rename((id(tree), name), &to);
                change.rename((id(tree + 3), new.as_str()), name).publish((id(tree + 3), name));
            }
        }
        1 => {
            for (tree, name) in ["t old", "t.1 old", "t.2 old"].into_iter().enumerate() {
                change.drop_tree((id(tree), name));
            }
            change.set_attributes((id(3), "t"), b"made anew".to_vec());
        }
        2 => {
            for (tree, name) in ["u", "u.1", "u.2"].into_iter().enumerate() {
                change.truncate((id(tree + 6), name));
            }
            change.swap((id(9), "v"), (id(4), "t.1")).rename((id(5), "t.2"), "w");
        }
        // Clones replace the trees that they were cloned from.
        4 => {
            change
                .clone_tree((id(3), "t"), "t kept")
                .drop_tree((id(3), "t"))
                .truncate((id(4), "v"));
            let parts = [NewPart::Keep(2), NewPart::Keep(1)];
            change.change_layout((id(10), "laid anew"), Some(1), &parts);
        }
        _ => {
            for (tree, name) in [(3, "t"), (9, "t.1"), (4, "v")] {
                change.clone_tree((id(tree), name), &format!("{name} copy"));
            }
            let attributes = b"uuid".to_vec();
            change.create("x", TreeOptions::new().attributes(attributes));
            change.create("y", TreeOptions::new().unique(true));
            let parts = [NewPart::Keep(1), NewPart::Add { part: BYTE, default: vec![9] }];
            change.change_layout((id(10), "laid"), Some(0), &parts);
            change.set_attributes((id(10), "laid"), b"two columns".to_vec());
            change.rename((id(10), "laid"), "laid anew");
        }
    }
    change
}

const ENTRIES: usize = 5;
const NAMES: [&str; 11] =
    ["t", "t.1", "t.2", "t new", "t.1 new", "t.2 new", "u", "u.1", "u.2", "v", "laid"];
const BYTE: Part = Part::Fixed(1, Hint::Integer);

fn options_of(name: &str) -> TreeOptions {
    let value_layout = (name == "laid").then(|| Layout::versioned([BYTE]));
    TreeOptions::new().value_layout(value_layout)
}

/// Names, attributes and rows, without tree numbers: repetitions create trees with other numbers.
fn without_numbers(all: &All) -> BTreeMap<String, (Vec<u8>, Rows)> {
    all.iter().map(|(name, (_, of, rows))| (name.clone(), (of.clone(), rows.clone()))).collect()
}

/// Promises: P1, P4, P7. Rule: I35.
#[test]
fn a_crashed_change_took_effect_completely_or_not_at_all() {
    let (mut points, mut tried, mut between) = (0, 0, 0);
    for seed in effort::seeds(2) {
        let engine = DbEngine::tiny(Durability::Sync);
        let vfs = SimVfs::new();
        let db = engine.store(vfs.env(seed));
        let ids = NAMES.map(|name| db.create_tree(name, options_of(name)).unwrap().id());
        NAMES.iter().for_each(|name| fill(&db, name, 40));
        if seed % 2 == 1 {
            db.checkpoint().unwrap();
        }
        vfs.record();
        let mut states = vec![everything(&db)];
        let note = |issued: usize, floor: usize| {
            let (issued, floor) = (issued as u64, floor as u64);
            vfs.set_note(Note { issued, floor_power: floor, floor_kill: floor });
        };
        for number in 0..ENTRIES {
            note(number + 1, number);
            assert!(entry(&db, number, &ids).commit().unwrap().seqno.is_some());
            states.push(everything(&db));
            note(number + 1, number + 1);
            // Apply some of it before the next change.
            for _ in 0..seed % 3 {
                db.step().unwrap();
            }
        }
        db.close().unwrap();
        assert_eq!(vfs.violations(), Vec::<String>::new());
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
                    let names: Vec<_> = found.keys().collect();
                    panic!("{what}: {names:?} is none of {possible:?}");
                };
                between += usize::from(possible.count() > 1 && done == point.note.issued as usize);
                // The log is repeated from where it was, or from its start.
                let from = if tried % 2 == 0 { 0 } else { done };
                for number in from..ENTRIES {
                    entry(&db, number, &ids).commit().unwrap();
                }
                let now = everything(&db);
                let (now, all) = (without_numbers(&now), without_numbers(&states[ENTRIES]));
                let differs = |name: &&String| now.get(*name) != all.get(*name);
                let others: Vec<_> = now.keys().chain(all.keys()).filter(differs).collect();
                assert!(others.is_empty(), "{what}: from {from}, {done} were there: {others:?}");
                let report = db.check(CheckMode::Full).unwrap();
                assert!(report.is_clean(), "{what}: {report}");
                db.close().unwrap();
            }
        }
    }
    assert!(between > 0);
    println!(
        "{points} points, {tried} crashes, {between} of them found a change that was not acknowledged"
    );
}
