//! The superblock, which names the newest durable version and the places of its roots. It has two
//! slots, used in turn.
//!
//! Invariants
//! 1. A slot is one aligned 4 KiB write; its checksum covers every byte, its place and its
//!    sequence, so that a torn, misplaced or damaged slot is never taken for a good one.
//! 2. A slot's place is the parity of its sequence; a higher sequence is newer.
//! 3. Header + live + pending + free = file length, to the byte (docs/safety.md §3.5).
//! 4. `publish`, `applied`, `log_from` and `publish_limit` never decrease from one sequence to the
//!    next.
//!
//! Threads: pure functions. Bytes: docs/format.md, "Superblock".

use crate::{
    bounds,
    coding::{u32_at, u64_at},
    io::ALIGN,
    page::{
        FEATURE_ALPHABETS, FEATURE_COLUMNAR_RUNS, FEATURE_DICTIONARIES, FEATURE_PAGED_DIRECTORY,
        FEATURE_ROW_COUNTS, FEATURE_SUMS, FEATURE_TEMPLATES, FEATURE_TRANSPOSED_BLOCKS, Identity,
        LINK_BYTES, Link, PageKind, page_hash,
    },
    types::{Lineage, Lsn, Seqno, StoreId, VersionNumber},
};

/// Offsets of the slots.
pub(super) const SLOT_OFFSETS: [u64; 2] = [0, 64 << 10];
/// Offset of the owner page.
pub(super) const OWNER_OFFSET: u64 = 128 << 10;
/// Offset of the first extent; everything before it is the header.
pub const DATA_START: u64 = 192 << 10;
/// Length of a slot.
pub(super) const SLOT_BYTES: usize = ALIGN;
/// Longest page that is read whole: bounds what one link can make a reader allocate.
pub const PAGE_BYTES_MAX: u32 = bounds::PAGE_BYTES.default as u32;

pub(super) const MAGIC: &[u8; 8] = b"FrondSB\0";
/// The only format version so far.
pub const FORMAT: u32 = 1;
/// Features a reader must know.
const INCOMPAT_KNOWN: u64 = FEATURE_COLUMNAR_RUNS
    | FEATURE_TEMPLATES
    | FEATURE_TRANSPOSED_BLOCKS
    | FEATURE_DICTIONARIES
    | FEATURE_ROW_COUNTS
    | FEATURE_PAGED_DIRECTORY
    | FEATURE_SUMS
    | FEATURE_ALPHABETS;
/// Features a writer must know; none exist yet.
const RO_COMPAT_KNOWN: u64 = 0;
const CHECKSUM_AT: usize = SLOT_BYTES - 8;
/// Versions stay below this: sums of them cannot overflow.
pub(super) const PUBLISH_MAX: VersionNumber = VersionNumber(1 << 62);
/// Extent offsets stay below this: sums of them cannot overflow.
pub(super) const OFFSET_MAX: u64 = 1 << 56;

/// Bytes of the file by use, as of one published version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Bytes in extents that the version uses.
    pub live: u64,
    /// Bytes in extents that are dead in the version and kept for the older slot, for clones, named
    /// snapshots or the log.
    pub pending: u64,
    /// Bytes that can be reused.
    pub free: u64,
    /// End of the last live or pending extent.
    pub file_bytes: u64,
}

impl Totals {
    /// True if the sums fulfil invariant 3.
    pub fn are_exact(&self) -> bool {
        let parts = [self.live, self.pending, self.free];
        let sum = parts.into_iter().try_fold(DATA_START, |sum, part| sum.checked_add(part));
        sum == Some(self.file_bytes)
    }
}

