//! The durable part of a table's definition: the attributes of the tree of its rows.
//!
//! Invariants
//! 1. Decoding any bytes gives a definition or a [`DecodeError`]; it allocates no more than the
//!    bytes given.
//! 2. What decodes, encodes to the same bytes.
//!
//! Threads: plain values. Bytes: docs/format.md, "Table definitions".

use std::collections::{HashMap, HashSet};

use crate::{
    Error, Result, TreeId, bounds,
    coding::{Reader, put_bytes, put_varint},
    layout::DecodeError,
};

use super::record::TABLE_ATTRIBUTES;

const MAGIC: &[u8; 12] = TABLE_ATTRIBUTES;
const VERSION: u8 = 1;
/// Version of the encoding for tables whose columns have names. The names follow everything else.
const VERSION_COLUMNS: u8 = 2;
const WHAT: &str = "table definition";
const UNIQUE: u64 = 1;
const CLUSTERING: u64 = 2;

/// A table's definition in the catalog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredTable {
    /// The tree of its rows. A clone of that tree has the same attributes but another id.
    pub rows: TreeId,
    /// The next index's number; numbers are never reused within the table.
    pub next: u64,
    /// The indexes that may be read, by number.
    pub indexes: Vec<StoredIndex>,
    /// Trees of builds that have not ended: garbage, unless the build is still running.
    pub leftovers: Vec<TreeId>,
    /// The names of its columns, in the order of their parts in the layout of the rows, after the
    /// version; empty if the columns have no names.
    pub columns: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredIndex {
    pub number: u64,
    pub name: String,
    pub unique: bool,
    pub clustering: bool,
    pub tree: TreeId,
}

/// True if attributes are those of a table, of any version.
pub fn is_table(attributes: &[u8]) -> bool {
    attributes.starts_with(MAGIC)
}

/// Fails if columns cannot have these names.
pub fn check_columns<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = HashSet::new();
    for name in names {
        let fits = !name.is_empty() && bounds::COLUMN_NAME_BYTES.admits(name.len());
        if !fits || !seen.insert(name) {
            let max = bounds::COLUMN_NAME_BYTES.max();
            return Err(Error::InvalidArgument(format!(
                "column \"{name}\": column names must be unique, not empty, and have up to {max} bytes"
            )));
        }
    }
    Ok(())
}

fn malformed(why: impl Into<String>) -> DecodeError {
    DecodeError::Malformed { what: WHAT, why: why.into() }
}

impl StoredTable {
    /// The table that the attributes of the tree of its rows define; `None` if there is none, or
    /// the tree is a clone of a table's rows.
    pub fn of(rows: TreeId, attributes: &[u8]) -> Option<Self> {
        let table = is_table(attributes).then(|| Self::decode(attributes))?;
        table.ok().filter(|table| table.rows == rows)
    }

