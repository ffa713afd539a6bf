//! Preparing a transaction: the first of the two phases of a commit that several stores, or a server's log, have in
//! common.
//!
//! Whatever can fail does so here (Rule: I41): the writes are sealed, their disk space is promised, long values are
//! synced, and what the commit will do is put into the catalog by a commit of its own (Rule: I12).
//!
//! Invariant: what was prepared can be committed without asking anybody for anything but a place in the log.

use std::collections::HashSet;

use crate::{
    Durability, Error, Result, Tag, TreeId, Xid, bounds,
    catalog::{CATALOG_TREE, pieces},
    pipeline::{Insertion, Needs},
    sync::Arc,
    txn::lock_table::{LockList, LockTable},
    version::Change,
    wal::{PromiseRefused, RecordBuilder},
};

use super::{
    super::{
        commit::build_record,
        prepared::{Prepared, PreparedTxn, content},
    },
    Isolation, State, Txn,
    spill::Heeds,
};

/// What a record of the log needs beside the content of what is prepared: keys and heads of its pieces.
fn record_room() -> u64 {
    bounds::RECORD_BYTES.max() / 32
}

impl Txn {
    /// Makes everything written durable under a name, undecided: it survives a crash with the rows it writes
    /// locked, until it is committed or rolled back, here or by that name. Synced when it returns.
    ///
    /// It may be of any size: what is too much for memory is on disk before.
    ///
    /// Locks of rows that it has only read, and of gaps, go; but at `Serializable` they stay. What it has written to temporary
    /// trees stays there, whatever is decided.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::Xid;
    ///
    /// let tree = db.create_tree("accounts", Default::default())?;
    /// let txn = db.begin(Default::default())?;
    /// txn.put(&tree, b"ada", b"70")?;
    /// txn.prepare(&Xid::new(b"transfer 1")?)?.detach();
    /// assert_eq!(tree.get(b"ada")?, None);
    ///
    /// db.commit_prepared(&Xid::new(b"transfer 1")?)?;
    /// assert_eq!(tree.get(b"ada")?.as_deref(), Some(&b"70"[..]));
    /// # db.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// All is rolled back with `XidExists`, `NoSuchTree` if a tree was dropped, `Full`, `BatchTooLarge`, `TooMuchPrepared`,
    /// `ReadOnly`, `Closed`, and with `Interrupted` if it was asked to stop before it has its place in the log. `TxnEnded`. `Failed`, `OutcomeUnknown`: the store has stopped; it may be prepared.
    pub fn prepare(self, xid: &Xid) -> Result<PreparedTxn> {
        self.prepare_with(xid, Durability::Sync)
    }

