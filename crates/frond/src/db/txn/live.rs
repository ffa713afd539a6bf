//! Who is there: what transactions and others hold that somebody may ask for.
//!
//! Transactions with locks are known to the table of locks, those with a snapshot to the registry of snapshots; here both are
//! put together. What holds neither is in nobody's way, and is known to nobody: beginning a transaction tells no one.
//!
//! Threads: all. Looking takes each list of either for a moment.

use std::{cmp::Reverse, collections::HashMap};

use crate::{
    txn::lock_table::LiveTxn,
    version::{LiveSnapshot, Reader},
};

use super::super::Db;

impl Db {
    /// Transactions that hold locks or a snapshot, batches that hold locks, and snapshots that are no transaction's, as
    /// [`snapshot`](Self::snapshot)s and cursors over trees hold them; longest first. A transaction that has neither
    /// locked nor read anything, or at `ReadCommitted` is between two of its calls or statements, holds nothing and is not among
    /// them. How long a snapshot is held is known to some hundredths of a second; in a store that was opened for reading, only
    /// that it was not held yet when somebody last asked.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// let reader = db.begin(frond::TxnOptions { read_only: true, ..Default::default() })?;
    /// assert!(db.transactions().is_empty());
    /// reader.get(&tree, b"key")?;
    /// let live = db.transactions();
    /// assert_eq!((live[0].id, live[0].locks), (reader.id(), None));
    /// assert_eq!(live[0].snapshot.map(|(at, _)| at), reader.snapshot_seqno());
    /// # drop((reader, tree));
    /// # db.close()
    /// # }
    /// ```
    pub fn transactions(&self) -> Vec<LiveTxn> {
        let engine = &self.shared.engine;
        let now = engine.env.clock.now();
        engine.snapshots.tick(now);
        let mut live = self.shared.lock_table.live();
        let places = live.iter().enumerate().filter(|(_, one)| one.id != 0);
        let mut places: HashMap<u64, usize> = places.map(|(place, one)| (one.id, place)).collect();
        for LiveSnapshot { reader, at, lasts } in engine.snapshots.live(now) {
            let Reader { id, tag } = reader.unwrap_or(Reader { id: 0, tag: 0 });
            let place = match places.get(&id) {
                Some(place) => *place,
                None => {
                    let snapshot = None;
                    live.push(LiveTxn { id, tag, writes: 0, locks: None, snapshot, waits: false });
                    if id != 0 {
                        places.insert(id, live.len() - 1);
                    }
                    live.len() - 1
                }
            };
            // Of those that a transaction's cursors hold beside its own, the oldest counts.
            let snapshot = &mut live[place].snapshot;
            let oldest =
                snapshot.map_or((at, lasts), |(other, lasted)| (at.min(other), lasts.max(lasted)));
            *snapshot = Some(oldest);
        }
        live.sort_by_key(|one| (Reverse(one.lasts()), one.id));
        live
    }
}
