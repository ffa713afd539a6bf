//! The meaning of a tree's entries: rows of loaded trees and their indexes have columns, all others
//! are a key and a value.

use std::io::Write;

use frond::{Db, Tree};

use crate::{
    escape::{escape, unescape},
    fail::{Fail, Result, error},
    rows::{Header, IndexHeader, Values},
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
        let no_row = |why: String| Fail::Error(format!("an entry is not a row: {why}"));
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
            let words = words.iter().map(|word| unescape(word)).collect::<Result<Vec<_>, _>>();
            return self.start(&words.map_err(Fail::Error)?, false);
        }
        error(match self {
            Form::Rows(header) if !header.key.is_empty() => header.key_is(words.len()),
            Form::Index(..) => format!("a key of this index has {wanted} values"),
            _ => "the key of this tree is one word".to_owned(),
        })
    }

    /// The first bytes of the keys that a bound means: values of the first columns, separated by
    /// commas. With `is_prefix`, the last value is the beginning of a text.
    pub fn bound(&self, text: &str, is_prefix: bool) -> Result<Vec<u8>> {
        let words = match self {
            Form::Plain => unescape(text).map(|key| vec![key]),
            _ => split(text),
        };
        self.start(&words.map_err(Fail::Error)?, is_prefix)
    }

    fn start(&self, words: &[Vec<u8>], is_prefix: bool) -> Result<Vec<u8>> {
        let key = match self {
            Form::Rows(header) => header.key_of(words, is_prefix),
            Form::Index(index, header) => match words.split_first() {
                None => Ok(Vec::new()),
                Some((value, [])) if is_prefix => {
                    let mut key = vec![1];
                    index.column.write_prefix(value, &mut key).map(|()| key)
                }
                Some((value, rest)) => {
                    let mut key = vec![1];
                    index.column.write(value, &mut key).and_then(|()| {
                        key.extend(header.key_of(rest, is_prefix)?);
                        Ok(key)
                    })
                }
            },
            Form::Plain => Ok(words.concat()),
        };
        key.map_err(Fail::Error)
    }

    /// The key of the row that an index entry refers to.
    pub fn row_key<'k>(&self, key: &'k [u8]) -> Result<&'k [u8]> {
        match self {
            Form::Index(index, header) => {
                let entry = header.decode_index_key(&index.column, key);
                Ok(entry
                    .map_err(|why| Fail::Error(format!("an entry is not of an index: {why}")))?
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
                    "the index \"{tree}\" has only {}; `frond scan DIR {} --by {}` prints rows",
                    columns.join(", "),
                    index.of,
                    index.column.name
                ),
                _ => format!("no column \"{name}\"; there are: {}", columns.join(", ")),
            }),
        };
        match names.is_empty() {
            true => Ok((0..columns.len()).collect()),
            false => names.iter().map(find).collect(),
        }
    }
}

/// Splits the values of a bound at commas. `\,` is a comma within a value; other escapes are those
/// of [`unescape`].
fn split(text: &str) -> Result<Vec<Vec<u8>>, String> {
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
    words.iter().map(|word| unescape(word)).collect()
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
        let split = |text| split(text).map(|words| words.join(&b'|'));
        assert_eq!(split("DE,K\\xf6ln\\, am Rhein"), Ok(b"DE|K\xf6ln, am Rhein".to_vec()));
        assert_eq!(split("DE,"), Ok(b"DE|".to_vec()));
        assert_eq!(split("a\\\\,b"), Ok(b"a\\|b".to_vec()));
        assert!(split("a\\").is_err() && split("\\q").is_err());
    }
}
