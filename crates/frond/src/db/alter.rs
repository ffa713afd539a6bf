//! Several changes of the catalog as one commit, and what rooms above need to know of who uses a tree: for tables,
//! whose trees come, change and go together.
//!
//! Invariants
//! 1. Changes are made under the lock of catalog changes, and shown once their commit is synced (P7).
//! 2. A tree's number is given away when it is asked for, whatever becomes of the change (Rule: I35).
//!
//! Threads: all; one change at a time.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    Error, NewPart, Result, Seqno, TreeId,
    catalog::{Kept, Record, TreeRecord},
    sync::{Arc, MutexGuard},
    txn::{
        LiveWrites,
        lock_table::{LockSet, Patience, Reason, TableMode},
    },
    version::Change,
};

use super::{BulkLoad, Db, Shared, Tree, TreeOptions, commit::LOCK_WAIT};

/// How long to wait until a tree is nobody else's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WaitAlone {
    Not,
    For(Duration),
    /// As long as a transaction waits for a row.
    Usual,
}

/// A tree that no transaction has rows of, or takes any.
#[derive(Debug)]
pub(crate) struct Alone<'a> {
    shared: &'a Shared,
    locks: LockSet,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.shared.lock_table.release_all(&mut self.locks);
    }
}

/// Transactions that were writing a tree at some moment.
#[derive(Debug)]
pub(crate) struct WritersThen {
    tree: Tree,
    then: Vec<Arc<LiveWrites>>,
}

impl WritersThen {
    /// True once all of them have ended; those that are prepared have not.
    pub fn have_ended(&mut self) -> bool {
        let mut now = Vec::new();
        self.tree.entry.writers.others(None, &mut now);
        // Held here, no writer's memory becomes another's.
        self.then.retain(|writer| now.iter().any(|other| Arc::ptr_eq(writer, other)));
        self.then.is_empty()
    }
}

/// Changes of the catalog that are to be one commit. Others wait until it is made, or dropped.
#[derive(Debug)]
pub(crate) struct CatalogChange<'a> {
    db: &'a Db,
    _turn: MutexGuard<'a, ()>,
    /// As the catalog is to have them.
    put: BTreeMap<TreeId, TreeRecord>,
    drops: Vec<TreeId>,
    /// Of those that are put: no snapshot of before may read them.
    born: Vec<TreeId>,
}

impl Db {
    /// Begins a change.
    pub(crate) fn change_catalog(&self) -> Result<CatalogChange<'_>> {
        self.shared.check_writable()?;
        let turn = self.shared.catalog.change();
        let (put, drops, born) = Default::default();
        Ok(CatalogChange { db: self, _turn: turn, put, drops, born })
    }

    /// The tree of this number.
    pub(crate) fn tree(&self, id: TreeId) -> Option<Tree> {
        let entry = self.shared.catalog.by_id(id)?;
        Some(Tree::new(self.shared.clone(), entry))
    }

    /// What rooms above keep.
    pub(crate) fn kept(&self) -> &Kept {
        &self.shared.catalog.kept
    }

    /// Lets time pass.
    pub(crate) fn pause(&self, time: Duration) {
        self.shared.engine.env.clock.sleep(time);
    }

    /// Waits until no transaction has rows of a tree, those that are prepared included, and keeps them away.
    pub(crate) fn lock_tree<'a>(&'a self, tree: &Tree, wait: WaitAlone) -> Result<Alone<'a>> {
        let patience = match wait {
            WaitAlone::Not => Patience::NoWait,
            WaitAlone::For(time) => Patience::For(time),
            WaitAlone::Usual => Patience::For(LOCK_WAIT),
        };
        self.shared.lock_alone(tree.entry.id, patience)
    }
}

impl Shared {
    /// Waits until no transaction has rows of a tree, and keeps them away (Rule: I52).
    pub(super) fn lock_alone(&self, tree: TreeId, patience: Patience) -> Result<Alone<'_>> {
        let locks = self.lock_table.begin(self.next_txn());
        let mut alone = Alone { shared: self, locks };
        let mode = TableMode::Exclusive;
        let locked = self.lock_table.lock_table(&mut alone.locks, tree, mode, patience);
        locked.map_err(|mut denied| {
            // It has written nothing, so it is the one that is ended; and has nothing to lose: it may ask again.
            if denied.reason == Reason::Deadlock {
                denied.reason = Reason::Timeout;
            }
            self.lock_error(denied)
        })?;
        Ok(alone)
    }
}

impl Tree {
    /// Who writes it now.
    pub(crate) fn writers_now(&self) -> WritersThen {
        let mut then = Vec::new();
        self.entry.writers.others(None, &mut then);
        WritersThen { tree: self.clone(), then }
    }

