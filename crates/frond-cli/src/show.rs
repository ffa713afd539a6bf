//! The meaning of a tree's entries: rows of loaded trees and their indexes have columns, all others
//! are a key and a value.

use std::{io::Write, ops::Bound};

use frond::Tree;

use crate::{
    common::ReadView,
    escape::{escape, unescape, unescape_or_null},
    fail::{Fail, Result, error},
    rows::{Header, IndexHeader, KeyColumn, Values, no_prefix},
};

/// The byte before a value in an index key; that of null is less.
const PRESENT: u8 = 1;

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
    /// The form of a tree, from its attributes in that view.
    pub fn of(view: &ReadView, tree: &Tree) -> Self {
        let attributes = tree.info().options.attributes;
        if let Some(header) = Header::from_attributes(&attributes) {
            return Form::Rows(header);
        }
        let index = serde_json::from_slice::<IndexHeader>(&attributes).ok();
        let of = index.and_then(|index| {
            let owner = view.tree(&index.of).ok()?;
            let header = Header::from_attributes(&owner.info().options.attributes)?;
            Some((index, header))
        });
        match of {
            Some((index, header)) => Form::Index(index, header),
            None => Form::Plain,
        }
    }

    /// Names of the values of an entry.
    pub fn columns(&self) -> Vec<String> {
        let key = |header: &Header| match header.key.is_empty() {
            true => vec!["row".to_owned()],
            false => header.key.iter().map(|column| column.name.clone()).collect(),
        };
        match self {
            Form::Rows(header) if header.key.is_empty() => {
                [key(header), header.columns.clone()].concat()
            }
            Form::Rows(header) => header.columns.clone(),
            Form::Index(index, header) => [vec![index.column.name.clone()], key(header)].concat(),
            Form::Plain => vec!["key".to_owned(), "value".to_owned()],
        }
    }

    /// The values of an entry, one for each of [`columns`](Self::columns).
    pub fn values(&self, key: &[u8], value: &[u8]) -> Result<Values> {
        let no_row = |why: String| Fail::Error(format!("an entry is not a valid row: {why}"));
        let columns = match self {
            Form::Rows(header) => {
                let mut values = header.decode(key, value).map_err(no_row)?;
                if header.key.is_empty() {
                    let number = header.decode_key(key).map_err(no_row)?.pop();
                    values.columns.insert(0, number);
                }
                return Ok(values);
            }
            Form::Index(index, header) => {
                let (value, key) = header.decode_index_key(&index.column, key).map_err(no_row)?;
                let key = header.decode_key(key).map_err(no_row)?;
                [value].into_iter().chain(key.into_iter().map(Some)).collect()
            }
            Form::Plain => vec![Some(key.to_vec()), Some(value.to_vec())],
        };
        Ok(Values { columns, more: Vec::new() })
    }

    /// The complete key of an entry: a word for each key column, or one word.
    pub fn key(&self, words: &[String]) -> Result<Vec<u8>> {
        let wanted = match self {
            Form::Rows(header) => header.key.len().max(1),
            Form::Index(_, header) => 1 + header.key.len().max(1),
            Form::Plain => 1,
        };
        if words.len() == wanted {
            return self.start(words).map_err(Fail::Error);
        }
        error(match self {
            Form::Rows(header) if !header.key.is_empty() => header.wrong_key_length(words.len()),
            Form::Index(..) => format!("a key of this index has {wanted} values"),
            _ => "the key of this tree is a single value".to_owned(),
        })
    }

    /// Parses a bound: values of the first columns, separated by commas. An empty value after the
    /// last comma does not count. A year or another part of a time is its first moment.
    pub fn bound(&self, text: &str) -> Result<Vec<u8>> {
        let mut words = self.split(text);
        if words.len() > 1 && words.last().is_some_and(String::is_empty) {
            words.pop();
        }
        let words = words.into_iter().enumerate().map(|(part, word)| match self.key_column(part) {
            Ok(column) => column.bound(word),
            Err(_) => Ok(word),
        });
        words
            .collect::<Result<Vec<_>, _>>()
            .and_then(|words| self.start(&words))
            .map_err(Fail::Error)
    }

    /// The range of the keys that start with a text: values of the first columns, separated by
    /// commas, of which the last is the beginning of a value.
    pub fn prefix(&self, text: &str) -> Result<(Bound<Vec<u8>>, Bound<Vec<u8>>)> {
        let words = self.split(text);
        let (last, before) = words.split_last().expect("a text has one part or more");
        let is_whole = last == "\\N" || (last.is_empty() && !before.is_empty());
        if is_whole || matches!(self, Form::Plain) {
            return Ok(frond::prefix(self.bound(text)?));
        }
        let range = || {
            let mut first = self.start(before)?;
            let column = self.key_column(before.len())?;
            if before.is_empty() && matches!(self, Form::Index(..)) {
                first.push(PRESENT);
            }
            let mut end = first.clone();
            column.write_prefix(&unescape(last)?, &mut first, &mut end)?;
            Ok((Bound::Included(first), frond::prefix(end).1))
        };
        range().map_err(Fail::Error)
    }

    /// The column of this part of a key.
    ///
    /// # Errors
    /// The part is the number of a row, or there is none.
    fn key_column(&self, part: usize) -> Result<&KeyColumn, String> {
        let (part, header) = match self {
            Form::Index(index, _) if part == 0 => return Ok(&index.column),
            Form::Index(_, header) => (part - 1, header),
            Form::Rows(header) => (part, header),
            Form::Plain => return Err("the key of this tree has no columns".to_owned()),
        };
        header.key.get(part).ok_or_else(|| match header.key.is_empty() {
            true => no_prefix("row"),
            false => header.wrong_key_length(part + 1),
        })
    }

    /// The parts of a bound.
    fn split(&self, text: &str) -> Vec<String> {
        match self {
            Form::Plain => vec![text.to_owned()],
            _ => split(text),
        }
    }

    /// The key of these words, one for each of the first columns; `\N` is null.
    fn start(&self, words: &[String]) -> Result<Vec<u8>, String> {
        if let Form::Plain = self {
            return unescape(&words.concat());
        }
        let values = words.iter().map(|word| unescape_or_null(word));
        let values = values.collect::<Result<Vec<_>, _>>()?;
        match (self, values.split_first()) {
            (Form::Index(index, header), Some((value, rest))) => {
                let mut key = Vec::new();
                index.column.write_optional(value.as_deref(), &mut key)?;
                key.extend(header.key_of(rest)?);
                Ok(key)
            }
            (Form::Rows(header), _) => header.key_of(&values),
            _ => Ok(Vec::new()),
        }
    }

    /// The key of the row that an index entry refers to.
    pub fn row_key<'k>(&self, key: &'k [u8]) -> Result<&'k [u8]> {
        match self {
            Form::Index(index, header) => {
                let entry = header.decode_index_key(&index.column, key);
                Ok(entry
                    .map_err(|why| {
                        Fail::Error(format!("an entry is not a valid index entry: {why}"))
                    })?
                    .1)
            }
            _ => Ok(key),
        }
    }

    /// Writes an entry as lines `Column: value`, or the bare value if the tree was not loaded.
    pub fn write_record(&self, key: &[u8], value: &[u8], out: &mut impl Write) -> Result {
        if let Form::Plain = self {
            return Ok(writeln!(out, "{}", escape(value))?);
        }
        let values = self.values(key, value)?;
        let columns = self.columns().into_iter().zip(values.columns);
        let present = columns.filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in present.chain(values.more) {
            writeln!(out, "{name}: {}", block(&value))?;
        }
        Ok(())
    }

    /// Numbers of these columns; of all if none is named.
    pub fn select(&self, tree: &str, names: &[String]) -> Result<Vec<usize>> {
        let columns = self.columns();
        let find = |name: &String| match columns.iter().position(|column| column == name) {
            Some(at) => Ok(at),
            None => error(match self {
                Form::Index(index, _) => format!(
                    "the index \"{tree}\" has only {}; to print rows: frond scan DIR {} --by {}",
                    columns.join(", "),
                    index.of,
                    index.column.name
                ),
                _ => format!("no column \"{name}\"; existing columns: {}", columns.join(", ")),
            }),
        };
        match names.is_empty() {
            true => Ok((0..columns.len()).collect()),
            false => names.iter().map(find).collect(),
        }
    }
}

/// Splits the values of a bound at commas; they stay escaped, except that `\,` is a comma.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            ',' => words.push(std::mem::take(&mut word)),
            '\\' => match characters.next() {
                Some(',') => word.push(','),
                Some(other) => word.extend(['\\', other]),
                None => word.push('\\'),
            },
            other => word.push(other),
        }
    }
    words.push(word);
    words
}

/// A value that may have several lines, each escaped by itself.
fn block(value: &[u8]) -> String {
    value.split(|byte| *byte == b'\n').map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_split_at_commas() {
        let split = |text| split(text).join("|");
        assert_eq!(split("DE,K\\xf6ln\\, am Rhein"), "DE|K\\xf6ln, am Rhein");
        assert_eq!(split("DE,"), "DE|");
        assert_eq!(split("a\\\\,b"), "a\\\\|b");
        assert_eq!(split("a\\"), "a\\");
    }
}
