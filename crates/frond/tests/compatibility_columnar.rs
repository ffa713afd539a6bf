//! A store of columnar runs and byte-shuffled blocks stays readable and writable (docs/format.md).
//!
//! `fixtures/store-2` was written by [`write_the_fixture`] when string models had versions 1 and 2,
//! and run footers versions 1 to 3. Its rows are functions of their numbers, below: if these
//! change, another fixture must be written.

mod common;
#[path = "common/sizes.rs"]
mod sizes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use common::options;
use frond::{
    Batch, Db, Durability, Options, Result, Snapshot, Tree, TreeOptions,
    check::{self, CheckMode},
    internals::{Limits, Shape, Tuning},
    layout::{End, Hint, Layout, Part},
};
use frond_testkit::Dice;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Jobs by number, with all kinds of string columns; jobs by price; rows without layouts.
const TREES: [&str; 3] = ["jobs", "jobs.price", "plain"];
const ROWS: [u32; 3] = [1800, 1200, 1200];
/// Encodings that each of them has, at least.
const ENCODINGS: [&[&str]; 3] = [
    &["difference", "reference", "templates", "model dictionary", "fsst, zstd"],
    &["line"],
    &["transposed zstd"],
];
/// A named snapshot of the rows as they were loaded.
const SNAPSHOT: &str = "loaded";
/// Rows of each tree that are deleted as a range; the delete waits in a buffer, if the tree has
/// one.
const DELETED: std::ops::Range<u32> = 700..900;

fn layouts(tree: &str) -> TreeOptions {
    let number = |bytes| Part::Fixed(bytes, Hint::Integer);
    let string = || Part::Var(End::Prefixed);
    let (key, value) = match tree {
        "jobs" => {
            let texts = [string(), string(), string(), Part::Var(End::Rest)];
            (vec![number(8)], [vec![string(), number(8), number(8)], texts.to_vec()].concat())
        }
        "jobs.price" => (vec![number(4), number(8), number(8)], vec![]),
        _ => return TreeOptions::default(),
    };
    let value_layout = (!value.is_empty()).then(|| Layout::new(value));
    TreeOptions::new().key_layout(Layout::new(key)).value_layout(value_layout)
}

/// The row of a tree with this number.
fn row(tree: &str, number: u32) -> (Vec<u8>, Vec<u8>) {
    let mut dice = Dice::new(u64::from(number) + 1);
    match tree {
        "jobs" => {
            let mut value = Vec::new();
            let name =
                format!("{}-{:05}", dice.pick(&["fern", "frond", "moss"]), dice.below(90_000));
            put_string(&mut value, &name);
            let begun = 1_700_000_000_000_000 + dice.below(86_400_000_000);
            value.extend(begun.to_be_bytes());
            value.extend((begun + dice.below(3000)).to_be_bytes());
            put_string(&mut value, &format!("pool/main/{name}/{name}_amd64.job"));
            put_string(&mut value, &place(dice.below(80)));
            put_string(&mut value, &call(&mut dice));
            value.extend(sentence(&mut dice).into_bytes());
            (u64::from(number).to_be_bytes().to_vec(), value)
        }
        "jobs.price" => {
            // Numbers follow the start times, and prices follow neither.
            let begun = 1_700_000_000_000_000 + u64::from(number) * 2_000 + dice.below(9_000);
            let mut key = (dice.below(90_000) as u32).to_be_bytes().to_vec();
            key.extend([begun, u64::from(number)].map(u64::to_be_bytes).concat());
            (key, Vec::new())
        }
        _ => {
            let key = [&b"plain"[..], &(number * 3).to_be_bytes()].concat();
            let value = format!("{:06}{:04}", 100_000 + dice.below(30), dice.below(700));
            (key, value.into_bytes())
        }
    }
}

