//! Pieces: changed nodes that may be sealed.
//!
//! A job changes a copy of a node. While it does, the copy may lose its last child: everything below it is deleted. A page of
//! such a node could never be read, so nothing can be sealed but a [`Piece`], and only a node with children becomes one. What
//! replaces a changed node are [`Pieces`]: one, several after a split, or none. A parent that is given none for its only child
//! becomes none itself, up to the root, which is then empty.
//!
//! Invariants
//! 1. A piece has at least one child.
//! 2. Pieces ascend; each but the first begins at its first key, the first where the node began that they replace.
//!
//! Threads: values of one job.

use std::ops::Deref;

use super::node::{Child, Node, Tier};

/// A node with at least one child: what may be sealed.
#[derive(Clone, Debug)]
pub(crate) struct Piece(Node);

/// What a changed node has become.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<(Box<[u8]>, Piece)>);

impl Piece {
    /// The node as a piece; `None` if it has no children.
    pub fn of(node: Node) -> Option<Self> {
        (!node.children.is_empty()).then_some(Self(node))
    }

    /// A node above a single child, with nothing in its buffer.
    pub fn above(child: Child) -> Self {
        let level = 1 + match &child {
            Child::Leaf(_) => 0,
            Child::Node(node) => node.level,
        };
        Self(Node { level, pivots: Vec::new(), children: vec![child], tiers: Vec::new() })
    }

    /// Puts a tier in front of the node's buffer.
    pub fn put_in_front(&mut self, tier: Tier) {
        if !tier.parts.is_empty() {
            self.0.tiers.insert(0, tier);
        }
    }

    /// Drops what no child needs any more from the node's buffer.
    pub fn drop_consumed(&mut self) {
        self.0.drop_consumed();
    }

    /// The only child, if there is one alone and nothing waits for it.
    pub fn only_child(&self) -> Option<&Child> {
        match &self.0.children[..] {
            [child] if self.0.tiers.is_empty() => Some(child),
            _ => None,
        }
    }

    /// The node.
    pub fn into_node(self) -> Node {
        self.0
    }
}

impl Deref for Piece {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Pieces {
    /// The node as it is; none if it has no children.
    pub fn of(node: Node) -> Self {
        Self(Piece::of(node).map(|piece| (Box::default(), piece)).into_iter().collect())
    }

    /// The node cut before each of the children `cuts`, which ascend; none if it has no children.
    pub fn cut(node: Node, cuts: &[usize]) -> Self {
        let mut left = node;
        let mut pieces: Vec<(Box<[u8]>, Piece)> = Vec::with_capacity(cuts.len() + 1);
        for &cut in cuts.iter().rev() {
            let (pivot, right) = left.split_off(cut);
            pieces.extend(Piece::of(right).map(|right| (pivot, right)));
        }
        pieces.extend(Piece::of(left).map(|left| (Box::default(), left)));
        pieces.reverse();
        Self(pieces)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|(_, piece)| &**piece)
    }

    /// A node of the past: it lost its children and was sealed all the same. Only planted bugs make one.
    pub fn planted(node: Node) -> Self {
        Self(vec![(Box::default(), Piece(node))])
    }
}

impl IntoIterator for Pieces {
    type Item = (Box<[u8]>, Piece);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