/// The content of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Superblock {
    /// Features that a reader must know.
    pub incompat: u64,
    /// Features that a writer must know.
    pub ro_compat: u64,
    /// Features that may be ignored.
    pub compat: u64,
    /// The id of the store.
    pub store: StoreId,
    /// Number of slot writes so far, or more: an heir skips numbers (`passed_over.rs`).
    pub sequence: u64,
    /// The version.
    pub publish: VersionNumber,
    /// The version in the other slot when this one was written: its pages are still whole.
    pub previous: VersionNumber,
    /// No page born after this version may be written before the next slot; an open starts above
    /// it, so that births are never used twice (Rule: I20).
    pub publish_limit: VersionNumber,
    /// The boundary F: every tree holds exactly the commits through it (Rule: I9).
    pub applied: Seqno,
    /// The log position at which replay starts.
    pub log_from: Lsn,
    /// The log was known to be on disk up to here when the slot was written.
    pub log_synced: Lsn,
    /// The exact end of the log, after a clean close; a log that is shorter than this is damaged.
    pub clean: Option<Lsn>,
    /// The root directory; `None` in a new store.
    pub roots: Option<Link>,
    /// The directory page of the space map; `None` in a new store.
    pub map: Option<Link>,
    /// Sums of the space map.
    pub totals: Totals,
}

/// The result of reading a slot.
#[derive(Clone, Debug)]
pub(super) enum SlotRead {
    Good(Box<Superblock>),
    /// Not usable, with the reason in words; `ours` if it carries the magic number.
    Bad {
        why: String,
        ours: bool,
    },
    /// Intact, but it needs a newer Frond.
    TooNew(String),
}

/// The slot for a sequence.
pub(super) fn slot_of(sequence: u64) -> usize {
    (sequence % 2) as usize
}

impl Superblock {
    /// True until the first checkpoint: all commits so far are in the log only.
    pub fn is_new(&self) -> bool {
        self.roots.is_none()
    }

    /// True for a new store of which no log was known when the slot was written.
    pub fn knows_no_log(&self) -> bool {
        let Self { applied, log_from, log_synced, clean, .. } = *self;
        self.is_new() && applied.0 == 0 && log_from.0 == 0 && log_synced.0 == 0 && clean.is_none()
    }

    pub(super) fn encode(&self, slot: &mut [u8]) {
        assert_eq!(slot.len(), SLOT_BYTES, "a slot has one length");
        slot.fill(0);
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(MAGIC);
        let is_newer = plant!("store: a slot is encoded in a format to come");
        out.extend_from_slice(&(FORMAT + u32::from(is_newer)).to_le_bytes());
        out.extend_from_slice(&(slot_of(self.sequence) as u32).to_le_bytes());
        for word in [self.incompat, self.ro_compat, self.compat] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.store.0);
        for word in [
            self.sequence,
            self.publish.0,
            self.previous.0,
            self.publish_limit.0,
            self.applied.0,
            self.log_from.0,
            self.log_synced.0,
            u64::from(self.clean.is_some()),
            self.clean.unwrap_or_default().0,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.roots.unwrap_or_default().to_disk());
        out.extend_from_slice(&self.map.unwrap_or_default().to_disk());
        let totals = [self.totals.live, self.totals.pending, self.totals.free];
        for word in totals.into_iter().chain([self.totals.file_bytes]) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        slot[..out.len()].copy_from_slice(&out);
        let hash = checksum(self.store, self.sequence, &slot[..CHECKSUM_AT]);
        slot[CHECKSUM_AT..].copy_from_slice(&hash.to_le_bytes());
    }

    /// Decodes slot number `index`.
    pub(super) fn decode(index: usize, slot: &[u8]) -> SlotRead {
        if slot.get(..MAGIC.len()) != Some(MAGIC) {
            return SlotRead::Bad { why: "no magic number".into(), ours: false };
        }
        match Fields::read(slot) {
            Some(fields) => fields.check(index, slot),
            None => SlotRead::Bad { why: "too short".into(), ours: true },
        }
    }
}

fn checksum(store: StoreId, sequence: u64, bytes: &[u8]) -> u64 {
    let identity = Identity {
        store,
        kind: PageKind::Superblock,
        offset: SLOT_OFFSETS[slot_of(sequence)],
        bytes: SLOT_BYTES as u32,
        birth: VersionNumber(sequence),
        lineage: Lineage(0),
    };
    page_hash(&identity, bytes)
}

/// A slot's fields, unchecked.
struct Fields {
    format: u32,
    slot: u32,
    clean_flag: u64,
    superblock: Superblock,
    stored: u64,
}

