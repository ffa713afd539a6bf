//! Operations that can meet a bound, with lengths around the tiny ones.

use std::{sync::Arc, time::Duration};

use frond::{
    Batch, Db, Error, Options, TableSpec, TreeOptions, TxnOptions,
    internals::bounds::{self, Bound},
    layout::{End, Layout, NewPart, Part},
    operator,
    table::Column,
    transaction::Xid,
};

use super::{Rows, Story};
use crate::{
    disk::SimVfs,
    drive::{Failure, fail},
};

/// A custom merge operator: the longer value stays.
#[derive(Debug)]
pub struct Longest(pub &'static str);

impl operator::MergeOperator for Longest {
    fn name(&self) -> &str {
        self.0
    }

    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        match base {
            Some(base) if base.len() >= operand.len() => base.to_vec(),
            _ => operand.to_vec(),
        }
    }

    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        self.merge(Some(older), newer)
    }
}

/// A change of a row, made by a batch or a transaction.
#[derive(Clone, Debug)]
enum Change {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Range(Vec<u8>, Vec<u8>),
    Max(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
}

impl Change {
    fn apply(&self, rows: &mut Rows) {
        match self {
            Change::Put(key, value) => drop(rows.insert(key.clone(), value.clone())),
            Change::Delete(key) => drop(rows.remove(key)),
            Change::Range(from, to) => rows.retain(|key, _| key < from || key >= to),
            Change::Max(key, operand) => {
                let row = rows.entry(key.clone()).or_default();
                if *row < *operand {
                    row.clone_from(operand);
                }
            }
            Change::Append(key, operand) => {
                let row = rows.entry(key.clone()).or_default();
                row.extend_from_slice(operand);
                row.truncate(bounds::VALUE_BYTES.max() as usize);
            }
        }
    }

