//! The consumer of the entries of a walk.

use super::Entry;
use crate::{Result, block::columnar::Even};

/// Takes the entries of a [walk](super::RunCursor::walk).
pub trait TakesEntries {
    /// Takes the next entry. `is_whole`: its payload is the whole value, and not only the wanted
    /// fields. Returns false if it wants no more.
    fn take(&mut self, entry: Entry<'_>, is_whole: bool) -> Result<bool>;

    /// Takes several of the next puts together: returns how many it has taken, at least one, and
    /// whether it wants more. `None` if it wants them one by one.
    fn take_even(&mut self, _rows: &Even<'_>, _is_whole: bool) -> Option<(usize, bool)> {
        None
    }
}
