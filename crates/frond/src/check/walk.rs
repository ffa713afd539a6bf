//! Walking the nodes and leaves of a tree in the current version.
//!
//! Memory: the path. Nodes that are not in memory are read, and do not stay there; leaves are not
//! read.

use crate::{
    Result, Tree,
    tree::{Child, Node, NodeRef, Root, RunHandle, TreeContext},
};

/// A page visited by a walk.
pub(super) enum Page<'a> {
    /// A node, visited before its children.
    Node(&'a Node),
    /// A leaf, which may be a placeholder.
    Leaf(&'a RunHandle),
}

impl Tree {
    /// Visits every node and leaf, in key order. Entries that are still in memtables have no pages.
    pub(super) fn walk_pages(
        &self,
        see: &mut dyn FnMut(&TreeContext, Page<'_>) -> Result<()>,
    ) -> Result<()> {
        self.entry.check()?;
        let engine = &self.shared.engine;
        let version = engine.versions.hold();
        match version.roots.get(&self.entry.id).map(|root| &root.root) {
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
