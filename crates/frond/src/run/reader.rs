//! The run itself, and reading it. A run is immutable and shared, and can be read from the moment
//! it is built.
//!
//! Invariants
//! 1. Everything but the blocks is resident; no call needs `&mut`.
//! 2. The blocks are in frames until [`Run::set_written`], and in the store's file after that. The
//!    switch is one atomic store; a reader that pinned a block before it keeps the frames alive.
//! 3. Bytes from the file are checked against the CRC in the index before they are decoded, and a
//!    block's structure before it is cached.
//!
//! Threads: all.

use std::{cell::RefCell, fmt, ops::Range};

use arc_swap::ArcSwap;

use super::{
    block_ref::{BlockGuard, Found},
    filter::Filter,
    footer::{BlobUse, Counts, Footer},
    index::{BlockEntry, BlockIndex},
    ranges::RangeDeletes,
    work::Work,
};
use crate::{
    block::{
        BadBlock, Chunks, Codec, ColumnarFormat, DecodeMeter, Dictionary, Format, NEWER, Packing,
        columnar::ColumnSelection,
    },
    bounds,
    cache::{BlockKey, BlockSlots, BlockSource, FrameBuf, FramePool, Load},
    error::{Error, Place, Result},
    io::ALIGN,
    page::{Link, PageKind, StoreFile},
    sync::{Arc, OnceLock, Ordering, ProcessU64},
};

/// An immutable sorted sequence of entries, at most one message per key.
pub struct Run {
    pub(super) footer: Footer,
    /// Length of the footer on disk, including its padding.
    pub(super) footer_bytes: u32,
    pub(super) data: ArcSwap<Data>,
    pub(super) pool: Arc<FramePool>,
    /// Counts decoding; columnar formats count their own.
    work: Option<Arc<Work>>,
    /// Memory of its dictionary, unless the dictionary is the tree's own.
    dictionary_bytes: usize,
    extent: u64,
    stamp: u64,
    /// The slots for frequently used blocks; created when a block is first asked for.
    pub(super) slots: OnceLock<Arc<BlockSlots>>,
}

/// The place of the blocks.
#[derive(Debug)]
pub(super) enum Data {
    Unwritten(FrameBuf),
    Written { file: Arc<StoreFile>, link: Link },
}

/// Cache keys of runs that are built here are above all file offsets.
static NEXT_UNWRITTEN: ProcessU64 = ProcessU64::new(1 << 63);

/// Aligned memory for reads from the file, and for joining what crosses frames. Reuse it.
#[derive(Debug)]
pub struct ReadBuf {
    frames: FrameBuf,
    joined: Vec<u8>,
}

/// The result of reading successive blocks together.
pub(super) struct Filled {
    /// Offset of the first block in the buffer.
    pub skip: usize,
    /// Offset of the first block in the run's data.
    pub start: usize,
    /// Length of all of them.
    pub bytes: usize,
}

impl ReadBuf {
    /// An empty buffer.
    pub fn new(pool: Arc<FramePool>) -> Self {
        Self { frames: FrameBuf::new(pool), joined: Vec::new() }
    }

    /// Reads `bytes` bytes at `offset`, which need not be aligned; the pages around them are read
    /// too. Returns where they start in the buffer.
    pub(super) fn fill(&mut self, file: &StoreFile, offset: u64, bytes: usize) -> Result<usize> {
        let skip = (offset % ALIGN as u64) as usize;
        let start = offset - skip as u64;
        let aligned = (skip + bytes).next_multiple_of(ALIGN);
        let mut slices: Vec<_> =
            self.frames.reserve_for_read(aligned).map(std::io::IoSliceMut::new).collect();
        file.file
            .read_vectored_at(&mut slices, start)
            .map_err(|e| Error::io(file.path(), "read", start, e))?;
        Ok(skip)
    }

