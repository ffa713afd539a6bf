//! Trees: ordered maps from keys to values, the handles that users hold.

use std::{borrow::Cow, ops::Bound};

use crate::{
    Error, KeyRange, Result, Seqno, SizeClass, TreeId, bounds,
    catalog::{TreeEntry, TreeRecord},
    db::{
        Batch, Cursor, Projection, Rows, Shared,
        read::{View, in_key_order},
    },
    key_range::{OrEmpty, check_key},
    layout::{DecodeError, History, Layout, RowVersions, Standing},
    run::RowSchema,
    sync::Arc,
    tuple::prefix_end,
};

/// Options of a new tree, set by its methods:
/// `TreeOptions::new().size_class(SizeClass::Small).unique(true)`. The fields are for reading those
/// of an existing tree; a literal of the struct does not compile outside of this crate, not even
/// with `..Default::default()`, because later versions may add fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[must_use = "options have no effect until a tree is opened or created with them"]
pub struct TreeOptions {
    /// Trade-off between size and speed.
    pub size_class: SizeClass,
    /// Whether keys are mostly inserted with a check that they are absent, in random order. Leaves
    /// then get filters, so that looking up an absent key costs no read, except for about 1 % false
    /// positives of the filters.
    pub unique: bool,
    /// Bytes that the owner wants to keep with the tree, up to 1 MiB.
    pub attributes: Vec<u8>,
    /// Layout of keys, if known.
    pub key_layout: Option<Layout>,
    /// Layout of values, if known.
    pub value_layout: Option<Layout>,
    /// The older layouts of the values, which rows may still have.
    pub(super) history: History,
}

/// Description of a tree: its name, and the options with which it was created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeInfo {
    /// The number, which no other tree of the store ever has.
    pub id: TreeId,
    /// The name.
    pub name: String,
    /// The options it was created with.
    pub options: TreeOptions,
    /// The seqno at which the tree was created; after the store was opened again, possibly an
    /// earlier one, below which no snapshot shows the tree. Reading the tree at a snapshot below it
    /// fails with `DefinitionChanged`.
    pub birth: Seqno,
}

impl From<TreeRecord> for TreeInfo {
    fn from(record: TreeRecord) -> Self {
        let options = TreeOptions::of(&record);
        Self { id: record.id, name: record.name, birth: record.birth, options }
    }
}

impl TreeOptions {
    /// The defaults: class [`SizeClass::Default`], not unique, no layouts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trade-off between size and speed.
    pub fn size_class(mut self, class: SizeClass) -> Self {
        self.size_class = class;
        self
    }

    /// Whether keys are mostly inserted with a check that they are absent, in random order. Leaves
    /// then get filters, so that looking up an absent key costs no read, except for about 1 % false
    /// positives of the filters.
    pub fn unique(mut self, unique: bool) -> Self {
        self.unique = unique;
        self
    }

    /// Bytes that the owner wants to keep with the tree, up to 1 MiB.
    pub fn attributes(mut self, attributes: impl Into<Vec<u8>>) -> Self {
        self.attributes = attributes.into();
        self
    }

    /// Layout of keys, if known: columns are then encoded each in its own way, and
    /// [`Tree::distinct_prefixes`] works.
    pub fn key_layout(mut self, layout: impl Into<Option<Layout>>) -> Self {
        self.key_layout = layout.into();
        self
    }

    /// Layout of values, if known; reads may then be limited to columns ([`Tree::projection`]).
    pub fn value_layout(mut self, layout: impl Into<Option<Layout>>) -> Self {
        self.value_layout = layout.into();
        self
    }

    /// The older layouts of the values of an existing tree, encoded (docs/format.md, "Layouts");
    /// empty if there are none. For copies: a new tree with the options of an existing one reads
    /// rows of all versions of it.
    pub fn layout_history(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !self.history.is_empty() {
            self.history.encode(&mut bytes);
        }
        bytes
    }

    /// Sets the older layouts, which [`layout_history`](Self::layout_history) returned. The layout
    /// of values must be the one that followed them.
    ///
    /// # Errors
    /// The bytes are not such a history.
    pub fn set_layout_history(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        self.history = if bytes.is_empty() { History::default() } else { History::decode(bytes)? };
        Ok(())
    }

