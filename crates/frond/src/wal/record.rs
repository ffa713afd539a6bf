//! Records: the log's description of one commit.
//!
//! A commit's *body* is built before its seqno is known, outside of every lock; the seqno follows
//! in a *trailer*, which is written once the sequencer has assigned the seqno. Entries come tree by
//! tree, ascending by key, so only the part of a key that differs from its predecessor in the tree
//! is stored. Keys of secondary indexes end in the row's key: of such an ending, only the part that
//! differs from the record's first key is stored, so that a row with three indexes stores its own
//! key once.
//!
//! Invariants
//! 1. Decoding returns exactly what was built, in the same order.
//! 2. Any bytes whatsoever decode to a typed error or to items with legal keys and tags, in time
//!    O(length), and allocate no more than one key (Promise: P20).
//!
//! Threads: builders have one owner, a pool is shared; decoding is pure. Bytes:
//! docs/format.md, "Log records".

use std::{collections::BTreeSet, path::PathBuf};

use crate::{
    coding::{Reader, put_bytes, put_varint},
    error::{Error, Place, Result},
    message::{Kind, Tag},
    page::{LINK_BYTES, Link, PageKind},
    sync::Mutex,
    types::{COUNTERS, KEY_BYTES_MAX, Lsn, Seqno, TreeId, XID_BYTES_MAX},
};

/// Bytes that [`trailer`] adds to a commit's body.
pub const TRAILER_BYTES: usize = 9;

const COMMIT: u8 = 1;
const CHECKPOINT: u8 = 2;
const KEEPS: u8 = 3;

// Control bytes. A value up to 4 in the low four bits is a tag's kind, bit 4 its fresh bit; higher
// bits say which parts follow.
const SHARES_PREFIX: u8 = 0x20;
const SHARES_BASE: u8 = 0x40;
const EMPTY_PAYLOAD: u8 = 0x80;
const TAG_MASK: u8 = 0x1f;
const TREE: u8 = 0x0f;
const DELETE_RANGE: u8 = 0x0e;
const EXTENT: u8 = 0x0d;
const PAGE: u8 = 0x0c;
const ROOT: u8 = 0x0b;
const PREPARED: u8 = 0x0a;
const RUNS: u8 = 0x09;
const ROWS: u8 = 0x08;
const COUNTER: u8 = 0x07;

/// Shortest stretch shared with the base key that is worth its length byte.
const BASE_SHARED_MIN: usize = 3;

/// An extent of the store that so far only the log refers to (Rule: I11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogExtent {
    /// Byte offset in the store.
    pub offset: u64,
    /// Length, bytes.
    pub bytes: u64,
}

/// The trailer of a commit's body: its seqno and the record kind.
pub fn trailer(seqno: Seqno) -> [u8; TRAILER_BYTES] {
    with_kind(seqno.0, COMMIT)
}

/// A checkpoint record: the slot with this sequence number is durable.
pub fn checkpoint_record(sequence: u64) -> [u8; TRAILER_BYTES] {
    with_kind(sequence, CHECKPOINT)
}

/// The trailer of a record that does nothing but name extents that are still needed.
pub fn keeps_trailer() -> [u8; TRAILER_BYTES] {
    with_kind(0, KEEPS)
}

fn with_kind(number: u64, kind: u8) -> [u8; TRAILER_BYTES] {
    let mut out = [kind; TRAILER_BYTES];
    out[..8].copy_from_slice(&number.to_le_bytes());
    out
}

/// Builds the bodies of commit records; reused from commit to commit.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    bytes: Vec<u8>,
    /// The record's first key.
    base: Vec<u8>,
    has_base: bool,
    /// The last key of the current tree.
    last: Vec<u8>,
}

