//! Reads with all options: what they see, what they lock, what they do about locks of other
//! transactions, and how long they wait.

use std::time::Duration;

use frond::{
    ReadOptions, Tree, Txn,
    transaction::{ManyRows, RowRead, Sees},
};

use crate::{
    bytes::*, error::*, projection::frond_projection, snapshot::*, store::frond_tree, txn::*,
};

/// A read without a lock sees what the transaction's isolation level shows.
pub const FROND_AS_LEVEL: i32 = 0;
/// A read without a lock sees the newest commit, whatever snapshot the transaction has.
pub const FROND_NEWEST: i32 = 1;

/// No limit: a wait lasts until the lock is granted, or a deadlock or an interrupt ends it.
pub const FROND_FOREVER: i64 = 0x7fff_ffff_ffff_ffff;

/// Options of a read. Call frond_read_options_init, then set fields.
#[repr(C)]
pub struct frond_read_options {
    /// What a read without a lock sees: FROND_AS_LEVEL, FROND_NEWEST. With a lock it always sees
    /// the newest commit.
    pub sees: i32,
    /// How the read locks each row: FROND_NO_LOCK, FROND_SHARED, FROND_EXCLUSIVE. At
    /// FROND_SERIALIZABLE, FROND_NO_LOCK means FROND_SHARED.
    pub row_lock: i32,
    /// What the read does if another transaction holds the row: FROND_WAIT, FROND_NO_WAIT,
    /// FROND_SKIP_LOCKED, FROND_SEMI_CONSISTENT.
    pub when_locked: i32,
    /// Groups what this read locks with what the last locking read has locked, so that
    /// frond_txn_unlock_last releases both. Meant for the row that an index entry names.
    pub with_last: bool,
    /// How long the call waits for locks in total, in milliseconds. FROND_FOREVER means no limit;
    /// below 0 means the lock timeout of the transaction.
    pub wait_ms: i64,
    /// The parts of values to return; null for whole values. Only used during the call.
    pub projection: *const frond_projection,
    /// Must be 0.
    pub reserved: [u64; 4],
}

/// Sets the defaults: a read without a lock that sees what the isolation level shows.
#[api]
fn frond_read_options_init(options: Option<&mut frond_read_options>) {
    let Some(options) = options else { return };
    *options = frond_read_options {
        sees: FROND_AS_LEVEL,
        row_lock: FROND_NO_LOCK,
        when_locked: FROND_WAIT,
        with_last: false,
        wait_ms: -1,
        projection: std::ptr::null(),
        reserved: [0; 4],
    };
}

/// Converts a lock timeout in milliseconds; below 0 becomes `None`, no limit.
pub(crate) fn lock_timeout(milliseconds: i64) -> Option<Duration> {
    u64::try_from(milliseconds).ok().map(Duration::from_millis)
}

/// The time that one call waits for locks; `None` for the default.
pub(crate) fn wait(milliseconds: i64) -> Option<Duration> {
    match milliseconds {
        FROND_FOREVER => Some(Duration::MAX),
        milliseconds => lock_timeout(milliseconds),
    }
}

/// The caller's read options; null for the defaults.
pub(crate) fn read_options(from: Option<&frond_read_options>) -> Done<ReadOptions<'_>> {
    let Some(from) = from else { return Ok(ReadOptions::default()) };
    if from.reserved != [0; 4] {
        return Err(misuse("a reserved field of the read options is not 0"));
    }
    let sees = match from.sees {
        FROND_AS_LEVEL => Sees::AsLevel,
        FROND_NEWEST => Sees::Newest,
        other => return Err(misuse(format!("unknown visibility {other}"))),
    };
    // SAFETY: see `bytes.rs`.
    let projection = unsafe { from.projection.as_ref() }.map(|given| &given.0);
    Ok(ReadOptions::new()
        .sees(sees)
        .lock(lock(from.row_lock)?)
        .if_locked(if_locked(from.when_locked)?)
        .wait(wait(from.wait_ms))
        .with_last(from.with_last)
        .projection(projection))
}

/// Reads a row's value into the memory of `value`, and returns the rest of the row.
pub(crate) fn read(
    txn: &Txn,
    (tree, key): (&Tree, &[u8]),
    options: &ReadOptions<'_>,
    value: &mut Vec<u8>,
) -> Result<RowRead, frond::Error> {
    let mut row = RowRead { value: std::mem::take(value), ..RowRead::default() };
    let read = row.read(txn, tree, key, options);
    *value = std::mem::take(&mut row.value);
    read.map(|()| row)
}

/// Reads the value of a key into `value`, with all options of a read. `options` may be null.
/// FROND_NOT_FOUND if there is no such key; if a lock was requested, the absent key is locked all
/// the same. `locked`, which may be null, receives whether the transaction has locked the key: if a
/// lock was requested, this is false only if another transaction has locked it
/// (FROND_SEMI_CONSISTENT).
#[api]
fn frond_txn_read(
    txn: &frond_txn,
    tree: &frond_tree,
    key: &[u8],
    options: Option<&frond_read_options>,
    value: &mut frond_buffer,
    locked: Option<&mut bool>,
) -> Done {
    let mut is_locked = false;
    let found = read_options(options).and_then(|options| {
        value.fill(|out| {
            let row = read(&txn.txn, (&tree.0, key), &options, out)?;
            is_locked = row.locked;
            Ok(row.exists)
        })
    });
    set(locked, is_locked)?;
    found
}

/// Reads the values of many keys, with all options of a read. Without a lock, all values are of one
/// snapshot. With a lock, all rows are locked first, in key order, and then read. So calls that
/// lock the same rows wait for each other but do not deadlock, whatever the order of their keys.
///
/// `values` has `count` entries, and receives where each value lies in `memory`; they are valid
/// until `memory` is used again. Null data means that there is no such row, or that another
/// transaction holds it and it was skipped. `locked`, which may be null, has as many entries, and
/// receives whether each row is locked. If the call fails, it has locked nothing.
#[api]
fn frond_txn_read_many(
    txn: &frond_txn,
    tree: &frond_tree,
    keys: &[frond_bytes],
    options: Option<&frond_read_options>,
    memory: &mut frond_buffer,
    values: &mut [Place<frond_bytes>],
    locked: Option<&mut [Place<bool>]>,
) -> Done {
    // All arguments are checked first, so that no row is locked that could not be returned.
    let (options, keys) = (read_options(options)?, keys_of(keys)?);
    let mut rows = ManyRows::with(memory.apart_from(&keys));
    let read = rows.read(&txn.txn, &tree.0, &keys, &options);
    if read.is_ok() {
        for (number, place) in values.iter_mut().enumerate() {
            // The bytes do not move when the buffer takes them.
            place.write(frond_bytes::of(rows.get(number)));
        }
        for (number, place) in locked.into_iter().flatten().enumerate() {
            place.write(rows.is_locked(number));
        }
    }
    memory.put(rows.into_bytes());
    Ok(read?)
}
