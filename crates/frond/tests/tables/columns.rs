//! Columns that are added, dropped, renamed and moved while rows of all versions are stored,
//! against a model that rewrites every row at each change.

use std::collections::BTreeMap;

use frond::{
    SizeClass, Snapshot, Tree,
    layout::{End, Layout, NewPart},
};
use frond_testkit::{DbEngine, Dice, disk::SimVfs, effort};

use super::*;

/// A row: the content of each column, by a number that the column keeps whatever its name.
type Cells = BTreeMap<u32, Vec<u8>>;

/// A column of the model.
#[derive(Clone, PartialEq, Debug)]
struct Known {
    number: u32,
    column: Column,
}

/// Columns as a handle knows them.
#[derive(Clone, Debug)]
struct Handle {
    table: Table,
    columns: Vec<Known>,
    version: u16,
}

fn part(dice: &mut Dice) -> Part {
    *dice.pick(&[
        Part::Fixed(4, Hint::Integer),
        Part::Fixed(8, Hint::Integer),
        Part::Fixed(20, Hint::None),
        Part::Var(End::Prefixed),
        Part::Var(End::Prefixed),
        Part::Var(End::Escaped),
    ])
}

fn cell(part: Part, dice: &mut Dice) -> Vec<u8> {
    let seed = dice.below(100) as u8 + 2;
    match part {
        Part::Fixed(width, _) => {
            let mut bytes = vec![0; width.into()];
            bytes[usize::from(width) - 1] = seed;
            bytes
        }
        Part::Var(End::Escaped) => [&vec![seed; usize::from(seed) % 9][..], &[0, 1]].concat(),
        _ => {
            // Now and then one that is stored in extents of its own.
            let length = if dice.chance(1, 60) { 1500 } else { usize::from(seed) % 20 };
            let mut bytes = vec![];
            if length >= 128 {
                bytes.push(length as u8 | 0x80);
            }
            bytes.push(if length >= 128 { (length >> 7) as u8 } else { length as u8 });
            bytes.resize(bytes.len() + length, seed);
            bytes
        }
    }
}

impl Handle {
    fn cells(&self, dice: &mut Dice) -> Cells {
        let cell = |known: &Known| (known.number, cell(known.column.part, dice));
        self.columns.iter().map(cell).collect()
    }

    fn bytes(&self, cells: &Cells) -> Vec<u8> {
        let parts = self.columns.iter().map(|known| cells[&known.number].clone());
        [self.version.to_be_bytes().to_vec(), parts.collect::<Vec<_>>().concat()].concat()
    }

    /// Index functions of this version, which see no other.
    fn indexes(&self) -> Vec<IndexSpec> {
        let place = self.columns.iter().position(|known| known.number == 0).unwrap() + 1;
        let layout = self.table.rows().info().options.value_layout.unwrap();
        let extract = move |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
            let mut ends = Vec::new();
            assert!(layout.split(row, &mut ends), "{row:?} is of another version than {layout:?}");
            out.extend_from_slice(&row[ends[place - 1]..ends[place]]);
            Ok(true)
        };
        vec![
            IndexSpec::new("plain", extract.clone()),
            IndexSpec::new("clustering", extract).clustering(),
        ]
    }
}

/// The table, and its expected content.
struct Model {
    now: Handle,
    rows: BTreeMap<Vec<u8>, Cells>,
    numbers: u32,
    /// The defaults that columns were added with, for rows that were written without them.
    defaults: Cells,
}

