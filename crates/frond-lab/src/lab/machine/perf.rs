//! Checks whether the processor's counters can be read. Instructions per operation are exact where
//! times are noisy.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Size of the first version of `perf_event_attr`: the kernel accepts any known size, and takes
/// later fields as zero.
const ATTRIBUTES: usize = 64;
const TYPE_HARDWARE: u32 = 0;
const INSTRUCTIONS: u64 = 1;
/// Excludes the kernel and the hypervisor: bits 5 and 6 of the flags.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;

/// Tries to open a counter of this thread's instructions in user mode, and closes it again.
pub fn instructions() -> io::Result<()> {
    let mut attributes = [0u64; ATTRIBUTES / 8];
    attributes[0] = u64::from(TYPE_HARDWARE) | (ATTRIBUTES as u64) << 32; // two fields of 32 bits
    attributes[1] = INSTRUCTIONS;
    attributes[5] = USER_ONLY;
    // SAFETY: the first argument points to a live structure of the size that it states; the kernel
    // writes there at most its own size, into the same field. The others are plain numbers: this
    // thread, any CPU, no group, no flags.
    let number =
        unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_mut_ptr(), 0, -1, -1, 0) };
    match i32::try_from(number) {
        // SAFETY: the kernel just made this descriptor for us, and nothing else knows it.
        Ok(fd) if fd >= 0 => drop(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => return Err(io::Error::last_os_error()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_open_or_fail_with_a_known_reason() {
        match super::instructions() {
            Ok(()) => {}
            // The kernel's errors without counters, without permission, and without the system
            // call.
            Err(error) => assert!(
                matches!(
                    error.raw_os_error(),
                    Some(
                        libc::ENOENT
                            | libc::EOPNOTSUPP
                            | libc::EACCES
                            | libc::EPERM
                            | libc::ENOSYS
                            | libc::ENODEV
                    )
                ),
                "{error}"
            ),
        }
    }
}
