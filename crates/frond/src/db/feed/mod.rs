//! The change feed: all commits in order, for programs that follow a store.
//!
//! A feed reads the log, concurrently with commits, and never blocks them. Its position is one
//! number, the next commit, which a follower stores together with its own copy of the data.
//!
//! Invariants
//! 1. Each commit from the position on is returned once, in order, with no gap; a position before
//!    the start of the log is an error.
//! 2. Nothing is returned that a crash could undo (Rule: I30).
//! 3. The position moves past a commit when that commit is returned, never because of an error.
//! 4. Memory: the commits of one log group, or one large commit; one long value; 4 MiB of prepared
//!    transactions.
//! 5. The long values of a commit are held from when it is returned until it is dropped.
//!
//! Threads: a feed has one owner; it holds no lock while it waits.

mod prepared;
mod spilled;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    Error, ErrorKind, Place, Result, Seqno, TreeId,
    blob::{Blob, BlobHold, BlobRef},
    catalog::{BUILD_ATTRIBUTES, CATALOG_TREE, Catalog, Record as CatalogRecord},
    db::{Db, Shared, TreeInfo},
    message::{Kind, Message},
    pipeline::Engine,
    run,
    store::Store,
    sync::Arc,
    types::{Lsn, Xid},
    wal::{self, Item, LogFeed, Record, RecordItems},
};

use prepared::Prepares;
use spilled::SpilledWalk;

/// Memory for records that is kept between groups.
const KEPT_BYTES: usize = 4 << 20;

/// Follows the commits of a store; see [`Db::changes`].
pub struct ChangeFeed {
    shared: Arc<Shared>,
    log: LogFeed,
    /// Commits that were read and not returned yet: their place in the log, and in `bytes`.
    read: VecDeque<(Seqno, Lsn, Range<usize>)>,
    bytes: Vec<u8>,
    names: Names,
    prepares: Prepares,
    /// The content of the commit returned last, if it was prepared.
    body: Vec<u8>,
}

impl std::fmt::Debug for ChangeFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChangeFeed(at {})", self.position())
    }
}

/// The changes of one commit, ordered by tree and key; within a tree, deleted ranges come first.
pub struct Commit<'a> {
    seqno: Seqno,
    content: Content<'a>,
    names: &'a Names,
    engine: Arc<Engine>,
    /// Holds on the commit's long values.
    _holds: Vec<Arc<BlobHold>>,
    /// The long value returned last.
    value: Vec<u8>,
}

/// The changes of a commit: to the catalog, or to trees.
enum Content<'a> {
    Catalog(std::vec::IntoIter<Change<'static>>),
    Trees(RecordItems<'a>),
    /// Changes of a commit that was spilled.
    Spilled(Box<SpilledWalk<'a>>),
}

impl std::fmt::Debug for Commit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Commit({})", self.seqno)
    }
}

/// A tree, as a change names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangedTree<'a> {
    /// The number, which no other tree ever has.
    pub id: TreeId,
    /// The name at this commit: the one that the feed has read, or, if the tree was not renamed
    /// since the feed started to read, its name when the feed was opened. `None` if the tree was
    /// dropped before that.
    pub name: Option<&'a str>,
}

