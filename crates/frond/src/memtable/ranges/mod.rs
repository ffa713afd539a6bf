//! Range deletes of one tree: (range, seqno) intervals, stored separately from the keys
//! (Rule: I26).
//!
//! A range delete of seqno s hides every version below s of every key in [from, to). A version of
//! seqno s itself belongs to the same commit and stays visible: within a commit, the last operation
//! on each key was determined before (Rule: I5).
//!
//! The naive form is a list: each commit adds to it, each read searches it. n range deletes then
//! cost n², since an insert, too, must check whether a helper has added the commit already
//! (Rule: I3). A sorted map under a lock makes readers wait, and one that is copied at each insert
//! costs n² again. So there are *levels*:
//!
//! 1. A commit's range deletes of a tree become one sorted level, pushed to the front of the list
//!    of levels by compare-and-swap. If another push came first, the swap fails and the list is
//!    checked again. So a commit is added once, even if several threads insert it.
//! 2. Neighbouring levels are merged while the newer one has at least a quarter of the older one's
//!    range deletes (Bentley and Saxe, "Decomposable searching problems", 1980). The criterion is
//!    the number of range deletes and not of stretches: ranges that cover each other leave few
//!    stretches, and the levels kept below them (3) would form a chain as long as the list of
//!    commits. One thread merges at a time; a thread that finds merging busy leaves it to the
//!    other. No thread waits for a merge.
//! 3. A level knows the newest seqno of each stretch, which answers every reader that sees that
//!    commit. If any stretch has older range deletes as well, the level keeps the two levels that
//!    it was merged from, and a reader at an older seqno searches those. Levels without such
//!    stretches keep nothing.
//!
//! n range deletes cost n log n, a lookup log² n: a binary search in each of some log n levels,
//! skipping those whose keys or seqnos cannot match. A tree without range deletes costs one load.
//!
//! Invariants
//! 1. All range deletes of a commit for one tree are pushed together, once.
//! 2. Points of a level ascend. Stretch i is [point i, point i + 1); the last point covers nothing.
//! 3. A level is never changed. A list changes only by a push, or by replacing neighbours with
//!    their merge: every list that was ever published, taken as a whole, gives the same answer for
//!    the commits that it contains.
//! 4. Points are ends of records in the memtable's arena, so a level is dropped before the arena.
//!
//! Threads: all. Readers and pushes never wait.

use arc_swap::ArcSwapOption;

use super::{
    arena::{Arena, At, RecordHead, Writer},
    tree::Inserted,
};
use crate::{
    Seqno,
    message::Tag,
    sync::{Arc, AtomicU32, AtomicUsize, Mutex, OnceLock, Ordering},
};

#[cfg(all(test, not(shuttle)))]
pub(super) mod tests;

/// A range delete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RangeDelete<'a> {
    /// First key deleted.
    pub from: &'a [u8],
    /// First key no longer deleted.
    pub to: &'a [u8],
}

/// A newer level is merged with the older one if it has at least a quarter of its range deletes.
/// Then an older level has at most four fifths of the merged one, which bounds the depth of what is
/// kept below a level.
const MERGED_DIVISOR: usize = 4;

/// One end of a range delete's record.
#[derive(Clone, Copy)]
struct Point {
    record: At<RecordHead>,
    is_end: bool,
}

impl Point {
    #[inline]
    fn key(self, arena: &Arena) -> &[u8] {
        let record = arena.record(self.record);
        if self.is_end { record.payload() } else { record.key() }
    }
}

/// What is known of a stretch: its newest range delete, and whether there are older ones.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Cover {
    newest: Option<Seqno>,
    has_older: bool,
}

const NOTHING: Cover = Cover { newest: None, has_older: false };

impl Cover {
    /// Combines the covers of one stretch in two levels, in any order.
    fn and(self, other: Self) -> Self {
        let both = self.newest.is_some() && other.newest.is_some() && self.newest != other.newest;
        Self {
            newest: self.newest.max(other.newest),
            has_older: self.has_older || other.has_older || both,
        }
    }

    /// Packs the cover into one word: the seqno has 56 bits.
    fn pack(self, is_end: bool) -> u64 {
        self.newest.map_or(0, |seqno| seqno.0 << 3 | 4)
            | u64::from(self.has_older) << 1
            | u64::from(is_end)
    }

