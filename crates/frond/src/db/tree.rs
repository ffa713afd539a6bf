//! Trees: ordered maps from keys to values, as users hold them.

use std::{
    borrow::Cow,
    ops::{Bound, RangeBounds},
};

use crate::{
    Error, Layout, Result, Seqno, SizeClass, TreeId, bounds,
    catalog::{TreeEntry, TreeRecord},
    layout::{RowVersions, Standing},
    run::Typing,
    sync::Arc,
    version::Version,
};

use super::{
    Batch, Cursor, Parts, Shared,
    batch::check_key,
    read::{ReadView, in_key_order},
};

/// What a new tree is to be like.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeOptions {
    /// Size against speed.
    pub size_class: SizeClass,
    /// Keys are mostly inserted with a check that they are absent, in random order: leaves get
    /// filters, so that the check of an absent key costs no read, but for one in a hundred, of which a filter says "perhaps".
    pub unique: bool,
    /// Bytes that the owner wants kept with the tree, up to 1 MiB.
    pub attributes: Vec<u8>,
    /// What keys look like, if known.
    pub key_layout: Option<Layout>,
    /// What values look like, if known.
    pub value_layout: Option<Layout>,
}

/// A tree's name and what it was created with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeInfo {
    /// Its number, which no other tree of the store ever has.
    pub id: TreeId,
    /// The name.
    pub name: String,
    /// The options it was created with.
    pub options: TreeOptions,
    /// The commit that created it, or, once the store was opened again, one that nobody who sees less can see the tree
    /// from. A snapshot below it does not have the tree: reading it there fails with `DefinitionChanged`.
    pub birth: Seqno,
}

impl From<TreeRecord> for TreeInfo {
    fn from(record: TreeRecord) -> Self {
        let options = TreeOptions::of(&record);
        Self { id: record.id, name: record.name, birth: record.birth, options }
    }
}

impl TreeOptions {
    /// Those of a tree.
    pub(super) fn of(record: &TreeRecord) -> Self {
        Self {
            size_class: record.size_class,
            unique: record.unique,
            attributes: record.attributes.clone(),
            key_layout: record.key_layout.clone(),
            value_layout: record.value_layout.clone(),
        }
    }
}

/// A handle to a tree; cheap to clone, usable from all threads at once.
///
/// Reads see every commit that returned before they began, and never wait for a writer.
///
/// Where values name the version of their layout ([`Layout::versioned`]), a handle gives all of them in the version that was
/// the newest when it was opened, and fails with `DefinitionChanged` when it meets a newer one.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(crate) shared: Arc<Shared>,
    pub(crate) entry: Arc<TreeEntry>,
    /// As of when the handle was opened.
    pub(super) typing: Option<Arc<Typing>>,
    /// Of one that was opened in a snapshot: the birth that the tree had then.
    then: Option<Seqno>,
}

impl Tree {
    /// A handle that knows the tree as it is now.
    pub(super) fn new(shared: Arc<Shared>, entry: Arc<TreeEntry>) -> Self {
        let typing = entry.typing();
        Self { shared, entry, typing, then: None }
    }

    /// A handle from a snapshot, in which the tree had this birth: it may be read there, whatever was made of it since.
    pub(super) fn of_snapshot(shared: Arc<Shared>, entry: Arc<TreeEntry>, then: Seqno) -> Self {
        Self { then: Some(then), ..Self::new(shared, entry) }
    }

    /// The commit with which the tree begins for who reads by this handle (Rule: I43).
    pub(super) fn birth(&self) -> Seqno {
        let birth = self.entry.birth();
        self.then.map_or(birth, |then| then.min(birth))
    }

    /// An error unless the tree is there at this seqno, for a reader by this handle: it has begun and has not ended. To be called once
    /// the reader has its version: see [`TreeEntry::check`].
    #[inline]
    pub(super) fn check_at(&self, at: Seqno) -> Result<()> {
        match self.birth() > at {
            true => Err(Error::DefinitionChanged(self.name())),
            false => self.entry.check_at(at),
        }
    }

    /// A view of what is visible now, in a version that was taken before. Every birth is visible by now.
    #[inline]
    fn view<'a>(&'a self, version: &'a Version) -> Result<ReadView<'a>> {
        let engine = &self.shared.engine;
        let at = engine.sequencer.visible();
        if !plant!("db: a get does not ask whether its tree has ended") {
            self.entry.check_at(at)?;
        }
        Ok(ReadView { engine, version, at })
    }

    /// The version of the layout in which the handle gives values, if these name theirs.
    pub fn layout_version(&self) -> Option<u16> {
        self.versions().map(|versions| versions.newest())
    }

