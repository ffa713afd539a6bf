//! Random histories on few keys, each owner in a thread, held against the definition (`model.rs`).
//!
//! One call is made at a time. Behind each, the definition says who is granted and who waits, and whom for;
//! who is ended is the table's choice, and must lie on a cycle that is there. Nothing is asserted about time,
//! but that a wait ends by the simulated clock when the definition says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::mpsc::{Receiver, Sender, channel},
};

use super::{
    model::{Granted, Id, Interval, Model},
    *,
};
use crate::txn::lock_table::mode::Mode;

const OWNERS: usize = 5;
const KEYS: u64 = 3;
const STEPS: usize = 150;
/// So long somebody may take to answer: far more than he needs, so that a failure ends.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Taken(Taken),
    Inserted(bool),
    Denied(Reason),
    Done,
}

type Call = Box<dyn FnOnce(&LockTable, &mut LockSet) -> Answer + Send>;

struct Player {
    calls: Sender<Call>,
    answers: Receiver<Answer>,
    owner: Arc<Owner>,
}

struct Game {
    table: Arc<LockTable>,
    clock: Arc<ManualClock>,
    players: Vec<Player>,
    model: Model,
    /// Of those who wait: until when.
    deadlines: BTreeMap<usize, Option<Duration>>,
    /// Who was on a cycle when the last wait began.
    on_cycles: BTreeSet<usize>,
    /// What was answered before it was asked for.
    early: BTreeMap<usize, Answer>,
    toss: u64,
    story: Vec<String>,
}

impl Game {
    fn new(seed: u64) -> Self {
        let (table, clock) = timed();
        let players = (0..OWNERS).map(|id| {
            let (calls, todo) = channel::<Call>();
            let (answer, answers) = channel();
            let mut locks = table.begin(id as u64);
            let owner = locks.owner().clone();
            let table = table.clone();
            thread::spawn(move || {
                for call in todo {
                    if answer.send(call(&table, &mut locks)).is_err() {
                        break;
                    }
                }
                table.release_all(&mut locks);
            });
            Player { calls, answers, owner }
        });
        let players = players.collect();
        Self {
            table: table.clone(),
            clock,
            players,
            model: Model::default(),
            deadlines: BTreeMap::new(),
            on_cycles: BTreeSet::new(),
            early: BTreeMap::new(),
            toss: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            story: Vec::new(),
        }
    }

    fn next(&mut self, below: u64) -> u64 {
        self.toss ^= self.toss << 13;
        self.toss ^= self.toss >> 7;
        self.toss ^= self.toss << 17;
        (self.toss >> 11) % below
    }

    fn call(&mut self, owner: usize, what: String, call: Call) {
        self.story.push(format!("{owner}: {what}"));
        self.players[owner].calls.send(call).unwrap();
    }

    fn answer(&mut self, owner: usize) -> Answer {
        let early = self.early.remove(&owner).ok_or(());
        let answer = early.or_else(|()| self.players[owner].answers.recv_timeout(PATIENCE));
        let answer = answer.unwrap_or_else(|_| self.fail(&format!("{owner} does not answer")));
        self.story.push(format!("  {owner} has {answer:?}"));
        answer
    }

    fn fail(&self, what: &str) -> ! {
        panic!("{what}\n{}\n{:?}", self.story.join("\n"), self.table.waits())
    }

    fn expect(&mut self, owner: usize, expected: Answer) {
        let answer = self.answer(owner);
        if answer != expected {
            self.fail(&format!("{owner} has {answer:?}, by definition {expected:?}"));
        }
    }

    fn patience(&mut self) -> Patience {
        match self.next(4) {
            0 => Patience::NoWait,
            1 => Patience::For(Duration::from_millis(1 + self.next(40))),
            _ => Patience::Forever,
        }
    }

