//! Estimates of how many different values the first parts of keys have, against exact counts, on
//! even and uneven data (Rule: I51).

use std::collections::BTreeSet;

use frond::{
    Batch, Db, Durability, Options, Tree, TreeOptions,
    layout::{End, Hint, Layout, Part},
};
use frond_testkit::{Dice, effort};

/// The factors that the documentation of `Tree::distinct_prefixes` promises, for even and for
/// uneven data.
const EVEN: f64 = 2.0;
const UNEVEN: f64 = 3.0;

fn store() -> (Db, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().cache_size(64 << 20).durability(Durability::Lazy);
    (Db::open(dir.path().join("store"), options).unwrap(), dir)
}

fn tree(db: &Db, name: &str, parts: Vec<Part>) -> Tree {
    let options = TreeOptions::new().key_layout(Layout::new(parts));
    db.create_tree(name, options).unwrap()
}

const NUMBER: Part = Part::Fixed(4, Hint::None);

/// Fills a tree with keys of numbers; returns how many values each prefix has.
fn fill<const N: usize>(db: &Db, tree: &Tree, keys: impl Iterator<Item = [u32; N]>) -> Vec<u64> {
    let mut values: Vec<BTreeSet<Vec<u32>>> = vec![BTreeSet::new(); N];
    let mut batch = Batch::new();
    for key in keys {
        for (part, values) in values.iter_mut().enumerate() {
            values.insert(key[..=part].to_vec());
        }
        let bytes: Vec<u8> = key.iter().flat_map(|number| number.to_be_bytes()).collect();
        batch.put(tree, &bytes, b"some value").unwrap();
        if batch.len() == 10_000 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.commit(&mut batch).unwrap();
    values.iter().map(|values| values.len() as u64).collect()
}

fn must_be_within(factor: f64, tree: &Tree, exact: &[u64], what: &str) {
    let found = tree.distinct_prefixes().unwrap();
    assert_eq!(found.len(), exact.len(), "{what}");
    for (found, exact) in found.iter().zip(exact) {
        let (found, exact) = (*found as f64, *exact as f64);
        let is_near = found >= exact / factor && found <= exact * factor;
        // Small numbers are counted exactly.
        let is_right = if exact <= 64.0 { found == exact } else { is_near };
        assert!(is_right, "{what}: {found} of {exact}, within {factor}");
    }
    assert!(found.is_sorted(), "{what}: {found:?}");
}

#[test]
fn distinct_estimates_are_accurate_for_even_data() {
    let rows = 60_000;
    for is_flushed in [false, true] {
        let (db, _dir) = store();
        for values in [1, 7, 64, 65, 200, 1000, 6000, 40_000] {
            let name = format!("{values} values");
            let tree = tree(&db, &name, vec![NUMBER, NUMBER, NUMBER]);
            // Values far apart, near each other, and in between.
            let spread = u32::MAX / (values + 1);
            let keys = (0..rows).map(|row| [(row % values) * spread, row % (values * 3), row]);
            let exact = fill(&db, &tree, keys);
            if is_flushed {
                db.checkpoint().unwrap();
            }
            must_be_within(EVEN, &tree, &exact, &format!("{name} {is_flushed}"));
        }
        db.close().unwrap();
    }
}

#[test]
fn distinct_estimates_are_accurate_for_uneven_data() {
    let rows = 60_000u32;
    for is_flushed in [false, true] {
        let (db, _dir) = store();
        let mut dice = Dice::new(7);
        let mut cases: Vec<(&str, Vec<[u32; 2]>)> = vec![
            // Half of all rows have one value, the others one value each.
            ("half", (0..rows).map(|row| [if row % 2 == 0 { 5 } else { row }, row]).collect()),
            // A tenth of the rows have values of their own.
            ("tenth", (0..rows).map(|row| [if row % 10 != 0 { 500 } else { row }, row]).collect()),
            // Groups whose sizes differ by powers of two.
            (
                "powers",
                (1..rows)
                    .map(|row| [row.leading_zeros() * 1000 + row % (row.ilog2() * 40 + 1), row])
                    .collect(),
            ),
        ];
        // The n-th value has an n-th as many rows as the first.
        let zipf =
            |dice: &mut Dice| (dice.below(1_000_000) as f64 / 1e6 * 10_000f64.ln()).exp() as u32;
        cases.push(("zipf", (0..rows).map(|row| [zipf(&mut dice), row]).collect()));
        for (name, keys) in cases {
            let tree = tree(&db, name, vec![NUMBER, NUMBER]);
            let exact = fill(&db, &tree, keys.into_iter());
            if is_flushed {
                db.checkpoint().unwrap();
            }
            must_be_within(UNEVEN, &tree, &exact, &format!("{name} {is_flushed}"));
        }
        db.close().unwrap();
    }
}

/// Values that together have few of the rows, next to others that have nearly all.
#[test]
fn distinct_estimates_count_values_between_large_groups() {
    let scattered = |row: u32| row.wrapping_mul(2_654_435_761);
    let few = 60_000u32;
    // More rows than are counted one by one.
    let many = 250_000;
    let last = |row: u32| if row.is_multiple_of(300) { scattered(row) } else { u32::MAX };
    let middle = |row: u32| if row.is_multiple_of(300) { row } else { 20_000 };
    let between = |row: u32| {
        if row.is_multiple_of(200) { scattered(row) } else { row % 50 * (u32::MAX / 50) }
    };
    let sampled = |row: u32| if row.is_multiple_of(10) { scattered(row) } else { 1 << 31 };
    let uneven =
        |row: u32| if row.is_multiple_of(9) { scattered(row / 90) } else { (row % 3) << 30 };
    let cases: [(&str, u32, &dyn Fn(u32) -> u32); 5] = [
        ("the last value", few, &last),
        ("one in the middle", few, &middle),
        ("fifty", few, &between),
        ("a tenth next to one", many, &sampled),
        ("a ninth next to three, ten rows each", many, &uneven),
    ];
    for is_flushed in [false, true] {
        let (db, _dir) = store();
        for (name, rows, value) in cases {
            let tree = tree(&db, name, vec![NUMBER, NUMBER]);
            let exact = fill(&db, &tree, (0..rows).map(|row| [value(row), row]));
            if is_flushed {
                db.checkpoint().unwrap();
            }
            // What is scanned is counted; what is sampled depends on estimates of the number of
            // rows, and these on when the last checkpoint was.
            let factor = if rows == few { 1.01 } else { UNEVEN };
            must_be_within(factor, &tree, &exact, &format!("{name} {is_flushed}"));
        }
        db.close().unwrap();
    }
}

#[test]
fn small_trees_are_counted_exactly() {
    let (db, _dir) = store();
    let two = vec![Part::Var(End::Escaped), Part::Var(End::Rest)];
    let named = tree(&db, "named", two);
    assert_eq!(named.distinct_prefixes().unwrap(), [1, 1], "never 0");
    let key = |name: &[u8], rest: &[u8]| [name, b"\x00\x01", rest].concat();
    for row in 0..300u32 {
        let name = format!("name {}", row % 40);
        named.put(&key(name.as_bytes(), &row.to_be_bytes()), b"").unwrap();
    }
    assert_eq!(named.distinct_prefixes().unwrap(), [40, 300]);
    // A key that does not fit the layout has one part.
    named.put(b"no end", b"").unwrap();
    assert_eq!(named.distinct_prefixes().unwrap(), [41, 301]);
    for row in 0..300u32 {
        let name = format!("name {}", row % 40);
        named.delete(&key(name.as_bytes(), &row.to_be_bytes())).unwrap();
    }
    named.delete(b"no end").unwrap();
    assert_eq!(named.distinct_prefixes().unwrap(), [1, 1]);
    // Keys without a layout have one part.
    let plain = db.create_tree("plain", TreeOptions::default()).unwrap();
    assert_eq!(plain.distinct_prefixes().unwrap(), [1]);
    for row in 0..100u32 {
        plain.put(&row.to_be_bytes(), b"").unwrap();
    }
    assert_eq!(plain.distinct_prefixes().unwrap(), [100]);
    db.drop_tree("plain").unwrap();
    assert!(plain.distinct_prefixes().is_err());
    db.close().unwrap();
}

/// The number of values of each prefix, from the definition: the shortest start of a key that has
/// this many parts, or else the whole key.
fn counted(parts: &[Part], keys: &BTreeSet<Vec<u8>>) -> Vec<u64> {
    let values = |part: usize| {
        let layout = Layout::new(parts[..=part].to_vec());
        let is_last = part + 1 == parts.len();
        let prefix = |key: &Vec<u8>| {
            let mut ends = (0..=key.len()).filter(|_| !is_last);
            let end = ends.find(|end| layout.split(&key[..*end], &mut Vec::new()));
            key[..end.unwrap_or(key.len())].to_vec()
        };
        keys.iter().map(prefix).collect::<BTreeSet<_>>().len() as u64
    };
    (0..parts.len()).map(values).collect()
}

fn loaded(db: &Db, name: &str, parts: &[Part], keys: &BTreeSet<Vec<u8>>) -> Tree {
    let options = TreeOptions::new().key_layout(Layout::new(parts.to_vec()));
    let mut load = db.bulk_load(name, options).unwrap();
    keys.iter().for_each(|key| load.put(key, b"").unwrap());
    load.finish().unwrap().tree
}

fn joined(numbers: [u32; 3], end: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|n| [format!("{n:06}").as_bytes(), end].concat()).collect()
}

