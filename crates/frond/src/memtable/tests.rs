//! The memtable against a model, and its guarantees one by one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
};

use proptest::prelude::*;

use super::*;
use crate::cache::FRAME_BYTES;

const TREE: TreeId = TreeId(7);
const PUT: Tag = Tag::PUT;
/// Miri is a few thousand times slower.
const MANY: u64 = if cfg!(miri) { 400 } else { 40_000 };

type Seen = Vec<(u64, Tag, Vec<u8>)>;
type ModelVersions = BTreeMap<u64, (Tag, Vec<u8>)>;
/// Key → seqno → message; and range deletes.
#[derive(Default, Debug)]
struct Model {
    keys: BTreeMap<Vec<u8>, ModelVersions>,
    ranges: Vec<(u64, Vec<u8>, Vec<u8>)>,
}

impl Model {
    fn put(&mut self, key: &[u8], seqno: u64, tag: Tag, payload: &[u8]) {
        let versions = self.keys.entry(key.to_vec()).or_default();
        versions.entry(seqno).or_insert((tag, payload.to_vec()));
    }

    fn cover(&self, key: &[u8], at: u64) -> Option<u64> {
        let covers = |(seqno, from, to): &&(u64, Vec<u8>, Vec<u8>)| {
            *seqno <= at && from.as_slice() <= key && key < to.as_slice()
        };
        self.ranges.iter().filter(covers).map(|range| range.0).max()
    }

    fn versions(&self, key: &[u8], at: u64) -> Seen {
        let all = self.keys.get(key).into_iter().flat_map(|versions| versions.range(..=at).rev());
        all.map(|(seqno, (tag, payload))| (*seqno, *tag, payload.clone())).collect()
    }

    fn get(&self, key: &[u8], at: u64) -> Seen {
        let cover = self.cover(key, at);
        let mut seen = self.versions(key, at);
        seen.retain(|(seqno, ..)| cover.is_none_or(|cover| *seqno >= cover));
        seen.extend(cover.map(|cover| (cover, Tag::DELETE, Vec::new())));
        seen
    }

    fn visible_keys(&self, at: u64) -> Vec<Vec<u8>> {
        let visible =
            |(_, versions): &(&Vec<u8>, &BTreeMap<u64, _>)| versions.range(..=at).next().is_some();
        self.keys.iter().filter(visible).map(|(key, _)| key.clone()).collect()
    }
}

fn memtable() -> Arc<Memtable> {
    Arc::new(Memtable::new(FramePool::new(64 << 20)))
}

fn put(memtable: &Memtable, key: &[u8], seqno: u64, payload: &[u8]) {
    memtable.insert(TREE, Seqno(seqno), [(key, PUT, payload)].into_iter());
}

fn get(memtable: &Memtable, key: &[u8], at: u64) -> Seen {
    let mut seen = Seen::new();
    memtable.get(TREE, key, Seqno(at), &mut |seqno, message| {
        seen.push((seqno.0, message.tag, message.payload.to_vec()));
        true
    });
    seen
}

fn forward(memtable: &Arc<Memtable>, at: u64) -> Vec<(Vec<u8>, Seen)> {
    let mut cursor = memtable.cursor(TREE, Seqno(at));
    cursor.seek_first();
    let mut rows = Vec::new();
    while let Some(key) = cursor.key() {
        rows.push((key.to_vec(), seen_at(&cursor)));
        cursor.next();
    }
    rows
}

fn seen_at(cursor: &MemCursor) -> Seen {
    cursor.versions().map(|(seqno, m)| (seqno.0, m.tag, m.payload.to_vec())).collect()
}

fn check(memtable: &Arc<Memtable>, model: &Model, at: u64) {
    let rows = forward(memtable, at);
    let keys: Vec<_> = rows.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, model.visible_keys(at));
    for (key, seen) in rows {
        assert_eq!(seen, model.versions(&key, at), "versions of {key:?} at {at}");
        assert_eq!(get(memtable, &key, at), model.get(&key, at), "get {key:?} at {at}");
    }
    let mut cursor = memtable.cursor(TREE, Seqno(at));
    cursor.seek_last();
    for key in keys.iter().rev() {
        assert_eq!(cursor.key(), Some(&key[..]), "backward");
        cursor.prev();
    }
    assert!(!cursor.is_valid());
}

