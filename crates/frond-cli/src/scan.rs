//! `frond scan` and `frond export`: entries of a tree in order.

use std::{
    fs::File,
    io::{BufWriter, Write},
    ops::Bound,
    path::{Path, PathBuf},
};

use frond::{Cursor, Tree};

use crate::{
    common::{Moment, MomentArgs, StoreArgs, output, say},
    fail::{Fail, Result, error},
    lines::{Format, Printer},
    show::Form,
};

/// Print entries in key order
///
/// One line per entry. A bound is a key, or its first columns, separated by commas; \, is a comma
/// within a column, and \xNN a byte.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond scan shop.db orders --from 100 --to 200
  frond scan shop.db orders --by country --prefix DE
  frond scan shop.db orders --columns id,amount --format csv --header
  frond scan shop.db orders --reverse --limit 10")]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Name of the tree
    tree: String,
    /// Print rows in the order of this indexed column; bounds are values of the index
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// Start at this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<String>,
    /// Stop before this key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<String>,
    /// Print only keys that start with this
    #[arg(long, value_name = "KEY", allow_hyphen_values = true,
        conflicts_with_all = ["from", "to"])]
    prefix: Option<String>,
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
    /// How entries are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// Print the names of the columns first
    #[arg(long)]
    header: bool,
}

/// Write all rows of a tree to a file that `load` reads
///
/// CSV starts with the names of the columns. Null is an empty field, and empty text is "": load it
/// with --null ''. In JSON, bytes that are not UTF-8 are escaped.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  frond export shop.db orders orders.csv
  frond export shop.db orders --format json | gzip > orders.jsonl.gz")]
pub struct ExportArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    moment: MomentArgs,
    /// Name of the tree
    tree: String,
    /// File to create (default: standard output)
    file: Option<PathBuf>,
    /// Format of the file (default: by its name, otherwise csv)
    #[arg(long, value_enum)]
    format: Option<Format>,
}

/// Runs `frond scan`.
pub fn run(args: Args) -> Result {
    let db = args.store.open()?;
    let moment = args.moment.of(&db)?;
    let tree = moment.tree(&args.tree)?;
    let form = Form::of(&db, &tree);
    let index = args.by.as_ref().map(|column| index(&moment, &args.tree, &form, column));
    let index = index.transpose()?;
    let scanned = index.as_ref().unwrap_or(&tree);
    let (from, to) = bounds(&args, &Form::of(&db, scanned))?;
    let range =
        (Bound::Included(from.as_slice()), to.as_deref().map_or(Bound::Unbounded, Bound::Excluded));
    let mut cursor = moment.scan(scanned, range)?;
    if args.reverse {
        cursor.seek_last();
    }
    let next = |cursor: &mut Cursor| -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let entry = if args.reverse { cursor.prev()? } else { cursor.next()? };
        Ok(entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
    };
    if args.count {
        let mut count = 0u64;
        while count < args.limit
            && if args.reverse { cursor.prev()? } else { cursor.next()? }.is_some()
        {
            count += 1;
        }
        return say(&count.to_string());
    }
    let index_form = index.as_ref().map(|index| Form::of(&db, index));
    let mut printer = Printer::new(&args.tree, form, args.format, &args.columns)?;
    let mut out = output();
    if args.header {
        printer.header(&mut out)?;
    }
    let mut count = 0;
    while count < args.limit
        && let Some((key, value)) = next(&mut cursor)?
    {
        match &index_form {
            None => printer.entry(&key, &value, &mut out)?,
            Some(form) => {
                let key = form.row_key(&key)?;
                let Some(value) = moment.get(&tree, key)? else {
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
fn index(moment: &Moment, tree: &str, form: &Form, column: &str) -> Result<Tree> {
    let indexes = match form {
        Form::Rows(header) => header.indexes.as_slice(),
        _ => &[],
    };
    if !indexes.iter().any(|index| index.name == column) {
        let names: Vec<&str> = indexes.iter().map(|index| index.name.as_str()).collect();
        return error(match names.is_empty() {
            true => format!("\"{tree}\" has no indexes"),
            false => format!("no index on \"{column}\"; there are: {}", names.join(", ")),
        });
    }
    moment.tree(&format!("{tree}.by_{column}"))
}

type Range = (Vec<u8>, Option<Vec<u8>>);

fn bounds(args: &Args, form: &Form) -> Result<Range> {
    if let Some(prefix) = &args.prefix {
        let prefix = form.bound(prefix, true)?;
        let end = frond::tuple::prefix_end(&prefix);
        return Ok((prefix, end));
    }
    let bound = |text: &Option<String>| text.as_ref().map(|text| form.bound(text, false));
    let (from, to) = (bound(&args.from).transpose()?.unwrap_or_default(), bound(&args.to));
    let to = to.transpose()?;
    match to.as_ref().is_some_and(|to| *to <= from) {
        true => error("--to is not after --from"),
        false => Ok((from, to)),
    }
}

/// Runs `frond export`.
pub fn export(args: ExportArgs) -> Result {
    let db = args.store.open()?;
    let moment = args.moment.of(&db)?;
    let tree = moment.tree(&args.tree)?;
    let extension = args.file.as_deref().and_then(Path::extension).and_then(|it| it.to_str());
    let format = args.format.unwrap_or(match extension {
        Some("json" | "jsonl" | "ndjson") => Format::Json,
        Some("txt" | "tsv") => Format::Text,
        _ => Format::Csv,
    });
    let mut printer = Printer::new(&args.tree, Form::of(&db, &tree), format, &[])?;
    let cannot = |path: &Path| {
        let path = path.display().to_string();
        move |why| Fail::Error(format!("cannot write {path}: {why}"))
    };
    let mut out: Box<dyn Write> = match &args.file {
        None => Box::new(output()),
        Some(path) => Box::new(BufWriter::new(File::create_new(path).map_err(cannot(path))?)),
    };
    printer.header(&mut out)?;
    let mut cursor = moment.scan(&tree, ..)?;
    while let Some((key, value)) = cursor.next()? {
        printer.entry(key, value, &mut out)?;
    }
    match &args.file {
        None => Ok(out.flush()?),
        Some(path) => out.flush().map_err(cannot(path)),
    }
}
