//! Transactions: calls that take effect together or not at all.

use std::sync::Arc;

use frond::{IfLocked, Isolation, ReadOptions, RowLock, Savepoint, Txn, TxnOptions};

use crate::{bytes::*, error::*, read_as::*, store::*};

/// Each call sees what was committed when it started. After frond_txn_begin_statement, all plain
/// reads of the statement see what was committed when the first of them started.
pub const FROND_READ_COMMITTED: i32 = 1;
/// Plain reads see what was committed when the first of them started; writes and locking reads use
/// the newest commit.
pub const FROND_REPEATABLE_READ: i32 = 2;
/// All reads see what was committed when the first of them started. If two transactions write the
/// same row, the second fails with FRD-1107. This is the default.
pub const FROND_SNAPSHOT: i32 = 3;
/// Like FROND_REPEATABLE_READ, but each plain read locks what it reads.
pub const FROND_SERIALIZABLE: i32 = 4;

/// A read locks nothing.
pub const FROND_NO_LOCK: i32 = 0;
/// A read locks the row against writers.
pub const FROND_SHARED: i32 = 1;
/// A read locks the row against everything but plain reads.
pub const FROND_EXCLUSIVE: i32 = 2;

/// If another transaction holds the row: wait, up to the transaction's lock timeout.
pub const FROND_WAIT: i32 = 0;
/// If another transaction holds the row (NOWAIT): fail with FRD-1105 at once.
pub const FROND_NO_WAIT: i32 = 1;
/// If another transaction holds the row (SKIP LOCKED): a scan skips it; a read of one row fails.
pub const FROND_SKIP_LOCKED: i32 = 2;
/// If another transaction holds the row (semi-consistent read): read its last committed version
/// without a lock, and report that (`locked`). Calls that cannot report it wait, and at
/// FROND_SERIALIZABLE all calls do.
pub const FROND_SEMI_CONSISTENT: i32 = 3;

/// A transaction. It ends with frond_txn_commit, frond_txn_prepare or frond_txn_rollback, once its
/// cursors are released.
pub struct frond_txn {
    pub(crate) txn: Arc<Txn>,
    /// Whether it is read-only: then it takes no locks, whatever its isolation level.
    pub(crate) is_read_only: bool,
}

/// Options of a transaction. Call frond_txn_options_init, then set fields.
#[repr(C)]
pub struct frond_txn_options {
    /// FROND_READ_COMMITTED, FROND_REPEATABLE_READ, FROND_SNAPSHOT, FROND_SERIALIZABLE.
    pub isolation: i32,
    /// Whether writing is an error; the transaction then never locks anything.
    pub read_only: bool,
    /// How long a call waits for locks, in milliseconds; below 0 means no limit.
    pub lock_timeout_ms: i64,
    /// When its commit is acknowledged: FROND_AS_STORE, FROND_SYNC, FROND_OS, FROND_LAZY.
    pub durability: i32,
    /// Identifies the transaction to the program's frond_lock_hooks; 0 for none.
    pub tag: u64,
}

/// Sets the defaults: FROND_SNAPSHOT, ten seconds, FROND_AS_STORE.
#[api]
fn frond_txn_options_init(options: Option<&mut frond_txn_options>) {
    let usual = TxnOptions::default();
    let Some(options) = options else { return };
    *options = frond_txn_options {
        isolation: FROND_SNAPSHOT,
        read_only: false,
        lock_timeout_ms: usual.lock_timeout.map_or(-1, |time| time.as_millis() as i64),
        durability: FROND_AS_STORE,
        tag: 0,
    };
}

fn options(from: &frond_txn_options) -> Done<TxnOptions> {
    let isolation = match from.isolation {
        FROND_READ_COMMITTED => Isolation::ReadCommitted,
        FROND_REPEATABLE_READ => Isolation::RepeatableRead,
        FROND_SNAPSHOT => Isolation::Snapshot,
        FROND_SERIALIZABLE => Isolation::Serializable,
        other => return Err(misuse(format!("unknown isolation level {other}"))),
    };
    Ok(TxnOptions::new()
        .isolation(isolation)
        .read_only(from.read_only)
        .lock_timeout(lock_timeout(from.lock_timeout_ms))
        .durability(durability(from.durability)?)
        .tag(from.tag))
}

