//! Reading a blob: the table, then the requested pieces, each verified before it is decoded.
//!
//! A short blob is read with one read, and stays in the cache in its stored form; a long one
//! bypasses the cache and is read piece by piece.
//!
//! The reader must hold something that keeps the extent allocated: a version, a snapshot, or a
//! [`BlobHold`](super::BlobHold).

use super::{
    BlobRef,
    table::{self, Table, WHAT, piece_hash},
};
use crate::{
    cache::{BlockCache, BlockKey, BlockSource, CachedBlock, Load},
    error::{Error, Result},
    io::ALIGN,
    page::StoreFile,
    sync::Arc,
};

/// Extents up to this length are read whole and cached. 256 KiB: up to there, one read of
/// everything costs no more than separate reads of the table and of a piece.
const WHOLE_BYTES_MAX: u32 = 256 << 10;

/// An opened blob, whose table is verified.
#[derive(Debug)]
pub struct Blob {
    file: Arc<StoreFile>,
    reference: BlobRef,
    table: Table,
    /// The whole extent, with its pieces verified.
    whole: Option<CachedBlock>,
}

impl Blob {
    /// Opens a blob: one read at most.
    pub fn open(file: &Arc<StoreFile>, reference: BlobRef, cache: &BlockCache) -> Result<Self> {
        let extent = reference.extent;
        let table_bytes = table::bytes(reference.pieces);
        if extent.bytes > WHOLE_BYTES_MAX {
            return Self::open_uncached(file, reference);
        }
        let key = BlockKey { extent: extent.offset, stamp: reference.hash, block: 0 };
        let mut load = |out: &mut [u8]| {
            let bytes = file.read(extent.offset, extent.bytes.into(), WHAT)?;
            Self::verify_extent(file, &reference, &bytes)?;
            out.copy_from_slice(&bytes);
            Ok(u64::from(extent.bytes))
        };
        let load = Load {
            raw_bytes: extent.bytes as usize,
            fill: &mut load,
            unpack: &|_| None,
            slots: None,
        };
        let whole = cache.block(key, load)?;
        let footer = whole.get(whole.len() - table_bytes..).unwrap_or_default();
        let table = Table::from_disk(file, &reference, footer)?;
        Ok(Self { file: file.clone(), reference, table, whole: Some(whole) })
    }

    /// Opens a blob without using the cache.
    pub fn open_uncached(file: &Arc<StoreFile>, reference: BlobRef) -> Result<Self> {
        let table_bytes = table::bytes(reference.pieces);
        let footer = read_around(
            file,
            reference.extent.end() - table_bytes as u64,
            table_bytes,
            |footer: &[u8]| Table::from_disk(file, &reference, footer),
        )?;
        Ok(Self { file: file.clone(), reference, table: footer, whole: None })
    }

    /// Checks all bytes of a blob's extent against its reference; decodes nothing. Errors name
    /// `file`.
    fn verify_extent(file: &StoreFile, reference: &BlobRef, bytes: &[u8]) -> Result<()> {
        let footer = bytes.len().saturating_sub(table::bytes(reference.pieces));
        let table = Table::from_disk(file, reference, bytes.get(footer..).unwrap_or_default())?;
        let mut at = 0;
        for (index, entry) in table.entries.iter().enumerate() {
            let stored = bytes.get(at..at + entry.stored_bytes as usize).unwrap_or_default();
            verify_piece(file, &table, index, reference.extent.offset + at as u64, stored)?;
            at += entry.stored_bytes as usize;
        }
        let filling = bytes.get(at..footer).unwrap_or_default();
        verify_filling(file, reference.extent.offset + at as u64, filling)
    }

    /// Length of the value.
    pub fn value_bytes(&self) -> usize {
        self.table.value_bytes as usize
    }

    /// Reads the value into `out`, replacing its content.
    pub fn read(&self, out: &mut Vec<u8>) -> Result<()> {
        let bytes = self.value_bytes();
        out.clear();
        out.try_reserve_exact(bytes).map_err(|_| Error::NoMemory { bytes, what: WHAT })?;
        out.resize(bytes, 0);
        let mut at = 0;
        for (index, raw) in out.chunks_mut(self.table.piece_bytes as usize).enumerate() {
            at += self.read_piece(index, at, raw)?;
        }
        Ok(())
    }