/// One change that a commit made.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change<'a> {
    /// A key was set to a value.
    Put {
        /// The tree.
        tree: ChangedTree<'a>,
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// A key was deleted.
    Delete {
        /// The tree.
        tree: ChangedTree<'a>,
        /// The key.
        key: &'a [u8],
    },
    /// Operands were merged into the value of a key.
    Merge {
        /// The tree.
        tree: ChangedTree<'a>,
        /// The key.
        key: &'a [u8],
        /// Operator number and operand of each merge, in order.
        operands: Vec<(u8, &'a [u8])>,
    },
    /// All keys of a range were deleted. Comes before the same commit's changes of keys in the
    /// range.
    DeleteRange {
        /// The tree.
        tree: ChangedTree<'a>,
        /// First deleted key.
        from: &'a [u8],
        /// First key after the range.
        to: &'a [u8],
    },
    /// A tree was created, cloned or renamed: it has this number, name and options from here on.
    TreeDefined {
        /// The tree.
        info: TreeInfo,
        /// If the tree is a clone: the tree whose content it had at the commit that first defined
        /// it.
        cloned_from: Option<TreeId>,
        /// True if it was bulk-loaded or built as an index (which the feed reports once it is
        /// published): the tree starts with rows that the feed does not contain. Read them from the
        /// tree, as of this commit or later.
        is_loaded: bool,
    },
    /// A tree was dropped with all its rows.
    TreeDropped {
        /// The number.
        id: TreeId,
        /// The name, if the feed knows it.
        name: Option<String>,
    },
    /// A named snapshot was created.
    SnapshotCreated {
        /// The name.
        name: String,
    },
    /// A named snapshot was dropped.
    SnapshotDropped {
        /// The name, if the feed knows it.
        name: Option<String>,
    },
}

/// Names of trees and snapshots, as of the commit read last.
#[derive(Debug, Default)]
struct Names {
    trees: BTreeMap<TreeId, String>,
    /// Trees of running index builds, which are not public yet.
    built: BTreeSet<TreeId>,
    snapshots: BTreeMap<u32, String>,
}

impl Db {
    /// Follows the commits from number `from` on, as they become durable. The log reaches back to
    /// what the last two checkpoints need, and with [`keep_log`](crate::Options::keep_log) further.
    /// To start following a store: take a snapshot, copy its content, and follow from its
    /// [`seqno`](crate::Snapshot::seqno) + 1. Changes are returned as they were committed, so a
    /// follower that might apply a commit twice after a crash of its own should store the position
    /// together with the data.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::feed::Change;
    /// use std::time::Duration;
    ///
    /// let tree = db.create_tree("t", Default::default())?;
    /// let mut feed = db.changes(db.snapshot().seqno().next())?;
    /// tree.put(b"k", b"v")?;
    /// let mut commit = feed.next(Duration::from_secs(1))?.expect("it is durable");
    /// while let Some(change) = commit.next()? {
    ///     let Change::Put { tree, key, value } = change else { panic!() };
    ///     assert_eq!((tree.name, key, value), (Some("t"), &b"k"[..], &b"v"[..]));
    /// }
    /// assert!(feed.next(Duration::ZERO)?.is_none());
    /// # drop(feed);
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `PositionLost` if the log no longer has that commit; `InvalidArgument` if the store has not
    /// reached it; `ReadOnly` on a store that is open read-only; I/O errors and damage.
    pub fn changes(&self, from: Seqno) -> Result<ChangeFeed> {
        let engine = &self.shared.engine;
        engine.health.check()?;
        let Some(log) = &engine.log else { return Err(Error::ReadOnly) };
        let last = engine.enter().last();
        if from > last.next() {
            return Err(Error::InvalidArgument(format!(
                "changes from commit {from} on: the last one is {last}. The position is that of \
                 another store, or of what this one was before it was restored"
            )));
        }
        // While this lock is held, every catalog change that has its seqno is also shown in the
        // catalog.
        let names = {
            let _change = self.shared.catalog.change();
            Names::of(&self.shared.catalog)
        };
        let applied = engine.store.newest().applied;
        let log = log.feed(from, applied)?;
        let shared = self.shared.clone();
        let (prepares, body) = Default::default();
        Ok(ChangeFeed {
            shared,
            log,
            read: VecDeque::new(),
            bytes: Vec::new(),
            names,
            prepares,
            body,
        })
    }
}

impl ChangeFeed {
    /// Number of the next commit: another feed can continue from here.
    pub fn position(&self) -> Seqno {
        self.read.front().map_or(self.log.next_seqno(), |&(seqno, ..)| seqno)
    }

    /// Returns the next commit once it is durable; `None` if none is within `wait`. Commits at
    /// durability `Os` and `Lazy` are durable at most a second after they returned.
    ///
    /// # Errors
    /// `PositionLost` if the log was trimmed before this commit was read, or if a long value of it
    /// was replaced and freed, which can happen from two checkpoints later on; `Closed`, `Failed`;
    /// I/O errors and damage. The position is unchanged then.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Commit<'_>>> {
        let engine = self.shared.engine.clone();
        let (clock, log) = (&*engine.env.clock, engine.log());
        let deadline = clock.now().saturating_add(wait);
        loop {
            engine.health.check()?;
            if !self.read.is_empty() {
                return self.hand_out().map(Some);
            }
            if !self.read_group()? {
                let left = deadline.saturating_sub(clock.now());
                if left.is_zero() || !log.wait_durable(self.log.position(), left)? {
                    return Ok(None);
                }
            }
        }
    }

    /// False if there is no further group yet.
    fn read_group(&mut self) -> Result<bool> {
        let Self { shared, log, read, bytes, .. } = self;
        bytes.clear();
        bytes.shrink_to(KEPT_BYTES);
        let group = log.read(shared.engine.log(), &mut |seqno, lsn, payload| {
            let start = bytes.len();
            bytes.extend_from_slice(payload);
            read.push_back((seqno, lsn, start..bytes.len()));
        });
        if group.is_err() {
            // The commits of the group will be read again.
            read.clear();
        }
        Ok(group?.is_some())
    }

    fn hand_out(&mut self) -> Result<Commit<'_>> {
        let Self { shared, read, bytes, names, prepares, body, .. } = self;
        let (seqno, lsn, range) = read.front().cloned().unwrap_or_default();
        let payload = bytes.get(range).unwrap_or_default();
        let engine = shared.engine.clone();
        body.clear();
        if let Some(prepared) = prepared_in(items(lsn, payload)?)? {
            *body = prepares.body(&engine, (&prepared.0, prepared.1), seqno)?;
        }
        let (content, holds) = match names
            .learn(items(lsn, payload)?, engine.store.file().path())?
        {
            Some(changes) => {
                prepares.learn(items(lsn, payload)?)?;
                (Content::Catalog(changes.into_iter()), Vec::new())
            }
            None if !body.is_empty() && names_runs(wal::items(lsn, body))? => {
                let (walk, holds) =
                    SpilledWalk::new(&engine, seqno, &names.built, || Ok(wal::items(lsn, body)))?;
                prepares.learn(items(lsn, payload)?)?;
                (Content::Spilled(Box::new(walk)), holds)
            }
            None if !body.is_empty() => {
                let holds = hold_blobs(&engine, seqno, wal::items(lsn, body), true)?;
                prepares.learn(items(lsn, payload)?)?;
                (Content::Trees(wal::items(lsn, body).without_trees(names.built.clone())), holds)
            }
            None if names_runs(items(lsn, payload)?)? => {
                let (walk, holds) =
                    SpilledWalk::new(&engine, seqno, &names.built, || items(lsn, payload))?;
                (Content::Spilled(Box::new(walk)), holds)
            }
            None => {
                let holds = hold_blobs(&engine, seqno, items(lsn, payload)?, false)?;
                let items = items(lsn, payload)?.without_extents();
                (Content::Trees(items.without_trees(names.built.clone())), holds)
            }
        };
        read.pop_front();
        Ok(Commit { seqno, content, names, engine, _holds: holds, value: Vec::new() })
    }
}