impl Model {
    fn change(&mut self, dice: &mut Dice) {
        let (mut columns, mut changes) = (self.now.columns.clone(), Vec::new());
        let mut added = Vec::new();
        for _ in 0..dice.between(1, 3) {
            let at = dice.below(columns.len() as u64) as usize;
            let name = columns[at].column.name.clone();
            match dice.below(6) {
                0..=2 => {
                    self.numbers += 1;
                    let column = Column::new(&format!("column {}", self.numbers), part(dice));
                    let default = cell(column.part, dice);
                    self.defaults.insert(self.numbers, default.clone());
                    columns.insert(at, Known { number: self.numbers, column: column.clone() });
                    added.push((self.numbers, default.clone()));
                    changes.push(ColumnChange::Add { column, default, at: Some(at) });
                }
                // Indexes order by column 0.
                3 if columns[at].number != 0 => {
                    columns.remove(at);
                    changes.push(ColumnChange::Drop(name));
                }
                4 => {
                    self.numbers += 1;
                    let to = format!("renamed {}", self.numbers);
                    columns[at].column.name.clone_from(&to);
                    changes.push(ColumnChange::Rename { from: name, to });
                }
                _ => {
                    let moved = columns.remove(at);
                    let to = dice.below(columns.len() as u64 + 1) as usize;
                    columns.insert(to, moved);
                    changes.push(ColumnChange::Move { name, to });
                }
            }
        }
        // Where only names change, rows stay as they are.
        let numbers =
            |columns: &[Known]| columns.iter().map(|known| known.number).collect::<Vec<_>>();
        let has_changed = numbers(&columns) != numbers(&self.now.columns);
        let version = self.now.version + u16::from(has_changed);
        // The functions must know rows in their next form.
        let next = Layout::new(
            std::iter::once(Part::Version(version))
                .chain(columns.iter().map(|known| known.column.part))
                .collect(),
        );
        let place = columns.iter().position(|known| known.number == 0).unwrap() + 1;
        let extract = move |_: &[u8], row: &[u8], out: &mut Vec<u8>| {
            let mut ends = Vec::new();
            assert!(next.split(row, &mut ends), "{row:?} is of another version than {next:?}");
            out.extend_from_slice(&row[ends[place - 1]..ends[place]]);
            Ok(true)
        };
        let has = |name: &str| self.now.table.indexes().iter().any(|index| index.name == name);
        let specs = [
            IndexSpec::new("plain", extract.clone()),
            IndexSpec::new("clustering", extract).clustering(),
        ];
        let specs = ["plain", "clustering"].into_iter().zip(specs).filter(|(name, _)| has(name));
        let specs = specs.map(|(_, spec)| spec).collect();
        let table = self.now.table.change_columns(&changes, specs).unwrap();
        for cells in self.rows.values_mut() {
            for (number, default) in &added {
                cells.insert(*number, default.clone());
            }
            cells.retain(|number, _| columns.iter().any(|known| known.number == *number));
        }
        assert_eq!(table.rows().layout_version(), Some(version));
        self.now = Handle { table, columns, version };
        let there = self.now.table.columns().unwrap();
        assert!(there.iter().eq(self.now.columns.iter().map(|known| &known.column)));
    }

    /// The current form of a row that was written by a handle.
    fn mapped(&self, cells: &Cells) -> Cells {
        let cell = |known: &Known| {
            let cell = cells.get(&known.number).unwrap_or_else(|| &self.defaults[&known.number]);
            (known.number, cell.clone())
        };
        self.now.columns.iter().map(cell).collect()
    }

    fn write(&mut self, db: &Db, by: &Handle, dice: &mut Dice) {
        let txn = db.begin(Default::default()).unwrap();
        let mut rows = self.rows.clone();
        for _ in 0..dice.between(1, 6) {
            let key = vec![b'a' + dice.below(30) as u8];
            if dice.chance(1, 6) {
                assert_eq!(by.table.delete(&txn, &key).unwrap(), rows.remove(&key).is_some());
                continue;
            }
            let cells = by.cells(dice);
            by.table.put(&txn, &key, by.bytes(&cells)).unwrap();
            rows.insert(key, self.mapped(&cells));
        }
        if dice.chance(1, 3) {
            // A transaction's own writes, too, are read in the version that the handle knows.
            look(&self.now, &rows, &txn);
        }
        if dice.chance(3, 4) {
            txn.commit().unwrap();
            self.rows = rows;
        }
    }
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T, what: &str) {
    assert!(found == expected, "{what}: {found:?} instead of {expected:?}");
}

