//! Disk space: allocated before anything depends on it, and returned to the file system when it is
//! free.
//!
//! A place is **backed** when writing there cannot hit a full disk, because the file system has
//! allocated space for it. The naive way is to write and handle the error, but a failed write stops
//! the store (P12). So allocating backs the extent first, and a full disk becomes a refused
//! allocation (P13). A **reserve** beyond the last region is backed in advance; background work
//! falls back on it when the disk is full. Commits are admitted only while free space, less what is
//! already admitted, exceeds the reserve (Rule: I24). An **idle** store has just made everything
//! durable on request; it keeps enough of the reserve for some deletes, and the next commit first
//! has the rest backed again.
//!
//! Invariants
//! 1. A range that is punched or cut off is in no extent, and cannot be allocated meanwhile.
//! 2. Backing, cutting and punching happen one at a time; the space lock is not held for them.
//! 3. Only extents keep bytes: everything that slots and pins need is held as extents, so space
//!    that is given back contains nothing durable.
//!
//! Threads: all.

use super::{
    alloc::Class,
    file::Store,
    map::mapped_end,
    space::{Extent, Inner, Request},
    superblock::{DATA_START, OFFSET_MAX},
};
use crate::{
    bounds,
    error::{Error, Result},
    io::ALIGN,
    striped::Striped,
    sync::{AtomicU64, Mutex, MutexGuard, Ordering},
};

/// Unit of backing: a call per run would cost a journal entry per run.
const BACK_BYTES: u64 = 1 << 20;
/// Free ranges shorter than this are not punched: that would fragment the file.
const PUNCH_BYTES_MIN: u64 = 1 << 20;
/// [`PUNCH_BYTES_MIN`] of a store that is idle or closing, which gives back whatever a run could
/// have occupied.
const PUNCH_BYTES_MIN_IDLE: u64 = 64 << 10;
/// Bytes of the reserve that stay backed in an idle store, plus a fraction of its live bytes:
/// enough to rewrite two leaves and what links them, so that a disk that was filled meanwhile can
/// be emptied by deletes.
const REST_BYTES: u64 = 3 << 19;
const REST_DIVISOR: u64 = 64;
/// Size and number of the pieces in which opening looks for backed space on a full disk: 1 GiB in
/// all.
const FIND_BYTES: u64 = 64 << 10;
const FIND_PIECES_MAX: usize = 16 << 10;
/// Bytes of admissions after which the free space of the disk is measured again.
const MEASURE_EVERY: u64 = 32 << 20;

const MAP_IS_FULL: &str = "the directory of the space map can list no larger file";

/// What is reserved for background work and commits, and the free space of the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reserve {
    /// Bytes kept for background work.
    target: u64,
    /// The limit of unwritten bytes from which `target` was computed.
    dirty_limit: u64,
    /// The store is idle: only part of the reserve is backed. Changes under the lock `resizing`.
    is_idle: bool,
    /// Bytes admitted and not released.
    admitted: u64,
    /// Bytes free on the file system at the last measurement, as far as the space map can list
    /// them.
    disk_free: u64,
    /// Bytes admitted since the last measurement.
    since: u64,
}

/// Bytes admitted at once. A commit that needs a good part of them is admitted by itself.
const CREDIT: u64 = 64 << 10;
const CREDIT_SMALL: u64 = CREDIT / 4;
const CREDIT_STRIPES: usize = if cfg!(shuttle) { 2 } else { 16 };

/// Disk space admitted ahead of commits, in bytes, in stripes shared by a few threads each.
///
/// Checking the space for a commit takes two locks of the store, which background work also takes
/// and holds. So that small commits need neither, space for many of them is admitted at once, and
/// each takes its part from a stripe: one change of a cache line that few threads share. Credit is
/// counted as admitted. Code that needs to know how much is reserved for commits, or that finds no
/// space, takes it all.
#[derive(Debug, Default)]
struct AdmissionCredit(Striped<AtomicU64, CREDIT_STRIPES>);

