//! A cursor over a write buffer that stays at its mark while the buffer is written, spilled and
//! rolled back.
//!
//! It sees the writes of one tree as they were when the scan, or its statement if there was one,
//! started. So a scan never meets rows that are written ahead of it. Rows that were deleted since
//! are not returned (Rule: I45).
//!
//! Threads: one.

use crate::{
    Result, TreeId,
    message::Kind,
    pipeline::Engine,
    run::{Entry, RangeDeletes},
    tree::SortedRunsCursor,
    txn::{Mark, OwnCursor},
};

use super::{BufferState, Place, Position, WriteBuffer, WriteBufferCursor};

/// A range of keys: from the first up to, but not including, the second.
type Range = (Option<Vec<u8>>, Option<Vec<u8>>);

/// A scan of one tree's rows in a write buffer. Its owner calls [`update`](Self::update) before
/// each step.
pub(in crate::db::session) struct BufferScan<'t> {
    buffer: &'t WriteBuffer,
    engine: &'t Engine,
    tree: TreeId,
    range: Range,
    cursor: WriteBufferCursor<'t>,
    /// The writes that are seen: those from before the statement, or the scan.
    mark: Mark,
    /// The number of rollbacks when the scan started.
    rollbacks: u64,
    /// Number of spills when `cursor` was positioned.
    spills: u64,
    /// Number of spills at its mark.
    began: u64,
    /// Numbers of changes of the tree and of rollbacks at its last step.
    stepped: (u64, u64),
}

impl<'t> BufferScan<'t> {
    /// Starts a scan, not positioned yet. Its mark is live until
    /// [`Marks::close_scan`](super::Marks::close_scan).
    pub fn new(
        (buffer, engine): (&'t WriteBuffer, &'t Engine),
        state: &mut BufferState,
        tree: TreeId,
        range: Range,
    ) -> Self {
        let (mark, began) = buffer.scan_mark(state);
        state.marks.open_scan(mark);
        Self {
            buffer,
            engine,
            tree,
            cursor: cursor((buffer, engine), tree, mark, &range),
            range,
            mark,
            rollbacks: state.marks.rollbacks_made,
            spills: state.spills,
            began,
            stepped: (0, 0),
        }
    }

    pub fn mark(&self) -> Mark {
        self.mark
    }

    /// Follows the buffer to its present state; false if the scan must be positioned again.
    ///
    /// # Errors
    /// `InvalidArgument` if the buffer was rolled back to before the mark.
    pub fn update(&mut self, state: &BufferState) -> Result<bool> {
        state.marks.check_scan(self.mark, self.rollbacks)?;
        let rollbacks = state.marks.rollbacks_made;
        // After a rollback, rows that were skipped as deleted may exist again.
        let is_same = std::mem::replace(&mut self.stepped.1, rollbacks) == rollbacks;
        if self.spills == state.spills {
            return Ok(is_same);
        }
        // The writes that it sees have been spilled.
        self.spills = state.spills;
        self.reopen();
        Ok(false)
    }

    fn reopen(&mut self) {
        self.cursor = cursor((self.buffer, self.engine), self.tree, self.mark, &self.range);
    }

    /// Continues with another range; not positioned there yet.
    pub fn set_range(&mut self, range: Range) {
        self.range = range;
        // Writes that it does not see now, it sees in no range.
        if self.buffer.changes(self.tree) != 0 {
            self.reopen();
        }
    }

    /// Moves to the first entry beyond a place, in its direction.
    pub fn place(&mut self, at: &Place) -> Result<()> {
        let cursor = &mut self.cursor;
        match (at.forward, at.position) {
            (true, Position::Low) => cursor.seek_first(),
            (true, Position::Row) => cursor.seek(&above(&at.key)),
            (true, Position::Below) => cursor.seek(&at.key),
            (false, Position::Row | Position::Below) => cursor.seek_before(&at.key),
            (false, Position::High) => cursor.seek_last(),
            (true, Position::High) => {
                cursor.seek_last()?;
                cursor.end(true)
            }
            (false, Position::Low) => {
                cursor.seek_first()?;
                cursor.end(false)
            }
        }
    }

    /// The current entry.
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.cursor.entry()
    }

    /// Applies the current entry to the value of its key, if one `exists` below the buffer. Returns
    /// whether there is a row then.
    pub fn apply(&self, exists: bool, value: &mut Vec<u8>) -> Result<bool> {
        let Some(own) = self.entry() else { return Ok(exists) };
        let cx = &self.engine.cx;
        match own.tag.kind() {
            Kind::Put => {
                value.clear();
                value.extend_from_slice(own.payload);
            }
            Kind::PutBlob => cx.open_blob(own.payload)?.read(value)?,
            Kind::Delete => return Ok(false),
            Kind::Merge | Kind::Versions => {
                if !exists {
                    value.clear();
                }
                cx.folder().apply(exists, own.payload, value)?;
            }
        }
        Ok(true)
    }

    pub fn range_deletes(&self) -> Option<&RangeDeletes> {
        self.cursor.range_deletes()
    }

    /// Moves to the next entry in the direction of the last step.
    pub fn step(&mut self) -> Result<()> {
        self.cursor.step()
    }

    /// True if a row was deleted since the scan started.
    pub fn is_gone(&mut self, key: &[u8]) -> Result<bool> {
        let changes = self.buffer.changes(self.tree);
        self.stepped.0 = changes;
        // The cursor does not show what was spilled since then.
        Ok((changes != self.cursor.changes() || self.spills != self.began)
            && self.buffer.is_deleted_since(self.engine, self.tree, key, self.mark)?)
    }

    /// True if the scan would still return a row, which it returned in one of its last steps, given
    /// the numbers of rollbacks and spills so far.
    pub fn still_gives(&self, key: &[u8], (rollbacks, spills): (u64, u64)) -> Result<bool> {
        if self.stepped.1 != rollbacks {
            return Ok(false);
        }
        let changes = self.buffer.changes(self.tree);
        let is_untouched = self.stepped.0 == changes && self.spills == spills;
        Ok(is_untouched || !self.buffer.is_deleted_since(self.engine, self.tree, key, self.mark)?)
    }
}

/// The first key above a key that a scan has returned.
pub(in crate::db::session) fn above(key: &[u8]) -> Vec<u8> {
    let mut above = key.to_vec();
    if !plant!("txn: a scan that is placed again meets its row again") {
        above.push(0);
    }
    above
}

/// A cursor over what is in memory, and over the spilled pieces before the mark, newest first.
fn cursor<'t>(
    (buffer, engine): (&'t WriteBuffer, &'t Engine),
    tree: TreeId,
    mark: Mark,
    (from, to): &Range,
) -> WriteBufferCursor<'t> {
    let (cx, range) = (&engine.cx, (from.as_deref(), to.as_deref()));
    let memory = OwnCursor::new(&buffer.live, tree, mark, cx.folder(), range);
    // After the look at memory: what has left it since then is here.
    let pieces = buffer.live.pieces().unwrap_or_default();
    let before = pieces.iter().rev().filter(|piece| piece.start < mark);
    let runs = before.flat_map(|piece| piece.writes.of(tree));
    let pieces = runs.map(|runs| SortedRunsCursor::new(cx, runs, range)).collect();
    WriteBufferCursor::new(memory, pieces, cx.folder())
}
