//! Records histories of a store: threads run short transactions of given levels on few keys, and
//! batches in between, and each records what it did and saw.
//!
//! The keys are a moving window, so that lists stay short. A transaction that a deadlock or a
//! conflict ends has aborted; if the store stops during its commit, its outcome is unknown.

mod decide;
mod rows;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use frond::{
    Batch, Db, Duplicate, Error, ErrorKind, IfLocked, Isolation, ReadOptions, Result, RowLock,
    Tree, TreeOptions, TxnCursor, TxnOptions, operator, transaction::Xid,
};

use super::{Call, History, Key, Number, Outcome, Txn};
use crate::Dice;
use decide::Pending;

/// Number of keys in use at a time.
const WINDOW: u64 = 5;
/// The window moves by one key after this many numbers.
const NUMBERS_A_KEY: u64 = 40;
/// Maximum wait for a lock: a prepared transaction, or one whose store has stopped, keeps its
/// locks.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// The work of the threads.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Number of threads.
    pub threads: u32,
    /// Number of transactions of each thread.
    pub txns: u32,
    /// The levels; each transaction takes one of them.
    pub levels: Vec<Isolation>,
    /// One transaction in this many is a batch; 0: none.
    pub batches: u64,
    /// Of transactions that commit, one in this many is prepared first; 0: none.
    pub prepares: u64,
    /// Seed of what they do.
    pub seed: u64,
    /// Called in each thread before it starts.
    pub prepare: fn(),
}

impl Workload {
    /// `txns` transactions of each of four threads, at these levels, and some batches.
    pub fn of(levels: &[Isolation], txns: u32, seed: u64) -> Self {
        let levels = levels.to_vec();
        Self { threads: 4, txns, levels, batches: 8, prepares: 8, seed, prepare: || {} }
    }
}

/// Records the history of one store, through any number of restarts.
#[derive(Debug, Default)]
pub struct Recorder {
    moments: AtomicU64,
    numbers: AtomicU64,
    sessions: AtomicU32,
    history: Mutex<History>,
    pending: Pending,
}

struct Trees {
    lists: Tree,
    registers: Tree,
    rows: rows::Trees,
}

impl Trees {
    fn open(db: &Db) -> Result<Self> {
        let tree = |name: &str| match db.open_tree(name) {
            Err(Error::NoSuchTree(_)) => db.create_tree(name, TreeOptions::default()),
            found => found,
        };
        let rows = rows::Trees::open(&tree)?;
        Ok(Self { lists: tree("lists")?, registers: tree("registers")?, rows })
    }
}

/// A running transaction.
struct Running<'a> {
    recorder: &'a Recorder,
    trees: &'a Trees,
    txn: &'a frond::Txn,
    done: &'a mut Txn,
    call: u32,
    read_only: bool,
}

impl Recorder {
    /// An empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of transactions that have ended.
    pub fn len(&self) -> usize {
        self.history().txns.len()
    }

