//! Tests of running out of memory (F14, P15): the n-th allocation of a process fails, for n all
//! over its life.
//!
//! Rust aborts a process when an allocation fails, unless the code asked for it in a fallible way.
//! To a store that is a crash like any other: what was acknowledged must be there, as a prefix of
//! the commits, and the check clean. Where a length comes from a row or a file, the engine
//! allocates fallibly and returns `NoMemory`.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs::File,
    io::Write,
    path::Path,
    process::{Command, Stdio},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use frond::{
    Db, Durability, Options, TreeOptions,
    check::CheckMode,
    internals::{Limits, Tuning},
};
use frond_testkit::effort;

/// An allocator that fails once, at a given number of calls.
struct Failing;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

/// Allocations left until the one that fails.
static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

fn fails() -> bool {
    LEFT.fetch_sub(1, Ordering::Relaxed) == 1
}

// SAFETY: every call is passed to the system's allocator unchanged, or answered with null, which
// the trait allows.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this call.
        if fails() { ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        if fails() { ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        if fails() { ptr::null_mut() } else { unsafe { System.realloc(old, layout, bytes) } }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

const COMMITS: u32 = 60;

fn options() -> Options {
    let limits = Limits {
        memtable_bytes: 64 << 10,
        memtable_log_bytes: 1 << 20,
        unwritten_bytes: 256 << 10,
        footers_bytes: 8 << 10,
        checkpoint_log_bytes: 64 << 10,
        checkpoint_millis: 20,
        mini_run_entries: 50,
        own_writes_bytes: 64 << 10,
    };
    let tuning = Tuning {
        limits: Some(limits),
        segment_bytes: Some(64 << 10),
        group_bytes: Some(16 << 10),
        ..Tuning::default()
    };
    Options::new().cache_size(4 << 20).durability(Durability::Os).tuning(tuning)
}

/// The process whose memory runs out; only [`acknowledged_commits_survive_out_of_memory`]
/// starts it. It makes the commits that the store does not have yet, and writes down which are
/// acknowledged.
#[test]
#[ignore = "a part of the other test"]
fn child() {
    let word = |name| std::env::var(name).expect("started by the other test");
    let dir = word("FROND_DIR");
    let mut ledger = File::create(Path::new(&dir).join("ledger")).expect("made");
    let fail_at: u64 = word("FROND_FAIL_AT").parse().expect("a number");
    LEFT.store(fail_at, Ordering::Relaxed);
    let mut work = || -> frond::Result<()> {
        let db = Db::open(Path::new(&dir).join("store"), options())?;
        let tree = db.open_tree("t")?;
        for n in 0..COMMITS {
            tree.put(&n.to_be_bytes(), &[n as u8; 2000])?;
            ledger.write_all(&n.to_be_bytes()).expect("written");
        }
        db.close()
    };
    // An error is as good a result as an abort.
    let _ = work();
    let made = fail_at.wrapping_sub(LEFT.load(Ordering::Relaxed));
    LEFT.store(u64::MAX, Ordering::Relaxed);
    std::fs::write(Path::new(&dir).join("made"), made.to_be_bytes()).expect("written");
}

/// Runs a child; returns how many commits it acknowledged and, if it ran to its end, how often it
/// allocated.
fn run(dir: &Path, fail_at: u64) -> (u32, Option<u64>) {
    let db = Db::open(dir.join("store"), options()).expect("made");
    db.create_tree("t", TreeOptions::default()).expect("made");
    db.close().expect("closed");
    Command::new(std::env::current_exe().expect("this file"))
        .args(["child", "--exact", "--ignored"])
        .envs([("FROND_DIR", dir.as_os_str()), ("FROND_FAIL_AT", fail_at.to_string().as_ref())])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("started");
    // Each goes to a file of its own: a thread may abort the process while another writes its last
    // entry.
    let ledger = std::fs::read(dir.join("ledger")).unwrap_or_default();
    let made = std::fs::read(dir.join("made")).ok().and_then(|made| made.try_into().ok());
    (ledger.len() as u32 / 4, made.map(u64::from_be_bytes))
}

/// Promises: P1–P3, P15.
#[test]
fn acknowledged_commits_survive_out_of_memory() {
    let count = {
        let dir = tempfile::tempdir().expect("made");
        let (acknowledged, made) = run(dir.path(), u64::MAX);
        assert_eq!(acknowledged, COMMITS, "with memory enough all is well");
        made.expect("it came to its end")
    };
    let tries = 40 * effort::factor();
    let (mut ended, mut answered) = (0, 0);
    for i in 0..tries {
        let dir = tempfile::tempdir().expect("made");
        let (acknowledged, made) = run(dir.path(), 1 + count * i / tries);
        if made.is_none() {
            ended += 1
        } else {
            answered += 1
        }
        let db = Db::open(dir.path().join("store"), options()).expect("it opens");
        let tree = db.open_tree("t").expect("the tree");
        let mut rows = 0u32;
        let mut cursor = tree.scan(..).expect("read");
        while let Some((key, value)) = cursor.next().expect("read") {
            assert_eq!((key, value), (&rows.to_be_bytes()[..], &[rows as u8; 2000][..]), "try {i}");
            rows += 1;
        }
        let legal = acknowledged..=acknowledged + 1;
        assert!(legal.contains(&rows), "try {i}: {rows} rows, {acknowledged} acknowledged");
        let report = db.check(CheckMode::Full).expect("checked");
        assert!(report.is_clean(), "try {i}: {report}");
        drop(cursor);
        db.close().expect("closed");
    }
    println!("{count} allocations: {tries} failed, {ended} ended the process, {answered} did not");
    assert!(ended > 0, "no failed allocation was ever felt");
}
