//! Spans: contiguous memory of any length, cut from the slabs that frames and cached blocks share.
//!
//! Cached blocks have any length, and are allocated and freed in any order on any thread. The
//! general allocator keeps separate memory for each thread and offers holes between living blocks
//! to no other use: a cache of 150 MB that 64 threads filled took 300 MB from the system, in
//! addition to unused frames. Spans serve both uses from one place that knows how much it has taken
//! from the system and takes no more than its limit, so that the process stays within the memory
//! that its operator grants.
//!
//! A slab has one bit per unit. A span goes into the first hole that it fits, in the oldest slab
//! that has one: so the newest slabs empty out and can be given back.
//!
//! Invariants
//! 1. A span's units are marked in its slab's map from the moment it is handed out until it is
//!    given back, and belong to no other span.
//! 2. No hole of a slab is longer than `longest` says. A request may start anywhere or must start
//!    at a page boundary; `longest` has a bound for each of the two.
//! 3. Memory is not mapped beyond the limit except by [`Spans::take_beyond`]. A slab without spans
//!    is unmapped if there is another one and more is mapped than the limit allows. Below the limit
//!    slabs stay, since a new one costs a fault for each page.
//! 4. Where unmapping slabs is not enough, whole pages of holes are given back to the system. Until
//!    they are taken again, which happens before more is mapped, their units are marked as taken. A
//!    slab with such pages is unmapped with its last span.
//! 5. Bytes of a span are unspecified when it is handed out, but initialised.
//!
//! Threads: all, under one lock, which is held for tens to hundreds of nanoseconds: a thread that
//! takes a span is about to read a block from the device, or to fill a frame.

use std::{fmt, ptr::NonNull};

use super::slab::{self, Slab};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// The unit in which spans are counted.
pub(super) const UNIT_BYTES: usize = 1 << 10;
/// The longest span.
pub(super) const SPAN_BYTES_MAX: usize = slab::SMALL_BYTES;
/// Holes of fewer pages are not given back: they are not worth a system call.
const GIVEN_PAGES_MIN: usize = 2;
/// Maximum number of holes given back at once, and in all. Threads that ask for a span wait while
/// holes are given back, and search those given back earlier.
const GIVEN_AT_ONCE: usize = 1 << 10;
const GIVEN_MAX: usize = 1 << 16;
/// Up to 1/32 more than the limit may be mapped before holes are given back.
const TOLERATED_DIVISOR: usize = 32;
/// How many of the holes given back last are searched for one that is long enough.
const GIVEN_LOOKED_AT: usize = 64;
/// Bits per word of a map.
const WORD: usize = u64::BITS as usize;

/// A piece of a slab; given back explicitly, with [`Spans::give_back`].
pub(crate) struct Span {
    start: NonNull<u8>,
    units: usize,
    /// The index of its slab, and its first unit there.
    place: (usize, usize),
    /// Keeps the slab mapped until the last span is gone.
    _slab: Arc<Slab>,
}

// SAFETY: it is the only reference to its bytes (invariant 1), as a box would be.
unsafe impl Send for Span {}
// SAFETY: shared, it gives shared access to plain bytes only.
unsafe impl Sync for Span {}

