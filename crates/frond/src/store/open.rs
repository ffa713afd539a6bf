//! Making a store file, and opening one: lock it, choose a slot, load its map and roots.
//!
//! Invariants
//! 1. Nothing is written before the lock is held and a slot with intact roots is chosen; nothing at
//!    all when opening read-only or when opening fails (P18, P19, P21).
//! 2. The first changes sync the directory, then rewrite the chosen slot exactly as it is, and sync
//!    it: both may have existed only in the page cache (P6), and tearing equal bytes does no harm.
//!    A slot that this open passed over is replaced instead, before anything is allocated
//!    (`passed_over.rs`).
//! 3. A store is made only where no file of a store exists; a zeroed or missing superblock is never
//!    a new store.
//! 4. A store file appears under its name only when it is whole and durable, and so is the first
//!    segment of its log. So a store without a log has lost it, whatever its slots say; it is never
//!    read as a new store.
//!
//! Threads: one writer or any number of readers at a time per store, enforced by the kernel's file
//! lock.

use std::path::Path;

use super::{
    STORE_FILE, directory,
    file::Store,
    guard::Guard,
    owner::{self, HEADROOM},
    page_table,
    passed_over::Issued,
    root_directory::RootDirectory,
    space_map,
    superblock::{
        DATA_START, OWNER_OFFSET, SLOT_BYTES, SLOT_OFFSETS, SlotRead, Superblock, Totals, slot_of,
    },
};
use crate::{
    error::{Error, Result},
    io::{AlignedBuf, Env, File, LockKind, OpenMode},
    page::{FEATURE_ROW_COUNTS, FEATURE_SUMS, PageKind, StoreFile},
    sync::Arc,
    types::{StoreId, VersionNumber},
};

/// Name of a store file that is still being made.
const NEW_FILE: &str = "store.frond.new";

/// What a directory contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The directory does not exist.
    Nothing,
    /// A directory without a file of a store, except for what an interrupted creation left.
    Directory,
    /// A new store with this id, whose file and log are whole; the creation was interrupted before
    /// the file got its name.
    Unfinished(StoreId),
    /// A store file.
    Store,
    /// Log segments without their store file: damage.
    LogOnly,
}

/// Options for opening a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreOptions {
    /// Change nothing. Several openers may do so at once, in one process or several. They exclude
    /// one that writes: a file that is being written cannot be read consistently.
    pub read_only: bool,
    /// Allocate from this offset on; tests use it to put stores beyond 2^32.
    pub allocate_from: u64,
}

/// An opened store.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: Store,
    /// The slot that was chosen.
    pub superblock: Superblock,
    /// The root directory.
    pub roots: RootDirectory,
    /// Messages for the log: FRD-2105 when the newest slot could not be used.
    pub warnings: Vec<String>,
}

impl Opened {
    /// The version above which births and publishes start (Rule: I20).
    pub fn counts_from(&self) -> VersionNumber {
        self.store.counts_from()
    }
}

/// Finds out what `dir` contains; writes nothing. Log segments prove that an unfinished store file
/// was made durable: it is written before them, by the same creation.
pub fn probe(env: &Env, dir: &Path) -> Result<Found> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotADirectory => {
            Error::not_a_store(dir, "is a file; a store is a directory")
        }
        _ => Error::io(dir, "list", 0, error),
    };
    if !env.vfs.exists(dir).map_err(failed)? {
        return Ok(Found::Nothing);
    }
    let (mut has_log, mut has_new_file) = (false, false);
    for name in env.vfs.list(dir).map_err(failed)? {
        let Some(name) = name.to_str() else { continue };
        if name == STORE_FILE {
            return Ok(Found::Store);
        }
        has_log |= name.starts_with("log-") && name.ends_with(".frond");
        has_new_file |= name == NEW_FILE;
    }
    if !has_log {
        return Ok(Found::Directory);
    }
    if has_new_file && let Some(store) = new_store_in(env, &dir.join(NEW_FILE))? {
        return Ok(Found::Unfinished(store));
    }
    // The file may have got its name while the directory was listed.
    match env.vfs.exists(&dir.join(STORE_FILE)).map_err(failed)? {
        true => Ok(Found::Store),
        false => Ok(Found::LogOnly),
    }
}

