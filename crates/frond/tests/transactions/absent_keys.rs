//! Checks for absent keys: they cost no read, however much larger than memory the trees are, except
//! where a filter says "perhaps", which it does for one key in a hundred.

use frond::transaction::RowEntry;
use frond_testkit::Dice;

use super::*;

const ROWS: usize = 40_000;
const ASKED: u64 = 3000;
/// The number of unique entries per row.
const UNIQUE: u64 = 2;

fn key(dice: &mut Dice) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&dice.bits().to_be_bytes());
    key
}

/// A key that ends as no existing one does; with `above`, it is greater than all of them.
fn absent_key(dice: &mut Dice, above: bool) -> [u8; 12] {
    let mut key = key(dice);
    key[11] = 1;
    if above {
        key[..8].fill(0xff);
        key[8..11].copy_from_slice(&(dice.bits() as u32).to_be_bytes()[..3]);
    }
    key
}

/// A tree of rows, and two indexes of them; the last is not unique.
struct Trees([Tree; 3]);

impl Trees {
    fn open(db: &Db) -> Self {
        Self(["rows", "mails", "names"].map(|name| db.open_tree(name).unwrap()))
    }

    fn insert(&self, txn: &Txn, row: [[u8; 12]; 2]) -> Option<frond::transaction::RowConflict> {
        self.with_entries(row, |entries| {
            txn.row_writer().insert(&entries, RowLock::Exclusive).unwrap()
        })
    }

    fn with_entries<T>(&self, row: [[u8; 12]; 2], work: impl FnOnce([RowEntry<'_>; 3]) -> T) -> T {
        let [id, mail] = &row;
        // Contains the row's key, as non-unique entries do.
        let name = [&b"name"[..], id].concat();
        let [rows, mails, names] = &self.0;
        let entries = [(rows, &id[..], true), (mails, mail, true), (names, &name, false)];
        work(entries.map(|(tree, key, unique)| RowEntry {
            tree,
            key,
            value: b"new",
            unique,
            absent: false,
        }))
    }
}

/// Reads of blocks, and all reads of the store file: also those of nodes and of run footers,
/// including filters.
fn reads(db: &Db) -> [u64; 2] {
    let stats = db.stats();
    ["device_reads", "store_reads"].map(|name| stats.get(name).unwrap())
}

fn reads_of(db: &Db, work: impl FnOnce()) -> [u64; 2] {
    let before = reads(db);
    work();
    let after = reads(db);
    [0, 1].map(|which| after[which] - before[which])
}

/// Rule: I48.
#[test]
fn absent_keys_are_detected_without_a_read() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
        Db::open(dir.path().join("store"), options).unwrap()
    };
    let (db, mut dice) = (open(), Dice::new(3));
    for (name, unique) in [("rows", true), ("mails", true), ("names", false)] {
        db.create_tree(name, TreeOptions::new().unique(unique)).unwrap();
    }
    let trees = Trees::open(&db);
    let (mut batch, mut value, mut there) = (Batch::new(), [0; 160], Vec::new());
    for row in 0..ROWS {
        for tree in &trees.0 {
            value
                .chunks_exact_mut(8)
                .for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
            let key = key(&mut dice);
            batch.put(tree, &key, &value).unwrap();
            if row % 100 == 0 && tree.name() == "mails" {
                there.push(key);
            }
        }
        if row % 1000 == 999 {
            db.commit(&mut batch).unwrap();
        }
    }
    // Runs in buffers would be checked in addition to leaves, each by its own filter.
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    db.close().unwrap();
    drop((trees, db));

    let db = open();
    let trees = Trees::open(&db);
    // Rolled back while it is small: nothing is applied or spilled, which would cause other reads.
    let mut insert = |count: u64, above: bool| {
        let txn = db.begin(TxnOptions::default()).unwrap();
        for _ in 0..count {
            let row = [0, 1].map(|_| absent_key(&mut dice, above));
            assert_eq!(trees.insert(&txn, row), None);
        }
        txn.rollback();
    };
    // Ten bits a key: a hundredth says "perhaps". Twice that is seven standard deviations away.
    let perhaps = |asked: u64| UNIQUE * asked / 50;
    // A cold start: filters are read together with their runs, once.
    let cold = reads_of(&db, || insert(ASKED, false));
    println!("{ASKED} rows cold: reads of blocks, and of all: {cold:?}");
    assert!(cold[0] <= perhaps(ASKED), "{cold:?} reads");
    for above in [false, true] {
        let read = reads_of(&db, || insert(ASKED, above));
        println!("{ASKED} rows, above all that are there: {above}: {read:?}");
        let most = if above { 0 } else { perhaps(ASKED) };
        assert!(read[0] <= most && read[1] <= most, "{read:?} reads, above: {above}");
    }
    // Keys that the caller guarantees to be absent are not checked, wherever they are.
    let read = reads_of(&db, || {
        // Few enough that nothing is spilled.
        let txn = db.begin(TxnOptions::default()).unwrap();
        for _ in 0..ASKED / 3 {
            let row = [0, 1].map(|_| absent_key(&mut dice, false));
            trees.with_entries(row, |entries| {
                let vouched = entries.map(|entry| RowEntry { absent: entry.unique, ..entry });
                assert_eq!(txn.row_writer().insert(&vouched, RowLock::Exclusive).unwrap(), None);
                txn.row_writer().delete(&vouched.map(|entry| (entry.tree, entry.key))).unwrap();
            });
        }
        txn.rollback();
    });
    assert_eq!(read[0], 0, "{read:?}");
    // Existing keys cause reads, which shows that reads are counted.
    let txn = db.begin(TxnOptions::default()).unwrap();
    let read = reads_of(&db, || {
        for mail in &there {
            let conflict = trees.insert(&txn, [absent_key(&mut dice, false), *mail]);
            assert_eq!(conflict.map(|conflict| conflict.index), Some(1));
        }
    });
    assert!(read[0] > there.len() as u64 / 4, "the trees are larger than memory: {read:?}");
}
