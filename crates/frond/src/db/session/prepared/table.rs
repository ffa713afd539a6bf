//! The table of prepared transactions, by name.
//!
//! Threads: all. One lock, held for a look-up; prepares and decisions take it twice each.

use std::collections::{BTreeMap, btree_map::Entry};

use super::Prepared;
use crate::{
    Error, Result, Seqno,
    sync::{Mutex, MutexGuard},
    types::Xid,
};

/// Description of a prepared transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PreparedInfo {
    /// The name.
    pub xid: Xid,
    /// The last commit that was visible before it was prepared; 0 while it is being prepared.
    pub since: Seqno,
    /// Number of rows that it writes.
    pub entries: usize,
    /// True if it existed when the store was opened.
    pub is_recovered: bool,
    /// True if no session has it attached: it can be decided by its name.
    pub is_detached: bool,
}

#[derive(Debug)]
struct Known {
    since: Seqno,
    entries: usize,
    /// Bytes of its writes in memory.
    bytes: u64,
    is_recovered: bool,
    was_listed: bool,
    /// Set while it is detached.
    waits: Option<Box<Prepared>>,
}

/// All prepared transactions.
#[derive(Debug, Default)]
pub(in crate::db) struct PreparedTable {
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    known: BTreeMap<Xid, Known>,
    /// Bytes of all their writes in memory.
    bytes: u64,
}

impl PreparedTable {
    /// Reserves a name for a transaction that is about to be prepared.
    pub fn reserve(&self, xid: &Xid) -> Result<()> {
        match self.lock().known.entry(xid.clone()) {
            Entry::Occupied(_) if !plant!("db: a name is prepared twice") => {
                Err(Error::XidExists(xid.clone()))
            }
            Entry::Occupied(_) => Ok(()),
            Entry::Vacant(place) => {
                place.insert(Known {
                    since: Seqno(0),
                    entries: 0,
                    bytes: 0,
                    is_recovered: false,
                    was_listed: true,
                    waits: None,
                });
                Ok(())
            }
        }
    }

    /// Reserves memory for the writes of a transaction that has a name. All prepared transactions
    /// together may take `bytes_max`. False if too little is left; then the writes must be spilled.
    pub fn take_room(&self, xid: &Xid, bytes: u64, bytes_max: u64) -> bool {
        let mut locked = self.lock();
        let All { known, bytes: all } = &mut *locked;
        let Some(known) = known.get_mut(xid) else { return false };
        let sum = (*all - known.bytes).saturating_add(bytes);
        let fits = sum <= bytes_max;
        if fits {
            (known.bytes, *all) = (bytes, sum);
        }
        fits
    }

    /// Notes that it is prepared and attached to its session.
    pub fn note(&self, xid: &Xid, since: Seqno, entries: usize) {
        if let Some(known) = self.lock().known.get_mut(xid) {
            (known.since, known.entries) = (since, entries);
        }
    }

    /// Adds a transaction that existed when the store was opened.
    pub fn add_recovered(&self, prepared: Box<Prepared>) {
        let known = Known {
            since: prepared.since,
            entries: prepared.entries(),
            bytes: prepared.payload.writes.bytes() as u64,
            is_recovered: true,
            was_listed: false,
            waits: None,
        };
        let xid = prepared.xid.clone();
        let mut table = self.lock();
        table.bytes += known.bytes;
        table.known.insert(xid, Known { waits: Some(prepared), ..known });
    }

    /// Removes a transaction that was decided, or was not prepared after all.
    pub fn forget(&self, xid: &Xid) {
        let mut table = self.lock();
        if let Some(known) = table.known.remove(xid) {
            table.bytes -= known.bytes;
        }
    }

    /// Detaches a transaction.
    pub fn put_back(&self, prepared: Box<Prepared>) {
        let mut table = self.lock();
        if let Some(known) = table.known.get_mut(&prepared.xid) {
            known.waits = Some(prepared);
        }
    }

    /// Attaches a transaction.
    pub fn take(&self, xid: &Xid) -> Result<Box<Prepared>> {
        match self.lock().known.get_mut(xid) {
            None => Err(Error::NoSuchXid(xid.clone())),
            Some(known) => known.waits.take().ok_or_else(|| Error::XidBusy(xid.clone())),
        }
    }

    pub fn list(&self) -> Vec<PreparedInfo> {
        self.lock().known.iter().map(|(xid, known)| known.info(xid)).collect()
    }

    /// Recovered transactions that were not returned here before.
    pub fn unlisted(&self) -> Vec<PreparedInfo> {
        let mut table = self.lock();
        let new = table.known.iter_mut().filter(|(_, known)| !known.was_listed);
        new.map(|(xid, known)| {
            known.was_listed = !plant!("db: what is prepared is listed twice");
            known.info(xid)
        })
        .collect()
    }

    /// Removes and returns all detached transactions.
    pub fn take_all(&self) -> Vec<Prepared> {
        let table = std::mem::take(&mut *self.lock());
        table
            .known
            .into_values()
            .filter_map(|known| known.waits)
            .map(|prepared| *prepared)
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Known {
    fn info(&self, xid: &Xid) -> PreparedInfo {
        PreparedInfo {
            xid: xid.clone(),
            since: self.since,
            entries: self.entries,
            is_recovered: self.is_recovered,
            is_detached: self.waits.is_some(),
        }
    }
}
