//! Who made a group or a disk: the process number and start time in its name, so that what was left behind is found.
//!
//! A process number alone would not do: it is used again, and a leftover would then look as if its owner lived.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process, told apart from a later one with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pid: u32,
    /// When it started, clock ticks since boot.
    started: u64,
}

fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?; // the name before it may have anything in it
    let mut fields = rest.split_whitespace(); // from the third on
    if fields.next()? == "Z" {
        return None; // it has ended, and only its parent has not noticed
    }
    fields.nth(18)?.parse().ok() // the 22nd
}

impl Owner {
    /// This process.
    pub fn own() -> Self {
        let pid = std::process::id();
        Self { pid, started: started(pid).unwrap_or(0) }
    }

    /// Whether it still runs.
    pub fn lives(self) -> bool {
        started(self.pid) == Some(self.started)
    }

    /// A name that begins with `prefix`, distinct within this process.
    pub fn name(self, prefix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0); // only distinctness is needed of it
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{prefix}{}.{}.{n}", self.pid, self.started)
    }

    /// The owner in a name that `name` made with this prefix.
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
    fn a_name_tells_its_owner_and_whether_that_lives() {
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
    fn a_process_that_has_ended_does_not_live_even_before_it_is_reaped() -> std::io::Result<()> {
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