    /// True if no transaction has ended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn history(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn moment(&self) -> u64 {
        self.moments.fetch_add(1, Ordering::SeqCst)
    }

    /// Records that the store is open again.
    pub fn restarted(&self) {
        let moment = self.moment();
        self.history().restarts.push(moment);
    }

    /// Runs threads until all is done, or the store has stopped.
    ///
    /// # Errors
    /// Those of opening the trees.
    pub fn run(&self, db: &Db, workload: &Workload) -> Result<()> {
        let trees = &Trees::open(db)?;
        self.settle(db, &mut Dice::new(workload.seed))?;
        let (detached, to_decide) = mpsc::channel::<Xid>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                (workload.prepare)();
                let mut dice = Dice::new(!workload.seed);
                to_decide.iter().for_each(|xid| self.decide(db, &xid, &mut dice));
            });
            for thread in 0..workload.threads {
                let detached = detached.clone();
                scope.spawn(move || {
                    (workload.prepare)();
                    let session = self.sessions.fetch_add(1, Ordering::Relaxed);
                    let mut dice = Dice::new(workload.seed << 8 | u64::from(thread));
                    for _ in 0..workload.txns {
                        let isolation = *dice.pick(&workload.levels);
                        let is_batch = workload.batches > 0 && dice.chance(1, workload.batches);
                        let by = (session, isolation);
                        let went = match is_batch {
                            true => self.batch(db, trees, session, &mut dice),
                            false => self.txn(db, trees, by, workload, &detached, &mut dice),
                        };
                        if let Err(error) = went {
                            assert_ne!(error.kind(), ErrorKind::FixCall, "{error}");
                            break;
                        }
                    }
                });
            }
            drop(detached);
        });
        Ok(())
    }

    /// Reads everything once more, and returns the history.
    ///
    /// # Errors
    /// Those of reading.
    pub fn finish(self, db: &Db) -> Result<History> {
        let trees = Trees::open(db)?;
        self.settle(db, &mut Dice::new(0))?;
        let mut last = self.begin((u32::MAX, Isolation::Snapshot));
        let snapshot = db.snapshot();
        let keys = 0..self.first_key() + WINDOW;
        for key in keys {
            let bytes = key.to_be_bytes();
            let list = numbers(&snapshot.get(&trees.lists, &bytes)?.unwrap_or_default());
            last.calls.push((0, Call::List(key, list, false)));
            let register = snapshot.get(&trees.registers, &bytes)?;
            last.calls.push((0, Call::Register(key, register.map(number), false)));
            trees.rows.finish(&snapshot, key, &mut last)?;
        }
        self.end(last, Outcome::Committed);
        Ok(self.history.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(&self, (session, isolation): (u32, Isolation)) -> Txn {
        let (begun, outcome) = (self.moment(), Outcome::Aborted);
        let (calls, undone, prepared) = (Vec::new(), Vec::new(), false);
        Txn { session, isolation, begun, ended: begun, outcome, prepared, calls, undone }
    }

    fn end(&self, mut txn: Txn, outcome: Outcome) {
        (txn.ended, txn.outcome) = (self.moment(), outcome);
        self.history().txns.push(txn);
    }

    /// Records how a commit ended; an error if the store has stopped.
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
        workload: &Workload,
        detached: &mpsc::Sender<Xid>,
        dice: &mut Dice,
    ) -> Result<()> {
        let mut done = self.begin((session, isolation));
        let read_only = dice.chance(1, 10);
        let lock_timeout = Some(WAIT_MAX);
        let options =
            TxnOptions::new().isolation(isolation).read_only(read_only).lock_timeout(lock_timeout);
        let txn = db.begin(options)?;
        let mut running =
            Running { recorder: self, trees, txn: &txn, done: &mut done, call: 0, read_only };
        if let Err(error) = running.some(dice) {
            // A deadlock or a conflict has ended it, or the store has stopped.
            drop(txn);
            self.end(done, Outcome::Aborted);
            return go_on(Err(error));
        }
        if dice.chance(1, 12) {
            txn.rollback();
            self.end(done, Outcome::Aborted);
            return Ok(());
        }
        if workload.prepares > 0 && dice.chance(1, workload.prepares) && txn.control().writes() > 0
        {
            return self.prepared(txn, done, detached, dice);
        }
        let commit = txn.commit();
        self.committed(done, commit)
    }
}

/// An error that ends a transaction does not end its thread.
fn go_on(went: Result<()>) -> Result<()> {
    match went {
        Err(error) if error.kind() != ErrorKind::Retry => Err(error),
        _ => Ok(()),
    }
}

