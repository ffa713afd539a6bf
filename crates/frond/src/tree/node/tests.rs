//! Tests of where a node searches a key, and of its invariants after changes.

use super::*;

const LINE: Lineage = Lineage(1);

fn bound(key: &str) -> Bound {
    (!key.is_empty()).then(|| key.as_bytes().into())
}

fn leaf() -> Child {
    Child::Leaf(RunHandle::placeholder(LINE, VersionNumber(1)))
}

fn slice(lo: &str, hi: &str, live: &[u32]) -> RunSlice {
    let run = RunHandle::placeholder(LINE, VersionNumber(1));
    RunSlice { run, lo: bound(lo), hi: bound(hi), live: live.to_vec() }
}

/// Children `..d`, `d..m`, `m..`.
fn node() -> Node {
    Node {
        level: 1,
        pivots: vec![b"d".as_slice().into(), b"m".as_slice().into()],
        children: vec![leaf(), leaf(), leaf()],
        tiers: vec![
            Tier { slices: vec![slice("", "f", &[5, 1, 0]), slice("f", "", &[0, 2, 9])] },
            Tier { slices: vec![slice("", "", &[0, 0, 4])] },
        ],
    }
}

/// Invariant 1: a pivot belongs to the child on its right, for lookups and for ranges alike.
#[test]
fn a_key_is_searched_in_the_child_whose_range_contains_it() {
    let node = node();
    for (key, child) in [("", 0), ("c", 0), ("czz", 0), ("d", 1), ("l", 1), ("m", 2), ("z", 2)] {
        assert_eq!(node.child_for(key.as_bytes()), child, "{key}");
        let (lo, hi) = node.child_range(child);
        assert!(lo.is_none_or(|lo| lo <= key.as_bytes()), "{key}");
        assert!(hi.is_none_or(|hi| key.as_bytes() < hi), "{key}");
    }
    assert_eq!(node.child_range(0).0, None);
    assert_eq!(node.child_range(2).1, None);
}

/// Invariant 3.
#[test]
fn a_tier_has_at_most_one_slice_for_a_key() {
    let tier =
        Tier { slices: vec![slice("b", "d", &[1]), slice("d", "f", &[2]), slice("h", "", &[3])] };
    let live = |key: &str| tier.slice_for(key.as_bytes()).map(|slice| slice.live[0]);
    let expected = [
        ("a", None),
        ("b", Some(1)),
        ("c", Some(1)),
        ("d", Some(2)),
        ("f", None),
        ("g", None),
        ("h", Some(3)),
        ("z", Some(3)),
    ];
    for (key, slice) in expected {
        assert_eq!(live(key), slice, "{key}");
    }
}

#[test]
fn pending_bytes_are_summed_by_child() {
    let node = node();
    assert_eq!(node.pending_by_child(), [5, 3, 13]);
    assert_eq!((0..3).map(|c| node.pending_bytes(c)).collect::<Vec<_>>(), [5, 3, 13]);
    assert_eq!(node.tiers[0].live_bytes(), 17);
    assert_eq!(node.run_refs().count(), 3 + 3);
}

/// Invariants 1 and 4, after children were added, removed and merged.
#[test]
fn replacing_children_keeps_pending_entries_of_the_others() {
    let mut node = node();
    for slice in node.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
        slice.live[1] = 0;
    }
    let pivots = vec![b"f".as_slice().into(), b"h".as_slice().into()];
    node.replace_child(1, vec![leaf(), leaf(), leaf()], pivots);
    assert_eq!(node.flaw(), None);
    assert_eq!(node.pending_by_child(), [5, 0, 0, 0, 13]);
    assert_eq!(node.child_range(2), (Some(&b"f"[..]), Some(&b"h"[..])));
    node.absorb_right(1);
    assert_eq!(node.flaw(), None);
    assert_eq!(node.child_range(1), (Some(&b"d"[..]), Some(&b"h"[..])));
    assert_eq!(node.pending_by_child(), [5, 0, 0, 13]);
    for slice in node.tiers.iter_mut().flat_map(|tier| &mut tier.slices) {
        slice.live[3] = 0;
    }
    node.drop_consumed();
    assert_eq!(node.tiers.len(), 1, "a tier of which nothing is live is gone");
    assert_eq!(node.tiers[0].slices.len(), 1);
}

#[test]
fn each_broken_invariant_is_reported() {
    let broken: [(fn(&mut Node), &str); 6] = [
        (|node| drop(node.children.pop()), "one more"),
        (|node| node.pivots.swap(0, 1), "ascend"),
        (|node| node.level = 2, "level below"),
        (|node| node.tiers[1].slices[0].live.truncate(2), "live count"),
        (|node| node.tiers[1].slices[0] = slice("m", "c", &[0, 0, 1]), "empty"),
        (|node| node.tiers[0].slices.swap(0, 1), "overlap"),
    ];
    assert_eq!(node().flaw(), None);
    for (harm, word) in broken {
        let mut node = node();
        harm(&mut node);
        let flaw = node.flaw().unwrap_or_else(|| panic!("\"{word}\" is not noticed"));
        assert!(flaw.contains(word), "{flaw}");
    }
}

/// Rule: I21. References are counted on the handle, separately for the durable version.
#[test]
fn references_are_counted_separately_for_the_durable_version() {
    let run = RunHandle::placeholder(LINE, VersionNumber(1));
    assert_eq!((run.add_refs(2), run.add_refs(-1)), (2, 1));
    assert_eq!((run.refs(), run.refs_durable()), (1, 0));
    assert_eq!(run.add_refs_durable(1), 1);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.add_refs(-2))).is_err());
}
