//! Allocated bytes of a directory: holes do not count, preallocated blocks do.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Returns `st_blocks × 512` over everything below `dir`. Files that vanish meanwhile count as
/// zero.
pub fn allocated_bytes(dir: &Path) -> u64 {
    Space::whole(dir).bytes()
}

/// The part of a directory that counts as the size of a store.
#[derive(Clone, Debug)]
pub struct Space {
    dir: PathBuf,
    /// Patterns of paths below `dir`: those that do not count, and those of the log.
    without: Vec<String>,
    logs: Vec<String>,
    /// Bytes that were there before the store had any data.
    empty: u64,
    /// Whether blocks beyond the end of a file count.
    with_reserves: bool,
}

impl Space {
    /// Counts everything that is allocated below `dir`.
    pub fn whole(dir: &Path) -> Self {
        let (without, logs) = (Vec::new(), Vec::new());
        Self { dir: dir.to_owned(), without, logs, empty: 0, with_reserves: true }
    }

    /// Counts what a server's data directory has in addition to its current content, which is that
    /// of an empty server. `logs` and `without`, patterns of paths below `dir` with at most one
    /// `*`, do not count; neither do blocks beyond the end of a file, which a clean close gives
    /// back.
    pub fn grown(dir: &Path, logs: &[&str], without: &[&str]) -> Self {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (dir, logs, without) = (dir.to_owned(), owned(logs), owned(without));
        let mut space = Self { dir, without, logs, empty: 0, with_reserves: false };
        space.empty = space.bytes();
        space
    }

    /// Returns the size now.
    pub fn bytes(&self) -> u64 {
        let is_data = |path: &str| !matches(path, &self.without) && !matches(path, &self.logs);
        self.sum(&self.dir, "", &is_data).saturating_sub(self.empty)
    }

    /// Returns the size of the logs now.
    pub fn log_bytes(&self) -> u64 {
        self.sum(&self.dir, "", &|path| matches(path, &self.logs))
    }

    /// Whether logs are counted separately, and so not as part of the size.
    pub fn tells_logs(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Returns the size of the empty store.
    pub fn empty_bytes(&self) -> u64 {
        self.empty
    }

    fn sum(&self, dir: &Path, above: &str, counts: &impl Fn(&str) -> bool) -> u64 {
        let mut all = 0;
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue }; // it vanished meanwhile
            let path = format!("{above}{}", entry.file_name().to_string_lossy());
            if data.is_dir() {
                all += self.sum(&entry.path(), &format!("{path}/"), counts);
            }
            if counts(&path) {
                let allocated = data.blocks() * 512;
                let length = data.len().next_multiple_of(4096);
                let with_reserves = self.with_reserves || data.is_dir();
                all += if with_reserves { allocated } else { allocated.min(length) };
            }
        }
        all
    }
}

fn matches(path: &str, patterns: &[String]) -> bool {
    patterns.iter().any(|pattern| match pattern.split_once('*') {
        Some((begin, end)) => path.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end)),
        None => path == pattern,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn holes_are_not_counted() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let before = allocated_bytes(dir.path());
        let file = std::fs::File::create(dir.path().join("f"))?;
        file.write_all_at(&[1; 4096], 64 << 20)?;
        file.sync_all()?;
        let grown = allocated_bytes(dir.path()) - before;
        assert!((4096..1 << 20).contains(&grown), "{grown}");
        Ok(())
    }

    #[test]
    fn space_excludes_what_an_empty_directory_takes() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str, bytes: usize| -> std::io::Result<std::fs::File> {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it is below the directory"))?;
            let file = std::fs::File::create(path)?;
            file.write_all_at(&vec![1; bytes], 0)?;
            file.sync_all()?;
            Ok(file)
        };
        at("ibdata1", 8192)?;
        at("log0", 4096)?;
        at("#own/1.log", 4096)?;
        at("ibtmp1", 4096)?;
        let space = Space::grown(dir.path(), &["log*", "#own/*.log"], &["ibtmp1"]);
        assert_eq!(
            (space.bytes(), space.log_bytes(), space.empty_bytes() >= 8192),
            (0, 8192, true)
        );
        at("ibdata1", 3 * 8192)?; // undo
        at("#own/t", 4096)?;
        at("log1", 65_536)?;
        at("ibtmp1", 65_536)?;
        assert_eq!((space.bytes(), space.log_bytes()), (2 * 8192 + 4096, 8192 + 65_536));
        // Blocks reserved beyond the end of the file: a close gives them back.
        let reserve = ["--keep-size", "--length", "1M", "#own/t"];
        let reserved = std::process::Command::new("fallocate")
            .args(reserve)
            .current_dir(dir.path())
            .status()?;
        if reserved.success() {
            assert_eq!(space.bytes(), 2 * 8192 + 4096);
            assert!(Space::whole(dir.path()).bytes() > 1 << 20);
        }
        Ok(())
    }
}
