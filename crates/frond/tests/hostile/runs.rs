//! Whole runs whose footer or a block is corrupted, with the checksums made right again: opened,
//! read, and merged.

use std::sync::Arc;

use frond::{
    backup::{StoreId, VersionNumber},
    internals::{
        Lineage,
        block::MODELS_MEMORY_MAX,
        cache::{BlockSource, NoCache},
        io::{MemoryVfs, OpenMode, Vfs},
        page::{Link, PageKind, StoreFile, page_hash},
        run::{
            Folder, MergeCursor, Operators, ReadBuf, Run, RunBuilder, RunCursor, key_hash,
            verify_extent,
        },
    },
};
use frond_testkit::Dice;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    corrupt,
    counting::peak_of,
    samples::{Tree, pool},
};

const SOME: usize = 64 << 10;

/// A run in a file of its own.
pub struct Lying<'t> {
    tree: &'t Tree,
    file: Arc<StoreFile>,
    link: Link,
    extent: Vec<u8>,
    /// Where its footer starts in the extent.
    footer_at: usize,
    keys: Vec<&'t Vec<u8>>,
}

impl<'t> Lying<'t> {
    pub fn of(tree: &'t Tree) -> Self {
        let mode = OpenMode { write: true, create_new: true, direct: true };
        let file = MemoryVfs::new().open("s".as_ref(), mode).expect("it is new");
        let file = StoreFile::new(file, "s", StoreId([7; 16]));
        let link =
            tree.run.write(&file, 4096, VersionNumber(1), Lineage(1)).expect("memory takes it");
        let mut extent = vec![0; link.bytes as usize];
        file.read_at(&mut extent, link.offset).expect("it was written");
        let footer_at = (link.bytes - link.footer_bytes) as usize;
        let keys = tree.rows.keys().step_by(400).collect();
        Self { tree, file, link, extent, footer_at, keys }
    }

    /// Corrupts its footer.
    pub fn corrupt_footer(&self, dice: &mut Dice) {
        let whole = &self.extent[self.footer_at..];
        let meant = whole.iter().rposition(|&byte| byte != 0).expect("it has bytes") + 1;
        let mut damaged = whole[..meant].to_vec();
        for _ in 0..1 + dice.below(2) {
            // In the header, after it, or anywhere.
            let from = *dice.pick(&[0, 16, 48, 64]) as usize;
            let from = if dice.chance(1, 2) { from } else { dice.below(meant as u64) as usize };
            let mut rest = damaged.split_off(from.min(damaged.len()));
            corrupt::bytes(dice, &mut rest);
            damaged.extend(rest);
        }
        damaged.resize(whole.len(), 0);
        self.read([&self.extent[..self.footer_at], &damaged].concat());
    }

    /// Corrupts one of its blocks without changing its length; the footer gets the new checksum.
    pub fn corrupt_block(&self, dice: &mut Dice) {
        let blocks = self.tree.run.block_count() as u64;
        let (index, other) = (dice.below(blocks) as usize, dice.below(blocks) as usize);
        let bytes = |index| {
            let entry = self.tree.run.blocks().entry(index).expect("there is one");
            let start = entry.offset as usize;
            (entry, start..start + entry.encoded_bytes as usize)
        };
        let (entry, range) = bytes(index);
        let mut damaged =
            corrupt::block(dice, &self.extent[range.clone()], &self.extent[bytes(other).1]);
        if damaged.len() != range.len() {
            damaged = self.extent[range.clone()].to_vec();
            let at = dice.below(damaged.len() as u64) as usize;
            damaged[at] ^= 1 << dice.below(8);
        }
        let identity = self.link.identity(self.file.store, PageKind::Run);
        let salt = xxh3_64_with_seed(&(index as u64).to_le_bytes(), identity.seed()) as u32;
        let sum = |crc: u32| (crc ^ salt).to_le_bytes();
        let mut extent = self.extent.clone();
        extent[range].copy_from_slice(&damaged);
        let footer = &mut extent[self.footer_at..];
        let at = footer.windows(4).position(|four| *four == sum(entry.crc)).expect("it is there");
        footer[at..at + 4].copy_from_slice(&sum(crc32c::crc32c(&damaged)));
        self.read(extent);
    }

