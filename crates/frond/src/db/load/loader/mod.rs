//! Bulk loads: rows in any order become a tree that nothing links yet.
//!
//! Rows fill a buffer. If they came in order, they go into leaves, and so do the following rows as
//! long as they ascend: nothing is sorted, nothing is written twice. Otherwise each full buffer is
//! sorted and written as a *piece*; pieces are merged, at the end into leaves and nodes, bottom-up
//! (`tree/build.rs`). This module decides where rows go; `bulk.rs` publishes the tree.
//!
//! Invariants
//! 1. Of several rows with one key the last one wins; in a unique tree a second one ends the load.
//! 2. Nothing is linked: a load that is dropped frees all of its pages and blobs.
//! 3. Memory: a buffer, or the cursors of a merge, within the load's share of the budget (at least
//!    four cursors); the leaf being built; about ten bytes for each page, and a hold for each long
//!    value.
//!
//! Threads: a load has one owner; loads run concurrently with each other and with everything else.

mod buffer;
mod pieces;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering as Order, collections::BTreeMap, fmt, ops::Range};

use crate::{
    Duplicate, Error,
    blob::{BlobHold, BlobRef},
    cancel::CancelToken,
    error::Result,
    message::{Kind, Tag},
    pipeline::{LoadShare, Loads},
    progress::Progress,
    run::{BULK_BYTES, BlobReader, Entry},
    store::HeldPages,
    sync::{Arc, Ordering},
    tree::{Built, TreeBuilder, TreeContext, TreeTraits},
    trim::give_freed_back,
    types::VersionNumber,
};

use buffer::RowBuffer;
use pieces::{Piece, PieceWriter, merge};

/// Memory of a merge cursor: the piece of the file that it reads, the run's footer, a block.
const CURSOR_BYTES: u64 = BULK_BYTES as u64 + (32 << 10);
/// Number of pieces merged at once: at least, whatever the budget; and at most, because of the
/// comparisons.
const PIECES_MERGED: std::ops::RangeInclusive<u64> = 4..=64;
/// Rows between two checks for cancellation, and between two progress reports.
const ROWS_A_LOOK: u64 = 1024;
/// Memory for the leaf and the nodes being built.
const BUILDER_BYTES: u64 = 1 << 20;
/// The level of rows that were written as leaves and must be read again: above that of any merge.
const LEAVES_LEVEL: u32 = u32::MAX;

/// Rows that have ascended so far.
#[derive(Debug)]
struct Ascending {
    builder: TreeBuilder,
    first_key: Vec<u8>,
    rows: u64,
    /// The last row, held back: the next one may replace it.
    key: Vec<u8>,
    tag: Tag,
    payload: Vec<u8>,
}

impl Ascending {
    fn row(&self) -> Entry<'_> {
        Entry { key: &self.key, tag: self.tag, payload: &self.payload }
    }

    /// Writes the row that was held back.
    fn write(&mut self) -> Result<()> {
        self.rows += 1;
        self.builder.push(&self.key, self.tag, &self.payload)
    }

    fn hold_back(&mut self, key: &[u8], tag: Tag, payload: &[u8]) {
        self.tag = tag;
        for (own, new) in [(&mut self.key, key), (&mut self.payload, payload)] {
            own.clear();
            own.extend_from_slice(new);
        }
    }
}

/// A bulk load.
#[derive(Debug)]
pub(crate) struct Loader {
    cx: Arc<TreeContext>,
    traits: TreeTraits,
    birth: VersionNumber,
    share: LoadShare,
    buffer: RowBuffer,
    ascending: Option<Box<Ascending>>,
    /// Pieces on disk, oldest first.
    pieces: Vec<Piece>,
    losers: Losers,
    pub cancel: CancelToken,
    pub progress: Progress,
}

/// Callback that receives the key and the value of a row.
type TellRow = Box<dyn FnMut(&[u8], &[u8]) + Send>;

/// Handles rows that are replaced by later rows with the same key. Holds the long values of the
/// remaining rows, by offset of their extent; those of replaced rows are released.
#[derive(Default)]
struct Losers {
    blobs: BTreeMap<u64, Arc<BlobHold>>,
    /// The name of the tree if it is unique: then replaced rows are refused.
    refuses: Option<String>,
    /// Receives the row that ends the load of a unique tree.
    tell: Option<TellRow>,
}

