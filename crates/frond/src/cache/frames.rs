//! Frames: the recycled memory of everything large.
//!
//! The first touch of a page costs as much as merging its content (1.4–11 µs per 4 KiB on virtual
//! machines), and a general allocator returns large pieces to the system and maps them again. So
//! memtable arenas, unwritten runs and I/O buffers take 16 KiB frames from one pool, and cached
//! blocks take memory of their exact length from the same pool: memory that one use gives back is
//! available to every other. Both are spans of slabs ([`spans`](super::spans)).
//!
//! Invariants
//! 1. Frames are aligned to 4096, so any of them can be used for direct I/O.
//! 2. `frames_used` never exceeds the limit, except through `take_reserve` (background work: Rule
//!    I36).
//! 3. The bytes of a frame or of other pool memory are unspecified when it is taken, but
//!    initialised (no uninitialised memory is ever visible).
//!
//! Threads: all.

use std::{
    fmt,
    ops::{Deref, DerefMut, Range},
};

use super::spans::{SPAN_BYTES_MAX, Span, Spans};
use crate::sync::{Arc, AtomicUsize, Mutex, Ordering};

/// Size of a frame.
pub const FRAME_BYTES: usize = 16 << 10;

/// Frames kept in a spare list, so that the next user gets memory that is still in a processor's
/// cache, and needs no search.
const SPARE_MAX: usize = 64;
/// Frames fetched into the spare list at once.
const SPARE_FETCHED: usize = 8;
/// The shortest [`Kept`].
const KEPT_BYTES_MIN: usize = 512;
/// The alignment that direct I/O requires.
const ALIGN: usize = 4096;

/// The memory of one frame.
pub(crate) struct FrameMemory(Span);

impl FrameMemory {
    /// The address of the memory, for an owner that shares it through pointers of its own while it
    /// keeps this object.
    pub fn base(&mut self) -> *mut u8 {
        self.0.base()
    }
}

/// The pool of frames and of cached blocks' memory.
pub struct FramePool {
    limit: AtomicUsize,
    used: AtomicUsize,
    /// Bytes held as [`Kept`].
    kept: AtomicUsize,
    spare: Mutex<Vec<FrameMemory>>,
    spans: Spans,
}

/// One frame; returned to its pool when dropped.
pub struct Frame {
    memory: Option<FrameMemory>,
    pool: Arc<FramePool>,
}

/// Pool memory of any length; returned to its pool when dropped.
pub(super) struct Memory {
    span: Option<Span>,
    bytes: usize,
    pool: Arc<FramePool>,
}

/// Pool memory that stays with an open run; counted separately ([`FramePool::kept_bytes`]).
pub(crate) struct Kept(Memory);

impl Deref for Kept {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Kept {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.pool.kept.fetch_sub(self.0.bytes, Ordering::Relaxed);
    }
}

impl FramePool {
    /// The longest [`Memory`].
    pub(super) const MEMORY_BYTES_MAX: usize = SPAN_BYTES_MAX;