/// Compares rows in all ways of reading them.
fn look(by: &Handle, rows: &BTreeMap<Vec<u8>, Cells>, txn: &Txn) {
    let mut scan = by.table.scan(txn, ..).unwrap();
    for (key, cells) in rows {
        let row = by.bytes(cells);
        let (at, found) = scan.next().unwrap().expect("a row is missing");
        same(&at, &&key[..], "key");
        same(&found, &&row[..], "scan");
        same(&by.table.get(txn, key).unwrap().as_ref(), &Some(&row), "get");
    }
    assert_eq!(scan.next().unwrap(), None);
    for index in by.table.indexes() {
        let mut scan = by.table.index(&index.name).unwrap().scan(txn, ..).unwrap();
        let mut count = 0;
        while let Some(found) = scan.next().unwrap() {
            same(&found.row, &&by.bytes(&rows[found.key])[..], &index.name);
            same(&found.extracted, &&rows[found.key][&0][..], &index.name);
            count += 1;
        }
        assert_eq!(count, rows.len());
    }
}

/// Compares rows without a transaction, and parts of rows.
fn look_at(by: &Handle, rows: &BTreeMap<Vec<u8>, Cells>, snapshot: &Snapshot, dice: &mut Dice) {
    let tree = by.table.rows();
    let mut wanted: Vec<usize> = (0..=by.columns.len()).collect();
    wanted.retain(|_| dice.chance(1, 2));
    let parts = tree.projection(&wanted).unwrap();
    let cut = |cells: &Cells| {
        let mut out = Vec::new();
        for &number in &wanted {
            match number.checked_sub(1) {
                None => out.extend_from_slice(&by.version.to_be_bytes()),
                Some(place) => out.extend_from_slice(&cells[&by.columns[place].number]),
            }
        }
        out
    };
    let mut scan = snapshot.scan(tree, ..).unwrap().project(&parts).unwrap();
    let mut back = snapshot.scan(tree, ..).unwrap();
    back.seek_last();
    let (mut value, keys) = (Vec::new(), rows.keys().cloned().collect::<Vec<_>>());
    for (key, cells) in rows {
        let (at, found) = scan.next().unwrap().expect("a row is missing");
        same(&at, &&key[..], "key");
        same(&found, &&cut(cells)[..], "parts in a scan");
        assert!(snapshot.get_projected(tree, key, &parts, &mut value).unwrap());
        same(&value, &cut(cells), "parts");
        let row = by.bytes(cells);
        let from = dice.below(row.len() as u64) as usize;
        let mut out = [0; 9];
        let bytes = snapshot.get_at(tree, key, from, &mut out).unwrap().unwrap();
        let end = (from + 9).min(row.len());
        same(&&out[..bytes], &&row[from..end], "a piece");
    }
    for (key, cells) in rows.iter().rev() {
        let (at, found) = back.prev().unwrap().expect("a row is missing");
        same(&(at, found), &(&key[..], &by.bytes(cells)[..]), "backward");
    }
    let many = snapshot.get_many(tree, &keys).unwrap();
    assert!(
        many.iter().flatten().eq(rows
            .values()
            .map(|cells| by.bytes(cells))
            .collect::<Vec<_>>()
            .iter())
    );
}

