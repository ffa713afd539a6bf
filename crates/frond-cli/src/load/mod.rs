//! `frond load`: loads records from text into a tree and its indexes.
//!
//! | file | what it does |
//! |---|---|
//! | `input.rs` | the records; the first ones are held back until the columns are known |
//! | `target.rs` | the tree and its indexes: created, or found and compared |
//! | `records.rs` | keys and rows of records |
//! | `bulk.rs` | `--bulk`: everything at once into new trees |
//! | `batches.rs` | rows in atomic batches, duplicates, `--replace` |
//! | `dump.rs` | `--dump`: the trees of a dump |
//! | `ledger.rs` | what has been acknowledged, line by line |
//! | `verify.rs` | checks that everything that the ledger lists is present |
//!
//! Invariants
//! 1. A batch is committed whole or not at all, row and index entries together; a batch with a
//!    malformed record is not committed, and if it is the first, nothing is created.
//! 2. A line in the ledger is written after the commit of its batch has returned, never before.

mod batches;
mod bulk;
mod dump;
mod input;
mod ledger;
mod records;
mod target;
mod verify;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use frond::{Db, Durability, Options, SizeClass};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    common::{
        StoreArgs, count_of, grouped, open_or_create, parse_class, parse_count, say, size,
        store_bytes,
    },
    fail::{Fail, Result, error, to_stderr},
    interrupt,
    parse::Format,
    rows::KeyColumn,
};

use batches::Loader;
use input::{Input, nothing_loaded};
pub use target::{Target, drop_left_over_index, index_options, standing_indexes};

/// Load rows from CSV, TSV, JSON lines or Debian control files
///
/// The rows go into the tree TREE; each --index creates another tree,
/// TREE.by_COLUMN. Rows are committed in batches. If a record is malformed, the
/// error names its line and its batch is not committed; earlier batches stay.
/// Ctrl-C commits the rows read so far and prints how to continue. If the disk is
/// full, the load waits while the store frees space, and fails after 15 s without
/// progress.
///
/// Values are stored as text, and keys and indexes sort as text. To sort a column
/// as numbers or times, write NAME:int, NAME:float or NAME:time; add :desc for
/// descending order, as in at:time:desc. In an index, rows without a value come
/// first in both orders.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond load shop.db orders orders.csv --key id:int --index country
  frond load shop.db orders more.csv
  frond load web.db log access.jsonl --key at:time:desc,id:int --bulk
  apt-cache dumpavail | frond load pkgs.db pkgs --format control --key Package,Version
  frond load copy.db --dump shop.dump"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    /// Tree to load into; created if it does not exist
    #[arg(required_unless_present = "dump")]
    tree: Option<String>,
    /// File to read; `-`, the default, is standard input
    file: Option<PathBuf>,
    /// Input format (default: by file name)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Key columns, as NAME or NAME:TYPE, separated by commas (default: rows are numbered)
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = KeyColumn::parse)]
    key: Vec<KeyColumn>,
    /// Columns to index, as NAME or NAME:TYPE, separated by commas; one index each
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = KeyColumn::parse)]
    index: Vec<KeyColumn>,
    /// Column names, for CSV or TSV input without a header line
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// CSV: unquoted text that means null; with '', empty fields are null
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    null: Option<String>,
    /// Rows per commit
    #[arg(long, value_name = "ROWS", default_value_t = 1000, allow_negative_numbers = true,
        value_parser = parse_batch)]
    batch: u64,
    /// Replace rows whose key already exists (default: stop with an error)
    #[arg(long)]
    replace: bool,
    /// Bulk load into a new tree: much faster, and all or nothing
    #[arg(long, conflicts_with_all = ["ack", "replace", "verify", "batch"])]
    bulk: bool,
    /// Skip the first N records
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
        allow_negative_numbers = true, value_parser = parse_count)]
    skip: u64,
    /// What a commit survives: a power cut (sync), a crash of the process (os), or neither (lazy)
    #[arg(long, value_name = "LEVEL", default_value = "sync", value_parser = parse_durability)]
    durability: Durability,
    /// Compression of new trees: fast, default or small
    #[arg(long, value_name = "CLASS", default_value = "default", value_parser = parse_class)]
    class: SizeClass,
    /// Append a line to this file (a ledger) after each acknowledged batch
    #[arg(long, value_name = "FILE")]
    ack: Option<PathBuf>,
    /// Create the trees in this output of `frond dump` (`-`: standard input), all or none
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["tree", "file", "format", "key", "index", "columns", "null", "ack", "replace", "verify",
         "batch", "bulk", "skip", "class"])]
    dump: Option<PathBuf>,
    /// Load nothing; verify that all rows acknowledged in this ledger (see --ack) are in the store.
    /// Pass the same other options as for the load
    #[arg(long, value_name = "LEDGER", conflicts_with_all = ["ack", "replace"])]
    verify: Option<PathBuf>,
}

