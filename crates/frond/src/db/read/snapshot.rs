//! Snapshots: the store as of one commit.

use crate::{
    Error, KeyRange, Result, Seqno, TreeId,
    catalog::{BUILD_ATTRIBUTES, CATALOG_TREE, Record, StoredTable, TreeRecord},
    db::{
        Cursor, Projection, Rows, Shared, Tree, TreeInfo,
        ddl::operators::must_know,
        read::{View, in_key_order},
        tree::{TreeThen, bounds},
    },
    key_range::OrEmpty,
    pipeline::Engine,
    sync::Arc,
    version::{Reader, SnapshotState, Version},
};

use std::collections::BTreeMap;

/// The trees that the catalog listed at a named snapshot.
pub(in crate::db) type TreesThen = Arc<BTreeMap<TreeId, TreeRecord>>;

/// A consistent view of the store as of one commit, unchanged for its whole life, whatever is
/// written meanwhile (see docs/safety.md, P25). Cheap to clone. A long-lived snapshot costs the
/// space of the pages changed since.
#[must_use = "a snapshot that is dropped is released"]
pub struct Snapshot {
    pub(crate) engine: Arc<Engine>,
    /// `None` while the store is being opened.
    shared: Option<Arc<Shared>>,
    state: Arc<SnapshotState>,
    /// The transaction that holds it, if any.
    reader: Option<Reader>,
    /// Set for a named snapshot, whose trees may be gone and whose seqno may be older than this
    /// process.
    then: Option<TreesThen>,
}

short_debug!(Snapshot, "Snapshot", |snapshot| snapshot.seqno().0);

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        self.engine.snapshots.share(&self.state, self.reader);
        Self {
            engine: self.engine.clone(),
            shared: self.shared.clone(),
            state: self.state.clone(),
            reader: self.reader,
            then: self.then.clone(),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.engine.snapshots.release(&self.state, self.reader.map(|reader| reader.id));
    }
}

impl Snapshot {
    pub(crate) fn new(
        engine: Arc<Engine>,
        shared: Option<Arc<Shared>>,
        visible: impl FnOnce() -> Seqno,
    ) -> Self {
        let state = engine.snapshots.register(visible);
        Self { engine, shared, state, reader: None, then: None }
    }

    /// The newest snapshot, for a transaction.
    pub(in crate::db) fn newest_for(shared: Arc<Shared>, reader: Reader) -> Self {
        let engine = shared.engine.clone();
        let visible = || engine.sequencer.visible();
        let state = engine.snapshots.register_for(reader, visible);
        Self { engine, shared: Some(shared), state, reader: Some(reader), then: None }
    }

    /// Another handle of a snapshot that a transaction already holds.
    pub(in crate::db) fn again(
        shared: Arc<Shared>,
        state: Arc<SnapshotState>,
        reader: Reader,
    ) -> Self {
        let engine = shared.engine.clone();
        engine.snapshots.share(&state, Some(reader));
        Self { engine, shared: Some(shared), state, reader: Some(reader), then: None }
    }

    /// A named snapshot, from the version that it keeps.
    pub(in crate::db) fn named(shared: Arc<Shared>, version: Version) -> Result<Self> {
        let state = SnapshotState::named(version);
        let engine = shared.engine.clone();
        let (shared, reader) = (Some(shared), None);
        let mut snapshot = Self { engine, shared, state, reader, then: None };
        snapshot.then = Some(Arc::new(snapshot.read_catalog()?));
        Ok(snapshot)
    }

    /// The last commit that it shows.
    pub fn seqno(&self) -> Seqno {
        self.state.at
    }

    /// The version to read in this call; it must not be kept between calls (Rule: I28).
    pub(crate) fn version(&self) -> Arc<Version> {
        self.state.version(&self.engine.versions)
    }