/// The error for a commit of which something outside the log has been freed, which can happen once
/// a checkpoint contains the commit.
fn freed(store: &Store, seqno: Seqno, why: &'static str) -> Error {
    let oldest = store.newest().applied.next().max(seqno.next()).0;
    Error::PositionLost { wanted: seqno.0, oldest, why }
}

/// Holds the long values of a commit. Only the part of the log that recovery needs keeps them:
/// those of an older commit may be gone, and their space reused.
fn hold_blobs(
    engine: &Engine,
    seqno: Seqno,
    mut items: RecordItems<'_>,
    mut has_extents: bool,
) -> Result<Vec<Arc<BlobHold>>> {
    let (store, mut holds) = (&engine.store, Vec::new());
    while let Some(item) = items.next()? {
        match item {
            Item::Extent(_) => has_extents = true,
            Item::Entry { tag, payload, .. } if has_extents && tag.kind() == Kind::PutBlob => {
                let reference = BlobRef::read(store.file(), payload)?;
                let hold = BlobHold::if_written(store, reference.extent());
                let found = match (&hold, Blob::open_uncached(store.file(), reference)) {
                    (Some(_), Err(error)) if error.kind() != ErrorKind::Restore => {
                        return Err(error);
                    }
                    (Some(_), table) => table.is_ok(),
                    (None, _) => false,
                };
                if !found {
                    let why = "a long value of it was replaced or deleted, and has been freed";
                    return Err(freed(store, seqno, why));
                }
                holds.extend(hold);
            }
            Item::Runs { .. } => {}
            // The extents of a commit come first in its record.
            _ if !has_extents => break,
            _ => {}
        }
    }
    Ok(holds)
}

