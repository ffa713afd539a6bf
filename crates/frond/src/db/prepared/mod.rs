//! Transactions that are prepared: they can neither fail any more nor be lost, and wait to be decided.
//!
//! What one will do lies in the catalog, in pieces (`catalog/prepared.rs`), put there by its prepare as by any commit.
//! Its commit is a short record: the name, and that the pieces go. So the log keeps nothing for it, checkpoints and
//! backups have it like every row, and recovery finds it there (Rule: I12). What it has written beyond memory stays in
//! sorted runs, which the content names; the prepare and checkpoints name them in the log (`pipeline/undecided.rs`).
//!
//! | file | what it does |
//! |---|---|
//! | `form.rs` | the content of the pieces |
//! | `recover.rs` | from pieces to transactions, when a store is opened |
//! | `table.rs` | who is prepared, and in whose hands |
//!
//! Invariants
//! 1. A name is in the table from before the pieces are in the log until they are gone and that is visible. So
//!    their keys are absent when they are put (Rule: I7).
//! 2. From its prepare to its decision a transaction keeps the rows it writes, and its place among the writers of
//!    their trees (Rules: I33, I54).
//! 3. A commit that was ordered is inserted, by whomever; if its owner lets it go, when he does (Rule: I41).
//!
//! Threads: all; each transaction has one owner, or lies in the table.

mod form;
mod recover;
mod table;
#[cfg(all(test, not(shuttle)))]
mod tests;

use crate::{
    Durability, Error, Result, Seqno, Xid,
    blob::BlobHold,
    catalog::{CATALOG_TREE, TreeEntry},
    pipeline::Insertion,
    sync::Arc,
    txn::{
        Charge, LiveWrites,
        lock_table::{LockList, LockSet, LockTable},
    },
    version::Change,
    wal::{PromiseRefused, RecordBuilder, Reservation, TRAILER_BYTES},
};

use super::{
    Db, Shared,
    commit::{Brings, Sequenced, build_record},
};
pub(super) use recover::{
    Expected, TreeChange, blobs_of, content_of, each_change, recover, runs_of,
};
pub use table::PreparedInfo;
pub(super) use table::PreparedTable;

/// A transaction that is prepared; see [`Txn::prepare`](super::Txn::prepare).
///
/// It is decided by [`commit`](Self::commit) or [`rollback`](Self::rollback), here or, once it is detached, by its
/// name. Dropped, it is detached. It survives the end of the process, and of the machine; one that has written
/// nothing has nothing to survive, and is gone with the process.
#[derive(Debug)]
pub struct PreparedTxn {
    shared: Arc<Shared>,
    /// `None` once it is decided.
    prepared: Option<Box<Prepared>>,
    ordered: Option<Sequenced>,
}

/// What is kept of it in memory.
#[derive(Debug)]
pub(super) struct Prepared {
    pub xid: Xid,
    /// The last commit that was visible before it was prepared.
    pub since: Seqno,
    /// Its writes, and the pieces that go with its commit.
    pub insertion: Arc<Insertion>,
    /// What it has written beyond memory, if it has.
    pub spilled: Option<Change>,
    pub blobs: Vec<Arc<BlobHold>>,
    /// Disk space that is promised to it.
    pub admitted: u64,
    /// Length of the record for which the log has promised room, if it has.
    pub promised: Option<usize>,
    pub locks: Option<LockSet>,
    pub live: Arc<LiveWrites>,
    /// What its writes take.
    pub memory: Charge,
    /// Trees that list it as a writer.
    pub entered: Vec<Arc<TreeEntry>>,
}

/// The content of the pieces of a transaction that writes this, and whether that names runs.
pub(super) fn content(since: Seqno, locks: Option<&LockList>, body: (&[u8], bool)) -> Vec<u8> {
    form::write(since, locks, body)
}

impl Prepared {
    /// Rows that it writes; one that is in several runs more than once.
    pub fn entries(&self) -> usize {
        let spilled = self.spilled.as_ref().and_then(Change::spilled);
        self.insertion.writes.len() + spilled.map_or(0, |spilled| spilled.entries() as usize)
    }

    /// The body of its commit's record.
    fn build_commit(&self, record: &mut RecordBuilder) {
        record.clear();
        record.prepared(self.xid.as_bytes(), self.since);
        record.tree(CATALOG_TREE);
        for piece in self.insertion.decided.entries(CATALOG_TREE) {
            record.entry(piece.key, piece.tag, piece.payload);
        }
    }
}

