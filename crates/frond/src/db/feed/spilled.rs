//! Commits in the change feed that were spilled: the runs that the record names and
//! the entries in the record itself are folded to one message per key.
//!
//! Invariant: the runs are held until the commit is dropped.
//!
//! Threads: as the feed. Cost: each run is read once, in large pieces.

use std::{cmp::Ordering, collections::BTreeSet, vec::IntoIter};

use super::freed;
use crate::{
    Result, Seqno, TreeId,
    blob::BlobHold,
    message::{Message, Tag},
    pipeline::Engine,
    run::{Folded, MergeCursor},
    store::{Extent, HeldPages, Link},
    sync::Arc,
    tree::{SortedRuns, SortedRunsCursor},
    version::SpilledWrites,
    wal::{Item, RecordItems},
};

/// A buffered message.
#[derive(Debug, Default)]
struct Row {
    tree: TreeId,
    key: Vec<u8>,
    tag: Option<Tag>,
    payload: Vec<u8>,
}

/// An iterator over all changes of a spilled commit.
#[derive(Debug)]
pub(super) struct SpilledWalk<'a> {
    engine: Arc<Engine>,
    spilled: SpilledWrites,
    trees: IntoIter<TreeId>,
    /// Pieces of the current tree.
    merge: Option<(TreeId, MergeCursor<SortedRunsCursor>)>,
    /// Entries of the record itself, newer than the pieces.
    items: RecordItems<'a>,
    of_pieces: Row,
    of_record: Row,
    row: Row,
}

impl Row {
    fn set(&mut self, tree: TreeId, key: &[u8], Message { tag, payload }: Message<'_>) {
        (self.tree, self.tag) = (tree, Some(tag));
        self.key.clear();
        self.key.extend_from_slice(key);
        self.payload.clear();
        self.payload.extend_from_slice(payload);
    }
}

impl<'a> SpilledWalk<'a> {
    /// An iterator over the changes of the commit whose record has these items, except those of
    /// some trees; and holds on the commit's long values.
    pub fn new(
        engine: &Arc<Engine>,
        seqno: Seqno,
        without: &BTreeSet<TreeId>,
        items_of: impl Fn() -> Result<RecordItems<'a>>,
    ) -> Result<(Self, Vec<Arc<BlobHold>>)> {
        let lost = || {
            let why = "its writes did not fit into memory, and where they were has been freed";
            freed(&engine.store, seqno, why)
        };
        let mut spilled = SpilledWrites::default();
        let mut holds = Vec::new();
        let mut items = items_of()?;
        loop {
            match items.next()? {
                Some(Item::Runs { tree, links }) => {
                    let piece = hold_runs(engine, links)?.ok_or_else(lost)?;
                    spilled.push_older(tree, Arc::new(piece));
                }
                Some(Item::Extent(extent)) => {
                    let extent = crate::db::open::log_extent::extent_of(&engine.store, extent)?;
                    holds.push(BlobHold::if_written(&engine.store, extent).ok_or_else(lost)?);
                }
                _ => break,
            }
        }
        let trees: Vec<TreeId> = spilled.trees().filter(|tree| !without.contains(tree)).collect();
        let mut walk = Self {
            engine: engine.clone(),
            spilled,
            trees: trees.into_iter(),
            merge: None,
            items: items_of()?.without_extents().without_trees(without.clone()),
            of_pieces: Row::default(),
            of_record: Row::default(),
            row: Row::default(),
        };
        walk.advance_pieces()?;
        walk.advance_record()?;
        Ok((walk, holds))
    }

    /// The next message.
    pub fn next(&mut self) -> Result<Option<(TreeId, &[u8], Message<'_>)>> {
        let (pieces, record) = (&self.of_pieces, &self.of_record);
        let order = match (pieces.tag, record.tag) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), Some(_)) => (pieces.tree, &pieces.key).cmp(&(record.tree, &record.key)),
        };
        match order {
            Ordering::Less => {
                std::mem::swap(&mut self.row, &mut self.of_pieces);
                self.advance_pieces()?;
            }
            Ordering::Greater => {
                std::mem::swap(&mut self.row, &mut self.of_record);
                self.advance_record()?;
            }
            Ordering::Equal => {
                self.fold()?;
                self.advance_pieces()?;
                self.advance_record()?;
            }
        }
        let Row { tree, key, tag, payload } = &self.row;
        Ok(tag.map(|tag| (*tree, &**key, Message::new(tag, payload))))
    }

    /// Folds the record's message over that of the pieces, for one key.
    fn fold(&mut self) -> Result<()> {
        let Self { of_pieces, of_record, row, engine, .. } = self;
        std::mem::swap(row, of_record);
        let (Some(newer), Some(older)) = (row.tag, of_pieces.tag) else { return Ok(()) };
        let (newer, older) =
            (Message::new(newer, &row.payload), Message::new(older, &of_pieces.payload));
        let mut made = Vec::new();
        match engine.cx.folder().fold(newer, older, &mut made)? {
            Folded::Newer(tag) => row.tag = Some(tag),
            Folded::Made(tag) => {
                row.tag = Some(tag);
                row.payload = made;
            }
            // The key did not exist and still does not: the follower deletes nothing.
            Folded::Nothing => {
                row.tag = Some(Tag::DELETE);
                row.payload.clear();
            }
        }
        Ok(())
    }

    fn advance_pieces(&mut self) -> Result<()> {
        let folder = self.engine.cx.folder();
        loop {
            if let Some((tree, merge)) = &mut self.merge
                && let Some(entry) = merge.next_folded(&folder)?
            {
                self.of_pieces.set(*tree, entry.key, entry.message());
                return Ok(());
            }
            self.of_pieces.tag = None;
            let Some(tree) = self.trees.next() else {
                self.merge = None;
                return Ok(());
            };
            let sources = self.spilled.of(tree).iter().map(|piece| {
                let mut cursor = SortedRunsCursor::bulk(&self.engine.cx, piece);
                cursor.seek_first().map(|()| cursor)
            });
            self.merge = Some((tree, MergeCursor::new(sources.collect::<Result<Vec<_>>>()?)));
        }
    }

    fn advance_record(&mut self) -> Result<()> {
        self.of_record.tag = None;
        if let Some(Item::Entry { tree, key, tag, payload }) = self.items.next()? {
            self.of_record.set(tree, key, Message::new(tag, payload));
        }
        Ok(())
    }
}

/// Holds the runs, if they still exist.
fn hold_runs(
    engine: &Engine,
    links: &[[u8; crate::page::LINK_BYTES]],
) -> Result<Option<SortedRuns>> {
    let links: Vec<Link> = links.iter().map(Link::from_disk).collect();
    let Some(first) = links.first() else { return Ok(None) };
    let mut pages = HeldPages::new(&engine.store, first.birth, first.lineage);
    for &Link { offset, bytes, .. } in &links {
        if !pages.hold_if_named(Extent { offset, bytes }) {
            return Ok(None);
        }
    }
    match SortedRuns::on_disk(&engine.cx, &links, pages) {
        Ok(runs) => Ok(Some(runs)),
        // Their space was reused.
        Err(error) if error.kind() == crate::ErrorKind::Restore => Ok(None),
        Err(error) => Err(error),
    }
}
