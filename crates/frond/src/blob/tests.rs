//! Blobs by themselves: every length, every piece, every flipped byte, and the holders of their
//! extents.

use std::path::Path;

use proptest::prelude::*;

use super::{table::Table, *};
use crate::{
    block::Codec,
    cache::{BlockCache, FramePool},
    io::{Env, MemoryVfs, RealClock, RealRng, Workers},
    store::{self, STORE_LINEAGE, Store},
    sync::Arc,
    types::Lsn,
};

fn new_store() -> Arc<Store> {
    let env = Env {
        vfs: Arc::new(MemoryVfs::new()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng),
        workers: Workers::Manual,
    };
    Arc::new(store::create(&env, Path::new("store"), Default::default()).unwrap().store)
}

fn new_cache() -> Arc<BlockCache> {
    BlockCache::new(FramePool::new(8 << 20), 4 << 20)
}

/// A value: text that a codec shrinks, or noise.
fn value(seed: u64, bytes: usize, noise: bool) -> Vec<u8> {
    let mut state = seed | 1;
    let mut byte = |at: usize| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        if noise || at.is_multiple_of(9) { (state >> 56) as u8 } else { b'a' + (at % 26) as u8 }
    };
    (0..bytes).map(&mut byte).collect()
}

fn small(codec: Codec) -> BlobOptions {
    BlobOptions { codec, piece_bytes: 1000, ..BlobOptions::default() }
}

fn used(store: &Store) -> u64 {
    let stats = store.space().stats();
    stats.live + stats.kept + stats.temporary
}

#[test]
fn values_of_every_length_are_read_whole_and_in_parts() {
    let (store, cache) = (new_store(), new_cache());
    for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd1] {
        for bytes in [1, 999, 1000, 1001, 4064, 4096, 5000, 70_001, 300_000] {
            for noise in [false, true] {
                let value = value(bytes as u64, bytes, noise);
                let (reference, _hold) = Blob::write(&store, &value, small(codec)).unwrap();
                assert_eq!(BlobRef::from_disk(&reference.to_disk()), Some(reference));
                let cached = Blob::open(store.file(), reference, &cache).unwrap();
                let direct = Blob::open_uncached(store.file(), reference).unwrap();
                for blob in [&cached, &direct] {
                    assert_eq!(blob.value_bytes(), bytes);
                    let mut out = b"what was there".to_vec();
                    blob.read(&mut out).unwrap();
                    assert!(out == value, "{codec:?}, {bytes} bytes");
                    for (from, length) in
                        [(0, 1), (0, bytes), (bytes - 1, 9), (bytes / 2, 1500), (bytes, 4)]
                    {
                        let mut part = vec![0; length];
                        let done = blob.read_at(from, &mut part).unwrap();
                        let expected = &value[from..bytes.min(from + length)];
                        assert_eq!(&part[..done], expected, "{bytes} bytes from {from}");
                    }
                    blob.verify().unwrap();
                }
            }
        }
    }
}

/// Values too long to be kept encoded go through the codec twice, with the same result.
#[test]
fn long_values_are_encoded_in_two_passes() {
    let store = new_store();
    for noise in [false, true] {
        let options = BlobOptions { codec: Codec::Zstd1, ..BlobOptions::default() };
        let value = value(3, 12 << 20, noise);
        let (reference, _hold) = Blob::write(&store, &value, options).unwrap();
        assert_eq!(reference.extent().bytes < 8 << 20, !noise, "shrunk where that pays");
        let mut out = Vec::new();
        Blob::open_uncached(store.file(), reference).unwrap().read(&mut out).unwrap();
        assert!(out == value);
    }
}

/// A reference counts up to 4096 pieces: longer values have longer pieces.
#[test]
fn pieces_grow_so_that_their_number_is_bounded() {
    let store = new_store();
    let value = value(5, 10_000, true);
    let options = BlobOptions { piece_bytes: 1, ..BlobOptions::default() };
    let (reference, _hold) = Blob::write(&store, &value, options).unwrap();
    let mut out = Vec::new();
    Blob::open_uncached(store.file(), reference).unwrap().read(&mut out).unwrap();
    assert!(out == value);
}

#[test]
fn invalid_lengths_are_refused_before_any_work() {
    let store = new_store();
    let before = used(&store);
    // Zero pages that are never touched: they take no memory.
    let too_long = vec![0; crate::VALUE_BYTES_MAX + 1];
    for value in [&[][..], &too_long] {
        let refused = Blob::write(&store, value, BlobOptions::default());
        assert!(matches!(refused, Err(crate::Error::ValueTooLong { .. })));
    }
    assert_eq!(used(&store), before);
}

/// Promise: P9. Each flipped byte of the extent is an error, by every path, or is never read.
#[test]
fn every_flipped_byte_is_an_error() {
    let store = new_store();
    let value = value(7, 6000, false);
    let (reference, _hold) = Blob::write(&store, &value, small(Codec::Lz4)).unwrap();
    let extent = reference.extent();
    let mut bytes = vec![0; extent.bytes as usize];
    store.file().read_at(&mut bytes, extent.offset).unwrap();
    for at in 0..bytes.len() {
        let mut page = bytes[at / 4096 * 4096..][..4096].to_vec();
        page[at % 4096] ^= 1 << (at % 8);
        let offset = extent.offset + (at / 4096 * 4096) as u64;
        store.file().write_at(&page, offset).unwrap();
        let whole = Blob::open(store.file(), reference, &new_cache());
        assert!(whole.is_err(), "byte {at}, read whole");
        let piecewise = Blob::open_uncached(store.file(), reference);
        assert!(piecewise.and_then(|blob| blob.verify()).is_err(), "byte {at}, read by pieces");
        store.file().write_at(&bytes[at / 4096 * 4096..][..4096], offset).unwrap();
    }
    Blob::open_uncached(store.file(), reference).unwrap().verify().unwrap();
}

