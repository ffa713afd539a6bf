//! The isolation table of docs/safety.md §4.6: one script or more for each row, and for each script
//! its course at each level.
//!
//! Statements: `read` is a plain read, `lock` and `share` are locking reads; `=20` and `%3` are
//! predicates on values. `set`, `add` and `delete` find their rows by a locking read. Session 9 is
//! read-only.
//!
//! How to read a course such as `. ~ 2:. 1=11,2=21 | 1=11,2=22` (`script.rs` plays it):
//! - Answers are listed in the order in which they come.
//! - `.`: one row was written, or the transaction ended or a statement began; `0`, `2`, …: as many
//!   rows were written.
//! - `1=11,2=21`: rows that were read, id and value; `-`: none.
//! - `~`: the session of this step waits for a lock.
//! - `2:` before an answer: it comes from session 2, not from the session of the current step.
//! - `conflict`, `deadlock`, `over`: the error; `over` means that the transaction had ended before.
//! - After `|`: all rows at the end.
//!
//! Where ways to find rows differ, they meet different locks. A scan without an index locks each
//! row that it looks at, including those that it does not want (except `LastCommit`, which locks
//! only what it wants, as a search by keys does). A search by an index locks the index entry before
//! the row.

use frond::Isolation::{
    self, ReadCommitted as RC, RepeatableRead as RR, Serializable as SER, Snapshot as SI,
};

use super::session::Way::{self, Backward, LastCommit, NoIndex, Primary, Secondary, Unique};

const ALL: &[Way] = &[Primary, Secondary, Unique, NoIndex, Backward, LastCommit];
/// Ways that lock only the rows that they want.
const BY_KEYS: &[Way] = &[Primary, Secondary, Unique, LastCommit];
/// Ways that scan the table itself for a predicate.
const BY_ROWS: &[Way] = &[Primary, NoIndex, Backward];
/// Ways that scan the table whatever they look for.
const WALKS: &[Way] = &[NoIndex, Backward];
const BY_INDEX: &[Way] = &[Secondary, Unique];

/// A script, and its expected results.
pub struct Case {
    /// The row of the isolation table.
    pub row: &'static str,
    pub steps: &'static str,
    /// The expected course by level and by ways.
    pub ends: &'static [(Isolation, &'static [Way], &'static str)],
}

impl Case {
    /// The expected courses for a level and a way.
    pub fn said(&self, isolation: Isolation, way: Way) -> impl Iterator<Item = &'static str> {
        let of = self
            .ends
            .iter()
            .filter(move |(level, ways, _)| *level == isolation && ways.contains(&way));
        of.map(|(_, _, end)| *end)
    }
}

