//! Compares docs/format.md with the engine: the dump of the smallest store on that page is what the
//! engine writes today, and a reader written from that page alone finds the row in it.
//!
//! No reading code of the engine is used here. When the format changes on purpose,
//! `FROND_DUMP=write cargo test -p frond-db --test format` rewrites the dump.

mod sources;

use std::path::Path;

use frond::{Db, Options, TreeOptions};
use frond_testkit::disk::SimVfs;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const PAGE: &str = "docs/format.md";
const HEADING: &str = "\n## The smallest store\n";
/// The owner page, which is not part of the format.
const OWNER: std::ops::Range<usize> = 128 << 10..132 << 10;

/// A store with tree "t" and the row "k" → "v", closed.
fn smallest_store() -> Vec<u8> {
    let vfs = SimVfs::new();
    let options = Options::new().env(vfs.env(1));
    let db = Db::open("/store", options).expect("made");
    let tree = db.create_tree("t", TreeOptions::default()).expect("made");
    tree.put(b"k", b"v").expect("written");
    drop(tree);
    db.close().expect("closed");
    vfs.content(Path::new("/store/store.frond")).expect("the store file").to_vec()
}

/// Sixteen bytes a line, lines of zeros left out.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, line) in bytes.chunks(16).enumerate() {
        if line.iter().all(|&byte| byte == 0) {
            continue;
        }
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |&byte: &u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
        let shown: String = line.iter().map(shown).collect();
        text += &format!("{:06x}  {}  {shown}\n", number * 16, hex.join(" "));
    }
    text + &format!("{:06x}\n", bytes.len())
}

fn undump(text: &str) -> Vec<u8> {
    let number = |text: &str| usize::from_str_radix(text, 16).expect("hexadecimal");
    let last = text.lines().last().expect("the length");
    let mut bytes = vec![0; number(last)];
    for line in text.lines().filter(|line| line.len() > 6) {
        let at = number(&line[..6]);
        for (i, byte) in line[8..55].split(' ').enumerate() {
            bytes[at + i] = number(byte) as u8;
        }
    }
    bytes
}

/// The text before the dump, the dump, and what follows.
fn split(page: &str) -> (&str, &str, &str) {
    let section = page.find(HEADING).expect("the section");
    let start = section + page[section..].find("```text\n").expect("the dump") + "```text\n".len();
    let end = start + page[start..].find("```").expect("its end");
    (&page[..start], &page[start..end], &page[end..])
}

#[test]
fn the_documented_dump_matches_the_engines_bytes() {
    let fresh = smallest_store();
    assert!(fresh == undump(&dump(&fresh)), "the dump says all");
    let page = sources::file(PAGE).text;
    let (before, old, after) = split(&page);
    if std::env::var_os("FROND_DUMP").is_some() {
        let new = [before, &dump(&fresh), after].concat();
        std::fs::write(sources::root().join(PAGE), new).expect("written");
        return;
    }
    let mut old = undump(old);
    assert_eq!(old.len(), fresh.len());
    old[OWNER].copy_from_slice(&fresh[OWNER]);
    let differs = old.iter().zip(&fresh).position(|(old, new)| old != new);
    assert_eq!(differs, None, "the format has changed: see the top of this file");
}

/// Reads fields in sequence.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (now, later) = self.0.split_at(count);
        self.0 = later;
        now
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn fixed(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
    }

    fn number(&mut self) -> u64 {
        let (mut n, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            n |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                assert!(byte != 0 || shift == 7, "the shortest form");
                return n;
            }
        }
    }

    fn string(&mut self) -> &'a [u8] {
        let count = self.number() as usize;
        self.take(count)
    }

    /// The link of a page that belongs to the store.
    fn short_link(&mut self) -> Link {
        let (offset, bytes) = (self.number() * 4096, self.number() * 4096);
        let (birth, checksum) = (self.number(), self.fixed(8));
        let lineage = u64::from(u32::MAX);
        Link { offset, bytes, hashed: bytes, checksum, birth, lineage }
    }

    fn link(&mut self) -> Link {
        Link {
            offset: self.fixed(8),
            bytes: self.fixed(4),
            hashed: self.fixed(4),
            checksum: self.fixed(8),
            birth: self.fixed(8),
            lineage: self.fixed(4),
        }
    }
}