/// The xid of the prepared transaction that a commit decides, and the seqno after which it was
/// prepared.
fn prepared_in(mut items: RecordItems<'_>) -> Result<Option<(Xid, Seqno)>> {
    while let Some(item) = items.next()? {
        match item {
            Item::Prepared { xid, at } => return Ok(Some((Xid::new(xid)?, at))),
            Item::Extent(_) | Item::Page { .. } => {}
            _ => break,
        }
    }
    Ok(None)
}

/// True if the commit was spilled; its record then starts with runs.
fn names_runs(mut items: RecordItems<'_>) -> Result<bool> {
    Ok(matches!(items.next()?, Some(Item::Runs { .. })))
}

fn items(lsn: Lsn, payload: &[u8]) -> Result<RecordItems<'_>> {
    match wal::decode(lsn, payload)? {
        Record::Commit { items, .. } => Ok(items),
        Record::Checkpoint { .. } | Record::Keeps { .. } => Err(malformed(lsn, "it is no commit")),
    }
}

fn malformed(lsn: Lsn, why: &str) -> Error {
    let place = Place { file: PathBuf::from("log"), offset: lsn.0, bytes: 0 };
    Error::Malformed { place, what: "log record", why: why.into() }
}

impl Names {
    fn of(catalog: &Catalog) -> Self {
        Self {
            trees: catalog.trees().iter().map(|tree| (tree.id, tree.name())).collect(),
            built: {
                let trees = catalog.trees().into_iter();
                let built = trees.filter(|tree| tree.is_marked(BUILD_ATTRIBUTES));
                built.map(|tree| tree.id).collect()
            },
            snapshots: catalog.snapshots().into_iter().map(|one| (one.id, one.name)).collect(),
        }
    }

    /// Updates these names with a commit to the catalog, and returns its changes; `None` for any
    /// other commit. A commit that cannot be read changes nothing.
    fn learn(
        &mut self,
        items: RecordItems<'_>,
        path: &Path,
    ) -> Result<Option<Vec<Change<'static>>>> {
        let mut items = items;
        let (mut records, mut loaded) = (Vec::new(), Vec::new());
        while let Some(item) = items.next()? {
            match item {
                Item::Entry { tree: CATALOG_TREE, key, tag, payload } if tag.is_put() => {
                    let record = CatalogRecord::decode(key, payload);
                    records.push(Ok(record.map_err(|flaw| flaw.at(path))?));
                }
                Item::Entry { tree: CATALOG_TREE, key, .. } => records.push(Err(key.to_vec())),
                Item::Root { tree, .. } => loaded.push(tree),
                Item::Extent(_)
                | Item::Page { .. }
                | Item::Runs { .. }
                | Item::Rows { .. }
                | Item::Counter { .. } => {}
                Item::Entry { .. } | Item::DeleteRange { .. } | Item::Prepared { .. } => break,
            }
        }
        if records.is_empty() {
            return Ok(None);
        }
        // The drop of a cloned tree comes after the clone, because a follower needs the tree to
        // clone it.
        let is_cloned = |id: TreeId| {
            let mut records = records.iter().flatten();
            records.any(|record| matches!(record, CatalogRecord::Tree(tree) if tree.parent.as_ref().is_some_and(|parent| parent.tree == id)))
        };
        let is_last = |record: &Result<CatalogRecord, Vec<u8>>| match record {
            Err(key) => CatalogRecord::tree_of_key(key).is_some_and(is_cloned),
            Ok(_) => false,
        };
        let is_last: Vec<bool> = records.iter().map(is_last).collect();
        let (last, first): (Vec<_>, Vec<_>) =
            records.into_iter().zip(is_last).partition(|(_, is_last)| *is_last);
        let changes = first.into_iter().chain(last).filter_map(|(record, _)| match record {
            Ok(record) => self.define(record, &loaded),
            Err(key) => self.forget(&key),
        });
        Ok(Some(changes.collect()))
    }

    fn define(&mut self, record: CatalogRecord, loaded: &[TreeId]) -> Option<Change<'static>> {
        match record {
            CatalogRecord::Tree(record) if record.attributes == BUILD_ATTRIBUTES => {
                self.built.insert(record.id);
                None
            }
            CatalogRecord::Tree(record) => {
                self.trees.insert(record.id, record.name.clone());
                let cloned_from = record.parent.map(|parent| parent.tree);
                // Rows that a build has put there were not returned either.
                let is_loaded = loaded.contains(&record.id) | self.built.remove(&record.id);
                Some(Change::TreeDefined { info: record.into(), cloned_from, is_loaded })
            }
            CatalogRecord::Snapshot(record) => {
                self.snapshots.insert(record.id, record.name.clone());
                Some(Change::SnapshotCreated { name: record.name })
            }
            CatalogRecord::Counters(_) | CatalogRecord::Dropped(_) | CatalogRecord::Prepared(_) => {
                None
            }
        }
    }

    fn forget(&mut self, key: &[u8]) -> Option<Change<'static>> {
        if let Some(id) = CatalogRecord::tree_of_key(key) {
            if self.built.remove(&id) {
                return None;
            }
            return Some(Change::TreeDropped { id, name: self.trees.remove(&id) });
        }
        let id = CatalogRecord::snapshot_of_key(key)?;
        Some(Change::SnapshotDropped { name: self.snapshots.remove(&id) })
    }

    fn tree(&self, id: TreeId) -> ChangedTree<'_> {
        ChangedTree { id, name: self.trees.get(&id).map(String::as_str) }
    }
}

