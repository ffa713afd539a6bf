//! Queue entries for index builds of a tree: the keys of rows that a transaction changes
//! (`db/load/build/`).
//!
//! The key is put into the queue after the row is written; the transaction commits both or rolls
//! both back.
//!
//! Threads: as the transaction. Cost without a build: one load per write; with one, an additional
//! entry for each row.

use crate::{
    Result,
    catalog::ChangeQueue,
    db::Tree,
    txn::{HashedKey, OwnState, ROWS_UNKNOWN, lock_table::RowMode},
};

use super::{IfLocked, State, Txn};

impl Txn {
    /// Queues a changed row. Called after the row is among the transaction's writes, and the
    /// transaction among the tree's writers.
    pub(super) fn queue_change(&self, state: &mut State, tree: &Tree, key: &[u8]) -> Result<()> {
        match tree.entry.queue.get() {
            Some(queue) => self.put_into(state, &queue, key),
            None => Ok(()),
        }
    }

    #[cold]
    fn put_into(&self, state: &mut State, queue: &ChangeQueue, key: &[u8]) -> Result<()> {
        let hashed = HashedKey::new(queue.tree, key);
        if matches!(self.own_state(state, hashed)?, OwnState::Put { .. }) {
            return Ok(());
        }
        // The row is locked, and with it its place in the queue. The intent marks the queue as in
        // use.
        self.intend(state, queue.tree, RowMode::Write, IfLocked::Wait.into())?;
        self.buffer.live.lock().put(hashed, &[], ROWS_UNKNOWN)
    }
}
