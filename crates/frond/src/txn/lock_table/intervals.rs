//! An interval tree: holds intervals of keys of many trees, and finds those that contain a key. Its
//! nodes are ordered by the starts of the intervals, and each knows which interval of its subtree
//! ends last.
//!
//! The tree is a treap: a node lies above its children by a pseudo-random priority derived from its
//! place, so no order of insertions makes the tree deep. An interval that grows at its end stays
//! where it is; only the `last` fields above it change.
//!
//! Invariants
//! 1. In order, nodes ascend by (tree, begin, place); a parent's priority is not below its
//!    children's.
//! 2. `last` of a node is the place, in its subtree, of the greatest (tree, end).
//! 3. An interval's place does not change while it exists.
//!
//! Threads: under the mutex of the shard of ranges. Memory: buffers of removed intervals are kept
//! for new ones, up to a limit.

use std::cmp::Ordering;

use crate::TreeId;

/// On which side of its key a limit lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Edge {
    /// For a start: the key is included. For an end: it is not.
    Before,
    /// For a start: the key is not included. For an end: it is.
    After,
}

/// A limit between keys: before or after one, or beyond all.
#[derive(Clone, Debug)]
struct Limit {
    key: Vec<u8>,
    edge: Edge,
    is_unbounded: bool,
}

/// A limit passed by a caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At<'a> {
    /// Just before this key.
    Before(&'a [u8]),
    /// Just after this key.
    After(&'a [u8]),
    /// Beyond all keys on its side.
    Unbounded,
}

impl Limit {
    fn set(&mut self, at: At<'_>) {
        self.key.clear();
        let (key, edge, is_unbounded): (&[u8], _, _) = match at {
            At::Before(key) => (key, Edge::Before, false),
            At::After(key) => (key, Edge::After, false),
            At::Unbounded => (&[], Edge::Before, true),
        };
        self.key.extend_from_slice(key);
        (self.edge, self.is_unbounded) = (edge, is_unbounded);
    }

    fn get(&self) -> At<'_> {
        match self.edge {
            _ if self.is_unbounded => At::Unbounded,
            Edge::Before => At::Before(&self.key),
            Edge::After => At::After(&self.key),
        }
    }
}

impl<'a> At<'a> {
    fn place(self) -> Option<(&'a [u8], Edge)> {
        match self {
            At::Before(key) => Some((key, Edge::Before)),
            At::After(key) => Some((key, Edge::After)),
            At::Unbounded => None,
        }
    }

    /// Compares two starts: an unbounded one is before all.
    pub fn cmp_begin(self, other: At<'_>) -> Ordering {
        self.place().cmp(&other.place())
    }

    /// Compares two ends: an unbounded one is after all.
    pub fn cmp_end(self, other: At<'_>) -> Ordering {
        match (self.place(), other.place()) {
            (None, None) => Ordering::Equal,
            (None, _) => Ordering::Greater,
            (_, None) => Ordering::Less,
            (a, b) => a.cmp(&b),
        }
    }

    /// Whether an interval with this start may contain the key.
    fn begins_by(self, key: &[u8]) -> bool {
        self.place().is_none_or(|place| place <= (key, Edge::Before))
    }

    /// Whether an interval with this end may contain the key.
    fn ends_behind(self, key: &[u8]) -> bool {
        self.place().is_none_or(|place| place >= (key, Edge::After))
    }
}

const NONE: u32 = u32::MAX;

/// Number of buffers of removed intervals that are kept: as many as a busy store has at once.
const FREE_MAX: usize = 256;

#[derive(Clone, Debug)]
struct Node {
    tree: TreeId,
    owner: u32,
    begin: Limit,
    end: Limit,
    left: u32,
    right: u32,
    last: u32,
}

#[derive(Debug)]
pub(super) struct Intervals {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
    count: usize,
}

impl Default for Intervals {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE, count: 0 }
    }
}

/// The priority of a place: places are reused, but no order of calls selects them by key.
fn priority_of(place: u32) -> u32 {
    let mixed =
        u64::from(place).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb) as u32 ^ (mixed >> 32) as u32
}

