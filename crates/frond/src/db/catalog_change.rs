//! Several changes of the catalog as one commit.
//!
//! A change is made on a picture of the catalog: what trees there will be, and what each will be called. The commit writes
//! the records that differ, and takes the others away; a crash leaves all of it or nothing.
//!
//! Invariants
//! 1. Changes are made under the lock of catalog changes, and shown once their commit is synced (P7), all at once: who looks
//!    for a name finds the tree that had it, or the one that has it now.
//! 2. At each moment of a change a name belongs to one tree of the picture.
//! 3. The numbers of new trees are given away when the commit is begun, whatever becomes of it (Rule: I35).
//! 4. A change that needs more than its commit, for a tree begins as another's clone or with a load or rows get another layout, is taken back
//!    whole if the disk has no room for that. One that drops a tree which existed could not be: before its commit all that is
//!    there by then is applied, and a disk without room for that refuses it. So what is left to be done behind the commit is
//!    little; should others have filled the disk meanwhile, it waits for room.
//!
//! Threads: all; one change at a time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::{
    Error, NewPart, Result, Seqno, TreeId,
    bounds::{check_clone, take_tree_number},
    catalog::{CounterRecord, Parent, Record, TreeEntry, TreeRecord, validate_name},
    load::Made,
    sync::{Arc, MutexGuard},
    tree::Built,
    types::Counts,
    version::{Change, Loaded},
};

use super::{Db, Shared, TreeOptions};

/// Changes of the catalog that are to be one commit. Others wait until it is made, or dropped.
#[derive(Debug)]
pub(crate) struct CatalogChange<'a> {
    db: &'a Db,
    _turn: MutexGuard<'a, ()>,
    counters: CounterRecord,
    /// As the catalog is to have them.
    put: BTreeMap<TreeId, TreeRecord>,
    /// The same by name.
    names: HashMap<String, TreeId>,
    /// Of those that are in the catalog.
    drops: BTreeSet<TreeId>,
    /// Of those that are put: no snapshot of before may read them.
    born: BTreeSet<TreeId>,
    /// New trees, and what they begin as.
    clones: Vec<(TreeId, TreeId)>,
    /// Of how many trees each of them has pages, and of how many all of them together.
    inherits: HashMap<TreeId, usize>,
    inherited_by_all: usize,
    /// What new trees begin with that were loaded.
    loads: Vec<Change>,
    /// Of those, and the trees, which go, that they go on counting from.
    fills: Vec<(TreeId, TreeId)>,
}

impl Db {
    /// Begins a change.
    pub(crate) fn change_catalog(&self) -> Result<CatalogChange<'_>> {
        self.shared.check_writable()?;
        let turn = self.shared.catalog.change();
        let counters = self.shared.catalog.counters();
        let (put, names, drops, born, clones) = Default::default();
        let (loads, fills) = Default::default();
        Ok(CatalogChange {
            db: self,
            _turn: turn,
            counters,
            put,
            names,
            drops,
            born,
            clones,
            inherits: HashMap::new(),
            inherited_by_all: 0,
            loads,
            fills,
        })
    }
}

