//! Preparing a transaction: the first phase of a two-phase commit, across several stores or with a
//! server's log.
//!
//! Everything that can fail, fails here (Rule: I41): the writes are sealed, their disk space is
//! reserved, long values are synced, and what the commit will do is put into the catalog by a
//! commit of its own (Rule: I12).
//!
//! Invariant: a prepared transaction can be committed with nothing but a place in the log, which is
//! reserved.

use std::collections::HashSet;

use crate::{
    Durability, Error, Result, TreeId, bounds,
    catalog::{CATALOG_TREE, pieces},
    db::{
        commit::{PendingCommit, write_record},
        session::prepared::{Prepared, PreparedTxn, content},
    },
    message::Tag,
    pipeline::{CommitPayload, HeldExtents},
    sync::Arc,
    txn::lock_table::{LockList, LockTable},
    types::Xid,
    version::Change,
    wal::{GuaranteeRefused, RecordBuilder},
};

use super::{Isolation, State, Txn, write_buffer::Cancellable};

/// Bytes that a log record needs in addition to the prepared content: keys and heads of its pieces.
fn record_room() -> u64 {
    bounds::RECORD_BYTES.max() / 32
}

impl Txn {
    /// Makes everything that was written durable under a name, without deciding it: it survives a
    /// crash, with the rows that it writes locked, until it is committed or rolled back, here or by
    /// that name. Synced when this returns.
    ///
    /// The transaction may have any size: what does not fit in memory is spilled before.
    ///
    /// Locks of rows that it has only read, and of gaps, are released, except at `Serializable`.
    /// What it has written to temporary trees stays there, whatever is decided.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// use frond::transaction::Xid;
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
    /// The transaction is rolled back with `XidExists`, `NoSuchTree` if a tree was dropped, `Full`,
    /// `BatchTooLarge`, `TooMuchPrepared`, `ReadOnly`, `Closed`, and with `Interrupted` if it was
    /// cancelled before it has its place in the log. `TxnEnded`. `Failed`, `OutcomeUnknown`: the
    /// store has stopped; it may be prepared.
    pub fn prepare(self, xid: &Xid) -> Result<PreparedTxn> {
        self.prepare_with(xid, Durability::Sync)
    }

