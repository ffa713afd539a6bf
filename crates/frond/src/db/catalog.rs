//! Catalog changes: trees created, dropped, renamed.
//!
//! A change is a commit to tree 0, synced before it is shown and before the call returns (P7), so
//! that a dropped tree's pages may go at once: no recovery can bring the tree back.

use crate::{
    Durability, Error, Lineage, Result, Tag, TreeId,
    catalog::{CATALOG_TREE, Record, TreeEntry, TreeRecord, validate_name},
    sync::Arc,
};

use super::{Batch, Db, Shared, Tree, TreeInfo, TreeOptions};

impl Db {
    /// Creates a tree. Synced when it returns, whatever the durability of the store.
    ///
    /// # Errors
    /// `TreeExists`; `InvalidArgument` for a name or attributes that are not allowed.
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        let shared = &self.shared;
        validate_name(name)?;
        for layout in [&options.key_layout, &options.value_layout].into_iter().flatten() {
            layout.validate()?;
        }
        let _change = shared.catalog.change();
        if shared.catalog.by_name(name).is_some() {
            return Err(Error::TreeExists(name.into()));
        }
        let mut counters = shared.catalog.counters();
        let id = counters.next_tree.max(TreeId(1));
        counters.next_tree = id.next();
        let record = TreeRecord {
            id,
            name: name.into(),
            size_class: options.size_class,
            unique: options.unique,
            attributes: options.attributes,
            key_layout: options.key_layout,
            value_layout: options.value_layout,
            lineage: Lineage(id.0),
            // At most the commit that creates it: whoever sees less sees no such tree (Rule: I43).
            birth: shared.engine.sequencer.visible().next(),
            parent: None,
            carried: Default::default(),
        };
        shared.change(&[Record::Counters(counters.clone()), Record::Tree(record.clone())], &[])?;
        shared.catalog.set_counters(counters);
        let entry = shared.catalog.show_tree(record);
        Ok(self.handle(entry))
    }

    /// Opens a tree.
    ///
    /// # Errors
    /// `NoSuchTree`.
    pub fn open_tree(&self, name: &str) -> Result<Tree> {
        let entry = self.shared.catalog.by_name(name);
        entry.map(|entry| self.handle(entry)).ok_or_else(|| Error::NoSuchTree(name.into()))
    }

    /// Drops a tree with everything in it. Its space comes back in the background. Synced when it
    /// returns. Handles to it fail with `NoSuchTree` from then on; snapshots taken earlier keep it.
    ///
    /// # Errors
    /// `NoSuchTree`.
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        let shared = &self.shared;
        let _change = shared.catalog.change();
        let entry = self.shared.catalog.by_name(name);
        let entry = entry.ok_or_else(|| Error::NoSuchTree(name.into()))?;
        shared.change(&[], &[Record::tree_key(entry.id)])?;
        shared.catalog.hide_tree(entry.id);
        Ok(())
    }

    /// Gives a tree another name. Synced when it returns; handles stay good.
    ///
    /// # Errors
    /// `NoSuchTree`, `TreeExists`, `InvalidArgument`.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        let shared = &self.shared;
        validate_name(to)?;
        let _change = shared.catalog.change();
        let entry = shared.catalog.by_name(from);
        let entry = entry.ok_or_else(|| Error::NoSuchTree(from.into()))?;
        if shared.catalog.by_name(to).is_some() {
            return Err(Error::TreeExists(to.into()));
        }
        let record = TreeRecord { name: to.into(), ..entry.record() };
        shared.change(&[Record::Tree(record.clone())], &[])?;
        shared.catalog.show_tree(record);
        Ok(())
    }

    /// All trees, by name.
    pub fn trees(&self) -> Vec<TreeInfo> {
        self.shared.catalog.trees().into_iter().map(|entry| self.handle(entry).info()).collect()
    }

    fn handle(&self, entry: Arc<TreeEntry>) -> Tree {
        Tree { shared: self.shared.clone(), entry }
    }
}

impl Shared {
    /// Commits records to the catalog tree, synced.
    fn change(&self, put: &[Record], delete: &[Vec<u8>]) -> Result<()> {
        let mut batch = Batch::new();
        for record in put {
            batch.writes.push(CATALOG_TREE, &record.key(), Tag::PUT, &[&record.encode()?], false);
        }
        for key in delete {
            batch.writes.push(CATALOG_TREE, key, Tag::DELETE, &[], false);
        }
        self.commit(&mut batch, Some(Durability::Sync)).map(drop)
    }

    /// Shows an entry of the catalog tree: at open, and as the log is replayed.
    pub(super) fn show_record(
        catalog: &crate::catalog::Catalog,
        key: &[u8],
        value: Option<&[u8]>,
        malformed: &dyn Fn(String) -> Error,
    ) -> Result<()> {
        let Some(value) = value else {
            if let Some(id) = Record::tree_of_key(key) {
                catalog.hide_tree(id);
            }
            return Ok(());
        };
        match Record::decode(key, value).map_err(|flaw| malformed(format!("{flaw:?}")))? {
            Record::Counters(counters) => catalog.set_counters(counters),
            Record::Tree(record) => drop(catalog.show_tree(record)),
            Record::Snapshot(record) => catalog.show_snapshot(record),
            Record::Operator(_) | Record::Dropped(_) => {}
        }
        Ok(())
    }
}
