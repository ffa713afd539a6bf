//! `frond put`, `frond delete` and `frond drop`: small changes by hand.
//!
//! Invariant: a row of a loaded tree and its index entries change in one commit.

use frond::{Batch, Tree, TreeOptions};

use crate::{
    common::{ReadView, StoreArgs, open_or_create, open_tree, say},
    escape::{unescape, unescape_or_null},
    fail::{Fail, Result, error},
    load::{Target, standing_indexes},
    rows::{Header, RowBuilder},
    show::Form,
};

/// Insert or replace one row
///
/// In a tree that `frond load` created, pass the row as COLUMN=VALUE arguments;
/// columns that are left out are null. In any other tree, pass a key and a value,
/// in which \xNN stands for a byte. A row with the same key is replaced.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond put shop.db orders id=4711 country=DE amount=9.50
  frond put settings.db settings colour blue --create"
)]
pub struct PutArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the tree
    tree: String,
    /// The row as COLUMN=VALUE ..., or a key and a value
    #[arg(required = true, value_name = "ROW", allow_negative_numbers = true)]
    words: Vec<String>,
    /// Create the store and the tree if they do not exist
    #[arg(long)]
    create: bool,
}

/// Delete one row
///
/// Pass the key as for `frond get`. The exit code is 1 if the key does not exist.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Example:
  frond delete shop.db orders 4711"
)]
pub struct DeleteArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the tree
    tree: String,
    /// Key, one argument per key column; put `--` before a text that starts with a hyphen
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<String>,
}

/// Drop a tree or table with its indexes, or a single index
///
/// The space becomes free, unless a named snapshot still needs it. Snapshots still
/// show the tree.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond drop shop.db orders
  frond drop shop.db orders.by_country"
)]
pub struct DropArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Name of the tree
    tree: String,
}

/// Runs `frond put`.
pub fn put(args: PutArgs) -> Result {
    let db = match args.create {
        true => {
            if !args.store.dir.join("store.frond").exists() {
                // A mistake in the arguments creates nothing.
                plain_entry(&args)?;
            }
            open_or_create(&args.store.dir, frond::Options::new().cache_size(args.store.memory))?
        }
        false => args.store.open_to_write()?,
    };
    let tree = match (args.create, db.open_tree(&args.tree)) {
        (true, Err(frond::Error::NoSuchTree(_))) => {
            plain_entry(&args)?;
            db.create_tree(&args.tree, TreeOptions::default())?
        }
        (_, Ok(tree)) => tree,
        _ => open_tree(&db, &args.tree)?,
    };
    must_be_of_no_table(&tree)?;
    let mut batch = Batch::new();
    match Form::of(&ReadView::Current(db.clone()), &tree) {
        Form::Rows(header) => {
            let row = row_of(&header, &args.words)?;
            replace_row(&Target::of(&db, tree, header)?, &row, &mut batch)?;
        }
        Form::Index(index, _) => return error(cannot_change_index(&args.tree, &index.of)),
        Form::Plain => {
            let (key, value) = plain_entry(&args)?;
            batch.put(&tree, &key, &value)?;
        }
    }
    db.commit(&mut batch)?;
    Ok(db.close()?)
}

/// The key and the value for a tree without columns.
fn plain_entry(args: &PutArgs) -> Result<(Vec<u8>, Vec<u8>)> {
    let [key, value] = args.words.as_slice() else {
        return error(format!("pass a key and a value: \"{}\" has no columns", args.tree));
    };
    Ok((unescape(key).map_err(Fail::Error)?, unescape(value).map_err(Fail::Error)?))
}

/// Builds a row from words of the form `COLUMN=VALUE`.
fn row_of(header: &Header, words: &[String]) -> Result<RowBuilder> {
    if header.key.is_empty() {
        return error("this tree has no key columns; only `frond load` can add rows to it");
    }
    let (mut row, mut given) = (RowBuilder::new(header), Vec::new());
    for word in words {
        let Some((name, value)) = word.split_once('=') else {
            return error(format!("\"{word}\" is not of the form COLUMN=VALUE"));
        };
        let Some(column) = header.columns.iter().position(|column| column == name) else {
            let columns = header.columns.join(", ");
            return error(format!("no column \"{name}\"; existing columns: {columns}"));
        };
        if given.contains(&column) {
            return error(format!("column \"{name}\" is given twice"));
        }
        given.push(column);
        if let Some(value) = unescape_or_null(value).map_err(Fail::Error)? {
            row.set(column, &value);
        }
    }
    row.finish(header, 0).map_err(Fail::Error)?;
    Ok(row)
}

