//! `frond index`: adds indexes to a tree that `load` created.
//!
//! Invariant: the header of the tree names an index only when it is complete. An interrupted call
//! may leave the tree of an index that no header names; the next call drops it.

use frond::{Db, Tree, load::BulkLoad};

use crate::{
    common::{StoreArgs, count_of, open_tree, say},
    escape::escape,
    fail::{Fail, Result, error},
    interrupt,
    load::{drop_left_over_index, index_options},
    rows::{Header, KeyColumn, index_name, no_column},
};

/// Add indexes to a tree that `frond load` created
///
/// Each index is a tree of its own, named TREE.by_COLUMN. The rows are read once,
/// and either all indexes are added or none. NAME:desc sorts in descending order;
/// rows without a value come first in both orders.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond index shop.db orders country
  frond index shop.db orders day:time:desc,amount:float"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the tree
    tree: String,
    /// Columns to index, as NAME or NAME:TYPE, separated by commas
    #[arg(value_name = "COLUMNS", value_delimiter = ',', required = true,
        value_parser = KeyColumn::parse)]
    columns: Vec<KeyColumn>,
}

/// Runs `frond index`.
pub fn run(args: Args) -> Result {
    let db = args.store.open_to_write()?;
    let tree = open_tree(&db, &args.tree)?;
    let Some(mut header) = Header::of(&tree) else {
        return error(format!("tree \"{}\" was not created by `frond load`", args.tree));
    };
    must_be_new(&header, &args.columns)?;
    for column in &args.columns {
        drop_left_over_index(&db, &args.tree, column)?;
    }
    interrupt::catch("stopping")?;
    let rows = build(&db, &tree, &header, &args.columns)?;
    header.indexes.extend_from_slice(&args.columns);
    db.change_trees().set_attributes(args.tree.as_str(), header.to_attributes()).commit()?;
    db.close()?;
    let names = args.columns.iter().map(|column| format!("\"{}\"", index_name(&args.tree, column)));
    let names = names.collect::<Vec<_>>().join(", ");
    say(&format!("{} indexed in {names}", count_of(rows, "row")))
}

/// Checks that the columns exist and have no index.
fn must_be_new(header: &Header, columns: &[KeyColumn]) -> Result {
    for (at, column) in columns.iter().enumerate() {
        let name = &column.name;
        if !header.columns.contains(name) {
            return error(no_column(name, &header.columns));
        }
        let before = header.indexes.iter().chain(&columns[..at]);
        if let Some(other) = before.into_iter().find(|other| other.name == *name) {
            return error(format!("\"{name}\" is already indexed, as {other}"));
        }
    }
    Ok(())
}

/// Writes the indexes, and returns the number of rows.
fn build(db: &Db, tree: &Tree, header: &Header, columns: &[KeyColumn]) -> Result<u64> {
    let (name, class) = (tree.name(), tree.info().options.size_class);
    let header = Header { indexes: columns.to_vec(), ..header.clone() };
    let load = |column| {
        db.bulk_load(&index_name(&name, column), index_options(class, &name, &header, column))
    };
    let mut loads = columns.iter().map(load).collect::<frond::Result<Vec<_>>>()?;
    let (mut rows, mut cursor) = (0, tree.scan(..)?);
    while let Some((key, row)) = cursor.next()? {
        let index_keys = header.index_keys(key, row).map_err(|why| {
            let words = header.decode_key(key).unwrap_or_else(|_| vec![key.to_vec()]);
            let words: Vec<String> = words.iter().map(|word| escape(word)).collect();
            Fail::Error(format!("row {}: {why}; no index was added", words.join(" ")))
        })?;
        for (load, index_key) in loads.iter_mut().zip(index_keys) {
            load.put(index_key, b"")?;
        }
        rows += 1;
        if interrupt::is_requested() {
            return Err(Fail::Interrupted("interrupted; no index was added".to_owned()));
        }
    }
    BulkLoad::finish_all(loads)?;
    Ok(rows)
}
