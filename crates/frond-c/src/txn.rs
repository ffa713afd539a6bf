//! Transactions: many calls that are one change.

use std::{sync::Arc, time::Duration};

use frond::{IfLocked, Isolation, ReadOptions, RowLock, RowRead, Txn, TxnOptions};

use crate::{
    bytes::{bytes, frond_buffer, give, given, given_mut, take_back},
    cursor::range,
    error::{Fail, call, frond_error, misuse},
    read_as::lock_timeout,
    store::{FROND_AS_STORE, durability, frond_db, frond_tree},
};

/// Each call sees what was committed when it began; after frond_txn_begin_statement all plain reads of the statement see what
/// was committed when the first of them began.
pub const FROND_READ_COMMITTED: i32 = 1;
/// Plain reads see what was committed when the first of them began; writes and locking reads the newest commit.
pub const FROND_REPEATABLE_READ: i32 = 2;
/// The same, and of two transactions that write one row the second fails with FRD-1107. What is usual.
pub const FROND_SNAPSHOT: i32 = 3;
/// As FROND_REPEATABLE_READ, and each plain read locks what it reads.
pub const FROND_SERIALIZABLE: i32 = 4;

/// A read locks nothing.
pub const FROND_NO_LOCK: i32 = 0;
/// A read locks the row against writers.
pub const FROND_SHARED: i32 = 1;
/// A read locks the row against all but plain reads.
pub const FROND_EXCLUSIVE: i32 = 2;

/// Where another has the row: wait, as long as the transaction's options say.
pub const FROND_WAIT: i32 = 0;
/// Where another has the row: fail with FRD-1105 at once.
pub const FROND_FAIL: i32 = 1;
/// Where another has the row: a scan goes on behind it; a read of one row fails.
pub const FROND_SKIP: i32 = 2;
/// Where another has the row: it is read as it was last committed, without a lock, and that is said of it (`locked`). Calls that
/// cannot say so wait, and all do at FROND_SERIALIZABLE.
pub const FROND_LAST_COMMIT: i32 = 3;

/// A transaction. Ends with frond_txn_commit, frond_txn_prepare or frond_txn_rollback, once its cursors are given back.
pub struct frond_txn {
    pub(crate) txn: Arc<Txn>,
    /// Takes no locks, whatever its isolation level.
    pub(crate) is_read_only: bool,
}

/// What a transaction is to be like. Filled by frond_txn_options_init, then changed.
#[repr(C)]
pub struct frond_txn_options {
    /// FROND_READ_COMMITTED, FROND_REPEATABLE_READ, FROND_SNAPSHOT, FROND_SERIALIZABLE.
    pub isolation: i32,
    /// Writing is an error; nothing is ever locked.
    pub read_only: bool,
    /// How long a call waits for a lock, milliseconds; below 0: until it gets it.
    pub lock_timeout_ms: i64,
    /// When its commit is acknowledged: FROND_AS_STORE, FROND_SYNC, FROND_OS, FROND_LAZY.
    pub durability: i32,
    /// What the program's frond_lock_hooks are to know it by; 0 says nothing.
    pub tag: u64,
}

/// Fills options with what is usual: FROND_SNAPSHOT, ten seconds, FROND_AS_STORE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_options_init(options: *mut frond_txn_options) {
    let usual = TxnOptions::default();
    let timeout = usual.lock_timeout.map_or(-1, |time| time.as_millis() as i64);
    // SAFETY: see `bytes.rs`, here and below.
    if let Some(options) = unsafe { options.as_mut() } {
        *options = frond_txn_options {
            isolation: FROND_SNAPSHOT,
            read_only: false,
            lock_timeout_ms: timeout,
            durability: FROND_AS_STORE,
            tag: 0,
        };
    }
}