/// Keys that collide, are prefixes of each other, and share long prefixes.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255)], 0..6),
        (0u32..400).prop_map(|n| format!("common/prefix/of/all/{n:05}").into_bytes()),
        (0u16..900).prop_map(|n| n.to_be_bytes().to_vec()),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(Vec<u8>, Vec<u8>)>),
    Again,
    DeleteRange(Vec<u8>, Vec<u8>),
    Attach(Vec<(Vec<u8>, Vec<u8>)>),
}

fn step() -> impl Strategy<Value = Step> {
    let rows = |n| prop::collection::vec((key(), prop::collection::vec(any::<u8>(), 0..20)), 1..n);
    prop_oneof![
        8 => rows(60).prop_map(Step::Insert),
        1 => Just(Step::Again),
        1 => (key(), key()).prop_map(|(from, to)| Step::DeleteRange(from, to)),
        1 => rows(200).prop_map(Step::Attach),
    ]
}

fn borrow(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> impl Iterator<Item = (&[u8], Tag, &[u8])> {
    rows.iter().map(|(key, payload)| (&key[..], PUT, &payload[..]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 96 }, ..ProptestConfig::default() })]

    /// The number of keys whose newest version is a value does not depend on the order in which
    /// commits arrive, or on how often. Rule: I51.
    #[test]
    fn rows_are_counted_in_any_order_of_arrival(
        commits in prop::collection::vec(
            (1u64..30, prop::collection::btree_map(0u8..8, any::<bool>(), 1..5)),
            1..if cfg!(miri) { 4 } else { 30 },
        ),
    ) {
        let memtable = memtable();
        let mut newest: BTreeMap<u8, (u64, bool)> = BTreeMap::new();
        let mut used = BTreeSet::new();
        for (seqno, keys) in commits {
            if !used.insert(seqno) {
                continue;
            }
            let keys: BTreeMap<[u8; 1], Tag> = keys
                .into_iter()
                .map(|(key, is_value)| ([key], if is_value { PUT } else { Tag::DELETE }))
                .collect();
            for _ in 0..2 {
                let entries = keys.iter().map(|(key, tag)| (&key[..], *tag, &b""[..]));
                memtable.insert(TREE, Seqno(seqno), entries);
            }
            for ([key], tag) in keys {
                let newest = newest.entry(key).or_default();
                *newest = (*newest).max((seqno, tag == PUT));
            }
        }
        let rows = newest.values().filter(|(_, is_value)| *is_value).count();
        let said = memtable.estimate(TREE, None, None).0;
        prop_assert!(said > 0.0, "there are versions");
        prop_assert_eq!(said.round() as usize, rows);
    }

    /// Rule: I2, I3, I6, I26
    #[test]
    fn any_arrival_order_gives_the_models_rows(
        steps in prop::collection::vec((step(), 1u64..40), 1..if cfg!(miri) { 6 } else { 60 }),
        probes in prop::collection::vec((key(), 0u64..45), 20),
    ) {
        let memtable = memtable();
        let mut model = Model::default();
        // A seqno is one commit: it touches a key once, and attaches or inserts.
        let mut used = BTreeSet::new();
        let mut last = None;
        for (step, seqno) in steps {
            if matches!(step, Step::Again) {
                if let Some((seqno, rows)) = &last {
                    memtable.insert(TREE, Seqno(*seqno), borrow(rows));
                }
                continue;
            }
            if !used.insert(seqno) {
                continue;
            }
            match step {
                Step::Insert(rows) => {
                    let rows: BTreeMap<_, _> = rows.into_iter().collect();
                    memtable.insert(TREE, Seqno(seqno), borrow(&rows));
                    rows.iter().for_each(|(key, payload)| model.put(key, seqno, PUT, payload));
                    last = Some((seqno, rows));
                }
                Step::Attach(rows) => {
                    let rows: BTreeMap<_, _> = rows.into_iter().collect();
                    let run = MemRun::build(FramePool::new(0), borrow(&rows));
                    let run = Arc::new(run);
                    memtable.attach(TREE, Seqno(seqno), run.clone());
                    memtable.attach(TREE, Seqno(seqno), run);
                    rows.iter().for_each(|(key, payload)| model.put(key, seqno, PUT, payload));
                }
                Step::DeleteRange(from, to) => {
                    memtable.delete_range(TREE, Seqno(seqno), &from, &to);
                    memtable.delete_range(TREE, Seqno(seqno), &from, &to);
                    if from < to {
                        model.ranges.push((seqno, from, to));
                    }
                }
                Step::Again => unreachable!("done above"),
            }
        }
        for at in [0, 7, 20, 40] {
            check(&memtable, &model, at);
        }
        let entries: usize = model.keys.values().map(BTreeMap::len).sum();
        prop_assert_eq!(memtable.entries(), entries + model.ranges.len());
        prop_assert_eq!(memtable.max_key(TREE), model.keys.keys().next_back().map(|key| &key[..]));
        prop_assert_eq!(memtable.min_key(TREE), model.keys.keys().next().map(|key| &key[..]));
        for (key, at) in probes {
            prop_assert_eq!(get(&memtable, &key, at), model.get(&key, at));
            let visible = model.visible_keys(at);
            let mut cursor = memtable.cursor(TREE, Seqno(at));
            let first_above = visible.partition_point(|other| *other < key);
            cursor.seek(&key);
            prop_assert_eq!(cursor.key(), visible.get(first_above).map(|key| &key[..]));
            prop_assert_eq!(cursor.cover().map(|seqno| seqno.0),
                cursor.key().and_then(|key| model.cover(key, at)));
            // Forth and back, across a turn.
            cursor.next();
            if cursor.is_valid() {
                cursor.prev();
                prop_assert_eq!(cursor.key(), visible.get(first_above).map(|key| &key[..]));
                cursor.prev();
                let before = first_above.checked_sub(1).map(|slot| &visible[slot][..]);
                prop_assert_eq!(cursor.key(), before);
                if cursor.is_valid() {
                    cursor.next();
                    prop_assert_eq!(cursor.key(), visible.get(first_above).map(|key| &key[..]));
                }
            }
            cursor.seek_below(&key);
            let below = first_above.checked_sub(1).map(|slot| &visible[slot][..]);
            prop_assert_eq!(cursor.key(), below);
            cursor.seek_for_prev(&key);
            let up_to = visible.partition_point(|other| *other <= key);
            prop_assert_eq!(cursor.key(), up_to.checked_sub(1).map(|slot| &visible[slot][..]));
        }
        let mut cursor = memtable.apply_cursor(TREE, LATEST);
        for (key, versions) in &model.keys {
            let row = cursor.next().expect("as many keys as the model");
            prop_assert_eq!(row.key, &key[..]);
            prop_assert_eq!(row.cover.map(|seqno| seqno.0), model.cover(key, u64::MAX));
            prop_assert!(row.versions.map(|(seqno, _)| seqno.0).eq(versions.keys().rev().copied()));
        }
        prop_assert!(cursor.next().is_none());
    }
}