impl RecordBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Capacity of its memory, bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.base.capacity() + self.last.capacity()
    }

    /// Clears the builder but keeps its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.has_base = false;
        self.base.clear();
        self.last.clear();
    }

    /// Starts the items of this tree.
    pub fn tree(&mut self, tree: TreeId) {
        self.bytes.push(TREE);
        put_varint(&mut self.bytes, tree.0.into());
        self.last.clear();
    }

    /// Records the change of the tree's number of rows. Must precede the tree's other items.
    pub fn rows(&mut self, more: i64) {
        self.bytes.push(ROWS);
        put_varint(&mut self.bytes, (more << 1 ^ more >> 63) as u64);
    }

    /// Records the next value of a counter of a tree.
    pub fn counter(&mut self, tree: TreeId, counter: u8, next: u64) {
        self.bytes.push(COUNTER);
        put_varint(&mut self.bytes, tree.0.into());
        self.bytes.push(counter);
        put_varint(&mut self.bytes, next);
    }

    /// Adds an entry. Keys must ascend within a tree.
    pub fn entry(&mut self, key: &[u8], tag: Tag, payload: &[u8]) {
        let prefix = common(&self.last, key);
        let rest = &key[prefix..];
        let mut control = tag.to_disk();
        let mut shared = 0;
        if rest.len() >= self.base.len() && !self.base.is_empty() {
            shared = common(&rest[rest.len() - self.base.len()..], &self.base);
        }
        let shared = if shared >= BASE_SHARED_MIN { shared } else { 0 };
        let shares = [(prefix, SHARES_PREFIX), (shared, SHARES_BASE)];
        let empty = payload.is_empty();
        control |= if empty { EMPTY_PAYLOAD } else { 0 };
        // Numbers are gathered on the stack: one capacity check of the vector instead of one per
        // byte.
        let mut head = Head::default();
        for (bytes, flag) in shares {
            if bytes > 0 {
                control |= flag;
                head.number(bytes);
            }
        }
        head.number(rest.len() - shared);
        head.bytes[0] = control;
        let out = &mut self.bytes;
        out.reserve(head.bytes.len() + rest.len() + payload.len() + 10);
        out.extend_from_slice(&head.bytes[..=head.last]);
        if shared > 0 {
            let tail = self.base.len() - shared;
            let middle = rest.len() - self.base.len();
            out.extend_from_slice(&rest[..middle]);
            out.extend_from_slice(&rest[rest.len() - tail..]);
        } else {
            out.extend_from_slice(rest);
        }
        if !empty {
            put_bytes(out, payload);
        }
        if !self.has_base {
            self.has_base = true;
            self.base.extend_from_slice(key);
        }
        self.last.truncate(prefix);
        self.last.extend_from_slice(rest);
    }

    /// Adds a range delete of [from, to).
    pub fn delete_range(&mut self, from: &[u8], to: &[u8]) {
        self.bytes.push(DELETE_RANGE);
        for key in [from, to] {
            put_bytes(&mut self.bytes, key);
        }
    }

    /// Names an extent that this commit adds to the store (Rule: I11).
    pub fn extent(&mut self, extent: LogExtent) {
        self.bytes.push(EXTENT);
        put_varint(&mut self.bytes, extent.offset);
        put_varint(&mut self.bytes, extent.bytes);
    }

    /// Names a page that this commit adds to the store: a run or a node (Rule: I11).
    pub fn page(&mut self, kind: PageKind, extent: LogExtent) {
        self.bytes.extend_from_slice(&[PAGE, kind as u8]);
        put_varint(&mut self.bytes, extent.offset);
        put_varint(&mut self.bytes, extent.bytes);
    }

    /// Records that a tree starts with this root, whose pages this commit adds.
    pub fn root(&mut self, tree: TreeId, root: &[u8]) {
        self.bytes.push(ROOT);
        put_varint(&mut self.bytes, tree.0.into());
        put_bytes(&mut self.bytes, root);
    }

    /// Names runs whose entries this commit adds to a tree (Rule: I11). They precede everything
    /// else; within a tree, the newest comes first.
    pub fn runs(&mut self, tree: TreeId, links: impl ExactSizeIterator<Item = Link>) {
        self.bytes.push(RUNS);
        put_varint(&mut self.bytes, tree.0.into());
        put_varint(&mut self.bytes, (links.len() * LINK_BYTES) as u64);
        links.for_each(|link| self.bytes.extend_from_slice(&link.to_disk()));
    }

    /// Records that the commit applies what the commit `at` prepared under this name.
    pub fn prepared(&mut self, xid: &[u8], at: Seqno) {
        self.bytes.push(PREPARED);
        put_bytes(&mut self.bytes, xid);
        put_varint(&mut self.bytes, at.0);
    }

    /// Length so far, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The finished body. In the log, [`trailer`] must follow it.
    pub fn finish(&mut self) -> &[u8] {
        &self.bytes
    }
}

