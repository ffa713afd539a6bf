//! Transactions of the engine under test, several open at once in one thread.
//!
//! No call may wait, since it would wait for its own thread. Calls of transactions have a timeout
//! of 0. A batch is committed, and a tree dropped, only if nothing blocks it according to the
//! model. If the store sees that otherwise, [`WaitPolicy`] ends the wait, because the simulated
//! clock does not move.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use frond::{
    Db, Durability, Error, IfLocked, Isolation, ReadOptions, Result, RowLock, Savepoint, Seqno,
    Tree, Txn, TxnCursor, TxnOptions,
    internals::io::Clock,
    operator,
    transaction::{PreparedTxn, RowChange, RowEntry, RowRead, Xid},
};

use crate::{
    drive::answer_or_error,
    model::{Answer, Row, rows},
    ops::{Key, Locking, TxnOp, Value, Write},
};

/// Transactions by slot.
#[derive(Default)]
pub(super) struct Txns {
    slots: BTreeMap<u8, Slot>,
    /// Numbers of prepared transactions that have written nothing: they end with the process.
    empty: BTreeSet<u8>,
    /// Ordered commits, by number.
    ordered: BTreeMap<u8, Seqno>,
}

enum Slot {
    Open(Box<Open>),
    /// An attached prepared transaction, and the level of its commit.
    Prepared(u8, PreparedTxn, Option<Durability>),
}

struct Open {
    txn: Txn,
    level: Option<Durability>,
    savepoints: BTreeMap<u8, Savepoint>,
}

fn xid(number: u8) -> Result<Xid> {
    Xid::new(&[b'x', number])
}

impl Txns {
    pub fn begin(
        &mut self,
        db: &Db,
        slot: u8,
        isolation: Isolation,
        durability: Option<Durability>,
    ) -> Result<()> {
        self.slots.remove(&slot);
        let lock_timeout = Some(Duration::ZERO);
        let options = TxnOptions::new()
            .isolation(isolation)
            .lock_timeout(lock_timeout)
            .durability(durability);
        let txn = db.begin(options)?;
        let savepoints = BTreeMap::new();
        let open = Open { txn, level: durability, savepoints };
        self.slots.insert(slot, Slot::Open(Box::new(open)));
        Ok(())
    }

    /// Makes a call; after an error that is not a refusal the transaction is gone.
    pub fn call(&mut self, db: &Db, slot: u8, call: &TxnOp) -> Result<Answer> {
        let answer = match (call, self.slots.get_mut(&slot)) {
            (_, None) => return Ok(Answer::Done),
            (TxnOp::Commit | TxnOp::Rollback | TxnOp::Prepare(_) | TxnOp::Detach, Some(_)) => {
                self.end(slot, call).map(|()| Answer::Done)
            }
            (TxnOp::Order, Some(Slot::Prepared(number, prepared, _))) => {
                let seqno = prepared.commit_ordered();
                seqno.map(|seqno| {
                    self.ordered.insert(*number, seqno);
                    Answer::Done
                })
            }
            (_, Some(Slot::Open(open))) => open.call(db, call),
            (_, Some(Slot::Prepared(..))) => return Ok(Answer::Done),
        };
        answer_or_error(answer).inspect_err(|_| drop(self.slots.remove(&slot)))
    }

    fn end(&mut self, slot: u8, call: &TxnOp) -> Result<()> {
        let Some(held) = self.slots.remove(&slot) else { return Ok(()) };
        match (held, call) {
            (Slot::Open(open), TxnOp::Commit) => open.txn.commit().map(drop),
            (Slot::Open(open), TxnOp::Rollback) => {
                open.txn.rollback();
                Ok(())
            }
            (Slot::Open(open), TxnOp::Prepare(number)) => self.prepare(slot, *open, *number),
            (Slot::Prepared(number, prepared, level), TxnOp::Commit) => {
                match level {
                    Some(level) => prepared.commit_with(level)?,
                    None => prepared.commit()?,
                };
                self.empty.remove(&number);
                Ok(())
            }
            (Slot::Prepared(number, prepared, _), TxnOp::Rollback) => {
                prepared.rollback()?;
                self.empty.remove(&number);
                Ok(())
            }
            (Slot::Prepared(_, prepared, _), TxnOp::Detach) => {
                prepared.detach();
                Ok(())
            }
            (held, _) => {
                self.slots.insert(slot, held);
                Ok(())
            }
        }
    }

    fn prepare(&mut self, slot: u8, Open { txn, level, .. }: Open, number: u8) -> Result<()> {
        let is_empty = txn.control().writes() == 0;
        let xid = xid(number)?;
        let prepared = match level {
            Some(level) => txn.prepare_with(&xid, level)?,
            None => txn.prepare(&xid)?,
        };
        if is_empty {
            self.empty.insert(number);
        }
        self.slots.insert(slot, Slot::Prepared(number, prepared, level));
        Ok(())
    }

