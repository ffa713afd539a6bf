//! Snapshots of the store without a transaction, and reads of many keys at once.

use std::ffi::{c_char, c_void};

use frond::Snapshot;

use crate::{
    bytes::{bytes, frond_buffer, give, given, given_mut, list_mut, take_back, text},
    cursor::{frond_cursor, range},
    error::{Fail, call, frond_error, misuse},
    store::{frond_db, frond_line, frond_tree, tell_lines},
    txn::frond_txn,
};

/// A snapshot of the store: what is read in it does not change.
pub struct frond_snapshot {
    pub(crate) snapshot: Snapshot,
}

/// A pointer to bytes that are stored elsewhere.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_bytes {
    /// The first byte; null means that there is no value, not even an empty one.
    pub data: *const u8,
    /// Length in bytes.
    pub length: usize,
}

/// Takes a snapshot of the current state of the store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_take(
    db: *const frond_db,
    snapshot: *mut *mut frond_snapshot,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            give(snapshot, || {
                Ok(frond_snapshot { snapshot: given(db, "the store")?.db.snapshot() })
            })
        })
    }
}

/// Creates a named snapshot of the current state of the store. It exists until frond_snapshot_drop,
/// also across restarts, and is synced when this returns. `seqno`, which may be null, receives the
/// last commit that it shows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_create(
    db: *const frond_db,
    name: *const c_char,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let info = given(db, "the store")?.db.create_snapshot(text(name, "the name")?)?;
            seqno.as_mut().into_iter().for_each(|seqno| *seqno = info.seqno.0);
            Ok(())
        })
    }
}

/// Opens a named snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_open(
    db: *const frond_db,
    name: *const c_char,
    snapshot: *mut *mut frond_snapshot,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(snapshot, || {
                let db = &given(db, "the store")?.db;
                Ok(frond_snapshot { snapshot: db.open_snapshot(text(name, "the name")?)? })
            })
        })
    }
}

/// Drops a named snapshot. Handles that have it open keep it until they are released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_drop(
    db: *const frond_db,
    name: *const c_char,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || Ok(given(db, "the store")?.db.drop_snapshot(text(name, "the name")?)?))
    }
}

/// Lists the names of all named snapshots, in order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshots(
    db: *const frond_db,
    tell: frond_line,
    context: *mut c_void,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let all = given(db, "the store")?.db.snapshots();
            tell_lines(tell, context, all.into_iter().map(|one| one.name))
        })
    }
}

/// Opens a tree by the name that it had in the snapshot, even if its name is another one now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_tree_open(
    snapshot: *const frond_snapshot,
    name: *const c_char,
    tree: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(tree, || {
                let snapshot = &given(snapshot, "the snapshot")?.snapshot;
                Ok(frond_tree { tree: snapshot.open_tree(text(name, "the name")?)? })
            })
        })
    }
}

/// Reads a byte range of a value in a snapshot: fills `out` from byte `from` of the value on.
/// `count` receives the number of bytes read, fewer than `length` only at the value's end.
/// FROND_NOT_FOUND if there is no such key. So a value of any length can be read with little
/// memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_get_at(
    snapshot: *const frond_snapshot,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    from: usize,
    out: *mut u8,
    length: usize,
    count: *mut usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (snapshot, tree) = (given(snapshot, "the snapshot")?, given(tree, "the tree")?);
            let key = bytes(key, key_length, "the key")?.to_vec();
            let count = given_mut(count, "the place for the number")?;
            let out = list_mut(out, length, "the place for the value")?;
            let found = snapshot.snapshot.get_at(&tree.tree, &key, from, out)?;
            *count = found.ok_or(Fail::NotFound)?;
            Ok(())
        })
    }
}

/// Releases a snapshot. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_free(snapshot: *mut frond_snapshot) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(snapshot, "the snapshot").map(drop)) };
}

/// Returns the last commit that a snapshot shows; 0 if `snapshot` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_seqno(snapshot: *const frond_snapshot) -> u64 {
    // SAFETY: see `bytes.rs`.
    unsafe { snapshot.as_ref() }.map_or(0, |snapshot| snapshot.snapshot.seqno().0)
}

/// Reads the value of a key in a snapshot. FROND_NOT_FOUND if there was no such key, FRD-1006 if
/// there was no such tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_get(
    snapshot: *const frond_snapshot,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let snapshot = &given(snapshot, "the snapshot")?.snapshot;
            let (tree, key) = (&given(tree, "the tree")?.tree, bytes(key, key_length, "the key")?);
            let value = given_mut(value, "the buffer")?;
            value.copy(&snapshot.get(tree, key)?.ok_or(Fail::NotFound)?);
            Ok(())
        })
    }
}

