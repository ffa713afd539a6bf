//! Tests of folding messages: its table, its associativity, its bounds.

use super::*;
use crate::{VALUE_BYTES_MAX, types::OPERAND_BYTES_MAX};

type Owned = (Tag, Vec<u8>);

fn merge(operator: u8, operand: &[u8]) -> Owned {
    let mut payload = Vec::new();
    put_operand(&mut payload, operator, operand);
    (Tag::MERGE, payload)
}

fn fold(folder: &Folder<'_>, newer: &Owned, older: &Owned) -> Option<Owned> {
    let mut out = Vec::new();
    let [a, b] = [newer, older].map(|(tag, payload)| Message::new(*tag, payload));
    match folder.fold(a, b, &mut out).unwrap() {
        Folded::Newer(tag) => Some((tag, newer.1.clone())),
        Folded::Made(tag) => Some((tag, out)),
        Folded::Nothing => None,
    }
}

/// Rule: I7
#[test]
pub(in crate::run) fn a_fresh_put_annihilates_with_its_delete_and_only_then() {
    let operators = Operators::new();
    let folder = Folder::new(&operators);
    let put = (Tag::PUT, b"v".to_vec());
    let fresh = (Tag::PUT_FRESH, b"v".to_vec());
    let delete = (Tag::DELETE, vec![]);
    assert_eq!(fold(&folder, &delete, &fresh), None);
    assert_eq!(fold(&folder, &delete, &put), Some(delete.clone()));
    // A fresh Put that absorbed a Delete hides what that Delete was hiding: it is not fresh any
    // more.
    assert_eq!(fold(&folder, &fresh, &delete), Some(put.clone()));
    assert_eq!(fold(&folder, &put, &fresh), Some(fresh.clone()));
    assert_eq!(fold(&folder, &fresh, &put), Some(put.clone()));
}

#[test]
fn operators_compute_their_documented_result() {
    let operators = Operators::new();
    let folder = Folder::new(&operators);
    let put = |v: &[u8]| (Tag::PUT, v.to_vec());
    let five = merge(OPERATOR_ADD, &5i64.to_be_bytes());
    let result = fold(&folder, &five, &put(&(-7i64).to_be_bytes())).unwrap();
    assert_eq!(result, put(&(-2i64).to_be_bytes()));
    let ten = fold(&folder, &five, &five).unwrap();
    assert_eq!(ten, merge(OPERATOR_ADD, &10i64.to_be_bytes()));
    assert_eq!(fold(&folder, &merge(OPERATOR_MAX, b"b"), &put(b"a")), Some(put(b"b")));
    assert_eq!(fold(&folder, &merge(OPERATOR_MIN, b"b"), &put(b"a")), Some(put(b"a")));
    assert_eq!(fold(&folder, &merge(OPERATOR_APPEND, b"b"), &put(b"a")), Some(put(b"ab")));
    let fresh = (Tag::PUT_FRESH, b"a".to_vec());
    let result = fold(&folder, &merge(OPERATOR_APPEND, b"b"), &fresh);
    assert_eq!(result, Some((Tag::PUT_FRESH, b"ab".to_vec())));
    let result = fold(&folder, &merge(OPERATOR_APPEND, b"b"), &(Tag::DELETE, vec![]));
    assert_eq!(result, Some(put(b"b")));
    let unknown = merge(200, b"");
    let mut out = Vec::new();
    let newer = Message::new(unknown.0, &unknown.1);
    let folded = folder.fold(newer, Message::new(Tag::PUT, b""), &mut out);
    assert!(matches!(folded, Err(Error::MissingOperator(200))));
    let bad = folder.fold(Message::new(Tag::MERGE, &[1, 9]), newer, &mut out);
    assert!(bad.is_err());
}

/// An operator that concatenates; its combined operands may have any length.
struct Grow;

impl MergeOperator for Grow {
    fn name(&self) -> &str {
        "grow"
    }
    fn merge(&self, base: Option<&[u8]>, operand: &[u8]) -> Vec<u8> {
        [base.unwrap_or_default(), operand].concat()
    }
    fn combine(&self, older: &[u8], newer: &[u8]) -> Vec<u8> {
        [older, newer].concat()
    }
}

fn growing() -> Operators {
    let mut operators = Operators::new();
    operators.register(64, Arc::new(Grow)).unwrap();
    operators
}

