//! Resource use of a process as the kernel counts it: CPU, I/O, memory, faults, context switches.

use std::fs;

/// The process that does a store's work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Subject {
    /// This process.
    #[default]
    Own,
    /// A server, by its process number.
    Server(u32),
}

/// Counters of a process since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU of all threads, user and system, seconds.
    pub cpu_s: f64,
    /// The part of `cpu_s` spent in the kernel, seconds.
    pub cpu_system_s: f64,
    /// Bytes sent to the device (a page counts when it is dirtied).
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

impl Subject {
    fn file(self, name: &str) -> String {
        let path = match self {
            Self::Own => format!("/proc/self/{name}"),
            Self::Server(pid) => format!("/proc/{pid}/{name}"),
        };
        fs::read_to_string(path).unwrap_or_default()
    }

    /// Returns the counters now. Those of a process that has ended are zero.
    pub fn usage(self) -> Usage {
        let io = self.file("io");
        let of_io = |name: &str| field(&io, name);
        let ((cpu_s, cpu_system_s), faults_minor, faults_major, switches) = match self {
            Self::Own => {
                let usage = resources();
                let switches = (usage.ru_nvcsw + usage.ru_nivcsw) as u64;
                let cpu = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
                let system = usage.ru_stime.tv_sec as f64 + usage.ru_stime.tv_usec as f64 / 1e6;
                ((cpu, system), usage.ru_minflt as u64, usage.ru_majflt as u64, switches)
            }
            // The kernel counts switches per thread: see `usage_with_switches`.
            Self::Server(_) => {
                let (cpu, minor, major) = cpu_and_faults(&self.file("stat")).unwrap_or_default();
                (cpu, minor, major, 0)
            }
        };
        Usage {
            cpu_s,
            cpu_system_s,
            write_bytes: of_io("write_bytes:").saturating_sub(of_io("cancelled_write_bytes:")),
            read_bytes: of_io("read_bytes:"),
            write_calls: of_io("syscw:"),
            read_calls: of_io("syscr:"),
            faults_minor,
            faults_major,
            switches,
        }
    }

    /// Returns the counters now, including the context switches of a server. The kernel counts them
    /// per thread, and those of ended threads are lost. Cost: a file per thread.
    pub fn usage_with_switches(self) -> Usage {
        let usage = self.usage();
        let Self::Server(pid) = self else { return usage };
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let of_task = |task: fs::DirEntry| {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            field(&status, "voluntary_ctxt_switches:")
                + field(&status, "nonvoluntary_ctxt_switches:")
        };
        Usage { switches: tasks.map(of_task).sum(), ..usage }
    }

    /// Returns the largest resident size since the last `reset_rss_peak`, bytes.
    pub fn rss_peak_bytes(self) -> u64 {
        field(&self.file("status"), "VmHWM:") * 1024
    }

    /// Returns the resident size now, bytes.
    pub fn rss_bytes(self) -> u64 {
        field(&self.file("status"), "VmRSS:") * 1024
    }

    /// Starts a new peak. Kernels that refuse keep the peak since the process started, which only
    /// overstates.
    pub fn reset_rss_peak(self) {
        let _ = match self {
            Self::Own => fs::write("/proc/self/clear_refs", "5"),
            Self::Server(pid) => fs::write(format!("/proc/{pid}/clear_refs"), "5"),
        };
    }
}

/// Parses `/proc/PID/stat`: CPU in total and in the kernel, seconds, and minor and major faults.
/// The second field is a name in brackets, which may contain anything.
fn cpu_and_faults(stat: &str) -> Option<((f64, f64), u64, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect(); // from the third field on
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let seconds = |ticks: u64| ticks as f64 / ticks_per_second();
    let (user, system) = (number(14)?, number(15)?);
    Some(((seconds(user + system), seconds(system)), number(10)?, number(12)?))
}

fn ticks_per_second() -> f64 {
    // SAFETY: the call takes and returns plain numbers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

impl Usage {
    /// Returns what was used since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_s: self.cpu_s - earlier.cpu_s,
            cpu_system_s: self.cpu_system_s - earlier.cpu_system_s,
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

/// Returns the CPU of the calling thread, seconds.
pub fn thread_cpu_s() -> f64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs in a separate process, because other tests allocate and release memory concurrently.
    #[test]
    fn work_shows_as_cpu_and_memory_as_resident_size() {
        const ALONE: &str = "FROND_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let (_, path) = module_path!().split_once("::").expect("a module of the crate");
            let name = format!("{path}::work_shows_as_cpu_and_memory_as_resident_size");
            let mut alone = std::process::Command::new(std::env::current_exe().expect("a path"));
            let ran = alone.args(["--exact", &name]).env(ALONE, "1").output().expect("it starts");
            let out = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && out.contains(" 1 passed;"), "{out}");
            return;
        }
        let own = Subject::Own;
        let before = (own.usage(), thread_cpu_s(), own.rss_bytes());
        let block = vec![1u8; 32 << 20];
        let sum: u64 = (0..40u64).flat_map(|n| block.iter().map(move |b| u64::from(*b) ^ n)).sum();
        assert!(std::hint::black_box(sum) > 0);
        assert!(own.usage().since(&before.0).cpu_s > 0.0);
        assert!(thread_cpu_s() > before.1);
        assert!(own.rss_peak_bytes() >= before.2 + (24 << 20), "the block is resident");
    }

    #[test]
    fn a_process_is_measured_by_its_number_as_this_one_is() {
        let server = Subject::Server(std::process::id());
        let before = server.usage();
        let mut sum = 0u64;
        while Subject::Own.usage().cpu_s < before.cpu_s + 0.2 {
            sum = (0..100_000u64).fold(sum, |sum, n| sum ^ n.wrapping_mul(sum | 1));
        }
        std::hint::black_box(sum);
        let used = server.usage().since(&before).cpu_s;
        assert!((0.1..10.0).contains(&used), "{used} s");
        let (own, by_number) = (Subject::Own.rss_bytes(), server.rss_bytes());
        assert!(own.abs_diff(by_number) < 16 << 20 && own > 0, "{own} {by_number}");
        // No process has this number.
        assert_eq!(Subject::Server(u32::MAX).usage().cpu_s, 0.0);
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194304 1250 0 13 0 150 50 0 0 20 0";
        assert_eq!(
            cpu_and_faults(stat),
            Some(((200.0 / ticks_per_second(), 50.0 / ticks_per_second()), 1250, 13))
        );
        assert_eq!(cpu_and_faults(""), None);
    }
}
