//! Sorted runs that belong to no tree: what a transaction has spilled.
//!
//! They are built like the runs of a node's buffer, each in a temporary extent of its own, and are
//! read through the same descriptors. Nothing links them: they exist while they are held, or while
//! the log names them.
//!
//! Invariants
//! 1. Keys ascend strictly, over all runs; one message per key, no range deletes.
//! 2. A run is verified against its checksums when it is read, as any other run is.
//!
//! Threads: one writes; afterwards all read. Cost: each entry is encoded and written once; in
//! memory, two keys and a descriptor per run of a few MiB, and the footers in use.

use crate::{
    block::columnar::ColumnSelection,
    error::Result,
    page::{Link, PageKind},
    run::{BULK_BYTES, Direction, Entry, EntrySource, Found, RunCursor, key_hash},
    store::HeldPages,
    sync::Arc,
    types::VersionNumber,
};

use super::{
    context::{TreeContext, TreeTraits},
    estimate::{Held, of_run},
    meta::RunMeta,
    node::RunHandle,
};

/// One run and its key range.
#[derive(Debug)]
struct RangedRun {
    first: Box<[u8]>,
    last: Box<[u8]>,
    handle: Arc<RunHandle>,
}

/// Sorted runs of one tree's entries.
#[derive(Debug)]
pub(crate) struct SortedRuns {
    runs: Vec<RangedRun>,
    /// The extents of the runs.
    pages: HeldPages,
    entries: u64,
    bytes: u64,
}

impl SortedRuns {
    /// Opens the runs that the log names at these places.
    pub fn on_disk(cx: &TreeContext, links: &[Link], pages: HeldPages) -> Result<Self> {
        let mut all = Self { runs: Vec::with_capacity(links.len()), pages, entries: 0, bytes: 0 };
        for &link in links {
            let run = cx.open_run(&link)?;
            let meta = RunMeta::of(&run);
            let ends = run.first_key().zip(run.last_key());
            let ends = ends.map(|(first, last)| (first.into(), last.into()));
            all.push(cx, link, meta, ends.unwrap_or_default());
        }
        Ok(all)
    }

    fn push(
        &mut self,
        cx: &TreeContext,
        link: Link,
        meta: RunMeta,
        (first, last): (Box<[u8]>, Box<[u8]>),
    ) {
        let handle = RunHandle::on_disk(link, meta, 0);
        cx.remember(&handle);
        self.entries += meta.entries;
        self.bytes += meta.bytes;
        self.runs.push(RangedRun { first, last, handle });
    }

    /// The places of the runs, in order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link> + '_ {
        self.runs.iter().map(|run| *run.handle.link().expect("sorted runs are written"))
    }

    /// The extents of the runs.
    pub fn pages(&self) -> &HeldPages {
        &self.pages
    }

    /// Number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Encoded bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Least and greatest key of each run.
    pub fn ranges(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.runs.iter().map(|run| (&*run.first, &*run.last))
    }

    /// Estimates what lies in a range; nothing is read for it.
    pub(crate) fn estimate(&self, (from, to): (Option<&[u8]>, Option<&[u8]>)) -> Held {
        let mut held = Held::default();
        let first = from.map_or(0, |from| self.runs.partition_point(|run| &*run.last < from));
        for run in &self.runs[first..] {
            if to.is_some_and(|to| to <= &*run.first) {
                break;
            }
            let from = from.filter(|from| **from > *run.first);
            let to = to.filter(|to| **to <= *run.last);
            held.add(of_run(&run.handle, (from, to)));
        }
        held
    }

    /// Least and greatest key of all.
    pub fn ends(&self) -> Option<(&[u8], &[u8])> {
        Some((&self.runs.first()?.first, &self.runs.last()?.last))
    }

    /// The first run that does not end below `key`.
    fn run_for(&self, key: &[u8]) -> usize {
        self.runs.partition_point(|run| &*run.last < key)
    }

    /// Looks up a key, with only the wanted fields of its value where they lie in columns. One
    /// filter probe, and one block if that is positive.
    pub fn get(
        &self,
        cx: &TreeContext,
        key: &[u8],
        selection: &ColumnSelection,
    ) -> Result<Option<Found>> {
        match self.runs.get(self.run_for(key)) {
            Some(run) if &*run.first <= key => {
                let open = run.handle.open(cx)?;
                open.get_selected(key, key_hash(key), &*cx.cache, selection)
            }
            _ => Ok(None),
        }
    }
}

