//! The owner of a group or disk: a process number and start time in its name, so that leftovers of
//! ended processes can be recognized.
//!
//! A process number alone is not enough: numbers are reused, and a leftover would then look as if
//! its owner were alive.

use std::ffi::OsStr;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process, distinguished from a later one with the same number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pid: u32,
    /// Start time, clock ticks since boot.
    started: u64,
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?; // the name before it may contain anything
    let mut fields = rest.split_whitespace(); // from the third field on
    if fields.next()? == "Z" {
        return None; // a zombie: it has ended, but its parent has not reaped it
    }
    fields.nth(18)?.parse().ok() // the 22nd field
}

impl Owner {
    /// This process.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self::of_process(pid).unwrap_or(Self { pid, started: 0 })
    }

    /// The running process with this number.
    pub fn of_process(pid: u32) -> Option<Self> {
        Some(Self { pid, started: started(pid)? })
    }

    /// Number of the process.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Whether the process is still running.
    pub fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// Returns a name that starts with `prefix` and is unique within this process.
    pub fn name(self, prefix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0); // Relaxed: numbers need only be distinct
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{}.{}.{n}", self.pid, self.started)
    }

    /// Whether `name` was made with this prefix, by a process that has ended.
    pub fn has_ended(name: &OsStr, prefix: &str) -> bool {
        let owner = name.to_str().and_then(|name| Self::of(name, prefix));
        owner.is_some_and(|owner| !owner.lives())
    }

    /// Returns the owner from a name that `name` made with this prefix.
    pub fn of(name: &str, prefix: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(prefix)?.split('.');
        let (pid, started) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let _number: u32 = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { pid, started })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_identifies_its_owner_and_whether_it_is_alive() {
        let own = Owner::own();
        let (name, other) = (own.name("lab-"), own.name("lab-"));
        assert_ne!(name, other);
        assert_eq!(Owner::of(&name, "lab-"), Some(own));
        assert!(own.lives());
        let later = Owner { started: own.started + 1, ..own };
        assert!(!later.lives(), "a process with the number of an earlier one is another");
        for foreign in ["lab-1", "lab-a.b.c", "lab-1.2.3.4", "other", "lab-1.2.x"] {
            assert_eq!(Owner::of(foreign, "lab-"), None, "{foreign}");
        }
    }

    #[test]
    fn an_ended_process_is_not_alive_even_before_it_is_reaped() -> std::io::Result<()> {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn()?;
        let owner = Owner { pid: child.id(), started: started(child.id()).unwrap() };
        assert!(owner.lives());
        child.kill()?;
        while owner.lives() {
            std::thread::yield_now();
        }
        child.wait()?;
        assert!(!owner.lives());
        Ok(())
    }
}
