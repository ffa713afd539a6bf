//! Sizes of trees, and the cost of compressing them.

use frond::{DecodeStats, EncodeStats};

use crate::{
    bytes::{given, given_mut},
    error::{call, frond_error},
    store::frond_tree,
};

/// What a tree takes. Leaves hold each key once; a row that was deleted or written anew stays in its leaf until what waits
/// above reaches it.
#[repr(C)]
pub struct frond_sizes {
    /// Rows, as frond_tree_row_count tells them.
    pub rows: u64,
    /// They were counted.
    pub rows_exact: bool,
    /// Rows of leaves.
    pub leaf_rows: u64,
    /// Leaves.
    pub leaves: u64,
    /// Bytes of the rows of leaves, keys and values, before they were encoded. Of a tree without layouts those of its blocks before
    /// their codec.
    pub raw_bytes: u64,
    /// What these rows take as they are encoded.
    pub encoded_bytes: u64,
    /// What leaves take on the disk: encoded rows, indexes, filters, padding to pages, and `blob_bytes`. Pages that a clone shares
    /// with its parent count for both.
    pub disk_bytes: u64,
    /// What values of more than 64 KiB take on the disk. Not in `raw_bytes` and `encoded_bytes`.
    pub blob_bytes: u64,
    /// Bytes that wait in nodes on their way to leaves, encoded without a general codec; an upper estimate.
    pub buffered_bytes: u64,
    /// Bytes of rows in memory that no page has yet; of what large transactions wrote to disk ahead, too.
    pub memory_bytes: u64,
    /// Levels of pages, leaves among them; 0 if no page has anything.
    pub depth: u32,
}

/// What a tree takes by now; nothing is sampled. Reads nothing, but for a tree that an earlier version of Frond has written:
/// that one's nodes are read the first time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_sizes(
    tree: *const frond_tree,
    sizes: *mut frond_sizes,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            let (tree, sizes) = (&given(tree, "the tree")?.tree, given_mut(sizes, "the sizes")?);
            let now = tree.sizes()?;
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
        })
    }
}

/// What encoding took and gave. A chunk is an opaque block, or the bytes of a string column in a typed one: what a general
/// codec, LZ4 or zstd, is tried on.
#[repr(C)]
#[derive(Default)]
pub struct frond_encoded {
    /// Blocks that were encoded.
    pub blocks: u64,
    /// Rows in these.
    pub rows: u64,
    /// Length of these rows.
    pub from_bytes: u64,
    /// What the blocks take.
    pub bytes: u64,
    /// Time that encoding them took, all of it; of opaque blocks, the codec.
    pub nanos: u64,
    /// Chunks that stand under a general codec.
    pub chunks_coded: u64,
    /// Their length.
    pub chunks_coded_from_bytes: u64,
    /// What the codec made of it.
    pub chunks_coded_bytes: u64,
    /// Chunks that the codec was tried on, and that are stored as they are, since it saved too little.
    pub chunks_raw: u64,
    /// Blocks that were taken over from older runs as they were.
    pub carried_blocks: u64,
    /// What these take.
    pub carried_bytes: u64,
}

/// What was done on a tree since the store was opened. Times are of the clock on the wall.
#[repr(C)]
pub struct frond_work {
    /// What its leaves are encoded with: FROND_FAST, FROND_DEFAULT, FROND_SMALL.
    pub size_class: i32,
    /// Encoding leaves.
    pub leaves: frond_encoded,
    /// Encoding runs that wait in nodes, under no general codec.
    pub buffers: frond_encoded,
    /// Chunks of leaves that were decoded, for reads and for merges.
    pub chunks_decoded: u64,
    /// Their length, decoded.
    pub chunks_decoded_bytes: u64,
    /// Time that decoding them took.
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

/// What was done on a tree since the store was opened: what encoding took and gave, and what was decoded. Costs some forty
/// loads. Counted a block, not a row.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_work(
    tree: *const frond_tree,
    work: *mut frond_work,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (tree, work) = (&given(tree, "the tree")?.tree, given_mut(work, "the work")?);
            let stats = tree.stats();
            let DecodeStats { chunks, bytes, nanos } = stats.decoded;
            *work = frond_work {
                size_class: stats.size_class as i32,
                leaves: stats.leaves.into(),
                buffers: stats.buffers.into(),
                chunks_decoded: chunks,
                chunks_decoded_bytes: bytes,
                chunks_decode_nanos: nanos,
            };
            Ok(())
        })
    }
}
