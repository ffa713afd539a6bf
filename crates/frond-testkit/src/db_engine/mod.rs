//! Frond itself as the [`Engine`] under test, with tiny sizes, so that a few hundred keys make deep
//! trees, many segments and many checkpoints.
//!
//! Reading everything uses every way of reading (forward, backward, in batches, key by key, many
//! keys at once) and panics if two of them disagree: that is never legal, whatever the disk does.

mod layouts;
mod txns;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use frond::{
    Batch, Db, Durability, Error, Options, Result, RowBuf, SizeClass, Snapshot, Tree, TreeOptions,
    check::CheckMode,
    internals::{Limits, Shape, Tuning, io::Env},
    load::BulkLoad,
    operator,
};

use crate::{
    Dice,
    drive::{Engine, Store, answer_or_error},
    model::{Answer, Dump, Everything, Row, show},
    ops::{Key, Op, Swarm, Value, Write},
};
use txns::{Txns, WaitPolicy};

/// Opens Frond stores.
#[derive(Clone, Debug)]
pub struct DbEngine {
    /// Durability of commits that do not name one.
    pub level: Durability,
    /// Memory budget in bytes.
    pub cache_bytes: u64,
    /// Sizes.
    pub tuning: Tuning,
    /// Size class of new trees.
    pub size_class: SizeClass,
    /// Bytes of log to keep for followers.
    pub keep_log_bytes: u64,
    /// Seed of the layouts of trees.
    pub layouts: u64,
}

/// Directory of the stores.
pub const DIR: &str = "/store";

impl DbEngine {
    /// Tiny sizes: leaves of 2 KiB, nodes of 4 children, memtables of 8 KiB, segments of 16 KiB;
    /// values of more than 250 bytes in blobs; transactions are spilled after a few rows.
    pub fn tiny(level: Durability) -> Self {
        let shape = Shape {
            leaf_bytes: 2 << 10,
            fanout_max: 4,
            push_bytes: 512,
            block_bytes: 256,
            run_bytes: 2 << 10,
            blob_bytes: 250,
            blob_piece_bytes: 512,
            tiers_max: 3,
            tiers_max_bottom: 2,
        };
        let limits = Limits {
            memtable_bytes: 8 << 10,
            memtable_log_bytes: 32 << 10,
            unwritten_bytes: 32 << 10,
            footers_bytes: 2 << 10,
            checkpoint_log_bytes: 48 << 10,
            checkpoint_millis: 1500,
            mini_run_entries: 6,
            own_writes_bytes: 200,
        };
        let tuning = Tuning {
            shape: Some(shape),
            limits: Some(limits),
            segment_bytes: Some(16 << 10),
            group_bytes: Some(8 << 10),
        };
        Self {
            level,
            cache_bytes: 4 << 20,
            tuning,
            size_class: SizeClass::Default,
            keep_log_bytes: 0,
            layouts: 0,
        }
    }

    /// Opens a store of these sizes for a scenario that makes its own calls.
    ///
    /// # Panics
    /// If it does not open.
    pub fn store(&self, env: Env) -> Db {
        let options = Options::new()
            .env(env)
            .cache_size(self.cache_bytes)
            .durability(self.level)
            .tuning(self.tuning.clone());
        Db::open(DIR, options).expect("it opens")
    }

    /// Random sizes, from tiny to production sizes.
    pub fn random(seed: u64) -> Self {
        let dice = &mut Dice::new(seed ^ 0x7e57);
        let level = *dice.pick(&[Durability::Sync, Durability::Os, Durability::Lazy]);
        let mut engine = Self { layouts: seed, ..Self::tiny(level) };
        engine.size_class = *dice.pick(&[SizeClass::Fast, SizeClass::Default, SizeClass::Small]);
        if let Some(shape) = &mut engine.tuning.shape {
            shape.leaf_bytes = *dice.pick(&[1 << 10, 4 << 10, 16 << 10, 512 << 10]);
            shape.fanout_max = *dice.pick(&[3, 4, 8, 32]);
            shape.push_bytes = *dice.pick(&[0, 256, 2 << 10, 64 << 10]);
            shape.block_bytes = *dice.pick(&[128, 512, 4 << 10, 16 << 10]);
            shape.run_bytes = *dice.pick(&[1 << 10, 8 << 10, 1 << 20]);
            shape.tiers_max = *dice.pick(&[2, 4, 8]);
            shape.tiers_max_bottom = *dice.pick(&[1, 2, 4]);
        }
        if let Some(limits) = &mut engine.tuning.limits {
            limits.memtable_bytes = *dice.pick(&[1 << 10, 8 << 10, 64 << 10, 1 << 20]);
            limits.checkpoint_log_bytes = *dice.pick(&[16 << 10, 64 << 10, 1 << 20]);
            limits.checkpoint_millis = *dice.pick(&[100, 1500, 10_000]);
            limits.mini_run_entries = *dice.pick(&[2, 6, 40, 10_000]);
            limits.own_writes_bytes = *dice.pick(&[1, 3 << 10, 64 << 10]);
        }
        if let Some(shape) = &mut engine.tuning.shape {
            shape.blob_bytes = *dice.pick(&[20, 250, 1000, 64 << 10]);
            shape.blob_piece_bytes = *dice.pick(&[100, 512, 4 << 10, 256 << 10]);
        }
        if dice.chance(1, 4) {
            engine.tuning.shape = None;
        }
        engine
    }