impl Commit<'_> {
    /// The seqno of the commit.
    pub fn seqno(&self) -> Seqno {
        self.seqno
    }

    /// The next change; `None` after the last.
    ///
    /// # Errors
    /// Damage that the log's checksums did not show, damage in a long value, I/O errors.
    pub fn next(&mut self) -> Result<Option<Change<'_>>> {
        let names = self.names;
        let items = match &mut self.content {
            Content::Catalog(changes) => return Ok(changes.next()),
            Content::Trees(items) => items,
            Content::Spilled(walk) => {
                let Some((tree, key, message)) = walk.next()? else { return Ok(None) };
                if message.tag.kind() == Kind::PutBlob {
                    self.engine.cx.open_blob(message.payload)?.read(&mut self.value)?;
                    let value = &self.value;
                    return Ok(Some(Change::Put { tree: names.tree(tree), key, value }));
                }
                return change(names.tree(tree), key, message).map(Some);
            }
        };
        match items.next()? {
            Some(Item::Entry { tree, key, tag, payload }) if tag.kind() == Kind::PutBlob => {
                self.engine.cx.open_blob(payload)?.read(&mut self.value)?;
                Ok(Some(Change::Put { tree: names.tree(tree), key, value: &self.value }))
            }
            Some(Item::Entry { tree, key, tag, payload }) => {
                change(names.tree(tree), key, Message::new(tag, payload)).map(Some)
            }
            Some(Item::DeleteRange { tree, from, to }) => {
                Ok(Some(Change::DeleteRange { tree: names.tree(tree), from, to }))
            }
            Some(
                Item::Extent(_)
                | Item::Page { .. }
                | Item::Root { .. }
                | Item::Prepared { .. }
                | Item::Runs { .. }
                | Item::Rows { .. }
                | Item::Counter { .. },
            )
            | None => Ok(None),
        }
    }
}

fn change<'a>(
    tree: ChangedTree<'a>,
    key: &'a [u8],
    Message { tag, payload }: Message<'a>,
) -> Result<Change<'a>> {
    match tag.kind() {
        Kind::Put => Ok(Change::Put { tree, key, value: payload }),
        Kind::Delete => Ok(Change::Delete { tree, key }),
        Kind::Merge => {
            let operands = run::operands(payload).collect::<Result<_>>()?;
            Ok(Change::Merge { tree, key, operands })
        }
        Kind::PutBlob | Kind::Versions => {
            Err(malformed(Lsn(0), "an entry of a kind that no commit writes"))
        }
    }
}