/// Writes sorted runs.
pub(crate) struct SortedRunsWriter<'a> {
    cx: &'a TreeContext,
    traits: TreeTraits,
    builder: crate::run::RunBuilder,
    done: SortedRuns,
}

impl<'a> SortedRunsWriter<'a> {
    /// Creates a writer for entries of a tree with these traits; `birth` becomes the birth of the
    /// pages.
    pub fn new(cx: &'a TreeContext, traits: TreeTraits, birth: VersionNumber) -> Self {
        let pages = HeldPages::new(&cx.store, birth, traits.lineage);
        let done = SortedRuns { runs: Vec::new(), pages, entries: 0, bytes: 0 };
        Self { cx, builder: cx.buffer_builder(&traits), traits, done }
    }

    /// Adds an entry above all previous ones.
    ///
    /// # Errors
    /// `Full`, I/O errors: all runs must then be abandoned.
    pub fn push(&mut self, entry: Entry<'_>) -> Result<()> {
        if self.builder.bytes_so_far() as u64 >= self.cx.shape.run_bytes {
            self.end_run()?;
        }
        self.builder.push(entry.key, entry.tag, entry.payload)
    }

    fn end_run(&mut self) -> Result<()> {
        let fresh = self.cx.buffer_builder(&self.traits);
        let Some(run) = std::mem::replace(&mut self.builder, fresh).finish()? else {
            return Ok(());
        };
        let ends = run.first_key().zip(run.last_key());
        let ends = ends.map(|(first, last)| (first.into(), last.into())).unwrap_or_default();
        let pages = &mut self.done.pages;
        let extent = pages.allocate(PageKind::Run, u64::from(run.extent_bytes()))?;
        let (birth, lineage) = (pages.birth(), pages.lineage());
        let link = run.write(self.cx.store.file(), extent.offset, birth, lineage)?;
        self.done.push(self.cx, link, RunMeta::of(&run), ends);
        Ok(())
    }

    /// Returns the runs, written and not synced.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn finish(mut self) -> Result<SortedRuns> {
        self.end_run()?;
        Ok(self.done)
    }
}

/// A walk over sorted runs in both directions, within bounds; one run is open at a time.
#[derive(Debug)]
pub(crate) struct SortedRunsCursor {
    cx: Arc<TreeContext>,
    runs: Arc<SortedRuns>,
    lo: Option<Box<[u8]>>,
    hi: Option<Box<[u8]>>,
    /// Reads past the cache, in large pieces: for callers that read all runs.
    is_bulk: bool,
    /// The current run; the number of runs when it is past the last.
    at: usize,
    current: Option<Box<RunCursor>>,
}

impl SortedRunsCursor {
    /// Creates a cursor over `[lo, hi)`, without a position until a seek.
    pub fn new(
        cx: &Arc<TreeContext>,
        runs: &Arc<SortedRuns>,
        (lo, hi): (Option<&[u8]>, Option<&[u8]>),
    ) -> Self {
        let (lo, hi) = (lo.map(Box::from), hi.map(Box::from));
        let (cx, runs) = (cx.clone(), runs.clone());
        Self { cx, runs, lo, hi, is_bulk: false, at: 0, current: None }
    }

