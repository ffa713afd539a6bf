//! Playing a history: calls of owners, their answers, and what the definition says about them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::mpsc::{Receiver, Sender, channel},
};

use super::{
    hooks::{self, Heard, Server},
    model::{Granted, Model},
    spilled::{Beyond, Edges},
    *,
};
use crate::types::KeyStart;

/// Maximum time for an answer: far more than is needed, so that a failure ends.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of times the table is polled until it agrees with the definition: for about as long.
const LOOKS: u32 = 1_000_000;
/// Divisor of both where a failure is expected.
const LESS: u32 = 150;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Taken(Taken),
    Inserted(bool),
    LockError(Reason),
    /// The keys that an owner finds in gaps of others.
    InGaps(Vec<(TreeId, u8)>),
    Done,
}

/// The state of an owner's thread.
pub(super) struct Seat {
    pub locks: LockSet,
    pub cursors: Vec<RangeLock>,
}

pub(super) type Call = Box<dyn FnOnce(&LockTable, &mut Seat) -> Answer + Send>;

pub(super) struct Player {
    calls: Sender<Call>,
    answers: Receiver<Answer>,
    pub owner: Arc<Owner>,
}

pub(super) struct Game {
    pub rules: Rules,
    pub table: Arc<LockTable>,
    pub clock: Arc<ManualClock>,
    pub players: Vec<Player>,
    /// The spilled rows that the owners answer for.
    pub beyond: Vec<Arc<Beyond>>,
    pub model: Model,
    /// The prepared owners: they wait to be decided, and make no more calls.
    pub prepared: BTreeSet<usize>,
    /// The deadlines of the waiting owners.
    pub deadlines: BTreeMap<usize, Option<Duration>>,
    /// The owners on cycles when the last wait began.
    pub on_cycles: BTreeSet<usize>,
    /// Answers that arrived before they were expected.
    early: BTreeMap<usize, Answer>,
    toss: u64,
    pub story: Vec<String>,
    pub heard: Heard,
}

