//! Whether the store may go on. The first failed write or sync, or a panic in background work,
//! stops it for good (P12, P16): every later call except statistics and close fails until the store
//! is reopened.

use crate::{
    Error, Result,
    sync::{AtomicBool, Mutex, Ordering},
};

/// The state of the store: running, or stopped and why.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Set after `why`; set without a reason by a clean close.
    failed: AtomicBool,
    why: Mutex<Option<String>>,
}

impl Health {
    /// `Err(Error::Failed)` once anything has failed. One relaxed load in the common case.
    pub fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.why().map_or(Error::Closed, Error::Failed))
    }

    /// Why the store stopped, if it did.
    pub fn why(&self) -> Option<String> {
        self.why.lock().unwrap().clone()
    }

    /// Stops the store. The first reason stays.
    pub fn fail(&self, why: impl Into<String>) {
        self.why.lock().unwrap().get_or_insert_with(|| why.into());
        self.failed.store(true, Ordering::Release);
    }

    /// Closes the store without a failure: from now on every call fails with `Closed`.
    pub fn close(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// Passes a result on. An error after which the medium cannot be trusted stops the store.
    pub fn watch<T>(&self, result: Result<T>) -> Result<T> {
        match &result {
            // Nothing was done, and nothing is wrong with the medium: space may become free (P13),
            // and a log that is being closed accepts nothing more.
            Ok(_) | Err(Error::Full(_) | Error::Closed) => {}
            Err(error) => self.fail(error.to_string()),
        }
        result
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
