//! The format of records that `load` writes: the header in a tree's attributes, keys, index keys
//! and rows.
//!
//! The **header** is JSON in the attributes of the tree: the names of the columns, which of them
//! are the key and which are indexed. Later only `frond index` changes it, by adding indexes.
//!
//! A **key** holds the key columns as a tuple: text, 64-bit integers, floats, or times as
//! microseconds since 1970 (`i64`), each ascending or descending; without key columns it is the
//! number of the row (`u64`). Text and integers of the key are not repeated in the row.
//!
//! A **row** is column-wise:
//!
//! | part | bytes |
//! |---|---|
//! | presence | one bit per column in the row, in order, lowest bit first; whole bytes |
//! | columns | for each of them LEB128 length and the bytes; a missing one has length 0 |
//! | more | if the header says so: LEB128 length, then names and values as below |
//!
//! A presence bit is set if the record has the field. `more` has the fields whose names came too
//! late for the header, each as LEB128 length and name, LEB128 length and value.
//!
//! An **index key** is the column as an optional part (a flag, then the value as in a key),
//! followed by the key of the row; its value is empty.
//!
//! Invariants
//! 1. A record with valid key columns is restored from key and row field by field, except that
//!    integers of the key lose a plus sign and leading zeros.
//! 2. Rows and keys fit the layouts given here.
//! 3. Bytes that are not a row or key of this header are refused; nothing panics.

use frond::{
    layout::{End, Hint, Layout, Part},
    tuple,
};
use serde::{Deserialize, Serialize};

mod column;

pub use column::{ColumnKind, KeyColumn, integer, list, no_column, no_prefix};

/// What a loaded tree stores about itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// Version of this format.
    pub frond_rows: u32,
    /// Names of all columns.
    pub columns: Vec<String>,
    /// The key columns, in order; none if rows are numbered.
    pub key: Vec<KeyColumn>,
    /// The indexed columns.
    pub indexes: Vec<KeyColumn>,
    /// True if rows may have fields that are not among the columns.
    pub more: bool,
}

/// What an index stores about itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct IndexHeader {
    /// Version of this format.
    pub frond_index: u32,
    /// The tree that it is an index of.
    pub of: String,
    /// Name and kind of the column.
    pub column: KeyColumn,
}

/// Version of header and rows.
pub const VERSION: u32 = 1;

/// Name of a tree's index on a column.
pub fn index_name(tree: &str, column: &KeyColumn) -> String {
    format!("{tree}.by_{}", column.name)
}

/// A field of a row: name and value.
pub type Field = (String, Vec<u8>);

/// The values of a row: one for each column, and fields that have no column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Values {
    pub columns: Vec<Option<Vec<u8>>>,
    pub more: Vec<Field>,
}

impl Header {
    /// The header of a tree; `None` if it was not loaded by this command.
    pub fn of(tree: &frond::Tree) -> Option<Self> {
        Self::from_attributes(&tree.info().options.attributes)
    }

    /// Parses a tree's attributes; `None` if it was not loaded by this command.
    pub fn from_attributes(attributes: &[u8]) -> Option<Self> {
        let header: Self = serde_json::from_slice(attributes).ok()?;
        (header.frond_rows == VERSION).then_some(header)
    }