/// Columns change, and every row is read in the newest version. Rule: I49.
#[test]
fn every_row_is_read_in_the_newest_column_layout() {
    for seed in effort::seeds(6) {
        let dice = &mut Dice::new(seed);
        let engine = DbEngine::tiny(Durability::Lazy);
        let vfs = SimVfs::new();
        let open = |vfs: &SimVfs| {
            let options = Options::new()
                .env(vfs.env(seed))
                .cache_size(engine.cache_bytes)
                .tuning(engine.tuning.clone());
            Db::open("/store", options).unwrap()
        };
        let mut db = open(&vfs);
        let columns: Vec<Known> = (0..3)
            .map(|number| Known {
                number,
                column: Column::new(&format!("column {number}"), part(dice)),
            })
            .collect();
        let spec =
            || TableSpec::new("people").rows(TreeOptions::new().size_class(SizeClass::Small));
        let first = spec().columns(columns.iter().map(|known| known.column.clone()).collect());
        let table = db.table(first).unwrap();
        let now = Handle { table, columns, version: 0 };
        let mut model = Model { now, rows: BTreeMap::new(), numbers: 2, defaults: BTreeMap::new() };
        for index in model.now.indexes() {
            model.now.table.build_index(index).unwrap();
        }
        let mut older: Vec<Handle> = Vec::new();
        for step in 0..120 {
            match dice.below(40) {
                0..=2 => {
                    older.push(model.now.clone());
                    model.change(dice);
                    older.truncate(4);
                }
                3 | 4 => db.checkpoint().unwrap(),
                5 => {
                    older.clear();
                    let columns = model.now.columns.clone();
                    let (rows, version) = (model.rows.clone(), model.now.version);
                    let indexes = model.now.indexes();
                    let (numbers, defaults) = (model.numbers, model.defaults.clone());
                    drop(model);
                    db.close().unwrap();
                    db = open(&vfs);
                    let spec = indexes.into_iter().fold(spec(), TableSpec::index);
                    let spec =
                        spec.columns(columns.iter().map(|known| known.column.clone()).collect());
                    let now = Handle { table: db.table(spec).unwrap(), columns, version };
                    model = Model { now, rows, numbers, defaults };
                }
                6 => {
                    let name = *dice.pick(&["plain", "clustering"]);
                    let at = usize::from(name == "clustering");
                    model.now.table.drop_index(name).unwrap();
                    model.now.table.build_index(model.now.indexes()[at].clone()).unwrap();
                }
                7 => {
                    // A snapshot from before a change shows its rows in the new form.
                    let (then, mut rows) = (db.snapshot(), model.rows.clone());
                    model.change(dice);
                    let now = model.now.clone();
                    model.write(&db, &now, dice);
                    rows.values_mut().for_each(|cells| *cells = model.mapped(cells));
                    look_at(&model.now, &rows, &then, dice);
                }
                8 if !older.is_empty() => {
                    // An older handle reads until it meets a newer row, and cannot use indexes.
                    let by = &older[dice.below(older.len() as u64) as usize];
                    let txn = db.begin(Default::default()).unwrap();
                    match by.table.index("plain") {
                        Ok(_) => assert_eq!(by.version, model.now.version),
                        Err(lost) => assert!(matches!(lost, Error::DefinitionChanged(_)), "{lost}"),
                    }
                    for key in model.rows.keys() {
                        match by.table.get(&txn, key) {
                            Ok(row) => assert!(row.unwrap().starts_with(&by.version.to_be_bytes())),
                            Err(error) => assert!(matches!(error, Error::DefinitionChanged(_))),
                        }
                    }
                }
                _ => {
                    let old = (dice.chance(1, 4) && !older.is_empty())
                        .then(|| older[dice.below(older.len() as u64) as usize].clone());
                    let by = old.unwrap_or_else(|| model.now.clone());
                    model.write(&db, &by, dice);
                }
            }
            if step % 5 == 0 {
                look(&model.now, &model.rows, &db.begin(Default::default()).unwrap());
                look_at(&model.now, &model.rows, &db.snapshot(), dice);
                let report = model.now.table.check().unwrap();
                assert!(report.is_clean(), "seed {seed}, step {step}: {report:?}");
            }
        }
        db.checkpoint().unwrap();
        assert!(db.check(CheckMode::Full).unwrap().is_clean());
    }
}

fn numbers(db: &Db, name: &str) -> Tree {
    let number = Part::Fixed(4, Hint::Integer);
    let value_layout = Some(Layout::versioned([number, number]));
    let tree = db.create_tree(name, TreeOptions::new().value_layout(value_layout)).unwrap();
    for key in 0..100u8 {
        tree.put(&[key], &[0, 0, 0, 0, 0, key, 0, 0, 1, key]).unwrap();
    }
    tree
}

fn tree_options() -> TreeOptions {
    let value_layout = Some(Layout::versioned([Part::Fixed(4, Hint::Integer)]));
    TreeOptions::new().value_layout(value_layout)
}

