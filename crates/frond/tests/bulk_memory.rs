//! Tests the memory of a bulk load of ten times the cache size: the whole store takes no more than
//! the cache size meanwhile. A test program of its own, because the allocator counts for the whole
//! process.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use frond::{Db, Durability, Options, TreeOptions, check::CheckMode};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed unchanged to the system's allocator; the counters touch none of its
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `memory` came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CACHE: usize = 8 << 20;
const ROWS: u64 = 800_000;

/// A row with a random key and a hardly compressible value.
fn row(number: u64) -> ([u8; 8], [u8; 96]) {
    let word = |i: u64| (number << 4 | i).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    let mut value = [0; 96];
    for (i, part) in value.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(&word(i as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_be_bytes());
    }
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes(), value)
}

#[test]
fn a_load_of_ten_times_the_cache_stays_within_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(CACHE as u64).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    for unique in [true, false] {
        let name = unique.to_string();
        let mut load = db.bulk_load(&name, TreeOptions::new().unique(unique)).unwrap();
        PEAK.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
        for number in 0..ROWS {
            let (key, value) = row(number);
            load.put(&key, &value).unwrap();
        }
        let loaded = load.finish().unwrap();
        let peak = PEAK.load(Ordering::Relaxed);
        println!("unique {unique}: {:.2} of the cache at most", peak as f64 / CACHE as f64);
        assert!(peak <= CACHE + CACHE / 10, "{peak} bytes at most, of {CACHE}");
        assert_eq!(loaded.rows, ROWS);
        assert!(db.stats().load_spilled_bytes > 8 * CACHE as u64);
        for number in (0..ROWS).step_by(9973) {
            let (key, value) = row(number);
            assert_eq!(loaded.tree.get(&key).unwrap().as_deref(), Some(&value[..]));
        }
    }
    let report = db.check(CheckMode::Quick).unwrap();
    assert!(report.is_clean(), "{report}");
    db.close().unwrap();
}