impl CatalogChange<'_> {
    /// The tree that has this name in the picture.
    pub fn find(&self, name: &str) -> Option<TreeId> {
        if let Some(&id) = self.names.get(name) {
            return Some(id);
        }
        let id = self.db.shared.catalog.by_name(name)?.id;
        // If it is put, it has another name by now.
        let has_gone = self.put.contains_key(&id) || self.drops.contains(&id);
        (!has_gone).then_some(id)
    }

    /// What the picture says of a tree; nothing if it is none.
    pub fn look(&self, id: TreeId) -> Option<TreeRecord> {
        if let Some(record) = self.put.get(&id) {
            return Some(record.clone());
        }
        let entry = self.db.shared.catalog.by_id(id).filter(|_| !self.drops.contains(&id));
        Some(entry?.record())
    }

    /// True if such a tree was made, now or ever.
    pub fn was_made(&self, id: TreeId) -> bool {
        TreeId(0) < id && id < self.counters.next_tree
    }

    /// True if the tree is made by this change.
    pub fn is_new(&self, id: TreeId) -> bool {
        self.put.contains_key(&id) && self.db.shared.catalog.by_id(id).is_none()
    }

    /// A new tree, empty.
    pub fn create(&mut self, name: &str, options: TreeOptions) -> Result<TreeId> {
        self.must_be_free(name)?;
        let record = self.db.new_tree(name, options, &mut self.counters)?;
        Ok(self.add(record))
    }

    /// A new tree that begins as what another holds at the commit, which may go with that.
    pub fn clone_tree(&mut self, of: TreeId, to: &str) -> Result<TreeId> {
        validate_name(to)?;
        let source = self.must_be_there(of)?;
        self.must_be_free(to)?;
        let engine = &self.db.shared.engine;
        // Those of earlier changes have theirs: a change with clones waits until it is applied.
        let pins = engine.store.space().lineage_pins() + self.inherited_by_all;
        let inherited = self.inherited(of);
        check_clone(inherited, pins)?;
        let at = self.db.shared.engine.sequencer.visible();
        let parent = Some(Parent { tree: of, lineage: source.lineage, at });
        let id = self.next_id()?;
        let lineage = id.lineage();
        let record =
            TreeRecord { id, name: to.into(), lineage, birth: at.next(), parent, ..source };
        self.clones.push((id, of));
        self.inherits.insert(id, inherited + 1);
        self.inherited_by_all += inherited + 1;
        Ok(self.add(record))
    }

    /// Of how many trees a tree has pages that were there before it.
    fn inherited(&self, tree: TreeId) -> usize {
        match self.inherits.get(&tree) {
            Some(inherited) => *inherited,
            None => {
                let version = self.db.shared.engine.versions.current();
                version.branches.inherits.get(&tree).map_or(0, Vec::len)
            }
        }
    }

    /// A new tree in the place of another, under its name and like it, but empty; the other one goes. No transaction may have
    /// rows of that.
    pub fn truncate(&mut self, id: TreeId) -> Result<TreeId> {
        let old = self.must_be_there(id)?;
        self.drop_tree(id);
        let id = self.next_id()?;
        let birth = self.db.shared.engine.sequencer.visible().next();
        Ok(self.add(instead_of(old, id, birth)))
    }

    /// A number for a tree that may never be, and that no other gets.
    pub fn take_number(&mut self) -> Result<TreeId> {
        let id = self.next_id()?;
        self.db.shared.catalog.set_counters(self.counters.clone());
        Ok(id)
    }

    /// A new tree that was loaded, under the number that it has.
    pub fn add_loaded(&mut self, record: TreeRecord, made: Made) -> Result<()> {
        self.must_be_free(&record.name)?;
        let birth = self.db.shared.engine.sequencer.visible().next();
        self.begin_loaded(record.id, made, None);
        self.add(TreeRecord { birth, ..record });
        Ok(())
    }

    /// What was loaded, as tree `new`, takes the place of a tree that is empty, under its name and like it, and goes on counting
    /// from it; the other one goes. No transaction may have rows of that. If no row was loaded nothing changes.
    pub fn fill(&mut self, id: TreeId, new: TreeId, made: Made) -> Result<()> {
        let old = self.must_be_there(id)?;
        let entry = self.db.shared.catalog.by_id(id).filter(|_| made.rows > 0);
        let Some(entry) = entry else { return Ok(()) };
        self.drop_tree(id);
        let birth = self.db.shared.engine.sequencer.visible().next();
        self.begin_loaded(new, made, Some((id, entry.counters.counts())));
        self.fills.push((new, id));
        self.add(instead_of(old, new, birth));
        Ok(())
    }

    fn begin_loaded(&mut self, tree: TreeId, made: Made, instead_of: Option<(TreeId, Counts)>) {
        let Made { built: Built { root, pages }, rows, blobs } = made;
        if rows > 0 {
            let pages = Arc::new(pages);
            let loaded = Loaded { tree, root, pages, blobs, instead_of };
            self.loads.push(Change::Load(Arc::new(loaded)));
        }
    }

    /// True if a commit would change nothing.
    pub fn is_empty(&self) -> bool {
        self.put.is_empty() && self.drops.is_empty()
    }

    /// Another name for a tree.
    pub fn rename(&mut self, id: TreeId, to: &str) -> Result<()> {
        validate_name(to)?;
        let before = self.must_be_there(id)?.name;
        self.must_be_free(to)?;
        self.record(id)?.name = to.into();
        self.names.remove(&before);
        self.names.insert(to.into(), id);
        Ok(())
    }

    /// Two trees exchange their names, and both begin with this change (Rule: I43).
    pub fn swap(&mut self, one: TreeId, other: TreeId) -> Result<()> {
        // Both are in the picture under their names, before either has another.
        let names = [self.record(one)?.name.clone(), self.record(other)?.name.clone()];
        for (id, name) in [other, one].into_iter().zip(names) {
            self.record(id)?.name.clone_from(&name);
            self.names.insert(name, id);
            if !plant!("db: swapped trees are as old as they were") {
                self.begin(id)?;
            }
        }
        Ok(())
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
        self.born.insert(id);
        Ok(())
    }

    /// The tree goes, if it is there. No transaction may have rows of it.
    pub fn drop_tree(&mut self, id: TreeId) {
        if let Some(record) = self.put.remove(&id) {
            self.names.remove(&record.name);
            self.born.remove(&id);
            if let Some(inherited) = self.inherits.remove(&id) {
                self.inherited_by_all -= inherited;
                self.clones.retain(|(clone, _)| *clone != id);
            }
        }
        if self.db.shared.catalog.by_id(id).is_some() {
            self.drops.insert(id);
        }
    }

    fn next_id(&mut self) -> Result<TreeId> {
        take_tree_number(&mut self.counters.next_tree)
    }

    fn add(&mut self, record: TreeRecord) -> TreeId {
        let id = record.id;
        self.names.insert(record.name.clone(), id);
        self.put.insert(id, record);
        self.born.insert(id);
        id
    }

    fn must_be_free(&self, name: &str) -> Result<()> {
        match self.find(name).is_some() || self.db.shared.catalog.is_reserved(name) {
            true => Err(Error::TreeExists(name.into())),
            false => Ok(()),
        }
    }

    fn must_be_there(&self, id: TreeId) -> Result<TreeRecord> {
        self.look(id).ok_or_else(|| self.db.shared.catalog.no_such_tree(id))
    }

    fn record(&mut self, id: TreeId) -> Result<&mut TreeRecord> {
        if !self.put.contains_key(&id) {
            let record = self.must_be_there(id)?;
            self.names.insert(record.name.clone(), id);
            self.put.insert(id, record);
        }
        Ok(self.put.get_mut(&id).expect("it was put"))
    }

    /// What its commit says, but of layouts: records that are put, keys of those that go, and what becomes of trees.
    fn to_commit(&self) -> (Vec<Record>, Vec<Vec<u8>>, Vec<Change>) {
        let Self { put, drops, clones, loads, counters, .. } = self;
        let records = std::iter::once(Record::Counters(counters.clone()));
        let records = records.chain(put.values().cloned().map(Record::Tree)).collect();
        let keys = drops.iter().map(|&id| Record::tree_key(id)).collect();
        let begun = clones.iter().map(|&(tree, of)| Change::Clone { tree, of });
        let gone = drops.iter().map(|&id| Change::DropTree(id));
        (records, keys, begun.chain(loads.iter().cloned()).chain(gone).collect())
    }

    /// Makes the changes. Synced when it returns.
    ///
    /// # Errors
    /// `Full`: nothing was done, unless it says that the change will be there when the store is opened again.
    /// `OutcomeUnknown`, `Failed`: the store has stopped.
    pub fn commit(self) -> Result<Seqno> {
        self.commit_shown().map(|(seqno, _)| seqno)
    }

    /// The same, with the trees that it has made or changed, by number.
    pub fn commit_shown(self) -> Result<(Seqno, Vec<Arc<TreeEntry>>)> {
        let Self { db, put, drops, born, clones, loads, fills, counters, .. } = &self;
        let (shared, catalog) = (&db.shared, &db.shared.catalog);
        let existing = || put.keys().filter_map(|id| catalog.by_id(*id));
        let before: Vec<TreeRecord> = existing().map(|entry| entry.record()).collect();
        let has_layouts = before.iter().any(|record| {
            put.get(&record.id).is_some_and(|now| now.value_layout != record.value_layout)
        });
        let (records, keys, mut changes) = self.to_commit();
        changes.extend(has_layouts.then_some(Change::Layout));
        catalog.set_counters(counters.clone());
        let is_more = has_layouts || !clones.is_empty() || !loads.is_empty();
        if is_more && !drops.is_empty() {
            shared.have_room_to_settle()?;
        }
        if plant!("db: each tree of a change is a commit of its own") {
            records.chunks(1).try_for_each(|record| shared.change(record, &[], &[]).map(drop))?;
        }
        let seqno = shared.change(&records, &keys, &changes)?;
        match is_more {
            true if drops.is_empty() => shared.settle(seqno, before, put)?,
            true => shared.settle_at_last(seqno)?,
            false => {}
        }
        let birth = |record: &TreeRecord| match born.contains(&record.id) {
            // What was committed beside it is before it, too.
            true => seqno,
            false => record.birth,
        };
        let put = put.values().map(|record| TreeRecord { birth: birth(record), ..record.clone() });
        let counting = [&clones[..], fills].concat();
        Ok((seqno, catalog.show_change(seqno, put.collect(), drops, &counting)))
    }
}

