//! Tables of the workloads, and the encoding of their rows as keys and values of an embedded store.
//!
//! Invariants
//! 1. Encoded keys in memcmp order have the order of their columns.
//! 2. A row's key is its primary-key columns and its value the other columns in DDL order. An index
//!    entry's key is the index columns followed by the primary key, with an empty value.
//! 3. Every target stores the same rows: the checksum is over this encoding, whatever encoding the
//!    target uses.
//!
//! Integers are big-endian with the sign bit flipped, floats are in order-preserving form, times
//! are u64 milliseconds. Strings are escaped and terminated in keys and length-prefixed in values.
//! Both are as in Frond's layouts (`layout.rs`), so that a store that reads layouts finds the
//! columns.

use xxhash_rust::xxh3::xxh3_64;

/// A column's type, with its declared width.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// Signed, 1 byte.
    I8,
    /// Signed, 2 bytes.
    I16,
    /// Signed, 4 bytes.
    I32,
    /// Signed, 8 bytes.
    I64,
    /// Unsigned, 4 bytes.
    U32,
    /// Unsigned, 8 bytes.
    U64,
    /// 4-byte float.
    F32,
    /// Milliseconds since 1970, 8 bytes.
    Millis,
    /// Text of any length.
    Text,
    /// Bytes of any length.
    Blob,
    /// Bytes as they are; only in values of raw tables.
    Bytes,
    /// A big-endian 8-byte number and this many filler bytes; only in keys of raw tables.
    Number(u16),
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name, also in SQL.
    pub name: &'static str,
    /// Type.
    pub kind: Type,
}

impl Column {
    /// A column with this name and type.
    pub fn new(name: &'static str, kind: Type) -> Self {
        Self { name, kind }
    }
}

/// A secondary index.
#[derive(Clone, Debug)]
pub struct Index {
    /// Name.
    pub name: &'static str,
    /// Positions of its columns in the table.
    pub columns: Vec<usize>,
}

/// A table with its indexes.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// Columns in DDL order.
    pub columns: Vec<Column>,
    /// Positions of the primary-key columns.
    pub primary: Vec<usize>,
    /// Secondary indexes.
    pub indexes: Vec<Index>,
    /// Number of the table's row keyspace in the store; those of its indexes follow.
    pub base: Keyspace,
}

/// Number of a keyspace. Within a table, 0 is the rows and 1.. the indexes in order; in a store,
/// the keyspaces of all tables are numbered consecutively.
pub type Keyspace = usize;

impl Table {
    /// Returns a table of raw keys and values; a key is an 8-byte number, padded to `key_bytes`.
    pub fn raw(name: &'static str, key_bytes: usize) -> Self {
        let filler = key_bytes.saturating_sub(8) as u16;
        Self {
            name,
            base: 0,
            columns: vec![
                Column { name: "k", kind: Type::Number(filler) },
                Column { name: "v", kind: Type::Bytes },
            ],
            primary: vec![0],
            indexes: Vec::new(),
        }
    }

    /// Assigns keyspaces to the tables, in order.
    pub fn number(tables: &mut [Self]) {
        let mut next = 0;
        for table in tables {
            table.base = next;
            next += 1 + table.indexes.len();
        }
    }

    /// Whether the rows are raw keys and values.
    pub fn is_raw(&self) -> bool {
        self.columns.iter().any(|column| column.kind == Type::Bytes)
    }

    /// Names of the keyspaces, rows first.
    pub fn keyspaces(&self) -> Vec<String> {
        let indexes = self.indexes.iter().map(|index| format!("{}.by_{}", self.name, index.name));
        std::iter::once(self.name.to_owned()).chain(indexes).collect()
    }

    /// Positions of the columns that are in the value.
    pub fn value_columns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.columns.len()).filter(|column| !self.primary.contains(column))
    }

    /// Positions of the columns of a keyspace's key, in order.
    pub fn key_columns(&self, keyspace: Keyspace) -> Vec<usize> {
        match keyspace.checked_sub(1).and_then(|index| self.indexes.get(index)) {
            Some(index) => index.columns.iter().chain(&self.primary).copied().collect(),
            None => self.primary.clone(),
        }
    }
}

