//! Sizes of trees, and the cost of compressing them.

use frond::stats::{DecodeStats, EncodeStats};

use crate::{bytes::*, error::*, store::frond_tree};

/// Sizes of a tree. Leaves hold each key once. A row that was deleted or overwritten stays in its
/// leaf until the newer message, which waits in a node above, reaches the leaf.
#[repr(C)]
pub struct frond_sizes {
    /// Number of rows, as frond_tree_row_count returns it.
    pub rows: u64,
    /// Whether the rows were counted.
    pub rows_exact: bool,
    /// Number of rows in leaves.
    pub leaf_rows: u64,
    /// Number of leaves.
    pub leaves: u64,
    /// Bytes of keys and values in leaves before encoding; for a tree without layouts, of its
    /// blocks before compression.
    pub raw_bytes: u64,
    /// Encoded bytes of these rows.
    pub encoded_bytes: u64,
    /// Bytes of leaves on disk: encoded rows, indexes, filters, padding to pages, and `blob_bytes`.
    /// Pages that a clone shares with its parent count for both.
    pub disk_bytes: u64,
    /// Bytes on disk of values of more than 64 KiB. Not included in `raw_bytes` and
    /// `encoded_bytes`.
    pub blob_bytes: u64,
    /// Bytes that wait in nodes on their way to leaves, encoded without a general codec; an upper
    /// estimate.
    pub buffered_bytes: u64,
    /// Bytes of rows in memory that are in no page yet; also of what large transactions wrote to
    /// disk before their commit.
    pub memory_bytes: u64,
    /// Levels of pages, including leaves; 0 if there are no pages.
    pub depth: u32,
}

/// Returns the current sizes of a tree; nothing is sampled. Reads nothing, except for a tree that
/// an earlier version of Frond has written: its nodes are read the first time.
#[api]
fn frond_tree_sizes(tree: &frond_tree, sizes: &mut frond_sizes) -> Done {
    let now = tree.0.sizes()?;
    *sizes = frond_sizes {
        rows: now.rows,
        rows_exact: now.rows_exact,
        leaf_rows: now.leaf_rows,
        leaves: now.leaves,
        raw_bytes: now.raw_bytes,
        encoded_bytes: now.encoded_bytes,
        disk_bytes: now.disk_bytes,
        blob_bytes: now.blob_bytes,
        buffered_bytes: now.buffered_bytes,
        memory_bytes: now.memory_bytes,
        depth: now.depth.into(),
    };
    Ok(())
}

/// Costs and results of encoding. A chunk is a row block, or the bytes of a string column in a
/// columnar block: the unit to which a general codec, LZ4 or zstd, is applied.
#[repr(C)]
#[derive(Default)]
pub struct frond_encoded {
    /// Blocks that were encoded.
    pub blocks: u64,
    /// Rows in these blocks.
    pub rows: u64,
    /// Bytes of these rows.
    pub from_bytes: u64,
    /// Bytes of the encoded blocks.
    pub bytes: u64,
    /// Time spent encoding them, in nanoseconds; for row blocks, in the codec.
    pub nanos: u64,
    /// Chunks that a general codec has compressed.
    pub chunks_coded: u64,
    /// Bytes of these chunks before compression.
    pub chunks_coded_from_bytes: u64,
    /// Bytes of these chunks after compression.
    pub chunks_coded_bytes: u64,
    /// Chunks that are stored uncompressed, because the codec saved too little.
    pub chunks_raw: u64,
    /// Blocks that were copied unchanged from older runs.
    pub carried_blocks: u64,
    /// Bytes of these blocks.
    pub carried_bytes: u64,
}

/// Work done on a tree since the store was opened. Times are wall-clock times.
#[repr(C)]
pub struct frond_work {
    /// Size class with which leaves are encoded: FROND_FAST, FROND_DEFAULT, FROND_SMALL.
    pub size_class: i32,
    /// Encoding of leaves.
    pub leaves: frond_encoded,
    /// Encoding of runs that wait in nodes, without a general codec.
    pub buffers: frond_encoded,
    /// Chunks of leaves that were decoded, for reads and for merges.
    pub chunks_decoded: u64,
    /// Bytes of these chunks after decoding.
    pub chunks_decoded_bytes: u64,
    /// Time spent decoding them, in nanoseconds.
    pub chunks_decode_nanos: u64,
}

impl From<EncodeStats> for frond_encoded {
    fn from(stats: EncodeStats) -> Self {
        Self {
            blocks: stats.blocks,
            rows: stats.rows,
            from_bytes: stats.from_bytes,
            bytes: stats.bytes,
            nanos: stats.nanos,
            chunks_coded: stats.chunks_coded,
            chunks_coded_from_bytes: stats.chunks_coded_from_bytes,
            chunks_coded_bytes: stats.chunks_coded_bytes,
            chunks_raw: stats.chunks_raw,
            carried_blocks: stats.carried_blocks,
            carried_bytes: stats.carried_bytes,
        }
    }
}

/// Returns the work done on a tree since the store was opened: costs and results of encoding, and
/// what was decoded. Costs about forty memory loads. The counters are maintained per block, not per
/// row.
#[api]
fn frond_tree_work(tree: &frond_tree, work: &mut frond_work) {
    let stats = tree.0.stats();
    let DecodeStats { chunks, bytes, nanos } = stats.decoded;
    *work = frond_work {
        size_class: stats.size_class as i32,
        leaves: stats.leaves.into(),
        buffers: stats.buffers.into(),
        chunks_decoded: chunks,
        chunks_decoded_bytes: bytes,
        chunks_decode_nanos: nanos,
    };
}