/// Rows from before a change that wait to be applied are not mapped in what an older snapshot
/// reads.
#[test]
fn a_snapshot_older_than_a_column_change_reads_the_old_layout() {
    for seed in effort::seeds(4) {
        let mut dice = Dice::new(seed);
        let engine = DbEngine::tiny(Durability::Lazy);
        let vfs = SimVfs::new();
        let options = Options::new()
            .env(vfs.env(seed))
            .cache_size(engine.cache_bytes)
            .tuning(engine.tuning.clone());
        let db = Db::open("/store", options).unwrap();
        let tree = db.create_tree("t", tree_options()).unwrap();
        let row = |key: u8| [0, 0, 0, 0, 0, key];
        for key in 0..200u8 {
            tree.put(&[key], &row(key)).unwrap();
            if dice.chance(1, 60) {
                db.checkpoint().unwrap();
            }
        }
        let then = db.snapshot();
        let added = NewPart::Add { part: Part::Fixed(1, Hint::None), default: vec![9] };
        let now = db.change_layout("t", &[added, NewPart::Keep(1)], None).unwrap();
        for key in 0..200u8 {
            now.put(&[key], &[0, 1, 8, 0, 0, 0, key]).unwrap();
        }
        db.checkpoint().unwrap();
        drop((tree, now));
        db.drop_tree("t").unwrap();
        let tree = then.open_tree("t").unwrap();
        assert_eq!(tree.layout_version(), Some(0));
        for key in 0..200u8 {
            assert_eq!(then.get(&tree, &[key]).unwrap().unwrap(), row(key), "seed {seed}");
        }
    }
}

/// Parts of one tree's layout are refused for another tree, whose older rows differ.
#[test]
fn projections_are_refused_for_trees_of_another_history() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let add = |byte| NewPart::Add { part: Part::Fixed(1, Hint::None), default: vec![byte] };
    let changed = |name, byte| {
        db.create_tree(name, tree_options()).unwrap();
        db.change_layout(name, &[NewPart::Keep(1), add(byte)], None).unwrap()
    };
    let (one, other) = (changed("one", 1), changed("other", 2));
    one.put(&[1], &[0, 0, 0, 0, 0, 7]).unwrap();
    let mut value = Vec::new();
    assert!(one.get_projected(&[1], &other.projection(&[2]).unwrap(), &mut value).is_err());
    assert!(one.get_projected(&[1], &one.projection(&[2]).unwrap(), &mut value).unwrap());
    assert_eq!(value, [1]);
}

/// Two parts of equal type change places: the bytes of a layout are the same, and mean something
/// else.
#[test]
fn swapped_columns_of_equal_type_are_not_confused() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let before = numbers(&db, "t");
    let second = before.projection(&[2]).unwrap();
    db.checkpoint().unwrap();
    let after = db.change_layout("t", &[NewPart::Keep(2), NewPart::Keep(1)], None).unwrap();
    let mut value = Vec::new();
    // From a block that was written before the change, and from one that was written after it.
    for _ in 0..2 {
        for part in [1, 2] {
            let parts = after.projection(&[part]).unwrap();
            assert!(after.get_projected(&[7], &parts, &mut value).unwrap());
            assert_eq!(value, [0, 0, if part == 1 { 1 } else { 0 }, 7]);
            let mut scan = after.scan(&[7][..]..).unwrap().project(&parts).unwrap();
            assert_eq!(scan.next().unwrap().unwrap().1, value);
        }
        assert_eq!(after.get(&[7]).unwrap().unwrap(), [0, 1, 0, 0, 1, 7, 0, 0, 0, 7]);
        // Parts are bound to the layout they were made for.
        assert!(after.get_projected(&[7], &second, &mut value).is_err());
        after.put(&[8], &[0, 1, 0, 0, 1, 8, 0, 0, 0, 8]).unwrap();
        db.checkpoint().unwrap();
        for key in 0..100 {
            after.put(&[key], &[0, 1, 0, 0, 1, key, 0, 0, 0, key]).unwrap();
        }
        db.checkpoint().unwrap();
    }
    assert!(matches!(before.get(&[7]), Err(Error::DefinitionChanged(_))));
}

/// A clone has the versions of its parent, and then its own.
#[test]
fn clones_change_their_columns_independently() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    numbers(&db, "t");
    let add = |byte| NewPart::Add { part: Part::Fixed(1, Hint::None), default: vec![byte] };
    let first = db.change_layout("t", &[NewPart::Keep(1), add(5)], None).unwrap();
    let copy = db.clone_tree("t", "copy").unwrap();
    let tree = db.change_layout("t", &[add(6), NewPart::Keep(2)], None).unwrap();
    let copy_now = db.change_layout("copy", &[add(7), NewPart::Keep(1)], None).unwrap();
    assert_eq!(first.get(&[9]).unwrap().unwrap(), [0, 1, 0, 0, 0, 9, 5]);
    assert_eq!(copy.get(&[9]).unwrap().unwrap(), [0, 1, 0, 0, 0, 9, 5]);
    assert_eq!(tree.get(&[9]).unwrap().unwrap(), [0, 2, 6, 5]);
    assert_eq!(copy_now.get(&[9]).unwrap().unwrap(), [0, 2, 7, 0, 0, 0, 9]);
    db.close().unwrap();
    let db = open(dir.path());
    assert_eq!(db.open_tree("t").unwrap().get(&[9]).unwrap().unwrap(), [0, 2, 6, 5]);
    assert_eq!(db.open_tree("copy").unwrap().get(&[9]).unwrap().unwrap(), [0, 2, 7, 0, 0, 0, 9]);
}