    /// Encodes the header as attributes.
    pub fn to_attributes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("names and numbers have a JSON form")
    }

    /// Numbers of the columns that are in the row, in order: all that a key does not restore.
    pub fn row_columns(&self) -> Vec<usize> {
        let in_key = |name: &String| {
            self.key.iter().any(|column| column.name == *name && column.is_restored_from_key())
        };
        (0..self.columns.len()).filter(|&at| !in_key(&self.columns[at])).collect()
    }

    /// Layout of keys.
    pub fn key_layout(&self) -> Layout {
        let mut parts = Vec::new();
        self.key.iter().for_each(|column| column.describe(false, &mut parts));
        if parts.is_empty() {
            parts.push(Part::Fixed(8, Hint::Integer));
        }
        Layout::new(parts)
    }

    /// Layout of rows.
    pub fn row_layout(&self) -> Layout {
        let columns = self.row_columns().len();
        let mut parts = Vec::with_capacity(columns + 2);
        if columns > 0 {
            parts.push(Part::Fixed(columns.div_ceil(8) as u16, Hint::None));
        }
        parts.resize(parts.len() + columns + usize::from(self.more), Part::Var(End::Prefixed));
        if parts.is_empty() {
            parts.push(Part::Var(End::Rest));
        }
        Layout::new(parts)
    }

    /// Layout of the keys of an index on this column.
    pub fn index_layout(&self, column: &KeyColumn) -> Layout {
        let mut parts = Vec::new();
        column.describe(true, &mut parts);
        parts.extend_from_slice(self.key_layout().parts());
        Layout::new(parts)
    }

    /// The values of the row (`key`, `row`).
    pub fn decode(&self, key: &[u8], row: &[u8]) -> Result<Values, String> {
        let mut fields = vec![None; self.columns.len()];
        for (column, value) in self.key.iter().zip(self.decode_key(key)?) {
            if column.is_restored_from_key()
                && let Some(at) = self.place_of(column)
            {
                fields[at] = Some(value);
            }
        }
        let columns = self.row_columns();
        let mut reader = Reader { rest: row };
        let present = reader.take(columns.len().div_ceil(8))?;
        for (at, column) in columns.iter().enumerate() {
            let value = reader.bytes()?;
            match present.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1) {
                true => fields[*column] = Some(value.to_vec()),
                false if value.is_empty() => {}
                false => return Err("a column that is missing has a value".to_owned()),
            }
        }
        let mut more = Vec::new();
        if self.more {
            let mut reader = Reader { rest: reader.bytes()? };
            while !reader.rest.is_empty() {
                let name = String::from_utf8_lossy(reader.bytes()?).into_owned();
                more.push((name, reader.bytes()?.to_vec()));
            }
        }
        match reader.rest.is_empty() {
            true => Ok(Values { columns: fields, more }),
            false => Err("bytes follow the last column".to_owned()),
        }
    }

    /// The keys of the row (`key`, `row`) in the indexes, in their order.
    pub fn index_keys(&self, key: &[u8], row: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let values = self.decode(key, row)?;
        let keys = self.indexes.iter().map(|column| {
            let value = self.place_of(column).and_then(|at| values.columns[at].as_deref());
            let mut index_key = Vec::new();
            write_index_key(column, value, key, &mut index_key)?;
            Ok(index_key)
        });
        keys.collect()
    }

    /// The number of the column.
    fn place_of(&self, column: &KeyColumn) -> Option<usize> {
        self.columns.iter().position(|name| *name == column.name)
    }

    /// The values of the key columns.
    pub fn decode_key(&self, key: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut reader = tuple::KeyReader::new(key);
        let values = self.read_key(&mut reader).map_err(|error| error.to_string())?;
        match reader.rest().is_empty() {
            true => Ok(values),
            false => Err("bytes follow the last key column".to_owned()),
        }
    }

    fn read_key(&self, reader: &mut tuple::KeyReader<'_>) -> frond::Result<Vec<Vec<u8>>> {
        use tuple::ReadKeyPart;
        if self.key.is_empty() {
            return Ok(vec![u64::read(reader)?.to_string().into_bytes()]);
        }
        self.key.iter().map(|column| column.read(reader)).collect()
    }

    /// Value of the indexed column, and the key of the row, of an index key.
    pub fn decode_index_key<'k>(
        &self,
        column: &KeyColumn,
        key: &'k [u8],
    ) -> Result<(Option<Vec<u8>>, &'k [u8]), String> {
        let mut reader = tuple::KeyReader::new(key);
        let value = column.read_optional(&mut reader).map_err(|error| error.to_string())?;
        Ok((value, reader.rest()))
    }

    /// The key for values of the key columns, or of the first few of them, as typed by a user.
    ///
    /// # Errors
    /// There are too many values, or one is null or not of its column's type.
    pub fn key_of(&self, values: &[Option<Vec<u8>>]) -> Result<Vec<u8>, String> {
        let mut key = Vec::new();
        if self.key.is_empty() {
            let number = |text: &Vec<u8>| integer(text).and_then(|it| u64::try_from(it).ok());
            return match values {
                [] => Ok(key),
                [value] => match value.as_ref().and_then(number) {
                    Some(number) => Ok(tuple::encode(&(number,))),
                    None => {
                        Err("this tree has no key columns: the key is the number of the row"
                            .to_owned())
                    }
                },
                _ => {
                    Err("this tree has no key columns: the key is the number of the row".to_owned())
                }
            };
        }
        if values.len() > self.key.len() {
            return Err(self.wrong_key_length(values.len()));
        }
        for (column, value) in self.key.iter().zip(values) {
            match value {
                Some(value) => column.write(value, &mut key)?,
                None => return Err(format!("key column \"{}\" cannot be null", column.name)),
            }
        }
        Ok(key)
    }

    /// The message for a wrong number of key values.
    pub fn wrong_key_length(&self, given: usize) -> String {
        let columns = match self.key.len() {
            1 => "1 column".to_owned(),
            more => format!("{more} columns"),
        };
        let values =
            if given == 1 { "1 value was".to_owned() } else { format!("{given} values were") };
        format!("the key has {columns} ({}), but {values} given", list(&self.key))
    }
}

