//! The machine that runs the experiments: what it is, what it can measure, and a disk that can be
//! slowed down as needed.
//!
//! ```text
//!  doctor ─► probe, perf, packages   what can be measured here, and what each gap means
//!  fingerprint ─► device, fio        the environment of a run, and which runs may be compared
//!  class ─► group │ disk             a storage class: limits on the host's disk, or a private disk
//! ```
//!
//! Nothing is faked: what cannot be limited or counted is reported as such.

pub mod class;
pub mod device;
pub mod doctor;
pub mod fingerprint;
pub mod fio;
pub mod packages;
mod perf;
mod probe;
pub mod virtual_disk;

pub use crate::measure::{
    Agreement, Controller, CpuCount, DeviceNumber, Group, IoCount, IoLimits, IoScope, Limits,
    MemoryCount, Owner, Reading, Refusal, Usage, crosscheck, crosscheck_io,
};
pub use class::{Class, Throttled};
pub use device::{Disk, DiskCount, Volume};
pub use fingerprint::{Cpu, fingerprint, machine};
pub use fio::Fio;
pub use virtual_disk::VirtualDisk;
