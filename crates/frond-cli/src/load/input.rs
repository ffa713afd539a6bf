//! The input as records. The first ones are held back until the columns are known.
//!
//! CSV and TSV name their columns at the start. In JSON lines and control paragraphs names appear
//! along the way: those in the first batch become the columns, later ones go into `more`.
//!
//! Memory: the records of one batch, at most [`HELD_BYTES_MAX`], and one record.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, BufRead, BufReader},
    path::Path,
};

use crate::{
    fail::{Fail, Result, error},
    interrupt::{self, Pipe},
    parse::{self, Format, ParseError, Record, Source},
    rows::integer,
};

use super::Args;

/// Maximum bytes of the records that are held back.
const HELD_BYTES_MAX: usize = 8 << 20;

/// The input.
pub struct Input {
    source: Box<dyn Source>,
    format: Format,
    held: VecDeque<Record>,
    current: Record,
    length: Option<u64>,
    /// Bytes of the records that were skipped.
    skipped: u64,
}

impl Input {
    /// Opens the file, or standard input, that the command names.
    pub fn open(args: &Args) -> Result<Self> {
        let path = args.file.as_deref().filter(|path| *path != Path::new("-"));
        if let Some(path) = path {
            must_be_text(args, path)?;
            if let Err(why) = std::fs::metadata(path) {
                return error(format!("cannot read {}: {why}", path.display()));
            }
        }
        let Some(format) = args.format.or_else(|| path.and_then(Format::of_path)) else {
            return error(
                "the format of the input is unknown; use --format csv, tsv, json or control",
            );
        };
        if args.columns.is_some() && !matches!(format, Format::Csv | Format::Tsv) {
            return error("--columns works only with CSV and TSV; other records name their fields");
        }
        let columns = args.columns.as_deref().unwrap_or_default();
        if let Some((_, twice)) =
            columns.iter().enumerate().find(|(at, name)| columns[..*at].contains(name))
        {
            return error(format!("--columns: \"{twice}\" occurs twice"));
        }
        if args.null.is_some() && format != Format::Csv {
            return error("--null works only with CSV; null is \\N in TSV and null in JSON");
        }
        let (input, length) = open_text(path).map_err(|why| {
            let shown = path.unwrap_or(Path::new("standard input")).display();
            Fail::Error(format!("cannot read {shown}: {why}"))
        })?;
        let source = parse::open(format, input, args.columns.as_deref(), args.null.as_deref())
            .map_err(malformed)?;
        let mut input = Self {
            source,
            format,
            held: VecDeque::new(),
            current: Record::default(),
            length,
            skipped: 0,
        };
        for _ in 0..args.skip {
            if interrupt::is_requested() {
                return Err(nothing_loaded());
            }
            if !input.source.next(&mut input.current).map_err(malformed)? {
                return error(format!("the input has fewer than {} records", args.skip));
            }
        }
        if args.skip > 0 {
            input.skipped = input.source.position();
        }
        Ok(input)
    }

    /// Reads ahead up to one batch, so that its names are known. An error in it is final: nothing
    /// has been created yet.
    pub fn learn_columns(&mut self, rows: u64) -> Result {
        let mut bytes = 0;
        while (self.held.len() as u64) < rows && bytes < HELD_BYTES_MAX {
            let mut record = Record::default();
            match self.source.next(&mut record) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => match malformed(why) {
                    // The rows before the signal are loaded.
                    Fail::Interrupted(_) if !self.held.is_empty() => break,
                    why => return Err(super::stopped(why, 0, 0)),
                },
            }
            bytes += record.value_bytes();
            self.held.push_back(record);
        }
        Ok(())
    }

    /// The next record, and the names that the numbers of its fields refer to.
    pub fn next(&mut self) -> Result<Option<(&Record, &[String])>> {
        if let Some(record) = self.held.pop_front() {
            self.current = record;
        } else if !self.source.next(&mut self.current).map_err(malformed)? {
            return Ok(None);
        }
        Ok(Some((&self.current, self.source.columns().names())))
    }

    /// The names seen so far.
    pub fn names(&self) -> &[String] {
        self.source.columns().names()
    }

    /// How to load the empty fields of this input as null, if it can have any.
    pub fn null_hint(&self) -> Option<&'static str> {
        (self.format == Format::Csv).then_some("use --null '' to load empty CSV fields as null")
    }

    /// True if later records may have names that are not known yet.
    pub fn may_have_more(&self) -> bool {
        matches!(self.format, Format::Json | Format::Control)
    }

    /// Bytes of the records that were loaded.
    pub fn position(&self) -> u64 {
        self.source.position() - self.skipped
    }

    /// True if all held-back values of a column are integers whose order as text is not that of the
    /// numbers.
    pub fn holds_integers(&self, column: &str) -> bool {
        let Some(number) = self.names().iter().position(|name| name == column) else {
            return false;
        };
        let mut lengths = None;
        for record in &self.held {
            for (_, value) in record.fields().filter(|(name, _)| *name as usize == number) {
                if integer(value).is_none_or(|it| it.to_string().as_bytes() != value) {
                    return false;
                }
                let (least, most) = lengths.unwrap_or((value.len(), value.len()));
                lengths = Some((value.len().min(least), value.len().max(most)));
            }
        }
        lengths.is_some_and(|(least, most)| least < most)
    }

    /// Bytes of all records to load, if the input is a file.
    pub fn length(&self) -> Option<u64> {
        Some(self.length? - self.skipped)
    }
}

/// Opens a file, or standard input, and returns its length if it has one.
pub fn open_text(path: Option<&Path>) -> io::Result<(Box<dyn BufRead>, Option<u64>)> {
    let Some(path) = path else { return Ok((Box::new(Pipe::new(|| Ok(io::stdin()))), None)) };
    if !path.metadata()?.is_file() {
        let path = path.to_path_buf();
        return Ok((Box::new(Pipe::new(move || File::open(path))), None));
    }
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    Ok((Box::new(BufReader::with_capacity(256 << 10, file)), Some(bytes)))
}

/// Refuses directories and compressed files.
fn must_be_text(args: &Args, path: &Path) -> Result {
    let shown = path.display();
    if path.is_dir() {
        return error(format!("cannot read {shown}: it is a directory"));
    }
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("gz") => "zcat",
        Some("zst") => "zstdcat",
        Some("xz") => "xzcat",
        Some("bz2") => "bzcat",
        _ => return Ok(()),
    };
    let (dir, tree) = (args.store.dir.display(), args.tree());
    error(format!(
        "{shown} is compressed: {program} {shown} | frond load {dir} {tree} --format FORMAT"
    ))
}

/// The failure for a malformed record. A signal also ends the input, maybe within a record. If
/// something is really wrong with that record, the load that continues finds it.
fn malformed(why: ParseError) -> Fail {
    match interrupt::is_requested() {
        true => nothing_loaded(),
        false => Fail::Error(why.to_string()),
    }
}

/// The failure of an interrupted load that has committed nothing.
pub fn nothing_loaded() -> Fail {
    Fail::Interrupted("interrupted; nothing was loaded".to_owned())
}
