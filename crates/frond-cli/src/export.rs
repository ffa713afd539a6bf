//! `frond export`: all rows of a tree, in a file that `load` reads.
//!
//! Invariant: the file with the given name is complete. Rows are written to a temporary file next
//! to it, which is renamed at the end, and removed if the command fails or is interrupted.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::{
    common::{SnapshotArgs, StoreArgs, output, parent_must_exist},
    fail::{Fail, Result, error},
    interrupt,
    lines::{Format, Printer},
    parse::RECORD_BYTES_MAX,
    show::Form,
};

/// Write all rows of a tree to a file that `frond load` can read
///
/// CSV starts with a header line. Null is written as an empty field and an empty
/// string as "", so load the file with --null ''. JSON cannot hold bytes that are
/// not UTF-8; CSV and text can. The row numbers of a tree without key columns are
/// not exported. The file appears under its name only when it is complete.
#[derive(clap::Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  frond export shop.db orders orders.csv
  frond export shop.db orders orders.csv --overwrite
  frond export shop.db orders --format json | gzip > orders.jsonl.gz"
)]
pub struct Args {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    snapshot: SnapshotArgs,
    /// Name of the tree
    tree: String,
    /// File to create (default: standard output)
    file: Option<PathBuf>,
    /// Format of the file (default: by its name, otherwise csv)
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Replace the file if it exists
    #[arg(long, requires = "file")]
    overwrite: bool,
}

/// Runs `frond export`.
pub fn run(args: Args) -> Result {
    let Some(path) = &args.file else { return write(&args, &mut output()) };
    match path.metadata() {
        Ok(about) if !about.is_file() => {
            return error(format!("{} is not a file", path.display()));
        }
        Ok(_) if !args.overwrite => {
            return error(format!(
                "{} already exists; use --overwrite to replace it",
                path.display()
            ));
        }
        Ok(_) | Err(_) => {}
    }
    parent_must_exist(path)?;
    interrupt::catch("stopping")?;
    let mut file = NewFile::create(path)?;
    write(&args, &mut file)?;
    file.finish()
}

/// Writes all rows.
fn write(args: &Args, out: &mut impl Write) -> Result {
    let db = args.store.open()?;
    let view = args.snapshot.view(&db)?;
    let tree = view.tree(&args.tree)?;
    let extension = args.file.as_deref().and_then(Path::extension).and_then(|it| it.to_str());
    let format = args.format.unwrap_or(match extension {
        Some("json" | "jsonl" | "ndjson") => Format::Json,
        Some("txt" | "tsv") => Format::Text,
        _ => Format::Csv,
    });
    let printer = Printer::new(&args.tree, Form::of(&view, &tree), format, &[])?;
    let mut printer = printer.for_load();
    printer.header(out)?;
    let mut cursor = view.scan(&tree, ..)?;
    let mut line = Vec::new();
    while let Some((key, value)) = cursor.next()? {
        line.clear();
        printer.entry(key, value, &mut line)?;
        if line.len() > RECORD_BYTES_MAX {
            return error(format!(
                "a row has {} MiB, but `frond load` reads at most {} MiB per row; use `frond dump`",
                line.len().div_ceil(1 << 20),
                RECORD_BYTES_MAX >> 20
            ));
        }
        out.write_all(&line)?;
        if interrupt::is_requested() {
            return Err(Fail::Interrupted("interrupted; nothing was exported".to_owned()));
        }
    }
    Ok(out.flush()?)
}

/// A file that gets its final name when it is complete.
struct NewFile<'p> {
    path: &'p Path,
    unfinished: PathBuf,
    out: BufWriter<File>,
}

impl<'p> NewFile<'p> {
    fn create(path: &'p Path) -> Result<Self> {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".unfinished");
        let unfinished = path.with_file_name(name);
        // A killed process may have left such a file; it is overwritten.
        let out = File::create(&unfinished).map_err(|why| cannot_write(&unfinished, why))?;
        Ok(Self { path, unfinished, out: BufWriter::new(out) })
    }

    fn finish(mut self) -> Result {
        self.flush()?;
        let synced = self.out.get_ref().sync_all();
        let named = synced.and_then(|()| std::fs::rename(&self.unfinished, self.path));
        Ok(named.map_err(|why| cannot_write(self.path, why))?)
    }
}

impl Write for NewFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes).map_err(|why| cannot_write(self.path, why))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush().map_err(|why| cannot_write(self.path, why))
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        // A finished file has another name by now. If removing fails, the name of the file that
        // remains says that it is unfinished.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}

/// The error with the name of the file.
fn cannot_write(path: &Path, why: io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("cannot write {}: {why}", path.display()))
}