impl Fields {
    fn read(slot: &[u8]) -> Option<Self> {
        let word = |at| u64_at(slot, at);
        let half = |at| u32_at(slot, at);
        let link = |at: usize| {
            let link = Link::from_disk(slot.get(at..at + LINK_BYTES)?.first_chunk()?);
            Some((link != Link::default()).then_some(link))
        };
        let clean_flag = word(112)?;
        let superblock = Superblock {
            incompat: word(16)?,
            ro_compat: word(24)?,
            compat: word(32)?,
            store: StoreId(*slot.get(40..56)?.first_chunk()?),
            sequence: word(56)?,
            publish: VersionNumber(word(64)?),
            previous: VersionNumber(word(72)?),
            publish_limit: VersionNumber(word(80)?),
            applied: Seqno(word(88)?),
            log_from: Lsn(word(96)?),
            log_synced: Lsn(word(104)?),
            clean: (clean_flag == 1).then_some(Lsn(word(120)?)),
            roots: link(128)?,
            map: link(164)?,
            totals: Totals {
                live: word(200)?,
                pending: word(208)?,
                free: word(216)?,
                file_bytes: word(224)?,
            },
        };
        let stored = word(CHECKSUM_AT)?;
        Some(Self { format: half(8)?, slot: half(12)?, clean_flag, superblock, stored })
    }

    fn check(self, index: usize, slot: &[u8]) -> SlotRead {
        let bad = |why: String| SlotRead::Bad { why, ours: true };
        let sb = self.superblock;
        // The places of the checksum and of what it covers are the same in every format version.
        let computed = checksum(sb.store, sb.sequence, slot.get(..CHECKSUM_AT).unwrap_or_default());
        if computed != self.stored {
            return bad(format!(
                "checksum fails (stored {:016x}, computed {computed:016x})",
                self.stored
            ));
        }
        if self.format > FORMAT {
            return SlotRead::TooNew(format!("format {}", self.format));
        }
        let unknown = sb.incompat & !INCOMPAT_KNOWN;
        if unknown != 0 {
            return SlotRead::TooNew(format!("incompatible features {unknown:#x}"));
        }
        if slot_of(sb.sequence) != index || self.slot as usize != index {
            return bad(format!("sequence {} belongs into the other slot", sb.sequence));
        }
        let links_fit = [sb.roots, sb.map].iter().flatten().all(|link| {
            link.bytes <= PAGE_BYTES_MAX && link_lies_below(link, sb.totals.file_bytes)
        });
        let wrong = [
            (self.format == 0, "format 0"),
            (self.clean_flag > 1, "an impossible clean flag"),
            (sb.publish > sb.publish_limit, "a version above its limit"),
            (sb.publish_limit > PUBLISH_MAX, "a version that no store reaches"),
            (sb.sequence > PUBLISH_MAX.0, "a sequence that no store reaches"),
            (sb.previous > sb.publish, "a previous version above its own"),
            (!sb.totals.are_exact(), "sums that are not exact"),
            (sb.totals.file_bytes > OFFSET_MAX, "a file longer than a store can be"),
            (sb.roots.is_some() != sb.map.is_some(), "one of its two roots only"),
            (!links_fit, "a root outside the file"),
        ];
        match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => bad(format!("it has {why}")),
            None => SlotRead::Good(Box::new(sb)),
        }
    }
}

impl Superblock {
    /// The features for writing that this version does not know, if any.
    pub(super) fn unknown_for_writing(&self) -> Option<u64> {
        let unknown = self.ro_compat & !RO_COMPAT_KNOWN;
        (unknown != 0).then_some(unknown)
    }
}