/// Memory of the largest builder that a thread keeps: enough for the records of most transactions.
const KEPT_BYTES: usize = 16 << 10;
/// Number of long builders that the store keeps: as many as commits build concurrently on a busy
/// machine.
const SPARE_MAX: usize = 4;

thread_local! {
    static KEPT: std::cell::RefCell<RecordBuilder> = std::cell::RefCell::default();
}

/// Builders that are not in use. The naive way is one for each thread, which needs no lock; but a
/// server has hundreds of threads, and each would keep the memory of its longest record for ever.
/// So a thread keeps only a short one; the store keeps a few long ones, which all threads share.
/// Rank: the lock is held only for a push or a pop, and no lock is acquired under it.
#[derive(Debug)]
pub struct RecordPool {
    spare: Mutex<Vec<RecordBuilder>>,
    /// Memory of the largest builder that is kept, bytes.
    spare_bytes: usize,
}

impl RecordPool {
    /// The pool of a store with this memory; it keeps at most a sixty-fourth of it.
    pub fn new(cache_bytes: u64) -> Self {
        Self { spare: Mutex::default(), spare_bytes: cache_bytes as usize / 64 / SPARE_MAX }
    }

    /// A builder for a record of about `bytes` bytes. It may contain an older record; clear it
    /// first.
    pub fn take(&self, bytes: usize) -> RecordBuilder {
        let spare = (bytes > KEPT_BYTES).then(|| self.spare.lock().unwrap().pop()).flatten();
        spare.unwrap_or_else(|| KEPT.take())
    }

    /// Returns a builder for reuse.
    pub fn give(&self, record: RecordBuilder) {
        if record.capacity() <= KEPT_BYTES {
            KEPT.set(record);
        } else if record.capacity() <= self.spare_bytes {
            let mut spare = self.spare.lock().unwrap();
            if spare.len() < SPARE_MAX {
                spare.push(record);
            }
        }
    }
}

/// A control byte and up to three numbers.
#[derive(Default)]
struct Head {
    bytes: [u8; 31],
    last: usize,
}

impl Head {
    #[inline]
    fn number(&mut self, mut number: usize) {
        while number >= 0x80 {
            self.last += 1;
            self.bytes[self.last] = number as u8 | 0x80;
            number >>= 7;
        }
        self.last += 1;
        self.bytes[self.last] = number as u8;
    }
}

/// Length of the common prefix.
#[inline]
fn common(a: &[u8], b: &[u8]) -> usize {
    let words = a.chunks_exact(8).zip(b.chunks_exact(8));
    let mut at = 0;
    for (x, y) in words {
        let differ = word(x) ^ word(y);
        if differ != 0 {
            return at + differ.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// A decoded record.
#[derive(Debug)]
pub enum Record<'a> {
    /// A commit.
    Commit {
        /// The seqno: its place in the order of commits.
        seqno: Seqno,
        /// What it does.
        items: RecordItems<'a>,
    },
    /// The superblock slot with this sequence number is durable.
    Checkpoint {
        /// Sequence number of the slot.
        sequence: u64,
    },
    /// Extents that prepared transactions need whose own records may be gone (Rule: I12).
    Keeps {
        /// The extents, and nothing else.
        items: RecordItems<'a>,
    },
}

/// One thing that a commit does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item<'a> {
    /// An entry.
    Entry {
        /// The tree.
        tree: TreeId,
        /// The key; valid until the next item is read.
        key: &'a [u8],
        /// Kind and fresh bit.
        tag: Tag,
        /// Payload.
        payload: &'a [u8],
    },
    /// The change that the commit makes to the number of rows of a tree, where it is known;
    /// precedes the tree's other items. Only returned on request ([`RecordItems::with_counts`]).
    Rows {
        /// The tree.
        tree: TreeId,
        /// Number of rows added; negative if rows are removed.
        more: i64,
    },
    /// The next value of a counter of a tree. Like `Rows`, only returned on request.
    Counter {
        /// The tree.
        tree: TreeId,
        /// Which of its counters.
        counter: u8,
        /// The next number to hand out, at least.
        next: u64,
    },
    /// A range delete.
    DeleteRange {
        /// The tree.
        tree: TreeId,
        /// First key that is deleted.
        from: &'a [u8],
        /// First key that is kept.
        to: &'a [u8],
    },
    /// An extent that the commit adds to the store: a blob.
    Extent(LogExtent),
    /// A page of a tree that the commit adds to the store.
    Page {
        /// Run or node.
        kind: PageKind,
        /// Where the page is.
        extent: LogExtent,
    },
    /// The root of a new tree, whose pages the commit adds.
    Root {
        /// The tree.
        tree: TreeId,
        /// The root, in the encoding of the root directory.
        root: &'a [u8],
    },
    /// The commit applies what was prepared under a name, in addition to its own entries.
    Prepared {
        /// The name.
        xid: &'a [u8],
        /// The commit that prepared it.
        at: Seqno,
    },
    /// Sorted runs, written beforehand, whose entries the commit adds to a tree. They are older
    /// than the commit's own entries and than the entries of runs of the same tree that come
    /// before.
    Runs {
        /// The tree.
        tree: TreeId,
        /// The runs' links, in key order.
        links: &'a [[u8; LINK_BYTES]],
    },
}

/// Decodes the payload of a record that was found at `lsn`.
pub fn decode(lsn: Lsn, payload: &[u8]) -> Result<Record<'_>> {
    let fault = |why| malformed(lsn, payload.len(), why);
    let (rest, &kind) = payload
        .split_last()
        .map(|(kind, rest)| (rest, kind))
        .ok_or_else(|| fault("it is empty"))?;
    let (body, number) = rest.split_last_chunk::<8>().ok_or_else(|| fault("it is cut short"))?;
    let number = u64::from_le_bytes(*number);
    let items = || items(lsn, body);
    match kind {
        COMMIT => Ok(Record::Commit { seqno: Seqno(number), items: items() }),
        KEEPS if number == 0 => Ok(Record::Keeps { items: items() }),
        CHECKPOINT if body.is_empty() => Ok(Record::Checkpoint { sequence: number }),
        _ => Err(fault("it is of no known kind")),
    }
}

