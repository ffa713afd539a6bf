//! Point lookups of many keys in one descent: a node is visited once for all keys below it. Its
//! runs are searched key by key.
//!
//! Invariants
//! 1. For each key, the visitor sees what [`TreeRoot::get_selected`] shows of it, in the same
//!    order: newest first, until a message hides the rest.
//!
//! Threads: all; nothing is latched.

use crate::{block::columnar::ColumnSelection, error::Result, run::key_hash, sync::Arc};

use super::{
    TreeContext,
    apply::TreeRoot,
    get::{Lookup, Sought, live_run, look_in},
    node::{Child, Node, Root, RunHandle},
};

/// A key to search, its number among all keys, and whether its search has ended.
struct Open<'a> {
    sought: Sought<'a>,
    number: usize,
    done: bool,
}

/// A block of a leaf that must be read to find a key's row.
pub(crate) struct Lacking {
    pub leaf: Arc<RunHandle>,
    /// `None` where the leaf is not open.
    pub block: Option<usize>,
    /// The number of the key.
    pub key: usize,
}

impl TreeRoot {
    /// Passes every message of each of these keys, which ascend, to `visit` with the number of the
    /// key, until one hides the rest.
    pub fn get_many(
        &self,
        cx: &TreeContext,
        keys: &[&[u8]],
        selection: &ColumnSelection,
        visit: &mut dyn FnMut(usize, Lookup) -> Result<()>,
    ) -> Result<()> {
        let mut all = Vec::with_capacity(keys.len());
        for (number, &key) in keys.iter().enumerate() {
            let sought = Sought { key, hash: key_hash(key), selection };
            all.push(Open { sought, number, done: false });
        }
        match &self.root {
            Root::Empty => Ok(()),
            Root::Leaf(leaf) => look_for(cx, leaf, &mut all, visit),
            Root::Node(node) => pass(cx, node.load(cx)?, &mut all, visit),
        }
    }

    /// Returns the blocks of leaves that these keys, which ascend, need and that are not in memory.
    /// Reads nothing.
    pub fn lacking(&self, cx: &TreeContext, keys: &[&[u8]]) -> Vec<Lacking> {
        let mut all = Vec::new();
        match &self.root {
            Root::Empty => {}
            Root::Leaf(leaf) => lacking_of(cx, leaf, keys, 0, &mut all),
            Root::Node(node) => {
                if let Some(node) = node.resident() {
                    lacking_below(cx, node, keys, 0, &mut all);
                }
            }
        }
        all
    }
}

/// Returns how many of these keys, from the first on, lie below the same child as the first; and
/// the child.
fn below_one_child<T>(node: &Node, keys: &[T], key: impl Fn(&T) -> &[u8]) -> (usize, usize) {
    let Some(first) = keys.first() else { return (0, 0) };
    let child = node.child_for(key(first));
    let count = match node.pivots.get(child) {
        Some(pivot) => keys.partition_point(|one| key(one) < &**pivot),
        None => keys.len(),
    };
    // Keys that do not ascend are searched one by one.
    (child, count.max(1))
}

fn pass(
    cx: &TreeContext,
    node: &Node,
    keys: &mut [Open<'_>],
    visit: &mut dyn FnMut(usize, Lookup) -> Result<()>,
) -> Result<()> {
    let mut rest = keys;
    while !rest.is_empty() {
        let (child, count) = below_one_child(node, rest, |open| open.sought.key);
        let (group, later) = rest.split_at_mut(count);
        rest = later;
        for tier in &node.tiers {
            for open in group.iter_mut().filter(|open| !open.done) {
                if let Some(run) = live_run(tier, child, open.sought.key) {
                    let number = open.number;
                    open.done = look_in(cx, run, &open.sought, &mut |found| visit(number, found))?;
                }
            }
        }
        match node.children.get(child) {
            Some(Child::Leaf(leaf)) => look_for(cx, leaf, group, visit)?,
            Some(Child::Node(child)) if group.iter().any(|open| !open.done) => {
                pass(cx, child.load(cx)?, group, visit)?;
            }
            Some(Child::Node(_)) | None => {}
        }
    }
    Ok(())
}

/// Searches keys in a leaf.
fn look_for(
    cx: &TreeContext,
    leaf: &RunHandle,
    keys: &mut [Open<'_>],
    visit: &mut dyn FnMut(usize, Lookup) -> Result<()>,
) -> Result<()> {
    for open in keys.iter_mut().filter(|open| !open.done) {
        let number = open.number;
        open.done = look_in(cx, leaf, &open.sought, &mut |found| visit(number, found))?;
    }
    Ok(())
}

fn lacking_below(
    cx: &TreeContext,
    node: &Node,
    keys: &[&[u8]],
    first: usize,
    all: &mut Vec<Lacking>,
) {
    let mut at = 0;
    while let Some(rest) = keys.get(at..).filter(|rest| !rest.is_empty()) {
        let (child, count) = below_one_child(node, rest, |key| key);
        let group = &rest[..count];
        match node.children.get(child) {
            Some(Child::Leaf(leaf)) => lacking_of(cx, leaf, group, first + at, all),
            Some(Child::Node(child)) => {
                if let Some(child) = child.resident() {
                    lacking_below(cx, child, group, first + at, all);
                }
            }
            None => {}
        }
        at += count;
    }
}

fn lacking_of(
    cx: &TreeContext,
    leaf: &Arc<RunHandle>,
    keys: &[&[u8]],
    first: usize,
    all: &mut Vec<Lacking>,
) {
    if leaf.is_placeholder() || leaf.link().is_none() {
        return;
    }
    let Some(run) = leaf.resident() else {
        all.push(Lacking { leaf: leaf.clone(), block: None, key: first });
        return;
    };
    let mut last = None;
    for (number, key) in (first..).zip(keys) {
        let block = run.lacks(key, &*cx.cache);
        if block.is_some() && block != last {
            all.push(Lacking { leaf: leaf.clone(), block, key: number });
        }
        last = block.or(last);
    }
}
