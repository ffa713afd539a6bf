//! One test per rule of a transaction's own writes; random histories are in `model`.

mod cursor;
mod live_writes;
mod model;
#[cfg(feature = "planted-bugs")]
mod planted;

use std::collections::BTreeMap;

use super::*;
use crate::{
    message::{Kind, Message},
    run::{Entry, EntrySource, OPERATOR_APPEND, Operators},
};

const TREES: [TreeId; 2] = [TreeId(3), TreeId(9)];
const TREE: TreeId = TREES[0];

fn key(key: &[u8]) -> HashedKey<'_> {
    HashedKey::new(TREE, key)
}

/// Kinds and payloads of a key's messages, newest first.
fn messages(own: &TxnWrites, of: &[u8]) -> Vec<(Kind, Vec<u8>)> {
    own.messages(key(of)).map(|message| (message.tag.kind(), message.payload.to_vec())).collect()
}

fn sealed(own: &mut TxnWrites) -> Vec<(Vec<u8>, Tag)> {
    own.seal(&Folder::new(&Operators::new())).unwrap();
    let entries = own.sealed().entries(TREE);
    entries.map(|entry| (entry.key.to_vec(), entry.tag)).collect()
}

#[test]
fn a_key_reads_as_its_newest_messages_down_to_a_base() {
    let mut own = TxnWrites::default();
    assert_eq!(own.state_of(key(b"k")), OwnState::Untouched);
    own.merge(key(b"k"), OPERATOR_APPEND, b"1", 0).unwrap();
    own.merge(key(b"k"), OPERATOR_APPEND, b"2", 0).unwrap();
    assert_eq!(own.state_of(key(b"k")), OwnState::Merged);
    assert_eq!(messages(&own, b"k").len(), 2, "the store's come below");
    own.put(key(b"k"), b"v", 0).unwrap();
    own.merge(key(b"k"), OPERATOR_APPEND, b"3", 0).unwrap();
    assert_eq!(own.state_of(key(b"k")), OwnState::Put { is_fresh: false });
    let of_k = messages(&own, b"k");
    assert_eq!(of_k.len(), 2);
    assert_eq!(of_k[1], (Kind::Put, b"v".to_vec()));
    own.delete(key(b"k"), -1).unwrap();
    assert_eq!(own.state_of(key(b"k")), OwnState::Deleted { is_fresh: false });
    assert_eq!(messages(&own, b"k"), [(Kind::Delete, Vec::new())]);
    assert!(messages(&own, b"other").is_empty());
    let elsewhere = HashedKey { tree: TREES[1], ..key(b"k") };
    assert_eq!(own.state_of(elsewhere), OwnState::Untouched, "a hash is no key");
}

/// Rules: I5, I26.
#[test]
fn a_range_delete_hides_earlier_writes_but_not_later_ones() {
    let mut own = TxnWrites::default();
    own.put(key(b"b"), b"old", 1).unwrap();
    own.put(key(b"z"), b"old", 1).unwrap();
    own.delete_range(TREE, b"a", b"f", -1).unwrap();
    own.merge(key(b"c"), OPERATOR_APPEND, b"on nothing", 1).unwrap();
    assert_eq!(messages(&own, b"b"), [(Kind::Delete, Vec::new())]);
    assert_eq!(messages(&own, b"e"), [(Kind::Delete, Vec::new())], "also what it never wrote");
    assert_eq!(messages(&own, b"z"), [(Kind::Put, b"old".to_vec())]);
    assert!(messages(&own, b"f").is_empty(), "the end is no part of it");
    assert_eq!(own.state_of(key(b"c")), OwnState::Put { is_fresh: false });
    own.put(key(b"b"), b"new", 1).unwrap();
    assert_eq!(messages(&own, b"b"), [(Kind::Put, b"new".to_vec())]);
    assert_eq!(sealed(&mut own).len(), 3);
}

/// Rule: I7.
#[test]
fn an_insert_is_fresh_unless_the_transaction_deleted_the_key_before() {
    let mut own = TxnWrites::default();
    own.insert(key(b"absent"), b"", 1).unwrap();
    assert_eq!(own.state_of(key(b"absent")), OwnState::Put { is_fresh: true });
    own.insert(key(b"absent, changed"), b"", 1).unwrap();
    own.put(key(b"absent, changed"), b"v", 0).unwrap();
    own.delete(key(b"deleted"), -1).unwrap();
    own.insert(key(b"deleted"), b"", 1).unwrap();
    own.delete_range(TREE, b"in a range", b"in b range", 0).unwrap();
    own.insert(key(b"in a range, too"), b"", 1).unwrap();
    own.put(key(b"put"), b"", 0).unwrap();
    let tags: Vec<Tag> = sealed(&mut own).into_iter().map(|(_, tag)| tag).collect();
    assert_eq!(tags, [Tag::PUT_FRESH, Tag::PUT_FRESH, Tag::PUT, Tag::PUT, Tag::PUT]);
}

