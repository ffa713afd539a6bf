//! Shares in an open store, for handles that come and go with every transaction.
//!
//! A transaction keeps its store open, as every handle does. Were all of them counted in one place, threads that do
//! nothing but read one row each would pass that place from one to the other; so there is a count for some threads each, and each
//! of those holds the store once.
//!
//! Threads: all. Taking a share touches what only threads of the same place touch; which place a share is of nobody asks again.

use std::{fmt, ops::Deref};

use crate::sync::{Arc, thread_number};

use super::Shared;

/// As many threads as find a place of their own most of the time.
const PLACES: usize = if cfg!(shuttle) { 2 } else { 16 };

/// One count, and what it holds, on cache lines of their own.
#[repr(align(64))]
struct Place(Arc<Shared>);

/// Where shares are taken.
#[derive(Clone)]
pub(super) struct Shares {
    places: Arc<[Arc<Place>]>,
}

/// A hold on the store; whoever has one reads it as the store's own [`Shared`].
pub(crate) struct Share(Arc<Place>);

impl Shares {
    pub fn new(shared: &Arc<Shared>) -> Self {
        Self { places: (0..PLACES).map(|_| Arc::new(Place(shared.clone()))).collect() }
    }

    /// A share for this thread, or whoever it is handed to.
    #[inline]
    pub fn take(&self) -> Share {
        Share(self.places[thread_number() % PLACES].clone())
    }
}

impl Deref for Share {
    type Target = Arc<Shared>;

    #[inline]
    fn deref(&self) -> &Arc<Shared> {
        &self.0.0
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").finish_non_exhaustive()
    }
}
