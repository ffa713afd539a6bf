//! Long operations outside transactions: cancelling them from another thread, and their progress.

use std::ffi::c_void;

use frond::{Interrupter, check::CheckMode, load::Progress};

use crate::{
    batch::frond_load, bytes::*, cursor::frond_cursor, error::*, store::*, waits::frond_interrupter,
};

/// Progress of a long operation. Any thread may read it, during and after the operation. Release it
/// with frond_progress_free.
pub struct frond_progress(pub(crate) Progress);

/// Counters of a long operation's progress at one moment. They never decrease.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_progress_counts {
    /// Rows put into a load; for a build, into all of its indexes.
    pub rows: u64,
    /// Rows that went through an external sort or merge; a row counts each time.
    pub sorted: u64,
    /// The final value of `sorted`, as far as it is known; set once frond_loads_finish has started.
    pub to_sort: u64,
    /// Rows that are in the new trees, out of `rows`; set once frond_loads_finish has started.
    pub written: u64,
    /// Rounds of a build that have ended.
    pub rounds: u64,
    /// Rows that these rounds have returned.
    pub changes: u64,
    /// Bytes of the file that a check has read.
    pub checked_bytes: u64,
    /// The final value of `checked_bytes`, approximately.
    pub to_check_bytes: u64,
}

/// Creates a progress object for frond_check.
#[api]
fn frond_progress_new(progress: New<frond_progress>) -> Done {
    progress.give(frond_progress(Progress::default()))
}

/// Returns the progress of a load, which can also be read while the load is being finished.
#[api]
fn frond_load_progress(load: &frond_load, progress: New<frond_progress>) -> Done {
    progress.give(frond_progress(load.0.progress()))
}

/// Reads the current counters of a progress object.
#[api]
fn frond_progress_now(progress: &frond_progress, counts: &mut frond_progress_counts) {
    let now = progress.0.now();
    *counts = frond_progress_counts {
        rows: now.rows,
        sorted: now.sorted,
        to_sort: now.to_sort,
        written: now.written,
        rounds: now.rounds,
        changes: now.changes,
        checked_bytes: now.checked_bytes,
        to_check_bytes: now.to_check_bytes,
    };
}

/// Releases a progress object. Null is allowed.
#[api]
fn frond_progress_free(progress: Option<Box<frond_progress>>) {}

/// Creates an interrupter that belongs to no transaction, for the operations that it is to cancel:
/// cursors, loads, index builds, checks. These also accept the interrupter of a transaction.
/// frond_interrupt cancels all of them.
#[api]
fn frond_interrupter_new(interrupter: New<frond_interrupter>) -> Done {
    interrupter.give(frond_interrupter(Interrupter::new()))
}

/// Clears an interrupter that belongs to no transaction, so that the operations it was set on can
/// continue. The interrupter of a transaction is cleared only by frond_txn_clear_interrupt. Null is
/// allowed.
#[api]
fn frond_interrupter_clear(interrupter: Option<&frond_interrupter>) {
    interrupter.inspect(|given| given.0.clear());
}

/// Makes a cursor over a snapshot or outside transactions cancellable: after this call, an
/// interrupt ends its calls with FRD-1106. Rows that the engine has already read ahead, up to some
/// thousands, may be returned first. Once the interrupt is cleared, the cursor continues where it
/// was. FRD-1001 for other cursors: one of a transaction observes the transaction's interrupts by
/// itself, and one over a temporary tree those of the transaction that writes the tree.
#[api]
fn frond_cursor_set_interrupter(
    cursor: &mut frond_cursor,
    interrupter: &frond_interrupter,
) -> Done {
    let walk = cursor.snapshot_cursor();
    walk.ok_or_else(|| misuse("only a cursor of frond_scan or frond_snapshot_scan takes an interrupter; others observe that of their transaction"))?
        .set_interrupter(&interrupter.0);
    Ok(())
}

/// Makes a load cancellable: after this call, an interrupt ends the load and its current call,
/// which may be frond_loads_finish, with FRD-1106.
#[api]
fn frond_load_set_interrupter(load: &mut frond_load, interrupter: &frond_interrupter) {
    load.0.set_interrupter(&interrupter.0);
}

/// Checks the store while it is open. With `full`, reads all of it once; otherwise only the log and
/// a few pages. Others can use the store meanwhile. `clean` receives true if no damage was found.
/// `visit`, which may be null, receives each finding as text. `interrupter` and `progress` may be
/// null.
#[api]
fn frond_check(
    db: &frond_db,
    full: bool,
    interrupter: Option<&frond_interrupter>,
    progress: Option<&frond_progress>,
    visit: frond_line,
    context: *mut c_void,
    clean: &mut bool,
) -> Done {
    let mode = if full { CheckMode::Full } else { CheckMode::Quick };
    let interrupter = interrupter.map(|given| given.0.clone()).unwrap_or_default();
    let progress = progress.map(|given| given.0.clone()).unwrap_or_default();
    let report = db.0.check_cancellable(mode, &interrupter, &progress)?;
    *clean = report.is_clean();
    match visit {
        Some(_) => visit_lines(visit, context, report.findings.iter().map(ToString::to_string)),
        None => Ok(()),
    }
}