impl Game {
    pub fn new(rules: Rules, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::default());
        let server = rules.hooks.then(|| Arc::new(Server::default()));
        let hooks = server.clone().map(|server| server as Arc<dyn Hooks>);
        let table = Arc::new(LockTable::with(clock.clone(), hooks));
        let mut model = Model::default();
        model.gaps.is_passed = rules.hooks.then_some(hooks::is_settled);
        let players = (0..rules.owners).map(|id| {
            let (calls, todo) = channel::<Call>();
            let (answer, answers) = channel();
            let mut seat = Seat { locks: table.begin(id as u64), cursors: Vec::new() };
            seat.locks.renew(id as u64, hooks::tag(id));
            let owner = seat.locks.owner().clone();
            let table = table.clone();
            let inherit = crate::plant::inherit();
            thread::spawn(move || {
                inherit();
                for call in todo {
                    if answer.send(call(&table, &mut seat)).is_err() {
                        break;
                    }
                }
                table.release_all(&mut seat.locks);
            });
            Player { calls, answers, owner }
        });
        let players = players.collect();
        Self {
            rules,
            table,
            clock,
            players,
            beyond: (0..rules.owners).map(|_| Arc::default()).collect(),
            model,
            prepared: BTreeSet::new(),
            deadlines: BTreeMap::new(),
            on_cycles: BTreeSet::new(),
            early: BTreeMap::new(),
            toss: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            story: vec![format!("seed {seed}, {rules:?}")],
            heard: Heard::of(server),
        }
    }

    pub fn next(&mut self, below: u64) -> u64 {
        self.toss ^= self.toss << 13;
        self.toss ^= self.toss >> 7;
        self.toss ^= self.toss << 17;
        (self.toss >> 11) % below
    }

    pub fn call(&mut self, owner: usize, what: String, call: Call) {
        self.story.push(format!("{owner}: {what}"));
        self.players[owner].calls.send(call).unwrap();
    }

    pub fn answer(&mut self, owner: usize) -> Answer {
        let early = self.early.remove(&owner).ok_or(());
        let answer =
            early.or_else(|()| self.players[owner].answers.recv_timeout(self.patience_for_all()));
        let answer = answer.unwrap_or_else(|_| self.fail(&format!("{owner} does not answer")));
        self.story.push(format!("  {owner} has {answer:?}"));
        answer
    }

    fn patience_for_all(&self) -> Duration {
        PATIENCE / if self.rules.fails { LESS } else { 1 }
    }

    pub fn fail(&self, what: &str) -> ! {
        panic!("{what}\n{}\n{:?}", self.story.join("\n"), self.table.waits())
    }

    pub fn expect(&mut self, owner: usize, expected: Answer) {
        let answer = self.answer(owner);
        if answer != expected {
            self.fail(&format!("{owner} has {answer:?}, by definition {expected:?}"));
        }
    }

    pub fn wait_policy(&mut self) -> WaitPolicy {
        match self.next(4) {
            0 => WaitPolicy::NoWait,
            1 => WaitPolicy::For(Duration::from_millis(1 + self.next(40))),
            _ => WaitPolicy::Forever,
        }
    }

    /// Handles a wait that the definition knows of.
    pub fn began(&mut self, owner: usize, wait_policy: WaitPolicy) {
        let deadline = match wait_policy {
            // All deadlines differ, so that the waits end one after the other.
            WaitPolicy::For(time) => Some(self.clock.now() + time),
            _ => None,
        };
        self.deadlines.insert(owner, deadline);
        self.on_cycles = self.model.on_cycles(self.rules.owners);
        self.note_wait_begin(owner);
        while self.model.on_cycles(self.rules.owners).len() > 1 {
            self.end_one();
        }
        self.grants();
    }

    /// An owner on a cycle is aborted.
    fn end_one(&mut self) {
        let cycles = self.model.on_cycles(self.rules.owners);
        let mut waited = Duration::ZERO;
        loop {
            for &owner in &cycles {
                if let Ok(answer) = self.players[owner].answers.try_recv() {
                    self.story.push(format!("  {owner} has {answer:?}, of a cycle"));
                    if answer != Answer::LockError(Reason::Deadlock) {
                        // Another was aborted, and has not answered yet.
                        self.early.insert(owner, answer);
                        continue;
                    }
                    // Of two owners the victim is determined; for several cycles that meet, see
                    // `hooks.rs`.
                    let mut others = cycles.iter().filter(|other| **other != owner);
                    if cycles.len() == 2 && others.any(|other| self.is_rather_ended(*other, owner))
                    {
                        self.fail(&format!("{owner} was ended rather than the other"));
                    }
                    self.heard_victim(owner);
                    self.model.withdraw(owner);
                    self.deadlines.remove(&owner);
                    self.grants();
                    return;
                }
            }
            thread::sleep(Duration::from_micros(50));
            waited += Duration::from_micros(50);
            if waited > self.patience_for_all() {
                self.fail("a cycle stays");
            }
        }
    }

    /// Checks that every request granted by definition is granted.
    pub fn grants(&mut self) {
        for (owner, granted) in self.model.settle(self.rules.owners) {
            self.deadlines.remove(&owner);
            let expected = match granted {
                Granted::Lock(taken) => Answer::Taken(taken),
                Granted::Insert => Answer::Inserted(true),
            };
            self.expect(owner, expected);
        }
    }

    /// Checks that the table and the definition agree on all waits.
    pub fn compare(&mut self) {
        let mut differs = None;
        // An owner that must wait may still be on its way there.
        for _ in 0..LOOKS / if self.rules.fails { LESS } else { 1 } {
            let waits = self.table.waits();
            let ids = |ids: &[u64]| ids.iter().map(|id| *id as usize).collect();
            let found: Edges =
                waits.iter().map(|wait| (wait.waiter as usize, ids(&wait.holders))).collect();
            let agree = self.agree(&found, &self.defined());
            differs = self.differs_in_held().filter(|_| agree);
            if agree && differs.is_none() {
                waits.iter().for_each(|wait| self.names_its_row(wait));
                self.check_notifications();
                return;
            }
            self.end_others();
            thread::yield_now();
        }
        let differs = differs.unwrap_or_default();
        self.fail(&format!("by definition wait {:?}; {differs}", self.defined()));
    }

    pub fn defined(&self) -> Edges {
        self.waiting().map(|owner| (owner, self.model.blockers(owner))).collect()
    }

    /// Checks what a wait for a row reports about it, whatever it waits for.
    fn names_its_row(&self, wait: &LockWait) {
        let Some((tree, key, mode)) = self.model.waits_for_row(wait.waiter as usize) else {
            return;
        };
        let key = bytes(key);
        let named = (wait.tree, wait.key_hash, wait.key.clone(), wait.mode);
        let row = (tree, LockTable::row_hash(tree, &key), Some(KeyStart::of(&key)), mode);
        if named != row {
            self.fail(&format!("{} waits for {row:x?}, and says {named:x?}", wait.waiter));
        }
    }

    /// Where several cycles met in one owner, more owners may be aborted than necessary: one of
    /// each cycle, found one after the other, and then that owner.
    fn end_others(&mut self) {
        for owner in self.on_cycles.clone() {
            let waits = self.model.is_waiting(owner) && !self.early.contains_key(&owner);
            let answer = if waits { self.players[owner].answers.try_recv().ok() } else { None };
            if let Some(answer) = answer {
                self.story.push(format!("  {owner} has {answer:?}, of another cycle"));
                if answer != Answer::LockError(Reason::Deadlock) {
                    self.fail(&format!("{owner} still waits by definition"));
                }
                self.heard_victim(owner);
                self.model.withdraw(owner);
                self.deadlines.remove(&owner);
                self.grants();
            }
        }
    }

    pub fn leaves(&mut self, owner: usize, reason: Reason) {
        self.expect(owner, Answer::LockError(reason));
        self.model.withdraw(owner);
        self.deadlines.remove(&owner);
        self.grants();
    }

    /// Plays the whole history; returns the results of its waits.
    pub fn play(mut self) -> Played {
        for _ in 0..self.rules.steps {
            self.step();
        }
        self.end();
        Played { stats: self.table.stats(), longest: self.heard.longest }
    }

    fn end(&mut self) {
        while self.waiting().next().is_some() {
            let free = (0..self.rules.owners).filter(|owner| !self.model.is_waiting(*owner));
            for owner in free.collect::<Vec<_>>() {
                self.release(owner);
            }
        }
        for owner in 0..self.rules.owners {
            self.release(owner);
        }
        assert_eq!(self.model.rows_held(), 0);
        assert_empty(&self.table);
    }

    pub fn waiting(&self) -> impl Iterator<Item = usize> {
        (0..self.rules.owners).filter(|owner| self.model.is_waiting(*owner))
    }
}