    /// The options of an existing tree.
    pub(super) fn of(record: &TreeRecord) -> Self {
        Self {
            size_class: record.size_class,
            unique: record.unique,
            attributes: record.attributes.clone(),
            key_layout: record.key_layout.clone(),
            value_layout: record.value_layout.clone(),
            history: record.history.clone(),
        }
    }
}

/// What the catalog of a snapshot says about a tree.
pub(super) struct TreeThen {
    pub record: TreeRecord,
    /// The name of the table to which it belonged, if any.
    pub table: Option<String>,
}

/// A handle to a tree; cheap to clone, usable from all threads at once.
///
/// Reads see every commit that returned before they started, and never wait for a writer.
///
/// If values name the version of their layout ([`Layout::versioned`]), a handle returns all values
/// in the version that was the newest when it was opened, or in the snapshot through which it was
/// opened, and fails with `DefinitionChanged` when it meets a newer one.
#[derive(Clone)]
pub struct Tree {
    pub(crate) shared: Arc<Shared>,
    pub(crate) entry: Arc<TreeEntry>,
    /// Encoding traits when the handle was opened.
    pub(super) schema: Option<Arc<RowSchema>>,
    /// Whether the handle is used by a table, which keeps its indexes in step: other handles cannot
    /// write trees of tables.
    pub(super) is_of_table: bool,
    /// For a handle opened through a snapshot: what the tree was there.
    pub(super) then: Option<Arc<TreeThen>>,
}

short_debug!(Tree, "Tree", |tree| tree.name());

impl Tree {
    /// A handle that uses the tree's current definition.
    pub(super) fn new(shared: Arc<Shared>, entry: Arc<TreeEntry>) -> Self {
        let schema = entry.schema();
        Self { shared, entry, schema, is_of_table: false, then: None }
    }

    /// A handle from a snapshot: the tree can be read there, as it was defined there, whatever
    /// happened to it since.
    pub(super) fn of_snapshot(shared: Arc<Shared>, entry: Arc<TreeEntry>, then: TreeThen) -> Self {
        let mut tree = Self::new(shared, entry);
        let version = then.record.value_layout.as_ref().and_then(Layout::version);
        if tree.layout_version() != version {
            tree.schema = then.record.schema(&tree.entry.work);
        }
        tree.then = Some(Arc::new(then));
        tree
    }

    /// The birth of the tree for readers with this handle (Rule: I43).
    pub(super) fn birth(&self) -> Seqno {
        let birth = self.entry.birth();
        self.then.as_ref().map_or(birth, |then| then.record.birth.min(birth))
    }

    /// Fails unless the tree exists at this seqno, for a reader with this handle: it has been
    /// created and has not ended. Must be called after the reader has taken its version: see
    /// [`TreeEntry::check`].
    #[inline]
    pub(super) fn check_at(&self, at: Seqno) -> Result<()> {
        match self.birth() > at {
            true => Err(Error::DefinitionChanged(self.name())),
            false => self.entry.check_at(at),
        }
    }