/// Rule: I2
#[test]
fn versions_are_ordered_by_seqno_in_any_arrival_order() {
    let memtable = memtable();
    for seqno in [5, 9, 1, 7, 3, 8, 2] {
        put(&memtable, b"key", seqno, &[seqno as u8]);
    }
    let seqnos: Vec<_> = get(&memtable, b"key", 8).iter().map(|seen| seen.0).collect();
    assert_eq!(seqnos, [8, 7, 5, 3, 2, 1]);
    assert_eq!(get(&memtable, b"key", 0), []);
}

/// Rule: I3
#[test]
fn a_helper_that_inserts_again_changes_nothing() {
    let memtable = memtable();
    put(&memtable, b"key", 5, b"owner");
    put(&memtable, b"key", 6, b"later");
    put(&memtable, b"key", 5, b"helper");
    put(&memtable, b"key", 6, b"helper");
    let payloads: Vec<_> = get(&memtable, b"key", 9).into_iter().map(|seen| seen.2).collect();
    assert_eq!(payloads, [b"later".to_vec(), b"owner".to_vec()]);
    assert_eq!(memtable.entries(), 2);
}

/// Rule: I26
#[test]
fn a_range_delete_hides_older_versions_and_not_its_own_commit() {
    let memtable = memtable();
    put(&memtable, b"b", 1, b"old");
    memtable.delete_range(TREE, Seqno(4), b"a", b"c");
    put(&memtable, b"b", 4, b"same commit");
    put(&memtable, b"b", 3, b"late arrival of an older commit");
    let seqnos = |at| get(&memtable, b"b", at).iter().map(|seen| seen.0).collect::<Vec<_>>();
    assert_eq!(seqnos(3), [3, 1], "older readers see what was there");
    assert_eq!(seqnos(4), [4, 4], "the put, then the range delete as a Delete");
    assert_eq!(get(&memtable, b"absent", 9).len(), 1, "also for a key that is not here");
    assert_eq!(get(&memtable, b"c", 9), [], "the end is not deleted");
    assert_eq!(memtable.trees(), [TREE]);
}

