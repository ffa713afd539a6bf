//! Gap locks by definition: the stretch of each cursor as it was requested, in a plain list.

use std::{
    collections::BTreeSet,
    ops::{Bound, RangeBounds},
};

use crate::TreeId;

/// The stretch that one cursor has locked.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub owner: usize,
    pub tree: TreeId,
    pub from: Bound<u8>,
    pub to: Bound<u8>,
}

/// Number of keys in a stretch.
fn count(from: Bound<u8>, to: Bound<u8>) -> usize {
    (0..=u8::MAX).filter(|key| (from, to).contains(key)).count()
}

impl Stretch {
    /// Whether its end is not before its start; it may be empty.
    pub fn is_one(&self) -> bool {
        count(self.from, Bound::Unbounded) + count(Bound::Unbounded, self.to) > u8::MAX.into()
    }

    pub fn holds(&self, tree: TreeId, key: u8) -> bool {
        self.tree == tree && (self.from, self.to).contains(&key)
    }
}

/// All stretches.
#[derive(Debug, Default)]
pub struct Gaps {
    all: Vec<Stretch>,
    /// Whether an inserter (first) may pass a gap of a holder (second).
    pub is_passed: Option<fn(usize, usize) -> bool>,
}

impl Gaps {
    pub fn lock(&mut self, stretch: Stretch) {
        self.all.push(stretch);
    }

    /// All stretches.
    pub fn all(&self) -> &[Stretch] {
        &self.all
    }

    /// The stretches of an owner, in the order in which they were locked.
    fn of(&mut self, owner: usize) -> impl Iterator<Item = &mut Stretch> {
        self.all.iter_mut().filter(move |stretch| stretch.owner == owner)
    }

    pub fn count(&mut self, owner: usize) -> usize {
        self.of(owner).count()
    }

    /// A cursor advances. What it has locked stays locked.
    pub fn grow_up(&mut self, owner: usize, cursor: usize, to: Bound<u8>) {
        let stretch = self.of(owner).nth(cursor).unwrap();
        if count(Bound::Unbounded, to) > count(Bound::Unbounded, stretch.to) {
            stretch.to = to;
        }
    }

    /// A cursor moves backwards.
    pub fn grow_down(&mut self, owner: usize, cursor: usize, from: Bound<u8>) {
        let stretch = self.of(owner).nth(cursor).unwrap();
        if count(from, Bound::Unbounded) > count(stretch.from, Bound::Unbounded) {
            stretch.from = from;
        }
    }

    /// Whether a stretch of an owner contains a key.
    pub fn has(&self, owner: usize, tree: TreeId, key: u8) -> bool {
        self.all.iter().any(|stretch| stretch.owner == owner && stretch.holds(tree, key))
    }

    /// Other owners whose stretches contain a key and conflict with an insert.
    pub fn over(&self, owner: usize, tree: TreeId, key: u8) -> BTreeSet<usize> {
        let over = self.all.iter().filter(|stretch| stretch.holds(tree, key));
        let holders = over.map(|stretch| stretch.owner).filter(|holder| *holder != owner);
        holders
            .filter(|holder| !self.is_passed.is_some_and(|passed| passed(owner, *holder)))
            .collect()
    }

    pub fn release(&mut self, owner: usize) {
        self.all.retain(|stretch| stretch.owner != owner);
    }
}
