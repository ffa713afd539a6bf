//! Tests with a bad history of every kind, and the levels that forbid it: the table of `mod.rs`.

use super::{Anomaly::*, Call::*, *};

const LEVELS: [Isolation; 4] = [
    Isolation::ReadCommitted,
    Isolation::RepeatableRead,
    Isolation::Snapshot,
    Isolation::Serializable,
];

/// A history of committed transactions that all run concurrently; the calls of each have separate
/// numbers.
fn at_once(txns: &[&[Call]]) -> History {
    let txn = |(at, calls): (usize, &&[Call])| Txn {
        session: at as u32,
        isolation: Isolation::Serializable,
        begun: at as u64,
        ended: 100 + at as u64,
        outcome: Outcome::Committed,
        prepared: false,
        calls: (0..).zip(calls.iter().cloned()).collect(),
        undone: Vec::new(),
    };
    History { txns: txns.iter().enumerate().map(txn).collect(), restarts: Vec::new() }
}

/// A history of committed transactions that run one after another.
fn one_by_one(txns: &[&[Call]]) -> History {
    let mut history = at_once(txns);
    for (at, txn) in history.txns.iter_mut().enumerate() {
        (txn.begun, txn.ended) = (10 * at as u64, 10 * at as u64 + 5);
    }
    history
}

fn list(key: Key, seen: &[Number]) -> Call {
    List(key, seen.to_vec(), false)
}

fn register(key: Key, seen: impl Into<Option<Number>>) -> Call {
    Register(key, seen.into(), false)
}

/// Asserts that the anomaly is found at these levels, and at no others.
fn found_at(anomaly: Anomaly, history: &History, levels: &[Isolation]) {
    for level in LEVELS {
        let findings = history.as_level(level).check();
        let names: Vec<_> = findings.iter().map(|finding| finding.anomaly).collect();
        match levels.contains(&level) {
            true => assert!(names.contains(&anomaly), "{anomaly:?} at {level:?}: {findings:?}"),
            false => assert!(names.is_empty(), "{anomaly:?} at {level:?}: {findings:?}"),
        }
        assert!(findings.iter().all(|finding| !finding.story.is_empty()));
    }
}

const ALL: &[Isolation] = &LEVELS;
const FROM_REPEATABLE: &[Isolation] =
    &[Isolation::RepeatableRead, Isolation::Snapshot, Isolation::Serializable];
const FROM_SNAPSHOT: &[Isolation] = &[Isolation::Snapshot, Isolation::Serializable];
const SERIALIZABLE: &[Isolation] = &[Isolation::Serializable];

