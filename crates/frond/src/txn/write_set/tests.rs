//! A sealed batch compared with a map that applies the same operations one by one.

use crate::Duplicate;
use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::bounds;
use crate::run::{OPERATOR_APPEND, Operators, put_operand};

const TREES: [TreeId; 2] = [TreeId(1), TreeId(7)];

fn sealed(fill: impl FnOnce(&mut WriteSet)) -> Result<WriteSet> {
    let mut writes = WriteSet::default();
    fill(&mut writes);
    writes.seal(&Folder::new(&Operators::new()))?;
    Ok(writes)
}

fn append(writes: &mut WriteSet, tree: TreeId, key: &[u8], operand: &[u8]) {
    let mut payload = Vec::new();
    put_operand(&mut payload, OPERATOR_APPEND, operand);
    writes.push(tree, key, Tag::MERGE, &[&payload], false);
}

fn put(writes: &mut WriteSet, key: &[u8], value: &[u8]) {
    writes.push(TREES[0], key, Tag::PUT, &[value], false);
}

/// The state of a key after the batch, or what the batch adds to it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Word {
    Value(Vec<u8>),
    Gone,
    Added(Vec<u8>),
}

/// Rule: I5. A fixed sequence of random puts, deletes, appends and range deletes.
#[test]
fn a_sealed_set_has_only_the_last_write_of_each_key() {
    for seed in 1..200u64 {
        let mut random = seed;
        let mut toss = |end: u64| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (random >> 33) % end
        };
        let mut model: BTreeMap<(TreeId, Vec<u8>), Word> = BTreeMap::new();
        // Keys with a delete that no range delete hides.
        let mut deleted: BTreeSet<(TreeId, Vec<u8>)> = BTreeSet::new();
        let writes = sealed(|writes| {
            for _ in 0..toss(40) {
                let tree = TREES[toss(2) as usize];
                let (key, value) = (vec![b'k', toss(8) as u8], vec![toss(256) as u8]);
                let word = model.get(&(tree, key.clone())).cloned();
                match toss(8) {
                    0..3 => {
                        writes.push(tree, &key, Tag::PUT, &[&value], false);
                        model.insert((tree, key), Word::Value(value));
                    }
                    3 => {
                        writes.push(tree, &key, Tag::DELETE, &[], false);
                        deleted.insert((tree, key.clone()));
                        model.insert((tree, key), Word::Gone);
                    }
                    4..7 => {
                        append(writes, tree, &key, &value);
                        let added = match word {
                            Some(Word::Value(old)) => Word::Value([old, value].concat()),
                            Some(Word::Gone) => Word::Value(value),
                            Some(Word::Added(old)) => Word::Added([old, value].concat()),
                            None => Word::Added(value),
                        };
                        model.insert((tree, key), added);
                    }
                    _ => {
                        let to = vec![b'k', key[1] + toss(4) as u8 + 1];
                        writes.push_range(tree, &key, &to);
                        model.retain(|(own, at), _| *own != tree || *at < key || *at >= to);
                        deleted.retain(|(own, at)| *own != tree || *at < key || *at >= to);
                    }
                }
            }
        })
        .unwrap();
        let mut found = BTreeMap::new();
        for tree in writes.trees() {
            let mut last: Option<Vec<u8>> = None;
            assert_eq!(writes.count(tree), writes.entries(tree).count());
            for entry in writes.entries(tree) {
                assert!(last.as_deref() < Some(entry.key), "ascending, each key once");
                last = Some(entry.key.to_vec());
                let deletes = entry.hides_delete || entry.tag.kind() == Kind::Delete;
                let is_deleted = deleted.contains(&(tree, entry.key.to_vec()));
                assert_eq!(deletes, is_deleted, "seed {seed}, {:?}", entry.key);
                let word = match entry.tag.kind() {
                    Kind::Put => Word::Value(entry.payload.to_vec()),
                    Kind::Delete => Word::Gone,
                    _ => {
                        let operands = crate::run::operands(entry.payload);
                        Word::Added(
                            operands.flat_map(|operand| operand.unwrap().1.to_vec()).collect(),
                        )
                    }
                };
                found.insert((tree, entry.key.to_vec()), word);
            }
        }
        assert_eq!(found, model, "seed {seed}");
    }
}