impl fmt::Debug for Losers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Losers")
            .field("blobs", &self.blobs)
            .field("refuses", &self.refuses)
            .finish_non_exhaustive()
    }
}

impl Losers {
    fn lose(&mut self, cx: &TreeContext, row: Entry<'_>) -> Result<()> {
        if let Some(tree) = &self.refuses {
            if let Some(tell) = &mut self.tell {
                match row.tag.kind() {
                    Kind::PutBlob => tell(row.key, &cx.read_blob(row.payload)?),
                    _ => tell(row.key, row.payload),
                }
            }
            return Err(Error::DuplicateKey(Duplicate::InLoad {
                tree: tree.clone(),
                key: row.key.to_vec(),
            }));
        }
        if row.tag.kind() == Kind::PutBlob
            && let Some(reference) = BlobRef::from_disk(row.payload)
        {
            self.blobs.remove(&reference.extent().offset);
        }
        Ok(())
    }
}

/// The adjacent pieces to merge next, out of pieces with these lengths; `None` if there are no more
/// than `count`.
fn to_merge(bytes: &[u64], count: usize) -> Option<Range<usize>> {
    let surplus = bytes.len().checked_sub(count).filter(|surplus| *surplus > 0)?;
    let width = (surplus + 1).min(count);
    let windows = bytes.windows(width).map(|window| window.iter().sum::<u64>());
    let (first, _) = windows.enumerate().min_by_key(|&(_, bytes)| bytes)?;
    Some(first..first + width)
}

/// Counts the rows that are written to leaves.
struct Written {
    cancel: CancelToken,
    progress: Progress,
    rows: u64,
}

impl Written {
    fn look(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_A_LOOK) {
            self.cancel.check_cancelled()?;
            self.progress.note_written(ROWS_A_LOOK);
        }
        Ok(())
    }

    fn end(self) -> u64 {
        self.progress.note_written(self.rows % ROWS_A_LOOK);
        self.rows
    }
}

/// The result of a load.
#[derive(Debug)]
pub(crate) struct Made {
    pub built: Built,
    pub rows: u64,
    /// The long values of its rows.
    pub blobs: Vec<Arc<BlobHold>>,
}

impl Loader {
    /// A load of tree `name`, whose pages get version `birth` as their birth.
    pub fn new(
        cx: &Arc<TreeContext>,
        loads: &Arc<Loads>,
        traits: TreeTraits,
        birth: VersionNumber,
        (name, unique): (&str, bool),
    ) -> Self {
        let refuses = unique.then(|| name.to_owned());
        Self {
            cx: cx.clone(),
            traits,
            birth,
            share: LoadShare::new(loads),
            buffer: RowBuffer::default(),
            ascending: None,
            pieces: Vec::new(),
            losers: Losers { refuses, ..Losers::default() },
            cancel: CancelToken::default(),
            progress: Progress::default(),
        }
    }

    /// For a unique tree: sets the callback that receives one of two rows with the same key, before
    /// the load ends.
    pub fn on_duplicate(&mut self, tell: TellRow) {
        self.losers.tell = Some(tell);
    }

    /// Adds a row whose value is a blob.
    pub fn put_blob(&mut self, key: &[u8], reference: BlobRef, hold: Arc<BlobHold>) -> Result<()> {
        self.losers.blobs.insert(reference.extent().offset, hold);
        self.put(key, Tag::PUT_BLOB, &reference.to_disk())
    }

    /// Adds a row.
    pub fn put(&mut self, key: &[u8], tag: Tag, payload: &[u8]) -> Result<()> {
        if let Some(ascending) = &mut self.ascending {
            match key.cmp(&ascending.key) {
                Order::Greater => {
                    ascending.write()?;
                    ascending.hold_back(key, tag, payload);
                    return Ok(());
                }
                Order::Equal => {
                    self.losers.lose(&self.cx, ascending.row())?;
                    ascending.hold_back(key, tag, payload);
                    return Ok(());
                }
                Order::Less => self.read_leaves_again()?,
            }
        }
        if !self.buffer.has_room(key, payload, self.share.limit()) {
            if self.pieces.is_empty() && self.buffer.ascends() {
                self.go_on_ascending()?;
                return self.put(key, tag, payload);
            }
            self.spill()?;
        }
        self.buffer.push(key, tag, payload);
        Ok(())
    }

