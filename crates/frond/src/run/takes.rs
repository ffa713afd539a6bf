//! Who is shown the entries of a walk.

use super::Entry;
use crate::{Result, block::typed::Even};

/// Takes the entries of a [walk](super::RunCursor::walk).
pub trait TakesEntries {
    /// Takes the next entry, with whether its payload is all there is, and not the parts that are wanted; false
    /// if it wants no more.
    fn take(&mut self, entry: Entry<'_>, is_whole: bool) -> Result<bool>;

    /// The same of the next puts at once: how many of them it has taken, one at least, and whether it wants
    /// more. `None` if it wants them one by one.
    fn take_even(&mut self, _rows: &Even<'_>, _is_whole: bool) -> Option<(usize, bool)> {
        None
    }
}
