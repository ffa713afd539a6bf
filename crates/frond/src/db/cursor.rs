//! Cursors: ordered walks over a range of keys, in both directions.
//!
//! A cursor keeps a snapshot and a position, and fetches rows in pieces into a buffer that it reuses:
//! a few rows first, more as the walk goes on. Pieces of a backward walk are as long as a block of the
//! leaf and are merged forward, then handed out from their end.
//!
//! Invariants
//! 1. The position is a gap between keys; `next` returns the row above the gap and moves above it,
//!    `prev` the row below and moves below it.
//! 2. The buffer holds rows that border on the gap, in the direction of the last step.
//! 3. What goes on in a run where the last piece ended reads the version that this piece read, which has been
//!    the snapshot's all the time: in it no other source has entries in the rest of the stretch.
//!
//! Threads: one.

use crate::{
    Error, Result, Tree, TreeId,
    catalog::TreeEntry,
    run::{BULK_BYTES, Direction, RunCursor, Typing},
    sync::{Arc, Weak},
    tree::{LeafStretch, Position, clip},
    txn::{Stretch, TOMBSTONES_MIN},
    version::Version,
};

mod back;
mod batch;

use super::{
    Interrupter, Parts, Snapshot,
    ahead::{Ahead, WalkedLeaf},
    key_order::{KeyOrder, Repeats},
    piece::{Fetched, Piece, Shape},
    rows::RowBuf,
};

/// Rows of a first piece; later ones have `ROWS_GROWTH` times as many, up to `ROWS_MAX`. A piece costs a
/// descent and its rows are fetched in vain if the walk ends: few pieces and few rows are both wanted.
const ROWS_FIRST: usize = 16;
const ROWS_GROWTH: usize = 4;
const ROWS_MAX: usize = 2048;
/// Bytes that a second piece reads at once where it must read; later ones twice as many, up to the
/// length at which the device gives nothing more for it.
const AHEAD_FIRST: usize = 32 << 10;
const AHEAD_MAX: usize = BULK_BYTES;

/// Where a cursor stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Gap {
    /// Below the first row of the range.
    Low,
    /// Above the last row.
    High,
    /// Just above this key.
    Above(Vec<u8>),
    /// Just below this key.
    Below(Vec<u8>),
}

/// A walk over the rows of one tree in a range, as of one moment.
#[derive(Debug)]
pub struct Cursor {
    /// Before the snapshot, so that what waits is given up before the last handle closes the store.
    flights: Option<Ahead>,
    snapshot: Snapshot,
    tree: TreeId,
    /// `None` while the catalog itself is read.
    entry: Option<Arc<TreeEntry>>,
    /// How its handle has values.
    typing: Option<Arc<Typing>>,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    parts: Option<Parts>,
    gap: Gap,
    rows: RowBuf,
    /// The blob handed out last.
    blob: Vec<u8>,
    /// Rows `index..` are above the gap (forward), rows `..index` below it (backward).
    index: usize,
    forward: bool,
    piece_rows: usize,
    /// Bytes to read at once.
    ahead: usize,
    lone: Option<Lone>,
    heeds: Option<Interrupter>,
    order: KeyOrder,
}

/// Where the last piece of a walk up ended, if only one run has entries in the rest of its stretch.
#[derive(Debug)]
struct Lone {
    cursor: Box<RunCursor>,
    /// If it is the leaf's.
    leaf: Option<WalkedLeaf>,
    /// Not held: what a walk that rests keeps from being freed is a block in the cache (Rule: I28).
    version: Weak<Version>,
}

impl Cursor {
    /// A cursor over a tree that its snapshot shows: else an error. Without a handle, over the catalog.
    pub(crate) fn new(
        snapshot: Snapshot,
        tree: TreeId,
        handle: Option<&Tree>,
        (from, to): (Option<Vec<u8>>, Option<Vec<u8>>),
    ) -> Result<Self> {
        // The snapshot is registered, so what it shows now it keeps showing: later pieces need no check.
        if !plant!("db: a scan does not ask whether its tree has ended") {
            handle.map_or(Ok(()), |handle| snapshot.must_show(handle))?;
        }
        Ok(Self {
            snapshot,
            tree,
            entry: handle.map(|handle| handle.entry.clone()),
            typing: handle.and_then(|handle| handle.typing.clone()),
            from,
            to,
            parts: None,
            gap: Gap::Low,
            rows: RowBuf::new(),
            blob: Vec::new(),
            index: 0,
            forward: true,
            piece_rows: ROWS_FIRST,
            ahead: 0,
            lone: None,
            flights: None,
            heeds: None,
            order: KeyOrder::default(),
        })
    }

    /// From here on an interrupt ends steps with `Interrupted`, at the latest when the rows are handed out that are fetched already,
    /// some thousands; the cursor stays where it is, and once the interrupt is cleared it goes on.
    pub fn heed(&mut self, interrupter: &Interrupter) {
        self.heeds = Some(interrupter.clone());
    }