/// The id of the new store in a store file under its temporary name, if both slots are whole.
fn new_store_in(env: &Env, path: &Path) -> Result<Option<StoreId>> {
    let mode = OpenMode { write: false, create_new: false, direct: true };
    let file = match env.vfs.open(path, mode) {
        // It has got its name meanwhile.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| Error::io(path, "open", 0, e))?,
    };
    Ok(match [0, 1].map(|index| read_slot(&*file, index)) {
        [SlotRead::Good(a), SlotRead::Good(b)]
            if a.store == b.store && a.is_new() && b.is_new() =>
        {
            Some(a.store)
        }
        _ => None,
    })
}

/// The log of a store that is being created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NewLog {
    /// There is none.
    None,
    /// There are segments, which an interrupted creation of the store must have made.
    Made,
}

/// Makes an empty store in `dir`, which is created if necessary, and opens it. `make_log` makes the
/// log of a store with this id durable, in the same directory, or checks that the log is that of
/// the store. `None` if there is a store already.
pub fn create_with_log<T>(
    env: &Env,
    dir: &Path,
    options: StoreOptions,
    make_log: impl FnOnce(StoreId, NewLog) -> Result<T>,
) -> Result<Option<(Opened, T)>> {
    match probe(env, dir)? {
        Found::Store => return Ok(None),
        Found::LogOnly => return Err(no_store_file(dir)),
        Found::Directory | Found::Unfinished(_) => {}
        Found::Nothing => match env.vfs.create_dir(dir) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => created.map_err(|e| Error::io(dir, "create", 0, e))?,
        },
    }
    // Also for an existing directory: the process that made it may have been killed before this
    // sync. The parent of `store` is the empty path, which means the working directory.
    let parent = dir.parent().unwrap_or(dir);
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    env.vfs.sync_dir(parent).map_err(|e| Error::io(parent, "sync", 0, e))?;
    let new = dir.join(NEW_FILE);
    let unfinished = open_unfinished(env, &new, false)?;
    let lock = FileLock::take(&unfinished, dir, LockKind::Exclusive)?;
    // Checked with the lock held: its previous holder may have finished the creation, or made
    // progress.
    let log = match probe(env, dir)? {
        Found::Store => {
            // An unfinished store file is of no use next to a finished one.
            let _ = env.vfs.remove(&new);
            return Ok(None);
        }
        Found::LogOnly => return Err(no_store_file(dir)),
        Found::Unfinished(id) => make_log(id, NewLog::Made)?,
        Found::Directory | Found::Nothing => {
            let id = write_new_file(env, &new, &*unfinished)?;
            // No name of a log segment may outlive this file's.
            env.vfs.sync_dir(dir).map_err(|e| Error::io(dir, "sync", 0, e))?;
            make_log(id, NewLog::None)?
        }
    };
    let path = dir.join(STORE_FILE);
    env.vfs.rename(&new, &path).map_err(|e| Error::io(&new, "rename", 0, e))?;
    env.vfs.sync_dir(dir).map_err(|e| Error::io(dir, "sync", 0, e))?;
    let file = open_file(env, &path, &options)?;
    let guard = Guard::locked_by(file, unfinished.clone(), options.read_only)
        .map_err(|e| Error::io(&path, "measure", 0, e))?;
    lock.keep();
    Ok(Some((open_locked(env, dir, &guard, options)?, log)))
}

/// Makes an empty store without a log, for tests of what does not need one.
#[cfg(test)]
pub fn create(env: &Env, dir: &Path, options: StoreOptions) -> Result<Opened> {
    match create_with_log(env, dir, options, |_, _| Ok(()))? {
        Some((opened, ())) => Ok(opened),
        None => Err(Error::not_a_store(dir, "holds a store already")),
    }
}

/// The error for a log without its store file.
pub fn no_store_file(dir: &Path) -> Error {
    Error::not_a_store(
        dir,
        "has log files but no store.frond; put it back, or restore from a backup",
    )
}

/// Opens a file under its temporary name: a new one, or one that a crash or a failed attempt left
/// behind. Unless it is locked, no process is making it now.
fn open_unfinished(env: &Env, path: &Path, direct: bool) -> Result<Arc<dyn File>> {
    let mode = OpenMode { write: true, create_new: true, direct };
    loop {
        match env.vfs.open(path, mode) {
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => return made.map_err(|e| Error::io(path, "create", 0, e)),
        }
        match env.vfs.open(path, OpenMode { create_new: false, ..mode }) {
            // The process that made it has renamed or removed it meanwhile.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            opened => return opened.map_err(|e| Error::io(path, "open", 0, e)),
        }
    }
}

