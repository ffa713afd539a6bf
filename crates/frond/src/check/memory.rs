//! Checking the current version of an open store in memory, including pages that no checkpoint has
//! written yet.

use crate::{
    TreeId,
    catalog::CATALOG_TREE,
    db::Shared,
    error::Result,
    pipeline::Engine,
    sync::Arc,
    tree::{Child, NodeRef, Root, RunHandle, TreeRoot},
    types::Sums,
};
use std::collections::HashMap;

use super::{
    catalog::Names,
    report::{CheckMode, CheckReport, Finding, damage, from_error},
    tree::{ScannedRuns, Scope, Walk},
};

/// Checks every tree of the current version.
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

/// Recounts the references to runs (Rule: I21). No tree changes meanwhile.
fn check_references(shared: &Shared, report: &mut CheckReport) {
    let engine = &shared.engine;
    let _no_job = engine.roots.lock().unwrap();
    let version = engine.versions.hold();
    let path = engine.store.file().path();
    for (&tree, root) in version.roots.iter() {
        let name = scope(shared, tree).name.to_string();
        let mut counted = HashMap::new();
        let sums = match count(engine, root, &mut counted) {
            Ok(sums) => sums,
            Err(error) => {
                report.add(Finding { tree: Some(name), ..from_error(&error) });
                continue;
            }
        };
        // Invariant 1 of `tree/sums.rs`.
        if let Some(known) = root.known_sums().filter(|known| *known != sums) {
            let what = format!("the tree holds {sums:?}, and counts {known:?}");
            let (tree, file) = (Some(name.clone()), path.to_owned());
            report.add(Finding { tree, file, ..damage("sums", what) });
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

/// Run references by address; holding the handle prevents reuse of the address.
type Counted = HashMap<usize, (Arc<RunHandle>, u32)>;

/// Counts the references to runs; returns the tree's sums.
fn count(engine: &Engine, root: &TreeRoot, counted: &mut Counted) -> Result<Sums> {
    match &root.root {
        Root::Empty => Ok(Sums::default()),
        Root::Leaf(leaf) => {
            add(leaf, counted);
            Ok(leaf.sums())
        }
        Root::Node(node) => count_below(engine, node, counted),
    }
}

fn count_below(engine: &Engine, node: &NodeRef, counted: &mut Counted) -> Result<Sums> {
    let content = node.glance(&engine.cx)?;
    content.run_refs().for_each(|run| add(run, counted));
    let mut sums = content.sums();
    for child in &content.children {
        if let Child::Node(child) = child {
            sums = sums.plus(count_below(engine, child, counted)?);
        }
    }
    Ok(sums)
}

fn add(run: &Arc<RunHandle>, counted: &mut Counted) {
    if run.is_placeholder() {
        return; // no extent to keep, so it has no count
    }
    let slot = counted.entry(Arc::as_ptr(run) as usize).or_insert_with(|| (run.clone(), 0));
    slot.1 += 1;
}
