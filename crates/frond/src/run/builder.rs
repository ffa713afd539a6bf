//! The run builder: rows in key order in, an unwritten run out.
//!
//! Blocks of a run without codec end where a frame ends: padding the few bytes left over lets
//! readers use them in place while the run is unwritten, and read exactly four pages once it is
//! written.

use std::collections::BTreeMap;

use super::{
    block_writer::BlockWriter,
    dictionaries::UnderDictionary,
    filter::{Filter, key_hash},
    footer::{BlobUse, Counts, Footer},
    index::{BlockEntry, BlockIndex},
    ranges::RangeDeletes,
    reader::Run,
    row_block_writer::{EncodingHint, Ended},
    schema::RowSchema,
    work::{EncodeStats, Work},
};
use crate::{
    block::{
        BLOCK_RAW_BYTES_MAX, BLOCK_RAW_BYTES_TARGET, BadBlock, Chunks, Codec, Format, Position,
        Pushed, common_prefix,
    },
    bounds,
    cache::{BlockCache, FRAME_BYTES, FrameBuf, FramePool},
    error::{Error, Place, Result},
    io::ALIGN,
    message::{Kind, Tag},
    page::{Identity, PageKind},
    sync::Arc,
    types::{Lineage, StoreId, VersionNumber},
};

/// Options of a run to be built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunOptions {
    /// The codec of blocks, where compression pays.
    pub codec: Codec,
    /// Bits per key of the filter: 14 in buffer runs, 10 at leaves of unique trees, or none.
    pub filter_bits: Option<usize>,
    /// Length of a block before its codec; [`BLOCK_RAW_BYTES_TARGET`] except in tests.
    pub block_bytes: usize,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { codec: Codec::Raw, filter_bits: None, block_bytes: BLOCK_RAW_BYTES_TARGET }
    }
}

/// The length reported for a run that nears a reader's bound: above any length at which runs end.
const FULL: usize = usize::MAX / 4;
/// The least that a row counts towards the length of a run, so that a run of one MiB has at most
/// about 500 000 rows.
const ENTRY_BYTES_MIN: usize = 2;
/// The run's raw bytes count at least 1/16 towards its length, however well they compress.
const RATIO_MAX: usize = 16;
/// 1.0 in the unit of `density`.
const DENSITY: usize = 1 << 10;

/// What is known about the greatest key so far.
#[derive(Debug, PartialEq, Eq)]
enum Before {
    /// Nothing was pushed.
    Nothing,
    /// The greatest key is exactly `before_key`.
    Key,
    /// The greatest key is below `before_key`: the last block was carried over unread.
    Bound,
}

/// Builds one run.
#[derive(Debug)]
pub struct RunBuilder {
    pub(super) options: RunOptions,
    pub(super) pool: Arc<FramePool>,
    pub(super) block: BlockWriter,
    /// Separator of the block being built.
    separator: Vec<u8>,
    block_bytes_max: usize,
    deletes: u32,
    merges: u32,
    block_has_blobs: bool,
    pub(super) data: FrameBuf,
    encoded: Vec<u8>,
    pub(super) index: BlockIndex,
    counts: Counts,
    pub(super) hashes: Vec<u64>,
    first_key: Option<Box<[u8]>>,
    before: Before,
    before_key: Vec<u8>,
    /// Stored bytes per raw byte so far, in 1/[`DENSITY`].
    density: usize,
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes that the range deletes count towards the length of the run.
    pub(super) range_bytes: usize,
    /// True if the run nears a bound of its readers; checked with each block, range delete and long
    /// value.
    pub(super) nears_bounds: bool,
    pub(super) blobs: BTreeMap<[u8; 16], u32>,
    /// The counters of the tree's work, and the counts of this run so far.
    work: Option<Arc<Work>>,
    pub(super) done: EncodeStats,
    /// The name of its blocks in a cache, and whether any are put there.
    pub(super) extent: u64,
    pub(super) warm: Option<Warm>,
}

/// The builder's state for keeping blocks warm (`warm.rs`).
#[derive(Debug)]
pub(super) struct Warm {
    pub cache: Arc<BlockCache>,
    /// True if the rows being pushed come from a block in use; and if some rows of the open block
    /// do.
    pub was_requested: bool,
    pub block_in_use: bool,
}

impl RunBuilder {
    /// Creates an empty run of row blocks.
    pub fn new(pool: Arc<FramePool>, options: RunOptions) -> Self {
        Self::row_blocks(pool, options, None)
    }

