// SPDX-License-Identifier: MIT OR Apache-2.0
//! The log against the slots: what recovery would read must be there, whole, and without a gap.
//!
//! A log that is being written is read up to where it was on disk when the check began; what comes
//! later is still moving.

use std::path::Path;

use crate::{
    Lsn, Seqno, StoreId,
    error::{Error, Result},
    io::Env,
    store::Superblock,
    wal::{self, Expect, Record},
};

use super::report::{CheckMode, CheckReport, Finding, damage, from_error};

/// Where a log is, and what is known of it.
pub(super) struct LogView<'a> {
    pub env: &'a Env,
    pub dir: &'a Path,
    pub store: StoreId,
    /// Everything before it is on disk, if the log is being written.
    pub durable: Option<Lsn>,
}

/// Good slots, newest first.
pub(super) fn check_log(
    view: &LogView<'_>,
    slots: &[Superblock],
    mode: CheckMode,
    report: &mut CheckReport,
) {
    let Some(newest) = slots.first() else { return };
    let Some(start) = slots.iter().min_by_key(|slot| slot.log_from) else { return };
    if newest.is_new() && !has_log(view) {
        return; // made, and never written to
    }
    let expect = match newest.clean {
        Some(end) => Expect::CleanEnd(end),
        None => Expect::Crashed { synced: newest.log_synced },
    };
    let mut reader = Reader {
        newest,
        base: start.applied,
        last: None,
        full: mode == CheckMode::Full,
        records: 0,
        bad: Vec::new(),
        sequence: 0,
    };
    let read = wal::recover(
        view.env,
        view.dir,
        view.store,
        start.log_from,
        expect,
        &mut |lsn, payload| reader.record(lsn, payload),
    );
    report.checked.log_records += reader.records;
    let found = |what: String| Finding { file: view.dir.to_owned(), ..damage("log", what) };
    for (lsn, what) in reader.bad {
        report.add(Finding { offset: lsn.0, ..found(what) });
    }
    if reader.sequence > newest.sequence && view.durable.is_none() {
        let what = format!(
            "the log knows superblock {}, and the newest one is {}: a write of a slot was lost",
            reader.sequence, newest.sequence
        );
        report.add(found(what));
    }
    let mut tell = |read: Result<wal::RecoveredTail>| match read {
        Ok(_) => {}
        Err(Error::WalDamaged { first_lost, .. })
            if view.durable.is_some_and(|durable| first_lost >= durable.0) => {}
        Err(error) => report.add(from_error(&error)),
    };
    tell(read);
    // Opening begins where the newest slot says, and may meet what reading from before it does not.
    if newest.log_from != start.log_from {
        let (env, dir) = (view.env, view.dir);
        let skip = &mut |_: Lsn, _: &[u8]| Ok(());
        tell(wal::recover(env, dir, view.store, newest.log_from, expect, skip));
    }
}

fn has_log(view: &LogView<'_>) -> bool {
    let names = view.env.vfs.list(view.dir).unwrap_or_default();
    names.iter().any(|name| name.to_string_lossy().starts_with("log-"))
}

struct Reader<'a> {
    newest: &'a Superblock,
    /// Boundary of the slot with which reading starts: all commits above it are in the log.
    base: Seqno,
    last: Option<Seqno>,
    full: bool,
    records: u64,
    bad: Vec<(Lsn, String)>,
    /// Highest slot that the log says is durable.
    sequence: u64,
}

impl Reader<'_> {
    fn record(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        self.records += 1;
        if self.bad.len() > 100 {
            return Ok(());
        }
        match wal::decode(lsn, payload) {
            Ok(Record::Checkpoint { sequence }) => self.sequence = self.sequence.max(sequence),
            Ok(Record::Commit { seqno, mut items }) => {
                self.commit(lsn, seqno);
                while self.full {
                    match items.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(error) => {
                            self.bad.push((lsn, error.to_string()));
                            break;
                        }
                    }
                }
            }
            Err(error) => self.bad.push((lsn, error.to_string())),
        }
        Ok(())
    }

    /// Every seqno above the boundary is in the log, in order, and where replay looks for it.
    fn commit(&mut self, lsn: Lsn, seqno: Seqno) {
        if self.last.is_some_and(|last| seqno <= last) {
            self.bad.push((lsn, format!("commit {seqno} comes after a later one")));
        } else if seqno > self.base {
            let before = self.last.map_or(self.base, |last| last.max(self.base));
            if seqno != before.next() {
                let what = format!("commits {} to {} are missing", before.next(), seqno.0 - 1);
                self.bad.push((lsn, what));
            }
        }
        if seqno > self.newest.applied && lsn < self.newest.log_from {
            let what = format!("commit {seqno} is in no tree, and lies before where replay begins");
            self.bad.push((lsn, what));
        }
        self.last = self.last.max(Some(seqno));
    }
}
