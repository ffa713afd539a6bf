//! Building the bodies of records.
//!
//! Threads: one. Bytes: docs/format.md, "Log records".

use super::{
    COUNTER, DELETE_RANGE, EMPTY_PAYLOAD, EXTENT, LogExtent, PAGE, PREPARED, ROOT, ROWS, RUNS,
    SHARES_BASE, SHARES_PREFIX, TREE,
};
use crate::{
    coding::{put_bytes, put_varint},
    message::Tag,
    page::{LINK_BYTES, Link, PageKind},
    types::{Seqno, TreeId},
};

/// Shortest stretch shared with the base key that is worth its length byte.
const BASE_SHARED_MIN: usize = 3;

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

    /// Bytes that its memory has room for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.base.capacity() + self.last.capacity()
    }

    /// Forgets everything but its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.has_base = false;
        self.base.clear();
        self.last.clear();
    }

    /// What follows belongs to this tree.
    pub fn tree(&mut self, tree: TreeId) {
        self.bytes.push(TREE);
        put_varint(&mut self.bytes, tree.0.into());
        self.last.clear();
    }

    /// Says by how much this commit changes the tree's number of rows. Before what it does there.
    pub fn rows(&mut self, more: i64) {
        self.bytes.push(ROWS);
        put_varint(&mut self.bytes, (more << 1 ^ more >> 63) as u64);
    }

    /// Says how far a counter of a tree is.
    pub fn counter(&mut self, tree: TreeId, counter: u8, next: u64) {
        self.bytes.push(COUNTER);
        put_varint(&mut self.bytes, tree.0.into());
        self.bytes.push(counter);
        put_varint(&mut self.bytes, next);
    }

    /// Adds an entry: ascending by key within its tree.
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
        // Numbers are gathered on the stack: one look at the vector's room, not one a byte.
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

    /// Names an extent that this commit brings into the store (Rule: I11).
    pub fn extent(&mut self, extent: LogExtent) {
        self.bytes.push(EXTENT);
        put_varint(&mut self.bytes, extent.offset);
        put_varint(&mut self.bytes, extent.bytes);
    }

    /// Names a page that this commit brings into the store: a run or a node (Rule: I11).
    pub fn page(&mut self, kind: PageKind, extent: LogExtent) {
        self.bytes.extend_from_slice(&[PAGE, kind as u8]);
        put_varint(&mut self.bytes, extent.offset);
        put_varint(&mut self.bytes, extent.bytes);
    }

    /// Says that a tree begins with this root, whose pages this commit brings.
    pub fn root(&mut self, tree: TreeId, root: &[u8]) {
        self.bytes.push(ROOT);
        put_varint(&mut self.bytes, tree.0.into());
        put_bytes(&mut self.bytes, root);
    }

    /// Names runs whose entries this commit puts into a tree (Rule: I11). Before everything else; of one tree the
    /// newest first.
    pub fn runs(&mut self, tree: TreeId, links: impl ExactSizeIterator<Item = Link>) {
        self.bytes.push(RUNS);
        put_varint(&mut self.bytes, tree.0.into());
        put_varint(&mut self.bytes, (links.len() * LINK_BYTES) as u64);
        links.for_each(|link| self.bytes.extend_from_slice(&link.to_disk()));
    }

    /// Says that the commit does what was prepared under this name, by the commit `at`.
    pub fn prepared(&mut self, xid: &[u8], at: Seqno) {
        self.bytes.push(PREPARED);
        put_bytes(&mut self.bytes, xid);
        put_varint(&mut self.bytes, at.0);
    }

    /// Length so far, bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The body. [`trailer`](super::trailer) must follow it in the log.
    pub fn finish(&mut self) -> &[u8] {
        &self.bytes
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

/// Length of the common beginning.
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
