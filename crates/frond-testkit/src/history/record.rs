//! Histories of a store: threads that run short transactions of given levels on few keys, and batches between them,
//! each writing down what it did and saw.
//!
//! Keys are a window that moves on, so that lists stay short. Who is ended by a deadlock or a conflict has aborted;
//! whose commit meets a store that stops does not know.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use frond::{
    Batch, Db, Error, ErrorKind, IfLocked, Isolation, Result, RowLock, Tree, TreeOptions,
    TxnCursor, TxnOptions, operator,
};

use super::{Call, History, Key, Number, Outcome, Txn};
use crate::Dice;

/// Keys in use at once.
const WINDOW: u64 = 5;
/// The window moves on by one after so many numbers.
const NUMBERS_A_KEY: u64 = 40;

/// What threads do.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Threads.
    pub threads: u32,
    /// Transactions of each.
    pub txns: u32,
    /// Each takes one of these.
    pub levels: Vec<Isolation>,
    /// One in so many is a batch; 0: none.
    pub batches: u64,
    /// What they do.
    pub seed: u64,
    /// Called in each thread before it begins.
    pub prepare: fn(),
}

impl Workload {
    /// So many transactions of four threads, at these levels, and some batches.
    pub fn of(levels: &[Isolation], txns: u32, seed: u64) -> Self {
        Self { threads: 4, txns, levels: levels.to_vec(), batches: 8, seed, prepare: || {} }
    }
}

/// Writes a history down, of one store, through any number of restarts.
#[derive(Debug, Default)]
pub struct Recorder {
    moments: AtomicU64,
    numbers: AtomicU64,
    sessions: AtomicU32,
    history: Mutex<History>,
}

struct Trees {
    lists: Tree,
    registers: Tree,
}

impl Trees {
    fn open(db: &Db) -> Result<Self> {
        let tree = |name: &str| match db.open_tree(name) {
            Err(Error::NoSuchTree(_)) => db.create_tree(name, TreeOptions::default()),
            found => found,
        };
        Ok(Self { lists: tree("lists")?, registers: tree("registers")? })
    }
}

/// A transaction on its way.
struct Running<'a> {
    recorder: &'a Recorder,
    trees: &'a Trees,
    txn: &'a frond::Txn,
    done: &'a mut Txn,
    call: u32,
}

impl Recorder {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many transactions have ended.
    pub fn len(&self) -> usize {
        self.history().txns.len()
    }

    /// True if none has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// The store is open again.
    pub fn restarted(&self) {
        let moment = self.moment();
        self.history().restarts.push(moment);
    }

