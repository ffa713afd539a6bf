//! Who wants to know when everything committed so far is durable (Rule: I42).
//!
//! A request remembers where the log ends. The thread that keeps the log's timers looks whether the log is synced so far, has it
//! synced if nobody else does, and tells.
//!
//! Invariant: who asked is told once, and only of what is durable; of a store that has stopped nobody is.
//!
//! Threads: all ask; the log's thread, or whoever closes the store, tells, holding nothing.

use std::{fmt, time::Duration};

use crate::{
    Error, Lsn, Result,
    sync::{AtomicBool, Mutex, Ordering},
};

use super::Engine;

/// How long a request waits for a sync that others need, too: it is told well within a second then.
const PATIENCE: Duration = Duration::from_millis(200);

struct Request {
    until: Lsn,
    since: Duration,
    tell: Box<dyn FnOnce() + Send>,
}

/// Requests that are not answered.
#[derive(Default)]
pub(crate) struct SyncRequests {
    waiting: Mutex<Vec<Request>>,
    /// The log is closed, and all were told. Set under the lock of those who wait.
    has_ended: AtomicBool,
}

impl fmt::Debug for SyncRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncRequests").finish_non_exhaustive()
    }
}

impl Engine {
    /// Has somebody told once all that is in the log by now is durable.
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

    /// Tells those whose part of the log is durable, and sees to it that it becomes so.
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
        let (told, left) = requests.drain(..).partition(|one| one.until <= durable);
        *requests = left;
        drop(requests);
        let told: Vec<Request> = told;
        told.into_iter().for_each(|one| (one.tell)());
        Ok(())
    }

    /// Tells all: the log is closed.
    pub(super) fn end_sync_requests(&self) {
        let mut waiting = self.sync_requests.waiting.lock().unwrap();
        self.sync_requests.has_ended.store(true, Ordering::Relaxed);
        let told = std::mem::take(&mut *waiting);
        drop(waiting);
        told.into_iter().for_each(|one| (one.tell)());
    }
}
