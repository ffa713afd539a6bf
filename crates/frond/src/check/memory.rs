// SPDX-License-Identifier: MIT OR Apache-2.0
//! The current version of an open store, as it stands in memory: pages that no checkpoint has written
//! yet among it.

use crate::{
    TreeId,
    catalog::CATALOG_TREE,
    db::Shared,
    error::Result,
    pipeline::Engine,
    sync::Arc,
    tree::{Child, NodeRef, Root, RunHandle},
    version::Version,
};
use std::collections::HashMap;

use super::{
    catalog::Names,
    report::{CheckMode, CheckReport, Finding, damage, from_error},
    tree::{ScannedRuns, Scope, Walk},
};

/// Walks every tree of the current version.
pub(super) fn check_memory(
    shared: &Shared,
    mode: CheckMode,
    report: &mut CheckReport,
    scanned: &mut ScannedRuns,
) {
    let engine = &shared.engine;
    let version = engine.versions.hold();
    let before = report.checked.trees;
    let mut walk = Walk::new(&engine.cx, mode, report, scanned, None);
    for (&tree, root) in version.roots.iter() {
        let inherits = version.branches.inherits.get(&tree).cloned().unwrap_or_default();
        walk.tree(&Scope { inherits, ..scope(shared, tree) }, root);
    }
    report.checked.trees = before;
    if mode == CheckMode::Full {
        check_references(shared, report);
    }
}

fn scope(shared: &Shared, tree: TreeId) -> Scope {
    match shared.catalog.by_id(tree) {
        Some(entry) if tree != CATALOG_TREE => Scope {
            name: entry.name().into(),
            lineage: Some(entry.lineage),
            inherits: Vec::new(),
            level: None,
        },
        _ => Names::default().scope(tree),
    }
}

/// References to runs, counted anew (Rule: I21). No tree changes meanwhile.
fn check_references(shared: &Shared, report: &mut CheckReport) {
    let engine = &shared.engine;
    let _no_job = engine.roots.lock().unwrap();
    let version = engine.versions.hold();
    let path = engine.store.file().path();
    for (&tree, _) in version.roots.iter() {
        let name = scope(shared, tree).name.to_string();
        let mut counted = HashMap::new();
        if let Err(error) = count(engine, &version, tree, &mut counted) {
            report.add(Finding { tree: Some(name), ..from_error(&error) });
            continue;
        }
        for (run, refs) in counted.into_values() {
            // What a clone inherited is counted by the tree that wrote it (Rule: I19).
            if run.lineage == tree.lineage() && run.refs() != refs {
                let what = format!("a run has {refs} references, and counts {}", run.refs());
                let offset = run.link().map_or(0, |link| link.offset);
                let (tree, file) = (Some(name.clone()), path.to_owned());
                report.add(Finding { tree, file, offset, ..damage("references", what) });
            }
        }
    }
}

/// By address; the handle beside it keeps the address from being used again.
type Counted = HashMap<usize, (Arc<RunHandle>, u32)>;

fn count(engine: &Engine, version: &Version, tree: TreeId, counted: &mut Counted) -> Result<()> {
    let Some(root) = version.roots.get(&tree) else { return Ok(()) };
    match &root.root {
        Root::Empty => {}
        Root::Leaf(leaf) => add(leaf, counted),
        Root::Node(node) => count_below(engine, node, counted)?,
    }
    Ok(())
}

fn count_below(engine: &Engine, node: &NodeRef, counted: &mut Counted) -> Result<()> {
    let content = node.glance(&engine.cx)?;
    content.run_refs().for_each(|run| add(run, counted));
    for child in &content.children {
        if let Child::Node(child) = child {
            count_below(engine, child, counted)?;
        }
    }
    Ok(())
}

fn add(run: &Arc<RunHandle>, counted: &mut Counted) {
    if run.is_hollow() {
        return; // no extent to keep, so nobody counts
    }
    let slot = counted.entry(Arc::as_ptr(run) as usize).or_insert_with(|| (run.clone(), 0));
    slot.1 += 1;
}