    #[inline]
    fn unpack(word: u64) -> (Self, bool) {
        let newest = (word & 4 != 0).then_some(Seqno(word >> 3));
        (Self { newest, has_older: word & 2 != 0 }, word & 1 != 0)
    }
}

/// Range deletes as stretches in order. Immutable.
struct Level {
    /// Eight bytes of each point's key, after the prefix that all share: these are what a search
    /// compares.
    heads: Box<[u64]>,
    records: Box<[At<RecordHead>]>,
    /// For each point: the cover of the stretch that starts there, and which end of its record the
    /// point is.
    covers: Box<[u64]>,
    prefix: Box<[u8]>,
    /// Number of range deletes added, including covered ones.
    count: usize,
    min_seqno: Seqno,
    max_seqno: Seqno,
    /// The levels that it was merged from, if some stretch has range deletes older than its newest.
    merged: Option<[Arc<Level>; 2]>,
    /// Memory, including that of the levels it was merged from.
    bytes: usize,
}

/// Collects the points of a level.
struct LevelBuilder<'a> {
    arena: &'a Arena,
    points: Vec<Point>,
    covers: Vec<Cover>,
}

impl<'a> LevelBuilder<'a> {
    fn new(arena: &'a Arena, capacity: usize) -> Self {
        Self { arena, points: Vec::with_capacity(capacity), covers: Vec::with_capacity(capacity) }
    }

    /// Sets the cover from this point on. Adjacent stretches with the same newest seqno are joined.
    fn push(&mut self, point: Point, cover: Cover) {
        if let Some(before) = self.covers.last_mut()
            && before.newest == cover.newest
        {
            before.has_older |= cover.has_older;
        } else if !self.covers.is_empty() || cover != NOTHING {
            self.points.push(point);
            self.covers.push(cover);
        }
    }

    fn finish(self, count: usize, merged: Option<[&Arc<Level>; 2]>) -> Option<Arc<Level>> {
        let Self { arena, points, covers } = self;
        let (first, last) = (points.first()?.key(arena), points.last()?.key(arena));
        let skip = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let seqnos = covers.iter().filter_map(|cover| cover.newest);
        let of_merged = merged.iter().flatten().map(|level| level.min_seqno);
        let has_older = covers.iter().any(|cover| cover.has_older);
        let merged = merged.filter(|_| has_older).map(|levels| levels.map(Arc::clone));
        let point_bytes = size_of::<u64>() * 2 + size_of::<At<RecordHead>>();
        let below: usize = merged.iter().flatten().map(|level| level.bytes).sum();
        Some(Arc::new(Level {
            heads: points.iter().map(|point| head(&point.key(arena)[skip..])).collect(),
            prefix: first[..skip].into(),
            count,
            min_seqno: seqnos.clone().chain(of_merged).min()?,
            max_seqno: seqnos.max()?,
            bytes: size_of::<Level>() + skip + points.len() * point_bytes + below,
            covers: points.iter().zip(&covers).map(|(p, cover)| cover.pack(p.is_end)).collect(),
            records: points.iter().map(|point| point.record).collect(),
            merged,
        }))
    }
}

impl Level {
    /// Builds the level of one commit: disjoint ranges in order.
    fn of_commit(arena: &Arena, seqno: Seqno, ranges: &[At<RecordHead>]) -> Option<Arc<Self>> {
        let mut builder = LevelBuilder::new(arena, 2 * ranges.len());
        for &record in ranges {
            let cover = Cover { newest: Some(seqno), has_older: false };
            builder.push(Point { record, is_end: false }, cover);
            builder.push(Point { record, is_end: true }, NOTHING);
        }
        builder.finish(ranges.len(), None)
    }

    fn point(&self, at: usize) -> Point {
        Point { record: self.records[at], is_end: Cover::unpack(self.covers[at]).1 }
    }

    #[inline]
    fn cover(&self, at: usize) -> Cover {
        Cover::unpack(self.covers[at]).0
    }

    fn points(&self) -> usize {
        self.heads.len()
    }