    /// What a wait that the definition knows of comes to.
    fn began(&mut self, owner: usize, patience: Patience) {
        let deadline = match patience {
            // All differ, so that they end one after the other.
            Patience::For(time) => Some(self.clock.now() + time),
            _ => None,
        };
        self.deadlines.insert(owner, deadline);
        self.on_cycles = self.model.on_cycles(OWNERS);
        while self.model.on_cycles(OWNERS).len() > 1 {
            self.end_one();
        }
        self.grants();
    }

    /// Somebody on a cycle is ended.
    fn end_one(&mut self) {
        let cycles = self.model.on_cycles(OWNERS);
        let mut waited = Duration::ZERO;
        loop {
            for &owner in &cycles {
                if let Ok(answer) = self.players[owner].answers.try_recv() {
                    self.story.push(format!("  {owner} has {answer:?}, of a cycle"));
                    if answer != Answer::Denied(Reason::Deadlock) {
                        // Another has been ended, and has not said so yet.
                        self.early.insert(owner, answer);
                        continue;
                    }
                    let least = cycles.iter().map(|&on| self.players[on].owner.writes()).min();
                    let writes = self.players[owner].owner.writes();
                    // Of one cycle, the least; where several meet, nobody with more than all others.
                    let is_alone = cycles.len() == 2;
                    if is_alone && Some(writes) != least {
                        self.fail(&format!("{owner} was ended and has written more"));
                    }
                    self.model.withdraw(owner);
                    self.deadlines.remove(&owner);
                    self.grants();
                    return;
                }
            }
            thread::sleep(Duration::from_micros(50));
            waited += Duration::from_micros(50);
            if waited > PATIENCE {
                self.fail("a cycle stays");
            }
        }
    }

    /// All who are granted by definition are granted.
    fn grants(&mut self) {
        for (owner, granted) in self.model.settle(OWNERS) {
            self.deadlines.remove(&owner);
            let expected = match granted {
                Granted::Lock(taken) => Answer::Taken(taken),
                Granted::Insert => Answer::Inserted(true),
            };
            self.expect(owner, expected);
        }
    }

    /// The table and the definition say the same of all waits.
    fn compare(&mut self) {
        // Who has just been told to wait may still be on its way there.
        for _ in 0..1_000_000 {
            let waits = self.table.waits().into_iter();
            let found: BTreeMap<u64, BTreeSet<u64>> =
                waits.map(|wait| (wait.waiter, wait.holders.into_iter().collect())).collect();
            if found == self.expected() {
                return;
            }
            self.end_others();
            thread::yield_now();
        }
        self.fail(&format!("by definition wait {:?}", self.expected()));
    }

    fn expected(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let waiting = (0..OWNERS).filter(|owner| self.model.is_waiting(*owner));
        let holders = |owner| self.model.blockers(owner).into_iter().map(|id| id as u64).collect();
        waiting.map(|owner| (owner as u64, holders(owner))).collect()
    }

    /// Where several cycles met in one owner, more may have been ended than had to be: one of each cycle,
    /// found one after the other, and then the owner.
    fn end_others(&mut self) {
        for owner in self.on_cycles.clone() {
            let waits = self.model.is_waiting(owner) && !self.early.contains_key(&owner);
            let answer = if waits { self.players[owner].answers.try_recv().ok() } else { None };
            if let Some(answer) = answer {
                self.story.push(format!("  {owner} has {answer:?}, of another cycle"));
                if answer != Answer::Denied(Reason::Deadlock) {
                    self.fail(&format!("{owner} still waits by definition"));
                }
                self.model.withdraw(owner);
                self.deadlines.remove(&owner);
                self.grants();
            }
        }
    }

