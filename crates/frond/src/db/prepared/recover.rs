//! What is prepared, when a store is opened: from the catalog's pieces to transactions that hold their locks.
//!
//! Pieces are learnt from the catalog at the boundary, then from the log as it is replayed; long values are held from
//! there on. What is left at the end is made ready ([`recover`]), and takes its rows again once there is a lock table
//! ([`Shared::adopt_prepared`]), before anybody else is there.
//!
//! Threads: the one that opens the store.

use super::{
    Prepared,
    form::{self, Content},
};
use crate::{
    Error, Lsn, Place, Result, TreeId, Xid,
    blob::{BlobHold, BlobRef},
    catalog::{CATALOG_TREE, Pieces, Record},
    message::{Kind, Tag},
    pipeline::{Engine, Insertion},
    sync::Arc,
    txn::{
        LiveWrites,
        lock_table::{LockList, RowMode, TableMode},
    },
    wal::{self, Item},
};

use super::super::Shared;

/// One that was found.
pub(in crate::db) struct Found {
    prepared: Prepared,
    /// All its locks, if they are more than those of the rows it writes.
    locks: Option<LockList>,
}

/// Reads all that is prepared, and holds the long values.
pub(in crate::db) fn recover(engine: &Engine, pieces: &Pieces) -> Result<Vec<Found>> {
    pieces.xids().map(|xid| read(engine, pieces, xid)).collect()
}

/// The content of what is prepared under a name.
pub(in crate::db) fn content_of(engine: &Engine, pieces: &Pieces, xid: &Xid) -> Result<Content> {
    let content = pieces.content(xid);
    let content =
        content.ok_or_else(|| malformed(engine, format!("a piece of {xid} is missing")))?;
    form::read(&content)
        .map_err(|flaw| malformed(engine, format!("{xid}: {}", flaw.at(file(engine)))))
}

/// One thing that what is prepared does.
pub(in crate::db) enum TreeChange<'a> {
    /// By how much the number of rows changes, before what is done to the tree.
    Rows(TreeId, i64),
    Entry(TreeId, &'a [u8], Tag, &'a [u8]),
    DeleteRange(TreeId, &'a [u8], &'a [u8]),
}

/// Goes through what a body does; no prepared transaction changes the catalog, or brings pages.
pub(in crate::db) fn each_change(
    engine: &Engine,
    xid: &Xid,
    body: &[u8],
    mut each: impl FnMut(TreeChange<'_>),
) -> Result<()> {
    let mut items = wal::items(Lsn(0), body).with_counts();
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
            _ => return Err(malformed(engine, format!("{xid} does what none can"))),
        }
    }
    Ok(())
}

/// Holds the long values of what is prepared under a name. Those that are gone are left out: of a transaction that was
/// decided behind the boundary, nobody needs them. Says, too, how many there should be.
fn hold_blobs(engine: &Engine, body: &[u8]) -> Result<(Vec<Arc<BlobHold>>, usize)> {
    let (store, mut holds, mut named) = (&engine.store, Vec::new(), 0);
    let mut items = wal::items(Lsn(0), body);
    while let Some(item) = items.next()? {
        if let Item::Entry { tag, payload, .. } = item
            && tag.kind() == Kind::PutBlob
        {
            let extent = BlobRef::read(store.file(), payload)?.extent();
            holds.extend(BlobHold::if_written(store, extent));
            named += 1;
        }
    }
    Ok((holds, named))
}

fn read(engine: &Engine, pieces: &Pieces, xid: &Xid) -> Result<Found> {
    let Content { since, locks, body } = content_of(engine, pieces, xid)?;
    let mut insertion = Insertion::default();
    let Insertion { writes, rows, .. } = &mut insertion;
    each_change(engine, xid, &body, |change| match change {
        TreeChange::Rows(tree, more) => rows.push((tree, more)),
        TreeChange::Entry(tree, key, tag, payload) => {
            writes.push(tree, key, tag, &[payload], false);
        }
        TreeChange::DeleteRange(tree, from, to) => writes.push_range(tree, from, to),
    })?;
    // It was sealed when it was written: in order, one message a key.
    insertion.writes.seal(&engine.cx.folder())?;
    insertion.trees = insertion.writes.trees();
    engine.make_runs(&mut insertion);
    for number in 0..pieces.count(xid) {
        let key = Record::prepared_key(xid, number);
        insertion.decided.push(CATALOG_TREE, &key, Tag::DELETE, &[], false);
    }
    let (blobs, named) = hold_blobs(engine, &body)?;
    if blobs.len() < named {
        return Err(malformed(engine, format!("a long value of {xid} is not there")));
    }
    let prepared = Prepared {
        xid: xid.clone(),
        since,
        insertion: Arc::new(insertion),
        blobs,
        admitted: 0,
        promised: None,
        locks: None,
        live: Arc::default(),
        entered: Vec::new(),
    };
    let locks = locks.filter(|_| !plant!("db: what is prepared has not all its locks again"));
    Ok(Found { prepared, locks })
}