    /// Prepares, like [`prepare`](Self::prepare), at the given durability: for a coordinator that
    /// syncs by itself, or that can afford to lose the transaction.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn prepare_with(self, xid: &Xid, level: Durability) -> Result<PreparedTxn> {
        let mut state = self.state.lock().unwrap();
        if state.is_over {
            return Err(Error::TxnEnded);
        }
        let table = &self.shared.sessions.prepared;
        let prepared = table.reserve(xid).and_then(|()| {
            let prepared = self
                .take_room(&mut state, xid)
                .and_then(|()| self.prepare_writes(&mut state, xid, level));
            prepared.inspect_err(|error| {
                // If the outcome is unknown, the name stays reserved.
                if !matches!(error, Error::OutcomeUnknown(_)) {
                    self.shared.engine.in_doubt.release(xid);
                    table.forget(xid);
                }
            })
        });
        if prepared.is_err() {
            self.end(&mut state);
        }
        let prepared = prepared?;
        table.note(xid, prepared.since, prepared.entries());
        // Temporary trees belong to the session, which a prepared transaction may outlive.
        state.keep_temporary();
        state.is_over = true;
        self.release_snapshot(state.snapshot.take());
        Ok(PreparedTxn::new(self.shared.store(), prepared))
    }

    /// Reserves memory for writes that are not spilled yet. If they are large, or find no memory
    /// next to all other prepared transactions, they are spilled, because it is unknown when those
    /// transactions will be decided.
    fn take_room(&self, state: &mut State, xid: &Xid) -> Result<()> {
        let shared = &*self.shared;
        let max = shared.engine.memtables_bytes_max();
        let (bytes, only_deletes) = {
            let own = self.buffer.live.lock();
            (own.commit_bytes() as u64, own.only_deletes())
        };
        // Deletes need no disk space while they can stay in memory (Rule: I24).
        let is_large = bytes > self.buffer.bytes_max && !only_deletes
            || bytes > bounds::RECORD_BYTES.max() / 2;
        if bytes == 0 || !is_large && shared.sessions.prepared.take_room(xid, bytes, max) {
            return Ok(());
        }
        shared.check_writable()?;
        if !only_deletes {
            shared.engine.admit(bytes)?;
            shared.engine.store.release_admitted(bytes);
        }
        self.leave_memory(state, Cancellable::Yes)
    }

    fn prepare_writes(&self, state: &mut State, xid: &Xid, level: Durability) -> Result<Prepared> {
        let shared = &*self.shared;
        let mut prepared = Prepared {
            xid: xid.clone(),
            since: shared.engine.sequencer.visible(),
            payload: Arc::default(),
            spilled: None,
            blobs: Vec::new(),
            admitted: 0,
            guaranteed: None,
            locks: None,
            live: self.buffer.live.clone(),
            memory: Default::default(),
            entered: Vec::new(),
        };
        if !self.is_empty() {
            self.put_pieces(state, &mut prepared, level)?;
        }
        let keeps_all = self.options.isolation == Isolation::Serializable;
        if let Some(locks) = state.locks.as_mut().filter(|_| !keeps_all) {
            // Writes that were rolled back to a savepoint no longer belong to the transaction,
            // neither their rows nor their space; nor do rows that were locked but never written.
            let may_differ = state.buffer.marks.rollbacks_made > 0
                || state.locks_unwritten
                    && !plant!("txn: a prepare keeps rows that it does not write");
            let written = may_differ.then(|| rows_of(&prepared.payload));
            shared.locking.table.release_at_prepare(locks, |tree, hash| {
                written.as_ref().is_none_or(|written| written.contains(&(tree, hash)))
            });
            self.buffer.live.lock().forget_dropped();
            if written.is_some() {
                shared.locking.table.answers_for_fewer(locks);
            }
        }
        prepared.locks = state.locks.take();
        prepared.memory = std::mem::take(&mut state.buffer.memory);
        prepared.memory.pin();
        prepared.entered.append(&mut state.entered);
        Ok(prepared)
    }

    /// Moves the transaction's writes to where its commit takes them from, and into the catalog.
    fn put_pieces(&self, state: &State, prepared: &mut Prepared, level: Durability) -> Result<()> {
        let shared = &*self.shared;
        let engine = &*shared.engine;
        shared.check_writable()?;
        state.entered.iter().try_for_each(|tree| tree.check())?;
        let (bytes, only_deletes) = {
            let own = self.buffer.live.lock();
            (own.commit_bytes() as u64, own.only_deletes())
        };
        engine.pace(self.paced(state, only_deletes), &|| state.check_interrupted())?;
        let is_spilled = self.buffer.live.lock().is_spilled();
        let (spilled, spilled_bytes) = match is_spilled {
            true => self.spilled_change(state).map(|(change, bytes)| (Some(change), bytes))?,
            false => (None, 0),
        };
        let _turn = engine.make_room(bytes, &|| state.check_interrupted())?;
        let keeps_all = self.options.isolation == Isolation::Serializable;
        let list = state.locks.as_ref().and_then(|locks| {
            let table = &shared.locking.table;
            if keeps_all {
                return Some(table.list(locks));
            }
            // The locks of rows that it writes are restored from its writes.
            let tables = table.whole_trees(locks);
            (!tables.is_empty()).then(|| LockList { tables, ..LockList::default() })
        });
        let mut rows = CommitPayload { relieves: only_deletes, ..CommitPayload::default() };
        {
            let mut own = self.buffer.live.lock();
            own.seal(&engine.cx.folder())?;
            prepared
                .blobs
                .extend(own.pieces().iter().flat_map(|piece| piece.blobs.iter().cloned()));
            prepared.blobs.extend(own.blobs().cloned());
            shared.separate(own.sealed(), &mut prepared.blobs)?;
            let mut decided = CommitPayload { relieves: only_deletes, ..CommitPayload::default() };
            std::mem::swap(&mut decided.writes, own.sealed());
            decided.trees = decided.writes.trees();
            decided.rows.extend(own.row_deltas());
            // Logged with the pieces: from here on no other transaction gets the numbers that it
            // has used.
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
            prepared.payload = Arc::new(decided);
            own.gone_to(prepared.payload.clone());
        }
        // Admits the commit's disk space now, so that the commit does not lack it if the store was
        // idle and has shrunk meanwhile.
        let bytes = prepared.payload.writes.bytes() as u64 + spilled_bytes;
        prepared.admitted = engine.admit_commit(bytes, only_deletes)?;
        let put = shared.guarantee_space(prepared).and_then(|guaranteed| {
            // Without the reservation its commit could fail, or wait for the disk (Rule: I41).
            guaranteed.map_err(beyond)?;
            let spilled = prepared.spilled.as_ref().and_then(Change::spilled);
            let runs = spilled.map(|spilled| Arc::new(spilled.hold_pages(&engine.store)));
            let named = runs.clone().map(Change::Prepare);
            let blobs = prepared.blobs.clone();
            engine.in_doubt.keep(&prepared.xid, HeldExtents { blobs, runs });
            let (rows, named) = (Arc::new(rows), named.as_slice());
            let commit = PendingCommit::new(&rows, &prepared.blobs, named);
            shared.commit_pending(&commit, level, ())
        });
        put.map(drop).inspect_err(|_| shared.end_guarantee(prepared))
    }
}

/// The rows that these writes change, as the lock table identifies them.
fn rows_of(CommitPayload { writes, trees, .. }: &CommitPayload) -> HashSet<(TreeId, u128)> {
    let of =
        |tree| writes.entries(tree).map(move |entry| (tree, LockTable::row_hash(tree, entry.key)));
    trees.iter().flat_map(|&tree| of(tree)).collect()
}

/// The error for a log reservation that was refused.
fn beyond(GuaranteeRefused { bytes, max, is_alone }: GuaranteeRefused) -> Error {
    match is_alone {
        true => {
            let limit = "the log space that can be reserved for one prepared transaction's commit";
            Error::BatchTooLarge { bytes, max, limit }
        }
        false => {
            let limit =
                "the log space that can be reserved for the commits of all prepared transactions";
            Error::TooMuchPrepared { bytes, max, limit }
        }
    }
}

/// Makes the catalog rows that hold the prepared transaction.
fn cut(
    payload: &CommitPayload,
    Prepared { xid, since, spilled, blobs, .. }: &Prepared,
    locks: Option<&LockList>,
    rows: &mut CommitPayload,
) -> Result<()> {
    let mut record = RecordBuilder::new();
    // Recovery knows the long values in runs only from this list.
    let blobs = if spilled.is_some() { &blobs[..] } else { &[] };
    write_record(&mut record, payload, blobs, spilled.as_slice());
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
