//! The memtable under a model checker: nodes of four slots, and the interleavings of atomics that
//! the schedulers explore.
//!
//! Run: `make schedules`.

use super::*;
use crate::sync::{explore, thread};

const TREE: TreeId = TreeId(3);
/// Schedules tried per scenario and scheduler.
const SCHEDULES: usize = 1500;

fn key(n: u64) -> [u8; 12] {
    // Four bytes shared by all keys, so that a split lengthens the skip.
    let mut key = *b"same00000000";
    key[4..].copy_from_slice(&n.to_be_bytes());
    key
}

fn insert(memtable: &Memtable, seqno: u64, keys: &[u64]) {
    let payload = seqno.to_be_bytes();
    let keys: Vec<_> = keys.iter().map(|&n| key(n)).collect();
    let rows = keys.iter().map(|key| (&key[..], Tag::PUT, &payload[..]));
    memtable.insert(TREE, Seqno(seqno), rows);
}

fn seqnos(memtable: &Memtable, n: u64, at: u64) -> Vec<u64> {
    let mut seqnos = Vec::new();
    memtable.get(TREE, &key(n), Seqno(at), &mut |seqno, message| {
        assert_eq!(message.payload, seqno.0.to_be_bytes(), "a record is whole");
        seqnos.push(seqno.0);
        true
    });
    seqnos
}

fn scan(memtable: &Arc<Memtable>, at: u64) -> Vec<u64> {
    let mut cursor = memtable.cursor(TREE, Seqno(at));
    cursor.seek_first();
    let mut keys = Vec::new();
    while let Some(key) = cursor.key() {
        keys.push(key[4..].iter().fold(0, |n, &byte| n << 8 | u64::from(byte)));
        cursor.next();
    }
    keys
}

fn memtable() -> Arc<Memtable> {
    Arc::new(Memtable::new(FramePool::new(0)))
}

#[test]
fn readers_miss_nothing_while_leaves_and_root_split() {
    explore(SCHEDULES, || {
        let memtable = memtable();
        insert(&memtable, 1, &[10, 20, 30]);
        let writers: Vec<_> = [(2, [5, 15, 25]), (3, [12, 22, 32])]
            .into_iter()
            .map(|(seqno, keys)| {
                let memtable = memtable.clone();
                thread::spawn(move || insert(&memtable, seqno, &keys))
            })
            .collect();
        for n in [10, 20, 30] {
            assert_eq!(seqnos(&memtable, n, 1), [1]);
        }
        assert_eq!(scan(&memtable, 1), [10, 20, 30]);
        let latest = scan(&memtable, 9);
        assert!(latest.is_sorted_by(|a, b| a < b), "keys ascend, once each: {latest:?}");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(scan(&memtable, 9), [5, 10, 12, 15, 20, 22, 25, 30, 32]);
    });
}

#[test]
fn two_threads_that_create_the_first_leaf_both_insert() {
    explore(SCHEDULES, || {
        let memtable = memtable();
        let other = memtable.clone();
        let writer = thread::spawn(move || insert(&other, 2, &[1, 4]));
        insert(&memtable, 1, &[2, 3]);
        writer.join().unwrap();
        assert_eq!(scan(&memtable, 9), [1, 2, 3, 4]);
        assert_eq!(memtable.trees(), [TREE]);
    });
}

/// Rule: I2, I3
#[test]
fn versions_of_one_key_are_ordered_and_unique() {
    explore(SCHEDULES, || {
        let memtable = memtable();
        insert(&memtable, 3, &[7]);
        let writers: Vec<_> = [[2, 5], [5, 4]]
            .into_iter()
            .map(|order| {
                let memtable = memtable.clone();
                thread::spawn(move || {
                    order.iter().for_each(|&seqno| insert(&memtable, seqno, &[7]))
                })
            })
            .collect();
        let seen = seqnos(&memtable, 7, 9);
        assert!(seen.contains(&3) && seen.is_sorted_by(|a, b| a > b), "{seen:?}");
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        assert_eq!(seqnos(&memtable, 7, 9), [5, 4, 3, 2]);
    });
}

/// Rule: I3
#[test]
fn owner_and_helper_insert_one_commit_once() {
    explore(SCHEDULES, || {
        let memtable = memtable();
        let helper = memtable.clone();
        let commit = |memtable: &Memtable| {
            insert(memtable, 4, &[1, 2, 3, 4, 5]);
            memtable.delete_range(TREE, Seqno(5), &key(2), &key(4));
        };
        let helping = thread::spawn(move || commit(&helper));
        commit(&memtable);
        assert_eq!(seqnos_and_cover(&memtable, 3), (vec![4], Some(Seqno(5))));
        helping.join().unwrap();
        assert_eq!(scan(&memtable, 9), [1, 2, 3, 4, 5]);
        assert_eq!(memtable.entries(), 6, "five keys and a range delete");
        assert_eq!(memtable.range_deletes(TREE, (Seqno(0), LATEST)).len(), 1);
    });
}

fn seqnos_and_cover(memtable: &Memtable, n: u64) -> (Vec<u64>, Option<Seqno>) {
    (seqnos(memtable, n, 4), memtable.cover(TREE, &key(n), LATEST))
}

/// Rule: I6
#[test]
fn an_attached_mini_run_is_visible_as_a_whole() {
    explore(SCHEDULES, || {
        let memtable = memtable();
        insert(&memtable, 1, &[1, 3]);
        let attaching = memtable.clone();
        let writer = thread::spawn(move || {
            let payload = 2u64.to_be_bytes();
            let keys = [key(2), key(3)];
            let rows = keys.iter().map(|key| (&key[..], Tag::PUT, &payload[..]));
            attaching.attach(TREE, Seqno(2), Arc::new(MemRun::build(FramePool::new(0), rows)));
        });
        let seen = scan(&memtable, 2);
        assert!(seen == [1, 3] || seen == [1, 2, 3], "{seen:?}");
        writer.join().unwrap();
        assert_eq!(seqnos(&memtable, 3, 2), [2, 1]);
        assert_eq!(scan(&memtable, 2), [1, 2, 3]);
        assert_eq!(scan(&memtable, 1), [1, 3]);
    });
}
