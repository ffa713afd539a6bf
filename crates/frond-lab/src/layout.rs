//! Frond layouts for the lab's keys and values: their columns, as `schema.rs` encodes them.
//!
//! Invariants
//! 1. Every row of every workload fits the layouts of its table; the workloads' tests split all
//!    rows.

use frond::layout::{End, Hint, Layout, Part};

use crate::schema::{Keyspace, Table, Type};

/// Returns the layout of a keyspace's keys.
pub fn key(table: &Table, keyspace: Keyspace) -> Layout {
    layout(table, &table.key_columns(keyspace), End::Escaped)
}

/// Returns the layout of a keyspace's values; `None` if they are empty.
pub fn value(table: &Table, keyspace: Keyspace) -> Option<Layout> {
    let columns: Vec<usize> = table.value_columns().collect();
    (keyspace == 0 && !columns.is_empty()).then(|| layout(table, &columns, End::Prefixed))
}

/// Returns, for each part of a keyspace's keys, the name of its column.
pub fn key_columns(table: &Table, keyspace: Keyspace) -> Vec<&'static str> {
    names(table, &table.key_columns(keyspace))
}

/// Returns, for each part of a table's values, the name of its column.
pub fn value_columns(table: &Table) -> Vec<&'static str> {
    names(table, &table.value_columns().collect::<Vec<_>>())
}

fn names(table: &Table, columns: &[usize]) -> Vec<&'static str> {
    let name = |&column: &usize| {
        let parts = if matches!(table.columns[column].kind, Type::Number(1..)) { 2 } else { 1 };
        std::iter::repeat_n(table.columns[column].name, parts)
    };
    columns.iter().flat_map(name).collect()
}

fn layout(table: &Table, columns: &[usize], text: End) -> Layout {
    let mut parts = Vec::new();
    for &column in columns {
        match table.columns[column].kind {
            Type::I8 => parts.push(Part::Fixed(1, Hint::Integer)),
            Type::I16 => parts.push(Part::Fixed(2, Hint::Integer)),
            Type::I32 | Type::U32 => parts.push(Part::Fixed(4, Hint::Integer)),
            Type::I64 | Type::U64 | Type::Millis => parts.push(Part::Fixed(8, Hint::Integer)),
            // Floats are order-preserving in values too, which is the form that the hint describes.
            Type::F32 => parts.push(Part::Fixed(4, Hint::Float)),
            Type::Text | Type::Blob => parts.push(Part::Var(text)),
            Type::Bytes => parts.push(Part::Var(End::Rest)),
            Type::Number(filler) => {
                parts.push(Part::Fixed(8, Hint::Integer));
                parts.extend((filler > 0).then_some(Part::Fixed(filler, Hint::None)));
            }
        }
    }
    Layout::new(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Column, EncodedRow, Index, Value};

    #[test]
    fn layout_parts_match_the_columns() {
        let table = Table {
            name: "t",
            base: 0,
            columns: vec![
                Column::new("a", Type::Text),
                Column::new("b", Type::I8),
                Column::new("c", Type::F32),
                Column::new("d", Type::Text),
                Column::new("e", Type::Millis),
            ],
            primary: vec![4, 0],
            indexes: vec![Index { name: "ix", columns: vec![3, 2] }],
        };
        let long = "d".repeat(200);
        let row = [
            Value::Text("a\0b"),
            Value::I8(-1),
            Value::F32(-0.0),
            Value::Text(&long),
            Value::Millis(7),
        ];
        let mut encoded = EncodedRow::default();
        encoded.encode(&table, &row);
        let ends = |layout: Layout, bytes: &[u8]| {
            let mut ends = Vec::new();
            assert!(layout.split(bytes, &mut ends), "{layout:?} {bytes:?}");
            ends
        };
        assert_eq!(ends(key(&table, 0), &encoded.key), [8, 14]);
        // 200 bytes of text have a length prefix of two bytes.
        assert_eq!(
            value(&table, 0).map(|layout| ends(layout, &encoded.value)),
            Some(vec![1, 5, 207])
        );
        assert_eq!(ends(key(&table, 1), &encoded.index_keys[0]), [202, 206, 214, 220]);
        assert_eq!(value(&table, 1), None);
        assert!(key(&Table::raw("r", 20), 0).split(&[0; 20], &mut Vec::new()));
    }
}
