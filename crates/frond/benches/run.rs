//! Benchmark of runs: ns per entry to encode, scan, merge and search, with the budgets of the
//! design.
//!
//! Keys are 24 bytes shaped like a secondary index entry (1000 prices, 100 000 customers, 8 random
//! bytes, 8 ascending), values 8 bytes. `cargo bench --bench run`; with `-- --strict` it fails if
//! anything takes twice its budget.

mod judge;

use std::{hint::black_box, process::ExitCode, sync::Arc, time::Instant};

use frond::{
    backup::{StoreId, VersionNumber},
    feed::Tag,
    internals::{
        Lineage,
        block::Codec,
        cache::{BlockCache, BlockSource, FramePool},
        io::{MemoryVfs, OpenMode, Vfs},
        page::StoreFile,
        run::{
            Folder, MergeCursor, Operators, RowSchema, Run, RunBuilder, RunCursor, RunOptions,
            key_hash,
        },
    },
    layout::{Hint, Layout, Part},
};
use judge::judge;

/// A large leaf: one measurement takes a millisecond or two, so that the best of many was not
/// interrupted even on a busy machine.
const ENTRIES: usize = 25_000;

type Key = [u8; 24];

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Keys of a fiftieth of the index, as one leaf or node has them.
fn keys(count: usize, seed: u64) -> Vec<Key> {
    let mut state = seed;
    let mut keys: Vec<Key> = (0..count as u64)
        .map(|row| {
            let mut key = [0; 24];
            key[..4].copy_from_slice(&((next(&mut state) % 20) as u32 + 400).to_be_bytes());
            key[4..8].copy_from_slice(&((next(&mut state) % 100_000) as u32).to_be_bytes());
            key[8..16].copy_from_slice(&next(&mut state).to_be_bytes());
            key[16..].copy_from_slice(&row.to_be_bytes());
            key
        })
        .collect();
    keys.sort_unstable();
    keys
}

fn build(pool: &Arc<FramePool>, keys: &[Key], options: RunOptions) -> Arc<Run> {
    let mut builder = RunBuilder::new(pool.clone(), options);
    for key in keys {
        builder.push(key, Tag::PUT_FRESH, &key[16..]).unwrap();
    }
    builder.finish().unwrap().unwrap()
}

/// The best of many rounds, in ns per entry; `REPEAT` in the environment sets their number (a
/// profile needs more).
fn measure(entries: usize, mut work: impl FnMut()) -> f64 {
    let repeat = std::env::var("REPEAT").ok().and_then(|n| n.parse().ok()).unwrap_or(100);
    let mut best = f64::MAX;
    for _ in 0..repeat {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_nanos() as f64 / entries as f64);
    }
    best
}

fn line(what: &str, ns: f64, budget: &str) {
    println!("{what:<58} {ns:8.1} ns   {budget}");
}

/// Prints a measurement, and compares it with its budget in ns.
fn judged(what: &str, ns: f64, budget: f64) {
    line(what, ns, &budget.to_string());
    judge(what, ns, budget);
}