/// A key that ends within its first part, or is empty, is the start of other keys without having a
/// value in common with them.
#[test]
fn keys_that_do_not_fit_their_layout_are_values_of_their_own() {
    let (db, _dir) = store();
    let layouts = [
        ("escaped", Part::Var(End::Escaped), &[0, 1][..]),
        ("descending", Part::Var(End::EscapedDescending), &[0xff, 0xfe]),
        ("fixed", Part::Fixed(8, Hint::None), &[0, 1]),
    ];
    let misfits: [(&str, Vec<Vec<u8>>); 6] = [
        ("none", vec![]),
        ("the empty key", vec![vec![]]),
        ("starts of others", (0..200).map(|n| format!("{n:06}").into_bytes()).collect()),
        ("ff", vec![vec![0xff], vec![0xff; 3], vec![0xff; 40]]),
        ("before and after", vec![vec![], b"000100".to_vec(), b"zz".to_vec()]),
        ("left over", (0..50).map(|n| [&joined([n, 7, 7], &[0, 1])[..], b"x"].concat()).collect()),
    ];
    for (name, part, end) in layouts {
        for (what, misfits) in &misfits {
            let mut keys: BTreeSet<Vec<u8>> =
                (0..20_000).map(|n| joined([n / 100, n % 100, n], end)).collect();
            keys.extend(misfits.iter().cloned());
            let what = format!("{name}, {what}");
            let tree = loaded(&db, &what, &[part; 3], &keys);
            must_be_within(EVEN, &tree, &counted(&[part; 3], &keys), &what);
        }
    }
    db.close().unwrap();
}

