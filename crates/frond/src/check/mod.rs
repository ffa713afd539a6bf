//! The check: verifies every rule that the content of a store must satisfy.
//!
//! Entry points: [`Db::check`] for an open store, [`store`](fn@store) for a closed one,
//! [`Tree::shape`](crate::Tree::shape) for a tree's shape. In a closed store both superblock slots
//! are checked, with all that they link. In an open one the current version in memory is checked
//! first, then the two durable versions, which are pinned meanwhile.
//!
//! Invariants
//! 1. Nothing is written.
//! 2. Damage is a finding, never an error or a panic; it ends only the check of what it hides.
//!    Errors mean that the check could not run.
//! 3. Whatever is reported about the file was read from the file by this check.
//! 4. Memory: the path to a page, and one small record per extent.
//!
//! Codes of findings, and the rule behind each:
//!
//! | code | what is violated |
//! |---|---|
//! | `superblock` | a slot is intact (docs/safety.md §3.2) |
//! | `checksum`, `stale`, `unreadable` | a page is the one its parent names (§3.1) |
//! | `malformed`, `level`, `birth`, `lineage` | a page has the form, level, date and descent it must have |
//! | `pivots`, `leaf-range`, `part-range`, `maximum` | keys lie in the range that the path leaves |
//! | `leaf-entry`, `entry`, `tier`, `consumed`, `live` | a leaf holds values, a buffer only what still counts |
//! | `counts`, `blobs`, `filter` | a run's metadata matches its content, and what it refers to is possible |
//! | `sums` | the sums at a tree's root match its nodes |
//! | `catalog`, `orphan`, `boundary` | catalog, root directory and superblock agree |
//! | `owned-twice`, `not-listed`, `listed-as`, `listed-dead`, `leak`, `references` | space map and trees agree (I18, I21) |
//! | `not-kept` | older versions that have a holder are whole (I18) |
//! | `log` | what recovery would read exists, whole, without a gap (§3.3); what it names can be claimed (I11) |
//!
//! Threads: any one; commits, applies and checkpoints continue concurrently.

mod blobs;
mod catalog;
mod columns;
mod inspect;
mod log;
mod memory;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod tree;
mod version;
mod walk;

pub use crate::block::columnar::ColumnOf;
pub use columns::{ColumnUse, TreeColumns};
pub use inspect::{LevelShape, TreeShape};
pub use report::{CheckMode, CheckReport, Checked, Finding, Severity};

use std::path::Path;

use crate::{
    Db, Error, ErrorKind, Interrupter, Result,
    io::Env,
    page::PageKind,
    pipeline::Engine,
    progress::Progress,
    store::{self, Extent, SlotState, Store, Superblock},
    sync::Arc,
    types::Lsn,
};

use blobs::ReadBlobs;
use log::{LogView, check_log};
use report::{damage, from_error, warning};
use tree::ScannedRuns;
use version::VersionCheck;

/// Checks the closed store in `dir`. Nothing is written; the store is locked meanwhile.
///
/// # Errors
/// The reason why the check could not run: `Locked`, `NotAStore`, `TooNew`, I/O errors. Damage is
/// not an error.
pub fn store(dir: impl AsRef<Path>, mode: CheckMode) -> Result<CheckReport> {
    store_in(&Env::real(), dir, mode)
}

