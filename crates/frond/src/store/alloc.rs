//! The allocator of the file's space: it takes the lowest place that fits, within regions of one
//! size class.
//!
//! The naive way is one free list for all sizes. But leaf runs (hundreds of KiB) and nodes (a few
//! KiB) interleave badly: one node would soon occupy part of the place of a freed run, which no
//! other run could then use. So the file is divided into regions; a region belongs to one class
//! while anything of it is used, and returns to all classes when it is wholly free. Small stores
//! have smaller regions, since otherwise three of them would be most of the file.
//!
//! Allocation takes the lowest place, not the tightest: a tight hole near the end would keep the
//! file long for the sake of a small page, and address order fragments no more than best fit does.
//!
//! Invariants
//! 1. A free range is in exactly one set: its class's, within regions of that class, or `open`,
//!    whole regions of no class; everything from `frontier` on is open without being listed.
//! 2. No two free ranges touch within a set: they are joined on insertion.
//! 3. Nothing below `floor` is allocated (tests use it to put stores beyond 2^32).
//! 4. Freeing what is free already, or taking what is not, fails in release builds too.
//!
//! Threads: under the lock of [`Space`](super::Space). Cost: a few steps in ordered maps.
//! Idea: address-ordered first fit in segregated regions; Johnstone and Wilson, "The Memory
//! Fragmentation Problem: Solved?", 1998.

use std::collections::{BTreeMap, BTreeSet};

use super::superblock::DATA_START;
use crate::page::PageKind;

/// Size class of an extent; extents of one class share regions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// Nodes, map pages, the root directory: 4–64 KiB.
    Node = 0,
    /// Runs: up to a few MiB.
    Run = 1,
    /// Blob extents: up to 1 GiB.
    Blob = 2,
}

impl Class {
    pub(super) const ALL: [Class; 3] = [Class::Node, Class::Run, Class::Blob];

    /// The class of pages of this kind.
    pub fn of_page(kind: PageKind) -> Self {
        match kind {
            PageKind::Run => Class::Run,
            PageKind::Blob => Class::Blob,
            PageKind::Node | PageKind::Map | PageKind::Directory | PageKind::Superblock => {
                Class::Node
            }
        }
    }

    pub(super) fn from_disk(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }
}

/// Offset below which regions are small.
const SMALL_BELOW: u64 = 64 << 20;
const REGION_SMALL: u64 = 1 << 20;
const REGION_LARGE: u64 = 8 << 20;

/// First byte of the region that contains `offset`.
fn region_start(offset: u64) -> u64 {
    let size = if offset < SMALL_BELOW { REGION_SMALL } else { REGION_LARGE };
    (offset - offset % size).max(DATA_START)
}

/// First byte after the region that contains `offset`.
fn region_end(offset: u64) -> u64 {
    let size = if offset < SMALL_BELOW { REGION_SMALL } else { REGION_LARGE };
    offset - offset % size + size
}

/// Free ranges, joined, indexed by place and by size.
#[derive(Debug, Default)]
pub(super) struct FreeSet {
    by_start: BTreeMap<u64, u64>,
    /// Starts of the ranges of [2^n, 2^(n+1)) bytes, by n.
    bins: BTreeMap<u32, BTreeSet<u64>>,
}

impl FreeSet {
    /// Adds `[start, end)` and joins it with its neighbours. Returns the joined range, or `None` if
    /// some of it was free already.
    pub fn put(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (mut from, mut to) = (start, end);
        let below = self.by_start.range(..end).next_back().map(|(&s, &e)| (s, e));
        if let Some((s, e)) = below {
            if e > start {
                return None;
            }
            if e == start {
                self.remove(s, e);
                from = s;
            }
        }
        if let Some(&e) = self.by_start.get(&end) {
            self.remove(end, e);
            to = e;
        }
        self.insert(from, to);
        Some((from, to))
    }

