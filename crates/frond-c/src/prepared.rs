//! Two-phase commit: transactions are prepared under a name, and committed or rolled back later.

use std::ffi::c_void;

use frond::{PreparedTxn, Xid};

use crate::{
    bytes::{bytes, give, given, given_mut, take_back},
    error::{Fail, call, frond_error, misuse},
    store::{durability, frond_db},
    txn::{end, frond_txn},
};

/// Longest name of a prepared transaction, bytes.
pub const FROND_XID_BYTES_MAX: usize = 255;

// cbindgen shows only literals in the header.
const _: () = assert!(FROND_XID_BYTES_MAX == frond::XID_BYTES_MAX);

/// A transaction that is prepared, in this session's hands.
pub struct frond_prepared {
    prepared: PreparedTxn,
}

unsafe fn xid(data: *const u8, length: usize) -> Result<Xid, Fail> {
    // SAFETY: see `bytes.rs`, here and below.
    Ok(Xid::new(unsafe { bytes(data, length, "the xid") }?)?)
}

/// Makes everything written durable under a name, undecided: it survives a crash with the rows it writes locked. The
/// transaction's handle is given back, but not with FRD-1001 (cursors, the name, the level); on another error all is
/// rolled back; but FRD-3203 (and FRD-3202 behind it): the store has stopped; after opening it look whether it is prepared.
/// `level` is FROND_SYNC, unless whoever coordinates loses nothing by a transaction that is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_prepare(
    txn: *mut frond_txn,
    xid_data: *const u8,
    xid_length: usize,
    level: i32,
    prepared: *mut *mut frond_prepared,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(prepared, || {
                let xid = xid(xid_data, xid_length)?;
                let level = durability(level)?;
                let level = level.ok_or_else(|| misuse("say how durable the prepare is to be"))?;
                Ok(frond_prepared { prepared: end(txn)?.prepare_with(&xid, level)? })
            })
        })
    }
}

/// Takes a prepared transaction in hand that nobody has: FRD-1110 if there is none, FRD-1112 if another has it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_attach(
    db: *const frond_db,
    xid_data: *const u8,
    xid_length: usize,
    prepared: *mut *mut frond_prepared,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(prepared, || {
                let db = &given(db, "the store")?.db;
                Ok(frond_prepared { prepared: db.attach_prepared(&xid(xid_data, xid_length)?)? })
            })
        })
    }
}

/// Gives the commit its place in the order of all: from here on it is decided. The log has kept room for it since the prepare, or
/// since the store was opened, so that it waits for no disk and fails only once the store has stopped; but where opening has warned of
/// FRD-1303 (frond_warnings) there was none on the disk then: until there is it may fail with FRD-1301, and is prepared still. `seqno`, which may be null, gets its
/// number. Others see it at the latest when frond_prepared_commit returns, or frond_prepared_detach.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_commit_ordered(
    prepared: *mut frond_prepared,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let ordered = given_mut(prepared, "what is prepared")?.prepared.commit_ordered()?;
            if let Some(seqno) = seqno.as_mut() {
                *seqno = ordered.0;
            }
            Ok(())
        })
    }
}

/// Commits, at the store's level (FROND_AS_STORE) or another. The handle is given back; on an error it is prepared still;
/// but FRD-3203 (and FRD-3202 behind it): the store has stopped; after opening it look whether it is prepared or committed. Once it is ordered
/// every error means that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_commit(
    prepared: *mut frond_prepared,
    level: i32,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let level = durability(level)?;
            let prepared = take_back(prepared, "what is prepared")?.prepared;
            match level {
                Some(level) => prepared.commit_with(level)?,
                None => prepared.commit()?,
            };
            Ok(())
        })
    }
}

/// Takes everything back. The handle is given back; on an error it is prepared still; but FRD-3203 (and FRD-3202 behind
/// it): the store has stopped; after opening it look whether it is. Once it is ordered it is committed: FRD-1001, and the handle stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_rollback(
    prepared: *mut frond_prepared,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            if given(prepared, "what is prepared")?.prepared.is_ordered() {
                return Err(misuse("what is prepared has its place in the order: it is committed"));
            }
            Ok(take_back(prepared, "what is prepared")?.prepared.rollback()?)
        })
    }
}

/// Lets go of it: it waits for a decision by its name, from any session. Gives the handle back; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_detach(prepared: *mut frond_prepared) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(prepared, "what is prepared").map(drop)) };
}

/// Is told a transaction that is prepared: its name, the rows that it writes, and whether nobody has it in hand.
// SAFETY: where it is called, its arguments are valid until it returns.
pub type frond_prepared_line = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        xid: *const u8,
        xid_length: usize,
        rows: usize,
        is_detached: bool,
    ),
>;

/// Tells all transactions that are prepared and not decided, by name; with `only_new` those that were there when the
/// store was opened, each in one call alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_list(
    db: *const frond_db,
    only_new: bool,
    tell: frond_prepared_line,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let db = &given(db, "the store")?.db;
            let tell = tell.ok_or_else(|| misuse("the function to be told is null"))?;
            let found = if only_new { db.recover_prepared() } else { db.prepared() };
            for one in found {
                let xid = one.xid.as_bytes();
                tell(context, xid.as_ptr(), xid.len(), one.entries, one.is_detached);
            }
            Ok(())
        })
    }
}
