//! The limits of a store, in one table: maximum lengths, sizes and counts.
//!
//! The naive design puts a constant next to each format. Each reader then rejects what exceeds its
//! own constant, but a writer without the same check can commit more than that: the commit is
//! acknowledged, and the store cannot be opened again. Tests do not notice, because no test writes
//! 64 MiB of anything. So all bounds are in one table, [`BOUNDS`]:
//!
//! 1. A bound that a reader enforces is enforced by a writer before anything is acknowledged: the
//!    call is refused with a documented error ([`At::Refused`]), or the writer splits what it
//!    writes ([`At::Cut`]).
//! 2. A bound is a parameter: builds with the cargo feature `planted-bugs` can make it tiny for one
//!    thread ([`Tiny`]), for readers and writers alike, and count how often it was reached.
//! 3. A test campaign reaches each bound (`frond-testkit`, `campaign/limits/`), and fails with the
//!    name of any that it did not reach.
//!
//! Without the feature [`Bound::max`] is a constant. `docs/operating.md`, "Limits", lists the
//! bounds that a user can reach; a test compares the two. Design note 038.
//!
//! Threads: pure functions. Tiny values are set for one thread, as planted bugs are.

use crate::{Error, Result, TreeId};

mod table;

pub use table::*;

mod tiny;

pub use tiny::Tiny;

/// What a bound counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// A number of items.
    Count,
}

/// What happens at a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The call is refused with this error code, and has no effect.
    Refused(&'static str),
    /// The writer splits: it starts another item of the same kind, or leaves out what does not fit.
    Cut,
    /// No writer can reach it, for this reason. It cannot be made tiny.
    Fixed(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    row: usize,
    /// The name of its constant.
    pub name: &'static str,
    /// What it bounds, as worded in `docs/operating.md`.
    pub what: &'static str,
    /// The value in normal builds.
    pub default: u64,
    /// The unit of its value.
    pub unit: Unit,
    /// The source file of the reader that enforces it, or of the writers if no reader does.
    pub read_at: &'static str,
    /// What happens at the bound.
    pub at: At,
    /// The value in test campaigns.
    pub tiny: u64,
}

impl Bound {
    /// The value.
    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    pub const fn max(&self) -> u64 {
        self.default
    }

    /// The value in this thread.
    #[cfg(feature = "planted-bugs")]
    pub fn max(&self) -> u64 {
        tiny::max_of(self)
    }

    /// The value as a length.
    #[inline]
    pub fn len(&self) -> usize {
        self.max() as usize
    }

    /// For writers: whether `value` is allowed. If not, the writer refuses or splits.
    #[inline]
    pub fn admits(&self, value: usize) -> bool {
        let fits = value as u64 <= self.max() || plant!("bounds: the writer does not look");
        if !fits {
            self.reached();
        }
        fits
    }

    /// Counts that the bound was reached.
    #[inline]
    pub fn reached(&self) {
        #[cfg(feature = "planted-bugs")]
        tiny::note(self);
    }

    /// The value as documents show it.
    pub fn shown(&self) -> String {
        let value = self.default;
        let two_to_32 = 1 << 32;
        match self.unit {
            Unit::Bytes if value > 1 << 50 => format!("2^{} bytes", value.ilog2()),
            Unit::Bytes if value >= 1 << 30 && value.is_multiple_of(1 << 30) => {
                format!("{} GiB", value >> 30)
            }
            Unit::Bytes if value >= 1 << 20 && value.is_multiple_of(1 << 20) => {
                format!("{} MiB", value >> 20)
            }
            Unit::Bytes
                if value >= 1 << 10 && value.is_multiple_of(1 << 10) && value >= 4 << 10 =>
            {
                format!("{} KiB", value >> 10)
            }
            Unit::Bytes => format!("{value} bytes"),
            Unit::Count if two_to_32 - value < 4 => format!("2^32 - {}", two_to_32 - value),
            Unit::Count => grouped(value),
        }
    }
}

fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Assigns the number of a new tree, and advances `next`; fails if no number is left.
pub(crate) fn take_tree_number(next: &mut TreeId) -> Result<TreeId> {
    let id = (*next).max(TreeId(1));
    if !TREES.admits(id.0 as usize) {
        return Err(limit_reached(TREES));
    }
    *next = id.next();
    Ok(id)
}

/// Assigns the number of a new named snapshot, and advances `next`; fails if no number is left.
pub(crate) fn take_snapshot_number(next: &mut u32) -> Result<u32> {
    let id = *next;
    if !SNAPSHOTS.admits(id as usize) {
        return Err(limit_reached(SNAPSHOTS));
    }
    *next += 1;
    Ok(id)
}

/// Fails if a tree that inherited pages from `inherited` others cannot be cloned in a store with
/// `pins` pins.
pub(crate) fn check_clone(inherited: usize, pins: usize) -> Result<()> {
    if !CLONE_CHAIN.admits(inherited + 1) {
        return Err(limit_reached(CLONE_CHAIN));
    }
    if !LINEAGE_PINS.admits(pins.saturating_add(inherited) + 1) {
        return Err(limit_reached(LINEAGE_PINS));
    }
    Ok(())
}

/// Fails if a store with `pins` pins can have no further named snapshot: each takes one.
pub(crate) fn check_named_pin(pins: usize) -> Result<()> {
    if LINEAGE_PINS.admits(pins.saturating_add(1)) {
        Ok(())
    } else {
        Err(limit_reached(LINEAGE_PINS))
    }
}

/// The error for a bound of the store as a whole.
pub(crate) fn limit_reached(bound: Bound) -> Error {
    Error::LimitReached { what: bound.what, max: bound.max() }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
