//! Bounds of a store: what the format cannot hold more of, and the error before the commit that would exceed it.
//!
//! Reading refuses what is beyond the format; a commit that brings a store there would be acknowledged, and the store
//! would not open again. So each such bound is looked at before the commit, with [`Error::LimitReached`].
//! `docs/operating.md`, "Limits", lists them with the others.
//!
//! Threads: pure functions.

use crate::{Error, Result, TreeId};

/// Tree numbers stay below this one: it is the lineage of the store's own pages.
const TREES: u32 = u32::MAX;
/// Named snapshots that were ever made; their numbers have 32 bits.
const SNAPSHOTS: u32 = u32::MAX;
/// Lineage pins of clones: the directory page of the space map lists them, at up to 30 bytes each, in at most 64 MiB.
const LINEAGE_PINS: usize = 1 << 20;
/// Trees of which one is a clone of the other, in a row: the root of the last one lists pins of all others, and 64
/// roots share a page of at most 64 MiB.
const CLONES_IN_A_ROW: usize = 16 << 10;

/// The number of a tree that is made, and the next one's; an error if there is no number left.
pub(crate) fn take_tree_number(next: &mut TreeId) -> Result<TreeId> {
    let id = (*next).max(TreeId(1));
    if id.0 == TREES {
        return Err(reached("trees, those that were dropped included", TREES.into()));
    }
    *next = id.next();
    Ok(id)
}

/// The number of a named snapshot that is made, and the next one's; an error if there is no number left.
pub(crate) fn take_snapshot_number(next: &mut u32) -> Result<u32> {
    let id = *next;
    if id == SNAPSHOTS {
        return Err(reached("named snapshots, those that were dropped included", SNAPSHOTS.into()));
    }
    *next += 1;
    Ok(id)
}

/// An error if a tree that has inherited pages of so many others cannot be cloned, with so many pins in the store.
pub(crate) fn check_clone(inherited: usize, pins: usize) -> Result<()> {
    if inherited >= CLONES_IN_A_ROW {
        return Err(reached("clones in a row, each of the one before", CLONES_IN_A_ROW as u64));
    }
    if pins.saturating_add(inherited) >= LINEAGE_PINS {
        return Err(reached("pins of trees that were cloned", LINEAGE_PINS as u64));
    }
    Ok(())
}

fn reached(what: &'static str, max: u64) -> Error {
    Error::LimitReached { what, max }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn is_refused<T>(result: Result<T>) -> bool {
        matches!(&result, Err(error @ Error::LimitReached { .. }) if error.to_string().starts_with("FRD-1018"))
    }

    #[test]
    fn numbers_end_before_those_that_mean_something_else() {
        let mut next = TreeId(0);
        assert_eq!(take_tree_number(&mut next).unwrap(), TreeId(1));
        next = TreeId(u32::MAX - 1);
        assert_eq!(take_tree_number(&mut next).unwrap(), TreeId(u32::MAX - 1));
        assert!(is_refused(take_tree_number(&mut next)), "the lineage of the store");
        let mut next = u32::MAX - 1;
        assert!(take_snapshot_number(&mut next).is_ok());
        assert!(is_refused(take_snapshot_number(&mut next)));
    }

    #[test]
    fn clones_beyond_what_a_page_lists_are_refused() {
        check_clone(CLONES_IN_A_ROW - 1, 0).unwrap();
        assert!(is_refused(check_clone(CLONES_IN_A_ROW, 0)));
        check_clone(2, LINEAGE_PINS - 3).unwrap();
        assert!(is_refused(check_clone(2, LINEAGE_PINS - 2)));
    }
}
