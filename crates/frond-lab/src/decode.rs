//! Decoding: turns the bytes of `schema.rs` back into the columns of rows.

use crate::schema::{Keyspace, Table, Type, Value};

/// Returns the columns of a row in DDL order, decoded from its key and value; `None` if they are
/// not those of a row of this table.
///
/// A text in a key must not contain a zero byte, which would be escaped there; no workload has such
/// keys.
pub fn row<'a>(table: &Table, key: &'a [u8], value: &'a [u8]) -> Option<Vec<Value<'a>>> {
    let mut row = Vec::with_capacity(table.columns.len());
    row_into(table, key, value, &mut row).then_some(row)
}

/// Like [`row`], into a buffer. Returns false if the bytes are not those of a row of this table.
pub fn row_into<'a>(
    table: &Table,
    key: &'a [u8],
    value: &'a [u8],
    row: &mut Vec<Value<'a>>,
) -> bool {
    row.clear();
    row.resize(table.columns.len(), Value::I8(0));
    decoded(table, key, value, row).is_some()
}

fn decoded<'a>(
    table: &Table,
    mut key: &'a [u8],
    mut value: &'a [u8],
    row: &mut [Value<'a>],
) -> Option<()> {
    for &column in &table.primary {
        row[column] = of_key(table.columns[column].kind, &mut key)?;
    }
    for column in table.value_columns() {
        row[column] = of_value(table.columns[column].kind, &mut value)?;
    }
    (key.is_empty() && value.is_empty()).then_some(())
}

/// Returns one column of a row's value, without the others.
pub fn value_column<'a>(table: &Table, column: usize, mut value: &'a [u8]) -> Option<Value<'a>> {
    for at in table.value_columns() {
        let found = of_value(table.columns[at].kind, &mut value)?;
        if at == column {
            return Some(found);
        }
    }
    None
}

/// Returns the columns of an entry's key, in the order of the keyspace (0 the rows, 1.. the
/// indexes).
pub fn key<'a>(table: &Table, keyspace: Keyspace, mut key: &'a [u8]) -> Option<Vec<Value<'a>>> {
    let columns = table.key_columns(keyspace);
    columns.iter().map(|&column| of_key(table.columns[column].kind, &mut key)).collect()
}

fn fixed<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, more) = rest.split_first_chunk::<N>()?;
    *rest = more;
    Some(*first)
}

fn of_fixed<'a>(kind: Type, rest: &mut &'a [u8]) -> Option<Value<'a>> {
    Some(match kind {
        Type::I8 => Value::I8((fixed::<1>(rest)?[0] ^ (1 << 7)) as i8),
        Type::I16 => Value::I16((u16::from_be_bytes(fixed(rest)?) ^ (1 << 15)) as i16),
        Type::I32 => Value::I32((u32::from_be_bytes(fixed(rest)?) ^ (1 << 31)) as i32),
        Type::I64 => Value::I64((u64::from_be_bytes(fixed(rest)?) ^ (1 << 63)) as i64),
        Type::U32 => Value::U32(u32::from_be_bytes(fixed(rest)?)),
        Type::U64 => Value::U64(u64::from_be_bytes(fixed(rest)?)),
        Type::Millis => Value::Millis(u64::from_be_bytes(fixed(rest)?)),
        Type::F32 => {
            let bits = u32::from_be_bytes(fixed(rest)?);
            let flip = if bits >> 31 == 1 { 1 << 31 } else { u32::MAX };
            Value::F32(f32::from_bits(bits ^ flip))
        }
        Type::Text | Type::Blob | Type::Bytes | Type::Number(_) => return None,
    })
}

fn of_bytes(kind: Type, bytes: &[u8]) -> Option<Value<'_>> {
    match kind {
        Type::Text => Some(Value::Text(std::str::from_utf8(bytes).ok()?)),
        _ => Some(Value::Blob(bytes)),
    }
}

fn of_key<'a>(kind: Type, rest: &mut &'a [u8]) -> Option<Value<'a>> {
    if !matches!(kind, Type::Text | Type::Blob) {
        return of_fixed(kind, rest);
    }
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (bytes, more) = rest.split_at(end);
    *rest = more.strip_prefix(&[0, 1])?;
    of_bytes(kind, bytes)
}

fn of_value<'a>(kind: Type, rest: &mut &'a [u8]) -> Option<Value<'a>> {
    if !matches!(kind, Type::Text | Type::Blob) {
        return of_fixed(kind, rest);
    }
    let (mut length, mut shift) = (0usize, 0);
    loop {
        let (&byte, more) = rest.split_first()?;
        *rest = more;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    let (bytes, more) = rest.split_at_checked(length)?;
    *rest = more;
    of_bytes(kind, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, EncodedRow, Index};

    #[test]
    fn rows_round_trip_through_the_encoding() {
        let kinds = [
            Type::I8,
            Type::I16,
            Type::I32,
            Type::I64,
            Type::U32,
            Type::U64,
            Type::F32,
            Type::Millis,
            Type::Text,
            Type::Blob,
        ];
        let column = |kind: &Type| Column { name: "c", kind: *kind };
        let table = Table {
            name: "t",
            columns: kinds.iter().map(column).collect(),
            primary: vec![8, 3, 6],
            indexes: vec![Index { name: "ix", columns: vec![9, 1] }],
            base: 0,
        };
        for sign in [-1, 1] {
            let blob = [7u8; 300];
            let values = [
                Value::I8(sign * 5),
                Value::I16(i16::from(sign) * 300),
                Value::I32(i32::from(sign) * 70_000),
                Value::I64(i64::from(sign) << 40),
                Value::U32(u32::MAX),
                Value::U64(u64::MAX),
                Value::F32(f32::from(sign) * 1.5),
                Value::Millis(9),
                Value::Text("text"),
                Value::Blob(&blob),
            ];
            let mut encoded = EncodedRow::default();
            encoded.encode(&table, &values);
            assert_eq!(row(&table, &encoded.key, &encoded.value).as_deref(), Some(&values[..]));
            let of_index = [values[9], values[1], values[8], values[3], values[6]];
            assert_eq!(key(&table, 1, &encoded.index_keys[0]).as_deref(), Some(&of_index[..]));
            let cut = &encoded.value[..encoded.value.len() - 1];
            assert_eq!(row(&table, &encoded.key, cut), None);
            assert_eq!(row(&table, &encoded.key[1..], &[]), None);
        }
    }
}