/// A leaf with columnar blocks in the cache: more copies of it than the processor's caches hold,
/// each an extent of its own.
fn columnar(pool: &Arc<FramePool>, all: &[Key]) {
    const COLD_BYTES: usize = 256 << 20;
    let int = |width| Part::Fixed(width, Hint::Integer);
    let key = Layout::new(vec![int(4), int(4), int(8), int(8)]);
    let value = Layout::new(vec![int(8)]);
    let schema = RowSchema::of(Some(&key), Some(&value), None, None).unwrap();
    let options = RunOptions { codec: Codec::Zstd1, ..RunOptions::default() };
    let build = || {
        let mut builder = RunBuilder::columnar(pool.clone(), options, &schema, None);
        for key in all {
            builder.push(key, Tag::PUT, &key[16..]).unwrap();
        }
        builder.finish().unwrap().unwrap()
    };
    let ns = measure(all.len(), || drop(black_box(build())));
    let leaf = build();
    let size = leaf.data_bytes() as f64 / all.len() as f64;
    judged(&format!("columnar: encode + crc ({size:.1} B/entry)"), ns, 30.0);
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open("runs".as_ref(), mode).unwrap();
    let file = StoreFile::new(file, "runs", StoreId([7; 16]));
    let (mut offset, mut copies) = (4096, Vec::new());
    for _ in 0..COLD_BYTES / leaf.data_bytes() as usize {
        let link = leaf.write(&file, offset, VersionNumber(1), Lineage(1)).unwrap();
        offset += u64::from(link.bytes);
        copies.push(Run::open(file.clone(), link, pool.clone()).unwrap());
    }
    let cache = BlockCache::new(pool.clone(), 4 * COLD_BYTES);
    let get = |run: &Arc<Run>, key: &Key| {
        black_box(run.get(key, key_hash(key), &*cache).unwrap().unwrap().payload());
    };
    // Loads every block into the cache.
    for run in &copies {
        let mut cursor = RunCursor::new(run.clone(), cache.clone());
        cursor.seek_first().unwrap();
        while cursor.entry().is_some() {
            cursor.advance().unwrap();
        }
    }
    let before = cache.stats();
    let one = &all[..500];
    let ns = measure(one.len() * 10, || {
        for _ in 0..10 {
            one.iter().for_each(|key| get(&copies[0], key));
        }
    });
    line("columnar: get in one block, warm, through the cache", ns, "300 in a block");
    let mut state = 6;
    let mut best = f64::MAX;
    for _ in 0..5 {
        let mut pick = |end: usize| next(&mut state) as usize % end;
        let picks: Vec<(&Arc<Run>, &Key)> =
            (0..20_000).map(|_| (&copies[pick(copies.len())], &all[pick(all.len())])).collect();
        let start = Instant::now();
        picks.iter().for_each(|(run, key)| get(run, key));
        best = best.min(start.elapsed().as_nanos() as f64 / picks.len() as f64);
    }
    let now = cache.stats();
    assert_eq!(now.misses, before.misses, "all blocks stay in the cache");
    let held = now.resident_bytes >> 20;
    judged(&format!("columnar: get, cold, random of {held} MiB in the cache"), best, 1500.0);
    let cached: Arc<dyn BlockSource> = cache.clone();
    let ns = measure(all.len(), || {
        let mut cursor = RunCursor::new(copies[0].clone(), cached.clone());
        cursor.seek_first().unwrap();
        while let Some(entry) = cursor.entry() {
            black_box(entry.payload);
            cursor.advance().unwrap();
        }
    });
    judged("columnar: scan forward through the cache", ns, 30.0);
}