    /// Reads successive blocks of the run at `link`, as stored.
    pub(super) fn fill_blocks(
        &mut self,
        file: &StoreFile,
        link: &Link,
        blocks: &[BlockEntry],
    ) -> Result<Filled> {
        let start = blocks.first().map_or(0, |entry| entry.offset as usize);
        let bytes = blocks.iter().map(|entry| entry.encoded_bytes as usize).sum();
        let skip = self.fill(file, link.offset + start as u64, bytes)?;
        Ok(Filled { skip, start, bytes })
    }

    /// Bytes of the last read.
    pub(super) fn device_bytes(&self) -> u64 {
        self.frames.len() as u64
    }

    /// Bytes of the last read, by their offset in the aligned read.
    pub(super) fn get(&mut self, start: usize, len: usize) -> &[u8] {
        self.frames.get(start..start + len, &mut self.joined)
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("entries", &self.entries())
            .field("blocks", &self.block_count())
            .field("data_bytes", &self.data_bytes())
            .field("link", &self.link())
            .finish_non_exhaustive()
    }
}

impl Run {
    /// A new name in the cache for the blocks of a run to be built.
    pub(super) fn new_extent() -> u64 {
        NEXT_UNWRITTEN.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn unwritten(
        footer: Footer,
        (extent, footer_bytes): (u64, u32),
        data: FrameBuf,
        pool: Arc<FramePool>,
        work: Option<Arc<Work>>,
    ) -> Self {
        let data = ArcSwap::from_pointee(Data::Unwritten(data));
        let dictionary_bytes = dictionary_bytes(&footer, work.as_deref());
        let slots = OnceLock::new();
        Self { footer, footer_bytes, data, pool, work, dictionary_bytes, extent, stamp: 0, slots }
    }

    /// Opens a run: reads and verifies its footer with one read.
    pub fn open(file: Arc<StoreFile>, link: Link, pool: Arc<FramePool>) -> Result<Arc<Run>> {
        Self::open_counted(file, link, pool, None)
    }

    /// Opens a run as [`open`](Self::open) does, and counts decoding in `work`.
    pub fn open_counted(
        file: Arc<StoreFile>,
        link: Link,
        pool: Arc<FramePool>,
        work: Option<Arc<Work>>,
    ) -> Result<Arc<Run>> {
        const WHAT: &str = "a run";
        let (bytes, footer_bytes) = (link.bytes, link.footer_bytes);
        let malformed = |why| file.malformed(link.offset, bytes.into(), WHAT, why);
        let aligned = link.offset.is_multiple_of(ALIGN as u64)
            && (bytes as usize).is_multiple_of(ALIGN)
            && link.offset.checked_add(bytes.into()).is_some();
        if !aligned
            || footer_bytes > bytes
            || footer_bytes as usize > bounds::RUN_FOOTER_BYTES.len()
        {
            return Err(malformed("its link has impossible lengths"));
        }
        let data_bytes = bytes - footer_bytes;
        let mut buf = ReadBuf::new(pool.clone());
        let skip = buf.fill(&file, link.offset + u64::from(data_bytes), footer_bytes as usize)?;
        let footer = buf.get(skip, footer_bytes as usize);
        file.verify(&link, PageKind::Run, WHAT, footer)?;
        let mut footer = Footer::from_disk(&link.identity(file.store, PageKind::Run), footer)
            .map_err(|flaw| file.flawed(link.offset, bytes.into(), WHAT, flaw))?;
        if footer.data_bytes != data_bytes {
            return Err(malformed("its data is not as long as its link says"));
        }
        if let (Format::Columnar(format), Some(work)) = (&mut footer.format, &work) {
            let meter: Arc<dyn DecodeMeter> = work.clone();
            *format = Arc::new(ColumnarFormat::clone(format).metered(Some(meter)));
        }
        if let Some(work) = &work {
            footer.dictionary = footer.dictionary.map(|its| work.dictionaries().share(its));
        }
        footer.filter = footer.filter.map(|filter| filter.pooled(&pool));
        let dictionary_bytes = dictionary_bytes(&footer, work.as_deref());
        let data = ArcSwap::from_pointee(Data::Written { file, link });
        let (extent, stamp, slots) = (link.offset, link.hash, OnceLock::new());
        let run =
            Run { footer, footer_bytes, data, pool, work, dictionary_bytes, extent, stamp, slots };
        Ok(Arc::new(run))
    }

    /// Number of keys.
    pub fn entries(&self) -> u64 {
        self.footer.counts.entries
    }

    /// Keys by kind, and raw bytes.
    pub fn counts(&self) -> Counts {
        self.footer.counts
    }

    /// Bytes of the blocks as stored.
    pub fn data_bytes(&self) -> u64 {
        self.footer.data_bytes.into()
    }

    /// Length of the extent that the run needs, or has.
    pub fn extent_bytes(&self) -> u32 {
        self.footer.data_bytes + self.footer_bytes
    }

    /// The smallest key; `None` if the run has only range deletes.
    pub fn first_key(&self) -> Option<&[u8]> {
        (!self.footer.index.is_empty()).then_some(&*self.footer.first_key)
    }

    /// The greatest key; `None` if the run has only range deletes.
    pub fn last_key(&self) -> Option<&[u8]> {
        (!self.footer.index.is_empty()).then_some(&*self.footer.last_key)
    }

    /// The codec of new blocks of this run's kind.
    pub fn codec(&self) -> Codec {
        self.footer.codec
    }

    /// How its blocks are encoded.
    #[inline]
    pub fn format(&self) -> &Format {
        &self.footer.format
    }

    /// The dictionary that some of its blocks are compressed with.
    pub fn dictionary(&self) -> Option<&Arc<Dictionary>> {
        self.footer.dictionary.as_ref()
    }

    /// Deleted ranges, older than all entries of the run (Rule: I26).
    pub fn range_deletes(&self) -> &RangeDeletes {
        &self.footer.range_deletes
    }

    /// Blobs that the run's rows refer to (Rule: I22).
    pub fn blobs(&self) -> &[BlobUse] {
        &self.footer.blobs
    }

    /// The filter, if the run has one.
    pub fn filter(&self) -> Option<&Filter> {
        self.footer.filter.as_ref()
    }

    /// The block index: separators, lengths, counts.
    pub fn blocks(&self) -> &BlockIndex {
        &self.footer.index
    }

    /// Number of blocks.
    pub fn block_count(&self) -> usize {
        self.footer.index.len()
    }

    /// The only block that can hold `key`; 0 if there is none.
    pub fn block_for(&self, key: &[u8]) -> usize {
        self.footer.index.block_for(key)
    }

    /// False only if the run has no key with this [`key_hash`](super::key_hash).
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        self.footer.filter.as_ref().is_none_or(|filter| filter.may_contain(hash))
    }