    /// Creates a pool that hands out frames of at most `bytes` (rounded up to frames). It takes no
    /// more than `bytes` from the system unless a call goes beyond the limit explicitly.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(bytes.div_ceil(FRAME_BYTES)),
            used: AtomicUsize::new(0),
            kept: AtomicUsize::new(0),
            spare: Mutex::new(Vec::new()),
            spans: Spans::new(bytes),
        })
    }

    /// Takes a frame; `None` when the budget is used up: the caller then evicts, waits or fails.
    pub fn take(self: &Arc<Self>) -> Option<Frame> {
        let limit = self.limit.load(Ordering::Relaxed);
        let grown = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            (used < limit).then_some(used + 1)
        });
        grown.ok().map(|_| self.hand_out())
    }

    /// Takes a frame beyond the budget, for background work that frees more than it takes
    /// (Rule: I36).
    pub fn take_reserve(self: &Arc<Self>) -> Frame {
        self.used.fetch_add(1, Ordering::Relaxed);
        self.hand_out()
    }

    fn hand_out(self: &Arc<Self>) -> Frame {
        let mut spare = self.spare.lock().unwrap();
        if spare.is_empty() {
            // The first frame is taken even if that needs new memory; the others only if it does
            // not.
            spare.push(FrameMemory(self.spans.take_beyond(FRAME_BYTES, ALIGN)));
            let more = || self.spans.take(FRAME_BYTES, ALIGN).map(FrameMemory);
            spare.extend(std::iter::from_fn(more).take(SPARE_FETCHED - 1));
        }
        Frame { memory: spare.pop(), pool: self.clone() }
    }

    /// Returns `bytes` bytes, at most `MEMORY_BYTES_MAX`. `None` if the pool would have to take
    /// more from the system than it may.
    pub(super) fn memory(self: &Arc<Self>, bytes: usize) -> Option<Memory> {
        self.spans.take(bytes, 1).map(|span| self.owned(span, bytes))
    }

    /// Returns `bytes` bytes as [`memory`](Self::memory) does, but takes from the system whatever
    /// that needs.
    pub(super) fn memory_beyond(self: &Arc<Self>, bytes: usize) -> Memory {
        self.owned(self.spans.take_beyond(bytes, 1), bytes)
    }

    /// Returns `bytes` bytes to stay with an open run, and takes from the system whatever that
    /// needs. `None` if they exceed the longest span, or are so few that most of a span would be
    /// wasted.
    pub(crate) fn keep(self: &Arc<Self>, bytes: usize) -> Option<Kept> {
        if !(KEPT_BYTES_MIN..=Self::MEMORY_BYTES_MAX).contains(&bytes) {
            return None;
        }
        let memory = self.memory_beyond(bytes);
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        Some(Kept(memory))
    }

    /// Bytes held as [`Kept`].
    pub fn kept_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }

    fn owned(self: &Arc<Self>, span: Span, bytes: usize) -> Memory {
        Memory { span: Some(span), bytes, pool: self.clone() }
    }

    /// Frames in use.
    pub fn frames_used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes of frames in use.
    pub fn frames_bytes(&self) -> usize {
        self.frames_used() * FRAME_BYTES
    }

    /// The largest number of frames that may be in use.
    pub fn frames_limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// Bytes taken from the system.
    pub fn mapped_bytes(&self) -> usize {
        self.spans.mapped_bytes()
    }

    /// Bytes taken from the system that are in use, or spare frames.
    pub fn taken_bytes(&self) -> usize {
        self.spans.taken_bytes()
    }

    /// Changes how much may be taken from the system before users that can do with less have to.
    pub fn set_mapped_limit(&self, bytes: usize) {
        self.spans.set_limit(bytes);
    }
}

impl Memory {
    /// Bytes of the pool that this memory occupies.
    pub fn held_bytes(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.bytes().len())
    }
}

impl Deref for Memory {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.span {
            Some(span) => &span.bytes()[..self.bytes],
            None => unreachable!("memory has its bytes until it is dropped"),
        }
    }
}

impl DerefMut for Memory {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.span {
            Some(span) => &mut span.bytes_mut()[..self.bytes],
            None => unreachable!("memory has its bytes until it is dropped"),
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            self.pool.spans.give_back(span);
        }
    }
}

impl Frame {
    /// Takes the memory out; it still counts as used. For arenas, which share it through pointers
    /// of their own and give it back with [`from_memory`](Self::from_memory).
    pub(crate) fn into_memory(mut self) -> FrameMemory {
        match self.memory.take() {
            Some(memory) => memory,
            None => unreachable!("a frame has its bytes until it is dropped"),
        }
    }

    /// Rebuilds the frame whose memory was taken out of this pool.
    pub(crate) fn from_memory(memory: FrameMemory, pool: Arc<FramePool>) -> Frame {
        Frame { memory: Some(memory), pool }
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "FramePool({} of {} frames, {:?})",
            self.frames_used(),
            self.frames_limit(),
            self.spans
        )
    }
}

impl Deref for Frame {
    type Target = [u8; FRAME_BYTES];

    fn deref(&self) -> &Self::Target {
        match self.memory.as_ref().and_then(|memory| memory.0.bytes().first_chunk()) {
            Some(bytes) => bytes,
            None => unreachable!("a frame has its bytes until it is dropped"),
        }
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self.memory.as_mut().and_then(|memory| memory.0.bytes_mut().first_chunk_mut()) {
            Some(bytes) => bytes,
            None => unreachable!("a frame has its bytes until it is dropped"),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Frame")
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        self.pool.used.fetch_sub(1, Ordering::Relaxed);
        let mut spare = self.pool.spare.lock().unwrap();
        if spare.len() < SPARE_MAX {
            spare.push(memory);
        } else {
            drop(spare);
            self.pool.spans.give_back(memory.0);
        }
    }
}

/// An append-only byte string over frames: a run before it is written, or the target of a bulk
/// read.
#[derive(Debug)]
pub struct FrameBuf {
    frames: Vec<Frame>,
    len: usize,
    pool: Arc<FramePool>,
}

impl FrameBuf {
    /// An empty string.
    pub fn new(pool: Arc<FramePool>) -> Self {
        Self { frames: Vec::new(), len: 0, pool }
    }

