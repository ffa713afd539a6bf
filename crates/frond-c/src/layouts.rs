//! Changes of a layout of values; rows of older layouts stay as they are.

use std::ffi::c_char;

use frond::NewPart;

use crate::{
    bytes::{bytes, bytes_or_none, give, given, list, text},
    error::{Fail, call, frond_error},
    parts::{frond_part, part_of},
    store::{frond_db, frond_tree},
};

/// A part of values as they are to be: one that they have, or a new one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_new_part {
    /// The number of the part that it is now, from 1: part 0, the version, comes by itself. 0: it is a new part.
    pub keep: usize,
    /// Of a new one: what it is.
    pub part: frond_part,
    /// Of a new one: what all values of before have there, as it stands in a value (one with its length before it, with that).
    pub data: *const u8,
    /// How many bytes that are.
    pub length: usize,
}

unsafe fn new_part(new: &frond_new_part) -> Result<NewPart, Fail> {
    if new.keep > 0 {
        return Ok(NewPart::Keep(new.keep));
    }
    // SAFETY: see `bytes.rs`.
    let default = unsafe { bytes(new.data, new.length, "what values of before have") }?;
    Ok(NewPart::Add { part: part_of(new.part)?, default: default.to_vec() })
}

/// The parts of a new layout.
pub(crate) unsafe fn new_parts(
    parts: *const frond_new_part,
    count: usize,
) -> Result<Vec<NewPart>, Fail> {
    // SAFETY: see `bytes.rs`.
    unsafe { list(parts, count, "parts")?.iter().map(|new| new_part(new)).collect() }
}

/// Gives the values of a tree another layout, without a look at any of them, synced when it returns: the version and then these
/// parts. The layout of values must begin with FROND_PART_VERSION. With the change goes another blob of attributes; null with length 0: they stay.
/// `tree` becomes a handle that gives values in the new version; others go on with theirs until they meet a newer value, and then
/// fail with FRD-1006: open the tree again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_change_layout(
    db: *const frond_db,
    name: *const c_char,
    parts: *const frond_new_part,
    count: usize,
    attributes: *const u8,
    attributes_length: usize,
    tree: *mut *mut frond_tree,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            give(tree, || {
                let db = &given(db, "the store")?.db;
                let parts = new_parts(parts, count)?;
                let attributes = bytes_or_none(attributes, attributes_length, "attributes")?;
                let attributes = attributes.map(<[u8]>::to_vec);
                let name = text(name, "the name")?;
                Ok(frond_tree { tree: db.change_layout(name, &parts, attributes)? })
            })
        })
    }
}

/// The version of the layout in which a handle gives values, whose first two bytes it is, big-endian; -1 if values name none, or
/// `tree` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_layout_version(tree: *const frond_tree) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { tree.as_ref() }.and_then(|tree| tree.tree.layout_version()).map_or(-1, i32::from)
}
