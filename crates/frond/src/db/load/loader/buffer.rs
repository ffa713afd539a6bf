//! Buffered rows in memory, in the order of arrival, then sorted.
//!
//! Rows lie in an arena of chunks that are kept from one filling to the next, so that pages are
//! touched for the first time only once. Sorting moves 16 bytes per row: eight bytes of its key
//! after the prefix common to all keys, and its place, which breaks ties in the order of arrival.
//! (Frames of 16 KiB are shorter than the longest row, so these chunks are not frames. Their owner
//! counts them towards the budget.)
//!
//! Invariants
//! 1. Places ascend as rows are added.
//! 2. After `sort`, keys ascend strictly.
//!
//! Threads: one.

use crate::{
    block::common_prefix,
    message::Tag,
    run::{Entry, head},
};

/// Chunk length, which holds the longest row: a key and a value that stays in its run, and the
/// header.
const CHUNK_BYTES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 18;
/// Maximum number of chunks: places have 32 bits.
const CHUNKS_MAX: usize = 1 << (32 - PLACE_BITS);
/// Header of a row: lengths of key and payload, tag.
const HEAD_BYTES: usize = 9;
/// Memory per row besides its bytes: its slot, and the spare capacity of the vector of slots.
const SLOT_BYTES: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u64,
    place: u32,
}

/// Rows, unsorted or sorted.
#[derive(Debug, Default)]
pub(super) struct RowBuffer {
    chunks: Vec<Box<[u8]>>,
    /// Number of chunks with rows; the last of them is used up to `end`.
    used: usize,
    end: usize,
    slots: Vec<Slot>,
    /// Length of the prefix common to all keys.
    common: usize,
    /// Keys were added in strictly ascending order.
    ascends: bool,
}

fn entry(chunks: &[Box<[u8]>], place: u32) -> Entry<'_> {
    let chunk = &chunks[place as usize >> PLACE_BITS];
    let row = &chunk[place as usize & (CHUNK_BYTES - 1)..];
    let length = |at: usize| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]);
    let (key_end, end) = (HEAD_BYTES + length(0) as usize, length(4) as usize);
    let tag = Tag::from_disk(row[8]).expect("rows of the arena are as they were put there");
    Entry { key: &row[HEAD_BYTES..key_end], tag, payload: &row[key_end..end] }
}

impl RowBuffer {
    /// Bytes of the rows, slots included, for comparison with a limit.
    pub fn bytes(&self) -> usize {
        self.used.saturating_sub(1) * CHUNK_BYTES + self.end + self.slots.len() * SLOT_BYTES
    }

