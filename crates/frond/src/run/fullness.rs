//! The bounds at which a run counts as full, so that it never outgrows what readers accept.
//!
//! A run larger than readers accept could not be written, although its contents were acknowledged
//! long before. So a run that has reached half of such a bound counts as full wherever runs are
//! cut. Whatever a single push adds fits into the other half: a row is at most 64 MiB, a key 64
//! KiB.
//!
//! Threads: as the builder.

use super::builder::RunBuilder;
use crate::bounds;

/// The most bytes that a block takes in the footer, without its separator.
const INDEX_ENTRY_BYTES: usize = 40;
/// Bytes that a long value takes in the footer.
const BLOB_USE_BYTES: usize = 20;

impl RunBuilder {
    /// Checks whether the run has reached half of any bound of its readers. Whatever a single push
    /// adds fits into the other half, and so does the block being built.
    pub(super) fn look_at_bounds(&mut self) {
        let filter = self.options.filter_bits.unwrap_or(0) * self.hashes.len() / 8;
        let footer = self.index.separators_bytes()
            + self.index.len() * INDEX_ENTRY_BYTES
            + filter
            + self.range_bytes
            + self.blobs.len() * BLOB_USE_BYTES;
        let near = [
            (bounds::RUN_DATA_BYTES, self.data.len()),
            (bounds::RUN_FOOTER_BYTES, footer),
            (bounds::SEPARATORS_BYTES, self.index.separators_bytes()),
        ];
        self.nears_bounds |= near.iter().any(|(bound, bytes)| !bound.admits(2 * bytes));
    }
}