/// True if the link names an aligned extent between the header and `end`.
pub(super) fn link_lies_below(link: &Link, end: u64) -> bool {
    let align = ALIGN as u64;
    link.bytes > 0
        && link.footer_bytes <= link.bytes
        && link.offset >= DATA_START
        && link.offset <= OFFSET_MAX
        && link.offset.is_multiple_of(align)
        && u64::from(link.bytes).is_multiple_of(align)
        && link.offset + u64::from(link.bytes) <= end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(sequence: u64) -> Superblock {
        let link = |offset| Link {
            offset,
            bytes: 4096,
            footer_bytes: 4096,
            hash: 0x1234_5678_9abc_def0,
            birth: VersionNumber(41),
            lineage: Lineage(7),
        };
        Superblock {
            store: StoreId([9; 16]),
            sequence,
            publish: VersionNumber(42),
            previous: VersionNumber(40),
            publish_limit: VersionNumber(1 << 33),
            applied: Seqno(100),
            log_from: Lsn(4096),
            log_synced: Lsn(8192),
            clean: Some(Lsn(9000)),
            roots: Some(link(DATA_START)),
            map: Some(link(DATA_START + 4096)),
            totals: Totals { live: 8192, pending: 0, free: 0, file_bytes: DATA_START + 8192 },
            ..Superblock::default()
        }
    }

    fn encoded(superblock: &Superblock) -> Vec<u8> {
        let mut slot = vec![0; SLOT_BYTES];
        superblock.encode(&mut slot);
        slot
    }

    #[test]
    fn a_slot_is_valid_only_at_its_own_position() {
        for sequence in [6, 7] {
            let superblock = sample(sequence);
            let slot = encoded(&superblock);
            let index = slot_of(sequence);
            match Superblock::decode(index, &slot) {
                SlotRead::Good(read) => assert_eq!(*read, superblock),
                other => panic!("{other:?}"),
            }
            assert!(matches!(Superblock::decode(1 - index, &slot), SlotRead::Bad { .. }));
        }
    }

    /// Promise: P9.
    #[test]
    fn every_flipped_bit_is_detected() {
        let slot = encoded(&sample(6));
        for bit in 0..SLOT_BYTES * 8 {
            let mut damaged = slot.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Superblock::decode(0, &damaged), SlotRead::Bad { .. }), "bit {bit}");
        }
        assert!(matches!(Superblock::decode(0, &[0; SLOT_BYTES]), SlotRead::Bad { .. }));
        assert!(matches!(Superblock::decode(0, &slot[..100]), SlotRead::Bad { .. }));
    }

    /// Promise: P22.
    #[test]
    fn newer_formats_and_features_are_refused_by_name() {
        let mut slot = encoded(&Superblock { incompat: 1 << 8, ..sample(6) });
        assert!(
            matches!(Superblock::decode(0, &slot), SlotRead::TooNew(why) if why.contains("0x100"))
        );
        slot = encoded(&sample(6));
        slot[8] = 2;
        let hash = checksum(StoreId([9; 16]), 6, &slot[..CHECKSUM_AT]);
        slot[CHECKSUM_AT..].copy_from_slice(&hash.to_le_bytes());
        assert!(matches!(Superblock::decode(0, &slot), SlotRead::TooNew(why) if why == "format 2"));
        assert!(Superblock { ro_compat: 2, ..sample(6) }.unknown_for_writing().is_some());
    }

    /// Promise: P20.
    #[test]
    fn invalid_content_with_a_valid_checksum_is_refused() {
        let good = sample(6);
        let far = Link { offset: 1 << 40, ..good.roots.unwrap() };
        let odd = Link { offset: DATA_START + 1, ..good.roots.unwrap() };
        let huge = Link { bytes: !4095, ..good.roots.unwrap() };
        let cases = [
            Superblock { roots: None, ..good },
            Superblock { roots: Some(far), ..good },
            Superblock { map: Some(odd), ..good },
            Superblock { map: Some(huge), ..good },
            Superblock { previous: VersionNumber(43), ..good },
            Superblock { publish: VersionNumber(u64::MAX), ..good },
            Superblock { totals: Totals { live: 4096, ..good.totals }, ..good },
            Superblock { totals: Totals { free: u64::MAX, ..good.totals }, ..good },
        ];
        for case in cases {
            let read = Superblock::decode(0, &encoded(&case));
            assert!(matches!(read, SlotRead::Bad { .. }), "{case:?}");
        }
    }
}