    fn ask_lock(
        &mut self,
        owner: usize,
        id: Id,
        call: Call,
        mode: Mode,
        writes: bool,
        patience: Patience,
    ) {
        let what = format!("{id:?} {mode:?} {writes} {patience:?}");
        self.call(owner, what, call);
        match self.model.ask(owner, id, mode, writes) {
            Some(taken) => match id {
                Id::Row(..) => self.expect(owner, Answer::Taken(taken)),
                // An intent that two places know of is held as often as it was taken.
                Id::Table(_) => {
                    if !matches!(self.answer(owner), Answer::Taken(_)) {
                        self.fail("a tree is free by definition");
                    }
                }
            },
            None if patience == Patience::NoWait => {
                self.expect(owner, Answer::Denied(Reason::Busy));
            }
            None => {
                self.model.wait(owner, id, mode, writes);
                self.began(owner, patience);
            }
        }
        if matches!(id, Id::Table(_)) {
            self.model.forget_last(owner);
        }
    }

    fn lock_row(&mut self, owner: usize) {
        let (tree, key) = (TreeId(self.next(2) as u32), self.next(KEYS) as u8);
        let mode = [RowMode::Shared, RowMode::Exclusive, RowMode::Write][self.next(3) as usize];
        let patience = self.patience();
        let call: Call = Box::new(move |table, locks| {
            locks.begin_call();
            match table.lock_row(locks, tree, &[key], mode, patience) {
                Ok(taken) => Answer::Taken(taken),
                Err(denied) => Answer::Denied(denied.reason),
            }
        });
        let writes = mode == RowMode::Write;
        self.ask_lock(owner, Id::Row(tree, key), call, Mode::from(mode), writes, patience);
    }

    fn lock_table(&mut self, owner: usize) {
        let tree = TreeId(self.next(2) as u32);
        let modes = [
            TableMode::IntentShared,
            TableMode::IntentExclusive,
            TableMode::IntentExclusive,
            TableMode::Shared,
            TableMode::Exclusive,
        ];
        let mode = modes[self.next(5) as usize];
        let patience = self.patience();
        let call: Call = Box::new(move |table, locks| {
            locks.keep_last();
            locks.begin_call();
            match table.lock_table(locks, tree, mode, patience) {
                Ok(_) => Answer::Taken(Taken::New),
                Err(denied) => Answer::Denied(denied.reason),
            }
        });
        self.ask_lock(owner, Id::Table(tree), call, Mode::from(mode), false, patience);
    }

    fn lock_range(&mut self, owner: usize) {
        let tree = TreeId(self.next(2) as u32);
        let from = self.next(KEYS + 1) as u8;
        let (to, grown) = (from + self.next(3) as u8, from + self.next(4) as u8);
        let call: Call = Box::new(move |table, locks| {
            let range =
                table.lock_range(locks, tree, (Bound::Included(&[from]), Bound::Excluded(&[to])));
            table.grow_up(locks, range, Bound::Excluded(&[grown]));
            Answer::Done
        });
        self.call(owner, format!("gap {from}..{to}..{grown} of {tree}"), call);
        self.expect(owner, Answer::Done);
        let to = to.max(grown);
        self.model.intervals.push(Interval { owner, tree, from, to });
    }

    /// Into a row that is held already, so that it is not given back: who comes first would be left to
    /// chance.
    fn insert(&mut self, owner: usize) {
        let (tree, key) = (TreeId(self.next(2) as u32), self.next(KEYS) as u8);
        if !self.model.holds(owner, Id::Row(tree, key)) {
            return;
        }
        let patience = self.patience();
        let call: Call = Box::new(move |table, locks| {
            let mark = locks.mark();
            locks.begin_call();
            match table.before_insert(locks, tree, &[key], mark, patience) {
                Ok(waited) => Answer::Inserted(waited),
                Err(denied) => Answer::Denied(denied.reason),
            }
        });
        self.call(owner, format!("insert {key} of {tree} {patience:?}"), call);
        if self.model.over(owner, tree, key).is_empty() {
            self.expect(owner, Answer::Inserted(false));
        } else if patience == Patience::NoWait {
            self.expect(owner, Answer::Denied(Reason::Busy));
        } else {
            self.model.wait_to_insert(owner, tree, key);
            self.began(owner, patience);
        }
    }

