//! The calls: chosen at random, made on the table and the definition, and compared.

use super::{
    game::{Answer, Call, Game, Seat},
    gaps::Stretch,
    held::is_restored_from_its_list,
    model::Id,
    *,
};
use crate::txn::lock_table::mode::Mode;

/// In a random choice: a row is locked. That is so in about half of all cases.
const ROW: u64 = 17;

impl Game {
    pub fn step(&mut self) {
        self.on_cycles.clear();
        let waiting: Vec<usize> = self.waiting().collect();
        let owner = self.next(self.rules.owners as u64) as usize;
        let kinds = if self.rules.spills { 20 } else { 18 };
        let is_row = self.rules.is_for_rows && self.next(4) > 0;
        let kind = if is_row { ROW } else { self.next(kinds) };
        match kind {
            0 if !waiting.is_empty() => self.interrupt(waiting),
            1 | 2 => self.let_time_pass(),
            _ if waiting.contains(&owner) => {}
            // It is decided at the end, and others wait until then.
            _ if self.prepared.contains(&owner) && kind > 5 => {}
            4 if self.prepared.contains(&owner) => {}
            5 if self.prepared.contains(&owner) => self.release(owner),
            3 => {
                self.release(owner);
                let writes = self.next(4);
                self.players[owner].owner.set_writes(writes);
            }
            4 => {
                self.simple(owner, "unlock last", |table, seat| table.unlock_last(&mut seat.locks));
                self.model.unlock_last(owner);
                self.grants();
            }
            5 => self.prepare(owner),
            6 => self.lock_range(owner),
            7 => self.grow_range(owner),
            8 => self.look_for_gaps(owner),
            9 | 10 => self.insert(owner),
            11 | 12 => self.lock_table(owner),
            18 | 19 => self.spill(owner),
            _ => self.lock_row(owner),
        }
        self.compare();
    }

    /// Some owners continue after a prepare, as none does in a store: what the prepare leaves must
    /// be right whatever comes next. A serializable owner keeps everything.
    fn prepare(&mut self, owner: usize) {
        if self.next(2) == 0 {
            self.prepared.insert(owner);
        }
        if self.next(3) == 0 {
            self.simple(owner, "prepare, and keep all", |table, seat| {
                seat.locks.keep_last();
                is_restored_from_its_list(table, &seat.locks);
            });
            self.model.forget_last(owner);
            return;
        }
        self.simple(owner, "prepare", |table, seat| {
            table.release_at_prepare(&mut seat.locks, |_, _| true);
            seat.cursors.clear();
            is_restored_from_its_list(table, &seat.locks);
        });
        self.note_gap_release(owner);
        self.model.prepare(owner);
        self.grants();
    }

    fn interrupt(&mut self, waiting: Vec<usize>) {
        let victim = waiting[self.next(waiting.len() as u64) as usize];
        self.story.push(format!("{victim} is interrupted"));
        let owner = &self.players[victim].owner;
        owner.interrupt(owner.id());
        self.leaves(victim, Reason::Interrupted);
        self.players[victim].owner.clear_interrupt();
    }

    /// Lets time pass until the next wait ends by timeout.
    fn let_time_pass(&mut self) {
        let timed = self.deadlines.iter().filter_map(|(owner, at)| Some((*at.as_ref()?, *owner)));
        let Some(first) = timed.clone().map(|(at, _)| at).min() else { return };
        let late: Vec<usize> =
            timed.filter(|(at, _)| *at == first).map(|(_, owner)| owner).collect();
        if late.len() > 1 {
            return; // which one ends first would be up to chance
        }
        let time = first - self.clock.now();
        self.story.push(format!("{time:?} pass"));
        self.clock.sleep(time);
        self.table.expire();
        self.leaves(late[0], Reason::Timeout);
    }

    fn ask_lock(
        &mut self,
        owner: usize,
        id: Id,
        call: Call,
        mode: Mode,
        writes: bool,
        wait_policy: WaitPolicy,
    ) {
        let what = format!("{id:?} {mode:?} {writes} {wait_policy:?}");
        self.call(owner, what, call);
        match self.model.ask(owner, id, mode, writes) {
            Some(taken) => match id {
                Id::Row(..) => self.expect(owner, Answer::Taken(taken)),
                // An intent that two slots record is held as often as it was taken.
                Id::Table(_) => {
                    if !matches!(self.answer(owner), Answer::Taken(_)) {
                        self.fail("a tree is free by definition");
                    }
                }
            },
            None if wait_policy == WaitPolicy::NoWait => {
                self.expect(owner, Answer::LockError(Reason::Busy));
            }
            None => {
                self.model.wait(owner, id, mode, writes);
                self.began(owner, wait_policy);
            }
        }
        if matches!(id, Id::Table(_)) {
            self.model.forget_last(owner);
        }
    }

    pub fn tree(&mut self) -> TreeId {
        TreeId(self.next(2) as u32)
    }

    pub fn key(&mut self) -> u8 {
        self.next(self.rules.keys) as u8
    }

    fn lock_row(&mut self, owner: usize) {
        let (tree, key) = (self.tree(), self.key());
        let mode = [RowMode::Shared, RowMode::Exclusive, RowMode::Write][self.next(3) as usize];
        let wait_policy = self.wait_policy();
        let call: Call = Box::new(move |table, Seat { locks, .. }| {
            locks.begin_call();
            match table.lock_row(locks, tree, &bytes(key), mode, wait_policy) {
                Ok(taken) => Answer::Taken(taken),
                Err(denied) => Answer::LockError(denied.reason),
            }
        });
        let writes = mode == RowMode::Write;
        self.ask_lock(owner, Id::Row(tree, key), call, Mode::from(mode), writes, wait_policy);
    }