    /// Takes `[start, end)` out; false if it is not wholly free.
    pub fn take(&mut self, start: u64, end: u64) -> bool {
        let Some((s, e)) = self.around(start).filter(|&(_, e)| e >= end) else {
            return false;
        };
        self.remove(s, e);
        if s < start {
            self.insert(s, start);
        }
        if end < e {
            self.insert(end, e);
        }
        true
    }

    /// The lowest range that holds `bytes`. Any range of a larger bin is long enough; in the bin of
    /// `bytes` itself, ranges must be checked one by one.
    pub fn first_fit(&self, bytes: u64) -> Option<u64> {
        let bin = bytes.ilog2();
        let larger = self.bins.range(bin + 1..).filter_map(|(_, starts)| starts.first().copied());
        let lowest = larger.min();
        let own = self.bins.get(&bin).into_iter().flatten().copied();
        let mut below = own.take_while(|&start| lowest.is_none_or(|lowest| start < lowest));
        below
            .find(|start| self.by_start.get(start).is_some_and(|end| end - start >= bytes))
            .or(lowest)
    }

    /// The range that contains the byte at `offset`.
    pub fn around(&self, offset: u64) -> Option<(u64, u64)> {
        let (&s, &e) = self.by_start.range(..=offset).next_back()?;
        (offset < e).then_some((s, e))
    }

    /// The range that ends at `end`.
    pub fn ending_at(&self, end: u64) -> Option<u64> {
        let (&s, &e) = self.by_start.range(..end).next_back()?;
        (e == end).then_some(s)
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_start.iter().map(|(&s, &e)| (s, e))
    }

    fn insert(&mut self, start: u64, end: u64) {
        self.by_start.insert(start, end);
        self.bins.entry((end - start).ilog2()).or_default().insert(start);
    }

    fn remove(&mut self, start: u64, end: u64) {
        self.by_start.remove(&start);
        if let Some(bin) = self.bins.get_mut(&(end - start).ilog2()) {
            bin.remove(&start);
        }
    }
}

/// The free space of the file.
#[derive(Debug)]
pub(super) struct Allocator {
    floor: u64,
    classes: [FreeSet; 3],
    open: FreeSet,
    frontier: u64,
}

impl Allocator {
    /// The free space of an empty file, of which nothing below `floor` is allocated.
    pub fn new(floor: u64) -> Self {
        let floor = if floor <= DATA_START { DATA_START } else { region_start(floor) };
        Self { floor, classes: Default::default(), open: FreeSet::default(), frontier: floor }
    }

    /// Allocates a place for `bytes` (a multiple of the granularity, not 0). Never fails: the file
    /// grows.
    pub fn allocate(&mut self, class: Class, bytes: u64) -> u64 {
        let open = self.open.first_fit(bytes);
        let start = match self.set(class).first_fit(bytes) {
            Some(start) if open.is_none_or(|open| start < open) => start,
            // Take a region of no class that lies lower, so that the end of the file can come down
            // later.
            _ => self.grow(class, bytes),
        };
        let taken = self.set(class).take(start, start + bytes);
        assert!(taken, "alloc invariant 1: a range found free is free");
        start
    }

    /// Gives regions to `class` until it has a free range of `bytes`; returns where that range
    /// starts.
    fn grow(&mut self, class: Class, bytes: u64) -> u64 {
        if let Some(start) = self.open.first_fit(bytes) {
            // Open ranges are whole regions, so the last region needed is in the range, too.
            self.assign(class, start, region_end(start + bytes - 1));
            return start;
        }
        // Use free space that ends at the frontier as the start of the range.
        let frontier = self.frontier;
        let tail = self.set(class).ending_at(frontier);
        let start = tail.or(self.open.ending_at(frontier)).unwrap_or(frontier);
        let end = region_end(start + bytes - 1);
        if start < frontier && tail.is_none() {
            self.assign(class, start, frontier);
        }
        self.join(class, frontier, end);
        self.frontier = end;
        start
    }

    /// Allocates this place, in a free range of `class` or in regions of no class.
    pub fn allocate_at(&mut self, class: Class, start: u64, bytes: u64) {
        if self.set(class).around(start).is_none() {
            self.assign(class, region_start(start), region_end(start + bytes - 1));
        }
        let taken = self.set(class).take(start, start + bytes);
        assert!(taken, "alloc invariant 1: a place found free is free");
    }

