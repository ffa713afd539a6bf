//! Replay: repeats what the log records after the boundary, record by record in log order.
//!
//! Invariants
//! 1. Seqnos ascend; a record at or below the boundary is skipped (Rule: I9).
//! 2. At each record, the set of prepared transactions is what it was when the record was written;
//!    so a record that commits one of them finds its content.
//!
//! Threads: the one that opens the store.

use std::collections::BTreeMap;

use crate::{
    Error, Place, Result, Seqno, TreeId,
    blob::BlobHold,
    block::Codec,
    catalog::{CATALOG_TREE, Catalog, Pieces},
    db::{
        Cursor, Shared, Snapshot,
        open::log_extent::extent_of,
        session::prepared::{TreeChange, blobs_of, content_of, each_change, runs_of},
    },
    page::{
        FEATURE_ALPHABETS, FEATURE_COLUMNAR_RUNS, FEATURE_DICTIONARIES, FEATURE_TEMPLATES,
        FEATURE_TRANSPOSED_BLOCKS,
    },
    pipeline::Engine,
    store::{Extent, HeldPages, Link, PageKind, TreeRoot as DurableRoot},
    sync::{Arc, Ordering},
    tree::SortedRuns,
    types::{Counts, Lsn, Xid},
    version::{Change, Loaded, MemtableRef, SpilledWrites},
    wal::{self, Item, Record},
};

/// A running replay.
pub(in crate::db) struct Replay<'a> {
    pub engine: &'a Engine,
    pub catalog: &'a Catalog,
    /// The boundary: the last commit that the trees hold.
    pub applied: Seqno,
    /// The transactions that are prepared at this point of the log.
    pub prepared: Pieces,
}

impl Replay<'_> {
    /// Replays one log record.
    pub fn record(&mut self, lsn: Lsn, payload: &[u8]) -> Result<()> {
        let (seqno, mut items) = match wal::decode(lsn, payload)? {
            Record::Commit { seqno, items } => (seqno, items.with_counts()),
            Record::Keeps { .. } | Record::Checkpoint { .. } => return Ok(()),
        };
        let Self { engine, catalog, applied, prepared } = self;
        let (engine, catalog, applied) = (*engine, *catalog, *applied);
        if seqno <= applied && !plant!("db: replay what a tree already holds") {
            return Ok(());
        }
        let pieces = spilled_again(engine, prepared, lsn, payload)?;
        let mut section = engine.enter();
        if pieces.is_some() && section.last() > section.active.base {
            let log_from = section.active.log_from();
            let last = engine.freeze_at(&mut section, log_from);
            drop(section);
            engine.apply_through(last)?;
            write_begun(engine)?;
            section = engine.enter();
        } else if engine.log.is_some() && engine.memtable_is_full(&section.active) {
            // Not this record's position: replay must start at a group, and the slot's position is
            // the only one known to be the start of a group. Records that are applied by then are
            // skipped by their seqno.
            let log_from = section.active.log_from();
            let last = engine.freeze_at(&mut section, log_from);
            drop(section);
            engine.apply_in_replay(last)?;
            section = engine.enter();
        }
        let slot = section.assign_replayed(seqno);
        slot.log_bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
        drop(section);
        // Noted before anything is inserted, as the commit itself did.
        let mut changes: Vec<Change> = pieces.into_iter().collect();
        slot.note(&changes);
        let spilled = changes.len();
        let mut rows = Rows::default();
        let mut pages = Vec::new();
        let mut blobs = Vec::new();
        let mut ranges = RangesOfTrees::default();
        while let Some(item) = items.next()? {
            match item {
                Item::Counter { tree, counter, next } => {
                    let mut counts = Counts::default();
                    counts[usize::from(counter)] = next;
                    catalog.by_id(tree).inspect(|tree| tree.counters.raise(counts));
                }
                Item::Rows { tree, more } => rows.are_more(tree, more),
                Item::Entry { tree, key, tag, payload } => {
                    rows.change(tree);
                    slot.table.insert(tree, seqno, std::iter::once((key, tag, payload)));
                    if tree == CATALOG_TREE {
                        let value = tag.is_put().then_some(payload);
                        if prepared.learn(engine, (key, value), true)? {
                            continue;
                        }
                        let malformed = |why| malformed_catalog(engine, why);
                        let known = (catalog, &*engine.cx.operators);
                        let shown =
                            Shared::show_record(known, key, value, Some(seqno), &malformed)?;
                        changes.extend(shown);
                    }
                }
                Item::DeleteRange { tree, from, to } => {
                    rows.change(tree);
                    ranges.push(tree, from, to);
                }
                Item::Extent(extent) => {
                    let extent = extent_of(&engine.store, extent)?;
                    blobs.push(BlobHold::new(&engine.store, extent));
                    slot.keep_blobs(&blobs[blobs.len() - 1..]);
                }
                Item::Page { kind, extent } => {
                    pages.push((kind, extent_of(&engine.store, extent)?));
                }
                Item::Prepared { xid, .. } => {
                    let xid = Xid::new(xid)?;
                    let brings = (&mut rows, &mut ranges);
                    insert_prepared(engine, prepared, &xid, (seqno, &slot), brings)?;
                }
                Item::Runs { .. } => {}
                Item::Root { tree, root } => {
                    let (pages, blobs) = (std::mem::take(&mut pages), std::mem::take(&mut blobs));
                    changes.push(load_again(engine, tree, root, pages, blobs)?);
                }
            }
        }
        ranges.insert(seqno, &slot);
        changes
            .iter()
            .filter_map(Change::loaded_tree)
            .for_each(|loaded| expect(engine, loaded.tree));
        rows.change_beyond_memory(&changes[..spilled]);
        slot.count(rows.0);
        engine.sequencer.jump_visible(seqno);
        slot.writers.fetch_sub(1, Ordering::Release);
        slot.note(&changes[spilled..]);
        if changes.iter().any(Change::ends_memtable) {
            let mut section = engine.enter();
            let log_from = section.active.log_from();
            engine.freeze_at(&mut section, log_from);
            drop(section);
            // Before the next record, which may remove trees from the catalog.
            engine.apply_through(seqno)?;
            write_begun(engine)?;
        }
        Ok(())
    }
}