    /// Whether an ordered commit is visible.
    pub fn can_be_seen(&self, db: &Db, number: u8) -> bool {
        let visible = db.stats().seqno_visible;
        self.ordered.get(&number).is_none_or(|seqno| seqno.0 <= visible)
    }

    /// Decides a detached transaction by its number.
    pub fn decide(&mut self, db: &Db, number: u8, commits: bool) -> Result<()> {
        match commits {
            true => drop(db.commit_prepared(&xid(number)?)?),
            false => db.rollback_prepared(&xid(number)?)?,
        }
        self.empty.remove(&number);
        Ok(())
    }

    /// In-doubt transactions that have written something.
    pub fn in_doubt(&self, db: &Db) -> BTreeSet<u8> {
        let numbers = db.prepared().into_iter().map(|info| number_of(&info.xid));
        numbers.filter(|number| !self.empty.contains(number)).collect()
    }
}

fn number_of(xid: &Xid) -> u8 {
    let [b'x', number] = xid.as_bytes() else {
        panic!("{xid} is prepared, but no transaction has that name")
    };
    *number
}

/// Checks the prepared transactions when a store is opened: each is detached, and is listed once.
pub(super) fn must_be_listed_once(db: &Db) {
    let (all, found) = (db.prepared(), db.take_recovered());
    assert_eq!(found, all, "what was found is not what is prepared");
    assert!(found.iter().all(|info| info.is_recovered && info.is_detached), "{found:?}");
    assert!(db.take_recovered().is_empty(), "listed again");
}

impl Open {
    fn call(&mut self, db: &Db, call: &TxnOp) -> Result<Answer> {
        let Self { txn, savepoints, .. } = self;
        match call {
            TxnOp::Write(entry) => write(txn, &db.open_tree(entry.tree())?, entry)?,
            TxnOp::Get(tree, key) => {
                return Ok(Answer::Value(txn.get(&db.open_tree(tree)?, &key.bytes())?));
            }
            TxnOp::Lock(tree, key, locking) => {
                let (tree, key) = (db.open_tree(tree)?, key.bytes());
                let row = txn.get_with(&tree, &key, &that_locks(locking))?;
                return Ok(Answer::Value(row.into_value()));
            }
            TxnOp::Look(tree, key, locking) => {
                let (tree, key) = (db.open_tree(tree)?, key.bytes());
                let row = txn.get_with(&tree, &key, &that_locks(locking))?;
                txn.control().unlock_last()?;
                return Ok(Answer::Value(row.into_value()));
            }
            TxnOp::ReadMany(tree, keys, locking) => {
                return read_many(txn, &db.open_tree(tree)?, keys, *locking);
            }
            TxnOp::Row { tree, key, value, lock } => {
                return row(txn, &db.open_tree(tree)?, *key, *value, *lock);
            }
            TxnOp::Scan { tree, from, to, limit, reverse, locking } => {
                let tree = db.open_tree(tree)?;
                let (from, to) = (from.bytes(), to.bytes());
                if from >= to {
                    return if txn.is_over() { Err(Error::TxnEnded) } else { Ok(no_rows()) };
                }
                let range = &from[..]..&to[..];
                let cursor = match locking {
                    None => txn.scan(&tree, range)?,
                    Some(how) => txn.scan_with(
                        &tree,
                        range,
                        &ReadOptions::new().lock(how.lock).if_locked(how.if_locked),
                    )?,
                };
                return Ok(Answer::Rows(scanned(cursor, *limit as usize, *reverse)?));
            }
            TxnOp::Savepoint(number) => drop(savepoints.insert(*number, txn.savepoint()?)),
            TxnOp::BackTo(number) => {
                savepoints.get(number).map_or(Ok(()), |savepoint| txn.rollback_to(savepoint))?;
            }
            TxnOp::Release(number) => {
                savepoints.get(number).map_or(Ok(()), |savepoint| txn.release(savepoint))?;
            }
            TxnOp::Statement => txn.statement().begin()?,
            TxnOp::UndoStatement => txn.statement().rollback()?,
            TxnOp::Commit | TxnOp::Rollback | TxnOp::Prepare(_) | TxnOp::Order | TxnOp::Detach => {}
        }
        Ok(Answer::Done)
    }
}

/// Reads many rows; returns for each, after its key, whether it exists and is locked.
fn read_many(txn: &Txn, tree: &Tree, keys: &[Key], locking: Option<Locking>) -> Result<Answer> {
    let options = ReadOptions::new()
        .lock(locking.map(|how| how.lock))
        .if_locked(locking.map_or(IfLocked::Wait, |how| how.if_locked));
    let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.bytes()).collect();
    let found = txn.get_many_with(tree, &keys, &options)?;
    let row = |(mut key, row): (Vec<u8>, RowRead)| {
        key.extend([u8::from(row.exists), u8::from(row.locked)]);
        (key, row.value)
    };
    Ok(Answer::Rows(keys.into_iter().zip(found).map(row).collect()))
}

