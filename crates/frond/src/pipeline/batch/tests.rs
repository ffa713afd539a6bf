//! Tests of batches, each made from one tree's part of a memtable.

use super::*;
use crate::{
    cache::FramePool,
    run::{OPERATOR_APPEND, operands},
    tree::tests::{append, context, tiny},
};

const TREE: TreeId = TreeId(4);

fn memtable(commits: &[(u64, &[u8], (Tag, Vec<u8>))]) -> Arc<Memtable> {
    let table = Arc::new(Memtable::new(FramePool::new(1 << 20)));
    for (seqno, key, (tag, payload)) in commits {
        table.insert(TREE, Seqno(*seqno), std::iter::once((*key, *tag, &payload[..])));
    }
    table
}

fn put(value: &[u8]) -> (Tag, Vec<u8>) {
    (Tag::PUT, value.to_vec())
}

type Rows = Vec<(Vec<u8>, Tag, Vec<u8>)>;

/// All entries of the commits in (above, through].
fn rows(
    table: &Arc<Memtable>,
    above: u64,
    through: u64,
    cx: &TreeContext,
    below: &TreeRoot,
) -> Rows {
    let interval = (Seqno(above), Seqno(through));
    let mut batch = batch_of(table, TREE, interval, cx, below).unwrap().expect("it has something");
    let mut rows = Rows::new();
    while let Some(entry) = batch.source.entry() {
        assert!(batch.min_key.as_slice() <= entry.key && entry.key <= batch.max_key.as_slice());
        rows.push((entry.key.to_vec(), entry.tag, entry.payload.to_vec()));
        batch.source.advance().unwrap();
    }
    rows
}

/// Invariant 1, for the whole memtable and for intervals, as a spill takes them.
#[test]
fn versions_of_an_interval_fold_newest_over_older() {
    let cx = context(tiny());
    let table = memtable(&[
        (1, b"a", put(b"1")),
        (2, b"b", put(b"2")),
        (3, b"a", append(b"3")),
        (4, b"b", (Tag::DELETE, vec![])),
        (5, b"a", put(b"5")),
    ]);
    let row = |key: &[u8], tag, payload: &[u8]| (key.to_vec(), tag, payload.to_vec());
    let below = TreeRoot::default();
    let all = [row(b"a", Tag::PUT, b"5"), row(b"b", Tag::DELETE, b"")];
    assert_eq!(rows(&table, 0, 5, &cx, &below), all);
    let early = [row(b"a", Tag::PUT, b"13"), row(b"b", Tag::PUT, b"2")];
    assert_eq!(rows(&table, 0, 3, &cx, &below), early);
    let (tag, operand) = append(b"3");
    let middle = [row(b"a", tag, &operand), row(b"b", Tag::DELETE, b"")];
    assert_eq!(rows(&table, 2, 4, &cx, &below), middle, "what is below an interval is not known");
    assert!(batch_of(&table, TreeId(9), (Seqno(0), Seqno(5)), &cx, &below).unwrap().is_none());
}

/// Rule: I26.
#[test]
fn entries_under_a_newer_range_delete_are_omitted() {
    let cx = context(tiny());
    let table = memtable(&[(1, b"a", put(b"1")), (1, b"b", put(b"1")), (3, b"b", append(b"3"))]);
    table.delete_range(TREE, Seqno(2), b"a", b"z");
    let below = TreeRoot::default();
    let (tag, operand) = append(b"3");
    assert_eq!(rows(&table, 0, 3, &cx, &below), [(b"b".to_vec(), tag, operand)]);
    let batch = batch_of(&table, TREE, (Seqno(0), Seqno(3)), &cx, &below).unwrap().unwrap();
    assert!(batch.source.range_deletes().is_some_and(|ranges| ranges.covers(b"a")));
    assert_eq!((&batch.min_key[..], &batch.max_key[..]), (&b"a"[..], &b"z"[..]));
    drop(batch);
    let later = batch_of(&table, TREE, (Seqno(2), Seqno(3)), &cx, &below).unwrap().unwrap();
    assert!(later.source.range_deletes().is_none_or(RangeDeletes::is_empty), "it came before");
}

/// Invariant 3. Few operands travel as they are; many are folded into a value with what is below
/// them.
#[test]
fn many_operands_are_folded_with_the_value_below() {
    let mut shape = tiny();
    shape.blob_bytes = 25;
    let cx = context(shape);
    let progress = crate::sync::AtomicU64::new(0);
    let traits = crate::tree::TreeTraits {
        lineage: TREE.lineage(),
        class: Default::default(),
        leaf_filters: false,
        schema: None,
    };
    let mut job = crate::tree::Job::new(&cx, traits, crate::types::VersionNumber(1), 24, &progress);
    let rows_below = [(b"a".to_vec(), put(b"below")), (b"b".to_vec(), put(b"below"))];
    let below = || Ok(Some(crate::tree::tests::batch(rows_below.clone().into(), Vec::new())));
    let below = job.apply(&TreeRoot::default(), &below).unwrap();
    let mut commits = vec![(1, &b"b"[..], append(b"few"))];
    for seqno in 2..40 {
        commits.push((seqno, b"a", append(b"many")));
        commits.push((seqno, b"new", append(b"many")));
    }
    let table = memtable(&commits);
    let found = rows(&table, 0, 50, &cx, &below);
    let many = b"many".repeat(38);
    assert_eq!(found[0], (b"a".to_vec(), Tag::PUT, [&b"below"[..], &many].concat()));
    assert_eq!(found[1].1, Tag::MERGE);
    let few: Vec<_> = operands(&found[1].2).map(Result::unwrap).collect();
    assert_eq!(few, [(OPERATOR_APPEND, &b"few"[..])]);
    assert_eq!(found[2], (b"new".to_vec(), Tag::PUT, many));
}