/// Iterates over the body of a record that lies at `lsn`.
pub fn items(lsn: Lsn, body: &[u8]) -> RecordItems<'_> {
    RecordItems {
        lsn,
        bytes: body.len(),
        rest: Reader::new(body),
        tree: None,
        keys: KeyMemory::default(),
        skips_extents: false,
        tells_counts: false,
        without: BTreeSet::new(),
    }
}

/// The items of a commit, in the order in which they were added.
#[derive(Debug)]
pub struct RecordItems<'a> {
    lsn: Lsn,
    bytes: usize,
    rest: Reader<'a>,
    tree: Option<TreeId>,
    keys: KeyMemory,
    skips_extents: bool,
    tells_counts: bool,
    without: BTreeSet<TreeId>,
}

/// The two keys from which the next key is reconstructed; the memory can be reused for other
/// records.
#[derive(Debug, Default)]
pub struct KeyMemory {
    /// The last key of the current tree.
    last: Vec<u8>,
    /// The record's first key.
    base: Vec<u8>,
    has_base: bool,
}

impl RecordItems<'_> {
    /// Skips the extents, pages, roots and runs that the commit adds, for callers that need only
    /// entries.
    pub fn without_extents(self) -> Self {
        Self { skips_extents: true, ..self }
    }

    /// Skips what was done to these trees.
    pub fn without_trees(self, without: BTreeSet<TreeId>) -> Self {
        Self { without, ..self }
    }

    /// Also returns changes of row counts, and counters.
    pub fn with_counts(self) -> Self {
        Self { tells_counts: true, ..self }
    }

    /// Reuses the memory of another record's items. Call it before reading the first item.
    pub fn reuse(&mut self, mut memory: KeyMemory) {
        memory.last.clear();
        memory.base.clear();
        memory.has_base = false;
        self.keys = memory;
    }

    /// Returns the memory for reuse; no further item can be read.
    pub fn into_memory(self) -> KeyMemory {
        self.keys
    }

    /// The next item.
    pub fn next(&mut self) -> Result<Option<Item<'_>>> {
        let (lsn, bytes) = (self.lsn, self.bytes);
        self.take().map_err(|why| malformed(lsn, bytes, why))
    }

    fn take(&mut self) -> Result<Option<Item<'_>>, &'static str> {
        let in_no_tree = "an item stands in no tree";
        while let Some(control) = self.rest.u8() {
            match control {
                TREE => {
                    self.tree = Some(self.tree_id()?);
                    self.keys.last.clear();
                }
                ROWS => {
                    let tree = self.tree.ok_or(in_no_tree)?;
                    let more = self.number()?;
                    // Zigzag: even numbers are more rows, odd ones fewer.
                    let more = (more >> 1) as i64 ^ -((more & 1) as i64);
                    if self.tells_counts {
                        return Ok(Some(Item::Rows { tree, more }));
                    }
                }
                COUNTER => {
                    let tree = self.tree_id()?;
                    let counter = self.rest.u8().ok_or("a counter is cut short")?;
                    if usize::from(counter) >= COUNTERS {
                        return Err("a counter that no tree has");
                    }
                    let next = self.number()?;
                    if self.tells_counts {
                        return Ok(Some(Item::Counter { tree, counter, next }));
                    }
                }
                DELETE_RANGE => {
                    let tree = self.tree.ok_or(in_no_tree)?;
                    let from = self.string(KEY_BYTES_MAX)?;
                    let to = self.string(KEY_BYTES_MAX)?;
                    if self.without.contains(&tree) {
                        continue;
                    }
                    return Ok(Some(Item::DeleteRange { tree, from, to }));
                }
                EXTENT => {
                    let extent = self.extent()?;
                    if !self.skips_extents {
                        return Ok(Some(Item::Extent(extent)));
                    }
                }
                PAGE => {
                    let kinds = [PageKind::Node, PageKind::Run];
                    let kind = self.rest.u8();
                    let kind = kinds.into_iter().find(|one| kind == Some(*one as u8));
                    let kind = kind.ok_or("a page of a kind that no tree has")?;
                    let extent = self.extent()?;
                    if !self.skips_extents {
                        return Ok(Some(Item::Page { kind, extent }));
                    }
                }
                ROOT => {
                    let tree = self.tree_id()?;
                    let root = self.string(usize::MAX)?;
                    if !self.skips_extents {
                        return Ok(Some(Item::Root { tree, root }));
                    }
                }
                RUNS => {
                    let tree = self.tree_id()?;
                    let bytes = self.string(usize::MAX)?;
                    let (links, rest) = bytes.as_chunks::<LINK_BYTES>();
                    if links.is_empty() || !rest.is_empty() {
                        return Err("the links of runs are cut short");
                    }
                    if !self.skips_extents {
                        return Ok(Some(Item::Runs { tree, links }));
                    }
                }
                PREPARED => {
                    let xid = self.string(XID_BYTES_MAX)?;
                    if xid.is_empty() {
                        return Err("what was prepared has no name");
                    }
                    let at = Seqno(self.number()?);
                    return Ok(Some(Item::Prepared { xid, at }));
                }
                _ => {
                    let tree = self.tree.ok_or(in_no_tree)?;
                    let tag =
                        Tag::from_disk(control & TAG_MASK).ok_or("an item of unknown kind")?;
                    self.read_key(control)?;
                    let payload = match control & EMPTY_PAYLOAD {
                        0 => self.string(usize::MAX)?,
                        _ => &[],
                    };
                    if tag.kind() == Kind::Delete && !payload.is_empty() {
                        return Err("a Delete with a payload");
                    }
                    if self.without.contains(&tree) {
                        continue;
                    }
                    return Ok(Some(Item::Entry { tree, key: &self.keys.last, tag, payload }));
                }
            }
        }
        Ok(None)
    }

    /// Reconstructs the next key from the last one, the base and what is stored.
    fn read_key(&mut self, control: u8) -> Result<(), &'static str> {
        let prefix = if control & SHARES_PREFIX != 0 { self.number()? } else { 0 };
        let shared = if control & SHARES_BASE != 0 { self.number()? } else { 0 };
        let stored = self.string(KEY_BYTES_MAX)?;
        let KeyMemory { last, base, has_base } = &mut self.keys;
        let prefix = usize::try_from(prefix).ok().filter(|&prefix| prefix <= last.len());
        last.truncate(prefix.ok_or("a key shares more than its predecessor has")?);
        if shared == 0 {
            last.extend_from_slice(stored);
        } else if !*has_base {
            return Err("a key shares with no first key");
        } else {
            let shared = usize::try_from(shared).ok().and_then(|shared| base.get(..shared));
            let shared = shared.ok_or("a key shares more than the first key has")?;
            let middle = stored.len().checked_sub(base.len() - shared.len());
            let (middle, tail) = middle
                .and_then(|middle| stored.split_at_checked(middle))
                .ok_or("a key is shorter than what it shares")?;
            for part in [middle, shared, tail] {
                last.extend_from_slice(part);
            }
        }
        if last.len() > KEY_BYTES_MAX {
            return Err("a key exceeds the maximum length");
        }
        if !*has_base {
            *has_base = true;
            base.extend_from_slice(last);
        }
        Ok(())
    }

    fn tree_id(&mut self) -> Result<TreeId, &'static str> {
        u32::try_from(self.number()?).map(TreeId).map_err(|_| "a tree id is too large")
    }

    fn extent(&mut self) -> Result<LogExtent, &'static str> {
        Ok(LogExtent { offset: self.number()?, bytes: self.number()? })
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        self.rest.varint().ok_or("a number is cut short or too large")
    }
}

