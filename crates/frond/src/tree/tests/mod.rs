//! A tree alone, without log, memtables or checkpoints: batches are applied to it and to a map, and
//! it must equal the map in any shape; its nodes keep their invariants, and its jobs count every
//! reference.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use super::{node::Bound, *};
use crate::{
    Result, SizeClass,
    cache::{BlockCache, FramePool},
    io::{Env, MemoryVfs},
    message::Tag,
    run::{Entry, EntrySource, OPERATOR_APPEND, Operators, RangeDeletes, put_operand},
    store::{self, StoreOptions},
    sync::{Arc, AtomicU64, Ordering},
    types::{Lineage, VersionNumber},
};

mod edges;
mod sealing;

const LINE: Lineage = Lineage(1);

/// The context of jobs, on a store in memory.
pub(crate) fn context(shape: Shape) -> TreeContext {
    let env = Env { vfs: Arc::new(MemoryVfs::new()), ..Env::real() };
    let opened = store::create(&env, Path::new("/store"), StoreOptions::default()).unwrap();
    let pool = FramePool::new(64 << 20);
    TreeContext {
        store: Arc::new(opened.store),
        cache: BlockCache::new(pool.clone(), 16 << 20),
        pool,
        operators: Arc::new(Operators::new()),
        shape,
        counters: TreeCounters::default(),
        work: None,
        descriptors: Descriptors::default(),
        damage: Default::default(),
        unwritten: Arc::default(),
        unwritten_max: AtomicU64::new(u64::MAX),
        resident: Arc::default(),
    }
}

/// Small enough that a few hundred keys make a tree of several levels.
pub(crate) fn tiny() -> Shape {
    Shape {
        leaf_bytes: 256,
        fanout_max: 4,
        push_bytes: 128,
        block_bytes: 64,
        run_bytes: 256,
        tiers_max: 2,
        tiers_max_bottom: 2,
        ..Shape::default()
    }
}

pub(crate) fn append(operand: &[u8]) -> (Tag, Vec<u8>) {
    let mut payload = Vec::new();
    put_operand(&mut payload, OPERATOR_APPEND, operand);
    (Tag::MERGE, payload)
}

type Message = (Tag, Vec<u8>);

/// Messages in order.
struct Sorted {
    entries: Vec<(Vec<u8>, Message)>,
    at: usize,
    ranges: RangeDeletes,
}

impl EntrySource for Sorted {
    fn entry(&self) -> Option<Entry<'_>> {
        let (key, (tag, payload)) = self.entries.get(self.at)?;
        Some(Entry { key, tag: *tag, payload })
    }

    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        Ok(())
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.at = self.at.max(self.entries.partition_point(|(own, _)| own.as_slice() < key));
        Ok(())
    }

    fn range_deletes(&self) -> Option<&RangeDeletes> {
        Some(&self.ranges)
    }
}

pub(crate) fn batch(
    entries: BTreeMap<Vec<u8>, Message>,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
) -> Batch<'static> {
    let ends = ranges.iter().flat_map(|(from, to)| [from, to]);
    let keys: Vec<&Vec<u8>> = entries.keys().chain(ends).collect();
    let min_key = keys.iter().min().map_or(Vec::new(), |key| key.to_vec());
    let max_key = keys.iter().max().map_or(Vec::new(), |key| key.to_vec());
    let bytes = entries.iter().map(|(key, (_, payload))| (key.len() + payload.len()) as u64).sum();
    let entries = entries.into_iter().collect();
    let ranges = RangeDeletes::union(ranges);
    Batch { source: Box::new(Sorted { entries, at: 0, ranges }), min_key, max_key, bytes }
}

struct House {
    cx: TreeContext,
    root: TreeRoot,
    publish: u64,
    /// Reference counts as jobs report them; the handles keep addresses from being reused.
    refs: HashMap<usize, (Arc<RunHandle>, i64)>,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    progress: AtomicU64,
}

impl House {
    fn new(shape: Shape) -> Self {
        Self {
            cx: context(shape),
            root: TreeRoot::default(),
            publish: 0,
            refs: HashMap::new(),
            model: BTreeMap::new(),
            progress: AtomicU64::new(0),
        }
    }

