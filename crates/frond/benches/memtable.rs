//! Benchmark of the memtable's cost per entry, warm: `cargo bench -p frond-db --bench memtable
//! [ENTRIES] [NAME]`.
//!
//! Keys are 24 bytes shaped like an iiBench secondary entry (price of 1000, customer of 100 000, 8
//! random bytes, 8 ascending), values 12 bytes. Design: docs/design/004-memtable-is-a-btree.md.

use std::{hint::black_box, sync::Arc, time::Instant};

use frond::{
    Seqno, TreeId,
    feed::Tag,
    internals::{
        cache::FramePool,
        memtable::{LATEST, MemRun, Memtable},
    },
};

const TREE: TreeId = TreeId(1);
const VALUE: [u8; 12] = [7; 12];
type Key = [u8; 24];
type Fill = fn(&Memtable, &[Key]);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn iibench_keys(count: usize) -> Vec<Key> {
    let mut random = Random(88172645463325252);
    (0..count as u64)
        .map(|row| {
            let mut key = [0; 24];
            key[..4].copy_from_slice(&((random.next() % 1000) as u32).to_be_bytes());
            key[4..8].copy_from_slice(&((random.next() % 100_000) as u32).to_be_bytes());
            key[8..16].copy_from_slice(&random.next().to_be_bytes());
            key[16..].copy_from_slice(&row.to_be_bytes());
            key
        })
        .collect()
}

/// Keys after a leading column of ten 8-byte values: their first 8 bytes distinguish little.
fn low_cardinality_keys(count: usize) -> Vec<Key> {
    let mut keys = iibench_keys(count);
    for key in &mut keys {
        key.copy_within(8..16, 16);
        key.copy_within(0..8, 8);
        let column = u64::from(key[11] % 10);
        key[..8].copy_from_slice(&column.to_be_bytes());
    }
    keys
}

fn ascending_keys(count: usize) -> Vec<Key> {
    (0..count as u64)
        .map(|row| {
            let mut key = [0; 24];
            key[8..16].copy_from_slice(&row.to_be_bytes());
            key
        })
        .collect()
}

fn insert_single(memtable: &Memtable, keys: &[Key]) {
    for (seqno, key) in keys.iter().enumerate() {
        let row = (&key[..], Tag::PUT, &VALUE[..]);
        memtable.insert(TREE, Seqno(seqno as u64 + 1), std::iter::once(row));
    }
}

fn insert_batches(memtable: &Memtable, keys: &[Key]) {
    for (seqno, batch) in keys.chunks(1000).enumerate() {
        let rows = batch.iter().map(|key| (&key[..], Tag::PUT, &VALUE[..]));
        memtable.insert(TREE, Seqno(seqno as u64 + 1), rows);
    }
}

/// Processor time of this thread: a busy machine distorts it less than the wall clock.
fn processor_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

fn time(what: &str, entries: usize, work: impl FnOnce()) {
    let (start, before) = (Instant::now(), processor_nanos());
    work();
    let wall = start.elapsed().as_nanos() as f64 / entries as f64;
    let own = (processor_nanos() - before) as f64 / entries as f64;
    println!("{what:<44} {own:8.1} ns   (wall {wall:.1})");
}

