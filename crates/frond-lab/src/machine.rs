//! Description of the machine, which is printed with every result.

use std::fs;

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// CPU model and number of cores.
pub fn cpu() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split(':').nth(1));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{} x {cores}", model.unwrap_or("unknown CPU").trim())
}

/// Memory of the machine, bytes.
pub fn memory_bytes() -> u64 {
    let line = first_line("/proc/meminfo");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Kernel release.
pub fn kernel() -> String {
    first_line("/proc/sys/kernel/osrelease")
}

/// Load averages now: over one, five and fifteen minutes.
pub fn load_average() -> String {
    first_line("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")
}
