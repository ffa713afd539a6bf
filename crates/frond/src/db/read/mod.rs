//! Reads of the store at one moment. This file has point reads: memtables newest first, then the
//! tree.
//!
//! | file | what it does |
//! |---|---|
//! | `snapshot.rs` | snapshots: the store as of one commit |
//! | `cursor/`, `iter.rs` | scans: cursors, and iterators |
//! | `reader.rs` | one trait for reads of the current state, a snapshot or a transaction |
//! | `sources.rs`, `scan_chunk.rs` | the sources of a scan, merged for one scan chunk |
//! | `readahead.rs`, `parallel_reads.rs` | reads on other threads |
//! | `projection.rs` | which parts of values are wanted |
//! | `rows.rs`, `key_order.rs` | rows of a scan chunk, and debug checks of their order |
//! | `counts.rs`, `distinct/` | numbers of rows, and of distinct key prefixes |

mod counts;
mod cursor;
mod distinct;
mod iter;
mod key_order;
mod parallel_reads;
mod projection;
mod readahead;
mod reader;
mod rows;
mod scan_chunk;
mod snapshot;
mod sources;

pub(super) use counts::is_nothing;
pub use counts::{RangeEstimate, RowCount};
pub use cursor::Cursor;
pub(super) use cursor::Gap;
pub(crate) use iter::{BothEnds, Passed, Row, RowPlace, TwoWay};
pub use iter::{Rows, TemporaryRows, TxnRows};
pub(crate) use key_order::{KeyOrder, Repeats};
pub(super) use parallel_reads::load_leaf_blocks;
pub use projection::Projection;
pub use reader::Reader;
pub(crate) use reader::seal::Which;
pub use rows::RowBuf;
pub use snapshot::Snapshot;

use arc_swap::Guard;

use crate::{
    Result, Seqno, Tree, TreeId,
    block::columnar::ColumnSelection,
    catalog::TreeEntry,
    layout::VERSION_BYTES,
    message::{Kind, Message},
    pipeline::Engine,
    sync::Arc,
    version::{SnapshotState, Version},
};

/// A consistent state to read in one call: a version, and the last commit that is visible in it.
///
/// The version is taken before the seqno. A version taken after it could have commits above the
/// seqno in its trees, where they could not be recognised: entries of trees have no seqno.
pub(super) struct View<'a> {
    pub engine: &'a Engine,
    pub version: Guard<Arc<Version>>,
    pub at: Seqno,
}

/// Looks up `keys` in key order, so that neighbouring keys find their blocks in the cache; returns
/// the results in the caller's order.
pub(super) fn in_key_order<K: AsRef<[u8]>>(
    keys: &[K],
    mut get: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
) -> Result<Vec<Option<Vec<u8>>>> {
    let mut values: Vec<Option<Vec<u8>>> = keys.iter().map(|_| None).collect();
    for index in key_order(keys) {
        values[index] = get(keys[index].as_ref())?;
    }
    Ok(values)
}

/// Indexes of the keys, ordered by key.
pub(super) fn key_order<K: AsRef<[u8]>>(keys: &[K]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_unstable_by(|&a, &b| keys[a].as_ref().cmp(keys[b].as_ref()));
    order
}

/// Messages of one key, collected newest first until a base is found.
#[derive(Default)]
pub(super) struct Messages {
    /// Merge payloads, newest first.
    operands: Vec<Vec<u8>>,
    base: Base,
}

#[derive(Default, PartialEq, Eq)]
enum Base {
    #[default]
    None,
    Value,
    /// The wanted parts of a value.
    Projected,
    Blob,
    Deleted,
}