    /// A view of what is visible now, for one call. The tree's birth is visible by now, so only its
    /// end is checked.
    #[inline]
    fn view(&self) -> Result<View<'_>> {
        self.shared.engine.health.check()?;
        let view = View::visible(&self.shared.engine);
        if !plant!("db: a get does not ask whether its tree has ended") {
            self.entry.check_at(view.at)?;
        }
        Ok(view)
    }

    /// How values are mapped to the version in which the handle returns them.
    pub(super) fn versions(&self) -> Option<&Arc<RowVersions>> {
        self.schema.as_ref()?.versions()
    }

    /// Fails if a value is too long, or names a version of its layout that does not exist yet: it
    /// would later be taken for one of that version.
    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        if !bounds::VALUE_BYTES.admits(value.len()) {
            return Err(Error::ValueTooLong { bytes: value.len(), max: bounds::VALUE_BYTES.len() });
        }
        match self.versions().and_then(|versions| versions.beyond(value)) {
            None => Ok(()),
            Some(version) => must_be_there(version, self.entry.row_version(), &self.name()),
        }
    }

    /// Fails if the tree's values name the version of their layout: an operand cannot, and might be
    /// folded into an older one.
    pub(super) fn must_take_operands(&self) -> Result<()> {
        match self.versions() {
            None => Ok(()),
            Some(_) => Err(Error::InvalidArgument(format!(
                "values of tree \"{}\" name the version of their layout, which an operand cannot do: read and put them instead",
                self.name()
            ))),
        }
    }

    /// Maps a value of an older version to the handle's version, in place.
    #[inline]
    pub(crate) fn to_newest_version(&self, value: &mut Vec<u8>) -> Result<()> {
        match self.versions() {
            None => Ok(()),
            Some(versions) => to_newest_version(versions, &self.entry, value),
        }
    }

    /// Maps a value to the handle's version, with a copy only if it must change.
    pub(crate) fn as_newest_version<'v>(&self, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        if self.versions().is_none_or(|versions| versions.has(value)) {
            return Ok(Cow::Borrowed(value));
        }
        let mut value = value.to_vec();
        self.to_newest_version(&mut value)?;
        Ok(Cow::Owned(value))
    }

    /// The value of a key. Costs one copy of the value, and at most one read of the device when the
    /// upper part of the tree is in memory.
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped; I/O errors and damage of what had to be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key into a reusable buffer; false, with an empty buffer, if there is no
    /// such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        let found = self.view()?.get(self.entry.id, key, value)?;
        self.to_newest_version(value)?;
        Ok(found)
    }

    /// True if the key exists. Costs as much as [`get`](Self::get), without the copy of the value.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[doc(alias = "contains_key")]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        self.view()?.exists(self.entry.id, key)
    }

    /// The values of many keys, all at one snapshot, in the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[doc(alias = "multi_get")]
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let view = self.view()?;
        in_key_order(keys, |key| {
            check_key(key)?;
            let mut value = Vec::new();
            let found = view.get(self.entry.id, key, &mut value)?;
            self.to_newest_version(&mut value)?;
            Ok(found.then_some(value))
        })
    }

    /// Commits one `put`.
    ///
    /// # Errors
    /// As [`Batch::put`] and [`Db::commit`](crate::Db::commit).
    #[doc(alias("insert", "set"))]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Seqno> {
        let (key, value) = (key.as_ref(), value.as_ref());
        let mut batch = Batch::new();
        batch.put(self, key, value)?;
        self.shared.commit(&mut batch, None)
    }

    /// Commits one `delete`.
    ///
    /// # Errors
    /// As [`Batch::delete`] and [`Db::commit`](crate::Db::commit).
    #[doc(alias = "remove")]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Seqno> {
        let key = key.as_ref();
        let mut batch = Batch::new();
        batch.delete(self, key)?;
        self.shared.commit(&mut batch, None)
    }

    /// Commits one delete of all keys in a range, at the price of one row: see
    /// [`Batch::delete_range`].
    ///
    /// # Errors
    /// As [`Batch::delete_range`] and [`Db::commit`](crate::Db::commit).
    #[doc(alias = "clear")]
    pub fn delete_range(&self, range: impl KeyRange) -> Result<Seqno> {
        let mut batch = Batch::new();
        batch.delete_range(self, range)?;
        self.shared.commit(&mut batch, None)
    }

    /// A cursor over a range of keys at the current state, before its first row.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// for key in ["a", "b", "c"] {
    ///     tree.put(key.as_bytes(), b"1")?;
    /// }
    /// let mut cursor = tree.scan(&b"b"[..]..)?;
    /// while let Some((key, value)) = cursor.next()? {
    ///     println!("{key:?} {value:?}");
    /// }
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get); `InvalidArgument` if the range ends before it begins.
    #[doc(alias("cursor", "raw_iterator"))]
    pub fn scan(&self, range: impl KeyRange) -> Result<Cursor> {
        self.shared.engine.health.check()?;
        let snapshot = self.shared.snapshot();
        Cursor::new(snapshot, self.entry.id, Some(self), bounds(&range)?)
    }

    /// The rows of a range at the current state, from both ends. Each row is copied: a
    /// [`scan`](Self::scan) is faster. Errors are items, and end the iteration. A range that ends
    /// before it begins has no rows.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.tree("people", Default::default())?;
    /// for name in ["ada", "bob", "bo"] {
    ///     tree.put(name.as_bytes(), b"")?;
    /// }
    /// for row in tree.range("ada".."bob") {
    ///     let (key, _value) = row?;
    ///     println!("{key:?}");
    /// }
    /// let last = tree.range(frond::prefix("bo")).next_back().transpose()?;
    /// assert_eq!(last.map(|row| row.0), Some(b"bob".to_vec()));
    /// # db.close()
    /// # }
    /// ```
    #[doc(alias("iter", "first", "last", "prefix_iterator"))]
    pub fn range(&self, range: impl KeyRange) -> Rows {
        Rows::new(self.scan(OrEmpty(range)))
    }

    /// Counts the rows of a range at the current state, exactly. It scans the range, at a tenth of
    /// the cost of a scan that returns its rows; values are not read if the tree has a layout for
    /// them. [`row_count`](Self::row_count) and [`estimate`](Self::estimate) read no rows.
    ///
    /// # Errors
    /// As [`scan`](Self::scan) and [`Cursor::next`].
    #[doc(alias("len", "is_empty"))]
    pub fn count(&self, range: impl KeyRange) -> Result<u64> {
        self.scan(range)?.count_rest()
    }

    /// Makes a projection of this tree's values: the parts with these numbers in the layout of
    /// values, for reads that need no more. Use it with [`get_projected`](Self::get_projected) or
    /// [`Cursor::project`](crate::Cursor::project). A block stores each part separately, so the
    /// others are neither read nor decompressed.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # use frond::{layout::{End, Hint, Layout, Part}, TreeOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let value = Layout::new(vec![Part::Fixed(4, Hint::Integer), Part::Var(End::Rest)]);
    /// let options = TreeOptions::new().value_layout(value);
    /// let pages = db.create_tree("pages", options)?;
    /// pages.put(b"index", b"\x00\x00\x00\x07<html>...</html>")?;
    /// let hits = pages.projection(&[0])?;
    /// let mut value = Vec::new();
    /// assert!(pages.get_projected(b"index", &hits, &mut value)?);
    /// assert_eq!(value, [0, 0, 0, 7]);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the tree was created without a layout of values, or has no part with
    /// such a number.
    pub fn projection(&self, numbers: &[usize]) -> Result<Projection> {
        match (self.entry.record().value_layout, &self.schema) {
            (Some(_), Some(schema)) => Projection::new(schema, numbers),
            _ => Err(Error::InvalidArgument(format!(
                "tree `{}` was made without a layout of values",
                self.name()
            ))),
        }
    }

    /// Reads parts of a value into a reusable buffer: concatenated in the order of the layout, each
    /// as it is in the value (a part with a length prefix, with that). False, with an empty buffer,
    /// if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get); `InvalidArgument` if the value does not fit the layout of its tree,
    /// or if the projection is for a tree with other layouts.
    pub fn get_projected(
        &self,
        key: impl AsRef<[u8]>,
        projection: &Projection,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let key = key.as_ref();
        check_key(key)?;
        let view = self.view()?;
        projection.check(self.schema.as_ref())?;
        view.get_projected(&self.entry, key, projection, value)
    }

    /// Reads a byte range of a value: fills `out` from byte `from` on and returns how many bytes
    /// there were, fewer than the length of `out` only at the value's end; `None` if there is no
    /// such key. Of a long value only the pieces of 256 KiB that are needed are read, so that it
    /// can be read with little memory. Consecutive calls see the same value only through a
    /// [`Snapshot`](crate::Snapshot::get_at).
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let films = db.create_tree("films", Default::default())?;
    /// films.put(b"short", &vec![7; 3 << 20])?;
    /// let (snapshot, mut piece, mut at) = (db.snapshot(), vec![0; 1 << 20], 0);
    /// while let Some(bytes @ 1..) = snapshot.get_at(&films, b"short", at, &mut piece)? {
    ///     at += bytes;
    /// }
    /// assert_eq!(at, 3 << 20);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_at(
        &self,
        key: impl AsRef<[u8]>,
        from: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        let key = key.as_ref();
        check_key(key)?;
        self.view()?.get_at(self, key, from, out)
    }

    /// The tree's number, which no other tree of the store ever has, and which renaming does not
    /// change.
    pub fn id(&self) -> TreeId {
        self.entry.id
    }

    /// The current name, also if the handle was opened through a snapshot.
    pub fn name(&self) -> String {
        self.entry.name()
    }

    /// The tree's name and options; if the handle was opened through a snapshot, those that the
    /// tree had there.
    pub fn info(&self) -> TreeInfo {
        match &self.then {
            Some(then) => then.record.clone().into(),
            None => self.entry.record().into(),
        }
    }

    /// The version of the layout in which the handle returns values, if these name theirs.
    pub fn layout_version(&self) -> Option<u16> {
        self.versions().map(|versions| versions.newest())
    }
}