fn options(from: &frond_txn_options) -> Result<TxnOptions, Fail> {
    let isolation = match from.isolation {
        FROND_READ_COMMITTED => Isolation::ReadCommitted,
        FROND_REPEATABLE_READ => Isolation::RepeatableRead,
        FROND_SNAPSHOT => Isolation::Snapshot,
        FROND_SERIALIZABLE => Isolation::Serializable,
        other => return Err(misuse(format!("there is no isolation {other}"))),
    };
    let timeout = u64::try_from(from.lock_timeout_ms).ok();
    Ok(TxnOptions {
        isolation,
        read_only: from.read_only,
        lock_timeout: timeout.map(Duration::from_millis),
        durability: durability(from.durability)?,
        tag: from.tag,
    })
}

/// The row lock of a number; `None` for no lock.
pub(crate) fn lock(number: i32) -> Result<Option<RowLock>, Fail> {
    match number {
        FROND_NO_LOCK => Ok(None),
        FROND_SHARED => Ok(Some(RowLock::Shared)),
        FROND_EXCLUSIVE => Ok(Some(RowLock::Exclusive)),
        other => Err(misuse(format!("there is no lock {other}"))),
    }
}

pub(crate) fn if_locked(number: i32) -> Result<IfLocked, Fail> {
    match number {
        FROND_WAIT => Ok(IfLocked::Wait),
        FROND_FAIL => Ok(IfLocked::Fail),
        FROND_SKIP => Ok(IfLocked::Skip),
        FROND_LAST_COMMIT => Ok(IfLocked::LastCommit),
        other => Err(misuse(format!("there is no way {other} to meet a lock"))),
    }
}

/// Begins a transaction. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_begin(
    db: *const frond_db,
    wanted: *const frond_txn_options,
    txn: *mut *mut frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(txn, || {
                let wanted = wanted.as_ref().map_or(Ok(TxnOptions::default()), options)?;
                let is_read_only = wanted.read_only;
                let txn = given(db, "the store")?.db.begin(wanted)?;
                Ok(frond_txn { txn: Arc::new(txn), is_read_only })
            })
        })
    }
}

/// Takes back a transaction that is to end. While it has a cursor this is an error, and nothing is
/// done.
pub(crate) unsafe fn end(txn: *mut frond_txn) -> Result<Txn, Fail> {
    // SAFETY: see `bytes.rs`.
    let is_in_use =
        unsafe { given(txn, "the transaction") }.map(|txn| Arc::strong_count(&txn.txn) > 1)?;
    if is_in_use {
        return Err(misuse("the transaction has cursors: give them back before it ends"));
    }
    // SAFETY: see `bytes.rs`.
    let txn = unsafe { take_back(txn, "the transaction") }?.txn;
    Arc::into_inner(txn).ok_or_else(|| misuse("the transaction has cursors"))
}

/// Makes everything written visible to others at once. The handle is given back, but while it has cursors (FRD-1001).
/// `seqno`, which may be null, gets the number of the commit. On another error all is rolled back;
/// but FRD-3203 (and FRD-3202 behind it): the store has stopped, and others may have seen the commit; after opening it look whether it is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_commit(
    txn: *mut frond_txn,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let committed = end(txn)?.commit()?;
            if let Some(seqno) = seqno.as_mut() {
                *seqno = committed.0;
            }
            Ok(())
        })
    }
}

/// Takes everything back. The handle is given back, but while it has cursors (FRD-1001).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_rollback(txn: *mut frond_txn, error: *mut frond_error) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || end(txn).map(Txn::rollback)) }
}

/// The transaction's number, by which waits and deadlocks name it; 0 if `txn` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_id(txn: *const frond_txn) -> u64 {
    // SAFETY: see `bytes.rs`.
    unsafe { txn.as_ref() }.map_or(0, |txn| txn.txn.id())
}

/// Whether the transaction is over: a deadlock (FRD-1102) or a conflict (FRD-1107) has ended it, or an error behind which what it
/// had written was nowhere as a whole (a disk that is full, FRD-1301, may be that, or may not). Then all is rolled back, others
/// may go on, and its calls fail with FRD-1109; the handle is given back as ever, by frond_txn_rollback. After any other error it
/// goes on. True if `txn` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_is_over(txn: *const frond_txn) -> bool {
    // SAFETY: see `bytes.rs`.
    unsafe { txn.as_ref() }.is_none_or(|txn| txn.txn.is_over())
}

