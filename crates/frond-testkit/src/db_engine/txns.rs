//! Transactions of the engine under test, several open at once in one thread.
//!
//! No call may wait: whoever it would wait for is the same thread. Calls of transactions have no time to wait;
//! a batch is made, and a tree dropped, only where the model says that nobody is in the way, and should the store see that otherwise,
//! [`Patience`] ends the wait, for the simulated clock stands still.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use frond::{
    Db, Durability, Error, Isolation, Result, Savepoint, Tree, Txn, TxnCursor, TxnOptions,
    io::Clock, operator,
};

use crate::{
    drive::answer_or_error,
    model::{Answer, Row},
    ops::{TxnOp, Write},
};

/// Open transactions by their slots.
#[derive(Default)]
pub(super) struct Txns(BTreeMap<u8, Open>);

struct Open {
    txn: Txn,
    savepoints: BTreeMap<u8, Savepoint>,
}

impl Txns {
    pub fn begin(
        &mut self,
        db: &Db,
        slot: u8,
        isolation: Isolation,
        durability: Option<Durability>,
    ) -> Result<()> {
        self.0.remove(&slot);
        let lock_timeout = Some(Duration::ZERO);
        let options = TxnOptions { isolation, lock_timeout, durability, ..TxnOptions::default() };
        let txn = db.begin(options)?;
        self.0.insert(slot, Open { txn, savepoints: BTreeMap::new() });
        Ok(())
    }

    /// A call; after an error that is no refusal the transaction is gone.
    pub fn call(&mut self, db: &Db, slot: u8, call: &TxnOp) -> Result<Answer> {
        let answer = match (call, self.0.get_mut(&slot)) {
            (_, None) => return Ok(Answer::Done),
            (TxnOp::Commit | TxnOp::Rollback, _) => self.end(slot, call),
            (_, Some(open)) => open.call(db, call),
        };
        answer_or_error(answer).inspect_err(|_| drop(self.0.remove(&slot)))
    }

    fn end(&mut self, slot: u8, call: &TxnOp) -> Result<Answer> {
        let Some(Open { txn, .. }) = self.0.remove(&slot) else { return Ok(Answer::Done) };
        match call {
            TxnOp::Commit => txn.commit().map(drop)?,
            _ => txn.rollback(),
        }
        Ok(Answer::Done)
    }
}

impl Open {
    fn call(&mut self, db: &Db, call: &TxnOp) -> Result<Answer> {
        let Self { txn, savepoints } = self;
        match call {
            TxnOp::Write(entry) => write(txn, &db.open_tree(entry.tree())?, entry)?,
            TxnOp::Get(tree, key) => {
                return Ok(Answer::Value(txn.get(&db.open_tree(tree)?, &key.bytes())?));
            }
            TxnOp::Lock(tree, key, locking) => {
                let (tree, key) = (db.open_tree(tree)?, key.bytes());
                let value = txn.get_locked(&tree, &key, locking.lock, locking.if_locked)?;
                return Ok(Answer::Value(value));
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
                    Some(how) => txn.scan_locked(&tree, range, how.lock, how.if_locked)?,
                };
                return Ok(Answer::Rows(rows(cursor, *limit as usize, *reverse)?));
            }
            TxnOp::Savepoint(number) => drop(savepoints.insert(*number, txn.savepoint()?)),
            TxnOp::BackTo(number) => {
                savepoints.get(number).map_or(Ok(()), |savepoint| txn.rollback_to(savepoint))?;
            }
            TxnOp::Release(number) => {
                savepoints.get(number).map_or(Ok(()), |savepoint| txn.release(savepoint))?;
            }
            TxnOp::Commit | TxnOp::Rollback => {}
        }
        Ok(Answer::Done)
    }
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

fn rows(mut cursor: TxnCursor<'_>, limit: usize, reverse: bool) -> Result<Vec<Row>> {
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

/// The simulated clock; but where a call has waited for this long in real time, it waits for a lock that its own
/// thread holds, and the clock jumps.
const HANGS_AFTER: Duration = Duration::from_secs(5);
const JUMP: Duration = Duration::from_secs(3600);

/// See [`HANGS_AFTER`].
#[derive(Debug)]
pub(super) struct Patience {
    clock: Arc<dyn Clock>,
    since: Mutex<Option<Instant>>,
}

impl Patience {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, since: Mutex::default() }
    }

    /// Until this goes, whatever waits waits in vain.
    pub fn limit(&self) -> Limit<'_> {
        self.set(Some(Instant::now()));
        Limit(self)
    }

    fn set(&self, since: Option<Instant>) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// A call that waits for nobody.
pub(super) struct Limit<'a>(&'a Patience);

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl Clock for Patience {
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
