//! `frond backup` and `frond restore`: a store's directory, copied whole while nobody can write to it.
//!
//! A store has one owner at a time. The copy holds that ownership, read-only: what it copies is one
//! state of the store, with its log, and opens like the original.
//!
//! Invariants
//! 1. The target comes into being whole and synced, under its name, or not at all; an existing one is
//!    never written to.
//! 2. The source is not changed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use frond::{
    Db, Options,
    io::Env,
    store::{self, StoreOptions},
};

use crate::{
    common::{say, size},
    fail::{Fail, Result, error},
};

/// Copy a store to a new directory, which is a store itself
#[derive(clap::Args)]
pub struct BackupArgs {
    /// Directory of the store
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Directory to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Make a store out of a backup
///
/// The backup is opened and read through first; one that is damaged is not restored.
#[derive(clap::Args)]
pub struct RestoreArgs {
    /// Directory of the backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// Directory to make
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Runs `frond backup`.
pub fn backup(args: BackupArgs) -> Result {
    let bytes = copy_store(&args.dir, &args.target)?;
    say(&format!("{} copied to {}", size(bytes), args.target.display()))
}

/// Runs `frond restore`.
pub fn restore(args: RestoreArgs) -> Result {
    let db = Db::open(&args.backup, Options::new().create(false).read_only(true))?;
    let mut entries = 0u64;
    for tree in db.trees() {
        let mut cursor = db.open_tree(&tree.name)?.scan(..)?;
        while cursor.next()?.is_some() {
            entries += 1;
        }
    }
    db.close()?;
    drop(db);
    let bytes = copy_store(&args.backup, &args.target)?;
    say(&format!("{} with {entries} entries restored to {}", size(bytes), args.target.display()))
}

fn copy_store(from: &Path, to: &Path) -> Result<u64> {
    if to.exists() {
        return error(format!("{} exists already", to.display()));
    }
    let env = Env::real();
    if store::probe(&env, from)? != store::Found::Store {
        return error(format!("{} holds no store", from.display()));
    }
    // Held until the copy is done: nobody else can own the store meanwhile.
    let held =
        store::open(&env, from, StoreOptions { read_only: true, ..StoreOptions::default() })?;
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = to.with_file_name(name);
    let outcome = copy_files(from, &partial).and_then(|bytes| {
        fs::rename(&partial, to)?;
        File::open(parent(to))?.sync_all()?;
        Ok(bytes)
    });
    drop(held);
    outcome.map_err(|why| {
        // What was begun is ours, and of no use.
        let _ = fs::remove_dir_all(&partial);
        Fail::Error(format!("cannot copy {} to {}: {why}", from.display(), to.display()))
    })
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<u64> {
    match fs::remove_dir_all(to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new().mode(0o700).create(to)?;
    let mut bytes = 0;
    for file in fs::read_dir(from)? {
        let file = file?;
        let ours = file.path().extension().is_some_and(|extension| extension == "frond");
        if ours && file.file_type()?.is_file() {
            bytes += copy_file(&file.path(), &to.join(file.file_name()))?;
        }
    }
    File::open(to)?.sync_all()?;
    Ok(bytes)
}

/// Copies a file, leaving out what is zero: stores have holes, and log segments are full of zeros.
fn copy_file(from: &Path, to: &Path) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let mut source = File::open(from)?;
    let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    let mut piece = vec![0; 64 << 10];
    let mut at = 0;
    loop {
        let read = source.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        if bytes.iter().any(|byte| *byte != 0) {
            target.write_all_at(bytes, at)?;
        }
        at += read as u64;
    }
    target.set_len(at)?;
    target.flush()?;
    target.sync_all()?;
    Ok(at)
}