impl Shared {
    /// They take their locks again, and wait for their decisions.
    pub(in crate::db) fn adopt_prepared(&self, found: Vec<Found>) -> Result<()> {
        for Found { mut prepared, locks } in found {
            self.lock_again(&mut prepared, locks)?;
            if !self.read_only
                && let Err(error) = self.promise_again(&mut prepared)
            {
                self.give_locks_back(&mut prepared);
                return Err(error);
            }
            self.prepared.add_recovered(Box::new(prepared));
        }
        Ok(())
    }

    /// Room for its commit, on the disk and in the log; where there is none, the commit makes do with the reserve,
    /// and asks for a place in the log as others do.
    fn promise_again(&self, prepared: &mut Prepared) -> Result<()> {
        let (engine, writes) = (&*self.engine, &prepared.insertion.writes);
        let bytes = if writes.only_deletes() { 0 } else { writes.bytes() as u64 };
        match engine.admit(bytes).and_then(|()| {
            prepared.admitted = bytes;
            self.promise_room(prepared)
        }) {
            Err(Error::Full(_)) => Ok(()),
            promised => promised,
        }
    }

    fn lock_again(&self, prepared: &mut Prepared, list: Option<LockList>) -> Result<()> {
        let number = self.next_txn();
        let insertion = prepared.insertion.clone();
        self.gate.close(|| true);
        let list = list.unwrap_or_default();
        let refused = |_| {
            let why = format!("{} has locks that another has, too", prepared.xid);
            malformed(&self.engine, why)
        };
        let restored = self.lock_table.restore(number, &list).map_err(refused);
        let mut locks = restored.inspect_err(|_| self.gate.open())?;
        locks.owner().set_writes(insertion.writes.len() as u64);
        let now = crate::txn::lock_table::Patience::NoWait;
        let (table, mut taken) = (&self.lock_table, Ok(()));
        'trees: for &tree in &insertion.trees {
            let is_alone = insertion.writes.ranges(tree).next().is_some();
            let mode = if is_alone { TableMode::Exclusive } else { TableMode::IntentExclusive };
            taken = table.lock_table(&mut locks, tree, mode, now).map(drop);
            for entry in insertion.writes.entries(tree) {
                if plant!("db: prepared rows are not locked again") {
                    continue;
                }
                if taken.is_err() {
                    break 'trees;
                }
                taken = table.lock_row(&mut locks, tree, entry.key, RowMode::Write, now).map(drop);
            }
        }
        let live = Arc::new(LiveWrites::new(number));
        {
            let mut own = live.lock();
            own.seal(&self.engine.cx.folder())?;
            own.gone_to(insertion.clone());
        }
        for entry in insertion.trees.iter().filter_map(|&tree| self.catalog.by_id(tree)) {
            entry.writers.enter(&live);
            prepared.entered.push(entry);
        }
        (prepared.locks, prepared.live) = (Some(locks), live);
        if taken.is_err() {
            self.give_locks_back(prepared);
            let why = format!("{} writes a row that another does, too", prepared.xid);
            return Err(malformed(&self.engine, why));
        }
        Ok(())
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
    /// Adds what the catalog says at the boundary, or the log behind it, of what is prepared; true if `key` is such a
    /// record's.
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
                    engine.undecided.release(&xid);
                }
            }
            Some(Ok(Record::Prepared(piece))) if (&piece.xid, piece.number) == (&xid, number) => {
                self.put(piece);
                // At the boundary, nothing was claimed yet that the log names.
                if is_replayed && self.is_whole(&xid) {
                    self.hold_blobs(engine, &xid)?;
                }
            }
            Some(Ok(_)) => return Err(malformed(engine, format!("{xid} is another record"))),
            Some(Err(flaw)) => return Err(flaw.at(file(engine))),
        }
        Ok(true)
    }

    /// Holds the long values of all that is prepared at the boundary, once the log was looked through. A store that
    /// is read alone gives nothing up that would have to be held.
    pub(in crate::db) fn hold_all(&self, engine: &Engine) -> Result<()> {
        if engine.log.is_none() {
            return Ok(());
        }
        self.xids().try_for_each(|xid| self.hold_blobs(engine, xid))
    }

    fn hold_blobs(&self, engine: &Engine, xid: &Xid) -> Result<()> {
        let Content { body, .. } = content_of(engine, self, xid)?;
        engine.undecided.keep(xid, hold_blobs(engine, &body)?.0);
        Ok(())
    }
}