    /// An error if it was dropped.
    pub(crate) fn check_there(&self) -> Result<()> {
        self.entry.check()
    }

    /// An error, of what its owner keeps with it.
    pub(crate) fn malformed(&self, flaw: crate::Flaw) -> Error {
        flaw.at(self.shared.engine.store.file().path())
    }

    /// True if nothing of its store can be written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.read_only
    }
}

impl BulkLoad {
    /// The number that the tree will have.
    pub(crate) fn tree_id(&self) -> TreeId {
        self.record.id
    }
}

impl CatalogChange<'_> {
    /// A new tree, empty.
    pub fn create(&mut self, name: &str, options: TreeOptions) -> Result<TreeId> {
        if self.put.values().any(|record| record.name == name) {
            return Err(Error::TreeExists(name.into()));
        }
        let (counters, record) = self.db.new_tree(name, options)?;
        self.db.shared.catalog.set_counters(counters);
        let id = record.id;
        self.put.insert(id, record);
        self.born.push(id);
        Ok(id)
    }

    /// Another blob of its owner's for a tree.
    pub fn set_attributes(&mut self, id: TreeId, attributes: Vec<u8>) -> Result<()> {
        self.record(id)?.attributes = attributes;
        Ok(())
    }

    /// Values of a tree get another layout: see [`Db::change_layout`].
    pub fn change_layout(&mut self, id: TreeId, parts: &[NewPart]) -> Result<()> {
        let record = self.record(id)?;
        let Some(now) = &record.value_layout else {
            let why = format!("tree \"{}\" was made without a layout of values", record.name);
            return Err(Error::InvalidArgument(why));
        };
        let kept = (1..now.parts().len()).map(NewPart::Keep);
        if now.version().is_some() && kept.eq(parts.iter().cloned()) {
            // Rows are what they were, and so is their version.
            return Ok(());
        }
        let (next, history) = record.history.change(now, parts)?;
        (record.value_layout, record.history) = (Some(next), history);
        Ok(())
    }

    /// The tree begins with this change: who sees less gets an error (Rule: I43).
    pub fn begin(&mut self, id: TreeId) -> Result<()> {
        let birth = self.db.shared.engine.sequencer.visible().next();
        self.record(id)?.birth = birth;
        self.born.push(id);
        Ok(())
    }

    /// The tree goes, if it is there. No transaction may have rows of it.
    pub fn drop_tree(&mut self, id: TreeId) {
        if self.db.shared.catalog.by_id(id).is_some() {
            self.drops.push(id);
        }
    }

    fn record(&mut self, id: TreeId) -> Result<&mut TreeRecord> {
        let catalog = &self.db.shared.catalog;
        Ok(match self.put.entry(id) {
            std::collections::btree_map::Entry::Occupied(record) => record.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let entry = catalog.by_id(id);
                let entry = entry.ok_or_else(|| Error::NoSuchTree(format!("number {id:?}")))?;
                place.insert(entry.record())
            }
        })
    }

    /// Makes the changes. Synced when it returns.
    ///
    /// # Errors
    /// `Full`: nothing was done. `OutcomeUnknown`, `Failed`: the store has stopped.
    pub fn commit(self) -> Result<Seqno> {
        let Self { db, put, drops, born, _turn } = self;
        let (shared, catalog) = (&db.shared, &db.shared.catalog);
        let counters = Record::Counters(catalog.counters());
        let records: Vec<_> =
            std::iter::once(counters).chain(put.values().cloned().map(Record::Tree)).collect();
        let keys: Vec<_> = drops.iter().map(|&id| Record::tree_key(id)).collect();
        let mut changes: Vec<_> = drops.iter().map(|&id| Change::DropTree(id)).collect();
        let before = put.values().filter_map(|record| catalog.by_id(record.id).zip(Some(record)));
        let before = before.map(|(entry, record)| (entry.record(), record));
        let before = before.filter(|(before, now)| before.value_layout != now.value_layout);
        let before: Vec<_> = before.map(|(before, _)| Record::Tree(before)).collect();
        changes.extend((!before.is_empty()).then_some(Change::Layout));
        let seqno = shared.change(&records, &keys, &changes)?;
        if !before.is_empty() {
            shared.settle_layouts(seqno, &before)?;
        }
        for (id, record) in put {
            let birth = if born.contains(&id) { seqno } else { record.birth };
            catalog.show_tree(TreeRecord { birth, ..record });
        }
        drops.into_iter().for_each(|id| catalog.hide_tree(id));
        Ok(seqno)
    }
}
