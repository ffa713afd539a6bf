//! What other threads see of a live transaction.

use super::*;
use crate::{run::Direction, txn::TreeWriters};

/// Holds a sealed set, as a commit in progress does.
#[derive(Debug)]
struct OnItsWay(WriteSet);

impl HoldsWrites for OnItsWay {
    fn writes(&self) -> &WriteSet {
        &self.0
    }
}

/// All unpublished keys of a tree in a range.
fn pending(live: &LiveWrites, from: &[u8], to: Option<&[u8]>) -> Vec<Vec<u8>> {
    let backward = pending_backward(live, from, to);
    let (mut from, mut found, mut keys) = (from.to_vec(), Vec::new(), Vec::new());
    while live.pending_key(TREE, &from, to, &mut found) {
        keys.push(found.clone());
        from = [&found[..], &[0]].concat();
    }
    assert_eq!(keys, backward);
    keys
}

/// All unpublished keys of a tree in a range, found from the other end.
fn pending_backward(live: &LiveWrites, from: &[u8], to: Option<&[u8]>) -> Vec<Vec<u8>> {
    let (mut to, mut found, mut keys) = (to.map(<[u8]>::to_vec), Vec::new(), Vec::new());
    while live.pending(TREE, (from, to.as_deref()), Direction::Backward, &mut found).0 {
        keys.push(found.clone());
        to = Some(found.clone());
    }
    keys.reverse();
    keys
}

/// Rule: I33.
#[test]
pub(super) fn keys_are_pending_from_their_write_until_the_commit_ends() {
    let live = LiveWrites::new(0);
    let all = [b"a".to_vec(), b"c".to_vec(), b"e".to_vec()];
    for key in [b"e", b"a", b"c"] {
        live.lock().insert(HashedKey::new(TREE, key), b"", 1).unwrap();
    }
    assert_eq!(pending(&live, b"", None), all);
    assert_eq!(pending(&live, b"b", Some(b"e")), all[1..2]);
    assert!(pending(&live, b"f", None).is_empty());
    assert!(!live.pending_key(TREES[1], b"", None, &mut Vec::new()), "of another tree");
    let mark = live.lock().mark();
    live.lock().insert(key(b"d"), b"", 1).unwrap();
    assert_eq!(pending(&live, b"d", Some(b"e")).len(), 1);
    live.lock().rollback_to(mark);
    assert_eq!(pending(&live, b"", None), all);
    live.lock().seal(&Folder::new(&Operators::new())).unwrap();
    assert_eq!(pending(&live, b"", None), all, "prepared");
    let set = {
        let mut own = live.lock();
        let set = std::mem::take(own.sealed());
        let holder = Arc::new(OnItsWay(set));
        own.gone_to(holder.clone());
        holder
    };
    assert_eq!(pending(&live, b"", None), all, "between its seqno and its end");
    live.lock().gone_to = None;
    let OnItsWay(set) = Arc::into_inner(set).unwrap();
    live.lock().take_back(set);
    assert!(pending(&live, b"", None).is_empty());
}

/// A rollback to the savepoint would bring the key back into a range that another transaction has
/// examined.
#[test]
fn a_key_deleted_again_is_still_pending() {
    let live = LiveWrites::new(0);
    live.lock().insert(key(b"k"), b"", 1).unwrap();
    let savepoint = live.lock().mark();
    live.lock().delete(key(b"k"), -1).unwrap();
    assert_eq!(pending(&live, b"", None).len(), 1);
    live.lock().rollback_to(savepoint);
    assert_eq!(pending(&live, b"", None).len(), 1);
}

/// Rule: I33.
#[test]
pub(super) fn writers_are_listed_from_their_first_write_to_their_end() {
    let tree = TreeWriters::default();
    let writers: Vec<_> = (0..6).map(|number| Arc::new(LiveWrites::new(number))).collect();
    let listed = |own: Option<&Arc<LiveWrites>>| {
        let mut found = Vec::new();
        tree.others(own, &mut found);
        let mut numbers: Vec<u64> = found.iter().map(|writer| writer.number()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert!(listed(None).is_empty());
    writers.iter().for_each(|writer| tree.enter(writer));
    assert_eq!(listed(None), [0, 1, 2, 3, 4, 5]);
    assert_eq!(listed(Some(&writers[4])), [0, 1, 2, 3, 5], "no writer asks itself");
    tree.leave(&writers[1]);
    tree.leave(&writers[4]);
    assert_eq!(listed(None), [0, 2, 3, 5]);
    writers.iter().for_each(|writer| tree.leave(writer));
    assert!(listed(None).is_empty());
    assert!(writers.iter().all(|writer| Arc::strong_count(writer) == 1), "held by no list");
}
