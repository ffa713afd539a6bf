//! Bounds that a test makes tiny for its thread.
//!
//! Threads: what is set is set for one thread; a simulated store whose own work is done by the thread that calls it
//! (`Env` with manual workers) has the same bounds in all it does.

use std::cell::RefCell;

use super::{BOUNDS, Bound};

#[derive(Debug)]
struct Set {
    max: Vec<u64>,
    reached: Vec<u64>,
}

thread_local! {
    static SET: RefCell<Option<Set>> = const { RefCell::new(None) };
}

/// Bounds of this thread, until it is dropped.
#[derive(Debug)]
pub struct Tiny {
    // The thread's own.
    _here: std::marker::PhantomData<*const ()>,
}

impl Tiny {
    /// Gives bounds other values in this thread; the others keep theirs.
    ///
    /// # Panics
    /// If this thread has some already, or one is fixed.
    pub fn of(values: &[(Bound, u64)]) -> Self {
        let mut max: Vec<u64> = BOUNDS.iter().map(|bound| bound.default).collect();
        for (bound, value) in values {
            assert!(!matches!(bound.at, super::At::Fixed(_)), "{} is fixed", bound.name);
            max[bound.row] = *value;
        }
        let set = Set { reached: vec![0; max.len()], max };
        let before = SET.with_borrow_mut(|now| now.replace(set));
        assert!(before.is_none(), "this thread has tiny bounds");
        Self { _here: std::marker::PhantomData }
    }

    /// How often this bound was reached.
    pub fn reached(&self, bound: Bound) -> u64 {
        SET.with_borrow(|set| set.as_ref().map_or(0, |set| set.reached[bound.row]))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        SET.take();
    }
}

pub(super) fn max_of(bound: &Bound) -> u64 {
    SET.with_borrow(|set| set.as_ref().map_or(bound.default, |set| set.max[bound.row]))
}

pub(super) fn note(bound: &Bound) {
    SET.with_borrow_mut(|set| set.iter_mut().for_each(|set| set.reached[bound.row] += 1));
}
