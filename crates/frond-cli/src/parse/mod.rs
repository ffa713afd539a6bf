//! Reading records from text: CSV, TSV, JSON lines, and the paragraphs of Debian control files.
//!
//! Every parser is a [`Source`]: it fills one reused [`Record`] after the other, in bounded memory,
//! and reports on which line a record started. The names of fields are numbered as they appear
//! ([`Columns`]); values are bytes, of any encoding except in JSON, which is UTF-8 by definition.
//!
//! Invariants
//! 1. A malformed record is an error that names its line; nothing is guessed, dropped or truncated.
//!    Any input gives records or one error, never a panic.
//! 2. Memory: one record of at most `lines::RECORD_BYTES_MAX`, and at most [`COLUMNS_MAX`] names.
//! 3. A field that is missing (JSON null, `\N`, the null of CSV) is different from an empty one.
//!
//! Threads: one reader each.

mod control;
mod delimited;
mod json;
mod lines;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, io::BufRead, path::Path};

pub use lines::RECORD_BYTES_MAX;

/// Maximum number of different field names in one input.
pub const COLUMNS_MAX: usize = 4000;
/// Maximum length of a field name, in bytes.
pub const NAME_BYTES_MAX: usize = 1024;

/// A parse error and its place.
#[derive(Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u64,
    /// What is wrong there.
    pub why: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.why)
    }
}

impl std::error::Error for ParseError {}

/// An error on this line.
fn wrong(line: u64, why: impl Into<String>) -> ParseError {
    ParseError { line, why: why.into() }
}

/// The formats, as `--format` names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// Comma-separated, RFC 4180 quoting, with a header line
    Csv,
    /// Tab-separated, with \t \n \r \\ escapes and \N for null, with a header line
    Tsv,
    /// One JSON object per line
    Json,
    /// Debian control paragraphs, as printed by `apt-cache dumpavail`
    Control,
}

impl Format {
    /// The format that a file's name suggests.
    pub fn of_path(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "csv" => Self::Csv,
            "tsv" | "tab" => Self::Tsv,
            "json" | "jsonl" | "ndjson" => Self::Json,
            "control" | "deb822" => Self::Control,
            _ => return None,
        })
    }
}

/// One record: fields by the number of their name, in the order of the input.
#[derive(Default, Debug)]
pub struct Record {
    /// Line on which it started, from 1.
    pub line: u64,
    bytes: Vec<u8>,
    /// Name and end of each field in `bytes`; it starts where the previous one ends.
    fields: Vec<(u32, usize)>,
}

impl Record {
    /// The fields that are not missing: number of the name, and value.
    pub fn fields(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |&(name, end)| {
            let value = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            (name, value)
        })
    }

    /// Bytes of all values.
    pub fn value_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn begin(&mut self, line: u64) {
        self.line = line;
        self.bytes.clear();
        self.fields.clear();
    }

    /// Ends the field whose value has been appended to `bytes`.
    fn end_field(&mut self, name: u32) {
        self.fields.push((name, self.bytes.len()));
    }

    fn push(&mut self, name: u32, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.end_field(name);
    }

    fn has(&self, name: u32) -> bool {
        self.fields.iter().any(|(other, _)| *other == name)
    }
}

/// The names seen so far.
#[derive(Default, Debug)]
pub struct Columns {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Columns {
    /// The names, by number.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The number of a name, a new one if necessary.
    fn number(&mut self, name: &str, line: u64) -> Result<u32, ParseError> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(wrong(line, "a field's name is empty or has control characters"));
        }
        if name.len() > NAME_BYTES_MAX {
            return Err(wrong(
                line,
                format!("a field's name has more than {NAME_BYTES_MAX} bytes"),
            ));
        }
        if self.names.len() == COLUMNS_MAX {
            return Err(wrong(line, format!("more than {COLUMNS_MAX} different field names")));
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// A stream of records.
pub trait Source {
    /// Fills `record` with the next one; false at the end of the input.
    fn next(&mut self, record: &mut Record) -> Result<bool, ParseError>;
    /// The names seen so far; a record's numbers refer to these.
    fn columns(&self) -> &Columns;
    /// Bytes of the input consumed so far.
    fn position(&self) -> u64;
}

/// Starts reading. `names` are the columns of a CSV or TSV input whose first line does not name
/// them; `null` is the unquoted text that stands for null in CSV.
pub fn open(
    format: Format,
    input: Box<dyn BufRead>,
    names: Option<&[String]>,
    null: Option<&str>,
) -> Result<Box<dyn Source>, ParseError> {
    let lines = lines::Lines::new(input);
    Ok(match format {
        Format::Csv => Box::new(delimited::Delimited::csv(lines, names, null)?),
        Format::Tsv => Box::new(delimited::Delimited::tsv(lines, names)?),
        Format::Json => Box::new(json::JsonLines::new(lines)),
        Format::Control => Box::new(control::Control::new(lines)),
    })
}
