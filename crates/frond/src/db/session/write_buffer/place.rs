//! The place of a scan: where it stands between two steps.
//!
//! Invariant: `next` returns the first row above it, `prev` the last row below it; a step that
//! fails leaves it unchanged.
//!
//! Threads: one.

use crate::db::{KeyOrder, Passed, Repeats, RowBuf, RowPlace};

/// Position of a cursor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::db::session) enum Position {
    #[default]
    Low,
    High,
    /// On a key.
    Row,
    /// Just below a key, to which it was positioned by a seek.
    Below,
}

/// The place of a cursor.
#[derive(Debug)]
pub(in crate::db::session) struct Place {
    /// The key that the position refers to.
    pub key: Vec<u8>,
    pub position: Position,
    /// Direction of the last step.
    pub forward: bool,
    /// Whether what the cursor reads stands on its first entry beyond the position.
    pub is_reached: bool,
    /// Whether a row was returned since the cursor was positioned; `key` is its key.
    pub has_given: bool,
    pub order: KeyOrder,
}

impl Place {
    /// Before the first row.
    pub fn new() -> Self {
        Self {
            key: Vec::new(),
            position: Position::Low,
            forward: true,
            is_reached: false,
            has_given: false,
            order: KeyOrder::default(),
        }
    }

    /// Moves just below a key.
    pub fn seek(&mut self, key: &[u8]) {
        self.copy_key(key);
        self.stand(Position::Below);
    }

    pub fn stand(&mut self, position: Position) {
        (self.position, self.is_reached, self.has_given) = (position, false, false);
        self.order.forget();
    }

    /// The place as an iterator compares it; `None` before the first row and after the last.
    pub fn passed(&self) -> Option<RowPlace> {
        match self.position {
            Position::Low | Position::High => None,
            Position::Below => Some((self.key.clone(), Passed::Nothing)),
            Position::Row => Some((self.key.clone(), Passed::First)),
        }
    }

    /// Starts a step in a direction; true if what the cursor reads must be positioned first. If
    /// that fails, it must be positioned again.
    #[inline]
    pub fn must_be_reached(&mut self, forward: bool) -> bool {
        self.is_reached &= self.forward == forward;
        self.forward = forward;
        !self.is_reached
    }

    /// Ends a step at a row, or at the end of the range.
    #[inline]
    pub fn arrive(&mut self, row: Option<&[u8]>) {
        match row {
            Some(key) => {
                self.order.hands_out(self.forward, key, Repeats::Never);
                self.stand_on(key);
            }
            None => {
                self.order.forget();
                self.position = if self.forward { Position::High } else { Position::Low };
            }
        }
    }

    /// Ends a batch of steps on its last row, also if there was none after it; false if the batch
    /// has no rows. `rows` ascend, and their order was reported.
    pub fn stand_on_last(&mut self, forward: bool, rows: &RowBuf) -> bool {
        let last = if forward { rows.len().checked_sub(1) } else { Some(0) };
        let last = last.and_then(|last| rows.get(last));
        last.inspect(|(key, _)| self.stand_on(key)).is_some()
    }

    #[inline]
    fn stand_on(&mut self, key: &[u8]) {
        self.copy_key(key);
        (self.position, self.has_given) = (Position::Row, true);
    }

    #[inline]
    fn copy_key(&mut self, key: &[u8]) {
        self.key.clear();
        self.key.extend_from_slice(key);
    }
}
