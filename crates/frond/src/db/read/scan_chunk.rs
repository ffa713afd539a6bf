//! One chunk of a scan: the rows of a stretch of the tree, merged from all sources that have
//! entries there.
//!
//! Sources without entries in the range are left out. Nearly always only a leaf remains then, and
//! its rows are copied block by block, without a merge.
//!
//! Invariant: rows are appended in ascending order, whichever way the scan goes.
//!
//! Threads: one.

use crate::{
    Error, Result, TreeId,
    block::columnar::Even,
    catalog::TreeEntry,
    db::{
        Projection, RowBuf,
        read::{
            Messages, Snapshot,
            readahead::Readahead,
            sources::{MemSource, ReadSource},
        },
        tree::to_newest_version,
    },
    layout::RowVersions,
    message::Kind,
    run::{Direction, Entry, EntrySource, MergeCursor, RowSchema, RunCursor, TakesEntries},
    tree::{LeafStretch, SortedRunsCursor, clip},
    version::Version,
};

/// Bytes at which a chunk ends, whatever its rows, unless it must reach the end of its range.
const BYTES_MAX: usize = 128 << 10;
/// Bytes and rows at which a chunk ends if all its rows are from one run. Continuing there costs no
/// descent, and a copy of this size is still in the nearest CPU caches.
const LONE_BYTES_MAX: usize = 32 << 10;
const LONE_ROWS_MAX: usize = 512;

/// Description of a chunk to fetch.
pub(in crate::db) struct ScanChunk<'a> {
    pub snapshot: &'a Snapshot,
    pub version: &'a Version,
    pub tree: TreeId,
    pub stretch: &'a LeafStretch,
    /// The range: its first key, and the first key beyond it.
    pub range: (Option<&'a [u8]>, Option<&'a [u8]>),
    /// Most rows of the chunk; `usize::MAX` means to the end of the range.
    pub rows_max: usize,
    /// Direction of the scan, and how many bytes are read at once.
    pub ahead: (Direction, usize),
    /// Readahead on other threads.
    pub others: Option<&'a Readahead>,
    /// How values are converted before they are returned; `None`: they are returned as they are.
    pub shape: Option<RowConversion<'a>>,
}

/// How values of a tree are converted for a reader.
#[derive(Clone, Copy)]
pub(in crate::db) struct RowConversion<'a> {
    entry: &'a TreeEntry,
    /// Converts values to the version that the reader knows.
    versions: Option<&'a RowVersions>,
    /// The parts that are wanted; `None`: all.
    projection: Option<&'a Projection>,
}

impl<'a> RowConversion<'a> {
    /// The conversion for a reader with this schema that wants these parts.
    pub fn of(
        entry: Option<&'a TreeEntry>,
        schema: Option<&'a RowSchema>,
        projection: Option<&'a Projection>,
    ) -> Option<Self> {
        let versions = schema.and_then(|schema| schema.versions());
        let versions = versions.map(|versions| &**versions);
        entry.filter(|_| versions.is_some() || projection.is_some()).map(|entry| Self {
            entry,
            versions,
            projection,
        })
    }

    /// Converts a whole value for the reader.
    pub fn give(&self, value: &mut Vec<u8>) -> Result<()> {
        match (self.projection, self.versions) {
            (Some(projection), _) => projection.keep(Some(self.entry), value),
            (None, Some(versions)) => to_newest_version(versions, self.entry, value),
            (None, None) => Ok(()),
        }
    }

    /// True if a whole value needs no conversion.
    #[inline]
    fn has(&self, value: &[u8]) -> bool {
        self.projection.is_none() && self.versions.is_none_or(|versions| versions.has(value))
    }
}

/// The result of fetching a chunk.
#[derive(Default)]
pub(in crate::db) struct Fetched {
    /// Deleted keys met before the first row.
    pub tombstones: u64,
    /// Where it ended before its range did, if only one run has entries in the range.
    pub lone: Option<Box<RunCursor>>,
}