impl Messages {
    /// Takes the next older message; true if nothing older matters. A value is copied into `value`,
    /// whole or the parts that are wanted.
    pub fn take(&mut self, message: Message<'_>, is_whole: bool, value: &mut Vec<u8>) -> bool {
        self.base = match message.tag.kind() {
            Kind::Put if is_whole => Base::Value,
            Kind::Put => Base::Projected,
            Kind::PutBlob => Base::Blob,
            Kind::Delete => Base::Deleted,
            Kind::Merge | Kind::Versions => {
                self.operands.push(message.payload.to_vec());
                return false;
            }
        };
        value.clear();
        value.extend_from_slice(message.payload);
        true
    }

    /// True if there are operands and no base for them yet.
    pub fn is_open(&self) -> bool {
        !self.operands.is_empty() && self.base == Base::None
    }

    /// True if the result is the reference of a long value, with nothing folded over it.
    pub fn is_reference(&self) -> bool {
        self.base == Base::Blob && self.operands.is_empty()
    }

    /// True if the key exists; does not need the value.
    pub fn exists(&self) -> bool {
        self.base_exists() || !self.operands.is_empty()
    }

    fn base_exists(&self) -> bool {
        matches!(self.base, Base::Value | Base::Projected | Base::Blob)
    }

    /// Fills `out` with the bytes of the result from `from` on. Returns the number of bytes, or
    /// `None` if the key does not exist. Reads only the needed part of a long value.
    pub fn finish_at(
        self,
        tree: &Tree,
        value: &mut Vec<u8>,
        from: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        let engine = &tree.shared.engine;
        if self.base == Base::Blob && self.operands.is_empty() {
            let blob = engine.cx.open_blob(value)?;
            let mut version = [0; VERSION_BYTES];
            // Byte positions change if the value must be mapped to another version.
            let stays = match tree.layout_version() {
                None => true,
                Some(newest) => {
                    blob.read_at(0, &mut version)? == VERSION_BYTES
                        && u16::from_be_bytes(version) == newest
                }
            };
            if stays {
                return blob.read_at(from, out).map(Some);
            }
        }
        if !self.finish(engine, value)? {
            return Ok(None);
        }
        tree.to_newest_version(value)?;
        let rest = value.get(from..).unwrap_or_default();
        let bytes = rest.len().min(out.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(Some(bytes))
    }

    /// Computes the result into `value`; false if the key does not exist.
    pub fn finish(self, engine: &Engine, value: &mut Vec<u8>) -> Result<bool> {
        let exists = self.base_exists();
        if self.base == Base::Blob {
            let blob = engine.cx.open_blob(value)?;
            blob.read(value)?;
        }
        if self.operands.is_empty() {
            if !exists {
                value.clear();
            }
            return Ok(exists);
        }
        let folder = engine.cx.folder();
        let mut exists = exists;
        for operands in self.operands.iter().rev() {
            folder.apply(exists, operands, value)?;
            exists = true;
        }
        Ok(true)
    }
}

impl<'a> View<'a> {
    /// Everything that is visible now.
    #[inline]
    pub fn visible(engine: &'a Engine) -> Self {
        let version = engine.versions.current();
        Self { engine, version, at: engine.sequencer.visible() }
    }

    /// Everything that is inserted, visible or not: for a caller that holds the locks of what it
    /// reads (Rule: I3).
    #[inline]
    pub fn latest(engine: &'a Engine) -> Self {
        Self { engine, version: engine.versions.current(), at: Seqno(u64::MAX) }
    }

    /// What a snapshot shows.
    #[inline]
    pub fn of(engine: &'a Engine, snapshot: &SnapshotState) -> Self {
        Self { engine, version: snapshot.version_for_a_call(&engine.versions), at: snapshot.at }
    }

    /// Reads the value of `key` into `value`; false if it does not exist.
    pub fn get(&self, tree: TreeId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.messages(tree, key, &ColumnSelection::All, value)?.finish(self.engine, value)
    }

    /// Reads the wanted parts of a value, concatenated.
    pub fn get_projected(
        &self,
        entry: &TreeEntry,
        key: &[u8],
        projection: &Projection,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let messages = self.messages(entry.id, key, projection.columns(), value)?;
        self.finish_projected(entry, key, projection, messages, value)
    }