/// Maps a value of an older version to the newest version that the reader knows.
#[inline]
pub(super) fn to_newest_version(
    versions: &RowVersions,
    entry: &TreeEntry,
    value: &mut Vec<u8>,
) -> Result<()> {
    let mut mapped = Vec::new();
    match versions.map(value, &mut mapped) {
        Standing::AsItIs => Ok(()),
        Standing::Mapped => {
            *value = mapped;
            Ok(())
        }
        Standing::Newer(version) => must_be_newer(entry, version),
    }
}

/// Fails if the tree now has this version, which the reader does not know; otherwise the value only
/// looks like one of that version.
#[cold]
pub(super) fn must_be_newer(entry: &TreeEntry, version: u16) -> Result<()> {
    // The newest version of a dropped tree is not known.
    let is_known = entry.check().is_ok();
    match entry.row_version().is_some_and(|newest| version <= newest || !is_known) {
        true => Err(Error::DefinitionChanged(entry.name())),
        false => Ok(()),
    }
}

/// Fails if a tree has no such version of its layout.
#[cold]
pub(super) fn must_be_there(version: u16, newest: Option<u16>, tree: &str) -> Result<()> {
    match newest.filter(|newest| version > *newest) {
        None => Ok(()),
        Some(newest) => Err(Error::InvalidArgument(format!(
            "a value names version {version} of its layout, and tree \"{tree}\" has had 0 to {newest}; values that come from another tree must name a version of this tree"
        ))),
    }
}