    /// Runs a job of one version.
    fn job<T>(&mut self, leaf_fill: u64, work: impl FnOnce(&mut Job<'_>, &TreeRoot) -> T) -> T {
        self.publish += 1;
        let traits =
            TreeTraits { lineage: LINE, class: SizeClass::Fast, leaf_filters: false, schema: None };
        let mut job =
            Job::new(&self.cx, traits, VersionNumber(self.publish), leaf_fill, &self.progress);
        let done = work(&mut job, &self.root);
        let changed = std::mem::take(&mut job.effects.run_refs);
        self.count(changed);
        done
    }

    fn count(&mut self, changed: Vec<(Arc<RunHandle>, i64)>) {
        for (run, delta) in changed {
            self.refs.entry(Arc::as_ptr(&run) as usize).or_insert((run, 0)).1 += delta;
        }
    }

    fn apply(&mut self, entries: BTreeMap<Vec<u8>, Message>, ranges: Vec<(Vec<u8>, Vec<u8>)>) {
        for (from, to) in &ranges {
            self.model.retain(|key, _| key < from || key >= to);
        }
        for (key, (tag, payload)) in &entries {
            match *tag {
                Tag::DELETE => drop(self.model.remove(key)),
                Tag::MERGE => {
                    let value = self.model.entry(key.clone()).or_default();
                    crate::run::operands(payload)
                        .for_each(|o| value.extend_from_slice(o.unwrap().1));
                }
                _ => drop(self.model.insert(key.clone(), payload.clone())),
            }
        }
        let batches = || Ok(Some(batch(entries.clone(), ranges.clone())));
        self.root = self.job(24, |job, old| job.apply(old, &batches)).unwrap();
    }

    /// Drains to the end; returns the number of steps.
    fn drain(&mut self) -> u32 {
        let mut steps = 0;
        while let Some(root) = self.job(0, |job, old| job.drain(old)).unwrap() {
            self.root = root;
            steps += 1;
            assert!(steps < 10_000, "a drain comes to an end");
        }
        steps
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut versions = Vec::new();
        self.root
            .get(&self.cx, key, &mut |lookup| {
                let message = lookup.message();
                versions.push((message.tag, message.payload.to_vec()));
                Ok(())
            })
            .unwrap();
        let folder = self.cx.folder();
        let versions = versions.iter();
        let versions = versions.map(|(tag, payload)| crate::message::Message::new(*tag, payload));
        let (mut value, mut spare) = (Vec::new(), Vec::new());
        match folder.fold_versions(versions, true, &mut value, &mut spare).unwrap()? {
            Tag::DELETE => None,
            Tag::MERGE => {
                let mut settled = Vec::new();
                folder.apply(false, &value, &mut settled).unwrap();
                Some(settled)
            }
            _ => Some(value),
        }
    }

    /// Checks nodes, levels, ranges and references.
    fn assert_sound(&self) {
        let mut found: HashMap<usize, i64> = HashMap::new();
        match &self.root.root {
            Root::Empty => {}
            Root::Leaf(leaf) => drop(found.insert(Arc::as_ptr(leaf) as usize, 1)),
            Root::Node(node) => self.walk(node, None, (None, None), &mut found),
        }
        let counted = self.refs.values().filter(|(_, refs)| *refs != 0);
        let counted: HashMap<usize, i64> =
            counted.map(|(run, refs)| (Arc::as_ptr(run) as usize, *refs)).collect();
        assert_eq!(found, counted, "Rule I21");
        let walked = match &self.root.root {
            Root::Node(node) => sums_below(&self.cx, node).unwrap(),
            _ => self.root.known_sums().unwrap(),
        };
        assert_eq!(self.root.known_sums(), Some(walked), "sums.rs, invariant 1");
        assert_eq!(walked.unmeasured, 0);
        if let Some((last, _)) = self.model.last_key_value() {
            assert!(
                self.root.max_key.as_ref().is_none_or(|max| max >= last),
                "no key is above the maximum"
            );
        }
    }

    fn walk(
        &self,
        node: &Arc<NodeRef>,
        level: Option<u8>,
        (lo, hi): (Bound, Bound),
        found: &mut HashMap<usize, i64>,
    ) {
        let node = node.load(&self.cx).unwrap();
        assert_eq!(node.flaw(), None);
        assert!(level.is_none_or(|level| level == node.level), "one level below its parent");
        assert!(
            node.children.len() <= self.cx.shape.fanout_max,
            "{} children",
            node.children.len()
        );
        let within = |pivot: &[u8]| {
            lo.as_deref().is_none_or(|lo| lo < pivot) && hi.as_deref().is_none_or(|hi| pivot < hi)
        };
        assert!(node.pivots.iter().all(|pivot| within(pivot)), "pivots lie within the node");
        for run in node.run_refs().filter(|run| !run.is_placeholder()) {
            *found.entry(Arc::as_ptr(run) as usize).or_default() += 1;
        }
        for (c, child) in node.children.iter().enumerate() {
            if let Child::Node(child) = child {
                let (from, to) = node.child_range(c);
                let bound = |own: Option<&[u8]>, outer: &Bound| {
                    own.map(Box::from).or_else(|| outer.clone())
                };
                let range = (bound(from, &lo), bound(to, &hi));
                self.walk(child, Some(node.level - 1), range, found);
            }
        }
    }

    fn assert_is_the_model(&self) {
        self.assert_sound();
        for n in 0..KEYS {
            assert_eq!(self.get(&key(n)), self.model.get(&key(n)).cloned(), "key {n}");
        }
    }

    /// The runs that wait in buffers.
    fn waiting_runs(&self) -> Vec<Arc<crate::run::Run>> {
        let mut runs = Vec::new();
        let mut nodes = match &self.root.root {
            Root::Node(node) => vec![node.clone()],
            _ => Vec::new(),
        };
        while let Some(node) = nodes.pop() {
            let node = node.load(&self.cx).unwrap();
            let slices = node.tiers.iter().flat_map(|tier| &tier.slices);
            runs.extend(slices.map(|slice| slice.run.open(&self.cx).unwrap().clone()));
            nodes.extend(node.children.iter().filter_map(|child| match child {
                Child::Node(child) => Some(child.clone()),
                Child::Leaf(_) => None,
            }));
        }
        runs
    }

    fn depth(&self) -> u8 {
        match &self.root.root {
            Root::Node(node) => node.load(&self.cx).unwrap().level,
            _ => 0,
        }
    }
}

const KEYS: u64 = 400;

pub(crate) fn key(n: u64) -> Vec<u8> {
    format!("key{n:04}").into_bytes()
}

struct Toss(u64);

impl Toss {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }
}