    /// Creates an empty run of row blocks, which may carry blocks of `base`.
    pub fn row_blocks(pool: Arc<FramePool>, options: RunOptions, base: Option<&Run>) -> Self {
        let mut block = BlockWriter::row(EncodingHint::default());
        if let Some(under) = block.under() {
            *under = UnderDictionary::base(base.and_then(Run::dictionary));
        }
        Self::with(pool, options, block)
    }

    /// Creates an empty run of columnar blocks, which may carry blocks of runs of format `base`.
    pub fn columnar(
        pool: Arc<FramePool>,
        options: RunOptions,
        schema: &Arc<RowSchema>,
        base: Option<&Format>,
    ) -> Self {
        Self::with(pool, options, BlockWriter::columnar(schema, options.codec, base))
    }

    fn with(pool: Arc<FramePool>, options: RunOptions, block: BlockWriter) -> Self {
        Self {
            options,
            block,
            separator: Vec::new(),
            block_bytes_max: 0,
            deletes: 0,
            merges: 0,
            block_has_blobs: false,
            data: FrameBuf::new(pool.clone()),
            pool,
            encoded: Vec::new(),
            index: BlockIndex::default(),
            counts: Counts::default(),
            hashes: Vec::new(),
            first_key: None,
            before: Before::Nothing,
            before_key: Vec::new(),
            density: DENSITY / 2,
            ranges: Vec::new(),
            range_bytes: 0,
            nears_bounds: false,
            blobs: BTreeMap::new(),
            work: None,
            done: EncodeStats::default(),
            extent: Run::new_extent(),
            warm: None,
        }
    }

    /// Makes the run count as work on its tree once it is finished. To be called before the first
    /// row.
    pub fn counted(mut self, work: Arc<Work>) -> Self {
        let codec = self.options.codec;
        if let Some(under) = self.block.under().filter(|_| codec != Codec::Raw) {
            let under = work.dictionaries().begin(codec, std::mem::take(under));
            self.block = BlockWriter::row(work.hint());
            if let Some(begun) = self.block.under() {
                *begun = under;
            }
        }
        self.work = Some(work);
        self
    }

    /// True if nothing was pushed, not even a range delete.
    pub fn is_empty(&self) -> bool {
        self.before == Before::Nothing && self.block.rows() == 0 && self.ranges.is_empty()
    }

    /// Number of keys so far.
    pub fn entries(&self) -> u64 {
        self.counts.entries + self.block.rows() as u64
    }

    /// Stored bytes of the finished blocks, an estimate for the block being built (raw bytes of a
    /// row block; for columnar blocks, scaled by what they have taken so far), and the bytes of
    /// range deletes. Rows that take almost nothing still count: a run is also read, merged and
    /// hashed by rows. Called once per row.
    #[inline]
    pub fn bytes_so_far(&self) -> usize {
        let open = self.block.row_bytes();
        let open = if self.block.is_row() { open } else { open * self.density / DENSITY };
        let bounded = self.counts.entries as usize * ENTRY_BYTES_MIN;
        let bounded = bounded.max(self.counts.raw_bytes as usize / RATIO_MAX);
        if self.nears_bounds {
            return FULL;
        }
        let ranges =
            if plant!("tree: range deletes are no bytes of a run") { 0 } else { self.range_bytes };
        (self.data.len() + open).max(bounded) + ranges
    }

    /// Length of the rows in the block being built; 0 between blocks.
    pub fn open_block_bytes(&self) -> usize {
        self.block.row_bytes()
    }

    /// Length of rows at which a block ends.
    pub fn block_bytes(&self) -> usize {
        self.block.block_bytes(self.options.block_bytes)
    }

    /// Makes the block being built, if there is one, end at about this length of rows instead of
    /// when it is full, so that the remainder of one block and the next block become two of even
    /// size.
    pub fn end_block_at(&mut self, row_bytes: usize) {
        self.block_bytes_max = self.block_bytes_max.min(row_bytes);
    }

    /// True if blocks of `from` can be carried over.
    pub fn carries(&mut self, from: &Run) -> bool {
        self.block.begin();
        let has_dictionary = match from.dictionary() {
            None => true,
            its => its == self.block.dictionary(),
        };
        has_dictionary && self.block.format().reads_blocks_of(from.format())
    }

