//! Hostile content whose every checksum is right: a typed error or a store that works, never a
//! panic.

use proptest::{prelude::*, sample::Index};

use super::basics::{L, dir, env, publish};
use crate::{
    io::{ALIGN, AlignedBuf, Env, File, OpenMode},
    store::{
        map::{MapDirectory, decode_zone, encode_zone},
        page,
        space::Record,
        superblock::{SLOT_BYTES, SLOT_OFFSETS, slot_of},
        *,
    },
    sync::{Arc, OnceLock},
    types::{Lineage, TreeId, VersionNumber},
};

/// A copy of a closed store with trees, pins, dead and live extents of all classes, in two zones.
fn rich() -> (Env, Superblock) {
    type Pages = Vec<(u64, [u8; ALIGN])>;
    static BASE: OnceLock<(Superblock, u64, Pages)> = OnceLock::new();
    let (superblock, len, pages) = BASE.get_or_init(|| {
        let (env, superblock) = build();
        let file = env.vfs.open(&dir().join(STORE_FILE), OpenMode::default()).unwrap();
        let (len, mut pages) = (file.len().unwrap(), vec![]);
        for at in (0..len).step_by(ALIGN) {
            let mut page = [0; ALIGN];
            file.read_at(&mut page, at).unwrap();
            if page != [0; ALIGN] {
                pages.push((at, page));
            }
        }
        (superblock, len, pages)
    });
    let env = env();
    env.vfs.create_dir(dir()).unwrap();
    let mode = OpenMode { write: true, create_new: true, direct: false };
    let file = env.vfs.open(&dir().join(STORE_FILE), mode).unwrap();
    file.set_len(*len).unwrap();
    for (at, page) in pages {
        file.write_at(page, *at).unwrap();
    }
    (env, *superblock)
}

/// What a zone page lists.
fn listed(page: &[u8], zone: u64, at: VersionNumber) -> Result<Vec<(u64, Record)>, String> {
    let mut listed = Vec::new();
    decode_zone(page, zone, at, |offset, record| listed.push((offset, record))).map(|()| listed)
}

fn build() -> (Env, Superblock) {
    let env = env();
    let options = StoreOptions { allocate_from: 63 << 20, ..StoreOptions::default() };
    let store = create(&env, dir(), options).unwrap().store;
    let mut v = store.counts_from();
    let mut roots = RootDirectory::default();
    for round in 0..24u32 {
        v = v.next();
        let class = [Class::Node, Class::Run, Class::Blob][round as usize % 3];
        let bytes = u64::from(round % 5 + 1) * 30_000;
        let request = Request { class, kind: PageKind::Run, bytes, birth: v, lineage: L };
        let extent = store.allocate(&request).unwrap();
        let link = store.write_page(PageKind::Run, extent, v, L, &[b"run"]).unwrap();
        store.set_run_refs(&link, round % 3 + 1).unwrap();
        let tree = TreeRoot { link: Some(link), lineage: L, ..TreeRoot::default() };
        if let Some(old) = roots.trees.insert(TreeId(round % 7), tree) {
            store.die(&old.link.unwrap(), L, v).unwrap();
        }
        if round % 4 == 0 {
            store.space().pin_lineage(L, v, v);
        }
        if round % 5 == 4 {
            publish(&store, v, &roots);
        }
    }
    assert!(store.space().unpin_lineage(L, VersionNumber(store.counts_from().0 + 1), v.next()));
    let last = publish(&store, v.next(), &roots);
    (env, last)
}

struct Writer {
    file: Arc<dyn File>,
    store: crate::types::StoreId,
}

impl Writer {
    /// The payload of a page; `None` if an earlier change made the link point elsewhere.
    fn payload(&self, link: &Link) -> Option<Vec<u8>> {
        let data = crate::page::StoreFile::new(self.file.clone(), "x", self.store);
        let kinds = [PageKind::Map, PageKind::Directory];
        let mut pages = kinds.iter().map(|&kind| Store::read_page_of(&data, link, kind, "x"));
        pages.find_map(|page| page.ok()).map(|page| page.to_vec())
    }

