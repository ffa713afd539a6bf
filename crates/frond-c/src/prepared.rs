//! Two-phase commit: transactions are prepared under a name, then committed or rolled back.

use std::ffi::c_void;

use frond::transaction::{PreparedTxn, Xid};

use crate::{bytes::*, error::*, store::*, txn::*};

/// Maximum length of the name of a prepared transaction, in bytes.
pub const FROND_XID_BYTES_MAX: usize = 255;

// cbindgen shows only literals in the header.
const _: () = assert!(FROND_XID_BYTES_MAX == frond::transaction::XID_BYTES_MAX);

/// A prepared transaction that is attached to this session.
pub struct frond_prepared(PreparedTxn);

/// Prepares a transaction: makes everything that it has written durable under a name, without
/// deciding whether it commits. From then on it is in-doubt: it survives a crash, and the rows that
/// it writes stay locked. `level` is FROND_SYNC, unless the coordinator can afford to lose the
/// transaction.
///
/// The transaction's handle is released, except after FRD-1001 (it has cursors; the name or the
/// level is not allowed). After any other error the transaction is rolled back. The exception is
/// FRD-3203 (and FRD-3202 after it): the store has stopped; open it again and check whether the
/// transaction is prepared.
#[api]
fn frond_txn_prepare(
    txn: Owned<frond_txn>,
    #[length(xid_length)] xid_data: &[u8],
    level: i32,
    prepared: New<frond_prepared>,
) -> Done {
    let (xid, level) = (Xid::new(xid_data)?, durability(level)?);
    let level = level.ok_or_else(|| {
        misuse("FROND_AS_STORE is not allowed here: a prepare needs a durability level")
    })?;
    prepared.give(frond_prepared(end(txn)?.prepare_with(&xid, level)?))
}

/// Attaches a detached prepared transaction to this session: FRD-1110 if there is none with this
/// name, FRD-1112 if it is attached to another session.
#[api]
fn frond_prepared_attach(
    db: &frond_db,
    #[length(xid_length)] xid_data: &[u8],
    prepared: New<frond_prepared>,
) -> Done {
    prepared.give(frond_prepared(db.0.attach_prepared(&Xid::new(xid_data)?)?))
}

/// Assigns the commit its place in the commit order: from then on the transaction is decided.
/// `seqno`, which may be null, receives the number of the commit. Other sessions see the commit at
/// the latest when frond_prepared_commit or frond_prepared_detach returns.
///
/// The log space for the commit was reserved by the prepare, or when the store was opened. So this
/// call does not wait for the disk, and fails only once the store has stopped. There is one
/// exception: if opening the store warned of FRD-1303 (frond_warnings), the disk had no space to
/// reserve. Until space is available, this call may fail with FRD-1301; the transaction then
/// remains prepared.
#[api]
fn frond_prepared_commit_ordered(prepared: &mut frond_prepared, seqno: Option<&mut u64>) -> Done {
    set(seqno, prepared.0.commit_ordered()?.0)
}

/// Commits a prepared transaction, at the store's durability (FROND_AS_STORE) or another. The
/// handle is released. After an error the transaction is still prepared. The exception is FRD-3203
/// (and FRD-3202 after it): the store has stopped; open it again and check whether the transaction
/// is prepared or committed. After frond_prepared_commit_ordered, every error has this meaning.
#[api]
fn frond_prepared_commit(prepared: Owned<frond_prepared>, level: i32) -> Done {
    match durability(level)? {
        Some(level) => prepared.take().0.commit_with(level)?,
        None => prepared.take().0.commit()?,
    };
    Ok(())
}

/// Rolls back a prepared transaction. The handle is released. After an error the transaction is
/// still prepared. The exception is FRD-3203 (and FRD-3202 after it): the store has stopped; open
/// it again and check whether it is still prepared. If the commit is ordered, the transaction is
/// committed: then the error is FRD-1001, and the handle stays valid.
#[api]
fn frond_prepared_rollback(prepared: Owned<frond_prepared>) -> Done {
    if prepared.0.is_ordered() {
        return Err(misuse(
            "the commit is already ordered, so the transaction can only be committed",
        ));
    }
    Ok(prepared.take().0.rollback()?)
}

/// Detaches a prepared transaction, and releases the handle: any session can then decide it by its
/// name. Null is allowed.
#[api]
fn frond_prepared_detach(prepared: Option<Box<frond_prepared>>) {}

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
#[api]
fn frond_prepared_list(
    db: &frond_db,
    only_new: bool,
    visit: frond_prepared_line,
    context: *mut c_void,
) -> Done {
    let visit = callback(visit)?;
    for one in if only_new { db.0.take_recovered() } else { db.0.prepared() } {
        let xid = one.xid.as_bytes();
        // SAFETY: the caller's function; its arguments are valid until it returns.
        unsafe { visit(context, xid.as_ptr(), xid.len(), one.entries, one.is_detached) };
    }
    Ok(())
}
