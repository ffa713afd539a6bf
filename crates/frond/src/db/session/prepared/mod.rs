//! Prepared transactions (two-phase commit): they can no longer fail or be lost, and wait for a
//! decision.
//!
//! The naive way to make a prepared transaction durable is to keep its log record until it is
//! decided. But the log kept for recovery is bounded, so a transaction that its coordinator forgets
//! would stop the store. So the content of a prepared transaction is stored in the catalog instead,
//! in pieces (`catalog/prepared.rs`), which its prepare writes like any commit. Its later commit is
//! a short record: the transaction's name, and the removal of the pieces. So no log need be kept
//! for it, checkpoints and backups contain it like every row, and recovery finds it in the catalog
//! (Rule: I12; design note 023). What it has spilled stays in sorted runs, which the content names;
//! the prepare and checkpoints name them in the log (`pipeline/in_doubt.rs`).
//!
//! | file | what it does |
//! |---|---|
//! | `form.rs` | encodes the content of the pieces |
//! | `recover.rs` | rebuilds transactions from their pieces when a store is opened |
//! | `table.rs` | lists prepared transactions, and which of them are attached |
//!
//! Invariants
//! 1. A name is in the table from before the pieces are in the log until the commit that removes
//!    them is visible. So their keys are absent when they are put (Rule: I7).
//! 2. From its prepare to its decision a transaction keeps the rows that it writes locked, and its
//!    place among the writers of their trees (Rules: I33, I54).
//! 3. An ordered commit is always inserted by some thread, at the latest when its owner drops the
//!    handle (Rule: I41).
//!
//! Threads: all; each transaction has one owner, or is detached in the table.

mod form;
mod recover;
mod table;
#[cfg(all(test, not(shuttle)))]
mod tests;

use crate::{
    Durability, Error, Result, Seqno,
    blob::BlobHold,
    catalog::{CATALOG_TREE, TreeEntry},
    db::{
        Db, Shared,
        commit::{LoggedCommit, PendingCommit, write_record},
    },
    pipeline::CommitPayload,
    sync::Arc,
    txn::{
        LiveWrites, MemoryReservation,
        lock_table::{LockList, LockSet, LockTable},
    },
    types::Xid,
    version::Change,
    wal::{GuaranteeRefused, RecordBuilder, Reservation, TRAILER_BYTES},
};

pub(in crate::db) use recover::{
    Expected, TreeChange, blobs_of, content_of, each_change, recover, runs_of,
};
pub use table::PreparedInfo;
pub(in crate::db) use table::PreparedTable;

/// A prepared transaction; see [`Txn::prepare`](super::Txn::prepare).
///
/// It is decided by [`commit`](Self::commit) or [`rollback`](Self::rollback), here or, once it is
/// detached, by its name. Dropping it detaches it. It survives a restart or crash of the process
/// and of the machine, unless it has written nothing; then it ends with the process.
pub struct PreparedTxn {
    shared: Arc<Shared>,
    /// `None` once it is decided.
    prepared: Option<Box<Prepared>>,
    ordered: Option<LoggedCommit>,
}

short_debug!(PreparedTxn, "PreparedTxn", |prepared| prepared.xid());

/// The in-memory state of a prepared transaction.
#[derive(Debug)]
pub(in crate::db) struct Prepared {
    pub xid: Xid,
    /// The last commit that was visible before it was prepared.
    pub since: Seqno,
    /// The writes, and the pieces that the commit removes.
    pub payload: Arc<CommitPayload>,
    /// What it has spilled, if anything.
    pub spilled: Option<Change>,
    pub blobs: Vec<Arc<BlobHold>>,
    /// Disk space reserved for it, bytes.
    pub admitted: u64,
    /// Length of its commit record for which log space is reserved, if it is.
    pub guaranteed: Option<usize>,
    pub locks: Option<LockSet>,
    pub live: Arc<LiveWrites>,
    /// Memory reservation for its writes.
    pub memory: MemoryReservation,
    /// Trees that list it as a writer.
    pub entered: Vec<Arc<TreeEntry>>,
}

