//! Long operations outside transactions: cancelling them from another thread, and their progress.

use std::ffi::c_void;

use frond::{CheckMode, Interrupter, Progress};

use crate::{
    batch::frond_load,
    bytes::{give, given, given_mut, take_back},
    cursor::frond_cursor,
    error::{Fail, call, frond_error, misuse},
    store::{frond_db, frond_line},
    waits::frond_interrupter,
};

/// Progress of a long operation. Any thread may read it, during the operation and after it. Release
/// it with frond_progress_free.
pub struct frond_progress {
    progress: Progress,
}

/// Counts of a progress at one moment. They only grow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_progress_counts {
    /// Rows put into a load; for a build, into all of its indexes.
    pub rows: u64,
    /// Rows that went through a sort or a merge beyond memory; a row counts each time.
    pub sorted: u64,
    /// The final value of `sorted`, as far as it is known; set once the end of a load has started.
    pub to_sort: u64,
    /// Rows that are in the new trees, out of `rows`; set once the end of a load has started.
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

/// Makes a handle of a progress.
pub(crate) unsafe fn give_progress(
    out: *mut *mut frond_progress,
    of: impl FnOnce() -> Result<Progress, Fail>,
) -> Result<(), Fail> {
    // SAFETY: see `bytes.rs`.
    unsafe { give(out, || Ok(frond_progress { progress: of()? })) }
}

/// Creates a progress for frond_check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_progress_new(
    progress: *mut *mut frond_progress,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe { call(error, || give_progress(progress, || Ok(Progress::default()))) }
}

/// Returns the progress of a load, which can be read also while the load is being finished.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_progress(
    load: *const frond_load,
    progress: *mut *mut frond_progress,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || give_progress(progress, || Ok(given(load, "the load")?.load.progress())))
    }
}

/// Reads the current counts of a progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_progress_now(
    progress: *const frond_progress,
    counts: *mut frond_progress_counts,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let now = given(progress, "the progress")?.progress.now();
            *given_mut(counts, "the place for the counts")? = frond_progress_counts {
                rows: now.rows,
                sorted: now.sorted,
                to_sort: now.to_sort,
                written: now.written,
                rounds: now.rounds,
                changes: now.changes,
                checked_bytes: now.checked_bytes,
                to_check_bytes: now.to_check_bytes,
            };
            Ok(())
        })
    }
}

/// Releases a progress. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_progress_free(progress: *mut frond_progress) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(progress, "the progress").map(drop)) };
}

/// Creates an interrupter that belongs to no transaction, for the operations that it is to cancel:
/// cursors, loads, index builds, checks. These also accept the interrupter of a transaction.
/// frond_interrupt cancels all of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_interrupter_new(
    interrupter: *mut *mut frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(interrupter, || Ok(frond_interrupter { interrupter: Interrupter::new() }))
        })
    }
}

/// Clears an interrupter that belongs to no transaction, so that the operations it was set on can
/// go on. The interrupter of a transaction is cleared only by frond_txn_clear_interrupt. Null is
/// allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_interrupter_clear(interrupter: *const frond_interrupter) {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(std::ptr::null_mut(), || {
            given(interrupter, "what it is stopped by")?.interrupter.clear();
            Ok(())
        });
    }
}

/// Makes a cursor over a snapshot or outside transactions cancellable: after this call, an
/// interrupt ends its calls with FRD-1106, at the latest when it returns rows that were fetched
/// before. Once the interrupt is cleared, the cursor goes on where it was. A cursor of a
/// transaction observes the transaction's interrupts by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_cursor_set_interrupter(
    cursor: *mut frond_cursor,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let interrupter = &given(interrupter, "what it is stopped by")?.interrupter;
            match given_mut(cursor, "the cursor")?.of_moment() {
                Some(walk) => {
                    walk.set_interrupter(interrupter);
                    Ok(())
                }
                None => Err(misuse("a cursor of a transaction is interrupted only with it")),
            }
        })
    }
}

/// Makes a load cancellable: after this call, an interrupt ends the load's current call, also
/// frond_loads_finish, with FRD-1106, and the load with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_set_interrupter(
    load: *mut frond_load,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let interrupter = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(load, "the load")?.load.set_interrupter(interrupter);
            Ok(())
        })
    }
}

/// Checks the store while it is open: with `full` all of it, which reads everything once, otherwise
/// the log and a few pages. Others go on meanwhile. `clean` becomes true if no damage was found.
/// `tell`, which may be null, is called with each finding in words. `interrupter` and `progress`
/// may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_check(
    db: *const frond_db,
    full: bool,
    interrupter: *const frond_interrupter,
    progress: *const frond_progress,
    tell: frond_line,
    context: *mut c_void,
    clean: *mut bool,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (db, clean) =
                (&given(db, "the store")?.db, given_mut(clean, "the place for the answer")?);
            let mode = if full { CheckMode::Full } else { CheckMode::Quick };
            let interrupter = interrupter.as_ref().map(|given| given.interrupter.clone());
            let told = progress.as_ref().map(|given| given.progress.clone());
            let report = db.check_cancellable(
                mode,
                &interrupter.unwrap_or_default(),
                &told.unwrap_or_default(),
            )?;
            *clean = report.is_clean();
            if tell.is_some() {
                let lines = report.findings.iter().map(ToString::to_string);
                crate::store::tell_lines(tell, context, lines)?;
            }
            Ok(())
        })
    }
}