#[test]
fn an_insert_over_a_row_of_the_batch_is_refused_and_over_a_delete_is_not() {
    let insert = |writes: &mut WriteSet| writes.push(TREES[0], b"k", Tag::PUT, &[b"new"], true);
    let refused = sealed(|writes| {
        put(writes, b"a", b"");
        put(writes, b"k", b"old");
        insert(writes);
    });
    assert!(
        matches!(refused, Err(Error::DuplicateKey(Duplicate::InBatch { entry: 2, .. }))),
        "{refused:?}"
    );
    let mut writes = sealed(|writes| {
        writes.push(TREES[0], b"k", Tag::DELETE, &[], false);
        insert(writes);
    })
    .unwrap();
    // If the batch deleted it itself, nothing has to be looked up, and it is not known to be fresh
    // (Rule: I7).
    writes.freshen_inserts();
    let entry = writes.entries(TREES[0]).next().unwrap();
    assert!(!entry.insert && entry.tag == Tag::PUT);
    let mut writes = sealed(insert).unwrap();
    writes.freshen_inserts();
    let entry = writes.entries(TREES[0]).next().unwrap();
    assert!(entry.insert && entry.tag == Tag::PUT_FRESH);
}

/// Rule: I5. A commit that failed leaves its batch sealed: it may be filled further and committed
/// again.
#[test]
fn a_set_that_was_sealed_before_keeps_its_insertion_order() {
    let folder_operators = Operators::new();
    let folder = Folder::new(&folder_operators);
    let mut writes = sealed(|writes| {
        put(writes, b"k", b"old");
        put(writes, b"m", b"old");
        writes.push_range(TREES[0], b"k", b"n");
        put(writes, b"k", b"new");
        put(writes, b"l", b"new");
    })
    .unwrap();
    let keys = |writes: &WriteSet| -> Vec<u8> {
        writes.entries(TREES[0]).map(|entry| entry.key[0]).collect()
    };
    assert_eq!(keys(&writes), b"kl");
    writes.seal(&folder).unwrap();
    assert_eq!(keys(&writes), b"kl", "nothing is hidden by what came before it");
    put(&mut writes, b"m", b"newer");
    writes.push_range(TREES[0], b"l", b"m");
    writes.seal(&folder).unwrap();
    assert_eq!(keys(&writes), b"km", "and what came after still hides");
}

#[test]
fn positions_in_a_batch_count_range_deletes_even_after_sorting() {
    let mut writes = WriteSet::default();
    writes.push_range(TREES[1], b"a", b"b");
    put(&mut writes, b"k", b"");
    writes.push_range(TREES[0], b"a", b"b");
    put(&mut writes, b"m", b"");
    let indexes = |writes: &WriteSet| [0, 1].map(|position| writes.index_of(position));
    assert_eq!(indexes(&writes), [1, 3]);
    let operators = Operators::new();
    writes.seal(&Folder::new(&operators)).unwrap();
    assert_eq!(indexes(&writes), [1, 3]);
}

#[test]
fn only_values_lengthened_by_folding_become_blobs() {
    let mut writes = sealed(|writes| {
        put(writes, b"grown", &[1; 60]);
        append(writes, TREES[0], b"grown", &[1; 60]);
        put(writes, b"short", b"1");
        append(writes, TREES[0], b"short", b"1");
        put(writes, b"whole", &[2; 200]);
    })
    .unwrap();
    let mut moved = Vec::new();
    let reference = [9; BLOB_REF_BYTES];
    let moving = writes.separate(100, |_, value| {
        moved.push(value.len());
        Ok(reference)
    });
    moving.unwrap();
    assert_eq!(moved, [120], "a put of a long value moves it itself");
    let of = |key: &[u8]| writes.entries(TREES[0]).find(|entry| entry.key == key).unwrap();
    assert_eq!((of(b"grown").tag, of(b"grown").payload), (Tag::PUT_BLOB, &reference[..]));
    assert_eq!(of(b"short").payload, b"11");
    assert_eq!(of(b"whole").payload.len(), 200);
}

#[test]
fn a_batch_too_large_for_any_log_is_refused_before_it_is_filled() {
    let writes = WriteSet::default();
    assert!(writes.check_room(bounds::WRITE_SET_BYTES.len()).is_ok());
    let refused = writes.check_room(bounds::WRITE_SET_BYTES.len() + 1);
    assert!(matches!(refused, Err(Error::BatchTooLarge { .. })), "{refused:?}");
}

/// A batch that starts over for index builds forgets its queue entries each time.
#[test]
fn entries_that_are_forgotten_leave_no_bytes() {
    let mut writes = sealed(|writes| {
        put(writes, b"b", b"1");
        put(writes, b"a", b"2");
    })
    .unwrap();
    let bytes = writes.bytes();
    for _ in 0..3 {
        for key in [b"a", b"b"] {
            writes.push(TREES[1], key, Tag::PUT, &[], false);
        }
        writes.seal(&Folder::new(&Operators::new())).unwrap();
        assert!(writes.bytes() > bytes);
        writes.forget(&TREES[1..]);
        assert_eq!((writes.bytes(), writes.len()), (bytes, 2));
    }
    let keys: Vec<_> = writes.entries(TREES[0]).map(|entry| entry.key.to_vec()).collect();
    assert_eq!(keys, [b"a", b"b"]);
}
