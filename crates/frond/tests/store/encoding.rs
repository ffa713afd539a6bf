//! Counters of encoding and decoding, compared with what is in the store.

use frond::{
    Batch, Db, Options, Tree, TreeOptions,
    check::{CheckMode, TreeColumns},
    layout::{End, Hint, Layout, Part},
    stats::{EncodeStats, TreeStats},
};

const ROWS: u64 = 30_000;

fn open(dir: &std::path::Path) -> Db {
    let durability = frond::Durability::Lazy;
    let options = Options::new().cache_size(64 << 20).durability(durability);
    Db::open(dir.join("store"), options).unwrap()
}

fn random(seed: u64) -> u64 {
    let mixed = (seed ^ seed >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ mixed >> 32
}

/// A sentence of some hundred letters: a codec compresses it to a third, words and symbols to
/// hardly less than half.
fn text(row: u64) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "leaf ", "of ", "the ", "fern ", "grows ", "towards ", "light ", "where ", "water ",
        "stands ", "between ", "stones ", "and ", "anyone ", "walks ", "there ",
    ];
    let word = |at| WORDS[(random(row * 31 + at) % 16) as usize];
    (0..20).map(word).collect::<String>().into_bytes()
}

/// Bytes that nothing compresses.
fn noise(row: u64) -> Vec<u8> {
    (0..12).flat_map(|at| random(random(row) + at).to_le_bytes()).collect()
}

/// Numbers as keys, and values of one string.
fn columnar() -> TreeOptions {
    TreeOptions::new()
        .key_layout(Layout::new(vec![Part::Fixed(8, Hint::Integer)]))
        .value_layout(Layout::new(vec![Part::Var(End::Rest)]))
}

fn put(db: &Db, tree: &Tree, rows: impl Iterator<Item = u64>, value: impl Fn(u64) -> Vec<u8>) {
    let mut batch = Batch::new();
    for row in rows {
        batch.put(tree, &row.to_be_bytes(), &value(row)).unwrap();
        if batch.len() == 1000 {
            db.commit(&mut batch).unwrap();
        }
    }
    db.commit(&mut batch).unwrap();
}

fn load(db: &Db, name: &str, options: TreeOptions, value: impl Fn(u64) -> Vec<u8>) -> Tree {
    let mut load = db.bulk_load(name, options).unwrap();
    for row in 0..ROWS {
        load.put(&row.to_be_bytes(), &value(row)).unwrap();
    }
    load.finish().unwrap().tree
}

fn stats(db: &Db, tree: &str) -> TreeStats {
    db.tree_stats().into_iter().find(|stats| stats.tree == tree).unwrap()
}

fn leaves(db: &Db, tree: &str) -> EncodeStats {
    stats(db, tree).leaves
}

/// The number of this tree's column blocks with an encoding.
fn columns_as(columns: &TreeColumns, encoding: impl Fn(&str) -> bool) -> u64 {
    let uses = columns.columns.values().flat_map(|column| &column.encodings);
    uses.filter(|(name, _)| encoding(name)).map(|(_, blocks)| blocks).sum()
}

