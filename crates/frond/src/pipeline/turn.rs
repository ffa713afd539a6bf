//! Turns: what one has at a time, and others wait for as long as they want to.
//!
//! Invariant: whoever waits looks from time to time whether he is to go on, so that no one who has a turn, and takes his time,
//! keeps those behind him from being stopped.
//!
//! Threads: committers. Ranks: the mutex is held for a moment, with nothing taken under it.

use std::time::Duration;

use crate::{
    Result,
    sync::{Condvar, Mutex},
};

/// How long one waits between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// One has it at a time.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    is_taken: Mutex<bool>,
    is_free: Condvar,
}

/// Has the turn as long as it lives.
#[derive(Debug)]
pub(crate) struct TurnTaken<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    ///
    /// # Errors
    /// What `goes_on` says while it waits.
    pub fn take(&self, goes_on: &dyn Fn() -> Result<()>) -> Result<TurnTaken<'_>> {
        let mut is_taken = self.is_taken.lock().unwrap();
        while *is_taken {
            // What it looks at may lock.
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
        // A panic that passes by may come from another lock that it poisoned: here nothing is half done.
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
    fn who_waits_for_a_turn_can_be_stopped() {
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
    fn one_has_it_at_a_time_and_all_get_it() {
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
