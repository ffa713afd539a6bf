//! Changes of the layout of a tree's values. Existing rows are not rewritten.

use std::ffi::c_void;

use frond::layout::NewPart;

use crate::{bytes::*, error::*, projection::*, store::*};

/// One part of a new layout of values: an existing part, or a new one.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_new_part {
    /// Number of the existing part, from 1; part 0, the version, need not be listed. 0 for a new
    /// part.
    pub keep: usize,
    /// Definition of a new part.
    pub part: frond_part,
    /// Content of the new part in existing values, as it is stored in a value (including its length
    /// prefix, if it has one).
    pub data: *const c_void,
    /// Length of `data` in bytes.
    pub length: usize,
}

/// The parts of a new layout.
pub(crate) fn new_parts(parts: &[frond_new_part]) -> Done<Vec<NewPart>> {
    let new = |new: &frond_new_part| {
        if new.keep > 0 {
            return Ok(NewPart::Keep(new.keep));
        }
        // SAFETY: see `bytes.rs`.
        let default = unsafe { list(new.data.cast::<u8>(), new.length, "data of a new part") }?;
        Ok(NewPart::Add { part: part_of(new.part)?, default: default.to_vec() })
    };
    parts.iter().map(new).collect()
}

/// Changes the layout of a tree's values without rewriting any of them: from now on, a value
/// consists of the version and these parts. The current layout must begin with FROND_PART_VERSION.
/// New attributes are set in the same commit; null with length 0 keeps the old ones. The change is
/// synced when this returns.
///
/// `tree` receives a handle that returns values in the new version. Other handles keep their
/// version until they meet a newer value; then they fail with FRD-1006, and the tree must be opened
/// again.
#[api]
fn frond_tree_change_layout(
    db: &frond_db,
    name: &str,
    parts: &[frond_new_part],
    attributes: Option<&[u8]>,
    tree: New<frond_tree>,
) -> Done {
    let (parts, attributes) = (new_parts(parts)?, attributes.map(<[u8]>::to_vec));
    tree.give(frond_tree(db.0.change_layout(name, &parts, attributes)?))
}

/// Returns the layout version of the values that a handle returns. It is the first two bytes of
/// each value, big-endian. -1 if values have no version, or if `tree` is null.
#[api]
fn frond_tree_layout_version(tree: Option<&frond_tree>) -> i32 {
    tree.and_then(|tree| tree.0.layout_version()).map_or(-1, i32::from)
}
