//! Held locks: the table's list compared with the definition's, at every step.
//!
//! This detects a lock that is kept too long or lost, even if no transaction waits for it: what
//! savepoints, prepares and failed waits release or leave, what was spilled, and what a
//! prepared owner keeps.
//!
//! By definition, a transaction that waits for one that answers for spilled rows does not
//! hold the row yet; in the table it already does. Both lists leave such a row out.

use std::collections::BTreeMap;

use super::{game::Game, model::Id, *};
use crate::txn::lock_table::mode::Mode;

/// Which keys lie in gaps, one bit each.
type Keys = u32;

/// Locks by their owners. For a tree, the join of its modes counts, wherever they are recorded. For
/// gaps, the keys covered by any of an owner's intervals count, since a cursor that starts inside
/// another of its owner's gaps adds nothing.
#[derive(PartialEq, Eq, Default, Debug)]
pub struct Held {
    rows: BTreeMap<(usize, TreeId, u128), u8>,
    trees: BTreeMap<(usize, TreeId), u8>,
    gaps: BTreeMap<(usize, TreeId), Keys>,
}

impl Held {
    fn add_row(&mut self, owner: usize, tree: TreeId, hash: u128, mode: Mode) {
        let twice = self.rows.insert((owner, tree, hash), mode as u8);
        assert!(twice.is_none(), "one lock a row");
    }

    fn add_tree(&mut self, owner: usize, tree: TreeId, mode: Mode) {
        let all = self.trees.entry((owner, tree)).or_insert(mode as u8);
        *all = Mode::from_bits((*all).into()).join(mode) as u8;
    }

    fn add_gap(&mut self, owner: usize, tree: TreeId, holds: impl Fn(u8) -> bool) {
        let keys = (0..Keys::BITS as u8).filter(|key| holds(*key));
        *self.gaps.entry((owner, tree)).or_default() |= keys.fold(0, |bits, key| bits | 1 << key);
    }

    /// What a table lists for all its owners. Other threads may run meanwhile, so it may show no
    /// single moment.
    fn of_table(table: &LockTable) -> Self {
        let mut held = Self::default();
        for HeldLock { owner, on, tree, mode, .. } in table.held(usize::MAX >> 1).locks {
            match on {
                HeldOn::Row { key_hash, .. } => {
                    held.rows.insert((owner as usize, tree, key_hash), mode as u8);
                }
                HeldOn::Tree => held.add_tree(owner as usize, tree, mode),
                // Only the starts of their keys are listed there.
                HeldOn::Gap { .. } => {}
            }
        }
        for shard in 0..table.ranges.len() {
            table.each_interval(shard, |tree, number, span| {
                let owner =
                    table.holder(Some(number)).map_or(u64::MAX, |holder| holder.id) as usize;
                held.add_gap(owner, tree, |key| {
                    std::ops::RangeBounds::<[u8]>::contains(&span, &bytes(key)[..])
                });
                true
            });
        }
        held
    }
}

impl Game {
    fn held_by_definition(&self) -> Held {
        let mut held = Held::default();
        for (owner, id, mode) in self.model.held() {
            match id {
                Id::Row(tree, key) => {
                    held.add_row(owner, tree, LockTable::row_hash(tree, &bytes(key)), mode);
                }
                Id::Table(tree) => held.add_tree(owner, tree, mode),
            }
        }
        for stretch in self.model.gaps.all() {
            held.add_gap(stretch.owner, stretch.tree, |key| stretch.holds(stretch.tree, key));
        }
        held
    }

    /// The difference between the two lists, if any.
    pub fn differs_in_held(&self) -> Option<String> {
        let mut lists = [Held::of_table(&self.table), self.held_by_definition()];
        for owner in self.waiting().filter(|owner| self.model.waits_beyond(*owner)) {
            if let Some((tree, key, _)) = self.model.waits_for_row(owner) {
                let row = (owner, tree, LockTable::row_hash(tree, &bytes(key)));
                for held in &mut lists {
                    held.rows.remove(&row);
                }
            }
        }
        let [found, defined] = lists;
        (found != defined).then(|| format!("held are {found:x?}, by definition {defined:x?}"))
    }
}

/// Checks that everything a prepared owner keeps is in its list for the log, and that another table
/// can acquire it again from there.
pub fn is_restored_from_its_list(table: &LockTable, locks: &LockSet) {
    let (id, list) = (locks.owner().id(), table.list(locks));
    let other = LockTable::new(Arc::new(ManualClock::default()));
    let mut again = other.restore(id, &list).unwrap();
    let of_owner = |mut held: Held| {
        held.rows.retain(|at, _| at.0 == id as usize);
        held.trees.retain(|at, _| at.0 == id as usize);
        held.gaps.retain(|at, _| at.0 == id as usize);
        held
    };
    assert_eq!(of_owner(Held::of_table(table)), of_owner(Held::of_table(&other)));
    other.release_all(&mut again);
    assert_empty(&other);
}