impl Span {
    /// The bytes, whole units.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: inside the slab, which lives as long as this; initialised, and not borrowed
        // mutably.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.units * UNIT_BYTES) }
    }

    /// The bytes, whole units, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and this is the only reference (invariant 1).
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.units * UNIT_BYTES) }
    }

    /// The address of the span, for an owner that shares it through pointers of its own while it
    /// keeps this object.
    pub fn base(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// All slabs of a pool.
pub(super) struct Spans {
    slabs: Mutex<Slabs>,
    /// Bytes of all slabs that are mapped; bytes of spans that are handed out.
    mapped: AtomicUsize,
    taken: AtomicUsize,
    limit: AtomicUsize,
    /// Held by the thread that gives holes back.
    giving: Mutex<()>,
}

#[derive(Default)]
struct Slabs {
    maps: Vec<Option<Map>>,
    /// An index of `maps`, for a search that touches little memory: an upper bound, in units,
    /// of each slab's longest hole that starts anywhere, and of the longest that starts at a page.
    longest: Vec<[u16; 2]>,
    /// Number of slabs without spans.
    empty: usize,
    /// Holes that were given back to the system.
    given: Vec<Hole>,
}

struct Map {
    slab: Arc<Slab>,
    /// One bit per unit, set if it is taken.
    taken: Box<[u64]>,
    free: usize,
    /// Units that were given back to the system.
    given: usize,
    /// True if huge pages are disabled for it, since some of its pages were given back.
    is_split: bool,
}

/// A range of units of a slab.
#[derive(Clone, Copy)]
struct Hole {
    at: usize,
    first: usize,
    units: usize,
}

impl Spans {
    /// Creates an empty set of slabs, of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            slabs: Mutex::new(Slabs::default()),
            mapped: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            giving: Mutex::new(()),
        }
    }

    /// Bytes taken from the system.
    pub fn mapped_bytes(&self) -> usize {
        self.mapped.load(Ordering::Relaxed)
    }

    /// Bytes in spans that are handed out.
    pub fn taken_bytes(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Changes how much may be mapped. Empty memory beyond the limit is given back: whole slabs,
    /// and holes if the excess is large.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
        if self.mapped_bytes() <= bytes {
            return;
        }
        let mut slabs = self.slabs.lock().unwrap();
        let mut gone = Vec::new();
        for at in 0..slabs.maps.len() {
            if slabs.empty > 1
                && self.mapped_bytes() > bytes
                && slabs.maps[at].as_ref().is_some_and(Map::is_empty)
            {
                gone.extend(self.drop_slab(&mut slabs, at));
            }
        }
        drop(slabs);
        // Unmapped here, outside the lock.
        drop(gone);
        // A new fault for each page is expensive, and some pages come and go with memtables.
        let most = bytes + bytes / TOLERATED_DIVISOR;
        if self.mapped_bytes() > most
            && let Ok(_giving) = self.giving.try_lock()
        {
            let excess = self.mapped_bytes().saturating_sub(most);
            let holes = self.slabs.lock().unwrap().holes(excess, slab::page_bytes() / UNIT_BYTES);
            self.discard(holes);
        }
    }

    /// Gives holes back to the system. They are marked as taken.
    fn discard(&self, holes: Vec<(Arc<Slab>, Hole)>) {
        let mut takes = true;
        for (slab, hole) in holes {
            let bytes = hole.units * UNIT_BYTES;
            // SAFETY: its units belong to no span, and are marked, so that no span gets them.
            takes = takes && unsafe { slab.discard(hole.first * UNIT_BYTES, bytes) };
            let mut slabs = self.slabs.lock().unwrap();
            if !takes {
                slabs.give_back(hole.at, hole.first, hole.units);
                continue;
            }
            let is_empty = slabs.note_given(hole);
            self.mapped.fetch_sub(bytes, Ordering::Relaxed);
            let gone = if is_empty { self.drop_slab(&mut slabs, hole.at) } else { None };
            drop(slabs);
            drop(gone);
        }
    }

    /// Takes a span of `bytes` bytes, at most `SPAN_BYTES_MAX`, that starts at a multiple of
    /// `align` bytes, at most a page. `None` if no hole is long enough and the limit is reached.
    pub fn take(&self, bytes: usize, align: usize) -> Option<Span> {
        self.take_within(bytes, align, self.limit.load(Ordering::Relaxed))
    }

    /// Takes a span as [`take`](Self::take) does, beyond the limit if necessary.
    pub fn take_beyond(&self, bytes: usize, align: usize) -> Span {
        match self.take_within(bytes, align, usize::MAX) {
            Some(span) => span,
            None => unreachable!("a new slab has room for the longest span"),
        }
    }

    fn take_within(&self, bytes: usize, align: usize, limit: usize) -> Option<Span> {
        assert!(bytes <= SPAN_BYTES_MAX, "longer things have memory of their own");
        let units = bytes.div_ceil(UNIT_BYTES).max(1);
        let step = align.div_ceil(UNIT_BYTES).max(1);
        let mut slabs = self.slabs.lock().unwrap();
        let found = slabs.take(units, step).or_else(|| {
            // Read under the lock, so that of several threads that find no hole one maps a slab and
            // the others search again.
            let mapped = self.mapped_bytes();
            if let Some(regained) = slabs.regain(units, limit.saturating_sub(mapped)) {
                self.mapped.fetch_add(regained, Ordering::Relaxed);
                return slabs.take(units, step);
            }
            // Where a large slab would exceed the limit, a small one may fit.
            let slab_bytes = match slab::bytes_after(mapped) {
                large if mapped + large > limit => slab::SMALL_BYTES,
                as_due => as_due,
            };
            if mapped + slab_bytes > limit {
                return None;
            }
            slabs.add(Slab::map(slab_bytes));
            self.mapped.fetch_add(slab_bytes, Ordering::Relaxed);
            slabs.take(units, step)
        });
        drop(slabs);
        if found.is_some() {
            self.taken.fetch_add(units * UNIT_BYTES, Ordering::Relaxed);
        }
        found
    }

    /// Gives a span back.
    pub fn give_back(&self, span: Span) {
        let Span { units, place: (at, first), .. } = span;
        self.taken.fetch_sub(units * UNIT_BYTES, Ordering::Relaxed);
        let mut slabs = self.slabs.lock().unwrap();
        slabs.give_back(at, first, units);
        let map = slabs.maps[at].as_ref().filter(|map| map.is_empty());
        // If pages of the slab were given back, the rest of it is worth little: its holes stay
        // separated.
        let is_due = map.is_some_and(|map| {
            let beyond = || self.mapped_bytes() > self.limit.load(Ordering::Relaxed);
            map.given > 0 || slabs.empty > 1 && beyond()
        });
        let gone = if is_due { self.drop_slab(&mut slabs, at) } else { None };
        drop(slabs);
        // The slab, if gone, is unmapped here, outside the lock, together with the span, which
        // holds a reference to it.
        drop(gone);
    }

    fn drop_slab(&self, slabs: &mut Slabs, at: usize) -> Option<Map> {
        let gone = slabs.maps[at].take()?;
        (slabs.longest[at], slabs.empty) = ([0; 2], slabs.empty - 1);
        self.mapped.fetch_sub(gone.slab.bytes() - gone.given * UNIT_BYTES, Ordering::Relaxed);
        if gone.given > 0 {
            slabs.given.retain(|hole| hole.at != at);
        }
        Some(gone)
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spans({} of {} mapped bytes)", self.taken_bytes(), self.mapped_bytes())
    }
}

