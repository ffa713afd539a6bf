//! Tiny bounds that a test sets for its thread.
//!
//! Without the cargo feature `planted-bugs` bounds are constants, and nothing can be made tiny.
//!
//! Threads: values are set for one thread. A simulated store does its background work in the thread
//! that calls it (`Env` with manual workers), so it has the same bounds throughout.

use super::Bound;

/// Tiny bounds of this thread, in force until this is dropped.
#[derive(Debug)]
pub struct Tiny {
    // Neither `Send` nor `Sync`: it belongs to its thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Tiny {
    /// Sets these bounds in this thread; all others keep their values. `None` in a build whose
    /// bounds are constants.
    ///
    /// # Panics
    /// If this thread has tiny bounds already, or one of these is fixed.
    #[cfg(feature = "planted-bugs")]
    pub fn of(values: &[(Bound, u64)]) -> Option<Self> {
        on::set(values);
        Some(Self { _here: std::marker::PhantomData })
    }

    /// Always `None`: this build's bounds are constants.
    #[cfg(not(feature = "planted-bugs"))]
    pub fn of(_values: &[(Bound, u64)]) -> Option<Self> {
        None
    }

    /// How often this bound was reached.
    #[cfg(feature = "planted-bugs")]
    pub fn reached(&self, bound: Bound) -> u64 {
        on::reached(bound)
    }

    /// How often this bound was reached.
    #[cfg(not(feature = "planted-bugs"))]
    pub fn reached(&self, _bound: Bound) -> u64 {
        0
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        #[cfg(feature = "planted-bugs")]
        on::clear();
    }
}

#[cfg(feature = "planted-bugs")]
pub(super) use on::{max_of, note};

#[cfg(feature = "planted-bugs")]
mod on {
    use std::cell::RefCell;

    use super::super::{At, BOUNDS, Bound};

    #[derive(Debug)]
    struct Set {
        max: Vec<u64>,
        reached: Vec<u64>,
    }

    thread_local! {
        static SET: RefCell<Option<Set>> = const { RefCell::new(None) };
    }

    pub fn set(values: &[(Bound, u64)]) {
        let mut max: Vec<u64> = BOUNDS.iter().map(|bound| bound.default).collect();
        for (bound, value) in values {
            assert!(!matches!(bound.at, At::Fixed(_)), "{} is fixed", bound.name);
            max[bound.row] = *value;
        }
        let set = Set { reached: vec![0; max.len()], max };
        let before = SET.replace(Some(set));
        assert!(before.is_none(), "this thread has tiny bounds");
    }

    pub fn clear() {
        SET.set(None);
    }

    pub fn reached(bound: Bound) -> u64 {
        SET.with_borrow(|set| set.as_ref().map_or(0, |set| set.reached[bound.row]))
    }

    pub fn max_of(bound: &Bound) -> u64 {
        SET.with_borrow(|set| set.as_ref().map_or(bound.default, |set| set.max[bound.row]))
    }

    pub fn note(bound: &Bound) {
        SET.with_borrow_mut(|set| set.iter_mut().for_each(|set| set.reached[bound.row] += 1));
    }
}