    /// Adds some long values to a swarm that has none.
    pub fn with_long_values(mut swarm: Swarm) -> Swarm {
        if swarm.large_values.0 == 0 {
            swarm.large_values = (10, 2000);
        }
        swarm
    }
}

impl Engine for DbEngine {
    type Store = OpenDb;

    fn open(&self, env: &Env) -> Result<OpenDb> {
        let wait_policy = Arc::new(WaitPolicy::new(env.clock.clone()));
        let options = Options::new()
            .cache_size(self.cache_bytes)
            .durability(self.level)
            .keep_log(self.keep_log_bytes)
            .env(Env { clock: wait_policy.clone(), ..env.clone() })
            .tuning(self.tuning.clone());
        let db = Db::open(DIR, options)?;
        txns::must_be_listed_once(&db);
        Ok(OpenDb {
            txns: Txns::default(),
            db,
            held: BTreeMap::new(),
            size_class: self.size_class,
            layouts: self.layouts,
            batch: Batch::new(),
            wait_policy,
        })
    }

    fn level(&self) -> Durability {
        self.level
    }
}

fn load(mut load: BulkLoad, value: Value, keys: &[Key]) -> Result<()> {
    for (row, key) in keys.iter().enumerate() {
        load.put(&key.bytes(), &value.of_row(row).bytes())?;
    }
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!(load.finish()?.rows, distinct.len() as u64, "rows of a bulk load");
    Ok(())
}

/// An open Frond store.
pub struct OpenDb {
    // Declared before the store, so that it is dropped first.
    txns: Txns,
    db: Db,
    held: BTreeMap<u8, Snapshot>,
    size_class: SizeClass,
    layouts: u64,
    batch: Batch,
    wait_policy: Arc<WaitPolicy>,
}

impl OpenDb {
    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The options of the tree with this name.
    fn options_of(&self, tree: &str, unique: bool) -> TreeOptions {
        let name = tree.bytes().fold(0, |name, byte| name << 8 | u64::from(byte));
        let (key_layout, value_layout) = layouts::random(&mut Dice::new(self.layouts ^ name));
        let size_class = self.size_class;
        TreeOptions::new()
            .unique(unique)
            .size_class(size_class)
            .key_layout(key_layout)
            .value_layout(value_layout)
    }

