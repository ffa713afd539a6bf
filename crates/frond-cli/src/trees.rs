//! `frond trees`, and the table of trees in `frond stats`.

use std::io::Write;

use frond::{Db, stats::TreeSizes};
use serde::Serialize;

use crate::{
    common::{StoreArgs, grouped, output, size},
    escape::escape,
    fail::Result,
};

/// List the trees with their row counts and sizes
///
/// The column raw is the size before compression, stored the size in the store, and
/// ratio the first divided by the second. A row count that starts with ~ is an
/// estimate.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond trees shop.db
  frond trees shop.db --json | jq .name"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Print one JSON object per tree
    #[arg(long)]
    json: bool,
}

/// Runs `frond trees`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let trees = Listed::all(&db)?;
    let mut out = output();
    match args.json {
        true => {
            for tree in &trees {
                let line = serde_json::to_string(tree).expect("numbers and names have a JSON form");
                writeln!(out, "{line}")?;
            }
        }
        false => print(&trees, &mut out)?,
    }
    Ok(out.flush()?)
}

/// A tree and its sizes.
#[derive(Serialize)]
pub struct Listed {
    name: String,
    rows: u64,
    rows_exact: bool,
    raw_bytes: u64,
    /// Bytes in pages, in buffers and in memory.
    stored_bytes: u64,
}

impl Listed {
    /// All trees, by name.
    pub fn all(db: &Db) -> Result<Vec<Self>> {
        let mut trees = Vec::new();
        for info in db.trees() {
            let sizes = db.open_tree(&info.name)?.sizes()?;
            let TreeSizes { rows, rows_exact, raw_bytes, .. } = sizes;
            // Rows that are in no leaf yet are not encoded, so both sizes are the same.
            let waiting = sizes.buffered_bytes + sizes.memory_bytes;
            trees.push(Self {
                name: info.name,
                rows,
                rows_exact,
                raw_bytes: raw_bytes + sizes.blob_bytes + waiting,
                stored_bytes: sizes.disk_bytes + waiting,
            });
        }
        trees.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(trees)
    }
}

/// Prints a table of trees.
pub fn print(trees: &[Listed], out: &mut impl Write) -> Result {
    let names: Vec<String> = trees.iter().map(|tree| escape(tree.name.as_bytes())).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "{:<width$}  {:>14}  {:>9}  {:>9}  {:>5}",
        "tree", "rows", "raw", "stored", "ratio"
    )?;
    for (tree, name) in trees.iter().zip(names) {
        let exact = if tree.rows_exact { "" } else { "~" };
        let rows = format!("{exact}{}", grouped(tree.rows));
        let ratio = match tree.stored_bytes {
            0 => String::new(),
            stored => format!("{:.1}", tree.raw_bytes as f64 / stored as f64),
        };
        let (raw, stored) = (size(tree.raw_bytes), size(tree.stored_bytes));
        writeln!(out, "{name:<width$}  {rows:>14}  {raw:>9}  {stored:>9}  {ratio:>5}")?;
    }
    Ok(())
}
