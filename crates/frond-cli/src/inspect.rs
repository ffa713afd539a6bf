//! `frond inspect`: the structure of trees, level by level, and the size of each column.

use std::io::Write;

use frond::{
    Tree,
    check::{TreeColumns, TreeShape},
};

use crate::{
    columns,
    common::{StoreArgs, grouped, open_tree, output, size},
    fail::Result,
};

/// Print the structure of trees: levels, nodes, buffers, leaves
///
/// Commits that are still only in the log are not counted.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond inspect shop.db
  frond inspect shop.db orders --columns"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the tree (default: all trees)
    #[arg(value_name = "TREE")]
    tree: Option<String>,
    /// Print size and encoding of each column of the rows in leaves; reads every leaf
    #[arg(long)]
    columns: bool,
    /// With --columns: read only one in N leaves
    #[arg(long, value_name = "N", default_value_t = 1, requires = "columns")]
    one_in: u64,
    /// Print one JSON object per tree
    #[arg(long)]
    json: bool,
}

/// Runs `frond inspect`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let names = match &args.tree {
        Some(name) => vec![open_tree(&db, name)?.info().name],
        None => db.trees().into_iter().map(|tree| tree.name).collect(),
    };
    let mut out = output();
    for name in names {
        let tree = open_tree(&db, &name)?;
        let columns = if args.columns { Some(tree.column_sizes(args.one_in)?) } else { None };
        print(&tree, &name, columns.as_ref(), args.json, &mut out)?;
    }
    Ok(out.flush()?)
}

fn print(
    tree: &Tree,
    name: &str,
    columns: Option<&TreeColumns>,
    json: bool,
    out: &mut impl Write,
) -> Result {
    let shape = tree.shape()?;
    if json {
        let mut object = serde_json::json!({ "tree": name, "levels": levels(&shape) });
        if let Some(columns) = columns {
            object["columns"] = columns::json(columns);
        }
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "tree \"{name}\"{}", if shape.levels.is_empty() { ": no pages" } else { "" })?;
    for level in &shape.levels {
        let (nodes, bytes) = (grouped(level.nodes), size(level.bytes));
        if level.level == 0 {
            let each = size(level.bytes / level.nodes.max(1));
            let (entries, placeholder) = (grouped(level.entries), grouped(level.placeholder));
            writeln!(
                out,
                "  leaves  {nodes:>9}: {bytes} ({each} each), {entries} entries, {placeholder} placeholders"
            )?;
        } else {
            writeln!(
                out,
                "  level {:<2}{nodes:>9}: {} children ({} to {} per node), {bytes} buffered in {} tiers (at most {} per node), {} run slices",
                level.level,
                grouped(level.children),
                level.children_min,
                level.children_max,
                grouped(level.tiers),
                level.tiers_max,
                grouped(level.parts),
            )?;
        }
    }
    columns.map_or(Ok(()), |columns| columns::print(columns, out))
}

fn levels(shape: &TreeShape) -> Vec<serde_json::Value> {
    let level = |level: &frond::check::LevelShape| {
        serde_json::json!({
            "level": level.level,
            "nodes": level.nodes,
            "children": level.children,
            "children_min": level.children_min,
            "children_max": level.children_max,
            "bytes": level.bytes,
            "tiers": level.tiers,
            "tiers_max": level.tiers_max,
            "parts": level.parts,
            "entries": level.entries,
            "placeholder": level.placeholder,
        })
    };
    shape.levels.iter().map(level).collect()
}