    fn try_apply(&mut self, op: &Op) -> Result<Answer> {
        let db = &self.db;
        match op {
            Op::Create { tree, unique } => {
                let options = self.options_of(tree, *unique);
                db.create_tree(tree, options)?;
            }
            Op::Drop(tree) => {
                let _limit = self.wait_policy.limit();
                db.drop_tree(tree)?;
            }
            Op::Rename(from, to) => db.rename_tree(from, to)?,
            Op::Clone(from, to) => drop(db.clone_tree(from, to)?),
            Op::Snapshot(name) => drop(db.create_snapshot(name)?),
            Op::Unsnapshot(name) => db.drop_snapshot(name)?,
            Op::ReadSnapshot(name) => return Ok(Answer::All(read_named(db, name)?)),
            Op::Commit(level, writes) => self.commit(*level, writes)?,
            Op::Bulk { tree, unique, value, keys } => {
                let options = self.options_of(tree, *unique);
                load(db.bulk_load(tree, options)?, *value, keys)?;
            }
            Op::Fill { tree, value, keys } => {
                let _limit = self.wait_policy.limit();
                let tree = db.open_tree(tree)?;
                load(db.bulk_load_into(&tree)?, *value, keys)?;
            }
            Op::Get(tree, key) => {
                let (tree, key) = (db.open_tree(tree)?, key.bytes());
                let value = tree.get(&key)?;
                assert_eq!(tree.contains(&key)?, value.is_some(), "get and contains disagree");
                return Ok(Answer::Value(value));
            }
            Op::Scan { tree, from, to, limit, reverse } => {
                let (from, to) = (from.bytes(), to.bytes());
                let tree = db.open_tree(tree)?;
                if from >= to {
                    return Ok(Answer::Rows(Vec::new()));
                }
                let mut cursor = tree.scan(&from[..]..&to[..])?;
                if *reverse {
                    cursor.seek_last();
                }
                let mut rows = Vec::new();
                while rows.len() < *limit as usize {
                    let row = if *reverse { cursor.prev()? } else { cursor.next()? };
                    let Some((key, value)) = row else { break };
                    rows.push((key.to_vec(), value.to_vec()));
                }
                return Ok(Answer::Rows(rows));
            }
            Op::Hold(slot) => {
                let snapshot = db.snapshot();
                self.held.insert(*slot, snapshot);
            }
            Op::ReadHeld(slot) => {
                let Some(snapshot) = self.held.get(slot) else { return Ok(Answer::Done) };
                return Ok(Answer::All(self.read_as_of(snapshot)?));
            }
            Op::Release(slot) => {
                self.held.remove(slot);
            }
            Op::Checkpoint => db.checkpoint()?,
            Op::Begin(slot, isolation, level) => self.txns.begin(db, *slot, *isolation, *level)?,
            Op::InTxn(slot, call) => {
                let _limit = self.wait_policy.limit();
                return self.txns.call(db, *slot, call);
            }
            Op::Decide(number, commits) => {
                let _limit = self.wait_policy.limit();
                self.txns.decide(db, *number, *commits)?;
            }
            _ => panic!("the driver does this by itself: {op}"),
        }
        Ok(Answer::Done)
    }

    fn commit(&mut self, level: Option<Durability>, writes: &[Write]) -> Result<()> {
        let batch = &mut self.batch;
        batch.clear();
        for write in writes {
            let tree = self.db.open_tree(write.tree())?;
            match write {
                Write::Put(_, key, value) => batch.put(&tree, &key.bytes(), &value.bytes())?,
                Write::Insert(_, key, value) => {
                    batch.insert(&tree, &key.bytes(), &value.bytes())?
                }
                Write::Delete(_, key) => batch.delete(&tree, &key.bytes())?,
                Write::Add(_, key, number) => {
                    batch.merge(&tree, &key.bytes(), operator::ADD, &number.to_be_bytes())?;
                }
                Write::Max(_, key, value) => {
                    batch.merge(&tree, &key.bytes(), operator::MAX, &value.bytes())?;
                }
                Write::Min(_, key, value) => {
                    batch.merge(&tree, &key.bytes(), operator::MIN, &value.bytes())?;
                }
                Write::Append(_, key, value) => {
                    batch.merge(&tree, &key.bytes(), operator::APPEND, &value.bytes())?;
                }
                Write::Range(_, from, to) => {
                    let (from, to) = (from.bytes(), to.bytes());
                    if from < to {
                        batch.delete_range(&tree, &from..&to)?;
                    }
                }
            }
        }
        // According to the model it does not wait.
        let _limit = self.wait_policy.limit();
        match level {
            None => self.db.commit(batch)?,
            Some(level) => self.db.commit_with(batch, level)?,
        };
        Ok(())
    }

    fn read_as_of(&self, snapshot: &Snapshot) -> Result<Dump> {
        let mut dump = Dump::new();
        for info in self.db.trees() {
            let tree = self.db.open_tree(&info.name)?;
            match rows_at(snapshot, &tree) {
                Err(Error::DefinitionChanged(_)) => {}
                rows => drop(dump.insert(info.name, rows?)),
            }
        }
        Ok(dump)
    }
}