    fn lock_table(&mut self, owner: usize) {
        let tree = self.tree();
        let modes = [
            TableMode::IntentShared,
            TableMode::IntentExclusive,
            TableMode::IntentExclusive,
            TableMode::Shared,
            TableMode::Exclusive,
        ];
        let mode = modes[self.next(5) as usize];
        let wait_policy = self.wait_policy();
        let call: Call = Box::new(move |table, Seat { locks, .. }| {
            locks.keep_last();
            locks.begin_call();
            match table.lock_table(locks, tree, mode, wait_policy) {
                Ok(_) => Answer::Taken(Taken::New),
                Err(denied) => Answer::LockError(denied.reason),
            }
        });
        self.ask_lock(owner, Id::Table(tree), call, Mode::from(mode), false, wait_policy);
    }

    /// At a key, before or after it, or beyond all.
    fn bound(&mut self) -> Bound<u8> {
        // One more than there are rows: a gap may lie after them all.
        let key = self.next(self.rules.keys + 1) as u8;
        match self.next(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(key),
            _ => Bound::Excluded(key),
        }
    }

    /// A cursor starts. There may be nothing between the bounds yet.
    fn lock_range(&mut self, owner: usize) {
        let stretch = Stretch { owner, tree: self.tree(), from: self.bound(), to: self.bound() };
        if !stretch.is_one() {
            return;
        }
        let Stretch { tree, from, to, .. } = stretch;
        self.simple(owner, &format!("gap {from:?}..{to:?} of {tree}"), move |table, seat| {
            let (from, to) = (bound(from), bound(to));
            let span = (from.as_ref().map(Vec::as_slice), to.as_ref().map(Vec::as_slice));
            let range = table.lock_range(&mut seat.locks, tree, span);
            seat.cursors.push(range);
        });
        self.model.gaps.lock(stretch);
    }

    /// A cursor advances, forwards or backwards.
    fn grow_range(&mut self, owner: usize) {
        let count = self.model.gaps.count(owner);
        if count == 0 {
            return;
        }
        let cursor = self.next(count as u64) as usize;
        let (is_up, limit) = (self.next(2) == 0, self.bound());
        let way = if is_up { "up" } else { "down" };
        self.simple(owner, &format!("cursor {cursor} {way} to {limit:?}"), move |table, seat| {
            let range = seat.cursors[cursor];
            let limit = bound(limit);
            let limit = limit.as_ref().map(Vec::as_slice);
            match is_up {
                true => table.grow_up(&mut seat.locks, range, limit),
                false => table.grow_down(&mut seat.locks, range, limit),
            }
        });
        match is_up {
            true => self.model.gaps.grow_up(owner, cursor, limit),
            false => self.model.gaps.grow_down(owner, cursor, limit),
        }
    }

    /// Looks which keys lie in gaps of others.
    fn look_for_gaps(&mut self, owner: usize) {
        let keys = self.rules.keys as u8 + 1;
        let all =
            move || (0..2).flat_map(move |tree| (0..keys).map(move |key| (TreeId(tree), key)));
        let call: Call = Box::new(move |table, Seat { locks, .. }| {
            let is_locked = |at: &(TreeId, u8)| table.is_gap_locked(locks, at.0, &bytes(at.1));
            Answer::InGaps(all().filter(is_locked).collect())
        });
        self.call(owner, "look for gaps".into(), call);
        let over = |at: &(TreeId, u8)| !self.model.gaps.over(owner, at.0, at.1).is_empty();
        self.expect(owner, Answer::InGaps(all().filter(over).collect()));
    }

    /// Inserts into a row that is held already, so that it is not released: otherwise the order
    /// would be up to chance.
    fn insert(&mut self, owner: usize) {
        let (tree, key) = (self.tree(), self.key());
        if !self.model.holds(owner, Id::Row(tree, key)) {
            return;
        }
        let wait_policy = self.wait_policy();
        let call: Call = Box::new(move |table, Seat { locks, .. }| {
            let mark = locks.mark();
            locks.begin_call();
            match table.before_insert(locks, tree, &bytes(key), mark, wait_policy) {
                Ok(waited) => Answer::Inserted(waited),
                Err(denied) => Answer::LockError(denied.reason),
            }
        });
        self.call(owner, format!("insert {key} of {tree} {wait_policy:?}"), call);
        if self.model.gaps.over(owner, tree, key).is_empty() {
            self.expect(owner, Answer::Inserted(false));
        } else if wait_policy == WaitPolicy::NoWait {
            self.expect(owner, Answer::LockError(Reason::Busy));
        } else {
            self.model.wait_to_insert(owner, tree, key);
            self.began(owner, wait_policy);
        }
    }

    /// Makes a call that never waits.
    pub fn simple(
        &mut self,
        owner: usize,
        what: &str,
        call: impl FnOnce(&LockTable, &mut Seat) + Send + 'static,
    ) {
        let call: Call = Box::new(move |table, seat| {
            call(table, seat);
            Answer::Done
        });
        self.call(owner, what.to_owned(), call);
        self.expect(owner, Answer::Done);
    }

    pub fn release(&mut self, owner: usize) {
        self.simple(owner, "release", |table, seat| {
            table.release_all(&mut seat.locks);
            seat.cursors.clear();
        });
        self.beyond[owner] = Arc::default();
        self.prepared.remove(&owner);
        self.note_gap_release(owner);
        self.model.release(owner);
        self.grants();
    }
}
