//! Lock modes, and which of them are compatible.
//!
//! Rows have two modes. Trees have four, and one that only arises by combination: a holder of a
//! tree in shared mode that asks for an exclusive intent has both. One table serves rows and trees.
//!
//! Invariants
//! 1. `admits` is symmetric.
//! 2. `join` is the least mode that covers both, so everything a holder has asked for is one mode.

use std::fmt;

/// The mode of a row lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowMode {
    /// For reading; others may read the row, too.
    Shared,
    /// Excludes all others.
    Exclusive,
    /// Excludes all others, for changing the row: this lock is kept after `prepare` (see
    /// docs/safety.md, I54).
    Write,
}

/// The mode of a tree lock (Rule: I52).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TableMode {
    /// For locking rows of the tree shared.
    IntentShared,
    /// For locking and changing rows of the tree.
    IntentExclusive,
    /// Prevents others from changing the tree.
    Shared,
    /// Excludes all others.
    Exclusive,
}

/// A lock mode as stored in the table: rows and gaps use two of them, trees all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Intent on a tree: rows of it are locked shared.
    IntentShared = 0,
    /// Intent on a tree: rows of it are locked exclusively, or changed.
    IntentExclusive = 1,
    /// Others may not change it.
    Shared = 2,
    /// Both modes on a tree: shared, and the intent to lock rows of it exclusively.
    SharedIntentExclusive = 3,
    /// Others may not lock it.
    Exclusive = 4,
}

/// Number of modes.
pub(super) const MODES: usize = 5;

use Mode::{Exclusive, IntentExclusive, IntentShared, Shared, SharedIntentExclusive};

impl Mode {
    pub(super) const ALL: [Mode; MODES] =
        [IntentShared, IntentExclusive, Shared, SharedIntentExclusive, Exclusive];

    /// The modes, one bit each, that conflict with this one.
    pub(super) fn conflicts(self) -> u8 {
        let bits = |modes: &[Mode]| modes.iter().fold(0, |bits, mode| bits | mode.bit());
        match self {
            IntentShared => bits(&[Exclusive]),
            IntentExclusive => bits(&[Shared, SharedIntentExclusive, Exclusive]),
            Shared => bits(&[IntentExclusive, SharedIntentExclusive, Exclusive]),
            SharedIntentExclusive => {
                bits(&[IntentExclusive, Shared, SharedIntentExclusive, Exclusive])
            }
            Exclusive => bits(&Self::ALL),
        }
    }

    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Whether two owners may hold these modes at once.
    pub(super) fn admits(self, other: Mode) -> bool {
        self.conflicts() & other.bit() == 0
    }

    /// The least mode that covers both.
    pub(super) fn join(self, other: Mode) -> Mode {
        match (self, other) {
            (a, b) if a == b => a,
            (IntentShared, other) | (other, IntentShared) => other,
            (Exclusive, _) | (_, Exclusive) => Exclusive,
            // Of shared, intent-exclusive, and their combination, any two different ones make the
            // combination.
            _ => SharedIntentExclusive,
        }
    }

    /// Whether a holder of this mode need not ask for the other.
    pub(super) fn covers(self, other: Mode) -> bool {
        self.join(other) == self
    }

    /// Decodes the mode from its number in a word.
    pub(super) fn from_bits(bits: u32) -> Mode {
        Self::ALL[bits as usize % MODES]
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IntentShared => "shared intent",
            IntentExclusive => "exclusive intent",
            Shared => "shared",
            SharedIntentExclusive => "shared with exclusive intent",
            Exclusive => "exclusive",
        })
    }
}

impl From<RowMode> for Mode {
    fn from(mode: RowMode) -> Self {
        if mode == RowMode::Shared { Shared } else { Exclusive }
    }
}

impl From<TableMode> for Mode {
    fn from(mode: TableMode) -> Self {
        match mode {
            TableMode::IntentShared => IntentShared,
            TableMode::IntentExclusive => IntentExclusive,
            TableMode::Shared => Shared,
            TableMode::Exclusive => Exclusive,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn modes_form_a_lattice_and_conflicts_are_mutual() {
        for a in Mode::ALL {
            for b in Mode::ALL {
                assert_eq!(a.admits(b), b.admits(a), "{a:?} {b:?}");
                let join = a.join(b);
                assert_eq!(join, b.join(a));
                assert!(join.covers(a) && join.covers(b), "{a:?} {b:?}");
                // A join conflicts with nothing that neither of the two conflicts with.
                assert_eq!(join.conflicts(), a.conflicts() | b.conflicts(), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn lock_modes_conflict_as_in_the_standard_table() {
        let rows = ["yyyyn", "yynnn", "ynynn", "ynnnn", "nnnnn"];
        for (a, row) in Mode::ALL.into_iter().zip(rows) {
            let admits = Mode::ALL.map(|b| if a.admits(b) { 'y' } else { 'n' });
            assert_eq!(admits.iter().collect::<String>(), row, "{a:?}");
        }
    }
}