impl<'a> ScanChunk<'a> {
    /// Appends the rows of the chunk to `rows`.
    pub fn fetch(&self, rows: &mut RowBuf) -> Result<Fetched> {
        if let (Some(lo), Some(hi)) = self.range
            && lo >= hi
        {
            return Ok(Fetched::default());
        }
        let mut sources = self.sources()?;
        if let [ReadSource::Run(_, false)] = &sources[..]
            && let Some(ReadSource::Run(cursor, _)) = sources.pop()
        {
            return self.walk(cursor, rows);
        }
        let mut filler = Filler::new(self, rows);
        if !sources.is_empty() {
            let folder = self.snapshot.engine.cx.folder();
            let mut merge = MergeCursor::new(sources);
            while let Some((entry, is_whole)) = merge.next_part_folded(&folder)? {
                if !filler.take(entry, is_whole)? {
                    break;
                }
            }
        }
        let tombstones = filler.finish()?;
        Ok(Fetched { tombstones, lone: None })
    }

    /// Continues an earlier chunk of the same version and stretch: appends rows from the next entry
    /// of the only run that has any.
    pub fn go_on(&self, mut cursor: Box<RunCursor>, rows: &mut RowBuf) -> Result<Fetched> {
        cursor.set_ahead(self.ahead.1);
        cursor.expect(self.rows_max);
        cursor.advance()?;
        self.walk(cursor, rows)
    }

    /// Appends rows from the cursor's current entry on.
    fn walk(&self, mut cursor: Box<RunCursor>, rows: &mut RowBuf) -> Result<Fetched> {
        let mut filler = Filler::new(self, rows).alone();
        cursor.walk(&mut filler)?;
        let goes_on = filler.misfit.is_none() && cursor.may_stay();
        let tombstones = filler.finish()?;
        Ok(Fetched { tombstones, lone: goes_on.then_some(cursor) })
    }

    /// Everything that has entries or range deletes in the range, newest first.
    fn sources(&self) -> Result<Vec<ReadSource<'a>>> {
        let (cx, (lo, hi)) = (&self.snapshot.engine.cx, self.range);
        let at = self.snapshot.seqno();
        let mut sources = Vec::with_capacity(self.stretch.runs.len() + 2);
        for slot in self.version.memtables() {
            let source = MemSource::new(&slot.table, self.tree, at, cx.folder(), lo, hi)?;
            if !source.is_empty() {
                sources.push(ReadSource::Memtable(Box::new(source)));
            }
            for piece in slot.spilled_at(self.tree, at) {
                let mut cursor = SortedRunsCursor::new(cx, piece, (lo, hi));
                cursor.seek_first()?;
                if cursor.entry().is_some() {
                    sources.push(ReadSource::Spilled(Box::new(cursor)));
                }
            }
        }
        for part in &self.stretch.runs {
            let run = part.run.open(cx)?;
            let (lo, hi) = clip((lo, hi), (part.lo.as_deref(), part.hi.as_deref()));
            if let (Some(lo), Some(hi)) = (lo, hi)
                && lo >= hi
            {
                continue;
            }
            let (direction, bytes) = self.ahead;
            let cursor = RunCursor::new(run.clone(), cx.cache.clone()).range(lo, hi);
            let mut cursor = cursor.read_ahead(direction, bytes);
            if let Some(others) = self.others {
                cursor.set_others(others.requests());
            }
            if let Some(RowConversion { projection: Some(projection), .. }) = self.shape {
                cursor.project(projection.columns())?;
            }
            cursor.expect(self.rows_max);
            cursor.seek_first()?;
            let has_ranges = cursor.has_range_deletes();
            if cursor.entry().is_some() || has_ranges {
                sources.push(ReadSource::Run(Box::new(cursor), has_ranges));
            }
        }
        Ok(sources)
    }
}

impl TakesEntries for Filler<'_, '_> {
    #[inline(always)]
    fn take(&mut self, entry: Entry<'_>, is_whole: bool) -> Result<bool> {
        Filler::take(self, entry, is_whole)
    }

