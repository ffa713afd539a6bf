//! When a run is full whatever its shape says: before readers would refuse it.
//!
//! A run that outgrew what a reader takes could not be written, and what is in it was acknowledged long before. So a run
//! that has half of it counts as full wherever runs are cut. Whatever comes in one push fits into the other half: a row is at
//! most 64 MiB, a key 64 KiB.
//!
//! Threads: as the builder.

use super::builder::RunBuilder;
use crate::bounds;

/// Length of a run that nears what a reader takes: more than any at which one is cut.
pub(super) const FULL: usize = usize::MAX / 4;
/// Most bytes of a block in the tail, but for its separator.
const INDEX_ENTRY_BYTES: usize = 40;
/// Bytes of a long value in the tail.
const BLOB_USE_BYTES: usize = 20;

impl RunBuilder {
    /// Looks whether it has half of what a reader takes, of anything: rows of any kind that come in one push fit into
    /// the other half, and so does what the block being built has.
    pub(super) fn look_at_bounds(&mut self) {
        let filter = self.options.filter_bits.unwrap_or(0) * self.hashes.len() / 8;
        let tail = self.index.separators_bytes()
            + self.index.len() * INDEX_ENTRY_BYTES
            + filter
            + self.range_bytes
            + self.blobs.len() * BLOB_USE_BYTES;
        let near = [
            (bounds::RUN_DATA_BYTES, self.data.len()),
            (bounds::RUN_TAIL_BYTES, tail),
            (bounds::SEPARATORS_BYTES, self.index.separators_bytes()),
        ];
        self.nears_bounds |= near.iter().any(|(bound, bytes)| !bound.admits(2 * bytes));
    }
}