#[test]
fn valid_histories_have_no_findings() {
    let serial = one_by_one(&[
        &[Append(1, 1), Set(2, 2)],
        &[list(1, &[1]), Append(1, 3), list(1, &[1, 3]), register(2, 2), Set(2, 4), register(2, 4)],
        &[list(1, &[1, 3]), register(2, 4)],
    ]);
    found_at(Internal, &serial, &[]);
    // At these levels the transaction may see more than its snapshot has: what it has appended
    // itself.
    let rewritten = at_once(&[
        &[list(1, &[]), List(1, vec![1], true), Rewrite(1, vec![1, 2]), list(1, &[1, 2])],
        &[Append(1, 1)],
        &[list(1, &[1, 2])],
    ]);
    found_at(P4, &rewritten, FROM_SNAPSHOT);
    let beside = at_once(&[
        &[Append(1, 1), Append(2, 2)],
        &[list(1, &[]), list(2, &[])],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(GSingle, &beside, &[]);
}

#[test]
fn dirty_writes() {
    let history = at_once(&[
        &[Append(1, 1), Append(2, 2)],
        &[Append(1, 3), Append(2, 4)],
        &[list(1, &[1, 3]), list(2, &[4, 2])],
    ]);
    found_at(G0, &history, ALL);
}

#[test]
fn aborted_intermediate_and_invented_reads() {
    let mut aborted = at_once(&[&[Append(1, 1)], &[list(1, &[1])]]);
    aborted.txns[0].outcome = Outcome::Aborted;
    found_at(G1a, &aborted, ALL);
    let mut aborted = at_once(&[&[Set(1, 1)], &[register(1, 1)]]);
    aborted.txns[0].outcome = Outcome::Aborted;
    found_at(G1a, &aborted, ALL);
    let mut undone = at_once(&[&[Append(1, 1)], &[list(1, &[2, 1])]]);
    undone.txns[0].undone.push(2);
    found_at(G1a, &undone, ALL);
    let intermediate =
        at_once(&[&[Append(1, 1), Append(1, 2)], &[list(1, &[1])], &[list(1, &[1, 2])]]);
    found_at(G1b, &intermediate, ALL);
    let intermediate = at_once(&[&[Set(1, 1), Set(1, 2)], &[register(1, 1)]]);
    found_at(G1b, &intermediate, ALL);
    found_at(Unwritten, &at_once(&[&[list(1, &[7])]]), ALL);
}

#[test]
fn circular_information_flow() {
    let lists = at_once(&[&[Append(1, 1), list(2, &[2])], &[Append(2, 2), list(1, &[1])]]);
    found_at(G1c, &lists, ALL);
    let registers = at_once(&[&[Set(1, 1), register(2, 2)], &[Set(2, 2), register(1, 1)]]);
    found_at(G1c, &registers, ALL);
    let with_locks = at_once(&[
        &[Append(1, 1), List(2, vec![2], true)],
        &[Append(2, 2), List(1, vec![1], true)],
    ]);
    found_at(G1c, &with_locks, ALL);
}

#[test]
fn read_skew() {
    // The later call sees more: each call has a moment of its own.
    let forward = at_once(&[
        &[list(1, &[]), list(2, &[2])],
        &[Append(1, 1), Append(2, 2)],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(GSingle, &forward, FROM_REPEATABLE);
    // The later call sees less: no moments explain that.
    let backward = at_once(&[
        &[list(2, &[2]), list(1, &[])],
        &[Append(1, 1), Append(2, 2)],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(GSingle, &backward, ALL);
    let registers = at_once(&[
        &[Set(1, 1), Set(2, 2)],
        &[register(1, 1), register(2, 2), Set(1, 3), Set(2, 4)],
        &[register(1, 1), register(2, 4)],
    ]);
    found_at(GSingle, &registers, FROM_REPEATABLE);
    // A value read with a lock does not change, whatever the level.
    let with_locks = at_once(&[
        &[List(1, vec![], true), List(2, vec![2], true)],
        &[Append(1, 1), Append(2, 2)],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(GSingle, &with_locks, ALL);
    // A transaction sees a list to which it has appended as it will leave it, and other lists as of
    // its snapshot.
    let own = at_once(&[
        &[list(1, &[]), Append(2, 9), list(2, &[2, 9])],
        &[Append(1, 1), Append(2, 2)],
        &[list(1, &[1]), list(2, &[2, 9])],
    ]);
    found_at(GSingle, &own, FROM_SNAPSHOT);
}

#[test]
fn lost_updates() {
    let registers =
        at_once(&[&[Set(1, 1)], &[register(1, 1), Set(1, 2)], &[register(1, 1), Set(1, 3)]]);
    found_at(P4, &registers, FROM_SNAPSHOT);
    let lists = at_once(&[
        &[list(1, &[]), Append(1, 1)],
        &[list(1, &[]), Append(1, 2)],
        &[list(1, &[1, 2])],
    ]);
    found_at(P4, &lists, FROM_SNAPSHOT);
    let with_locks = at_once(&[
        &[List(1, vec![], true), Append(1, 1)],
        &[List(1, vec![], true), Append(1, 2)],
        &[list(1, &[1, 2])],
    ]);
    found_at(P4, &with_locks, ALL);
}

#[test]
fn long_forks() {
    let forward = at_once(&[
        &[Append(1, 1)],
        &[Append(2, 2)],
        &[list(2, &[]), list(1, &[1])],
        &[list(1, &[]), list(2, &[2])],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(GNonadjacent, &forward, FROM_REPEATABLE);
    let backward = at_once(&[
        &[Append(1, 1)],
        &[Append(2, 2)],
        &[list(1, &[1]), list(2, &[])],
        &[list(2, &[2]), list(1, &[])],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(GNonadjacent, &backward, ALL);
}

#[test]
fn write_skew() {
    let lists = at_once(&[
        &[list(1, &[]), Append(2, 2)],
        &[list(2, &[]), Append(1, 1)],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(G2, &lists, SERIALIZABLE);
    let with_locks = at_once(&[
        &[List(1, vec![], true), Append(2, 2)],
        &[List(2, vec![], true), Append(1, 1)],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    found_at(G2, &with_locks, ALL);
}

#[test]
fn own_writes() {
    found_at(Internal, &at_once(&[&[Append(1, 1), list(1, &[])]]), ALL);
    found_at(Internal, &at_once(&[&[Set(1, 1), register(1, None)]]), ALL);
    let more = at_once(&[&[list(1, &[1]), Append(1, 1)]]);
    assert!(!more.check().is_empty(), "its own before it wrote it");
}

#[test]
fn lists_in_two_orders_and_lost_writes() {
    let orders =
        at_once(&[&[Append(1, 1)], &[Append(1, 2)], &[list(1, &[1, 2])], &[list(1, &[2])]]);
    found_at(Order, &orders, ALL);
    found_at(Lost, &one_by_one(&[&[Append(1, 1)], &[list(1, &[])]]), ALL);
    // A transaction that began later sees it, in real time.
    let stale = one_by_one(&[&[Set(1, 1)], &[register(1, 1), Set(1, 2)], &[register(1, 1)]]);
    found_at(GSingle, &stale, ALL);
}

#[test]
fn commits_unknown_at_a_power_cut_must_survive_whole_or_not_at_all() {
    let cut = |history: &mut History| {
        history.restarts.push(50);
        history.txns[0].outcome = Outcome::Unknown;
        let last = history.txns.last_mut().unwrap();
        (last.begun, last.ended) = (60, 70);
        for txn in &mut history.txns[1..] {
            txn.ended = txn.ended.min(40);
        }
    };
    let unknown: &[Call] = &[Append(1, 1), Append(2, 2)];
    // Completely there or not at all, although a reader had seen it: both are legal.
    for seen in [[&[1][..], &[2]], [&[], &[]]] {
        let mut history =
            at_once(&[unknown, &[list(1, &[1])], &[list(1, seen[0]), list(2, seen[1])]]);
        cut(&mut history);
        history.txns[2].ended = 70;
        found_at(Lost, &history, &[]);
    }
    let mut in_part = at_once(&[unknown, &[list(1, &[1]), list(2, &[])]]);
    cut(&mut in_part);
    (in_part.txns[0].ended, in_part.txns[1].ended) = (45, 70);
    found_at(Lost, &in_part, ALL);
    // A write that follows a lost one must be lost, too.
    let mut holes =
        at_once(&[unknown, &[list(1, &[1]), Append(3, 3)], &[list(1, &[]), list(3, &[3])]]);
    cut(&mut holes);
    holes.txns[2].ended = 70;
    assert!(!holes.check().is_empty());
}

/// A history whose first transaction has ended before the others begin.
fn after_first(txns: &[&[Call]]) -> History {
    let mut history = at_once(txns);
    history.txns[0].ended = 0;
    history
}

#[test]
fn a_deletion_is_a_version() {
    let base: &[Call] = &[Set(1, 1), Set(2, 2)];
    let lost = after_first(&[base, &[register(1, 1), Delete(1, 3)], &[register(1, 1), Set(1, 4)]]);
    found_at(P4, &lost, FROM_SNAPSHOT);
    let skew = after_first(&[
        base,
        &[register(1, 1), register(2, 2), Delete(2, 3)],
        &[register(1, 1), register(2, 2), Delete(1, 4)],
    ]);
    found_at(G2, &skew, SERIALIZABLE);
    let both: &[Call] = &[register(1, 1), register(2, 2), Delete(1, 3), Delete(2, 4)];
    let forward = after_first(&[base, both, &[register(1, 1), register(2, None)]]);
    found_at(GSingle, &forward, FROM_REPEATABLE);
    let backward = after_first(&[base, both, &[register(2, None), register(1, 1)]]);
    found_at(GSingle, &backward, ALL);
    let intermediate = after_first(&[
        base,
        &[register(1, 1), Delete(1, 3), Set(1, 4), register(1, 4)],
        &[register(1, None)],
    ]);
    found_at(Lost, &intermediate, ALL);
    found_at(Internal, &at_once(&[&[Set(1, 1), Delete(1, 2), register(1, 1)]]), ALL);
    // A value that was overwritten or deleted long ago is seen again.
    let stale = [base, &[register(1, 1), Delete(1, 3)], &[register(1, 1)]];
    found_at(GSingle, &one_by_one(&stale), ALL);
    let gone = [base, &[register(1, None)]];
    found_at(Lost, &one_by_one(&gone), ALL);
    let round_trips = [base, &[register(1, 1), Delete(1, 3)], &[register(1, None), Set(1, 4)]];
    let stale = one_by_one(&[&round_trips[..], &[&[register(1, None)]]].concat());
    found_at(Lost, &stale, ALL);
    found_at(Lost, &one_by_one(&[&round_trips[..], &[&[register(1, 4)]]].concat()), &[]);
}

/// A read proves nothing if the deletion that it saw may be one of two.
#[test]
fn a_read_of_an_ambiguous_deletion_proves_nothing() {
    let two = after_first(&[
        &[Set(1, 1)],
        &[register(1, 1), Delete(1, 2)],
        &[register(1, None), Set(1, 3)],
        &[register(1, 3), Delete(1, 4)],
        &[register(1, None), Set(1, 5)],
    ]);
    found_at(P4, &two, &[]);
}

#[test]
fn two_successful_checked_inserts_of_a_key_are_a_lost_update() {
    let insert = |number| [Register(1, None, true), Set(1, number)];
    found_at(P4, &at_once(&[&insert(1), &insert(2)]), ALL);
    found_at(P4, &one_by_one(&[&insert(1), &[register(1, 1)]]), &[]);
}

#[test]
fn unlocked_reads_of_locked_rows_are_checked() {
    let mut aborted = at_once(&[&[Set(1, 1)], &[Glimpse(1, Some(1))]]);
    aborted.txns[0].outcome = Outcome::Aborted;
    found_at(G1a, &aborted, ALL);
    let circle = at_once(&[&[Set(1, 1), Glimpse(2, Some(2))], &[Set(2, 2), Glimpse(1, Some(1))]]);
    found_at(G1c, &circle, ALL);
    // A glimpse may be newer than the snapshot; only `Serializable`, which locks what it reads,
    // forbids that.
    let newer = at_once(&[&[Set(1, 1), Set(2, 2)], &[register(1, None), Glimpse(2, Some(2))]]);
    found_at(GSingle, &newer, SERIALIZABLE);
    let late = one_by_one(&[&[Set(1, 1)], &[register(1, 1), Set(1, 2)], &[Glimpse(1, Some(1))]]);
    found_at(GSingle, &late, ALL);
}

/// One scan finds a row and, through an index, an older version of it.
#[test]
fn an_index_that_disagrees_with_its_rows_is_found() {
    let mut history = after_first(&[
        &[Set(1, 1)],
        &[register(1, 1), Set(1, 2)],
        &[register(1, 2), register(1, 1)],
    ]);
    history.txns[2].calls.iter_mut().for_each(|(number, _)| *number = 0);
    found_at(GSingle, &history, ALL);
}

/// Between the prepare and the commit others may write what was only read, except at
/// `Serializable`.
#[test]
fn a_prepare_releases_read_locks() {
    let mut history = at_once(&[
        &[List(1, vec![], true), Append(2, 2)],
        &[List(2, vec![], true), Append(1, 1)],
        &[list(1, &[1]), list(2, &[2])],
    ]);
    history.txns[0].prepared = true;
    found_at(G2, &history, SERIALIZABLE);
    let mut written =
        at_once(&[&[Register(1, None, true), Set(1, 1)], &[Register(1, None, true), Set(1, 2)]]);
    written.txns[0].prepared = true;
    found_at(P4, &written, ALL);
}

/// A prepared transaction that is decided after a restart is like any other.
#[test]
fn a_prepared_transaction_is_visible_whole_or_not_at_all() {
    let prepared: &[Call] = &[Append(1, 1), Append(2, 2)];
    let mut history = one_by_one(&[prepared, &[list(1, &[]), list(2, &[2])]]);
    history.restarts.push(3);
    found_at(Lost, &history, ALL);
    history.txns[0].outcome = Outcome::Aborted;
    found_at(G1a, &history, ALL);
}
