//! Modes of locks, and which go together.
//!
//! Rows know two, trees four and one that only arises: who holds a tree shared and asks for an exclusive
//! intent has both. One table serves rows and trees.
//!
//! Invariants
//! 1. `admits` is symmetric.
//! 2. `join` is the least mode that covers both, so what a holder asks for in turn is one mode.

use std::fmt;

/// What a transaction wants a row for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RowMode {
    /// To read it, others may read it too.
    Shared,
    /// To have it alone.
    Exclusive,
    /// To have it alone, and to change it: after `prepare` this lock stays (Rule: I54).
    Write,
}

/// What a transaction wants a tree for (Rule: I52).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TableMode {
    /// To lock rows of it shared.
    IntentShared,
    /// To lock and change rows of it.
    IntentExclusive,
    /// To have nobody change it.
    Shared,
    /// To have it alone.
    Exclusive,
}

/// A mode as the table keeps it: of a row or a gap one of two, of a tree any.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Of a tree: rows of it are locked shared.
    IntentShared = 0,
    /// Of a tree: rows of it are locked exclusively, or changed.
    IntentExclusive = 1,
    /// Nobody else changes it.
    Shared = 2,
    /// Of a tree: both of the two before.
    SharedIntentExclusive = 3,
    /// Nobody else has it.
    Exclusive = 4,
}

/// How many modes there are.
pub(super) const MODES: usize = 5;

use Mode::{Exclusive, IntentExclusive, IntentShared, Shared, SharedIntentExclusive};

impl Mode {
    pub(super) const ALL: [Mode; MODES] =
        [IntentShared, IntentExclusive, Shared, SharedIntentExclusive, Exclusive];

    /// The modes, one bit each, that another owner may not hold beside this one.
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

    /// Two owners may hold these at once.
    pub(super) fn admits(self, other: Mode) -> bool {
        self.conflicts() & other.bit() == 0
    }

    /// The least mode that covers both.
    pub(super) fn join(self, other: Mode) -> Mode {
        match (self, other) {
            (a, b) if a == b => a,
            (IntentShared, other) | (other, IntentShared) => other,
            (Exclusive, _) | (_, Exclusive) => Exclusive,
            // Shared, the exclusive intent, and both: two different ones of these make both.
            _ => SharedIntentExclusive,
        }
    }

    /// Who holds this needs not ask for that.
    pub(super) fn covers(self, other: Mode) -> bool {
        self.join(other) == self
    }

    /// From the number it has in a word.
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
                // What a join refuses, one of the two refuses: it is not more than both.
                assert_eq!(join.conflicts(), a.conflicts() | b.conflicts(), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn the_usual_table_of_conflicts() {
        let rows = ["yyyyn", "yynnn", "ynynn", "ynnnn", "nnnnn"];
        for (a, row) in Mode::ALL.into_iter().zip(rows) {
            let admits = Mode::ALL.map(|b| if a.admits(b) { 'y' } else { 'n' });
            assert_eq!(admits.iter().collect::<String>(), row, "{a:?}");
        }
    }
}
