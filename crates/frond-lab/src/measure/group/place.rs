//! Where a control group can be made: the mounted hierarchies, and this process's own group in
//! each.
//!
//! A controller is either in its own version 1 hierarchy or in the version 2 hierarchy, never in
//! both. In version 2 a group that has processes cannot pass controllers to groups below it, unless
//! it is the root. So each ancestor is a candidate, the nearest first.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// What a control group limits or counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// Memory, page cache included.
    Memory,
    /// Bytes and I/Os of block devices.
    Io,
    /// CPU time.
    Cpu,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Memory, Self::Io, Self::Cpu];

    /// The kernel's name.
    pub fn name(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Memory, _) => "memory",
            (Self::Io, Version::V1) => "blkio",
            (Self::Io, Version::V2) => "io",
            (Self::Cpu, Version::V1) => "cpuacct",
            (Self::Cpu, Version::V2) => "cpu",
        }
    }
}

/// Version of a control group hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// One hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// A place where groups can be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Version of its hierarchy.
    pub version: Version,
    /// Groups below which a new group may be made, the nearest first. Version 1 has one.
    pub parents: Vec<PathBuf>,
    /// Top of the hierarchy, as this process sees it.
    pub top: PathBuf,
}

/// Returns the place for groups of this process with `controller`; `None` if the kernel or
/// container has no such controller.
pub fn place(controller: Controller) -> Option<Place> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    place_in(controller, &own, &mounts)
}

/// One mounted hierarchy.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    options: &'a str,
}

/// Returns the mounts with file system `kind` from the text of `/proc/self/mountinfo`.
fn mounts_of<'a>(mounts: &'a str, kind: &'a str) -> impl Iterator<Item = Mount<'a>> {
    mounts.lines().filter_map(move |line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let (found, _, options) = (right.next()?, right.next()?, right.next()?);
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        (found == kind).then_some(Mount { root, point, options })
    })
}

fn place_in(controller: Controller, own: &str, mounts: &str) -> Option<Place> {
    let in_v1 = controller.name(Version::V1);
    let first = mounts_of(mounts, "cgroup").find(|m| m.options.split(',').any(|o| o == in_v1));
    let (mount, version) = match first {
        Some(mount) => (mount, Version::V1),
        None => (mounts_of(mounts, "cgroup2").next()?, Version::V2),
    };
    let own = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let here = match version {
            Version::V1 => controllers.split(',').any(|name| name == in_v1),
            Version::V2 => controllers.is_empty(),
        };
        here.then_some(path)
    })?;
    let top = PathBuf::from(mount.point);
    // A container may mount only a part of the hierarchy: what is above it cannot be reached.
    let below = Path::new(own).strip_prefix(mount.root).unwrap_or(Path::new(""));
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let nearest = if plain { top.join(below) } else { top.clone() };
    let parents = match version {
        Version::V1 => vec![nearest],
        Version::V2 => {
            nearest.ancestors().take_while(|p| p.starts_with(&top)).map(Path::to_owned).collect()
        }
    };
    Some(Place { version, parents, top })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let own = "4:memory:/api/42\n1:cpu,cpuacct:/\n0::/\n";
        let memory = place_in(Controller::Memory, own, FIRST).unwrap();
        assert_eq!(memory.version, Version::V1);
        assert_eq!(memory.parents, [Path::new("/sys/fs/cgroup/memory/api/42")]);
        let cpu = place_in(Controller::Cpu, own, FIRST).unwrap();
        assert_eq!(cpu.parents, [Path::new("/sys/fs/cgroup/cpu")]);
        // blkio is in no version 1 hierarchy here, so only version 2 may have it.
        let io = place_in(Controller::Io, own, FIRST).unwrap();
        assert_eq!(io.version, Version::V2);
    }

    #[test]
    fn version_2_tries_the_nearest_group_first_and_ends_at_the_mount() {
        let mounts = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let place = place_in(Controller::Memory, "0::/user.slice/a.scope\n", mounts).unwrap();
        let expected = ["/user.slice/a.scope", "/user.slice", ""];
        let expected = expected.map(|path| PathBuf::from(format!("/sys/fs/cgroup{path}")));
        assert_eq!(place.parents, expected);
        assert_eq!(place_in(Controller::Memory, "0::/\n", ""), None);
    }

    #[test]
    fn a_container_with_a_partial_hierarchy_stays_within_it() {
        let mounts = "41 31 0:38 /pod/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let inside = place_in(Controller::Io, "0::/pod/a/b\n", mounts).unwrap();
        assert_eq!(inside.parents[0], Path::new("/sys/fs/cgroup/b"));
        let outside = place_in(Controller::Io, "0::/../other\n", mounts).unwrap();
        assert_eq!(outside.parents, [Path::new("/sys/fs/cgroup")]);
    }
}