/// Rules: I1, I21, I26. Batches of all kinds of messages, at random, then drained.
#[test]
fn a_tree_is_the_map_that_its_batches_make() {
    for seed in 0..6 {
        let (mut house, mut toss) = (House::new(tiny()), Toss(seed));
        let mut deepest = 0;
        for round in 0..60 {
            let mut entries = BTreeMap::new();
            for _ in 0..1 + toss.below(30) {
                let value = vec![b'a' + toss.below(26) as u8; toss.below(20) as usize];
                let message = match toss.below(10) {
                    0..6 => (Tag::PUT, value),
                    6..8 => append(&value),
                    _ => (Tag::DELETE, Vec::new()),
                };
                entries.insert(key(toss.below(KEYS)), message);
            }
            let mut ranges = Vec::new();
            if toss.below(5) == 0 {
                let from = toss.below(KEYS);
                ranges.push((key(from), key(from + 1 + toss.below(KEYS / 4))));
            }
            house.apply(entries, ranges);
            deepest = deepest.max(house.depth());
            if round % 10 == 3 {
                house.assert_is_the_model();
            }
        }
        assert!(deepest >= 2, "several levels: {deepest}");
        house.assert_is_the_model();
        assert!(house.root.known_sums().unwrap().waiting > 0);
        assert!(house.drain() > 0, "something waited");
        house.assert_is_the_model();
        let sums = house.root.known_sums().unwrap();
        assert_eq!((sums.rows, sums.waiting), (house.model.len() as u64, 0));
        assert_eq!(house.drain(), 0, "drained once and for all");
    }
}