/// Encodes the content for the pieces of a transaction with this commit body, which may name runs.
pub(in crate::db) fn content(
    since: Seqno,
    locks: Option<&LockList>,
    body: (&[u8], bool),
) -> Vec<u8> {
    form::write(since, locks, body)
}

impl Prepared {
    /// Number of rows that it writes; a row in several runs counts several times.
    pub fn entries(&self) -> usize {
        let spilled = self.spilled.as_ref().and_then(Change::spilled);
        self.payload.writes.len() + spilled.map_or(0, |spilled| spilled.entries() as usize)
    }

    /// Builds the body of its commit record.
    fn build_commit(&self, record: &mut RecordBuilder) {
        record.clear();
        record.prepared(self.xid.as_bytes(), self.since);
        record.tree(CATALOG_TREE);
        for piece in self.payload.decided.entries(CATALOG_TREE) {
            record.entry(piece.key, piece.tag, piece.payload);
        }
    }
}

impl Db {
    /// Lists all in-doubt transactions, ordered by name, including those attached to a session.
    /// A coordinator that recovers asks [`take_recovered`](Self::take_recovered) instead.
    pub fn prepared(&self) -> Vec<PreparedInfo> {
        self.shared.sessions.prepared.list()
    }

    /// Returns the in-doubt transactions that existed when the store was opened, each once: no
    /// later call returns them again, so that a coordinator that calls this in a loop terminates.
    /// They stay in doubt, and [`prepared`](Self::prepared) lists them until they are decided.
    pub fn take_recovered(&self) -> Vec<PreparedInfo> {
        self.shared.sessions.prepared.unlisted()
    }

    /// Attaches a detached prepared transaction, to decide it.
    ///
    /// # Errors
    /// `NoSuchXid`; `XidBusy` if it is attached elsewhere.
    pub fn attach_prepared(&self, xid: &Xid) -> Result<PreparedTxn> {
        let prepared = self.shared.sessions.prepared.take(xid)?;
        Ok(PreparedTxn { shared: self.shared.clone(), prepared: Some(prepared), ordered: None })
    }

    /// Commits a detached prepared transaction.
    ///
    /// # Errors
    /// As [`attach_prepared`](Self::attach_prepared) and [`PreparedTxn::commit`].
    pub fn commit_prepared(&self, xid: &Xid) -> Result<Seqno> {
        self.attach_prepared(xid)?.commit()
    }

    /// Rolls back a detached prepared transaction.
    ///
    /// # Errors
    /// As [`attach_prepared`](Self::attach_prepared) and [`PreparedTxn::rollback`].
    pub fn rollback_prepared(&self, xid: &Xid) -> Result<()> {
        self.attach_prepared(xid)?.rollback()
    }
}

impl PreparedTxn {
    pub(in crate::db) fn new(shared: Arc<Shared>, prepared: Prepared) -> Self {
        Self { shared, prepared: Some(Box::new(prepared)), ordered: None }
    }

    /// The name of the transaction.
    pub fn xid(&self) -> &Xid {
        &self.own().xid
    }

    /// Gives the commit its place in the commit order: from here on the transaction is decided, and
    /// later commits come after it, in the log, too. It uses the log space reserved for it since
    /// its prepare, or since the store was opened, and waits for no row lock and no disk. It
    /// becomes visible at the latest when [`commit`](Self::commit) returns. Returns its seqno.
    ///
    /// Opening a store reserves that space again for all prepared transactions, whatever memory the
    /// store now has. If the disk has no space for it then, [`Db::warnings`] reports that
    /// (FRD-1303): until there is space, other commits are refused with `Full`, and so may this one
    /// be, if commits of other prepared transactions have used the space that there is.
    ///
    /// # Errors
    /// `Failed`, `Closed`, `ReadOnly`; `Full` as described: it is still prepared.
    pub fn commit_ordered(&mut self) -> Result<Seqno> {
        if let Some(LoggedCommit { seqno, .. }) = &self.ordered {
            return Ok(*seqno);
        }
        if self.own().payload.decided.len() == 0 {
            return Ok(self.shared.engine.sequencer.visible());
        }
        let ordered = self.shared.order_prepared(self.own())?;
        Ok(self.ordered.insert(ordered).seqno)
    }