/// For how long calls that come wait for locks, all those of a call together, in milliseconds; 0: a call that would have to wait
/// fails with FRD-1101 at once; below 0: until it gets them. As `lock_timeout_ms` of the options that the transaction was begun
/// with; for statements that say so themselves. Reads that say `wait_ms` go by that; frond_txn_delete_range has the time for each row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_set_lock_timeout(
    txn: *const frond_txn,
    lock_timeout_ms: i64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let timeout = lock_timeout(lock_timeout_ms);
            given(txn, "the transaction")?.txn.set_lock_timeout(timeout);
            Ok(())
        })
    }
}

/// The value of a key, into `value`, as the transaction sees it. FROND_NOT_FOUND if there is none; the key is locked then
/// all the same, if `row_lock` says so. With a lock the newest commit is read. At FROND_SERIALIZABLE, FROND_NO_LOCK is
/// FROND_SHARED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_get(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    row_lock: i32,
    when_locked: i32,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (&given(txn, "the transaction")?.txn, given(tree, "the tree")?);
            let key = bytes(key, key_length, "the key")?;
            let wanted = (lock(row_lock)?, if_locked(when_locked)?);
            let value = given_mut(value, "the buffer")?;
            let key = value.apart(key);
            value.fill(|out| {
                let found = match wanted {
                    (None, if_locked) => {
                        let options = ReadOptions { if_locked, ..ReadOptions::default() };
                        let mut row = RowRead { value: std::mem::take(out), ..RowRead::default() };
                        let read = txn.read_into(&tree.tree, &key, &options, &mut row);
                        *out = row.value;
                        read.map(|()| row.exists)?
                    }
                    (Some(lock), meet) => match txn.get_locked(&tree.tree, &key, lock, meet)? {
                        Some(value) => {
                            *out = value;
                            true
                        }
                        None => false,
                    },
                };
                if found { Ok(()) } else { Err(Fail::NotFound) }
            })
        })
    }
}

/// Sets a value, whether the key exists or not. The row is locked until the transaction ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_put(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(txn.txn.put(&tree.tree, key, value)?)
        })
    }
}

/// Sets the value of a key that must not exist: else FRD-1108, and the transaction goes on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_insert(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(txn.txn.insert(&tree.tree, key, value)?)
        })
    }
}

/// Sets the value of a key that the caller knows to be absent, without a look: of a row under a number that was just reserved,
/// say. If it was there after all, a later delete may bring the older value back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_put_absent(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            Ok(txn.txn.put_absent(&tree.tree, key, value)?)
        })
    }
}

/// Deletes a key, if it exists.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_delete(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            Ok(txn.txn.delete(&tree.tree, bytes(key, key_length, "the key")?)?)
        })
    }
}

/// Deletes all rows from `from` up to, not including, `to` (null with length 0: no begin, no end), the transaction's own of before
/// the statement included, and says how many there were, in `rows`, which may be null. Each is locked as frond_txn_delete locks
/// it, and at FROND_REPEATABLE_READ and FROND_SERIALIZABLE the gaps between them are, too; at FROND_SNAPSHOT a row that others
/// have changed or deleted since is FRD-1107. It costs what its rows cost, one after the other: frond_batch_delete_range does it
/// for the price of one, and not in a transaction; frond_change_truncate for all rows of a tree. If it fails, no row was deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_delete_range(
    txn: *const frond_txn,
    tree: *const frond_tree,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    rows: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let range = range((from, from_length), (to, to_length))?;
            let deleted = txn.txn.delete_range(&tree.tree, range)?;
            rows.as_mut().into_iter().for_each(|rows| *rows = deleted);
            Ok(())
        })
    }
}

