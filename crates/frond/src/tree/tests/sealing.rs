//! Sealing: a node that its reader would refuse is not written.

use super::*;
use crate::{
    Error,
    page::{Link, PageKind},
};

fn leaf() -> Child {
    Child::Leaf(RunHandle::placeholder(LINE, VersionNumber(3)))
}

fn why_not(node: &Node, birth: u64) -> Option<String> {
    match seal_node(node, VersionNumber(birth)) {
        Ok(_) => None,
        Err(Error::Unreadable("a node page", why)) => Some(why),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn an_unreadable_node_is_never_written() {
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

fn written(cx: &TreeContext, node: &Node) -> Link {
    let bytes = seal_node(node, VersionNumber(3)).unwrap();
    cx.store.put_page(PageKind::Node, VersionNumber(3), LINE, &[&bytes]).unwrap()
}

/// A link leads to an intact node of another level than the parent's children. Promise: P9.
#[test]
fn a_node_of_another_level_is_not_followed() {
    let cx = context(tiny());
    let low = written(&cx, &Node { level: 1, children: vec![leaf()], ..Node::default() });
    let upper = |level| Node {
        level,
        children: vec![Child::Node(NodeRef::on_disk(low, level - 1))],
        ..Node::default()
    };
    let right = NodeRef::on_disk(written(&cx, &upper(2)), 2);
    let wrong = NodeRef::on_disk(written(&cx, &upper(3)), 3);
    let child = |parent: &NodeRef| match &parent.load(&cx).unwrap().children[0] {
        Child::Node(child) => child.clone(),
        Child::Leaf(_) => panic!("a node above nodes"),
    };
    assert_eq!(child(&right).load(&cx).unwrap().level, 1);
    let child = child(&wrong);
    for read in [child.load(&cx).map(drop), child.glance(&cx).map(drop)] {
        let Err(Error::Malformed { place, why, .. }) = read else {
            panic!("it is followed: {read:?}")
        };
        assert_eq!((place.offset, place.bytes), (low.offset, u64::from(low.bytes)));
        assert_eq!(place.file, cx.store.file().path());
        assert!(why.contains("level"), "{why}");
    }
}

#[cfg(feature = "planted-bugs")]
#[test]
fn planted_bugs_are_caught() {
    use crate::tree::cut::tests as cut;
    let claims = claims! {
        "tree: a node is written unread" => an_unreadable_node_is_never_written,
        "tree: the level of a node is not checked" => a_node_of_another_level_is_not_followed,
        "tree: a node is sealed at another level" => a_node_of_another_level_is_not_followed,
        "tree: a range delete is not clipped where a part ends" =>
            cut::parts_hold_the_rows_of_their_range_and_at_most_one_run,
        "tree: a part loses the range delete that goes on in it" =>
            cut::a_range_delete_continues_in_each_part_it_covers,
        "tree: range deletes are no bytes of a run" =>
            cut::parts_hold_the_rows_of_their_range_and_at_most_one_run,
    };
    crate::plant::assert_claims_hold("tree", claims);
}