impl AdmissionCredit {
    /// True if a commit that needs this many bytes may use credit.
    fn serves(needed: u64) -> bool {
        needed <= CREDIT_SMALL
    }

    /// Takes credit from this thread's stripe; false if there is not enough.
    fn take(&self, needed: u64) -> bool {
        let left = |credit: u64| credit.checked_sub(needed);
        self.0.mine().fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Adds unused admission credit to this thread's stripe.
    fn put(&self, bytes: u64) {
        self.0.mine().fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes all credit.
    fn take_all(&self) -> u64 {
        self.0.iter().map(|credit| credit.swap(0, Ordering::Relaxed)).sum()
    }

    /// Total credit.
    fn sum(&self) -> u64 {
        self.0.iter().map(|credit| credit.load(Ordering::Relaxed)).sum()
    }
}

/// The reserve, and the credit that commits take without its lock.
#[derive(Debug, Default)]
pub(super) struct Reserving {
    reserve: Mutex<Reserve>,
    credit: AdmissionCredit,
}

impl Reserving {
    fn lock(&self) -> MutexGuard<'_, Reserve> {
        self.reserve.lock().unwrap()
    }

    /// Reclaims the unused credit and no longer counts it as admitted.
    fn return_credit(&self) {
        let mut reserve = self.lock();
        reserve.admitted = reserve.admitted.saturating_sub(self.credit.take_all());
    }
}

/// The state of the reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReserveStats {
    /// Bytes kept for background work.
    pub target: u64,
    /// Bytes reserved for commits that are not applied yet.
    pub admitted: u64,
    /// Bytes of the file that are free and backed.
    pub backed_free: u64,
    /// Bytes free on the file system at the last measurement.
    pub disk_free: u64,
}

/// A free range taken out of the allocator while its backed parts are punched. For regions of no
/// class it is the whole range, since regions are given to a class whole (alloc invariant 1).
pub(super) struct Held {
    class: Option<Class>,
    start: u64,
    end: u64,
    punched: Vec<(u64, u64)>,
}

impl Store {
    /// Allocates an extent for `request` and backs it with disk space.
    pub(super) fn allocate_backed(
        &self,
        request: &Request,
        bytes: u32,
        temporary: bool,
    ) -> Result<Extent> {
        let extent = self.space().lock().allocate(request, bytes, temporary);
        self.secure(request, extent, temporary)
    }

