//! The engine under test, and the run of a script on it and on the model side by side.
//!
//! Invariants
//! 1. If an operation returns no error, its answer is that of the model.
//! 2. An operation that fails with an error that does not stop the store has no effect. After an
//!    error that stops the store (`ErrorKind::Reopen`) the operation may be there or not, and
//!    nothing is acknowledged any more.
//! 3. The note given to the disk before each call says how many steps were issued and how many must
//!    survive, by the durability table of P1.
//! 4. If a call of a transaction fails other than by a refusal, engine and model roll it back.
//!    Operations that would wait for a transaction are not made: one thread runs all of them.

use std::{collections::BTreeMap, time::Duration};

use frond::{Durability, Error, ErrorKind, internals::io::Env};

mod failure;
mod met;
mod opened;
mod verdict;

pub use failure::{Failure, fail};
pub use met::Met;
pub use opened::Opened;
pub use verdict::{answer_or_error, find_step};
use verdict::{mismatch, shorten};

use crate::{
    disk::{CrashOptions, DiskState, Note, SimVfs, crash_states},
    model::{Answer, Everything, Model, Sessions, difference},
    ops::{Op, TxnOp, Write},
};

/// How to open a store of one kind, with one set of options.
pub trait Engine: Sync {
    /// The open store.
    type Store: Store;

    /// Opens the store in this environment, creating it if there is none.
    fn open(&self, env: &Env) -> frond::Result<Self::Store>;

    /// The durability level of commits that do not name one.
    fn level(&self) -> Durability;

    /// The level of catalog changes and named snapshots (P7: durable when they return).
    fn catalog_level(&self) -> Durability {
        Durability::Sync
    }
}

/// An open store.
pub trait Store: Sized {
    /// Carries out an operation (except restarts, steps and time). Refusals of the engine are
    /// returned as answers: see [`answer_or_error`]. After any other error of a transaction's call
    /// the transaction is gone.
    fn apply(&mut self, op: &Op) -> frond::Result<Answer>;

    /// Reads all rows of all trees and named snapshots.
    fn read_everything(&mut self) -> frond::Result<Everything>;

    /// Runs the full check; `Err` describes the damage.
    fn check(&mut self) -> Result<(), String>;

    /// One step of background work; false if there was none to do.
    fn step(&mut self) -> frond::Result<bool>;

    /// True if the opening used the older slot.
    fn fell_back(&self) -> bool {
        false
    }

    /// True if the opening had no disk space for the checkpoint that ends a recovery.
    fn lacked_room(&self) -> bool {
        false
    }

    /// Does one step of draining buffers; false if they are all empty.
    fn drain(&mut self) -> frond::Result<bool> {
        Ok(false)
    }

    /// Whether the ordered commit of the transaction prepared by this number is visible.
    fn can_be_seen(&mut self, _number: u8) -> bool {
        true
    }

    /// Closes the store.
    fn close(self) -> frond::Result<()>;
}

/// How a run treats errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errors {
    /// No error is expected.
    Fail,
    /// Faults are planned: errors are legal by invariant 2.
    Expected,
    /// The disk is small: only `Full` is legal.
    OnlyFull,
}

/// A script that runs on an engine and on the model.
pub struct Run<'e, E: Engine> {
    engine: &'e E,
    vfs: SimVfs,
    env: Env,
    store: Opened<E::Store>,
    model: Model,
    floors: Note,
    recent: Vec<Recent>,
    held: BTreeMap<u8, u64>,
    sessions: Sessions,
    errors: Errors,
    stopped: bool,
    restarts: u64,
    seed: u64,
    /// What happened to its transactions.
    pub met: Met,
    /// Commits that crashes of the script have lost.
    pub lost: u64,
    /// Errors met.
    pub errors_met: u64,
}

struct Recent {
    step: u64,
    at: Duration,
    level: Durability,
}

/// Timers run when the clock moves, and it moves by this: the tolerance on P1's seconds.
const TICK: Duration = Duration::from_millis(100);
/// More steps than any test's backlog: if they do not suffice, background work never ends.
const STEPS_MAX: u32 = 200_000;

impl<'e, E: Engine> Run<'e, E> {
    /// Opens the store on this disk; the model says what must be in it.
    pub fn start(
        engine: &'e E,
        vfs: SimVfs,
        seed: u64,
        model: Model,
        errors: Errors,
    ) -> frond::Result<Self> {
        let env = vfs.env(seed);
        let step = model.step();
        let floors = Note { issued: step, floor_power: step, floor_kill: step };
        vfs.set_note(floors);
        let store = Opened::open(engine, &env)?;
        Ok(Self::adopt(engine, vfs, env, store, seed, model, errors))
    }