#[test]
fn sorted_batches_ascending_and_random_keys_are_all_found() {
    let memtable = memtable();
    let mut model = Model::default();
    let mut state = 1u64;
    for seqno in 1..=MANY / 100 {
        let rows: BTreeMap<Vec<u8>, Vec<u8>> = (0..100)
            .map(|row| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let key = match seqno % 3 {
                    0 => [&[0; 9][..], &(state >> 40).to_be_bytes()].concat(),
                    1 => [b"ascending", &(seqno * 100 + row).to_be_bytes()[..]].concat(),
                    _ => (state >> 16).to_be_bytes().to_vec(),
                };
                (key, seqno.to_be_bytes().to_vec())
            })
            .collect();
        memtable.insert(TREE, Seqno(seqno), borrow(&rows));
        rows.iter().for_each(|(key, payload)| model.put(key, seqno, PUT, payload));
    }
    check(&memtable, &model, u64::MAX);
    assert_eq!(get(&memtable, b"ascendinf", u64::MAX), []);
}

#[test]
fn the_largest_keys_and_payloads_are_kept() {
    let memtable = memtable();
    let big = |byte: u8, bytes: usize| vec![byte; bytes];
    let keys = [big(1, crate::KEY_BYTES_MAX), big(1, crate::KEY_BYTES_MAX - 1), vec![], big(2, 9)];
    for (seqno, key) in (1..).zip(&keys) {
        put(&memtable, key, seqno, &big(9, 40_000 * seqno as usize));
        put(&memtable, key, seqno + 10, &big(8, 32_767));
        put(&memtable, key, seqno + 20, &big(7, 32_766));
    }
    for (seqno, key) in (1..).zip(&keys) {
        let lengths: Vec<_> =
            get(&memtable, key, 99).iter().map(|seen| (seen.0, seen.2.len())).collect();
        let expected =
            [(seqno + 20, 32_766), (seqno + 10, 32_767), (seqno, 40_000 * seqno as usize)];
        assert_eq!(lengths, expected);
    }
    assert!(memtable.bytes() > 400_000 + 4 * 65_000, "heap pieces are charged");
}

#[test]
fn thousands_of_tiny_trees_cost_little_and_are_listed() {
    let trees = MANY as u32 / 10;
    let pool = FramePool::new(0);
    let memtable = Memtable::new(pool.clone());
    for tree in 0..trees {
        let key = tree.to_be_bytes();
        memtable.insert(TreeId(tree * 3), Seqno(1), [(&key[..], PUT, &key[..])].into_iter());
    }
    assert_eq!(memtable.trees(), (0..trees).map(|tree| TreeId(tree * 3)).collect::<Vec<_>>());
    assert!(memtable.bytes() < trees as usize * 360 + 3 * FRAME_BYTES);
    assert!(memtable.max_key(TreeId(1)).is_none());
    drop(memtable);
    assert_eq!(pool.frames_used(), 0, "all memory returns");
}

