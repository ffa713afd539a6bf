//! Sorted pieces of a load on disk, and merging them.
//!
//! A piece is a list of runs in key order, in extents that are freed as soon as they are read.
//! Their links are kept in memory; a cursor opens one run at a time.
//!
//! Invariants
//! 1. Only pieces adjacent in age are merged; of several rows with one key the newest wins.
//! 2. A run is read with its checksums verified, as any other.
//!
//! Threads: one. Cost: each row is encoded and written once per merge, in blocks without codec.

use std::collections::VecDeque;

use crate::{
    block::Codec,
    error::Result,
    page::{Link, PageKind},
    run::{Entry, EntrySource, MergeCursor, RunBuilder, RunCursor, RunOptions},
    store::{Class, HeldExtent, Request},
    sync::Arc,
    tree::TreeContext,
    types::{Lineage, VersionNumber},
};

/// Runs in key order, each in an extent of its own.
type Runs = VecDeque<(Link, HeldExtent)>;

/// A sorted piece.
#[derive(Debug)]
pub(super) struct Piece {
    /// Number of merges that its rows have been through.
    pub level: u32,
    pub bytes: u64,
    pub rows: u64,
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
    pub runs: Runs,
}

/// Writes a piece.
pub(super) struct PieceWriter<'a> {
    cx: &'a Arc<TreeContext>,
    birth: VersionNumber,
    lineage: Lineage,
    builder: RunBuilder,
    piece: Piece,
}

impl<'a> PieceWriter<'a> {
    pub fn new(
        cx: &'a Arc<TreeContext>,
        (birth, lineage): (VersionNumber, Lineage),
        level: u32,
    ) -> Self {
        let (first_key, last_key) = (Vec::new(), Vec::new());
        let piece = Piece { level, bytes: 0, rows: 0, first_key, last_key, runs: Runs::new() };
        Self { cx, birth, lineage, builder: builder(cx), piece }
    }

    /// Adds a row, which must be above all before it.
    pub fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.builder.bytes_so_far() as u64 >= self.cx.shape.run_bytes {
            self.end_run()?;
        }
        self.piece.rows += 1;
        self.builder.push(entry.key, entry.tag, entry.payload)
    }

    fn end_run(&mut self) -> Result<()> {
        let full = std::mem::replace(&mut self.builder, builder(self.cx));
        let Some(run) = full.finish()? else { return Ok(()) };
        let store = &self.cx.store;
        let bytes = u64::from(run.extent_bytes());
        let (birth, lineage) = (self.birth, self.lineage);
        let request = Request { class: Class::Run, kind: PageKind::Run, bytes, birth, lineage };
        let held = HeldExtent::allocate(store, &request)?;
        let link = run.write(store.file(), held.extent().offset, birth, lineage)?;
        let piece = &mut self.piece;
        if piece.runs.is_empty() {
            piece.first_key = run.first_key().unwrap_or_default().to_vec();
        }
        piece.last_key = run.last_key().unwrap_or_default().to_vec();
        piece.bytes += bytes;
        piece.runs.push_back((link, held));
        Ok(())
    }

    pub fn finish(mut self) -> Result<Piece> {
        self.end_run()?;
        Ok(self.piece)
    }
}

fn builder(cx: &TreeContext) -> RunBuilder {
    let block_bytes = cx.shape.block_bytes;
    let options = RunOptions { codec: Codec::Raw, filter_bits: None, block_bytes };
    RunBuilder::new(cx.pool.clone(), options)
}

/// A cursor over a piece, which frees what it has read.
struct PieceCursor {
    cx: Arc<TreeContext>,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    runs: Runs,
    /// The run being read, and its extent.
    current: Option<(RunCursor, HeldExtent)>,
}

impl PieceCursor {
    fn new(cx: &Arc<TreeContext>, piece: Piece) -> Result<Self> {
        let Piece { first_key, last_key, runs, .. } = piece;
        let mut cursor = Self { cx: cx.clone(), first_key, last_key, runs, current: None };
        cursor.next_run()?;
        Ok(cursor)
    }

    /// Moves to the first row of the next run that is not empty.
    fn next_run(&mut self) -> Result<()> {
        while self.entry().is_none() {
            self.current = None;
            let Some((link, held)) = self.runs.pop_front() else { return Ok(()) };
            let mut cursor = RunCursor::bulk(self.cx.open_run(&link)?);
            cursor.seek_first()?;
            self.current = Some((cursor, held));
        }
        Ok(())
    }
}

impl EntrySource for PieceCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.0.entry()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if let Some((cursor, _)) = &mut self.current {
            cursor.advance()?;
        }
        if self.entry().is_none() { self.next_run() } else { Ok(()) }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        while self.entry().is_some_and(|entry| entry.key < key) {
            self.advance()?;
        }
        Ok(())
    }

    fn bounds(&self) -> Option<(&[u8], &[u8])> {
        Some((&self.first_key, &self.last_key))
    }
}

/// Passes the rows of pieces, which are ordered oldest first, to `put` in key order, the newest row
/// of each key; the others are passed to `loser`, which may end the merge.
pub(super) fn merge(
    cx: &Arc<TreeContext>,
    pieces: Vec<Piece>,
    mut loser: impl FnMut(Entry<'_>) -> Result<()>,
    mut put: impl FnMut(Entry<'_>) -> Result<()>,
) -> Result<()> {
    let sources = pieces.into_iter().rev().map(|piece| PieceCursor::new(cx, piece));
    let mut merge = MergeCursor::new(sources.collect::<Result<Vec<_>>>()?);
    while merge.next_group()? {
        let mut group = merge.group();
        if let Some((_, newest)) = group.next() {
            put(newest)?;
        }
        group.try_for_each(|(_, older)| loser(older))?;
    }
    Ok(())
}
