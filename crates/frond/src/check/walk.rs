//! The nodes and leaves of a tree, as the current version has them.
//!
//! Memory: the path. Nodes that are not in memory are read, and do not stay there; of leaves only what their
//! parents know is shown.

use crate::{
    Db, Result,
    tree::{Child, Node, NodeRef, Root, RunHandle, TreeContext},
};

/// What a walk shows.
pub(super) enum Page<'a> {
    /// A node, before its children.
    Node(&'a Node),
    /// A leaf, which may be hollow.
    Leaf(&'a RunHandle),
}

impl Db {
    /// Shows every node and leaf of a tree, in the order of keys. What waits in memory has none.
    pub(super) fn walk_pages(
        &self,
        tree: &str,
        see: &mut dyn FnMut(&TreeContext, Page<'_>) -> Result<()>,
    ) -> Result<()> {
        let tree = self.open_tree(tree)?.entry.id;
        let engine = &self.shared.engine;
        let version = engine.versions.hold();
        match version.roots.get(&tree).map(|root| &root.root) {
            None | Some(Root::Empty) => Ok(()),
            Some(Root::Leaf(leaf)) => see(&engine.cx, Page::Leaf(leaf)),
            Some(Root::Node(node)) => walk_node(&engine.cx, node, see),
        }
    }
}

fn walk_node(
    cx: &TreeContext,
    node: &NodeRef,
    see: &mut dyn FnMut(&TreeContext, Page<'_>) -> Result<()>,
) -> Result<()> {
    let content = node.glance(cx)?;
    see(cx, Page::Node(&content))?;
    for child in &content.children {
        match child {
            Child::Leaf(leaf) => see(cx, Page::Leaf(leaf))?,
            Child::Node(child) => walk_node(cx, child, see)?,
        }
    }
    Ok(())
}
