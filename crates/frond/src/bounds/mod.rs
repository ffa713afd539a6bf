//! Bounds of a store: the one table of how long, how large and how many anything may be.
//!
//! The naive way is a constant at each format. Each reader then refuses what is beyond its own constant, and a writer
//! that never looks commits more than that: the commit is acknowledged, and the store does not open again. Nor does a
//! test notice, since no test writes 64 MiB of anything. So all bounds stand in one table, [`BOUNDS`]:
//!
//! 1. A bound that a reader enforces is enforced by a writer before anything is acknowledged: the call is refused
//!    with a documented error ([`At::Refused`]), or the writer cuts what it writes into pieces ([`At::Cut`]).
//! 2. A bound is a parameter: builds with the cargo feature `planted-bugs` can make it tiny for one thread
//!    ([`Tiny`]), readers and writers alike, and count how often it was reached.
//! 3. A campaign reaches each of them (`frond-testkit`, `campaign/limits.rs`), and fails by name if one was not.
//!
//! Without the feature [`Bound::max`] is a constant. `docs/operating.md`, "Limits", lists what a user can meet; a test
//! compares the two. Design note 038.
//!
//! Threads: pure functions; what is tiny is tiny for one thread, as planted bugs are.

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
    /// Things.
    Count,
}

/// What happens at a bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The call is refused with the error of this code, and nothing of it was done.
    Refused(&'static str),
    /// The writer cuts: it begins the next one, or leaves away what would not fit.
    Cut,
    /// No writer can come there, for this reason. It cannot be made tiny.
    Fixed(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    row: usize,
    /// Its name here.
    pub name: &'static str,
    /// What it bounds, as `docs/operating.md` says it.
    pub what: &'static str,
    /// Its value in a store of normal builds.
    pub default: u64,
    /// What it counts.
    pub unit: Unit,
    /// The source that refuses to read more, or where writers look if no reader does.
    pub read_at: &'static str,
    /// What happens at it.
    pub at: At,
    /// Its value in campaigns.
    pub tiny: u64,
}

impl Bound {
    /// Its value.
    #[cfg(not(feature = "planted-bugs"))]
    #[inline(always)]
    pub const fn max(&self) -> u64 {
        self.default
    }

    /// Its value, of this thread.
    #[cfg(feature = "planted-bugs")]
    pub fn max(&self) -> u64 {
        tiny::max_of(self)
    }

    /// Its value as a length.
    #[inline]
    pub fn len(&self) -> usize {
        self.max() as usize
    }

    /// For a writer: whether so many are allowed. If not, the writer refuses or cuts.
    #[inline]
    pub fn admits(&self, value: usize) -> bool {
        let fits = value as u64 <= self.max() || plant!("bounds: the writer does not look");
        if !fits {
            self.reached();
        }
        fits
    }

    /// Counts that it was reached.
    #[inline]
    pub fn reached(&self) {
        #[cfg(feature = "planted-bugs")]
        tiny::note(self);
    }

    /// How documents say its value.
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

/// The number of a tree that is made, and the next one's; an error if there is no number left.
pub(crate) fn take_tree_number(next: &mut TreeId) -> Result<TreeId> {
    let id = (*next).max(TreeId(1));
    if !TREES.admits(id.0 as usize) {
        return Err(limit_reached(TREES));
    }
    *next = id.next();
    Ok(id)
}

/// The number of a named snapshot that is made, and the next one's; an error if there is no number left.
pub(crate) fn take_snapshot_number(next: &mut u32) -> Result<u32> {
    let id = *next;
    if !SNAPSHOTS.admits(id as usize) {
        return Err(limit_reached(SNAPSHOTS));
    }
    *next += 1;
    Ok(id)
}

/// An error if a tree that has inherited pages of so many others cannot be cloned, with so many pins in the store.
pub(crate) fn check_clone(inherited: usize, pins: usize) -> Result<()> {
    if !CLONES_IN_A_ROW.admits(inherited + 1) {
        return Err(limit_reached(CLONES_IN_A_ROW));
    }
    if !LINEAGE_PINS.admits(pins.saturating_add(inherited) + 1) {
        return Err(limit_reached(LINEAGE_PINS));
    }
    Ok(())
}

/// An error if there can be no named snapshot more, with so many pins in the store: each has one.
pub(crate) fn check_named_pin(pins: usize) -> Result<()> {
    if LINEAGE_PINS.admits(pins.saturating_add(1)) {
        Ok(())
    } else {
        Err(limit_reached(LINEAGE_PINS))
    }
}

/// The error at a bound of the store as a whole.
pub(crate) fn limit_reached(bound: Bound) -> Error {
    Error::LimitReached { what: bound.what, max: bound.max() }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
