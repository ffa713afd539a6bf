//! Owners whose writes have left memory: they answer for rows whose locks the table does not know any more.
//!
//! By definition nothing has changed: who answers for a row holds it, and who asks for it waits for him. What the table
//! may do otherwise is to name fewer: who had to wait first holds the row in the table while he waits for the one who
//! answers for it, and those behind him wait for him. Whoever stands in the way is still reached, by one or by more waits.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{game::Game, model::Id, *};

/// Rows that an owner answers for.
#[derive(Debug, Default)]
pub struct Beyond(Mutex<BTreeSet<(TreeId, Vec<u8>)>>);

impl HoldsRows for Beyond {
    fn holds(&self, tree: TreeId, key: &[u8]) -> Option<bool> {
        Some(self.0.lock().unwrap().contains(&(tree, key.to_vec())))
    }
}

/// Who waits for whom.
pub type Edges = BTreeMap<usize, BTreeSet<usize>>;

/// Whom an owner waits for, directly or through others.
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
    /// The waits that the table tells of are those of the definition.
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

    /// Some rows that an owner has written leave memory. It may say that it has one more, which nobody has: of what it
    /// has written and taken back it does not give the rows away.
    pub fn spill(&mut self, owner: usize) {
        let mut rows = self.model.written_rows(owner);
        rows.retain(|_| self.next(4) > 0);
        let claimed = (self.tree(), self.key());
        let claims = self.next(4) == 0 && self.model.is_nobodys(Id::Row(claimed.0, claimed.1));
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

/// Of no row.
#[derive(Debug)]
struct Unread;

impl HoldsRows for Unread {
    fn holds(&self, _: TreeId, _: &[u8]) -> Option<bool> {
        None
    }
}

/// Others wait for who cannot tell, and he for the one who has the row.
#[test]
pub fn what_cannot_be_found_out_is_held_against_others_and_not_for_oneself() {
    let table = table();
    let (mut holder, mut unread, mut third) = (table.begin(1), table.begin(2), table.begin(3));
    let (write, now) = (RowMode::Write, Patience::NoWait);
    table.lock_row(&mut holder, TREE, b"k", write, now).unwrap();
    table.spill(&mut unread, Arc::new(Unread), Leaving::Unknown);
    let denied = table.lock_row(&mut unread, TREE, b"k", RowMode::Shared, now).unwrap_err();
    assert_eq!((denied.reason, denied.holder), (Reason::Busy, Some(1)));
    assert_eq!(table.lock_row(&mut unread, TREE, b"l", write, now), Ok(Taken::New));
    assert_eq!(table.lock_row(&mut unread, TREE, b"l", write, now), Ok(Taken::AlreadyHeld));
    let denied = table.lock_row(&mut third, TREE, b"m", RowMode::Shared, now).unwrap_err();
    assert_eq!((denied.reason, denied.holder), (Reason::Busy, Some(2)));
    [holder, unread, third].iter_mut().for_each(|locks| table.release_all(locks));
    assert_empty(&table);
}