/// What the catalog says of a tree that takes the place of another, and has none of its rows.
pub(super) fn instead_of(old: TreeRecord, id: TreeId, birth: Seqno) -> TreeRecord {
    // It has no rows that would wait for an operator, and none that it shares with another.
    let (operators, parent, lineage) = (Default::default(), None, id.lineage());
    TreeRecord { id, lineage, birth, operators, parent, ..old }
}

/// What the apply of a change may take, of itself: some pages of the catalog.
const SETTLE_BYTES: u64 = 1 << 20;
/// How long one that can be taken back no more waits between two looks for room.
const LOOK: Duration = Duration::from_millis(50);

impl Shared {
    /// Has everything so far applied, and finds room for a little more (invariant 4).
    fn have_room_to_settle(&self) -> Result<()> {
        let engine = &self.engine;
        engine.freeze();
        while engine.health.watch(engine.apply_oldest())? {}
        engine.admit(SETTLE_BYTES)?;
        engine.store.settle_admitted(SETTLE_BYTES);
        Ok(())
    }

    /// As [`settle`](Self::settle), of what cannot be taken back.
    fn settle_at_last(&self, seqno: Seqno) -> Result<()> {
        loop {
            let error = match self.engine.health.watch(self.engine.apply_through(seqno)) {
                Ok(()) => return Ok(()),
                Err(Error::Full(_)) => match self.check_writable() {
                    Ok(()) => {
                        self.engine.env.clock.sleep(LOOK);
                        continue;
                    }
                    Err(closed) => closed,
                },
                Err(error) => error,
            };
            return Err(Error::OutcomeUnknown(error.to_string()));
        }
    }