    /// Backs an extent just allocated. If the disk is full, moves it to the reserve; if that is
    /// used up, frees it.
    pub(super) fn secure(
        &self,
        request: &Request,
        extent: Extent,
        temporary: bool,
    ) -> Result<Extent> {
        if self.space().lock().backed.contains(extent.offset, extent.end()) {
            return Ok(extent);
        }
        match self.back(extent.offset, extent.end()) {
            Ok(()) => return Ok(extent),
            Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
        let mut space = self.space().lock();
        space.undo_allocation(extent.offset);
        space.allocate_backed_only(request, extent.bytes, temporary).ok_or_else(|| {
            Error::Full(format!("no {} bytes in {}", extent.bytes, self.dir().display()))
        })
    }

    /// Makes the file system allocate space for `[start, end)` and for the rest of the same piece.
    pub(super) fn back(&self, start: u64, end: u64) -> Result<()> {
        let one_at_a_time = self.resizing.lock().unwrap();
        self.back_under(&one_at_a_time, start, end)
    }

    fn back_under(&self, _: &MutexGuard<'_, ()>, start: u64, end: u64) -> Result<()> {
        let file_end = self.space().lock().file_end();
        if end > file_end {
            bounds::MAP_DIRECTORY_BYTES.reached();
            return Err(Error::Full(MAP_IS_FULL.into()));
        }
        let to = end.next_multiple_of(BACK_BYTES).min(file_end).max(end);
        let mut done = self.file().file.allocate(start, to - start);
        let mut backed_to = to;
        if done.is_err() {
            // Maybe only the rest of the piece does not fit.
            done = self.file().file.allocate(start, end - start);
            backed_to = end;
        }
        match done {
            Ok(()) => {
                self.space().lock().backed.insert(start, backed_to);
                Ok(())
            }
            Err(error) if self.check_writable().is_err() => {
                Err(Error::io(self.file().path(), "allocate", start, error))
            }
            Err(error) => Err(Error::Full(format!("{error}"))),
        }
    }

    /// Sets the reserve by Rule I24 from the limit of unwritten bytes, and backs what is missing of
    /// it beyond the last region. A disk too full for that refuses commits, not this call.
    pub fn set_reserve(&self, dirty_limit: u64) -> Result<ReserveStats> {
        self.check_writable()?;
        let one_at_a_time = self.resizing.lock().unwrap();
        self.set_reserve_under(&one_at_a_time, dirty_limit)?;
        Ok(self.reserve_stats())
    }

    fn set_reserve_under(
        &self,
        one_at_a_time: &MutexGuard<'_, ()>,
        dirty_limit: u64,
    ) -> Result<()> {
        let (live, map) = {
            let space = self.space().lock();
            (space.stats().live, space.map_bytes())
        };
        let wanted = 3 * dirty_limit + map + (64 << 20);
        // A small store does not keep the reserve of a large one: its commits are admitted more
        // strictly instead.
        let target = wanted.min((4 << 20) + live / 16);
        {
            let mut reserve = self.reserve.lock();
            (reserve.target, reserve.dirty_limit) = (target, dirty_limit);
        }
        let (frontier, short) = {
            let space = self.space().lock();
            let frontier = space.alloc.frontier();
            let beyond = space.backed.within(frontier, frontier + target);
            (frontier, beyond.first().is_none_or(|&(s, e)| s > frontier || e < frontier + target))
        };
        let backed = !short || {
            let backed = self.back_under(one_at_a_time, frontier, frontier + target);
            matches!(backed, Ok(()) | Err(Error::Full(_)))
        };
        if !backed {
            self.check_writable()?;
        }
        self.measure_disk();
        // Commits that wait for the end of the idle state are admitted by the space that the disk
        // has now.
        self.reserve.lock().is_idle = false;
        Ok(())
    }

    /// Sets the reserve of a store that was just opened. The map does not say which free space of
    /// the file is backed. If the disk has no space for the reserve, backed places are found by
    /// allocating, because allocating a place that is already backed needs no space. So the reserve
    /// that the store had when it was killed is found again.
    pub fn find_reserve(&self, dirty_limit: u64) -> Result<()> {
        self.check_writable()?;
        let one_at_a_time = self.resizing.lock().unwrap();
        self.set_reserve_under(&one_at_a_time, dirty_limit)?;
        let target = self.reserve.lock().target;
        if plant!("store: a full disk hides the reserve") {
            return Ok(());
        }
        let mut free: Vec<(u64, u64)> = {
            let space = self.space().lock();
            space.alloc.ranges_by_class().map(|(_, start, end)| (start, end)).collect()
        };
        free.sort_unstable();
        let (frontier, file_end) = {
            let space = self.space().lock();
            (space.alloc.frontier(), space.file_end())
        };
        let end = self.file().file.len().unwrap_or(0).min(file_end);
        free.push((frontier, end.max(frontier)));
        let pieces = free.into_iter().flat_map(|(start, end)| {
            let ends = move |at: u64| (at, (at + FIND_BYTES).min(end));
            (start..end).step_by(FIND_BYTES as usize).map(ends)
        });
        for (start, end) in pieces.take(FIND_PIECES_MAX) {
            let mut space = self.space().lock();
            if space.backed_free() >= target {
                break;
            }
            if space.backed.contains(start, end) {
                continue;
            }
            drop(space);
            match self.file().file.allocate(start, end - start) {
                Ok(()) => {
                    space = self.space().lock();
                    space.backed.insert(start, end);
                }
                Err(_) => self.check_writable()?,
            }
        }
        Ok(())
    }

    /// The state of the reserve.
    pub fn reserve_stats(&self) -> ReserveStats {
        let backed_free = self.space().lock().backed_free();
        let Reserve { target, admitted, disk_free, .. } = *self.reserve.lock();
        let admitted = admitted.saturating_sub(self.reserve.credit.sum());
        ReserveStats { target, admitted, backed_free, disk_free }
    }

    /// Measures the free space of the disk. A file system that does not answer counts as full:
    /// commits then use what is backed, and are refused after that, until it answers again.
    fn measure_disk(&self) {
        // What was punched can be backed again, as far as the disk has space.
        let unmapped = {
            let space = self.space().lock();
            space.file_end().saturating_sub(DATA_START).saturating_sub(space.backed.total())
        };
        let disk_free = self.disk_free().unwrap_or(0).min(unmapped);
        let mut reserve = self.reserve.lock();
        (reserve.disk_free, reserve.since) = (disk_free, 0);
    }

    /// Admits a commit that will add `bytes`: twice that is set aside for its apply. `Full` if it
    /// would need the reserve, which only deletes, drops and background work may use then.
    pub fn admit(&self, bytes: u64) -> Result<()> {
        let needed = bytes.saturating_mul(2);
        let by_credit = AdmissionCredit::serves(needed);
        // Credit was admitted earlier. If a write has failed since, the whole store has stopped
        // (`Guard::fail`).
        if by_credit && self.reserve.credit.take(needed) {
            return Ok(());
        }
        self.check_writable()?;
        if by_credit && self.try_admit(CREDIT, true) == Some(true) {
            self.reserve.credit.put(CREDIT - needed);
            return Ok(());
        }
        let mut recent = true;
        loop {
            match self.try_admit(needed, recent) {
                Some(true) => return Ok(()),
                Some(false) if plant!("store: commits are admitted on a full disk") => {
                    return Ok(());
                }
                Some(false) if recent => {
                    // Space may have been freed since the last measurement, and unused credit may
                    // suffice.
                    self.measure_disk();
                    self.reserve.return_credit();
                    recent = false;
                }
                Some(false) => break,
                None => self.end_idle()?,
            }
        }
        let ReserveStats { target, admitted, backed_free, disk_free } = self.reserve_stats();
        let size = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
        Err(Error::Full(format!(
            "the commit needs {}, earlier commits may still need up to {} and the reserve {}, and {} are \
             free: {} in the store and {} on the disk",
            size(needed),
            size(admitted),
            size(target),
            size(backed_free.saturating_add(disk_free)),
            size(backed_free),
            size(disk_free)
        )))
    }

    /// Admits `bytes` after measuring the disk; for operations that take much space in sequence.
    pub(super) fn admit_measured(&self, bytes: u64) -> Result<()> {
        self.check_writable()?;
        self.measure_disk();
        self.admit(bytes)
    }

    /// Whether there is space; `None` while the store is idle and most of the reserve is not
    /// backed.
    fn try_admit(&self, needed: u64, recent: bool) -> Option<bool> {
        let backed_free = self.space().lock().backed_free();
        let mut reserve = self.reserve.lock();
        if reserve.is_idle {
            return None;
        }
        if recent && reserve.since.saturating_add(needed) > MEASURE_EVERY {
            return Some(false);
        }
        let claimed = reserve.target.saturating_add(reserve.admitted).saturating_add(needed);
        let admitted = backed_free.saturating_add(reserve.disk_free) >= claimed;
        if admitted {
            reserve.admitted += needed;
            reserve.since += needed;
        }
        Some(admitted)
    }

    /// Releases `bytes` of admitted commits: they are applied and durable, or were given up.
    pub fn release_admitted(&self, bytes: u64) {
        let mut reserve = self.reserve.lock();
        reserve.admitted = reserve.admitted.saturating_sub(bytes.saturating_mul(2));
    }

    /// Makes the store idle, once everything is durable: gives back free disk space, and most of
    /// the reserve until the next commit, unless a commit is in progress. Returns the bytes given
    /// back.
    pub fn go_idle(&self) -> Result<u64> {
        self.check_writable()?;
        let one_at_a_time = self.resizing.lock().unwrap();
        self.reserve.return_credit();
        {
            // If space was admitted since, a commit is in progress.
            let mut reserve = self.reserve.lock();
            reserve.is_idle |= reserve.target > 0 && reserve.admitted == 0;
        }
        self.give_back_under(&one_at_a_time, 0, self.backed_target())
    }

    /// Backs all of the reserve again, as far as the disk has space: for the first commit after the
    /// store was idle.
    pub fn end_idle(&self) -> Result<()> {
        if !self.reserve.lock().is_idle {
            return Ok(());
        }
        let one_at_a_time = self.resizing.lock().unwrap();
        let Reserve { is_idle, dirty_limit, .. } = *self.reserve.lock();
        if is_idle { self.set_reserve_under(&one_at_a_time, dirty_limit) } else { Ok(()) }
    }

    /// Drops the reserve, except for what an idle store keeps if `is_kept`: for a clean close,
    /// after which nothing is written.
    pub fn drop_reserve(&self, is_kept: bool) {
        let mut reserve = self.reserve.lock();
        match is_kept {
            true => reserve.is_idle = true,
            false => reserve.target = 0,
        }
    }

    /// Bytes of the reserve that stay backed.
    fn backed_target(&self) -> u64 {
        let Reserve { target, is_idle, .. } = *self.reserve.lock();
        if !is_idle {
            return target;
        }
        let live = self.space().lock().stats().live;
        target.min(REST_BYTES + live / REST_DIVISOR)
    }

    /// Cuts off the free tail (except for the reserve) and punches free ranges of 1 MiB and more
    /// (64 KiB with `keep` 0), the highest first, until about `keep` bytes of backed free space are
    /// left. Returns the bytes given back. Call it after a checkpoint; with 0 when the store is
    /// idle or closes.
    pub fn give_back(&self, keep: u64) -> Result<u64> {
        self.check_writable()?;
        self.give_back_under(&self.resizing.lock().unwrap(), keep, self.backed_target())
    }

    /// Gives back all free space and half of the reserve, for the log, without which no delete can
    /// free more. The next [`set_reserve`](Self::set_reserve) backs it again.
    pub fn yield_to_log(&self) -> Result<u64> {
        self.check_writable()?;
        self.give_back_under(&self.resizing.lock().unwrap(), 0, self.backed_target() / 2)
    }

    fn give_back_under(&self, _: &MutexGuard<'_, ()>, keep: u64, target: u64) -> Result<u64> {
        let slots_end = self.slots_file_bytes();
        let (cut_at, excess, before) = {
            let mut space = self.space().lock();
            let before = space.backed.total();
            let cut_at = space.cut_tail(target).max(slots_end);
            (cut_at, space.backed_free().saturating_sub(keep.saturating_add(target)), before)
        };
        let len = self.file().file.len().unwrap_or(0);
        let failed = |action| move |e| Error::io(self.file().path(), action, cut_at, e);
        if len > cut_at {
            self.file().file.set_len(cut_at).map_err(failed("cut"))?;
        }
        let least = if keep == 0 { PUNCH_BYTES_MIN_IDLE } else { PUNCH_BYTES_MIN };
        let held = self.space().lock().hold_free(excess, least);
        let punched = held.iter().flat_map(|held| &held.punched).try_for_each(|&(start, end)| {
            self.file().file.punch(start, end - start).map_err(failed("punch"))
        });
        let mut space = self.space().lock();
        space.put_back(held);
        punched.map(|()| before.saturating_sub(space.backed.total()))
    }
}

impl Inner {
    /// Undoes an allocation to which nothing was written, or which nothing links.
    pub fn undo_allocation(&mut self, offset: u64) {
        if let Some(record) = self.extents.get(&offset).copied() {
            self.free(offset, record);
        }
    }

