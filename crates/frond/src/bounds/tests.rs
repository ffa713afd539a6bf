//! Bounds: numbers run out where they must, values are shown as documented, and tiny bounds apply
//! to one thread.

use super::*;

fn is_refused<T>(result: Result<T>) -> bool {
    matches!(&result, Err(error @ Error::LimitReached { .. }) if error.to_string().starts_with("FRD-1018"))
}

#[test]
fn numbers_end_before_the_reserved_ones() {
    let mut next = TreeId(0);
    assert_eq!(take_tree_number(&mut next).unwrap(), TreeId(1));
    next = TreeId(u32::MAX - 2);
    assert_eq!(take_tree_number(&mut next).unwrap(), TreeId(u32::MAX - 2));
    assert!(is_refused(take_tree_number(&mut next)), "the number of temporary trees");
    let mut next = u32::MAX - 1;
    assert!(take_snapshot_number(&mut next).is_ok());
    assert!(is_refused(take_snapshot_number(&mut next)));
}

#[test]
fn clones_beyond_the_capacity_of_a_page_are_refused() {
    let (clones, pins) = (CLONE_CHAIN.len(), LINEAGE_PINS.len());
    check_clone(clones - 1, 0).unwrap();
    assert!(is_refused(check_clone(clones, 0)));
    check_clone(2, pins - 3).unwrap();
    assert!(is_refused(check_clone(2, pins - 2)));
}

#[test]
fn bounds_are_shown_as_in_the_documents() {
    let shown =
        [&KEY_BYTES, &VALUE_BYTES, &XID_BYTES, &NAME_BYTES, &LINEAGE_PINS, &SNAPSHOTS, &TREES];
    let shown = shown.map(Bound::shown);
    let words = ["64 KiB", "1 GiB", "255 bytes", "512 bytes", "65,536", "2^32 - 2", "2^32 - 3"];
    assert_eq!(shown, words);
}

#[cfg(feature = "planted-bugs")]
#[test]
fn a_reduced_bound_applies_to_its_thread_and_counts_hits() {
    let tiny = Tiny::of(&[(KEY_BYTES, 7)]).unwrap();
    assert!(KEY_BYTES.admits(7) && !KEY_BYTES.admits(8) && VALUE_BYTES.admits(8));
    assert_eq!((tiny.reached(KEY_BYTES), tiny.reached(VALUE_BYTES)), (1, 0));
    std::thread::spawn(|| assert_eq!(KEY_BYTES.max(), KEY_BYTES.default)).join().unwrap();
    drop(tiny);
    assert_eq!(KEY_BYTES.max(), KEY_BYTES.default);
}
