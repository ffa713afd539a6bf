//! The footer (`Footer`) of a run: everything except its blocks, in memory while the run is open,
//! and its form on disk.
//!
//! ```text
//! footer = header 64 B | first key | last key | format or dictionary | index | range deletes
//!      | blobs | filter | zeros
//! ```
//!
//! The zeros fill the extent, and the hash in the parent's link covers them too, so that every byte
//! of a run is covered: blocks by their CRC in the index, everything else by the hash.
//!
//! Invariants
//! 1. The length does not depend on the address of the run: space is allocated before the address
//!    is known.
//! 2. On disk a block's CRC is mixed with the extent's identity and the block's number; in memory
//!    it is plain.

use super::{filter::Filter, index::*, ranges::RangeDeletes};
use crate::{
    block::{
        BLOCK_RAW_BYTES_MAX, BLOCK_ROWS_BYTES_MAX, Codec, ColumnarFormat, Dictionary, Format,
        Packing, common_prefix, varint32,
    },
    bounds,
    coding::{Reader, put_bytes, put_varint},
    layout::DecodeError,
    page::Identity,
    sync::Arc,
};

/// "FRUN", then the version of this layout.
const MAGIC: u32 = 0x4e55_5246;
const VERSION: u8 = 1;
/// Version of runs with columnar blocks: a format follows the last key, and the index stores the
/// length of the rows.
const VERSION_COLUMNAR: u8 = 2;
/// Version of runs with row blocks of which some are transposed: the index says which.
const VERSION_TRANSPOSED: u8 = 3;
/// Version of runs with row blocks of which some use a dictionary, which follows the last key; some
/// may be transposed.
const VERSION_DICTIONARY: u8 = 4;
/// Offset of the version.
const VERSION_AT: usize = 4;
const HEADER_BYTES: usize = 64;

/// Counts of what is in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Keys.
    pub entries: u64,
    /// Keys that have a Delete.
    pub deletes: u64,
    /// Keys that have a Merge.
    pub merges: u64,
    /// Bytes of all keys and payloads; for row blocks those of the blocks before their codec.
    pub raw_bytes: u64,
}

impl Counts {
    /// Keys that have a value.
    pub fn puts(&self) -> u64 {
        self.entries - self.deletes - self.merges
    }
}

/// A 16-byte reference to a blob, as a PutBlob carries it, and how many rows of the run have it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlobUse {
    /// The reference.
    pub reference: [u8; 16],
    /// Rows that have it.
    pub rows: u32,
}

/// Everything of a run except its blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Footer {
    pub codec: Codec,
    pub format: Format,
    /// The dictionary that some block uses; `None` if no block does.
    pub dictionary: Option<Arc<Dictionary>>,
    pub counts: Counts,
    pub data_bytes: u32,
    pub first_key: Box<[u8]>,
    pub last_key: Box<[u8]>,
    pub index: BlockIndex,
    pub range_deletes: RangeDeletes,
    pub blobs: Vec<BlobUse>,
    pub filter: Option<Filter>,
}

/// The value that a block's CRC is mixed with on disk.
fn salt(seed: u64, block: usize) -> u32 {
    xxhash_rust::xxh3::xxh3_64_with_seed(&(block as u64).to_le_bytes(), seed) as u32
}

impl Footer {
    /// True if some block is transposed.
    pub fn has_transposed(&self) -> bool {
        self.index.entries().iter().any(|entry| entry.packing.is_transposed)
    }

