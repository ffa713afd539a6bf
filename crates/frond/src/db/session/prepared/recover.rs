//! Recovery of prepared transactions when a store is opened: from the catalog's pieces to
//! transactions that hold their locks.
//!
//! 1. Pieces are collected from the catalog at the boundary, then from the log as it is replayed;
//!    long values are held from there on.
//! 2. What is left at the end of the log is decoded ([`recover`]).
//! 3. Once there is a lock table, the transactions take their rows again
//!    ([`Shared::adopt_prepared`]), before any other transaction exists.
//!
//! Threads: the one that opens the store.

use std::collections::BTreeMap;

use super::{
    Prepared,
    form::{self, Content},
};
use crate::{
    Error, Place, Result, Seqno, TreeId,
    blob::{BlobHold, BlobRef},
    block::columnar::ColumnSelection,
    catalog::{CATALOG_TREE, Pieces, Record},
    db::{Shared, open::log_extent::extent_of, session::rows_beyond_memory},
    message::{Kind, Tag},
    page::LINK_BYTES,
    pipeline::{CommitPayload, Engine, HeldExtents},
    store::{Extent, HeldPages, Link, STORE_LINEAGE},
    sync::Arc,
    tree::SortedRuns,
    txn::{
        LiveWrites, MemoryReservation,
        lock_table::{Leaving, LockList, RowMode, TableMode},
    },
    types::{Lsn, VersionNumber, Xid},
    version::{Change, SpilledWrites},
    wal::{self, Item, RecordBuilder, TRAILER_BYTES},
};

/// A prepared transaction that was found.
pub(in crate::db) struct Found {
    prepared: Prepared,
    /// All its locks, if there are more than those of the rows that it writes.
    locks: Option<LockList>,
}

/// Decodes all prepared transactions, and holds their long values.
pub(in crate::db) fn recover(engine: &Engine, pieces: &Pieces) -> Result<Vec<Found>> {
    pieces.xids().map(|xid| read(engine, pieces, xid)).collect()
}

/// The decoded content of the transaction prepared under a name.
pub(in crate::db) fn content_of(engine: &Engine, pieces: &Pieces, xid: &Xid) -> Result<Content> {
    let content = pieces.content(xid);
    let content =
        content.ok_or_else(|| malformed(engine, format!("a piece of {xid} is missing")))?;
    form::read(&content)
        .map_err(|flaw| malformed(engine, format!("{xid}: {}", flaw.at(file(engine)))))
}

/// One change that a prepared transaction makes.
pub(in crate::db) enum TreeChange<'a> {
    /// Change of a tree's row count; comes before the tree's other changes.
    Rows(TreeId, i64),
    Entry(TreeId, &'a [u8], Tag, &'a [u8]),
    DeleteRange(TreeId, &'a [u8], &'a [u8]),
}

