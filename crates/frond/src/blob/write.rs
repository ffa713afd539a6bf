//! Writing a blob: encode it to learn its length, allocate an extent, write pieces and table.
//!
//! A value with few pieces is encoded once and kept encoded; a longer one is encoded twice, so that
//! no second copy of it is ever in memory. If no codec shrinks the first pieces, the others are
//! stored raw.

use super::{
    BLOB_PIECE_BYTES, Blob, BlobHold, BlobRef, PAGE_NUMBER_MAX,
    table::{self, Entry, Table, piece_hash},
};
use crate::{
    VALUE_BYTES_MAX,
    block::Codec,
    bounds,
    error::{Error, Result},
    io::{ALIGN, AlignedBuf},
    page::{PageKind, StoreFile, page_hash},
    store::{Class, Extent, Request, STORE_LINEAGE, Store},
    sync::Arc,
    types::VersionNumber,
};

/// Encoded pieces are kept for writing up to this length. 1 MiB: what a job may use without
/// reserving it in the memory budget.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Length of one write. 512 KiB: some milliseconds of a slow disk.
const WRITE_BYTES: usize = 512 << 10;
/// Number of pieces tried before a codec is given up.
const PIECES_TRIED: usize = 4;

/// Space that is admitted in addition to a blob: some runs and nodes, root directory, pages of the
/// space map.
const COMMIT_BYTES: u64 = 64 << 10;

/// Options for writing a blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobOptions {
    /// The codec for pieces, where it pays off.
    pub codec: Codec,
    /// Raw bytes of a piece; [`BLOB_PIECE_BYTES`] except in tests.
    pub piece_bytes: usize,
    /// Whether the space is allocated as for background work, which may use the reserve, instead of
    /// being admitted as for a commit (Rule: I24).
    pub is_background: bool,
}

impl Default for BlobOptions {
    fn default() -> Self {
        Self { codec: Codec::Raw, piece_bytes: BLOB_PIECE_BYTES, is_background: false }
    }
}

impl Blob {
    /// Writes a value into an extent of its own. Nothing is synced. The extent is freed when the
    /// last clone of the hold is dropped, unless a version links it by then.
    pub fn write(
        store: &Arc<Store>,
        value: &[u8],
        options: BlobOptions,
    ) -> Result<(BlobRef, Arc<BlobHold>)> {
        if value.is_empty() || value.len() > VALUE_BYTES_MAX {
            return Err(Error::ValueTooLong { bytes: value.len(), max: VALUE_BYTES_MAX });
        }
        let plan = Plan::new(value, options);
        let bytes = plan.table.stored_bytes() + table::bytes(plan.pieces()) as u64;
        let request = Request {
            class: Class::Blob,
            kind: PageKind::Blob,
            bytes,
            birth: VersionNumber(0),
            lineage: STORE_LINEAGE,
        };
        let extent = allocate(store, &request, options.is_background)?;
        let hold = BlobHold::new(store, extent);
        if extent.offset / ALIGN as u64 >= PAGE_NUMBER_MAX {
            return Err(Error::Full("blobs lie below 4 PiB of the store file".into()));
        }
        let hash = plan.write(store.file(), extent)?;
        Ok((BlobRef { extent, pieces: plan.pieces(), hash }, hold))
    }
}

/// Allocates the extent. A commit asks for admission: the reserve is for background work.
fn allocate(store: &Store, request: &Request, is_background: bool) -> Result<Extent> {
    if is_background {
        return store.allocate_temporary(request);
    }
    // Admission sets twice the bytes aside. A blob is written once; the rest is for the commit's
    // pages.
    let admitted = (request.bytes + COMMIT_BYTES).div_ceil(2);
    store.admit(admitted)?;
    let extent = store.allocate_temporary(request);
    store.release_admitted(admitted);
    extent
}

/// The pieces and table to be written.
struct Plan<'v> {
    value: &'v [u8],
    table: Table,
    /// All pieces as stored, if they are short.
    kept: Option<Vec<u8>>,
}