/// The parts of one record, ready to be written: set field by field, then read.
#[derive(Default, Debug)]
pub struct RowBuilder {
    key: Vec<u8>,
    row: Vec<u8>,
    more: Vec<u8>,
    /// Range of each column's value in `values`.
    spans: Vec<Option<(usize, usize)>>,
    values: Vec<u8>,
    row_columns: Vec<usize>,
    key_columns: Vec<usize>,
    index_columns: Vec<usize>,
}

impl RowBuilder {
    /// Creates a builder for rows of this header; its key and index columns must be among its
    /// columns.
    pub fn new(header: &Header) -> Self {
        let place =
            |column| header.place_of(column).expect("key and index columns are among the columns");
        Self {
            spans: vec![None; header.columns.len()],
            row_columns: header.row_columns(),
            key_columns: header.key.iter().map(place).collect(),
            index_columns: header.indexes.iter().map(place).collect(),
            ..Self::default()
        }
    }

    /// Removes the previous record.
    pub fn clear(&mut self) {
        self.spans.fill(None);
        self.values.clear();
        self.more.clear();
    }

    /// Sets the field of a column.
    pub fn set(&mut self, column: usize, value: &[u8]) {
        let start = self.values.len();
        self.values.extend_from_slice(value);
        self.spans[column] = Some((start, self.values.len()));
    }

    /// Adds a field that has no column.
    pub fn set_more(&mut self, name: &str, value: &[u8]) {
        push_bytes(&mut self.more, name.as_bytes());
        push_bytes(&mut self.more, value);
    }

    /// The value of the column of index `at`.
    pub fn indexed_value(&self, at: usize) -> Option<&[u8]> {
        self.value(self.index_columns[at])
    }

    fn value(&self, column: usize) -> Option<&[u8]> {
        let (start, end) = self.spans[column]?;
        Some(&self.values[start..end])
    }

    /// Builds key and row. `number` is the key if there are no key columns.
    pub fn finish(&mut self, header: &Header, number: u64) -> Result<(), String> {
        let mut key = std::mem::take(&mut self.key);
        key.clear();
        for (column, place) in header.key.iter().zip(&self.key_columns) {
            let value = self
                .value(*place)
                .ok_or_else(|| format!("key column \"{}\" has no value", column.name))?;
            column.write(value, &mut key)?;
        }
        if header.key.is_empty() {
            key.extend_from_slice(&number.to_be_bytes());
        }
        self.key = key;
        let mut row = std::mem::take(&mut self.row);
        row.clear();
        row.resize(self.row_columns.len().div_ceil(8), 0);
        for (at, column) in self.row_columns.iter().enumerate() {
            let value = self.value(*column);
            if value.is_some() {
                row[at / 8] |= 1 << (at % 8);
            }
            push_bytes(&mut row, value.unwrap_or_default());
        }
        if header.more {
            push_bytes(&mut row, &self.more);
        }
        self.row = row;
        Ok(())
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The row.
    pub fn row(&self) -> &[u8] {
        &self.row
    }

    /// Replaces `out` by the key of the record in this index.
    pub fn index_key(
        &self,
        header: &Header,
        index: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let (column, place) = (&header.indexes[index], self.index_columns[index]);
        write_index_key(column, self.value(place), &self.key, out)
    }
}

/// Replaces `out` by the key of a row in an index.
fn write_index_key(
    column: &KeyColumn,
    value: Option<&[u8]>,
    key: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), String> {
    out.clear();
    column.write_optional(value, out)?;
    out.extend_from_slice(key);
    Ok(())
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(bytes).ok_or("the row is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn bytes(&mut self) -> Result<&'a [u8], String> {
        let whole = Part::Var(End::Prefixed).bytes_in(self.rest).ok_or("the row is cut off")?;
        let part = self.take(whole)?;
        // The prefix ends with the first byte below 0x80.
        let prefix = part.iter().position(|byte| *byte < 0x80).map_or(whole, |at| at + 1);
        Ok(part.get(prefix..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
