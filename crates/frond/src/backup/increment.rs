//! An increment: one file with the pages of a version that were born after the version from which
//! it starts.
//!
//! ```text
//! header | slot | record … | trailer        record = head | extent
//! ```
//!
//! Invariants
//! 1. Each head carries a checksum that starts with the one before it, and so does the trailer: a
//!    file in which a record is missing, repeated or out of order is refused. Extents are verified
//!    against their links by the code that reads them.
//! 2. The file appears under its name once it is whole and durable.
//! 3. Arbitrary bytes yield an increment or an error. Memory: one small record per extent (P20).
//!
//! Threads: one owner for writing; reading is shared. Bytes: docs/format.md, "Increment".

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    coding::Reader,
    error::{Error, Place, Result},
    io::{ALIGN, Env, OpenMode},
    page::{LINK_BYTES, Link, PageKind, StoreFile},
    store::{self, SUPERBLOCK_BYTES, Superblock},
    sync::Arc,
    types::{StoreId, VersionNumber},
};

use super::{
    BackupId,
    target::{parent, refuse_existing, with_suffix},
};

const MAGIC: [u8; 8] = *b"FrondInc";
const FORMAT: u32 = 1;
/// Length of header, heads and trailer.
const HEAD_BYTES: usize = 64;
/// Number of bytes of a head that the checksum at its end covers.
const CHECKED_BYTES: usize = HEAD_BYTES - 8;
const RECORD: [u8; 4] = *b"FrRc";
const TRAILER: [u8; 4] = *b"FrEn";
/// Seed of the checksums; not 0, so that zeros do not verify.
const SEED: u64 = 0x696e_6372_656d;

type Head = [u8; HEAD_BYTES];

/// Writes the checksum at the end of a head; returns it, for the next one.
fn seal(head: &mut Head, before: u64) -> u64 {
    let hash = xxh3_64_with_seed(&head[..CHECKED_BYTES], before);
    head[CHECKED_BYTES..].copy_from_slice(&hash.to_le_bytes());
    hash
}

fn header(base: &BackupId) -> Head {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    head[16..32].copy_from_slice(&base.store.0);
    head[32..40].copy_from_slice(&base.version.0.to_le_bytes());
    head[40..48].copy_from_slice(&base.roots.to_le_bytes());
    head
}

/// The start of the chain of checksums: the hash of the slot.
fn chain_begin(slot: &[u8]) -> u64 {
    xxh3_64_with_seed(slot, SEED)
}

/// Writes an increment.
pub(super) struct IncrementWriter<'a> {
    env: &'a Env,
    path: PathBuf,
    /// The file, under its temporary name.
    file: Arc<StoreFile>,
    at: u64,
    chain: u64,
    records: u64,
}