    /// Merges two levels into one.
    fn merge(arena: &Arena, levels: [&Arc<Self>; 2]) -> Option<Arc<Self>> {
        let [a, b] = levels;
        let mut builder = LevelBuilder::new(arena, a.points() + b.points());
        let (mut at, mut of_a, mut of_b) = ([0, 0], NOTHING, NOTHING);
        loop {
            let key =
                |level: &Self, at: usize| (at < level.points()).then(|| level.point(at).key(arena));
            let (is_a, is_b) = match (key(a, at[0]), key(b, at[1])) {
                (None, None) => break,
                (Some(_), None) => (true, false),
                (None, Some(_)) => (false, true),
                (Some(a), Some(b)) => (a <= b, b <= a),
            };
            let point = if is_a { a.point(at[0]) } else { b.point(at[1]) };
            if is_a {
                of_a = a.cover(at[0]);
                at[0] += 1;
            }
            if is_b {
                of_b = b.cover(at[1]);
                at[1] += 1;
            }
            builder.push(point, of_a.and(of_b));
        }
        let forgets = plant!("memtable: merged levels forget older range deletes");
        builder.finish(a.count + b.count, (!forgets).then_some(levels))
    }

    /// Returns the stretch that contains `key`, if any. Records are read only where heads are
    /// equal.
    #[inline]
    fn stretch(&self, arena: &Arena, key: &[u8]) -> Option<usize> {
        // All points lie on one side of a key without the prefix.
        let wanted = head(key.strip_prefix(&*self.prefix)?);
        let mut low = self.heads.partition_point(|&head| head < wanted);
        if self.heads.get(low) == Some(&wanted) {
            let mut high = low + self.heads[low..].partition_point(|&head| head == wanted);
            while low < high {
                let middle = low.midpoint(high);
                if self.point(middle).key(arena) <= key { low = middle + 1 } else { high = middle }
            }
        }
        // Nothing is covered from the last point on.
        low.checked_sub(1).filter(|stretch| stretch + 1 < self.points())
    }

    /// Returns the newest range delete up to `at` that covers a key, if it is newer than `known`;
    /// else `known`.
    fn newest(&self, arena: &Arena, key: &[u8], at: Seqno, known: Option<Seqno>) -> Option<Seqno> {
        if self.min_seqno > at || known.is_some_and(|known| self.max_seqno <= known) {
            return known;
        }
        let Some(stretch) = self.stretch(arena, key) else { return known };
        let Cover { newest, has_older } = self.cover(stretch);
        if newest.is_some_and(|newest| newest <= at) {
            return known.max(newest);
        }
        let older = self.merged.iter().flatten().filter(|_| has_older);
        older.fold(known, |known, level| level.newest(arena, key, at, known))
    }

    /// True if the level deletes any key of `[lo, hi)` as of some commit up to `at`. May also be
    /// true if it does so only as of a later one.
    fn may_delete_in(
        &self,
        arena: &Arena,
        (lo, hi): (Option<&[u8]>, Option<&[u8]>),
        at: Seqno,
    ) -> bool {
        if self.min_seqno > at {
            return false;
        }
        let first = self.point(0).key(arena);
        let last = self.point(self.points() - 1).key(arena);
        if hi.is_some_and(|hi| hi <= first) || lo.is_some_and(|lo| last <= lo) {
            return false;
        }
        let Some(stretch) = lo.and_then(|lo| self.stretch(arena, lo)) else { return true };
        // A stretch that nothing covers is followed by one that is covered, and there is one: the
        // last point has not been reached.
        self.cover(stretch).newest.is_some()
            || hi.is_none_or(|hi| self.point(stretch + 1).key(arena) < hi)
    }

    /// Adds all stretches that commits above `above` up to `through` delete.
    fn collect<'a>(
        &self,
        arena: &'a Arena,
        (above, through): (Seqno, Seqno),
        found: &mut Vec<RangeDelete<'a>>,
    ) {
        if self.min_seqno > through || self.max_seqno <= above {
            return;
        }
        let mut looks_below = false;
        for stretch in 0..self.points() - 1 {
            let Cover { newest, has_older } = self.cover(stretch);
            let Some(newest) = newest.filter(|newest| *newest > above) else { continue };
            if newest <= through {
                let (from, to) = (self.point(stretch), self.point(stretch + 1));
                found.push(RangeDelete { from: from.key(arena), to: to.key(arena) });
            } else {
                looks_below |= has_older;
            }
        }
        if looks_below {
            for level in self.merged.iter().flatten() {
                level.collect(arena, (above, through), found);
            }
        }
    }
}