    /// Continues with a store that is already open.
    pub fn adopt(
        engine: &'e E,
        vfs: SimVfs,
        env: Env,
        store: Opened<E::Store>,
        seed: u64,
        model: Model,
        errors: Errors,
    ) -> Self {
        let step = model.step();
        let floors = Note { issued: step, floor_power: step, floor_kill: step };
        vfs.set_note(floors);
        let mut sessions = Sessions::default();
        sessions.adopt(&model, true);
        Self {
            engine,
            vfs,
            env,
            store,
            model,
            floors,
            recent: Vec::new(),
            held: BTreeMap::new(),
            sessions,
            errors,
            stopped: false,
            restarts: 0,
            seed,
            met: Met::default(),
            lost: 0,
            errors_met: 0,
        }
    }

    /// The current disk.
    pub fn vfs(&self) -> &SimVfs {
        &self.vfs
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What must survive a crash now.
    pub fn note(&self) -> Note {
        Note { issued: self.model.step() + self.sessions.in_order(), ..self.floors }
    }

    /// True once the store has stopped after a failure.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Runs a script.
    pub fn script(&mut self, script: &[Op]) -> Result<(), Failure> {
        for (index, op) in script.iter().enumerate() {
            let place = || format!("operation {index}: {}", shorten(&op.to_string()));
            self.go(op).map_err(|failure| failure.during(place()))?;
        }
        Ok(())
    }

    /// Runs one operation.
    pub fn go(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::Step(count) => self.steps(*count)?,
            Op::Drain(count) => self.drain(*count)?,
            Op::Advance(millis) => self.advance(Duration::from_millis(u64::from(*millis)))?,
            Op::Reopen => return self.reopen(),
            Op::Crash(seed) => {
                let options = CrashOptions { seed: *seed, ..CrashOptions::random(1) };
                let states = crash_states(&self.vfs.disk(), &options);
                let state = states.into_iter().next_back().expect("there is always a state");
                return self.restart_on(state.disk, self.floors.floor_power);
            }
            Op::Kill => {
                return self.restart_on(self.vfs.disk().after_kill(), self.floors.floor_kill);
            }
            Op::ReadHeld(slot) if !self.held.contains_key(slot) => {}
            Op::Release(slot) if self.held.remove(slot).is_none() => {}
            _ => return self.call(op),
        }
        Ok(())
    }

    /// The open store.
    ///
    /// # Errors
    /// If there is none.
    pub fn store(&mut self) -> Result<&mut E::Store, Failure> {
        self.store.get().ok_or_else(|| Failure("the store is not open".into()))
    }

    fn call(&mut self, op: &Op) -> Result<(), Failure> {
        if self.sessions.would_wait(&self.model, op) {
            self.met.waits += 1;
            return Ok(());
        }
        if self.sessions.is_vague(&self.model, op) {
            return Ok(());
        }
        let level = self.sessions.step_of(op);
        let makes_step =
            op.is_change() || level.is_some() || matches!(op, Op::InTxn(_, TxnOp::Order));
        let issued = self.note().issued + u64::from(makes_step);
        self.vfs.set_note(Note { issued, ..self.floors });
        let decides = self.sessions.decides(op);
        let answer = match self.store()?.apply(op) {
            Ok(answer) => answer,
            Err(error) => return self.failed(op, &error),
        };
        if self.stopped {
            // The model may be one step ahead of it; only an acknowledgement would be wrong (P12).
            let changes = level.is_some() || op.is_change();
            let lies = changes && answer == Answer::Done;
            return if lies { fail("acknowledged by a store that had stopped") } else { Ok(()) };
        }
        // Ordered commits come before what is committed later.
        if answer == Answer::Done && (op.is_change() || level.is_some()) {
            self.sessions.land_all(&mut self.model);
        }
        self.sessions.land_for(&mut self.model, op);
        let ordered = self.sessions.ordered_commit(op);
        let expected = match op {
            Op::Hold(slot) => {
                self.held.insert(*slot, self.model.step());
                Answer::Done
            }
            Op::ReadHeld(slot) => {
                Answer::All(self.model.read_all_at(self.held.get(slot).copied().unwrap_or(0)))
            }
            Op::Begin(..) | Op::InTxn(..) | Op::Decide(..) => {
                self.sessions.apply(&mut self.model, op, &answer)
            }
            _ => self.model.apply(op),
        };
        if answer != expected {
            return fail(mismatch(&expected, &answer));
        }
        self.met.count(op, &answer, level.is_some(), decides);
        match (&answer, level, ordered) {
            (Answer::Done, _, Some((level, step))) => {
                self.acknowledged_step(step, level.unwrap_or(self.engine.level()));
            }
            (Answer::Done, Some(level), _) => {
                self.acknowledged_at(level.unwrap_or(self.engine.level()));
            }
            (Answer::Done, None, None) => self.acknowledged(op),
            _ => {}
        }
        self.look_for_ordered()?;
        self.vfs.set_note(self.note());
        Ok(())
    }

