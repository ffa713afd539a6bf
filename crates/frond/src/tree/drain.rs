//! Draining: buffers emptied towards the leaves while the machine has nothing else to do, and the
//! end of a whole tree.
//!
//! A drain does one bounded piece of work, about one node's leaves, and returns; the next call goes
//! on. Reads of a drained tree meet one run.

use crate::{
    Lineage,
    error::Result,
    sync::{Arc, Ordering},
};

use super::{
    TreeContext,
    apply::{Job, TreeRoot},
    context::Effects,
    node::{Child, Node, NodeRef, Root},
};

impl Job<'_> {
    /// Moves some of what waits in buffers down; `None` if nothing waits anywhere. Expects a job with
    /// a leaf fill of 0, so that leaves take whatever waits for them.
    pub fn drain(&mut self, old: &TreeRoot) -> Result<Option<TreeRoot>> {
        let Root::Node(node) = &old.root else { return Ok(None) };
        let Some(pieces) = self.drain_node(node)? else { return Ok(None) };
        self.cx.counters.drains.fetch_add(1, Ordering::Relaxed);
        Ok(Some(TreeRoot { root: self.root_of(pieces), ..old.clone() }))
    }

    fn drain_node(&mut self, node: &Arc<NodeRef>) -> Result<Option<Vec<(Box<[u8]>, Node)>>> {
        let content = node.load(self.cx)?;
        if !content.tiers.is_empty() {
            let mut changed = self.reopen(node)?;
            if changed.level > 1 {
                let pending = changed.pending_by_child();
                let fullest = pending.iter().enumerate().max_by_key(|&(_, &bytes)| bytes);
                if let Some((c, _)) = fullest {
                    self.push_child(&mut changed, c)?;
                }
                changed.drop_consumed();
                return Ok(Some(self.split(changed)));
            }
            return self.settle(changed).map(Some);
        }
        for (c, child) in content.children.iter().enumerate() {
            let Child::Node(child) = child else { return Ok(None) };
            if let Some(pieces) = self.drain_node(child)? {
                let mut changed = self.reopen(node)?;
                self.replace_node(&mut changed, c, pieces);
                return Ok(Some(self.split(changed)));
            }
        }
        Ok(None)
    }
}

impl TreeRoot {
    /// Counts every page that the tree wrote in its lineage as dead. Reads those nodes, no leaf; what
    /// it inherited is not its own, nor is anything below it (Rule: I19).
    pub fn bury(&self, cx: &TreeContext, own: Lineage, effects: &mut Effects) -> Result<()> {
        match &self.root {
            Root::Empty => Ok(()),
            Root::Leaf(leaf) => {
                effects.count(leaf, -1);
                Ok(())
            }
            Root::Node(node) => bury_node(cx, node, own, effects),
        }
    }
}

fn bury_node(
    cx: &TreeContext,
    node: &Arc<NodeRef>,
    own: Lineage,
    effects: &mut Effects,
) -> Result<()> {
    if node.lineage != own {
        return Ok(());
    }
    let content = node.load(cx)?;
    effects.dead_nodes.push(node.clone());
    content.run_refs().for_each(|run| effects.count(run, -1));
    for child in &content.children {
        if let Child::Node(child) = child {
            bury_node(cx, child, own, effects)?;
        }
    }
    Ok(())
}