    /// Encodes the footer, without the padding.
    pub fn to_disk(&self, identity: &Identity) -> Vec<u8> {
        let mut body = Vec::with_capacity(HEADER_BYTES + self.index.len() * 24);
        body.resize(HEADER_BYTES, 0);
        for key in [&self.first_key, &self.last_key] {
            put_bytes(&mut body, key);
        }
        let version = match &self.format {
            Format::Row => match &self.dictionary {
                Some(dictionary) => {
                    put_bytes(&mut body, dictionary.to_disk());
                    VERSION_DICTIONARY
                }
                None if self.has_transposed() => VERSION_TRANSPOSED,
                None => VERSION,
            },
            Format::Columnar(format) => {
                let mut bytes = Vec::new();
                format.to_disk(&mut bytes);
                put_bytes(&mut body, &bytes);
                VERSION_COLUMNAR
            }
        };
        let index_at = body.len();
        self.index_to_disk(identity.seed(), &mut body);
        let ranges_at = body.len();
        self.range_deletes.to_disk(&mut body);
        let blobs_at = body.len();
        for blob in &self.blobs {
            body.extend_from_slice(&blob.reference);
            body.extend_from_slice(&blob.rows.to_le_bytes());
        }
        let filter_at = body.len();
        if let Some(filter) = &self.filter {
            filter.to_disk(&mut body);
        }
        let probes = self.filter.as_ref().map_or(0, Filter::probes);
        let lengths = [
            ranges_at - index_at,
            blobs_at - ranges_at,
            filter_at - blobs_at,
            body.len() - filter_at,
        ];
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&[version, self.codec as u8, probes, 0]);
        header.extend_from_slice(&self.data_bytes.to_le_bytes());
        header.extend_from_slice(&(self.index.len() as u32).to_le_bytes());
        let Counts { entries, deletes, merges, raw_bytes } = self.counts;
        for count in [entries, deletes, merges, raw_bytes] {
            header.extend_from_slice(&count.to_le_bytes());
        }
        for length in lengths {
            header.extend_from_slice(&(length as u32).to_le_bytes());
        }
        body[..HEADER_BYTES].copy_from_slice(&header);
        body
    }

    fn index_to_disk(&self, seed: u64, out: &mut Vec<u8>) {
        let mut before: &[u8] = &[];
        for (block, entry) in self.index.entries().iter().enumerate() {
            let separator = self.index.separator(block);
            let shared = common_prefix(before, separator);
            put_varint(out, shared as u64);
            put_bytes(out, &separator[shared..]);
            before = separator;
            for number in
                [entry.encoded_bytes, entry.raw_bytes, entry.rows, entry.deletes, entry.merges]
            {
                put_varint(out, number.into());
            }
            if let Format::Columnar(_) = self.format {
                put_varint(out, entry.row_bytes.into());
            }
            out.push(entry.packing.to_disk() | u8::from(entry.has_blobs) << 7);
            out.extend_from_slice(&(entry.crc ^ salt(seed, block)).to_le_bytes());
        }
    }

    /// Decodes a footer whose hash was verified; the error says what is wrong with it, or that a
    /// newer Frond wrote it.
    pub fn from_disk(identity: &Identity, bytes: &[u8]) -> Result<Footer, DecodeError> {
        let version = bytes.get(VERSION_AT).copied().unwrap_or(VERSION);
        if bytes.starts_with(&MAGIC.to_le_bytes())
            && let Some(flaw) = DecodeError::version("run", version, VERSION_DICTIONARY)
        {
            return Err(flaw);
        }
        let why = |why: &str| DecodeError::Malformed { what: "its footer", why: why.into() };
        let (header, rest) =
            bytes.split_at_checked(HEADER_BYTES).ok_or_else(|| why("shorter than its header"))?;
        let mut header = Reader::new(header);
        let mut rest = Reader::new(rest);
        if header.u32() != Some(MAGIC) {
            return Err(why("not a run's footer"));
        }
        let [version, codec, probes, reserved] = header.array().ok_or_else(|| why("no version"))?;
        if reserved != 0 {
            return Err(why("reserved bits are set"));
        }
        let codec = Codec::from_disk(codec).ok_or_else(|| why("an unknown codec"))?;
        let mut word = || header.u32().ok_or_else(|| why("shorter than its header"));
        let (data_bytes, blocks) = (word()?, word()?);
        let mut long = || header.u64().ok_or_else(|| why("shorter than its header"));
        let counts =
            Counts { entries: long()?, deletes: long()?, merges: long()?, raw_bytes: long()? };
        let mut length =
            || header.u32().map(|n| n as usize).ok_or_else(|| why("shorter than its header"));
        let lengths = [length()?, length()?, length()?, length()?];
        let short = || why("a part reaches beyond the footer");
        let first_key: Box<[u8]> = rest.bytes().ok_or_else(short)?.into();
        let last_key: Box<[u8]> = rest.bytes().ok_or_else(short)?.into();
        let format = match version {
            VERSION_COLUMNAR => {
                let format = ColumnarFormat::from_disk(rest.bytes().ok_or_else(short)?)?;
                Format::Columnar(Arc::new(format))
            }
            _ => Format::Row,
        };
        let dictionary = match version {
            VERSION_DICTIONARY => {
                let dictionary = Dictionary::from_disk(rest.bytes().ok_or_else(short)?)?;
                Some(Arc::new(dictionary))
            }
            _ => None,
        };
        let mut part = |length: usize| rest.take(length).ok_or_else(short);
        let [index, ranges, blobs, filter] =
            [part(lengths[0])?, part(lengths[1])?, part(lengths[2])?, part(lengths[3])?];
        if rest.rest().iter().any(|&byte| byte != 0) {
            return Err(why("bytes after the last part"));
        }
        let mut ranges = Reader::new(ranges);
        let range_deletes =
            RangeDeletes::from_disk(&mut ranges).ok_or_else(|| why("bad range deletes"))?;
        if !ranges.rest().is_empty() {
            return Err(why("bytes after the range deletes"));
        }
        let filter = match (probes, filter) {
            (0, []) => None,
            _ => Some(Filter::from_disk(probes, filter).ok_or_else(|| why("a bad filter"))?),
        };
        let footer = Footer {
            codec,
            format,
            dictionary,
            counts,
            data_bytes,
            index: index_from_disk(identity.seed(), blocks, index, data_bytes, version)
                .map_err(why)?,
            first_key,
            last_key,
            range_deletes,
            blobs: blobs_from_disk(blobs).ok_or_else(|| why("a bad blob list"))?,
            filter,
        };
        footer.agrees().map_err(why)?;
        Ok(footer)
    }

    /// Checks the parts against each other.
    fn agrees(&self) -> Result<(), &'static str> {
        let mut counts = Counts::default();
        for entry in self.index.entries() {
            counts.entries += u64::from(entry.rows);
            counts.deletes += u64::from(entry.deletes);
            counts.merges += u64::from(entry.merges);
            counts.raw_bytes += u64::from(entry.row_bytes);
        }
        if counts != self.counts {
            return Err("its counts do not agree with its index");
        }
        let last_separator = self.index.separator(self.index.len().saturating_sub(1));
        let ordered = match self.index.len() {
            0 => self.first_key.is_empty() && self.last_key.is_empty(),
            1 => self.first_key <= self.last_key,
            _ => *self.first_key < *self.index.separator(1) && last_separator <= &*self.last_key,
        };
        if !ordered {
            return Err("its first and last key do not enclose its separators");
        }
        if self.index.is_empty() && self.range_deletes.is_empty() {
            return Err("neither entries nor range deletes");
        }
        Ok(())
    }
}