impl<'v> Plan<'v> {
    fn new(value: &'v [u8], options: BlobOptions) -> Self {
        // Never more pieces than a reference can count.
        let mut piece_bytes = options.piece_bytes;
        if !bounds::BLOB_PIECES.admits(value.len().div_ceil(piece_bytes)) {
            piece_bytes = value.len().div_ceil(bounds::BLOB_PIECES.len());
        }
        let mut entries = Vec::with_capacity(value.len().div_ceil(piece_bytes));
        let mut kept = Some(Vec::new());
        let mut encoded = Vec::new();
        let mut tried = options.codec;
        for (index, raw) in value.chunks(piece_bytes).enumerate() {
            let codec = tried.encode(raw, &mut encoded);
            let stored = if codec == Codec::Raw { raw } else { &encoded };
            let (hash, stored_bytes) = (piece_hash(index, stored), stored.len() as u32);
            entries.push(Entry { hash, stored_bytes, codec });
            kept = kept.filter(|kept| kept.len() + stored.len() <= KEPT_BYTES_MAX);
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(stored);
            }
            if entries.len() == PIECES_TRIED && entries.iter().all(|e| e.codec == Codec::Raw) {
                tried = Codec::Raw;
            }
        }
        let (value_bytes, piece_bytes) = (value.len() as u32, piece_bytes as u32);
        Self { value, table: Table { value_bytes, piece_bytes, entries }, kept }
    }

    fn pieces(&self) -> u32 {
        self.table.entries.len() as u32
    }

    /// Writes everything; returns the hash for the reference.
    fn write(&self, file: &StoreFile, extent: Extent) -> Result<u64> {
        let table = self.table.to_disk();
        let hash = page_hash(&BlobRef::identity(file, extent), &table) >> 8;
        let mut pages = Pages::new(file, extent)?;
        match &self.kept {
            Some(kept) => pages.put(kept)?,
            None => self.write_pieces(&mut pages)?,
        }
        pages.zeros(u64::from(extent.bytes) - self.table.stored_bytes() - table.len() as u64)?;
        pages.put(&table)?;
        Ok(hash)
    }

    fn write_pieces(&self, pages: &mut Pages<'_>) -> Result<()> {
        let mut encoded = Vec::new();
        let raw = self.value.chunks(self.table.piece_bytes as usize);
        for (entry, raw) in self.table.entries.iter().zip(raw) {
            let stored = match entry.codec {
                Codec::Raw => raw,
                codec => {
                    let again = codec.encode(raw, &mut encoded);
                    assert!(again == codec, "a codec gives the same bytes twice");
                    &encoded
                }
            };
            assert_eq!(stored.len(), entry.stored_bytes as usize, "the same bytes twice");
            pages.put(stored)?;
        }
        Ok(())
    }
}

/// Writes an extent sequentially in whole pages.
struct Pages<'f> {
    file: &'f StoreFile,
    offset: u64,
    end: u64,
    buf: AlignedBuf,
    used: usize,
}

impl<'f> Pages<'f> {
    fn new(file: &'f StoreFile, extent: Extent) -> Result<Self> {
        let bytes = (extent.bytes as usize).min(WRITE_BYTES);
        let buf = AlignedBuf::try_zeroed(bytes, "writing a blob")?;
        Ok(Self { file, offset: extent.offset, end: extent.end(), buf, used: 0 })
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(self.buf.len() - self.used));
            self.buf[self.used..self.used + now.len()].copy_from_slice(now);
            self.used += now.len();
            bytes = later;
            if self.used == self.buf.len() || self.offset + self.used as u64 == self.end {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes zeros, always less than a page.
    fn zeros(&mut self, count: u64) -> Result<()> {
        const ZEROS: [u8; ALIGN] = [0; ALIGN];
        assert!(count < ALIGN as u64, "an extent has no page too many");
        self.put(&ZEROS[..count as usize])
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_at(&self.buf[..self.used], self.offset)?;
        self.offset += self.used as u64;
        self.used = 0;
        Ok(())
    }
}
