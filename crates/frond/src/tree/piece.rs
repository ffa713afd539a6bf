//! Pieces: changed nodes that may be sealed.
//!
//! A job changes a copy of a node. While it does, the copy may lose its last child, because
//! everything below it is deleted. A page of such a node could never be read. So only a [`Piece`]
//! can be sealed, and only a node with children becomes one. A changed node is replaced by
//! [`Pieces`]: one, several after a split, or none. A parent whose only child is replaced by none
//! becomes none itself, up to the root, which is then empty.
//!
//! Invariants
//! 1. A piece has at least one child.
//! 2. Pieces ascend. The key stored with a piece is where its range starts; that of the first is
//!    not used, since the first starts where the replaced node started.
//!
//! Threads: values of one job.

use std::ops::Deref;

use super::node::{Child, Node, Tier};

/// A node with at least one child: it may be sealed.
#[derive(Clone, Debug)]
pub(crate) struct Piece(Node);

/// The replacement of a changed node.
#[derive(Debug, Default)]
pub(crate) struct Pieces(Vec<(Box<[u8]>, Piece)>);

impl Piece {
    /// The node as a piece; `None` if it has no children.
    pub fn of(node: Node) -> Option<Self> {
        (!node.children.is_empty()).then_some(Self(node))
    }

    /// A node above a single child, with an empty buffer.
    pub fn above(child: Child) -> Self {
        let level = 1 + match &child {
            Child::Leaf(_) => 0,
            Child::Node(node) => node.level,
        };
        Self(Node { level, pivots: Vec::new(), children: vec![child], tiers: Vec::new() })
    }

    /// Puts a tier in front of the node's buffer.
    pub fn put_in_front(&mut self, tier: Tier) {
        if !tier.slices.is_empty() {
            self.0.tiers.insert(0, tier);
        }
    }

    /// Drops what no child needs any more from the node's buffer.
    pub fn drop_consumed(&mut self) {
        self.0.drop_consumed();
    }

    /// The child, if there is exactly one and nothing waits for it.
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
    /// The node as one piece; none if it has no children.
    pub fn of(node: Node) -> Self {
        Self(Piece::of(node).map(|piece| (Box::default(), piece)).into_iter().collect())
    }

    /// Cuts the node before each of the children `cuts`, which ascend; none if it has no children.
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

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.iter().map(|(_, piece)| &**piece)
    }

    /// A node without children that is sealed nevertheless. Used only by planted bugs.
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