impl<'a> RecordItems<'a> {
    fn string(&mut self, max: usize) -> Result<&'a [u8], &'static str> {
        let string = self.rest.bytes().ok_or("a string is cut short")?;
        if string.len() > max { Err("a string exceeds the maximum length") } else { Ok(string) }
    }
}

fn malformed(lsn: Lsn, bytes: usize, why: &str) -> Error {
    Error::Malformed {
        place: Place { file: PathBuf::from("log"), offset: lsn.0, bytes: bytes as u64 },
        what: "log record",
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(payload: &[u8]) -> Vec<(u32, Vec<u8>, u8, Vec<u8>)> {
        let Record::Commit { items, .. } = decode(Lsn(0), payload).unwrap() else { panic!() };
        let (mut items, mut out) = (items.with_counts(), Vec::new());
        while let Some(item) = items.next().unwrap() {
            out.push(match item {
                Item::Entry { tree, key, tag, payload } => {
                    (tree.0, key.to_vec(), tag.to_disk(), payload.to_vec())
                }
                Item::DeleteRange { tree, from, to } => (tree.0, from.to_vec(), 255, to.to_vec()),
                Item::Counter { tree, counter, next } => {
                    (tree.0, vec![counter], 248, next.to_le_bytes().to_vec())
                }
                Item::Rows { tree, more } => (tree.0, more.to_le_bytes().to_vec(), 249, Vec::new()),
                Item::Extent(extent) => (
                    0,
                    extent.offset.to_le_bytes().to_vec(),
                    254,
                    extent.bytes.to_le_bytes().to_vec(),
                ),
                Item::Page { kind, extent } => (
                    kind as u32,
                    extent.offset.to_le_bytes().to_vec(),
                    253,
                    extent.bytes.to_le_bytes().to_vec(),
                ),
                Item::Root { tree, root } => (tree.0, root.to_vec(), 252, Vec::new()),
                Item::Prepared { xid, at } => (0, xid.to_vec(), 251, at.0.to_le_bytes().to_vec()),
                Item::Runs { tree, links } => (tree.0, links.concat(), 250, Vec::new()),
            });
        }
        out
    }

    #[test]
    fn log_records_round_trip() {
        let mut builder = RecordBuilder::new();
        for round in 0..3u64 {
            builder.clear();
            builder.counter(TreeId(9), 3, u64::MAX - round);
            builder.tree(TreeId(7));
            let rows: Vec<[u8; 8]> = (0..40u64).map(|i| (1000 * round + i).to_be_bytes()).collect();
            let next = (u64::MAX - round).to_le_bytes().to_vec();
            let mut expected = vec![(9, vec![3], 248, next)];
            let more = [0, i64::MIN, 40][round as usize];
            builder.rows(more);
            expected.push((7, more.to_le_bytes().to_vec(), 249, Vec::new()));
            for row in &rows {
                builder.entry(row, Tag::PUT_FRESH, b"some value");
                expected.push((7, row.to_vec(), 0x10, b"some value".to_vec()));
            }
            builder.delete_range(b"a", b"bcd");
            expected.push((7, b"a".to_vec(), 255, b"bcd".to_vec()));
            builder.tree(TreeId(1 << 20));
            let mut keys: Vec<Vec<u8>> = rows
                .iter()
                .enumerate()
                .map(|(i, row)| [&(i as u32 * 7919 % 64).to_be_bytes()[..], row].concat())
                .collect();
            keys.sort();
            keys.insert(0, Vec::new());
            for key in keys {
                builder.entry(&key, Tag::DELETE, b"");
                expected.push((1 << 20, key, 1, Vec::new()));
            }
            builder.extent(LogExtent { offset: 1 << 40, bytes: 4096 });
            expected.push((
                0,
                (1u64 << 40).to_le_bytes().to_vec(),
                254,
                4096u64.to_le_bytes().to_vec(),
            ));
            builder.page(PageKind::Run, LogExtent { offset: 8192, bytes: 12288 });
            let [offset, bytes] = [8192u64, 12288].map(|number| number.to_le_bytes().to_vec());
            expected.push((PageKind::Run as u32, offset, 253, bytes));
            builder.prepared(b"xid", Seqno(77));
            expected.push((0, b"xid".to_vec(), 251, 77u64.to_le_bytes().to_vec()));
            builder.root(TreeId(300), b"root");
            expected.push((300, b"root".to_vec(), 252, Vec::new()));
            let payload = [builder.finish(), &trailer(Seqno(9))].concat();
            assert_eq!(read(&payload), expected);
            let Record::Commit { items, .. } = decode(Lsn(0), &payload).unwrap() else { panic!() };
            let mut entries = items.without_extents();
            while let Some(item) = entries.next().unwrap() {
                assert!(matches!(
                    item,
                    Item::Entry { .. } | Item::DeleteRange { .. } | Item::Prepared { .. }
                ));
            }
        }
    }

    #[test]
    fn a_row_with_three_indexes_is_small() {
        let mut builder = RecordBuilder::new();
        let row = 123_456_789u64.to_be_bytes();
        builder.tree(TreeId(10));
        builder.entry(&row, Tag::PUT_FRESH, &[7; 34]);
        for (tree, columns) in [(11, 8), (12, 12), (13, 16)] {
            builder.tree(TreeId(tree));
            let columns: Vec<u8> = (0..columns).map(|i| (i * 37 + 200) as u8).collect();
            builder.entry(&[&columns[..], &row].concat(), Tag::PUT_FRESH, b"");
        }
        // 42 bytes of row and 36 of index columns, and 25 to say what is what.
        assert!(builder.bytes() <= 103, "{} bytes", builder.bytes());
    }

    #[test]
    fn any_bytes_decode_without_a_panic() {
        let mut builder = RecordBuilder::new();
        builder.tree(TreeId(1));
        builder.rows(-300);
        for i in 0..20u32 {
            builder.entry(&[&b"prefix"[..], &i.to_be_bytes()].concat(), Tag::PUT, &[9; 20]);
        }
        builder.page(PageKind::Node, LogExtent { offset: 1 << 30, bytes: 4096 });
        builder.root(TreeId(2), b"root");
        let payload = [builder.finish(), &trailer(Seqno(1))].concat();
        let walk = |payload: &[u8]| {
            if let Ok(Record::Commit { mut items, .. }) = decode(Lsn(0), payload) {
                while let Ok(Some(_)) = items.next() {}
            }
        };
        for cut in 0..payload.len() {
            walk(&payload[..cut]);
        }
        for bit in 0..payload.len() * 8 {
            let mut bad = payload.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            walk(&bad);
        }
    }

    fn record_of(bytes: usize) -> RecordBuilder {
        let mut record = RecordBuilder::new();
        record.tree(TreeId(1));
        record.entry(b"key", Tag::PUT, &vec![0; bytes]);
        record
    }

    #[test]
    fn a_thread_caches_a_short_record_and_the_store_a_few_long_ones() {
        let records = RecordPool::new(64 << 20);
        records.give(record_of(100));
        assert!((100..KEPT_BYTES).contains(&records.take(10).capacity()), "the thread's own");
        assert_eq!(records.take(10).capacity(), 0, "it is taken");
        (0..10).for_each(|_| records.give(record_of(100_000)));
        assert_eq!(records.take(10).capacity(), 0, "a short record does not take a long one");
        let long = || records.take(100_000).capacity() >= 100_000;
        assert_eq!((0..10).filter(|_| long()).count(), SPARE_MAX);
        records.give(record_of(1 << 20));
        assert!(!long(), "longer than a share of the memory");
    }
}
