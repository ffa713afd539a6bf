//! Changes of a layout of values; rows of older layouts stay as they are.

use std::ffi::c_char;

use frond::NewPart;

use crate::{
    bytes::{bytes, bytes_or_none, give, given, list, text},
    error::{Fail, call, frond_error},
    projection::{frond_part, part_of},
    store::{frond_db, frond_tree},
};

/// One part of a new layout of values: an existing part, or a new one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_new_part {
    /// Number of the existing part, from 1; part 0, the version, need not be listed. 0 for a new
    /// part.
    pub keep: usize,
    /// Definition of a new part.
    pub part: frond_part,
    /// What existing values have in a new part, as it is stored in a value (a part with a length
    /// prefix, with that).
    pub data: *const u8,
    /// Length of `data` in bytes.
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

/// Changes the layout of a tree's values without touching any of them: the version is followed by
/// these parts from now on. The layout must begin with FROND_PART_VERSION. New attributes are set
/// in the same commit; null with length 0 keeps the old ones. The change is synced when this
/// returns.
///
/// `tree` receives a handle that returns values in the new version. Other handles keep their
/// version until they meet a newer value; then they fail with FRD-1006, and the tree must be opened
/// again.
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

/// Returns the version of the layout in which a handle returns values: it is their first two bytes,
/// big-endian. -1 if values do not name their version, or if `tree` is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_layout_version(tree: *const frond_tree) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe { tree.as_ref() }.and_then(|tree| tree.tree.layout_version()).map_or(-1, i32::from)
}