impl Slabs {
    fn add(&mut self, slab: Slab) {
        let units = slab.bytes() / UNIT_BYTES;
        let map = Map {
            slab: Arc::new(slab),
            taken: vec![0; units / WORD].into(),
            free: units,
            given: 0,
            is_split: false,
        };
        let at = self.maps.iter().position(Option::is_none).unwrap_or(self.maps.len());
        if at == self.maps.len() {
            self.maps.push(None);
            self.longest.push([0; 2]);
        }
        (self.maps[at], self.longest[at]) = (Some(map), [units as u16; 2]);
        self.empty += 1;
    }

    fn take(&mut self, units: usize, step: usize) -> Option<Span> {
        for at in 0..self.maps.len() {
            let longest = &mut self.longest[at][usize::from(step > 1)];
            if usize::from(*longest) < units {
                continue;
            }
            let Some(map) = &mut self.maps[at] else { continue };
            let was_empty = map.is_empty();
            match map.find(units, step) {
                Ok(first) => {
                    map.mark(first, units, true);
                    self.empty -= usize::from(was_empty);
                    return Some(map.span(at, first, units));
                }
                Err(found) => *longest = found as u16,
            }
        }
        None
    }

    /// Marks holes of about `bytes` bytes as taken, whole pages of the newest slabs: the oldest
    /// slabs fill up first.
    fn holes(&mut self, bytes: usize, page_units: usize) -> Vec<(Arc<Slab>, Hole)> {
        let (mut holes, mut units_left) = (Vec::new(), bytes.div_ceil(UNIT_BYTES));
        let most = GIVEN_AT_ONCE.min(GIVEN_MAX.saturating_sub(self.given.len()));
        let units_min = GIVEN_PAGES_MIN * page_units;
        for at in (0..self.maps.len()).rev() {
            if units_left == 0 || holes.len() >= most {
                break;
            }
            if usize::from(self.longest[at][0]) < units_min {
                continue;
            }
            let Some(map) = &mut self.maps[at] else { continue };
            // A slab that is empty does not count as such while its pages are being given back.
            let (was_empty, began) = (map.is_empty(), holes.len());
            let (mut from, mut longest) = (0, 0);
            while units_left > 0 && holes.len() < most {
                let hole = map.next(from, false);
                if hole == map.units() {
                    // The longest remaining hole: the slab is not searched again until something is
                    // given back to it.
                    self.longest[at] = [longest as u16; 2];
                    break;
                }
                from = map.next(hole, true);
                let first = hole.next_multiple_of(page_units);
                let units = from.saturating_sub(first) / page_units * page_units;
                if units < units_min {
                    longest = longest.max(from - hole);
                    continue;
                }
                longest = longest.max(first - hole).max(from - first - units);
                map.mark(first, units, true);
                holes.push((map.slab.clone(), Hole { at, first, units }));
                units_left = units_left.saturating_sub(units);
            }
            if holes.len() > began && !map.is_split {
                map.is_split = true;
                map.slab.split();
            }
            self.empty -= usize::from(was_empty && !map.is_empty());
        }
        holes
    }

