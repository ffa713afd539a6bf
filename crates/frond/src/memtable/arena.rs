//! The memory of one memtable: records and nodes, bump-allocated in frames, addressed by 32 bits.
//!
//! An address counts units of 4 bytes over frames in order of registration: frame number × 4096 +
//! unit. At half the size of a pointer, it halves the cost of a node's slots and of a record's
//! link. A record larger than a quarter of a frame gets a heap allocation, registered like a frame.
//!
//! | record | bytes |
//! |---|---|
//! | link: address of the next version, 0 none | 4 |
//! | key length (17 bits) \| payload length (15 bits; all ones: it follows) | 4 |
//! | seqno (56 bits) \| tag (8 bits) | 8 |
//! | \[payload length\] | 4 |
//! | key, payload | |
//!
//! Invariants
//! 1. Nothing is freed before the arena drops: a thread that has an address may read it while the
//!    arena is borrowed.
//! 2. An [`At<T>`] is created in three ways only: by placing a `T` (or a record) in an arena; by an
//!    `Acquire` load of an [`AtomicAt<T>`] into which one was stored with `Release`; or by copying
//!    it from a structure that was published after that and is read through the publication (levels
//!    of range deletes). So the object it names was completely written before, in the same arena:
//!    an `At` never leaves the arena's owner.
//! 3. A placed object changes afterwards only through atomics. Record bytes never change.
//! 4. A [`Writer`] owns the free ends of the frames that it took; no two writers share one.
//! 5. Every byte of a frame is initialised: placed types have no padding. The frame goes back to
//!    the pool as plain bytes.
//!
//! Threads: all. In this module, `unsafe` is confined to this file and `node.rs`.

use std::{alloc::Layout, marker::PhantomData, mem, num::NonZeroU32, ptr, slice};

use crate::{
    Seqno,
    cache::{FRAME_BYTES, Frame, FrameMemory, FramePool},
    message::{Kind, Message, Tag},
    prefetch::{CACHE_LINE_BYTES, prefetch},
    striped::{CacheLine, Striped},
    sync::{Arc, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Mutex, Ordering, thread_number},
};

/// The unit of addresses.
const UNIT_BYTES: usize = 4;
/// Units of a frame: the low bits of an address.
const FRAME_UNITS_LOG: u32 = (FRAME_BYTES / UNIT_BYTES).trailing_zeros();
/// Frames per segment of the frame table: 8 KiB of pointers reach 16 MiB. (The model checker's
/// atomics are large and slow to create: it gets small tables.)
const SEGMENT_FRAMES: usize = if cfg!(shuttle) { 8 } else { 1024 };
const SEGMENT_FRAMES_LOG: u32 = SEGMENT_FRAMES.trailing_zeros();
/// Segments, enough that every 32-bit address has its place.
const SEGMENTS: usize =
    if cfg!(shuttle) { 2 } else { 1 << (32 - FRAME_UNITS_LOG - SEGMENT_FRAMES_LOG) };
/// Longer records get a heap allocation of their own, so that they do not waste the end of a frame.
const RECORD_IN_FRAME_BYTES_MAX: usize = FRAME_BYTES / 4;
/// Slots where writers leave half-used frames for the next writer. If there are more writers at
/// once than slots, each additional writer starts a new frame.
const FREE_ENDS: usize = if cfg!(shuttle) { 1 } else { 16 };

const PAYLOAD_BITS: u32 = 15;
/// Value of the short length field that means: the payload length follows.
const PAYLOAD_LENGTH_FOLLOWS: u32 = (1 << PAYLOAD_BITS) - 1;
const SEQNO_BITS: u32 = 56;

type Segment = [AtomicPtr<u8>; SEGMENT_FRAMES];

/// Types that may be placed in an arena.
///
/// # Safety
/// The type has no padding (invariant 5), no destructor that matters, and may be shared between
/// threads.
pub(super) unsafe trait Placed: Sync {}