    /// Writes a page in place of `link` and returns the link with its new hash. Payloads that have
    /// grown too long are cut.
    fn rewrite(&self, link: &Link, kind: PageKind, mut payload: Vec<u8>) -> Link {
        payload.truncate(link.bytes as usize - page::HEADER_BYTES);
        let identity = link.identity(self.store, kind);
        let (bytes, link) = page::build(&identity, &[&payload]).unwrap();
        self.file.write_at(&bytes, link.offset).unwrap();
        link
    }

    fn write_slot(&self, superblock: &Superblock) {
        let mut slot = AlignedBuf::try_zeroed(SLOT_BYTES, "x").unwrap();
        superblock.encode(&mut slot);
        self.file.write_at(&slot, SLOT_OFFSETS[slot_of(superblock.sequence)]).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Target {
    Roots,
    Directory,
    Zone(Index),
    /// A record of a zone changed after decoding: valid form, wrong content.
    Record(Index, Index, u8),
    /// A field of the superblock.
    Slot(u8, u64),
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        Just(Target::Roots),
        Just(Target::Directory),
        any::<Index>().prop_map(Target::Zone),
        any::<(Index, Index, u8)>().prop_map(|(zone, at, how)| Target::Record(zone, at, how)),
        (any::<u8>(), prop_oneof![any::<u64>(), 0u64..1 << 30])
            .prop_map(|(f, v)| Target::Slot(f, v)),
    ]
}

fn mutate(payload: &mut Vec<u8>, changes: &[(Index, u8)], cut: Option<Index>) {
    for (at, value) in changes {
        let at = at.index(payload.len());
        payload[at] ^= value;
    }
    if let Some(cut) = cut {
        payload.truncate(cut.index(payload.len()) + 1);
    }
}

/// Does what a caller may do with an opened store, however odd it is. Errors are allowed.
fn use_it(env: &Env) {
    for read_only in [true, false] {
        let options = StoreOptions { read_only, allocate_from: 0 };
        let Ok(opened) = open(env, dir(), options) else { continue };
        let store = opened.store;
        store.stats();
        let mut v = store.counts_from();
        for link in opened.roots.links().copied().collect::<Vec<_>>() {
            drop(store.read_page(&link, PageKind::Run, "a run"));
            drop(store.die(&link, L, v.next()));
            drop(store.set_run_refs(&link, 9));
        }
        for _ in 0..3 {
            v = v.next();
            let request = Request {
                class: Class::Run,
                kind: PageKind::Run,
                bytes: 500_000,
                birth: v,
                lineage: Lineage(3),
            };
            drop(store.allocate(&request));
            let newest = store.newest();
            drop(store.publish(&Checkpoint {
                publish: v,
                applied: newest.applied,
                log_from: newest.log_from,
                log_synced: newest.log_synced,
                clean: None,
                roots: &DirectoryChange::whole(&opened.roots),
            }));
            drop(store.give_back(0));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Promise: P20.
    #[test]
    fn hostile_maps_and_roots_never_panic(
        targets in proptest::collection::vec(
            (
                target(),
                proptest::collection::vec(any::<(Index, u8)>(), 1..4),
                proptest::option::weighted(0.2, any::<Index>()),
            ),
            1..3,
        ),
    ) {
        let (env, mut superblock) = rich();
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let file = env.vfs.open(&dir().join(STORE_FILE), mode).unwrap();
        let writer = Writer { file, store: superblock.store };
        let other = SLOT_OFFSETS[1 - slot_of(superblock.sequence)];
        writer.file.write_at(&[0; SLOT_BYTES], other).unwrap(); // no way to fall back
        for (target, changes, cut) in targets {
            let (mut roots, mut map) = (superblock.roots.unwrap(), superblock.map.unwrap());
            match target {
                Target::Roots => {
                    let Some(mut payload) = writer.payload(&roots) else { continue };
                    mutate(&mut payload, &changes, cut);
                    roots = writer.rewrite(&roots, PageKind::Directory, payload);
                }
                Target::Directory => {
                    let Some(mut payload) = writer.payload(&map) else { continue };
                    mutate(&mut payload, &changes, cut);
                    map = writer.rewrite(&map, PageKind::Map, payload);
                }
                Target::Zone(pick) | Target::Record(pick, ..) => {
                    let Some(payload) = writer.payload(&map) else { continue };
                    let decoded = MapDirectory::decode(&payload, superblock.publish);
                    let Ok(mut directory) = decoded else { continue };
                    if directory.zones.is_empty() { continue }
                    let pick = pick.index(directory.zones.len());
                    let (zone, entry) = &mut directory.zones[pick];
                    let Some(mut payload) = writer.payload(&entry.link) else { continue };
                    match target {
                        Target::Record(_, at, how) => {
                            let listed = listed(&payload, *zone, superblock.publish);
                            let Ok(mut listed) = listed else { continue };
                            if listed.is_empty() { continue }
                            let at = at.index(listed.len());
                            let record = &mut listed[at].1;
                            match how % 5 {
                                0 => record.class = Class::Node,
                                1 => record.death = superblock.publish,
                                2 => record.refs = u32::MAX,
                                3 => record.lineage = STORE_LINEAGE,
                                _ => record.kind = PageKind::Directory,
                            }
                            let (encoded, sums) = encode_zone(*zone, &listed);
                            (entry.live, entry.pending, entry.end) =
                                (sums.live, sums.pending, sums.end);
                            payload = encoded;
                        }
                        _ => mutate(&mut payload, &changes, cut),
                    }
                    entry.link = writer.rewrite(&entry.link, PageKind::Map, payload);
                    let own = Extent { offset: map.offset, bytes: map.bytes };
                    superblock.totals = directory.totals(own);
                    map = writer.rewrite(&map, PageKind::Map, directory.encode());
                }
                Target::Slot(field, value) => match field % 9 {
                    0 => superblock.publish = VersionNumber(value),
                    1 => superblock.previous = VersionNumber(value),
                    2 => superblock.publish_limit = VersionNumber(value),
                    3 => superblock.totals.live = value,
                    4 => superblock.totals.file_bytes = value,
                    5 => map.offset = value & !4095,
                    6 => roots.bytes = value as u32 & !4095,
                    7 => superblock.log_from = crate::types::Lsn(value),
                    _ => superblock.applied = crate::types::Seqno(value),
                },
            }
            (superblock.roots, superblock.map) = (Some(roots), Some(map));
        }
        writer.write_slot(&superblock);
        use_it(&env);
    }

    /// Promise: P20. The decoders alone, on arbitrary bytes.
    #[test]
    fn decoders_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), at: u64) {
        for first in [1, 2] {
            let bytes: Vec<u8> = [first].iter().chain(&bytes).copied().collect();
            drop(MapDirectory::decode(&bytes, VersionNumber(at)));
            for zone in [0, 1, 1 << 20, u64::MAX] {
                drop(listed(&bytes, zone, VersionNumber(at)));
            }
        }
        drop(RootDirectory::decode(&bytes));
    }

    /// What decodes encodes to the same bytes: there is one encoding for each content.
    #[test]
    fn zone_pages_have_a_canonical_encoding(
        changes in proptest::collection::vec(any::<(Index, u8)>(), 0..2),
    ) {
        let (env, superblock) = rich();
        let mode = OpenMode { write: true, ..OpenMode::default() };
        let file = env.vfs.open(&dir().join(STORE_FILE), mode).unwrap();
        let writer = Writer { file, store: superblock.store };
        let at = superblock.publish;
        let payload = writer.payload(&superblock.map.unwrap()).unwrap();
        let directory = MapDirectory::decode(&payload, at).unwrap();
        prop_assert_eq!(directory.encode(), payload);
        prop_assert!(directory.zones.len() > 1);
        for (zone, entry) in &directory.zones {
            let payload = writer.payload(&entry.link).unwrap();
            let all = listed(&payload, *zone, at).unwrap();
            prop_assert_eq!(encode_zone(*zone, &all).0, payload.clone());
            let mut damaged = payload;
            mutate(&mut damaged, &changes, None);
            if let Ok(listed) = listed(&damaged, *zone, at) {
                drop(encode_zone(*zone, &listed));
            }
        }
    }
}
