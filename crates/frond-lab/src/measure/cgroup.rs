//! A memory limit that counts the page cache, for stores that live in it (WORKLOADS §8.2).
//!
//! Only where this process may make a memory cgroup below its own; elsewhere there is no limit, and
//! the report says so.

use std::fs;
use std::path::{Path, PathBuf};

use crate::size::Bytes;

/// A cgroup around this process; removed by the parent process when the child has ended.
#[derive(Debug)]
pub struct MemoryLimit {
    dir: PathBuf,
    second_version: bool,
}

impl MemoryLimit {
    /// Where a limit for the process `pid` would live; `None` without a memory controller.
    fn place(pid: u32) -> Option<(PathBuf, bool)> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        for line in groups.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let name = format!("frond-lab-{pid}");
            if controllers.split(',').any(|controller| controller == "memory") {
                let root = Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/'));
                return Some((root.join(name), false));
            }
            let unified = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
            if controllers.is_empty() && unified.join("memory.max").exists() {
                return Some((unified.join(name), true));
            }
        }
        None
    }

    /// Puts this process under a limit. `None` where that is not allowed.
    pub fn enter(limit: Bytes) -> Option<Self> {
        let (dir, second_version) = Self::place(std::process::id())?;
        fs::create_dir(&dir).ok()?;
        let file = if second_version { "memory.max" } else { "memory.limit_in_bytes" };
        let entered = fs::write(dir.join(file), limit.0.to_string())
            .and_then(|()| fs::write(dir.join("cgroup.procs"), std::process::id().to_string()));
        if entered.is_err() {
            let _ = fs::remove_dir(&dir); // nothing is inside; a leftover empty group does no harm
            return None;
        }
        Some(Self { dir, second_version })
    }

    /// Largest use, page cache included, bytes.
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = if self.second_version { "memory.peak" } else { "memory.max_usage_in_bytes" };
        fs::read_to_string(self.dir.join(file)).ok()?.trim().parse().ok()
    }

    /// Removes what the ended process `pid` left.
    pub fn remove_of(pid: u32) {
        if let Some((dir, _)) = Self::place(pid) {
            let _ = fs::remove_dir(dir); // absent unless that process entered a limit
        }
    }
}
