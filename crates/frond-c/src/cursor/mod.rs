//! Cursors: rows in order, in batches.
//!
//! A call returns a batch of rows, in the cursor's memory, that are valid until its next call. The
//! first batch is small, for a caller that wants one row; each following batch is four times as
//! large, up to 2048 rows.

mod batch;
mod walk;

use std::time::Duration;

use frond::{Cursor, Isolation, Projection, ReadOptions, TemporaryTree};

use batch::{Batch, Place};
use walk::{OwnedCursor, OwnedTemporary, Seek, Walk, with};

use crate::{bytes::*, error::*, read_as::*, store::frond_tree, txn::*};

/// Rows of the first batch if the caller does not choose, and the maximum of later ones. The first
/// batch has as many rows as the engine fetches at once, so they are returned without a copy.
const FIRST_ROWS: usize = 16;
const ROWS_MAX: usize = 2048;
/// A batch ends after the row that reaches this many bytes.
const BATCH_BYTES: usize = 256 << 10;

/// A cursor over the rows of a tree in a range, in both directions.
pub struct frond_cursor {
    walk: Walk,
    batch: Batch,
    /// The direction of the batch.
    forward: bool,
    /// Rows of the next batch if the caller does not choose.
    next_rows: usize,
    /// Whether the walk locks each row it reads; then it must not read ahead.
    locks: bool,
    /// What the walk has met after the last row of the batch.
    met: Option<Met>,
}

/// What a walk meets where it looks for a row after the last one of a batch.
enum Met {
    /// The end: if the next call is in the other direction, the walk goes back to the row first.
    End,
    /// An error: the next call in this direction returns it. For a call in the other direction it
    /// lies beyond the rows that were returned.
    Error(frond::Error),
}

impl frond_cursor {
    /// The engine's cursor, if it belongs to no transaction and no temporary tree.
    pub(crate) fn snapshot_cursor(&mut self) -> Option<&mut Cursor> {
        match &mut self.walk {
            Walk::Plain(cursor) => Some(cursor),
            Walk::OfTxn(_) | Walk::OfTemporary(_) => None,
        }
    }
}

/// A row of a batch that a cursor has returned.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct frond_row {
    /// Key of the row.
    pub key: *const u8,
    /// Length of the key in bytes.
    pub key_length: usize,
    /// Value of the row.
    pub value: *const u8,
    /// Length of the value in bytes.
    pub value_length: usize,
    /// Whether the cursor has locked the row. False if it locks nothing, or if it met another
    /// transaction's lock and read the last committed version (FROND_SEMI_CONSISTENT).
    pub locked: bool,
}

/// A batch of rows. It belongs to the cursor and is valid until the next call on the cursor.
#[repr(C)]
pub struct frond_rows {
    /// The first row.
    pub rows: *const frond_row,
    /// Number of rows.
    pub count: usize,
}

impl frond_cursor {
    /// Makes a cursor that locks nothing and belongs to no transaction.
    pub(crate) fn plain(cursor: Cursor) -> Self {
        Self::new(Walk::Plain(Box::new(cursor)), false)
    }

    /// Makes a cursor over a temporary tree.
    pub(crate) fn of_temporary(tree: TemporaryTree, range: Keys<'_>) -> Done<Self> {
        let owned = OwnedTemporary::try_new(tree, |tree| tree.scan(range))?;
        Ok(Self::new(Walk::OfTemporary(owned), false))
    }

    /// Makes a cursor of a transaction over a range of a tree.
    fn of_txn(
        txn: &frond_txn,
        tree: &frond::Tree,
        range: Keys<'_>,
        options: &ReadOptions<'_>,
    ) -> Done<Self> {
        let locks_all =
            txn.txn.control().isolation() == Isolation::Serializable && !txn.is_read_only;
        let locks = options.lock.is_some() || locks_all;
        let owned =
            OwnedCursor::try_new(txn.txn.clone(), |txn| txn.scan_with(tree, range, options))?;
        Ok(Self::new(Walk::OfTxn(owned), locks))
    }

    fn new(walk: Walk, locks: bool) -> Self {
        Self {
            walk,
            batch: Batch::default(),
            forward: true,
            next_rows: FIRST_ROWS,
            locks,
            met: None,
        }
    }