/// Each row of a load is encoded once: the counters equal what the leaves hold, per tree and in
/// total.
#[test]
fn encoding_counters_of_a_load_match_its_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    load(&db, "columnar", columnar(), text);
    load(&db, "rows", TreeOptions::default(), text);
    let (mut bytes, mut nanos, mut blocks) = (0, 0, 0);
    for tree in ["columnar", "rows"] {
        let (encoded, columns) =
            (leaves(&db, tree), db.open_tree(tree).unwrap().column_sizes(1).unwrap());
        let shape = db.open_tree(tree).unwrap().shape().unwrap().levels.pop().unwrap();
        assert_eq!((encoded.rows, shape.entries), (ROWS, ROWS), "{tree}");
        assert_eq!((encoded.bytes, encoded.carried_bytes), (shape.bytes, 0), "{tree}");
        assert_eq!((encoded.runs, shape.nodes), (columns.leaves, columns.leaves), "{tree}");
        assert_eq!(encoded.from_bytes, columns.row_bytes, "{tree}");
        assert!(encoded.nanos > 1000 * encoded.blocks, "{encoded:?}");
        assert!(encoded.chunks_coded_bytes < encoded.chunks_coded_from_bytes / 2, "{encoded:?}");
        assert!(encoded.chunks_coded_bytes <= encoded.bytes, "{encoded:?}");
        (bytes, nanos) = (bytes + encoded.bytes, nanos + encoded.nanos);
        blocks += encoded.blocks;
    }
    let (columnar, rows) = (leaves(&db, "columnar"), leaves(&db, "rows"));
    let columns = db.open_tree("columnar").unwrap().column_sizes(1).unwrap();
    assert_eq!(columnar.chunks_coded, columns_as(&columns, |name| name.ends_with("zstd")));
    assert_eq!((rows.chunks_coded, rows.chunks_raw), (rows.blocks, 0));
    assert!(columnar.trainings > 0 && columnar.training_nanos > 0, "{columnar:?}");
    assert!(columnar.training_nanos > columnar.trainings * 1000, "{columnar:?}");
    // Besides the leaves of these two trees only the catalog's own are counted; empty buffers add
    // nothing.
    let own = leaves(&db, "");
    let all = db.stats();
    assert_eq!(all.get("leaf_encoded_bytes"), Some(bytes + own.bytes));
    assert_eq!(all.get("leaf_blocks_encoded"), Some(blocks + own.blocks));
    assert_eq!(all.get("leaf_encode_nanos"), Some(nanos + own.nanos));
}

/// Random changes: leaves are rewritten, with unaffected blocks carried over, and runs wait in
/// nodes. Work on a dropped tree stays counted in the totals.
#[test]
fn merges_are_counted_by_tree_and_class_of_run() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = load(&db, "t", columnar(), text);
    let loaded = leaves(&db, "t");
    // Enough for several leaves, in one corner of the tree.
    put(&db, &tree, 0..200, |row| text(row + 7));
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    let stats = stats(&db, "t");
    assert!(stats.buffers.blocks > 0 && stats.buffers.rows >= 200, "{stats:?}");
    assert_eq!((stats.buffers.chunks_coded, stats.buffers.chunks_raw), (0, 0), "{stats:?}");
    let merged = stats.leaves.blocks - loaded.blocks;
    assert!(merged > 0 && stats.leaves.carried_blocks > 3 * merged, "{stats:?}");
    assert_eq!(Some(stats.leaves.carried_blocks), db.stats().get("leaf_blocks_carried"));
    let bytes = db.open_tree("t").unwrap().shape().unwrap().levels.pop().unwrap().bytes;
    let newer = stats.leaves.bytes + stats.leaves.carried_bytes - loaded.bytes;
    assert!(newer < bytes, "not all leaves were met: {newer} of {bytes}");
    assert!(stats.leaves.runs - loaded.runs == 1, "{stats:?}");
    db.drop_tree("t").unwrap();
    assert!(db.tree_stats().iter().all(|stats| stats.tree != "t"));
    assert!(db.stats().leaf_encoded_bytes >= stats.leaves.bytes);
    assert!(db.check(CheckMode::Full).unwrap().is_clean());
}