    /// Runs threads until all is done, or the store has stopped.
    ///
    /// # Errors
    /// What opening the trees fails with.
    pub fn run(&self, db: &Db, workload: &Workload) -> Result<()> {
        let trees = &Trees::open(db)?;
        std::thread::scope(|scope| {
            for thread in 0..workload.threads {
                scope.spawn(move || {
                    (workload.prepare)();
                    let session = self.sessions.fetch_add(1, Ordering::Relaxed);
                    let mut dice = Dice::new(workload.seed << 8 | u64::from(thread));
                    for _ in 0..workload.txns {
                        let isolation = *dice.pick(&workload.levels);
                        let is_batch = workload.batches > 0 && dice.chance(1, workload.batches);
                        let went = match is_batch {
                            true => self.batch(db, trees, session, &mut dice),
                            false => self.txn(db, trees, (session, isolation), &mut dice),
                        };
                        if went.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Ok(())
    }

    /// Reads everything once more, and gives the history.
    ///
    /// # Errors
    /// What reading fails with.
    pub fn finish(self, db: &Db) -> Result<History> {
        let trees = Trees::open(db)?;
        let mut last = self.begin((u32::MAX, Isolation::Snapshot));
        let snapshot = db.snapshot();
        let keys = 0..self.first_key() + WINDOW;
        for key in keys {
            let bytes = key.to_be_bytes();
            let list = numbers(&snapshot.get(&trees.lists, &bytes)?.unwrap_or_default());
            last.calls.push((0, Call::List(key, list, false)));
            let register = snapshot.get(&trees.registers, &bytes)?;
            last.calls.push((0, Call::Register(key, register.map(number), false)));
        }
        self.end(last, Outcome::Committed);
        Ok(self.history.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(&self, (session, isolation): (u32, Isolation)) -> Txn {
        let (begun, outcome) = (self.moment(), Outcome::Aborted);
        let (calls, undone) = (Vec::new(), Vec::new());
        Txn { session, isolation, begun, ended: begun, outcome, calls, undone }
    }

    fn end(&self, mut txn: Txn, outcome: Outcome) {
        (txn.ended, txn.outcome) = (self.moment(), outcome);
        self.history().txns.push(txn);
    }

    /// Writes down how a commit ended; an error if the store has stopped.
    fn committed<T>(&self, txn: Txn, commit: Result<T>) -> Result<()> {
        let outcome = match &commit {
            Ok(_) => Outcome::Committed,
            Err(error) if error.kind() == ErrorKind::Reopen => Outcome::Unknown,
            Err(_) => Outcome::Aborted,
        };
        self.end(txn, outcome);
        go_on(commit.map(drop))
    }

    fn first_key(&self) -> Key {
        self.numbers.load(Ordering::Relaxed) / NUMBERS_A_KEY
    }

    fn any_key(&self, dice: &mut Dice) -> Key {
        self.first_key() + dice.below(WINDOW)
    }

    fn number(&self) -> Number {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    fn batch(&self, db: &Db, trees: &Trees, session: u32, dice: &mut Dice) -> Result<()> {
        let mut done = self.begin((session, Isolation::ReadCommitted));
        let mut batch = Batch::new();
        for _ in 0..dice.between(1, 4) {
            let (key, number) = (self.any_key(dice), self.number());
            let (at, bytes) = (key.to_be_bytes(), number.to_be_bytes());
            if dice.chance(2, 3) {
                batch.merge(&trees.lists, &at, operator::APPEND, &bytes)?;
                done.calls.push((0, Call::Append(key, number)));
            } else {
                batch.put(&trees.registers, &at, &bytes)?;
                done.calls.push((0, Call::Set(key, number)));
            }
        }
        self.committed(done, db.commit(&mut batch))
    }

    fn txn(
        &self,
        db: &Db,
        trees: &Trees,
        (session, isolation): (u32, Isolation),
        dice: &mut Dice,
    ) -> Result<()> {
        let mut done = self.begin((session, isolation));
        let txn = db.begin(TxnOptions { isolation, ..Default::default() })?;
        let mut running = Running { recorder: self, trees, txn: &txn, done: &mut done, call: 0 };
        if let Err(error) = running.some(dice) {
            // By a deadlock or a conflict, or the store has stopped.
            drop(txn);
            self.end(done, Outcome::Aborted);
            return go_on(Err(error));
        }
        if dice.chance(1, 12) {
            txn.rollback();
            self.end(done, Outcome::Aborted);
            return Ok(());
        }
        let commit = txn.commit();
        self.committed(done, commit)
    }
}

/// What ends a transaction does not end its thread.
fn go_on(went: Result<()>) -> Result<()> {
    match went {
        Err(error) if error.kind() != ErrorKind::Retry => Err(error),
        _ => Ok(()),
    }
}

impl Running<'_> {
    /// Some calls, some of them taken back by a savepoint.
    fn some(&mut self, dice: &mut Dice) -> Result<()> {
        for _ in 0..dice.between(1, 5) {
            if !dice.chance(1, 8) {
                self.one(dice)?;
                continue;
            }
            let (savepoint, kept) = (self.txn.savepoint()?, self.done.calls.len());
            for _ in 0..dice.between(1, 2) {
                self.one(dice)?;
            }
            self.txn.rollback_to(&savepoint)?;
            for (_, call) in self.done.calls.split_off(kept) {
                self.done.undone.extend(call.written());
            }
        }
        Ok(())
    }

    fn one(&mut self, dice: &mut Dice) -> Result<()> {
        self.call += 1;
        // Few processors: the others are to come between two calls.
        if dice.chance(1, 3) {
            std::thread::yield_now();
        }
        let key = self.recorder.any_key(dice);
        let locks = dice.chance(1, 3);
        match dice.below(10) {
            0..3 => {
                let number = self.recorder.number();
                let (at, bytes) = (key.to_be_bytes(), number.to_be_bytes());
                self.txn.merge(&self.trees.lists, &at, operator::APPEND, &bytes)?;
                self.note(Call::Append(key, number));
            }
            3 => self.rewrite(key)?,
            4 | 5 => {
                let list = self.read(&self.trees.lists, key, locks, dice)?;
                self.note(Call::List(key, numbers(&list.unwrap_or_default()), locks));
            }
            6 => self.scan(locks, dice)?,
            7 | 8 => {
                let reads = dice.chance(4, 5);
                if reads {
                    let value = self.read(&self.trees.registers, key, locks, dice)?;
                    self.note(Call::Register(key, value.map(number), locks));
                }
                let number = self.recorder.number();
                let (at, bytes) = (key.to_be_bytes(), number.to_be_bytes());
                self.txn.put(&self.trees.registers, &at, &bytes)?;
                self.note(Call::Set(key, number));
            }
            _ => {
                let value = self.read(&self.trees.registers, key, locks, dice)?;
                self.note(Call::Register(key, value.map(number), locks));
            }
        }
        Ok(())
    }

    fn note(&mut self, call: Call) {
        self.done.calls.push((self.call, call));
    }

    fn read(&self, tree: &Tree, key: Key, locks: bool, dice: &mut Dice) -> Result<Option<Vec<u8>>> {
        let key = key.to_be_bytes();
        match (locks, dice.chance(1, 2)) {
            (false, _) => self.txn.get(tree, &key),
            (true, false) => self.txn.get_for_update(tree, &key),
            (true, true) => self.txn.get_for_share(tree, &key),
        }
    }

    /// Reads a list and puts it longer: by a plain read only where the level forbids that others are undone by it.
    fn rewrite(&mut self, key: Key) -> Result<()> {
        let forbids = matches!(self.done.isolation, Isolation::Snapshot | Isolation::Serializable);
        let (at, number) = (key.to_be_bytes(), self.recorder.number());
        let locks = !forbids || number.is_multiple_of(2);
        let list = match locks {
            true => self.txn.get_for_update(&self.trees.lists, &at)?,
            false => self.txn.get(&self.trees.lists, &at)?,
        };
        let mut list = list.unwrap_or_default();
        self.note(Call::List(key, numbers(&list), locks));
        list.extend_from_slice(&number.to_be_bytes());
        self.txn.put(&self.trees.lists, &at, &list)?;
        self.note(Call::Rewrite(key, numbers(&list)));
        Ok(())
    }

    /// A scan of the window. Of keys that are not there a locking scan knows only if it locks gaps.
    fn scan(&mut self, locks: bool, dice: &mut Dice) -> Result<()> {
        let first = self.recorder.first_key();
        let end = first + WINDOW;
        let range = &first.to_be_bytes()[..]..&end.to_be_bytes()[..];
        let lists = &self.trees.lists;
        let lock = *dice.pick(&[RowLock::Shared, RowLock::Exclusive]);
        let cursor = match locks {
            true => self.txn.scan_locked(lists, range, lock, IfLocked::Wait)?,
            false => self.txn.scan(lists, range)?,
        };
        let rows = rows(cursor, dice.chance(1, 2))?;
        let knows_gaps = !locks
            || matches!(self.done.isolation, Isolation::RepeatableRead | Isolation::Serializable);
        for key in first..end {
            let row = rows.iter().find(|(of, _)| *of == key);
            if row.is_some() || knows_gaps {
                let list = row.map(|(_, list)| list.clone()).unwrap_or_default();
                self.note(Call::List(key, list, locks));
            }
        }
        Ok(())
    }
}

fn rows(mut cursor: TxnCursor<'_>, reverse: bool) -> Result<Vec<(Key, Vec<Number>)>> {
    let mut rows = Vec::new();
    if reverse {
        cursor.seek_last();
    }
    while let Some((key, value)) = if reverse { cursor.prev()? } else { cursor.next()? } {
        rows.push((number(key.to_vec()), numbers(value)));
    }
    Ok(rows)
}

fn number(bytes: Vec<u8>) -> Number {
    bytes.try_into().map_or(Number::MAX, Number::from_be_bytes)
}

fn numbers(bytes: &[u8]) -> Vec<Number> {
    bytes.chunks(8).map(|number_bytes| number(number_bytes.to_vec())).collect()
}