/// Adds a row to a batch, in the place of the row with the same key if there is one.
fn replace_row(target: &Target, row: &RowBuilder, batch: &mut Batch) -> Result {
    let key = row.key();
    if let Some(old) = target.tree.get(key)? {
        target.delete_entries(key, &old, batch)?;
    }
    batch.put(&target.tree, key, row.row())?;
    let mut index_key = Vec::new();
    for (at, index) in target.indexes.iter().enumerate() {
        row.index_key(&target.header, at, &mut index_key).map_err(Fail::Error)?;
        batch.put(index, &index_key, b"")?;
    }
    Ok(())
}

/// Runs `frond delete`.
pub fn delete(args: DeleteArgs) -> Result {
    let db = args.store.open_to_write()?;
    let tree = open_tree(&db, &args.tree)?;
    must_be_of_no_table(&tree)?;
    let form = Form::of(&ReadView::Current(db.clone()), &tree);
    let key = form.key(&args.key)?;
    let mut batch = Batch::new();
    if let Form::Index(index, _) = form {
        return error(cannot_change_index(&args.tree, &index.of));
    }
    let Some(row) = tree.get(&key)? else {
        return Err(Fail::Negative(format!("no such key in \"{}\"", args.tree)));
    };
    batch.delete(&tree, &key)?;
    if let Form::Rows(header) = form {
        Target::of(&db, tree, header)?.delete_entries(&key, &row, &mut batch)?;
    }
    db.commit(&mut batch)?;
    Ok(db.close()?)
}

/// Runs `frond drop`.
pub fn drop(args: DropArgs) -> Result {
    let db = args.store.open_to_write()?;
    let tree = open_tree(&db, &args.tree)?;
    if tree.table().as_ref() == Some(&args.tree) {
        let trees = db.trees().len();
        db.drop_table(&args.tree)?;
        let indexes = trees - db.trees().len() - 1;
        db.close()?;
        return say_dropped(&args.tree, indexes);
    }
    must_be_of_no_table(&tree)?;
    let mut change = db.change_trees();
    change.drop_tree(args.tree.as_str());
    let mut indexes = 0;
    match Form::of(&ReadView::Current(db.clone()), &tree) {
        Form::Rows(header) => {
            for index in standing_indexes(&db, &args.tree, &header)? {
                change.drop_tree(index.as_str());
                indexes += 1;
            }
        }
        Form::Index(index, mut header) => {
            header.indexes.retain(|column| *column != index.column);
            change.set_attributes(index.of.as_str(), header.to_attributes());
        }
        Form::Plain => {}
    }
    change.commit()?;
    db.close()?;
    say_dropped(&args.tree, indexes)
}

fn say_dropped(tree: &str, indexes: usize) -> Result {
    say(&match indexes {
        0 => format!("dropped \"{tree}\""),
        1 => format!("dropped \"{tree}\" and its index"),
        more => format!("dropped \"{tree}\" and its {more} indexes"),
    })
}

/// Fails if a tree belongs to a table: only the program that defines the table can compute the
/// entries of its indexes.
fn must_be_of_no_table(tree: &Tree) -> Result {
    match (tree.name(), tree.table()) {
        (_, None) => Ok(()),
        (name, Some(table)) if name == table => error(format!(
            "\"{name}\" is a table: only the program that defines its indexes can change its rows"
        )),
        (name, Some(table)) => error(format!(
            "\"{name}\" is an index of table \"{table}\": only the program that defines it can change it"
        )),
    }
}

fn cannot_change_index(name: &str, of: &str) -> String {
    format!("\"{name}\" is an index of \"{of}\" and cannot be changed directly")
}