    /// A view for one call, for a reader of this tree.
    fn view(&self, tree: &Tree) -> Result<View<'_>> {
        self.check(tree)?;
        Ok(View::of(&self.engine, &self.state))
    }

    /// The value of a key at this snapshot.
    ///
    /// # Errors
    /// `DefinitionChanged` if the tree was created later; `NoSuchTree` if it was dropped, truncated
    /// or filled by a load before; for a named snapshot `DefinitionChanged` in both cases. I/O
    /// errors and damage.
    pub fn get(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(tree, key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key at this snapshot into a reusable buffer; false, with an empty
    /// buffer, if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let found = self.view(tree)?.get(tree.entry.id, key.as_ref(), value)?;
        tree.to_newest_version(value)?;
        Ok(found)
    }

    /// True if the key exists at this snapshot: see [`Tree::contains`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, tree: &Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        self.view(tree)?.exists(tree.entry.id, key.as_ref())
    }

    /// The values of many keys at this snapshot, in the order of the keys: see [`Tree::get_many`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_many<K: AsRef<[u8]>>(
        &self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let view = self.view(tree)?;
        in_key_order(keys, |key| {
            let mut value = Vec::new();
            let found = view.get(tree.entry.id, key, &mut value)?;
            tree.to_newest_version(&mut value)?;
            Ok(found.then_some(value))
        })
    }

    /// Parts of a value at this snapshot: see [`Tree::get_projected`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_projected(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        projection: &Projection,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let key = key.as_ref();
        let view = self.view(tree)?;
        projection.check(tree.schema.as_ref())?;
        view.get_projected(&tree.entry, key, projection, value)
    }

    /// A byte range of a value at this snapshot: see [`Tree::get_at`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_at(
        &self,
        tree: &Tree,
        key: impl AsRef<[u8]>,
        from: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        let key = key.as_ref();
        self.view(tree)?.get_at(tree, key, from, out)
    }

    /// The rows of a range at this snapshot, from both ends: see [`Tree::range`].
    pub fn range(&self, tree: &Tree, range: impl KeyRange) -> Rows {
        Rows::new(self.scan(tree, OrEmpty(range)))
    }

    /// Counts the rows of a range at this snapshot: see [`Tree::count`].
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and [`Cursor::next`].
    pub fn count(&self, tree: &Tree, range: impl KeyRange) -> Result<u64> {
        self.scan(tree, range)?.count_rest()
    }

    /// A cursor over a range of keys at this snapshot, before its first row.
    ///
    /// # Errors
    /// As [`get`](Self::get); `InvalidArgument` if the range ends before it begins.
    pub fn scan(&self, tree: &Tree, range: impl KeyRange) -> Result<Cursor> {
        self.check(tree)?;
        Cursor::new(self.clone(), tree.entry.id, Some(tree), bounds(&range)?)
    }

    /// All trees at this snapshot, ordered by name, including those dropped or renamed since. Reads
    /// the catalog as of the snapshot, except for a named snapshot, which has it in memory.
    ///
    /// # Errors
    /// I/O errors and damage of the catalog.
    pub fn trees(&self) -> Result<Vec<TreeInfo>> {
        self.engine.health.check()?;
        let then = self.then()?;
        let mut trees: Vec<TreeInfo> = then.values().cloned().map(TreeInfo::from).collect();
        trees.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(trees)
    }

    /// Opens the tree that had this name at this snapshot, for reading it at the snapshot; it may
    /// have another name now. [`Tree::info`] returns what [`trees`](Self::trees) lists: name,
    /// options and attributes as they were. Values are returned in the layout that the tree had at
    /// the snapshot. If the tree was dropped, everything except reading at snapshots from before
    /// the drop fails with `NoSuchTree`.
    ///
    /// # Errors
    /// `NoSuchTree` if there was none; `OperatorNeeded` if it was dropped since and used a merge
    /// operator that is not in `Options`; as [`trees`](Self::trees).
    pub fn open_tree(&self, name: &str) -> Result<Tree> {
        self.engine.health.check()?;
        let then = self.then()?;
        let record = then.values().find(|record| record.name == name);
        let (Some(record), Some(shared)) = (record, &self.shared) else {
            return Err(Error::NoSuchTree(name.into()));
        };
        // The tree may not be in the catalog that was checked when the store was opened.
        must_know(&self.engine.cx.operators, record)?;
        if self.then.is_none() && record.parent.is_some() {
            // A clone has its rows once the commit that made it is applied.
            self.engine.apply_through(self.seqno())?;
        }
        let now = shared.catalog.by_id(record.id);
        let entry = now.unwrap_or_else(|| shared.catalog.gone(record.clone(), self.seqno()));
        // A table keeps its trees until they are dropped.
        let rows = entry.table().or_else(|| then.values().find_map(|rows| owner(rows, record.id)));
        let table = rows.and_then(|rows| Some(then.get(&rows)?.name.clone()));
        let then = TreeThen { record: record.clone(), table };
        Ok(Tree::of_snapshot(shared.clone(), entry, then))
    }

    fn then(&self) -> Result<TreesThen> {
        match &self.then {
            Some(then) => Ok(then.clone()),
            None => self.read_catalog().map(Arc::new),
        }
    }

    fn read_catalog(&self) -> Result<BTreeMap<TreeId, TreeRecord>> {
        let mut trees = BTreeMap::new();
        let mut cursor = Cursor::new(self.clone(), CATALOG_TREE, None, (None, None))?;
        while let Some((key, value)) = cursor.next()? {
            let record = Record::decode(key, value);
            let path = self.engine.store.file().path();
            if let Record::Tree(record) = record.map_err(|flaw| flaw.at(path))?
                && record.attributes != BUILD_ATTRIBUTES
            {
                trees.insert(record.id, record);
            }
        }
        Ok(trees)
    }

    fn check(&self, tree: &Tree) -> Result<()> {
        self.engine.health.check()?;
        if !Arc::ptr_eq(&tree.shared.engine, &self.engine) {
            let why = format!("tree \"{}\" is of another store than the snapshot", tree.name());
            return Err(Error::InvalidArgument(why));
        }
        self.must_show(tree)
    }

    /// Fails unless the snapshot shows the tree: the tree had been created and had not ended.
    pub(in crate::db) fn must_show(&self, tree: &Tree) -> Result<()> {
        match &self.then {
            None => tree.check_at(self.state.at),
            // Its catalog decides, also for dropped trees whose end is no longer known.
            Some(then) => {
                let was_there = then.contains_key(&tree.entry.id) && tree.birth() <= self.state.at;
                if was_there { Ok(()) } else { Err(Error::DefinitionChanged(tree.name())) }
            }
        }
    }
}

/// The tree `rows` if it holds the rows of a table to which this tree belongs.
fn owner(rows: &TreeRecord, tree: TreeId) -> Option<TreeId> {
    let table = StoredTable::of(rows.id, &rows.attributes)?;
    let is_own = rows.id == tree || table.indexes.iter().any(|index| index.tree == tree);
    is_own.then_some(rows.id)
}
