//! Debian control paragraphs (deb822): `Name: value` lines; a line that starts with a space or tab
//! continues the previous field; empty lines separate paragraphs.
//!
//! A value is what follows the colon without surrounding white space; continuation lines are kept
//! as they are, each after a line feed, without white space at their ends. Lines that start with
//! `#` are comments. Names are compared ignoring case, and kept as first written.
//!
//! Threads: one reader.

use memchr::memchr;

use super::{
    Columns, ParseError, Record, Source,
    lines::{Lines, RECORD_BYTES_MAX},
    wrong,
};

/// An input of control paragraphs.
pub struct Control {
    lines: Lines,
    line: Vec<u8>,
    columns: Columns,
    /// Lower-case names, to find the one under which a field is known.
    lower: Vec<String>,
}

impl Control {
    pub fn new(lines: Lines) -> Self {
        Self { lines, line: Vec::new(), columns: Columns::default(), lower: Vec::new() }
    }

    /// The number of a name, ignoring case. Paragraphs usually have their fields in the same order,
    /// so the column after the previous field's is tried first.
    fn number(&mut self, name: &[u8], after: Option<u32>) -> Result<u32, ParseError> {
        let line = self.lines.count();
        let guess = after.map_or(0, |before| before as usize + 1);
        if let Some(known) = self.columns.names().get(guess)
            && known.as_bytes() == name
        {
            return Ok(guess as u32);
        }
        let graphic = name.iter().all(u8::is_ascii_graphic);
        let name = match std::str::from_utf8(name) {
            Ok(name) if graphic && !name.is_empty() => name,
            _ => return Err(wrong(line, "a field's name is empty or has a space or control byte")),
        };
        if let Some(number) = self.columns.numbers.get(name) {
            return Ok(*number);
        }
        let lower = name.to_ascii_lowercase();
        if let Some(number) = self.lower.iter().position(|known| *known == lower) {
            return Ok(number as u32);
        }
        let number = self.columns.number(name, line)?;
        self.lower.push(lower);
        Ok(number)
    }
}

impl Source for Control {
    fn next(&mut self, record: &mut Record) -> Result<bool, ParseError> {
        record.begin(0);
        let mut name = None;
        while self.lines.next(&mut self.line)? {
            let number = self.lines.count();
            let text = self.line.trim_ascii_end();
            if text.is_empty() {
                match name {
                    None => continue,
                    Some(_) => break,
                }
            }
            if text.first() == Some(&b'#') {
                continue;
            }
            if record.bytes.len() + text.len() > RECORD_BYTES_MAX {
                return Err(wrong(
                    number,
                    format!("a record has more than {RECORD_BYTES_MAX} bytes"),
                ));
            }
            if matches!(text.first(), Some(b' ' | b'\t')) {
                let Some((_, end)) = record.fields.last_mut() else {
                    return Err(wrong(number, "a continuation line without a field before it"));
                };
                record.bytes.push(b'\n');
                record.bytes.extend_from_slice(text);
                *end = record.bytes.len();
                continue;
            }
            let Some(colon) = memchr(b':', text) else {
                return Err(wrong(number, "expected a field (Name: value) or a continuation line"));
            };
            let text = std::mem::take(&mut self.line);
            let field = self.number(text.get(..colon).unwrap_or_default(), name)?;
            self.line = text;
            if record.has(field) {
                return Err(wrong(number, "a field occurs twice in one paragraph"));
            }
            if name.is_none() {
                record.line = number;
            }
            name = Some(field);
            record.push(field, self.line.get(colon + 1..).unwrap_or_default().trim_ascii());
        }
        Ok(name.is_some())
    }

    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn position(&self) -> u64 {
        self.lines.bytes()
    }
}