/// Declares a struct that may be placed: `repr(C)`, with a proof that it has no padding.
macro_rules! placed {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        pub(in crate::memtable) struct $name {
            $($(#[$field_doc])* pub(in crate::memtable) $field: $kind,)*
        }

        #[cfg(not(shuttle))]
        const _: () = {
            assert!(size_of::<$name>() == 0 $(+ size_of::<$kind>())*, "no padding");
            assert!(!std::mem::needs_drop::<$name>());
        };

        // SAFETY: no padding and nothing to drop, by the assertions above (the model checker's
        // atomics have both, and its frames are wiped on return); every field is an atomic or never
        // changes.
        unsafe impl $crate::memtable::arena::Placed for $name {}
    };
}
pub(super) use placed;

/// Address of a `T` in an arena.
pub(super) struct At<T> {
    word: NonZeroU32,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for At<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for At<T> {}

impl<T> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl<T> At<T> {
    fn of_word(word: u32) -> Option<Self> {
        NonZeroU32::new(word).map(|word| At { word, kind: PhantomData })
    }
}

/// An atomic place for an address, empty at first.
#[repr(transparent)]
pub(super) struct AtomicAt<T> {
    word: AtomicU32,
    kind: PhantomData<fn() -> T>,
}

impl<T> AtomicAt<T> {
    pub(super) fn empty() -> Self {
        Self { word: AtomicU32::new(0), kind: PhantomData }
    }

    /// Loads the address. `Acquire` pairs with the `Release` of `store` and `replace` (invariant
    /// 2).
    #[inline]
    pub(super) fn load(&self) -> Option<At<T>> {
        At::of_word(self.word.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn store(&self, at: Option<At<T>>) {
        self.word.store(at.map_or(0, |at| at.word.get()), Ordering::Release);
    }

    /// Replaces `old` with `new`; if the current value is not `old`, returns it.
    pub(super) fn replace(&self, old: Option<At<T>>, new: At<T>) -> Result<(), Option<At<T>>> {
        let old = old.map_or(0, |at| at.word.get());
        self.word
            .compare_exchange(old, new.word.get(), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(At::of_word)
    }
}

placed! {
    /// The fixed part of a record.
    RecordHead {
        link: AtomicAt<RecordHead>,
        lengths: u32,
        /// Seqno and tag, low half first: two words, because records are aligned to 4.
        stamp: [u32; 2],
    }
}

/// One version of one key; or, with the start as key and the end as payload, a range delete.
#[derive(Clone, Copy)]
pub(super) struct Record<'a> {
    head: &'a RecordHead,
    bytes: &'a [u8],
    key_bytes: usize,
}

impl<'a> Record<'a> {
    #[inline]
    pub(super) fn key(&self) -> &'a [u8] {
        &self.bytes[..self.key_bytes]
    }

    #[inline]
    pub(super) fn payload(&self) -> &'a [u8] {
        &self.bytes[self.key_bytes..]
    }

    #[inline]
    pub(super) fn seqno(&self) -> Seqno {
        Seqno(self.stamp() >> 8)
    }

    pub(super) fn message(&self) -> Message<'a> {
        match Tag::from_disk(self.stamp() as u8) {
            Some(tag) => Message::new(tag, self.payload()),
            None => unreachable!("records are written with valid tags"),
        }
    }

    /// True if it gives its key a value, rather than deleting it.
    pub(super) fn is_value(&self) -> bool {
        self.message().tag.kind() != Kind::Delete
    }

    #[inline]
    pub(super) fn link(&self) -> &'a AtomicAt<RecordHead> {
        &self.head.link
    }

    #[inline]
    fn stamp(&self) -> u64 {
        let [low, high] = self.head.stamp;
        u64::from(high) << 32 | u64::from(low)
    }
}

/// The arena.
pub(super) struct Arena {
    segments: Box<[AtomicPtr<Segment>]>,
    /// Frames for records.
    free_ends: Striped<FreeEnd, FREE_ENDS>,
    /// The frame for nodes, kept separate: what a descent touches lies in few pages.
    nodes: CacheLine<FreeEnd>,
    owned: Mutex<Owned>,
    bytes: AtomicUsize,
    pool: Arc<FramePool>,
}

/// Memory that the arena must release.
#[derive(Default)]
struct Owned {
    /// Number of registered pieces: frames and heap allocations.
    pieces: usize,
    frames: Vec<FrameMemory>,
    heap: Vec<(*mut u8, Layout)>,
}

// SAFETY: the heap pieces are owned by the arena, which uses their addresses only when it drops.
unsafe impl Send for Owned {}

/// Where a writer leaves the free end of its frame for the next writer; [`TAKEN`] while a writer
/// has it.
type FreeEnd = AtomicU64;

const TAKEN: u64 = u64::MAX;
const NONE: u64 = u64::MAX - 1;

/// The free end of a frame.
#[derive(Clone, Copy)]
struct Piece {
    frame: u32,
    /// First free byte; `FRAME_BYTES` for a full frame.
    used: u32,
    base: *mut u8,
}

/// An allocator for one thread, which synchronises only once per frame.
pub(super) struct Writer<'a> {
    arena: &'a Arena,
    free_end: Option<&'a FreeEnd>,
    records: Option<Piece>,
}

