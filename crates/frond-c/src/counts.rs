//! Numbers of rows, estimates, and counters of trees.

use frond::{RowCount, stats::RangeEstimate};

use crate::{bytes::*, error::*, store::frond_tree, txn::frond_txn};

/// Returns a row count, and whether the rows were counted.
pub(crate) fn return_count(count: RowCount, rows: &mut u64, exact: Option<&mut bool>) -> Done {
    *rows = count.rows;
    set(exact, count.exact)
}

/// Returns an estimate: rows, and their bytes.
pub(crate) fn return_estimate(
    estimate: RangeEstimate,
    rows: &mut u64,
    data_bytes: Option<&mut u64>,
) -> Done {
    *rows = estimate.rows;
    set(data_bytes, estimate.bytes)
}

/// Returns the number of rows of a tree. `exact`, which may be null, receives whether they were
/// counted. If not, the number is an estimate, because something was put or deleted without knowing
/// whether it existed.
#[api]
fn frond_tree_row_count(tree: &frond_tree, rows: &mut u64, exact: Option<&mut bool>) -> Done {
    return_count(tree.0.row_count()?, rows, exact)
}

/// Estimates how many rows there are from `from` up to, but not including, `to`, and how many bytes
/// they occupy. A null bound means from the first key, or to the last. `data_bytes` may be null.
/// Reads nothing from the file: for parts of the tree that were not read since the store was
/// opened, it uses the number of all rows. Returns 0 rows only if none is committed so far. A
/// transaction may have written rows, or may still see rows that were deleted since, so use
/// frond_txn_estimate within one.
#[api]
fn frond_tree_estimate(
    tree: &frond_tree,
    range: Keys,
    rows: &mut u64,
    data_bytes: Option<&mut u64>,
) -> Done {
    return_estimate(tree.0.estimate(range)?, rows, data_bytes)
}

/// Counts the rows from `from` up to, but not including, `to` that a plain scan of the transaction
/// would find. It walks over them within the store, at a tenth of the cost of a cursor. At
/// FROND_SERIALIZABLE it locks what it counts. A null bound means from the first key, or to the
/// last.
#[api]
fn frond_txn_count(txn: &frond_txn, tree: &frond_tree, range: Keys, rows: &mut u64) -> Done {
    set(rows, txn.txn.count(&tree.0, range)?)
}

/// Estimates like frond_tree_estimate, but includes what the transaction has written, and rows that
/// its reads still see although they were deleted since. Returns 0 rows only if neither a plain nor
/// a locking read of the transaction would find one.
#[api]
fn frond_txn_estimate(
    txn: &frond_txn,
    tree: &frond_tree,
    range: Keys,
    rows: &mut u64,
    data_bytes: Option<&mut u64>,
) -> Done {
    return_estimate(txn.txn.estimate(&tree.0, range)?, rows, data_bytes)
}

/// Reserves `count` numbers from one of the tree's counters, 0 to 3. The first of them is at least
/// `least`, and is returned in `first`. No number is returned twice, even if the transaction is
/// rolled back. After a restart, no number is returned that a commit may have used.
#[api]
fn frond_tree_reserve(
    tree: &frond_tree,
    counter: u32,
    least: u64,
    count: u64,
    first: &mut u64,
) -> Done {
    set(first, tree.0.reserve(counter as usize, least, count)?.start)
}

/// Returns the next number of a counter, without reserving it.
#[api]
fn frond_tree_next_number(tree: &frond_tree, counter: u32, next: &mut u64) -> Done {
    set(next, tree.0.next_number(counter as usize)?)
}

/// Estimates the number of distinct values of the first part of a tree's keys, of the first two
/// parts, and so on: one number for each part of the keys' layout, or one number if keys have no
/// layout. `counts` receives the first `counts_max` of them, and `count` how many there are; pass
/// null and 0 to ask only for that. No number is 0, even for an empty tree. Numbers up to 64, and
/// those of trees of a few thousand rows, are exact if nothing is written meanwhile; larger ones
/// are estimates. Reads some tens of thousands of rows, however many there are.
#[api]
fn frond_tree_distinct_prefixes(
    tree: &frond_tree,
    #[length(counts_max)] counts: &mut [Place<u64>],
    count: &mut usize,
) -> Done {
    let found = tree.0.distinct_prefixes()?;
    *count = found.len();
    counts.iter_mut().zip(found).for_each(|(place, found)| _ = place.write(found));
    Ok(())
}