/// Data that does not compress is stored raw, and that is remembered: the codec is tried again only
/// now and then, and is used when compressible data comes.
#[test]
fn a_codec_that_saves_nothing_is_rarely_tried() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for (name, options) in [("columnar", columnar()), ("rows", TreeOptions::default())] {
        let tree = load(&db, name, options, noise);
        let encoded = leaves(&db, name);
        assert!(encoded.blocks > 60 && encoded.bytes >= encoded.from_bytes * 9 / 10, "{encoded:?}");
        assert_eq!(encoded.chunks_coded, 0, "{encoded:?}");
        let most = 4 + encoded.blocks / 10;
        assert!((1..=most).contains(&encoded.chunks_raw), "{encoded:?}");
        // Text replaces all of it.
        put(&db, &tree, 0..ROWS, text);
        db.checkpoint().unwrap();
        while db.drain_step().unwrap() {}
        let after = leaves(&db, name);
        let (blocks, coded) = (after.blocks - encoded.blocks, after.chunks_coded);
        assert!(coded > blocks * 3 / 4, "{coded} of {blocks}: {after:?}");
    }
}

/// A read that needs a chunk decodes it once, and a read that finds the block decoded decodes
/// nothing.
#[test]
fn decoded_chunks_are_counted_for_their_tree() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    for (name, options) in [("columnar", columnar()), ("rows", TreeOptions::default())] {
        load(&db, name, options, text);
    }
    db.close().unwrap();
    let db = open(dir.path());
    for name in ["columnar", "rows"] {
        let tree = db.open_tree(name).unwrap();
        let others = db.stats().chunks_decoded;
        assert_eq!(stats(&db, name).decoded.chunks, 0, "{name}");
        let mut before = 0;
        // From disk, then from the cache, which has space for decoded blocks.
        for round in 0..2 {
            assert_eq!(tree.get(&5u64.to_be_bytes()).unwrap(), Some(text(5)));
            let decoded = stats(&db, name).decoded;
            let more = u64::from(round == 0);
            assert!(decoded.chunks >= before + more, "{name}, {round}: {decoded:?}");
            assert!(more > 0 || decoded.chunks == before, "{name}, {round}: {decoded:?}");
            assert!(decoded.nanos > 0 && decoded.bytes >= decoded.chunks * 1000, "{decoded:?}");
            before = decoded.chunks;
        }
        let mut rows = 0;
        let mut cursor = tree.scan(..).unwrap();
        while let Some((_, value)) = cursor.next().unwrap() {
            assert_eq!(value, text(rows));
            rows += 1;
        }
        let decoded = stats(&db, name).decoded;
        assert!(decoded.bytes >= ROWS * text(0).len() as u64 / 2, "{decoded:?}");
        assert_eq!(db.stats().get("chunks_decoded"), Some(others + decoded.chunks), "{name}");
    }
    // Numbers are stored without a codec.
    let numbers = columnar().value_layout(columnar().key_layout);
    let tree = load(&db, "numbers", numbers, |row| random(row).to_be_bytes().to_vec());
    assert_eq!(tree.get(&5u64.to_be_bytes()).unwrap(), Some(random(5).to_be_bytes().to_vec()));
    let all = stats(&db, "numbers");
    assert_eq!((all.leaves.chunks_coded, all.leaves.chunks_raw, all.decoded.chunks), (0, 0, 0));
}

/// Data that is overwritten again and again, and read each time, takes the cache memory of what is
/// live, decoded, not of everything that ever existed.
#[test]
fn blocks_of_dead_runs_leave_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let tree = load(&db, "columnar", columnar(), text);
    let read = |salt: u64| {
        let mut rows = 0;
        let mut cursor = tree.scan(..).unwrap();
        while let Some((_, value)) = cursor.next().unwrap() {
            assert_eq!(value, text(rows + salt));
            rows += 1;
        }
        assert_eq!(rows, ROWS);
        db.stats().cache_bytes
    };
    let once = read(0);
    assert!(once > ROWS * text(0).len() as u64 / 2, "{once}");
    let mut last = once;
    for round in 1..=4 {
        put(&db, &tree, 0..ROWS, |row| text(row + round));
        db.checkpoint().unwrap();
        while db.drain_step().unwrap() {}
        db.checkpoint().unwrap();
        last = read(round);
    }
    assert!(last < 2 * once, "{last} bytes after {once}");
}
