//! Scans of a transaction many rows at a time, and over several ranges in turn.
//!
//! While the transaction has written nothing to the tree and the scan locks nothing, a batch is a
//! fetched chunk of committed rows. Otherwise it is built row by row.
//!
//! Threads: one.

use crate::{
    KeyRange, Result,
    db::{Repeats, RowBuf, tree::bounds},
};

use super::{Base, TxnCursor};

impl TxnCursor<'_> {
    /// Reads up to `rows_max` rows, going up or down, into a buffer that is cleared first. Returns
    /// fewer rows if more would have to be fetched for them; no row means the end. Rows are in
    /// ascending order in either case: when going down, the nearest row is the last. If the scan
    /// locks, all returned rows are locked; after an error the rows read so far are lost, so
    /// request one row at a time where that matters.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn read_batch(
        &mut self,
        forward: bool,
        out: &mut RowBuf,
        rows_max: usize,
    ) -> Result<usize> {
        out.clear();
        if self.reads_pieces() {
            return self.read_piece(forward, out, rows_max);
        }
        let locks = matches!(self.base, Base::Locked(_));
        let filled = out.fill(forward, rows_max, !locks, |out| {
            let row = self.go(forward)?;
            Ok(row.map(|(key, value)| out.push(key, value)).is_some())
        });
        self.place.stand_on_last(forward, out);
        filled
    }

    /// Restricts the cursor to another range, starting at its first row.
    ///
    /// # Errors
    /// `InvalidArgument` if the range ends before it begins.
    pub fn set_range(&mut self, range: impl KeyRange) -> Result<()> {
        let range = bounds(&range)?;
        match &mut self.base {
            Base::Seen(base) => base.set_range(range.clone()),
            Base::Locked(walk) => walk.set_range(range.clone()),
        }
        self.own.set_range(range);
        self.seek_first();
        Ok(())
    }

    /// True if the scan consists of committed rows only, in the requested form.
    fn reads_pieces(&self) -> bool {
        let is_base = matches!(self.base, Base::Seen(_)) && self.projection.is_none();
        is_base && self.txn.buffer.changes(self.tree.entry.id) == 0
    }

    fn read_piece(&mut self, forward: bool, out: &mut RowBuf, rows_max: usize) -> Result<usize> {
        self.begin_step()?;
        self.place.is_reached &= self.is_behind;
        if self.place.must_be_reached(forward) {
            self.reach_place()?;
        }
        let Base::Seen(base) = &mut self.base else { return Ok(0) };
        base.read_batch_to(forward, out, rows_max)
            .inspect_err(|_| self.place.is_reached = false)?;
        if !self.place.stand_on_last(forward, out) {
            self.place.arrive(None);
            return Ok(0);
        }
        if cfg!(debug_assertions) {
            let in_order =
                (0..out.len()).map(|row| if forward { row } else { out.len() - 1 - row });
            let keys = in_order.filter_map(|row| out.get(row)).map(|(key, _)| key);
            keys.for_each(|key| self.place.order.hands_out(forward, key, Repeats::Never));
        }
        Ok(out.len())
    }
}