impl Intervals {
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds an interval and returns its place.
    pub fn insert(&mut self, tree: TreeId, owner: u32, begin: At<'_>, end: At<'_>) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            let limit = || Limit { key: Vec::new(), edge: Edge::Before, is_unbounded: true };
            let at = self.nodes.len() as u32;
            let (begin, end) = (limit(), limit());
            self.nodes.push(Node { tree, owner, begin, end, left: NONE, right: NONE, last: at });
            at
        });
        let node = &mut self.nodes[at as usize];
        (node.tree, node.owner) = (tree, owner);
        node.begin.set(begin);
        node.end.set(end);
        self.link(at);
        self.count += 1;
        at
    }

    /// Removes an interval.
    pub fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.count -= 1;
        if self.count == 0 && self.nodes.len() > FREE_MAX {
            *self = Self::default();
            return;
        }
        if self.free.len() >= FREE_MAX {
            let node = &mut self.nodes[at as usize];
            (node.begin.key, node.end.key) = (Vec::new(), Vec::new());
        }
        self.free.push(at);
    }

    /// Moves an interval's end up to `end`, unless it is there already or after it.
    pub fn grow_end(&mut self, at: u32, end: At<'_>) {
        let node = &mut self.nodes[at as usize];
        if node.end.get().cmp_end(end).is_ge() {
            return;
        }
        node.end.set(end);
        if self.root == at {
            self.pull(at);
        } else {
            self.pull_path(self.root, at);
        }
    }

    /// Moves an interval's start down to `begin`, unless it is there already or before it.
    pub fn grow_begin(&mut self, at: u32, begin: At<'_>) {
        if self.begin(at).cmp_begin(begin).is_le() {
            return;
        }
        if self.count == 1 {
            self.nodes[at as usize].begin.set(begin);
            return;
        }
        self.unlink(at);
        self.nodes[at as usize].begin.set(begin);
        self.link(at);
    }

    pub fn begin(&self, at: u32) -> At<'_> {
        self.nodes[at as usize].begin.get()
    }

    pub fn end(&self, at: u32) -> At<'_> {
        self.nodes[at as usize].end.get()
    }

    pub fn tree(&self, at: u32) -> TreeId {
        self.nodes[at as usize].tree
    }

    pub fn holds(&self, at: u32, tree: TreeId, key: &[u8]) -> bool {
        self.tree(at) == tree && self.begin(at).begins_by(key) && self.end(at).ends_behind(key)
    }

    /// Calls `each` with the owner of each interval that contains this key, until it returns false.
    pub fn over(&self, tree: TreeId, key: &[u8], mut each: impl FnMut(u32) -> bool) {
        self.walk(self.root, tree, key, &mut each);
    }

    /// Calls `each` with the place and the owner of each interval, in order, until it returns
    /// false.
    pub fn each(&self, mut each: impl FnMut(u32, u32) -> bool) {
        let (mut at, mut above) = (self.root, Vec::new());
        while at != NONE || !above.is_empty() {
            while at != NONE {
                above.push(at);
                at = self.nodes[at as usize].left;
            }
            let Some(next) = above.pop() else { return };
            if !each(next, self.nodes[next as usize].owner) {
                return;
            }
            at = self.nodes[next as usize].right;
        }
    }

    fn walk(&self, at: u32, tree: TreeId, key: &[u8], each: &mut impl FnMut(u32) -> bool) -> bool {
        if at == NONE {
            return true;
        }
        let node = &self.nodes[at as usize];
        let last = &self.nodes[node.last as usize];
        // Every interval of this subtree ends before the key.
        if last.tree < tree || last.tree == tree && !last.end.get().ends_behind(key) {
            return true;
        }
        if !self.walk(node.left, tree, key, each) {
            return false;
        }
        // This interval and all to its right start after the key.
        if node.tree > tree || node.tree == tree && !node.begin.get().begins_by(key) {
            return true;
        }
        if self.holds(at, tree, key) && !each(node.owner) {
            return false;
        }
        self.walk(node.right, tree, key, each)
    }

    fn cmp(&self, a: u32, b: u32) -> Ordering {
        let (left, right) = (&self.nodes[a as usize], &self.nodes[b as usize]);
        left.tree
            .cmp(&right.tree)
            .then_with(|| left.begin.get().cmp_begin(right.begin.get()))
            .then(a.cmp(&b))
    }

    /// The one of two intervals that ends later.
    fn later(&self, a: u32, b: u32) -> u32 {
        let (left, right) = (&self.nodes[a as usize], &self.nodes[b as usize]);
        let order = left.tree.cmp(&right.tree);
        if order.then_with(|| left.end.get().cmp_end(right.end.get())).is_ge() { a } else { b }
    }

    /// Recomputes which interval of a subtree ends last.
    fn pull(&mut self, at: u32) {
        let Node { left, right, .. } = self.nodes[at as usize];
        let mut last = at;
        for child in [left, right] {
            if child != NONE {
                last = self.later(last, self.nodes[child as usize].last);
            }
        }
        self.nodes[at as usize].last = last;
    }

    fn pull_path(&mut self, top: u32, at: u32) {
        if top != at {
            let Node { left, right, .. } = self.nodes[top as usize];
            let below = if self.cmp(at, top).is_lt() { left } else { right };
            self.pull_path(below, at);
        }
        self.pull(top);
    }

    fn link(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        (node.left, node.right, node.last) = (NONE, NONE, at);
        if self.root == NONE {
            self.root = at;
            return;
        }
        let (left, right) = self.split(self.root, at);
        let left = self.merge(left, at);
        self.root = self.merge(left, right);
    }

    fn unlink(&mut self, at: u32) {
        self.root = self.without(self.root, at);
    }

    fn without(&mut self, top: u32, at: u32) -> u32 {
        let Node { left, right, .. } = self.nodes[top as usize];
        if top == at {
            return self.merge(left, right);
        }
        if self.cmp(at, top).is_lt() {
            self.nodes[top as usize].left = self.without(left, at);
        } else {
            self.nodes[top as usize].right = self.without(right, at);
        }
        self.pull(top);
        top
    }

    /// Splits a subtree into what comes before `at` and what comes after it.
    fn split(&mut self, top: u32, at: u32) -> (u32, u32) {
        if top == NONE {
            return (NONE, NONE);
        }
        if self.cmp(top, at).is_lt() {
            let (left, right) = self.split(self.nodes[top as usize].right, at);
            self.nodes[top as usize].right = left;
            self.pull(top);
            (top, right)
        } else {
            let (left, right) = self.split(self.nodes[top as usize].left, at);
            self.nodes[top as usize].left = right;
            self.pull(top);
            (left, top)
        }
    }

    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE {
            return right;
        }
        if right == NONE {
            return left;
        }
        if priority_of(left) >= priority_of(right) {
            let below = self.nodes[left as usize].right;
            self.nodes[left as usize].right = self.merge(below, right);
            self.pull(left);
            left
        } else {
            let below = self.nodes[right as usize].left;
            self.nodes[right as usize].left = self.merge(left, below);
            self.pull(right);
            right
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// By definition: a list.
    struct Plain(Vec<(u32, TreeId, u32, Option<(u8, bool)>, Option<(u8, bool)>)>);

    fn at(limit: Option<(u8, bool)>, key: &mut [u8; 1]) -> At<'_> {
        match limit {
            None => At::Unbounded,
            Some((byte, after)) => {
                key[0] = byte;
                if after { At::After(key) } else { At::Before(key) }
            }
        }
    }

    #[test]
    fn intervals_agree_with_a_list() {
        let mut toss = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = move |below: u64| {
            toss ^= toss << 13;
            toss ^= toss >> 7;
            toss ^= toss << 17;
            (toss >> 11) % below
        };
        for _ in 0..60 {
            let mut intervals = Intervals::default();
            let mut plain = Plain(Vec::new());
            for _ in 0..300 {
                let mut limit = || (next(8) > 0).then(|| (next(20) as u8, next(2) == 0));
                let (begin, end) = (limit(), limit());
                let (a, b) = (&mut [0], &mut [0]);
                let chosen = next(plain.0.len().max(1) as u64) as usize;
                match next(6) {
                    0..=2 => {
                        let (tree, owner) = (TreeId(next(3) as u32), next(4) as u32);
                        let place = intervals.insert(tree, owner, at(begin, a), at(end, b));
                        plain.0.push((place, tree, owner, begin, end));
                    }
                    3 if !plain.0.is_empty() => {
                        let (place, ..) = plain.0.swap_remove(chosen);
                        intervals.remove(place);
                    }
                    4 if !plain.0.is_empty() => {
                        let own = &mut plain.0[chosen];
                        intervals.grow_end(own.0, at(end, b));
                        if at(own.4, a).cmp_end(at(end, b)).is_lt() {
                            own.4 = end;
                        }
                    }
                    5 if !plain.0.is_empty() => {
                        let own = &mut plain.0[chosen];
                        intervals.grow_begin(own.0, at(begin, b));
                        if at(own.3, a).cmp_begin(at(begin, b)).is_gt() {
                            own.3 = begin;
                        }
                    }
                    _ => {}
                }
                let (tree, key) = (TreeId(next(3) as u32), [next(20) as u8]);
                let mut found = Vec::new();
                intervals.over(tree, &key, |owner| {
                    found.push(owner);
                    true
                });
                let begins = |limit: Option<(u8, bool)>| {
                    limit.is_none_or(|(byte, after)| byte < key[0] || byte == key[0] && !after)
                };
                let ends = |limit: Option<(u8, bool)>| {
                    limit.is_none_or(|(byte, after)| byte > key[0] || byte == key[0] && after)
                };
                let all = plain.0.iter();
                let mut expected: Vec<u32> = all
                    .filter(|own| own.1 == tree && begins(own.3) && ends(own.4))
                    .map(|own| own.2)
                    .collect();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "over {key:?} of {tree:?}");
                assert_eq!(intervals.len(), plain.0.len());
            }
        }
    }

    fn depth(intervals: &Intervals, at: u32) -> usize {
        if at == NONE {
            return 0;
        }
        let Node { left, right, .. } = intervals.nodes[at as usize];
        1 + depth(intervals, left).max(depth(intervals, right))
    }

    #[test]
    fn ascending_intervals_do_not_make_a_deep_tree() {
        let mut intervals = Intervals::default();
        for begin in 0..10_000_u32 {
            let key = begin.to_be_bytes();
            intervals.insert(TreeId(1), 1, At::Before(&key), At::After(&key));
        }
        let depth = depth(&intervals, intervals.root);
        assert!(depth < 60, "{depth}");
        let mut met = 0;
        intervals.over(TreeId(1), &77_u32.to_be_bytes(), |_| {
            met += 1;
            true
        });
        assert_eq!(met, 1);
    }
}
