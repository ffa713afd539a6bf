//! Notification once everything committed so far is durable (Rule: I42).
//!
//! A request remembers the end of the log. The thread that keeps the log's timers checks whether
//! the log is synced up to there, syncs it if nothing else does, and invokes the callback.
//!
//! Invariant: a callback is invoked at most once, and only when its commits are durable; never once
//! the store has failed.
//!
//! Threads: any thread may make a request. The log's thread, or the thread that closes the store,
//! invokes callbacks, with no locks held.

use std::{fmt, time::Duration};

use crate::{
    Error, Result,
    sync::{AtomicBool, Mutex, Ordering},
    types::Lsn,
};

use super::Engine;

/// How long a request waits for a sync that others need, too; so it is answered well within a
/// second.
const PATIENCE: Duration = Duration::from_millis(200);

struct Request {
    until: Lsn,
    since: Duration,
    tell: Box<dyn FnOnce() + Send>,
}

/// Requests that are not yet answered.
#[derive(Default)]
pub(crate) struct SyncRequests {
    waiting: Mutex<Vec<Request>>,
    /// The log is closed and all requests were answered. Set with `waiting` locked.
    has_ended: AtomicBool,
}

impl fmt::Debug for SyncRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncRequests").finish_non_exhaustive()
    }
}

impl Engine {
    /// Registers a callback to invoke once everything that is in the log so far is durable.
    pub(crate) fn tell_when_synced(&self, tell: Box<dyn FnOnce() + Send>) -> Result<()> {
        let until = self.health.watch(self.log().end())?;
        let request = Request { until, since: self.env.clock.now(), tell };
        let mut waiting = self.sync_requests.waiting.lock().unwrap();
        if self.sync_requests.has_ended.load(Ordering::Relaxed) {
            return Err(Error::Closed);
        }
        waiting.push(request);
        Ok(())
    }

    /// Invokes the callbacks of requests that are durable, and syncs the log if a request has
    /// waited for long.
    pub(crate) fn answer_sync_requests(&self) -> Result<()> {
        let now = self.env.clock.now();
        let mut requests = self.sync_requests.waiting.lock().unwrap();
        if requests.is_empty() {
            return Ok(());
        }
        let is_late = requests.iter().any(|one| now.saturating_sub(one.since) >= PATIENCE);
        let mut durable = self.log().durable();
        if is_late && requests.iter().any(|one| one.until > durable) {
            drop(requests);
            durable = self.health.watch(self.log().sync_through_now())?;
            requests = self.sync_requests.waiting.lock().unwrap();
        }
        let (reached, left) = requests.drain(..).partition(|one| one.until <= durable);
        *requests = left;
        drop(requests);
        let reached: Vec<Request> = reached;
        reached.into_iter().for_each(|one| (one.tell)());
        Ok(())
    }

    /// Invokes all callbacks: the log is closed.
    pub(super) fn end_sync_requests(&self) {
        let mut waiting = self.sync_requests.waiting.lock().unwrap();
        self.sync_requests.has_ended.store(true, Ordering::Relaxed);
        let reached = std::mem::take(&mut *waiting);
        drop(waiting);
        reached.into_iter().for_each(|one| (one.tell)());
    }
}
