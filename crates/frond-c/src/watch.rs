//! Statistics of a store: counters, latencies, and a text that lists lock holders and waiters.

use std::ffi::{c_char, c_void};

use crate::{bytes::*, error::*, store::*};

/// Duration of commits, from the call to its return. If commits do not wait for the disk, about one
/// in sixteen is timed.
pub const FROND_COMMITS: i32 = 1;
/// Duration of commits' waits for a sync of the log; only commits that waited count.
pub const FROND_SYNC_WAITS: i32 = 2;
/// Duration of calls' waits for locks; only calls that waited count.
pub const FROND_LOCK_WAITS: i32 = 3;

/// Reports the current holders of locks or snapshots, one line each, longest first: how long they
/// have held them, how much they have written, and the commit whose state they read. Includes
/// snapshots that belong to no transaction. A transaction that holds neither, because it has done
/// nothing yet or is between two statements at FROND_READ_COMMITTED, is not reported.
#[api]
fn frond_transactions(db: &frond_db, visit: frond_line, context: *mut c_void) -> Done {
    visit_lines(visit, context, db.0.transactions().iter().map(ToString::to_string))
}

/// Reports the calls that currently wait for locks, one line each: the waiter, the tree, the start
/// of the key (in quotes), and the holder. Other waits are not reported: waits of a transaction,
/// before its first lock, for batches that are being committed; waits for background work that
/// cannot keep up; and waits for space in memory, in the log or on disk.
#[api]
fn frond_lock_waits(db: &frond_db, visit: frond_line, context: *mut c_void) -> Done {
    visit_lines(visit, context, db.0.lock_waits().iter().map(ToString::to_string))
}

/// Describes the last deadlock in words, with the names of trees and the starts of keys.
/// FROND_NOT_FOUND if there was none.
#[api]
fn frond_last_deadlock(db: &frond_db, words: &mut frond_buffer) -> Done {
    let last = db.0.last_deadlock().ok_or(Fail::NotFound)?;
    words.copy(last.to_string().as_bytes());
    Ok(())
}

/// Returns one of the numbers that `frond stats` prints: counters and sizes. FROND_NOT_FOUND if
/// there is no such name.
#[api]
fn frond_stat(db: &frond_db, name: &str, value: &mut u64) -> Done {
    set(value, db.0.stats().get(name).ok_or(Fail::NotFound)?)
}

/// Callback that receives a number and its name, which is terminated by a zero byte.
// SAFETY: where it is called, its arguments are valid until it returns.
pub type frond_number =
    Option<unsafe extern "C" fn(context: *mut c_void, name: *const c_char, value: u64)>;

/// Reports all numbers that `frond stats` prints, in a fixed order.
#[api]
fn frond_stats(db: &frond_db, visit: frond_number, context: *mut c_void) -> Done {
    let visit = callback(visit)?;
    for (name, value) in db.0.stats().iter() {
        let name = format!("{name}\0");
        // SAFETY: the caller's function; the name is valid until it returns.
        unsafe { visit(context, name.as_ptr().cast(), value) };
    }
    Ok(())
}

/// Returns latencies since the store was opened; `what` is FROND_COMMITS, …. `count` receives the
/// number of operations that were timed. `nanos` receives a quantile of their durations: the time
/// that `per_mille` of every thousand did not exceed, overstated by at most an eighth. 500 asks for
/// the median, 1000 for the longest. Both may be null.
#[api]
fn frond_times(
    db: &frond_db,
    what: i32,
    per_mille: u32,
    count: Option<&mut u64>,
    nanos: Option<&mut u64>,
) -> Done {
    let stats = db.0.stats();
    let times = match what {
        FROND_COMMITS => stats.commits,
        FROND_SYNC_WAITS => stats.sync_waits,
        FROND_LOCK_WAITS => stats.lock_waits,
        other => return Err(misuse(format!("unknown latency histogram {other}"))),
    };
    if per_mille > 1000 {
        return Err(misuse(format!("`per_mille` is {per_mille}, more than 1000")));
    }
    set(count, times.count())?;
    set(nanos, u64::try_from(times.per_mille(per_mille).as_nanos()).unwrap_or(u64::MAX))
}