/// Operands are combined up to a bound and kept side by side beyond it; the value is the same.
#[test]
fn operands_too_long_to_combine_are_kept_separately() {
    let operators = growing();
    let folder = Folder::new(&operators);
    for (operator, bytes, max) in
        [(OPERATOR_APPEND, 1000, APPENDED_BYTES_MAX), (64, 1 << 20, OPERAND_BYTES_MAX)]
    {
        let parts: Vec<Owned> = (0..9).map(|i| merge(operator, &vec![i; bytes])).collect();
        let mut list = parts[0].clone();
        for part in &parts[1..] {
            list = fold(&folder, part, &list).unwrap();
        }
        let lengths: Vec<usize> =
            operands(&list.1).map(|operand| operand.unwrap().1.len()).collect();
        assert!(lengths.iter().all(|&length| length <= max), "{lengths:?}");
        assert!(lengths.len() > 1 && lengths.len() < 9, "some are combined: {lengths:?}");
        let mut value = Vec::new();
        folder.apply(false, &list.1, &mut value).unwrap();
        let whole: Vec<u8> = (0..9).flat_map(|i| vec![i; bytes]).collect();
        assert!(value == whole, "operator {operator}");
    }
}

/// Folding versions all at once gives the same as folding them pairwise.
#[test]
fn many_versions_fold_as_pairs_do() {
    let operators = growing();
    let folder = Folder::new(&operators);
    let bases = [
        None,
        Some((Tag::PUT, b"base".to_vec())),
        Some((Tag::PUT_FRESH, b"new".to_vec())),
        Some((Tag::DELETE, vec![])),
    ];
    let merges = [
        merge(OPERATOR_APPEND, b"a"),
        merge(OPERATOR_APPEND, b"b"),
        merge(64, b"c"),
        merge(64, b"d"),
        merge(OPERATOR_MAX, b"abc"),
    ];
    for base in bases {
        let oldest_first: Vec<Owned> = base.into_iter().chain(merges.clone()).collect();
        let pairs = oldest_first
            .iter()
            .cloned()
            .reduce(|older, newer| fold(&folder, &newer, &older).unwrap());
        let versions = oldest_first.iter().rev();
        let versions = versions.map(|(tag, payload)| Message::new(*tag, payload));
        let (mut payload, mut spare) = (Vec::new(), Vec::new());
        let tag = folder.fold_versions(versions, false, &mut payload, &mut spare).unwrap();
        assert_eq!(tag.map(|tag| (tag, payload)), pairs);
    }
}

/// Returns a value longer than any value may be.
struct Long;

impl MergeOperator for Long {
    fn name(&self) -> &str {
        "long"
    }
    fn merge(&self, _: Option<&[u8]>, _: &[u8]) -> Vec<u8> {
        vec![0; VALUE_BYTES_MAX + 7]
    }
    fn combine(&self, older: &[u8], _: &[u8]) -> Vec<u8> {
        older.to_vec()
    }
}

/// A value is cut at the maximum length, whichever operator made it.
#[test]
fn values_are_truncated_at_the_maximum_length() {
    let mut operators = Operators::new();
    operators.register(64, Arc::new(Long)).unwrap();
    for operator in [64, OPERATOR_APPEND] {
        let mut value = vec![0; VALUE_BYTES_MAX - 3]; // untouched, so it takes no memory
        operators.merge(operator, true, &mut value, &[2; 10]).unwrap();
        assert_eq!(value.len(), VALUE_BYTES_MAX, "operator {operator}");
    }
}

/// A group folded from either end must yield the same message, or what a reader sees would
/// depend on which runs were merged first.
#[test]
fn folding_is_associative() {
    let operators = Operators::new();
    let folder = Folder::new(&operators);
    let messages = [
        (Tag::PUT, b"12345678".to_vec()),
        (Tag::DELETE, vec![]),
        merge(OPERATOR_ADD, &3i64.to_be_bytes()),
        merge(OPERATOR_MAX, &9i64.to_be_bytes()),
        merge(OPERATOR_MIN, b"4"),
        merge(OPERATOR_APPEND, b"xy"),
    ];
    let both = |newer: &Option<Owned>, older: &Option<Owned>| match (newer, older) {
        (Some(newer), Some(older)) => fold(&folder, newer, older),
        (newer, older) => newer.clone().or_else(|| older.clone()),
    };
    for a in &messages {
        for b in &messages {
            for c in &messages {
                let [a, b, c] = [a, b, c].map(|m| Some(m.clone()));
                let left = both(&both(&c, &b), &a);
                let right = both(&c, &both(&b, &a));
                assert_eq!(left, right, "{c:?} over {b:?} over {a:?}");
            }
        }
    }
}