fn put_string(out: &mut Vec<u8>, string: &str) {
    out.push(u8::try_from(string.len()).ok().filter(|length| *length < 128).expect("short"));
    out.extend_from_slice(string.as_bytes());
}

/// A name without syllables.
fn place(number: u64) -> String {
    let mut dice = Dice::new(number * 77 + 5);
    (0..16).map(|_| char::from(b'a' + dice.below(26) as u8)).collect()
}

fn call(dice: &mut Dice) -> String {
    let user = *dice.pick(&["ann", "bob", "cy", "dee", "eve"]);
    let (page, token) = (dice.below(5000), dice.bits());
    match dice.below(3) {
        0 => format!("exec list @user='{user}', @page={page}, @token={token:016x}"),
        1 => format!("exec show @user='{user}', @job={page}"),
        _ => format!("exec stop @job={page}, @user='{user}', @by='system', @reason='none given'"),
    }
}

fn sentence(dice: &mut Dice) -> String {
    let words = ["leaf", "of", "the", "grows", "towards", "light", "where", "water", "stands"];
    (0..3 + dice.below(6)).map(|_| *dice.pick(&words)).collect::<Vec<_>>().join(" ")
}

/// The rows of a tree as they were loaded.
fn loaded(tree: usize) -> Rows {
    (0..ROWS[tree]).map(|number| row(TREES[tree], number)).collect()
}

/// Changes after the load, newer than what was loaded and older than what only the log has.
fn change(tree: usize, rows: &mut Rows, db: Option<&Db>) {
    let name = TREES[tree];
    let mut batch = Batch::new();
    let open = db.map(|db| db.open_tree(name).unwrap());
    let sorted: Vec<Vec<u8>> = rows.keys().cloned().collect();
    let (from, to) = (&sorted[DELETED.start as usize], &sorted[DELETED.end as usize]);
    rows.retain(|key, _| key < from || key >= to);
    if let Some(open) = &open {
        batch.delete_range(open, from..to).unwrap();
        db.unwrap().commit(&mut batch).unwrap();
    }
    for (at, key) in sorted.iter().enumerate().skip(3).step_by(41) {
        if at % 5 == 0 {
            rows.remove(key);
            open.iter().for_each(|open| batch.delete(open, key).unwrap());
        } else {
            let value = row(name, ROWS[tree] + at as u32).1;
            open.iter().for_each(|open| batch.put(open, key, &value).unwrap());
            rows.insert(key.clone(), value);
        }
    }
    if let Some(db) = db {
        db.commit(&mut batch).unwrap();
    }
}

/// Changes that only the log has.
fn log(tree: usize, rows: &mut Rows, db: Option<&Db>) {
    for number in ROWS[tree] + 10_000..ROWS[tree] + 10_020 {
        let (key, value) = row(TREES[tree], number);
        if let Some(db) = db {
            db.open_tree(TREES[tree]).unwrap().put(&key, &value).unwrap();
        }
        rows.insert(key, value);
    }
}

/// The rows of all trees, as the fixture has them.
fn now() -> Vec<Rows> {
    let rows = |tree| {
        let mut rows = loaded(tree);
        change(tree, &mut rows, None);
        log(tree, &mut rows, None);
        rows
    };
    (0..TREES.len()).map(rows).collect()
}

/// Leaves of a few hundred rows, so that later ones have models trained on earlier ones.
fn written_with() -> Options {
    let shape = Shape { leaf_bytes: 40 << 10, block_bytes: 4096, ..Shape::default() };
    let limits = Limits { checkpoint_millis: 1 << 30, ..common::tiny().limits.unwrap() };
    let limits = Limits { memtable_bytes: 1 << 20, ..limits };
    let segment_bytes = Some(256 << 10);
    let tuning =
        Tuning { shape: Some(shape), limits: Some(limits), segment_bytes, ..common::tiny() };
    Options::new().cache_size(16 << 20).durability(Durability::Sync).tuning(tuning)
}