    /// Creates a cursor over all of them, to be read through once.
    pub fn bulk(cx: &Arc<TreeContext>, runs: &Arc<SortedRuns>) -> Self {
        Self { is_bulk: true, ..Self::new(cx, runs, (None, None)) }
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<()> {
        let lo = self.lo.take();
        let done = self.seek(lo.as_deref().unwrap_or_default());
        self.lo = lo;
        done
    }

    /// Moves to the last entry.
    pub fn seek_last(&mut self) -> Result<()> {
        let last = self.runs.runs.len();
        match self.hi.take() {
            Some(hi) => {
                let done = self.seek_before(&hi);
                self.hi = Some(hi);
                done
            }
            None => self.stand(last.wrapping_sub(1), Direction::Backward, |run| run.seek_last()),
        }
    }

    /// Opens run `at` and seeks in it. If there is no entry in that direction, continues with the
    /// neighbouring runs.
    fn stand(
        &mut self,
        mut at: usize,
        direction: Direction,
        place: impl FnOnce(&mut RunCursor) -> Result<()>,
    ) -> Result<()> {
        self.current = None;
        let mut place = Some(place);
        loop {
            self.at = at;
            let Some(run) = self.runs.runs.get(at) else { return Ok(()) };
            let cursor = match self.is_bulk {
                true => RunCursor::bulk(run.handle.open_once(&self.cx)?),
                false => {
                    let ahead = BULK_BYTES / 8;
                    let open = run.handle.open(&self.cx)?.clone();
                    let cursor = RunCursor::new(open, self.cx.cache.clone());
                    cursor.read_ahead(direction, ahead)
                }
            };
            let mut cursor = Box::new(cursor.range(self.lo.as_deref(), self.hi.as_deref()));
            match (place.take(), direction) {
                (Some(place), _) => place(&mut cursor)?,
                (None, Direction::Forward) => cursor.seek_first()?,
                (None, Direction::Backward) => cursor.seek_last()?,
            }
            if cursor.entry().is_some() {
                self.current = Some(cursor);
                return Ok(());
            }
            // At a bound, the runs beyond it have nothing in range either.
            at = match direction {
                Direction::Forward => at + 1,
                Direction::Backward => at.wrapping_sub(1),
            };
            if self.is_outside(at, direction) {
                self.at = at;
                return Ok(());
            }
        }
    }

    fn is_outside(&self, at: usize, direction: Direction) -> bool {
        let Some(run) = self.runs.runs.get(at) else { return true };
        match direction {
            Direction::Forward => self.hi.as_deref().is_some_and(|hi| &*run.first >= hi),
            Direction::Backward => self.lo.as_deref().is_some_and(|lo| &*run.last < lo),
        }
    }
}

impl EntrySource for SortedRunsCursor {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.current.as_ref()?.entry()
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.current else { return Ok(()) };
        cursor.advance()?;
        if cursor.entry().is_none() {
            let next = self.at + 1;
            self.current = None;
            if !self.is_outside(next, Direction::Forward) {
                return self.stand(next, Direction::Forward, |run| run.seek_first());
            }
        }
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let key = key.max(self.lo.as_deref().unwrap_or_default()).to_vec();
        let at = self.runs.run_for(&key);
        if self.is_outside(at, Direction::Forward) {
            self.current = None;
            return Ok(());
        }
        self.stand(at, Direction::Forward, |run| run.seek(&key))
    }

    fn retreat(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.current else { return Ok(()) };
        cursor.retreat()?;
        if cursor.entry().is_none() {
            let next = self.at.wrapping_sub(1);
            self.current = None;
            if !self.is_outside(next, Direction::Backward) {
                return self.stand(next, Direction::Backward, |run| run.seek_last());
            }
        }
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let key = self.hi.as_deref().map_or(key, |hi| key.min(hi)).to_vec();
        // The last run that starts below the key.
        let begins = self.runs.runs.partition_point(|run| *run.first < key[..]);
        let at = begins.wrapping_sub(1);
        if self.is_outside(at, Direction::Backward) {
            self.current = None;
            return Ok(());
        }
        self.stand(at, Direction::Backward, |run| run.seek_before(&key))
    }

    fn bounds(&self) -> Option<(&[u8], &[u8])> {
        self.runs.ends()
    }
}
