//! A cursor over a transaction's own writes of one tree, which a scan merges with the store's rows.
//!
//! Entries are copied out a page at a time under the lock, and folded outside of it, since folding
//! may read a blob. The next page starts by key, so what is appended or rolled back meanwhile does
//! not move it.
//!
//! Invariants
//! 1. It shows the state at the mark of the scan's statement, with what was deleted since as
//!    deleted (Rule: I45). A page shows the moment at which it was fetched; later changes are
//!    detected with [`TxnWrites::changes`](super::TxnWrites::changes).
//! 2. Its range deletes are older than its entries (Rule: I26): it does not show own writes that
//!    they hide.
//!
//! Threads: one, concurrently with others that take the lock.

use std::ops::Range;

use crate::{
    Result, TreeId,
    message::{Message, Tag},
    run::{Direction, Entry, EntrySource, Folder, RangeDeletes},
};

use super::{LiveWrites, Mark, TxnWrites};

/// Rows of the first page; each later page has `ROWS_GROWTH` times as many, up to `ROWS_MAX`. Most
/// scans are short.
const ROWS_FIRST: usize = 8;
const ROWS_GROWTH: usize = 4;
const ROWS_MAX: usize = 256;
/// Length at which a page ends.
const PAGE_BYTES_MAX: usize = 64 << 10;
/// Number of keys examined under the lock if the scan sees none of them.
const KEYS_PASSED_MAX: usize = 1024;

/// Copied rows, in scan order, each with its messages, newest first.
#[derive(Debug, Default)]
struct Page {
    bytes: Vec<u8>,
    rows: Vec<(Range<usize>, Range<usize>)>,
    messages: Vec<(Tag, Range<usize>)>,
    /// More rows may follow.
    goes_on: bool,
}

/// A cursor over a transaction's own writes of one tree, in a range of keys.
#[derive(Debug)]
pub struct OwnCursor<'w> {
    writes: &'w LiveWrites,
    tree: TreeId,
    mark: Mark,
    folder: Folder<'w>,
    lo: Option<Vec<u8>>,
    hi: Option<Vec<u8>>,
    ranges: RangeDeletes,
    changes: u64,
    page: Page,
    /// Index of the current row.
    index: usize,
    direction: Direction,
    rows_max: usize,
    /// Where the next page starts: forward, its first key is not below this; backward, it is below
    /// this. `None`: the start or end of the range.
    edge: Option<Vec<u8>>,
    /// Tag of the current row; its payload is in `folded` if it has more than one message.
    tag: Option<Tag>,
    folded: Vec<u8>,
    spare: Vec<u8>,
}

impl<'w> OwnCursor<'w> {
    /// The writes of a tree with keys in `[lo, hi)`, as seen by a scan whose statement started at
    /// `mark`. The cursor is not positioned yet.
    pub fn new(
        writes: &'w LiveWrites,
        tree: TreeId,
        mark: Mark,
        folder: Folder<'w>,
        (lo, hi): (Option<&[u8]>, Option<&[u8]>),
    ) -> Self {
        let own = writes.lock();
        let ranges = own.trees.get(tree).map(|state| state.covers.clipped((lo, hi)));
        let changes = own.changes(tree);
        drop(own);
        Self {
            writes,
            tree,
            mark,
            folder,
            lo: lo.map(<[u8]>::to_vec),
            hi: hi.map(<[u8]>::to_vec),
            ranges: RangeDeletes::union(ranges.unwrap_or_default()),
            changes,
            page: Page::default(),
            index: 0,
            direction: Direction::Forward,
            rows_max: ROWS_FIRST,
            edge: None,
            tag: None,
            folded: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// The value of [`TxnWrites::changes`] for the tree when the cursor was made: while it is
    /// unchanged, what was read is current.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Moves to the first entry of the range.
    pub fn seek_first(&mut self) -> Result<()> {
        self.go(Direction::Forward, None)
    }

    /// Moves to the last entry of the range.
    pub fn seek_last(&mut self) -> Result<()> {
        self.go(Direction::Backward, None)
    }

    fn go(&mut self, direction: Direction, edge: Option<Vec<u8>>) -> Result<()> {
        self.direction = direction;
        self.rows_max = ROWS_FIRST;
        self.edge = match (direction, edge) {
            (Direction::Forward, edge) => edge.max(self.lo.clone()),
            (Direction::Backward, None) => self.hi.clone(),
            (Direction::Backward, Some(edge)) => {
                Some(self.hi.clone().map_or(edge.clone(), |hi| hi.min(edge)))
            }
        };
        self.fetch()?;
        self.fold_row()
    }

    /// Moves one entry in a direction.
    fn step(&mut self, direction: Direction) -> Result<()> {
        let Some((key, _)) = self.page.rows.get(self.index) else { return Ok(()) };
        if self.direction != direction {
            let mut edge = self.page.bytes[key.clone()].to_vec();
            if direction == Direction::Forward {
                edge.push(0); // the first key above it
            }
            return self.go(direction, Some(edge));
        }
        self.index += 1;
        self.fold_row()
    }

    /// Folds the current row, or the next one that is not empty.
    fn fold_row(&mut self) -> Result<()> {
        loop {
            let Some((_, messages)) = self.page.rows.get(self.index) else {
                if !self.page.goes_on {
                    self.tag = None;
                    return Ok(());
                }
                self.fetch()?;
                continue;
            };
            let messages = &self.page.messages[messages.clone()];
            self.tag = match messages {
                [(tag, _)] => Some(*tag),
                _ => {
                    let bytes = &self.page.bytes;
                    let messages = messages
                        .iter()
                        .map(|(tag, payload)| Message::new(*tag, &bytes[payload.clone()]));
                    self.folder.fold_versions(messages, true, &mut self.folded, &mut self.spare)?
                }
            };
            if self.tag.is_some() {
                return Ok(());
            }
            self.index += 1;
        }
    }

    /// Fetches pages until one has rows, or the range ends.
    fn fetch(&mut self) -> Result<()> {
        loop {
            let limit = match self.direction {
                Direction::Forward => self.hi.as_deref(),
                Direction::Backward => self.lo.as_deref(),
            };
            self.index = 0;
            let mut own = self.writes.lock();
            own.fill(
                &mut self.page,
                (self.tree, self.mark),
                self.direction,
                &mut self.edge,
                limit,
                self.rows_max,
            );
            drop(own);
            self.rows_max = (self.rows_max * ROWS_GROWTH).min(ROWS_MAX);
            if !self.page.rows.is_empty() || !self.page.goes_on {
                return Ok(());
            }
        }
    }
}

impl EntrySource for OwnCursor<'_> {
    fn entry(&self) -> Option<Entry<'_>> {
        let tag = self.tag?;
        let (key, messages) = self.page.rows.get(self.index)?;
        let payload = match &self.page.messages[messages.clone()] {
            [(_, payload)] => &self.page.bytes[payload.clone()],
            _ => &self.folded,
        };
        Some(Entry { key: &self.page.bytes[key.clone()], tag, payload })
    }