/// Opens a cursor over the rows of a snapshot from `from` up to, but not including, `to`. A null
/// bound means from the first key, or to the last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_scan(
    snapshot: *const frond_snapshot,
    tree: *const frond_tree,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    cursor: *mut *mut frond_cursor,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(cursor, || {
                let snapshot = &given(snapshot, "the snapshot")?.snapshot;
                let range = range((from, from_length), (to, to_length))?;
                Ok(frond_cursor::plain(snapshot.scan(&given(tree, "the tree")?.tree, range)?))
            })
        })
    }
}

/// Reads the values of many keys as the transaction sees them, all at one snapshot; locks none,
/// except at FROND_SERIALIZABLE. `values` has `count` entries, and receives where each value lies
/// in `memory`; they are valid until `memory` is used again. Null data means that there is no such
/// row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_get_many(
    txn: *const frond_txn,
    tree: *const frond_tree,
    keys: *const frond_bytes,
    count: usize,
    memory: *mut frond_buffer,
    values: *mut frond_bytes,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (&given(txn, "the transaction")?.txn, given(tree, "the tree")?);
            many(keys, count, memory, values, |keys| txn.get_many(&tree.tree, keys))
        })
    }
}

/// Reads the values of many keys in a snapshot, like frond_txn_get_many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_get_many(
    snapshot: *const frond_snapshot,
    tree: *const frond_tree,
    keys: *const frond_bytes,
    count: usize,
    memory: *mut frond_buffer,
    values: *mut frond_bytes,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (snapshot, tree) = (given(snapshot, "the snapshot")?, given(tree, "the tree")?);
            let get = |keys: &[&[u8]]| snapshot.snapshot.get_many(&tree.tree, keys);
            many(keys, count, memory, values, get)
        })
    }
}

type Found = Vec<Option<Vec<u8>>>;

/// Reads many keys, and writes their values to a buffer and its places.
pub(crate) unsafe fn many(
    keys: *const frond_bytes,
    count: usize,
    memory: *mut frond_buffer,
    values: *mut frond_bytes,
    get: impl FnOnce(&[&[u8]]) -> Result<Found, frond::Error>,
) -> Result<(), Fail> {
    if count == 0 {
        return Ok(());
    }
    if keys.is_null() || values.is_null() || count > isize::MAX as usize / size_of::<frond_bytes>()
    {
        return Err(misuse("the keys or the buffers for their values are null or too many"));
    }
    // SAFETY: see `bytes.rs`. Checked before anything is read or locked that could not be returned.
    let memory = unsafe { given_mut(memory, "the buffer")? };
    // SAFETY: see `bytes.rs`: there are `count` keys.
    let keys = unsafe { std::slice::from_raw_parts(keys, count) };
    let listed = keys.iter().map(|key| {
        // SAFETY: see `bytes.rs`.
        unsafe { bytes(key.data, key.length, "a key") }
    });
    let listed: Vec<&[u8]> = listed.collect::<Result<_, _>>()?;
    let found = get(&listed)?;
    // SAFETY: see `bytes.rs`: there is one place per key, and they are only written.
    unsafe { lay_out(found.iter().map(Option::as_deref), memory, values) };
    Ok(())
}

/// Copies values into a buffer, one after another, and writes where each lies to the caller's
/// places; null for a missing value.
///
/// # Safety
/// There are as many places as values.
pub(crate) unsafe fn lay_out<'a>(
    found: impl Iterator<Item = Option<&'a [u8]>> + Clone,
    memory: &mut frond_buffer,
    values: *mut frond_bytes,
) {
    let all: Vec<u8> = found.clone().flatten().flatten().copied().collect();
    memory.copy(&all);
    // An empty value has an address, too.
    let start = if memory.data.is_null() { [].as_ptr() } else { memory.data.cast_const() };
    let mut at = 0;
    for (number, value) in found.enumerate() {
        let place = match value {
            None => frond_bytes { data: std::ptr::null(), length: 0 },
            // SAFETY: it lies inside the copied bytes.
            Some(value) => frond_bytes { data: unsafe { start.add(at) }, length: value.len() },
        };
        // SAFETY: promised above.
        unsafe { values.add(number).write(place) };
        at += value.map_or(0, <[u8]>::len);
    }
}

/// Takes the snapshot of the transaction's plain reads now, at its current place in the commit
/// order: it includes all commits that have a number, also those that are not visible yet. Does not
/// wait; the first read waits until they are visible. A transaction that has a snapshot keeps it.
/// FRD-1001 at FROND_READ_COMMITTED and FROND_SERIALIZABLE, whose transactions have no snapshot.
/// `seqno`, which may be null, receives the last commit that the snapshot shows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_take_snapshot(
    txn: *const frond_txn,
    seqno: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let at = given(txn, "the transaction")?.txn.take_snapshot()?;
            seqno.as_mut().into_iter().for_each(|seqno| *seqno = at.0);
            Ok(())
        })
    }
}
