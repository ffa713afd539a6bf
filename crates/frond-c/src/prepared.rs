//! Two-phase commit: transactions are prepared under a name, and committed or rolled back later.

use std::ffi::c_void;

use frond::{PreparedTxn, Xid};

use crate::{
    bytes::{bytes, give, given, given_mut, take_back},
    error::{Fail, call, frond_error, misuse},
    store::{durability, frond_db},
    txn::{end, frond_txn},
};

/// Maximum length of the name of a prepared transaction, bytes.
pub const FROND_XID_BYTES_MAX: usize = 255;

// cbindgen shows only literals in the header.
const _: () = assert!(FROND_XID_BYTES_MAX == frond::XID_BYTES_MAX);

/// A prepared transaction that is attached to this session.
pub struct frond_prepared {
    prepared: PreparedTxn,
}

unsafe fn xid(data: *const u8, length: usize) -> Result<Xid, Fail> {
    // SAFETY: see `bytes.rs`, here and below.
    Ok(Xid::new(unsafe { bytes(data, length, "the xid") }?)?)
}

/// Prepares a transaction: makes everything that it has written durable under a name, without
/// deciding it. It is in-doubt from then on, and survives a crash, with the rows that it writes
/// locked. `level` is FROND_SYNC, unless the coordinator can afford to lose the transaction.
///
/// The transaction's handle is released, except after FRD-1001 (it has cursors; the name or the
/// level is not allowed). After any other error the transaction is rolled back. The exception is
/// FRD-3203 (and FRD-3202 after it): the store has stopped; open it again and check whether the
/// transaction is prepared.
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
                let level =
                    level.ok_or_else(|| misuse("the durability of the prepare is missing"))?;
                Ok(frond_prepared { prepared: end(txn)?.prepare_with(&xid, level)? })
            })
        })
    }
}

/// Attaches a detached prepared transaction to this session: FRD-1110 if there is none with this
/// name, FRD-1112 if it is attached to another session.
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

/// Gives the commit its place in the commit order: from here on the transaction is decided.
/// `seqno`, which may be null, receives its number. Others see the commit at the latest when
/// frond_prepared_commit or frond_prepared_detach returns.
///
/// The log space for it was reserved by the prepare, or when the store was opened. So it waits for
/// no disk, and fails only once the store has stopped. There is one exception: if opening warned of
/// FRD-1303 (frond_warnings), the disk had no such space then. Until it has, this may fail with
/// FRD-1301, and the transaction is still prepared.
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

/// Commits a prepared transaction, at the store's durability (FROND_AS_STORE) or another. The
/// handle is released. After an error the transaction is still prepared. The exception is FRD-3203
/// (and FRD-3202 after it): the store has stopped; open it again and check whether the transaction
/// is prepared or committed. Once the commit is ordered, every error means that.
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

/// Rolls back a prepared transaction. The handle is released. After an error the transaction is
/// still prepared. The exception is FRD-3203 (and FRD-3202 after it): the store has stopped; open
/// it again and check whether it is. If the commit is ordered, the transaction is committed: then
/// the error is FRD-1001, and the handle stays valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_rollback(
    prepared: *mut frond_prepared,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            if given(prepared, "what is prepared")?.prepared.is_ordered() {
                return Err(misuse("a prepared transaction can only be committed in its order"));
            }
            Ok(take_back(prepared, "what is prepared")?.prepared.rollback()?)
        })
    }
}

/// Detaches a prepared transaction, and releases the handle: any session can then decide it by its
/// name. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_prepared_detach(prepared: *mut frond_prepared) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(prepared, "what is prepared").map(drop)) };
}

/// Callback that receives a prepared transaction: its name, the number of rows that it writes, and
/// whether it is detached.
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

/// Lists all in-doubt transactions, ordered by name. With `only_new`, only those that existed when
/// the store was opened and that no earlier such call has listed.
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
            let tell = tell.ok_or_else(|| misuse("the callback is null"))?;
            let found = if only_new { db.recover_prepared() } else { db.prepared() };
            for one in found {
                let xid = one.xid.as_bytes();
                tell(context, xid.as_ptr(), xid.len(), one.entries, one.is_detached);
            }
            Ok(())
        })
    }
}