/// A row that a merge has mapped counts as written by no transaction. Rule: I27.
#[test]
fn a_row_mapped_to_a_new_layout_causes_no_conflict() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = numbers(&db, "t");
    db.checkpoint().unwrap();
    let txn = db.begin(Default::default()).unwrap();
    assert!(txn.get(&tree, &[7]).unwrap().is_some());
    let tree = db.change_layout("t", &[NewPart::Keep(2)], None).unwrap();
    // The leaf is rewritten, with all its rows.
    (0..100u8).filter(|key| *key != 7).for_each(|key| assert!(tree.delete(&[key]).is_ok()));
    db.checkpoint().unwrap();
    txn.put(&tree, &[7], &[0, 1, 9, 9, 9, 9]).unwrap();
    txn.commit().unwrap();
    assert_eq!(tree.get(&[7]).unwrap().unwrap(), [0, 1, 9, 9, 9, 9]);
}

/// A tree with the options of another reads the rows of all its versions, and its layout can be
/// changed further.
#[test]
fn a_copy_reads_rows_of_older_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let add = |byte| NewPart::Add { part: Part::Fixed(1, Hint::None), default: vec![byte] };
    let original = db.create_tree("t", tree_options()).unwrap();
    original.put([0], [0, 0, 0, 0, 0, 1]).unwrap();
    assert!(original.info().options.layout_history().is_empty());
    let original = db.change_layout("t", &[add(5), NewPart::Keep(1)], None).unwrap();
    original.put([1], [0, 1, 6, 0, 0, 0, 2]).unwrap();
    let original = db.change_layout("t", &[NewPart::Keep(2), NewPart::Keep(1)], None).unwrap();
    let rows: [&[u8]; 3] = [&[0, 0, 0, 0, 0, 1], &[0, 1, 6, 0, 0, 0, 2], &[0, 2, 0, 0, 0, 3, 7]];
    let mapped: [&[u8]; 3] =
        [&[0, 2, 0, 0, 0, 1, 5], &[0, 2, 0, 0, 0, 2, 6], &[0, 2, 0, 0, 0, 3, 7]];

    let history = original.info().options.layout_history();
    let mut options = tree_options().value_layout(original.info().options.value_layout);
    options.set_layout_history(&history).unwrap();
    assert_eq!(options, original.info().options);
    let mut load = db.bulk_load("loaded", options.clone()).unwrap();
    (0u8..).zip(rows).for_each(|(key, row)| load.put([key], row).unwrap());
    assert!(load.put([9], [0, 3, 0]).is_err());
    let loaded = load.finish().unwrap().tree;
    let made = db.create_tree("made", original.info().options).unwrap();
    for (key, row) in (0u8..).zip(rows) {
        made.put([key], row).unwrap();
    }
    for tree in [&loaded, &made] {
        for key in 0..3u8 {
            assert_eq!(tree.get([key]).unwrap().unwrap(), mapped[usize::from(key)], "{tree:?}");
        }
    }
    drop((original, loaded, made));
    db.change_layout("loaded", &[NewPart::Keep(1)], None).unwrap();
    db.close().unwrap();
    let db = open(dir.path());
    let [loaded, made] = ["loaded", "made"].map(|name| db.open_tree(name).unwrap());
    assert_eq!(loaded.get([0]).unwrap().unwrap(), [0, 3, 0, 0, 0, 1]);
    assert_eq!(made.get([1]).unwrap().unwrap(), mapped[1]);

    // A history that is not that of the layout, or none at all.
    let refused = |options: TreeOptions| {
        let made = db.create_tree("other", options);
        assert!(matches!(made, Err(Error::InvalidArgument(_))), "{made:?}");
    };
    let none = TreeOptions::new().value_layout(options.value_layout.clone());
    refused(none);
    refused(options.clone().value_layout(None));
    refused(options.clone().value_layout(tree_options().value_layout));
    for end in 0..history.len() {
        let cut = options.set_layout_history(&history[..end]);
        assert_eq!(cut.is_ok(), end == 0, "{end}");
    }
    refused(options);
}

