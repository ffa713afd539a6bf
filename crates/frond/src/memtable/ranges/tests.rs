//! Levels of range deletes against a list.

use proptest::prelude::*;

use super::*;
use crate::{
    TreeId,
    cache::FramePool,
    memtable::{LATEST, Memtable},
};

const TREE: TreeId = TreeId(3);

type Range = (Vec<u8>, Vec<u8>);

/// A model: all range deletes, in order of arrival.
#[derive(Default)]
struct List(Vec<(Seqno, Range)>);

impl List {
    fn cover(&self, key: &[u8], (above, at): (Seqno, Seqno)) -> Option<Seqno> {
        let covers = |(seqno, (from, to)): &&(Seqno, Range)| {
            above < *seqno && *seqno <= at && from.as_slice() <= key && key < to.as_slice()
        };
        self.0.iter().filter(covers).map(|(seqno, _)| *seqno).max()
    }
}

fn memtable() -> Memtable {
    Memtable::new(FramePool::new(64 << 20))
}

fn add(memtable: &Memtable, list: &mut List, seqno: u64, ranges: &[Range]) {
    let borrowed = || ranges.iter().map(|(from, to)| (&from[..], &to[..]));
    memtable.delete_ranges(TREE, Seqno(seqno), borrowed());
    list.0.extend(ranges.iter().map(|range| (Seqno(seqno), range.clone())));
}

/// Few enough keys that ranges overlap, touch and are equal.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        (0u8..40).prop_map(|n| vec![n]),
        (0u8..40).prop_map(|n| [b"a/common/prefix/", &[n][..]].concat()),
        prop::collection::vec(0u8..3, 0..4),
    ]
}

/// Commits that arrive nearly in the order of their seqnos, as those of several threads do.
fn commits() -> impl Strategy<Value = Vec<(u64, Vec<Range>)>> {
    let ranges = prop::collection::vec((key(), key()), 1..8);
    prop::collection::vec((ranges, 0u64..4), 1..60).prop_map(|commits| {
        let number =
            |(n, (ranges, late)): (usize, (Vec<Range>, u64))| (n as u64 * 2 + late, n, ranges);
        let mut ordered: Vec<_> = commits.into_iter().enumerate().map(number).collect();
        ordered.sort_by_key(|(place, ..)| *place);
        ordered.into_iter().map(|(_, n, ranges)| (n as u64 + 1, ranges)).collect()
    })
}

fn agrees(memtable: &Memtable, list: &List, keys: &[Vec<u8>], last: u64) {
    for at in (0..=last + 1).chain([LATEST.0]).map(Seqno) {
        for key in keys {
            let expected = list.cover(key, (Seqno(0), at));
            assert_eq!(memtable.cover(TREE, key, at), expected, "{key:?} at {at:?}");
        }
    }
}