    /// Has everything through commit `seqno` applied, so that clones have the roots that they begin with, and whoever writes
    /// rows by a new layout writes them into versions that show the commit: no snapshot, slot or backup of before has rows of
    /// a version that its catalog does not know. A disk that is too full for that gets the catalog back as it was (invariant 4).
    fn settle(
        &self,
        seqno: Seqno,
        before: Vec<TreeRecord>,
        put: &BTreeMap<TreeId, TreeRecord>,
    ) -> Result<()> {
        let why = match self.engine.health.watch(self.engine.apply_through(seqno)) {
            Ok(()) => return Ok(()),
            Err(Error::Full(why)) => why,
            Err(error) => return Err(Error::OutcomeUnknown(error.to_string())),
        };
        let new = put.keys().filter(|id| self.catalog.by_id(**id).is_none());
        let (keys, drops): (Vec<_>, Vec<_>) =
            new.map(|&id| (Record::tree_key(id), Change::DropTree(id))).unzip();
        let before: Vec<Record> = before.into_iter().map(Record::Tree).collect();
        match self.change(&before, &keys, &drops) {
            Ok(_) => Err(Error::Full(why)),
            // No room even for that: it is there from the next opening on.
            Err(Error::Full(_)) => {
                put.values().for_each(|record| self.catalog.reserve_name(record.name.clone()));
                let why = format!("{why}; the change is there when the store is opened again");
                Err(Error::Full(why))
            }
            Err(other) => Err(Error::OutcomeUnknown(other.to_string())),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod ended;

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        Options,
        io::{Env, MemoryVfs, Workers},
        sync::Arc,
    };

    fn store(vfs: &Arc<MemoryVfs>) -> Db {
        let env = Env { vfs: vfs.clone(), workers: Workers::Manual, ..Env::real() };
        Db::open("/store", Options::new().cache_size(8 << 20).env(env)).unwrap()
    }

    /// As `commit` does it, as far as it comes: checkpoints are made before the trees are shown.
    fn commit_and_be_killed(change: &CatalogChange<'_>) {
        let (records, keys, changes) = change.to_commit();
        let shared = &change.db.shared;
        let seqno = shared.change(&records, &keys, &changes).unwrap();
        let engine = &shared.engine;
        engine.apply_through(seqno).unwrap();
        while engine.write_begun().unwrap() {}
        for _ in 0..2 {
            engine.publish_unchanged();
            engine.run_checkpoint().unwrap();
        }
        engine.health.fail("it was killed");
    }

    /// Rule: I35. Likewise of one that was filled, though what says how far they are has left the log.
    #[test]
    fn a_filled_tree_that_is_not_shown_yet_goes_on_counting_after_a_crash() {
        let vfs = Arc::new(MemoryVfs::new());
        let open = || store(&vfs);
        let db = open();
        let tree = db.create_tree("t", Default::default()).unwrap();
        tree.reserve(0, 1, 70).unwrap();
        let mut load = db.bulk_load_into(&tree).unwrap();
        load.put(b"row", b"").unwrap();
        let (new, made) = (load.record.id, load.loader.finish().unwrap());
        db.shared.engine.store.sync().unwrap();
        let mut change = db.change_catalog().unwrap();
        change.fill(tree.id(), new, made).unwrap();
        commit_and_be_killed(&change);
        drop((change, tree, load.db, load.fills));
        drop(db);
        let db = open();
        let tree = db.open_tree("t").unwrap();
        assert_eq!((tree.id(), tree.next_number(0).unwrap()), (new, 71));
        assert!(tree.contains(b"row").unwrap());
        let report = db.check(crate::CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
        db.close().unwrap();
    }

    /// Rule: I35. A checkpoint has counters of clones that are in its version, though whoever makes them has not come to show them.
    #[test]
    fn clones_that_are_not_shown_yet_go_on_counting_after_a_crash() {
        for drops_parent in [false, true] {
            let vfs = Arc::new(MemoryVfs::new());
            let open = || store(&vfs);
            let db = open();
            let (rows, none) = ("with rows", "without");
            for (name, count) in [(rows, 70), (none, 7)] {
                let tree = db.create_tree(name, Default::default()).unwrap();
                tree.reserve(0, 1, count).unwrap();
                tree.put(b"row", b"").unwrap();
                if name == none {
                    tree.delete(b"row").unwrap();
                }
            }
            let mut change = db.change_catalog().unwrap();
            for name in [rows, none] {
                let of = change.find(name).unwrap();
                let clone = change.clone_tree(of, &format!("copy of one {name}")).unwrap();
                change.clone_tree(clone, &format!("copy of a copy {name}")).unwrap();
                if drops_parent {
                    change.drop_tree(of);
                }
            }
            commit_and_be_killed(&change);
            drop(change);
            drop(db);
            let db = open();
            for (name, next) in [(rows, 71), (none, 8)] {
                for copy in ["one", "a copy"] {
                    let copy = db.open_tree(&format!("copy of {copy} {name}")).unwrap();
                    assert_eq!(copy.next_number(0).unwrap(), next, "{drops_parent} {copy:?}");
                }
                assert_eq!(db.open_tree(name).is_err(), drops_parent);
            }
            let report = db.check(crate::CheckMode::Full).unwrap();
            assert!(report.is_clean(), "{report}");
            db.close().unwrap();
        }
    }
}
