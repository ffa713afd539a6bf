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

    /// The finished body. In the log, [`trailer`](super::trailer) must follow it.
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