    fn simple(&mut self, owner: usize, what: &str, call: fn(&LockTable, &mut LockSet)) {
        let call: Call = Box::new(move |table, locks| {
            call(table, locks);
            Answer::Done
        });
        self.call(owner, what.to_owned(), call);
        self.expect(owner, Answer::Done);
    }

    fn leaves(&mut self, owner: usize, reason: Reason) {
        self.expect(owner, Answer::Denied(reason));
        self.model.withdraw(owner);
        self.deadlines.remove(&owner);
        self.grants();
    }

    fn step(&mut self) {
        self.on_cycles.clear();
        let waiting: Vec<usize> =
            (0..OWNERS).filter(|owner| self.model.is_waiting(*owner)).collect();
        let owner = self.next(OWNERS as u64) as usize;
        match self.next(16) {
            0 if !waiting.is_empty() => {
                let victim = waiting[self.next(waiting.len() as u64) as usize];
                self.story.push(format!("{victim} is interrupted"));
                let owner = &self.players[victim].owner;
                owner.interrupt(owner.id());
                self.leaves(victim, Reason::Interrupted);
                self.players[victim].owner.clear_interrupt();
            }
            1 | 2 => {
                let timed =
                    self.deadlines.iter().filter_map(|(owner, at)| Some((*at.as_ref()?, *owner)));
                let Some(first) = timed.clone().map(|(at, _)| at).min() else { return };
                let late: Vec<usize> =
                    timed.filter(|(at, _)| *at == first).map(|(_, owner)| owner).collect();
                if late.len() > 1 {
                    return; // who of them leaves first would be left to chance
                }
                let time = first - self.clock.now();
                self.story.push(format!("{time:?} pass"));
                self.clock.sleep(time);
                self.table.expire();
                self.leaves(late[0], Reason::Timeout);
            }
            _ if waiting.contains(&owner) => {}
            3 => {
                self.simple(owner, "release", |table, locks| table.release_all(locks));
                self.model.release(owner);
                let writes = self.next(4);
                self.players[owner].owner.set_writes(writes);
                self.grants();
            }
            4 => {
                self.simple(owner, "unlock last", |table, locks| table.unlock_last(locks));
                self.model.unlock_last(owner);
                self.grants();
            }
            5 => {
                self.simple(owner, "prepare", |table, locks| {
                    table.release_at_prepare(locks, |_, _| true);
                });
                self.model.prepare(owner);
                self.grants();
            }
            6 => self.lock_range(owner),
            7 | 8 => self.insert(owner),
            9 | 10 => self.lock_table(owner),
            _ => self.lock_row(owner),
        }
        self.compare();
    }

    fn end(mut self) {
        while (0..OWNERS).any(|owner| self.model.is_waiting(owner)) {
            let free = (0..OWNERS).filter(|owner| !self.model.is_waiting(*owner));
            for owner in free.collect::<Vec<_>>() {
                self.simple(owner, "release", |table, locks| table.release_all(locks));
                self.model.release(owner);
                self.grants();
            }
        }
        for owner in 0..OWNERS {
            self.simple(owner, "release", |table, locks| table.release_all(locks));
            self.model.release(owner);
        }
        assert_eq!(self.model.rows_held(), 0);
        assert_empty(&self.table);
    }
}

#[test]
fn random_histories_are_as_the_definition_says() {
    let effort: u64 =
        std::env::var("FROND_EFFORT").ok().and_then(|effort| effort.parse().ok()).unwrap_or(1);
    let mut ended = LockStats::default();
    for seed in 1..=60 * effort {
        let mut game = Game::new(seed);
        game.story.push(format!("seed {seed}"));
        for _ in 0..STEPS {
            game.step();
        }
        let table = game.table.clone();
        game.end();
        let stats = table.stats();
        ended.waits += stats.waits;
        ended.deadlocks += stats.deadlocks;
        ended.timeouts += stats.timeouts;
        ended.interrupts += stats.interrupts;
    }
    println!("{ended:?}");
    assert!(ended.deadlocks > 0 && ended.timeouts > 0 && ended.interrupts > 0);
}