impl Arena {
    pub(super) fn pool(&self) -> &Arc<FramePool> {
        &self.pool
    }

    pub(super) fn new(pool: Arc<FramePool>) -> Self {
        Self {
            segments: (0..SEGMENTS).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            free_ends: Striped::new(|| FreeEnd::new(NONE)),
            nodes: CacheLine(FreeEnd::new(NONE)),
            owned: Mutex::new(Owned::default()),
            bytes: AtomicUsize::new(0),
            pool,
        }
    }

    /// Bytes of memory held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Creates a writer, which continues half-used frames where it finds them.
    pub(super) fn writer(&self) -> Writer<'_> {
        // Threads start their search at different stripes.
        let first = thread_number();
        for step in 0..FREE_ENDS {
            let free_end = self.free_ends.at(first.wrapping_add(step));
            if let Some(records) = self.take(free_end) {
                return Writer { arena: self, free_end: Some(free_end), records };
            }
        }
        Writer { arena: self, free_end: None, records: None }
    }

    /// Takes the free end; it is the caller's until it is left there again. `None`: another
    /// writer has it.
    fn take(&self, free_end: &FreeEnd) -> Option<Option<Piece>> {
        // Acquire pairs with the Release of `leave`: what was written into the frame before happens
        // before what is written now.
        let packed = free_end.swap(TAKEN, Ordering::Acquire);
        (packed != TAKEN).then(|| self.unpack(packed))
    }

    fn leave(&self, free_end: &FreeEnd, piece: Option<Piece>) {
        let packed =
            piece.map_or(NONE, |piece| u64::from(piece.frame) << 32 | u64::from(piece.used));
        free_end.store(packed, Ordering::Release);
    }

    fn unpack(&self, packed: u64) -> Option<Piece> {
        (packed < NONE).then(|| {
            let frame = (packed >> 32) as u32;
            Piece { frame, used: packed as u32, base: self.base(frame) }
        })
    }

    /// Base of a registered frame or heap piece.
    #[inline]
    fn base(&self, frame: u32) -> *mut u8 {
        let segment = self.segments[(frame >> SEGMENT_FRAMES_LOG) as usize].load(Ordering::Relaxed);
        debug_assert!(!segment.is_null());
        // SAFETY: a caller that names a frame got its number (or an address in it) from the thread
        // that registered it, through an Acquire load or the lock, hence after the segment and the
        // base were stored, and relaxed loads see them. The arena owns the segments.
        unsafe { (*segment)[frame as usize & (SEGMENT_FRAMES - 1)].load(Ordering::Relaxed) }
    }

    #[inline]
    fn pointer(&self, word: u32) -> *mut u8 {
        let offset = (word as usize & ((1 << FRAME_UNITS_LOG) - 1)) * UNIT_BYTES;
        // SAFETY: an address points into its piece (invariant 2).
        unsafe { self.base(word >> FRAME_UNITS_LOG).add(offset) }
    }

    /// The object at an address.
    #[inline]
    pub(super) fn get<T: Placed>(&self, at: At<T>) -> &T {
        // SAFETY: invariant 2: a T was written here, in this arena, before its address could be
        // known; invariant 1: it stays; invariant 3: it changes only through atomics.
        unsafe { &*self.pointer(at.word.get()).cast::<T>() }
    }

    /// The memory of an object and of what was placed after it.
    #[inline]
    pub(super) fn raw<T: Placed>(&self, at: At<T>) -> *const u8 {
        self.pointer(at.word.get())
    }

    /// Prefetches the first `bytes` of an object.
    #[inline]
    pub(super) fn prefetch<T>(&self, at: At<T>, bytes: usize) {
        let base = self.pointer(at.word.get());
        for line in (0..bytes).step_by(CACHE_LINE_BYTES) {
            prefetch(base.wrapping_add(line));
        }
    }

    /// The record at an address.
    #[inline]
    pub(super) fn record(&self, at: At<RecordHead>) -> Record<'_> {
        let head = self.get(at);
        let key_bytes = (head.lengths >> PAYLOAD_BITS) as usize;
        let short = head.lengths & PAYLOAD_LENGTH_FOLLOWS;
        // SAFETY: a record's bytes follow its head in the same piece, with the lengths that the
        // head states, written before the address was known (invariant 2) and never changed (3).
        let bytes = unsafe {
            let mut start = self.raw(at).add(size_of::<RecordHead>());
            let mut payload_bytes = short as usize;
            if short == PAYLOAD_LENGTH_FOLLOWS {
                payload_bytes = start.cast::<u32>().read() as usize;
                start = start.add(size_of::<u32>());
            }
            slice::from_raw_parts(start, key_bytes + payload_bytes)
        };
        Record { head, bytes, key_bytes }
    }

    /// Registers a new frame, or a heap allocation of the given layout, in the table.
    fn register(&self, heap: Option<Layout>) -> Piece {
        let mut owned;
        let (base, bytes) = match heap {
            Some(layout) => {
                // SAFETY: the layout is not empty: it starts with a record's head.
                let base = unsafe { std::alloc::alloc_zeroed(layout) };
                assert!(
                    !base.is_null(),
                    "out of memory: cannot allocate a record of {} bytes",
                    layout.size()
                );
                owned = self.owned.lock().unwrap();
                owned.heap.push((base, layout));
                (base, layout.size())
            }
            None => {
                let frame = self.pool.take().unwrap_or_else(|| self.pool.take_reserve());
                let mut memory = frame.into_memory();
                let base = memory.base();
                owned = self.owned.lock().unwrap();
                owned.frames.push(memory);
                (base, FRAME_BYTES)
            }
        };
        let frame = owned.pieces;
        owned.pieces += 1;
        let segment = &self.segments[frame >> SEGMENT_FRAMES_LOG];
        if segment.load(Ordering::Relaxed).is_null() {
            let new: Box<Segment> =
                Box::new(std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())));
            segment.store(Box::into_raw(new), Ordering::Release);
        }
        // SAFETY: not null by the lines above, and it lives as long as the arena.
        let entry = unsafe { &(*segment.load(Ordering::Relaxed))[frame % SEGMENT_FRAMES] };
        entry.store(base, Ordering::Release);
        drop(owned);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Piece { frame: frame as u32, used: 0, base }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut owned = mem::take(&mut *self.owned.lock().unwrap());
        #[cfg_attr(not(shuttle), allow(unused_mut))]
        for mut frame in owned.frames.drain(..) {
            #[cfg(shuttle)]
            // SAFETY: the arena owns the frame; the model checker's atomics may leave padding.
            unsafe {
                ptr::write_bytes(frame.base(), 0, FRAME_BYTES)
            };
            // No code can have an address any more, as the arena is not borrowed, and every byte is
            // initialised (5).
            drop(Frame::from_memory(frame, self.pool.clone()));
        }
        for (base, layout) in owned.heap.drain(..) {
            // SAFETY: allocated in `register` with this layout; no code has an address any more.
            unsafe { std::alloc::dealloc(base, layout) };
        }
        for segment in &mut self.segments {
            let segment = segment.load(Ordering::Relaxed);
            if !segment.is_null() {
                // SAFETY: came from `Box::into_raw` in `register`.
                drop(unsafe { Box::from_raw(segment) });
            }
        }
    }
}

