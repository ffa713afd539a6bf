//! The content of one file, copied on write.
//!
//! Invariants
//! 1. A page that is not in the map reads as zeros and takes no space; a page in the map takes
//!    space even if it is zero (`allocate`).
//! 2. `digest` depends on length and bytes only, not on what is allocated. Each change updates it,
//!    so two of thousands of crash states are compared in a nanosecond.
//! 3. Bytes at and after `len` are zero.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes of a page of the image.
pub const PAGE: usize = 4096;
/// Bytes that the device writes completely or not at all.
pub const SECTOR: usize = 512;

#[derive(Debug)]
struct Page {
    bytes: [u8; PAGE],
    digest: u64, // 0 for a page of zeros, as for none
}

static ZEROS: LazyLock<Arc<Page>> =
    LazyLock::new(|| Arc::new(Page { bytes: [0; PAGE], digest: 0 }));

/// Pages in one piece of the page table: copies of an image share all pieces except those that they
/// change.
const PIECE: u64 = 64;

type Piece = [Option<Arc<Page>>; PIECE as usize];

/// Content of a file.
#[derive(Clone, Debug, Default)]
pub struct Image {
    len: u64,
    pieces: BTreeMap<u64, Arc<Piece>>,
    allocated: u64,
    sum: u64,
}

static ALL_ZEROS: LazyLock<Arc<Piece>> =
    LazyLock::new(|| Arc::new(std::array::from_fn(|_| Some(ZEROS.clone()))));

fn share(number: u64, digest: u64) -> u64 {
    if digest == 0 {
        return 0;
    }
    (digest ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl Image {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Allocated space in bytes.
    pub fn allocated_bytes(&self) -> u64 {
        self.allocated * PAGE as u64
    }

    /// Space that a write of this range would allocate, in bytes.
    pub fn missing_bytes(&self, offset: u64, bytes: u64) -> u64 {
        let missing = page_numbers(offset, bytes).filter(|&number| self.page(number).is_none());
        missing.count() as u64 * PAGE as u64
    }

    /// The digest; equal images have equal digests.
    pub fn digest(&self) -> u64 {
        (self.sum ^ self.len).wrapping_mul(0xff51_afd7_ed55_8ccd) ^ (self.sum >> 29)
    }

    /// Copies bytes out; holes, and bytes past the end, read as zero.
    pub fn read(&self, offset: u64, buf: &mut [u8]) {
        for (number, at, range) in pieces(offset, buf.len()) {
            match self.page(number) {
                Some(page) => {
                    let bytes = range.len();
                    buf[range].copy_from_slice(&page.bytes[at..at + bytes]);
                }
                None => buf[range].fill(0),
            }
        }
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes);
        bytes
    }

    /// Writes bytes, and grows the file if needed.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for (number, at, range) in pieces(offset, data.len()) {
            let old = self.page(number);
            let mut bytes = old.map_or([0; PAGE], |page| page.bytes);
            bytes[at..at + range.len()].copy_from_slice(&data[range]);
            self.put(number, bytes);
        }
        self.len = self.len.max(offset + data.len() as u64);
    }

    /// Sets the length: cuts the file, or extends it by a hole.
    pub fn set_len(&mut self, len: u64) {
        if len < self.len {
            let first_whole = len.div_ceil(PAGE as u64);
            self.drop_pages(first_whole, u64::MAX);
            self.zero(len, first_whole * PAGE as u64 - len);
        }
        self.len = len;
    }

    /// Allocates space for a range, and grows the file to its end.
    pub fn allocate(&mut self, offset: u64, bytes: u64) {
        let mut numbers = page_numbers(offset, bytes);
        while let Some(number) = numbers.next() {
            let whole = number % PIECE == 0 && numbers.end - number >= PIECE;
            if whole && !self.pieces.contains_key(&(number / PIECE)) {
                self.pieces.insert(number / PIECE, ALL_ZEROS.clone());
                self.allocated += PIECE;
                numbers.start = number + PIECE;
            } else if self.page(number).is_none() {
                self.set_page(number, Some(ZEROS.clone()));
            }
        }
        self.len = self.len.max(offset + bytes);
    }

    /// Zeroes a range and frees the pages that are completely inside it.
    pub fn punch(&mut self, offset: u64, bytes: u64) {
        let end = (offset + bytes).min(self.len.next_multiple_of(PAGE as u64));
        if end <= offset {
            return;
        }
        let (first, last) = (offset.div_ceil(PAGE as u64), end / PAGE as u64);
        if first >= last {
            return self.zero(offset, end - offset);
        }
        self.zero(offset, first * PAGE as u64 - offset);
        self.zero(last * PAGE as u64, end - last * PAGE as u64);
        self.drop_pages(first, last);
    }

    /// Numbers of the pages that are not all zero, ascending.
    pub fn used_pages(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (&piece, pages) in self.pieces.iter().filter(|(_, it)| !Arc::ptr_eq(it, &ALL_ZEROS)) {
            let used =
                |page: &Option<Arc<Page>>| page.as_ref().is_some_and(|page| page.digest != 0);
            let of_piece = pages.iter().enumerate().filter(|(_, page)| used(page));
            numbers.extend(of_piece.map(|(at, _)| piece * PIECE + at as u64));
        }
        numbers
    }

    fn zero(&mut self, offset: u64, bytes: u64) {
        for (number, at, range) in pieces(offset, bytes as usize) {
            if let Some(page) = self.page(number) {
                let mut content = page.bytes;
                content[at..at + range.len()].fill(0);
                self.put(number, content);
            }
        }
    }

    fn put(&mut self, number: u64, bytes: [u8; PAGE]) {
        let page = if bytes == [0; PAGE] {
            ZEROS.clone()
        } else {
            let digest = xxh3_64_with_seed(&bytes, 1).max(1);
            Arc::new(Page { bytes, digest })
        };
        self.set_page(number, Some(page));
    }

    fn page(&self, number: u64) -> Option<&Arc<Page>> {
        self.pieces.get(&(number / PIECE))?[(number % PIECE) as usize].as_ref()
    }

    fn set_page(&mut self, number: u64, page: Option<Arc<Page>>) {
        let none = || Arc::new(std::array::from_fn(|_| None));
        let piece = Arc::make_mut(self.pieces.entry(number / PIECE).or_insert_with(none));
        let place = &mut piece[(number % PIECE) as usize];
        let digest = |page: &Option<Arc<Page>>| page.as_ref().map_or(0, |page| page.digest);
        self.sum = self.sum.wrapping_add(share(number, digest(&page)));
        self.sum = self.sum.wrapping_sub(share(number, digest(place)));
        self.allocated += u64::from(page.is_some());
        self.allocated -= u64::from(place.is_some());
        *place = page;
    }

    fn drop_pages(&mut self, first: u64, end: u64) {
        let pieces: Vec<u64> =
            self.pieces.range(first / PIECE..=end / PIECE).map(|(&piece, _)| piece).collect();
        for piece in pieces {
            for number in piece * PIECE..(piece + 1) * PIECE {
                if (first..end).contains(&number) && self.page(number).is_some() {
                    self.set_page(number, None);
                }
            }
        }
    }
}

