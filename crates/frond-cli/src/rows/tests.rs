//! The invariants of rows.

use proptest::prelude::*;

use super::*;

fn header(columns: usize, key: &[&str], indexes: &[&str], more: bool) -> Header {
    let parse = |names: &[&str]| {
        names.iter().map(|name| KeyColumn::parse(name).expect("a column")).collect()
    };
    Header {
        frond_rows: VERSION,
        columns: (0..columns).map(|at| format!("c{at}")).collect(),
        key: parse(key),
        indexes: parse(indexes),
        more,
    }
}

proptest! {
    /// Invariants 1 and 2.
    #[test]
    fn record_is_restored_from_key_and_row(
        values in prop::collection::vec(
            prop::option::of(prop::collection::vec(any::<u8>(), 0..200)), 12),
        id: i64,
        late in prop::collection::vec(("[a-z]{1,5}", prop::collection::vec(any::<u8>(), 0..9)), 0..3),
        numbered: bool,
    ) {
        let key: &[&str] = if numbered { &[] } else { &["c11", "c2:int"] };
        let header = header(12, key, &["c5", "c2:int"], true);
        prop_assert_eq!(Header::from_attributes(&header.to_attributes()), Some(header.clone()));
        let mut values = values;
        values[2] = Some(id.to_string().into_bytes());
        values[11].get_or_insert_default();
        let mut builder = RowBuilder::new(&header);
        builder.set(0, b"forgotten");
        builder.clear();
        for (column, value) in values.iter().enumerate() {
            if let Some(value) = value {
                builder.set(column, value);
            }
        }
        for (name, value) in &late {
            builder.set_more(name, value);
        }
        builder.finish(&header, 7).expect("key columns are there");
        let mut expected: Vec<Field> = values.iter().enumerate()
            .filter_map(|(at, value)| Some((format!("c{at}"), value.clone()?))).collect();
        expected.extend(late);
        prop_assert_eq!(header.decode(builder.key(), builder.row()), Ok(expected));
        let mut ends = Vec::new();
        prop_assert!(header.key_layout().split(builder.key(), &mut ends));
        prop_assert!(header.row_layout().split(builder.row(), &mut ends));
        let mut index_key = Vec::new();
        for (index, column) in header.indexes.iter().enumerate() {
            builder.index_key(&header, index, &mut index_key).expect("an integer");
            prop_assert!(header.index_layout(column).split(&index_key, &mut ends));
            let at: usize = column.name[1..].parse().expect("a number");
            prop_assert_eq!(
                header.decode_index_key(column, &index_key),
                Ok((values[at].clone(), builder.key()))
            );
        }
    }

    /// Invariant 3.
    #[test]
    fn any_bytes_are_a_row_or_refused(
        key in prop::collection::vec(any::<u8>(), 0..20),
        row in prop::collection::vec(prop_oneof![0u8..5, any::<u8>()], 0..30),
    ) {
        for header in [header(3, &["c0"], &[], false), header(20, &[], &[], true)] {
            let _ = header.decode(&key, &row);
            let _ = header.decode_index_key(&KeyColumn::parse("c1").expect("a column"), &key);
        }
    }
}

#[test]
fn integer_keys_sort_numerically() {
    let header = header(1, &["c0:int"], &[], false);
    let key = |text: &str| header.key_of(&[text.to_owned()]);
    assert!(key("-5") < key("3") && key("3") < key("20"));
    for bad in ["007", "+1", "1.5", "", "9223372036854775808"] {
        assert_eq!(key(bad), Err("column \"c0\" is not an integer of 64 bits".to_owned()));
    }
}

#[test]
fn record_without_its_key_is_refused() {
    let header = header(2, &["c1"], &[], false);
    let mut builder = RowBuilder::new(&header);
    builder.set(0, b"x");
    assert_eq!(
        builder.finish(&header, 0),
        Err("there is no \"c1\", which is of the key".to_owned())
    );
}

#[test]
fn key_columns_are_read_with_their_kind() {
    let column = |text| KeyColumn::parse(text).map(|column| (column.name, column.kind));
    assert_eq!(column("a:int"), Ok(("a".to_owned(), ColumnKind::Int)));
    assert_eq!(column("a:b"), Ok(("a:b".to_owned(), ColumnKind::Text)));
    assert!(column(":int").is_err() && column("").is_err());
}
