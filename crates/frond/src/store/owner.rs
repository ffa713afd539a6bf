//! The owner page: which process has the store open, and above which version its own versions
//! start.
//!
//! Ownership is the kernel's lock on the open store file, which ends with its owner. This page only
//! names the owner in the message to a second opener (P18); a read-only open does not write it. The
//! page also keeps births apart: each open starts to count versions above everything that an
//! earlier one may have written without publishing it (Rule: I20). The slots cannot record that,
//! since they are rewritten unchanged.
//!
//! The version from which an open counts if a slot cannot be read: let L be the limit of the slot
//! that can be read. The other slot's version is at most L, or at most 2^32 above what the owner
//! page says, because no page is born above its writer's limit; its own limit is 2^32 above its
//! version. So 2^32 more than the larger of both is above every version that the unreadable slot
//! may contain, and above all that it permits.
//!
//! Invariants
//! 1. The page is never used to decide whether the store is in use.
//! 2. A damaged page costs only its content: the owner is then unnamed, and counting starts at a
//!    random distance.
//!
//! Threads: open only. Bytes: docs/format.md, "Owner page".

use super::{
    passed_over::Issued,
    superblock::{OWNER_OFFSET, PUBLISH_MAX, SLOT_BYTES},
};
use crate::{
    coding::u64_at,
    error::Result,
    io::{AlignedBuf, Env},
    page::StoreFile,
    types::{StoreId, VersionNumber},
};

const MAGIC: &[u8; 8] = b"FrondOwn";
const FIELDS_BYTES: usize = 48;
/// Seed of the checksum; not 0, so that zeros do not verify.
const SEED: u64 = 0x6f77_6e65_7221;
/// Versions that an owner may count before it publishes one. 2^32 at a thousand per second is 50
/// days.
pub(super) const HEADROOM: u64 = 1 << 32;

/// The content of the owner page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub store: StoreId,
    pub pid: u64,
    /// The owner's births are above this, and at most `HEADROOM` above it until it publishes.
    pub counts_from: VersionNumber,
}

impl Owner {
    fn encode(&self, started: u64) -> Result<AlignedBuf> {
        let mut page = AlignedBuf::try_zeroed(SLOT_BYTES, "the owner page")?;
        page[0..8].copy_from_slice(MAGIC);
        page[8..24].copy_from_slice(&self.store.0);
        page[24..32].copy_from_slice(&self.pid.to_le_bytes());
        page[32..40].copy_from_slice(&started.to_le_bytes());
        page[40..48].copy_from_slice(&self.counts_from.0.to_le_bytes());
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&page[..FIELDS_BYTES], SEED);
        page[FIELDS_BYTES..FIELDS_BYTES + 8].copy_from_slice(&hash.to_le_bytes());
        Ok(page)
    }

    fn decode(page: &[u8]) -> Option<Self> {
        let fields = page.get(..FIELDS_BYTES)?;
        let word = |at| u64_at(page, at);
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(fields, SEED);
        if fields.get(..8)? != MAGIC || word(FIELDS_BYTES)? != hash {
            return None;
        }
        let store = StoreId(*fields.get(8..24)?.first_chunk()?);
        Some(Self { store, pid: word(24)?, counts_from: VersionNumber(word(40)?) })
    }
}

/// Reads the page, if it is readable and whole.
pub(super) fn read(file: &dyn crate::io::File) -> Option<Owner> {
    let mut page = AlignedBuf::try_zeroed(SLOT_BYTES, "the owner page").ok()?;
    // Errors are ignored: the page is not needed.
    file.read_at(&mut page, OWNER_OFFSET).ok()?;
    Owner::decode(&page)
}

/// Writes this owner's page; returns the version above which this owner counts.
pub(super) fn sign(file: &StoreFile, env: &Env, issued: &Issued) -> Result<VersionNumber> {
    let before = read(&*file.file)
        .filter(|owner| owner.store == file.store && owner.counts_from <= PUBLISH_MAX);
    let unseen = if issued.is_all || plant!("store: an unreadable slot counts for nothing") {
        0
    } else {
        HEADROOM
    };
    let limit = VersionNumber(issued.publish_limit.0.saturating_add(unseen));
    let counts_from = match before {
        Some(owner) => {
            VersionNumber(limit.0.max(owner.counts_from.0.saturating_add(HEADROOM + unseen)))
        }
        // It is unknown how far an earlier owner counted: 16 random bits make a clash unlikely.
        None => VersionNumber(limit.0.saturating_add((env.rng.next_u64() & 0xffff) << 32)),
    };
    let owner = Owner { store: file.store, pid: u64::from(std::process::id()), counts_from };
    let page = owner.encode(env.clock.now().as_secs())?;
    file.write_at(&page, OWNER_OFFSET)?;
    Ok(counts_from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_owner_page_is_no_owner() {
        let owner = Owner { store: StoreId([3; 16]), pid: 77, counts_from: VersionNumber(5 << 32) };
        let page = owner.encode(9).unwrap();
        assert_eq!(Owner::decode(&page), Some(owner));
        for bit in 0..(FIELDS_BYTES + 8) * 8 {
            let mut damaged = page.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Owner::decode(&damaged), None, "bit {bit}");
        }
        assert_eq!(Owner::decode(&[0; SLOT_BYTES]), None);
        assert_eq!(Owner::decode(&[]), None);
    }
}