fn main() -> ExitCode {
    let pool = FramePool::new(1 << 30);
    let all = keys(ENTRIES, 1);
    let filtered = RunOptions { filter_bits: Some(14), ..RunOptions::default() };
    for (name, codec) in [
        ("raw", Codec::Raw),
        ("lz4", Codec::Lz4),
        ("zstd-1", Codec::Zstd1),
        ("zstd-3", Codec::Zstd3),
    ] {
        let options = RunOptions { codec, ..RunOptions::default() };
        let run = build(&pool, &all, options);
        let ns = measure(ENTRIES, || drop(black_box(build(&pool, &all, options))));
        let size = run.data_bytes() as f64 / ENTRIES as f64;
        line(
            &format!("encode + crc, {name} ({size:.1} B/entry)"),
            ns,
            "10-20 raw, +55 lz4, +75 zstd-1",
        );
        let ns = measure(ENTRIES, || {
            let mut cursor = RunCursor::bulk(run.clone());
            cursor.seek_first().unwrap();
            let mut sum = 0;
            while let Some(entry) = cursor.entry() {
                sum += entry.payload.len();
                cursor.advance().unwrap();
            }
            black_box(sum);
        });
        line(&format!("walk in bulk: crc + decode, {name}"), ns, "5 raw");
    }
    let ns = measure(ENTRIES, || drop(black_box(build(&pool, &all, filtered))));
    line("encode + crc + hash + filter of 14 bits, raw", ns, "");

    let operators = Operators::new();
    let folder = Folder::new(&operators);
    for ways in [1usize, 2, 4, 8, 16] {
        let runs: Vec<Arc<Run>> = (0..ways as u64)
            .map(|way| build(&pool, &keys(ENTRIES / ways, 10 + way), filtered))
            .collect();
        let entries = ENTRIES / ways * ways;
        let merge = || {
            let mut cursors: Vec<_> = runs.iter().map(|run| RunCursor::bulk(run.clone())).collect();
            cursors.iter_mut().for_each(|cursor| cursor.seek_first().unwrap());
            MergeCursor::new(cursors)
        };
        let ns = measure(entries, || {
            let mut merge = merge();
            while let Some(entry) = merge.next_folded(&folder).unwrap() {
                black_box(entry.key);
            }
        });
        line(&format!("merge {ways}-way: crc + decode + merge"), ns, "");
        let ns = measure(entries, || {
            let mut merge = merge();
            let mut builder = RunBuilder::new(pool.clone(), filtered);
            while let Some(entry) = merge.next_folded(&folder).unwrap() {
                builder.push(entry.key, entry.tag, entry.payload).unwrap();
            }
            black_box(builder.finish().unwrap());
        });
        judged(&format!("merge {ways}-way: all, with encode + crc + hash + filter"), ns, 60.0);
    }

    // A leaf, and a sixteenth as many newer entries.
    let leaf = build(&pool, &all, RunOptions::default());
    let newer = build(&pool, &keys(ENTRIES / 16, 99), filtered);
    let entries = ENTRIES + ENTRIES / 16;
    let ns = measure(entries, || {
        let mut cursors: Vec<_> =
            [&newer, &leaf].map(|run| RunCursor::bulk(run.clone())).into_iter().collect();
        cursors.iter_mut().for_each(|cursor| cursor.seek_first().unwrap());
        let mut merge = MergeCursor::new(cursors);
        let mut builder = RunBuilder::new(pool.clone(), RunOptions::default());
        while let Some(entry) = merge.next_folded(&folder).unwrap() {
            builder.push(entry.key, entry.tag, entry.payload).unwrap();
        }
        black_box(builder.finish().unwrap());
    });
    judged("leaf merge 1:16, no filter, raw", ns, 60.0);

    let cache: Arc<dyn BlockSource> = BlockCache::new(pool.clone(), 256 << 20);
    let zstd =
        build(&pool, &all, RunOptions { codec: Codec::Zstd1, filter_bits: Some(10), ..filtered });
    let mut state = 5;
    let wanted: Vec<Key> = (0..20_000).map(|_| all[next(&mut state) as usize % ENTRIES]).collect();
    for (name, run) in [("unwritten raw, in place", &leaf), ("zstd-1, from the cache", &zstd)] {
        let ns = measure(wanted.len(), || {
            for key in &wanted {
                black_box(run.get(key, key_hash(key), &*cache).unwrap().unwrap().payload());
            }
        });
        line(&format!("get, random of {ENTRIES}: {name}"), ns, "250 in a block");
    }
    let one = &all[..500];
    let ns = measure(one.len() * 10, || {
        for _ in 0..10 {
            for key in one {
                black_box(leaf.get(key, 0, &*cache).unwrap().unwrap().payload());
            }
        }
    });
    line("get in one block, warm", ns, "250");
    let ns = measure(wanted.len(), || {
        for key in &wanted {
            let mut absent = *key;
            absent[23] ^= 0x55;
            black_box(zstd.get(&absent, key_hash(&absent), &*cache).unwrap().is_none());
        }
    });
    line("get of an absent key, filter of 10 bits", ns, "10-20 + hash");

    for (name, back) in [("forward", false), ("backward", true)] {
        let ns = measure(ENTRIES, || {
            let mut cursor = RunCursor::new(zstd.clone(), cache.clone());
            if back { cursor.seek_last() } else { cursor.seek_first() }.unwrap();
            let mut sum = 0;
            while let Some(entry) = cursor.entry() {
                sum += entry.payload.len();
                if back { cursor.retreat() } else { cursor.advance() }.unwrap();
            }
            black_box(sum);
        });
        judged(&format!("scan {name} through the cache"), ns, 30.0);
    }
    let ns = measure(wanted.len(), || {
        let mut cursor = RunCursor::new(zstd.clone(), cache.clone());
        for key in &wanted {
            cursor.seek(key).unwrap();
            black_box(cursor.entry().unwrap().key);
        }
    });
    line("seek of a cursor, random, cached", ns, "");
    // A leaf of some MiB, the usual size of leaves.
    columnar(&pool, &keys(8 * ENTRIES, 7));
    judge::verdict()
}