    /// Allocates a place at the frontier, even if there is free space below it: the disk space of
    /// the reserve lies there.
    pub fn allocate_at_frontier(&mut self, class: Class, bytes: u64) -> u64 {
        let start = self.frontier;
        self.frontier = region_end(start + bytes - 1);
        self.join(class, start, self.frontier);
        let taken = self.set(class).take(start, start + bytes);
        assert!(taken, "alloc invariant 1: a region just joined is free");
        start
    }

    /// Removes a free range from the sets while a hole is punched there; false if it is not free.
    pub fn hold(&mut self, class: Option<Class>, start: u64, end: u64) -> bool {
        match class {
            Some(class) => self.set(class).take(start, end),
            None => self.open.take(start, end),
        }
    }

    /// Ends a [`hold`](Self::hold).
    pub fn put_back(&mut self, class: Option<Class>, start: u64, end: u64) {
        let put = match class {
            Some(class) => self.release(class, start, end),
            None => self.open.put(start, end).is_some(),
        };
        assert!(put, "alloc invariant 1: what was held was not free");
        self.draw_back();
    }

    /// Moves whole regions from `open` to a class.
    fn assign(&mut self, class: Class, start: u64, end: u64) {
        assert!(self.open.take(start, end), "alloc invariant 1: regions given away were open");
        self.join(class, start, end);
    }

    fn join(&mut self, class: Class, start: u64, end: u64) {
        let joined = self.set(class).put(start, end);
        assert!(joined.is_some(), "alloc invariant 1: a range is free once");
    }

    /// Takes exactly `[start, end)`, which recovery found named in the log; false if it is not free
    /// or lies in another class's region.
    pub fn claim(&mut self, class: Class, start: u64, end: u64) -> bool {
        if start < self.floor {
            return end <= self.floor; // not listed; the records say whether it is free
        }
        if self.set(class).take(start, end) {
            return true;
        }
        if end > self.frontier {
            let (low, high) = (self.frontier, region_end(end - 1));
            self.frontier = high;
            let joined = self.open.put(low, high);
            assert!(joined.is_some(), "alloc invariant 1: nothing is listed beyond the frontier");
        }
        let mut region = region_start(start);
        while region < end {
            let next = region_end(region);
            if self.open.take(region, next) {
                self.join(class, region, next);
            }
            region = next;
        }
        self.set(class).take(start, end)
    }

    /// Frees `[start, end)` of a class; false if some of it is free already.
    pub fn release(&mut self, class: Class, start: u64, end: u64) -> bool {
        if start < self.floor {
            return end <= self.floor;
        }
        let free_elsewhere = end > self.frontier || self.open.around(start).is_some();
        let Some((from, to)) = (!free_elsewhere).then(|| self.set(class).put(start, end)).flatten()
        else {
            return false;
        };
        // Regions that are wholly free now belong to no class.
        let first = if region_start(from) == from { from } else { region_end(from) };
        let last = if region_end(to - 1) == to { to } else { region_start(to - 1) };
        if first < last {
            assert!(self.set(class).take(first, last), "alloc invariant 1");
            let opened = self.open.put(first, last);
            assert!(opened.is_some(), "alloc invariant 1: a region is open once");
            self.draw_back();
        }
        true
    }

    /// Lowers the frontier if the last regions are open.
    fn draw_back(&mut self) {
        if let Some(start) = self.open.ending_at(self.frontier) {
            assert!(self.open.take(start, self.frontier), "alloc invariant 1");
            self.frontier = start;
        }
    }

    /// Builds the free space around `used` extents (ascending, disjoint). Fails with a message if
    /// two classes share a region.
    pub fn around(
        floor: u64,
        used: impl Iterator<Item = (u64, u64, Class)>,
    ) -> Result<Self, String> {
        let mut new = Self::new(floor);
        let mut before: Option<(u64, Class)> = None; // end and class of the extent before
        for (start, end, class) in used {
            new.gap(before, Some((start, class)))?;
            before = Some((end, class));
        }
        new.gap(before, None)?;
        Ok(new)
    }