/// `cargo test --test compatibility_columnar -- --ignored` writes it next to the others, under a
/// new name: fixtures written by older code are never rewritten.
#[test]
#[ignore = "writes a fixture"]
fn write_the_fixture() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), written_with()).unwrap();
    for (tree, name) in TREES.iter().enumerate() {
        let mut load = db.bulk_load(name, layouts(name)).unwrap();
        for (key, value) in loaded(tree) {
            load.put(&key, &value).unwrap();
        }
        load.finish().unwrap();
    }
    db.create_snapshot(SNAPSHOT).unwrap();
    for tree in 0..TREES.len() {
        change(tree, &mut loaded(tree), Some(&db));
    }
    db.checkpoint().unwrap();
    (0..TREES.len()).for_each(|tree| log(tree, &mut Rows::new(), Some(&db)));
    // Copies the files as a process that dies leaves them.
    for (name, path) in files(dir.path()) {
        let bytes = fs::read(path).unwrap();
        let packed = zstd::encode_all(&bytes[..], 19).unwrap();
        println!("{name}: {} bytes, {} packed", bytes.len(), packed.len());
        let name = name.strip_prefix("store.").unwrap_or(&name);
        let to = fixtures().join(format!("store-new.{name}.zst"));
        assert!(!to.exists(), "{to:?} is there");
        fs::write(to, packed).unwrap();
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The files of a directory, by name.
fn files(dir: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    fs::read_dir(dir).unwrap().map(|file| {
        let file = file.unwrap();
        (file.file_name().into_string().expect("a name of ours"), file.path())
    })
}

fn unpack(dir: &Path) {
    for (name, path) in files(&fixtures()).filter_map(|(name, path)| {
        let name = name.strip_prefix("store-2.")?.strip_suffix(".zst")?;
        Some((name.to_owned(), path))
    }) {
        let name = if name.starts_with("log") { name } else { format!("store.{name}") };
        let bytes = zstd::decode_all(&fs::read(path).unwrap()[..]).expect("it is whole");
        fs::write(dir.join(name), bytes).unwrap();
    }
}

/// Reads a tree in all ways.
fn assert_rows(snapshot: &Snapshot, tree: &Tree, rows: &Rows) -> Result<()> {
    for (key, value) in rows {
        assert_eq!(snapshot.get(tree, key)?.as_ref(), Some(value), "{key:?}");
    }
    let mut cursor = snapshot.scan(tree, ..)?;
    for (key, value) in rows {
        assert_eq!(cursor.next()?, Some((&key[..], &value[..])));
    }
    assert_eq!(cursor.next()?, None);
    cursor.seek_last();
    for (key, value) in rows.iter().rev() {
        assert_eq!(cursor.prev()?, Some((&key[..], &value[..])));
    }
    assert_eq!(cursor.prev()?, None);
    Ok(())
}

/// Reads projections of the values of jobs.
fn assert_parts(snapshot: &Snapshot, tree: &Tree, rows: &Rows) -> Result<()> {
    let layout = layouts("jobs").value_layout.expect("it has one");
    for wanted in [&[1][..], &[0, 3], &[5], &[4, 6], &[]] {
        let parts = tree.projection(wanted)?;
        let mut cursor = snapshot.scan(tree, ..)?.project(&parts)?;
        let mut got = Vec::new();
        for (key, value) in rows {
            let mut ends = Vec::new();
            assert!(layout.split(value, &mut ends));
            let start = |part: usize| part.checked_sub(1).map_or(0, |before| ends[before]);
            let cut: Vec<u8> =
                wanted.iter().flat_map(|&part| value[start(part)..ends[part]].to_vec()).collect();
            assert_eq!(cursor.next()?, Some((&key[..], &cut[..])), "{wanted:?}");
            assert!(snapshot.get_projected(tree, key, &parts, &mut got)?);
            assert_eq!(got, cut, "{wanted:?}");
        }
        assert_eq!(cursor.next()?, None);
    }
    Ok(())
}

/// Reads all trees in all ways, now and at the named snapshot.
fn assert_all(db: &Db, now: &[Rows]) {
    let snapshots = [(db.snapshot(), now.to_vec()), {
        let loaded = (0..TREES.len()).map(loaded).collect();
        (db.open_snapshot(SNAPSHOT).unwrap(), loaded)
    }];
    for (snapshot, trees) in &snapshots {
        for (name, rows) in TREES.iter().zip(trees) {
            let tree = snapshot.open_tree(name).unwrap();
            assert_rows(snapshot, &tree, rows).unwrap();
            if *name == "jobs" {
                assert_parts(snapshot, &tree, rows).unwrap();
            }
        }
    }
}

#[test]
fn a_store_of_columnar_runs_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    unpack(dir.path());
    let mut rows = now();
    // A read-only open drains nothing.
    let db = Db::open(dir.path(), options().read_only(true)).unwrap();
    for (name, encodings) in TREES.iter().zip(ENCODINGS) {
        let found = db.open_tree(name).unwrap().column_sizes(1).unwrap();
        let uses = found.columns.values().chain([&found.row_blocks]);
        let met: BTreeSet<&str> =
            uses.flat_map(|column| column.encodings.keys().copied()).collect();
        let missed: Vec<_> = encodings.iter().filter(|name| !met.contains(*name)).collect();
        assert!(missed.is_empty(), "{name}: {missed:?} is not in {met:?}");
        let waiting: u64 = db
            .open_tree(name)
            .unwrap()
            .shape()
            .unwrap()
            .levels
            .iter()
            .map(|level| level.parts)
            .sum();
        assert!(waiting > 0 || *name != "jobs", "nothing waits in buffers");
        // Found by one walk over the nodes; the raw length of rows was not recorded, so their
        // encoded length is taken.
        let (sizes, _) = sizes::expect(&db, name);
        assert_eq!(sizes.raw_bytes, sizes.encoded_bytes, "{name}: {sizes:?}");
        assert!(sizes.depth > 1 || *name != "jobs", "{name}: {sizes:?}");
    }
    assert_all(&db, &rows);
    db.close().unwrap();
    drop(db);
    let report = check::store(dir.path(), CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    // Writing, with leaves of another size, and in the middle of what waits in buffers.
    let db = Db::open(dir.path(), options()).unwrap();
    for (number, rows) in rows.iter_mut().enumerate() {
        let tree = db.open_tree(TREES[number]).unwrap();
        let mut batch = Batch::new();
        for (at, key) in rows.keys().step_by(37).cloned().collect::<Vec<_>>().iter().enumerate() {
            if at % 3 == 0 {
                batch.delete(&tree, key).unwrap();
                rows.remove(key);
            } else {
                let value = row(TREES[number], 50_000 + at as u32).1;
                batch.put(&tree, key, &value).unwrap();
                rows.insert(key.clone(), value);
            }
        }
        let last = rows.keys().nth_back(100).expect("there are more").clone();
        batch.delete_range(&tree, &last[..]..&[0xff; 20][..]).unwrap();
        drop(rows.split_off(&last));
        db.commit(&mut batch).unwrap();
    }
    assert_all(&db, &rows);
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    assert_all(&db, &rows);
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
    db.close().unwrap();
    drop(db);
    let db = Db::open(dir.path(), options()).unwrap();
    assert_all(&db, &rows);
    for (name, rows) in TREES.iter().zip(&rows) {
        sizes::rewrite(&db, name);
        let (sizes, row_bytes) = sizes::expect(&db, name);
        assert_eq!((sizes.leaf_rows, sizes.raw_bytes), (rows.len() as u64, row_bytes), "{name}");
    }
    db.drop_snapshot(SNAPSHOT).unwrap();
    db.close().unwrap();
    let report = check::store(dir.path(), CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
