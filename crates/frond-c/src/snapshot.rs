//! Snapshots of the store without a transaction, and reads of many keys at once.

use std::ffi::c_void;

use frond::Snapshot;

use crate::{bytes::*, cursor::frond_cursor, error::*, store::*, txn::frond_txn};

/// A snapshot: the state of the store after one commit. What is read in it never changes.
pub struct frond_snapshot(pub(crate) Snapshot);

/// A pointer to bytes that are stored elsewhere.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_bytes {
    /// The first byte; null means that there is no value, not even an empty one.
    pub data: *const c_void,
    /// Length in bytes.
    pub length: usize,
}

impl frond_bytes {
    pub(crate) fn of(bytes: Option<&[u8]>) -> Self {
        let (data, length) = parts(bytes);
        Self { data: data.cast(), length }
    }
}

/// Takes a snapshot of the current state of the store.
#[api]
fn frond_snapshot_take(db: &frond_db, snapshot: New<frond_snapshot>) -> Done {
    snapshot.give(frond_snapshot(db.0.snapshot()))
}

/// Creates a named snapshot of the current state of the store. It exists until frond_snapshot_drop,
/// also across restarts, and is synced when this returns. `seqno`, which may be null, receives the
/// last commit that it shows.
#[api]
fn frond_snapshot_create(db: &frond_db, name: &str, seqno: Option<&mut u64>) -> Done {
    set(seqno, db.0.create_snapshot(name)?.seqno.0)
}

/// Opens a named snapshot.
#[api]
fn frond_snapshot_open(db: &frond_db, name: &str, snapshot: New<frond_snapshot>) -> Done {
    snapshot.give(frond_snapshot(db.0.open_snapshot(name)?))
}

/// Drops a named snapshot. Handles that have it open keep it until they are released.
#[api]
fn frond_snapshot_drop(db: &frond_db, name: &str) -> Done {
    Ok(db.0.drop_snapshot(name)?)
}

/// Lists the names of all named snapshots, in order.
#[api]
fn frond_snapshots(db: &frond_db, visit: frond_line, context: *mut c_void) -> Done {
    visit_lines(visit, context, db.0.snapshots().into_iter().map(|one| one.name))
}

/// Opens a tree by the name that it had in the snapshot, even if it has another name now.
/// frond_tree_info returns the attributes that it had there, and if its layout has changed since,
/// the handle returns values in the layout that it had there.
#[api]
fn frond_snapshot_tree_open(snapshot: &frond_snapshot, name: &str, tree: New<frond_tree>) -> Done {
    tree.give(frond_tree(snapshot.0.open_tree(name)?))
}

/// Reads a byte range of a value in a snapshot: fills `out` from byte `from` of the value on.
/// `count` receives the number of bytes read, fewer than `length` only at the value's end.
/// FROND_NOT_FOUND if there is no such key. So a value of any length can be read with little
/// memory.
#[api]
fn frond_snapshot_get_at(
    snapshot: &frond_snapshot,
    tree: &frond_tree,
    key: &[u8],
    from: usize,
    #[length(length)] out: &mut [u8],
    count: &mut usize,
) -> Done {
    let found = snapshot.0.get_at(&tree.0, key, from, out)?;
    set(count, found.ok_or(Fail::NotFound)?)
}

/// Releases a snapshot. Null is allowed.
#[api]
fn frond_snapshot_free(snapshot: Option<Box<frond_snapshot>>) {}

/// Returns the last commit that a snapshot shows; 0 if `snapshot` is null.
#[api]
fn frond_snapshot_seqno(snapshot: Option<&frond_snapshot>) -> u64 {
    snapshot.map_or(0, |snapshot| snapshot.0.seqno().0)
}

/// Reads the value of a key in a snapshot. FROND_NOT_FOUND if there was no such key, FRD-1006 if
/// there was no such tree.
#[api]
fn frond_snapshot_get(
    snapshot: &frond_snapshot,
    tree: &frond_tree,
    key: &[u8],
    value: &mut frond_buffer,
) -> Done {
    value.copy(&snapshot.0.get(&tree.0, key)?.ok_or(Fail::NotFound)?);
    Ok(())
}

/// Opens a cursor over the rows of a snapshot from `from` up to, but not including, `to`. A null
/// bound means from the first key, or to the last.
#[api]
fn frond_snapshot_scan(
    snapshot: &frond_snapshot,
    tree: &frond_tree,
    range: Keys,
    cursor: New<frond_cursor>,
) -> Done {
    cursor.give(frond_cursor::plain(snapshot.0.scan(&tree.0, range)?))
}

/// Reads the values of many keys as the transaction sees them, all at one snapshot; locks none,
/// except at FROND_SERIALIZABLE. `values` has `count` entries, and receives where each value lies
/// in `memory`; they are valid until `memory` is used again. Null data means that there is no such
/// row.
#[api]
fn frond_txn_get_many(
    txn: &frond_txn,
    tree: &frond_tree,
    keys: &[frond_bytes],
    memory: Option<&mut frond_buffer>,
    values: &mut [Place<frond_bytes>],
) -> Done {
    many(keys, memory, values, |keys| txn.txn.get_many(&tree.0, keys))
}

/// Reads the values of many keys in a snapshot, like frond_txn_get_many.
#[api]
fn frond_snapshot_get_many(
    snapshot: &frond_snapshot,
    tree: &frond_tree,
    keys: &[frond_bytes],
    memory: Option<&mut frond_buffer>,
    values: &mut [Place<frond_bytes>],
) -> Done {
    many(keys, memory, values, |keys| snapshot.0.get_many(&tree.0, keys))
}

pub(crate) fn keys_of(keys: &[frond_bytes]) -> Done<Vec<&[u8]>> {
    // SAFETY: see `bytes.rs`.
    keys.iter().map(|key| unsafe { list(key.data.cast::<u8>(), key.length, "a key") }).collect()
}

/// Reads many keys. Copies their values into memory, one after another, and writes the position of
/// each to its place. Without keys, the memory may be null.
pub(crate) fn many(
    keys: &[frond_bytes],
    memory: Option<&mut frond_buffer>,
    values: &mut [Place<frond_bytes>],
    get: impl FnOnce(&[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, frond::Error>,
) -> Done {
    if keys.is_empty() {
        return Ok(());
    }
    // Checked first, so that nothing is read or locked that could not be returned.
    let memory = memory.ok_or_else(|| misuse("`memory` is null"))?;
    let found = get(&keys_of(keys)?)?;
    let mut bytes = memory.take();
    bytes.clear();
    found.iter().flatten().for_each(|value| bytes.extend_from_slice(value));
    let mut rest = &bytes[..];
    for (place, value) in values.iter_mut().zip(&found) {
        let this = value.as_ref().map(|value| rest.split_off(..value.len()).unwrap_or_default());
        place.write(frond_bytes::of(this));
    }
    // The bytes do not move when the buffer takes them.
    memory.put(bytes);
    Ok(())
}

/// Takes the snapshot of the transaction's plain reads now, at the current position in the commit
/// order: it includes all commits that have a number, even those that are not visible yet. This
/// call does not wait; the first read waits until those commits are visible. A transaction that has
/// a snapshot keeps it. FRD-1001 at FROND_READ_COMMITTED and FROND_SERIALIZABLE, whose transactions
/// have no snapshot. `seqno`, which may be null, receives the last commit that the snapshot shows.
#[api]
fn frond_txn_take_snapshot(txn: &frond_txn, seqno: Option<&mut u64>) -> Done {
    set(seqno, txn.txn.control().take_snapshot()?.0)
}
