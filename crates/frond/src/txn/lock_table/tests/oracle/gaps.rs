//! Gaps by definition: each cursor's stretch of keys as it was asked for, in a plain list.

use std::{
    collections::BTreeSet,
    ops::{Bound, RangeBounds},
};

use crate::TreeId;

/// What one cursor has locked.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    pub owner: usize,
    pub tree: TreeId,
    pub from: Bound<u8>,
    pub to: Bound<u8>,
}

/// How many keys a stretch holds.
fn count(from: Bound<u8>, to: Bound<u8>) -> usize {
    (0..=u8::MAX).filter(|key| (from, to).contains(key)).count()
}

impl Stretch {
    /// Its end is not before its begin; it may hold nothing.
    pub fn is_one(&self) -> bool {
        count(self.from, Bound::Unbounded) + count(Bound::Unbounded, self.to) > u8::MAX.into()
    }

    pub fn holds(&self, tree: TreeId, key: u8) -> bool {
        self.tree == tree && (self.from, self.to).contains(&key)
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Gaps {
    all: Vec<Stretch>,
    /// Who inserts, and who holds the gap: whether it passes nevertheless.
    pub is_passed: Option<fn(usize, usize) -> bool>,
}

impl Gaps {
    pub fn lock(&mut self, stretch: Stretch) {
        self.all.push(stretch);
    }

    /// All that there are.
    pub fn all(&self) -> &[Stretch] {
        &self.all
    }

    /// Stretches of an owner, in the order in which they were locked.
    fn of(&mut self, owner: usize) -> impl Iterator<Item = &mut Stretch> {
        self.all.iter_mut().filter(move |stretch| stretch.owner == owner)
    }

    pub fn count(&mut self, owner: usize) -> usize {
        self.of(owner).count()
    }

    /// A cursor goes on, forwards. What it has locked stays locked.
    pub fn grow_up(&mut self, owner: usize, cursor: usize, to: Bound<u8>) {
        let stretch = self.of(owner).nth(cursor).unwrap();
        if count(Bound::Unbounded, to) > count(Bound::Unbounded, stretch.to) {
            stretch.to = to;
        }
    }

    /// A cursor goes on, backwards.
    pub fn grow_down(&mut self, owner: usize, cursor: usize, from: Bound<u8>) {
        let stretch = self.of(owner).nth(cursor).unwrap();
        if count(from, Bound::Unbounded) > count(stretch.from, Bound::Unbounded) {
            stretch.from = from;
        }
    }

    /// An owner has a stretch that holds a key.
    pub fn has(&self, owner: usize, tree: TreeId, key: u8) -> bool {
        self.all.iter().any(|stretch| stretch.owner == owner && stretch.holds(tree, key))
    }

    /// Others whose stretches hold a key and stand against an insert.
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
