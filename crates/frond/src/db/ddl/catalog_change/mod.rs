//! Several catalog changes as one commit.
//!
//! A change is made on a draft of the catalog: which trees there will be, and their names. The
//! commit writes the records of new and changed trees and deletes those of dropped trees; after a
//! crash, the whole change is there or nothing of it.
//!
//! Invariants
//! 1. Changes are made under the lock of catalog changes, and *shown*, that is made visible to
//!    lookups, all at once after their commit is synced (P7): a lookup of a name finds the tree
//!    that had the name before, or the one that has it now.
//! 2. At each moment of a change a name belongs to one tree of the draft.
//! 3. The numbers of new trees are used up when the commit starts, whether it succeeds or not
//!    (Rule: I35).
//! 4. Some changes need more than their commit: a tree starts as a clone or with a load, or rows
//!    get another layout. If the disk has no space for that, the whole change is undone. The drop
//!    of an existing tree cannot be undone; so before the commit of a change that also drops trees,
//!    everything committed so far is applied, and a disk without space for that refuses the change.
//!    Then little is left to do after the commit; if the disk has been filled meanwhile, the change
//!    waits for space.
//!
//! Threads: all; one change at a time.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use crate::{
    Error, Result, Seqno, TreeId,
    bounds::{check_clone, take_tree_number},
    catalog::{CounterRecord, Parent, Record, TreeEntry, TreeRecord, validate_name},
    db::{Db, Shared, TreeOptions, load::Made},
    layout::NewPart,
    sync::{Arc, MutexGuard},
    tree::Built,
    types::Counts,
    version::{Change, Loaded},
};

/// A draft of catalog changes that become one commit. Other changes wait until it is committed or
/// dropped.
#[derive(Debug)]
pub(crate) struct CatalogChange<'a> {
    db: &'a Db,
    _turn: MutexGuard<'a, ()>,
    counters: CounterRecord,
    /// New and changed trees, as the catalog will have them.
    put: BTreeMap<TreeId, TreeRecord>,
    /// The numbers of the trees in `put`, by name.
    names: HashMap<String, TreeId>,
    /// Existing trees that are dropped.
    drops: BTreeSet<TreeId>,
    /// Trees in `put` that are born with this commit: older snapshots cannot read them.
    born: BTreeSet<TreeId>,
    /// New trees that are clones, and what they are clones of.
    clones: Vec<(TreeId, TreeId)>,
    /// For each clone, the number of trees whose pages it inherits; and the sum over all clones.
    inherits: HashMap<TreeId, usize>,
    inherited_by_all: usize,
    /// Loaded contents of new trees.
    loads: Vec<Change>,
    /// Loaded trees that replace others, and the replaced trees, whose counters they continue.
    fills: Vec<(TreeId, TreeId)>,
}

impl Db {
    /// Starts a change.
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
    /// The tree that has this name in the draft.
    pub fn find(&self, name: &str) -> Option<TreeId> {
        if let Some(&id) = self.names.get(name) {
            return Some(id);
        }
        let id = self.db.shared.catalog.by_name(name)?.id;
        // If it is in `put`, it has been renamed.
        let has_gone = self.put.contains_key(&id) || self.drops.contains(&id);
        (!has_gone).then_some(id)
    }

    /// The draft's record of a tree; `None` if there is no such tree.
    pub fn look(&self, id: TreeId) -> Option<TreeRecord> {
        if let Some(record) = self.put.get(&id) {
            return Some(record.clone());
        }
        let entry = self.db.shared.catalog.by_id(id).filter(|_| !self.drops.contains(&id));
        Some(entry?.record())
    }

    /// True if a tree with this number was ever created.
    pub fn was_made(&self, id: TreeId) -> bool {
        TreeId(0) < id && id < self.counters.next_tree
    }

    /// True if this change creates the tree.
    pub fn is_new(&self, id: TreeId) -> bool {
        self.put.contains_key(&id) && self.db.shared.catalog.by_id(id).is_none()
    }

    /// Creates an empty tree.
    pub fn create(&mut self, name: &str, options: TreeOptions) -> Result<TreeId> {
        self.must_be_free(name)?;
        let record = self.db.new_tree(name, options, &mut self.counters)?;
        Ok(self.add(record))
    }