/// The row lock of a number; `None` for no lock.
pub(crate) fn lock(number: i32) -> Done<Option<RowLock>> {
    match number {
        FROND_NO_LOCK => Ok(None),
        FROND_SHARED => Ok(Some(RowLock::Shared)),
        FROND_EXCLUSIVE => Ok(Some(RowLock::Exclusive)),
        other => Err(misuse(format!("unknown row lock {other}"))),
    }
}

pub(crate) fn if_locked(number: i32) -> Done<IfLocked> {
    match number {
        FROND_WAIT => Ok(IfLocked::Wait),
        FROND_NO_WAIT => Ok(IfLocked::NoWait),
        FROND_SKIP_LOCKED => Ok(IfLocked::SkipLocked),
        FROND_SEMI_CONSISTENT => Ok(IfLocked::SemiConsistent),
        other => Err(misuse(format!("unknown wait policy {other}"))),
    }
}

/// Begins a transaction. `options` may be null.
#[api]
fn frond_txn_begin(db: &frond_db, wanted: Option<&frond_txn_options>, txn: New<frond_txn>) -> Done {
    let wanted = wanted.map_or(Ok(TxnOptions::default()), options)?;
    let is_read_only = wanted.read_only;
    txn.give(frond_txn { txn: Arc::new(db.0.begin(wanted)?), is_read_only })
}

/// Reclaims the handle of a transaction that is to end. While it has a cursor this is an error, and
/// nothing is done.
pub(crate) fn end(txn: Owned<frond_txn>) -> Done<Txn> {
    if Arc::strong_count(&txn.txn) > 1 {
        return Err(misuse("the transaction has open cursors: release them before it ends"));
    }
    Arc::into_inner(txn.take().txn).ok_or_else(|| misuse("the transaction has open cursors"))
}

/// Commits a transaction: makes everything that it has written visible to others atomically.
/// `seqno`, which may be null, receives the number of the commit.
///
/// The handle is released, unless the transaction has cursors (FRD-1001). After any other error the
/// transaction is rolled back. The exception is FRD-3203 (and FRD-3202 after it): the store has
/// stopped, and others may have seen the commit; open the store again and check whether it is
/// there.
#[api]
fn frond_txn_commit(txn: Owned<frond_txn>, seqno: Option<&mut u64>) -> Done {
    set(seqno, end(txn)?.commit()?.0)
}

/// Rolls back a transaction. The handle is released, unless the transaction has cursors (FRD-1001).
#[api]
fn frond_txn_rollback(txn: Owned<frond_txn>) -> Done {
    end(txn).map(Txn::rollback)
}

/// Returns the number of the transaction, which identifies it in reports of waits and deadlocks; 0
/// if `txn` is null.
#[api]
fn frond_txn_id(txn: Option<&frond_txn>) -> u64 {
    txn.map_or(0, |txn| txn.txn.control().id())
}

/// Returns whether an error has ended the transaction: a deadlock (FRD-1102), a conflict
/// (FRD-1107), or an error that left its writes incomplete (a full disk, FRD-1301, may or may not
/// do so). Such a transaction is rolled back, its locks are released, and its calls fail with
/// FRD-1109; release the handle with frond_txn_rollback, as usual. After any other error the
/// transaction continues. True if `txn` is null, and once the store is closed.
#[api]
fn frond_txn_is_over(txn: Option<&frond_txn>) -> bool {
    txn.is_none_or(|txn| txn.txn.is_over())
}

/// Sets how long each later call waits for locks in total, in milliseconds. 0: a call that would
/// have to wait fails with FRD-1101 at once; below 0: no limit. Overrides `lock_timeout_ms` of the
/// transaction's options, for statements that set their own timeouts. A read with its own `wait_ms`
/// uses that instead. frond_txn_delete_range may wait this long for each row.
#[api]
fn frond_txn_set_lock_timeout(txn: &frond_txn, lock_timeout_ms: i64) {
    txn.txn.set_lock_timeout(lock_timeout(lock_timeout_ms));
}

