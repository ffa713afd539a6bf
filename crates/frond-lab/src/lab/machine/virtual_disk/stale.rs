//! Removes disks that were left behind by killed lab processes.

use std::fs;
use std::path::{Path, PathBuf};

use super::{PREFIX, attach};
use crate::lab::machine::device::Disk;
use crate::measure::{IoLimits, Owner};

/// The directory of the disk that `path` is or lies in, if its owner no longer runs.
fn stale_dir(path: &Path) -> Option<PathBuf> {
    let has_ended =
        |dir: &&Path| dir.file_name().is_some_and(|name| Owner::has_ended(name, PREFIX));
    path.ancestors().find(has_ended).map(Path::to_owned)
}

/// Removes the remains of stale disks: of those below `dir`, and of all that are still mounted or
/// attached. Returns their directories.
///
/// A FUSE file whose process was killed fails every request, so nothing here can hang on it.
pub fn remove_stale(dir: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let loops = attach::loops();
    let files = loops.iter().map(|(_, file)| file.clone());
    let all = below.chain(attach::mount_points()).chain(files);
    let mut dirs: Vec<PathBuf> = all.filter_map(|path| stale_dir(&path)).collect();
    dirs.sort();
    dirs.dedup();
    for dir in &dirs {
        // First the data, then the loop device, then the FUSE file that it is attached to.
        for point in attach::mounts_below(&dir.join("data")) {
            attach::unmount(&point);
        }
        for (device, _) in loops.iter().filter(|(_, file)| file.starts_with(dir)) {
            let name = device.file_name().map(|name| name.to_string_lossy().into_owned());
            let number = fs::read_to_string(format!("/sys/block/{}/dev", name.unwrap_or_default()));
            let number = number.ok().and_then(|text| text.parse().ok());
            if let Some(disk) = number.and_then(Disk::of) {
                // A limit outlives its disk, and would slow down the next disk with that number.
                let _ = attach::limit_in_root(disk.number, &IoLimits::default());
            }
            attach::detach(device);
        }
        for point in attach::mounts_below(dir) {
            attach::unmount(&point);
        }
        let _ = fs::remove_dir_all(dir); // the next call finds what is still in use
    }
    dirs.retain(|dir| !dir.exists());
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ended_processes_are_stale() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: String| dir.path().join(name);
        let living = at(Owner::own().name(PREFIX));
        let dead = at(format!("{PREFIX}{}.1.0", std::process::id())); // this process started later
        let foreign = at("frond-lab-disk-notes".to_owned());
        for made in [&living, &dead, &foreign] {
            fs::create_dir_all(made.join("data"))?;
        }
        assert_eq!(stale_dir(&dead.join("fuse/disk.img")), Some(dead.clone()));
        assert_eq!(stale_dir(&living.join("fuse/disk.img")), None);
        let removed = remove_stale(dir.path());
        assert!(removed.contains(&dead.canonicalize().unwrap_or(dead.clone())), "{removed:?}");
        assert!(!dead.exists() && living.exists() && foreign.exists());
        Ok(())
    }
}