/// Opens a file under its temporary name and locks it. `None` if another process is making it, or
/// has renamed or removed it before it released the lock.
pub fn lock_unfinished(env: &Env, path: &Path, direct: bool) -> Result<Option<Arc<dyn File>>> {
    let failed = |action| move |e| Error::io(path, action, 0, e);
    let file = open_unfinished(env, path, direct)?;
    let is_owned = file.try_lock(LockKind::Exclusive).map_err(failed("lock"))?
        && file.is_at(path).map_err(failed("look up"))?;
    Ok(is_owned.then_some(file))
}

/// Writes the file of a new store, which gets its name later, and syncs it. Returns the store's id.
fn write_new_file(env: &Env, path: &Path, file: &dyn File) -> Result<StoreId> {
    let failed = |action| move |e| Error::io(path, action, 0, e);
    let (a, b) = (env.rng.next_u64().to_le_bytes(), env.rng.next_u64().to_le_bytes());
    let mut id = [0; 16];
    id[..8].copy_from_slice(&a);
    id[8..].copy_from_slice(&b);
    file.set_len(0).map_err(failed("resize"))?;
    file.set_len(DATA_START).map_err(failed("resize"))?;
    for sequence in [0, 1] {
        let superblock = Superblock {
            store: StoreId(id),
            sequence,
            publish_limit: VersionNumber(HEADROOM),
            incompat: FEATURE_ROW_COUNTS | FEATURE_SUMS,
            totals: Totals { file_bytes: DATA_START, ..Totals::default() },
            ..Superblock::default()
        };
        let slot = superblock.to_slot()?;
        let offset = SLOT_OFFSETS[slot_of(sequence)];
        file.write_at(&slot, offset).map_err(failed("write"))?;
    }
    // The owner page gets its block now, so that an open needs no space for it.
    let owner = AlignedBuf::try_zeroed(SLOT_BYTES, "the owner page")?;
    file.write_at(&owner, OWNER_OFFSET).map_err(failed("write"))?;
    file.sync_all().map_err(failed("sync"))?;
    Ok(StoreId(id))
}

/// The lock on a store's file during setup; released when dropped. Closing the file is not enough:
/// a process that another thread of the program starts also has it open, until it executes its own
/// program.
pub(super) struct FileLock<'a> {
    file: &'a dyn File,
    is_kept: bool,
}

impl<'a> FileLock<'a> {
    /// Takes the lock; `Locked` if another open file excludes it.
    pub(super) fn take(file: &'a Arc<dyn File>, dir: &Path, kind: LockKind) -> Result<Self> {
        let file = &**file;
        let try_lock = |kind| file.try_lock(kind).map_err(|e| Error::io(dir, "lock", 0, e));
        if try_lock(kind)? || plant!("store: the lock file is not locked") {
            return Ok(Self { file, is_kept: false });
        }
        // Readers do not write the owner page. Only they leave a shared lock.
        let are_readers = kind == LockKind::Exclusive && try_lock(LockKind::Shared)?;
        if are_readers {
            file.unlock().map_err(|e| Error::io(dir, "unlock", 0, e))?;
        }
        let owner = match are_readers {
            true => readers(&file.lock_holders()),
            false => owner::read(file).map_or("another process".into(), |o| process(o.pid)),
        };
        Err(Error::Locked { dir: dir.into(), owner })
    }

    /// Keeps the lock on drop: the file's guard releases it.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for FileLock<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            // If this fails, the lock ends with the file.
            let _ = self.file.unlock();
        }
    }
}

/// A process, in words.
fn process(pid: u64) -> String {
    match pid == u64::from(std::process::id()) {
        true => format!("this process ({pid})"),
        false => format!("process {pid}"),
    }
}

/// The processes that have a store open for reading, in words.
fn readers(pids: &[u32]) -> String {
    let named: Vec<String> = pids.iter().take(3).map(|pid| process((*pid).into())).collect();
    let more = pids.len().saturating_sub(named.len());
    match (named.len(), more) {
        (0, _) => "another process, which has it open read-only".into(),
        (1, 0) => format!("{}, which has it open read-only", named[0]),
        (_, 0) => format!("{}, which have it open read-only", named.join(" and ")),
        _ => format!("{} and {more} more, which have it open read-only", named.join(", ")),
    }
}