fn main() {
    let count = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(1_100_000);
    let pool = FramePool::new(256 << 20);
    let random = iibench_keys(count);
    let mut batched = random.clone();
    batched.chunks_mut(1000).for_each(|batch| batch.sort_unstable());
    let low = low_cardinality_keys(count);
    let mut low_batched = low.clone();
    low_batched.chunks_mut(1000).for_each(|batch| batch.sort_unstable());
    let ascending = ascending_keys(count);

    insert_batches(&Memtable::new(pool.clone()), &random); // first touch of every frame
    let cases: [(&str, &[Key], Fill); 6] = [
        ("insert random, single rows", &random, insert_single),
        ("insert random, sorted batches of 1000", &batched, insert_batches),
        ("insert low-cardinality lead, single rows", &low, insert_single),
        ("insert low-cardinality lead, batches of 1000", &low_batched, insert_batches),
        ("insert ascending, single rows", &ascending, insert_single),
        ("insert ascending, batches of 1000", &ascending, insert_batches),
    ];
    let wanted = std::env::args().skip(1).find(|arg| arg.starts_with("insert"));
    for (name, keys, fill) in cases {
        if wanted.as_ref().is_some_and(|wanted| !name.contains(wanted.as_str())) {
            continue;
        }
        let memtable = Memtable::new(pool.clone());
        time(name, count, || fill(&memtable, keys));
        println!(
            "  {:.1} MB, {:.1} bytes an entry",
            memtable.bytes() as f64 / 1e6,
            memtable.bytes() as f64 / count as f64
        );
    }

    if wanted.is_some() {
        return;
    }

    let memtable = Arc::new(Memtable::new(pool.clone()));
    insert_single(&memtable, &random);
    read(&memtable, &random);
    time("get, low-cardinality lead", count, || {
        let memtable = Memtable::new(pool.clone());
        insert_batches(&memtable, &low_batched);
        let before = processor_nanos();
        gets(&memtable, &low);
        println!("  (of it gets: {:.1} ns)", (processor_nanos() - before) as f64 / count as f64);
    });
    let mut sorted = random.clone();
    sorted.sort_unstable();
    let mut run = None;
    time("build a mini-run of all", count, || {
        let rows = sorted.iter().map(|key| (&key[..], Tag::PUT, &VALUE[..]));
        run = Some(MemRun::build(pool.clone(), rows));
    });
    for threads in [1, 2] {
        let memtable = Memtable::new(pool.clone());
        let share = count / threads;
        time(&format!("insert random, batches, {threads} threads (wall)"), count, || {
            std::thread::scope(|scope| {
                for keys in batched.chunks(share) {
                    scope.spawn(|| insert_batches(&memtable, keys));
                }
            });
        });
    }
}

fn gets(memtable: &Memtable, keys: &[Key]) {
    // An order other than that of insertion, or the records would lie side by side.
    let mut slot = 0;
    for _ in 0..keys.len() {
        slot = (slot + 611_953) % keys.len();
        memtable.get(TREE, &keys[slot], LATEST, &mut |_, message| {
            black_box(message.payload[0]);
            false
        });
    }
}

fn read(memtable: &Arc<Memtable>, keys: &[Key]) {
    time("get", keys.len(), || gets(memtable, keys));
    time("get, absent", keys.len(), || {
        for key in keys {
            let mut absent = *key;
            absent[23] ^= 0x80;
            absent[20] ^= 0x80;
            memtable.get(TREE, &absent, LATEST, &mut |_, _| unreachable!("absent"));
        }
    });
    time("scan forward, key and newest version", keys.len(), || {
        let mut cursor = memtable.cursor(TREE, LATEST);
        cursor.seek_first();
        while let Some(key) = cursor.key() {
            black_box(key[0]);
            black_box(cursor.versions().next().map(|(_, message)| message.payload[0]));
            cursor.next();
        }
    });
    time("scan backward", keys.len(), || {
        let mut cursor = memtable.cursor(TREE, LATEST);
        cursor.seek_last();
        while let Some(key) = cursor.key() {
            black_box(key[0]);
            cursor.prev();
        }
    });
    time("drain", keys.len(), || {
        let mut drain = memtable.apply_cursor(TREE, LATEST);
        while let Some(drained) = drain.next() {
            black_box(drained.key[0]);
            for (_, message) in drained.versions {
                black_box(message.payload[0]);
            }
        }
    });
    time("seek", keys.len() / 4, || {
        let mut cursor = memtable.cursor(TREE, LATEST);
        for key in keys.iter().step_by(4) {
            cursor.seek(key);
            black_box(cursor.key());
        }
    });
}