impl<'a> Writer<'a> {
    pub(super) fn arena(&self) -> &'a Arena {
        self.arena
    }

    /// Writes a record with an empty `link`.
    #[inline]
    pub(super) fn record(
        &mut self,
        seqno: Seqno,
        tag: Tag,
        key: &[u8],
        payload: &[u8],
    ) -> At<RecordHead> {
        assert!(seqno.0 < 1 << SEQNO_BITS && key.len() < 1 << (32 - PAYLOAD_BITS));
        let long = payload.len() >= PAYLOAD_LENGTH_FOLLOWS as usize;
        let follows = if long { size_of::<u32>() } else { 0 };
        let bytes = size_of::<RecordHead>() + follows + key.len() + payload.len();
        let (base, word) = self.allocate_record(bytes);
        let short = if long { PAYLOAD_LENGTH_FOLLOWS } else { payload.len() as u32 };
        let stamp = seqno.0 << 8 | u64::from(tag.to_disk());
        let head = RecordHead {
            link: AtomicAt::empty(),
            lengths: (key.len() as u32) << PAYLOAD_BITS | short,
            stamp: [stamp as u32, (stamp >> 32) as u32],
        };
        // SAFETY: `bytes` bytes from `base` on are this writer's alone (4), aligned for the head,
        // and the pieces written add up to `bytes`.
        unsafe {
            base.cast::<RecordHead>().write(head);
            let mut end = base.add(size_of::<RecordHead>());
            if long {
                end.cast::<u32>().write(u32::try_from(payload.len()).unwrap_or(u32::MAX));
                end = end.add(follows);
            }
            ptr::copy_nonoverlapping(key.as_ptr(), end, key.len());
            ptr::copy_nonoverlapping(payload.as_ptr(), end.add(key.len()), payload.len());
        }
        At { word, kind: PhantomData }
    }

    #[inline]
    fn allocate_record(&mut self, bytes: usize) -> (*mut u8, NonZeroU32) {
        if bytes > RECORD_IN_FRAME_BYTES_MAX {
            return self.allocate_heap_piece(bytes);
        }
        let arena = self.arena;
        bump(arena, &mut self.records, bytes, align_of::<RecordHead>())
    }

    #[cold]
    fn allocate_heap_piece(&mut self, bytes: usize) -> (*mut u8, NonZeroU32) {
        assert!(bytes < u32::MAX as usize, "a payload's length has 32 bits");
        let align = align_of::<RecordHead>();
        // One unit is left free in front, so that the address is not 0 in the very first piece.
        let Ok(layout) = Layout::from_size_align(bytes + align, align) else {
            unreachable!("a record's length is far below the address space")
        };
        let mut piece = Some(self.arena.register(Some(layout)));
        claim(&mut piece, bytes, align, bytes + align)
            .unwrap_or_else(|| unreachable!("the piece was made for this record"))
    }

    /// Allocates in the frame for nodes, or in a new frame if another writer has it at the moment.
    fn allocate_shared(&mut self, bytes: usize, align: usize) -> (*mut u8, NonZeroU32) {
        let arena = self.arena;
        let taken = arena.take(&arena.nodes.0);
        let mut piece = taken.flatten();
        let claimed = bump(arena, &mut piece, bytes, align);
        if taken.is_some() {
            arena.leave(&arena.nodes.0, piece);
        } else if self.records.is_none_or(|records| records.used as usize > FRAME_BYTES / 2) {
            self.records = piece; // the rest of that frame is worth more than the rest of this one
        }
        claimed
    }

    /// Places an object that other threads will share.
    pub(super) fn place<T: Placed>(&mut self, object: T) -> At<T> {
        let (base, word) = self.allocate_shared(size_of::<T>(), align_of::<T>().max(UNIT_BYTES));
        // SAFETY: the memory is this writer's alone (4), large enough and aligned.
        unsafe { base.cast::<T>().write(object) };
        At { word, kind: PhantomData }
    }

    /// Places an object followed by more bytes, which `fill` writes, given the base of the whole.
    ///
    /// # Safety
    /// `fill` initialises every byte from `size_of::<T>()` to `bytes`, and nothing beyond.
    pub(super) unsafe fn place_with<T: Placed>(
        &mut self,
        object: T,
        bytes: usize,
        fill: impl FnOnce(*mut u8),
    ) -> At<T> {
        debug_assert!(bytes >= size_of::<T>());
        let (base, word) = self.allocate_shared(bytes, CACHE_LINE_BYTES);
        // SAFETY: as in `place`; a cache line's alignment is above every placed type's.
        unsafe { base.cast::<T>().write(object) };
        fill(base);
        At { word, kind: PhantomData }
    }
}

