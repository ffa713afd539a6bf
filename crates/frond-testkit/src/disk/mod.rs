//! The simulated disk (docs/safety.md §4.2).
//!
//! [`SimVfs`] is a `frond::internals::io::Vfs`: files with a durable image of 4 KiB pages of
//! 512-byte sectors, directories, and one journal of changes that no sync has made durable yet. It
//! numbers and traces every call, injects faults, and can record the disk before every call that
//! changes something ([`Point`]). [`crash_states`] then lists what a power failure could leave at
//! such a point.
//!
//! Faults affect calls only; the durable images are always what the medium would hold.

mod crash;
mod fault;
mod image;
mod state;
mod vfs;
mod world;

pub use crash::{CrashOptions, CrashState, crash_states};
pub use fault::{CallKind, Fault, FaultKind, SyncFailure, When};
pub use image::{Image, PAGE, SECTOR};
pub use state::{Change, DiskState, FileState, Inode};
pub use vfs::{SimClock, SimRng, SimVfs};
pub use world::{Note, Point, WriteGuard};