    /// Appends an entry. Keys ascend strictly over all calls.
    #[inline]
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8]) -> Result<()> {
        if self.block.rows() == 0 {
            self.start_block(key)?;
        }
        let mut pushed = self.block.push(key, tag, payload, self.block_bytes_max);
        if pushed == Pushed::Full {
            self.end_block()?;
            self.start_block(key)?;
            pushed = self.block.push(key, tag, payload, self.block_bytes_max);
        }
        if pushed != Pushed::Done {
            return Err(unordered());
        }
        match tag.kind() {
            Kind::Put | Kind::Versions => {}
            Kind::Delete => self.deletes += 1,
            Kind::Merge => self.merges += 1,
            Kind::PutBlob => self.count_blob(payload),
        }
        if self.options.filter_bits.is_some() {
            self.hashes.push(key_hash(key));
        }
        // A row longer than a block gets a block of its own.
        if self.block.row_bytes() > self.block_bytes_max { self.end_block() } else { Ok(()) }
    }

    /// Deletes `[from, to)` in everything older than this run.
    pub fn add_range_delete(&mut self, from: &[u8], to: &[u8]) {
        self.range_bytes += RangeDeletes::fragment_bytes(from, to);
        self.ranges.push((from.to_vec(), to.to_vec()));
        self.look_at_bounds();
    }

    /// Counts a reference to a blob in a carried block. Pushed rows count their own.
    pub fn add_blob(&mut self, reference: [u8; 16], rows: u32) {
        *self.blobs.entry(reference).or_default() += rows;
        self.look_at_bounds();
    }

    /// Appends block `index` of `from` unchanged: `encoded` is what
    /// [`encoded_block`](Run::encoded_block) returned, so it has been verified, and this builder
    /// [`carries`](Self::carries) blocks of that run. Decodes it only if the filter or the blob
    /// list needs its rows.
    pub fn carry_block(&mut self, from: &Run, index: usize, encoded: &[u8]) -> Result<()> {
        self.end_block()?;
        let no_block = || from.bad_block(index, BadBlock("there is none"));
        let entry = *from.blocks().entry(index).ok_or_else(no_block)?;
        debug_assert!(self.carries(from), "asked before");
        self.block.begin();
        // Separator 0 is empty: the first key is used instead.
        let old: &[u8] = match index {
            0 => from.first_key().unwrap_or_default(),
            _ => from.blocks().separator(index),
        };
        let ascends = match self.before {
            Before::Nothing => true,
            Before::Key => *old > *self.before_key,
            Before::Bound => *old >= *self.before_key,
        };
        if !ascends {
            return Err(unordered());
        }
        let is_first = self.before == Before::Nothing;
        self.set_separator(old);
        let exact_first = (is_first && index == 0).then(|| old.into());
        let needs_rows = self.options.filter_bits.is_some() || entry.has_blobs;
        if needs_rows || is_first && exact_first.is_none() {
            self.read_carried(from, index, encoded, needs_rows)?;
        } else if is_first {
            self.first_key = exact_first;
        }
        self.append(encoded, BlockEntry { offset: 0, ..entry })?;
        self.carried_warm(from, index);
        self.done.carried_blocks += 1;
        self.done.carried_bytes += encoded.len() as u64;
        self.before_key.clear();
        if index + 1 == from.block_count() {
            self.before = Before::Key;
            self.before_key.extend_from_slice(from.last_key().unwrap_or_default());
        } else {
            self.before = Before::Bound;
            self.before_key.extend_from_slice(from.blocks().separator(index + 1));
        }
        Ok(())
    }

    /// Finishes the run, not yet written; `None` if nothing was pushed.
    pub fn finish(mut self) -> Result<Option<Arc<Run>>> {
        self.end_block()?;
        if self.is_empty() {
            return Ok(None);
        }
        if self.before == Before::Bound {
            self.find_last_key()?;
        }
        let dictionary = self.dictionary_if_it_pays()?;
        self.index.seal();
        let filter = self.options.filter_bits.filter(|_| !self.hashes.is_empty());
        let filter = filter.map(|bits| Filter::build(&self.hashes, bits).pooled(&self.pool));
        let blobs = self.blobs.iter().map(|(&reference, &rows)| BlobUse { reference, rows });
        let footer = Footer {
            codec: self.options.codec,
            format: self.block.format(),
            dictionary,
            counts: self.counts,
            data_bytes: self.data.len() as u32,
            first_key: self.first_key.take().unwrap_or_default(),
            last_key: self.before_key.as_slice().into(),
            range_deletes: RangeDeletes::union(std::mem::take(&mut self.ranges)),
            blobs: blobs.collect(),
            index: self.index,
            filter,
        };
        let Counts { entries, raw_bytes, .. } = self.counts;
        let hint = self.block.hint();
        let under = self.block.under().map(std::mem::take);
        self.block.retire(entries, raw_bytes, self.data.len() as u64);
        if footer.index.is_empty() && footer.range_deletes.is_empty() {
            return Ok(None);
        }
        let footer_bytes = footer.to_disk(&NOWHERE).len();
        let extent_bytes = (self.data.len() + footer_bytes).next_multiple_of(ALIGN);
        let footer_bytes = extent_bytes - self.data.len();
        if footer_bytes > bounds::RUN_FOOTER_BYTES.len() {
            return Err(too_long());
        }
        if let Some(work) = &self.work {
            let codec = self.options.codec;
            work.encoded(codec, &EncodeStats { runs: 1, ..self.done });
            if let Some(hint) = hint.filter(|_| codec != Codec::Raw) {
                work.set_hint(hint);
            }
            if let Some(under) = under.filter(|_| codec == Codec::UNDER_DICTIONARY) {
                work.learn_dictionary(codec, under, raw_bytes, self.data.len() as u64);
            }
        }
        let place = (self.extent, footer_bytes as u32);
        let run = Run::unwritten(footer, place, self.data, self.pool, self.work);
        Ok(Some(Arc::new(run)))
    }

    /// Chooses the separator of the block that starts with `key`, and the block's maximum length.
    fn start_block(&mut self, key: &[u8]) -> Result<()> {
        self.block.begin();
        let before = self.before_key.as_slice();
        let enough = match self.before {
            Before::Nothing => {
                self.first_key = Some(key.into());
                0
            }
            Before::Key if key > before => common_prefix(before, key) + 1,
            // The carried keys are below the bound, so a prefix equal to the bound is above them.
            Before::Bound if key >= before => (common_prefix(before, key) + 1).min(key.len()),
            _ => return Err(unordered()),
        };
        self.set_separator(&key[..enough]);
        self.block_bytes_max = self.block_bytes();
        if self.fills_frames() && self.block_bytes_max == FRAME_BYTES {
            let room = FRAME_BYTES - self.data.len() % FRAME_BYTES;
            if room >= FRAME_BYTES / 4 {
                self.block_bytes_max = room;
            }
        }
        Ok(())
    }

    fn set_separator(&mut self, separator: &[u8]) {
        self.separator.clear();
        if !self.index.is_empty() {
            self.separator.extend_from_slice(separator);
        }
    }

    #[cold]
    fn count_blob(&mut self, payload: &[u8]) {
        self.block_has_blobs = true;
        if let Ok(reference) = payload.try_into() {
            self.add_blob(reference, 1);
        }
    }

    /// Encodes the rows pushed since the last block as a block.
    fn end_block(&mut self) -> Result<()> {
        let rows = self.block.rows();
        if rows == 0 {
            return Ok(());
        }
        self.before = Before::Key;
        self.before_key.clear();
        self.before_key.extend_from_slice(self.block.last_key());
        let mut encoded = std::mem::take(&mut self.encoded);
        let fills_frames = self.fills_frames();
        let none = BlockWriter::row(EncodingHint::default());
        let mut block = std::mem::replace(&mut self.block, none);
        let now = || self.work.as_ref().map_or(0, |work| work.now());
        let begun = now();
        let warm = self.makes_warm().then(|| block.format());
        let ended = block.finish(self.options.codec, &mut encoded);
        self.done.nanos += now().saturating_sub(begun);
        let Ended { stored, read, packing, row_bytes } = ended;
        let raw_bytes = read.len();
        if raw_bytes.max(row_bytes) > BLOCK_RAW_BYTES_MAX {
            self.block = block;
            return Err(too_long());
        }
        if fills_frames {
            self.pad_to_frame(stored.len());
        }
        let entry = BlockEntry {
            offset: 0,
            encoded_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            row_bytes: row_bytes as u32,
            rows: rows as u32,
            deletes: std::mem::take(&mut self.deletes),
            merges: std::mem::take(&mut self.merges),
            crc: crc32c::crc32c(stored),
            packing,
            has_blobs: std::mem::take(&mut self.block_has_blobs),
        };
        let appended = self.append(stored, entry);
        if let Some(format) = &warm {
            self.made_warm(read, format);
        }
        self.done.blocks += 1;
        self.done.rows += rows as u64;
        self.done.from_bytes += row_bytes as u64;
        self.done.bytes += entry.encoded_bytes as u64;
        self.done.count(block.take_chunks());
        block.clear();
        self.block = block;
        self.encoded = encoded;
        appended
    }

    /// True if blocks end where frames do: row blocks without a codec, which are read in place.
    fn fills_frames(&self) -> bool {
        self.options.codec == Codec::Raw && self.block.is_row()
    }

    /// Pads to the next frame, if the block would otherwise cross a frame boundary without need.
    fn pad_to_frame(&mut self, bytes: usize) {
        const ZEROS: [u8; FRAME_BYTES / 4] = [0; FRAME_BYTES / 4];
        let room = FRAME_BYTES - self.data.len() % FRAME_BYTES;
        if bytes <= room || bytes > FRAME_BYTES || room >= ZEROS.len() {
            return;
        }
        let padding = &ZEROS[..room];
        if let Some(last) = self.index.last_mut() {
            // Padding belongs to the block before it, and to its CRC. Compressed blocks get none:
            // their length must stay below the raw one.
            if last.packing.is_raw() {
                last.encoded_bytes += room as u32;
                last.crc = crc32c::crc32c_append(last.crc, padding);
                self.data.extend(padding);
                self.done.bytes += room as u64;
            }
        }
    }

    fn append(&mut self, stored: &[u8], entry: BlockEntry) -> Result<()> {
        let offset = self.data.len();
        let separators = self.index.separators_bytes() + self.separator.len();
        if offset + stored.len() > bounds::RUN_DATA_BYTES.len()
            || separators > bounds::SEPARATORS_BYTES.len()
        {
            return Err(too_long());
        }
        self.data.extend(stored);
        self.index.push(&self.separator, BlockEntry { offset: offset as u32, ..entry });
        self.counts.entries += u64::from(entry.rows);
        self.counts.deletes += u64::from(entry.deletes);
        self.counts.merges += u64::from(entry.merges);
        self.counts.raw_bytes += u64::from(entry.row_bytes);
        self.density = self.data.len() * DENSITY / (self.counts.raw_bytes as usize).max(1);
        self.look_at_bounds();
        Ok(())
    }

    /// Decodes a carried block for its first key, and for hashes and blobs if `all_rows`.
    fn read_carried(
        &mut self,
        from: &Run,
        index: usize,
        encoded: &[u8],
        all_rows: bool,
    ) -> Result<()> {
        let entry = *from.blocks().entry(index).ok_or_else(unordered)?;
        let bad = |bad| from.bad_block(index, bad);
        let mut raw = vec![0; entry.raw_bytes as usize];
        from.decode(entry.packing, encoded, &mut raw).map_err(bad)?;
        let format = from.format();
        let mut rows = Position::new(format);
        rows.enter(&raw, Chunks::default()).and_then(|()| rows.first(&raw, format)).map_err(bad)?;
        if self.before == Before::Nothing {
            self.first_key = Some(rows.key().into());
        }
        loop {
            if all_rows && self.options.filter_bits.is_some() {
                self.hashes.push(key_hash(rows.key()));
            }
            if all_rows
                && rows.tag().kind() == Kind::PutBlob
                && let Ok(reference) = rows.payload(&raw).try_into()
            {
                self.add_blob(reference, 1);
            }
            if !all_rows || !rows.next(&raw, format).map_err(bad)? {
                return Ok(());
            }
        }
    }

    /// Reads the greatest key from the last block, which was carried over.
    fn find_last_key(&mut self) -> Result<()> {
        let Some(&entry) = self.index.entries().last() else { return Ok(()) };
        let (start, len) = (entry.offset as usize, entry.encoded_bytes as usize);
        let mut encoded = Vec::new();
        self.data.copy_to(start..start + len, &mut encoded);
        let mut raw = vec![0; entry.raw_bytes as usize];
        let format = self.block.format();
        let mut rows = Position::new(&format);
        let dictionary = self.block.dictionary().map(|dictionary| &**dictionary);
        entry
            .packing
            .decode(dictionary, &encoded, &mut raw)
            .and_then(|()| rows.enter(&raw, Chunks::default()))
            .and_then(|()| rows.last(&raw, &format))
            .map_err(|bad| malformed(bad.0))?;
        self.before = Before::Key;
        self.before_key.clear();
        self.before_key.extend_from_slice(rows.key());
        Ok(())
    }
}

/// A dummy identity, to measure a footer before its address is known.
const NOWHERE: Identity = Identity {
    store: StoreId([0; 16]),
    kind: PageKind::Run,
    offset: 0,
    bytes: 0,
    birth: VersionNumber(0),
    lineage: Lineage(0),
};

#[cold]
pub(super) fn malformed(why: &str) -> Error {
    let place = Place { file: "(run being built)".into(), offset: 0, bytes: 0 };
    Error::Malformed { place, what: "a run", why: why.into() }
}

/// Reached only if data is damaged: sources in the engine are ordered, and cursors check what they
/// read.
#[cold]
fn unordered() -> Error {
    malformed("its keys do not ascend")
}

#[cold]
fn too_long() -> Error {
    Error::InvalidArgument("a row or a run is longer than the format allows".into())
}
