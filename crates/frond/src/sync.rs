//! The one door to locks and atomics, so that a model checker can take their place.
//!
//! With `--cfg shuttle` every primitive is shuttle's, and the schedules of the real modules can be
//! explored (`crates/frond/tests/interleavings.rs`). Rule of the house: no other module names
//! `std::sync` primitives or `std::thread`. A poisoned lock means that a thread panicked inside an
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
#[cfg(shuttle)]
pub use std::sync::OnceLock;
// No schedule depends on it, and the model checker has none.
pub use std::thread::available_parallelism;