    /// An error if whoever it heeds was asked to stop.
    fn must_go_on(&self) -> Result<()> {
        self.heeds.as_ref().map_or(Ok(()), Interrupter::must_go_on)
    }

    /// Gives only these parts of values from here on, one after the other: see [`Tree::parts`](crate::Tree::parts).
    /// The cursor stays where it is. A step onto a value that does not fit the layout of its tree fails with
    /// `InvalidArgument`, each time; [`seek`](Self::seek) goes beyond it.
    ///
    /// # Errors
    /// `InvalidArgument` if the parts are of a tree with other layouts.
    pub fn only(mut self, parts: &Parts) -> Result<Self> {
        self.set_parts(parts)?;
        Ok(self)
    }

    /// The same of a cursor that stays where it lies.
    ///
    /// # Errors
    /// As [`only`](Self::only).
    pub fn set_parts(&mut self, parts: &Parts) -> Result<()> {
        parts.check(self.typing.as_ref())?;
        let gap = self.edge();
        self.stand(gap);
        self.parts = Some(parts.clone());
        Ok(())
    }

    /// Whether it gives parts of values.
    pub(super) fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// The last commit that it shows.
    pub(super) fn seqno(&self) -> crate::Seqno {
        self.snapshot.seqno()
    }

    /// Moves the gap just below `key`: `next` then returns the first row not below it.
    pub fn seek(&mut self, key: &[u8]) {
        self.order.forget();
        self.stand(Gap::Below(key.to_vec()));
    }

    /// Moves the gap below the first row.
    pub fn seek_first(&mut self) {
        self.order.forget();
        self.stand(Gap::Low);
    }

    /// Moves the gap above the last row.
    pub fn seek_last(&mut self) {
        self.order.forget();
        self.stand(Gap::High);
    }

    /// Moves to a gap, and forgets what was fetched for another.
    pub(super) fn stand(&mut self, gap: Gap) {
        self.gap = gap;
        self.rows.clear();
        self.index = 0;
        self.piece_rows = ROWS_FIRST;
        self.ahead = 0;
        (self.lone, self.flights) = (None, None);
    }

