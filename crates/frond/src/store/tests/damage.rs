//! Tests of damage: flipped bits, stale and swapped pages, foreign and truncated files are detected
//! and contained.

use super::basics::{L, dir, env, one_tree, publish};
use crate::{
    error::{Error, ErrorKind, Result},
    io::{ALIGN, Env, File, OpenMode},
    store::*,
    sync::Arc,
    types::VersionNumber,
};

/// A closed store with two checkpoints, and the roots of each.
struct Closed {
    env: Env,
    newer: RootDirectory,
    older: RootDirectory,
    newest: Superblock,
}

fn closed() -> Closed {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let mut v = store.counts_from();
    let mut roots = Vec::new();
    for round in 0..3u8 {
        v = v.next();
        let link = store.put_page(PageKind::Node, v, L, &[&[round; 100]]).unwrap();
        roots.push(one_tree(link));
        publish(&store, v, &roots[usize::from(round)]);
    }
    let newest = store.newest();
    let [_, older, newer] = roots.try_into().unwrap();
    Closed { env, newer, older, newest }
}

fn file(env: &Env) -> Arc<dyn File> {
    let mode = OpenMode { write: true, ..OpenMode::default() };
    env.vfs.open(&dir().join(STORE_FILE), mode).unwrap()
}

fn image(env: &Env) -> Vec<u8> {
    let file = file(env);
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(&mut bytes, 0).unwrap();
    bytes
}

fn look(env: &Env) -> Result<Opened> {
    open(env, dir(), StoreOptions { read_only: true, ..StoreOptions::default() })
}

fn slot_at(superblock: &Superblock) -> u64 {
    (superblock.sequence % 2) * (64 << 10)
}

/// Promises: P9, P10, P21. With any bit of either slot flipped, the other slot opens, with a
/// warning, and nothing is written.
#[test]
pub(super) fn a_superblock_with_any_flipped_bit_falls_back() {
    let store = closed();
    let file = file(&store.env);
    for slot in [0, 64 << 10] {
        let mut bytes = [0; ALIGN];
        file.read_at(&mut bytes, slot).unwrap();
        let expected = if slot == slot_at(&store.newest) { &store.older } else { &store.newer };
        for bit in 0..ALIGN * 8 {
            let damaged = bytes[bit / 8] ^ 1 << (bit % 8);
            file.write_at(&[damaged], slot + bit as u64 / 8).unwrap();
            let opened = look(&store.env).unwrap();
            assert_eq!(&opened.roots, expected, "slot at {slot}, bit {bit}");
            assert_eq!(opened.warnings.len(), 1);
            file.write_at(&bytes[bit / 8..=bit / 8], slot + bit as u64 / 8).unwrap();
        }
    }
    assert!(look(&store.env).unwrap().warnings.is_empty());
}

/// Promises: P9, P10. Every bit of the newest root directory, map directory and zone page is
/// flipped.
#[test]
pub(super) fn newest_roots_with_any_flipped_bit_fall_back() {
    let store = closed();
    let before = image(&store.env);
    let (roots, map) = (store.newest.roots.unwrap(), store.newest.map.unwrap());
    let mut pages: Vec<u64> = (DATA_START..before.len() as u64).step_by(ALIGN).collect();
    // Zone pages are the map pages born with the newest version, except for the directory.
    pages.retain(|&at| {
        let page = &before[at as usize..at as usize + ALIGN];
        page[8..12] == *b"FrPg"
            && page[12] != PageKind::Node as u8
            && page[24..32] == store.newest.publish.0.to_le_bytes()
    });
    assert!(pages.len() >= 3 && pages.contains(&roots.offset) && pages.contains(&map.offset));
    let file = file(&store.env);
    for page in pages {
        for bit in (0..ALIGN * 8).step_by(if page == map.offset { 1 } else { 7 }) {
            let at = page + bit as u64 / 8;
            let byte = before[at as usize];
            file.write_at(&[byte ^ 1 << (bit % 8)], at).unwrap();
            let opened = look(&store.env).unwrap();
            assert_eq!(opened.roots, store.older, "page {page} bit {bit}");
            assert_eq!(opened.warnings.len(), 1);
            file.write_at(&[byte], at).unwrap();
        }
    }
    assert_eq!(image(&store.env), before, "nothing was written");
}

#[test]
pub(super) fn both_slots_bad_is_an_error_and_no_new_store() {
    let store = closed();
    let file = file(&store.env);
    for slot in [0, 64 << 10] {
        file.write_at(&[0; ALIGN], slot).unwrap();
    }
    let before = image(&store.env);
    for read_only in [false, true] {
        let options = StoreOptions { read_only, ..StoreOptions::default() };
        let opened = open(&store.env, dir(), options);
        assert!(matches!(opened, Err(Error::NoSuperblock { .. })), "{opened:?}");
    }
    assert!(create(&store.env, dir(), StoreOptions::default()).is_err());
    assert_eq!(image(&store.env), before, "nothing was written");
}

