//! Parts of keys and values: layouts of trees, and reads of selected parts (projections).

use frond::{
    Projection, ReadOptions,
    layout::{End, Hint, Layout, Part},
};

use crate::{
    bytes::*, cursor::frond_cursor, error::*, read_as::read, snapshot::frond_snapshot,
    store::frond_tree, txn::frond_txn,
};

/// A part of `width` bytes, big-endian.
pub const FROND_PART_FIXED: i32 = 1;
/// A part that takes all remaining bytes; allowed only as the last one.
pub const FROND_PART_REST: i32 = 2;
/// A part of keys of variable length that ends with 00 01. A byte 00 in its content is written as
/// 00 FF.
pub const FROND_PART_ESCAPED: i32 = 3;
/// A part of keys of variable length, in descending order, that ends with FF FE. Its content is
/// complemented, and a byte FF in the complement is written as FF 00.
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

/// A projection: a selection of parts of a tree's values. Create it once, and use it for any number
/// of reads.
pub struct frond_projection(pub(crate) Projection);

/// The layout, or `None` if there are no parts.
pub(crate) fn layout(parts: &[frond_part]) -> Done<Option<Layout>> {
    let parts: Vec<Part> = parts.iter().copied().map(part_of).collect::<Done<_>>()?;
    Ok((!parts.is_empty()).then(|| Layout::new(parts)))
}

pub(crate) fn part_of(frond_part { kind, width, hint }: frond_part) -> Done<Part> {
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
/// order. Reads return them in the order of the layout, each as it is stored in the value
/// (including its length prefix, if it has one).
#[api]
fn frond_projection_new(
    tree: &frond_tree,
    numbers: &[usize],
    projection: New<frond_projection>,
) -> Done {
    projection.give(frond_projection(tree.0.projection(numbers)?))
}

/// Releases a projection; cursors that use it are not affected. Null is allowed.
#[api]
fn frond_projection_free(projection: Option<Box<frond_projection>>) {}

/// Reads parts of a value, concatenated, into `value`. Other parts are not read from blocks.
/// FROND_NOT_FOUND if there is no such key; FRD-1001 if the value does not fit the layout of its
/// tree.
#[api]
fn frond_get_projected(
    tree: &frond_tree,
    key: &[u8],
    projection: &frond_projection,
    value: &mut frond_buffer,
) -> Done {
    let parts = &projection.0;
    value.fill(|out| tree.0.get_projected(key, parts, out))
}

/// Reads parts of a value at a snapshot, like frond_get_projected.
#[api]
fn frond_snapshot_get_projected(
    snapshot: &frond_snapshot,
    tree: &frond_tree,
    key: &[u8],
    projection: &frond_projection,
    value: &mut frond_buffer,
) -> Done {
    let (snapshot, parts) = (&snapshot.0, &projection.0);
    value.fill(|out| snapshot.get_projected(&tree.0, key, parts, out))
}

/// Reads parts of a value as a transaction sees it, like frond_get_projected; without a lock,
/// except at FROND_SERIALIZABLE.
#[api]
fn frond_txn_get_projected(
    txn: &frond_txn,
    tree: &frond_tree,
    key: &[u8],
    projection: &frond_projection,
    value: &mut frond_buffer,
) -> Done {
    let options = ReadOptions::new().projection(&projection.0);
    value.fill(|out| Ok(read(&txn.txn, (&tree.0, key), &options, out)?.exists))
}

/// Makes a cursor return only these parts of values from now on, without moving it. A step to a
/// value that does not fit the layout of its tree fails with FRD-1001, each time; use
/// frond_cursor_seek to skip that row.
#[api]
fn frond_cursor_project(cursor: &mut frond_cursor, projection: &frond_projection) -> Done {
    cursor.project(&projection.0)
}
