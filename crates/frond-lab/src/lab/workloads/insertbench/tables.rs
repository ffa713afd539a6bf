//! The tables of the insert benchmark: inserts, deletes, and the number of live rows.
//!
//! Invariants
//! 1. While a table has a deleter, its inserts are at most eight statements ahead of its deletes.
//! 2. Counts change only after the server has acknowledged the statement.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::rows::{ROW_BYTES, Rows};
use crate::lab::sql::{InsertText, Worker};
use crate::targets::Result;

/// Maximum number of statements by which inserts are ahead of deletes.
const DRIFT: u64 = 8;
/// Number of deletes after which the smallest id is read from the table again.
const ROUNDS: u64 = 1_000;

/// A table, and what its inserter and its deleter share.
pub struct Table {
    /// Name.
    pub name: String,
    rows: Mutex<Rows>,
    /// Number of rows inserted, which is the largest id.
    pub inserted: AtomicU64,
    /// Number of rows deleted.
    pub deleted: AtomicU64,
    /// Id at which the next delete starts to look for rows.
    pub min: AtomicU64,
    rounds: AtomicU64,
    /// Number of INSERT and of DELETE statements in this step.
    statements: Mutex<(u64, u64)>,
    moved: Condvar,
    has_deleter: AtomicBool,
}

impl Table {
    /// Makes the table with this number, from 0.
    pub fn new(number: u64, seed: u64) -> Self {
        Self {
            name: format!("pi{}", number + 1),
            rows: Mutex::new(Rows::new(seed, number)),
            inserted: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            min: AtomicU64::new(1),
            rounds: AtomicU64::new(0),
            statements: Mutex::new((0, 0)),
            moved: Condvar::new(),
            has_deleter: AtomicBool::new(false),
        }
    }

    /// Starts a step. `has_deleter` says whether inserts must wait for deletes.
    pub fn begin(&self, has_deleter: bool) {
        *lock(&self.statements) = (0, 0);
        self.has_deleter.store(has_deleter, Ordering::Relaxed);
    }

    /// Number of live rows.
    pub fn live(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed) - self.deleted.load(Ordering::Relaxed)
    }

    /// Waits until `is_free` accepts the number of statements by which inserts are ahead of
    /// deletes. False if the step ends first.
    fn wait(&self, worker: &Worker<'_>, is_free: impl Fn(u64) -> bool) -> bool {
        let mut statements = lock(&self.statements);
        while !is_free(statements.0.saturating_sub(statements.1)) {
            if worker.is_stopped() {
                return false;
            }
            let waited = self.moved.wait_timeout(statements, Duration::from_millis(20));
            statements = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
        true
    }

    fn count(&self, inserts: u64, deletes: u64) {
        let mut statements = lock(&self.statements);
        statements.0 += inserts;
        statements.1 += deletes;
        self.moved.notify_all();
    }

    /// Inserts `rows` rows in commits of `per_commit`, while the step runs.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn insert(
        &self,
        worker: &mut Worker<'_>,
        kind: &'static str,
        rows: u64,
        per_commit: u64,
    ) -> Result<()> {
        let mut source = lock(&self.rows);
        let mut statement = InsertText::new(&format!(
            "INSERT INTO {}(dateandtime,cashregisterid,customerid,productid,price,data) VALUES",
            self.name
        ));
        let has_deleter = self.has_deleter.load(Ordering::Relaxed);
        let mut left = rows;
        while left > 0 && worker.go_on() {
            if has_deleter && !self.wait(worker, |ahead| ahead < DRIFT) {
                break;
            }
            let n = left.min(per_commit);
            source.append(&mut statement, n);
            let inserted = worker.insert(kind, &mut statement)?;
            worker.changed(inserted * ROW_BYTES);
            self.inserted.fetch_add(inserted, Ordering::Relaxed);
            self.count(1, 0);
            left -= n;
        }
        Ok(())
    }

    /// Deletes the oldest rows, as many as are inserted, while the step runs.
    ///
    /// # Errors
    /// The server reports an error.
    pub fn delete(&self, worker: &mut Worker<'_>, per_commit: u64) -> Result<()> {
        let name = &self.name;
        let delete = worker.session.prepare(&format!(
            "DELETE FROM {name} WHERE transactionid >= ? ORDER BY transactionid LIMIT {per_commit}"
        ))?;
        let get_min = format!("SELECT COALESCE(MIN(transactionid),1) FROM {name}");
        while worker.go_on() && self.wait(worker, |ahead| ahead > 0) {
            let mut min = self.min.load(Ordering::Relaxed);
            if self.rounds.fetch_add(1, Ordering::Relaxed).is_multiple_of(ROUNDS) {
                worker.request("get_min", 1, |session| {
                    min = session.value(&get_min)?.parse().unwrap_or(min);
                    Ok(())
                })?;
            }
            let mut deleted = 0;
            worker.request("delete", 1, |session| {
                deleted = session.execute(&delete, (min,))?;
                Ok(())
            })?;
            worker.changed(deleted * ROW_BYTES);
            self.deleted.fetch_add(deleted, Ordering::Relaxed);
            self.min.store(min + per_commit, Ordering::Relaxed);
            self.count(0, 1);
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