/// Sets the value of a row that is there, in a commit of its own, within the transaction's: others see it at once, it is as
/// durable as the transaction's commits are, and no rollback takes it back. FROND_NOT_FOUND if there is no such row: nothing was done, make it by
/// frond_put first. For the number that a sequence goes on from.
///
/// Who has only read the row, under a shared lock, is neither waited for nor told: the transaction itself at FROND_SERIALIZABLE,
/// above all. Who has it exclusively, or writes it, is waited for as by any call of the transaction, seen by the search for
/// deadlocks and ended by an interrupt. The row is not locked afterwards. A snapshot goes on showing it as it was, and at
/// FROND_SNAPSHOT a transaction that has one and writes the row itself, this one too, gets FRD-1107. FRD-1001 if the
/// transaction has written the row itself, or is read-only: then one that is begun beside it does it. `seqno`, which may be null, gets the commit's number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_put_autonomous(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *const u8,
    value_length: usize,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let (key, value) =
                (bytes(key, key_length, "the key")?, bytes(value, value_length, "the value")?);
            let committed = txn.txn.put_autonomous(&tree.tree, key, value)?;
            let committed = committed.ok_or(Fail::NotFound)?;
            seqno.as_mut().into_iter().for_each(|seqno| *seqno = committed.0);
            Ok(())
        })
    }
}

/// Adds to an integer of 8 bytes, big-endian, wrapping. A value of another length counts as 0, and so does no value.
pub const FROND_ADD: u8 = 1;
/// The greater of two values, as strings of bytes.
pub const FROND_MAX: u8 = 2;
/// The lesser of two values, as strings of bytes.
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

/// Folds an operand into a value without reading it: FROND_ADD, …, or the number of an operator of the program's own
/// (frond_operator).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_merge(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    operation: u8,
    operand: *const u8,
    operand_length: usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let key = bytes(key, key_length, "the key")?;
            let operand = bytes(operand, operand_length, "the operand")?;
            Ok(txn.txn.merge(&tree.tree, key, operation, operand)?)
        })
    }
}

/// Begins a statement, which ends where the next one begins: it can be taken back as a whole, and scans that begin in it see
/// what the transaction had written before it, so that it never meets what it writes itself. Reads of rows see everything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_begin_statement(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(txn, "the transaction")?.txn.begin_statement()?)) }
}

/// Begins a statement inside the current one, such as a statement of a function or a trigger: scans that begin in it see
/// what the transaction wrote before it. frond_txn_rollback_statement still takes back the outer statement with
/// everything inside it, and at FROND_READ_COMMITTED plain reads keep the outer statement's snapshot. Substatements
/// nest; end each with frond_txn_end_substatement. FRD-1001 outside of a statement.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_begin_substatement(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(txn, "the transaction")?.txn.begin_substatement()?)) }
}

/// Ends the innermost substatement: scans that begin from now on see what those of the enclosing statement see. FRD-1001
/// if there is none, also after the outer statement has ended or was taken back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_end_substatement(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(txn, "the transaction")?.txn.end_substatement()?)) }
}

/// Lets go of what the plain reads of a statement looked at at FROND_READ_COMMITTED: for sessions that stay idle within a
/// transaction, for which the store would keep what others change. Scans go on; the statement can still be taken back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_end_statement(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(txn, "the transaction")?.txn.end_statement()?)) }
}

/// Takes back what was written since the statement began, and forgets savepoints that were made in it; costs what it takes
/// back. Rows stay locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_rollback_statement(
    txn: *const frond_txn,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { call(error, || Ok(given(txn, "the transaction")?.txn.rollback_statement()?)) }
}

/// Marks this moment, to go back to: `number` gets its number. Savepoints nest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_savepoint(
    txn: *mut frond_txn,
    number: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let number = given_mut(number, "the place for the number")?;
            *number = given(txn, "the transaction")?.txn.savepoint()?.number();
            Ok(())
        })
    }
}

/// Takes back what was written since a savepoint, which stays; costs what it takes back. Rows stay locked.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_rollback_to(
    txn: *mut frond_txn,
    number: u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let txn = &given(txn, "the transaction")?.txn;
            Ok(txn.rollback_to(&txn.savepoint_of(number))?)
        })
    }
}

/// Forgets a savepoint, and those made behind it; what was written stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_release(
    txn: *mut frond_txn,
    number: u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let txn = &given(txn, "the transaction")?.txn;
            Ok(txn.release(&txn.savepoint_of(number))?)
        })
    }
}