    /// Computes the wanted parts from a key's messages.
    pub fn finish_projected(
        &self,
        entry: &TreeEntry,
        key: &[u8],
        projection: &Projection,
        messages: Messages,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let exists = match (&messages.base, messages.operands.is_empty()) {
            (Base::Projected, true) => return Ok(true),
            // Folding needs the whole value.
            (Base::Projected, false) => self.get(entry.id, key, value)?,
            _ => messages.finish(self.engine, value)?,
        };
        if exists && let Err(misfit) = projection.keep(Some(entry), value) {
            value.clear();
            return Err(misfit);
        }
        Ok(exists)
    }

    /// Collects the messages of `key`; the value or reference of the base is in `value`.
    pub fn messages(
        &self,
        tree: TreeId,
        key: &[u8],
        projection: &ColumnSelection,
        value: &mut Vec<u8>,
    ) -> Result<Messages> {
        value.clear();
        let mut messages = Messages::default();
        self.add_messages(tree, key, projection, &mut messages, value)?;
        Ok(messages)
    }

    /// Collects the messages of `key` below newer ones, none of which is a base.
    pub fn add_messages(
        &self,
        tree: TreeId,
        key: &[u8],
        projection: &ColumnSelection,
        messages: &mut Messages,
        value: &mut Vec<u8>,
    ) -> Result<()> {
        if self.add_newest(tree, key, projection, messages, value)? {
            return Ok(());
        }
        if let Some(root) = self.version.roots.get(&tree) {
            root.get_selected(&self.engine.cx, key, projection, &mut |lookup| {
                messages.take(lookup.message(), lookup.is_whole(), value);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Collects the messages of `key` in memtables and spilled pieces only; true if nothing older
    /// matters.
    pub fn add_newest(
        &self,
        tree: TreeId,
        key: &[u8],
        projection: &ColumnSelection,
        messages: &mut Messages,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut done = false;
        for slot in self.version.memtables() {
            slot.table.get(tree, key, self.at, &mut |_, message| {
                done = messages.take(message, true, value);
                !done
            });
            if done {
                return Ok(true);
            }
            for piece in slot.spilled_at(tree, self.at) {
                if let Some(found) = piece.get(&self.engine.cx, key, projection)?
                    && messages.take(found.message(), found.is_whole(), value)
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The seqno of the newest message for `key`, if that is in a memtable.
    pub fn newest_in_memtables(&self, tree: TreeId, key: &[u8]) -> Result<Option<Seqno>> {
        let none = ColumnSelection::Nothing;
        for slot in self.version.memtables() {
            let mut newest = None;
            slot.table.get(tree, key, self.at, &mut |seqno, _| {
                newest = Some(seqno);
                false
            });
            for piece in slot.spilled_at(tree, self.at) {
                if newest.is_none() && piece.get(&self.engine.cx, key, &none)?.is_some() {
                    // A commit with spilled rows is the only one of its memtable.
                    newest = Some(slot.base.next());
                }
            }
            if newest.is_some() {
                return Ok(newest);
            }
        }
        Ok(None)
    }

    /// True if `key` exists, at the newest inserted version (Rule: I3).
    pub fn exists(&self, tree: TreeId, key: &[u8]) -> Result<bool> {
        // No part of the value is needed.
        let none = ColumnSelection::Nothing;
        Ok(self.messages(tree, key, &none, &mut Vec::new())?.exists())
    }

    /// Fills `out` with the value's bytes from `from` on. Returns the number of bytes, or `None` if
    /// the key does not exist.
    pub fn get_at(
        &self,
        tree: &Tree,
        key: &[u8],
        from: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>> {
        let mut value = Vec::new();
        let messages = self.messages(tree.entry.id, key, &ColumnSelection::All, &mut value)?;
        messages.finish_at(tree, &mut value, from, out)
    }
}
