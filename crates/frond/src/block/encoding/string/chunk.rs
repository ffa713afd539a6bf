//! Chunks: the string bytes of a column, stored raw or under a general codec.
//!
//! The columnar encodings leave only text for a codec to compress. The codec gets the string bytes
//! of a column as one chunk. It is used only where it saves a tenth, since every read of the column
//! then decodes the whole chunk.
//!
//! ```text
//! plain    length | bytes
//! encoded  length | encoded length | bytes of the codec
//! ```
//!
//! The column's first byte, which also holds the codec, says which of the two it is.

use crate::{
    block::{BadBlock, Codec},
    coding::{Reader, put_varint},
};

/// Fewer bytes are not worth trying: a codec's own header is a dozen bytes.
const CHUNK_BYTES_MIN: usize = 64;

/// What a codec made of the bytes of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chunked {
    /// The codec used.
    pub codec: Codec,
    /// Raw length of the bytes.
    pub bytes: usize,
    /// Stored length of the bytes.
    pub stored: usize,
}

impl Chunked {
    /// True if the bytes are long enough for a codec to be tried.
    pub fn is_tried(&self) -> bool {
        self.bytes >= CHUNK_BYTES_MIN
    }
}

/// The lengths at the start of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChunkHead {
    codec: Codec,
    bytes: usize,
    stored: usize,
}

/// Returns the codec to use for `bytes`, and what is to be stored.
pub(super) fn encode<'a>(
    codec: Codec,
    bytes: &'a [u8],
    buffer: &'a mut Vec<u8>,
) -> (Codec, &'a [u8]) {
    if codec == Codec::Raw || bytes.len() < CHUNK_BYTES_MIN {
        return (Codec::Raw, bytes);
    }
    match codec.encode(bytes, buffer) {
        Codec::Raw => (Codec::Raw, bytes),
        kept if worth_it(bytes.len(), buffer.len()) => (kept, buffer),
        _ => (Codec::Raw, bytes),
    }
}

/// True if the saving is worth the cost that every reader decodes the whole chunk.
pub(super) fn worth_it(direct_bytes: usize, coded_bytes: usize) -> bool {
    coded_bytes < direct_bytes - direct_bytes / 10
}

/// Writes the lengths of a chunk of `bytes` bytes.
pub(super) fn put_head(codec: Codec, bytes: usize, stored: usize, out: &mut Vec<u8>) {
    put_varint(out, bytes as u64);
    if codec != Codec::Raw {
        put_varint(out, stored as u64);
    }
}

impl ChunkHead {
    /// Reads the lengths of a chunk of at most `bytes_max` bytes.
    #[inline]
    pub fn parse(
        codec: Codec,
        reader: &mut Reader<'_>,
        bytes_max: usize,
    ) -> Result<Self, BadBlock> {
        const BAD: BadBlock = BadBlock("a string column has no length");
        let bytes = usize::try_from(reader.varint().ok_or(BAD)?).map_err(|_| BAD)?;
        let stored = match codec {
            Codec::Raw => bytes,
            _ => usize::try_from(reader.varint().ok_or(BAD)?).map_err(|_| BAD)?,
        };
        if bytes > bytes_max {
            return Err(BadBlock("a string column is longer than its block's rows"));
        }
        Ok(Self { codec, bytes, stored })
    }

    /// Reads the stored bytes.
    #[inline]
    pub fn stored<'a>(&self, reader: &mut Reader<'a>) -> Result<&'a [u8], BadBlock> {
        reader.take(self.stored).ok_or(BadBlock("a string column ends early"))
    }

    /// The raw bytes of the stored ones: the stored bytes themselves, or what is decoded into
    /// `buffer`, unless it holds that already.
    #[inline]
    pub fn decode<'a>(
        &self,
        stored: &'a [u8],
        buffer: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], BadBlock> {
        if self.codec == Codec::Raw {
            return Ok(stored);
        }
        if buffer.len() != self.bytes {
            buffer.resize(self.bytes, 0);
            if let Err(bad) = self.codec.decode(stored, buffer) {
                buffer.clear();
                return Err(bad);
            }
        }
        Ok(buffer)
    }
}