    /// Fetches a batch. An error after some rows is returned by the next call in this direction. An
    /// error that ended the transaction is returned at once, because those rows are no longer
    /// locked.
    fn fetch(&mut self, forward: bool, wanted: usize) -> Done {
        let turns = std::mem::replace(&mut self.forward, forward) != forward;
        let met = self.met.take();
        if turns && matches!(met, Some(Met::End)) {
            self.return_to_last_row(!forward);
        }
        let Self { walk, batch, next_rows, locks, .. } = self;
        batch.clear();
        if let Some(Met::Error(error)) = met.filter(|_| !turns) {
            return Err(error.into());
        }
        let count = match (wanted, *locks) {
            (0, true) => 1,
            (0, false) => *next_rows,
            (wanted, _) => wanted,
        };
        *next_rows = count.saturating_mul(4).min(ROWS_MAX);
        let piece = &mut batch.piece;
        let read =
            match walk {
                Walk::OfTxn(owned) if !*locks => owned
                    .with_dependent_mut(|_, cursor| Some(cursor.read_batch(forward, piece, count))),
                Walk::OfTemporary(owned) => owned
                    .with_dependent_mut(|_, cursor| Some(cursor.read_batch(forward, piece, count))),
                Walk::Plain(cursor) if forward => Some(cursor.read_batch(piece, count)),
                Walk::OfTxn(_) | Walk::Plain(_) => None,
            };
        if let Some(read) = read {
            read?;
            batch.finish(forward);
            return if batch.rows().is_empty() { Err(Fail::NotFound) } else { Ok(()) };
        }
        let Batch { memory, places, .. } = batch;
        while places.len() < count && memory.len() < BATCH_BYTES {
            match walk.step(forward, |key, value| Place::put(memory, key, value)) {
                Ok(Some(place)) => places.push(place),
                Ok(None) => {
                    self.met = Some(Met::End);
                    break;
                }
                Err(error) if places.is_empty() || walk.is_over() => {
                    places.clear();
                    return Err(error.into());
                }
                Err(error) => {
                    self.met = Some(Met::Error(error));
                    break;
                }
            }
        }
        batch.finish(forward);
        if batch.rows().is_empty() { Err(Fail::NotFound) } else { Ok(()) }
    }
}

impl frond_cursor {
    /// Moves the walk from the end that it has met back to the last row of the batch, whose
    /// direction was `was_forward`, to continue in the other direction. Without a row it stays.
    fn return_to_last_row(&mut self, was_forward: bool) {
        let last = self.batch.rows().len().checked_sub(1);
        if let Some(key) = last.and_then(|last| self.batch.key(last, was_forward)) {
            // A position lies just below its key. So a walk that now goes upwards needs the next
            // possible key: otherwise it would return the last row again.
            let place = if was_forward { key.to_vec() } else { [key, &[0]].concat() };
            self.walk.seek(Seek::Key(&place));
        }
    }

    /// Locks the last row returned and reads it again; it becomes the only row of the batch.
    fn relock(&mut self, wait: Option<Duration>) -> Done {
        let Self { walk, batch, .. } = self;
        batch.clear();
        let memory = &mut batch.memory;
        let place = walk.relock(wait, |key, value| Place::put(memory, key, value))?;
        batch.places.push(place.ok_or(Fail::NotFound)?);
        batch.finish(true);
        Ok(())
    }

    /// Returns the rows of the batch, unless it was not fetched.
    fn give(&self, fetched: Done, rows: &mut frond_rows) -> Done {
        *rows = frond_rows { rows: std::ptr::null(), count: 0 };
        fetched?;
        let found = self.batch.rows();
        set(rows, frond_rows { rows: found.as_ptr(), count: found.len() })
    }

    /// Whether the walk would still return a row of the batch.
    fn is_current(&self, row: usize) -> Done<bool> {
        let key = self.batch.key(row, self.forward);
        self.walk.still_gives(key.ok_or_else(|| misuse("the batch has no such row"))?)
    }

    /// Continues with another range, from its first row.
    fn set_range(&mut self, range: Keys<'_>) -> Done {
        self.met = None;
        self.walk.set_range(range)?;
        self.next_rows = FIRST_ROWS;
        Ok(())
    }
}

/// Opens a cursor over the keys from `from` up to, but not including, `to`, positioned before its
/// first row. A null bound means from the first key, or to the last. It sees what is committed now.
#[api]
fn frond_scan(tree: &frond_tree, range: Keys, cursor: New<frond_cursor>) -> Done {
    cursor.give(frond_cursor::plain(tree.0.scan(range)?))
}

/// Opens a cursor like frond_scan, over what the transaction sees, including its own writes so far
/// or, within a statement, from before the statement. With `row_lock`, the cursor locks each row
/// that it returns, and at FROND_REPEATABLE_READ and FROND_SERIALIZABLE also the gaps that it
/// passes. Release the cursor before the transaction ends.
#[api]
fn frond_txn_scan(
    txn: &frond_txn,
    tree: &frond_tree,
    range: Keys,
    row_lock: i32,
    when_locked: i32,
    cursor: New<frond_cursor>,
) -> Done {
    let (lock, if_locked) = (lock(row_lock)?, if_locked(when_locked)?);
    let options = ReadOptions::new().lock(lock).if_locked(if_locked);
    cursor.give(frond_cursor::of_txn(txn, &tree.0, range, &options)?)
}