/// Visits the changes of a content, except those in its runs. A prepared transaction changes no
/// catalog record and brings no pages.
pub(in crate::db) fn each_change(
    engine: &Engine,
    xid: &Xid,
    Content { body, has_runs, .. }: &Content,
    mut each: impl FnMut(TreeChange<'_>),
) -> Result<()> {
    let mut items = wal::items(Lsn(0), body).with_counts();
    // Runs are accepted only at the start.
    let mut is_head = *has_runs;
    let in_piece = |error: Error| malformed(engine, format!("{xid}: {error}"));
    while let Some(item) = items.next().map_err(in_piece)? {
        match item {
            Item::Entry { tree, key, tag, payload } if tree != CATALOG_TREE => {
                each(TreeChange::Entry(tree, key, tag, payload));
            }
            Item::Rows { tree, more } if tree != CATALOG_TREE => {
                each(TreeChange::Rows(tree, more));
            }
            Item::DeleteRange { tree, from, to } if tree != CATALOG_TREE => {
                each(TreeChange::DeleteRange(tree, from, to));
            }
            Item::Runs { tree, .. } if tree != CATALOG_TREE && is_head => continue,
            Item::Extent(_) => {}
            _ => return Err(malformed(engine, format!("{xid} does what none can"))),
        }
        is_head = false;
    }
    Ok(())
}

/// Holds the long values of a content. Also returns how many it names; missing ones are left out,
/// because a transaction that was decided after the boundary does not need them.
fn hold_blobs(
    engine: &Engine,
    Content { body, has_runs, .. }: &Content,
) -> Result<(Vec<Arc<BlobHold>>, usize)> {
    let (store, mut holds, mut named) = (&engine.store, Vec::new(), 0);
    let mut items = wal::items(Lsn(0), body);
    while let Some(item) = items.next()? {
        let extent = match item {
            // These include the values of entries in runs.
            Item::Extent(extent) => extent_of(store, extent)?,
            Item::Entry { tag, payload, .. } if tag.kind() == Kind::PutBlob && !has_runs => {
                BlobRef::read(store.file(), payload)?.extent()
            }
            _ => continue,
        };
        holds.extend(BlobHold::if_written(store, extent));
        named += 1;
    }
    Ok((holds, named))
}

/// Holds the long values of a content that is, or may be, committed: all of them must exist.
pub(in crate::db) fn blobs_of(
    engine: &Engine,
    xid: &Xid,
    content: &Content,
) -> Result<Vec<Arc<BlobHold>>> {
    let (blobs, named) = hold_blobs(engine, content)?;
    if blobs.len() < named {
        return Err(malformed(engine, format!("a long value of {xid} is not there")));
    }
    Ok(blobs)
}

/// Visits the runs that a body names, newest first for each tree.
fn each_runs(
    engine: &Engine,
    xid: &Xid,
    body: &[u8],
    mut each: impl FnMut(TreeId, &[[u8; LINK_BYTES]]) -> Result<()>,
) -> Result<()> {
    let mut items = wal::items(Lsn(0), body);
    let in_piece = |error: Error| malformed(engine, format!("{xid}: {error}"));
    while let Some(Item::Runs { tree, links }) = items.next().map_err(in_piece)? {
        each(tree, links)?;
    }
    Ok(())
}

/// Holds the runs of a content, as far as there are extents that may be theirs.
fn hold_runs(engine: &Engine, xid: &Xid, content: &Content) -> Result<Option<Arc<HeldPages>>> {
    if !content.has_runs || plant!("db: runs of what is prepared are not held again") {
        return Ok(None);
    }
    let mut held = HeldPages::new(&engine.store, VersionNumber(0), STORE_LINEAGE);
    each_runs(engine, xid, &content.body, |_, links| {
        for Link { offset, bytes, .. } in links.iter().map(Link::from_disk) {
            held.hold_if_named(Extent { offset, bytes });
        }
        Ok(())
    })?;
    Ok(Some(Arc::new(held)))
}

/// The runs of a content that is, or may be, committed: all of them must exist.
pub(in crate::db) fn runs_of(
    engine: &Engine,
    xid: &Xid,
    content: &Content,
) -> Result<Option<Change>> {
    if !content.has_runs {
        return Ok(None);
    }
    let mut spilled = SpilledWrites::default();
    each_runs(engine, xid, &content.body, |tree, links| {
        let links: Vec<Link> = links.iter().map(Link::from_disk).collect();
        let Some(first) = links.first() else { return Ok(()) };
        let mut pages = HeldPages::new(&engine.store, first.birth, first.lineage);
        for &Link { offset, bytes, .. } in &links {
            if !pages.hold_if_named(Extent { offset, bytes }) {
                return Err(malformed(engine, format!("a run of {xid} is not there")));
            }
        }
        let runs = SortedRuns::on_disk(&engine.cx, &links, pages)?;
        spilled.push_older(tree, Arc::new(runs));
        Ok(())
    })?;
    Ok(Some(Change::Spill(Arc::new(spilled))))
}

fn read(engine: &Engine, pieces: &Pieces, xid: &Xid) -> Result<Found> {
    let content = content_of(engine, pieces, xid)?;
    let spilled = runs_of(engine, xid, &content)?;
    let blobs = blobs_of(engine, xid, &content)?;
    let mut payload = CommitPayload::default();
    let CommitPayload { writes, rows, .. } = &mut payload;
    each_change(engine, xid, &content, |change| match change {
        TreeChange::Rows(tree, more) => rows.push((tree, more)),
        TreeChange::Entry(tree, key, tag, payload) => {
            writes.push(tree, key, tag, &[payload], false);
        }
        TreeChange::DeleteRange(tree, from, to) => writes.push_range(tree, from, to),
    })?;
    // Trees whose rows are all in runs come last.
    rows.sort_unstable_by_key(|(tree, _)| *tree);
    // It was sealed when it was written: in order, one message per key.
    payload.writes.seal(&engine.cx.folder())?;
    payload.trees = payload.writes.trees();
    payload.relieves = payload.writes.only_deletes() && spilled.is_none();
    engine.make_runs(&mut payload);
    for number in 0..pieces.count(xid) {
        let key = Record::prepared_key(xid, number);
        payload.decided.push(CATALOG_TREE, &key, Tag::DELETE, &[], false);
    }
    let Content { since, locks, .. } = content;
    let mut memory = MemoryReservation::default();
    memory.set(&engine.writes_memory, payload.writes.memory_bytes() as u64);
    memory.pin();
    let prepared = Prepared {
        xid: xid.clone(),
        since,
        payload: Arc::new(payload),
        spilled,
        blobs,
        admitted: 0,
        guaranteed: None,
        locks: None,
        live: Arc::default(),
        memory,
        entered: Vec::new(),
    };
    let locks = locks.filter(|_| !plant!("db: what is prepared has not all its locks again"));
    Ok(Found { prepared, locks })
}

/// The transactions that will be prepared once the log is replayed: number of pieces by name.
#[derive(Default)]
pub(in crate::db) struct Expected(BTreeMap<Xid, usize>);

impl Expected {
    /// The prepared transactions of the catalog at the boundary.
    pub fn at_boundary(pieces: &Pieces) -> Self {
        Self(pieces.xids().map(|xid| (xid.clone(), pieces.count(xid) as usize)).collect())
    }

    /// Notes a put or delete of a catalog record after the boundary.
    pub fn learn(&mut self, key: &[u8], is_put: bool) {
        let Some((xid, _)) = Record::prepared_of_key(key) else { return };
        match (self.0.get_mut(&xid), is_put) {
            (Some(pieces), true) => *pieces += 1,
            (None, true) => drop(self.0.insert(xid, 1)),
            (Some(pieces), false) if *pieces > 1 => *pieces -= 1,
            (Some(_), false) => drop(self.0.remove(&xid)),
            (None, false) => {}
        }
    }

    /// Upper bounds for the lengths of their commit records.
    pub fn commits(&self) -> impl Iterator<Item = usize> {
        let mut record = RecordBuilder::new();
        self.0.iter().map(move |(xid, &pieces)| {
            record.clear();
            record.prepared(xid.as_bytes(), Seqno(u64::MAX));
            record.tree(CATALOG_TREE);
            for number in 0..pieces as u32 {
                record.entry(&Record::prepared_key(xid, number), Tag::DELETE, &[]);
            }
            record.bytes() + TRAILER_BYTES
        })
    }
}

impl Shared {
    /// Makes them take their locks again and wait for their decisions. Returns the number of those
    /// for whose commits there is no log space.
    pub(in crate::db) fn adopt_prepared(&self, found: Vec<Found>) -> Result<usize> {
        let (mut others, mut without_room) = (Vec::new(), 0);
        for Found { mut prepared, locks } in found {
            self.lock_again(&mut prepared, locks, &others)?;
            others.extend(prepared.spilled.as_ref().and_then(Change::spilled).cloned());
            if !self.lifecycle.read_only {
                let has_room = self.guarantee_again(&mut prepared);
                let has_room = has_room.inspect_err(|_| self.release_locks(&mut prepared))?;
                without_room += usize::from(!has_room);
            }
            self.sessions.prepared.add_recovered(Box::new(prepared));
        }
        Ok(without_room)
    }

    /// Reserves space for its commit again. If the disk has no space for what it writes, the
    /// store's reserve covers that. If there is no log space for its record, other commits are
    /// refused until there is some (Rule: I41); then returns false.
    fn guarantee_again(&self, prepared: &mut Prepared) -> Result<bool> {
        let (engine, writes) = (&*self.engine, &prepared.payload.writes);
        let spilled = prepared.spilled.as_ref().and_then(Change::spilled);
        let bytes = writes.bytes() as u64 + spilled.map_or(0, |spilled| spilled.bytes());
        match engine.admit(bytes) {
            Ok(()) => prepared.admitted = bytes,
            Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
        let bytes = self.commit_bytes(prepared);
        let guaranteed = engine.health.watch(engine.log().guarantee_ahead(bytes))?;
        // If that is refused, which happens only if the log has unusually short segments, the
        // transaction reserves its place at the commit like any other.
        prepared.guaranteed = guaranteed.is_ok().then_some(bytes);
        Ok(guaranteed.unwrap_or(false))
    }

    /// Takes its locks again. `others`: spilled writes of those that have their locks
    /// already.
    fn lock_again(
        &self,
        prepared: &mut Prepared,
        list: Option<LockList>,
        others: &[Arc<SpilledWrites>],
    ) -> Result<()> {
        let number = self.next_txn();
        let payload = prepared.payload.clone();
        self.locking.gate.close(|| true);
        let list = list.unwrap_or_default();
        let refused = |_| {
            let why = format!("{} has locks that another has, too", prepared.xid);
            malformed(&self.engine, why)
        };
        let restored = self.locking.table.restore(number, &list).map_err(refused);
        let mut locks = restored.inspect_err(|_| self.locking.gate.open())?;
        locks.owner().set_writes(prepared.entries() as u64);
        let now = crate::txn::lock_table::WaitPolicy::NoWait;
        let (table, mut taken, mut unread) = (&self.locking.table, Ok(()), Ok(()));
        'trees: for &tree in &payload.trees {
            let is_alone = payload.writes.ranges(tree).next().is_some();
            let mode = if is_alone { TableMode::Exclusive } else { TableMode::IntentExclusive };
            taken = table.lock_table(&mut locks, tree, mode, now).map(drop);
            for entry in payload.writes.entries(tree) {
                if plant!("db: prepared rows are not locked again") {
                    continue;
                }
                if taken.is_err() {
                    break 'trees;
                }
                taken = table.lock_row(&mut locks, tree, entry.key, RowMode::Write, now).map(drop);
                if taken.is_err() {
                    // A run that cannot be read counts as holding the row; then that read error is
                    // returned instead.
                    let mut others = others.iter();
                    unread = others.try_for_each(|other| self.can_tell(other, tree, entry.key));
                }
            }
        }
        let live = Arc::new(LiveWrites::new(number));
        {
            let mut own = live.lock();
            own.seal(&self.engine.cx.folder())?;
            own.gone_to(payload.clone());
        }
        let mut trees = payload.trees.clone();
        if let Some(spilled) = prepared.spilled.as_ref().and_then(Change::spilled) {
            for tree in spilled.trees() {
                let mode = TableMode::IntentExclusive;
                let locked = table.lock_table(&mut locks, tree, mode, now);
                taken = taken.and(locked.map(drop));
            }
            trees.extend(spilled.trees());
            trees.sort_unstable();
            trees.dedup();
            live.lock().has_left_memory(spilled.clone());
            if !plant!("db: prepared rows are not locked again") {
                let rows = rows_beyond_memory(&self.engine, &live);
                table.spill(&mut locks, rows, Leaving::Unknown);
            }
        }
        for entry in trees.iter().filter_map(|&tree| self.catalog.by_id(tree)) {
            entry.writers.enter(&live);
            prepared.entered.push(entry);
        }
        (prepared.locks, prepared.live) = (Some(locks), live);
        if taken.is_err() {
            self.release_locks(prepared);
            unread?;
            let why = format!("{} writes a row that another does, too", prepared.xid);
            return Err(malformed(&self.engine, why));
        }
        Ok(())
    }
}

impl Shared {
    /// Fails if these writes cannot be searched for a key.
    fn can_tell(&self, writes: &SpilledWrites, tree: TreeId, key: &[u8]) -> Result<()> {
        let mut runs = writes.of(tree).iter();
        runs.try_for_each(|runs| {
            runs.get(&self.engine.cx, key, &ColumnSelection::Nothing).map(drop)
        })
    }
}

fn file(engine: &Engine) -> &std::path::Path {
    engine.store.file().path()
}

fn malformed(engine: &Engine, why: String) -> Error {
    let place = Place { file: file(engine).to_owned(), offset: 0, bytes: 0 };
    Error::Malformed { place, what: "prepared transaction", why }
}

impl Pieces {
    /// Adds or removes a piece of a prepared transaction, from a record of the catalog at the
    /// boundary or of the log after it. True if `key` belongs to such a record.
    pub(in crate::db) fn learn(
        &mut self,
        engine: &Engine,
        (key, value): (&[u8], Option<&[u8]>),
        is_replayed: bool,
    ) -> Result<bool> {
        let Some((xid, number)) = Record::prepared_of_key(key) else { return Ok(false) };
        match value.map(|value| Record::decode(key, value)) {
            None => {
                if self.delete(key) {
                    engine.in_doubt.release(&xid);
                }
            }
            Some(Ok(Record::Prepared(piece))) if (&piece.xid, piece.number) == (&xid, number) => {
                self.put(piece);
                // At the boundary, the extents that the log names are not claimed yet.
                if is_replayed && self.is_whole(&xid) {
                    self.hold(engine, &xid)?;
                }
            }
            Some(Ok(_)) => return Err(malformed(engine, format!("{xid} is another record"))),
            Some(Err(flaw)) => return Err(flaw.at(file(engine))),
        }
        Ok(true)
    }

    /// Holds the long values and runs of all transactions prepared at the boundary, after the log
    /// was surveyed. A store that is open read-only frees nothing, so nothing need be held.
    pub(in crate::db) fn hold_all(&self, engine: &Engine) -> Result<()> {
        if engine.log.is_none() {
            return Ok(());
        }
        self.xids().try_for_each(|xid| self.hold(engine, xid))
    }

    fn hold(&self, engine: &Engine, xid: &Xid) -> Result<()> {
        let content = content_of(engine, self, xid)?;
        let blobs = hold_blobs(engine, &content)?.0;
        let runs = hold_runs(engine, xid, &content)?;
        engine.in_doubt.keep(xid, HeldExtents { blobs, runs });
        Ok(())
    }
}
