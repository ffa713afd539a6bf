//! Checking the catalog of a durable version: the trees that tree 0 lists.
//!
//! Memory: the records, as in the engine.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    TreeId,
    catalog::{CATALOG_TREE, CounterRecord, Record},
    error::Result,
    message::Kind,
    run::{BlobReader, Folded, MergeCursor, RunCursor},
    store::RootDirectory,
    sync::Arc,
    tree::{Position, TreeContext, TreeRoot, clip},
    types::Lineage,
};

use super::{
    report::{CheckReport, Finding, damage, from_error, warning},
    tree::Scope,
};

/// The trees and named snapshots that the catalog lists.
#[derive(Debug, Default)]
pub(super) struct Names {
    trees: BTreeMap<TreeId, (Arc<str>, Lineage)>,
    snapshots: BTreeSet<u64>,
    /// The catalog was read to its end.
    pub is_whole: bool,
}

impl Names {
    /// The scope in which the pages of a tree are checked.
    pub fn scope(&self, tree: TreeId) -> Scope {
        let known = self.trees.get(&tree);
        let (name, lineage) = match known {
            _ if tree == CATALOG_TREE => ("(catalog)".into(), Some(Lineage(0))),
            Some((name, lineage)) => (name.clone(), Some(*lineage)),
            None => (format!("#{tree}").into(), None),
        };
        Scope { name, lineage, inherits: Vec::new(), level: None }
    }

    pub fn has(&self, tree: TreeId) -> bool {
        tree == CATALOG_TREE || self.trees.contains_key(&tree)
    }
}

/// Reads the catalog as of a version, and reports its contradictions.
pub(super) fn names(cx: &TreeContext, root: Option<&TreeRoot>, report: &mut CheckReport) -> Names {
    let mut names = Names::default();
    let mut taken = BTreeSet::new();
    let mut counters = CounterRecord::default();
    let mut bad = Vec::new();
    let path = cx.store.file().path().to_owned();
    let mut visit = |key: &[u8], value: &[u8]| match Record::decode(key, value) {
        Ok(Record::Tree(record)) => {
            if !taken.insert(record.name.clone()) {
                bad.push("two trees have the same name".to_owned());
            }
            names.trees.insert(record.id, (record.name.into(), record.lineage));
        }
        Ok(Record::Counters(record)) => counters = record,
        Ok(Record::Snapshot(record)) => {
            names.snapshots.insert(record.id.into());
        }
        Ok(_) => {}
        Err(flaw) => bad.push(format!("an entry cannot be read: {}", flaw.at(&path))),
    };
    let read = root.map_or(Ok(()), |root| rows(cx, root, &mut visit));
    names.is_whole = read.is_ok() && bad.is_empty();
    if names.trees.keys().any(|&tree| tree == CATALOG_TREE || tree >= counters.next_tree) {
        bad.push("a tree has a number that was not given out yet".to_owned());
    }
    let named =
        |what: Finding| Finding { file: path.clone(), tree: Some("(catalog)".into()), ..what };
    for what in bad {
        report.add(named(damage("catalog", what)));
    }
    if let Err(error) = read {
        report.add(Finding { tree: Some("(catalog)".into()), ..from_error(&error) });
    }
    names
}

/// Reports roots of trees that are not in the catalog. A crash between a drop and the next apply
/// leaves such roots, and the next apply removes them, so this is no damage.
pub(super) fn orphans(names: &Names, roots: &RootDirectory, report: &mut CheckReport) {
    for tree in roots.trees.keys().filter(|&&tree| names.is_whole && !names.has(tree)) {
        let what = format!("tree {tree} has a root and is not in the catalog: dropped just now");
        report.add(warning("orphan", what));
    }
}

/// Reports named snapshots that only one of catalog and root directory has.
pub(super) fn unlisted(names: &Names, roots: &RootDirectory, report: &mut CheckReport) {
    let listed = roots.snapshots.iter().map(|one| one.id);
    if names.is_whole && !listed.eq(names.snapshots.iter().copied()) {
        let what = "the catalog has other named snapshots than the root directory";
        report.add(damage("catalog", what.to_owned()));
    }
}

/// Visits all rows of a tree, in order. Leaf by leaf, so memory does not depend on the tree's size.
fn rows(cx: &TreeContext, root: &TreeRoot, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
    let folder = cx.folder();
    let mut made = Vec::new();
    let mut from: Option<Box<[u8]>> = None;
    loop {
        let stretch = match &from {
            None => root.stretch(cx, Position::First)?,
            Some(from) => root.stretch(cx, Position::At(from))?,
        };
        let leaf = (stretch.lo.as_deref(), stretch.hi.as_deref());
        let mut sources = Vec::with_capacity(stretch.runs.len());
        for part in &stretch.runs {
            let (lo, hi) = clip((part.lo.as_deref(), part.hi.as_deref()), leaf);
            let mut cursor = RunCursor::bulk(part.run.glance(cx)?).range(lo, hi);
            cursor.seek_first()?;
            sources.push(cursor);
        }
        let mut merge = MergeCursor::new(sources);
        while let Some(entry) = merge.next_folded(&folder)? {
            match folder.for_leaf(entry.message(), &mut made)? {
                Folded::Newer(tag) if tag.kind() == Kind::PutBlob => {
                    visit(entry.key, &cx.read_blob(entry.payload)?);
                }
                Folded::Newer(_) => visit(entry.key, entry.payload),
                Folded::Made(_) => visit(entry.key, &made),
                Folded::Nothing => {}
            }
        }
        match stretch.hi {
            Some(hi) => from = Some(hi),
            None => return Ok(()),
        }
    }
}
