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

/// Says how far long work is: to any thread, also while the work goes on and after it. To be given back by frond_progress_free.
pub struct frond_progress {
    progress: Progress,
}

/// What a progress says at a moment; numbers only grow.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_progress_counts {
    /// Rows that were put into a load; of a build, into all of its indexes.
    pub rows: u64,
    /// Rows that went through a sort or a merge beyond memory, as often as they did.
    pub sorted: u64,
    /// So many of these are known to be done in all, from the begin of a load's end on.
    pub to_sort: u64,
    /// Rows that are in the new trees, of `rows`, from the begin of a load's end on.
    pub written: u64,
    /// Rounds of a build that have come to their end.
    pub rounds: u64,
    /// Rows that they have given.
    pub changes: u64,
    /// Bytes of the file that a check has read.
    pub checked_bytes: u64,
    /// Of about so many in all.
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

/// Makes one, for frond_check.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_progress_new(
    progress: *mut *mut frond_progress,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe { call(error, || give_progress(progress, || Ok(Progress::default()))) }
}

/// Gives what says how far a load is, also while it is being finished.
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

/// What it says now.
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

/// Gives the handle back. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_progress_free(progress: *mut frond_progress) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(progress, "the progress").map(drop)) };
}

/// Makes an interrupter that is of no transaction, for what can be told to heed it: cursors, loads, builds of indexes, checks. They heed that of a
/// transaction, too. frond_interrupt stops all that heed it.
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

/// Says of one that is of no transaction that what it was for is done: what heeds it goes on. That of a transaction is cleared by
/// frond_txn_clear_interrupt alone. Null is allowed.
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

/// From here on an interrupt ends the calls of a cursor over a snapshot, or outside of transactions, with FRD-1106, at the latest when
/// rows are handed out that are fetched already; once it is cleared the cursor goes on where it was. One of a transaction heeds that by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_cursor_heed(
    cursor: *mut frond_cursor,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let heeded = &given(interrupter, "what it is stopped by")?.interrupter;
            match given_mut(cursor, "the cursor")?.of_moment() {
                Some(walk) => {
                    walk.heed(heeded);
                    Ok(())
                }
                None => Err(misuse("a cursor of a transaction heeds that alone")),
            }
        })
    }
}

/// From here on an interrupt ends the call that a load is in, also frond_loads_finish, with FRD-1106, and with it the load.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_load_heed(
    load: *mut frond_load,
    interrupter: *const frond_interrupter,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let heeded = &given(interrupter, "what it is stopped by")?.interrupter;
            given_mut(load, "the load")?.load.heed(heeded);
            Ok(())
        })
    }
}

/// Checks the store while it is open: all of it if `full`, which reads everything once, else the log and a few pages. Others go on. `clean`
/// gets whether no damage was found; `tell`, which may be null, is called with each finding in words. `interrupter` and `progress`
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
            let heeded = interrupter.as_ref().map(|given| given.interrupter.clone());
            let told = progress.as_ref().map(|given| given.progress.clone());
            let report =
                db.check_heeding(mode, &heeded.unwrap_or_default(), &told.unwrap_or_default())?;
            *clean = report.is_clean();
            if tell.is_some() {
                let lines = report.findings.iter().map(ToString::to_string);
                crate::store::tell_lines(tell, context, lines)?;
            }
            Ok(())
        })
    }
}