    /// Allocates an extent in backed space: among the free ranges of its class, in a region of no
    /// class, or else at the start of the reserve. Taking a region of the reserve for each page
    /// would use it up at once.
    fn allocate_backed_only(
        &mut self,
        request: &Request,
        bytes: u32,
        temporary: bool,
    ) -> Option<Extent> {
        let length = u64::from(bytes);
        let backed = |(_, start, end): (_, u64, u64)| {
            let mut parts = self.backed.within(start, end).into_iter();
            parts.find(|&(start, end)| end - start >= length).map(|(start, _)| start)
        };
        let free = |class| self.alloc.ranges_by_class().filter(move |&(of, ..)| of == class);
        let place = free(Some(request.class)).find_map(backed).or(free(None).find_map(backed));
        let offset = match place {
            Some(offset) => {
                self.alloc.allocate_at(request.class, offset, length);
                offset
            }
            None => {
                let frontier = self.alloc.frontier();
                if !self.backed.contains(frontier, frontier + length) {
                    return None;
                }
                self.alloc.allocate_at_frontier(request.class, length)
            }
        };
        Some(self.record_allocated(request, Extent { offset, bytes }, temporary))
    }

    /// Where the file must end so that its space map can be read. Extents that are beyond it
    /// already are listed already.
    fn file_end(&self) -> u64 {
        match plant!("bounds: the map is not asked before the file grows") {
            true => OFFSET_MAX,
            false => mapped_end(self.pins.lineage_pins()).max(self.end()),
        }
    }

