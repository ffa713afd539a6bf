//! Compares the sizes that a tree reports with those that a walk over its pages finds.

use frond::{Batch, Db, stats::TreeSizes};

/// Asserts that both are equal at a moment without changes; background work may continue. Returns
/// the sizes, and the uncompressed bytes of all rows in leaves.
pub fn expect(db: &Db, name: &str) -> (TreeSizes, u64) {
    let tree = db.open_tree(name).unwrap();
    let (sizes, shape, columns) = loop {
        let sizes = tree.sizes().unwrap();
        let (shape, columns) = (
            db.open_tree(name).unwrap().shape().unwrap(),
            db.open_tree(name).unwrap().column_sizes(1).unwrap(),
        );
        if tree.sizes().unwrap() == sizes {
            break (sizes, shape, columns);
        }
    };
    let leaves = shape.levels.last().cloned().unwrap_or_default();
    let above = shape.levels.iter().filter(|shape| shape.level > 0);
    assert_eq!(sizes.leaves, leaves.nodes - leaves.placeholder, "{name}: {sizes:?}");
    assert_eq!((sizes.leaf_rows, sizes.encoded_bytes), (leaves.entries, leaves.bytes), "{name}");
    assert_eq!(sizes.buffered_bytes, above.map(|shape| shape.bytes).sum::<u64>(), "{name}");
    assert_eq!(usize::from(sizes.depth), shape.levels.len(), "{name}");
    assert_eq!(sizes.disk_bytes - sizes.blob_bytes, columns.bytes, "{name}");
    (sizes, columns.row_bytes)
}

/// Puts each row again and waits until the leaves have them: then all leaves are written by this
/// version of Frond.
#[allow(dead_code, reason = "not every program that has this file needs it")]
pub fn rewrite(db: &Db, name: &str) {
    let tree = db.open_tree(name).unwrap();
    let (mut batch, mut cursor) = (Batch::new(), tree.scan(..).unwrap());
    while let Some((key, value)) = cursor.next().unwrap() {
        batch.put(&tree, key, value).unwrap();
    }
    drop(cursor);
    db.commit(&mut batch).unwrap();
    db.checkpoint().unwrap();
    while db.drain_step().unwrap() {}
    db.checkpoint().unwrap();
}
