//! Printing entries: as text with tabs, CSV, or JSON lines.
//!
//! `load` reads what a printer for `load` prints ([`Printer::for_load`]), in all three formats.
//! Text for people also has the fields of rows that are not columns, with their names.

use std::io::Write;

use crate::{
    escape::escape,
    fail::{Result, error},
    rows::Values,
    show::Form,
};

/// How entries are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    /// Tab-separated; bytes that are not printable are escaped, and null is \N
    Text,
    /// RFC 4180; null is an empty field, and an empty string is ""
    Csv,
    /// One JSON object per line
    Json,
}

/// Prints entries of one tree.
pub struct Printer {
    form: Form,
    format: Format,
    names: Vec<String>,
    /// Numbers of the columns to print.
    selected: Vec<usize>,
    /// Whether fields without a column are printed, too.
    with_more: bool,
    /// Whether `load` reads the text.
    is_for_load: bool,
    line: Vec<u8>,
}

impl Printer {
    /// Creates a printer of these columns of the entries of `tree`; of all if none is named.
    ///
    /// # Errors
    /// A column does not exist.
    pub fn new(tree: &str, form: Form, format: Format, columns: &[String]) -> Result<Self> {
        let selected = form.select(tree, columns)?;
        let (names, with_more) = (form.columns(), columns.is_empty());
        let (is_for_load, line) = (false, Vec::new());
        Ok(Self { form, format, names, selected, with_more, is_for_load, line })
    }

    /// Refuses rows that the format cannot give to `load`, and leaves out the numbers of rows that
    /// have no key: `load` gives new ones.
    pub fn for_load(mut self) -> Self {
        self.is_for_load = true;
        if matches!(&self.form, Form::Rows(header) if header.key.is_empty()) {
            self.selected.remove(0);
        }
        self
    }

    /// Prints the names of the columns, except as JSON, where every line has them.
    pub fn header(&mut self, out: &mut impl Write) -> Result {
        if self.format == Format::Json {
            return Ok(());
        }
        self.line.clear();
        for (at, &column) in self.selected.iter().enumerate() {
            push(self.format, at, Some(self.names[column].as_bytes()), &mut self.line);
        }
        self.end(out)
    }

    /// Prints an entry.
    pub fn entry(&mut self, key: &[u8], value: &[u8], out: &mut impl Write) -> Result {
        let values = self.form.values(key, value)?;
        self.line.clear();
        if self.format == Format::Json {
            self.push_object(&values)?;
            return self.end(out);
        }
        for (at, &column) in self.selected.iter().enumerate() {
            push(self.format, at, values.columns[column].as_deref(), &mut self.line);
        }
        self.push_more(&values)?;
        let is_read = self.is_for_load || self.format == Format::Csv;
        if self.line.is_empty() && self.with_more && is_read {
            return error(
                "a row whose only column is null or empty would be an empty line, which readers \
                 skip; use --format json",
            );
        }
        self.end(out)
    }

    /// Appends the fields that have no column.
    fn push_more(&mut self, values: &Values) -> Result {
        if !self.with_more {
            return Ok(());
        }
        for (name, value) in &values.more {
            if self.is_for_load || self.format == Format::Csv {
                return error(format!(
                    "a row has a field \"{name}\", which is not a column; use --format json"
                ));
            }
            self.line.push(b'\t');
            push_escaped(name.as_bytes(), &mut self.line);
            self.line.extend_from_slice(b": ");
            push_escaped(value, &mut self.line);
        }
        Ok(())
    }

    fn push_object(&mut self, values: &Values) -> Result {
        let columns = self.selected.iter().map(|&at| (&self.names[at], &values.columns[at]));
        let present = columns.filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let more = values.more.iter().filter(|_| self.with_more).map(|(name, value)| (name, value));
        self.line.push(b'{');
        for (at, (name, value)) in present.chain(more).enumerate() {
            if at > 0 {
                self.line.push(b',');
            }
            push_json(name, &mut self.line);
            self.line.push(b':');
            match std::str::from_utf8(value) {
                Ok(text) => push_json(text, &mut self.line),
                Err(_) => {
                    return error(format!(
                        "\"{name}\" has {}, which is not UTF-8 and cannot be written as JSON; \
                         use --format csv",
                        escape(value.get(..40).unwrap_or(value))
                    ));
                }
            }
        }
        self.line.push(b'}');
        Ok(())
    }

    fn end(&mut self, out: &mut impl Write) -> Result {
        self.line.push(b'\n');
        Ok(out.write_all(&self.line)?)
    }
}

/// Appends value number `at` of a line.
fn push(format: Format, at: usize, value: Option<&[u8]>, line: &mut Vec<u8>) {
    if at > 0 {
        line.push(if format == Format::Csv { b',' } else { b'\t' });
    }
    match (format, value) {
        (Format::Csv, Some(value)) => push_csv(value, line),
        (Format::Csv, None) => {}
        (_, Some(value)) => push_escaped(value, line),
        (_, None) => line.extend_from_slice(b"\\N"),
    }
}

fn push_escaped(value: &[u8], line: &mut Vec<u8>) {
    // Most values are printable as they are.
    match value.iter().all(|byte| matches!(byte, b' '..=b'~') && *byte != b'\\') {
        true => line.extend_from_slice(value),
        false => line.extend_from_slice(escape(value).as_bytes()),
    }
}

/// Appends a CSV field. Empty text has quotes, so that it differs from null.
fn push_csv(value: &[u8], line: &mut Vec<u8>) {
    let is_plain = !value.is_empty()
        && !value.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'))
        && value.trim_ascii().len() == value.len();
    if is_plain {
        line.extend_from_slice(value);
        return;
    }
    line.push(b'"');
    for &byte in value {
        if byte == b'"' {
            line.push(b'"');
        }
        line.push(byte);
    }
    line.push(b'"');
}

fn push_json(text: &str, line: &mut Vec<u8>) {
    // Text always has a JSON form, and a vector takes every write.
    let _ = serde_json::to_writer(line, text);
}
