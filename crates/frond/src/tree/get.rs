//! Point lookups: from the root's buffer down to the leaf, newest message first.
//!
//! The key is hashed once; a run's filter is checked before its index. A lookup stops at the first
//! message that hides everything older. Cost: one filter probe per run on the path, one block of
//! the leaf.
//!
//! Threads: all; nothing is latched.

use crate::{
    block::columnar::ColumnSelection,
    error::Result,
    message::{Message, Tag},
    run::{Found, key_hash},
    sync::Arc,
};

use super::{
    TreeContext,
    apply::TreeRoot,
    node::{Child, Node, Root, RunHandle, Tier},
};

/// What a lookup reports about a key, newest first.
pub(crate) enum Lookup {
    /// A message.
    Message(Found),
    /// A range delete covers the key: nothing older counts.
    RangeDeleted,
}

impl Lookup {
    /// The message; a range delete is reported as a Delete.
    pub fn message(&self) -> Message<'_> {
        match self {
            Lookup::Message(found) => found.message(),
            Lookup::RangeDeleted => Message::new(Tag::DELETE, &[]),
        }
    }

    /// True if its payload is the whole value, and not only the wanted fields.
    pub fn is_whole(&self) -> bool {
        match self {
            Lookup::Message(found) => found.is_whole(),
            Lookup::RangeDeleted => true,
        }
    }
}

/// A key, and the wanted fields of its value.
pub(super) struct Sought<'a> {
    pub key: &'a [u8],
    pub hash: u64,
    pub selection: &'a ColumnSelection,
}

impl TreeRoot {
    /// Passes every message of `key` to `visit`, newest first, until one hides the rest.
    pub fn get(
        &self,
        cx: &TreeContext,
        key: &[u8],
        visit: &mut dyn FnMut(Lookup) -> Result<()>,
    ) -> Result<()> {
        self.get_selected(cx, key, &ColumnSelection::All, visit)
    }

    /// Looks up `key` as [`get`](Self::get) does, with only the wanted fields of values where they
    /// lie in columns.
    pub fn get_selected(
        &self,
        cx: &TreeContext,
        key: &[u8],
        selection: &ColumnSelection,
        visit: &mut dyn FnMut(Lookup) -> Result<()>,
    ) -> Result<()> {
        let sought = &Sought { key, hash: key_hash(key), selection };
        let mut node: &Node = match &self.root {
            Root::Empty => return Ok(()),
            Root::Leaf(leaf) => return look_in(cx, leaf, sought, visit).map(drop),
            Root::Node(node) => node.load(cx)?,
        };
        loop {
            let mut c = node.child_for(key);
            if plant!("tree: pivot off by one") && node.pivots.iter().any(|pivot| &**pivot == key) {
                c -= 1;
            }
            for tier in &node.tiers {
                if let Some(run) = live_run(tier, c, key)
                    && look_in(cx, run, sought, visit)?
                {
                    return Ok(());
                }
            }
            match node.children.get(c) {
                Some(Child::Leaf(leaf)) => return look_in(cx, leaf, sought, visit).map(drop),
                Some(Child::Node(child)) => node = child.load(cx)?,
                None => return Ok(()),
            }
        }
    }
}

pub(super) fn live_run<'n>(tier: &'n Tier, c: usize, key: &[u8]) -> Option<&'n Arc<RunHandle>> {
    let slice = tier.slice_for(key)?;
    slice.live.get(c).is_some_and(|&bytes| bytes > 0).then_some(&slice.run)
}

/// Looks in one run; true if what was found hides everything older.
pub(super) fn look_in(
    cx: &TreeContext,
    handle: &RunHandle,
    sought: &Sought<'_>,
    visit: &mut dyn FnMut(Lookup) -> Result<()>,
) -> Result<bool> {
    if handle.is_placeholder() {
        return Ok(false);
    }
    let &Sought { key, hash, selection } = sought;
    let run = handle.open(cx)?;
    if let Some(found) = run.get_selected(key, hash, &*cx.cache, selection)? {
        let base = found.tag.is_base();
        visit(Lookup::Message(found))?;
        if base {
            return Ok(true);
        }
    }
    if handle.meta.range_deletes && run.range_deletes().covers(key) {
        visit(Lookup::RangeDeleted)?;
        return Ok(true);
    }
    Ok(false)
}
