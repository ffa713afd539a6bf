//! Checked inserts of a batch, in the caller's order.
//!
//! A checked insert is checked against the state of the store after the batch's earlier operations.
//! Later operations do not change the result. The naive form keeps the check with the message,
//! which is wrong in two cases: a later range delete over the key hides the message and the check
//! with it, and an earlier range delete is ignored. So each check is resolved before anything is
//! hidden or folded:
//!
//! 1. If the batch has put a row under the key before, the insert is refused.
//! 2. If the batch has deleted the key before, alone or in a range, the key is absent, whatever the
//!    store has.
//! 3. Otherwise the store must not have the key. The entry stays marked, and if a later range
//!    delete hides it, its check is kept separately.
//!
//! Without range deletes the fold does this (`WriteSet::fold`), since everything that sets a key's
//! state is in the key's entries.
//!
//! Threads: one. Cost: a check of two flags, unless a batch has both inserts and range deletes:
//! then O(n log n).

use std::collections::BTreeMap;

use crate::{
    Duplicate, Error, TreeId, error::Result, message::Kind, txn::range_tombstones::RangeTombstones,
};

use super::{Entry, Slot, WriteSet};

/// What decides the result of a checked insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asks {
    /// Refused: the batch has made a row of the key before.
    IsRefused,
    /// Allowed: the batch has deleted the key before.
    IsAbsent,
    /// Depends on whether the store has the key.
    Store,
}

impl WriteSet {
    /// Resolves the checked inserts of a batch. Must be called before each [`seal`](Self::seal) of
    /// a batch; what is resolved already stays so.
    ///
    /// # Errors
    /// `Duplicate::InBatch` if the batch itself has made a row of the key before.
    pub fn resolve_inserts(&mut self) -> Result<()> {
        if !self.has_inserts || self.ranges.is_empty() {
            return Ok(());
        }
        let asked = self.judge_inserts();
        for &(at, asks) in &asked {
            match asks {
                Asks::IsRefused => return Err(self.inserted_twice(&self.slots[at])),
                Asks::IsAbsent => {
                    self.slots[at].insert =
                        plant!("txn: an insert after a range delete of its batch asks the store");
                }
                Asks::Store => {}
            }
        }
        let covers = self.covers();
        let hides = |slot: &Slot| {
            let number = covers.get(&slot.tree).and_then(|covers| covers.newest(self.key(slot)));
            number.is_some_and(|number| self.ranges[number as usize].position > slot.position)
        };
        let hidden: Vec<Slot> =
            self.slots.iter().filter(|slot| slot.insert && hides(slot)).copied().collect();
        if !plant!("txn: a range delete hides the check of an insert before it") {
            self.hidden_inserts.extend(hidden);
        }
        Ok(())
    }

    /// The outcome of each insert that is an entry, by number of its slot, in the batch's order.
    fn judge_inserts(&self) -> Vec<(usize, Asks)> {
        let mut order: Vec<usize> = (0..self.slots.len()).collect();
        order.sort_by_key(|&at| self.slots[at].position);
        let mut covers: BTreeMap<TreeId, RangeTombstones> = BTreeMap::new();
        let mut newest: BTreeMap<(TreeId, &[u8]), &Slot> = BTreeMap::new();
        let mut ranges: Vec<_> = (0u32..).zip(&self.ranges).collect();
        // A seal has sorted them by tree.
        ranges.sort_by_key(|(_, range)| range.position);
        let mut ranges = ranges.into_iter().peekable();
        let mut asked = Vec::new();
        for at in order {
            let slot = &self.slots[at];
            while let Some((number, range)) =
                ranges.next_if(|(_, range)| range.position <= slot.position)
            {
                covers.entry(range.tree).or_default().add(&range.from, &range.to, number);
            }
            let key = self.key(slot);
            let before = newest.insert((slot.tree, key), slot);
            if !slot.insert {
                continue;
            }
            let cover = covers.get(&slot.tree).and_then(|covers| covers.newest(key));
            let cover = cover.map(|number| self.ranges[number as usize].position);
            let before = before.filter(|before| cover.is_none_or(|at| at <= before.position));
            let asks = match before {
                Some(before) if before.tag.kind() != Kind::Delete => Asks::IsRefused,
                None if cover.is_none() => Asks::Store,
                _ => Asks::IsAbsent,
            };
            asked.push((at, asks));
        }
        asked
    }

    /// All inserts of a batch and their outcomes, in the batch's order. Costs O(n log n): it is
    /// used to name the first refused insert of a batch that is already refused.
    pub fn asked_inserts(&self) -> Vec<(TreeId, Entry<'_>, Asks)> {
        let hidden = self.hidden_inserts.iter().map(|slot| (slot, Asks::Store));
        let judged = self.judge_inserts().into_iter().map(|(at, asks)| (&self.slots[at], asks));
        let mut asked: Vec<_> = hidden.chain(judged).collect();
        asked.sort_by_key(|(slot, _)| slot.position);
        asked.into_iter().map(|(slot, asks)| (slot.tree, self.entry(slot), asks)).collect()
    }

    /// The error for an insert whose key the batch has set before. It contains no tree name, which
    /// only the caller knows.
    pub(super) fn inserted_twice(&self, slot: &Slot) -> Error {
        let (tree, index) = (String::new(), self.index_of(slot.position as usize));
        Error::DuplicateKey(Duplicate::InBatch { tree, entry: index, key: self.key(slot).to_vec() })
    }

    /// The index in the batch, range deletes counted, of the entry at a position.
    pub fn index_of(&self, position: usize) -> usize {
        // A seal has sorted them by tree.
        let before = self.ranges.iter().filter(|range| range.position as usize <= position);
        position + before.count()
    }

    /// The entries of a tree whose keys must not be in the store: inserts, including those that a
    /// later range delete hides. After `seal`.
    pub fn inserts(&self, tree: TreeId) -> impl Iterator<Item = Entry<'_>> {
        self.entries(tree).filter(|entry| entry.insert).chain(self.hidden_inserts(tree))
    }

    /// Inserts of a tree that are no longer entries, since a later range delete hides them.
    pub fn hidden_inserts(&self, tree: TreeId) -> impl Iterator<Item = Entry<'_>> {
        let hidden = self.hidden_inserts.iter().filter(move |slot| slot.tree == tree);
        hidden.map(|slot| self.entry(slot))
    }
}