/// Writes the versions in which branches begin, as they are. If the disk has no space, this is left
/// to the background, like the checkpoint that ends the recovery.
fn write_begun(engine: &Engine) -> Result<()> {
    if plant!("db: a replay on a full disk ends where a branch begins") {
        while engine.log.is_some() && engine.write_begun()? {}
        return Ok(());
    }
    while engine.log.is_some() && engine.with_room(|| engine.write_begun())? {}
    Ok(())
}

/// Inserts the content of a prepared transaction that is committed now.
fn insert_prepared(
    engine: &Engine,
    prepared: &Pieces,
    xid: &Xid,
    (seqno, slot): (Seqno, &MemtableRef),
    (rows, ranges): (&mut Rows, &mut RangesOfTrees),
) -> Result<()> {
    let content = content_of(engine, prepared, xid)?;
    slot.keep_blobs(&blobs_of(engine, xid, &content)?);
    each_change(engine, xid, &content, |change| match change {
        TreeChange::Rows(tree, more) => rows.are_more(tree, more),
        TreeChange::Entry(tree, key, tag, payload) => {
            rows.change(tree);
            slot.table.insert(tree, seqno, std::iter::once((key, tag, payload)));
        }
        TreeChange::DeleteRange(tree, from, to) => {
            rows.change(tree);
            ranges.push(tree, from, to);
        }
    })?;
    engine.in_doubt.commit(xid, seqno);
    Ok(())
}

/// Range deletes of one commit, by tree: a memtable takes all those of a tree at once.
#[derive(Default)]
struct RangesOfTrees(BTreeMap<TreeId, Vec<(Vec<u8>, Vec<u8>)>>);

impl RangesOfTrees {
    fn push(&mut self, tree: TreeId, from: &[u8], to: &[u8]) {
        self.0.entry(tree).or_default().push((from.to_vec(), to.to_vec()));
    }

    fn insert(&self, seqno: Seqno, slot: &MemtableRef) {
        for (&tree, ranges) in &self.0 {
            let ranges = ranges.iter().map(|(from, to)| (&from[..], &to[..]));
            slot.table.delete_ranges(tree, seqno, ranges);
        }
    }
}