    fn builder(&self) -> TreeBuilder {
        let pages = HeldPages::new(&self.cx.store, self.birth, self.traits.lineage);
        TreeBuilder::new(&self.cx, self.traits.clone(), pages)
    }

    /// Writes the rows of a full buffer, which came in order, to leaves; the following rows go
    /// there, too, as long as they ascend.
    fn go_on_ascending(&mut self) -> Result<()> {
        let mut builder = self.builder();
        let buffer = std::mem::take(&mut self.buffer);
        self.share.charge(buffer.memory_bytes() + BUILDER_BYTES);
        let (first_key, mut rows, mut last) = (buffer.first_key().to_vec(), 0, None);
        for row in buffer.iter() {
            if let Some(Entry { key, tag, payload }) = last.replace(row) {
                builder.push(key, tag, payload)?;
                rows += 1;
            }
        }
        let Some(Entry { key, tag, payload }) = last else { return Ok(()) };
        let (key, payload) = (key.to_vec(), payload.to_vec());
        self.ascending = Some(Box::new(Ascending { builder, first_key, rows, key, tag, payload }));
        let freed_bytes = buffer.memory_bytes();
        drop(buffer);
        self.share.charge(BUILDER_BYTES);
        give_freed_back(freed_bytes);
        Ok(())
    }

    /// Frees the buffer: no more rows go through it.
    fn free_buffer(&mut self) {
        let freed_bytes = self.buffer.memory_bytes();
        self.buffer = RowBuffer::default();
        give_freed_back(freed_bytes);
    }

    /// Turns the leaves into the first piece, because a row came that lies below the last one.
    fn read_leaves_again(&mut self) -> Result<()> {
        let Some(mut ascending) = self.ascending.take() else { return Ok(()) };
        ascending.write()?;
        let Ascending { builder, first_key, key, rows, .. } = *ascending;
        let runs = builder.into_leaves()?;
        let bytes = runs.iter().map(|(link, _)| u64::from(link.bytes)).sum();
        let (level, last_key, runs) = (LEAVES_LEVEL, key, runs.into());
        self.pieces.push(Piece { level, bytes, rows, first_key, last_key, runs });
        Ok(())
    }

    /// Writes the buffer as a piece; merges pieces once there are many.
    fn spill(&mut self) -> Result<()> {
        self.share.charge(self.buffer.memory_bytes() + BUILDER_BYTES);
        self.buffer.sort(|row| self.losers.lose(&self.cx, row))?;
        let mut writer = PieceWriter::new(&self.cx, (self.birth, self.traits.lineage), 0);
        self.progress.note_to_sort(self.buffer.rows());
        self.buffer.iter().try_for_each(|row| writer.push(row))?;
        self.progress.note_sorted(self.buffer.rows());
        self.keep(writer.finish()?);
        self.buffer.clear();
        let merged = self.pieces_merged();
        while let Some(first) = self.pieces.len().checked_sub(merged)
            && let [oldest, .., newest] = &self.pieces[first..]
            && oldest.level == newest.level
        {
            // A merge needs the memory of the buffer.
            self.buffer = RowBuffer::default();
            let rows = self.pieces[first..].iter().map(|piece| piece.rows).sum();
            self.progress.note_to_sort(rows);
            self.merge_pieces(first, merged)?;
        }
        Ok(())
    }

    fn keep(&mut self, piece: Piece) {
        self.share.loads.spilled_bytes.fetch_add(piece.bytes, Ordering::Relaxed);
        self.pieces.push(piece);
    }

    /// Number of pieces merged at once.
    fn pieces_merged(&self) -> usize {
        let (least, most) = PIECES_MERGED.into_inner();
        (self.share.limit() / CURSOR_BYTES).clamp(least, most) as usize
    }

