//! A full backup of a store in use, an increment, and a store restored from both.
//!
//! `cargo run -p frond-db --example backup [DIRECTORY]`

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use frond::{Db, Options, backup::Backup};

fn main() -> frond::Result<()> {
    let default = std::env::temp_dir().join("frond-backup");
    run(&std::env::args_os().nth(1).map_or(default, PathBuf::from))
}

pub fn run(dir: &Path) -> frond::Result<()> {
    let [full, increment, restored] = ["full", "increment", "restored"].map(|name| dir.join(name));
    // Backups and restored stores must not exist. Those of an earlier run are not needed.
    remove(&full).and(remove(&increment)).and(remove(&restored)).expect("removed");
    fs::create_dir_all(dir).expect("a directory");

    let db = Db::open(dir.join("store"), Options::new().cache_size(64 << 20))?;
    let events = db.tree("events", Default::default())?;
    for number in events.reserve(0, 1, 1000)? {
        events.put(number.to_be_bytes(), "before the full backup")?;
    }

    // Copies the store as it is now. Reads and commits go on meanwhile, and every page is verified.
    let base = db.backup(&full)?;
    println!("full backup: {} pages, {} bytes", base.pages, base.bytes);

    for number in events.reserve(0, 1, 10)? {
        events.put(number.to_be_bytes(), "after the full backup")?;
    }

    // Copies what has changed since. Another program reads the id of the backup with
    // `BackupId::read`.
    let info = db.backup_since(&base.id, &increment)?;
    println!("increment: {} pages, {} bytes", info.pages, info.bytes);

    let expected = events.range(..).count();
    events.put("later", "this is in no backup")?;
    drop(events);
    db.close()?;

    // A full backup, and its increments in the order in which they were made.
    Backup::new(&full).increment(&increment).restore(&restored)?;
    let db = Db::open(&restored, Options::new().cache_size(64 << 20))?;
    let found = db.tree("events", Default::default())?.range(..).count();
    println!("{found} events are in the store restored to {}", restored.display());
    assert_eq!(found, expected);
    db.close()
}

/// Removes a file or directory, if there is one.
fn remove(path: &Path) -> io::Result<()> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
