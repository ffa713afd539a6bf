//! Catalog changes of one tree: create, clone, drop, rename, change its layout. Also how catalog
//! records are loaded at opening and during replay.
//!
//! A change is a commit to tree 0, which is synced before the change is shown and before the call
//! returns (P7). Its effects on roots travel with the commit's memtable
//! (`version/branches/mod.rs`).

use crate::{
    Durability, Error, Result, Seqno,
    bounds::take_tree_number,
    catalog::{
        BUILD_ATTRIBUTES, CATALOG_TREE, Catalog, CounterRecord, Record, TreeEntry, TreeRecord,
        validate_name,
    },
    db::{Batch, Db, Shared, Tree, TreeInfo, TreeOptions, ddl::operators::must_know},
    layout::{Layout, NewPart},
    message::Tag,
    run::Operators,
    sync::Arc,
    version::Change,
};

impl Db {
    /// Creates a tree. Synced when this returns, whatever the durability of the store.
    ///
    /// # Errors
    /// `TreeExists`; `InvalidArgument` for a name or attributes that are not allowed.
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        let mut change = self.change_catalog()?;
        let id = change.create(name, options)?;
        change.commit()?;
        self.tree_by_id(id).ok_or_else(|| Error::NoSuchTree(name.into()))
    }

    /// Opens a tree, or creates it with these options if there is none of that name.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let people = db.tree("people", Default::default())?; // creates it
    /// let again = db.tree("people", Default::default())?; // opens it
    /// assert_eq!(people.id(), again.id());
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the tree exists and differs from the options in being unique, or in its
    /// layouts, as the trees of a [`table`](Self::table) do; otherwise as
    /// [`create_tree`](Self::create_tree).
    #[doc(alias("open_table", "column_family", "open_or_create"))]
    pub fn tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        let tree = match self.open_tree(name) {
            Err(Error::NoSuchTree(_)) => match self.create_tree(name, options.clone()) {
                // Another thread has just created it. Not retried in a loop: trees of an index
                // build have names, too, but cannot be opened.
                Err(Error::TreeExists(_)) => self.open_tree(name),
                created => return created,
            },
            found => found,
        }?;
        if let Err(differs) = must_be_alike(name, &tree.info().options, &options) {
            self.shared.must_be_of_no_table(tree.id(), "open the table with `Db::table`")?;
            return Err(differs);
        }
        Ok(tree)
    }

    /// The catalog record of a new tree, which takes the next number. Called with catalog changes
    /// locked.
    pub(in crate::db) fn new_tree(
        &self,
        name: &str,
        options: TreeOptions,
        counters: &mut CounterRecord,
    ) -> Result<TreeRecord> {
        validate_name(name)?;
        must_be_no_mark(&options.attributes)?;
        for layout in [&options.key_layout, &options.value_layout].into_iter().flatten() {
            layout.validate()?;
        }
        let (keys, values) = (&options.key_layout, &options.value_layout);
        if keys.as_ref().is_some_and(|layout| layout.version().is_some()) {
            return Err(Error::InvalidArgument("layout: keys have no version".into()));
        }
        if let Err(why) = options.history.of_values(values.as_ref()) {
            return Err(Error::InvalidArgument(match options.history.is_empty() {
                true => "layout: the version of values must start at 0".into(),
                false => format!("the history of the layout of values: {why}"),
            }));
        }
        let id = take_tree_number(&mut counters.next_tree)?;
        Ok(TreeRecord {
            id,
            name: name.into(),
            size_class: options.size_class,
            unique: options.unique,
            attributes: options.attributes,
            key_layout: options.key_layout,
            value_layout: options.value_layout,
            lineage: id.lineage(),
            // At most the seqno of the commit that creates it; an older snapshot does not show the
            // tree (Rule: I43).
            birth: self.shared.engine.sequencer.visible().next(),
            parent: None,
            operators: Default::default(),
            history: options.history,
            carried: Default::default(),
        })
    }

    /// Opens a tree. If a change that takes this name from its tree (a drop, a truncation, a load
    /// into the tree) is committed but not shown yet, waits for it: the handle is of the tree that
    /// has the name afterwards.
    ///
    /// # Errors
    /// `NoSuchTree`.
    pub fn open_tree(&self, name: &str) -> Result<Tree> {
        let mut entry = self.entry(name)?;
        if entry.check().is_err() {
            // A change is shown before its lock is released, and none starts while the lock is
            // held. If the tree has still ended, the store stopped before the change could be
            // shown.
            let _turn = self.shared.catalog.change();
            entry = self.entry(name)?;
            entry.check()?;
        }
        // Trees of an index build have no public name until they are published.
        match entry.is_marked(BUILD_ATTRIBUTES) {
            true => Err(Error::NoSuchTree(name.into())),
            false => Ok(self.handle(entry)),
        }
    }

    /// Drops a tree with all its rows. Its space is freed in the background. Synced when this
    /// returns. From then on handles to it fail with `NoSuchTree`; snapshots taken earlier keep it.
    /// Waits for transactions that have locked rows of it, prepared ones included.
    ///
    /// # Errors
    /// `NoSuchTree`; `LockTimeout` if such a transaction lasts ten seconds; `InvalidArgument` if
    /// the tree belongs to a table: call [`drop_table`](Self::drop_table) or
    /// [`drop_index`](Self::drop_index).
    #[doc(alias("drop_cf", "delete_table"))]
    pub fn drop_tree(&self, name: &str) -> Result<()> {
        self.change_trees().drop_tree(name).commit_one().map(drop)
    }

    /// Makes a tree that starts with the current content of another and then develops
    /// independently. Copies nothing: the two share pages until one of them rewrites its part, and
    /// a dropped tree's pages stay as long as a clone needs them. Synced when this returns; waits
    /// until what was committed so far is applied.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("live", Default::default())?;
    /// tree.put(b"k", b"1")?;
    /// let copy = db.clone_tree("live", "trial")?;
    /// copy.put(b"k", b"2")?;
    /// assert_eq!(tree.get(b"k")?.as_deref(), Some(&b"1"[..]));
    /// assert_eq!(copy.get(b"k")?.as_deref(), Some(&b"2"[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree`, `TreeExists`, `InvalidArgument`, `Full`: nothing was done, unless the message
    /// of `Full` says that the clone will exist when the store is opened again.
    pub fn clone_tree(&self, from: &str, to: &str) -> Result<Tree> {
        let clone = self.change_trees().clone_tree(from, to).commit_one()?;
        clone.ok_or_else(|| Error::NoSuchTree(to.into()))
    }

    /// Renames a tree. Synced when this returns; handles stay valid. If the tree holds the rows of
    /// a table, that renames the table: its indexes stay with it, and [`table`](Self::table) finds
    /// it by the new name.
    ///
    /// # Errors
    /// `NoSuchTree`, `TreeExists`; `InvalidArgument` for a name that is not allowed, or if the tree
    /// is an index of a table.
    pub fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        self.change_trees().rename(from, to).commit_one().map(drop)
    }

    /// Changes the layout of a tree's values without touching any of them: parts can be added,
    /// removed and reordered (see docs/safety.md, I49). Values must name the version of their
    /// layout ([`Layout::versioned`](crate::layout::Layout::versioned)); `parts` lists what follows
    /// that version from now on. Existing rows, also those of snapshots, are mapped when they are
    /// read, and when the run that holds them is rewritten. Synced when this returns, together with
    /// new `attributes` if any are given.
    ///
    /// The returned handle gives values in the new version; use it for writing them. Other handles
    /// keep their version until they meet a newer row; then they fail with `DefinitionChanged`, and
    /// the tree must be opened again. They may write in the version that they know.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::{layout::{Hint, Layout, NewPart, Part}, TreeOptions};
    ///
    /// let age = Part::Fixed(1, Hint::Integer);
    /// let options = TreeOptions::new().value_layout(Layout::versioned([age]));
    /// let people = db.create_tree("people", options)?;
    /// people.put(b"ada", &[0, 0, 36])?; // version 0
    ///
    /// // A part before it, with default 7 for existing rows.
    /// let shoe = NewPart::Add { part: age, default: vec![7] };
    /// let now = db.change_layout("people", &[shoe, NewPart::Keep(1)], None)?;
    /// assert_eq!(now.get(b"ada")?, Some(vec![0, 1, 7, 36]));
    /// now.put(b"bob", &[0, 1, 9, 20])?;
    /// assert!(matches!(people.get(b"bob"), Err(frond::Error::DefinitionChanged(_))));
    /// assert_eq!(people.get(b"ada")?, Some(vec![0, 0, 36]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `NoSuchTree`; `InvalidArgument` if its values do not name their version, a default does not
    /// fit its part, there is no such part, the tree belongs to a table, or its layout has changed
    /// too often: 255 times, or until the old layouts take 1 MiB or the defaults of a row 32 KiB;
    /// errors of a commit. `Full`: nothing was done, unless its message says that the change will
    /// be there when the store is opened again.
    pub fn change_layout(
        &self,
        tree: &str,
        parts: &[NewPart],
        attributes: Option<Vec<u8>>,
    ) -> Result<Tree> {
        let mut change = self.change_trees();
        change.change_layout(tree, None, parts);
        if let Some(attributes) = attributes {
            change.set_attributes(tree, attributes);
        }
        let changed = change.commit_one()?;
        changed.ok_or_else(|| Error::NoSuchTree(tree.into()))
    }

    /// All trees, ordered by name.
    pub fn trees(&self) -> Vec<TreeInfo> {
        let mut trees = self.shared.catalog.trees();
        trees.retain(|entry| !entry.is_marked(BUILD_ATTRIBUTES));
        trees.into_iter().map(|entry| self.handle(entry).info()).collect()
    }

    fn entry(&self, name: &str) -> Result<Arc<TreeEntry>> {
        self.shared.catalog.by_name(name).ok_or_else(|| Error::NoSuchTree(name.into()))
    }

    fn handle(&self, entry: Arc<TreeEntry>) -> Tree {
        Tree::new(self.shared.clone(), entry)
    }
}