    /// Writes this extent with a matching hash, and reads all of it in all ways.
    fn read(&self, extent: Vec<u8>) {
        self.file.write_at(&extent, self.link.offset).expect("memory takes it");
        let identity = self.link.identity(self.file.store, PageKind::Run);
        let footer = &extent[self.footer_at..];
        let link = Link { hash: page_hash(&identity, footer), ..self.link };
        let (run, peak) = peak_of(|| Run::open(self.file.clone(), link, pool()));
        let bound = 16 * footer.len() + 2 * MODELS_MEMORY_MAX + SOME;
        assert!(peak < bound, "{peak} bytes of memory for a footer of {}", footer.len());
        let verified = verify_extent(&self.file, &link, &extent);
        assert_eq!(verified.is_ok(), run.as_ref().is_ok_and(|run| sums_hold(run)));
        if let Ok(run) = run {
            read(&run, &self.keys);
            merge(self.tree, &run);
        }
    }
}

/// True if all blocks of a run match the checksums in its index.
fn sums_hold(run: &Run) -> bool {
    let mut buf = ReadBuf::new(pool());
    (0..run.block_count()).all(|index| run.encoded_block(index, &mut buf).is_ok())
}

/// Walks it in all ways: rows in order, or an error.
fn read(run: &Arc<Run>, keys: &[&Vec<u8>]) {
    let source: Arc<dyn BlockSource> = Arc::new(NoCache(pool()));
    for key in keys {
        let _ = run.get(key, key_hash(key), &*source);
        let _ = run.bytes_between(Some(key), None) + run.held_between(None, Some(key)).0;
    }
    let mut bulk = RunCursor::bulk(run.clone());
    let mut went = bulk.seek_first();
    while went.is_ok() && bulk.entry().is_some() {
        went = bulk.advance();
    }
    let mut cursor = RunCursor::new(run.clone(), source);
    let mut last: Option<Vec<u8>> = None;
    let mut went = cursor.seek_last();
    while let (Ok(()), Some(entry)) = (&went, cursor.entry()) {
        assert!(last.is_none_or(|last| entry.key < &last[..]), "checked, and out of order");
        last = Some(entry.key.to_vec());
        went = cursor.retreat();
    }
}

/// Merges it with the original run, and carries its blocks over into another: the result is a run
/// in order, or an error.
fn merge(tree: &Tree, run: &Arc<Run>) {
    let builder = || match &tree.schema {
        Some(schema) => RunBuilder::columnar(pool(), tree.options, schema, Some(run.format())),
        None => RunBuilder::row_blocks(pool(), tree.options, Some(run)),
    };
    let merged = || -> frond::Result<Option<Arc<Run>>> {
        let mut sources = vec![RunCursor::bulk(run.clone()), RunCursor::bulk(tree.run.clone())];
        sources.iter_mut().try_for_each(RunCursor::seek_first)?;
        let operators = Operators::new();
        let folder = Folder::new(&operators);
        let (mut merge, mut builder) = (MergeCursor::new(sources), builder());
        while let Some(entry) = merge.next_folded(&folder)? {
            builder.push(entry.key, entry.tag, entry.payload)?;
        }
        builder.finish()
    };
    let carried = || -> frond::Result<Option<Arc<Run>>> {
        let (mut builder, mut buf) = (builder(), ReadBuf::new(pool()));
        for index in 0..run.block_count() {
            if builder.carries(run) {
                builder.carry_block(run, index, run.encoded_block(index, &mut buf)?)?;
            }
        }
        builder.finish()
    };
    for made in [merged(), carried()].into_iter().flatten().flatten() {
        let mut cursor = RunCursor::new(made.clone(), Arc::new(NoCache(pool())));
        let mut went = cursor.seek_first();
        while went.is_ok() && cursor.entry().is_some() {
            went = cursor.advance();
        }
    }
}
