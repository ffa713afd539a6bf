//! The sources that a scan merges: memtables as of a seqno, and the runs of a leaf's stretch.
//!
//! Threads: one.

use crate::{
    Result, Seqno, TreeId,
    memtable::{MemCursor, Memtable},
    message::Tag,
    run::{Entry, EntrySource, Folder, RunCursor},
    sync::Arc,
    tree::SortedRunsCursor,
};

/// A source of a scan.
pub(in crate::db) enum ReadSource<'a> {
    Memtable(Box<MemSource<'a>>),
    /// A run, and whether it has range deletes inside its bounds.
    Run(Box<RunCursor>, bool),
    /// Rows that a commit has spilled.
    Spilled(Box<SortedRunsCursor>),
}

impl EntrySource for ReadSource<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        match self {
            ReadSource::Memtable(source) => source.entry(),
            ReadSource::Run(cursor, _) => cursor.entry(),
            ReadSource::Spilled(cursor) => cursor.entry(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self {
            ReadSource::Memtable(source) => source.advance(),
            ReadSource::Run(cursor, _) => cursor.advance(),
            ReadSource::Spilled(cursor) => cursor.advance(),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        match self {
            ReadSource::Memtable(source) => source.seek(key),
            ReadSource::Run(cursor, _) => cursor.seek(key),
            ReadSource::Spilled(cursor) => cursor.seek(key),
        }
    }

    fn bounds(&self) -> Option<(&[u8], &[u8])> {
        match self {
            ReadSource::Memtable(source) => source.bounds(),
            ReadSource::Run(cursor, _) => cursor.bounds(),
            ReadSource::Spilled(cursor) => cursor.bounds(),
        }
    }

    fn has_range_deletes(&self) -> bool {
        match self {
            ReadSource::Memtable(source) => source.has_ranges,
            ReadSource::Run(_, has_ranges) => *has_ranges,
            ReadSource::Spilled(_) => false,
        }
    }

    fn covers(&self, key: &[u8]) -> bool {
        match self {
            ReadSource::Memtable(source) => source.covers(key),
            ReadSource::Run(cursor, has_ranges) => *has_ranges && cursor.covers(key),
            ReadSource::Spilled(_) => false,
        }
    }

    #[inline]
    fn is_whole(&self) -> bool {
        match self {
            ReadSource::Memtable(_) | ReadSource::Spilled(_) => true,
            ReadSource::Run(cursor, _) => cursor.is_whole(),
        }
    }

    fn make_whole(&mut self) -> Result<()> {
        match self {
            ReadSource::Memtable(_) | ReadSource::Spilled(_) => Ok(()),
            ReadSource::Run(cursor, _) => cursor.make_whole(),
        }
    }
}

/// One memtable as of a seqno, with versions folded to one message per key.
pub(in crate::db) struct MemSource<'a> {
    cursor: MemCursor,
    folder: Folder<'a>,
    /// Whether there are range deletes between its bounds. They are looked up key by key, because
    /// copying them would cost each chunk of a scan time proportional to their number.
    has_ranges: bool,
    hi: Option<Vec<u8>>,
    tag: Option<Tag>,
    payload: Vec<u8>,
    spare: Vec<u8>,
}

impl<'a> MemSource<'a> {
    /// The tree's messages in `[lo, hi)`, positioned on the first.
    pub(in crate::db) fn new(
        table: &Arc<Memtable>,
        tree: TreeId,
        at: Seqno,
        folder: Folder<'a>,
        lo: Option<&[u8]>,
        hi: Option<&[u8]>,
    ) -> Result<Self> {
        let mut cursor = table.cursor(tree, at);
        match lo {
            Some(lo) => cursor.seek(lo),
            None => cursor.seek_first(),
        }
        let has_ranges = cursor.deletes_in(lo, hi);
        let mut source = Self {
            cursor,
            folder,
            has_ranges,
            hi: hi.map(<[u8]>::to_vec),
            tag: None,
            payload: Vec::new(),
            spare: Vec::new(),
        };
        source.fold_current()?;
        Ok(source)
    }

    /// True if it has neither entries nor range deletes.
    pub(in crate::db) fn is_empty(&self) -> bool {
        self.tag.is_none() && !self.has_ranges
    }

    /// Folds the current key, or the next one that has a message left.
    fn fold_current(&mut self) -> Result<()> {
        loop {
            self.tag = None;
            let Some(key) = self.cursor.key() else { return Ok(()) };
            if self.hi.as_deref().is_some_and(|hi| key >= hi) {
                return Ok(());
            }
            let cover = self.cursor.cover();
            let versions = self.cursor.versions();
            let shown = versions.take_while(|(seqno, _)| cover.is_none_or(|cover| *seqno >= cover));
            let shown = shown.map(|(_, message)| message);
            let (payload, spare) = (&mut self.payload, &mut self.spare);
            let tag = self.folder.fold_versions(shown, true, payload, spare)?;
            if let Some(tag) = tag {
                // Older deletes than this Put were not read. If it were fresh, a newer memtable's
                // Delete would cancel it out, and what the older delete hides would reappear (Rule:
                // I7).
                let keeps = plant!("db: a scan believes that a Put is fresh");
                self.tag = Some(if keeps { tag } else { tag.without_fresh() });
                return Ok(());
            }
            self.cursor.next();
        }
    }
}

impl EntrySource for MemSource<'_> {
    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        let (tag, key) = (self.tag?, self.cursor.key()?);
        Some(Entry { key, tag, payload: &self.payload })
    }

    fn advance(&mut self) -> Result<()> {
        self.cursor.next();
        self.fold_current()
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key);
        self.fold_current()
    }

    fn has_range_deletes(&self) -> bool {
        self.has_ranges
    }

    fn covers(&self, key: &[u8]) -> bool {
        self.has_ranges && self.cursor.covers(key)
    }
}