    /// How values become ones of the version in which the handle gives them.
    pub(super) fn versions(&self) -> Option<&Arc<RowVersions>> {
        self.typing.as_ref()?.versions()
    }

    /// An error if a value is too long, or names a version of its layout that there is not: it would be taken for one of it
    /// later.
    pub(super) fn check_value(&self, value: &[u8]) -> Result<()> {
        if !bounds::VALUE_BYTES.admits(value.len()) {
            return Err(Error::ValueTooLong { bytes: value.len(), max: bounds::VALUE_BYTES.len() });
        }
        match self.versions().and_then(|versions| versions.beyond(value)) {
            None => Ok(()),
            Some(version) => must_be_there(version, self.entry.row_version(), &self.name()),
        }
    }

    /// An error if its values name the version of their layout: an operand does not, and may meet an older one.
    pub(super) fn must_take_operands(&self) -> Result<()> {
        match self.versions() {
            None => Ok(()),
            Some(_) => Err(Error::InvalidArgument(format!(
                "values of tree \"{}\" name the version of their layout, which an operand cannot: read and put them",
                self.name()
            ))),
        }
    }

    /// Makes a value of an older version one of the handle's.
    #[inline]
    pub(crate) fn bring_up(&self, value: &mut Vec<u8>) -> Result<()> {
        match self.versions() {
            None => Ok(()),
            Some(versions) => bring_up(versions, &self.entry, value),
        }
    }

    /// The same of a value that is somebody else's.
    pub(crate) fn brought_up<'v>(&self, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        if self.versions().is_none_or(|versions| versions.has(value)) {
            return Ok(Cow::Borrowed(value));
        }
        let mut value = value.to_vec();
        self.bring_up(&mut value)?;
        Ok(Cow::Owned(value))
    }

    /// Its number, which no other tree of the store ever has, and which it keeps when its name
    /// changes.
    pub fn id(&self) -> TreeId {
        self.entry.id
    }

    /// The name now.
    pub fn name(&self) -> String {
        self.entry.name()
    }

    /// Name and options.
    pub fn info(&self) -> TreeInfo {
        self.entry.record().into()
    }

    /// The value of a key. Costs one copy of the value, and at most one read of the device when the
    /// upper part of the tree is in memory.
    ///
    /// # Errors
    /// `NoSuchTree` if the tree was dropped; I/O errors and damage of what had to be read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// The same into a buffer that is reused; false, and an empty buffer, if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        check_key(key)?;
        self.shared.engine.health.check()?;
        let version = self.shared.engine.versions.current();
        let view = self.view(&version)?;
        let found = view.get(self.entry.id, key, value)?;
        self.bring_up(value)?;
        Ok(found)
    }

    /// Parts of this tree's values, by their numbers in the layout of values, for reads that need no more:
    /// [`get_parts`](Self::get_parts), [`Cursor::only`](crate::Cursor::only). A block keeps each part by itself,
    /// so that others are neither looked at nor decompressed.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # use frond::{End, Hint, Layout, Part, TreeOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let value = Layout::new(vec![Part::Fixed(4, Hint::Integer), Part::Var(End::Rest)]);
    /// let options = TreeOptions { value_layout: Some(value), ..Default::default() };
    /// let pages = db.create_tree("pages", options)?;
    /// pages.put(b"index", b"\x00\x00\x00\x07<html>...</html>")?;
    /// let hits = pages.parts(&[0])?;
    /// let mut value = Vec::new();
    /// assert!(pages.get_parts(b"index", &hits, &mut value)?);
    /// assert_eq!(value, [0, 0, 0, 7]);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the tree was made without a layout of values, or it has no part of such a number.
    pub fn parts(&self, numbers: &[usize]) -> Result<Parts> {
        match (self.entry.record().value_layout, &self.typing) {
            (Some(_), Some(typing)) => Parts::new(typing, numbers),
            _ => Err(Error::InvalidArgument(format!(
                "tree `{}` was made without a layout of values",
                self.name()
            ))),
        }
    }

    /// Parts of a value, one after the other in the order of the layout, each as it stands in the value (a
    /// part that has its length before it, with that), into a buffer that is reused; false, and an empty
    /// buffer, if there is no such key.
    ///
    /// # Errors
    /// As [`get`](Self::get); `InvalidArgument` if the value does not fit the layout of its tree, or the parts are of
    /// a tree with other layouts.
    pub fn get_parts(&self, key: &[u8], parts: &Parts, value: &mut Vec<u8>) -> Result<bool> {
        check_key(key)?;
        self.shared.engine.health.check()?;
        let version = self.shared.engine.versions.current();
        let view = self.view(&version)?;
        parts.check(self.typing.as_ref())?;
        view.get_parts(&self.entry, key, parts, value)
    }

    /// A part of a value: fills `out` from byte `from` on, and returns how many bytes there were, fewer
    /// than `out` has only at the value's end; `None` if there is no such key. Of a long value only the
    /// pieces of 256 KiB that are asked for are read, so that it can be read in little memory. Calls one
    /// after the other see one value only through a [`Snapshot`](crate::Snapshot::get_at).
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
    pub fn get_at(&self, key: &[u8], from: usize, out: &mut [u8]) -> Result<Option<usize>> {
        check_key(key)?;
        self.shared.engine.health.check()?;
        let version = self.shared.engine.versions.current();
        let view = self.view(&version)?;
        view.get_at(self, key, from, out)
    }

    /// True if the key exists. Costs what [`get`](Self::get) costs, less the value's copy.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        check_key(key)?;
        self.shared.engine.health.check()?;
        let version = self.shared.engine.versions.current();
        self.view(&version)?.exists(self.entry.id, key)
    }

    /// The values of many keys, all from the same moment, in the order of the keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.engine.health.check()?;
        let version = self.shared.engine.versions.current();
        let view = self.view(&version)?;
        in_key_order(keys, |key| {
            check_key(key)?;
            let mut value = Vec::new();
            let found = view.get(self.entry.id, key, &mut value)?;
            self.bring_up(&mut value)?;
            Ok(found.then_some(value))
        })
    }

    /// A commit of one `put`.
    ///
    /// # Errors
    /// Those of [`Batch::put`] and [`Db::commit`](crate::Db::commit).
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Seqno> {
        let mut batch = Batch::new();
        batch.put(self, key, value)?;
        self.shared.commit(&mut batch, None)
    }

    /// A commit of one `delete`.
    ///
    /// # Errors
    /// Those of [`Batch::delete`] and [`Db::commit`](crate::Db::commit).
    pub fn delete(&self, key: &[u8]) -> Result<Seqno> {
        let mut batch = Batch::new();
        batch.delete(self, key)?;
        self.shared.commit(&mut batch, None)
    }

    /// A cursor over a range of keys, as of now, before its first row.
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
    /// As [`get`](Self::get).
    pub fn scan<'k>(&self, range: impl RangeBounds<&'k [u8]>) -> Result<Cursor> {
        self.shared.engine.health.check()?;
        let snapshot = self.shared.snapshot();
        Cursor::new(snapshot, self.entry.id, Some(self), bounds(&range)?)
    }
}

