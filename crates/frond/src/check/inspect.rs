//! The shape of a tree, level by level: how full its nodes are, what waits in them, how large its
//! leaves are.
//!
//! Reads every node page, and no leaf.

use std::fmt;

use crate::{
    Result, Tree,
    tree::{Node, RunHandle},
};

use super::walk::Page;

/// One level of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelShape {
    /// Level number; 0 are the leaves.
    pub level: u8,
    /// Number of nodes, or leaves.
    pub nodes: u64,
    /// Children of all nodes; 0 for the leaves.
    pub children: u64,
    /// Fewest children of a node.
    pub children_min: u64,
    /// Most children of a node.
    pub children_max: u64,
    /// Bytes that wait in the nodes' buffers, an upper bound; for leaves, their encoded bytes.
    pub bytes: u64,
    /// Tiers of all nodes.
    pub tiers: u64,
    /// Most tiers of a node: a lookup meets at most one run of each.
    pub tiers_max: u64,
    /// Run slices in the buffers of all nodes.
    pub parts: u64,
    /// Entries of the leaves; 0 on higher levels.
    pub entries: u64,
    /// Placeholder leaves, which have a range but no entries.
    pub placeholder: u64,
}

/// The shape of a tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TreeShape {
    /// From the root down to the leaves; empty if nothing is in pages.
    pub levels: Vec<LevelShape>,
}

impl Tree {
    /// The shape of the tree as it is in pages; what waits in memory is not counted. Costs one read
    /// per node that is not in memory.
    ///
    /// # Errors
    /// `NoSuchTree`; I/O errors and damage.
    pub fn shape(&self) -> Result<TreeShape> {
        let mut by_level = vec![LevelShape::default(); usize::from(u8::MAX) + 1];
        self.walk_pages(&mut |_, page| {
            match page {
                Page::Node(node) => count_node(node, &mut by_level),
                Page::Leaf(leaf) => count_leaf(leaf, &mut by_level),
            }
            Ok(())
        })?;
        let numbered = (0..=u8::MAX).zip(by_level).filter(|(_, shape)| shape.nodes > 0);
        let mut levels: Vec<LevelShape> =
            numbered.map(|(level, shape)| LevelShape { level, ..shape }).collect();
        levels.reverse();
        Ok(TreeShape { levels })
    }
}

fn count_node(node: &Node, by_level: &mut [LevelShape]) {
    let children = node.children.len() as u64;
    if let Some(shape) = by_level.get_mut(usize::from(node.level)) {
        shape.children_min =
            if shape.nodes == 0 { children } else { shape.children_min.min(children) };
        shape.children_max = shape.children_max.max(children);
        shape.nodes += 1;
        shape.children += children;
        shape.tiers += node.tiers.len() as u64;
        shape.tiers_max = shape.tiers_max.max(node.tiers.len() as u64);
        shape.parts += node.tiers.iter().map(|tier| tier.slices.len() as u64).sum::<u64>();
        shape.bytes += node.tiers.iter().map(|tier| tier.live_bytes()).sum::<u64>();
    }
}

fn count_leaf(leaf: &RunHandle, by_level: &mut [LevelShape]) {
    if let Some(shape) = by_level.first_mut() {
        shape.nodes += 1;
        shape.bytes += leaf.meta.bytes;
        shape.entries += leaf.meta.entries;
        shape.placeholder += u64::from(leaf.is_placeholder());
    }
}

impl fmt::Display for TreeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for shape in &self.levels {
            let LevelShape { level, nodes, bytes, .. } = shape;
            if *level == 0 {
                let average = bytes / nodes.max(&1);
                writeln!(
                    f,
                    "leaves   {nodes:>8}  {bytes} B, {average} B each, {} entries, {} placeholder",
                    shape.entries, shape.placeholder
                )?;
            } else {
                writeln!(
                    f,
                    "level {level:<2} {nodes:>8}  {} children ({} to {}), {bytes} B wait in {} \
                     tiers (most {}) of {} parts",
                    shape.children,
                    shape.children_min,
                    shape.children_max,
                    shape.tiers,
                    shape.tiers_max,
                    shape.parts
                )?;
            }
        }
        Ok(())
    }
}
