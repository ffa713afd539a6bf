//! A whole disk as a value: what is durable, what is pending, and what the running system sees.
//!
//! Invariants
//! 1. `seen` = `durable` with all pending changes applied in order, unless a failed sync dropped
//!    some of them (then the page cache has more than the medium ever will).
//! 2. Changes are journalled in one order over all files and directories, so that "every prefix" is
//!    what a device without any reordering could leave.
//! 3. A sync of a file makes that file's changes durable and nothing else: not its name (that is
//!    the directory's sync), not other files.
//! 4. Cloning is cheap: images and maps are shared until written.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    io,
    path::{Component, Path},
    sync::Arc,
};

use super::image::Image;

/// Number of a file or directory.
pub type Inode = u64;

/// The root directory, always durable.
pub const ROOT: Inode = 0;

type Names = BTreeMap<OsString, Inode>;

/// A file: its durable content, the content that the system sees, and the durable content one sync
/// earlier.
#[derive(Clone, Debug, Default)]
pub struct FileState {
    /// What the medium holds.
    pub durable: Arc<Image>,
    /// What reads return.
    pub seen: Arc<Image>,
    /// The medium before its last sync: what a stale read returns.
    pub older: Arc<Image>,
    /// Whether a failed sync left bytes in the page cache that the medium will never get.
    pub cache_lies: bool,
}

/// A directory.
#[derive(Clone, Debug, Default)]
pub struct DirState {
    durable: Arc<Names>,
    seen: Arc<Names>,
}

