//! Cursors: ordered scans over a range of keys, in both directions.
//!
//! A cursor keeps a snapshot and a position, and fetches rows in chunks into a buffer that it
//! reuses: a few rows first, more as the scan goes on. Chunks of a backward scan are about as long
//! as a block of the leaf; they are merged forward and returned from their end.
//!
//! Invariants
//! 1. The position is a gap between keys; `next` returns the row above the gap and moves above it,
//!    `prev` the row below and moves below it. To the caller, the cursor is on the row that it
//!    returned last, so a change of direction skips that row first.
//! 2. The buffer holds rows that border on the gap, in the direction of the last step.
//! 3. A scan continues inside a run where the last chunk ended only if the snapshot still reads the
//!    version from which that chunk was read. In that version no other source has entries in the
//!    rest of the stretch.
//!
//! Threads: one.

use crate::{
    Error, Result, Tree, TreeId,
    catalog::TreeEntry,
    db::{
        Interrupter, KeyOrder, Projection, Repeats, RowBuf, Snapshot,
        read::{
            readahead::{Readahead, WalkedLeaf},
            scan_chunk::{Fetched, RowConversion, ScanChunk},
        },
    },
    run::{BULK_BYTES, Direction, RowSchema, RunCursor},
    sync::{Arc, Weak},
    tree::{LeafStretch, Position, clip},
    txn::{Stretch, TOMBSTONES_MIN},
    version::Version,
};

mod back;
mod batch;

/// Rows of a first chunk; later chunks have `ROWS_GROWTH` times as many, up to `ROWS_MAX`. Each
/// chunk costs a descent, and rows that were fetched are wasted if the scan ends: few chunks and
/// few rows are both wanted.
const ROWS_FIRST: usize = 16;
const ROWS_GROWTH: usize = 4;
const ROWS_MAX: usize = 2048;
/// Bytes that a second chunk reads at once if it must read; later chunks read twice as many, up to
/// the length beyond which the device gains nothing.
const AHEAD_FIRST: usize = 32 << 10;
const AHEAD_MAX: usize = BULK_BYTES;

/// Position of a cursor between keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::db) enum Gap {
    /// Below the first row of the range.
    Low,
    /// Above the last row.
    High,
    /// Just above this key.
    Above(Vec<u8>),
    /// Just below this key.
    Below(Vec<u8>),
}

/// A scan over the rows of one tree in a range, at one snapshot.
#[must_use = "a cursor reads nothing until `next` or `prev` is called"]
pub struct Cursor {
    /// Readahead, if any. Declared before the snapshot, so that requests that have not started are
    /// cancelled before the last handle closes the store.
    readahead: Option<Readahead>,
    snapshot: Snapshot,
    tree: TreeId,
    /// `None` while the catalog itself is read.
    entry: Option<Arc<TreeEntry>>,
    /// The value format that its handle uses.
    schema: Option<Arc<RowSchema>>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    projection: Option<Projection>,
    gap: Gap,
    /// Whether the cursor is on the row next to the gap: the last one returned.
    is_on_row: bool,
    rows: RowBuf,
    /// The blob returned last.
    blob: Vec<u8>,
    /// Rows `index..` are above the gap (forward), rows `..index` below it (backward).
    index: usize,
    forward: bool,
    chunk_rows: usize,
    /// Bytes to read at once.
    ahead: usize,
    lone: Option<Lone>,
    interrupter: Option<Interrupter>,
    order: KeyOrder,
}

short_debug!(Cursor, "Cursor", |cursor| cursor.tree.0);

/// Where the last chunk of a forward scan ended, if only one run has entries in the rest of its
/// stretch.
#[derive(Debug)]
struct Lone {
    cursor: Box<RunCursor>,
    /// The leaf, if the run is one.
    leaf: Option<WalkedLeaf>,
    /// Weak: a paused scan keeps no more from being freed than a block in the cache (Rule: I28).
    version: Weak<Version>,
}

