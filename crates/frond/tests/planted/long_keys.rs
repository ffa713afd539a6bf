//! Scenarios of keys with so many FF bytes that the root directory keeps no bound for them.

use std::collections::BTreeMap;

use frond::{Db, Durability, Error, KEY_BYTES_MAX, check::CheckMode};
use frond_testkit::{DbEngine, Dice, disk::SimVfs};

/// A tree gets keys of FF bytes of all lengths, and shorter ones before them, between reopenings. A
/// root directory that does not store the greatest key must not be taken for one of a tree without
/// keys: a batch would be attached after its right edge, out of order. Promise: P1, P9. Rule: I1.
pub fn a_tree_with_an_unknown_greatest_key_keeps_its_order(seed: u64) {
    let vfs = SimVfs::new();
    let mut dice = Dice::new(seed);
    let mut rows: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    for round in 0..12_u32 {
        let DbEngine { tuning, .. } = DbEngine::tiny(Durability::Os);
        let options = frond::Options::new().cache_size(16 << 20).durability(Durability::Os);
        let db = Db::open("/store", options.tuning(tuning).env(vfs.env(seed))).unwrap();
        let tree = db.open_tree("t").or_else(|_| db.create_tree("t", Default::default())).unwrap();
        let length = *dice.pick(&[4096, 4097, 5000, KEY_BYTES_MAX]);
        for _ in 0..40 {
            let key = dice.below(1 << 30).to_be_bytes()[4..].to_vec();
            tree.put(&key, &round.to_be_bytes()).unwrap();
            rows.insert(key, round.to_be_bytes().to_vec());
        }
        if dice.chance(1, 2) {
            let key = vec![0xff; length];
            tree.put(&key, &round.to_be_bytes()).unwrap();
            rows.insert(key, round.to_be_bytes().to_vec());
        }
        db.checkpoint().unwrap();
        let report = db.check(CheckMode::Full).unwrap();
        assert!(report.is_clean(), "round {round}: {report}");
        let mut cursor = tree.scan(..).unwrap();
        for (key, value) in &rows {
            let found = cursor.next().unwrap();
            assert!(found == Some((key, value)), "round {round}: a row is missing or misplaced");
        }
        assert!(cursor.next().unwrap().is_none(), "round {round}: a row too many");
        drop(cursor);
        let closed: Result<(), Error> = db.close();
        closed.unwrap();
    }
}