fn at(bytes: &[u8], offset: usize) -> Fields<'_> {
    Fields(&bytes[offset..])
}

#[derive(Clone, Copy, Debug)]
struct Link {
    offset: u64,
    bytes: u64,
    hashed: u64,
    checksum: u64,
    birth: u64,
    lineage: u64,
}

/// "Checksums": the seed is a hash of the identity.
fn seed(store: &[u8], kind: u8, link: &Link) -> u64 {
    let mut identity = store.to_vec();
    identity.push(kind);
    identity.extend(&link.offset.to_le_bytes());
    identity.extend(&(link.bytes as u32).to_le_bytes());
    identity.extend(&link.birth.to_le_bytes());
    identity.extend(&(link.lineage as u32).to_le_bytes());
    assert_eq!(identity.len(), 41);
    xxh3_64(&identity) | 1
}

fn extent<'a>(file: &'a [u8], link: &Link) -> &'a [u8] {
    &file[link.offset as usize..(link.offset + link.bytes) as usize]
}

/// "Pages": the payload, verified.
fn page<'a>(file: &'a [u8], store: &[u8], kind: u8, link: &Link) -> &'a [u8] {
    let page = extent(file, link);
    assert_eq!(xxh3_64_with_seed(&page[8..], seed(store, kind, link)), link.checksum);
    assert_eq!(at(page, 0).fixed(8), link.checksum);
    assert_eq!(&page[8..14], [b'F', b'r', b'P', b'g', kind, 1]);
    assert_eq!(at(page, 16).fixed(4), link.bytes);
    let payload = at(page, 20).fixed(4) as usize;
    &page[40..40 + payload]
}

/// "Page table": the pages that an index page links, and their numbers.
fn index(payload: &[u8]) -> Vec<(u64, Link)> {
    let mut fields = Fields(payload);
    assert_eq!(fields.byte(), 2, "an index page");
    let (mut below, mut next) = (Vec::new(), 0);
    while !fields.0.is_empty() {
        let number = next + fields.number();
        next = number + 1;
        below.push((number, fields.short_link()));
    }
    below
}

/// "Root directory": the root of each tree, and its level.
fn roots(file: &[u8], store: &[u8], head: &Link) -> Vec<(u64, Link, u8)> {
    let mut fields = Fields(page(file, store, 4, head));
    assert_eq!((fields.byte(), fields.byte()), (1, 1), "a head with a table of trees");
    let table = fields.short_link();
    assert_eq!((fields.byte(), fields.byte()), (0, 0), "no named snapshots");
    assert!(fields.0.is_empty());
    let [(0, below)] = index(page(file, store, 4, &table))[..] else { panic!("one index page") };
    let [(0, payload)] = index(page(file, store, 4, &below))[..] else { panic!("one payload") };
    let mut fields = Fields(page(file, store, 4, &payload));
    assert_eq!(fields.byte(), 3, "roots of trees");
    let mut roots = Vec::new();
    while !fields.0.is_empty() {
        let id = u64::from(fields.byte());
        let flags = fields.byte();
        assert_eq!(flags, 67, "a link, sums and a highest key");
        let link = fields.link();
        let level = fields.byte();
        assert_eq!(fields.number(), link.lineage);
        assert_eq!(fields.number(), 0, "nothing is inherited");
        let (entries, bytes) = (fields.number(), fields.number());
        // Leaves, rows, blocks, extents; raw bytes; unmeasured blocks; blobs; waiting bytes.
        let [leaves, rows, blocks, extents, raw, rest @ ..] = [(); 8].map(|()| fields.number());
        assert_eq!([leaves, rows, blocks, extents], [1, entries, bytes, link.bytes]);
        assert_eq!((raw > 0, rest), (true, [0; 3]));
        let _highest = fields.string();
        roots.push((id, link, level));
    }
    roots
}

