//! Counts of what happened to the transactions of a run, to prove that they conflict.

use crate::{
    model::{Answer, Refusal},
    ops::{Op, TxnOp},
};

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Commits that made a step.
    pub commits: u64,
    /// Calls that found a row or a gap busy.
    pub busy: u64,
    /// Transactions ended by a conflict.
    pub conflicts: u64,
    /// Batches and drops of trees that were not made, because they would have waited.
    pub waits: u64,
    /// Transactions that were prepared and had written something.
    pub prepared: u64,
    /// Of these, the ones that were committed or rolled back.
    pub decided: u64,
    /// Of those that ended, the ones that had survived a crash or a kill.
    pub outlived: u64,
    /// Statements that were rolled back.
    pub undone: u64,
    /// Rows with indexes that were written.
    pub rows: u64,
    /// Rows that met another's unique entry.
    pub taken: u64,
    /// Commits that were ordered before they were made.
    pub ordered: u64,
}

impl Met {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: Met) {
        self.commits += other.commits;
        self.busy += other.busy;
        self.conflicts += other.conflicts;
        self.waits += other.waits;
        self.prepared += other.prepared;
        self.decided += other.decided;
        self.outlived += other.outlived;
        self.undone += other.undone;
        self.rows += other.rows;
        self.taken += other.taken;
        self.ordered += other.ordered;
    }

    /// Counts a call of a transaction, by its answer. `is_step`: it has changed what others see.
    /// `decides`: it decides a prepared transaction, which has survived a crash if true.
    pub(super) fn count(&mut self, op: &Op, answer: &Answer, is_step: bool, decides: Option<bool>) {
        match (op, answer) {
            (Op::InTxn(..), Answer::Refused(Refusal::Busy)) => self.busy += 1,
            (Op::InTxn(..), Answer::Refused(Refusal::Conflict)) => self.conflicts += 1,
            (Op::InTxn(_, TxnOp::UndoStatement), Answer::Done) => self.undone += 1,
            (Op::InTxn(_, TxnOp::Row { .. }), Answer::Done) => self.rows += 1,
            (Op::InTxn(_, TxnOp::Row { .. }), Answer::Rows(_)) => self.taken += 1,
            (Op::InTxn(_, TxnOp::Order), Answer::Done) => self.ordered += 1,
            (Op::InTxn(..) | Op::Decide(..), Answer::Done) if is_step => match (decides, op) {
                (Some(outlived), _) => {
                    self.decided += 1;
                    self.outlived += u64::from(outlived);
                }
                (None, Op::InTxn(_, TxnOp::Prepare(_))) => self.prepared += 1,
                _ => self.commits += 1,
            },
            _ => {}
        }
    }
}