/// One change that is not durable yet.
#[derive(Debug)]
pub enum Change {
    /// Bytes at an offset.
    Write {
        /// The file.
        file: Inode,
        /// The offset.
        offset: u64,
        /// The bytes.
        data: Vec<u8>,
    },
    /// A new length.
    SetLen {
        /// The file.
        file: Inode,
        /// The length.
        len: u64,
    },
    /// Space that is allocated.
    Allocate {
        /// The file.
        file: Inode,
        /// The offset.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// Space that is freed.
    Punch {
        /// The file.
        file: Inode,
        /// The offset.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// A name appears, disappears, or moves within one directory.
    Names {
        /// The directory.
        dir: Inode,
        /// A name that is removed.
        remove: Option<OsString>,
        /// A name that is added (replacing an existing one).
        insert: Option<(OsString, Inode)>,
    },
}

impl Change {
    /// The file or directory that must be synced to make this durable.
    pub fn owner(&self) -> Inode {
        match *self {
            Change::Write { file, .. }
            | Change::SetLen { file, .. }
            | Change::Allocate { file, .. }
            | Change::Punch { file, .. } => file,
            Change::Names { dir, .. } => dir,
        }
    }
}

/// The disk.
#[derive(Clone, Debug)]
pub struct DiskState {
    files: BTreeMap<Inode, FileState>,
    dirs: BTreeMap<Inode, DirState>,
    pending: Vec<Arc<Change>>,
    next_inode: Inode,
}

impl Default for DiskState {
    fn default() -> Self {
        let dirs = BTreeMap::from([(ROOT, DirState::default())]);
        Self { files: BTreeMap::new(), dirs, pending: Vec::new(), next_inode: ROOT + 1 }
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl DiskState {
    /// Changes that are not durable yet, oldest first.
    pub fn pending(&self) -> &[Arc<Change>] {
        &self.pending
    }

    /// The file with this number.
    pub fn file(&self, inode: Inode) -> Option<&FileState> {
        self.files.get(&inode)
    }

    /// All files, including those removed from their directories.
    pub fn all_files(&self) -> impl Iterator<Item = &FileState> {
        self.files.values()
    }

    /// True if the number belongs to a directory.
    pub fn is_dir(&self, inode: Inode) -> bool {
        self.dirs.contains_key(&inode)
    }

    /// Finds a path as the system sees it.
    pub fn find(&self, path: &Path) -> Option<Inode> {
        let mut at = ROOT;
        for part in path.components() {
            if let Component::Normal(name) = part {
                at = *self.dirs.get(&at)?.seen.get(name)?;
            }
        }
        Some(at)
    }

    /// The directory that holds a path, and the name in it.
    pub fn parent(&self, path: &Path) -> io::Result<(Inode, OsString)> {
        let name = path.file_name().ok_or_else(not_found)?.to_owned();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let dir = self.find(parent).filter(|&inode| self.is_dir(inode)).ok_or_else(not_found)?;
        Ok((dir, name))
    }

    /// Names in a directory as the system sees it.
    pub fn names(&self, dir: Inode) -> Vec<OsString> {
        self.dirs.get(&dir).map(|dir| dir.seen.keys().cloned().collect()).unwrap_or_default()
    }

    /// All files that can be reached, with their paths.
    pub fn paths(&self) -> Vec<(std::path::PathBuf, Inode)> {
        let mut found = Vec::new();
        let mut todo = vec![(std::path::PathBuf::from("/"), ROOT)];
        while let Some((path, inode)) = todo.pop() {
            match self.dirs.get(&inode) {
                Some(dir) => {
                    todo.extend(dir.seen.iter().map(|(name, &inode)| (path.join(name), inode)));
                }
                None => found.push((path, inode)),
            }
        }
        found.sort();
        found
    }

    /// Space that all files take, as the system sees it. Removed files count until they are closed;
    /// the simulation assumes that this happens at once.
    pub fn allocated_bytes(&self) -> u64 {
        self.paths().iter().filter_map(|(_, inode)| self.file(*inode)).map(seen_bytes).sum()
    }

    /// A new empty file or directory, not yet named.
    pub fn create(&mut self, is_dir: bool) -> Inode {
        let inode = self.next_inode;
        self.next_inode += 1;
        if is_dir {
            self.dirs.insert(inode, DirState::default());
        } else {
            self.files.insert(inode, FileState::default());
        }
        inode
    }

    /// Makes a change that the system sees at once and the medium after a sync.
    pub fn change(&mut self, change: Change) {
        self.apply_seen(&change);
        self.pending.push(Arc::new(change));
    }

    /// Changes only what the system sees: a write that the device acknowledged and lost, but that
    /// is still in the page cache.
    pub fn apply_seen(&mut self, change: &Change) {
        match change {
            Change::Names { dir, .. } => {
                if let Some(dir) = self.dirs.get_mut(dir) {
                    change.apply_names(Arc::make_mut(&mut dir.seen));
                }
            }
            _ => {
                if let Some(file) = self.files.get_mut(&change.owner()) {
                    change.apply_bytes(Arc::make_mut(&mut file.seen));
                }
            }
        }
    }

    /// Everything pending for this file or directory becomes durable.
    pub fn sync(&mut self, owner: Inode) {
        let changes = self.take_pending(owner);
        if changes.is_empty() {
            return;
        }
        if let Some(dir) = self.dirs.get_mut(&owner) {
            let names = Arc::make_mut(&mut dir.durable);
            changes.iter().for_each(|change| change.apply_names(names));
        } else if let Some(file) = self.files.get_mut(&owner) {
            file.older = file.durable.clone();
            let image = Arc::make_mut(&mut file.durable);
            changes.iter().for_each(|change| change.apply_bytes(image));
            // Share one copy with the page cache again, when they agree.
            if file.durable.digest() == file.seen.digest() {
                file.durable = file.seen.clone();
            }
        }
    }

    /// Drops what is pending after a failed sync: it will never be durable. With `revert` the page
    /// cache forgets it, too; otherwise reads still return it.
    pub fn drop_pending(&mut self, owner: Inode, revert: bool) {
        let dropped = self.take_pending(owner);
        if !revert {
            if let Some(file) = self.files.get_mut(&owner) {
                file.cache_lies |= !dropped.is_empty();
            }
            return;
        }
        if let Some(dir) = self.dirs.get_mut(&owner) {
            dir.seen = dir.durable.clone();
        } else if let Some(file) = self.files.get_mut(&owner) {
            file.seen = file.durable.clone();
        }
    }

    /// What a direct read finds: it flushes what is dirty and bypasses the page cache.
    pub fn direct_view(&self, inode: Inode) -> Option<Arc<Image>> {
        let file = self.files.get(&inode)?;
        if !file.cache_lies {
            return Some(file.seen.clone());
        }
        let mut image = (*file.durable).clone();
        let dirty = self.pending.iter().filter(|change| change.owner() == inode);
        dirty.for_each(|change| change.apply_bytes(&mut image));
        Some(Arc::new(image))
    }

    fn take_pending(&mut self, owner: Inode) -> Vec<Arc<Change>> {
        let (taken, kept) = self.pending.drain(..).partition(|change| change.owner() == owner);
        self.pending = kept;
        taken
    }

    /// The disk after the process was killed: the page cache survives.
    pub fn after_kill(&self) -> DiskState {
        self.clone()
    }

    /// The disk after a power failure that left exactly these pending changes: `apply` applies them
    /// to the medium, in order, and nothing is pending or cached any more.
    pub fn after_power_loss(
        &self,
        mut apply: impl FnMut(usize, &Change, &mut Surviving<'_>),
    ) -> DiskState {
        let mut state = self.clone();
        let pending = std::mem::take(&mut state.pending);
        for (index, change) in pending.iter().enumerate() {
            let mut surviving = Surviving { state: &mut state };
            apply(index, change, &mut surviving);
        }
        state.forget_caches();
        state
    }

    fn forget_caches(&mut self) {
        for dir in self.dirs.values_mut() {
            dir.seen = dir.durable.clone();
        }
        for file in self.files.values_mut() {
            file.seen = file.durable.clone();
            file.cache_lies = false;
        }
        let mut reachable = BTreeSet::from([ROOT]);
        let mut todo = vec![ROOT];
        while let Some(inode) = todo.pop() {
            let Some(dir) = self.dirs.get(&inode) else { continue };
            for &child in dir.seen.values() {
                if reachable.insert(child) {
                    todo.push(child);
                }
            }
        }
        self.files.retain(|inode, _| reachable.contains(inode));
        self.dirs.retain(|inode, _| reachable.contains(inode));
    }

    /// The digest; disks that look equal to a freshly started system have equal digests.
    pub fn digest(&self) -> u64 {
        let mut digest = 0u64;
        for (path, inode) in self.paths() {
            let content = self.file(inode).map_or(0, |file| file.seen.digest());
            let name = xxhash_rust::xxh3::xxh3_64(path.as_os_str().as_encoded_bytes());
            digest = (digest ^ name).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ content;
            digest = digest.rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93);
        }
        digest ^ self.dirs.len() as u64
    }

    /// Replaces the content of a file by damaged content, on the medium and in the cache.
    pub fn replace_content(&mut self, inode: Inode, image: Image) {
        if let Some(file) = self.files.get_mut(&inode) {
            file.durable = Arc::new(image);
            file.seen = file.durable.clone();
        }
    }
}

fn seen_bytes(file: &FileState) -> u64 {
    file.seen.allocated_bytes()
}

/// The medium while a power failure decides what survives.
pub struct Surviving<'a> {
    state: &'a mut DiskState,
}

impl Surviving<'_> {
    /// The whole change survives.
    pub fn whole(&mut self, change: &Change) {
        match change {
            Change::Names { dir, .. } => {
                if let Some(dir) = self.state.dirs.get_mut(dir) {
                    change.apply_names(Arc::make_mut(&mut dir.durable));
                }
            }
            _ => {
                if let Some(image) = self.image(change.owner()) {
                    change.apply_bytes(image);
                }
            }
        }
    }

    /// The durable content of a file, to be changed in part.
    pub fn image(&mut self, file: Inode) -> Option<&mut Image> {
        self.state.files.get_mut(&file).map(|file| Arc::make_mut(&mut file.durable))
    }
}

impl Change {
    fn apply_bytes(&self, image: &mut Image) {
        match self {
            Change::Write { offset, data, .. } => image.write(*offset, data),
            Change::SetLen { len, .. } => image.set_len(*len),
            Change::Allocate { offset, bytes, .. } => image.allocate(*offset, *bytes),
            Change::Punch { offset, bytes, .. } => image.punch(*offset, *bytes),
            Change::Names { .. } => {}
        }
    }

    fn apply_names(&self, names: &mut Names) {
        if let Change::Names { remove, insert, .. } = self {
            if let Some(name) = remove {
                names.remove(name);
            }
            if let Some((name, inode)) = insert {
                names.insert(name.clone(), *inode);
            }
        }
    }
}