/// The first eight bytes of `rest` as a number that orders in the same way.
#[inline]
fn head(rest: &[u8]) -> u64 {
    match rest.first_chunk::<8>() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The levels of a tree, newest first.
type Levels = Vec<Arc<Level>>;

/// Range deletes of one tree.
#[derive(Default)]
pub(super) struct TreeRanges {
    levels: ArcSwapOption<Levels>,
    /// Held by the thread that merges.
    merging: Mutex<()>,
}

impl TreeRanges {
    /// Adds all range deletes of a commit for this tree, in any order; returns those that were new.
    ///
    /// Cost: a sort, and log n moves of each over time.
    pub(super) fn add<'e>(
        &self,
        writer: &mut Writer<'_>,
        seqno: Seqno,
        ranges: impl Iterator<Item = (&'e [u8], &'e [u8])>,
        bytes: &AtomicUsize,
    ) -> Inserted {
        let arena = writer.arena();
        let mut ranges: Vec<_> = ranges.filter(|(from, to)| from < to).collect();
        ranges.sort_unstable();
        let Some(&(first, _)) = ranges.first() else { return Inserted::default() };
        let mut level: Option<Arc<Level>> = None;
        let mut inserted = Inserted::default();
        loop {
            let old = self.levels.load_full();
            // Invariant 1: if one range delete of the commit is there, all are.
            if newest(arena, &old, first, seqno) == Some(seqno)
                && !plant!("memtable: a helper adds range deletes again")
            {
                if let Some(unused) = level {
                    bytes.fetch_sub(unused.bytes, Ordering::Relaxed);
                }
                return Inserted::default();
            }
            let new = level.get_or_insert_with(|| {
                let joined = join(&ranges);
                let key_bytes = joined.iter().map(|(from, to)| from.len() + to.len()).sum();
                inserted = Inserted { entries: ranges.len(), bytes: key_bytes, rows: 0 };
                let record = |(from, to)| writer.record(seqno, Tag::DELETE, from, to);
                let records: Vec<_> = joined.into_iter().map(record).collect();
                let level = Level::of_commit(arena, seqno, &records).expect("there is a range");
                // Before it is published: a thread that merges it subtracts its bytes.
                bytes.fetch_add(level.bytes, Ordering::Relaxed);
                level
            });
            let mut levels = Levels::with_capacity(1 + old.as_ref().map_or(0, |old| old.len()));
            levels.push(new.clone());
            levels.extend(old.iter().flat_map(|old| old.iter().cloned()));
            if self.swap(&old, levels) {
                break;
            }
        }
        self.merge_levels(arena, bytes);
        inserted
    }

    /// Publishes another list in place of `old`; false if `old` is no longer current.
    fn swap(&self, old: &Option<Arc<Levels>>, levels: Levels) -> bool {
        let found = self.levels.compare_and_swap(old, Some(Arc::new(levels)));
        match (&*found, old) {
            (Some(found), Some(old)) => Arc::ptr_eq(found, old),
            (None, None) => true,
            _ => false,
        }
    }

    /// Merges levels until each has far fewer range deletes than the next older one, unless another
    /// thread is merging.
    fn merge_levels(&self, arena: &Arena, bytes: &AtomicUsize) {
        let Ok(_merging) = self.merging.try_lock() else { return };
        while let Some(levels) = self.levels.load_full() {
            let is_due = |pair: &[Arc<Level>]| {
                let by_stretches =
                    plant!("memtable: levels are merged by the stretches that are left");
                let size = |level: &Level| if by_stretches { level.points() } else { level.count };
                size(&pair[0]) >= size(&pair[1]) / MERGED_DIVISOR
            };
            let Some(place) = levels.windows(2).position(is_due) else { return };
            let (newer, older) = (&levels[place], &levels[place + 1]);
            let Some(merged) = Level::merge(arena, [newer, older]) else { return };
            // Other threads may push meanwhile, but none removes levels: the two are still
            // neighbours.
            loop {
                let old = self.levels.load_full();
                let Some(at) = old
                    .iter()
                    .flat_map(|old| old.iter())
                    .position(|level| Arc::ptr_eq(level, newer))
                else {
                    return;
                };
                let mut new = old.as_deref().cloned().unwrap_or_default();
                new.splice(at..at + 2, [merged.clone()]);
                if self.swap(&old, new) {
                    break;
                }
            }
            bytes.fetch_add(merged.bytes, Ordering::Relaxed);
            bytes.fetch_sub(newer.bytes + older.bytes, Ordering::Relaxed);
        }
    }
}

#[inline]
fn newest(arena: &Arena, levels: &Option<Arc<Levels>>, key: &[u8], at: Seqno) -> Option<Seqno> {
    let levels = levels.iter().flat_map(|levels| levels.iter());
    levels.fold(None, |known, level| level.newest(arena, key, at, known))
}

