//! Numbers of rows, estimates, and counters of trees.

use crate::{
    bytes::{given, given_mut},
    cursor::range,
    error::{call, frond_error, misuse},
    store::frond_tree,
    txn::frond_txn,
};

/// Returns the number of rows of a tree. `exact`, which may be null, tells whether they were
/// counted. If not, the number is an estimate, since something was put or deleted without knowing
/// whether it existed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_row_count(
    tree: *const frond_tree,
    rows: *mut u64,
    exact: *mut bool,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`, here and below.
    unsafe {
        call(error, || {
            let count = given(tree, "the tree")?.tree.row_count()?;
            *given_mut(rows, "the place for the number")? = count.rows;
            exact.as_mut().into_iter().for_each(|exact| *exact = count.exact);
            Ok(())
        })
    }
}

/// Estimates how many rows there are from `from` up to, but not including, `to`, and how many bytes
/// they take. A null bound means from the first key, or to the last. `data_bytes` may be null.
/// Reads nothing from the file: for parts of the tree that were not read since the store was
/// opened, it uses the number of all rows. 0 rows only if none is committed so far; a transaction
/// may have written some, or may see some that were deleted since: use frond_txn_estimate there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_estimate(
    tree: *const frond_tree,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    rows: *mut u64,
    data_bytes: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            let estimate = tree.estimate(range((from, from_length), (to, to_length))?)?;
            *given_mut(rows, "the place for the number")? = estimate.rows;
            data_bytes.as_mut().into_iter().for_each(|bytes| *bytes = estimate.bytes);
            Ok(())
        })
    }
}

/// Counts the rows from `from` up to, but not including, `to` that a plain scan of the transaction
/// would find. It walks over them within the store, at a tenth of the cost of a cursor. At
/// FROND_SERIALIZABLE it locks what it counts. A null bound means from the first key, or to the
/// last.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_count(
    txn: *const frond_txn,
    tree: *const frond_tree,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    rows: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let txn = &given(txn, "the transaction")?.txn;
            let tree = &given(tree, "the tree")?.tree;
            let counted = txn.count(tree, range((from, from_length), (to, to_length))?)?;
            *given_mut(rows, "the place for the number")? = counted;
            Ok(())
        })
    }
}

/// Estimates like frond_tree_estimate, and includes what the transaction has written, and rows that
/// its reads still see although they were deleted since. 0 rows only if neither a plain nor a
/// locking read of the transaction would find one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_txn_estimate(
    txn: *const frond_txn,
    tree: *const frond_tree,
    from: *const u8,
    from_length: usize,
    to: *const u8,
    to_length: usize,
    rows: *mut u64,
    data_bytes: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let (txn, tree) = (given(txn, "the transaction")?, given(tree, "the tree")?);
            let range = range((from, from_length), (to, to_length))?;
            let estimate = txn.txn.estimate(&tree.tree, range)?;
            *given_mut(rows, "the place for the number")? = estimate.rows;
            data_bytes.as_mut().into_iter().for_each(|bytes| *bytes = estimate.bytes);
            Ok(())
        })
    }
}

/// Takes `count` numbers from one of the tree's counters, 0 to 3. The first of them is at least
/// `least`, and is returned in `first`. No number is returned twice, whatever happens to the
/// transaction; after a restart, at least none that a commit can have used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_reserve(
    tree: *const frond_tree,
    counter: u32,
    least: u64,
    count: u64,
    first: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let first = given_mut(first, "the place for the number")?;
            let tree = &given(tree, "the tree")?.tree;
            *first = tree.reserve(counter as usize, least, count)?.start;
            Ok(())
        })
    }
}

/// Returns the next number of a counter, without taking it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_next_number(
    tree: *const frond_tree,
    counter: u32,
    next: *mut u64,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            *given_mut(next, "the place for the number")? = tree.next_number(counter as usize)?;
            Ok(())
        })
    }
}

/// Estimates how many distinct values the first part of a tree's keys has, the first two parts, and
/// so on: one number for each part of the keys' layout, or one number if keys have no layout.
/// `counts` receives the first `counts_max` of them, and `count` how many there are; pass null and
/// 0 to ask only for that. No number is 0, even for an empty tree. Numbers up to 64, and those of
/// trees of some thousand rows, are exact if nothing is written meanwhile; larger ones are
/// estimates. Reads some tens of thousands of rows, however many there are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn frond_tree_distinct_prefixes(
    tree: *const frond_tree,
    counts: *mut u64,
    counts_max: usize,
    count: *mut usize,
    error: *mut frond_error,
) -> i32 {
    // SAFETY: see `bytes.rs`.
    unsafe {
        call(error, || {
            let tree = &given(tree, "the tree")?.tree;
            let count = given_mut(count, "the place for the number")?;
            if counts.is_null() && counts_max > 0 {
                return Err(misuse("the array for numbers is null"));
            }
            let found = tree.distinct_prefixes()?;
            *count = found.len();
            for (place, found) in found.iter().take(counts_max).enumerate() {
                counts.add(place).write(*found);
            }
            Ok(())
        })
    }
}