impl<'a> IncrementWriter<'a> {
    /// Makes the file of the increment from `base` to the version of `superblock`; `fill` puts its
    /// pages.
    pub fn make<T>(
        env: &'a Env,
        path: &Path,
        base: &BackupId,
        superblock: &Superblock,
        fill: impl FnOnce(&mut IncrementWriter<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut writer = Self::begin(env, path, superblock)?;
        let made = writer.write_start(base, superblock).and_then(|()| {
            let filled = fill(&mut writer)?;
            writer.finish()?;
            Ok(filled)
        });
        made.inspect_err(|_| {
            // The caller gets the earlier error; the next attempt removes what is left.
            match env.vfs.remove(writer.file.path()) {
                Ok(()) | Err(_) => {}
            }
        })
    }

    fn begin(env: &'a Env, path: &Path, superblock: &Superblock) -> Result<Self> {
        refuse_existing(env, path)?;
        let unfinished = with_suffix(path, ".new");
        let failed = |action| {
            let unfinished = unfinished.clone();
            move |error| Error::io(unfinished, action, 0, error)
        };
        let Some(file) = store::lock_unfinished(env, &unfinished, false)? else {
            let owner = "another backup to the same target".into();
            return Err(Error::Locked { dir: unfinished, owner });
        };
        file.set_len(0).map_err(failed("resize"))?;
        let file = StoreFile::new(file, &unfinished, superblock.store);
        Ok(Self { env, path: path.to_owned(), file, at: 0, chain: 0, records: 0 })
    }

    fn write_start(&mut self, base: &BackupId, superblock: &Superblock) -> Result<()> {
        let slot = superblock.to_slot()?;
        let mut head = header(base);
        self.chain = seal(&mut head, chain_begin(&slot));
        self.write(&head)?;
        self.write(&slot)
    }

    /// Appends a page: its extent from byte 0 on, in one piece or several.
    pub fn put(&mut self, kind: PageKind, link: &Link, at: u64, bytes: &[u8]) -> Result<()> {
        if at > 0 {
            return self.write(bytes);
        }
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&RECORD);
        head[4] = kind as u8;
        head[8..8 + LINK_BYTES].copy_from_slice(&link.to_disk());
        self.chain = seal(&mut head, self.chain);
        self.records += 1;
        self.write(&head)?;
        self.write(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&TRAILER);
        head[8..16].copy_from_slice(&self.records.to_le_bytes());
        head[16..24].copy_from_slice(&(self.at + HEAD_BYTES as u64).to_le_bytes());
        seal(&mut head, self.chain);
        self.write(&head)?;
        let Self { env, path, file, .. } = &*self;
        let failed = |action| move |error| Error::io(path, action, 0, error);
        file.file.sync_all().map_err(failed("sync"))?;
        refuse_existing(env, path)?;
        env.vfs.rename(file.path(), path).map_err(failed("rename"))?;
        let dir = parent(path);
        env.vfs.sync_dir(dir).map_err(|error| Error::io(dir, "sync", 0, error))?;
        // Only now: a process that waits for the temporary name must not get this file.
        file.file.unlock().map_err(failed("unlock"))
    }
}

/// An opened increment.
pub(super) struct Increment {
    pub file: Arc<StoreFile>,
    /// The backup that this increment continues.
    pub base: BackupId,
    /// The slot of the version to which it leads.
    pub superblock: Superblock,
    /// Pages by their offset in the store: link, and offset in the file.
    records: BTreeMap<u64, (Link, u64)>,
}

impl Increment {
    /// Opens an increment, and reads everything except its pages.
    pub fn open(env: &Env, path: &Path) -> Result<Self> {
        let file = env.vfs.open(path, OpenMode::default());
        let file = file.map_err(|error| Error::io(path, "open", 0, error))?;
        let len = file.len().map_err(|error| Error::io(path, "measure", 0, error))?;
        let mut scan = Scan { file: StoreFile::new(file, path, StoreId::default()), len, chain: 0 };
        let (base, superblock) = scan.start()?;
        let mut records = BTreeMap::new();
        let mut at = (HEAD_BYTES + SUPERBLOCK_BYTES) as u64;
        while let Some(link) = scan.record(at, records.len() as u64)? {
            let body = at + HEAD_BYTES as u64;
            at = body + u64::from(link.bytes);
            if records.insert(link.offset, (link, body)).is_some() {
                return Err(scan.malformed(body, "it has two pages for one place"));
            }
        }
        let file = StoreFile::new(scan.file.file.clone(), path, base.store);
        Ok(Self { file, base, superblock, records })
    }

    /// The id of the backup after this increment is restored.
    pub fn id(&self) -> BackupId {
        BackupId::of_slot(&self.superblock)
    }

    /// The offset of the page with this link in the file, if it is there.
    pub fn find(&self, link: &Link) -> Option<u64> {
        let (found, at) = self.records.get(&link.offset)?;
        (found == link).then_some(*at)
    }
}

/// A reader of the heads of an increment.
struct Scan {
    file: Arc<StoreFile>,
    len: u64,
    chain: u64,
}

