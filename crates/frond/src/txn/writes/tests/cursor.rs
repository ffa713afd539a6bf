//! Scans of a transaction's own writes.

use super::*;

const NO_RANGE: (Option<&[u8]>, Option<&[u8]>) = (None, None);

fn put(live: &LiveWrites, of: &[u8], value: &[u8]) {
    live.lock().put(key(of), value, 0).unwrap();
}

/// The current mark. The lock is released before the scan.
fn now(live: &LiveWrites) -> Mark {
    live.lock().mark()
}

/// The remaining entries of the cursor, with their kinds.
fn rest(cursor: &mut OwnCursor<'_>) -> Vec<(Vec<u8>, Kind)> {
    let mut rows = Vec::new();
    while let Some(entry) = cursor.entry() {
        rows.push((entry.key.to_vec(), entry.tag.kind()));
        cursor.advance().unwrap();
    }
    rows
}

fn scan(live: &LiveWrites, mark: Mark) -> Vec<(Vec<u8>, Kind)> {
    let operators = Operators::new();
    let mut cursor = OwnCursor::new(live, TREE, mark, Folder::new(&operators), NO_RANGE);
    cursor.seek_first().unwrap();
    rest(&mut cursor)
}

/// Rule: I45. Otherwise `UPDATE t SET k = k + 1` over an index on k would never end.
#[test]
pub(super) fn a_scan_sees_writes_before_its_mark_and_later_deletes() {
    let live = LiveWrites::new(0);
    [b"a", b"b", b"c", b"d"].iter().for_each(|key| put(&live, *key, b"before"));
    let mark = live.lock().mark();
    put(&live, b"a", b"after");
    live.lock().delete(key(b"b"), -1).unwrap();
    live.lock().delete(key(b"c"), -1).unwrap();
    put(&live, b"c", b"again");
    put(&live, b"e", b"after");
    live.lock().delete_range(TREE, b"d", b"e", -1).unwrap();
    let names = |rows: Vec<(Vec<u8>, Kind)>| -> Vec<(u8, Kind)> {
        rows.into_iter().map(|(key, kind)| (key[0], kind)).collect()
    };
    let gone = Kind::Delete;
    let at_mark = [(b'a', Kind::Put), (b'b', gone), (b'c', gone), (b'd', gone)];
    assert_eq!(names(scan(&live, mark)), at_mark);
    let operators = Operators::new();
    let mut cursor = OwnCursor::new(&live, TREE, mark, Folder::new(&operators), NO_RANGE);
    cursor.seek(b"a").unwrap();
    assert_eq!(cursor.entry().map(|entry| entry.payload), Some(&b"before"[..]));
    let all = [(b'a', Kind::Put), (b'b', gone), (b'c', Kind::Put), (b'd', gone), (b'e', Kind::Put)];
    assert_eq!(names(scan(&live, now(&live))), all);
    // The counter shows that rows read before must be checked again.
    assert_ne!(live.lock().changes(TREE), 0);
    let own = live.lock();
    let deleted = [b"a", b"b", b"c", b"d", b"e"].map(|of| own.is_deleted_since(key(of), mark));
    assert_eq!(deleted, [false, true, true, true, false]);
}

/// Rule: I45.
#[test]
pub(super) fn a_view_includes_writes_after_the_first_scan() {
    let live = LiveWrites::new(0);
    put(&live, b"m", b"");
    assert_eq!(scan(&live, now(&live)).len(), 1);
    [b"z", b"a", b"m", b"k"].iter().for_each(|key| put(&live, *key, b""));
    let keys: Vec<_> = scan(&live, now(&live)).into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [b"a", b"k", b"m", b"z"]);
}

/// Rules: I44, I45.
#[test]
pub(super) fn a_view_is_rolled_back_with_its_writes() {
    let live = LiveWrites::new(0);
    put(&live, b"m", b"");
    assert_eq!(scan(&live, now(&live)).len(), 1);
    let mark = live.lock().mark();
    (0..1000u16).for_each(|n| put(&live, &n.to_be_bytes(), b""));
    assert_eq!(scan(&live, now(&live)).len(), 1001);
    live.lock().rollback_to(mark);
    assert_eq!(scan(&live, now(&live)), [(b"m".to_vec(), Kind::Put)]);
    (0..300u16).rev().for_each(|n| put(&live, &n.to_be_bytes(), b""));
    assert_eq!(scan(&live, now(&live)).len(), 301);
}

