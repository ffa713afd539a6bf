//! Owners whose writes have been spilled: they answer for rows whose locks the table no longer has.
//!
//! By definition nothing has changed: an owner that answers for a row holds it, and a request for
//! it waits for that owner. The table may differ by reporting fewer owners: the first waiter holds
//! the row in the table while it waits for the owner that answers for it, and later waiters wait
//! for the first one. Every conflicting owner is still reached, by one or more waits.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{game::Game, model::Id, *};

/// The rows for which an owner answers.
#[derive(Debug, Default)]
pub struct Beyond(Mutex<BTreeSet<(TreeId, Vec<u8>)>>);

impl HoldsRows for Beyond {
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool> {
        Some(self.0.lock().unwrap().contains(&(tree, key.to_vec())))
    }
}

/// The waits-for graph.
pub type Edges = BTreeMap<usize, BTreeSet<usize>>;

/// The owners for which an owner waits, directly or through others.
pub fn reached(edges: &Edges, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut work = vec![from];
    while let Some(owner) = work.pop() {
        for next in edges.get(&owner).into_iter().flatten() {
            if reached.insert(*next) {
                work.push(*next);
            }
        }
    }
    reached
}

impl Game {
    /// Whether the waits that the table reports are those of the definition.
    pub fn agree(&self, found: &Edges, defined: &Edges) -> bool {
        found.keys().eq(defined.keys())
            && defined.iter().all(|(owner, blockers)| match self.model.waits_beyond(*owner) {
                false => found[owner] == *blockers,
                true => {
                    found[owner].is_subset(blockers)
                        && reached(found, *owner) == reached(defined, *owner)
                }
            })
    }

    /// Some rows that an owner has written are spilled. The owner may answer for one more, which
    /// no other holds: a row that it has written and rolled back stays locked.
    pub fn spill(&mut self, owner: usize) {
        let mut rows = self.model.written_rows(owner);
        rows.retain(|_| self.next(4) > 0);
        let claimed = (self.tree(), self.key());
        let claims = self.next(4) == 0 && self.model.is_free(Id::Row(claimed.0, claimed.1));
        let all: Vec<_> = rows.iter().copied().chain(claims.then_some(claimed)).collect();
        let named = all.iter().map(|(tree, key)| (*tree, bytes(*key)));
        self.beyond[owner].0.lock().unwrap().extend(named);
        let hashes: HashSet<u128> =
            all.iter().map(|(tree, key)| LockTable::row_hash(*tree, &bytes(*key))).collect();
        let beyond = self.beyond[owner].clone();
        self.simple(owner, &format!("spill {all:?}"), move |table, seat| {
            table.spill(&mut seat.locks, beyond, Leaving::Rows(&hashes));
        });
        if claims {
            self.model.claim(owner, Id::Row(claimed.0, claimed.1));
        }
        self.model.spill(owner, all.into_iter().map(|(tree, key)| Id::Row(tree, key)));
    }
}

/// Answers for no row.
#[derive(Debug)]
struct Unread;

impl HoldsRows for Unread {
    fn holds(&self, _: TreeId, _: &[u8]) -> Option<bool> {
        None
    }
}

/// Others wait for an owner that cannot tell, and that owner waits for the one that has the row.
#[test]
pub fn unreadable_spilled_writes_block_only_other_transactions() {
    let table = table();
    let (mut holder, mut unread, mut third) = (table.begin(1), table.begin(2), table.begin(3));
    let (write, now) = (RowMode::Write, WaitPolicy::NoWait);
    table.lock_row(&mut holder, TREE, b"k", write, now).unwrap();
    table.spill(&mut unread, Arc::new(Unread), Leaving::Unknown);
    let denied = table.lock_row(&mut unread, TREE, b"k", RowMode::Shared, now).unwrap_err();
    assert_eq!((denied.reason, denied.holder.map(|holder| holder.id)), (Reason::Busy, Some(1)));
    assert_eq!(table.lock_row(&mut unread, TREE, b"l", write, now), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut unread, TREE, b"l", write, now), Ok(Taken::AlreadyHeld));
    let denied = table.lock_row(&mut third, TREE, b"m", RowMode::Shared, now).unwrap_err();
    assert_eq!((denied.reason, denied.holder.map(|holder| holder.id)), (Reason::Busy, Some(2)));
    [holder, unread, third].iter_mut().for_each(|locks| table.release_all(locks));
    assert_empty(&table);
}