/// The union of ranges, which are in order.
fn join<'e>(ranges: &[(&'e [u8], &'e [u8])]) -> Vec<(&'e [u8], &'e [u8])> {
    let mut joined: Vec<(&[u8], &[u8])> = Vec::with_capacity(ranges.len());
    for &(from, to) in ranges {
        match joined.last_mut() {
            Some((_, end)) if from <= *end => *end = to.max(*end),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// Sets in the first segment; each further segment has twice as many.
const SETS_FIRST: usize = 16;
const SEGMENTS: usize = 29;

/// The range deletes of all trees that have any, indexed by the numbers that the trees' tables
/// hold.
#[derive(Default)]
pub(super) struct RangeSets {
    segments: [OnceLock<Box<[TreeRanges]>>; SEGMENTS],
    count: AtomicU32,
    /// Memory held by levels.
    bytes: AtomicUsize,
}

impl RangeSets {
    /// Segment and position of a number from 1 on.
    fn place(number: u32) -> (usize, usize) {
        let at = number as usize - 1 + SETS_FIRST;
        let segment = (at / SETS_FIRST).ilog2() as usize;
        (segment, at - (SETS_FIRST << segment))
    }

    /// The set of a table whose number is `number`; `None` if that is 0.
    #[inline]
    fn find(&self, number: &AtomicU32) -> Option<&TreeRanges> {
        // Acquire: a reader that sees the number sees the segment.
        match number.load(Ordering::Acquire) {
            0 => None,
            number => self.get(number),
        }
    }

    fn get(&self, number: u32) -> Option<&TreeRanges> {
        let (segment, at) = Self::place(number);
        self.segments[segment].get()?.get(at)
    }

    /// The set of a table, created if it has none.
    fn find_or_add(&self, number: &AtomicU32) -> &TreeRanges {
        if number.load(Ordering::Acquire) == 0 {
            let new = self.count.fetch_add(1, Ordering::Relaxed) + 1;
            let (segment, _) = Self::place(new);
            self.segments[segment].get_or_init(|| {
                (0..SETS_FIRST << segment).map(|_| TreeRanges::default()).collect()
            });
            // If another thread was faster, its number is used, and this one stays unused.
            let _ = number.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire);
        }
        self.find(number).unwrap_or_else(|| unreachable!("the table has a number"))
    }

    /// Memory held by levels, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds all range deletes of a commit for the tree of this table, in any order; returns those
    /// that were new.
    pub(super) fn add<'e>(
        &self,
        number: &AtomicU32,
        writer: &mut Writer<'_>,
        seqno: Seqno,
        ranges: impl Iterator<Item = (&'e [u8], &'e [u8])>,
    ) -> Inserted {
        self.find_or_add(number).add(writer, seqno, ranges, &self.bytes)
    }

    /// The newest range delete up to `at` that covers a key.
    #[inline]
    pub(super) fn cover(
        &self,
        number: &AtomicU32,
        arena: &Arena,
        key: &[u8],
        at: Seqno,
    ) -> Option<Seqno> {
        newest(arena, &self.find(number)?.levels.load(), key, at)
    }

    /// True if commits up to `at` delete any key of `[lo, hi)` by range; may also be true if only
    /// later ones do.
    pub(super) fn may_delete_in(
        &self,
        number: &AtomicU32,
        arena: &Arena,
        range: (Option<&[u8]>, Option<&[u8]>),
        at: Seqno,
    ) -> bool {
        let Some(set) = self.find(number) else { return false };
        let levels = set.levels.load();
        let mut levels = levels.iter().flat_map(|levels| levels.iter());
        levels.any(|level| level.may_delete_in(arena, range, at))
    }

    /// Returns the ranges that are deleted by commits above the first seqno, up to and including
    /// the second. They are in no particular order, and some may occur twice.
    pub(super) fn collect<'a>(
        &self,
        number: &AtomicU32,
        arena: &'a Arena,
        commits: (Seqno, Seqno),
    ) -> Vec<RangeDelete<'a>> {
        let mut found = Vec::new();
        if let Some(set) = self.find(number) {
            let levels = set.levels.load();
            let levels = levels.iter().flat_map(|levels| levels.iter());
            levels.for_each(|level| level.collect(arena, commits, &mut found));
        }
        found
    }
}