impl Db {
    /// All transactions that are prepared and not decided, by name: those in the hands of a session, too.
    pub fn prepared(&self) -> Vec<PreparedInfo> {
        self.shared.prepared.list()
    }

    /// Those of them that were there when the store was opened and that this call has not named before: each is
    /// listed once, so that a coordinator that asks again meets an end.
    pub fn recover_prepared(&self) -> Vec<PreparedInfo> {
        self.shared.prepared.unlisted()
    }

    /// Takes a prepared transaction that nobody has in hand, to decide it.
    ///
    /// # Errors
    /// `NoSuchXid`; `XidBusy` if it is in another's hands.
    pub fn attach_prepared(&self, xid: &Xid) -> Result<PreparedTxn> {
        let prepared = self.shared.prepared.take(xid)?;
        Ok(PreparedTxn { shared: self.shared.clone(), prepared: Some(prepared), ordered: None })
    }

    /// Commits a prepared transaction that nobody has in hand.
    ///
    /// # Errors
    /// As [`attach_prepared`](Self::attach_prepared) and [`PreparedTxn::commit`].
    pub fn commit_prepared(&self, xid: &Xid) -> Result<Seqno> {
        self.attach_prepared(xid)?.commit()
    }

    /// Rolls a prepared transaction back that nobody has in hand.
    ///
    /// # Errors
    /// As [`attach_prepared`](Self::attach_prepared) and [`PreparedTxn::rollback`].
    pub fn rollback_prepared(&self, xid: &Xid) -> Result<()> {
        self.attach_prepared(xid)?.rollback()
    }
}

impl PreparedTxn {
    pub(super) fn new(shared: Arc<Shared>, prepared: Prepared) -> Self {
        Self { shared, prepared: Some(Box::new(prepared)), ordered: None }
    }

    /// Its name.
    pub fn xid(&self) -> &Xid {
        &self.own().xid
    }

    /// Gives the commit its place in the order of all: from here on it is decided, and later commits come later,
    /// in the log, too. Takes the room that the log has kept for it since its prepare, or since the store was opened, and waits
    /// for no row and for no disk. Others see it once it is visible, at the latest when [`commit`](Self::commit) returns. Returns
    /// its number.
    ///
    /// Opening promises that room again to all that is prepared, whatever memory the store is given now. Where the disk has none
    /// for it then, [`Db::warnings`] says so (FRD-1303): until it has, commits of others are refused with `Full`, and this one may be,
    /// too, if those of other prepared transactions have taken what there is.
    ///
    /// # Errors
    /// `Failed`, `Closed`, `ReadOnly`; `Full` as said: it is prepared still.
    pub fn commit_ordered(&mut self) -> Result<Seqno> {
        if let Some(Sequenced { seqno, .. }) = &self.ordered {
            return Ok(*seqno);
        }
        if self.own().insertion.decided.len() == 0 {
            return Ok(self.shared.engine.sequencer.visible());
        }
        let ordered = self.shared.order_prepared(self.own())?;
        Ok(self.ordered.insert(ordered).seqno)
    }

    /// Commits at the store's durability; in order before, if that was not done yet. Returns the commit's number.
    ///
    /// # Errors
    /// As [`commit_ordered`](Self::commit_ordered), and then it is detached, and prepared still. `OutcomeUnknown`:
    /// the store has stopped; it may be committed, or prepared.
    pub fn commit(self) -> Result<Seqno> {
        let level = self.shared.durability;
        self.commit_with(level)
    }

    /// The same at a durability of its own.
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

    /// True once its commit has its place: it is decided.
    pub fn is_ordered(&self) -> bool {
        self.ordered.is_some()
    }

    /// Takes everything back, at the store's durability. Takes the room that the log has kept for its commit.
    ///
    /// # Errors
    /// `InvalidArgument` if it is ordered: then it is committed. `Failed`, `Closed`: it is detached, and prepared
    /// still. `OutcomeUnknown`: the store has stopped; it may be prepared.
    pub fn rollback(mut self) -> Result<()> {
        if self.ordered.is_some() {
            let why = "the prepared transaction is committed: its place in the order is taken";
            return Err(Error::InvalidArgument(why.into()));
        }
        let place = self.shared.take_pieces_away(self.own())?;
        if let Some(mut prepared) = self.prepared.take() {
            if place.is_some() {
                prepared.promised = None;
            }
            self.shared.end_promises(&prepared);
            self.shared.let_go(*prepared, None);
        }
        let level = self.shared.durability;
        place.map_or(Ok(()), |reservation| self.shared.wait_durable(&reservation, level))
    }