    /// Makes ordered commits steps of the model once they are visible.
    fn look_for_ordered(&mut self) -> Result<(), Failure> {
        while let Some(number) = self.sessions.next_in_order() {
            if !self.store()?.can_be_seen(number) {
                break;
            }
            self.sessions.land(&mut self.model);
        }
        Ok(())
    }

    fn acknowledged(&mut self, op: &Op) {
        let level = match op {
            // An empty batch is no commit.
            Op::Commit(_, writes) if writes.iter().all(Write::is_nothing) => return,
            Op::Commit(Some(level), _) => *level,
            Op::Commit(None, _) => self.engine.level(),
            Op::Checkpoint => Durability::Sync,
            op if op.is_change() => self.engine.catalog_level(),
            _ => return,
        };
        self.acknowledged_at(level);
    }

    fn acknowledged_at(&mut self, level: Durability) {
        self.acknowledged_step(self.model.step(), level);
    }

    fn acknowledged_step(&mut self, step: u64, level: Durability) {
        if level == Durability::Sync {
            self.floors.floor_power = self.floors.floor_power.max(step);
        } else {
            self.recent.push(Recent { step, at: self.vfs.now(), level });
        }
        if level != Durability::Lazy {
            self.floors.floor_kill = self.floors.floor_kill.max(step);
        }
    }

    fn failed(&mut self, op: &Op, error: &Error) -> Result<(), Failure> {
        self.errors_met += 1;
        let full = matches!(error, Error::Full(_));
        let slot = match op {
            Op::Begin(slot, ..) | Op::InTxn(slot, _) => Some(*slot),
            _ => None,
        };
        match self.errors {
            Errors::Fail => return fail(format!("unexpected error: {error}")),
            Errors::OnlyFull if !full => return fail(format!("only Full is legal here: {error}")),
            _ => {}
        }
        if error.kind() == ErrorKind::Reopen {
            self.sessions.land_all(&mut self.model);
            if !self.stopped && (op.is_change() || self.sessions.step_of(op).is_some()) {
                // It may be there after reopening. A refusal in the model makes no step.
                match op.is_change() {
                    true => drop(self.model.apply(op)),
                    false => drop(self.sessions.apply(&mut self.model, op, &Answer::Done)),
                }
            }
            self.stopped = true;
        }
        if let Some(slot) = slot {
            self.sessions.forget(slot);
        }
        self.vfs.set_note(self.note());
        Ok(())
    }