/// Rule: I44.
#[test]
fn a_rollback_restores_reads_counts_maximum_and_blobs() {
    let hold = a_hold();
    let mut own = TxnWrites::default();
    own.put(key(b"b"), b"1", 1).unwrap();
    own.delete_range(TREE, b"x", b"z", -7).unwrap();
    let mark = own.mark();
    let (bytes, changes) = (own.set.entry_count(), own.changes(TREE));
    own.put(key(b"b"), b"2", 0).unwrap();
    own.put(key(b"c"), b"1", 1).unwrap();
    own.put_blob(key(b"d"), &[7; BLOB_REF_BYTES], hold.clone(), true, 1).unwrap();
    own.delete_range(TREE, b"a", b"y", -4).unwrap();
    own.delete(key(b"a"), -1).unwrap();
    assert_eq!(own.row_deltas().collect::<Vec<_>>(), [(TREE, -9)]);
    assert_eq!(own.maximum(TREE), Some(&b"d"[..]));
    own.rollback_to(mark);
    assert_eq!(messages(&own, b"b"), [(Kind::Put, b"1".to_vec())]);
    assert!(messages(&own, b"c").is_empty() && messages(&own, b"d").is_empty());
    assert!(messages(&own, b"a").is_empty());
    assert_eq!(messages(&own, b"y"), [(Kind::Delete, Vec::new())]);
    assert_eq!(own.row_deltas().collect::<Vec<_>>(), [(TREE, -6)]);
    assert_eq!(own.maximum(TREE), Some(&b"b"[..]));
    assert_eq!(own.set.entry_count(), bytes);
    assert_eq!(Arc::strong_count(&hold), 1, "its blob is released");
    assert!(own.changes(TREE) > changes + 5, "a rollback is a change");
    own.insert(key(b"c"), b"again", 1).unwrap();
    assert_eq!(
        own.state_of(key(b"c")),
        OwnState::Put { is_fresh: true },
        "as if for the first time"
    );
    own.rollback_to(Mark::default());
    assert_eq!(own.len(), 0);
    assert_eq!(own.state_of(key(b"y")), OwnState::Untouched);
}

#[test]
fn blobs_of_kept_writes_are_held_until_the_end() {
    let (kept, undone) = (a_hold(), a_hold());
    let mut own = TxnWrites::default();
    own.put_blob(key(b"a"), &[1; BLOB_REF_BYTES], kept.clone(), false, 0).unwrap();
    let mark = own.mark();
    own.put_blob(key(b"a"), &[2; BLOB_REF_BYTES], undone.clone(), false, 0).unwrap();
    own.rollback_to(mark);
    assert_eq!((Arc::strong_count(&kept), Arc::strong_count(&undone)), (2, 1));
    assert_eq!(own.blobs().len(), 1);
    assert_eq!(messages(&own, b"a"), [(Kind::PutBlob, vec![1; BLOB_REF_BYTES])]);
    own.clear();
    assert_eq!(Arc::strong_count(&kept), 1);
}

/// Small transactions neither keep nor pay for the memory of a large one before them.
#[test]
fn memory_is_reused_by_the_next_transaction_except_after_a_large_one() {
    let mut own = TxnWrites::default();
    let fill = |own: &mut TxnWrites, entries: u32| {
        for n in 0..entries {
            own.put(key(&n.to_be_bytes()), &[7; 100], 1).unwrap();
        }
    };
    fill(&mut own, 1000);
    own.clear();
    fill(&mut own, 1000);
    let small = own.bytes();
    assert!(small > 100_000);
    own.clear();
    let kept = own.bytes();
    assert!(kept > 100_000, "it is used again");
    fill(&mut own, 1000);
    assert_eq!(own.bytes(), small, "without an allocation");
    own.clear();
    fill(&mut own, 200_000);
    assert!(own.bytes() > 20 << 20);
    own.clear();
    assert!(own.bytes() < 4 * KEPT_BYTES_MAX, "{}", own.bytes());
    // Emptied slot by slot if the table is much larger.
    fill(&mut own, 10_000);
    own.clear();
    fill(&mut own, 3);
    own.clear();
    assert_eq!(own.state_of(key(&1u32.to_be_bytes())), OwnState::Untouched);
    fill(&mut own, 10);
    assert_eq!(own.state_of(key(&9u32.to_be_bytes())), OwnState::Put { is_fresh: false });
}

#[test]
#[should_panic(expected = "Rule I5")]
fn a_sealed_set_accepts_no_writes() {
    let mut own = TxnWrites::default();
    own.put(key(b"a"), b"", 1).unwrap();
    sealed(&mut own);
    own.put(key(b"b"), b"", 1).unwrap();
}

/// A hold on a blob's extent in a store in memory.
fn a_hold() -> Arc<BlobHold> {
    use crate::{
        blob::{Blob, BlobOptions},
        io::{Env, MemoryVfs, RealClock, RealRng, Workers},
    };
    let env = Env {
        vfs: Arc::new(MemoryVfs::new()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng),
        workers: Workers::Manual,
    };
    let made = crate::store::create(&env, std::path::Path::new("store"), Default::default());
    let store = Arc::new(made.unwrap().store);
    Blob::write(&store, &[1; 5000], BlobOptions::default()).unwrap().1
}