    /// The definition of a copy of the table, with its rows in the tree `rows`. `numbers` maps the
    /// trees of the table to those of the copy; if one is missing, the error is the name of its
    /// index.
    pub fn renumbered(
        mut self,
        rows: TreeId,
        numbers: &HashMap<TreeId, TreeId>,
    ) -> Result<Self, String> {
        self.leftovers.clear();
        self.rows = rows;
        for index in &mut self.indexes {
            index.tree = *numbers.get(&index.tree).ok_or_else(|| index.name.clone())?;
        }
        Ok(self)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(if self.columns.is_empty() { VERSION } else { VERSION_COLUMNS });
        put_varint(&mut out, self.rows.0.into());
        put_varint(&mut out, self.next);
        put_varint(&mut out, self.indexes.len() as u64);
        for index in &self.indexes {
            put_varint(&mut out, index.number);
            put_bytes(&mut out, index.name.as_bytes());
            let unique = if index.unique { UNIQUE } else { 0 };
            let clustering = if index.clustering { CLUSTERING } else { 0 };
            put_varint(&mut out, unique | clustering);
            put_varint(&mut out, index.tree.0.into());
        }
        put_varint(&mut out, self.leftovers.len() as u64);
        self.leftovers.iter().for_each(|tree| put_varint(&mut out, tree.0.into()));
        if !self.columns.is_empty() {
            put_varint(&mut out, self.columns.len() as u64);
            self.columns.iter().for_each(|name| put_bytes(&mut out, name.as_bytes()));
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| malformed("it is none"))?;
        let reader = &mut Reader::new(rest);
        let version = reader.u8().ok_or_else(ends)?;
        if let Some(flaw) = DecodeError::version(WHAT, version, VERSION_COLUMNS) {
            return Err(flaw);
        }
        let rows = tree(reader)?;
        let next = reader.varint().ok_or_else(ends)?;
        let mut indexes: Vec<StoredIndex> = Vec::new();
        for _ in 0..reader.count(4).ok_or_else(ends)? {
            let number = reader.varint().ok_or_else(ends)?;
            let name = reader.bytes().ok_or_else(ends)?;
            let name = str::from_utf8(name).map_err(|_| malformed("a name is not UTF-8"))?;
            let flags = reader.varint().ok_or_else(ends)?;
            if flags > (UNIQUE | CLUSTERING) {
                return Err(DecodeError::TooNew { what: format!("{WHAT}: flags {flags:#x}") });
            }
            let is_next = indexes.last().is_none_or(|last| last.number < number);
            if !is_next || number >= next || indexes.iter().any(|other| other.name == name) {
                return Err(malformed("numbers or names of indexes are out of order"));
            }
            indexes.push(StoredIndex {
                number,
                name: name.into(),
                unique: flags & UNIQUE != 0,
                clustering: flags & CLUSTERING != 0,
                tree: tree(reader)?,
            });
        }
        let count = reader.count(1).ok_or_else(ends)?;
        let leftovers = (0..count).map(|_| tree(reader)).collect::<Result<_, _>>()?;
        let mut columns = Vec::new();
        if version == VERSION_COLUMNS {
            for _ in 0..reader.count(1).ok_or_else(ends)? {
                let name = reader.bytes().ok_or_else(ends)?;
                let name = str::from_utf8(name).map_err(|_| malformed("a name is not UTF-8"))?;
                columns.push(name.to_owned());
            }
            if check_columns(columns.iter().map(|name| &**name)).is_err() || columns.is_empty() {
                return Err(malformed("names of columns that cannot be"));
            }
        }
        match reader.rest() {
            [] => Ok(Self { rows, next, indexes, leftovers, columns }),
            rest => Err(malformed(format!("{} bytes follow its end", rest.len()))),
        }
    }
}

fn ends() -> DecodeError {
    malformed("it ends too early")
}

/// Reads a tree id. Tree 0 is the catalog.
fn tree(reader: &mut Reader<'_>) -> Result<TreeId, DecodeError> {
    let number = reader.varint().ok_or_else(ends)?;
    match u32::try_from(number) {
        Ok(number @ 1..) => Ok(TreeId(number)),
        _ => Err(malformed("it names no tree of the user's")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored() -> StoredTable {
        let index = |number, name: &str, unique, clustering, tree| StoredIndex {
            number,
            name: name.into(),
            unique,
            clustering,
            tree: TreeId(tree),
        };
        StoredTable {
            rows: TreeId(7),
            next: 300,
            indexes: vec![
                index(0, "mail", true, false, 8),
                index(2, "city", false, true, 200),
                index(299, "both", true, true, u32::MAX),
            ],
            leftovers: vec![TreeId(300), TreeId(301)],
            columns: vec![],
        }
    }

    #[test]
    fn stored_definitions_round_trip() {
        let empty = StoredTable {
            rows: TreeId(1),
            next: 0,
            indexes: vec![],
            leftovers: vec![],
            columns: vec![],
        };
        let named = StoredTable { columns: vec!["id".into(), "née".into()], ..stored() };
        for stored in [stored(), empty, named] {
            let bytes = stored.encode();
            assert!(is_table(&bytes));
            assert_eq!(StoredTable::decode(&bytes), Ok(stored));
        }
    }

    #[test]
    fn other_bytes_are_refused_or_decode_to_another_definition() {
        for columns in [vec![], vec!["id".into(), "n".into()]] {
            any_other_bytes(&StoredTable { columns, ..stored() });
        }
    }

    fn any_other_bytes(stored: &StoredTable) {
        let bytes = stored.encode();
        for end in 0..bytes.len() {
            assert!(StoredTable::decode(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for flip in 1..=255 {
                let mut other = bytes.clone();
                other[at] ^= flip;
                if let Ok(decoded) = StoredTable::decode(&other) {
                    assert_eq!(decoded.encode(), other, "one form only");
                }
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(StoredTable::decode(&longer).is_err());
        let mut newer = bytes;
        newer[MAGIC.len()] = 3;
        assert!(matches!(StoredTable::decode(&newer), Err(DecodeError::TooNew { .. })));
    }
}