    /// Commits at the store's durability, and orders the commit first if that was not done yet.
    /// Returns its seqno.
    ///
    /// # Errors
    /// As [`commit_ordered`](Self::commit_ordered); then it is detached and still prepared.
    /// `OutcomeUnknown`: the store has stopped; it may be committed, or prepared.
    pub fn commit(self) -> Result<Seqno> {
        let level = self.shared.commits.durability;
        self.commit_with(level)
    }

    /// Commits, like [`commit`](Self::commit), at the given durability.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_with(mut self, level: Durability) -> Result<Seqno> {
        let shared = self.shared.clone();
        let timing = shared.begin_timing(level);
        let seqno = self.commit_ordered()?;
        let reservation = self.finish();
        if let Some(reservation) = reservation {
            shared.wait_durable(&reservation, level)?;
        }
        shared.end_timing(&timing);
        Ok(seqno)
    }

    /// True once its commit has its place in the order: it is decided.
    pub fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Rolls the transaction back, at the store's durability. Uses the log space reserved for its
    /// commit.
    ///
    /// # Errors
    /// `InvalidArgument` if it is ordered: then it is committed. `Failed`, `Closed`: it is detached
    /// and still prepared. `OutcomeUnknown`: the store has stopped; it may be prepared.
    pub fn rollback(mut self) -> Result<()> {
        if self.ordered.is_some() {
            let why = "the prepared transaction is committed: its place in the order is taken";
            return Err(Error::InvalidArgument(why.into()));
        }
        let place = self.shared.take_pieces_away(self.own())?;
        if let Some(mut prepared) = self.prepared.take() {
            if place.is_some() {
                prepared.guaranteed = None;
            }
            self.shared.end_guarantee(&prepared);
            self.shared.release(*prepared, None);
        }
        let level = self.shared.commits.durability;
        place.map_or(Ok(()), |reservation| self.shared.wait_durable(&reservation, level))
    }

    /// Detaches it: it waits for a decision by its name.
    pub fn detach(self) {}

    /// Inserts an ordered commit and ends the transaction. Returns its place in the log.
    fn finish(&mut self) -> Option<Reservation> {
        let prepared = self.prepared.take()?;
        let ordered = self.ordered.take();
        if let Some(logged) = &ordered {
            self.shared.insert_and_make_visible(&prepared.payload, logged);
        }
        self.shared.release(*prepared, ordered.as_ref().map(|logged| logged.seqno));
        ordered.map(|logged| logged.reservation)
    }

    fn own(&self) -> &Prepared {
        self.prepared.as_ref().expect("it is there until it is decided, which takes it away")
    }
}

impl Drop for PreparedTxn {
    fn drop(&mut self) {
        if self.ordered.is_some() {
            self.finish();
        } else if let Some(prepared) = self.prepared.take() {
            self.shared.sessions.prepared.put_back(prepared);
        }
    }
}

impl Shared {
    /// Sequences the commit of a prepared transaction.
    fn order_prepared(&self, prepared: &Prepared) -> Result<LoggedCommit> {
        self.check_writable()?;
        let mut record = self.commits.records.take(0);
        prepared.build_commit(&mut record);
        let body = record.finish();
        // Its extents are already named, and stay so until they are in trees.
        let commit = PendingCommit {
            payload: &prepared.payload,
            blobs: &prepared.blobs,
            changes: prepared.spilled.as_slice(),
            // What was recovered on a full disk has no space of its own.
            relieves: prepared.payload.relieves || prepared.admitted == 0,
            admitted: prepared.admitted,
            names_extents: false,
            guaranteed: prepared.guaranteed,
        };
        let logged = self.log_commit(&commit, body);
        self.commits.records.give(record);
        logged
    }

