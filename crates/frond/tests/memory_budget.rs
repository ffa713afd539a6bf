//! What a store takes in memory: `cache_size` for everything, with a snapshot held all the time, and a stated
//! constant beside it. A test of its own, because the kernel counts for the whole process.

use frond::{Batch, Db, Durability, Options, Tree};
use frond_testkit::Dice;

const CACHE: u64 = 64 << 20;
/// Threads' stacks, code that is touched first here, what the allocator keeps (docs/operating.md, "Memory").
const CONSTANT: u64 = 12 << 20;
const ROWS: u64 = 600_000;

/// Most memory that this process ever had, bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a field");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

/// Blocks come and go on many threads, beside memtables that grow and shrink: what each thread has freed, and what memtables
/// have given back, is memory for the blocks of all.
fn many_threads_read_and_write(db: &Db, trees: &[Tree]) {
    const THREADS: u64 = 24;
    const READS: usize = 600;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let (mut dice, mut batch) = (Dice::new(thread), Batch::new());
                for read in 0..READS {
                    let tree = &trees[dice.below(trees.len() as u64) as usize];
                    let at = dice.bits().to_be_bytes();
                    let mut cursor = tree.scan(&at[..]..).unwrap();
                    // Beyond the last key there is none.
                    assert!(cursor.next().unwrap().is_some() || at[0] == 0xff);
                    for _ in 0..8 {
                        let key = dice.bits().to_be_bytes();
                        batch.put(tree, &key, &[read as u8; 100]).unwrap();
                    }
                    db.commit(&mut batch).unwrap();
                }
            });
        }
    });
}

/// Promise: P15.
#[test]
fn rows_of_three_times_the_cache_stay_within_it() {
    let dir = tempfile::tempdir().unwrap();
    let before = peak();
    let options = Options::new().cache_size(CACHE).durability(Durability::Lazy);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let trees: Vec<_> =
        (0..3).map(|n| db.create_tree(&format!("t{n}"), Default::default()).unwrap()).collect();
    let (mut dice, mut batch, mut held) = (Dice::new(15), Batch::new(), None);
    let mut value = [0; 100];
    for row in 0..ROWS {
        value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
        for tree in &trees {
            batch.put(tree, &dice.bits().to_be_bytes(), &value).unwrap();
        }
        if row % 100 == 0 {
            db.commit(&mut batch).unwrap();
        }
        // From a tenth on: it keeps a memtable, until that is spilled, and all pages of its version.
        if row == ROWS / 10 {
            held = Some(db.snapshot());
        }
    }
    db.commit(&mut batch).unwrap();
    let rows: usize = trees
        .iter()
        .map(|tree| {
            let mut cursor = tree.scan(..).unwrap();
            std::iter::from_fn(|| cursor.next().unwrap().map(drop)).count()
        })
        .sum();
    assert_eq!(rows as u64, 3 * ROWS);
    many_threads_read_and_write(&db, &trees);
    let took = peak() - before;
    println!("{:.2} of the cache", took as f64 / CACHE as f64);
    assert!(db.stats().get("checkpoints") > Some(2), "nothing was written yet");
    assert!(took <= CACHE + CACHE / 10 + CONSTANT, "{took} bytes, of {CACHE}");
    drop(held);
    db.close().unwrap();
}