    /// Lets go of it: it waits for a decision by its name.
    pub fn detach(self) {}

    /// Inserts what was ordered, and ends it. Returns its place in the log.
    fn finish(&mut self) -> Option<Reservation> {
        let prepared = self.prepared.take()?;
        let ordered = self.ordered.take();
        if let Some(sequenced) = &ordered {
            self.shared.land(&prepared.insertion, sequenced);
        }
        self.shared.let_go(*prepared, ordered.as_ref().map(|sequenced| sequenced.seqno));
        ordered.map(|sequenced| sequenced.reservation)
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
            self.shared.prepared.put_back(prepared);
        }
    }
}

impl Shared {
    /// Sequences the commit of what is prepared.
    fn order_prepared(&self, prepared: &Prepared) -> Result<Sequenced> {
        self.check_writable()?;
        let Prepared { insertion, spilled, blobs, admitted, promised, .. } = prepared;
        let mut record = self.records.take(0);
        prepared.build_commit(&mut record);
        let body = record.finish();
        // What it needs is named already, and stays so until it is in trees.
        let brings = Brings { insertion, blobs, changes: spilled.as_slice(), is_named: false };
        let sequenced = self.sequence(brings, body, *promised, *admitted);
        self.records.give(record);
        sequenced
    }

    /// Length of the record of the commit.
    pub(super) fn commit_bytes(&self, prepared: &Prepared) -> usize {
        let mut record = self.records.take(0);
        prepared.build_commit(&mut record);
        let bytes = record.bytes() + TRAILER_BYTES;
        self.records.give(record);
        bytes
    }

    /// Has the log keep room for the commit. Where it keeps none, for too much is prepared already, it says why, and nothing is
    /// [`promised`](Prepared::promised).
    pub(super) fn promise_room(
        &self,
        prepared: &mut Prepared,
    ) -> Result<Result<(), PromiseRefused>> {
        let bytes = self.commit_bytes(prepared);
        let promised = self.engine.health.watch(self.engine.log().promise(bytes))?;
        prepared.promised = promised.is_ok().then_some(bytes);
        Ok(promised)
    }

    /// It was not prepared after all, or is rolled back: what was promised to it is others'.
    pub(super) fn end_promises(&self, prepared: &Prepared) {
        self.engine.store.settle_admitted(prepared.admitted);
        if let Some(promised) = prepared.promised {
            self.engine.log().end_promise(promised);
        }
    }

    /// The rollback: a commit of its own, in which the pieces go.
    fn take_pieces_away(&self, prepared: &Prepared) -> Result<Option<Reservation>> {
        self.check_writable()?;
        let pieces = &prepared.insertion.decided;
        if pieces.len() == 0 || plant!("db: a rollback of what is prepared is forgotten") {
            return Ok(None);
        }
        let (writes, trees) = (pieces.clone(), vec![CATALOG_TREE]);
        let insertion = Arc::new(Insertion { writes, trees, ..Insertion::default() });
        self.engine.store.end_rest()?;
        let mut record = self.records.take(insertion.writes.bytes());
        build_record(&mut record, &insertion, &[], &[]);
        let body = record.finish();
        let sequenced = self.sequence(Brings::rows(&insertion), body, prepared.promised, 0);
        self.records.give(record);
        let sequenced = sequenced?;
        self.land(&insertion, &sequenced);
        Ok(Some(sequenced.reservation))
    }

    /// It is decided, by a commit or else a rollback, and that is visible: gives back what it kept.
    fn let_go(&self, mut prepared: Prepared, commit: Option<Seqno>) {
        self.give_locks_back(&mut prepared);
        let undecided = &self.engine.undecided;
        match commit {
            Some(seqno) => undecided.commit(&prepared.xid, seqno),
            None => undecided.release(&prepared.xid),
        }
        self.prepared.forget(&prepared.xid);
    }

    /// Others may have its rows.
    fn give_locks_back(&self, prepared: &mut Prepared) {
        let Prepared { entered, live, locks, .. } = prepared;
        entered.drain(..).for_each(|tree| tree.writers.leave(live));
        if let Some(mut locks) = locks.take() {
            LockTable::release_all(&self.lock_table, &mut locks);
            self.gate.open();
        }
        live.clear();
    }

    /// The store goes: what is prepared stays so, on the disk.
    pub(super) fn leave_prepared(&self) {
        for mut prepared in self.prepared.drain() {
            self.give_locks_back(&mut prepared);
        }
    }
}