/// Checks the closed store in `dir` through the file system of `env`.
///
/// # Errors
/// As [`store`](fn@store).
#[doc(hidden)]
pub fn store_in(env: &Env, dir: impl AsRef<Path>, mode: CheckMode) -> Result<CheckReport> {
    let dir = dir.as_ref();
    let mut report = CheckReport::new(mode);
    let store = match store::examine(env, dir) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Restore => {
            report.add(from_error(&error));
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let slots = store.examine_slots();
    check_slots(&store, &slots, &mut report)?;
    let good = good_slots(&slots);
    let view = LogView { env, dir, store: &store, durable: None };
    let mut scanned = ScannedRuns::default();
    let named = check_log(&view, &good, mode, &mut report, &mut scanned.blobs);
    check_versions(&store, &good, &named, &mut report, &mut scanned);
    store.release()?;
    Ok(report)
}

impl Db {
    /// Checks the store while it is open: the current version in memory, then what is on disk.
    /// Commits continue; pages of the checked versions are kept until the check ends. Reads
    /// everything once in full mode, and the log and a few pages in quick mode.
    ///
    /// # Errors
    /// `Closed`. Damage is not an error.
    pub fn check(&self, mode: CheckMode) -> Result<CheckReport> {
        self.check_cancellable(mode, &Interrupter::new(), &Progress::default())
    }

    /// Like [`check`](Self::check); reports to `progress`, and ends when it is interrupted.
    ///
    /// # Errors
    /// `Interrupted`, `Closed`.
    pub fn check_cancellable(
        &self,
        mode: CheckMode,
        interrupter: &Interrupter,
        progress: &Progress,
    ) -> Result<CheckReport> {
        let shared = &self.shared;
        if shared.engine.health.is_closing() {
            return Err(Error::Closed);
        }
        let engine = &shared.engine;
        let mut report = CheckReport::new(mode);
        let mut scanned = ScannedRuns::default();
        scanned.progress = progress.clone();
        interrupter.set_on(&mut scanned.cancel);
        progress.note_to_check(match mode {
            CheckMode::Full => engine.store.space().stats().live,
            CheckMode::Quick => 0,
        });
        memory::check_memory(shared, mode, &mut report, &mut scanned);
        let live = LiveLog::before_slots(engine);
        let (slots, held) = engine.store.hold_slots();
        check_slots(&engine.store, &slots, &mut report)?;
        let good = good_slots(&slots);
        live.check(engine, &good, &mut report);
        // Places that the log names now may have been in use in an older version, and there is no
        // map of the current one to compare them with.
        check_versions(&engine.store, &good, &[], &mut report, &mut scanned);
        drop(held);
        if scanned.has_stopped { Err(Error::Interrupted) } else { Ok(report) }
    }
}

/// The state of an open store's log before its slots are read. While the check reads the log,
/// checkpoints remove segments and reuse them for later parts of the log, even segments of slots
/// that the check holds.
#[derive(PartialEq)]
struct LiveLog {
    /// The position from which the slots needed the log.
    needed: Lsn,
    /// The oldest segment: it may be removed later than `needed` moved past it, once the next one
    /// has started.
    oldest: Option<u64>,
}

impl LiveLog {
    fn before_slots(engine: &Engine) -> Self {
        let oldest = engine.log.as_ref().and_then(|log| log.oldest_segment());
        Self { needed: engine.store.log_needed_from(), oldest }
    }

    fn check(self, engine: &Engine, slots: &[Superblock], report: &mut CheckReport) {
        let (mut live, mut slots) = (self, slots.to_vec());
        let store = &engine.store;
        loop {
            // After the slots: they start before it. Before the files are listed: they contain
            // everything before it.
            let durable = engine.log.as_ref().map(|log| log.durable());
            let view = LogView { env: &engine.env, dir: store.dir(), store, durable };
            let mut own = CheckReport::new(report.mode);
            check_log(&view, &slots, report.mode, &mut own, &mut ReadBlobs::default());
            // Damage is reported if no segment was removed meanwhile. Otherwise the check of the
            // log is repeated.
            let now = Self::before_slots(engine);
            if own.is_clean() || now == live || plant!("check: a log that moved on is damage") {
                report.checked.log_records += own.checked.log_records;
                report.checked.blobs += own.checked.blobs;
                own.findings.into_iter().for_each(|finding| report.add(finding));
                return;
            }
            live = now;
            slots = good_slots(&store.examine_slots());
        }
    }
}

fn good_slots(slots: &[SlotState; 2]) -> Vec<Superblock> {
    let good = slots.iter().filter_map(|slot| match slot {
        SlotState::Good(superblock) => Some(**superblock),
        _ => None,
    });
    let mut good: Vec<Superblock> = good.collect();
    good.sort_by_key(|superblock| std::cmp::Reverse(superblock.sequence));
    good
}

/// Checks the slots. A crash may tear the slot that was being written: then the other one shows
/// that the store was not closed.
fn check_slots(store: &Store, slots: &[SlotState; 2], report: &mut CheckReport) -> Result<()> {
    let good = good_slots(slots);
    let may_be_torn = good.first().is_some_and(|newest| newest.clean.is_none());
    let path = store.file().path();
    for (index, slot) in slots.iter().enumerate() {
        match slot {
            SlotState::Good(superblock) => {
                let (found, expected) = (store.file().file.len(), superblock.totals.file_bytes);
                let found = found.map_err(|error| Error::io(path, "measure", 0, error))?;
                if found < expected {
                    let what = format!("the file has {found} bytes, slot {index} says {expected}");
                    report.add(Finding { file: path.to_owned(), ..damage("superblock", what) });
                }
            }
            SlotState::Bad(why) => {
                let what = format!("slot {index} cannot be used: {why}");
                let say = if may_be_torn { warning } else { damage };
                report.add(Finding { file: path.to_owned(), ..say("superblock", what) });
            }
            SlotState::TooNew(what) => {
                return Err(Error::TooNew { file: path.to_owned(), what: what.clone() });
            }
        }
    }
    Ok(())
}

/// Checks the versions of good slots, newest first, and the newest against the extents that the log
/// names.
fn check_versions(
    store: &Arc<Store>,
    slots: &[Superblock],
    named: &[(PageKind, Extent)],
    report: &mut CheckReport,
    scanned: &mut ScannedRuns,
) {
    let mode = report.mode;
    let mut check = VersionCheck { store, mode, report, scanned };
    let Some(newest) = slots.first() else { return };
    let older = slots.get(1);
    let checked = check.newest(newest, older);
    if let Some(checked) = &checked {
        check.named_in_log(named, checked);
    }
    match (checked, older) {
        (Some(checked), Some(older)) if older.publish == newest.previous => {
            check.older(older, &checked);
        }
        // The version to which opening would fall back.
        (None, Some(older)) => drop(check.newest(older, None)),
        _ => {}
    }
}
