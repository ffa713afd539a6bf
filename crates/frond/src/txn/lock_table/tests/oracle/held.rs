//! What is held: the table's list of it against the definition's, at every step.
//!
//! A lock that is kept too long and one that is lost show here, though nobody waits for it: what savepoints, prepares and
//! waits that have failed give back or leave, what has left memory, and what a prepared owner keeps.
//!
//! By definition who waits for one who answers for rows beyond memory holds nothing of the row; the table has it hold it
//! already. Of his row neither list says anything.

use std::collections::BTreeMap;

use super::{game::Game, model::Id, *};
use crate::txn::lock_table::mode::Mode;

/// Which keys lie in gaps, a bit each.
type Keys = u32;

/// Locks by their owners. Of a tree it matters what its modes come to together, wherever they stand; of gaps, which keys lie in
/// any of an owner's, for a cursor that begins in a gap of another's of its own has no more.
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

    /// What a table says of all its owners. In between others may go on: then it may be of no one moment.
    fn of_table(table: &LockTable) -> Self {
        let mut held = Self::default();
        for HeldLock { owner, on, tree, mode, .. } in table.held(usize::MAX >> 1).locks {
            match on {
                HeldOn::Row { key_hash, .. } => {
                    held.rows.insert((owner as usize, tree, key_hash), mode as u8);
                }
                HeldOn::Tree => held.add_tree(owner as usize, tree, mode),
                // Only their begins are told there.
                HeldOn::Gap { .. } => {}
            }
        }
        for shard in 0..table.ranges.len() {
            table.each_interval(shard, |tree, number, span| {
                let owner = table.id_of(Some(number)).unwrap_or(u64::MAX) as usize;
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

    /// How the two lists differ, if they do.
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

/// What a prepared owner keeps is all of it in the list that the log has, and is taken again from there by another table.
pub fn is_had_again_from_its_list(table: &LockTable, locks: &LockSet) {
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