/// Rules: I1, I26. Each batch has enough range deletes for several runs; applied, rebalanced,
/// merged and drained, no waiting run exceeds its bound, and the tree equals the map.
#[test]
fn range_deletes_beyond_a_run_are_split_wherever_runs_are_made() {
    for seed in 0..4 {
        let shape = Shape { run_bytes: 400, push_bytes: 1200, tiers_max: 3, ..tiny() };
        let (mut house, mut toss) = (House::new(shape), Toss(seed));
        let (mut most, mut deepest) = (0, 0);
        for round in 0..50 {
            let row = |toss: &mut Toss| (key(toss.below(KEYS)), (Tag::PUT, vec![b'v'; 30]));
            let entries = (0..20 + toss.below(60)).map(|_| row(&mut toss)).collect();
            let ranges = (0..toss.below(50)).map(|_| {
                let from = toss.below(KEYS);
                (key(from), key(from + 1 + toss.below(if seed % 2 == 0 { 2 } else { 6 })))
            });
            let ranges = ranges.collect();
            house.apply(entries, ranges);
            deepest = deepest.max(house.depth());
            let waiting = house.waiting_runs();
            for run in &waiting {
                let ranges = run.range_deletes().iter();
                let bytes: usize =
                    ranges.map(|(from, to)| RangeDeletes::fragment_bytes(from, to)).sum();
                assert!(bytes <= 400 + 64, "{bytes} bytes of range deletes in a run");
            }
            most = most.max(waiting.len());
            if round % 10 == 3 {
                house.assert_is_the_model();
            }
        }
        assert!(deepest >= 2 && most >= 6, "depth {deepest}, {most} runs");
        assert!(house.cx.counters.run_merges.load(Ordering::Relaxed) > 0, "tiers were merged");
        house.assert_is_the_model();
        house.drain();
        house.assert_is_the_model();
    }
}

/// Rule: I21. A run keeps its extent while anything of it is live; one that was mostly handed down
/// is rewritten.
#[test]
fn mostly_consumed_runs_are_rewritten() {
    let shape = Shape { fanout_max: 64, run_bytes: 8 << 10, tiers_max_bottom: 8, ..tiny() };
    let (mut house, mut toss) = (House::new(shape), Toss(5));
    let mut sparse: Vec<Arc<RunHandle>> = Vec::new();
    let mut met = 0;
    for round in 0..60 {
        let row = |toss: &mut Toss| (key(toss.below(KEYS)), (Tag::PUT, vec![b'v'; 20]));
        house.apply((0..60).map(|_| row(&mut toss)).collect(), Vec::new());
        house.assert_sound();
        assert!(house.depth() <= 1, "runs are shared by no nodes");
        let Root::Node(node) = &house.root.root else { continue };
        let node = node.load(&house.cx).unwrap();
        let slices = || node.tiers.iter().flat_map(|tier| &tier.slices);
        let stays = |run: &&Arc<RunHandle>| slices().any(|slice| Arc::ptr_eq(&slice.run, run));
        assert!(sparse.iter().find(stays).is_none(), "round {round}: they were to be written anew");
        let little = slices().filter(|slice| 2 * slice.live_bytes() < slice.run.meta.bytes);
        sparse = little.map(|slice| slice.run.clone()).collect();
        met += sparse.len();
    }
    assert!(met > 0, "some were handed down in part");
    house.assert_is_the_model();
}

/// Keys above all others become leaves at the right edge; existing leaves are not touched.
#[test]
fn ascending_batches_rewrite_no_leaf() {
    let mut house = House::new(tiny());
    for round in 0..20u64 {
        let rows = round * 20..round * 20 + 20;
        let row = |n| (key(n), (Tag::PUT, vec![b'v'; 20]));
        house.apply(rows.map(row).collect(), Vec::new());
        house.assert_sound();
    }
    let counters = &house.cx.counters;
    assert_eq!(counters.leaf_flushes.load(Ordering::Relaxed), 0);
    assert!(counters.leaves_appended.load(Ordering::Relaxed) > 10);
    house.assert_is_the_model();
}

/// Deletes a range, then the rest: a tree can become empty again.
#[test]
fn a_tree_shrinks_after_everything_is_deleted() {
    let mut house = House::new(tiny());
    house.apply((0..KEYS).map(|n| (key(n), (Tag::PUT, vec![b'v'; 20]))).collect(), Vec::new());
    assert!(house.depth() > 0);
    house.apply(BTreeMap::new(), vec![(key(0), key(KEYS / 2))]);
    house.assert_is_the_model();
    house.apply(BTreeMap::new(), vec![(key(KEYS / 2), key(KEYS))]);
    house.drain();
    house.assert_is_the_model();
    let entries: u64 =
        house.refs.values().filter(|(_, refs)| *refs > 0).map(|(run, _)| run.meta.entries).sum();
    assert_eq!(entries, 0, "no run has a row");
}
