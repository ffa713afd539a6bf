//! Replacing, on disk, a slot that an open could not use (a slot passed over), before anything else
//! is written.
//!
//! An open falls back to the other slot when a slot, or the root directory or space map that it
//! links, cannot be read. The naive way is to leave the bad slot alone, since the next checkpoint
//! overwrites it anyway. That loses rows. The error may go away (a flaky cable, a sector that the
//! device remaps), and a crash before that checkpoint lets the next open see a valid slot with the
//! higher sequence. That slot wins, but the pages of its version were free to the open that fell
//! back, which has overwritten them.
//!
//! The protocol:
//! 1. The owner page is written and synced. Versions are counted from a number that is above all
//!    that the passed-over slot may contain (`owner.rs`).
//! 2. The *heir* is written in the place of the passed-over slot and synced: the content of the
//!    slot that was chosen, with a sequence above every sequence ever issued. The chosen slot
//!    itself is not touched.
//! 3. Only then is anything allocated, backed with disk space, truncated or written.
//!
//! A crash before the end of step 2 leaves the chosen slot and, in the other place, the old slot, a
//! torn one, or the heir. No page has been written yet, so each of them opens. If the heir cannot
//! be written or synced, the open fails (FRD-3201, with the slot's offset). Cost: one write and one
//! sync, only for such an open. A read-only open writes nothing and needs none of this: it frees
//! nothing.
//!
//! Invariants
//! 1. A sequence is never issued twice, even if the passed-over slot's sequence is unknown. Every
//!    slot's sequence is at most its version plus one: both begin low, and each checkpoint adds one
//!    to the sequence and at least one to the version. The version from which this open counts is
//!    above every version ever published, by at least one publish limit, so it is a sequence that
//!    was never issued.
//! 2. The heir has the version of the chosen slot. So both slots name one version, and no page of
//!    an earlier one is kept.
//!
//! Threads: open only. Bytes: docs/format.md, "Superblock".

use super::{
    file::Store,
    owner::{self, HEADROOM},
    superblock::{PUBLISH_MAX, SLOT_OFFSETS, Superblock, slot_of},
};
use crate::{
    error::{Error, Result},
    io::Env,
    types::VersionNumber,
};

/// The highest numbers that the readable slots show as issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    /// The highest limit.
    pub publish_limit: VersionNumber,
    /// The highest sequence.
    pub sequence: u64,
    /// Both slots could be read, so nothing higher was issued.
    pub is_all: bool,
}

impl Issued {
    /// The slot that replaces the one passed over, when `taken` was chosen and the owner counts
    /// versions above `counts_from`.
    pub fn heir_of(&self, taken: &Superblock, counts_from: VersionNumber) -> Superblock {
        let unused = if plant!("store: a sequence is issued twice") {
            taken.sequence + 1
        } else {
            counts_from.0.max(self.sequence + 1)
        };
        let is_in_place = slot_of(unused) != slot_of(taken.sequence);
        Superblock {
            sequence: if is_in_place { unused } else { unused + 1 },
            previous: taken.publish,
            publish_limit: VersionNumber(counts_from.0 + HEADROOM).min(PUBLISH_MAX),
            ..*taken
        }
    }
}

impl Store {
    /// Performs the first writes of an open. They sync the directory, since a creation that was
    /// killed may have left the file's name only in the page cache (P6), rewrite the chosen slot as
    /// it is, and then write the owner page. If the other slot was passed over: the owner page,
    /// then a new slot in its place.
    pub(super) fn begin_writing(
        &mut self,
        env: &Env,
        passed_over: bool,
        issued: Issued,
    ) -> Result<()> {
        env.vfs.sync_dir(self.dir()).map_err(|e| Error::io(self.dir(), "sync", 0, e))?;
        let newest = self.newest();
        if !passed_over {
            self.write_slot(&newest)?;
            self.sync()?;
        }
        let counts_from = owner::sign(self.file(), env, &issued)?;
        self.sync()?;
        self.count_from(counts_from);
        if passed_over && !plant!("store: a slot that was passed over stays") {
            let heir = issued.heir_of(&newest, counts_from);
            self.write_heir(&heir)?;
            self.adopt_heir(heir);
        }
        Ok(())
    }

    fn write_heir(&self, heir: &Superblock) -> Result<()> {
        let offset = SLOT_OFFSETS[slot_of(heir.sequence)];
        self.write_slot(heir).map_err(|error| match error {
            Error::Io { file, source, .. } => {
                let action = "replace the superblock slot that was passed over";
                Error::Io { file, action, offset, source }
            }
            other => other,
        })?;
        if plant!("store: a slot that was passed over is replaced without a sync") {
            return Ok(());
        }
        self.sync()
    }
}
