//! The guard of a cell: ends statements that keep running, soon after Ctrl-C, and some time after
//! the time limit.
//!
//! It is needed because a client checks the clock only between its statements, and an ALTER TABLE
//! may run for hours.
//!
//! Invariants
//! 1. Only statements of the cell's own connections are ended, since the server may have other
//!    users.
//! 2. A statement that has just started is not ended, so that statements which restore the server's
//!    state succeed.
//!
//! Threads: a separate one, with its own connection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::session::{Session, SqlResult, number_of};
use crate::measure;

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);
/// How long a statement must have run before it may be ended.
const LONG: &str = "TIME_MS>500";
/// How long on MySQL, which counts whole seconds, of which the first one may be nearly empty.
const LONG_ON_MYSQL: &str = "TIME>=2";
/// Minimum delay after the time limit, so that a statement which is nearly done may end by itself.
const GRACE_MIN: Duration = Duration::from_secs(5);

/// A time limit, and the connections that it applies to.
#[derive(Clone, Debug)]
struct Limit {
    at: Instant,
    connections: Vec<u32>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: Mutex<Vec<u32>>,
    limit: Mutex<Option<Limit>>,
    is_over: AtomicBool,
}

/// Watches the connections of a cell.
#[derive(Debug)]
pub struct Guard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Guard {
    /// Starts the guard, which uses this connection.
    pub fn start(mut session: Session) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let watch = move || {
            while !theirs.is_over.load(Ordering::Relaxed) {
                std::thread::park_timeout(CHECK_INTERVAL);
                // Errors do not matter: a server that is gone has no statements to end.
                let _ = end_long(&mut session, &theirs.to_be_ended());
            }
        };
        Self { shared, thread: Some(std::thread::spawn(watch)) }
    }

    /// Adds a connection to those whose statements end after Ctrl-C.
    pub fn watch(&self, connection: u32) {
        lock(&self.shared.connections).push(connection);
    }

    /// Ends statements of these connections some time after the deadline, until `unlimit` is
    /// called: after a quarter of the time from `begin` to the deadline, but at least 5 s.
    pub fn limit(&self, begin: Instant, deadline: Instant, connections: Vec<u32>) {
        let grace = GRACE_MIN.max(deadline.saturating_duration_since(begin) / 4);
        *lock(&self.shared.limit) = Some(Limit { at: deadline + grace, connections });
    }

    /// Lifts the time limit.
    pub fn unlimit(&self) {
        *lock(&self.shared.limit) = None;
    }
}

impl Shared {
    /// Connections whose long statements have to end now.
    fn to_be_ended(&self) -> Vec<u32> {
        if measure::is_interrupted() {
            return lock(&self.connections).clone();
        }
        let limit = lock(&self.limit).clone().filter(|limit| Instant::now() >= limit.at);
        limit.map(|limit| limit.connections).unwrap_or_default()
    }
}

fn end_long(session: &mut Session, connections: &[u32]) -> SqlResult<()> {
    if connections.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = connections.iter().map(u32::to_string).collect();
    let sql = |condition: &str| {
        format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN ({}) AND COMMAND<>'Sleep' AND {condition}",
            list.join(",")
        )
    };
    let mut long = Vec::new();
    if session.rows(&sql(LONG), |row| long.extend(number_of(row, 0))).is_err() {
        session.rows(&sql(LONG_ON_MYSQL), |row| long.extend(number_of(row, 0)))?;
    }
    for id in long {
        let _ = session.run(&format!("KILL QUERY {id}")); // the statement may have ended meanwhile
    }
    Ok(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join(); // it returns nothing
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::lab::machine::class;
    use crate::lab::results::State;
    use crate::lab::size::Durability;
    use crate::lab::sql::{Bench, Conditions, Place};
    use crate::lab::step::Step;
    use crate::lab::target::SqlTarget;

    #[test]
    fn sql_a_statement_that_does_not_end_is_ended_after_the_time_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        let class = class::find("host").expect("a class");
        let conditions = Conditions {
            memory: 64 << 20,
            durability: Durability::Relaxed,
            class: &class,
            disk: None,
            time_limit: Some(1),
            with_rest: false,
            sample_every: std::time::Duration::from_secs(10),
            with_crash: false,
        };
        let target = SqlTarget::find("innodb").expect("a target of ours");
        let place = Place::Own(dir.path().to_owned());
        let mut bench = Bench::start(&place, &target, &conditions).expect("started");
        bench.create("t(id INT PRIMARY KEY)", "").expect("made");
        bench.admin().run("LOCK TABLES t WRITE").expect("locked");
        let step = bench.step(&Step::load("alter", 100, 0), |worker| {
            worker.request("alter", 100, |session| session.run("ALTER TABLE t FORCE").map(drop))
        });
        assert_eq!(step.expect("it is no failure").metrics["ops"], 0.0);
        bench.admin().run("UNLOCK TABLES").expect("unlocked");
        let result = bench.finish((0, 0)).expect("ended");
        assert_eq!((result.state, result.failure), (State::Stopped, None));
    }
}
