//! Parts of keys and values: layouts of trees, and reads of some parts only.

use frond::{End, Hint, Layout, Part, Projection};

use crate::{
    bytes::{bytes, frond_buffer, give, given, given_mut, list, take_back},
    cursor::frond_cursor,
    error::{Fail, call, frond_error, misuse},
    snapshot::frond_snapshot,
    store::frond_tree,
    txn::frond_txn,
};

/// A part of `width` bytes, big-endian.
pub const FROND_PART_FIXED: i32 = 1;
/// A part that takes all remaining bytes; allowed only as the last one.
pub const FROND_PART_REST: i32 = 2;
/// A part of keys that ends with 00 01; a 00 in its content is written 00 FF.
pub const FROND_PART_ESCAPED: i32 = 3;
/// A part of keys, in descending order, that ends with FF FE; its content is complemented, and an
/// FF in that is written FF 00.
pub const FROND_PART_ESCAPED_DESCENDING: i32 = 4;
/// A part of values that starts with its length in LEB128.
pub const FROND_PART_PREFIXED: i32 = 5;

/// The version of the layout of values: two bytes, big-endian, the same in all values; allowed only
/// as the first part. `width` is the version: 0 in a new tree. Such a layout can be changed
/// (frond_tree_change_layout).
pub const FROND_PART_VERSION: i32 = 6;

/// Nothing is known about a fixed part.
pub const FROND_HINT_NONE: i32 = 0;
/// The fixed part is an integer with its sign bit flipped.
pub const FROND_HINT_INTEGER: i32 = 1;
/// The fixed part is a float in order-preserving form.
pub const FROND_HINT_FLOAT: i32 = 2;
/// The fixed part is a number of microseconds.
pub const FROND_HINT_MICROSECONDS: i32 = 3;

/// A part of the layout of keys or values.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_part {
    /// FROND_PART_FIXED, …
    pub kind: i32,
    /// Number of bytes of a fixed part; for the version, its value.
    pub width: u16,
    /// FROND_HINT_INTEGER, … for a fixed part. It affects how the part is stored, never its
    /// meaning.
    pub hint: i32,
}

/// A selection of parts of a tree's values (a projection). Made once, for any number of reads.
pub struct frond_projection {
    pub(crate) projection: Projection,
}

/// The layout, or `None` if there are no parts.
pub(crate) unsafe fn layout(
    parts: *const frond_part,
    count: usize,
) -> Result<Option<Layout>, Fail> {
    // SAFETY: see `bytes.rs`.
    let parts = unsafe { list(parts, count, "parts") }?;
    let parts: Result<Vec<Part>, Fail> = parts.iter().map(|part| part_of(*part)).collect();
    Ok(Some(parts?).filter(|parts| !parts.is_empty()).map(Layout::new))
}

pub(crate) fn part_of(frond_part { kind, width, hint }: frond_part) -> Result<Part, Fail> {
    let hint = match hint {
        FROND_HINT_NONE => Hint::None,
        FROND_HINT_INTEGER => Hint::Integer,
        FROND_HINT_FLOAT => Hint::Float,
        FROND_HINT_MICROSECONDS => Hint::Microseconds,
        other => return Err(misuse(format!("unknown hint {other}"))),
    };
    Ok(match kind {
        FROND_PART_FIXED => Part::Fixed(width, hint),
        FROND_PART_REST => Part::Var(End::Rest),
        FROND_PART_ESCAPED => Part::Var(End::Escaped),
        FROND_PART_ESCAPED_DESCENDING => Part::Var(End::EscapedDescending),
        FROND_PART_PREFIXED => Part::Var(End::Prefixed),
        FROND_PART_VERSION => Part::Version(width),
        other => return Err(misuse(format!("unknown kind of part {other}"))),
    })
}

/// Selects parts of the values of a tree that has a layout of values, by number from 0, in any
/// order. Reads return them in the order of the layout, each as it is stored in the value (a part
/// with a length prefix, with that).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_projection_new(
    tree: *const frond_tree,
    numbers: *const usize,
    count: usize,
    projection: *mut *mut frond_projection,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            give(projection, || {
                let numbers = list(numbers, count, "the numbers")?;
                Ok(frond_projection {
                    projection: given(tree, "the tree")?.tree.projection(numbers)?,
                })
            })
        })
    }
}

/// Releases a selection of parts; cursors that use it are not affected. Null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_projection_free(projection: *mut frond_projection) {
    // SAFETY: see `bytes.rs`.
    unsafe { call(std::ptr::null_mut(), || take_back(projection, "the projection").map(drop)) };
}

/// Reads parts of a value, concatenated, into `value`. Other parts are not read from blocks.
/// FROND_NOT_FOUND if there is no such key; FRD-1001 if the value does not fit the layout of its
/// tree.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_get_projected(
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    projection: *const frond_projection,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        read(error, (key, key_length), projection, value, |key, projection, out| {
            Ok(given(tree, "the tree")?.tree.get_projected(key, projection, out)?)
        })
    }
}

/// Reads parts of a value at a snapshot, like frond_get_projected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_snapshot_get_projected(
    snapshot: *const frond_snapshot,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    projection: *const frond_projection,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        read(error, (key, key_length), projection, value, |key, projection, out| {
            let (snapshot, tree) = (given(snapshot, "the snapshot")?, given(tree, "the tree")?);
            Ok(snapshot.snapshot.get_projected(&tree.tree, key, projection, out)?)
        })
    }
}

/// Reads parts of a value as a transaction sees it, like frond_get_projected; without a lock,
/// except at FROND_SERIALIZABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_get_projected(
    txn: *const frond_txn,
    tree: *const frond_tree,
    key: *const u8,
    key_length: usize,
    projection: *const frond_projection,
    value: *mut frond_buffer,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        read(error, (key, key_length), projection, value, |key, projection, out| {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            Ok(txn.txn.get_projected(&tree.tree, key, projection, out)?)
        })
    }
}

unsafe fn read(
    error: *mut frond_error,
    (key, key_length): (*const u8, usize),
    projection: *const frond_projection,
    value: *mut frond_buffer,
    get: impl FnOnce(&[u8], &Projection, &mut Vec<u8>) -> Result<bool, Fail>,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let key = bytes(key, key_length, "the key")?;
            let projection = &given(projection, "the projection")?.projection;
            let value = given_mut(value, "the buffer")?;
            let key = value.apart(key);
            value.fill(|out| match get(&key, projection, out)? {
                true => Ok(()),
                false => Err(Fail::NotFound),
            })
        })
    }
}

/// Restricts a cursor to these parts of values from now on, without moving it. A step onto a value
/// that does not fit the layout of its tree fails with FRD-1001, each time; frond_cursor_seek goes
/// past it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_cursor_project(
    cursor: *mut frond_cursor,
    projection: *const frond_projection,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let projection = &given(projection, "the projection")?.projection;
            given_mut(cursor, "the cursor")?.project(projection)
        })
    }
}
