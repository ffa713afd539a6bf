//! A mutex whose waiters can be cancelled.
//!
//! Invariant: a waiter checks from time to time whether it should go on, so a holder that takes
//! long does not keep it from being cancelled.
//!
//! Threads: committers. Ranks: the inner mutex is held only for a moment, and no lock is taken
//! under it.

use std::time::Duration;

use crate::{
    Result,
    sync::{Condvar, Mutex},
};

/// How long a waiter sleeps between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// The cancellable mutex.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// The guard of a [`Turn`].
#[derive(Debug)]
pub(crate) struct TurnTaken<'a>(&'a Turn);

impl Turn {
    /// Acquires the mutex.
    ///
    /// # Errors
    /// Errors of `goes_on`, which is called while it waits.
    pub fn take(&self, goes_on: &dyn Fn() -> Result<()>) -> Result<TurnTaken<'_>> {
        let mut is_taken = self.is_taken.lock().unwrap();
        while *is_taken {
            // `goes_on` may take locks.
            drop(is_taken);
            goes_on()?;
            is_taken = self.is_taken.lock().unwrap();
            if *is_taken {
                is_taken = self.is_free.wait_timeout(is_taken, LOOK).unwrap().0;
            }
        }
        *is_taken = true;
        Ok(TurnTaken(self))
    }
}

impl Drop for TurnTaken<'_> {
    fn drop(&mut self) {
        // If this thread is panicking, the panic may have been caused by another, poisoned lock;
        // nothing is half done here.
        *self.0.is_taken.lock().unwrap() = false;
        self.0.is_free.notify_one();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        Error,
        sync::{AtomicBool, AtomicUsize, Ordering, thread},
    };

    #[test]
    fn a_wait_for_the_mutex_can_be_cancelled() {
        let turn = Turn::default();
        let taken = turn.take(&|| Ok(())).unwrap();
        let (looks, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                turn.take(&|| {
                    looks.fetch_add(1, Ordering::SeqCst);
                    if stop.load(Ordering::SeqCst) { Err(Error::Interrupted) } else { Ok(()) }
                })
                .map(drop)
            });
            while looks.load(Ordering::SeqCst) < 3 {
                thread::yield_now();
            }
            stop.store(true, Ordering::SeqCst);
            assert!(matches!(waiting.join().unwrap(), Err(Error::Interrupted)));
        });
        drop(taken);
        drop(turn.take(&|| unreachable!("nobody has it")).unwrap());
    }

    #[test]
    fn the_mutex_is_exclusive_and_every_waiter_gets_it() {
        let (turn, inside, turns) = (Turn::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let _taken = turn.take(&|| Ok(())).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        turns.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(turns.load(Ordering::SeqCst), 800);
    }
}
