//! Extents of blobs: which runs list them, and holds for references that are still in memory.
//!
//! A blob is written before any version links it, so it starts as a temporary extent; the first
//! publish with a run that lists it adopts it. The runs that list it are counted as of the version
//! that the next checkpoint writes, like references to runs (Rule: I21); with the last run the blob
//! dies, and is then kept and freed as a page is. A *hold* is independent of all that: batches,
//! memtables and jobs have one for each reference that they may return, and while there is a hold
//! the extent stays.
//!
//! Invariants
//! 1. A held extent is never free: a dead one *waits*, on no list, until the last hold is released.
//! 2. A temporary extent without holds dies at once; only the log may keep it (Rule: I11).
//! 3. Only runs of the blob's own lineage count: clones keep it by their pins (Rule: I19).
//!
//! Threads: under the lock of [`Space`].

use super::space::{Extent, Inner, Record, Refused, Space};
use crate::{
    page::PageKind,
    types::{Lineage, Lsn, VersionNumber},
};

impl Space {
    /// Holds an extent to which something in memory may still return a reference: it is not freed
    /// while it is held.
    pub fn hold(&self, offset: u64) {
        if let Some(record) = self.lock().extents.get_mut(&offset) {
            record.holds += 1;
        }
    }

    /// Holds an extent that may have been freed and reused: false if no completely written blob
    /// lies there now. Whether it is the blob that was meant, the caller finds out from its table.
    pub fn hold_written(&self, extent: Extent) -> bool {
        let mut inner = self.lock();
        // A blob that is still being written is temporary and not yet named by a log record.
        let is_written = inner.blob(extent).is_ok_and(|blob| !blob.temporary || blob.log.is_some());
        if is_written {
            inner.change(extent.offset, |record| record.holds += 1);
        }
        is_written
    }

    /// Holds a run that no version links, if the log names it now: it stays while it is held.
    pub fn hold_named_run(&self, extent: Extent) -> bool {
        let mut inner = self.lock();
        let is_named = inner.extents.get(&extent.offset).is_some_and(|record| {
            record.bytes == extent.bytes
                && record.kind == PageKind::Run
                && record.temporary
                && record.log.is_some()
        });
        if is_named {
            inner.change(extent.offset, |record| record.holds += 1);
        }
        is_named
    }

    /// The first version that listed the blob; `None` if there is no such blob, or no version has
    /// listed it.
    pub fn birth_of_blob(&self, extent: Extent) -> Option<VersionNumber> {
        let blob = self.lock().blob(extent).ok();
        blob.filter(|blob| !blob.temporary).map(|blob| blob.birth)
    }

    /// The last record of the log that names the extent, if any; that record may have been trimmed
    /// since.
    pub fn named_in_log(&self, offset: u64) -> Option<Lsn> {
        self.lock().named_in_log(offset)
    }

    /// Ends one [`hold`](Self::hold). A temporary extent without further holds is abandoned.
    pub fn release_hold(&self, offset: u64) {
        self.lock().release(offset);
    }

    /// Ends recovery: extents that the log names and that no owner has taken over are kept only for
    /// the log.
    pub fn abandon_unheld(&self) {
        self.lock().end_unheld();
    }
}

impl Inner {
    /// Records that a run of a version lists this blob: if no version did so before, the blob is
    /// born with this one. The runs that list it are counted separately, as of the version that the
    /// next checkpoint writes.
    pub fn adopt_blob(
        &mut self,
        extent: Extent,
        birth: VersionNumber,
        lineage: Lineage,
    ) -> Result<(), Refused> {
        if self.blob(extent)?.temporary {
            self.adopt(extent.offset, birth, lineage)?;
            self.change(extent.offset, |record| record.refs = 0);
        }
        Ok(())
    }

    /// Records that a run of `lineage` lists a blob from version `at` on, or no longer does; with
    /// the last such run the blob dies. Blobs of another lineage are inherited and not counted
    /// (Rule: I19).
    pub fn count_blob(
        &mut self,
        extent: Extent,
        lineage: Lineage,
        listed: bool,
        at: VersionNumber,
    ) -> Result<(), Refused> {
        let record = self.blob(extent)?;
        let refused = |why: &str| Refused {
            offset: extent.offset,
            bytes: u64::from(extent.bytes),
            why: why.into(),
        };
        if record.lineage != lineage {
            return Ok(());
        }
        if record.temporary || record.is_dead() {
            return Err(refused("runs of a version list a blob that is not alive"));
        }
        let refs = if listed { record.refs.checked_add(1) } else { record.refs.checked_sub(1) };
        let refs = refs.ok_or_else(|| {
            refused("the count of the runs that list a blob would go below 0 or overflow")
        })?;
        self.change(extent.offset, |record| record.refs = refs);
        if refs == 0 {
            self.change(extent.offset, |record| record.death = at);
            self.free_or_keep(extent.offset);
        }
        Ok(())
    }

    fn blob(&self, extent: Extent) -> Result<Record, Refused> {
        let record = self.extents.get(&extent.offset).copied();
        let same = |record: &Record| record.bytes == extent.bytes && record.kind == PageKind::Blob;
        record.filter(same).ok_or_else(|| Refused {
            offset: extent.offset,
            bytes: u64::from(extent.bytes),
            why: "no such blob is there".into(),
        })
    }

    fn release(&mut self, offset: u64) {
        let Some(record) = self.extents.get_mut(&offset) else { return };
        record.holds = record.holds.saturating_sub(1);
        let record = *record;
        if record.holds > 0 {
            return;
        }
        if record.temporary && !record.is_dead() {
            self.end_temporary(offset);
        } else if record.waits {
            self.change(offset, |record| record.waits = false);
            self.free_or_keep(offset);
        }
    }

    fn end_unheld(&mut self) {
        let unheld = |record: &Record| record.temporary && !record.is_dead() && record.holds == 0;
        let unheld: Vec<u64> = self
            .extents
            .iter()
            .filter(|(_, record)| unheld(record))
            .map(|(&offset, _)| offset)
            .collect();
        unheld.into_iter().for_each(|offset| self.end_temporary(offset));
    }

    /// Ends a temporary extent: it is in no version, though the log may still name it.
    pub fn end_temporary(&mut self, offset: u64) {
        self.change(offset, |record| {
            (record.birth, record.death) = (VersionNumber(0), VersionNumber(0))
        });
        self.free_or_keep(offset);
    }
}
