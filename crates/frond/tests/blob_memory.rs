//! Tests the memory that a long value needs: a few pieces in addition to the caller's buffer,
//! whatever its length. A test program of its own, because the allocator counts for the whole
//! process.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use frond::{Db, Options};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn took(bytes: usize) {
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call is passed unchanged to the system's allocator; the counters touch none of its
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above; `memory` came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The peak of memory allocated while `act` ran, beyond what was allocated before.
fn peak_of<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = act();
    (result, PEAK.load(Ordering::Relaxed) - before)
}

/// A byte of the value; every piece is different.
fn byte(at: usize) -> u8 {
    (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[7] ^ (at >> 18) as u8
}

fn write_and_read(bytes: usize) {
    /// Encoder, one write, one read, and what the engine does concurrently.
    const SOME_PIECES: usize = 8 << 20;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path().join("store"), Options::new().cache_size(4 << 20)).unwrap();
    let tree = db.create_tree("t", Default::default()).unwrap();
    let value: Vec<u8> = (0..bytes).map(byte).collect();
    let (_, peak) = peak_of(|| tree.put(b"k", &value).unwrap());
    assert!(peak < SOME_PIECES, "writing takes {peak} bytes");
    drop(value);
    let (_, peak) = peak_of(|| db.checkpoint().unwrap());
    assert!(peak < SOME_PIECES, "a checkpoint takes {peak} bytes");
    let snapshot = db.snapshot();
    let mut piece = vec![0; 1 << 20];
    let (at, peak) = peak_of(|| {
        let mut at = 0;
        while let Some(read @ 1..) = snapshot.get_at(&tree, b"k", at, &mut piece).unwrap() {
            assert!((at..).zip(&piece[..read]).all(|(at, found)| *found == byte(at)));
            at += read;
        }
        at
    });
    assert_eq!(at, bytes);
    assert!(peak < SOME_PIECES, "reading in parts takes {peak} bytes");
    let (value, peak) = peak_of(|| tree.get(b"k").unwrap().unwrap());
    assert!(peak < bytes + SOME_PIECES, "reading it whole takes {peak} bytes");
    assert!(value.len() == bytes && (0..).zip(&value).all(|(at, found)| *found == byte(at)));
    drop((snapshot, tree));
    db.close().unwrap();
}

#[test]
fn a_long_value_is_streamed_in_bounded_memory() {
    write_and_read(150 << 20);
}

#[test]
#[ignore = "2 GiB of memory and a gibibyte of disk"]
fn the_longest_value_is_streamed_in_bounded_memory() {
    write_and_read(frond::VALUE_BYTES_MAX);
}