/// Makes a value of an older version one of the newest that is known to whoever reads.
#[inline]
pub(super) fn bring_up(
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

/// An error if there is such a version by now, which the reader does not know; else the value only looks like one.
#[cold]
pub(super) fn must_be_newer(entry: &TreeEntry, version: u16) -> Result<()> {
    // Of a tree that is gone nobody knows the newest.
    let is_known = entry.check().is_ok();
    match entry.row_version().is_some_and(|newest| version <= newest || !is_known) {
        true => Err(Error::DefinitionChanged(entry.name())),
        false => Ok(()),
    }
}

/// An error if a tree has no such version of its layout.
#[cold]
pub(super) fn must_be_there(version: u16, newest: Option<u16>, tree: &str) -> Result<()> {
    match newest.filter(|newest| version > *newest) {
        None => Ok(()),
        Some(newest) => Err(Error::InvalidArgument(format!(
            "a value names version {version} of its layout, and tree \"{tree}\" has had 0 to {newest}; values that come from another tree are to name one of this"
        ))),
    }
}

/// A range as [from, to) with inclusive ends made exclusive.
pub(super) fn bounds<'k>(
    range: &impl RangeBounds<&'k [u8]>,
) -> Result<(Option<Vec<u8>>, Option<Vec<u8>>)> {
    let after = |key: &[u8]| {
        let mut next = key.to_vec();
        next.push(0);
        next
    };
    let from = match range.start_bound() {
        Bound::Included(key) => Some(key.to_vec()),
        Bound::Excluded(key) => Some(after(key)),
        Bound::Unbounded => None,
    };
    let to = match range.end_bound() {
        Bound::Included(key) => Some(after(key)),
        Bound::Excluded(key) => Some(key.to_vec()),
        Bound::Unbounded => None,
    };
    if let (Some(from), Some(to)) = (&from, &to)
        && from > to
    {
        return Err(Error::InvalidArgument("a range ends before it begins".into()));
    }
    Ok((from, to))
}