impl Shared {
    /// Commits records to the catalog tree, synced.
    pub(in crate::db) fn change(
        &self,
        put: &[Record],
        delete: &[Vec<u8>],
        changes: &[Change],
    ) -> Result<Seqno> {
        let mut batch = Batch::new();
        for record in put {
            batch.writes.push(CATALOG_TREE, &record.key(), Tag::PUT, &[&record.encode()?], false);
        }
        for key in delete {
            batch.writes.push(CATALOG_TREE, key, Tag::DELETE, &[], false);
        }
        self.commit_changing(&mut batch, Some(Durability::Sync), changes)
    }

    /// Returns `TreeExists` if a tree has this name, or may have it when the store is opened again.
    pub(in crate::db) fn must_be_free(&self, name: &str) -> Result<()> {
        if self.catalog.is_taken(name) { Err(Error::TreeExists(name.into())) } else { Ok(()) }
    }

    /// Loads a record of the catalog tree: when the store is opened or, if `replayed` is given,
    /// when commit `replayed` of the log is replayed. Returns its effect on roots and branches.
    pub(in crate::db) fn show_record(
        (catalog, operators): (&Catalog, &Operators),
        key: &[u8],
        value: Option<&[u8]>,
        replayed: Option<Seqno>,
        malformed: &dyn Fn(String) -> Error,
    ) -> Result<Option<Change>> {
        let Some(value) = value else {
            if let Some(tree) = Record::tree_of_key(key) {
                catalog.hide_tree(tree, replayed.unwrap_or(Seqno(0)));
                return Ok(Some(Change::DropTree(tree)));
            }
            let snapshot = Record::snapshot_of_key(key);
            snapshot.into_iter().for_each(|id| catalog.hide_snapshot(id));
            return Ok(snapshot.map(Change::DropSnapshot));
        };
        let mut change = None;
        match Record::decode(key, value).map_err(|flaw| malformed(format!("{flaw:?}")))? {
            Record::Counters(counters) => catalog.set_counters(counters),
            Record::Tree(mut record) => {
                must_know(operators, &record)?;
                let before = catalog.by_id(record.id).filter(|_| replayed.is_some());
                if before.is_some_and(|entry| entry.record().value_layout != record.value_layout) {
                    change = Some(Change::Layout);
                }
                if let Some(seqno) = replayed
                    && catalog.by_id(record.id).is_none()
                {
                    record.birth = seqno;
                    if let Some(parent) = &record.parent {
                        change = Some(Change::Clone { tree: record.id, of: parent.tree });
                    }
                }
                // A parent that is dropped by the same commit was hidden before.
                let parent = record.parent.as_ref();
                let parent = parent.and_then(|parent| catalog.standing(parent.tree));
                let entry = catalog.show_tree(record);
                if let Some(parent) = parent.filter(|_| replayed.is_some()) {
                    entry.counters.raise(parent.counters.counts());
                }
            }
            Record::Snapshot(record) => {
                change = Some(Change::Snapshot(record.id));
                catalog.show_snapshot(record);
            }
            Record::Dropped(_) | Record::Prepared(_) => {}
        }
        Ok(change)
    }
}

