//! The one door to locks and atomics, so that a model checker can take their place.
//!
//! With `--cfg shuttle` every primitive is shuttle's, and the schedules of the real modules are
//! explored by the tests named `interleavings` beside them (`make schedules`). Rule of the house: no
//! other module names `std::sync` primitives or `std::thread`. A poisoned lock means that a thread panicked inside an
//! engine section: the panic goes on in whoever comes next, and the store fails (P16).

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
/// What a `static` counts with. The model checker's own atomics belong to one execution each, and tests that run side
/// by side are several of them in one process.
pub type ProcessU64 = std::sync::atomic::AtomicU64;

// No schedule depends on them, and the model checker has none.
pub use std::{
    sync::TryLockError,
    thread::{available_parallelism, panicking},
};

/// What the calling thread is told from others by that are alive: no two have the same.
#[cfg(not(shuttle))]
#[inline]
pub fn thread_mark() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}

/// The same for the model checker, whose threads are one to `std`.
#[cfg(shuttle)]
pub fn thread_mark() -> usize {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    thread::current().id().hash(&mut hasher);
    hasher.finish() as usize
}

/// A number that the calling thread has for itself, to spread threads over places that they share. Another thread may
/// have the same.
#[inline]
pub fn thread_number() -> usize {
    thread_local!(static MARK: u8 = const { 0 });
    // Places of threads lie pages apart; what is below them is the same for all.
    let place = MARK.with(|mark| std::ptr::from_ref(mark).addr()) as u64;
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// `OnceLock` for the model checker, which has none. Its threads are one to the one of `std`, so a value
/// is made outside of that: two may make one, as two may race to it anyway, and the first stays.
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

/// Runs a scenario under many schedules: random ones, and as many with few switches at the worst places.
/// `FROND_EFFORT` multiplies them.
#[cfg(all(test, shuttle))]
pub fn explore(schedules: usize, scenario: impl Fn() + Clone + Send + Sync + 'static) {
    use shuttle::{
        Config, Runner,
        scheduler::{PctScheduler, RandomScheduler},
    };
    let effort = std::env::var("FROND_EFFORT").ok().and_then(|effort| effort.parse().ok());
    let schedules = schedules * effort.unwrap_or(1);
    let mut config = Config::new();
    // Frames and records are made on the stack, and an unoptimised build takes more of it.
    config.stack_size = 2 << 20;
    Runner::new(RandomScheduler::new(schedules), config.clone()).run(scenario.clone());
    Runner::new(PctScheduler::new(3, schedules), config).run(scenario);
}