    /// Length of its commit record.
    pub(in crate::db) fn commit_bytes(&self, prepared: &Prepared) -> usize {
        let mut record = self.commits.records.take(0);
        prepared.build_commit(&mut record);
        let bytes = record.bytes() + TRAILER_BYTES;
        self.commits.records.give(record);
        bytes
    }

    /// Reserves log space for its commit. If too much is prepared already, returns the reason, and
    /// nothing is [`guaranteed`](Prepared::guaranteed).
    pub(in crate::db) fn guarantee_space(
        &self,
        prepared: &mut Prepared,
    ) -> Result<Result<(), GuaranteeRefused>> {
        let bytes = self.commit_bytes(prepared);
        let guaranteed = self.engine.health.watch(self.engine.log().guarantee(bytes))?;
        prepared.guaranteed = guaranteed.is_ok().then_some(bytes);
        Ok(guaranteed)
    }

    /// Releases what was reserved for a transaction that was rolled back or not prepared after all.
    pub(in crate::db) fn end_guarantee(&self, prepared: &Prepared) {
        self.engine.store.release_admitted(prepared.admitted);
        if let Some(guaranteed) = prepared.guaranteed {
            self.engine.log().end_guarantee(guaranteed);
        }
    }

    /// Writes the rollback: a commit of its own that removes the pieces.
    fn take_pieces_away(&self, prepared: &Prepared) -> Result<Option<Reservation>> {
        self.check_writable()?;
        let pieces = &prepared.payload.decided;
        if pieces.len() == 0 || plant!("db: a rollback of what is prepared is forgotten") {
            return Ok(None);
        }
        let (writes, trees) = (pieces.clone(), vec![CATALOG_TREE]);
        let payload = Arc::new(CommitPayload { writes, trees, ..CommitPayload::default() });
        self.engine.store.end_idle()?;
        let mut record = self.commits.records.take(payload.writes.bytes());
        let guaranteed = prepared.guaranteed;
        let commit = PendingCommit {
            relieves: true,
            admitted: 0,
            guaranteed,
            ..PendingCommit::new(&payload, &[], &[])
        };
        write_record(&mut record, &payload, &[], &[]);
        let logged = self.log_commit(&commit, record.finish());
        self.commits.records.give(record);
        let logged = logged?;
        self.insert_and_make_visible(&payload, &logged);
        Ok(Some(logged.reservation))
    }

    /// Releases what a decided transaction kept, after its commit or rollback is visible.
    fn release(&self, mut prepared: Prepared, commit: Option<Seqno>) {
        self.release_locks(&mut prepared);
        let in_doubt = &self.engine.in_doubt;
        match commit {
            Some(seqno) => in_doubt.commit(&prepared.xid, seqno),
            None => in_doubt.release(&prepared.xid),
        }
        self.sessions.prepared.forget(&prepared.xid);
    }

    /// Releases its locks.
    fn release_locks(&self, prepared: &mut Prepared) {
        let Prepared { entered, live, locks, .. } = prepared;
        entered.drain(..).for_each(|tree| tree.writers.leave(live));
        if let Some(mut locks) = locks.take() {
            LockTable::release_all(&self.locking.table, &mut locks);
            self.locking.gate.open();
        }
        live.clear();
    }

    /// Releases the locks of prepared transactions when the store is closed; they stay prepared on
    /// disk.
    pub(in crate::db) fn leave_prepared(&self) {
        for mut prepared in self.sessions.prepared.take_all() {
            self.release_locks(&mut prepared);
        }
    }
}