fn page_numbers(offset: u64, bytes: u64) -> std::ops::Range<u64> {
    if bytes == 0 {
        return 0..0;
    }
    offset / PAGE as u64..(offset + bytes).div_ceil(PAGE as u64)
}

/// Cuts a range at page boundaries: page number, offset in the page, range in the caller's buffer.
fn pieces(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= bytes {
            return None;
        }
        let position = offset + done as u64;
        let at = (position % PAGE as u64) as usize;
        let take = (PAGE - at).min(bytes - done);
        let piece = (position / PAGE as u64, at, done..done + take);
        done += take;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dice;

    /// Compares an image with a plain vector of bytes: every operation, odd offsets; equal content
    /// ⇒ equal digest.
    #[test]
    fn an_image_is_a_vector_of_bytes() {
        let mut dice = Dice::new(7);
        for _ in 0..200 {
            let mut image = Image::default();
            let mut bytes: Vec<u8> = Vec::new();
            for _ in 0..30 {
                let offset = dice.below(20_000);
                let size = dice.below(9_000);
                let end = (offset + size) as usize;
                match dice.below(5) {
                    0 | 1 => {
                        let fill = dice.below(3) as u8;
                        image.write(offset, &vec![fill; size as usize]);
                        bytes.resize(bytes.len().max(end), 0);
                        bytes[offset as usize..end].fill(fill);
                    }
                    2 => {
                        image.set_len(offset);
                        bytes.resize(offset as usize, 0);
                    }
                    3 => {
                        image.allocate(offset, size);
                        bytes.resize(bytes.len().max(end), 0);
                    }
                    _ => {
                        image.punch(offset, size);
                        let end = end.min(bytes.len());
                        if (offset as usize) < end {
                            bytes[offset as usize..end].fill(0);
                        }
                    }
                }
                assert_eq!(image.to_vec(), bytes);
                let mut again = Image::default();
                again.set_len(bytes.len() as u64);
                again.write(0, &bytes);
                assert_eq!(image.digest(), again.digest());
            }
        }
    }
}
