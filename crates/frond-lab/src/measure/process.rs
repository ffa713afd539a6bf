//! What the kernel knows about this process: CPU, I/O, memory, faults, context switches.

use std::fs;

/// Counters of this process since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU of all threads, user and system, seconds.
    pub cpu_s: f64,
    /// Bytes sent to the device (dirtied pages count when they are dirtied).
    pub write_bytes: u64,
    /// Bytes fetched from the device.
    pub read_bytes: u64,
    /// Write system calls. With direct I/O each is a device write.
    pub write_calls: u64,
    /// Read system calls. With direct I/O each is a device read.
    pub read_calls: u64,
    /// Page faults without I/O.
    pub faults_minor: u64,
    /// Page faults with I/O.
    pub faults_major: u64,
    /// Voluntary and involuntary context switches.
    pub switches: u64,
}

impl Usage {
    /// The counters now.
    pub fn now() -> Self {
        let usage = resources();
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name: &str| field(&io, name);
        Self {
            cpu_s: clock(libc::CLOCK_PROCESS_CPUTIME_ID),
            write_bytes: field("write_bytes:").saturating_sub(field("cancelled_write_bytes:")),
            read_bytes: field("read_bytes:"),
            write_calls: field("syscw:"),
            read_calls: field("syscr:"),
            faults_minor: usage.ru_minflt as u64,
            faults_major: usage.ru_majflt as u64,
            switches: (usage.ru_nvcsw + usage.ru_nivcsw) as u64,
        }
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_s: self.cpu_s - earlier.cpu_s,
            write_bytes: self.write_bytes.saturating_sub(earlier.write_bytes),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            write_calls: self.write_calls.saturating_sub(earlier.write_calls),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
            faults_minor: self.faults_minor.saturating_sub(earlier.faults_minor),
            faults_major: self.faults_major.saturating_sub(earlier.faults_major),
            switches: self.switches.saturating_sub(earlier.switches),
        }
    }
}

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn resources() -> libc::rusage {
    // SAFETY: rusage is plain numbers, for which all zeros is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a live rusage.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    usage
}

fn clock(id: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPU of the calling thread, seconds.
pub fn thread_cpu_s() -> f64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Largest resident size since the last `reset_rss_peak`, bytes.
pub fn rss_peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmHWM:") * 1024
}

/// Resident size now, bytes.
pub fn rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmRSS:") * 1024
}

/// Starts a new peak. Kernels that refuse leave the peak since the start, which only overstates.
pub fn reset_rss_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_as_cpu_and_memory_as_resident_size() {
        let before = (Usage::now(), thread_cpu_s(), rss_bytes());
        let block = vec![1u8; 32 << 20];
        let sum: u64 = (0..40u64).flat_map(|n| block.iter().map(move |b| u64::from(*b) ^ n)).sum();
        assert!(std::hint::black_box(sum) > 0);
        assert!(Usage::now().since(&before.0).cpu_s > 0.0);
        assert!(thread_cpu_s() > before.1);
        assert!(rss_peak_bytes() >= before.2 + (24 << 20), "the block is resident");
    }
}
