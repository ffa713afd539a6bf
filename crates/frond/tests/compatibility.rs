//! Stores written by earlier code stay readable and writable (docs/format.md).
//!
//! `fixtures/store-1` was written when all blocks were row blocks: `frond load STORE people FILE
//! --key id:int --index city`, 2000 rows, closed. Its trees have layouts, so new runs are columnar.

mod common;
#[path = "common/sizes.rs"]
mod sizes;

use std::{collections::BTreeMap, fs, path::Path};

use common::options;
use frond::{
    Batch, Db, Result, SizeClass, Tree, TreeOptions,
    backup::StoreId,
    check::{self, CheckMode},
    internals::{
        io::{MemoryVfs, OpenMode, Vfs},
        page::{
            FEATURE_COLUMNAR_RUNS, FEATURE_DICTIONARIES, FEATURE_PAGED_DIRECTORY,
            FEATURE_ROW_COUNTS, FEATURE_SUMS, FEATURE_TEMPLATES, FEATURE_TRANSPOSED_BLOCKS,
            StoreFile,
        },
    },
    layout::{Hint, Layout, Part},
};
use frond_testkit::disk::SimVfs;
use xxhash_rust::xxh3::Xxh3;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

const FILES: [(&str, &[u8]); 3] = [
    ("store.frond", include_bytes!("fixtures/store-1.frond.zst")),
    ("log-0000000001.frond", include_bytes!("fixtures/store-1.log-0000000001.frond.zst")),
    ("log-0000000002.frond", include_bytes!("fixtures/store-1.log-0000000002.frond.zst")),
];
/// A hash of all keys and values of each tree, as read by the code that wrote them.
const CONTENT: [(&str, u64); 2] =
    [("people", 2812950322419691791), ("people.by_city", 3774376655703819788)];

fn unpack(dir: &Path) {
    for (name, packed) in FILES {
        let bytes = zstd::decode_all(packed).expect("a fixture is whole");
        fs::write(dir.join(name), bytes).expect("there is room");
    }
}

fn rows(tree: &Tree) -> Result<Rows> {
    let (mut rows, mut cursor) = (Rows::new(), tree.scan(..)?);
    while let Some((key, value)) = cursor.next()? {
        rows.insert(key.to_vec(), value.to_vec());
    }
    Ok(rows)
}