    /// The same at a durability of its own: for a coordinator that syncs by itself, or loses nothing by a
    /// transaction that is gone.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_with(self, xid: &Xid, level: Durability) -> Result<PreparedTxn> {
        let mut state = self.state.lock().unwrap();
        if state.is_over {
            return Err(Error::TxnEnded);
        }
        let table = &self.shared.prepared;
        let prepared = table.reserve(xid).and_then(|()| {
            let prepared = self
                .take_room(&mut state, xid)
                .and_then(|()| self.prepare_writes(&mut state, xid, level));
            prepared.inspect_err(|error| {
                // Of one whose outcome nobody knows, the name stays taken.
                if !matches!(error, Error::OutcomeUnknown(_)) {
                    self.shared.engine.undecided.release(xid);
                    table.forget(xid);
                }
            })
        });
        if prepared.is_err() {
            self.end(&mut state);
        }
        let prepared = prepared?;
        table.note(xid, prepared.since, prepared.entries());
        // They are the session's, which a prepared transaction outlives.
        state.keep_temporary();
        state.is_over = true;
        self.release_snapshot(state.snapshot.take());
        Ok(PreparedTxn::new(self.shared.store(), prepared))
    }

    /// Takes memory for what is not beyond it yet. A good part leaves it, and so does what finds no room beside all that is
    /// prepared already: nobody knows when that is decided.
    fn take_room(&self, state: &mut State, xid: &Xid) -> Result<()> {
        let shared = &*self.shared;
        let max = shared.engine.memtables_bytes_max();
        let (bytes, only_deletes) = {
            let own = self.live.lock();
            (own.commit_bytes() as u64, own.only_deletes())
        };
        // Deletes need no disk as long as they need not leave (Rule: I24).
        let is_large =
            self.is_large(bytes) && !only_deletes || bytes > bounds::RECORD_BYTES.max() / 2;
        if bytes == 0 || !is_large && shared.prepared.take_room(xid, bytes, max) {
            return Ok(());
        }
        shared.check_writable()?;
        if !only_deletes {
            shared.engine.admit(bytes)?;
            shared.engine.store.settle_admitted(bytes);
        }
        self.leave_memory(state, Heeds::Interrupts)
    }

    fn prepare_writes(&self, state: &mut State, xid: &Xid, level: Durability) -> Result<Prepared> {
        let shared = &*self.shared;
        let mut prepared = Prepared {
            xid: xid.clone(),
            since: shared.engine.sequencer.visible(),
            insertion: Arc::default(),
            spilled: None,
            blobs: Vec::new(),
            admitted: 0,
            promised: None,
            locks: None,
            live: self.live.clone(),
            memory: Default::default(),
            entered: Vec::new(),
        };
        if !self.is_empty() {
            self.put_pieces(state, &mut prepared, level)?;
        }
        let keeps_all = self.options.isolation == Isolation::Serializable;
        if let Some(locks) = state.locks.as_mut().filter(|_| !keeps_all) {
            // What savepoints took back is not its any more, neither the rows nor the space; nor is what was never written.
            let may_differ = state.rollbacks_made > 0
                || state.locks_unwritten
                    && !plant!("txn: a prepare keeps rows that it does not write");
            let written = may_differ.then(|| rows_of(&prepared.insertion));
            shared.lock_table.release_at_prepare(locks, |tree, hash| {
                written.as_ref().is_none_or(|written| written.contains(&(tree, hash)))
            });
            self.live.lock().forget_dropped();
            if written.is_some() {
                shared.lock_table.answers_for_fewer(locks);
            }
        }
        prepared.locks = state.locks.take();
        prepared.memory = std::mem::take(&mut state.memory);
        prepared.memory.pin();
        prepared.entered.append(&mut state.entered);
        Ok(prepared)
    }

    /// What the transaction writes goes to where its commit takes it from, and into the catalog.
    fn put_pieces(&self, state: &State, prepared: &mut Prepared, level: Durability) -> Result<()> {
        let shared = &*self.shared;
        let engine = &*shared.engine;
        shared.check_writable()?;
        state.entered.iter().try_for_each(|tree| tree.check())?;
        let (bytes, only_deletes) = {
            let own = self.live.lock();
            (own.commit_bytes() as u64, own.only_deletes())
        };
        engine.pace(self.paced(state, only_deletes), &|| state.must_go_on())?;
        let is_spilled = self.live.lock().is_spilled();
        let (spilled, spilled_bytes) = match is_spilled {
            true => self.spilled_change(state).map(|(change, bytes)| (Some(change), bytes))?,
            false => (None, 0),
        };
        let _turn = engine.make_room(bytes, &|| state.must_go_on())?;
        let keeps_all = self.options.isolation == Isolation::Serializable;
        let list = state.locks.as_ref().and_then(|locks| {
            let table = &shared.lock_table;
            if keeps_all {
                return Some(table.list(locks));
            }
            // The rows that it writes it has again by themselves.
            let tables = table.whole_trees(locks);
            (!tables.is_empty()).then(|| LockList { tables, ..LockList::default() })
        });
        let mut rows = Insertion { relieves: only_deletes, ..Insertion::default() };
        {
            let mut own = self.live.lock();
            own.seal(&engine.cx.folder())?;
            prepared
                .blobs
                .extend(own.pieces().iter().flat_map(|piece| piece.blobs.iter().cloned()));
            prepared.blobs.extend(own.blobs().cloned());
            shared.separate(own.sealed(), &mut prepared.blobs)?;
            let mut decided = Insertion::default();
            std::mem::swap(&mut decided.writes, own.sealed());
            decided.trees = decided.writes.trees();
            decided.rows.extend(own.row_deltas());
            // With the pieces: what it has used is nobody else's from here on.
            let written = state.entered.iter().map(|tree| tree.id);
            shared.list_counters(written, &mut rows.counters);
            prepared.spilled = spilled;
            let cut = cut(&decided, prepared, list.as_ref(), &mut rows);
            if let Err(error) = cut {
                // Its rows stay pending until it has ended.
                std::mem::swap(&mut decided.writes, own.sealed());
                return Err(error);
            }
            for piece in rows.writes.entries(CATALOG_TREE) {
                decided.decided.push(CATALOG_TREE, piece.key, Tag::DELETE, &[], false);
            }
            engine.make_runs(&mut decided);
            prepared.insertion = Arc::new(decided);
            own.gone_to(prepared.insertion.clone());
        }
        // Its commit is to meet no disk that is at rest.
        let bytes = prepared.insertion.writes.bytes() as u64 + spilled_bytes;
        let bytes = if only_deletes { 0 } else { bytes };
        match bytes {
            0 => engine.store.end_rest()?,
            _ => engine.admit(bytes)?,
        }
        prepared.admitted = bytes;
        let put = shared.promise_room(prepared).and_then(|promised| {
            // Its commit could fail, or wait for a disk (Rule: I41).
            promised.map_err(beyond)?;
            let spilled = prepared.spilled.as_ref().and_then(Change::spilled);
            let runs = spilled.map(|spilled| Arc::new(spilled.hold_pages(&engine.store)));
            let named = runs.clone().map(Change::Prepare);
            let blobs = prepared.blobs.clone();
            engine.undecided.keep(&prepared.xid, Needs { blobs, runs });
            let (rows, named) = (Arc::new(rows), named.as_slice());
            shared.commit_insertion(&rows, &prepared.blobs, level, named, ())
        });
        put.map(drop).inspect_err(|_| shared.end_promises(prepared))
    }
}