/// Puts or deletes a row as a handler of a server does: reads it under an exclusive lock, and
/// writes it together with its entries.
fn row(txn: &Txn, tree: &Tree, key: Key, new: Option<Value>, lock: RowLock) -> Result<Answer> {
    let name = key.bytes();
    let old = txn.get_for_update(tree, &name)?;
    type Entry = (Vec<u8>, Vec<u8>);
    let entries = |value: Value| -> [Entry; 3] {
        rows::entries("", key, value).map(|write| match write {
            Write::Insert(_, key, value) => (key.bytes(), value.bytes()),
            other => panic!("an entry is inserted: {other:?}"),
        })
    };
    let unique = [true, false, true];
    let old = old.map(|value| entries(rows::value_of(&value)));
    let conflict = match (&old, new.map(entries)) {
        (None, None) => None,
        (None, Some(new)) => {
            let entry = |at: usize| RowEntry {
                tree,
                key: &new[at].0,
                value: &new[at].1,
                unique: unique[at],
                absent: false,
            };
            txn.row_writer().insert(&[0, 1, 2].map(entry), lock)?
        }
        (Some(old), None) => {
            txn.row_writer().delete(&[0, 1, 2].map(|at| (tree, &old[at].0[..])))?;
            None
        }
        (Some(old), Some(new)) => {
            let change = |at: usize| RowChange {
                tree,
                old: Some(&old[at].0[..]),
                new: Some((&new[at].0[..], &new[at].1[..])),
                unique: unique[at],
            };
            txn.row_writer().update(&[0, 1, 2].map(change), lock)?
        }
    };
    Ok(match conflict {
        None => Answer::Done,
        Some(conflict) => Answer::Rows(vec![(vec![conflict.index as u8], conflict.value)]),
    })
}

fn no_rows() -> Answer {
    Answer::Rows(Vec::new())
}

fn write(txn: &Txn, tree: &Tree, entry: &Write) -> Result<()> {
    match entry {
        Write::Put(_, key, value) => txn.put(tree, &key.bytes(), &value.bytes()),
        Write::Insert(_, key, value) => txn.insert(tree, &key.bytes(), &value.bytes()),
        Write::Delete(_, key) => txn.delete(tree, &key.bytes()),
        Write::Add(_, key, number) => {
            txn.merge(tree, &key.bytes(), operator::ADD, &number.to_be_bytes())
        }
        Write::Max(_, key, value) => txn.merge(tree, &key.bytes(), operator::MAX, &value.bytes()),
        Write::Min(_, key, value) => txn.merge(tree, &key.bytes(), operator::MIN, &value.bytes()),
        Write::Append(_, key, value) => {
            txn.merge(tree, &key.bytes(), operator::APPEND, &value.bytes())
        }
        Write::Range(..) => Err(Error::InvalidArgument("ranges are for batches".into())),
    }
}

fn scanned(mut cursor: TxnCursor<'_>, limit: usize, reverse: bool) -> Result<Vec<Row>> {
    if reverse {
        cursor.seek_last();
    }
    let mut rows = Vec::new();
    while rows.len() < limit {
        let row = if reverse { cursor.prev()? } else { cursor.next()? };
        let Some((key, value)) = row else { break };
        rows.push((key.to_vec(), value.to_vec()));
    }
    Ok(rows)
}

/// A call that waits for this long in real time waits for a lock that its own thread holds; then
/// the simulated clock jumps.
const HANGS_AFTER: Duration = Duration::from_secs(5);
const JUMP: Duration = Duration::from_secs(3600);

/// The simulated clock, which jumps when a call hangs: see [`HANGS_AFTER`].
#[derive(Debug)]
pub(super) struct WaitPolicy {
    clock: Arc<dyn Clock>,
    since: Mutex<Option<Instant>>,
}

impl WaitPolicy {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, since: Mutex::default() }
    }

    /// Marks the start of a call. While the returned guard lives, the clock jumps if the call
    /// hangs.
    pub fn limit(&self) -> Limit<'_> {
        self.set(Some(Instant::now()));
        Limit(self)
    }

    fn set(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// Marks a call that must not wait.
pub(super) struct Limit<'a>(&'a WaitPolicy);

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Clock for WaitPolicy {
    fn now(&self) -> Duration {
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let hangs = since.is_some_and(|since| since.elapsed() > HANGS_AFTER);
        self.clock.now() + if hangs { JUMP } else { Duration::ZERO }
    }

    fn wall(&self) -> Duration {
        self.clock.wall()
    }

    fn sleep(&self, time: Duration) {
        self.clock.sleep(time);
    }
}

/// Options of a read that ends with the row locked or with an error. (Only `ReadMany` and scans
/// skip locked rows.)
fn that_locks(locking: &Locking) -> ReadOptions<'static> {
    let if_locked = match locking.if_locked {
        IfLocked::Wait | IfLocked::SemiConsistent => IfLocked::Wait,
        IfLocked::NoWait | IfLocked::SkipLocked => IfLocked::NoWait,
    };
    ReadOptions::new().lock(locking.lock).if_locked(if_locked)
}
