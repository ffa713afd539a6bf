//! Nodes that lose their last child: at the right edge, where a node has a single child just after
//! a split, and where deletes empty a whole subtree.

use super::*;

fn put(n: u64) -> (Vec<u8>, Message) {
    (key(n), (Tag::PUT, vec![b'v'; 20]))
}

fn delete(n: u64) -> (Vec<u8>, Message) {
    (key(n), (Tag::DELETE, Vec::new()))
}

impl House {
    /// The number of children of each node on the right edge, from the root down.
    fn right_edge(&self) -> Vec<usize> {
        let mut edge = Vec::new();
        let Root::Node(mut node) = self.root.root.clone() else { return edge };
        loop {
            let content = node.load(&self.cx).unwrap().clone();
            edge.push(content.children.len());
            match content.children.last() {
                Some(Child::Node(child)) => node = child.clone(),
                _ => return edge,
            }
        }
    }

    fn append(&mut self, rows: std::ops::Range<u64>) {
        self.apply(rows.map(put).collect(), Vec::new());
    }

    /// Appends until an upper node at the right edge, not the root, has a single child; returns the
    /// number of rows.
    fn grow_a_single_child(&mut self, rows_at_once: u64) -> u64 {
        for batch in 0..10_000 {
            self.append(batch * rows_at_once..(batch + 1) * rows_at_once);
            let edge = self.right_edge();
            let upper = edge.len().saturating_sub(1);
            if edge.get(1..upper).is_some_and(|upper| upper.contains(&1)) {
                return (batch + 1) * rows_at_once;
            }
        }
        panic!("no upper node has a single child: {:?}", self.right_edge());
    }
}

/// Everything below a node with a single child is deleted, and a drain takes the deletes there: the
/// node is removed with its last row, and rows that are appended afterwards are found.
#[test]
fn a_node_is_removed_when_a_drain_removes_its_last_child() {
    for deleted in [15, 30, 40, 60, 90] {
        let mut house = House::new(tiny());
        let rows = house.grow_a_single_child(15);
        house.apply((rows - deleted..rows).map(delete).collect(), Vec::new());
        house.assert_sound();
        house.drain();
        house.assert_is_the_model();
        house.append(rows..rows + 40);
        house.assert_is_the_model();
    }
}

/// The node is also removed when a rebalancing, because enough waits for it, brings deletes or
/// range deletes there.
#[test]
fn a_node_is_removed_when_rebalancing_removes_its_last_child() {
    let shape = Shape { push_bytes: 0, ..tiny() };
    for ranges in [false, true] {
        let mut house = House::new(shape);
        let rows = house.grow_a_single_child(15);
        for from in (0..rows).rev().step_by(7) {
            let to = (from + 7).min(rows);
            match ranges {
                true => house.apply(BTreeMap::new(), vec![(key(from), key(to))]),
                false => house.apply((from..to).map(delete).collect(), Vec::new()),
            }
            house.assert_sound();
        }
        house.assert_is_the_model();
        house.append(rows..rows + 40);
        house.assert_is_the_model();
    }
}

/// Deletes every row at several fanouts and drains after every batch: the root is empty again, not
/// a leaf or a node without rows.
#[test]
fn a_tree_with_all_rows_deleted_step_by_step_is_empty() {
    for fanout_max in [2, 3, 4, 7] {
        let mut house = House::new(Shape { fanout_max, ..tiny() });
        let rows = house.grow_a_single_child(20);
        let mut toss = Toss(fanout_max as u64);
        let mut left: Vec<u64> = (0..rows).collect();
        while !left.is_empty() {
            let count = (1 + toss.below(60)).min(left.len() as u64) as usize;
            let gone = if toss.below(2) == 0 {
                left.split_off(left.len() - count)
            } else {
                left.drain(..count).collect()
            };
            house.apply(gone.into_iter().map(delete).collect(), Vec::new());
            house.drain();
            house.assert_sound();
        }
        house.assert_is_the_model();
        house.append(0..30);
        house.assert_is_the_model();
    }
}