#[test]
fn writers_in_parallel_lose_nothing_and_readers_see_whole_commits() {
    const WRITERS: u64 = if cfg!(miri) { 2 } else { 8 };
    let commits = MANY / WRITERS / 10;
    let memtable = memtable();
    // For each writer, the last seqno whose insert has returned.
    let done: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let keys_of = |seqno: u64| {
        let keys = (0..10u64).map(move |row| {
            // Half the keys are written by many commits, half are fresh.
            let n = if row % 2 == 0 { seqno % 97 } else { seqno };
            let scattered = (n * 16 + row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            [b"p".repeat((n % 3) as usize), scattered.to_be_bytes().to_vec()].concat()
        });
        keys.collect::<BTreeSet<_>>()
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (memtable, done) = (&memtable, &done[writer as usize]);
            scope.spawn(move || {
                for commit in 1..=commits {
                    let seqno = commit * WRITERS + writer;
                    let (keys, payload) = (keys_of(seqno), seqno.to_be_bytes());
                    let rows = keys.iter().map(|key| (&key[..], PUT, &payload[..]));
                    memtable.insert(TREE, Seqno(seqno), rows);
                    done.store(seqno, Ordering::Release);
                }
            });
        }
        for reader in 0..2 {
            let (memtable, done) = (&memtable, &done);
            scope.spawn(move || {
                let mut round = reader;
                while done.iter().any(|done| done.load(Ordering::Acquire) < commits * WRITERS) {
                    round += 1;
                    let seqno = done[round % done.len()].load(Ordering::Acquire);
                    if seqno == 0 {
                        std::thread::yield_now();
                        continue;
                    }
                    for key in keys_of(seqno) {
                        let seen = get(memtable, &key, seqno);
                        assert_eq!(
                            seen.first().map(|seen| seen.0),
                            Some(seqno),
                            "own version first"
                        );
                        assert!(seen.is_sorted_by(|a, b| a.0 > b.0), "newest first");
                        assert!(seen.iter().all(|seen| seen.2 == seen.0.to_be_bytes()));
                    }
                    if round % 16 == 0 {
                        let rows = forward(memtable, seqno);
                        assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "keys ascend");
                        let met: BTreeSet<_> = rows.iter().map(|row| &row.0).collect();
                        assert!(
                            keys_of(seqno).iter().all(|key| met.contains(key)),
                            "scan is whole"
                        );
                        let mut cursor = memtable.cursor(TREE, Seqno(seqno));
                        cursor.seek_last();
                        let mut last = cursor.key().map(<[u8]>::to_vec);
                        while let Some(above) = last {
                            cursor.prev();
                            last = cursor.key().map(<[u8]>::to_vec);
                            assert!(last.as_ref().is_none_or(|key| *key < above), "keys descend");
                        }
                    }
                }
            });
        }
    });
    let mut model = Model::default();
    for seqno in WRITERS..(commits + 1) * WRITERS {
        for key in keys_of(seqno) {
            model.put(&key, seqno, PUT, &seqno.to_be_bytes());
        }
    }
    check(&memtable, &model, u64::MAX);
    check(&memtable, &model, commits * WRITERS / 2);
}

/// Rule: I3
#[test]
fn two_threads_inserting_the_same_commits_leave_each_once() {
    let memtable = memtable();
    let commits = MANY / 40;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let memtable = &memtable;
            scope.spawn(move || {
                for seqno in 1..=commits {
                    let keys: BTreeSet<_> =
                        (0..8u64).map(|row| ((seqno * 8 + row) % 501).to_be_bytes()).collect();
                    let payload = seqno.to_be_bytes();
                    let rows = keys.iter().map(|key| (&key[..], PUT, &payload[..]));
                    memtable.insert(TREE, Seqno(seqno), rows);
                    memtable.delete_range(TREE, Seqno(seqno), &[0; 8], &[0; 9]);
                }
            });
        }
    });
    let rows = forward(&memtable, u64::MAX);
    let versions: usize = rows.iter().map(|row| row.1.len()).sum();
    assert_eq!(versions as u64, commits * 8);
    for (_, seen) in rows {
        assert!(seen.is_sorted_by(|a, b| a.0 > b.0), "each seqno once, newest first");
    }
    assert_eq!(memtable.entries() as u64, commits * 9, "eight keys and a range delete each");
}

/// Groups of keys that differ in their first bytes and in their last ones, so that nodes skip
/// common prefixes; commits of a few keys jump from one group to others.
#[test]
fn commits_from_one_end_of_a_tree_to_the_other_lose_nothing() {
    const GROUPS: u64 = 5;
    let (memtable, mut model) = (memtable(), Model::default());
    let key = |group: u64, number: u64| [group.to_be_bytes(), number.to_be_bytes()].concat();
    // A generator of its own, for the same keys each time.
    let mut state = 1_u64;
    let mut random = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for seqno in 1..=MANY / 8 {
        let keys: BTreeSet<_> =
            (0..2 + random(12)).map(|_| key(random(GROUPS), random(MANY))).collect();
        memtable.insert(TREE, Seqno(seqno), keys.iter().map(|key| (&key[..], PUT, &b"v"[..])));
        keys.iter().for_each(|key| model.put(key, seqno, PUT, b"v"));
    }
    check(&memtable, &model, MANY);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    let claims = claims! {
        "memtable: the next key is looked for in the parent of the last" =>
            commits_from_one_end_of_a_tree_to_the_other_lose_nothing,
        "memtable: newest version by arrival" => versions_are_ordered_by_seqno_in_any_arrival_order,
        "memtable: merged levels forget older range deletes" =>
            ranges::tests::levels_agree_with_a_list_at_every_seqno,
        "memtable: levels are merged by the stretches that are left" =>
            ranges::tests::nested_ranges_do_not_form_a_chain,
        "memtable: a helper adds range deletes again" =>
            ranges::tests::helpers_add_the_range_deletes_of_a_commit_once,
    };
    crate::plant::assert_claims_hold("memtable", claims);
}
