//! CSV (RFC 4180) and TSV (as `mysql --batch` and PostgreSQL's COPY write it).
//!
//! CSV: a field that starts with a double quote ends with one, may contain commas, line ends and
//! doubled quotes, and its closing quote must be followed by a comma or the end of the line. A
//! quote within a field that does not start with one is an ordinary character. TSV has no quotes:
//! \t \n \r \0 \\ are the usual escapes, \xNN is a byte, \N alone is null, and a backslash before
//! anything else is itself.
//!
//! Invariants
//! 1. Every record has as many fields as there are names; empty lines are skipped.
//! 2. A quote that is never closed is an error at the line where it was opened, not a long record.
//!
//! Threads: one reader. It is implemented here because common CSV readers accept a missing closing
//! quote, and take the rest of the file as one field.

use memchr::{memchr, memchr_iter};

use super::{
    Columns, ParseError, Record, Source,
    lines::{Lines, trim_end},
    wrong,
};

/// A CSV or TSV input.
pub struct Delimited {
    lines: Lines,
    line: Vec<u8>,
    columns: Columns,
    quotes: bool,
    /// The unquoted text that stands for null in CSV.
    null: Option<Vec<u8>>,
}

impl Delimited {
    pub fn csv(
        lines: Lines,
        names: Option<&[String]>,
        null: Option<&str>,
    ) -> Result<Self, ParseError> {
        // The header line is read before `null` is set: a column may have that name.
        let source = Self::open(lines, names, true)?;
        Ok(Self { null: null.map(|null| null.as_bytes().to_vec()), ..source })
    }

    pub fn tsv(lines: Lines, names: Option<&[String]>) -> Result<Self, ParseError> {
        Self::open(lines, names, false)
    }

    fn open(lines: Lines, names: Option<&[String]>, quotes: bool) -> Result<Self, ParseError> {
        let columns = Columns::default();
        let mut source = Self { lines, line: Vec::new(), columns, quotes, null: None };
        let mut header = Record::default();
        let names = match names {
            Some(names) => names.to_vec(),
            None if !source.read(&mut header)? => {
                return Err(wrong(1, "the header line with the column names is missing"));
            }
            None => header
                .fields()
                .map(|(_, name)| match std::str::from_utf8(name) {
                    Ok(name) => Ok(name.trim().to_owned()),
                    Err(_) => Err(wrong(header.line, "a column's name is not UTF-8")),
                })
                .collect::<Result<Vec<_>, _>>()?,
        };
        for (index, name) in names.iter().enumerate() {
            if source.columns.number(name, header.line)? as usize != index {
                return Err(wrong(header.line, format!("column \"{name}\" occurs twice")));
            }
        }
        Ok(source)
    }

    /// Reads a record, with fields named by their position.
    fn read(&mut self, record: &mut Record) -> Result<bool, ParseError> {
        loop {
            if !self.lines.next(&mut self.line)? {
                return Ok(false);
            }
            if !trim_end(&self.line).is_empty() {
                break;
            }
        }
        record.begin(self.lines.count());
        match self.quotes {
            true => self.split_csv(record)?,
            false => split_tsv(trim_end(&self.line), record),
        }
        Ok(true)
    }

    fn split_csv(&mut self, record: &mut Record) -> Result<(), ParseError> {
        let mut at = 0;
        for column in 0.. {
            let mut name = column;
            if self.line.get(at) == Some(&b'"') {
                at = self.quoted(at + 1, record)?;
            } else {
                let rest = trim_end(self.line.get(at..).unwrap_or_default());
                let length = memchr(b',', rest).unwrap_or(rest.len());
                let field = rest.get(..length).unwrap_or_default();
                match self.null.as_deref() == Some(field) {
                    true => name = MISSING,
                    false => record.bytes.extend_from_slice(field),
                }
                at += length;
            }
            record.end_field(name);
            match self.line.get(at) {
                Some(b',') => at += 1,
                _ => break,
            }
        }
        Ok(())
    }

    /// Appends the quoted content that starts at `at`, reading more lines as needed; returns the
    /// position after the closing quote, which is a comma or the end.
    fn quoted(&mut self, mut at: usize, record: &mut Record) -> Result<usize, ParseError> {
        let opened = self.lines.count();
        loop {
            let rest = self.line.get(at..).unwrap_or_default();
            let Some(length) = memchr(b'"', rest) else {
                // The field continues in the next line.
                record.bytes.extend_from_slice(rest);
                at = self.line.len();
                if !self.lines.append(&mut self.line)? {
                    return Err(wrong(opened, "a quoted field is never closed"));
                }
                continue;
            };
            record.bytes.extend_from_slice(rest.get(..length).unwrap_or_default());
            at += length + 1;
            match self.line.get(at) {
                Some(b'"') => {
                    record.bytes.push(b'"');
                    at += 1;
                }
                Some(b',') => return Ok(at),
                _ if trim_end(self.line.get(at..).unwrap_or_default()).is_empty() => return Ok(at),
                _ => {
                    return Err(wrong(
                        self.lines.count(),
                        "a closing quote must be followed by a comma or the end of the line",
                    ));
                }
            }
        }
    }
}

fn split_tsv(line: &[u8], record: &mut Record) {
    let mut start = 0;
    for (column, end) in memchr_iter(b'\t', line).chain([line.len()]).enumerate() {
        let field = line.get(start..end).unwrap_or_default();
        start = end + 1;
        if field == br"\N" {
            // Counted as a field, and missing: see `Source::next`.
            record.fields.push((MISSING, record.bytes.len()));
            continue;
        }
        unescape(field, &mut record.bytes);
        record.end_field(column as u32);
    }
}

/// Marks a field that is null.
const MISSING: u32 = u32::MAX;

fn unescape(mut field: &[u8], out: &mut Vec<u8>) {
    while let Some(at) = memchr(b'\\', field) {
        let (plain, escape) = field.split_at(at);
        out.extend_from_slice(plain);
        let byte = match escape.get(1) {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') if hex(escape.get(2..4)).is_some() => {
                out.extend(hex(escape.get(2..4)));
                field = escape.get(4..).unwrap_or_default();
                continue;
            }
            _ => {
                out.push(b'\\');
                field = escape.get(1..).unwrap_or_default();
                continue;
            }
        };
        out.push(byte);
        field = escape.get(2..).unwrap_or_default();
    }
    out.extend_from_slice(field);
}

/// The byte of two hexadecimal digits.
fn hex(digits: Option<&[u8]>) -> Option<u8> {
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl Source for Delimited {
    fn next(&mut self, record: &mut Record) -> Result<bool, ParseError> {
        if !self.read(record)? {
            return Ok(false);
        }
        let (fields, columns) = (record.fields.len(), self.columns.names().len());
        if fields != columns {
            let plural = if fields == 1 { "" } else { "s" };
            let why = format!("the record has {fields} field{plural} instead of {columns}");
            return Err(wrong(record.line, why));
        }
        record.fields.retain(|(name, _)| *name != MISSING);
        Ok(true)
    }

    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn position(&self) -> u64 {
        self.lines.bytes()
    }
}