/// Opens the store in `dir`.
pub fn open(env: &Env, dir: &Path, options: StoreOptions) -> Result<Opened> {
    match probe(env, dir)? {
        Found::Store => {}
        Found::Nothing => return Err(Error::not_a_store(dir, "does not exist")),
        Found::Directory | Found::Unfinished(_) => {
            return Err(Error::not_a_store(dir, "holds no store"));
        }
        Found::LogOnly => return Err(no_store_file(dir)),
    }
    let path = dir.join(STORE_FILE);
    let file = open_file(env, &path, &options)?;
    let kind = if options.read_only { LockKind::Shared } else { LockKind::Exclusive };
    let lock = FileLock::take(&file, dir, kind)?;
    let guard = Guard::new(file.clone(), options.read_only)
        .map_err(|e| Error::io(&path, "measure", 0, e))?;
    lock.keep();
    open_locked(env, dir, &guard, options)
}

fn open_file(env: &Env, path: &Path, options: &StoreOptions) -> Result<Arc<dyn File>> {
    let mode = OpenMode { write: !options.read_only, create_new: false, direct: true };
    env.vfs.open(path, mode).map_err(|e| Error::io(path, "open", 0, e))
}

/// Opens the store whose file is open and locked.
fn open_locked(env: &Env, dir: &Path, guard: &Arc<Guard>, options: StoreOptions) -> Result<Opened> {
    let path = dir.join(STORE_FILE);
    let mut warnings = Vec::new();
    let slots = Slots::read(guard, &path, &mut warnings)?;
    let id = slots.good.first().map(|superblock| superblock.store).unwrap_or_default();
    let data = StoreFile::new(guard.clone(), &path, id);

    let mut first_error = None;
    for (index, superblock) in slots.good.iter().enumerate() {
        let older = slots.good.get(index + 1);
        match Store::load(env, dir, guard, &data, (superblock, older), &options) {
            Ok((mut store, roots)) => {
                let next_sequence = slots.next_sequence(superblock);
                store.adopt_slots(*superblock, older.copied(), next_sequence, slots.file_bytes());
                if !options.read_only {
                    store.begin_writing(env, slots.passed_over(index), slots.issued())?;
                }
                let superblock = store.newest();
                return Ok(Opened { store, superblock, roots, warnings });
            }
            Err(error) if may_fall_back(&error) => {
                warnings.push(format!(
                    "FRD-2105 {}: the version of superblock slot {} cannot be used ({error}); \
                     falling back to the other slot and its log",
                    path.display(),
                    slot_of(superblock.sequence),
                ));
                first_error.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let why = "no slot could be read".to_owned();
    Err(first_error.unwrap_or(Error::NoSuperblock { file: path, why }))
}

/// Whether to fall back to the older slot: damage to the newest version's roots costs nothing while
/// that slot is whole (P10).
fn may_fall_back(error: &Error) -> bool {
    matches!(
        error,
        Error::Checksum { .. }
            | Error::Malformed { .. }
            | Error::WrongPage { .. }
            | Error::Io { action: "read", .. }
    )
}

/// The usable slots, newest first.
struct Slots {
    good: Vec<Superblock>,
}

impl Slots {
    fn read(file: &Guard, path: &Path, warnings: &mut Vec<String>) -> Result<Self> {
        let reads = [0, 1].map(|index| read_slot(file, index));
        let [first, second] = &reads;
        for read in &reads {
            if let SlotRead::TooNew(what) = read {
                return Err(Error::TooNew { file: path.into(), what: what.clone() });
            }
        }
        if let (SlotRead::Good(a), SlotRead::Good(b)) = (first, second)
            && a.store != b.store
        {
            return Err(Error::ForeignFile {
                file: path.into(),
                found: b.store.to_string(),
                expected: a.store.to_string(),
            });
        }
        let (mut good, mut whys, mut ours) = (Vec::new(), Vec::new(), false);
        for (index, read) in reads.into_iter().enumerate() {
            match read {
                SlotRead::Good(superblock) => good.push(*superblock),
                SlotRead::Bad { why, ours: magic } => {
                    whys.push(format!("slot {index}: {why}"));
                    ours |= magic;
                }
                SlotRead::TooNew(_) => {}
            }
        }
        good.sort_by_key(|superblock| std::cmp::Reverse(superblock.sequence));
        if plant!("store: slot of higher sequence ignored") {
            good.reverse();
        }
        if good.is_empty() {
            return Err(no_slot(file, path, ours, whys.join("; ")));
        }
        if !whys.is_empty() {
            let whys = whys.join("; ");
            warnings.push(format!(
                "FRD-2105 {}: superblock {whys}; using the other slot and its log",
                path.display()
            ));
        }
        Ok(Self { good })
    }

    /// The sequence of the next slot to write: it goes to the slot that was not chosen, and is
    /// higher than both.
    fn next_sequence(&self, chosen: &Superblock) -> u64 {
        let highest = self.good.iter().map(|superblock| superblock.sequence).max();
        let next = highest.unwrap_or(0) + 1;
        if slot_of(next) == slot_of(chosen.sequence) { next + 1 } else { next }
    }

    fn file_bytes(&self) -> u64 {
        let lengths = self.good.iter().map(|superblock| superblock.totals.file_bytes);
        lengths.max().unwrap_or_default()
    }

    /// True if choosing this usable slot passes over the other slot, because that one, or something
    /// that it links, cannot be read.
    fn passed_over(&self, chosen: usize) -> bool {
        chosen > 0 || self.good.len() < SLOT_OFFSETS.len()
    }

    /// The versions that have been issued, as far as the slots show.
    fn issued(&self) -> Issued {
        let limits = self.good.iter().map(|superblock| superblock.publish_limit);
        let sequences = self.good.iter().map(|superblock| superblock.sequence);
        Issued {
            publish_limit: limits.max().unwrap_or_default(),
            sequence: sequences.max().unwrap_or_default(),
            is_all: self.good.len() == SLOT_OFFSETS.len(),
        }
    }
}

/// The error for a file without a usable slot.
pub(super) fn no_slot(file: &Guard, path: &Path, ours: bool, why: String) -> Error {
    let found = file.len().unwrap_or(0);
    if ours && found < DATA_START {
        return Error::Truncated { file: path.into(), found, expected: DATA_START };
    }
    if ours || owner::read(file).is_some() || is_zero(file) {
        return Error::NoSuperblock { file: path.into(), why };
    }
    Error::not_a_store(path, "is not a store file of Frond")
}

/// True if the file starts with zeros, or is empty.
fn is_zero(file: &Guard) -> bool {
    match AlignedBuf::try_zeroed(SLOT_BYTES, "a superblock") {
        Ok(mut bytes) => match file.read_at(&mut bytes, 0) {
            Ok(()) => bytes.iter().all(|&byte| byte == 0),
            Err(_) => file.len().is_ok_and(|len| len == 0),
        },
        Err(_) => false,
    }
}

/// Reads a slot. One that cannot be read is a bad slot: the other one may be good (P10).
pub(super) fn read_slot(file: &dyn File, index: usize) -> SlotRead {
    let bad = |why: String| SlotRead::Bad { why, ours: false };
    let Some(&offset) = SLOT_OFFSETS.get(index) else { return bad("no such slot".into()) };
    let mut slot = match AlignedBuf::try_zeroed(SLOT_BYTES, "a superblock") {
        Ok(slot) => slot,
        Err(error) => return bad(error.to_string()),
    };
    match file.read_at(&mut slot, offset) {
        Ok(()) => Superblock::decode(index, &slot),
        Err(error) => bad(format!("cannot be read: {error}")),
    }
}

impl Store {
    /// Checks everything that the slot links, without writing.
    fn load(
        env: &Env,
        dir: &Path,
        guard: &Arc<Guard>,
        data: &Arc<StoreFile>,
        (superblock, older): (&Superblock, Option<&Superblock>),
        options: &StoreOptions,
    ) -> Result<(Self, RootDirectory)> {
        let (found, expected) = (guard.len().unwrap_or(0), superblock.totals.file_bytes);
        if found < expected {
            return Err(Error::Truncated { file: data.path.clone(), found, expected });
        }
        if let Some(unknown) = superblock.unknown_for_writing().filter(|_| !options.read_only) {
            let what = format!("features {unknown:#x} for writing; it can be opened read-only");
            return Err(Error::TooNew { file: data.path.clone(), what });
        }
        let read = |link: &_, kind, what| Store::read_page_of(data, link, kind, what);
        let mut space = space_map::load(data, superblock, older, options.allocate_from, |link| {
            read(link, PageKind::Map, "a page of the space map")
        })?;
        let (roots, directory) = directory::load(superblock, &mut |link| {
            let page = read(link, PageKind::Directory, page_table::WHAT)?;
            Ok(Some((&**data, page)))
        })?;
        let known = roots.trees.values().map(|root| root.lineage).collect();
        space.end_unknown(&known);
        let store = Store::new(env, dir, guard.clone(), data.clone(), (space, directory));
        Ok((store, roots))
    }
}
