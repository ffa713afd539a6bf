//! Range deletes, many and long, checked against a model, with reopenings and snapshots.
//!
//! A tree of many rows gets batches of range deletes: disjoint ones in order, overlapping ones
//! anywhere, and ones with long keys, which together exceed 64 MiB. Rows are put again between and
//! within them. After each phase the tree is compared with a model, in both directions. In one
//! phase out of two it is then opened again, in half of these cases without a close. A snapshot
//! taken before the phase must still show the same rows.
//!
//! Exit codes: 0 everything is as in the model; 1 rows differ, a range delete is refused, or the
//! store does not open.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use frond::{Batch, Cursor, Db, Durability, Options, Tree, TreeOptions};
use frond_break::{Dice, Run, short};

const KEYS: u64 = 300_000;
/// Rows of a tree that no range delete covers.
const OTHERS: u64 = 1000;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    (number << 40).to_be_bytes().to_vec()
}

fn open(run: &Run, dir: &Path, cache_bytes: u64) -> (Db, Tree) {
    let options = Options::new().cache_size(cache_bytes).durability(Durability::Os);
    let db = run.must(Db::open(dir, options), "open");
    let tree = match db.open_tree("t") {
        Ok(tree) => tree,
        Err(_) => run.must(load(&db), "load a tree"),
    };
    (db, tree)
}

fn load(db: &Db) -> frond::Result<Tree> {
    let mut load = db.bulk_load("t", TreeOptions::default())?;
    for number in 0..KEYS {
        load.put(&key(number), &[7; 100])?;
    }
    load.finish().map(|loaded| loaded.tree)
}

fn put_rows(run: &Run, db: &Db, tree: &Tree, dice: &mut Dice, model: &mut Rows) {
    for _ in 0..20 {
        let mut batch = Batch::new();
        for _ in 0..200 {
            let (key, value) = (key(dice.below(KEYS)), dice.bytes(60));
            run.must(batch.put(tree, &key, &value), "put");
            model.insert(key, value);
        }
        run.must(db.commit(&mut batch), "commit rows");
    }
}

/// The ranges of one phase, in batches.
fn ranges(dice: &mut Dice, phase: usize) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let long = |number: u64, dice: &mut Dice| {
        let mut from = key(number);
        from.resize(50_000 + dice.below(14_000) as usize, b'x');
        let mut to = from.clone();
        to.push(b'~');
        (from, to)
    };
    let (batches, each) = [(10, 400), (10, 200), (16, 90)][phase % 3];
    let mut next = dice.below(100);
    let mut one = |dice: &mut Dice| match phase % 3 {
        // Disjoint, in order: most bounds are between keys, some on one.
        0 => {
            next += 1 + dice.below(4);
            let mut from = key(next % KEYS);
            if !dice.one_in(4) {
                from.push(b'/');
            }
            let mut to = from.clone();
            to.push(b'~');
            (from, to)
        }
        1 => {
            let from = dice.below(KEYS);
            (key(from), key(from + 1 + dice.below(50)))
        }
        _ => {
            let number = dice.below(KEYS);
            long(number, dice)
        }
    };
    (0..batches).map(|_| (0..each).map(|_| one(dice)).collect()).collect()
}

fn delete(model: &mut Rows, from: &[u8], to: &[u8]) {
    let gone: Vec<_> =
        model.range(from.to_vec()..to.to_vec()).map(|(key, _)| key.clone()).collect();
    gone.iter().for_each(|key| drop(model.remove(key)));
}

fn compare(run: &Run, what: &str, mut cursor: Cursor, model: &Rows) {
    let mut expected = model.iter();
    loop {
        let found = run.must(cursor.next(), what);
        let expected = expected.next().map(|(key, value)| (&key[..], &value[..]));
        if found != expected {
            let key_of = |row: Option<(&[u8], &[u8])>| row.map(|(key, _)| short(key));
            let (found, expected) = (key_of(found), key_of(expected));
            run.fails(format_args!("{what}: found {found:?}, expected {expected:?}"));
        }
        if found.is_none() {
            break;
        }
    }
    cursor.seek_last();
    let mut back = BTreeSet::new();
    while let Some((key, _)) = run.must(cursor.prev(), what) {
        back.insert(key.to_vec());
    }
    if !back.iter().eq(model.keys()) {
        run.fails(format_args!(
            "{what}: downwards there are {} rows of {}",
            back.len(),
            model.len()
        ));
    }
}

fn main() {
    let run = Run::begin("range_deletes");
    let mut dice = run.dice(0);
    let dir = run.dir().join("store");
    let (mut db, mut tree) = open(&run, &dir, 1 << 30);
    let others = run.must(db.create_tree("others", TreeOptions::default()), "create a tree");
    for row in 0..OTHERS {
        run.must(others.put(&row.to_be_bytes(), b"a row"), "put");
    }
    drop(others);
    let mut model: Rows = (0..KEYS).map(|number| (key(number), vec![7; 100])).collect();
    let (mut phase, mut count) = (0, 0);
    while run.goes_on() {
        put_rows(&run, &db, &tree, &mut dice, &mut model);
        if dice.one_in(2) {
            run.must(db.checkpoint(), "checkpoint");
        }
        let (before, snapshot) = (model.clone(), db.snapshot());
        for some in ranges(&mut dice, phase).into_iter().take_while(|_| run.goes_on()) {
            let mut batch = Batch::new();
            for (from, to) in &some {
                run.must(batch.delete_range(&tree, from..to), "delete a range");
                delete(&mut model, from, to);
                if dice.one_in(8) {
                    run.must(batch.put(&tree, from, b"again"), "put");
                    model.insert(from.clone(), b"again".to_vec());
                }
            }
            run.must(db.commit(&mut batch), "commit range deletes");
            count += some.len();
        }
        compare(&run, "at once", run.must(tree.scan(..), "scan"), &model);
        compare(&run, "a snapshot", run.must(snapshot.scan(&tree, ..), "scan"), &before);
        drop(snapshot);
        if phase % 2 == 1 {
            if phase % 4 == 1 {
                run.must(db.close(), "close");
            }
            drop((tree, db));
            (db, tree) = open(&run, &dir, [1 << 30, 64 << 20][phase / 2 % 2]);
            compare(&run, "opened again", run.must(tree.scan(..), "scan"), &model);
        }
        let others = run.must(db.open_tree("others"), "open a tree");
        for row in 0..OTHERS {
            if run.must(others.get(&row.to_be_bytes()), "get").is_none() {
                run.fails(format_args!("row {row} of another tree is gone"));
            }
        }
        phase += 1;
    }
    run.must(db.close(), "close");
    run.ends(format_args!("{phase} phases, {count} range deletes"));
}