    /// Runs background work until there is none.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.steps(STEPS_MAX)
    }

    /// Does up to `count` steps of background work.
    fn steps(&mut self, count: u32) -> Result<(), Failure> {
        if self.stopped {
            return Ok(());
        }
        let Some(store) = self.store.get() else { return Ok(()) };
        for _ in 0..count {
            match store.step() {
                Ok(true) => {}
                Ok(false) => return self.look_for_ordered(),
                Err(error) => return self.background_failed(&error),
            }
        }
        self.look_for_ordered()?;
        match count {
            STEPS_MAX => fail(format!("background work did not come to rest in {count} steps")),
            _ => Ok(()),
        }
    }

    /// Does up to `count` steps of draining.
    fn drain(&mut self, count: u32) -> Result<(), Failure> {
        if self.stopped {
            return Ok(());
        }
        let Some(store) = self.store.get() else { return Ok(()) };
        for _ in 0..count {
            match store.drain() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return self.background_failed(&error),
            }
        }
        Ok(())
    }

    fn background_failed(&mut self, error: &Error) -> Result<(), Failure> {
        self.errors_met += 1;
        match (self.errors, error) {
            (Errors::Fail, _) => return fail(format!("background work failed: {error}")),
            (Errors::OnlyFull, _) => {
                return fail(format!("a full disk must not end background work: {error}"));
            }
            _ => {}
        }
        // No call has reported it yet, but timers make nothing durable from now on.
        self.stopped = true;
        Ok(())
    }

    fn advance(&mut self, time: Duration) -> Result<(), Failure> {
        let mut left = time;
        while !left.is_zero() {
            let tick = left.min(TICK);
            self.vfs.advance(tick);
            self.steps(STEPS_MAX)?;
            left -= tick;
        }
        if self.stopped {
            return Ok(());
        }
        let now = self.vfs.now();
        let floors = &mut self.floors;
        for Recent { step, at, level } in &self.recent {
            let age = now.saturating_sub(*at);
            let (kill, power) = match level {
                Durability::Lazy => (1, 2),
                _ => (0, 1),
            };
            if age >= Duration::from_secs(kill) + TICK {
                floors.floor_kill = floors.floor_kill.max(*step);
            }
            if age >= Duration::from_secs(power) + TICK {
                floors.floor_power = floors.floor_power.max(*step);
            }
        }
        self.recent.retain(|recent| recent.step > floors.floor_power);
        self.vfs.set_note(self.note());
        Ok(())
    }

    /// Closes and opens the store. Nothing may be lost.
    pub fn reopen(&mut self) -> Result<(), Failure> {
        if self.stopped {
            return Ok(());
        }
        self.close()?;
        if self.stopped {
            return Ok(());
        }
        self.open_again()
    }

    /// Closes the store.
    pub fn close(&mut self) -> Result<(), Failure> {
        self.forget_handles();
        let Some(store) = self.store.0.take() else { return Ok(()) };
        match store.close() {
            Ok(()) => {
                let step = self.model.step();
                self.floors = Note { issued: step, floor_power: step, floor_kill: step };
                self.recent.clear();
                self.vfs.set_note(self.note());
                Ok(())
            }
            Err(error) if self.errors == Errors::Fail => fail(format!("close failed: {error}")),
            Err(_) => {
                self.errors_met += 1;
                self.stopped = true;
                Ok(())
            }
        }
    }

    fn open_again(&mut self) -> Result<(), Failure> {
        self.restarts += 1;
        self.env = self.vfs.env(self.seed.wrapping_add(self.restarts));
        match Opened::open(self.engine, &self.env) {
            Ok(store) => {
                self.store = store;
                self.sessions.adopt(&self.model, false);
            }
            Err(error) if self.errors == Errors::Fail => {
                return fail(format!("does not open: {error}"));
            }
            Err(_) => {
                self.errors_met += 1;
                self.stopped = true;
            }
        }
        Ok(())
    }

    /// Lets the machine or process die, and starts it again on this disk.
    fn restart_on(&mut self, disk: DiskState, floor: u64) -> Result<(), Failure> {
        if self.stopped {
            return Ok(());
        }
        self.vfs.halt();
        self.forget_handles();
        self.store = Opened::none();
        let now = self.vfs.now();
        self.vfs = SimVfs::start(disk);
        self.vfs.advance(now);
        self.open_again()?;
        let issued = self.model.step();
        let found = self.store()?.read_everything()?;
        let step = find_step(&self.model, &found, floor, issued)?;
        self.lost += issued - step;
        self.model = self.model.fork_at(step);
        self.sessions.adopt(&self.model, true);
        self.floors = Note { issued: step, floor_power: step, floor_kill: step };
        self.recent.clear();
        self.vfs.set_note(self.note());
        Ok(())
    }

    /// Compares everything a reader sees with the model.
    pub fn compare(&mut self) -> Result<(), Failure> {
        let found = self.store()?.read_everything()?;
        let expected = self.model.everything();
        if found == expected { Ok(()) } else { fail(difference(&expected, &found)) }
    }

    /// Runs the engine's own check.
    pub fn check(&mut self) -> Result<(), Failure> {
        self.store()?.check().map_err(|damage| Failure(format!("check finds damage: {damage}")))
    }

    /// Compares, checks, closes, opens, compares and closes: the end of every healthy run.
    pub fn finish(&mut self) -> Result<(), Failure> {
        for slot in self.sessions.ordered_hands() {
            self.go(&Op::InTxn(slot, TxnOp::Commit))?;
        }
        self.compare().map_err(|failure| failure.during("at the end"))?;
        self.check()?;
        self.reopen()?;
        self.compare().map_err(|failure| failure.during("after the last restart"))?;
        self.check()?;
        self.close()
    }

    /// Forgets held snapshots and transactions, except prepared ones.
    fn forget_handles(&mut self) {
        self.held.clear();
        self.sessions.land_all(&mut self.model);
        self.sessions.clear();
    }

    /// Drops the store without closing it.
    pub fn abandon(&mut self) {
        self.forget_handles();
        self.store = Opened::none();
    }
}