    /// Fills `out` from byte `from` of the value on; returns the number of bytes read.
    pub fn read_at(&self, from: usize, out: &mut [u8]) -> Result<usize> {
        let piece_bytes = self.table.piece_bytes as usize;
        let to = self.value_bytes().min(from.saturating_add(out.len()));
        let mut done = 0;
        let mut raw = Vec::new();
        while from + done < to {
            let index = (from + done) / piece_bytes;
            raw.resize(self.table.raw_bytes(index), 0);
            let before = self.table.entries.iter().take(index);
            let at: u64 = before.map(|entry| u64::from(entry.stored_bytes)).sum();
            self.read_piece(index, at, &mut raw)?;
            let skip = from + done - index * piece_bytes;
            let now = (raw.len() - skip).min(to - from - done);
            out[done..done + now].copy_from_slice(&raw[skip..skip + now]);
            done += now;
        }
        Ok(done)
    }

    /// Reads and verifies all of it, including the zeros between pieces and table, and keeps
    /// nothing.
    pub fn verify(&self) -> Result<()> {
        let mut raw = vec![0; self.table.raw_bytes(0)];
        let mut at = 0;
        for index in 0..self.table.entries.len() {
            raw.truncate(self.table.raw_bytes(index));
            at += self.read_piece(index, at, &mut raw)?;
        }
        let extent = self.reference.extent;
        let filling = u64::from(extent.bytes) - at - table::bytes(self.reference.pieces) as u64;
        read_around(&self.file, extent.offset + at, filling as usize, |filling| {
            verify_filling(&self.file, extent.offset + at, filling)
        })
    }

    /// Decodes piece `index`, stored at byte `at` of the extent; returns its stored length.
    fn read_piece(&self, index: usize, at: u64, raw: &mut [u8]) -> Result<u64> {
        let Some(entry) = self.table.entries.get(index) else { return Ok(0) };
        let (offset, stored_bytes) = (self.reference.extent.offset + at, entry.stored_bytes);
        let place = || self.file.place(offset, stored_bytes.into());
        let mut decode = |stored: &[u8]| {
            entry.codec.decode(stored, raw).map_err(|bad| Error::Malformed {
                place: place(),
                what: WHAT,
                why: bad.0.into(),
            })
        };
        match &self.whole {
            Some(whole) => {
                let at = at as usize;
                decode(whole.get(at..at + stored_bytes as usize).unwrap_or_default())?;
            }
            None => read_around(&self.file, offset, stored_bytes as usize, |stored| {
                verify_piece(&self.file, &self.table, index, offset, stored)?;
                decode(stored)
            })?,
        }
        Ok(stored_bytes.into())
    }
}

fn verify_piece(
    file: &StoreFile,
    table: &Table,
    index: usize,
    offset: u64,
    stored: &[u8],
) -> Result<()> {
    let expected = table.entries.get(index).map_or(0, |entry| entry.hash);
    let computed = piece_hash(index, stored);
    if computed == expected {
        return Ok(());
    }
    let place = file.place(offset, stored.len() as u64);
    Err(Error::Checksum { place, what: WHAT, stored: expected, computed })
}

fn verify_filling(file: &StoreFile, offset: u64, filling: &[u8]) -> Result<()> {
    if filling.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(file.malformed(
        offset,
        filling.len() as u64,
        WHAT,
        "the padding between its pieces and its table is not zero",
    ))
}

/// Reads bytes that need not be aligned, by reading the pages around them.
fn read_around<T>(
    file: &StoreFile,
    offset: u64,
    bytes: usize,
    act: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    let skip = (offset % ALIGN as u64) as usize;
    if bytes == 0 {
        return act(&[]);
    }
    let whole = (skip + bytes).next_multiple_of(ALIGN);
    let buf = file.read(offset - skip as u64, whole as u64, WHAT)?;
    act(&buf[skip..skip + bytes])
}
