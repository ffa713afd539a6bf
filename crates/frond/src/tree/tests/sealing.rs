//! What is sealed is what would be read: a node that its reader would refuse is not written.

use super::*;
use crate::Error;

fn leaf() -> Child {
    Child::Leaf(RunHandle::hollow(LINE, Publish(3)))
}

fn why_not(node: &Node, birth: u64) -> Option<String> {
    match seal_node(node, Publish(birth)) {
        Ok(_) => None,
        Err(Error::Unreadable("a node page", why)) => Some(why),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_node_that_could_not_be_read_is_not_written() {
    let pivot = |key: &str| key.as_bytes().into();
    let whole = Node {
        level: 1,
        pivots: vec![pivot("d"), pivot("m")],
        children: vec![leaf(), leaf(), leaf()],
        tiers: Vec::new(),
    };
    assert_eq!(why_not(&whole, 3), None);
    let broken: [(fn(&mut Node), &str); 5] = [
        (|node| (node.children, node.pivots) = Default::default(), "no children"),
        (|node| node.pivots.swap(0, 1), "ascend"),
        (|node| drop(node.pivots.pop()), "means nothing|ends too early"),
        (|node| node.level = 0, "ends too early"),
        (|node| node.level = 60, "ends too early"),
    ];
    for (harm, words) in broken {
        let mut node = whole.clone();
        harm(&mut node);
        let why = why_not(&node, 3).unwrap_or_else(|| panic!("\"{words}\" is written"));
        assert!(words.split('|').any(|word| why.contains(word)), "{words}: {why}");
    }
    let why = why_not(&whole, 2).expect("a page is no older than what it links");
    assert!(why.contains("born after"), "{why}");
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    use crate::tree::cut::tests as cut;
    let claims = claims! {
        "tree: a node is written unread" => a_node_that_could_not_be_read_is_not_written,
        "tree: a range delete is not clipped where a part ends" => cut::parts_hold_what_lies_in_them_and_no_more_than_a_run,
        "tree: a part loses the range delete that goes on in it" => cut::a_range_delete_goes_on_in_each_part_that_it_covers,
        "tree: range deletes are no bytes of a run" => cut::parts_hold_what_lies_in_them_and_no_more_than_a_run,
    };
    crate::plant::assert_claims_hold("tree", claims);
}
