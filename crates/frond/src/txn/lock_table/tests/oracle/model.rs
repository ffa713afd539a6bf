//! The lock table by definition: all owners, all locks, and all waits, as plain lists.

use std::collections::{BTreeMap, BTreeSet};

use super::gaps::Gaps;
use crate::{
    TreeId,
    txn::lock_table::{Taken, mode::Mode},
};

/// A row or a tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Id {
    Row(TreeId, u8),
    Table(TreeId),
}

#[derive(Debug)]
struct Request {
    owner: usize,
    mode: Mode,
    upgrades: bool,
    writes: bool,
}

#[derive(Debug, Default)]
struct Lock {
    holders: BTreeMap<usize, Mode>,
    waiting: Vec<Request>,
}

/// How a wait ended successfully.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    Lock(Taken),
    Insert,
}

#[derive(Debug, Default)]
pub struct Model {
    locks: BTreeMap<Id, Lock>,
    written: BTreeSet<(usize, Id)>,
    /// Rows of owners whose writes have been spilled.
    beyond: BTreeSet<(usize, Id)>,
    pub gaps: Gaps,
    inserts: BTreeMap<usize, (TreeId, u8)>,
    last: BTreeMap<usize, (Id, Taken)>,
}

impl Model {
    /// Requests a lock: the immediate result, or `None` if there is a conflict.
    pub fn ask(&mut self, owner: usize, id: Id, mode: Mode, writes: bool) -> Option<Taken> {
        self.last.remove(&owner);
        let lock = self.locks.entry(id).or_default();
        let held = lock.holders.get(&owner).copied();
        let joint = held.map_or(mode, |held| held.join(mode));
        if held == Some(joint) {
            if writes {
                self.written.insert((owner, id));
            }
            return Some(self.took(owner, id, Taken::AlreadyHeld));
        }
        // As if it entered the queue and was examined: by its place and everything before it.
        self.wait(owner, id, mode, writes);
        if self.blockers(owner).is_empty() {
            let Some(Granted::Lock(taken)) = self.settle_one(owner) else {
                panic!("a request without blockers is granted")
            };
            return Some(taken);
        }
        self.withdraw(owner);
        None
    }

    fn took(&mut self, owner: usize, id: Id, taken: Taken) -> Taken {
        if matches!(id, Id::Row(..)) {
            self.last.insert(owner, (id, taken));
        }
        taken
    }

    pub fn wait(&mut self, owner: usize, id: Id, mode: Mode, writes: bool) {
        let lock = self.locks.entry(id).or_default();
        let held = lock.holders.get(&owner);
        let request = Request {
            owner,
            mode: held.map_or(mode, |held| held.join(mode)),
            upgrades: held.is_some(),
            writes,
        };
        let place = if request.upgrades {
            lock.waiting.iter().take_while(|other| other.upgrades).count()
        } else {
            lock.waiting.len()
        };
        lock.waiting.insert(place, request);
    }

    pub fn wait_to_insert(&mut self, owner: usize, tree: TreeId, key: u8) {
        self.inserts.insert(owner, (tree, key));
    }

    /// The owners whose inserts wait in a gap of this owner, whether it conflicts with them or not.
    pub fn inserts_into_gaps_of(&self, owner: usize) -> Vec<usize> {
        let into = self.inserts.iter().filter(|(_, at)| self.gaps.has(owner, at.0, at.1));
        into.map(|(inserter, _)| *inserter).collect()
    }

    pub fn is_waiting(&self, owner: usize) -> bool {
        self.inserts.contains_key(&owner) || self.waits_at(owner).is_some()
    }

    /// The row for which an owner waits, and the mode; or the row that it wants to insert.
    pub fn waits_for_row(&self, owner: usize) -> Option<(TreeId, u8, Mode)> {
        if let Some((tree, key)) = self.inserts.get(&owner) {
            return Some((*tree, *key, Mode::Exclusive));
        }
        let (id, at) = self.waits_at(owner)?;
        match id {
            Id::Row(tree, key) => Some((tree, key, self.locks[&id].waiting[at].mode)),
            Id::Table(_) => None,
        }
    }

    fn waits_at(&self, owner: usize) -> Option<(Id, usize)> {
        self.locks.iter().find_map(|(id, lock)| {
            let at = lock.waiting.iter().position(|request| request.owner == owner)?;
            Some((*id, at))
        })
    }

    /// The owners that an owner waits for.
    pub fn blockers(&self, owner: usize) -> BTreeSet<usize> {
        if let Some((tree, key)) = self.inserts.get(&owner) {
            return self.gaps.over(owner, *tree, *key);
        }
        let Some((id, at)) = self.waits_at(owner) else { return BTreeSet::new() };
        let lock = &self.locks[&id];
        let mode = lock.waiting[at].mode;
        let holders = lock.holders.iter().filter(|held| *held.0 != owner && !mode.admits(*held.1));
        let before = lock.waiting[..at].iter().filter(|other| !mode.admits(other.mode));
        holders.map(|held| *held.0).chain(before.map(|other| other.owner)).collect()
    }

    /// The owners on cycles.
    pub fn on_cycles(&self, owners: usize) -> BTreeSet<usize> {
        (0..owners)
            .filter(|&start| {
                let mut met = BTreeSet::new();
                let mut work: Vec<usize> = self.blockers(start).into_iter().collect();
                while let Some(owner) = work.pop() {
                    if met.insert(owner) {
                        work.extend(self.blockers(owner));
                    }
                }
                met.contains(&start)
            })
            .collect()
    }