/// Opens a cursor like frond_txn_scan, with all options of a read. `with_last` has no effect here.
#[api]
fn frond_txn_read_range(
    txn: &frond_txn,
    tree: &frond_tree,
    range: Keys,
    options: Option<&frond_read_options>,
    cursor: New<frond_cursor>,
) -> Done {
    cursor.give(frond_cursor::of_txn(txn, &tree.0, range, &read_options(options)?)?)
}

/// Locks the row that the cursor returned last, as the cursor locks rows, and reads its latest
/// version: `rows` receives this row only. Meant for a row that is wanted but is not `locked`.
/// FROND_NOT_FOUND if it was deleted; its key is locked all the same. Waits for the holder of the
/// row for `wait_ms` milliseconds; below 0, for as long as the cursor waits. The cursor stays where
/// it is.
#[api]
fn frond_cursor_relock(cursor: &mut frond_cursor, wait_ms: i64, rows: &mut frond_rows) -> Done {
    let locked = cursor.relock(wait(wait_ms));
    cursor.give(locked, rows)
}

/// Returns the next rows, up to `rows_max`. With 0, the cursor chooses: a few at first and then
/// more, or one at a time if it locks rows. FROND_NOT_FOUND after the last row.
///
/// The cursor is then positioned on the last of these rows: if frond_cursor_prev is called next, it
/// starts with the row below that one. After FROND_NOT_FOUND the cursor is positioned after the
/// last row.
///
/// After an error the cursor stays where it was. If some rows were fetched before the error, they
/// are returned now, and the next call in this direction returns the error. An error that has ended
/// the transaction is returned at once, without the rows.
///
/// The rows are as they were at this call: if the transaction itself changes or deletes one of them
/// later, the batch still has the old row. A scan that may delete rows ahead of its position must
/// ask for one row per call, or call frond_cursor_is_current before it uses a row.
#[api]
fn frond_cursor_next(cursor: &mut frond_cursor, rows_max: usize, rows: &mut frond_rows) -> Done {
    let fetched = cursor.fetch(true, rows_max);
    cursor.give(fetched, rows)
}

/// Returns the previous rows, like frond_cursor_next, in descending order from the nearest.
#[api]
fn frond_cursor_prev(cursor: &mut frond_cursor, rows_max: usize, rows: &mut frond_rows) -> Done {
    let fetched = cursor.fetch(false, rows_max);
    cursor.give(fetched, rows)
}

/// Returns whether the cursor would still return a row of its last batch (`row`: 0 is the first).
/// Call it before using a row of a batch that was fetched earlier.
///
/// A row is no longer current if, since the batch was fetched, the transaction has deleted it, has
/// rolled back to a savepoint or to the start of its statement (rows that the batch skipped may
/// exist again), or has ended. Then seek to the key of the last row that was used plus a zero byte
/// (for frond_cursor_prev, to that key itself), and fetch again.
///
/// A scan does not show what the transaction has changed or put since the scan, or its statement,
/// started, however its batches are fetched: a changed row is current, and has its old value. Rows
/// of a cursor of frond_scan or frond_snapshot_scan are always current. While the transaction has
/// written nothing to the tree since the batch was fetched, this call only reads a counter. The
/// batch stays valid.
#[api]
fn frond_cursor_is_current(cursor: &frond_cursor, row: usize, is_current: &mut bool) -> Done {
    *is_current = false;
    set(is_current, cursor.is_current(row)?)
}

/// Moves the cursor to another range of its tree, before the first row there: from `from` up to,
/// but not including, `to`. A null bound means from the first key, or to the last. What it sees and
/// locks does not change. This costs less than opening another cursor. FRD-1001 for a cursor of
/// frond_scan or frond_snapshot_scan.
#[api]
fn frond_cursor_range(cursor: &mut frond_cursor, range: Keys) -> Done {
    cursor.set_range(range)
}

/// Moves the cursor to a key: the next row is the first at or above it, the previous one the last
/// below it.
#[api]
fn frond_cursor_seek(cursor: &mut frond_cursor, key: &[u8]) {
    cursor.go(Seek::Key(key));
}

/// Moves the cursor before the first row.
#[api]
fn frond_cursor_seek_first(cursor: &mut frond_cursor) {
    cursor.go(Seek::First);
}

/// Moves the cursor after the last row.
#[api]
fn frond_cursor_seek_last(cursor: &mut frond_cursor) {
    cursor.go(Seek::Last);
}

impl frond_cursor {
    /// Returns only these parts of values from now on.
    pub(crate) fn project(&mut self, projection: &Projection) -> Done {
        Ok(with!(&mut self.walk, cursor => cursor.set_projection(projection))?)
    }

    fn go(&mut self, to: Seek<'_>) {
        self.met = None;
        self.walk.seek(to);
        self.next_rows = FIRST_ROWS;
    }
}

/// Releases a cursor. Null is allowed.
#[api]
fn frond_cursor_free(cursor: Option<Box<frond_cursor>>) {}