/// The rows that a commit has spilled, if any: its record names the runs first; for a
/// prepared transaction, its content does.
fn spilled_again(
    engine: &Engine,
    prepared: &Pieces,
    lsn: Lsn,
    payload: &[u8],
) -> Result<Option<Change>> {
    let Record::Commit { mut items, .. } = wal::decode(lsn, payload)? else { return Ok(None) };
    let mut spilled = SpilledWrites::default();
    while let Some(Item::Runs { tree, links }) = items.next()? {
        let links: Vec<Link> = links.iter().map(Link::from_disk).collect();
        let Some(first) = links.first() else { continue };
        let mut pages = HeldPages::new(&engine.store, first.birth, first.lineage);
        for &Link { offset, bytes, .. } in &links {
            pages.hold(PageKind::Run, Extent { offset, bytes });
        }
        let piece = SortedRuns::on_disk(&engine.cx, &links, pages)?;
        spilled.push_older(tree, Arc::new(piece));
    }
    if spilled.entries() > 0 {
        return Ok(Some(Change::Spill(Arc::new(spilled))));
    }
    let Record::Commit { mut items, .. } = wal::decode(lsn, payload)? else { return Ok(None) };
    while let Some(item) = items.next()? {
        match item {
            // Records of an earlier version of Frond name the extents here.
            Item::Extent(_) | Item::Page { .. } => {}
            Item::Prepared { xid, .. } => {
                let xid = Xid::new(xid)?;
                return runs_of(engine, &xid, &content_of(engine, prepared, &xid)?);
            }
            _ => break,
        }
    }
    Ok(None)
}

/// Changes of row counts by one commit, as its record says; unknown for trees that it changes
/// without a count.
#[derive(Default)]
struct Rows(Vec<(TreeId, Option<i64>)>);

impl Rows {
    fn are_more(&mut self, tree: TreeId, more: i64) {
        self.0.push((tree, Some(more)));
    }

    fn change(&mut self, tree: TreeId) {
        if self.0.last().is_none_or(|(last, _)| *last != tree) {
            self.0.push((tree, None));
        }
    }

    /// Adds trees of which rows were spilled.
    fn change_beyond_memory(&mut self, spilled: &[Change]) {
        for tree in spilled.iter().filter_map(Change::spilled).flat_map(|spilled| spilled.trees()) {
            if !self.0.iter().any(|(of, _)| *of == tree) {
                self.0.push((tree, None));
            }
        }
    }
}

/// The change for a bulk load; its pages are already in their places.
fn load_again(
    engine: &Engine,
    tree: TreeId,
    root: &[u8],
    pages: Vec<(PageKind, Extent)>,
    blobs: Vec<Arc<BlobHold>>,
) -> Result<Change> {
    let file = engine.store.file();
    let bad = |why: String| file.malformed(0, root.len() as u64, "the root of a loaded tree", why);
    let root = DurableRoot::from_bytes(root).map_err(bad)?;
    let link = root.link.filter(|link| {
        let extent = Extent { offset: link.offset, bytes: link.bytes };
        pages.iter().any(|(_, page)| *page == extent)
    });
    let link = link.ok_or_else(|| bad("it is none of the pages that its record brings".into()))?;
    let mut held = HeldPages::new(&engine.store, link.birth, tree.lineage());
    pages.into_iter().for_each(|(kind, extent)| held.hold(kind, extent));
    Ok(Change::Load(Arc::new(Loaded {
        tree,
        root,
        pages: Arc::new(held),
        blobs,
        instead_of: None,
    })))
}

/// Requires the features that the leaves of a loaded tree may need: they were written before the
/// store was opened, and are not read here.
fn expect(engine: &Engine, tree: TreeId) {
    let traits = engine.trees.traits(tree);
    let columnar = traits.as_ref().map(|of| of.schema.is_some());
    if columnar != Some(false) {
        engine.store.file().require(FEATURE_COLUMNAR_RUNS | FEATURE_TEMPLATES | FEATURE_ALPHABETS);
    }
    if columnar != Some(true) {
        let may_have_one = traits.is_none_or(|of| of.class.codec() == Codec::UNDER_DICTIONARY);
        let dictionaries = if may_have_one { FEATURE_DICTIONARIES } else { 0 };
        engine.store.file().require(FEATURE_TRANSPOSED_BLOCKS | dictionaries);
    }
}

fn malformed_catalog(engine: &Engine, why: String) -> Error {
    let place = Place { file: engine.store.file().path().to_owned(), offset: 0, bytes: 0 };
    Error::Malformed { place, what: "catalog entry", why }
}

/// Loads the catalog records of tree 0 at the boundary; replayed changes follow.
pub(in crate::db) fn load_catalog(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    prepared: &mut Pieces,
    at: Seqno,
) -> Result<()> {
    let snapshot = Snapshot::new(engine.clone(), None, || at);
    let mut cursor = Cursor::new(snapshot, CATALOG_TREE, None, (None, None))?;
    while let Some((key, value)) = cursor.next()? {
        if prepared.learn(engine, (key, Some(value)), false)? {
            continue;
        }
        let malformed = |why| malformed_catalog(engine, why);
        let known = (catalog, &*engine.cx.operators);
        Shared::show_record(known, key, Some(value), None, &malformed)?;
    }
    Ok(())
}