    /// Memory used, bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.chunks.len() * CHUNK_BYTES + self.slots.capacity() * size_of::<Slot>()) as u64
    }

    /// True if one more row stays within `bytes_max`, or is the first.
    pub fn has_room(&self, key: &[u8], payload: &[u8], bytes_max: u64) -> bool {
        let row = HEAD_BYTES + key.len() + payload.len() + SLOT_BYTES;
        self.is_empty() || (self.bytes() + row) as u64 <= bytes_max && self.used < CHUNKS_MAX - 1
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn rows(&self) -> u64 {
        self.slots.len() as u64
    }

    /// The first row's key; empty if there is none.
    pub fn first_key(&self) -> &[u8] {
        self.iter().next().map_or(&[], |row| row.key)
    }

    /// True if the rows were added in key order, without duplicates.
    pub fn ascends(&self) -> bool {
        self.ascends
    }

    /// Adds a row.
    pub fn push(&mut self, key: &[u8], tag: Tag, payload: &[u8]) {
        let bytes = HEAD_BYTES + key.len() + payload.len();
        assert!(bytes <= CHUNK_BYTES, "longer values are blobs");
        match self.slots.last() {
            None => (self.common, self.ascends) = (key.len(), true),
            Some(last) => {
                let last = entry(&self.chunks, last.place).key;
                let common = self.common.min(key.len());
                self.ascends = self.ascends && last < key;
                self.common = common_prefix(&last[..common], &key[..common]);
            }
        }
        if self.used == 0 || self.end + bytes > CHUNK_BYTES {
            if self.used == self.chunks.len() {
                self.chunks.push(vec![0; CHUNK_BYTES].into());
            }
            (self.used, self.end) = (self.used + 1, 0);
        }
        let place = ((self.used - 1) << PLACE_BITS | self.end) as u32;
        let row = &mut self.chunks[self.used - 1][self.end..self.end + bytes];
        row[..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        row[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
        row[8] = tag.to_disk();
        row[HEAD_BYTES..HEAD_BYTES + key.len()].copy_from_slice(key);
        row[HEAD_BYTES + key.len()..].copy_from_slice(payload);
        self.end += bytes;
        self.slots.push(Slot { head: 0, place });
    }

    /// Sorts the rows and keeps the last one of each key; the others are passed to `loser`, whose
    /// error ends the call.
    pub fn sort<E>(&mut self, mut loser: impl FnMut(Entry<'_>) -> Result<(), E>) -> Result<(), E> {
        if self.ascends {
            return Ok(());
        }
        let Self { chunks, slots, common, .. } = self;
        let key = |slot: &Slot| entry(chunks, slot.place).key;
        for slot in slots.iter_mut() {
            slot.head = head(key(slot), *common);
        }
        slots.sort_unstable_by(|a, b| {
            let by_key = a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b)));
            by_key.then_with(|| a.place.cmp(&b.place))
        });
        let mut kept = 0;
        for at in 0..slots.len() {
            let same = |next: &Slot| next.head == slots[at].head && key(next) == key(&slots[at]);
            if slots.get(at + 1).is_some_and(same) {
                loser(entry(chunks, slots[at].place))?;
            } else {
                slots[kept] = slots[at];
                kept += 1;
            }
        }
        slots.truncate(kept);
        Ok(())
    }

    /// The rows, in their current order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Entry<'_>> {
        self.slots.iter().map(|slot| entry(&self.chunks, slot.place))
    }

    /// Removes the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        (self.used, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(rows: &[(&[u8], &[u8])]) -> (Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>) {
        let mut buffer = RowBuffer::default();
        rows.iter().for_each(|(key, value)| buffer.push(key, Tag::PUT, value));
        let mut lost = Vec::new();
        let sorted: Result<(), ()> = buffer.sort(|entry| {
            lost.push(entry.payload.to_vec());
            Ok(())
        });
        assert_eq!(sorted, Ok(()));
        let rows = buffer.iter().map(|entry| (entry.key.to_vec(), entry.payload.to_vec()));
        (rows.collect(), lost)
    }

    #[test]
    fn the_last_row_of_a_key_wins_in_sorted_order() {
        let (rows, lost) = sorted(&[
            (b"pb", b"1"),
            (b"pa", b"2"),
            (b"pb", b"3"),
            (b"p", b"4"),
            (b"pb", b"5"),
            (b"p\0", b"6"),
        ]);
        let expected: [(&[u8], &[u8]); 4] =
            [(b"p", b"4"), (b"p\0", b"6"), (b"pa", b"2"), (b"pb", b"5")];
        assert_eq!(rows, expected.map(|(key, value)| (key.to_vec(), value.to_vec())));
        assert_eq!(lost, [b"1".to_vec(), b"3".to_vec()], "in the order in which they came");
    }

    #[test]
    fn keys_that_differ_after_sixteen_bytes_are_distinguished() {
        let key = |n: u32| [&[7u8; 20][..], &n.to_be_bytes(), &[9; 30]].concat();
        let keys: Vec<Vec<u8>> = (0..3000).map(|n| key(n * 7919 % 3000)).collect();
        let rows: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &key[..3])).collect();
        let (rows, lost) = sorted(&rows);
        assert!(lost.is_empty());
        assert!(rows.iter().map(|(key, _)| key.clone()).eq((0..3000).map(key)));
    }

    #[test]
    fn the_buffer_tracks_whether_its_keys_ascend() {
        let mut buffer = RowBuffer::default();
        for key in [&b"a"[..], b"ab", b"b"] {
            buffer.push(key, Tag::PUT, &vec![1; 60_000]);
            assert!(buffer.ascends());
        }
        buffer.push(b"b", Tag::PUT, b"again");
        assert!(!buffer.ascends());
        let memory = buffer.memory_bytes();
        buffer.clear();
        assert!(buffer.is_empty() && buffer.bytes() == 0 && buffer.memory_bytes() == memory);
        buffer.push(b"a", Tag::PUT, b"");
        assert!(buffer.ascends() && buffer.rows() == 1);
    }
}