/// Promise: P19.
#[test]
pub(super) fn foreign_swapped_and_truncated_files_are_refused_unchanged() {
    let (store, other) = (closed(), closed());
    let (ours, theirs) = (image(&store.env), image(&other.env));
    let slot = |bytes: &[u8], at: usize| bytes[at..at + ALIGN].to_vec();
    type Check = fn(&Error) -> bool;
    let mut cases: Vec<(&str, Vec<u8>, Check)> = Vec::new();
    let mut mixed = ours.clone();
    mixed[..ALIGN].copy_from_slice(&slot(&theirs, 0));
    cases.push(("another store's slot", mixed, |e| matches!(e, Error::ForeignFile { .. })));
    let mut swapped = ours.clone();
    swapped[..ALIGN].copy_from_slice(&slot(&ours, 64 << 10));
    swapped[64 << 10..(64 << 10) + ALIGN].copy_from_slice(&slot(&ours, 0));
    cases.push(("slots swapped", swapped, |e| matches!(e, Error::NoSuperblock { .. })));
    let noise = vec![0x5a; ours.len()];
    cases.push(("noise", noise, |e| matches!(e, Error::NotAStore { .. })));
    cases.push(("an empty file", vec![], |e| e.kind() == ErrorKind::Restore));
    for cut in (0..ours.len()).step_by(4 * ALIGN) {
        let in_use = (cut as u64) < store.newest.totals.file_bytes;
        if in_use {
            cases.push(("cut", ours[..cut].to_vec(), |e| e.kind() == ErrorKind::Restore));
        }
    }
    let file = file(&store.env);
    for (what, bytes, is_expected) in cases {
        file.set_len(0).unwrap();
        file.write_at(&bytes, 0).unwrap();
        for read_only in [true, false] {
            let options = StoreOptions { read_only, ..StoreOptions::default() };
            let error = open(&store.env, dir(), options).unwrap_err();
            assert!(is_expected(&error), "{what}: {error}");
        }
        assert_eq!(image(&store.env), bytes, "{what}: nothing was written");
    }
}

/// Promise: P9. A stale page in the right place is a wrong page; anything else fails its checksum.
#[test]
pub(super) fn stale_misplaced_and_corrupt_pages_are_distinguished() {
    let env = env();
    let store = create(&env, dir(), StoreOptions::default()).unwrap().store;
    let (v1, v2) = (store.counts_from().next(), store.counts_from().next().next());
    let stale = store.put_page(PageKind::Node, v1, L, &[b"stale"]).unwrap();
    let extent = Extent { offset: stale.offset, bytes: stale.bytes };
    let mut old = [0; ALIGN];
    let file = file(&env);
    file.read_at(&mut old, stale.offset).unwrap();
    let link = store.write_page(PageKind::Node, extent, v2, L, &[b"fresh"]).unwrap();
    let other = store.put_page(PageKind::Node, v2, L, &[b"other"]).unwrap();
    let read = |link: &Link| store.read_page(link, PageKind::Node, "a node");
    assert_eq!(&read(&link).unwrap()[..], b"fresh");

    let mut good = [0; ALIGN];
    file.read_at(&mut good, link.offset).unwrap();
    file.write_at(&old, link.offset).unwrap();
    assert!(matches!(read(&link), Err(Error::WrongPage { .. })), "a lost write");
    let mut misplaced = [0; ALIGN];
    file.read_at(&mut misplaced, other.offset).unwrap();
    file.write_at(&misplaced, link.offset).unwrap();
    assert!(matches!(read(&link), Err(Error::Checksum { .. })), "a misdirected write");
    file.write_at(&[0; ALIGN], link.offset).unwrap();
    assert!(matches!(read(&link), Err(Error::Checksum { .. })), "zeros");
    for bit in 0..ALIGN * 8 {
        let mut rotten = good;
        rotten[bit / 8] ^= 1 << (bit % 8);
        file.write_at(&rotten, link.offset).unwrap();
        match read(&link) {
            Err(Error::Checksum { place, .. }) => assert_eq!(place.offset, link.offset),
            other => panic!("bit {bit}: {other:?}"),
        }
    }
    file.write_at(&good, link.offset).unwrap();
    assert!(store.read_page(&link, PageKind::Directory, "a root").is_err(), "another kind");
    for wrong in [
        Link { offset: link.offset + 8, ..link },
        Link { offset: u64::MAX - 4095, ..link },
        Link { offset: 0, ..link },
        Link { bytes: 0, ..link },
        Link { bytes: 1 << 31, ..link },
        Link { birth: VersionNumber(1), ..link },
    ] {
        assert!(read(&wrong).is_err(), "{wrong:?}");
        assert!(store.die(&wrong, L, v2.next()).is_err(), "{wrong:?}");
    }
}
