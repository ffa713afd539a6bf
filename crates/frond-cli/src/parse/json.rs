//! JSON lines: one object per line.
//!
//! A string becomes its text; null is a missing field; numbers, truth values, arrays and objects
//! are kept as written. Blank lines are skipped.
//!
//! Threads: one reader.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Columns, ParseError, Record, Source, lines::Lines, wrong};

/// A JSON lines input.
pub struct JsonLines {
    lines: Lines,
    line: Vec<u8>,
    columns: Columns,
}

impl JsonLines {
    pub fn new(lines: Lines) -> Self {
        Self { lines, line: Vec::new(), columns: Columns::default() }
    }
}

impl Source for JsonLines {
    fn next(&mut self, record: &mut Record) -> Result<bool, ParseError> {
        loop {
            if !self.lines.next(&mut self.line)? {
                return Ok(false);
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        let line = self.lines.count();
        record.begin(line);
        let object: Object<'_> = serde_json::from_slice(&self.line).map_err(|error| {
            let why = without_line(&error);
            wrong(
                line,
                format!("not a JSON object: {why}; each line must be one, like {{\"id\": 1}}"),
            )
        })?;
        for (name, value) in object.0 {
            let name = self.columns.number(&name, line)?;
            if record.has(name) {
                return Err(wrong(line, "a field occurs twice"));
            }
            match value.get() {
                "null" => {}
                text if text.starts_with('"') => {
                    let text: Cow<'_, str> = serde_json::from_str(text).map_err(|error| {
                        wrong(line, format!("not a valid string: {}", without_line(&error)))
                    })?;
                    record.push(name, text.as_bytes());
                }
                other => record.push(name, other.as_bytes()),
            }
        }
        Ok(true)
    }

    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn position(&self) -> u64 {
        self.lines.bytes()
    }
}

/// The message without its own line number, which is always 1.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line 1 column ") {
        Some((what, column)) => format!("{what} at column {column}"),
        None => text,
    }
}

/// An object's fields in order, values unparsed.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                    fields.push((field.0.0, field.1));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Text, borrowed if it has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
