//! A cursor over one tree in a write buffer: in memory, and in spilled pieces.
//!
//! Invariant: the newest message of a key is folded over those of older pieces.
//!
//! Threads: one. Cost: while nothing was spilled, that of the cursor over memory; otherwise a
//! comparison with each piece, and a copy, per row.

use std::cmp::Ordering;

use crate::{
    Result,
    message::{Message, Tag},
    run::{Entry, EntrySource, Folder, RangeDeletes},
    tree::SortedRunsCursor,
    txn::OwnCursor,
};

/// A position in a write buffer, in a range of keys.
#[derive(Debug)]
pub(super) struct WriteBufferCursor<'t> {
    memory: OwnCursor<'t>,
    /// Cursors over pieces, newest first.
    pieces: Vec<SortedRunsCursor>,
    folder: Folder<'t>,
    forward: bool,
    /// The current entry, if there are pieces.
    key: Vec<u8>,
    tag: Option<Tag>,
    payload: Vec<u8>,
    spare: Vec<u8>,
}

impl<'t> WriteBufferCursor<'t> {
    pub fn new(memory: OwnCursor<'t>, pieces: Vec<SortedRunsCursor>, folder: Folder<'t>) -> Self {
        let (key, payload, spare) = Default::default();
        Self { memory, pieces, folder, forward: true, key, tag: None, payload, spare }
    }

    /// See [`OwnCursor::changes`].
    pub fn changes(&self) -> u64 {
        self.memory.changes()
    }

    /// The current entry.
    pub fn entry(&self) -> Option<Entry<'_>> {
        if self.pieces.is_empty() {
            return self.memory.entry();
        }
        self.tag.map(|tag| Entry { key: &self.key, tag, payload: &self.payload })
    }

    pub fn range_deletes(&self) -> Option<&RangeDeletes> {
        self.memory.range_deletes()
    }

    pub fn seek_first(&mut self) -> Result<()> {
        self.memory.seek_first()?;
        self.pieces.iter_mut().try_for_each(SortedRunsCursor::seek_first)?;
        self.fold_next(true)
    }

    pub fn seek_last(&mut self) -> Result<()> {
        self.memory.seek_last()?;
        self.pieces.iter_mut().try_for_each(SortedRunsCursor::seek_last)?;
        self.fold_next(false)
    }

    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.memory.seek(key)?;
        self.pieces.iter_mut().try_for_each(|piece| piece.seek(key))?;
        self.fold_next(true)
    }

    pub fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.memory.seek_before(key)?;
        self.pieces.iter_mut().try_for_each(|piece| piece.seek_before(key))?;
        self.fold_next(false)
    }

    /// Moves to the next entry in the direction of the last step.
    pub fn step(&mut self) -> Result<()> {
        match (self.pieces.is_empty(), self.forward) {
            (true, true) => self.memory.advance(),
            (true, false) => self.memory.retreat(),
            (false, forward) => {
                self.leave()?;
                self.fold_next(forward)
            }
        }
    }

    /// Moves past the last entry, or before the first one. Called on that entry.
    pub fn end(&mut self, forward: bool) -> Result<()> {
        (self.forward, self.tag) = (forward, None);
        if forward { self.memory.advance() } else { self.memory.retreat() }
    }

    /// Moves all sources past the current key.
    fn leave(&mut self) -> Result<()> {
        let Self { memory, pieces, key, forward, .. } = self;
        if memory.entry().is_some_and(|entry| entry.key == &key[..]) {
            if *forward { memory.advance()? } else { memory.retreat()? }
        }
        for piece in pieces {
            if piece.entry().is_some_and(|entry| entry.key == &key[..]) {
                if *forward { piece.advance()? } else { piece.retreat()? }
            }
        }
        Ok(())
    }

    /// Folds the messages of the next key; if they fold to nothing, continues with the key after
    /// that.
    fn fold_next(&mut self, forward: bool) -> Result<()> {
        self.forward = forward;
        self.tag = None;
        if self.pieces.is_empty() {
            return Ok(());
        }
        loop {
            let Self { memory, pieces, folder, key, payload, spare, .. } = self;
            let first: &dyn EntrySource = memory;
            let sources = || {
                let pieces = pieces.iter().map(|piece| piece as &dyn EntrySource);
                std::iter::once(first).chain(pieces).filter_map(|source| source.entry())
            };
            let next = sources().map(|entry| entry.key).reduce(|a, b| match a.cmp(b) {
                Ordering::Less if forward => a,
                Ordering::Greater if !forward => a,
                _ => b,
            });
            let Some(next) = next else { return Ok(()) };
            key.clear();
            key.extend_from_slice(next);
            let messages = sources().filter(|entry| entry.key == &key[..]);
            let messages = messages.map(|entry| Message::new(entry.tag, entry.payload));
            self.tag = folder.fold_versions(messages, true, payload, spare)?;
            if self.tag.is_some() {
                return Ok(());
            }
            self.leave()?;
        }
    }
}
