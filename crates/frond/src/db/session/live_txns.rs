//! Lists live transactions: holders of locks and of snapshots.
//!
//! The lock table knows transactions with locks, and the snapshot registry those with a snapshot;
//! here both are combined. A transaction that holds neither blocks nothing and is registered
//! nowhere, so beginning one costs nothing for others.
//!
//! Threads: all. Listing locks each list of both for a moment.

use std::{cmp::Reverse, collections::HashMap};

use crate::{
    db::Db,
    txn::lock_table::LiveTxn,
    version::{LiveSnapshot, Reader},
};

impl Db {
    /// Transactions that hold locks or a snapshot, batches that hold locks, and snapshots that
    /// belong to no transaction ([`snapshot`](Self::snapshot)s and cursors over trees); longest
    /// first. A transaction holds nothing and is not listed if it has neither locked nor read
    /// anything or, at `ReadCommitted`, if it is between two of its calls or statements. How long a
    /// snapshot has been held is known to a few hundredths of a second; in a store that is open
    /// read-only it counts from the last call of this function before it was taken. Empty once the
    /// store is [closed](Self::close), which ends all of them.
    ///
    /// ```
    /// # fn main() -> frond::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = frond::Db::open(dir.path().join("store"), frond::Options::new())?;
    /// let tree = db.create_tree("t", Default::default())?;
    /// let reader = db.begin(frond::TxnOptions::new().read_only(true))?;
    /// assert!(db.transactions().is_empty());
    /// reader.get(&tree, b"key")?;
    /// let live = db.transactions();
    /// assert_eq!((live[0].id, live[0].locks), (reader.control().id(), None));
    /// assert_eq!(live[0].snapshot.map(|(at, _)| at), reader.control().snapshot_seqno());
    /// # drop((reader, tree));
    /// # db.close()
    /// # }
    /// ```
    pub fn transactions(&self) -> Vec<LiveTxn> {
        let engine = &self.shared.engine;
        if engine.health.is_closing() {
            return Vec::new();
        }
        let now = engine.env.clock.now();
        engine.snapshots.tick(now);
        let mut live = self.shared.locking.table.live();
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
            // If a transaction's cursors hold snapshots, too, the oldest counts.
            let snapshot = &mut live[place].snapshot;
            let oldest =
                snapshot.map_or((at, lasts), |(other, lasted)| (at.min(other), lasts.max(lasted)));
            *snapshot = Some(oldest);
        }
        live.sort_by_key(|one| (Reverse(one.lasts()), one.id));
        live
    }
}
