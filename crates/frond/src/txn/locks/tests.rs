//! Key locks exclude commits that share a key, and no others.

use super::*;

fn is_free(table: &KeyLockTable, hash: u64) -> bool {
    table.locks[hash as usize % LOCKS].try_lock().is_ok()
}

/// Rule: I3
#[test]
fn only_the_keys_of_a_commit_are_locked_until_its_release() {
    let table = KeyLockTable::default();
    let held = table.lock(vec![3, 1]);
    assert!(!is_free(&table, 1) && !is_free(&table, 3));
    assert!(is_free(&table, 2));
    drop(table.lock(vec![2, 4]));
    drop(held);
    assert!(is_free(&table, 1) && is_free(&table, 3));
}

#[test]
fn keys_that_share_a_lock_acquire_it_once() {
    let table = KeyLockTable::default();
    // Taken twice, it would wait for itself.
    drop(table.lock(vec![5, 5, 5 + LOCKS as u64]));
    assert!(is_free(&table, 5));
}

#[test]
fn the_same_key_in_two_trees_has_two_hashes() {
    assert_ne!(lock_hash(TreeId(1), b"k"), lock_hash(TreeId(2), b"k"));
    assert_eq!(lock_hash(TreeId(1), b"k"), lock_hash(TreeId(1), b"k"));
}
