//! `frond scan`: a range of entries in order.

use std::io::Write;
use std::ops::Bound;

use crate::{
    common::{MomentArgs, StoreArgs, grouped, output, say},
    fail::Result,
    show::Form,
};

/// Print entries in key order
///
/// One line per entry, with tabs between columns. Bounds are given like keys of `frond get`, but
/// with the columns of a key separated by commas; the first few columns of a key stand for all keys
/// that start with them.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Name of the tree
    tree: String,
    /// Start at this key
    #[arg(long, value_name = "KEY", value_delimiter = ',', allow_hyphen_values = true)]
    from: Vec<String>,
    /// Stop before this key
    #[arg(long, value_name = "KEY", value_delimiter = ',', allow_hyphen_values = true)]
    to: Vec<String>,
    /// Print only keys that start with this
    #[arg(long, value_name = "KEY", value_delimiter = ',', allow_hyphen_values = true,
        conflicts_with_all = ["from", "to"])]
    prefix: Vec<String>,
    /// Print only these columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Maximum number of entries
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Scan from the last key to the first
    #[arg(long)]
    reverse: bool,
    /// Print only the number of entries
    #[arg(long)]
    count: bool,
}

/// Runs it.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let moment = args.moment.of(&db)?;
    let tree = moment.tree(&args.tree)?;
    let form = Form::of(&db, &tree);
    form.check_columns(&args.columns)?;
    let (from, to) = match args.prefix.is_empty() {
        true => (form.key(&args.from)?, Some(form.key(&args.to)?).filter(|to| !to.is_empty())),
        false => {
            let prefix = form.key(&args.prefix)?;
            let end = frond::tuple::prefix_end(&prefix);
            (prefix, end)
        }
    };
    if to.as_ref().is_some_and(|to| *to <= from) {
        return crate::fail::error("--to is not after --from");
    }
    let range =
        (Bound::Included(from.as_slice()), to.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
    let mut cursor = moment.scan(&tree, range)?;
    if args.reverse {
        cursor.seek_last();
    }
    let (mut out, mut count) = (output(), 0);
    while count < args.limit {
        let entry = if args.reverse { cursor.prev()? } else { cursor.next()? };
        let Some((key, value)) = entry else { break };
        count += 1;
        if !args.count {
            writeln!(out, "{}", form.line(key, value, &args.columns)?)?;
        }
    }
    out.flush()?;
    if args.count { say(&grouped(count)) } else { Ok(()) }
}
