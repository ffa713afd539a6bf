//! Printing entries for people: rows of loaded trees and their indexes by column, all others
//! escaped.

use std::io::Write;

use frond::{Db, Tree};

use crate::{
    escape::{escape, escape_into, unescape},
    fail::{Fail, Result, error},
    rows::{Header, IndexHeader},
};

/// The meaning of a tree's entries.
pub enum Form {
    /// Rows that `load` wrote.
    Rows(Header),
    /// An index that `load` wrote, and what it is an index of.
    Index(IndexHeader, Header),
    /// Uninterpreted bytes.
    Plain,
}

impl Form {
    /// The form of a tree, from its attributes.
    pub fn of(db: &Db, tree: &Tree) -> Self {
        let attributes = tree.info().options.attributes;
        if let Some(header) = Header::from_attributes(&attributes) {
            return Form::Rows(header);
        }
        let index = serde_json::from_slice::<IndexHeader>(&attributes).ok();
        let of = index.and_then(|index| {
            let owner = db.open_tree(&index.of).ok()?;
            let header = Header::from_attributes(&owner.info().options.attributes)?;
            Some((index, header))
        });
        match of {
            Some((index, header)) => Form::Index(index, header),
            None => Form::Plain,
        }
    }

    /// The key, or prefix of keys, that a user typed: a value for each key column, or one escaped
    /// byte string.
    pub fn key(&self, words: &[String]) -> Result<Vec<u8>> {
        let key = match self {
            Form::Rows(header) => header.key_of(words),
            Form::Index(index, header) => match words.split_first() {
                None => Ok(Vec::new()),
                Some((value, rest)) => {
                    let mut key = vec![1];
                    index.column.write(value.as_bytes(), &mut key).and_then(|()| {
                        key.extend(header.key_of(rest)?);
                        Ok(key)
                    })
                }
            },
            Form::Plain => match words {
                [] => Ok(Vec::new()),
                [key] => unescape(key),
                _ => Err("the key of this tree is one word".to_owned()),
            },
        };
        key.map_err(Fail::Error)
    }

    /// Writes an entry as lines `Column: value`, or the bare value if the tree was not loaded.
    pub fn write_record(&self, key: &[u8], value: &[u8], out: &mut impl Write) -> Result {
        match self {
            Form::Rows(header) => {
                for (name, value) in fields(header, key, value)? {
                    writeln!(out, "{name}: {}", block(&value))?;
                }
            }
            Form::Index(..) => writeln!(out, "{}", self.line(key, value, &[])?)?,
            Form::Plain => writeln!(out, "{}", escape(value))?,
        }
        Ok(())
    }

    /// An entry on one line, with tabs between columns. For a loaded tree: `columns`, or all; for
    /// an index: the value and the key; otherwise key and value.
    pub fn line(&self, key: &[u8], value: &[u8], columns: &[String]) -> Result<String> {
        let mut line = String::new();
        match self {
            Form::Rows(header) if columns.is_empty() => {
                let numbered = header.key.is_empty();
                if numbered && let Some(number) = row_key(header, key)?.first() {
                    escape_into(number, &mut line);
                }
                let fields = fields(header, key, value)?;
                for (at, name) in header.columns.iter().enumerate() {
                    if at > 0 || numbered {
                        line.push('\t');
                    }
                    if let Some((_, value)) = fields.iter().find(|(other, _)| other == name) {
                        escape_into(value, &mut line);
                    }
                }
                for (name, value) in
                    fields.iter().filter(|(name, _)| !header.columns.contains(name))
                {
                    line.push('\t');
                    escape_into(name.as_bytes(), &mut line);
                    line.push_str(": ");
                    escape_into(value, &mut line);
                }
            }
            Form::Rows(header) => {
                let fields = fields(header, key, value)?;
                for (at, name) in columns.iter().enumerate() {
                    if at > 0 {
                        line.push('\t');
                    }
                    if let Some((_, value)) = fields.iter().find(|(other, _)| other == name) {
                        escape_into(value, &mut line);
                    }
                }
            }
            Form::Index(index, header) => {
                let (value, key) =
                    header.decode_index_key(&index.column, key).map_err(Fail::Error)?;
                match value {
                    Some(value) => escape_into(&value, &mut line),
                    None => line.push_str("\\N"),
                }
                for value in row_key(header, key)? {
                    line.push('\t');
                    escape_into(&value, &mut line);
                }
            }
            Form::Plain => {
                escape_into(key, &mut line);
                line.push('\t');
                escape_into(value, &mut line);
            }
        }
        Ok(line)
    }

    /// Fails if no row has one of these columns.
    pub fn check_columns(&self, columns: &[String]) -> Result {
        match self {
            Form::Rows(header) => {
                match columns.iter().find(|name| !header.columns.contains(name)) {
                    Some(name) => error(format!(
                        "no column \"{name}\"; there are: {}",
                        header.columns.join(", ")
                    )),
                    None => Ok(()),
                }
            }
            _ if columns.is_empty() => Ok(()),
            _ => error("only trees that `frond load` wrote have columns"),
        }
    }
}

fn fields(header: &Header, key: &[u8], row: &[u8]) -> Result<Vec<crate::rows::Field>> {
    header.decode(key, row).map_err(|why| Fail::Error(format!("an entry is no row: {why}")))
}

fn row_key(header: &Header, key: &[u8]) -> Result<Vec<Vec<u8>>> {
    header.decode_key(key).map_err(|why| Fail::Error(format!("an entry is no row: {why}")))
}

/// A value that may have several lines, each escaped by itself.
fn block(value: &[u8]) -> String {
    value.split(|byte| *byte == b'\n').map(escape).collect::<Vec<_>>().join("\n")
}
