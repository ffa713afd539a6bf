//! What a link stores about a run besides its address: enough for flush decisions and for the sums
//! of a tree, without opening the run.

use crate::{blob::BlobRef, run::Run};

/// What a link stores about a run besides its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RunMeta {
    /// Entries.
    pub entries: u64,
    /// Deletes among the entries; 0 if this was read from a node, which does not store it.
    pub deletes: u64,
    /// Encoded bytes of all blocks.
    pub bytes: u64,
    /// True if it carries range deletes: lookups must then open it whatever its keys are.
    pub range_deletes: bool,
    /// True if it lists blobs: they are freed with it.
    pub blobs: bool,
    /// `None` for a leaf of an earlier version of Frond, or if it was read from a buffer.
    pub measured: Option<Measured>,
}

/// What else a tree's sums need of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Measured {
    /// Bytes of its rows before encoding.
    pub raw_bytes: u64,
    /// Bytes of the extents of the blobs that it lists.
    pub blob_bytes: u64,
}

impl RunMeta {
    /// Entries that give their key a value, as far as that is known.
    pub fn rows(&self) -> u64 {
        self.entries.saturating_sub(self.deletes)
    }

    /// The metadata of a run.
    pub fn of(run: &Run) -> Self {
        Self {
            entries: run.entries(),
            deletes: run.counts().deletes,
            bytes: run.data_bytes(),
            range_deletes: !run.range_deletes().is_empty(),
            blobs: !run.blobs().is_empty(),
            measured: Some(Measured::of(run)),
        }
    }
}

impl Measured {
    /// Computed from the run itself.
    pub fn of(run: &Run) -> Self {
        let blobs = run.blobs().iter().filter_map(|listed| BlobRef::from_disk(&listed.reference));
        let blob_bytes = blobs.map(|blob| u64::from(blob.extent().bytes)).sum();
        Self { raw_bytes: run.counts().raw_bytes, blob_bytes }
    }
}