/// A column's value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value<'a> {
    /// Signed, 1 byte.
    I8(i8),
    /// Signed, 2 bytes.
    I16(i16),
    /// Signed, 4 bytes.
    I32(i32),
    /// Signed, 8 bytes.
    I64(i64),
    /// Unsigned, 4 bytes.
    U32(u32),
    /// Unsigned, 8 bytes.
    U64(u64),
    /// 4-byte float.
    F32(f32),
    /// Milliseconds since 1970.
    Millis(u64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Bytes at the declared width, without headers.
    pub fn logical_bytes(&self) -> u64 {
        match self {
            Value::I8(_) => 1,
            Value::I16(_) => 2,
            Value::I32(_) | Value::U32(_) | Value::F32(_) => 4,
            Value::I64(_) | Value::U64(_) | Value::Millis(_) => 8,
            Value::Text(_) | Value::Blob(_) => self.bytes().map_or(0, <[u8]>::len) as u64,
        }
    }

    /// The bytes of a text or blob.
    fn bytes(&self) -> Option<&'a [u8]> {
        match *self {
            Value::Text(text) => Some(text.as_bytes()),
            Value::Blob(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The integer, of any width; 0 for other types.
    pub fn integer(&self) -> i64 {
        match *self {
            Value::I8(v) => v.into(),
            Value::I16(v) => v.into(),
            Value::I32(v) => v.into(),
            Value::I64(v) => v,
            Value::U32(v) => v.into(),
            Value::U64(v) | Value::Millis(v) => v as i64,
            Value::F32(_) | Value::Text(_) | Value::Blob(_) => 0,
        }
    }

    /// The text; empty for other types.
    pub fn text(&self) -> &'a str {
        if let Value::Text(text) = *self { text } else { "" }
    }

    fn append_fixed(&self, out: &mut Vec<u8>) {
        match *self {
            Value::I8(v) => out.push((v as u8) ^ (1 << 7)),
            Value::I16(v) => out.extend_from_slice(&((v as u16) ^ (1 << 15)).to_be_bytes()),
            Value::I32(v) => out.extend_from_slice(&((v as u32) ^ (1 << 31)).to_be_bytes()),
            Value::I64(v) => out.extend_from_slice(&((v as u64) ^ (1 << 63)).to_be_bytes()),
            Value::U32(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::U64(v) | Value::Millis(v) => out.extend_from_slice(&v.to_be_bytes()),
            Value::F32(v) => {
                let bits = v.to_bits();
                let flip = if bits >> 31 == 1 { u32::MAX } else { 1 << 31 };
                out.extend_from_slice(&(bits ^ flip).to_be_bytes());
            }
            Value::Text(_) | Value::Blob(_) => {}
        }
    }

    /// Appends the column's value as part of a key.
    pub fn append_key(&self, out: &mut Vec<u8>) {
        let Some(bytes) = self.bytes() else { return self.append_fixed(out) };
        // 0x00 in the text becomes 0x00 0xff. 0x00 0x01 ends it and sorts before any continuation.
        for &byte in bytes {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
        out.extend_from_slice(&[0, 1]);
    }

    /// Appends the column's value as part of a row's value.
    pub fn append_value(&self, out: &mut Vec<u8>) {
        let Some(bytes) = self.bytes() else { return self.append_fixed(out) };
        // The length in LEB128: seven bits a byte, the lowest first.
        let mut rest = bytes.len();
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
        out.extend_from_slice(bytes);
    }
}

/// A row encoded for every keyspace, in reusable buffers.
#[derive(Clone, Debug, Default)]
pub struct EncodedRow {
    /// Key of the row.
    pub key: Vec<u8>,
    /// Value of the row.
    pub value: Vec<u8>,
    /// Keys of its index entries.
    pub index_keys: Vec<Vec<u8>>,
}

impl EncodedRow {
    /// Encodes `row`, whose values are in DDL order.
    pub fn encode(&mut self, table: &Table, row: &[Value<'_>]) {
        self.key.clear();
        self.value.clear();
        table.primary.iter().for_each(|&column| row[column].append_key(&mut self.key));
        table.value_columns().for_each(|column| row[column].append_value(&mut self.value));
        self.index_keys.resize_with(table.indexes.len(), Vec::new);
        for (index, key) in table.indexes.iter().zip(&mut self.index_keys) {
            key.clear();
            index.columns.iter().for_each(|&column| row[column].append_key(key));
            key.extend_from_slice(&self.key);
        }
    }

    /// Adds the row and its index entries to `sums`, one per keyspace.
    pub fn add_to(&self, sums: &mut [Checksum]) {
        let Some((rows, indexes)) = sums.split_first_mut() else { return };
        rows.add(&self.key, &self.value);
        indexes.iter_mut().zip(&self.index_keys).for_each(|(sum, key)| sum.add(key, &[]));
    }
}

/// Count, bytes and checksum of a keyspace's rows. Independent of their order, so that writers may
/// run concurrently.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Checksum {
    /// Rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    sum: u64,
}

impl Checksum {
    /// Adds a row.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows += 1;
        self.bytes += (key.len() + value.len()) as u64;
        self.sum = self.sum.wrapping_add(Self::hash(key, value));
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Checksum) {
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    fn hash(key: &[u8], value: &[u8]) -> u64 {
        xxh3_64(key).rotate_left(17).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ xxh3_64(value)
    }

    /// The checksum in hexadecimal.
    pub fn hex(&self) -> String {
        format!("{:016x}", self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(values: &[Value<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| value.append_key(&mut out));
        out
    }

    #[test]
    fn encoded_keys_sort_like_their_values() {
        let floats = [f32::NEG_INFINITY, -2.5, -0.1, 0.0, 0.1, 3.0, 1005.0];
        assert!(floats.windows(2).all(|w| key(&[Value::F32(w[0])]) < key(&[Value::F32(w[1])])));
        let integers = [i32::MIN, -7, -1, 0, 1, i32::MAX];
        assert!(integers.windows(2).all(|w| key(&[Value::I32(w[0])]) < key(&[Value::I32(w[1])])));
        let texts = ["", "\0", "\0a", "a", "a\0", "ab", "b"];
        for pair in texts.windows(2) {
            let with_tail = |text, n| key(&[Value::Text(text), Value::U32(n)]);
            assert!(with_tail(pair[0], u32::MAX) < with_tail(pair[1], 0), "{pair:?}");
        }
    }

    #[test]
    fn text_lengths_below_128_take_one_byte() {
        for (length, prefix) in
            [(0, &[0u8][..]), (127, &[127]), (128, &[128, 1]), (300, &[0xac, 2])]
        {
            let (text, mut value) = ("x".repeat(length), Vec::new());
            Value::Text(&text).append_value(&mut value);
            assert_eq!(value, [prefix, text.as_bytes()].concat());
        }
    }

    #[test]
    fn index_keys_end_with_the_primary_key() {
        let table = Table {
            name: "t",
            base: 0,
            columns: vec![
                Column { name: "id", kind: Type::I32 },
                Column { name: "a", kind: Type::U32 },
                Column { name: "b", kind: Type::Text },
            ],
            primary: vec![0],
            indexes: vec![Index { name: "ix", columns: vec![2, 1] }],
        };
        let mut encoded = EncodedRow::default();
        encoded.encode(&table, &[Value::I32(7), Value::U32(9), Value::Text("x")]);
        assert_eq!(encoded.key, [0x80, 0, 0, 7]);
        assert_eq!(encoded.value, [0, 0, 0, 9, 1, b'x']);
        assert_eq!(encoded.index_keys[0], [b'x', 0, 1, 0, 0, 0, 9, 0x80, 0, 0, 7]);
        assert_eq!(table.keyspaces(), ["t", "t.by_ix"]);
        assert_eq!(table.key_columns(1), [2, 1, 0]);
    }

    #[test]
    fn a_checksum_ignores_order_and_covers_every_byte() {
        let (mut one, mut two) = (Checksum::default(), Checksum::default());
        one.add(b"a", b"1");
        one.add(b"b", b"2");
        two.add(b"b", b"2");
        two.add(b"a", b"1");
        assert_eq!(one, two);
        let of = |key, value| {
            let mut sum = Checksum::default();
            sum.add(key, value);
            sum
        };
        assert_ne!(of(b"a", b"1"), of(b"a", b"2"));
        assert_ne!(of(b"a", b"1"), of(b"1", b"a"));
        assert_ne!(of(b"a", b""), of(b"", b"a"));
    }
}
