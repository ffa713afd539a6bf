//! Measurement of a step: latencies, rates per second, CPU by side, I/O, memory, disk.
//!
//! Invariants
//! 1. CPU of client threads is foreground; the CPU of the meter's own sampler counts for neither
//!    side; the rest of the process is background. If the store is a server, all of the server's
//!    CPU is the store's, and the CPU of this process is the clients'.
//! 2. Nothing here allocates memory per operation.
//!
//! Threads: a `Meter` is shared by a step's client threads, a `Client` belongs to one.

mod disk;
mod group;
mod meter;
mod process;
mod recent;
mod series;

pub use disk::{Space, allocated_bytes};
pub use group::{
    Agreement, Controller, CpuCount, DeviceNumber, Group, IoCount, IoLimits, IoScope, Limits,
    MemoryCount, Owner, Reading, Refusal, Version, crosscheck, crosscheck_io, io_limits_of,
    limit_io_of, place,
};
pub use meter::{Client, Meter, Plan, Taken, faults_of_second_half, run};
pub use process::{Subject, Usage, thread_cpu_s};
pub use series::{Mark, evenness, exit_velocity, rates};

use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends the current step and every later one, as a time limit does.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether steps should end because of `interrupt`.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}