impl Scan {
    fn start(&mut self) -> Result<(BackupId, Superblock)> {
        let path = self.file.path();
        let not_one = |why| Error::not_a_store(path, why);
        let begin = MAGIC.len() as u64;
        let mut magic = [0; MAGIC.len()];
        if self.len >= begin {
            self.file.read_at(&mut magic, 0)?;
        }
        if magic != MAGIC {
            return Err(not_one("is neither the directory of a backup nor an increment"));
        }
        let mut slot = vec![0; SUPERBLOCK_BYTES];
        let mut head = [0; HEAD_BYTES];
        self.read(&mut head, 0)?;
        self.read(&mut slot, HEAD_BYTES as u64)?;
        let mut reader = Reader::new(head.get(8..).unwrap_or_default());
        let format = reader.u32().unwrap_or_default();
        // Newer heads may have another form of checksum.
        if format > FORMAT {
            return Err(Error::TooNew {
                file: self.file.path().into(),
                what: format!("format {format} of increments"),
            });
        }
        self.verify(&head, 0, chain_begin(&slot))?;
        let superblock = Superblock::from_slot(&slot);
        let superblock = superblock.map_err(|why| self.malformed(HEAD_BYTES as u64, &why))?;
        let base = read_base(&head)
            .filter(|base| base.store == superblock.store && base.version < superblock.publish);
        let base = base.ok_or_else(|| self.malformed(0, "it leads from no version to its own"))?;
        if !superblock.is_alone() {
            return Err(self.malformed(HEAD_BYTES as u64, "its slot is not that of a backup"));
        }
        Ok((base, superblock))
    }

    /// The link of the record at `at`; `None` at the trailer. `before` is the number of records
    /// read so far.
    fn record(&mut self, at: u64, before: u64) -> Result<Option<Link>> {
        let mut head = [0; HEAD_BYTES];
        self.read(&mut head, at)?;
        self.verify(&head, at, self.chain)?;
        let mut reader = Reader::new(&head);
        let kind: [u8; 4] = reader.array().unwrap_or_default();
        let [_, _, _, _] = reader.array().unwrap_or_default();
        let end = at + HEAD_BYTES as u64;
        if kind == TRAILER {
            let whole = reader.u64() == Some(before) && reader.u64() == Some(end);
            return match whole && end == self.len {
                true => Ok(None),
                false => Err(self.malformed(at, "it has not what its end says")),
            };
        }
        let link = reader.array::<LINK_BYTES>().map(|link| Link::from_disk(&link));
        let aligned = link.filter(|link| {
            kind == RECORD && link.bytes > 0 && (link.bytes as usize).is_multiple_of(ALIGN)
        });
        let link = aligned.ok_or_else(|| self.malformed(at, "a record that cannot be"))?;
        self.expect(end.saturating_add(link.bytes.into()))?;
        Ok(Some(link))
    }

    fn read(&self, bytes: &mut [u8], at: u64) -> Result<()> {
        self.expect(at.saturating_add(bytes.len() as u64))?;
        self.file.read_at(bytes, at)
    }

    fn expect(&self, expected: u64) -> Result<()> {
        let (file, found) = (self.file.path().into(), self.len);
        if found < expected { Err(Error::Truncated { file, found, expected }) } else { Ok(()) }
    }

    fn verify(&mut self, head: &Head, at: u64, before: u64) -> Result<()> {
        let mut own = *head;
        let computed = seal(&mut own, before);
        self.chain = computed;
        if own == *head {
            return Ok(());
        }
        let stored = head.last_chunk().map_or(0, |hash| u64::from_le_bytes(*hash));
        let place = self.place(at);
        Err(Error::Checksum { place, what: "an increment", stored, computed })
    }

    fn place(&self, at: u64) -> Place {
        self.file.place(at, HEAD_BYTES as u64)
    }

    fn malformed(&self, at: u64, why: &str) -> Error {
        Error::Malformed { place: self.place(at), what: "an increment", why: why.into() }
    }
}

fn read_base(head: &Head) -> Option<BackupId> {
    let mut reader = Reader::new(head.get(16..)?);
    let store = StoreId(reader.array()?);
    Some(BackupId { store, version: VersionNumber(reader.u64()?), roots: reader.u64()? })
}