    /// The next row up, or `None` at the end of the range.
    ///
    /// # Errors
    /// I/O errors and damage of what had to be read; `Interrupted` if it [heeds](Self::heed) somebody.
    #[expect(clippy::should_implement_trait, reason = "a cursor lends, an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.turn(true);
        if self.index >= self.rows.len() && !self.fetch_up()? {
            return Ok(None);
        }
        self.index += 1;
        self.row(self.index - 1)
    }

    /// The next row down, or `None` at the begin of the range. On a fresh cursor, call
    /// [`seek_last`](Self::seek_last) first.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn prev(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.turn(false);
        if self.index == 0 && !self.fetch_down()? {
            return Ok(None);
        }
        self.index -= 1;
        self.row(self.index)
    }

    /// A row of the buffer; a blob is read when its turn comes. What the snapshot shows, it keeps.
    fn row(&mut self, index: usize) -> Result<Option<(&[u8], &[u8])>> {
        let Some((key, value)) = self.rows.get(index) else { return Ok(None) };
        if !self.rows.is_blob(index) {
            self.order.hands_out(self.forward, key, Repeats::AfterTurn);
            return Ok(Some((key, value)));
        }
        self.snapshot.engine.cx.open_blob(value)?.read(&mut self.blob)?;
        let shape = Shape::of(self.entry.as_deref(), self.typing.as_deref(), self.parts.as_ref());
        if let Some(shape) = shape {
            shape.give(&mut self.blob)?;
        }
        self.order.hands_out(self.forward, key, Repeats::AfterTurn);
        Ok(Some((key, &self.blob)))
    }

    /// How many rows there are from here to the end of the range, where it stands then. Of values only what keys need is read, if
    /// the tree has a layout of them.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(super) fn count_rest(&mut self) -> Result<u64> {
        self.turn(true);
        if let Some(typing) = &self.typing
            && self.entry.as_ref().is_some_and(|entry| entry.record().value_layout.is_some())
        {
            let nothing = Parts::new(typing, &[])?;
            self.set_parts(&nothing)?;
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

    /// Makes the buffer fit the direction, by fetching anew if it does not.
    fn turn(&mut self, forward: bool) {
        if self.forward == forward {
            return;
        }
        let gap = self.edge();
        self.forward = forward;
        self.stand(gap);
    }

    /// The gap, after the rows handed out so far.
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

    /// Fetches the piece above the gap; false if there is none. What was fetched before an error comes first,
    /// and the next fetch meets the error.
    fn fetch_up(&mut self) -> Result<bool> {
        self.must_go_on()?;
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

    /// Fetches the piece above the gap by a descent of its own.
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
        if let Some(vacancy) = self.vacancy()
            && at.as_deref().map_or(vacancy.from.is_none(), |at| vacancy.holds(at))
        {
            let Some(to) = vacancy.to else { return Ok(false) };
            (walked.from, at) = (vacancy.from, Some(to));
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
            self.must_go_on()?;
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

    /// Fetches what follows in the run that the last piece came from; false if that is not known (Invariant 3).
    fn go_on(&mut self) -> Result<bool> {
        let Some(Lone { mut cursor, leaf, version: read }) = self.lone.take() else {
            return Ok(false);
        };
        let version = self.snapshot.version();
        if !std::ptr::eq(read.as_ptr(), Arc::as_ptr(&version)) {
            return Ok(false);
        }
        self.send_ahead(&version, leaf.as_ref(), &mut cursor);
        let piece = Piece {
            view: self.snapshot.view(&version),
            tree: self.tree,
            stretch: &LeafStretch::default(),
            range: (None, None),
            rows_max: self.piece_rows,
            ahead: (Direction::Forward, self.ahead),
            others: self.flights.as_ref(),
            shape: Shape::of(self.entry.as_deref(), self.typing.as_deref(), self.parts.as_ref()),
        };
        let Fetched { lone, .. } = piece.go_on(cursor, &mut self.rows)?;
        self.lone = lone.map(|cursor| Lone { cursor, leaf, version: read });
        if self.rows.is_empty() {
            return Ok(false);
        }
        self.lengthen();
        Ok(true)
    }

    /// Has others read what follows, if the walk has gone on for long enough and is in a leaf.
    fn send_ahead(
        &mut self,
        version: &Arc<Version>,
        leaf: Option<&WalkedLeaf>,
        cursor: &mut RunCursor,
    ) {
        let (Some(leaf), AHEAD_MAX..) = (leaf, self.ahead) else { return };
        let engine = &self.snapshot.engine;
        let ahead = self.flights.get_or_insert_with(|| Ahead::new(&engine.cx, self.to.clone()));
        cursor.set_others(ahead.flights());
        ahead.send(engine, (version, self.tree), leaf, cursor.block_index());
    }

    /// What is known to be empty at the cursor's snapshot.
    fn vacancy(&self) -> Option<Stretch> {
        // A tree that the catalog does not show hears of no commits.
        let entry = self.entry.as_ref().filter(|entry| entry.check().is_ok())?;
        entry.vacancy.known(self.snapshot.seqno())
    }

    /// `walked` has no row, as of the cursor's snapshot; finding that out took so many tombstones.
    fn remember_empty(&self, walked: Stretch, tombstones: u64) {
        if let Some(entry) = self.entry.as_ref().filter(|_| tombstones >= TOMBSTONES_MIN) {
            let engine = &self.snapshot.engine;
            let (at, any) = (self.snapshot.seqno(), &engine.vacancies);
            entry.vacancy.found_empty(walked, at, || engine.enter().last(), any);
        }
    }

    /// Fetches the piece below the gap; false if there is none.
    fn fetch_down(&mut self) -> Result<bool> {
        self.must_go_on()?;
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
        if let Some(vacancy) = self.vacancy()
            && match (&below, &vacancy.to) {
                (None, to) => to.is_none(),
                (Some(below), to) => {
                    vacancy.from.as_ref().is_none_or(|from| from < below)
                        && to.as_ref().is_none_or(|to| below <= to)
                }
            }
        {
            let Some(from) = vacancy.from else { return Ok(false) };
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

    /// Appends the rows of a range inside one stretch to the buffer. Returns how many deleted keys it
    /// met before the first.
    fn merge(
        &mut self,
        version: &Arc<Version>,
        stretch: &LeafStretch,
        range: (Option<&[u8]>, Option<&[u8]>),
    ) -> Result<u64> {
        let (direction, rows_max) = match self.forward {
            true => (Direction::Forward, self.piece_rows),
            // The piece is as long as it must be to end at the gap.
            false => (Direction::Backward, usize::MAX),
        };
        let piece = Piece {
            view: self.snapshot.view(version),
            tree: self.tree,
            stretch,
            range,
            rows_max,
            ahead: (direction, self.ahead),
            others: self.flights.as_ref(),
            shape: Shape::of(self.entry.as_deref(), self.typing.as_deref(), self.parts.as_ref()),
        };
        let Fetched { tombstones, lone } = piece.fetch(&mut self.rows)?;
        // A short walk does not go on: it has nothing to keep.
        let lone = lone.filter(|_| self.forward && self.piece_rows > ROWS_FIRST);
        self.lone = lone.map(|cursor| {
            let run =
                stretch.runs.last().filter(|part| part.run.link() == cursor.run().link().as_ref());
            let leaf = run.map(|part| WalkedLeaf { run: part.run.clone(), hi: stretch.hi.clone() });
            Lone { cursor, leaf, version: Arc::downgrade(version) }
        });
        Ok(tombstones)
    }

    /// The walk goes on: the next piece may be longer.
    fn lengthen(&mut self) {
        self.piece_rows = (self.piece_rows * ROWS_GROWTH).min(ROWS_MAX);
        self.ahead = (self.ahead * 2).clamp(AHEAD_FIRST, AHEAD_MAX);
    }
}