#[test]
fn a_scan_continues_in_key_order_during_concurrent_writes() {
    let live = LiveWrites::new(0);
    (0..2000u16).for_each(|n| put(&live, &(n * 2).to_be_bytes(), b""));
    let mark = live.lock().mark();
    let operators = Operators::new();
    let mut cursor = OwnCursor::new(&live, TREE, mark, Folder::new(&operators), NO_RANGE);
    cursor.seek_first().unwrap();
    for n in 0..2000u16 {
        assert_eq!(
            cursor.entry().map(|entry| entry.key.to_vec()),
            Some((n * 2).to_be_bytes().into())
        );
        // A key before and a key after the current one that it must not see, and one that stays.
        put(&live, &(n * 2 + 1).to_be_bytes(), b"");
        put(&live, &(n / 2 * 2 + 1).to_be_bytes(), b"");
        put(&live, &(n * 2).to_be_bytes(), b"new");
        cursor.advance().unwrap();
    }
    assert!(cursor.entry().is_none());
    assert_ne!(live.lock().changes(TREE), cursor.changes(), "a reader that asks sees the change");
    live.lock().rollback_to(mark);
    assert_eq!(scan(&live, mark).len(), 2000);
}

#[test]
fn a_cursor_changes_direction_within_its_range() {
    let live = LiveWrites::new(0);
    (0..100u8).for_each(|n| put(&live, &[n], b""));
    let operators = Operators::new();
    let (mark, range) = (live.lock().mark(), (Some(&[10u8][..]), Some(&[90u8][..])));
    let mut cursor = OwnCursor::new(&live, TREE, mark, Folder::new(&operators), range);
    let at = |cursor: &OwnCursor<'_>| cursor.entry().map(|entry| entry.key[0]);
    cursor.seek_first().unwrap();
    assert_eq!(at(&cursor), Some(10));
    cursor.advance().unwrap();
    cursor.retreat().unwrap();
    assert_eq!(at(&cursor), Some(10));
    cursor.retreat().unwrap();
    assert_eq!(at(&cursor), None, "below the range is nothing");
    cursor.seek(&[5]).unwrap();
    assert_eq!(at(&cursor), Some(10));
    cursor.seek_before(&[95]).unwrap();
    assert_eq!(at(&cursor), Some(89));
    (0..79).for_each(|_| cursor.retreat().unwrap());
    assert_eq!(at(&cursor), Some(10));
    cursor.seek(&[50]).unwrap();
    cursor.retreat().unwrap();
    assert_eq!(at(&cursor), Some(49));
    cursor.advance().unwrap();
    assert_eq!(at(&cursor), Some(50));
}

/// The comparisons, moves and copies per pair of an update and a range select, with `pairs` of them
/// in one transaction.
fn steps_a_pair(pairs: u32) -> u64 {
    let live = LiveWrites::new(0);
    let operators = Operators::new();
    for n in 0..pairs {
        // Rows spread over the tree.
        let at = n.wrapping_mul(0x9e37_79b9).to_be_bytes();
        put(&live, &at, b"");
        let (mark, to) = (live.lock().mark(), at.map(|byte| byte | 0x0f));
        let range = (Some(&at[..]), Some(&to[..]));
        let mut cursor = OwnCursor::new(&live, TREE, mark, Folder::new(&operators), range);
        cursor.seek_first().unwrap();
        assert!(cursor.entry().is_some());
    }
    let own = live.lock();
    let view = own.trees.get(TREE).and_then(|state| state.view.as_ref()).unwrap();
    view.steps() / u64::from(pairs)
}

/// Rule: I45. Steps are counted, not timed.
#[test]
fn pairs_of_update_and_range_select_stay_linear() {
    let (few, many) = (steps_a_pair(1000), steps_a_pair(10_000));
    assert!(many < few * 2, "{few} steps a pair of 1000, {many} of 10 000");
}