/// Keys of any bytes, of which few fit.
#[test]
fn distinct_estimates_hold_for_mixtures_of_keys_that_fit_and_do_not() {
    let (db, _dir) = store();
    for seed in effort::seeds(12) {
        let mut dice = Dice::new(seed);
        let part = match dice.below(3) {
            0 => Part::Var(End::Escaped),
            1 => Part::Var(End::EscapedDescending),
            _ => Part::Fixed(1 + dice.below(4) as u16, Hint::None),
        };
        let bytes = [0, 1, 0xfe, 0xff];
        let (groups, misfit_percent) = (1 + dice.below(3000) as u32, dice.below(101));
        let mut keys = BTreeSet::from([vec![]]);
        while keys.len() < 12_000 {
            let key = if dice.below(100) < misfit_percent {
                (0..dice.below(24)).map(|_| bytes[dice.below(4) as usize]).collect()
            } else {
                let n = dice.below(1 << 20) as u32;
                let mut key = joined([n % groups, n % 100, n], &[0, 1, 0xff, 0xfe]);
                key.truncate(24 + dice.below(7) as usize);
                key
            };
            keys.insert(key);
        }
        let what = format!("seed {seed}, {part:?}");
        let tree = loaded(&db, &what, &[part; 3], &keys);
        must_be_within(UNEVEN, &tree, &counted(&[part; 3], &keys), &what);
    }
    db.close().unwrap();
}

/// The number of rows read has a limit, however large the tree is.
#[test]
fn a_distinct_estimate_reads_a_bounded_number_of_rows() {
    let (db, dir) = store();
    let tree = tree(&db, "t", vec![NUMBER, NUMBER]);
    let exact = fill(&db, &tree, (0..400_000u32).map(|row| [row / 40, row]));
    db.close().unwrap();
    let options = Options::new().cache_size(64 << 20).create(false);
    let db = Db::open(dir.path().join("store"), options).unwrap();
    let tree = db.open_tree("t").unwrap();
    must_be_within(EVEN, &tree, &exact, "read anew");
    let blocks = db.stats().device_reads;
    assert!(blocks < 1000, "{blocks}");
    db.close().unwrap();
}