/// Reads the value of a key, as the transaction sees it, into `value`. FROND_NOT_FOUND if there is
/// no such key; if a lock was requested with `row_lock`, the absent key is locked all the same. A
/// read with a lock sees the newest commit. At FROND_SERIALIZABLE, FROND_NO_LOCK means
/// FROND_SHARED.
#[api]
fn frond_txn_get(
    txn: &frond_txn,
    tree: &frond_tree,
    key: &[u8],
    row_lock: i32,
    when_locked: i32,
    value: &mut frond_buffer,
) -> Done {
    let (txn, tree) = (&txn.txn, &tree.0);
    let (lock, if_locked) = (lock(row_lock)?, if_locked(when_locked)?);
    value.fill(|out| match lock {
        None => {
            let options = ReadOptions::new().if_locked(if_locked);
            Ok(read(txn, (tree, key), &options, out)?.exists)
        }
        Some(lock) => {
            let found = txn
                .get_with(tree, key, &ReadOptions::new().lock(lock).if_locked(if_locked))
                .map(|row| row.into_value())?;
            Ok(found.map(|value| *out = value).is_some())
        }
    })
}

/// Sets a value, whether the key exists or not. The row is locked until the transaction ends.
#[api]
fn frond_txn_put(txn: &frond_txn, tree: &frond_tree, key: &[u8], value: &[u8]) -> Done {
    Ok(txn.txn.put(&tree.0, key, value)?)
}

/// Sets the value of a key that must not exist. FRD-1108 if it does; the transaction continues.
#[api]
fn frond_txn_insert(txn: &frond_txn, tree: &frond_tree, key: &[u8], value: &[u8]) -> Done {
    Ok(txn.txn.insert(&tree.0, key, value)?)
}

/// Sets the value of a key that the caller knows to be absent, without looking it up: for example,
/// of a row whose number was just reserved. If the key does exist, a later delete may bring the
/// older value back.
#[api]
fn frond_txn_put_absent(txn: &frond_txn, tree: &frond_tree, key: &[u8], value: &[u8]) -> Done {
    Ok(txn.txn.row_writer().put_absent(&tree.0, key, value)?)
}

/// Deletes a key, if it exists.
#[api]
fn frond_txn_delete(txn: &frond_txn, tree: &frond_tree, key: &[u8]) -> Done {
    Ok(txn.txn.delete(&tree.0, key)?)
}

/// Deletes all rows from `from` up to, but not including, `to`, including those that the
/// transaction wrote before the statement. Null with length 0 means no bound. `rows`, which may be
/// null, receives the number of rows. If the call fails, no row was deleted.
///
/// Each row is locked as by frond_txn_delete; at FROND_REPEATABLE_READ and FROND_SERIALIZABLE the
/// gaps between the rows are locked, too. At FROND_SNAPSHOT, a row that others have changed or
/// deleted since the snapshot causes FRD-1107. The call costs as much as deleting the rows one by
/// one. Outside transactions, frond_batch_delete_range costs no more than deleting one row; to
/// delete all rows of a tree, use frond_change_truncate.
#[api]
fn frond_txn_delete_range(
    txn: &frond_txn,
    tree: &frond_tree,
    range: Keys,
    rows: Option<&mut u64>,
) -> Done {
    set(rows, txn.txn.delete_range(&tree.0, range)?)
}

/// Sets the value of an existing row in a commit of its own, within the transaction: others see it
/// at once, it has the durability of the transaction, and no rollback undoes it. Meant for the next
/// number of a sequence. FROND_NOT_FOUND if there is no such row: nothing was done; create the row
/// with frond_put first. `seqno`, which may be null, receives the number of the commit.
///
/// The call neither waits for nor affects transactions that have only read the row under a shared
/// lock. In particular, it does not wait for its own transaction at FROND_SERIALIZABLE. It does
/// wait for exclusive holders and writers, like any call of the transaction: deadlocks are
/// detected, and an interrupt ends it. The row is not locked afterwards.
///
/// An existing snapshot still shows the old value. At FROND_SNAPSHOT, a transaction that has a
/// snapshot and then writes the row itself, including this transaction, gets FRD-1107. FRD-1001 if
/// the transaction has written the row before, or is read-only: use another transaction in that
/// case.
#[api]
fn frond_txn_put_autonomous(
    txn: &frond_txn,
    tree: &frond_tree,
    key: &[u8],
    value: &[u8],
    seqno: Option<&mut u64>,
) -> Done {
    let committed = txn.txn.row_writer().put_autonomous(&tree.0, key, value)?;
    set(seqno, committed.ok_or(Fail::NotFound)?.0)
}