    /// Creates a clone of what another tree holds at the commit; that tree may be dropped in the
    /// same change.
    pub fn clone_tree(&mut self, of: TreeId, to: &str) -> Result<TreeId> {
        validate_name(to)?;
        let source = self.must_be_there(of)?;
        self.must_be_free(to)?;
        let engine = &self.db.shared.engine;
        // Clones of earlier changes are counted in the space map: a change with clones waits until
        // it is applied.
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

    /// Number of trees whose older pages a tree inherits.
    fn inherited(&self, tree: TreeId) -> usize {
        match self.inherits.get(&tree) {
            Some(inherited) => *inherited,
            None => {
                let version = self.db.shared.engine.versions.current();
                version.branches.inherits.get(&tree).map_or(0, Vec::len)
            }
        }
    }

    /// Replaces a tree by a new, empty one with the same name and settings; drops the old one. No
    /// transaction may have rows of the old tree.
    pub fn truncate(&mut self, id: TreeId) -> Result<TreeId> {
        let old = self.must_be_there(id)?;
        self.drop_tree(id);
        let id = self.next_id()?;
        let birth = self.db.shared.engine.sequencer.visible().next();
        Ok(self.add(instead_of(old, id, birth)))
    }

    /// Uses up a tree number, whether a tree is created with it or not.
    pub fn take_number(&mut self) -> Result<TreeId> {
        let id = self.next_id()?;
        self.db.shared.catalog.set_counters(self.counters.clone());
        Ok(id)
    }

    /// Creates a tree with loaded content, under the number that it already has.
    pub fn add_loaded(&mut self, record: TreeRecord, made: Made) -> Result<()> {
        self.must_be_free(&record.name)?;
        let birth = self.db.shared.engine.sequencer.visible().next();
        self.begin_loaded(record.id, made, None);
        self.add(TreeRecord { birth, ..record });
        Ok(())
    }

    /// Replaces an empty tree by the loaded tree `new`, with the same name and settings, which
    /// continues its counters; drops the old one. No transaction may have rows of the old tree.
    /// Does nothing if no row was loaded.
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

    /// Renames a tree.
    pub fn rename(&mut self, id: TreeId, to: &str) -> Result<()> {
        validate_name(to)?;
        let before = self.must_be_there(id)?.name;
        self.must_be_free(to)?;
        self.record(id)?.name = to.into();
        self.names.remove(&before);
        self.names.insert(to.into(), id);
        Ok(())
    }

    /// Exchanges the names of two trees; both are born with this change (Rule: I43).
    pub fn swap(&mut self, one: TreeId, other: TreeId) -> Result<()> {
        // Both trees enter the draft under their old names before either is renamed.
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

    /// Sets the attributes of a tree, which belong to its owner.
    pub fn set_attributes(&mut self, id: TreeId, attributes: Vec<u8>) -> Result<()> {
        self.record(id)?.attributes = attributes;
        Ok(())
    }

    /// Changes the layout of a tree's values: see [`Db::change_layout`].
    pub fn change_layout(&mut self, id: TreeId, parts: &[NewPart]) -> Result<()> {
        let record = self.record(id)?;
        let Some(now) = &record.value_layout else {
            let why = format!("tree \"{}\" was made without a layout of values", record.name);
            return Err(Error::InvalidArgument(why));
        };
        let kept = (1..now.parts().len()).map(NewPart::Keep);
        if now.version().is_some() && kept.eq(parts.iter().cloned()) {
            // Rows stay as they are, and so does their version.
            return Ok(());
        }
        let (next, history) = record.history.change(now, parts)?;
        (record.value_layout, record.history) = (Some(next), history);
        Ok(())
    }

    /// Sets a tree's birth to this change: older snapshots get an error (Rule: I43).
    pub fn begin(&mut self, id: TreeId) -> Result<()> {
        let birth = self.db.shared.engine.sequencer.visible().next();
        self.record(id)?.birth = birth;
        self.born.insert(id);
        Ok(())
    }

    /// Drops a tree, if it exists. No transaction may have rows of it.
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

    /// The content of the commit, without layout changes: records to put, keys to delete, and
    /// changes to roots and branches.
    fn to_commit(&self) -> (Vec<Record>, Vec<Vec<u8>>, Vec<Change>) {
        let Self { put, drops, clones, loads, counters, .. } = self;
        let records = std::iter::once(Record::Counters(counters.clone()));
        let records = records.chain(put.values().cloned().map(Record::Tree)).collect();
        let keys = drops.iter().map(|&id| Record::tree_key(id)).collect();
        let begun = clones.iter().map(|&(tree, of)| Change::Clone { tree, of });
        let gone = drops.iter().map(|&id| Change::DropTree(id));
        (records, keys, begun.chain(loads.iter().cloned()).chain(gone).collect())
    }

    /// Makes the changes. Synced when this returns.
    ///
    /// # Errors
    /// `Full`: nothing was done, unless its message says that the change will be there when the
    /// store is opened again.
    /// `OutcomeUnknown`, `Failed`: the store has stopped.
    pub fn commit(self) -> Result<Seqno> {
        self.commit_shown().map(|(seqno, _)| seqno)
    }

    /// Makes the changes, like [`commit`](Self::commit), and also returns the created and changed
    /// trees, by number.
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
            shared.have_room_to_apply()?;
        }
        if plant!("db: each tree of a change is a commit of its own") {
            records.chunks(1).try_for_each(|record| shared.change(record, &[], &[]).map(drop))?;
        }
        let seqno = shared.change(&records, &keys, &changes)?;
        match is_more {
            true if drops.is_empty() => shared.apply_or_undo(seqno, before, put)?,
            true => shared.apply_or_wait(seqno)?,
            false => {}
        }
        let birth = |record: &TreeRecord| match born.contains(&record.id) {
            // Commits that were made concurrently precede it, too.
            true => seqno,
            false => record.birth,
        };
        let put = put.values().map(|record| TreeRecord { birth: birth(record), ..record.clone() });
        let counting = [&clones[..], fills].concat();
        Ok((seqno, catalog.show_change(seqno, put.collect(), drops, &counting)))
    }
}