impl Cursor {
    /// A cursor over a tree, which the snapshot must show; without a handle, over the catalog.
    pub(crate) fn new(
        snapshot: Snapshot,
        tree: TreeId,
        handle: Option<&Tree>,
        (from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<Self> {
        // The snapshot is registered, so it keeps showing what it shows now: later chunks need no
        // check.
        if !plant!("db: a scan does not ask whether its tree has ended") {
            handle.map_or(Ok(()), |handle| snapshot.must_show(handle))?;
        }
        let entry = handle.map(|handle| handle.entry.clone());
        let schema = handle.and_then(|handle| handle.schema.clone());
        Ok(Self::over(snapshot, tree, entry, schema, (from, to)))
    }

    fn over(
        snapshot: Snapshot,
        tree: TreeId,
        entry: Option<Arc<TreeEntry>>,
        schema: Option<Arc<RowSchema>>,
        (from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Self {
        Self {
            snapshot,
            tree,
            entry,
            schema,
            from,
            to,
            projection: None,
            gap: Gap::Low,
            is_on_row: false,
            rows: RowBuf::new(),
            blob: Vec::new(),
            index: 0,
            forward: true,
            chunk_rows: ROWS_FIRST,
            ahead: 0,
            lone: None,
            readahead: None,
            interrupter: None,
            order: KeyOrder::default(),
        }
    }

    /// A new cursor over the same range at the same moment.
    pub(in crate::db) fn again(&self) -> Self {
        let (snapshot, entry, schema) =
            (self.snapshot.clone(), self.entry.clone(), self.schema.clone());
        Self::over(snapshot, self.tree, entry, schema, (self.from.clone(), self.to.clone()))
    }

    /// A cursor over the rest of the range at the same moment, above its last row.
    pub(super) fn at_end(&self) -> Self {
        let (snapshot, entry, schema) =
            (self.snapshot.clone(), self.entry.clone(), self.schema.clone());
        let from = match self.edge() {
            Gap::Above(key) => Some([&key[..], &[0]].concat()),
            Gap::Below(key) => Some(key).max(self.from.clone()),
            Gap::Low | Gap::High => self.from.clone(),
        };
        let range = (from, self.to.clone());
        Self {
            projection: self.projection.clone(),
            gap: Gap::High,
            interrupter: self.interrupter.clone(),
            ..Self::over(snapshot, self.tree, entry, schema, range)
        }
    }

    /// Makes the cursor cancellable: after this call, an interrupt makes steps fail with
    /// `Interrupted`. Up to a few thousand rows that were already fetched may be returned before
    /// that. The cursor stays where it is, and continues once the interrupt is cleared.
    pub fn set_interrupter(&mut self, interrupter: &Interrupter) {
        self.interrupter = Some(interrupter.clone());
    }

    /// Fails if the cursor was cancelled.
    fn check_interrupted(&self) -> Result<()> {
        self.interrupter.as_ref().map_or(Ok(()), Interrupter::check_interrupted)
    }

    /// Restricts the cursor to these parts of values, concatenated: see
    /// [`Tree::projection`](crate::Tree::projection). The cursor stays where it is. A step onto a
    /// value that does not fit the layout of its tree fails with `InvalidArgument`, each time;
    /// [`seek`](Self::seek) can skip it.
    ///
    /// # Errors
    /// `InvalidArgument` if the parts belong to a tree with other layouts.
    pub fn project(mut self, projection: &Projection) -> Result<Self> {
        self.set_projection(projection)?;
        Ok(self)
    }

    /// Restricts the cursor to these parts of values, like [`project`](Self::project), without
    /// moving it.
    ///
    /// # Errors
    /// As [`project`](Self::project).
    pub fn set_projection(&mut self, projection: &Projection) -> Result<()> {
        projection.check(self.schema.as_ref())?;
        let (gap, is_on_row) = (self.edge(), self.is_on_row);
        self.stand(gap);
        self.is_on_row = is_on_row;
        self.projection = Some(projection.clone());
        Ok(())
    }

    /// True if it returns parts of values.
    pub(in crate::db) fn has_parts(&self) -> bool {
        self.projection.is_some()
    }

    /// The last commit that it shows.
    pub(in crate::db) fn seqno(&self) -> crate::Seqno {
        self.snapshot.seqno()
    }

    /// Moves just below `key`: `next` then returns the first row not below it, `prev` the last row
    /// below it.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) {
        let key = key.as_ref();
        self.order.forget();
        self.stand(Gap::Below(key.to_vec()));
    }

    /// Moves before the first row.
    pub fn seek_first(&mut self) {
        self.order.forget();
        self.stand(Gap::Low);
    }

    /// Moves after the last row.
    pub fn seek_last(&mut self) {
        self.order.forget();
        self.stand(Gap::High);
    }

    /// Moves to a gap and drops the rows that were fetched.
    pub(in crate::db) fn stand(&mut self, gap: Gap) {
        self.gap = gap;
        self.is_on_row = false;
        self.rows.clear();
        self.index = 0;
        self.chunk_rows = ROWS_FIRST;
        self.ahead = 0;
        (self.lone, self.readahead) = (None, None);
    }

    /// The row above the cursor's row, or `None` at the end of the range. The cursor moves to that
    /// row, or after the last one.
    ///
    /// # Errors
    /// I/O errors and damage of what had to be read; `Interrupted` if it was
    /// [cancelled](Self::set_interrupter).
    #[expect(clippy::should_implement_trait, reason = "a cursor lends, an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.turn(true);
        if self.index >= self.rows.len() && !self.fetch_up()? {
            self.is_on_row = false;
            self.order.forget();
            return Ok(None);
        }
        self.index += 1;
        self.is_on_row = true;
        self.row(self.index - 1)
    }

    /// The row below the cursor's row, or `None` at the start of the range. The cursor moves to
    /// that row, or before the first one. On a new cursor, call [`seek_last`](Self::seek_last)
    /// first.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.turn(false);
        if self.index == 0 && !self.fetch_down()? {
            self.is_on_row = false;
            self.order.forget();
            return Ok(None);
        }
        self.index -= 1;
        self.is_on_row = true;
        self.row(self.index)
    }

    /// Returns a row of the buffer; a blob is read only now. The snapshot keeps what it shows.
    fn row(&mut self, index: usize) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, value)) = self.rows.get(index) else { return Ok(None) };
        if !self.rows.is_blob(index) {
            self.order.hands_out(self.forward, key, Repeats::Never);
            return Ok(Some((key, value)));
        }
        self.snapshot.engine.cx.open_blob(value)?.read(&mut self.blob)?;
        let shape = RowConversion::of(
            self.entry.as_deref(),
            self.schema.as_deref(),
            self.projection.as_ref(),
        );
        if let Some(shape) = shape {
            shape.give(&mut self.blob)?;
        }
        self.order.hands_out(self.forward, key, Repeats::Never);
        Ok(Some((key, &self.blob)))
    }

    /// Counts the rows from here to the end of the range, and moves there. If the tree has a layout
    /// of values, nothing of values is read beyond what the keys need.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(in crate::db) fn count_rest(&mut self) -> Result<u64> {
        self.turn(true);
        self.is_on_row = false;
        if let Some(schema) = &self.schema
            && self.entry.as_ref().is_some_and(|entry| entry.record().value_layout.is_some())
        {
            let nothing = Projection::new(schema, &[])?;
            self.set_projection(&nothing)?;
        }
        let mut rows = 0;
        loop {
            rows += (self.rows.len() - self.index) as u64;
            self.index = self.rows.len();
            if !self.fetch_up()? {
                return Ok(rows);
            }
        }
    }

    /// Drops the buffer if the direction changes, and skips the cursor's row.
    fn turn(&mut self, forward: bool) {
        if self.forward == forward {
            return;
        }
        let gap = match self.edge() {
            Gap::Above(key) if self.is_on_row => Gap::Below(key),
            Gap::Below(key) if self.is_on_row => Gap::Above(key),
            gap => gap,
        };
        self.forward = forward;
        self.stand(gap);
    }

    /// The gap after the rows returned so far.
    fn edge(&self) -> Gap {
        let last = if self.forward {
            self.index.checked_sub(1).and_then(|index| self.rows.get(index))
        } else {
            self.rows.get(self.index)
        };
        match last {
            None => self.gap.clone(),
            Some((key, _)) if self.forward => Gap::Above(key.to_vec()),
            Some((key, _)) => Gap::Below(key.to_vec()),
        }
    }

    /// Fetches the chunk above the gap; false if there is none. Rows fetched before an error are
    /// returned first; the next fetch then returns the error.
    fn fetch_up(&mut self) -> Result<bool> {
        self.check_interrupted()?;
        self.gap = self.edge();
        self.rows.clear();
        self.index = 0;
        match self.go_on() {
            Ok(false) => {}
            fetched => return fetched.or_else(|error| self.rows_before(error)),
        }
        self.fetch_anew().or_else(|error| self.rows_before(error))
    }

    fn rows_before(&self, error: Error) -> Result<bool> {
        if self.rows.is_empty() { Err(error) } else { Ok(true) }
    }

    /// Fetches the chunk above the gap with a new descent.
    fn fetch_anew(&mut self) -> Result<bool> {
        // The first key that counts.
        let mut at = match &self.gap {
            Gap::Low => self.from.clone(),
            Gap::High => return Ok(false),
            Gap::Above(key) => {
                let mut above = key.clone();
                if !plant!("db: a piece begins with the row before it") {
                    above.push(0);
                }
                Some(above)
            }
            Gap::Below(key) => Some(key.clone()),
        };
        if let (Some(key), Some(from)) = (&mut at, &self.from)
            && *key < *from
        {
            key.clone_from(from);
        }
        let mut walked = Stretch { from: at.clone(), to: None };
        if let Some(empty_ranges) = self.empty_ranges()
            && at.as_deref().map_or(empty_ranges.from.is_none(), |at| empty_ranges.holds(at))
        {
            let Some(to) = empty_ranges.to else { return Ok(false) };
            (walked.from, at) = (empty_ranges.from, Some(to));
        }
        let mut tombstones = 0;
        loop {
            if let (Some(at), Some(to)) = (&at, &self.to)
                && at >= to
            {
                walked.to = Some(to.clone());
                self.remember_empty(walked, tombstones);
                return Ok(false);
            }
            self.check_interrupted()?;
            let position = at.as_deref().map_or(Position::First, Position::At);
            let version = self.snapshot.version();
            let stretch = self.stretch(&version, position)?;
            let to = self.to.clone();
            let range = clip(
                (at.as_deref(), to.as_deref()),
                (stretch.lo.as_deref(), stretch.hi.as_deref()),
            );
            tombstones += self.merge(&version, &stretch, range)?;
            if let Some((first, _)) = self.rows.get(0) {
                walked.to = Some(first.to_vec());
                self.remember_empty(walked, tombstones);
                self.lengthen();
                return Ok(true);
            }
            match &stretch.hi {
                None => {
                    walked.to = to;
                    self.remember_empty(walked, tombstones);
                    return Ok(false);
                }
                Some(hi) => at = Some(hi.to_vec()),
            }
        }
    }

    /// Fetches what follows in the run that the last chunk came from; false if there is no such run
    /// (invariant 3).
    fn go_on(&mut self) -> Result<bool> {
        let Some(Lone { mut cursor, leaf, version: read }) = self.lone.take() else {
            return Ok(false);
        };
        let version = self.snapshot.version();
        if !std::ptr::eq(read.as_ptr(), Arc::as_ptr(&version)) {
            return Ok(false);
        }
        self.send_ahead(&version, leaf.as_ref(), &mut cursor);
        let piece = ScanChunk {
            snapshot: &self.snapshot,
            version: &version,
            tree: self.tree,
            stretch: &LeafStretch::default(),
            range: (None, None),
            rows_max: self.chunk_rows,
            ahead: (Direction::Forward, self.ahead),
            others: self.readahead.as_ref(),
            shape: RowConversion::of(
                self.entry.as_deref(),
                self.schema.as_deref(),
                self.projection.as_ref(),
            ),
        };
        let Fetched { lone, .. } = piece.go_on(cursor, &mut self.rows)?;
        self.lone = lone.map(|cursor| Lone { cursor, leaf, version: read });
        if self.rows.is_empty() {
            return Ok(false);
        }
        self.lengthen();
        Ok(true)
    }

    /// Starts readahead of what follows, if the scan has gone on for long enough and is in a leaf.
    fn send_ahead(
        &mut self,
        version: &Arc<Version>,
        leaf: Option<&WalkedLeaf>,
        cursor: &mut RunCursor,
    ) {
        let (Some(leaf), AHEAD_MAX..) = (leaf, self.ahead) else { return };
        let engine = &self.snapshot.engine;
        let ahead =
            self.readahead.get_or_insert_with(|| Readahead::new(&engine.cx, self.to.clone()));
        cursor.set_others(ahead.requests());
        ahead.send(engine, (version, self.tree), leaf, cursor.block_index());
    }

    /// The stretch that is known to be empty at the cursor's snapshot.
    fn empty_ranges(&self) -> Option<Stretch> {
        // A tree that was dropped is not cut by later commits.
        let entry = self.entry.as_ref().filter(|entry| entry.check().is_ok())?;
        entry.empty_ranges.known(self.snapshot.seqno())
    }

    /// Notes that `walked` has no row at the cursor's snapshot; finding that out took this many
    /// tombstones.
    fn remember_empty(&self, walked: Stretch, tombstones: u64) {
        if let Some(entry) = self.entry.as_ref().filter(|_| tombstones >= TOMBSTONES_MIN) {
            let engine = &self.snapshot.engine;
            let (at, any) = (self.snapshot.seqno(), &engine.empty_ranges);
            entry.empty_ranges.found_empty(walked, at, || engine.enter().last(), any);
        }
    }

    /// Fetches the chunk below the gap; false if there is none.
    fn fetch_down(&mut self) -> Result<bool> {
        self.check_interrupted()?;
        self.gap = self.edge();
        self.rows.clear();
        self.index = 0;
        // The first key that does not count.
        let mut below = match &self.gap {
            Gap::Low => return Ok(false),
            Gap::High => self.to.clone(),
            Gap::Above(key) => {
                let mut above = key.clone();
                above.push(0);
                Some(above)
            }
            Gap::Below(key) => Some(key.clone()),
        };
        if let Some(to) = &self.to {
            below = Some(below.map_or(to.clone(), |key| key.min(to.clone())));
        }
        if let Some(empty_ranges) = self.empty_ranges()
            && match (&below, &empty_ranges.to) {
                (None, to) => to.is_none(),
                (Some(below), to) => {
                    empty_ranges.from.as_ref().is_none_or(|from| from < below)
                        && to.as_ref().is_none_or(|to| below <= to)
                }
            }
        {
            let Some(from) = empty_ranges.from else { return Ok(false) };
            below = Some(from);
        }
        loop {
            if let (Some(below), Some(from)) = (&below, &self.from)
                && below <= from
            {
                return Ok(false);
            }
            let position = below.as_deref().map_or(Position::Last, Position::Below);
            let version = self.snapshot.version();
            let stretch = self.stretch(&version, position)?;
            let start = self.piece_start(&version, &stretch, below.as_deref())?;
            let from = self.from.clone();
            let range = clip(
                (from.as_deref(), below.as_deref()),
                (start.as_deref(), stretch.hi.as_deref()),
            );
            self.merge(&version, &stretch, range)?;
            if !self.rows.is_empty() {
                self.index = self.rows.len();
                self.lengthen();
                return Ok(true);
            }
            match start {
                None => return Ok(false),
                Some(start) => below = Some(start),
            }
        }
    }

    fn stretch(&self, version: &Version, position: Position<'_>) -> Result<LeafStretch> {
        match version.roots.get(&self.tree) {
            Some(root) => root.stretch(&self.snapshot.engine.cx, position),
            None => Ok(LeafStretch::default()),
        }
    }

    /// Appends the rows of a range inside one stretch to the buffer. Returns how many deleted keys
    /// it met before the first row.
    fn merge(
        &mut self,
        version: &Arc<Version>,
        stretch: &LeafStretch,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<u64> {
        let (direction, rows_max) = match self.forward {
            true => (Direction::Forward, self.chunk_rows),
            // A backward chunk must reach the gap.
            false => (Direction::Backward, usize::MAX),
        };
        let piece = ScanChunk {
            snapshot: &self.snapshot,
            version,
            tree: self.tree,
            stretch,
            range,
            rows_max,
            ahead: (direction, self.ahead),
            others: self.readahead.as_ref(),
            shape: RowConversion::of(
                self.entry.as_deref(),
                self.schema.as_deref(),
                self.projection.as_ref(),
            ),
        };
        let Fetched { tombstones, lone } = piece.fetch(&mut self.rows)?;
        // A short scan does not continue, so it keeps nothing.
        let lone = lone.filter(|_| self.forward && self.chunk_rows > ROWS_FIRST);
        self.lone = lone.map(|cursor| {
            let run =
                stretch.runs.last().filter(|part| part.run.link() == cursor.run().link().as_ref());
            let leaf = run.map(|part| WalkedLeaf { run: part.run.clone(), hi: stretch.hi.clone() });
            Lone { cursor, leaf, version: Arc::downgrade(version) }
        });
        Ok(tombstones)
    }

    /// Lets the next chunk be longer, because the scan has gone on.
    fn lengthen(&mut self) {
        self.chunk_rows = (self.chunk_rows * ROWS_GROWTH).min(ROWS_MAX);
        self.ahead = (self.ahead * 2).clamp(AHEAD_FIRST, AHEAD_MAX);
    }
}