/// "Run" and "Block": the rows of a run of one block without codec.
fn rows(file: &[u8], store: &[u8], link: &Link) -> Vec<(Vec<u8>, u8, Vec<u8>)> {
    let run = extent(file, link);
    let (blocks, footer) = run.split_at((link.bytes - link.hashed) as usize);
    let seed = seed(store, 2, link);
    assert_eq!(xxh3_64_with_seed(footer, seed), link.checksum);
    assert_eq!(&footer[..5], [b'F', b'R', b'U', b'N', 1]);
    assert_eq!((at(footer, 12).fixed(4), footer[7]), (1, 0), "one block");
    let mut fields = at(footer, 64);
    let (first, last) = (fields.string(), fields.string());
    assert_eq!((fields.number(), fields.number()), (0, 0), "separator 0 is empty");
    let [stored, decoded, count, _deletes, _merges] = [(); 5].map(|()| fields.number());
    assert_eq!((fields.byte(), stored >= decoded), (0, true), "codec 0");
    let crc = crc32c::crc32c(&blocks[..stored as usize]);
    assert_eq!(fields.fixed(4) as u32, crc ^ xxh3_64_with_seed(&[0; 8], seed) as u32);
    let block = &blocks[..decoded as usize];
    let (rest, ends) = block.split_at(block.len() - 4);
    let (rows, restarts) = (at(ends, 0).fixed(2), at(ends, 2).fixed(2));
    assert_eq!(rows, count);
    let mut fields = Fields(&rest[..rest.len() - 2 * restarts as usize]);
    let mut found: Vec<(Vec<u8>, u8, Vec<u8>)> = Vec::new();
    for _ in 0..rows {
        let tag = fields.byte();
        let [shared, suffix, payload] = [(); 3].map(|()| fields.number() as usize);
        let mut key = found.last().map_or(vec![], |(key, ..)| key[..shared].to_vec());
        key.extend(fields.take(suffix));
        found.push((key, tag, fields.take(payload).to_vec()));
    }
    assert!(fields.0.is_empty());
    assert_eq!(found.first().map(|row| &row.0[..]), Some(first));
    assert_eq!(found.last().map(|row| &row.0[..]), Some(last));
    found
}

#[test]
fn a_reader_written_from_the_format_page_finds_the_row() {
    let page_text = sources::file(PAGE).text;
    let file = undump(split(&page_text).1);
    // "Superblock": the valid slot of higher sequence.
    let slot = [0, 64 << 10]
        .map(|offset| &file[offset..offset + 4096])
        .into_iter()
        .max_by_key(|slot| at(slot, 56).fixed(8))
        .expect("two slots");
    assert_eq!(&slot[..12], b"FrondSB\0\x01\0\0\0");
    let (store, sequence) = (&slot[40..56], at(slot, 56).fixed(8));
    let offset = sequence % 2 * (64 << 10);
    let own = Link { offset, bytes: 4096, hashed: 0, checksum: 0, birth: sequence, lineage: 0 };
    assert_eq!(xxh3_64_with_seed(&slot[..4088], seed(store, 6, &own)), at(slot, 4088).fixed(8));
    assert_eq!(at(slot, 112).fixed(8), 1, "closed");
    let [live, pending, free, end] = [200, 208, 216, 224].map(|offset| at(slot, offset).fixed(8));
    assert_eq!((192 << 10) + live + pending + free, end);
    assert!(end <= file.len() as u64);
    let (roots_link, map_link) = (at(slot, 128).link(), at(slot, 164).link());
    assert_eq!(page(&file, store, 3, &map_link)[0], 2, "the directory of the space map");
    let roots = roots(&file, store, &roots_link);
    let [(0, catalog, 0), (1, tree, 0)] = &roots[..] else { panic!("two leaves: {roots:?}") };
    let mut rows_of_t = rows(&file, store, tree);
    assert_eq!(rows_of_t.pop(), Some((b"k".to_vec(), 0, b"v".to_vec())));
    assert!(rows_of_t.is_empty());
    // "Catalog records": the counters, then the tree with its name in field 2.
    let catalog = rows(&file, store, catalog);
    let keys: Vec<&[u8]> = catalog.iter().map(|(key, ..)| &key[..]).collect();
    assert_eq!(keys, [&[0, 0, 0, 0, 0][..], &[1, 0, 0, 0, 1]]);
    let mut fields = Fields(&catalog[1].2);
    assert_eq!(fields.byte(), 1, "version");
    assert_eq!((fields.number(), fields.string()), (1, &[1][..]), "its id");
    assert_eq!((fields.number(), fields.string()), (2, &b"t"[..]), "its name");
}