    fn settle_one(&mut self, owner: usize) -> Option<Granted> {
        if !self.is_waiting(owner) || !self.blockers(owner).is_empty() {
            return None;
        }
        if self.inserts.remove(&owner).is_some() {
            return Some(Granted::Insert);
        }
        let (id, at) = self.waits_at(owner)?;
        let lock = self.locks.get_mut(&id)?;
        let Request { mode, upgrades, writes, .. } = lock.waiting.remove(at);
        lock.holders.insert(owner, mode);
        if writes {
            self.written.insert((owner, id));
        }
        // For a tree it depends on where its intents are recorded whether this is new or an
        // upgrade.
        let is_row = matches!(id, Id::Row(..));
        let taken = if upgrades && is_row { Taken::Upgraded } else { Taken::New };
        Some(Granted::Lock(self.took(owner, id, taken)))
    }

    /// Grants everything that can be granted.
    pub fn settle(&mut self, owners: usize) -> Vec<(usize, Granted)> {
        let mut granted = Vec::new();
        while let Some(one) = (0..owners).find_map(|owner| Some((owner, self.settle_one(owner)?))) {
            granted.push(one);
        }
        granted
    }

    /// Ends the wait of an owner.
    pub fn withdraw(&mut self, owner: usize) {
        self.inserts.remove(&owner);
        if let Some((id, at)) = self.waits_at(owner)
            && let Some(lock) = self.locks.get_mut(&id)
        {
            lock.waiting.remove(at);
        }
    }

    pub fn unlock_last(&mut self, owner: usize) {
        let Some((id, taken)) = self.last.remove(&owner) else { return };
        let Some(lock) = self.locks.get_mut(&id) else { return };
        match taken {
            Taken::New => drop(lock.holders.remove(&owner)),
            Taken::Upgraded => drop(lock.holders.insert(owner, Mode::Shared)),
            Taken::AlreadyHeld => return,
        }
        self.written.remove(&(owner, id));
    }

    /// Requests for trees have no last row.
    pub fn forget_last(&mut self, owner: usize) {
        self.last.remove(&owner);
    }

    /// Rows that an owner has locked for writing and has in memory.
    pub fn written_rows(&self, owner: usize) -> Vec<(TreeId, u8)> {
        let written =
            self.written.iter().filter(|row| row.0 == owner && !self.beyond.contains(row));
        let rows = written.filter_map(|(_, id)| match id {
            Id::Row(tree, key) => Some((*tree, *key)),
            Id::Table(_) => None,
        });
        rows.collect()
    }

    /// Whether no owner holds it or waits for it.
    pub fn is_free(&self, id: Id) -> bool {
        self.locks.get(&id).is_none_or(|lock| lock.holders.is_empty() && lock.waiting.is_empty())
    }

    /// Records that an owner claims to hold a row.
    pub fn claim(&mut self, owner: usize, id: Id) {
        self.locks.entry(id).or_default().holders.insert(owner, Mode::Exclusive);
        self.written.insert((owner, id));
    }

    /// Rows of an owner are spilled and stay held; none of them was the last one.
    pub fn spill(&mut self, owner: usize, rows: impl Iterator<Item = Id>) {
        self.last.remove(&owner);
        self.beyond.extend(rows.map(|row| (owner, row)));
    }

    /// Whether an owner waits for a row that another has spilled.
    pub fn waits_beyond(&self, owner: usize) -> bool {
        let waits_for = self.waits_at(owner).map(|(id, _)| id);
        self.beyond.iter().any(|row| Some(row.1) == waits_for)
    }

    pub fn prepare(&mut self, owner: usize) {
        self.last.remove(&owner);
        for (id, lock) in &mut self.locks {
            let Some(mode) = lock.holders.get(&owner).copied() else { continue };
            let is_kept = match id {
                Id::Row(..) => self.written.contains(&(owner, *id)),
                Id::Table(_) => mode != Mode::IntentShared,
            };
            if !is_kept {
                lock.holders.remove(&owner);
            }
        }
        self.gaps.release(owner);
    }

    pub fn release(&mut self, owner: usize) {
        self.last.remove(&owner);
        for lock in self.locks.values_mut() {
            lock.holders.remove(&owner);
        }
        self.written.retain(|written| written.0 != owner);
        self.beyond.retain(|row| row.0 != owner);
        self.gaps.release(owner);
    }

    /// Number of held rows.
    pub fn rows_held(&self) -> usize {
        let is_held =
            |entry: &(&Id, &Lock)| matches!(entry.0, Id::Row(..)) && !entry.1.holders.is_empty();
        self.locks.iter().filter(is_held).count()
    }

    /// All locks on trees, and those on rows that were not spilled.
    pub fn held(&self) -> impl Iterator<Item = (usize, Id, Mode)> {
        let all = self
            .locks
            .iter()
            .flat_map(|(id, lock)| lock.holders.iter().map(|(owner, mode)| (*owner, *id, *mode)));
        all.filter(|(owner, id, _)| !self.beyond.contains(&(*owner, *id)))
    }

    pub fn holds(&self, owner: usize, id: Id) -> bool {
        self.locks.get(&id).is_some_and(|lock| lock.holders.contains_key(&owner))
    }
}
