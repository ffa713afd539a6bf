//! A root as a whole: out of the root directory or a record of the log, and what lists blobs below it.

use crate::{ErrorKind, error::Result, store::TreeRoot as DurableRoot, sync::Arc};

use super::{
    TreeContext,
    apply::TreeRoot,
    node::{Child, NodeRef, Root, RunHandle, RunMeta},
};

impl TreeRoot {
    /// The root that a root directory, or a record of the log, names. Reads nothing.
    pub fn load(cx: &TreeContext, durable: DurableRoot) -> Self {
        let root = match durable.link {
            None => Root::Empty,
            Some(link) if durable.level == 0 => {
                let meta = RunMeta {
                    entries: durable.entries,
                    bytes: durable.bytes,
                    range_deletes: false,
                    blobs: durable.leaf_has_blobs,
                };
                Root::Leaf(cx.run_handle(link, meta))
            }
            Some(link) => Root::Node(NodeRef::on_disk(link, durable.level)),
        };
        let has_max = durable.max_key.is_some();
        Self { root, max_key: durable.max_key.unwrap_or_default(), has_max }
    }

    /// Those of its runs that list blobs, and can be read. Reads every node and keeps none.
    pub fn runs_with_blobs(&self, cx: &TreeContext) -> Result<Vec<Arc<RunHandle>>> {
        let mut found = Vec::new();
        match &self.root {
            Root::Empty => {}
            Root::Leaf(leaf) if leaf.meta.blobs => {
                found.extend(unless_damaged(leaf.glance(cx))?.map(|_| leaf.clone()));
            }
            Root::Leaf(_) => {}
            Root::Node(node) => find_blobs(cx, node, &mut found)?,
        }
        Ok(found)
    }
}

fn find_blobs(cx: &TreeContext, node: &NodeRef, found: &mut Vec<Arc<RunHandle>>) -> Result<()> {
    let Some(content) = unless_damaged(node.glance(cx))? else { return Ok(()) };
    for run in content.run_refs().filter(|run| run.meta.blobs) {
        found.extend(unless_damaged(run.glance(cx))?.map(|_| run.clone()));
    }
    content.children.iter().try_for_each(|child| match child {
        Child::Node(child) => find_blobs(cx, child, found),
        Child::Leaf(_) => Ok(()),
    })
}

/// What cannot be read stops nobody (Rule: I38): nobody can reach what is below it either.
fn unless_damaged<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind() == ErrorKind::Restore => Ok(None),
        read => read.map(Some),
    }
}