/// Invariant 2: a place that was reused, or a copy in another place, does not verify.
#[test]
fn stale_or_misplaced_bytes_do_not_verify() {
    let store = new_store();
    let (old, hold) = Blob::write(&store, &value(1, 5000, true), small(Codec::Raw)).unwrap();
    let mut bytes = vec![0; old.extent().bytes as usize];
    store.file().read_at(&mut bytes, old.extent().offset).unwrap();
    drop(hold);
    let (new, _hold) = Blob::write(&store, &value(2, 5000, true), small(Codec::Raw)).unwrap();
    assert_eq!(new.extent(), old.extent(), "the place is used again");
    let mut out = Vec::new();
    let read = Blob::open_uncached(store.file(), old).and_then(|blob| blob.read(&mut out));
    assert!(matches!(read, Err(crate::Error::Checksum { .. })), "{read:?}");
    let (moved, _other) = Blob::write(&store, &value(3, 5000, true), small(Codec::Raw)).unwrap();
    store.file().write_at(&bytes, moved.extent().offset).unwrap();
    let copied = BlobRef { extent: moved.extent(), ..old };
    assert!(Blob::open_uncached(store.file(), copied).is_err(), "right bytes, wrong place");
}

/// Rules: I11, I18.
#[test]
fn an_extent_stays_for_holds_and_for_the_log() {
    let store = new_store();
    let before = used(&store);
    let write = || Blob::write(&store, &value(1, 5000, true), small(Codec::Raw)).unwrap();
    let (_, hold) = write();
    let second = hold.clone();
    drop(hold);
    assert!(used(&store) > before, "one hold is left");
    drop(second);
    assert_eq!(used(&store), before, "nothing holds it and no log names it");

    let (reference, hold) = write();
    store.name_in_log(reference.extent().offset, Lsn(4096)).unwrap();
    drop(hold);
    assert!(used(&store) > before, "the log names it");
    store.space().log_trimmed(Lsn(4096));
    assert!(used(&store) > before, "the log still names it");
    store.space().log_trimmed(Lsn(8192));
    assert_eq!(used(&store), before);
}

/// Rules: I19, I21, I22.
#[test]
fn a_blob_ends_with_the_last_run_of_its_lineage() {
    let store = new_store();
    let before = used(&store);
    let at = store.counts_from().next();
    let (reference, hold) = Blob::write(&store, &value(1, 5000, true), small(Codec::Raw)).unwrap();
    let (extent, own, heir) = (reference.extent(), Lineage(3), Lineage(4));
    let count = |lineage, listed| store.count_blob(extent, lineage, listed, at.next());
    assert!(count(STORE_LINEAGE, true).is_err(), "no version lists it yet");
    store.adopt_blob(extent, at, own).unwrap();
    store.adopt_blob(extent, at.next(), heir).unwrap();
    for listed in [true, true, false] {
        count(own, listed).unwrap();
    }
    count(heir, false).unwrap();
    drop(hold);
    assert_eq!(store.space().stats().live - before, u64::from(extent.bytes), "alive, unheld");
    let late = BlobHold::new(&store, extent);
    count(own, false).unwrap();
    assert!(count(own, true).is_err(), "dead");
    assert!(used(&store) > before, "dead and held");
    drop(late);
    assert_eq!(used(&store), before);
    assert!(count(own, false).is_err(), "gone");
}

proptest! {
    /// Promise: P20. Any 16 bytes are a consistent reference, or none.
    #[test]
    fn hostile_references_are_refused_or_fit(bytes: [u8; 16]) {
        if let Some(reference) = BlobRef::from_disk(&bytes) {
            prop_assert_eq!(reference.to_disk(), bytes);
            prop_assert!(table::bytes(reference.pieces) <= reference.extent().bytes as usize);
            let store = new_store();
            prop_assert!(Blob::open_uncached(store.file(), reference).is_err());
        }
    }

    /// A table with right hashes and arbitrary numbers is refused, or its parts fit the extent.
    #[test]
    fn hostile_tables_are_refused_or_fit(
        numbers: (u32, u32),
        stored in proptest::collection::vec((any::<u32>(), 0u8..5), 1..5),
        small_numbers: bool,
    ) {
        let store = new_store();
        let (_, hold) = Blob::write(&store, &value(1, 9000, true), small(Codec::Raw)).unwrap();
        let mut table = b"FBlb\x01\0\0\0".to_vec();
        let cut = |number: u32| if small_numbers { number % 5000 } else { number };
        table.extend_from_slice(&cut(numbers.0).to_le_bytes());
        table.extend_from_slice(&cut(numbers.1).to_le_bytes());
        for (bytes, codec) in &stored {
            table.extend_from_slice(&[0; 8]);
            table.extend_from_slice(&cut(*bytes).to_le_bytes());
            table.extend_from_slice(&[*codec, 0, 0, 0]);
        }
        let (extent, file) = (hold.extent(), store.file());
        let hash = crate::page::page_hash(&BlobRef::identity(file, extent), &table) >> 8;
        let reference = BlobRef { extent, pieces: stored.len() as u32, hash };
        if let Ok(parsed) = Table::from_disk(file, &reference, &table) {
            prop_assert!(parsed.stored_bytes() + table.len() as u64 <= u64::from(extent.bytes));
            let raw: usize = (0..stored.len()).map(|index| parsed.raw_bytes(index)).sum();
            prop_assert_eq!(raw, parsed.value_bytes as usize);
        }
    }
}