    /// Lists the free space between two used extents.
    fn gap(
        &mut self,
        before: Option<(u64, Class)>,
        after: Option<(u64, Class)>,
    ) -> Result<(), String> {
        let mut at = before.map_or(DATA_START, |(end, _)| end);
        if let Some((end, class)) = before {
            let region = region_end(end - 1);
            if let Some((start, next)) = after
                && start < region
            {
                if next != class {
                    return Err(format!("the region at {} has two classes", region_start(start)));
                }
                self.list(Some(class), end, start);
                return Ok(());
            }
            self.list(Some(class), end, region);
            at = region;
        }
        match after {
            Some((start, class)) => {
                let region = region_start(start);
                self.list(None, at, region);
                self.list(Some(class), region.max(at), start);
            }
            None => self.frontier = at.max(self.floor),
        }
        Ok(())
    }

    /// Lists the part of `[start, end)` that is not below the floor.
    fn list(&mut self, class: Option<Class>, start: u64, end: u64) {
        let start = start.max(self.floor);
        if start < end {
            let set = match class {
                Some(class) => self.set(class),
                None => &mut self.open,
            };
            let listed = set.put(start, end);
            assert!(listed.is_some(), "gaps between ascending extents are disjoint");
        }
    }

    fn set(&mut self, class: Class) -> &mut FreeSet {
        let [node, run, blob] = &mut self.classes;
        match class {
            Class::Node => node,
            Class::Run => run,
            Class::Blob => blob,
        }
    }

