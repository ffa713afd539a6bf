//! Dropping a dictionary that saved a run less than it takes itself: its blocks are encoded again
//! without it.
//!
//! Only at the end of a leaf is it known that the leaf is short, or has carried most of its blocks.
//! Then few blocks use the dictionary, so encoding them twice is little work.

use super::{
    builder::{RunBuilder, malformed},
    index::{BlockEntry, BlockIndex},
    work::EncodeStats,
};
use crate::{block::Dictionary, cache::FrameBuf, error::Result, sync::Arc};

impl RunBuilder {
    /// Returns the dictionary that the run keeps, if it pays. To be called after the last block.
    pub(super) fn dictionary_if_it_pays(&mut self) -> Result<Option<Arc<Dictionary>>> {
        let under = self.index.entries().iter().filter(|entry| entry.packing.has_dictionary);
        let bytes: u64 = under.map(|entry| u64::from(entry.encoded_bytes)).sum();
        let Some(dictionary) = self.block.dictionary().cloned().filter(|_| bytes > 0) else {
            return Ok(None);
        };
        if !self.block.under().is_some_and(|under| under.is_in_vain(bytes)) {
            return Ok(Some(dictionary));
        }
        Ok(if self.encode_without(&dictionary)? { None } else { Some(dictionary) })
    }

    /// Encodes the blocks again without the dictionary, and returns true, unless that makes them
    /// longer than with it plus the dictionary itself: in a store that was just opened the savings
    /// of a dictionary are a guess.
    fn encode_without(&mut self, dictionary: &Dictionary) -> Result<bool> {
        let mut done = self.done;
        let mut data = FrameBuf::new(self.pool.clone());
        let mut index = BlockIndex::default();
        let (mut stored, mut raw, mut encoded) = (Vec::new(), Vec::new(), Vec::new());
        for (block, &entry) in self.index.entries().iter().enumerate() {
            stored.clear();
            let start = entry.offset as usize;
            self.data.copy_to(start..start + entry.encoded_bytes as usize, &mut stored);
            let mut entry = BlockEntry { offset: data.len() as u32, ..entry };
            if entry.packing.has_dictionary {
                raw.resize(entry.raw_bytes as usize, 0);
                let decoded = entry.packing.decode(Some(dictionary), &stored, &mut raw);
                decoded.map_err(|bad| malformed(bad.0))?;
                entry.packing = self.block.encode_plainly(self.options.codec, &raw, &mut encoded);
                let bytes = if entry.packing.is_raw() { &raw } else { &encoded };
                recount(&mut done, &entry, bytes.len() as u64);
                (entry.encoded_bytes, entry.crc) = (bytes.len() as u32, crc32c::crc32c(bytes));
                data.extend(bytes);
            } else {
                data.extend(&stored);
            }
            index.push(self.index.separator(block), entry);
        }
        if data.len() > self.data.len() + dictionary.to_disk().len() {
            return Ok(false);
        }
        (self.data, self.index, self.done) = (data, index, done);
        Ok(true)
    }
}

/// Replaces what a block took (the entry's length) in the counters by what it takes now.
fn recount(done: &mut EncodeStats, entry: &BlockEntry, bytes: u64) {
    let before = u64::from(entry.encoded_bytes);
    let instead = |sum: u64, now: u64, before: u64| (sum + now).saturating_sub(before);
    done.bytes = instead(done.bytes, bytes, before);
    if entry.packing.is_raw() {
        let raw = u64::from(entry.raw_bytes);
        done.chunks_coded = done.chunks_coded.saturating_sub(1);
        done.chunks_coded_from_bytes = done.chunks_coded_from_bytes.saturating_sub(raw);
        done.chunks_coded_bytes = done.chunks_coded_bytes.saturating_sub(before);
        done.chunks_raw += 1;
    } else {
        done.chunks_coded_bytes = instead(done.chunks_coded_bytes, bytes, before);
    }
}
