//! Tests of tier cutting: the slices together hold exactly what was put in.

use std::collections::BTreeMap;

use super::{
    super::{
        node::{Child, RunHandle, RunSlice},
        tests::{batch, context, key, tiny},
        *,
    },
    *,
};
use crate::{
    SizeClass,
    run::{EntrySource, RunCursor},
    sync::AtomicU64,
    types::{Lineage, VersionNumber},
};

/// Bytes at which a slice ends.
const RUN_BYTES: u64 = 300;

fn toss(random: &mut u64, end: u64) -> u64 {
    *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    (*random >> 33) % end
}

/// A level-1 node over leaves without rows.
fn node(children: u64) -> Node {
    let leaf = |_| Child::Leaf(RunHandle::placeholder(Lineage(1), VersionNumber(1)));
    Node {
        level: 1,
        pivots: (1..children).map(|n| key(n * 100).into()).collect(),
        children: (0..children).map(leaf).collect(),
        tiers: Vec::new(),
    }
}

type Rows = BTreeMap<Vec<u8>, (Tag, Vec<u8>)>;
type Ranges = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes the slices of a tier of a node, and fails if anything about them is wrong.
fn check_slices(cx: &TreeContext, children: u64, rows: &Rows, given: &Ranges) -> Vec<RunSlice> {
    let progress = AtomicU64::new(0);
    let traits = TreeTraits {
        lineage: Lineage(1),
        class: SizeClass::Fast,
        leaf_filters: false,
        schema: None,
    };
    let mut job = Job::new(cx, traits, VersionNumber(2), 16, &progress);
    let mut top = node(children);
    let tier = job.build_tier(&top, batch(rows.clone(), given.clone())).unwrap();
    let slices = tier.slices.clone();
    top.tiers.push(tier);
    assert_eq!(top.flaw(), None);
    let (mut found_rows, mut found_ranges) = (Rows::new(), Ranges::new());
    let longest = given.iter().map(|(from, to)| RangeDeletes::fragment_bytes(from, to)).max();
    for slice in &slices {
        let within = |from: &[u8], to: &[u8]| {
            slice.lo.as_deref().is_none_or(|lo| lo <= from)
                && slice.hi.as_deref().is_none_or(|hi| to <= hi)
        };
        let run = slice.run.open(cx).unwrap().clone();
        let mut bytes = 0;
        for (from, to) in run.range_deletes().iter() {
            assert!(
                within(from, to),
                "{from:?} to {to:?} lies beyond {:?}",
                (&slice.lo, &slice.hi)
            );
            bytes += RangeDeletes::fragment_bytes(from, to);
            found_ranges.push((from.to_vec(), to.to_vec()));
        }
        let bytes_max = RUN_BYTES as usize + longest.unwrap_or(0);
        assert!(bytes <= bytes_max, "{bytes} bytes of range deletes in a run");
        let mut cursor = RunCursor::bulk(run.clone());
        cursor.seek_first().unwrap();
        while let Some(entry) = EntrySource::entry(&cursor) {
            assert!(within(entry.key, entry.key), "an entry lies beyond its slice");
            found_rows.insert(entry.key.to_vec(), (entry.tag, entry.payload.to_vec()));
            cursor.advance().unwrap();
        }
        for (c, &live) in slice.live.iter().enumerate() {
            let (lo, hi) = top.child_range(c);
            let (lo, hi) = clip((lo, hi), (slice.lo.as_deref(), slice.hi.as_deref()));
            let some = run.range_deletes().meets(lo, hi) || run.bytes_between(lo, hi) > 0;
            let is_empty = lo.zip(hi).is_some_and(|(lo, hi)| lo >= hi);
            assert_eq!(live > 0, some && !is_empty, "child {c}");
        }
    }
    assert_eq!(&found_rows, rows);
    let [found, given] = [found_ranges, given.clone()].map(RangeDeletes::union);
    assert_eq!(found, given, "together they delete what was given");
    slices
}

/// Rule: I26. Rows and range deletes at random: few and many, short ones and some that span many
/// slices.
#[test]
pub(crate) fn parts_hold_the_rows_of_their_range_and_at_most_one_run() {
    let cx = context(Shape { run_bytes: RUN_BYTES, push_bytes: 200, ..tiny() });
    for seed in 0..200 {
        let mut random = seed;
        let mut rows = Rows::new();
        for _ in 0..toss(&mut random, 80) {
            let value = vec![b'v'; toss(&mut random, 30) as usize];
            rows.insert(key(toss(&mut random, 400)), (Tag::PUT, value));
        }
        let ranges = (0..toss(&mut random, 60)).map(|_| {
            let from = toss(&mut random, 400);
            let length = if toss(&mut random, 10) == 0 { 150 } else { 4 };
            (key(from), key(from + 1 + toss(&mut random, length)))
        });
        check_slices(&cx, 1 + seed % 4, &rows, &ranges.collect());
    }
}

/// Range deletes alone, enough for twenty runs.
#[test]
fn range_deletes_without_rows_are_cut() {
    let cx = context(Shape { run_bytes: RUN_BYTES, push_bytes: 1 << 20, ..tiny() });
    let ranges: Ranges = (0..120).map(|n| (key(3 * n), key(3 * n + 2))).collect();
    let slices = check_slices(&cx, 3, &Rows::new(), &ranges);
    assert!((15..=25).contains(&slices.len()), "{} slices", slices.len());
}

/// One range delete over many rows: each slice has the piece of it that lies in its range.
#[test]
pub(crate) fn a_range_delete_continues_in_each_part_it_covers() {
    let cx = context(Shape { run_bytes: RUN_BYTES, push_bytes: 1 << 20, ..tiny() });
    let rows: Rows = (0..100).map(|n| (key(4 * n + 2), (Tag::PUT, vec![b'v'; 20]))).collect();
    let slices = check_slices(&cx, 4, &rows, &vec![(key(1), key(500))]);
    assert!(slices.len() > 5);
    for slice in &slices {
        assert_eq!(slice.run.open(&cx).unwrap().range_deletes().len(), 1);
    }
}
