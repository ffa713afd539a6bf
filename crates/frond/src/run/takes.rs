//! The trait of consumers of a run cursor's walk.

use super::Entry;
use crate::{Result, block::columnar::Even};

/// Takes the entries of a [walk](super::RunCursor::walk).
pub trait TakesEntries {
    /// Takes the next entry. `is_whole`: its payload is the whole value, and not only the wanted
    /// fields. Returns false to end the walk.
    fn take(&mut self, entry: Entry<'_>, is_whole: bool) -> Result<bool>;

    /// Takes several of the next puts together: returns how many it has taken, at least one, and
    /// whether the walk continues. `None` to get them one by one.
    fn take_even(&mut self, _rows: &Even<'_>, _is_whole: bool) -> Option<(usize, bool)> {
        None
    }
}