/// The end keys of all ranges, and the key right after each.
fn probes(list: &List) -> Vec<Vec<u8>> {
    let ends = list.0.iter().flat_map(|(_, (from, to))| [from.clone(), to.clone()]);
    let mut keys: Vec<_> = ends.flat_map(|key| [[&key[..], &[0]].concat(), key]).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn check_against_list(commits: &[(u64, Vec<Range>)]) {
    let (memtable, mut list) = (memtable(), List::default());
    for (seqno, ranges) in commits {
        add(&memtable, &mut list, *seqno, ranges);
    }
    let (keys, last) = (probes(&list), commits.len() as u64);
    agrees(&memtable, &list, &keys, last);
    // What a batch takes: the range deletes of an interval of commits, all of theirs and no others.
    for (above, through) in [(0, u64::MAX), (0, last / 2), (last / 3, last / 2), (last / 2, last)] {
        let commits = (Seqno(above), Seqno(through));
        let found = memtable.range_deletes(TREE, commits);
        for key in &keys {
            let is_found = found.iter().any(|range| range.from <= &key[..] && &key[..] < range.to);
            assert_eq!(is_found, list.cover(key, commits).is_some(), "{key:?}, {commits:?}");
        }
    }
    let some = list.0.iter().any(|(_, (from, to))| from < to);
    assert_eq!(memtable.trees().is_empty(), !some);
    let memtable = Arc::new(memtable);
    for at in [1, last / 2, last] {
        let mut cursor = memtable.cursor(TREE, Seqno(at));
        cursor.seek_first();
        for pair in keys.windows(3) {
            let (lo, hi) = (&pair[0][..], &pair[2][..]);
            let inside = keys.iter().filter(|key| lo <= &key[..] && &key[..] < hi);
            let mut inside = inside.map(|key| list.cover(key, (Seqno(0), Seqno(at))));
            let deletes = inside.any(|cover| cover.is_some());
            assert!(!deletes || cursor.deletes_in(Some(lo), Some(hi)), "{lo:?} to {hi:?}");
        }
    }
}

/// Rules: I2, I26. Ranges that nest, that chain, and that are disjoint, read at each seqno.
#[test]
pub(in crate::memtable) fn levels_agree_with_a_list_at_every_seqno() {
    let key = |n: u64| n.to_be_bytes().to_vec();
    let shapes: [fn(u64) -> (u64, u64); 5] = [
        |n| (0, 10 + n),
        |n| (n, 200 - n),
        |n| (n, n + 5),
        |n| (10 * n, 10 * n + 3),
        |n| (n * 37 % 90, n * 37 % 90 + n % 40),
    ];
    for shape in shapes {
        let range = |n| {
            let (from, to) = shape(n);
            (key(from), key(to))
        };
        let commits: Vec<_> = (1..80).map(|n| (n, vec![range(n)])).collect();
        check_against_list(&commits);
    }
}

/// Rule: I3
#[test]
pub(in crate::memtable) fn helpers_add_the_range_deletes_of_a_commit_once() {
    let memtable = memtable();
    let ranges = [(&b"c"[..], &b"e"[..]), (b"a", b"b"), (b"x", b"x"), (b"b", b"c")];
    for _ in 0..3 {
        memtable.delete_ranges(TREE, Seqno(7), ranges.into_iter());
        memtable.delete_ranges(TREE, Seqno(8), ranges.into_iter());
    }
    assert_eq!(memtable.entries(), 6, "three of each commit; one deletes nothing");
    assert_eq!(memtable.cover(TREE, b"d", Seqno(7)), Some(Seqno(7)));
    assert_eq!(memtable.cover(TREE, b"d", LATEST), Some(Seqno(8)));
}

/// Many disjoint range deletes take few levels, and no more memory than they need.
#[test]
fn disjoint_range_deletes_keep_no_history() {
    let memtable = memtable();
    let count = 4000u64;
    for n in 0..count {
        let from = (n * 7919 % count).to_be_bytes();
        let to = [&from[..], b"~"].concat();
        memtable.delete_range(TREE, Seqno(n + 1), &from, &to);
    }
    let table = memtable.table(TREE).unwrap();
    let set = memtable.ranges.find(&table.ranges).unwrap();
    let levels = set.levels.load_full().unwrap();
    assert!(levels.len() <= 8, "{} levels", levels.len());
    let points: usize = levels.iter().map(|level| level.points()).sum();
    assert!(points <= 2 * count as usize);
    assert!(levels.iter().all(|level| level.merged.is_none()));
    let bytes: usize = levels.iter().map(|level| level.bytes).sum();
    assert_eq!(memtable.ranges.bytes(), bytes, "what is counted is what is held");
    assert_eq!(memtable.range_deletes(TREE, (Seqno(0), LATEST)).len(), count as usize);
}

/// "Everything before t", again and again: each range delete covers the previous ones. Old seqnos
/// are found in few steps.
#[test]
pub(in crate::memtable) fn nested_ranges_do_not_form_a_chain() {
    fn depth(level: &Level) -> usize {
        1 + level.merged.iter().flatten().map(|level| depth(level)).max().unwrap_or(0)
    }
    let memtable = memtable();
    // A chain of this length would still fit on the stack.
    let count = 1000u64;
    for n in 1..=count {
        memtable.delete_range(TREE, Seqno(n), &[], &n.to_be_bytes());
    }
    let table = memtable.table(TREE).unwrap();
    let levels = memtable.ranges.find(&table.ranges).unwrap().levels.load_full().unwrap();
    let deepest = levels.iter().map(|level| depth(level)).max().unwrap();
    assert!(levels.len() <= 7 && deepest <= 32, "{} levels, {deepest} deep", levels.len());
    let points: usize = levels.iter().map(|level| level.points()).sum();
    assert_eq!(points, 2 * levels.len(), "one stretch covers the others");
    for n in (0..count).step_by(7) {
        let key = n.to_be_bytes();
        assert_eq!(memtable.cover(TREE, &key, Seqno(n)), None, "{n}");
        assert_eq!(memtable.cover(TREE, &key, Seqno(n + 1)), Some(Seqno(n + 1)));
        assert_eq!(memtable.cover(TREE, &key, LATEST), Some(Seqno(count)));
    }
}

/// Rules: I2, I3. What readers see of a commit does not change while others push and merge.
#[test]
fn merges_do_not_change_what_readers_see_of_a_commit() {
    let memtable = memtable();
    let (threads, commits) = (3u64, if cfg!(miri) { 20 } else { 600 });
    let done = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (memtable, done) = (&memtable, &done);
            scope.spawn(move || {
                for n in 0..commits {
                    let seqno = Seqno(n * threads + thread + 1);
                    let keys = [seqno.0, seqno.0 + 50].map(u64::to_be_bytes);
                    let ends = keys.map(|key| [&key[..], b"~"].concat());
                    let ranges = || keys.iter().zip(&ends).map(|(from, to)| (&from[..], &to[..]));
                    memtable.delete_ranges(TREE, seqno, ranges());
                    memtable.delete_ranges(TREE, seqno, ranges());
                    for key in &keys {
                        assert_eq!(memtable.cover(TREE, key, seqno), Some(seqno), "own commit");
                    }
                }
                done.fetch_add(1, Ordering::Release);
            });
        }
        let memtable = &memtable;
        let done = &done;
        scope.spawn(move || {
            let mut seen = std::collections::BTreeMap::new();
            while done.load(Ordering::Acquire) < threads {
                for key in 1..commits {
                    let now = memtable.cover(TREE, &key.to_be_bytes(), LATEST);
                    let before = seen.insert(key, now).flatten();
                    assert!(now >= before, "key {key}: {before:?}, then {now:?}");
                }
            }
        });
    });
    assert_eq!(memtable.entries() as u64, threads * commits * 2);
    for seqno in 1..=threads * commits {
        let expected =
            if seqno > 50 { [Some(seqno - 50), Some(seqno)] } else { [None, Some(seqno)] };
        let cover = |at| memtable.cover(TREE, &seqno.to_be_bytes(), Seqno(at)).map(|seqno| seqno.0);
        assert_eq!([cover(seqno - 1), cover(u64::MAX)], expected);
    }
}

#[test]
fn distinct_numbers_have_distinct_places() {
    let mut places = std::collections::BTreeSet::new();
    for number in 1..10_000 {
        let (segment, at) = RangeSets::place(number);
        assert!(at < SETS_FIRST << segment && places.insert((segment, at)), "{number}");
    }
    assert!(RangeSets::place(u32::MAX).0 < SEGMENTS);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 128 }, ..ProptestConfig::default() })]

    /// Rules: I2, I26
    #[test]
    fn any_commits_in_any_order_agree_with_a_list(commits in commits()) {
        check_against_list(&commits);
    }
}
