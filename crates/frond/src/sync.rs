//! Re-exports of all locks and atomics, so that a model checker can replace them.
//!
//! With `--cfg shuttle` every primitive is shuttle's, and the tests named `interleavings` next to
//! the real modules explore their schedules (`make schedules`). No other module may name
//! `std::sync` primitives or `std::thread`. A poisoned lock means that a thread panicked inside a
//! critical section of the engine: the next thread to take it panics, too, and the store fails
//! (P16).

#[cfg(not(shuttle))]
pub use std::{
    hint,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, RwLock, Weak,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
        },
    },
    thread,
};

#[cfg(shuttle)]
pub use once::OnceLock;
#[cfg(shuttle)]
pub use shuttle::{
    hint,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, RwLock, Weak,
        atomic::{
            AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
        },
    },
    thread,
};
/// Atomic counter for a `static`. The model checker's own atomics belong to one execution each, but
/// tests that run in parallel are several executions in one process.
pub type ProcessU64 = std::sync::atomic::AtomicU64;

// No schedule depends on these, and the model checker does not have them.
pub use std::{
    sync::TryLockError,
    thread::{available_parallelism, panicking},
};

/// Identifies the calling thread: no two live threads have the same value.
#[cfg(not(shuttle))]
#[inline]
pub fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

/// Identifies the calling thread under the model checker, all of whose threads are one to `std`.
#[cfg(shuttle)]
pub fn thread_mark() -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    thread::current().id().hash(&mut hasher);
    hasher.finish() as usize
}

/// A number of the calling thread, to spread threads over shared slots. Another thread may have the
/// same.
#[inline]
pub fn thread_number() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    // Thread-local addresses lie pages apart; their low bits are the same for all threads.
    let place = MARK.with(|mark| std::ptr::from_ref(mark).addr()) as u64;
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// `OnceLock` for the model checker, which has none. All its threads are one to `std`'s `OnceLock`,
/// so the value is made before that is entered: two threads may both make one, as in any race, and
/// the first stays.
#[cfg(shuttle)]
mod once {
    #[derive(Clone, Debug)]
    pub struct OnceLock<T>(std::sync::OnceLock<T>);

    impl<T> OnceLock<T> {
        pub const fn new() -> Self {
            Self(std::sync::OnceLock::new())
        }

        pub fn get(&self) -> Option<&T> {
            self.0.get()
        }

        pub fn set(&self, value: T) -> Result<(), T> {
            self.0.set(value)
        }

        pub fn take(&mut self) -> Option<T> {
            self.0.take()
        }

        pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            match self.0.get() {
                Some(value) => value,
                None => {
                    let value = make();
                    self.0.get_or_init(|| value)
                }
            }
        }
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self::new()
        }
    }
}

/// Runs a scenario under many schedules: `schedules` random ones, and as many with few switches at
/// the worst places. The environment variable `FROND_EFFORT` multiplies both.
#[cfg(all(test, shuttle))]
pub fn explore(schedules: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    use shuttle::{
        Config, Runner,
        scheduler::{PctScheduler, RandomScheduler},
    };
    let effort = std::env::var("FROND_EFFORT").ok().and_then(|effort| effort.parse().ok());
    let schedules = schedules * effort.unwrap_or(1);
    let mut config = Config::new();
    // Frames and records are built on the stack, and an unoptimised build needs more of it.
    config.stack_size = 2 << 20;
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(scenario.clone());
    Runner::new(PctScheduler::new(3, schedules), config).run(scenario);
}
