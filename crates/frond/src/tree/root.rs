//! Roots of trees as a whole: loading one from the root directory or a log record, and its row
//! count.

use crate::{store::TreeRoot as DurableRoot, sync::OnceLock};

use super::{
    TreeContext,
    apply::TreeRoot,
    meta::{Measured, RunMeta},
    node::{NodeRef, Root},
};

impl TreeRoot {
    /// The root that a root directory, or a log record, names. Reads nothing.
    pub fn load(cx: &TreeContext, durable: DurableRoot) -> Self {
        let root = match durable.link {
            None => Root::Empty,
            Some(link) if durable.level == 0 => {
                let meta = RunMeta {
                    entries: durable.entries,
                    deletes: 0,
                    bytes: durable.bytes,
                    range_deletes: false,
                    blobs: durable.leaf_has_blobs,
                    measured: durable.sums.and_then(Measured::of_root),
                };
                Root::Leaf(cx.run_handle(link, meta))
            }
            Some(link) => Root::Node(NodeRef::on_disk(link, durable.level)),
        };
        let stored =
            (durable.level > 0 && durable.entries > 0).then_some((durable.entries, durable.bytes));
        let sums = OnceLock::new();
        if let (Root::Node(_), Some(known)) = (&root, durable.sums) {
            let _ = sums.set(Box::new(known));
        }
        Self { root, max_key: durable.max_key, counted: durable.rows, stored, sums }
    }

    /// True if the root is a node: only then can anything wait in buffers.
    pub fn is_node(&self) -> bool {
        matches!(self.root, Root::Node(_))
    }

    /// The number of rows, if it is known.
    pub fn rows(&self) -> Option<u64> {
        if matches!(self.root, Root::Empty) { Some(0) } else { self.counted }
    }

    /// Sets the number of rows to that of `old` plus the change `more`, if both are known.
    pub fn count(&mut self, old: &Self, more: Option<i64>) {
        self.counted = old.rows().zip(more).and_then(|(rows, more)| rows.checked_add_signed(more));
    }
}
