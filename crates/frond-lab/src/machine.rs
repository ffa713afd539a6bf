//! Description of the machine, for the caption of every number.

use std::fs;
use std::path::Path;

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

/// Type of the file system that holds `dir`.
pub fn file_system(dir: &Path) -> String {
    let Ok(dir) = fs::canonicalize(dir) else { return "unknown".to_owned() };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (point, kind) = (words.next()?, words.next()?);
        dir.starts_with(point).then_some((point.len(), kind))
    });
    mounted.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}