fn blobs_from_disk(bytes: &[u8]) -> Option<Vec<BlobUse>> {
    let mut reader = Reader::new(bytes);
    let mut blobs = Vec::with_capacity(bytes.len() / 20);
    while !reader.rest().is_empty() {
        blobs.push(BlobUse { reference: reader.array()?, rows: reader.u32()? });
    }
    Some(blobs)
}

fn index_from_disk(
    seed: u64,
    blocks: u32,
    bytes: &[u8],
    data_bytes: u32,
    version: u8,
) -> Result<BlockIndex, &'static str> {
    const SHORT: &str = "its index is cut short";
    let is_columnar = version == VERSION_COLUMNAR;
    let mut reader = Reader::new(bytes);
    let mut index = BlockIndex::default();
    let (mut separator, mut offset) = (Vec::new(), 0u32);
    for block in 0..blocks as usize {
        let shared = varint32(&mut reader).ok_or(SHORT)? as usize;
        let suffix = reader.bytes().ok_or(SHORT)?;
        let ascends = if block == 0 {
            shared == 0 && suffix.is_empty()
        } else {
            shared <= separator.len() && suffix > separator.get(shared..).unwrap_or_default()
        };
        if !ascends {
            return Err("its separators do not ascend");
        }
        separator.truncate(shared);
        separator.extend_from_slice(suffix);
        if separator.len() > bounds::KEY_BYTES.len()
            || index.separators_bytes() + separator.len() > bounds::SEPARATORS_BYTES.len()
        {
            return Err("its separators are too long");
        }
        let mut number = || varint32(&mut reader).ok_or(SHORT);
        let (encoded_bytes, raw_bytes) = (number()?, number()?);
        let (rows, deletes, merges) = (number()?, number()?, number()?);
        let row_bytes = if is_columnar { number()? } else { raw_bytes };
        let flags = reader.u8().ok_or(SHORT)?;
        let packing = Packing::from_disk(flags & 0x7f).ok_or("a block has an unknown codec")?;
        if is_columnar && !packing.is_raw() {
            return Err("a columnar block under a codec");
        }
        if packing.is_transposed && !matches!(version, VERSION_TRANSPOSED | VERSION_DICTIONARY) {
            return Err("a transposed block in a run that has none");
        }
        if packing.has_dictionary && version != VERSION_DICTIONARY {
            return Err("a block under a dictionary in a run that has none");
        }
        let crc = reader.u32().ok_or(SHORT)? ^ salt(seed, block);
        let fits = match packing.is_raw() {
            true => encoded_bytes >= raw_bytes,
            false => encoded_bytes < raw_bytes,
        };
        let counted = rows > 0 && deletes.checked_add(merges).is_some_and(|n| n <= rows);
        if !fits
            || !counted
            || raw_bytes.max(row_bytes) as usize > BLOCK_RAW_BYTES_MAX
            || encoded_bytes == 0
        {
            return Err("a block's lengths or counts are impossible");
        }
        if rows > 1 && row_bytes as usize > BLOCK_ROWS_BYTES_MAX {
            return Err("a block of several rows exceeds the maximum length");
        }
        let has_blobs = flags & 0x80 != 0;
        let entry = BlockEntry {
            offset,
            encoded_bytes,
            raw_bytes,
            row_bytes,
            rows,
            deletes,
            merges,
            crc,
            packing,
            has_blobs,
        };
        index.push(&separator, entry);
        offset = offset
            .checked_add(encoded_bytes)
            .ok_or("its blocks exceed the maximum length of a run")?;
    }
    if offset != data_bytes || !reader.rest().is_empty() {
        return Err("its blocks do not fill its data");
    }
    index.seal();
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::KEY_BYTES_MAX;

    /// Appends the index entry of a block, as on disk: rows of this total length, and a separator
    /// that shares this much with the previous one.
    fn put_block(shared: u64, suffix: &[u8], rows: u64, row_bytes: u64, out: &mut Vec<u8>) {
        put_varint(out, shared);
        put_bytes(out, suffix);
        for number in [9, 9, rows, 0, 0, row_bytes] {
            put_varint(out, number);
        }
        out.extend_from_slice(&[Codec::Raw as u8, 0, 0, 0, 0]);
    }

    fn read(blocks: u32, index: &[u8]) -> Result<BlockIndex, &'static str> {
        index_from_disk(7, blocks, index, 9 * blocks, VERSION_COLUMNAR)
    }

    /// Promise: P15, P20. A separator that shares everything with the previous one takes a few
    /// bytes on disk.
    #[test]
    fn separators_are_bounded() {
        let mut index = Vec::new();
        put_block(0, &[], 1, 9, &mut index);
        put_block(0, &[b'x'; KEY_BYTES_MAX - 3], 1, 9, &mut index);
        assert!(read(2, &index).is_ok());
        let mut longer = index.clone();
        put_block(KEY_BYTES_MAX as u64 - 3, &[0; 4], 1, 9, &mut longer);
        assert_eq!(read(3, &longer).err(), Some("its separators are too long"));
        let blocks = (bounds::SEPARATORS_BYTES.len() / KEY_BYTES_MAX) as u32;
        for number in 2..=blocks + 1 {
            put_block(KEY_BYTES_MAX as u64 - 3, &number.to_be_bytes()[1..], 1, 9, &mut index);
        }
        assert!(index.len() < 256 << 10);
        assert_eq!(read(blocks + 2, &index).err(), Some("its separators are too long"));
    }

    /// Promise: P15. Only a row that is long by itself makes a block long.
    #[test]
    fn blocks_of_several_rows_are_bounded() {
        let long = BLOCK_ROWS_BYTES_MAX as u64;
        for (rows, row_bytes, fits) in [(2, long, true), (2, long + 1, false), (1, long + 1, true)]
        {
            let mut index = Vec::new();
            put_block(0, &[], rows, row_bytes, &mut index);
            assert_eq!(read(1, &index).is_ok(), fits, "{rows} rows of {row_bytes} bytes");
        }
    }
}
