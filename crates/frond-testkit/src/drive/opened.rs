//! The open store of a run.

use frond::{Error, internals::io::Env};

use super::{Engine, Store};
use crate::model::Everything;

/// An open store that is not dropped during a panic: dropping it would close a store whose locks
/// the panic has poisoned, and a second panic would hide the first.
pub struct Opened<S>(pub(super) Option<S>);

impl<S: Store> Opened<S> {
    /// Opens the store.
    pub fn open<E: Engine<Store = S>>(engine: &E, env: &Env) -> frond::Result<Self> {
        Ok(Self(Some(engine.open(env)?)))
    }

    pub(super) fn none() -> Self {
        Self(None)
    }

    pub(super) fn get(&mut self) -> Option<&mut S> {
        self.0.as_mut()
    }

    /// Reads all rows.
    pub fn read_everything(&mut self) -> frond::Result<Everything> {
        self.0.as_mut().ok_or(Error::Closed)?.read_everything()
    }

    /// Whether the opening had no space for the checkpoint that ends a recovery.
    pub fn lacked_room(&self) -> bool {
        self.0.as_ref().is_some_and(Store::lacked_room)
    }

    /// Checks the store.
    pub fn check(&mut self) -> Result<(), String> {
        self.0.as_mut().map_or(Ok(()), Store::check)
    }
}

impl<S> Drop for Opened<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.0.take());
        }
    }
}
