//! Allocated bytes of a directory: holes do not count, preallocated blocks do.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `st_blocks × 512` over everything below `dir`. Files that vanish meanwhile count nothing.
pub fn allocated_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => data.blocks() * 512 + allocated_bytes(&entry.path()),
        Ok(data) => data.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
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
}