impl Running<'_> {
    /// Makes some calls, and rolls back some of them to a savepoint.
    fn some(&mut self, dice: &mut Dice) -> Result<()> {
        for _ in 0..dice.between(1, 5) {
            if !dice.chance(1, 8) {
                self.one(dice)?;
                continue;
            }
            let (savepoint, kept) = (self.txn.savepoint()?, self.done.calls.len());
            for _ in 0..*dice.pick(&[1, 2, 2, 6]) {
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
        // There are few processors: let others run between two calls.
        if dice.chance(1, 3) {
            std::thread::yield_now();
        }
        let key = self.recorder.any_key(dice);
        let locks = dice.chance(1, 3) && !self.read_only;
        let what = if self.read_only { dice.between(7, 15) } else { dice.below(16) };
        match what {
            0..3 => {
                let number = self.recorder.number();
                let (at, bytes) = (key.to_be_bytes(), number.to_be_bytes());
                self.txn.merge(&self.trees.lists, &at, operator::APPEND, &bytes)?;
                self.note(Call::Append(key, number));
            }
            3 => self.rewrite(key)?,
            4 | 5 => self.write_register(key, locks, dice)?,
            6 => self.write_row(key, dice)?,
            7 | 8 => {
                let list = self.read(&self.trees.lists, key, locks, dice)?;
                self.note(Call::List(key, numbers(&list.unwrap_or_default()), locks));
            }
            9 | 10 => self.scan(locks, dice)?,
            11 if !self.read_only => self.glimpse(key, dice)?,
            11 | 12 => {
                let value = self.read(&self.trees.registers, key, locks, dice)?;
                self.note(Call::Register(key, value.map(number), locks));
            }
            _ => self.read_rows(key, locks, dice)?,
        }
        Ok(())
    }

    /// Sets or deletes a register, usually one that it has read; or inserts one that must not
    /// exist.
    fn write_register(&mut self, key: Key, locks: bool, dice: &mut Dice) -> Result<()> {
        let (at, registers) = (key.to_be_bytes(), &self.trees.registers);
        let number = self.recorder.number();
        if dice.chance(1, 4) {
            match self.txn.insert(registers, &at, &number.to_be_bytes()) {
                Err(Error::DuplicateKey(Duplicate::Row { .. })) => return Ok(()),
                went => went?,
            }
            // It was looked up under the row's lock.
            self.note(Call::Register(key, None, true));
            self.note(Call::Set(key, number));
            return Ok(());
        }
        if dice.chance(4, 5) {
            let value = self.read(registers, key, locks, dice)?;
            self.note(Call::Register(key, value.map(self::number), locks));
        }
        if dice.chance(1, 3) {
            self.txn.delete(registers, &at)?;
            self.note(Call::Delete(key, number));
        } else {
            self.txn.put(registers, &at, &number.to_be_bytes())?;
            self.note(Call::Set(key, number));
        }
        Ok(())
    }

    /// Reads a register that another may have locked: in that case as last committed.
    fn glimpse(&mut self, key: Key, dice: &mut Dice) -> Result<()> {
        let lock = *dice.pick(&[RowLock::Shared, RowLock::Exclusive]);
        let how = ReadOptions::new().lock(lock).if_locked(IfLocked::SemiConsistent);
        let row = self.txn.get_with(&self.trees.registers, &key.to_be_bytes(), &how)?;
        let value = row.exists.then(|| number(row.value));
        self.note(match row.locked {
            true => Call::Register(key, value, true),
            false => Call::Glimpse(key, value),
        });
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
            (true, true) => self
                .txn
                .get_with(tree, &key, &ReadOptions::new().lock(RowLock::Shared))
                .map(|row| row.into_value()),
        }
    }

    /// Reads a list and puts a longer one. Uses a plain read only if the level forbids lost
    /// updates.
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

    /// Scans the window. A locking scan proves that a key is missing only if it locks gaps.
    fn scan(&mut self, locks: bool, dice: &mut Dice) -> Result<()> {
        let first = self.recorder.first_key();
        let end = first + WINDOW;
        let range = &first.to_be_bytes()[..]..&end.to_be_bytes()[..];
        let lists = &self.trees.lists;
        let lock = *dice.pick(&[RowLock::Shared, RowLock::Exclusive]);
        let skips = dice.chance(1, 3);
        let if_locked = if skips { IfLocked::SkipLocked } else { IfLocked::Wait };
        let cursor = match locks {
            true => self.txn.scan_with(
                lists,
                range,
                &ReadOptions::new().lock(lock).if_locked(if_locked),
            )?,
            false => self.txn.scan(lists, range)?,
        };
        let rows = rows(cursor, dice.chance(1, 2))?;
        let knows_gaps = !locks || !skips && self.locks_gaps();
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

impl Running<'_> {
    /// Whether its locking scans prevent inserts of missing keys.
    fn locks_gaps(&self) -> bool {
        matches!(self.done.isolation, Isolation::RepeatableRead | Isolation::Serializable)
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

fn keys(mut cursor: TxnCursor<'_>, reverse: bool) -> Result<Vec<Vec<u8>>> {
    let mut keys = Vec::new();
    if reverse {
        cursor.seek_last();
    }
    while let Some((key, _)) = if reverse { cursor.prev()? } else { cursor.next()? } {
        keys.push(key.to_vec());
    }
    Ok(keys)
}

fn number(bytes: Vec<u8>) -> Number {
    bytes.try_into().map_or(Number::MAX, Number::from_be_bytes)
}

fn numbers(bytes: &[u8]) -> Vec<Number> {
    bytes.chunks(8).map(|number_bytes| number(number_bytes.to_vec())).collect()
}