    /// All listed free ranges with their class, in no particular order.
    pub fn ranges_by_class(&self) -> impl Iterator<Item = (Option<Class>, u64, u64)> + '_ {
        let classes = Class::ALL.into_iter().map(Some).zip(&self.classes);
        let sets = classes.chain([(None, &self.open)]);
        sets.flat_map(|(class, set)| set.iter().map(move |(start, end)| (class, start, end)))
    }

    /// The offset at and above which everything is free.
    pub fn frontier(&self) -> u64 {
        self.frontier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const K: u64 = 1024;

    #[test]
    fn classes_never_share_a_region_and_free_regions_are_reused() {
        let mut alloc = Allocator::new(0);
        let node = alloc.allocate(Class::Node, 4 * K);
        let run = alloc.allocate(Class::Run, 512 * K);
        let node2 = alloc.allocate(Class::Node, 8 * K);
        assert_eq!((node, node2), (DATA_START, DATA_START + 4 * K), "low offsets first");
        assert_eq!(region_start(run), 1024 * K);
        assert!(alloc.release(Class::Node, node, node + 4 * K));
        assert!(alloc.release(Class::Node, node2, node2 + 8 * K));
        // The first region is open again, too small for a large run but not for a blob of 100 KiB.
        assert_eq!(alloc.allocate(Class::Blob, 100 * K), DATA_START);
        assert!(alloc.release(Class::Run, run, run + 512 * K));
        assert_eq!(alloc.frontier(), 1024 * K, "the frontier draws back");
    }

    #[test]
    fn double_release_is_refused() {
        let mut alloc = Allocator::new(0);
        let a = alloc.allocate(Class::Run, 64 * K);
        let _b = alloc.allocate(Class::Run, 64 * K);
        assert!(alloc.release(Class::Run, a, a + 64 * K));
        assert!(!alloc.release(Class::Run, a, a + 64 * K));
        assert!(!alloc.release(Class::Run, a + 4 * K, a + 8 * K));
        assert!(!alloc.release(Class::Run, 1 << 40, (1 << 40) + 4 * K), "beyond the frontier");
    }

    #[test]
    fn the_lowest_offset_that_fits_is_allocated() {
        let mut alloc = Allocator::new(0);
        let places: Vec<u64> = (0..6).map(|_| alloc.allocate(Class::Run, 100 * K)).collect();
        assert!(alloc.release(Class::Run, places[0], places[0] + 100 * K));
        assert!(alloc.release(Class::Run, places[2], places[2] + 100 * K));
        assert!(alloc.release(Class::Run, places[3], places[3] + 100 * K));
        assert_eq!(alloc.allocate(Class::Run, 104 * K), places[2], "100 do not hold 104");
        assert_eq!(alloc.allocate(Class::Run, 96 * K), places[0]);
        assert_eq!(alloc.allocate(Class::Run, 96 * K), places[2] + 104 * K);
    }

    #[test]
    fn a_blob_spans_regions_and_releases_them() {
        let mut alloc = Allocator::new((1 << 40) + 5);
        let blob = alloc.allocate(Class::Blob, 1 << 30);
        assert_eq!(blob, 1 << 40, "the floor is where allocation begins");
        let node = alloc.allocate(Class::Node, 4 * K);
        assert!(node >= blob + (1 << 30));
        assert!(alloc.release(Class::Blob, blob, blob + (1 << 30)));
        assert_eq!(alloc.allocate(Class::Run, 4 * K), 1 << 40);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(u8, u64),
        Release(usize),
        Reload,
        ReleaseAndClaim(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let pages = prop_oneof![8 => 1u64..4, 4 => 1u64..200, 1 => 200u64..3000];
        let step = prop_oneof![
            6 => (0u8..3, pages).prop_map(|(class, pages)| Step::Allocate(class, pages)),
            4 => any::<usize>().prop_map(Step::Release),
            1 => Just(Step::Reload),
            2 => any::<usize>().prop_map(Step::ReleaseAndClaim),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// An allocated extent overlaps nothing in use, and free + used is everything below the
        /// frontier; a rebuild from the used extents gives the same free space.
        #[test]
        fn free_and_used_partition_the_file(steps in steps(), floor in 0usize..3) {
            let floor = [DATA_START, 5 << 30, 60 << 20][floor];
            let mut alloc = Allocator::new(floor);
            let mut used: BTreeMap<u64, (u64, Class)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Allocate(class, pages) => {
                        let class = Class::ALL[usize::from(class)];
                        let start = alloc.allocate(class, pages * 4096);
                        let end = start + pages * 4096;
                        let below = used.range(..end).next_back();
                        prop_assert!(below.is_none_or(|(_, (e, _))| *e <= start));
                        used.insert(start, (end, class));
                    }
                    Step::Release(pick) if !used.is_empty() => {
                        let (&start, &(end, class)) = used.iter().nth(pick % used.len()).unwrap();
                        prop_assert!(alloc.release(class, start, end));
                        used.remove(&start);
                    }
                    Step::ReleaseAndClaim(pick) if !used.is_empty() => {
                        let (&start, &(end, class)) = used.iter().nth(pick % used.len()).unwrap();
                        prop_assert!(!alloc.claim(class, start, end), "it is in use");
                        prop_assert!(alloc.release(class, start, end));
                        prop_assert!(alloc.claim(class, start, end));
                        prop_assert!(!alloc.claim(class, start, end));
                    }
                    Step::Reload => {
                        let list = used.iter().map(|(&s, &(e, class))| (s, e, class));
                        let new = Allocator::around(floor, list).unwrap();
                        let sorted = |alloc: &Allocator| {
                            let ranges = alloc.ranges_by_class().map(|(_, s, e)| (s, e));
                            let mut ranges: Vec<_> = ranges.collect();
                            ranges.sort_unstable();
                            ranges
                        };
                        prop_assert_eq!(sorted(&new), sorted(&alloc));
                        prop_assert_eq!(new.frontier(), alloc.frontier());
                        alloc = new;
                    }
                    _ => {}
                }
                let free: u64 = alloc.ranges_by_class().map(|(_, s, e)| e - s).sum();
                let taken: u64 = used.iter().map(|(s, (e, _))| e - s).sum();
                prop_assert_eq!(floor.max(DATA_START) + free + taken, alloc.frontier());
            }
        }
    }
}
