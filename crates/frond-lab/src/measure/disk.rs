//! Allocated bytes of a directory: holes do not count, preallocated blocks do.

use std::collections::BTreeMap;
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

/// Allocated bytes of the files right in `dir`, by their names without numbers: `log.frond`, `sst`.
pub fn allocated_by_kind(dir: &Path) -> BTreeMap<String, u64> {
    let mut kinds = BTreeMap::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let words = name.split(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        let kind: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let bytes = entry.metadata().map_or(0, |data| data.blocks() * 512);
        *kinds.entry(kind.join(".")).or_insert(0) += bytes;
    }
    kinds
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
    fn files_are_summed_by_what_they_are() -> std::io::Result<()> {
        let dir = tempfile::tempdir()?;
        for name in ["000018.sst", "000019.sst", "MANIFEST-000005", "log-0000000001.frond"] {
            let file = std::fs::File::create(dir.path().join(name))?;
            file.write_all_at(&[1; 8192], 0)?;
            file.sync_all()?;
        }
        let kinds = allocated_by_kind(dir.path());
        assert_eq!(kinds.keys().collect::<Vec<_>>(), ["MANIFEST", "log.frond", "sst"]);
        assert_eq!(kinds["sst"], 2 * kinds["MANIFEST"]);
        Ok(())
    }
}
