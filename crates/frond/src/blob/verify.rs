//! Checking a blob's extent as a stream of bytes, for code that copies blobs without reading their
//! values.

use xxhash_rust::xxh3::Xxh3;

use super::{
    BlobRef,
    table::{self, Table, WHAT},
};
use crate::{
    error::{Error, Result},
    io::ALIGN,
    page::StoreFile,
};

/// A check of one extent. All its bytes must be passed, in order, before [`BlobCheck::end`] is
/// called.
pub struct BlobCheck<'a> {
    /// The file that errors name; determines the store's id.
    file: &'a StoreFile,
    reference: BlobRef,
    table: Table,
    table_bytes: Vec<u8>,
    /// Number of bytes passed so far.
    at: u64,
    piece: usize,
    /// Bytes of the current piece not passed yet.
    left: u64,
    hasher: Xxh3,
}

impl BlobRef {
    /// Length of the whole pages at the end of the extent that contain the table.
    pub fn footer_bytes(&self) -> usize {
        table::bytes(self.pieces).next_multiple_of(ALIGN).min(self.extent.bytes as usize)
    }
}

impl<'a> BlobCheck<'a> {
    /// Starts with the last [`footer_bytes`](BlobRef::footer_bytes) of the extent.
    pub fn new(file: &'a StoreFile, reference: BlobRef, footer: &[u8]) -> Result<Self> {
        let before = footer.len().saturating_sub(table::bytes(reference.pieces));
        let table_bytes = footer.get(before..).unwrap_or_default().to_vec();
        let table = Table::from_disk(file, &reference, &table_bytes)?;
        let left = table.entries.first().map_or(0, |entry| entry.stored_bytes.into());
        let hasher = Xxh3::with_seed(1);
        Ok(Self { file, reference, table, table_bytes, at: 0, piece: 0, left, hasher })
    }

    /// Checks the next bytes.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let now = match self.table.entries.get(self.piece) {
                Some(_) => self.take_piece(bytes)?,
                None => self.take_end(bytes)?,
            };
            self.at += now as u64;
            bytes = bytes.get(now..).unwrap_or_default();
        }
        Ok(())
    }

    fn take_piece(&mut self, bytes: &[u8]) -> Result<usize> {
        let now = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.hasher.update(bytes.get(..now).unwrap_or_default());
        self.left -= now as u64;
        if self.left > 0 {
            return Ok(now);
        }
        let computed = self.hasher.digest();
        if let Some(entry) = self.table.entries.get(self.piece).filter(|one| one.hash != computed) {
            let start = self.at + now as u64 - u64::from(entry.stored_bytes);
            let place =
                self.file.place(self.reference.extent.offset + start, entry.stored_bytes.into());
            return Err(Error::Checksum { place, what: WHAT, stored: entry.hash, computed });
        }
        self.piece += 1;
        self.left = self.table.entries.get(self.piece).map_or(0, |next| next.stored_bytes.into());
        // As in `piece_hash`: the seed is the piece's number plus 1.
        self.hasher = Xxh3::with_seed(self.piece as u64 + 1);
        Ok(now)
    }

    /// Checks the zeros, then the table once more.
    fn take_end(&self, bytes: &[u8]) -> Result<usize> {
        let extent = self.reference.extent;
        let table_at = u64::from(extent.bytes) - self.table_bytes.len() as u64;
        let right = bytes.iter().zip(self.at..).all(|(&byte, at)| {
            let expected = match at.checked_sub(table_at) {
                Some(at) => self.table_bytes.get(at as usize).copied(),
                None => Some(0),
            };
            expected == Some(byte)
        });
        if right {
            return Ok(bytes.len());
        }
        let (offset, bytes) = (extent.offset + self.at, bytes.len() as u64);
        Err(self.file.malformed(
            offset,
            bytes,
            WHAT,
            "the bytes after its last piece are not zeros followed by its table",
        ))
    }

    /// Ends the check: all bytes must have been passed.
    pub fn end(self) -> Result<()> {
        let extent = self.reference.extent;
        if self.at == u64::from(extent.bytes) {
            return Ok(());
        }
        let why = "it is not as long as its reference says";
        Err(self.file.malformed(extent.offset, extent.bytes.into(), WHAT, why))
    }
}
