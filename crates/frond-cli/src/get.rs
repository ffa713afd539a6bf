//! `frond get`: prints one row.

use std::io::Write;

use crate::{
    common::{SnapshotArgs, StoreArgs, output},
    fail::{Fail, Result},
    show::Form,
};

/// Print the row with a given key
///
/// In a tree that `frond load` created, pass one argument per key column; in any
/// other tree, pass the key as one argument. \xNN stands for a byte and \\ for a
/// backslash, as in the output of `frond scan`. The exit code is 1 if the key does
/// not exist.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond get shop.db orders 4711
  frond get shop.db stock berlin A-100 --snapshot monday"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    snapshot: SnapshotArgs,
    /// Name of the tree
    tree: String,
    /// Key, one argument per key column; put `--` before a text that starts with a hyphen
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<String>,
    /// Print the stored bytes of the value unchanged
    #[arg(long)]
    raw: bool,
}

/// Runs `frond get`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let view = args.snapshot.view(&db)?;
    let tree = view.tree(&args.tree)?;
    let form = Form::of(&view, &tree);
    let key = form.key(&args.key)?;
    let Some(value) = view.get(&tree, &key)? else {
        return Err(Fail::Negative(format!("no such key in \"{}\"", args.tree)));
    };
    let mut out = output();
    match args.raw {
        true => out.write_all(&value)?,
        false => form.write_record(&key, &value, &mut out)?,
    }
    Ok(out.flush()?)
}