/// All trees of a named snapshot, including dropped ones, by the names that they had.
fn read_named(db: &Db, name: &str) -> Result<Dump> {
    let snapshot = db.open_snapshot(name)?;
    let mut dump = Dump::new();
    for info in snapshot.trees()? {
        let tree = snapshot.open_tree(&info.name)?;
        dump.insert(info.name, rows_at(&snapshot, &tree)?);
    }
    for info in db.trees() {
        let tree = db.open_tree(&info.name)?;
        let was_there = snapshot.trees()?.iter().any(|then| then.birth == tree.info().birth);
        if let Err(error) = snapshot.get(&tree, b"k") {
            assert!(matches!(error, Error::DefinitionChanged(_)) && !was_there, "{error}");
        }
    }
    Ok(dump)
}

fn rows_at(snapshot: &Snapshot, tree: &Tree) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut cursor = snapshot.scan(tree, ..)?;
    while let Some((key, value)) = cursor.next()? {
        rows.push((key.to_vec(), value.to_vec()));
    }
    for (key, value) in rows.iter().step_by(7) {
        let found = snapshot.get(tree, key)?;
        assert_eq!(found.as_ref(), Some(value), "scan and get of a snapshot disagree");
    }
    Ok(rows)
}

/// Reads all rows, in every way.
fn read_tree(tree: &Tree) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut cursor = tree.scan(..)?;
    while let Some((key, value)) = cursor.next()? {
        rows.push((key.to_vec(), value.to_vec()));
    }
    let mut backward = Vec::new();
    cursor.seek_last();
    while let Some((key, value)) = cursor.prev()? {
        backward.push((key.to_vec(), value.to_vec()));
    }
    backward.reverse();
    agree("forward and backward", &rows, &backward);
    let (mut batched, mut buffer) = (Vec::new(), RowBuf::new());
    cursor.seek_first();
    while cursor.read_batch(&mut buffer, 7)? > 0 {
        batched.extend(buffer.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
    }
    agree("rows and batches", &rows, &batched);
    let step = rows.len() / 40 + 1;
    let some: Vec<&Row> = rows.iter().step_by(step).collect();
    let keys: Vec<&[u8]> = some.iter().map(|(key, _)| &key[..]).collect();
    for ((key, value), found) in some.iter().zip(tree.get_many(&keys)?) {
        assert_eq!(found.as_ref(), Some(value), "scan and get_many disagree at {}", show(key));
        assert_eq!(tree.get(key)?.as_ref(), Some(value), "scan and get disagree at {}", show(key));
        let absent = [key, &b"\0"[..]].concat();
        assert_eq!(tree.get(&absent)?, None, "get finds what scan does not: {}", show(&absent));
    }
    Ok(rows)
}

fn agree(paths: &str, one: &[Row], other: &[Row]) {
    if let Some((a, b)) = one.iter().zip(other).find(|(a, b)| a != b) {
        panic!(
            "{paths} disagree: {}={} against {}={}",
            show(&a.0),
            show(&a.1),
            show(&b.0),
            show(&b.1)
        );
    }
    assert_eq!(one.len(), other.len(), "{paths} disagree in number");
}

impl Store for OpenDb {
    fn apply(&mut self, op: &Op) -> Result<Answer> {
        let answer = self.try_apply(op);
        answer_or_error(answer)
    }

    fn read_everything(&mut self) -> Result<Everything> {
        let mut trees = Dump::new();
        for info in self.db.trees() {
            let tree = self.db.open_tree(&info.name)?;
            trees.insert(info.name, read_tree(&tree)?);
        }
        let mut snapshots = BTreeMap::new();
        for info in self.db.snapshots() {
            let rows = read_named(&self.db, &info.name)?;
            snapshots.insert(info.name, rows);
        }
        Ok(Everything { trees, snapshots, in_doubt: self.txns.in_doubt(&self.db) })
    }

    fn check(&mut self) -> std::result::Result<(), String> {
        let report = self.db.check(CheckMode::Full).map_err(|error| error.to_string())?;
        if report.is_clean() { Ok(()) } else { Err(report.to_string()) }
    }

    fn step(&mut self) -> Result<bool> {
        self.db.step()
    }

    fn fell_back(&self) -> bool {
        self.db.warnings().iter().any(|warning| warning.contains("FRD-2105"))
    }

    fn lacked_room(&self) -> bool {
        self.db.warnings().iter().any(|warning| warning.contains("FRD-1304"))
    }

    fn drain(&mut self) -> Result<bool> {
        self.db.drain_step()
    }

    fn can_be_seen(&mut self, number: u8) -> bool {
        self.txns.can_be_seen(&self.db, number)
    }

    fn close(self) -> Result<()> {
        drop(self.txns);
        self.db.close()
    }
}
