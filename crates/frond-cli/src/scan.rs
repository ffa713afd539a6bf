//! `frond scan`: entries of a tree in order.

use std::{io::Write, ops::Bound};

use frond::{Cursor, Tree};

use crate::{
    common::{ReadView, SnapshotArgs, StoreArgs, output, parse_count, say},
    fail::{Result, error},
    lines::{Format, Printer},
    rows::index_name,
    show::Form,
};

/// Print rows in key order
///
/// --from, --to and --prefix take a key, or its first columns, separated by commas.
/// Within a column, write \, for a comma and \xNN for a byte; \N is null.
///
/// --prefix DE matches every value that starts with DE. --prefix DE, with a comma
/// at the end, matches exactly DE. A number always needs the comma.
///
/// For a column of times, a key may be a year (2026), a month (2026-01), a day, an
/// hour, a minute or a second: --prefix finds all times in it, and --from and --to
/// mean its first moment.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond scan shop.db orders --from 100 --to 200
  frond scan shop.db orders --by country --prefix DE
  frond scan shop.db orders --columns id,amount --format csv --header
  frond scan shop.db orders --reverse --limit 10"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    snapshot: SnapshotArgs,
    /// Name of the tree
    tree: String,
    /// Scan the index on this column; --from, --to and --prefix then apply to the index
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// Start at this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Stop before this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Print only keys that start with this; for a time, a year, month, day, hour, …
    #[arg(long, value_name = "KEY", allow_hyphen_values = true,
        conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
    /// Print only these columns
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Vec<String>,
    /// Print at most N rows
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true,
        allow_negative_numbers = true, value_parser = parse_count)]
    limit: u64,
    /// Print rows in reverse order
    #[arg(long)]
    reverse: bool,
    /// Print only the number of rows
    #[arg(long)]
    count: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the column names first
    #[arg(long)]
    header: bool,
}

/// Runs `frond scan`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let view = args.snapshot.view(&db)?;
    let tree = view.tree(&args.tree)?;
    let form = Form::of(&view, &tree);
    let by = args.by.as_ref().map(|column| index(&view, &tree, &form, column));
    let by = by.transpose()?.map(|index| (Form::of(&view, &index), index));
    let (keys, scanned) = by.as_ref().map_or((&form, &tree), |(form, index)| (form, index));
    let mut cursor = view.scan(scanned, bounds(&args, keys)?)?;
    if args.reverse {
        cursor.seek_last();
    }
    let step = if args.reverse { Cursor::prev } else { Cursor::next };
    if args.count {
        let mut count = 0u64;
        while count < args.limit && step(&mut cursor)?.is_some() {
            count += 1;
        }
        return say(&count.to_string());
    }
    let mut printer = Printer::new(&args.tree, form, args.format, &args.columns)?;
    let mut out = output();
    if args.header {
        printer.header(&mut out)?;
    }
    let mut count = 0;
    while count < args.limit
        && let Some((key, value)) = step(&mut cursor)?
    {
        match &by {
            None => printer.entry(key, value, &mut out)?,
            Some((form, _)) => {
                let key = form.row_key(key)?;
                let Some(value) = view.get(&tree, key)? else {
                    let name = &args.tree;
                    return error(format!("an index entry of \"{name}\" has no row"));
                };
                printer.entry(key, &value, &mut out)?;
            }
        }
        count += 1;
    }
    Ok(out.flush()?)
}

/// The index of a tree on a column.
fn index(view: &ReadView, tree: &Tree, form: &Form, column: &str) -> Result<Tree> {
    let name = tree.info().name;
    let tree = match tree.table() {
        None => &*name,
        Some(_) => {
            return error(format!(
                "\"{name}\" is a table, whose indexes only the program that defines them can read"
            ));
        }
    };
    let indexes = match form {
        Form::Rows(header) => header.indexes.as_slice(),
        _ => &[],
    };
    if let Some(found) = indexes.iter().find(|index| index.name == column) {
        return view.tree(&index_name(tree, found));
    }
    let names: Vec<&str> = indexes.iter().map(|index| index.name.as_str()).collect();
    error(match names.is_empty() {
        true => format!("\"{tree}\" has no indexes"),
        false => format!("no index on \"{column}\"; indexed columns: {}", names.join(", ")),
    })
}

/// The range of keys that the call selects.
fn bounds(args: &Args, form: &Form) -> Result<(Bound<Vec<u8>>, Bound<Vec<u8>>)> {
    if let Some(prefix) = &args.prefix {
        return form.prefix(prefix);
    }
    let bound = |text: &Option<String>| text.as_ref().map(|text| form.bound(text));
    let (from, to) = (bound(&args.from).transpose()?.unwrap_or_default(), bound(&args.to));
    let to = to.transpose()?;
    match to.as_ref().is_some_and(|to| *to <= from) {
        true => error("--to must come after --from"),
        false => Ok((Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded))),
    }
}