    /// Merges `count` pieces, from `first` on, into one.
    fn merge_pieces(&mut self, first: usize, count: usize) -> Result<()> {
        self.share.charge(count as u64 * CURSOR_BYTES + BUILDER_BYTES);
        let pieces: Vec<Piece> = self.pieces.drain(first..first + count).collect();
        let level = pieces.iter().map(|piece| piece.level.saturating_add(1)).max();
        let birth = (self.birth, self.traits.lineage);
        let mut writer = PieceWriter::new(&self.cx, birth, level.unwrap_or_default());
        let rows: u64 = pieces.iter().map(|piece| piece.rows).sum();
        let (losers, cx, mut count) = (&mut self.losers, &self.cx, 0u64);
        let (cancel, progress) = (&self.cancel, &self.progress);
        merge(
            &self.cx,
            pieces,
            |row| losers.lose(cx, row),
            |row| {
                count += 1;
                if count % ROWS_A_LOOK == 0 {
                    cancel.check_cancelled()?;
                    progress.note_sorted(ROWS_A_LOOK);
                }
                writer.push(row)
            },
        )?;
        // Includes the rows that were replaced.
        progress.note_sorted(rows.saturating_sub(count - count % ROWS_A_LOOK));
        let merged = writer.finish()?;
        self.share.loads.spilled_bytes.fetch_add(merged.bytes, Ordering::Relaxed);
        self.pieces.insert(first, merged);
        Ok(())
    }

    /// Ends the load, after the last row: builds what is not built yet.
    pub fn finish(mut self) -> Result<Made> {
        self.cancel.check_cancelled()?;
        if let Some(mut ascending) = self.ascending.take() {
            ascending.write()?;
            let Ascending { builder, rows, .. } = *ascending;
            self.progress.note_written(rows);
            return self.made(builder, rows);
        }
        let mut builder = self.builder();
        let mut written =
            Written { cancel: self.cancel.clone(), progress: self.progress.clone(), rows: 0 };
        if self.pieces.is_empty() {
            self.share.charge(self.buffer.memory_bytes() + BUILDER_BYTES);
            self.buffer.sort(|row| self.losers.lose(&self.cx, row))?;
            for row in self.buffer.iter() {
                written.look()?;
                builder.push(row.key, row.tag, row.payload)?;
            }
            self.free_buffer();
            return self.made(builder, written.end());
        }
        self.spill()?;
        self.free_buffer();
        let merged = self.pieces_merged();
        self.progress.note_to_sort(self.to_merge_down_to(merged));
        self.merge_down_to(merged)?;
        self.share.charge(self.pieces.len() as u64 * CURSOR_BYTES + BUILDER_BYTES);
        let pieces = std::mem::take(&mut self.pieces);
        let loser = |row: Entry<'_>| self.losers.lose(&self.cx, row);
        merge(&self.cx, pieces, loser, |row| {
            written.look()?;
            builder.push(row.key, row.tag, row.payload)
        })?;
        self.made(builder, written.end())
    }

    /// Merges pieces until there are no more than `count`: always neighbours, those with the fewest
    /// bytes.
    fn merge_down_to(&mut self, count: usize) -> Result<()> {
        while let Some(window) =
            to_merge(&self.pieces.iter().map(|piece| piece.bytes).collect::<Vec<_>>(), count)
        {
            self.merge_pieces(window.start, window.len())?;
        }
        Ok(())
    }

    /// Number of rows that [`merge_down_to`](Self::merge_down_to) merges, each counted once per
    /// merge.
    fn to_merge_down_to(&self, count: usize) -> u64 {
        let (mut bytes, mut rows): (Vec<_>, Vec<_>) =
            self.pieces.iter().map(|piece| (piece.bytes, piece.rows)).unzip();
        let mut all = 0;
        while let Some(window) = to_merge(&bytes, count) {
            let merge = |of: &mut Vec<u64>| {
                let sum: u64 = of[window.clone()].iter().sum();
                of.splice(window.clone(), [sum]);
                sum
            };
            merge(&mut bytes);
            all += merge(&mut rows);
        }
        all
    }

    fn made(self, builder: TreeBuilder, rows: u64) -> Result<Made> {
        let mut built = builder.finish()?;
        built.root.rows = Some(rows);
        self.share.loads.rows.fetch_add(rows, Ordering::Relaxed);
        Ok(Made { built, rows, blobs: self.losers.blobs.into_values().collect() })
    }
}