    /// Records that a marked hole now belongs to the system. Returns whether its slab has no spans.
    fn note_given(&mut self, hole: Hole) -> bool {
        let Some(map) = &mut self.maps[hole.at] else { unreachable!("what is marked keeps it") };
        map.given += hole.units;
        let is_empty = map.is_empty();
        self.empty += usize::from(is_empty);
        self.given.push(hole);
        is_empty
    }

    /// Takes a hole of at least `units` units and at most `bytes_max` bytes back from the system
    /// and returns its bytes. It starts at a page.
    fn regain(&mut self, units: usize, bytes_max: usize) -> Option<usize> {
        let looked_at = self.given.len().saturating_sub(GIVEN_LOOKED_AT);
        let fits = |hole: &Hole| hole.units >= units && hole.units * UNIT_BYTES <= bytes_max;
        let at = looked_at + self.given[looked_at..].iter().rposition(fits)?;
        let Hole { at, first, units } = self.given.swap_remove(at);
        let map = self.maps[at].as_mut()?;
        let was_empty = map.is_empty();
        map.given -= units;
        self.empty -= usize::from(was_empty);
        self.give_back(at, first, units);
        Some(units * UNIT_BYTES)
    }

    fn give_back(&mut self, at: usize, first: usize, units: usize) {
        let Some(map) = &mut self.maps[at] else { unreachable!("a slab stays while it has spans") };
        map.mark(first, units, false);
        let hole = map.hole_around(first, units);
        self.longest[at] = self.longest[at].map(|longest| longest.max(hole as u16));
        self.empty += usize::from(map.is_empty());
    }
}

impl Map {
    fn units(&self) -> usize {
        self.taken.len() * WORD
    }

    fn is_empty(&self) -> bool {
        self.free + self.given == self.units()
    }

    fn span(&self, at: usize, first: usize, units: usize) -> Span {
        let start = self.slab.at(first * UNIT_BYTES, units * UNIT_BYTES);
        Span { start, units, place: (at, first), _slab: self.slab.clone() }
    }

    fn mark(&mut self, first: usize, units: usize, taken: bool) {
        let mut at = first;
        while at < first + units {
            let (word, bit) = (at / WORD, at % WORD);
            let now = (WORD - bit).min(first + units - at);
            let bits = (u64::MAX >> (WORD - now)) << bit;
            if taken {
                self.taken[word] |= bits;
            } else {
                self.taken[word] &= !bits;
            }
            at += now;
        }
        if taken { self.free -= units } else { self.free += units }
    }

    /// The first unit at or after `from` that is taken (or free); the end if there is none.
    fn next(&self, from: usize, taken: bool) -> usize {
        let mut at = from;
        while at < self.units() {
            let word = self.taken[at / WORD];
            let wanted = (if taken { word } else { !word }) >> (at % WORD);
            if wanted != 0 {
                return at + wanted.trailing_zeros() as usize;
            }
            at = (at / WORD + 1) * WORD;
        }
        self.units()
    }

    /// Finds `units` free units in a row that start at a multiple of `step`. Otherwise returns an
    /// upper bound of how many are free in a row from such a place on.
    fn find(&self, units: usize, step: usize) -> Result<usize, usize> {
        let (mut at, mut longest) = (0, 0);
        loop {
            let hole = self.next(at, false);
            if hole == self.units() {
                return Err(longest);
            }
            at = self.next(hole, true);
            let first = hole.next_multiple_of(step);
            if first + units <= at {
                return Ok(first);
            }
            longest = longest.max(at.saturating_sub(first));
        }
    }

    /// Units of the hole that contains these free units.
    fn hole_around(&self, first: usize, units: usize) -> usize {
        let mut begin = first;
        while begin > 0 {
            let (word, bit) = ((begin - 1) / WORD, (begin - 1) % WORD);
            // The free units immediately below, within one word.
            let free = (self.taken[word] << (WORD - 1 - bit)).leading_zeros() as usize;
            begin -= free.min(bit + 1);
            if free < bit + 1 {
                break;
            }
        }
        self.next(first + units, true) - begin
    }
}

#[cfg(test)]
mod tests;