/// Normalizes a range to `[from, to)`.
pub(super) fn bounds(range: &impl KeyRange) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>)> {
    let (from, to) = borrowed_bounds(range)?;
    Ok((from.map(Cow::into_owned), to.map(Cow::into_owned)))
}

/// A key that starts or ends a range, or none.
type End<'r> = Option<Cow<'r, [u8]>>;

/// The least key above this one; `None` if it is the greatest. A key of the greatest length has no
/// longer keys above it.
pub(super) fn key_after(key: &[u8]) -> Option<Vec<u8>> {
    if key.len() >= bounds::KEY_BYTES.len() {
        return prefix_end(key);
    }
    Some([key, &[0]].concat())
}

/// Normalizes a range like [`bounds`], without copies of keys that need not change.
pub(super) fn borrowed_bounds<R: KeyRange>(range: &R) -> Result<(End<'_>, End<'_>)> {
    let from = match range.lower() {
        Bound::Included(key) => Some(Cow::Borrowed(key)),
        Bound::Excluded(key) => match key_after(key) {
            Some(next) => Some(Cow::Owned(next)),
            // No key is in the range.
            None => return Ok((Some(Cow::Borrowed(key)), Some(Cow::Borrowed(key)))),
        },
        Bound::Unbounded => None,
    };
    let to = match range.upper() {
        Bound::Included(key) => key_after(key).map(Cow::Owned),
        Bound::Excluded(key) => Some(Cow::Borrowed(key)),
        Bound::Unbounded => None,
    };
    if let (Some(from), Some(to)) = (&from, &to)
        && from > to
    {
        return Err(Error::InvalidArgument("a range ends before it begins".into()));
    }
    Ok((from, to))
}