    fn put_into(&self, batch: &mut Batch, tree: &frond::Tree) -> Result<(), Error> {
        match self {
            Change::Put(key, value) => batch.put(tree, key, value),
            Change::Delete(key) => batch.delete(tree, key),
            Change::Range(from, to) => batch.delete_range(tree, from..to),
            Change::Max(key, operand) => batch.merge(tree, key, operator::MAX, operand),
            Change::Append(key, operand) => batch.merge(tree, key, operator::APPEND, operand),
        }
    }
}

impl Story {
    /// A length: around the bound if that is tiny, otherwise short.
    fn length(&mut self, bound: Bound, least: u64, usual: u64) -> usize {
        let max = bound.max();
        if max == bound.default {
            return self.dice.between(least, usual) as usize;
        }
        match self.dice.below(4) {
            0 => self.dice.between(max.saturating_sub(2).max(least), max + 2) as usize,
            1 => self.dice.between(least.min(max), 2 * max) as usize,
            _ => self.dice.between(least.min(max), max.min(usual.max(least))) as usize,
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.dice.below(4000);
        let has_long_keys = self.tuned == [bounds::NODE_PAGE_BYTES];
        let bytes = self.length(bounds::KEY_BYTES, 5, if has_long_keys { 400 } else { 14 });
        let mut key = format!("{number:05}").into_bytes();
        key.resize(bytes.max(5), b'k');
        key
    }

    fn value(&mut self) -> Vec<u8> {
        let usual = match self.tuned[..] {
            [bounds::BLOB_PIECES] => 3000,
            [bounds::MAP_DIRECTORY_BYTES, ..] => 240,
            _ => 120,
        };
        let bytes = self.length(bounds::VALUE_BYTES, 0, usual);
        (0..bytes).map(|_| self.dice.bits() as u8).collect()
    }

    fn operand(&mut self) -> Vec<u8> {
        let bytes = self.length(bounds::OPERAND_BYTES, 1, 30);
        (0..bytes).map(|_| self.dice.bits() as u8).collect()
    }

    fn change(&mut self) -> Change {
        match self.dice.below(12) {
            0 => Change::Delete(self.key()),
            1 if !self.fills_one() => {
                let (one, other) = (self.key(), self.key());
                let mut to = one.clone().max(other.clone());
                // A range of some keys.
                to.truncate(5);
                Change::Range(one.min(other).min(to.clone()), to)
            }
            2 => Change::Max(self.key(), self.operand()),
            3 => Change::Append(self.key(), self.operand()),
            _ => Change::Put(self.key(), self.value()),
        }
    }

    fn some_tree(&mut self) -> Option<String> {
        let count = self.trees.len() as u64;
        let at = self.dice.below(count.max(1)) as usize;
        self.trees.keys().nth(at).cloned()
    }

    /// Whether one tree gets all rows, so that its runs are long.
    fn fills_one(&self) -> bool {
        self.tuned.contains(&bounds::RUN_FOOTER_BYTES)
    }

    fn written_tree(&mut self) -> Option<String> {
        if self.fills_one() { self.trees.keys().next().cloned() } else { self.some_tree() }
    }

    fn new_name(&mut self) -> String {
        self.made += 1;
        let name = format!("n{:04}", self.made);
        let bytes = self.length(bounds::NAME_BYTES, 5, 8);
        format!("{name:x<bytes$}")
    }

    /// Does a random operation.
    pub(super) fn step(&mut self) -> Result<(), Failure> {
        match self.dice.below(100) {
            0..=44 => self.batch(),
            45..=56 => self.transaction(),
            57..=62 => self.create(),
            63..=67 => self.clone_some(),
            68..=70 => self.drop_some(),
            71..=75 => self.snapshot(),
            76..=80 => self.layouts(),
            81 => self.operators(),
            82..=83 => self.columns(),
            84 => self.reopen(),
            85..=87 => Ok(self.db().checkpoint()?),
            88..=90 => {
                while self.db().drain_step()? {}
                Ok(())
            }
            _ => {
                self.vfs.advance(Duration::from_millis(400));
                while self.db().step()? {}
                Ok(())
            }
        }
    }

    fn batch(&mut self) -> Result<(), Failure> {
        let Some(name) = self.written_tree() else { return Ok(()) };
        let tree = self.db().open_tree(&name)?;
        let mut rows = self.trees[&name].clone();
        let mut batch = Batch::new();
        let count = match self.dice.below(6) {
            0 => self.dice.between(20, 120),
            _ => self.dice.between(1, 12),
        };
        for _ in 0..count {
            let change = self.change();
            if matches!(&change, Change::Range(from, to) if from >= to) {
                continue;
            }
            let taken = change.put_into(&mut batch, &tree);
            if self.allowed("a change", taken)?.is_some() {
                change.apply(&mut rows);
            }
        }
        let done = self.db().commit(&mut batch);
        if self.allowed("a batch", done)?.is_some() {
            self.trees.insert(name, rows);
        }
        Ok(())
    }

    fn transaction(&mut self) -> Result<(), Failure> {
        let Some(name) = self.written_tree() else { return Ok(()) };
        let tree = self.db().open_tree(&name)?;
        let mut rows = self.trees[&name].clone();
        let txn = self.db().begin(TxnOptions::default())?;
        for _ in 0..self.dice.between(1, 25) {
            let change = self.change();
            let taken = match &change {
                Change::Put(key, value) => txn.put(&tree, key, value),
                Change::Delete(key) => txn.delete(&tree, key),
                Change::Max(key, operand) => txn.merge(&tree, key, operator::MAX, operand),
                Change::Append(key, operand) => txn.merge(&tree, key, operator::APPEND, operand),
                Change::Range(..) => continue,
            };
            if self.allowed("a change of a transaction", taken)?.is_some() {
                change.apply(&mut rows);
            }
        }
        if self.dice.chance(1, 2) {
            let done = txn.commit();
            if self.allowed("a commit", done)?.is_some() {
                self.trees.insert(name, rows);
            }
            return Ok(());
        }
        self.made += 1;
        let bytes = self.length(bounds::XID_BYTES, 3, 5);
        let mut xid = format!("{:03}", self.made % 1000).into_bytes();
        xid.resize(bytes, b'x');
        let xid = Xid::new(&xid);
        let Some(xid) = self.allowed("a name", xid)? else {
            txn.rollback();
            return Ok(());
        };
        let prepared = txn.prepare(&xid);
        let Some(prepared) = self.allowed("a prepare", prepared)? else { return Ok(()) };
        if self.dice.chance(1, 3) {
            return Ok(prepared.rollback()?);
        }
        // It was prepared: nothing may refuse it.
        prepared.commit()?;
        self.trees.insert(name, rows);
        Ok(())
    }

    fn create(&mut self) -> Result<(), Failure> {
        if self.trees.len() > 6 {
            return self.drop_some();
        }
        let name = self.new_name();
        let attributes = vec![7; self.length(bounds::ATTRIBUTES_BYTES, 0, 20)];
        let size_class = self.engine.size_class;
        let options = TreeOptions::new().attributes(attributes).size_class(size_class);
        let made = self.db().create_tree(&name, options);
        if self.allowed("a tree", made)?.is_some() {
            self.trees.insert(name, Rows::new());
        }
        Ok(())
    }

    fn clone_some(&mut self) -> Result<(), Failure> {
        if self.trees.len() > 8 {
            return self.drop_some();
        }
        // Mostly the newest tree, to get clones of clones.
        let newest = self.trees.last_key_value().map(|(name, _)| name.clone());
        let from = if self.dice.chance(2, 3) { newest } else { self.some_tree() };
        let Some(from) = from else { return Ok(()) };
        let to = self.new_name();
        if self.dice.chance(1, 3) {
            // Two clones in one change, the second of the first: both or neither.
            let more = self.new_name();
            let mut change = self.db().change_trees();
            change.clone_tree(&*from, &to).clone_tree(&*to, &more);
            let done = change.commit().map_err(within);
            if self.allowed("two clones", done)?.is_some() {
                let rows = self.trees[&from].clone();
                self.trees.insert(to, rows.clone());
                self.trees.insert(more, rows);
            }
            return Ok(());
        }
        let made = self.db().clone_tree(&from, &to);
        if self.allowed("a clone", made)?.is_some() {
            self.trees.insert(to, self.trees[&from].clone());
        }
        Ok(())
    }

    fn drop_some(&mut self) -> Result<(), Failure> {
        let goes =
            if self.fills_one() { self.trees.keys().last().cloned() } else { self.some_tree() };
        let Some(name) = goes.filter(|_| self.trees.len() > 2) else { return Ok(()) };
        self.db().drop_tree(&name)?;
        self.trees.remove(&name);
        Ok(())
    }

    fn snapshot(&mut self) -> Result<(), Failure> {
        if self.dice.chance(1, 3) || self.snapshots.len() > 4 {
            let Some(name) = self.snapshots.keys().next().cloned() else { return Ok(()) };
            self.db().drop_snapshot(&name)?;
            self.snapshots.remove(&name);
            return Ok(());
        }
        let name = self.new_name();
        let made = self.db().create_snapshot(&name);
        if self.allowed("a snapshot", made)?.is_some() {
            self.snapshots.insert(name, self.trees.clone());
        }
        Ok(())
    }

    /// Changes the layout of a tree without rows.
    fn layouts(&mut self) -> Result<(), Failure> {
        let part = Part::Var(End::Prefixed);
        if self.layered.is_empty() || self.dice.chance(1, 6) {
            if self.layered.len() > 1 {
                return Ok(());
            }
            let name = self.new_name();
            let parts = self.length(bounds::LAYOUT_PARTS, 1, 3).max(1);
            let value_layout = Some(Layout::versioned(vec![part; parts]));
            let options = TreeOptions::new().value_layout(value_layout);
            let made = self.db().create_tree(&name, options);
            if self.allowed("a tree of a layout", made)?.is_some() {
                self.layered.push(name);
            }
            return Ok(());
        }
        let name = self.layered[0].clone();
        let now = self.db().open_tree(&name)?.info().options.value_layout;
        let Some(now) = now else { return fail("a layout has gone") };
        // Rotates the parts, and adds or removes one.
        let mut parts: Vec<NewPart> = (1..now.parts().len()).map(NewPart::Keep).collect();
        match self.dice.chance(2, 3) || parts.len() < 2 {
            true => parts.push(NewPart::Add { part, default: vec![0] }),
            false => drop(parts.pop()),
        }
        let done = self.db().change_layout(&name, &parts, None).map_err(within);
        self.allowed("a change of a layout", done).map(drop)
    }

    fn operators(&mut self) -> Result<(), Failure> {
        let names = ["a", "longer", "longer than six"];
        let name = names[self.dice.below(3) as usize];
        let options = Options::new().operator(65, Arc::new(Longest(name)));
        let opened = Db::open("/operators", options.env(SimVfs::new().env(1)));
        let fits = name.len() as u64 <= bounds::OPERATOR_NAME_BYTES.max();
        match self.allowed("an operator", opened.map(drop))?.is_some() == fits {
            true => Ok(()),
            false => fail(format!("an operator of {} bytes", name.len())),
        }
    }

    fn columns(&mut self) -> Result<(), Failure> {
        let name = self.length(bounds::COLUMN_NAME_BYTES, 1, 9).max(1);
        let table = self.new_name();
        let column = Column::new(&"c".repeat(name), Part::Fixed(4, frond::layout::Hint::Integer));
        let made = self.db().table(TableSpec::new(&table).columns(vec![column])).map(drop);
        if self.allowed("a table", made.map_err(within))?.is_some() {
            self.db().drop_table(&table)?;
        }
        Ok(())
    }
}

/// The error of a failed step, without the step.
fn within(error: Error) -> Error {
    match error {
        Error::Step { error, .. } => *error,
        other => other,
    }
}