#[test]
fn invalid_column_changes_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let invalid = |result: Result<Tree, Error>| {
        assert!(matches!(result, Err(Error::InvalidArgument(_))), "{result:?}");
    };
    let tree = numbers(&db, "t");
    invalid(db.change_layout("t", &[NewPart::Keep(3)], None));
    db.create_tree("rows", Default::default()).unwrap();
    invalid(db.change_layout("rows", &[NewPart::Keep(1)], None));
    let fixed = Some(Layout::new(vec![Part::Fixed(4, Hint::Integer)]));
    db.create_tree("fixed", TreeOptions::new().value_layout(fixed)).unwrap();
    invalid(db.change_layout("fixed", &[NewPart::Keep(1)], None));
    let began = Some(Layout::new(vec![Part::Version(1)]));
    invalid(db.create_tree("began", TreeOptions::new().value_layout(began)));
    let named = Some(Layout::versioned([Part::Fixed(4, Hint::Integer)]));
    invalid(db.create_tree("key", TreeOptions::new().key_layout(named)));
    // An operand does not carry its version.
    let mut batch = frond::Batch::new();
    assert!(batch.merge(&tree, &[7], frond::operator::ADD, &[1]).is_err());
    assert!(
        db.begin(Default::default())
            .unwrap()
            .merge(&tree, &[7], frond::operator::ADD, &[1])
            .is_err()
    );
    // Bytes that are no row of any version stay as they are.
    tree.put(&[200], &[0, 0, 77]).unwrap();
    // But a row must not name a version that does not exist yet.
    assert!(tree.put(&[201], &[0, 1, 77]).is_err());
    assert!(db.begin(Default::default()).unwrap().insert(&tree, &[201], &[77, 77]).is_err());
    let tree = db.change_layout("t", &[NewPart::Keep(1)], None).unwrap();
    assert_eq!(tree.get(&[200]).unwrap().unwrap(), [0, 0, 77]);
    // An older handle may write what it gets from newer ones, too.
    let older = tree.clone();
    let tree = db.change_layout("t", &[], None).unwrap();
    older.put(&[202], &[0, 2]).unwrap();
    assert_eq!(tree.get(&[202]).unwrap().unwrap(), [0, 2]);
    assert_eq!(tree.layout_version(), Some(2));
    // Nothing changes, and neither does the version.
    let same = db.change_layout("t", &[], Some(b"mine".to_vec())).unwrap();
    assert_eq!(same.layout_version(), Some(2));
    assert_eq!(same.info().options.attributes, b"mine");
    let mut load = db.bulk_load("loaded", tree_options()).unwrap();
    assert!(load.put(&[1], &[0, 1, 0, 0, 0, 7]).is_err());
    load.put(&[1], &[0, 0, 0, 0, 0, 7]).unwrap();
    load.finish().unwrap();
    // Tables record which columns they have.
    let column = || Column::new("c", Part::Fixed(4, Hint::Integer));
    let table = db.table(TableSpec::new("table").columns(vec![column()])).unwrap();
    invalid(db.change_layout("table", &[], None));
    let other = TableSpec::new("table").columns(vec![Column::new("d", column().part)]);
    assert!(matches!(db.table(other), Err(Error::TableMismatch { .. })));
    let twice = ColumnChange::Add { column: column(), default: vec![0; 4], at: None };
    assert!(matches!(table.change_columns(&[twice], vec![]), Err(Error::InvalidArgument(_))));
    let none = ColumnChange::Drop("c".into());
    assert!(matches!(table.change_columns(&[none], vec![]), Err(Error::InvalidArgument(_))));
    let plain = db.table(TableSpec::new("plain")).unwrap();
    assert!(matches!(plain.change_columns(&[], vec![]), Err(Error::TableMismatch { .. })));
    assert_eq!(plain.columns().unwrap(), []);
}