/// The rows that these writes change, as the table of locks knows them.
fn rows_of(Insertion { writes, trees, .. }: &Insertion) -> HashSet<(TreeId, u128)> {
    let of =
        |tree| writes.entries(tree).map(move |entry| (tree, LockTable::row_hash(tree, entry.key)));
    trees.iter().flat_map(|&tree| of(tree)).collect()
}

/// What a promise comes to that the log has refused.
fn beyond(PromiseRefused { bytes, max, is_alone }: PromiseRefused) -> Error {
    match is_alone {
        true => {
            let limit = "the room that the log keeps for the commit of one that is prepared";
            Error::BatchTooLarge { bytes, max, limit }
        }
        false => {
            let limit = "the room that the log keeps for the commits of all that is prepared";
            Error::TooMuchPrepared { bytes, max, limit }
        }
    }
}

/// Makes the rows of the catalog in which a transaction is prepared that does this.
fn cut(
    insertion: &Insertion,
    Prepared { xid, since, spilled, blobs, .. }: &Prepared,
    locks: Option<&LockList>,
    rows: &mut Insertion,
) -> Result<()> {
    let mut record = RecordBuilder::new();
    // Whoever finds it knows the long values of runs by this alone.
    let blobs = if spilled.is_some() { &blobs[..] } else { &[] };
    build_record(&mut record, insertion, blobs, spilled.as_slice());
    let content = content(*since, locks, (record.finish(), spilled.is_some()));
    let (bytes, max) = (content.len() as u64, bounds::RECORD_BYTES.max() - record_room());
    if bytes > max {
        bounds::RECORD_BYTES.reached();
        return Err(Error::BatchTooLarge { bytes, max, limit: "the log" });
    }
    for row in pieces(xid, &content) {
        let (key, value) = row?;
        rows.writes.push(CATALOG_TREE, &key, Tag::PUT_FRESH, &[&value], false);
    }
    rows.trees.push(CATALOG_TREE);
    Ok(())
}