/// Adds to an integer of 8 bytes, big-endian, with wraparound. A value of another length counts as
/// 0, as does a missing one.
pub const FROND_ADD: u8 = 1;
/// Keeps the greater of two values, compared as byte strings.
pub const FROND_MAX: u8 = 2;
/// Keeps the lesser of two values, compared as byte strings.
pub const FROND_MIN: u8 = 3;
/// Appends to a value.
pub const FROND_APPEND: u8 = 4;

// cbindgen shows only literals in the header.
const _: () = assert!(
    FROND_ADD == frond::operator::ADD
        && FROND_MAX == frond::operator::MAX
        && FROND_MIN == frond::operator::MIN
        && FROND_APPEND == frond::operator::APPEND
);

/// Folds an operand into a value without reading it. `operation` is FROND_ADD, …, or the number of
/// a user-defined operator (frond_operator).
#[api]
fn frond_txn_merge(
    txn: &frond_txn,
    tree: &frond_tree,
    key: &[u8],
    operation: u8,
    operand: &[u8],
) -> Done {
    Ok(txn.txn.merge(&tree.0, key, operation, operand)?)
}

/// Starts a statement, which ends where the next one starts. A statement can be rolled back as a
/// whole. Of the transaction's own writes, scans that start in a statement see only those from
/// before it, so a statement never meets its own writes. Reads of single rows see all writes.
#[api]
fn frond_txn_begin_statement(txn: &frond_txn) -> Done {
    Ok(txn.txn.statement().begin()?)
}

/// Starts a statement inside the current one, such as a statement of a function or a trigger. Scans
/// that start in it see what the transaction had written before it. frond_txn_rollback_statement
/// still rolls back the outer statement with everything inside it, and at FROND_READ_COMMITTED
/// plain reads keep the outer statement's snapshot. Substatements nest; end each with
/// frond_txn_end_substatement. FRD-1001 outside of a statement.
#[api]
fn frond_txn_begin_substatement(txn: &frond_txn) -> Done {
    Ok(txn.txn.statement().begin_substatement()?)
}

/// Ends the innermost substatement: scans that start from now on see what those of the enclosing
/// statement see. FRD-1001 if there is none, also after the outer statement has ended or was rolled
/// back.
#[api]
fn frond_txn_end_substatement(txn: &frond_txn) -> Done {
    Ok(txn.txn.statement().end_substatement()?)
}

/// Releases the snapshot of a statement's plain reads at FROND_READ_COMMITTED. Meant for sessions
/// that stay idle within a transaction, since the store must keep what others change for as long as
/// the snapshot exists. Open scans continue, and the statement can still be rolled back.
#[api]
fn frond_txn_end_statement(txn: &frond_txn) -> Done {
    Ok(txn.txn.statement().end()?)
}

/// Rolls back what was written since the statement started, and discards savepoints that were set
/// in it. Costs time proportional to what is rolled back. Rows stay locked.
#[api]
fn frond_txn_rollback_statement(txn: &frond_txn) -> Done {
    Ok(txn.txn.statement().rollback()?)
}

/// Sets a savepoint to roll back to; `number` receives its number. Savepoints nest.
#[api]
fn frond_txn_savepoint(txn: &mut frond_txn, number: &mut u64) -> Done {
    set(number, txn.txn.savepoint()?.number())
}

/// Rolls back what was written since a savepoint; the savepoint stays. Costs time proportional to
/// what is rolled back. Rows stay locked.
#[api]
fn frond_txn_rollback_to(txn: &mut frond_txn, number: u64) -> Done {
    Ok(txn.txn.rollback_to(&Savepoint::of(&txn.txn, number))?)
}

/// Discards a savepoint, and those set after it; what was written stays.
#[api]
fn frond_txn_release(txn: &mut frond_txn, number: u64) -> Done {
    Ok(txn.txn.release(&Savepoint::of(&txn.txn, number))?)
}