fn parse_batch(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(rows @ 1..=1_000_000) => Ok(rows),
        Ok(1_000_001..) => Err("must be at most 1000000".to_owned()),
        _ => Err("must be a number, 1 or more".to_owned()),
    }
}

fn parse_durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "os" => Ok(Durability::Os),
        "lazy" => Ok(Durability::Lazy),
        _ => Err("must be sync, os or lazy".to_owned()),
    }
}

impl Args {
    /// The tree to load into.
    fn tree(&self) -> &str {
        self.tree.as_deref().unwrap_or_default()
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result {
    if let Some(path) = &args.dump {
        return dump::run(&args, path);
    }
    if args.store.dir.is_file() {
        return error(format!(
            "\"{}\" is a file, but a store is a directory: frond load DIR TREE FILE",
            args.store.dir.display()
        ));
    }
    if args.file.is_none() && Path::new(args.tree()).is_file() {
        return error(format!(
            "\"{}\" is a file; the name of the tree is missing: frond load DIR TREE FILE",
            args.tree()
        ));
    }
    if let Some(ledger) = &args.verify {
        return verify::run(&args, &mut Input::open(&args)?, ledger);
    }
    interrupt::catch("stopping; press Ctrl-C again to stop immediately")?;
    let mut input = Input::open(&args)?;
    // Errors in the arguments and in the first rows are found before a byte is written.
    input.learn_columns(args.batch)?;
    if !args.store.dir.exists() {
        target::new_header(&args, &input)?;
    }
    let options = Options::new().cache_size(args.store.memory).durability(args.durability);
    let db = open_or_create(&args.store.dir, options)?;
    let outcome = load(&args, &db, &mut input);
    for range in &db.stats().damaged {
        to_stderr(&format!("warning: degraded: {}", crate::stats::line(range)));
    }
    // What was acknowledged is in the log either way; closing makes the next open fast.
    let closed = db.close();
    let summary = outcome?;
    closed?;
    say(&summary)
}

fn load(args: &Args, db: &Db, input: &mut Input) -> Result<String> {
    let started = Instant::now();
    if args.bulk {
        let bar = progress(input);
        let report =
            |input: &Input, rows| show_progress(&bar, args, input, rows, started.elapsed());
        let loaded = bulk::load(args, db, input, report).map_err(|fail| stopped(fail, 0, 0));
        bar.finish_and_clear();
        return Ok(summary(args, input, args.index.len(), loaded?, started.elapsed()));
    }
    let target = Target::open(db, args, input)?;
    let loaded = load_batches(args, db, input, &target, started);
    let indexes = target.indexes.len();
    if loaded.is_err()
        && let Err(why) = target.discard(db)
    {
        to_stderr(&format!("the empty tree \"{}\" could not be dropped: {why}", args.tree()));
    }
    Ok(summary(args, input, indexes, loaded?, started.elapsed()))
}

/// Returns the number of rows that were loaded.
fn load_batches(
    args: &Args,
    db: &Db,
    input: &mut Input,
    target: &Target,
    started: Instant,
) -> Result<u64> {
    let mut loader = Loader::new(target, args, input)?;
    let mut ledger = args.ack.as_deref().map(ledger::Ledger::append_to).transpose()?;
    let bar = progress(input);
    let mut loaded = 0;
    loop {
        let rows = match fill(input, &mut loader).and_then(|()| loader.commit(db)) {
            Ok(rows) => rows,
            Err(Fail::Interrupted(_)) => 0,
            Err(fail) => {
                bar.finish_and_clear();
                return Err(stopped(fail, loaded, args.skip));
            }
        };
        loaded += rows;
        if let Some(ledger) = &mut ledger
            && rows > 0
        {
            let acknowledged = ledger.acknowledge(rows, args.skip + loaded);
            acknowledged.map_err(|fail| stopped(fail, loaded, args.skip))?;
        }
        if interrupt::is_requested() {
            bar.finish_and_clear();
            return Err(match loaded {
                0 => nothing_loaded(),
                _ => Fail::Interrupted(format!(
                    "interrupted: {} loaded; continue with --skip {}",
                    count_of(loaded, "row"),
                    args.skip + loaded
                )),
            });
        }
        if rows == 0 {
            break;
        }
        show_progress(&bar, args, input, loaded, started.elapsed());
    }
    bar.finish_and_clear();
    Ok(loaded)
}

fn summary(args: &Args, input: &Input, indexes: usize, loaded: u64, time: Duration) -> String {
    let indexes = match indexes {
        0 => String::new(),
        1 => " with 1 index".to_owned(),
        more => format!(" with {more} indexes"),
    };
    // A rate over a shorter time means nothing.
    let rate = match time.as_secs_f64() {
        seconds if seconds < 0.5 => String::new(),
        seconds => {
            format!(" in {seconds:.1} s: {} rows/s", grouped((loaded as f64 / seconds) as u64))
        }
    };
    let (rows, bytes) = (count_of(loaded, "row"), size(input.position()));
    format!("{rows} ({bytes}) into \"{}\"{indexes}{rate}", args.tree())
}

/// Puts the next batch of records into the loader.
fn fill(input: &mut Input, loader: &mut Loader<'_>) -> Result {
    while !loader.is_full() {
        let (record, names) = match input.next() {
            Ok(Some(next)) => next,
            // A signal: the rows before it are committed.
            Ok(None) | Err(Fail::Interrupted(_)) => break,
            Err(fail) => return Err(fail),
        };
        loader.add(record, names)?;
    }
    Ok(())
}

/// The error, with the number of rows that stay loaded and how to continue.
fn stopped(fail: Fail, loaded: u64, skipped: u64) -> Fail {
    match fail {
        Fail::Error(why) if loaded > 0 => Fail::Error(format!(
            "{why}; {} before it {} loaded (continue with --skip {})",
            count_of(loaded, "row"),
            if loaded == 1 { "was" } else { "were" },
            skipped + loaded
        )),
        Fail::Error(why) => Fail::Error(format!("{why}; nothing was loaded")),
        other => other,
    }
}

fn progress(input: &Input) -> ProgressBar {
    let (bar, template) = match input.length() {
        Some(bytes) => (ProgressBar::new(bytes), "{wide_bar} {percent:>3} %  {msg}  {eta} left"),
        None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn show_progress(bar: &ProgressBar, args: &Args, input: &Input, loaded: u64, time: Duration) {
    bar.set_position(input.position());
    if bar.is_hidden() {
        return;
    }
    let rate = (loaded as f64 / time.as_secs_f64().max(0.001)) as u64;
    bar.set_message(format!(
        "{} rows  {} rows/s  read {}  store {}",
        grouped(loaded),
        grouped(rate),
        size(input.position()),
        size(store_bytes(&args.store.dir, |_| true).on_disk),
    ));
}
