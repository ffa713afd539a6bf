//! Prepared transactions, and the ways in which they are committed or rolled back: by the thread
//! that prepared them, with an ordered commit or without; by another thread; or after a restart
//! that finds them.
//!
//! At a level where a prepare is durable when it returns, the store cannot lose one: a transaction
//! that it lists after a restart is in doubt, and one that it does not list was decided as last
//! requested. So no outcome stays unknown (Promise: P4).

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError, mpsc},
};

use frond::{Db, Error, ErrorKind, Result, transaction::Xid};

use super::{super::Outcome, Recorder, Txn, go_on};
use crate::Dice;

/// What was last requested for a prepared transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Preparing,
    Prepared,
    Committing,
    RollingBack,
}

/// The transactions in progress, by name.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<BTreeMap<Vec<u8>, (Txn, Stage)>>);

impl Pending {
    fn set(&self, xid: &Xid, txn: Txn, stage: Stage) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.insert(xid.as_bytes().to_vec(), (txn, stage));
    }

    fn go_on(&self, xid: &Xid, stage: Stage) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, at)) = pending.get_mut(xid.as_bytes()) {
            *at = stage;
        }
    }

    fn take(&self, xid: &Xid) -> Option<(Txn, Stage)> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.remove(xid.as_bytes())
    }

    fn is_at(&self, xid: &Xid, stage: Stage) -> bool {
        let pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.get(xid.as_bytes()).is_some_and(|(_, at)| *at == stage)
    }

    fn names(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Recorder {
    /// Prepares a transaction, and decides it or lets another thread decide it.
    pub(super) fn prepared(
        &self,
        txn: frond::Txn,
        mut done: Txn,
        detached: &mpsc::Sender<Xid>,
        dice: &mut Dice,
    ) -> Result<()> {
        let xid = Xid::new(&self.number().to_be_bytes())?;
        done.prepared = true;
        self.pending.set(&xid, done, Stage::Preparing);
        let mut prepared = match txn.prepare(&xid) {
            Ok(prepared) => prepared,
            Err(error) => return self.in_doubt(&xid, Err(error)),
        };
        self.pending.go_on(&xid, Stage::Prepared);
        if dice.chance(1, 2) {
            std::thread::yield_now();
        }
        match dice.below(4) {
            0 => {
                prepared.detach();
                drop(detached.send(xid));
                Ok(())
            }
            1 => {
                self.pending.go_on(&xid, Stage::RollingBack);
                let went = prepared.rollback();
                self.decided(&xid, went, Outcome::Aborted)
            }
            2 => {
                self.pending.go_on(&xid, Stage::Committing);
                let ordered = prepared.commit_ordered();
                std::thread::yield_now();
                let went = ordered.and_then(|_| prepared.commit());
                self.decided(&xid, went.map(drop), Outcome::Committed)
            }
            _ => {
                self.pending.go_on(&xid, Stage::Committing);
                let went = prepared.commit();
                self.decided(&xid, went.map(drop), Outcome::Committed)
            }
        }
    }

    /// Decides a transaction that another thread has detached.
    pub(super) fn decide(&self, db: &Db, xid: &Xid, dice: &mut Dice) {
        drop(self.decide_by_name(db, xid, Outcome::Aborted, dice));
    }

    /// Decides a transaction by its name; `taken_back` is the outcome if it is rolled back.
    fn decide_by_name(
        &self,
        db: &Db,
        xid: &Xid,
        taken_back: Outcome,
        dice: &mut Dice,
    ) -> Result<()> {
        if dice.chance(2, 3) {
            self.pending.go_on(xid, Stage::Committing);
            let went = db.commit_prepared(xid).map(drop);
            self.decided(xid, went, Outcome::Committed)
        } else {
            self.pending.go_on(xid, Stage::RollingBack);
            let went = db.rollback_prepared(xid);
            self.decided(xid, went, taken_back)
        }
    }

    fn decided(&self, xid: &Xid, went: Result<()>, outcome: Outcome) -> Result<()> {
        if went.is_err() {
            return self.in_doubt(xid, went);
        }
        if let Some((done, _)) = self.pending.take(xid) {
            self.end(done, outcome);
        }
        Ok(())
    }

    /// Records that a decision has failed. If the store has stopped, the transaction waits for the
    /// next opening; otherwise nothing was done.
    fn in_doubt(&self, xid: &Xid, went: Result<()>) -> Result<()> {
        let is_refused =
            |error: &Error| matches!(error.kind(), ErrorKind::Retry | ErrorKind::FixCall);
        let has_stopped = went.as_ref().is_err_and(|error| !is_refused(error));
        if !has_stopped && let Some((done, stage)) = self.pending.take(xid) {
            assert_eq!(stage, Stage::Preparing, "what is prepared can be decided: {went:?}");
            self.end(done, Outcome::Aborted);
        }
        go_on(went)
    }

    /// Decides all prepared transactions that a restart has found.
    pub(super) fn settle(&self, db: &Db, dice: &mut Dice) -> Result<()> {
        let listed: Vec<Vec<u8>> =
            db.prepared().iter().map(|info| info.xid.as_bytes().to_vec()).collect();
        let pending = self.pending.names();
        assert!(
            listed.iter().all(|name| pending.contains(name)),
            "P4: a prepared transaction that no session prepared"
        );
        for name in pending {
            let xid = Xid::new(&name)?;
            if listed.contains(&name) {
                // Its commit was in progress, and is lost: readers that left nothing durable may
                // have seen it.
                let was_shown = self.pending.is_at(&xid, Stage::Committing);
                let taken_back = if was_shown { Outcome::Unknown } else { Outcome::Aborted };
                self.decide_by_name(db, &xid, taken_back, dice)?;
                continue;
            }
            let Some((done, stage)) = self.pending.take(&xid) else { continue };
            assert_ne!(stage, Stage::Prepared, "P4: {xid} was prepared, and is not there");
            let is_committed = stage == Stage::Committing;
            self.end(done, if is_committed { Outcome::Committed } else { Outcome::Aborted });
        }
        Ok(())
    }
}
