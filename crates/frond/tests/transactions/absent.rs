//! Checks that a key is not there, of keys that are not there: they cost no read, however much larger than memory the
//! tree is.

use frond_testkit::Dice;

use super::*;

const ROWS: usize = 60_000;
const ASKED: u64 = 3000;

fn device_reads(db: &Db) -> u64 {
    db.stats().get("device_reads").unwrap()
}

fn key(dice: &mut Dice) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&dice.bits().to_be_bytes());
    key
}

#[test]
fn absent_keys_are_absent_without_a_read() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options::new().cache_size(8 << 20).durability(Durability::Lazy);
        Db::open(dir.path().join("store"), options).unwrap()
    };
    let (db, mut dice) = (open(), Dice::new(3));
    let rows = TreeOptions { unique: true, ..TreeOptions::default() };
    let tree = db.create_tree("rows", rows).unwrap();
    let (mut batch, mut value, mut there) = (Batch::new(), [0; 160], Vec::new());
    for row in 0..ROWS {
        value.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&dice.bits().to_be_bytes()));
        let key = key(&mut dice);
        batch.put(&tree, &key, &value).unwrap();
        if row % 100 == 0 {
            there.push(key);
        }
        if row % 1000 == 999 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.close().unwrap();
    drop((tree, db));

    let db = open();
    let tree = db.open_tree("rows").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    let mut insert = |count: u64, above: bool| {
        for _ in 0..count {
            let mut key = key(&mut dice);
            // Ends as no row does; above all of them if it is to be.
            key[11] = 1;
            if above {
                key[..8].fill(0xff);
                key[8..11].copy_from_slice(&(dice.bits() as u32).to_be_bytes()[..3]);
            }
            match txn.insert(&tree, &key, b"new") {
                Ok(()) | Err(Error::RowExists { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    };
    // Filters are read with the runs that have them, once.
    insert(1000, false);
    for above in [false, true] {
        let before = device_reads(&db);
        insert(ASKED, above);
        let reads = device_reads(&db) - before;
        println!("{reads} reads for {ASKED} absent keys, above all that are there: {above}");
        // Ten bits a key: a hundredth says "perhaps".
        assert!(reads <= if above { 0 } else { ASKED / 30 }, "{reads} reads of blocks");
    }
    // What is there is read, so reads are counted.
    let before = device_reads(&db);
    for key in &there {
        assert!(matches!(txn.insert(&tree, key, b"new"), Err(Error::RowExists { .. })));
    }
    assert!(device_reads(&db) - before > there.len() as u64 / 4, "the tree is larger than memory");
}