/// Takes `bytes` from the free end, or from a new frame.
#[inline]
fn bump(
    arena: &Arena,
    end: &mut Option<Piece>,
    bytes: usize,
    align: usize,
) -> (*mut u8, NonZeroU32) {
    match claim(end, bytes, align, FRAME_BYTES) {
        Some(claimed) => claimed,
        None => bump_in_new_frame(arena, end, bytes, align),
    }
}

#[cold]
fn bump_in_new_frame(
    arena: &Arena,
    end: &mut Option<Piece>,
    bytes: usize,
    align: usize,
) -> (*mut u8, NonZeroU32) {
    *end = Some(arena.register(None));
    claim(end, bytes, align, FRAME_BYTES)
        .unwrap_or_else(|| unreachable!("{bytes} bytes are less than a frame"))
}

#[inline]
fn claim(
    end: &mut Option<Piece>,
    bytes: usize,
    align: usize,
    piece_bytes: usize,
) -> Option<(*mut u8, NonZeroU32)> {
    let piece = end.as_mut()?;
    // Unit 0 of the first piece stays free: its address would be 0, which means none.
    let used = (piece.used as usize).max(1).next_multiple_of(align);
    if used + bytes > piece_bytes {
        return None;
    }
    piece.used = (used + bytes) as u32;
    let word = piece.frame << FRAME_UNITS_LOG | (used / UNIT_BYTES) as u32;
    // SAFETY: inside the piece, by the comparison above.
    let base = unsafe { piece.base.add(used) };
    NonZeroU32::new(word).map(|word| (base, word))
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if let Some(free_end) = self.free_end {
            self.arena.leave(free_end, self.records);
        }
    }
}