    /// Takes many rows of one columnar block at once. All of them have the same version of the
    /// layout, so if the first value needs no conversion, none does.
    fn take_even(&mut self, rows: &Even<'_>, is_whole: bool) -> Option<(usize, bool)> {
        let first = rows.values.bytes.get(..rows.values.width)?;
        if is_whole && self.piece.shape.is_some_and(|shape| !shape.has(first)) {
            return None;
        }
        let room = self.bytes_max.saturating_sub(self.rows.bytes());
        let rows_max = self.rows_max.saturating_sub(self.rows.len());
        let by_bytes = room.div_ceil(rows.keys.apart + rows.values.apart);
        let taken = rows.rows.min(rows_max).min(by_bytes).max(1);
        self.rows.push_even(rows, taken);
        Some((taken, self.has_room()))
    }
}

struct Filler<'p, 'a> {
    piece: &'p ScanChunk<'a>,
    rows: &'p mut RowBuf,
    /// Number of rows at which the chunk ends; maximal if the chunk must reach the end of its
    /// range.
    rows_max: usize,
    bytes_max: usize,
    value: Vec<u8>,
    tombstones: u64,
    /// Error of a value that has no parts, or has a version that the reader does not know.
    misfit: Option<Error>,
}

impl<'p, 'a> Filler<'p, 'a> {
    fn new(piece: &'p ScanChunk<'a>, rows: &'p mut RowBuf) -> Self {
        // The number of rows of a backward chunk is unknown.
        rows.expect(if piece.rows_max == usize::MAX { 0 } else { piece.rows_max });
        let rows_max = piece.rows_max;
        let bytes_max = BYTES_MAX.max(rows_max);
        Self { piece, rows, rows_max, bytes_max, value: Vec::new(), tombstones: 0, misfit: None }
    }

    /// Sets the limits for a chunk whose rows are all from one run.
    fn alone(mut self) -> Self {
        if self.rows_max != usize::MAX {
            self.rows_max = self.rows_max.min(LONE_ROWS_MAX);
            self.bytes_max = LONE_BYTES_MAX;
        }
        self
    }

    /// Ends the chunk; returns how many deleted keys came before the first row.
    fn finish(self) -> Result<u64> {
        match self.misfit {
            Some(misfit) if self.rows.is_empty() => Err(misfit),
            _ => Ok(self.tombstones),
        }
    }

    /// Takes the next entry, which is completely folded; false once the chunk is complete.
    #[inline(always)]
    fn take(&mut self, entry: Entry<'_>, is_whole: bool) -> Result<bool> {
        match entry.tag.kind() {
            Kind::Put
                if is_whole && self.piece.shape.is_some_and(|shape| !shape.has(entry.payload)) =>
            {
                self.value.clear();
                self.value.extend_from_slice(entry.payload);
                return self.push_value(entry.key);
            }
            Kind::Put => self.rows.push(entry.key, entry.payload),
            Kind::PutBlob => self.rows.push_blob(entry.key, entry.payload),
            Kind::Delete => self.tombstones += u64::from(self.rows.is_empty()),
            Kind::Merge | Kind::Versions => return self.take_operands(entry),
        }
        Ok(self.has_room())
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.rows.len() < self.rows_max && self.rows.bytes() < self.bytes_max
    }

    /// Appends a row whose whole value is in `self.value`. If that cannot be converted, the chunk
    /// ends before the row in the scan's direction; if the chunk is then empty, that is an error.
    fn push_value(&mut self, key: &[u8]) -> Result<bool> {
        if let Some(shape) = self.piece.shape
            && let Err(misfit) = shape.give(&mut self.value)
        {
            self.misfit = Some(misfit);
            let forward = self.piece.ahead.0 == Direction::Forward;
            if !forward {
                self.rows.clear();
            }
            return Ok(!forward);
        }
        self.rows.push(key, &self.value);
        Ok(self.has_room())
    }

    #[cold]
    fn take_operands(&mut self, entry: Entry<'_>) -> Result<bool> {
        let mut messages = Messages::default();
        messages.take(entry.message(), true, &mut self.value);
        match messages.finish(&self.piece.snapshot.engine, &mut self.value)? {
            true => self.push_value(entry.key),
            false => Ok(self.has_room()),
        }
    }
}