    /// Bytes that are free and backed.
    pub fn backed_free(&self) -> u64 {
        self.backed.total().saturating_sub(self.used_bytes())
    }

    /// Removes everything beyond the reserve from the set of backed places; returns the length that
    /// the file should have.
    fn cut_tail(&mut self, reserve: u64) -> u64 {
        let end = self.end();
        let frontier = self.alloc.frontier().max(DATA_START);
        let keep = if reserve > 0 { frontier + reserve } else { end };
        let keep = keep.max(end).next_multiple_of(ALIGN as u64);
        self.backed.remove(keep, u64::MAX);
        // Never longer than what is backed: backing the reserve may have failed.
        let beyond = self.backed.within(end, keep);
        beyond.last().map_or(end, |&(_, e)| e)
    }

    /// Takes backed free ranges out of the allocator, the highest first, about `excess` bytes.
    pub(super) fn hold_free(&mut self, excess: u64, least: u64) -> Vec<Held> {
        let mut free: Vec<_> = self.alloc.ranges_by_class().collect();
        free.sort_unstable_by_key(|&(_, start, _)| std::cmp::Reverse(start));
        let (mut held, mut bytes) = (Vec::new(), 0);
        for (class, start, end) in free {
            let mut backed = self.backed.within(start, end);
            backed.retain(|(start, end)| end - start >= least);
            for punched in parts_to_hold(class, backed) {
                let Some((&(first, _), &(_, last))) = punched.first().zip(punched.last()) else {
                    continue;
                };
                let (start, end) = if class.is_some() { (first, last) } else { (start, end) };
                if bytes >= excess || !self.alloc.hold(class, start, end) {
                    continue;
                }
                for &(start, end) in &punched {
                    self.backed.remove(start, end);
                    bytes += end - start;
                }
                held.push(Held { class, start, end, punched });
            }
        }
        held
    }

    /// Ends a [`hold_free`](Self::hold_free).
    pub(super) fn put_back(&mut self, held: Vec<Held>) {
        for held in held {
            self.alloc.put_back(held.class, held.start, held.end);
        }
    }
}

/// Groups the backed parts of one free range as they are held: one by one inside a class, all at
/// once outside.
fn parts_to_hold(class: Option<Class>, backed: Vec<(u64, u64)>) -> Vec<Vec<(u64, u64)>> {
    match class {
        Some(_) => backed.into_iter().rev().map(|part| vec![part]).collect(),
        None => vec![backed],
    }
}