#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case {
        row: "G0 dirty write (no reads before)",
        steps: "1 set 1 11; 2 set 1 12; 1 set 2 21; 1 commit; 3 read; 2 set 2 22; 2 commit; 3 read; 3 commit",
        ends: &[
            (RC, ALL, ". ~ . . 2:. 1=11,2=21 . . 1=12,2=22 . | 1=12,2=22"),
            (RR, ALL, ". ~ . . 2:. 1=11,2=21 . . 1=11,2=21 . | 1=12,2=22"),
            (SI, ALL, ". ~ . . 2:. 1=11,2=21 . . 1=11,2=21 . | 1=12,2=22"),
            (SER, ALL, ". ~ . . 2:. ~ . . 3:1=12,2=22 1=12,2=22 . | 1=12,2=22"),
        ],
    },
    Case {
        row: "G0 dirty write (no reads before), over a row that is rolled back",
        steps: "1 set 1 11; 2 add 1 5; 1 rollback; 2 commit",
        ends: &[
            (RC, ALL, ". ~ . 2:. . | 1=15,2=20"),
            (RR, ALL, ". ~ . 2:. . | 1=15,2=20"),
            (SI, ALL, ". ~ . 2:. . | 1=15,2=20"),
            (SER, ALL, ". ~ . 2:. . | 1=15,2=20"),
        ],
    },
    Case {
        row: "G0 dirty write (no reads before), behind a write of its own",
        steps: "1 set 2 21; 2 set 1 12; 2 commit; 1 set 1 13; 1 commit",
        ends: &[
            (RC, BY_KEYS, ". . . . . | 1=13,2=21"),
            (RC, WALKS, ". ~ . . 2:. 2:. | 1=12,2=21"),
            (RR, BY_KEYS, ". . . . . | 1=13,2=21"),
            (RR, WALKS, ". ~ . . 2:. 2:. | 1=12,2=21"),
            (SI, BY_KEYS, ". . . . . | 1=13,2=21"),
            (SI, WALKS, ". ~ . . 2:. 2:. | 1=12,2=21"),
            (SER, BY_KEYS, ". . . . . | 1=13,2=21"),
            (SER, WALKS, ". ~ . . 2:. 2:. | 1=12,2=21"),
        ],
    },
    Case {
        row: "G0 dirty write (no reads before), rows that are wanted and not",
        steps: "1 set 2 30; 1 set 1 20; 2 add =20 1; 1 commit; 2 commit",
        ends: &[
            (RC, BY_ROWS, ". . ~ . 2:. . | 1=21,2=30"),
            (RC, BY_INDEX, ". . ~ . 2:. . | 1=21,2=30"),
            // Row 1 did not match when it was met, and row 2 does not match under its lock.
            (RC, &[LastCommit], ". . ~ . 2:0 . | 1=20,2=30"),
            (RR, BY_ROWS, ". . ~ . 2:. . | 1=21,2=30"),
            (RR, BY_INDEX, ". . ~ . 2:. . | 1=21,2=30"),
            (SI, BY_ROWS, ". . ~ . 2:. . | 1=21,2=30"),
            (SI, BY_INDEX, ". . ~ . 2:. . | 1=21,2=30"),
            (SER, BY_ROWS, ". . ~ . 2:. . | 1=21,2=30"),
            (SER, BY_INDEX, ". . ~ . 2:. . | 1=21,2=30"),
        ],
    },
    Case {
        row: "G0 dirty write (no reads before), inserts",
        steps: "1 insert 3 30; 2 insert 4 30; 1 rollback; 2 commit",
        ends: &[
            (RC, &[Primary, Secondary, NoIndex, Backward, LastCommit], ". . . . | 1=10,2=20,4=30"),
            (RC, &[Unique], ". ~ . 2:. . | 1=10,2=20,4=30"),
            (RR, &[Primary, Secondary, NoIndex, Backward], ". . . . | 1=10,2=20,4=30"),
            (RR, &[Unique], ". ~ . 2:. . | 1=10,2=20,4=30"),
            (SI, &[Primary, Secondary, NoIndex, Backward], ". . . . | 1=10,2=20,4=30"),
            (SI, &[Unique], ". ~ . 2:. . | 1=10,2=20,4=30"),
            (SER, &[Primary, Secondary, NoIndex, Backward], ". . . . | 1=10,2=20,4=30"),
            (SER, &[Unique], ". ~ . 2:. . | 1=10,2=20,4=30"),
        ],
    },
    Case {
        row: "G1a aborted",
        steps: "1 set 1 101; 2 read; 1 rollback; 2 read; 2 commit",
        ends: &[
            (RC, ALL, ". 1=10,2=20 . 1=10,2=20 . | 1=10,2=20"),
            (RR, ALL, ". 1=10,2=20 . 1=10,2=20 . | 1=10,2=20"),
            (SI, ALL, ". 1=10,2=20 . 1=10,2=20 . | 1=10,2=20"),
            (SER, ALL, ". ~ . 2:1=10,2=20 1=10,2=20 . | 1=10,2=20"),
        ],
    },
    Case {
        row: "G1b intermediate",
        steps: "1 set 1 101; 2 read; 1 set 1 11; 1 commit; 2 read; 2 commit",
        ends: &[
            (RC, ALL, ". 1=10,2=20 . . 1=11,2=20 . | 1=11,2=20"),
            (RR, ALL, ". 1=10,2=20 . . 1=10,2=20 . | 1=11,2=20"),
            (SI, ALL, ". 1=10,2=20 . . 1=10,2=20 . | 1=11,2=20"),
            (SER, ALL, ". ~ . . 2:1=11,2=20 1=11,2=20 . | 1=11,2=20"),
        ],
    },
    Case {
        row: "G1c circular read",
        steps: "1 set 1 11; 2 set 2 22; 1 read 2; 2 read 1; 1 commit; 2 commit",
        ends: &[
            (RC, BY_KEYS, ". . 2=20 1=10 . . | 1=11,2=22"),
            (RC, WALKS, ". ~ 2=20 . 2:. 2:1=11 . | 1=11,2=22"),
            (RR, BY_KEYS, ". . 2=20 1=10 . . | 1=11,2=22"),
            (RR, WALKS, ". ~ 2=20 . 2:. 2:1=11 . | 1=11,2=22"),
            (SI, BY_KEYS, ". . 2=20 1=10 . . | 1=11,2=22"),
            (SI, WALKS, ". ~ 2=20 . 2:. 2:1=11 . | 1=11,2=22"),
            (SER, BY_KEYS, ". . ~ deadlock 1:2=20 . over | 1=11,2=20"),
            (SER, WALKS, ". ~ 2=20 . 2:. 2:1=11 . | 1=11,2=22"),
        ],
    },
    Case {
        row: "OTV observed transaction vanishes",
        steps: "1 set 1 11; 1 set 2 19; 2 set 1 12; 1 commit; 3 read 1; 2 set 2 18; 3 read 2; 2 commit; 3 read 2; 3 read 1; 3 commit",
        ends: &[
            (RC, ALL, ". . ~ . 2:. 1=11 . 2=19 . 2=18 1=12 . | 1=12,2=18"),
            (RR, ALL, ". . ~ . 2:. 1=11 . 2=19 . 2=19 1=11 . | 1=12,2=18"),
            (SI, ALL, ". . ~ . 2:. 1=11 . 2=19 . 2=19 1=11 . | 1=12,2=18"),
            (SER, ALL, ". . ~ . 2:. ~ . . 3:1=12 3:2=18 2=18 1=12 . | 1=12,2=18"),
        ],
    },
    Case {
        row: "PMP, read predicate",
        steps: "1 read =30; 2 insert 3 30; 2 commit; 1 read %3; 1 commit",
        ends: &[
            (RC, ALL, "- . . 3=30 . | 1=10,2=20,3=30"),
            (RR, ALL, "- . . - . | 1=10,2=20,3=30"),
            (SI, ALL, "- . . - . | 1=10,2=20,3=30"),
            (SER, ALL, "- ~ - . 2:. 2:. | 1=10,2=20,3=30"),
        ],
    },
    Case {
        row: "PMP, write predicate",
        steps: "1 add all 10; 2 read =20; 2 delete =20; 1 commit; 2 read =20; 2 commit",
        ends: &[
            (RC, ALL, "2 2=20 ~ . 2:. - . | 2=30"),
            (RR, ALL, "2 2=20 ~ . 2:. 2=20 . | 2=30"),
            (SI, ALL, "2 2=20 ~ . 2:conflict over over | 1=20,2=30"),
            (SER, ALL, "2 ~ . 2:1=20 2:. - . | 2=30"),
        ],
    },
    Case {
        row: "P4 lost update",
        steps: "1 read 1; 2 read 1; 1 set 1 11; 2 set 1 12; 1 commit; 2 commit",
        ends: &[
            (RC, ALL, "1=10 1=10 . ~ . 2:. . | 1=12,2=20"),
            (RR, ALL, "1=10 1=10 . ~ . 2:. . | 1=12,2=20"),
            (SI, ALL, "1=10 1=10 . ~ . 2:conflict over | 1=11,2=20"),
            (SER, ALL, "1=10 1=10 ~ deadlock 1:. . over | 1=11,2=20"),
        ],
    },
    Case {
        row: "P4 lost update, by locking reads",
        steps: "1 lock 1; 2 lock 1; 1 set 1 11; 1 commit; 2 set 1 12; 2 commit",
        ends: &[
            (RC, ALL, "1=10 ~ . . 2:1=11 . . | 1=12,2=20"),
            (RR, ALL, "1=10 ~ . . 2:1=11 . . | 1=12,2=20"),
            (SI, ALL, "1=10 ~ . . 2:1=11 . . | 1=12,2=20"),
            (SER, ALL, "1=10 ~ . . 2:1=11 . . | 1=12,2=20"),
        ],
    },
    Case {
        row: "P4 lost update, by reads that are shared",
        steps: "1 share 1; 2 share 1; 1 set 1 11; 2 set 1 12; 1 commit; 2 commit",
        ends: &[
            (RC, ALL, "1=10 1=10 ~ deadlock 1:. . over | 1=11,2=20"),
            (RR, ALL, "1=10 1=10 ~ deadlock 1:. . over | 1=11,2=20"),
            (SI, ALL, "1=10 1=10 ~ deadlock 1:. . over | 1=11,2=20"),
            (SER, ALL, "1=10 1=10 ~ deadlock 1:. . over | 1=11,2=20"),
        ],
    },
    Case {
        row: "G-single read skew, read-only",
        steps: "1 read 1; 2 read 1; 2 read 2; 2 set 1 12; 2 set 2 18; 2 commit; 1 read 2; 1 commit",
        ends: &[
            (RC, ALL, "1=10 1=10 2=20 . . . 2=18 . | 1=12,2=18"),
            (RR, ALL, "1=10 1=10 2=20 . . . 2=20 . | 1=12,2=18"),
            (SI, ALL, "1=10 1=10 2=20 . . . 2=20 . | 1=12,2=18"),
            (SER, ALL, "1=10 1=10 2=20 ~ 2=20 . 2:. 2:. 2:. | 1=12,2=18"),
        ],
    },
    Case {
        row: "G-single read skew, read-only, by predicates",
        steps: "1 read %5; 2 set 1 12; 2 commit; 1 read %3; 1 commit",
        ends: &[
            (RC, ALL, "1=10,2=20 . . 1=12 . | 1=12,2=20"),
            (RR, ALL, "1=10,2=20 . . - . | 1=12,2=20"),
            (SI, ALL, "1=10,2=20 . . - . | 1=12,2=20"),
            (SER, ALL, "1=10,2=20 ~ - . 2:. 2:. | 1=12,2=20"),
        ],
    },
    Case {
        row: "G-single, write predicate",
        steps: "1 read 1; 2 read; 2 set 1 12; 2 set 2 18; 2 commit; 1 delete =20; 1 read 2; 1 commit",
        ends: &[
            (RC, ALL, "1=10 1=10,2=20 . . . 0 2=18 . | 1=12,2=18"),
            (RR, ALL, "1=10 1=10,2=20 . . . 0 2=20 . | 1=12,2=18"),
            (SI, ALL, "1=10 1=10,2=20 . . . conflict over over | 1=12,2=18"),
            (SER, ALL, "1=10 1=10,2=20 ~ deadlock 2:. 2:. 2:. over over | 1=12,2=18"),
        ],
    },
    Case {
        row: "G2-item write skew",
        steps: "1 read 1; 1 read 2; 2 read 1; 2 read 2; 1 set 1 11; 2 set 2 21; 1 commit; 2 commit",
        ends: &[
            (RC, BY_KEYS, "1=10 2=20 1=10 2=20 . . . . | 1=11,2=21"),
            (RC, WALKS, "1=10 2=20 1=10 2=20 . ~ . 2:. . | 1=11,2=21"),
            (RR, BY_KEYS, "1=10 2=20 1=10 2=20 . . . . | 1=11,2=21"),
            (RR, WALKS, "1=10 2=20 1=10 2=20 . ~ . 2:. . | 1=11,2=21"),
            (SI, BY_KEYS, "1=10 2=20 1=10 2=20 . . . . | 1=11,2=21"),
            (SI, WALKS, "1=10 2=20 1=10 2=20 . ~ . 2:conflict over | 1=11,2=20"),
            (SER, ALL, "1=10 2=20 1=10 2=20 ~ deadlock 1:. . over | 1=11,2=20"),
        ],
    },
    Case {
        row: "G2 predicate write skew",
        steps: "1 read %3; 2 read %3; 1 insert 3 30; 2 insert 4 42; 1 commit; 2 commit",
        ends: &[
            (RC, ALL, "- - . . . . | 1=10,2=20,3=30,4=42"),
            (RR, ALL, "- - . . . . | 1=10,2=20,3=30,4=42"),
            (SI, ALL, "- - . . . . | 1=10,2=20,3=30,4=42"),
            (SER, ALL, "- - ~ deadlock 1:. . over | 1=10,2=20,3=30"),
        ],
    },
    Case {
        row: "Fekete's read-only anomaly",
        steps: "1 read; 2 add 2 5; 2 commit; 3 read; 3 commit; 1 set 1 0; 1 commit",
        ends: &[
            (RC, ALL, "1=10,2=20 . . 1=10,2=25 . . . | 1=0,2=25"),
            (RR, ALL, "1=10,2=20 . . 1=10,2=25 . . . | 1=0,2=25"),
            (SI, BY_KEYS, "1=10,2=20 . . 1=10,2=25 . . . | 1=0,2=25"),
            (SI, WALKS, "1=10,2=20 . . 1=10,2=25 . conflict over | 1=10,2=25"),
            (SER, &[Primary], "1=10,2=20 ~ ~ deadlock 2:. 2:. 3:1=10,2=25 3:. over | 1=10,2=25"),
            (SER, BY_INDEX, "1=10,2=20 ~ ~ deadlock 2:deadlock 2:over 3:1=10,2=20 3:. over | 1=10,2=20"),
            (SER, WALKS, "1=10,2=20 ~ ~ . . 2:. 2:. 3:1=0,2=25 3:. | 1=0,2=25"),
        ],
    },
    Case {
        row: "Fekete's read-only anomaly, by one that is said to read only",
        steps: "1 read; 2 add 2 5; 2 commit; 9 read; 9 commit; 1 set 1 0; 1 commit",
        ends: &[
            (RC, ALL, "1=10,2=20 . . 1=10,2=25 . . . | 1=0,2=25"),
            (RR, ALL, "1=10,2=20 . . 1=10,2=25 . . . | 1=0,2=25"),
            (SI, BY_KEYS, "1=10,2=20 . . 1=10,2=25 . . . | 1=0,2=25"),
            (SI, WALKS, "1=10,2=20 . . 1=10,2=25 . conflict over | 1=10,2=25"),
            // It locks nothing and waits for nothing, and sees what was committed so far, as if it
            // had come first.
            (SER, ALL, "1=10,2=20 ~ 1=10,2=20 . . . 2:. 2:. | 1=0,2=25"),
        ],
    },
    Case {
        row: "own writes mixed with others' after an update",
        steps: "1 read; 2 add 1 1; 2 set 2 22; 2 commit; 1 add 1 5; 1 read; 1 commit",
        ends: &[
            (RC, ALL, "1=10,2=20 . . . . 1=16,2=22 . | 1=16,2=22"),
            (RR, ALL, "1=10,2=20 . . . . 1=16,2=20 . | 1=16,2=22"),
            (SI, ALL, "1=10,2=20 . . . conflict over over | 1=11,2=22"),
            (SER, BY_ROWS, "1=10,2=20 ~ . 1=15,2=20 . 2:. 2:. 2:. | 1=16,2=22"),
            (SER, BY_INDEX, "1=10,2=20 ~ deadlock 2:. 2:. 2:. over over | 1=11,2=22"),
        ],
    },
    Case {
        row: "read skew inside a statement",
        steps: "1 begin; 1 read; 2 set 1 11; 2 commit; 1 read; 1 lock; 1 read 1; 1 begin; 1 read; 1 commit",
        ends: &[
            (RC, ALL, ". 1=10,2=20 . . 1=10,2=20 1=11,2=20 1=10 . 1=11,2=20 . | 1=11,2=20"),
            (RR, ALL, ". 1=10,2=20 . . 1=10,2=20 1=11,2=20 1=10 . 1=10,2=20 . | 1=11,2=20"),
            (SI, ALL, ". 1=10,2=20 . . 1=10,2=20 conflict over over over over | 1=11,2=20"),
            (SER, BY_ROWS, ". 1=10,2=20 ~ 1=10,2=20 1=10,2=20 1=10 . 1=10,2=20 . 2:. 2:. | 1=11,2=20"),
            (SER, BY_INDEX, ". 1=10,2=20 ~ 1=10,2=20 1=10,2=20 deadlock 2:. 2:. over over over | 1=11,2=20"),
        ],
    },
    Case {
        row: "own write over a newer row than a statement sees",
        steps: "1 begin; 1 read; 2 set 1 11; 2 commit; 1 add 1 5; 1 read 1; 1 read =10; 1 begin; 1 read; 1 commit",
        ends: &[
            (RC, &[Primary], ". 1=10,2=20 . . . 1=16 1=10 . 1=16,2=20 . | 1=16,2=20"),
            (RC, BY_INDEX, ". 1=10,2=20 . . . 1=16 - . 1=16,2=20 . | 1=16,2=20"),
            (RC, &[NoIndex, Backward, LastCommit], ". 1=10,2=20 . . . 1=10 1=10 . 1=16,2=20 . | 1=16,2=20"),
            (RR, &[Primary], ". 1=10,2=20 . . . 1=16 1=10 . 1=16,2=20 . | 1=16,2=20"),
            (RR, BY_INDEX, ". 1=10,2=20 . . . 1=16 - . 1=16,2=20 . | 1=16,2=20"),
            (RR, WALKS, ". 1=10,2=20 . . . 1=10 1=10 . 1=16,2=20 . | 1=16,2=20"),
            (SI, ALL, ". 1=10,2=20 . . conflict over over over over over | 1=11,2=20"),
            (SER, &[Primary], ". 1=10,2=20 ~ . 1=15 1=10 . 1=15,2=20 . 2:. 2:. | 1=11,2=20"),
            (SER, BY_INDEX, ". 1=10,2=20 ~ deadlock 2:. 2:. over over over over over | 1=11,2=20"),
            (SER, WALKS, ". 1=10,2=20 ~ . 1=10 1=10 . 1=15,2=20 . 2:. 2:. | 1=11,2=20"),
        ],
    },
];
