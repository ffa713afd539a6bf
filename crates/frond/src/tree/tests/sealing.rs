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
    let claims = claims! { "tree: a node is written unread" => a_node_that_could_not_be_read_is_not_written, };
    crate::plant::assert_claims_hold("tree", claims);
}

#[test]
fn zz_measure_node() {
    use crate::page::Link;
    let link = |n: u64| Link {
        offset: n << 20,
        bytes: 1 << 19,
        tail_bytes: 1 << 14,
        hash: n,
        birth: Publish(n + 1),
        lineage: LINE,
    };
    let meta = RunMeta { entries: 20_000, bytes: 500_000, range_deletes: false, blobs: false };
    let run = |n| RunHandle::on_disk(link(n), meta, 1);
    let bytes = |n: u64| -> Box<[u8]> { format!("customer {n:012}").into_bytes().into() };
    let part = |n: u64| Part {
        run: run(n + 100),
        lo: Some(bytes(n * 4)),
        hi: Some(bytes(n * 4 + 4)),
        live: vec![5000; 32],
    };
    let node = Node {
        level: 1,
        pivots: (1..32).map(bytes).collect(),
        children: (0..32).map(|n| Child::Leaf(run(n))).collect(),
        tiers: (0..8)
            .map(|_| super::super::node::Tier { parts: (0..8).map(part).collect() })
            .collect(),
    };
    for _ in 0..3 {
        let t = std::time::Instant::now();
        for _ in 0..1000 {
            std::hint::black_box(encode_node(&node));
        }
        let enc = t.elapsed() / 1000;
        let t = std::time::Instant::now();
        for _ in 0..1000 {
            std::hint::black_box(seal_node(&node, Publish(1000)).unwrap());
        }
        println!(
            "node: encode {enc:?}, seal {:?}, {} bytes",
            t.elapsed() / 1000,
            encode_node(&node).len()
        );
    }
}
