//! `frond get`: one entry.

use std::io::Write;

use crate::{
    common::{MomentArgs, StoreArgs, output},
    fail::{Fail, Result},
    show::Form,
};

/// Print the entry of a key
///
/// The key of a tree that `frond load` wrote is given column by column; that of any other tree is
/// one word. In a word, \xNN is a byte and \\ a backslash, as `frond scan` prints them. The exit
/// code is 1 if there is no such key.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond get shop.db orders 4711
  frond get shop.db stock berlin A-100 --snapshot monday")]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Name of the tree
    tree: String,
    /// Key, one word per key column; put `--` before words that start with a hyphen, except numbers
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<String>,
    /// Print the bytes of the value unchanged
    #[arg(long)]
    raw: bool,
}

/// Runs it.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let moment = args.moment.of(&db)?;
    let tree = moment.tree(&args.tree)?;
    let form = Form::of(&db, &tree);
    let key = form.key(&args.key)?;
    let Some(value) = moment.get(&tree, &key)? else {
        return Err(Fail::Negative(format!("no such key in \"{}\"", args.tree)));
    };
    let mut out = output();
    match args.raw {
        true => out.write_all(&value)?,
        false => form.write_record(&key, &value, &mut out)?,
    }
    Ok(out.flush()?)
}