    fn advance(&mut self) -> Result<()> {
        self.step(Direction::Forward)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.go(Direction::Forward, Some(key.to_vec()))
    }

    fn retreat(&mut self) -> Result<()> {
        self.step(Direction::Backward)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.go(Direction::Backward, Some(key.to_vec()))
    }

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        Some(&self.ranges)
    }
}

impl Page {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.messages.clear();
        self.goes_on = false;
    }

    fn copy(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Adds a row, unless it has no messages.
    fn push<'m>(&mut self, key: &[u8], messages: impl Iterator<Item = Message<'m>>) {
        let first = self.messages.len();
        for message in messages {
            let payload = self.copy(message.payload);
            self.messages.push((message.tag, payload));
        }
        if self.messages.len() > first {
            let key = self.copy(key);
            self.rows.push((key, first..self.messages.len()));
        }
    }
}

impl TxnWrites {
    /// Fills a page with what a scan sees from `edge` on, and moves `edge` past it.
    fn fill(
        &mut self,
        page: &mut Page,
        (tree, mark): (TreeId, Mark),
        direction: Direction,
        edge: &mut Option<Vec<u8>>,
        limit: Option<&[u8]>,
        rows_max: usize,
    ) {
        page.clear();
        if self.view(tree).is_none() {
            return;
        }
        let Some(view) = self.trees.get(tree).and_then(|state| state.view.as_ref()) else { return };
        let is_forward = direction == Direction::Forward;
        let mut at = match (edge.as_deref(), is_forward) {
            (Some(edge), _) => view.seek(&self.set, edge),
            (None, true) => view.begin(),
            (None, false) => view.end(),
        };
        let mut passed = 0;
        loop {
            if !is_forward {
                let Some(before) = view.previous(at) else { return };
                at = before;
            }
            let Some(first) = view.first(at) else { return };
            let key = self.set.key_at(first);
            let is_beyond = |limit| if is_forward { key >= limit } else { key < limit };
            if limit.is_some_and(is_beyond) {
                return;
            }
            match self.messages_at(tree, key, Some(first), mark) {
                Some(messages) => page.push(key, messages),
                None => page.push(key, std::iter::once(Message::new(Tag::DELETE, &[]))),
            }
            if is_forward {
                at = view.next(at);
            }
            passed += 1;
            let is_full = page.rows.len() >= rows_max || page.bytes.len() >= PAGE_BYTES_MAX;
            if is_full || passed >= KEYS_PASSED_MAX {
                let edge = edge.get_or_insert_default();
                edge.clear();
                edge.extend_from_slice(key);
                if is_forward {
                    edge.push(0); // the first key above it
                }
                page.goes_on = true;
                return;
            }
        }
    }
}