/// The record of a tree that replaces another and has none of its rows.
pub(in crate::db) fn instead_of(old: TreeRecord, id: TreeId, birth: Seqno) -> TreeRecord {
    // It has no rows that would need an operator, and shares none with another tree.
    let (operators, parent, lineage) = (Default::default(), None, id.lineage());
    TreeRecord { id, lineage, birth, operators, parent, ..old }
}

/// Disk space that the apply of a change takes: some pages of the catalog.
const APPLY_BYTES: u64 = 1 << 20;
/// Interval between attempts to find space for a change that can no longer be undone.
const LOOK: Duration = Duration::from_millis(50);

impl Shared {
    /// Applies everything committed so far, and checks that there is space for a little more
    /// (invariant 4).
    fn have_room_to_apply(&self) -> Result<()> {
        let engine = &self.engine;
        engine.freeze();
        while engine.health.watch(engine.apply_oldest())? {}
        engine.admit(APPLY_BYTES)?;
        engine.store.release_admitted(APPLY_BYTES);
        Ok(())
    }

    /// Waits until commit `seqno` is applied, like [`apply_or_undo`](Self::apply_or_undo), for a
    /// change that cannot be undone.
    fn apply_or_wait(&self, seqno: Seqno) -> Result<()> {
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

    /// Applies everything through commit `seqno`. Clones then have the roots that they start with.
    /// Writers of rows in a new layout write into versions that include the commit, so that no
    /// older snapshot, slot or backup has rows of a layout version that its catalog does not know.
    /// If the disk is too full for that, the catalog is restored (invariant 4).
    fn apply_or_undo(
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
            // No space even for that: the change will be there from the next opening on.
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

    /// Does what `commit` does up to the crash: checkpoints are made before the trees are shown.
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

    /// Rule: I35. A filled tree continues the counters even if the record that holds them has left
    /// the log.
    #[test]
    fn an_unpublished_filled_tree_continues_its_counters_after_a_crash() {
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
        let report = db.check(crate::check::CheckMode::Full).unwrap();
        assert!(report.is_clean(), "{report}");
        db.close().unwrap();
    }

    /// Rule: I35. A checkpoint includes counters of clones in its version, even if the change is
    /// not shown yet.
    #[test]
    fn unpublished_clones_continue_their_counters_after_a_crash() {
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
            let report = db.check(crate::check::CheckMode::Full).unwrap();
            assert!(report.is_clean(), "{report}");
            db.close().unwrap();
        }
    }
}
