//! Two sessions at different levels: the guarantees of each hold whatever the level of the other.

use frond::Isolation::{
    self, ReadCommitted as RC, RepeatableRead as RR, Serializable as SER, Snapshot as SI,
};

const ANY: &[Isolation] = &[RC, RR, SI, SER];

/// A script, the levels of its two sessions, and its one course.
pub struct Mixed {
    pub row: &'static str,
    pub steps: &'static str,
    /// Levels of session 1.
    pub first: &'static [Isolation],
    /// Levels of session 2.
    pub second: &'static [Isolation],
    pub end: &'static str,
}

impl Mixed {
    pub fn pairs(&self) -> impl Iterator<Item = (Isolation, Isolation)> {
        self.first.iter().flat_map(|one| self.second.iter().map(|two| (*one, *two)))
    }
}

#[rustfmt::skip]
pub const MIXED: &[Mixed] = &[
    Mixed {
        row: "G0 dirty write",
        steps: "1 set 1 11; 2 set 1 12; 1 set 2 21; 1 commit; 2 set 2 22; 2 commit",
        first: ANY, second: ANY,
        end: ". ~ . . 2:. . . | 1=12,2=22",
    },
    Mixed {
        row: "G0 dirty write, over a row that is rolled back",
        steps: "1 set 1 11; 2 add 1 5; 1 rollback; 2 commit",
        first: ANY, second: ANY,
        end: ". ~ . 2:. . | 1=15,2=20",
    },
    Mixed {
        row: "P4 lost update, by locking reads",
        steps: "1 lock 1; 2 lock 1; 1 set 1 11; 1 commit; 2 add 1 5; 2 commit",
        first: ANY, second: ANY,
        end: "1=10 ~ . . 2:1=11 . . | 1=16,2=20",
    },
    Mixed {
        row: "P4 lost update, a snapshot and a concurrent writer",
        steps: "1 read 1; 2 add 1 5; 2 commit; 1 set 1 11; 1 commit",
        first: &[SI], second: ANY,
        end: "1=10 . . conflict over | 1=15,2=20",
    },
    Mixed {
        row: "P4 lost update, serializable and a concurrent writer",
        steps: "1 read 1; 2 add 1 5; 1 set 1 11; 1 commit; 2 commit",
        first: &[SER], second: ANY,
        end: "1=10 ~ . . 2:. . | 1=16,2=20",
    },
    Mixed {
        row: "G-single read skew, serializable and a concurrent writer",
        steps: "1 read; 2 set 1 11; 1 read; 1 commit; 2 commit",
        first: &[SER], second: ANY,
        end: "1=10,2=20 ~ 1=10,2=20 . 2:. . | 1=11,2=20",
    },
    Mixed {
        row: "PMP, serializable and a concurrent insert",
        steps: "1 read %3; 2 insert 3 30; 1 read %3; 1 commit; 2 commit",
        first: &[SER], second: ANY,
        end: "- ~ - . 2:. . | 1=10,2=20,3=30",
    },
    Mixed {
        row: "G1a aborted, with any writer",
        steps: "1 set 1 101; 2 read; 1 rollback; 2 read; 2 commit",
        first: ANY, second: &[RC, RR, SI],
        end: ". 1=10,2=20 . 1=10,2=20 . | 1=10,2=20",
    },
    Mixed {
        row: "G-single read skew, a snapshot and a concurrent writer",
        steps: "1 read 1; 2 set 1 12; 2 set 2 18; 2 commit; 1 read 2; 1 commit",
        first: &[RR, SI], second: ANY,
        end: "1=10 . . . 2=20 . | 1=12,2=18",
    },
    Mixed {
        row: "G-single read skew, each call by itself and a concurrent writer",
        steps: "1 read 1; 2 set 1 12; 2 set 2 18; 2 commit; 1 read 2; 1 commit",
        first: &[RC], second: ANY,
        end: "1=10 . . . 2=18 . | 1=12,2=18",
    },
];