    /// Length, bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends bytes.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let at = self.len % FRAME_BYTES;
            if at == 0 {
                let frame = self.pool.take().unwrap_or_else(|| self.pool.take_reserve());
                self.frames.push(frame);
            }
            let room = (FRAME_BYTES - at).min(bytes.len());
            let (now, later) = bytes.split_at(room);
            if let Some(frame) = self.frames.last_mut() {
                frame[at..at + room].copy_from_slice(now);
            }
            self.len += room;
            bytes = later;
        }
    }

    /// Pads with zeros to a multiple of `align`.
    pub fn pad_to(&mut self, align: usize) {
        const ZEROS: [u8; 4096] = [0; 4096];
        while !self.len.is_multiple_of(align) {
            let short = align - self.len % align;
            self.extend(&ZEROS[..short.min(ZEROS.len())]);
        }
    }

    /// The bytes of a range: borrowed if they lie in one frame, else copied into `scratch`.
    /// Panics if the range is beyond the end.
    pub fn get<'a>(&'a self, range: Range<usize>, scratch: &'a mut Vec<u8>) -> &'a [u8] {
        assert!(range.start <= range.end && range.end <= self.len, "range inside the buffer");
        if range.is_empty() {
            return &[];
        }
        let (first, last) = (range.start / FRAME_BYTES, (range.end - 1) / FRAME_BYTES);
        let at = range.start % FRAME_BYTES;
        if first == last {
            return &self.frames[first][at..at + range.len()];
        }
        scratch.clear();
        for index in first..=last {
            let from = if index == first { at } else { 0 };
            let to = if index == last { (range.end - 1) % FRAME_BYTES + 1 } else { FRAME_BYTES };
            scratch.extend_from_slice(&self.frames[index][from..to]);
        }
        scratch
    }

    /// The bytes of each frame in order, the last one cut to length: for vectored writes.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let len = self.len;
        self.frames
            .iter()
            .enumerate()
            .map(move |(index, frame)| &frame[..FRAME_BYTES.min(len - index * FRAME_BYTES)])
    }

    /// The bytes of a range if they lie in one frame. `None` also if the range is beyond the end.
    #[inline]
    pub fn contiguous(&self, range: Range<usize>) -> Option<&[u8]> {
        let at = range.start % FRAME_BYTES;
        let frame = self.frames.get(range.start / FRAME_BYTES)?;
        if range.end > self.len {
            return None;
        }
        frame.get(at..at + range.end.checked_sub(range.start)?)
    }

    /// Appends the bytes of a range to `out`. Panics if the range is beyond the end.
    pub fn copy_to(&self, range: Range<usize>, out: &mut Vec<u8>) {
        assert!(range.start <= range.end && range.end <= self.len, "range inside the buffer");
        let mut at = range.start;
        while at < range.end {
            let from = at % FRAME_BYTES;
            let now = (FRAME_BYTES - from).min(range.end - at);
            out.extend_from_slice(&self.frames[at / FRAME_BYTES][from..from + now]);
            at += now;
        }
    }

    /// Resizes to `bytes` of unspecified content and returns the slices to read into. Existing
    /// frames are reused.
    pub fn reserve_for_read(&mut self, bytes: usize) -> impl Iterator<Item = &mut [u8]> {
        let wanted = bytes.div_ceil(FRAME_BYTES);
        self.frames.truncate(wanted);
        while self.frames.len() < wanted {
            let frame = self.pool.take().unwrap_or_else(|| self.pool.take_reserve());
            self.frames.push(frame);
        }
        self.len = bytes;
        self.frames.iter_mut().enumerate().map(move |(index, frame)| {
            let part = FRAME_BYTES.min(bytes - index * FRAME_BYTES);
            &mut frame[..part]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_across_frames_are_copied_whole() {
        let mut buf = FrameBuf::new(FramePool::new(1 << 20));
        let bytes: Vec<u8> = (0..3 * FRAME_BYTES + 77).map(|i| (i % 251) as u8).collect();
        buf.extend(&bytes);
        let mut scratch = Vec::new();
        for range in [0..10, 16380..16390, 5..bytes.len(), 16384..32768, 40000..40000] {
            assert_eq!(buf.get(range.clone(), &mut scratch), &bytes[range]);
        }
        assert_eq!(buf.slices().map(<[u8]>::len).sum::<usize>(), bytes.len());
    }

    #[test]
    fn the_limit_holds_and_frames_return() {
        let pool = FramePool::new(2 * FRAME_BYTES);
        let (a, b) = (pool.take(), pool.take());
        assert!(a.is_some() && b.is_some() && pool.take().is_none());
        drop(a);
        assert_eq!(pool.frames_used(), 1);
        assert!(pool.take().is_some());
    }
}