    /// Estimates the stored bytes in `[lo, hi)`; 0 only if the range is certainly empty.
    pub fn bytes_between(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> u64 {
        if self.certainly_empty(lo, hi) {
            return 0;
        }
        let (lo, hi) = self.within_keys(lo, hi);
        self.footer.index.estimate(lo, hi, |_, _| None).1
    }

    /// Estimates the entries in `[lo, hi)` that are no deletes, and the stored bytes of all;
    /// exactly, except for the share of deletes, where the blocks at its ends are in memory. 0 only
    /// if the range is certainly empty.
    pub fn held_between(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> (u64, u64) {
        if self.certainly_empty(lo, hi) {
            return (0, 0);
        }
        let (lo, hi) = self.within_keys(lo, hi);
        self.footer.index.estimate(lo, hi, |block, key| self.rows_below(block, key))
    }

    /// Drops bounds that cut nothing off, so that estimates of neighbouring ranges sum up to the
    /// run or more.
    fn within_keys<'k>(
        &self,
        lo: Option<&'k [u8]>,
        hi: Option<&'k [u8]>,
    ) -> (Option<&'k [u8]>, Option<&'k [u8]>) {
        let lo = lo.filter(|lo| *lo > &*self.footer.first_key);
        (lo, hi.filter(|hi| *hi <= &*self.footer.last_key))
    }

    fn certainly_empty(&self, lo: Option<&[u8]>, hi: Option<&[u8]>) -> bool {
        self.footer.index.is_empty()
            || lo.is_some_and(|lo| lo > &*self.footer.last_key)
            || hi.is_some_and(|hi| hi <= &*self.footer.first_key)
    }

    /// Memory that the run holds while it is open, not counting unwritten blocks.
    pub fn resident_bytes(&self) -> usize {
        size_of::<Self>()
            + self.footer.index.resident_bytes()
            + BlockSlots::bytes(self.block_count())
            + self.footer.range_deletes.resident_bytes()
            + self.footer.filter.as_ref().map_or(0, Filter::bytes)
            + self.footer.blobs.len() * size_of::<BlobUse>()
            + self.footer.format.memory_bytes()
            + self.dictionary_bytes
            + self.footer.first_key.len()
            + self.footer.last_key.len()
    }

    /// The address; `None` while unwritten.
    pub fn link(&self) -> Option<Link> {
        match &**self.data.load() {
            Data::Unwritten(_) => None,
            Data::Written { link, .. } => Some(*link),
        }
    }

    /// Returns the message of `key`, if the run has one. The caller must apply range deletes.
    pub fn get(&self, key: &[u8], hash: u64, source: &dyn BlockSource) -> Result<Option<Found>> {
        self.get_selected(key, hash, source, &ColumnSelection::All)
    }

    /// Looks up `key` as [`get`](Self::get) does, with only the wanted fields of its value if it
    /// lies in columns.
    pub fn get_selected(
        &self,
        key: &[u8],
        hash: u64,
        source: &dyn BlockSource,
        selection: &ColumnSelection,
    ) -> Result<Option<Found>> {
        let (blocks, has_filter) = (self.footer.index.len(), self.footer.filter.is_some());
        let beyond = || self.certainly_empty(Some(key), None) || key < &*self.footer.first_key;
        // A filter excludes more than the run's ends do, and costs one cache miss where they cost
        // two.
        if blocks == 0 || !self.may_contain(hash) || (!has_filter && beyond()) {
            return Ok(None);
        }
        let index = self.block_for(key);
        // A key that passes the filter may be beyond the ends, but only in the first block or the
        // last.
        if has_filter && (index == 0 || index + 1 == blocks) && beyond() {
            return Ok(None);
        }
        let mut chunks = Chunks::default();
        let block = self.borrow_block(index, source, &mut chunks)?;
        let found = self.footer.format.find(&block, key, selection, &mut chunks);
        let found = found.map_err(|bad| self.bad_block(index, bad))?;
        Ok(found.map(|(tag, payload)| Found::new(tag, block, payload)))
    }

    /// Returns block `index` decoded: from the run's own frames if it lies there raw and
    /// contiguous, else from `source`. If it had to be loaded, what its codecs decoded is left in
    /// `chunks`, which must be empty.
    pub fn block(
        &self,
        index: usize,
        source: &dyn BlockSource,
        chunks: &mut Chunks,
    ) -> Result<BlockGuard> {
        let entry = self.footer.index.entry(index);
        let entry = entry.ok_or_else(|| self.bad_block(index, BadBlock("there is none")))?;
        if let Some(block) = self.slot_block(index, source).and_then(Option::from) {
            return Ok(BlockGuard::cached(block));
        }
        if let Some((data, part)) = self.raw_in_frames(entry) {
            return Ok(BlockGuard::in_run(arc_swap::Guard::into_inner(data), part));
        }
        self.block_by(index, entry, source, chunks, |out, chunks| self.load(index, out, chunks))
    }

    /// Returns block `index` from `source`; if it is not cached, `read` decodes and checks it and
    /// returns the bytes read from the device.
    pub(super) fn block_by(
        &self,
        index: usize,
        entry: &BlockEntry,
        source: &dyn BlockSource,
        chunks: &mut Chunks,
        mut read: impl FnMut(&mut [u8], &mut Chunks) -> Result<u64>,
    ) -> Result<BlockGuard> {
        // The closures run one after the other, but both borrow it.
        let chunks = RefCell::new(chunks);
        let mut fill = |out: &mut [u8]| read(out, &mut chunks.borrow_mut());
        let unpack = |block: &[u8]| self.unpack(block, &mut chunks.borrow_mut());
        let raw_bytes = entry.raw_bytes as usize;
        let slots = Some(self.slots.get_or_init(|| BlockSlots::new(self.block_count())));
        let load = Load { raw_bytes, fill: &mut fill, unpack: &unpack, slots };
        source.block(self.block_key(index), load).map(BlockGuard::cached)
    }

    /// Unpacks a checked block into its form without codec, if some column uses one; the decoded
    /// chunks are then of no use any more.
    pub(super) fn unpack(&self, block: &[u8], chunks: &mut Chunks) -> Option<Box<[u8]>> {
        if self.footer.codec == Codec::Raw {
            return None;
        }
        let unpacked = self.footer.format.unpack(block, chunks)?;
        *chunks = Chunks::default();
        Some(unpacked)
    }

    pub(super) fn block_key(&self, index: usize) -> BlockKey {
        let mut key = BlockKey { extent: self.extent, stamp: self.stamp, block: index as u32 };
        if plant!("run: all runs share their cached blocks") {
            (key.extent, key.stamp) = (0, 0);
        }
        key
    }

    /// Returns block `index` decoded, as [`block`](Self::block) does; if it has to be read, all
    /// blocks of `piece`, which contains it, are read together and put into `source`.
    pub(super) fn block_of(
        &self,
        index: usize,
        piece: Range<usize>,
        source: &dyn BlockSource,
        chunks: &mut Chunks,
    ) -> Result<BlockGuard> {
        if piece.len() > 1 && self.wants(index, source) {
            self.load_together(piece, source, |_, _, _| ());
        }
        self.block(index, source, chunks)
    }

    /// True if block `index` is not in `source`, and reading it now would put it there.
    pub(super) fn wants(&self, index: usize, source: &dyn BlockSource) -> bool {
        source.wants(&self.block_key(index))
    }

    /// The block that would have to be read to look up a key; `None` if it is in memory.
    pub(crate) fn lacks(&self, key: &[u8], source: &dyn BlockSource) -> Option<usize> {
        let index = self.block_for(key);
        let is_in_slot = || self.slots.get().is_some_and(|slots| slots.get(index).is_some());
        (index < self.block_count() && !is_in_slot() && self.wants(index, source)).then_some(index)
    }

    /// Fills `out` with block `index`, fully checked; returns bytes read from the device.
    fn load(&self, index: usize, out: &mut [u8], chunks: &mut Chunks) -> Result<u64> {
        let mut buf = ReadBuf::new(self.pool.clone());
        let encoded = self.encoded_block(index, &mut buf)?;
        self.decode_checked(index, encoded, out, chunks)?;
        Ok(if buf.frames.is_empty() { 0 } else { buf.frames.len() as u64 })
    }

    pub(super) fn decode_checked(
        &self,
        index: usize,
        encoded: &[u8],
        out: &mut [u8],
        chunks: &mut Chunks,
    ) -> Result<()> {
        let packing = self.footer.index.entry(index).map_or(Packing::RAW, |entry| entry.packing);
        self.decode(packing, encoded, out).map_err(|bad| self.bad_block(index, bad))?;
        self.check_block(index, out, chunks)
    }

    /// Decodes a block with this packing, and counts it.
    pub(super) fn decode(
        &self,
        packing: Packing,
        encoded: &[u8],
        out: &mut [u8],
    ) -> Result<(), BadBlock> {
        let dictionary = self.footer.dictionary.as_deref();
        match &self.work {
            Some(work) if !packing.is_raw() => {
                let begun = work.begin();
                packing.decode(dictionary, encoded, out)?;
                work.end(begun, out.len());
                Ok(())
            }
            _ => packing.decode(dictionary, encoded, out),
        }
    }

    /// Checks everything about a block. What its codecs decode stays in `chunks`, which must be
    /// empty.
    pub(super) fn check_block(
        &self,
        index: usize,
        block: &[u8],
        chunks: &mut Chunks,
    ) -> Result<()> {
        let Some(entry) = self.footer.index.entry(index) else { return Ok(()) };
        let checked = self.footer.format.check(block, entry.rows, entry.row_bytes, chunks);
        checked.map_err(|bad| self.bad_block(index, bad))
    }

    /// Checks only that a block has the rows that the index says.
    pub(super) fn check_counts(&self, index: usize, block: &[u8]) -> Result<()> {
        let Some(entry) = self.footer.index.entry(index) else { return Ok(()) };
        let agrees = self.footer.format.agrees(block, entry.rows, entry.row_bytes);
        agrees.map_err(|bad| self.bad_block(index, bad))
    }

    /// Returns block `index` as stored, checked against its CRC: to be decoded, or carried over as
    /// it is.
    pub fn encoded_block<'a>(&self, index: usize, buf: &'a mut ReadBuf) -> Result<&'a [u8]> {
        let entry = self.footer.index.entry(index);
        let entry = entry.ok_or_else(|| self.bad_block(index, BadBlock("there is none")))?;
        let (start, len) = (entry.offset as usize, entry.encoded_bytes as usize);
        let bytes = match &**self.data.load() {
            Data::Unwritten(data) => {
                buf.joined.clear();
                data.copy_to(start..start + len, &mut buf.joined);
                buf.joined.as_slice()
            }
            Data::Written { file, link } => {
                let skip = buf.fill(file, link.offset + start as u64, len)?;
                buf.get(skip, len)
            }
        };
        self.verify_block(index, bytes)?;
        Ok(bytes)
    }

    /// Checks stored bytes of block `index` against its CRC.
    pub(super) fn verify_block(&self, index: usize, encoded: &[u8]) -> Result<()> {
        let stored = self.footer.index.entry(index).map_or(0, |entry| entry.crc);
        let computed = crc32c::crc32c(encoded);
        if stored == computed || plant!("run: block checksum not verified") {
            return Ok(());
        }
        Err(Error::Checksum {
            place: self.block_place(index),
            what: "a block",
            stored: stored.into(),
            computed: computed.into(),
        })
    }

    /// An [`Error::Malformed`] that names the block, or an error that a newer Frond wrote it.
    pub(crate) fn bad_block(&self, index: usize, bad: BadBlock) -> Error {
        let place = self.block_place(index);
        if bad == NEWER {
            let what = "columnar blocks of a newer version".into();
            return Error::TooNew { file: place.file, what };
        }
        Error::Malformed { place, what: "a block", why: bad.0.into() }
    }

    fn block_place(&self, index: usize) -> Place {
        let (start, bytes) = self
            .footer
            .index
            .entry(index)
            .map_or((0, 0), |entry| (u64::from(entry.offset), u64::from(entry.encoded_bytes)));
        match &**self.data.load() {
            Data::Unwritten(_) => Place { file: "(unwritten run)".into(), offset: start, bytes },
            Data::Written { file, link } => file.place(link.offset + start, bytes),
        }
    }
}

/// Memory of a run's dictionary; 0 for one that its tree holds as well.
fn dictionary_bytes(footer: &Footer, work: Option<&Work>) -> usize {
    let own = |its: &&Arc<Dictionary>| work.is_none_or(|work| !work.dictionaries().holds(its));
    footer.dictionary.as_ref().filter(own).map_or(0, |its| its.memory_bytes())
}