fn hash(rows: &Rows) -> u64 {
    let mut hash = Xxh3::new();
    for bytes in rows.iter().flat_map(|(key, value)| [key, value]) {
        hash.update(&(bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    hash.digest()
}

#[test]
fn a_store_of_row_blocks_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    unpack(dir.path());
    let db = Db::open(dir.path(), options()).unwrap();
    let mut model = BTreeMap::new();
    for (name, written) in CONTENT {
        let tree = db.open_tree(name).unwrap();
        let rows = rows(&tree).unwrap();
        assert_eq!((rows.len(), hash(&rows)), (2000, written), "{name}");
        for (key, value) in &rows {
            assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
        }
        let columns = db.open_tree(name).unwrap().column_sizes(1).unwrap();
        assert!(columns.row_blocks.bytes > 0 && columns.columns.is_empty(), "{name}: {columns:?}");
        // The raw length of rows was not recorded, so their encoded length is reported instead.
        let (sizes, _) = sizes::expect(&db, name);
        assert_eq!((sizes.leaf_rows, sizes.raw_bytes), (2000, sizes.encoded_bytes), "{name}");
        model.insert(name, rows);
    }
    // New leaves are columnar, next to old ones.
    for (name, rows) in &mut model {
        let tree = db.open_tree(name).unwrap();
        let mut batch = Batch::new();
        for key in rows.keys().step_by(97).cloned().collect::<Vec<_>>() {
            batch.delete(&tree, &key).unwrap();
            rows.remove(&key);
        }
        for (key, value) in rows.iter_mut().skip(5).step_by(61) {
            value.push(b'!');
            batch.put(&tree, key, value).unwrap();
        }
        db.commit(&mut batch).unwrap();
    }
    db.checkpoint().unwrap();
    for (name, rows) in &model {
        let tree = db.open_tree(name).unwrap();
        assert_eq!(&self::rows(&tree).unwrap(), rows, "{name}");
        assert!(
            !db.open_tree(name).unwrap().column_sizes(1).unwrap().columns.is_empty(),
            "{name}: nothing is columnar"
        );
        let (sizes, _) = sizes::expect(&db, name);
        assert!(sizes.raw_bytes > sizes.encoded_bytes, "{name}: {sizes:?}");
    }
    db.close().unwrap();
    let report = check::store(dir.path(), CheckMode::Full).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    let db = Db::open(dir.path(), options()).unwrap();
    for (name, rows) in &model {
        assert_eq!(&self::rows(&db.open_tree(name).unwrap()).unwrap(), rows, "{name}");
        sizes::expect(&db, name);
        sizes::rewrite(&db, name);
        let (sizes, row_bytes) = sizes::expect(&db, name);
        let of_rows = rows.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum::<u64>();
        assert_eq!(sizes.leaf_rows, rows.len() as u64, "{name}");
        assert_eq!([sizes.raw_bytes; 2], [row_bytes, of_rows], "{name}");
    }
    db.close().unwrap();
    // Code that knows only row blocks is refused by the superblock, not by a page (Promise: P22).
    let store = fs::read(dir.path().join("store.frond")).unwrap();
    assert_eq!(features(&store), [1, 1]);
    // It cannot read a root directory of page tables either.
    assert_eq!(all_features(&store).map(|bits| bits & FEATURE_PAGED_DIRECTORY), [32, 32]);
}

/// The features that readers of both slots must know.
fn all_features(store: &[u8]) -> [u64; 2] {
    let slots = [16, (64 << 10) + 16];
    slots.map(|at| u64::from_le_bytes(store[at..at + 8].try_into().unwrap()))
}

/// The features without those that every written store has: row counts, sums of trees, and, from
/// its first checkpoint on, a root directory in pages.
fn features(store: &[u8]) -> [u64; 2] {
    let features = all_features(store);
    // Code that does not know sums refuses the store and names the feature (Promise: P22).
    let always = FEATURE_ROW_COUNTS | FEATURE_SUMS;
    assert!(features.iter().all(|features| features & always == always), "{features:?}");
    features
        .map(|features| features & !(FEATURE_ROW_COUNTS | FEATURE_SUMS | FEATURE_PAGED_DIRECTORY))
}

/// Promise: P22.
#[test]
fn a_load_adopted_by_recovery_sets_its_feature_bits() {
    let layout = || Some(Layout::new(vec![Part::Fixed(4, Hint::Integer)]));
    let (default, small) = (SizeClass::Default, SizeClass::Small);
    for (layout, size_class, feature) in
        // If a run was not read, it is unknown whether its strings have templates or an alphabet,
        // or its blocks are byte-shuffled or compressed with a dictionary.
        [
            (None, default, 4),
            (None, small, 12),
            (layout(), default, 131),
            (layout(), small, 131),
        ]
    {
        let vfs = SimVfs::new();
        let open = |vfs: &SimVfs, seed| Db::open("/store", options().env(vfs.env(seed)));
        let db = open(&vfs, 1).unwrap();
        let made = TreeOptions::new().key_layout(layout).size_class(size_class);
        let mut load = db.bulk_load("t", made).unwrap();
        for row in 0..500u32 {
            load.put(&row.to_be_bytes(), b"value").unwrap();
        }
        drop(load.finish().unwrap());
        // The process dies before a checkpoint adopts the tree.
        let disk = vfs.disk();
        vfs.halt();
        drop(db);
        let vfs = SimVfs::start(disk);
        let store = |vfs: &SimVfs| vfs.content(Path::new("/store/store.frond")).unwrap().to_vec();
        assert_eq!(features(&store(&vfs)), [0, 0], "a checkpoint came too early");
        let db = open(&vfs, 2).unwrap();
        assert_eq!(rows(&db.open_tree("t").unwrap()).unwrap().len(), 500);
        db.close().unwrap();
        assert_eq!(features(&store(&vfs)), [feature; 2]);
    }
}

/// Promise: P22. The process that loaded a tree knows the features of its leaves.
#[test]
fn a_load_sets_only_the_feature_bits_its_leaves_need() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), options()).unwrap();
    let mut made = TreeOptions::default();
    let features = || {
        db.checkpoint().unwrap();
        db.checkpoint().unwrap();
        features(&fs::read(dir.path().join("store.frond")).unwrap())
    };
    for (name, is_columnar, required) in [
        ("opaque", false, 0),
        ("typed", true, FEATURE_COLUMNAR_RUNS),
        ("again", false, FEATURE_COLUMNAR_RUNS),
    ] {
        made.key_layout = is_columnar.then(|| Layout::new(vec![Part::Fixed(4, Hint::Integer)]));
        let mut load = db.bulk_load(name, made.clone()).unwrap();
        for row in 0..500u32 {
            // Keys of two lengths, unless the run is columnar.
            let end = if is_columnar { 0 } else { row as usize % 2 };
            load.put(&[&row.to_be_bytes()[..], &[7][..end]].concat(), b"value").unwrap();
        }
        load.finish().unwrap();
        assert!(features().contains(&required), "{name}: {:?}", features());
        assert!(features().iter().all(|bits| bits & !required == 0), "{name}: {:?}", features());
    }
    db.close().unwrap();
}

/// Promise: P22. Knowing one of two features does not imply the other.
#[test]
fn features_are_required_independently() {
    let mode = OpenMode { write: true, create_new: true, direct: true };
    let file = MemoryVfs::new().open(Path::new("s"), mode).unwrap();
    let file = StoreFile::new(file, "s", StoreId([7; 16]));
    let templates = [FEATURE_COLUMNAR_RUNS, FEATURE_TEMPLATES];
    let opaque = [FEATURE_TRANSPOSED_BLOCKS, FEATURE_DICTIONARIES];
    assert_eq!((templates, opaque), ([1, 2], [4, 8]), "they are on disk");
    file.require(FEATURE_COLUMNAR_RUNS);
    file.require(FEATURE_COLUMNAR_RUNS | FEATURE_TEMPLATES);
    assert_eq!(file.features(), FEATURE_COLUMNAR_RUNS | FEATURE_TEMPLATES);
}