/// Fails if the tree belongs to a running index build.
pub(in crate::db) fn must_be_no_build(tree: &TreeRecord) -> Result<()> {
    match tree.attributes == BUILD_ATTRIBUTES {
        true => {
            let why =
                format!("tree \"{}\" belongs to a build of indexes: end that first", tree.name);
            Err(Error::InvalidArgument(why))
        }
        false => Ok(()),
    }
}

/// Fails for the attributes that mark trees of an index build: a tree with these would be dropped
/// as a leftover.
pub(in crate::db) fn must_be_no_mark(attributes: &[u8]) -> Result<()> {
    match attributes == BUILD_ATTRIBUTES {
        true => Err(Error::InvalidArgument(
            "attributes: this value is reserved for trees of index builds".into(),
        )),
        false => Ok(()),
    }
}

/// Fails unless an existing tree can be used like one with the wanted options.
fn must_be_alike(name: &str, found: &TreeOptions, wanted: &TreeOptions) -> Result<()> {
    let has_versions =
        |layout: &Option<Layout>| layout.as_ref().is_some_and(|layout| layout.version().is_some());
    let versions = [&found.value_layout, &wanted.value_layout].map(has_versions);
    let differs = if found.unique != wanted.unique {
        "unique"
    } else if found.key_layout != wanted.key_layout {
        "key_layout"
    } else if versions != [true; 2] && found.value_layout != wanted.value_layout {
        "value_layout"
    } else {
        return Ok(());
    };
    Err(Error::InvalidArgument(format!(
        "tree \"{name}\" exists with another `{differs}`; open it with its own options"
    )))
}
